/* Latency and bandwidth: each function under each synchronization, with the data verified. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Of `is_early`: the rounds, the longest time without a call, and the words between the ranks, each
 * on a separate cache line, before the one that counts commands. */
enum { EARLY_ROUNDS = 4, EARLY_US = 4000 };
enum { COMPUTES = 40, RETURNED = 48 };

enum function { PUT, GET, ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, PUT_BW, GET_BW };
enum sync { FLUSH, LOCK, FENCE, PSCW };

/* The cell that is being measured. */
struct cell {
    struct window *window;
    enum function function;
    enum sync sync;
    size_t size;
    /* Number of operations so far; a round of a bandwidth cell has FLIGHT. */
    int64_t done;
    /* The origin's buffer. */
    unsigned char *buffer;
    int64_t result;
    MPI_Group other;
};

static int named(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    fprintf(stderr, "bench: a command has the unknown word %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 5);
    return 0;
}

/* Byte i of the data. */
static unsigned char pattern(size_t i) {
    return (unsigned char)(i * 7 + i / 251 + (size_t)at_work * 13 + 1);
}

/* Posts the operation once. */
static void post(struct cell *cell) {
    MPI_Win win = cell->window->win;
    MPI_Aint at = cell->window->base;
    int bytes = (int)cell->size;
    int64_t one = 1;
    switch (cell->function) {
    case PUT:
    case PUT_BW:
        MUST(MPI_Put(cell->buffer, bytes, MPI_BYTE, TARGET, at, bytes, MPI_BYTE, win));
        break;
    case GET:
    case GET_BW:
        MUST(MPI_Get(cell->buffer, bytes, MPI_BYTE, TARGET, at, bytes, MPI_BYTE, win));
        break;
    case ACCUMULATE:
        MUST(MPI_Accumulate(cell->buffer, bytes / 8, MPI_DOUBLE, TARGET, at, bytes / 8, MPI_DOUBLE, MPI_SUM, win));
        break;
    case FETCH_AND_OP:
        /* The operand stays in the buffer: the operation is not complete on return. */
        memcpy(cell->buffer, &one, sizeof one);
        MUST(MPI_Fetch_and_op(cell->buffer, &cell->result, MPI_INT64_T, TARGET, at, MPI_SUM, win));
        break;
    case COMPARE_AND_SWAP: {
        int64_t *words = (int64_t *)cell->buffer;
        words[0] = cell->done + 1;
        words[1] = cell->done;
        MUST(MPI_Compare_and_swap(&words[0], &words[1], &cell->result, MPI_INT64_T, TARGET, at, win));
        break;
    }
    }
    cell->done++;
}

/* Posts the operations of one round. */
static void post_round(struct cell *cell) {
    int many = cell->function >= PUT_BW ? FLIGHT : 1;
    for (int i = 0; i < many; i++) {
        post(cell);
    }
}

/* One round at the origin: operations and their completion. */
static void origin_round(struct cell *cell) {
    MPI_Win win = cell->window->win;
    switch (cell->sync) {
    case FLUSH:
        post_round(cell);
        MUST(MPI_Win_flush(TARGET, win));
        break;
    case LOCK:
        MUST(MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, win));
        post_round(cell);
        MUST(MPI_Win_unlock(TARGET, win));
        break;
    case FENCE:
        post_round(cell);
        MUST(MPI_Win_fence(0, win));
        break;
    case PSCW:
        MUST(MPI_Win_start(cell->other, 0, win));
        post_round(cell);
        MUST(MPI_Win_complete(win));
        break;
    }
}

/* One round at the target. */
static void target_round(struct cell *cell) {
    if (cell->sync == FENCE) {
        MUST(MPI_Win_fence(0, cell->window->win));
    } else if (cell->sync == PSCW) {
        MUST(MPI_Win_post(cell->other, 0, cell->window->win));
        MUST(MPI_Win_wait(cell->window->win));
    }
}

