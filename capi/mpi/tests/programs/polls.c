/* While a program waits in MPI, the library polls its nets only if it serves a window itself:
 * programs whose windows are all served by the MPI have no overhead. The epoll_wait of this program
 * replaces libc's, and so counts the polls of libfabric's tcp. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ROUNDS = 300, LATE = 100, MICROSECONDS = 20000 };

/* The calls of the thread that waits in MPI; other threads of the library wait for their
 * descriptors. */
static _Thread_local long polled_;

int epoll_wait(int set, struct epoll_event *events, int most, int timeout) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
    polled_++;
    return real(set, events, most, timeout);
}

/* The calls within many barriers and messages around the ring. The ranks are late in turn, so every
 * other rank has to wait. */
static long polls(void) {
    long before = polled_, token = 0;
    int right = (rank_ + 1) % size_, left = (rank_ + size_ - 1) % size_;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request sent;
        if (i % LATE == 0 && i / LATE % size_ == rank_) usleep(MICROSECONDS);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(&i, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &sent);
        MPI_Recv(&token, 1, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    return polled_ - before;
}

/* The calls within exchanges around the ring, with late ranks as above. */
static long polls_of_exchanges(void) {
    long before = polled_, token = rank_;
    int right = (rank_ + 1) % size_, left = (rank_ + size_ - 1) % size_;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % LATE == 0 && i / LATE % size_ == rank_) usleep(MICROSECONDS);
        MPI_Sendrecv_replace(&token, 1, MPI_LONG, right, 6, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return polled_ - before;
}

/* The calls within tests that find nothing. */
static long polls_of_tests(void) {
    long before = polled_, token = 0;
    MPI_Request never;
    MPI_Message message;
    int flag;
    MPI_Irecv(&token, 1, MPI_LONG, rank_, 4, MPI_COMM_WORLD, &never);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Test(&never, &flag, MPI_STATUS_IGNORE);
        MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Improbe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    }
    MPI_Send(&before, 1, MPI_LONG, rank_, 4, MPI_COMM_WORLD);
    MPI_Wait(&never, MPI_STATUS_IGNORE);
    return polled_ - before;
}

/* The calls within epochs of a shared window, which the MPI serves where the library has no shared
 * memory. */
static long in_window_of_host(void) {
    MPI_Win win;
    int *part, right = (rank_ + 1) % size_;
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    long before = polled_;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % LATE == 0 && i / LATE % size_ == rank_) usleep(MICROSECONDS);
        MPI_Win_fence(0, win);
        MPI_Put(&i, 1, MPI_INT, right, 0, 1, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
        MPI_Win_unlock(right, win);
    }
    long polls = polled_ - before;
    MPI_Win_free(&win);
    return polls;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long none = polls();
    MPI_Win win;
    long *part;
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    long some = polls(), exchanged = polls_of_exchanges(), tested = polls_of_tests();
    MPI_Win_free(&win);
    long freed = polls(), hosted = in_window_of_host();
    printf("rank %d: %ld polls without a window, %ld with one, %ld in exchanges, %ld in tests, %ld after it, "
           "%ld in a window of the MPI\n",
           rank_, none, some, exchanged, tested, freed, hosted);
    /* An MPI polls its own sockets now and then. */
    check("waits poll no net before the first window", none > some / 10);
    check("waits poll the net for a window", some < ROUNDS / 3);
    check("exchanges that wait poll the net for a window", exchanged < ROUNDS / 10);
    check("tests that find nothing poll the net for a window", tested < ROUNDS / 10);
    check("waits poll no net after the last window", freed > some / 10);
    check("a window of the MPI polls no net", hosted > some / 10);
    return end();
}
