/* Wraps the host's functions that order the ranks, for the conflict checker (`TRANSOM_CHECK`). The
 * checker keeps a vector clock at each rank. Before the host's call this file counts a release of
 * this rank's clock. After the call this rank learns the clocks of the ranks for which the call
 * has waited:
 *
 * - Blocking collective call: the ranks exchange their clocks by a further collective call on the
 *   same communicator. All ranks of the communicator make both calls at the same point.
 * - Message, and nonblocking or neighborhood collective call: the sender writes its clock into
 *   memory of the node, under a number of the communicator. The ranks of a communicator agree on
 *   its number when they create the communicator.
 * - Call that does not tell for which ranks it has waited: the rank learns all that any rank has
 *   released. The checker may then miss a conflict, but reports no false one.
 *
 * If the program has ThreadSanitizer, this file also tells ThreadSanitizer of the calls' buffers.
 * `edges.h` lists the functions. */
#define _GNU_SOURCE
#include "host.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* --- functions in Rust ------------------------------------------------------------------------ */

/* In src/edges.rs. Counts a release, and stores this rank's clock. */
void transom_edge_release(uint64_t *clock);
/* Learns a clock. `all`: all ranks of the job have exchanged their clocks. */
void transom_edge_learn(const uint64_t *clock, int all);
/* Learns the clocks that all ranks have released. */
void transom_edge_learn_all(void);
/* A call that may wait for other ranks begins, and ends. */
void transom_edge_wait_begins(const char *call);
void transom_edge_wait_ends(void);
/* The job was started by another job. */
void transom_edge_has_parent(void);

/* In src/messages.rs. Adds a buffer to the call that this thread is about to make. The call then
 * uses its buffers until it returns, or, if it is nonblocking, until its request is complete. */
void transom_edge_adds_buffer(const void *address, int64_t count, MPI_Datatype type, int written);
void transom_edge_blocking_call_begins(void);
void transom_edge_call_returned(void);
void transom_edge_nonblocking_call_begins(void);

/* Messages. `group` is the number of the communicator. `takes`: 0 for a message that was only
 * probed. */
void transom_edge_message_sent(int rank, int tag, uint64_t group);
void transom_edge_receive_begins(int rank, int tag, uint64_t group);
void transom_edge_receive_is_posted(int rank, int tag, uint64_t group);
void transom_edge_receive_was_posted(void);
void transom_edge_message_received(int rank, int tag, uint64_t group, int takes);
void transom_edge_synchronous_send_ends(int rank, int tag, uint64_t group);
/* A receive has failed, and may have taken a message. */
void transom_edge_receive_fails(void);
/* Nonblocking and neighborhood collective calls: call number `turn` of a communicator, which waits
 * for the ranks `from`. */
void transom_edge_collective_begins(uint64_t group, uint64_t turn);
void transom_edge_collective_ends(uint64_t group, uint64_t turn, const int *from, int size);

/* The host has given the program a request. The names say which clocks this rank learns when the
 * request is complete. `waits`: the send is synchronous. */
void transom_edge_request_learns_nothing(const MPI_Request *request);
void transom_edge_request_learns_all(const MPI_Request *request);
void transom_edge_request_of_synchronous_send(const MPI_Request *request, int rank, int tag, uint64_t group);
void transom_edge_request_of_persistent_send(const MPI_Request *request, int rank, int tag, uint64_t group, int waits);
void transom_edge_request_of_receive(const MPI_Request *request, int rank, int tag, uint64_t group, const int *ranks,
                                     int size, int persistent);
void transom_edge_request_of_collective(const MPI_Request *request, uint64_t group, uint64_t turn, const int *from,
                                        int size);
void transom_edge_request_of_persistent_collective(const MPI_Request *request, uint64_t group, uint64_t call,
                                                   const int *from, int size);
/* `number` is the number of the communicator that the call stores in `out`. */
void transom_edge_request_of_duplicate(const MPI_Request *request, const MPI_Comm *out, uint64_t number, uint64_t group,
                                       uint64_t turn, const int *from, int size);
/* The program starts a persistent request, cancels a request, and frees a request. */
void transom_edge_request_starts(MPI_Request request);
void transom_edge_request_is_cancelled(const MPI_Request *request);
void transom_edge_request_is_freed(const MPI_Request *request);

/* In src/partitioned.rs. `peer` is -1 for MPI_PROC_NULL, and -2 for an unknown rank. */
void transom_edge_request_of_partitioned(MPI_Request request, int peer, int tag, uint64_t group, int sends,
                                         int partitions, const void *buffer, int64_t bytes);
void transom_edge_partition_is_ready(MPI_Request request, int partition);
void transom_edge_partition_has_arrived(MPI_Request request, int partition);
/* The program makes a persistent request of a collective call. */
void transom_edge_makes_persistent_collective(void);

/* In src/turns.rs, which explains waits in turns. Whether a collective call, or a call for one
 * message, waits in turns. */
int transom_turns_for_collective(MPI_Comm comm, int *code);
int transom_turns_for_message(void);
/* Waits for a request in turns. */
int transom_turns_await(MPI_Request *request, MPI_Status *status);
/* Checks the arguments of a receive. */
int transom_turns_check(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm);
/* Receives a message in turns. */
int transom_turns_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status);
/* Polls transom before test number `test` of the host. Returns whether the wait continues in
 * turns. */
int transom_turns_next(unsigned test);

/* --- communicators ---------------------------------------------------------------------------- */

/* The number of words of a clock: one for each rank of the job, or 0 while the checker is off. */
static int words;
/* The checker's data of a communicator, cached with the communicator. The data is never freed,
 * because requests outlive their communicator. An intercommunicator has two groups of ranks. */
