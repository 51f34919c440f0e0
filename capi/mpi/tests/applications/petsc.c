/* PETSc's star forests with windows, compared with the ones of messages, and a solver on a grid
 * whose ghost values travel by them. */
#include "../programs/check.h"

#include <petscdmda.h>
#include <petscksp.h>
#include <petscsf.h>

enum { ROOTS = 50, ROUNDS = 20, GRID = 17 };

typedef struct {
    double numbers[3];
    int id;
} Record;

static PetscInt leaves_, *places_;
static PetscSFNode *nodes_;

/* A forest in which each leaf has a random root. Leaves are at every other place. */
static PetscErrorCode forest(PetscBool windows, PetscSF *sf) {
    PetscCall(PetscSFCreate(PETSC_COMM_WORLD, sf));
    if (windows) PetscCall(PetscSFSetFromOptions(*sf));
    else PetscCall(PetscSFSetType(*sf, PETSCSFBASIC));
    PetscCall(PetscSFSetGraph(*sf, ROOTS, leaves_, places_, PETSC_COPY_VALUES, nodes_, PETSC_COPY_VALUES));
    return PetscSFSetUp(*sf);
}

static PetscErrorCode broadcast(PetscSF sf, MPI_Datatype type, const void *roots, void *leaves) {
    PetscCall(PetscSFBcastBegin(sf, type, roots, leaves, MPI_REPLACE));
    return PetscSFBcastEnd(sf, type, roots, leaves, MPI_REPLACE);
}

static PetscErrorCode reduce(PetscSF sf, const PetscInt *leaves, PetscInt *roots, MPI_Op op) {
    PetscCall(PetscSFReduceBegin(sf, MPIU_INT, leaves, roots, op));
    return PetscSFReduceEnd(sf, MPIU_INT, leaves, roots, op);
}

static PetscErrorCode compare(PetscSF windows, PetscSF messages) {
    PetscInt roots[2][ROOTS], *leaves[2], *before, places = 2 * leaves_, sums[2] = {0, leaves_};
    MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    long differ = 0;
    PetscCall(PetscCalloc3(places, &leaves[0], places, &leaves[1], places, &before));
    for (int round = 0; round < ROUNDS; round++) {
        for (PetscInt i = 0; i < ROOTS; i++) roots[0][i] = roots[1][i] = rank_ * 1000 + i + round;
        for (PetscInt i = 0; i < places; i++) leaves[0][i] = leaves[1][i] = -1;
        PetscCall(broadcast(windows, MPIU_INT, roots[0], leaves[0]));
        PetscCall(broadcast(messages, MPIU_INT, roots[1], leaves[1]));
        differ += memcmp(leaves[0], leaves[1], places * sizeof(PetscInt)) != 0;
        for (PetscInt i = 0; i < places; i++) leaves[0][i] = leaves[1][i] = rank_ * 7 + i + 1;
        for (int op = 0; op < 3; op++) {
            PetscCall(reduce(windows, leaves[0], roots[0], ops[op]));
            PetscCall(reduce(messages, leaves[1], roots[1], ops[op]));
            differ += memcmp(roots[0], roots[1], sizeof roots[0]) != 0;
        }
    }
    check("broadcasts and reductions are those of messages", differ);
    for (PetscInt i = 0; i < ROOTS; i++) roots[0][i] = 0;
    for (PetscInt i = 0; i < places; i++) leaves[0][i] = 1;
    PetscCall(PetscSFFetchAndOpBegin(windows, MPIU_INT, roots[0], leaves[0], before, MPI_SUM));
    PetscCall(PetscSFFetchAndOpEnd(windows, MPIU_INT, roots[0], leaves[0], before, MPI_SUM));
    for (PetscInt i = 0; i < ROOTS; i++) sums[0] += roots[0][i];
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPIU_INT, MPI_SUM, PETSC_COMM_WORLD);
    check("each fetch-and-add counts once", sums[0] != sums[1]);
    PetscCall(PetscFree3(leaves[0], leaves[1], before));
    return 0;
}

