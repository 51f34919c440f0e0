/* Thousands of windows and datatypes: created and freed in any order while others remain, and
 * thousands at once. */
#include "check.h"

enum { STEPS = 14000, ALIVE = 40, KEPT = 4500 };

/* The program's own random numbers, the same at all ranks. */
static unsigned long seed_ = 12345;
static unsigned pick(unsigned below) {
    seed_ = seed_ * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed_ >> 33) % below;
}

/* Whether puts to the next rank arrive. */
static long works(MPI_Win win, long *part, long value) {
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_LONG, (rank_ + 1) % size_, 1, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    return part[1] != value;
}

static MPI_Win make(int kind, MPI_Comm comm, long **part) {
    MPI_Win win;
    if (kind == 0) MPI_Win_create(*part = malloc(16), 16, 8, MPI_INFO_NULL, comm, &win);
    if (kind == 1) MPI_Win_allocate(16, 8, MPI_INFO_NULL, comm, part, &win);
    if (kind == 2) MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win), *part = NULL;
    return win;
}

static void unmake(int kind, MPI_Win *win, long *part) {
    MPI_Win_free(win);
    if (kind == 0) free(part);
}

/* A window of one rank costs no barrier; one window of all ranks is kept, and others stay for a
 * while. */
static void windows(void) {
    MPI_Win kept, own[ALIVE], all;
    long *kept_part, *parts[ALIVE], *part, bad = 0;
    int kinds[ALIVE] = {0}, live[ALIVE] = {0};
    kept = make(1, MPI_COMM_WORLD, &kept_part);
    for (int step = 0; step < STEPS; step++) {
        unsigned at = pick(ALIVE);
        if (live[at]) unmake(kinds[at], &own[at], parts[at]);
        kinds[at] = 1 + pick(2), live[at] = 1;
        own[at] = make(kinds[at], MPI_COMM_SELF, &parts[at]);
        if (step % 1000 == 0) {
            all = make(step / 1000 % 2, MPI_COMM_WORLD, &part);
            bad |= works(all, part, step);
            unmake(step / 1000 % 2, &all, part);
        }
        if (kinds[at] == 1 && step % 64 == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, own[at]);
            long value = step;
            MPI_Put(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, own[at]);
            MPI_Win_unlock(0, own[at]);
            bad |= (parts[at][1] != step) << 1;
        }
    }
    for (int at = 0; at < ALIVE; at++)
        if (live[at]) unmake(kinds[at], &own[at], parts[at]);
    check("14,000 windows in any order", bad);
    check("a window that was kept", works(kept, kept_part, 99));
    unmake(1, &kept, kept_part);
}

/* Puts every second of 3 numbers with a new datatype. */
static long by_type(MPI_Datatype type, MPI_Win win, long *part, long value) {
    long from[3] = {value, -1, value + 1};
    memset(part, 0, 4 * sizeof *part);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(from, 1, type, 0, 0, 1, type, win);
    MPI_Win_unlock(0, win);
    return part[0] != value || part[1] != 0 || part[2] != value + 1;
}

static MPI_Datatype strided(void) {
    MPI_Datatype type;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static void types(void) {
    static MPI_Datatype kept[KEPT];
    long *part, bad = 0;
    MPI_Win win;
    MPI_Win_allocate(32, 8, MPI_INFO_NULL, MPI_COMM_SELF, &part, &win);
    for (int i = 0; i < KEPT; i++) {
        kept[i] = strided();
        bad |= by_type(kept[i], win, part, i);
    }
    check("4,500 datatypes at once", bad);
    for (int step = 0; step < STEPS; step++) {
        unsigned at = pick(KEPT);
        MPI_Type_free(&kept[at]);
        kept[at] = strided();
        bad |= by_type(kept[at], win, part, step);
    }
    for (int i = 0; i < KEPT; i++) bad |= by_type(kept[i], win, part, i) << 1, MPI_Type_free(&kept[i]);
    check("14,000 datatypes in any order", bad);
    MPI_Win_free(&win);
}

/* More windows at once than transom allows; MPICH allows about 2,000. */
static void at_once(void) {
#ifdef OPEN_MPI
    static MPI_Win wins[KEPT];
    static long *parts[KEPT];
    long bad = 0;
    for (int i = 0; i < KEPT; i++) wins[i] = make(1, MPI_COMM_SELF, &parts[i]);
    for (int i = 0; i < KEPT; i++) {
        long value = i;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, wins[i]);
        MPI_Put(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, wins[i]);
        MPI_Win_unlock(0, wins[i]);
        bad |= parts[i][1] != i;
    }
    for (int i = 0; i < KEPT; i += 2) MPI_Win_free(&wins[i]);
    for (int i = 1; i < KEPT; i += 2) MPI_Win_free(&wins[i]);
    check("4,500 windows at once", bad);
#endif
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    windows();
    types();
    at_once();
    return end();
}
