/* The functions of the host that order ranks, by how they do: RELEASE waits for no rank, ANY may
 * have waited for any, FLAG too if its flag is set; ALL, DOWN, UP and SCAN are the forms of
 * collective calls. SENT and SENT_ANY send one message; OTHER and OTHER_ANY send or receive
 * messages otherwise than by a send and MPI_Recv. A function that the host lacks is never called.
 */
#define COUNTED(suffix, N, D)                                                                     \
    ALL(Allreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm      \
         comm), (a, b, n, t, op, comm))                                                           \
    ALL(Allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,     \
         MPI_Comm comm), (a, n, t, b, m, u, comm))                                                \
    ALL(Allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D *e, \
         MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm))                             \
    ALL(Alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,      \
         MPI_Comm comm), (a, n, t, b, m, u, comm))                                                \
    ALL(Alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b, const \
         N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, d, t, b, m, e, u, comm))        \
    ALL(Alltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t, void    \
         *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm), (a, n, d, t, b, m, e, \
         u, comm))                                                                                \
    ALL(Reduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t, MPI_Op op,   \
         MPI_Comm comm), (a, b, n, t, op, comm))                                                  \
    ALL(Reduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op,    \
         MPI_Comm comm), (a, b, n, t, op, comm))                                                  \
    DOWN(Bcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm), (b, n, t, root,  \
         comm))                                                                                   \
    DOWN(Scatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u, int  \
         root, MPI_Comm comm), (a, n, t, b, m, u, root, comm))                                    \
    DOWN(Scatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b, N m,  \
         MPI_Datatype u, int root, MPI_Comm comm), (a, n, d, t, b, m, u, root, comm))             \
    UP(Reduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,         \
         MPI_Comm comm), (a, b, n, t, op, root, comm))                                            \
    UP(Gather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u, int     \
         root, MPI_Comm comm), (a, n, t, b, m, u, root, comm))                                    \
    UP(Gatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D *e,     \
         MPI_Datatype u, int root, MPI_Comm comm), (a, n, t, b, m, e, u, root, comm))             \
    SCAN(Scan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),   \
         (a, b, n, t, op, comm))                                                                  \
    SCAN(Exscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), \
         (a, b, n, t, op, comm))                                                                  \
    ANY(Neighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,            \
         MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm))                                \
    ANY(Neighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m,    \
         const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, e, u, comm))                 \
    ANY(Neighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,             \
         MPI_Datatype u, MPI_Comm comm), (a, n, t, b, m, u, comm))                                \
    ANY(Neighbor_alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void  \
         *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm), (a, n, d, t, b, m, e, u,     \
         comm))                                                                                   \
    ANY(Neighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d, const          \
         MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u, MPI_Comm \
         comm), (a, n, d, t, b, m, e, u, comm))                                                   \
    RELEASE(Iallreduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm \
         comm, MPI_Request *q), (a, b, n, t, op, comm, q))                                        \
    RELEASE(Iallgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype   \
         u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q))                          \
    RELEASE(Iallgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const  \
         D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u, comm, q))    \
    RELEASE(Ialltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u, \
         MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q))                             \
    RELEASE(Ialltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b,  \
         const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, d, t, b,  \
         m, e, u, comm, q))                                                                       \
    RELEASE(Ialltoallw##suffix, (const void *a, const N *n, const D *d, const MPI_Datatype *t,    \
         void *b, const N *m, const D *e, const MPI_Datatype *u, MPI_Comm comm, MPI_Request *q),  \
         (a, n, d, t, b, m, e, u, comm, q))                                                       \
    RELEASE(Ireduce_scatter##suffix, (const void *a, void *b, const N *n, MPI_Datatype t, MPI_Op  \
         op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q))                           \
    RELEASE(Ireduce_scatter_block##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op   \
         op, MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, comm, q))                           \
    RELEASE(Ibcast##suffix, (void *b, N n, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request   \
         *q), (b, n, t, root, comm, q))                                                           \
    RELEASE(Iscatter##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,  \
         int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q))             \
    RELEASE(Iscatterv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t, void *b, N \
         m, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, d, t, b, m, u, root, \
         comm, q))                                                                                \
    RELEASE(Ireduce##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, int root,   \
         MPI_Comm comm, MPI_Request *q), (a, b, n, t, op, root, comm, q))                         \
    RELEASE(Igather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m, MPI_Datatype u,   \
         int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, root, comm, q))             \
    RELEASE(Igatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N *m, const D   \
         *e, MPI_Datatype u, int root, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u,      \
         root, comm, q))                                                                          \
    RELEASE(Iscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm      \
         comm, MPI_Request *q), (a, b, n, t, op, comm, q))                                        \
    RELEASE(Iexscan##suffix, (const void *a, void *b, N n, MPI_Datatype t, MPI_Op op, MPI_Comm    \
         comm, MPI_Request *q), (a, b, n, t, op, comm, q))                                        \
    RELEASE(Ineighbor_allgather##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,       \
         MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q))             \
    RELEASE(Ineighbor_allgatherv##suffix, (const void *a, N n, MPI_Datatype t, void *b, const N   \
         *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, e, u,    \
         comm, q))                                                                                \
    RELEASE(Ineighbor_alltoall##suffix, (const void *a, N n, MPI_Datatype t, void *b, N m,        \
         MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n, t, b, m, u, comm, q))             \
    RELEASE(Ineighbor_alltoallv##suffix, (const void *a, const N *n, const D *d, MPI_Datatype t,  \
         void *b, const N *m, const D *e, MPI_Datatype u, MPI_Comm comm, MPI_Request *q), (a, n,  \
         d, t, b, m, e, u, comm, q))                                                              \
    RELEASE(Ineighbor_alltoallw##suffix, (const void *a, const N *n, const MPI_Aint *d, const     \
         MPI_Datatype *t, void *b, const N *m, const MPI_Aint *e, const MPI_Datatype *u, MPI_Comm \
         comm, MPI_Request *q), (a, n, d, t, b, m, e, u, comm, q))                                \
    SENT(Send##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm), \
         (b, n, t, rank, tag, comm))                                                              \
    SENT(Bsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm       \
         comm), (b, n, t, rank, tag, comm))                                                       \
    SENT(Rsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm       \
         comm), (b, n, t, rank, tag, comm))                                                       \
    SENT_ANY(Ssend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm),    \
         (b, n, t, rank, tag, comm))                                                              \
    OTHER(Isend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm, \
         MPI_Request *q), (b, n, t, rank, tag, comm, q))                                          \
    OTHER(Ibsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm      \
         comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                    \
    OTHER(Irsend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm      \
         comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                    \
    OTHER(Issend##suffix, (const void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm      \
         comm, MPI_Request *q), (b, n, t, rank, tag, comm, q))                                    \
    OTHER(Irecv##suffix, (void *b, N n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,       \
         MPI_Request *q), (b, n, t, rank, tag, comm, q))                                          \
    OTHER_ANY(Sendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag, void *b, N m,     \
         MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Status *s), (a, n, t, to, tag, b, \
         m, u, from, mark, comm, s))                                                              \
    OTHER_ANY(Sendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag, int from, int   \
         mark, MPI_Comm comm, MPI_Status *s), (b, n, t, to, tag, from, mark, comm, s))            \
    OTHER(Isendrecv##suffix, (const void *a, N n, MPI_Datatype t, int to, int tag, void *b, N   \
         m, MPI_Datatype u, int from, int mark, MPI_Comm comm, MPI_Request *q), (a, n, t, to,     \
         tag, b, m, u, from, mark, comm, q))                                                      \
    OTHER(Isendrecv_replace##suffix, (void *b, N n, MPI_Datatype t, int to, int tag, int from,  \
         int mark, MPI_Comm comm, MPI_Request *q), (b, n, t, to, tag, from, mark, comm, q))       \
    OTHER_ANY(Mrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message, MPI_Status *s), (b,   \
         n, t, message, s))                                                                       \
    OTHER(Imrecv##suffix, (void *b, N n, MPI_Datatype t, MPI_Message *message, MPI_Request *q), \
         (b, n, t, message, q))

