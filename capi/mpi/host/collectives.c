/* The clocks that a rank learns by collective calls, for the conflict checker. */
#include "edges_internal.h"

#include <string.h>

/* --- blocking calls --------------------------------------------------------------------------- */

/* Stores a clock without this rank's own entry. */
static void without_own(const uint64_t *clock, uint64_t *out) {
    int rank = 0;
    HOST(Comm_rank)(MPI_COMM_WORLD, &rank);
    memcpy(out, clock, clock_words * sizeof *out);
    out[rank] = 0;
}
/* Stores a clock, and behind it the clock without this rank's own entry. */
static void with_and_without_own(const uint64_t *clock, uint64_t *out) {
    memcpy(out, clock, clock_words * sizeof *out);
    without_own(clock, out + clock_words);
}

/* After a call in which every rank waits for all ranks, or for all ranks of the other group. */
void host_edges_learn_from_all(MPI_Comm comm, uint64_t *clock) {
    uint64_t met[2 * clock_words];
    int size = 0;
    if (is_inter(comm)) {
        if (HOST(Allreduce)(clock, met, clock_words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) transom_edge_learn(met);
        return;
    }
    if (!is_of_job(comm)) {
        transom_edge_learn_all();
        return;
    }
    with_and_without_own(clock, met);
    if (HOST(Allreduce)(MPI_IN_PLACE, met, 2 * clock_words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        HOST(Comm_size)(comm, &size);
        transom_edge_learn_met(met, size == clock_words);
    }
}

/* After a call in which every rank waits for all ranks, of both groups if there are two. */
void learn_from_all_of_both(MPI_Comm comm, uint64_t *clock) {
    uint64_t met[2 * clock_words];
    if (comm == MPI_COMM_NULL) return;
    if (!is_inter(comm)) {
        host_edges_learn_from_all(comm, clock);
        return;
    }
    with_and_without_own(clock, met);
    if (merge_both_groups(met, 2 * clock_words, comm) == MPI_SUCCESS) transom_edge_learn_met(met, 0);
}

/* After a call in which all ranks wait for the root, such as a broadcast. */
void learn_from_root(MPI_Comm comm, int root, uint64_t *clock) {
    if (!is_of_job(comm) && !is_inter(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Bcast)(clock, clock_words, MPI_UINT64_T, root, comm) == MPI_SUCCESS && gets_from_root(comm, root)) {
        transom_edge_learn(clock);
    }
}

/* After a call in which the root waits for all ranks, such as a reduction. */
void learn_at_root(MPI_Comm comm, int root, uint64_t *clock) {
    uint64_t own[clock_words], met[clock_words];
    const int learns = is_root(comm, root);
    if (!is_of_job(comm) && !is_inter(comm)) {
        transom_edge_learn_all();
        return;
    }
    without_own(clock, own);
    const int code = HOST(Reduce)(learns ? own : clock, met, clock_words, MPI_UINT64_T, MPI_MAX, root, comm);
    if (code == MPI_SUCCESS && learns) transom_edge_learn(met);
}

/* After a call in which each rank waits for all lower ranks: a scan. */
void learn_from_lower(MPI_Comm comm, uint64_t *clock) {
    uint64_t met[clock_words];
    if (!is_of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Exscan)(clock, met, clock_words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS && group_of(comm)->me > 0) {
        transom_edge_learn(met);
    }
}

/* --- nonblocking, persistent and neighborhood calls ------------------------------------------- */

/* Before a nonblocking or neighborhood call. Returns the number of the call in its communicator,
 * or 0 if the communicator has no number. */
uint64_t begin_collective(MPI_Comm comm, uint64_t *clock) {
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
void request_of_collective(MPI_Comm comm, uint64_t turn, int first, int count, const MPI_Request *request) {
    const struct group *group = group_of(comm);
    if (turn) transom_edge_request_of_collective(request, group->number, turn, group->ranks + (count ? first : 0), count);
    else transom_edge_request_learns_all(request);
}

/* After a call in which each rank waits for its neighbors. */
void learn_from_neighbors(MPI_Comm comm, uint64_t turn) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    if (turn) transom_edge_collective_ends(group_of(comm)->number, turn, from, senders(comm, from, count));
    else transom_edge_learn_all();
}
/* A nonblocking call has a request, which waits for the neighbors. */
void request_of_neighborhood(MPI_Comm comm, uint64_t turn, const MPI_Request *request) {
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
void request_of_persistent_from(MPI_Comm comm, int first, int count, const MPI_Request *request) {
    struct group *group = group_of(comm);
    request_of_persistent(group, group->ranks ? group->ranks + (count ? first : 0) : 0, count, request);
}
void request_of_persistent_neighborhood(MPI_Comm comm, const MPI_Request *request) {
    const int count = neighbors(comm, 1);
    int from[count + 1];
    request_of_persistent(group_of(comm), from, is_of_job(comm) ? senders(comm, from, count) : 0, request);
}
