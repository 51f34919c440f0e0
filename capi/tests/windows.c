/* Windows of every flavor: creation, use, queries and end. */
#include "check.h"

/* Each rank puts its number into the next rank's part, in a passive epoch. */
static void pass(transom_window *window, uint64_t displacement) {
    int64_t mine = 100 + me;
    OK(transom_window_lock_all(window, 0));
    OK(transom_put(window, &mine, 1, TRANSOM_INT64_T, next, displacement, 1, TRANSOM_INT64_T));
    OK(transom_window_unlock_all(window));
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
}

static void end_of(transom_window **window) {
    OK(transom_window_free(window));
    CHECK(*window == NULL);
}

static void created(void) {
    int64_t memory[4] = {0, 0, 0, 0};
    transom_window *window = NULL;
    void *base = NULL;
    uint64_t bytes = 0;
    uint32_t unit = 0;
    int flavor = 0;
    OK(transom_window_create(world, memory, sizeof memory, 8, NULL, &window));
    pass(window, 2);
    CHECK(memory[2] == 100 + before && memory[0] == 0);
    OK(transom_window_part(window, &base, &bytes, &unit));
    CHECK(base == memory && bytes == sizeof memory && unit == 8);
    OK(transom_window_flavor(window, &flavor));
    CHECK(flavor == TRANSOM_FLAVOR_CREATE);
    end_of(&window);
}

/* A window over a part of memory of transom_alloc_mem, which is freed before the window. */
static void over_memory(void) {
    transom_window *window = NULL;
    transom_info *info = NULL;
    void *memory = NULL, *aligned = NULL, *nothing = NULL, *other = NULL;
    uint64_t bytes = 0;
    uint32_t unit = 0;
    int route = 0;
    OK(transom_alloc_mem(world, 5000, NULL, &memory));
    CHECK(((uintptr_t)memory & 4095) == 0 && ((int64_t *)memory)[600] == 0);
    OK(transom_info_create(&info));
    OK(transom_info_set(info, "mpi_minimum_memory_alignment", "65536"));
    OK(transom_alloc_mem(world, 8, info, &aligned));
    CHECK(((uintptr_t)aligned & 65535) == 0);
    OK(transom_info_set(info, "mpi_minimum_memory_alignment", "3"));
    FAILS(TRANSOM_ERR_INFO_VALUE, "mpi_minimum_memory_alignment", transom_alloc_mem(world, 8, info, &nothing));
    OK(transom_info_free(&info));
    FAILS(TRANSOM_ERR_SIZE, "", transom_alloc_mem(world, UINT64_MAX / 2, NULL, &nothing));
    CHECK(nothing == NULL);
    OK(transom_alloc_mem(world, 0, NULL, &nothing));
    CHECK(nothing == NULL);
    OK(transom_free_mem(nothing));
    FAILS(TRANSOM_ERR_BASE, "was not returned by transom_alloc_mem", transom_free_mem((char *)memory + 8));
    OK(transom_window_create(world, (char *)memory + 8, 64, 8, NULL, &window));
    OK(transom_free_mem(memory));
    FAILS(TRANSOM_ERR_BASE, "was not returned by transom_alloc_mem", transom_free_mem(memory));
    pass(window, 3);
    CHECK(((int64_t *)memory)[4] == 100 + before);
    OK(transom_job_route(world, next, &route));
    if (route == TRANSOM_ROUTE_NET) {
        FAILS(TRANSOM_ERR_RMA_SHARED, "", transom_window_shared_query(window, next, &other, &bytes, &unit));
    } else {
        OK(transom_window_shared_query(window, next, &other, &bytes, &unit));
        CHECK(bytes == 64 && unit == 8 && ((int64_t *)other)[3] == 100 + me);
    }
    end_of(&window);
    OK(transom_free_mem(aligned));
}

static void allocated(void) {
    transom_window *window = NULL;
    transom_info *info = NULL;
    void *base = NULL;
    int flavor = 0, model = 0, count = 0, found = 0;
    int ranks[64];
    char value[16];
    uint64_t room = sizeof value;
    OK(transom_info_create(&info));
    OK(transom_info_set(info, "same_size", "true"));
    OK(transom_window_allocate(world, 64, 8, info, &base, &window));
    OK(transom_info_free(&info));
    CHECK(info == NULL);
    CHECK(((int64_t *)base)[6] == 0);
    pass(window, 7);
    CHECK(((int64_t *)base)[7] == 100 + before);
    OK(transom_window_flavor(window, &flavor));
    OK(transom_window_model(window, &model));
    CHECK(flavor == TRANSOM_FLAVOR_ALLOCATE && model == TRANSOM_MODEL_UNIFIED);
    OK(transom_window_group(window, 64, ranks, &count));
    CHECK(count == size && ranks[me] == me);
    OK(transom_window_get_info(window, &info));
    OK(transom_info_get(info, "same_size", value, &room, &found));
    CHECK(found && strcmp(value, "true") == 0 && room == 5);
    OK(transom_info_free(&info));
    end_of(&window);
}

