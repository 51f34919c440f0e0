/* Misuse: NULL for each argument, wrong numbers, wrong epochs. All are errors with a class and a
 * text, and leave the window usable. */
#include <pthread.h>

#include "check.h"

static transom_window *window;
static int64_t value = 1, result = 2;

static void without_handles(void) {
    transom_window *none = NULL;
    transom_request *request = NULL;
    transom_info *info = NULL;
    transom_job *job = NULL;
    void *base = NULL;
    uint64_t bytes = 0;
    uint32_t unit = 0;
    int number = 0;
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_init(NULL));
    FAILS(TRANSOM_ERR_OTHER, "before", transom_init(&job));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_finalize(&job));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_finalize(NULL));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_job_rank(NULL, &number));
    FAILS(TRANSOM_ERR_ARG, "rank is NULL", transom_job_rank(world, NULL));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_job_barrier(NULL));
    OK(transom_last_error_rank(&number));
    CHECK(number == TRANSOM_PROC_NULL);
    FAILS(TRANSOM_ERR_ARG, "rank is NULL", transom_last_error_rank(NULL));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_job_group(NULL, 1, &number, &number));
    FAILS(TRANSOM_ERR_ARG, "ranks is NULL", transom_job_subset(world, 1, NULL, &job));
    FAILS(TRANSOM_ERR_ARG, "ranks: the number -1 is negative", transom_job_subset(world, -1, NULL, &job));
    FAILS(TRANSOM_ERR_ARG, "job is NULL", transom_window_allocate(NULL, 8, 8, NULL, &base, &none));
    FAILS(TRANSOM_ERR_ARG, "base is NULL", transom_window_allocate(world, 8, 8, NULL, NULL, &none));
    FAILS(TRANSOM_ERR_ARG, "window is NULL", transom_window_allocate(world, 8, 8, NULL, &base, NULL));
    FAILS(TRANSOM_ERR_ARG, "window is NULL", transom_window_create(world, &value, 8, 8, NULL, NULL));
    FAILS(TRANSOM_ERR_ARG, "window is NULL", transom_window_free(NULL));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_window_free(&none));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_window_fence(NULL, 0));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_put_bytes(NULL, &value, 8, 0, 0));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_window_flush_all(NULL));
    FAILS(TRANSOM_ERR_WIN, "window is NULL", transom_window_part(NULL, &base, &bytes, &unit));
    FAILS(TRANSOM_ERR_ARG, "base is NULL", transom_window_part(window, NULL, &bytes, &unit));
    FAILS(TRANSOM_ERR_ARG, "request is NULL", transom_request_wait(NULL));
    FAILS(TRANSOM_ERR_ARG, "request is NULL", transom_request_free(&request));
    FAILS(TRANSOM_ERR_ARG, "requests is NULL", transom_request_wait_all(3, NULL));
    FAILS(TRANSOM_ERR_ARG, "info is NULL", transom_info_create(NULL));
    FAILS(TRANSOM_ERR_ARG, "info is NULL", transom_info_set(NULL, "a", "b"));
    FAILS(TRANSOM_ERR_ARG, "info is NULL", transom_info_free(&info));
    FAILS(TRANSOM_ERR_TYPE, "datatype is NULL", transom_type_size(NULL, &bytes));
    FAILS(TRANSOM_ERR_ARG, "size is NULL", transom_type_size(TRANSOM_INT, NULL));
    CHECK(none == NULL && job == NULL && info == NULL && base == NULL);
}

