//! # From MPI's names to those here
//!
//! Every function, constant and key of the one-sided chapter. `W` is [`Window`](crate::Window), `R` is [`RawWindow`](crate::RawWindow): what both
//! have is linked once.
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_Win_create` | [`W::create`](crate::Window::create), [`R::create`](crate::RawWindow::create) |
//! | `MPI_Win_allocate`, `MPI_Alloc_mem`, `MPI_Free_mem` | [`W::allocate`](crate::Window::allocate), [`R::allocate`](crate::RawWindow::allocate); memory that others map comes with its window |
//! | `MPI_Win_allocate_shared` | [`W::allocate_shared`](crate::Window::allocate_shared), [`R::allocate_shared`](crate::RawWindow::allocate_shared) |
//! | `MPI_Win_shared_query` | [`shared_query`](crate::RawWindow::shared_query), [`load_from`](crate::Window::load_from), [`store_to`](crate::Window::store_to) |
//! | `MPI_Win_create_dynamic` | [`R::create_dynamic`](crate::RawWindow::create_dynamic) |
//! | `MPI_Win_attach`, `MPI_Win_detach` | [`attach`](crate::RawWindow::attach), [`detach`](crate::RawWindow::detach) |
//! | `MPI_Win_free` | [`free`](crate::Window::free), [`reclaim`](crate::Window::reclaim) |
//! | `MPI_Win_get_attr`: `MPI_WIN_BASE`, `MPI_WIN_SIZE`, `MPI_WIN_DISP_UNIT` | [`base`](crate::RawWindow::base), [`size`](crate::RawWindow::size), [`disp_unit`](crate::RawWindow::disp_unit) |
//! | `MPI_WIN_CREATE_FLAVOR`: `MPI_WIN_FLAVOR_CREATE`, `_ALLOCATE`, `_DYNAMIC`, `_SHARED` | [`flavor`](crate::Window::flavor), [`Flavor`](crate::Flavor) |
//! | `MPI_WIN_MODEL`: `MPI_WIN_UNIFIED`, `MPI_WIN_SEPARATE` | [`model`](crate::Window::model), [`Model`](crate::Model) |
//! | `MPI_Win_set_attr` and keyvals of users | not here: keep a struct beside the window |
//! | `MPI_Win_get_group` | [`group`](crate::Window::group) |
//! | `MPI_Win_set_info`, `MPI_Win_get_info`, `MPI_INFO_NULL` | [`set_info`](crate::Window::set_info), [`info`](crate::Window::info), [`Info::new`](crate::Info::new) |
//! | `MPI_Put`, `MPI_Get` | [`put`](crate::Access::put), [`put_value`](crate::Access::put_value), [`get`](crate::Access::get); with datatypes [`put_items`](crate::Access::put_items), [`get_items`](crate::Access::get_items) |
//! | `MPI_Accumulate`, `MPI_Get_accumulate` | [`accumulate`](crate::Access::accumulate), [`get_accumulate`](crate::Access::get_accumulate); with datatypes [`R::accumulate`](crate::RawWindow::accumulate), [`R::get_accumulate`](crate::RawWindow::get_accumulate) |
//! | `MPI_Fetch_and_op` | [`fetch_and_op`](crate::Access::fetch_and_op), [`fetch_add`](crate::Access::fetch_add), [`swap`](crate::Access::swap), [`fetch_value`](crate::Access::fetch_value) |
//! | `MPI_Compare_and_swap` | [`compare_and_swap`](crate::Access::compare_and_swap) |
//! | `MPI_Rput`, `MPI_Rget` | [`rput`](crate::Passive::rput), [`rget`](crate::Passive::rget), [`rget_into`](crate::Passive::rget_into), [`R::rput`](crate::RawWindow::rput), [`R::rget`](crate::RawWindow::rget) |
//! | `MPI_Raccumulate`, `MPI_Rget_accumulate` | [`raccumulate`](crate::Passive::raccumulate), [`rget_accumulate`](crate::Passive::rget_accumulate), [`R::raccumulate`](crate::RawWindow::raccumulate), [`R::rget_accumulate`](crate::RawWindow::rget_accumulate) |
//! | `MPI_Wait`, `MPI_Test` | [`Request::wait`](crate::Request::wait), [`Request::test`](crate::Request::test) |
//! | `MPI_Waitall`, `MPI_Waitany`, `MPI_Waitsome`, `MPI_Testsome` | [`wait_all`](crate::Request::wait_all), [`wait_any`](crate::Request::wait_any), [`wait_some`](crate::Request::wait_some), [`test_some`](crate::Request::test_some) |
//! | `MPI_REQUEST_NULL` | an inactive request: [`is_active`](crate::Request::is_active) |
//! | `MPI_Request_free`, `MPI_Cancel` | not here: MPI does not allow the second on these requests, the first is a drop |
//! | `MPI_SUM`, `MPI_REPLACE`, `MPI_NO_OP`, ... | [`ops`](crate::ops), [`Op`](crate::Op) |
//! | `MPI_INT64_T`, `MPI_DOUBLE`, ... | [`Element`](crate::Element), [`BasicType`](crate::BasicType) |
//! | `MPI_Type_vector` and the other constructors | [`Datatype`](crate::Datatype); there is nothing to commit or free |
//! | `MPI_Win_fence` | [`W::fence`](crate::Window::fence), [`R::fence`](crate::RawWindow::fence) |
//! | `MPI_Win_start`, `MPI_Win_complete` | [`W::start`](crate::Window::start), [`R::start`](crate::RawWindow::start), [`R::complete`](crate::RawWindow::complete) |
//! | `MPI_Win_post`, `MPI_Win_wait`, `MPI_Win_test` | [`post`](crate::Window::post), [`wait`](crate::Window::wait), [`test`](crate::Window::test) |
//! | `MPI_Win_lock`, `MPI_Win_unlock` | [`W::lock`](crate::Window::lock), [`R::lock`](crate::RawWindow::lock), [`R::unlock`](crate::RawWindow::unlock) |
//! | `MPI_LOCK_SHARED`, `MPI_LOCK_EXCLUSIVE` | [`Lock`](crate::Lock) |
//! | `MPI_Win_lock_all`, `MPI_Win_unlock_all` | [`W::lock_all`](crate::Window::lock_all), [`R::lock_all`](crate::RawWindow::lock_all), [`R::unlock_all`](crate::RawWindow::unlock_all) |
//! | `MPI_Win_flush`, `MPI_Win_flush_all` | [`flush`](crate::Passive::flush), [`flush_all`](crate::Passive::flush_all) |
//! | `MPI_Win_flush_local`, `MPI_Win_flush_local_all` | [`flush_local`](crate::Passive::flush_local), [`flush_local_all`](crate::Passive::flush_local_all) |
//! | `MPI_Win_sync` | [`sync`](crate::Window::sync) |
//! | `MPI_MODE_NOCHECK`, `NOSTORE`, `NOPUT`, `NOPRECEDE`, `NOSUCCEED` | [`Assert`](crate::Assert) |
//! | `MPI_PROC_NULL` | [`PROC_NULL`](crate::PROC_NULL) |
//! | `MPI_BOTTOM` | a dynamic window's [`base`](crate::RawWindow::base) is null; displacements are addresses (`MPI_Get_address` is a cast) |
//! | `MPI_Comm`, `MPI_Comm_rank`, `MPI_Comm_size`, `MPI_Barrier` | [`Job`](crate::Job), [`rank`](crate::Job::rank), [`size`](crate::Job::size), [`barrier`](crate::Job::barrier) |
//! | `MPI_Comm_create_group`, `MPI_Comm_split_type` | [`subset`](crate::Job::subset), [`node_ranks`](crate::Job::node_ranks) |
//! | `MPI_ERR_WIN`, `_BASE`, `_SIZE`, `_DISP`, `_LOCKTYPE`, `_ASSERT`, `_RANK`, `_OP`, `_TYPE`, `_COUNT` | [`Class`](crate::Class), by the same names |
//! | `MPI_ERR_RMA_CONFLICT`, `_SYNC`, `_RANGE`, `_ATTACH`, `_SHARED`, `_FLAVOR` | [`Class`](crate::Class) |
//! | `MPI_ERRORS_ARE_FATAL` and error handlers | not here: errors are returned |
//! | `no_locks`, `accumulate_ordering`, `accumulate_ops`, `same_size`, `same_disp_unit`, `alloc_shared_noncontig` | keys of [`Info`](crate::Info): [`windows`](super::windows) |
//!
//! ```
//! # fn main() -> transom::Result<()> {
//! // MPI_Win_lock_all; MPI_Fetch_and_op(MPI_SUM); MPI_Win_unlock_all, by explicit calls.
//! use transom::{Assert, BasicType, Info, Op, RawWindow};
//!
//! let world = transom::init()?;
//! let win = RawWindow::allocate(&world, 8, 1, &Info::new())?;
//! let mut before = [0xff; 8];
//! win.lock_all(Assert::NONE)?;
//! win.fetch_and_op(&5i64.to_ne_bytes(), &mut before, BasicType::Int64, world.rank(), 0, Op::Sum)?;
//! win.unlock_all()?;
//! assert_eq!(i64::from_ne_bytes(before), 0);
//! win.free()
//! # }
//! ```
