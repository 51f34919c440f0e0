/* transom.h: MPI's one-sided windows as a library, for C99 and C++. Made by cbindgen of the files
 * in capi/src: change those.
 *
 * Every call returns TRANSOM_SUCCESS, which is 0, or an error class. transom_error_string describes
 * the class, and transom_last_error returns the text of the last error with its numbers. A call
 * that fails has no effect, unless its comment says otherwise. A NULL pointer for a required
 * argument is an error. A call that frees an object takes the address of the object's handle and
 * sets the handle to NULL. Counts, sizes and displacements have 64 bits; ranks are numbers from 0,
 * or TRANSOM_PROC_NULL. The sections "Safety" state requirements that the library cannot check.
 * transom(3) is the overview.
 */

#ifndef TRANSOM_H
#define TRANSOM_H

#include <stdint.h>

/* The predefined datatypes: the C types of these names. They cannot be freed. */
#define TRANSOM_INT8_T ((transom_datatype *)1)
#define TRANSOM_INT16_T ((transom_datatype *)2)
#define TRANSOM_INT32_T ((transom_datatype *)3)
#define TRANSOM_INT64_T ((transom_datatype *)4)
#define TRANSOM_UINT8_T ((transom_datatype *)5)
#define TRANSOM_UINT16_T ((transom_datatype *)6)
#define TRANSOM_UINT32_T ((transom_datatype *)7)
#define TRANSOM_UINT64_T ((transom_datatype *)8)
#define TRANSOM_FLOAT ((transom_datatype *)9)
#define TRANSOM_DOUBLE ((transom_datatype *)10)
#define TRANSOM_C_FLOAT_COMPLEX ((transom_datatype *)11)
#define TRANSOM_C_DOUBLE_COMPLEX ((transom_datatype *)12)
#define TRANSOM_C_BOOL ((transom_datatype *)13)
#define TRANSOM_BYTE ((transom_datatype *)14)
/* Pairs of a value and an int, as structs, for TRANSOM_MAXLOC and TRANSOM_MINLOC. */
#define TRANSOM_FLOAT_INT ((transom_datatype *)15)
#define TRANSOM_DOUBLE_INT ((transom_datatype *)16)
#define TRANSOM_LONG_INT ((transom_datatype *)17)
#define TRANSOM_2INT ((transom_datatype *)18)
#define TRANSOM_SHORT_INT ((transom_datatype *)19)
/* C types whose size depends on the platform, here as on Linux with 64 bits. */
#define TRANSOM_CHAR TRANSOM_INT8_T
#define TRANSOM_UNSIGNED_CHAR TRANSOM_UINT8_T
#define TRANSOM_SHORT TRANSOM_INT16_T
#define TRANSOM_UNSIGNED_SHORT TRANSOM_UINT16_T
#define TRANSOM_INT TRANSOM_INT32_T
#define TRANSOM_UNSIGNED TRANSOM_UINT32_T
#define TRANSOM_LONG TRANSOM_INT64_T
#define TRANSOM_UNSIGNED_LONG TRANSOM_UINT64_T
#define TRANSOM_LONG_LONG TRANSOM_INT64_T
#define TRANSOM_UNSIGNED_LONG_LONG TRANSOM_UINT64_T


// No error.
#define TRANSOM_SUCCESS 0

// The window is NULL.
#define TRANSOM_ERR_WIN 1

// The base address given to transom_window_create is invalid.
#define TRANSOM_ERR_BASE 2

// The size is too large, or the memory is not available.
#define TRANSOM_ERR_SIZE 3

// An invalid displacement or displacement unit.
#define TRANSOM_ERR_DISP 4

// A rank that does not exist.
#define TRANSOM_ERR_RANK 5

// A datatype that is NULL or does not fit the operation, or an element that is misaligned at the
// target.
#define TRANSOM_ERR_TYPE 6

// An invalid count.
#define TRANSOM_ERR_COUNT 7

// An unknown operation, or one that is not defined on the datatype.
#define TRANSOM_ERR_OP 8

// An unknown kind of lock, or a window whose hints exclude locks.
#define TRANSOM_ERR_LOCKTYPE 9

// Assertions that contradict each other or are not defined for the call.
#define TRANSOM_ERR_ASSERT 10

// Another invalid argument, such as a NULL pointer.
#define TRANSOM_ERR_ARG 11

// Conflicting accesses. Never returned, because the library does not detect them.
#define TRANSOM_ERR_RMA_CONFLICT 12

// Memory that cannot be attached to a dynamic window, or a region to detach that is not attached.
#define TRANSOM_ERR_RMA_ATTACH 13

// Memory that cannot be shared, or that this process cannot load and store.
#define TRANSOM_ERR_RMA_SHARED 14

// The call requires a window of another flavor.
#define TRANSOM_ERR_RMA_FLAVOR 15

