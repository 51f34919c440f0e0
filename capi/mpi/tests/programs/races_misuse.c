/* Further programs of the kind of races_orders.c, for three ranks, whose assertions are false in
 * the form `during` and true in the form `after`. No program waits for ever. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, NOCHECK = MPI_MODE_NOCHECK, NOPUT = MPI_MODE_NOPUT };
enum { EXCLUSIVE = MPI_LOCK_EXCLUSIVE, SHARED = MPI_LOCK_SHARED };
static int rank_;
static MPI_Win win;    /* has a part of each rank */
static long *part;     /* this rank's part of `win` */
static long one[COUNT], got[COUNT]; /* buffers */
static const MPI_Comm all = MPI_COMM_WORLD;

static void put(int target) { MPI_Put(one, 1, MPI_LONG, target, rank_, 1, MPI_LONG, win); }
static void get(int target) { MPI_Get(got, 1, MPI_LONG, target, 5, 1, MPI_LONG, win); }
static void add(int target) { MPI_Accumulate(one, 1, MPI_LONG, target, 9, 1, MPI_LONG, MPI_SUM, win); }
static void fetch(int target, MPI_Op op) { MPI_Fetch_and_op(one, got + 50, MPI_LONG, target, 9, op, win); }
static void fence(int assert) { MPI_Win_fence(assert, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock(int kind, int target, int assert) { MPI_Win_lock(kind, target, assert, win); }
static void unlock(int target) { MPI_Win_unlock(target, win); }

static void with_group_of(int rank, int assert, int (*call)(MPI_Group, int, MPI_Win)) {
    MPI_Group everyone, group;
    MPI_Comm_group(all, &everyone);
    MPI_Group_incl(everyone, 1, &rank, &group);
    call(group, assert, win);
    MPI_Group_free(&group), MPI_Group_free(&everyone);
}
static void post(int origin, int assert) { with_group_of(origin, assert, MPI_Win_post); }
static void start(int target, int assert) { with_group_of(target, assert, MPI_Win_start); }

/* --- NOPUT ------------------------------------------------------------------------------------ */

/* Rank 1 asserts NOPUT at a fence, and rank 0 operates on its part, or on that of rank 2. */
static void fenced(int wrong, void (*operate)(int)) {
    fence(rank_ == 1 ? NOPUT : 0);
    if (rank_ == 0) operate(wrong ? 1 : 2), get(1);
    fence(0);
    if (rank_ == 0) put(1), add(1);
    fence(MPI_MODE_NOSUCCEED | NOPUT);
    /* The last assertion says nothing of epochs of locks. */
    if (rank_ == 0) lock(SHARED, 1, 0), put(1), fetch(1, MPI_SUM), unlock(1);
    barrier();
}
static void sum(int target) { fetch(target, MPI_SUM); }
static void put_at_fence(int wrong) { fenced(wrong, put); }
static void add_at_fence(int wrong) { fenced(wrong, add); }
static void fetch_at_fence(int wrong) { fenced(wrong, sum); }
/* A rank makes its own assertion false. */
static void own_put(int wrong) {
    fence(rank_ == 1 ? NOPUT : 0);
    if (rank_ == 1) put(wrong ? 1 : 2);
    fence(0);
}
/* The operation changes nothing in one of the forms. */
static void no_op_at_fence(int wrong) {
    fence(rank_ == 1 ? NOPUT : 0);
    if (rank_ == 0) fetch(1, wrong ? MPI_SUM : MPI_NO_OP);
    fence(0);
}
/* Rank 1 asserts NOPUT at the first of two posts, and rank 0 puts in one of the epochs. */
static void put_at_post(int wrong) {
    for (int turn = 0; turn < 2; turn++) {
        if (rank_ == 1) post(0, turn == 0 ? NOPUT : 0), MPI_Win_wait(win);
        if (rank_ == 0) {
            start(1, 0);
            if (turn != wrong) put(1);
            get(1);
            MPI_Win_complete(win);
        }
    }
    barrier();
}

/* --- NOCHECK of locks ------------------------------------------------------------------------- */

/* Rank 0 holds a lock of rank 2 by NOCHECK, and rank 1 takes one, meanwhile or afterwards. */
static void locked(int wrong, int kind, int other, int assert) {
    if (rank_ == 0) {
        lock(kind, 2, NOCHECK);
        if (wrong) send(1), receive(1);
        unlock(2);
        if (!wrong) send(1), receive(1);
    }
    if (rank_ == 1) receive(0), lock(other, 2, assert), unlock(2), send(0);
    barrier();
}
static void exclusive_and_exclusive(int wrong) { locked(wrong, EXCLUSIVE, EXCLUSIVE, 0); }
static void exclusive_and_shared(int wrong) { locked(wrong, EXCLUSIVE, SHARED, 0); }
static void shared_and_exclusive(int wrong) { locked(wrong, SHARED, EXCLUSIVE, 0); }
static void both_without_check(int wrong) { locked(wrong, EXCLUSIVE, EXCLUSIVE, NOCHECK); }
/* Shared locks do not conflict. */
static void shared_and_other(int wrong) {
    locked(1, SHARED, wrong ? EXCLUSIVE : SHARED, NOCHECK);
}
/* Rank 0 has locked all by NOCHECK. */
static void all_and_one(int wrong) {
    if (rank_ == 0) {
        MPI_Win_lock_all(NOCHECK, win), send(1), receive(1), MPI_Win_unlock_all(win);
    }
    if (rank_ == 1) receive(0), lock(wrong ? EXCLUSIVE : SHARED, 2, 0), unlock(2), send(0);
    barrier();
}
/* Rank 1 locks all while rank 0 holds a lock by NOCHECK. */
static void one_and_all(int wrong) {
    if (rank_ == 0) lock(wrong ? EXCLUSIVE : SHARED, 2, NOCHECK), send(1), receive(1), unlock(2);
    if (rank_ == 1) receive(0), MPI_Win_lock_all(0, win), MPI_Win_unlock_all(win), send(0);
    barrier();
}

/* --- NOCHECK of post and start ---------------------------------------------------------------- */

/* Rank 1 posts, and rank 0 starts with NOCHECK. A second epoch has no assertion. */
static void start_alone(int wrong) {
    if (rank_ == 1) post(0, wrong ? 0 : NOCHECK), send(0), MPI_Win_wait(win), post(0, 0), MPI_Win_wait(win);
    if (rank_ == 0) {
        receive(1), start(1, NOCHECK), put(1), MPI_Win_complete(win);
        start(1, 0), put(1), MPI_Win_complete(win);
    }
    barrier();
}

/* --- assertions of all ranks ------------------------------------------------------------------ */

static void precede_of_some(int wrong) {
    fence(rank_ == 1 || !wrong ? MPI_MODE_NOPRECEDE : 0);
    put((rank_ + 1) % 3);
    fence(0);
}
static void succeed_of_some(int wrong) {
    fence(MPI_MODE_NOPRECEDE);
    put((rank_ + 1) % 3);
    fence(rank_ == 1 || !wrong ? MPI_MODE_NOSUCCEED : 0);
    fence(MPI_MODE_NOPRECEDE);
    fence(0);
}
/* The other assertions may differ. */
static void stores_of_some(int wrong) {
    fence((rank_ == 1 ? MPI_MODE_NOSTORE : rank_ == 2 ? NOPUT : 0) | (wrong && rank_ ? MPI_MODE_NOPRECEDE : 0));
    if (rank_ == 0) put(1);
    fence(0);
}

static const struct races_case cases[] = {
    CASE(put_at_fence, OPERATIONS), CASE(add_at_fence, OPERATIONS), CASE(fetch_at_fence, OPERATIONS),
    CASE(own_put, OPERATIONS), CASE(no_op_at_fence, OPERATIONS), CASE(put_at_post, OPERATIONS),
    CASE(exclusive_and_exclusive, OPERATIONS), CASE(exclusive_and_shared, OPERATIONS),
    CASE(shared_and_exclusive, OPERATIONS), CASE(both_without_check, OPERATIONS), CASE(shared_and_other, OPERATIONS),
    CASE(all_and_one, OPERATIONS), CASE(one_and_all, OPERATIONS), CASE(start_alone, OPERATIONS),
    CASE(precede_of_some, OPERATIONS), CASE(succeed_of_some, OPERATIONS), CASE(stores_of_some, OPERATIONS)};
#include "races_main.h"
