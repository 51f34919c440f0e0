/* A call that waits in a window also makes progress for the host's messages: a rank in a
 * synchronization call has posted an Irecv, and the other ranks enter only when their sends to it
 * are complete (MPI-4.1 section 12.7.3). So do calls that return at once, by which a rank polls. */
#include "check.h"

enum { LONG = 1 << 20, LONGEST = 1 << 24 };

enum { FLUSH, FLUSH_ALL, FLUSH_LOCAL, UNLOCK, REQUEST, SYNC, FENCE, PSCW, POLLS };

/* A window of this rank alone, whose fences and epochs return at once. */
static MPI_Win alone;
static MPI_Group self;

/* One poll of the flag in a rank's part: its value. */
static int polled(int kind, MPI_Win win, int target, volatile int *part) {
    int found = 0;
    MPI_Request q;
    switch (kind) {
        case FLUSH:
            MPI_Fetch_and_op(NULL, &found, MPI_INT, target, 0, MPI_NO_OP, win), MPI_Win_flush(target, win);
            break;
        case FLUSH_ALL: MPI_Get(&found, 1, MPI_INT, target, 0, 1, MPI_INT, win), MPI_Win_flush_all(win); break;
        case FLUSH_LOCAL: MPI_Get(&found, 1, MPI_INT, target, 0, 1, MPI_INT, win), MPI_Win_flush_local(target, win); break;
        case UNLOCK:
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            MPI_Get(&found, 1, MPI_INT, target, 0, 1, MPI_INT, win);
            MPI_Win_unlock(target, win);
            break;
        case REQUEST: MPI_Rget(&found, 1, MPI_INT, target, 0, 1, MPI_INT, win, &q), MPI_Wait(&q, MPI_STATUS_IGNORE); break;
        case FENCE: MPI_Win_fence(0, alone), found = *part; break;
        case PSCW:
            MPI_Win_post(self, 0, alone), MPI_Win_start(self, 0, alone);
            MPI_Win_complete(alone), MPI_Win_wait(alone);
            found = *part;
            break;
        default: MPI_Win_sync(win), found = *part;
    }
    return found;
}

/* Rank 0 has posted an Irecv and polls for a flag that rank 1 sets after its send. The flag is in
 * the part of `target`. */
static void polls(int target) {
    static char name[64];
    char *message = malloc(LONGEST);
    MPI_Win win;
    int *part, *own, yes = 1;
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_SELF, &own, &alone);
    MPI_Comm_group(MPI_COMM_SELF, &self);
    for (int kind = 0; kind < (target ? SYNC : POLLS); kind++) {
        MPI_Request q;
        *part = 0;
        memset(message, rank_ == 1 ? kind + 1 : 0, LONGEST);
        if (kind != UNLOCK) MPI_Win_lock_all(0, win), MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 0) {
            MPI_Irecv(message, LONGEST, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &q);
            while (!polled(kind, win, target, part)) continue;
            MPI_Wait(&q, MPI_STATUS_IGNORE);
        }
        if (rank_ == 1) {
            MPI_Send(message, LONGEST, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
            if (kind == UNLOCK) MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            MPI_Accumulate(&yes, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_REPLACE, win);
            if (kind == UNLOCK) MPI_Win_unlock(target, win);
        }
        if (kind == FENCE) MPI_Win_fence(MPI_MODE_NOSUCCEED, alone);
        if (kind != UNLOCK) MPI_Win_unlock_all(win);
        snprintf(name, sizeof name, "poll %d of rank %d", kind, target);
        check(name, rank_ == 0 && (message[0] != kind + 1 || message[LONGEST - 1] != kind + 1));
    }
    MPI_Group_free(&self);
    MPI_Win_free(&alone);
    MPI_Win_free(&win);
    free(message);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char out[LONG], in[LONG];
    static const char *names[] = {"fence", "lock", "wait", "free", "unlock_all and fence"};
    int to = 0;
    for (int way = 0; way < 4; way++) {
        MPI_Win win;
        MPI_Request q = MPI_REQUEST_NULL;
        MPI_Group world, one;
        long *part, x = 5;
        MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        memset(in, 0, LONG), memset(out, 7, LONG);
        int origin = 1;
        if (way == 1 && rank_ == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 0) {
            MPI_Irecv(in, LONG, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &q);
            MPI_Barrier(MPI_COMM_WORLD);
            if (way == 0) MPI_Win_fence(0, win);
            if (way == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win), MPI_Win_unlock(1, win);
            if (way == 2) MPI_Group_incl(world, 1, &origin, &one), MPI_Win_post(one, 0, win), MPI_Win_wait(win), MPI_Group_free(&one);
            if (way == 3) MPI_Win_free(&win);
            MPI_Wait(&q, MPI_STATUS_IGNORE);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank_ == 1) MPI_Ssend(out, LONG, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
            if (way == 0) MPI_Win_fence(0, win);
            if (way == 1 && rank_ == 1) MPI_Win_unlock(1, win);
            if (way == 2 && rank_ == 1) {
                MPI_Group_incl(world, 1, &to, &one);
                MPI_Win_start(one, 0, win);
                MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
                MPI_Win_complete(win);
                MPI_Group_free(&one);
            }
            if (way == 3) MPI_Win_free(&win);
        }
        check(names[way], rank_ == 0 && memcmp(in, out, LONG));
        MPI_Group_free(&world);
        if (way == 0) MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        if (way < 3) MPI_Win_free(&win);
    }
    /* Hosts make no progress in some of these calls. */
    if (by_transom()) polls(0), polls(1);
    return end();
}
