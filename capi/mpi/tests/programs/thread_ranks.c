/* Collective calls on a communicator whose ranks are threads, which MPICH has from 4.1 on
 * (MPIX_Threadcomm_init). Each process has one thread in it, and then several. Runs with ranks that
 * a net connects too. */
#include "check.h"

#include <pthread.h>

enum { MOST = 2, ROUNDS = 20 };

static MPI_Comm comm_;
static long bad_;

static void *calls(void *arg) {
    int rank, size;
    MPIX_Threadcomm_start(comm_);
    MPI_Comm_rank(comm_, &rank);
    MPI_Comm_size(comm_, &size);
    for (int round = 0; round < ROUNDS; round++) {
        int sum = 0, mine = rank + round;
        MPI_Barrier(comm_);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm_);
        if (sum != size * (size - 1) / 2 + size * round) __atomic_fetch_or(&bad_, 1, __ATOMIC_RELAXED);
    }
    MPIX_Threadcomm_finish(comm_);
    return arg;
}

int main(int argc, char **argv) {
    int provided, *part;
    MPI_Win win;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    for (int count = 1; count <= MOST && provided == MPI_THREAD_MULTIPLE; count++) {
        pthread_t threads[MOST];
        MPIX_Threadcomm_init(MPI_COMM_WORLD, count, &comm_);
        for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, calls, NULL);
        for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
        MPIX_Threadcomm_free(&comm_);
        check("collective calls of threads", bad_);
    }
    check("MPI_THREAD_MULTIPLE is provided", provided != MPI_THREAD_MULTIPLE);
    check("the window", MPI_Win_free(&win));
    return end();
}
