/*
 * Sweep: calls that MPI forbids, and legal ones at the edge of that: each operation with each wrong
 * argument in each epoch, and every sequence of three synchronization calls on a window of one
 * rank. Errors return; the outcome is the class of each call.
 */
#include "sweep_places.h"

enum state { NO_EPOCH, FENCE, LOCK_SELF, LOCK_ALL, PSCW, STATES };
static const char *const state_names[STATES] = {"no_epoch", "fence", "lock_self", "lock_all", "pscw"};

enum operation { PUT, GET, ACC, GACC, FOP, CAS, RPUT, RGET, RACC, RGACC, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap", "rput", "rget", "raccumulate",
    "rget_accumulate",
};

enum fault {
    NOTHING_WRONG, EMPTY_FROM_NULL, NOBODY_FROM_NULL, EMPTY_BEYOND, AT_THE_END, RANK_NEGATIVE, RANK_BEYOND, DISP_NEGATIVE,
    DISP_BEYOND, COUNT_NEGATIVE, COUNT_BEYOND, ORIGIN_NO_TYPE, TARGET_NO_TYPE, ORIGIN_RAW, TARGET_RAW, NO_OP_AT_ALL, USER_OP,
    WRONG_OP, MIXED_TYPES, OP_REPLACE, FAULTS
};
static const char *const fault_names[FAULTS] = {
    "nothing", "count_0_of_null", "proc_null_of_null", "count_0_beyond", "last_element", "rank_negative", "rank_beyond",
    "disp_negative", "disp_beyond", "count_negative", "count_beyond", "origin_type_null", "target_type_null",
    "origin_uncommitted", "target_uncommitted", "op_null", "op_user", "op_undefined", "types_differ", "op_replace",
};

enum call {
    S_FENCE, S_FENCE_END, S_LOCK, S_LOCK_ALL, S_UNLOCK, S_UNLOCK_ALL, S_POST, S_START, S_COMPLETE, S_TEST, S_FLUSH, S_FLUSH_ALL,
    S_FLUSH_LOCAL, S_SYNC, S_PUT, S_BAD_ASSERT, S_LOCK_TYPE, S_LOCK_RANK, CALLS
};
static const char *const call_names[CALLS] = {
    "fence", "fence_end", "lock", "lock_all", "unlock", "unlock_all", "post", "start", "complete", "test", "flush", "flush_all",
    "flush_local", "sync", "put", "lock_bad_assert", "lock_bad_type", "lock_bad_rank",
};

static const enum place places[] = {IN_STATIC, ALLOCATED, SHARED, DYNAMIC};
enum { CREATED = 4, ARGUMENTS = CREATED * STATES * OPERATIONS * FAULTS, SEQUENCES = CALLS * CALLS * CALLS };

/* Sequences alternate with arguments, so that the first cases have both. */
static long cases(void) { return ARGUMENTS + SEQUENCES; }

struct test { int is_sequence; enum place place; enum state state; enum operation op; enum fault fault; enum call calls[3]; };

/* The order of cases comes from a step coprime to their number, so that the first ones are of all
 * kinds. */
static struct test test_of(long number) {
    long part = number * 7919 % cases();
    struct test t = {.is_sequence = part >= ARGUMENTS};
    if (t.is_sequence) {
        part -= ARGUMENTS;
        t.place = ALLOCATED;
        for (int i = 0; i < 3; i++) t.calls[i] = part % CALLS, part /= CALLS;
        return t;
    }
    t.fault = part % FAULTS, part /= FAULTS;
    t.op = part % OPERATIONS, part /= OPERATIONS;
    t.state = part % STATES, part /= STATES;
    t.place = places[part];
    return t;
}

