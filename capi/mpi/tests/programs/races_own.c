/* Programs of the kind of races_orders.c, for three ranks, in which the buffers of operations are
 * in the origin's own part of the window, or are used twice. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 32, FREE = 4, FLAG = 16, CREDIT = 20 };
static int rank_;
static MPI_Win win;
static long *part;                  /* this rank's part of the window */
static long one[COUNT];             /* a buffer */
static const long raised = 1, none = 0;
static const MPI_Comm all = MPI_COMM_WORLD;

static void barrier(void) { MPI_Barrier(all); }
static void fence(void) { MPI_Win_fence(0, win); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void get_at(int element) { MPI_Get(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void add_at(int element) { MPI_Accumulate(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_SUM, win); }

/* Operations of rank 1 with buffers in its part: the element 0. */
static void put_from(void) { MPI_Put(part, 1, MPI_LONG, 2, 8, 1, MPI_LONG, win); }
static void add_from(void) { MPI_Accumulate(part, 1, MPI_LONG, 2, 8, 1, MPI_LONG, MPI_SUM, win); }
static void get_into(void) { MPI_Get(part, 1, MPI_LONG, 2, 8, 1, MPI_LONG, win); }
static void fetch_into(void) { MPI_Fetch_and_op(&raised, part, MPI_LONG, 2, 8, MPI_SUM, win); }
static void swap_into(void) { MPI_Compare_and_swap(&raised, &none, part, MPI_LONG, 2, 8, win); }
static void get_accumulate_into(void) {
    MPI_Get_accumulate(&raised, 1, MPI_LONG, part, 1, MPI_LONG, 2, 8, 1, MPI_LONG, MPI_SUM, win);
}
/* Every second element. */
static void put_strided(void) {
    MPI_Datatype strided;
    MPI_Type_vector(3, 1, 2, MPI_LONG, &strided);
    MPI_Type_commit(&strided);
    MPI_Put(part, 1, strided, 2, 8, 3, MPI_LONG, win);
    MPI_Type_free(&strided);
}

/* Rank 1 makes `own`, and rank 0 makes `other` on rank 1's part, on the same element if `racy`. */
static void in_fences(void (*own)(void), void (*other)(int), int racy) {
    fence();
    if (rank_ == 1) own();
    if (rank_ == 0) other(racy ? 0 : FREE);
    fence();
}
static void fence_put(int racy) { in_fences(put_from, put_at, racy); }
static void fence_put_and_sum(int racy) { in_fences(put_from, add_at, racy); }
static void fence_sum(int racy) { in_fences(add_from, put_at, racy); }
static void fence_sums(int racy) { in_fences(add_from, add_at, racy); }
static void fence_get(int racy) { in_fences(get_into, get_at, racy); }
static void fence_get_and_put(int racy) { in_fences(get_into, put_at, racy); }
static void fence_fetch(int racy) { in_fences(fetch_into, get_at, racy); }
static void fence_fetch_and_sum(int racy) { in_fences(fetch_into, add_at, racy); }
static void fence_swap(int racy) { in_fences(swap_into, put_at, racy); }
static void fence_get_accumulate(int racy) { in_fences(get_accumulate_into, put_at, racy); }
static void in_next_fence(int racy) {
    fence();
    if (rank_ == 1) put_from();
    if (!racy) fence();
    if (rank_ == 0) put_at(0);
    fence();
}
static void strided_put_at(int element) { put_at(element ? 3 : 4); }
static void fence_strided(int racy) { in_fences(put_strided, strided_put_at, racy); }
/* Both only read. */
static void fence_reads(int racy) {
    fence();
    if (rank_ == 1) put_from();
    if (rank_ == 0 && racy) put_at(0);
    else if (rank_ == 0) get_at(0);
    fence();
}

static MPI_Group of(int member) {
    MPI_Group of_all, some;
    MPI_Comm_group(all, &of_all);
    MPI_Group_incl(of_all, 1, &member, &some);
    MPI_Group_free(&of_all);
    return some;
}
/* Rank 1 is exposed to rank 0, and makes `own` on rank 2. */
static void in_groups(void (*own)(void), void (*other)(int), int racy) {
    MPI_Group groups[3] = {of(0), of(1), of(2)};
    if (rank_ == 0) MPI_Win_start(groups[1], 0, win), other(racy ? 0 : FREE), MPI_Win_complete(win);
    if (rank_ == 1) {
        MPI_Win_post(groups[0], 0, win);
        MPI_Win_start(groups[2], 0, win), own(), MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    if (rank_ == 2) MPI_Win_post(groups[1], 0, win), MPI_Win_wait(win);
    for (int i = 0; i < 3; i++) MPI_Group_free(&groups[i]);
}
static void group_put(int racy) { in_groups(put_from, put_at, racy); }
static void group_sum(int racy) { in_groups(add_from, add_at, racy); }
static void group_get(int racy) { in_groups(get_into, get_at, racy); }
static void group_fetch(int racy) { in_groups(fetch_into, put_at, racy); }
static void group_swap(int racy) { in_groups(swap_into, get_at, racy); }
/* The exposure epoch ends before the own operation, or after it. */
static void group_in_turn(int racy) {
    MPI_Group groups[3] = {of(0), of(1), of(2)};
    if (rank_ == 0) MPI_Win_start(groups[1], 0, win), put_at(0), MPI_Win_complete(win);
    if (rank_ == 1) {
        int done = 0;
        MPI_Win_post(groups[0], 0, win);
        while (!racy && !done) MPI_Win_test(win, &done);
        MPI_Win_start(groups[2], 0, win), put_from(), MPI_Win_complete(win);
        if (racy) MPI_Win_wait(win);
    }
    if (rank_ == 2) MPI_Win_post(groups[1], 0, win), MPI_Win_wait(win);
    for (int i = 0; i < 3; i++) MPI_Group_free(&groups[i]);
}
/* A message tells rank 0 that the own operation is complete, or comes before it. */
static void group_after_message(int racy) {
    MPI_Group groups[3] = {of(0), of(1), of(2)};
    if (rank_ == 0) {
        MPI_Win_start(groups[1], 0, win);
        MPI_Recv(0, 0, MPI_INT, 1, 1, all, MPI_STATUS_IGNORE);
        put_at(0), MPI_Win_complete(win);
    }
    if (rank_ == 1) {
        MPI_Win_post(groups[0], 0, win);
        if (racy) MPI_Send(0, 0, MPI_INT, 0, 1, all);
        MPI_Win_start(groups[2], 0, win), put_from(), MPI_Win_complete(win);
        if (!racy) MPI_Send(0, 0, MPI_INT, 0, 1, all);
        MPI_Win_wait(win);
    }
    if (rank_ == 2) MPI_Win_post(groups[1], 0, win), MPI_Win_wait(win);
    for (int i = 0; i < 3; i++) MPI_Group_free(&groups[i]);
}

/* Each rank gets its left neighbor's element 0 into its own element 1, or 0, which its right
 * neighbor gets. */
static void ring(int racy) {
    fence();
    MPI_Get(part + (racy ? 0 : 1), 1, MPI_LONG, (rank_ + 2) % 3, 0, 1, MPI_LONG, win);
    fence();
}
/* Elements 1 to 6 belong to the rank, and 0 and 7 are copies of the neighbors' ones. */
static void halo(int racy) {
    for (int turn = 0; turn < 3; turn++) {
        fence();
        for (int i = 1; i < 7; i++) part[i] += 1;
        fence();
        MPI_Put(part + 1, 1, MPI_LONG, (rank_ + 2) % 3, racy ? 6 : 7, 1, MPI_LONG, win);
        MPI_Put(part + 6, 1, MPI_LONG, (rank_ + 1) % 3, 0, 1, MPI_LONG, win);
    }
    fence();
}
/* The same by gets into the copies. */
static void halo_of_gets(int racy) {
    for (int turn = 0; turn < 3; turn++) {
        fence();
        for (int i = 1; i < 7; i++) part[i] += 1;
        fence();
        MPI_Get(part + (racy ? 6 : 7), 1, MPI_LONG, (rank_ + 1) % 3, 1, 1, MPI_LONG, win);
        MPI_Get(part, 1, MPI_LONG, (rank_ + 2) % 3, 6, 1, MPI_LONG, win);
    }
    fence();
}

/* One buffer of two puts, of which the second one is complete. */
static void buffer_twice(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        MPI_Put(one, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
        MPI_Win_flush(2, win);
        if (!racy) MPI_Win_flush(1, win);
        MPI_Get(one, 1, MPI_LONG, 2, 8, 1, MPI_LONG, win);
    }
    unlock_all();
}

/* A rank waits for a flag in its part, and passes the element on. */
static void await(int element) {
    while (!__atomic_load_n(&part[element], __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
}
static void raise_at(int member, int element) {
    MPI_Accumulate(&raised, 1, MPI_LONG, member, element, 1, MPI_LONG, MPI_REPLACE, win);
    MPI_Win_flush(member, win);
}
static void forward(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), MPI_Win_flush(1, win), raise_at(1, FLAG);
    if (rank_ == 1) {
        if (!racy) await(FLAG);
        put_from(), MPI_Win_flush(2, win);
    }
    unlock_all();
}
/* The element comes before the exposure epoch in which it is passed on. */
static void forward_in_groups(int racy) {
    MPI_Group groups[3] = {of(0), of(1), of(2)};
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        put_at(0), MPI_Win_flush(1, win), raise_at(1, FLAG);
        MPI_Win_unlock(1, win);
    }
    if (rank_ == 1) {
        if (!racy) await(FLAG);
        MPI_Win_post(groups[2], 0, win);
        MPI_Win_start(groups[2], 0, win), put_from(), MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    if (rank_ == 2) {
        MPI_Win_post(groups[1], 0, win);
        MPI_Win_start(groups[1], 0, win), put_at(FREE), MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    for (int i = 0; i < 3; i++) MPI_Group_free(&groups[i]);
}
/* After an exposure epoch rank 1 tells rank 0 by a store that its part is free. */
static void credit(int racy) {
    MPI_Group groups[3] = {of(0), of(1), of(2)};
    if (rank_ == 0) MPI_Win_start(groups[1], 0, win), put_at(FREE), MPI_Win_complete(win);
    if (rank_ == 1) {
        MPI_Win_post(groups[0], 0, win);
        MPI_Win_start(groups[2], 0, win), put_from(), MPI_Win_complete(win);
        MPI_Win_wait(win);
        __atomic_store_n(&part[CREDIT], 1, __ATOMIC_RELEASE);
    }
    if (rank_ == 2) MPI_Win_post(groups[1], 0, win), MPI_Win_wait(win);
    if (rank_ == 0) {
        long found = racy;
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        while (!found) {
            MPI_Fetch_and_op(0, &found, MPI_LONG, 1, CREDIT, MPI_NO_OP, win);
            MPI_Win_flush(1, win);
        }
        put_at(0);
        MPI_Win_unlock(1, win);
    }
    for (int i = 0; i < 3; i++) MPI_Group_free(&groups[i]);
}

/* Many gets of one epoch into the own part. The put makes the records of the part more than those
 * of the buffers. */
static void many_gets(int racy) {
    enum { GETS = 600, LEN = 4, THEIRS = GETS * LEN };
    MPI_Win large;
    long *mine;
    MPI_Win_allocate(2 * THEIRS * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &mine, &large);
    MPI_Win_fence(0, large);
    if (rank_ == 0) MPI_Put(one, LEN, MPI_LONG, 1, THEIRS, LEN, MPI_LONG, large);
    MPI_Win_fence(0, large);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; rank_ == 1 && i < GETS; i++) {
            MPI_Get(mine + i * LEN, LEN, MPI_LONG, 2, THEIRS + i * LEN, LEN, MPI_LONG, large);
        }
        if (rank_ == 0 && racy && epoch == 1) MPI_Put(one, LEN, MPI_LONG, 1, 0, LEN, MPI_LONG, large);
        MPI_Win_fence(0, large);
    }
    MPI_Win_free(&large);
}

static const struct races_case cases[] = {
    CASE(fence_put, OPERATIONS), CASE(fence_put_and_sum, OPERATIONS), CASE(fence_sum, OPERATIONS),
    CASE(fence_sums, OPERATIONS), CASE(fence_get, OPERATIONS), CASE(fence_get_and_put, OPERATIONS),
    CASE(fence_fetch, OPERATIONS), CASE(fence_fetch_and_sum, OPERATIONS), CASE(fence_swap, OPERATIONS),
    CASE(fence_get_accumulate, OPERATIONS), CASE(in_next_fence, OPERATIONS),
    CASE(fence_strided, OPERATIONS), CASE(fence_reads, OPERATIONS), CASE(group_put, OPERATIONS),
    CASE(group_sum, OPERATIONS), CASE(group_get, OPERATIONS), CASE(group_fetch, OPERATIONS),
    CASE(group_swap, OPERATIONS), CASE(group_in_turn, OPERATIONS),
    CASE(group_after_message, OPERATIONS), CASE(ring, OPERATIONS), CASE(halo, OPERATIONS),
    CASE(halo_of_gets, OPERATIONS), CASE(buffer_twice, OPERATIONS), CASE(forward, LOCAL), CASE(forward_in_groups, LOCAL),
    CASE(credit, LOCAL), CASE(many_gets, OPERATIONS)};
#include "races_main.h"
