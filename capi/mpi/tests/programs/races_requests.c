/* Further programs of the kind of races_orders.c, for three ranks: requests of which several are
 * complete from the start, receives whose statuses the program ignores, tests that complete
 * nothing, and messages to MPI_PROC_NULL or from it. In the form `during` an access comes before
 * the call that would order it. Rank 1 has the memory on which rank 0 operates. */
#include "races_case.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, SENDS = 3 };
static int rank_;
static MPI_Win win;
static long *part;                           /* this rank's part of the window */
static long one[COUNT], two[COUNT], got[COUNT]; /* buffers */
static volatile long seen;
static const MPI_Comm all = MPI_COMM_WORLD;

static void put(void) { MPI_Put(one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); }
static void get(void) { MPI_Get(got, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win); }
static void load(void) { seen = part[0]; }
static void flush(void) { MPI_Win_flush(1, win); }
static void barrier(void) { MPI_Barrier(all); }
static void lock_all(void) { MPI_Win_lock_all(0, win); }
static void unlock_all(void) { MPI_Win_unlock_all(win); }
static void wait_for(MPI_Request *q) { MPI_Wait(q, MPI_STATUS_IGNORE); }
static void send(int to, int tag) { MPI_Send(one + 8, 1, MPI_LONG, to, tag, all); }
static void receive(int from, int tag) { MPI_Recv(got + 8, 1, MPI_LONG, from, tag, all, MPI_STATUS_IGNORE); }
/* The others go on first, as a rule. */
static void linger(void) { usleep(30000); }

/* --- several sends ---------------------------------------------------------------------------- */

static void isend(int i, MPI_Request *q) { MPI_Isend(two + i, 1, MPI_LONG, 1, i, all, q); }
static void take(int sends) {
    for (int i = 0; i < sends; i++) receive(0, i);
}
/* Each send has its own buffer, which returns with its own request. */
static void sends(int racy) {
    MPI_Request q[SENDS];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < SENDS; i++) isend(i, q + i);
        wait_for(q);
        two[0] = 7;
        if (racy) two[1] = 8;
        wait_for(q + 1), wait_for(q + 2);
        two[1] = 8, two[2] = 9;
    }
    if (rank_ == 1) take(SENDS);
    unlock_all();
}
static void sends_and_get(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) {
        isend(0, q), isend(1, q + 1);
        if (!racy) MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        MPI_Get(two, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win);
        flush();
        if (racy) MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    }
    if (rank_ == 1) take(2);
    unlock_all();
}
/* One variable for all requests, which are copied from it. */
static void copied(int racy) {
    MPI_Request q, kept[SENDS];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < SENDS; i++) isend(i, &q), kept[i] = q;
        if (racy) two[2] = 5;
        for (int i = 0; i < SENDS; i++) wait_for(kept + i);
        two[0] = two[1] = two[2] = 6;
    }
    if (rank_ == 1) take(SENDS);
    unlock_all();
}
/* A collective call of this rank alone, whose request may have the handle of a send. */
static void with_self(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1, 5);
    if (rank_ == 1) {
        linger();
        MPI_Isend(two, 1, MPI_LONG, 2, 0, all, q);
        MPI_Iallreduce(one, got, 1, MPI_LONG, MPI_SUM, MPI_COMM_SELF, q + 1);
        wait_for(q), wait_for(q + 1);
        if (racy) load();
        receive(0, 5);
        load();
    }
    if (rank_ == 2) receive(1, 0);
    unlock_all();
}
/* Two steps of an exchange with both neighbors. */
static void halo(int racy) {
    const int left = (rank_ + 2) % 3, right = (rank_ + 1) % 3;
    lock_all();
    for (int step = 0; step < 2; step++) {
        MPI_Request q[4];
        MPI_Irecv(got, 1, MPI_LONG, left, 1, all, q), MPI_Irecv(got + 1, 1, MPI_LONG, right, 2, all, q + 1);
        MPI_Isend(two, 1, MPI_LONG, left, 2, all, q + 2), MPI_Isend(two + 1, 1, MPI_LONG, right, 1, all, q + 3);
        if (racy && rank_ == 0) two[1] = step;
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
        two[0] = got[0], two[1] = got[1];
    }
    unlock_all();
}
/* The program frees a request, and learns by an answer that the message has arrived. */
static void freed(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        put();
        isend(0, &q);
        MPI_Request_free(&q);
        receive(1, 9);
        two[0] = 4;
        if (racy) one[0] = 4;
        flush();
    }
    if (rank_ == 1) take(1), send(0, 9);
    unlock_all();
}
/* A receive whose request is freed takes its message: the second receive takes the second one. */
static void freed_receive(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) send(1, 5), receive(1, 6), put(), flush(), send(1, 5);
    if (rank_ == 1) {
        MPI_Irecv(got, 1, MPI_LONG, 0, 5, all, &q);
        MPI_Request_free(&q);
        send(0, 6);
        if (racy) linger(), load();
        receive(0, 5);
        load();
    }
    unlock_all();
}
/* Waits for own sends order no other rank. */
static void learnt_by_sends(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1, 5);
    if (rank_ == 1) {
        linger();
        for (int i = 0; i < 2; i++) MPI_Isend(two + i, 1, MPI_LONG, 2, i, all, q + i);
        wait_for(q), wait_for(q + 1);
        if (racy) load();
        receive(0, 5);
        load();
    }
    if (rank_ == 2) receive(1, 0), receive(1, 1);
    unlock_all();
}