/* Whether MPI permits the sequence, on a window of one rank without further calls between. */
static int is_sequence_legal(const struct test *t) {
    enum { NONE, FENCED, LOCKED, ALL } access = NONE;
    int posted = 0, started = 0, is_completed = 0, issued = 0;
    for (int i = 0; i < 3; i++) {
        enum call c = t->calls[i];
        int passive = access == LOCKED || access == ALL;
        if (c >= S_BAD_ASSERT) return 0;
        if ((c == S_FENCE || c == S_FENCE_END) && (passive || posted || started)) return 0;
        if ((c == S_LOCK || c == S_LOCK_ALL) && (passive || started || posted || issued)) return 0;
        if (c == S_UNLOCK && access != LOCKED) return 0;
        if (c == S_UNLOCK_ALL && access != ALL) return 0;
        if ((c == S_FLUSH || c == S_FLUSH_ALL || c == S_FLUSH_LOCAL || c == S_SYNC) && !passive) return 0;
        if (c == S_POST && (posted || passive || issued)) return 0;
        if (c == S_START && (started || passive || !posted || issued)) return 0;
        if (c == S_COMPLETE && !started) return 0;
        if (c == S_TEST && !posted) return 0;
        if (c == S_PUT && access == NONE && !started) return 0;
        if (c == S_FENCE) access = FENCED, issued = 0;
        if (c == S_FENCE_END) access = NONE, issued = 0;
        if (c == S_LOCK) access = LOCKED;
        if (c == S_LOCK_ALL) access = ALL;
        if (c == S_UNLOCK || c == S_UNLOCK_ALL) access = NONE;
        if (c == S_POST) posted = 1, access = NONE;
        if (c == S_START) started = 1;
        if (c == S_COMPLETE) started = 0, is_completed = 1;
        if (c == S_TEST && is_completed) posted = is_completed = 0;
        if (c == S_PUT && access == FENCED) issued = 1;
    }
    return 1;
}

/* A start waits for its post: without a post it waits for ever, as MPI requires. */
static int waits_for_ever(const struct test *t) {
    int posts = 0;
    for (int i = 0; i < 3; i++) {
        if (t->calls[i] == S_POST) posts++;
        if (t->calls[i] == S_START && posts-- <= 0) return 1;
    }
    return 0;
}

static int takes_op(enum operation op) { return op == ACC || op == GACC || op == FOP || op == RACC || op == RGACC; }

/* Operations on one element have neither counts nor derived types. */
static int is_single(enum operation op) { return op == FOP || op == CAS; }

static int is_asked(const struct test *t) {
    if (t->is_sequence) return !waits_for_ever(t);
    if (is_single(t->op) && (t->fault == EMPTY_FROM_NULL || t->fault == EMPTY_BEYOND || t->fault == COUNT_NEGATIVE ||
                             t->fault == COUNT_BEYOND || t->fault == MIXED_TYPES || t->fault == TARGET_NO_TYPE || t->fault == TARGET_RAW))
        return 0;
    if (t->fault >= NO_OP_AT_ALL && t->fault != MIXED_TYPES && !takes_op(t->op)) return 0;
    if (t->place == DYNAMIC && (t->fault == DISP_NEGATIVE || t->fault == EMPTY_BEYOND)) return 0;
    return t->fault != MIXED_TYPES || takes_op(t->op);
}

static int has_epoch(const struct test *t) {
    if (t->op >= RPUT) return t->state == LOCK_SELF || t->state == LOCK_ALL;
    return t->state != NO_EPOCH;
}

static void describe(long number, char text[PARAMETERS]) {
    struct test t = test_of(number);
    if (!is_asked(&t)) {
        snprintf(text, PARAMETERS, "calls none");
    } else if (t.is_sequence) {
        snprintf(text, PARAMETERS, "calls %s sequence %s,%s,%s", is_sequence_legal(&t) ? "legal" : "illegal", call_names[t.calls[0]],
                 call_names[t.calls[1]], call_names[t.calls[2]]);
    } else {
        const char *kind = t.fault <= AT_THE_END || t.fault == OP_REPLACE ? "legal" : "illegal";
        snprintf(text, PARAMETERS, "calls %s %s %s %s %s", has_epoch(&t) ? kind : "illegal", fault_names[t.fault],
                 place_names[t.place], state_names[t.state], operation_names[t.op]);
    }
}

