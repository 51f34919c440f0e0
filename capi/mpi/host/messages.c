/* The clocks that a rank learns by messages, for the conflict checker. */
#include "edges_internal.h"

/* The status for a call of the host: the program's, or a status of this thread if the program
 * ignores the status. For calls during which the host calls no function of the program. */
void *host_own_status(void *status) {
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

/* The state of a request, by its status, after a call that failed with `code`: `State` in
 * src/host/requests.rs. */
int host_status_state(void *statuses, int index, int code) {
    enum { COMPLETE, PENDING, FAILED };
    const int is_known = statuses != MPI_STATUS_IGNORE && statuses != MPI_STATUSES_IGNORE;
    int class = MPI_ERR_UNKNOWN;
    HOST(Error_class)(code, &class);
    if (class == MPI_ERR_IN_STATUS && is_known) HOST(Error_class)(((const MPI_Status *)statuses)[index].MPI_ERROR, &class);
    if (class == MPI_ERR_PENDING) return PENDING;
    return class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE ? COMPLETE : FAILED;
}

/* Whether a status is of a cancelled request. */
int host_status_is_cancelled(void *statuses, int index) {
    int is_cancelled = 0;
    if (statuses == MPI_STATUS_IGNORE || statuses == MPI_STATUSES_IGNORE) return 0;
    return HOST(Test_cancelled)((const MPI_Status *)statuses + index, &is_cancelled) == MPI_SUCCESS && is_cancelled;
}

_Thread_local unsigned call_has;

/* Before a message is sent. */
void before_send(MPI_Comm comm, int rank, int tag, uint64_t *clock) {
    const struct group *group = group_of(comm);
    const int peer = in_job(group, rank);
    if (peer >= 0) transom_edge_send_begins(peer, tag, group->number), call_has |= SENT;
    else transom_edge_release(clock);
}

/* Before persistent requests are started. */
void before_start(int count, const MPI_Request *requests) {
    for (int i = 0; i < count; i++) transom_edge_request_starts(requests[i]);
    call_has |= SENT | TAKEN | POSTED;
}

/* After a synchronous send. */
void after_synchronous_send(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    const int peer = in_job(group, rank);
    if (rank == MPI_PROC_NULL) return;
    if (peer >= 0) transom_edge_synchronous_send_ends(peer, tag, group->number);
    else transom_edge_learn_all();
}
/* A synchronous send has a request. */
void request_of_synchronous_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    if (rank == MPI_PROC_NULL) transom_edge_request_learns_nothing(request);
    else transom_edge_request_of_synchronous_send(request, in_job(group, rank), tag, group->number);
}

/* Before a call that may take a message: other receives may take earlier messages. */
void before_match(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (!group->number || rank == MPI_PROC_NULL) return;
    transom_edge_receive_is_posted(in_job(group, rank), tag == MPI_ANY_TAG ? -1 : tag, group->number);
    call_has |= POSTED;
}

/* After a call that had these messages. */
void after_messages(unsigned has, int code) {
    if (code != MPI_SUCCESS && has & (SENT | TAKEN)) transom_edge_message_fails();
    if (has & SENT) transom_edge_sends_end();
    if (has & POSTED) transom_edge_receive_was_posted();
}

/* Before a message is received. A synchronous sender of the message learns this rank's clock at
 * this point. */
void before_receive(MPI_Comm comm, int rank, int tag) {
    const struct group *group = group_of(comm);
    if (!group->number || rank == MPI_PROC_NULL) return;
    transom_edge_receive_begins(in_job(group, rank), tag == MPI_ANY_TAG ? -1 : tag, group->number);
    before_match(comm, rank, tag);
}

/* After a message was received or probed. */
void after_receive(MPI_Comm comm, const MPI_Status *status, int takes) {
    const struct group *group = group_of(comm);
    const int rank = status->MPI_SOURCE;
    if (rank == MPI_PROC_NULL) return;
    const int peer = in_job(group, rank);
    if (peer >= 0) transom_edge_message_received(peer, status->MPI_TAG, group->number, takes);
    else transom_edge_learn_all();
}

/* After a blocking receive, which writes no bytes behind those of its message (MPI-4.1 3.2.4). */
void after_writing(const MPI_Status *status) {
    int bytes = 0;
    if (HOST(Get_count)(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes != MPI_UNDEFINED) transom_edge_has_written(bytes);
}

/* A receive has a request. */
void request_of_receive(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int persistent) {
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
void request_of_persistent_send(MPI_Comm comm, int rank, int tag, const MPI_Request *request, int waits) {
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
    const unsigned has = call_has | TAKEN;
    call_has = 0;
    transom_edge_wait_begins("MPI_Recv");
    const int code = HOST(Recv)(buffer, count, type, rank, tag, comm, known);
    transom_edge_call_has_read();
    transom_edge_wait_ends();
    if (code == MPI_SUCCESS) after_receive(comm, known, 1), after_writing(known);
    transom_edge_call_returned();
    after_messages(has, code);
    return code;
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
