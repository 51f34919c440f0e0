/* The buffers that the host's calls read and write, for the conflict checker. */
#include "edges_internal.h"

/* A buffer of the call that this thread is about to make. `written`: the call writes the buffer. */
void lends(const void *buffer, int64_t count, MPI_Datatype type, int written) {
    if (buffer != MPI_IN_PLACE) transom_edge_adds_buffer(buffer, count, type, written);
}
/* The buffer of a message to or from `rank`. */
void lends_message(const void *buffer, int64_t count, MPI_Datatype type, int rank, int written) {
    if (rank != MPI_PROC_NULL) lends(buffer, count, type, written);
}
/* The buffer of MPI_Sendrecv_replace, which is sent to `to` and then filled by a message of
 * `from`. */
void lends_replaced(const void *buffer, int64_t count, MPI_Datatype type, int to, int from) {
    if (to != MPI_PROC_NULL) lends(buffer, count, type, 0);
    if (from != MPI_PROC_NULL) lends(buffer, count, type, 1);
}
/* The buffer of a result, which also has the call's input if `sendbuf` is MPI_IN_PLACE. */
void lends_result(const void *sendbuf, const void *recvbuf, int64_t count, MPI_Datatype type) {
    if (sendbuf == MPI_IN_PLACE) lends(recvbuf, count, type, 0);
    lends(recvbuf, count, type, 1);
}
/* `count` elements for each rank. */
int64_t times_size(MPI_Comm comm, int64_t count) { return group_of(comm)->size * count; }

/* The address of an element of a buffer. */
const void *block(const void *buffer, int64_t element, MPI_Datatype type) {
    MPI_Aint low, extent = 0;
    HOST(Type_get_extent)(type, &low, &extent);
    return (const char *)buffer + element * extent;
}

/* The buffer `recvbuf` of a gather, which gets a block of `recvcount` elements of each rank. If
 * `sendbuf` is MPI_IN_PLACE, `recvbuf` already has this rank's block, which is only read. */
void lends_gathered(const void *sendbuf, const void *recvbuf, int64_t recvcount, MPI_Datatype type, MPI_Comm comm) {
    const struct group *group = group_of(comm);
    const int before = sendbuf == MPI_IN_PLACE ? group->me : group->size;
    lends(recvbuf, before * recvcount, type, 1);
    if (before == group->size) return;
    lends(block(recvbuf, before * recvcount, type), recvcount, type, 0);
    lends(block(recvbuf, (before + 1) * recvcount, type), (group->size - before - 1) * recvcount, type, 1);
}

/* The buffer of a receive of a matched message (MPI_Mprobe). */
void lends_matched(const void *buffer, int64_t count, MPI_Datatype type, MPI_Message message) {
    if (message != MPI_MESSAGE_NO_PROC) lends(buffer, count, type, 1);
}
