/* Programs as applications write them, for three ranks: synchronization by persistent and
 * partitioned communication, by polling, by shared memory, and accesses through aliases, nested
 * calls and structures. In the form `during` a call is missing, comes too early, or orders other
 * ranks than those that access. Rank 1 has most of the memory on which the others operate. */
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
static long token[3], tokens[3];
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void put(void) { put_at(0); }
static void get(void) { MPI_Get(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); }
static void load(void) { seen = part[0]; }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void complete(MPI_Request *q) { MPI_Wait(q, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
/* Another rank has probably gone on, which nothing says. */
static void pause_long(void) { usleep(30000); }

/* --- persistent and partitioned communication ------------------------------------------------- */

#if MPI_VERSION >= 4
/* Rank 0 puts before it starts the call, or after; `reader` reads after it. */
static void around(MPI_Request *q, int reader, int racy) {
    lock_all();
    if (rank_ == 0 && !racy) put(), flush();
    MPI_Start(q);
    if (rank_ == 0 && racy) put(), flush();
    complete(q);
    if (rank_ == reader && reader == 1) pause_long(), load();
    if (rank_ == reader && reader != 1) pause_long(), get(), flush();
    unlock_all();
    MPI_Request_free(q);
}
/* Rank 0 puts before the call, which orders `reader` behind rank 0, or other ranks. */
static void through(MPI_Request *q, int reader) { around(q, reader, 0); }
static void barrier_init(int racy) {
    MPI_Request q;
    MPI_Barrier_init(all, MPI_INFO_NULL, &q);
    around(&q, 1, racy);
}
static void allreduce_init(int racy) {
    MPI_Request q;
    MPI_Allreduce_init(token, tokens, 1, MPI_LONG, MPI_SUM, all, MPI_INFO_NULL, &q);
    around(&q, 2, racy);
}
static void bcast_init(int racy) {
    MPI_Request q;
    MPI_Bcast_init(token, 1, MPI_LONG, racy ? 1 : 0, all, MPI_INFO_NULL, &q);
    through(&q, 2);
}
static void reduce_init(int racy) {
    MPI_Request q;
    MPI_Reduce_init(token, tokens, 1, MPI_LONG, MPI_SUM, racy ? 0 : 2, all, MPI_INFO_NULL, &q);
    through(&q, 2);
}
static void scan_init(int racy) {
    MPI_Request q;
    MPI_Comm turned;
    MPI_Comm_split(all, 0, racy ? -rank_ : rank_, &turned);
    MPI_Scan_init(token, tokens, 1, MPI_LONG, MPI_SUM, turned, MPI_INFO_NULL, &q);
    through(&q, 2);
    MPI_Comm_free(&turned);
}
static void neighbor_init(int racy) {
    MPI_Request q;
    MPI_Comm line;
    const int dims[1] = {3}, periods[1] = {0};
    MPI_Cart_create(all, 1, dims, periods, 0, &line);
    MPI_Neighbor_allgather_init(token, 1, MPI_LONG, tokens, 1, MPI_LONG, line, MPI_INFO_NULL, &q);
    through(&q, racy ? 2 : 1);
    MPI_Comm_free(&line);
}
/* Two calls, which are started in the other order. */
static void inits_in_turn(int racy) {
    MPI_Request q[2];
    for (int i = 0; i < 2; i++) MPI_Bcast_init(token, 1, MPI_LONG, i, all, MPI_INFO_NULL, &q[i]);
    lock_all();
    MPI_Start(&q[1]);
    complete(&q[1]);
    if (rank_ == 0) put(), flush();
    MPI_Start(&q[racy]);
    complete(&q[racy]);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Request_free(&q[0]), MPI_Request_free(&q[1]);
}
/* The second start of the same request. */
static void started_again(int racy) {
    MPI_Request q;
    MPI_Barrier_init(all, MPI_INFO_NULL, &q);
    lock_all();
    MPI_Start(&q), complete(&q);
    if (rank_ == 0) put(), flush();
    if (!racy) MPI_Start(&q), complete(&q);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    MPI_Request_free(&q);
}
/* The buffer of a call that has started. */
static void init_buffer(int racy) {
    MPI_Request q;
    MPI_Allreduce_init(token, tokens, 1, MPI_LONG, MPI_SUM, all, MPI_INFO_NULL, &q);
    MPI_Start(&q);
    if (racy) tokens[0] = 4;
    complete(&q);
    tokens[0] = 5;
    MPI_Request_free(&q);
}

enum { PARTITIONS = 4 };
static long sent[PARTITIONS], received[PARTITIONS];
/* A message from rank 0 to rank 2, which is started. */
static MPI_Request partitions(void) {
    MPI_Request q = MPI_REQUEST_NULL;
    if (rank_ == 0) MPI_Psend_init(sent, PARTITIONS, 1, MPI_LONG, 2, 1, all, MPI_INFO_NULL, &q);
    if (rank_ == 2) MPI_Precv_init(received, PARTITIONS, 1, MPI_LONG, 0, 1, all, MPI_INFO_NULL, &q);
    if (rank_ != 1) MPI_Start(&q);
    return q;
}
static void partitioned_late(int racy) {
    MPI_Request q = partitions();
    lock_all();
    for (int i = 0; rank_ == 0 && i < PARTITIONS - 1; i++) MPI_Pready(i, q);
    if (rank_ == 0 && racy) MPI_Pready(PARTITIONS - 1, q);
    if (rank_ == 0) put(), flush();
    if (rank_ == 0 && !racy) MPI_Pready(PARTITIONS - 1, q);
    if (rank_ != 1) complete(&q);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
    if (rank_ != 1) MPI_Request_free(&q);
}
/* The put comes before one partition, and rank 2 waits for that one or another. */
static void arrived(int racy) {
    MPI_Request q = partitions();
    lock_all();
    if (rank_ == 0) MPI_Pready(0, q), put(), flush(), MPI_Pready_range(1, PARTITIONS - 1, q);
    for (int here = 0; rank_ == 2 && !here;) MPI_Parrived(q, racy ? 0 : 1, &here);
    if (rank_ == 2) pause_long(), get(), flush();
    if (rank_ != 1) complete(&q);
    unlock_all();
    if (rank_ != 1) MPI_Request_free(&q);
}
static void partition_written(int racy) {
    MPI_Request q = partitions();
    if (rank_ == 0) {
        MPI_Pready(0, q), MPI_Pready(1, q);
        sent[racy ? 1 : 2] = 5;
        MPI_Pready_range(2, PARTITIONS - 1, q);
    }
    if (rank_ != 1) complete(&q), MPI_Request_free(&q);
}
static void partition_read(int racy) {
    MPI_Request q = partitions();
    if (rank_ == 0) MPI_Pready_range(0, PARTITIONS - 1, q);
    for (int here = 0; rank_ == 2 && !here;) MPI_Parrived(q, racy ? 0 : 1, &here);
    if (rank_ == 2) seen = received[1];
    if (rank_ != 1) complete(&q), MPI_Request_free(&q);
}
#endif

static void persistent_ssend(int racy) {
    MPI_Request q = MPI_REQUEST_NULL;
    if (rank_ == 2) MPI_Ssend_init(0, 0, MPI_INT, 0, 1, all, &q);
    if (rank_ == 0) MPI_Recv_init(0, 0, MPI_INT, 2, 1, all, &q);
    lock_all();
    if (rank_ == 0 && racy) MPI_Start(&q);
    if (rank_ == 0) put(), flush();
    if (rank_ == 0 && !racy) MPI_Start(&q);
    if (rank_ == 2) MPI_Start(&q);
    if (rank_ != 1) complete(&q), MPI_Request_free(&q);
    if (rank_ == 2) pause_long(), get(), flush();
    unlock_all();
}
static void persistent_startall(int racy) {
    MPI_Request q[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < 2; i++) MPI_Send_init(token, 1, MPI_LONG, 1 + i, 1, all, &q[i]);
        if (racy) MPI_Startall(2, q);
        put(), flush();
        if (!racy) MPI_Startall(2, q);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 2; i++) MPI_Request_free(&q[i]);
    } else {
        MPI_Recv_init(token, 1, MPI_LONG, 0, 1, all, &q[0]);
        MPI_Start(&q[0]), complete(&q[0]), MPI_Request_free(&q[0]);
    }
    if (rank_ == 1) pause_long(), load();
    unlock_all();
}
static void idup(int racy) {
    MPI_Comm copy;
    MPI_Request q;
    MPI_Comm_idup(all, &copy, &q);
    complete(&q);
    lock_all();
    if (rank_ == 0 && racy) MPI_Send(token, 1, MPI_LONG, 1, 1, copy);
    if (rank_ == 0) put(), flush();
    if (rank_ == 0 && !racy) MPI_Send(token, 1, MPI_LONG, 1, 1, copy);
    if (rank_ == 1) MPI_Recv(token, 1, MPI_LONG, 0, 1, copy, MPI_STATUS_IGNORE), pause_long(), load();
    unlock_all();
    MPI_Comm_free(&copy);
}

