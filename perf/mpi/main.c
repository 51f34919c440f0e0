/* The benchmark of `transom-perf compare`: reads commands, makes windows, and measures one line
 * after the other. Usage: bench FOLDER BUDGET_US LEAST_MS MOST_MS LIMIT_S. The folder has the
 * FIFOs, and the file `words` for memory that all ranks map. A command that takes longer than the
 * limit has hung. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
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

/* The word in shared memory in which ranks count the commands that they have completed. */
enum { COMPLETED_COMMANDS = 64 };
/* Bytes of a command or of an answer, which the kernel writes as a whole. */
enum { LINE_BYTES = 1024 };

int at_work = 0;
int my_rank = 0;
int world_size = 0;

/* The FIFO of the answers, this rank's FIFO of commands, and memory that all ranks have mapped. */
static int answers = -1;
static FILE *gate;
static uint64_t *words;
/* The commands that this rank has completed, and the time limit of a command in seconds. */
static uint64_t completed;
static unsigned limit;
/* The CPUs that the launcher and the MPI leave to this rank. */
static cpu_set_t cpus;

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

/* Writes a line to the FIFO of the answers. */
static void write_line(const char *format, va_list values) {
    char line[LINE_BYTES];
    int length = vsnprintf(line, sizeof line - 1, format, values);
    length = length < (int)sizeof line - 1 ? length : (int)sizeof line - 2;
    line[length++] = '\n';
    if (write(answers, line, (size_t)length) != length) {
        _exit(6);
    }
}

static void tell(const char *format, ...) {
    va_list values;
    va_start(values, format);
    write_line(format, values);
    va_end(values);
}

void answer(const char *format, ...) {
    va_list values;
    uint64_t *all = &words[COMPLETED_COMMANDS];
    completed++;
    __atomic_add_fetch(all, 1, __ATOMIC_ACQ_REL);
    if (my_rank != ORIGIN) {
        return;
    }
    /* The alarm bounds the wait. */
    while (__atomic_load_n(all, __ATOMIC_ACQUIRE) < completed * (uint64_t)world_size) {
        sched_yield();
    }
    va_start(values, format);
    write_line(format, values);
    va_end(values);
}

/* Sleeps until there is a command. The program that writes commands may have ended. */
static void read_command(char *line) {
    alarm(0);
    if (fgets(line, LINE_BYTES, gate) == NULL) {
        _exit(6);
    }
    alarm(limit);
}

int next_turn(void) {
    char line[LINE_BYTES];
    read_command(line);
    return strcmp(line, "turn\n") == 0;
}

/* Writes the error, and ends the job. */
static void give_up(const char *what, int outcome, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(outcome, text, &length);
    for (char *c = text; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    tell("%s %d %s: %s", what, at_work, call, text);
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
    if (write(answers, line, (size_t)at) < 0) {
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

/* Binds this thread to a CPU of its own, if there is one for each rank. Ranks that wake at the same
 * time may otherwise share a CPU for a while. */
static void bind_to_cpu(void) {
    cpu_set_t own;
    int place = my_rank;
    if (CPU_COUNT(&cpus) < world_size) {
        return;
    }
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &cpus) && place-- == 0) {
            CPU_SET(cpu, &own);
        }
    }
    /* Without it the measurement is only less steady. */
    (void)sched_setaffinity(0, sizeof own, &own);
}

/* Undoes `bind_to_cpu`. A new thread inherits the CPUs of the thread that starts it. */
static void use_all_cpus(void) {
    if (CPU_COUNT(&cpus) >= world_size) {
        (void)sched_setaffinity(0, sizeof cpus, &cpus);
    }
}

/* Threads that the MPI or transom starts with a window may use all CPUs of the rank. Those that a
 * cell starts later, within a turn, are bound like the rank. */
void open_window(struct window *window, enum kind kind) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Aint size = (MPI_Aint)PART_BYTES;
    void *base = NULL;
    window->kind = kind;
    window->base = 0;
    use_all_cpus();
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
    bind_to_cpu();
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

/* Opens a file of the folder. */
static int opened(const char *folder, const char *name, int flags) {
    char path[4096];
    int file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = open(path, flags | O_CLOEXEC);
    if (file < 0) {
        perror(path);
        exit(5);
    }
    return file;
}

/* Memory shared by all ranks, without MPI. */
static uint64_t *mapped(int file) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        perror("bench: mmap");
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    close(file);
    return memory;
}

/* Measures a line, whose window is open. */
static void run_line(struct window *window, const char *function, const char *sync, const char *last, char **numbers) {
    if (is_of_all_ranks(function)) {
        run_of_all_ranks(window, function, sync, (size_t)atol(last), atof(numbers[0]));
    } else if (world_size != 2) {
        fprintf(stderr, "bench: %s needs exactly two ranks\n", function);
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (strcmp(function, "grid") == 0) {
        run_case(window, sync, last, words, atoi(numbers[1]), atoi(numbers[2]));
    } else {
        struct cell_name name = {function, sync, (size_t)atol(last)};
        run_cell(window, &name, words, atof(numbers[0]));
    }
}

/* Runs the lines until the command to end. */
static void run(char **numbers) {
    struct window window;
    char line[LINE_BYTES], function[32], kind[32], sync[32], last[32];
    int is_open = 0;
    read_command(line);
    while (sscanf(line, "line %d %31s %31s %31s %31s", &at_work, function, kind, sync, last) == 5) {
        if (my_rank == ORIGIN) {
            tell("begin %d", at_work);
        }
        if (!is_open || (int)window.kind != kind_of(kind)) {
            if (is_open) {
                close_window(&window);
            }
            open_window(&window, (enum kind)kind_of(kind));
            is_open = 1;
        }
        run_line(&window, function, sync, last, numbers);
        read_command(line);
    }
    if (is_open) {
        close_window(&window);
    }
}

int main(int argc, char **argv) {
    char name[32];
    /* No rank outlives its launcher. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 6) {
        fprintf(stderr, "usage: ranks of bench FOLDER BUDGET_US LEAST_MS MOST_MS LIMIT_S\n");
        return 2;
    }
    limit = (unsigned)atoi(argv[5]);
    answers = opened(argv[1], "answers", O_WRONLY);
    signal(SIGALRM, on_alarm);
    alarm(START_SECONDS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_size < 2) {
        fprintf(stderr, "bench: at least two ranks are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
        CPU_ZERO(&cpus);
    }
    words = mapped(opened(argv[1], "words", O_RDWR));
    snprintf(name, sizeof name, "gate-%d", my_rank);
    gate = fdopen(opened(argv[1], name, O_RDONLY), "r");
    if (gate == NULL) {
        perror("bench: fdopen");
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    run(argv + 2);
    MPI_Finalize();
    return 0;
}
