/* A wait for all of several requests by tests of one request after another. MPICH's MPI_Testall
 * aborts if it is called again after a request of MPI-IO is complete. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* The requests that tests have completed: a byte for each request, none before the first test. */
struct tested {
    unsigned char *done;
    /* The number of pending requests, and the request to test next. */
    int left, next;
};

static MPI_Status *status_of(MPI_Status *all, int index) {
    return all == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : all + index;
}

/* The status of a request that is not active is empty (MPI-4.1 section 3.7.5). */
static int set_empty(MPI_Status *s) {
    MPI_Request none = MPI_REQUEST_NULL;
    int flag;
    return HOST(Test)(&none, &flag, s);
}

/* Tests one request by MPI_Testsome, which passes a failure to the error handler in the form of
 * MPI_Waitall: with MPI_ERR_IN_STATUS under MPICH. `complete` gets REPORTED if the host has
 * reported the request. */
static int test(MPI_Request *q, int *complete, MPI_Status *s) {
    int count = REPORTED, index;
    int code = HOST(Testsome)(1, q, &count, &index, s == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : s);
    *complete = count == REPORTED ? REPORTED : count != 0;
    return code == MPI_SUCCESS && count == MPI_UNDEFINED ? set_empty(s) : code;
}

/* Sets the errors of the statuses beside that of the failed request `failed`: the requests that
 * tests have not completed are pending, except null requests. */
static void set_errors(int n, const MPI_Request *q, MPI_Status *all, const struct tested *tested, int failed) {
    for (int i = 0; all != MPI_STATUSES_IGNORE && i < n; i++) {
        int pending = !tested->done[i] && q[i] != MPI_REQUEST_NULL;
        if (i == failed) continue;
        if (!tested->done[i] && !pending) set_empty(all + i);
        all[i].MPI_ERROR = pending ? MPI_ERR_PENDING : MPI_SUCCESS;
    }
}

/* Tests until it meets a pending request. The next call begins behind that request, because a test
 * of one request need not serve the others. `flag`: whether the wait is over. A failure ends the
 * wait (MPI-4.1 section 3.7.5): the test of a second failed request would call the error handler
 * again. */
int host_test_in_turn(int n, MPI_Request *q, int *flag, MPI_Status *s, struct tested *tested) {
    *flag = 0;
    while (tested->left > 0) {
        int at = tested->next, complete = 0, class = MPI_SUCCESS;
        tested->next = at + 1 < n ? at + 1 : 0;
        if (tested->done[at]) continue;
        int code = test(q + at, &complete, status_of(s, at));
        if (code != MPI_SUCCESS) {
            HOST(Error_class)(code, &class);
            if (class == MPI_ERR_IN_STATUS) set_errors(n, q, s, tested, at);
            return code;
        }
        if (!complete) return MPI_SUCCESS;
        if (complete == REPORTED) break;
        tested->done[at] = 1;
        tested->left--;
    }
    *flag = 1;
    return MPI_SUCCESS;
}

/* Waits for the requests that are pending. The others are null or inactive by now, so their
 * statuses are kept. */
int host_wait_for_rest(int n, MPI_Request *q, MPI_Status *s, const struct tested *tested) {
    if (!tested->done || tested->left == n || s == MPI_STATUSES_IGNORE) return HOST(Waitall)(n, q, s);
    int class = MPI_SUCCESS;
    MPI_Status *kept = malloc((size_t)n * sizeof *kept);
    if (!kept) return MPI_ERR_OTHER;
    memcpy(kept, s, (size_t)n * sizeof *kept);
    int code = HOST(Waitall)(n, q, s);
    if (code != MPI_SUCCESS) HOST(Error_class)(code, &class);
    for (int i = 0; i < n; i++) {
        if (!tested->done[i]) continue;
        s[i] = kept[i];
        if (class == MPI_ERR_IN_STATUS) s[i].MPI_ERROR = MPI_SUCCESS;
    }
    free(kept);
    return code;
}
