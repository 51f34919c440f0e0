/* The part of races_forms.c about threads of rank 0 and rank 1, which POSIX synchronizes. */

static int turn;
static pthread_barrier_t met;
static sem_t raised;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void in_thread(void *(*body)(void *), void *argument, pthread_t *thread) {
    pthread_create(thread, 0, body, argument);
}
/* One thread completes the get, and lets another one read: by `how`. */
static void *reads_after_barrier(void *waits) {
    if (waits) pthread_barrier_wait(&met);
    seen = result[0];
    if (!waits) pthread_barrier_wait(&met);
    return 0;
}
static void by_thread_barrier(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        pthread_barrier_init(&met, 0, 2);
        in_thread(reads_after_barrier, racy ? 0 : &turn, &thread);
        if (racy) pause_long();
        get(), flush();
        pthread_barrier_wait(&met);
        pthread_join(thread, 0);
        pthread_barrier_destroy(&met);
    }
    unlock_all();
}
static void *reads_after_semaphore(void *unused) {
    sem_wait(&raised);
    seen = result[0];
    return unused;
}
static void by_semaphore(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        sem_init(&raised, 0, 0);
        in_thread(reads_after_semaphore, 0, &thread);
        get();
        if (racy) sem_post(&raised), pause_long();
        flush();
        if (!racy) sem_post(&raised);
        pthread_join(thread, 0);
        sem_destroy(&raised);
    }
    unlock_all();
}
static void *reads_after_signal(void *unused) {
    pthread_mutex_lock(&guard);
    while (!turn) pthread_cond_wait(&changed, &guard);
    pthread_mutex_unlock(&guard);
    seen = result[0];
    return unused;
}
static void signals(void) {
    pthread_mutex_lock(&guard);
    turn = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&guard);
}
static void by_condition(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        in_thread(reads_after_signal, 0, &thread);
        get();
        if (racy) signals(), pause_long();
        flush();
        if (!racy) signals();
        pthread_join(thread, 0);
    }
    unlock_all();
}
/* One thread puts, another one flushes; then the buffer is written. */
static void *flushes(void *unused) {
    flush();
    return unused;
}
static void flushed_by_another(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        put();
        if (!racy) in_thread(flushes, 0, &thread), pthread_join(thread, 0);
        one[0] = 4;
        flush();
    }
    unlock_all();
}
/* Two threads of rank 0 with a window each. */
static MPI_Win second_win;
static void *puts_there(void *buffer) {
    MPI_Put(buffer, 1, MPI_LONG, 1, 0, 1, MPI_LONG, second_win);
    MPI_Win_flush(1, second_win);
    return 0;
}
static void window_of_thread(int racy) {
    pthread_t thread;
    long *own;
    MPI_Win_allocate(64, sizeof(long), MPI_INFO_NULL, all, &own, &second_win);
    MPI_Win_lock_all(0, second_win), lock_all();
    if (rank_ == 0) {
        in_thread(puts_there, racy ? result : tokens, &thread);
        get(), flush();
        pthread_join(thread, 0);
    }
    unlock_all(), MPI_Win_unlock_all(second_win);
    MPI_Win_free(&second_win);
}
/* Two threads of the origin use different elements, or the same one. */
static void *puts_element(void *element) {
    const long at = (long)element;
    MPI_Put(&one[at], 1, MPI_LONG, 1, at, 1, MPI_LONG, win);
    flush();
    return 0;
}
static void elements_of_threads(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        in_thread(puts_element, (void *)(racy ? 2L : 3L), &thread);
        puts_element((void *)2L);
        pthread_join(thread, 0);
    }
    unlock_all();
}
static void *sums_element(void *puts) {
    if (puts) put();
    else MPI_Accumulate(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
    flush();
    return 0;
}
static void sums_of_threads(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        in_thread(sums_element, racy ? &turn : 0, &thread);
        MPI_Accumulate(&one[1], 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win), flush();
        pthread_join(thread, 0);
    }
    unlock_all();
}
/* A thread of rank 1 stores into the window while rank 0 puts. */
static void *stores(void *unused) {
    part[0] = 4;
    return unused;
}
static void stored_by_thread(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 1) in_thread(stores, 0, &thread);
    if (rank_ == 1 && !racy) pthread_join(thread, 0);
    barrier();
    if (rank_ == 0) put(), flush();
    barrier();
    if (rank_ == 1 && racy) pthread_join(thread, 0);
    unlock_all();
}
/* A thread receives for the one that operates. */
static void *receives(void *unused) {
    receive(0);
    return unused;
}
static void received_by_thread(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        if (racy) send(2);
        put(), flush();
        if (!racy) send(2);
    }
    if (rank_ == 2) in_thread(receives, 0, &thread), pthread_join(thread, 0), pause_long(), get(), flush();
    unlock_all();
}
static void *begins_get(void *unused) {
    lock_all();
    get();
    unlock_all();
    return unused;
}
/* The whole epoch is in a thread. */
static void epoch_of_thread(int racy) {
    pthread_t thread;
    if (rank_ == 0) {
        in_thread(begins_get, 0, &thread);
        if (racy) pause_long(), seen = result[0];
        pthread_join(thread, 0);
        seen = result[0];
    }
    barrier();
}