struct group {
    /* All ranks are of the job: of an intracommunicator, or of an intercommunicator. The answer is
     * equal at all ranks. */
    int is_of_job, is_inter;
    /* The number on which all ranks have agreed; 0 if there is none. */
    uint64_t number;
    /* The calls so far: nonblocking and neighborhood collective calls, persistent collective calls,
     * and calls of MPI_Comm_idup. */
    uint64_t turn, persistent, copies;
    /* This rank, and the number of possible peers of a message: the ranks of the communicator, or
     * of the other group of an intercommunicator. */
    int me, size;
    /* The possible peers by their ranks in the job. */
    int *ranks;
};
/* The key of the attribute that holds the data. */
static int keyval = MPI_KEYVAL_INVALID;
/* The numbers of MPI_COMM_WORLD and MPI_COMM_SELF. */
enum { WORLD = 1, SELF };
/* The peer of a message to or from MPI_PROC_NULL. */
enum { NO_PEER = -2 };

/* A duplicate of a communicator gets data of its own. */
static int not_copied(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int forgotten(MPI_Comm comm, int key, void *kept, void *extra) {
    (void)comm, (void)key, (void)kept, (void)extra;
    return MPI_SUCCESS;
}

/* Sets the number of words of a clock; 0 turns the checker off. */
void host_edges_begin(int count) {
    words = count;
    if (words && keyval == MPI_KEYVAL_INVALID) {
        HOST(Comm_create_keyval)(not_copied, forgotten, &keyval, 0);
    }
    MPI_Comm parent = MPI_COMM_NULL;
    if (words && HOST(Comm_get_parent)(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL) transom_edge_has_parent();
}

/* Stores the ranks in the job of a group's members. Returns whether all members are of the job. */
static int translated(MPI_Group members, int *ranks) {
    MPI_Group world;
    int size = 0, is_of_job = 1;
    HOST(Comm_group)(MPI_COMM_WORLD, &world), HOST(Group_size)(members, &size);
    for (int rank = 0; rank < size; rank++) {
        HOST(Group_translate_ranks)(members, 1, &rank, world, &ranks[rank]);
        if (ranks[rank] == MPI_UNDEFINED) is_of_job = 0;
    }
    HOST(Group_free)(&members), HOST(Group_free)(&world);
    return is_of_job;
}

/* The data of a communicator, which the first call determines. */
static struct group *group_of(MPI_Comm comm) {
    static struct group unknown;
    int inter = 1, flag = 0, size = 0;
    struct group *group;
    if (HOST(Comm_get_attr)(comm, keyval, &group, &flag) == MPI_SUCCESS && flag) return group;
    if (!(group = calloc(1, sizeof *group))) return &unknown;
    HOST(Comm_test_inter)(comm, &inter), HOST(Comm_size)(comm, &size), HOST(Comm_rank)(comm, &group->me);
    group->size = size;
    if (inter) HOST(Comm_remote_size)(comm, &group->size);
    int own[size + 1];
    MPI_Group members;
    HOST(Comm_group)(comm, &members);
    const int is_of_job = translated(members, own);
    if ((group->ranks = calloc(group->size + 1, sizeof *group->ranks))) {
        if (inter) HOST(Comm_remote_group)(comm, &members);
        else HOST(Comm_group)(comm, &members);
        const int are_of_job = translated(members, group->ranks) && is_of_job;
        group->is_of_job = are_of_job && !inter, group->is_inter = are_of_job && inter;
    }
    if (comm == MPI_COMM_WORLD) group->number = WORLD;
    if (comm == MPI_COMM_SELF) group->number = SELF;
    HOST(Comm_set_attr)(comm, keyval, group);
    return group;
}

static int is_of_job(MPI_Comm comm) { return group_of(comm)->is_of_job; }
static int is_inter(MPI_Comm comm) { return group_of(comm)->is_inter; }

/* Stores in `numbers` the maximum over both groups of an intercommunicator. Collective. */
static int merge_both_groups(uint64_t *numbers, int count, MPI_Comm between) {
    uint64_t theirs[count];
    /* The first call gets the maximum of the other group. The second call gets what the other group
     * has merged, which includes this group. */
    for (int turn = 0; turn < 2; turn++) {
        const int code = HOST(Allreduce)(numbers, theirs, count, MPI_UINT64_T, MPI_MAX, between);
        if (code != MPI_SUCCESS) return code;
        for (int i = 0; i < count; i++) numbers[i] = numbers[i] > theirs[i] ? numbers[i] : theirs[i];
    }
    return MPI_SUCCESS;
}

/* Gives a number to a communicator that its ranks have just created. Collective over them. */
static void number_new_comm(MPI_Comm comm) {
    static uint64_t count;
    if (comm == MPI_COMM_NULL) return;
    struct group *group = group_of(comm);
    if (!group->is_of_job && !group->is_inter) return;
    int rank = 0;
    HOST(Comm_rank)(MPI_COMM_WORLD, &rank);
    uint64_t number = (uint64_t)(rank + 1) << 32 | __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    const int code = group->is_inter ? merge_both_groups(&number, 1, comm) : HOST(Bcast)(&number, 1, MPI_UINT64_T, 0, comm);
    if (code == MPI_SUCCESS) group->number = number;
}

/* MPI_Comm_idup: the copy exists when the request is complete. All ranks compute the same number
 * for the copy, because they make the copies of a communicator in the same order. */
static void copy_begins(MPI_Comm comm, const MPI_Comm *out, const MPI_Request *request, uint64_t turn) {
    struct group *group = group_of(comm);
    const uint64_t copy = __atomic_add_fetch(&group->copies, 1, __ATOMIC_RELAXED);
    const uint64_t number = (group->number ^ copy * 0x9e3779b97f4a7c15) | (uint64_t)1 << 62;
    transom_edge_request_of_duplicate(request, out, turn ? number : 0, group->number, turn, group->ranks,
                                      turn ? group->size : 0);
}
void host_edges_number_copy(const MPI_Comm *out, uint64_t number) { group_of(*out)->number = number; }

/* The rank in the job of a possible peer; -1 if the checker does not know it. */
static int in_job(const struct group *group, int rank) {
    return group->number && rank >= 0 && rank < group->size ? group->ranks[rank] : -1;
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* A buffer of the call that this thread is about to make. `written`: the call writes the buffer. */
static void lends(const void *buffer, int64_t count, MPI_Datatype type, int written) {
    if (buffer != MPI_IN_PLACE) transom_edge_adds_buffer(buffer, count, type, written);
}
/* The buffer of a message to or from `rank`. */
static void lends_message(const void *buffer, int64_t count, MPI_Datatype type, int rank, int written) {
    if (rank != MPI_PROC_NULL) lends(buffer, count, type, written);
}
/* The buffer of MPI_Sendrecv_replace, which is sent to `to` and then filled by a message of
 * `from`. */
static void lends_replaced(const void *buffer, int64_t count, MPI_Datatype type, int to, int from) {
    if (to != MPI_PROC_NULL || from != MPI_PROC_NULL) lends(buffer, count, type, from != MPI_PROC_NULL);
}
static int is_root(MPI_Comm comm, int root) { return is_inter(comm) ? root == MPI_ROOT : group_of(comm)->me == root; }
/* Whether this rank gets data of the root. */
static int gets_from_root(MPI_Comm comm, int root) { return is_inter(comm) ? root >= 0 : !is_root(comm, root); }
/* `count` elements for each rank. */
static int64_t times_size(MPI_Comm comm, int64_t count) { return group_of(comm)->size * count; }

/* The address of an element of a buffer. */
static const void *block(const void *buffer, int64_t element, MPI_Datatype type) {
    MPI_Aint low, extent = 0;
    HOST(Type_get_extent)(type, &low, &extent);
    return (const char *)buffer + element * extent;
}

/* The buffer `b` of a gather, which gets a block of `m` elements of each rank. If `a`, this rank's
 * buffer, is MPI_IN_PLACE, `b` already has this rank's block, which is only read. */
static void lends_gathered(const void *a, const void *b, int64_t m, MPI_Datatype type, MPI_Comm comm) {
    const struct group *group = group_of(comm);
    const int before = a == MPI_IN_PLACE ? group->me : group->size;
    lends(b, before * m, type, 1);
    if (before == group->size) return;
    lends(block(b, before * m, type), m, type, 0);
    lends(block(b, (before + 1) * m, type), (group->size - before - 1) * m, type, 1);
}

/* The number of neighbors that send to this rank (`sending`), or receive from it. */
static int neighbors(MPI_Comm comm, int sending) {
    int kind = MPI_UNDEFINED, count = 0, out = 0, weighted;
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART && HOST(Cartdim_get)(comm, &count) == MPI_SUCCESS) return 2 * count;
    if (kind == MPI_GRAPH) HOST(Graph_neighbors_count)(comm, group_of(comm)->me, &count), out = count;
    if (kind == MPI_DIST_GRAPH) HOST(Dist_graph_neighbors_count)(comm, &count, &out, &weighted);
    return sending ? count : out;
}
/* Whether a neighbor is MPI_PROC_NULL, beyond the border of a Cartesian grid. */
static int is_missing(MPI_Comm comm, int neighbor) {
    int kind = MPI_UNDEFINED, ends[2] = {0, 0};
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART) HOST(Cart_shift)(comm, neighbor / 2, 1, &ends[0], &ends[1]);
    return ends[neighbor % 2] == MPI_PROC_NULL;
}

/* Stores the ranks in the job of the neighbors that send to this rank. There are `count` of them,
 * including missing ones. Returns the number of those that exist. */
static int senders(MPI_Comm comm, int *from, int count) {
    const struct group *group = group_of(comm);
    const int out = neighbors(comm, 0);
    int kind = MPI_UNDEFINED, known = 0, to[out + 1], weights[count + out + 1];
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_GRAPH) HOST(Graph_neighbors)(comm, group->me, count, from);
    if (kind == MPI_DIST_GRAPH) HOST(Dist_graph_neighbors)(comm, count, from, weights, out, to, weights + count);
    for (int i = 0; kind == MPI_CART && i < count; i += 2) HOST(Cart_shift)(comm, i / 2, 1, &from[i], &from[i + 1]);
    for (int i = 0; i < count; i++) {
        if (from[i] != MPI_PROC_NULL) from[known++] = group->ranks[from[i]];
    }
    return known;
}

