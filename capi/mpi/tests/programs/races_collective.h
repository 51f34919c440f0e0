/* The part of races_kinds.c about collective calls of the MPI with a count for each rank, which use
 * the buffer of an operation of rank 0 before the operation is complete, or after. */

static long *numbers; /* the buffer of rank 0's operation, an element for each rank */
static long others[3];
static const int counts[3] = {1, 1, 1}, places[3] = {0, 1, 2};
static const int byte_places[3] = {0, sizeof(long), 2 * sizeof(long)};

static void gatherv(void) { MPI_Gatherv(others, 1, MPI_LONG, numbers, counts, places, MPI_LONG, 0, all); }
static void scatterv(void) { MPI_Scatterv(numbers, counts, places, MPI_LONG, others, 1, MPI_LONG, 0, all); }
static void allgatherv(void) { MPI_Allgatherv(others, 1, MPI_LONG, numbers, counts, places, MPI_LONG, all); }
static void alltoallv(void) {
    MPI_Alltoallv(others, counts, places, MPI_LONG, numbers, counts, places, MPI_LONG, all);
}
static void alltoallw(void) {
    const MPI_Datatype kinds[3] = {MPI_LONG, MPI_LONG, MPI_LONG};
    MPI_Alltoallw(others, counts, byte_places, kinds, numbers, counts, byte_places, kinds, all);
}
static void reduce_scatter(void) { MPI_Reduce_scatter(others, numbers, counts, MPI_LONG, MPI_SUM, all); }
static void igatherv(void) {
    MPI_Request q;
    MPI_Igatherv(others, 1, MPI_LONG, numbers, counts, places, MPI_LONG, 0, all, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}
static void neighbors(void (*call)(MPI_Comm)) {
    MPI_Comm ring;
    const int dims[1] = {3}, periods[1] = {1};
    MPI_Cart_create(all, 1, dims, periods, 0, &ring);
    call(ring);
    MPI_Comm_free(&ring);
}
static void allgather_of(MPI_Comm ring) { MPI_Neighbor_allgather(others, 1, MPI_LONG, numbers, 1, MPI_LONG, ring); }
static void neighbor_allgather(void) { neighbors(allgather_of); }
static void alltoallv_of(MPI_Comm ring) {
    MPI_Neighbor_alltoallv(others, counts, places, MPI_LONG, numbers, counts, places, MPI_LONG, ring);
}
static void neighbor_alltoallv(void) { neighbors(alltoallv_of); }

/* Rank 0 puts the buffer, which `call` writes, or gets into it, where `call` only reads it. */
static void beside(void (*call)(void), int gets, int racy) {
    numbers = calloc(3, sizeof *numbers);
    lock_all();
    if (rank_ == 0 && gets) MPI_Get(numbers, 3, MPI_LONG, 1, 0, 3, MPI_LONG, win);
    if (rank_ == 0 && !gets) MPI_Put(numbers, 3, MPI_LONG, 1, 0, 3, MPI_LONG, win);
    if (rank_ == 0 && !racy) flush();
    call();
    unlock_all();
    free(numbers);
}
static void by_gatherv(int racy) { beside(gatherv, 0, racy); }
static void by_scatterv(int racy) { beside(scatterv, 1, racy); }
static void by_allgatherv(int racy) { beside(allgatherv, 0, racy); }
static void by_alltoallv(int racy) { beside(alltoallv, 0, racy); }
static void by_alltoallw(int racy) { beside(alltoallw, 0, racy); }
static void by_reduce_scatter(int racy) { beside(reduce_scatter, 0, racy); }
static void by_igatherv(int racy) { beside(igatherv, 0, racy); }
static void by_neighbor_allgather(int racy) { beside(neighbor_allgather, 0, racy); }
static void by_neighbor_alltoallv(int racy) { beside(neighbor_alltoallv, 0, racy); }
/* Rank 0's own block of the sent buffer, which the others have not got. */
static void in_place(int racy) {
    numbers = calloc(3, sizeof *numbers);
    lock_all();
    if (rank_ == 0) MPI_Put(numbers + 1, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
    if (rank_ == 0 && !racy) flush();
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, 1, MPI_LONG, all);
    unlock_all();
    free(numbers);
}

#define COLLECTIVE_CASES                                                                          \
    {"gatherv", by_gatherv, 0}, {"scatterv", by_scatterv, 0}, {"allgatherv", by_allgatherv, 0},   \
        {"alltoallv", by_alltoallv, 0}, {"alltoallw", by_alltoallw, 0},                           \
        {"reduce_scatter", by_reduce_scatter, 0}, {"igatherv", by_igatherv, 0},                   \
        {"neighbor_allgather", by_neighbor_allgather, 0},                                         \
        {"neighbor_alltoallv", by_neighbor_alltoallv, 0}, {"in_place", in_place, 0}
