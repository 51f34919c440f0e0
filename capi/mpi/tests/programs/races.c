/* Programs that have a race, and their like that have none, for the conflict checker
 * (TRANSOM_CHECK=1) with and without ThreadSanitizer. Without arguments it lists them: the
 * arguments, whether the program is racy, and whether both accesses are one-sided operations.
 *
 * races target SYNC FIRST SECOND WHEN: rank 0 makes the operation FIRST on rank 1's part. Rank 1
 * makes SECOND on the same bytes, which SYNC separates from FIRST (`after`) or does not (`during`).
 *
 * races buffer SYNC FIRST SECOND WHEN: rank 0 makes the operation FIRST, and uses its buffer by
 * SECOND `before` or `after` SYNC completes FIRST.
 *
 * races thread joined WHEN: a thread of rank 0 makes a get, and the first thread reads the buffer
 * `before` or `after` it completes the get.
 *
 * races thread apart WHEN: the first thread makes and completes a get, and another one reads the
 * buffer, which was started `before` or `after` that.
 *
 * races thread target WHEN: two threads of rank 0 put into the same bytes of rank 1, `before` or
 * `after` one waits for the other.
 *
 * races message HOW WHEN: rank 0 puts, and a message or a collective call of the form HOW, which
 * begins `before` or `after` the put is complete, comes before rank 1's load.
 *
 * races host CALL WHEN: the MPI's function CALL uses the buffer of an operation of rank 0 `before`
 * or `after` the operation is complete.
 *
 * races right: all programs that are right.
 *
 * The variable RACES_WINDOW names the kind of the window: allocate, allocate_shared, create or
 * dynamic. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4 };
static int rank_;
static MPI_Win win;
static long *part;         /* this rank's part of the window */
static long *buffer;       /* what operations read and write */
static long result[COUNT]; /* what operations of SECOND write */
static volatile long seen;
static MPI_Request request = MPI_REQUEST_NULL;
static int by_request;

/* The displacement of an element of rank 1's part. */
static MPI_Aint base, unit = 1;
static MPI_Aint at(int element) { return base + element * unit; }

/* Operations on rank 1's part. */
static void put(void) {
    if (by_request) MPI_Rput(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win, &request);
    else MPI_Put(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win);
}
static void get(void) {
    if (by_request) MPI_Rget(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win, &request);
    else MPI_Get(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win);
}
static void accumulate(void) {
    if (by_request) MPI_Raccumulate(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, MPI_SUM, win, &request);
    else MPI_Accumulate(buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, MPI_SUM, win);
}
static void get_accumulate(void) {
    static long operand[COUNT];
    if (by_request) {
        MPI_Rget_accumulate(operand, COUNT, MPI_LONG, buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, MPI_SUM, win, &request);
    } else {
        MPI_Get_accumulate(operand, COUNT, MPI_LONG, buffer, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, MPI_SUM, win);
    }
}
static void fetch_and_op(void) {
    static long operand;
    MPI_Fetch_and_op(&operand, buffer, MPI_LONG, 1, at(0), MPI_SUM, win);
}
static void compare_and_swap(void) {
    static long given, expected;
    MPI_Compare_and_swap(&given, &expected, buffer, MPI_LONG, 1, at(0), win);
}

/* The second access to rank 1's part, by rank 1. */
static void load(void) { seen = part[0]; }
static void store(void) { part[0] = 5; }
static void own_put(void) { MPI_Put(result, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win); }
static void own_get(void) { MPI_Get(result, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win); }
static void own_accumulate(void) {
    MPI_Accumulate(result, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, MPI_SUM, win);
}

/* The second use of the buffer, by rank 0. */
static void read_it(void) { seen = buffer[0]; }
static void write_it(void) { buffer[0] = 6; }
static void put_it(void) { MPI_Put(buffer, 1, MPI_LONG, 1, at(2 * COUNT), 1, MPI_LONG, win); }
static void get_it(void) { MPI_Get(buffer, 1, MPI_LONG, 1, at(2 * COUNT), 1, MPI_LONG, win); }
static void free_it(void) {
    free(buffer);
    buffer = 0;
}

