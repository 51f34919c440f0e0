/* A rank gets every other element from a second rank, converts it and puts it into a third rank:
 * once correctly, and once as OpenCoarrays 2.10, which reads the buffer of MPI_Get before
 * MPI_Win_unlock (an error of the program: MPI-4.1 section 12.3.2). */
#include "check.h"

enum { N = 40 };

/* The function of OpenCoarrays that reads early. Its name lets the library detect OpenCoarrays. */
void _gfortran_caf_sendget(void) {}

struct place {
    MPI_Win win;
    MPI_Aint at[3];
};

/* Copies elements of rank 2, reversed and converted to another type, to rank 0. */
static void move_strided(struct place *from, struct place *to, int early) {
    int32_t got[N];
    double put[N];
    memset(got, 0x5a, sizeof got);
    MPI_Win_lock(MPI_LOCK_SHARED, 2, MPI_MODE_NOCHECK, from->win);
    for (int i = 0; i < N / 2; i++) {
        MPI_Aint at = from->at[2] + (MPI_Aint)(N - 2 - 2 * i) * sizeof *got;
        MPI_Get(got + i, sizeof *got, MPI_BYTE, 2, at, sizeof *got, MPI_BYTE, from->win);
        if (early) put[i] = got[i] + 0.5;
    }
    MPI_Win_unlock(2, from->win);
    for (int i = 0; i < N / 2 && !early; i++) put[i] = got[i] + 0.5;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, to->win);
    for (int i = 0; i < N / 2; i++) {
        MPI_Aint at = to->at[0] + (MPI_Aint)(2 * i) * sizeof *put;
        MPI_Put(put + i, sizeof *put, MPI_BYTE, 0, at, sizeof *put, MPI_BYTE, to->win);
    }
    MPI_Win_unlock(0, to->win);
}

static long wrong(const double *here, int round) {
    for (int i = 0; i < N; i++) {
        double wanted = i % 2 ? -1 : 1000 * round + N - 2 - i + 0.5;
        if (here[i] != wanted) return i + 1;
    }
    return 0;
}

static void tell_places(struct place *place, void *mine) {
    MPI_Aint at;
    MPI_Get_address(mine, &at);
    MPI_Aint all[64];
    MPI_Allgather(&at, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    memcpy(place->at, all, sizeof place->at);
}

static void rounds(struct place *from, struct place *to, int32_t *source, double *sink, const char *where) {
    for (int early = 0; early < 2; early++) {
        /* Without the library an early reader may see any value. */
        if (early && !by_transom()) break;
        long bad = 0;
        for (int round = 1; round <= 20; round++) {
            for (int i = 0; i < N; i++) {
                source[i] = 1000 * round + i;
                sink[i] = -1;
            }
            MPI_Win_sync(from->win);
            MPI_Win_sync(to->win);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank_ == 1) move_strided(from, to, early);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, to->win);
            if (rank_ == 0 && !bad) bad = wrong(sink, round);
            MPI_Win_unlock(rank_, to->win);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        char name[80];
        snprintf(name, sizeof name, "strided get, conversion and put, %s, read %s", where, early ? "early" : "in time");
        check(name, bad);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    struct place from = {0}, to = {0};
    int32_t *source;
    double *sink;
    MPI_Win_allocate(N * sizeof *source, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &source, &from.win);
    MPI_Win_allocate(N * sizeof *sink, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &sink, &to.win);
    rounds(&from, &to, source, sink, "allocated");
    MPI_Win_free(&from.win);
    MPI_Win_free(&to.win);

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &from.win);
    to.win = from.win;
    source = calloc(N, sizeof *source);
    sink = calloc(N, sizeof *sink);
    MPI_Win_attach(from.win, source, N * sizeof *source);
    MPI_Win_attach(from.win, sink, N * sizeof *sink);
    tell_places(&from, source);
    tell_places(&to, sink);
    rounds(&from, &to, source, sink, "dynamic");
    MPI_Win_detach(from.win, source);
    MPI_Win_detach(from.win, sink);
    MPI_Win_free(&from.win);
    free(source);
    free(sink);
    return end();
}
