/* transom.h: MPI's one-sided windows as a library, for C99 and C++. Made by cbindgen of the files in capi/src: change those.
 *
 * Every call answers TRANSOM_SUCCESS, which is 0, or the class of what went wrong, which transom_error_string puts into words;
 * transom_last_error has the whole text with its numbers. A call that fails has done nothing, unless its comment says otherwise.
 * Pointers that are NULL where something is needed are errors. A handle that was freed is gone: calls that free take its address
 * and make it NULL. Counts, sizes and displacements are of 64 bits; ranks are numbers from 0 or TRANSOM_PROC_NULL.
 * The sections "Safety" say what the library cannot check. transom(3) is the overview.
 */

#ifndef TRANSOM_H
#define TRANSOM_H

#include <stdint.h>

/* The predefined datatypes, each what C has for it on this machine. They need not be freed. */
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
/* Other names of the same, as far as C leaves their sizes open. */
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

// A window that is NULL.
#define TRANSOM_ERR_WIN 1

// The memory handed to transom_window_create.
#define TRANSOM_ERR_BASE 2

// A size that cannot be had.
#define TRANSOM_ERR_SIZE 3

// A displacement or a displacement unit.
#define TRANSOM_ERR_DISP 4

// No such rank.
#define TRANSOM_ERR_RANK 5

// A type that is NULL, that does not fit, or an element that is misaligned at the target.
#define TRANSOM_ERR_TYPE 6

// A count that cannot be.
#define TRANSOM_ERR_COUNT 7

// An operation that is none, or is not defined on the type.
#define TRANSOM_ERR_OP 8

// An unknown kind of lock, or a window whose hints exclude locks.
#define TRANSOM_ERR_LOCKTYPE 9

// Assertions that contradict each other or do not belong to the call.
#define TRANSOM_ERR_ASSERT 10

// Another argument that cannot be, among them pointers that are NULL.
#define TRANSOM_ERR_ARG 11

// Accesses that conflict. Never given: they are not looked for.
#define TRANSOM_ERR_RMA_CONFLICT 12

// Memory that cannot be attached to a dynamic window, or none to detach.
#define TRANSOM_ERR_RMA_ATTACH 13

// Memory that cannot be shared, or that load and store do not reach.
#define TRANSOM_ERR_RMA_SHARED 14

// A window of another flavor is needed.
#define TRANSOM_ERR_RMA_FLAVOR 15

// Outside the target's part, or outside its attached regions.
#define TRANSOM_ERR_RMA_RANGE 16

// A call in the wrong epoch.
#define TRANSOM_ERR_RMA_SYNC 17

// A hint or a TRANSOM_ variable with a value that it cannot have.
#define TRANSOM_ERR_INFO_VALUE 18

// The job, a transport, or a peer.
#define TRANSOM_ERR_OTHER 19

// A defect of the library: it caught a panic of its own. The call may be half done.
#define TRANSOM_ERR_INTERN 20

// A counter of notified operations that the target does not have.
#define TRANSOM_ERR_RMA_NOTIFICATION 21

// The null rank (MPI_PROC_NULL): an operation on it does nothing, successfully.
#define TRANSOM_PROC_NULL -1

// The index that transom_request_wait_any gives where no request is active.
#define TRANSOM_UNDEFINED -1

// The larger one.
#define TRANSOM_MAX 1

// The smaller one.
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

// A lock that others may hold too.
#define TRANSOM_LOCK_SHARED 1

// An exclusive lock.
#define TRANSOM_LOCK_EXCLUSIVE 2

// No process holds a conflicting lock; or the matching post has come already.
#define TRANSOM_MODE_NOCHECK 1

// This rank did not store into its part since the last synchronization.
#define TRANSOM_MODE_NOSTORE 2

// No rank puts into this rank's part until the next synchronization.
#define TRANSOM_MODE_NOPUT 4

// No operation of this rank precedes the fence; all ranks say so, or none.
#define TRANSOM_MODE_NOPRECEDE 8

// No operation of this rank follows the fence; all ranks say so, or none.
#define TRANSOM_MODE_NOSUCCEED 16

// A window over memory that the caller had.
#define TRANSOM_FLAVOR_CREATE 1

// A window with memory of the library.
#define TRANSOM_FLAVOR_ALLOCATE 2

// A window to which memory is attached.
#define TRANSOM_FLAVOR_DYNAMIC 3

// A window whose memory all ranks load and store.
#define TRANSOM_FLAVOR_SHARED 4

