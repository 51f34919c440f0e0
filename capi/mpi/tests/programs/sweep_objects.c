/*
 * Sweep: the queries of every window: attributes, names, keyvals and their callbacks, error
 * handlers, info, groups, shared_query, Fortran handles, attached memory. A case prints facts that
 * MPI leaves to the implementation, and `wrong` for violations of MPI.
 */
#include "sweep_places.h"

enum topic {
    PREDEFINED, NAME, NAME_LONG, NAME_NULL, KEYVAL, KEYVAL_ORDER, KEYVAL_SEES, KEYVAL_REFUSES, KEYVAL_FREED, HANDLER_DEFAULT,
    HANDLER_USER, HANDLER_CALLED, HANDLER_RETURN, INFO_CREATED, INFO_CHANGED, INFO_NULL, GROUP, QUERY_SELF, QUERY_EACH, QUERY_NULL,
    QUERY_OUTSIDE, FORTRAN, SUBSET, DUPLICATE, ALONE, ATTACH, ATTACH_TWICE, DETACH_UNKNOWN, ATTACH_NOTHING, SET_PREDEFINED,
    DELETE_PREDEFINED, ATTRIBUTE_ABSENT, FREE_TWICE, FREE_IN_EPOCH, MANY, TOPICS
};
static const char *const topic_names[TOPICS] = {
    "predefined", "name", "name_long", "name_of_null", "keyval", "keyval_order", "keyval_sees", "keyval_refuses",
    "keyval_freed_first", "handler_default", "handler_user", "handler_called", "handler_return", "info_created",
    "info_changed", "info_null", "group", "query_self", "query_each", "query_proc_null", "query_outside", "fortran",
    "subset", "duplicate", "comm_self", "attach", "attach_twice", "detach_unknown", "attach_nothing",
    "set_predefined", "delete_predefined", "attribute_absent", "free_twice", "free_in_epoch", "many",
};

static long cases(void) { return (long)PLACES * TOPICS; }

static void describe(long number, char text[PARAMETERS]) {
    snprintf(text, PARAMETERS, "objects %s %s", topic_names[number % TOPICS], place_names[number / TOPICS]);
}

static void finish(void) {}

/* --- attributes and names -------------------------------------------------------------------- */

static void predefined(MPI_Win win, const struct window *w) {
    void *base;
    MPI_Aint *size;
    int *unit, *flavor, *model, flag[5] = {0};
    CALL(Win_get_attr, win, MPI_WIN_BASE, &base, &flag[0]);
    CALL(Win_get_attr, win, MPI_WIN_SIZE, &size, &flag[1]);
    CALL(Win_get_attr, win, MPI_WIN_DISP_UNIT, &unit, &flag[2]);
    CALL(Win_get_attr, win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag[3]);
    CALL(Win_get_attr, win, MPI_WIN_MODEL, &model, &flag[4]);
    for (int i = 0; i < 5; i++)
        if (!flag[i]) say("no attribute %d", i);
    if (flag[0] && base != (is_dynamic(w->place) ? MPI_BOTTOM : w->memory) && w->flavor != MPI_WIN_FLAVOR_ALLOCATE) say("base wrong");
    if (flag[0] && w->bytes && base != w->memory && w->flavor == MPI_WIN_FLAVOR_ALLOCATE) say("base wrong");
    if (flag[1] && *size != (is_dynamic(w->place) ? 0 : w->bytes)) say("size wrong");
    if (flag[2] && *unit != w->unit) say("unit wrong");
    if (flag[3] && *flavor != w->flavor) say("flavor wrong");
    if (flag[4] && *model != MPI_WIN_UNIFIED && *model != MPI_WIN_SEPARATE) say("model wrong");
}

static void named(const struct window *w, enum topic topic) {
    char name[MPI_MAX_OBJECT_NAME + 1] = "", text[MPI_MAX_OBJECT_NAME];
    int length = -1;
    MPI_Win win = topic == NAME_NULL ? MPI_WIN_NULL : w->win;
    memset(text, 'x', sizeof text);
    text[topic == NAME_LONG ? MPI_MAX_OBJECT_NAME - 1 : 8] = 0;
    CALL(Win_get_name, win, name, &length);
    if (topic == NAME_NULL) say("name of null: %s", name);
    if (topic == NAME_NULL) return;
    if (length != 0 || name[0]) say("a name before any: %s", name);
    CALL(Win_set_name, win, text);
    CALL(Win_get_name, win, name, &length);
    if (strcmp(name, text) || length != (int)strlen(text)) say("name wrong");
}

