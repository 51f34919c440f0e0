/* Shared by the test programs: a check is collective, passes where it holds at all ranks, and
 * prints one line at rank 0. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank_, size_, failed_;

/* Whether transom serves the windows of this run, for tests of promises that only transom makes. */
static inline int by_transom(void) {
    const char *off = getenv("TRANSOM_MPI"), *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "transom_mpi") && !(off && !strcmp(off, "off"));
}

/* `bad`: 0 where the check holds at this rank, else a number that tells failures apart. */
static inline void check(const char *name, long bad) {
    long worst = 0;
    MPI_Allreduce(&bad, &worst, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (bad) fprintf(stderr, "rank %d: %s: %ld\n", rank_, name, bad);
    if (rank_ == 0) {
        if (worst) printf("not ok %s: %ld\n", name, worst);
        else printf("ok %s\n", name);
        fflush(stdout);
    }
    if (worst) failed_ = 1;
}

static inline void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

static inline int end(void) {
    MPI_Finalize();
    return failed_;
}

static inline int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

#endif