typedef struct {
    const char *name;
    void (*call)(void);
    /* As the first access to the part or the second: whether it writes, and whether it is an
     * accumulate. As a use of a buffer: whether it writes. */
    int writes, combines;
    int is_operation;
    int has_request;
} Access;

static const Access firsts[] = {{"put", put, 1, 0, 1, 1},
                                {"get", get, 0, 0, 1, 1},
                                {"accumulate", accumulate, 1, 1, 1, 1},
                                {"get_accumulate", get_accumulate, 1, 1, 1, 1},
                                {"fetch_and_op", fetch_and_op, 1, 1, 1, 0},
                                {"compare_and_swap", compare_and_swap, 1, 1, 1, 0}};
/* The first three are made with all kinds of synchronization at a target. */
enum { FIRSTS = 6, AT_TARGET = 3 };
static const Access seconds[] = {{"load", load, 0, 0, 0, 0},
                                 {"store", store, 1, 0, 0, 0},
                                 {"put", own_put, 1, 0, 1, 0},
                                 {"get", own_get, 0, 0, 1, 0},
                                 {"accumulate", own_accumulate, 1, 1, 1, 0}};
enum { SECONDS = 5 };
static const Access uses[] = {{"read", read_it, 0, 0, 0, 0},
                              {"write", write_it, 1, 0, 0, 0},
                              {"put", put_it, 0, 0, 1, 0},
                              {"get", get_it, 1, 0, 1, 0},
                              {"free", free_it, 1, 0, 0, 0}};