static int deleted_[8], deletions_, refuse_, seen_;
static const struct window *looked_;

static int deleted(MPI_Win win, int keyval, void *value, void *extra) {
    (void)keyval, (void)extra;
    void *base;
    MPI_Aint *size;
    int flag = 0, other = 0;
    if (deletions_ < 8) deleted_[deletions_++] = *(int *)value;
    if (looked_) {
        MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
        MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &other);
        seen_ += flag && other && *size == (is_dynamic(looked_->place) ? 0 : looked_->bytes);
    }
    return refuse_ ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void keyvals(struct window *w, enum topic topic) {
    static int values[] = {1, 2, 3, 4};
    int keys[3], flag = 0, *found = NULL;
    deletions_ = refuse_ = seen_ = 0;
    looked_ = topic == KEYVAL_SEES ? w : NULL;
    for (int i = 0; i < 3; i++) {
        CALL(Win_create_keyval, MPI_WIN_NULL_COPY_FN, deleted, &keys[i], NULL);
        CALL(Win_set_attr, w->win, keys[i], &values[i]);
    }
    CALL(Win_get_attr, w->win, keys[1], &found, &flag);
    if (!flag || found != &values[1]) say("attribute wrong");
    if (topic == KEYVAL) {
        CALL(Win_set_attr, w->win, keys[1], &values[3]);
        CALL(Win_delete_attr, w->win, keys[0]);
        CALL(Win_get_attr, w->win, keys[0], &found, &flag);
        if (flag || deletions_ != 2 || deleted_[0] != 2 || deleted_[1] != 1) say("deletion wrong");
    }
    if (topic == KEYVAL_REFUSES) refuse_ = 1, CALL(Win_delete_attr, w->win, keys[0]), refuse_ = 0;
    for (int i = 0; i < 3 && topic == KEYVAL_FREED; i++) CALL(Win_free_keyval, &keys[i]);
    deletions_ = topic == KEYVAL_REFUSES ? 0 : deletions_;
    close_window(w);
    say("deleted");
    for (int i = 0; i < deletions_; i++) say("%d", deleted_[i]);
    if (topic == KEYVAL_SEES) say("seen %d", seen_);
    for (int i = 0; i < 3 && topic != KEYVAL_FREED; i++) CALL(Win_free_keyval, &keys[i]);
    looked_ = NULL;
}

