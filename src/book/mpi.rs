//! Coming from MPI: the names of MPI's one-sided chapter, and their equivalents here.
//!
//! The tables have the names of MPI-3. The functions with large counts that MPI-4 adds, such as
//! `MPI_Put_c`, have no form of their own here, because counts and displacements have 64 bits in
//! every call.
//!
//! [`RawWindow`](crate::RawWindow) has a method for most functions, with the function's name
//! without `MPI_Win_` or `MPI_`. As in MPI, these methods open and end epochs explicitly and take
//! assertions, datatypes as values, and buffers by address. In a [`Window`](crate::Window) an epoch
//! is a closure, and the operations are methods of the closure's argument: of
//! [`Access`](crate::Access), and in passive epochs also of [`Passive`](crate::Passive). When you
//! port a program, handles become values, error codes become [`Result`](crate::Result), and a count
//! with a datatype becomes a slice or [`Items`](crate::Items). Only windows are freed explicitly.
//!
//! ```
//! // MPI_Win_allocate(10 * 8, 8, info, comm, &base, &win); MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
//! // MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, rank, 3, MPI_SUM, win); MPI_Win_flush(rank, win);
//! // MPI_Win_unlock_all(win); MPI_Win_free(&win);
//! use transom::{Assert, BasicType, Info, Op, RawWindow, Window};
//!
//! let comm = transom::init()?;
//! let rank = comm.rank();
//! let win = RawWindow::allocate(&comm, 10 * 8, 8, &Info::new())?;
//! win.lock_all(Assert::NOCHECK)?;
//! let one = 1u64.to_ne_bytes();
//! let mut old = [9; 8];
//! win.fetch_and_op(&one, &mut old, BasicType::Uint64, rank, 3, Op::Sum)?; // waits for its result, so the flush is not needed here
//! win.flush(rank)?;
//! win.unlock_all()?;
//! assert_eq!(u64::from_ne_bytes(old), 0);
//! win.free()?;
//!
//! // The same, typed.
//! let win = Window::<u64>::allocate(&comm, 10)?;
//! let old = win.lock_all_with(Assert::NOCHECK, |epoch| epoch.fetch_add(rank, 3, 1))?;
//! assert_eq!(old, 0);
//! win.free()?;
//! # Ok::<(), transom::Error>(())
//! ```
//!
//! An unchanged MPI program can use these windows without recompilation, if `LD_PRELOAD` names
//! `libtransom_mpi.so`. README.md shows how; docs/mpi-programs.md describes the division of work
//! between this library and the program's MPI.
//!
//! A test (`tests/names.rs`) compares these tables with the list of names in the chapter; rustdoc
//! checks their links.
//!
//! # Functions
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_Accumulate` | [`Access::accumulate`](crate::Access::accumulate), [`Access::accumulate_items`](crate::Access::accumulate_items), [`RawWindow::accumulate`](crate::RawWindow::accumulate), [`RawWindow::accumulate_items`](crate::RawWindow::accumulate_items) |
//! | `MPI_Compare_and_swap` | [`Access::compare_and_swap`](crate::Access::compare_and_swap), [`RawWindow::compare_and_swap`](crate::RawWindow::compare_and_swap), which wait; [`Access::start_compare_and_swap`](crate::Access::start_compare_and_swap), [`RawWindow::start_compare_and_swap`](crate::RawWindow::start_compare_and_swap), which do not |
//! | `MPI_Fetch_and_op` | [`Access::fetch_and_op`](crate::Access::fetch_and_op), [`Access::fetch_add`](crate::Access::fetch_add), [`Access::swap`](crate::Access::swap), [`Access::fetch_value`](crate::Access::fetch_value), [`RawWindow::fetch_and_op`](crate::RawWindow::fetch_and_op), [`RawWindow::fetch_value`](crate::RawWindow::fetch_value), which wait; [`Access::start_fetch_and_op`](crate::Access::start_fetch_and_op), [`RawWindow::start_fetch_and_op`](crate::RawWindow::start_fetch_and_op), which do not |
//! | `MPI_Get` | [`Access::get`](crate::Access::get), [`Access::get_items`](crate::Access::get_items), [`RawWindow::get`](crate::RawWindow::get), [`RawWindow::get_items`](crate::RawWindow::get_items) |
//! | `MPI_Get_accumulate` | [`Access::get_accumulate`](crate::Access::get_accumulate), [`Access::get_accumulate_items`](crate::Access::get_accumulate_items), [`Access::get_atomic`](crate::Access::get_atomic), [`RawWindow::get_accumulate`](crate::RawWindow::get_accumulate), [`RawWindow::get_accumulate_items`](crate::RawWindow::get_accumulate_items) |
//! | `MPI_Put` | [`Access::put`](crate::Access::put), [`Access::put_value`](crate::Access::put_value), [`Access::put_items`](crate::Access::put_items), [`RawWindow::put`](crate::RawWindow::put), [`RawWindow::put_items`](crate::RawWindow::put_items) |
//! | `MPI_Raccumulate` | [`Passive::raccumulate`](crate::Passive::raccumulate), [`Passive::raccumulate_items`](crate::Passive::raccumulate_items), [`RawWindow::raccumulate_items`](crate::RawWindow::raccumulate_items) |
//! | `MPI_Rget` | [`Passive::rget`](crate::Passive::rget), [`Passive::rget_owned`](crate::Passive::rget_owned), [`Passive::rget_items`](crate::Passive::rget_items), [`RawWindow::rget`](crate::RawWindow::rget), [`RawWindow::rget_items`](crate::RawWindow::rget_items) |
//! | `MPI_Rget_accumulate` | [`Passive::rget_accumulate`](crate::Passive::rget_accumulate), [`Passive::rget_accumulate_owned`](crate::Passive::rget_accumulate_owned), [`RawWindow::rget_accumulate_items`](crate::RawWindow::rget_accumulate_items) |
//! | `MPI_Rput` | [`Passive::rput`](crate::Passive::rput), [`Passive::rput_owned`](crate::Passive::rput_owned), [`Passive::rput_items`](crate::Passive::rput_items), [`RawWindow::rput`](crate::RawWindow::rput), [`RawWindow::rput_items`](crate::RawWindow::rput_items) |
//! | `MPI_Win_allocate` | [`Window::allocate`](crate::Window::allocate), [`Window::allocate_with`](crate::Window::allocate_with), [`RawWindow::allocate`](crate::RawWindow::allocate) |
//! | `MPI_WIN_ALLOCATE_CPTR` | not here, because it is Fortran's form of `MPI_Win_allocate` |
//! | `MPI_Win_allocate_shared` | [`Window::allocate_shared`](crate::Window::allocate_shared), [`Window::allocate_shared_with`](crate::Window::allocate_shared_with), [`RawWindow::allocate_shared`](crate::RawWindow::allocate_shared) |
//! | `MPI_WIN_ALLOCATE_SHARED_CPTR` | not here, because it is Fortran's form of `MPI_Win_allocate_shared` |
//! | `MPI_Win_attach` | [`RawWindow::attach`](crate::RawWindow::attach); there is no typed form |
//! | `MPI_Win_complete` | the end of [`Window::start`](crate::Window::start), [`RawWindow::complete`](crate::RawWindow::complete) |
//! | `MPI_Win_create` | [`Window::create`](crate::Window::create), [`Window::create_with`](crate::Window::create_with), [`RawWindow::create`](crate::RawWindow::create) |
//! | `MPI_Win_create_dynamic` | [`RawWindow::create_dynamic`](crate::RawWindow::create_dynamic); there is no typed form |
//! | `MPI_Win_detach` | [`RawWindow::detach`](crate::RawWindow::detach); there is no typed form |
//! | `MPI_Win_fence` | [`Window::fence`](crate::Window::fence) and [`FenceEpoch::fence`](crate::FenceEpoch::fence), [`RawWindow::fence`](crate::RawWindow::fence) |
//! | `MPI_Win_flush` | [`Passive::flush`](crate::Passive::flush), [`RawWindow::flush`](crate::RawWindow::flush) |
//! | `MPI_Win_flush_all` | [`Passive::flush_all`](crate::Passive::flush_all), [`RawWindow::flush_all`](crate::RawWindow::flush_all) |
//! | `MPI_Win_flush_local` | [`Passive::flush_local`](crate::Passive::flush_local), [`RawWindow::flush_local`](crate::RawWindow::flush_local) |
//! | `MPI_Win_flush_local_all` | [`Passive::flush_local_all`](crate::Passive::flush_local_all), [`RawWindow::flush_local_all`](crate::RawWindow::flush_local_all) |
//! | `MPI_Win_free` | [`Window::free`](crate::Window::free), [`Window::reclaim`](crate::Window::reclaim), [`RawWindow::free`](crate::RawWindow::free) |
//! | `MPI_Win_get_attr` | one method for each attribute: see [below](#attributes) |
//! | `MPI_Win_get_group` | [`Window::group`](crate::Window::group), [`RawWindow::group`](crate::RawWindow::group) |
//! | `MPI_Win_get_info` | [`Window::info`](crate::Window::info), [`RawWindow::info`](crate::RawWindow::info) |
//! | `MPI_Win_lock` | [`Window::lock`](crate::Window::lock), [`Window::lock_with`](crate::Window::lock_with), [`RawWindow::lock`](crate::RawWindow::lock) |
//! | `MPI_Win_lock_all` | [`Window::lock_all`](crate::Window::lock_all), [`Window::lock_all_with`](crate::Window::lock_all_with), [`RawWindow::lock_all`](crate::RawWindow::lock_all) |
//! | `MPI_Win_post` | [`Window::post`](crate::Window::post), [`Window::post_with`](crate::Window::post_with), [`RawWindow::post`](crate::RawWindow::post) |
//! | `MPI_Win_set_attr` | not here, because attributes of users are fields of their own structs |
//! | `MPI_Win_set_info` | [`Window::set_info`](crate::Window::set_info), [`RawWindow::set_info`](crate::RawWindow::set_info) |
//! | `MPI_Win_shared_query` | [`Window::shared_query`](crate::Window::shared_query), [`Window::shared_len`](crate::Window::shared_len), [`Window::load_from`](crate::Window::load_from), [`Window::store_to`](crate::Window::store_to), [`RawWindow::shared_query`](crate::RawWindow::shared_query) |
//! | `MPI_WIN_SHARED_QUERY_CPTR` | not here, because it is Fortran's form of `MPI_Win_shared_query` |
//! | `MPI_Win_start` | [`Window::start`](crate::Window::start), [`Window::start_with`](crate::Window::start_with), [`RawWindow::start`](crate::RawWindow::start) |
//! | `MPI_Win_sync` | [`Window::sync`](crate::Window::sync), [`Passive::sync`](crate::Passive::sync), [`RawWindow::sync`](crate::RawWindow::sync) |
//! | `MPI_Win_test` | [`Window::test`](crate::Window::test), [`RawWindow::test`](crate::RawWindow::test) |
//! | `MPI_Win_unlock` | the end of [`Window::lock`](crate::Window::lock), [`RawWindow::unlock`](crate::RawWindow::unlock) |
//! | `MPI_Win_unlock_all` | the end of [`Window::lock_all`](crate::Window::lock_all), [`RawWindow::unlock_all`](crate::RawWindow::unlock_all) |
//! | `MPI_Win_wait` | [`Window::wait`](crate::Window::wait), [`RawWindow::wait`](crate::RawWindow::wait) |
//!
//! # Attributes
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_WIN_BASE` | [`RawWindow::base`](crate::RawWindow::base); a [`Window`](crate::Window) has [`load`](crate::Window::load) and [`store`](crate::Window::store) |
//! | `MPI_WIN_CREATE_FLAVOR` | [`Window::flavor`](crate::Window::flavor), [`RawWindow::flavor`](crate::RawWindow::flavor) |
//! | `MPI_WIN_DISP_UNIT` | [`RawWindow::disp_unit`](crate::RawWindow::disp_unit); the size of `T` in a `Window<T>` |
//! | `MPI_WIN_FLAVOR_ALLOCATE` | [`Flavor::Allocate`](crate::Flavor::Allocate) |
//! | `MPI_WIN_FLAVOR_CREATE` | [`Flavor::Create`](crate::Flavor::Create) |
//! | `MPI_WIN_FLAVOR_DYNAMIC` | [`Flavor::Dynamic`](crate::Flavor::Dynamic) |
//! | `MPI_WIN_FLAVOR_SHARED` | [`Flavor::Shared`](crate::Flavor::Shared) |
//! | `MPI_WIN_MODEL` | [`Window::model`](crate::Window::model), [`RawWindow::model`](crate::RawWindow::model) |
//! | `MPI_WIN_SEPARATE` | [`Model::Separate`](crate::Model::Separate) |
//! | `MPI_WIN_SIZE` | [`Window::len`](crate::Window::len) in elements, [`RawWindow::size`](crate::RawWindow::size) in bytes |
//! | `MPI_WIN_UNIFIED` | [`Model::Unified`](crate::Model::Unified) |
//!
//! # Constants and types
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_LOCK_EXCLUSIVE` | [`Lock::Exclusive`](crate::Lock::Exclusive) |
//! | `MPI_LOCK_SHARED` | [`Lock::Shared`](crate::Lock::Shared) |
//! | `MPI_MODE_NOCHECK` | [`Assert::NOCHECK`](crate::Assert::NOCHECK) |
//! | `MPI_MODE_NOPRECEDE` | [`Assert::NOPRECEDE`](crate::Assert::NOPRECEDE) |
//! | `MPI_MODE_NOPUT` | [`Assert::NOPUT`](crate::Assert::NOPUT) |
//! | `MPI_MODE_NOSTORE` | [`Assert::NOSTORE`](crate::Assert::NOSTORE) |
//! | `MPI_MODE_NOSUCCEED` | [`Assert::NOSUCCEED`](crate::Assert::NOSUCCEED) |
//! | `MPI_NO_OP` | [`Op::NoOp`](crate::Op::NoOp), [`ops::NoOp`](crate::ops::NoOp) |
//! | `MPI_REPLACE` | [`Op::Replace`](crate::Op::Replace), [`ops::Replace`](crate::ops::Replace) |
//! | `MPI_Win` | [`Window`](crate::Window), [`RawWindow`](crate::RawWindow) |
//! | `MPI_WIN_NULL` | not here, because no handle is invalid: use `None` of an `Option` |
//!
//! # Error classes
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_ERR_ASSERT` | [`Class::Assert`](crate::Class::Assert) |
//! | `MPI_ERR_BASE` | [`Class::Base`](crate::Class::Base) |
//! | `MPI_ERR_DISP` | [`Class::Disp`](crate::Class::Disp) |
//! | `MPI_ERR_LOCKTYPE` | [`Class::LockType`](crate::Class::LockType): a lock where the info says `no_locks`; another kind of lock does not compile |
//! | `MPI_ERR_RMA_ATTACH` | [`Class::RmaAttach`](crate::Class::RmaAttach) |
//! | `MPI_ERR_RMA_CONFLICT` | [`Class::RmaConflict`](crate::Class::RmaConflict); never returned, because the [conflict checker](super::checking) prints its reports |
//! | `MPI_ERR_RMA_FLAVOR` | [`Class::RmaFlavor`](crate::Class::RmaFlavor); `MPI_ERR_RMA_WRONG_FLAVOR` in older texts |
//! | `MPI_ERR_RMA_RANGE` | [`Class::RmaRange`](crate::Class::RmaRange) |
//! | `MPI_ERR_RMA_SHARED` | [`Class::RmaShared`](crate::Class::RmaShared) |
//! | `MPI_ERR_RMA_SYNC` | [`Class::RmaSync`](crate::Class::RmaSync) |
//! | `MPI_ERR_SIZE` | [`Class::Size`](crate::Class::Size) |
//! | `MPI_ERR_WIN` | [`Class::Win`](crate::Class::Win); never returned, because no handle is invalid |
//!
//! # Names of other chapters
//!
//! These names appear in the text and the examples of the one-sided chapter.
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_ADDRESS_KIND` | `usize` in typed windows, `u64` in raw ones: displacements and addresses |
//! | `MPI_Aint` | `usize` in typed windows, `u64` in raw ones: displacements and addresses |
//! | `MPI_Alloc_mem` | [`Job::alloc_mem`](crate::Job::alloc_mem), [`Job::alloc_mem_with`](crate::Job::alloc_mem_with); [`Window::create_over`](crate::Window::create_over) makes windows of it, and [`Window::allocate`](crate::Window::allocate) allocates its own memory |
//! | `MPI_Barrier` | [`Job::barrier`](crate::Job::barrier); it [synchronizes no memory](super::traps) |
//! | `MPI_Bcast` | [`Job::broadcast`](crate::Job::broadcast), a simple form for small programs |
//! | `MPI_BOTTOM` | a null pointer, which [`RawWindow::base`](crate::RawWindow::base) gives for a dynamic window; displacements there are addresses |
//! | `MPI_Cancel` | not here, because MPI forbids it for one-sided operations |
//! | `MPI_Comm` | [`Job`](crate::Job) |
//! | `MPI_Comm_rank` | [`Job::rank`](crate::Job::rank) |
//! | `MPI_Comm_size` | [`Job::size`](crate::Job::size) |
//! | `MPI_COMM_WORLD` | the [`Job`](crate::Job) that [`init`](crate::init) gives |
//! | `MPI_Datatype` | [`Datatype`](crate::Datatype), [`BasicType`](crate::BasicType); in typed calls the [`Element`](crate::Element) |
//! | `MPI_DOUBLE` | `f64`, [`BasicType::Float64`](crate::BasicType::Float64) |
//! | `MPI_ERR_OP` | [`Class::Op`](crate::Class::Op); a compile error with [`ops`](crate::ops) |
//! | `MPI_ERR_RANK` | [`Class::Rank`](crate::Class::Rank) |
//! | `MPI_ERROR` | [`Error::class`](crate::Error::class) of the error that waiting for a request gives |
//! | `MPI_ERRORS_ARE_FATAL` | not here, because an error is a value: `expect` makes it fatal |
//! | `MPI_Free_mem` | the drop of an [`Allocation`](crate::Allocation) |
//! | `MPI_Get_address` | `addr` of a pointer |
//! | `MPI_Get_count` | not here, because one-sided operations move the requested count or fail |
//! | `MPI_Group` | a slice of ranks; [`Job::subset`](crate::Job::subset) |
//! | `MPI_Info` | [`Info`](crate::Info) |
//! | `MPI_Info_free` | not here, because an [`Info`](crate::Info) is a value |
//! | `MPI_INFO_NULL` | [`Info::new`](crate::Info::new) |
//! | `MPI_Init` | [`init`](crate::init) |
//! | `MPI_INT` | `i32`, [`BasicType::Int32`](crate::BasicType::Int32) |
//! | `MPI_Op` | [`Op`](crate::Op), or one of the types of [`ops`](crate::ops) |
//! | `MPI_PROC_NULL` | [`PROC_NULL`](crate::PROC_NULL) |
//! | `MPI_REAL` | `f32`, [`BasicType::Float32`](crate::BasicType::Float32) |
//! | `MPI_Reduce` | [`Job::all_reduce`](crate::Job::all_reduce), a simple form for small programs, which gives all ranks the result |
//! | `MPI_Request` | [`Request`](crate::Request), [`BufferRequest`](crate::BufferRequest) |
//! | `MPI_Request_free` | not here, because MPI forbids it for one-sided operations; a [`Request`](crate::Request) may be dropped |
//! | `MPI_REQUEST_NULL` | a [`Request`](crate::Request) that is not [active](crate::Request::is_active) |
//! | `MPI_STATUS_IGNORE` | not here, because a completed one-sided operation has no further result |
//! | `MPI_STATUSES_IGNORE` | not here, because a completed one-sided operation has no further result |
//! | `MPI_SUM` | [`Op::Sum`](crate::Op::Sum), [`ops::Sum`](crate::ops::Sum); the other operations have such names too |
//! | `MPI_Type_commit` | not here, because a [`Datatype`](crate::Datatype) is ready when it is made |
//! | `MPI_Type_create_indexed_block` | [`Datatype::indexed_block`](crate::Datatype::indexed_block) |
//! | `MPI_Type_free` | not here, because dropping the last clone of a [`Datatype`](crate::Datatype) frees it |
//! | `MPI_Type_get_extent` | [`Datatype::lb`](crate::Datatype::lb), [`Datatype::extent`](crate::Datatype::extent) |
//! | `MPI_Wait` | [`Request::wait`](crate::Request::wait), [`BufferRequest::wait`](crate::BufferRequest::wait) |
//! | `MPI_Waitall` | [`Request::wait_all`](crate::Request::wait_all) |
//! | `MPI_Waitany` | [`Request::wait_any`](crate::Request::wait_any) |
//!
//! `MPI_Test`, `MPI_Testsome` and `MPI_Waitsome`, which the chapter does not name, are
//! [`Request::test`](crate::Request::test), [`Request::test_some`](crate::Request::test_some) and
//! [`Request::wait_some`](crate::Request::wait_some). [`BasicType`](crate::BasicType) has MPI's
//! name of each predefined type, [`Op`](crate::Op) the name of each operation,
//! [`Datatype`](crate::Datatype) the name of each constructor. The keys of `MPI_Info` are in
//! [`windows`](super::windows#hints).
