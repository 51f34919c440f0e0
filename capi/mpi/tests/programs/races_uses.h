/* The part of races_orders.c about the operations and their buffers, the memory of windows, shared
 * windows and threads. */

/* --- operations and requests ------------------------------------------------------------------ */

static void get_accumulate(MPI_Op op) {
    static long found;
    MPI_Get_accumulate(one, 1, MPI_LONG, &found, 1, MPI_LONG, 1, 0, 1, MPI_LONG, op, win);
}
static void no_op_and_put(int racy) {
    lock_all();
    if (rank_ == 0) get_accumulate(MPI_NO_OP);
    if (rank_ == 2 && racy) put();
    if (rank_ == 2 && !racy) MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_REPLACE, win);
    unlock_all();
}
static void no_op_and_get(int racy) {
    lock_all();
    if (rank_ == 0) get_accumulate(racy ? MPI_REPLACE : MPI_NO_OP);
    if (rank_ == 2) get();
    unlock_all();
}
/* Atomic reads and changes of one rank, to another rank's part and to its own. */
static void no_op_after_sum(int racy) {
    static long three[3];
    lock_all();
    if (rank_ == 0) {
        MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
        if (racy) get();
        else get_accumulate(MPI_NO_OP);
    }
    if (rank_ == 1) {
        MPI_Get_accumulate(one, 3, MPI_LONG, three, 3, MPI_LONG, 1, 0, 3, MPI_LONG, MPI_NO_OP, win);
        MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
    }
    unlock_all();
}
/* Buffers side by side, of which one operation is complete. */
static void side_by_side(int racy) {
    static int four[4];
    MPI_Request q[4];
    int done;
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < 4; i++) MPI_Rput(four + i, 1, MPI_INT, 1, i, 1, MPI_INT, win, q + i);
        MPI_Waitany(4, q, &done, MPI_STATUS_IGNORE);
        four[done] = 3;
        if (racy) four[(done + 1) % 4] = 3;
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
    }
    unlock_all();
}
/* The end of the request says nothing of the target. */
static void rget_accumulate(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        MPI_Rget_accumulate(one, 1, MPI_LONG, result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win, &q);
        complete(q);
        seen = result[0], one[0] = 3;
        if (!racy) flush();
        send(1);
    }
    if (rank_ == 1) receive(0), load();
    unlock_all();
}
/* Nor does the result of an atomic. */
static void swapped(int racy) {
    static long given, expected;
    lock_all();
    if (rank_ == 0) {
        MPI_Compare_and_swap(&given, &expected, result, MPI_LONG, 1, 0, win);
        if (racy) MPI_Win_flush_local(1, win);
        else flush();
        send(2);
    }
    if (rank_ == 2) receive(0), put(), flush();
    unlock_all();
}
static void fetched(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(one, result, MPI_LONG, 1, 0, MPI_SUM, win);
        if (racy) MPI_Win_flush_local(1, win);
        else flush();
        send(1);
    }
    if (rank_ == 1) receive(0), load();
    unlock_all();
}
/* What only reads is over when its result is here. */
static void only_read(int racy) {
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(0, result, MPI_LONG, 1, 0, MPI_NO_OP, win);
        if (!racy) MPI_Win_flush_local(1, win);
        send(2);
    }
    if (rank_ == 2) receive(0), put(), flush();
    unlock_all();
}
static void rput_and_get(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        MPI_Rput(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q);
        complete(q);
        if (!racy) flush();
        get();
    }
    unlock_all();
}
static void rget_and_flush(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        MPI_Rget(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q);
        if (!racy) MPI_Win_flush_local(1, win);
        seen = result[0];
        complete(q);
    }
    unlock_all();
}
static void rget_waitany(int racy) {
    MPI_Request q[2];
    int index = 0;
    lock_all();
    if (rank_ == 0) {
        MPI_Rget(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, &q[0]);
        MPI_Rget(two, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win, &q[1]);
        MPI_Waitany(2, q, &index, MPI_STATUS_IGNORE);
        seen = (racy ? !index : index) ? two[0] : result[0];
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        seen = two[0] + result[0];
    }
    unlock_all();
}
static void raccumulate(int racy) {
    MPI_Request q;
    int done = 0;
    lock_all();
    if (rank_ == 0) {
        MPI_Raccumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win, &q);
        if (racy) one[0] = 2;
        while (!done) MPI_Testall(1, &q, &done, MPI_STATUSES_IGNORE);
        one[0] = 1;
    }
    unlock_all();
}
static void same_result(int racy) {
    static long step = 1;
    lock_all();
    if (rank_ == 0) {
        MPI_Fetch_and_op(&step, result, MPI_LONG, 1, 0, MPI_SUM, win);
        MPI_Fetch_and_op(&step, result + !racy, MPI_LONG, 1, 1, MPI_SUM, win);
    }
    unlock_all();
}
static void sent_twice(int racy) {
    lock_all();
    if (rank_ == 0) {
        put_at(0), put_at(1);
        if (racy) MPI_Get(one, 1, MPI_LONG, 1, 2, 1, MPI_LONG, win);
    }
    unlock_all();
}
static void nothing(int racy) {
    lock_all();
    if (rank_ == 0) put();
    if (rank_ == 2) MPI_Put(one, racy, MPI_LONG, 1, 0, racy, MPI_LONG, win);
    if (rank_ == 2) MPI_Put(one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win);
    unlock_all();
}
/* The buffer of rank 1's put is in its part. */
static void from_part(int racy) {
    lock_all();
    if (rank_ == 1) MPI_Put(part, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
    if (!racy) barrier();
    if (rank_ == 0) put(), flush();
    unlock_all();
}
static void into_part(int racy) {
    lock_all();
    if (rank_ == 1) MPI_Get(part, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win), MPI_Win_flush(2, win);
    if (!racy) barrier();
    if (rank_ == 0) get(), flush();
    unlock_all();
}
/* A message arrives in the buffer of a put. */
static void received_into(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 2) MPI_Send(two, 1, MPI_LONG, 0, 1, all);
    if (rank_ == 0) {
        MPI_Irecv(one, 1, MPI_LONG, 2, 1, all, &q);
        if (!racy) complete(q);
        put(), flush();
        if (racy) complete(q);
    }
    unlock_all();
}

