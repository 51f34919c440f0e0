/* Hints that are untrue or broken, that differ among the ranks, or that have no meaning cost speed
 * or a line of warning, never the window. */
#include "check.h"

static MPI_Info info_of(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (key) MPI_Info_set(info, key, value);
    return info;
}

enum { CREATE, ALLOCATE, SHARED, DYNAMIC, KINDS };

/* Windows of all kinds with an info; their contents are checked by puts, accumulates and fetches,
 * within locks and fences. */
static long works(int kind, const char *key, const char *value, int shared) {
    MPI_Info info = info_of(key, value);
    static long memory[64];
    long *part = memory, bad = 0, mine = rank_ + 1, old = -1, *addresses = malloc(sizeof(long) * (size_t)size_);
    MPI_Win win;
    if (kind == SHARED && !shared) kind = ALLOCATE;
    if (kind == CREATE) bad |= MPI_Win_create(memory, sizeof memory, 8, info, MPI_COMM_WORLD, &win);
    if (kind == ALLOCATE) bad |= MPI_Win_allocate(sizeof memory, 8, info, MPI_COMM_WORLD, &part, &win);
    if (kind == SHARED) bad |= MPI_Win_allocate_shared(sizeof memory, 8, info, MPI_COMM_WORLD, &part, &win);
    if (kind == DYNAMIC) bad |= MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win) || MPI_Win_attach(win, memory, sizeof memory);
    memset(part, 0, sizeof memory);
    MPI_Aint at;
    MPI_Get_address(part, &at);
    long place = kind == DYNAMIC ? at : 0;
    MPI_Allgather(&place, 1, MPI_LONG, addresses, 1, MPI_LONG, MPI_COMM_WORLD);
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    long step = kind == DYNAMIC ? 8 : 1;
    MPI_Barrier(MPI_COMM_WORLD);
    bad |= MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win) << 1;
    bad |= MPI_Put(&mine, 1, MPI_LONG, next, addresses[next], 1, MPI_LONG, win) << 1;
    bad |= MPI_Win_unlock(next, win) << 1;
    bad |= MPI_Win_lock_all(0, win) << 2;
    for (int to = 0; to < size_; to++) {
        MPI_Accumulate(&mine, 1, MPI_LONG, to, addresses[to] + step, 1, MPI_LONG, MPI_SUM, win);
        MPI_Fetch_and_op(&mine, &old, MPI_LONG, to, addresses[to] + 2 * step, MPI_SUM, win);
    }
    bad |= MPI_Win_flush_all(win) << 2;
    bad |= MPI_Win_unlock_all(win) << 2;
    bad |= (old < 0) << 3;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    long sum = (long)size_ * (size_ + 1) / 2;
    bad |= (part[0] != last + 1) << 4 | (part[1] != sum) << 5 | (part[2] != sum) << 6;
    MPI_Win_unlock(rank_, win);
    bad |= MPI_Win_fence(0, win) << 7;
    mine += 10;
    MPI_Put(&mine, 1, MPI_LONG, next, addresses[next] + 3 * step, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    bad |= (part[3] != last + 11) << 8;
    if (kind == SHARED) {
        MPI_Aint size;
        int unit;
        long *theirs;
        MPI_Win_shared_query(win, next, &size, &unit, &theirs);
        bad |= (theirs[3] != rank_ + 11) << 9;
    }
    MPI_Win_fence(0, win), MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (kind == DYNAMIC) MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    free(addresses);
    return bad;
}

struct hint { const char *key, *values[3]; };

/* The ranks give these in turn; NULL: no such key. */
static const struct hint hints_[] = {
    {"no_locks", {"true", "true", "true"}},
    {"no_locks", {"true", NULL, "false"}},
    {"no_locks", {"maybe", "maybe", "maybe"}},
    {"mpi_accumulate_granularity", {"8", "0", NULL}},
    {"mpi_accumulate_granularity", {"4096", "8", "many"}},
    {"accumulate_ordering", {"none", "rar,waw", NULL}},
    {"accumulate_ordering", {"none,rar", "first", "none,none"}},
    {"accumulate_ops", {"same_op", "same_op_no_op", NULL}},
    {"accumulate_ops", {"sum", "sum", "sum"}},
    {"same_size", {"true", "false", "perhaps"}},
    {"same_disp_unit", {"true", "false", "perhaps"}},
    {"alloc_shared_noncontig", {"true", "false", NULL}},
    {"alloc_shared_noncontig", {"yes", "yes", "yes"}},
    {"mpi_minimum_alignment", {"64", NULL, "4096"}},
    {"mpi_minimum_memory_alignment", {"65536", "12", "-1"}},
    {"mpi_assert_memory_alloc_kinds", {"system", NULL, "other"}},
    {"transom_model", {"separate", "unified", NULL}},
    {"transom_model", {"third", "third", "third"}},
    {"transom_atomics", {"cpu", "auto", "nic"}},
    {"transom_atomics", {"gpu", "gpu", "gpu"}},
    {"transom_notify", {"device", "auto", "cpu"}},
    {"transom_notify", {"nic", "nic", "nic"}},
};

