/* Programs that synchronize through single words, by atomics of MPI and of the language, and
 * programs whose window memory is the buffer of a call of the host or of the C library, for three
 * ranks. In the form `during` a call is missing, comes too early, or orders other ranks than those
 * that access. Rank 1 has most of the memory on which the others operate. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 32 };
static int rank_;
static MPI_Win win;
static long *part;                     /* this rank's part of the window */
static long one[COUNT], result[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put_at(int element) { MPI_Put(one, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void get_at(int element) { MPI_Get(result, 1, MPI_LONG, 1, element, 1, MPI_LONG, win); }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void send(int to) { MPI_Send(0, 0, MPI_INT, to, 1, all); }
static void receive(int from) { MPI_Recv(0, 0, MPI_INT, from, 1, all, MPI_STATUS_IGNORE); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
/* Another rank has probably gone on, which nothing says. */
static void pause_long(void) { usleep(30000); }
static void set(int element, long value) {
    MPI_Accumulate(&value, 1, MPI_LONG, 1, element, 1, MPI_LONG, MPI_REPLACE, win), flush();
}
static long fetch(int element) {
    long found = 0;
    MPI_Fetch_and_op(0, &found, MPI_LONG, 1, element, MPI_NO_OP, win), flush();
    return found;
}
static long now(int element) { return __atomic_load_n(&part[element], __ATOMIC_ACQUIRE); }
static void store(int element, long value) { __atomic_store_n(&part[element], value, __ATOMIC_RELEASE); }

/* --- words ------------------------------------------------------------------------------------ */

/* Two flags of 4 bytes side by side, of ranks 0 and 2. */
static int *ints;
static MPI_Win flags;
static void begin_flags(void) {
    MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, all, &ints, &flags);
    memset(ints, 0, 4 * sizeof(int));
    barrier();
    lock_all(), MPI_Win_lock_all(0, flags);
}
static void end_flags(void) {
    MPI_Win_unlock_all(flags), unlock_all();
    MPI_Win_free(&flags);
}
static void raise_flag(int flag) {
    const int raised = 1;
    MPI_Accumulate(&raised, 1, MPI_INT, 1, flag, 1, MPI_INT, MPI_REPLACE, flags), MPI_Win_flush(1, flags);
}
static void flags_polled(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(0);
    if (rank_ == 2) pause_long(), raise_flag(1);
    if (rank_ == 1) {
        while (!__atomic_load_n(&ints[racy], __ATOMIC_ACQUIRE)) MPI_Win_sync(flags);
        seen = part[0];
    }
    end_flags();
}
static void flags_fetched(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(0);
    if (rank_ == 1) pause_long(), raise_flag(1);
    for (int found = 0; rank_ == 2 && !found;) {
        MPI_Fetch_and_op(0, &found, MPI_INT, 1, racy, MPI_NO_OP, flags), MPI_Win_flush(1, flags);
    }
    if (rank_ == 2) get_at(0), flush();
    end_flags();
}
/* A flag of 8 bytes, of which rank 1 polls a half. */
static void half_polled(int racy) {
    lock_all();
    if (rank_ == 0) put_at(0), flush(), set(1, -1);
    if (rank_ == 2) pause_long(), set(2, -1);
    if (rank_ == 1) {
        while (!__atomic_load_n((int *)&part[racy ? 2 : 1] + 1, __ATOMIC_ACQUIRE)) MPI_Win_sync(win);
        seen = part[0];
    }
    unlock_all();
}
/* The flags of 4 bytes, which rank 1 polls as one word. */
static void flags_as_word(int racy) {
    begin_flags();
    if (rank_ == 0) put_at(0), flush(), raise_flag(1);
    if (rank_ == 2) pause_long(), raise_flag(2);
    if (rank_ == 1) {
        while (!__atomic_load_n((long *)&ints[racy ? 2 : 0], __ATOMIC_ACQUIRE)) MPI_Win_sync(flags);
        seen = part[0];
    }
    end_flags();
}

static const struct {
    const char *name;
    void (*run)(int racy);
    int are_operations;
} cases[] = {
    {"flags_polled", flags_polled, 0},
    {"flags_fetched", flags_fetched, 1},
    {"half_polled", half_polled, 0},
    {"flags_as_word", flags_as_word, 0},
};
#include "races_main.h"
