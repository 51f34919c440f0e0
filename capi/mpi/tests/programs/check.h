/* Shared by the test programs: a check is collective, passes where it holds at all ranks, and
 * prints one line at rank 0. */
#ifndef CHECK_H
#define CHECK_H

#include <execinfo.h>
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank_, size_, failed_;
/* The last check that this rank passed, for the watchdog. */
static char checked_[120] = "the start";

/* A rank of a program that hangs prints its position: the last check, and the calls in which its
 * main thread is. */
static inline void hangs_(int signal) {
    void *calls[64];
    char text[200];
    (void)signal;
    int length = snprintf(text, sizeof text, "watchdog: rank %d hangs after: %s\n", rank_, checked_);
    if (write(2, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1) < 0) _exit(2);
    backtrace_symbols_fd(calls, backtrace(calls, 64), 2);
    /* The launcher ends the job: the other ranks print their positions first. */
    sleep(2);
    _exit(3);
}

/* The watchdog acts shortly before the time limit of the run. TEST_LIMIT is this limit in
 * seconds. */
__attribute__((constructor)) static void watch_(void) {
    const char *limit = getenv("TEST_LIMIT");
    if (!limit) return;
    /* The first call loads a library, which a signal handler must not do. */
    void *here;
    backtrace(&here, 1);
    signal(SIGALRM, hangs_);
    alarm((unsigned)atoi(limit) * 7 / 8);
}

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
    snprintf(checked_, sizeof checked_, "%s", name);
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
