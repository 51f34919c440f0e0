/* Calls from destructors of thread-specific data, as a runtime makes them that completes a thread's
 * operations where the thread ends. The library's own data of the thread may be destroyed by then.
 * Also a thread with the smallest stack, which has to have room for the thread-local memory of all
 * libraries. */
#include "check.h"
#include <limits.h>
#include <pthread.h>

enum { THREADS = 6, KEYS = 20, LONG = 20000 };
static MPI_Win win;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t keys[2 * KEYS];

/* The program's threads call one after another. */
static void operations(void *unused) {
    (void)unused;
    static long many[LONG];
    const int to = (rank_ + 1) % size_;
    long one = 1, old, received, sent = 3;
    MPI_Request get, messages[2];
    pthread_mutex_lock(&turn);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_unlock(to, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 1, MPI_SUM, win);
    MPI_Win_unlock(to, win);
    MPI_Win_lock_all(0, win);
    MPI_Rget(&old, 1, MPI_LONG, to, 0, 1, MPI_LONG, win, &get);
    MPI_Wait(&get, MPI_STATUS_IGNORE);
    MPI_Irecv(&received, 1, MPI_LONG, rank_, 1, MPI_COMM_WORLD, &messages[0]);
    MPI_Isend(&sent, 1, MPI_LONG, rank_, 1, MPI_COMM_WORLD, &messages[1]);
    MPI_Waitall(2, messages, MPI_STATUSES_IGNORE);
    MPI_Accumulate(many, LONG, MPI_LONG, to, 2, LONG, MPI_LONG, MPI_SUM, win);
    MPI_Put(many, 8, MPI_LONG, to, 2 + LONG, 8, MPI_LONG, win);
    MPI_Win_flush(to, win);
    MPI_Win_unlock_all(win);
    pthread_mutex_unlock(&turn);
}

static void *thread(void *calls) {
    for (int i = 0; i < 2 * KEYS; i++) pthread_setspecific(keys[i], &keys[i]);
    if (calls) operations(NULL);
    return NULL;
}

static void *nothing(void *arg) { return arg; }

static void smallest_stack(void) {
    pthread_attr_t attributes;
    pthread_t small;
    pthread_attr_init(&attributes);
    int code = pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    if (!code) code = pthread_create(&small, &attributes, nothing, NULL);
    if (!code) pthread_join(small, NULL);
    pthread_attr_destroy(&attributes);
    check("a thread with the smallest stack", code);
}

int main(int argc, char **argv) {
    int provided;
    long *part;
    pthread_t threads[THREADS];
    /* Destructors run in the order of the keys, of which the library makes some at start. */
    for (int i = 0; i < KEYS; i++) pthread_key_create(&keys[i], operations);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_), MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Win_allocate(8 * (LONG + 10), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    memset(part, 0, 8 * (LONG + 10));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = KEYS; i < 2 * KEYS; i++) pthread_key_create(&keys[i], operations);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, i % 2 ? "" : NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    const long calls = THREADS * 2 * KEYS + THREADS / 2;
    long bad = part[0] != calls || part[1] != calls;
    MPI_Win_unlock(rank_, win);
    check("destructors of thread-specific data", bad);
    smallest_stack();
    MPI_Win_free(&win);
    return end();
}
