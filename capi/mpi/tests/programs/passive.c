/* Targets that compute: rank 0 makes no MPI call until rank 1's operations on its part have arrived
 * and rank 1 has reported their completion (MPI-4.1 section 12.7.3, with asynchronous progress).
 * Hosts do not promise this. */
#include "check.h"
#include <time.h>

enum { LOCK, LOCK_ALL, OPERATIONS = 4 };

/* Waits without any MPI call, for 30 s at most; returns whether the value arrived. */
static int computes_until(volatile long *word, long value) {
    for (time_t end = time(NULL) + 30; time(NULL) < end;)
        for (int i = 0; i < 1000; i++)
            if (*word == value) return 1;
    return 0;
}

static void act(int operation, long *value, MPI_Aint at, MPI_Win win) {
    long old = 0, zero = 0;
    if (operation == 0) MPI_Put(value, 1, MPI_LONG, 0, at, 1, MPI_LONG, win);
    if (operation == 1) MPI_Accumulate(value, 1, MPI_LONG, 0, at, 1, MPI_LONG, MPI_SUM, win);
    if (operation == 2) MPI_Fetch_and_op(value, &old, MPI_LONG, 0, at, MPI_SUM, win);
    if (operation == 3) MPI_Compare_and_swap(value, &zero, &old, MPI_LONG, 0, at, win);
    MPI_Win_flush(0, win);
}

/* After the operation on the first word of rank 0 is complete, the reply is put into the second
 * word. */
static void tried(const char *kind, volatile long *part, MPI_Aint first, MPI_Aint second, MPI_Win win) {
    static const char *names[] = {"put", "accumulate", "fetch_and_op", "compare_and_swap"};
    for (int how = LOCK; how <= LOCK_ALL; how++)
        for (int operation = 0; operation < OPERATIONS; operation++) {
            long five = 5, six = 6, bad = 0;
            char text[96];
            if (rank_ == 0) part[0] = part[1] = 0;
            MPI_Win_fence(0, win);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            if (rank_ == 0) bad = !computes_until(&part[1], 6) || part[0] != 5;
            if (rank_ == 1) {
                if (how == LOCK) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
                else MPI_Win_lock_all(0, win);
                act(operation, &five, first, win);
                if (how == LOCK) MPI_Win_unlock(0, win), MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
                act(0, &six, second, win);
                if (how == LOCK) MPI_Win_unlock(0, win);
                else MPI_Win_unlock_all(win);
            }
            snprintf(text, sizeof text, "%s: %s, %s", kind, names[operation], how == LOCK ? "lock" : "lock_all");
            check(text, bad);
        }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part, own[2] = {0, 0};
    MPI_Aint at = 0;
    MPI_Win_allocate(16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    tried("allocate", part, 0, 1, win);
    MPI_Win_free(&win);
    MPI_Win_create(own, 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    tried("create", own, 0, 1, win);
    MPI_Win_free(&win);
    MPI_Alloc_mem(16, MPI_INFO_NULL, &part);
    MPI_Win_create(part, 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    tried("create, over memory of the MPI", part, 0, 1, win);
    MPI_Win_free(&win);
    MPI_Free_mem(part);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, own, sizeof own);
    MPI_Get_address(own, &at);
    MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    tried("dynamic", own, at, at + 8, win);
    MPI_Win_detach(win, own);
    MPI_Win_free(&win);
    return end();
}
