/* Measures updates of 8 bytes at random places, for docs/measured.md: rank 0 updates the part of
 * the last rank. Prints the CPU time of an update, the least of several repetitions, for each call
 * and each window size. Usage: updates [REPETITIONS [UPDATES [BYTES...]]] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The number of accumulates between two flushes. */
enum { BATCH = 1024 };

static MPI_Win win;
static int target;
static uint64_t state = 88172645463325252u;

static MPI_Aint place(MPI_Aint words) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (MPI_Aint)(state % (uint64_t)words);
}

/* callgrind counts the instructions within these functions (--toggle-collect). */
__attribute__((noinline)) void measured_accumulate(MPI_Aint words, long updates) {
    static const int64_t one = 1;
    for (long update = 1; update <= updates; update++) {
        MPI_Accumulate(&one, 1, MPI_INT64_T, target, place(words), 1, MPI_INT64_T, MPI_SUM, win);
        if (update % BATCH == 0) MPI_Win_flush(target, win);
    }
    MPI_Win_flush(target, win);
}

__attribute__((noinline)) void measured_fetch_and_op(MPI_Aint words, long updates) {
    static const int64_t one = 1;
    int64_t old;
    for (long update = 0; update < updates; update++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, place(words), MPI_SUM, win);
        MPI_Win_flush(target, win);
    }
}

__attribute__((noinline)) void measured_put(MPI_Aint words, long updates) {
    static const int64_t one = 1;
    for (long update = 0; update < updates; update++) {
        MPI_Put(&one, 1, MPI_INT64_T, target, place(words), 1, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void measure(const char *call, void (*updates)(MPI_Aint, long), MPI_Aint words, int repetitions, long count) {
    double least = 1e18;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        const double start = now();
        updates(words, count);
        const double took = (now() - start) / (double)count;
        if (took < least) least = took;
    }
    printf("%-22s %9ld bytes %8.1f ns\n", call, (long)(8 * words), least);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const long sizes[] = {8 << 10, 1 << 20, 8 << 20, 64 << 20};
    const int repetitions = argc > 1 ? atoi(argv[1]) : 5;
    const long updates = argc > 2 ? atol(argv[2]) : 1 << 20;
    const int given = argc > 3 ? argc - 3 : (int)(sizeof sizes / sizeof sizes[0]);
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    target = size - 1;
    for (int index = 0; index < given; index++) {
        const MPI_Aint bytes = argc > 3 ? atol(argv[3 + index]) : sizes[index];
        int64_t *part;
        MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        for (MPI_Aint word = 0; word < bytes / 8; word++) part[word] = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        if (rank == 0) {
            /* The first operation to a rank costs more. */
            measured_put(1, 1);
            measure("MPI_Accumulate", measured_accumulate, bytes / 8, repetitions, updates);
            measure("MPI_Fetch_and_op, flush", measured_fetch_and_op, bytes / 8, repetitions, updates / 4);
            measure("MPI_Put, flush", measured_put, bytes / 8, repetitions, updates / 4);
        }
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    MPI_Finalize();
    return 0;
}
