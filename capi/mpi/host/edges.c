/* The host's functions that order the ranks, for the conflict checker (`TRANSOM_CHECK`). A release
 * precedes the host's call; after the call, this rank learns what the call made it wait for. The
 * clocks of a blocking collective call travel in a further one on the same communicator, which all
 * its ranks make at the same point. The clock of a message, or of a collective call that does not
 * wait, travels beside it, in memory of the node: the communicator has a number there, which its
 * ranks have agreed on when they made it. Where a call does not tell which ranks it waited for, the
 * rank learns all that any rank has released: the checker may then miss a conflict, and reports no
 * false one. ThreadSanitizer, where the program has it, is told of the buffers. */
#define _GNU_SOURCE
#include "host.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* In Rust: count a release and store this rank's clock; learn a clock, which every rank of the job
 * learns if `all` is set; learn all releases. */
void transom_edge_release(uint64_t *clock);
void transom_edge_learn(const uint64_t *clock, int all);
void transom_edge_learn_all(void);
/* In src/messages.rs: a buffer of a call that begins; the call uses its buffers until it returns,
 * or until its request is complete. */
void transom_edge_lends(const void *address, int64_t count, MPI_Datatype type, int written);
void transom_edge_uses(void);
void transom_edge_used(void);
void transom_edge_begins(void);
/* A message is sent; is received, or only looked at. */
void transom_edge_sent(int rank, int tag, uint64_t group);
void transom_edge_received(int rank, int tag, uint64_t group, int takes);
/* A message begins to be received; a synchronous send of one is over, or has a request. */
void transom_edge_begins_to_receive(int rank, int tag, uint64_t group);
void transom_edge_was_received(int rank, int tag, uint64_t group);
void transom_edge_sends_synchronously(const MPI_Request *request, int rank, int tag, uint64_t group);
/* Requests of sends and receives, and those that a start activates. */
void transom_edge_sends(const MPI_Request *request);
void transom_edge_waits_for_any(const MPI_Request *request);
void transom_edge_posts(const MPI_Request *request, int rank, int tag, uint64_t group, const int *ranks, int size,
                        int persistent);
void transom_edge_send_made(const MPI_Request *request, int rank, int tag, uint64_t group, int waits);
void transom_edge_starts(MPI_Request request);
void transom_edge_frees(const MPI_Request *request);
/* A collective call that does not wait: it begins, and has a request. One of neighbors is over. */
void transom_edge_enters(uint64_t group, uint64_t turn);
void transom_edge_meets(const MPI_Request *request, uint64_t group, uint64_t turn, const int *from, int size);
void transom_edge_met(uint64_t group, uint64_t turn, const int *from, int size);
/* One that can be started again has a request: the call's number among those of the group. */
void transom_edge_kept(const MPI_Request *request, uint64_t group, uint64_t call, const int *from, int size);
/* A communicator is being copied, by a collective call of the ranks `from`. */
void transom_edge_duplicates(const MPI_Request *request, const MPI_Comm *out, uint64_t number, uint64_t group,
                             uint64_t turn, const int *from, int size);
/* In src/partitioned.rs: a message in partitions has a request; `peer` is -1 for none and -2 for an
 * unknown one. A partition is ready, or has arrived. */
void transom_edge_partitioned(MPI_Request request, int peer, int tag, uint64_t group, int sends, int partitions,
                              const void *buffer, int64_t bytes);
void transom_edge_ready(MPI_Request request, int partition);
/* The program makes a persistent request of a collective call. */
void transom_edge_persistent(void);
void transom_edge_arrived(MPI_Request request, int partition);
/* A call that may wait for other ranks begins, and ends. */
void transom_edge_waits(const char *call);
void transom_edge_goes_on(void);
/* The job was started by another one. */
void transom_edge_has_parent(void);
/* In src/turns.rs: whether a collective call, or one for a message, waits in turns; a wait for a
 * request in turns; a check of a receive's arguments, and a receive in turns; the poll before a
 * test of the host. */
int transom_turns_for_all(MPI_Comm comm, int *code);
int transom_turns_for_one(void);
int transom_turns_await(MPI_Request *request, MPI_Status *status);
int transom_turns_check(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm);
int transom_turns_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status);
int transom_turns_next(unsigned test);

/* The words of a clock, one for each rank of the job; 0 while the checker is off. */
static int words;
/* What the checker knows of a communicator. It is kept for ever, because requests outlive their
 * communicator. */
