/* Several threads of each process on one window at the same time (MPI_THREAD_MULTIPLE). */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, TURNS = 200 };
static MPI_Win win;
static long bad_;

static void *work(void *number) {
    long me = (long)number, one = 1, old, x, y;
    for (int turn = 0; turn < TURNS; turn++) {
        int to = (rank_ + turn) % size_;
        MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 0, MPI_SUM, win);
        MPI_Win_flush(to, win);
        /* A separate location at each rank. */
        x = me * 1000000 + turn;
        MPI_Put(&x, 1, MPI_LONG, to, 1 + rank_ * THREADS + me, 1, MPI_LONG, win);
        MPI_Win_flush(to, win);
        MPI_Get(&y, 1, MPI_LONG, to, 1 + rank_ * THREADS + me, 1, MPI_LONG, win);
        MPI_Win_flush_all(win);
        if (x != y) __atomic_store_n(&bad_, turn + 1, __ATOMIC_RELAXED);
        MPI_Request q;
        MPI_Raccumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
    return NULL;
}

/* A separate window for each thread, locked and unlocked. */
static MPI_Comm comms[THREADS];
static MPI_Win own[THREADS];

static void *lock(void *number) {
    long me = (long)number, one = 1;
    for (int turn = 0; turn < TURNS / 4; turn++) {
        int to = (rank_ + turn) % size_;
        MPI_Win_lock(turn % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, own[me]);
        MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, own[me]);
        MPI_Win_unlock(to, own[me]);
    }
    return NULL;
}

static void together(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    int provided;
    long *part, *parts[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE) {
        check("MPI_THREAD_MULTIPLE is provided", 1);
        return end();
    }
    MPI_Win_allocate((1 + size_ * THREADS) * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_lock_all(0, win);
    together(work);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    check("threads that put, get and accumulate", bad_ || part[0] != 2L * THREADS * TURNS);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, comms[i], &parts[i], &own[i]);
    }
    together(lock);
    MPI_Barrier(MPI_COMM_WORLD);
    long bad = 0;
    for (int i = 0; i < THREADS; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, own[i]);
        bad |= parts[i][0] > TURNS / 4 * size_;
        long sum = 0, mine = parts[i][0];
        MPI_Win_unlock(rank_, own[i]);
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        bad |= (sum != (long)(TURNS / 4) * size_) << 1;
        MPI_Win_free(&own[i]);
        MPI_Comm_free(&comms[i]);
    }
    check("threads that lock windows of their own", bad);
    return end();
}
