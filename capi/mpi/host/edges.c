/* Wraps the host's functions that order the ranks, for the conflict checker (`TRANSOM_CHECK`). The
 * checker keeps a vector clock at each rank. Before the host's call the wrapper counts a release of
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
 * If the program has ThreadSanitizer, the wrappers also tell ThreadSanitizer of the calls' buffers.
 *
 * This file has the wrappers; `edges.h` lists the functions. The steps before and after the host's
 * call are in `collectives.c`, `messages.c`, `buffers.c` and `communicators.c`. */
#include "edges_internal.h"

#include <stdio.h>
#include <stdlib.h>

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
static int receive_and_await(int code, MPI_Request *sent, void *buf, int count, MPI_Datatype datatype, int source, int tag,
                             MPI_Comm comm, MPI_Status *status) {
    /* A send that failed has no request, also if the host returns MPI_SUCCESS after the handler. */
    if (code != MPI_SUCCESS || *sent == MPI_REQUEST_NULL) return code;
    const int received = transom_turns_receive(buf, count, datatype, source, tag, comm, status);
    code = transom_turns_await(sent, MPI_STATUS_IGNORE);
    return received == MPI_SUCCESS ? code : received;
}

/* The data of a send as MPI_PACKED, and the host's function that sends it. */
struct packed {
    void *data;
    int len;
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
};

/* Packs the data of a send. Returns 0 if the host can't, for example for want of memory. The
 * arguments were checked. The caller frees `data`. */
static int packed(struct packed *copy, const void *buf, int count, MPI_Datatype datatype, int dest, MPI_Comm comm) {
    static int (*pack)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
    static int (*pack_size)(int, MPI_Datatype, MPI_Comm, int *);
    static int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    /* Each by itself: another thread may be here, and have stored some of them. */
    if (!pack) *(void **)&pack = host_function("PMPI_Pack");
    if (!pack_size) *(void **)&pack_size = host_function("PMPI_Pack_size");
    if (!isend) *(void **)&isend = host_function("PMPI_Isend");
    int room = 0;
    *copy = (struct packed){NULL, 0, isend};
    if (dest != MPI_PROC_NULL && (pack_size(count, datatype, comm, &room) != MPI_SUCCESS || room < 0)) return 0;
    copy->data = malloc(room > 0 ? (size_t)room : 1);
    if (!copy->data) return 0;
    if (room == 0 || pack(buf, count, datatype, copy->data, room, &copy->len, comm) == MPI_SUCCESS) return 1;
    free(copy->data);
    return 0;
}

