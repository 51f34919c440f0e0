/* Windows over subsets of MPI_COMM_WORLD, also with ranks in another order, and windows that the
 * host must serve. */
#include "check.h"

/* Every member puts its rank in the world into the next member's part. */
static void ring(const char *name, MPI_Comm comm) {
    int me, n;
    long bad = 0, mine = rank_, *part;
    if (comm != MPI_COMM_NULL) {
        MPI_Win win;
        MPI_Comm_rank(comm, &me), MPI_Comm_size(comm, &n);
        MPI_Win_allocate(2 * sizeof *part, sizeof *part, MPI_INFO_NULL, comm, &part, &win);
        MPI_Win_fence(0, win);
        MPI_Put(&mine, 1, MPI_LONG, (me + 1) % n, 1, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        int last = (me + n - 1) % n, from;
        MPI_Group here, world;
        MPI_Comm_group(comm, &here), MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_translate_ranks(here, 1, &last, world, &from);
        bad = part[1] != from;
        int to = (me + 1) % n;
        MPI_Group one, other;
        MPI_Group_incl(here, 1, &to, &one), MPI_Group_incl(here, 1, &last, &other);
        mine += 1000;
        MPI_Win_post(other, 0, win);
        MPI_Win_start(one, 0, win);
        MPI_Put(&mine, 1, MPI_LONG, to, 1, 1, MPI_LONG, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        bad |= (part[1] != from + 1000) << 1;
        MPI_Group_free(&one), MPI_Group_free(&other), MPI_Group_free(&here), MPI_Group_free(&world);
        MPI_Win_free(&win);
    }
    check(name, bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, rank_, &comm);
    ring("halves", comm);
    ring("halves again", comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_, &comm);
    ring("all, backwards", comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank_ ? 0 : MPI_UNDEFINED, rank_, &comm);
    ring("all but one", comm);
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    ring("a duplicate", comm);
    MPI_Comm_free(&comm);
    ring("one alone", MPI_COMM_SELF);
    /* Many windows at once, freed in the order of their creation. */
    MPI_Win wins[50];
    long *parts[50], bad = 0, mine = rank_;
    for (int i = 0; i < 50; i++) MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &parts[i], &wins[i]);
    for (int i = 0; i < 50; i++) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, wins[i]);
        MPI_Put(&mine, 1, MPI_LONG, (rank_ + 1) % size_, 0, 1, MPI_LONG, wins[i]);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, wins[i]);
    }
    for (int i = 0; i < 50; i++) {
        bad |= *parts[i] != (rank_ + size_ - 1) % size_;
        MPI_Win_free(&wins[i]);
    }
    check("50 windows at once", bad);
    /* The library or the host serves a shared window, and every call reaches the right one. */
    MPI_Comm node;
    MPI_Win win;
    long *part;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, node, &part, &win);
    MPI_Win_fence(0, win);
    *part = rank_ + 50;
    MPI_Win_fence(0, win);
    MPI_Aint bytes;
    int unit;
    long *first;
    MPI_Win_shared_query(win, 0, &bytes, &unit, &first);
    check("a shared window, whoever serves it", *first != 50 || bytes != 8);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
    return end();
}
