/* Failures return codes of the right class and call the window's error handler; attributes, names,
 * hints and user keyvals. */
#include "check.h"

static int called, called_with;
static int kept_deleted;

static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    called++;
    called_with = class_of(*code);
}

static int deleted(MPI_Win win, int keyval, void *value, void *extra) {
    (void)win, (void)keyval, (void)extra;
    kept_deleted += *(int *)value;
    return MPI_SUCCESS;
}

/* Whether the text of an error begins with a function name. MPICH gives the text of the class. */
static int is_of(int code, const char *function) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
#ifdef OPEN_MPI
    return !strncmp(text, function, strlen(function));
#else
    (void)function;
    return length > 0;
#endif
}

/* Both MPICHs report a rank that is not in the window before a missing epoch. */
static void beyond(MPI_Win win) {
    if (!by_transom()) return;
    long x = 1, y = 2, bad = 0;
    const int codes[] = {
        MPI_Put(&x, 1, MPI_LONG, size_, 0, 1, MPI_LONG, win),
        MPI_Get(&x, 1, MPI_LONG, size_, 0, 1, MPI_LONG, win),
        MPI_Accumulate(&x, 1, MPI_LONG, size_, 0, 1, MPI_LONG, MPI_SUM, win),
        MPI_Fetch_and_op(&x, &y, MPI_LONG, size_, 0, MPI_SUM, win),
        MPI_Compare_and_swap(&x, &x, &y, MPI_LONG, size_, 0, win),
        MPI_Win_flush(size_, win),
        MPI_Win_flush_local(size_, win),
    };
    for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++) bad |= (class_of(codes[i]) != MPI_ERR_RANK) << i;
    check("no such rank, outside an epoch: MPI_ERR_RANK", bad);
}

