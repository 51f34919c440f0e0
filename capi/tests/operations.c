/* Put and get, the accumulate family over types and operations, and TRANSOM_PROC_NULL. */
#include <complex.h>
#include <stdbool.h>

#include "check.h"

static transom_window *window;
static unsigned char *part;

/* Zeroes the parts of all ranks and opens an epoch to all ranks. */
static void open_clear(void) {
    OK(transom_job_barrier(world));
    memset(part, 0, 4096);
    OK(transom_window_sync(window));
    OK(transom_job_barrier(world));
    OK(transom_window_lock_all(window, 0));
}

/* Completes the operations of all ranks, whose data is then visible to loads. */
static void close_all(void) {
    OK(transom_window_unlock_all(window));
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
}

static void plain(void) {
    double from[100], into[100];
    for (int i = 0; i < 100; i++) {
        from[i] = me + i / 128.0;
        into[i] = -1;
    }
    open_clear();
    OK(transom_put(window, from, 100, TRANSOM_DOUBLE, next, 64, 100, TRANSOM_DOUBLE));
    OK(transom_window_flush(window, next));
    OK(transom_get(window, into, 100, TRANSOM_DOUBLE, next, 64, 100, TRANSOM_DOUBLE));
    OK(transom_window_flush(window, next));
    CHECK(memcmp(from, into, sizeof from) == 0);
    close_all();
    CHECK(((double *)part)[8] == before && ((double *)part)[8 + 99] == before + 99 / 128.0);
}

/* All ranks add to neighbouring elements of several types at rank 0. */
static void sums(void) {
    int8_t a = 1;
    uint16_t b = 2;
    int32_t c = -3;
    uint64_t d = 4;
    float e = 0.5f;
    double complex f = 1.0 + 2.0 * I;
    open_clear();
    for (int i = 0; i < 10; i++) {
        OK(transom_accumulate(window, &a, 1, TRANSOM_INT8_T, 0, 0, 1, TRANSOM_INT8_T, TRANSOM_SUM));
        OK(transom_accumulate(window, &b, 1, TRANSOM_UINT16_T, 0, 8, 1, TRANSOM_UINT16_T, TRANSOM_SUM));
        OK(transom_accumulate(window, &c, 1, TRANSOM_INT, 0, 16, 1, TRANSOM_INT, TRANSOM_SUM));
        OK(transom_accumulate(window, &d, 1, TRANSOM_UNSIGNED_LONG, 0, 24, 1, TRANSOM_UNSIGNED_LONG, TRANSOM_SUM));
        OK(transom_accumulate(window, &e, 1, TRANSOM_FLOAT, 0, 32, 1, TRANSOM_FLOAT, TRANSOM_SUM));
        OK(transom_accumulate(window, &f, 1, TRANSOM_C_DOUBLE_COMPLEX, 0, 48, 1, TRANSOM_C_DOUBLE_COMPLEX, TRANSOM_SUM));
    }
    close_all();
    if (me == 0) {
        double complex sum;
        memcpy(&sum, part + 48, sizeof sum);
        CHECK((int8_t)part[0] == (int8_t)(10 * size) && *(uint16_t *)(part + 8) == 20 * size);
        CHECK(*(int32_t *)(part + 16) == -30 * size && *(uint64_t *)(part + 24) == 40u * (unsigned)size);
        CHECK(*(float *)(part + 32) == 5.0f * (float)size);
        CHECK(creal(sum) == 10.0 * size && cimag(sum) == 20.0 * size);
    }
}

/* Each operation on one int of the next rank: 12 in the part, 10 at the origin. */
static int applied(int op) {
    int start = 12, with = 10, old = 0, now = 0;
    OK(transom_put(window, &start, 1, TRANSOM_INT, next, 0, 1, TRANSOM_INT));
    OK(transom_window_flush(window, next));
    OK(transom_get_accumulate(window, &with, 1, TRANSOM_INT, &old, 1, TRANSOM_INT, next, 0, 1, TRANSOM_INT, op));
    OK(transom_window_flush(window, next));
    CHECK(old == 12);
    OK(transom_fetch_and_op(window, NULL, &now, TRANSOM_INT, next, 0, TRANSOM_NO_OP));
    OK(transom_window_flush(window, next));
    return now;
}

static void operations(void) {
    open_clear();
    CHECK(applied(TRANSOM_MAX) == 12 && applied(TRANSOM_MIN) == 10);
    CHECK(applied(TRANSOM_SUM) == 22 && applied(TRANSOM_PROD) == 120);
    CHECK(applied(TRANSOM_LAND) == 1 && applied(TRANSOM_LOR) == 1 && applied(TRANSOM_LXOR) == 0);
    CHECK(applied(TRANSOM_BAND) == 8 && applied(TRANSOM_BOR) == 14 && applied(TRANSOM_BXOR) == 6);
    CHECK(applied(TRANSOM_REPLACE) == 10 && applied(TRANSOM_NO_OP) == 12);
    close_all();
}

