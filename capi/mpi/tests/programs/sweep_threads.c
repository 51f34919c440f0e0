/*
 * Sweep: MPI_THREAD_MULTIPLE. In each case four threads of each rank work at the same time: either
 * each runs operations one by one on windows of its own, which it creates and frees over a
 * communicator of its own, or all use one window within one epoch of MPI_Win_lock_all. There each
 * thread has a share of each rank's memory, and all count together in one more share of rank 0.
 */
#define SWEEP_THREADS
#define SWEEP_SHARES 5
#include "sweep_operations.h"

#include <pthread.h>

enum { THREADS = SWEEP_SHARES - 1, IN_A_ROW = 4, TURNS = 20 };

static long cases(void) { return all_operations() / THREADS; }

static int is_together(long number) { return number % 2; }

/* The first operation of a thread in a case. Threads that share a window have the same place. */
static long operation_of(long number, int thread) {
    if (!is_together(number)) return (number / 2 * THREADS + thread) * 7919 % all_operations();
    long round = mixed((uint64_t)number, (uint64_t)thread) % ROUNDS, place = number / 2 % PLACES;
    long epoch = ALL_FLUSH + mixed((uint64_t)number, 10 + (uint64_t)thread) % (EPOCHS - ALL_FLUSH);
    return ((round * PLACES + place) * EPOCHS + epoch) * OPERATIONS + (number / 2 / PLACES + thread * 3) % OPERATIONS;
}

static void describe(long number, char text[PARAMETERS]) {
    int used = snprintf(text, PARAMETERS, "threads %s", is_together(number) ? "together" : "apart");
    if (is_together(number)) used += snprintf(text + used, PARAMETERS - used, " %s", place_names[test_of(operation_of(number, 0)).place]);
    for (int i = 0; i < THREADS; i++) {
        struct test t = test_of(operation_of(number, i));
        if (is_together(number)) used += snprintf(text + used, PARAMETERS - used, " %s:%s", epoch_names[t.epoch], operation_names[t.op]);
        else used += snprintf(text + used, PARAMETERS - used, " %s:%s:%s", place_names[t.place], epoch_names[t.epoch], operation_names[t.op]);
    }
}

/* --- the threads ------------------------------------------------------------------------------ */

struct thread {
    pthread_t id;
    long number;
    int index, failed;
    char said[OUTCOME];
};

static MPI_Comm comms[THREADS];
static pthread_barrier_t begin;
/* The window that the threads share. */
static struct window shared;

static int has_counters(void) { return shared.bytes != 0; }

/* The location of a counter of all threads, in the share after the threads' shares. */
static MPI_Aint counter(int which) {
    struct window counters = shared;
    counters.first = (MPI_Aint)THREADS * SHARE;
    return place_of(&counters, 0, which * (int)sizeof(long));
}

/* Adds 1 to a counter in one of three ways, all of which are atomic. */
static void count_up(long *last) {
    const long one = 1;
    long old = 0, next, seen;
    MPI_Win w = shared.win;
    CALL(Accumulate, &one, 1, MPI_LONG, 0, counter(0), 1, MPI_LONG, MPI_SUM, w);
    CALL(Fetch_and_op, &one, &old, MPI_LONG, 0, counter(1), MPI_SUM, w);
    CALL(Win_flush, 0, w);
    if (old <= *last) say("counter went from %ld to %ld", *last, old);
    *last = old;
    for (old = 0; !failed_; old = seen) {
        next = old + 1;
        CALL(Compare_and_swap, &next, &old, &seen, MPI_LONG, 0, counter(2), w);
        CALL(Win_flush, 0, w);
        if (seen == old) break;
    }
}

static void work_together(const struct thread *thread) {
    struct test t = test_of(operation_of(thread->number, thread->index));
    int target = target_of(&t, rank_);
    long last = -1;
    window = shared;
    window.first = (MPI_Aint)thread->index * SHARE;
    expect(&t);
    fill_buffers(&t);
    for (int i = 0; i < TURNS && has_counters(); i++) {
        count_up(&last);
        if (i == TURNS / 2) issue_test(&t, target), flushed(&t, target);
    }
    if (!has_counters()) issue_test(&t, target), flushed(&t, target);
    CALL(Win_flush_all, window.win);
    compare_buffers(&t);
}

static void *work(void *argument) {
    struct thread *thread = argument;
    comm_ = comms[thread->index];
    pthread_barrier_wait(&begin);
    if (is_together(thread->number)) {
        work_together(thread);
    } else {
        long first = operation_of(thread->number, thread->index);
        for (int i = 0; i < IN_A_ROW; i++) run_operation((first + i) % all_operations());
        close_operations();
    }
    memcpy(thread->said, said_, OUTCOME);
    thread->failed = failed_;
    return NULL;
}

static void run_threads(long number) {
    struct thread threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.number = number, .index = i};
        pthread_create(&threads[i].id, NULL, work, &threads[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        if (threads[i].said[0]) say("thread %d: %s", i, threads[i].said);
        failed_ |= threads[i].failed;
    }
}

/* --- all on one window ------------------------------------------------------------------------ */

static void fill_shares(long number) {
    window = shared;
    for (int i = 0; i < THREADS; i++) {
        struct test t = test_of(operation_of(number, i));
        window.first = (MPI_Aint)i * SHARE;
        fill_memory(&t);
    }
    if (has_counters()) memset(shared.memory + THREADS * SHARE, 0, SHARE);
}

static void compare_shares(long number) {
    long all = (long)size_ * THREADS * TURNS;
    window = shared;
    for (int i = 0; i < THREADS; i++) {
        struct test t = test_of(operation_of(number, i));
        window.first = (MPI_Aint)i * SHARE;
        expect(&t);
        compare_memory(&t);
    }
    if (rank_ != 0 || !has_counters()) return;
    const long *counters = (const long *)(shared.memory + THREADS * SHARE);
    for (int i = 0; i < 3; i++)
        if (counters[i] != all) say("counter %d is %ld, not %ld", i, counters[i], all);
}

static void run_together(long number) {
    static long long stack_of_main[BYTES / 8];
    struct test t = test_of(operation_of(number, 0));
    if (!in_stack) in_stack = (char *)stack_of_main;
    open_window(&shared, t.place, t.unit, MPI_INFO_NULL, MPI_COMM_WORLD);
    if (shared.win == MPI_WIN_NULL) return;
    CALL(Win_lock, MPI_LOCK_EXCLUSIVE, rank_, 0, shared.win);
    fill_shares(number);
    CALL(Win_unlock, rank_, shared.win);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(Win_lock_all, 0, shared.win);
    run_threads(number);
    CALL(Win_unlock_all, shared.win);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(Win_lock, MPI_LOCK_EXCLUSIVE, rank_, 0, shared.win);
    compare_shares(number);
    CALL(Win_unlock, rank_, shared.win);
    compare_guard();
    close_window(&shared);
}

static void run_case(long number) {
    if (comms[0] == 0) {
        for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        pthread_barrier_init(&begin, NULL, THREADS);
    }
    if (is_together(number)) run_together(number);
    else run_threads(number);
}

static void finish(void) {
    for (int i = 0; i < THREADS && comms[0] != 0; i++) MPI_Comm_free(&comms[i]);
}
