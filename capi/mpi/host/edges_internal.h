/* What the C files of the conflict checker share: functions in Rust, and functions by file. */
#ifndef TRANSOM_EDGES_INTERNAL_H
#define TRANSOM_EDGES_INTERNAL_H

#define _GNU_SOURCE
#include "host.h"

#include <stdint.h>

/* --- functions in Rust ------------------------------------------------------------------------ */

/* In src/edges.rs. Counts a release, and stores this rank's clock. */
void transom_edge_release(uint64_t *clock);
/* Learns a clock. */
void transom_edge_learn(const uint64_t *clock);
/* Learns the merged clock of ranks that have exchanged their clocks: `all` ranks of the job, or
 * some. As many words follow: the same, but each rank's clock without its own entry. */
void transom_edge_learn_met(const uint64_t *clocks, int all);
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
void transom_edge_call_has_read(void);
void transom_edge_has_written(int bytes);
void transom_edge_call_returned(void);
void transom_edge_nonblocking_call_begins(void);

/* Messages. `group` is the number of the communicator. `takes`: 0 for a message that was only
 * probed. */
void transom_edge_send_begins(int rank, int tag, uint64_t group);
/* The call that sends messages has returned. */
void transom_edge_sends_end(void);
void transom_edge_receive_begins(int rank, int tag, uint64_t group);
void transom_edge_receive_is_posted(int rank, int tag, uint64_t group);
void transom_edge_receive_was_posted(void);
void transom_edge_message_received(int rank, int tag, uint64_t group, int takes);
void transom_edge_synchronous_send_ends(int rank, int tag, uint64_t group);
/* A call has failed: a send, whose message may not come, or a receive, which may have taken one. */
void transom_edge_message_fails(void);
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
/* In src/requests.rs. */
void transom_request_will_be_freed(const MPI_Request *request);

/* In src/partitioned.rs. `peer` is -1 for MPI_PROC_NULL, and -2 for an unknown rank. */
void transom_edge_request_of_partitioned(MPI_Request request, int peer, int tag, uint64_t group, int sends,
                                         int partitions, const void *buffer, int64_t bytes);
void transom_edge_partition_is_ready(MPI_Request request, int partition);
void transom_edge_partition_has_arrived(MPI_Request request, int partition);
/* The program makes a persistent request of a collective call. */
void transom_edge_makes_persistent_collective(void);

/* In src/turns.rs, which explains waits in turns. Whether a collective call, or a call for one
 * message, waits in turns. If the host has reported the communicator, `code` gets what the call
 * returns; otherwise `code` keeps its value, NOT_REPORTED. */
enum { NOT_REPORTED = -1 };
int transom_turns_for_collective(MPI_Comm comm, int *code);
int transom_turns_for_message(void);
/* Waits for a request in turns. */
int transom_turns_await(MPI_Request *request, MPI_Status *status);
/* Whether the arguments of a receive are valid. Otherwise the host has reported them, and `code`
 * gets what the call returns. */
int transom_turns_check(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, int *code);
/* Receives a message in turns. */
int transom_turns_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status);
/* Polls transom before a test of the host, and pauses. `vain` is at first 0; it counts the tests in
 * vain since the last arrival. Returns whether the wait continues in turns. */
int transom_turns_next(unsigned *vain);
/* Makes progress for transom after a test for a message that has found none. */
void transom_turns_found_nothing(void);

/* Called from Rust too. */
void host_edges_learn_from_all(MPI_Comm comm, uint64_t *clock);

/* Functions of the C files for each other. */
#pragma GCC visibility push(hidden)

/* --- communicators.c -------------------------------------------------------------------------- */

/* The number of words of a clock: one for each rank of the job, or 0 while the checker is off. */
extern int clock_words;

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

/* The peer of a message to or from MPI_PROC_NULL. */
enum { NO_PEER = -2 };

struct group *group_of(MPI_Comm comm);
int is_of_job(MPI_Comm comm);
int is_inter(MPI_Comm comm);
int merge_both_groups(uint64_t *numbers, int count, MPI_Comm between);
void number_new_comm(MPI_Comm comm);
void copy_begins(MPI_Comm comm, const MPI_Comm *out, const MPI_Request *request, uint64_t turn);
int in_job(const struct group *group, int rank);
int is_root(MPI_Comm comm, int root);
int gets_from_root(MPI_Comm comm, int root);
int neighbors(MPI_Comm comm, int sending);
int is_missing(MPI_Comm comm, int neighbor);
int senders(MPI_Comm comm, int *from, int count);

/* --- buffers.c -------------------------------------------------------------------------------- */