/* Two threads of rank 0, which rank 1 orders by calls on a communicator with each of them. */
static MPI_Comm duos[2];
static MPI_Win duo_windows[2];
static void (*meet_on)(int);
static void meet_by_barrier(int duo) { MPI_Barrier(duos[duo]); }
static void meet_by_request(int duo) {
    MPI_Request q;
    MPI_Ibarrier(duos[duo], &q), complete(q);
}
static void meet_by_reduction(int duo) {
    long sum;
    MPI_Allreduce(&token, &sum, 1, MPI_LONG, MPI_SUM, duos[duo]);
}
static void meet_by_fence(int duo) { MPI_Win_fence(0, duo_windows[duo]); }
static void *gets_after_meeting(void *unused) {
    meet_on(1);
    get(), flush();
    return unused;
}
static void threads_meet(int racy, void (*meet)(int)) {
    pthread_t thread;
    meet_on = meet;
    for (int duo = 0; duo < 2; duo++) {
        long *memory;
        MPI_Comm_split(all, rank_ < 2 ? 0 : MPI_UNDEFINED, rank_, &duos[duo]);
        if (rank_ < 2) MPI_Win_allocate(8, 8, MPI_INFO_NULL, duos[duo], &memory, &duo_windows[duo]);
    }
    lock_all();
    if (rank_ == 0) {
        in_thread(gets_after_meeting, 0, &thread);
        if (racy) meet(0), pause_long();
        put(), flush();
        if (!racy) meet(0);
        pthread_join(thread, 0);
    }
    if (rank_ == 1) meet(0), meet(1);
    unlock_all();
    for (int duo = 0; duo < 2; duo++) {
        if (rank_ < 2) MPI_Win_free(&duo_windows[duo]), MPI_Comm_free(&duos[duo]);
    }
}
static void threads_by_barriers(int racy) { threads_meet(racy, meet_by_barrier); }
static void threads_by_requests(int racy) { threads_meet(racy, meet_by_request); }
static void threads_by_reductions(int racy) { threads_meet(racy, meet_by_reduction); }
static void threads_by_fences(int racy) { threads_meet(racy, meet_by_fence); }
/* Two threads get the same memory one after the other: of a window, or of MPI_Alloc_mem. In the
 * form `during` they have stored to one variable before. */
static volatile long shared_variable;
static int shares;
static void *uses_window(void *comm) {
    long *memory;
    MPI_Win own;
    if (shares) shared_variable = 1;
    MPI_Win_allocate(1 << 16, sizeof(long), MPI_INFO_NULL, *(MPI_Comm *)comm, &memory, &own);
    for (int i = 0; i < 100; i++) memory[i] = i;
    MPI_Win_free(&own);
    return 0;
}
static void *uses_memory(void *unused) {
    long *memory;
    if (shares) shared_variable = 1;
    MPI_Alloc_mem(1 << 16, MPI_INFO_NULL, &memory);
    for (int i = 0; i < 100; i++) memory[i] = i;
    MPI_Free_mem(memory);
    return unused;
}
static void memory_of_threads(int racy, void *(*use)(void *)) {
    pthread_t threads[2];
    MPI_Comm comms[2];
    shares = racy;
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
    for (int i = 0; i < 2; i++) in_thread(use, &comms[i], &threads[i]), pause_long();
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0), MPI_Comm_free(&comms[i]);
}
static void windows_of_threads(int racy) { memory_of_threads(racy, uses_window); }
static void allocated_by_threads(int racy) { memory_of_threads(racy, uses_memory); }
/* A thread waits for a request that another one completes. */
static MPI_Request general;
static int general_query(void *unused, MPI_Status *status) {
    (void)unused;
    MPI_Status_set_elements(status, MPI_BYTE, 0), MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
static int general_free(void *unused) { return (void)unused, MPI_SUCCESS; }
static int general_cancel(void *unused, int is_over) { return (void)unused, (void)is_over, MPI_SUCCESS; }
static void *reads_after_general(void *unused) {
    MPI_Request q = general;
    complete(q);
    seen = result[0];
    return unused;
}
static void by_general_request(int racy) {
    pthread_t thread;
    lock_all();
    if (rank_ == 0) {
        MPI_Grequest_start(general_query, general_free, general_cancel, 0, &general);
        in_thread(reads_after_general, 0, &thread);
        pause_long();
        if (racy) MPI_Grequest_complete(general), pause_long();
        get(), flush();
        if (!racy) MPI_Grequest_complete(general);
        pthread_join(thread, 0);
    }
    unlock_all();
}

#define THREAD_CASES                                                                              \
    CASE(by_thread_barrier, LOCAL), CASE(by_semaphore, LOCAL), CASE(by_condition, LOCAL),         \
        CASE(flushed_by_another, LOCAL), CASE(window_of_thread, LOCAL),                           \
        CASE(elements_of_threads, LOCAL), CASE(sums_of_threads, LOCAL),                           \
        CASE(stored_by_thread, LOCAL), CASE(received_by_thread, OPERATIONS),                      \
        CASE(epoch_of_thread, LOCAL), CASE(threads_by_barriers, LOCAL),                           \
        CASE(threads_by_requests, LOCAL), CASE(threads_by_reductions, LOCAL),                     \
        CASE(threads_by_fences, LOCAL), CASE(windows_of_threads, LOCAL),                          \
        CASE(allocated_by_threads, LOCAL), CASE(by_general_request, LOCAL)