// One copy: this rank's loads see the puts of others, eventually.
#define TRANSOM_MODEL_UNIFIED 1

// A public and a private copy, which only synchronization brings together.
#define TRANSOM_MODEL_SEPARATE 2

// The way to a rank: it is the rank itself.
#define TRANSOM_ROUTE_OWN 1

// The way to a rank: shared memory of the node.
#define TRANSOM_ROUTE_SHM 2

// The way to a rank: the net.
#define TRANSOM_ROUTE_NET 3

// The first index runs slowest, as in C.
#define TRANSOM_ORDER_C 1

// The first index runs fastest, as in Fortran.
#define TRANSOM_ORDER_FORTRAN 2

// A datatype: a sequence of predefined types, each at its offset. It never changes. Operations
// keep what they need of it, so it may be freed before they are complete.
typedef struct transom_datatype transom_datatype;

// Keys with values: hints for windows. NULL stands for none wherever one is asked for.
typedef struct transom_info transom_info;

// One rank's membership in a job, or in a subset of its ranks. May be used by several threads at
// once.
typedef struct transom_job transom_job;

// The handle of one operation, to wait for it apart from the epoch. Complete is that of the
// buffers: the data of a get is there, the buffer of a put may be used again.
typedef struct transom_request transom_request;

// A window: memory of each rank of a job that the others access. Operations and synchronization
// calls may come from several threads at once, collective calls (fence, free) from one at a time.
typedef struct transom_window transom_window;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of an error class, such as "TRANSOM_ERR_RANK: invalid rank". Every number has a text;
// it is never freed.
const char *transom_error_string(int error);

// The whole text, with its numbers, of the last call of this thread that failed; empty where none
// did. It stays until another call of this thread fails.
const char *transom_last_error(void);

// The version of the library, as "0.2.0".
const char *transom_version(void);

// Joins the job that this process was started in, by transom-run or another launcher; alone it is
// a job of one rank. Once per process.
//
// # Safety
// `job` may be written.
int transom_init(transom_job **job);

// Leaves the job; collective. The handle becomes NULL, also where it fails. Free windows before
// it. A subset's handle only ends.
//
// # Safety
// `job` points to a live handle or to NULL, which no other thread uses.
int transom_finalize(transom_job **job);

// This rank, from 0; in a subset its number there.
//
// # Safety
// `job` is a live handle; `rank` may be written.
int transom_job_rank(const transom_job *job, int *rank);

// The number of ranks.
//
// # Safety
// `job` is a live handle; `size` may be written.
int transom_job_size(const transom_job *job, int *size);

// Some ranks as a job of their own, for windows and barriers among them, numbered in the order of
// ranks, which are ranks of the whole job. Called by exactly these ranks, with the same list; it
// communicates nothing. transom_finalize ends the handle. Calls with the same list come in the
// same order at all of them: where threads may call at the same time, transom_job_subset_tagged
// tells them apart.
//
// # Safety
// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
int transom_job_subset(const transom_job *job, int count, const int *ranks, transom_job **subset);

// transom_job_subset with a tag, as MPI_Comm_create_group has one: calls with the same list and
// the same tag come in the same order at all members, those with different tags in any.
// transom_job_subset has tag 0.
//
// # Safety
// `job` is a live handle; `ranks` has `count` numbers; `subset` may be written.
int transom_job_subset_tagged(const transom_job *job, int count, const int *ranks, uint64_t tag, transom_job **subset);

// The ranks, as the whole job counts, that share this one's node and so can share memory with it,
// in the order of the job: *count of them, of which the first `room` are written to ranks.
//
// # Safety
// `job` is a live handle; `ranks` has room for `room` numbers; `count` may be written.
int transom_job_node_ranks(const transom_job *job, int room, int *ranks, int *count);

// Waits until all ranks are here. It synchronizes processes; to see their puts, end an epoch or
// call transom_window_sync.
//
// # Safety
// `job` is a live handle.
int transom_job_barrier(const transom_job *job);

// The way to a rank: TRANSOM_ROUTE_OWN, TRANSOM_ROUTE_SHM or TRANSOM_ROUTE_NET.
//
// # Safety
// `job` is a live handle; `route` may be written.
int transom_job_route(const transom_job *job, int rank, int *route);

// Makes an info without keys.
//
// # Safety
// `info` may be written.
int transom_info_create(transom_info **info);

// Sets a key, or gives another value to one that is there. Keys that no window knows are kept and
// do nothing.
//
// # Safety
// `info` is a live handle; `key` and `value` end with a zero byte.
int transom_info_set(transom_info *info, const char *key, const char *value);

