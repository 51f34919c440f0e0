/* Data that end within an item of the receiving side's datatype (MPI-4.1 sections 12.3.1 and
 * 12.3.2): the locations of the data are written and no others. Each receiving side is expanded to
 * its bytes by the MPI's own packing. */
#include "check.h"

#include "../../include/transom_mpi_notify.h"

enum { INTS = 96, TYPES = 6, CASES = 72, ALL = CASES * INTS, LONG = 20000 };

enum way { PUT, RPUT, PUT_NOTIFY, RPUT_NOTIFY, GET, RGET, GET_NOTIFY, RGET_NOTIFY, ADD, FETCH, RFETCH, WAYS };

static int next_, before_;

/* The receiving types, all of int. */
static MPI_Datatype type_of(int which) {
    MPI_Datatype type, old;
    switch (which) {
    case 0: MPI_Type_contiguous(4, MPI_INT, &type); break;
    case 1: MPI_Type_vector(3, 1, 2, MPI_INT, &type); break;
    case 2: MPI_Type_indexed(3, (int[]){2, 1, 3}, (int[]){4, 0, 8}, MPI_INT, &type); break;
    case 3: MPI_Type_create_subarray(2, (int[]){4, 4}, (int[]){2, 3}, (int[]){1, 1}, MPI_ORDER_C, MPI_INT, &type); break;
    case 4:
        MPI_Type_vector(2, 2, 3, MPI_INT, &old);
        MPI_Type_create_hvector(2, 1, 44, old, &type);
        MPI_Type_free(&old);
        break;
    default:
        MPI_Type_contiguous(5, MPI_INT, &old);
        MPI_Type_create_resized(old, 0, 32, &type);
        MPI_Type_free(&old);
    }
    MPI_Type_commit(&type);
    return type;
}

/* Writes `n` numbers to the locations that a side of `items` items gives them. */
static void expand(const int *from, int n, int *to, int items, MPI_Datatype type) {
    int packed[INTS], size, at = 0;
    MPI_Type_size(type, &size);
    MPI_Pack(to, items, type, packed, sizeof packed, &at, MPI_COMM_SELF);
    memcpy(packed, from, (size_t)n * sizeof *from);
    at = 0;
    MPI_Unpack(packed, size * items, &at, to, items, type, MPI_COMM_SELF);
}

static int gets(enum way way) {
    return way >= GET && way <= RGET_NOTIFY;
}

static int fetches(enum way way) {
    return way == FETCH || way == RFETCH;
}

