/* Pairs with padding behind the index: MPI_DOUBLE_INT, MPI_LONG_INT and MPI_LONG_DOUBLE_INT. The
 * padding is no data (MPI-4.1 section 6.9.4): it may be another member of the program's structure,
 * or lie behind the end of a window or of a buffer. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PAIRS = 5 };

struct with_double { double value; int index, tag; };
struct with_long { long value; int index, tag; };
struct with_long_double { long double value; int index, tag; };

static MPI_Win win;
static void *part;

/* Accumulates with and without results, by one origin, on an array of structures. No call changes
 * the tags at target, origin or result. */
#define TAGGED(record, type)                                                                                                \
    static void tagged_##record(void) {                                                                                     \
        struct record mine[PAIRS], old[PAIRS], one = {0}, *there = part;                                                    \
        int target = size_ - 1, code = 0, bad = 0;                                                                          \
        MPI_Request request;                                                                                                \
        for (int i = 0; i < PAIRS; i++) {                                                                                   \
            there[i] = (struct record){.value = i % 2, .index = i, .tag = 100 + i};                                         \
            mine[i] = (struct record){.value = 1 - i % 2, .index = 50 + i, .tag = 200 + i};                                 \
            old[i] = (struct record){.tag = 300 + i};                                                                       \
        }                                                                                                                   \
        one.tag = 400;                                                                                                      \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                        \
        MPI_Win_lock_all(0, win);                                                                                           \
        if (rank_ == 0) {                                                                                                   \
            code |= MPI_Accumulate(mine, PAIRS, type, target, 0, PAIRS, type, MPI_MAXLOC, win);                             \
            code |= MPI_Get_accumulate(mine, PAIRS, type, old, PAIRS, type, target, 0, PAIRS, type, MPI_REPLACE, win);      \
            MPI_Win_flush(target, win);                                                                                     \
            code |= MPI_Fetch_and_op(mine, &one, type, target, sizeof *there, MPI_NO_OP, win);                              \
            code |= MPI_Raccumulate(mine + 1, 1, type, target, 0, 1, type, MPI_REPLACE, win, &request);                     \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                                                                          \
        }                                                                                                                   \
        MPI_Win_unlock_all(win);                                                                                            \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                        \
        for (int i = 0; i < PAIRS && rank_ == 0; i++) {                                                                     \
            int wins = i % 2 == 0;                                                                                          \
            bad |= old[i].value != 1 || old[i].index != (wins ? 50 + i : i) || old[i].tag != 300 + i;                       \
            bad |= (mine[i].tag != 200 + i) << 1;                                                                           \
        }                                                                                                                   \
        if (rank_ == 0) bad |= (one.value != 0 || one.index != 51 || one.tag != 400) << 2;                                  \
        for (int i = 0; i < PAIRS && rank_ == target; i++) {                                                                \
            int from = i == 0 ? 1 : i;                                                                                      \
            bad |= (there[i].value != 1 - from % 2 || there[i].index != 50 + from) << 3 | (there[i].tag != 100 + i) << 4;   \
        }                                                                                                                   \
        check("tags beside " #type, code ? 1000 : bad);                                                                     \
    }

TAGGED(with_double, MPI_DOUBLE_INT)
TAGGED(with_long, MPI_LONG_INT)
TAGGED(with_long_double, MPI_LONG_DOUBLE_INT)

/* Pairs that follow each other without padding, as a resized type describes them. */
static void packed(void) {
    enum { BYTES = 12 };
    char mine[PAIRS * BYTES], old[PAIRS * BYTES] = {0};
    int target = size_ - 1, code = 0, bad = 0;
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_DOUBLE_INT, 0, BYTES, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < PAIRS; i++) {
        double value = rank_ + i;
        memcpy(mine + BYTES * i, &value, 8), memcpy(mine + BYTES * i + 8, &i, 4);
        value = i % 2 ? 100 : -100;
        memcpy((char *)part + BYTES * i, &value, 8), memset((char *)part + BYTES * i + 8, 0x11, 4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    if (rank_ == 0) {
        code |= MPI_Accumulate(mine, PAIRS, type, target, 0, PAIRS, type, MPI_MAXLOC, win);
        code |= MPI_Get_accumulate(NULL, 0, type, old, PAIRS, type, target, 0, PAIRS, type, MPI_NO_OP, win);
    }
    MPI_Win_unlock(target, win);
    for (int i = 0; i < PAIRS && rank_ == 0; i++) {
        double value;
        int index;
        memcpy(&value, old + BYTES * i, 8), memcpy(&index, old + BYTES * i + 8, 4);
        bad |= value != (i % 2 ? 100 : i) || index != (i % 2 ? 0x11111111 : i);
    }
    check("pairs without padding", code ? 1000 : bad);
    MPI_Type_free(&type);
}

/* The window ends behind the last index, and so do origin and result: an unmapped page follows. */
static void last(void) {
    MPI_Win small;
    struct with_double *there;
    long page = sysconf(_SC_PAGESIZE);
    int target = size_ - 1, code = 0;
    char *pages[2];
    MPI_Win_allocate(sizeof *there + 12, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &small);
    MPI_Win_set_errhandler(small, MPI_ERRORS_RETURN);
    memset(there, 0, sizeof *there + 12);
    for (int i = 0; i < 2; i++) {
        pages[i] = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(pages[i] + page, page);
    }
    struct with_double *mine = (void *)(pages[0] + page - 28), *old = (void *)(pages[1] + page - 28);
    for (int i = 0; i < 2; i++) mine[i].value = 7 + i, mine[i].index = 70 + i;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, small);
    if (rank_ == 0) {
        code |= MPI_Accumulate(mine, 2, MPI_DOUBLE_INT, target, 0, 2, MPI_DOUBLE_INT, MPI_MAXLOC, small);
        code |= MPI_Fetch_and_op(mine + 1, old + 1, MPI_DOUBLE_INT, target, 16, MPI_MAXLOC, small);
        code |= MPI_Get_accumulate(mine, 2, MPI_DOUBLE_INT, old, 2, MPI_DOUBLE_INT, target, 0, 2, MPI_DOUBLE_INT, MPI_NO_OP,
                                   small);
    }
    MPI_Win_unlock(target, small);
    check("the last pair of a window and of its buffers",
          code ? 1000 : rank_ == 0 && (old[1].value != 8 || old[1].index != 71 || old[0].value != 7));
    for (int i = 0; i < 2; i++) munmap(pages[i], page);
    MPI_Win_free(&small);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win_allocate(1024, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    tagged_with_double();
    tagged_with_long();
    tagged_with_long_double();
    packed();
    last();
    MPI_Win_free(&win);
    return end();
}
