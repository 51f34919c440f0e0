/* Queries of parts that loads and stores may not reach, and shared windows of ranks between which
 * transom shares no memory: the results follow MPI, and the costs are the host's. */
#include "check.h"

#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A query of a rank's part returns the whole part, or 0 bytes and NULL; a query of MPI_PROC_NULL
 * returns the first part that loads and stores reach. */
static void queried(const char *name, MPI_Win win, long *part) {
    long bad = 0, lowest = -1;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    part[0] = 50 + rank_;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int rank = 0; rank <= size_; rank++) {
        MPI_Aint size = -1;
        int unit = -1;
        long *base = &bad;
        int code = MPI_Win_shared_query(win, rank < size_ ? rank : MPI_PROC_NULL, &size, &unit, &base);
        /* Hosts that refuse it report an error. */
        if (code != MPI_SUCCESS) bad |= (by_transom() || class_of(code) != MPI_ERR_RMA_FLAVOR) << 1;
        else if (base && rank == size_) bad |= (size < 32) << 2 | (unit != 8) << 3 | (base[0] != 50 + lowest) << 8;
        else if (base) bad |= (size < 32) << 2 | (unit != 8) << 3 | (base[0] != 50 + rank) << 4;
        else bad |= (size != 0) << 5 | (rank == rank_ || rank == size_) << 6 | (unit < 1) << 7;
        if (code == MPI_SUCCESS && base && lowest < 0) lowest = rank;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    check(name, bad);
}

/* A shared window, its synchronization and the program's other calls, many times. */
static void shared(MPI_Comm node) {
    enum { TURNS = 60 };
    int me, n;
    MPI_Comm_rank(node, &me), MPI_Comm_size(node, &n);
    long *part, *next, bad = 0;
    MPI_Win win;
    MPI_Aint size;
    int unit;
    double begun = now();
    for (int i = 0; i < 20; i++) {
        MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, node, &part, &win);
        MPI_Win_free(&win);
    }
    MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, node, &part, &win);
    MPI_Win_shared_query(win, (me + 1) % n, &size, &unit, &next);
    MPI_Win_fence(0, win);
    for (int i = 0; i < TURNS; i++) {
        next[1] = i + me;
        MPI_Win_fence(0, win);
        bad |= part[1] != i + (me + n - 1) % n;
        MPI_Win_fence(0, win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (me + 1) % n, 0, win);
        MPI_Win_unlock((me + 1) % n, win);
        long got = 0, mine = i;
        MPI_Status status;
        MPI_Sendrecv(&mine, 1, MPI_LONG, (me + 1) % n, 0, &got, 1, MPI_LONG, (me + n - 1) % n, 0, node, &status);
        bad |= (got != i) << 1;
        MPI_Barrier(node);
        MPI_Bcast(&mine, 1, MPI_LONG, 0, node);
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    double took = now() - begun;
    check("shared windows where the host may serve them", bad);
    if (rank_ == 0) printf("# %d ranks took %.3f s\n", n, took);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part, memory[8];
    MPI_Comm node;
    MPI_Win_allocate(32 + 8 * rank_, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    queried("allocated", win, part);
    MPI_Win_free(&win);
    MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    queried("created", win, memory);
    MPI_Win_free(&win);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    shared(node);
    MPI_Comm_free(&node);
    return end();
}
