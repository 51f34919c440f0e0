/* Windows of every kind, and every synchronization, with puts and gets around a ring. */
#include "check.h"

enum { N = 64 };

/* Every rank puts N numbers into the next rank's part, which was zero. */
static void put_next(MPI_Win win, const long *mine, MPI_Aint at) {
    MPI_Put(mine, N, MPI_LONG, (rank_ + 1) % size_, at, N, MPI_LONG, win);
}

static long wrong(const long *part, int from) {
    for (int i = 0; i < N; i++)
        if (part[i] != from * 1000L + i) return i + 1;
    return 0;
}

static void neighbours(MPI_Group *next, MPI_Group *last) {
    MPI_Group world;
    int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &to, next);
    MPI_Group_incl(world, 1, &from, last);
    MPI_Group_free(&world);
}

static void post_and_start(MPI_Win win, const long *mine, MPI_Aint at, int by_test) {
    MPI_Group next, last;
    neighbours(&next, &last);
    MPI_Win_post(last, 0, win);
    MPI_Win_start(next, 0, win);
    put_next(win, mine, at);
    MPI_Win_complete(win);
    if (by_test) {
        int flag = 0;
        while (!flag) MPI_Win_test(win, &flag);
    } else {
        MPI_Win_wait(win);
    }
    MPI_Group_free(&next);
    MPI_Group_free(&last);
}

static void locked(MPI_Win win, const long *mine, MPI_Aint at, int type) {
    int next = (rank_ + 1) % size_;
    MPI_Win_lock(type, next, 0, win);
    put_next(win, mine, at);
    MPI_Win_unlock(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_locked(MPI_Win win, const long *mine, MPI_Aint at, int how) {
    int next = (rank_ + 1) % size_;
    MPI_Win_lock_all(how == 3 ? MPI_MODE_NOCHECK : 0, win);
    put_next(win, mine, at);
    if (how == 0) MPI_Win_flush(next, win);
    if (how == 1) MPI_Win_flush_all(win);
    if (how == 2) MPI_Win_flush_local(next, win), MPI_Win_flush_local_all(win);
    long back[N] = {0};
    if (how != 2) {
        MPI_Get(back, N, MPI_LONG, next, at, N, MPI_LONG, win);
        MPI_Win_flush(next, win);
        if (how < 2 && wrong(back, rank_)) check("a put is there after its flush", 1);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    MPI_Win_sync(win);
    MPI_Win_unlock(rank_, win);
}

/* Every synchronization on one window; `at`: the displacement of the next rank's part. */
static void all_ways(const char *kind, MPI_Win win, long *part, MPI_Aint at) {
    static const char *names[] = {"fence", "fence with assertions", "post, start, complete, wait",
                                  "post, start, complete, test", "lock shared", "lock exclusive", "lock_all, flush",
                                  "lock_all, flush_all", "lock_all, local flushes", "lock_all without check"};
    long mine[N];
    char name[96];
    for (int i = 0; i < N; i++) mine[i] = rank_ * 1000L + i;
    for (int way = 0; way < 10; way++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
        memset(part, 0, N * sizeof *part);
        MPI_Win_unlock(rank_, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (way == 0) {
            MPI_Win_fence(0, win);
            put_next(win, mine, at);
            MPI_Win_fence(0, win);
        } else if (way == 1) {
            MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
            put_next(win, mine, at);
            MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, win);
        } else if (way < 4) {
            post_and_start(win, mine, at, way == 3);
        } else if (way < 6) {
            locked(win, mine, at, way == 4 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE);
        } else {
            all_locked(win, mine, at, way - 6);
        }
        long bad = wrong(part, (rank_ + size_ - 1) % size_);
        MPI_Barrier(MPI_COMM_WORLD);
        snprintf(name, sizeof name, "%s: %s", kind, names[way]);
        check(name, bad);
    }
}

static void dynamic(void) {
    MPI_Win win;
    long *part = calloc(2 * N, sizeof *part);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, part, 2 * N * sizeof *part);
    MPI_Aint mine, next;
    MPI_Get_address(part, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, (rank_ + size_ - 1) % size_, 0, &next, 1, MPI_AINT, (rank_ + 1) % size_, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    all_ways("dynamic", win, part, next);
    MPI_Win_detach(win, part);
    MPI_Win_free(&win);
    free(part);
}

static void shared(void) {
    MPI_Win win;
    long *part;
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(N * sizeof *part, sizeof *part, MPI_INFO_NULL, node, &part, &win);
    all_ways("shared", win, part, 0);
    MPI_Aint bytes;
    int unit;
    long *theirs, *first;
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++) part[i] = rank_ * 1000L + i;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, (rank_ + 1) % size_, &bytes, &unit, &theirs);
    check("shared: the next one's part is seen",
          bytes != N * (MPI_Aint)sizeof *part || unit != sizeof *part || wrong(theirs, (rank_ + 1) % size_));
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first);
    check("shared: PROC_NULL finds the first part", wrong(first, 0));
    check("shared: parts follow each other", first + rank_ * N != part);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part;
    MPI_Win_allocate(N * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    all_ways("allocate", win, part, 0);
    MPI_Win_free(&win);
    check("free: the handle is null", win != MPI_WIN_NULL);
    part = calloc(N, sizeof *part);
    MPI_Win_create(part, N * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    all_ways("create", win, part, 0);
    MPI_Win_free(&win);
    free(part);
    dynamic();
    shared();
    return end();
}
