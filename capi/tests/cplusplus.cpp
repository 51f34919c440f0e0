// The header in C++: a job with a window, linked by the C names.
#include <cstdint>
#include <cstdio>

#include "transom.h"

namespace {

class Window {
public:
    explicit Window(const transom_job *job) {
        void *base = nullptr;
        class_ = transom_window_allocate(job, 8, 8, nullptr, &base, &window_);
        part = static_cast<std::int64_t *>(base);
    }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;
    ~Window() { transom_window_free(&window_); }
    operator transom_window *() const { return window_; }
    bool is_there() const { return class_ == TRANSOM_SUCCESS; }
    std::int64_t *part = nullptr;

private:
    transom_window *window_ = nullptr;
    int class_ = TRANSOM_ERR_OTHER;
};

bool adds(const transom_job *world, int size) {
    Window window(world);
    const std::int64_t one = 1;
    if (!window.is_there() || transom_window_fence(window, 0) != TRANSOM_SUCCESS) {
        return false;
    }
    if (transom_accumulate(window, &one, 1, TRANSOM_INT64_T, 0, 0, 1, TRANSOM_INT64_T, TRANSOM_SUM) != TRANSOM_SUCCESS ||
        transom_window_fence(window, 0) != TRANSOM_SUCCESS) {
        return false;
    }
    int rank = -1;
    return transom_job_rank(world, &rank) == TRANSOM_SUCCESS && (rank != 0 || *window.part == size);
}

} // namespace

int main() {
    transom_job *world = nullptr;
    int rank = 0, size = 0;
    if (transom_init(&world) != TRANSOM_SUCCESS || transom_job_rank(world, &rank) != TRANSOM_SUCCESS ||
        transom_job_size(world, &size) != TRANSOM_SUCCESS || !adds(world, size)) {
        std::fprintf(stderr, "%s\n", transom_last_error());
        return 1;
    }
    if (transom_finalize(&world) != TRANSOM_SUCCESS) {
        return 1;
    }
    if (rank == 0) {
        std::puts("cplusplus: passed");
    }
    return 0;
}