struct group {
    /* Whether all ranks are of the job, in one group or in two: equal at all of them. */
    int is_of_job, is_between;
    /* What all ranks call it, 0 if they have not agreed on it; its calls that do not wait, and
     * those that made persistent requests, or copies by MPI_Comm_idup. */
    uint64_t number, turn, kept, copies;
    /* This rank's number, and how many ranks it may name as the peers of messages: with two groups
     * those of the other group. */
    int me, size;
    /* These ranks by their numbers in the job. */
    int *ranks;
};
/* The attribute that has it, and the numbers of MPI_COMM_WORLD and MPI_COMM_SELF. */
static int keyval = MPI_KEYVAL_INVALID;
enum { WORLD = 1, SELF };
/* The peer of a message to MPI_PROC_NULL, or from it. */
enum { NOBODY = -2 };

/* A duplicate is looked at anew. */
static int not_copied(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int forgotten(MPI_Comm comm, int key, void *kept, void *extra) {
    (void)comm, (void)key, (void)kept, (void)extra;
    return MPI_SUCCESS;
}

/* Sets the number of words. */
void host_edges_begin(int count) {
    words = count;
    if (words && keyval == MPI_KEYVAL_INVALID) {
        HOST(Comm_create_keyval)(not_copied, forgotten, &keyval, 0);
    }
    MPI_Comm parent = MPI_COMM_NULL;
    if (words && HOST(Comm_get_parent)(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL) transom_edge_has_parent();
}

/* Stores the numbers in the job of a group's ranks. Returns whether all are of the job. */
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
        group->is_of_job = are_of_job && !inter, group->is_between = are_of_job && inter;
    }
    if (comm == MPI_COMM_WORLD) group->number = WORLD;
    if (comm == MPI_COMM_SELF) group->number = SELF;
    HOST(Comm_set_attr)(comm, keyval, group);
    return group;
}

static int of_job(MPI_Comm comm) { return group_of(comm)->is_of_job; }
static int is_between(MPI_Comm comm) { return group_of(comm)->is_between; }

/* Merges the numbers of all ranks of two groups, which all call it. */
static int merged(uint64_t *numbers, int count, MPI_Comm between) {
    uint64_t theirs[count];
    /* First the numbers of the other group come, then all that the other group has merged. */
    for (int turn = 0; turn < 2; turn++) {
        const int code = HOST(Allreduce)(numbers, theirs, count, MPI_UINT64_T, MPI_MAX, between);
        if (code != MPI_SUCCESS) return code;
        for (int i = 0; i < count; i++) numbers[i] = numbers[i] > theirs[i] ? numbers[i] : theirs[i];
    }
    return MPI_SUCCESS;
}

/* Numbers a communicator that its ranks have just made. */
static void made(MPI_Comm comm) {
    static uint64_t count;
    if (comm == MPI_COMM_NULL) return;
    struct group *group = group_of(comm);
    if (!group->is_of_job && !group->is_between) return;
    int rank = 0;
    HOST(Comm_rank)(MPI_COMM_WORLD, &rank);
    uint64_t number = (uint64_t)(rank + 1) << 32 | __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    const int code = group->is_between ? merged(&number, 1, comm) : HOST(Bcast)(&number, 1, MPI_UINT64_T, 0, comm);
    if (code == MPI_SUCCESS) group->number = number;
}

/* A copy of a communicator will be there when the request is complete. All its ranks give it the
 * same number, because they make the copies of a communicator in the same order. */
static void duplicates(MPI_Comm comm, const MPI_Comm *out, const MPI_Request *request, uint64_t turn) {
    struct group *group = group_of(comm);
    const uint64_t copy = __atomic_add_fetch(&group->copies, 1, __ATOMIC_RELAXED);
    const uint64_t number = (group->number ^ copy * 0x9e3779b97f4a7c15) | (uint64_t)1 << 62;
    transom_edge_duplicates(request, out, turn ? number : 0, group->number, turn, group->ranks, turn ? group->size : 0);
}
void host_edges_duplicated(const MPI_Comm *out, uint64_t number) { group_of(*out)->number = number; }

/* --- buffers ---------------------------------------------------------------------------------- */