/* Buffers with a block for each rank, with counts `n` and displacements `d`. With _TYPE, each block
 * has a datatype of its own, and displacements are in bytes. */
#define FOR_EACH(count, body)                                                                                               \
    __extension__({                                                                                                         \
        for (int i = 0; i < (count); i++) body;                                                                             \
        (void)0;                                                                                                            \
    })
#define LENDS_EACH(b, n, d, t, comm, written)                                                                               \
    FOR_EACH(group_of(comm)->size, lends(block(b, (d)[i], t), (n)[i], t, written))
#define LENDS_EACH_TYPE(b, n, d, t, comm, written)                                                                          \
    FOR_EACH(group_of(comm)->size, lends((const char *)(b) + (d)[i], (n)[i], (t)[i], written))
#define LENDS_GATHERED(a, b, n, d, t, comm)                                                                                 \
    FOR_EACH(group_of(comm)->size,                                                                                          \
             lends(block(b, (d)[i], t), (n)[i], t, (a) != MPI_IN_PLACE || i != group_of(comm)->me))
/* MPI_Reduce_scatter: if `a` is MPI_IN_PLACE, the call reads `b`. */
#define LENDS_SCATTERED(a, b, n, t, comm)                                                                                   \
    __extension__({                                                                                                         \
        int64_t sum = 0;                                                                                                    \
        for (int i = 0; i < group_of(comm)->size; i++) sum += (n)[i];                                                       \
        lends((a) == MPI_IN_PLACE ? (const void *)(b) : (a), sum, t, 0);                                                    \
        lends(b, (n)[group_of(comm)->me], t, 1);                                                                            \
    })
