/* Operations on MPI_PROC_NULL within every kind of epoch, including its lock; and the output
 * arguments of calls that fail. */
#include "check.h"

/* Debian's Open MPI 4.1 returns an error for a lock of MPI_PROC_NULL. */
static int locks_proc_null(void) {
#ifdef OPEN_MPI
    return by_transom();
#else
    return 1;
#endif
}

static long bad_wait(MPI_Request *request) {
    return MPI_Wait(request, MPI_STATUS_IGNORE) != MPI_SUCCESS || *request != MPI_REQUEST_NULL;
}

/* Every operation on MPI_PROC_NULL; returns a number for the one that failed. Result buffers stay
 * unchanged. */
static long operations(MPI_Win win, int requests) {
    const int n = MPI_PROC_NULL;
    long x = 5, y = 6, z = 7;
    if (MPI_Put(&x, 1, MPI_LONG, n, 0, 1, MPI_LONG, win)) return 1;
    if (MPI_Get(&y, 1, MPI_LONG, n, 0, 1, MPI_LONG, win)) return 2;
    if (MPI_Accumulate(&x, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win)) return 3;
    if (MPI_Get_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win)) return 4;
    if (MPI_Fetch_and_op(&x, &y, MPI_LONG, n, 0, MPI_SUM, win)) return 5;
    if (MPI_Compare_and_swap(&x, &z, &y, MPI_LONG, n, 0, win)) return 6;
    if (requests) {
        MPI_Request made[4];
        if (MPI_Rput(&x, 1, MPI_LONG, n, 0, 1, MPI_LONG, win, &made[0]) || bad_wait(&made[0])) return 7;
        if (MPI_Rget(&y, 1, MPI_LONG, n, 0, 1, MPI_LONG, win, &made[0]) || bad_wait(&made[0])) return 8;
        if (MPI_Raccumulate(&x, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win, &made[0]) || bad_wait(&made[0])) return 9;
        for (int i = 0; i < 4; i++)
            if (MPI_Rget_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win, &made[i])) return 10;
        if (MPI_Waitall(4, made, MPI_STATUSES_IGNORE)) return 11;
    }
    return y != 6 ? 12 : 0;
}

/* Buffers may be null: an operation on MPI_PROC_NULL has no effect (MPI-4.1 section 12.3). */
static long without_buffers(MPI_Win win) {
    const int n = MPI_PROC_NULL;
    long bad = MPI_Put(NULL, 1, MPI_LONG, n, 0, 1, MPI_LONG, win) | MPI_Get(NULL, 1, MPI_LONG, n, 0, 1, MPI_LONG, win);
    bad |= MPI_Accumulate(NULL, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win);
    bad |= MPI_Get_accumulate(NULL, 1, MPI_LONG, NULL, 1, MPI_LONG, n, 0, 1, MPI_LONG, MPI_SUM, win);
    bad |= MPI_Fetch_and_op(NULL, NULL, MPI_LONG, n, 0, MPI_SUM, win);
    bad |= MPI_Fetch_and_op(NULL, NULL, MPI_SHORT, n, 0, MPI_SUM, win);
    return bad | MPI_Compare_and_swap(NULL, NULL, NULL, MPI_LONG, n, 0, win);
}

static long flushes(MPI_Win win) {
    if (MPI_Win_flush(MPI_PROC_NULL, win)) return 20;
    return MPI_Win_flush_local(MPI_PROC_NULL, win) ? 21 : 0;
}

