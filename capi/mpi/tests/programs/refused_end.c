/* A delete function of MPI_COMM_SELF fails at rank 0, at the last rank, or at all of them: the
 * program ends as it does without the library. MPI's text does not say what a failure of such a
 * function does at the end (MPI-4.1 §7.7.2, §11.2.4). The other ranks' functions still use a
 * window. */
#include "check.h"

#include <unistd.h>

static MPI_Win win_;
static int fails_;

static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    if (fails_) return MPI_ERR_OTHER;
    long one = 1;
    usleep(200000);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win_);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win_);
    MPI_Win_unlock(0, win_);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    long *part;
    int key;
    const char *who = argc > 1 ? argv[1] : "first";
    begin(&argc, &argv);
    fails_ = !strcmp(who, "all") || (!strcmp(who, "first") && rank_ == 0) || (!strcmp(who, "last") && rank_ == size_ - 1);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win_);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    check("the start", 0);
    MPI_Finalize();
    if (rank_ == 0) printf("ok the end\n");
    return 0;
}
