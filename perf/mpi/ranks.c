/* Cells in which all ranks work at once: each performs equal rounds, and the result is the work of
 * all ranks divided by the time of the slowest. The data of each cell is verified. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum cell {
    PUT_MR, GET_MR, PUT_MBW, GET_MBW, FOP_HOT, FOP_SPREAD, CAS_HOT, ACCUMULATE_HOT, LOCK_HOT,
    LOCK_SPREAD, GUPS, FENCE_ALL, PSCW_RING, ALLTOALL, WINDOW_CREATE, OVERLAP, CELLS
};
static const char *const names[CELLS] = {
    "put_mr", "get_mr", "put_mbw", "get_mbw", "fop_hot", "fop_spread", "cas_hot", "accumulate_hot", "lock_hot",
    "lock_spread", "gups", "fence_all", "pscw_ring", "alltoall", "window_create",
    "overlap",
};

/* Doubles of an accumulate; words of each rank's table of gups; bytes of a window to create; steps
 * of computing, which take about as long as a put of 1 MiB. */
enum { DOUBLES = 8, TABLE = 4096, SMALL_WINDOW = 4096, STEPS = 50000 };

static enum cell cell;
static struct window *window;
static size_t bytes;
/* The rank to the right, and to the left. */
static int right, left;
/* Rounds of this rank, its swaps that took place, and the word that it expects to find. */
static int64_t done, swapped, expected;
static uint64_t random_state;
/* Whether all data fetched by this rank was right. */
static int fine;
static int64_t buffer[PART_BYTES / 8], results[PART_BYTES / 8];
static MPI_Group group_of_right, group_of_left;

int is_of_all_ranks(const char *function) {
    for (int i = 0; i < CELLS; i++) {
        if (strcmp(function, names[i]) == 0) return 1;
    }
    return 0;
}

/* Byte i of the data of a rank. */
static unsigned char pattern(int rank, size_t i) {
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 13 + (size_t)at_work + 1);
}

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* The number of operations of a round. */
static int in_a_round(void) {
    return cell <= GET_MBW || cell == GUPS ? FLIGHT : 1;
}

/* Many transfers to or from the rank to the right, and a flush. */
static void transfers(void) {
    for (int i = 0; i < FLIGHT; i++) {
        if (cell == PUT_MR || cell == PUT_MBW) {
            MUST(MPI_Put(buffer, (int)bytes, MPI_BYTE, right, 0, (int)bytes, MPI_BYTE, window->win));
        } else {
            MUST(MPI_Get(results, (int)bytes, MPI_BYTE, right, 0, (int)bytes, MPI_BYTE, window->win));
        }
    }
    MUST(MPI_Win_flush(right, window->win));
}

/* Adds 1 to a word. The values that one rank fetches from it only grow. */
static void add(int target) {
    int64_t before = results[0];
    buffer[0] = 1;
    MUST(MPI_Fetch_and_op(buffer, results, MPI_INT64_T, target, 0, MPI_SUM, window->win));
    MUST(MPI_Win_flush(target, window->win));
    fine &= results[0] > before;
}

/* Adds 1 to rank 0's word if it has the value that this rank fetched last. */
static void swap(void) {
    buffer[0] = expected + 1;
    buffer[1] = expected;
    MUST(MPI_Compare_and_swap(&buffer[0], &buffer[1], results, MPI_INT64_T, 0, 0, window->win));
    MUST(MPI_Win_flush(0, window->win));
    fine &= results[0] >= expected;
    swapped += results[0] == expected;
    expected = results[0] == expected ? expected + 1 : results[0];
}

/* Adds 1 to a word by a get and a put, which only the lock makes atomic. */
static void lock(int target) {
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window->win));
    MUST(MPI_Get(results, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, window->win));
    MUST(MPI_Win_flush(target, window->win));
    results[0]++;
    MUST(MPI_Put(results, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, window->win));
    MUST(MPI_Win_unlock(target, window->win));
}

/* Changes words of all ranks' tables; repeating the changes sets the words back to zero. */
static void updates(void) {
    for (int i = 0; i < FLIGHT; i++) {
        uint64_t word = next_random();
        int target = (int)(word % (uint64_t)world_size);
        MPI_Aint at = (MPI_Aint)(word / (uint64_t)world_size % TABLE) * 8;
        buffer[i] = (int64_t)word;
        MUST(MPI_Accumulate(&buffer[i], 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, MPI_BXOR, window->win));
    }
    MUST(MPI_Win_flush_all(window->win));
}

