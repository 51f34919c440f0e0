/* The host MPI as the Rust side calls it: constants, tables, and its functions by their PMPI names. Compiled by the host's own
 * compiler wrapper, so that its header says what handles and constants are. Every name of the host is weak, or looked up: the library
 * is loaded into programs that have no MPI too, such as the launcher. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Win) == TRANSOM_HANDLE && sizeof(MPI_Comm) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Datatype) == TRANSOM_HANDLE && sizeof(MPI_Op) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Info) == TRANSOM_HANDLE && sizeof(MPI_Group) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Request) == TRANSOM_HANDLE && sizeof(MPI_Errhandler) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Aint) == sizeof(long) && sizeof(MPI_Count) == 8, "integers");

#ifdef OPEN_MPI
/* Its handles are addresses of variables of libmpi. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)dlsym(RTLD_DEFAULT, #global))
#endif

#define TEXT(words) #words
#define WEAK(name) _Pragma(TEXT(weak PMPI_##name))
/* A function of the host under another name. The library has many of the PMPI names itself: the host's is the next one. */
#define PASS(name, parameters, arguments)                                                                                   \
    int host_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)dlsym(RTLD_NEXT, "PMPI_" #name);                                               \
        return next arguments;                                                                                              \
    }

#include "calls.h"

WEAK(Allgather)
WEAK(Allgatherv)
WEAK(Iprobe)
WEAK(Type_create_keyval)
WEAK(Comm_create_keyval)
WEAK(Type_get_envelope)
WEAK(Type_get_contents)
WEAK(Type_size)
WEAK(Type_get_extent)
WEAK(Type_get_true_extent)
WEAK(Comm_split_type)
WEAK(Info_get)
WEAK(Status_set_elements)
WEAK(Status_set_cancelled)

/* Whether this process has an MPI. */
int host_present(void) { return PMPI_Allgather != 0; }

size_t host_constants_bytes(void) { return sizeof(struct constants); }

void host_constants(struct constants *out) {
    const MPI_Op ops[OPS] = {MPI_MAX, MPI_MIN,  MPI_SUM,  MPI_PROD,   MPI_LAND,   MPI_BAND,    MPI_LOR,
                             MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE, MPI_NO_OP};
    const int classes[CLASSES] = {MPI_ERR_WIN,          MPI_ERR_BASE,       MPI_ERR_SIZE,       MPI_ERR_DISP,
                                  MPI_ERR_RANK,         MPI_ERR_TYPE,       MPI_ERR_COUNT,      MPI_ERR_OP,
                                  MPI_ERR_LOCKTYPE,     MPI_ERR_ASSERT,     MPI_ERR_ARG,        MPI_ERR_RMA_CONFLICT,
                                  MPI_ERR_RMA_ATTACH,   MPI_ERR_RMA_SHARED, MPI_ERR_RMA_FLAVOR, MPI_ERR_RMA_RANGE,
                                  MPI_ERR_RMA_SYNC,     MPI_ERR_INFO_VALUE, MPI_ERR_OTHER};
    memset(out, 0, sizeof *out);
    memcpy(out->ops, ops, sizeof ops);
    memcpy(out->classes, classes, sizeof classes);
    out->world = MPI_COMM_WORLD, out->alone = MPI_COMM_SELF, out->null_comm = MPI_COMM_NULL;
    out->null_type = MPI_DATATYPE_NULL, out->null_info = MPI_INFO_NULL;
    out->null_request = MPI_REQUEST_NULL, out->ignored = MPI_STATUS_IGNORE, out->null_win = MPI_WIN_NULL;
    out->fatal = MPI_ERRORS_ARE_FATAL;
#if MPI_VERSION >= 4
    out->abort = MPI_ERRORS_ABORT;
#else
    out->abort = MPI_ERRORS_ARE_FATAL;
#endif
    out->undefined = MPI_UNDEFINED, out->proc_null = MPI_PROC_NULL;
    out->thread_multiple = MPI_THREAD_MULTIPLE;
    out->lock_exclusive = MPI_LOCK_EXCLUSIVE, out->lock_shared = MPI_LOCK_SHARED;
    out->nocheck = MPI_MODE_NOCHECK, out->nostore = MPI_MODE_NOSTORE, out->noput = MPI_MODE_NOPUT;
    out->noprecede = MPI_MODE_NOPRECEDE, out->nosucceed = MPI_MODE_NOSUCCEED;
    out->win_base = MPI_WIN_BASE, out->win_size = MPI_WIN_SIZE, out->win_disp_unit = MPI_WIN_DISP_UNIT;
    out->win_create_flavor = MPI_WIN_CREATE_FLAVOR, out->win_model = MPI_WIN_MODEL;
    out->flavor_create = MPI_WIN_FLAVOR_CREATE, out->flavor_allocate = MPI_WIN_FLAVOR_ALLOCATE;
    out->flavor_dynamic = MPI_WIN_FLAVOR_DYNAMIC, out->flavor_shared = MPI_WIN_FLAVOR_SHARED;
    out->separate = MPI_WIN_SEPARATE, out->unified = MPI_WIN_UNIFIED;
    out->max_info_key = MPI_MAX_INFO_KEY;
}

