/* Calls that complete requests, and first uses of datatypes: the failure of an operation goes to
 * the error handler of its window, a call waits for its own requests only, and two threads use a
 * new type at once. Runs with ranks that a net connects too. */
#include "check.h"

#include <pthread.h>

#include "../../include/transom_mpi_notify.h"

static int called;

static void count(MPI_Win *win, int *code, ...) {
    (void)win;
    called += class_of(*code) == MPI_ERR_RMA_RANGE;
}

/* A get outside of attached memory: fails when it is called, or in the call that completes it. */
static int strays(MPI_Win win, int target, int *into, MPI_Request *request) {
    return MPI_Rget(into, 1, MPI_INT, target, 4096, 1, MPI_INT, win, request);
}

static void failures(void) {
    MPI_Win win, other;
    MPI_Errhandler handler;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int *part, into[3] = {0}, next = (rank_ + 1) % size_, done, indices[2], code, later;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &other);
    *part = rank_;
    MPI_Win_create_errhandler(count, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win), MPI_Win_lock_all(0, other);
    code = strays(win, next, into, requests);
    if (!code) code = MPI_Wait(requests, MPI_STATUS_IGNORE);
    check("wait: the code", class_of(code) != MPI_ERR_RMA_RANGE);
    check("wait: the window's handler", called != 1);

    later = strays(win, next, into, requests) == MPI_SUCCESS;
    MPI_Rget(into + 1, 1, MPI_INT, next, 0, 1, MPI_INT, other, requests + 1);
    MPI_Irecv(into + 2, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, requests + 2);
    MPI_Send(&rank_, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) statuses[i].MPI_ERROR = -1;
    code = MPI_Waitall(3, requests, statuses);
    check("waitall: the code", class_of(code) != (later ? MPI_ERR_IN_STATUS : MPI_SUCCESS));
    check("waitall: the status", later && class_of(statuses[0].MPI_ERROR) != MPI_ERR_RMA_RANGE);
    check("waitall: other statuses", later && (statuses[1].MPI_ERROR || statuses[2].MPI_ERROR));
    check("waitall: other data", into[1] != next || into[2] != (rank_ + size_ - 1) % size_);
    check("waitall: the window's handler", called != 2);

    later = strays(win, next, into, requests) == MPI_SUCCESS;
    code = done = 0;
    while (later && !done) code = MPI_Testsome(1, requests, &done, indices, MPI_STATUSES_IGNORE);
    check("testsome: the code", later && class_of(code) != MPI_ERR_IN_STATUS);
    check("testsome: the window's handler", called != 3);
    MPI_Win_unlock_all(win), MPI_Win_unlock_all(other);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win), MPI_Win_free(&other);
}

/* Calls that wait for something else, and complete the requests of operations in flight. */
static void calls_in_between(void) {
    for (int i = 0; i < 5; i++) MPI_Barrier(MPI_COMM_WORLD);
}

/* Such calls complete the request of a failed operation. A flush reports the failure, and then the
 * call that gets the request does not; without a flush that call does. */
static void failures_in_between(void) {
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Request request;
    int into, next = (rank_ + 1) % size_, code, later;
    called = 0;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_errhandler(count, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_lock_all(0, win);
    later = strays(win, next, &into, &request) == MPI_SUCCESS;
    calls_in_between();
    check("the handler before the flush", called != !later);
    code = MPI_Win_flush(next, win);
    check("the flush after calls in between", class_of(code) != (later ? MPI_ERR_RMA_RANGE : MPI_SUCCESS));
    check("the wait after the flush", later && MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    check("the handler after the flush", called != 1);

    later = strays(win, next, &into, &request) == MPI_SUCCESS;
    if (later) MPI_Request_free(&request);
    calls_in_between();
    check("the handler before the end of the epoch", called != 1 + !later);
    code = MPI_Win_unlock_all(win);
    check("the end of the epoch after a freed request", class_of(code) != (later ? MPI_ERR_RMA_RANGE : MPI_SUCCESS));

    MPI_Win_lock_all(0, win);
    later = strays(win, next, &into, &request) == MPI_SUCCESS;
    calls_in_between();
    check("the handler before the wait", called != 2 + !later);
    code = later ? MPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_ERR_RMA_RANGE;
    check("the wait after calls in between", class_of(code) != MPI_ERR_RMA_RANGE);
    code = MPI_Win_unlock_all(win);
    check("the end of the epoch after the wait", code != MPI_SUCCESS || called != 3);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win);
}

static int of_world, of_new;

static void count_world(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    of_world += class_of(*code) == MPI_ERR_RMA_SYNC;
}

static void count_new(MPI_Win *win, int *code, ...) {
    (void)win, (void)code;
    of_new++;
}

/* The memory that this process maps, in pages. */
static long mapped(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = -1;
    if (file) fclose(file);
    return pages;
}

enum { WINDOWS = 12, BYTES = 8 << 20 };

/* A request for a value that no counter reaches. A program may free it; else it fails when its
 * window is freed, at the handler of MPI_COMM_WORLD, although a new window has the handle. */
static void unreached(void) {
    MPI_Win win, new;
    MPI_Errhandler world, handler;
    MPI_Request request;
    char *part;
    long before = 0, grown;
    int code;
    for (int i = 0; i < WINDOWS; i++) {
        if (i == 2) before = mapped();
        MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
        memset(part, 1, BYTES);
        MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1);
        MPI_Win_notify_threshold(win, 0, 5, &request);
        MPI_Request_free(&request);
        MPI_Win_free(&win);
    }
    grown = mapped() - before;
    check("the memory of windows whose requests were freed", grown * 4096 > 3L * BYTES ? grown : 0);

    MPI_Comm_create_errhandler(count_world, &world), MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
    MPI_Win_create_errhandler(count_new, &handler);
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1);
    MPI_Win_notify_threshold(win, 0, 1, &request);
    MPI_Win_free(&win);
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &new);
    MPI_Win_set_errhandler(new, handler);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    check("a request for a freed window: the code", class_of(code) != MPI_ERR_RMA_SYNC);
    check("a request for a freed window: the handlers", of_world != 1 || of_new != 0);
    MPI_Win_free(&new);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&world), MPI_Errhandler_free(&handler);
}

