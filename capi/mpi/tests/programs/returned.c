/* Blocking calls that fail call the error handler of their communicator, and return the error
 * (MPI-4.1 §9.3), also where the library waits for them by other calls of the MPI. The handler of
 * MPI_COMM_WORLD would end the program. Runs with ranks that a net connects too. */
#include "check.h"

#include <unistd.h>

enum { FEW = 2, PAUSE = 20000 };

/* The first two ranks. A call that fails at one rank of more may leave the others waiting. */
static MPI_Comm comm_;
static int sent_[2 * FEW], got_[2 * FEW], calls_, class_, is_of_comm_;

static void called(MPI_Comm *comm, int *code, ...) {
    calls_++, class_ = class_of(*code), is_of_comm_ = *comm == comm_;
}

/* Whether a call has reported a message that is too long. MPICH 5 returns success after a handler
 * of the program. */
static long is_reported(int code, int has_handler) {
    int returns = !has_handler;
#if defined OPEN_MPI || (defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000)
    returns = 1;
#endif
    if (returns && class_of(code) == MPI_SUCCESS) return 1;
    if (!has_handler) return 0;
    return calls_ == 1 && class_ != MPI_SUCCESS && is_of_comm_ ? 0 : 2 + 10 * calls_ + 1000 * class_;
}

/* Rank 1 has room for the half of what rank 0 sends. */
static void fails(int has_handler) {
    const int is_member = rank_ < 2, other = 1 - rank_, count = rank_ ? FEW : 2 * FEW;
    int code = MPI_SUCCESS;

    calls_ = 0;
    if (is_member) code = MPI_Bcast(got_, count, MPI_INT, 0, comm_);
    check("a broadcast to too little room", rank_ == 1 ? is_reported(code, has_handler) : code);

    calls_ = 0;
    if (is_member) code = MPI_Sendrecv(sent_, count, MPI_INT, other, 1, got_, FEW, MPI_INT, other, 1, comm_, MPI_STATUS_IGNORE);
    check("an exchange with too little room", rank_ == 1 ? is_reported(code, has_handler) : code);

    calls_ = 0;
    if (rank_ == 0) code = MPI_Send(sent_, count, MPI_INT, 1, 2, comm_);
    if (rank_ == 1) usleep(PAUSE), code = MPI_Recv(got_, count, MPI_INT, 0, 2, comm_, MPI_STATUS_IGNORE);
    check("a message to too little room", rank_ == 1 ? is_reported(code, has_handler) : code);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    MPI_Errhandler handler;
    begin(&argc, &argv);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < 2, rank_, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    fails(0);
    MPI_Comm_create_errhandler(called, &handler);
    MPI_Comm_set_errhandler(comm_, handler);
    fails(1);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm_);
    MPI_Win_free(&win);
    return end();
}
