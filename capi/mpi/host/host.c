/* The host MPI for the Rust side: constants, tables, and its functions by their PMPI names.
 * Compiled by the host's own compiler wrapper, so that the host's header defines handles and
 * constants. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Win) == TRANSOM_HANDLE && sizeof(MPI_Comm) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Datatype) == TRANSOM_HANDLE && sizeof(MPI_Op) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Info) == TRANSOM_HANDLE && sizeof(MPI_Group) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Request) == TRANSOM_HANDLE && sizeof(MPI_Errhandler) == TRANSOM_HANDLE, "handles");
_Static_assert(sizeof(MPI_Aint) == sizeof(long) && sizeof(MPI_Count) == 8, "integers");

/* A function of the host under another name. */
#define PASS(name, parameters, arguments)                                                                                   \
    int host_##name parameters {                                                                                            \
        static int(*next) parameters;                                                                                       \
        if (!next) next = (int(*) parameters)host_function("PMPI_" #name);                                                  \
        return next arguments;                                                                                              \
    }

#include "calls.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* The MPI that this library was compiled for, in the form of host_name. */
const char *host_at_build(void) {
#if defined MPI_ABI_VERSION
    return "standard ABI";
#elif defined OPEN_MPI
    return "Open MPI v" TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION);
#elif defined MPICH_VERSION
    return "MPICH Version: " MPICH_VERSION;
#else
    return "";
#endif
}

/* The first line by which the process's MPI describes itself, in `text` of 512 bytes; an MPI with
 * the handles of the standard ABI is called so. */
void host_name(char *text) {
    int (*version)(char *, int *) = (int (*)(char *, int *))host_defines("PMPI_Get_library_version");
    /* The room that any MPI may use. */
    static char all[1 << 16];
    int length = 0;
    Dl_info place;
    text[0] = 0;
    if (!version) return;
    if (dladdr((void *)version, &place) && strstr(place.dli_fname, "libmpi_abi.so")) {
        strcpy(text, "standard ABI");
        return;
    }
    if (version(all, &length) == MPI_SUCCESS) snprintf(text, 512, "%.*s", (int)strcspn(all, "\n"), all);
}

/* Whether this process has an MPI. */
int host_present(void) { return host_defines("PMPI_Allgather") != 0; }

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
    out->world = MPI_COMM_WORLD, out->comm_self = MPI_COMM_SELF, out->null_comm = MPI_COMM_NULL;
    out->null_type = MPI_DATATYPE_NULL, out->null_info = MPI_INFO_NULL;
    out->null_request = MPI_REQUEST_NULL, out->status_ignore = MPI_STATUS_IGNORE, out->null_win = MPI_WIN_NULL;
    out->null_group = MPI_GROUP_NULL;
    out->errors_are_fatal = MPI_ERRORS_ARE_FATAL, out->errors_return = MPI_ERRORS_RETURN;
/* Open MPI 5 has it and is of version 3. */
#ifdef MPI_ERRORS_ABORT
    out->errors_abort = MPI_ERRORS_ABORT;
#else
    out->errors_abort = MPI_ERRORS_ARE_FATAL;
#endif
    out->err_buffer = MPI_ERR_BUFFER, out->err_group = MPI_ERR_GROUP;
    out->undefined = MPI_UNDEFINED, out->proc_null = MPI_PROC_NULL;
    out->thread_multiple = MPI_THREAD_MULTIPLE;
    out->lock_exclusive = MPI_LOCK_EXCLUSIVE, out->lock_shared = MPI_LOCK_SHARED;
    out->nocheck = MPI_MODE_NOCHECK, out->nostore = MPI_MODE_NOSTORE, out->noput = MPI_MODE_NOPUT;
    out->noprecede = MPI_MODE_NOPRECEDE, out->nosucceed = MPI_MODE_NOSUCCEED;
    out->win_base = MPI_WIN_BASE, out->win_size = MPI_WIN_SIZE, out->win_disp_unit = MPI_WIN_DISP_UNIT;
    out->win_create_flavor = MPI_WIN_CREATE_FLAVOR, out->win_model = MPI_WIN_MODEL;
    out->flavor_create = MPI_WIN_FLAVOR_CREATE, out->flavor_allocate = MPI_WIN_FLAVOR_ALLOCATE;
    out->flavor_dynamic = MPI_WIN_FLAVOR_DYNAMIC, out->flavor_shared = MPI_WIN_FLAVOR_SHARED;
    out->model_separate = MPI_WIN_SEPARATE, out->model_unified = MPI_WIN_UNIFIED;
    out->max_info_key = MPI_MAX_INFO_KEY, out->err_in_status = MPI_ERR_IN_STATUS;
}