// An access outside of the target's part, or outside of its attached regions.
#define TRANSOM_ERR_RMA_RANGE 16

// A call in the wrong epoch.
#define TRANSOM_ERR_RMA_SYNC 17

// A hint or a TRANSOM_ variable with an illegal value.
#define TRANSOM_ERR_INFO_VALUE 18

// A failure of the job, of a transport, or of a peer.
#define TRANSOM_ERR_OTHER 19

// A defect of the library, which caught an internal panic. The call may have taken effect in part.
#define TRANSOM_ERR_INTERN 20

// A counter of notified operations that the target does not have.
#define TRANSOM_ERR_RMA_NOTIFICATION 21

// The null rank (MPI_PROC_NULL): an operation on it succeeds without an effect.
#define TRANSOM_PROC_NULL -1

// The index that transom_request_wait_any returns if no request is active.
#define TRANSOM_UNDEFINED -1

// The larger element.
#define TRANSOM_MAX 1

// The smaller element.
#define TRANSOM_MIN 2

// The sum; integers wrap.
#define TRANSOM_SUM 3

// The product; integers wrap.
#define TRANSOM_PROD 4

// 1 if both are true (nonzero), else 0.
#define TRANSOM_LAND 5

// Bitwise and.
#define TRANSOM_BAND 6

// 1 if one or both are true, else 0.
#define TRANSOM_LOR 7

// Bitwise or.
#define TRANSOM_BOR 8

// 1 if exactly one is true, else 0.
#define TRANSOM_LXOR 9

// Bitwise exclusive or.
#define TRANSOM_BXOR 10

// The pair with the larger value; of equal values the one with the smaller index.
#define TRANSOM_MAXLOC 11

// The pair with the smaller value; of equal values the one with the smaller index.
#define TRANSOM_MINLOC 12

// The origin's element.
#define TRANSOM_REPLACE 13

// The old value: a fetch becomes an atomic read.
#define TRANSOM_NO_OP 14

// A lock that several origins may hold at once.
#define TRANSOM_LOCK_SHARED 1

// A lock that one origin holds alone.
#define TRANSOM_LOCK_EXCLUSIVE 2

// Of a lock: no process holds a conflicting lock. Of post and start: the post precedes the start.
#define TRANSOM_MODE_NOCHECK 1

// This rank did not store into its part since the last synchronization.
#define TRANSOM_MODE_NOSTORE 2

// No rank puts into this rank's part until the next synchronization.
#define TRANSOM_MODE_NOPUT 4

// No operation of this rank precedes the fence. All ranks give this assertion, or none.
#define TRANSOM_MODE_NOPRECEDE 8

// No operation of this rank follows the fence. All ranks give this assertion, or none.
#define TRANSOM_MODE_NOSUCCEED 16

// A window over memory of the caller.
#define TRANSOM_FLAVOR_CREATE 1

// A window with memory of the library.
#define TRANSOM_FLAVOR_ALLOCATE 2

// A window to which memory is attached.
#define TRANSOM_FLAVOR_DYNAMIC 3

// A window whose memory all ranks load and store.
#define TRANSOM_FLAVOR_SHARED 4

// One copy: this rank's loads see the puts of other ranks eventually.
#define TRANSOM_MODEL_UNIFIED 1

// A public and a private copy, which only synchronization makes equal.
#define TRANSOM_MODEL_SEPARATE 2

// The route to a rank: the rank is this one.
#define TRANSOM_ROUTE_OWN 1

// The route to a rank: shared memory of the node.
#define TRANSOM_ROUTE_SHM 2

// The route to a rank: the network.
#define TRANSOM_ROUTE_NET 3

// The first index runs slowest, as in C.
#define TRANSOM_ORDER_C 1

// The first index runs fastest, as in Fortran.
#define TRANSOM_ORDER_FORTRAN 2

// A datatype: a sequence of predefined types, each with an offset. A datatype never changes, and
// may be freed before the operations that use it are complete.
typedef struct transom_datatype transom_datatype;

// Keys with values: hints for windows. Where a call takes an info, NULL stands for no hints.
typedef struct transom_info transom_info;

// One rank's membership in a job, or in a subset of its ranks. Several threads may use a handle at
// once.
typedef struct transom_job transom_job;

// The handle of one operation, by which a program waits for this operation before the end of the
// epoch. The operation of a request is complete when its buffers may be used again: the data of a
// get has arrived, and the buffer of a put may be written.
typedef struct transom_request transom_request;

// A window: memory of each rank of a job that the other ranks access. Several threads may call
// operations and synchronization at once; collective calls (fence, free) come from one thread at a
// time.
typedef struct transom_window transom_window;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of an error class, such as "TRANSOM_ERR_RANK: invalid rank". Every number has a text,
// which the caller must not free.
const char *transom_error_string(int error);

