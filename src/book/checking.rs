//! The conflict checker: reports of conflicting accesses, false assertions and deadlocks.
//!
//! With `TRANSOM_CHECK=1` in the environment the library watches the accesses of a job on one node,
//! and reports those that [conflict](super::conflicts). A *place* is a call in the program, with
//! its source line. Each pair of conflicting places is reported once:
//!
//! ```text
//! $ TRANSOM_CHECK=1 transom-run -n 2 target/debug/examples/race
//! transom: conflicting accesses to window 1 at rank 1:
//!   rank 0: put of bytes 0..8, race::by_get_and_put::{{closure}} at .../examples/race.rs:19
//!   rank 1: get of bytes 0..8, race::by_get_and_put::{{closure}}::{{closure}} at .../examples/race.rs:18
//!   one of two concurrent accesses changes bytes of the other (MPI-4.1 §12.7)
//!   No synchronization orders the two
//! transom: conflicting accesses to window 1 at rank 1:
//!   rank 0: put of bytes 0..8, race::by_get_and_put::{{closure}} at .../examples/race.rs:19
//!   rank 1: put of bytes 0..8, race::by_get_and_put::{{closure}} at .../examples/race.rs:19
//!   one of two concurrent accesses changes bytes of the other (MPI-4.1 §12.7)
//!   No synchronization orders the two
//! counted 2000 of 2000
//! transom: the conflict checker has made reports; pairs of places in the program: 2
//! ```
//!
//! Windows over all ranks of the job are numbered from 1 in the order of their creation, in
//! hexadecimal; those of a subset have other numbers.
//!
//! The report names the two calls by function, file and line. The function is the innermost one
//! that does not belong to the library; file and line appear if the program has debug information.
//! Ranks are those of the job. At most 100 reports go to the standard error. To fix the program,
//! [order](super::conflicts#what-orders-two-accesses) the two accesses.
//!
//! | variable | effect |
//! |---|---|
//! | `TRANSOM_CHECK=fail` | [`finalize`](crate::Job::finalize) (in C `transom_finalize`) returns an error at rank 0 if the checker has made a report; the program must return this error from `main`. If the job is only dropped, the library prints the error, and the exit status does not change. In an MPI program the library prints the error, and rank 0 exits with status 1 instead of 0 |
//! | `TRANSOM_CHECK_REPORT=FILE` | the reports are also appended to the file as lines of JSON. `transom-check FILE` shows them with the lines of the source; `--source DIRECTORY` names a directory of source files that are not at their recorded paths |
//! | `TRANSOM_CHECK_SUPPRESS=FILE` | the file has texts, one on each line; a conflict or a false assertion is not reported if the function or the source file of one of its places contains one of the texts. Empty lines and lines that begin with `#` are ignored |
//!
//! # False assertions
//!
//! The checker also reports assertions ([`Assert`](crate::Assert)) that the calls of other ranks
//! make false. Such a report begins with `false assertion`, and names both calls with their places:
//!
//! | assertion | reported |
//! |---|---|
//! | NOPUT at a fence or `post` | a put or an accumulate into the part of the asserting rank, in the epoch that the call begins |
//! | NOCHECK at a lock or `lock_all` | a conflicting lock of the same part that another rank holds at the same time |
//! | NOCHECK at `post` or `start` | the matching call of the other rank has no NOCHECK |
//! | NOPRECEDE or NOSUCCEED at a fence | the fence of another rank lacks the assertion |
//!
//! docs/limits.md, "The conflict checker", lists false assertions that the checker misses.
//!
//! # Loads and stores: calls of the library
//!
//! The checker records the loads and stores of [`Window::load`](crate::Window::load) and related
//! calls. Loads of up to 8 bytes are not checked in the unified model, because a program may poll a
//! word for an update. A program may also poll by loads that the checker does not see, between
//! calls of [`sync`](crate::Window::sync). The next access or synchronization of a rank after
//! `sync` therefore counts as ordered after two groups of operations: those that were complete in
//! the rank's part, and those that another rank had completed before it put a word there or
//! accumulated there. In a shared window the program may read the parts of all ranks after `sync`,
//! so there the rank counts as ordered after all that these ranks have completed.
//!
//! The owner of a part may store a flag there by a pointer, and other ranks may poll this flag.
//! Polls order ranks if the owner has called `sync`, and in C and MPI programs also if the owner
//! has locked any part of the window. A rank that then reads a word of up to 8 bytes by a get, or
//! any bytes by a fetch, may have found the flag. This rank therefore counts as ordered after all
//! accesses that the owner has completed, and after all accesses of other ranks that are ordered
//! before the owner's next access. In MPI programs with ThreadSanitizer `sync` and such reads have
//! no such effects, because the checker sees the loads and stores by which a program polls.
//!
//! # Loads and stores: pointers, with ThreadSanitizer
//!
//! The library does not see loads and stores through pointers. If a program is compiled with
//! `-fsanitize=thread`, the checker tells ThreadSanitizer about the operations that access memory
//! of the process: which memory, by which threads and in which order. The reports of
//! ThreadSanitizer then include
//!
//! - stores to a buffer before its put is complete, and loads of window memory before the fence,
//!   also by another thread of the rank;
//! - operations of two threads of a rank that conflict at a target;
//! - loads and stores of several ranks in one shared window, in MPI programs that gcc has compiled;
//! - conflicts with the buffers of the MPI's own sends, receives and collective calls, and of
//!   `MPI_Pack`, `MPI_Unpack`, `MPI_Pack_external`, `MPI_Unpack_external` and `MPI_Reduce_local`.
//!
//! ```text
//! $ mpicc -g -fsanitize=thread program.c
//! $ mpiexec -n 2 env UCX_MEM_EVENTS=no TRANSOM_CHECK=1 \
//!       LD_PRELOAD=PREFIX/lib/transom/MPI/libtransom_mpi.so ./a.out
//! WARNING: ThreadSanitizer: data race (pid=16565)
//!   Write of size 4 at 0x7ffe99e04838 by main thread:
//!     #0 main program.c:9
//!   Previous read of size 4 at 0x7ffe99e04838 by thread T5:
//!     #0 main program.c:8
//!   Thread T5 'put of this rank, its buffer'
//! ```
//!
//! An operation appears as a thread with the name of the operation, its rank, and its place in the
//! program. The rank that owns window memory prints the reports about this memory. A report on an
//! operation of another rank appears when a synchronization tells the owner that the operation is
//! complete.
//!
//! A program may poll a word of 4 or 8 bytes by atomic loads; plain loads that poll are reported.
//! An atomic load of window memory orders the loading rank after all earlier changes of the word,
//! by operations and by atomics of the language, and after all that a rank did before its change.
//! A failed compare-and-swap changes nothing, and orders no other rank. An atomic store to a word,
//! or another atomic that changes the word, conflicts with puts and accumulates that change the
//! word (MPI-4.1 §12.7), and with the plain loads and stores of other ranks. A rank that has read
//! an update of a word may change the word: it may lower a flag for which it has polled.
//!
//! The checker uses ThreadSanitizer only if the programs of all ranks are compiled with it;
//! otherwise rank 0 prints a warning.
//!
//! `UCX_MEM_EVENTS=no` keeps UCX, which some MPIs use, from patching functions that ThreadSanitizer
//! wraps. `libtransom_mpi` sets ThreadSanitizer's option `history_size=7`, so that reports show the
//! place of an access after which the program has computed for long. Another `history_size` in
//! `TSAN_OPTIONS` takes precedence.
//!
//! ThreadSanitizer does not see how the OpenMP library of gcc synchronizes threads, and therefore
//! reports races in correct programs. `libtransom_mpi` suppresses these reports, and with them all
//! reports about accesses of threads that OpenMP started. To find races in MPI programs with
//! OpenMP, build `libtransom_mpi` with `--features openmp`. That build tells ThreadSanitizer of
//! parallel regions, barriers, tasks with their dependences, critical and ordered regions, and
//! locks. Use that build only for MPI programs with OpenMP, because it defines functions with the
//! names of gcc's OpenMP library. Two tasks or two sections that the same thread runs count as
//! ordered. The library therefore tries to give them to different threads. Programs that clang
//! compiled need the OpenMP tool of LLVM (Archer).
//!
//! # Deadlocks
//!
//! Typical causes of a deadlock are a fence that one rank does not call, groups of `post` and
//! `start` that do not match, and locks that ranks take in opposite orders. The checker reports
//! calls that have waited for `TRANSOM_CHECK_WAIT` seconds (default 10; 0: never) in two cases:
//!
//! - Some ranks wait for each other in a circle, whatever the other ranks do. A rank in `start` or
//!   `wait` waits for the rank of the group, a rank that requests a lock for the holders of the
//!   lock, and a rank in a collective call of all ranks for those that are in another call.
//! - All ranks wait.
//!
//! ```text
//! transom: these ranks have waited for each other for 10 s, as in a deadlock:
//!   rank 0: lock, exclusive, of window 1 at rank 1, waits for rank 1, which holds a lock, main at program.c:12
//!   rank 1: lock, exclusive, of window 1 at rank 0, waits for rank 0, which holds a lock, main at program.c:12
//! ```
//!
//! The job continues, because only the user can decide whether to end it. In MPI programs the
//! checker also watches the MPI's collective calls, blocking sends and blocking receives, but not
//! `MPI_Wait`, `MPI_Waitall` and the like. The checker reports no deadlock in five cases:
//!
//! - the ranks wait for one that computes;
//! - a rank computes, and the others wait for any of several ranks, for a message of the MPI, or in
//!   collective calls of a part of the ranks;
//! - all ranks are in the same collective call;
//! - another thread of a rank may end the wait;
//! - the program has started, or connected to, a process outside of the job that may end the wait.
//!
//! # Missed and false reports
//!
//! - A buffer of an operation may be in the origin's own part of the same window. Without
//!   ThreadSanitizer the checker compares such a buffer with operations of other ranks only between
//!   fences, and while the part is exposed by `post`, and never in shared and dynamic windows. In
//!   other epochs the rank may have polled for these operations.
//! - Without ThreadSanitizer the checker does not see loads and stores through pointers. With
//!   ThreadSanitizer it sees those of the rank that owns the memory. It sees the loads and stores
//!   of other ranks in a shared window only in MPI programs that gcc has compiled. It never sees
//!   functions of the C library, such as `memcpy`, that access the memory of another rank.
//! - The checker does not see synchronization outside of the library, such as sockets, files, and
//!   POSIX mutexes that processes share. Accesses that only such synchronization orders may be
//!   reported.
//! - A blocking send or collective call uses its buffer until the call returns. If the buffer is
//!   window memory, and the receiver of the message puts there at once, the checker reports a
//!   conflict with ThreadSanitizer: only the end of the call, and not the message, orders the put.
//! - The checker remembers the ends of the last 7 exposure epochs of a part. Operations of an
//!   earlier epoch count as complete.
//! - The checker remembers the last flushes of a part that completed puts or accumulates: for each
//!   rank 2046 flushes in a job of up to 8 ranks, 62 flushes from 129 ranks on, and a number
//!   between these in other jobs. An operation before an older flush counts as complete for the
//!   ranks that have synchronized with its origin after the operation began.
//! - With ThreadSanitizer a thread that gets memory of `MPI_Win_allocate`,
//!   `MPI_Win_allocate_shared` or `MPI_Alloc_mem` counts as ordered after all threads of the
//!   process that have given such memory back.
//! - With ThreadSanitizer the checker compares at most 4096 pieces of a buffer that a call of the
//!   MPI, such as a send, uses.
//! - If a window is created over memory that another window already has, conflicts of operations
//!   that began before the creation are missed. So are conflicts between two such windows from the
//!   origin's `complete` to the target's `wait`. Accumulates of two windows on the same memory
//!   count as accumulates of one window, although MPI leaves their result undefined (MPI-4.1
//!   §12.2.1).
//! - After some calls of MPI programs, such as messages between two jobs, the checker can't know
//!   for which ranks a rank has waited. The rank then counts as ordered after everything that any
//!   rank has done: the checker may miss a conflict, but reports no false one. After any of three
//!   events, every later receive of every rank is such a call. The events are a send or receive
//!   whose call fails, a cancelled send, and more than 1024 freed requests of receives without a
//!   message.
//! - If a send fails only at the end of its request, later reports may be false.
//! - A counter of notified operations remembers the clocks of its last notices: 32 notices in a job
//!   of up to 4 ranks, 4 notices from 26 ranks on, and a number between these in other jobs. A rank
//!   that waits for an older notice counts as ordered after the oldest remembered notice.
//! - The checker keeps one clock for each rank, not for each thread. Conflicts of two threads of
//!   one rank are therefore missed without ThreadSanitizer. A rank that synchronizes with one
//!   thread of another rank counts as ordered after all that any thread of that rank has completed.
//! - The checker sees atomics of the language only in programs that gcc has compiled, and only
//!   with ThreadSanitizer. Two conflicts of an atomic store are missed: with an update that was in
//!   flight when the storing rank last read the word, and with an update of a rank that has read
//!   the word by a get.
//! - Atomics synchronize through clocks, one for each 4 bytes of the window. In a large window
//!   several words share a clock. An atomic on one of these words then also orders accesses by way
//!   of the others, and the checker may miss a conflict.
//! - With the hint `accumulate_ops=same_op`, `NO_OP` still counts as the same operation as every
//!   other one.
//! - With the hint `accumulate_ordering=none`, accumulates of one rank still count as ordered, so
//!   their conflicts are missed.
//! - With ThreadSanitizer the checker distinguishes 120 operations in flight of a thread. Further
//!   ones count as one operation: when one of them is complete, all of them count as complete.
//! - With ThreadSanitizer the checker remembers at most 4096 synchronizations and operations of a
//!   rank, and forgets old operations first. A forgotten one counts as the next one that the
//!   checker remembers. Loads and stores between the two then count as ordered before the
//!   operations of a rank that is ordered after the forgotten one, and conflicts are missed.
//! - Jobs over several nodes or without shared memory are not checked: `TRANSOM_CHECK` has no
//!   effect there, and rank 0 prints a warning.
//!
//! # Memory and limits
//!
//! For each rank's part of a window the checker remembers the accesses to at most 524288 blocks of
//! 16 bytes: up to four accesses to each block, in 64 bytes. It also remembers 65536 other
//! accesses, each in 72 bytes. A later access to the same bytes replaces an earlier access that is
//! no longer needed to find conflicts. If the checker must discard accesses that may still
//! conflict, it reports their number at the end of the window. `TRANSOM_CHECK_RECORDS` sets the
//! limit for other accesses; the limit for blocks is eight times as large. All records of a part
//! take up to 37 MiB, of which the kernel allocates only the pages in use. Records of blocks take
//! one page of 4 KiB for each KiB of the part in which there is a small access. With
//! `TRANSOM_CHECK` a process has at most 1024 windows, or 682 windows with counters of notified
//! operations. The clocks of the counters take memory at each rank for each window with counters:
//! 2.1 MiB in a job of 2 ranks, about 4 MiB with 4 to 32 ranks, and 16 MiB with 128 ranks. The
//! flushes that the checker remembers take up to 147 KiB for each part in a job of up to 256 ranks,
//! and 576 bytes for each rank in a larger one.
//!
//! The checker records the buffer of an operation until the operation is complete at the origin.
//! Operations of one call in the program on one target share a record if they only read their
//! buffers, and the buffers touch or overlap; a report then has the bytes of all these buffers. A
//! process has at most 32 shared records, and 65536 other records of buffers. The checker also
//! needs memory for each request-based operation that is not complete, and, with ThreadSanitizer,
//! for each operation.
