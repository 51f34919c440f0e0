/* All calls of the draft of RMA notification: the data that each operation moves, its count at the
 * target, and every way to read a counter. On windows that the MPI serves, every call fails with
 * the class of counters that do not exist. */
#include "check.h"

#include "../../include/transom_mpi_notify.h"

enum { LONG = 40000, ROUNDS = 6, COUNTERS = 16 };

static MPI_Win win;
static long *part;
static int next_, before_;

static long value_of(int index) {
    MPI_Count value = 99;
    return MPI_Win_get_notify_value(win, index, &value) == MPI_SUCCESS ? (long)value : -1;
}

/* Waits for a value: by polling, or by a request among requests of the host. */
static void reach(int index, long value, int by_request) {
    if (!by_request) {
        while (value_of(index) < value) continue;
        return;
    }
    MPI_Request q[2];
    MPI_Win_notify_threshold(win, index, value, &q[0]);
    MPI_Ibarrier(MPI_COMM_SELF, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}

/* The data has arrived as soon as the counter changes. */
static void data_first(void) {
    static long data[LONG];
    static const int lengths[] = {1, 100, LONG};
    long bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = lengths[round % 3];
        for (int i = 0; i < n; i++) data[i] = 1000 * rank_ + round;
        MPI_Put_notify(data, n, MPI_LONG, next_, 0, n, MPI_LONG, 0, win);
        reach(0, round + 1, round % 2);
        for (int i = 0; i < n; i++) bad |= part[i] != 1000 * before_ + round;
        /* Notifies the previous process by an empty put: this process has read its part. */
        MPIX_Put_notify_c(NULL, 0, MPI_LONG, before_, 0, 0, MPI_LONG, 1, win);
        reach(1, round + 1, (round + 1) % 2);
        MPI_Win_flush_all(win);
    }
    check("data before its count", bad | (value_of(0) != ROUNDS) << 1 | (value_of(1) != ROUNDS) << 2);
}

