/* The functions of the host that order the ranks, by how they do, with the buffers that they lend.
 * ANY and BESIDE may have waited for any; ALL, DOWN, UP and SCAN are the forms of collective calls,
 * IALL, IDOWN, IUP and ISCAN those that do not wait. All ranks of a communicator call MADE, which
 * makes another one; only the ranks of the new one call MADE_ALONE; MAKES begins to make one. FREED
 * frees a request. SENT and SENDS send a message, of which those with ANY wait until its receive
 * has begun; POSTS receives one, BOTH do both. MATCHED receives what PROBED has taken. LOCAL and
 * PACKED wait for no rank. A function that the host lacks is never called.
 *
 * The collective calls that wait. Those that make persistent requests have two arguments more. */
#define COLLECTIVE(suffix, N, D)                                                                  \
    ALL(Allreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm      \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    ALL(Allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype        \
        u, MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, n, t, 0), gathered(a, b, m, u,     \
        comm)))                                                                                   \
    ALL(Allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const       \
        D *e, MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm), (lends(a, n, t, 0),    \
        GATHERED(a, b, m, e, u, comm)))                                                           \
    ALL(Alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,      \
        MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, of_all(comm, n), t, 0), lends(b,      \
        of_all(comm, m), u, 1)))                                                                  \
    ALL(Alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b,       \
        const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, d, t, b, m, e, u, comm),   \
        (a == MPI_IN_PLACE ? (void)0 : EACH(a, n, d, t, comm, 0), EACH(b, m, e, u, comm, 1)))     \
    ALL(Alltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t,         \
        void *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm), (a, n, d, t, b,   \
        m, e, u, comm), (a == MPI_IN_PLACE ? (void)0 : EACH_TYPE(a, n, d, t, comm, 0),            \
        EACH_TYPE(b, m, e, u, comm, 1)))                                                          \
    ALL(Reduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t, MPI_Op       \
        op, MPI_Comm comm), (a, b, n, t, op, comm), SCATTERED(a, b, n, t, comm))                  \
    ALL(Reduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op        \
        op, MPI_Comm comm), (a, b, n, t, op, comm), (lends(a, of_all(comm, n), t, 0), lends(b,    \
        n, t, 1)))                                                                                \
    DOWN(Bcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm), (b, n, t,        \
        root, comm), lends(b, n, t, !is_root(comm, root)))                                        \
    DOWN(Scatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,      \
        int root, MPI_Comm comm), (a, n, t, b, m, u, root, comm), (is_root(comm, root) ?          \
        lends(a, of_all(comm, n), t, 0) : (void)0, lends(b, m, u, 1)))                            \
    DOWN(Scatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b,       \
        N m, MPI_Datatype u, int root, MPI_Comm comm), (a, n, d, t, b, m, u, root, comm),         \
        (is_root(comm, root) ? EACH(a, n, d, t, comm, 0) : (void)0, lends(b, m, u, 1)))           \
    UP(Reduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,         \
        MPI_Comm comm), (a, b, n, t, op, root, comm), (lends(a, n, t, 0), is_root(comm, root) ?   \
        lends(b, n, t, 1) : (void)0))                                                             \
    UP(Gather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,         \
        int root, MPI_Comm comm), (a, n, t, b, m, u, root, comm), (lends(a, n, t, 0),             \
        is_root(comm, root) ? gathered(a, b, m, u, comm) : (void)0))                              \
    UP(Gatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D         \
        *e, MPI_Datatype u, int root, MPI_Comm comm), (a, n, t, b, m, e, u, root, comm),          \
        (lends(a, n, t, 0), is_root(comm, root) ? GATHERED(a, b, m, e, u, comm) : (void)0))       \
    SCAN(Scan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm          \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    SCAN(Exscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm        \
        comm), (a, b, n, t, op, comm), (lends(a, n, t, 0), lends(b, n, t, 1)))                    \
    BESIDE(Neighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,         \
        MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm), (lends(a, n, t, 0),             \
        NEIGHBORS(b, m, i * m, u, 1)))                                                            \
    BESIDE(Neighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const       \
        N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm), (lends(a,  \
        n, t, 0), NEIGHBORS(b, m[i], e[i], u, 1)))                                                \
    BESIDE(Neighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,          \
        MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm), (NEIGHBORS(a, n, i * n, t, 0),  \
        NEIGHBORS(b, m, i * m, u, 1)))                                                            \
    BESIDE(Neighbor_alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype       \
        t, void *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, d, t, b, m,    \
        e, u, comm), (NEIGHBORS(a, n[i], d[i], t, 0), NEIGHBORS(b, m[i], e[i], u, 1)))            \
    BESIDE(Neighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d, const       \
        MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u, MPI_Comm  \
        comm), (a, n, d, t, b, m, e, u, comm), (NEIGHBOR_TYPES(a, n, d, t, 0), NEIGHBOR_TYPES(b,  \
        m, e, u, 1)))

