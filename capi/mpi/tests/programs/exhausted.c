/* A program that uses up the communicators of its MPI, at all ranks or at one: the creation of a
 * window fails at all ranks, or works. It works again when communicators are free. */
#include "check.h"

enum { MOST = 3000, TIMES = 20, BYTES = 1 << 20 };

static MPI_Comm made_[MOST];
static int count_;

/* The shared memory of this process in KiB. */
static long shared_memory(void) {
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "RssShmem: %ld", &found);
    if (file) fclose(file);
    return found;
}

/* Makes duplicates until the MPI can make no more. */
static void use_up(void) {
    while (count_ < MOST && MPI_Comm_dup(MPI_COMM_SELF, &made_[count_]) == MPI_SUCCESS) count_++;
}

static void give_back(void) {
    while (count_ > 0) MPI_Comm_free(&made_[--count_]);
}

/* Windows that fail, with memory of the library. */
static void windows(const char *when) {
    const long before = shared_memory();
    int failed = 0, wrong = 0;
    for (int i = 0; i < TIMES; i++) {
        MPI_Win win = MPI_WIN_NULL;
        char *base;
        const int code = MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        wrong += (code == MPI_SUCCESS) == (win == MPI_WIN_NULL);
        failed += code != MPI_SUCCESS;
        int all = 0;
        MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += all != size_ * failed;
        /* A rank that has no window can't free it with the others. */
        if (wrong) break;
        if (win != MPI_WIN_NULL) MPI_Win_free(&win);
    }
    char name[99];
    snprintf(name, sizeof name, "%s: an error at all ranks, or a window", when);
    check(name, wrong);
    snprintf(name, sizeof name, "%s: no memory is left of windows that were not created", when);
    check(name, shared_memory() - before > (long)TIMES * BYTES / 1024 / 4);
}

/* A window that is created while communicators are free. */
static void works(const char *when) {
    int word = 0;
    MPI_Win win = MPI_WIN_NULL;
    const int next = (rank_ + 1) % size_, value = 1 + rank_;
    char name[99];
    snprintf(name, sizeof name, "%s: a window", when);
    check(name, MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    snprintf(name, sizeof name, "%s: a put", when);
    check(name, word != 1 + (rank_ + size_ - 1) % size_);
    MPI_Win_free(&win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    use_up();
    windows("without communicators");
    give_back();
    works("after that");
    if (rank_ == 1) use_up();
    windows("without communicators at one rank");
    give_back();
    works("again");
    return end();
}
