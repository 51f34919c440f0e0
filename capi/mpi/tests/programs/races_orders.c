/* Further programs of the kind of races_kinds.c, for three ranks. In the form `during` a call is
 * missing, comes too early, or orders other ranks than those that access. Rank 1 has the memory on
 * which the others operate. */
#include "races_case.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 16 };
static int rank_;
static MPI_Win win;
static long *part;                                 /* this rank's part of the window */
static long one[COUNT], result[COUNT], two[COUNT]; /* buffers */
static long token[3], tokens[3];
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void get_at(int element) { MPI_Get(result, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void put(void) { put_at(0); }
static void get(void) { get_at(0); }
static void load(void) { seen = part[0]; }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void complete(MPI_Request q) { MPI_Wait(&q, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }

/* Rank 0 puts, and completes the put; `order` then lets rank `reader` read it. */
static void through(void (*order)(int racy), int reader, int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    order(racy);
    if (rank_ == reader && reader == 1) load();
    if (rank_ == reader && reader != 1) get(), flush();
    unlock_all();
}
/* The same, where a racy program calls `order` before the put. */
static void around(void (*order)(void), int reader, int racy) {
    lock_all();
    if (racy) order();
    if (rank_ == 0) put(), flush();
    if (!racy) order();
    if (rank_ == reader && reader == 1) load();
    if (rank_ == reader && reader != 1) get(), flush();
    unlock_all();
}

/* --- collective calls ------------------------------------------------------------------------- */

static void bcast_from(int racy) { MPI_Bcast(token, 1, MPI_LONG, racy ? 1 : 0, all); }
static void bcast(int racy) { through(bcast_from, 1, racy); }
static void reduce_to(int racy) { MPI_Reduce(token, tokens, 1, MPI_LONG, MPI_SUM, racy ? 0 : 1, all); }
static void reduce(int racy) { through(reduce_to, 1, racy); }
static void gather_to(int racy) { MPI_Gather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, racy ? 1 : 2, all); }
static void gather(int racy) { through(gather_to, 2, racy); }
static void scatter_from(int racy) { MPI_Scatter(tokens, 1, MPI_LONG, token, 1, MPI_LONG, racy ? 1 : 0, all); }
static void scatter(int racy) { through(scatter_from, 2, racy); }
static void igather_to(int racy) {
    MPI_Request q;
    MPI_Igather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, racy ? 1 : 2, all, &q);
    complete(q);
}
static void igather(int racy) { through(igather_to, 2, racy); }
/* The split orders all ranks before the put. */
static void scan(int racy) {
    MPI_Comm turned;
    MPI_Comm_split(all, 0, racy ? -rank_ : rank_, &turned);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Scan(token, tokens, 1, MPI_LONG, MPI_SUM, turned);
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Comm_free(&turned);
}
static void exscan(int racy) {
    MPI_Comm turned;
    MPI_Comm_split(all, 0, racy ? -rank_ : rank_, &turned);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Exscan(token, tokens, 1, MPI_LONG, MPI_SUM, turned);
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Comm_free(&turned);
}
static void allreduce_of_all(void) { MPI_Allreduce(token, tokens, 1, MPI_LONG, MPI_SUM, all); }
static void allreduce(int racy) { around(allreduce_of_all, 2, racy); }
static void iallreduce_of_all(void) {
    MPI_Request q;
    int done = 0;
    MPI_Iallreduce(token, tokens, 1, MPI_LONG, MPI_SUM, all, &q);
    while (!done) MPI_Test(&q, &done, MPI_STATUS_IGNORE);
}
static void iallreduce(int racy) { around(iallreduce_of_all, 1, racy); }
static void alltoallw_of_all(void) {
    static const int counts[3] = {1, 1, 1}, places[3] = {0, sizeof(long), 2 * sizeof(long)};
    const MPI_Datatype kinds[3] = {MPI_LONG, MPI_LONG, MPI_LONG};
    MPI_Alltoallw(token, counts, places, kinds, tokens, counts, places, kinds, all);
}
static void alltoallw(int racy) { around(alltoallw_of_all, 2, racy); }
/* A rank enters the barrier, and puts before it waits. */
static void ibarrier(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0 && !racy) put(), flush();
    MPI_Ibarrier(all, &q);
    if (rank_ == 0 && racy) put(), flush();
    complete(q);
    if (rank_ == 2) get(), flush();
    unlock_all();
}
/* A line of ranks: rank 0 and rank 2 are no neighbors. */
static MPI_Comm line_;
static MPI_Comm line(void) {
    MPI_Comm cart;
    const int dims[1] = {3}, periods[1] = {0};
    MPI_Cart_create(all, 1, dims, periods, 0, &cart);
    return cart;
}
static void neighbors(void (*call)(void), int racy) {
    line_ = line();
    lock_all();
    if (rank_ == 0) put(), flush();
    call();
    if (rank_ == (racy ? 2 : 1)) get(), flush();
    unlock_all();
    MPI_Comm_free(&line_);
}
static void alltoall_of_line(void) { MPI_Neighbor_alltoall(token, 1, MPI_LONG, tokens, 1, MPI_LONG, line_); }
static void neighbor(int racy) { neighbors(alltoall_of_line, racy); }
static void iallgather_of_line(void) {
    MPI_Request q;
    MPI_Ineighbor_allgather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, line_, &q);
    complete(q);
}
static void ineighbor(int racy) { neighbors(iallgather_of_line, racy); }
/* The buffer of a call that has begun. */
static void ineighbor_buffer(int racy) {
    MPI_Request q;
    line_ = line();
    lock_all();
    MPI_Ineighbor_allgather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, line_, &q);
    if (!racy) complete(q);
    if (rank_ == 0) tokens[1] = 4;
    if (racy) complete(q);
    unlock_all();
    MPI_Comm_free(&line_);
}
/* The same line as a graph. */
static void graph(int racy) {
    MPI_Comm some;
    const int index[3] = {1, 3, 4}, edges[4] = {1, 0, 2, 1};
    MPI_Graph_create(all, 3, index, edges, 0, &some);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Neighbor_allgather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, some);
    if (rank_ == (racy ? 2 : 1)) get(), flush();
    unlock_all();
    MPI_Comm_free(&some);
}
/* Edges in one direction only, from rank 0 to rank 2; racy: from rank 2 to rank 0. */
static void directed(int racy) {
    MPI_Comm graph;
    const int from = racy ? 2 : 0, to = racy ? 0 : 2;
    MPI_Dist_graph_create_adjacent(all, rank_ == to, &from, MPI_UNWEIGHTED, rank_ == from, &to, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Neighbor_allgather(token, 1, MPI_LONG, tokens, 1, MPI_LONG, graph);
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Comm_free(&graph);
}
/* The barrier of some ranks only. */
static void subset(int racy) {
    MPI_Comm some;
    MPI_Comm_split(all, racy ? rank_ == 2 : rank_ == 1, -rank_, &some);
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Barrier(some);
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Comm_free(&some);
}
/* A window of some ranks, in another order. */
static void window_of_subset(int racy) {
    MPI_Comm some;
    MPI_Win small;
    long *own;
    MPI_Comm_split(all, 0, -rank_, &some);
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, some, &own, &small);
    MPI_Win_fence(0, small);
    if (rank_ == 0) MPI_Put(one, 2, MPI_LONG, 2, 0, 2, MPI_LONG, small);
    if (!racy) MPI_Win_fence(0, small);
    if (rank_ == 2) MPI_Put(one, 2, MPI_LONG, 2, 1, 2, MPI_LONG, small);
    MPI_Win_fence(0, small);
    MPI_Win_free(&small);
    MPI_Comm_free(&some);
}
#if MPI_VERSION >= 4
static void persistent_barrier(int racy) {
    MPI_Request q;
    MPI_Barrier_init(all, MPI_INFO_NULL, &q);
    lock_all();
    if (rank_ == 0 && !racy) put(), flush();
    MPI_Start(&q);
    if (rank_ == 0 && racy) put(), flush();
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Request_free(&q);
}
static void partitioned(int racy) {
    MPI_Request q = MPI_REQUEST_NULL;
    if (rank_ == 0) MPI_Psend_init(token, 1, 1, MPI_LONG, 2, 1, all, MPI_INFO_NULL, &q);
    if (rank_ == 2) MPI_Precv_init(token, 1, 1, MPI_LONG, 0, 1, all, MPI_INFO_NULL, &q);
    lock_all();
    if (rank_ != 1) MPI_Start(&q);
    if (rank_ == 0 && racy) MPI_Pready(0, q);
    if (rank_ == 0) put();
    if (rank_ == 0 && !racy) flush(), MPI_Pready(0, q);
    if (rank_ != 1) MPI_Wait(&q, MPI_STATUS_IGNORE);
    if (rank_ == 2) get(), flush();
    unlock_all();
    if (rank_ != 1) MPI_Request_free(&q);
}
#endif

