/* Further programs of the kind of races_orders.c, for three ranks, about the ends of epochs and of
 * operations, whose buffers may lie in shared windows. In the form `during` an operation is not
 * complete, or the end of an epoch orders other accesses than those that conflict. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100 };
static int rank_;
static MPI_Win win, other;                   /* each has a part of each rank */
static long *part;                           /* this rank's part of `win` */
static long one[COUNT], two[COUNT], got[1000]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void get(long *to, int element) { MPI_Get(to, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void put(void) { MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), MPI_Win_flush(1, win); }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void wait_for(MPI_Request *q) { MPI_Wait(q, MPI_STATUS_IGNORE); }
/* The others go on first, as a rule. */
static void linger(void) { usleep(30000); }

/* --- epochs of post and start ----------------------------------------------------------------- */

static void with_group_of(int rank, int (*call)(MPI_Group, int, MPI_Win)) {
    MPI_Group everyone, group;
    MPI_Comm_group(all, &everyone);
    MPI_Group_incl(everyone, 1, &rank, &group);
    call(group, 0, win);
    MPI_Group_free(&group), MPI_Group_free(&everyone);
}
static void post(int origin) { with_group_of(origin, MPI_Win_post); }
static void start(int target) { with_group_of(target, MPI_Win_start); }
static void complete_at(int target) { start(target), MPI_Win_complete(win); }

/* The second window, in which locks order nothing. */
static void open_other(void) {
    long *memory;
    MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &memory, &other);
    MPI_Win_lock_all(0, other);
}
static void close_other(void) { MPI_Win_unlock_all(other), MPI_Win_free(&other); }
static void put_other(void) { MPI_Put(one, 1, MPI_LONG, 2, 0, 1, MPI_LONG, other), MPI_Win_flush(2, other); }
static void get_other(void) { MPI_Get(two, 1, MPI_LONG, 2, 0, 1, MPI_LONG, other), MPI_Win_flush(2, other); }

/* Rank 0 ends an epoch to rank 1, and then one to rank `next`. */
static void two_epochs(int racy, int next) {
    open_other();
    if (rank_ == 0) {
        if (!racy) put_other();
        complete_at(1);
        if (racy) put_other();
        complete_at(next);
    }
    if (rank_ == 1) post(0), linger(), MPI_Win_wait(win), get_other();
    if (rank_ == next) post(0), MPI_Win_wait(win);
    close_other();
}
static void complete_at_other(int racy) { two_epochs(racy, 2); }
static void complete_again(int racy) { two_epochs(racy, 1); }

/* Rank 1 exposes its parts of two windows at a time, and ends the epoch of `other` first. */
static MPI_Group of_ranks(int count, const int *ranks) {
    MPI_Group everyone, group;
    MPI_Comm_group(all, &everyone), MPI_Group_incl(everyone, count, ranks, &group);
    MPI_Group_free(&everyone);
    return group;
}
static void post_both(int count, const int *origins) {
    MPI_Group group = of_ranks(count, origins), first = of_ranks(1, origins);
    MPI_Win_post(group, 0, win), MPI_Win_post(first, 0, other);
    MPI_Group_free(&group), MPI_Group_free(&first);
}
static void complete_both(void) {
    const int target = 1;
    MPI_Group group = of_ranks(1, &target);
    start(1), MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), MPI_Win_complete(win);
    MPI_Win_start(group, 0, other), MPI_Win_complete(other);
    MPI_Group_free(&group);
}
static void open_exposed(void) {
    long *memory;
    MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &memory, &other);
}
/* Rank 2 is another origin of the first window. It has a message that rank 1 sent later. */
static void two_origins(int racy, int messages) {
    const int origins[] = {0, 2};
    open_exposed();
    if (rank_ == 0) complete_both();
    if (rank_ == 1) {
        post_both(2, origins), MPI_Win_wait(other);
        for (int i = 0; i < messages; i++) send(2);
        MPI_Win_wait(win);
    }
    if (rank_ == 2) {
        start(1);
        for (int i = 0; i < messages; i++) receive(1);
        MPI_Put(two, 1, MPI_LONG, 1, racy ? 0 : 8, 1, MPI_LONG, win), MPI_Win_complete(win);
    }
    MPI_Win_free(&other);
}
static void other_exposure_ends(int racy) { two_origins(racy, 1); }
static void messages_in_exposure(int racy) { two_origins(racy, 3000); }
/* Rank 1 reads its part of the first window. */
static void read_in_exposure(int racy) {
    const int origin = 0;
    open_exposed();
    if (rank_ == 0) complete_both();
    if (rank_ == 1) {
        post_both(1, &origin), MPI_Win_wait(other);
        if (!racy) MPI_Win_wait(win);
        seen = part[0];
        if (racy) MPI_Win_wait(win);
    }
    MPI_Win_free(&other);
}
/* --- many operations in flight ---------------------------------------------------------------- */

