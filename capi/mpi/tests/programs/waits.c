/* The MPI's own calls that wait for other ranks, beside a window: collective calls, and calls that
 * send, receive and probe messages. While transom is polled, the library begins them without
 * waiting, and waits in turns. Their results, statuses and errors stay those of the MPI. */
#include "check.h"

enum { MANY = 50000 };
static MPI_Comm comm_;
static int me_, all_;

/* What rank `rank` contributes at place `i`. */
static int word(int rank, int i) { return 1000 * rank + i; }
static int sum_to(int ranks, int i) { return 1000 * (ranks * (ranks - 1) / 2) + ranks * i; }

static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void reductions(void) {
    int a[2] = {word(me_, 0), word(me_, 1)}, b[2], bad = 0;
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(a, b, 2, MPI_INT, op, comm_);
    bad |= b[0] != sum_to(all_, 0) || b[1] != sum_to(all_, 1);
    memcpy(b, a, sizeof b);
    MPI_Allreduce(MPI_IN_PLACE, b, 2, MPI_INT, MPI_SUM, comm_);
    bad |= (b[0] != sum_to(all_, 0) || b[1] != sum_to(all_, 1)) << 1;
    b[0] = b[1] = -1;
    MPI_Reduce(a, b, 2, MPI_INT, MPI_SUM, all_ - 1, comm_);
    bad |= (b[1] != (me_ == all_ - 1 ? sum_to(all_, 1) : -1)) << 2;
    MPI_Scan(a, b, 2, MPI_INT, op, comm_);
    bad |= (b[1] != sum_to(me_ + 1, 1)) << 3;
    b[1] = 0;
    MPI_Exscan(a, b, 2, MPI_INT, MPI_SUM, comm_);
    bad |= (me_ && b[1] != sum_to(me_, 1)) << 4;
    int *blocks = malloc(all_ * sizeof *blocks), *counts = malloc(all_ * sizeof *counts);
    for (int to = 0; to < all_; to++) blocks[to] = word(me_, to), counts[to] = 1;
    MPI_Reduce_scatter(blocks, b, counts, MPI_INT, MPI_SUM, comm_);
    bad |= (b[0] != sum_to(all_, me_)) << 5;
    MPI_Reduce_scatter_block(blocks, b, 1, MPI_INT, MPI_SUM, comm_);
    bad |= (b[0] != sum_to(all_, me_)) << 6;
    free(blocks), free(counts);
    MPI_Op_free(&op);
    check("reductions", bad);
}

static void copies(void) {
    int bad = 0, mine = word(me_, 7), got = -1;
    int *all = malloc(all_ * sizeof *all), *back = malloc(all_ * sizeof *back), *one = malloc(all_ * sizeof *one);
    int *at = malloc(all_ * sizeof *at), *large = malloc(MANY * sizeof *large);
    MPI_Datatype *types = malloc(all_ * sizeof *types);
    for (int i = 0; i < MANY; i++) large[i] = me_ ? -1 : i;
    MPI_Bcast(large, MANY, MPI_INT, 0, comm_);
    for (int i = 0; i < MANY; i++) bad |= large[i] != i;
    for (int i = 0; i < all_; i++) one[i] = 1, at[i] = all_ - 1 - i, types[i] = MPI_INT;
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm_);
    for (int i = 0; i < all_; i++) bad |= (all[i] != word(i, 7)) << 1;
    MPI_Allgatherv(&mine, 1, MPI_INT, all, one, at, MPI_INT, comm_);
    for (int i = 0; i < all_; i++) bad |= (all[at[i]] != word(i, 7)) << 2;
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, comm_);
    for (int i = 0; !me_ && i < all_; i++) bad |= (all[i] != word(i, 7)) << 3;
    MPI_Scatter(all, 1, MPI_INT, &got, 1, MPI_INT, 0, comm_);
    bad |= (got != word(me_, 7)) << 4;
    MPI_Gatherv(&mine, 1, MPI_INT, all, one, at, MPI_INT, 0, comm_);
    for (int i = 0; !me_ && i < all_; i++) bad |= (all[at[i]] != word(i, 7)) << 5;
    MPI_Scatterv(all, one, at, MPI_INT, &got, 1, MPI_INT, 0, comm_);
    bad |= (got != word(me_, 7)) << 6;
    for (int i = 0; i < all_; i++) all[i] = word(me_, i);
    MPI_Alltoall(all, 1, MPI_INT, back, 1, MPI_INT, comm_);
    for (int i = 0; i < all_; i++) bad |= (back[i] != word(i, me_)) << 7;
    MPI_Alltoallv(all, one, at, MPI_INT, back, one, at, MPI_INT, comm_);
    for (int i = 0; i < all_; i++) bad |= (back[at[i]] != word(i, all_ - 1 - me_)) << 8;
    for (int i = 0; i < all_; i++) at[i] *= sizeof(int);
    MPI_Alltoallw(all, one, at, types, back, one, at, types, comm_);
    for (int i = 0; i < all_; i++) bad |= (back[all_ - 1 - i] != word(i, all_ - 1 - me_)) << 9;
    free(all), free(back), free(one), free(at), free(large), free(types);
    check("copies between all ranks", bad);
}

