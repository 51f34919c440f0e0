/* Predefined types as numbers, and derived types with the offsets of their elements, for sweeps. */
#ifndef SWEEP_SHAPES_H
#define SWEEP_SHAPES_H

#include "sweep.h"

/* Number of elements before the first one, for shapes with negative displacements. */
enum { AHEAD = 160 };

enum shape {
    PLAIN, CONTIGUOUS, VECTOR, BACKWARD, INDEXED, STRUCT, SUBARRAY, RESIZED, RESIZED_BACK, NESTED, BLOCKS, DUP, OWN_STRUCT, SHAPES
};

/* The offsets of the four elements of an item (of the single element for PLAIN), and the stride of
 * items in elements. */
static const struct { const char *name; int places[4], extent; } shapes[SHAPES] = {
    {"plain", {0}, 1}, {"contiguous", {0, 1, 2, 3}, 4}, {"vector", {0, 1, 3, 4}, 5},
    {"backward", {0, 1, -3, -2}, 5}, {"indexed", {0, 1, 5, 3}, 6}, {"struct", {0, 1, 4, 3}, 5},
    {"subarray", {4, 5, 7, 8}, 12}, {"resized", {0, 1, 2, 3}, 7}, {"resized_back", {0, 1, 2, 3}, 6},
    {"nested", {0, 2, 5, 7}, 8}, {"blocks", {6, 7, 0, 1}, 8}, {"dup", {0, 1, 2, 3}, 4},
    {"struct_of_vector", {0, 2, 7, 9}, 10},
};

static inline int elements_of(enum shape shape) { return shape == PLAIN ? 1 : 4; }

/* The offset of the k-th element of several items. */
static inline int place_in(enum shape shape, int k) {
    int each = elements_of(shape);
    return k / each * shapes[shape].extent + shapes[shape].places[k % each];
}

/* The committed type, which the caller frees unless the shape is PLAIN. */
static MPI_Datatype type_of(enum shape shape, MPI_Datatype basic, MPI_Aint size) {
    MPI_Datatype type = basic, part;
    switch (shape) {
    case CONTIGUOUS: MPI_Type_contiguous(4, basic, &type); break;
    case VECTOR: MPI_Type_vector(2, 2, 3, basic, &type); break;
    case BACKWARD: MPI_Type_vector(2, 2, -3, basic, &type); break;
    case INDEXED: MPI_Type_indexed(3, (int[]){2, 1, 1}, (int[]){0, 5, 3}, basic, &type); break;
    case STRUCT:
        MPI_Type_create_struct(3, (int[]){2, 1, 1}, (MPI_Aint[]){0, 4 * size, 3 * size},
                               (MPI_Datatype[]){basic, basic, basic}, &type);
        break;
    case SUBARRAY:
        MPI_Type_create_subarray(2, (int[]){4, 3}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_C, basic, &type);
        break;
    case RESIZED:
    case RESIZED_BACK:
        MPI_Type_contiguous(4, basic, &part);
        if (shape == RESIZED) MPI_Type_create_resized(part, 0, 7 * size, &type);
        else MPI_Type_create_resized(part, -2 * size, 6 * size, &type);
        MPI_Type_free(&part);
        break;
    case NESTED:
        MPI_Type_vector(2, 1, 2, basic, &part);
        MPI_Type_create_hvector(2, 1, 5 * size, part, &type);
        MPI_Type_free(&part);
        break;
    case BLOCKS: MPI_Type_create_hindexed_block(2, 2, (MPI_Aint[]){6 * size, 0}, basic, &type); break;
    case DUP:
        MPI_Type_contiguous(4, basic, &part);
        MPI_Type_dup(part, &type);
        MPI_Type_free(&part);
        break;
    case OWN_STRUCT:
        MPI_Type_vector(2, 1, 2, basic, &part);
        MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 7 * size}, (MPI_Datatype[]){part, part}, &type);
        MPI_Type_free(&part);
        break;
    default: return basic;
    }
    MPI_Type_commit(&type);
    return type;
}

enum basic {
    INT, DOUBLE, SIGNED_CHAR, LONG, FLOAT, UNSIGNED_SHORT, INT64, UINT64, LONG_DOUBLE, COMPLEX, UINT8, SHORT, UNSIGNED, BASICS
};

static const char *const basic_names[BASICS] = {
    "int", "double", "signed_char", "long", "float", "unsigned_short", "int64", "uint64", "long_double", "complex",
    "uint8", "short", "unsigned",
};

static const int sizes_of_basics[BASICS] = {
    sizeof(int), sizeof(double), 1, sizeof(long), sizeof(float), sizeof(short), 8, 8, sizeof(long double),
    2 * sizeof(double), 1, sizeof(short), sizeof(int),
};

static MPI_Datatype basic_of(enum basic basic) {
    switch (basic) {
    case INT: return MPI_INT;
    case DOUBLE: return MPI_DOUBLE;
    case SIGNED_CHAR: return MPI_SIGNED_CHAR;
    case LONG: return MPI_LONG;
    case FLOAT: return MPI_FLOAT;
    case UNSIGNED_SHORT: return MPI_UNSIGNED_SHORT;
    case INT64: return MPI_INT64_T;
    case UINT64: return MPI_UINT64_T;
    case LONG_DOUBLE: return MPI_LONG_DOUBLE;
    case COMPLEX: return MPI_C_DOUBLE_COMPLEX;
    case UINT8: return MPI_UINT8_T;
    case SHORT: return MPI_SHORT;
    default: return MPI_UNSIGNED;
    }
}

static inline int is_integer(enum basic basic) {
    return basic != DOUBLE && basic != FLOAT && basic != LONG_DOUBLE && basic != COMPLEX;
}

/* Converts a small number to an element, and back. Both parts of a complex number hold it. */
static void put_element(enum basic basic, char *base, long place, int value) {
    char *at = base + place * sizes_of_basics[basic];
    memset(at, 0, (size_t)sizes_of_basics[basic]);
    switch (basic) {
    case INT: case UNSIGNED: *(int *)at = value; break;
    case DOUBLE: *(double *)at = value; break;
    case SIGNED_CHAR: case UINT8: *at = (char)value; break;
    case LONG: case INT64: case UINT64: *(int64_t *)at = value; break;
    case FLOAT: *(float *)at = (float)value; break;
    case LONG_DOUBLE: *(long double *)at = value; break;
    case COMPLEX: ((double *)at)[0] = ((double *)at)[1] = value; break;
    default: *(short *)at = (short)value;
    }
}

static int get_element(enum basic basic, const char *base, long place) {
    const char *at = base + place * sizes_of_basics[basic];
    switch (basic) {
    case INT: case UNSIGNED: return *(const int *)at;
    case DOUBLE: return (int)*(const double *)at;
    case SIGNED_CHAR: case UINT8: return (signed char)*at;
    case LONG: case INT64: case UINT64: return (int)*(const int64_t *)at;
    case FLOAT: return (int)*(const float *)at;
    case LONG_DOUBLE: return (int)*(const long double *)at;
    case COMPLEX: return ((const double *)at)[0] == ((const double *)at)[1] ? (int)*(const double *)at : -99;
    default: return *(const short *)at;
    }
}

#endif
