/* Declarations shared by the parts of the benchmark. Plain MPI: it uses no library but the MPI with
 * which it is compiled.
 *
 * In cells and cases of two ranks, rank 0 is the origin and rank 1 the target.
 *
 * Each rank reads commands from a FIFO of its own, `gate-RANK`, in which the program that starts
 * the benchmark writes the same commands for all ranks. Between commands the ranks sleep, so that
 * another job can measure:
 *   line N FUNCTION WINDOW SYNCHRONIZATION LAST   prepares cell N and warms it up, or runs case N
 *   turn                                          measures a batch of rounds of the cell
 *   check                                         verifies the data of the cell
 *   end                                           ends the program
 * The ranks write answers to the FIFO `answers`, not to the standard output: a launcher reads the
 * standard output of a rank through a pipe, and may drop what it has not read when a rank aborts.
 *   begin N               the line begins
 *   ready N TURNS         the cell is warmed up; the rank wants this many turns
 *   turn N VALUE          of a batch: latency in us, bandwidth in MB/s, or millions of operations
 *                         of all ranks in a second
 *   checked N VERDICT     right, wrong, or early: the data is right, but a flush or an unlock has
 *                         returned before the data had arrived at a target that computed
 *   case N COMPUTING ATTENTIVE PASSIVE DATA   latencies in us; PASSIVE and DATA are 1 or 0
 *   fail N WHY            MPI returned an error; the program ends
 *   nowindow N WHY        a window of this kind could not be created; the program ends
 *   hang N                no result arrived within the limit; the program ends
 */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stdint.h>

enum { ORIGIN = 0, TARGET = 1 };

/* Bytes of each rank's part of a window, and of the buffers. */
#define PART_BYTES ((size_t)1 << 20)
/* Operations in flight in the bandwidth cells, which all work on the same bytes of the target. */
enum { FLIGHT = 64 };
/* The source of a window's memory; ALLOC_MEM is a created one over memory of MPI_Alloc_mem. */
enum kind { CREATE, ALLOCATE, DYNAMIC, SHARED, ALLOC_MEM };

/* A window and this rank's part of it, and the displacement at which the target's part begins. */
struct window {
    MPI_Win win;
    enum kind kind;
    unsigned char *part;
    MPI_Aint base;
};

/* The number of the line that is being measured. */
extern int at_work;
extern int my_rank;
extern int world_size;

/* Prints the failed call, and ends the job. */
void must(int outcome, const char *call);
#define MUST(call) must((call), #call)

/* The kind with this name, or -1. */
int kind_of(const char *name);
/* Collective; ends the job if the window cannot be created. */
void open_window(struct window *window, enum kind kind);
void close_window(struct window *window);

/* A cell, as its line names it. */
struct cell_name {
    const char *function;
    const char *sync;
    size_t size;
};

/* Measures a cell within about BUDGET_US microseconds. `words` is memory that both ranks have
 * mapped. */
void run_cell(struct window *window, const struct cell_name *name, uint64_t *words, double budget_us);
/* Whether the function is a cell in which all ranks work at once, and the measurement of such a
 * cell. */
int is_of_all_ranks(const char *function);
void run_of_all_ranks(struct window *window, const char *function, const char *sync, size_t size, double budget_us);
/* Runs a case of the grid. The target computes for LEAST_MS to MOST_MS
 * milliseconds; `words` as for a cell. */
void run_case(struct window *window, const char *sync, const char *operation, void *words, int least_ms, int most_ms);

/* The time in microseconds. */
double now_us(void);

/* The median, for which the times are sorted. */
double median(double *times, size_t count);

/* Ends the work of a command: rank 0 writes the answer when all other ranks are about to sleep. */
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits for the next command of a cell; returns 1 if it is a turn, and 0 if it is the check. */
int next_turn(void);

/* The most turns of a cell. If few rounds exceed the budget, there are FEWER_TURNS. */
enum { TURNS = 6, FEWER_TURNS = 2 };
/* Before each turn, half a millisecond of rounds, and at least one round, is not measured (with
 * `--quick` at most as many rounds as the turn has): the ranks have slept, and their waits adapt to
 * calls that return soon. */
#define UNTIMED_US 500.0

#endif