// The text, with its numbers, of this thread's last error; empty if no call has failed. The text
// is valid until another call of this thread fails.
const char *transom_last_error(void);

// The version of the library, as "0.2.0".
const char *transom_version(void);

// Joins the job in which transom-run or another launcher has started this process. Without a
// launcher the process is a job of one rank. A process calls this once.
//
// # Safety
// `job` may be written.
int transom_init(transom_job **job);

// Leaves the job; collective. Free the windows before. The handle becomes NULL, also if the call
// fails. For the handle of a subset the call is local and frees only the handle.
//
// # Safety
// `job` points to a live handle or to NULL, which no other thread uses.
int transom_finalize(transom_job **job);

// This process's rank, from 0: its rank in the subset if the handle is that of a subset.
//
// # Safety
// `job` is a live handle; `rank` may be written.
int transom_job_rank(const transom_job *job, int *rank);

// The number of ranks.
//
// # Safety
// `job` is a live handle; `size` may be written.
int transom_job_size(const transom_job *job, int *size);

// Creates a job of some ranks, for windows and barriers among them. Its ranks are numbered in the
// order of ranks, which has ranks of the whole job. Exactly these ranks make the call, with equal
// lists; the call does not communicate. All of them make calls with one list in the same order;
// threads that may call at the same time use transom_job_subset_tagged. transom_finalize frees the
// handle.
//
// # Safety
// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
int transom_job_subset(const transom_job *job, int count, const int *ranks, transom_job **subset);

// transom_job_subset with a tag, like that of MPI_Comm_create_group: all members make calls with
// one list and one tag in the same order; calls with different tags may be in any order.
// transom_job_subset uses tag 0.
//
// # Safety
// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
int transom_job_subset_tagged(const transom_job *job, int count, const int *ranks, uint64_t tag, transom_job **subset);

// The ranks of the whole job on this rank's node, which can share memory with it, in ascending
// order. *count is set to their number, and the first `room` of them are written to ranks.
//
// # Safety
// `job` is a live handle; `ranks` has room for `room` numbers; `count` may be written.
int transom_job_node_ranks(const transom_job *job, int room, int *ranks, int *count);

// Waits until all ranks have made this call. It synchronizes processes and not memory: to see the
// puts of other ranks, end an epoch or call transom_window_sync.
//
// # Safety
// `job` is a live handle.
int transom_job_barrier(const transom_job *job);

// The route to a rank: TRANSOM_ROUTE_OWN, TRANSOM_ROUTE_SHM or TRANSOM_ROUTE_NET.
//
// # Safety
// `job` is a live handle; `route` may be written.
int transom_job_route(const transom_job *job, int rank, int *route);

// Creates an info without keys.
//
// # Safety
// `info` may be written.
int transom_info_create(transom_info **info);

// Sets the value of a key. Unknown keys are kept and have no effect.
//
// # Safety
// `info` is a live handle; `key` and `value` end with a zero byte.
int transom_info_set(transom_info *info, const char *key, const char *value);

// Copies the value of a key to value, including the terminating zero byte, but at most *size
// bytes. Then *size is set to the number of bytes of the whole value, and *found to 1. If the key
// does not exist, *found is set to 0, and value and *size do not change. If *size is 0, value may
// be NULL.
//
// # Safety
// `info` is a live handle; `key` ends with a zero byte; `value` has *size bytes, and `size` and
// `found` may be written.
int transom_info_get(const transom_info *info, const char *key, char *value, uint64_t *size, int *found);

// The number of keys.
//
// # Safety
// `info` is a live handle; `keys` may be written.
int transom_info_keys(const transom_info *info, uint64_t *keys);

// Copies the key with a number to key, like transom_info_get copies values. Keys are numbered from
// 0 in the order in which they were set.
//
// # Safety
// `info` is a live handle; `key` has *size bytes, and `size` may be written.
int transom_info_key(const transom_info *info, uint64_t number, char *key, uint64_t *size);

// Frees an info; the handle becomes NULL. Windows keep their hints.
//
// # Safety
// `info` points to a live handle or to NULL.
int transom_info_free(transom_info **info);

// The number of bytes of data of one item, without gaps. The size of a pair type includes its
// padding.
//
// # Safety
// `datatype` is a predefined one or a live handle; `size` may be written.
int transom_type_size(const transom_datatype *datatype, uint64_t *size);

// The lower bound, and the number of bytes from one item to the next.
//
// # Safety
// `datatype` is a predefined one or a live handle; `lb` and `extent` may be written.
int transom_type_extent(const transom_datatype *datatype, int64_t *lb, int64_t *extent);

// The offset of the lowest byte of data, and the number of bytes from there to the end of the
// highest.
//
// # Safety
// `datatype` is a predefined one or a live handle; `lb` and `extent` may be written.
int transom_type_true_extent(const transom_datatype *datatype, int64_t *lb, int64_t *extent);