// Writes the value of a key with its zero byte to value, as much as fits *size bytes; *size
// becomes what all of it takes, and *found is 1. Without such a key *found is 0 and the rest
// stays. With a *size of 0 value may be NULL.
//
// # Safety
// `info` is a live handle; `key` ends with a zero byte; `value` has *size bytes, and `size` and
// `found` may be written.
int transom_info_get(const transom_info *info, const char *key, char *value, uint64_t *size, int *found);

// How many keys there are.
//
// # Safety
// `info` is a live handle; `keys` may be written.
int transom_info_keys(const transom_info *info, uint64_t *keys);

// Writes the key of a number, from 0 in the order in which they were set, as transom_info_get
// writes values.
//
// # Safety
// `info` is a live handle; `key` has *size bytes, and `size` may be written.
int transom_info_key(const transom_info *info, uint64_t number, char *key, uint64_t *size);

// Ends an info; the handle becomes NULL. Windows keep the hints that they have read.
//
// # Safety
// `info` points to a live handle or to NULL.
int transom_info_free(transom_info **info);

// The bytes of data of one item, gaps not included. A pair type counts with its padding.
//
// # Safety
// `datatype` is a predefined one or a live handle; `size` may be written.
int transom_type_size(const transom_datatype *datatype, uint64_t *size);

// The lower bound, and the bytes from one item to the next.
//
// # Safety
// `datatype` is a predefined one or a live handle; `lb` and `extent` may be written.
int transom_type_extent(const transom_datatype *datatype, int64_t *lb, int64_t *extent);

// The offset of the lowest byte of data, and the bytes from there to the end of the highest.
//
// # Safety
// `datatype` is a predefined one or a live handle; `lb` and `extent` may be written.
int transom_type_true_extent(const transom_datatype *datatype, int64_t *lb, int64_t *extent);

// Ends a derived datatype; the handle becomes NULL. Types that were made of it stay. Predefined
// ones cannot be freed.
//
// # Safety
// `datatype` points to a live handle, to a predefined one or to NULL.
int transom_type_free(transom_datatype **datatype);

// `count` items of a type, each one extent after the one before.
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

// The part of an array of sizes that begins at starts and has subsizes elements, all per
// dimension; order is TRANSOM_ORDER_C or TRANSOM_ORDER_FORTRAN. The extent is that of the whole
// array.
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

// A type with another lower bound and extent, in bytes. Data stays where it is.
//
// # Safety
// `old_type` is a predefined one or a live handle; `new_type` may be written.
int transom_type_resized(const transom_datatype *old_type, int64_t lb, int64_t extent, transom_datatype **new_type);

// Allocates size zeroed bytes of this process that other ranks of the node can map; *base is their
// address, NULL for no bytes. Windows that are created over them, or over a part of them, are as
// fast as allocated ones. They begin on a page; at a multiple of more with the hint
// mpi_minimum_memory_alignment. Local.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` may be written.
int transom_alloc_mem(const transom_job *job, uint64_t size, const transom_info *info, void **base);

// Frees memory of transom_alloc_mem by its address; NULL is legal and does nothing. Windows over
// it keep it until they are freed. Local.
int transom_free_mem(void *base);

// Opens size bytes at base as this rank's part, addressed by others in units of disp_unit bytes.
// Collective. Sizes and units may differ at every rank. Where the bytes are of transom_alloc_mem,
// ranks of the node map them, and the window keeps them.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `window` may be written. The memory at `base` stays
// readable and writable until transom_window_free has succeeded.
int transom_window_create(const transom_job *job,
                          void *base,
                          uint64_t size,
                          uint32_t disp_unit,
                          const transom_info *info,
                          transom_window **window);

// Allocates size zeroed bytes at this rank, addressed by others in units of disp_unit bytes; *base
// is their address. Collective. The memory goes with the window.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` and `window` may be written.
int transom_window_allocate(const transom_job *job,
                            uint64_t size,
                            uint32_t disp_unit,
                            const transom_info *info,
                            void **base,
                            transom_window **window);

// Allocates memory that all ranks, which must be of one node, load and store: one segment in which
// the parts lie in the order of the ranks, or apart where the hint alloc_shared_noncontig allows
// it. *base is the address of this rank's part. Collective.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `base` and `window` may be written.
int transom_window_allocate_shared(const transom_job *job,
                                   uint64_t size,
                                   uint32_t disp_unit,
                                   const transom_info *info,
                                   void **base,
                                   transom_window **window);