static void attributes(const struct window *w, enum topic topic) {
    int key, flag = 1, value = 5;
    void *found;
    if (topic == SET_PREDEFINED) {
        CALL(Win_set_attr, w->win, MPI_WIN_SIZE, &value);
    } else if (topic == DELETE_PREDEFINED) {
        CALL(Win_delete_attr, w->win, MPI_WIN_BASE);
    } else {
        CALL(Win_create_keyval, MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
        CALL(Win_get_attr, w->win, key, &found, &flag);
        if (flag) say("an attribute never set");
        CALL(Win_free_keyval, &key);
        if (key != MPI_KEYVAL_INVALID) say("keyval left");
        CALL(Win_get_attr, w->win, MPI_KEYVAL_INVALID, &found, &flag);
    }
    predefined(w->win, w);
}

/* --- error handlers and info ------------------------------------------------------------------ */

static int called_, called_with_;
static MPI_Win called_on_;

static void handler(MPI_Win *win, int *code, ...) {
    called_++, called_on_ = *win;
    MPI_Error_class(*code, &called_with_);
}

static void handlers(const struct window *w, enum topic topic) {
    MPI_Errhandler own, got;
    long x = 0;
    if (topic == HANDLER_RETURN) {
        CALL(Win_get_errhandler, w->win, &got);
        if (got != MPI_ERRORS_RETURN) say("handler wrong");
        CALL(Win_set_errhandler, w->win, MPI_ERRORS_ARE_FATAL);
        CALL(Win_get_errhandler, w->win, &got);
        if (got != MPI_ERRORS_ARE_FATAL) say("fatal handler wrong");
        CALL(Win_set_errhandler, w->win, MPI_ERRORS_RETURN);
        CALL(Win_call_errhandler, w->win, MPI_ERR_RMA_SYNC);
        return;
    }
    CALL(Win_create_errhandler, handler, &own);
    CALL(Win_set_errhandler, w->win, own);
    CALL(Win_get_errhandler, w->win, &got);
    if (got != own) say("handler wrong");
    MPI_Errhandler_free(&got);
    CALL(Errhandler_free, &own);
    called_ = 0;
    if (topic == HANDLER_CALLED) CALL(Win_call_errhandler, w->win, MPI_ERR_RMA_SYNC);
    else MPI_Win_lock_all(0, w->win), CALL(Put, &x, 1, MPI_LONG, size_ + 3, 0, 1, MPI_LONG, w->win), MPI_Win_unlock_all(w->win);
    say("called %d with %s", called_, class_name(called_with_));
    if (called_ && called_on_ != w->win) say("with a wrong window");
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
}

/* The default error handler of a new window. */
static void default_handler(enum place place) {
    struct window w;
    MPI_Errhandler got;
    open_window(&w, place, 1, MPI_INFO_NULL, MPI_COMM_WORLD);
    MPI_Win other;
    CALL(Win_create, NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &other);
    CALL(Win_get_errhandler, other, &got);
    if (got != MPI_ERRORS_ARE_FATAL) say("another handler than MPI_ERRORS_ARE_FATAL");
    MPI_Win_free(&other);
    close_window(&w);
}

static void value_of(MPI_Win win, const char *key) {
    MPI_Info info;
    char value[64] = "";
    int flag = 0;
    CALL(Win_get_info, win, &info);
    CALL(Info_get, info, key, 63, value, &flag);
    say("%s=%s", key, flag ? value : "(none)");
    MPI_Info_free(&info);
}

static void infos(enum place place, enum topic topic) {
    struct window w;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Info_set(info, "same_disp_unit", "true");
    MPI_Info_set(info, "a key of nobody", "yes");
    open_window(&w, place, 1, topic == INFO_NULL ? MPI_INFO_NULL : info, MPI_COMM_WORLD);
    if (topic == INFO_CREATED) value_of(w.win, "no_locks");
    MPI_Info_set(info, "no_locks", "false");
    if (topic == INFO_CHANGED) CALL(Win_set_info, w.win, info), value_of(w.win, "no_locks");
    if (topic == INFO_NULL) CALL(Win_set_info, w.win, MPI_INFO_NULL);
    MPI_Info_free(&info);
    close_window(&w);
}

/* --- groups, shared_query, communicators ------------------------------------------------------ */

static void grouped(MPI_Win win, MPI_Comm comm) {
    MPI_Group group, of_comm;
    int same;
    CALL(Win_get_group, win, &group);
    MPI_Comm_group(comm, &of_comm);
    MPI_Group_compare(group, of_comm, &same);
    if (same != MPI_IDENT) say("group wrong");
    MPI_Group_free(&group), MPI_Group_free(&of_comm);
}

static void query(const struct window *w, int rank) {
    MPI_Aint size = -1;
    int unit = -1;
    char *base = (char *)&unit;
    if (CALL(Win_shared_query, w->win, rank, &size, &unit, &base)) return;
    if (size != w->bytes) say("size %ld", (long)size);
    if (size && unit != w->unit) say("unit %d", unit);
    if (rank == rank_ && size && base != w->memory) say("base wrong");
    if (size == 0) say("%s", base ? "base not null" : "base null");
    if (size && (rank == MPI_PROC_NULL || rank == rank_)) base[size - 1] = 3;
}

static void queries(const struct window *w, enum topic topic) {
    if (topic == QUERY_SELF) query(w, rank_);
    for (int r = 0; r < size_ && topic == QUERY_EACH; r++) query(w, r);
    if (topic == QUERY_NULL) query(w, MPI_PROC_NULL);
    if (topic == QUERY_OUTSIDE) query(w, size_);
}

static void over(MPI_Comm comm, enum place place) {
    struct window w;
    int rank, size;
    long value = 7, got = 0;
    MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
    open_window(&w, place, 1, MPI_INFO_NULL, comm);
    if (w.win == MPI_WIN_NULL) return;
    grouped(w.win, comm);
    int n = is_empty(place) ? 0 : 1;
    MPI_Aint at = n ? place_of(&w, (rank + 1) % size, 8) : 0;
    CALL(Win_fence, 0, w.win);
    CALL(Put, &value, n, MPI_LONG, (rank + 1) % size, at, n, MPI_LONG, w.win);
    CALL(Win_fence, 0, w.win);
    CALL(Get, &got, n, MPI_LONG, (rank + 1) % size, at, n, MPI_LONG, w.win);
    CALL(Win_fence, 0, w.win);
    if (n && got != 7) say("data wrong");
    close_window(&w);
}

static void communicators(enum place place, enum topic topic) {
    MPI_Comm comm;
    if (topic == ALONE) {
        over(MPI_COMM_SELF, place);
        return;
    }
    if (topic == SUBSET) MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, -rank_, &comm);
    else MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    over(comm, place);
    MPI_Comm_free(&comm);
}

