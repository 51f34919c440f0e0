/* Derived datatypes: each constructor moves the elements that a loop in C computes. */
#include "check.h"

enum { SIDE = 8, ALL = SIDE * SIDE };

static transom_window *window;
static int *part;
static int source[ALL];

/* Puts the contiguous `source` as one item of a type at the next rank. This rank's part then has
 * the data of the previous rank. */
static void placed(transom_datatype *type, uint64_t items) {
    OK(transom_job_barrier(world));
    memset(part, 0, ALL * sizeof(int));
    OK(transom_window_fence(window, 0));
    OK(transom_put(window, source, items, TRANSOM_INT, next, 0, 1, type));
    OK(transom_window_fence(window, 0));
}

/* Element i that the previous rank has put. */
static int sent(int i) {
    return 1000 * (before + 1) + i;
}

static void freed(transom_datatype **type) {
    OK(transom_type_free(type));
    CHECK(*type == NULL);
}

static void sized(transom_datatype *type, uint64_t size_of, int64_t lb, int64_t extent, int64_t true_extent) {
    uint64_t bytes = 0;
    int64_t low = -1, wide = -1;
    OK(transom_type_size(type, &bytes));
    OK(transom_type_extent(type, &low, &wide));
    CHECK(bytes == size_of && low == lb && wide == extent);
    OK(transom_type_true_extent(type, &low, &wide));
    CHECK(wide == true_extent);
}

/* A column of the square, by three constructors. */
static void columns(void) {
    transom_datatype *types[3] = {NULL, NULL, NULL};
    uint64_t sizes[2] = {SIDE, SIDE}, subsizes[2] = {SIDE, 1}, starts[2] = {0, 3};
    OK(transom_type_vector(SIDE, 1, SIDE, TRANSOM_INT, &types[0]));
    OK(transom_type_hvector(SIDE, 1, SIDE * (int64_t)sizeof(int), TRANSOM_INT, &types[1]));
    OK(transom_type_subarray(2, sizes, subsizes, starts, TRANSOM_ORDER_C, TRANSOM_INT, &types[2]));
    sized(types[0], SIDE * 4, 0, ((SIDE - 1) * SIDE + 1) * 4, ((SIDE - 1) * SIDE + 1) * 4);
    sized(types[2], SIDE * 4, 0, ALL * 4, ((SIDE - 1) * SIDE + 1) * 4);
    for (int way = 0; way < 3; way++) {
        int column = way == 2 ? 3 : 0;
        placed(types[way], SIDE);
        for (int row = 0; row < SIDE; row++) {
            for (int i = 0; i < SIDE; i++) {
                CHECK(part[row * SIDE + i] == (i == column ? sent(row) : 0));
            }
        }
        freed(&types[way]);
    }
}

/* Blocks at displacements, by four constructors. */
static void scattered(void) {
    transom_datatype *types[4] = {NULL, NULL, NULL, NULL};
    uint64_t lengths[3] = {2, 2, 2};
    int64_t places[3] = {40, 5, 20}, bytes[3] = {160, 20, 80};
    OK(transom_type_indexed(3, lengths, places, TRANSOM_INT, &types[0]));
    OK(transom_type_hindexed(3, lengths, bytes, TRANSOM_INT, &types[1]));
    OK(transom_type_indexed_block(3, 2, places, TRANSOM_INT, &types[2]));
    OK(transom_type_hindexed_block(3, 2, bytes, TRANSOM_INT, &types[3]));
    for (int way = 0; way < 4; way++) {
        placed(types[way], 6);
        for (int i = 0; i < 6; i++) {
            CHECK(part[places[i / 2] + i % 2] == sent(i));
        }
        CHECK(part[0] == 0 && part[42] == 0 && part[7] == 0);
        freed(&types[way]);
    }
}

