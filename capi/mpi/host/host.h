/* Declarations shared by the C files and src/host/. Every structure has the layout of its
 * `#[repr(C)]` twin in src/host/. */
#ifndef TRANSOM_HOST_H
#define TRANSOM_HOST_H

#include <dlfcn.h>
#include <mpi.h>

#ifdef OPEN_MPI
/* Open MPI's handles are addresses of variables of libmpi. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)dlsym(RTLD_DEFAULT, #global))
#endif

/* A definition of the host by its name, and the function to call for a name, or null. */
void *host_defines(const char *name);
void *host_function(const char *name);

/* A function of the host by its PMPI name. */
#define HOST(name)                                                                                                          \
    (__extension__({                                                                                                        \
        static __typeof__(&PMPI_##name) found;                                                                              \
        if (!found) found = (__typeof__(&PMPI_##name))host_function("PMPI_" #name);                                         \
        found;                                                                                                              \
    }))

/* The value of a flag that a test of the host has not set, because the host has reported an error.
 * src/host/requests.rs has the same number. */
enum { REPORTED = -1 };

/* The counts of accumulate operations, in the order of transom's numbers, and of error classes, in
 * the order of `transom::Class::ALL`. */
enum { OPS = 14, CLASSES = 19 };

struct constants {
    MPI_Comm world, comm_self, null_comm;
    MPI_Datatype null_type;
    MPI_Info null_info;
    MPI_Request null_request;
    MPI_Status *status_ignore;
    MPI_Win null_win;
    MPI_Group null_group;
    MPI_Errhandler errors_are_fatal, errors_abort, errors_return;
    MPI_Op ops[OPS];
    int classes[CLASSES];
    int err_buffer, err_group;
    int undefined, proc_null;
    int thread_multiple;
    int lock_exclusive, lock_shared;
    int nocheck, nostore, noput, noprecede, nosucceed;
    int win_base, win_size, win_disp_unit, win_create_flavor, win_model;
    int flavor_create, flavor_allocate, flavor_dynamic, flavor_shared;
    int model_separate, model_unified;
    int max_info_key;
    int err_in_status;
};

/* The operations by transom's numbers. */
enum {
    OP_MAX, OP_MIN, OP_SUM, OP_PROD, OP_LAND, OP_BAND, OP_LOR, OP_BOR, OP_LXOR, OP_BXOR, OP_MAXLOC, OP_MINLOC, OP_REPLACE,
    OP_NO_OP,
    /* Compare-and-swap, which is not an accumulate operation. */
    OP_SWAP
};

/* Types that Rust lacks, in the order of `Foreign::ALL` in src/reduce/foreign.rs. */
enum foreign {
    LONG_DOUBLE, COMPLEX_LONG, LONG_DOUBLE_INT, FLOAT128, COMPLEX128, FLOAT16, COMPLEX16, INT128, LOGICAL16, LOGICAL32,
    LOGICAL64, LOGICAL128, TWO_FLOAT, TWO_DOUBLE,
    FOREIGN
};

/* A predefined datatype. `kind`: i and u integers, f real, c complex, l and m a long double and a
 * complex of it, q and r IEEE binary128 and a complex of it, b logical, y byte; F D L 2 S X the
 * pairs whose value is a float, double, long, int, short, long double; R Fortran's pairs of reals.
 * `ops`: a bit for each operation that the host, or MPI-4.1 in 6.9.2, defines on it. */
struct predefined {
    MPI_Datatype type;
    int kind;
    unsigned ops;
};

/* The constructor of a datatype. */
enum combiner {
    NAMED, DUP, CONTIGUOUS, VECTOR, HVECTOR, INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK, STRUCT, SUBARRAY, RESIZED,
    DARRAY, F90_REAL, F90_COMPLEX, F90_INTEGER, VALUE_INDEX, OTHER
};

/* The sizes of MPI_Type_get_contents. */
struct envelope {
    MPI_Count numbers, addresses, large, types;
    int combiner;
};

#endif