/* --- predefined types ------------------------------------------------------------------------- */

#define BIT(op) (1u << OP_##op)
#define SUMS (BIT(SUM) | BIT(PROD))
#define RANKED (SUMS | BIT(MAX) | BIT(MIN))
#define TRUTH (BIT(LAND) | BIT(LOR) | BIT(LXOR))
#define BITS (BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define PLACES (BIT(MAXLOC) | BIT(MINLOC))
#define SWAP BIT(SWAP)
#define WHOLE (RANKED | TRUTH | BITS | SWAP)

#ifdef OPEN_MPI
/* Open MPI treats bytes and most of Fortran's numbers and truth values as C integers, and defines
 * compare-and-swap on all its types. */
#define MORE WHOLE
#define BYTES 'u'
#define TRUE_INT 'i'
#define ANY SWAP
#else
#define MORE 0
#define BYTES 'y'
#define TRUE_INT 'b'
#define ANY 0
#endif

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
/* MPICH up to version 4 treats Fortran's characters as C's, and computes logical operations on all
 * of Fortran's integers. */
#define CHARACTER 'i', WHOLE
#define INTEGER (RANKED | BITS | SWAP | TRUTH)
#else
#define CHARACTER BYTES, SWAP | MORE
#define INTEGER (RANKED | BITS | SWAP)
#endif

static int add(struct predefined *out, int count, int most, MPI_Datatype type, int kind, unsigned ops) {
    if (type == MPI_DATATYPE_NULL || type == (MPI_Datatype)0 || count >= most) return count;
    out[count] = (struct predefined){type, kind, ops | ANY};
    return count + 1;
}

#define ADD(type, ...) count = add(out, count, most, type, __VA_ARGS__)

static int add_c(struct predefined *out, int count, int most) {
    const MPI_Datatype integers[] = {MPI_CHAR, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T,
                                     MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_COUNT, MPI_OFFSET};
    const MPI_Datatype naturals[] = {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
                                     MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) ADD(integers[i], 'i', WHOLE);
    for (size_t i = 0; i < sizeof naturals / sizeof naturals[0]; i++) ADD(naturals[i], 'u', WHOLE);
    ADD(MPI_WCHAR, 'i', SWAP), ADD(MPI_PACKED, 'y', 0), ADD(MPI_BYTE, BYTES, BITS | SWAP | MORE);
    ADD(MPI_FLOAT, 'f', RANKED), ADD(MPI_DOUBLE, 'f', RANKED), ADD(MPI_LONG_DOUBLE, 'l', RANKED);
    ADD(MPI_C_BOOL, 'b', TRUTH | SWAP), ADD(MPI_CXX_BOOL, 'b', TRUTH | SWAP);
    ADD(MPI_C_FLOAT_COMPLEX, 'c', SUMS), ADD(MPI_C_DOUBLE_COMPLEX, 'c', SUMS), ADD(MPI_C_LONG_DOUBLE_COMPLEX, 'm', SUMS);
    ADD(MPI_CXX_FLOAT_COMPLEX, 'c', SUMS), ADD(MPI_CXX_DOUBLE_COMPLEX, 'c', SUMS);
    ADD(MPI_CXX_LONG_DOUBLE_COMPLEX, 'm', SUMS);
    ADD(MPI_FLOAT_INT, 'F', PLACES), ADD(MPI_DOUBLE_INT, 'D', PLACES), ADD(MPI_LONG_INT, 'L', PLACES);
    ADD(MPI_2INT, '2', PLACES), ADD(MPI_SHORT_INT, 'S', PLACES), ADD(MPI_LONG_DOUBLE_INT, 'X', PLACES);
    return count;
}