/* Particles with gaps: an int, a double and three floats. */
static void structures(void) {
    struct particle {
        int kind;
        double mass;
        float at[3];
    } from[4], into[4];
    transom_datatype *parts[3] = {TRANSOM_INT, TRANSOM_DOUBLE, TRANSOM_FLOAT}, *one = NULL, *four = NULL;
    uint64_t lengths[3] = {1, 1, 3};
    int64_t places[3] = {0, 8, 16};
    memset(into, 0xff, sizeof into);
    for (int i = 0; i < 4; i++) {
        from[i].kind = me * 10 + i;
        from[i].mass = me + i / 4.0;
        from[i].at[0] = from[i].at[1] = from[i].at[2] = (float)i;
    }
    OK(transom_type_struct(3, lengths, places, (const transom_datatype *const *)parts, &one));
    sized(one, 4 + 8 + 12, 0, (int64_t)sizeof(struct particle), 28);
    OK(transom_type_contiguous(4, one, &four));
    freed(&one);
    OK(transom_window_fence(window, 0));
    OK(transom_put(window, from, 1, four, next, 0, 1, four));
    OK(transom_window_fence(window, 0));
    OK(transom_get(window, into, 1, four, me, 0, 1, four));
    OK(transom_window_fence(window, 0));
    for (int i = 0; i < 4; i++) {
        CHECK(into[i].kind == before * 10 + i && into[i].mass == before + i / 4.0 && into[i].at[2] == (float)i);
    }
    freed(&four);
}

/* Every second element: items of one int with the extent of two. Accumulated too. */
static void resized(void) {
    transom_datatype *wide = NULL;
    int ones[4] = {1, 1, 1, 1};
    OK(transom_type_resized(TRANSOM_INT, 0, 8, &wide));
    sized(wide, 4, 0, 8, 4);
    OK(transom_job_barrier(world));
    memset(part, 0, ALL * sizeof(int));
    OK(transom_window_fence(window, 0));
    OK(transom_accumulate(window, ones, 4, TRANSOM_INT, 0, 0, 4, wide, TRANSOM_SUM));
    OK(transom_window_fence(window, 0));
    for (int i = 0; me == 0 && i < 8; i++) {
        CHECK(part[i] == (i % 2 == 0 ? size : 0));
    }
    freed(&wide);
}

static void wrong(void) {
    transom_datatype *type = NULL, *basic = TRANSOM_INT;
    uint64_t sizes[1] = {4}, subsizes[1] = {3}, starts[1] = {2}, lengths[1] = {1};
    int64_t places[1] = {INT64_MAX};
    FAILS(TRANSOM_ERR_ARG, "dimension 0", transom_type_subarray(1, sizes, subsizes, starts, TRANSOM_ORDER_C, TRANSOM_INT, &type));
    FAILS(TRANSOM_ERR_ARG, "order", transom_type_subarray(1, sizes, subsizes, starts, 7, TRANSOM_INT, &type));
    FAILS(TRANSOM_ERR_COUNT, "", transom_type_indexed(1, lengths, places, TRANSOM_INT, &type));
    FAILS(TRANSOM_ERR_COUNT, "", transom_type_contiguous(UINT64_MAX, TRANSOM_INT, &type));
    FAILS(TRANSOM_ERR_COUNT, "elements", transom_type_indexed(UINT64_MAX, lengths, places, TRANSOM_INT, &type));
    FAILS(TRANSOM_ERR_TYPE, "predefined", transom_type_free(&basic));
    CHECK(type == NULL && basic == TRANSOM_INT);
}

int main(void) {
    void *base = NULL;
    begin();
    for (int i = 0; i < ALL; i++) {
        source[i] = 1000 * (me + 1) + i;
    }
    OK(transom_window_allocate(world, ALL * sizeof(int), 4, NULL, &base, &window));
    part = (int *)base;
    columns();
    scattered();
    structures();
    resized();
    wrong();
    OK(transom_window_free(&window));
    return end("layouts");
}