enum { USES = 5 };

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static MPI_Group ranks(int first, int count) {
    MPI_Group all, some;
    int range[1][3] = {{first, first + count - 1, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &some);
    MPI_Group_free(&all);
    return some;
}

static void call(const Access *access) {
    if (access) access->call();
}

/* Epochs in which rank 0 makes `x` and rank 1 makes `y`, of which one or both may be none. */
static void fence(const Access *x, const Access *y) {
    MPI_Win_fence(0, win);
    call(rank_ ? y : x);
    MPI_Win_fence(0, win);
}
static void pscw(const Access *x, const Access *y) {
    MPI_Group target = ranks(1, 1), origins = ranks(0, 2);
    if (rank_ == 1) MPI_Win_post(origins, 0, win);
    MPI_Win_start(target, 0, win);
    call(rank_ ? y : x);
    MPI_Win_complete(win);
    if (rank_ == 1) MPI_Win_wait(win);
    MPI_Group_free(&target), MPI_Group_free(&origins);
}
static void locked(int kind, const Access *x, const Access *y) {
    const Access *mine = rank_ ? y : x;
    if (!mine) return;
    MPI_Win_lock(kind, 1, 0, win);
    call(mine);
    MPI_Win_unlock(1, win);
}
static void shared(const Access *x, const Access *y) { locked(MPI_LOCK_SHARED, x, y); }

static void at_fences(const Access *x, const Access *y, int racy) {
    fence(x, racy ? y : 0);
    if (!racy) fence(0, y);
}
static void at_groups(const Access *x, const Access *y, int racy) {
    pscw(x, racy ? y : 0);
    if (!racy) pscw(0, y);
}
static void at_shared_locks(const Access *x, const Access *y, int racy) {
    shared(x, racy ? y : 0);
    if (racy) return;
    barrier();
    shared(0, y);
}
/* A lock orders what ranks do under it. What rank 1 does without it is not ordered. */
static void at_exclusive_locks(const Access *x, const Access *y, int racy) {
    if (!racy) locked(MPI_LOCK_EXCLUSIVE, x, y);
    else if (rank_) call(y);
    else locked(MPI_LOCK_EXCLUSIVE, x, 0);
}
static void at_flushes_by(int (*flush)(int, MPI_Win), const Access *x, const Access *y, int before) {
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) x->call();
    if (rank_ == 0 && before) flush(1, win);
    barrier();
    if (rank_ == 1) y->call();
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
}
static void at_flushes(const Access *x, const Access *y, int racy) { at_flushes_by(MPI_Win_flush, x, y, !racy); }
/* A local flush completes an operation at the origin only. */
static void at_local_flushes(const Access *x, const Access *y, int racy) {
    at_flushes_by(racy && x->writes ? MPI_Win_flush_local : MPI_Win_flush, x, y, !racy || x->writes);
}
/* So does the end of a request, but for what a get has read. */
static void at_requests(const Access *x, const Access *y, int racy) {
    const int waits = !racy || x->writes;
    MPI_Win_lock_all(0, win);
    by_request = 1;
    if (rank_ == 0) {
        x->call();
        if (waits) MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (!racy && x->writes) MPI_Win_flush(1, win);
    }
    barrier();
    if (rank_ == 1) y->call();
    if (rank_ == 0 && !waits) MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
}
/* A message orders what its sender has completed before. */
static void at_messages(const Access *x, const Access *y, int racy) {
    int token = 0;
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) {
        if (racy) MPI_Send(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
        x->call();
        MPI_Win_flush(1, win);
        if (!racy) MPI_Send(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        y->call();
    }
    MPI_Win_unlock_all(win);
}

static const struct {
    const char *name;
    void (*run)(const Access *, const Access *, int);
} targets[] = {{"fence", at_fences},
               {"groups", at_groups},
               {"shared_lock", at_shared_locks},
               {"exclusive_lock", at_exclusive_locks},
               {"flush", at_flushes},
               {"local_flush", at_local_flushes},
               {"request", at_requests},
               {"message", at_messages}};
enum { TARGETS = 8, EXCLUSIVE = 3 };

/* Completes the operation `x` of rank 0, which uses its buffer by `y` before or after that. */
static void around(const Access *x, const Access *y, int racy, const char *how) {
    const int is_fence = !strcmp(how, "fence"), is_groups = !strcmp(how, "groups"), is_lock = !strcmp(how, "unlock");
    const int is_request = !strcmp(how, "request");
    MPI_Group target = ranks(1, 1), origin = ranks(0, 1);
    if (is_fence) MPI_Win_fence(0, win);
    else if (is_groups && rank_ == 1) MPI_Win_post(origin, 0, win);
    else if (is_groups) MPI_Win_start(target, 0, win);
    else if (is_lock && rank_ == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    else if (!is_lock) MPI_Win_lock_all(0, win);
    by_request = is_request;
    if (rank_ == 0) {
        x->call();
        if (racy) y->call();
        if (is_request) MPI_Wait(&request, MPI_STATUS_IGNORE);
        else if (!strcmp(how, "flush")) MPI_Win_flush(1, win);
        else if (!strcmp(how, "flush_all")) MPI_Win_flush_all(win);
        else if (!strcmp(how, "flush_local")) MPI_Win_flush_local(1, win);
        else if (!strcmp(how, "flush_local_all")) MPI_Win_flush_local_all(win);
    }
    if (is_fence) MPI_Win_fence(0, win);
    else if (is_groups && rank_ == 1) MPI_Win_wait(win);
    else if (is_groups) MPI_Win_complete(win);
    else if (is_lock && rank_ == 0) MPI_Win_unlock(1, win);
    const int in_epoch = !is_fence && !is_groups && !is_lock;
    if (rank_ == 0 && !racy) {
        if (!in_epoch) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        y->call();
        if (!in_epoch) MPI_Win_unlock(1, win);
    }
    if (in_epoch) MPI_Win_unlock_all(win);
    MPI_Group_free(&target), MPI_Group_free(&origin);
}

static const char *const completions[] = {"fence", "groups",      "unlock",         "flush",
                                          "flush_all", "flush_local", "flush_local_all", "request"};
enum { COMPLETIONS = 8 };

/* Whether an operation writes its buffer. */
static int fills(const Access *first) { return strcmp(first->name, "put") && strcmp(first->name, "accumulate"); }

static void *begin(void *unused) {
    get();
    return unused;
}
static void threads(int racy) {
    pthread_t thread;
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) {
        pthread_create(&thread, 0, begin, 0);
        pthread_join(thread, 0);
        if (racy) read_it();
        MPI_Win_flush(1, win);
        if (!racy) read_it();
    }
    MPI_Win_unlock_all(win);
}
/* The first thread completes the get, but the other one, which is not ordered behind it, reads. */
static int turn;
static void *later(void *unused) {
    while (!__atomic_load_n(&turn, __ATOMIC_RELAXED)) {
    }
    read_it();
    return unused;
}
static void unordered_threads(int racy) {
    pthread_t thread;
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) {
        if (racy) pthread_create(&thread, 0, later, 0);
        get();
        MPI_Win_flush(1, win);
        __atomic_store_n(&turn, 1, __ATOMIC_RELAXED);
        if (!racy) pthread_create(&thread, 0, later, 0);
        pthread_join(thread, 0);
    }
    MPI_Win_unlock_all(win);
}