/* --- messages --------------------------------------------------------------------------------- */

static void from_any(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    if (rank_ == (racy ? 2 : 0)) send(1);
    if (rank_ == 1) receive(MPI_ANY_SOURCE), load();
    unlock_all();
}
/* Of two receives under way, which are complete in any order, the one of rank 0 counts. */
static void by_testany(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1);
    if (rank_ == 2) send(1);
    if (rank_ == 1) {
        int index = -1, done = 0;
        for (int i = 0; i < 2; i++) MPI_Irecv(0, 0, MPI_INT, 2 * i, 1, all, &q[i]);
        if (racy) complete(q[1]), load(), complete(q[0]);
        for (int ended = 0; !racy && ended < 2; ended += done) {
            MPI_Testany(2, q, &index, &done, MPI_STATUS_IGNORE);
            if (done && index == 0) load();
        }
    }
    unlock_all();
}
static void by_waitsome(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1);
    if (rank_ == 2) send(1);
    if (rank_ == 1) {
        int count, ended = 0, indices[2];
        for (int i = 0; i < 2; i++) MPI_Irecv(0, 0, MPI_INT, 2 * i, 1, all, &q[i]);
        if (racy) load();
        while (ended < 2) MPI_Waitsome(2, q, &count, indices, MPI_STATUSES_IGNORE), ended += count;
        load();
    }
    unlock_all();
}
/* A receive and a put complete in one call. */
static void by_waitall(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(2);
    if (rank_ == 2) {
        MPI_Irecv(0, 0, MPI_INT, 0, 1, all, &q[0]);
        MPI_Rput(one, 1, MPI_LONG, 1, 3, 1, MPI_LONG, win, &q[1]);
        if (racy) get(), flush();
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        get(), flush();
    }
    unlock_all();
}
static void by_status(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put(), flush(), send(1);
    if (rank_ == 1) {
        int done = 0;
        MPI_Irecv(0, 0, MPI_INT, 0, 1, all, &q);
        while (!done && !racy) MPI_Request_get_status(q, &done, MPI_STATUS_IGNORE);
        load();
        complete(q);
    }
    unlock_all();
}
static void replaced(void) {
    if (rank_ == 2) return;
    MPI_Sendrecv_replace(token, 1, MPI_LONG, 1 - rank_, 1, 1 - rank_, 1, all, MPI_STATUS_IGNORE);
}
static void sendrecv_replace(int racy) { around(replaced, 1, racy); }
static void buffered(void) {
    static char space[4096];
    int size;
    void *back;
    if (rank_ == 0) {
        MPI_Buffer_attach(space, sizeof space);
        MPI_Bsend(token, 1, MPI_LONG, 1, 1, all);
        MPI_Buffer_detach(&back, &size);
    }
    if (rank_ == 1) MPI_Recv(token, 1, MPI_LONG, 0, MPI_ANY_TAG, all, MPI_STATUS_IGNORE);
}
static void bsend(int racy) { around(buffered, 1, racy); }
/* Messages on a communicator with the ranks in the other order. */
static void turned(int racy) {
    MPI_Comm back;
    MPI_Comm_split(all, 0, -rank_, &back);
    lock_all();
    if (rank_ == 0) put(), flush();
    if (rank_ == (racy ? 1 : 0)) MPI_Send(0, 0, MPI_INT, 0, 1, back);
    if (rank_ == 2) MPI_Recv(0, 0, MPI_INT, racy ? 1 : 2, 1, back, MPI_STATUS_IGNORE), get(), flush();
    unlock_all();
    MPI_Comm_free(&back);
}
static void to_self(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    if (racy) MPI_Barrier(MPI_COMM_SELF);
    else barrier();
    if (rank_ == 2) get(), flush();
    unlock_all();
}
/* A store of the memory's rank comes first. */
static void stored(int racy) {
    lock_all();
    if (rank_ == 1) part[0] = 5;
    if (rank_ == (racy ? 2 : 1)) send(0);
    if (rank_ == 0) receive(racy ? 2 : 1), get(), flush();
    unlock_all();
}
static void stored_late(int racy) {
    lock_all();
    if (rank_ == 1 && !racy) part[0] = 5;
    barrier();
    if (rank_ == 1 && racy) part[0] = 5;
    if (rank_ == 0) get(), flush();
    unlock_all();
}
/* The answer to a message, without which the origin would not wait for the load. */
static void answered(int racy) {
    lock_all();
    if (rank_ == 1) {
        if (racy) send(0);
        load();
        if (!racy) send(0);
    }
    if (rank_ == 0) receive(1), put(), flush();
    unlock_all();
}

