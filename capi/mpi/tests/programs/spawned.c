/* A window over ranks outside MPI_COMM_WORLD, which the host serves as a whole, beside one that
 * transom serves. */
#include "check.h"

int main(int argc, char **argv) {
    MPI_Comm parent, both, all;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
    else both = parent;
    MPI_Intercomm_merge(both, parent != MPI_COMM_NULL, &all);
    int me, n;
    MPI_Comm_rank(all, &me), MPI_Comm_size(all, &n);
    MPI_Win win, here;
    long *part, *own, mine = me + 1, other = rank_ + 1;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, all, &part, &win);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &here);
    MPI_Win_fence(0, win), MPI_Win_fence(0, here);
    MPI_Put(&mine, 1, MPI_LONG, (me + 1) % n, 0, 1, MPI_LONG, win);
    MPI_Put(&other, 1, MPI_LONG, (rank_ + 1) % size_, 0, 1, MPI_LONG, here);
    MPI_Win_fence(0, win), MPI_Win_fence(0, here);
    long bad = *part != (me + n - 1) % n + 1 || *own != (rank_ + size_ - 1) % size_ + 1, worst;
    MPI_Barrier(all), MPI_Barrier(both);
    MPI_Win_free(&win), MPI_Win_free(&here);
    MPI_Allreduce(&bad, &worst, 1, MPI_LONG, MPI_MAX, all);
    if (parent == MPI_COMM_NULL) check("a window with spawned processes, and one without", worst);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&both);
    return end();
}
