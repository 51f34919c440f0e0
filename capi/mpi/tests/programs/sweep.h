/*
 * Shared by the sweeps: numbered cases that tables generate. A case prints its parameters and its
 * outcome.
 *
 *   sweep_NAME list FIRST LAST       prints the parameters of the cases, without MPI
 *   sweep_NAME run FIRST-LAST...     runs cases, in a job of any number of ranks
 *
 * Rank 0 prints `> NUMBER PARAMETERS` before a case and `= NUMBER OUTCOME` after it. An outcome
 * lists the deviations from MPI, `CALL=CLASS` for each call that failed, and facts. Without any of
 * these it is `ok`.
 * `! NUMBER` announces that an error handler must end the job in this case; the exit status is then
 * the outcome.
 * Ranks with the same outcome share one text. A case that takes too long ends the job with
 * `! hang` on the standard error.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTCOME = 320, PARAMETERS = 240 };

/* Defined by each sweep: the number of its cases, a case's parameters as text, and its run. */
static long cases(void);
static void describe(long number, char text[PARAMETERS]);
static void run_case(long number);
static void finish(void);

/* Threads that run cases at the same time have separate data. */
#ifdef SWEEP_THREADS
#define OWN _Thread_local
#else
#define OWN
#endif

static int rank_, size_;
static OWN char said_[OUTCOME];
/* Whether a call of this case failed at this rank. */
static OWN int failed_;
/* The communicator of all ranks that cases run on. */
static OWN MPI_Comm comm_;

/* Adds a fact to this rank's outcome. */
static void say(const char *format, ...) {
    size_t used = strlen(said_);
    va_list list;
    va_start(list, format);
    if (used && used + 1 < OUTCOME) strcpy(said_ + used++, " ");
    vsnprintf(said_ + used, OUTCOME - used, format, list);
    va_end(list);
}

static const char *class_name(int class) {
    static const struct { int class; const char *name; } known[] = {
        {MPI_SUCCESS, "ok"}, {MPI_ERR_BUFFER, "BUFFER"}, {MPI_ERR_COUNT, "COUNT"}, {MPI_ERR_TYPE, "TYPE"},
        {MPI_ERR_TAG, "TAG"}, {MPI_ERR_COMM, "COMM"}, {MPI_ERR_RANK, "RANK"}, {MPI_ERR_REQUEST, "REQUEST"},
        {MPI_ERR_ROOT, "ROOT"}, {MPI_ERR_GROUP, "GROUP"}, {MPI_ERR_OP, "OP"}, {MPI_ERR_TOPOLOGY, "TOPOLOGY"},
        {MPI_ERR_DIMS, "DIMS"}, {MPI_ERR_ARG, "ARG"}, {MPI_ERR_UNKNOWN, "UNKNOWN"},
        {MPI_ERR_TRUNCATE, "TRUNCATE"}, {MPI_ERR_OTHER, "OTHER"}, {MPI_ERR_INTERN, "INTERN"},
        {MPI_ERR_PENDING, "PENDING"}, {MPI_ERR_IN_STATUS, "IN_STATUS"}, {MPI_ERR_ACCESS, "ACCESS"},
        {MPI_ERR_ASSERT, "ASSERT"}, {MPI_ERR_BASE, "BASE"}, {MPI_ERR_DISP, "DISP"}, {MPI_ERR_INFO, "INFO"},
        {MPI_ERR_INFO_KEY, "INFO_KEY"}, {MPI_ERR_INFO_NOKEY, "INFO_NOKEY"}, {MPI_ERR_INFO_VALUE, "INFO_VALUE"},
        {MPI_ERR_KEYVAL, "KEYVAL"}, {MPI_ERR_LOCKTYPE, "LOCKTYPE"}, {MPI_ERR_NAME, "NAME"},
        {MPI_ERR_NO_MEM, "NO_MEM"}, {MPI_ERR_SIZE, "SIZE"}, {MPI_ERR_WIN, "WIN"},
        {MPI_ERR_RMA_CONFLICT, "RMA_CONFLICT"}, {MPI_ERR_RMA_SYNC, "RMA_SYNC"},
        {MPI_ERR_RMA_RANGE, "RMA_RANGE"}, {MPI_ERR_RMA_ATTACH, "RMA_ATTACH"},
        {MPI_ERR_RMA_SHARED, "RMA_SHARED"}, {MPI_ERR_RMA_FLAVOR, "RMA_FLAVOR"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].class == class) return known[i].name;
    return "unnamed";
}