/* --- synchronization of windows --------------------------------------------------------------- */

static MPI_Group group(int count, const int *members) {
    MPI_Group of_all, some;
    MPI_Comm_group(all, &of_all);
    MPI_Group_incl(of_all, count, members, &some);
    MPI_Group_free(&of_all);
    return some;
}
static void two_origins(int racy) {
    const int others[2] = {0, 2}, target = 1;
    MPI_Group origins = group(2, others), targets = group(1, &target);
    if (rank_ == 1) MPI_Win_post(origins, 0, win), MPI_Win_wait(win);
    else MPI_Win_start(targets, 0, win), put_at(racy ? 0 : rank_), MPI_Win_complete(win);
    MPI_Group_free(&origins), MPI_Group_free(&targets);
}
static void tested(int racy) {
    const int others[2] = {0, 2}, target = 1;
    MPI_Group origins = group(2, others), targets = group(1, &target);
    if (rank_ == 1) {
        int done = 0;
        MPI_Win_post(origins, MPI_MODE_NOSTORE, win);
        if (racy) load();
        while (!done) MPI_Win_test(win, &done);
        load();
    } else {
        MPI_Win_start(targets, 0, win);
        if (rank_ == 0) put();
        MPI_Win_complete(win);
    }
    MPI_Group_free(&origins), MPI_Group_free(&targets);
}
/* Rank 0 to rank 1, then rank 1 to rank 2; racy: one epoch for both. */
static void chain(int racy) {
    const int ends[3] = {0, 2, 1};
    MPI_Group first = group(racy ? 2 : 1, ends), last = group(1, ends + 1), target = group(1, ends + 2);
    if (rank_ == 0) MPI_Win_start(target, 0, win), put(), MPI_Win_complete(win);
    if (rank_ == 1) MPI_Win_post(first, 0, win), MPI_Win_wait(win);
    if (rank_ == 1 && !racy) MPI_Win_post(last, 0, win), MPI_Win_wait(win);
    if (rank_ == 2) MPI_Win_start(target, 0, win), get(), MPI_Win_complete(win);
    MPI_Group_free(&first), MPI_Group_free(&last), MPI_Group_free(&target);
}
/* The target is told of the end of the access epoch before its own call. */
static void before_wait(int racy) {
    const int origin = 0, target = 1;
    MPI_Group origins = group(1, &origin), targets = group(1, &target);
    if (rank_ == 0) MPI_Win_start(targets, 0, win), put(), MPI_Win_complete(win), send(1);
    if (rank_ == 1) {
        MPI_Win_post(origins, 0, win);
        if (!racy) MPI_Win_wait(win);
        receive(0), load();
        if (racy) MPI_Win_wait(win);
    }
    MPI_Group_free(&origins), MPI_Group_free(&targets);
}
/* Another origin of the same exposure epoch, or of the next one, is told of it. */
static void before_wait_of_another(int racy) {
    const int others[2] = {0, 2}, target = 1;
    MPI_Group first = group(racy ? 2 : 1, others), next = group(1, others + 1), targets = group(1, &target);
    if (rank_ == 0) MPI_Win_start(targets, 0, win), put(), MPI_Win_complete(win), send(2);
    if (rank_ == 1) MPI_Win_post(first, 0, win), MPI_Win_wait(win);
    if (rank_ == 1 && !racy) MPI_Win_post(next, 0, win), MPI_Win_wait(win);
    if (rank_ == 2) receive(0), MPI_Win_start(targets, 0, win), get(), MPI_Win_complete(win);
    MPI_Group_free(&first), MPI_Group_free(&next), MPI_Group_free(&targets);
}
static void asserted(int racy) {
    MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE, win);
    if (rank_ == 0) put();
    if (rank_ == 1 && racy) load();
    MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, win);
    if (rank_ == 1) load();
}
static void stored_at_fence(int racy) {
    if (rank_ == 1 && !racy) part[0] = 5;
    MPI_Win_fence(0, win);
    if (rank_ == 1 && racy) part[0] = 5;
    if (rank_ == 0) get();
    MPI_Win_fence(0, win);
}
/* The flush of another target. */
static void other_target(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Get(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        MPI_Get(two, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
        MPI_Win_flush(racy ? 2 : 1, win);
        seen = result[0];
    }
    unlock_all();
}
static void other_unlock(int racy) {
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win), MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
        put();
        MPI_Put(two, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(racy ? 2 : 1, win);
        one[0] = 4;
        MPI_Win_unlock(racy ? 1 : 2, win);
    }
}
static void other_window(int racy) {
    MPI_Win other;
    MPI_Win_create(part, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &other);
    MPI_Win_lock_all(0, other);
    lock_all();
    if (rank_ == 0) put(), MPI_Win_flush(1, racy ? other : win);
    barrier();
    if (rank_ == 2) get(), flush();
    unlock_all();
    MPI_Win_unlock_all(other);
    MPI_Win_free(&other);
}
static void freed_window(int racy) {
    MPI_Win other;
    long *own = calloc(4, sizeof *own);
    MPI_Win_create(own, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &other);
    MPI_Win_lock_all(0, other);
    if (rank_ == 0) MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, other);
    if (rank_ == 1 && racy) seen = own[0];
    MPI_Win_unlock_all(other);
    MPI_Win_free(&other);
    if (rank_ == 1) seen = own[0], own[0] = 4;
    free(own);
}
/* Rank 1 polls under an exclusive lock. */
static void polled_under_lock(int racy) {
    if (rank_ == 0) {
        MPI_Win_lock(racy ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 1, 0, win);
        one[1] = 1, MPI_Put(one, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
        MPI_Win_unlock(1, win);
    }
    for (long raised = 0; rank_ == 1 && !raised;) {
        MPI_Win_lock(racy ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 1, 0, win);
        raised = part[1];
        MPI_Win_unlock(1, win);
    }
}
/* A flag that is no atomic. */
static void plain_flag(int racy) {
    const long raised = 1, none = 0;
    long found = 0;
    lock_all();
    if (rank_ == 0 && racy) MPI_Put(&raised, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win), flush();
    if (rank_ == 0 && !racy) MPI_Accumulate(&raised, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_REPLACE, win), flush();
    while (rank_ == 2 && !found) {
        if (racy) MPI_Get(&found, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win);
        else MPI_Get_accumulate(&none, 1, MPI_LONG, &found, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_NO_OP, win);
        flush();
    }
    unlock_all();
}

#include "races_uses.h"

/* Rank 0 knows of a store of rank 1, and rank 2, whose put is learnt of later, does not. */
static void learnt_late(int racy) {
    lock_all();
    if (rank_ == 1) {
        part[0] = 5;
        if (!racy) send(2);
        send(0), receive(0);
    }
    if (rank_ == 0) receive(1), put_at(4), flush(), send(1);
    if (rank_ == 2 && !racy) receive(1);
    if (rank_ == 2) put(), flush();
    barrier();
    unlock_all();
}
/* Two puts that are learnt of late, one after the other. */
static void late_in_turn(int racy) {
    lock_all();
    if (rank_ == 1) send(2), send(0), receive(0);
    if (rank_ == 0) receive(1), put_at(racy ? 0 : 4), flush(), send(1);
    if (rank_ == 2) put(), flush(), receive(1), put(), flush();
    barrier();
    if (rank_ == 1) load();
    unlock_all();
}

static const struct races_case cases[] = {
    CASE(bcast, LOCAL), CASE(reduce, LOCAL), CASE(gather, OPERATIONS), CASE(scatter, OPERATIONS),
    CASE(igather, OPERATIONS), CASE(scan, OPERATIONS), CASE(exscan, OPERATIONS),
    CASE(allreduce, OPERATIONS), CASE(iallreduce, LOCAL), CASE(alltoallw, OPERATIONS),
    CASE(ibarrier, OPERATIONS), CASE(neighbor, OPERATIONS), CASE(ineighbor, OPERATIONS),
    CASE(ineighbor_buffer, LOCAL), CASE(graph, OPERATIONS), CASE(directed, OPERATIONS),
    CASE(subset, OPERATIONS), CASE(window_of_subset, OPERATIONS),
#if MPI_VERSION >= 4
    CASE(persistent_barrier, OPERATIONS), CASE(partitioned, OPERATIONS),
#endif
    CASE(from_any, LOCAL), CASE(by_testany, LOCAL), CASE(by_waitsome, LOCAL),
    CASE(by_waitall, OPERATIONS), CASE(by_status, LOCAL), CASE(sendrecv_replace, LOCAL),
    CASE(bsend, LOCAL), CASE(turned, OPERATIONS), CASE(to_self, OPERATIONS), CASE(stored, LOCAL),
    CASE(stored_late, LOCAL), CASE(answered, LOCAL), CASE(two_origins, OPERATIONS),
    CASE(tested, LOCAL), CASE(chain, OPERATIONS), CASE(before_wait, LOCAL),
    CASE(before_wait_of_another, OPERATIONS), CASE(asserted, LOCAL),
    CASE(stored_at_fence, LOCAL), CASE(other_target, LOCAL), CASE(other_unlock, LOCAL),
    CASE(other_window, OPERATIONS), CASE(freed_window, LOCAL), CASE(polled_under_lock, LOCAL),
    CASE(plain_flag, OPERATIONS), CASE(no_op_and_put, OPERATIONS),
    CASE(no_op_and_get, OPERATIONS), CASE(no_op_after_sum, OPERATIONS), CASE(side_by_side, LOCAL),
    CASE(rget_accumulate, LOCAL), CASE(swapped, OPERATIONS),
    CASE(fetched, LOCAL), CASE(only_read, OPERATIONS), CASE(rput_and_get, OPERATIONS),
    CASE(rget_and_flush, LOCAL), CASE(rget_waitany, LOCAL), CASE(raccumulate, LOCAL),
    CASE(same_result, OPERATIONS), CASE(sent_twice, OPERATIONS), CASE(nothing, OPERATIONS),
    CASE(from_part, LOCAL), CASE(into_part, LOCAL), CASE(received_into, LOCAL),
    CASE(beside, LOCAL), CASE(subarrays, OPERATIONS), CASE(structures, OPERATIONS),
    CASE(absolute, LOCAL), CASE(attached, LOCAL), CASE(remote_store, LOCAL),
    CASE(remote_load, LOCAL), CASE(remote_both, LOCAL), CASE(owner_and_remote, LOCAL),
    CASE(remote_words, LOCAL), CASE(under_mutex, LOCAL), CASE(received_by_another, LOCAL),
    CASE(learnt_late, LOCAL), CASE(late_in_turn, OPERATIONS)};
#define BEGIN_AGAIN turn = 0
#include "races_main.h"
