/* The part of races_forms.c about datatypes, and about the memory of buffers. */

static void indexed(int racy) {
    const int places[3] = {0, 3, 7};
    MPI_Datatype some;
    MPI_Type_create_indexed_block(3, 2, places, MPI_LONG, &some);
    MPI_Type_commit(&some);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 6, MPI_LONG, 1, 0, 1, some, win);
    if (rank_ == 2) MPI_Get(result, 1, MPI_LONG, 1, racy ? 8 : 5, 1, MPI_LONG, win);
    unlock_all();
    MPI_Type_free(&some);
}
static void nested_types(int racy) {
    MPI_Datatype column, table;
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_create_hvector(2, 1, 32, column, &table);
    MPI_Type_commit(&table);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 6, MPI_INT, 1, 0, 1, table, win);
    if (rank_ == 1) seen = ((volatile int *)part)[racy ? 12 : 13];
    unlock_all();
    MPI_Type_free(&column), MPI_Type_free(&table);
}
static void many_pieces(int racy) {
    enum { MANY = 20000 };
    MPI_Datatype every_other;
    MPI_Win wide;
    int *own;
    static int from[MANY];
    MPI_Type_vector(MANY, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_allocate(2 * MANY * sizeof(int), sizeof(int), MPI_INFO_NULL, all, &own, &wide);
    MPI_Win_lock_all(0, wide);
    if (rank_ == 0) MPI_Put(from, MANY, MPI_INT, 1, 0, 1, every_other, wide), MPI_Win_flush(1, wide);
    if (rank_ == 2) MPI_Put(from, 1, MPI_INT, 1, 2 * MANY - (racy ? 2 : 1), 1, MPI_INT, wide);
    MPI_Win_unlock_all(wide);
    MPI_Win_free(&wide);
    MPI_Type_free(&every_other);
}
static void packed(int racy) {
    char space[64];
    int used = 0;
    lock_all();
    if (rank_ == 0) {
        get();
        if (!racy) flush();
        MPI_Pack(result, 1, MPI_LONG, space, sizeof space, &used, all);
    }
    unlock_all();
}
static void unpacked(int racy) {
    const char space[64] = {0};
    int used = 0;
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush_local();
        MPI_Unpack(space, sizeof space, &used, one, 1, MPI_LONG, all);
    }
    unlock_all();
}
static void reduced(int racy) {
    lock_all();
    if (rank_ == 0) {
        get();
        if (!racy) flush();
        MPI_Reduce_local(tokens, result, 1, MPI_LONG, MPI_SUM);
    }
    unlock_all();
}
static void set_by_library(int racy) {
    void *(*volatile by)(void *, int, size_t) = memset;
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) flush_local();
        by(one, 1, sizeof one);
    }
    unlock_all();
}
/* A buffer on the stack of a function that returns. */
static void __attribute__((noinline)) leaves(int completes) {
    long local[8] = {1, 2, 3};
    MPI_Put(local, 8, MPI_LONG, 1, 0, 8, MPI_LONG, win);
    if (completes) flush_local();
}
static void __attribute__((noinline)) overwrites(void) {
    void *(*volatile by)(void *, int, size_t) = memset;
    long local[8];
    seen = *(long *)by(local, 1, sizeof local);
}
static void left_stack(int racy) {
    lock_all();
    if (rank_ == 0) leaves(!racy), overwrites(), flush();
    unlock_all();
}
static void grown(int racy) {
    long *memory = calloc(4, sizeof *memory);
    lock_all();
    if (rank_ == 0) {
        MPI_Get(memory, 4, MPI_LONG, 1, 0, 4, MPI_LONG, win);
        if (!racy) flush();
        memory = realloc(memory, 1 << 16);
        memory[1] = 4;
        flush();
    }
    unlock_all();
    free(memory);
}
static void large(int racy) {
    enum { LARGE = 1 << 18 };
    MPI_Win wide;
    char *own, *from = calloc(1, LARGE);
    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, all, &own, &wide);
    MPI_Win_fence(0, wide);
    if (rank_ == 0) MPI_Put(from, LARGE, MPI_BYTE, 1, 0, LARGE, MPI_BYTE, wide);
    if (rank_ == 1 && racy) seen = ((volatile char *)own)[LARGE - 7];
    MPI_Win_fence(0, wide);
    if (rank_ == 1) seen = ((volatile char *)own)[LARGE - 7];
    MPI_Win_free(&wide);
    free(from);
}
#if MPI_VERSION >= 4
static void large_counts(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Get_c(result, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
        if (!racy) flush();
        seen = result[1];
    }
    unlock_all();
}
static void isendrecv(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put();
    if (rank_ == 0 && !racy) flush();
    if (rank_ < 2) {
        MPI_Isendrecv(&token, 1, MPI_LONG, 1 - rank_, 1, tokens, 1, MPI_LONG, 1 - rank_, 1, all, &q);
        complete(q);
    }
    if (rank_ == 1) pause_long(), load();
    unlock_all();
}
#endif
static void profiled(int racy) {
    lock_all();
    if (rank_ == 0) {
        PMPI_Get(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
        if (!racy) PMPI_Win_flush(1, win);
        seen = result[0];
    }
    unlock_all();
}
