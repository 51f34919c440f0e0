/* Programs that synchronize through single words, by atomics of MPI and of the language, and
 * programs whose window memory is the buffer of a call of the host or of the C library, for three
 * ranks. In the form `during` a call is missing, comes too early, or orders other ranks than those
 * that access. Rank 1 has most of the memory on which the others operate. */
#define _GNU_SOURCE
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 32 };
static int rank_;
static MPI_Win win;
static long *part;                     /* this rank's part of the window */
static long one[COUNT], result[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void get_at(int element) { MPI_Get(result, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
/* Another rank has probably gone on, which nothing says. */
static void pause_long(void) { usleep(30000); }
static void set(int element, long value) {
    MPI_Accumulate(&value, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_REPLACE, win), flush();
}
static long fetch(int element) {
    long found = 0;
    MPI_Fetch_and_op(0, &found, MPI_LONG, 1, element, MPI_NO_OP, win), flush();
    return found;
}
static long now(int element) { return __atomic_load_n(&part[element], __ATOMIC_ACQUIRE); }
static void store(int element, long value) { __atomic_store_n(&part[element], value, __ATOMIC_RELEASE); }

/* --- words ------------------------------------------------------------------------------------ */

/* Two flags of 4 bytes side by side, of ranks 0 and 2. */
static int *ints;
static MPI_Win flags;
static void begin_flags(void) {
    MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, all, &ints, &flags);
    memset(ints, 0, 4 * sizeof(int));
    barrier();
    lock_all(), MPI_Win_lock_all(0, flags);
}
static void end_flags(void) {
    MPI_Win_unlock_all(flags), unlock_all();
    MPI_Win_free(&flags);
}
static void raise_flag(int flag) {
    const int raised = 1;
    MPI_Accumulate(&raised, 1, MPI_INT, 1, flag, 1, MPI_INT, MPI_REPLACE, flags), MPI_Win_flush(1, flags);
}
static void flags_polled(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(0);
    if (rank_ == 2) pause_long(), raise_flag(1);
    if (rank_ == 1) {
        while (!__atomic_load_n(&ints[racy], __ATOMIC_ACQUIRE)) MPI_Win_sync(flags);
        seen = part[0];
    }
    end_flags();
}
static void flags_fetched(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(0);
    if (rank_ == 1) pause_long(), raise_flag(1);
    for (int found = 0; rank_ == 2 && !found;) {
        MPI_Fetch_and_op(0, &found, MPI_INT, 1, racy, MPI_NO_OP, flags), MPI_Win_flush(1, flags);
    }
    if (rank_ == 2) get_at(0), flush();
    end_flags();
}
/* A flag of 8 bytes, of which rank 1 polls a half. */
static void half_polled(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), flush(), set(1, -1);
    if (rank_ == 2) pause_long(), set(2, -1);
    if (rank_ == 1) {
        while (!__atomic_load_n((int *)&part[racy ? 2 : 1] + 1, __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
        seen = part[0];
    }
    unlock_all();
}
/* The flags of 4 bytes, which rank 1 polls as one word. */
static void flags_as_word(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(1);
    if (rank_ == 2) pause_long(), raise_flag(2);
    if (rank_ == 1) {
        while (!__atomic_load_n((long *)&ints[racy ? 2 : 0], __ATOMIC_ACQUIRE)) MPI_Win_sync(flags);
        seen = part[0];
    }
    end_flags();
}

/* --- window memory as the buffer of a call ---------------------------------------------------- */

/* A message that comes after a get of the memory into which it is received. */
static void received_after_get(int racy) {
    lock_all();
    if (rank_ == 0 && !racy) get_at(0), flush();
    if (rank_ == 0) MPI_Send(one, 1, MPI_LONG, 1, 1, all);
    if (rank_ == 0 && racy) get_at(0), flush();
    if (rank_ == 1) MPI_Recv(part, 1, MPI_LONG, 0, 1, all, MPI_STATUS_IGNORE);
    unlock_all();
}
static void broadcast_after_get(int racy) {
    lock_all();
    if (rank_ == 0 && !racy) get_at(0), flush();
    MPI_Bcast(rank_ == 1 ? part : one, 1, MPI_LONG, 0, all);
    if (rank_ == 0 && racy) get_at(0), flush();
    unlock_all();
}
/* A call that reads the memory before it overwrites it. */
static void reduced_in_place(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), flush();
    if (!racy) barrier();
    MPI_Allreduce(MPI_IN_PLACE, rank_ == 1 ? part : one, 1, MPI_LONG, MPI_SUM, all);
    unlock_all();
}
static void exchanged_in_place(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), flush();
    if (!racy) barrier();
    if (rank_ != 2) {
        MPI_Sendrecv_replace(rank_ ? part : result, 1, MPI_LONG, 1 - rank_, 1, 1 - rank_, 1, all, MPI_STATUS_IGNORE);
    }
    unlock_all();
}

/* Rank 1's part of a shared window. */
static MPI_Win shared;
static long *theirs;
static void begin_shared(void) {
    MPI_Aint size;
    int unit;
    long *own;
    MPI_Win_allocate_shared(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &own, &shared);
    MPI_Win_shared_query(shared, 1, &size, &unit, &theirs);
    if (rank_ == 1) memset(own, 0, 4 * sizeof(long));
    MPI_Win_lock_all(0, shared);
    barrier();
}
static void end_shared(void) {
    MPI_Win_unlock_all(shared);
    barrier();
    MPI_Win_free(&shared);
}
static void meet(int racy) {
    MPI_Win_sync(shared);
    if (!racy) barrier();
    MPI_Win_sync(shared);
}
static void cleared_by_owner(int racy) {
    begin_shared();
    if (rank_ == 0) theirs[0] = 5;
    meet(racy);
    /* The compiler does not know the length, and so calls the C library's function. Rank 1 comes
     * last, and does not wait then: ThreadSanitizer forgets what was long ago. */
    volatile size_t length = 2 * sizeof(long);
    if (rank_ == 1) pause_long(), memset(theirs, 0, length);
    end_shared();
}
static void copied_by_owner(int racy) {
    begin_shared();
    if (rank_ == 1) memcpy(result, theirs, 2 * sizeof(long)), seen = result[1];
    meet(racy);
    if (rank_ == 0) pause_long(), theirs[1] = 5;
    end_shared();
}
static void received_by_owner(int racy) {
    begin_shared();
    if (rank_ == 0) MPI_Send(one, 1, MPI_LONG, 1, 1, all);
    if (rank_ == 1) MPI_Recv(theirs, 1, MPI_LONG, 0, 1, all, MPI_STATUS_IGNORE);
    meet(racy);
    if (rank_ == 2) pause_long(), seen = theirs[0];
    end_shared();
}
static void received_by_other(int racy) {
    begin_shared();
    if (rank_ == 1) MPI_Send(one, 1, MPI_LONG, 0, 1, all);
    if (rank_ == 0) MPI_Recv(theirs, 1, MPI_LONG, 1, 1, all, MPI_STATUS_IGNORE);
    meet(racy);
    if (rank_ == 2) pause_long(), seen = theirs[0];
    end_shared();
}
/* The call orders the rank's load before it; racy: after it. */
static void reduced_by_owner(int racy) {
    begin_shared();
    if (rank_ == 2 && !racy) seen = theirs[0];
    MPI_Allreduce(one, rank_ == 1 ? theirs : result, 1, MPI_LONG, MPI_SUM, all);
    if (rank_ == 2 && racy) seen = theirs[0];
    end_shared();
}

/* --- atomics of the language and operations --------------------------------------------------- */

static void add(int element) {
    static const long step = 1;
    MPI_Accumulate(&step, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_SUM, win), flush();
}
/* A counter to which its owner adds too. */
static void added_by_both(int racy) {
    lock_all();
    if (rank_ == 0) add(0);
    if (!racy) barrier();
    if (rank_ == 1) pause_long(), __atomic_fetch_add(&part[0], 1, __ATOMIC_ACQ_REL);
    unlock_all();
}
static void added_first(int racy) {
    lock_all();
    if (rank_ == 1) __atomic_fetch_add(&part[0], 1, __ATOMIC_ACQ_REL);
    if (!racy) barrier();
    if (rank_ == 0) pause_long(), add(0);
    unlock_all();
}
/* An atomic store, while others get the word; racy: while they put it. */
static void stored_while_got(int racy) {
    lock_all();
    if (rank_ == 0 && racy) put_at(0), flush();
    if (rank_ == 0 && !racy) get_at(0), flush();
    if (rank_ == 1) pause_long(), store(0, 3);
    unlock_all();
}
/* Loads of a word that others update; racy: a change. */
static void polled_while_added(int racy) {
    lock_all();
    if (rank_ != 1) add(0), put_at(1 + rank_), flush();
    for (int i = 0; rank_ == 1 && i < 3; i++) seen = now(0) + now(1) + now(3), pause_long();
    if (rank_ == 1 && racy) __atomic_fetch_or(&part[4], 1, __ATOMIC_RELAXED);
    if (rank_ == 0 && racy) add(4);
    unlock_all();
}
/* A flag that its owner lowers, for which rank 0 polls; racy: the owner does not wait for it. */
static void lowered(int racy) {
    lock_all();
    for (long i = 1; rank_ != 2 && i < 4; i++) {
        if (rank_ == 0) set(1, i);
        while (rank_ == 0 && !racy && fetch(1)) MPI_Win_sync(win);
        while (rank_ == 1 && !racy && !now(1)) MPI_Win_sync(win);
        if (rank_ == 1) store(1, 0);
    }
    unlock_all();
}
static void lowered_put(int racy) {
    const long raised = 1;
    lock_all();
    for (long i = 1; rank_ != 2 && i < 4; i++) {
        if (rank_ == 0) MPI_Put(&raised, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win), flush();
        while (rank_ == 0 && !racy && fetch(1)) MPI_Win_sync(win);
        while (rank_ == 1 && !racy && !now(1)) MPI_Win_sync(win);
        if (rank_ == 1) store(1, 0);
    }
    unlock_all();
}
/* The owner polls by an operation, and rank 0 by gets. */
static void lowered_otherwise(int racy) {
    lock_all();
    for (long i = 1; rank_ != 2 && i < 4; i++) {
        if (rank_ == 0) set(1, i);
        for (result[0] = i; rank_ == 0 && !racy && result[0];) get_at(1), flush();
        while (rank_ == 1 && !racy && !fetch(1)) MPI_Win_sync(win);
        if (rank_ == 1) store(1, 0);
    }
    unlock_all();
}
/* A flag that its owner lowers by a compare-and-swap. */
static void swapped_back(int racy) {
    lock_all();
    for (long i = 0; rank_ != 2 && i < 3; i++) {
        long raised = 1;
        if (rank_ == 0) set(1, 1);
        while (rank_ == 0 && !racy && fetch(1)) MPI_Win_sync(win);
        while (rank_ == 1 && !racy
               && !__atomic_compare_exchange_n(&part[1], &raised, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            raised = 1;
        }
        if (rank_ == 1 && racy) __atomic_exchange_n(&part[1], 0, __ATOMIC_ACQ_REL);
    }
    unlock_all();
}
/* Rank 0 reads the flag itself after it was raised, without atomics. */
static void got_after_store(int racy) {
    lock_all();
    if (rank_ == 1) store(1, 5);
    while (rank_ == 0 && !racy && !fetch(1)) MPI_Win_sync(win);
    if (rank_ == 0 && !racy) get_at(1), flush();
    if (rank_ == 0) put_at(1), flush();
    unlock_all();
}
/* In a shared window: an atomic store of rank 0, then an access of another rank. */
static void atomic_then_load(int racy) {
    begin_shared();
    if (rank_ == 0) __atomic_store_n(&theirs[0], 5, __ATOMIC_RELEASE);
    meet(racy);
    if (rank_ == 1) pause_long(), seen = theirs[0];
    end_shared();
}
static void atomic_then_store(int racy) {
    begin_shared();
    if (rank_ == 0) __atomic_store_n(&theirs[0], 5, __ATOMIC_RELEASE);
    meet(racy);
    if (rank_ == 2) pause_long(), theirs[0] = 6;
    end_shared();
}
static void atomic_then_put(int racy) {
    begin_shared();
    if (rank_ == 0) __atomic_store_n(&theirs[0], 5, __ATOMIC_RELEASE);
    meet(racy);
    if (rank_ == 2) pause_long(), MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, shared), MPI_Win_flush(1, shared);
    end_shared();
}
static void store_then_atomic(int racy) {
    begin_shared();
    if (rank_ == 0) theirs[0] = 5;
    meet(racy);
    if (rank_ == 2) pause_long(), seen = __atomic_load_n(&theirs[0], __ATOMIC_ACQUIRE);
    end_shared();
}
/* The flag itself is then loaded, and stored, without atomics. */
static void flag_then_plain(int racy) {
    begin_shared();
    if (rank_ == 1) __atomic_store_n(&theirs[0], 5, __ATOMIC_RELEASE);
    while (rank_ == 0 && !racy && !__atomic_load_n(&theirs[0], __ATOMIC_ACQUIRE)) MPI_Win_sync(shared);
    if (rank_ == 0) seen = theirs[0], theirs[0] = 6;
    end_shared();
}
/* The last rank to count itself uses the counter without atomics; racy: each rank does. */
static void counted(int racy) {
    begin_shared();
    const long before = __atomic_fetch_add(&theirs[0], 1, __ATOMIC_ACQ_REL);
    if (racy || before == 2) theirs[0] = 0;
    end_shared();
}

/* --- what orders nothing ---------------------------------------------------------------------- */

/* A long accumulate, which has the flag or not. */
static void long_accumulate(int racy) {
    static const long many[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    lock_all();
    if (rank_ == 0) {
        put_at(0), flush();
        MPI_Accumulate(many, 10, MPI_LONG, 1, 20, 10, MPI_LONG, MPI_SUM, win), flush();
    }
    if (rank_ == 2) pause_long(), set(2, 1);
    if (rank_ == 1) {
        while (!now(racy ? 2 : 25)) MPI_Win_sync(win);
        seen = part[0];
    }
    unlock_all();
}
/* A compare-and-swap that fails, by MPI and by the language. */
static void failed_swap(int racy) {
    static const long raised = 1;
    const long expected = racy ? 7 : 0;
    lock_all();
    if (rank_ == 0) {
        put_at(0), flush();
        MPI_Compare_and_swap(&raised, &expected, result, MPI_LONG, 1, 1, win), flush();
    }
    if (rank_ == 1 && racy) pause_long(), set(1, 1);
    while (rank_ == 2 && !fetch(1)) pause_long();
    if (rank_ == 2) get_at(0), flush();
    unlock_all();
}
static void failed_exchange(int racy) {
    long expected = racy ? 7 : 0;
    lock_all();
    if (rank_ == 1) {
        MPI_Put(one, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
        __atomic_compare_exchange_n(&part[1], &expected, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    if (rank_ == 0 && racy) pause_long(), set(1, 1);
    while (rank_ == 2 && !fetch(1)) pause_long();
    if (rank_ == 2) seen = part[0];
    unlock_all();
}

/* --- the end of the program ------------------------------------------------------------------- */

/* The owner learns of the put in MPI_Finalize. */
static int is_left;
static void never_freed(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), flush();
    if (!racy) barrier();
    if (rank_ == 1) seen = part[0];
    unlock_all();
    is_left = 1;
}
#define IS_LEFT is_left

static const struct races_case cases[] = {
    {"flags_polled", flags_polled, 0},
    {"flags_fetched", flags_fetched, 1},
    {"half_polled", half_polled, 0},
    {"flags_as_word", flags_as_word, 0},
    {"received_after_get", received_after_get, 0},
    {"broadcast_after_get", broadcast_after_get, 0},
    {"reduced_in_place", reduced_in_place, 0},
    {"exchanged_in_place", exchanged_in_place, 0},
    {"cleared_by_owner", cleared_by_owner, 0},
    {"copied_by_owner", copied_by_owner, 0},
    {"received_by_owner", received_by_owner, 0},
    {"received_by_other", received_by_other, 0},
    {"reduced_by_owner", reduced_by_owner, 0},
    {"added_by_both", added_by_both, 0},
    {"added_first", added_first, 0},
    {"stored_while_got", stored_while_got, 0},
    {"polled_while_added", polled_while_added, 0},
    {"lowered", lowered, 0},
    {"lowered_put", lowered_put, 0},
    {"lowered_otherwise", lowered_otherwise, 0},
    {"swapped_back", swapped_back, 0},
    {"got_after_store", got_after_store, 0},
    {"atomic_then_load", atomic_then_load, 0},
    {"atomic_then_store", atomic_then_store, 0},
    {"atomic_then_put", atomic_then_put, 0},
    {"store_then_atomic", store_then_atomic, 0},
    {"flag_then_plain", flag_then_plain, 0},
    {"counted", counted, 0},
    {"long_accumulate", long_accumulate, 0},
    {"failed_swap", failed_swap, 1},
    {"failed_exchange", failed_exchange, 0},
    {"never_freed", never_freed, 0},
};
#include "races_main.h"