/* Buffers with a block for each neighbor, of `count` elements from element `at` on. */
#define LENDS_NEIGHBORS(b, count, at, t, written)                                                                           \
    FOR_EACH(neighbors(comm, written), if (!is_missing(comm, i)) lends(block(b, at, t), count, t, written))
#define LENDS_NEIGHBOR_TYPES(b, n, d, t, written)                                                                           \
    FOR_EACH(neighbors(comm, written),                                                                                      \
             if (!is_missing(comm, i)) lends((const char *)(b) + (d)[i], (n)[i], (t)[i], written))

/* --- blocking collective calls ---------------------------------------------------------------- */

/* After a call in which every rank waits for all ranks, or for all ranks of the other group. */
void host_edges_learn_from_all(MPI_Comm comm, uint64_t *clock) {
    uint64_t theirs[words];
    int size = 0;
    if (is_inter(comm)) {
        if (HOST(Allreduce)(clock, theirs, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) transom_edge_learn(theirs, 0);
    } else if (!is_of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Allreduce)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        HOST(Comm_size)(comm, &size);
        transom_edge_learn(clock, size == words);
    }
}

/* After a call in which every rank waits for all ranks, of both groups if there are two. */
static void learn_from_all_of_both(MPI_Comm comm, uint64_t *clock) {
    if (comm == MPI_COMM_NULL) return;
    if (!is_inter(comm)) host_edges_learn_from_all(comm, clock);
    else if (merge_both_groups(clock, words, comm) == MPI_SUCCESS) transom_edge_learn(clock, 0);
}

/* After a call in which all ranks wait for the root, such as a broadcast. */
static void learn_from_root(MPI_Comm comm, int root, uint64_t *clock) {
    if (!is_of_job(comm) && !is_inter(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Bcast)(clock, words, MPI_UINT64_T, root, comm) == MPI_SUCCESS && gets_from_root(comm, root)) {
        transom_edge_learn(clock, 0);
    }
}

/* After a call in which the root waits for all ranks, such as a reduction. */
static void learn_at_root(MPI_Comm comm, int root, uint64_t *clock) {
    uint64_t met[words];
    if (!is_of_job(comm) && !is_inter(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Reduce)(clock, met, words, MPI_UINT64_T, MPI_MAX, root, comm) == MPI_SUCCESS && is_root(comm, root)) {
        transom_edge_learn(met, 0);
    }
}

/* After a call in which each rank waits for all lower ranks: a scan. */
static void learn_from_lower(MPI_Comm comm, uint64_t *clock) {
    if (!is_of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Scan)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        transom_edge_learn(clock, 0);
    }
}

/* --- messages --------------------------------------------------------------------------------- */

/* The status for a call of the host: the program's, or a status of this thread if the program
 * ignores the status. For calls during which the host calls no function of the program. */
static void *host_own_status(void *status) {
    static _Thread_local MPI_Status own;
    return status == MPI_STATUS_IGNORE ? &own : status;
}

size_t host_status_size(void) { return sizeof(MPI_Status); }

/* The source and the tag of a status; 0 if the program ignores it. */
int host_status_of(void *statuses, int index, int *source, int *tag) {
    if (statuses == MPI_STATUS_IGNORE || statuses == MPI_STATUSES_IGNORE) return 0;
    const MPI_Status *status = (const MPI_Status *)statuses + index;
    *source = status->MPI_SOURCE, *tag = status->MPI_TAG;
    return 1;
}

/* Whether a status is of a cancelled request. */
int host_status_is_cancelled(void *statuses, int index) {
    int is_cancelled = 0;
    if (statuses == MPI_STATUS_IGNORE || statuses == MPI_STATUSES_IGNORE) return 0;
    return HOST(Test_cancelled)((const MPI_Status *)statuses + index, &is_cancelled) == MPI_SUCCESS && is_cancelled;
}

/* Before a message is sent. */
static void before_send(MPI_Comm comm, int rank, int tag, uint64_t *clock) {
    const struct group *group = group_of(comm);
    const int peer = in_job(group, rank);
    if (peer >= 0) transom_edge_message_sent(peer, tag, group->number);
    else transom_edge_release(clock);
}

/* After a synchronous send. */
static void after_synchronous_send(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    const int peer = in_job(group, rank);
    if (rank == MPI_PROC_NULL) return;
    if (peer >= 0) transom_edge_synchronous_send_ends(peer, tag, group->number);
    else transom_edge_learn_all();
}
/* A synchronous send has a request. */
static void request_of_synchronous_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    if (rank == MPI_PROC_NULL) transom_edge_request_learns_nothing(request);
    else transom_edge_request_of_synchronous_send(request, in_job(group, rank), tag, group->number);
}

/* The buffer of a receive of a matched message (MPI_Mprobe). */
static void lends_matched(const void *buffer, int64_t count, MPI_Datatype type, MPI_Message message) {
    if (message != MPI_MESSAGE_NO_PROC) lends(buffer, count, type, 1);
}

