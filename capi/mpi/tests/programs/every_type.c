/* Every predefined type of the MPI, with every operation, every function of the accumulate family,
 * counts and layouts. MPI_Reduce_local of the same elements gives the expected values. Rank 0 works
 * on the part of rank 1. Then all ranks add at the same time. */
#include "check.h"

#include <stdbool.h>

enum { MOST = 1000, WIDEST = 32, BYTES = 2 * MOST * WIDEST };

#if defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
#else
typedef long double quad;
#endif

/* kind: i u integers, I Fortran's, f float of any width, l long double, q IEEE of 128 bits, c
 * complex, b logical, y byte, n only moved, p pair of a C value and an int, r pair of two Fortran
 * numbers. `part`: the kind of a complex's or a pair's number. */
struct kind { const char *name; MPI_Datatype type; char kind, part; };
static struct kind kinds[128];
static int types;

static void add(const char *name, MPI_Datatype type, char kind, char part) {
    int size = 0;
    /* Types without which the MPI was built have no bytes, or are null. */
    if (type == MPI_DATATYPE_NULL || MPI_Type_size(type, &size) != MPI_SUCCESS || size == 0) return;
    kinds[types++] = (struct kind){name, type, kind, part};
}
#define ADD(type, kind, part) add(#type, type, kind, part);

static void list(void) {
#include "every_type.h"
}

/* The number `value` as `size` bytes of a kind, at `to`; returns the number of bytes that hold the
 * value. */
static size_t number(unsigned char *to, char kind, size_t size, int value) {
    if (kind == 'f' && size == 4) memcpy(to, &(float){(float)value}, 4);
    else if (kind == 'f' && size == 8) memcpy(to, &(double){value}, 8);
    else if (kind == 'l') {
        long double wide = value;
        memcpy(to, &wide, sizeof wide);
#ifdef __x86_64__
        return 10;
#endif
    }
    else if (kind == 'q') memcpy(to, &(quad){value}, 16);
#ifdef __FLT16_MAX__
    else if (kind == 'h') memcpy(to, &(_Float16){(_Float16)value}, 2);
#endif
    else {
        long long wide = kind == 'b' ? value > 0 : kind == 'u' || kind == 'y' ? value & 63 : value;
        memset(to, wide < 0 ? 0xff : 0, size);
        memcpy(to, &wide, size < 8 ? size : 8);
    }
    return size;
}

/* Fills one element, and in `mask` marks the bytes of its value. */
static void element(const struct kind *kind, unsigned char *to, unsigned char *mask, size_t size, size_t extent, int value) {
    size_t half = size / 2;
    if (kind->kind == 'c' || kind->kind == 'r') {
        size_t used = number(to, kind->part, half, value);
        number(to + half, kind->part, half, kind->kind == 'c' ? 2 - value : 7 * value % 5 + 5);
        memset(mask, 1, used), memset(mask + half, 1, used);
    } else if (kind->kind == 'p') {
        size_t index = extent - 4, wide = size - 4;
        if (kind->part == 'l' || size == 12) index = wide;
        if (kind->part == 's') index = 4;
        memset(mask, 1, number(to, kind->part == 's' ? 'i' : kind->part, wide, value));
        memcpy(to + index, &(int){7 * value % 5 + 5}, 4), memset(mask + index, 1, 4);
    } else {
        memset(mask, 1, number(to, kind->kind, size, value));
    }
}

static MPI_Win win;
static unsigned char *part;
static unsigned char origin[BYTES], before[BYTES], after[BYTES], expected[BYTES], result[BYTES], mask[BYTES];

static const char *const op_names[] = {"MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "MAXLOC",
                                       "MINLOC", "REPLACE", "NO_OP"};
static MPI_Op ops[14];
enum { REPLACE = 12, NO_OP = 13 };

enum function { ACCUMULATE, GET_ACCUMULATE, RACCUMULATE, RGET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, FUNCTIONS };
static const char *const function_names[] = {"accumulate",      "get_accumulate", "raccumulate",
                                             "rget_accumulate", "fetch_and_op",   "compare_and_swap"};

static int call(enum function function, int count, MPI_Datatype type, MPI_Op op, const void *compare) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    switch (function) {
    case ACCUMULATE: return MPI_Accumulate(origin, count, type, 1, 0, count, type, op, win);
    case GET_ACCUMULATE: return MPI_Get_accumulate(origin, count, type, result, count, type, 1, 0, count, type, op, win);
    case RACCUMULATE: code = MPI_Raccumulate(origin, count, type, 1, 0, count, type, op, win, &request); break;
    case RGET_ACCUMULATE:
        code = MPI_Rget_accumulate(origin, count, type, result, count, type, 1, 0, count, type, op, win, &request);
        break;
    case FETCH_AND_OP: return MPI_Fetch_and_op(origin, result, type, 1, 0, op, win);
    default: return MPI_Compare_and_swap(origin, compare, result, type, 1, 0, win);
    }
    if (code == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
}