// Frees a derived datatype; the handle becomes NULL. Datatypes that were built from it remain
// valid. Predefined datatypes cannot be freed.
//
// # Safety
// `datatype` points to a live handle, to a predefined one or to NULL.
int transom_type_free(transom_datatype **datatype);

// `count` items of a type, each one extent after the previous one.
//
// # Safety
// `old_type` is a predefined one or a live handle; `new_type` may be written.
int transom_type_contiguous(uint64_t count, const transom_datatype *old_type, transom_datatype **new_type);

// count blocks of block_length items; blocks begin stride extents of the old type apart.
//
// # Safety
// `old_type` is a predefined one or a live handle; `new_type` may be written.
int transom_type_vector(uint64_t count,
                        uint64_t block_length,
                        int64_t stride,
                        const transom_datatype *old_type,
                        transom_datatype **new_type);

// count blocks of block_length items; blocks begin stride bytes apart.
//
// # Safety
// `old_type` is a predefined one or a live handle; `new_type` may be written.
int transom_type_hvector(uint64_t count,
                         uint64_t block_length,
                         int64_t stride,
                         const transom_datatype *old_type,
                         transom_datatype **new_type);

// Blocks of `lengths[i]` items at `displacements[i]` extents of the old type.
//
// # Safety
// `lengths` and `displacements` have `count` numbers; `old_type` is a predefined one or a live
// handle; `new_type` may be written.
int transom_type_indexed(uint64_t count,
                         const uint64_t *lengths,
                         const int64_t *displacements,
                         const transom_datatype *old_type,
                         transom_datatype **new_type);

// Blocks of `lengths[i]` items at `displacements[i]` bytes.
//
// # Safety
// `lengths` and `displacements` have `count` numbers; `old_type` is a predefined one or a live
// handle; `new_type` may be written.
int transom_type_hindexed(uint64_t count,
                          const uint64_t *lengths,
                          const int64_t *displacements,
                          const transom_datatype *old_type,
                          transom_datatype **new_type);

// Blocks of block_length items at `displacements[i]` extents of the old type.
//
// # Safety
// `displacements` has `count` numbers; `old_type` is a predefined one or a live handle; `new_type`
// may be written.
int transom_type_indexed_block(uint64_t count,
                               uint64_t block_length,
                               const int64_t *displacements,
                               const transom_datatype *old_type,
                               transom_datatype **new_type);

// Blocks of block_length items at `displacements[i]` bytes.
//
// # Safety
// `displacements` has `count` numbers; `old_type` is a predefined one or a live handle; `new_type`
// may be written.
int transom_type_hindexed_block(uint64_t count,
                                uint64_t block_length,
                                const int64_t *displacements,
                                const transom_datatype *old_type,
                                transom_datatype **new_type);

// Blocks of `lengths[i]` items of `types[i]` at `displacements[i]` bytes. The extent is rounded up
// to the strictest alignment of the elements, unless a part is resized or a subarray.
//
// # Safety
// The arrays have `count` elements; `types` are predefined ones or live handles; `new_type` may be
// written.
int transom_type_struct(uint64_t count,
                        const uint64_t *lengths,
                        const int64_t *displacements,
                        const transom_datatype *const *types,
                        transom_datatype **new_type);

// A part of an array. For each dimension, sizes has the elements of the array, subsizes those of
// the part, and starts the first element of the part. order is TRANSOM_ORDER_C or
// TRANSOM_ORDER_FORTRAN. The extent is that of the whole array.
//
// # Safety
// `sizes`, `subsizes` and `starts` have `dimensions` numbers; `old_type` is a predefined one or a
// live handle; `new_type` may be written.
int transom_type_subarray(uint64_t dimensions,
                          const uint64_t *sizes,
                          const uint64_t *subsizes,
                          const uint64_t *starts,
                          int order,
                          const transom_datatype *old_type,
                          transom_datatype **new_type);

// A type with another lower bound and extent, in bytes. The offsets of the data do not change.
//
// # Safety
// `old_type` is a predefined one or a live handle; `new_type` may be written.
int transom_type_resized(const transom_datatype *old_type, int64_t lb, int64_t extent, transom_datatype **new_type);

// Allocates size zeroed bytes, which other ranks of the node can map; *base is set to the address,
// or to NULL if size is 0. Windows over this memory, or over a part of it, are as fast as
// allocated windows. The alignment is that of a page, or of the hint mpi_minimum_memory_alignment
// if it is larger. Local.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` may be written.
int transom_alloc_mem(const transom_job *job, uint64_t size, const transom_info *info, void **base);

// Frees memory of transom_alloc_mem; NULL is legal and has no effect. Windows over the memory keep
// it until they are freed. Local.
int transom_free_mem(void *base);

