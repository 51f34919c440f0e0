/* Further programs of the kind of races_orders.c, for three ranks, about notified operations (the
 * draft of RMA notification). Ranks 0 and 2 notify rank 1, which has the memory and the counters.
 * In the form `during` rank 1 reads its memory although the values of its counters do not show
 * that all notices have come. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../include/transom_mpi_notify.h"

enum { COUNT = 100, COUNTERS = 3 };
static int rank_;
static MPI_Win win;
static long *part;                 /* this rank's part of the window */
static long one[COUNT], got[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

/* The program links without the library, and then only lists its cases. */
#define BEGIN_AGAIN if (MPI_Win_set_num_notify) MPI_Win_set_num_notify(win, MPI_INFO_NULL, COUNTERS)

static void put_notify(int element, int counter) {
    MPI_Put_notify(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, counter, win);
}
static void load(int element) { seen = part[element]; }
/* An operation on this rank's own part. */
static void get(int element) { MPI_Get(got, 1, MPI_LONG, 1, element, 1, MPI_LONG, win), MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
/* The others go on first, as a rule. */
static void linger(void) { usleep(30000); }

static long value_of(int counter) {
    MPI_Count value;
    MPI_Win_get_notify_value(win, counter, &value);
    return (long)value;
}
static long reset(int counter) {
    MPI_Count value;
    MPI_Win_reset_notify_value(win, counter, &value);
    return (long)value;
}
static void poll(int counter, long value) {
    while (value_of(counter) < value) continue;
}
static void wait_for(int counter, long value) {
    MPI_Request q;
    MPI_Win_notify_threshold(win, counter, value, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* Two notices of one counter. */
static void two_notices(int racy, void (*access)(int)) {
    lock_all();
    if (rank_ != 1) put_notify(rank_, 0);
    if (rank_ == 1) linger(), wait_for(0, racy ? 1 : 2), access(0), access(2);
    unlock_all();
}
static void threshold(int racy) { two_notices(racy, get); }
static void threshold_and_load(int racy) { two_notices(racy, load); }
/* A request that is complete when the first notice has come does not order the second one. */
static void late_wait(int racy) {
    MPI_Request q;
    int complete = 0;
    lock_all();
    if (rank_ == 1) MPI_Win_notify_threshold(win, 0, racy ? 1 : 2, &q);
    barrier();
    if (rank_ != 1) put_notify(rank_, 0);
    if (rank_ == 1) {
        linger();
        while (!complete) MPI_Test(&q, &complete, MPI_STATUS_IGNORE);
        get(0), get(2);
    }
    unlock_all();
}
/* The notices of another counter have come. */
static void other_counter(int racy) {
    lock_all();
    if (rank_ != 1) put_notify(rank_, rank_);
    if (rank_ == 1) linger(), poll(0, 1), poll(racy ? 0 : 2, 1), get(0), get(2);
    unlock_all();
}
/* A value of zero says nothing of the operations that are under way. */
static void zero(int racy) {
    lock_all();
    if (rank_ == 0) put_notify(0, 0);
    if (rank_ == 1) linger(), racy ? value_of(1) : wait_for(0, 1), get(0);
    unlock_all();
}
/* Each round waits for the total number of notices so far; in the racy form, for one less. */
static void rounds(int racy) {
    lock_all();
    for (int i = 0; i < 20; i++) {
        if (rank_ == 0) put_notify(i, 0), receive(1);
        if (rank_ == 1) {
            linger(), wait_for(0, i + !(racy && i == 19)), get(i);
            send(0);
        }
    }
    unlock_all();
}
/* Many notices come before the wait for an early one. */
static void many(int racy) {
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < COUNT; i++) put_notify(i, 0);
    }
    if (rank_ == 1) {
        linger(), linger(), wait_for(0, racy ? COUNT - 1 : COUNT);
        for (int i = 0; i < COUNT; i++) get(i);
    }
    unlock_all();
}
/* The counter is set to zero between two notices. */
static void zeroed(int racy) {
    lock_all();
    if (rank_ == 0) put_notify(0, 0);
    if (rank_ == 2) receive(1), put_notify(2, 0);
    if (rank_ == 1) {
        while (!reset(0)) continue;
        send(2);
        if (racy) linger();
        else wait_for(0, 1);
        get(0), get(2);
    }
    unlock_all();
}
/* A request outlives the reset of its counter: the second notice comes later. */
static void request_over_reset(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put_notify(0, 0);
    if (rank_ == 2) receive(1), put_notify(2, 0);
    if (rank_ == 1) {
        MPI_Win_notify_threshold(win, 0, 1, &q);
        while (!reset(0)) continue;
        send(2);
        linger();
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        if (!racy) wait_for(0, 1);
        get(0), get(2);
    }
    unlock_all();
}
/* A notice without data completes no other operation. */
static void empty_notice(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (!racy) MPI_Win_flush(1, win);
        MPI_Put_notify(0, 0, MPI_LONG, 1, 0, 0, MPI_LONG, 0, win);
    }
    if (rank_ == 1) linger(), wait_for(0, 1), get(0);
    unlock_all();
}
/* A notice orders what its origin did at another rank before. */
static void at_third(int racy) {
    lock_all();
    if (rank_ == 0) {
        if (!racy) MPI_Put(one, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
        put_notify(0, 0);
        if (racy) MPI_Put(one, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
        put_notify(1, 0);
    }
    if (rank_ == 1) {
        linger(), wait_for(0, 1);
        MPI_Get(got, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
    }
    unlock_all();
}

static const struct races_case cases[] = {
    CASE(threshold, OPERATIONS), CASE(threshold_and_load, LOCAL), CASE(late_wait, OPERATIONS),
    CASE(other_counter, OPERATIONS), CASE(zero, OPERATIONS), CASE(rounds, OPERATIONS), CASE(many, OPERATIONS),
    CASE(zeroed, OPERATIONS), CASE(request_over_reset, OPERATIONS), CASE(empty_notice, OPERATIONS),
    CASE(at_third, OPERATIONS)};
#include "races_main.h"
