/*
 * Every operation on every window, in every kind of epoch, on derived types, as numbered cases of
 * correct programs. The data are compared with the result that MPI requires. A round contains each
 * combination of window, epoch and operation once; the other parameters differ among rounds.
 */
#ifndef SWEEP_OPERATIONS_H
#define SWEEP_OPERATIONS_H

#include "sweep_issue.h"
#include "sweep_places.h"
#include "sweep_shapes.h"

enum { ROUNDS = 24 };

enum epoch {
    FENCE, FENCE_ASSERTED, PSCW, PSCW_TEST, PSCW_NOCHECK, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_NOCHECK, LOCK_FLUSH, LOCK_ALL,
    ALL_NOCHECK, ALL_FLUSH, ALL_FLUSH_ALL, ALL_LOCAL, ALL_LOCAL_ALL, EPOCHS
};
static const char *const epoch_names[EPOCHS] = {
    "fence", "fence_asserted", "pscw", "pscw_test", "pscw_nocheck", "lock_shared", "lock_exclusive", "lock_nocheck",
    "lock+flush", "lock_all", "lock_all_nocheck", "lock_all+flush", "lock_all+flush_all", "lock_all+flush_local",
    "lock_all+flush_local_all",
};

enum combining { SUM, MAX, REPLACE, NO_OP, BXOR, COMBININGS };
static const char *const combining_names[COMBININGS] = {"sum", "max", "replace", "no_op", "bxor"};

enum ending { WAIT, TEST, WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, ENDINGS };
static const char *const ending_names[ENDINGS] = {
    "wait", "test", "waitall", "waitany", "waitsome", "testall", "testany", "testsome",
};

enum target { NEXT, SELF, NOBODY, FIRST, TARGETS };
static const char *const target_names[TARGETS] = {"next", "self", "proc_null", "first"};

static const int counts[] = {0, 1, 3, 20};

struct test {
    enum place place;
    enum epoch epoch;
    enum operation op;
    enum combining combining;
    enum ending ending;
    enum target target;
    enum basic basic;
    enum shape origin_shape, target_shape, result_shape;
    int count, unit, whole_group, matches, is_large;
};

static inline long all_operations(void) { return (long)ROUNDS * PLACES * EPOCHS * OPERATIONS; }

/* The parameters of a case. Combinations that MPI forbids are replaced by permitted ones. */
static struct test test_of(long number) {
    long part = number;
    struct test t;
    t.op = part % OPERATIONS, part /= OPERATIONS;
    t.epoch = part % EPOCHS, part /= EPOCHS;
    t.place = part % PLACES;
    uint64_t seed = (uint64_t)number;
    if (is_request(t.op) && t.epoch < LOCK_SHARED) t.op -= RPUT - PUT;
    if (t.op == FOP + RPUT - PUT) t.op = FOP;
    t.combining = mixed(seed, 1) % COMBININGS, t.ending = mixed(seed, 2) % ENDINGS;
    t.target = mixed(seed, 3) % 8 < 4 ? NEXT : mixed(seed, 3) % 8 < 6 ? SELF : mixed(seed, 3) % 8 < 7 ? NOBODY : FIRST;
    t.basic = mixed(seed, 4) % BASICS;
    t.origin_shape = mixed(seed, 5) % 3 ? mixed(seed, 6) % SHAPES : PLAIN;
    t.target_shape = mixed(seed, 7) % 3 ? mixed(seed, 8) % SHAPES : PLAIN;
    t.result_shape = mixed(seed, 9) % 3 ? mixed(seed, 10) % SHAPES : PLAIN;
    t.count = counts[mixed(seed, 11) % 8 < 6 ? 1 + mixed(seed, 11) % 3 : 0];
    t.whole_group = mixed(seed, 12) % 2, t.matches = mixed(seed, 13) % 2;
    t.is_large = mixed(seed, 14) % 4 == 0 && !is_single(t.op);
    t.unit = is_dynamic(t.place) ? 1 : 1 << (t.place % 4);
    if (is_single(t.op)) t.origin_shape = t.target_shape = t.result_shape = PLAIN, t.count = 1;
    if (t.op == CAS && !is_integer(t.basic)) t.basic = INT64;
    if (t.combining == BXOR && !is_integer(t.basic)) t.combining = SUM;
    if (t.combining == MAX && t.basic == COMPLEX) t.combining = SUM;
    if (t.combining == NO_OP && !is_fetching(t.op)) t.combining = REPLACE;
    if (t.target == FIRST && (!combines(t.op) || t.combining > MAX)) t.target = NEXT;
    if (is_empty(t.place)) t.count = 0;
    if (is_empty(t.place) && is_single(t.op)) t.target = NOBODY, t.count = 1;
    return t;
}

