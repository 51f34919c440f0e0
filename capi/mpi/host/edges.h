/* The wrapped functions of the host, with their parameters, arguments and buffers. Each is listed
 * under a macro of `edges.c`, which says for which ranks the call waits. A wrapper of a function
 * that the host lacks is never called.
 *
 * Parameters have their names of the standard, which the macros use. `N` and `D` are the types of
 * counts and displacements.
 *
 * The blocking collective calls, and at the end of this file those with persistent requests. */
#define COLLECTIVES(suffix, N, D)                                                                 \
    FROM_ALL(Allreduce##suffix,                                                                   \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm),                                                                       \
        (sendbuf, recvbuf, count, datatype, op, comm),                                            \
        (lends(sendbuf, count, datatype, 0), lends_result(sendbuf, recvbuf, count, datatype)))    \
    FROM_ALL(Allgather##suffix,                                                                   \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm),                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),                       \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            lends_gathered(sendbuf, recvbuf, recvcount, recvtype, comm)))                         \
    FROM_ALL(Allgatherv##suffix,                                                                  \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, MPI_Comm comm),          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),              \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_GATHERED(sendbuf, recvbuf, recvcounts, displs, recvtype, comm)))                \
    FROM_ALL(Alltoall##suffix,                                                                    \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm),                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),                       \
        (lends(sendbuf, times_size(comm, sendcount), sendtype, 0),                                \
            lends_result(sendbuf, recvbuf, times_size(comm, recvcount), recvtype)))               \
    FROM_ALL(Alltoallv##suffix,                                                                   \
        (const void *sendbuf, const N *sendcounts, const D *sdispls, MPI_Datatype sendtype,       \
            void *recvbuf, const N *recvcounts, const D *rdispls, MPI_Datatype recvtype,          \
            MPI_Comm comm),                                                                       \
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm),   \
        (sendbuf == MPI_IN_PLACE ? LENDS_EACH(recvbuf, recvcounts, rdispls, recvtype, comm, 0) :  \
            LENDS_EACH(sendbuf, sendcounts, sdispls, sendtype, comm, 0),                          \
            LENDS_EACH(recvbuf, recvcounts, rdispls, recvtype, comm, 1)))                         \
    FROM_ALL(Alltoallw##suffix,                                                                   \
        (const void *sendbuf, const N *sendcounts, const D *sdispls,                              \
            const MPI_Datatype *sendtypes, void *recvbuf, const N *recvcounts, const D *rdispls,  \
            const MPI_Datatype *recvtypes, MPI_Comm comm),                                        \
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm), \
        (sendbuf == MPI_IN_PLACE ?                                                                \
            LENDS_EACH_TYPE(recvbuf, recvcounts, rdispls, recvtypes, comm, 0) :                   \
            LENDS_EACH_TYPE(sendbuf, sendcounts, sdispls, sendtypes, comm, 0),                    \
            LENDS_EACH_TYPE(recvbuf, recvcounts, rdispls, recvtypes, comm, 1)))                   \
    FROM_ALL(Reduce_scatter##suffix,                                                              \
        (const void *sendbuf, void *recvbuf, const N *recvcounts, MPI_Datatype datatype,          \
            MPI_Op op, MPI_Comm comm),                                                            \
        (sendbuf, recvbuf, recvcounts, datatype, op, comm),                                       \
        LENDS_SCATTERED(sendbuf, recvbuf, recvcounts, datatype, comm))                            \
    FROM_ALL(Reduce_scatter_block##suffix,                                                        \
        (const void *sendbuf, void *recvbuf, N recvcount, MPI_Datatype datatype, MPI_Op op,       \
            MPI_Comm comm),                                                                       \
        (sendbuf, recvbuf, recvcount, datatype, op, comm),                                        \
        (lends(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, times_size(comm, recvcount),          \
            datatype, 0), lends(recvbuf, recvcount, datatype, 1)))                                \
    FROM_ROOT(Bcast##suffix,                                                                      \
        (void *buf, N count, MPI_Datatype datatype, int root, MPI_Comm comm),                     \
        (buf, count, datatype, root, comm),                                                       \
        lends(buf, count, datatype, !is_root(comm, root)))                                        \
    FROM_ROOT(Scatter##suffix,                                                                    \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, int root, MPI_Comm comm),                                      \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm),                 \
        (is_root(comm, root) ? lends(sendbuf, times_size(comm, sendcount), sendtype, 0) :         \
            (void)0, lends(recvbuf, recvcount, recvtype, 1)))                                     \
    FROM_ROOT(Scatterv##suffix,                                                                   \
        (const void *sendbuf, const N *sendcounts, const D *displs, MPI_Datatype sendtype,        \
            void *recvbuf, N recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),          \
        (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm),        \
        (is_root(comm, root) ? LENDS_EACH(sendbuf, sendcounts, displs, sendtype, comm, 0) :       \
            (void)0, lends(recvbuf, recvcount, recvtype, 1)))                                     \
    TO_ROOT(Reduce##suffix,                                                                       \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op, int root, \
            MPI_Comm comm),                                                                       \
        (sendbuf, recvbuf, count, datatype, op, root, comm),                                      \
        (lends(sendbuf, count, datatype, 0),                                                      \
            is_root(comm, root) ? lends_result(sendbuf, recvbuf, count, datatype) : (void)0))     \
    TO_ROOT(Gather##suffix,                                                                       \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, int root, MPI_Comm comm),                                      \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm),                 \
        (lends(sendbuf, sendcount, sendtype, 0), is_root(comm, root) ? lends_gathered(sendbuf,    \
            recvbuf, recvcount, recvtype, comm) : (void)0))                                       \
    TO_ROOT(Gatherv##suffix,                                                                      \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, int root,                \
            MPI_Comm comm),                                                                       \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm),        \
        (lends(sendbuf, sendcount, sendtype, 0), is_root(comm, root) ? LENDS_GATHERED(sendbuf,    \
            recvbuf, recvcounts, displs, recvtype, comm) : (void)0))                              \
    FROM_LOWER(Scan##suffix,                                                                      \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm),                                                                       \
        (sendbuf, recvbuf, count, datatype, op, comm),                                            \
        (lends(sendbuf, count, datatype, 0), lends_result(sendbuf, recvbuf, count, datatype)))    \
    FROM_LOWER(Exscan##suffix,                                                                    \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm),                                                                       \
        (sendbuf, recvbuf, count, datatype, op, comm),                                            \
        (lends(sendbuf, count, datatype, 0), lends_result(sendbuf, recvbuf, count, datatype)))    \
    FROM_NEIGHBORS(Neighbor_allgather##suffix,                                                    \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm),                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),                       \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_NEIGHBORS(recvbuf, recvcount, i * recvcount, recvtype, 1)))                     \
    FROM_NEIGHBORS(Neighbor_allgatherv##suffix,                                                   \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, MPI_Comm comm),          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),              \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_NEIGHBORS(recvbuf, recvcounts[i], displs[i], recvtype, 1)))                     \
    FROM_NEIGHBORS(Neighbor_alltoall##suffix,                                                     \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm),                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),                       \
        (LENDS_NEIGHBORS(sendbuf, sendcount, i * sendcount, sendtype, 0),                         \
            LENDS_NEIGHBORS(recvbuf, recvcount, i * recvcount, recvtype, 1)))                     \
    FROM_NEIGHBORS(Neighbor_alltoallv##suffix,                                                    \
        (const void *sendbuf, const N *sendcounts, const D *sdispls, MPI_Datatype sendtype,       \
            void *recvbuf, const N *recvcounts, const D *rdispls, MPI_Datatype recvtype,          \
            MPI_Comm comm),                                                                       \
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm),   \
        (LENDS_NEIGHBORS(sendbuf, sendcounts[i], sdispls[i], sendtype, 0),                        \
            LENDS_NEIGHBORS(recvbuf, recvcounts[i], rdispls[i], recvtype, 1)))                    \
    FROM_NEIGHBORS(Neighbor_alltoallw##suffix,                                                    \
        (const void *sendbuf, const N *sendcounts, const MPI_Aint *sdispls,                       \
            const MPI_Datatype *sendtypes, void *recvbuf, const N *recvcounts,                    \
            const MPI_Aint *rdispls, const MPI_Datatype *recvtypes, MPI_Comm comm),               \
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm), \
        (LENDS_NEIGHBOR_TYPES(sendbuf, sendcounts, sdispls, sendtypes, 0),                        \
            LENDS_NEIGHBOR_TYPES(recvbuf, recvcounts, rdispls, recvtypes, 1)))