static void epochs(MPI_Win win) {
    int next = (rank_ + 1) % size_;
    long bad, mine = 40 + rank_, found = 0;
    if (locks_proc_null()) {
        for (int kind = 0; kind < 2; kind++) {
            bad = MPI_Win_lock(kind ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, kind ? MPI_MODE_NOCHECK : 0, win);
            if (!bad) bad = operations(win, 1);
            if (!bad) bad = flushes(win);
            if (!bad) bad = MPI_Win_unlock(MPI_PROC_NULL, win);
            check(kind ? "lock of PROC_NULL, shared and NOCHECK" : "lock of PROC_NULL, exclusive", bad);
        }
        /* Beside another target's lock, with either one ending first. */
        for (int first = 0; first < 2; first++) {
            bad = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first ? next : MPI_PROC_NULL, 0, win);
            bad |= MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first ? MPI_PROC_NULL : next, 0, win);
            if (!bad) bad = operations(win, 1);
            bad |= MPI_Put(&mine, 1, MPI_LONG, next, rank_, 1, MPI_LONG, win);
            bad |= MPI_Win_unlock(MPI_PROC_NULL, win);
            bad |= MPI_Get(&found, 1, MPI_LONG, next, rank_, 1, MPI_LONG, win);
            bad |= MPI_Win_unlock(next, win);
            check(first ? "lock of PROC_NULL within another" : "another lock within that of PROC_NULL", bad | (found != mine));
        }
        bad = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
        bad |= MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win);
        bad |= MPI_Win_unlock(next, win);
        if (!bad) bad = operations(win, 1);
        bad |= MPI_Win_unlock(MPI_PROC_NULL, win);
        check("the lock of PROC_NULL ends last", bad);
    }
    MPI_Win_lock_all(0, win);
    bad = operations(win, 1);
    if (!bad) bad = flushes(win);
    MPI_Win_unlock_all(win);
    check("PROC_NULL within lock_all", bad);
    MPI_Win_fence(0, win);
    bad = operations(win, 0);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    check("PROC_NULL between fences", bad);
    MPI_Group all, one;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank_, &one);
    MPI_Win_post(one, 0, win), MPI_Win_start(one, 0, win);
    bad = operations(win, 0);
    MPI_Win_complete(win), MPI_Win_wait(win);
    MPI_Group_free(&one), MPI_Group_free(&all);
    check("PROC_NULL between start and complete", bad);
    /* Hosts accept these calls though no epoch is open. */
    bad = operations(win, 1);
    if (!bad) bad = flushes(win);
    check("PROC_NULL without an epoch", bad);
    MPI_Win_lock_all(0, win), MPI_Win_unlock_all(win);
    check("the epochs of the window are in order", MPI_Win_fence(0, win) | MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

/* The request is valid for MPI_Wait, whatever its variable held before. */
static void answers(MPI_Win win) {
    long x = 1, y = 2, bad = 0;
    MPI_Request request;
    for (int form = 0; form < 4; form++) {
        memset(&request, 0x5a, sizeof request);
        int code = 0;
        if (form == 0) code = MPI_Rput(&x, 1, MPI_LONG, 0, 100000, 1, MPI_LONG, win, &request);
        if (form == 1) code = MPI_Rget(&y, 1, MPI_LONG, 0, -4, 1, MPI_LONG, win, &request);
        if (form == 2) code = MPI_Raccumulate(&x, -1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win, &request);
        if (form == 3) code = MPI_Rget_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, size_, 0, 1, MPI_LONG, MPI_SUM, win, &request);
        bad |= (!code | (request != MPI_REQUEST_NULL) | (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)) << form;
    }
    check("a failed request is MPI_REQUEST_NULL", bad);
    MPI_Win none;
    void *base = &x;
    memset(&none, 0x5a, sizeof none);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bad = !MPI_Win_create(&x, sizeof x, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &none) | (none != MPI_WIN_NULL) << 1;
    memset(&none, 0x5a, sizeof none);
    bad |= !MPI_Win_allocate(-8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &none) << 2 | (none != MPI_WIN_NULL) << 3;
    memset(&none, 0x5a, sizeof none);
    int made = MPI_Win_allocate_shared(8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &none) == MPI_SUCCESS;
    /* Without shared memory the host serves the window. Open MPI accepts the unit. */
    if (made && getenv("TRANSOM_TRANSPORTS")) made = MPI_Win_free(&none) != MPI_SUCCESS;
    bad |= made << 4 | (none != MPI_WIN_NULL) << 5;
    check("a window that was not made is MPI_WIN_NULL", bad);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    int flag = 77;
    bad = !MPI_Win_test(win, &flag) | (flag != 0) << 1;
    MPI_Aint size = -1;
    int unit = -1;
    base = &x;
    bad |= !MPI_Win_shared_query(win, size_ + 3, &size, &unit, &base) << 2 | (base == (void *)&x) << 3;
    check("a failed test says no, a failed query nothing", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part;
    MPI_Win_allocate(8 * size_, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    epochs(win);
    /* Hosts check fewer arguments. */
    if (by_transom()) {
        MPI_Win_lock_all(0, win);
        check("PROC_NULL without buffers", without_buffers(win));
        answers(win);
        MPI_Win_unlock_all(win);
    }
    MPI_Win_free(&win);
    return end();
}