/* The eight operations, under both prefixes of their names and in both forms. */
static void every_operation(void) {
    long data[4] = {1, 2, 3, 4}, ones[4] = {1, 1, 1, 1}, got[4] = {0}, old[4] = {0}, bad = 0;
    MPI_Request q;
    MPI_Datatype every_other;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Put_notify(data, 4, MPI_LONG, next_, 0, 4, MPI_LONG, 2, win);
    MPI_Put_notify_c(data, 1, every_other, next_, 4, 2, MPI_LONG, 3, win);
    MPI_Type_free(&every_other);
    MPI_Win_flush(next_, win);
    MPIX_Get_notify(got, 4, MPI_LONG, next_, 2, 4, MPI_LONG, 4, win);
    MPI_Win_flush(next_, win);
    bad |= got[0] != 3 || got[1] != 4 || got[2] != 1 || got[3] != 3;
    MPI_Get_notify_c(got, 1, MPI_LONG, next_, 3, 1, MPI_LONG, 4, win);
    MPI_Win_flush(next_, win);
    bad |= (got[0] != 4) << 1;
    MPI_Accumulate_notify(ones, 4, MPI_LONG, next_, 0, 4, MPI_LONG, MPI_SUM, 5, win);
    MPIX_Accumulate_notify_c(ones, 4, MPI_LONG, next_, 0, 4, MPI_LONG, MPI_SUM, 5, win);
    MPI_Get_accumulate_notify(ones, 4, MPI_LONG, old, 4, MPI_LONG, next_, 0, 4, MPI_LONG, MPI_SUM, 6, win);
    MPI_Win_flush(next_, win);
    bad |= (old[0] != 3 || old[3] != 6) << 2;
    MPI_Get_accumulate_notify_c(NULL, 0, MPI_LONG, old, 4, MPI_LONG, next_, 0, 4, MPI_LONG, MPI_NO_OP, 6, win);
    MPI_Win_flush(next_, win);
    bad |= (old[0] != 4 || old[3] != 7) << 3;
    MPI_Rput_notify(data, 4, MPI_LONG, next_, 8, 4, MPI_LONG, 7, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    MPI_Rput_notify_c(data, 4, MPI_LONG, next_, 8, 4, MPI_LONG, 7, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    MPI_Rget_notify(got, 4, MPI_LONG, next_, 8, 4, MPI_LONG, 8, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    bad |= (memcmp(got, data, sizeof got) != 0) << 4;
    MPI_Rget_notify_c(old, 4, MPI_LONG, next_, 8, 4, MPI_LONG, 8, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    bad |= (memcmp(old, data, sizeof old) != 0) << 5;
    MPI_Raccumulate_notify(ones, 4, MPI_LONG, next_, 8, 4, MPI_LONG, MPI_SUM, 9, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    MPI_Raccumulate_notify_c(ones, 4, MPI_LONG, next_, 8, 4, MPI_LONG, MPI_SUM, 9, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    MPI_Rget_accumulate_notify(ones, 4, MPI_LONG, old, 4, MPI_LONG, next_, 8, 4, MPI_LONG, MPI_REPLACE, 10, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    bad |= (old[0] != 3 || old[3] != 6) << 6;
    MPIX_Rget_accumulate_notify_c(ones, 4, MPI_LONG, old, 4, MPI_LONG, next_, 8, 4, MPI_LONG, MPI_SUM, 10, win, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Win_flush(next_, win);
    bad |= (old[0] != 1 || old[3] != 1) << 7;
    MPI_Put_notify(data, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, 11, win);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    static const long counts[COUNTERS] = {ROUNDS, ROUNDS, 1, 1, 2, 2, 2, 2, 2, 2, 2};
    for (int i = 0; i < COUNTERS; i++) bad |= (value_of(i) != counts[i]) << 8;
    bad |= (part[0] != 4 || part[3] != 7 || part[4] != 1 || part[5] != 3 || part[8] != 2 || part[11] != 2) << 9;
    check("every operation moves its data and counts once", bad);
}

static void counters(void) {
    MPI_Request q;
    MPI_Count value = 0;
    int done = 1, number = 0;
    long bad = MPI_Win_get_num_notify(win, next_, &number) != MPI_SUCCESS || number != COUNTERS + next_;
    bad |= (MPIX_Win_get_num_notify(win, rank_, &number) != MPI_SUCCESS || number != COUNTERS + rank_) << 1;
    MPIX_Win_notify_threshold(win, 12, 3, &q);
    MPI_Test(&q, &done, MPI_STATUS_IGNORE);
    bad |= (done != 0) << 2;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) MPI_Put_notify(NULL, 0, MPI_BYTE, next_, 0, 0, MPI_BYTE, 12, win);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    bad |= (value_of(12) != 3) << 3;
    bad |= (MPI_Win_reset_notify_value(win, 12, &value) != MPI_SUCCESS || value != 3) << 4;
    bad |= (MPIX_Win_reset_notify_value(win, 12, &value) != MPI_SUCCESS || value != 0) << 5;
    MPI_Count *highest;
    int *most, *soft, flag = 0;
    MPI_Win_get_attr(win, MPI_WIN_NOTIFICATION_NUM_UB, &most, &flag);
    bad |= (!flag || *most != 4096) << 6;
    MPI_Win_get_attr(win, MPI_WIN_NOTIFICATION_NUM_SB, &soft, &flag);
    bad |= (!flag || *soft < 1 || *soft > *most) << 7;
    MPI_Win_get_attr(win, MPIX_WIN_NOTIFICATION_VALUE_UB, &highest, &flag);
    bad |= (!flag || *highest < (MPI_Count)1 << 62) << 8;
    check("numbers, thresholds, resets and attributes", bad);
}

/* The eight operations under one prefix, in one form. Each operation sees the result of the
 * previous one. */
#define BY_NAME(prefix, form)                                                                                           \
    do {                                                                                                                \
        long one = 1, got = 0;                                                                                          \
        bad |= prefix##Put_notify##form(&one, 1, MPI_LONG, next_, 20, 1, MPI_LONG, 15, win) != MPI_SUCCESS;             \
        MPI_Win_flush(next_, win);                                                                                      \
        bad |= prefix##Get_notify##form(&got, 1, MPI_LONG, next_, 20, 1, MPI_LONG, 15, win) != MPI_SUCCESS;             \
        MPI_Win_flush(next_, win);                                                                                      \
        bad |= (got != 1) << 1;                                                                                         \
        prefix##Accumulate_notify##form(&one, 1, MPI_LONG, next_, 20, 1, MPI_LONG, MPI_SUM, 15, win);                   \
        prefix##Get_accumulate_notify##form(&one, 1, MPI_LONG, &got, 1, MPI_LONG, next_, 20, 1, MPI_LONG, MPI_SUM, 15,  \
                                            win);                                                                       \
        MPI_Win_flush(next_, win);                                                                                      \
        bad |= (got != 2) << 2;                                                                                         \
        prefix##Rput_notify##form(&one, 1, MPI_LONG, next_, 20, 1, MPI_LONG, 15, win, &q);                              \
        MPI_Wait(&q, MPI_STATUS_IGNORE);                                                                                \
        MPI_Win_flush(next_, win);                                                                                      \
        prefix##Rget_notify##form(&got, 1, MPI_LONG, next_, 20, 1, MPI_LONG, 15, win, &q);                              \
        MPI_Wait(&q, MPI_STATUS_IGNORE);                                                                                \
        bad |= (got != 1) << 3;                                                                                         \
        prefix##Raccumulate_notify##form(&one, 1, MPI_LONG, next_, 20, 1, MPI_LONG, MPI_SUM, 15, win, &q);              \
        MPI_Wait(&q, MPI_STATUS_IGNORE);                                                                                \
        prefix##Rget_accumulate_notify##form(&one, 1, MPI_LONG, &got, 1, MPI_LONG, next_, 20, 1, MPI_LONG, MPI_SUM, 15, \
                                             win, &q);                                                                  \
        MPI_Wait(&q, MPI_STATUS_IGNORE);                                                                                \
        bad |= (got != 2) << 4;                                                                                         \
    } while (0)

static void every_name(void) {
    long bad = 0;
    MPI_Request q;
    MPI_Count value = 0, again = 0;
    BY_NAME(MPI_, );
    BY_NAME(MPIX_, );
    BY_NAME(MPI_, _c);
    BY_NAME(MPIX_, _c);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    bad |= (MPI_Win_get_notify_value(win, 15, &value) != MPI_SUCCESS || value != 32) << 5;
    bad |= (MPIX_Win_get_notify_value(win, 15, &again) != MPI_SUCCESS || again != 32) << 6;
    bad |= (part[20] != 3) << 7;
    static const int attributes[][2] = {
        {MPI_WIN_NOTIFICATION_NUM_SB, MPIX_WIN_NOTIFICATION_NUM_SB},
        {MPI_WIN_NOTIFICATION_NUM_UB, MPIX_WIN_NOTIFICATION_NUM_UB},
        {MPI_WIN_NOTIFICATION_VALUE_UB, MPIX_WIN_NOTIFICATION_VALUE_UB},
    };
    for (int i = 0; i < 3; i++) {
        void *one = NULL, *other = NULL;
        int flag = 0, flag_x = 0;
        MPI_Win_get_attr(win, attributes[i][0], &one, &flag);
        MPI_Win_get_attr(win, attributes[i][1], &other, &flag_x);
        if (!flag || !flag_x) bad |= 1 << 8;
        else if (i == 2) bad |= (*(MPI_Count *)one != *(MPI_Count *)other) << 9;
        else bad |= (*(int *)one != *(int *)other) << 10;
    }
    check("every name with MPI_ and with MPIX_", bad);
}

/* The last of 4096 counters of each process is incremented, and no other. */
static void last_counter(void) {
    long one = 1, bad = 0;
    MPI_Count value = 0;
    for (int i = 0; i < 5; i++) {
        bad |= MPI_Put_notify(&one, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 4095, win) != MPI_SUCCESS;
    }
    reach(4095, 5, 1);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4095; i++) bad |= (value_of(i) != 0) << 1;
    bad |= (MPI_Win_reset_notify_value(win, 4095, &value) != MPI_SUCCESS || value != 5 || value_of(4095) != 0) << 2;
    check("the last of 4096 counters", bad);
}

/* Refused operations move no data and are not counted. */
static void refused(void) {
    long x = -5;
    MPI_Count value;
    MPI_Request q;
    int none = MPI_ERR_RMA_NOTIFICATION, length = 0;
    char text[MPI_MAX_ERROR_STRING];
    int code = MPI_Put_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, COUNTERS + next_, win);
    long bad = class_of(code) != none || none == MPI_ERR_OTHER || none != MPIX_ERR_RMA_NOTIFICATION;
    MPI_Error_string(code, text, &length);
    bad |= (length == 0) << 1;
    bad |= (class_of(MPI_Put_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, -1, win)) != none) << 2;
    bad |= (class_of(MPI_Rget_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 4096, win, &q)) != none) << 3;
    bad |= (q != MPI_REQUEST_NULL) << 4;
    bad |= (class_of(MPI_Accumulate_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, MPI_SUM, 4096, win)) != none) << 5;
    bad |= (class_of(MPI_Win_get_notify_value(win, COUNTERS + rank_, &value)) != none) << 6;
    bad |= (class_of(MPI_Win_notify_threshold(win, -2, 1, &q)) != none || q != MPI_REQUEST_NULL) << 7;
    bad |= (class_of(MPI_Put_notify(&x, 1, MPI_LONG, next_, LONG, 1, MPI_LONG, 14, win)) != MPI_ERR_RMA_RANGE) << 8;
    /* An operation on MPI_PROC_NULL has no counter. */
    static const int indices[] = {-1, 99, 5000};
    for (int i = 0; i < 3; i++) {
        bad |= (MPI_Put_notify(&x, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, indices[i], win) != MPI_SUCCESS) << 10;
        bad |= (MPI_Rget_notify(&x, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, indices[i], win, &q) != MPI_SUCCESS ||
                MPI_Wait(&q, MPI_STATUS_IGNORE) != MPI_SUCCESS) << 11;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    bad |= (value_of(14) != 0 || part[0] == -5) << 9;
    check("what is refused counts nothing", bad);
}

/* Operations without room for their requests move no data and are not counted. */
static void without_room(void) {
    long x = -5, kept[16];
    memcpy(kept, part, sizeof kept);
    long bad = class_of(MPI_Rput_notify(&x, 1, MPI_LONG, rank_, 0, 1, MPI_LONG, 13, win, NULL)) != MPI_ERR_ARG;
    bad |= (class_of(MPI_Rput(&x, 1, MPI_LONG, rank_, 1, 1, MPI_LONG, win, NULL)) != MPI_ERR_ARG) << 1;
    bad |= (class_of(MPI_Raccumulate(&x, 1, MPI_LONG, rank_, 2, 1, MPI_LONG, MPI_SUM, win, NULL)) != MPI_ERR_ARG) << 2;
    int code = MPI_Raccumulate_notify(&x, 1, MPI_LONG, rank_, 3, 1, MPI_LONG, MPI_SUM, 13, win, NULL);
    bad |= (class_of(code) != MPI_ERR_ARG) << 3;
    bad |= (class_of(MPI_Rget(&x, 1, MPI_LONG, rank_, 0, 1, MPI_LONG, win, NULL)) != MPI_ERR_ARG) << 4;
    bad |= (class_of(MPI_Rget_notify(&x, 1, MPI_LONG, rank_, 0, 1, MPI_LONG, 13, win, NULL)) != MPI_ERR_ARG) << 5;
    code = MPI_Rget_accumulate(&x, 1, MPI_LONG, &x, 1, MPI_LONG, rank_, 4, 1, MPI_LONG, MPI_SUM, win, NULL);
    bad |= (class_of(code) != MPI_ERR_ARG) << 6;
    code = MPI_Rget_accumulate_notify(&x, 1, MPI_LONG, &x, 1, MPI_LONG, rank_, 5, 1, MPI_LONG, MPI_SUM, 13, win, NULL);
    bad |= (class_of(code) != MPI_ERR_ARG) << 7;
    MPI_Win_flush_all(win);
    bad |= (memcmp(kept, part, sizeof kept) != 0) << 8 | (x != -5) << 9 | (value_of(13) != 0) << 10;
    check("an operation without room for its request", bad);
}

/* A process passes an invalid info: all fail, and the counters are unchanged. The host reports it,
 * as it does for MPI_Win_set_info. With the standard ABI the host crashes on an invalid handle. */
static void invalid_info(void) {
#ifdef MPI_ABI_VERSION
    printf("rank %d: no invalid info with the standard ABI\n", rank_);
#else
    MPI_Info none = (MPI_Info)0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int number = 0, class = class_of(MPI_Win_set_num_notify(win, rank_ == 0 ? none : MPI_INFO_NULL, 3));
    long bad = class != (rank_ == 0 ? class_of(MPI_Win_set_info(win, none)) : MPI_ERR_OTHER);
    bad |= (MPI_Win_get_num_notify(win, next_, &number) != MPI_SUCCESS || number != COUNTERS + next_) << 1;
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_max_num_notify", "77");
    bad |= (class_of(MPI_Win_set_num_notify(win, info, 4097)) != MPI_ERR_ARG) << 2;
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "mpi_assert_max_num_notify", MPI_MAX_INFO_VAL, value, &flag);
    bad |= (!flag || strcmp(value, "4096")) << 3;
    MPI_Info_free(&info);
    check("a refused number changes neither counters nor hints", bad);
#endif
}

