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

#define THREAD_CASES                                                                              \
    CASE(by_thread_barrier, LOCAL), CASE(by_semaphore, LOCAL), CASE(by_condition, LOCAL),         \
        CASE(flushed_by_another, LOCAL), CASE(window_of_thread, LOCAL),                           \
        CASE(elements_of_threads, LOCAL), CASE(sums_of_threads, LOCAL),                           \
        CASE(stored_by_thread, LOCAL), CASE(received_by_thread, OPERATIONS),                      \
        CASE(epoch_of_thread, LOCAL)