static void lends(const void *buffer, int64_t count, MPI_Datatype type, int written) {
    if (buffer != MPI_IN_PLACE) transom_edge_lends(buffer, count, type, written);
}
/* The buffer of a message to or from a rank. */
static void passes(const void *buffer, int64_t count, MPI_Datatype type, int rank, int written) {
    if (rank != MPI_PROC_NULL) lends(buffer, count, type, written);
}
/* A buffer that is sent and then filled by a message. */
static void replaces(const void *buffer, int64_t count, MPI_Datatype type, int to, int from) {
    if (to != MPI_PROC_NULL || from != MPI_PROC_NULL) lends(buffer, count, type, from != MPI_PROC_NULL);
}
static int is_root(MPI_Comm comm, int root) { return is_between(comm) ? root == MPI_ROOT : group_of(comm)->me == root; }
/* Whether this rank gets the root's data. */
static int hears_root(MPI_Comm comm, int root) { return is_between(comm) ? root >= 0 : !is_root(comm, root); }
static int64_t of_all(MPI_Comm comm, int64_t count) { return group_of(comm)->size * count; }

/* The block of a buffer that begins with that element. */
static const void *block(const void *buffer, int64_t element, MPI_Datatype type) {
    MPI_Aint low, extent = 0;
    HOST(Type_get_extent)(type, &low, &extent);
    return (const char *)buffer + element * extent;
}

/* Lends the buffer `b` that gets a block of `m` elements of each rank. With the buffer `a` in place
 * it has this rank's block already. */
static void gathered(const void *a, const void *b, int64_t m, MPI_Datatype type, MPI_Comm comm) {
    const struct group *group = group_of(comm);
    const int before = a == MPI_IN_PLACE ? group->me : group->size;
    lends(b, before * m, type, 1);
    if (before == group->size) return;
    lends(block(b, before * m, type), m, type, 0);
    lends(block(b, (before + 1) * m, type), (group->size - before - 1) * m, type, 1);
}

/* How many neighbors send to this rank, or receive from it, and whether one is missing. */
static int neighbors(MPI_Comm comm, int sending) {
    int kind = MPI_UNDEFINED, count = 0, out = 0, weighted;
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART && HOST(Cartdim_get)(comm, &count) == MPI_SUCCESS) return 2 * count;
    if (kind == MPI_GRAPH) HOST(Graph_neighbors_count)(comm, group_of(comm)->me, &count), out = count;
    if (kind == MPI_DIST_GRAPH) HOST(Dist_graph_neighbors_count)(comm, &count, &out, &weighted);
    return sending ? count : out;
}
static int is_missing(MPI_Comm comm, int neighbor) {
    int kind = MPI_UNDEFINED, ends[2] = {0, 0};
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART) HOST(Cart_shift)(comm, neighbor / 2, 1, &ends[0], &ends[1]);
    return ends[neighbor % 2] == MPI_PROC_NULL;
}

/* Stores the neighbors that send to this rank, of which there are `count` with the missing ones, by
 * their numbers in the job. Returns how many these are. */
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

/* Buffers with a block for each rank: with counts `n` and displacements `d`, and, with _TYPE, a
 * type for each and displacements in bytes. */
#define FOR_EACH(count, body)                                                                                               \
    __extension__({                                                                                                         \
        for (int i = 0; i < (count); i++) body;                                                                             \
        (void)0;                                                                                                            \
    })
#define EACH(b, n, d, t, comm, written)                                                                                     \
    FOR_EACH(group_of(comm)->size, lends(block(b, (d)[i], t), (n)[i], t, written))
#define EACH_TYPE(b, n, d, t, comm, written)                                                                                \
    FOR_EACH(group_of(comm)->size, lends((const char *)(b) + (d)[i], (n)[i], (t)[i], written))
#define GATHERED(a, b, n, d, t, comm)                                                                                       \
    FOR_EACH(group_of(comm)->size,                                                                                          \
             lends(block(b, (d)[i], t), (n)[i], t, (a) != MPI_IN_PLACE || i != group_of(comm)->me))
/* What is read is in `b` if `a` is in place. */
#define SCATTERED(a, b, n, t, comm)                                                                                         \
    __extension__({                                                                                                         \
        int64_t sum = 0;                                                                                                    \
        for (int i = 0; i < group_of(comm)->size; i++) sum += (n)[i];                                                       \
        lends((a) == MPI_IN_PLACE ? (const void *)(b) : (a), sum, t, 0);                                                    \
        lends(b, (n)[group_of(comm)->me], t, 1);                                                                            \
    })
/* With a block for each neighbor, of `count` elements from the element `at` on. */
#define NEIGHBORS(b, count, at, t, written)                                                                                 \
    FOR_EACH(neighbors(comm, written), if (!is_missing(comm, i)) lends(block(b, at, t), count, t, written))
