/* Further programs of the kind of races_orders.c, for three ranks. A rank polls very often, or
 * computes for long, between an access and the call by which it learns of a conflicting operation.
 * Or an operation is complete earlier than others of its epoch, writes less than its buffer, or
 * does not change what it might. Rank 1 has the memory on which rank 0 operates. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 64, POLLS = 20000 };
static int rank_;
static MPI_Win win;
static long *part;              /* this rank's part of the window */
static long one[COUNT], got[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int at) { MPI_Put(one, 1, MPI_LONG, 1, at, 1, MPI_LONG, win); }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void send(int to, int tag) { MPI_Send(one + 8, 1, MPI_LONG, to, tag, all); }
static void receive(int from, int tag) { MPI_Recv(got + 8, 1, MPI_LONG, from, tag, all, MPI_STATUS_IGNORE); }

/* --- very many polls -------------------------------------------------------------------------- */

/* Rank 1 stores, and polls until rank 0, which knows nothing of the store, has put there; right:
 * elsewhere. */
static void polled(void (*poll)(void), int racy) {
    lock_all();
    barrier();
    if (rank_ == 1) {
        part[0] = 5;
        for (int i = 0; i < POLLS; i++) poll();
        send(0, 2);
        receive(0, 1);
    }
    if (rank_ == 0) {
        put_at(racy ? 0 : 1), flush();
        receive(1, 2), send(1, 1);
    }
    unlock_all();
}
static void probe(void) {
    int flag;
    MPI_Iprobe(0, 3, all, &flag, MPI_STATUS_IGNORE);
}
static void match(void) {
    int flag;
    MPI_Message message;
    MPI_Improbe(0, 3, all, &flag, &message, MPI_STATUS_IGNORE);
}
static void add(void) { MPI_Accumulate(one + 2, 1, MPI_LONG, 1, 4, 1, MPI_LONG, MPI_SUM, win), flush(); }
static void fetch(void) { MPI_Fetch_and_op(one + 2, got + 2, MPI_LONG, 1, 4, MPI_SUM, win), flush(); }
static void probed(int racy) { polled(probe, racy); }
static void matched(int racy) { polled(match, racy); }
static void added(int racy) { polled(add, racy); }
static void fetched(int racy) { polled(fetch, racy); }
/* Rank 0 puts after it has met the store of rank 1; racy: without. */
static void put_after_polls(int racy) {
    lock_all();
    if (!racy) {
        if (rank_ == 1) part[0] = 5;
        barrier();
    }
    if (rank_ == 0) put_at(0), flush(), send(1, 1);
    if (rank_ == 1) {
        if (racy) part[0] = 5;
        for (int i = 0; i < POLLS; i++) add();
        receive(0, 1);
    }
    unlock_all();
}
/* A put of very many pieces. */
static void in_pieces(int racy) {
    enum { PIECES = 30 };
    MPI_Datatype every_second;
    MPI_Type_vector(PIECES, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&every_second);
    lock_all();
    barrier();
    if (rank_ == 1) {
        part[0] = 5;
        for (int i = 0; i < 300; i++) MPI_Put(one, 1, every_second, 2, 0, 1, every_second, win), MPI_Win_flush(2, win);
        receive(0, 1);
    }
    if (rank_ == 0) put_at(racy ? 0 : 1), flush(), send(1, 1);
    unlock_all();
    MPI_Type_free(&every_second);
}

/* --- long computations ------------------------------------------------------------------------ */

/* Rank 1 accesses its part, and much other memory before it learns of the put. */
static void computed(void (*access)(void), int racy) {
    enum { MUCH = 1 << 19 };
    static volatile char memory[MUCH];
    lock_all();
    if (!racy) {
        if (rank_ == 1) access();
        barrier();
    }
    if (rank_ == 0) put_at(0), flush(), send(1, 1);
    if (rank_ == 1) {
        if (racy) access();
        for (int i = 0; i < MUCH; i++) memory[i]++;
        receive(0, 1);
    }
    unlock_all();
}
static void load(void) { seen = part[0]; }
static void store(void) { part[0] = 5; }
static void computed_after_load(int racy) { computed(load, racy); }
static void computed_after_store(int racy) { computed(store, racy); }