static int query(void *state, MPI_Status *status) {
    MPI_Request nothing = MPI_REQUEST_NULL;
    int flag;
    (void)state;
    MPI_Test(&nothing, &flag, MPI_STATUS_IGNORE);
    MPI_Status_set_elements(status, MPI_INT, 0), MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int released(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int cancelled(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* A failed operation beside a generalized request whose functions complete requests. */
static void within_functions(void) {
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Request requests[2];
    int into, code, later;
    called = 0;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_errhandler(count, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_lock_all(0, win);
    later = strays(win, (rank_ + 1) % size_, &into, requests) == MPI_SUCCESS;
    MPI_Grequest_start(query, released, cancelled, NULL, requests + 1);
    MPI_Grequest_complete(requests[1]);
    code = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check("beside a generalized request: the code", class_of(code) != (later ? MPI_ERR_IN_STATUS : MPI_SUCCESS));
    check("beside a generalized request: the window's handler", called != 1);
    MPI_Win_unlock_all(win);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win);
}

/* Rank 1 notifies only after rank 0 has waited for a part of a message. */
static void own_requests_only(void) {
    long bad = 0;
#if MPI_VERSION >= 4
    MPI_Win win;
    MPI_Request part, threshold;
    int *place, got = 0;
    MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &place, &win);
    MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1);
    if (rank_ == 0) {
        MPI_Win_notify_threshold(win, 0, 1, &threshold);
        MPI_Precv_init(&got, 1, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &part);
        MPI_Start(&part);
        MPI_Waitall(1, &part, (MPI_Status *)MPI_STATUSES_IGNORE);
        MPI_Request_free(&part);
        bad = got != 7;
        MPI_Send(&got, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        MPI_Wait(&threshold, MPI_STATUS_IGNORE);
    } else if (rank_ == 1) {
        int sent = 7;
        MPI_Psend_init(&sent, 1, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &part);
        MPI_Start(&part);
        MPI_Pready(0, part);
        MPI_Wait(&part, MPI_STATUS_IGNORE);
        MPI_Request_free(&part);
        MPI_Recv(&got, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock_all(0, win);
        MPI_Put_notify(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, win);
        MPI_Win_unlock_all(win);
    }
    MPI_Win_free(&win);
#endif
    check("a message in parts beside a threshold", bad);
}

enum { BLOCKS = 5000, ROUNDS = 200 };

static MPI_Win strided;
static MPI_Datatype type;
static pthread_barrier_t turn;
static int source[2 * BLOCKS];

/* Puts with each new type at the moment at which the other thread does so too. */
static void *put_all(void *half) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&turn);
        MPI_Put(source, 1, type, (rank_ + 1) % size_, *(MPI_Aint *)half, 1, type, strided);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void first_uses(int level) {
    static int lengths[BLOCKS], places[BLOCKS];
    pthread_t threads[2];
    MPI_Aint halves[2] = {0, sizeof source};
    int *part;
    long bad = 0;
    MPI_Win_allocate(2 * sizeof source, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &strided);
    memset(part, 0, 2 * sizeof source);
    for (int i = 0; i < 2 * BLOCKS; i++) source[i] = i + 1;
    for (int i = 0; i < BLOCKS; i++) lengths[i] = 1, places[i] = 2 * i;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, strided);
    pthread_barrier_init(&turn, NULL, 3);
    for (int i = 0; level == MPI_THREAD_MULTIPLE && i < 2; i++) pthread_create(&threads[i], NULL, put_all, &halves[i]);
    for (int i = 0; level == MPI_THREAD_MULTIPLE && i < ROUNDS; i++) {
        MPI_Type_indexed(BLOCKS, lengths, places, MPI_INT, &type);
        MPI_Type_commit(&type);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        MPI_Type_free(&type);
    }
    for (int i = 0; level == MPI_THREAD_MULTIPLE && i < 2; i++) pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(strided);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, strided);
    for (int i = 0; level == MPI_THREAD_MULTIPLE && i < 4 * BLOCKS; i++)
        bad += part[i] != (i % 2 ? 0 : i % (2 * BLOCKS) + 1);
    MPI_Win_unlock(rank_, strided);
    MPI_Win_free(&strided);
    check("first uses of a type by two threads", bad || level != MPI_THREAD_MULTIPLE);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    failures();
    failures_in_between();
    unreached();
    within_functions();
    own_requests_only();
    first_uses(level);
    return end();
}
