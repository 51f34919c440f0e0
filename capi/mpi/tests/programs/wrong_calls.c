/* Wrong calls that wait, under an error handler that returns. The handler is called once, and the
 * call returns: with MPI_SUCCESS under MPICH 5. A watchdog ends a call that does not return. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 60, MOST = 100 };
static const char *volatile case_ = "the start";
static int calls_, class_;

static void hangs(int signal) {
    static const char said[] = "not ok a call hangs: ";
    (void)signal;
    if (write(1, said, sizeof said - 1) < 0 || write(1, case_, strlen(case_)) < 0 || write(1, "\n", 1) < 0) _exit(2);
    _exit(1);
}

static void of_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    if (++calls_ > MOST) hangs(0);
    class_ = class_of(*code);
}

static void expect(const char *name, int class) {
    check(name, calls_ == 1 && class_ == class ? 0 : 1000 * calls_ + class_ + 1);
}

#define WRONG(call, class)                                                                                                  \
    do {                                                                                                                    \
        case_ = #call;                                                                                                      \
        calls_ = class_ = 0;                                                                                                \
        alarm(LIMIT);                                                                                                       \
        (void)call;                                                                                                         \
        alarm(0);                                                                                                           \
        expect(#call, class);                                                                                               \
    } while (0)

/* Arguments that the host checks before it waits. */
static void messages(MPI_Comm comm) {
    int in = 0, out = 0, beyond = size_ + 7;
    MPI_Status status;
    MPI_Message message;
    WRONG(MPI_Recv(&in, 1, MPI_INT, beyond, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Recv(&in, -1, MPI_INT, 0, 1, comm, &status), MPI_ERR_COUNT);
    WRONG(MPI_Ssend(&out, 1, MPI_INT, beyond, 1, comm), MPI_ERR_RANK);
    WRONG(MPI_Probe(beyond, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Probe(0, -77, comm, &status), MPI_ERR_TAG);
    WRONG(MPI_Mprobe(beyond, 1, comm, &message, &status), MPI_ERR_RANK);
    WRONG(MPI_Mprobe(0, -77, comm, &message, &status), MPI_ERR_TAG);
    WRONG(MPI_Sendrecv(&out, 1, MPI_INT, beyond, 1, &in, 1, MPI_INT, rank_, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Sendrecv(&out, -1, MPI_INT, rank_, 1, &in, 1, MPI_INT, rank_, 1, comm, &status), MPI_ERR_COUNT);
    WRONG(MPI_Sendrecv(&out, 1, MPI_INT, rank_, 1, &in, 1, MPI_INT, beyond, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Sendrecv(&out, 1, MPI_INT, rank_, 1, &in, -1, MPI_INT, rank_, 1, comm, &status), MPI_ERR_COUNT);
    WRONG(MPI_Sendrecv_replace(&in, 1, MPI_INT, beyond, 1, rank_, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Sendrecv_replace(&in, -1, MPI_INT, rank_, 1, rank_, 1, comm, &status), MPI_ERR_COUNT);
    WRONG(MPI_Sendrecv_replace(&in, 1, MPI_INT, rank_, 1, beyond, 1, comm, &status), MPI_ERR_RANK);
    WRONG(MPI_Bcast(&in, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE);
}

#ifndef OPEN_MPI
/* These go to the handler of MPI_COMM_WORLD or MPI_COMM_SELF. */
static void without_communicator(void) {
    int in = 0, index;
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    MPI_Message message;
    WRONG(MPI_Probe(0, 1, MPI_COMM_NULL, &status), MPI_ERR_COMM);
    WRONG(MPI_Mprobe(0, 1, MPI_COMM_NULL, &message, &status), MPI_ERR_COMM);
    WRONG(MPI_Recv(&in, 1, MPI_INT, 0, 1, MPI_COMM_NULL, &status), MPI_ERR_COMM);
    WRONG(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    WRONG(MPI_Bcast(&in, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    /* No request has this handle. Other handles than numbers may be addresses. */
    if (sizeof *requests != sizeof(int)) return;
    memset(requests, 0x33, sizeof requests);
    WRONG(MPI_Wait(requests, &status), MPI_ERR_REQUEST);
    WRONG(MPI_Waitall(2, requests, statuses), MPI_ERR_REQUEST);
    WRONG(MPI_Waitany(2, requests, &index, &status), MPI_ERR_REQUEST);
    WRONG(MPI_Waitany(-1, requests, &index, &status), MPI_ERR_COUNT);
    WRONG(MPI_Waitall(-1, requests, statuses), MPI_ERR_COUNT);
}
#endif

/* What is valid still works: a message that the wrong calls have not sent does not arrive. */
static void rest(MPI_Comm comm) {
    int in = -1, out = rank_, flag = 1;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
    check("the wrong calls have sent nothing", flag);
    MPI_Sendrecv(&out, 1, MPI_INT, MPI_PROC_NULL, 1, &in, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status);
    check("an exchange with MPI_PROC_NULL", in != -1 || status.MPI_SOURCE != MPI_PROC_NULL);
    in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, rank_, 1, &in, 1, MPI_INT, rank_, 1, comm, &status);
    check("an exchange with itself", in != rank_);
    if (rank_ == 0) out = 11, MPI_Sendrecv(&out, 1, MPI_INT, MPI_PROC_NULL, 1, &in, 1, MPI_INT, 1 % size_, 2, comm, &status);
    if (rank_ == 1 % size_) MPI_Sendrecv(&out, 1, MPI_INT, 0, 2, &in, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status);
    check("an exchange of one direction", rank_ == 0 && in != 1 % size_);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    MPI_Comm comm;
    MPI_Errhandler handler;
    signal(SIGALRM, hangs);
    begin(&argc, &argv);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(of_comm, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    messages(comm);
#ifndef OPEN_MPI
    /* Open MPI 4.1 ends the program at MPI_COMM_NULL. */
    without_communicator();
#endif
    calls_ = 0;
    rest(comm);
    check("valid calls: no call of the handler", calls_);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    MPI_Win_free(&win);
    return end();
}
