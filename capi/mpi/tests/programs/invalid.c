/* Creation of a window over a communicator, or with an info, that is none: one error handler is
 * called, once, with the class that the host gives; and there is no window. */
#include "check.h"

static int calls_, class_;

/* The class of MPI_INFO_NULL where an info is needed. */
#ifdef OPEN_MPI
enum { NO_INFO = MPI_ERR_INFO };
#else
enum { NO_INFO = MPI_ERR_ARG };
#endif

static void of_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    calls_++;
    MPI_Error_class(*code, &class_);
}

static void of_window(MPI_Win *win, int *code, ...) {
    (void)win;
    calls_++;
    MPI_Error_class(*code, &class_);
}

enum { CREATE, ALLOCATE, SHARED, DYNAMIC, KINDS };
static const char *const NAMES[] = {"create", "allocate", "allocate_shared", "create_dynamic"};

static int make(int kind, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    static long memory[8];
    void *base = memory;
    switch (kind) {
    case CREATE: return MPI_Win_create(memory, sizeof memory, 8, info, comm, win);
    case ALLOCATE: return MPI_Win_allocate(64, 8, info, comm, &base, win);
    case SHARED: return MPI_Win_allocate_shared(64, 8, info, comm, &base, win);
    default: return MPI_Win_create_dynamic(info, comm, win);
    }
}

/* Whether one handler has been called, with this class. The code is that of a handler that returns:
 * MPICH 5 returns success after a handler of the program. */
static void reported(const char *what, const char *call, int code, int class, int by_own) {
    char text[128];
    snprintf(text, sizeof text, "%s: %s%s", what, call, by_own ? "" : ", MPI_ERRORS_RETURN");
    check(text, by_own ? calls_ != 1 ? 100 + calls_ : class_ != class : class_of(code) != class);
    calls_ = class_ = 0;
}

/* Creations over a bad communicator, or over `comm` with a bad info. */
static void creations(const char *what, MPI_Info info, MPI_Comm comm, int class, int by_own) {
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Win win = MPI_WIN_NULL;
        int code = make(kind, info, comm, &win);
        reported(what, NAMES[kind], code, class, by_own);
        if (win != MPI_WIN_NULL) check("there is no window", 1);
    }
}

#ifndef MPI_ABI_VERSION
/* A handle that is no info: under MPICH a communicator's. MPICH's standard ABI crashes. */
static MPI_Info no_info(void) {
#ifdef OPEN_MPI
    return (MPI_Info)0;
#else
    return (MPI_Info)MPI_COMM_WORLD;
#endif
}

static void infos(MPI_Comm comm, MPI_Win win, int by_own) {
    void *base;
    creations("an info that is none", no_info(), comm, MPI_ERR_INFO, by_own);
    reported("an info that is none", "set_info", MPI_Win_set_info(win, no_info()), MPI_ERR_INFO, by_own);
    reported("an info that is none", "alloc_mem", MPI_Alloc_mem(8, no_info(), &base), MPI_ERR_INFO, by_own);
    /* Under hosts the other ranks wait for ever. */
    for (int kind = 0; by_transom() && by_own && kind < KINDS; kind++) {
        MPI_Win none = MPI_WIN_NULL;
        make(kind, rank_ == size_ - 1 ? no_info() : MPI_INFO_NULL, comm, &none);
        check("no info at one rank", none != MPI_WIN_NULL ? 1 : calls_ != 1 ? 100 + calls_ : 0);
        calls_ = 0;
    }
}
#endif

static void handled_by(MPI_Comm comm, MPI_Win win, MPI_Errhandler handler, MPI_Errhandler of_win) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Win_set_errhandler(win, of_win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm, freed, gone;
    MPI_Errhandler own, of_win;
    MPI_Win win, after;
    void *base;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Comm_create_errhandler(of_comm, &own);
    MPI_Win_create_errhandler(of_window, &of_win);
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, comm, &base, &win);
    gone = freed;
    MPI_Comm_free(&freed);
    (void)gone;
    for (int by_own = 0; by_own < 2; by_own++) {
        handled_by(comm, win, by_own ? own : MPI_ERRORS_RETURN, by_own ? of_win : MPI_ERRORS_RETURN);
        creations("no communicator", MPI_INFO_NULL, MPI_COMM_NULL, MPI_ERR_COMM, by_own);
#ifndef OPEN_MPI
        /* Open MPI reads freed memory. */
        creations("a freed communicator", MPI_INFO_NULL, gone, MPI_ERR_COMM, by_own);
#endif
        reported("the null info", "set_info", MPI_Win_set_info(win, MPI_INFO_NULL), NO_INFO, by_own);
#ifndef MPI_ABI_VERSION
        infos(comm, win, by_own);
#endif
    }
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, comm, &base, &after);
    check("no handler is called for a window", calls_);
    MPI_Win_fence(0, after);
    MPI_Win_fence(0, win);
    MPI_Win_free(&after), MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    return end();
}