enum { MANY = sizeof got / sizeof *got };
/* Gets of other bytes. */
static void get_many(void) {
    for (int i = 0; i < MANY; i++) get(got + i, 2 + i % (COUNT - 2));
}

/* A get with a request is complete. An earlier get of some of its bytes is not; many others
 * follow. */
static void gets_after_request(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        get(two + 8, 0);
        MPI_Rget(two, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win, &q);
        get_many();
        wait_for(&q);
        if (!racy) flush();
        send(2);
    }
    if (rank_ == 2) receive(0), put();
    unlock_all();
}
/* The same, for two requests: one of them is not complete. */
static void requests_of_same_bytes(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) {
        MPI_Rget(two, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, q);
        MPI_Rget(two + 8, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, q + 1);
        get_many();
        wait_for(q + 1);
        if (!racy) wait_for(q);
        send(2);
        if (racy) wait_for(q);
    }
    if (rank_ == 2) receive(0), put();
    unlock_all();
}

/* --- buffers in shared windows ---------------------------------------------------------------- */

static long *parts[3]; /* the parts of `other` */
static void open_shared(void) {
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &parts[rank_], &other);
    for (int rank = 0; rank < 3; rank++) MPI_Win_shared_query(other, rank, &size, &unit, &parts[rank]);
    MPI_Win_lock_all(0, other);
    barrier();
    lock_all();
}
static void close_shared(void) { unlock_all(), close_other(); }
/* The buffer of an operation of rank 0 returns with a flush. */
static void buffer_of_put(int racy) {
    open_shared();
    if (rank_ == 0) {
        MPI_Put(parts[0], 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        MPI_Win_flush_local(racy ? 2 : 1, win);
        send(2);
    }
    if (rank_ == 2) receive(0), parts[0][0] = 5;
    close_shared();
}
static void buffer_of_get(int racy) {
    open_shared();
    if (rank_ == 0) {
        MPI_Get(parts[1] + 2, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (!racy) flush();
        send(2);
    }
    if (rank_ == 2) receive(0), seen = parts[1][2];
    close_shared();
}
/* The owner of the memory stores. */
static void buffer_at_owner(int racy) {
    open_shared();
    if (rank_ == 0) {
        MPI_Request q;
        MPI_Rput(parts[1] + 3, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win, &q);
        if (!racy) wait_for(&q);
        send(1);
        if (racy) wait_for(&q);
    }
    if (rank_ == 1) receive(0), parts[1][3] = 5;
    close_shared();
}
/* Two puts have one buffer, and one of them is complete. */
static void buffer_of_two(int racy) {
    open_shared();
    if (rank_ == 0) {
        MPI_Put(parts[0], 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        MPI_Put(parts[0], 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
        MPI_Win_flush(2, win);
        if (!racy) flush();
        send(2);
    }
    if (rank_ == 2) receive(0), parts[0][0] = 5;
    close_shared();
}
/* The ranks only read the buffer. */
static void buffer_read(int racy) {
    open_shared();
    if (rank_ == 0) MPI_Put(parts[0], 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), send(2);
    if (rank_ == 2) {
        receive(0), seen = parts[0][0];
        if (racy) parts[0][0] = 5;
    }
    close_shared();
}

/* --- a window's end that is refused ----------------------------------------------------------- */

/* Rank 0 has an open epoch, so that it may not free the window. The others wait until it may. */
static void refused_end(int racy) {
    long *memory;
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &memory, &other);
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    if (rank_ == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, other), MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, other);
    if (rank_ == 0 && !racy) MPI_Win_flush(1, other), send(1);
    if (rank_ == 1) {
        if (!racy) receive(0);
        seen = memory[0];
    }
    if ((MPI_Win_free(&other) != MPI_SUCCESS) != (rank_ == 0)) printf("rank %d: another result\n", rank_), MPI_Abort(all, 1);
    if (rank_ == 0) MPI_Win_unlock(1, other), MPI_Win_free(&other);
}

static const struct races_case cases[] = {
    CASE(complete_at_other, OPERATIONS), CASE(complete_again, OPERATIONS), CASE(other_exposure_ends, OPERATIONS),
    CASE(messages_in_exposure, OPERATIONS), CASE(read_in_exposure, LOCAL),
    CASE(gets_after_request, OPERATIONS), CASE(requests_of_same_bytes, OPERATIONS),
    CASE(buffer_of_put, LOCAL), CASE(buffer_of_get, LOCAL), CASE(buffer_at_owner, LOCAL), CASE(buffer_of_two, LOCAL),
    CASE(buffer_read, LOCAL), CASE(refused_end, LOCAL)};
#include "races_main.h"
