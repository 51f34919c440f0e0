/* Derived datatypes at both sides: against MPI_Pack of the same data. */
#include "check.h"

static MPI_Win win;
static char *part;
enum { BYTES = 65536, LONGEST_REPEATED = 3000 };

static int *numbers(void) {
    static int values[BYTES / sizeof(int)];
    for (size_t i = 0; i < BYTES / sizeof(int); i++) values[i] = rank_ * 100000 + (int)i;
    return values;
}

/* Puts `count` items of a type in place, and packed to the next rank; both arrive as MPI_Unpack
 * would store them. Then gets them back. */
static void moved(const char *name, MPI_Datatype type, int count) {
    int *mine = numbers(), next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_, bytes, at = 0;
    char text[96], *packed = malloc(BYTES), *expected = calloc(1, BYTES), *theirs = malloc(BYTES), *back = calloc(1, BYTES);
    MPI_Type_size(type, &bytes);
    bytes *= count;
    MPI_Pack(mine, count, type, packed, BYTES, &at, MPI_COMM_WORLD);
    MPI_Sendrecv(packed, bytes, MPI_BYTE, next, 0, theirs, bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    at = 0;
    MPI_Unpack(theirs, BYTES, &at, expected, count, type, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    memset(part, 0, BYTES);
    MPI_Win_fence(0, win);
    MPI_Put(mine, count, type, next, 0, count, type, win);
    MPI_Win_fence(0, win);
    snprintf(text, sizeof text, "%s: put", name);
    check(text, memcmp(part, expected, BYTES));
    memset(part, 0, BYTES);
    MPI_Win_fence(0, win);
    MPI_Put(packed, bytes, MPI_BYTE, next, 0, count, type, win);
    MPI_Win_fence(0, win);
    snprintf(text, sizeof text, "%s: put from one run", name);
    check(text, memcmp(part, expected, BYTES));
    MPI_Get(back, count, type, next, 0, count, type, win);
    MPI_Win_fence(0, win);
    at = 0;
    char *again = calloc(1, BYTES);
    MPI_Unpack(packed, BYTES, &at, again, count, type, MPI_COMM_WORLD);
    snprintf(text, sizeof text, "%s: get", name);
    check(text, memcmp(back, again, BYTES));
    memset(part, 0, BYTES);
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, count, type, next, 0, count, type, MPI_REPLACE, win);
    MPI_Win_fence(0, win);
    snprintf(text, sizeof text, "%s: accumulate", name);
    check(text, memcmp(part, expected, BYTES));
    free(packed), free(expected), free(theirs), free(back), free(again);
}

static void made(const char *name, MPI_Datatype *type, int count) {
    MPI_Type_commit(type);
    moved(name, *type, count);
    MPI_Type_free(type);
}

static void constructors(void) {
    MPI_Datatype type, other;
    int lengths[] = {3, 1, 4}, places[] = {20, 2, 7}, sizes[] = {6, 8}, subsizes[] = {3, 4}, starts[] = {2, 1};
    MPI_Aint far[] = {80, 8, 28};
    MPI_Type_contiguous(7, MPI_INT, &type), made("contiguous", &type, 3);
    MPI_Type_vector(5, 2, 3, MPI_INT, &type), made("vector", &type, 1);
    MPI_Type_vector(5, 2, 3, MPI_INT, &type), made("vector, three", &type, 3);
    MPI_Type_create_hvector(4, 1, 20, MPI_INT, &type), made("hvector", &type, 2);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type), made("indexed", &type, 1);
    MPI_Type_create_hindexed(3, lengths, far, MPI_INT, &type), made("hindexed", &type, 1);
    MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &type), made("indexed_block", &type, 1);
    MPI_Type_create_hindexed_block(3, 2, far, MPI_INT, &type), made("hindexed_block", &type, 1);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), made("subarray", &type, 2);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    made("subarray of Fortran's order", &type, 1);
    MPI_Type_create_resized(MPI_INT, 0, 12, &type), made("resized", &type, 6);
    MPI_Type_create_resized(MPI_INT, 0, 12, &other);
    MPI_Type_vector(3, 2, 4, other, &type), MPI_Type_free(&other), made("vector of resized, whose part is freed", &type, 2);
    MPI_Type_vector(5, 2, 3, MPI_INT, &other);
    MPI_Type_dup(other, &type), MPI_Type_free(&other), made("dup of what is freed", &type, 1);
    MPI_Type_create_hvector(2, 1, 200, MPI_INT, &other);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    MPI_Datatype parts[] = {MPI_INT, other, type};
    int ones[] = {2, 1, 1};
    MPI_Aint at[] = {0, 16, 400};
    MPI_Datatype all;
    MPI_Type_create_struct(3, ones, at, parts, &all), MPI_Type_free(&other), MPI_Type_free(&type);
    made("struct", &all, 1);
}