COUNTED(, int, int)
COUNTED(_c, MPI_Count, MPI_Aint)

OTHER_ANY(Recv_c, (void *b, MPI_Count n, MPI_Datatype t, int rank, int tag, MPI_Comm comm,
     MPI_Status *s), (b, n, t, rank, tag, comm, s))

RELEASE(Ibarrier, (MPI_Comm comm, MPI_Request *q), (comm, q))
OTHER(Start, (MPI_Request *q), (q))
OTHER(Startall, (int n, MPI_Request *q), (n, q))
RELEASE(Pready, (int n, MPI_Request q), (n, q))
RELEASE(Pready_range, (int n, int m, MPI_Request q), (n, m, q))
RELEASE(Pready_list, (int n, const int *m, MPI_Request q), (n, m, q))
FLAG(Parrived, (MPI_Request q, int n, int *flag), (q, n, flag))
ANY(Probe, (int rank, int tag, MPI_Comm comm, MPI_Status *s), (rank, tag, comm, s))
FLAG(Iprobe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Status *s), (rank, tag, comm, flag,
     s))
ANY(Mprobe, (int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *s), (rank, tag,
     comm, message, s))
FLAG(Improbe, (int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *s),
     (rank, tag, comm, flag, message, s))
ALL(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
ALL(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out), (comm, info, out))
RELEASE(Comm_idup, (MPI_Comm comm, MPI_Comm *out, MPI_Request *q), (comm, out, q))
RELEASE(Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *q), (comm,
     info, out, q))
ALL(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out))
ALL(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out), (comm, type,
     key, info, out))
ALL(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *out), (comm, group, out))
ANY(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out), (comm, group, tag,
     out))
ALL(Cart_create, (MPI_Comm comm, int n, const int *dims, const int *periods, int reorder, MPI_Comm
     *out), (comm, n, dims, periods, reorder, out))
ALL(Cart_sub, (MPI_Comm comm, const int *kept, MPI_Comm *out), (comm, kept, out))
ALL(Graph_create, (MPI_Comm comm, int n, const int *index, const int *edges, int reorder, MPI_Comm
     *out), (comm, n, index, edges, reorder, out))
ALL(Dist_graph_create, (MPI_Comm comm, int n, const int *from, const int *degrees, const int *to,
     const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from, degrees, to,
     weights, info, reorder, out))
ALL(Dist_graph_create_adjacent, (MPI_Comm comm, int n, const int *from, const int *in, int m, const
     int *to, const int *weights, MPI_Info info, int reorder, MPI_Comm *out), (comm, n, from, in,
     m, to, weights, info, reorder, out))
ANY(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm
     *out), (comm, leader, peer, remote, tag, out))
ANY(Intercomm_merge, (MPI_Comm inter, int high, MPI_Comm *out), (inter, high, out))
ANY(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out), (port,
     info, root, comm, out))
ANY(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *out), (port,
     info, root, comm, out))
ANY(Comm_spawn, (const char *command, char **arguments, int n, MPI_Info info, int root, MPI_Comm
     comm, MPI_Comm *out, int *codes), (command, arguments, n, info, root, comm, out, codes))
ANY(Comm_disconnect, (MPI_Comm *comm), (comm))
