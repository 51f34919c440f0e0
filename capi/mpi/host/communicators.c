/* The program's communicators, for the conflict checker: their ranks in the job, the numbers on
 * which their ranks have agreed, and their neighbors. */
#include "edges_internal.h"

#include <stdlib.h>

int clock_words;
/* The key of the attribute that holds the data. */
static int keyval = MPI_KEYVAL_INVALID;
/* The numbers of MPI_COMM_WORLD and MPI_COMM_SELF. */
enum { WORLD = 1, SELF };

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
    clock_words = count;
    if (clock_words && keyval == MPI_KEYVAL_INVALID) {
        HOST(Comm_create_keyval)(not_copied, forgotten, &keyval, 0);
    }
    MPI_Comm parent = MPI_COMM_NULL;
    if (clock_words && HOST(Comm_get_parent)(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL) transom_edge_has_parent();
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
struct group *group_of(MPI_Comm comm) {
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

int is_of_job(MPI_Comm comm) { return group_of(comm)->is_of_job; }
int is_inter(MPI_Comm comm) { return group_of(comm)->is_inter; }

/* Stores in `numbers` the maximum over both groups of an intercommunicator. Collective. */
int merge_both_groups(uint64_t *numbers, int count, MPI_Comm between) {
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
void number_new_comm(MPI_Comm comm) {
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
void copy_begins(MPI_Comm comm, const MPI_Comm *out, const MPI_Request *request, uint64_t turn) {
    struct group *group = group_of(comm);
    const uint64_t copy = __atomic_add_fetch(&group->copies, 1, __ATOMIC_RELAXED);
    const uint64_t number = (group->number ^ copy * 0x9e3779b97f4a7c15) | (uint64_t)1 << 62;
    transom_edge_request_of_duplicate(request, out, turn ? number : 0, group->number, turn, group->ranks,
                                      turn ? group->size : 0);
}
void host_edges_number_copy(const MPI_Comm *out, uint64_t number) { group_of(*out)->number = number; }

/* The rank in the job of a possible peer; -1 if the checker does not know it. */
int in_job(const struct group *group, int rank) {
    return group->number && rank >= 0 && rank < group->size ? group->ranks[rank] : -1;
}

int is_root(MPI_Comm comm, int root) { return is_inter(comm) ? root == MPI_ROOT : group_of(comm)->me == root; }
/* Whether this rank gets data of the root. */
int gets_from_root(MPI_Comm comm, int root) { return is_inter(comm) ? root >= 0 : !is_root(comm, root); }

/* The number of neighbors that send to this rank (`sending`), or receive from it. */
int neighbors(MPI_Comm comm, int sending) {
    int kind = MPI_UNDEFINED, count = 0, out = 0, weighted;
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART && HOST(Cartdim_get)(comm, &count) == MPI_SUCCESS) return 2 * count;
    if (kind == MPI_GRAPH) HOST(Graph_neighbors_count)(comm, group_of(comm)->me, &count), out = count;
    if (kind == MPI_DIST_GRAPH) HOST(Dist_graph_neighbors_count)(comm, &count, &out, &weighted);
    return sending ? count : out;
}
/* Whether a neighbor is MPI_PROC_NULL, beyond the border of a Cartesian grid. */
int is_missing(MPI_Comm comm, int neighbor) {
    int kind = MPI_UNDEFINED, ends[2] = {0, 0};
    HOST(Topo_test)(comm, &kind);
    if (kind == MPI_CART) HOST(Cart_shift)(comm, neighbor / 2, 1, &ends[0], &ends[1]);
    return ends[neighbor % 2] == MPI_PROC_NULL;
}

/* Stores the ranks in the job of the neighbors that send to this rank. There are `count` of them,
 * including missing ones. Returns the number of those that exist. */
int senders(MPI_Comm comm, int *from, int count) {
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
