/* The part of races_patterns.c about shared windows, whose memory all ranks load and store. */

static MPI_Win shared;
static long *mine;      /* this rank's part */
static long *others[3]; /* the parts of all ranks */

static void begin_shared(void) {
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &mine, &shared);
    for (int rank = 0; rank < 3; rank++) MPI_Win_shared_query(shared, rank, &size, &unit, &others[rank]);
    for (int i = 0; i < 8; i++) mine[i] = 0;
    MPI_Win_lock_all(0, shared);
    MPI_Win_sync(shared);
    barrier();
    MPI_Win_sync(shared);
}
static void end_shared(void) {
    MPI_Win_unlock_all(shared);
    barrier();
    MPI_Win_free(&shared);
}
static void meet(int racy) {
    MPI_Win_sync(shared);
    if (!racy) barrier();
    MPI_Win_sync(shared);
}
/* Without a query: the parts are contiguous. */
static void contiguous(int racy) {
    begin_shared();
    if (rank_ < 2) mine[8] = rank_;
    meet(racy);
    if (rank_ > 0) pause_long(), seen = mine[0];
    end_shared();
}
static void of_others(int racy) {
    begin_shared();
    if (rank_ == 0) others[1][2] = 5;
    meet(racy);
    if (rank_ == 2) pause_long(), seen = others[1][2];
    end_shared();
}
static void owner_loads(int racy) {
    begin_shared();
    if (rank_ == 0) others[1][0] = 5;
    meet(racy);
    if (rank_ == 1) pause_long(), seen = mine[0];
    end_shared();
}
static void owner_stores(int racy) {
    begin_shared();
    if (rank_ == 1) mine[0] = 5;
    meet(racy);
    if (rank_ == 0) pause_long(), seen = others[1][0];
    end_shared();
}
/* Loads of all ranks; racy: and a store. */
static void readers(int racy) {
    begin_shared();
    seen = others[0][0] + others[1][0] + others[2][0];
    if (racy && rank_ == 2) others[0][0] = 3;
    end_shared();
}
static void bytes_of_word(int racy) {
    begin_shared();
    ((volatile char *)others[1])[racy && rank_ == 2 ? 0 : rank_] = 1;
    end_shared();
}
static void shared_put(int racy) {
    begin_shared();
    if (rank_ == 0) MPI_Put(one, 2, MPI_LONG, 1, 0, 2, MPI_LONG, shared), MPI_Win_flush(1, shared);
    meet(racy);
    if (rank_ == 2) pause_long(), seen = others[1][1];
    end_shared();
}
static void shared_get(int racy) {
    begin_shared();
    if (rank_ == 0) MPI_Get(result, 2, MPI_LONG, 1, 0, 2, MPI_LONG, shared), MPI_Win_flush(1, shared);
    meet(racy);
    if (rank_ == 2) pause_long(), others[1][1] = 4;
    end_shared();
}
static void shared_accumulate(int racy) {
    begin_shared();
    if (rank_ == 0) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, shared), MPI_Win_flush(1, shared);
    meet(racy);
    if (rank_ == 2) pause_long(), seen = others[1][0];
    end_shared();
}
/* The put of this rank is not complete. */
static void own_put(int racy) {
    begin_shared();
    if (rank_ == 0) {
        MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, shared);
        if (!racy) MPI_Win_flush(1, shared);
        seen = others[1][0];
    }
    end_shared();
}
static void shared_message(int racy) {
    begin_shared();
    if (rank_ == 0) {
        if (racy) send(2);
        others[1][3] = 5;
        MPI_Win_sync(shared);
        if (!racy) send(2);
    }
    if (rank_ == 2) receive(0), MPI_Win_sync(shared), pause_long(), seen = others[1][3];
    end_shared();
}
static void shared_locks(int racy) {
    MPI_Aint size;
    int unit;
    long *first;
    MPI_Win_allocate_shared(rank_ ? 0 : 64, sizeof(long), MPI_INFO_NULL, all, &mine, &shared);
    MPI_Win_shared_query(shared, MPI_PROC_NULL, &size, &unit, &first);
    for (int i = 0; i < 3; i++) {
        MPI_Win_lock(racy ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, shared);
        first[0] = first[0] + 1;
        MPI_Win_unlock(0, shared);
    }
    MPI_Win_free(&shared);
}
static void shared_fences(int racy) {
    MPI_Win_allocate_shared(64, sizeof(long), MPI_INFO_NULL, all, &mine, &shared);
    MPI_Win_fence(0, shared);
    for (int step = 0; step < 3; step++) {
        if (rank_ < 2) mine[8] = step;
        if (!racy || step != 1) MPI_Win_fence(0, shared);
        if (rank_ > 0) seen = mine[0];
        MPI_Win_fence(0, shared);
    }
    MPI_Win_free(&shared);
}
static void shared_groups(int racy) {
    const int zero = 0, target = 1;
    MPI_Group world, origin, owner;
    MPI_Win_allocate_shared(64, sizeof(long), MPI_INFO_NULL, all, &mine, &shared);
    MPI_Comm_group(all, &world);
    MPI_Group_incl(world, 1, &zero, &origin), MPI_Group_incl(world, 1, &target, &owner);
    if (rank_ == 1) MPI_Win_post(origin, 0, shared);
    if (rank_ == 0) MPI_Win_start(owner, 0, shared), mine[8] = 4, MPI_Win_complete(shared);
    if (rank_ == 0 && racy) mine[8] = 5;
    if (rank_ == 1) MPI_Win_wait(shared), seen = mine[0];
    MPI_Group_free(&world), MPI_Group_free(&origin), MPI_Group_free(&owner);
    MPI_Win_free(&shared);
}
/* A flag in the shared memory, by atomics of the language. */
static void shared_flag(int racy) {
    begin_shared();
    if (rank_ == 0) {
        if (!racy) others[1][0] = 5;
        __atomic_store_n(&others[1][1], 1, __ATOMIC_RELEASE);
        if (racy) others[1][0] = 5;
    }
    if (rank_ == 2) {
        while (!__atomic_load_n(&others[1][1], __ATOMIC_ACQUIRE)) MPI_Win_sync(shared);
        seen = others[1][0];
    }
    end_shared();
}
/* A lock of the same kind. */
static void shared_spin(int racy) {
    int *lock;
    begin_shared();
    lock = (int *)&others[0][7];
    for (int i = 0; i < 5; i++) {
        int is_free = 0;
        const int takes = !racy || rank_ != 2;
        while (takes && !__atomic_compare_exchange_n(lock, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) is_free = 0;
        others[1][0] = others[1][0] + 1;
        if (takes) __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    }
    end_shared();
}
/* Ranks count themselves, and the last one reads. */
static void shared_count(int racy) {
    begin_shared();
    if (!racy) others[1][rank_] = 5;
    const long before = __atomic_fetch_add(&others[2][7], 1, __ATOMIC_ACQ_REL);
    if (racy) others[1][rank_] = 5;
    if (before == 2) seen = others[1][0] + others[1][1] + others[1][2];
    end_shared();
}
/* An atomic of MPI orders loads and stores. */
static void shared_ticket(int racy) {
    const long step = 1, none = 0;
    long now = 0;
    begin_shared();
    if (rank_ == 0) {
        if (!racy) others[1][0] = 5;
        MPI_Win_sync(shared);
        MPI_Accumulate(&step, 1, MPI_LONG, 2, 6, 1, MPI_LONG, MPI_SUM, shared), MPI_Win_flush(2, shared);
        if (racy) others[1][0] = 5;
    }
    while (rank_ == 2 && !now) MPI_Fetch_and_op(&none, &now, MPI_LONG, 2, 6, MPI_NO_OP, shared), MPI_Win_flush(2, shared);
    if (rank_ == 2) MPI_Win_sync(shared), seen = others[1][0];
    end_shared();
}
/* A message from memory that another rank stores. */
static void sent_from_shared(int racy) {
    begin_shared();
    if (rank_ == 0) MPI_Send(others[1], 1, MPI_LONG, 1, 1, all);
    if (rank_ == 1) MPI_Recv(token, 1, MPI_LONG, 0, 1, all, MPI_STATUS_IGNORE);
    if (!racy) barrier();
    if (rank_ == 2) pause_long(), others[1][0] = 3;
    end_shared();
}
/* The buffer of an operation on another window is in memory that another rank stores. */
static void put_from_shared(int racy) {
    begin_shared();
    lock_all();
    if (rank_ == 0) MPI_Put(others[1], 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), flush();
    unlock_all();
    if (!racy) barrier();
    if (rank_ == 2) pause_long(), others[1][0] = 3;
    end_shared();
}
static void got_into_shared(int racy) {
    begin_shared();
    lock_all();
    if (rank_ == 0) MPI_Get(others[1], 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), flush();
    unlock_all();
    if (!racy) barrier();
    if (rank_ == 2) pause_long(), seen = others[1][0];
    end_shared();
}
/* Private parts of a structure that all ranks have. */
static void structure(int racy) {
    struct slot {
        int owner;
        short state;
        char name[10];
    } *slots;
    begin_shared();
    slots = (struct slot *)others[1];
    slots[rank_].owner = rank_, slots[rank_].name[9] = 'x';
    slots[racy ? 0 : rank_].state = 1;
    end_shared();
}

#define SHARED_CASES                                                                               \
    {"contiguous", contiguous, 0}, {"of_others", of_others, 0}, {"owner_loads", owner_loads, 0},   \
        {"owner_stores", owner_stores, 0}, {"readers", readers, 0},                                \
        {"bytes_of_word", bytes_of_word, 0}, {"shared_put", shared_put, 0},                        \
        {"shared_get", shared_get, 0}, {"shared_accumulate", shared_accumulate, 0},                \
        {"own_put", own_put, 0}, {"shared_message", shared_message, 0},                            \
        {"shared_locks", shared_locks, 0}, {"shared_fences", shared_fences, 0},                    \
        {"shared_groups", shared_groups, 0}, {"shared_flag", shared_flag, 0},                      \
        {"shared_spin", shared_spin, 0}, {"shared_count", shared_count, 0},                        \
        {"shared_ticket", shared_ticket, 0}, {"sent_from_shared", sent_from_shared, 0},            \
        {"put_from_shared", put_from_shared, 0}, {"got_into_shared", got_into_shared, 0},          \
        {"structure", structure, 0}