static void neighbors(void) {
    int bad = 0, mine = word(me_, 3), got[2] = {-1, -1}, out[2] = {word(me_, 0), word(me_, 1)}, ring = 1;
    MPI_Comm line;
    MPI_Cart_create(comm_, 1, &all_, &ring, 0, &line);
    const int last = (me_ + all_ - 1) % all_, next = (me_ + 1) % all_;
    MPI_Neighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, line);
    bad |= got[0] != word(last, 3) || got[1] != word(next, 3);
    MPI_Neighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, line);
    /* Between two ranks the standard fixes no order of the two blocks. */
    if (all_ > 2) bad |= (got[0] != word(last, 1) || got[1] != word(next, 0)) << 1;
    MPI_Comm_free(&line);
    check("neighbors", bad);
}

static int is_status(const MPI_Status *status, int source, int tag, int n) {
    int count = -1;
    MPI_Get_count(status, MPI_INT, &count);
    return status->MPI_SOURCE == source && status->MPI_TAG == tag && count == n;
}

/* MPI_Sendrecv_replace of many words, of every second word, and with MPI_PROC_NULL. */
static int replaced(int last, int next) {
    int bad = 0, *both = malloc(MANY * sizeof *both);
    MPI_Status status;
    MPI_Datatype second;
    MPI_Type_vector(MANY / 2, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&second);
    for (int i = 0; i < MANY; i++) both[i] = word(me_, i);
    MPI_Sendrecv_replace(both, MANY, MPI_INT, next, 7, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &status);
    for (int i = 0; i < MANY; i++) bad |= both[i] != word(last, i);
    bad |= !is_status(&status, last, 7, MANY);
    for (int i = 0; i < MANY; i++) both[i] = word(me_, i);
    MPI_Sendrecv_replace(both, 1, second, next, 8, last, 8, comm_, &status);
    for (int i = 0; i < MANY; i++) bad |= both[i] != word(i % 2 ? me_ : last, i);
    bad |= !is_status(&status, last, 8, MANY / 2);
    /* A chain: the first rank receives nothing, the last one sends nothing. */
    const int to = next ? next : MPI_PROC_NULL, from = me_ ? last : MPI_PROC_NULL;
    both[0] = word(me_, 0);
    MPI_Sendrecv_replace(both, 1, MPI_INT, to, 9, from, 9, comm_, &status);
    bad |= both[0] != word(me_ ? last : 0, 0) || !is_status(&status, from, me_ ? 9 : MPI_ANY_TAG, me_ ? 1 : 0);
    MPI_Type_free(&second);
    free(both);
    return bad;
}

static void messages(void) {
    const int last = (me_ + all_ - 1) % all_, next = (me_ + 1) % all_;
    int bad = 0, in[2] = {-1, -1}, out[2] = {word(me_, 0), word(me_, 1)};
    int *large = malloc(MANY * sizeof *large), *room = malloc(MANY * sizeof *room);
    MPI_Status status;
    MPI_Message message;
    for (int i = 0; i < MANY; i++) large[i] = word(me_, i), room[i] = -1;
    MPI_Sendrecv(out, 2, MPI_INT, next, 4, in, 2, MPI_INT, last, 4, comm_, &status);
    bad |= in[1] != word(last, 1) || !is_status(&status, last, 4, 2);
    MPI_Sendrecv(large, MANY, MPI_INT, next, 5, room, MANY, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &status);
    for (int i = 0; i < MANY; i++) bad |= (room[i] != word(last, i)) << 1;
    bad |= !is_status(&status, last, 5, MANY) << 1;
    in[0] = 5;
    MPI_Sendrecv(out, 2, MPI_INT, MPI_PROC_NULL, 4, in, 2, MPI_INT, MPI_PROC_NULL, 4, comm_, &status);
    bad |= (in[0] != 5 || !is_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0)) << 2;
    MPI_Sendrecv(out, 1, MPI_INT, me_, 6, in, 1, MPI_INT, me_, 6, comm_, MPI_STATUS_IGNORE);
    bad |= (in[0] != out[0]) << 3;
    MPI_Sendrecv_replace(in, 1, MPI_INT, next, 7, last, 7, comm_, &status);
    bad |= (in[0] != word(last, 0) || !is_status(&status, last, 7, 1)) << 4;
    bad |= replaced(last, next) << 9;
    /* Pairs, of which the lower rank sends first. */
    const int peer = me_ ^ 1;
    for (int turn = 0; peer < all_ && turn < 2; turn++) {
        if (turn == me_ % 2) {
            MPI_Send(large, MANY, MPI_INT, peer, 8, comm_);
            MPI_Ssend(out, 1, MPI_INT, peer, 9, comm_);
            continue;
        }
        MPI_Probe(peer, MPI_ANY_TAG, comm_, &status);
        bad |= !is_status(&status, peer, 8, MANY) << 5;
        MPI_Recv(room, MANY, MPI_INT, peer, 8, comm_, &status);
        for (int i = 0; i < MANY; i++) bad |= (room[i] != word(peer, i)) << 6;
        MPI_Mprobe(MPI_ANY_SOURCE, 9, comm_, &message, &status);
        bad |= !is_status(&status, peer, 9, 1) << 7;
        MPI_Mrecv(in, 1, MPI_INT, &message, &status);
        bad |= (in[0] != word(peer, 0)) << 8;
    }
    free(large), free(room);
    /* Without an active request the status is empty (MPI-4.1 section 3.7.5). */
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int index = 0;
    MPI_Waitany(2, none, &index, &status);
    bad |= (index != MPI_UNDEFINED || !is_status(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0)) << 9;
    check("messages", bad);
}

