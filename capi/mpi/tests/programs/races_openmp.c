/* Programs with threads of OpenMP that have a race, and their like that have none, for the conflict
 * checker (TRANSOM_CHECK=1) with ThreadSanitizer. Without arguments it lists them, as races.c does.
 *
 * races_openmp buffer HOW WHEN: threads of rank 0 get into the same buffer or load it. HOW orders
 * them (`after`), or something is missing (`during`).
 *
 * races_openmp target HOW WHEN: threads of rank 0 put into the same bytes of rank 1.
 *
 * races_openmp origin HOW WHEN: a section of rank 0 puts. A barrier or a message lets rank 1 load,
 * in another section (`during`), or behind both (`after`).
 *
 * Each of the other cases runs with four threads. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4 };
static int rank_;
static MPI_Win win;
static long *part, *buffer;
static int at_target;

/* One of the accesses, which is complete when the function returns. */
static void access_it(int element) {
    if (at_target) MPI_Put(buffer, 1, MPI_LONG, 1, element, 1, MPI_LONG, win);
    else MPI_Get(buffer + element, 1, MPI_LONG, 1, element, 1, MPI_LONG, win);
    MPI_Win_flush(1, win);
}
/* The other one. */
static void other(int element) {
    if (at_target) access_it(element);
    else *(volatile long *)&buffer[element];
}

static void masters(int racy) {
#pragma omp parallel num_threads(THREADS)
    {
#pragma omp master
        access_it(0);
        if (!racy) {
#pragma omp barrier
        }
        if (omp_get_thread_num() == 1) other(0);
    }
}
static void singles(int racy) {
#pragma omp parallel num_threads(THREADS)
    {
        if (racy) {
#pragma omp single nowait
            access_it(0);
            other(0);
        } else {
#pragma omp single
            access_it(0);
#pragma omp single
            other(0);
        }
    }
}
static void ordered(int racy) {
#pragma omp parallel for ordered num_threads(THREADS)
    for (int i = 0; i < 2 * THREADS; i++) {
        if (racy) access_it(0);
#pragma omp ordered
        other(0), access_it(0);
    }
}
static void loops(int racy) {
#pragma omp parallel for num_threads(THREADS)
    for (int i = 0; i < THREADS; i++) access_it(racy ? 0 : i);
}
static void dynamic_loops(int racy) {
#pragma omp parallel for schedule(dynamic) num_threads(THREADS)
    for (int i = 0; i < THREADS; i++) access_it(i);
#pragma omp parallel num_threads(THREADS)
    {
        if (racy) {
#pragma omp for schedule(static, 1) nowait
            for (int i = 0; i < THREADS; i++) access_it(i);
        } else {
#pragma omp for schedule(static, 1)
            for (int i = 0; i < THREADS; i++) access_it(i);
        }
#pragma omp for schedule(static, 1)
        for (int i = 0; i < THREADS; i++) other(THREADS - 1 - i);
    }
}
static void sections(int racy) {
    if (racy) {
#pragma omp parallel sections num_threads(2)
        {
#pragma omp section
            access_it(0);
#pragma omp section
            other(0);
        }
        return;
    }
#pragma omp parallel num_threads(2)
    {
#pragma omp sections
        {
#pragma omp section
            access_it(0);
#pragma omp section
            access_it(1);
        }
#pragma omp sections
        {
#pragma omp section
            other(1);
#pragma omp section
            other(0);
        }
    }
}
static void tasks(int racy) {
#pragma omp parallel num_threads(THREADS)
#pragma omp single
    {
#pragma omp task
        access_it(0);
        if (!racy) {
#pragma omp taskwait
        }
#pragma omp task
        other(0);
    }
}
static void dependences(int racy) {
    int one, two;
    (void)one, (void)two;
#pragma omp parallel num_threads(THREADS)
#pragma omp single
    if (racy) {
#pragma omp task depend(out : one)
        access_it(0);
#pragma omp task depend(in : two)
        other(0);
    } else {
#pragma omp task depend(out : one)
        access_it(0);
#pragma omp task depend(in : one)
        other(0);
    }
}
static void task_values(int racy) {
#pragma omp parallel num_threads(THREADS)
#pragma omp single
#pragma omp taskgroup
    for (int i = 0; i < 2 * THREADS; i++) {
        long values[3] = {i, i, i};
#pragma omp task firstprivate(i, values)
        access_it(racy ? 0 : (int)values[i % 3]);
    }
}
static void taskloops(int racy) {
#pragma omp parallel num_threads(THREADS)
#pragma omp single
    {
#pragma omp taskloop num_tasks(THREADS)
        for (int i = 0; i < THREADS; i++) access_it(racy ? 0 : i);
        other(0);
    }
}
static void criticals(int racy) {
#pragma omp parallel num_threads(THREADS)
    {
        if (racy && omp_get_thread_num() == 1) {
            other(0);
        } else {
#pragma omp critical
            access_it(0);
#pragma omp critical(named)
            access_it(1);
        }
    }
}
static void locks(int racy) {
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(THREADS)
    {
        if (racy) access_it(0);
        omp_set_lock(&lock);
        access_it(0);
        omp_unset_lock(&lock);
    }
    omp_destroy_lock(&lock);
}
static void regions(int racy) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(THREADS)
    for (int i = 0; i < THREADS; i++) access_it(i), sum += i;
