/* A wait for all of several requests by tests of one request after another. MPICH's MPI_Testall
 * aborts if it is called again after a request of MPI-IO is complete. */
#include "host.h"

#include <stdlib.h>

/* The requests that tests have completed: a byte for each request, none before the first test.
 * Their statuses stay as they are, but after a failure each of them has an error code (MPI-4.1
 * section 3.7.5). */
struct tested {
    unsigned char *done;
    /* The number of pending requests, and the request to test next. */
    int left, next, has_failed;
};

static MPI_Status *status_of(MPI_Status *all, int index) {
    return all == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : all + index;
}

/* Sets the error of the statuses of all requests that are complete, or are not. */
static void set_errors(int n, MPI_Status *all, const struct tested *tested, int done, int code) {
    for (int i = 0; all != MPI_STATUSES_IGNORE && i < n; i++)
        if (tested->done[i] == done) all[i].MPI_ERROR = code;
}

/* Tests until it meets a pending request. The next call begins behind that request, because a test
 * of one request need not serve the others. `flag`: whether all requests are complete. */
int host_test_in_turn(int n, MPI_Request *q, int *flag, MPI_Status *s, struct tested *tested) {
    *flag = 0;
    while (tested->left > 0) {
        int at = tested->next, complete = 0, class = MPI_SUCCESS;
        tested->next = at + 1 < n ? at + 1 : 0;
        if (tested->done[at]) continue;
        int code = HOST(Test)(q + at, &complete, status_of(s, at));
        if (code == MPI_SUCCESS && !complete) return MPI_SUCCESS;
        if (code != MPI_SUCCESS) {
            HOST(Error_class)(code, &class);
            if (class == MPI_ERR_REQUEST) return code;
            if (!tested->has_failed) set_errors(n, s, tested, 1, MPI_SUCCESS);
            tested->has_failed = 1;
        }
        if (tested->has_failed && s != MPI_STATUSES_IGNORE) s[at].MPI_ERROR = code;
        tested->done[at] = 1;
        tested->left--;
    }
    *flag = 1;
    return tested->has_failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

/* Waits for the requests that are pending. The host gets copies, without the complete ones. */
int host_wait_for_rest(int n, MPI_Request *q, MPI_Status *s, const struct tested *tested) {
    if (!tested->done || tested->left == n) return HOST(Waitall)(n, q, s);
    int count = 0, class = MPI_SUCCESS, keeps = s != MPI_STATUSES_IGNORE;
    MPI_Request *rest = malloc((size_t)n * sizeof *rest);
    MPI_Status *own = calloc((size_t)n, sizeof *own);
    if (!rest || !own) return free(rest), free(own), MPI_ERR_OTHER;
    for (int i = 0; i < n; i++) {
        if (tested->done[i]) continue;
        if (keeps) own[count] = s[i];
        rest[count++] = q[i];
    }
    int code = HOST(Waitall)(count, rest, own);
    if (code != MPI_SUCCESS) HOST(Error_class)(code, &class);
    for (int i = 0, from = 0; i < n; i++) {
        if (tested->done[i]) continue;
        if (keeps) s[i] = own[from];
        q[i] = rest[from++];
    }
    free(rest), free(own);
    if (class == MPI_ERR_IN_STATUS && !tested->has_failed) set_errors(n, s, tested, 1, MPI_SUCCESS);
    if (code == MPI_SUCCESS && tested->has_failed) set_errors(n, s, tested, 0, MPI_SUCCESS);
    return code == MPI_SUCCESS && tested->has_failed ? MPI_ERR_IN_STATUS : code;
}
