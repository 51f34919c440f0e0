/* Accumulates of all operations over the types for which MPI defines them, fetches and swaps,
 * PROC_NULL, the own rank, no items. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

static MPI_Win win;
static char *part;
enum { BYTES = 4096, N = 5 };

/* Every rank accumulates N elements into the next rank's; MPI_Reduce_local computes the expected
 * values. */
static void one(MPI_Datatype type, const char *name, MPI_Op op, const char *what, const void *before, const void *mine,
                const void *last) {
    int bytes;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    bytes = (int)extent * N;
    char *expected = malloc(bytes), *seen = malloc(bytes), text[96];
    memcpy(expected, before, bytes);
    if (op == MPI_REPLACE) memcpy(expected, last, bytes);
    else if (op != MPI_NO_OP) MPI_Reduce_local((void *)(uintptr_t)last, expected, N, type, op);
    int next = (rank_ + 1) % size_;
    for (int way = 0; way < 2; way++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
        memcpy(part, before, bytes);
        MPI_Win_unlock(rank_, win);
        MPI_Win_fence(0, win);
        memset(seen, 0, bytes);
        if (way == 0) MPI_Accumulate(mine, N, type, next, 0, N, type, op, win);
        else MPI_Get_accumulate(mine, N, type, seen, N, type, next, 0, N, type, op, win);
        MPI_Win_fence(0, win);
        snprintf(text, sizeof text, "%s of %s%s", what, name, way ? ", with the values from before" : "");
        long bad = 0;
        /* The padding of pairs is not compared. */
        int size, value = 0;
        MPI_Type_size(type, &size);
        for (int i = 0; i < N; i++)
            if (size == extent) bad |= memcmp(part + i * extent, expected + i * extent, extent) != 0;
            else value = size - 4, bad |= memcmp(part + i * extent, expected + i * extent, value) != 0 ||
                                        memcmp(part + (i + 1) * extent - extent / 2, expected + (i + 1) * extent - extent / 2, 4);
        if (way == 1)
            for (int i = 0; i < N; i++)
                bad |= memcmp(seen + i * extent, (const char *)before + i * extent, size == extent ? extent : value) ? 2 : 0;
        if (bad) check(text, bad);
        else check(text, 0);
    }
    free(expected);
    free(seen);
}

