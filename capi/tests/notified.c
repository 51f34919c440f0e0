/* Notified operations: each moves what its plain form moves and adds one to one counter of the
 * target. Every way to look at a counter and to wait for one. */
#include "check.h"

enum { LONG = 40000, ROUNDS = 8, COUNTERS = 16 };

static transom_window *window;
static int64_t *part;

static uint64_t value_of(int notice) {
    uint64_t value = 99;
    OK(transom_window_notify_value(window, notice, &value));
    return value;
}

/* Short and long data has arrived as soon as the counter changes. */
static void data_first(void) {
    static int64_t data[LONG];
    static const uint64_t lengths[] = {1, 100, LONG, 3};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t length = lengths[round % 4];
        for (uint64_t i = 0; i < length; i++) {
            data[i] = 1000 * me + round;
        }
        OK(transom_put_notify(window, data, length, TRANSOM_INT64_T, next, 0, length, TRANSOM_INT64_T, 0));
        OK(transom_window_notify_wait(window, 0, (uint64_t)round + 1));
        for (uint64_t i = 0; i < length; i++) {
            CHECK(part[i] == 1000 * before + round);
        }
        /* An empty put notifies the previous rank: its data has been read, and it may put again. */
        OK(transom_put_notify(window, NULL, 0, TRANSOM_INT64_T, before, 0, 0, TRANSOM_INT64_T, 1));
        OK(transom_window_notify_wait(window, 1, (uint64_t)round + 1));
        OK(transom_window_flush_all(window));
    }
    CHECK(value_of(0) == ROUNDS && value_of(1) == ROUNDS);
}

/* On TRANSOM_PROC_NULL buffers may be NULL. */
static void proc_null_without_buffers(void) {
    transom_request *all[4] = {NULL};
    OK(transom_put_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, 11));
    OK(transom_get_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, 11));
    OK(transom_accumulate_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, TRANSOM_SUM, 11));
    OK(transom_get_accumulate_notify(window, NULL, 2, TRANSOM_INT, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2,
                                     TRANSOM_INT, TRANSOM_SUM, 11));
    OK(transom_rput_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, 11, &all[0]));
    OK(transom_rget_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, 11, &all[1]));
    OK(transom_raccumulate_notify(window, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2, TRANSOM_INT, TRANSOM_SUM, 11,
                                  &all[2]));
    OK(transom_rget_accumulate_notify(window, NULL, 2, TRANSOM_INT, NULL, 2, TRANSOM_INT, TRANSOM_PROC_NULL, 0, 2,
                                      TRANSOM_INT, TRANSOM_SUM, 11, &all[3]));
    OK(transom_request_wait_all(4, all));
}

/* The eight forms: the data that each moves, and its count. */
static void every_form(void) {
    int64_t data[4] = {1, 2, 3, 4}, ones[4] = {1, 1, 1, 1}, got[4] = {0}, old[4] = {0};
    transom_request *request = NULL;
    transom_datatype *every_other = NULL;
    OK(transom_type_vector(2, 1, 2, TRANSOM_INT64_T, &every_other));
    OK(transom_put_notify(window, data, 4, TRANSOM_INT64_T, next, 0, 4, TRANSOM_INT64_T, 2));
    OK(transom_put_notify(window, data, 1, every_other, next, 4, 2, TRANSOM_INT64_T, 3));
    OK(transom_type_free(&every_other));
    /* A get is not ordered behind puts. */
    OK(transom_window_flush(window, next));
    OK(transom_get_notify(window, got, 4, TRANSOM_INT64_T, next, 2, 4, TRANSOM_INT64_T, 4));
    CHECK(got[0] == 3 && got[1] == 4 && got[2] == 1 && got[3] == 3);
    OK(transom_accumulate_notify(window, ones, 4, TRANSOM_INT64_T, next, 0, 4, TRANSOM_INT64_T, TRANSOM_SUM, 5));
    OK(transom_get_accumulate_notify(window, ones, 4, TRANSOM_INT64_T, old, 4, TRANSOM_INT64_T, next, 0, 4, TRANSOM_INT64_T,
                                     TRANSOM_SUM, 6));
    CHECK(old[0] == 2 && old[3] == 5);
    OK(transom_get_accumulate_notify(window, NULL, 0, TRANSOM_INT64_T, old, 4, TRANSOM_INT64_T, next, 0, 4, TRANSOM_INT64_T,
                                     TRANSOM_NO_OP, 6));
    CHECK(old[0] == 3 && old[3] == 6);
    OK(transom_rput_notify(window, data, 4, TRANSOM_INT64_T, next, 8, 4, TRANSOM_INT64_T, 7, &request));
    OK(transom_request_wait(&request));
    OK(transom_window_flush(window, next));
    OK(transom_rget_notify(window, got, 4, TRANSOM_INT64_T, next, 8, 4, TRANSOM_INT64_T, 8, &request));
    OK(transom_request_wait(&request));
    CHECK(memcmp(got, data, sizeof got) == 0);
    OK(transom_raccumulate_notify(window, ones, 4, TRANSOM_INT64_T, next, 8, 4, TRANSOM_INT64_T, TRANSOM_SUM, 9, &request));
    OK(transom_request_wait(&request));
    OK(transom_rget_accumulate_notify(window, ones, 4, TRANSOM_INT64_T, old, 4, TRANSOM_INT64_T, next, 8, 4, TRANSOM_INT64_T,
                                      TRANSOM_REPLACE, 10, &request));
    OK(transom_request_wait(&request));
    CHECK(request == NULL && old[0] == 2 && old[3] == 5);
    OK(transom_put_notify(window, data, 1, TRANSOM_INT64_T, TRANSOM_PROC_NULL, 0, 1, TRANSOM_INT64_T, 11));
    proc_null_without_buffers();
    OK(transom_window_flush_all(window));
    OK(transom_job_barrier(world));
    for (int notice = 2; notice < COUNTERS; notice++) {
        CHECK(value_of(notice) == (notice > 10 ? 0 : notice == 6 ? 2 : 1));
    }
    CHECK(part[0] == 3 && part[3] == 6 && part[4] == 1 && part[5] == 3 && part[8] == 1 && part[11] == 1);
    OK(transom_job_barrier(world));
}

