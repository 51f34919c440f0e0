/* Rank 0 creates and frees windows of its own while other ranks put to and get from another window
 * of rank 0. The argument is the number of threads that create windows. */
#include "check.h"

#include <pthread.h>

enum { AT_ONCE = 64, STEPS = 6000, LEN = 1024, MOST_THREADS = 16, TAG = 7 };

static MPI_Comm selves_[MOST_THREADS];

static void *create_and_free(void *comm) {
    MPI_Win windows[AT_ONCE];
    unsigned seed = 1 + (unsigned)((MPI_Comm *)comm - selves_);
    for (int i = 0; i < AT_ONCE; i++) windows[i] = MPI_WIN_NULL;
    for (int step = 0; step < STEPS; step++) {
        MPI_Win *win = windows + rand_r(&seed) % AT_ONCE;
        void *base;
        if (*win == MPI_WIN_NULL) MPI_Win_allocate(256, 8, MPI_INFO_NULL, *(MPI_Comm *)comm, &base, win);
        else MPI_Win_free(win);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (windows[i] != MPI_WIN_NULL) MPI_Win_free(windows + i);
    return NULL;
}

static void create_in_threads(int threads) {
    pthread_t ids[MOST_THREADS];
    for (int i = 0; i < threads; i++) pthread_create(ids + i, NULL, create_and_free, selves_ + i);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

/* Puts and gets until rank 0 sends a message; returns the number of wrong results. */
static long put_and_get(MPI_Win win) {
    static int64_t data[LEN], result[LEN];
    long wrong = 0;
    int over = 0;
    MPI_Win_lock_all(0, win);
    for (int64_t round = 0; !over; round++) {
        for (int i = 0; i < LEN; i++) data[i] = round * LEN + i;
        MPI_Put(data, LEN, MPI_INT64_T, 0, rank_ * LEN, LEN, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Get(result, LEN, MPI_INT64_T, 0, rank_ * LEN, LEN, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        wrong += memcmp(data, result, sizeof data) != 0;
        MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &over, MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(win);
    MPI_Recv(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return wrong;
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    int provided;
    int64_t *memory;
    MPI_Win win;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (int i = 0; i < threads; i++) MPI_Comm_dup(MPI_COMM_SELF, selves_ + i);
    MPI_Win_allocate(size_ * LEN * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    long wrong = 0;
    if (rank_ == 0) {
        create_in_threads(threads);
        for (int rank = 1; rank < size_; rank++) MPI_Send(NULL, 0, MPI_INT, rank, TAG, MPI_COMM_WORLD);
    } else {
        wrong = put_and_get(win);
    }
    check("windows are created and freed while others are used", wrong);
    MPI_Win_free(&win);
    for (int i = 0; i < threads; i++) MPI_Comm_free(selves_ + i);
    return end();
}