static PetscErrorCode compare_records(PetscSF windows, PetscSF messages) {
    Record roots[ROOTS] = {0}, *leaves[2];
    MPI_Datatype type;
    PetscCall(PetscCalloc2(2 * leaves_, &leaves[0], 2 * leaves_, &leaves[1]));
    MPI_Type_contiguous(sizeof(Record), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < ROOTS; i++) roots[i] = (Record){{rank_, 0, i}, rank_ * i};
    PetscCall(broadcast(windows, type, roots, leaves[0]));
    PetscCall(broadcast(messages, type, roots, leaves[1]));
    check("records arrive whole", memcmp(leaves[0], leaves[1], 2 * leaves_ * sizeof(Record)) != 0);
    MPI_Type_free(&type);
    return PetscFree2(leaves[0], leaves[1]);
}

static PetscErrorCode forests(int seed) {
    PetscSF windows, messages;
    srand(seed * 1000 + rank_);
    leaves_ = 40 + (rank_ * 7 + seed) % 20;
    PetscCall(PetscMalloc2(leaves_, &places_, leaves_, &nodes_));
    for (PetscInt i = 0; i < leaves_; i++) {
        places_[i] = 2 * i;
        nodes_[i].rank = rand() % size_;
        nodes_[i].index = rand() % ROOTS;
    }
    PetscCall(forest(PETSC_TRUE, &windows));
    PetscCall(forest(PETSC_FALSE, &messages));
    PetscCall(compare(windows, messages));
    PetscCall(compare_records(windows, messages));
    PetscCall(PetscSFDestroy(&windows));
    PetscCall(PetscSFDestroy(&messages));
    return PetscFree2(places_, nodes_);
}

/* The row of a point: 4 there, and -1 for each neighbour inside of the grid. */
static PetscErrorCode set_row(Mat matrix, int i, int j) {
    int di[] = {0, -1, 1, 0, 0}, dj[] = {0, 0, 0, -1, 1}, columns = 0;
    MatStencil row = {.i = i, .j = j}, column[5];
    PetscScalar values[5];
    for (int k = 0; k < 5; k++) {
        int at = i + di[k], up = j + dj[k];
        if (at < 0 || at >= GRID || up < 0 || up >= GRID) continue;
        column[columns] = (MatStencil){.i = at, .j = up};
        values[columns++] = k == 0 ? 4 : -1;
    }
    return MatSetValuesStencil(matrix, 1, &row, columns, column, values, INSERT_VALUES);
}

static PetscErrorCode solve(void) {
    DM grid;
    KSP solver;
    Vec right, solution, residual;
    Mat matrix;
    PetscInt x, y, width, height;
    PetscReal norm;
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, GRID, GRID,
                           PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, &grid));
    PetscCall(DMSetUp(grid));
    PetscCall(DMCreateMatrix(grid, &matrix));
    PetscCall(DMCreateGlobalVector(grid, &right));
    PetscCall(VecDuplicate(right, &solution));
    PetscCall(VecDuplicate(right, &residual));
    PetscCall(DMDAGetCorners(grid, &x, &y, NULL, &width, &height, NULL));
    for (int j = y; j < y + height; j++)
        for (int i = x; i < x + width; i++) PetscCall(set_row(matrix, i, j));
    PetscCall(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
    PetscCall(VecSet(right, 1));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver));
    PetscCall(KSPSetOperators(solver, matrix, matrix));
    PetscCall(KSPSetTolerances(solver, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
    PetscCall(KSPSolve(solver, right, solution));
    PetscCall(MatMult(matrix, solution, residual));
    PetscCall(VecAXPY(residual, -1, right));
    PetscCall(VecNorm(residual, NORM_2, &norm));
    check("the solver converges", norm > 1e-6);
    PetscCall(KSPDestroy(&solver));
    PetscCall(VecDestroy(&right));
    PetscCall(VecDestroy(&solution));
    PetscCall(VecDestroy(&residual));
    PetscCall(MatDestroy(&matrix));
    return DMDestroy(&grid);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    for (int seed = 0; seed < 3; seed++) PetscCall(forests(seed));
    PetscCall(solve());
    PetscCall(PetscFinalize());
    return end();
}
