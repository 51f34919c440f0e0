/* A thread that waits in a call on a window keeps no other thread of its process from the call that
 * ends the wait (MPI_THREAD_MULTIPLE, MPI-4.1 section 11.6). Ranks 0 and 1 play; a watchdog ends
 * what hangs, with the name of the case. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 30, PAUSE = 100000, TURNS = 100 };
static const char *volatile case_ = "the start";
static MPI_Win win;
static long *part;
static MPI_Group other;
static long bad_;
/* The only case to run, where the program's argument names one. */
static const char *only_;

static void hangs(int signal) {
    static const char said[] = "not ok a case hangs: ";
    (void)signal;
    if (write(1, said, sizeof said - 1) < 0 || write(1, case_, strlen(case_)) < 0 || write(1, "\n", 1) < 0) _exit(2);
    _exit(1);
}

/* A token between the two players. */
static void notify_other(void) { MPI_Send(NULL, 0, MPI_BYTE, 1 - rank_, 5, MPI_COMM_WORLD); }
static void hear(void) { MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank_, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

static void fails(long where) { __atomic_fetch_or(&bad_, where, __ATOMIC_RELAXED); }

/* The first call waits when the second is made. */
static void together(void *(*first)(void *), void *(*second)(void *)) {
    pthread_t one, two;
    pthread_create(&one, NULL, first, NULL);
    usleep(PAUSE);
    pthread_create(&two, NULL, second, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
}

static void *lock_1(void *arg) {
    long x = 11;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
    MPI_Put(&x, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
    return arg;
}

static void *unlock_0(void *arg) {
    MPI_Win_unlock(0, win);
    return arg;
}

/* Rank 1 gives up target 1 once it has target 0. */
static void lock_against_unlock(void) {
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        hear();
        together(lock_1, unlock_0);
        MPI_Win_unlock(1, win);
        notify_other();
    } else {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        notify_other();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Win_unlock(0, win);
        MPI_Win_unlock(1, win);
        hear();
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        if (part[0] != 11) fails(1);
        MPI_Win_unlock(1, win);
    }
}

static void *access_other(void *arg) {
    long x = 20 + rank_;
    MPI_Win_start(other, 0, win);
    MPI_Put(&x, 1, MPI_LONG, 1 - rank_, 1, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    return arg;
}

static void *complete_alone(void *arg) {
    MPI_Win_start(other, 0, win);
    MPI_Win_complete(win);
    return arg;
}

static void *expose(void *arg) {
    MPI_Win_post(other, 0, win);
    MPI_Win_wait(win);
    return arg;
}

/* Rank 1 exposes its part only when rank 0 has. */
static void pscw(void *(*first)(void *)) {
    if (rank_ == 0) {
        together(first, expose);
    } else {
        access_other(NULL);
        MPI_Win_post(other, 0, win);
        MPI_Win_wait(win);
    }
    if (part[1] != (rank_ == 1 && first == complete_alone ? 0 : 21 - rank_)) fails(1);
}

static void complete_against_post(void) { pscw(complete_alone); }
static void put_against_post(void) { pscw(access_other); }

static void *wait_for_other(void *arg) {
    MPI_Win_wait(win);
    return arg;
}

static void *complete_other(void *arg) {
    long x = 30 + rank_;
    MPI_Put(&x, 1, MPI_LONG, 1 - rank_, 2, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    return arg;
}

/* Rank 1 completes when rank 0 has completed, whose other thread waits for it. */
static void wait_against_complete(void) {
    if (rank_ == 0) {
        MPI_Win_post(other, 0, win);
        MPI_Win_start(other, 0, win);
        together(wait_for_other, complete_other);
    } else {
        MPI_Win_post(other, 0, win);
        MPI_Win_wait(win);
        MPI_Win_start(other, 0, win);
        complete_other(NULL);
    }
    if (part[2] != 31 - rank_) fails(1);
}

static void *all(void *arg) {
    MPI_Win_lock_all(0, win);
    return arg;
}

static void *fence(void *arg) {
    MPI_Win_fence(0, win);
    return arg;
}

static void *sync_and_tell(void *arg) {
    MPI_Win_sync(win);
    notify_other();
    return arg;
}

/* Rank 1 admits rank 0's lock_all after rank 0's other thread has called sync, which is always
 * legal. */
static void lock_all_against_sync(void) {
    if (rank_ == 0) {
        hear();
        together(all, sync_and_tell);
        MPI_Win_unlock_all(win);
    } else {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        notify_other();
        hear();
        MPI_Win_unlock(0, win);
    }
}

static void fence_against_sync(void) {
    if (rank_ == 0) together(fence, sync_and_tell);
    else hear();
    if (rank_ == 1) MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

/* A thread of each target; rank 1's lock_all keeps both out, and neither gets in through the other.
 * */
static void *write_locked(void *target) {
    int to = target != NULL;
    long x = 50 + to;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    MPI_Put(&x, 1, MPI_LONG, to, 3, 1, MPI_LONG, win);
    MPI_Win_unlock(to, win);
    return NULL;
}

static void *write_0(void *arg) { return (void)arg, write_locked(NULL); }
static void *write_1(void *arg) { return (void)arg, write_locked(&win); }

static void writers_against_lock_all(void) {
    if (rank_ == 0) {
        hear();
        together(write_0, write_1);
        notify_other();
    } else {
        long seen[2] = {-1, -1};
        MPI_Win_lock_all(0, win);
        notify_other();
        usleep(4 * PAUSE);
        for (int to = 0; to < 2; to++) MPI_Get(&seen[to], 1, MPI_LONG, to, 3, 1, MPI_LONG, win);
        MPI_Win_flush_all(win);
        if (seen[0] || seen[1]) fails(1);
        MPI_Win_unlock_all(win);
        hear();
    }
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    if (part[3] != 50 + rank_) fails(2);
    MPI_Win_unlock(rank_, win);
}

/* The threads of both ranks lock one target each exclusively, again and again: the data that a
   thread reads is not changed by others until the thread has written. */
static void *count(void *target) {
    int to = target != NULL;
    for (int turn = 0; turn < TURNS; turn++) {
        long x;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&x, 1, MPI_LONG, to, 4, 1, MPI_LONG, win);
        MPI_Win_flush(to, win);
        x++;
        MPI_Put(&x, 1, MPI_LONG, to, 4, 1, MPI_LONG, win);
        MPI_Win_unlock(to, win);
    }
    return NULL;
}

static void *count_0(void *arg) { return (void)arg, count(NULL); }
static void *count_1(void *arg) { return (void)arg, count(&win); }

static void locks_of_different_targets(void) {
    together(count_0, count_1);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    if (rank_ == 0) hear();
    else notify_other();
    MPI_Win_unlock(rank_, win);
    if (rank_ == 0) notify_other();
    else hear();
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    if (part[4] != 2 * TURNS) fails(1);
    MPI_Win_unlock(rank_, win);
}

static void play(const char *name, void (*players)(void)) {
    if (only_ && strcmp(only_, name)) return;
    MPI_Barrier(MPI_COMM_WORLD);
    case_ = name;
    alarm(LIMIT);
    bad_ = 0;
    if (rank_ < 2) players();
    /* The ranks that wait here for the players are not the ones that hang. */
    check(name, bad_);
    alarm(0);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Group world;
    MPI_Comm players;
    signal(SIGALRM, hangs);
    only_ = argc > 1 ? argv[1] : NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE || size_ < 2) {
        check("two ranks, and MPI_THREAD_MULTIPLE is provided", 1);
        return end();
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < 2, rank_, &players);
    MPI_Win_allocate(8 * 8, 8, MPI_INFO_NULL, players, &part, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_ % 2 * (rank_ < 2), 0, win);
    if (rank_ < 2) memset(part, 0, 8 * 8);
    MPI_Win_unlock(rank_ % 2 * (rank_ < 2), win);
    MPI_Win_get_group(win, &world);
    if (rank_ < 2) MPI_Group_incl(world, 1, (int[]){1 - rank_}, &other);
    play("lock against unlock of another target", lock_against_unlock);
    play("complete against post", complete_against_post);
    play("put against post", put_against_post);
    play("wait against complete", wait_against_complete);
    play("lock_all against sync", lock_all_against_sync);
    play("fence against sync", fence_against_sync);
    play("writers against lock_all", writers_against_lock_all);
    play("locks of different targets", locks_of_different_targets);
    if (rank_ < 2) MPI_Group_free(&other);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    MPI_Comm_free(&players);
    return end();
}