static inline void describe_operation(long number, char text[PARAMETERS]) {
    struct test t = test_of(number);
    int used = snprintf(text, PARAMETERS, "%s %s %s to=%s count=%d %s %s>%s", place_names[t.place], epoch_names[t.epoch],
                        operation_names[t.op], target_names[t.target], t.count, basic_names[t.basic],
                        shapes[t.origin_shape].name, shapes[t.target_shape].name);
    if (is_fetching(t.op)) used += snprintf(text + used, PARAMETERS - used, ">%s", shapes[t.result_shape].name);
    if (combines(t.op)) used += snprintf(text + used, PARAMETERS - used, " %s", combining_names[t.combining]);
    if (is_request(t.op)) used += snprintf(text + used, PARAMETERS - used, " %s", ending_names[t.ending]);
    if (t.epoch >= PSCW && t.epoch <= PSCW_NOCHECK)
        used += snprintf(text + used, PARAMETERS - used, " %s", t.whole_group ? "all_ranks" : "partners");
    if (t.is_large) snprintf(text + used, PARAMETERS - used, " large_counts");
}

/* --- the expected result -------------------------------------------------------------------- */

static OWN long long origin_[SHARE / 8], result_[SHARE / 8], compare_[2];
static OWN int held[SHARE], fetched[SHARE], sent[SHARE];

/* The number of elements of an operation, and the capacity of a buffer. */
static int elements(const struct test *t) {
    return t->origin_shape == PLAIN && t->target_shape == PLAIN && (t->result_shape == PLAIN || !is_fetching(t->op))
               ? t->count : 4 * t->count;
}
static int room(const struct test *t) { return SHARE / sizes_of_basics[t->basic]; }

static int in_window(int rank, int place) { return (place * 3 + rank * 5) % 23; }
static int in_origin(int rank, int place) { return (place * 7 + rank * 3 + 1) % 19; }
static int in_result(int rank, int place) { return (place * 5 + rank * 2 + 4) % 17; }

static int combined(enum combining op, int old, int operand) {
    switch (op) {
    case SUM: return old + operand;
    case MAX: return old > operand ? old : operand;
    case REPLACE: return operand;
    case BXOR: return old ^ operand;
    default: return old;
    }
}

static int target_of(const struct test *t, int rank) {
    if (t->target == NOBODY) return MPI_PROC_NULL;
    return t->target == SELF ? rank : t->target == FIRST ? 0 : (rank + 1) % size_;
}

/* What a compare and swap of this rank compares with. */
static int compared(const struct test *t, int rank) {
    int old = in_window(target_of(t, rank) < 0 ? rank : target_of(t, rank), AHEAD);
    return t->matches ? old : old + 1;
}

/* The effect of one rank's operation on the memory of its target, as MPI defines it. */
static void perform(const struct test *t, int by, int *memory) {
    for (int k = 0; k < elements(t); k++) {
        int *at = &memory[AHEAD + place_in(t->target_shape, k)];
        int operand = in_origin(by, AHEAD + place_in(t->origin_shape, k));
        if (t->op == PUT || t->op == RPUT) *at = operand;
        else if (combines(t->op)) *at = combined(t->combining, *at, operand);
        else if (t->op == CAS && *at == compared(t, by)) *at = operand;
    }
}

static void expect(const struct test *t) {
    int places = room(t), target = target_of(t, rank_);
    for (int i = 0; i < places; i++) {
        held[i] = in_window(rank_, i), sent[i] = in_origin(rank_, i), fetched[i] = in_result(rank_, i);
    }
    if (t->target == NOBODY) return;
    for (int k = 0; k < elements(t); k++) {
        int value = in_window(target, AHEAD + place_in(t->target_shape, k));
        if (t->op == GET || t->op == RGET) sent[AHEAD + place_in(t->origin_shape, k)] = value;
        if (is_fetching(t->op)) fetched[AHEAD + place_in(t->result_shape, k)] = value;
    }
    for (int by = 0; by < size_; by++)
        if (target_of(t, by) == rank_) perform(t, by, held);
}