/* Distributed arrays (MPI-4.1, 5.1.4): the part of each of six processes, in both orders. */
static void distributed(void) {
    static const int deals[][2] = {{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG},
                                   {MPI_DISTRIBUTE_BLOCK, 9},
                                   {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG},
                                   {MPI_DISTRIBUTE_CYCLIC, 2},
                                   {MPI_DISTRIBUTE_CYCLIC, 7}};
    int sizes[] = {5, 17, 11}, processes[] = {1, 2, 3};
    for (int a = 0; a < 5; a++)
        for (int process = 0; process < 6; process++) {
            int b = (a + process) % 5, order = (a + process) % 2 ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
            int kinds[] = {MPI_DISTRIBUTE_NONE, deals[a][0], deals[b][0]};
            int blocks[] = {MPI_DISTRIBUTE_DFLT_DARG, deals[a][1], deals[b][1]};
            char name[64];
            MPI_Datatype type;
            snprintf(name, sizeof name, "darray %d and %d of process %d", a, b, process);
            MPI_Type_create_darray(6, process, 3, sizes, kinds, blocks, processes, order, MPI_INT, &type);
            made(name, &type, process == 3 ? 2 : 1);
        }
}

/* Types by precision and by size, and types made of them, which need not be freed. */
static void parametrized(void) {
    MPI_Datatype type, vector;
    MPI_Type_create_f90_real(15, 200, &type), moved("real of 15 digits", type, 8);
    MPI_Type_vector(4, 1, 2, type, &vector), made("vector of these", &vector, 2);
    MPI_Type_create_f90_complex(6, 30, &type), moved("complex of 6 digits", type, 8);
    MPI_Type_create_f90_integer(9, &type), moved("integer of 9 digits", type, 8);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type), moved("real of 8 bytes", type, 8);
    MPI_Type_create_f90_real(15, 200, &type);
    int next = (rank_ + 1) % size_, i = (rank_ + size_ - 1) % size_;
    double *sums = (double *)part, mine[3] = {rank_ + 0.5, rank_, 1};
    MPI_Win_fence(0, win);
    for (int at = 0; at < 3; at++) sums[at] = 0.25;
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, 3, type, next, 0, 3, type, MPI_SUM, win);
    MPI_Win_fence(0, win);
    check("sums of these", sums[0] != i + 0.75 || sums[1] != i + 0.25 || sums[2] != 1.25);
}

/* A structure of several basic types, and a pair type with a gap: puts take them, and accumulates
 * that only move data, as in MPIs. */