// A window without memory, to which each rank attaches regions of its own. Displacements are
// addresses of the target. Collective.
//
// # Safety
// `job` is a live handle, `info` one or NULL; `window` may be written.
int transom_window_create_dynamic(const transom_job *job, const transom_info *info, transom_window **window);

// Attaches size bytes at base to a dynamic window. Local.
//
// # Safety
// `window` is a live handle. The memory stays readable and writable until it is detached and no
// rank accesses it.
int transom_window_attach(const transom_window *window, void *base, uint64_t size);

// Detaches the region that begins at base. Local.
//
// # Safety
// `window` is a live handle.
int transom_window_detach(const transom_window *window, const void *base);

// Ends the window; collective. The handle becomes NULL. Where it fails, within an epoch, the
// window stays as it was.
//
// # Safety
// `window` points to a live handle, which no other thread uses, or to NULL.
int transom_window_free(transom_window **window);

// This rank's part: the first byte, its bytes, and its displacement unit. Of a dynamic window
// NULL, 0 and 1.
//
// # Safety
// `window` is a live handle; `base`, `size` and `disp_unit` may be written.
int transom_window_part(const transom_window *window, void **base, uint64_t *size, uint32_t *disp_unit);

// The part of a rank as this process loads and stores it, or for TRANSOM_PROC_NULL that of the
// lowest rank whose part has bytes.
//
// # Safety
// `window` is a live handle; `base`, `size` and `disp_unit` may be written.
int transom_window_shared_query(const transom_window *window, int rank, void **base, uint64_t *size, uint32_t *disp_unit);

// How the window came to its memory: TRANSOM_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC or _SHARED.
//
// # Safety
// `window` is a live handle; `flavor` may be written.
int transom_window_flavor(const transom_window *window, int *flavor);

// Its memory model: TRANSOM_MODEL_UNIFIED or TRANSOM_MODEL_SEPARATE.
//
// # Safety
// `window` is a live handle; `model` may be written.
int transom_window_model(const transom_window *window, int *model);

// Its ranks as ranks of the whole job: *count of them, of which the first `room` are written to
// ranks.
//
// # Safety
// `window` is a live handle; `ranks` has room for `room` numbers; `count` may be written.
int transom_window_group(const transom_window *window, int room, int *ranks, int *count);

// All hints with the values in force, as a new info, which transom_info_free ends.
//
// # Safety
// `window` is a live handle; `info` may be written.
int transom_window_get_info(const transom_window *window, transom_info **info);

// Changes hints: no_locks, accumulate_ordering, accumulate_ops, same_size and same_disp_unit;
// others were decided at creation and stay. All ranks give the same; nothing is sent.
//
// # Safety
// `window` is a live handle, `info` one or NULL.
int transom_window_set_info(const transom_window *window, const transom_info *info);

// Puts len bytes from origin at a displacement of target.
//
// # Safety
// `window` is a live handle. `origin` has `len` bytes, which nobody writes until the operation is
// complete at this side.
int transom_put_bytes(const transom_window *window, const void *origin, uint64_t len, int target, uint64_t displacement);

// Gets len bytes into origin from a displacement of target.
//
// # Safety
// `window` is a live handle. `origin` has `len` bytes, which nobody else touches until the
// operation is complete.
int transom_get_bytes(const transom_window *window, void *origin, uint64_t len, int target, uint64_t displacement);

// Puts items of a type as items of another with the same signature.
//
// # Safety
// `window` is a live handle, types are predefined ones or live handles. Nobody writes the bytes of
// the origin's items until the operation is complete at this side.
int transom_put(const transom_window *window,
                const void *origin,
                uint64_t origin_count,
                const transom_datatype *origin_type,
                int target,
                uint64_t displacement,
                uint64_t target_count,
                const transom_datatype *target_type);

// Gets items of a type as items of another with the same signature.
//
// # Safety
// `window` is a live handle, types are predefined ones or live handles. Nobody else touches the
// bytes of the origin's items until the operation is complete.
int transom_get(const transom_window *window,
                void *origin,
                uint64_t origin_count,
                const transom_datatype *origin_type,
                int target,
                uint64_t displacement,
                uint64_t target_count,
                const transom_datatype *target_type);

// Combines the target's elements with the origin's by an operation, TRANSOM_SUM or another: atomic
// for each element with all other accumulates, fetches and compare-and-swaps on the same type.
//
// # Safety
// As for transom_put.
int transom_accumulate(const transom_window *window,
                       const void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int op);

