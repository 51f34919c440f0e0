/* A put outside of an epoch, under the default error handler of windows: the program ends with a
 * message. With an argument, MPI_COMM_WORLD has MPI_ERRORS_RETURN:
 * - world: MPICH applies it to windows without a handler of their own
 * - self: and to the creation of windows over other communicators
 * - abort: the window has MPI_ERRORS_ABORT, which ends the program
 * - set: the window has MPI_ERRORS_ARE_FATAL, which the program has set
 * - exit: no error; a window is freed, and MPI ended, by a function of atexit */
#include "check.h"

static MPI_Win win_;

static void at_exit(void) {
    check("the window is freed at exit", MPI_Win_free(&win_) != MPI_SUCCESS);
    MPI_Finalize();
}

/* Returns whether the program goes on as the argument says. */
static int goes_on(const char *how) {
    long x = 1, *part;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(how, "self")) {
        MPI_Win win;
        int code = MPI_Win_allocate(-8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &part, &win);
        check("the creation returns an error", code == MPI_SUCCESS);
        return 1;
    }
    if (!strcmp(how, "exit")) {
        MPI_Win win;
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        MPI_Win_free(&win);
        return !atexit(at_exit);
    }
    if (!strcmp(how, "set")) MPI_Win_set_errhandler(win_, MPI_ERRORS_ARE_FATAL);
#if MPI_VERSION >= 4
    if (!strcmp(how, "abort")) MPI_Win_set_errhandler(win_, MPI_ERRORS_ABORT);
#endif
    int code = MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win_);
    check("the put returns an error", class_of(code) != MPI_ERR_RMA_SYNC);
    return !strcmp(how, "world");
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long *part, x = 1;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win_);
    if (argc > 1 && goes_on(argv[1])) {
        if (!strcmp(argv[1], "exit")) return failed_;
        MPI_Win_free(&win_);
        return end();
    }
    if (rank_ == 0) MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win_);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("not ok the program goes on\n");
    MPI_Win_free(&win_);
    return end();
}