static void round_of_pscw(void) {
    MUST(MPI_Win_post(group_of_left, 0, window->win));
    MUST(MPI_Win_start(group_of_right, 0, window->win));
    MUST(MPI_Put(buffer, (int)bytes, MPI_BYTE, right, 0, (int)bytes, MPI_BYTE, window->win));
    MUST(MPI_Win_complete(window->win));
    MUST(MPI_Win_wait(window->win));
}

static void round_of_all_to_all(void) {
    for (int i = 0; i < world_size; i++) {
        int target = (my_rank + i) % world_size;
        MPI_Aint at = (MPI_Aint)bytes * my_rank;
        MUST(MPI_Put(buffer, (int)bytes, MPI_BYTE, target, at, (int)bytes, MPI_BYTE, window->win));
    }
    MUST(MPI_Win_flush_all(window->win));
}

static void create_and_free(void) {
    MPI_Win win;
    MUST(MPI_Win_create(buffer, SMALL_WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MUST(MPI_Win_free(&win));
}

/* A put, and computing before its flush. */
static void put_and_compute(void) {
    static volatile uint64_t sum;
    MUST(MPI_Put(buffer, (int)bytes, MPI_BYTE, right, 0, (int)bytes, MPI_BYTE, window->win));
    for (uint64_t step = 0; step < STEPS; step++) {
        sum = sum * 31 + step;
    }
    MUST(MPI_Win_flush(right, window->win));
}

static void round_of_ranks(void) {
    switch (cell) {
    case PUT_MR: case GET_MR: case PUT_MBW: case GET_MBW: transfers(); break;
    case FOP_HOT: add(0); break;
    case FOP_SPREAD: add(right); break;
    case CAS_HOT: swap(); break;
    case ACCUMULATE_HOT:
        MUST(MPI_Accumulate(buffer, DOUBLES, MPI_DOUBLE, 0, 0, DOUBLES, MPI_DOUBLE, MPI_SUM, window->win));
        MUST(MPI_Win_flush(0, window->win));
        break;
    case LOCK_HOT: lock(0); break;
    case LOCK_SPREAD: lock(right); break;
    case GUPS: updates(); break;
    case FENCE_ALL:
        MUST(MPI_Put(buffer, (int)bytes, MPI_BYTE, right, 0, (int)bytes, MPI_BYTE, window->win));
        MUST(MPI_Win_fence(0, window->win));
        break;
    case PSCW_RING: round_of_pscw(); break;
    case ALLTOALL: round_of_all_to_all(); break;
    case WINDOW_CREATE: create_and_free(); break;
    case OVERLAP: put_and_compute(); break;
    case CELLS: break;
    }
    done++;
}

/* The time of a round at the slowest rank, in us. */
static double rounds(int64_t count) {
    double start, time;
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    start = now_us();
    for (int64_t i = 0; i < count; i++) {
        round_of_ranks();
    }
    time = (now_us() - start) / (double)count;
    MUST(MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return time;
}

/* Fills the buffer and this rank's part. */
static void prepare(void) {
    int gets = cell == GET_MR || cell == GET_MBW;
    size_t length = cell == ALLTOALL ? bytes * (size_t)world_size : bytes > TABLE * 8 ? bytes : TABLE * 8;
    done = swapped = expected = 0;
    fine = 1;
    memset(results, 0, sizeof results);
    results[0] = -1;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, window->win));
    memset(window->part, 0, length);
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)buffer)[i] = pattern(my_rank, i);
        if (gets) window->part[i] = pattern(my_rank, i);
    }
    for (int i = 0; cell == ACCUMULATE_HOT && i < DOUBLES; i++) {
        ((double *)buffer)[i] = 1;
    }
    MUST(MPI_Win_unlock(my_rank, window->win));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
}

static int has_pattern(const unsigned char *at, int rank) {
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != pattern(rank, i)) return 0;
    }
    return 1;
}