static void mixed(void) {
    struct record { char tag; double value; short small; } mine[4], back[4];
    MPI_Datatype type, record, parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    int ones[] = {1, 1, 1}, next = (rank_ + 1) % size_;
    MPI_Aint at[] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, small)};
    MPI_Type_create_struct(3, ones, at, parts, &type);
    MPI_Type_create_resized(type, 0, sizeof(struct record), &record);
    MPI_Type_commit(&record);
    memset(mine, 0, sizeof mine), memset(back, 0, sizeof back);
    for (int i = 0; i < 4; i++) mine[i].tag = (char)('a' + i), mine[i].value = rank_ + i * 0.5, mine[i].small = (short)i;
    MPI_Win_fence(0, win);
    MPI_Put(mine, 4, record, next, 0, 4, record, win);
    MPI_Win_fence(0, win);
    MPI_Get(back, 4, record, next, 0, 4, record, win);
    MPI_Win_fence(0, win);
    long bad = 0;
    for (int i = 0; i < 4; i++)
        bad |= mine[i].tag != back[i].tag || mine[i].value != back[i].value || mine[i].small != back[i].small;
    check("a structure of several types", bad);
    for (int i = 0; i < 4; i++) mine[i].value += 10;
    memset(back, 0, sizeof back);
    MPI_Accumulate(mine, 4, record, next, 0, 4, record, MPI_REPLACE, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(NULL, 0, MPI_BYTE, back, 4, record, next, 0, 4, record, MPI_NO_OP, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 4; i++)
        bad |= mine[i].tag != back[i].tag || mine[i].value != back[i].value || mine[i].small != back[i].small;
    check("a structure is replaced and read", bad);
    MPI_Type_free(&type);
    MPI_Type_free(&record);
    struct { short value; int at; } pairs[3] = {{1, 2}, {3, 4}, {5, 6}}, again[3];
    memset(again, 0, sizeof again);
    MPI_Put(pairs, 3, MPI_SHORT_INT, next, 0, 3, MPI_SHORT_INT, win);
    MPI_Win_fence(0, win);
    MPI_Get(again, 3, MPI_SHORT_INT, next, 0, 3, MPI_SHORT_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++) bad |= again[i].value != pairs[i].value || again[i].at != pairs[i].at;
    check("a pair type with a gap", bad);
}

/* MPI_REPLACE and MPI_NO_OP with other basic types at the origin than at the target, as programs of
 * MPICH's test suite use them: the bytes are moved. */
static void replaced_as_bytes(void) {
    double mine[6], back[6] = {0}, *there = (double *)part;
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    long bad = 0;
    MPI_Datatype spread;
    MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &spread);
    MPI_Type_commit(&spread);
    for (int i = 0; i < 6; i++) mine[i] = rank_ + i * 0.25;
    for (int way = 0; way < 3; way++) {
        MPI_Win_fence(0, win);
        memset(part, 0xff, 64);
        MPI_Win_fence(0, win);
        if (way == 0) MPI_Accumulate(mine, 3 * sizeof *mine, MPI_CHAR, next, 0, 1, spread, MPI_REPLACE, win);
        if (way == 1) MPI_Accumulate(mine, 1, spread, next, 0, 3 * sizeof *mine, MPI_BYTE, MPI_REPLACE, win);
        if (way == 2) MPI_Accumulate(mine, 6, MPI_INT, next, 0, 6 * sizeof(int), MPI_BYTE, MPI_REPLACE, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 3; i++) bad |= there[way == 0 ? 2 * i : i] != last + (way == 1 ? 2 * i : i) * 0.25;
    }
    MPI_Get_accumulate(NULL, 0, MPI_INT, back, 3 * sizeof *back, MPI_CHAR, next, 0, 3, MPI_DOUBLE, MPI_NO_OP, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++) bad |= back[i] != rank_ + i * 0.25;
    check("replaced as bytes", bad);
    MPI_Type_free(&spread);
}

/* Handles are reused: types that are made and freed in turn are never mistaken for each other. */
static void recycled(void) {
    int mine[64], next = (rank_ + 1) % size_;
    long bad = 0;
    for (int i = 0; i < 64; i++) mine[i] = i + 1;
    for (int round = 1; round <= 40; round++) {
        MPI_Datatype type;
        MPI_Type_vector(4, 1, 1 + round % 7, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Win_fence(0, win);
        memset(part, 0, 256);
        MPI_Win_fence(0, win);
        MPI_Put(mine, 4, MPI_INT, next, 0, 1, type, win);
        /* Freed while the operation may be in flight (MPI-4.1 section 12.3). */
        MPI_Type_free(&type);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 4; i++)
            if (((int *)part)[i * (1 + round % 7)] != i + 1) bad = round;
    }
    check("freed types' handles are used again", bad);
}

