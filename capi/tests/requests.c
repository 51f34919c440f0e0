/* Operations with requests, and every way to wait for them. */
#include "check.h"

enum { MANY = 300 };

static transom_window *window;
static int64_t *part;
static int64_t values[MANY], got[MANY];
static transom_request *requests[MANY];

static void put_all(int64_t add) {
    for (int i = 0; i < MANY; i++) {
        values[i] = add + 1000 * me + i;
        OK(transom_rput(window, &values[i], 1, TRANSOM_INT64_T, next, (uint64_t)i, 1, TRANSOM_INT64_T, &requests[i]));
        CHECK(requests[i] != NULL);
    }
}

static void get_all(void) {
    memset(got, 0, sizeof got);
    for (int i = 0; i < MANY; i++) {
        OK(transom_rget(window, &got[i], 1, TRANSOM_INT64_T, next, (uint64_t)i, 1, TRANSOM_INT64_T, &requests[i]));
    }
}

static void all_are_there(int64_t add) {
    for (int i = 0; i < MANY; i++) {
        CHECK(requests[i] == NULL);
        CHECK(got[i] == add + 1000 * me + i);
    }
}

static void in_any_order(void) {
    int64_t index = 0;
    int found = 0;
    get_all();
    OK(transom_request_wait(&requests[5]));
    CHECK(requests[5] == NULL && got[5] == 1000 * me + 5);
    OK(transom_request_wait(&requests[5]));
    for (;;) {
        OK(transom_request_wait_any(MANY, requests, &index));
        if (index == TRANSOM_UNDEFINED) {
            break;
        }
        CHECK(index >= 0 && index < MANY && requests[index] == NULL && got[index] == 1000 * me + index);
        found++;
    }
    CHECK(found == MANY - 1);
    all_are_there(0);
}

static void some_at_a_time(int by_test) {
    uint64_t indices[MANY], done = 0, found = 0;
    get_all();
    while (found < MANY) {
        if (by_test) {
            OK(transom_request_test_some(MANY, requests, &done, indices));
        } else {
            OK(transom_request_wait_some(MANY, requests, &done, indices));
            CHECK(done > 0);
        }
        for (uint64_t i = 0; i < done; i++) {
            CHECK(requests[indices[i]] == NULL && got[indices[i]] == 1000 * me + (int64_t)indices[i]);
        }
        found += done;
    }
    OK(transom_request_wait_some(MANY, requests, &done, indices));
    CHECK(done == 0);
    all_are_there(0);
}

static void combining(void) {
    int64_t one = 1, old = -1, old_again = -1, last = -1;
    int done = 0;
    transom_request *request = NULL;
    OK(transom_raccumulate(window, &one, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, TRANSOM_SUM, &request));
    OK(transom_request_wait(&request));
    OK(transom_window_flush(window, next));
    OK(transom_rget_accumulate(window, &one, 1, TRANSOM_INT64_T, &old, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T,
                               TRANSOM_SUM, &request));
    while (!done) {
        OK(transom_request_test(&request, &done));
    }
    CHECK(request == NULL && old == 1000 * me + 1);
    OK(transom_request_test(&request, &done));
    CHECK(done == 1);
    OK(transom_rget_accumulate(window, NULL, 0, TRANSOM_INT64_T, &old_again, 1, TRANSOM_INT64_T, next, 0, 1,
                               TRANSOM_INT64_T, TRANSOM_NO_OP, &request));
    OK(transom_request_wait(&request));
    CHECK(old_again == 1000 * me + 2);
    /* The request was freed: the flush still completes its operation. */
    OK(transom_rget(window, &last, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, &request));
    OK(transom_request_free(&request));
    OK(transom_window_flush(window, next));
    CHECK(request == NULL && last == 1000 * me + 2);
}

/* On TRANSOM_PROC_NULL buffers may be NULL. */
static void proc_null_without_buffers(void) {
    transom_request *all[5] = {NULL};
    OK(transom_rput(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, &all[0]));
    OK(transom_rget(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, &all[1]));
    OK(transom_raccumulate(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, TRANSOM_SUM, &all[2]));
    OK(transom_rget_accumulate(window, NULL, 2, TRANSOM_INT, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT,
                               TRANSOM_SUM, &all[3]));
    OK(transom_rget_accumulate(window, NULL, 0, TRANSOM_INT, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT,
                               TRANSOM_NO_OP, &all[4]));
    OK(transom_request_wait_all(5, all));
}

int main(void) {
    void *base = NULL;
    transom_request *request = NULL;
    int64_t value = 0;
    begin();
    OK(transom_window_allocate(world, sizeof values, 8, NULL, &base, &window));
    part = (int64_t *)base;
    OK(transom_window_lock_all(window, 0));
    put_all(0);
    OK(transom_request_wait_all(MANY, requests));
    OK(transom_window_flush(window, next));
    get_all();
    OK(transom_request_wait_all(MANY, requests));
    all_are_there(0);
    in_any_order();
    some_at_a_time(0);
    some_at_a_time(1);
    combining();
    OK(transom_rput(window, &value, 1, TRANSOM_INT64_T, TRANSOM_PROC_NULL, 0, 1, TRANSOM_INT64_T, &request));
    OK(transom_request_wait(&request));
    proc_null_without_buffers();
    OK(transom_window_unlock_all(window));
    FAILS(TRANSOM_ERR_RMA_SYNC, "rput", transom_rput(window, &value, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, &request));
    CHECK(request == NULL);
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    CHECK(part[0] == 1000 * before + 2 && part[MANY - 1] == 1000 * before + MANY - 1);
    OK(transom_window_free(&window));
    return end("requests");
}