/* Runs rounds at both ranks. Returns the time of a round at this rank in us. */
static double rounds(struct cell *cell, int64_t count) {
    double start = now_us();
    for (int64_t i = 0; i < count; i++) {
        if (my_rank == ORIGIN) {
            origin_round(cell);
        } else {
            target_round(cell);
        }
    }
    return count > 0 ? (now_us() - start) / (double)count : 0;
}

/* The value of a cell whose round takes `time` us: the time, or the bandwidth in MB/s. */
static double shown(const struct cell *cell, double time) {
    return cell->function >= PUT_BW ? (double)cell->size * FLIGHT / time : time;
}

/* Warms up, and then measures batches of rounds in turns with other jobs. All batches together have
 * as many rounds as the budget has room for. */
static void measure(struct cell *cell, double budget_us) {
    double first;
    /* The number of turns, the rounds of each, and those before them, which the origin chooses. */
    int64_t plan[3];
    rounds(cell, 1);
    first = rounds(cell, 1);
    plan[0] = first < budget_us / 64 ? 5 : 1;
    MUST(MPI_Bcast(plan, 1, MPI_INT64_T, ORIGIN, MPI_COMM_WORLD));
    first = rounds(cell, plan[0]);
    plan[0] = first * TURNS < budget_us ? TURNS : FEWER_TURNS;
    plan[1] = (int64_t)(budget_us / (double)plan[0] / (first > 0.01 ? first : 0.01));
    plan[1] = plan[1] < 1 ? 1 : plan[1] > 20000 ? 20000 : plan[1];
    plan[2] = (int64_t)(UNTIMED_US / (first > 0.01 ? first : 0.01));
    plan[2] = plan[2] < 1 ? 1 : plan[2] < plan[1] ? plan[2] : plan[1];
    MUST(MPI_Bcast(plan, 3, MPI_INT64_T, ORIGIN, MPI_COMM_WORLD));
    answer("ready %d %d", at_work, (int)plan[0]);
    while (next_turn()) {
        double time;
        /* The ranks wake at different times. */
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        rounds(cell, plan[2]);
        time = rounds(cell, plan[1]);
        /* The target is attentive until the origin has measured. */
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        answer("turn %d %.6f", at_work, shown(cell, time));
    }
}

/* Fills the buffer and the target's part. */
static void prepare(struct cell *cell) {
    unsigned char *part = cell->window->part;
    int gets = cell->function == GET || cell->function == GET_BW;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, cell->window->win));
    for (size_t i = 0; i < cell->size; i++) {
        part[i] = gets && my_rank == TARGET ? pattern(i) : 0;
        cell->buffer[i] = gets ? 0 : pattern(i);
    }
    for (size_t i = 0; cell->function == ACCUMULATE && i < cell->size / 8; i++) {
        ((double *)cell->buffer)[i] = 1;
    }
    MUST(MPI_Win_unlock(my_rank, cell->window->win));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
}

/* Whether bytes are those of the pattern. */
static int is_pattern(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != pattern(i)) {
            return 0;
        }
    }
    return 1;
}