/* --- complete early, or less than the arguments say ------------------------------------------- */

/* A get of an epoch is complete at its end: it ends before the exposure epoch, which rank 2 ends
 * later. Racy: an order that says nothing of the end. */
static void got_in_epoch(int racy) {
    const int ranks[] = {0, 2}, target = 1;
    MPI_Group world, origins, targets;
    MPI_Comm_group(all, &world);
    MPI_Group_incl(world, 2, ranks, &origins);
    MPI_Group_incl(world, 1, &target, &targets);
    if (rank_ == 1) MPI_Win_post(origins, 0, win), MPI_Win_wait(win);
    if (rank_ == 0) {
        MPI_Win_start(targets, 0, win);
        MPI_Get(got, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (racy) send(2, 1);
        MPI_Win_complete(win);
        if (!racy) send(2, 1);
    }
    if (rank_ == 2) {
        MPI_Win_start(targets, 0, win);
        receive(0, 1);
        put_at(0);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&world), MPI_Group_free(&origins), MPI_Group_free(&targets);
}
/* The owner changes what was got when the exposure epoch has ended. Racy: before. */
static void stored_after_epoch(int racy) {
    const int ranks[] = {0, 1};
    MPI_Group world, origin, target;
    MPI_Comm_group(all, &world);
    MPI_Group_incl(world, 1, ranks, &origin);
    MPI_Group_incl(world, 1, ranks + 1, &target);
    if (rank_ == 1) {
        MPI_Win_post(origin, 0, win);
        if (racy) store();
        MPI_Win_wait(win);
        store();
    }
    if (rank_ == 0) {
        MPI_Win_start(target, 0, win);
        MPI_Get(got, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&world), MPI_Group_free(&origin), MPI_Group_free(&target);
}
/* A message is shorter than the buffer; the get is into the rest. Racy: into its beginning. */
static void short_message(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Get(got + (racy ? 2 : 8), 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
        MPI_Recv(got, 16, MPI_LONG, 1, 1, all, MPI_STATUS_IGNORE);
        flush();
    }
    if (rank_ == 1) MPI_Send(one, 4, MPI_LONG, 0, 1, all);
    unlock_all();
}
static void short_exchange(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Get(got + (racy ? 2 : 8), 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
    if (rank_ < 2) {
        MPI_Sendrecv(one, 4, MPI_LONG, 1 - rank_, 1, got, 16, MPI_LONG, 1 - rank_, 1, all, MPI_STATUS_IGNORE);
    }
    if (rank_ == 0) flush();
    unlock_all();
}
/* A compare-and-swap that fails is an update nevertheless. Right: a get of another element. */
static void swap_against_get(int racy) {
    static const long expected = 7, value = 8;
    lock_all();
    if (rank_ == 0) MPI_Compare_and_swap(&value, &expected, got, MPI_LONG, 1, 0, win), flush();
    if (rank_ == 2) MPI_Get(got, 1, MPI_LONG, 1, racy ? 0 : 1, 1, MPI_LONG, win), flush();
    unlock_all();
}
static void swap_against_sum(int racy) {
    static const long expected = 7, value = 8;
    lock_all();
    if (rank_ == 0) MPI_Compare_and_swap(&value, &expected, got, MPI_LONG, 1, 0, win), flush();
    if (rank_ == 2 && !racy) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win), flush();
    if (rank_ == 2 && racy) MPI_Accumulate(one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win), flush();
    unlock_all();
}

static const struct races_case cases[] = {CASE(probed, LOCAL), CASE(matched, LOCAL), CASE(added, LOCAL), CASE(fetched, LOCAL),
             CASE(put_after_polls, LOCAL), CASE(in_pieces, LOCAL), CASE(computed_after_load, LOCAL),
             CASE(computed_after_store, LOCAL), CASE(got_in_epoch, OPERATIONS), CASE(stored_after_epoch, LOCAL),
             CASE(short_message, LOCAL), CASE(short_exchange, LOCAL), CASE(swap_against_get, OPERATIONS),
             CASE(swap_against_sum, OPERATIONS)};
#include "races_main.h"
