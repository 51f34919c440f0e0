/* The host's functions that order the ranks, for the conflict checker (`TRANSOM_CHECK`). A release
 * precedes the host's call; after the call, this rank learns what the call made it wait for. The
 * clocks of a collective call travel in a further one on the same communicator, which all its ranks
 * make at the same place. The clock of a message that is sent by a blocking send on MPI_COMM_WORLD
 * and received by MPI_Recv travels beside it, in memory of the node. Where a call does not tell
 * which ranks it waited for, the rank learns all that any rank has released: the checker may then
 * miss a conflict, and reports no false one. */
#define _GNU_SOURCE
#include "host.h"

#include <stdint.h>

/* In Rust: count a release and store this rank's clock; learn a clock, which every rank of the job
 * learns if `all` is set; learn all releases. */
void transom_edge_release(uint64_t *clock);
void transom_edge_learn(const uint64_t *clock, int all);
void transom_edge_learn_all(void);
/* Count a release that goes with a message; learn what came with one; note that messages travel
 * whose clocks do not. */
void transom_edge_sent(int rank, int tag);
void transom_edge_received(int rank, int tag);
void transom_edge_mixed(void);
/* A call that may wait for other ranks begins, and ends. */
void transom_edge_waits(const char *call);
void transom_edge_goes_on(void);
/* The job was started by another one. */
void transom_edge_has_parent(void);

/* The words of a clock, one for each rank of the job; 0 while the checker is off. */
static int words;
/* The attribute of communicators that tells whether all their ranks are of the job. */
static int keyval = MPI_KEYVAL_INVALID;
enum { OF_JOB = 1, FOREIGN_RANKS = 2 };

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

/* Whether all ranks of a communicator are of the job: equal at all of them. */
static int of_job(MPI_Comm comm) {
    int inter = 1, size, flag = 0, outside = 0;
    void *known;
    if (HOST(Comm_get_attr)(comm, keyval, &known, &flag) == MPI_SUCCESS && flag) return (intptr_t)known == OF_JOB;
    HOST(Comm_test_inter)(comm, &inter);
    if (!inter) {
        MPI_Group group, world;
        HOST(Comm_size)(comm, &size);
        HOST(Comm_group)(comm, &group), HOST(Comm_group)(MPI_COMM_WORLD, &world);
        for (int rank = 0; rank < size && !outside; rank++) {
            int there;
            HOST(Group_translate_ranks)(group, 1, &rank, world, &there);
            outside = there == MPI_UNDEFINED;
        }
        HOST(Group_free)(&group), HOST(Group_free)(&world);
    }
    const int state = inter || outside ? FOREIGN_RANKS : OF_JOB;
    HOST(Comm_set_attr)(comm, keyval, (void *)(intptr_t)state);
    return state == OF_JOB;
}

/* After a call in which every rank waits for all. */
void host_edges_all(MPI_Comm comm, uint64_t *clock) {
    int size = 0;
    if (!of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Allreduce)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS) {
        HOST(Comm_size)(comm, &size);
        transom_edge_learn(clock, size == words);
    }
}

/* After a call in which all ranks wait for the root. */
static void from_root(MPI_Comm comm, int root, uint64_t *clock) {
    if (!of_job(comm)) {
        transom_edge_learn_all();
    } else if (HOST(Bcast)(clock, words, MPI_UINT64_T, root, comm) == MPI_SUCCESS) {
        transom_edge_learn(clock, 0);
    }
}

/* After a call in which the root waits for all ranks. */
static void to_root(MPI_Comm comm, int root, uint64_t *clock) {
    int rank;
    if (!of_job(comm)) {
        transom_edge_learn_all();
        return;
    }
    HOST(Comm_rank)(comm, &rank);
    if (rank != root) {
        HOST(Reduce)(clock, 0, words, MPI_UINT64_T, MPI_MAX, root, comm);
    } else if (HOST(Reduce)(MPI_IN_PLACE, clock, words, MPI_UINT64_T, MPI_MAX, root, comm) == MPI_SUCCESS) {
        transom_edge_learn(clock, 0);
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

/* Receives a message by MPI_Recv. */
int host_edges_receive(void *buffer, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own, *const known = status == MPI_STATUS_IGNORE ? &own : status;
    transom_edge_waits("MPI_Recv");
    const int code = HOST(Recv)(buffer, count, type, rank, tag, comm, known);
    transom_edge_goes_on();
    if (code == MPI_SUCCESS && rank != MPI_PROC_NULL) {
        if (comm == MPI_COMM_WORLD) transom_edge_received(known->MPI_SOURCE, known->MPI_TAG);
        else transom_edge_learn_all();
    }
    return code;
}

/* Before a blocking send. */
static void before_send(MPI_Comm comm, int rank, int tag, uint64_t *clock) {
    if (comm == MPI_COMM_WORLD && rank >= 0) transom_edge_sent(rank, tag);
    else transom_edge_release(clock);
}

/* A function of the host with `before`, and `after` if it succeeds. */
#define EDGE_BY(name, parameters, arguments, before, after)                                                                 \
    int edge_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        const int count = words;                                                                                            \
        if (!count) return next arguments;                                                                                  \
        uint64_t clock[count];                                                                                              \
        before;                                                                                                             \
        transom_edge_waits("MPI_" #name);                                                                                   \
        const int code = next arguments;                                                                                    \
        if (code == MPI_SUCCESS) {                                                                                          \
            after;                                                                                                          \
        }                                                                                                                   \
        transom_edge_goes_on();                                                                                             \
        return code;                                                                                                        \
    }

#define EDGE(name, parameters, arguments, after) EDGE_BY(name, parameters, arguments, transom_edge_release(clock), after)
#define MIXED transom_edge_mixed(), transom_edge_release(clock)
#define SENT(name, parameters, arguments) EDGE_BY(name, parameters, arguments, before_send(comm, rank, tag, clock), )
#define SENT_ANY(name, parameters, arguments)                                                                               \
    EDGE_BY(name, parameters, arguments, before_send(comm, rank, tag, clock), transom_edge_learn_all())
#define OTHER(name, parameters, arguments) EDGE_BY(name, parameters, arguments, MIXED, )
#define OTHER_ANY(name, parameters, arguments) EDGE_BY(name, parameters, arguments, MIXED, transom_edge_learn_all())
#define RELEASE(name, parameters, arguments) EDGE(name, parameters, arguments, )
#define ANY(name, parameters, arguments) EDGE(name, parameters, arguments, transom_edge_learn_all())
#define FLAG(name, parameters, arguments) EDGE(name, parameters, arguments, if (*flag) transom_edge_learn_all())
#define ALL(name, parameters, arguments) EDGE(name, parameters, arguments, host_edges_all(comm, clock))
#define DOWN(name, parameters, arguments) EDGE(name, parameters, arguments, from_root(comm, root, clock))
#define UP(name, parameters, arguments) EDGE(name, parameters, arguments, to_root(comm, root, clock))
#define SCAN(name, parameters, arguments) EDGE(name, parameters, arguments, from_lower(comm, clock))
#include "edges.h"
