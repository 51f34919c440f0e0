/* Every synchronization call, each with an operation that it completes. */
#include "check.h"

static transom_window *window;
static int64_t *part;

/* Zeroes the parts of all ranks, between two barriers. */
static void clear(void) {
    OK(transom_job_barrier(world));
    memset(part, 0, 64);
    OK(transom_window_sync(window));
    OK(transom_job_barrier(world));
}

static void fences(void) {
    int64_t value = 10 + me, got = 0;
    clear();
    OK(transom_window_fence(window, TRANSOM_MODE_NOPRECEDE));
    OK(transom_put_bytes(window, &value, 8, next, 0));
    OK(transom_window_fence(window, 0));
    CHECK(part[0] == 10 + before);
    OK(transom_get_bytes(window, &got, 8, next, 0));
    OK(transom_window_fence(window, TRANSOM_MODE_NOSUCCEED | TRANSOM_MODE_NOSTORE | TRANSOM_MODE_NOPUT));
    CHECK(got == 10 + me);
    FAILS(TRANSOM_ERR_RMA_SYNC, "", transom_put_bytes(window, &value, 8, next, 0));
}

static void groups(int assertion, int by_test) {
    int64_t value = 20 + me;
    int done = 0;
    clear();
    OK(transom_window_post(window, 1, &before, assertion));
    OK(transom_window_start(window, 1, &next, 0));
    OK(transom_put_bytes(window, &value, 8, next, 1));
    OK(transom_window_complete(window));
    if (by_test) {
        while (!done) {
            OK(transom_window_test(window, &done));
        }
    } else {
        OK(transom_window_wait(window));
    }
    CHECK(part[1] == 20 + before);
}

/* All ranks add to a counter of rank 0 by a get and a put, which only an exclusive lock makes
 * atomic. */
static void exclusive(void) {
    clear();
    for (int round = 0; round < 20; round++) {
        int64_t count = 0;
        OK(transom_window_lock(window, TRANSOM_LOCK_EXCLUSIVE, 0, 0));
        OK(transom_get_bytes(window, &count, 8, 0, 2));
        OK(transom_window_flush(window, 0));
        count++;
        OK(transom_put_bytes(window, &count, 8, 0, 2));
        OK(transom_window_unlock(window, 0));
    }
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    CHECK(me != 0 || part[2] == 20 * size);
}

static void flushes(void) {
    int64_t value = 30 + me, got = 0;
    clear();
    OK(transom_window_lock_all(window, TRANSOM_MODE_NOCHECK));
    OK(transom_put_bytes(window, &value, 8, next, 3));
    OK(transom_window_flush_local(window, next));
    value = 0;
    OK(transom_window_flush(window, next));
    OK(transom_get_bytes(window, &got, 8, next, 3));
    OK(transom_window_flush_local_all(window));
    CHECK(got == 30 + me);
    value = 40 + me;
    OK(transom_put_bytes(window, &value, 8, next, 4));
    OK(transom_window_flush_all(window));
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    CHECK(part[3] == 30 + before && part[4] == 40 + before);
    OK(transom_window_unlock_all(window));
    FAILS(TRANSOM_ERR_RMA_SYNC, "", transom_window_flush_all(window));
}

/* Several targets locked at once. */
static void several(void) {
    int64_t value = 50 + me;
    clear();
    for (int rank = 0; rank < size; rank++) {
        OK(transom_window_lock(window, TRANSOM_LOCK_SHARED, rank, 0));
    }
    OK(transom_put_bytes(window, &value, 8, next, 5));
    for (int rank = 0; rank < size; rank++) {
        OK(transom_window_unlock(window, rank));
    }
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    CHECK(part[5] == 50 + before);
}

int main(void) {
    void *base = NULL;
    begin();
    OK(transom_window_allocate(world, 64, 8, NULL, &base, &window));
    part = (int64_t *)base;
    fences();
    groups(0, 0);
    groups(TRANSOM_MODE_NOSTORE, 1);
    exclusive();
    flushes();
    several();
    OK(transom_window_free(&window));
    return end("synchronization");
}
