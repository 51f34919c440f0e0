/* Two threads use new datatypes at once: one of them in the delete function of an attribute, for
 * which MPIs hold a lock of their attributes (MPI-4.1 §7.7, §11.6). A watchdog ends what hangs. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { LIMIT = 30, PAUSE = 200000, ROUNDS = 3 };

static MPI_Win win_;
static int in_delete_;

static void hangs(int signal) {
    static const char said[] = "not ok the first uses of types hang\n";
    (void)signal;
    if (write(1, said, sizeof said - 1) < 0) _exit(2);
    _exit(1);
}

/* Puts to this rank by a type that was not used before. */
static void put(int place) {
    const int one[2] = {1 + place, 0};
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Put(one, 1, type, rank_, 2 * place, 1, type, win_);
    MPI_Win_flush(rank_, win_);
    MPI_Type_free(&type);
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    __atomic_store_n(&in_delete_, 1, __ATOMIC_SEQ_CST);
    usleep(PAUSE);
    put(0);
    return MPI_SUCCESS;
}

static void *use(void *arg) {
    while (!__atomic_load_n(&in_delete_, __ATOMIC_SEQ_CST)) usleep(100);
    put(1);
    return arg;
}

int main(int argc, char **argv) {
    int provided, key, *part;
    signal(SIGALRM, hangs);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (provided < MPI_THREAD_MULTIPLE) {
        check("MPI_THREAD_MULTIPLE is provided", 1);
        return end();
    }
    alarm(LIMIT);
    MPI_Win_allocate(4 * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win_);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, NULL);
    MPI_Win_lock_all(0, win_);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t user;
        in_delete_ = part[0] = part[2] = 0;
        MPI_Win_sync(win_);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
        pthread_create(&user, NULL, use, NULL);
        MPI_Comm_delete_attr(MPI_COMM_SELF, key);
        pthread_join(user, NULL);
        check("first uses of types by two threads", part[0] != 1 || part[2] != 2);
    }
    MPI_Win_unlock_all(win_);
    MPI_Comm_free_keyval(&key);
    MPI_Win_free(&win_);
    return end();
}
