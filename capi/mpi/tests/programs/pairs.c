/* Pairs of a value and an index that have no name (MPI_Type_get_value_index, MPI-4.1 section
 * 6.9.4). Their bytes move. MPI_MAXLOC and MPI_MINLOC work on those that are laid out as a named
 * pair. */
#include "check.h"

enum { ITEMS = 6 };

struct wide { double value; long index; };
struct narrow { char value; short index; };
struct mixed { float value; long index; };
struct longer { int64_t value; int index; };

static MPI_Win win;
static char *part;

static MPI_Datatype pair(MPI_Datatype value, MPI_Datatype index) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_get_value_index(value, index, &type);
    return type;
}

/* Puts items to the next rank and gets them back, also every second one. */
static void moved(const char *name, MPI_Datatype type, const char *mine, size_t size, const char *seen) {
    char text[64], *back = calloc(ITEMS, size);
    int next = (rank_ + 1) % size_;
    MPI_Datatype second;
    long bad = type == MPI_DATATYPE_NULL;
    MPI_Type_vector(ITEMS / 2, 1, 2, type, &second);
    MPI_Type_commit(&second);
    memset(part, 0, ITEMS * size);
    MPI_Win_fence(0, win);
    MPI_Put(mine, ITEMS, type, next, 0, ITEMS, type, win);
    MPI_Win_fence(0, win);
    MPI_Get(back, 1, second, next, 0, 1, second, win);
    MPI_Win_fence(0, win);
    /* Only data move, so that gaps stay 0. */
    for (size_t i = 0; i < ITEMS * size; i++) {
        char expected = seen[i % size] ? mine[i] : 0;
        bad |= back[i] != (i / size % 2 ? 0 : expected);
    }
    MPI_Get(back, ITEMS, type, next, 0, ITEMS, type, win);
    MPI_Win_fence(0, win);
    for (size_t i = 0; i < ITEMS * size; i++) bad |= (back[i] != (seen[i % size] ? mine[i] : 0)) << 1;
    snprintf(text, sizeof text, "%s: put and get", name);
    check(text, bad);
    MPI_Type_free(&second);
    free(back);
}

#define MOVED(type, value_type, index_type)                                                                                 \
    do {                                                                                                                    \
        char mine[ITEMS * sizeof(struct type)], seen[sizeof(struct type)];                                                  \
        memset(mine, 0x55, sizeof mine), memset(seen, 0, sizeof seen);                                                      \
        memset(seen, 1, sizeof ((struct type *)0)->value);                                                                  \
        memset(seen + offsetof(struct type, index), 1, sizeof ((struct type *)0)->index);                                   \
        for (int i = 0; i < ITEMS; i++) {                                                                                   \
            ((struct type *)mine)[i].value = (char)(rank_ + i), ((struct type *)mine)[i].index = (short)(10 * rank_ + i);   \
        }                                                                                                                   \
        moved(#type, pair(value_type, index_type), mine, sizeof(struct type), seen);                                        \
    } while (0)

/* Each rank contributes its rank and the index 100 less its rank. */
static void located(MPI_Op op, int rank, const char *name) {
    struct longer mine = {rank_, 100 - rank_}, *there = (struct longer *)part;
    MPI_Datatype type = pair(MPI_INT64_T, MPI_INT);
    *there = (struct longer){op == MPI_MAXLOC ? -1 : 1000, 5};
    MPI_Win_fence(0, win);
    int code = MPI_Accumulate(&mine, 1, type, 0, 0, 1, type, op, win);
    MPI_Win_fence(0, win);
    check(name, code != MPI_SUCCESS || (rank_ == 0 && (there->value != rank || there->index != 100 - rank)));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(1024, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MOVED(wide, MPI_DOUBLE, MPI_LONG);
    MOVED(narrow, MPI_CHAR, MPI_SHORT);
    MOVED(mixed, MPI_FLOAT, MPI_LONG);
    MOVED(longer, MPI_INT64_T, MPI_INT);
    check("a pair with a name", pair(MPI_DOUBLE, MPI_INT) != MPI_DOUBLE_INT);
    located(MPI_MAXLOC, size_ - 1, "MPI_MAXLOC of a pair that has a name");
    located(MPI_MINLOC, 0, "MPI_MINLOC of a pair that has a name");
    /* transom has no arithmetic on it. */
    struct wide mine = {0};
    MPI_Datatype type = pair(MPI_DOUBLE, MPI_LONG);
    MPI_Win_fence(0, win);
    check("MPI_MAXLOC of another pair", MPI_Accumulate(&mine, 1, type, 0, 0, 1, type, MPI_MAXLOC, win) == MPI_SUCCESS);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    return end();
}