#define NEIGHBOR_TYPES(b, n, d, t, written)                                                                                 \
    FOR_EACH(neighbors(comm, written),                                                                                      \
             if (!is_missing(comm, i)) lends((const char *)(b) + (d)[i], (n)[i], (t)[i], written))

/* --- collective calls that wait --------------------------------------------------------------- */

/* After a call in which every rank waits for all, or for all of the other group. */
void host_edges_all(MPI_Comm comm, uint64_t *clock) {
    uint64_t theirs[words];
    int size = 0;
    if (is_between(comm)) {
        if (HOST(Allreduce)(clock, theirs, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) transom_edge_learn(theirs, 0);
    } else if (!of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Allreduce)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        HOST(Comm_size)(comm, &size);
        transom_edge_learn(clock, size == words);
    }
}

/* After a call in which every rank of both groups, or of one, waits for all. */
static void all_met(MPI_Comm comm, uint64_t *clock) {
    if (comm == MPI_COMM_NULL) return;
    if (!is_between(comm)) host_edges_all(comm, clock);
    else if (merged(clock, words, comm) == MPI_SUCCESS) transom_edge_learn(clock, 0);
}

/* After a call in which all ranks wait for the root. */
static void from_root(MPI_Comm comm, int root, uint64_t *clock) {
    if (!of_job(comm) && !is_between(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Bcast)(clock, words, MPI_UINT64_T, root, comm) == MPI_SUCCESS && hears_root(comm, root)) {
        transom_edge_learn(clock, 0);
    }
}

/* After a call in which the root waits for all ranks. */
static void to_root(MPI_Comm comm, int root, uint64_t *clock) {
    uint64_t met[words];
    if (!of_job(comm) && !is_between(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Reduce)(clock, met, words, MPI_UINT64_T, MPI_MAX, root, comm) == MPI_SUCCESS && is_root(comm, root)) {
        transom_edge_learn(met, 0);
    }
}

/* After a call in which each rank waits for the ranks before it. */
static void from_lower(MPI_Comm comm, uint64_t *clock) {
    if (!of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Scan)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        transom_edge_learn(clock, 0);
    }
}

/* --- messages --------------------------------------------------------------------------------- */

/* A status for a call that begins no other one, instead of one that the program ignores. */
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

/* Before a message is sent. */
static void before_send(MPI_Comm comm, int rank, int tag, uint64_t *clock) {
    const struct group *group = group_of(comm);
    if (group->number && rank >= 0 && rank < group->size) transom_edge_sent(group->ranks[rank], tag, group->number);
    else transom_edge_release(clock);
}

/* After a synchronous send. */
static void after_send(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (rank == MPI_PROC_NULL) return;
    if (group->number && rank >= 0 && rank < group->size) transom_edge_was_received(group->ranks[rank], tag, group->number);
    else transom_edge_learn_all();
}
static void sends_synchronously(MPI_Comm comm, int rank, int tag, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    const int named = group->number && rank >= 0 && rank < group->size;
    if (rank == MPI_PROC_NULL) transom_edge_sends(request);
    else transom_edge_sends_synchronously(request, named ? group->ranks[rank] : -1, tag, group->number);
}

/* The buffer of a message that was matched. */
static void matches(const void *buffer, int64_t count, MPI_Datatype type, MPI_Message message) {
    if (message != MPI_MESSAGE_NO_PROC) lends(buffer, count, type, 1);
}

/* Before a message is received: what its synchronous sender knows when it is over. */
static void before_receive(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (!group->number || rank == MPI_PROC_NULL) return;
    const int named = rank >= 0 && rank < group->size;
    transom_edge_begins_to_receive(named ? group->ranks[rank] : -1, tag == MPI_ANY_TAG ? -1 : tag, group->number);
}

/* After a message was received, or looked at. */
static void after_receive(MPI_Comm comm, const MPI_Status *status, int takes) {
    const struct group *group = group_of(comm);
    const int rank = status->MPI_SOURCE;
    if (rank == MPI_PROC_NULL) return;
    if (group->number && rank >= 0 && rank < group->size) {
        transom_edge_received(group->ranks[rank], status->MPI_TAG, group->number, takes);
    } else {
        transom_edge_learn_all();
    }
}

/* A receive has a request. */
static void posts(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int persistent) {
    const struct group *group = group_of(comm);
    if (rank == MPI_PROC_NULL) {
        if (persistent) transom_edge_send_made(request, NOBODY, tag, 0, 0);
        else transom_edge_sends(request);
        return;
    }
    const int named = rank != MPI_ANY_SOURCE && rank >= 0 && rank < group->size;
    transom_edge_posts(request, named && group->ranks ? group->ranks[rank] : -1, tag == MPI_ANY_TAG ? -1 : tag, group->number,
                       group->ranks, group->size, persistent);
}