/* Fills `out` with at most `most` predefined types; how many there are. Types that the host was built without are left out. */
int host_predefined(struct predefined *out, int most) {
    const struct predefined all[] = {
        {MPI_CHAR, 'i'},           {MPI_SIGNED_CHAR, 'i'},    {MPI_UNSIGNED_CHAR, 'u'}, {MPI_SHORT, 'i'},
        {MPI_UNSIGNED_SHORT, 'u'}, {MPI_INT, 'i'},            {MPI_UNSIGNED, 'u'},      {MPI_LONG, 'i'},
        {MPI_UNSIGNED_LONG, 'u'},  {MPI_LONG_LONG, 'i'},      {MPI_UNSIGNED_LONG_LONG, 'u'},
        {MPI_INT8_T, 'i'},         {MPI_INT16_T, 'i'},        {MPI_INT32_T, 'i'},       {MPI_INT64_T, 'i'},
        {MPI_UINT8_T, 'u'},        {MPI_UINT16_T, 'u'},       {MPI_UINT32_T, 'u'},      {MPI_UINT64_T, 'u'},
        {MPI_WCHAR, 'i'},          {MPI_AINT, 'i'},           {MPI_COUNT, 'i'},         {MPI_OFFSET, 'i'},
        {MPI_FLOAT, 'f'},          {MPI_DOUBLE, 'f'},         {MPI_C_BOOL, 'b'},        {MPI_BYTE, 'y'},
        {MPI_PACKED, 'y'},         {MPI_C_FLOAT_COMPLEX, 'c'}, {MPI_C_DOUBLE_COMPLEX, 'c'},
        {MPI_FLOAT_INT, 'F'},      {MPI_DOUBLE_INT, 'D'},     {MPI_LONG_INT, 'L'},      {MPI_2INT, '2'},
        {MPI_SHORT_INT, 'S'},      {MPI_INTEGER, 'i'},        {MPI_REAL, 'f'},          {MPI_DOUBLE_PRECISION, 'f'},
        {MPI_COMPLEX, 'c'},        {MPI_DOUBLE_COMPLEX, 'c'}, {MPI_LOGICAL, 'i'},       {MPI_CHARACTER, 'y'},
        {MPI_2INTEGER, '2'},       {MPI_INTEGER1, 'i'},       {MPI_INTEGER2, 'i'},      {MPI_INTEGER4, 'i'},
        {MPI_INTEGER8, 'i'},       {MPI_REAL4, 'f'},          {MPI_REAL8, 'f'},         {MPI_COMPLEX8, 'c'},
        {MPI_COMPLEX16, 'c'},      {MPI_CXX_BOOL, 'b'},       {MPI_CXX_FLOAT_COMPLEX, 'c'},
        {MPI_CXX_DOUBLE_COMPLEX, 'c'},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].type != MPI_DATATYPE_NULL && all[i].type != (MPI_Datatype)0 && count < most) out[count++] = all[i];
    return count;
}

