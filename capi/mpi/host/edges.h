/* The wrapped functions of the host, with their parameters, arguments and buffers. Each is listed
 * under a macro of `edges.c`, which says for which ranks the call waits. A wrapper of a function
 * that the host lacks is never called.
 *
 * `a` is a buffer that the call reads, `b` a buffer that the call writes (of a send: reads); `n`,
 * `t` and `m`, `u` are their counts and datatypes, `d` and `e` their displacements. `q` is a
 * request, and `s` a status. `N` and `D` are the types of counts and displacements.
 *
 * The blocking collective calls, and at the end of this file those with persistent requests. */
#define COLLECTIVES(suffix, N, D)                                                                 \
    FROM_ALL(Allreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    FROM_ALL(Allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype   \
        u, MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, n, t, 0), lends_gathered(a, b, m,  \
        u, comm)))                                                                                \
    FROM_ALL(Allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const  \
        D *e, MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm), (lends(a, n, t, 0),    \
        LENDS_GATHERED(a, b, m, e, u, comm)))                                                     \
    FROM_ALL(Alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u, \
        MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, times_size(comm, n), t, 0), lends(b,  \
        times_size(comm, m), u, 1)))                                                              \
    FROM_ALL(Alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b,  \
        const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, d, t, b, m, e, u, comm),   \
        (a == MPI_IN_PLACE ? (void)0 : LENDS_EACH(a, n, d, t, comm, 0), LENDS_EACH(b, m, e, u,    \
        comm, 1)))                                                                                \
    FROM_ALL(Alltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t,    \
        void *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm), (a, n, d, t, b,   \
        m, e, u, comm), (a == MPI_IN_PLACE ? (void)0 : LENDS_EACH_TYPE(a, n, d, t, comm, 0),      \
        LENDS_EACH_TYPE(b, m, e, u, comm, 1)))                                                    \
    FROM_ALL(Reduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t, MPI_Op  \
        op, MPI_Comm comm), (a, b, n, t, op, comm), LENDS_SCATTERED(a, b, n, t, comm))            \
    FROM_ALL(Reduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op   \
        op, MPI_Comm comm), (a, b, n, t, op, comm), (lends(a, times_size(comm, n), t, 0),         \
        lends(b, n, t, 1)))                                                                       \
    FROM_ROOT(Bcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm), (b, n, t,   \
        root, comm), lends(b, n, t, !is_root(comm, root)))                                        \
    FROM_ROOT(Scatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u, \
        int root, MPI_Comm comm), (a, n, t, b, m, u, root, comm), (is_root(comm, root) ? lends(a, \
        times_size(comm, n), t, 0) : (void)0, lends(b, m, u, 1)))                                 \
    FROM_ROOT(Scatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b,  \
        N m, MPI_Datatype u, int root, MPI_Comm comm), (a, n, d, t, b, m, u, root, comm),         \
        (is_root(comm, root) ? LENDS_EACH(a, n, d, t, comm, 0) : (void)0, lends(b, m, u, 1)))     \
    TO_ROOT(Reduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,    \
        MPI_Comm comm), (a, b, n, t, op, root, comm), (lends(a, n, t, 0), is_root(comm, root) ?   \
        lends(b, n, t, 1) : (void)0))                                                             \
    TO_ROOT(Gather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,    \
        int root, MPI_Comm comm), (a, n, t, b, m, u, root, comm), (lends(a, n, t, 0),             \
        is_root(comm, root) ? lends_gathered(a, b, m, u, comm) : (void)0))                        \
    TO_ROOT(Gatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D    \
        *e, MPI_Datatype u, int root, MPI_Comm comm), (a, n, t, b, m, e, u, root, comm),          \
        (lends(a, n, t, 0), is_root(comm, root) ? LENDS_GATHERED(a, b, m, e, u, comm) : (void)0)) \
    FROM_LOWER(Scan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm    \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    FROM_LOWER(Exscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm  \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    FROM_NEIGHBORS(Neighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, \
        MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, n, t, 0),             \
        LENDS_NEIGHBORS(b, m, i * m, u, 1)))                                                      \
    FROM_NEIGHBORS(Neighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b,     \
        const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm),      \
        (lends(a, n, t, 0), LENDS_NEIGHBORS(b, m[i], e[i], u, 1)))                                \
    FROM_NEIGHBORS(Neighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,  \
        MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm), (LENDS_NEIGHBORS(a, n, i * n,   \
        t, 0), LENDS_NEIGHBORS(b, m, i * m, u, 1)))                                               \
    FROM_NEIGHBORS(Neighbor_alltoallv##suffix, (const void *a, const N *n, const D *d,            \
        MPI_Datatype t, void *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n,   \
        d, t, b, m, e, u, comm), (LENDS_NEIGHBORS(a, n[i], d[i], t, 0), LENDS_NEIGHBORS(b, m[i],  \
        e[i], u, 1)))                                                                             \
    FROM_NEIGHBORS(Neighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d,     \
        const MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u,     \
        MPI_Comm comm), (a, n, d, t, b, m, e, u, comm), (LENDS_NEIGHBOR_TYPES(a, n, d, t, 0),     \
        LENDS_NEIGHBOR_TYPES(b, m, e, u, 1)))

