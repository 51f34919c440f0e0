/* A call that waits in a window also makes progress for the host's messages: a rank in a
 * synchronization call has posted an Irecv, and the other ranks enter only when their sends to it
 * are complete (MPI-4.1 section 12.7.3). */
#include "check.h"

enum { LONG = 1 << 20 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char out[LONG], in[LONG];
    static const char *names[] = {"fence", "lock", "wait", "free", "unlock_all and fence"};
    int to = 0;
    for (int way = 0; way < 4; way++) {
        MPI_Win win;
        MPI_Request q = MPI_REQUEST_NULL;
        MPI_Group world, one;
        long *part, x = 5;
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        memset(in, 0, LONG), memset(out, 7, LONG);
        int origin = 1;
        if (way == 1 && rank_ == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 0) {
            MPI_Irecv(in, LONG, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &q);
            MPI_Barrier(MPI_COMM_WORLD);
            if (way == 0) MPI_Win_fence(0, win);
            if (way == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win), MPI_Win_unlock(1, win);
            if (way == 2) MPI_Group_incl(world, 1, &origin, &one), MPI_Win_post(one, 0, win), MPI_Win_wait(win), MPI_Group_free(&one);
            if (way == 3) MPI_Win_free(&win);
            MPI_Wait(&q, MPI_STATUS_IGNORE);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank_ == 1) MPI_Ssend(out, LONG, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
            if (way == 0) MPI_Win_fence(0, win);
            if (way == 1 && rank_ == 1) MPI_Win_unlock(1, win);
            if (way == 2 && rank_ == 1) {
                MPI_Group_incl(world, 1, &to, &one);
                MPI_Win_start(one, 0, win);
                MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
                MPI_Win_complete(win);
                MPI_Group_free(&one);
            }
            if (way == 3) MPI_Win_free(&win);
        }
        check(names[way], rank_ == 0 && memcmp(in, out, LONG));
        MPI_Group_free(&world);
        if (way == 0) MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        if (way < 3) MPI_Win_free(&win);
    }
    return end();
}