/* Many operations in flight: the end of one orders no other. */
static void many(int racy) {
    MPI_Request q[COUNT];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < COUNT; i++) MPI_Rput(one + i, 1, MPI_LONG, 1, i, 1, MPI_LONG, win, q + i);
        wait_for(q + COUNT - 1);
        if (racy) one[COUNT - 2] = 5;
        MPI_Waitall(COUNT, q, MPI_STATUSES_IGNORE);
        one[COUNT - 2] = 5;
    }
    unlock_all();
}

/* --- ignored statuses ------------------------------------------------------------------------- */

static void by_waitall(MPI_Request *q) { MPI_Waitall(1, q, MPI_STATUSES_IGNORE); }
static void by_waitany(MPI_Request *q) {
    int index;
    MPI_Waitany(1, q, &index, MPI_STATUS_IGNORE);
}
static void by_waitsome(MPI_Request *q) {
    int done, index;
    MPI_Waitsome(1, q, &done, &index, MPI_STATUSES_IGNORE);
}
static void by_testall(MPI_Request *q) {
    for (int done = 0; !done;) MPI_Testall(1, q, &done, MPI_STATUSES_IGNORE);
}
static void by_testany(MPI_Request *q) {
    for (int index, done = 0; !done;) MPI_Testany(1, q, &index, &done, MPI_STATUS_IGNORE);
}
static void by_testsome(MPI_Request *q) {
    for (int index, done = 0; !done;) MPI_Testsome(1, q, &done, &index, MPI_STATUSES_IGNORE);
}
static void by_get_status(MPI_Request *q) {
    for (int done = 0; !done;) MPI_Request_get_status(*q, &done, MPI_STATUS_IGNORE);
    wait_for(q);
}

/* The second of two messages of rank 0 orders; racy: the first one alone. */
static void second(void (*wait)(MPI_Request *), int racy) {
    lock_all();
    if (rank_ == 0) send(1, 1), receive(1, 2), put(), flush(), send(1, 1);
    if (rank_ == 1) {
        MPI_Request q;
        MPI_Irecv(got, 1, MPI_LONG, MPI_ANY_SOURCE, 1, all, &q);
        wait(&q);
        send(0, 2);
        if (racy) linger(), load();
        receive(0, 1);
        load();
    }
    unlock_all();
}
/* A message of the rank that has put orders; racy: one of another rank. */
static void sender(void (*wait)(MPI_Request *), int racy) {
    lock_all();
    if (rank_ == 0) put(), flush(), racy ? (void)0 : send(1, 1);
    if (rank_ == 2 && racy) linger(), send(1, 1);
    if (rank_ == 1) {
        MPI_Request q;
        MPI_Irecv(got, 1, MPI_LONG, MPI_ANY_SOURCE, 1, all, &q);
        wait(&q);
        load();
    }
    unlock_all();
}
static void second_waitall(int racy) { second(by_waitall, racy); }
static void second_testany(int racy) { second(by_testany, racy); }
static void second_get_status(int racy) { second(by_get_status, racy); }
static void sender_waitall(int racy) { sender(by_waitall, racy); }
static void sender_waitany(int racy) { sender(by_waitany, racy); }
static void sender_waitsome(int racy) { sender(by_waitsome, racy); }
static void sender_testall(int racy) { sender(by_testall, racy); }
static void sender_testsome(int racy) { sender(by_testsome, racy); }

/* --- tests that complete nothing, or not all -------------------------------------------------- */

