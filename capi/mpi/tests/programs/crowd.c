/* Four threads of each process lock targets, put, accumulate and flush at random
 * (MPI_THREAD_MULTIPLE). Each thread has a window, and all threads share a further one. No addition
 * is lost, and an exclusive lock has a single holder. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 150, MOST = 8, LIMIT = 60 };
/* Locations of a part: one to which all ranks add, one that is changed under an exclusive lock, and
 * one for each thread of each rank. */
enum { SUM, ALONE, OWN, LONGS = OWN + MOST * THREADS };
static MPI_Comm comms[THREADS];
static MPI_Win own[THREADS], common;
/* This process's additions at each target: in the windows of threads, and in the shared one. */
static long sums[THREADS + 1][MOST], alone[THREADS + 1][MOST];
/* A process locks a target of a window once at a time (MPI-4.1 section 12.5.3). */
static pthread_mutex_t free_[MOST];
static long bad_;

static void hangs(int signal) {
    static const char said[] = "not ok the crowd hangs\n";
    (void)signal;
    _exit(write(1, said, sizeof said - 1) < 0 ? 2 : 1);
}

static unsigned next(unsigned *state) { return *state = *state * 1103515245 + 12345, *state >> 16; }

/* Adds to a long at the target under an exclusive lock. */
static void add_alone(MPI_Win win, int to, long *count) {
    long x;
    MPI_Get(&x, 1, MPI_LONG, to, ALONE, 1, MPI_LONG, win);
    MPI_Win_flush(to, win);
    x++;
    MPI_Put(&x, 1, MPI_LONG, to, ALONE, 1, MPI_LONG, win);
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* A thread of this rank finds its own last value at its own location. */
static void write_own(MPI_Win win, int to, int place, long x) {
    long y = -1;
    MPI_Put(&x, 1, MPI_LONG, to, place, 1, MPI_LONG, win);
    MPI_Win_flush(to, win);
    MPI_Get(&y, 1, MPI_LONG, to, place, 1, MPI_LONG, win);
    MPI_Win_flush_local(to, win);
    if (x != y) __atomic_fetch_or(&bad_, 1, __ATOMIC_RELAXED);
}

static void turn(MPI_Win win, long slot, long me, unsigned *state) {
    long one = 1, old;
    int to = next(state) % size_, exclusive = next(state) % 2, place = OWN + rank_ * THREADS + (int)me;
    MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, to, 0, win);
    for (unsigned n = next(state) % 3; n > 0; n--) {
        if (next(state) % 2) MPI_Accumulate(&one, 1, MPI_LONG, to, SUM, 1, MPI_LONG, MPI_SUM, win);
        else MPI_Fetch_and_op(&one, &old, MPI_LONG, to, SUM, MPI_SUM, win);
        __atomic_fetch_add(&sums[slot][to], 1, __ATOMIC_RELAXED);
        if (next(state) % 2) MPI_Win_flush(to, win);
    }
    if (exclusive) add_alone(win, to, &alone[slot][to]);
    if (next(state) % 2) write_own(win, to, place, next(state));
    MPI_Win_unlock(to, win);
}

static void *crowd(void *number) {
    long me = (long)number;
    unsigned state = 77 + 13 * me + 1001 * rank_;
    for (int i = 0; i < TURNS; i++) {
        if (next(&state) % 2) {
            turn(own[me], me, me, &state);
            continue;
        }
        unsigned ahead = state;
        int to = next(&ahead) % size_;
        pthread_mutex_lock(&free_[to]);
        turn(common, THREADS, me, &state);
        pthread_mutex_unlock(&free_[to]);
    }
    return NULL;
}

static long counted(MPI_Win win, int slot) {
    long mine[2] = {0, 0}, wanted[MOST], bad = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    MPI_Get(mine, 2, MPI_LONG, rank_, SUM, 2, MPI_LONG, win);
    MPI_Win_unlock(rank_, win);
    MPI_Allreduce(sums[slot], wanted, MOST, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    bad |= (mine[0] != wanted[rank_]) << 1;
    MPI_Allreduce(alone[slot], wanted, MOST, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    bad |= (mine[1] != wanted[rank_]) << 2;
    return bad;
}

static MPI_Win zeroed(MPI_Comm comm) {
    long *part;
    MPI_Win win;
    MPI_Win_allocate((LONGS) * 8, 8, MPI_INFO_NULL, comm, &part, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
    memset(part, 0, LONGS * 8);
    MPI_Win_unlock(rank_, win);
    MPI_Barrier(comm);
    return win;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS];
    signal(SIGALRM, hangs);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE || size_ > MOST) {
        check("MPI_THREAD_MULTIPLE is provided", 1);
        return end();
    }
    alarm(LIMIT);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        own[i] = zeroed(comms[i]);
    }
    for (int i = 0; i < MOST; i++) pthread_mutex_init(&free_[i], NULL);
    common = zeroed(MPI_COMM_WORLD);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, crowd, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    long bad = bad_;
    for (int i = 0; i < THREADS; i++) bad |= counted(own[i], i);
    check("windows of each thread", bad);
    check("a window of all threads", bad_ | counted(common, THREADS));
    MPI_Win_free(&common);
    for (int i = 0; i < THREADS; i++) {
        MPI_Win_free(&own[i]);
        MPI_Comm_free(&comms[i]);
    }
    return end();
}