// Creates a window with the size bytes at base as this rank's part. Other ranks address the part
// in units of disp_unit bytes. Collective. Sizes and units may differ between ranks. If the bytes
// are within memory of transom_alloc_mem, ranks of the node map them, and the window keeps the
// memory.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `window` may be written. The memory at `base` is
// readable and writable until transom_window_free has succeeded.
int transom_window_create(const transom_job *job,
                          void *base,
                          uint64_t size,
                          uint32_t disp_unit,
                          const transom_info *info,
                          transom_window **window);

// Creates a window and allocates size zeroed bytes as this rank's part; *base is set to their
// address. Other ranks address the part in units of disp_unit bytes. Collective.
// transom_window_free frees the memory.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` and `window` may be written.
int transom_window_allocate(const transom_job *job,
                            uint64_t size,
                            uint32_t disp_unit,
                            const transom_info *info,
                            void **base,
                            transom_window **window);

// Creates a window whose memory all ranks load and store; they must be on one node. The parts are
// contiguous in the order of the ranks, unless the hint alloc_shared_noncontig allows separate
// parts. *base is set to the address of this rank's part. Collective.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` and `window` may be written.
int transom_window_allocate_shared(const transom_job *job,
                                   uint64_t size,
                                   uint32_t disp_unit,
                                   const transom_info *info,
                                   void **base,
                                   transom_window **window);

// Creates a window without memory, to which each rank attaches regions. Displacements are
// addresses of the target. Collective.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `window` may be written.
int transom_window_create_dynamic(const transom_job *job, const transom_info *info, transom_window **window);

// Attaches size bytes at base to a dynamic window. Local.
//
// # Safety
// `window` is a live handle. The memory is readable and writable until it is detached and no rank
// accesses it.
int transom_window_attach(const transom_window *window, void *base, uint64_t size);

// Detaches the region that begins at base. Local.
//
// # Safety
// `window` is a live handle.
int transom_window_detach(const transom_window *window, const void *base);

// Frees the window; collective. The handle becomes NULL. Within an epoch the call fails, and the
// window does not change.
//
// # Safety
// `window` points to a live handle, which no other thread uses, or to NULL.
int transom_window_free(transom_window **window);

// This rank's part: its address, its size in bytes, and its displacement unit. For a dynamic
// window NULL, 0 and 1.
//
// # Safety
// `window` is a live handle; `base`, `size` and `disp_unit` may be written.
int transom_window_part(const transom_window *window, void **base, uint64_t *size, uint32_t *disp_unit);

// The part of a rank at the address where this process loads and stores it. For TRANSOM_PROC_NULL,
// the part of the lowest rank whose part is not empty.
//
// # Safety
// `window` is a live handle; `base`, `size` and `disp_unit` may be written.
int transom_window_shared_query(const transom_window *window, int rank, void **base, uint64_t *size, uint32_t *disp_unit);

// The source of the window's memory: TRANSOM_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC or _SHARED.
//
// # Safety
// `window` is a live handle; `flavor` may be written.
int transom_window_flavor(const transom_window *window, int *flavor);

// The window's memory model: TRANSOM_MODEL_UNIFIED or TRANSOM_MODEL_SEPARATE.
//
// # Safety
// `window` is a live handle; `model` may be written.
int transom_window_model(const transom_window *window, int *model);

// The window's ranks, as ranks of the whole job. *count is set to their number, and the first
// `room` of them are written to ranks.
//
// # Safety
// `window` is a live handle; `ranks` has room for `room` numbers; `count` may be written.
int transom_window_group(const transom_window *window, int room, int *ranks, int *count);

// All hints with the values in force, as a new info, which the caller frees by transom_info_free.
//
// # Safety
// `window` is a live handle; `info` may be written.
int transom_window_get_info(const transom_window *window, transom_info **info);

// Changes hints: no_locks, accumulate_ordering, accumulate_ops, same_size and same_disp_unit; the
// other hints are fixed at creation. All ranks give equal values; the call does not communicate.
//
// # Safety
// `window` is a live handle, `info` one or NULL.
int transom_window_set_info(const transom_window *window, const transom_info *info);

// Puts len bytes from origin at a displacement of target.
//
// # Safety
// `window` is a live handle. `origin` has `len` bytes, which are not written until the operation
// is complete at the origin.
int transom_put_bytes(const transom_window *window, const void *origin, uint64_t len, int target, uint64_t displacement);

// Gets len bytes into origin from a displacement of target.
//
// # Safety
// `window` is a live handle. `origin` has `len` bytes, which are not accessed until the operation
// is complete.
int transom_get_bytes(const transom_window *window, void *origin, uint64_t len, int target, uint64_t displacement);