static int add_fortran(struct predefined *out, int count, int most) {
    ADD(MPI_CHARACTER, CHARACTER), ADD(MPI_LOGICAL, 'b', TRUTH | SWAP);
    ADD(MPI_INTEGER, 'i', INTEGER), ADD(MPI_INTEGER4, 'i', INTEGER), ADD(MPI_INTEGER1, 'i', INTEGER | MORE);
    ADD(MPI_INTEGER2, 'i', INTEGER | MORE), ADD(MPI_INTEGER8, 'i', INTEGER | MORE);
    ADD(MPI_REAL, 'f', RANKED), ADD(MPI_DOUBLE_PRECISION, 'f', RANKED), ADD(MPI_REAL4, 'f', RANKED);
    ADD(MPI_REAL8, 'f', RANKED);
    ADD(MPI_COMPLEX, 'c', SUMS), ADD(MPI_DOUBLE_COMPLEX, 'c', SUMS), ADD(MPI_COMPLEX8, 'c', SUMS);
    ADD(MPI_COMPLEX16, 'c', SUMS);
    ADD(MPI_2REAL, 'R', PLACES), ADD(MPI_2DOUBLE_PRECISION, 'R', PLACES), ADD(MPI_2INTEGER, '2', PLACES);
    /* Types that some headers lack. */
#ifdef MPI_INTEGER16
    ADD(MPI_INTEGER16, 'i', INTEGER);
#endif
#ifdef MPI_REAL16
    ADD(MPI_REAL16, 'q', RANKED);
#endif
#ifdef MPI_COMPLEX32
    ADD(MPI_COMPLEX32, 'r', SUMS);
#endif
#ifdef MPI_LOGICAL1
    ADD(MPI_LOGICAL1, TRUE_INT, TRUTH | SWAP | MORE);
#endif
#ifdef MPI_LOGICAL2
    ADD(MPI_LOGICAL2, TRUE_INT, TRUTH | SWAP | MORE);
#endif
#ifdef MPI_LOGICAL4
    ADD(MPI_LOGICAL4, 'b', TRUTH | SWAP);
#endif
#ifdef MPI_LOGICAL8
    ADD(MPI_LOGICAL8, TRUE_INT, TRUTH | SWAP | MORE);
#endif
#ifdef MPI_LOGICAL16
    ADD(MPI_LOGICAL16, 'b', TRUTH | SWAP);
#endif
#ifdef MPIX_C_FLOAT16
    ADD(MPIX_C_FLOAT16, 'f', RANKED);
#endif
#ifdef MPIX_BFLOAT16
    /* Only moved. */
    ADD(MPIX_BFLOAT16, 'i', 0);
#endif
#ifdef MPI_REAL2
    ADD(MPI_REAL2, 'f', RANKED);
#endif
#ifdef MPI_COMPLEX4
    ADD(MPI_COMPLEX4, 'c', SUMS);
#endif
#ifdef MPI_2COMPLEX
    /* Pairs without an operation: only moved. */
    ADD(MPI_2COMPLEX, 'c', 0), ADD(MPI_2DOUBLE_COMPLEX, 'm', 0);
#endif
    return count;
}

/* Fills `out` with at most `most` predefined types, and returns their number. Types that the host
 * was built without are left out. */
int host_predefined(struct predefined *out, int most) { return add_fortran(out, add_c(out, 0, most), most); }

/* --- the job's own communicator --------------------------------------------------------------- */

int host_gather_lengths(MPI_Comm comm, int mine, int *all) { return HOST(Allgather)(&mine, 1, MPI_INT, all, 1, MPI_INT, comm); }

/* Broadcasts the number of the communicator's first rank. */
int host_broadcast_number(MPI_Comm comm, unsigned long long *number) { return HOST(Bcast)(number, 1, MPI_UNSIGNED_LONG_LONG, 0, comm); }

int host_gather_bytes(MPI_Comm comm, const void *mine, int count, void *all, const int *counts, const int *places) {
    return HOST(Allgatherv)(mine, count, MPI_BYTE, all, counts, places, MPI_BYTE, comm);
}