/* Whether this thread is in a call that may take a message. */
static _Thread_local int is_posting;

/* Before a call that may take a message: other receives may take earlier messages. */
static void before_match(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (!group->number || rank == MPI_PROC_NULL) return;
    transom_edge_receive_is_posted(in_job(group, rank), tag == MPI_ANY_TAG ? -1 : tag, group->number);
    is_posting = 1;
}

/* After such a call. */
static void after_match(void) {
    if (is_posting) transom_edge_receive_was_posted();
    is_posting = 0;
}

/* Before a message is received. A synchronous sender of the message learns this rank's clock at
 * this point. */
static void before_receive(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (!group->number || rank == MPI_PROC_NULL) return;
    transom_edge_receive_begins(in_job(group, rank), tag == MPI_ANY_TAG ? -1 : tag, group->number);
    before_match(comm, rank, tag);
}

/* After a message was received or probed. */
static void after_receive(MPI_Comm comm, const MPI_Status *status, int takes) {
    const struct group *group = group_of(comm);
    const int rank = status->MPI_SOURCE;
    if (rank == MPI_PROC_NULL) return;
    const int peer = in_job(group, rank);
    if (peer >= 0) transom_edge_message_received(peer, status->MPI_TAG, group->number, takes);
    else transom_edge_learn_all();
}

/* A receive has a request. */
static void request_of_receive(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int persistent) {
    const struct group *group = group_of(comm);
    if (rank == MPI_PROC_NULL) {
        if (persistent) transom_edge_request_of_persistent_send(request, NO_PEER, tag, 0, 0);
        else transom_edge_request_learns_nothing(request);
        return;
    }
    const int named = rank != MPI_ANY_SOURCE && rank >= 0 && rank < group->size;
    const int peer = named && group->ranks ? group->ranks[rank] : -1;
    transom_edge_request_of_receive(request, peer, tag == MPI_ANY_TAG ? -1 : tag, group->number, group->ranks, group->size,
                                    persistent);
}

/* A persistent send has a request. */
static void request_of_persistent_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int waits) {
    const struct group *group = group_of(comm);
    const int peer = rank == MPI_PROC_NULL ? NO_PEER : in_job(group, rank);
    transom_edge_request_of_persistent_send(request, peer, tag, group->number, waits);
}

/* Receives a message by MPI_Recv. */
int host_edges_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status *const known = host_own_status(status);
    lends_message(buffer, count, type, rank, 1);
    transom_edge_blocking_call_begins();
    before_receive(comm, rank, tag);
    transom_edge_wait_begins("MPI_Recv");
    const int code = HOST(Recv)(buffer, count, type, rank, tag, comm, known);
    transom_edge_call_returned();
    transom_edge_wait_ends();
    if (code == MPI_SUCCESS) after_receive(comm, known, 1);
    else transom_edge_receive_fails();
    after_match();
    return code;
}

/* --- nonblocking, persistent and neighborhood collective calls -------------------------------- */

/* Before a nonblocking or neighborhood call. Returns the number of the call in its communicator,
 * or 0 if the communicator has no number. */
static uint64_t begin_collective(MPI_Comm comm, uint64_t *clock) {
    struct group *group = group_of(comm);
    if (!group->number) {
        transom_edge_release(clock);
        return 0;
    }
    const uint64_t turn = __atomic_add_fetch(&group->turn, 1, __ATOMIC_RELAXED);
    transom_edge_collective_begins(group->number, turn);
    return turn;
}

/* A nonblocking call has a request, which waits for `count` ranks from `first` on. */
static void request_of_collective(MPI_Comm comm, uint64_t turn, int first, int count, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    if (turn) transom_edge_request_of_collective(request, group->number, turn, group->ranks + (count ? first : 0), count);
    else transom_edge_request_learns_all(request);
}

/* After a call in which each rank waits for its neighbors. */
static void learn_from_neighbors(MPI_Comm comm, uint64_t turn) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    if (turn) transom_edge_collective_ends(group_of(comm)->number, turn, from, senders(comm, from, count));
    else transom_edge_learn_all();
}
/* A nonblocking call has a request, which waits for the neighbors. */
static void request_of_neighborhood(MPI_Comm comm, uint64_t turn, const MPI_Request *request) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    if (turn) transom_edge_request_of_collective(request, group_of(comm)->number, turn, from, senders(comm, from, count));
    else transom_edge_request_learns_all(request);
}

/* A call has made a persistent request. When the request is complete, this rank learns the clocks
 * that the `count` ranks had when they started theirs. */
static void request_of_persistent(struct group *group, const int *ranks, int count, const MPI_Request *request) {
    const uint64_t call = group->number ? __atomic_add_fetch(&group->persistent, 1, __ATOMIC_RELAXED) : 0;
    transom_edge_request_of_persistent_collective(request, group->number, call, ranks, count);
}
/* The same for the ranks from `first` on, and for the neighbors. */
static void request_of_persistent_from(MPI_Comm comm, int first, int count, const MPI_Request *request) {
    struct group *group = group_of(comm);
    request_of_persistent(group, group->ranks ? group->ranks + (count ? first : 0) : 0, count, request);
}
static void request_of_persistent_neighborhood(MPI_Comm comm, const MPI_Request *request) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    request_of_persistent(group_of(comm), from, is_of_job(comm) ? senders(comm, from, count) : 0, request);
}

/* A partitioned message has a request. */
void host_edges_partitioned(MPI_Comm comm, int rank, int tag, MPI_Request request, int sends, int partitions,
                            const void *buffer, int64_t count, MPI_Datatype type) {
    const struct group *group = group_of(comm);
    MPI_Aint low = 0, extent = 0;
    HOST(Type_get_extent)(type, &low, &extent);
    const int peer = rank == MPI_PROC_NULL ? -1 : group->number && rank >= 0 && rank < group->size ? group->ranks[rank] : -2;
    transom_edge_request_of_partitioned(request, peer, tag, group->number, sends, partitions, (const char *)buffer + low,
                                        count * extent);
}