/* --- polling and MPI_Win_sync ----------------------------------------------------------------- */

static void sync_alone(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush();
    MPI_Win_sync(win);
    if (!racy) barrier();
    MPI_Win_sync(win);
    if (rank_ == 1) pause_long(), MPI_Win_sync(win), load();
    unlock_all();
}
static void set(int element) {
    const long raised = 1;
    MPI_Accumulate(&raised, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_REPLACE, win), flush();
}
/* The owner polls by atomic loads, and then reads by loads; racy: the flag of another rank. */
static void polled_flag(int racy) {
    lock_all();
    if (rank_ == 0) put(), flush(), set(1);
    if (rank_ == 2) set(2);
    if (rank_ == 1) {
        while (!__atomic_load_n(&part[racy ? 2 : 1], __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
        load();
    }
    unlock_all();
}
/* A flag by a put, which the owner polls. */
static void polled_put(int racy) {
    one[1] = 1;
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush();
        MPI_Put(&one[1], 1, MPI_LONG, 1, 1, 1, MPI_LONG, win), flush();
    }
    if (rank_ == 1) {
        while (!__atomic_load_n(&part[1], __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
        MPI_Win_sync(win);
        load();
    }
    unlock_all();
}
/* The owner raises a flag by an atomic store, for which rank 0 polls by an atomic. */
static void raised_by_owner(int racy) {
    const long none = 0;
    long found = 0;
    lock_all();
    if (rank_ == 1) {
        if (!racy) part[0] = 7;
        __atomic_store_n(&part[1], 1, __ATOMIC_RELEASE);
        MPI_Win_sync(win);
        if (racy) part[0] = 7;
    }
    while (rank_ == 0 && !found) MPI_Fetch_and_op(&none, &found, MPI_LONG, 1, 1, MPI_NO_OP, win), flush();
    if (rank_ == 0) get(), flush();
    unlock_all();
}
/* Work items by a counter; racy: a counter by get and put. */
static void counter(int racy) {
    const long step = 1;
    lock_all();
    for (int i = 0; i < 3; i++) {
        long mine = 0;
        if (racy) {
            MPI_Get(&mine, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), flush();
            mine++;
            MPI_Put(&mine, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), flush();
        } else {
            MPI_Fetch_and_op(&step, &mine, MPI_LONG, 1, 0, MPI_SUM, win), flush();
            if (mine < COUNT - 1) put_at(1 + mine), flush();
        }
    }
    unlock_all();
}

/* --- patterns of applications ----------------------------------------------------------------- */

/* Each rank puts its edge into both neighbors, then reads its halo. */
static void halo(int racy) {
    const int left = (rank_ + 2) % 3, right = (rank_ + 1) % 3;
    for (int step = 0; step < 2; step++) {
        MPI_Win_fence(0, win);
        MPI_Put(&one[0], 1, MPI_LONG, left, 1, 1, MPI_LONG, win);
        MPI_Put(&one[1], 1, MPI_LONG, right, racy ? 1 : 0, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        seen = part[0] + part[1];
    }
}
static void transpose(int racy) {
    MPI_Datatype column;
    MPI_Type_vector(3, 1, 3, MPI_LONG, &column);
    MPI_Type_commit(&column);
    MPI_Win_fence(0, win);
    for (int to = 0; to < 3; to++) MPI_Put(one, 3, MPI_LONG, to, racy && rank_ == 2 ? 0 : rank_, 1, column, win);
    MPI_Win_fence(0, win);
    MPI_Type_free(&column);
}
/* Each rank reads what the fence has given it while the next phase begins. */
static void phases(int racy) {
    MPI_Win_fence(0, win);
    if (rank_ == 0) put();
    MPI_Win_fence(0, win);
    if (rank_ == 1) load();
    if (!racy) MPI_Win_fence(0, win);
    if (rank_ == 2) put();
    MPI_Win_fence(0, win);
}
static void post_pairs(int racy) {
    MPI_Group world, peer;
    const int next = (rank_ + 1) % 3, before = (rank_ + 2) % 3;
    MPI_Comm_group(all, &world);
    MPI_Group_incl(world, 1, &before, &peer);
    MPI_Win_post(peer, 0, win);
    MPI_Group_free(&peer);
    MPI_Group_incl(world, 1, &next, &peer);
    MPI_Win_start(peer, 0, win);
    MPI_Put(one, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    if (racy) load();
    MPI_Win_wait(win);
    load();
    MPI_Group_free(&peer), MPI_Group_free(&world);
}
/* What is written at the target after its origin's complete, before its wait. */
static void linked_list(int racy) {
    const long none = -1;
    long before = 0, mine = rank_;
    lock_all();
    if (rank_ == 1) MPI_Accumulate(&none, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_REPLACE, win), flush();
    barrier();
    if (rank_ != 1) {
        MPI_Fetch_and_op(&mine, &before, MPI_LONG, 1, 0, MPI_REPLACE, win), flush();
        MPI_Put(&before, 1, MPI_LONG, 1, racy ? 4 : 4 + rank_, 1, MPI_LONG, win), flush();
    }
    unlock_all();
}

/* --- aliases, nested calls, structures -------------------------------------------------------- */

struct cell {
    char kind;
    int counts[3];
    union {
        long whole;
        char bytes[sizeof(long)];
    } value;
};
static struct cell cell;
static void deeper(void *buffer, int depth) {
    if (depth) deeper(buffer, depth - 1);
    else MPI_Get(buffer, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
}
static char *alias_of(struct cell *it) { return it->value.bytes; }
static void aliased(int racy) {
    char *bytes = alias_of(&cell);
    lock_all();
    if (rank_ == 0) {
        deeper(&cell.value.whole, 4);
        if (!racy) flush();
        seen = bytes[3];
        if (racy) flush();
        cell.kind = 1;
    }
    unlock_all();
}
static void members(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Get(cell.counts, 2, MPI_INT, 1, 0, 2, MPI_INT, win);
        seen = cell.counts[racy ? 1 : 2];
        flush();
    }
    unlock_all();
}
static void completes(int is_asked) {
    if (is_asked) flush();
}
static void conditional(int racy) {
    lock_all();
    if (rank_ == 0) {
        put();
        completes(!racy);
        one[0] = 5;
    }
    unlock_all();
}
/* Buffers in a loop; racy: the same one. */
static void rotated(int racy) {
    lock_all();
    for (int i = 0; rank_ == 0 && i < 4; i++) {
        one[racy ? 0 : i] = i;
        MPI_Put(&one[racy ? 0 : i], 1, MPI_LONG, 1, i, 1, MPI_LONG, win);
    }
    unlock_all();
}
static void reused(int racy) {
    lock_all();
    for (int i = 0; rank_ == 0 && i < 4; i++) {
        one[0] = i;
        MPI_Put(one, 1, MPI_LONG, 1, i, 1, MPI_LONG, win);
        if (!racy || i != 2) MPI_Win_flush_local(1, win);
    }
    unlock_all();
}
/* A window over a variable on the stack. */
static void stack_window(int racy) {
    long own[4] = {0};
    MPI_Win other;
    MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, all, &other);
    MPI_Win_fence(0, other);
    if (rank_ == 2) MPI_Put(one, 2, MPI_LONG, 0, 0, 2, MPI_LONG, other);
    if (rank_ == 0) own[racy ? 1 : 2] = 5;
    MPI_Win_fence(0, other);
    seen = own[0];
    MPI_Win_free(&other);
}
/* Memory of MPI_Alloc_mem in two windows. */
static void two_windows(int racy) {
    long *memory;
    MPI_Win first, second;
    MPI_Alloc_mem(8 * sizeof(long), MPI_INFO_NULL, &memory);
    MPI_Win_create(memory, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &first);
    MPI_Win_create(memory + (racy ? 3 : 4), 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &second);
    MPI_Win_lock_all(0, first), MPI_Win_lock_all(0, second);
    if (rank_ == 0) MPI_Put(one, 4, MPI_LONG, 1, 0, 4, MPI_LONG, first);
    if (rank_ == 2) MPI_Put(one, 4, MPI_LONG, 1, 0, 4, MPI_LONG, second);
    MPI_Win_unlock_all(second), MPI_Win_unlock_all(first);
    MPI_Win_free(&first), MPI_Win_free(&second);
    MPI_Free_mem(memory);
}
/* Pairs of a value and an index; racy: of another type on the same bytes. */
static void pairs(int racy) {
    static struct {
        int value, at;
    } pair;
    lock_all();
    if (rank_ == 0) MPI_Accumulate(&pair, 1, MPI_2INT, 1, 0, 1, MPI_2INT, MPI_MAXLOC, win);
    if (rank_ == 2 && !racy) MPI_Accumulate(&pair, 1, MPI_2INT, 1, 0, 1, MPI_2INT, MPI_MAXLOC, win);
    if (rank_ == 2 && racy) MPI_Accumulate(&pair, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_MAX, win);
    unlock_all();
}
static void resized(int racy) {
    MPI_Datatype wide;
    MPI_Type_create_resized(MPI_LONG, 0, 3 * sizeof(long), &wide);
    MPI_Type_commit(&wide);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 3, MPI_LONG, 1, 0, 3, wide, win);
    if (rank_ == 2) MPI_Get(result, 2, MPI_LONG, 1, racy ? 2 : 1, 2, MPI_LONG, win);
    unlock_all();
    MPI_Type_free(&wide);
}
/* The origin's buffer has gaps, which the program may use. */
static void gaps_of_buffer(int racy) {
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 1, pair, 1, 0, 2, MPI_LONG, win), one[racy ? 2 : 1] = 3, flush();
    unlock_all();
    MPI_Type_free(&pair);
}

#include "races_shared.h"

static const struct races_case cases[] = {
#if MPI_VERSION >= 4
    {"barrier_init", barrier_init, 0},
    {"allreduce_init", allreduce_init, 1},
    {"bcast_init", bcast_init, 1},
    {"reduce_init", reduce_init, 1},
    {"scan_init", scan_init, 1},
    {"neighbor_init", neighbor_init, 1},
    {"inits_in_turn", inits_in_turn, 1},
    {"started_again", started_again, 1},
    {"init_buffer", init_buffer, 0},
    {"partitioned_late", partitioned_late, 1},
    {"arrived", arrived, 1},
    {"partition_written", partition_written, 0},
    {"partition_read", partition_read, 0},
#endif
    {"persistent_ssend", persistent_ssend, 1},
    {"persistent_startall", persistent_startall, 0},
    {"idup", idup, 0},
    {"sync_alone", sync_alone, 0},
    {"polled_flag", polled_flag, 0},
    {"polled_put", polled_put, 0},
    {"raised_by_owner", raised_by_owner, 0},
    {"counter", counter, 1},
    {"halo", halo, 1},
    {"transpose", transpose, 1},
    {"phases", phases, 0},
    {"post_pairs", post_pairs, 0},
    {"linked_list", linked_list, 1},
    {"aliased", aliased, 0},
    {"members", members, 0},
    {"conditional", conditional, 0},
    {"rotated", rotated, 0},
    {"reused", reused, 0},
    {"stack_window", stack_window, 0},
    {"two_windows", two_windows, 1},
    {"pairs", pairs, 1},
    {"resized", resized, 1},
    {"gaps_of_buffer", gaps_of_buffer, 0},
    SHARED_CASES};
#include "races_main.h"
