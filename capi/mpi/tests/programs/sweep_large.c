/*
 * Sweep: operations that span more than 2^31 bytes, through counts, types, displacements and
 * windows. Memory is sparse: few of its pages are ever touched. In transfers of more than 2^31
 * bytes, many pages map the same page of a file.
 */
#define _GNU_SOURCE
#include "sweep_issue.h"

#include <sys/mman.h>

/* The first ALIASED bytes of the memory map the same PIECE bytes repeatedly. */
#define PIECE ((size_t)16 << 20)
#define ALIASED ((size_t)1 << 31)
#define TAIL ((size_t)1 << 16)
#define STRIDE ((MPI_Aint)3 << 30)
#define WHOLE ((size_t)6 << 30)
#define SENT (ALIASED + 4096)

/* What is large. */
enum kind { BIG_COUNT, BIG_TYPE, DISPLACED, WIDE_TARGET, WIDE_BOTH, EMPTY_ITEMS, KINDS };
static const char *const kind_names[KINDS] = {
    "count", "type", "displacement", "extent_of_target", "extent_of_both", "count_of_empty_items",
};
enum place { CREATED, ATTACHED, PLACES };
static const char *const place_names[PLACES] = {"create", "dynamic"};

struct test { enum kind kind; enum operation op; enum place place; int is_self, is_large; };

/* Transfers of all these bytes take seconds, so there are only a few. */
static const struct test big[] = {
    {BIG_COUNT, PUT, CREATED, 0, 1}, {BIG_TYPE, GET, CREATED, 0, 0},
    {BIG_COUNT, RGET, CREATED, 0, 1}, {BIG_TYPE, RPUT, ATTACHED, 0, 1}, {BIG_COUNT, GET, ATTACHED, 1, 0}, {BIG_TYPE, PUT, CREATED, 1, 1},
};
enum { FIRST_BIG = 2, ALL_BIG = sizeof big / sizeof *big, SMALL_KINDS = KINDS - DISPLACED };

static long small_cases(void) { return (long)SMALL_KINDS * OPERATIONS * PLACES * 2; }
static long cases(void) { return small_cases() + ALL_BIG; }

/* Two of the big cases come first, and the others last. */
static struct test test_of(long number) {
    if (number < FIRST_BIG) return big[number];
    if (number >= small_cases() + FIRST_BIG) return big[number - small_cases()];
    long part = number - FIRST_BIG;
    struct test t;
    t.op = part % OPERATIONS, part /= OPERATIONS;
    t.kind = DISPLACED + part % SMALL_KINDS, part /= SMALL_KINDS;
    t.place = part % PLACES, t.is_self = part / PLACES;
    t.is_large = mixed((uint64_t)number, 1) % 2;
    if (is_single(t.op)) t.kind = DISPLACED, t.is_large = 0;
    return t;
}

static void describe(long number, char text[PARAMETERS]) {
    struct test t = test_of(number);
    snprintf(text, PARAMETERS, "large %s %s %s to=%s%s", kind_names[t.kind], operation_names[t.op], place_names[t.place],
             t.is_self ? "self" : "next", t.is_large ? " large_counts" : "");
}

static void finish(void) {}

/* --- memory ----------------------------------------------------------------------------------- */

/* This rank's part of the window, and its buffer. */
static char *memory_, *buffer_;

static char *mapped(void) {
    int file = memfd_create("sweep", 0);
    char *base = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || ftruncate(file, (off_t)(PIECE + TAIL)) || base == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t at = 0; at <= ALIASED; at += PIECE) {
        size_t length = at < ALIASED ? PIECE : TAIL;
        off_t from = at < ALIASED ? 0 : (off_t)PIECE;
        if (mmap(base + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, from) == MAP_FAILED)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    close(file);
    return base;
}

/* The offset of the two longs that small operations touch, after the ALIASED bytes. In a wide type
 * the second long is a stride further. */
#define FIRST ((MPI_Aint)(ALIASED + 3 * TAIL))
static int is_wide(enum kind kind) { return kind == WIDE_TARGET || kind == WIDE_BOTH; }
static long *at_window(const struct test *t, int k) { return (long *)(memory_ + FIRST + k * (is_wide(t->kind) ? STRIDE : 8)); }
static long *at_buffer(const struct test *t, int k, int is_result) {
    return (long *)(buffer_ + FIRST + 64 * is_result + k * (t->kind == WIDE_BOTH ? STRIDE : 8));
}

static void fill(const struct test *t) {
    if (t->kind <= BIG_TYPE) {
        for (size_t i = 0; i < PIECE; i += 4096) memory_[i] = 1, buffer_[i] = (char)(i / 4096 + 40);
        memset(memory_ + ALIASED, 1, TAIL), memset(buffer_ + ALIASED, 7, TAIL);
        return;
    }
    for (int k = 0; k < 2; k++) *at_window(t, k) = 10 + k, *at_buffer(t, k, 0) = 20 + k, *at_buffer(t, k, 1) = 30 + k;
}

/* --- operations ------------------------------------------------------------------------------- */

/* A type of `SENT` bytes without gaps: its size does not fit an int. */
static MPI_Datatype big_type(int is_one_item) {
    MPI_Datatype row, type;
    MPI_Type_contiguous(SENT / 2048, MPI_BYTE, &row);
    if (!is_one_item) return row;
    MPI_Type_contiguous(2048, row, &type);
    MPI_Type_free(&row);
    return type;
}

static MPI_Datatype wide_type(void) {
    MPI_Datatype type;
    MPI_Type_create_hvector(2, 1, STRIDE, MPI_LONG, &type);
    return type;
}

