/* The forms with large counts (MPI-4), and a type whose counts are large. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part, mine[8], got[8] = {0}, one = 1;
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    MPI_Count n = 8;
    MPI_Win_allocate_c(32 * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    for (int i = 0; i < 8; i++) mine[i] = rank_ * 10 + i;
    MPI_Win_fence(0, win);
    MPI_Put_c(mine, n, MPI_LONG, next, 0, n, MPI_LONG, win);
    MPI_Accumulate_c(&one, 1, MPI_LONG, next, 20, 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    long bad = 0;
    for (int i = 0; i < 8; i++) bad |= part[i] != last * 10 + i;
    check("put and accumulate with large counts", bad || part[20] != 1);
    MPI_Get_c(got, n, MPI_LONG, next, 0, n, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    check("get with large counts", memcmp(got, mine, sizeof mine));
    MPI_Datatype type;
    MPI_Type_vector_c(4, 1, 2, MPI_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Win_lock_all(0, win);
    MPI_Request q[2];
    MPI_Rput_c(mine, 4, MPI_LONG, next, 8, 1, type, win, &q[0]);
    MPI_Raccumulate_c(&one, 1, MPI_LONG, next, 21, 1, MPI_LONG, MPI_SUM, win, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    for (int i = 0; i < 4; i++) bad |= part[8 + 2 * i] != last * 10 + i;
    bad |= part[9] != 0 || part[21] != 1;
    MPI_Win_unlock(rank_, win);
    check("requests with large counts, and a large vector", bad);
    MPI_Type_free(&type);
    MPI_Win_free(&win);
    return end();
}
