/* The error handlers in calls that complete requests: how often they are called, for requests of
 * the MPI and for operations on windows. Runs with ranks that a net connects too. */
#include "check.h"

#include <setjmp.h>
#include <unistd.h>

enum { REQUESTS = 5 };

static int calls_, class_, leaves_;
static jmp_buf place_;

static void of_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    calls_++, class_ = class_of(*code);
    if (leaves_) longjmp(place_, 1);
}

static void of_win(MPI_Win *win, int *code, ...) {
    (void)win;
    calls_++, class_ = class_of(*code);
}

/* The functions of generalized requests: those with a state fail. */
static int query(void *state, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, 0), MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 11, status->MPI_TAG = 22;
    return state ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int released(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int cancelled(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* Requests of which some fail in every order: generalized requests, and receives of messages that
 * are too long. `fails`: the error class of each. */
static void begin_all(MPI_Request *requests, int *got, int *fails) {
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_, sent[2] = {rank_, rank_};
    for (int i = 0; i < 3; i++) {
        fails[i] = i == 1 ? MPI_SUCCESS : MPI_ERR_OTHER;
        MPI_Grequest_start(query, released, cancelled, fails[i] ? requests : NULL, &requests[i]);
        MPI_Grequest_complete(requests[i]);
    }
    /* MPICH 5 does not report messages that are too long. */
    int length = 2;
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION >= 50000000
    length = 1;
#endif
    fails[3] = length == 2 ? MPI_ERR_TRUNCATE : MPI_SUCCESS, fails[4] = MPI_SUCCESS;
    MPI_Irecv(got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Irecv(got + 1, 1, MPI_INT, before, 2, MPI_COMM_WORLD, &requests[4]);
    MPI_Send(sent, length, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Send(sent, 1, MPI_INT, next, 2, MPI_COMM_WORLD);
}

/* The requests that the failed wait has left: 0 if they end as they must. */
static long rest(MPI_Request *requests, const int *fails) {
    long bad = 0;
    for (int i = 0; i < REQUESTS; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            bad |= (class_of(MPI_Wait(&requests[i], MPI_STATUS_IGNORE)) != fails[i]) << i;
    return bad;
}

/* One call of MPI_COMM_WORLD's handler, whose class is that of MPI_Waitall under MPICH, and that of
 * the request under Open MPI. */
static int is_called_once(void) {
#ifdef OPEN_MPI
    return calls_ == 1 && (class_ == MPI_ERR_OTHER || class_ == MPI_ERR_TRUNCATE);
#else
    return calls_ == 1 && class_ == MPI_ERR_IN_STATUS;
#endif
}

static void waits_for_all(int ignores) {
    MPI_Request requests[REQUESTS];
    MPI_Status statuses[REQUESTS];
    int got[2] = {-1, -1}, fails[REQUESTS], failed = 0;
    long bad = 0;
    begin_all(requests, got, fails);
    calls_ = class_ = 0;
    int class = class_of(MPI_Waitall(REQUESTS, requests, ignores ? MPI_STATUSES_IGNORE : statuses));
    check("a wait for all with failures: the code", class != MPI_ERR_IN_STATUS);
    check("a wait for all with failures: the handler", is_called_once() ? 0 : 100 * calls_ + class_);
    for (int i = 0; !ignores && i < REQUESTS; i++) {
        class = class_of(statuses[i].MPI_ERROR);
        bad |= (class != fails[i] && class != MPI_ERR_PENDING) << i;
        bad |= (class == MPI_ERR_PENDING && requests[i] == MPI_REQUEST_NULL) << i;
        failed += class != MPI_SUCCESS && class != MPI_ERR_PENDING;
    }
    check("a wait for all with failures: the statuses", bad | (!ignores && failed == 0) << REQUESTS);
    check("a wait for all with failures: the rest", rest(requests, fails));
}

/* A handler that does not return leaves the requests in a state that can be waited for. */
static void left_by_jump(void) {
    static MPI_Request requests[REQUESTS];
    static int got[2], fails[REQUESTS];
    static volatile int returned;
    begin_all(requests, got, fails);
    calls_ = class_ = 0, leaves_ = 1, returned = 0;
    if (!setjmp(place_)) {
        MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
        returned = 1;
    }
    leaves_ = 0;
    check("a handler that leaves a wait for all", returned || !is_called_once());
    check("a handler that leaves a wait for all: the rest", rest(requests, fails));
}

/* MPI_Request_get_status completes no request, so the call that does reports the failure. */
static void queried(void) {
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Request request;
    int into, flag, next = (rank_ + 1) % size_;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_errhandler(of_win, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_lock_all(0, win);
    for (int flushes = 0; flushes < 2; flushes++) {
        long bad = 0;
        calls_ = flag = 0;
        /* Outside of attached memory: fails here within a node, and later over a net. */
        int later = MPI_Rget(&into, 1, MPI_INT, next, 4096, 1, MPI_INT, win, &request) == MPI_SUCCESS;
        while (later && !flag) bad |= MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        bad |= (later && (calls_ || request == MPI_REQUEST_NULL)) << 1;
        if (flushes) bad |= (class_of(MPI_Win_flush(next, win)) != (later ? MPI_ERR_RMA_RANGE : MPI_SUCCESS)) << 2;
        int code = later ? MPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_SUCCESS;
        bad |= (class_of(code) != (later && !flushes ? MPI_ERR_RMA_RANGE : MPI_SUCCESS)) << 3;
        bad |= (calls_ != 1 || class_ != MPI_ERR_RMA_RANGE) << 4;
        check("the status of a failed operation, then a wait", bad);
    }
    MPI_Win_unlock_all(win);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    MPI_Errhandler handler;
    begin(&argc, &argv);
    MPI_Win_allocate(sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Comm_create_errhandler(of_comm, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int ignores = 0; ignores < 2; ignores++) waits_for_all(ignores);
    left_by_jump();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    if (by_transom()) queried();
    MPI_Win_free(&win);
    return end();
}