static MPI_Datatype empty_type(void) {
    MPI_Datatype type;
    MPI_Type_contiguous(0, MPI_LONG, &type);
    return type;
}

static int is_derived(MPI_Datatype type) { return type != MPI_LONG && type != MPI_BYTE; }

/* Types of the sides, and their counts: two longs, or SENT bytes, or nothing. */
static void choose(const struct test *t, struct arguments *a) {
    int has_large = t->is_large && MPI_VERSION >= 4;
    MPI_Datatype type = MPI_LONG;
    long long count = 1;
    if (t->kind == DISPLACED) count = is_single(t->op) ? 1 : 2;
    else if (t->kind == BIG_COUNT && has_large) type = MPI_BYTE, count = (long long)SENT;
    else if (t->kind == BIG_COUNT) type = big_type(0), count = 2048;
    else if (t->kind == BIG_TYPE) type = big_type(1);
    else if (is_wide(t->kind)) type = wide_type();
    else type = empty_type(), count = has_large ? 3000000000 : 2000000000;
    if (is_derived(type)) MPI_Type_commit(&type);
    a->target_type = type, a->target_count = count;
    a->origin_type = t->kind == WIDE_TARGET ? MPI_LONG : type, a->origin_count = t->kind == WIDE_TARGET ? 2 : count;
    a->result_type = a->origin_type, a->result_count = a->origin_count;
}

static void operate(const struct test *t, MPI_Win win, int target, MPI_Aint base) {
    static const long compared = 10;
    struct arguments a = {.compared = &compared, .target = target, .op = MPI_SUM, .win = win};
    MPI_Request q = MPI_REQUEST_NULL;
    int is_big = t->kind <= BIG_TYPE;
    choose(t, &a);
    a.origin = is_big ? buffer_ : (char *)at_buffer(t, 0, 0), a.result = (char *)at_buffer(t, 0, 1);
    a.at = base + (is_big ? 0 : FIRST);
    issue_by(t->is_large, t->op, &a, &q);
    if (is_request(t->op)) CALL(Wait, &q, MPI_STATUS_IGNORE);
    if (is_derived(a.target_type)) MPI_Type_free(&a.target_type);
}

/* --- the expected result ---------------------------------------------------------------------- */

static int gets(enum operation op) { return op == GET || op == RGET; }

static void compare_big(const struct test *t) {
    const char *to = gets(t->op) ? buffer_ : memory_;
    int wrong = 0;
    for (size_t i = 0; i < PIECE; i += 4096) wrong |= to[i] != (gets(t->op) ? 1 : (char)(i / 4096 + 40));
    if (wrong) say("bytes wrong");
    int moved = gets(t->op) ? 1 : 7, kept = gets(t->op) ? 7 : 1;
    if (to[ALIASED] != moved || to[SENT - 1] != moved) say("last bytes wrong");
    if (to[SENT] != kept) say("a byte after the last is wrong");
}

static void compare_small(const struct test *t) {
    for (int k = 0; k < (is_single(t->op) ? 1 : 2); k++) {
        int has_data = t->kind != EMPTY_ITEMS;
        long old = 10 + k, sent = 20 + k, held = old, got = 30 + k;
        if (has_data && (t->op == PUT || t->op == RPUT)) held = sent;
        if (has_data && combines(t->op)) held = old + sent;
        if (t->op == CAS) held = sent;
        if (has_data && is_fetching(t->op)) got = old;
        if (has_data && gets(t->op)) sent = old;
        if (*at_window(t, k) != held) say("memory %d is %ld, not %ld", k, *at_window(t, k), held);
        if (*at_buffer(t, k, 0) != sent) say("origin %d is %ld, not %ld", k, *at_buffer(t, k, 0), sent);
        if (*at_buffer(t, k, 1) != got) say("result %d is %ld, not %ld", k, *at_buffer(t, k, 1), got);
    }
}

static MPI_Win opened(enum place place) {
    MPI_Win win = MPI_WIN_NULL;
    MPI_Aint *size;
    int flag;
    if (place == CREATED) CALL(Win_create, memory_, (MPI_Aint)WHOLE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else CALL(Win_create_dynamic, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (win == MPI_WIN_NULL) return win;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (place == ATTACHED) CALL(Win_attach, win, memory_, (MPI_Aint)WHOLE);
    CALL(Win_get_attr, win, MPI_WIN_SIZE, &size, &flag);
    if (!flag || *size != (place == CREATED ? (MPI_Aint)WHOLE : 0)) say("size wrong");
    return win;
}

static void run_case(long number) {
    struct test t = test_of(number);
    if (!memory_) memory_ = mapped(), buffer_ = mapped();
    MPI_Win win = opened(t.place);
    if (win == MPI_WIN_NULL) return;
    MPI_Aint base, *bases = calloc((size_t)size_, sizeof *bases);
    MPI_Get_address(memory_, &base);
    MPI_Allgather(&base, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    int target = t.is_self ? rank_ : (rank_ + 1) % size_;
    /* These transfers take long over sockets on a busy machine. */
    if (t.kind <= BIG_TYPE) alarm(6 * patience());
    fill(&t);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(Win_lock_all, 0, win);
    operate(&t, win, target, t.place == ATTACHED ? bases[target] : 0);
    CALL(Win_unlock_all, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (t.kind <= BIG_TYPE) compare_big(&t);
    else compare_small(&t);
    MPI_Barrier(MPI_COMM_WORLD);
    if (t.place == ATTACHED) CALL(Win_detach, win, memory_);
    CALL(Win_free, &win);
    free(bases);
}
