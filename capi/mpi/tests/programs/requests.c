/* Requests of request-based operations together with the host's requests, in every function that
 * waits or tests. */
#include "check.h"

static MPI_Win win;
static long *part;
enum { N = 32 };

/* Requests of both kinds: a message around the ring, and each request-based operation. Returns the
 * number of requests. */
static int mixed(MPI_Request *requests, long *to, long *from, long *got, long *one) {
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_, n = 0;
    *to = rank_;
    MPI_Irecv(from, 1, MPI_LONG, last, 5, MPI_COMM_WORLD, &requests[n++]);
    MPI_Rput(to, 1, MPI_LONG, next, 1 + rank_, 1, MPI_LONG, win, &requests[n++]);
    MPI_Rget(got, 1, MPI_LONG, next, 0, 1, MPI_LONG, win, &requests[n++]);
    MPI_Isend(to, 1, MPI_LONG, next, 5, MPI_COMM_WORLD, &requests[n++]);
    MPI_Raccumulate(one, 1, MPI_LONG, next, 20, 1, MPI_LONG, MPI_SUM, win, &requests[n++]);
    MPI_Rget_accumulate(one, 1, MPI_LONG, &got[1], 1, MPI_LONG, next, 21, 1, MPI_LONG, MPI_SUM, win, &requests[n++]);
    return n;
}

static int wait_for(int way, int n, MPI_Request *q) {
    MPI_Status statuses[16];
    int indices[16], done = 0, index, flag = 0, left = n;
    switch (way) {
    case 0: return MPI_Waitall(n, q, statuses);
    case 1: for (; left; left--) MPI_Waitany(n, q, &index, &statuses[0]); return 0;
    case 2: while (left) MPI_Waitsome(n, q, &done, indices, statuses), left -= done; return 0;
    case 3: while (!flag) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE); return 0;
    case 4: while (left) { MPI_Testany(n, q, &index, &flag, MPI_STATUS_IGNORE); if (flag) left--; } return 0;
    case 5: while (left) MPI_Testsome(n, q, &done, indices, MPI_STATUSES_IGNORE), left -= done; return 0;
    case 6: for (int i = n - 1; i >= 0; i--) MPI_Wait(&q[i], &statuses[i]); return 0;
    case 7: for (int i = 0; i < n; i++) for (flag = 0; !flag;) MPI_Test(&q[i], &flag, &statuses[i]); return 0;
#if MPI_VERSION > 4 || MPI_VERSION == 4 && MPI_SUBVERSION >= 1
    case 8:
        for (flag = 0; !flag;) MPI_Request_get_status_all(n, q, &flag, MPI_STATUSES_IGNORE);
        return MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
#endif
    default:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;) MPI_Request_get_status(q[i], &flag, &statuses[i]);
            MPI_Wait(&q[i], MPI_STATUS_IGNORE);
        }
        return 0;
    }
}

/* Requests in epochs of active-target synchronization, where MPI forbids them (MPI-4.1, 12.3.5) and
 * MPIs and their test programs have them. */
static void in_active_epochs(void) {
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    MPI_Group all, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &to), MPI_Group_incl(all, 1, &last, &from);
    for (int way = 0; way < 2; way++) {
        MPI_Request q[16];
        long one = 1, put = rank_, got[2] = {-1, -1}, bad = 0;
        MPI_Win_fence(0, win);
        memset(part, 0, 64 * sizeof *part);
        part[0] = 100 + rank_, part[21] = 7;
        MPI_Barrier(MPI_COMM_WORLD);
        if (way == 0) MPI_Win_fence(0, win);
        else MPI_Win_fence(MPI_MODE_NOSUCCEED, win), MPI_Win_post(from, 0, win), MPI_Win_start(to, 0, win);
        MPI_Rput(&put, 1, MPI_LONG, next, 1, 1, MPI_LONG, win, &q[0]);
        MPI_Rget(got, 1, MPI_LONG, next, 0, 1, MPI_LONG, win, &q[1]);
        MPI_Raccumulate(&one, 1, MPI_LONG, next, 20, 1, MPI_LONG, MPI_SUM, win, &q[2]);
        MPI_Rget_accumulate(&one, 1, MPI_LONG, &got[1], 1, MPI_LONG, next, 21, 1, MPI_LONG, MPI_SUM, win, &q[3]);
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
        bad |= (got[0] != 100 + next) | (got[1] != 7) << 1;
        if (way == 0) MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        else MPI_Win_complete(win), MPI_Win_wait(win);
        bad |= (part[1] != last) << 2 | (part[20] != 1) << 3 | (part[21] != 8) << 4;
        check(way == 0 ? "requests between fences" : "requests between start and complete", bad);
    }
    MPI_Group_free(&to), MPI_Group_free(&from), MPI_Group_free(&all);
}

int main(int argc, char **argv) {
    static const char *names[] = {"Waitall", "Waitany", "Waitsome", "Testall", "Testany", "Testsome", "Wait", "Test",
                                  "Request_get_status_all", "Request_get_status"};
    begin(&argc, &argv);
    MPI_Win_allocate(64 * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    for (int way = 0; way < 10; way++) {
        MPI_Request q[16];
        long to, from = -1, got[2] = {-1, -1}, one = 1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
        memset(part, 0, 64 * sizeof *part);
        part[0] = 100 + rank_, part[21] = 7;
        MPI_Win_unlock(rank_, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        int n = mixed(q, &to, &from, got, &one);
        long bad = wait_for(way, n, q) != 0;
        for (int i = 0; i < n; i++) bad |= (q[i] != MPI_REQUEST_NULL) << 1;
        bad |= (from != last) << 2 | (got[0] != 100 + next) << 3 | (got[1] != 7) << 4;
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
        bad |= (part[1 + last] != last) << 5 | (part[20] != 1) << 6 | (part[21] != 8) << 7;
        MPI_Win_unlock(rank_, win);
        check(names[way], bad);
    }
    in_active_epochs();
    MPI_Barrier(MPI_COMM_WORLD);
    /* Many at once, some without a wait. */
    MPI_Win_lock_all(0, win);
    MPI_Request q[300];
    long values[300], bad = 0;
    for (int i = 0; i < 300; i++) {
        values[i] = i;
        MPI_Rput(&values[i], 1, MPI_LONG, next, 40, 1, MPI_LONG, win, &q[i]);
        if (i % 3 == 0) MPI_Request_free(&q[i]);
    }
    MPI_Waitall(300, q, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    check("300 at once, a third of them freed", bad);
    MPI_Win_free(&win);
    return end();
}
