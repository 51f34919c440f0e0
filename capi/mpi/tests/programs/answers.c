/* Calls that programs make for each operation, and that MPIs answer by a reference to something
 * that exists: they make nothing new, also if the program never frees the answer. */
#include "check.h"
#include <unistd.h>

enum { CALLS = 100000 };

/* The program's resident memory in KiB. */
static long resident(void) {
    long all = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &here) != 2) exit(3);
    fclose(file);
    return here * (sysconf(_SC_PAGESIZE) / 1024);
}

static int compared(MPI_Group one, MPI_Group other) {
    int same;
    MPI_Group_compare(one, other, &same);
    return same;
}

/* The window's rank 0 as a rank of the world, and back. */
static int is_first(MPI_Group group, MPI_Comm comm) {
    int n, me, zero = 0, there, back;
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &n), MPI_Group_rank(group, &me);
    MPI_Group_translate_ranks(group, 1, &zero, world, &there);
    MPI_Group_translate_ranks(world, 1, &there, group, &back);
    MPI_Group_free(&world);
    int size, rank;
    MPI_Comm_size(comm, &size), MPI_Comm_rank(comm, &rank);
    return n == size && me == rank && back == 0;
}

/* comex of Global Arrays asks for the group before each operation, and never frees it. */
static void never_freed(MPI_Win win) {
    MPI_Group group, last = MPI_GROUP_NULL;
    long bad = 0;
    MPI_Win_get_group(win, &last);
    long before = resident();
    for (int i = 0; i < CALLS; i++) {
        if (MPI_Win_get_group(win, &group) != MPI_SUCCESS) bad = 1;
    }
    check("100,000 groups of a window succeed", bad);
    check("100,000 groups of a window take no memory", resident() - before > 4096 ? resident() - before : 0);
    check("they are one group", compared(group, last) != MPI_IDENT);
    for (int i = 0; i < CALLS; i++) {
        MPI_Group again = group;
        if (MPI_Group_free(&again) != MPI_SUCCESS || again != MPI_GROUP_NULL) bad = 1;
    }
    check("as many frees succeed", bad);
    check("the group that is left works", !is_first(last, MPI_COMM_WORLD));
    MPI_Group_free(&last);
}

/* Groups of the window, of its communicator, and what is made of them live independently. */
static void outlives(MPI_Comm from, const char *name, int windows) {
    MPI_Comm comm;
    MPI_Win wins[2];
    MPI_Group of_comm, first, second, left, made;
    long *part, bad = 0;
    int last = size_ - 1;
    MPI_Comm_split(from, 0, -rank_, &comm);
    for (int i = 0; i < windows; i++) MPI_Win_allocate(8, 8, MPI_INFO_NULL, comm, &part, &wins[i]);
    MPI_Comm_group(comm, &of_comm);
    MPI_Win_get_group(wins[0], &first);
    MPI_Win_get_group(wins[windows - 1], &second);
    MPI_Win_get_group(wins[0], &left);
    MPI_Group_excl(first, 1, &last, &made);
    bad |= compared(first, of_comm) != MPI_IDENT || compared(first, second) != MPI_IDENT;
    MPI_Group_free(&first);
    bad |= (!is_first(second, comm)) << 1;
    MPI_Group_free(&of_comm);
    bad |= (!is_first(second, comm)) << 2;
    for (int i = 0; i < windows; i++) {
        /* The window still works, and then goes before its groups. */
        MPI_Win_fence(0, wins[i]);
        MPI_Win_fence(0, wins[i]);
        MPI_Win_free(&wins[i]);
        bad |= (!is_first(second, comm) || !is_first(left, comm)) << (3 + i);
    }
    int n;
    MPI_Group_free(&second);
    MPI_Comm again;
    MPI_Comm_create(comm, left, &again);
    MPI_Comm_compare(comm, again, &n);
    bad |= (n != MPI_CONGRUENT) << 5;
    MPI_Comm_free(&again);
    MPI_Group_size(made, &n);
    bad |= (n != size_ - 1) << 6;
    MPI_Group_free(&made);
    MPI_Comm_free(&comm);
    MPI_Group_size(left, &n);
    bad |= (n != size_) << 7;
    MPI_Group_free(&left);
    bad |= (left != MPI_GROUP_NULL) << 8;
    check(name, bad);
}

/* The communicator ends before the window's group is asked for. */
static void without_communicator(void) {
    MPI_Comm comm;
    MPI_Win win;
    MPI_Group group, world;
    long *part, bad = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, comm, &part, &win);
    MPI_Comm_free(&comm);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 3; i++) {
        MPI_Win_get_group(win, &group);
        bad |= compared(group, world) != MPI_IDENT;
        MPI_Group_free(&group);
    }
    MPI_Win_get_group(win, &group);
    MPI_Win_free(&win);
    bad |= (compared(group, world) != MPI_IDENT) << 1;
    MPI_Group_free(&group), MPI_Group_free(&world);
    check("the group of a window without communicator", bad);
}

/* No answer of these calls is an object, or the program frees it. */
static void others(MPI_Win win) {
    long bad = 0;
    for (int warm = 1; warm >= 0; warm--) {
        long before = resident();
        for (int i = 0; i < CALLS / (warm ? 10 : 1); i++) {
            char name[MPI_MAX_OBJECT_NAME];
            int flag, n;
            void *value, *base;
            MPI_Errhandler handler;
            MPI_Aint bytes;
            bad |= MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag) != MPI_SUCCESS || !flag;
            bad |= MPI_Win_get_name(win, name, &n) != MPI_SUCCESS;
            bad |= MPI_Win_get_errhandler(win, &handler) != MPI_SUCCESS;
            MPI_Errhandler_free(&handler);
#ifndef MPI_ABI_VERSION
            bad |= MPI_Win_f2c(MPI_Win_c2f(win)) != win;
#endif
            bad |= MPI_Get_address(value, &bytes) != MPI_SUCCESS;
            bad |= MPI_Win_shared_query(win, 0, &bytes, &n, &base) != MPI_SUCCESS;
            bad |= MPI_Win_flush(0, win) != MPI_SUCCESS || MPI_Win_flush_all(win) != MPI_SUCCESS;
            bad |= MPI_Win_flush_local(0, win) != MPI_SUCCESS || MPI_Win_sync(win) != MPI_SUCCESS;
        }
        long grown = resident() - before;
        if (!warm) check("calls for each operation take no memory", grown > 4096 ? grown : 0);
    }
    check("calls for each operation succeed", bad);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *part;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win);
    never_freed(win);
    MPI_Win_free(&win);
    outlives(MPI_COMM_WORLD, "groups outlive a window", 1);
    outlives(MPI_COMM_WORLD, "groups outlive two windows", 2);
    without_communicator();
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, node, &part, &win);
    MPI_Comm_free(&node);
    MPI_Win_lock_all(0, win);
    others(win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return end();
}