#define LIST(...) __VA_ARGS__
/* If `turns` holds: begins the nonblocking form of a call, waits in turns, and returns. */
#define IN_TURNS(name, parameters, arguments, turns)                                                                        \
    int failed = NOT_REPORTED;                                                                                              \
    if (turns) {                                                                                                            \
        static int (*begin)(LIST parameters, MPI_Request *);                                                                \
        if (!begin) begin = (int (*)(LIST parameters, MPI_Request *))nonblocking_form(#name);                               \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        return await_in_turns(begin(LIST arguments, &request), &request);                                                   \
    }                                                                                                                       \
    if (failed != NOT_REPORTED) return failed;
#define COLLECTIVE_IN_TURNS(name, parameters, arguments)                                                                    \
    IN_TURNS(name, parameters, arguments, transom_turns_for_collective(comm, &failed))
#define MESSAGE_IN_TURNS(name, parameters, arguments) IN_TURNS(name, parameters, arguments, transom_turns_for_message())
/* MPI_Sendrecv in turns, unless the count of its receive is too large for MPI_Recv. */
#define SENDRECV_IN_TURNS(suffix, N)                                                                                        \
    if (transom_turns_for_message() && recvcount == (int)recvcount) {                                                       \
        static int (*begin)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);                              \
        if (!begin) begin = (int (*)(const void *, N, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))nonblocking_form("Send" #suffix); \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        int failed;                                                                                                         \
        if (!transom_turns_check(recvbuf, (int)recvcount, recvtype, source, recvtag, comm, &failed)) return failed;         \
        return receive_and_await(begin(sendbuf, sendcount, sendtype, dest, sendtag, comm, &request), &request,              \
                                 recvbuf, (int)recvcount, recvtype, source, recvtag, comm, status);                         \
    }
/* MPI_Sendrecv_replace in turns. The packed copy of the data matches the receive's type (MPI-4.1
 * section 5.2). Without memory for the copy the host makes the call. */
#define SENDRECV_REPLACE_IN_TURNS                                                                                           \
    if (transom_turns_for_message() && count == (int)count) {                                                               \
        struct packed copy;                                                                                                 \
        int failed;                                                                                                         \
        if (!transom_turns_check(buf, (int)count, datatype, source, recvtag, comm, &failed)) return failed;                 \
        if (packed(&copy, buf, (int)count, datatype, dest, comm)) {                                                         \
            MPI_Request request = MPI_REQUEST_NULL;                                                                         \
            const int begun = copy.isend(copy.data, copy.len, MPI_PACKED, dest, sendtag, comm, &request);                   \
            const int code = receive_and_await(begun, &request, buf, (int)count, datatype, source, recvtag, comm, status);  \
            free(copy.data);                                                                                                \
            return code;                                                                                                    \
        }                                                                                                                   \
    }
/* Repeats a test that sets `flag` when the wait is over. The test does not set `flag` if the host
 * has reported an error; if the error handler returns, MPICH 5 returns MPI_SUCCESS. */
#define PROBE_IN_TURNS(test)                                                                                                \
    for (unsigned vain = 0; transom_turns_for_message() && transom_turns_next(&vain);) {                                    \
        int flag = REPORTED;                                                                                                \
        const int failed = test;                                                                                            \
        if (failed != MPI_SUCCESS || flag) return failed;                                                                   \
    }

/* MPI_Mrecv in turns. */
#define MRECV_IN_TURNS(name)                                                                                                \
    if (transom_turns_for_message()) {                                                                                      \
        static int (*begin)(void *, __typeof__(count), MPI_Datatype, MPI_Message *, MPI_Request *);                         \
        if (!begin) *(void **)&begin = nonblocking_form(#name);                                                             \
        MPI_Request request = MPI_REQUEST_NULL;                                                                             \
        const int code = begin(buf, count, datatype, message, &request);                                                    \
        return code == MPI_SUCCESS ? transom_turns_await(&request, status) : code;                                          \
    }
/* A test for a message that finds none makes progress for transom, because programs repeat it. */
#define IPROBE_IN_TURNS(arguments)                                                                                          \
    const int code = next arguments;                                                                                        \
    if (code == MPI_SUCCESS && flag && !*flag) transom_turns_found_nothing();                                               \
    return code

/* Whether this thread is in a call that sends and receives. Open MPI's MPI_Sendrecv_replace may
 * call MPI_Sendrecv, and the message must count once. */
static _Thread_local int is_exchanging;

/* --- wrappers --------------------------------------------------------------------------------- */

/* Defines `edge_NAME`, which wraps the host's function NAME. While the checker is on, `before`
 * precedes the host's call, and `after` follows the call if it succeeds. While the checker is off,
 * `unchecked` precedes the call, which may return. `first` comes before both. `call_has` is read
 * before the host's call, because an error handler of the program may make calls. */
#define WRAP_FULLY(name, parameters, arguments, first, unchecked, before, after)                                            \
    int edge_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        first;                                                                                                              \
        const int words = clock_words;                                                                                      \
        if (!words) {                                                                                                       \
            unchecked;                                                                                                      \
            return next arguments;                                                                                          \
        }                                                                                                                   \
        uint64_t clock[words];                                                                                              \
        (void)clock;                                                                                                        \
        before;                                                                                                             \
        const unsigned has = call_has;                                                                                      \
        call_has = 0;                                                                                                       \
        transom_edge_wait_begins("MPI_" #name);                                                                             \
        const int code = next arguments;                                                                                    \
        is_exchanging = 0;                                                                                                  \
        transom_edge_call_has_read();                                                                                       \
        if (code == MPI_SUCCESS) {                                                                                          \
            after;                                                                                                          \
        }                                                                                                                   \
        transom_edge_call_returned();                                                                                       \
        after_messages(has, code);                                                                                          \
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
 * complete. The writes of a blocking call are ordered by its messages, so they are reported after
 * this rank has learned from those. */
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
    NONBLOCKING_COLLECTIVE(name, parameters, arguments, buffers, request_of_collective(comm, turn, first, count, request))
#define IFROM_ALL(name, parameters, arguments, buffers)                                                                     \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->size)
#define IFROM_ROOT(name, parameters, arguments, buffers)                                                                    \
    IFROM_RANKS(name, parameters, arguments, buffers, root, gets_from_root(comm, root))
#define ITO_ROOT(name, parameters, arguments, buffers)                                                                      \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, is_root(comm, root) ? group_of(comm)->size : 0)
#define IFROM_LOWER(name, parameters, arguments, buffers)                                                                   \
    IFROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->me)
#define IFROM_NEIGHBORS(name, parameters, arguments, buffers)                                                               \
    NONBLOCKING_COLLECTIVE(name, parameters, arguments, buffers, request_of_neighborhood(comm, turn, request))

/* Calls that make a persistent request of a collective call. They have two more arguments. */
#define COLLECTIVE_INIT(name, parameters, arguments, buffers, made)                                                         \
    WRAP_FULLY(name, (LIST parameters, MPI_Info info, MPI_Request *request), (LIST arguments, info, request),               \
               transom_edge_makes_persistent_collective(), (void)0, , (IF_IN_JOB(buffers), made))
#define INIT_FROM_RANKS(name, parameters, arguments, buffers, first, count)                                                 \
    COLLECTIVE_INIT(name, parameters, arguments, buffers, request_of_persistent_from(comm, first, count, request))
#define INIT_FROM_NEIGHBORS(name, parameters, arguments, buffers)                                                           \
    COLLECTIVE_INIT(name, parameters, arguments, buffers, request_of_persistent_neighborhood(comm, request))

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
         copy_begins(comm, out, request, turn))

/* Sends. A synchronous send waits until the receive of its message has begun. */
#define SEND(name, parameters, arguments)                                                                                   \
    WRAP_IN_TURNS(name, parameters, arguments, MESSAGE_IN_TURNS(name, parameters, arguments),                               \
                  (BLOCKING_WITH(lends_message(buf, count, datatype, dest, 0)), before_send(comm, dest, tag, clock)), )
#define SYNCHRONOUS_SEND(name, parameters, arguments)                                                                       \
    WRAP_IN_TURNS(name, parameters, arguments, MESSAGE_IN_TURNS(name, parameters, arguments),                               \
                  (BLOCKING_WITH(lends_message(buf, count, datatype, dest, 0)), before_send(comm, dest, tag, clock)),       \
                  after_synchronous_send(comm, dest, tag))
#define ISEND(name, parameters, arguments)                                                                                  \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(buf, count, datatype, dest, 0)), before_send(comm, dest, tag, clock)),             \
         transom_edge_request_learns_nothing(request))
