/* Communicators between two groups of a job, made in each way, with each kind of call on them. The
 * conflict checker adds collective calls of its own to these: all of them must match. */
#include "check.h"

static int side_; /* the group of this rank */

/* The argument for the root, which is the first rank of the group `of`. */
static int root_of(MPI_Comm between, int of) {
    int rank;
    MPI_Comm_rank(between, &rank);
    return side_ != of ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
}

static long collective(MPI_Comm between) {
    long one = 1, sum = 0, bad = 0;
    int others;
    MPI_Request request;
    MPI_Comm_remote_size(between, &others);
    MPI_Barrier(between);
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, between);
    bad |= sum != others;
    for (int of = 0; of < 2; of++) {
        const int root = root_of(between, of);
        long value = side_ == of ? 77 : 0;
        MPI_Bcast(&value, 1, MPI_LONG, root, between);
        bad |= (value != 77) << 1;
        value = side_ == of ? 78 : 0;
        MPI_Ibcast(&value, 1, MPI_LONG, root, between, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        bad |= (value != 78) << 2;
        MPI_Reduce(&one, &sum, 1, MPI_LONG, MPI_SUM, root, between);
        bad |= (root == MPI_ROOT && sum != others) << 3;
        MPI_Ireduce(&one, &sum, 1, MPI_LONG, MPI_MAX, root, between, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        bad |= (root == MPI_ROOT && sum != 1) << 4;
    }
    MPI_Ibarrier(between, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return bad;
}

/* The first ranks of both groups send each other a message. */
static long messages(MPI_Comm between) {
    long own = side_, other = -1;
    int rank;
    MPI_Comm_rank(between, &rank);
    if (rank > 0) return 0;
    if (side_ == 0) MPI_Send(&own, 1, MPI_LONG, 0, 1, between);
    MPI_Recv(&other, 1, MPI_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, between, MPI_STATUS_IGNORE);
    if (side_ == 1) MPI_Ssend(&own, 1, MPI_LONG, 0, 1, between);
    return other != !side_;
}

static void use(const char *name, MPI_Comm between) {
    const int has = between != MPI_COMM_NULL;
    check(name, has ? collective(between) | messages(between) << 5 : 0);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm half, between, copy, begun, split, part, whole;
    MPI_Group group, first;
    MPI_Request request;
    const int middle = size_ / 2, zero = 0;
    side_ = rank_ >= middle;
    MPI_Comm_split(MPI_COMM_WORLD, side_, rank_, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side_ ? 0 : middle, 3, &between);
    use("created", between);
    MPI_Comm_dup(between, &copy);
    use("duplicated", copy);
    MPI_Comm_idup(between, &begun, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use("duplicated by a call that does not wait", begun);
    MPI_Comm_split(between, 0, rank_, &split);
    use("split", split);
    MPI_Comm_group(between, &group);
    MPI_Group_incl(group, 1, &zero, &first);
    MPI_Comm_create(between, first, &part);
    use("of the first ranks", part);
    long one = 1, sum = 0;
    MPI_Intercomm_merge(between, side_, &whole);
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, whole);
    check("merged", sum != size_);
    if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
    MPI_Group_free(&group), MPI_Group_free(&first);
    MPI_Comm_free(&whole), MPI_Comm_free(&split), MPI_Comm_free(&begun), MPI_Comm_free(&copy);
    MPI_Comm_free(&between), MPI_Comm_free(&half);
    return end();
}