#define COUNTED(suffix, N, D)                                                                     \
    IALL(Iallreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op,             \
        MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b,   \
        n, t, 1)))                                                                                \
    IALL(Iallgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype      \
        u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a, n, t, 0),       \
        gathered(a, b, m, u, comm)))                                                              \
    IALL(Iallgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m,           \
        const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u, comm,   \
        q), (lends(a, n, t, 0), GATHERED(a, b, m, e, u, comm)))                                   \
    IALL(Ialltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype       \
        u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a, of_all(comm,    \
        n), t, 0), lends(b, of_all(comm, m), u, 1)))                                              \
    IALL(Ialltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void         \
        *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, d, t,  \
        b, m, e, u, comm, q), (a == MPI_IN_PLACE ? (void)0 : EACH(a, n, d, t, comm, 0), EACH(b,   \
        m, e, u, comm, 1)))                                                                       \
    IALL(Ialltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t,       \
        void *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm, MPI_Request *q),   \
        (a, n, d, t, b, m, e, u, comm, q), (a == MPI_IN_PLACE ? (void)0 : EACH_TYPE(a, n, d, t,   \
        comm, 0), EACH_TYPE(b, m, e, u, comm, 1)))                                                \
    IALL(Ireduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t,            \
        MPI_Op op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), SCATTERED(a, b, n,  \
        t, comm))                                                                                 \
    IALL(Ireduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op      \
        op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, of_all(comm,     \
        n), t, 0), lends(b, n, t, 1)))                                                            \
    IDOWN(Ibcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm,                 \
        MPI_Request *q), (b, n, t, root, comm, q), lends(b, n, t, !is_root(comm, root)))          \
    IDOWN(Iscatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype       \
        u, int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q),           \
        (is_root(comm, root) ? lends(a, of_all(comm, n), t, 0) : (void)0, lends(b, m, u, 1)))     \
    IDOWN(Iscatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void         \
        *b, N m, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, d, t, b, m, u,  \
        root, comm, q), (is_root(comm, root) ? EACH(a, n, d, t, comm, 0) : (void)0, lends(b, m,   \
        u, 1)))                                                                                   \
    IUP(Ireduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,       \
        MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, root, comm, q), (lends(a, n, t, 0),      \
        is_root(comm, root) ? lends(b, n, t, 1) : (void)0))                                       \
    IUP(Igather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,       \
        int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q), (lends(a,    \
        n, t, 0), is_root(comm, root) ? gathered(a, b, m, u, comm) : (void)0))                    \
    IUP(Igatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D       \
        *e, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u,       \
        root, comm, q), (lends(a, n, t, 0), is_root(comm, root) ? GATHERED(a, b, m, e, u, comm)   \
        : (void)0))                                                                               \
    ISCAN(Iscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm        \
        comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b, n, t,      \
        1)))                                                                                      \
    ISCAN(Iexscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm      \
        comm, MPI_Request *q), (a, b, n, t, op, comm, q), (lends(a, n, t, 0), lends(b, n, t,      \
        1)))                                                                                      \
    IBESIDE(Ineighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,       \
        MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q), (lends(a, n, \
        t, 0), NEIGHBORS(b, m, i * m, u, 1)))                                                     \
    IBESIDE(Ineighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N   \
        *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u,     \
        comm, q), (lends(a, n, t, 0), NEIGHBORS(b, m[i], e[i], u, 1)))                            \
    IBESIDE(Ineighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,        \
        MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q),              \
        (NEIGHBORS(a, n, i * n, t, 0), NEIGHBORS(b, m, i * m, u, 1)))                             \
    IBESIDE(Ineighbor_alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t,  \
        void *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n,   \
        d, t, b, m, e, u, comm, q), (NEIGHBORS(a, n[i], d[i], t, 0), NEIGHBORS(b, m[i], e[i], u,  \
        1)))                                                                                      \
    IBESIDE(Ineighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d, const     \
        MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u, MPI_Comm  \
        comm, MPI_Request *q), (a, n, d, t, b, m, e, u, comm, q), (NEIGHBOR_TYPES(a, n, d, t, 0), \
        NEIGHBOR_TYPES(b, m, e, u, 1)))                                                           \
    SENT(Send##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm           \
        comm), (b, n, t, rank, tag, comm))                                                        \
    SENT(Bsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm          \
        comm), (b, n, t, rank, tag, comm))                                                        \
    SENT(Rsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm          \
        comm), (b, n, t, rank, tag, comm))                                                        \
    SENT_ANY(Ssend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm      \
        comm), (b, n, t, rank, tag, comm))                                                        \
    SENDS(Isend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm         \
        comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                     \
    SENDS(Ibsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm        \
        comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                     \
    SENDS(Irsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm        \
        comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                     \
    SENDS_ANY(Issend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,             \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                            \
    POSTS(Irecv##suffix, (void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,         \
        MPI_Request *q), (b, n, t, rank, tag, comm, q))                                           \
    BOTH(Sendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag, void *b, N       \
        m, MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Status *s), (a, n, t, to, tag,  \
        b, m, u, from, mark, comm, s), EXCHANGED_IN_TURNS(suffix, N), (passes(a, n, t, to, 0),    \
        passes(b, m, u, from, 1)))                                                                \
    BOTH(Sendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag, int from,      \
        int mark, MPI_Comm comm, MPI_Status *s), (b, n, t, to, tag, from, mark, comm, s), ,       \
        replaces(b, n, t, to, from))                                                              \
    BOTH_POSTED(Isendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag,          \
        void *b, N m, MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Request *q), (a, n,  \
        t, to, tag, b, m, u, from, mark, comm, q), (passes(a, n, t, to, 0), passes(b, m, u, from, \
        1)))                                                                                      \
    BOTH_POSTED(Isendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag,        \
        int from, int mark, MPI_Comm comm, MPI_Request *q), (b, n, t, to, tag, from, mark, comm,  \
        q), replaces(b, n, t, to, from))                                                          \
    MATCHED(Mrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message, MPI_Status        \
        *s), (b, n, t, message, s))                                                               \
    MATCHED_POSTED(Imrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message,           \
        MPI_Request *q), (b, n, t, message, q))                                                   \
    SEND_MADE(Send_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,          \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                         \
    SEND_MADE(Bsend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                         \
    SEND_MADE(Rsend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 0)                         \
    SEND_MADE(Ssend_init##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag,         \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q), 1)                         \
    RECEIVE_MADE(Recv_init##suffix, (void *b, N n, MPI_Datatype t, int rank, int tag,             \
        MPI_Comm comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))

COLLECTIVE(, int, int)
COLLECTIVE(_c, MPI_Count, MPI_Aint)
COUNTED(, int, int)
COUNTED(_c, MPI_Count, MPI_Aint)

RECEIVED(Recv_c, (void *b, MPI_Count n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,
    MPI_Status *s), (b, n, t, rank, tag, comm, s))
IALL(Ibarrier, (MPI_Comm comm, MPI_Request *q), (comm, q), (void)0)
FREED(Request_free, (MPI_Request *q), (q))
STARTED(Start, (MPI_Request *q), (q), 1, q)
STARTED(Startall, (int n, MPI_Request *q), (n, q), n, q)
READY(Pready, (int n, MPI_Request q), (n, q), transom_edge_ready(q, n))
READY(Pready_range, (int n, int m, MPI_Request q), (n, m, q),
    for (int i = n; i <= m; i++) transom_edge_ready(q, i))
READY(Pready_list, (int n, const int *m, MPI_Request q), (n, m, q),
    for (int i = 0; i < n; i++) transom_edge_ready(q, m[i]))
READY(Parrived, (MPI_Request q, int n, int *flag), (q, n, flag), , if (*flag) transom_edge_arrived(q, n))
#define MEMORY(suffix, N)                                                                         \
    LOCAL(Reduce_local##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op), (a, b,  \
        n, t, op), (lends(a, n, t, 0), lends(b, n, t, 1)))                                        \
    PACKED(Pack##suffix, (const void *b, N n, MPI_Datatype t, void *p, N size, N *at, MPI_Comm    \
        comm), (b, n, t, p, size, at, comm), lends(b, n, t, 0), p, 1)                             \
    PACKED(Unpack##suffix, (const void *p, N size, N *at, void *b, N n, MPI_Datatype t, MPI_Comm  \
        comm), (p, size, at, b, n, t, comm), lends(b, n, t, 1), p, 0)