/* --- waits in turns (src/turns.rs) ------------------------------------------------------------ */

/* The host's nonblocking form of a function: PMPI_Iallreduce for Allreduce. */
static void *nonblocking_form(const char *call) {
    char name[64];
    snprintf(name, sizeof name, "PMPI_I%c%s", call[0] | 0x20, call + 1);
    return host_function(name);
}

/* Waits in turns for a call that has begun, unless it failed. */
static int await_in_turns(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? transom_turns_await(request, MPI_STATUS_IGNORE) : code;
}

/* The rest of MPI_Sendrecv: receives in turns, then waits for the send that has begun. */
static int receive_and_await(int code, MPI_Request *sent, void *b, int m, MPI_Datatype u, int from, int tag, MPI_Comm comm,
                     MPI_Status *s) {
    if (code != MPI_SUCCESS) return code;
    const int received = transom_turns_receive(b, m, u, from, tag, comm, s);
    code = transom_turns_await(sent, MPI_STATUS_IGNORE);
    return received == MPI_SUCCESS ? code : received;
}

#define LIST(...) __VA_ARGS__
/* If `turns` holds: begins the nonblocking form of a call, waits in turns, and returns. */
#define IN_TURNS(name, parameters, arguments, turns)                                                                        \
    int failed = MPI_SUCCESS;                                                                                               \
    if (turns) {                                                                                                            \
        static int (*begin)(LIST parameters, MPI_Request *);                                                                \
        if (!begin) begin = (int (*)(LIST parameters, MPI_Request *))nonblocking_form(#name);                               \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        return await_in_turns(begin(LIST arguments, &request), &request);                                                   \
    }                                                                                                                       \
    if (failed != MPI_SUCCESS) return failed;
#define COLLECTIVE_IN_TURNS(name, parameters, arguments)                                                                    \
    IN_TURNS(name, parameters, arguments, transom_turns_for_collective(comm, &failed))
#define MESSAGE_IN_TURNS(name, parameters, arguments) IN_TURNS(name, parameters, arguments, transom_turns_for_message())
/* MPI_Sendrecv in turns, unless the count of its receive is too large for MPI_Recv. */
#define SENDRECV_IN_TURNS(suffix, N)                                                                                        \
    if (transom_turns_for_message() && m == (int)m) {                                                                       \
        static int (*begin)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);                              \
        if (!begin) begin = (int (*)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))nonblocking_form("Send" #suffix); \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        const int failed = transom_turns_check(b, (int)m, u, from, mark, comm);                                             \
        if (failed != MPI_SUCCESS) return failed;                                                                           \
        return receive_and_await(begin(a, n, t, to, tag, comm, &request), &request, b, (int)m, u, from, mark, comm, s);     \
    }
/* Repeats a test that sets `flag` when the wait is over. */
#define PROBE_IN_TURNS(test)                                                                                                \
    int flag = 0;                                                                                                           \
    for (unsigned tests = 0; transom_turns_for_message() && transom_turns_next(++tests);) {                                 \
        const int failed = test;                                                                                            \
        if (failed != MPI_SUCCESS || flag) return failed;                                                                   \
    }

/* Whether this thread is in a call that sends and receives. Open MPI's MPI_Sendrecv_replace may
 * call MPI_Sendrecv, and the message must count once. */
static _Thread_local int is_exchanging;
/* Whether this thread is in a blocking call that receives a message. */
static _Thread_local int is_receiving;

/* --- wrappers --------------------------------------------------------------------------------- */

/* Defines `edge_NAME`, which wraps the host's function NAME. While the checker is on, `before`
 * precedes the host's call, and `after` follows the call if it succeeds. While the checker is off,
 * `unchecked` precedes the call, which may return. `first` comes before both. */
#define WRAP_FULLY(name, parameters, arguments, first, unchecked, before, after)                                            \
    int edge_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        first;                                                                                                              \
        const int count = words;                                                                                            \
        if (!count) {                                                                                                       \
            unchecked;                                                                                                      \
            return next arguments;                                                                                          \
        }                                                                                                                   \
        uint64_t clock[count];                                                                                              \
        (void)clock;                                                                                                        \
        before;                                                                                                             \
        transom_edge_wait_begins("MPI_" #name);                                                                             \
        const int code = next arguments;                                                                                    \
        is_exchanging = 0;                                                                                                  \
        transom_edge_call_returned();                                                                                       \
        if (code == MPI_SUCCESS) {                                                                                          \
            after;                                                                                                          \
        } else if (is_receiving) {                                                                                          \
            transom_edge_receive_fails();                                                                                   \
        }                                                                                                                   \
        is_receiving = 0;                                                                                                   \
        after_match();                                                                                                      \
        transom_edge_wait_ends();                                                                                           \
        return code;                                                                                                        \
    }

#define WRAP(name, parameters, arguments, before, after)                                                                    \
    WRAP_FULLY(name, parameters, arguments, (void)0, (void)0, before, after)
/* With one of the macros `..._IN_TURNS` as `unchecked`. */
#define WRAP_IN_TURNS(name, parameters, arguments, unchecked, before, after)                                                \
    WRAP_FULLY(name, parameters, arguments, (void)0, unchecked, before, after)
/* A call that sends and receives, unless it is part of another such call. */
#define WRAP_EXCHANGE(name, parameters, arguments, unchecked, before, after)                                                \
    WRAP_FULLY(name, parameters, arguments, if (is_exchanging) return next arguments, unchecked,                            \
               (before, is_exchanging = 1), after)

