/* Further forms of calls, for three ranks: requests that are freed, arguments of atomics, windows
 * that do not synchronize each other, threads that synchronize by POSIX, communicators made of
 * others, and datatypes. In the form `during` a call is missing, comes too early, or orders other
 * ranks than those that access. Rank 1 has most of the memory on which the others operate. */
#define _GNU_SOURCE
#include "races_case.h"
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 32 };
static int rank_;
static MPI_Win win;
static long *part;                     /* this rank's part of the window */
static long one[COUNT], result[COUNT]; /* buffers */
static long token, tokens[3];
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void put(void) { put_at(0); }
static void get(void) { MPI_Get(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); }
static void load(void) { seen = part[0]; }
static void flush(void) { MPI_Win_flush(1, win); }
static void flush_local(void) { MPI_Win_flush_local(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void complete(MPI_Request q) { MPI_Wait(&q, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
/* Another rank has probably gone on, which nothing says. */
static void pause_long(void) { usleep(30000); }

/* --- requests --------------------------------------------------------------------------------- */

/* The end of the epoch completes an operation whose request was freed. */
static void freed_request(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        MPI_Rput(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q);
        MPI_Request_free(&q);
        if (racy) one[0] = 4;
        flush_local();
        one[0] = 5;
    }
    unlock_all();
}
static void freed_and_read(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        MPI_Rput(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q);
        MPI_Request_free(&q);
        if (!racy) flush();
    }
    barrier();
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
}
static void some_of_several(int racy) {
    MPI_Request q[3];
    int done = 0, ended[3], all_done = 0;
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < 3; i++) MPI_Rget(&result[i], 1, MPI_LONG, 1, i, 1, MPI_LONG, win, &q[i]);
        if (racy) seen = result[2];
        while (all_done < 3) {
            MPI_Testsome(3, q, &done, ended, MPI_STATUSES_IGNORE);
            for (int i = 0; i < done; i++) seen = result[ended[i]];
            all_done += done;
        }
    }
    unlock_all();
}
static void waits_for_one(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < 2; i++) MPI_Rput(&one[i], 1, MPI_LONG, 1, i, 1, MPI_LONG, win, &q[i]);
        complete(q[0]);
        one[racy ? 1 : 0] = 5;
        complete(q[1]);
    }
    unlock_all();
}
/* A request of a put and one of a receive in one call. */
static void mixed_requests(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 2) MPI_Send(&token, 1, MPI_LONG, 0, 1, all);
    if (rank_ == 0) {
        MPI_Irecv(tokens, 1, MPI_LONG, 2, 1, all, &q[0]);
        MPI_Rget(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q[1]);
        if (racy) complete(q[0]), seen = result[0], complete(q[1]);
        else MPI_Waitall(2, q, MPI_STATUSES_IGNORE), seen = result[0] + tokens[0];
    }
    unlock_all();
}
static void tested_barrier(int racy) {
    MPI_Request q;
    int done = 0;
    lock_all();
    if (rank_ == 0 && !racy) put(), flush();
    MPI_Ibarrier(all, &q);
    if (rank_ == 0 && racy) put(), flush();
    while (!done) MPI_Test(&q, &done, MPI_STATUS_IGNORE);
    if (rank_ == 1) pause_long(), load();
    unlock_all();
}
/* A barrier that has only begun. */
static void begun_barrier(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Ibarrier(all, &q);
    if (!racy) complete(q);
    if (rank_ == 1) pause_long(), load();
    if (racy) complete(q);
    unlock_all();
}
static void any_of_messages(int racy) {
    MPI_Request q[2];
    int index = 0;
    lock_all();
    if (rank_ == 0) put(), flush(), send(1);
    if (rank_ == 2) pause_long(), pause_long(), send(1);
    if (rank_ == 1) {
        for (int i = 0; i < 2; i++) MPI_Irecv(0, 0, MPI_INT, 2 * i, 1, all, &q[i]);
        if (racy) complete(q[1]), load(), complete(q[0]);
        else {
            MPI_Waitany(2, q, &index, MPI_STATUS_IGNORE);
            if (index == 0) load();
            MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        }
    }
    unlock_all();
}
static void ready_send(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 1) MPI_Irecv(&token, 1, MPI_LONG, 0, 1, all, &q);
    barrier();
    if (rank_ == 0 && racy) MPI_Rsend(&token, 1, MPI_LONG, 1, 1, all);
    if (rank_ == 0) put(), flush();
    if (rank_ == 0 && !racy) MPI_Rsend(&token, 1, MPI_LONG, 1, 1, all);
    if (rank_ == 1) complete(q), pause_long(), load();
    unlock_all();
}
/* Two tags, which are received in the other order. */
static void tags_in_turn(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Send(&token, 1, MPI_LONG, 1, 5, all);
        put(), flush();
        MPI_Send(&token, 1, MPI_LONG, 1, 6, all);
    }
    if (rank_ == 1) {
        MPI_Recv(&token, 1, MPI_LONG, 0, racy ? 5 : 6, all, MPI_STATUS_IGNORE);
        pause_long(), load();
        MPI_Recv(&token, 1, MPI_LONG, 0, racy ? 6 : 5, all, MPI_STATUS_IGNORE);
    }
    unlock_all();
}

