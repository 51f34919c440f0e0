/* The benchmark of `transom-perf compare`: reads a plan, makes windows, and runs one line of the
 * plan after the other. Usage: bench PLAN WORDS BUDGET_US LEAST_MS MOST_MS LIMIT_S; PLAN and WORDS
 * are files that all ranks can read. A line of the plan that takes longer than the limit has
 * hung. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* Launchers are slow to start ranks on busy machines. */
enum { START_SECONDS = 25 };

int at_work = 0;
int my_rank = 0;
int world_size = 0;

double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double median(double *times, size_t count) {
    qsort(times, count, sizeof times[0], by_value);
    return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

/* Prints the error, and ends the job. */
static void give_up(const char *what, int outcome, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(outcome, text, &length);
    for (char *c = text; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    printf("%s %d %s: %s\n", what, at_work, call, text);
    fflush(stdout);
    /* Some launchers drop output that they have not read yet when a rank aborts: also the last
     * result of another rank. */
    usleep(200000);
    MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

void must(int outcome, const char *call) {
    if (outcome != MPI_SUCCESS) {
        give_up("fail", outcome, call);
    }
}

/* Only functions that a signal handler may call. */
static void on_alarm(int signal) {
    char line[32] = "hang ";
    int at = 5, divisor = 100000;
    (void)signal;
    while (divisor > 1 && at_work / divisor == 0) {
        divisor /= 10;
    }
    for (; divisor > 0; divisor /= 10) {
        line[at++] = (char)('0' + at_work / divisor % 10);
    }
    line[at++] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)at) < 0) {
        _exit(4);
    }
    _exit(4);
}

int kind_of(const char *name) {
    static const char *const names[] = {"create", "allocate", "dynamic", "shared", "alloc_mem"};
    for (int kind = 0; kind < 5; kind++) {
        if (strcmp(name, names[kind]) == 0) {
            return kind;
        }
    }
    return -1;
}

static void made(int outcome, const char *call) {
    if (outcome != MPI_SUCCESS) {
        give_up("nowindow", outcome, call);
    }
}

static unsigned char *own_memory(void) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, PART_BYTES) != 0) {
        fprintf(stderr, "bench: %d bytes of memory are not available\n", (int)PART_BYTES);
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    return memset(memory, 0, PART_BYTES);
}

void open_window(struct window *window, enum kind kind) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Aint size = (MPI_Aint)PART_BYTES;
    void *base = NULL;
    window->kind = kind;
    window->base = 0;
    switch (kind) {
    case CREATE:
        base = own_memory();
        made(MPI_Win_create(base, size, 1, MPI_INFO_NULL, world, &window->win), "MPI_Win_create");
        break;
    case ALLOC_MEM:
        made(MPI_Alloc_mem(size, MPI_INFO_NULL, &base), "MPI_Alloc_mem");
        memset(base, 0, PART_BYTES);
        made(MPI_Win_create(base, size, 1, MPI_INFO_NULL, world, &window->win), "MPI_Win_create");
        break;
    case ALLOCATE:
        made(MPI_Win_allocate(size, 1, MPI_INFO_NULL, world, &base, &window->win), "MPI_Win_allocate");
        break;
    case SHARED:
        made(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, world, &base, &window->win), "MPI_Win_allocate_shared");
        break;
    case DYNAMIC:
        base = own_memory();
        made(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &window->win), "MPI_Win_create_dynamic");
        made(MPI_Win_attach(window->win, base, size), "MPI_Win_attach");
        MUST(MPI_Get_address(base, &window->base));
        MUST(MPI_Bcast(&window->base, 1, MPI_AINT, TARGET, world));
        break;
    }
    window->part = base;
    MUST(MPI_Win_set_errhandler(window->win, MPI_ERRORS_RETURN));
    MUST(MPI_Barrier(world));
}

void close_window(struct window *window) {
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (window->kind == DYNAMIC) {
        MUST(MPI_Win_detach(window->win, window->part));
    }
    MUST(MPI_Win_free(&window->win));
    if (window->kind == DYNAMIC || window->kind == CREATE) {
        free(window->part);
    }
    if (window->kind == ALLOC_MEM) {
        MUST(MPI_Free_mem(window->part));
    }
}

/* Memory shared by both ranks, without MPI. */
static void *mapped(const char *path) {
    int file = open(path, O_RDWR);
    void *words = file < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    close(file);
    return words;
}

static unsigned limit(char **numbers) {
    return (unsigned)atoi(numbers[3]);
}

/* Runs the lines of the plan. */
static void run(FILE *plan, void *words, char **numbers) {
    struct window window;
    char function[32], kind[32], sync[32], last[32];
    int is_open = 0;
    while (fscanf(plan, "%31s %31s %31s %31s", function, kind, sync, last) == 4) {
        if (my_rank == ORIGIN) {
            printf("begin %d\n", at_work);
            fflush(stdout);
        }
        alarm(limit(numbers));
        if (!is_open || (int)window.kind != kind_of(kind)) {
            if (is_open) {
                close_window(&window);
            }
            open_window(&window, (enum kind)kind_of(kind));
            is_open = 1;
        }
        if (is_of_all_ranks(function)) {
            run_of_all_ranks(&window, function, sync, (size_t)atol(last), atof(numbers[0]));
        } else if (world_size != 2) {
            fprintf(stderr, "bench: %s needs exactly two ranks\n", function);
            MPI_Abort(MPI_COMM_WORLD, 5);
        } else if (strcmp(function, "grid") == 0) {
            run_case(&window, sync, last, words, atoi(numbers[1]), atoi(numbers[2]));
        } else {
            run_cell(&window, function, sync, (size_t)atol(last), atof(numbers[0]));
        }
        at_work++;
    }
    if (is_open) {
        close_window(&window);
    }
}

int main(int argc, char **argv) {
    FILE *plan;
    /* No rank outlives its launcher. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 7) {
        fprintf(stderr, "usage: ranks of bench PLAN WORDS BUDGET_US LEAST_MS MOST_MS LIMIT_S\n");
        return 2;
    }
    signal(SIGALRM, on_alarm);
    alarm(START_SECONDS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    plan = fopen(argv[1], "r");
    if (world_size < 2 || plan == NULL) {
        fprintf(stderr, "bench: at least two ranks and a readable plan are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    run(plan, mapped(argv[2]), argv + 3);
    fclose(plan);
    alarm(limit(argv + 3));
    MPI_Finalize();
    return 0;
}