static struct window window = {.win = MPI_WIN_NULL};
static MPI_Group self_;

static void user_op(void *in, void *out, int *n, MPI_Datatype *type) { (void)in, (void)out, (void)n, (void)type; }

/* --- one operation with one wrong argument ------------------------------------------------------ */

static void issue(const struct test *t) {
    static long from[64], result[64], with[64];
    void *o = from, *r = result, *c = with;
    int n = 2, un = 2, target = rank_, last = BYTES / (int)sizeof(long);
    MPI_Datatype ot = MPI_LONG, ut = MPI_LONG, raw;
    MPI_Op op = MPI_SUM, made = MPI_OP_NULL;
    MPI_Aint at = place_of(&window, rank_, 0), unit = is_dynamic(t->place) ? (int)sizeof(long) : 1;
    MPI_Type_contiguous(1, MPI_LONG, &raw);
    switch (t->fault) {
    case EMPTY_FROM_NULL: o = r = NULL, n = un = 0; break;
    case NOBODY_FROM_NULL: o = r = c = NULL, target = MPI_PROC_NULL; break;
    case EMPTY_BEYOND: at = last + 5, n = un = 0; break;
    case AT_THE_END: at += (last - (is_single(t->op) ? 1 : 2)) * unit; break;
    case RANK_NEGATIVE: target = -77; break;
    case RANK_BEYOND: target = size_; break;
    case DISP_NEGATIVE: at = -3; break;
    case DISP_BEYOND: at += ((MPI_Aint)1 << 30) * unit; break;
    case COUNT_NEGATIVE: n = un = -1; break;
    case COUNT_BEYOND: at += (last - 1) * unit; break;
    case ORIGIN_NO_TYPE: ot = MPI_DATATYPE_NULL; break;
    case TARGET_NO_TYPE: ut = MPI_DATATYPE_NULL; break;
    case ORIGIN_RAW: ot = raw; break;
    case TARGET_RAW: ut = raw; break;
    case NO_OP_AT_ALL: op = MPI_OP_NULL; break;
    case USER_OP: MPI_Op_create(user_op, 1, &made), op = made; break;
    case WRONG_OP: ot = ut = MPI_DOUBLE, op = MPI_BAND; break;
    case MIXED_TYPES: ut = MPI_DOUBLE; break;
    case OP_REPLACE: op = MPI_REPLACE; break;
    default: break;
    }
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Win w = window.win;
    switch (t->op) {
    case PUT: CALL(Put, o, n, ot, target, at, un, ut, w); break;
    case GET: CALL(Get, o, n, ot, target, at, un, ut, w); break;
    case ACC: CALL(Accumulate, o, n, ot, target, at, un, ut, op, w); break;
    case GACC: CALL(Get_accumulate, o, n, ot, r, n, ot, target, at, un, ut, op, w); break;
    case FOP: CALL(Fetch_and_op, o, r, ot, target, at, op, w); break;
    case CAS: CALL(Compare_and_swap, o, c, r, ot, target, at, w); break;
    case RPUT: CALL(Rput, o, n, ot, target, at, un, ut, w, &q); break;
    case RGET: CALL(Rget, o, n, ot, target, at, un, ut, w, &q); break;
    case RACC: CALL(Raccumulate, o, n, ot, target, at, un, ut, op, w, &q); break;
    default: CALL(Rget_accumulate, o, n, ot, r, n, ot, target, at, un, ut, op, w, &q);
    }
    /* Whatever the result of the call, a program waits for the request that it got. */
    if (t->op >= RPUT) CALL(Wait, &q, MPI_STATUS_IGNORE);
    if (made != MPI_OP_NULL) MPI_Op_free(&made);
    MPI_Type_free(&raw);
}