/* --- arguments of atomics --------------------------------------------------------------------- */

static long given, expected;
static void written_operand(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(&given, result, MPI_LONG, 1, 0, MPI_SUM, win);
        if (!racy) flush_local();
        given = 4;
    }
    unlock_all();
}
static void written_expected(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Compare_and_swap(&given, &expected, result, MPI_LONG, 1, 0, win);
        if (!racy) flush_local();
        expected = 4;
    }
    unlock_all();
}
static void written_origin(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Get_accumulate(one, 2, MPI_LONG, result, 2, MPI_LONG, 1, 0, 2, MPI_LONG, MPI_SUM, win);
        if (!racy) flush();
        one[1] = 4;
    }
    unlock_all();
}
/* The operand of MPI_NO_OP is not read. */
static void no_operand(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(&given, result, MPI_LONG, 1, 0, racy ? MPI_SUM : MPI_NO_OP, win);
        given = 4;
    }
    unlock_all();
}
/* The result of one atomic is the operand of another. */
static void chained(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(&given, result, MPI_LONG, 1, 0, MPI_SUM, win);
        if (!racy) flush();
        MPI_Accumulate(result, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_SUM, win);
    }
    unlock_all();
}
static void swapped_and_loaded(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Compare_and_swap(&given, &expected, result, MPI_LONG, 1, 0, win), flush();
    if (!racy) barrier();
    if (rank_ == 1) pause_long(), load();
    unlock_all();
}
static void halves(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Accumulate(one, 2, MPI_INT, 1, 0, 2, MPI_INT, MPI_SUM, win);
    if (rank_ == 2 && racy) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
    if (rank_ == 2 && !racy) MPI_Accumulate(one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win);
    unlock_all();
}
static void replaced_and_put(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_REPLACE, win);
    if (rank_ == 2 && racy) put();
    if (rank_ == 2 && !racy) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_REPLACE, win);
    unlock_all();
}
/* An accumulate and a put of one origin. */
static void sum_and_put(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
        if (!racy) flush();
        put();
    }
    unlock_all();
}
static void long_sums(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Accumulate(one, COUNT, MPI_LONG, 1, 0, COUNT, MPI_LONG, MPI_SUM, win), flush();
    if (!racy) barrier();
    if (rank_ == 2) pause_long(), MPI_Get(result, 1, MPI_LONG, 1, COUNT - 1, 1, MPI_LONG, win);
    unlock_all();
}

/* --- windows ---------------------------------------------------------------------------------- */

