/* A program that uses up the communicators of its MPI: the creation of a window fails with an
 * error, or works; it works again when communicators are free. */
#include "check.h"

enum { MOST = 3000 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    static MPI_Comm made[MOST];
    int count = 0, word = 0;
    while (count < MOST && MPI_Comm_dup(MPI_COMM_WORLD, &made[count]) == MPI_SUCCESS) count++;
    MPI_Win win = MPI_WIN_NULL;
    const int code = MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (code == MPI_SUCCESS) MPI_Win_free(&win);
    for (int i = 0; i < count; i++) MPI_Comm_free(&made[i]);
    check("an error, or a window", code != MPI_SUCCESS && win != MPI_WIN_NULL);
    const int next = (rank_ + 1) % size_, value = 1 + rank_;
    check("a window", MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    check("a put", word != 1 + (rank_ + size_ - 1) % size_);
    MPI_Win_free(&win);
    return end();
}
