/* Random operations on dynamic windows under each kind of epoch, against a model of the target's
 * memory. Each rank operates on the memory of the next rank alone, so that all results are
 * determined. Between epochs ranks detach their memory, and attach it again as other regions. */
#include "check.h"

enum { WORDS = 20000, OPS = 12, SHARED = 100, TURNS = 120 };

/* Accumulates combine the first SHARED words; puts and gets have words of their own behind. */
enum kind { PUT, RPUT, GET, RGET, VECTOR, ACCUMULATE, GET_ACCUMULATE, FETCH, SWAP, KINDS };

struct op {
    enum kind kind;
    int len, at;
    long operand[WORDS], got[WORDS], expected[WORDS];
};

static struct op ops[OPS];
static long model[WORDS], theirs[WORDS];
static int to, from;
static MPI_Win win;
static MPI_Datatype vector;
static MPI_Aint base;
static MPI_Request requests[OPS];
static int pending;

static const int lens[] = {1, 2, 3, 60, 512, 600, 2000, 2040, 2100, 5000, 19000};

static void open_epoch(int epoch, MPI_Group origin, MPI_Group target) {
    switch (epoch) {
    case 0: MPI_Win_post(origin, 0, win), MPI_Win_start(target, 0, win); break;
    case 1: MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win); break;
    case 2: MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win); break;
    case 3: MPI_Win_lock_all(0, win); break;
    case 4: MPI_Win_fence(0, win); break;
    }
}

static void close_epoch(int epoch) {
    switch (epoch) {
    case 0: MPI_Win_complete(win), MPI_Win_wait(win); break;
    case 1: case 2: MPI_Win_unlock(to, win); break;
    case 3: MPI_Win_unlock_all(win); break;
    case 4: MPI_Win_fence(0, win); break;
    }
}

/* Changes the model as a put or an accumulate changes the target. */
static void change(struct op *op, int sum) {
    memcpy(op->expected, model + op->at, op->len * sizeof(long));
    for (int w = 0; w < op->len; w++)
        model[op->at + w] = sum ? model[op->at + w] + op->operand[w] : op->operand[w];
}

static void change_vector(struct op *op) {
    for (int w = 0; w < 6; w++) model[op->at + 5 * (w / 2) + w % 2] = op->operand[w];
}

static void change_swapped(struct op *op) {
    op->expected[0] = model[op->at];
    if (model[op->at] == op->operand[1]) model[op->at] = op->operand[0];
}

static void issue(struct op *op, int sum) {
    const MPI_Aint there = MPI_Aint_add(base, op->at * (MPI_Aint)sizeof(long));
    const int len = op->len;
    long *operand = op->operand;
    switch (op->kind) {
    case PUT: MPI_Put(operand, len, MPI_LONG, to, there, len, MPI_LONG, win), change(op, 0); break;
    case RPUT:
        MPI_Rput(operand, len, MPI_LONG, to, there, len, MPI_LONG, win, &requests[pending++]);
        change(op, 0);
        break;
    case GET:
    case RGET:
        if (op->kind == GET) MPI_Get(op->got, len, MPI_LONG, to, there, len, MPI_LONG, win);
        else MPI_Rget(op->got, len, MPI_LONG, to, there, len, MPI_LONG, win, &requests[pending++]);
        memcpy(op->expected, model + op->at, len * sizeof(long));
        break;
    case VECTOR: MPI_Put(operand, 6, MPI_LONG, to, there, 1, vector, win), change_vector(op); break;
    case ACCUMULATE:
        MPI_Accumulate(operand, len, MPI_LONG, to, there, len, MPI_LONG, sum ? MPI_SUM : MPI_REPLACE, win);
        change(op, sum);
        break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(operand, len, MPI_LONG, op->got, len, MPI_LONG, to, there, len, MPI_LONG, MPI_SUM, win);
        change(op, 1);
        break;
    case FETCH: MPI_Fetch_and_op(operand, op->got, MPI_LONG, to, there, MPI_SUM, win), change(op, 1); break;
    default:
        operand[1] = rand() % 2 ? model[op->at] : -1;
        MPI_Compare_and_swap(operand, operand + 1, op->got, MPI_LONG, to, there, win);
        change_swapped(op);
    }
}