/* The fence of another window completes nothing. */
static void fence_of_another(int racy) {
    MPI_Win other;
    long *own;
    MPI_Win_allocate(64, sizeof(long), MPI_INFO_NULL, all, &own, &other);
    MPI_Win_fence(0, win), MPI_Win_fence(0, other);
    if (rank_ == 0) put();
    MPI_Win_fence(0, racy ? other : win);
    if (rank_ == 1) pause_long(), load();
    MPI_Win_fence(0, racy ? win : other);
    MPI_Win_free(&other);
}
/* One buffer in the operations of two windows. */
static void buffer_of_two(int racy) {
    MPI_Win other;
    long *own;
    MPI_Win_allocate(64, sizeof(long), MPI_INFO_NULL, all, &own, &other);
    lock_all(), MPI_Win_lock_all(0, other);
    if (rank_ == 0) {
        get();
        if (!racy) flush();
        MPI_Put(result, 1, MPI_LONG, 2, 0, 1, MPI_LONG, other);
    }
    MPI_Win_unlock_all(other), unlock_all();
    MPI_Win_free(&other);
}
static void barrier_in_fence(int racy) {
    MPI_Win_fence(0, win);
    if (rank_ == 0) put();
    if (racy) barrier();
    else MPI_Win_fence(0, win);
    if (rank_ == 1) pause_long(), load();
    MPI_Win_fence(0, win);
}
static void unlocked_and_met(int racy) {
    lock_all();
    if (rank_ == 0) put();
    if (racy) barrier();
    unlock_all();
    if (!racy) barrier();
    if (rank_ == 1) pause_long(), load();
    barrier();
}
static void own_lock(int racy) {
    if (rank_ == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win), put(), MPI_Win_unlock(1, win);
    if (rank_ == 1) {
        if (!racy) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        load();
        if (!racy) MPI_Win_unlock(1, win);
    }
    barrier();
}
/* Memory that was detached is attached again. */
static void attached_again(int racy) {
    MPI_Win dynamic;
    MPI_Aint at = 0;
    long *memory = calloc(8, sizeof *memory);
    MPI_Win_create_dynamic(MPI_INFO_NULL, all, &dynamic);
    for (int turn = 0; turn < 2; turn++) {
        if (rank_ == 1) MPI_Win_attach(dynamic, memory, 8 * sizeof *memory), MPI_Get_address(memory, &at);
        MPI_Bcast(&at, 1, MPI_AINT, 1, all);
        MPI_Win_lock_all(0, dynamic);
        if (rank_ == 2 * turn) MPI_Put(one, 1, MPI_LONG, 1, MPI_Aint_add(at, 8), 1, MPI_LONG, dynamic);
        if (rank_ == 1 && racy && turn) memory[1] = 4;
        MPI_Win_unlock_all(dynamic);
        barrier();
        if (rank_ == 1) MPI_Win_detach(dynamic, memory), memory[1] = 5;
    }
    MPI_Win_free(&dynamic);
    free(memory);
}
static void attached_twice(int racy) {
    MPI_Win dynamic;
    MPI_Aint at[2];
    long first[4] = {0}, second[4] = {0};
    MPI_Win_create_dynamic(MPI_INFO_NULL, all, &dynamic);
    MPI_Win_attach(dynamic, first, sizeof first), MPI_Win_attach(dynamic, second, sizeof second);
    MPI_Get_address(first, &at[0]), MPI_Get_address(second, &at[1]);
    MPI_Bcast(at, 2, MPI_AINT, 1, all);
    MPI_Win_lock_all(0, dynamic);
    if (rank_ == 0) MPI_Put(one, 4, MPI_LONG, 1, at[0], 4, MPI_LONG, dynamic);
    if (rank_ == 2) MPI_Put(one, 1, MPI_LONG, 1, racy ? at[0] + 24 : at[1], 1, MPI_LONG, dynamic);
    MPI_Win_unlock_all(dynamic);
    barrier();
    MPI_Win_detach(dynamic, first), MPI_Win_detach(dynamic, second);
    MPI_Win_free(&dynamic);
}
/* A window over the same memory as one that was freed. */
static void window_again(int racy) {
    static long memory[8];
    MPI_Win again;
    for (int turn = 0; turn < 2; turn++) {
        MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, all, &again);
        MPI_Win_fence(0, again);
        if (rank_ == 2 * turn) MPI_Put(one, 8, MPI_BYTE, 1, 9, 8, MPI_BYTE, again);
        if (rank_ == 1 && racy && turn) memory[2] = 4;
        MPI_Win_fence(MPI_MODE_NOSUCCEED, again);
        if (rank_ == 1) memory[1] = 4;
        MPI_Win_free(&again);
    }
}
static void own_copy(int racy) {
    lock_all();
    if (rank_ == 1) {
        MPI_Put(part, 1, MPI_LONG, 1, 4, 1, MPI_LONG, win);
        if (!racy) flush();
        part[4] = 5;
    }
    unlock_all();
}
/* A put changes the bytes that another put of the target sends. */
static void sent_from_part(int racy) {
    lock_all();
    if (rank_ == 1) MPI_Put(part, 2, MPI_LONG, 2, 0, 2, MPI_LONG, win), MPI_Win_flush(2, win);
    if (rank_ == 0 && racy) MPI_Put(one, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win);
    if (rank_ == 0 && !racy) MPI_Put(one, 1, MPI_LONG, 1, 2, 1, MPI_LONG, win);
    unlock_all();
}

