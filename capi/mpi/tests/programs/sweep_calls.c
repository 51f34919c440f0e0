/*
 * Sweep: erroneous calls and similar correct ones: each operation with each wrong argument in each
 * epoch, and every sequence of three synchronization calls on a window of one rank. Errors return;
 * the outcome is the error class of each call.
 */
#include "sweep_issue.h"
#include "sweep_places.h"
#include <ctype.h>

enum state { NO_EPOCH, FENCE, LOCK_TARGET, LOCK_ALL, PSCW, STATES };
static const char *const state_names[STATES] = {"no_epoch", "fence", "lock", "lock_all", "pscw"};

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

enum target { SELF, NEXT, NOBODY, TARGETS };
static const char *const target_names[TARGETS] = {"self", "next", "proc_null"};

static const enum place places[] = {IN_STATIC, ALLOCATED, SHARED, DYNAMIC};
enum {
    CREATED = 4,
    ARGUMENTS = CREATED * STATES * OPERATIONS * FAULTS * TARGETS,
    SEQUENCES = CALLS * CALLS * CALLS
};

/* Sequences alternate with arguments, so that the first cases have both. */
static long cases(void) { return ARGUMENTS + SEQUENCES; }

struct test {
    int is_sequence;
    enum place place;
    enum state state;
    enum operation op;
    enum fault fault;
    enum target target;
    enum call calls[3];
};

/* Visits the cases by a step that is coprime to their number, so the first cases are of
 * all kinds. */
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
    t.target = part % TARGETS, part /= TARGETS;
    t.place = places[part];
    return t;
}

/* The open epochs of a window of one rank. */
struct epochs {
    enum { NONE, FENCED, LOCKED, ALL } access;
    int posted, started, is_completed, issued;
};

/* Whether MPI permits a call in these epochs (MPI-4.1 section 12.5). */
static int is_permitted(const struct epochs *e, enum call c) {
    int passive = e->access == LOCKED || e->access == ALL;
    switch (c) {
    case S_FENCE: case S_FENCE_END: return !passive && !e->posted && !e->started;
    case S_LOCK: case S_LOCK_ALL: return !passive && !e->started && !e->posted && !e->issued;
    case S_UNLOCK: return e->access == LOCKED;
    case S_UNLOCK_ALL: return e->access == ALL;
    case S_FLUSH: case S_FLUSH_ALL: case S_FLUSH_LOCAL: case S_SYNC: return passive;
    case S_POST: return !e->posted && !passive && !e->issued;
    case S_START: return !e->started && !passive && e->posted && !e->issued;
    case S_COMPLETE: return e->started;
    case S_TEST: return e->posted;
    case S_PUT: return e->access != NONE || e->started;
    default: return 0;
    }
}

/* The epochs after a call that MPI permits. */
static void take(struct epochs *e, enum call c) {
    if (c == S_FENCE) e->access = FENCED, e->issued = 0;
    if (c == S_FENCE_END) e->access = NONE, e->issued = 0;
    if (c == S_LOCK) e->access = LOCKED;
    if (c == S_LOCK_ALL) e->access = ALL;
    if (c == S_UNLOCK || c == S_UNLOCK_ALL) e->access = NONE;
    if (c == S_POST) e->posted = 1, e->access = NONE;
    if (c == S_START) e->started = 1;
    if (c == S_COMPLETE) e->started = 0, e->is_completed = 1;
    if (c == S_TEST && e->is_completed) e->posted = e->is_completed = 0;
    if (c == S_PUT && e->access == FENCED) e->issued = 1;
}

/* The class of an argument that is wrong in any epoch, or NULL. */
static const char *fault_of(enum call c) {
    return c == S_BAD_ASSERT ? "ASSERT" : c == S_LOCK_TYPE ? "LOCKTYPE" : c == S_LOCK_RANK ? "RANK" : NULL;
}

/* The outcome that MPI requires of the sequence, with `+` between words. Returns whether MPI
 * permits all of it. MPI_Win_sync outside of an epoch does nothing and is no error. */