/* The operation itself: `n` ints from this process to the window, or back. */
static void perform(enum way way, int *here, int n, MPI_Aint at, int items, MPI_Datatype type, int *result, MPI_Win win) {
    MPI_Request q = MPI_REQUEST_NULL;
    switch (way) {
    case PUT: MPI_Put(here, n, MPI_INT, next_, at, items, type, win); break;
    case RPUT: MPI_Rput(here, n, MPI_INT, next_, at, items, type, win, &q); break;
    case PUT_NOTIFY: MPI_Put_notify(here, n, MPI_INT, next_, at, items, type, 0, win); break;
    case RPUT_NOTIFY: MPI_Rput_notify(here, n, MPI_INT, next_, at, items, type, 0, win, &q); break;
    case GET: MPI_Get(here, items, type, next_, at, n, MPI_INT, win); break;
    case RGET: MPI_Rget(here, items, type, next_, at, n, MPI_INT, win, &q); break;
    case GET_NOTIFY: MPI_Get_notify(here, items, type, next_, at, n, MPI_INT, 0, win); break;
    case RGET_NOTIFY: MPI_Rget_notify(here, items, type, next_, at, n, MPI_INT, 0, win, &q); break;
    case ADD: MPI_Accumulate(here, n, MPI_INT, next_, at, items, type, MPI_SUM, win); break;
    case FETCH:
        MPI_Get_accumulate(here, n, MPI_INT, result, items, type, next_, at, n, MPI_INT, MPI_SUM, win);
        break;
    default:
        MPI_Rget_accumulate(here, n, MPI_INT, result, items, type, next_, at, n, MPI_INT, MPI_SUM, win, &q);
    }
    if (q != MPI_REQUEST_NULL) MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* A case: `n` numbers for a side of `items` items of a type. Each case has its own ints of the
 * window and of the buffers, and all cases run in one epoch. */
static struct one {
    int which, items, n;
} cases[CASES];
static int count, here[ALL], theirs[ALL], expected[ALL], result[ALL], data[ALL];
static MPI_Datatype types[TYPES];

static void list(void) {
    for (int which = 0; which < TYPES; which++) {
        int size;
        types[which] = type_of(which);
        MPI_Type_size(types[which], &size);
        size /= (int)sizeof(int);
        for (int items = 1; items <= 3; items += 2) {
            const int counts[] = {0, 1, size - 1, size + 1, items * size - 1, items * size};
            for (int i = 0; i < 6; i++)
                if (counts[i] <= items * size) cases[count++] = (struct one){which, items, counts[i]};
        }
    }
}

/* All cases of one way, and all bytes that they may have written; 0 or what is wrong. */
static long of_way(enum way way, MPI_Aint at, int *part, MPI_Win win) {
    long bad = 0;
    for (int i = 0; i < ALL; i++) {
        part[i] = 100000 * rank_ + i;
        theirs[i] = 100000 * next_ + i;
        here[i] = data[i] = 7000000 + 100000 * rank_ + i;
        result[i] = -1;
    }
    memcpy(expected, gets(way) ? data : result, sizeof expected);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_, 0, win);
    for (int c = 0; c < count; c++) {
        MPI_Aint place = at + c * INTS * (MPI_Aint)sizeof(int);
        struct one it = cases[c];
        perform(way, here + c * INTS, it.n, place, it.items, types[it.which], result + c * INTS, win);
    }
    MPI_Win_unlock(next_, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int c = 0; c < count && (gets(way) || fetches(way)); c++)
        expand(theirs + c * INTS, cases[c].n, expected + c * INTS, cases[c].items, types[cases[c].which]);
    if (gets(way)) bad |= memcmp(here, expected, sizeof here) != 0;
    if (fetches(way)) bad |= (memcmp(result, expected, sizeof result) != 0) << 1;
    /* The process before this one has written to this part. */
    for (int i = 0; i < ALL; i++) {
        expected[i] = 100000 * rank_ + i;
        data[i] = 7000000 + 100000 * before_ + i;
        theirs[i] = i, result[i] = -1;
    }
    for (int c = 0; c < count && !gets(way); c++) {
        struct one it = cases[c];
        int *to = (way < GET ? expected : result) + c * INTS, *from = (way < GET ? data : theirs) + c * INTS;
        if (fetches(way)) memcpy(to, from, (size_t)it.n * sizeof *to);
        else expand(from, it.n, to, it.items, types[it.which]);
    }
    /* Accumulates: the number at the origin that each location of the target got, or -1. */
    for (int i = 0; i < ALL; i++)
        if (result[i] >= 0) expected[i] += data[result[i]];
    return bad | (memcmp(part, expected, sizeof expected) != 0) << 2;
}

static void every(const char *name, int *part, MPI_Aint at, MPI_Win win) {
    int served = by_transom();
    if (served) MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1);
    for (enum way way = 0; way < WAYS; way++) {
        int notifies = way == PUT_NOTIFY || way == RPUT_NOTIFY || way == GET_NOTIFY || way == RGET_NOTIFY;
        /* Of accumulates the hosts expect sides of equal lengths. */
        if (!served && (notifies || way == ADD)) continue;
        char text[100];
        snprintf(text, sizeof text, "%s, way %d", name, way);
        check(text, of_way(way, at, part, win));
    }
}

/* Basic types of several sizes: an item of a structure is cut in its gap, and within a number of
 * bytes. */
