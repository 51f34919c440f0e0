/* The operations on windows, for sweeps: their names, and a call of each with `int` or with large
 * counts. */
#ifndef SWEEP_ISSUE_H
#define SWEEP_ISSUE_H

#include "sweep.h"

enum operation { PUT, GET, ACC, GACC, FOP, CAS, RPUT, RGET, RACC, RGACC, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap", "rput", "rget", "raccumulate",
    "rget_accumulate",
};

static inline int is_request(enum operation op) { return op >= RPUT; }
static inline int combines(enum operation op) { return op == ACC || op == GACC || op == FOP || op == RACC || op == RGACC; }
static inline int is_fetching(enum operation op) { return op == GACC || op == FOP || op == CAS || op == RGACC; }
/* Operations on one element have neither counts nor derived types. */
static inline int is_single(enum operation op) { return op == FOP || op == CAS; }

/* The arguments of any operation. */
struct arguments {
    void *origin, *result;
    const void *compared;
    long long origin_count, result_count, target_count;
    MPI_Datatype origin_type, result_type, target_type;
    int target;
    MPI_Aint at;
    MPI_Op op;
    MPI_Win win;
};

/* The call of one form, whose names end with `form` and whose counts are of type `N`. */
#define ISSUED(name, form, ...) call(#name, MPI_##name##form(__VA_ARGS__))
#define ISSUE(form, N)                                                                                                      \
    static inline void issue##form(enum operation op, const struct arguments *a, MPI_Request *q) {                          \
        void *o = a->origin, *r = a->result;                                                                                \
        N on = (N)a->origin_count, rn = (N)a->result_count, un = (N)a->target_count;                                        \
        MPI_Datatype ot = a->origin_type, rt = a->result_type, ut = a->target_type;                                         \
        int t = a->target;                                                                                                  \
        MPI_Aint at = a->at;                                                                                                \
        MPI_Win w = a->win;                                                                                                 \
        switch (op) {                                                                                                       \
        case PUT: ISSUED(Put, form, o, on, ot, t, at, un, ut, w); break;                                                    \
        case GET: ISSUED(Get, form, o, on, ot, t, at, un, ut, w); break;                                                    \
        case ACC: ISSUED(Accumulate, form, o, on, ot, t, at, un, ut, a->op, w); break;                                      \
        case GACC: ISSUED(Get_accumulate, form, o, on, ot, r, rn, rt, t, at, un, ut, a->op, w); break;                      \
        case FOP: CALL(Fetch_and_op, o, r, ot, t, at, a->op, w); break;                                                     \
        case CAS: CALL(Compare_and_swap, o, a->compared, r, ot, t, at, w); break;                                           \
        case RPUT: ISSUED(Rput, form, o, on, ot, t, at, un, ut, w, q); break;                                               \
        case RGET: ISSUED(Rget, form, o, on, ot, t, at, un, ut, w, q); break;                                               \
        case RACC: ISSUED(Raccumulate, form, o, on, ot, t, at, un, ut, a->op, w, q); break;                                 \
        default: ISSUED(Rget_accumulate, form, o, on, ot, r, rn, rt, t, at, un, ut, a->op, w, q);                           \
        }                                                                                                                   \
    }

ISSUE(, int)
#if MPI_VERSION >= 4
ISSUE(_c, MPI_Count)
#endif

/* Issues an operation, by the function with large counts if the case asks for it and the MPI has
 * it. */
static inline void issue_by(int is_large, enum operation op, const struct arguments *a, MPI_Request *request) {
#if MPI_VERSION >= 4
    if (is_large) {
        issue_c(op, a, request);
        return;
    }
#endif
    (void)is_large;
    issue(op, a, request);
}

#endif