void lends(const void *buffer, int64_t count, MPI_Datatype type, int written);
void lends_message(const void *buffer, int64_t count, MPI_Datatype type, int rank, int written);
void lends_replaced(const void *buffer, int64_t count, MPI_Datatype type, int to, int from);
void lends_result(const void *sendbuf, const void *recvbuf, int64_t count, MPI_Datatype type);
int64_t times_size(MPI_Comm comm, int64_t count);
const void *block(const void *buffer, int64_t element, MPI_Datatype type);
void lends_gathered(const void *sendbuf, const void *recvbuf, int64_t recvcount, MPI_Datatype type, MPI_Comm comm);
void lends_matched(const void *buffer, int64_t count, MPI_Datatype type, MPI_Message message);

/* Buffers with a block for each rank. With _TYPE, each block has a datatype of its own, and
 * displacements are in bytes. */
#define FOR_EACH(count, body)                                                                                               \
    __extension__({                                                                                                         \
        for (int i = 0; i < (count); i++) body;                                                                             \
        (void)0;                                                                                                            \
    })
#define LENDS_EACH(buffer, counts, displs, type, comm, written)                                                             \
    FOR_EACH(group_of(comm)->size, lends(block(buffer, (displs)[i], type), (counts)[i], type, written))
#define LENDS_EACH_TYPE(buffer, counts, displs, types, comm, written)                                                       \
    FOR_EACH(group_of(comm)->size, lends((const char *)(buffer) + (displs)[i], (counts)[i], (types)[i], written))
#define LENDS_GATHERED(sendbuf, buffer, counts, displs, type, comm)                                                         \
    FOR_EACH(group_of(comm)->size,                                                                                          \
             lends(block(buffer, (displs)[i], type), (counts)[i], type, (sendbuf) != MPI_IN_PLACE || i != group_of(comm)->me))
/* MPI_Reduce_scatter: if `sendbuf` is MPI_IN_PLACE, the call reads `buffer`. */
#define LENDS_SCATTERED(sendbuf, buffer, counts, type, comm)                                                                \
    __extension__({                                                                                                         \
        int64_t sum = 0;                                                                                                    \
        for (int i = 0; i < group_of(comm)->size; i++) sum += (counts)[i];                                                  \
        lends((sendbuf) == MPI_IN_PLACE ? (const void *)(buffer) : (sendbuf), sum, type, 0);                                \
        lends(buffer, (counts)[group_of(comm)->me], type, 1);                                                               \
    })
/* Buffers with a block for each neighbor, of `count` elements from element `at` on. */
#define LENDS_NEIGHBORS(buffer, count, at, type, written)                                                                   \
    FOR_EACH(neighbors(comm, written), if (!is_missing(comm, i)) lends(block(buffer, at, type), count, type, written))
#define LENDS_NEIGHBOR_TYPES(buffer, counts, displs, types, written)                                                        \
    FOR_EACH(neighbors(comm, written),                                                                                      \
             if (!is_missing(comm, i)) lends((const char *)(buffer) + (displs)[i], (counts)[i], (types)[i], written))

/* --- collectives.c ---------------------------------------------------------------------------- */

void learn_from_all_of_both(MPI_Comm comm, uint64_t *clock);
void learn_from_root(MPI_Comm comm, int root, uint64_t *clock);
void learn_at_root(MPI_Comm comm, int root, uint64_t *clock);
void learn_from_lower(MPI_Comm comm, uint64_t *clock);
uint64_t begin_collective(MPI_Comm comm, uint64_t *clock);
void request_of_collective(MPI_Comm comm, uint64_t turn, int first, int count, const MPI_Request *request);
void learn_from_neighbors(MPI_Comm comm, uint64_t turn);
void request_of_neighborhood(MPI_Comm comm, uint64_t turn, const MPI_Request *request);
void request_of_persistent_from(MPI_Comm comm, int first, int count, const MPI_Request *request);
void request_of_persistent_neighborhood(MPI_Comm comm, const MPI_Request *request);

/* --- messages.c ------------------------------------------------------------------------------- */

/* What the call that this thread is about to make has: a message that it sends, a message that it
 * may take even if it fails, and a receive that it posts. */
enum { SENT = 1, TAKEN = 2, POSTED = 4 };
extern _Thread_local unsigned call_has;

void *host_own_status(void *status);
void before_send(MPI_Comm comm, int rank, int tag, uint64_t *clock);
void after_synchronous_send(MPI_Comm comm, int rank, int tag);
void request_of_synchronous_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request);
void before_match(MPI_Comm comm, int rank, int tag);
void before_start(int count, const MPI_Request *requests);
void after_messages(unsigned has, int code);
void before_receive(MPI_Comm comm, int rank, int tag);
void after_receive(MPI_Comm comm, const MPI_Status *status, int takes);
void after_writing(const MPI_Status *status);
void request_of_receive(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int persistent);
void request_of_persistent_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int waits);

#pragma GCC visibility pop

#endif