/* Nonblocking collective calls, sends and receives. */
#define NONBLOCKING_AND_MESSAGES(suffix, N, D)                                                    \
    IFROM_ALL(Iallreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op,        \
        MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b,   \
        n, t, 1)))                                                                                \
    IFROM_ALL(Iallgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype \
        u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a, n, t, 0),       \
        lends_gathered(a, b, m, u, comm)))                                                        \
    IFROM_ALL(Iallgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m,      \
        const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u, comm,   \
        q), (lends(a, n, t, 0), LENDS_GATHERED(a, b, m, e, u, comm)))                             \
    IFROM_ALL(Ialltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype  \
        u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a,                 \
        times_size(comm, n), t, 0), lends(b, times_size(comm, m), u, 1)))                         \
    IFROM_ALL(Ialltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void    \
        *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, d, t,  \
        b, m, e, u, comm, q), (a == MPI_IN_PLACE ? (void)0 : LENDS_EACH(a, n, d, t, comm, 0),     \
        LENDS_EACH(b, m, e, u, comm, 1)))                                                         \
    IFROM_ALL(Ialltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t,  \
        void *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm, MPI_Request *q),   \
        (a, n, d, t, b, m, e, u, comm, q), (a == MPI_IN_PLACE ? (void)0 : LENDS_EACH_TYPE(a, n,   \
        d, t, comm, 0), LENDS_EACH_TYPE(b, m, e, u, comm, 1)))                                    \
    IFROM_ALL(Ireduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t,       \
        MPI_Op op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), LENDS_SCATTERED(a,  \
        b, n, t, comm))                                                                           \
    IFROM_ALL(Ireduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op \
        op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, times_size(comm, \
        n), t, 0), lends(b, n, t, 1)))                                                            \
    IFROM_ROOT(Ibcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm,            \
        MPI_Request *q), (b, n, t, root, comm, q), lends(b, n, t, !is_root(comm, root)))          \
    IFROM_ROOT(Iscatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype  \
        u, int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q),           \
        (is_root(comm, root) ? lends(a, times_size(comm, n), t, 0) : (void)0, lends(b, m, u, 1))) \
    IFROM_ROOT(Iscatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void    \
        *b, N m, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, d, t, b, m, u,  \
        root, comm, q), (is_root(comm, root) ? LENDS_EACH(a, n, d, t, comm, 0) : (void)0,         \
        lends(b, m, u, 1)))                                                                       \
    ITO_ROOT(Ireduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,  \
        MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, root, comm, q), (lends(a, n, t, 0),      \
        is_root(comm, root) ? lends(b, n, t, 1) : (void)0))                                       \
    ITO_ROOT(Igather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,  \
        int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q), (lends(a, n, \
        t, 0), is_root(comm, root) ? lends_gathered(a, b, m, u, comm) : (void)0))                 \
    ITO_ROOT(Igatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D  \
        *e, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u, root, \
        comm, q), (lends(a, n, t, 0), is_root(comm, root) ? LENDS_GATHERED(a, b, m, e, u, comm) : \
        (void)0))                                                                                 \
    IFROM_LOWER(Iscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm  \
        comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b, n, t, 1))) \
    IFROM_LOWER(Iexscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op,         \
        MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b,   \
        n, t, 1)))                                                                                \
    IFROM_NEIGHBORS(Ineighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N  \
        m, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a, \
        n, t, 0), LENDS_NEIGHBORS(b, m, i * m, u, 1)))                                            \
    IFROM_NEIGHBORS(Ineighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b,   \
        const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m,   \
        e, u, comm, q), (lends(a, n, t, 0), LENDS_NEIGHBORS(b, m[i], e[i], u, 1)))                \
    IFROM_NEIGHBORS(Ineighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N   \
        m, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q),           \
        (LENDS_NEIGHBORS(a, n, i * n, t, 0), LENDS_NEIGHBORS(b, m, i * m, u, 1)))                 \
    IFROM_NEIGHBORS(Ineighbor_alltoallv##suffix, (const void *a, const N *n, const D *d,          \
        MPI_Datatype t, void *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm,           \
        MPI_Request *q), (a, n, d, t, b, m, e, u, comm, q), (LENDS_NEIGHBORS(a, n[i], d[i], t,    \
        0), LENDS_NEIGHBORS(b, m[i], e[i], u, 1)))                                                \
    IFROM_NEIGHBORS(Ineighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d,   \
        const MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u,     \
        MPI_Comm comm, MPI_Request *q), (a, n, d, t, b, m, e, u, comm, q),                        \
        (LENDS_NEIGHBOR_TYPES(a, n, d, t, 0), LENDS_NEIGHBOR_TYPES(b, m, e, u, 1)))               \
    SEND(Send##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm),    \
        (b, n, t, rank, tag, comm))                                                               \
    SEND(Bsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm),   \
        (b, n, t, rank, tag, comm))                                                               \
    SEND(Rsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm),   \
        (b, n, t, rank, tag, comm))                                                               \
    SYNCHRONOUS_SEND(Ssend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,       \
        MPI_Comm comm), (b, n, t, rank, tag, comm))                                               \
    ISEND(Isend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,   \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))                                           \
    ISEND(Ibsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,  \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))                                           \
    ISEND(Irsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,  \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))                                           \
    SYNCHRONOUS_ISEND(Issend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,     \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                            \
    IRECV(Irecv##suffix, (void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,         \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))                                           \
    SENDRECV(Sendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag, void *b, N   \
        m, MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Status *s), (a, n, t, to, tag,  \
        b, m, u, from, mark, comm, s), SENDRECV_IN_TURNS(suffix, N), (lends_message(a, n, t, to,  \
        0), lends_message(b, m, u, from, 1)))                                                     \
    SENDRECV(Sendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag, int from,  \
        int mark, MPI_Comm comm, MPI_Status *s), (b, n, t, to, tag, from, mark, comm, s), ,       \
        lends_replaced(b, n, t, to, from))                                                        \
    ISENDRECV(Isendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag, void *b, N \
        m, MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Request *q), (a, n, t, to, tag, \
        b, m, u, from, mark, comm, q), (lends_message(a, n, t, to, 0), lends_message(b, m, u,     \
        from, 1)))                                                                                \
    ISENDRECV(Isendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag, int      \
        from, int mark, MPI_Comm comm, MPI_Request *q), (b, n, t, to, tag, from, mark, comm, q),  \
        lends_replaced(b, n, t, to, from))                                                        \
    MRECV(Mrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message, MPI_Status *s), (b, \
        n, t, message, s))                                                                        \
    IMRECV(Imrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message, MPI_Request *q),  \
        (b, n, t, message, q))                                                                    \
    SEND_INIT(Send_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm \
        comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                                  \
    SEND_INIT(Bsend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                         \
    SEND_INIT(Rsend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                         \
    SEND_INIT(Ssend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 1)                         \
    RECV_INIT(Recv_init##suffix, (void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm, \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))

COLLECTIVES(, int, int)
COLLECTIVES(_c, MPI_Count, MPI_Aint)
NONBLOCKING_AND_MESSAGES(, int, int)
NONBLOCKING_AND_MESSAGES(_c, MPI_Count, MPI_Aint)

RECV(Recv_c, (void *b, MPI_Count n, MPI_Datatype t, int rank, int tag, MPI_Comm comm, MPI_Status
    *s), (b, n, t, rank, tag, comm, s))
IFROM_ALL(Ibarrier, (MPI_Comm comm, MPI_Request *q), (comm, q), (void)0)
CANCEL_REQUEST(Cancel, (MPI_Request *q), (q))
FREE_REQUEST(Request_free, (MPI_Request *q), (q))
START(Start, (MPI_Request *q), (q), 1, q)
START(Startall, (int n, MPI_Request *q), (n, q), n, q)
PARTITIONS(Pready, (int n, MPI_Request q), (n, q), transom_edge_partition_is_ready(q, n))
PARTITIONS(Pready_range, (int n, int m, MPI_Request q), (n, m, q), for (int i = n; i <= m; i++)
    transom_edge_partition_is_ready(q, i))
PARTITIONS(Pready_list, (int n, const int *m, MPI_Request q), (n, m, q), for (int i = 0; i < n;
    i++) transom_edge_partition_is_ready(q, m[i]))
PARTITIONS(Parrived, (MPI_Request q, int n, int *flag), (q, n, flag), , if (*flag)
    transom_edge_partition_has_arrived(q, n))
#define LOCAL_CALLS(suffix, N)                                                                    \
    LOCAL(Reduce_local##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op), (a, b,  \
        n, t, op), (lends(a, n, t, 0), lends(b, n, t, 1)))                                        \
    PACK(Pack##suffix, (const void *b, N n, MPI_Datatype t, void *p, N size, N *at, MPI_Comm      \
        comm), (b, n, t, p, size, at, comm), lends(b, n, t, 0), p, 1)                             \
    PACK(Unpack##suffix, (const void *p, N size, N *at, void *b, N n, MPI_Datatype t, MPI_Comm    \
        comm), (p, size, at, b, n, t, comm), lends(b, n, t, 1), p, 0)
LOCAL_CALLS(, int)
LOCAL_CALLS(_c, MPI_Count)
PROBE(Probe, (int rank, int tag, MPI_Comm comm, MPI_Status *s), (rank, tag, comm, s), 0,
    HOST(Iprobe)(rank, tag, comm, &flag, s))
IPROBE(Iprobe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Status *s), (rank, tag, comm,
    flag, s), 0)
