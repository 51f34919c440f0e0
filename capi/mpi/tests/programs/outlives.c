/* A window over a communicator of a session, used after MPI_Finalize, while another rank waits: in
 * the MPI, or in a call on the window. Each wait must make progress for both libraries (MPI-4.1
 * §11.4.1, §12.7.3). */
#include "check.h"

enum { LARGE = 4 << 20 };

static MPI_Comm comm_;
static MPI_Win win_;

/* After MPI_Finalize, `check` has no communicator. */
static void report(const char *name, int bad) {
    int worst;
    MPI_Allreduce(&bad, &worst, 1, MPI_INT, MPI_MAX, comm_);
    if (rank_ == 0) printf("%sok %s: %d\n", worst ? "not " : "", name, worst);
    fflush(stdout);
    failed_ |= worst;
}

/* The highest rank waits in the MPI. The accumulate of rank 0 needs its CPU. */
static void target_waits_in_the_mpi(void) {
    int last = size_ - 1, token = 0;
    long one = 1, found = -1;
    if (rank_ == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win_);
        for (int i = 0; i < 20; i++) {
            MPI_Accumulate(&one, 1, MPI_LONG, last, 0, 1, MPI_LONG, MPI_SUM, win_);
            MPI_Win_flush(last, win_);
        }
        MPI_Fetch_and_op(&one, &found, MPI_LONG, last, 0, MPI_NO_OP, win_);
        MPI_Win_unlock(last, win_);
        MPI_Send(&token, 1, MPI_INT, last, 0, comm_);
    }
    if (rank_ == last) MPI_Recv(&token, 1, MPI_INT, 0, 0, comm_, MPI_STATUS_IGNORE);
    report("a target that waits in the MPI serves its origin", rank_ == 0 && found != 20);
}

/* The highest rank waits for the lock that rank 0 holds, while rank 0 waits until the highest rank
 * has received a long message. */
static void origin_waits_for_a_lock(void) {
    int last = size_ - 1, token = 0, bad = 0;
    char *bytes = calloc(LARGE, 1);
    if (rank_ == 0) {
        memset(bytes, 7, LARGE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win_);
        MPI_Win_flush(0, win_);
        MPI_Send(&token, 1, MPI_INT, last, 1, comm_);
        MPI_Recv(&token, 1, MPI_INT, last, 2, comm_, MPI_STATUS_IGNORE);
        MPI_Send(bytes, LARGE, MPI_CHAR, last, 3, comm_);
        MPI_Win_unlock(0, win_);
    }
    if (rank_ == last) {
        MPI_Request request;
        MPI_Recv(&token, 1, MPI_INT, 0, 1, comm_, MPI_STATUS_IGNORE);
        MPI_Irecv(bytes, LARGE, MPI_CHAR, 0, 3, comm_, &request);
        MPI_Send(&token, 1, MPI_INT, 0, 2, comm_);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win_);
        MPI_Win_flush(0, win_);
        MPI_Win_unlock(0, win_);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        bad = bytes[0] != 7 || bytes[LARGE - 1] != 7;
    }
    free(bytes);
    report("an origin that waits for a lock receives a message", bad);
}

/* The data of types and communicators that the library kept until MPI_Finalize is not needed. */
static void operations(void) {
    int next = (rank_ + 1) % size_;
    long value = 10 + rank_, pair[2] = {1, 2}, found = 0;
    MPI_Request request;
    MPI_Datatype every_other;
    MPI_Group group;
    int count = 0, bad = 0;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_lock_all(0, win_);
    bad |= MPI_Rput(&value, 1, MPI_LONG, next, 4, 1, MPI_LONG, win_, &request) != MPI_SUCCESS;
    bad |= (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) << 1;
    MPI_Put(pair, 2, MPI_LONG, next, 1, 1, every_other, win_);
    MPI_Win_flush(next, win_);
    bad |= MPI_Rget(&found, 1, MPI_LONG, next, 3, 1, MPI_LONG, win_, &request) != MPI_SUCCESS;
    bad |= (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS || found != 2) << 2;
    MPI_Win_unlock_all(win_);
    MPI_Type_free(&every_other);
    MPI_Win_get_group(win_, &group);
    MPI_Group_size(group, &count);
    MPI_Group_free(&group);
    report("operations with requests and datatypes", bad | (count != size_) << 3);
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    long *part;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "transom", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm_);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Win_allocate(8 * sizeof *part, sizeof *part, MPI_INFO_NULL, comm_, &part, &win_);
    memset(part, 0, 8 * sizeof *part);
    MPI_Barrier(comm_);
    MPI_Finalize();
    target_waits_in_the_mpi();
    origin_waits_for_a_lock();
    operations();
    MPI_Win_free(&win_);
    MPI_Comm_free(&comm_);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return failed_;
}