static void rget(MPI_Request *q) { MPI_Rget(two, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win, q); }
static void rput_to(int target, MPI_Request *q) {
    MPI_Rput(one + 4, 1, MPI_LONG, target, 4, 1, MPI_LONG, win, q);
}
/* Tests a receive, whose message comes later, and an operation: none of them is complete. */
static void test_all(MPI_Request *q) {
    int done;
    MPI_Testall(2, q, &done, MPI_STATUSES_IGNORE);
    if (done) printf("a test of all has not waited for a message\n");
}
/* Rank 2 changes the memory that rank 0 gets; racy: rank 0 knows nothing of the get's end. */
static void get_and(void (*begin)(MPI_Request *), void (*test)(MPI_Request *), void (*wait)(MPI_Request *), int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) {
        begin(q), rget(q + 1);
        test(q);
        if (!racy) wait(q);
        send(2, 1);
        if (racy) wait(q);
    }
    if (rank_ == 1) receive(0, 7), send(0, 4);
    if (rank_ == 2) receive(0, 1), put(), flush();
    unlock_all();
}
static void awaits_answer(MPI_Request *q) { MPI_Irecv(got + 8, 1, MPI_LONG, 1, 4, all, q); }
static void asks_and_waits(MPI_Request *q) {
    send(1, 7);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}
static void tested_all(int racy) { get_and(awaits_answer, test_all, asks_and_waits, racy); }
/* A short send is complete from the start. */
static void asks(MPI_Request *q) { MPI_Isend(one + 8, 1, MPI_LONG, 1, 7, all, q); }
static void any(MPI_Request *q) {
    int index;
    MPI_Waitany(2, q, &index, MPI_STATUS_IGNORE);
}
static void test_any(MPI_Request *q) {
    for (int index, done = 0; !done;) MPI_Testany(2, q, &index, &done, MPI_STATUS_IGNORE);
}
static void the_rest(MPI_Request *q) {
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    receive(1, 4);
}
static void waited_any(int racy) { get_and(asks, any, the_rest, racy); }
static void tested_any(int racy) { get_and(asks, test_any, the_rest, racy); }
/* The buffer of a put, after a test of all that has found nothing. */
static void tested_buffer(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) {
        awaits_answer(q), rput_to(1, q + 1);
        test_all(q);
        if (racy) one[4] = 5;
        asks_and_waits(q);
        one[4] = 5;
    }
    if (rank_ == 1) receive(0, 7), send(0, 4);
    unlock_all();
}
/* The end of an operation of this rank orders no other rank, however often it is asked for. */
static void asked(void (*wait)(MPI_Request *), int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1, 5);
    if (rank_ == 1) {
        linger();
        MPI_Irecv(got + 9, 1, MPI_LONG, 2, 4, all, q), rput_to(2, q + 1);
        wait(q);
        if (racy) load();
        receive(0, 5);
        load();
    }
    if (rank_ == 2) receive(1, 7), send(1, 4);
    unlock_all();
}
static void ask_status(MPI_Request *q) {
    send(2, 7);
    for (int i = 0; i < 6; i++) {
        for (int done = 0; !done;) MPI_Request_get_status(q[i % 2], &done, MPI_STATUS_IGNORE);
    }
    wait_for(q), wait_for(q + 1);
}
static void ask_all(MPI_Request *q) {
    for (int i = 0; i < 3; i++) test_all(q);
    send(2, 7);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
}
static void asked_status(int racy) { asked(ask_status, racy); }
static void asked_all(int racy) { asked(ask_all, racy); }
/* Regression: a wait for very many requests visited all of them for each of them. */
static void very_many(int racy) {
    enum { VERY_MANY = 50000 };
    static MPI_Request q[VERY_MANY];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < VERY_MANY; i++) {
            MPI_Raccumulate(one + 4, 1, MPI_LONG, 1, 4, 1, MPI_LONG, MPI_SUM, win, &q[i]);
        }
        if (racy) one[4] = 5;
        MPI_Waitall(VERY_MANY, q, MPI_STATUSES_IGNORE);
        one[4] = 5;
    }
    unlock_all();
}

/* --- messages to nobody, and from nobody ------------------------------------------------------ */