/* --- memory ----------------------------------------------------------------------------------- */

static void beside(int racy) {
    lock_all();
    if (rank_ == 0) MPI_Put(one, 3, MPI_BYTE, 1, 1, 3, MPI_BYTE, win);
    if (rank_ == 1) ((volatile char *)part)[racy ? sizeof(long) + 2 : sizeof(long) + 3] = 4;
    unlock_all();
}
static void subarrays(int racy) {
    const int sizes[2] = {4, 4}, half[2] = {2, 2}, at[2] = {0, 0}, other[2] = {racy ? 1 : 2, racy ? 1 : 0};
    MPI_Datatype tile, next;
    MPI_Type_create_subarray(2, sizes, half, at, MPI_ORDER_C, MPI_LONG, &tile);
    MPI_Type_create_subarray(2, sizes, half, other, MPI_ORDER_C, MPI_LONG, &next);
    MPI_Type_commit(&tile), MPI_Type_commit(&next);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 4, MPI_LONG, 1, 0, 1, tile, win);
    if (rank_ == 2) MPI_Get(result, 4, MPI_LONG, 1, 0, 1, next, win);
    unlock_all();
    MPI_Type_free(&tile), MPI_Type_free(&next);
}
static void structures(int racy) {
    const int lengths[2] = {1, 2};
    const MPI_Aint places[2] = {0, 16};
    const MPI_Datatype kinds[2] = {MPI_CHAR, MPI_INT};
    MPI_Datatype record;
    MPI_Type_create_struct(2, lengths, places, kinds, &record);
    MPI_Type_commit(&record);
    lock_all();
    if (rank_ == 0) MPI_Put(one, 1, record, 1, 0, 1, record, win);
    if (rank_ == 2) MPI_Get(result, 1, MPI_LONG, 1, racy ? 2 : 1, 1, MPI_LONG, win);
    unlock_all();
    MPI_Type_free(&record);
}
/* The buffer is named by a datatype of absolute addresses. */
static void absolute(int racy) {
    const int lengths[2] = {1, 1};
    MPI_Aint places[2];
    MPI_Datatype pair;
    MPI_Get_address(&result[0], &places[0]), MPI_Get_address(&result[2], &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    lock_all();
    if (rank_ == 0) MPI_Get(MPI_BOTTOM, 1, pair, 1, 0, 2, MPI_LONG, win), seen = result[racy ? 2 : 1];
    unlock_all();
    MPI_Type_free(&pair);
}
static void attached(int racy) {
    MPI_Win dynamic;
    MPI_Aint at = 0;
    long *first = calloc(4, sizeof *first), *second = calloc(4, sizeof *second);
    MPI_Win_create_dynamic(MPI_INFO_NULL, all, &dynamic);
    if (rank_ == 1) {
        MPI_Win_attach(dynamic, first, 4 * sizeof *first), MPI_Win_attach(dynamic, second, 4 * sizeof *second);
        MPI_Get_address(first, &at);
    }
    MPI_Bcast(&at, 1, MPI_AINT, 1, all);
    MPI_Win_lock_all(0, dynamic);
    if (rank_ == 0) MPI_Put(one, 1, MPI_LONG, 1, at, 1, MPI_LONG, dynamic), MPI_Win_flush(1, dynamic);
    if (rank_ == 1) seen = racy ? first[0] : second[0];
    barrier();
    if (rank_ == 1) MPI_Win_detach(dynamic, first), first[0] = 4;
    MPI_Win_unlock_all(dynamic);
    MPI_Win_free(&dynamic);
    free(first), free(second);
}

/* --- shared windows: rank 1's memory, which the others load and store too --------------------- */

static MPI_Win shared;
static long *of_one(void) {
    MPI_Aint size;
    int unit;
    long *own, *theirs;
    MPI_Win_allocate_shared(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, all, &own, &shared);
    MPI_Win_shared_query(shared, 1, &size, &unit, &theirs);
    MPI_Win_lock_all(0, shared);
    barrier();
    return theirs;
}
static void end_shared(void) {
    MPI_Win_unlock_all(shared);
    MPI_Win_free(&shared);
}
static void meet(int racy) {
    MPI_Win_sync(shared);
    if (!racy) barrier();
    MPI_Win_sync(shared);
}
/* A store of rank 0 and a get of rank 2. */
static void remote_store(int racy) {
    long *theirs = of_one();
    if (rank_ == 0) theirs[0] = 5;
    meet(racy);
    if (rank_ == 2) MPI_Get(result, 1, MPI_LONG, 1, 0, 1, MPI_LONG, shared);
    end_shared();
}
static void remote_load(int racy) {
    long *theirs = of_one();
    if (rank_ == 0) MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, shared), MPI_Win_flush(1, shared);
    meet(racy);
    if (rank_ == 2) seen = theirs[0];
    end_shared();
}
/* Loads and stores only. */
static void remote_both(int racy) {
    long *theirs = of_one();
    if (rank_ == 0) theirs[0] = 5;
    meet(racy);
    if (rank_ == 2) seen = theirs[0];
    end_shared();
}
static void owner_and_remote(int racy) {
    long *theirs = of_one();
    if (rank_ == 1) theirs[0] = 5;
    meet(racy);
    if (rank_ == 2) theirs[0] = 6;
    end_shared();
}
static void remote_words(int racy) {
    long *theirs = of_one();
    theirs[racy ? 0 : rank_] = rank_;
    end_shared();
}

/* --- threads ---------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int turn;
static void *reads_later(void *takes) {
    for (int mine = 0; !mine;) {
        if (takes) pthread_mutex_lock(&mutex);
        mine = __atomic_load_n(&turn, __ATOMIC_RELAXED);
        if (mine) seen = result[0];
        if (takes) pthread_mutex_unlock(&mutex);
    }
    return 0;
}
static void under_mutex(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        pthread_create(&thread, 0, reads_later, racy ? 0 : &turn);
        pthread_mutex_lock(&mutex);
        get(), flush();
        __atomic_store_n(&turn, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&mutex);
        pthread_join(thread, 0);
    }
    unlock_all();
}
static void *loads(void *unused) {
    while (!__atomic_load_n(&turn, __ATOMIC_RELAXED)) {
    }
    load();
    return unused;
}
/* One thread of rank 1 receives, another one loads. */
static void received_by_another(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) put(), flush(), send(1);
    if (rank_ == 1) {
        if (racy) pthread_create(&thread, 0, loads, 0);
        receive(0);
        __atomic_store_n(&turn, 1, __ATOMIC_RELAXED);
        if (!racy) pthread_create(&thread, 0, loads, 0);
        pthread_join(thread, 0);
    }
    unlock_all();
}