static void send_made(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int waits) {
    const struct group *group = group_of(comm);
    const int named = group->number && rank >= 0 && rank < group->size;
    const int peer = rank == MPI_PROC_NULL ? NOBODY : named ? group->ranks[rank] : -1;
    transom_edge_send_made(request, peer, tag, group->number, waits);
}

/* Receives a message by MPI_Recv. */
int host_edges_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status *const known = host_own_status(status);
    passes(buffer, count, type, rank, 1);
    transom_edge_uses();
    before_receive(comm, rank, tag);
    transom_edge_waits("MPI_Recv");
    const int code = HOST(Recv)(buffer, count, type, rank, tag, comm, known);
    transom_edge_used();
    transom_edge_goes_on();
    if (code == MPI_SUCCESS) after_receive(comm, known, 1);
    return code;
}

/* --- collective calls that do not wait, or wait for neighbors --------------------------------- */

/* Before the call: its turn. */
static uint64_t enters(MPI_Comm comm, uint64_t *clock) {
    struct group *group = group_of(comm);
    if (!group->number) {
        transom_edge_release(clock);
        return 0;
    }
    const uint64_t turn = __atomic_add_fetch(&group->turn, 1, __ATOMIC_RELAXED);
    transom_edge_enters(group->number, turn);
    return turn;
}

/* After the call, which waits for the ranks from `first` on, `count` of them. */
static void meets(MPI_Comm comm, uint64_t turn, int first, int count, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    if (turn) transom_edge_meets(request, group->number, turn, group->ranks + (count ? first : 0), count);
    else transom_edge_waits_for_any(request);
}

/* After a call in which each rank waits for its neighbors. */
static void met_neighbors(MPI_Comm comm, uint64_t turn) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    if (turn) transom_edge_met(group_of(comm)->number, turn, from, senders(comm, from, count));
    else transom_edge_learn_all();
}
static void meets_neighbors(MPI_Comm comm, uint64_t turn, const MPI_Request *request) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    if (turn) transom_edge_meets(request, group_of(comm)->number, turn, from, senders(comm, from, count));
    else transom_edge_waits_for_any(request);
}

/* After a call that makes a persistent request. When that is complete, this rank knows what the
 * ranks from `first` on, `count` of them, knew when they started theirs. */
static void kept_of(struct group *group, const int *ranks, int count, const MPI_Request *request) {
    const uint64_t call = group->number ? __atomic_add_fetch(&group->kept, 1, __ATOMIC_RELAXED) : 0;
    transom_edge_kept(request, group->number, call, ranks, count);
}
static void kept(MPI_Comm comm, int first, int count, const MPI_Request *request) {
    struct group *group = group_of(comm);
    kept_of(group, group->ranks ? group->ranks + (count ? first : 0) : 0, count, request);
}
static void kept_neighbors(MPI_Comm comm, const MPI_Request *request) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    kept_of(group_of(comm), from, of_job(comm) ? senders(comm, from, count) : 0, request);
}

/* A partitioned message has a request. */
void host_edges_partitioned(MPI_Comm comm, int rank, int tag, MPI_Request request, int sends, int partitions,
                            const void *buffer, int64_t count, MPI_Datatype type) {
    const struct group *group = group_of(comm);
    const int named = group->number && rank >= 0 && rank < group->size;
    MPI_Aint low = 0, extent = 0;
    HOST(Type_get_extent)(type, &low, &extent);
    const int peer = rank == MPI_PROC_NULL ? -1 : named ? group->ranks[rank] : -2;
    transom_edge_partitioned(request, peer, tag, group->number, sends, partitions, (const char *)buffer + low, count * extent);
}

/* --- waits in turns --------------------------------------------------------------------------- */

/* The host's function that begins a call without waiting for it: PMPI_Iallreduce of Allreduce. */
static void *beginning_of(const char *call) {
    char name[64];
    snprintf(name, sizeof name, "PMPI_I%c%s", call[0] | 0x20, call + 1);
    return host_function(name);
}

/* Waits for what a call has begun. */
static int awaited(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? transom_turns_await(request, MPI_STATUS_IGNORE) : code;
}

