/* Passive targets: an operation while the target computes without a call of MPI, and whether the
 * data had arrived when the operation was complete at the origin. The origin then stores a flag
 * in memory that both have mapped. The computing target polls the flag, and then immediately reads
 * its part by plain loads. Data that has not arrived by then is reported as missing. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Repetitions of which the median is shown, with a computing and with an attentive target. */
enum { COMPUTING = 9, ATTENTIVE = 15 };
/* An operation is late if it takes longer than this multiple of its latency with an attentive
 * target. Latencies below a minimum count as the minimum. */
#define LATE 100.0
#define LEAST_US 1.0

/* Where each operation works, in bytes and words of 8 bytes. */
enum { SHORT_AT = 0, ADD_AT = 8, SWAP_AT = 16, GET_AT = 64, SUM_AT = 128, LONG_AT = 8192 };
enum { LONG_WORDS = 8192, GET_WORDS = 8, SUMS = 1000 };
enum operation { PUT_SHORT, PUT_LONG, GET_SHORT, SUM, FETCH, SWAP };

/* The words between the ranks, each on a separate cache line: COMPLETED and READY are repetitions,
 * from 1; ENDED is a line of the plan. */
enum word { COMPLETED = 0, READY = 8, ENDED = 16, DURING = 24, RIGHT = 32 };

struct grid {
    struct window *window;
    uint64_t *words;
    enum operation operation;
    int by_lock;
    uint64_t *buffer;
    double *ones;
    uint64_t got[GET_WORDS];
    uint64_t old, operand, compare;
};

static uint64_t told(const struct grid *grid, enum word word) {
    return __atomic_load_n(&grid->words[word], __ATOMIC_ACQUIRE);
}

static void tell(struct grid *grid, enum word word, uint64_t value) {
    __atomic_store_n(&grid->words[word], value, __ATOMIC_RELEASE);
}

/* Numbers of repetitions and of the end are of this line of the plan alone; those of other lines
 * are lower. */
static uint64_t numbered(uint64_t index) {
    return ((uint64_t)at_work + 1) * 100 + index;
}

/* Performs and completes the operation of a turn, from 1; returns the time in us. */
static double perform(struct grid *grid, uint64_t turn) {
    MPI_Win win = grid->window->win;
    MPI_Aint base = grid->window->base;
    double start;
    for (int i = 0; i < (grid->operation == PUT_LONG ? LONG_WORDS : 1); i++) {
        grid->buffer[i] = turn;
    }
    grid->operand = grid->operation == SWAP ? turn : 1;
    grid->compare = turn - 1;
    start = now_us();
    if (grid->by_lock) {
        MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, win));
    }
    switch (grid->operation) {
    case PUT_SHORT:
        MUST(MPI_Put(grid->buffer, 8, MPI_BYTE, TARGET, base + SHORT_AT, 8, MPI_BYTE, win));
        break;
    case PUT_LONG:
        MUST(MPI_Put(grid->buffer, LONG_WORDS * 8, MPI_BYTE, TARGET, base + LONG_AT, LONG_WORDS * 8, MPI_BYTE, win));
        break;
    case GET_SHORT:
        MUST(MPI_Get(grid->got, GET_WORDS * 8, MPI_BYTE, TARGET, base + GET_AT, GET_WORDS * 8, MPI_BYTE, win));
        break;
    case SUM:
        MUST(MPI_Accumulate(grid->ones, SUMS, MPI_DOUBLE, TARGET, base + SUM_AT, SUMS, MPI_DOUBLE, MPI_SUM, win));
        break;
    case FETCH:
        MUST(MPI_Fetch_and_op(&grid->operand, &grid->old, MPI_UINT64_T, TARGET, base + ADD_AT, MPI_SUM, win));
        break;
    case SWAP:
        MUST(MPI_Compare_and_swap(&grid->operand, &grid->compare, &grid->old, MPI_UINT64_T, TARGET, base + SWAP_AT, win));
        break;
    }
    MUST(grid->by_lock ? MPI_Win_unlock(TARGET, win) : MPI_Win_flush(TARGET, win));
    return now_us() - start;
}

/* The origin, after completion: whether the fetched data belongs to the turn. */
static int brought(const struct grid *grid, uint64_t turn) {
    if (grid->operation == FETCH || grid->operation == SWAP) {
        return grid->old == turn - 1;
    }
    for (int i = 0; grid->operation == GET_SHORT && i < GET_WORDS; i++) {
        if (grid->got[i] != turn) {
            return 0;
        }
    }
    return 1;
}

static int all_are(const struct grid *grid, int at, int count, uint64_t value) {
    const volatile uint64_t *words = (const volatile uint64_t *)(grid->window->part + at);
    for (int i = 0; i < count; i++) {
        if (words[i] != value) {
            return 0;
        }
    }
    return 1;
}