static void failures(MPI_Win win) {
    long x = 1, y = 2;
    MPI_Errhandler own;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int code = MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    check("outside an epoch: MPI_ERR_RMA_SYNC", class_of(code) != MPI_ERR_RMA_SYNC);
    beyond(win);
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    if (rank_ == 0 && getenv("TRANSOM_TEST_SHOW")) printf("# %s\n", text);
    check("the error has a text", length == 0);
    check("unlock without lock: MPI_ERR_RMA_SYNC", class_of(MPI_Win_unlock(0, win)) != MPI_ERR_RMA_SYNC);
    MPI_Win_lock_all(0, win);
    check("outside the window: MPI_ERR_RMA_RANGE", class_of(MPI_Put(&x, 1, MPI_LONG, 0, 1000, 1, MPI_LONG, win)) != MPI_ERR_RMA_RANGE);
    check("no such rank: MPI_ERR_RANK", class_of(MPI_Put(&x, 1, MPI_LONG, size_, 0, 1, MPI_LONG, win)) != MPI_ERR_RANK);
    check("a negative count: MPI_ERR_COUNT", class_of(MPI_Put(&x, -1, MPI_LONG, 0, 0, 1, MPI_LONG, win)) != MPI_ERR_COUNT);
    check("no type: MPI_ERR_TYPE", class_of(MPI_Put(&x, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_LONG, win)) != MPI_ERR_TYPE);
    check("an operation that is not defined: MPI_ERR_OP",
          class_of(MPI_Accumulate(&x, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND, win)) != MPI_ERR_OP);
    check("a negative displacement: MPI_ERR_DISP", class_of(MPI_Put(&x, 1, MPI_LONG, 0, -1, 1, MPI_LONG, win)) != MPI_ERR_DISP);
    check("a fence within lock_all: MPI_ERR_RMA_SYNC", class_of(MPI_Win_fence(0, win)) != MPI_ERR_RMA_SYNC);
    MPI_Win_create_errhandler(handler, &own);
    MPI_Win_set_errhandler(win, own);
    MPI_Errhandler_free(&own);
    MPI_Get(&y, 1, MPI_LONG, 0, 1000, 1, MPI_LONG, win);
    check("the window's own handler is called", called != 1 || called_with != MPI_ERR_RMA_RANGE);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    code = MPI_Accumulate(&x, 1, MPI_LONG, rank_, 1000, 1, MPI_LONG, MPI_SUM, win);
    check("the error of an accumulate names it", !is_of(code, "accumulate:"));
    code = MPI_Get_accumulate(&x, 1, MPI_LONG, &y, 1, MPI_LONG, rank_, 1000, 1, MPI_LONG, MPI_SUM, win);
    check("the error of a get_accumulate names it", !is_of(code, "get_accumulate:"));
    code = MPI_Fetch_and_op(&x, &y, MPI_LONG, rank_, 1000, MPI_SUM, win);
    check("the error of a fetch_and_op names it", !is_of(code, "fetch_and_op:"));
    check("put from NULL", class_of(MPI_Put(NULL, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win)) != MPI_ERR_BUFFER);
    check("get to NULL", class_of(MPI_Get(NULL, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win)) != MPI_ERR_BUFFER);
    check("accumulate from NULL", class_of(MPI_Accumulate(NULL, 2, MPI_LONG, 0, 0, 2, MPI_LONG, MPI_SUM, win)) != MPI_ERR_BUFFER);
    check("fetch_and_op from NULL", class_of(MPI_Fetch_and_op(NULL, &y, MPI_LONG, 0, 0, MPI_SUM, win)) != MPI_ERR_BUFFER);
    check("fetch from NULL without operand", MPI_Fetch_and_op(NULL, &y, MPI_LONG, 0, 0, MPI_NO_OP, win) != MPI_SUCCESS);
    check("compare_and_swap to NULL", class_of(MPI_Compare_and_swap(&x, &y, NULL, MPI_LONG, 0, 0, win)) != MPI_ERR_BUFFER);
    check("put of nothing from NULL", MPI_Put(NULL, 0, MPI_LONG, 0, 0, 0, MPI_LONG, win) != MPI_SUCCESS);
    check("the window works on", MPI_Put(&x, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win) != MPI_SUCCESS || MPI_Win_flush(0, win) != MPI_SUCCESS);
    MPI_Win_unlock_all(win);
    check("attach to no dynamic window: MPI_ERR_RMA_FLAVOR", class_of(MPI_Win_attach(win, &x, 8)) != MPI_ERR_RMA_FLAVOR);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A datatype is refused until it is committed, also as a part of the arguments of an accumulate. */
static void commits(void) {
    MPI_Win win;
    double *base, mine[2] = {1, 2}, old[2];
    MPI_Datatype two;
    int last = size_ - 1;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    base[0] = base[1] = 0;
    MPI_Type_contiguous(2, MPI_DOUBLE, &two);
    MPI_Win_fence(0, win);
    check("uncommitted at the origin: MPI_ERR_TYPE", class_of(MPI_Put(mine, 1, two, last, 0, 2, MPI_DOUBLE, win)) != MPI_ERR_TYPE);
    check("uncommitted at the target: MPI_ERR_TYPE",
          class_of(MPI_Get_accumulate(mine, 2, MPI_DOUBLE, old, 2, MPI_DOUBLE, last, 0, 1, two, MPI_SUM, win)) != MPI_ERR_TYPE);
    MPI_Type_commit(&two);
    int code = rank_ ? MPI_SUCCESS : MPI_Put(mine, 1, two, last, 0, 1, two, win);
    MPI_Win_fence(0, win);
    check("committed", code || (rank_ == last && (base[0] != 1 || base[1] != 2)));
    MPI_Type_free(&two);
    MPI_Win_free(&win);
}

static void attributes(void) {
    struct { int flavor; const char *name; } kinds[] = {{MPI_WIN_FLAVOR_CREATE, "create"}, {MPI_WIN_FLAVOR_ALLOCATE, "allocate"},
                                                        {MPI_WIN_FLAVOR_SHARED, "shared"}, {MPI_WIN_FLAVOR_DYNAMIC, "dynamic"}};
    long memory[16];
    for (int k = 0; k < 4; k++) {
        MPI_Win win;
        void *base = memory;
        MPI_Aint bytes = 32 + 8 * rank_ % 64;
        if (k == 0) MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        if (k == 1) MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        if (k == 2) MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        if (k == 3) MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        void *at, *found;
        MPI_Aint *size;
        int *unit, *flavor, *model, flag[5], n;
        MPI_Win_get_attr(win, MPI_WIN_BASE, &at, &flag[0]);
        MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag[1]);
        MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag[2]);
        MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag[3]);
        MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag[4]);
        long bad = !(flag[0] && flag[1] && flag[2] && flag[3] && flag[4]);
        bad |= (at != (k == 3 ? MPI_BOTTOM : base)) << 1 | (*size != (k == 3 ? 0 : bytes)) << 2 | (*unit != (k == 3 ? 1 : 4)) << 3;
        bad |= (*flavor != kinds[k].flavor) << 4 | (*model != MPI_WIN_UNIFIED) << 5;
        char text[64], name[MPI_MAX_OBJECT_NAME];
        snprintf(text, sizeof text, "%s: predefined attributes", kinds[k].name);
        check(text, bad);
        MPI_Group group, world;
        MPI_Win_get_group(win, &group);
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        int same;
        MPI_Group_compare(group, world, &same);
        MPI_Group_free(&group), MPI_Group_free(&world);
        MPI_Win_set_name(win, "the halo"), MPI_Win_get_name(win, name, &n);
        snprintf(text, sizeof text, "%s: group and name", kinds[k].name);
        check(text, same != MPI_IDENT || strcmp(name, "the halo"));
        int keyval, three = 3;
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &keyval, NULL);
        MPI_Win_set_attr(win, keyval, &three);
        MPI_Win_get_attr(win, keyval, &found, &flag[0]);
        kept_deleted = 0;
        MPI_Win_free(&win);
        snprintf(text, sizeof text, "%s: a user's attribute, and its end", kinds[k].name);
        check(text, !flag[0] || found != &three || kept_deleted != 3);
        MPI_Win_free_keyval(&keyval);
    }
}