/* Lets the host make progress. No message is ever sent on `comm`. */
void host_progress(MPI_Comm comm) {
    int flag;
    MPI_Status status;
    HOST(Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
}

/* Makes the host call `poll` while it waits in its own calls, if it is Open MPI. Returns whether it
 * will. */
int host_register_poll(int (*poll)(void)) {
    int (*add)(int (*)(void)) = (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_register");
    return add && add(poll) == 0;
}

/* Reverts host_register_poll. */
void host_unregister_poll(int (*poll)(void)) {
    int (*take)(int (*)(void)) = (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_unregister");
    if (take) {
        take(poll);
    }
}

/* Searches the program's constants for OpenCoarrays' messages. The result is 1 plus the answer,
 * since a result other than 0 ends the iteration. */
static int find_opencoarrays(struct dl_phdr_info *program, size_t size, void *unused) {
    static const char words[] = "OpenCoarrays internal error";
    (void)size, (void)unused;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = program->dlpi_phdr + i;
        if (part->p_type == PT_LOAD && part->p_flags == PF_R
            && memmem((const char *)program->dlpi_addr + part->p_vaddr, part->p_memsz, words, sizeof words - 1)) {
            return 2;
        }
    }
    return 1;
}

/* Whether the program has ThreadSanitizer and gcc's OpenMP library, whose names others have too. */
int host_has_openmp_and_sanitizer(void) {
    void *const found = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    Dl_info in;
    return dlsym(RTLD_DEFAULT, "__tsan_init") && found && dladdr(found, &in) && strstr(in.dli_fname, "libgomp");
}

/* Whether OpenCoarrays is loaded or linked into the program. Up to version 2.10, conversions in its
 * sendget read the buffer of MPI_Get before MPI_Win_unlock. Its wrapper links it statically, and
 * then it exports no name and is recognized by its messages. */
int host_has_opencoarrays(void) {
    if (dlsym(RTLD_DEFAULT, "_gfortran_caf_sendget")) {
        return 1;
    }
    /* The first object is the program. Only programs of gfortran have coarrays. */
    return dlsym(RTLD_DEFAULT, "_gfortran_set_args") && dl_iterate_phdr(find_opencoarrays, NULL) == 2;
}

int host_split_machine(MPI_Comm comm, int key, MPI_Comm *out) {
    return HOST(Comm_split_type)(comm, MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, out);
}

/* --- attributes ------------------------------------------------------------------------------- */

/* In Rust: drop the data that is cached with a type, or with a communicator. */
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

/* A duplicate is decoded anew. */
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

int host_type_keyval(int *keyval) { return HOST(Type_create_keyval)(type_not_copied, type_gone, keyval, 0); }
int host_comm_keyval(int *keyval) { return HOST(Comm_create_keyval)(comm_not_copied, comm_gone, keyval, 0); }

/* In Rust: ends the job. The program's own functions for the end have been called before. */
void transom_end(void);

/* The communicator of `host_is_committed`, which returns errors. */
static MPI_Comm probed;
static int is_probed;

static int at_end(MPI_Comm comm, int keyval, void *kept, void *extra) {
    (void)comm, (void)keyval, (void)kept, (void)extra;
    transom_end();
    if (is_probed) is_probed = 0, HOST(Comm_free)(&probed);
    return MPI_SUCCESS;
}

/* Makes MPI_Finalize call `transom_end` when it starts: it first deletes the attributes of
 * MPI_COMM_SELF, in the reverse order of their setting, and this one was set first (MPI-4.1 section
 * 11.2.4). */
int host_call_at_end(void) {
    int keyval, code = HOST(Comm_create_keyval)(comm_not_copied, at_end, &keyval, 0);
    if (code != MPI_SUCCESS) return code;
    code = HOST(Comm_set_attr)(MPI_COMM_SELF, keyval, 0);
    /* The attribute keeps the key (MPI-4.1 section 7.7.2). */
    HOST(Comm_free_keyval)(&keyval);
    return code;
}

/* Has the process call `stop` when it exits. */
void host_at_exit(void (*stop)(void)) {
    /* If the C library refuses it, the threads that it would stop end with the process. */
    (void)atexit(stop);
}

/* The process whose exit status must not be 0. */
static pid_t failed;

static void fail(int status, void *unused) {
    (void)unused;
    if (status || failed != getpid()) return;
    (void)fflush(0);
    _exit(EXIT_FAILURE);
}

/* Registered before the program's own functions for its end, and so called after them. If the C
 * library refuses it, the status stays as it is. */
__attribute__((constructor)) static void watch_exit(void) { (void)on_exit(fail, 0); }

/* Has this process exit with status 1 if the program exits with 0. A child of `fork` does not. */
void host_fail_exit(void) { failed = getpid(); }

/* --- datatypes -------------------------------------------------------------------------------- */

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
    case MPI_COMBINER_DARRAY: return DARRAY;
    case MPI_COMBINER_F90_REAL: return F90_REAL;
    case MPI_COMBINER_F90_COMPLEX: return F90_COMPLEX;
    case MPI_COMBINER_F90_INTEGER: return F90_INTEGER;
#ifdef TRANSOM_VALUE_INDEX
    case MPI_COMBINER_VALUE_INDEX: return VALUE_INDEX;
#endif
    default: return OTHER;
    }
}