#define SYNCHRONOUS_ISEND(name, parameters, arguments)                                                                      \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(buf, count, datatype, dest, 0)), before_send(comm, dest, tag, clock)),             \
         request_of_synchronous_send(comm, dest, tag, request))
#define SEND_INIT(name, parameters, arguments, waits)                                                                       \
    WRAP(name, parameters, arguments, ,                                                                                     \
         (lends_message(buf, count, datatype, dest, 0), request_of_persistent_send(comm, dest, tag, request, waits)))

/* Receives. */
#define RECV(name, parameters, arguments)                                                                                   \
    WRAP_IN_TURNS(name, parameters, arguments,                                                                              \
                  if (transom_turns_for_message() && count == (int)count)                                                   \
                      return transom_turns_receive(buf, (int)count, datatype, source, tag, comm, status),                   \
                  (BLOCKING_WITH(lends_message(buf, count, datatype, source, 1)), before_receive(comm, source, tag),        \
                   call_has |= TAKEN);                                                                                      \
                  status = host_own_status(status), (after_receive(comm, status, 1), after_writing(status)))
#define IRECV(name, parameters, arguments)                                                                                  \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_message(buf, count, datatype, source, 1)), before_receive(comm, source, tag)),             \
         request_of_receive(comm, source, tag, request, 0))
#define RECV_INIT(name, parameters, arguments)                                                                              \
    WRAP(name, parameters, arguments, ,                                                                                     \
         (lends_message(buf, count, datatype, source, 1), request_of_receive(comm, source, tag, request, 1)))