/* Sends a message, and receives one meanwhile. */
static int exchanged(int code, MPI_Request *sent, void *b, int m, MPI_Datatype u, int from, int tag, MPI_Comm comm,
                     MPI_Status *s) {
    if (code != MPI_SUCCESS) return code;
    const int received = transom_turns_receive(b, m, u, from, tag, comm, s);
    code = transom_turns_await(sent, MPI_STATUS_IGNORE);
    return received == MPI_SUCCESS ? code : received;
}

#define LIST(...) __VA_ARGS__
/* Begins a call without waiting for it, then waits in turns, if `turns` holds. */
#define IN_TURNS(name, parameters, arguments, turns)                                                                        \
    int failed = MPI_SUCCESS;                                                                                               \
    if (turns) {                                                                                                            \
        static int (*begin)(LIST parameters, MPI_Request *);                                                                \
        if (!begin) begin = (int (*)(LIST parameters, MPI_Request *))beginning_of(#name);                                   \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        return awaited(begin(LIST arguments, &request), &request);                                                          \
    }                                                                                                                       \
    if (failed != MPI_SUCCESS) return failed;
#define ALL_IN_TURNS(name, parameters, arguments)                                                                           \
    IN_TURNS(name, parameters, arguments, transom_turns_for_all(comm, &failed))
#define ONE_IN_TURNS(name, parameters, arguments) IN_TURNS(name, parameters, arguments, transom_turns_for_one())
/* MPI_Sendrecv in turns, unless the counts of its receive exceed those of MPI_Recv. */
#define EXCHANGED_IN_TURNS(suffix, N)                                                                                       \
    if (transom_turns_for_one() && m == (int)m) {                                                                           \
        static int (*begin)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);                              \
        if (!begin) begin = (int (*)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))beginning_of("Send" #suffix); \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        const int failed = transom_turns_check(b, (int)m, u, from, mark, comm);                                             \
        if (failed != MPI_SUCCESS) return failed;                                                                           \
        return exchanged(begin(a, n, t, to, tag, comm, &request), &request, b, (int)m, u, from, mark, comm, s);             \
    }
/* Repeats a test that sets `flag` when the wait is over. */
#define TESTED_IN_TURNS(test)                                                                                               \
    int flag = 0;                                                                                                           \
    for (unsigned tests = 0; transom_turns_for_one() && transom_turns_next(++tests);) {                                     \
        const int failed = test;                                                                                            \
        if (failed != MPI_SUCCESS || flag) return failed;                                                                   \
    }

/* Whether this thread is in a call that sends and receives. Open MPI's MPI_Sendrecv_replace may
 * call MPI_Sendrecv, and the message must count once. */
static _Thread_local int is_exchanging;

/* A function of the host with `before`, and `after` if it succeeds. `plain` precedes it while the
 * checker is off. */
#define EDGE_MARKED(name, parameters, arguments, mark, plain, before, after)                                                       \
    int edge_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        mark;                                                                                                               \
        const int count = words;                                                                                            \
        if (!count) {                                                                                                       \
            plain;                                                                                                          \
            return next arguments;                                                                                          \
        }                                                                                                                   \
        uint64_t clock[count];                                                                                              \
        (void)clock;                                                                                                        \
        before;                                                                                                             \
        transom_edge_waits("MPI_" #name);                                                                                   \
        const int code = next arguments;                                                                                    \
        is_exchanging = 0;                                                                                                  \
        transom_edge_used();                                                                                                \
        if (code == MPI_SUCCESS) {                                                                                          \
            after;                                                                                                          \
        }                                                                                                                   \
        transom_edge_goes_on();                                                                                             \
        return code;                                                                                                        \
    }

#define EDGE_BY(name, parameters, arguments, before, after)                                                                 \
    EDGE_MARKED(name, parameters, arguments, (void)0, (void)0, before, after)
/* The same for a call that sends and receives, unless it is a part of another one. */
#define EXCHANGE(name, parameters, arguments, plain, before, after)                                                         \
    EDGE_MARKED(name, parameters, arguments, if (is_exchanging) return next arguments, plain, (before, is_exchanging = 1),  \
                after)
#define EDGE_IN_TURNS(name, parameters, arguments, plain, before, after)                                                    \
    EDGE_MARKED(name, parameters, arguments, (void)0, plain, before, after)
#define EDGE(name, parameters, arguments, after) EDGE_BY(name, parameters, arguments, transom_edge_release(clock), after)
/* Between two groups not all arguments have a meaning. */
#define IN_JOB(buffers) (of_job(comm) ? (buffers) : (void)0)
/* With buffers, which `buffers` lends. */
#define USES(name, parameters, arguments, buffers, after)                                                                   \
    EDGE_IN_TURNS(name, parameters, arguments, ALL_IN_TURNS(name, parameters, arguments),                                   \
            (IN_JOB(buffers), transom_edge_uses(), transom_edge_release(clock)), after)