static void structures(void) {
    struct item {
        char letter;
        double number;
        short last;
    };
    MPI_Datatype type;
    MPI_Win win;
    struct item *part, mine[3];
    long bad = 0;
    char data[22], byte;
    MPI_Type_create_struct(3, (int[]){1, 1, 1},
                           (MPI_Aint[]){offsetof(struct item, letter), offsetof(struct item, number), offsetof(struct item, last)},
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &type);
    MPI_Type_commit(&type);
    MPI_Win_allocate(3 * (MPI_Aint)sizeof(struct item), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    for (int n = 0; n <= 22; n++) {
        memset(part, 0x55, 3 * sizeof *part);
        memset(mine, 0x55, sizeof mine);
        for (int i = 0; i < 22; i++) data[i] = (char)(n + i);
        MPI_Win_fence(0, win);
        /* As bytes, which MPIs let match numbers. */
        MPI_Put(data, n, MPI_BYTE, next_, 0, 3, type, win);
        MPI_Win_fence(0, win);
        /* The bytes of an item, in the order of its type map. */
        for (int i = 0, k = 0; i < 33; i++) {
            int in = i % 11;
            size_t at = in == 0 ? 0 : in < 9 ? offsetof(struct item, number) + (size_t)in - 1 : offsetof(struct item, last) + (size_t)in - 9;
            byte = ((char *)&part[i / 11])[at];
            if (byte != (k < n ? (char)(n + k) : 0x55)) bad = 100 * n + i + 1;
            k++;
        }
    }
    check("structures cut at every byte", bad);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
}

/* Many items, more than one message. */
static void long_ones(void) {
    MPI_Datatype type;
    MPI_Win win;
    int *part, *mine = malloc(LONG * sizeof(int));
    long bad = 0;
    MPI_Type_vector(7, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Win_allocate(2 * LONG * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    for (int i = 0; i < LONG; i++) mine[i] = i + rank_;
    for (int i = 0; i < 2 * LONG; i++) part[i] = -1;
    MPI_Win_fence(0, win);
    int n = LONG - 3;
    MPI_Put(mine, n, MPI_INT, next_, 0, LONG / 7, type, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 2 * LONG; i++) {
        int item = i / 13, in = i % 13, k = item * 7 + in / 2;
        int expected = in % 2 == 0 && k < n ? k + before_ : -1;
        if (part[i] != expected) bad = i + 1;
    }
    check("a long put", bad);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    free(mine);
}

/* Pairs with padding: 2 pairs by an item of 3. Blocks of length 0, or of a type without data,
 * forbid no operation. */
static void pairs_and_empty_blocks(void) {
    struct { double value; int place; } *part, mine[2] = {{rank_ + 1.5, rank_}, {rank_ + 2.5, rank_}};
    MPI_Datatype three, with_empty, none, with_none;
    MPI_Win win;
    MPI_Aint at[2] = {0, 0};
    int lengths[2] = {1, 0}, bits = 1 << rank_, *word;
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_contiguous(3, MPI_DOUBLE_INT, &three), MPI_Type_commit(&three);
    MPI_Type_create_struct(2, lengths, at, parts, &with_empty), MPI_Type_commit(&with_empty);
    MPI_Type_contiguous(0, MPI_DOUBLE, &none), lengths[1] = 1, parts[1] = none;
    MPI_Type_create_struct(2, lengths, at, parts, &with_none), MPI_Type_commit(&with_none);
    MPI_Win_allocate(3 * sizeof *part, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    for (int i = 0; i < 3; i++) part[i].value = -1, part[i].place = -1;
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, 2, MPI_DOUBLE_INT, next_, 0, 1, three, MPI_MAXLOC, win);
    MPI_Win_fence(0, win);
    long bad = part[2].place != -1;
    for (int i = 0; i < 2; i++) bad |= part[i].value != before_ + 1.5 + i || part[i].place != before_;
    check("pairs that end within an item", bad);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof *word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    *word = 0;
    MPI_Win_fence(0, win);
    MPI_Accumulate(&bits, 1, MPI_INT, 0, 0, 1, with_empty, MPI_BOR, win);
    MPI_Win_fence(0, win);
    check("an empty block beside the data", rank_ == 0 && *word != (1 << size_) - 1);
    *word = 0;
    MPI_Win_fence(0, win);
    MPI_Accumulate(&bits, 1, MPI_INT, 0, 0, 1, with_none, MPI_BOR, win);
    MPI_Win_fence(0, win);
    check("a type without data beside the data", rank_ == 0 && *word != (1 << size_) - 1);
    MPI_Win_free(&win);
    MPI_Type_free(&three), MPI_Type_free(&with_empty), MPI_Type_free(&none), MPI_Type_free(&with_none);
}

int main(int argc, char **argv) {
    static int own[ALL];
    int *part;
    MPI_Win win;
    MPI_Aint address, at;
    begin(&argc, &argv);
    next_ = (rank_ + 1) % size_;
    before_ = (rank_ + size_ - 1) % size_;
    list();
    MPI_Win_allocate(sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    every("allocated", part, 0, win);
    MPI_Win_free(&win);
    MPI_Win_create(own, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    every("created", own, 0, win);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, own, sizeof own);
    MPI_Get_address(own, &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, before_, 0, &at, 1, MPI_AINT, next_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    every("dynamic", own, at, win);
    MPI_Win_detach(win, own);
    MPI_Win_free(&win);
    for (int which = 0; which < TYPES; which++) MPI_Type_free(&types[which]);
    structures();
    long_ones();
    pairs_and_empty_blocks();
    return end();
}
