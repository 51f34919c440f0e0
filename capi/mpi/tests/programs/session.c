/* A window over a communicator of a session works until the session ends, also after
 * MPI_Finalize, which ends the World model alone (MPI-4.1 §11.2, §11.3). With the argument `alone`
 * the program has no World model, and the host serves its window. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "check.h"

/* A put and a get of each rank. Returns whether the get has the put's value. */
static int passes(MPI_Comm comm) {
    MPI_Win win;
    int *part, found = -1, bad, failed;
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, comm, &part, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank_, 1, MPI_INT, (rank_ + 1) % size_, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Get(&found, 1, MPI_INT, (rank_ + 1) % size_, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    bad = found != rank_;
    MPI_Allreduce(&bad, &failed, 1, MPI_INT, MPI_SUM, comm);
    return !failed;
}

static int alone(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "transom", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    int good = passes(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    if (rank_ == 0) printf("%sok a window of a session alone\n", good ? "" : "not ");
    return !good;
}

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Win win;
    int *part, found = -1;
    if (argc > 1) return alone();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "transom", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, comm, &part, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank_, 1, MPI_INT, (rank_ + 1) % size_, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Finalize();
    MPI_Win_lock(MPI_LOCK_SHARED, (rank_ + 1) % size_, 0, win);
    MPI_Get(&found, 1, MPI_INT, (rank_ + 1) % size_, 0, 1, MPI_INT, win);
    MPI_Win_unlock((rank_ + 1) % size_, win);
    int failed, bad = found != rank_;
    /* Calls that wait for others. */
    if (rank_ == 1) usleep(300 * 1000);
    MPI_Win_fence(0, win);
    if (rank_ == 0) usleep(300 * 1000);
    MPI_Win_free(&win);
    MPI_Allreduce(&bad, &failed, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    if (rank_ == 0) printf("%sok the value of the put\n", failed ? "not " : "");
    return failed != 0;
}