int host_envelope(MPI_Datatype type, struct envelope *out) {
    int host;
#if MPI_VERSION >= 4
    int code = HOST(Type_get_envelope_c)(type, &out->numbers, &out->addresses, &out->large, &out->types, &host);
#else
    int numbers, addresses, types;
    int code = HOST(Type_get_envelope)(type, &numbers, &addresses, &types, &host);
    out->numbers = numbers, out->addresses = addresses, out->large = 0, out->types = types;
#endif
    if (code == MPI_SUCCESS) out->combiner = combiner_of(host);
    return code;
}

int host_contents(MPI_Datatype type, const struct envelope *sizes, int *numbers, MPI_Aint *addresses, MPI_Count *large,
                  MPI_Datatype *types) {
#if MPI_VERSION >= 4
    return HOST(Type_get_contents_c)(type, sizes->numbers, sizes->addresses, sizes->large, sizes->types, numbers, addresses,
                                    large, types);
#else
    (void)large;
    return HOST(Type_get_contents)(type, sizes->numbers, sizes->addresses, sizes->types, numbers, addresses, types);
#endif
}

/* Whether the order of a subarray's array is Fortran's. */
int host_is_fortran_order(int order) { return order == MPI_ORDER_FORTRAN; }

/* The distribution of a dimension of a distributed array: 'n' for none, 'b' in blocks, 'c' cyclic.
 * `block` is the size of a block, or 0 for MPI's default. */
int host_distribution(int distribution, int argument, int *block) {
    *block = argument == MPI_DISTRIBUTE_DFLT_DARG ? 0 : argument;
    return distribution == MPI_DISTRIBUTE_BLOCK ? 'b' : distribution == MPI_DISTRIBUTE_CYCLIC ? 'c' : 'n';
}

/* The size, lower bound and extent of a datatype. */
int host_size_and_extent(MPI_Datatype type, MPI_Aint *size, MPI_Aint *lb, MPI_Aint *extent) {
    int bytes;
    int code = HOST(Type_size)(type, &bytes);
    *size = bytes;
    return code != MPI_SUCCESS ? code : HOST(Type_get_extent)(type, lb, extent);
}

