/* Calls that fetch a value return before they have it (MPI-4.1 section 12.3.4): none of them waits
 * for a target that does not answer, and a flush delivers all values. Rank 0 stops the last rank,
 * which over two nodes is on the other one. Within a node the calls need no target. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 20, CALLS = 32 };
static pid_t stopped_;

static void waits(int signal) {
    static const char said[] = "not ok a call waits for the stopped rank\n";
    (void)signal;
    kill(stopped_, SIGCONT);
    if (write(1, said, sizeof said - 1) < 0) _exit(2);
    _exit(1);
}

/* The calls of one kind, all before the target answers. */
static void issue(int swaps, int target, MPI_Win win, long *old) {
    static const long one = 1;
    static long turns[CALLS + 1];
    for (int i = 0; i <= CALLS; i++) turns[i] = i;
    kill(stopped_, SIGSTOP);
    for (int i = 0; i < CALLS; i++) {
        if (swaps) MPI_Compare_and_swap(&turns[i + 1], &turns[i], &old[i], MPI_LONG, target, 1, win);
        else MPI_Fetch_and_op(&one, &old[i], MPI_LONG, target, 0, MPI_SUM, win);
    }
    kill(stopped_, SIGCONT);
    MPI_Win_flush(target, win);
}

static long wrong(const long *old) {
    for (int i = 0; i < CALLS; i++)
        if (old[i] != i) return i + 1;
    return 0;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int last = size_ - 1;
    long *part, pid = getpid();
    MPI_Win win;
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_lock_all(0, win);
    part[0] = part[1] = 0;
    MPI_Win_sync(win);
    MPI_Bcast(&pid, 1, MPI_LONG, last, MPI_COMM_WORLD);
    stopped_ = (pid_t)pid;
    for (int swaps = 0; swaps < 2; swaps++) {
        long old[CALLS] = {0}, found;
        if (rank_ == 0) {
            /* The first contact needs the target. */
            MPI_Get(&found, 1, MPI_LONG, last, swaps, 1, MPI_LONG, win);
            MPI_Win_flush(last, win);
            signal(SIGALRM, waits);
            alarm(LIMIT);
            if (last > 0) issue(swaps, last, win, old);
            alarm(0);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        check(swaps ? "values of swaps" : "values of sums", rank_ == 0 && last > 0 ? wrong(old) : 0);
        MPI_Win_sync(win);
        check("the last value", rank_ == last && last > 0 && part[swaps] != CALLS);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return end();
}
