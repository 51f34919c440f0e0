/* Memory of MPI_Alloc_mem: loads and stores, buffers, and windows over it, also if the parts of
 * other ranks are user memory. */
#include "check.h"

enum { WORDS = 1000, PIECES = 20000 };

/* Every rank adds to every rank's part, by each function of the family. */
static long counted(MPI_Win win, MPI_Aint at) {
    long one = 1, old, sum[4] = {0, 0, 0, 0}, bad = 0;
    for (int target = 0; target < size_; target++) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        for (int round = 0; round < 10; round++) {
            long two[2] = {1, 2}, before[2], expected, next;
            MPI_Accumulate(two, 2, MPI_LONG, target, at, 2, MPI_LONG, MPI_SUM, win);
            MPI_Fetch_and_op(&one, &old, MPI_LONG, target, at, MPI_SUM, win);
            MPI_Get_accumulate(two, 2, MPI_LONG, before, 2, MPI_LONG, target, at, 2, MPI_LONG, MPI_SUM, win);
            MPI_Win_flush(target, win);
            if (before[1] % 2) bad = 1;
            for (old = 0, next = -1; next != old;) {
                expected = next = old;
                long more = expected + 1;
                MPI_Compare_and_swap(&more, &expected, &old, MPI_LONG, target, at + 2, win);
                MPI_Win_flush(target, win);
            }
        }
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (rank_ + 1) % size_;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Get(sum, 4, MPI_LONG, next, at, 4, MPI_LONG, win);
    MPI_Win_unlock(next, win);
    if (sum[0] != 30L * size_ || sum[1] != 40L * size_ || sum[2] != 10L * size_ || sum[3]) bad = 2;
    MPI_Barrier(MPI_COMM_WORLD);
    return bad;
}

/* Whether this rank loads and stores the next rank's part. */
static int reached(MPI_Win win) {
    MPI_Aint bytes;
    int unit, code;
    long *theirs;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    code = MPI_Win_shared_query(win, (rank_ + 1) % size_, &bytes, &unit, &theirs);
    return code == MPI_SUCCESS && bytes > 0 && theirs[1] == 40L * size_;
}

static void windows(void) {
    long *memory, *own = calloc(WORDS, sizeof(long));
    int one_node = !getenv("TRANSOM_TEST_NODES");
    MPI_Win win, part;
    MPI_Info info;
    /* A hint with an illegal value, which is ignored. */
    MPI_Info_create(&info);
    MPI_Info_set(info, "same_size", "TRUE");
    MPI_Alloc_mem(WORDS * sizeof(long), info, &memory);
    MPI_Info_free(&info);
    memset(memory, 0, WORDS * sizeof(long));
    MPI_Win_create(memory + 3, 900 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check("a window over a part", counted(win, 0));
    if (by_transom() && one_node) check("parts are mapped", !reached(win));
    MPI_Win_create(memory + 100, 100 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &part);
    check("another over the same memory", counted(part, 7));
    check("what is in memory", memory[3 + 1] != 40L * size_ || memory[100 + 7] != 30L * size_);
    /* MPI requires windows to be freed first; here the error has no consequence. */
    if (by_transom()) MPI_Free_mem(memory);
    MPI_Win_free(&win);
    check("when one is freed", counted(part, 50));
    MPI_Win_free(&part);
    if (!by_transom()) MPI_Free_mem(memory);

    MPI_Alloc_mem(WORDS * sizeof(long), MPI_INFO_NULL, &memory);
    memset(memory, 0, WORDS * sizeof(long));
    MPI_Win_create(rank_ % 2 ? own : memory, WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check("beside parts that are not of it", counted(win, 1));
    MPI_Win_free(&win);
    MPI_Win_create(own, WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (by_transom()) check("a program's own memory is not mapped", size_ > 1 && reached(win));
    MPI_Win_free(&win);
    MPI_Free_mem(memory);
    free(own);
}

static void pieces(void) {
    static char *piece[PIECES];
    long bad = 0;
    for (int i = 0; i < PIECES; i++) {
        MPI_Alloc_mem(1 + i % 100, MPI_INFO_NULL, &piece[i]);
        memset(piece[i], i % 127, 1 + i % 100);
    }
    for (int i = 0; i < PIECES; i++)
        if (piece[i][0] != i % 127 || piece[i][i % 100] != i % 127) bad = i + 1;
    for (int i = 0; i < PIECES; i++) MPI_Free_mem(piece[(i * 7919L) % PIECES]);
    check("many pieces", bad);
}

static void alignment_by_info(void) {
    MPI_Info info;
    char *memory = 0;
    int code;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
    MPI_Info_set(info, "color", "green");
    MPI_Alloc_mem(100, info, &memory);
    if (by_transom()) check("alignment", (uintptr_t)memory % 65536);
    MPI_Free_mem(memory);
    MPI_Info_free(&info);
    MPI_Alloc_mem(0, MPI_INFO_NULL, &memory);
    MPI_Free_mem(memory);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    /* Memory that the library can't give comes from the host, and returns to the host: MPICH 4
     * reports success. */
    code = MPI_Alloc_mem((MPI_Aint)1 << 50, MPI_INFO_NULL, &memory);
    if (code == MPI_SUCCESS) MPI_Free_mem(memory);
    code = MPI_Alloc_mem(8, MPI_INFO_NULL, &memory);
    check("after too much", code != MPI_SUCCESS);
    MPI_Free_mem(memory);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static void buffers(void) {
    long *out, *in, bad = 0;
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    PMPI_Alloc_mem(WORDS * sizeof(long), MPI_INFO_NULL, &out);
    MPI_Alloc_mem(WORDS * sizeof(long), MPI_INFO_NULL, &in);
    for (int i = 0; i < WORDS; i++) out[i] = rank_ * 10000L + i;
    MPI_Sendrecv(out, WORDS, MPI_LONG, next, 1, in, WORDS, MPI_LONG, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < WORDS; i++)
        if (in[i] != last * 10000L + i) bad = i + 1;
    check("as buffers of messages", bad);
    PMPI_Free_mem(in);
    MPI_Free_mem(out);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    windows();
    pieces();
    alignment_by_info();
    buffers();
    return end();
}
