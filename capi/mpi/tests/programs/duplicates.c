/* Threads create the first windows of different communicators over the same ranks concurrently, in
 * a different order at each rank (MPI_THREAD_MULTIPLE). The communicator distinguishes the windows,
 * not the order of the calls (MPI-4.1 section 12.2). */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 2, LONGS = 16, ROUNDS = 6 };
static MPI_Comm comms[THREADS];
static long bad_[THREADS];
static int round_;
/* The number of threads of this rank that are about to create their window. */
static int about_;

static int created(int round, long me, MPI_Aint size, int unit, void *memory, void *base, MPI_Win *win) {
    switch (round % 3) {
    case 0: return MPI_Win_allocate(size, unit, MPI_INFO_NULL, comms[me], base, win);
    case 1: *(void **)base = memory; return MPI_Win_create(memory, size, unit, MPI_INFO_NULL, comms[me], win);
    default: return MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, comms[me], base, win);
    }
}

static int attribute(MPI_Win win, int keyval, void *value) {
    int flag;
    MPI_Win_get_attr(win, keyval, value, &flag);
    return flag;
}

/* Creates a window over this thread's communicator and puts into all its parts. Sizes and units
 * differ between the threads. */
static void *work(void *number) {
    long me = (long)number, bad = 0, memory[LONGS + THREADS], x, *base;
    int unit = me ? 8 : 1, turn = (int)(me + rank_ + round_) % THREADS, rank, size, *of_unit;
    MPI_Aint bytes = 8 * (LONGS + me), *of_size;
    MPI_Win win;
    MPI_Comm_rank(comms[me], &rank);
    MPI_Comm_size(comms[me], &size);
    /* The other thread is within its call when this one begins, at every second rank the other way
       round. */
    while (__atomic_load_n(&about_, __ATOMIC_ACQUIRE) != turn) usleep(100);
    if (turn) usleep(30000);
    __atomic_fetch_add(&about_, 1, __ATOMIC_RELEASE);
    if (created(round_, me, bytes, unit, memory, &base, &win)) bad |= 1;
    if (!attribute(win, MPI_WIN_SIZE, &of_size) || *of_size != bytes) bad |= 2;
    if (!attribute(win, MPI_WIN_DISP_UNIT, &of_unit) || *of_unit != unit) bad |= 4;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < LONGS + me; i++) base[i] = -1;
    MPI_Win_sync(win);
    MPI_Barrier(comms[me]);
    for (int to = 0; to < size; to++) {
        x = 1000 * me + rank;
        /* By the target's unit: the other thread's window has another unit. Only one has the last
         * long. */
        MPI_Put(&x, 1, MPI_LONG, to, 8 / unit * rank, 1, MPI_LONG, win);
        if (me && rank == 0) MPI_Put(&x, 1, MPI_LONG, to, 8 / unit * LONGS, 1, MPI_LONG, win);
        MPI_Win_flush(to, win);
    }
    MPI_Barrier(comms[me]);
    MPI_Win_sync(win);
    for (int from = 0; from < size; from++) bad |= (base[from] != 1000 * me + from) << 3;
    for (int i = size; i < LONGS; i++) bad |= (base[i] != -1) << 4;
    if (me) bad |= (base[LONGS] != 1000) << 5;
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    __atomic_fetch_or(&bad_[me], bad, __ATOMIC_RELAXED);
    return NULL;
}

/* Two communicators of the same ranks in the same order, created differently in each round. */
static void make(int round) {
    MPI_Group group;
    MPI_Request requests[THREADS];
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    for (int i = 0; i < THREADS; i++) {
        switch (round / 2) {
        case 0: MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]); break;
        case 1: MPI_Comm_idup(i ? comms[0] : MPI_COMM_WORLD, &comms[i], &requests[i]); MPI_Wait(&requests[i], MPI_STATUS_IGNORE); break;
        default:
            if (i) MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comms[i]);
            else MPI_Comm_split(MPI_COMM_WORLD, 0, rank_, &comms[i]);
        }
    }
    MPI_Group_free(&group);
}

/* Parts of the world, side by side, and within each two duplicates at once. */
static void halves(void) {
    MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, rank_, &comms[0]);
    MPI_Comm_dup(comms[0], &comms[1]);
}

static long both(void) {
    pthread_t threads[THREADS];
    about_ = 0;
    memset(bad_, 0, sizeof bad_);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return bad_[0] | bad_[1] << 8;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE) {
        check("MPI_THREAD_MULTIPLE is provided", 1);
        return end();
    }
    static const char *const names[] = {"duplicates", "duplicates made without waiting", "a split and a group"};
    long bad = 0;
    for (round_ = 0; round_ < ROUNDS; round_++) {
        make(round_);
        bad |= both();
        /* Uses the communicators again in the other order. The next communicator may get the handle
         * of a freed one. */
        round_++;
        bad |= both();
        round_--;
        for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
        if (round_ % 2) {
            check(names[round_ / 2], bad);
            bad = 0;
        }
    }
    halves();
    bad = both();
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    check("duplicates of parts of the world", bad);
    return end();
}