static void compare(const struct test *t, const char *what, const char *memory, const int *expected) {
    for (int i = 0; i < room(t); i++) {
        int is = get_element(t->basic, memory, i);
        if (is == expected[i]) continue;
        say("%s wrong", what);
        fprintf(stderr, "rank %d: %s[%d] is %d, not %d\n", rank_, what, i - AHEAD, is, expected[i]);
        return;
    }
}

/* --- the run --------------------------------------------------------------------------------- */

static OWN struct window window;
static OWN int window_unit;

static void completed(enum ending ending, MPI_Request *request) {
    int flag = 0, index = 0, n = 1;
    switch (ending) {
    case WAIT: CALL(Wait, request, MPI_STATUS_IGNORE); break;
    case TEST: while (!flag && !failed_) CALL(Test, request, &flag, MPI_STATUS_IGNORE); break;
    case WAITALL: CALL(Waitall, 1, request, MPI_STATUSES_IGNORE); break;
    case WAITANY: CALL(Waitany, 1, request, &index, MPI_STATUS_IGNORE); break;
    case WAITSOME: CALL(Waitsome, 1, request, &n, &index, MPI_STATUSES_IGNORE); break;
    case TESTALL: while (!flag && !failed_) CALL(Testall, 1, request, &flag, MPI_STATUSES_IGNORE); break;
    case TESTANY: while (!flag && !failed_) CALL(Testany, 1, request, &index, &flag, MPI_STATUS_IGNORE); break;
    default: for (n = 0; n == 0 && !failed_;) CALL(Testsome, 1, request, &n, &index, MPI_STATUSES_IGNORE);
    }
    if (index != 0 || n != 1) say("index=%d n=%d", index, n);
    if (*request != MPI_REQUEST_NULL) say("request left");
}

static void issue_test(const struct test *t, int target) {
    int each = sizes_of_basics[t->basic], n = elements(t);
    const MPI_Op combining[] = {MPI_SUM, MPI_MAX, MPI_REPLACE, MPI_NO_OP, MPI_BXOR};
    MPI_Datatype basic = basic_of(t->basic);
    MPI_Datatype o = type_of(t->origin_shape, basic, each), u = type_of(t->target_shape, basic, each);
    MPI_Datatype r = type_of(t->result_shape, basic, each);
    struct arguments arguments = {
        .origin = (char *)origin_ + AHEAD * each, .result = (char *)result_ + AHEAD * each, .compared = compare_,
        .origin_count = n / elements_of(t->origin_shape), .result_count = n / elements_of(t->result_shape),
        .target_count = n / elements_of(t->target_shape), .origin_type = o, .result_type = r, .target_type = u,
        .target = target, .at = window.bytes ? place_of(&window, target, AHEAD * each) : 0,
        .op = combining[t->combining], .win = window.win,
    };
    MPI_Request request = MPI_REQUEST_NULL;
    issue_by(t->is_large, t->op, &arguments, &request);
    if (is_request(t->op) && !failed_) completed(t->ending, &request);
    /* Types may be freed while operations use them. */
    if (t->origin_shape != PLAIN) MPI_Type_free(&o);
    if (t->target_shape != PLAIN) MPI_Type_free(&u);
    if (t->result_shape != PLAIN) MPI_Type_free(&r);
}

static void posted(const struct test *t, int target) {
    MPI_Group all, to = MPI_GROUP_EMPTY, from = MPI_GROUP_EMPTY;
    int origins[8], n = 0, flag = 0, nocheck = t->epoch == PSCW_NOCHECK ? MPI_MODE_NOCHECK : 0;
    MPI_Win_get_group(window.win, &all);
    for (int by = 0; by < size_; by++)
        if (target_of(t, by) == rank_) origins[n++] = by;
    if (t->whole_group) {
        to = from = all;
    } else {
        if (n) MPI_Group_incl(all, n, origins, &from);
        if (target >= 0) MPI_Group_incl(all, 1, &target, &to);
    }
    CALL(Win_post, from, nocheck, window.win);
    if (nocheck) MPI_Barrier(comm_);
    CALL(Win_start, to, nocheck, window.win);
    issue_test(t, target);
    CALL(Win_complete, window.win);
    if (t->epoch == PSCW_TEST) while (!flag && !CALL(Win_test, window.win, &flag)) continue;
    else CALL(Win_wait, window.win);
    if (!t->whole_group && n) MPI_Group_free(&from);
    if (!t->whole_group && target >= 0) MPI_Group_free(&to);
    MPI_Group_free(&all);
}