/* Sends and receives in one call. */
#define SENDRECV(name, parameters, arguments, unchecked, buffers)                                                           \
    WRAP_EXCHANGE(name, parameters, arguments, unchecked,                                                                   \
                  (BLOCKING_WITH(buffers), before_send(comm, dest, sendtag, clock), before_receive(comm, source, recvtag),  \
                   call_has |= TAKEN, status = host_own_status(status)),                                                    \
                  (after_receive(comm, status, 1), after_writing(status)))
#define ISENDRECV(name, parameters, arguments, buffers)                                                                     \
    WRAP_EXCHANGE(name, parameters, arguments, (void)0,                                                                     \
                  (NONBLOCKING_WITH(buffers), before_send(comm, dest, sendtag, clock),                                      \
                   before_receive(comm, source, recvtag)),                                                                  \
                  request_of_receive(comm, source, recvtag, request, 0))

/* Probes. `takes`: the call matches the message, which no other receive then gets. A probe shows
 * other ranks nothing, so it is no release, and a program may repeat it very often. */
#define PROBE(name, parameters, arguments, takes, test)                                                                     \
    WRAP_IN_TURNS(name, parameters, arguments, PROBE_IN_TURNS(test),                                                        \
                  if (takes) before_match(comm, source, tag);                                                               \
                  status = host_own_status(status), after_receive(comm, status, takes))
#define IPROBE(name, parameters, arguments, takes)                                                                          \
    WRAP_IN_TURNS(name, parameters, arguments, IPROBE_IN_TURNS(arguments),                                                  \
                  if (takes) before_match(comm, source, tag);                                                               \
                  status = host_own_status(status), if (*flag) after_receive(comm, status, takes))
/* Receives of a matched message, whose clock the matching call has learned. */
#define MRECV(name, parameters, arguments)                                                                                  \
    WRAP_IN_TURNS(name, parameters, arguments, MRECV_IN_TURNS(name),                                                        \
                  (BLOCKING_WITH(lends_matched(buf, count, datatype, *message)), transom_edge_receive_begins(-1, -1, 0));   \
                  status = host_own_status(status), after_writing(status))
#define IMRECV(name, parameters, arguments)                                                                                 \
    WRAP(name, parameters, arguments,                                                                                       \
         (NONBLOCKING_WITH(lends_matched(buf, count, datatype, *message)), transom_edge_receive_begins(-1, -1, 0)),         \
         transom_edge_request_learns_nothing(request))

/* Persistent requests and their ends. */
#define START(name, parameters, arguments, count, requests)                                                                 \
    WRAP(name, parameters, arguments, (transom_edge_release(clock), before_start(count, requests)), )
#define CANCEL_REQUEST(name, parameters, arguments)                                                                         \
    WRAP(name, parameters, arguments, transom_edge_request_is_cancelled(request), )
#define FREE_REQUEST(name, parameters, arguments)                                                                           \
    WRAP_FULLY(name, parameters, arguments, transom_request_will_be_freed(request), (void)0,                                \
               transom_edge_request_is_freed(request), )
/* Calls on partitions of a partitioned message. */
#define PARTITIONS(name, parameters, arguments, before, ...)                                                                \
    WRAP(name, parameters, arguments, transom_edge_release(clock); before, __VA_ARGS__)

/* The end of a request that the program itself completes, for which another thread may wait. MPICH
 * may call it within another call, whose buffers it leaves alone. */
#define GREQUEST(name, parameters, arguments)                                                                               \
    int edge_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        const int words = clock_words;                                                                                      \
        if (words) {                                                                                                        \
            uint64_t clock[words];                                                                                          \
            transom_edge_release(clock);                                                                                    \
        }                                                                                                                   \
        return next arguments;                                                                                              \
    }
/* Calls that wait for no other rank. */
#define LOCAL(name, parameters, arguments, buffers)                                                                         \
    WRAP(name, parameters, arguments, BLOCKING_WITH(buffers), )
/* MPI_Pack and MPI_Unpack, which write or read the packed buffer from `*position` on. The number of
 * packed bytes is known only after the call. */
#define PACK(name, parameters, arguments, buffer, packed, written)                                                          \
    WRAP(name, parameters, arguments, const int64_t from = *position; BLOCKING_WITH(buffer),                                \
         BLOCKING_WITH(lends((const char *)(packed) + from, *position - from, MPI_BYTE, written)))

#include "edges.h"
