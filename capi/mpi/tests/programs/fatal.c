/* A put outside of an epoch, under the default error handler of windows: the program ends with a
 * message. With an argument, MPI_COMM_WORLD has MPI_ERRORS_RETURN, which MPICH applies to windows
 * without a handler of their own. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part, x = 1;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    if (argc > 1) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        check("the put returns an error", class_of(code) != MPI_ERR_RMA_SYNC);
        MPI_Win_free(&win);
        return end();
    }
    if (rank_ == 0) MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("not ok the program goes on\n");
    MPI_Win_free(&win);
    return end();
}