/* A window that transom serves. */
static void served(void) {
    int number = -1;
    long x = 0;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    long bad = MPI_Win_get_num_notify(win, next_, &number) != MPI_SUCCESS || number != 0;
    bad |= (class_of(MPI_Win_set_num_notify(win, MPI_INFO_NULL, 4097)) != MPI_ERR_ARG) << 1;
    bad |= (class_of(MPI_Win_set_num_notify(win, MPI_INFO_NULL, -3)) != MPI_ERR_ARG) << 2;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_max_num_notify", "4096");
    MPI_Info_set(info, "mpi_assert_same_num_notifications", "false");
    bad |= (MPI_Win_set_num_notify(win, info, COUNTERS + rank_) != MPI_SUCCESS) << 3;
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &info);
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    MPI_Info_get(info, "mpi_assert_max_num_notify", MPI_MAX_INFO_VAL, value, &flag);
    bad |= (!flag || strcmp(value, "4096")) << 4;
    MPI_Info_get(info, "mpi_assert_same_num_notifications", MPI_MAX_INFO_VAL, value, &flag);
    bad |= (!flag || strcmp(value, "false")) << 5;
    MPI_Info_free(&info);
    int code = MPI_Put_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 0, win);
    bad |= (class_of(code) != MPI_ERR_RMA_SYNC) << 6;
    check("counters are set, and operations need an epoch", bad);
    MPI_Win_lock_all(0, win);
    data_first();
    every_operation();
    counters();
    refused();
    without_room();
    every_name();
    MPI_Win_unlock_all(win);
    invalid_info();
    bad = MPIX_Win_set_num_notify(win, MPI_INFO_NULL, 4096) != MPI_SUCCESS;
    check("all counters again", bad | (value_of(0) != 0 || value_of(4095) != 0) << 1);
    MPI_Win_lock_all(0, win);
    last_counter();
    MPI_Win_unlock_all(win);
}