MEMORY(, int)
MEMORY(_c, MPI_Count)
PROBED(Probe, (int rank, int tag, MPI_Comm comm, MPI_Status *s), (rank, tag, comm, s), 0,
    HOST(Iprobe)(rank, tag, comm, &flag, s))
PROBED_FLAG(Iprobe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Status *s), (rank, tag,
    comm, flag, s), 0)
PROBED(Mprobe, (int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *s), (rank,
    tag, comm, message, s), 1, HOST(Improbe)(rank, tag, comm, &flag, message, s))
PROBED_FLAG(Improbe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
    MPI_Status *s), (rank, tag, comm, flag, message, s), 1)
MADE(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
MADE(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out), (comm, info, out))
MAKES(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *q), (comm, out, q))
MAKES(Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *q), (comm,
    info, out, q))
MADE(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
MADE(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out), (comm,
    type, key, info, out))
MADE(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), (comm, group, out))
MADE_ALONE(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out), (comm,
    group, tag, out))
MADE(Cart_create, (MPI_Comm comm, int n, const int *dims, const int *periods, int reorder,
    MPI_Comm *out), (comm, n, dims, periods, reorder, out))
MADE(Cart_sub, (MPI_Comm comm, const int *kept, MPI_Comm *out), (comm, kept, out))
MADE(Graph_create, (MPI_Comm comm, int n, const int *index, const int *edges, int reorder,
    MPI_Comm *out), (comm, n, index, edges, reorder, out))
