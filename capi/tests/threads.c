/* Concurrent operations of several threads on one window; each thread has its own requests and its
 * own error text. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, TIMES = 200 };

static transom_window *window;

/* Adds to a counter of the next rank, and puts to its own words there by requests. */
static void *work(void *number) {
    int64_t one = 1, words[TIMES], old = -1, index = *(int64_t *)number;
    transom_request *requests[TIMES];
    char text[32];
    for (int i = 0; i < TIMES; i++) {
        words[i] = 1000000 * me + 1000 * index + i;
        OK(transom_fetch_and_op(window, &one, &old, TRANSOM_INT64_T, next, 0, TRANSOM_SUM));
        CHECK(old >= 0 && old < THREADS * TIMES);
        OK(transom_rput(window, &words[i], 1, TRANSOM_INT64_T, next, (uint64_t)(1 + index * TIMES + i), 1, TRANSOM_INT64_T,
                        &requests[i]));
        snprintf(text, sizeof text, "no rank -%d", (int)(100 + index));
        FAILS(TRANSOM_ERR_RANK, text, transom_put_bytes(window, &one, 8, (int)(-100 - index), 0));
    }
    OK(transom_request_wait_all(TIMES, requests));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int64_t numbers[THREADS], *part;
    void *base = NULL;
    begin();
    OK(transom_window_allocate(world, (1 + THREADS * TIMES) * 8, 8, NULL, &base, &window));
    part = (int64_t *)base;
    OK(transom_window_lock_all(window, 0));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(transom_window_unlock_all(window));
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    CHECK(part[0] == THREADS * TIMES);
    for (int i = 0; i < THREADS * TIMES; i++) {
        CHECK(part[1 + i] == 1000000 * before + 1000 * (i / TIMES) + i % TIMES);
    }
    OK(transom_job_barrier(world));
    OK(transom_window_free(&window));
    return end("threads");
}