/* A window that the MPI serves. */
static void of_host(void) {
    long x = 0, *value = NULL;
    MPI_Count count;
    MPI_Request q;
    int number, flag = 1, none = MPI_ERR_RMA_NOTIFICATION;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    long bad = class_of(MPI_Win_set_num_notify(win, MPI_INFO_NULL, 1)) != none;
    bad |= (class_of(MPI_Win_get_num_notify(win, 0, &number)) != none) << 1;
    MPI_Win_lock_all(0, win);
    bad |= (class_of(MPI_Put_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 0, win)) != none) << 2;
    bad |= (class_of(MPI_Rput_notify_c(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 0, win, &q)) != none) << 3;
    bad |= (q != MPI_REQUEST_NULL) << 4;
    MPI_Win_unlock_all(win);
    bad |= (class_of(MPI_Win_get_notify_value(win, 0, &count)) != none) << 5;
    bad |= (class_of(MPI_Win_notify_threshold(win, 0, 1, &q)) != none) << 6;
    bad |= (class_of(MPI_Win_notify_threshold(win, 0, 1, NULL)) != none) << 8;
    bad |= (class_of(MPI_Rput_notify(&x, 1, MPI_LONG, next_, 0, 1, MPI_LONG, 0, win, NULL)) != none) << 9;
    bad |= (MPI_Win_get_attr(win, MPI_WIN_NOTIFICATION_NUM_UB, &value, &flag) != MPI_SUCCESS || flag) << 7;
    check("a window of the MPI has no counters", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    next_ = (rank_ + 1) % size_, before_ = (rank_ + size_ - 1) % size_;
    if (MPI_Put_notify == NULL || MPIX_Win_notify_threshold == NULL) {
        check("without the library there are no such calls", by_transom());
        return end();
    }
    MPI_Win_allocate(LONG * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    if (by_transom()) served();
    else of_host();
    MPI_Win_free(&win);
    return end();
}