static void wrong_arguments(void) {
    OK(transom_window_lock_all(window, 0));
    FAILS(TRANSOM_ERR_RANK, "there is no rank -7", transom_put_bytes(window, &value, 8, -7, 0));
    FAILS(TRANSOM_ERR_RANK, "ranks are 0 to", transom_put_bytes(window, &value, 8, size, 0));
    FAILS(TRANSOM_ERR_RMA_RANGE, "which has 64 bytes", transom_put_bytes(window, &value, 8, next, 8));
    FAILS(TRANSOM_ERR_RMA_RANGE, "outside", transom_put_bytes(window, &value, 8, next, UINT64_MAX));
    FAILS(TRANSOM_ERR_ARG, "origin is NULL", transom_put_bytes(window, NULL, 8, next, 0));
    FAILS(TRANSOM_ERR_ARG, "origin is NULL", transom_get_bytes(window, NULL, 8, next, 0));
    FAILS(TRANSOM_ERR_ARG, "origin is NULL", transom_put(window, NULL, 1, TRANSOM_LONG, next, 0, 1, TRANSOM_LONG));
    FAILS(TRANSOM_ERR_TYPE, "datatype is NULL", transom_put(window, &value, 1, NULL, next, 0, 1, TRANSOM_LONG));
    FAILS(TRANSOM_ERR_TYPE, "", transom_put(window, &value, 1, TRANSOM_LONG, next, 0, 1, TRANSOM_DOUBLE));
    transom_datatype *unknown = (transom_datatype *)60;
    FAILS(TRANSOM_ERR_TYPE, "the number 60", transom_put(window, &value, 1, unknown, next, 0, 1, TRANSOM_LONG));
    FAILS(TRANSOM_ERR_OP, "does not exist",
          transom_accumulate(window, &value, 1, TRANSOM_LONG, next, 0, 1, TRANSOM_LONG, 0));
    FAILS(TRANSOM_ERR_OP, "", transom_fetch_and_op(window, &value, &result, TRANSOM_DOUBLE, next, 0, TRANSOM_BAND));
    FAILS(TRANSOM_ERR_TYPE, "", transom_compare_and_swap(window, &value, &value, &result, TRANSOM_DOUBLE, next, 0));
    FAILS(TRANSOM_ERR_ARG, "result is NULL", transom_fetch_and_op(window, &value, NULL, TRANSOM_LONG, next, 0, TRANSOM_SUM));
    FAILS(TRANSOM_ERR_ARG, "compare is NULL", transom_compare_and_swap(window, &value, NULL, &result, TRANSOM_LONG, next, 0));
    OK(transom_window_unlock_all(window));
    FAILS(TRANSOM_ERR_LOCKTYPE, "lock type 3", transom_window_lock(window, 3, next, 0));
    FAILS(TRANSOM_ERR_ASSERT, "bits that MPI does not define", transom_window_fence(window, 64));
    FAILS(TRANSOM_ERR_ASSERT, "", transom_window_fence(window, TRANSOM_MODE_NOCHECK));
    FAILS(TRANSOM_ERR_RMA_FLAVOR, "", transom_window_attach(window, &value, 8));
    FAILS(TRANSOM_ERR_RANK, "", transom_window_start(window, 1, &size, 0));
    FAILS(TRANSOM_ERR_ARG, "targets is NULL", transom_window_start(window, 1, NULL, 0));
}

static void wrong_epochs(void) {
    transom_window *same = window;
    FAILS(TRANSOM_ERR_RMA_SYNC, "put", transom_put_bytes(window, &value, 8, next, 0));
    FAILS(TRANSOM_ERR_RMA_SYNC, "unlock", transom_window_unlock(window, next));
    FAILS(TRANSOM_ERR_RMA_SYNC, "complete", transom_window_complete(window));
    FAILS(TRANSOM_ERR_RMA_SYNC, "wait", transom_window_wait(window));
    OK(transom_window_lock(window, TRANSOM_LOCK_SHARED, next, 0));
    FAILS(TRANSOM_ERR_RMA_SYNC, "", transom_window_lock_all(window, 0));
    FAILS(TRANSOM_ERR_RMA_SYNC, "free", transom_window_free(&window));
    CHECK(window == same);
    OK(transom_window_unlock(window, next));
}

/* Illegal values of hints fail at all ranks, and no rank has the window. */
static void wrong_windows(void) {
    transom_window *none = NULL;
    transom_info *info = NULL;
    void *base = NULL;
    FAILS(TRANSOM_ERR_BASE, "base is null", transom_window_create(world, NULL, 8, 8, NULL, &none));
    FAILS(TRANSOM_ERR_DISP, "", transom_window_allocate(world, 8, 0, NULL, &base, &none));
    FAILS(TRANSOM_ERR_SIZE, "", transom_window_allocate(world, (uint64_t)1 << 62, 1, NULL, &base, &none));
    OK(transom_info_create(&info));
    OK(transom_info_set(info, "no_locks", "perhaps"));
    FAILS(TRANSOM_ERR_INFO_VALUE, "no_locks", transom_window_allocate(world, 8, 8, info, &base, &none));
    OK(transom_info_free(&info));
    CHECK(none == NULL && base == NULL);
}