static void created(int shared) {
    for (size_t h = 0; h < sizeof hints_ / sizeof hints_[0]; h++) {
        const struct hint *hint = &hints_[h];
        const char *mine = hint->values[rank_ % 3];
        long bad = 0;
        char text[120];
        for (int kind = 0; kind < KINDS; kind++)
            if (works(kind, mine ? hint->key : NULL, mine, shared)) bad |= 1 << kind;
        snprintf(text, sizeof text, "%s: %s, %s, %s", hint->key, hint->values[0], hint->values[1] ? hint->values[1] : "-",
                 hint->values[2] ? hint->values[2] : "-");
        check(text, bad);
    }
}

/* The same hints for an existing window. */
static void changed(void) {
    MPI_Win win;
    long *part, mine = rank_, bad = 0;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (size_t h = 0; h < sizeof hints_ / sizeof hints_[0]; h++) {
        const char *value = hints_[h].values[rank_ % 3];
        MPI_Info info = info_of(value ? hints_[h].key : NULL, value);
        bad |= MPI_Win_set_info(win, info) != MPI_SUCCESS;
        MPI_Info_free(&info);
        bad |= (MPI_Win_lock_all(0, win) != MPI_SUCCESS) << 1;
        MPI_Put(&mine, 1, MPI_LONG, (rank_ + 1) % size_, 0, 1, MPI_LONG, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    bad |= (*part != (rank_ + size_ - 1) % size_) << 2;
    check("hints of a window that lives", bad);
    MPI_Win_free(&win);
}

/* Promises that all ranks give and break: parts of different sizes, different displacement units,
 * and two operations on one element. */
static void broken(int allocated) {
    MPI_Info info = info_of("same_size", "true");
    static long memory[512];
    int next = (rank_ + 1) % size_, last = (rank_ + size_ - 1) % size_;
    long *part = memory, mine = rank_ + 1, words = 8 * (rank_ + 1), words_of_next = 8 * (next + 1), bad = 0;
    int unit = rank_ % 2 ? 4 : 8, unit_of_next = next % 2 ? 4 : 8;
    MPI_Win win;
    MPI_Info_set(info, "same_disp_unit", "true");
    MPI_Info_set(info, "accumulate_ops", "same_op");
    if (allocated) bad |= MPI_Win_allocate(8 * words, unit, info, MPI_COMM_WORLD, &part, &win);
    else bad |= MPI_Win_create(memory, 8 * words, unit, info, MPI_COMM_WORLD, &win);
    MPI_Info_free(&info);
    memset(part, 0, (size_t)(8 * words));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    bad |= MPI_Put(&mine, 1, MPI_LONG, next, (8 * words_of_next - 8) / unit_of_next, 1, MPI_LONG, win) << 1;
    bad |= MPI_Accumulate(&mine, 1, MPI_LONG, next, 0, 1, MPI_LONG, MPI_SUM, win) << 2;
    MPI_Win_flush(next, win);
    bad |= MPI_Accumulate(&mine, 1, MPI_LONG, next, 0, 1, MPI_LONG, MPI_PROD, win) << 2;
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    bad |= (part[words - 1] != last + 1) << 3 | (part[0] != (long)(last + 1) * (last + 1)) << 4;
    MPI_Win_unlock(rank_, win);
    MPI_Win_free(&win);
    check(allocated ? "broken promises, allocated" : "broken promises, created", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm node;
    int together;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &together);
    MPI_Comm_free(&node);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* Elsewhere the host serves shared windows. */
    created(together == size_ && !getenv("TRANSOM_TEST_NODES") && !getenv("TRANSOM_TRANSPORTS"));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    changed();
    broken(0);
    broken(1);
    return end();
}