/* The largest value and the lowest rank that has it. */
static void pairs(void) {
    struct {
        double value;
        int rank;
    } mine, best;
    memset(&mine, 0, sizeof mine);
    mine.value = 100 - me / 2;
    mine.rank = me;
    open_clear();
    OK(transom_accumulate(window, &mine, 1, TRANSOM_DOUBLE_INT, 0, 0, 1, TRANSOM_DOUBLE_INT, TRANSOM_MAXLOC));
    close_all();
    memcpy(&best, part, sizeof best);
    CHECK(me != 0 || (best.value == 100 && best.rank == 0));
}

/* Each ticket is issued once; a lock by compare-and-swap has one holder at a time. */
static void atomics(void) {
    int64_t one = 1, ticket = -1, free_ = 0, taken = 1 + me, found = -1, count = 0;
    open_clear();
    for (int i = 0; i < 50; i++) {
        int64_t last = ticket;
        OK(transom_fetch_and_op(window, &one, &ticket, TRANSOM_INT64_T, 0, 0, TRANSOM_SUM));
        CHECK(ticket > last && ticket < 50 * size);
    }
    for (int i = 0; i < 10; i++) {
        do {
            OK(transom_compare_and_swap(window, &taken, &free_, &found, TRANSOM_INT64_T, 0, 8));
        } while (found != 0);
        OK(transom_get(window, &count, 1, TRANSOM_INT64_T, 0, 16, 1, TRANSOM_INT64_T));
        OK(transom_window_flush(window, 0));
        count++;
        OK(transom_put(window, &count, 1, TRANSOM_INT64_T, 0, 16, 1, TRANSOM_INT64_T));
        OK(transom_window_flush(window, 0));
        OK(transom_compare_and_swap(window, &free_, &taken, &found, TRANSOM_INT64_T, 0, 8));
        CHECK(found == taken);
    }
    close_all();
    CHECK(me != 0 || (((int64_t *)part)[0] == 50 * size && ((int64_t *)part)[2] == 10 * size));
}

static void proc_null(void) {
    int64_t value = 5, result = 6;
    open_clear();
    OK(transom_put_bytes(window, &value, 8, TRANSOM_PROC_NULL, 1 << 20));
    OK(transom_get_bytes(window, &result, 8, TRANSOM_PROC_NULL, 0));
    OK(transom_accumulate(window, &value, 1, TRANSOM_INT64_T, TRANSOM_PROC_NULL, 0, 1, TRANSOM_INT64_T, TRANSOM_SUM));
    OK(transom_fetch_and_op(window, &value, &result, TRANSOM_INT64_T, TRANSOM_PROC_NULL, 0, TRANSOM_SUM));
    OK(transom_compare_and_swap(window, &value, &value, &result, TRANSOM_INT64_T, TRANSOM_PROC_NULL, 0));
    CHECK(result == 6);
    /* No items at a NULL address. */
    OK(transom_put_bytes(window, NULL, 0, next, 0));
    OK(transom_put(window, NULL, 0, TRANSOM_INT, next, 0, 0, TRANSOM_INT));
    close_all();
}

/* A call without a request on TRANSOM_PROC_NULL, whose buffers may be NULL: it accesses none. */
static void proc_null_without_buffers(void) {
    const uint64_t block = 2;
    const int64_t place = 8;
    transom_datatype *far = NULL;
    OK(transom_type_indexed(1, &block, &place, TRANSOM_INT, &far));
    open_clear();
    OK(transom_put_bytes(window, NULL, 8, TRANSOM_PROC_NULL, 0));
    OK(transom_get_bytes(window, NULL, 8, TRANSOM_PROC_NULL, 0));
    OK(transom_put(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT));
    OK(transom_get(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT));
    OK(transom_put(window, NULL, 1, far, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT));
    OK(transom_get(window, NULL, 1, far, TRANSOM_PROC_NULL, 0, 1, far));
    OK(transom_accumulate(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, TRANSOM_SUM));
    OK(transom_get_accumulate(window, NULL, 2, TRANSOM_INT, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT,
                              TRANSOM_SUM));
    OK(transom_get_accumulate(window, NULL, 0, TRANSOM_INT, NULL, 1, far, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT,
                              TRANSOM_NO_OP));
    OK(transom_fetch_and_op(window, NULL, NULL, TRANSOM_INT, TRANSOM_PROC_NULL, 0, TRANSOM_SUM));
    OK(transom_fetch_and_op(window, NULL, NULL, TRANSOM_C_DOUBLE_COMPLEX, TRANSOM_PROC_NULL, 0, TRANSOM_NO_OP));
    OK(transom_compare_and_swap(window, NULL, NULL, NULL, TRANSOM_INT, TRANSOM_PROC_NULL, 0));
    /* The other arguments are checked. */
    FAILS(TRANSOM_ERR_TYPE, "", transom_put(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, NULL));
    FAILS(TRANSOM_ERR_OP, "", transom_fetch_and_op(window, NULL, NULL, TRANSOM_INT, TRANSOM_PROC_NULL, 0, -1));
    FAILS(TRANSOM_ERR_ARG, "origin is NULL", transom_put(window, NULL, 2, TRANSOM_INT, next, 0, 2, TRANSOM_INT));
    FAILS(TRANSOM_ERR_ARG, "result is NULL", transom_fetch_and_op(window, NULL, NULL, TRANSOM_INT, next, 0, TRANSOM_NO_OP));
    close_all();
    OK(transom_type_free(&far));
}