/* Rank 0 reads rank 1's part, or writes it; racy: while a message of rank 2 changes it. */
static void nobody(void (*operation)(void), void (*exchange)(int other), int racy) {
    lock_all();
    if (rank_ == 0) operation(), flush();
    if (rank_ == 1) exchange(racy ? 2 : MPI_PROC_NULL);
    if (rank_ == 2 && racy) exchange(1);
    unlock_all();
}
static void *place(void) { return rank_ == 1 ? part : got; }
static void receives(int other) {
    if (rank_ == 2) send(1, 3);
    else MPI_Recv(part, 1, MPI_LONG, other, 3, all, MPI_STATUS_IGNORE);
}
static void receives_later(int other) {
    MPI_Request q;
    if (rank_ == 2) send(1, 3);
    else MPI_Irecv(part, 1, MPI_LONG, other, 3, all, &q), wait_for(&q);
}
static void exchanges(int other) {
    MPI_Sendrecv(two, 1, MPI_LONG, other, 3, place(), 1, MPI_LONG, other, 3, all, MPI_STATUS_IGNORE);
}
static void received(int racy) { nobody(put, receives, racy); }
static void ireceived(int racy) { nobody(get, receives_later, racy); }
static void exchanged(int racy) { nobody(put, exchanges, racy); }
/* The buffer is sent only; racy: received only. */
static void replaced(int racy) {
    const int to = racy ? MPI_PROC_NULL : 2, from = racy ? 2 : MPI_PROC_NULL;
    lock_all();
    if (rank_ == 0) get(), flush();
    if (rank_ == 1) MPI_Sendrecv_replace(part, 1, MPI_LONG, to, 3, from, 3, all, MPI_STATUS_IGNORE);
    if (rank_ == 2) racy ? send(1, 3) : receive(1, 3);
    unlock_all();
}
/* A message to nobody that is sent again and again orders no ranks. */
static void persistent(int racy) {
    MPI_Request q[2];
    lock_all();
    if (rank_ == 0) put(), flush(), send(1, 5);
    if (rank_ == 1) {
        linger();
        MPI_Send_init(two, 1, MPI_LONG, MPI_PROC_NULL, 1, all, q);
        MPI_Recv_init(got, 1, MPI_LONG, MPI_PROC_NULL, 1, all, q + 1);
        for (int i = 0; i < 2; i++) MPI_Startall(2, q), MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        if (racy) load();
        receive(0, 5);
        load();
        MPI_Request_free(q), MPI_Request_free(q + 1);
    }
    unlock_all();
}

/* An operation on nobody is complete, and orders no ranks. */
static void operation(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) put(), flush(), send(1, 5);
    if (rank_ == 1) {
        linger();
        MPI_Rput(two, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win, &q);
        wait_for(&q);
        if (racy) load();
        receive(0, 5);
        load();
    }
    unlock_all();
}

/* --- what the checker forgot ------------------------------------------------------------------ */

/* A get with a request is complete; an earlier one of some of its bytes is not. */
static void get_before_request(int racy) {
    MPI_Request q;
    lock_all();
    if (rank_ == 0) {
        get();
        MPI_Rget(two, 2, MPI_LONG, 1, 0, 2, MPI_LONG, win, &q);
        wait_for(&q);
        if (!racy) flush();
        send(2, 1);
    }
    if (rank_ == 2) receive(0, 1), put(), flush();
    unlock_all();
}
/* Many messages are not received yet. */
static void many_sent(int racy) {
    enum { MANY = 600 };
    static MPI_Request q[MANY];
    lock_all();
    if (rank_ == 0) {
        for (int i = 0; i < MANY; i++) MPI_Isend(0, 0, MPI_INT, 1, 2, all, &q[i]);
        put(), flush();
        if (!racy) send(1, 1);
        MPI_Waitall(MANY, q, MPI_STATUSES_IGNORE);
    }
    if (rank_ == 2 && racy) linger(), send(1, 1);
    if (rank_ == 1) {
        receive(racy ? 2 : 0, 1), load();
        for (int i = 0; i < MANY; i++) MPI_Recv(0, 0, MPI_INT, 0, 2, all, MPI_STATUS_IGNORE);
    }
    unlock_all();
}

static const struct races_case cases[] = {
    CASE(sends, LOCAL), CASE(sends_and_get, LOCAL), CASE(copied, LOCAL), CASE(halo, LOCAL),
    CASE(freed, LOCAL), CASE(freed_receive, LOCAL), CASE(learnt_by_sends, LOCAL), CASE(second_waitall, LOCAL),
    CASE(second_testany, LOCAL), CASE(second_get_status, LOCAL), CASE(sender_waitall, LOCAL),
    CASE(sender_waitany, LOCAL), CASE(sender_waitsome, LOCAL), CASE(sender_testall, LOCAL),
    CASE(sender_testsome, LOCAL), CASE(received, LOCAL), CASE(ireceived, LOCAL),
    CASE(exchanged, LOCAL), CASE(replaced, LOCAL), CASE(persistent, LOCAL),
    CASE(many, LOCAL), CASE(operation, LOCAL), CASE(with_self, LOCAL),
    CASE(get_before_request, OPERATIONS), CASE(many_sent, LOCAL), CASE(tested_all, OPERATIONS),
    CASE(waited_any, OPERATIONS), CASE(tested_any, OPERATIONS), CASE(tested_buffer, LOCAL),
    CASE(asked_status, LOCAL), CASE(asked_all, LOCAL), CASE(very_many, LOCAL)};
#include "races_main.h"