MADE(Dist_graph_create, (MPI_Comm comm, int n, const int *from, const int *degrees, const int *to,
    const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from, degrees, to,
    weights, info, reorder, out))
MADE(Dist_graph_create_adjacent, (MPI_Comm comm, int n, const int *from, const int *in, int m,
    const int *to, const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from, in,
    m, to, weights, info, reorder, out))
MADE_ALONE(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm
    *out), (comm, leader, peer, remote, tag, out))
MADE_ALONE(Intercomm_merge, (MPI_Comm inter, int high, MPI_Comm *out), (inter, high, out))
ANY(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out), (port,
    info, root, comm, out))
ANY(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out),
    (port, info, root, comm, out))
ANY(Comm_spawn, (const char *command, char **arguments, int n, MPI_Info info, int root, MPI_Comm
    comm, MPI_Comm *out, int *codes), (command, arguments, n, info, root, comm, out, codes))
ANY(Comm_disconnect, (MPI_Comm *comm), (comm))

#undef ALL
#undef DOWN
#undef UP
#undef SCAN
#undef BESIDE
#define ALL(name, parameters, arguments, buffers) KEPT(name, parameters, arguments, buffers, 0, group_of(comm)->size)
#define DOWN(name, parameters, arguments, buffers) KEPT(name, parameters, arguments, buffers, root, hears_root(comm, root))
#define UP(name, parameters, arguments, buffers)                                                  \
    KEPT(name, parameters, arguments, buffers, 0, is_root(comm, root) ? group_of(comm)->size : 0)
#define SCAN(name, parameters, arguments, buffers) KEPT(name, parameters, arguments, buffers, 0, group_of(comm)->me)
#define BESIDE(name, parameters, arguments, buffers) KEPT_BESIDE(name, parameters, arguments, buffers)
COLLECTIVE(_init, int, int)
COLLECTIVE(_init_c, MPI_Count, MPI_Aint)
ALL(Barrier_init, (MPI_Comm comm), (comm), (void)0)