/* Whether the data is right at both ranks; both get the result. */
static int verified(struct cell *cell) {
    int right = 1, both = 0;
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Bcast(&cell->done, 1, MPI_INT64_T, ORIGIN, MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, cell->window->win));
    if (cell->function == GET || cell->function == GET_BW) {
        right = my_rank == TARGET || is_pattern(cell->buffer, cell->size);
    } else if (my_rank == ORIGIN) {
        right = cell->function < FETCH_AND_OP || cell->function > COMPARE_AND_SWAP || cell->result == cell->done - 1;
    } else if (cell->function == PUT || cell->function == PUT_BW) {
        right = is_pattern(cell->window->part, cell->size);
    } else if (cell->function == ACCUMULATE) {
        for (size_t i = 0; i < cell->size / 8; i++) {
            right &= ((double *)cell->window->part)[i] == (double)cell->done;
        }
    } else {
        right = *(int64_t *)cell->window->part == cell->done;
    }
    MUST(MPI_Win_unlock(my_rank, cell->window->win));
    MUST(MPI_Allreduce(&right, &both, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    return both;
}

/* Whether the target's part has this value in its first and last bytes, by plain loads. */
static int has_arrived(const struct cell *cell, unsigned char value) {
    const volatile unsigned char *part = cell->window->part;
    return part[0] == value && part[cell->size - 1] == value;
}

/* Whether a flush or an unlock returns before the data of a put has arrived. Both ranks repeat the
 * round; the target then calls no MPI for up to EARLY_US, and looks at its part as soon as the
 * origin tells by shared memory that its call has returned. A call that needs the target's calls
 * returns later, and is not early. The target knows the result. */
static int is_early(struct cell *cell, uint64_t *words) {
    int is_put = cell->function == PUT || cell->function == PUT_BW, early = 0;
    if (!is_put || (cell->sync != FLUSH && cell->sync != LOCK)) {
        return 0;
    }
    for (int i = 0; i < EARLY_ROUNDS; i++) {
        uint64_t number = ((uint64_t)at_work + 1) * EARLY_ROUNDS + (uint64_t)i;
        unsigned char value = (unsigned char)(pattern(0) + i + 1);
        MUST(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == ORIGIN) {
            memset(cell->buffer, value, cell->size);
            while (__atomic_load_n(&words[COMPUTES], __ATOMIC_ACQUIRE) < number) {
                sched_yield();
            }
            origin_round(cell);
            __atomic_store_n(&words[RETURNED], number, __ATOMIC_RELEASE);
        } else {
            double end = now_us() + EARLY_US;
            __atomic_store_n(&words[COMPUTES], number, __ATOMIC_RELEASE);
            while (__atomic_load_n(&words[RETURNED], __ATOMIC_ACQUIRE) < number && now_us() < end) {
            }
            early |= __atomic_load_n(&words[RETURNED], __ATOMIC_ACQUIRE) >= number && !has_arrived(cell, value);
        }
    }
    /* The part gets the cell's data back. */
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == ORIGIN) {
        for (size_t i = 0; i < cell->size; i++) {
            cell->buffer[i] = pattern(i);
        }
        origin_round(cell);
    }
    return early;
}

/* Opens the epoch of all rounds, if the synchronization has one. */
static void begin_epoch(struct cell *cell) {
    if (cell->sync == FLUSH) {
        MUST(MPI_Win_lock_all(0, cell->window->win));
    } else if (cell->sync == FENCE) {
        MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, cell->window->win));
    }
}

static void end_epoch(struct cell *cell) {
    if (cell->sync == FLUSH) {
        MUST(MPI_Win_unlock_all(cell->window->win));
    } else if (cell->sync == FENCE) {
        MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, cell->window->win));
    }
}

void run_cell(struct window *window, const struct cell_name *name, uint64_t *words, double budget_us) {
    static const char *const functions[] = {"put", "get", "accumulate", "fetch_and_op", "compare_and_swap", "put_bw", "get_bw"};
    static const char *const syncs[] = {"flush", "lock", "fence", "pscw"};
    static int64_t room[PART_BYTES / 8];
    struct cell cell = {0};
    MPI_Group all;
    int other = 1 - my_rank, right, early;
    cell.window = window;
    cell.function = (enum function)named(name->function, functions, 7);
    cell.sync = (enum sync)named(name->sync, syncs, 4);
    cell.size = name->size < PART_BYTES ? name->size : PART_BYTES;
    cell.buffer = (unsigned char *)room;
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MUST(MPI_Group_incl(all, 1, &other, &cell.other));
    prepare(&cell);
    begin_epoch(&cell);
    measure(&cell, budget_us);
    early = is_early(&cell, words);
    end_epoch(&cell);
    right = verified(&cell);
    MUST(MPI_Bcast(&early, 1, MPI_INT, TARGET, MPI_COMM_WORLD));
    MUST(MPI_Group_free(&cell.other));
    MUST(MPI_Group_free(&all));
    answer("checked %d %s", at_work, !right ? "wrong" : early ? "early" : "right");
}