/* --- groups of post and start ----------------------------------------------------------------- */

static MPI_Group group(int first, int count) {
    MPI_Group of_all, some;
    int range[1][3] = {{first, first + count - 1, 1}};
    MPI_Comm_group(all, &of_all);
    MPI_Group_range_incl(of_all, 1, range, &some);
    MPI_Group_free(&of_all);
    return some;
}
/* Rank 0 and rank 2 have an epoch each. */
static void epochs_in_turn(int racy) {
    MPI_Group first = group(0, 1), last = group(2, 1), target = group(1, 1);
    if (rank_ == 1) {
        MPI_Win_post(first, 0, win), MPI_Win_wait(win);
        load();
        if (racy) MPI_Win_post(last, 0, win), part[0] = 4, MPI_Win_wait(win);
        else part[0] = 4, MPI_Win_post(last, 0, win), MPI_Win_wait(win);
    } else {
        MPI_Win_start(target, 0, win), put(), MPI_Win_complete(win);
        one[0] = 3;
    }
    MPI_Group_free(&first), MPI_Group_free(&last), MPI_Group_free(&target);
}
static void buffer_in_epoch(int racy) {
    MPI_Group origin = group(0, 1), target = group(1, 1);
    if (rank_ == 1) MPI_Win_post(origin, 0, win), MPI_Win_wait(win);
    if (rank_ == 0) {
        MPI_Win_start(target, 0, win);
        get();
        if (racy) seen = result[0];
        MPI_Win_complete(win);
        seen = result[0];
    }
    MPI_Group_free(&origin), MPI_Group_free(&target);
}
/* --- communicators ---------------------------------------------------------------------------- */

