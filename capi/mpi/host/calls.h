/* The functions of the host that are passed on as they are. */
PASS(Init, (int *argc, char ***argv), (argc, argv))
PASS(Init_thread, (int *argc, char ***argv, int required, int *provided), (argc, argv, required, provided))
PASS(Finalize, (void), ())
PASS(Query_thread, (int *provided), (provided))
PASS(Abort, (MPI_Comm comm, int code), (comm, code))

PASS(Comm_dup, (MPI_Comm comm, MPI_Comm *out), (comm, out))
PASS(Comm_free, (MPI_Comm *comm), (comm))
PASS(Comm_rank, (MPI_Comm comm, int *rank), (comm, rank))
PASS(Comm_size, (MPI_Comm comm, int *size), (comm, size))
PASS(Comm_group, (MPI_Comm comm, MPI_Group *group), (comm, group))
PASS(Comm_test_inter, (MPI_Comm comm, int *flag), (comm, flag))
PASS(Comm_call_errhandler, (MPI_Comm comm, int code), (comm, code))
PASS(Comm_get_errhandler, (MPI_Comm comm, MPI_Errhandler *out), (comm, out))
PASS(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
PASS(Comm_free_keyval, (int *keyval), (keyval))
PASS(Comm_set_attr, (MPI_Comm comm, int keyval, void *value), (comm, keyval, value))
PASS(Comm_get_attr, (MPI_Comm comm, int keyval, void *value, int *flag), (comm, keyval, value, flag))
PASS(Group_size, (MPI_Group group, int *size), (group, size))
PASS(Group_free, (MPI_Group *group), (group))
PASS(Group_translate_ranks, (MPI_Group from, int n, const int *ranks, MPI_Group to, int *out), (from, n, ranks, to, out))

PASS(Alloc_mem, (MPI_Aint size, MPI_Info info, void *base), (size, info, base))
PASS(Free_mem, (void *base), (base))

PASS(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
     (base, size, unit, info, comm, win))
PASS(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
     (size, unit, info, comm, base, win))
PASS(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
     (size, unit, info, comm, base, win))
PASS(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
PASS(Win_free, (MPI_Win *win), (win))
PASS(Win_attach, (MPI_Win win, void *base, MPI_Aint size), (win, base, size))
PASS(Win_detach, (MPI_Win win, const void *base), (win, base))
PASS(Win_shared_query, (MPI_Win win, int rank, MPI_Aint *size, int *unit, void *base), (win, rank, size, unit, base))
PASS(Win_get_attr, (MPI_Win win, int keyval, void *value, int *flag), (win, keyval, value, flag))
PASS(Win_set_attr, (MPI_Win win, int keyval, void *value), (win, keyval, value))
PASS(Win_delete_attr, (MPI_Win win, int keyval), (win, keyval))
PASS(Win_get_group, (MPI_Win win, MPI_Group *group), (win, group))
PASS(Win_set_info, (MPI_Win win, MPI_Info info), (win, info))
PASS(Win_get_info, (MPI_Win win, MPI_Info *info), (win, info))
PASS(Win_call_errhandler, (MPI_Win win, int code), (win, code))
PASS(Win_get_errhandler, (MPI_Win win, MPI_Errhandler *out), (win, out))
PASS(Win_set_errhandler, (MPI_Win win, MPI_Errhandler handler), (win, handler))
PASS(Errhandler_free, (MPI_Errhandler *out), (out))

PASS(Win_lock, (int type, int rank, int assert, MPI_Win win), (type, rank, assert, win))
PASS(Win_lock_all, (int assert, MPI_Win win), (assert, win))
PASS(Win_unlock, (int rank, MPI_Win win), (rank, win))
PASS(Win_unlock_all, (MPI_Win win), (win))
PASS(Win_flush, (int rank, MPI_Win win), (rank, win))
PASS(Win_flush_all, (MPI_Win win), (win))
PASS(Win_flush_local, (int rank, MPI_Win win), (rank, win))
PASS(Win_flush_local_all, (MPI_Win win), (win))
PASS(Win_sync, (MPI_Win win), (win))
PASS(Win_fence, (int assert, MPI_Win win), (assert, win))
PASS(Win_post, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
PASS(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
PASS(Win_complete, (MPI_Win win), (win))
PASS(Win_wait, (MPI_Win win), (win))
PASS(Win_test, (MPI_Win win, int *flag), (win, flag))

/* The operations, whose counts are int, or MPI_Count in the forms of MPI-4. */
#define OPERATIONS(suffix, N)                                                                                               \
    PASS(Put##suffix, (const void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Win w),               \
         (o, n, t, r, d, m, u, w))                                                                                          \
    PASS(Get##suffix, (void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Win w),                     \
         (o, n, t, r, d, m, u, w))                                                                                          \
    PASS(Accumulate##suffix,                                                                                                \
         (const void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Op op, MPI_Win w),                 \
         (o, n, t, r, d, m, u, op, w))                                                                                      \
    PASS(Get_accumulate##suffix,                                                                                            \
         (const void *o, N n, MPI_Datatype t, void *p, N k, MPI_Datatype v, int r, MPI_Aint d, N m, MPI_Datatype u,          \
          MPI_Op op, MPI_Win w),                                                                                            \
         (o, n, t, p, k, v, r, d, m, u, op, w))                                                                             \
    PASS(Rput##suffix,                                                                                                      \
         (const void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Win w, MPI_Request *q),            \
         (o, n, t, r, d, m, u, w, q))                                                                                       \
    PASS(Rget##suffix,                                                                                                      \
         (void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Win w, MPI_Request *q),                  \
         (o, n, t, r, d, m, u, w, q))                                                                                       \
    PASS(Raccumulate##suffix,                                                                                               \
         (const void *o, N n, MPI_Datatype t, int r, MPI_Aint d, N m, MPI_Datatype u, MPI_Op op, MPI_Win w, MPI_Request *q), \
         (o, n, t, r, d, m, u, op, w, q))                                                                                   \
    PASS(Rget_accumulate##suffix,                                                                                           \
         (const void *o, N n, MPI_Datatype t, void *p, N k, MPI_Datatype v, int r, MPI_Aint d, N m, MPI_Datatype u,          \
          MPI_Op op, MPI_Win w, MPI_Request *q),                                                                            \
         (o, n, t, p, k, v, r, d, m, u, op, w, q))

OPERATIONS(, int)
PASS(Fetch_and_op, (const void *o, void *p, MPI_Datatype t, int r, MPI_Aint d, MPI_Op op, MPI_Win w), (o, p, t, r, d, op, w))
PASS(Compare_and_swap, (const void *o, const void *c, void *p, MPI_Datatype t, int r, MPI_Aint d, MPI_Win w),
     (o, c, p, t, r, d, w))

#if MPI_VERSION >= 4
OPERATIONS(_c, MPI_Count)
PASS(Win_create_c, (void *base, MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
     (base, size, unit, info, comm, win))
PASS(Win_allocate_c, (MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
     (size, unit, info, comm, base, win))
PASS(Win_allocate_shared_c, (MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
     (size, unit, info, comm, base, win))
PASS(Win_shared_query_c, (MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *unit, void *base), (win, rank, size, unit, base))
#endif

PASS(Info_create, (MPI_Info *out), (out))
PASS(Info_free, (MPI_Info *out), (out))
PASS(Info_set, (MPI_Info info, const char *key, const char *value), (info, key, value))
PASS(Info_get_nkeys, (MPI_Info info, int *n), (info, n))
PASS(Info_get_nthkey, (MPI_Info info, int n, char *key), (info, n, key))
PASS(Info_get_valuelen, (MPI_Info info, const char *key, int *length, int *flag), (info, key, length, flag))

PASS(Type_free, (MPI_Datatype *type), (type))
PASS(Type_free_keyval, (int *keyval), (keyval))
PASS(Type_set_attr, (MPI_Datatype type, int keyval, void *value), (type, keyval, value))

PASS(Add_error_class, (int *class), (class))
PASS(Add_error_code, (int class, int *code), (class, code))
PASS(Add_error_string, (int code, const char *text), (code, text))

PASS(Barrier, (MPI_Comm comm), (comm))
PASS(Ibarrier, (MPI_Comm comm, MPI_Request *q), (comm, q))
PASS(Recv, (void *b, int n, MPI_Datatype t, int r, int tag, MPI_Comm comm, MPI_Status *s), (b, n, t, r, tag, comm, s))
PASS(Irecv, (void *b, int n, MPI_Datatype t, int r, int tag, MPI_Comm comm, MPI_Request *q), (b, n, t, r, tag, comm, q))

PASS(Grequest_complete, (MPI_Request request), (request))
PASS(Wait, (MPI_Request *q, MPI_Status *s), (q, s))
PASS(Test, (MPI_Request *q, int *flag, MPI_Status *s), (q, flag, s))
PASS(Waitall, (int n, MPI_Request *q, MPI_Status *s), (n, q, s))
PASS(Testall, (int n, MPI_Request *q, int *flag, MPI_Status *s), (n, q, flag, s))
PASS(Waitany, (int n, MPI_Request *q, int *index, MPI_Status *s), (n, q, index, s))
PASS(Testany, (int n, MPI_Request *q, int *index, int *flag, MPI_Status *s), (n, q, index, flag, s))
PASS(Waitsome, (int n, MPI_Request *q, int *done, int *indices, MPI_Status *s), (n, q, done, indices, s))
PASS(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *s), (source, tag, comm, flag, s))
#if MPI_VERSION >= 4
PASS(Psend_init, (const void *b, int parts, MPI_Count n, MPI_Datatype t, int rank, int tag, MPI_Comm comm, MPI_Info info,
     MPI_Request *q), (b, parts, n, t, rank, tag, comm, info, q))
PASS(Precv_init, (void *b, int parts, MPI_Count n, MPI_Datatype t, int rank, int tag, MPI_Comm comm, MPI_Info info,
     MPI_Request *q), (b, parts, n, t, rank, tag, comm, info, q))
#endif
PASS(Testsome, (int n, MPI_Request *q, int *done, int *indices, MPI_Status *s), (n, q, done, indices, s))
PASS(Request_get_status, (MPI_Request q, int *flag, MPI_Status *s), (q, flag, s))
/* Of MPI-4.1: never called where the host lacks them. */
PASS(Request_get_status_all, (int n, const MPI_Request *q, int *flag, MPI_Status *s), (n, q, flag, s))
PASS(Request_get_status_any, (int n, const MPI_Request *q, int *index, int *flag, MPI_Status *s), (n, q, index, flag, s))
PASS(Request_get_status_some, (int n, const MPI_Request *q, int *done, int *indices, MPI_Status *s), (n, q, done, indices, s))
/* An extension of MPICH from 4.1 on. It returns whether the request is complete. */
int host_is_complete(MPI_Request q) {
    static int (*next)(MPI_Request);
    if (!next) next = (int (*)(MPI_Request))host_function("PMPIX_Request_is_complete");
    return next(q);
}
/* Whether all ranks wait for each other in MPI_Finalize after the delete functions of
 * MPI_COMM_SELF, as in Open MPI unless its parameter async_mpi_finalize is set. */
int host_ends_with_barrier(void) {
#ifdef OPEN_MPI
    const _Bool *without = host_function("ompi_async_mpi_finalize");
    return !without || !*without;
#else
    return 0;
#endif
}