static const char *class_name(int code) {
    static char text[32];
    int class = class_of(code);
    if (class == MPI_ERR_OP) return "MPI_ERR_OP";
    if (class == MPI_ERR_TYPE) return "MPI_ERR_TYPE";
    if (class == MPI_ERR_ARG) return "MPI_ERR_ARG";
    snprintf(text, sizeof text, "class %d", class);
    return text;
}

static bool differ(const unsigned char *a, const unsigned char *b, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i] && mask[i]) return true;
    return false;
}

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
/* Whether MPI-4.1 defines an operation on a type (6.9.2, 6.9.4), with the extensions that these
 * versions of MPICH compute. */
static bool is_defined(const struct kind *kind, int op) {
    bool whole = strchr("iuI", kind->kind), real = strchr("flqh", kind->kind);
    if (!strcmp(kind->name, "MPI_WCHAR")) whole = false;
    if (!strcmp(kind->name, "MPI_CHARACTER")) whole = true;
    switch (op) {
    case 0: case 1: return whole || real;
    case 2: case 3: return whole || real || kind->kind == 'c';
    case 4: case 6: case 8: return whole || kind->kind == 'b';
    case 5: case 7: case 9: return whole || kind->kind == 'y';
    case 10: case 11: return kind->kind == 'p' || kind->kind == 'r';
    default: return true;
    }
}
#endif

/* Fortran's REAL(16) and COMPLEX(16). Hosts treat them as C's long double, which is another format
 * than gfortran's. */
static int of_quads(int op, quad *old, const quad *new, bool complex) {
    quad a = old[0], b = complex ? old[1] : 0, c = new[0], d = complex ? new[1] : 0;
    if (op > 3 || (complex && op < 2)) return MPI_ERR_OP;
    old[0] = op == 0 ? (a > c ? a : c) : op == 1 ? (a < c ? a : c) : op == 2 ? a + c : a * c - b * d;
    if (complex) old[1] = op == 2 ? b + d : a * d + b * c;
    return MPI_SUCCESS;
}

static int of_element(const struct kind *kind, int op, void *in, void *out) {
    if (kind->kind == 'q' || kind->part == 'q') return of_quads(op, out, in, kind->kind == 'c');
    /* Open MPI treats it as an unsigned number. */
    MPI_Datatype type = kind->type == MPI_OFFSET ? MPI_INT64_T : kind->type;
    return PMPI_Reduce_local(in, out, 1, type, ops[op]);
}

/* The result of MPI_Reduce_local for each element, or its error. Some hosts abort a program that
 * uses an undefined operation. */
static int reduced(const struct kind *kind, int op, int items, size_t apart) {
    _Alignas(64) unsigned char in[WIDEST], out[WIDEST];
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
    if (!is_defined(kind, op)) return MPI_ERR_OP;
#endif
    for (int i = 0; i < items; i++) {
        memcpy(in, origin + (size_t)i * apart, WIDEST), memcpy(out, expected + (size_t)i * apart, WIDEST);
        int code = of_element(kind, op, in, out);
        if (code != MPI_SUCCESS) return code;
        memcpy(expected + (size_t)i * apart, out, apart < WIDEST ? apart : WIDEST);
    }
    return MPI_SUCCESS;
}

/* Fills both sides with `items` elements at a stride in bytes; returns the expected values, or an
 * error. */
static int prepared(const struct kind *kind, int op, bool swaps, int items, size_t apart, size_t bytes) {
    MPI_Aint lb, extent;
    int size;
    PMPI_Type_get_extent(kind->type, &lb, &extent);
    PMPI_Type_size(kind->type, &size);
    memset(mask, 0, sizeof mask), memset(origin, 0, bytes), memset(before, 0, bytes), memset(result, 0, bytes);
    for (int i = 0; i < items; i++) {
        size_t at = (size_t)i * apart;
        element(kind, origin + at, mask + at, (size_t)size, (size_t)extent, (i + 3) % 5 - 1);
        element(kind, before + at, mask + at, (size_t)size, (size_t)extent, i % 3);
    }
    memcpy(expected, before, bytes);
    if (swaps ? op == 0 : op == REPLACE) memcpy(expected, origin, bytes);
    return swaps || op >= REPLACE ? MPI_SUCCESS : reduced(kind, op, items, apart);
}