/* Prepares `host_is_committed`, within MPI_Init. */
void host_prepare_commits(void) {
    /* Unlike a duplicate it gets none of the program's attributes. */
    if (HOST(Comm_split)(MPI_COMM_SELF, 0, 0, &probed) != MPI_SUCCESS) return;
    is_probed = HOST(Comm_set_errhandler)(probed, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

/* Whether a derived datatype is committed. No query tells, but a call that uses the type fails.
 * Before MPI_Init and after MPI_Finalize every type passes. */
int host_is_committed(MPI_Datatype type) {
    int position = 0, class = MPI_SUCCESS;
    char none = 0;
    if (is_probed) HOST(Error_class)(HOST(Pack)(&none, 0, type, &none, 0, &position, probed), &class);
    return class != MPI_ERR_TYPE;
}

/* --- requests --------------------------------------------------------------------------------- */

/* In src/completion.rs: the host queries the status of a request, and frees a request. */
void transom_request_status_queried(void *kept);
void transom_request_freed(void *kept);

static int no_operation_status(void *unused, MPI_Status *status) {
    (void)unused;
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    HOST(Status_set_elements)(status, MPI_BYTE, 0);
    HOST(Status_set_cancelled)(status, 0);
    status->MPI_ERROR = MPI_SUCCESS;
    return MPI_SUCCESS;
}

static int no_operation_gone(void *unused) {
    (void)unused;
    return MPI_SUCCESS;
}

static int request_status(void *kept, MPI_Status *status) {
    no_operation_status(kept, status);
    transom_request_status_queried(kept);
    return MPI_SUCCESS;
}

void host_status_error(void *statuses, int index, int code) {
    if (statuses != MPI_STATUSES_IGNORE) ((MPI_Status *)statuses)[index].MPI_ERROR = code;
}

static int request_gone(void *kept) {
    transom_request_freed(kept);
    return MPI_SUCCESS;
}

/* An operation on a window can't be cancelled (MPI-4.1 section 12.3.5). */
static int request_cancel(void *kept, int complete) {
    (void)kept, (void)complete;
    return MPI_SUCCESS;
}

/* A complete request: that of a message to MPI_PROC_NULL, for which hosts keep no state. In Open
 * MPI such requests are always ompi_request_empty. */
int host_complete_request(MPI_Comm comm, MPI_Request *out) {
#ifdef OPEN_MPI
    static MPI_Request empty;
    if (!empty) empty = (MPI_Request)dlsym(RTLD_DEFAULT, "ompi_request_empty");
    if (empty) {
        *out = empty;
        return MPI_SUCCESS;
    }
#endif
    return HOST(Isend)(0, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, out);
}

int host_request(void *kept, MPI_Request *out) {
    return HOST(Grequest_start)(request_status, request_gone, request_cancel, kept, out);
}

/* A request of no operation, which is pending until host_Grequest_complete. A test of it makes
 * progress in the host, also after MPI_Finalize, which ends the library's communicator. */
int host_pending_request(MPI_Request *out) {
    return HOST(Grequest_start)(no_operation_status, no_operation_gone, request_cancel, 0, out);
}

/* --- tools ------------------------------------------------------------------------------------ */

/* A profiling tool's function of this name, if a tool is loaded after this library. The host's
 * object is the one that defines MPI_Get_library_version, so a function in another object is a
 * tool's. */
void *host_tool(const char *name) {
    void *next = dlsym(RTLD_NEXT, name), *of_host = dlsym(RTLD_NEXT, "MPI_Get_library_version");
    Dl_info here, there;
    if (!next || !of_host || !dladdr(next, &here) || !dladdr(of_host, &there)) return 0;
    return here.dli_fbase == there.dli_fbase ? 0 : next;
}

/* --- info ------------------------------------------------------------------------------------- */

int host_info_get(MPI_Info info, const char *key, int length, char *value, int *flag) {
    return HOST(Info_get)(info, key, length, value, flag);
}

/* --- Fortran ---------------------------------------------------------------------------------- */

#if TRANSOM_HANDLE == 4
/* MPICH's Fortran asks for attributes by this function alone. In Fortran the keys of predefined
 * attributes are one more than in C. */
int host_fortran_attribute(MPI_Win win, int keyval, void *value, int *flag, int kind) {
    static int (*next)(MPI_Win, int, void *, int *, int);
    if (!next) next = (int (*)(MPI_Win, int, void *, int *, int))host_function("MPII_Win_get_attr");
    return next(win, keyval, value, flag, kind);
}

/* Sets an attribute of the user: as above. */
int host_fortran_set(MPI_Win win, int keyval, void *value, int kind) {
    static int (*next)(MPI_Win, int, void *, int);
    if (!next) next = (int (*)(MPI_Win, int, void *, int))host_function("MPII_Win_set_attr");
    return next(win, keyval, value, kind);
}
#else
#if defined(OPEN_MPI)
#define ATTRIBUTE "ompi_win_get_attr_f"
MPI_Win host_win_of(int win) { return HOST(Win_f2c)(win); }
#else
/* The ABI of MPI-5. */
#define ATTRIBUTE "mpi_win_get_attr_"
MPI_Win host_win_of(int win) { return HOST(Win_fromint)(win); }
#endif

/* An attribute of a window that the host serves, or an attribute of the user. */
void host_fortran_attribute(int *win, int *keyval, MPI_Aint *value, int *flag, int *error) {
    static void (*next)(int *, int *, MPI_Aint *, int *, int *);
    if (!next) next = (void (*)(int *, int *, MPI_Aint *, int *, int *))host_function(ATTRIBUTE);
    next(win, keyval, value, flag, error);
}

#ifndef OPEN_MPI
void host_fortran_set(int *win, int *keyval, MPI_Aint *value, int *error) {
    static void (*next)(int *, int *, MPI_Aint *, int *);
    if (!next) next = (void (*)(int *, int *, MPI_Aint *, int *))host_function("mpi_win_set_attr_");
    next(win, keyval, value, error);
}
#endif
#endif
