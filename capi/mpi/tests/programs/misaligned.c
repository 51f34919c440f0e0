/* Accumulates on misaligned elements: MPI requires no alignment at the target. Packed structures
 * have such elements, and contiguous shared windows after a part of odd size. All ranks add to the
 * same elements; the sums are exact. */
#include "check.h"

enum { ROUNDS = 200, ODD = 203 };

#pragma pack(push, 1)
struct packed { char tag; double real; long word; int half; };
#pragma pack(pop)

static long add(long round, MPI_Aint at, int rank, MPI_Win win) {
    long one = 1, old = -1, seen = 0, next;
    switch (round % 5) {
    case 0: MPI_Accumulate(&one, 1, MPI_LONG, rank, at, 1, MPI_LONG, MPI_SUM, win); return 0;
    case 1: MPI_Get_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, rank, at, 1, MPI_LONG, MPI_SUM, win); break;
    case 2: MPI_Fetch_and_op(&one, &old, MPI_LONG, rank, at, MPI_SUM, win); break;
    case 3: {
        MPI_Request request;
        MPI_Raccumulate(&one, 1, MPI_LONG, rank, at, 1, MPI_LONG, MPI_SUM, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return 0;
    }
    default:
        for (;; seen = old) {
            next = seen + 1;
            MPI_Compare_and_swap(&next, &seen, &old, MPI_LONG, rank, at, win);
            MPI_Win_flush(rank, win);
            if (old == seen) return 0;
        }
    }
    MPI_Win_flush(rank, win);
    return old < 0 || old >= (long)ROUNDS * size_;
}

/* The fields of a packed structure at rank 0, by a displacement unit of 1 and by a datatype. */
static void structure(const char *name, MPI_Win win, MPI_Aint base, const struct packed *part) {
    const double real = 0.5;
    const int one = 1;
    long bad = 0;
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (long round = 0; round < ROUNDS; round++) {
        bad |= add(round + rank_, base + (MPI_Aint)offsetof(struct packed, word), 0, win);
        MPI_Aint at = base + (MPI_Aint)offsetof(struct packed, real);
        bad |= MPI_Accumulate(&real, 1, MPI_DOUBLE, 0, at, 1, MPI_DOUBLE, MPI_SUM, win) << 1;
        at = base + (MPI_Aint)offsetof(struct packed, half);
        bad |= MPI_Accumulate(&one, 1, MPI_INT, 0, at, 1, MPI_INT, MPI_SUM, win) << 2;
    }
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (rank_ == 0) {
        struct packed all = *part;
        bad |= (all.real != real * ROUNDS * size_) << 3 | (all.word != (long)ROUNDS * size_) << 4;
        bad |= (all.half != ROUNDS * size_) << 5 | (all.tag != 7) << 6;
    }
    check(name, bad);
}

/* Every ninth byte begins an element: one in eight is aligned. */
static void column(const char *name, MPI_Win win, MPI_Aint base, const unsigned char *part) {
    enum { COUNT = 20 };
    long ones[COUNT], bad = 0;
    MPI_Datatype apart;
    for (int i = 0; i < COUNT; i++) ones[i] = i + 1;
    MPI_Type_create_hvector(COUNT, 1, 9, MPI_LONG, &apart);
    MPI_Type_commit(&apart);
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++)
        MPI_Accumulate(ones, COUNT, MPI_LONG, 0, base, 1, apart, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; rank_ == 0 && i < COUNT; i++) {
        long sum;
        memcpy(&sum, part + (size_t)i * 9, sizeof sum);
        bad |= sum != ones[i] * ROUNDS * size_;
    }
    MPI_Type_free(&apart);
    check(name, bad);
}

/* Each rank's part has an odd size, so that the parts after the first begin at odd addresses. */
static void shared(void) {
    MPI_Comm node;
    MPI_Win win;
    unsigned char *part;
    long bad = 0, all;
    int ranks, rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks), MPI_Comm_rank(node, &rank);
    MPI_Win_allocate_shared(ODD, 1, MPI_INFO_NULL, node, &part, &win);
    memset(part, 0, ODD);
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (long round = 0; round < ROUNDS; round++)
        for (int target = 0; target < ranks; target++) {
            const double real[2] = {0.5, 2};
            bad |= add(round + rank, 8, target, win);
            bad |= MPI_Accumulate(real, 2, MPI_DOUBLE, target, 16, 2, MPI_DOUBLE, MPI_SUM, win) << 1;
        }
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    double real[2];
    memcpy(&all, part + 8, 8), memcpy(real, part + 16, 16);
    bad |= (all != (long)ROUNDS * ranks) << 3 | (real[0] != 0.5 * ROUNDS * ranks) << 4 | (real[1] != 2. * ROUNDS * ranks) << 5;
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
    check("a shared window of odd parts", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    unsigned char *part, *own = calloc(1, 512);
    MPI_Win_allocate(512, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(part, 0, 512), part[0] = 7;
    structure("allocate: a packed structure", win, 0, (void *)part);
    column("allocate: a column of a packed structure", win, 32, part + 32);
    MPI_Win_free(&win);
    own[1] = 7;
    MPI_Win_create(own + 1, 500, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    structure("create: a packed structure", win, 0, (void *)(own + 1));
    column("create: a column of a packed structure", win, 32, own + 33);
    MPI_Win_free(&win);
    memset(own, 0, 512), own[3] = 7;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, own, 512);
    MPI_Aint base;
    MPI_Get_address(own, &base);
    MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    structure("dynamic: a packed structure", win, MPI_Aint_add(base, 3), (void *)(own + 3));
    column("dynamic: a column of a packed structure", win, MPI_Aint_add(base, 64), own + 64);
    MPI_Win_fence(0, win);
    MPI_Win_detach(win, own);
    MPI_Win_free(&win);
    shared();
    free(own);
    return end();
}
