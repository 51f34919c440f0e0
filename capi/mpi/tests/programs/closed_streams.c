/* A program that closes standard streams, as daemons do, and still writes to them: its text is
 * lost, and appears in no window. */
#define _GNU_SOURCE
#include "check.h"

#include <unistd.h>

enum { LONGS = 1 << 13, LINES = 20000 };

/* Rank 0 makes first contact with a window of each kind while streams are closed. */
static long changed(int kind) {
    static long own[LONGS];
    long *base = own, bad = 0;
    MPI_Win win;
    if (kind == 0) MPI_Win_allocate(sizeof own, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    else MPI_Win_create(own, sizeof own, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < LONGS; i++) base[i] = 7 + i;
    MPI_Barrier(MPI_COMM_WORLD);
    const long one = 1;
    MPI_Win_lock_all(0, win);
    for (int rank = 0; rank < size_; rank++) MPI_Put(&one, 1, MPI_LONG, rank, rank_, 1, MPI_LONG, win);
    MPI_Win_flush_all(win);
    static const char line[] = "this text belongs to no window\n";
    for (int i = 0; i < LINES; i++) {
        if (write(0, line, sizeof line - 1) < 0 && write(2, line, sizeof line - 1) < 0) continue;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    for (int i = 0; i < LONGS; i++) bad += base[i] != (i < size_ ? 1 : 7 + i);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    return bad;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    close(0), close(2);
    check("allocated memory has no text of a closed stream", changed(0));
    check("the program's memory has no text of a closed stream", changed(1));
    return end();
}