/* NULL at one rank: the creation fails at all. */
static void null_at_one_rank(void) {
    transom_window *none = NULL, **slot = me == 0 ? NULL : &none;
    void *base = NULL;
    CHECK(transom_window_create(world, &value, 8, 8, NULL, slot) != TRANSOM_SUCCESS);
    CHECK(transom_window_allocate(world, 8, 8, NULL, &base, slot) != TRANSOM_SUCCESS);
    CHECK(transom_window_allocate(world, 8, 8, NULL, me == 0 ? NULL : &base, &none) != TRANSOM_SUCCESS);
    CHECK(transom_window_allocate_shared(world, 8, 8, NULL, &base, slot) != TRANSOM_SUCCESS);
    CHECK(transom_window_create_dynamic(world, NULL, slot) != TRANSOM_SUCCESS);
    CHECK(none == NULL && base == NULL);
}

/* A request that an array has twice: the call changes nothing. */
static void one_request_twice(void) {
    transom_request *requests[2] = {NULL, NULL}, *kept;
    OK(transom_window_lock_all(window, 0));
    OK(transom_rput(window, &value, 0, TRANSOM_LONG, next, 0, 0, TRANSOM_LONG, &requests[0]));
    requests[1] = kept = requests[0];
    FAILS(TRANSOM_ERR_ARG, "element 1 is the request of an earlier", transom_request_wait_all(2, requests));
    CHECK(requests[0] == kept && requests[1] == kept);
    OK(transom_request_wait(&requests[0]));
    CHECK(requests[0] == NULL);
    OK(transom_window_unlock_all(window));
}

static void infos(void) {
    transom_info *info = NULL;
    char text[4] = "zzz";
    uint64_t room = sizeof text, keys = 0;
    int found = -1;
    OK(transom_info_create(&info));
    OK(transom_info_set(info, "colour", "green"));
    OK(transom_info_set(info, "shape", "round"));
    OK(transom_info_set(info, "colour", "red"));
    OK(transom_info_keys(info, &keys));
    CHECK(keys == 2);
    OK(transom_info_get(info, "colour", text, &room, &found));
    CHECK(found == 1 && room == 4 && strcmp(text, "red") == 0);
    OK(transom_info_get(info, "shape", text, &room, &found));
    CHECK(found == 1 && room == 6 && strcmp(text, "rou") == 0);
    room = 0;
    OK(transom_info_key(info, 0, NULL, &room));
    CHECK(room == 7);
    OK(transom_info_get(info, "size", text, &room, &found));
    CHECK(found == 0);
    FAILS(TRANSOM_ERR_ARG, "no key 2", transom_info_key(info, 2, text, &room));
    FAILS(TRANSOM_ERR_ARG, "key is not UTF-8", transom_info_set(info, "\xff", "x"));
    FAILS(TRANSOM_ERR_ARG, "value is NULL", transom_info_set(info, "x", NULL));
    OK(transom_info_free(&info));
}

static void *other_thread(void *first) {
    CHECK(strcmp(transom_last_error(), "") == 0);
    FAILS(TRANSOM_ERR_RANK, "-9", transom_window_flush(window, -9));
    return first;
}

/* Each thread has the text of its own last error. */
static void texts(void) {
    pthread_t thread;
    FAILS(TRANSOM_ERR_RANK, "-5", transom_window_flush(window, -5));
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(strstr(transom_last_error(), "-5") != NULL);
    CHECK(strcmp(transom_error_string(TRANSOM_ERR_RANK), "TRANSOM_ERR_RANK: invalid rank") == 0);
    CHECK(strncmp(transom_error_string(TRANSOM_SUCCESS), "TRANSOM_SUCCESS", 15) == 0);
    CHECK(strstr(transom_error_string(-1), "unknown") != NULL && strstr(transom_error_string(1000), "unknown") != NULL);
    CHECK(strchr(transom_version(), '.') != NULL);
}

int main(void) {
    void *base = NULL;
    begin();
    OK(transom_window_allocate(world, 64, 8, NULL, &base, &window));
    without_handles();
    wrong_arguments();
    wrong_epochs();
    wrong_windows();
    null_at_one_rank();
    one_request_twice();
    infos();
    texts();
    /* The refused calls had no effect: the window is unchanged, and works. */
    CHECK(*(int64_t *)base == 0 && result == 2);
    OK(transom_window_fence(window, 0));
    OK(transom_put_bytes(window, &value, 8, next, 0));
    OK(transom_window_fence(window, 0));
    CHECK(*(int64_t *)base == 1);
    OK(transom_window_free(&window));
    return end("errors");
}