/* Counters 12 and 13 of the next rank, incremented one after the other. */
static void waits(void) {
    const int notices[] = {13, 12};
    const uint64_t values[] = {1, 1}, later[] = {2, 1};
    uint64_t index = 9, value = 0;
    int done = -1;
    transom_request *request = NULL;
    OK(transom_window_notify_threshold(window, 13, 1, &request));
    OK(transom_window_notify_test(window, 12, 1, &done));
    CHECK(done == 0);
    OK(transom_job_barrier(world));
    OK(transom_put_notify(window, NULL, 0, TRANSOM_BYTE, next, 0, 0, TRANSOM_BYTE, 12));
    OK(transom_window_notify_wait_any(window, 2, notices, values, &index));
    CHECK(index == 1);
    OK(transom_window_notify_test(window, 12, 1, &done));
    CHECK(done == 1);
    OK(transom_request_test(&request, &done));
    CHECK(done == 0 && request != NULL);
    OK(transom_job_barrier(world));
    OK(transom_put_notify(window, NULL, 0, TRANSOM_BYTE, next, 0, 0, TRANSOM_BYTE, 13));
    OK(transom_request_wait(&request));
    CHECK(request == NULL && value_of(13) == 1);
    OK(transom_window_notify_wait_any(window, 2, notices, later, &index));
    CHECK(index == 1);
    OK(transom_window_notify_reset(window, 12, &value));
    CHECK(value == 1 && value_of(12) == 0);
    OK(transom_window_notify_reset(window, 12, &value));
    CHECK(value == 0);
}

/* Refused operations move no data and are not counted. */
static void refused(void) {
    int64_t data = -5;
    uint64_t value = 0, index = 0;
    int number = 0, notice = 0;
    transom_request *request = NULL;
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "put_notify",
          transom_put_notify(window, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, COUNTERS + next));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "-1",
          transom_put_notify(window, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, -1));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "get_notify",
          transom_rget_notify(window, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, 4096, &request));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "accumulate_notify",
          transom_accumulate_notify(window, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, TRANSOM_SUM, 4096));
    FAILS(TRANSOM_ERR_RMA_RANGE, "put", transom_put_notify(window, &data, 1, TRANSOM_INT64_T, next, LONG, 1, TRANSOM_INT64_T, 14));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "", transom_window_notify_value(window, COUNTERS + me, &value));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "", transom_window_notify_wait(window, -2, 1));
    FAILS(TRANSOM_ERR_RMA_NOTIFICATION, "", transom_window_notify_threshold(window, 4096, 1, &request));
    FAILS(TRANSOM_ERR_ARG, "", transom_window_notify_wait_any(window, 0, NULL, NULL, &index));
    FAILS(TRANSOM_ERR_ARG, "values is NULL", transom_window_notify_wait_any(window, 1, &notice, NULL, &index));
    FAILS(TRANSOM_ERR_ARG, "value is NULL", transom_window_notify_value(window, 0, NULL));
    FAILS(TRANSOM_ERR_RANK, "", transom_window_get_num_notify(window, size, &number));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_put_notify(NULL, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, 0));
    CHECK(request == NULL);
    OK(transom_job_barrier(world));
    CHECK(value_of(14) == 0 && part[0] != -5);
}

int main(void) {
    void *base = NULL;
    int64_t data = 0;
    int number = -1;
    begin();
    OK(transom_window_allocate(world, LONG * sizeof(int64_t), 8, NULL, &base, &window));
    part = (int64_t *)base;
    OK(transom_window_get_num_notify(window, next, &number));
    CHECK(number == 0);
    FAILS(TRANSOM_ERR_ARG, "", transom_window_set_num_notify(window, 4097));
    FAILS(TRANSOM_ERR_ARG, "-3", transom_window_set_num_notify(window, -3));
    OK(transom_window_set_num_notify(window, COUNTERS + me));
    OK(transom_window_get_num_notify(window, next, &number));
    CHECK(number == COUNTERS + next);
    FAILS(TRANSOM_ERR_RMA_SYNC, "put_notify",
          transom_put_notify(window, &data, 1, TRANSOM_INT64_T, next, 0, 1, TRANSOM_INT64_T, 0));
    OK(transom_window_lock_all(window, 0));
    data_first();
    every_form();
    waits();
    refused();
    OK(transom_window_unlock_all(window));
    OK(transom_window_set_num_notify(window, 4096));
    CHECK(value_of(0) == 0 && value_of(4095) == 0);
    OK(transom_window_free(&window));
    return end("notified");
}