static int sequence_wants(const struct test *t, char text[PARAMETERS]) {
    static const char *const names[CALLS] = {
        "Win_fence", "Win_fence", "Win_lock", "Win_lock_all", "Win_unlock", "Win_unlock_all", "Win_post", "Win_start",
        "Win_complete", "Win_test", "Win_flush", "Win_flush_all", "Win_flush_local", "Win_sync", "Put", "Win_lock",
        "Win_lock", "Win_lock",
    };
    struct epochs e = {NONE, 0, 0, 0, 0};
    int is_legal = 1;
    text[0] = 0;
    for (int i = 0; i < 3; i++) {
        enum call c = t->calls[i];
        char word[64] = "";
        int permitted = is_permitted(&e, c);
        const char *class = fault_of(c) ? fault_of(c) : "RMA_SYNC";
        if (!permitted && c != S_SYNC) snprintf(word, sizeof word, "%s=%s", names[c], class);
        if (c == S_TEST) snprintf(word + strlen(word), sizeof word - strlen(word), "%s%s", *word ? "+" : "",
                                  permitted && e.is_completed ? "done" : "not+done");
        if (permitted) take(&e, c);
        is_legal &= permitted;
        if (*word) snprintf(text + strlen(text), PARAMETERS - strlen(text), "%s%s", *text ? "+" : "", word);
    }
    if (!*text) strcpy(text, "ok");
    return is_legal;
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

static int is_asked(const struct test *t) {
    if (t->is_sequence) return !waits_for_ever(t);
    if (is_single(t->op) && (t->fault == EMPTY_FROM_NULL || t->fault == EMPTY_BEYOND || t->fault == COUNT_NEGATIVE ||
                             t->fault == COUNT_BEYOND || t->fault == MIXED_TYPES || t->fault == TARGET_NO_TYPE || t->fault == TARGET_RAW))
        return 0;
    if (t->fault == NOBODY_FROM_NULL && t->target != NOBODY) return 0;
    if (t->fault >= NO_OP_AT_ALL && t->fault != MIXED_TYPES && !combines(t->op)) return 0;
    if (t->place == DYNAMIC && (t->fault == DISP_NEGATIVE || t->fault == EMPTY_BEYOND)) return 0;
    return t->fault != MIXED_TYPES || combines(t->op);
}

/* Whether MPI permits the arguments. With MPI_PROC_NULL no displacement is checked. */
static int is_legal(const struct test *t) {
    if (t->target == NOBODY && (t->fault == DISP_NEGATIVE || t->fault == DISP_BEYOND || t->fault == COUNT_BEYOND)) return 1;
    return t->fault <= AT_THE_END || t->fault == OP_REPLACE;
}

static int has_epoch(const struct test *t) { return t->state != NO_EPOCH; }

/* Whether MPI permits the operation in the epoch. The library performs request forms in all epochs,
 * as hosts do. */
static int has_right_epoch(const struct test *t) {
    if (t->op >= RPUT) return t->state == LOCK_TARGET || t->state == LOCK_ALL;
    return has_epoch(t);
}

/* The class that the operation must return, or NULL for success. A wrong argument that can be found
 * without the window is reported before a missing epoch. */
static const char *class_wanted(const struct test *t) {
    switch (t->fault) {
    case RANK_NEGATIVE: case RANK_BEYOND: return "RANK";
    case COUNT_NEGATIVE: return "COUNT";
    case ORIGIN_NO_TYPE: case TARGET_NO_TYPE: case ORIGIN_RAW: case TARGET_RAW: return "TYPE";
    case NO_OP_AT_ALL: case USER_OP: case WRONG_OP: return "OP";
    case MIXED_TYPES: if (has_epoch(t)) return "TYPE"; break;
    default: break;
    }
    if (t->target == NOBODY) return NULL;
    if (t->fault == DISP_NEGATIVE) return "DISP";
    if (!has_epoch(t)) return "RMA_SYNC";
    return t->fault == DISP_BEYOND || t->fault == COUNT_BEYOND ? "RMA_RANGE" : NULL;
}

/* Each case states the library's outcome. */
static void describe(long number, char text[PARAMETERS]) {
    struct test t = test_of(number);
    char wants[PARAMETERS];
    if (!is_asked(&t)) {
        snprintf(text, PARAMETERS, "calls none");
    } else if (t.is_sequence) {
        int is_legal = sequence_wants(&t, wants);
        snprintf(text, PARAMETERS, "calls %s sequence %s,%s,%s wants=%s", is_legal ? "legal" : "illegal",
                 call_names[t.calls[0]], call_names[t.calls[1]], call_names[t.calls[2]], wants);
    } else {
        const char *class = class_wanted(&t), *name = operation_names[t.op];
        int legal = has_right_epoch(&t) && is_legal(&t);
        if (class) snprintf(wants, sizeof wants, "%c%s=%s", toupper((unsigned char)*name), name + 1, class);
        else strcpy(wants, "ok");
        snprintf(text, PARAMETERS, "calls %s %s %s %s %s to=%s wants=%s", legal ? "legal" : "illegal", fault_names[t.fault],
                 place_names[t.place], state_names[t.state], name, target_names[t.target], wants);
    }
}

static struct window window = {.win = MPI_WIN_NULL};
/* The target of this rank's operations, and the groups of the epochs in which it is one. */
static int target_;
static MPI_Group origins_, targets_;

static void user_op(void *in, void *out, int *n, MPI_Datatype *type) { (void)in, (void)out, (void)n, (void)type; }

/* --- one operation with one wrong argument ---------------------------------------------------- */

static void issue_test(const struct test *t) {
    static long from[64], result[64], with[64];
    int last = BYTES / (int)sizeof(long), owner = target_ == MPI_PROC_NULL ? rank_ : target_;
    MPI_Aint unit = is_dynamic(t->place) ? (int)sizeof(long) : 1;
    MPI_Datatype raw;
    MPI_Op made = MPI_OP_NULL;
    MPI_Type_contiguous(1, MPI_LONG, &raw);
    struct arguments a = {
        .origin = from, .result = result, .compared = with, .origin_count = 2, .target_count = 2, .origin_type = MPI_LONG,
        .target_type = MPI_LONG, .target = target_, .at = place_of(&window, owner, 0), .op = MPI_SUM, .win = window.win,
    };
    switch (t->fault) {
    case EMPTY_FROM_NULL: a.origin = a.result = NULL, a.origin_count = a.target_count = 0; break;
    case NOBODY_FROM_NULL: a.origin = a.result = NULL, a.compared = NULL; break;
    case EMPTY_BEYOND: a.at = last + 5, a.origin_count = a.target_count = 0; break;
    case AT_THE_END: a.at += (last - (is_single(t->op) ? 1 : 2)) * unit; break;
    case RANK_NEGATIVE: a.target = -77; break;
    case RANK_BEYOND: a.target = size_; break;
    case DISP_NEGATIVE: a.at = -3; break;
    case DISP_BEYOND: a.at += ((MPI_Aint)1 << 30) * unit; break;
    case COUNT_NEGATIVE: a.origin_count = a.target_count = -1; break;
    case COUNT_BEYOND: a.at += (last - 1) * unit; break;
    case ORIGIN_NO_TYPE: a.origin_type = MPI_DATATYPE_NULL; break;
    case TARGET_NO_TYPE: a.target_type = MPI_DATATYPE_NULL; break;
    case ORIGIN_RAW: a.origin_type = raw; break;
    case TARGET_RAW: a.target_type = raw; break;
    case NO_OP_AT_ALL: a.op = MPI_OP_NULL; break;
    case USER_OP: MPI_Op_create(user_op, 1, &made), a.op = made; break;
    case WRONG_OP: a.origin_type = a.target_type = MPI_DOUBLE, a.op = MPI_BAND; break;
    case MIXED_TYPES: a.target_type = MPI_DOUBLE; break;
    case OP_REPLACE: a.op = MPI_REPLACE; break;
    default: break;
    }
    a.result_count = a.origin_count, a.result_type = a.origin_type;
    MPI_Request q = MPI_REQUEST_NULL;
    issue(t->op, &a, &q);
    /* The program waits for the request whatever the call returned. */
    if (is_request(t->op)) CALL(Wait, &q, MPI_STATUS_IGNORE);
    if (made != MPI_OP_NULL) MPI_Op_free(&made);
    MPI_Type_free(&raw);
}

static void in_state(const struct test *t) {
    MPI_Win w = window.win;
    if (t->state == FENCE) CALL(Win_fence, 0, w);
    if (t->state == LOCK_TARGET) CALL(Win_lock, MPI_LOCK_SHARED, target_, 0, w);
    if (t->state == LOCK_ALL) CALL(Win_lock_all, 0, w);
    if (t->state == PSCW) CALL(Win_post, origins_, 0, w), CALL(Win_start, targets_, 0, w);
    issue_test(t);
    if (t->state == FENCE) CALL(Win_fence, MPI_MODE_NOSUCCEED, w);
    if (t->state == LOCK_TARGET) CALL(Win_unlock, target_, w);
    if (t->state == LOCK_ALL) CALL(Win_unlock_all, w);
    if (t->state == PSCW) CALL(Win_complete, w), CALL(Win_wait, w);
}

/* --- three synchronization calls -------------------------------------------------------------- */

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
}

/* The target of each rank's operations, and the ranks whose target this rank is. */
static void choose(enum target target) {
    MPI_Group world;
    int to = target == NEXT ? (rank_ + 1) % size_ : rank_, from = target == NEXT ? (rank_ + size_ - 1) % size_ : rank_;
    target_ = target == NOBODY ? MPI_PROC_NULL : to;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &to, &targets_);
    MPI_Group_incl(world, 1, &from, &origins_);
    MPI_Group_free(&world);
}

static void run_case(long number) {
    struct test t = test_of(number);
    if (!is_asked(&t)) return;
    if (t.is_sequence) { sequence(&t); return; }
    /* Most cases fail and leave their window in any state, so each case has a new window. */
    open_window(&window, t.place, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD);
    if (window.win == MPI_WIN_NULL) return;
    choose(t.target);
    in_state(&t);
    MPI_Group_free(&targets_), MPI_Group_free(&origins_);
    MPI_Barrier(MPI_COMM_WORLD);
    close_window(&window);
}
