/* Further programs of the kind of races_orders.c, for three ranks, about the order of messages:
 * requests that the program cancels or frees, receives that fail, and threads that receive at the
 * same time. In the form `during` an access comes before the call that would order it. Rank 1 has
 * the memory on which rank 0 operates. */
#include "races_case.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };
static int rank_;
static MPI_Win win;
static long *part;                              /* this rank's part of the window */
static long one[COUNT], two[COUNT], got[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put(void) { MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win), MPI_Win_flush(1, win); }
static void load(void) { seen = part[0]; }
static void barrier(void) { MPI_Barrier(all); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void wait_for(MPI_Request *q) { MPI_Wait(q, MPI_STATUS_IGNORE); }
static void send(int to, int tag) { MPI_Send(two, 1, MPI_LONG, to, tag, all); }
static void receive(int from, int tag) { MPI_Recv(got, 1, MPI_LONG, from, tag, all, MPI_STATUS_IGNORE); }
static void ireceive(int from, int tag, MPI_Request *q) { MPI_Irecv(got + 8, 1, MPI_LONG, from, tag, all, q); }
/* The others go on first, as a rule. */
static void linger(void) { usleep(30000); }

/* The end of a cancelled receive orders no ranks. */
static void cancelled(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) receive(1, 6), put(), receive(1, 7), send(1, 5);
    if (rank_ == 1) {
        ireceive(0, 5, &q);
        send(0, 6);
        linger();
        MPI_Cancel(&q), wait_for(&q);
        if (racy) load();
        send(0, 7), receive(0, 5);
        load();
    }
    unlock_all();
}
/* A receive that the program cancels too late takes its message. */
static void cancelled_late(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put(), send(1, 5), send(1, 6);
    if (rank_ == 1) {
        ireceive(0, 5, &q);
        if (racy) linger(), load();
        receive(0, 6);
        MPI_Cancel(&q), wait_for(&q);
        load();
    }
    unlock_all();
}
/* While a cancelled receive is not complete, it may have taken the first message or none. */
static void cancelled_first(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) receive(1, 6), send(1, 5), linger(), put(), send(1, 5);
    if (rank_ == 1) {
        ireceive(0, 5, &q);
        MPI_Cancel(&q);
        send(0, 6);
        if (racy) load();
        receive(0, 5), wait_for(&q), receive(0, 5);
        load();
    }
    unlock_all();
}
/* The receive takes the second message: the first one was too long for another receive. */
static void failed(int racy) {
    lock_all();
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    if (rank_ == 0) MPI_Send(two, 2, MPI_LONG, 1, 5, all), put(), racy ? (void)0 : send(1, 5);
    if (rank_ == 1) {
        receive(0, 5);
        if (!racy) receive(0, 5);
        load();
    }
    MPI_Comm_set_errhandler(all, MPI_ERRORS_ARE_FATAL);
    unlock_all();
}
/* After a failure of MPI_Waitall requests may be pending. */
static void pending(int racy) {
    MPI_Request q[2];
    MPI_Status s[2];
    lock_all();
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    if (rank_ == 0) MPI_Send(two, 2, MPI_LONG, 1, 5, all), linger(), put(), send(1, 6);
    if (rank_ == 1) {
        MPI_Irecv(got, 1, MPI_LONG, 0, 5, all, q), ireceive(0, 6, q + 1);
        if (racy) linger(), linger(), load();
        if (MPI_Waitall(2, q, s) != MPI_SUCCESS && s[1].MPI_ERROR == MPI_ERR_PENDING) wait_for(q + 1);
        load();
    }
    MPI_Comm_set_errhandler(all, MPI_ERRORS_ARE_FATAL);
    unlock_all();
}
/* A send with a wrong argument sends no message. `how`: whether the send is nonblocking. */
static void send_fails(int racy, int how) {
    MPI_Request q;
    lock_all();
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    if (rank_ == 0) {
        const int code = how ? MPI_Isend(two, -1, MPI_LONG, 1, 5, all, &q) : MPI_Send(two, -1, MPI_LONG, 1, 5, all);
        if (code == MPI_SUCCESS) printf("no error\n");
        put(), send(1, 5);
    }
    if (rank_ == 1) {
        if (racy) linger(), load();
        receive(0, 5), load();
    }
    MPI_Comm_set_errhandler(all, MPI_ERRORS_ARE_FATAL);
    unlock_all();
}
static void failed_send(int racy) { send_fails(racy, 0); }
static void failed_isend(int racy) { send_fails(racy, 1); }
/* Many receives whose requests are freed. */
static void many_freed(int racy) {
    enum { MANY = 5000, AT_ONCE = 100 };
    MPI_Request q;
    lock_all();
    for (int i = 0; i < MANY; i++) {
        if (rank_ == 1) ireceive(0, 5, &q), MPI_Request_free(&q);
        if (rank_ == 0) send(1, 5);
        if (i % AT_ONCE) continue;
        if (rank_ == 1) send(0, 6), receive(0, 5);
        if (rank_ == 0) receive(1, 6), send(1, 5);
    }
    if (rank_ == 0) put(), racy ? (void)0 : send(1, 7);
    if (rank_ == 2 && racy) send(1, 7);
    if (rank_ == 1) linger(), receive(racy ? 2 : 0, 7), load();
    unlock_all();
}


