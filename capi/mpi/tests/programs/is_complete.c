/* MPIX_Request_is_complete, which MPICH has from 4.1 on, by either name: a loop of it alone ends
 * when an operation on a window is complete. Runs with ranks that a net connects too. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <unistd.h>

enum { LIMIT = 30 };

/* Gets from the next rank, which is in no call, by a request that only `is_complete` polls. */
static void polled(const char *name, int (*is_complete)(MPI_Request), MPI_Win win) {
    MPI_Request request;
    const int next = (rank_ + 1) % size_;
    int got = -1, flag = 0;
    const double start = MPI_Wtime();
    MPI_Win_lock_all(0, win);
    MPI_Rget(&got, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request);
    while (!is_complete(request) && MPI_Wtime() - start < LIMIT) usleep(100);
    long bad = !is_complete(request);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    bad |= !flag << 1 | (request != MPI_REQUEST_NULL) << 2 | (got != next) << 3;
    MPI_Win_unlock_all(win);
    check(name, bad);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    begin(&argc, &argv);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    *part = rank_;
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    polled("MPIX_Request_is_complete", MPIX_Request_is_complete, win);
    polled("PMPIX_Request_is_complete", PMPIX_Request_is_complete, win);
    MPI_Win_free(&win);
    return end();
}