/* Nonblocking collective calls, sends and receives. */
#define NONBLOCKING_AND_MESSAGES(suffix, N, D)                                                    \
    IFROM_ALL(Iallreduce##suffix,                                                                 \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, recvbuf, count, datatype, op, comm, request),                                   \
        (lends(sendbuf, count, datatype, 0), lends(recvbuf, count, datatype, 1)))                 \
    IFROM_ALL(Iallgather##suffix,                                                                 \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),                          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request),              \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            lends_gathered(sendbuf, recvbuf, recvcount, recvtype, comm)))                         \
    IFROM_ALL(Iallgatherv##suffix,                                                                \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, MPI_Comm comm,           \
            MPI_Request *request),                                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request),     \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_GATHERED(sendbuf, recvbuf, recvcounts, displs, recvtype, comm)))                \
    IFROM_ALL(Ialltoall##suffix,                                                                  \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),                          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request),              \
        (lends(sendbuf, times_size(comm, sendcount), sendtype, 0),                                \
            lends(recvbuf, times_size(comm, recvcount), recvtype, 1)))                            \
    IFROM_ALL(Ialltoallv##suffix,                                                                 \
        (const void *sendbuf, const N *sendcounts, const D *sdispls, MPI_Datatype sendtype,       \
            void *recvbuf, const N *recvcounts, const D *rdispls, MPI_Datatype recvtype,          \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,    \
            request),                                                                             \
        (sendbuf == MPI_IN_PLACE ? (void)0 : LENDS_EACH(sendbuf, sendcounts, sdispls, sendtype,   \
            comm, 0), LENDS_EACH(recvbuf, recvcounts, rdispls, recvtype, comm, 1)))               \
    IFROM_ALL(Ialltoallw##suffix,                                                                 \
        (const void *sendbuf, const N *sendcounts, const D *sdispls,                              \
            const MPI_Datatype *sendtypes, void *recvbuf, const N *recvcounts, const D *rdispls,  \
            const MPI_Datatype *recvtypes, MPI_Comm comm, MPI_Request *request),                  \
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,  \
            request),                                                                             \
        (sendbuf == MPI_IN_PLACE ? (void)0 : LENDS_EACH_TYPE(sendbuf, sendcounts, sdispls,        \
            sendtypes, comm, 0),                                                                  \
            LENDS_EACH_TYPE(recvbuf, recvcounts, rdispls, recvtypes, comm, 1)))                   \
    IFROM_ALL(Ireduce_scatter##suffix,                                                            \
        (const void *sendbuf, void *recvbuf, const N *recvcounts, MPI_Datatype datatype,          \
            MPI_Op op, MPI_Comm comm, MPI_Request *request),                                      \
        (sendbuf, recvbuf, recvcounts, datatype, op, comm, request),                              \
        LENDS_SCATTERED(sendbuf, recvbuf, recvcounts, datatype, comm))                            \
    IFROM_ALL(Ireduce_scatter_block##suffix,                                                      \
        (const void *sendbuf, void *recvbuf, N recvcount, MPI_Datatype datatype, MPI_Op op,       \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, recvbuf, recvcount, datatype, op, comm, request),                               \
        (lends(sendbuf, times_size(comm, recvcount), datatype, 0),                                \
            lends(recvbuf, recvcount, datatype, 1)))                                              \
    IFROM_ROOT(Ibcast##suffix,                                                                    \
        (void *buf, N count, MPI_Datatype datatype, int root, MPI_Comm comm,                      \
            MPI_Request *request),                                                                \
        (buf, count, datatype, root, comm, request),                                              \
        lends(buf, count, datatype, !is_root(comm, root)))                                        \
    IFROM_ROOT(Iscatter##suffix,                                                                  \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request),                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request),        \
        (is_root(comm, root) ? lends(sendbuf, times_size(comm, sendcount), sendtype, 0) :         \
            (void)0, lends(recvbuf, recvcount, recvtype, 1)))                                     \
    IFROM_ROOT(Iscatterv##suffix,                                                                 \
        (const void *sendbuf, const N *sendcounts, const D *displs, MPI_Datatype sendtype,        \
            void *recvbuf, N recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,           \
            MPI_Request *request),                                                                \
        (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,         \
            request),                                                                             \
        (is_root(comm, root) ? LENDS_EACH(sendbuf, sendcounts, displs, sendtype, comm, 0) :       \
            (void)0, lends(recvbuf, recvcount, recvtype, 1)))                                     \
    ITO_ROOT(Ireduce##suffix,                                                                     \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op, int root, \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, recvbuf, count, datatype, op, root, comm, request),                             \
        (lends(sendbuf, count, datatype, 0),                                                      \
            is_root(comm, root) ? lends(recvbuf, count, datatype, 1) : (void)0))                  \
    ITO_ROOT(Igather##suffix,                                                                     \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request),                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request),        \
        (lends(sendbuf, sendcount, sendtype, 0), is_root(comm, root) ? lends_gathered(sendbuf,    \
            recvbuf, recvcount, recvtype, comm) : (void)0))                                       \
    ITO_ROOT(Igatherv##suffix,                                                                    \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, int root, MPI_Comm comm, \
            MPI_Request *request),                                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,         \
            request),                                                                             \
        (lends(sendbuf, sendcount, sendtype, 0), is_root(comm, root) ? LENDS_GATHERED(sendbuf,    \
            recvbuf, recvcounts, displs, recvtype, comm) : (void)0))                              \
    IFROM_LOWER(Iscan##suffix,                                                                    \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, recvbuf, count, datatype, op, comm, request),                                   \
        (lends(sendbuf, count, datatype, 0), lends(recvbuf, count, datatype, 1)))                 \
    IFROM_LOWER(Iexscan##suffix,                                                                  \
        (const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op,           \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, recvbuf, count, datatype, op, comm, request),                                   \
        (lends(sendbuf, count, datatype, 0), lends(recvbuf, count, datatype, 1)))                 \
    IFROM_NEIGHBORS(Ineighbor_allgather##suffix,                                                  \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),                          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request),              \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_NEIGHBORS(recvbuf, recvcount, i * recvcount, recvtype, 1)))                     \
    IFROM_NEIGHBORS(Ineighbor_allgatherv##suffix,                                                 \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf,                  \
            const N *recvcounts, const D *displs, MPI_Datatype recvtype, MPI_Comm comm,           \
            MPI_Request *request),                                                                \
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request),     \
        (lends(sendbuf, sendcount, sendtype, 0),                                                  \
            LENDS_NEIGHBORS(recvbuf, recvcounts[i], displs[i], recvtype, 1)))                     \
    IFROM_NEIGHBORS(Ineighbor_alltoall##suffix,                                                   \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount,     \
            MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),                          \
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request),              \
        (LENDS_NEIGHBORS(sendbuf, sendcount, i * sendcount, sendtype, 0),                         \
            LENDS_NEIGHBORS(recvbuf, recvcount, i * recvcount, recvtype, 1)))                     \
    IFROM_NEIGHBORS(Ineighbor_alltoallv##suffix,                                                  \
        (const void *sendbuf, const N *sendcounts, const D *sdispls, MPI_Datatype sendtype,       \
            void *recvbuf, const N *recvcounts, const D *rdispls, MPI_Datatype recvtype,          \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,    \
            request),                                                                             \
        (LENDS_NEIGHBORS(sendbuf, sendcounts[i], sdispls[i], sendtype, 0),                        \
            LENDS_NEIGHBORS(recvbuf, recvcounts[i], rdispls[i], recvtype, 1)))                    \
    IFROM_NEIGHBORS(Ineighbor_alltoallw##suffix,                                                  \
        (const void *sendbuf, const N *sendcounts, const MPI_Aint *sdispls,                       \
            const MPI_Datatype *sendtypes, void *recvbuf, const N *recvcounts,                    \
            const MPI_Aint *rdispls, const MPI_Datatype *recvtypes, MPI_Comm comm,                \
            MPI_Request *request),                                                                \
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,  \
            request),                                                                             \
        (LENDS_NEIGHBOR_TYPES(sendbuf, sendcounts, sdispls, sendtypes, 0),                        \
            LENDS_NEIGHBOR_TYPES(recvbuf, recvcounts, rdispls, recvtypes, 1)))                    \
    SEND(Send##suffix,                                                                            \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm),      \
        (buf, count, datatype, dest, tag, comm))                                                  \
    SEND(Bsend##suffix,                                                                           \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm),      \
        (buf, count, datatype, dest, tag, comm))                                                  \
    SEND(Rsend##suffix,                                                                           \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm),      \
        (buf, count, datatype, dest, tag, comm))                                                  \
    SYNCHRONOUS_SEND(Ssend##suffix,                                                               \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm),      \
        (buf, count, datatype, dest, tag, comm))                                                  \
    ISEND(Isend##suffix,                                                                          \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request))                                         \
    ISEND(Ibsend##suffix,                                                                         \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request))                                         \
    ISEND(Irsend##suffix,                                                                         \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request))                                         \
    SYNCHRONOUS_ISEND(Issend##suffix,                                                             \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request))                                         \
    IRECV(Irecv##suffix,                                                                          \
        (void *buf, N count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,           \
            MPI_Request *request),                                                                \
        (buf, count, datatype, source, tag, comm, request))                                       \
    SENDRECV(Sendrecv##suffix,                                                                    \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, int dest, int sendtag,          \
            void *recvbuf, N recvcount, MPI_Datatype recvtype, int source, int recvtag,           \
            MPI_Comm comm, MPI_Status *status),                                                   \
        (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,       \
            recvtag, comm, status),                                                               \
        SENDRECV_IN_TURNS(suffix, N),                                                             \
        (lends_message(sendbuf, sendcount, sendtype, dest, 0),                                    \
            lends_message(recvbuf, recvcount, recvtype, source, 1)))                              \
    SENDRECV(Sendrecv_replace##suffix,                                                            \
        (void *buf, N count, MPI_Datatype datatype, int dest, int sendtag, int source,            \
            int recvtag, MPI_Comm comm, MPI_Status *status),                                      \
        (buf, count, datatype, dest, sendtag, source, recvtag, comm, status),                     \
        SENDRECV_REPLACE_IN_TURNS,                                                                \
        lends_replaced(buf, count, datatype, dest, source))                                       \
    ISENDRECV(Isendrecv##suffix,                                                                  \
        (const void *sendbuf, N sendcount, MPI_Datatype sendtype, int dest, int sendtag,          \
            void *recvbuf, N recvcount, MPI_Datatype recvtype, int source, int recvtag,           \
            MPI_Comm comm, MPI_Request *request),                                                 \
        (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,       \
            recvtag, comm, request),                                                              \
        (lends_message(sendbuf, sendcount, sendtype, dest, 0),                                    \
            lends_message(recvbuf, recvcount, recvtype, source, 1)))                              \
    ISENDRECV(Isendrecv_replace##suffix,                                                          \
        (void *buf, N count, MPI_Datatype datatype, int dest, int sendtag, int source,            \
            int recvtag, MPI_Comm comm, MPI_Request *request),                                    \
        (buf, count, datatype, dest, sendtag, source, recvtag, comm, request),                    \
        lends_replaced(buf, count, datatype, dest, source))                                       \
    MRECV(Mrecv##suffix,                                                                          \
        (void *buf, N count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status),    \
        (buf, count, datatype, message, status))                                                  \
    IMRECV(Imrecv##suffix,                                                                        \
        (void *buf, N count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request),  \
        (buf, count, datatype, message, request))                                                 \
    SEND_INIT(Send_init##suffix,                                                                  \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request), 0)                                      \
    SEND_INIT(Bsend_init##suffix,                                                                 \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request), 0)                                      \
    SEND_INIT(Rsend_init##suffix,                                                                 \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request), 0)                                      \
    SEND_INIT(Ssend_init##suffix,                                                                 \
        (const void *buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
            MPI_Request *request),                                                                \
        (buf, count, datatype, dest, tag, comm, request), 1)                                      \
    RECV_INIT(Recv_init##suffix,                                                                  \
        (void *buf, N count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,           \
            MPI_Request *request),                                                                \
        (buf, count, datatype, source, tag, comm, request))

COLLECTIVES(, int, int)
COLLECTIVES(_c, MPI_Count, MPI_Aint)
NONBLOCKING_AND_MESSAGES(, int, int)
NONBLOCKING_AND_MESSAGES(_c, MPI_Count, MPI_Aint)

RECV(Recv_c,
    (void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
        MPI_Status *status),
    (buf, count, datatype, source, tag, comm, status))
IFROM_ALL(Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request), (void)0)
CANCEL_REQUEST(Cancel, (MPI_Request *request), (request))
FREE_REQUEST(Request_free, (MPI_Request *request), (request))
START(Start, (MPI_Request *request), (request), 1, request)
START(Startall, (int count, MPI_Request *requests), (count, requests), count, requests)
PARTITIONS(Pready,
    (int partition, MPI_Request request),
    (partition, request),
    transom_edge_partition_is_ready(request, partition))
PARTITIONS(Pready_range,
    (int low, int high, MPI_Request request),
    (low, high, request),
    for (int i = low; i <= high; i++) transom_edge_partition_is_ready(request, i))
PARTITIONS(Pready_list,
    (int count, const int *partitions, MPI_Request request),
    (count, partitions, request),
    for (int i = 0; i < count; i++) transom_edge_partition_is_ready(request, partitions[i]))
PARTITIONS(Parrived,
    (MPI_Request request, int partition, int *flag),
    (request, partition, flag), ,
    if (*flag) transom_edge_partition_has_arrived(request, partition))
GREQUEST(Grequest_complete, (MPI_Request request), (request))
#define LOCAL_CALLS(suffix, N)                                                                    \
    LOCAL(Reduce_local##suffix,                                                                   \
        (const void *inbuf, void *inoutbuf, N count, MPI_Datatype datatype, MPI_Op op),           \
        (inbuf, inoutbuf, count, datatype, op),                                                   \
        (lends(inbuf, count, datatype, 0), lends(inoutbuf, count, datatype, 1)))                  \
    PACK(Pack##suffix,                                                                            \
        (const void *inbuf, N incount, MPI_Datatype datatype, void *outbuf, N outsize,            \
            N *position, MPI_Comm comm),                                                          \
        (inbuf, incount, datatype, outbuf, outsize, position, comm),                              \
        lends(inbuf, incount, datatype, 0), outbuf, 1)                                            \
    PACK(Unpack##suffix,                                                                          \
        (const void *inbuf, N insize, N *position, void *outbuf, N outcount,                      \
            MPI_Datatype datatype, MPI_Comm comm),                                                \
        (inbuf, insize, position, outbuf, outcount, datatype, comm),                              \
        lends(outbuf, outcount, datatype, 1), inbuf, 0)
PACK(Pack_external,
    (const char datarep[], const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf,
        MPI_Aint outsize, MPI_Aint *position),
    (datarep, inbuf, incount, datatype, outbuf, outsize, position),
    lends(inbuf, incount, datatype, 0), outbuf, 1)
PACK(Unpack_external,
    (const char datarep[], const void *inbuf, MPI_Aint insize, MPI_Aint *position, void *outbuf,
        int outcount, MPI_Datatype datatype),
    (datarep, inbuf, insize, position, outbuf, outcount, datatype),
    lends(outbuf, outcount, datatype, 1), inbuf, 0)
LOCAL_CALLS(, int)
LOCAL_CALLS(_c, MPI_Count)
PROBE(Probe,
    (int source, int tag, MPI_Comm comm, MPI_Status *status),
    (source, tag, comm, status), 0,
    HOST(Iprobe)(source, tag, comm, &flag, status))
IPROBE(Iprobe,
    (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
    (source, tag, comm, flag, status), 0)
PROBE(Mprobe,
    (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
    (source, tag, comm, message, status), 1,
    HOST(Improbe)(source, tag, comm, &flag, message, status))
IPROBE(Improbe,
    (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
    (source, tag, comm, flag, message, status), 1)
NEW_COMM(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
NEW_COMM(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out), (comm, info, out))
IDUP(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *request), (comm, out, request))
IDUP(Comm_idup_with_info,
    (MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *request),
    (comm, info, out, request))
NEW_COMM(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
NEW_COMM(Comm_split_type,
    (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out),
    (comm, type, key, info, out))
NEW_COMM(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), (comm, group, out))
NEW_COMM_OF_MEMBERS(Comm_create_group,
    (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out),
    (comm, group, tag, out))
NEW_COMM(Cart_create,
    (MPI_Comm comm, int ndims, const int *dims, const int *periods, int reorder, MPI_Comm *out),
    (comm, ndims, dims, periods, reorder, out))
NEW_COMM(Cart_sub, (MPI_Comm comm, const int *kept, MPI_Comm *out), (comm, kept, out))
NEW_COMM(Graph_create,
    (MPI_Comm comm, int nnodes, const int *index, const int *edges, int reorder, MPI_Comm *out),
    (comm, nnodes, index, edges, reorder, out))
NEW_COMM(Dist_graph_create,
    (MPI_Comm comm, int count, const int *from, const int *degrees, const int *to,
        const int *weights, MPI_Info info, int reorder, MPI_Comm *out),
    (comm, count, from, degrees, to, weights, info, reorder, out))
NEW_COMM(Dist_graph_create_adjacent,
    (MPI_Comm comm, int indegree, const int *from, const int *in, int outdegree, const int *to,
        const int *weights, MPI_Info info, int reorder, MPI_Comm *out),
    (comm, indegree, from, in, outdegree, to, weights, info, reorder, out))
NEW_COMM_OF_MEMBERS(Intercomm_create,
    (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *out),
    (comm, leader, peer, remote, tag, out))
NEW_COMM_OF_MEMBERS(Intercomm_merge, (MPI_Comm inter, int high, MPI_Comm *out), (inter, high, out))
FROM_UNKNOWN(Comm_accept,
    (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out),
    (port, info, root, comm, out))
FROM_UNKNOWN(Comm_connect,
    (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out),
    (port, info, root, comm, out))
FROM_UNKNOWN(Comm_spawn,
    (const char *command, char **arguments, int maxprocs, MPI_Info info, int root, MPI_Comm comm,
        MPI_Comm *out, int *codes),
    (command, arguments, maxprocs, info, root, comm, out, codes))
FROM_UNKNOWN(Comm_disconnect, (MPI_Comm *comm), (comm))

/* The same list of collective calls with persistent requests. */
#undef FROM_ALL
#undef FROM_ROOT
#undef TO_ROOT
#undef FROM_LOWER
#undef FROM_NEIGHBORS
#define FROM_ALL(name, parameters, arguments, buffers)                                            \
    INIT_FROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->size)
#define FROM_ROOT(name, parameters, arguments, buffers)                                           \
    INIT_FROM_RANKS(name, parameters, arguments, buffers, root, gets_from_root(comm, root))
#define TO_ROOT(name, parameters, arguments, buffers)                                             \
    INIT_FROM_RANKS(name, parameters, arguments, buffers, 0,                                      \
                    is_root(comm, root) ? group_of(comm)->size : 0)
#define FROM_LOWER(name, parameters, arguments, buffers)                                          \
    INIT_FROM_RANKS(name, parameters, arguments, buffers, 0, group_of(comm)->me)
#define FROM_NEIGHBORS(name, parameters, arguments, buffers)                                      \
    INIT_FROM_NEIGHBORS(name, parameters, arguments, buffers)
COLLECTIVES(_init, int, int)
COLLECTIVES(_init_c, MPI_Count, MPI_Aint)
FROM_ALL(Barrier_init, (MPI_Comm comm), (comm), (void)0)