static void in_state(const struct test *t) {
    MPI_Win w = window.win;
    if (t->state == FENCE) CALL(Win_fence, 0, w);
    if (t->state == LOCK_SELF) CALL(Win_lock, MPI_LOCK_SHARED, rank_, 0, w);
    if (t->state == LOCK_ALL) CALL(Win_lock_all, 0, w);
    if (t->state == PSCW) CALL(Win_post, self_, 0, w), CALL(Win_start, self_, 0, w);
    issue(t);
    if (t->state == FENCE) CALL(Win_fence, MPI_MODE_NOSUCCEED, w);
    if (t->state == LOCK_SELF) CALL(Win_unlock, rank_, w);
    if (t->state == LOCK_ALL) CALL(Win_unlock_all, w);
    if (t->state == PSCW) CALL(Win_complete, w), CALL(Win_wait, w);
}

/* --- three synchronization calls ----------------------------------------------------------------- */

static void one_call(enum call c, MPI_Win w, MPI_Group self) {
    static long x;
    int flag = 0;
    switch (c) {
    case S_FENCE: CALL(Win_fence, 0, w); break;
    case S_FENCE_END: CALL(Win_fence, MPI_MODE_NOSUCCEED, w); break;
    case S_LOCK: CALL(Win_lock, MPI_LOCK_SHARED, 0, 0, w); break;
    case S_LOCK_ALL: CALL(Win_lock_all, 0, w); break;
    case S_UNLOCK: CALL(Win_unlock, 0, w); break;
    case S_UNLOCK_ALL: CALL(Win_unlock_all, w); break;
    case S_POST: CALL(Win_post, self, 0, w); break;
    case S_START: CALL(Win_start, self, 0, w); break;
    case S_COMPLETE: CALL(Win_complete, w); break;
    case S_TEST: CALL(Win_test, w, &flag); say(flag ? "done" : "not done"); break;
    case S_FLUSH: CALL(Win_flush, 0, w); break;
    case S_FLUSH_ALL: CALL(Win_flush_all, w); break;
    case S_FLUSH_LOCAL: CALL(Win_flush_local, 0, w); break;
    case S_SYNC: CALL(Win_sync, w); break;
    case S_PUT: CALL(Put, &x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w); break;
    case S_BAD_ASSERT: CALL(Win_lock, MPI_LOCK_SHARED, 0, 1 << 30, w); break;
    case S_LOCK_TYPE: CALL(Win_lock, 12345, 0, 0, w); break;
    default: CALL(Win_lock, MPI_LOCK_SHARED, 7, 0, w);
    }
}

/* Closes open epochs as far as possible; a window that cannot be freed stays. */
static void closed(struct window *w) {
    int flag = 0;
    char kept[OUTCOME];
    strcpy(kept, said_);
    MPI_Win_unlock(0, w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Win_complete(w->win);
    MPI_Win_test(w->win, &flag);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    close_window(w);
    strcpy(said_, kept);
}

static void sequence(const struct test *t) {
    struct window w;
    open_window(&w, t->place, 1, MPI_INFO_NULL, MPI_COMM_SELF);
    MPI_Group self;
    MPI_Comm_group(MPI_COMM_SELF, &self);
    for (int i = 0; i < 3; i++) one_call(t->calls[i], w.win, self);
    MPI_Group_free(&self);
    closed(&w);
}

static void finish(void) {
    if (window.win != MPI_WIN_NULL) close_window(&window);
    if (self_) MPI_Group_free(&self_);
}

static void run_case(long number) {
    struct test t = test_of(number);
    if (!is_asked(&t)) return;
    if (t.is_sequence) { sequence(&t); return; }
    if (!self_) {
        MPI_Group world;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &rank_, &self_);
        MPI_Group_free(&world);
    }
    /* Most cases fail and leave their window in any state: each has its own. */
    open_window(&window, t.place, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD);
    if (window.win == MPI_WIN_NULL) return;
    in_state(&t);
    MPI_Barrier(MPI_COMM_WORLD);
    close_window(&window);
}