/* One call and its outcome; `step` is the stride in elements of the memory. */
static const char *one(const struct kind *kind, int op, enum function function, int count, MPI_Datatype type, int items, int step) {
    MPI_Aint lb, extent;
    PMPI_Type_get_extent(kind->type, &lb, &extent);
    size_t apart = (size_t)extent * (size_t)step, bytes = apart * (size_t)(items - 1) + (size_t)extent;
    bool swaps = function == COMPARE_AND_SWAP;
    int refused = prepared(kind, op, swaps, items, apart, bytes);
    /* Hosts do not check, and crash. */
    if (refused != MPI_SUCCESS && !by_transom()) return "undefined";
    MPI_Put(before, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
    int code = call(function, count, type, ops[op], op ? origin : before);
    MPI_Win_flush(1, win);
    bool fetches = function != ACCUMULATE && function != RACCUMULATE;
    if (op == NO_OP && !fetches && !swaps) refused = MPI_ERR_OP;
    if (code != MPI_SUCCESS) return refused && class_of(code) == MPI_ERR_OP ? "undefined" : class_name(code);
    if (refused) return "done, though undefined";
    MPI_Get(after, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
    if (differ(after, expected, bytes)) return "a wrong target";
    return fetches && differ(result, before, bytes) ? "a wrong result" : "right";
}

/* A function with an operation on a type, for several counts and layouts; returns the number of
 * wrong outcomes. */
static long tried(const struct kind *kind, int op, enum function function) {
    static const int counts[] = {1, 3, MOST};
    bool single = function >= FETCH_AND_OP, swaps = function == COMPARE_AND_SWAP;
    bool requested = function == RACCUMULATE || function == RGET_ACCUMULATE;
    long bad = 0;
    for (int layout = 0; layout < (single ? 1 : 2); layout++)
        for (int i = 0; i < (single ? 1 : 3); i++) {
            /* One element has no layout, and requests are the same for all counts. */
            if ((layout && i == 0) || (requested && i != 1)) continue;
            MPI_Datatype type = kind->type;
            if (layout) MPI_Type_vector(counts[i], 1, 2, kind->type, &type), MPI_Type_commit(&type);
            const char *outcome = one(kind, op, function, layout ? 1 : counts[i], type, counts[i], layout + 1);
            if (layout) MPI_Type_free(&type);
            if (!strcmp(outcome, "right") || !strcmp(outcome, "undefined")) continue;
            /* Compare-and-swap takes integers, truth values and bytes (MPI-4.1 section 12.3.4);
             * some hosts take more types. */
            if (swaps && !strchr("iIuby", kind->kind) && !strcmp(outcome, "MPI_ERR_TYPE")) continue;
            fprintf(stderr, "%s %s %s of %d%s: %s\n", kind->name, swaps ? "" : op_names[op], function_names[function],
                    counts[i], layout ? " apart" : "", outcome);
            bad++;
        }
    return bad;
}

static long all_of(const struct kind *kind) {
    long bad = 0;
    MPI_Win_lock_all(0, win);
    for (int op = 0; op < 14; op++)
        for (int function = 0; function <= FETCH_AND_OP; function++) bad += tried(kind, op, function);
    for (int unequal = 0; unequal < 2; unequal++) bad += tried(kind, unequal, COMPARE_AND_SWAP);
    MPI_Win_unlock_all(win);
    return bad;
}

/* All ranks add to the same elements of rank 0. Each sum is exact, with 64 bits in a long
 * double. */
static void together(void) {
    enum { ROUNDS = 200, COUNT = 5 };
    long double ones[COUNT], *sums = (long double *)part, old, last = -1, one = 1;
    struct { long double value; int index; } place = {rank_, 7}, *first = (void *)(part + 1024);
    long bad = 0;
    for (int i = 0; i < COUNT; i++) ones[i] = 1 + 0x1p63L;
    MPI_Win_fence(0, win);
    memset(part, 0, 2048), first->value = 1000, first->index = 1;
    MPI_Win_fence(0, win);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Accumulate(ones, COUNT, MPI_LONG_DOUBLE, 0, 0, COUNT, MPI_LONG_DOUBLE, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &old, MPI_LONG_DOUBLE, 0, 512, MPI_SUM, win);
        MPI_Accumulate(&place, 1, MPI_LONG_DOUBLE_INT, 0, 1024, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC, win);
        MPI_Win_flush(0, win);
        bad |= old <= last;
        last = old;
    }
    MPI_Win_unlock_all(win);
    check("what is fetched grows", bad);
    if (rank_ == 0) {
        long double n = (long double)ROUNDS * size_, sum = 0;
        for (int i = 0; i < ROUNDS * size_; i++) sum += ones[0];
        for (int i = 0; i < COUNT; i++) bad |= sums[i] != sum;
        bad |= (sums[32] != n) << 1 | (first->value != 0 || first->index != 7) << 2;
    }
    check("sums of all ranks are exact", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Op all[] = {MPI_MAX, MPI_MIN,  MPI_SUM,  MPI_PROD,   MPI_LAND,   MPI_BAND,    MPI_LOR,
                    MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE, MPI_NO_OP};
    memcpy(ops, all, sizeof ops);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    list();
    check("there are types", types < 60);
    for (int type = 0; type < types; type++)
        if (argc < 2 || !strcmp(argv[1], kinds[type].name))
            check(kinds[type].name, rank_ == 0 ? all_of(&kinds[type]) : 0);
    together();
    MPI_Win_free(&win);
    return end();
}
