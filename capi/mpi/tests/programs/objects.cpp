// A C++ program: a distributed histogram in a class that owns its window.
#include <mpi.h>

#include <cstdio>
#include <vector>

class Histogram {
  public:
    Histogram(int bins, MPI_Comm comm) : bins_(bins) {
        MPI_Comm_size(comm, &size_);
        MPI_Win_allocate(bins * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &part_, &win_);
        MPI_Win_lock_all(0, win_);
    }
    ~Histogram() {
        MPI_Win_unlock_all(win_);
        MPI_Win_free(&win_);
    }
    void add(long value) {
        const long one = 1;
        MPI_Accumulate(&one, 1, MPI_LONG, static_cast<int>(value % size_), value / size_ % bins_, 1, MPI_LONG, MPI_SUM, win_);
    }
    std::vector<long> mine(MPI_Comm comm) {
        MPI_Win_flush_all(win_);
        MPI_Barrier(comm);
        MPI_Win_sync(win_);
        return {part_, part_ + bins_};
    }

  private:
    int bins_, size_;
    long *part_;
    MPI_Win win_;
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bool good = true;
    {
        Histogram histogram(16, MPI_COMM_WORLD);
        for (long i = 0; i < 16L * size; i++) histogram.add(i);
        for (long count : histogram.mine(MPI_COMM_WORLD)) good = good && count == size;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int bad = !good, worst = 0;
    MPI_Allreduce(&bad, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) std::printf("%s a histogram in C++\n", worst ? "not ok" : "ok");
    MPI_Finalize();
    return worst;
}