/* --- threads ---------------------------------------------------------------------------------- */

/* Messages that threads of rank 1 share. Each has the number of an element that rank 0 has put
 * before it. In the racy forms rank 0 also puts the element LAST, and sends no message after
 * that. */
enum { LAST = COUNT - 1 };
static void put_element(const long *element) {
    MPI_Put(element, 1, MPI_LONG, 1, *element, 1, MPI_LONG, win), MPI_Win_flush(1, win);
}
static void put_last(void) {
    const long last = LAST;
    put_element(&last);
}
static void loads(long element) {
    volatile long loaded; /* `seen` would be a race of the threads */
    if (element < LAST) loaded = part[element];
}
static void load_last(void) { linger(), seen = part[LAST]; }
static void *receives(void *unused) {
    for (long element = 0; element < COUNT;) {
        MPI_Recv(&element, 1, MPI_LONG, 0, 5, all, MPI_STATUS_IGNORE);
        loads(element);
    }
    return unused;
}
static void *receives_any(void *unused) {
    for (long element = 0; element < COUNT;) {
        MPI_Request q;
        MPI_Irecv(&element, 1, MPI_LONG, MPI_ANY_SOURCE, 5, all, &q);
        wait_for(&q);
        loads(element);
    }
    return unused;
}
static void *starts(void *unused) {
    long element = 0;
    MPI_Request q;
    MPI_Recv_init(&element, 1, MPI_LONG, 0, 5, all, &q);
    while (element < COUNT) MPI_Start(&q), wait_for(&q), loads(element);
    MPI_Request_free(&q);
    return unused;
}
static void *matches(void *unused) {
    for (long element = 0; element < COUNT;) {
        MPI_Message message;
        MPI_Mprobe(0, 5, all, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&element, 1, MPI_LONG, &message, MPI_STATUS_IGNORE);
        loads(element);
    }
    return unused;
}
static void in_threads(void *(*receive_all)(void *), int racy) {
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    lock_all();
    if (rank_ == 0) {
        for (long i = 0; i < COUNT + THREADS; i++) {
            if (i < LAST) put_element(&i);
            MPI_Send(&i, 1, MPI_LONG, 1, 5, all);
        }
        if (racy) put_last();
    }
    if (rank_ == 1) {
        for (int i = 0; i < THREADS; i++) pthread_create(threads + i, 0, receive_all, 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
        load_last();
    }
    unlock_all();
}
/* Threads of rank 0 share a stream of messages. Each puts some of the elements. */
enum { SENDERS = 3 };
static long first_of_[SENDERS] = {0, 1, 2};
static void *sends(void *first) {
    for (long element = *(long *)first; element < COUNT; element += SENDERS) {
        if (element < LAST) put_element(&element);
        MPI_Send(&element, 1, MPI_LONG, 1, 5, all);
    }
    return 0;
}
static void *isends(void *first) {
    for (long element = *(long *)first; element < COUNT; element += SENDERS) {
        MPI_Request q;
        put_element(&element);
        MPI_Isend(&element, 1, MPI_LONG, 1, 5, all, &q), wait_for(&q);
    }
    return 0;
}
static void *starts_sends(void *first) {
    long element;
    MPI_Request q;
    MPI_Send_init(&element, 1, MPI_LONG, 1, 5, all, &q);
    for (element = *(long *)first; element < COUNT; element += SENDERS) {
        if (element < LAST) put_element(&element);
        MPI_Start(&q), wait_for(&q);
    }
    MPI_Request_free(&q);
    return 0;
}
static void from_threads(void *(*send_all)(void *), int racy) {
    pthread_t threads[SENDERS];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < SENDERS; i++) pthread_create(threads + i, 0, send_all, first_of_ + i);
        for (int i = 0; i < SENDERS; i++) pthread_join(threads[i], 0);
        if (racy) put_last();
    }
    if (rank_ == 1) {
        for (int i = 0; i < COUNT; i++) receive(0, 5), loads(got[0]);
        load_last();
    }
    unlock_all();
}
static void threads_send(int racy) { from_threads(sends, racy); }
static void threads_isend(int racy) { from_threads(isends, racy); }
static void threads_start_sends(int racy) { from_threads(starts_sends, racy); }
static void threads_receive(int racy) { in_threads(receives, racy); }
static void threads_receive_any(int racy) { in_threads(receives_any, racy); }
static void threads_start(int racy) { in_threads(starts, racy); }
static void threads_match(int racy) { in_threads(matches, racy); }

static const struct races_case cases[] = {
    CASE(cancelled, LOCAL), CASE(cancelled_late, LOCAL), CASE(cancelled_first, LOCAL), CASE(failed, LOCAL),
    CASE(pending, LOCAL), CASE(failed_send, LOCAL), CASE(failed_isend, LOCAL),
    CASE(many_freed, LOCAL),
    CASE(threads_receive, LOCAL), CASE(threads_receive_any, LOCAL), CASE(threads_start, LOCAL),
    CASE(threads_match, LOCAL), CASE(threads_send, LOCAL), CASE(threads_isend, LOCAL),
    CASE(threads_start_sends, LOCAL)};
#include "races_main.h"