static void merged(int racy) {
    MPI_Comm half, between, whole;
    MPI_Comm_split(all, rank_ == 2, rank_, &half);
    MPI_Intercomm_create(half, 0, all, rank_ == 2 ? 0 : 2, 9, &between);
    MPI_Intercomm_merge(between, rank_ == 2, &whole);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Barrier(racy ? half : whole);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Comm_free(&whole), MPI_Comm_free(&between), MPI_Comm_free(&half);
}
/* Ranks 0 and 1 are one group, rank 2 the other. `order` may let rank 2 know of rank 0's put. */
static void through(void (*order)(MPI_Comm between, int racy), int racy) {
    MPI_Comm half, between;
    MPI_Comm_split(all, rank_ == 2, rank_, &half);
    MPI_Intercomm_create(half, 0, all, rank_ == 2 ? 0 : 2, 9, &between);
    lock_all();
    if (rank_ == 0) put(), flush();
    order(between, racy);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Comm_free(&between), MPI_Comm_free(&half);
}
static void meet_between(MPI_Comm between, int racy) {
    if (!racy) MPI_Barrier(between);
}
static void between_groups(int racy) { through(meet_between, racy); }
static void send_between(MPI_Comm between, int racy) {
    if (rank_ == (racy ? 1 : 0)) MPI_Send(&token, 1, MPI_LONG, 0, 4, between);
    if (rank_ == 2) MPI_Recv(&token, 1, MPI_LONG, racy ? 1 : 0, 4, between, MPI_STATUS_IGNORE);
}
static void sent_between(int racy) { through(send_between, racy); }
static void bcast_between(MPI_Comm between, int racy) {
    const int root = racy ? 1 : 0;
    MPI_Bcast(&token, 1, MPI_LONG, rank_ == 2 ? root : rank_ == root ? MPI_ROOT : MPI_PROC_NULL, between);
}
static void told_between(int racy) { through(bcast_between, racy); }
static void ibcast_between(MPI_Comm between, int racy) {
    const int root = racy ? 1 : 0;
    MPI_Request q;
    MPI_Ibcast(&token, 1, MPI_LONG, rank_ == 2 ? root : rank_ == root ? MPI_ROOT : MPI_PROC_NULL, between, &q);
    complete(q);
}
static void begun_between(int racy) { through(ibcast_between, racy); }
/* The root is in the other group, or in that of rank 0. */
static void reduce_between(MPI_Comm between, int racy) {
    const int first = racy ? MPI_ROOT : 0, second = racy ? MPI_PROC_NULL : 0, third = racy ? 0 : MPI_ROOT;
    MPI_Reduce(&token, tokens, 1, MPI_LONG, MPI_SUM, rank_ == 0 ? first : rank_ == 1 ? second : third, between);
}
static void reduced_between(int racy) { through(reduce_between, racy); }
/* Messages on communicators that are made of the two groups, and calls that make them. */
static void send_on_copies(MPI_Comm between, int racy) {
    MPI_Comm copy, split, begun;
    MPI_Request q;
    MPI_Comm_dup(between, &copy);
    MPI_Comm_idup(copy, &begun, &q), complete(q);
    MPI_Comm_split(begun, 0, rank_, &split);
    const int racer = rank_ == 0 && racy;
    if (racer) put(), flush();
    if (rank_ == 1) MPI_Send(&token, 1, MPI_LONG, 0, 4, copy), MPI_Send(&token, 1, MPI_LONG, 0, 4, split);
    if (rank_ == 2) MPI_Recv(&token, 1, MPI_LONG, 1, 4, split, MPI_STATUS_IGNORE), MPI_Recv(&token, 1, MPI_LONG, 1, 4, copy, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy), MPI_Comm_free(&split), MPI_Comm_free(&begun);
}
static void sent_on_copies(int racy) { through(send_on_copies, racy); }
/* A message to be replaced by none is one message. */
static void replace(void) {
    MPI_Sendrecv_replace(&token, 1, MPI_LONG, 2, 5, MPI_PROC_NULL, 5, all, MPI_STATUS_IGNORE);
}
static void take(void) { MPI_Recv(&token, 1, MPI_LONG, 0, 5, all, MPI_STATUS_IGNORE); }
static void replaced_by_none(int racy) {
    lock_all();
    if (rank_ == 0) replace(), put(), flush(), replace();
    if (rank_ == 2) take();
    if (rank_ == 2 && !racy) take();
    if (rank_ == 2) get(), flush();
    if (rank_ == 2 && racy) take();
    unlock_all();
}
static void of_group(int racy) {
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Group pair = racy ? group(1, 2) : group(0, 2);
    if (rank_ == 1 || rank_ == (racy ? 2 : 0)) MPI_Comm_create_group(all, pair, 3, &some);
    lock_all();
    if (rank_ == 0) put(), flush();
    if (some != MPI_COMM_NULL) MPI_Barrier(some);
    if (rank_ == 1) pause_long(), load();
    unlock_all();
    if (some != MPI_COMM_NULL) MPI_Comm_free(&some);
    MPI_Group_free(&pair);
}
static void of_node(int racy) {
    MPI_Comm node;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, -rank_, MPI_INFO_NULL, &node);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Bcast(&token, 1, MPI_LONG, racy ? 1 : 2, node);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Comm_free(&node);
}
static void of_grid(int racy) {
    MPI_Comm grid, line;
    const int dims[2] = {3, 1}, periods[2] = {0}, kept[2] = {!racy, racy};
    MPI_Cart_create(all, 2, dims, periods, 0, &grid);
    MPI_Cart_sub(grid, kept, &line);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Allreduce(&token, tokens, 1, MPI_LONG, MPI_SUM, line);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Comm_free(&line), MPI_Comm_free(&grid);
}

