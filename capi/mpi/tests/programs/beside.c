/* The MPI's own calls beside a window: functions that the MPI lacks are still missing, an error of
 * a message goes to the handler of its communicator, partitioned messages can be waited for
 * together with operations, persistent collective calls and MPI-IO too, and requests that are freed
 * take no memory. */
#include "check.h"

#include <sys/resource.h>
#include <unistd.h>

#pragma weak MPI_Allreduce_c
#pragma weak MPI_Pack_c
#pragma weak MPI_Isendrecv
#pragma weak MPI_Request_get_status_all
#if MPI_VERSION < 4
int MPI_Allreduce_c(const void *from, void *into, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Pack_c(const void *from, MPI_Count n, MPI_Datatype type, void *into, MPI_Count bytes, MPI_Count *place, MPI_Comm comm);
#ifndef OPEN_MPI
int MPI_Isendrecv(void);
#endif
#endif
int MPI_Request_get_status_all(int n, const MPI_Request *requests, int *flag, MPI_Status *statuses);

/* A program learns what its MPI has from the names that it finds. */
static void names(void) {
    int one = 1, sum = 0, flag = 0;
    char packed[64];
    MPI_Count end = 0;
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (MPI_Pack_c) MPI_Pack_c(&one, 1, MPI_INT, packed, sizeof packed, &end, MPI_COMM_WORLD);
    else end = sizeof one;
    if (MPI_Allreduce_c) MPI_Allreduce_c(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (MPI_Request_get_status_all) MPI_Request_get_status_all(2, none, &flag, MPI_STATUSES_IGNORE);
    else MPI_Testall(2, none, &flag, MPI_STATUSES_IGNORE);
    check("functions that the MPI has or lacks", sum != size_ || !flag || end == 0);
}

static void errors(void) {
    int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_, sent[4] = {0}, got, class = MPI_SUCCESS;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Send(sent, 4, MPI_INT, next, 1, comm);
    int code = MPI_Recv(&got, 1, MPI_INT, before, 1, comm, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    /* MPICH 5 does not report it. */
    check("a message that is too long", class != MPI_ERR_TRUNCATE && class != MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

static void parts(MPI_Win win) {
    long bad = 0;
#if MPI_VERSION >= 4
    int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_, put[1000];
    double sent[4], got[4] = {0};
    MPI_Request requests[3];
    for (int i = 0; i < 4; i++) sent[i] = rank_ + i;
    for (int i = 0; i < 1000; i++) put[i] = rank_;
    MPI_Psend_init(sent, 4, 1, MPI_DOUBLE, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(got, 4, 1, MPI_DOUBLE, before, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Win_lock_all(0, win);
    MPI_Rput(put, 1000, MPI_INT, next, 0, 1000, MPI_INT, win, &requests[2]);
    for (int i = 0; i < 4; i++) MPI_Pready(i, requests[0]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    for (int i = 0; i < 4; i++) bad += got[i] != before + i;
    MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
#else
    (void)win;
#endif
    check("partitioned messages and an operation", bad);
}

/* A wait for a persistent collective call, a message and an operation. */
static void persistent(MPI_Win win) {
    long bad = 0;
#if MPI_VERSION >= 4
    int one = 1, sum = 0, put[1000] = {0}, got = -1, next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    MPI_Request requests[4];
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 10; i++) {
        sum = 0;
        MPI_Start(&requests[0]);
        MPI_Irecv(&got, 1, MPI_INT, before, 4, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&rank_, 1, MPI_INT, next, 4, MPI_COMM_WORLD, &requests[2]);
        MPI_Rput(put, 1000, MPI_INT, next, 0, 1000, MPI_INT, win, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        bad |= sum != size_ || got != before;
    }
    MPI_Win_unlock_all(win);
    MPI_Request_free(&requests[0]);
#else
    (void)win;
#endif
    check("persistent collective calls and an operation", bad);
}

/* Requests of files, messages and operations are waited for together; ranks come late. */
static void files(MPI_Win win) {
    enum { ROUNDS = 5, COUNT = 10000 };
    static int written[COUNT], put[1000];
    int next = (rank_ + 1) % size_, id = (int)getpid();
    char path[64];
    long bad = 0;
    MPI_File file;
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/tmp/transom-beside-%d", id);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3];
        MPI_Offset at = (MPI_Offset)sizeof written * rank_;
        for (int i = 0; i < COUNT; i++) written[i] = round + rank_;
        MPI_File_iwrite_at(file, at, written, COUNT, MPI_INT, &requests[0]);
        MPI_Rput(put, 1000, MPI_INT, next, 0, 1000, MPI_INT, win, &requests[1]);
        if (rank_ == round % size_) usleep(50000);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        memset(written, 0, sizeof written);
        MPI_File_iread_at(file, at, written, COUNT, MPI_INT, &requests[0]);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT; i++) bad += written[i] != round + rank_;
    }
    MPI_Win_unlock_all(win);
    MPI_File_close(&file);
    check("files, messages and operations in one wait", bad);
}

/* A collective write goes on while a message that precedes it in the wait depends on the write. */
static void collective_files(void) {
    enum { ROUNDS = 3, COUNT = 3000 };
    static int written[COUNT];
    int id = (int)getpid(), token = 0;
    char path[64];
    long bad = 0;
    MPI_File file;
    MPI_Datatype mine;
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/tmp/transom-beside-%d", id);
    MPI_Type_vector(COUNT, 1, size_, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank_, MPI_INT, mine, "native", MPI_INFO_NULL);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        for (int i = 0; i < COUNT; i++) written[i] = round + rank_;
        if (rank_ == 0) MPI_Irecv(&token, 1, MPI_INT, size_ - 1, 9, MPI_COMM_WORLD, &requests[0]);
        MPI_File_iwrite_at_all(file, 0, written, COUNT, MPI_INT, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (rank_ == size_ - 1) MPI_Send(&round, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        memset(written, 0, sizeof written);
        MPI_File_read_at_all(file, 0, written, COUNT, MPI_INT, MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++) bad += written[i] != round + rank_;
    }
    MPI_File_close(&file);
    MPI_Type_free(&mine);
    check("a collective write that a message depends on", bad);
}

/* One of several messages is too long for its buffer: the statuses say which. */
static void failed_of_several(MPI_Win win) {
    static int put[1000];
    int sent[4] = {1, 2, 3, 4}, got[3][4], codes[3], class = MPI_SUCCESS;
    int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) MPI_Irecv(got[i], i == 1 ? 1 : 4, MPI_INT, before, i, comm, &requests[i]);
    for (int i = 0; i < 3; i++) {
        usleep(20000);
        MPI_Send(sent, 4, MPI_INT, next, i, comm);
    }
    MPI_Win_lock_all(0, win);
    MPI_Rput(put, 1000, MPI_INT, next, 0, 1000, MPI_INT, win, &requests[3]);
    MPI_Error_class(MPI_Waitall(4, requests, statuses), &class);
    if (requests[3] != MPI_REQUEST_NULL) MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    for (int i = 0; i < 3; i++) MPI_Error_class(statuses[i].MPI_ERROR, &codes[i]);
    check("a wait with a failure", class != MPI_ERR_IN_STATUS);
    long bad = codes[1] != MPI_ERR_TRUNCATE;
    for (int i = 0; i < 3; i += 2) {
        int is_pending = codes[i] == MPI_ERR_PENDING;
        if (is_pending) codes[i] = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        bad |= (codes[i] != MPI_SUCCESS || got[i][3] != 4) << (i + is_pending);
    }
    if (bad) fprintf(stderr, "classes %d %d %d\n", codes[0], codes[1], codes[2]);
    check("its statuses", bad);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
}

/* The most memory of the process so far, in KiB. */
static long most_memory(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void freed(MPI_Win win) {
    enum { ROUND = 5000, ROUNDS = 3 };
    static int put[1000];
    long first = 0;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS * ROUND; i++) {
        MPI_Request request;
        MPI_Rput(put, 1000, MPI_INT, (rank_ + 1) % size_, 0, 1000, MPI_INT, win, &request);
        MPI_Request_free(&request);
        MPI_Win_flush((rank_ + 1) % size_, win);
        if (i == ROUND) first = most_memory();
    }
    MPI_Win_unlock_all(win);
    long grown = most_memory() - first;
    check("requests that are freed", by_transom() && grown > 1500 ? grown : 0);
}

int main(int argc, char **argv) {
    int *part;
    MPI_Win win;
    begin(&argc, &argv);
    MPI_Win_allocate(4000, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    names();
    errors();
    persistent(win);
    parts(win);
    files(win);
    failed_of_several(win);
    collective_files();
    freed(win);
    MPI_Win_free(&win);
    return end();
}