static void flushed(const struct test *t, int target) {
    switch (t->epoch) {
    case LOCK_FLUSH: case ALL_FLUSH: CALL(Win_flush, target, window.win); break;
    case ALL_FLUSH_ALL: CALL(Win_flush_all, window.win); break;
    case ALL_LOCAL: CALL(Win_flush_local, target, window.win); break;
    case ALL_LOCAL_ALL: CALL(Win_flush_local_all, window.win); break;
    default: return;
    }
    /* Each of these flushes completes the operation at the origin. */
    if (t->target == FIRST) return;
    compare(t, "flushed origin", (char *)origin_, sent);
    if (is_fetching(t->op)) compare(t, "flushed result", (char *)result_, fetched);
}

static void in_epoch(const struct test *t, int target) {
    int gets = t->op == GET;
    if (t->epoch <= FENCE_ASSERTED) {
        CALL(Win_fence, t->epoch == FENCE ? 0 : MPI_MODE_NOPRECEDE | (gets ? MPI_MODE_NOPUT : 0), window.win);
        issue_test(t, target);
        CALL(Win_fence, t->epoch == FENCE ? 0 : MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE, window.win);
    } else if (t->epoch <= PSCW_NOCHECK) {
        posted(t, target);
    } else if (t->epoch <= LOCK_FLUSH) {
        int type = t->epoch == LOCK_EXCLUSIVE ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
        CALL(Win_lock, type, target, t->epoch == LOCK_NOCHECK ? MPI_MODE_NOCHECK : 0, window.win);
        issue_test(t, target);
        flushed(t, target);
        CALL(Win_unlock, target, window.win);
    } else {
        CALL(Win_lock_all, t->epoch == ALL_NOCHECK ? MPI_MODE_NOCHECK : 0, window.win);
        issue_test(t, target);
        flushed(t, target);
        CALL(Win_unlock_all, window.win);
    }
}

static void fill_buffers(const struct test *t) {
    for (int i = 0; i < room(t); i++) {
        put_element(t->basic, (char *)origin_, i, in_origin(rank_, i));
        put_element(t->basic, (char *)result_, i, in_result(rank_, i));
    }
    put_element(t->basic, (char *)compare_, 0, compared(t, rank_));
}

/* This rank's loads and stores are in a separate epoch, as every memory model permits. */
static void fill_memory(const struct test *t) {
    for (int i = 0; i < room(t) && window.bytes; i++)
        put_element(t->basic, window.memory + window.first, i, in_window(rank_, i));
}

static void compare_memory(const struct test *t) {
    if (window.bytes) compare(t, "memory", window.memory + window.first, held);
}

static void compare_buffers(const struct test *t) {
    if (t->target == FIRST) return;
    compare(t, "origin", (char *)origin_, sent);
    if (is_fetching(t->op)) compare(t, "result", (char *)result_, fetched);
}

static void compare_guard(void) {
    for (int i = 0; i < GUARD && window.place == IN_PART; i++)
        if (in_guarded[i] || in_guarded[BYTES + GUARD + i]) say("guard overwritten"), i = GUARD;
}

/* A thread's window stays for the cases that follow, as long as they are on the same place. */
static inline void close_operations(void) {
    if (in_stack) close_window(&window);
}

static inline void run_operation(long number) {
    static OWN long long stack_of_main[BYTES / 8];
    struct test t = test_of(number);
    if (!in_stack) in_stack = (char *)stack_of_main, window.win = MPI_WIN_NULL;
    if (window.win == MPI_WIN_NULL || window.place != t.place || window_unit != t.unit) {
        close_window(&window);
        open_window(&window, t.place, t.unit, MPI_INFO_NULL, comm_);
        window_unit = t.unit;
    }
    if (window.win == MPI_WIN_NULL) return;
    expect(&t);
    CALL(Win_lock, MPI_LOCK_EXCLUSIVE, rank_, 0, window.win);
    fill_buffers(&t);
    fill_memory(&t);
    CALL(Win_unlock, rank_, window.win);
    MPI_Barrier(comm_);
    in_epoch(&t, target_of(&t, rank_));
    MPI_Barrier(comm_);
    CALL(Win_lock, MPI_LOCK_EXCLUSIVE, rank_, 0, window.win);
    compare_memory(&t);
    compare_buffers(&t);
    CALL(Win_unlock, rank_, window.win);
    compare_guard();
    /* After a failure a window may be in any state. */
    int worst = failed_;
    MPI_Allreduce(&failed_, &worst, 1, MPI_INT, MPI_MAX, comm_);
    if (worst) close_window(&window);
}

#endif
