/* Rank 0 may not free a window, because its epoch is open. The argument says where rank 1 is then:
 * - wait: in MPI_Win_wait, for the MPI_Win_complete that rank 0 has forgotten;
 * - lock: in MPI_Win_lock, for the MPI_Win_unlock that rank 0 has forgotten;
 * - message: in MPI_Recv, for a message that rank 0 sends after its error;
 * - free: in MPI_Win_free, as rank 2 always is.
 * The first two end by the error of rank 0. In the others rank 0 frees the window again. */
#include "check.h"

static MPI_Win win_;
static long x_ = 1;

static void with_group_of(int rank, int (*call)(MPI_Group, int, MPI_Win)) {
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    call(one, 0, win_);
    MPI_Group_free(&one), MPI_Group_free(&all);
}

static void forget_complete(void) {
    if (rank_ == 0) with_group_of(1, MPI_Win_start), MPI_Put(&x_, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win_);
    if (rank_ == 1) with_group_of(0, MPI_Win_post), MPI_Win_wait(win_);
}

static void forget_unlock(void) {
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win_);
        MPI_Put(&x_, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win_), MPI_Win_flush(2, win_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win_), MPI_Win_unlock(2, win_);
}

/* Whether the first call of rank 0 is refused. */
static int free_twice(int sends) {
    if (rank_ == 1 && sends) MPI_Recv(&x_, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank_ != 0) return 1;
    MPI_Win_set_errhandler(win_, MPI_ERRORS_RETURN);
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win_);
    int refused = class_of(MPI_Win_free(&win_)) == MPI_ERR_RMA_SYNC && win_ != MPI_WIN_NULL;
    if (sends) MPI_Send(&x_, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD);
    MPI_Win_unlock(1, win_);
    return refused;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "free";
    long *part, refused = 1;
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win_);
    if (!strcmp(how, "wait")) forget_complete();
    else if (!strcmp(how, "lock")) forget_unlock();
    else refused = free_twice(!strcmp(how, "message"));
    MPI_Win_free(&win_);
    check("a refused free, and another one", !refused || win_ != MPI_WIN_NULL);
    return end();
}