// Puts origin_count items at origin to target_count items of target. Both sides have the same
// sequence of predefined types.
//
// # Safety
// `window` is a live handle, types are predefined ones or live handles. The bytes of the origin's
// items are not written until the operation is complete at the origin.
int transom_put(const transom_window *window,
                const void *origin,
                uint64_t origin_count,
                const transom_datatype *origin_type,
                int target,
                uint64_t displacement,
                uint64_t target_count,
                const transom_datatype *target_type);

// Gets target_count items of target to origin_count items at origin. Both sides have the same
// sequence of predefined types.
//
// # Safety
// `window` is a live handle, types are predefined ones or live handles. The bytes of the origin's
// items are not accessed until the operation is complete.
int transom_get(const transom_window *window,
                void *origin,
                uint64_t origin_count,
                const transom_datatype *origin_type,
                int target,
                uint64_t displacement,
                uint64_t target_count,
                const transom_datatype *target_type);

// Combines the target's elements with those of the origin by op, such as TRANSOM_SUM. Each element
// is combined atomically with respect to all accumulates, fetches and compare-and-swaps on its
// type.
//
// # Safety
// The requirements of transom_put.
int transom_accumulate(const transom_window *window,
                       const void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int op);

// transom_accumulate that also stores the previous values in result. With TRANSOM_NO_OP origin is
// not read.
//
// # Safety
// The requirements of transom_put for origin, and those of transom_get for result. The bytes of
// both do not overlap.
int transom_get_accumulate(const transom_window *window,
                           const void *origin,
                           uint64_t origin_count,
                           const transom_datatype *origin_type,
                           void *result,
                           uint64_t result_count,
                           const transom_datatype *result_type,
                           int target,
                           uint64_t displacement,
                           uint64_t target_count,
                           const transom_datatype *target_type,
                           int op);

// Combines one element of a predefined type, and waits for its previous value, which is stored in
// result. With TRANSOM_NO_OP origin is not read. For TRANSOM_PROC_NULL result does not change.
//
// # Safety
// `window` is a live handle; `origin` and `result` have one element each and do not overlap.
int transom_fetch_and_op(const transom_window *window,
                         const void *origin,
                         void *result,
                         const transom_datatype *datatype,
                         int target,
                         uint64_t displacement,
                         int op);

// Replaces the target's element by that at origin if it equals that at compare, and waits for its
// previous value, which is stored in result. For integers, TRANSOM_C_BOOL and TRANSOM_BYTE.
//
// # Safety
// `window` is a live handle; `origin`, `compare` and `result` have one element each; result
// overlaps neither of the others.
int transom_compare_and_swap(const transom_window *window,
                             const void *origin,
                             const void *compare,
                             void *result,
                             const transom_datatype *datatype,
                             int target,
                             uint64_t displacement);

// transom_put with a request.
//
// # Safety
// The requirements of transom_put; `request` may be written.
int transom_rput(const transom_window *window,
                 const void *origin,
                 uint64_t origin_count,
                 const transom_datatype *origin_type,
                 int target,
                 uint64_t displacement,
                 uint64_t target_count,
                 const transom_datatype *target_type,
                 transom_request **request);

// transom_get with a request.
//
// # Safety
// The requirements of transom_get; `request` may be written.
int transom_rget(const transom_window *window,
                 void *origin,
                 uint64_t origin_count,
                 const transom_datatype *origin_type,
                 int target,
                 uint64_t displacement,
                 uint64_t target_count,
                 const transom_datatype *target_type,
                 transom_request **request);

// transom_accumulate with a request.
//
// # Safety
// The requirements of transom_accumulate; `request` may be written.
int transom_raccumulate(const transom_window *window,
                        const void *origin,
                        uint64_t origin_count,
                        const transom_datatype *origin_type,
                        int target,
                        uint64_t displacement,
                        uint64_t target_count,
                        const transom_datatype *target_type,
                        int op,
                        transom_request **request);

// transom_get_accumulate with a request.
//
// # Safety
// The requirements of transom_get_accumulate; `request` may be written.
int transom_rget_accumulate(const transom_window *window,
                            const void *origin,
                            uint64_t origin_count,
                            const transom_datatype *origin_type,
                            void *result,
                            uint64_t result_count,
                            const transom_datatype *result_type,
                            int target,
                            uint64_t displacement,
                            uint64_t target_count,
                            const transom_datatype *target_type,
                            int op,
                            transom_request **request);

// Waits until the operation is complete; the handle becomes NULL, also if the operation failed.
// For NULL the call returns immediately.
//
// # Safety
// `request` points to a live handle or to NULL.
int transom_request_wait(transom_request **request);

// Sets *done to 1 if the operation is complete, and then the handle to NULL; else *done to 0.
// Makes progress and does not wait. For NULL *done is 1.
//
// # Safety
// `request` points to a live handle or to NULL; `done` may be written.
int transom_request_test(transom_request **request, int *done);

