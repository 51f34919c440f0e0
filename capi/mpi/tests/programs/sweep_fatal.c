/*
 * Sweep: error handlers that end the program. A case ends its job. The outcome is the exit status
 * of the launcher, which hosts derive from the error class.
 */
#include "sweep_issue.h"

enum topic { RANK, NO_TYPE, NO_RMA_OP, UNLOCK, LOCK_TYPE, REQUEST, CREATE, CALLED, TOPICS };
static const char *const topic_names[TOPICS] = {
    "put_rank_beyond", "put_type_null", "accumulate_type_null", "unlock_unlocked", "lock_bad_type", "rput_rank_beyond",
    "create_negative_size", "call_errhandler",
};

enum ending { DEFAULT, SET, ABORT, ENDINGS };
static const char *const ending_names[ENDINGS] = {"default", "are_fatal", "abort"};

static long cases(void) { return (long)TOPICS * ENDINGS; }

/* The first cases include each topic and each handler. */
static enum ending ending_of(long number) { return (number % TOPICS + number / TOPICS) % ENDINGS; }

static void describe(long number, char text[PARAMETERS]) {
    snprintf(text, PARAMETERS, "fatal %s %s", topic_names[number % TOPICS], ending_names[ending_of(number)]);
}

static void finish(void) {}

static MPI_Errhandler handler_of(enum ending ending) {
#if MPI_VERSION >= 4
    if (ending == ABORT) return MPI_ERRORS_ABORT;
#endif
    (void)ending;
    return MPI_ERRORS_ARE_FATAL;
}

static void fail(enum topic topic, MPI_Win win) {
    static long x;
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Win other;
    struct arguments a = {.origin = &x, .origin_count = 1, .target_count = 1, .origin_type = MPI_LONG, .target_type = MPI_LONG,
                          .op = MPI_SUM, .win = win};
    if (topic == RANK || topic == REQUEST) a.target = size_ + 3;
    else a.target_type = MPI_DATATYPE_NULL;
    switch (topic) {
    case RANK: case NO_TYPE: issue(PUT, &a, &q); break;
    case NO_RMA_OP: issue(ACC, &a, &q); break;
    case REQUEST: issue(RPUT, &a, &q); break;
    case UNLOCK: CALL(Win_unlock, 0, win); break;
    case LOCK_TYPE: CALL(Win_lock, 12345, 0, 0, win); break;
    case CREATE: CALL(Win_create, &x, -5, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other); break;
    default: CALL(Win_call_errhandler, win, MPI_ERR_RMA_SYNC);
    }
}

static void run_case(long number) {
    enum topic topic = number % TOPICS;
    enum ending ending = ending_of(number);
    MPI_Win win;
    long *part;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    if (ending != DEFAULT) MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), MPI_Win_set_errhandler(win, handler_of(ending));
    if (topic == CREATE) MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler_of(ending));
    if (topic <= NO_RMA_OP || topic == REQUEST) MPI_Win_lock_all(0, win);
    ends(number);
    /* MPI_Win_create is collective. */
    if (rank_ == 0 || topic == CREATE) fail(topic, win);
    MPI_Barrier(MPI_COMM_WORLD);
    say("goes on");
}
