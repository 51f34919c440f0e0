/* What host.c and src/host.rs agree on. Every structure has the layout of its `#[repr(C)]` twin in src/host.rs. */
#ifndef TRANSOM_HOST_H
#define TRANSOM_HOST_H

#include <mpi.h>

/* The operations of accumulates, in the order of transom's numbers; the error classes, in that of `CLASSES` in src/errors.rs. */
enum { OPS = 14, CLASSES = 19 };

struct constants {
    MPI_Comm world, alone, null_comm;
    MPI_Datatype null_type;
    MPI_Info null_info;
    MPI_Request null_request;
    MPI_Status *ignored;
    MPI_Win null_win;
    MPI_Errhandler fatal, abort;
    MPI_Op ops[OPS];
    int classes[CLASSES];
    int undefined, proc_null;
    int thread_multiple;
    int lock_exclusive, lock_shared;
    int nocheck, nostore, noput, noprecede, nosucceed;
    int win_base, win_size, win_disp_unit, win_create_flavor, win_model;
    int flavor_create, flavor_allocate, flavor_dynamic, flavor_shared;
    int separate, unified;
    int max_info_key;
};

/* A predefined datatype. `kind`: i and u integers, f real, c complex, b bool, y byte; F D L 2 S the pairs whose value is a float,
   double, long, int, short. */
struct predefined {
    MPI_Datatype type;
    int kind;
};

/* How a datatype was made. */
enum combiner {
    NAMED, DUP, CONTIGUOUS, VECTOR, HVECTOR, INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK, STRUCT, SUBARRAY, RESIZED,
    OTHER
};

/* The sizes of MPI_Type_get_contents. */
struct envelope {
    MPI_Count numbers, addresses, large, types;
    int combiner;
};

#endif