#define SENT(name, parameters, arguments)                                                                                   \
    EDGE_IN_TURNS(name, parameters, arguments, ONE_IN_TURNS(name, parameters, arguments),                                                                                  \
            (passes(b, n, t, rank, 0), transom_edge_uses(), before_send(comm, rank, tag, clock)), )
#define SENT_ANY(name, parameters, arguments)                                                                               \
    EDGE_IN_TURNS(name, parameters, arguments, ONE_IN_TURNS(name, parameters, arguments),                                                                                  \
            (passes(b, n, t, rank, 0), transom_edge_uses(), before_send(comm, rank, tag, clock)),                           \
            after_send(comm, rank, tag))
#define SENDS(name, parameters, arguments)                                                                                  \
    EDGE_BY(name, parameters, arguments,                                                                                    \
            (passes(b, n, t, rank, 0), transom_edge_begins(), before_send(comm, rank, tag, clock)),                         \
            transom_edge_sends(q))
#define SENDS_ANY(name, parameters, arguments)                                                                              \
    EDGE_BY(name, parameters, arguments,                                                                                    \
            (passes(b, n, t, rank, 0), transom_edge_begins(), before_send(comm, rank, tag, clock)),                         \
            sends_synchronously(comm, rank, tag, q))
#define SEND_MADE(name, parameters, arguments, waits)                                                                       \
    EDGE_BY(name, parameters, arguments, , (passes(b, n, t, rank, 0), send_made(comm, rank, tag, q, waits)))
#define POSTS(name, parameters, arguments)                                                                                  \
    EDGE_BY(name, parameters, arguments, (passes(b, n, t, rank, 1), transom_edge_begins(), before_receive(comm, rank, tag)),\
            posts(comm, rank, tag, q, 0))
#define RECEIVE_MADE(name, parameters, arguments)                                                                           \
    EDGE_BY(name, parameters, arguments, , (passes(b, n, t, rank, 1), posts(comm, rank, tag, q, 1)))
#define RECEIVED(name, parameters, arguments)                                                                               \
    EDGE_IN_TURNS(name, parameters, arguments,                                                                              \
            if (transom_turns_for_one() && n == (int)n) return transom_turns_receive(b, (int)n, t, rank, tag, comm, s),     \
            (passes(b, n, t, rank, 1), transom_edge_uses(), before_receive(comm, rank, tag));  \
            s = host_own_status(s),                                                                                         \
            after_receive(comm, s, 1))
/* Waits for no other rank. */
#define LOCAL(name, parameters, arguments, buffers)                                                                         \
    EDGE_BY(name, parameters, arguments, (buffers, transom_edge_uses()), )
/* Reads or writes a packed buffer from `*at` on. The call's end shows how many bytes of it. */
#define PACKED(name, parameters, arguments, buffer, packed, written)                                                        \
    EDGE_BY(name, parameters, arguments, const int64_t from = *at; (buffer, transom_edge_uses()),                           \
            (lends((const char *)(packed) + from, *at - from, MPI_BYTE, written), transom_edge_uses(),                      \
             transom_edge_used()))
/* Sends and receives. */
#define BOTH(name, parameters, arguments, plain, buffers)                                                                   \
    EXCHANGE(name, parameters, arguments, plain,                                                                            \
             (buffers, transom_edge_uses(), before_send(comm, to, tag, clock), before_receive(comm, from, mark),            \
              s = host_own_status(s)),                                                                                      \
             after_receive(comm, s, 1))
#define BOTH_POSTED(name, parameters, arguments, buffers)                                                                   \
    EXCHANGE(name, parameters, arguments, (void)0,                                                                          \
             (buffers, transom_edge_begins(), before_send(comm, to, tag, clock), before_receive(comm, from, mark)),         \
             posts(comm, from, mark, q, 0))
/* The message was taken when it was matched. */
#define MATCHED(name, parameters, arguments)                                                                                \
    EDGE_BY(name, parameters, arguments,                                                                                    \
            (matches(b, n, t, *message), transom_edge_uses(), transom_edge_begins_to_receive(-1, -1, 0)), )
#define MATCHED_POSTED(name, parameters, arguments)                                                                         \
    EDGE_BY(name, parameters, arguments,                                                                                    \
            (matches(b, n, t, *message), transom_edge_begins(), transom_edge_begins_to_receive(-1, -1, 0)),                 \
            transom_edge_sends(q))
