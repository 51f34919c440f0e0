/* transom_mpi_notify.h: notified operations of the MPI Forum's draft of RMA notification, for C and
 * C++ programs that run with libtransom_mpi, under an MPI whose mpi.h does not declare these
 * operations. Each name exists with MPI_ and with MPIX_.
 *
 * The names are weak symbols: a program links without the library. The functions exist if the
 * library is loaded by LD_PRELOAD or linked before the MPI (-ltransom_mpi). Otherwise their
 * addresses are NULL:
 *
 *     if (MPI_Put_notify == NULL) there are no notified operations;
 *
 * A program that is not position-independent (-no-pie) must be linked with the library.
 *
 * On a window that the MPI itself serves, the calls fail with the class MPI_ERR_RMA_NOTIFICATION,
 * and the attributes below are not set. The functions have no Fortran names.
 */
#ifndef TRANSOM_MPI_NOTIFY_H
#define TRANSOM_MPI_NOTIFY_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRANSOM_NOTIFY(name, parameters)             \
    int MPI_##name parameters __attribute__((weak)); \
    int MPIX_##name parameters __attribute__((weak));

/* The operations: each performs the put, get or accumulate, and then adds one to counter
 * `notification` of the target. The counter changes after the operation is complete at the target.
 * In passive-target epochs only. N: int, or MPI_Count in the forms with _c. */
#define TRANSOM_NOTIFY_OPERATIONS(suffix, N)                                                              \
    TRANSOM_NOTIFY(Put_notify##suffix,                                                                    \
        (const void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement, \
         N target_count, MPI_Datatype target_type, int notification, MPI_Win win))                        \
    TRANSOM_NOTIFY(Get_notify##suffix,                                                                    \
        (void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,       \
         N target_count, MPI_Datatype target_type, int notification, MPI_Win win))                        \
    TRANSOM_NOTIFY(Accumulate_notify##suffix,                                                             \
        (const void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement, \
         N target_count, MPI_Datatype target_type, MPI_Op op, int notification, MPI_Win win))             \
    TRANSOM_NOTIFY(Get_accumulate_notify##suffix,                                                         \
        (const void *origin, N origin_count, MPI_Datatype origin_type, void *result, N result_count,      \
         MPI_Datatype result_type, int target, MPI_Aint displacement,                                     \
         N target_count, MPI_Datatype target_type, MPI_Op op, int notification, MPI_Win win))             \
    TRANSOM_NOTIFY(Rput_notify##suffix,                                                                   \
        (const void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement, \
         N target_count, MPI_Datatype target_type, int notification, MPI_Win win,                         \
         MPI_Request *request))                                                                           \
    TRANSOM_NOTIFY(Rget_notify##suffix,                                                                   \
        (void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement,       \
         N target_count, MPI_Datatype target_type, int notification, MPI_Win win,                         \
         MPI_Request *request))                                                                           \
    TRANSOM_NOTIFY(Raccumulate_notify##suffix,                                                            \
        (const void *origin, N origin_count, MPI_Datatype origin_type, int target, MPI_Aint displacement, \
         N target_count, MPI_Datatype target_type, MPI_Op op, int notification, MPI_Win win,              \
         MPI_Request *request))                                                                           \
    TRANSOM_NOTIFY(Rget_accumulate_notify##suffix,                                                        \
        (const void *origin, N origin_count, MPI_Datatype origin_type, void *result, N result_count,      \
         MPI_Datatype result_type, int target, MPI_Aint displacement,                                     \
         N target_count, MPI_Datatype target_type, MPI_Op op, int notification, MPI_Win win,              \
         MPI_Request *request))

TRANSOM_NOTIFY_OPERATIONS(, int)
TRANSOM_NOTIFY_OPERATIONS(_c, MPI_Count)

/* Sets the number of counters of this process, which may differ from that of other processes, and
 * zeroes all counters of the window. Collective. The key transom_notify (auto, cpu, device) of the
 * window's info at creation says what hardware adds to counters between nodes. */
TRANSOM_NOTIFY(Win_set_num_notify, (MPI_Win win, MPI_Info info, int number))
/* The number of counters of a process. */
TRANSOM_NOTIFY(Win_get_num_notify, (MPI_Win win, int target, int *number))
/* The value of one of this process's counters. Makes progress. */
TRANSOM_NOTIFY(Win_get_notify_value, (MPI_Win win, int notification, MPI_Count *value))
/* Fetches and zeroes one of this process's counters in one atomic step. */
TRANSOM_NOTIFY(Win_reset_notify_value, (MPI_Win win, int notification, MPI_Count *value))
/* A request that is complete when one of this process's counters has reached `value`. A program
 * that no longer needs the request may free it. If the counter is removed or the window freed
 * before, the request fails. */
TRANSOM_NOTIFY(Win_notify_threshold, (MPI_Win win, int notification, MPI_Count value, MPI_Request *request))

/* The error class of a counter that the target does not have. The number of the class is not a
 * constant, because the MPI assigns it at the first use. Call this after MPI_Init. */
int transom_mpi_err_rma_notification(void) __attribute__((weak));
#ifndef MPI_ERR_RMA_NOTIFICATION
#define MPI_ERR_RMA_NOTIFICATION (transom_mpi_err_rma_notification())
#endif
#define MPIX_ERR_RMA_NOTIFICATION (transom_mpi_err_rma_notification())

/* Attributes of a window, for MPI_Win_get_attr: the number of counters up to which all are equally
 * fast, an int; the largest number of counters, an int; the highest value of a counter, an
 * MPI_Count. */
#define MPIX_WIN_NOTIFICATION_NUM_SB (-7001)
#define MPIX_WIN_NOTIFICATION_NUM_UB (-7002)
#define MPIX_WIN_NOTIFICATION_VALUE_UB (-7003)
#ifndef MPI_WIN_NOTIFICATION_NUM_SB
#define MPI_WIN_NOTIFICATION_NUM_SB MPIX_WIN_NOTIFICATION_NUM_SB
#define MPI_WIN_NOTIFICATION_NUM_UB MPIX_WIN_NOTIFICATION_NUM_UB
#define MPI_WIN_NOTIFICATION_VALUE_UB MPIX_WIN_NOTIFICATION_VALUE_UB
#endif

#undef TRANSOM_NOTIFY_OPERATIONS
#undef TRANSOM_NOTIFY

#ifdef __cplusplus
}
#endif

#endif
