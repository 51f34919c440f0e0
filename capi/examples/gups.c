/* RandomAccess of the HPC Challenge (GUPS): XOR updates at random locations of a table that all
 * ranks hold together.
 *
 *     cc gups.c $(pkg-config --cflags --libs transom) -o gups
 *     transom-run -n 4 ./gups [LOG2_TABLE]
 *
 * The table has 2^LOG2_TABLE words (default 16) and gets 4 updates for each word. An update is one
 * accumulate, so none is lost. Each word is compared with a serial run; then all updates are
 * repeated, which must bring every word back to its index. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "transom.h"

/* The stream's polynomial and period (HPCC RandomAccess). */
#define POLY 7
#define PERIOD INT64_C(1317624576693539401)

/* Ends the rank with the text of the error; the launcher ends the others. */
static void must(int class_, const char *call) {
    if (class_ != TRANSOM_SUCCESS) {
        fprintf(stderr, "gups: %s: %s\n", call, transom_last_error());
        exit(EXIT_FAILURE);
    }
}
#define MUST(call) must((call), #call)

static uint64_t next(uint64_t ran) {
    return (ran << 1) ^ ((int64_t)ran < 0 ? POLY : 0);
}

/* The stream's number n: jumps by squaring, so that each rank begins at its own part. */
static uint64_t start(int64_t n) {
    uint64_t squares[64], value = 1, ran = 2;
    int bit = 62;
    n %= PERIOD;
    if (n == 0) {
        return 1;
    }
    for (int i = 0; i < 64; i++) {
        squares[i] = value;
        value = next(next(value));
    }
    while (bit >= 0 && !((n >> bit) & 1)) {
        bit--;
    }
    for (bit--; bit >= 0; bit--) {
        uint64_t sum = 0;
        for (int i = 0; i < 64; i++) {
            if ((ran >> i) & 1) {
                sum ^= squares[i];
            }
        }
        ran = (n >> bit) & 1 ? next(sum) : sum;
    }
    return ran;
}

/* The table: words spread over the ranks in blocks. */
struct table {
    transom_window *window;
    uint64_t *mine, words, block, first, count;
    int rank, size;
};

/* Makes this rank's part of the updates, in one epoch. A ring holds the sent values, and is flushed
 * when it is full. */
static void update(const struct table *table) {
    enum { RING = 1024 };
    static uint64_t ring[RING];
    uint64_t all = 4 * table->words;
    uint64_t begin = all * (uint64_t)table->rank / (uint64_t)table->size;
    uint64_t end = all * ((uint64_t)table->rank + 1) / (uint64_t)table->size;
    uint64_t ran = start((int64_t)begin);
    MUST(transom_window_lock_all(table->window, 0));
    for (uint64_t i = begin; i < end; i++) {
        uint64_t word, *sent = &ring[i % RING];
        if (i % RING == 0) {
            MUST(transom_window_flush_local_all(table->window));
        }
        ran = next(ran);
        word = ran & (table->words - 1);
        *sent = ran;
        MUST(transom_accumulate(table->window, sent, 1, TRANSOM_UINT64_T, (int)(word / table->block), word % table->block, 1,
                                TRANSOM_UINT64_T, TRANSOM_BXOR));
    }
    MUST(transom_window_unlock_all(table->window));
}

/* The words of this rank that differ from expected, which counts from this rank's first word. */
static uint64_t differ(const struct table *table, const uint64_t *expected) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < table->count; i++) {
        wrong += table->mine[i] != (expected ? expected[i] : table->first + i);
    }
    return wrong;
}

/* This rank's words after all updates, computed by one process: the result of XOR does not depend
 * on the order. */
static uint64_t *serial(const struct table *table) {
    uint64_t *words = malloc((table->count + 1) * sizeof *words), ran = start(0);
    if (words == NULL) {
        perror("gups");
        exit(EXIT_FAILURE);
    }
    for (uint64_t i = 0; i < table->count; i++) {
        words[i] = table->first + i;
    }
    for (uint64_t i = 0; i < 4 * table->words; i++) {
        ran = next(ran);
        uint64_t word = ran & (table->words - 1);
        if (word - table->first < table->count) {
            words[word - table->first] ^= ran;
        }
    }
    return words;
}

/* Waits for all ranks; this rank then sees their updates. */
static void synchronize(transom_job *world, transom_window *window) {
    MUST(transom_job_barrier(world));
    MUST(transom_window_sync(window));
}

int main(int argc, char **argv) {
    struct table table = {0};
    struct timespec from, to;
    transom_job *world = NULL;
    transom_window *sums = NULL;
    void *base = NULL, *sum = NULL;
    uint64_t wrong[2], *expected;
    int log2 = argc > 1 ? atoi(argv[1]) : 16, passed = 1;
    if (log2 < 1 || log2 > 40) {
        fprintf(stderr, "gups: LOG2_TABLE must be 1 to 40\n");
        return EXIT_FAILURE;
    }
    MUST(transom_init(&world));
    MUST(transom_job_rank(world, &table.rank));
    MUST(transom_job_size(world, &table.size));
    table.words = UINT64_C(1) << log2;
    table.block = (table.words + (uint64_t)table.size - 1) / (uint64_t)table.size;
    table.first = table.block * (uint64_t)table.rank;
    table.first = table.first < table.words ? table.first : table.words;
    table.count = table.words - table.first < table.block ? table.words - table.first : table.block;
    MUST(transom_window_allocate(world, table.count * 8, 8, NULL, &base, &table.window));
    MUST(transom_window_allocate(world, 16, 8, NULL, &sum, &sums));
    table.mine = base;
    for (uint64_t i = 0; i < table.count; i++) {
        table.mine[i] = table.first + i;
    }
    synchronize(world, table.window);
    clock_gettime(CLOCK_MONOTONIC, &from);
    update(&table);
    synchronize(world, table.window);
    clock_gettime(CLOCK_MONOTONIC, &to);
    expected = serial(&table);
    wrong[0] = differ(&table, expected);
    free(expected);
    synchronize(world, table.window);
    update(&table);
    synchronize(world, table.window);
    wrong[1] = differ(&table, NULL);
    MUST(transom_window_lock_all(sums, 0));
    MUST(transom_accumulate(sums, wrong, 2, TRANSOM_UINT64_T, 0, 0, 2, TRANSOM_UINT64_T, TRANSOM_SUM));
    MUST(transom_window_unlock_all(sums));
    synchronize(world, sums);
    if (table.rank == 0) {
        const uint64_t *total = sum;
        double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
        passed = total[0] == 0 && total[1] == 0;
        printf("%d ranks, table of 2^%d words, %.6f GUPS\n", table.size, log2, 4.0 * (double)table.words / seconds / 1e9);
        printf("%" PRIu64 " words differ from a serial run, %" PRIu64 " are not back after repeating all updates\n", total[0],
               total[1]);
        printf("Verification: %s\n", passed ? "passed" : "FAILED");
    }
    MUST(transom_window_free(&sums));
    MUST(transom_window_free(&table.window));
    MUST(transom_finalize(&world));
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