/* --- the job's own communicator ------------------------------------------------------------------------------------------ */

int host_gather_lengths(MPI_Comm comm, int mine, int *all) { return PMPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm); }

int host_gather_bytes(MPI_Comm comm, const void *mine, int count, void *all, const int *counts, const int *places) {
    return PMPI_Allgatherv(mine, count, MPI_BYTE, all, counts, places, MPI_BYTE, comm);
}

/* Gives the host a chance to make progress: nothing is ever sent on `comm`. */
void host_progress(MPI_Comm comm) {
    int flag;
    MPI_Status status;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
}

/* Has the host call `poll` while it waits in any call of its own, as Open MPI's libraries allow; whether it will. */
int host_poll_with(int (*poll)(void)) {
    int (*add)(int (*)(void)) = (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_register");
    return add && add(poll) == 0;
}

/* Ends that. */
void host_poll_without(int (*poll)(void)) {
    int (*take)(int (*)(void)) = (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_unregister");
    if (take) {
        take(poll);
    }
}

int host_split_machine(MPI_Comm comm, int key, MPI_Comm *out) {
    return PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, out);
}

/* --- attributes ---------------------------------------------------------------------------------------------------------- */

/* The Rust side's: forgets what is kept with a type, or a communicator. */
void transom_forget_type(MPI_Datatype type);
void transom_forget_comm(void *kept);

static int type_gone(MPI_Datatype type, int keyval, void *kept, void *extra) {
    (void)keyval, (void)kept, (void)extra;
    transom_forget_type(type);
    return MPI_SUCCESS;
}

static int comm_gone(MPI_Comm comm, int keyval, void *kept, void *extra) {
    (void)comm, (void)keyval, (void)extra;
    transom_forget_comm(kept);
    return MPI_SUCCESS;
}

/* A duplicate is looked at afresh. */
static int type_not_copied(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)type, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int comm_not_copied(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

int host_type_keyval(int *keyval) { return PMPI_Type_create_keyval(type_not_copied, type_gone, keyval, 0); }
int host_comm_keyval(int *keyval) { return PMPI_Comm_create_keyval(comm_not_copied, comm_gone, keyval, 0); }

/* --- datatypes ----------------------------------------------------------------------------------------------------------- */

static int combiner_of(int host) {
    switch (host) {
    case MPI_COMBINER_NAMED: return NAMED;
    case MPI_COMBINER_DUP: return DUP;
    case MPI_COMBINER_CONTIGUOUS: return CONTIGUOUS;
    case MPI_COMBINER_VECTOR: return VECTOR;
    case MPI_COMBINER_HVECTOR: return HVECTOR;
    case MPI_COMBINER_INDEXED: return INDEXED;
    case MPI_COMBINER_HINDEXED: return HINDEXED;
    case MPI_COMBINER_INDEXED_BLOCK: return INDEXED_BLOCK;
    case MPI_COMBINER_HINDEXED_BLOCK: return HINDEXED_BLOCK;
    case MPI_COMBINER_STRUCT: return STRUCT;
    case MPI_COMBINER_SUBARRAY: return SUBARRAY;
    case MPI_COMBINER_RESIZED: return RESIZED;
    /* What the Fortran constructors make. */
    case MPI_COMBINER_F90_INTEGER:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX: return NAMED;
    default: return OTHER;
    }
}

int host_envelope(MPI_Datatype type, struct envelope *out) {
    int host;
#if MPI_VERSION >= 4
#pragma weak PMPI_Type_get_envelope_c
    int code = PMPI_Type_get_envelope_c(type, &out->numbers, &out->addresses, &out->large, &out->types, &host);
#else
    int numbers, addresses, types;
    int code = PMPI_Type_get_envelope(type, &numbers, &addresses, &types, &host);
    out->numbers = numbers, out->addresses = addresses, out->large = 0, out->types = types;
#endif
    if (code == MPI_SUCCESS) out->combiner = combiner_of(host);
    return code;
}

int host_contents(MPI_Datatype type, const struct envelope *sizes, int *numbers, MPI_Aint *addresses, MPI_Count *large,
                  MPI_Datatype *types) {
#if MPI_VERSION >= 4
#pragma weak PMPI_Type_get_contents_c
    return PMPI_Type_get_contents_c(type, sizes->numbers, sizes->addresses, sizes->large, sizes->types, numbers, addresses,
                                    large, types);
#else
    (void)large;
    return PMPI_Type_get_contents(type, sizes->numbers, sizes->addresses, sizes->types, numbers, addresses, types);
#endif
}

/* Whether arrays of a subarray are of Fortran's order. */
int host_is_fortran_order(int order) { return order == MPI_ORDER_FORTRAN; }

int host_measure(MPI_Datatype type, MPI_Aint *size, MPI_Aint *lb, MPI_Aint *extent) {
    int bytes;
    int code = PMPI_Type_size(type, &bytes);
    *size = bytes;
    return code != MPI_SUCCESS ? code : PMPI_Type_get_extent(type, lb, extent);
}

/* --- requests ------------------------------------------------------------------------------------------------------------ */

/* The Rust side's: the error code of a request's operation, and the end of its record. */
int transom_request_code(void *kept);
void transom_request_gone(void *kept);

static int request_status(void *kept, MPI_Status *status) {
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_ERROR = transom_request_code(kept);
    return status->MPI_ERROR;
}

static int request_gone(void *kept) {
    transom_request_gone(kept);
    return MPI_SUCCESS;
}

/* An operation on a window can't be cancelled (MPI 11.3.5). */
static int request_cancel(void *kept, int complete) {
    (void)kept, (void)complete;
    return MPI_SUCCESS;
}

WEAK(Isend)

/* A request that is complete: that of a message to nobody, for which hosts keep nothing. In Open MPI it is always this one. */
int host_complete_request(MPI_Comm comm, MPI_Request *out) {
#ifdef OPEN_MPI
    static MPI_Request empty;
    if (!empty) empty = (MPI_Request)dlsym(RTLD_DEFAULT, "ompi_request_empty");
    if (empty) {
        *out = empty;
        return MPI_SUCCESS;
    }
#endif
    return PMPI_Isend(0, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, out);
}

WEAK(Grequest_start)

int host_request(void *kept, MPI_Request *out) {
    return PMPI_Grequest_start(request_status, request_gone, request_cancel, kept, out);
}

/* --- info ---------------------------------------------------------------------------------------------------------------- */

int host_info_get(MPI_Info info, const char *key, int length, char *value, int *flag) {
    return PMPI_Info_get(info, key, length, value, flag);
}

/* --- Fortran ------------------------------------------------------------------------------------------------------------- */

#if TRANSOM_HANDLE == 4
/* The one function by which MPICH's Fortran asks for attributes; in Fortran the keys of predefined ones are one more. */
int host_fortran_attribute(MPI_Win win, int keyval, void *value, int *flag, int kind) {
    static int (*next)(MPI_Win, int, void *, int *, int);
    if (!next) next = (int (*)(MPI_Win, int, void *, int *, int))dlsym(RTLD_NEXT, "MPII_Win_get_attr");
    return next(win, keyval, value, flag, kind);
}
#else
#if defined(OPEN_MPI)
#define ATTRIBUTE "ompi_win_get_attr_f"
WEAK(Win_f2c)
MPI_Win host_win_of(int win) { return PMPI_Win_f2c(win); }
#else
/* The ABI of MPI-5. */
#define ATTRIBUTE "mpi_win_get_attr_"
WEAK(Win_fromint)
MPI_Win host_win_of(int win) { return PMPI_Win_fromint(win); }
#endif

/* The attribute of a window that the host serves, or of a user. */
void host_fortran_attribute(int *win, int *keyval, MPI_Aint *value, int *flag, int *error) {
    static void (*next)(int *, int *, MPI_Aint *, int *, int *);
    if (!next) next = (void (*)(int *, int *, MPI_Aint *, int *, int *))dlsym(RTLD_NEXT, ATTRIBUTE);
    next(win, keyval, value, flag, error);
}
#endif
