/* Right and racy uses of a window, for the conflict checker (TRANSOM_CHECK=1). The argument names
 * the case. Rank 0 puts to rank 1's part and orders the put, or does not; then rank 1, or the last
 * rank, gets the same bytes. The ranks see each other only by what the case is about. */
#include "check.h"

#include <unistd.h>

static MPI_Win win;
static long *part;

static void put(void) {
    static long value = 7;
    MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); /* the put */
}

static void get(void) {
    static long value;
    MPI_Get(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); /* the get */
    MPI_Win_flush(1, win);
}

/* A put that is complete before `order`. */
static void flushed(void (*order)(void)) {
    if (rank_ == 0) {
        put();
        MPI_Win_flush(1, win);
    }
    order();
    if (rank_ == size_ - 1) get();
}

static void nothing(void) {}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void all_reduce(void) {
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void bcast_of(int root) {
    int one = 1;
    MPI_Bcast(&one, 1, MPI_INT, root, MPI_COMM_WORLD);
}
static void bcast(void) { bcast_of(0); }
/* Orders nothing that rank 0 did. */
static void bcast_of_last(void) { bcast_of(size_ - 1); }
static void reduce(void) {
    int one = 1, sum;
    MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, size_ - 1, MPI_COMM_WORLD);
}
static void scan(void) {
    int one = 1, sum;
    MPI_Exscan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void split(void) {
    MPI_Comm all;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_, &all);
    MPI_Barrier(all);
    MPI_Comm_free(&all);
}
static void ibarrier(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void message(void) {
    if (rank_ == 0) MPI_Send(NULL, 0, MPI_BYTE, size_ - 1, 5, MPI_COMM_WORLD);
    if (rank_ == size_ - 1) MPI_Recv(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void later_message(void) {
    MPI_Request request;
    int done = 0;
    if (rank_ == 0) {
        MPI_Isend(NULL, 0, MPI_BYTE, size_ - 1, 5, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    } else if (rank_ == size_ - 1) {
        MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}
/* Two neighbours exchange values: a chain of them orders rank 0 before the last rank. */
static void chain(void) {
    int one = 1, two;
    for (int step = 1; step < size_; step++) {
        if (rank_ != step - 1 && rank_ != step) continue;
        const int peer = rank_ == step ? step - 1 : step;
        MPI_Sendrecv(&one, 1, MPI_INT, peer, 3, &two, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* The put is not complete at the barrier. */
static void unflushed(void) {
    if (rank_ == 0) put();
    barrier();
    if (rank_ == size_ - 1) get();
}

static void flag(void) {
    long one = 1, seen = 0;
    if (rank_ == 0) {
        put();
        MPI_Win_flush(1, win);
        MPI_Fetch_and_op(&one, &seen, MPI_LONG, 1, 1, MPI_REPLACE, win);
        MPI_Win_flush(1, win);
    } else if (rank_ == size_ - 1) {
        while (seen == 0) {
            MPI_Fetch_and_op(NULL, &seen, MPI_LONG, 1, 1, MPI_NO_OP, win);
            MPI_Win_flush(1, win);
        }
        get();
    }
}

static void locks(void) {
    MPI_Win_unlock_all(win);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        if (rank_ % 2 == 0) put();
        else get();
        MPI_Win_unlock(1, win);
    }
    barrier();
    MPI_Win_lock_all(0, win);
}

static void fences(void) {
    long value = 7;
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win);
    if (rank_ == 0) put();
    MPI_Win_fence(0, win);
    if (rank_ == size_ - 1) MPI_Get(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    barrier();
    MPI_Win_lock_all(0, win);
}

static void groups(void) {
    MPI_Group world, peer;
    const int other = rank_ == 0 ? 1 : 0;
    MPI_Win_unlock_all(win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &other, &peer);
    if (rank_ == 0) {
        MPI_Win_start(peer, 0, win);
        put();
        MPI_Win_complete(win);
    } else if (rank_ == 1) {
        MPI_Win_post(peer, 0, win);
        MPI_Win_wait(win);
    }
    barrier();
    MPI_Win_lock_all(0, win);
    if (rank_ == size_ - 1) get();
}

/* The same while a second window has this memory: the records of both windows end. */
static void twins(void) {
    MPI_Win other;
    MPI_Win_create(part, 2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    groups();
    barrier();
    MPI_Win_free(&other);
}

/* Nobody can go on: the alarm ends the program. */
static void deadlock(void) {
    static long value;
    MPI_Win other;
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    signal(SIGALRM, SIG_DFL);
    alarm(12);
    if (rank_ == 0) MPI_Recv(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank_ == 1) barrier();
    else MPI_Win_fence(0, other);
}

static const struct {
    const char *name;
    void (*run)(void), (*order)(void);
} cases[] = {{"unflushed", unflushed, 0},     {"unordered", 0, nothing},       {"bcast_of_last", 0, bcast_of_last},
             {"barrier", 0, barrier},         {"all_reduce", 0, all_reduce},
             {"bcast", 0, bcast},             {"reduce", 0, reduce},
             {"scan", 0, scan},               {"split", 0, split},
             {"ibarrier", 0, ibarrier},       {"message", 0, message},
             {"later_message", 0, later_message}, {"chain", 0, chain},
             {"flag", flag, 0},               {"locks", locks, 0},
             {"fences", fences, 0},           {"groups", groups, 0},
             {"twins", twins, 0},             {"deadlock", deadlock, 0}};

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    part[0] = part[1] = 0;
    MPI_Win_lock_all(0, win);
    barrier();
    int has_run = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1])) continue;
        has_run = 1;
        if (cases[i].run) cases[i].run();
        else flushed(cases[i].order);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    check("the case has run", !has_run);
    return end();
}