/* The side that receives may be longer than the data (MPI-4.1 sections 12.3.1 and 12.3.2): what
 * follows the data is not written. */
static void longer(void) {
    int next = (rank_ + 1) % size_, mine[12], *there = (int *)part;
    long bad = 0;
    MPI_Datatype pairs;
    MPI_Request request;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 12; i++) mine[i] = 100 * way + i;
        MPI_Win_fence(0, win);
        memset(part, 0xff, 256);
        MPI_Win_fence(way == 2 ? MPI_MODE_NOSUCCEED : 0, win);
        if (way == 0) MPI_Put(mine, 4, MPI_INT, next, 0, 9, MPI_INT, win);
        if (way == 1) MPI_Put(mine, 4, MPI_INT, next, 0, 9, pairs, win);
        if (way == 2) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
            MPI_Rput(mine, 4, MPI_INT, next, 0, 9, MPI_INT, win, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Win_unlock(next, win);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Win_fence(0, win);
        /* The locations of four numbers: items of two with a gap between them, side by side. */
        static const int apart[] = {0, 2, 3, 5};
        for (int i = 0, k = 0; i < 12; i++) {
            int is_data = k < 4 && i == (way == 1 ? apart[k] : k);
            if (there[i] != (is_data ? 100 * way + k : -1)) bad = 10 * way + i + 1;
            k += is_data;
        }
    }
    check("a put into a longer target", bad);
    bad = 0;
    for (int way = 0; way < 3; way++) {
        MPI_Win_fence(0, win);
        for (int i = 0; i < 12; i++) there[i] = 50 * rank_ + i, mine[i] = -1;
        MPI_Win_fence(way == 2 ? MPI_MODE_NOSUCCEED : 0, win);
        if (way == 0) MPI_Get(mine, 9, MPI_INT, next, 4, 4, MPI_INT, win);
        if (way == 1) MPI_Get(mine, 9, MPI_INT, next, 4, 2, pairs, win);
        if (way == 2) {
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
            MPI_Rget(mine, 9, MPI_INT, next, 4, 0, MPI_INT, win, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Rget(mine, 9, MPI_INT, next, 4, 4, MPI_INT, win, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Win_unlock(next, win);
        }
        if (way != 2) MPI_Win_fence(0, win);
        static const int apart[] = {1, 3, 4, 6};
        for (int i = 0; i < 12; i++)
            if (mine[i] != (i >= 4 ? -1 : 50 * next + (way == 1 ? apart[i] : i + 1))) bad = 10 * way + i + 1;
    }
    check("a get into a longer origin", bad);
    MPI_Type_free(&pairs);
}

/* The target of a get is only read: its entries may overlap (MPI-4.1 section 12.3.2), as those of a
 * put's origin. */
static void overlapping(void) {
    int next = (rank_ + 1) % size_, mine[6], *there = (int *)part;
    static const int places[2][6] = {{0, 1, 1, 2, 2, 3}, {3, 3, 3, 3, 3, 3}};
    long bad = 0;
    MPI_Datatype types[2];
    MPI_Request request;
    MPI_Type_vector(3, 2, 1, MPI_INT, &types[0]);
    MPI_Type_create_hindexed_block(6, 1, (MPI_Aint[]){12, 12, 12, 12, 12, 12}, MPI_INT, &types[1]);
    for (int which = 0; which < 2; which++) {
        MPI_Type_commit(&types[which]);
        for (int way = 0; way < 3; way++) {
            MPI_Win_fence(0, win);
            for (int i = 0; i < 12; i++) there[i] = 50 * rank_ + i;
            MPI_Win_fence(way ? MPI_MODE_NOSUCCEED : 0, win);
            if (way) MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
            if (way < 2) MPI_Get(mine, 6, MPI_INT, next, 8, 1, types[which], win);
            if (way == 2) {
                MPI_Rget(mine, 6, MPI_INT, next, 8, 1, types[which], win, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            if (way) MPI_Win_unlock(next, win);
            else MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            for (int i = 0; i < 6; i++)
                if (mine[i] != 50 * next + 2 + places[which][i]) bad = 100 * which + 10 * way + i + 1;
            MPI_Win_fence(0, win);
            MPI_Put(there + 2, 1, types[which], next, 48, 6, MPI_INT, win);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            for (int i = 0; i < 6; i++)
                if (there[12 + i] != 50 * ((rank_ + size_ - 1) % size_) + 2 + places[which][i]) bad = 1000 + i;
        }
        MPI_Type_free(&types[which]);
    }
    check("entries that are only read overlap", bad);
}

/* Types without data, a structure without parts among them. */
static void empty(void) {
    MPI_Datatype types[4];
    int mine = 5, next = (rank_ + 1) % size_, *there = (int *)part;
    long bad = 0;
    MPI_Type_contiguous(0, MPI_INT, &types[0]);
    MPI_Type_create_struct(0, NULL, NULL, NULL, &types[1]);
    MPI_Type_indexed(0, NULL, NULL, MPI_INT, &types[2]);
    MPI_Type_create_hindexed_block(0, 3, NULL, MPI_INT, &types[3]);
    for (int i = 0; i < 4; i++) MPI_Type_commit(&types[i]);
    for (int i = 0; i < 4; i++) {
        MPI_Win_fence(0, win);
        there[0] = 77;
        MPI_Win_fence(0, win);
        MPI_Put(NULL, 5, types[i], next, 0, 3, types[i], win);
        MPI_Put(&mine, 0, MPI_INT, next, 0, 7, types[i], win);
        MPI_Get(&mine, 0, MPI_INT, next, 0, 2, types[i], win);
        MPI_Get(NULL, 2, types[i], next, 0, 2, types[3 - i], win);
        MPI_Accumulate(NULL, 2, types[i], next, 0, 2, types[i], MPI_SUM, win);
        MPI_Win_fence(0, win);
        if (there[0] != 77 || mine != 5) bad = i + 1;
    }
    for (int i = 0; i < 4; i++) MPI_Type_free(&types[i]);
    check("types without data", bad);
}

/* MPI allows no overlapping entries at a target that is written, but MPIs combine them one after
 * another, and programs rely on it: several leaves of one rank have the same root. */
static void repeated(void) {
    int places[5] = {2, 0, 2, 2, 1}, slots[LONGEST_REPEATED];
    long mine[5] = {1, 10, 100, 1000, 10000}, old[5], *part, bad = 0;
    MPI_Datatype few, many;
    MPI_Win win;
    static long memory[4];
    part = memory;
    MPI_Win_create(part, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < LONGEST_REPEATED; i++) slots[i] = i % 3;
    MPI_Type_create_indexed_block(5, 1, places, MPI_LONG, &few);
    MPI_Type_create_indexed_block(LONGEST_REPEATED, 1, slots, MPI_LONG, &many);
    MPI_Type_commit(&few), MPI_Type_commit(&many);
    static long ones[LONGEST_REPEATED];
    for (int i = 0; i < LONGEST_REPEATED; i++) ones[i] = 1;
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, 5, MPI_LONG, 0, 0, 1, few, MPI_SUM, win);
    MPI_Accumulate(ones, LONGEST_REPEATED, MPI_LONG, 0, 0, 1, many, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (rank_ == 0) {
        for (int i = 0; i < 3; i++) bad |= part[i] != size_ * ((i == 0 ? 10 : i == 1 ? 10000 : 1101) + LONGEST_REPEATED / 3);
    }
    check("accumulates on entries that repeat", bad);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == size_ - 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get_accumulate(mine, 5, MPI_LONG, old, 5, MPI_LONG, 0, 0, 1, few, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        bad = old[2] != old[0] + 1 || old[3] != old[2] + 100;
    }
    check("get_accumulates on entries that repeat", bad);
    MPI_Type_free(&few), MPI_Type_free(&many);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    constructors();
    distributed();
    parametrized();
    mixed();
    replaced_as_bytes();
    recycled();
    longer();
    overlapping();
    repeated();
    empty();
    MPI_Win_free(&win);
    return end();
}
