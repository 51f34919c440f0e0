/* A window used within callbacks of the program: delete functions of the window's attributes, error
 * handlers, and delete functions of MPI_COMM_SELF at the end. */
#include "check.h"

enum { KEYS = 3 };

static int keys_[KEYS], flavor_, deletions_, order_[2 * KEYS], refused_ = -1;
static void *base_;
static MPI_Aint bytes_;
static long wrong_;

/* The window is unchanged: all predefined attributes, its name, its group. */
static long whole(MPI_Win win) {
    void *base = &wrong_;
    MPI_Aint *size;
    int *unit, *flavor, *model, flag[5] = {0}, length = 0, members = 0;
    char name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Group group;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag[0]);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag[1]);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag[2]);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag[3]);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag[4]);
    for (int i = 0; i < 5; i++)
        if (!flag[i]) return 1 + i;
    if (base != base_ || *size != bytes_ || *flavor != flavor_ || *model != MPI_WIN_UNIFIED) return 6;
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC && *unit != 8) return 7;
    MPI_Win_get_name(win, name, &length);
    if (strcmp(name, "the halo")) return 8;
    MPI_Win_get_group(win, &group);
    MPI_Group_size(group, &members);
    MPI_Group_free(&group);
    return members != size_ ? 9 : 0;
}

static int deleted(MPI_Win win, int key, void *value, void *extra) {
    (void)key;
    int which = (int)(intptr_t)extra;
    if (deletions_ < 2 * KEYS) order_[deletions_] = which;
    deletions_++;
    if (which == refused_) return MPI_ERR_OTHER;
    wrong_ |= whole(win);
    if ((intptr_t)value != 100 + which) wrong_ |= 16;
    /* The window works on this rank's part, which involves no other rank. Without the library Open
     * MPI fails here. */
#ifdef OPEN_MPI
    if (!by_transom()) return MPI_SUCCESS;
#endif
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC) {
        long one = 1, before = ((long *)base_)[1];
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win);
        MPI_Accumulate(&one, 1, MPI_LONG, rank_, 1, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_unlock(rank_, win);
        if (((long *)base_)[1] != before + 1) wrong_ |= 32;
    }
    return MPI_SUCCESS;
}

static MPI_Win make(int kind) {
    static long memory[8];
    MPI_Win win;
    int flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};
    flavor_ = flavors[kind], base_ = memory, bytes_ = 64;
    if (kind == 0) MPI_Win_create(memory, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (kind == 1) MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base_, &win);
    if (kind == 2) MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base_, &win);
    if (kind == 3) MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win), base_ = MPI_BOTTOM, bytes_ = 0;
    MPI_Win_set_name(win, "the halo");
    return win;
}

/* MPI leaves the order to the implementation (7.7.1); without the library MPICH uses any order. */
static int newest_first(void) {
#ifdef OPEN_MPI
    return 1;
#else
    return by_transom();
#endif
}

/* The newest attribute is deleted first. A new value makes an attribute the newest, as a deletion
 * and a setting do (7.7.1). A freed keyval stays in use until its attributes are deleted. */
static void order(void) {
    for (int kind = 0; kind < 4; kind++) {
        MPI_Win win = make(kind);
        char text[80];
        int old = -1;
        long bad = 0;
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &old, (void *)(intptr_t)KEYS);
        MPI_Win_set_attr(win, keys_[0], (void *)100);
        MPI_Win_set_attr(win, keys_[1], (void *)101);
        MPI_Win_set_attr(win, old, (void *)(100 + KEYS));
        MPI_Win_set_attr(win, keys_[2], (void *)102);
        MPI_Win_free_keyval(&old);
        MPI_Win_set_attr(win, keys_[0], (void *)100);
        MPI_Win_delete_attr(win, keys_[2]);
        MPI_Win_set_attr(win, keys_[2], (void *)102);
        deletions_ = 0, wrong_ = 0;
        MPI_Win_free(&win);
        const int newest[] = {2, 0, KEYS, 1};
        for (int i = 0; i < 4; i++) bad |= newest_first() && order_[i] != newest[i];
        snprintf(text, sizeof text, "kind %d: the newest attribute is deleted first", kind);
        check(text, bad | (deletions_ != 4) << 1 | wrong_ << 2);
    }
}

#ifndef OPEN_MPI
/* Which attributes a window has, a bit for each. */
static int present(MPI_Win win) {
    int found = 0;
    for (int i = 0; i < KEYS; i++) {
        void *value;
        int flag = 0;
        MPI_Win_get_attr(win, keys_[i], &value, &flag);
        found |= (flag != 0) << i;
    }
    return found;
}

/* A delete function that fails leaves its attribute, the older ones and the window, at all ranks
 * also if it fails at one of them. MPI's text does not define this; without the library hosts free
 * the window in some cases or in all. */
static void refusal_at(int rank) {
    MPI_Win win = make(0);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int i = 0; i < KEYS; i++) MPI_Win_set_attr(win, keys_[i], (void *)(intptr_t)(100 + i));
    const int fails = rank == MPI_ANY_SOURCE || rank == rank_;
    refused_ = fails ? 1 : -1, deletions_ = 0, wrong_ = 0;
    long bad = class_of(MPI_Win_free(&win)) != MPI_ERR_OTHER || win == MPI_WIN_NULL;
    bad |= (deletions_ != (fails ? 2 : 3)) << 1 | (present(win) != (fails ? 3 : 0)) << 2;
    refused_ = -1;
    bad |= (MPI_Win_free(&win) != MPI_SUCCESS || deletions_ != (fails ? 4 : 3)) << 3;
    bad |= (order_[0] != 2 || order_[1] != 1 || order_[fails ? 2 : 1] != 1 || order_[fails ? 3 : 2] != 0) << 4;
    check("a delete function that fails keeps the window", bad | wrong_ << 5);
}

