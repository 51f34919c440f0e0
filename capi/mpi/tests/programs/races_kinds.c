/* Programs of three ranks that have a race, and their like that have none, for the conflict checker
 * (TRANSOM_CHECK=1). Without arguments it lists them, as races.c does: `races_kinds NAME WHEN`.
 *
 * The form `during` of each case lacks a synchronization, or one operation is of another kind than
 * in the form `after`. Rank 1 has the memory on which the others operate. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 16 };
static int rank_;
static MPI_Win win;
static long *part;                     /* this rank's part of the window */
static long one[COUNT], result[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void get_at(int element) { MPI_Get(result, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void put(void) { put_at(0); }
static void get(void) { get_at(0); }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }

/* Rank 0 makes `x` and rank 2 makes `y`, with a flush and a barrier between them, or without. */
static void two(void (*x)(void), void (*y)(void), int racy) {
    lock_all();
    if (rank_ == 0) x(), flush();
    if (!racy) barrier();
    if (rank_ == 2) y(), flush();
    unlock_all();
}

/* --- synchronization -------------------------------------------------------------------------- */

static void fences(int racy) {
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    if (rank_ == 0) put();
    if (!racy) MPI_Win_fence(0, win);
    if (rank_ == 2) get();
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}
static void puts_of_one(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush();
        put();
    }
    unlock_all();
}
static void puts_after_local_flush(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        if (racy) MPI_Win_flush_local(1, win);
        else flush();
        get();
    }
    unlock_all();
}
static void epochs_of_one(int racy) {
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        put();
        if (!racy) MPI_Win_unlock(1, win), MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        get();
        MPI_Win_unlock(1, win);
    }
}
static void exclusive(int racy) {
    const int mode = racy ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
    MPI_Win_lock(mode, 1, 0, win);
    if (rank_ == 1) seen = part[0], part[0] = 1;
    else if (rank_ == 0) put();
    else get();
    MPI_Win_unlock(1, win);
}
static void exclusive_operations(int racy) {
    MPI_Win_lock(racy && rank_ == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, racy && rank_ == 0 ? 2 : 1, 0, win);
    if (rank_ == 2) put();
    if (rank_ == 0 && !racy) put();
    MPI_Win_unlock(racy && rank_ == 0 ? 2 : 1, win);
    if (racy && rank_ == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, MPI_MODE_NOCHECK, win), put(), MPI_Win_unlock(1, win);
}
static void relayed(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush();
        send(2);
    } else if (rank_ == 2) {
        receive(0), send(1);
    } else {
        receive(2), seen = part[0];
    }
    unlock_all();
}
static void relayed_get(int racy) {
    lock_all();
    if (rank_ == 0) {
        if (racy) send(1);
        put(), flush();
        if (!racy) send(1);
    } else if (rank_ == 1) {
        receive(0), send(2);
    } else {
        receive(1), get();
    }
    unlock_all();
}
/* A synchronous send ends when its receive has begun. */
static void synchronous(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush(), receive(1);
    if (rank_ == 1 && racy) send(0), seen = part[0];
    else if (rank_ == 1) MPI_Ssend(0, 0, MPI_INT, 0, 1, all), seen = part[0];
    unlock_all();
}
static void synchronous_operations(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush(), receive(2);
    if (rank_ == 2 && racy) send(0), get();
    else if (rank_ == 2) MPI_Ssend(0, 0, MPI_INT, 0, 1, all), get();
    unlock_all();
}
static void synchronous_posted(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        if (racy) MPI_Irecv(0, 0, MPI_INT, 2, 1, all, &q);
        put(), flush();
        if (!racy) MPI_Irecv(0, 0, MPI_INT, 2, 1, all, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    }
    if (rank_ == 2) {
        MPI_Issend(0, 0, MPI_INT, 0, 1, all, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        get();
    }
    unlock_all();
}
/* A synchronous send to another rank orders nothing with rank 0. */
static void synchronous_elsewhere(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    if (rank_ == (racy ? 1 : 0)) receive(2);
    if (rank_ == 2) MPI_Ssend(0, 0, MPI_INT, racy ? 1 : 0, 1, all), get();
    unlock_all();
}
static void set(int element) {
    const long raised = 1;
    MPI_Accumulate(&raised, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_REPLACE, win);
    flush();
}
static void wait_for(int element) {
    const long none = 0;
    long found = 0;
    while (!found) MPI_Fetch_and_op(&none, &found, MPI_LONG, 1, element, MPI_NO_OP, win), flush();
}
static void flag(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush();
        set(1);
        flush();
    }
    if (rank_ == 2) wait_for(1), get();
    unlock_all();
}
static void polled(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush();
        set(1);
        flush();
    }
    if (rank_ == 1) {
        while (!__atomic_load_n(&part[1], __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
        MPI_Win_sync(win);
        seen = part[0];
    }
    unlock_all();
}
static void only_sync(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    if (!racy) barrier();
    if (rank_ == 1) MPI_Win_sync(win), seen = part[0];
    unlock_all();
}
static void tested(int racy) {
    MPI_Request q;
    int done = 0;
    lock_all();
    if (rank_ == 0) {
        MPI_Rget(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q);
        if (racy) seen = result[0];
        while (!done) MPI_Test(&q, &done, MPI_STATUS_IGNORE);
        seen = result[0];
    }
    unlock_all();
}

/* --- atomics ---------------------------------------------------------------------------------- */

static void combine(MPI_Datatype type, int at, MPI_Op op) { MPI_Accumulate(one, 1, type, 1, at, 1, type, op, win); }
static void sum(void) { combine(MPI_LONG, 0, MPI_SUM); }
static void product(void) { combine(MPI_LONG, 0, MPI_PROD); }
static void fetch(void) {
    static long none, found;
    MPI_Fetch_and_op(&none, &found, MPI_LONG, 1, 0, MPI_NO_OP, win);
}
static void sum_of_doubles(void) { combine(MPI_DOUBLE, 0, MPI_SUM); }
static void compare_and_swap(void) {
    static long given, expected, found;
    MPI_Compare_and_swap(&given, &expected, &found, MPI_LONG, 1, 0, win);
}
static void sums_of_ints(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Accumulate(one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win);
    if (rank_ == 2 && racy) MPI_Accumulate(one, 1, MPI_SHORT, 1, 0, 1, MPI_SHORT, MPI_SUM, win);
    if (rank_ == 2 && !racy) MPI_Accumulate(one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win);
    unlock_all();
}
static void two_together(void (*x)(void), void (*y)(void)) { two(x, y, 1); }
static void operations(int racy) { two_together(sum, racy ? product : sum); }
static void types(int racy) { two_together(sum, racy ? sum_of_doubles : sum); }
static void fetched(int racy) { two_together(racy ? put : sum, fetch); }
static void swapped(int racy) { two_together(compare_and_swap, racy ? get : compare_and_swap); }
static void sum_and_get(int racy) { two_together(sum, racy ? get : fetch); }
static void types_of_one(int racy) {
    lock_all();
    if (rank_ == 0) sum(), combine(racy ? MPI_FLOAT : MPI_LONG, 0, MPI_SUM);
    unlock_all();
}
static void derived_sums(int racy) {
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    lock_all();
    if (rank_ == 0) MPI_Accumulate(one, 2, MPI_LONG, 1, 0, 1, pair, MPI_SUM, win);
    if (rank_ == 2) MPI_Accumulate(one, 1, MPI_LONG, 1, racy ? 2 : 1, 1, MPI_LONG, racy ? MPI_MAX : MPI_PROD, win);
    unlock_all();
    MPI_Type_free(&pair);
}
static void take_lock(int element) {
    const long taken = 1, is_free = 0;
    long found = 1;
    while (found) MPI_Compare_and_swap(&taken, &is_free, &found, MPI_LONG, 1, element, win), flush();
}
static void free_lock(int element) {
    const long is_free = 0;
    MPI_Accumulate(&is_free, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_REPLACE, win), flush();
}
static void spin_lock(int racy) {
    lock_all();
    if (rank_ != 1) {
        if (!racy || rank_ == 0) take_lock(1);
        get(), flush();
        put(), flush();
        if (!racy || rank_ == 0) free_lock(1);
    }
    unlock_all();
}
static void tickets(int racy) {
    const long step = 1, none = 0;
    long ticket = 0, now = -1;
    lock_all();
    if (rank_ != 1) {
        MPI_Fetch_and_op(&step, &ticket, MPI_LONG, 1, 1, MPI_SUM, win), flush();
        while (!racy && now != ticket) MPI_Fetch_and_op(&none, &now, MPI_LONG, 1, 2, MPI_NO_OP, win), flush();
        get(), flush();
        put(), flush();
        MPI_Accumulate(&step, 1, MPI_LONG, 1, 2, 1, MPI_LONG, MPI_SUM, win), flush();
    }
    unlock_all();
}

/* --- memory ----------------------------------------------------------------------------------- */

static void gaps(int racy) {
    MPI_Datatype pair;
    MPI_Type_vector(4, 1, 2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 4, MPI_LONG, 1, 0, 1, pair, win);
    if (rank_ == 2) MPI_Put(one, 1, MPI_LONG, 1, racy ? 6 : 7, 1, MPI_LONG, win);
    unlock_all();
    MPI_Type_free(&pair);
}
static void filled_gaps(int racy) {
    MPI_Datatype pair;
    MPI_Type_vector(4, 1, 2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    lock_all();
    if (rank_ == 0) {
        MPI_Get(result, 1, pair, 1, 0, 4, MPI_LONG, win);
        seen = result[racy ? 2 : 1];
    }
    unlock_all();
    MPI_Type_free(&pair);
}
static void to_self(int racy) {
    lock_all();
    if (rank_ == 1) {
        put();
        if (!racy) flush();
        seen = part[0];
    }
    unlock_all();
}
static void from_self(int racy) {
    lock_all();
    if (rank_ == 1) {
        MPI_Get(part + 1, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (!racy) flush();
        part[0] = 4;
    }
    unlock_all();
}
static void copied(int racy) {
    long copy[2];
    void *(*volatile by)(void *, const void *, size_t) = memcpy;
    lock_all();
    if (rank_ == 0) {
        MPI_Get(result, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
        if (!racy) flush();
        by(copy, result, sizeof copy);
    }
    unlock_all();
}

/* A window over memory that another one has too. */
static void overlapping(int racy) {
    MPI_Win other;
    MPI_Win_create(part + 1, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &other);
    lock_all();
    MPI_Win_lock_all(0, other);
    if (rank_ == 0) put_at(2);
    if (rank_ == 2) MPI_Put(one, 1, MPI_LONG, 1, racy ? 1 : 2, 1, MPI_LONG, other);
    MPI_Win_unlock_all(other);
    unlock_all();
    MPI_Win_free(&other);
}
static void overlapping_get(int racy) {
    MPI_Win other;
    MPI_Win_create_dynamic(MPI_INFO_NULL, all, &other);
    MPI_Aint base;
    if (rank_ == 1) MPI_Win_attach(other, part, COUNT * sizeof(long)), MPI_Get_address(part, &base);
    MPI_Bcast(&base, 1, MPI_AINT, 1, all);
    lock_all();
    MPI_Win_lock_all(0, other);
    if (rank_ == 0) put(), flush();
    if (!racy) barrier();
    if (rank_ == 2) MPI_Get(result, 1, MPI_LONG, 1, base, 1, MPI_LONG, other);
    MPI_Win_unlock_all(other);
    unlock_all();
    barrier();
    if (rank_ == 1) MPI_Win_detach(other, part);
    MPI_Win_free(&other);
}
static void overlapping_load(int racy) {
    MPI_Win other;
    MPI_Win_create(part, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &other);
    MPI_Win_lock_all(0, other);
    if (rank_ == 0) MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, other), MPI_Win_flush(1, other);
    if (!racy) barrier();
    if (rank_ == 1) seen = part[0];
    MPI_Win_unlock_all(other);
    MPI_Win_free(&other);
}

#include "races_collective.h"

static const struct races_case cases[] = {{"fence", fences, 1},
             {"one_origin", puts_of_one, 1},
             {"local_flush", puts_after_local_flush, 1},
             {"epochs", epochs_of_one, 1},
             {"exclusive", exclusive, 1},
             {"exclusive_elsewhere", exclusive_operations, 1},
             {"relayed", relayed, 0},
             {"relayed_get", relayed_get, 1},
             {"ssend", synchronous, 0},
             {"ssend_get", synchronous_operations, 1},
             {"ssend_posted", synchronous_posted, 1},
             {"ssend_elsewhere", synchronous_elsewhere, 1},
             {"flag", flag, 1},
             {"polled", polled, 0},
             {"only_sync", only_sync, 0},
             {"tested", tested, 0},
             {"ints", sums_of_ints, 1},
             {"operations", operations, 1},
             {"types", types, 1},
             {"fetched", fetched, 1},
             {"swapped", swapped, 1},
             {"sum_and_get", sum_and_get, 1},
             {"types_of_one", types_of_one, 1},
             {"derived_sums", derived_sums, 1},
             {"spin_lock", spin_lock, 1},
             {"tickets", tickets, 1},
             {"gaps", gaps, 1},
             {"filled_gaps", filled_gaps, 0},
             {"to_self", to_self, 0},
             {"from_self", from_self, 0},
             {"copied", copied, 0},
             {"overlapping", overlapping, 1},
             {"overlapping_get", overlapping_get, 1},
             {"overlapping_load", overlapping_load, 0},
             COLLECTIVE_CASES};
#include "races_main.h"