/* Answers are defined, and no memory is read, where the host refuses the arguments of a call. */
static void refused_arguments(MPI_Win win) {
    MPI_Request q[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int done = 1 << 30, indices[2], flag = 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check("testsome of a negative count", !MPI_Testsome(-1, q, &done, indices, MPI_STATUSES_IGNORE) || done > 2);
    done = 1 << 30;
    check("waitsome of a negative count", !MPI_Waitsome(-1, q, &done, indices, MPI_STATUSES_IGNORE) || done > 2);
    check("testany of a negative count", !MPI_Testany(-1, q, &done, &flag, MPI_STATUS_IGNORE));
    check("waitany of a negative count", !MPI_Waitany(-1, q, &done, MPI_STATUS_IGNORE));
    check("receive of a negative count", !MPI_Recv(&flag, -1, MPI_INT, rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check("receive of no type", !MPI_Recv(&flag, 1, MPI_DATATYPE_NULL, rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    check("post to MPI_GROUP_NULL", class_of(MPI_Win_post(MPI_GROUP_NULL, 0, win)) != MPI_ERR_GROUP);
    check("start to MPI_GROUP_NULL", class_of(MPI_Win_start(MPI_GROUP_NULL, 0, win)) != MPI_ERR_GROUP);
}

static void hints(void) {
    MPI_Info info, seen;
    MPI_Win win;
    MPI_Errhandler counts;
    char value[64] = "";
    int flag;
    long *base;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "an unknown key", "yes");
    MPI_Win_allocate(64, 8, info, MPI_COMM_WORLD, &base, &win);
    MPI_Win_get_info(win, &seen);
    MPI_Info_get(seen, "no_locks", 63, value, &flag);
    check("hints of creation are returned", !flag || strcmp(value, "true"));
#ifdef MPICH_NUMVERSION
    MPI_Info_get(seen, "alloc_shm", 63, value, &flag);
    check("a hint of MPICH alone is returned", !flag);
#endif
    MPI_Info_free(&seen);
    MPI_Info_set(info, "no_locks", "false");
    MPI_Win_set_info(win, info);
    MPI_Win_get_info(win, &seen);
    MPI_Info_get(seen, "no_locks", 63, value, &flag);
    check("hints are changed", !flag || strcmp(value, "false"));
    MPI_Info_free(&seen);
    MPI_Win_create_errhandler(handler, &counts);
    MPI_Win_set_errhandler(win, counts);
    MPI_Info_set(info, "accumulate_ordering", "rar, raw");
    called = 0;
    check("spaces in a hint concern no error handler", MPI_Win_set_info(win, info) != MPI_SUCCESS || called != 0);
    MPI_Errhandler_free(&counts);
    MPI_Info_free(&info);
    MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
    MPI_Win_unlock(rank_, win);
    MPI_Win_free(&win);
}

#ifdef MPICH_NUMVERSION
static int shares(MPI_Win win) {
    MPI_Info info;
    char value[64] = "";
    int flag = 0;
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "alloc_shm", 63, value, &flag);
    MPI_Info_free(&info);
    return !flag ? -1 : strcmp(value, "true") == 0;
}

/* MPICH's hint has a default for each kind of window. */
static void default_hints(void) {
    MPI_Info info;
    MPI_Win win;
    long part[2], *base, bad = 0;
    MPI_Win_create(part, 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    bad |= shares(win) != 0;
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    bad |= (shares(win) != 0) << 1;
    MPI_Win_free(&win);
    MPI_Win_allocate(16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    bad |= (shares(win) != 1) << 2;
    MPI_Win_free(&win);
    MPI_Win_allocate_shared(16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    bad |= (shares(win) != 1) << 3;
    MPI_Win_free(&win);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shm", "false");
    MPI_Win_allocate(16, 8, info, MPI_COMM_WORLD, &base, &win);
    bad |= (shares(win) != 0) << 4;
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    check("a hint of MPICH that depends on the kind of window", bad);
}
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    long *base;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    /* Hosts check fewer arguments, and in another order. */
    if (by_transom()) failures(win);
    if (by_transom()) refused_arguments(win);
    MPI_Win_free(&win);
    commits();
    attributes();
    if (by_transom()) hints();
#ifdef MPICH_NUMVERSION
    if (by_transom() || MPICH_NUMVERSION < 50000000) default_hints();
#endif
    return end();
}