/* Two threads put into the same bytes. */
static void *put_too(void *unused) {
    static long other[COUNT];
    MPI_Put(other, COUNT, MPI_LONG, 1, at(0), COUNT, MPI_LONG, win);
    MPI_Win_flush(1, win);
    return unused;
}
static void threads_at_target(int racy) {
    pthread_t thread;
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) {
        pthread_create(&thread, 0, put_too, 0);
        if (!racy) pthread_join(thread, 0);
        put();
        MPI_Win_flush(1, win);
        if (racy) pthread_join(thread, 0);
    }
    MPI_Win_unlock_all(win);
}

/* Forms in which rank 0 lets rank 1 go on. All are on a duplicate of MPI_COMM_WORLD. */
static MPI_Comm comm;
static long token[2];
static void complete(MPI_Request q) { MPI_Wait(&q, MPI_STATUS_IGNORE); }
static void isend_irecv(void) {
    MPI_Request q;
    if (rank_ == 0) MPI_Isend(token, 1, MPI_INT, 1, 2, comm, &q);
    else MPI_Irecv(token, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &q);
    complete(q);
}
static void sendrecv(void) {
    MPI_Sendrecv(token, 1, MPI_INT, 1 - rank_, 2, token + 1, 1, MPI_INT, 1 - rank_, 2, comm, MPI_STATUS_IGNORE);
}
static void probed(void) {
    if (rank_ == 0) {
        MPI_Send(token, 1, MPI_INT, 1, 2, comm);
        return;
    }
    for (int here = 0; !here;) MPI_Iprobe(0, MPI_ANY_TAG, comm, &here, MPI_STATUS_IGNORE);
    MPI_Recv(token, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
}
static void matched(void) {
    MPI_Message message;
    MPI_Request q;
    if (rank_ == 0) {
        MPI_Isend(token, 1, MPI_INT, 1, 2, comm, &q);
    } else {
        MPI_Mprobe(0, 2, comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(token, 1, MPI_INT, &message, &q);
    }
    complete(q);
}
static void persistent(void) {
    MPI_Request q;
    if (rank_ == 0) MPI_Send_init(token, 1, MPI_INT, 1, 2, comm, &q);
    else MPI_Recv_init(token, 1, MPI_INT, 0, 2, comm, &q);
    MPI_Start(&q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Request_free(&q);
}
static void nonblocking(void) {
    MPI_Request q;
    MPI_Ibarrier(comm, &q);
    complete(q);
}
static void ibcast(void) {
    MPI_Request q;
    MPI_Ibcast(token, 1, MPI_INT, 0, comm, &q);
    complete(q);
}
/* The receives are posted in the order of the messages, and waited for in the other order. */
static void turned(int first) {
    MPI_Request q[2];
    if (rank_ == 0) {
        MPI_Send(token, 1, MPI_INT, 1, 2, comm);
        return;
    }
    for (int i = 0; i < 2; i++) MPI_Irecv(token + i, 1, MPI_INT, 0, 2, comm, &q[i]);
    complete(q[first]);
    if (first == 0) load();
    complete(q[1 - first]);
    if (first == 1) load();
}
static const struct {
    const char *name;
    void (*pass)(void);
} forms[] = {{"isend_irecv", isend_irecv}, {"sendrecv", sendrecv}, {"probe", probed},       {"matched", matched},
             {"persistent", persistent},   {"ibarrier", nonblocking}, {"ibcast", ibcast}};
enum { FORMS = 7 };
static void by_form(int form, int racy) {
    MPI_Win_lock_all(0, win);
    if (racy) forms[form].pass();
    if (rank_ == 0) put();
    MPI_Win_flush_all(win);
    if (!racy) forms[form].pass();
    /* An earlier call does not order the put, however late the load is. */
    if (rank_ == 1) load();
    MPI_Win_unlock_all(win);
}
static void in_turn(int racy) {
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) {
        turned(0);
        put();
        MPI_Win_flush_all(win);
        turned(0);
    } else {
        turned(racy ? 0 : 1);
    }
    MPI_Win_unlock_all(win);
}

/* Functions of the MPI that use the buffer of an operation. */
static void host_send(void) {
    if (rank_ == 0) MPI_Send(buffer, 1, MPI_LONG, 1, 4, comm);
    else MPI_Recv(token, 1, MPI_LONG, 0, 4, comm, MPI_STATUS_IGNORE);
}
static void host_receive(void) {
    if (rank_ == 0) MPI_Recv(buffer, 1, MPI_LONG, 1, 4, comm, MPI_STATUS_IGNORE);
    else MPI_Send(token, 1, MPI_LONG, 0, 4, comm);
}
static void host_isend(void) {
    MPI_Request q;
    if (rank_ == 0) MPI_Isend(buffer, 1, MPI_LONG, 1, 4, comm, &q);
    else MPI_Irecv(token, 1, MPI_LONG, 0, 4, comm, &q);
    complete(q);
}
static void host_bcast(void) { MPI_Bcast(rank_ ? (void *)token : buffer, 1, MPI_LONG, 1, comm); }
static void host_allreduce(void) { MPI_Allreduce(buffer, result, 1, MPI_LONG, MPI_SUM, comm); }
static const struct {
    const char *name;
    void (*use)(void);
    int writes;
} host_calls[] = {{"send", host_send, 0},
                  {"receive", host_receive, 1},
                  {"isend", host_isend, 0},
                  {"bcast", host_bcast, 1},
                  {"allreduce", host_allreduce, 0}};
enum { HOST_CALLS = 5 };
static void by_host(const Access *x, int call, int racy) {
    MPI_Win_lock_all(0, win);
    if (rank_ == 0) x->call();
    if (rank_ == 0 && !racy) MPI_Win_flush_local(1, win);
    host_calls[call].use();
    MPI_Win_unlock_all(win);
}

/* The state in which a program begins. */
static const MPI_Aint SIZE = 4 * COUNT * sizeof(long);
static void begin_again(void) {
    barrier();
    by_request = turn = 0;
    if (!buffer) buffer = calloc(COUNT, sizeof *buffer);
    memset(part, 0, SIZE);
    barrier();
}

/* Prints a case, or returns whether to run it: the arguments name it, or all that are right. */
static int is_asked(int argc, char **argv, const char *names[5], int racy, int operations) {
    if (argc == 2 && !strcmp(argv[1], "right")) {
        if (racy) return 0;
        begin_again();
        if (rank_ == 0) printf("right %s %s %s %s %s\n", names[0], names[1], names[2], names[3], names[4]), fflush(stdout);
        return 1;
    }
    if (argc == 1) {
        if (rank_ == 0) {
            printf("case %s %s %s %s %s: %s %s\n", names[0], names[1], names[2], names[3], names[4], racy ? "racy" : "right",
                   operations ? "operations" : "local");
        }
        return 0;
    }
    for (int i = 0; i < 5; i++) {
        if (strcmp(argc > i + 1 ? argv[i + 1] : "-", names[i])) return 0;
    }
    return 1;
}

static int run(int argc, char **argv) {
    int ran = 0;
    for (int s = 0; s < TARGETS; s++) {
        for (int f = 0; f < AT_TARGET; f++) {
            for (int o = 0; o < SECONDS; o++) {
                const Access *x = &firsts[f], *y = &seconds[o];
                const int conflict = (x->writes || y->writes) && !(x->combines && y->combines);
                for (int during = 0; during < 2; during++) {
                    if (during && s == EXCLUSIVE && y->is_operation) continue;
                    const char *names[] = {"target", targets[s].name, x->name, y->name, during ? "during" : "after"};
                    if (!is_asked(argc, argv, names, conflict && during, y->is_operation)) continue;
                    targets[s].run(x, y, during);
                    ran = 1;
                }
            }
        }
    }
    for (int c = 0; c < COMPLETIONS; c++) {
        for (int f = 0; f < FIRSTS; f++) {
            for (int o = 0; o < USES; o++) {
                const Access *x = &firsts[f], *y = &uses[o];
                if (!strcmp(completions[c], "request") && (!x->has_request || y->is_operation)) continue;
                for (int before = 0; before < 2; before++) {
                    const char *names[] = {"buffer", completions[c], x->name, y->name, before ? "before" : "after"};
                    const int racy = before && (fills(x) || y->writes);
                    if (!is_asked(argc, argv, names, racy, y->is_operation)) continue;
                    around(x, y, before, completions[c]);
                    ran = 1;
                }
            }
        }
    }
    for (int racy = 0; racy < 2; racy++) {
        const char *one[] = {"thread", "joined", racy ? "before" : "after", "-", "-"};
        const char *other[] = {"thread", "apart", racy ? "before" : "after", "-", "-"};
        if (is_asked(argc, argv, one, racy, 0)) threads(racy), ran = 1;
        if (is_asked(argc, argv, other, racy, 0)) unordered_threads(racy), ran = 1;
        const char *puts[] = {"thread", "target", racy ? "before" : "after", "-", "-"};
        if (is_asked(argc, argv, puts, racy, 0)) threads_at_target(racy), ran = 1;
        const char *turns[] = {"message", "turned", racy ? "before" : "after", "-", "-"};
        if (is_asked(argc, argv, turns, racy, 0)) in_turn(racy), ran = 1;
        for (int form = 0; form < FORMS; form++) {
            const char *names[] = {"message", forms[form].name, racy ? "before" : "after", "-", "-"};
            if (is_asked(argc, argv, names, racy, 0)) by_form(form, racy), ran = 1;
        }
        for (int call = 0; call < HOST_CALLS; call++) {
            for (int first = 0; first < 2; first++) {
                const char *names[] = {"host", host_calls[call].name, firsts[first].name, racy ? "before" : "after", "-"};
                const int conflict = racy && (fills(&firsts[first]) || host_calls[call].writes);
                if (is_asked(argc, argv, names, conflict, 0)) by_host(&firsts[first], call, racy), ran = 1;
            }
        }
    }
    return ran || argc == 1;
}

/* Creates a window by the call that the variable RACES_WINDOW names. */
static void create(void) {
    const char *kind = getenv("RACES_WINDOW");
    const MPI_Comm all = MPI_COMM_WORLD;
    if (!kind || !strcmp(kind, "allocate")) {
        MPI_Win_allocate(SIZE, sizeof(long), MPI_INFO_NULL, all, &part, &win);
    } else if (!strcmp(kind, "allocate_shared")) {
        MPI_Win_allocate_shared(SIZE, sizeof(long), MPI_INFO_NULL, all, &part, &win);
    } else if (!strcmp(kind, "create")) {
        part = calloc(1, SIZE);
        MPI_Win_create(part, SIZE, sizeof(long), MPI_INFO_NULL, all, &win);
    } else {
        part = calloc(1, SIZE);
        MPI_Win_create_dynamic(MPI_INFO_NULL, all, &win);
        MPI_Win_attach(win, part, SIZE);
        MPI_Get_address(part, &base);
        MPI_Bcast(&base, 1, MPI_AINT, 1, all);
        unit = sizeof(long);
    }
}

int main(int argc, char **argv) {
    int provided, ok;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    create();
    begin_again();
    ok = run(argc, argv);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    free(buffer);
    if (rank_ == 0) printf("%s\n", ok ? "done" : "no such case");
    MPI_Finalize();
    return !ok;
}