#pragma omp parallel num_threads(THREADS)
    if (!racy || omp_get_thread_num() < 2) other(racy ? 0 : omp_get_thread_num()), access_it(racy ? 0 : omp_get_thread_num());
    other(0);
    if (sum < 0) printf("%ld\n", sum);
}
static void nested(int racy) {
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        const int mine = omp_get_thread_num();
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) access_it(racy ? 0 : mine);
#pragma omp barrier
            if (omp_get_thread_num() == 1) other(racy ? 0 : mine);
        }
        other(racy ? 0 : mine);
    }
}

/* One section puts, and another one lets rank 1 go on. */
static void let_go(int by_message) {
    if (by_message) MPI_Send(0, 0, MPI_INT, 1, 1, MPI_COMM_WORLD);
    else MPI_Barrier(MPI_COMM_WORLD);
}
static void origin(int by_message, int racy) {
    if (rank_ == 1) {
        if (by_message) MPI_Recv(0, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Barrier(MPI_COMM_WORLD);
        *(volatile long *)&part[0];
        return;
    }
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        {
            MPI_Put(buffer, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
            MPI_Win_flush(1, win);
        }
#pragma omp section
        if (racy) let_go(by_message);
    }
    if (!racy) let_go(by_message);
}

static const struct {
    const char *name;
    void (*run)(int);
} cases[] = {{"master", masters},     {"single", singles},          {"ordered", ordered},     {"for", loops},
             {"nowait", dynamic_loops}, {"sections", sections},     {"task", tasks},          {"depend", dependences},
             {"taskgroup", task_values}, {"taskloop", taskloops},   {"critical", criticals},  {"lock", locks},
             {"regions", regions},    {"nested", nested}};
enum { CASES = 14 };

int main(int argc, char **argv) {
    static const char *const whens[] = {"after", "during"};
    int provided, ran = argc == 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    const MPI_Aint size = 4 * THREADS * sizeof(long);
    buffer = calloc(1, size);
    MPI_Win_allocate(size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    memset(part, 0, size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int by_message = 0; by_message < 2; by_message++) {
        for (int racy = 0; racy < 2; racy++) {
            const char *how = by_message ? "message" : "barrier";
            if (argc == 1 && rank_ == 0) printf("case origin %s %s: %s local\n", how, whens[racy], racy ? "racy" : "right");
            if (argc < 4 || strcmp(argv[1], "origin") || strcmp(argv[2], how) || strcmp(argv[3], whens[racy])) continue;
            ran = 1;
            origin(by_message, racy);
        }
    }
    for (int i = 0; i < CASES; i++) {
        for (int target = 0; target < 2; target++) {
            for (int racy = 0; racy < 2; racy++) {
                const char *kind = target ? "target" : "buffer";
                if (argc == 1 && rank_ == 0) {
                    printf("case %s %s %s: %s local\n", kind, cases[i].name, whens[racy], racy ? "racy" : "right");
                }
                if (argc < 4 || strcmp(argv[1], kind) || strcmp(argv[2], cases[i].name) || strcmp(argv[3], whens[racy])) continue;
                at_target = target, ran = 1;
                if (rank_ == 0) cases[i].run(racy);
            }
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(buffer);
    if (rank_ == 0) printf("%s\n", ran ? "done" : "no such case");
    MPI_Finalize();
    return !ran;
}