#define NUMBERS(C, TYPE, OPS, TEXTS)                                                                                        \
    do {                                                                                                                    \
        C before[N], mine[N], last[N];                                                                                      \
        for (int i = 0; i < N; i++) {                                                                                       \
            before[i] = (C)(i + 2);                                                                                         \
            mine[i] = (C)(rank_ + i * 3 % 4);                                                                               \
            last[i] = (C)((rank_ + size_ - 1) % size_ + i * 3 % 4);                                                         \
        }                                                                                                                   \
        for (unsigned k = 0; k < sizeof OPS / sizeof OPS[0]; k++) one(TYPE, #TYPE, OPS[k], TEXTS[k], before, mine, last);   \
    } while (0)

static void families(void) {
    const MPI_Op all[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_REPLACE};
    const char *texts[] = {"MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "REPLACE"};
    const MPI_Op reals[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_REPLACE};
    const char *real_texts[] = {"MAX", "MIN", "SUM", "PROD", "REPLACE"};
    const MPI_Op sums[] = {MPI_SUM, MPI_PROD, MPI_REPLACE};
    const char *sum_texts[] = {"SUM", "PROD", "REPLACE"};
    const MPI_Op bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE};
    const char *bit_texts[] = {"BAND", "BOR", "BXOR", "REPLACE"};
    const MPI_Op truths[] = {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE};
    const char *truth_texts[] = {"LAND", "LOR", "LXOR", "REPLACE"};
    NUMBERS(int, MPI_INT, all, texts);
    NUMBERS(unsigned long, MPI_UNSIGNED_LONG, all, texts);
    NUMBERS(signed char, MPI_SIGNED_CHAR, all, texts);
    NUMBERS(unsigned short, MPI_UNSIGNED_SHORT, all, texts);
    NUMBERS(long long, MPI_LONG_LONG, all, texts);
    NUMBERS(MPI_Aint, MPI_AINT, sums, sum_texts);
    NUMBERS(float, MPI_FLOAT, reals, real_texts);
    NUMBERS(double, MPI_DOUBLE, reals, real_texts);
    NUMBERS(float complex, MPI_C_FLOAT_COMPLEX, sums, sum_texts);
    NUMBERS(double complex, MPI_C_DOUBLE_COMPLEX, sums, sum_texts);
    NUMBERS(unsigned char, MPI_BYTE, bits, bit_texts);
    NUMBERS(bool, MPI_C_BOOL, truths, truth_texts);
}

static void pairs(void) {
    struct { double value; int at; } before[N], mine[N], last[N];
    struct { int value, at; } two_before[N], two_mine[N], two_last[N];
    struct { short value; int at; } short_before[N], short_mine[N], short_last[N];
    memset(before, 0, sizeof before), memset(mine, 0, sizeof mine), memset(last, 0, sizeof last);
    memset(short_before, 0, sizeof short_before), memset(short_mine, 0, sizeof short_mine), memset(short_last, 0, sizeof short_last);
    for (int i = 0; i < N; i++) {
        int from = (rank_ + size_ - 1) % size_;
        before[i].value = two_before[i].value = short_before[i].value = 2;
        before[i].at = two_before[i].at = short_before[i].at = 7;
        mine[i].value = two_mine[i].value = short_mine[i].value = (short)(rank_ + i);
        last[i].value = two_last[i].value = short_last[i].value = (short)(from + i);
        mine[i].at = two_mine[i].at = short_mine[i].at = rank_;
        last[i].at = two_last[i].at = short_last[i].at = from;
    }
    one(MPI_DOUBLE_INT, "MPI_DOUBLE_INT", MPI_MAXLOC, "MAXLOC", before, mine, last);
    one(MPI_DOUBLE_INT, "MPI_DOUBLE_INT", MPI_MINLOC, "MINLOC", before, mine, last);
    one(MPI_2INT, "MPI_2INT", MPI_MAXLOC, "MAXLOC", two_before, two_mine, two_last);
    one(MPI_2INT, "MPI_2INT", MPI_MINLOC, "MINLOC", two_before, two_mine, two_last);
    one(MPI_SHORT_INT, "MPI_SHORT_INT", MPI_MAXLOC, "MAXLOC", short_before, short_mine, short_last);
}

/* All ranks add to one counter of rank 0. */
static void fetches(void) {
    long one_more = 1, old, sum = 0, seen = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
    memset(part, 0, 64);
    MPI_Win_unlock(rank_, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 100; i++) {
        MPI_Fetch_and_op(&one_more, &old, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        sum += old;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(NULL, &seen, MPI_LONG, 0, 0, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    long all = 0, n = 100L * size_;
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check("each value of a counter is fetched once", seen != n || all != n * (n - 1) / 2);
    /* A chain of swaps: rank r replaces r by r + 1. */
    for (int done = 0; !done;) {
        long want = n + rank_, next = want + 1, found;
        if (rank_ == 0) want = n;
        MPI_Compare_and_swap(&next, &want, &found, MPI_LONG, 0, 0, win);
        MPI_Win_flush(0, win);
        done = found == want;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(NULL, &seen, MPI_LONG, 0, 0, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    check("swaps happen in turn", seen != n + size_);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void null_and_empty(void) {
    long x = 41, y = 42;
    MPI_Win_lock_all(0, win);
    long bad = MPI_Put(&x, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win) != MPI_SUCCESS;
    bad += MPI_Get(&x, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win) != MPI_SUCCESS;
    bad += MPI_Fetch_and_op(&x, &y, MPI_LONG, MPI_PROC_NULL, 0, MPI_SUM, win) != MPI_SUCCESS;
    bad += MPI_Win_flush(MPI_PROC_NULL, win) != MPI_SUCCESS;
    check("PROC_NULL: nothing happens", bad || x != 41 || y != 42);
    bad = MPI_Put(NULL, 0, MPI_LONG, rank_, 0, 0, MPI_LONG, win) != MPI_SUCCESS;
    bad += MPI_Accumulate(NULL, 0, MPI_INT, rank_, 0, 0, MPI_INT, MPI_SUM, win) != MPI_SUCCESS;
    MPI_Win_flush(rank_, win);
    check("no items: nothing happens", bad);
    MPI_Put(&x, 1, MPI_LONG, rank_, 8, 1, MPI_LONG, win);
    MPI_Win_flush(rank_, win);
    MPI_Get(&y, 1, MPI_LONG, rank_, 8, 1, MPI_LONG, win);
    MPI_Win_flush(rank_, win);
    check("the own rank is a target", y != 41);
    long double wide = 1.5L, back = 0;
    MPI_Put(&wide, 1, MPI_LONG_DOUBLE, rank_, 16, 1, MPI_LONG_DOUBLE, win);
    MPI_Win_flush(rank_, win);
    MPI_Get(&back, 1, MPI_LONG_DOUBLE, rank_, 16, 1, MPI_LONG_DOUBLE, win);
    MPI_Win_flush(rank_, win);
    check("long double is put and got", back != wide);
    int four[4] = {1, 2, 3, 4}, again[4] = {0};
    MPI_Put(four, 4, MPI_INT, rank_, 64, 16, MPI_BYTE, win);
    MPI_Win_flush(rank_, win);
    MPI_Get(again, 16, MPI_BYTE, rank_, 64, 4, MPI_INT, win);
    MPI_Win_flush(rank_, win);
    check("numbers as bytes", memcmp(four, again, sizeof four));
    MPI_Win_unlock_all(win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    families();
    pairs();
    fetches();
    null_and_empty();
    MPI_Win_free(&win);
    return end();
}