/* Adds the buffers of a call. The call then uses them until it returns, or until its request is
 * complete. */
#define BLOCKING_WITH(buffers) (buffers, transom_edge_blocking_call_begins())
#define NONBLOCKING_WITH(buffers) (buffers, transom_edge_nonblocking_call_begins())
/* On an intercommunicator not all arguments have a meaning. */
#define IF_IN_JOB(buffers) (is_of_job(comm) ? (buffers) : (void)0)

/* Blocking collective calls, by the ranks for which the call waits. */
#define BLOCKING_COLLECTIVE(name, parameters, arguments, buffers, after)                                                    \
    WRAP_IN_TURNS(name, parameters, arguments, COLLECTIVE_IN_TURNS(name, parameters, arguments),                            \
                  (BLOCKING_WITH(IF_IN_JOB(buffers)), transom_edge_release(clock)), after)
#define FROM_ALL(name, parameters, arguments, buffers)                                                                      \
    BLOCKING_COLLECTIVE(name, parameters, arguments, buffers, host_edges_learn_from_all(comm, clock))
#define FROM_ROOT(name, parameters, arguments, buffers)                                                                     \
    BLOCKING_COLLECTIVE(name, parameters, arguments, buffers, learn_from_root(comm, root, clock))
#define TO_ROOT(name, parameters, arguments, buffers)                                                                       \
    BLOCKING_COLLECTIVE(name, parameters, arguments, buffers, learn_at_root(comm, root, clock))
#define FROM_LOWER(name, parameters, arguments, buffers)                                                                    \
    BLOCKING_COLLECTIVE(name, parameters, arguments, buffers, learn_from_lower(comm, clock))
#define FROM_NEIGHBORS(name, parameters, arguments, buffers)                                                                \
    WRAP_IN_TURNS(name, parameters, arguments, COLLECTIVE_IN_TURNS(name, parameters, arguments),                            \
                  BLOCKING_WITH(IF_IN_JOB(buffers)); const uint64_t turn = begin_collective(comm, clock),                   \
                  learn_from_neighbors(comm, turn))

/* Nonblocking collective calls, by the ranks for which the request waits. */
#define NONBLOCKING_COLLECTIVE(name, parameters, arguments, buffers, after)                                                 \
    WRAP(name, parameters, arguments,                                                                                       \
         NONBLOCKING_WITH(IF_IN_JOB(buffers)); const uint64_t turn = begin_collective(comm, clock), after)
#define IFROM_RANKS(name, parameters, arguments, buffers, first, count)                                                     \
    NONBLOCKING_COLLECTIVE(name, parameters, arguments, buffers, request_of_collective(comm, turn, first, count, q))
#define IFROM_ALL(name, parameters, arguments, buffers)                                                                     \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->size)
#define IFROM_ROOT(name, parameters, arguments, buffers)                                                                    \
    IFROM_RANKS(name, parameters, arguments, buffers, root, gets_from_root(comm, root))
#define ITO_ROOT(name, parameters, arguments, buffers)                                                                      \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, is_root(comm, root) ? group_of(comm)->size : 0)
#define IFROM_LOWER(name, parameters, arguments, buffers)                                                                   \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->me)
#define IFROM_NEIGHBORS(name, parameters, arguments, buffers)                                                               \
    NONBLOCKING_COLLECTIVE(name, parameters, arguments, buffers, request_of_neighborhood(comm, turn, q))

/* Calls that make a persistent request of a collective call. They have two more arguments. */
#define COLLECTIVE_INIT(name, parameters, arguments, buffers, made)                                                         \
    WRAP_FULLY(name, (LIST parameters, MPI_Info info, MPI_Request *q), (LIST arguments, info, q),                           \
               transom_edge_makes_persistent_collective(), (void)0, , (IF_IN_JOB(buffers), made))
#define INIT_FROM_RANKS(name, parameters, arguments, buffers, first, count)                                                 \
    COLLECTIVE_INIT(name, parameters, arguments, buffers, request_of_persistent_from(comm, first, count, q))
#define INIT_FROM_NEIGHBORS(name, parameters, arguments, buffers)                                                           \
    COLLECTIVE_INIT(name, parameters, arguments, buffers, request_of_persistent_neighborhood(comm, q))

/* Calls that wait for unknown ranks. */
#define FROM_UNKNOWN(name, parameters, arguments)                                                                           \
    WRAP(name, parameters, arguments, transom_edge_release(clock), transom_edge_learn_all())

/* Calls that create a communicator `out`: calls of all ranks of `comm`, and calls of the ranks of
 * `out` alone. */
#define NEW_COMM(name, parameters, arguments)                                                                               \
    WRAP(name, parameters, arguments, transom_edge_release(clock),                                                          \
         (number_new_comm(*out), learn_from_all_of_both(comm, clock)))
#define NEW_COMM_OF_MEMBERS(name, parameters, arguments)                                                                    \
    WRAP(name, parameters, arguments, transom_edge_release(clock),                                                          \
         (number_new_comm(*out), learn_from_all_of_both(*out, clock)))
#define IDUP(name, parameters, arguments)                                                                                   \
    WRAP(name, parameters, arguments, const uint64_t turn = begin_collective(comm, clock),                                  \
         copy_begins(comm, out, q, turn))

/* Sends. A synchronous send waits until the receive of its message has begun. */
#define SEND(name, parameters, arguments)                                                                                   \
    WRAP_IN_TURNS(name, parameters, arguments, MESSAGE_IN_TURNS(name, parameters, arguments),                               \
                  (BLOCKING_WITH(lends_message(b, n, t, rank, 0)), before_send(comm, rank, tag, clock)), )