PROBE(Mprobe, (int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *s), (rank, tag,
    comm, message, s), 1, HOST(Improbe)(rank, tag, comm, &flag, message, s))
IPROBE(Improbe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *s),
    (rank, tag, comm, flag, message, s), 1)
NEW_COMM(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
NEW_COMM(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out), (comm, info, out))
IDUP(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *q), (comm, out, q))
IDUP(Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *q), (comm,
    info, out, q))
NEW_COMM(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
NEW_COMM(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out), (comm,
    type, key, info, out))
NEW_COMM(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), (comm, group, out))
NEW_COMM_OF_MEMBERS(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out),
    (comm, group, tag, out))
NEW_COMM(Cart_create, (MPI_Comm comm, int n, const int *dims, const int *periods, int reorder,
    MPI_Comm *out), (comm, n, dims, periods, reorder, out))
NEW_COMM(Cart_sub, (MPI_Comm comm, const int *kept, MPI_Comm *out), (comm, kept, out))
NEW_COMM(Graph_create, (MPI_Comm comm, int n, const int *index, const int *edges, int reorder,
    MPI_Comm *out), (comm, n, index, edges, reorder, out))
NEW_COMM(Dist_graph_create, (MPI_Comm comm, int n, const int *from, const int *degrees, const int
    *to, const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from, degrees,
    to, weights, info, reorder, out))
NEW_COMM(Dist_graph_create_adjacent, (MPI_Comm comm, int n, const int *from, const int *in, int m,
    const int *to, const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from,
    in, m, to, weights, info, reorder, out))
NEW_COMM_OF_MEMBERS(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int
    tag, MPI_Comm *out), (comm, leader, peer, remote, tag, out))
NEW_COMM_OF_MEMBERS(Intercomm_merge, (MPI_Comm inter, int high, MPI_Comm *out), (inter, high, out))
FROM_UNKNOWN(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm
    *out), (port, info, root, comm, out))
FROM_UNKNOWN(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm
    *out), (port, info, root, comm, out))
FROM_UNKNOWN(Comm_spawn, (const char *command, char **arguments, int n, MPI_Info info, int root,
    MPI_Comm comm, MPI_Comm *out, int *codes), (command, arguments, n, info, root, comm, out,
    codes))
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
