/* A program that a tool profiles: 5 puts of each rank, in one window. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long *part, mine = rank_, bad = 0;
    MPI_Win win;
    MPI_Win_allocate(5 * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 5; i++) MPI_Put(&mine, 1, MPI_LONG, (rank_ + 1) % size_, i, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < 5; i++) bad |= part[i] != (rank_ + size_ - 1) % size_;
    MPI_Win_free(&win);
    check("puts that a tool counts", bad);
    return end();
}