/* --- handles and dynamic memory --------------------------------------------------------------- */

/* The ABI of MPI-5 has the conversions under other names. */
#ifdef MPI_ABI_VERSION
#define TO_FORTRAN MPI_Win_toint
#define FROM_FORTRAN MPI_Win_fromint
#else
#define TO_FORTRAN MPI_Win_c2f
#define FROM_FORTRAN MPI_Win_f2c
#endif

static void handles(struct window *w, enum topic topic) {
    struct window more[12];
    if (topic == FORTRAN) {
        if (FROM_FORTRAN(TO_FORTRAN(w->win)) != w->win) say("handle wrong");
        if (FROM_FORTRAN(TO_FORTRAN(MPI_WIN_NULL)) != MPI_WIN_NULL) say("null handle wrong");
    } else if (topic == FREE_TWICE) {
        close_window(w);
        CALL(Win_free, &w->win);
    } else if (topic == FREE_IN_EPOCH) {
        CALL(Win_lock_all, 0, w->win);
        CALL(Win_free, &w->win);
        if (w->win != MPI_WIN_NULL) CALL(Win_unlock_all, w->win);
    } else {
        enum place place = w->place == IN_STACK ? IN_MALLOC : w->place;
        for (int i = 0; i < 12; i++) open_window(&more[i], place, 1, MPI_INFO_NULL, MPI_COMM_WORLD);
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < i; j++)
                if (more[i].win == more[j].win) say("one handle for two");
        for (int i = 0; i < 12; i++) close_window(&more[i * 5 % 12]);
    }
}

static void attaching(const struct window *w, enum topic topic) {
    static char memory[8192];
    if (topic == ATTACH) {
        CALL(Win_attach, w->win, memory, 4096);
        CALL(Win_attach, w->win, memory + 4096, 4096);
        CALL(Win_detach, w->win, memory);
        CALL(Win_attach, w->win, memory, 100);
        CALL(Win_detach, w->win, memory + 4096);
        CALL(Win_detach, w->win, memory);
    } else if (topic == ATTACH_TWICE) {
        CALL(Win_attach, w->win, memory, 4096);
        int class = CALL(Win_attach, w->win, memory + 100, 4096);
        if (!class) CALL(Win_detach, w->win, memory + 100);
        CALL(Win_detach, w->win, memory);
    } else if (topic == DETACH_UNKNOWN) {
        CALL(Win_detach, w->win, memory + 64);
    } else {
        CALL(Win_attach, w->win, memory, 0);
        CALL(Win_detach, w->win, memory);
    }
}

static void run_case(long number) {
    static long long stack_of_main[BYTES / 8];
    enum topic topic = number % TOPICS;
    enum place place = number / TOPICS;
    struct window w;
    if (!in_stack) in_stack = (char *)stack_of_main;
    if (topic == HANDLER_DEFAULT) { default_handler(place); return; }
    if (topic >= INFO_CREATED && topic <= INFO_NULL) { infos(place, topic); return; }
    if (topic >= SUBSET && topic <= ALONE) { communicators(place, topic); return; }
    open_window(&w, place, 1, MPI_INFO_NULL, MPI_COMM_WORLD);
    if (w.win == MPI_WIN_NULL) return;
    if (topic == PREDEFINED) predefined(w.win, &w);
    else if (topic <= NAME_NULL) named(&w, topic);
    else if (topic <= KEYVAL_FREED) keyvals(&w, topic);
    else if (topic <= HANDLER_RETURN) handlers(&w, topic);
    else if (topic == GROUP) grouped(w.win, MPI_COMM_WORLD);
    else if (topic <= QUERY_OUTSIDE) queries(&w, topic);
    else if (topic == FORTRAN || topic >= FREE_TWICE) handles(&w, topic);
    else if (topic <= ATTACH_NOTHING) attaching(&w, topic);
    else attributes(&w, topic);
    close_window(&w);
}