#include "races_buffers.h"
#include "races_threads.h"

static const struct races_case cases[] = {
    CASE(freed_request, LOCAL), CASE(freed_and_read, OPERATIONS), CASE(some_of_several, LOCAL),
    CASE(waits_for_one, LOCAL), CASE(mixed_requests, LOCAL), CASE(tested_barrier, LOCAL),
    CASE(begun_barrier, LOCAL), CASE(any_of_messages, LOCAL), CASE(ready_send, LOCAL),
    CASE(tags_in_turn, LOCAL), CASE(written_operand, LOCAL), CASE(written_expected, LOCAL),
    CASE(written_origin, LOCAL), CASE(no_operand, LOCAL), CASE(chained, OPERATIONS),
    CASE(swapped_and_loaded, LOCAL), CASE(halves, OPERATIONS), CASE(replaced_and_put, OPERATIONS),
    CASE(sum_and_put, OPERATIONS), CASE(long_sums, OPERATIONS), CASE(fence_of_another, LOCAL),
    CASE(buffer_of_two, OPERATIONS), CASE(barrier_in_fence, LOCAL), CASE(unlocked_and_met, LOCAL),
    CASE(own_lock, LOCAL), CASE(attached_again, LOCAL), CASE(attached_twice, OPERATIONS),
    CASE(window_again, LOCAL), CASE(own_copy, LOCAL),
    CASE(sent_from_part, LOCAL), CASE(epochs_in_turn, LOCAL), CASE(buffer_in_epoch, LOCAL),
    CASE(merged, OPERATIONS), CASE(between_groups, OPERATIONS), CASE(of_group, LOCAL),
    CASE(sent_between, OPERATIONS), CASE(told_between, OPERATIONS),
    CASE(begun_between, OPERATIONS), CASE(reduced_between, OPERATIONS),
    CASE(sent_on_copies, OPERATIONS),
    CASE(replaced_by_none, OPERATIONS),
    CASE(of_node, OPERATIONS), CASE(of_grid, OPERATIONS), CASE(indexed, OPERATIONS),
    CASE(nested_types, LOCAL), CASE(many_pieces, OPERATIONS), CASE(packed, LOCAL),
    CASE(unpacked, LOCAL), CASE(reduced, LOCAL), CASE(set_by_library, LOCAL),
    CASE(left_stack, LOCAL), CASE(grown, LOCAL), CASE(large, LOCAL),
#if MPI_VERSION >= 4
    CASE(large_counts, LOCAL), CASE(isendrecv, LOCAL),
#endif
    CASE(profiled, LOCAL), THREAD_CASES};
#define BEGIN_AGAIN turn = 0
#include "races_main.h"