/* Draws an operation whose words no other one of its epoch uses, from `next` on; false if there is
 * no room for it. */
static int draw(struct op *op, int *next, int requests_allowed) {
    op->kind = rand() % KINDS;
    if (!requests_allowed && op->kind == RPUT) op->kind = PUT;
    if (!requests_allowed && op->kind == RGET) op->kind = GET;
    op->len = op->kind >= FETCH ? 1 : lens[rand() % (int)(sizeof lens / sizeof *lens)];
    if (op->kind >= ACCUMULATE) {
        op->at = rand() % 40;
        if (op->len > SHARED - op->at) op->len = 1 + rand() % 60;
        if (op->kind == SWAP) op->at = SHARED - 1;
    } else {
        const int words = op->kind == VECTOR ? 12 : op->len;
        if (*next + words > WORDS) return 0;
        op->at = *next, *next += words;
    }
    for (int w = 0; w < op->len || w < 6; w++) op->operand[w] = rand() % 1000;
    return 1;
}

static int returns(const struct op *op) {
    return op->kind == GET || op->kind == RGET || op->kind >= GET_ACCUMULATE;
}

/* One epoch of random operations; the number of operations with wrong results. */
static long epoch_of(int turn, MPI_Group origin, MPI_Group target) {
    const int epoch = turn % 5, passive = epoch >= 1 && epoch <= 3, sum = turn % 2;
    int count = 0, next = SHARED + rand() % 30;
    open_epoch(epoch, origin, target);
    for (const int most = rand() % (OPS + 1); count < most; count++) {
        if (!draw(&ops[count], &next, passive)) break;
        issue(&ops[count], sum);
        if (passive && rand() % 4 == 0) MPI_Win_flush(to, win);
        if (passive && rand() % 3 == 0) MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE), pending = 0;
    }
    MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE), pending = 0;
    close_epoch(epoch);
    long bad = 0;
    for (int i = 0; i < count; i++)
        bad += returns(&ops[i]) && memcmp(ops[i].got, ops[i].expected, ops[i].len * sizeof(long));
    return bad;
}

/* Attaches all of the memory as one region, or as two that are side by side; returns the first word
 * of the second region, or 0. */
static int attach(long *memory) {
    const int second = rand() % 2 ? 1 + rand() % (WORDS - 1) : 0;
    MPI_Win_attach(win, memory, (second ? second : WORDS) * sizeof(long));
    if (second) MPI_Win_attach(win, memory + second, (WORDS - second) * sizeof(long));
    return second;
}

static void detach(long *memory, int second) {
    MPI_Win_detach(win, memory);
    if (second) MPI_Win_detach(win, memory + second);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    srand(17 + rank_);
    to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
    MPI_Group all, origin, target;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &from, &origin), MPI_Group_incl(all, 1, &to, &target);
    MPI_Type_vector(3, 2, 5, MPI_LONG, &vector), MPI_Type_commit(&vector);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    long *memory = calloc(WORDS, sizeof(long)), bad[2] = {0, 0};
    MPI_Aint mine;
    MPI_Get_address(memory, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &base, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int second = attach(memory);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < TURNS; turn++) {
        bad[0] += epoch_of(turn, origin, target);
        MPI_Sendrecv(model, WORDS, MPI_LONG, to, 0, theirs, WORDS, MPI_LONG, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
        bad[1] += memcmp(memory, theirs, sizeof theirs) != 0;
        MPI_Win_unlock(rank_, win);
        /* Here no operation is in flight. */
        if (turn % 7 == 6) detach(memory, second), second = attach(memory);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check("results of operations", bad[0]);
    check("memory after each epoch", bad[1]);
    detach(memory, second);
    MPI_Win_free(&win);
    MPI_Type_free(&vector);
    MPI_Group_free(&origin), MPI_Group_free(&target), MPI_Group_free(&all);
    free(memory);
    return end();
}
