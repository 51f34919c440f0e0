/* A stand-in for an MPI, as serial builds of programs link one: it has some MPI names and no PMPI
 * names. With STAND_IN defined this file is the stand-in's library, else the program. Both include
 * no mpi.h. */
#include <stdio.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(int comm);
int MPI_Bcast(void *buf, int count, int datatype, int root, int comm);
int MPI_Wait(int *request, void *status);
int MPI_Finalize(void);

#ifdef STAND_IN
int calls_;

int MPI_Init(int *argc, char ***argv) { return (void)argc, (void)argv, calls_ += 1, 0; }
int MPI_Barrier(int comm) { return (void)comm, calls_ += 10, 0; }
int MPI_Bcast(void *buf, int count, int datatype, int root, int comm) {
    return (void)buf, (void)count, (void)datatype, (void)root, (void)comm, calls_ += 100, 0;
}
int MPI_Wait(int *request, void *status) { return (void)request, (void)status, calls_ += 1000, 0; }
int MPI_Finalize(void) { return calls_ += 10000, 0; }
#else
extern int calls_;

int main(int argc, char **argv) {
    int request = 0, status[16];
    int bad = MPI_Init(&argc, &argv) | MPI_Barrier(1) | MPI_Bcast(&request, 1, 2, 0, 1) | MPI_Wait(&request, status);
    bad |= MPI_Finalize();
    printf("%s the calls of a stand-in: %d\n", bad || calls_ != 11111 ? "not ok" : "ok", calls_);
    return bad || calls_ != 11111;
}
#endif
