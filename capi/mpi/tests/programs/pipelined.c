/* Calls that fetch a value return before they have it (MPI-4.1 section 12.3.4): none of them waits
 * for a target that does not answer, and a flush delivers all values. Rank 0 stops the last rank,
 * which over two nodes is on the other one, or on the same if there are three ranks. Within a node
 * the calls need no target, unless the device performs them (TRANSOM_ATOMICS=nic). The device may
 * keep no order, so that an operation waits for an earlier one on the same location. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 20, CALLS = 32, MANY = 1000, AHEAD = 65, WORDS = 8 };
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

/* One call of each kind, each on its own location, all before the target answers. */
static void issue_one_each(int target, MPI_Win win, long *old) {
    static const long one = 1, zero = 0;
    kill(stopped_, SIGSTOP);
    MPI_Accumulate(&one, 1, MPI_LONG, target, 3, 1, MPI_LONG, MPI_SUM, win);
    MPI_Get_accumulate(&one, 1, MPI_LONG, &old[0], 1, MPI_LONG, target, 4, 1, MPI_LONG, MPI_SUM, win);
    MPI_Fetch_and_op(&one, &old[1], MPI_LONG, target, 5, MPI_SUM, win);
    MPI_Compare_and_swap(&one, &zero, &old[2], MPI_LONG, target, 6, win);
    kill(stopped_, SIGCONT);
    MPI_Win_flush(target, win);
}

static long wrong(const long *old) {
    for (int i = 0; i < CALLS; i++)
        if (old[i] != i) return i + 1;
    return 0;
}

/* The number of swaps that lack their value, at most while MANY follow each other. More than AHEAD
 * of each rank would need memory at the target. */
static long most_ahead(int target, MPI_Win win) {
    static const long one = 1, none = 0;
    static volatile long old[MANY];
    long most = 0;
    for (long i = 0; i < MANY; i++) old[i] = -1;
    for (long i = 0; i < MANY; i++) {
        MPI_Compare_and_swap(&one, &none, (void *)&old[i], MPI_LONG, target, 2, win);
        /* A thread of the library may have taken a reply, and not yet have written its value. */
        long without = 0;
        for (long k = 0; k <= i; k++) without += old[k] < 0;
        most = without > most ? without : most;
    }
    MPI_Win_flush(target, win);
    return most;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int last = size_ - 1;
    long *part, pid = getpid();
    MPI_Win win;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < WORDS; i++) part[i] = 0;
    MPI_Win_sync(win);
    MPI_Bcast(&pid, 1, MPI_LONG, last, MPI_COMM_WORLD);
    stopped_ = (pid_t)pid;
    long each[3] = {-1, -1, -1};
    if (rank_ == 0 && last > 0) {
        /* The first contact needs the target. */
        static const long one = 1;
        MPI_Accumulate(&one, 1, MPI_LONG, last, 7, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(last, win);
        signal(SIGALRM, waits);
        alarm(LIMIT);
        issue_one_each(last, win, each);
        alarm(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check("values of one call each", rank_ == 0 && last > 0 && (each[0] || each[1] || each[2]));
    MPI_Win_sync(win);
    for (int i = 3; i < WORDS; i++) check("the last value", rank_ == last && last > 0 && part[i] != 1);
    int in_order = !getenv("TRANSOM_ATOMICS");
    for (int swaps = 0; in_order && swaps < 2; swaps++) {
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
    long most = in_order && rank_ == 0 && last > 0 ? most_ahead(last, win) : 0;
    check("swaps without a value", most > AHEAD ? most : 0);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return end();
}