/* Transfers of several pairs, whose padding is a member of this structure: no call changes it. */
static void padded_pairs(void) {
    enum { PAIRS = 3 };
    struct tagged { double value; int index, tag; } mine[PAIRS], back[PAIRS], *there = (struct tagged *)part;
    open_clear();
    for (int i = 0; i < PAIRS; i++) {
        there[i].tag = 100 + i;
        mine[i] = (struct tagged){.value = 10 * me + i, .index = 20 * me + i, .tag = 200 + i};
        back[i] = (struct tagged){.tag = 300 + i};
    }
    OK(transom_window_sync(window));
    OK(transom_job_barrier(world));
    OK(transom_put(window, mine, PAIRS, TRANSOM_DOUBLE_INT, next, 0, PAIRS, TRANSOM_DOUBLE_INT));
    OK(transom_window_flush(window, next));
    OK(transom_get(window, back, PAIRS, TRANSOM_DOUBLE_INT, next, 0, PAIRS, TRANSOM_DOUBLE_INT));
    OK(transom_window_flush(window, next));
    for (int i = 0; i < PAIRS; i++) {
        CHECK(back[i].value == mine[i].value && back[i].index == mine[i].index && back[i].tag == 300 + i);
        mine[i].value += 1000;
    }
    OK(transom_get_accumulate(window, mine, PAIRS, TRANSOM_DOUBLE_INT, back, PAIRS, TRANSOM_DOUBLE_INT, next, 0, PAIRS,
                              TRANSOM_DOUBLE_INT, TRANSOM_MAXLOC));
    close_all();
    for (int i = 0; i < PAIRS; i++) {
        CHECK(back[i].value == mine[i].value - 1000 && back[i].tag == 300 + i);
        CHECK(there[i].value == 1000 + 10 * before + i && there[i].index == 20 * before + i && there[i].tag == 100 + i);
    }
}

/* The predefined types have the sizes of the C types after which they are named. */
static void sizes(void) {
    struct { transom_datatype *type; uint64_t size; } all[] = {
        {TRANSOM_CHAR, sizeof(char)}, {TRANSOM_UNSIGNED_CHAR, sizeof(unsigned char)}, {TRANSOM_SHORT, sizeof(short)},
        {TRANSOM_UNSIGNED_SHORT, sizeof(unsigned short)}, {TRANSOM_INT, sizeof(int)}, {TRANSOM_UNSIGNED, sizeof(unsigned)},
        {TRANSOM_LONG, sizeof(long)}, {TRANSOM_UNSIGNED_LONG, sizeof(unsigned long)}, {TRANSOM_LONG_LONG, sizeof(long long)},
        {TRANSOM_UNSIGNED_LONG_LONG, sizeof(unsigned long long)}, {TRANSOM_FLOAT, sizeof(float)},
        {TRANSOM_DOUBLE, sizeof(double)}, {TRANSOM_C_BOOL, sizeof(bool)}, {TRANSOM_BYTE, 1},
        {TRANSOM_C_FLOAT_COMPLEX, sizeof(float complex)}, {TRANSOM_C_DOUBLE_COMPLEX, sizeof(double complex)},
        {TRANSOM_FLOAT_INT, sizeof(struct { float a; int b; })}, {TRANSOM_DOUBLE_INT, sizeof(double) + sizeof(int)},
        {TRANSOM_LONG_INT, sizeof(long) + sizeof(int)}, {TRANSOM_2INT, sizeof(struct { int a; int b; })},
        {TRANSOM_SHORT_INT, sizeof(struct { short a; int b; })},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t size_of = 0;
        OK(transom_type_size(all[i].type, &size_of));
        CHECK(size_of == all[i].size);
    }
}

int main(void) {
    void *base = NULL;
    begin();
    sizes();
    OK(transom_window_allocate(world, 4096, 1, NULL, &base, &window));
    part = (unsigned char *)base;
    plain();
    sums();
    operations();
    pairs();
    padded_pairs();
    atomics();
    proc_null();
    proc_null_without_buffers();
    OK(transom_window_free(&window));
    return end("operations");
}
