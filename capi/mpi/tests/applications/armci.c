/* ARMCI-MPI: random puts, gets, accumulates (contiguous, strided, vectors of pointers), counters
 * and mutexes. Each rank writes to a block of its own in every rank's memory, and keeps a model of
 * it. */
#include "../programs/check.h"

#include <armci.h>

enum { BLOCK = 256, STEPS = 200, ROUNDS = 3, LOCKED = 20 };

static void **memory_, **counts_;
static double *model_, data_[BLOCK], result_[BLOCK];
static long wrong_;

static double *block_at(int target) { return (double *)memory_[target] + rank_ * BLOCK; }
static double *model_of(int target) { return model_ + target * BLOCK; }

static void put(int target, int at, int len, int waits) {
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    if (waits) {
        ARMCI_NbPut(data_, block_at(target) + at, len * 8, target, &handle);
        ARMCI_Wait(&handle);
    } else {
        ARMCI_Put(data_, block_at(target) + at, len * 8, target);
    }
    memcpy(model_of(target) + at, data_, len * 8);
}

static void get(int target, int at, int len) {
    ARMCI_Fence(target);
    ARMCI_Get(block_at(target) + at, result_, len * 8, target);
    wrong_ += memcmp(result_, model_of(target) + at, len * 8) != 0;
}

static void accumulate(int target, int at, int len) {
    double scale = 2;
    ARMCI_Fence(target);
    ARMCI_Acc(ARMCI_ACC_DBL, &scale, data_, block_at(target) + at, len * 8, target);
    for (int i = 0; i < len; i++) model_of(target)[at + i] += 2 * data_[i];
}

/* 8 pieces of 4 or 5 elements, at every 8th element here and every 16th there. */
static void put_strided(int target) {
    int here[] = {64}, there[] = {128}, counts[] = {32, 8};
    ARMCI_PutS(data_, here, block_at(target), there, counts, 1, target);
    for (int i = 0; i < 8; i++) memcpy(model_of(target) + 16 * i, data_ + 8 * i, 32);
}

static void get_strided(int target) {
    int there[] = {128}, here[] = {64}, counts[] = {40, 8};
    ARMCI_Fence(target);
    ARMCI_GetS(block_at(target), there, result_, here, counts, 1, target);
    for (int i = 0; i < 8; i++) wrong_ += memcmp(result_ + 8 * i, model_of(target) + 16 * i, 40) != 0;
}

/* Pieces of 2 elements in two levels of strides. */
static void accumulate_strided(int target) {
    double scale = 1;
    int here[] = {32, 128}, there[] = {64, 256}, counts[] = {16, 2, 4};
    ARMCI_Fence(target);
    ARMCI_AccS(ARMCI_ACC_DBL, &scale, data_, here, block_at(target), there, counts, 2, target);
    for (int i = 0; i < 16; i++) {
        int outer = i / 4, inner = i / 2 % 2, element = i % 2;
        model_of(target)[outer * 32 + inner * 8 + element] += data_[outer * 16 + inner * 4 + element];
    }
}

static void put_vector(int target) {
    void *from[5], *to[5];
    armci_giov_t pieces = {.src_ptr_array = from, .dst_ptr_array = to, .bytes = 24, .ptr_array_len = 5};
    for (int i = 0; i < 5; i++) {
        from[i] = data_ + 9 * i;
        to[i] = block_at(target) + 11 * i;
        memcpy(model_of(target) + 11 * i, data_ + 9 * i, 24);
    }
    ARMCI_PutV(&pieces, 1, target);
}

static void step(int number) {
    int target = rand() % size_, at = rand() % 64, len = 1 + rand() % 128;
    for (int i = 0; i < BLOCK; i++) data_[i] = rand() % 1000;
    switch (rand() % 8) {
    case 0: put(target, at, len, 0); break;
    case 1: put(target, at, len, 1); break;
    case 2: get(target, at, len); break;
    case 3: accumulate(target, at, len); break;
    case 4: put_strided(target); break;
    case 5: get_strided(target); break;
    case 6: accumulate_strided(target); break;
    default: put_vector(target);
    }
    long before;
    int before_int;
    ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &before, counts_[number % size_], 3, number % size_);
    ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &before_int, (char *)counts_[number % size_] + 8, 1, number % size_);
    wrong_ += before % 3 != 0;
    if (number % 20 == 0) ARMCI_AllFence();
}

static long count_under_mutexes(void) {
    char *word = (char *)counts_[0] + 16;
    long value;
    ARMCI_Create_mutexes(2);
    ARMCI_Barrier();
    for (int i = 0; i < LOCKED; i++) {
        ARMCI_Lock(1, 0);
        ARMCI_Get(word, &value, 8, 0);
        value++;
        ARMCI_Put(&value, word, 8, 0);
        ARMCI_Fence(0);
        ARMCI_Unlock(1, 0);
    }
    ARMCI_Barrier();
    ARMCI_Get(word, &value, 8, 0);
    ARMCI_Barrier();
    ARMCI_Destroy_mutexes();
    return value;
}

static void round_of_steps(void) {
    ARMCI_Malloc(memory_, size_ * BLOCK * 8);
    ARMCI_Malloc(counts_, 64);
    memset(model_, 0, size_ * BLOCK * 8);
    ARMCI_Access_begin(memory_[rank_]);
    memset(memory_[rank_], 0, size_ * BLOCK * 8);
    ARMCI_Access_end(memory_[rank_]);
    ARMCI_Access_begin(counts_[rank_]);
    memset(counts_[rank_], 0, 64);
    ARMCI_Access_end(counts_[rank_]);
    ARMCI_Barrier();
    wrong_ = 0;
    for (int i = 0; i < STEPS; i++) step(i);
    check("gets and counters see earlier operations", wrong_);
    ARMCI_Barrier();
    wrong_ = 0;
    for (int target = 0; target < size_; target++) get(target, 0, BLOCK);
    check("every block is as in the model", wrong_);
    long sums[2], counted = 0;
    for (int i = 0; i < STEPS; i++) counted += i % size_ == rank_;
    ARMCI_Get(counts_[rank_], sums, 16, rank_);
    check("no count is lost", sums[0] != 3 * counted * size_ || (int)sums[1] != counted * size_);
    check("mutexes exclude", count_under_mutexes() != (long)LOCKED * size_);
    ARMCI_Free(counts_[rank_]);
    ARMCI_Free(memory_[rank_]);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    ARMCI_Init();
    srand(rank_ + 1);
    memory_ = calloc(size_, sizeof *memory_);
    counts_ = calloc(size_, sizeof *counts_);
    model_ = calloc(size_ * BLOCK, sizeof *model_);
    for (int i = 0; i < ROUNDS; i++) round_of_steps();
    ARMCI_Finalize();
    return end();
}