// Waits for all requests; all handles become NULL, also if some operations failed. The result is
// the first failure in the order of the array.
//
// # Safety
// `requests` has `count` handles, live ones or NULL.
int transom_request_wait_all(uint64_t count, transom_request **requests);

// Waits for one of the requests, whose handle becomes NULL. *index is set to its index, or to
// TRANSOM_UNDEFINED if all handles are NULL.
//
// # Safety
// `requests` has `count` handles, live ones or NULL; `index` may be written.
int transom_request_wait_any(uint64_t count, transom_request **requests, int64_t *index);

// Waits for at least one of the requests. *done is set to the number of complete ones, whose
// indices are written to indices and whose handles become NULL. *done is 0 if all handles are
// NULL.
//
// # Safety
// `requests` has `count` handles, live ones or NULL; `indices` has room for as many numbers;
// `done` may be written.
int transom_request_wait_some(uint64_t count, transom_request **requests, uint64_t *done, uint64_t *indices);

// transom_request_wait_some without waiting: *done may be 0.
//
// # Safety
// The requirements of transom_request_wait_some.
int transom_request_test_some(uint64_t count, transom_request **requests, uint64_t *done, uint64_t *indices);

// Frees a request without waiting; the handle becomes NULL. The end of the epoch still completes
// the operation.
//
// # Safety
// `request` points to a live handle or to NULL.
int transom_request_free(transom_request **request);

// Performs transom_put in a passive epoch, and then adds one to counter notice of target. A target
// that reads the new count also sees the data. A call without items only changes the counter.
//
// # Safety
// The requirements of transom_put.
int transom_put_notify(const transom_window *window,
                       const void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int notice);

// Performs transom_get in a passive epoch, and then adds one to counter notice of target. The new
// count means that the data has been read. The call waits for the data.
//
// # Safety
// The requirements of transom_get.
int transom_get_notify(const transom_window *window,
                       void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int notice);

// Performs transom_accumulate in a passive epoch, and then adds one to counter notice of target.
// The call waits for the operation.
//
// # Safety
// The requirements of transom_accumulate.
int transom_accumulate_notify(const transom_window *window,
                              const void *origin,
                              uint64_t origin_count,
                              const transom_datatype *origin_type,
                              int target,
                              uint64_t displacement,
                              uint64_t target_count,
                              const transom_datatype *target_type,
                              int op,
                              int notice);

// Performs transom_get_accumulate in a passive epoch, and then adds one to counter notice of
// target, also with TRANSOM_NO_OP. The call waits for the operation.
//
// # Safety
// The requirements of transom_get_accumulate.
int transom_get_accumulate_notify(const transom_window *window,
                                  const void *origin,
                                  uint64_t origin_count,
                                  const transom_datatype *origin_type,
                                  void *result,
                                  uint64_t result_count,
                                  const transom_datatype *result_type,
                                  int target,
                                  uint64_t displacement,
                                  uint64_t target_count,
                                  const transom_datatype *target_type,
                                  int op,
                                  int notice);

// transom_put_notify with a request.
//
// # Safety
// The requirements of transom_put; `request` may be written.
int transom_rput_notify(const transom_window *window,
                        const void *origin,
                        uint64_t origin_count,
                        const transom_datatype *origin_type,
                        int target,
                        uint64_t displacement,
                        uint64_t target_count,
                        const transom_datatype *target_type,
                        int notice,
                        transom_request **request);

// transom_get_notify with a request.
//
// # Safety
// The requirements of transom_get; `request` may be written.
int transom_rget_notify(const transom_window *window,
                        void *origin,
                        uint64_t origin_count,
                        const transom_datatype *origin_type,
                        int target,
                        uint64_t displacement,
                        uint64_t target_count,
                        const transom_datatype *target_type,
                        int notice,
                        transom_request **request);

// transom_accumulate_notify with a request.
//
// # Safety
// The requirements of transom_accumulate; `request` may be written.
int transom_raccumulate_notify(const transom_window *window,
                               const void *origin,
                               uint64_t origin_count,
                               const transom_datatype *origin_type,
                               int target,
                               uint64_t displacement,
                               uint64_t target_count,
                               const transom_datatype *target_type,
                               int op,
                               int notice,
                               transom_request **request);

// transom_get_accumulate_notify with a request.
//
// # Safety
// The requirements of transom_get_accumulate; `request` may be written.
int transom_rget_accumulate_notify(const transom_window *window,
                                   const void *origin,
                                   uint64_t origin_count,
                                   const transom_datatype *origin_type,
                                   void *result,
                                   uint64_t result_count,
                                   const transom_datatype *result_type,
                                   int target,
                                   uint64_t displacement,
                                   uint64_t target_count,
                                   const transom_datatype *target_type,
                                   int op,
                                   int notice,
                                   transom_request **request);