// transom_accumulate that also gets the values from before. For TRANSOM_NO_OP origin is not looked
// at.
//
// # Safety
// As for transom_put, and for the bytes of result as for transom_get; they do not overlap those of
// origin.
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

// Combines one element of a predefined type and waits for its value from before. For TRANSOM_NO_OP
// origin is not looked at; for TRANSOM_PROC_NULL result stays as it was.
//
// # Safety
// `window` is a live handle; `origin` and `result` are each of one element and do not overlap.
int transom_fetch_and_op(const transom_window *window,
                         const void *origin,
                         void *result,
                         const transom_datatype *datatype,
                         int target,
                         uint64_t displacement,
                         int op);

// Stores the element origin where the element compare is found, and waits for the value from
// before. For integers, TRANSOM_C_BOOL and TRANSOM_BYTE.
//
// # Safety
// `window` is a live handle; `origin`, `compare` and `result` are each of one element, and result
// overlaps none of the others.
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
// As for transom_put; `request` may be written.
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
// As for transom_get; `request` may be written.
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
// As for transom_accumulate; `request` may be written.
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
// As for transom_get_accumulate; `request` may be written.
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

// Waits until the operation is complete; the handle becomes NULL, also where the operation failed.
// Returns at once for NULL.
//
// # Safety
// `request` points to a live handle or to NULL.
int transom_request_wait(transom_request **request);

// Whether the operation is complete; then the handle becomes NULL. Makes progress, does not wait.
// *done is 1 for NULL.
//
// # Safety
// `request` points to a live handle or to NULL; `done` may be written.
int transom_request_test(transom_request **request, int *done);

// Waits for all; all handles become NULL, also where some failed. The first failure, in their
// order, is the result.
//
// # Safety
// `requests` has `count` handles, live ones or NULL.
int transom_request_wait_all(uint64_t count, transom_request **requests);

// Waits for one, whose handle becomes NULL; *index is its place, TRANSOM_UNDEFINED where all are
// NULL.
//
// # Safety
// `requests` has `count` handles, live ones or NULL; `index` may be written.
int transom_request_wait_any(uint64_t count, transom_request **requests, int64_t *index);

// Waits for at least one: *done of them are complete, their places are in indices and their
// handles are NULL. *done is 0 where all are NULL.
//
// # Safety
// `requests` has `count` handles, live ones or NULL; `indices` has room for as many numbers;
// `done` may be written.
int transom_request_wait_some(uint64_t count, transom_request **requests, uint64_t *done, uint64_t *indices);

// transom_request_wait_some without waiting: *done may be 0.
//
// # Safety
// As for transom_request_wait_some.
int transom_request_test_some(uint64_t count, transom_request **requests, uint64_t *done, uint64_t *indices);

// Forgets a request; the handle becomes NULL. The end of the epoch completes the operation all the
// same.
//
// # Safety
// `request` points to a live handle or to NULL.
int transom_request_free(transom_request **request);

// transom_put in a passive epoch, then one added to counter notice of target, whose rank sees the
// data when it sees the count. No items move no data, and count.
//
// # Safety
// As for transom_put.
int transom_put_notify(const transom_window *window,
                       const void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int notice);

// transom_get in a passive epoch, then one added to counter notice of target, which says there
// that the data has been read. It waits for the data.
//
// # Safety
// As for transom_get.
int transom_get_notify(const transom_window *window,
                       void *origin,
                       uint64_t origin_count,
                       const transom_datatype *origin_type,
                       int target,
                       uint64_t displacement,
                       uint64_t target_count,
                       const transom_datatype *target_type,
                       int notice);

// transom_accumulate in a passive epoch, then one added to counter notice of target. It waits for
// the operation.
//
// # Safety
// As for transom_accumulate.
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

// transom_get_accumulate in a passive epoch, then one added to counter notice of target, for
// TRANSOM_NO_OP too. It waits for the operation.
//
// # Safety
// As for transom_get_accumulate.
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
// As for transom_put; `request` may be written.
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
// As for transom_get; `request` may be written.
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
// As for transom_accumulate; `request` may be written.
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
// As for transom_get_accumulate; `request` may be written.
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

// Gives this rank as many counters, at most 4096 and by each rank a number of its own, and zeroes
// all counters of the window. Collective. No notified operation is in flight.
//
// # Safety
// `window` is a live handle.
int transom_window_set_num_notify(const transom_window *window, int counters);