#define PROBED(name, parameters, arguments, takes, test)                                                                    \
    EDGE_IN_TURNS(name, parameters, arguments, TESTED_IN_TURNS(test),                                                       \
            transom_edge_release(clock); s = host_own_status(s), after_receive(comm, s, takes))
#define PROBED_FLAG(name, parameters, arguments, takes)                                                                     \
    EDGE_BY(name, parameters, arguments, transom_edge_release(clock); s = host_own_status(s),                               \
            if (*flag) after_receive(comm, s, takes))
#define STARTED(name, parameters, arguments, count, requests)                                                               \
    EDGE_BY(name, parameters, arguments, transom_edge_release(clock);                                                       \
            for (int i = 0; i < (count); i++) transom_edge_starts((requests)[i]), )
#define FREED(name, parameters, arguments) EDGE_BY(name, parameters, arguments, transom_edge_frees(q), )
#define MAKES(name, parameters, arguments)                                                                                  \
    EDGE_BY(name, parameters, arguments, const uint64_t turn = enters(comm, clock), duplicates(comm, out, q, turn))
#define ANY(name, parameters, arguments) EDGE(name, parameters, arguments, transom_edge_learn_all())
#define BESIDE(name, parameters, arguments, buffers)                                                                        \
    EDGE_IN_TURNS(name, parameters, arguments, ALL_IN_TURNS(name, parameters, arguments),                                   \
            IN_JOB(buffers); transom_edge_uses(); const uint64_t turn = enters(comm, clock),   \
            met_neighbors(comm, turn))
#define IBESIDE(name, parameters, arguments, buffers)                                                                       \
    EDGE_BY(name, parameters, arguments, IN_JOB(buffers); transom_edge_begins(); const uint64_t turn = enters(comm, clock), \
            meets_neighbors(comm, turn, q))
/* Of partitioned messages: what comes before, and after. */
#define READY(name, parameters, arguments, before, ...)                                                                     \
    EDGE_BY(name, parameters, arguments, transom_edge_release(clock); before, __VA_ARGS__)
/* Makes a persistent request of a collective call, with two more arguments. */
#define MADE_BY(name, parameters, arguments, buffers, made)                                                                 \
    EDGE_MARKED(name, (LIST parameters, MPI_Info info, MPI_Request *q), (LIST arguments, info, q),                          \
                transom_edge_persistent(), (void)0, , (IN_JOB(buffers), made))
#define KEPT(name, parameters, arguments, buffers, first, count)                                                            \
    MADE_BY(name, parameters, arguments, buffers, kept(comm, first, count, q))
#define KEPT_BESIDE(name, parameters, arguments, buffers)                                                                   \
    MADE_BY(name, parameters, arguments, buffers, kept_neighbors(comm, q))
#define ALL(name, parameters, arguments, buffers) USES(name, parameters, arguments, buffers, host_edges_all(comm, clock))
#define DOWN(name, parameters, arguments, buffers) USES(name, parameters, arguments, buffers, from_root(comm, root, clock))
#define UP(name, parameters, arguments, buffers) USES(name, parameters, arguments, buffers, to_root(comm, root, clock))
#define SCAN(name, parameters, arguments, buffers) USES(name, parameters, arguments, buffers, from_lower(comm, clock))
#define MADE(name, parameters, arguments) EDGE(name, parameters, arguments, (made(*out), all_met(comm, clock)))
#define MADE_ALONE(name, parameters, arguments) EDGE(name, parameters, arguments, (made(*out), all_met(*out, clock)))
#define MEETS(name, parameters, arguments, buffers, first, count)                                                           \
    EDGE_BY(name, parameters, arguments, IN_JOB(buffers); transom_edge_begins(); const uint64_t turn = enters(comm, clock), \
            meets(comm, turn, first, count, q))
#define IALL(name, parameters, arguments, buffers) MEETS(name, parameters, arguments, buffers, 0, group_of(comm)->size)
#define IDOWN(name, parameters, arguments, buffers) MEETS(name, parameters, arguments, buffers, root, hears_root(comm, root))
#define IUP(name, parameters, arguments, buffers)                                                                           \
    MEETS(name, parameters, arguments, buffers, 0, is_root(comm, root) ? group_of(comm)->size : 0)
#define ISCAN(name, parameters, arguments, buffers) MEETS(name, parameters, arguments, buffers, 0, group_of(comm)->me)
#include "edges.h"
