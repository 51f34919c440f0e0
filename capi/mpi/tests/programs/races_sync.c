/* Programs of the kind of races_orders.c, for three ranks, which poll by MPI_Win_sync and loads, or
 * tell other ranks of their loads and stores by MPI_Win_sync. Rank 0 raises flags, and flushes them
 * only when the polling rank has gone on. */
#define _GNU_SOURCE
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 16, FLAG = 8, CREDIT = 12 };
static int rank_;
static MPI_Win win;
static long *part;                   /* this rank's part of the window */
static long one[COUNT], two[COUNT]; /* buffers */
static const long raised = 1, none = 0;
static const MPI_Comm all = MPI_COMM_WORLD;

static void barrier(void) { MPI_Barrier(all); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void flush(int member) { MPI_Win_flush(member, win); }
static void put_to(int member) { MPI_Put(one, 1, MPI_LONG, member, 0, 1, MPI_LONG, win); }
static void get_from(int member) { MPI_Get(two, 1, MPI_LONG, member, 0, 1, MPI_LONG, win), flush(member); }
static void pause_long(void) { usleep(60000); }

/* Waits for a flag in the own part. */
static void await_at(int element) {
    do MPI_Win_sync(win);
    while (!__atomic_load_n(&part[element], __ATOMIC_ACQUIRE));
}
static void await(void) { await_at(FLAG); }
/* The update comes between the call and the load. */
static void await_slowly(void) {
    do MPI_Win_sync(win), pause_long();
    while (!__atomic_load_n(&part[FLAG], __ATOMIC_ACQUIRE));
}
/* The update comes before the first call. */
static void await_late(void) { pause_long(), await(); }

/* Flags, which are seen before they are flushed. */
static void raise_by_put(int member) { MPI_Put(&raised, 1, MPI_LONG, member, FLAG, 1, MPI_LONG, win); }
static void raise_by_replace(int member) {
    MPI_Accumulate(&raised, 1, MPI_LONG, member, FLAG, 1, MPI_LONG, MPI_REPLACE, win);
}
static void raise_by_fetch(int member) {
    static long old;
    MPI_Fetch_and_op(&raised, &old, MPI_LONG, member, FLAG, MPI_SUM, win);
}
static void raise_by_swap(int member) {
    static long old;
    MPI_Compare_and_swap(&raised, &none, &old, MPI_LONG, member, FLAG, win);
}
static void raise_by_rput(int member) {
    MPI_Request q;
    MPI_Rput(&raised, 1, MPI_LONG, member, FLAG, 1, MPI_LONG, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* Rank 0 puts to rank `data`, and raises a flag at rank `poller`, which then makes `access`. */
static void raised_at(int data, int poller, void (*raise)(int), void (*wait)(void), void (*access)(int), int racy) {
    lock_all();
    if (rank_ == 0) {
        put_to(data);
        if (!racy) flush(data);
        raise(poller), pause_long(), pause_long();
        MPI_Win_flush_all(win);
    }
    if (rank_ == poller) wait(), access(data);
    unlock_all();
}
static void put_again(int member) { put_to(member), flush(member); }
static void sum(int member) {
    MPI_Accumulate(one, 1, MPI_LONG, member, 0, 1, MPI_LONG, MPI_SUM, win), flush(member);
}
static void by_put(int racy) { raised_at(1, 2, raise_by_put, await, get_from, racy); }
static void by_replace(int racy) { raised_at(1, 2, raise_by_replace, await, get_from, racy); }
static void by_fetch(int racy) { raised_at(1, 2, raise_by_fetch, await, put_again, racy); }
static void by_swap(int racy) { raised_at(1, 2, raise_by_swap, await, sum, racy); }
static void by_rput(int racy) { raised_at(1, 2, raise_by_rput, await, put_again, racy); }
static void slowly_by_put(int racy) { raised_at(1, 2, raise_by_put, await_slowly, get_from, racy); }
static void slowly_by_replace(int racy) { raised_at(1, 2, raise_by_replace, await_slowly, put_again, racy); }
static void slowly_by_swap(int racy) { raised_at(1, 2, raise_by_swap, await_slowly, get_from, racy); }
static void late_by_put(int racy) { raised_at(1, 2, raise_by_put, await_late, sum, racy); }
static void late_by_fetch(int racy) { raised_at(1, 2, raise_by_fetch, await_late, get_from, racy); }
static void own_by_put(int racy) { raised_at(1, 1, raise_by_put, await, get_from, racy); }
static void own_slowly_by_put(int racy) { raised_at(1, 1, raise_by_put, await_slowly, put_again, racy); }
static void own_slowly_by_replace(int racy) { raised_at(1, 1, raise_by_replace, await_slowly, sum, racy); }

/* Rank 2 has seen the flag, and tells rank 1 by a message, or by a further flag. */
static void by_message(int racy) {
    lock_all();
    if (rank_ == 0) {
        put_to(1);
        if (!racy) flush(1);
        raise_by_put(2), pause_long(), pause_long();
    }
    if (rank_ == 2) await_slowly(), MPI_Send(0, 0, MPI_INT, 1, 1, all);
    if (rank_ == 1) MPI_Recv(0, 0, MPI_INT, 2, 1, all, MPI_STATUS_IGNORE), get_from(1);
    unlock_all();
}
static void by_flags(int racy) {
    lock_all();
    if (rank_ == 0) {
        put_to(1);
        if (!racy) flush(1);
        raise_by_put(2), pause_long(), pause_long();
    }
    if (rank_ == 2) await_slowly(), raise_by_put(1), pause_long();
    if (rank_ == 1) await(), get_from(1);
    unlock_all();
}
/* The value of the flag arrives at the flush, long after the call. */
static void fetched_late(int racy) {
    lock_all();
    if (rank_ == 0) {
        pause_long();
        put_to(1);
        if (!racy) flush(1);
        raise_by_fetch(1);
        if (!racy) flush(1);
        pause_long(), pause_long();
    }
    if (rank_ == 2) {
        long found = 0;
        while (!found) MPI_Fetch_and_op(&none, &found, MPI_LONG, 1, FLAG, MPI_NO_OP, win), pause_long(), flush(1);
        get_from(1);
    }
    unlock_all();
}
/* Five items, of which the flag counts those that have come. */
static void items(int racy) {
    lock_all();
    for (long i = 1; i <= 5; i++) {
        if (rank_ == 0) {
            MPI_Put(one, 1, MPI_LONG, 1, i, 1, MPI_LONG, win);
            if (!racy) flush(1);
            MPI_Put(&i, 1, MPI_LONG, 2, FLAG, 1, MPI_LONG, win), pause_long(), flush(2);
        }
        if (rank_ != 2) continue;
        do MPI_Win_sync(win);
        while (__atomic_load_n(&part[FLAG], __ATOMIC_ACQUIRE) < i);
        MPI_Get(two, 1, MPI_LONG, 1, i, 1, MPI_LONG, win), flush(1);
    }
    unlock_all();
}

/* Rank 1 gets its own element, and stores a credit, for which rank 0 waits by `read`. */
static void credit(void (*read)(long *), int racy) {
    lock_all();
    if (rank_ == 1) {
        if (racy) __atomic_store_n(&part[CREDIT], 1, __ATOMIC_RELEASE), MPI_Win_sync(win);
        MPI_Get(two, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (racy) pause_long(), pause_long();
        flush(1);
        if (!racy) __atomic_store_n(&part[CREDIT], 1, __ATOMIC_RELEASE), pause_long(), MPI_Win_sync(win);
    }
    if (rank_ == 0) {
        long found = 0;
        while (!found) read(&found), flush(1);
        if (racy) pause_long();
        put_to(1), flush(1);
    }
    unlock_all();
}
static void read_by_get(long *into) { MPI_Get(into, 1, MPI_LONG, 1, CREDIT, 1, MPI_LONG, win); }
static void read_by_fetch(long *into) { MPI_Fetch_and_op(&none, into, MPI_LONG, 1, CREDIT, MPI_NO_OP, win); }
static void read_by_get_accumulate(long *into) {
    MPI_Get_accumulate(&none, 1, MPI_LONG, into, 1, MPI_LONG, 1, CREDIT, 1, MPI_LONG, MPI_NO_OP, win);
}
static void read_by_rget(long *into) {
    MPI_Request q;
    MPI_Rget(into, 1, MPI_LONG, 1, CREDIT, 1, MPI_LONG, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}
static void credit_by_get(int racy) { credit(read_by_get, racy); }
static void credit_by_fetch(int racy) { credit(read_by_fetch, racy); }
static void credit_by_get_accumulate(int racy) { credit(read_by_get_accumulate, racy); }
static void credit_by_rget(int racy) { credit(read_by_rget, racy); }

/* The owner of the credit has learned by a message that a get of rank 2 is over. */
static void credit_of_others(int racy) {
    lock_all();
    if (rank_ == 2) {
        MPI_Get(two, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (!racy) flush(1);
        MPI_Send(0, 0, MPI_INT, 1, 1, all);
        if (racy) pause_long(), pause_long();
    }
    if (rank_ == 1) {
        MPI_Recv(0, 0, MPI_INT, 2, 1, all, MPI_STATUS_IGNORE);
        __atomic_store_n(&part[CREDIT], 1, __ATOMIC_RELEASE), pause_long(), MPI_Win_sync(win);
    }
    if (rank_ == 0) {
        long found = 0;
        while (!found) read_by_get(&found), flush(1);
        put_to(1), flush(1);
    }
    unlock_all();
}
/* Rank 0 stores a flag in its part of a shared window, which rank 2 reads. */
static void shared_flag(int racy) {
    MPI_Win shared;
    MPI_Aint size;
    long *own, *flag;
    int unit;
    MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, all, &own, &shared);
    MPI_Win_shared_query(shared, 0, &size, &unit, &flag);
    *own = 0, barrier();
    MPI_Win_lock_all(0, shared), lock_all();
    if (rank_ == 0) {
        put_to(1);
        if (!racy) flush(1);
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE), pause_long(), MPI_Win_sync(shared);
        pause_long();
    }
    if (rank_ == 2) {
        do MPI_Win_sync(shared);
        while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE));
        get_from(1);
    }
    unlock_all(), MPI_Win_unlock_all(shared);
    MPI_Win_free(&shared);
}

static const struct races_case cases[] = {
    CASE(by_put, OPERATIONS), CASE(by_replace, OPERATIONS), CASE(by_fetch, OPERATIONS),
    CASE(by_swap, OPERATIONS), CASE(by_rput, OPERATIONS), CASE(slowly_by_put, OPERATIONS),
    CASE(slowly_by_replace, OPERATIONS), CASE(slowly_by_swap, OPERATIONS),
    CASE(late_by_put, OPERATIONS), CASE(late_by_fetch, OPERATIONS), CASE(own_by_put, OPERATIONS),
    CASE(own_slowly_by_put, OPERATIONS), CASE(own_slowly_by_replace, OPERATIONS),
    CASE(by_message, OPERATIONS), CASE(by_flags, OPERATIONS), CASE(items, OPERATIONS),
    CASE(fetched_late, OPERATIONS),
    CASE(credit_by_get, OPERATIONS), CASE(credit_by_fetch, OPERATIONS),
    CASE(credit_by_get_accumulate, OPERATIONS), CASE(credit_by_rget, OPERATIONS),
    CASE(credit_of_others, OPERATIONS), CASE(shared_flag, OPERATIONS)};
#include "races_main.h"