// How many counters a rank has: *counters.
//
// # Safety
// `window` is a live handle; `counters` may be written.
int transom_window_get_num_notify(const transom_window *window, int target, int *counters);

// The value of an own counter: *value. Makes progress, does not wait.
//
// # Safety
// `window` is a live handle; `value` may be written.
int transom_window_notify_value(const transom_window *window, int notice, uint64_t *value);

// Zeroes an own counter; *value is its value from before, fetched in the same atomic step.
//
// # Safety
// `window` is a live handle; `value` may be written.
int transom_window_notify_reset(const transom_window *window, int notice, uint64_t *value);

// Waits until an own counter has reached value, which it keeps.
//
// # Safety
// `window` is a live handle.
int transom_window_notify_wait(const transom_window *window, int notice, uint64_t value);

// Whether an own counter has reached value: *done. Makes progress, does not wait.
//
// # Safety
// `window` is a live handle; `done` may be written.
int transom_window_notify_test(const transom_window *window, int notice, uint64_t value, int *done);

// Waits until one of several own counters has reached the value at the same place of values;
// *index is the first such place.
//
// # Safety
// `window` is a live handle; `notices` and `values` have `count` numbers each; `index` may be
// written.
int transom_window_notify_wait_any(const transom_window *window,
                                   uint64_t count,
                                   const int *notices,
                                   const uint64_t *values,
                                   uint64_t *index);

// A request that is complete when an own counter has reached value. It is completed or freed
// before transom_window_free.
//
// # Safety
// `window` is a live handle; `request` may be written.
int transom_window_notify_threshold(const transom_window *window, int notice, uint64_t value, transom_request **request);

// Ends the fence epoch and perhaps opens another. Collective. Assertions: TRANSOM_MODE_NOSTORE,
// _NOPUT, _NOPRECEDE, _NOSUCCEED.
//
// # Safety
// `window` is a live handle.
int transom_window_fence(const transom_window *window, int assertions);

// Exposes this rank's part to origins. It does not wait. Assertions: TRANSOM_MODE_NOCHECK,
// _NOSTORE, _NOPUT.
//
// # Safety
// `window` is a live handle; `origins` has `count` ranks.
int transom_window_post(const transom_window *window, int count, const int *origins, int assertions);

// Opens an access epoch to targets. It does not wait: the first operation on a target waits for
// its post, and transom_window_complete for those without operations. Assertion:
// TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle; `targets` has `count` ranks.
int transom_window_start(const transom_window *window, int count, const int *targets, int assertions);

// Ends the epoch of transom_window_start: its operations are complete at both sides.
//
// # Safety
// `window` is a live handle.
int transom_window_complete(const transom_window *window);

// Ends the epoch of transom_window_post when all its origins have completed.
//
// # Safety
// `window` is a live handle.
int transom_window_wait(const transom_window *window);

// Ends the epoch of transom_window_post if all its origins have completed; *done is whether they
// have.
//
// # Safety
// `window` is a live handle; `done` may be written.
int transom_window_test(const transom_window *window, int *done);

// Opens a passive access epoch to a target; several may be locked at once. kind is
// TRANSOM_LOCK_SHARED or TRANSOM_LOCK_EXCLUSIVE. Assertion: TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle.
int transom_window_lock(const transom_window *window, int kind, int target, int assertions);

// Completes everything to a target at both sides and ends its epoch. Where an operation failed the
// lock is given up all the same.
//
// # Safety
// `window` is a live handle.
int transom_window_unlock(const transom_window *window, int target);

// Opens a passive access epoch to all ranks. Not collective. Assertion: TRANSOM_MODE_NOCHECK.
//
// # Safety
// `window` is a live handle.
int transom_window_lock_all(const transom_window *window, int assertions);

// Completes everything and ends the epoch of transom_window_lock_all.
//
// # Safety
// `window` is a live handle.
int transom_window_unlock_all(const transom_window *window);

// Completes operations to a target at both sides, in a passive epoch.
//
// # Safety
// `window` is a live handle.
int transom_window_flush(const transom_window *window, int target);

// Completes operations to all targets at both sides, in a passive epoch.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_all(const transom_window *window);

// Completes operations to a target at this side: their buffers may be used again.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_local(const transom_window *window, int target);

// Completes operations to all targets at this side.
//
// # Safety
// `window` is a live handle.
int transom_window_flush_local_all(const transom_window *window);

// Orders this rank's own accesses with those of others; in the separate model it brings both
// copies together.
//
// # Safety
// `window` is a live handle.
int transom_window_sync(const transom_window *window);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TRANSOM_H */
