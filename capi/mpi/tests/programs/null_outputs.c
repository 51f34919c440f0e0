/* Calls that get NULL instead of an output return an error. MPI's own errors have the class
 * MPI_ERR_ARG under MPICH; Open MPI has others for some calls. */
#include "check.h"

#include "../../include/transom_mpi_notify.h"

static int is_error(int code) {
#ifdef OPEN_MPI
    return code != MPI_SUCCESS;
#else
    return class_of(code) == MPI_ERR_ARG;
#endif
}

static void queries(MPI_Win win) {
    int flag, unit;
    MPI_Aint size;
    void *value;
    check("get_attr without a value", !is_error(MPI_Win_get_attr(win, MPI_WIN_SIZE, NULL, &flag)));
    check("get_attr without a flag", !is_error(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, NULL)));
    check("shared_query without a size", !is_error(MPI_Win_shared_query(win, 0, NULL, &unit, &value)));
    check("shared_query without a unit", !is_error(MPI_Win_shared_query(win, 0, &size, NULL, &value)));
    check("shared_query without an address", !is_error(MPI_Win_shared_query(win, 0, &size, &unit, NULL)));
    check("test without a flag", !is_error(MPI_Win_test(win, NULL)));
    check("alloc_mem without an address", !is_error(MPI_Alloc_mem(100, MPI_INFO_NULL, NULL)));
#ifndef OPEN_MPI
    check("free without a window", !is_error(MPI_Win_free(NULL)));
#endif
    int x = 1, found = 0;
    MPI_Win_lock_all(0, win);
    check("rput without a request", !is_error(MPI_Rput(&x, 1, MPI_INT, rank_, 0, 1, MPI_INT, win, NULL)));
    MPI_Get(&found, 1, MPI_INT, rank_, 0, 1, MPI_INT, win);
    MPI_Win_flush(rank_, win);
    check("it has put nothing", by_transom() && found);
    MPI_Win_unlock_all(win);
}

static void counters(MPI_Win win) {
    int x = 1, flag;
    MPI_Count value;
    void *address;
    MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1);
    check("get_num_notify without a number", !is_error(MPI_Win_get_num_notify(win, 0, NULL)));
    check("get_notify_value without a value", !is_error(MPI_Win_get_notify_value(win, 0, NULL)));
    check("notify_threshold without a request", !is_error(MPI_Win_notify_threshold(win, 0, 1, NULL)));
    check("get_attr of counters without a value",
          !is_error(MPI_Win_get_attr(win, MPI_WIN_NOTIFICATION_NUM_UB, NULL, &flag)));
    check("get_attr of counters without a flag",
          !is_error(MPI_Win_get_attr(win, MPI_WIN_NOTIFICATION_NUM_UB, &address, NULL)));
    MPI_Win_lock_all(0, win);
    MPI_Put_notify(&x, 1, MPI_INT, rank_, 0, 1, MPI_INT, 0, win);
    MPI_Win_flush(rank_, win);
    check("rput_notify without a request",
          !is_error(MPI_Rput_notify(&x, 1, MPI_INT, rank_, 0, 1, MPI_INT, 0, win, NULL)));
    check("reset_notify_value without a value", !is_error(MPI_Win_reset_notify_value(win, 0, NULL)));
    check("the counter", MPI_Win_get_notify_value(win, 0, &value) || value != 1);
    MPI_Win_unlock_all(win);
}

static void creations(void) {
    int x = 0;
    void *base;
    MPI_Win win = MPI_WIN_NULL;
    check("create without a window", !is_error(MPI_Win_create(&x, 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, NULL)));
    check("create_dynamic without a window", !is_error(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, NULL)));
    check("allocate without a window", !is_error(MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, NULL)));
    check("allocate without an address", !is_error(MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, NULL, &win)));
    check("its window is none", win != MPI_WIN_NULL);
    check("allocate_shared without an address",
          !is_error(MPI_Win_allocate_shared(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, NULL, &win)));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win win;
    int *part;
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    queries(win);
    if (by_transom()) counters(win);
    creations();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    return end();
}
