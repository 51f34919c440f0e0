/* Windows of every flavor over every kind of memory, for the sweeps. */
#ifndef SWEEP_PLACES_H
#define SWEEP_PLACES_H

#include "sweep.h"

/* A rank's part of a window has one share, or one for each of several threads. */
#ifndef SWEEP_SHARES
#define SWEEP_SHARES 1
#endif
enum { SHARE = 16384, BYTES = SHARE * SWEEP_SHARES, GUARD = 4096 };

enum place {
    IN_STATIC, IN_STACK, IN_MALLOC, IN_ALLOC_MEM, IN_PART, IN_ALLOCATED, IN_SHARED, IN_NOTHING,
    ALLOCATED, ALLOCATED_EMPTY, SHARED, SHARED_APART, SHARED_EMPTY,
    DYNAMIC, DYNAMIC_STATIC, DYNAMIC_ALLOC_MEM, DYNAMIC_SEVERAL, DYNAMIC_BARE, PLACES
};

static const char *const place_names[PLACES] = {
    "create/static", "create/stack", "create/malloc", "create/alloc_mem", "create/part", "create/of_window",
    "create/of_shared", "create/empty", "allocate", "allocate/empty", "shared", "shared/apart", "shared/empty",
    "dynamic/malloc", "dynamic/static", "dynamic/alloc_mem", "dynamic/several", "dynamic/bare",
};

struct window {
    MPI_Win win;
    enum place place;
    int flavor, unit;
    /* This rank's memory: BYTES of it, or none. */
    char *memory;
    MPI_Aint bytes;
    /* The offset in bytes of the share on which operations act. */
    MPI_Aint first;
    /* The memory's addresses at all ranks, for displacements of dynamic windows. */
    MPI_Aint *bases;
    /* The window whose memory this window uses. */
    MPI_Win below;
    void *to_free, *to_free_mem;
};

static OWN long long in_static[2 * BYTES / 8], in_static_too[BYTES / 8];
static OWN char in_guarded[BYTES + 2 * GUARD];
static OWN char *in_stack;

static inline int is_empty(enum place place) {
    return place == IN_NOTHING || place == ALLOCATED_EMPTY || place == SHARED_EMPTY || place == DYNAMIC_BARE;
}

static inline int is_dynamic(enum place place) { return place >= DYNAMIC; }

static inline int flavor_of(enum place place) {
    if (place < ALLOCATED) return MPI_WIN_FLAVOR_CREATE;
    if (place < SHARED) return MPI_WIN_FLAVOR_ALLOCATE;
    return place < DYNAMIC ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_DYNAMIC;
}

static inline void over_memory(struct window *w, MPI_Info info, MPI_Comm comm) {
    static char nothing;
    char *memory = NULL;
    switch (w->place) {
    case IN_STATIC: memory = (char *)in_static; break;
    case IN_STACK: memory = in_stack; break;
    case IN_MALLOC: memory = w->to_free = malloc(BYTES); break;
    case IN_ALLOC_MEM: CALL(Alloc_mem, BYTES, MPI_INFO_NULL, &w->to_free_mem), memory = w->to_free_mem; break;
    case IN_PART: memory = in_guarded + GUARD; break;
    case IN_ALLOCATED: CALL(Win_allocate, BYTES, 1, MPI_INFO_NULL, comm, &memory, &w->below); break;
    case IN_SHARED: CALL(Win_allocate_shared, BYTES, 1, MPI_INFO_NULL, comm, &memory, &w->below); break;
    default: memory = &nothing;
    }
    w->memory = memory;
    CALL(Win_create, memory, w->bytes, w->unit, info, comm, &w->win);
}

static inline void attached(struct window *w, MPI_Comm comm) {
    int size;
    MPI_Aint base;
    switch (w->place) {
    case DYNAMIC: w->memory = w->to_free = malloc(BYTES); break;
    case DYNAMIC_ALLOC_MEM: CALL(Alloc_mem, BYTES, MPI_INFO_NULL, &w->to_free_mem), w->memory = w->to_free_mem; break;
    case DYNAMIC_SEVERAL: CALL(Win_attach, w->win, in_static_too, sizeof in_static_too); /* fall through */
    case DYNAMIC_STATIC: w->memory = (char *)in_static; break;
    default: w->memory = (char *)in_static_too;
    }
    if (w->place != DYNAMIC_BARE) CALL(Win_attach, w->win, w->memory, BYTES);
    MPI_Comm_size(comm, &size);
    w->bases = malloc(sizeof *w->bases * (size_t)size);
    MPI_Get_address(w->memory, &base);
    MPI_Allgather(&base, 1, MPI_AINT, w->bases, 1, MPI_AINT, comm);
}

/* Collective over the communicator. Errors on the window return. */
static inline void open_window(struct window *w, enum place place, int unit, MPI_Info info, MPI_Comm comm) {
    memset(w, 0, sizeof *w);
    w->win = w->below = MPI_WIN_NULL;
    w->place = place, w->flavor = flavor_of(place), w->unit = unit;
    w->bytes = is_empty(place) ? 0 : BYTES;
    MPI_Info apart = info;
    if (place == SHARED_APART) {
        if (info == MPI_INFO_NULL) MPI_Info_create(&apart);
        else MPI_Info_dup(info, &apart);
        MPI_Info_set(apart, "alloc_shared_noncontig", "true");
    }
    if (w->flavor == MPI_WIN_FLAVOR_CREATE) over_memory(w, info, comm);
    else if (w->flavor == MPI_WIN_FLAVOR_ALLOCATE) CALL(Win_allocate, w->bytes, unit, info, comm, &w->memory, &w->win);
    else if (w->flavor == MPI_WIN_FLAVOR_SHARED) CALL(Win_allocate_shared, w->bytes, unit, apart, comm, &w->memory, &w->win);
    else CALL(Win_create_dynamic, info, comm, &w->win), w->unit = 1;
    if (place == SHARED_APART) MPI_Info_free(&apart);
    if (w->win == MPI_WIN_NULL) return;
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    if (is_dynamic(place)) attached(w, comm);
}

static inline void close_window(struct window *w) {
    if (w->win == MPI_WIN_NULL) return;
    if (is_dynamic(w->place) && w->place != DYNAMIC_BARE) CALL(Win_detach, w->win, w->memory);
    CALL(Win_free, &w->win);
    if (w->win != MPI_WIN_NULL) say("win not null after free");
    w->win = MPI_WIN_NULL;
    if (w->below != MPI_WIN_NULL) CALL(Win_free, &w->below);
    if (w->to_free_mem) CALL(Free_mem, w->to_free_mem);
    free(w->to_free);
    free(w->bases);
}

/* The displacement of a byte in the share of a rank. */
static inline MPI_Aint place_of(const struct window *w, int target, MPI_Aint byte) {
    if (target == MPI_PROC_NULL) return 0;
    return is_dynamic(w->place) ? w->bases[target] + w->first + byte : (w->first + byte) / w->unit;
}

#endif