/* The target, by plain loads: whether its memory has the data of the turn. */
static int holds(const struct grid *grid, uint64_t turn) {
    double sum = (double)turn;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    switch (grid->operation) {
    case PUT_SHORT: return all_are(grid, SHORT_AT, 1, turn);
    case PUT_LONG: return all_are(grid, LONG_AT, LONG_WORDS, turn);
    case GET_SHORT: return all_are(grid, GET_AT, GET_WORDS, turn);
    case SUM: return all_are(grid, SUM_AT, SUMS, bits);
    case FETCH: return all_are(grid, ADD_AT, 1, turn);
    case SWAP: return all_are(grid, SWAP_AT, 1, turn);
    }
    return 0;
}

/* The target, before the turn: stores the data for a get. */
static void expose(struct grid *grid, uint64_t turn) {
    volatile uint64_t *words = (volatile uint64_t *)(grid->window->part + GET_AT);
    for (int i = 0; grid->operation == GET_SHORT && i < GET_WORDS; i++) {
        words[i] = turn;
    }
}

/* Computes, and polls the flag between steps. No call of MPI from the begin to the end. */
static void compute(struct grid *grid, int least_ms, int most_ms) {
    double start = now_us();
    uint64_t during = 0, right = 1;
    volatile uint64_t sum = 0;
    expose(grid, ATTENTIVE + 1);
    tell(grid, READY, numbered(0));
    while (now_us() - start < 1000.0 * (during < COMPUTING ? most_ms : least_ms)) {
        for (uint64_t i = 0; i < 2000; i++) {
            sum = sum * 31 + i;
        }
        if (during < COMPUTING && told(grid, COMPLETED) == numbered(during)) {
            right &= (uint64_t)holds(grid, ATTENTIVE + 1 + during);
            during++;
            if (during < COMPUTING) {
                expose(grid, ATTENTIVE + 1 + during);
                tell(grid, READY, numbered(during));
            }
        }
    }
    /* Polls once more, before the first call after the computation. */
    right &= during > 0 && (during < COMPUTING || holds(grid, ATTENTIVE + COMPUTING));
    tell(grid, DURING, during);
    tell(grid, RIGHT, right);
    tell(grid, ENDED, numbered(0));
}

/* What the origin has found. */
struct found {
    double computing_us, attentive_us;
    int passive, data;
};

/* The origin's side, within the epoch. */
static struct found originate(struct grid *grid) {
    double attentive[ATTENTIVE], computing[COMPUTING + 1];
    int done = 0, data = 1;
    struct found found;
    double least;
    /* First contact is not measured. */
    perform(grid, 1);
    for (int i = 0; i < ATTENTIVE - 1; i++) {
        attentive[i] = perform(grid, (uint64_t)i + 2);
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    for (; done < COMPUTING; done++) {
        while (told(grid, READY) < numbered((uint64_t)done) && told(grid, ENDED) < numbered(0)) {
            sched_yield();
        }
        if (told(grid, READY) < numbered((uint64_t)done)) {
            break;
        }
        computing[done] = perform(grid, (uint64_t)(ATTENTIVE + 1 + done));
        data &= brought(grid, (uint64_t)(ATTENTIVE + 1 + done));
        tell(grid, COMPLETED, numbered((uint64_t)done));
    }
    while (told(grid, ENDED) < numbered(0)) {
        sched_yield();
    }
    found.attentive_us = median(attentive, ATTENTIVE - 1);
    found.computing_us = done > 0 ? median(computing, (size_t)done) : 1e9;
    least = found.attentive_us > LEAST_US ? found.attentive_us : LEAST_US;
    found.passive = told(grid, DURING) == COMPUTING && found.computing_us <= LATE * least;
    found.data = data && told(grid, RIGHT) == 1;
    return found;
}

void run_case(struct window *window, const char *sync, const char *operation, void *words, int least_ms, int most_ms) {
    static const char *const operations[] = {"put_8", "put_64k", "get_64", "accumulate_8k", "fetch_and_op", "compare_and_swap"};
    static uint64_t buffer[LONG_WORDS];
    static double ones[SUMS];
    struct grid grid = {0};
    struct found found = {0};
    grid.window = window;
    grid.words = words;
    grid.by_lock = strcmp(sync, "lock") == 0;
    grid.buffer = buffer;
    grid.ones = ones;
    for (int i = 0; i < 6; i++) {
        if (strcmp(operation, operations[i]) == 0) {
            grid.operation = (enum operation)i;
        }
    }
    for (int i = 0; i < SUMS; i++) {
        ones[i] = 1;
    }
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, window->win));
    memset(window->part, 0, LONG_AT + LONG_WORDS * 8);
    MUST(MPI_Win_unlock(my_rank, window->win));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == ORIGIN) {
        if (!grid.by_lock) {
            MUST(MPI_Win_lock_all(0, window->win));
        }
        found = originate(&grid);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (!grid.by_lock) {
            MUST(MPI_Win_unlock_all(window->win));
        }
    } else {
        /* Attentive: within this call until the origin has its latencies. */
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        compute(&grid, least_ms, most_ms);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    answer("case %d %.3f %.3f %d %d", at_work, found.computing_us, found.attentive_us, found.passive, found.data);
}
