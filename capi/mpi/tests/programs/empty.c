/* Parts of 0 bytes: their addresses, the results of queries, and windows with some such parts. */
#include "check.h"

static void *base_of(MPI_Win win) {
    void *base = &failed_;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    return flag ? base : NULL;
}

/* Puts and sums of 0 bytes, and, if the last rank has a part, a put of one number. */
static long works(MPI_Win win, int filled) {
    long mine = 100 + rank_, code = 0;
    MPI_Win_fence(0, win);
    for (int to = 0; to < size_; to++) code |= MPI_Put(&mine, 0, MPI_LONG, to, 0, 0, MPI_LONG, win);
    /* Sums are not defined on MPI_BYTE, but there is nothing to add. */
    for (int to = 0; to < size_; to++) {
        code |= MPI_Accumulate(&mine, 0, MPI_BYTE, to, 0, 0, MPI_BYTE, MPI_SUM, win);
        code |= MPI_Get_accumulate(&mine, 0, MPI_BYTE, &mine, 0, MPI_BYTE, to, 0, 0, MPI_BYTE, MPI_SUM, win);
    }
    if (filled && rank_ == 0) code |= MPI_Put(&mine, 1, MPI_LONG, size_ - 1, 1, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    return code;
}

/* Open MPI 4.1 creates no window of one rank, and MPICH returns NULL for the program's address. */
static void created(void) {
    long x = 0;
    void *given[] = {&x, malloc(64), NULL};
    for (int i = 0; i < 3; i++) {
        MPI_Win win;
        MPI_Win_create(given[i], 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        long bad = base_of(win) != given[i] && (by_transom() || base_of(win));
        /* Typical uses of the address. */
        if (i == 1 && base_of(win)) memset(base_of(win), 1, 64), free(base_of(win));
        bad |= works(win, 0) << 1;
        MPI_Win_free(&win);
        const char *names[] = {"created over no bytes of a variable", "created over no bytes of the heap", "created over NULL"};
        check(names[i], bad);
    }
}

/* Parts of 0 bytes at all ranks, or at all ranks except the last. */
static void allocated(int filled) {
    long *part = &(long){7};
    MPI_Win win;
    MPI_Aint bytes = filled && rank_ == size_ - 1 ? 64 : 0;
    MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    long bad = base_of(win) != part || (by_transom() && !bytes && part);
    bad |= works(win, filled) << 1;
    if (bytes) bad |= (part[1] != 100) << 2;
    check(filled ? "allocated, all but the last of no bytes" : "allocated, all of no bytes", bad);
    MPI_Win_free(&win);
}

static void shared(int filled, int apart) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (apart) MPI_Info_set(info, "alloc_shared_noncontig", "true");
    long *part, *found, *of_last = NULL;
    MPI_Win win;
    MPI_Aint bytes = filled && rank_ == size_ - 1 ? 64 : 0, size;
    MPI_Win_allocate_shared(bytes, 8, info, MPI_COMM_WORLD, &part, &win);
    MPI_Info_free(&info);
    long bad = base_of(win) != part;
    int unit;
    for (int rank = 0; rank < size_; rank++) {
        size = -1;
        MPI_Win_shared_query(win, rank, &size, &unit, &found);
        int full = filled && rank == size_ - 1;
        if (full) of_last = found;
        /* Some hosts share whole pages. */
        bad |= (full ? size < 64 : size != 0) << 1 | (unit != 8) << 2;
        if (!full && apart) bad |= (found != NULL) << 3;
        if (rank == rank_) bad |= (found != part) << 4;
    }
    size = -1, found = &(long){7};
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &found);
    bad |= (filled ? size < 64 || found != of_last : size != 0 || found) << 5;
    if (by_transom() && !filled) bad |= (part != NULL) << 6;
    bad |= works(win, filled) << 7;
    if (filled) bad |= (of_last[1] != 100) << 8;
    char name[80];
    snprintf(name, sizeof name, "shared, %s, %s of no bytes", apart ? "apart" : "contiguous", filled ? "all but the last" : "all");
    MPI_Win_fence(0, win);
    check(name, bad);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    created();
    for (int filled = 0; filled < 2; filled++) {
        allocated(filled);
        for (int apart = 0; apart < 2; apart++) shared(filled, apart);
    }
    return end();
}