/* The library has no rank of another job here, but the calls differ between two groups. */
static void between_groups(void) {
    int bad = 0, mine = word(rank_, 0), sum = -1, root = rank_ % 2 ? 0 : rank_ == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Comm half, both;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, rank_, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank_ % 2, 3, &both);
    MPI_Bcast(&mine, 1, MPI_INT, root, both);
    bad |= mine != (rank_ % 2 ? word(0, 0) : word(rank_, 0));
    mine = 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, both);
    bad |= (sum != (rank_ % 2 ? (size_ + 1) / 2 : size_ / 2)) << 1;
    MPI_Barrier(both);
    MPI_Comm_free(&both), MPI_Comm_free(&half);
    check("calls between two groups", bad);
}

static void failures(void) {
    int bad = 0, in = -1, out[2] = {1, 2};
    MPI_Status status;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    bad |= class_of(MPI_Bcast(out, 1, MPI_INT, all_, comm_)) != MPI_ERR_ROOT;
    bad |= (class_of(MPI_Send(out, 1, MPI_INT, all_, 1, comm_)) != MPI_ERR_RANK) << 1;
    const int code = MPI_Sendrecv(out, 2, MPI_INT, me_, 1, &in, 1, MPI_INT, me_, 1, comm_, &status);
#ifndef OPEN_MPI
    bad |= (class_of(code) != MPI_ERR_TRUNCATE) << 2;
#else
    /* Open MPI returns success from a message of a rank to itself. */
    (void)code;
#endif
    bad |= (class_of(MPI_Probe(all_, 1, comm_, &status)) != MPI_ERR_RANK) << 3;
    /* A call whose receive is refused sends nothing. */
    bad |= (class_of(MPI_Sendrecv(out, 1, MPI_INT, me_, 7, &in, 1, MPI_INT, all_ + 5, 7, comm_, &status)) != MPI_ERR_RANK) << 5;
    bad |= (class_of(MPI_Sendrecv(out, 1, MPI_INT, me_, 7, &in, 1, MPI_DATATYPE_NULL, me_, 7, comm_, &status)) != MPI_ERR_TYPE) << 6;
    MPI_Sendrecv(out + 1, 1, MPI_INT, me_, 7, &in, 1, MPI_INT, me_, 7, comm_, &status);
    bad |= (in != 2) << 7;
    MPI_Datatype open;
    MPI_Type_contiguous(1, MPI_INT, &open);
    bad |= (class_of(MPI_Recv(&in, 1, open, me_, 8, comm_, &status)) != MPI_ERR_TYPE) << 8;
    MPI_Type_free(&open);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bad |= (class_of(MPI_Bcast(out, 1, MPI_INT, 0, MPI_COMM_NULL)) != MPI_ERR_COMM) << 4;
    check("failures", bad);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    begin(&argc, &argv);
    for (int windows = 0; windows < 2; windows++) {
        if (windows) MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        for (int kind = 0; kind < 3; kind++) {
            if (kind == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
            if (kind == 1) MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, -rank_, &comm_);
            if (kind == 2) MPI_Comm_dup(MPI_COMM_SELF, &comm_);
            MPI_Comm_rank(comm_, &me_);
            MPI_Comm_size(comm_, &all_);
            reductions();
            copies();
            neighbors();
            messages();
            failures();
            MPI_Comm_free(&comm_);
        }
        if (size_ > 1) between_groups();
    }
    MPI_Win_free(&win);
    return end();
}