/* Records a call that failed; returns its class. */
static int call(const char *name, int code) {
    int class = MPI_SUCCESS;
    if (code == MPI_SUCCESS) return class;
    failed_ = 1;
    MPI_Error_class(code, &class);
    say("%s=%s", name, class_name(class));
    return class;
}
#define CALL(name, ...) call(#name, MPI_##name(__VA_ARGS__))

/* Announces that an error handler must end the job now. */
static inline void ends(long number) {
    if (rank_ == 0) printf("! %ld\n", number);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A hash of the arguments. */
static inline uint64_t mixed(uint64_t seed, uint64_t salt) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static unsigned patience(void) {
    const char *text = getenv("SWEEP_PATIENCE");
    return text ? (unsigned)atoi(text) : 20;
}

static void hang(int signal) {
    static const char text[] = "\n! hang\n";
    (void)signal;
    if (write(2, text, sizeof text - 1) < 0) _exit(4);
    _exit(3);
}

/* Prints each text once; if texts differ among ranks, with the ranks that have it. */
static void print_line(long number, const char *all) {
    int equal = 1;
    for (int r = 1; r < size_; r++) equal &= !strcmp(all, all + r * OUTCOME);
    printf("= %ld", number);
    for (int r = 0; r < size_; r++) {
        int earlier = 0;
        for (int s = 0; s < r; s++) earlier |= !strcmp(all + s * OUTCOME, all + r * OUTCOME);
        if (earlier) continue;
        if (!equal) printf("%s rank %d:", r ? " |" : "", r);
        printf(" %s", all[r * OUTCOME] ? all + r * OUTCOME : "ok");
    }
    printf("\n");
    fflush(stdout);
}

static void run_one(long number, char *all) {
    char text[PARAMETERS];
    describe(number, text);
    if (rank_ == 0) {
        printf("> %ld %s\n", number, text);
        fflush(stdout);
    }
    alarm(patience());
    said_[0] = 0;
    failed_ = 0;
    run_case(number);
    MPI_Gather(said_, OUTCOME, MPI_CHAR, all, OUTCOME, MPI_CHAR, 0, MPI_COMM_WORLD);
    alarm(0);
    if (rank_ == 0) print_line(number, all);
}

int main(int argc, char **argv) {
    char text[PARAMETERS];
    if (argc == 4 && !strcmp(argv[1], "list")) {
        long last = atol(argv[3]) < cases() ? atol(argv[3]) : cases() - 1;
        for (long n = atol(argv[2]); n <= last; n++) describe(n, text), printf("%ld %s\n", n, text);
        return 0;
    }
    if (argc < 3 || strcmp(argv[1], "run")) {
        fprintf(stderr, "usage: %s list FIRST LAST | run FIRST-LAST...\ncases: 0-%ld\n", argv[0], cases() - 1);
        return 2;
    }
#ifdef SWEEP_THREADS
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) fprintf(stderr, "MPI has no MPI_THREAD_MULTIPLE\n"), MPI_Abort(MPI_COMM_WORLD, 2);
#else
    MPI_Init(&argc, &argv);
#endif
    comm_ = MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    signal(SIGALRM, hang);
    char *all = calloc((size_t)size_, OUTCOME);
    for (int i = 2; i < argc; i++) {
        char *end;
        long first = strtol(argv[i], &end, 10), last = *end == '-' ? strtol(end + 1, NULL, 10) : first;
        for (long n = first; n <= last && n < cases(); n++) run_one(n, all);
    }
    alarm(patience());
    finish();
    free(all);
    MPI_Finalize();
    return 0;
}

#endif