/* Whether this rank's part and the data that it fetched are right. */
static int is_right(int64_t all_done, int64_t all_swapped) {
    const int64_t *words = (const int64_t *)window->part;
    int right_here = fine;
    switch (cell) {
    case PUT_MR: case PUT_MBW: case FENCE_ALL: case PSCW_RING: case OVERLAP:
        return has_pattern(window->part, left);
    case GET_MR: case GET_MBW: return has_pattern((unsigned char *)results, right);
    case FOP_HOT: case LOCK_HOT: return fine && words[0] == (my_rank == 0 ? all_done : 0);
    case FOP_SPREAD: case LOCK_SPREAD: return fine && words[0] == all_done / world_size;
    case CAS_HOT: return fine && words[0] == (my_rank == 0 ? all_swapped : 0);
    case ACCUMULATE_HOT:
        for (int i = 0; i < DOUBLES; i++) {
            right_here &= ((const double *)words)[i] == (my_rank == 0 ? (double)all_done : 0);
        }
        return right_here;
    case GUPS:
        for (int i = 0; i < TABLE; i++) {
            right_here &= words[i] == 0;
        }
        return right_here;
    case ALLTOALL:
        for (int i = 0; i < world_size; i++) {
            right_here &= has_pattern(window->part + bytes * (size_t)i, i);
        }
        return right_here;
    default: return 1;
    }
}

/* Whether the data is right at all ranks; all ranks get the result. */
static int verified(void) {
    int64_t all[2] = {done, swapped};
    int all_right, own;
    MUST(MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, window->win));
    own = is_right(all[0], all[1]);
    MUST(MPI_Win_unlock(my_rank, window->win));
    MUST(MPI_Allreduce(&own, &all_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    return all_right;
}

/* Repeats the changes of the table. */
static void undo_updates(void) {
    int64_t count = done;
    random_state = (uint64_t)my_rank * 2 + 88172645463325252u;
    for (int64_t i = 0; i < count; i++) {
        updates();
    }
}

/* The time of a round as the cell shows it: millions of operations of all ranks in a second, MB/s
 * of all ranks, or us. */
static double shown(double time) {
    double operations = (double)in_a_round() * world_size;
    if (cell == PUT_MBW || cell == GET_MBW) return operations * (double)bytes / time;
    return cell >= FENCE_ALL ? time : operations / time;
}

/* Warms up, and then measures batches of rounds in turns with other jobs. All ranks use equal
 * times, so all make equal plans. */
static void measure(double budget_us) {
    double first;
    int64_t count, untimed;
    int turns;
    rounds(1);
    first = rounds(1);
    first = rounds(first < budget_us / 64 ? 5 : 1);
    turns = first * TURNS < budget_us ? TURNS : FEWER_TURNS;
    count = (int64_t)(budget_us / turns / (first > 0.01 ? first : 0.01));
    count = count < 1 ? 1 : count > 20000 ? 20000 : count;
    untimed = (int64_t)(UNTIMED_US / (first > 0.01 ? first : 0.01));
    untimed = untimed < 1 ? 1 : untimed < count ? untimed : count;
    answer("ready %d %d", at_work, turns);
    while (next_turn()) {
        double time;
        rounds(untimed);
        time = rounds(count);
        answer("turn %d %.6f", at_work, shown(time));
    }
}

void run_of_all_ranks(struct window *opened, const char *function, const char *sync, size_t size, double budget_us) {
    MPI_Group all;
    int is_locked = strcmp(sync, "flush") == 0, verdict;
    window = opened;
    bytes = size < PART_BYTES ? size : PART_BYTES;
    right = (my_rank + 1) % world_size, left = (my_rank + world_size - 1) % world_size;
    for (int i = 0; i < CELLS; i++) {
        if (strcmp(function, names[i]) == 0) cell = (enum cell)i;
    }
    if (cell == ALLTOALL && bytes * (size_t)world_size > PART_BYTES) bytes = PART_BYTES / (size_t)world_size;
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MUST(MPI_Group_incl(all, 1, &right, &group_of_right));
    MUST(MPI_Group_incl(all, 1, &left, &group_of_left));
    prepare();
    random_state = (uint64_t)my_rank * 2 + 88172645463325252u;
    if (is_locked) MUST(MPI_Win_lock_all(0, window->win));
    if (cell == FENCE_ALL) MUST(MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win));
    measure(budget_us);
    if (cell == GUPS) undo_updates();
    if (cell == FENCE_ALL) MUST(MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win));
    if (is_locked) MUST(MPI_Win_unlock_all(window->win));
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    verdict = verified();
    MUST(MPI_Group_free(&group_of_left));
    MUST(MPI_Group_free(&group_of_right));
    MUST(MPI_Group_free(&all));
    answer("checked %d %s", at_work, verdict ? "right" : "wrong");
}