#define SYNCHRONOUS_SEND(name, parameters, arguments)                                                                       \
    WRAP_IN_TURNS(name, parameters, arguments, MESSAGE_IN_TURNS(name, parameters, arguments),                               \
                  (BLOCKING_WITH(lends_message(b, n, t, rank, 0)), before_send(comm, rank, tag, clock)),                    \
                  after_synchronous_send(comm, rank, tag))
#define ISEND(name, parameters, arguments)                                                                                  \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(b, n, t, rank, 0)), before_send(comm, rank, tag, clock)),                          \
         transom_edge_request_learns_nothing(q))
#define SYNCHRONOUS_ISEND(name, parameters, arguments)                                                                      \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(b, n, t, rank, 0)), before_send(comm, rank, tag, clock)),                          \
         request_of_synchronous_send(comm, rank, tag, q))
#define SEND_INIT(name, parameters, arguments, waits)                                                                       \
    WRAP(name, parameters, arguments, ,                                                                                     \
         (lends_message(b, n, t, rank, 0), request_of_persistent_send(comm, rank, tag, q, waits)))

/* Receives. */
#define RECV(name, parameters, arguments)                                                                                   \
    WRAP_IN_TURNS(name, parameters, arguments,                                                                              \
                  if (transom_turns_for_message() && n == (int)n)                                                           \
                      return transom_turns_receive(b, (int)n, t, rank, tag, comm, s),                                       \
                  (BLOCKING_WITH(lends_message(b, n, t, rank, 1)), before_receive(comm, rank, tag), is_receiving = 1);      \
                  s = host_own_status(s), after_receive(comm, s, 1))
#define IRECV(name, parameters, arguments)                                                                                  \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(b, n, t, rank, 1)), before_receive(comm, rank, tag)),                              \
         request_of_receive(comm, rank, tag, q, 0))
#define RECV_INIT(name, parameters, arguments)                                                                              \
    WRAP(name, parameters, arguments, ,                                                                                     \
         (lends_message(b, n, t, rank, 1), request_of_receive(comm, rank, tag, q, 1)))

/* Sends and receives in one call. */
#define SENDRECV(name, parameters, arguments, unchecked, buffers)                                                           \
    WRAP_EXCHANGE(name, parameters, arguments, unchecked,                                                                   \
                  (BLOCKING_WITH(buffers), before_send(comm, to, tag, clock), before_receive(comm, from, mark),             \
                   is_receiving = 1, s = host_own_status(s)),                                                               \
                  after_receive(comm, s, 1))
#define ISENDRECV(name, parameters, arguments, buffers)                                                                     \
    WRAP_EXCHANGE(name, parameters, arguments, (void)0,                                                                     \
                  (NONBLOCKING_WITH(buffers), before_send(comm, to, tag, clock), before_receive(comm, from, mark)),         \
                  request_of_receive(comm, from, mark, q, 0))

/* Probes. `takes`: the call matches the message, which no other receive then gets. */
#define PROBE(name, parameters, arguments, takes, test)                                                                     \
    WRAP_IN_TURNS(name, parameters, arguments, PROBE_IN_TURNS(test),                                                        \
                  (transom_edge_release(clock), (takes) ? before_match(comm, rank, tag) : (void)0);                          \
                  s = host_own_status(s), after_receive(comm, s, takes))
#define IPROBE(name, parameters, arguments, takes)                                                                          \
    WRAP(name, parameters, arguments,                                                                                       \
         (transom_edge_release(clock), (takes) ? before_match(comm, rank, tag) : (void)0);                                  \
         s = host_own_status(s), if (*flag) after_receive(comm, s, takes))
/* Receives of a matched message, whose clock the matching call has learned. */
#define MRECV(name, parameters, arguments)                                                                                  \
    WRAP(name, parameters, arguments,                                                                                       \
         (BLOCKING_WITH(lends_matched(b, n, t, *message)), transom_edge_receive_begins(-1, -1, 0)), )
#define IMRECV(name, parameters, arguments)                                                                                 \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_matched(b, n, t, *message)), transom_edge_receive_begins(-1, -1, 0)),                      \
         transom_edge_request_learns_nothing(q))

/* Persistent requests and their ends. */
#define START(name, parameters, arguments, count, requests)                                                                 \
    WRAP(name, parameters, arguments, transom_edge_release(clock);                                                          \
         for (int i = 0; i < (count); i++) transom_edge_request_starts((requests)[i]), )
#define CANCEL_REQUEST(name, parameters, arguments)                                                                         \
    WRAP(name, parameters, arguments, transom_edge_request_is_cancelled(q), )
#define FREE_REQUEST(name, parameters, arguments)                                                                           \
    WRAP(name, parameters, arguments, transom_edge_request_is_freed(q), )
/* Calls on partitions of a partitioned message. */
#define PARTITIONS(name, parameters, arguments, before, ...)                                                                \
    WRAP(name, parameters, arguments, transom_edge_release(clock); before, __VA_ARGS__)

/* Calls that wait for no other rank. */
#define LOCAL(name, parameters, arguments, buffers)                                                                         \
    WRAP(name, parameters, arguments, BLOCKING_WITH(buffers), )
/* MPI_Pack and MPI_Unpack, which write or read the packed buffer from `*at` on. The number of
 * packed bytes is known only after the call. */
#define PACK(name, parameters, arguments, buffer, packed, written)                                                          \
    WRAP(name, parameters, arguments, const int64_t from = *at; BLOCKING_WITH(buffer),                                      \
         (BLOCKING_WITH(lends((const char *)(packed) + from, *at - from, MPI_BYTE, written)),                               \
          transom_edge_call_returned()))

#include "edges.h"