static void shared(void) {
    transom_window *window = NULL;
    void *base = NULL, *other = NULL;
    uint64_t bytes = 0;
    uint32_t unit = 0;
    int route = 0;
    OK(transom_job_route(world, next, &route));
    if (route == TRANSOM_ROUTE_NET) {
        FAILS(TRANSOM_ERR_RMA_SHARED, "", transom_window_allocate_shared(world, 16, 8, NULL, &base, &window));
        CHECK(window == NULL && base == NULL);
        return;
    }
    OK(transom_window_allocate_shared(world, 16, 8, NULL, &base, &window));
    ((int64_t *)base)[0] = 7 + me;
    OK(transom_job_barrier(world));
    OK(transom_window_sync(window));
    OK(transom_window_shared_query(window, next, &other, &bytes, &unit));
    CHECK(bytes == 16 && unit == 8 && ((int64_t *)other)[0] == 7 + next);
    OK(transom_window_shared_query(window, TRANSOM_PROC_NULL, &other, &bytes, &unit));
    CHECK(((int64_t *)other)[0] == 7);
    pass(window, 1);
    CHECK(((int64_t *)base)[1] == 100 + before);
    end_of(&window);
}

/* An allocated window exchanges the addresses. */
static void dynamic(void) {
    transom_window *window = NULL, *addresses = NULL;
    int64_t memory[2] = {0, 0};
    void *table = NULL;
    uint64_t address = (uint64_t)(uintptr_t)memory;
    int64_t got = 0;
    OK(transom_window_allocate(world, 8, 8, NULL, &table, &addresses));
    OK(transom_window_create_dynamic(world, NULL, &window));
    OK(transom_window_attach(window, memory, sizeof memory));
    OK(transom_window_lock_all(addresses, 0));
    OK(transom_put_bytes(addresses, &address, 8, before, 0));
    OK(transom_window_unlock_all(addresses));
    OK(transom_job_barrier(world));
    OK(transom_window_sync(addresses));
    pass(window, *(uint64_t *)table + 8);
    CHECK(memory[1] == 100 + before);
    OK(transom_window_lock(window, TRANSOM_LOCK_SHARED, next, 0));
    OK(transom_get_bytes(window, &got, 8, next, *(uint64_t *)table + 8));
    OK(transom_window_unlock(window, next));
    CHECK(got == 100 + me);
    OK(transom_job_barrier(world));
    OK(transom_window_detach(window, memory));
    FAILS(TRANSOM_ERR_RMA_ATTACH, "", transom_window_detach(window, memory));
    end_of(&window);
    end_of(&addresses);
}

/* Two subsets of all ranks, created in the opposite order by every second rank: tags distinguish
 * them. */
static void tagged(void) {
    transom_job *jobs[2] = {NULL, NULL};
    int ranks[64];
    for (int rank = 0; rank < size; rank++) {
        ranks[rank] = rank;
    }
    FAILS(TRANSOM_ERR_ARG, "ranks is NULL", transom_job_subset_tagged(world, 1, NULL, 7, &jobs[0]));
    for (int turn = 0; turn < 2; turn++) {
        int which = (turn + me) % 2;
        OK(transom_job_subset_tagged(world, size, ranks, 7 + (uint64_t)which, &jobs[which]));
    }
    for (int which = 0; which < 2; which++) {
        transom_window *window = NULL;
        void *base = NULL;
        int from = 10 * which + me;
        OK(transom_window_allocate(jobs[which], 8 + 8 * (size_t)which, 8, NULL, &base, &window));
        OK(transom_window_fence(window, 0));
        OK(transom_put_bytes(window, &from, sizeof from, (me + 1) % size, which));
        OK(transom_window_fence(window, 0));
        CHECK(((int *)base)[2 * which] == 10 * which + (me + size - 1) % size);
        end_of(&window);
        OK(transom_finalize(&jobs[which]));
    }
}

/* A window over every second rank, in descending order. */
static void subset(void) {
    transom_job *half = NULL;
    transom_window *window = NULL;
    void *base = NULL;
    int ranks[64], count = 0, rank = 0, many = 0, found[64];
    for (int one = size - 1; one >= 0; one--) {
        if (one % 2 == 0) {
            ranks[count++] = one;
        }
    }
    if (me % 2 == 1) {
        FAILS(TRANSOM_ERR_RANK, "", transom_job_subset(world, count, ranks, &half));
        return;
    }
    OK(transom_job_subset(world, count, ranks, &half));
    OK(transom_job_rank(half, &rank));
    OK(transom_job_size(half, &many));
    CHECK(many == count && ranks[rank] == me);
    OK(transom_job_group(half, 64, found, &many));
    CHECK(many == count && memcmp(found, ranks, (size_t)count * sizeof(int)) == 0);
    OK(transom_window_allocate(half, 8, 8, NULL, &base, &window));
    OK(transom_window_group(window, 64, found, &many));
    CHECK(many == count && memcmp(found, ranks, (size_t)count * sizeof(int)) == 0);
    OK(transom_window_fence(window, 0));
    OK(transom_put_bytes(window, &me, sizeof me, (rank + 1) % count, 0));
    OK(transom_window_fence(window, 0));
    CHECK(*(int *)base == ranks[(rank + count - 1) % count]);
    end_of(&window);
    OK(transom_finalize(&half));
    CHECK(half == NULL);
}

static void neighbours(void) {
    int ranks[64], count = 0, route = 0;
    OK(transom_job_route(world, me, &route));
    CHECK(route == TRANSOM_ROUTE_OWN);
    OK(transom_job_node_ranks(world, 64, ranks, &count));
    CHECK(count >= 1 && count <= size);
    OK(transom_job_node_ranks(world, 0, NULL, &count));
    CHECK(count >= 1);
}

int main(void) {
    begin();
    neighbours();
    created();
    over_memory();
    allocated();
    shared();
    dynamic();
    tagged();
    subset();
    return end("windows");
}
