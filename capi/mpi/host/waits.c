/* A wait for all of several requests that tests them one after another. MPICH's MPI_Testall aborts
 * if it is called again after a request of MPI-IO is complete. */
#include "host.h"

/* The requests before the first one that is not known to be complete, and whether one has failed.
 * After a failure the statuses of all of them have an error code (MPI-4.1 section 3.7.5). */
struct tested { int count, has_failed; };

static MPI_Status *status_of(MPI_Status *all, int index) {
    return all == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : all + index;
}

static void set_errors(MPI_Status *all, int from, int to, int code) {
    for (int i = from; all != MPI_STATUSES_IGNORE && i < to; i++) all[i].MPI_ERROR = code;
}

/* Tests until a request is pending. `flag`: whether all requests are complete. */
int host_test_in_turn(int n, MPI_Request *q, int *flag, MPI_Status *s, struct tested *tested) {
    for (*flag = 0; tested->count < n; tested->count++) {
        int at = tested->count, complete = 0, class = MPI_SUCCESS;
        int code = HOST(Test)(q + at, &complete, status_of(s, at));
        if (code == MPI_SUCCESS && !complete) return MPI_SUCCESS;
        if (code != MPI_SUCCESS) {
            HOST(Error_class)(code, &class);
            if (class == MPI_ERR_REQUEST) return code;
            if (!tested->has_failed) set_errors(s, 0, at, MPI_SUCCESS);
            tested->has_failed = 1;
        }
        if (tested->has_failed) set_errors(s, at, at + 1, code);
    }
    *flag = 1;
    return tested->has_failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

/* Waits for the requests that are not known to be complete. */
int host_wait_for_rest(int n, MPI_Request *q, MPI_Status *s, const struct tested *tested) {
    int done = tested->count, class = MPI_SUCCESS;
    int code = HOST(Waitall)(n - done, q + done, status_of(s, done));
    if (code != MPI_SUCCESS) HOST(Error_class)(code, &class);
    if (class == MPI_ERR_IN_STATUS && !tested->has_failed) set_errors(s, 0, done, MPI_SUCCESS);
    if (code == MPI_SUCCESS && tested->has_failed) set_errors(s, done, n, MPI_SUCCESS);
    return code == MPI_SUCCESS && tested->has_failed ? MPI_ERR_IN_STATUS : code;
}