// Sets the number of this rank's counters, at most 4096, and zeroes all counters of the window.
// Collective; the numbers may differ between ranks. No notified operation may be in flight.
//
// # Safety
// `window` is a live handle.
int transom_window_set_num_notify(const transom_window *window, int counters);

// Sets *counters to the number of counters of a rank.
//
// # Safety
// `window` is a live handle; `counters` may be written.
int transom_window_get_num_notify(const transom_window *window, int target, int *counters);

// Sets *value to the value of one of this rank's counters. Makes progress and does not wait.
//
// # Safety
// `window` is a live handle; `value` may be written.
int transom_window_notify_value(const transom_window *window, int notice, uint64_t *value);

// Zeroes one of this rank's counters, and sets *value to its previous value, in one atomic step.
//
// # Safety
// `window` is a live handle; `value` may be written.
int transom_window_notify_reset(const transom_window *window, int notice, uint64_t *value);

// Waits until one of this rank's counters has reached value. The counter does not change.
//
// # Safety
// `window` is a live handle.
int transom_window_notify_wait(const transom_window *window, int notice, uint64_t value);

// Sets *done to 1 if one of this rank's counters has reached value, else to 0. Makes progress and
// does not wait.
//
// # Safety
// `window` is a live handle; `done` may be written.
int transom_window_notify_test(const transom_window *window, int notice, uint64_t value, int *done);

// Waits until one of several counters of this rank has reached the value with the same index in
// values. *index is set to the first such index.
//
// # Safety
// `window` is a live handle; `notices` and `values` have `count` numbers each; `index` may be
// written.
int transom_window_notify_wait_any(const transom_window *window,
                                   uint64_t count,
                                   const int *notices,
                                   const uint64_t *values,
                                   uint64_t *index);

// Creates a request that is complete when one of this rank's counters has reached value. The
// request must be completed or freed before transom_window_free.
//
// # Safety
// `window` is a live handle; `request` may be written.
int transom_window_notify_threshold(const transom_window *window, int notice, uint64_t value, transom_request **request);

// Ends the fence epoch and opens the next one, unless _NOSUCCEED is given. Collective. Assertions:
// TRANSOM_MODE_NOSTORE, _NOPUT, _NOPRECEDE, _NOSUCCEED.
//
// # Safety
// `window` is a live handle.
int transom_window_fence(const transom_window *window, int assertions);

// Exposes this rank's part to origins. The call does not wait. Assertions: TRANSOM_MODE_NOCHECK,
// _NOSTORE, _NOPUT.
//
// # Safety
// `window` is a live handle; `origins` has `count` ranks.
int transom_window_post(const transom_window *window, int count, const int *origins, int assertions);

// Opens an access epoch to targets. The call does not wait: the first operation on a target waits
// for the target's post, and transom_window_complete waits for the posts of targets without
// operations. Assertion: TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle; `targets` has `count` ranks.
int transom_window_start(const transom_window *window, int count, const int *targets, int assertions);

// Ends the epoch of transom_window_start. Its operations are then complete at origin and target.
//
// # Safety
// `window` is a live handle.
int transom_window_complete(const transom_window *window);

// Ends the epoch of transom_window_post when all its origins have completed.
//
// # Safety
// `window` is a live handle.
int transom_window_wait(const transom_window *window);

// Ends the epoch of transom_window_post if all its origins have completed. *done is then 1,
// else 0.
//
// # Safety
// `window` is a live handle; `done` may be written.
int transom_window_test(const transom_window *window, int *done);

// Opens a passive access epoch to a target; a rank may lock several targets at once. kind is
// TRANSOM_LOCK_SHARED or TRANSOM_LOCK_EXCLUSIVE. Assertion: TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle.
int transom_window_lock(const transom_window *window, int kind, int target, int assertions);

// Completes all operations on a target, at origin and target, and ends its epoch. The lock is
// released also if an operation failed.
//
// # Safety
// `window` is a live handle.
int transom_window_unlock(const transom_window *window, int target);

// Opens a passive access epoch to all ranks. Not collective. Assertion: TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle.
int transom_window_lock_all(const transom_window *window, int assertions);

// Completes all operations and ends the epoch of transom_window_lock_all.
//
// # Safety
// `window` is a live handle.
int transom_window_unlock_all(const transom_window *window);

// Completes the operations on a target, at origin and target, in a passive epoch.
//
// # Safety
// `window` is a live handle.
int transom_window_flush(const transom_window *window, int target);

// Completes the operations on all targets, at origin and target, in a passive epoch.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_all(const transom_window *window);

// Completes the operations on a target at the origin, whose buffers may then be used again.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_local(const transom_window *window, int target);

// Completes the operations on all targets at the origin.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_local_all(const transom_window *window);

// Orders this rank's loads and stores with the accesses of others; in the separate model it makes
// both copies equal.
//
// # Safety
// `window` is a live handle.
int transom_window_sync(const transom_window *window);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TRANSOM_H */