static void refusal(void) {
    if (!by_transom()) return;
    refusal_at(MPI_ANY_SOURCE);
    refusal_at(size_ - 1);
}
#endif

static int handled_;
static void handler(MPI_Win *win, int *code, ...) {
    handled_ = class_of(*code);
    wrong_ |= whole(*win);
}

static void flavors(void) {
    const char *names[] = {"create", "allocate", "shared", "dynamic"};
    char text[80];
    for (int kind = 0; kind < 4; kind++) {
        MPI_Win win = make(kind);
        for (int i = 0; i < KEYS; i++) MPI_Win_set_attr(win, keys_[i], (void *)(intptr_t)(100 + i));
        MPI_Errhandler own, found;
        MPI_Win_create_errhandler(handler, &own);
        MPI_Win_set_errhandler(win, own);
        MPI_Win_get_errhandler(win, &found);
        wrong_ = 0, handled_ = 0;
        long bad = found != own;
        MPI_Errhandler_free(&found), MPI_Errhandler_free(&own);
        MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
        bad |= (handled_ != MPI_ERR_OTHER) << 1;
        if (by_transom()) {
            handled_ = 0;
            MPI_Win_unlock(rank_, win);
            bad |= (handled_ != MPI_ERR_RMA_SYNC) << 2;
        }
        snprintf(text, sizeof text, "%s: an error handler finds the window", names[kind]);
        check(text, bad | wrong_ << 3);
        wrong_ = 0, deletions_ = 0;
        MPI_Win_free(&win);
        snprintf(text, sizeof text, "%s: delete functions find the window", names[kind]);
        check(text, wrong_ | (deletions_ != KEYS) << 6 | (win != MPI_WIN_NULL) << 7);
    }
}

static int locked(MPI_Win win, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    return MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win);
}

/* Regression: such attributes deadlocked MPI_Win_free under MPICH. The delete functions of two
 * attributes set each other's attribute, and create windows. MPI does not say whether an attribute
 * that is set during MPI_Win_free is deleted. */
static int pair_[2], left_;
static int sets_the_other(MPI_Win win, int key, void *value, void *extra) {
    MPI_Win other;
    (void)key;
    if (left_-- > 0) MPI_Win_set_attr(win, pair_[extra == NULL], value);
    wrong_ |= MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &other) != MPI_SUCCESS;
    wrong_ |= MPI_Win_free(&other) != MPI_SUCCESS;
    return MPI_SUCCESS;
}

static void set_anew(void) {
    if (!by_transom()) return;
    for (intptr_t i = 0; i < 2; i++) MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, sets_the_other, &pair_[i], (void *)i);
    for (int sets = 0; sets < 5; sets++) {
        MPI_Win win = make(1);
        MPI_Win_set_attr(win, pair_[0], NULL);
        left_ = sets, wrong_ = 0;
        long bad = MPI_Win_free(&win) != MPI_SUCCESS || win != MPI_WIN_NULL;
        check("delete functions that set attributes", bad | wrong_ << 1);
    }
    for (int i = 0; i < 2; i++) MPI_Win_free_keyval(&pair_[i]);
}

static int failures_;
static void counts(MPI_Win *win, int *code, ...) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    failures_++, handled_ = class_of(*code);
    MPI_Win_get_name(*win, name, &length);
}

/* Regression: a failure after the host had freed the handle ended the program by the error handler
 * of MPI_COMM_WORLD. The window's handler gets it (MPI-4.1 9.3). Here a delete function begins an
 * epoch, which no program may do. */
static void failed_end(void) {
    if (!by_transom()) return;
    int key;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, locked, &key, NULL);
    for (int returns = 0; returns < 2; returns++) {
        MPI_Win win = make(1);
        MPI_Errhandler own;
        MPI_Win_create_errhandler(counts, &own);
        MPI_Win_set_errhandler(win, returns ? MPI_ERRORS_RETURN : own);
        MPI_Errhandler_free(&own);
        MPI_Win_set_attr(win, key, NULL);
        failures_ = 0, handled_ = MPI_ERR_RMA_SYNC;
        long bad = class_of(MPI_Win_free(&win)) != MPI_ERR_RMA_SYNC;
        bad |= (failures_ != 1 - returns) << 1 | (handled_ != MPI_ERR_RMA_SYNC) << 2;
        check(returns ? "the code of an end that fails" : "an end that fails calls the window's handler", bad);
    }
    MPI_Win_free_keyval(&key);
}

/* At the end MPI deletes the attributes of MPI_COMM_SELF first, the newest first; windows still
 * work. */
static MPI_Win last_;
static int ends_, bad_end_;
static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    if ((intptr_t)value != 3 - ++ends_) bad_end_ |= 1;
    if ((intptr_t)value == 1) {
        long one = 1;
        int flag;
        MPI_Finalized(&flag);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, last_);
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, last_);
        MPI_Win_unlock(0, last_);
        if (MPI_Win_free(&last_) != MPI_SUCCESS || flag) bad_end_ |= 2;
    }
    if ((intptr_t)value == 0) printf("%s the end frees a window: %d\n", bad_end_ || last_ != MPI_WIN_NULL ? "not ok" : "ok", bad_end_);
    fflush(stdout);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (intptr_t i = 0; i < KEYS; i++) MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &keys_[i], (void *)i);
    flavors();
    order();
#ifndef OPEN_MPI
    refusal();
#endif
    failed_end();
    set_anew();
    for (int i = 0; i < KEYS; i++) MPI_Win_free_keyval(&keys_[i]);
    long *part;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &last_);
    for (intptr_t i = 0; i < 3; i++) {
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, (void *)i);
    }
    return end() || bad_end_;
}
