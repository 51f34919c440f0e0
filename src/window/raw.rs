//! The byte-level window: explicit epochs, displacement units per rank, buffers by address, types at run time. The typed
//! window and the C interface are made of the same parts; this one checks at run time what types say there.

use std::ops::BitOr;
use std::sync::Arc;

use transom_fabric::Memory;

use super::accumulate::{Accumulate, LARGEST, basic_type};
use super::core::Core;
use super::create::{Wanted, allocated};
use super::lock::Lock;
use super::request::Request;
use super::shared::SharedPart;
use super::target::Flavor;
use super::transfer::{Count, From, Into};
use crate::buffers::{self, Sink, Source};
use crate::datatype::Datatype;
use crate::epoch::Call;
use crate::error::{Class, Error, Result};
use crate::hints::{Info, Model};
use crate::job::{Job, Route};
use crate::plan::Actor;
use crate::reduce::{BasicType, Op};
use crate::rma::accumulate::{bytes_of, value};
use crate::rma::layout::Layout;

/// What a program promises of a synchronization call (MPI §11.5.5), to be combined by `|`. Each call takes its own:
/// fence NOSTORE, NOPUT, NOPRECEDE and NOSUCCEED; post NOCHECK, NOSTORE and NOPUT; start, lock and lock_all NOCHECK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assert(u8);

impl Assert {
    /// Nothing.
    pub const NONE: Assert = Assert(0);
    /// `MPI_MODE_NOCHECK`: nobody else holds a conflicting lock; or the matching post has come already.
    pub const NOCHECK: Assert = Assert(1);
    /// `MPI_MODE_NOSTORE`: this process did not store into its part since the last synchronization.
    pub const NOSTORE: Assert = Assert(2);
    /// `MPI_MODE_NOPUT`: nobody will put into this process's part until the next synchronization.
    pub const NOPUT: Assert = Assert(4);
    /// `MPI_MODE_NOPRECEDE`: no operation of this process precedes the fence; all ranks say so, or none.
    pub const NOPRECEDE: Assert = Assert(8);
    /// `MPI_MODE_NOSUCCEED`: no operation of this process follows the fence; all ranks say so, or none.
    pub const NOSUCCEED: Assert = Assert(16);

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Assert) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn only(self, call: &'static str, allowed: Assert) -> Result<()> {
        if allowed.has(self) {
            return Ok(());
        }
        let why = format!("{self:?} has assertions that do not belong to this call (MPI §11.5.5)");
        Err(Error::argument(Class::Assert, call, why))
    }
}

impl BitOr for Assert {
    type Output = Assert;
    fn bitor(self, other: Assert) -> Assert {
        Assert(self.0 | other.0)
    }
}

/// A window of bytes. Sizes and displacement units may differ at every rank (MPI §11.2.1).
#[derive(Debug)]
pub struct RawWindow {
    core: Arc<Core>,
}

/// So many items of a type at an address: one side of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Items<'t> {
    /// The address that the type's displacements count from.
    pub base: *mut u8,
    /// How many items.
    pub count: usize,
    /// Their type.
    pub ty: &'t Datatype,
}

impl<'t> Items<'t> {
    /// Items to be read.
    pub fn of(base: *const u8, count: usize, ty: &'t Datatype) -> Items<'t> {
        Items { base: base.cast_mut(), count, ty }
    }

    /// Items to be filled.
    pub fn of_mut(base: *mut u8, count: usize, ty: &'t Datatype) -> Items<'t> {
        Items { base, count, ty }
    }

    /// The lowest byte's offset, and the bytes from there to the highest.
    fn reach(&self) -> (i64, usize) {
        let (low, end) = self.ty.span(self.count).unwrap_or((0, 0));
        (low, usize::try_from(end - low).unwrap_or(usize::MAX))
    }

    /// # Safety
    /// The bytes of the items are readable, and nobody writes them, until the operation is complete.
    unsafe fn source(&self) -> From<'t> {
        let (low, len) = self.reach();
        #[allow(clippy::cast_possible_truncation)] // an offset within memory that exists
        let base = self.base.wrapping_offset(low as isize);
        // SAFETY: the caller's promise, for the bytes of the items; the ones between are not touched.
        let bytes = unsafe { Source::promised(base, len) };
        From { bytes, low, layout: Layout::Items(self.ty, self.count) }
    }

    /// # Safety
    /// The bytes of the items are writable, and nobody else touches them, until the operation is complete.
    unsafe fn sink(&self) -> Into<'t> {
        let (low, len) = self.reach();
        #[allow(clippy::cast_possible_truncation)] // an offset within memory that exists
        let base = self.base.wrapping_offset(low as isize);
        // SAFETY: as in `source`.
        let bytes = unsafe { Sink::promised(base, len) };
        Into { bytes, low, layout: Layout::Items(self.ty, self.count) }
    }
}

/// Where at a target: its rank, the displacement in its units, and so many items of a type from there.
#[derive(Clone, Copy, Debug)]
pub struct At<'t> {
    /// The target, or [`PROC_NULL`](crate::PROC_NULL).
    pub rank: usize,
    /// The displacement, in the target's displacement units; in a dynamic window the address.
    pub displacement: u64,
    /// How many items.
    pub count: usize,
    /// Their type.
    pub ty: &'t Datatype,
}

impl<'t> At<'t> {
    /// So many items of `ty` at `displacement` of `rank`.
    pub fn new(rank: usize, displacement: u64, count: usize, ty: &'t Datatype) -> At<'t> {
        At { rank, displacement, count, ty }
    }

    pub(super) fn layout(&self) -> Layout<'t> {
        Layout::Items(self.ty, self.count)
    }
}

/// How windows come and go.
impl RawWindow {
    /// Allocates `size` zeroed bytes at this rank, addressed by others in units of `disp_unit` bytes
    /// (`MPI_WIN_ALLOCATE`, MPI §11.2.2). Collective.
    ///
    /// # Errors
    /// `Size` where the memory can't be had, `Disp` for a unit of 0, `InfoValue` for a hint with a value that it can't have.
    pub fn allocate(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Allocate, unit: disp_unit, info };
        let core = Core::create(job, &wanted, |job, hints| allocated(job, size, hints))?;
        Ok(RawWindow { core })
    }

    /// Allocates memory that all ranks, which must be of one node, load and store: one segment in which the parts lie in the order of
    /// the ranks, or apart where the hint `alloc_shared_noncontig` allows it (`MPI_WIN_ALLOCATE_SHARED`, MPI §11.2.3). Collective.
    ///
    /// # Errors
    /// `RmaShared` where a rank is of another node; otherwise as for [`RawWindow::allocate`].
    pub fn allocate_shared(job: &Job, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Shared, unit: disp_unit, info };
        Ok(RawWindow { core: Core::create_shared(job, &wanted, size)? })
    }

    /// A window without memory, to which each rank attaches what it likes (`MPI_WIN_CREATE_DYNAMIC`, MPI §11.2.4). Displacements are
    /// addresses of the target. Collective.
    ///
    /// # Errors
    /// `InfoValue` for a hint with a value that it can't have.
    pub fn create_dynamic(job: &Job, info: &Info) -> Result<RawWindow> {
        let wanted = Wanted { flavor: Flavor::Dynamic, unit: 1, info };
        let core = Core::create(job, &wanted, |_, _| Ok(Memory::private(0)))?;
        Ok(RawWindow { core })
    }

    /// Opens `size` bytes at `base` as this rank's part (`MPI_WIN_CREATE`, MPI §11.2.1). Collective.
    ///
    /// # Errors
    /// `Base` for a null base with a size, `Disp` for a unit of 0, `InfoValue` for a hint with a value that it can't have.
    ///
    /// # Safety
    /// The memory stays readable and writable until `free` has returned `Ok`, and no Rust reference to it exists while
    /// peers may write it.
    pub unsafe fn create(job: &Job, base: *mut u8, size: usize, disp_unit: u32, info: &Info) -> Result<RawWindow> {
        let memory = match size {
            0 => Some(Memory::private(0)),
            // SAFETY: the caller's promise.
            _ => unsafe { buffers::promised_memory(base, size) },
        };
        let memory = memory
            .ok_or_else(|| Error::argument(Class::Base, "create", format!("a null base with a size of {size} bytes")));
        let wanted = Wanted { flavor: Flavor::Create, unit: disp_unit, info };
        Ok(RawWindow { core: Core::create(job, &wanted, |_, _| memory)? })
    }

    /// Attaches `size` bytes at `base` to a dynamic window (`MPI_WIN_ATTACH`, MPI §11.2.4). Local.
    ///
    /// # Errors
    /// `RmaAttach` where they overlap what is attached, or for no bytes; `RmaFlavor` for a window that is not dynamic.
    ///
    /// # Safety
    /// The memory stays readable and writable until it is detached, and no peer accesses it from then on; no Rust reference to it exists
    /// while peers may write it.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let memory = if size == 0 { None } else { unsafe { buffers::promised_memory(base, size) } };
        let none = || Error::argument(Class::RmaAttach, "attach", format!("{size} bytes at {base:p} are no memory"));
        self.core.attach(memory.ok_or_else(none)?)
    }

    /// Detaches the region that begins at `base` (`MPI_WIN_DETACH`, MPI §11.2.4). Local.
    ///
    /// # Errors
    /// `RmaAttach` where no region begins there; `RmaFlavor` for a window that is not dynamic.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.core.detach(base.addr())
    }

    /// Ends the window (`MPI_WIN_FREE`, MPI §11.2.5). Collective; detaches everything.
    ///
    /// # Errors
    /// `RmaSync` within an epoch; otherwise as for [`Window::free`](crate::Window::free).
    pub fn free(&self) -> Result<()> {
        self.core.free()
    }
}

/// Synchronization (MPI §11.5).
impl RawWindow {
    /// Ends the fence epoch and perhaps opens another (`MPI_WIN_FENCE`, MPI §11.5.1). Collective. With both NOPRECEDE and
    /// NOSUCCEED there is nothing to do, and nothing is done.
    ///
    /// # Errors
    /// `RmaSync` within another epoch; `Assert` for NOCHECK, or for NOPRECEDE after operations; an operation that could not be completed.
    pub fn fence(&self, assert: Assert) -> Result<()> {
        let own = Assert::NOSTORE | Assert::NOPUT | Assert::NOPRECEDE | Assert::NOSUCCEED;
        assert.only("fence", own)?;
        if assert.has(Assert::NOPRECEDE) && self.core.in_fence_epoch() {
            let why = "NOPRECEDE, but operations of this process precede the fence (MPI §11.5.5)";
            return Err(Error::argument(Class::Assert, "fence", why));
        }
        let call = if assert.has(Assert::NOSUCCEED) { Call::LastFence } else { Call::Fence };
        self.core.step("fence", call)?;
        if assert.has(Assert::NOPRECEDE | Assert::NOSUCCEED) { Ok(()) } else { self.core.fence() }
    }

    /// Exposes this rank's part to `origins` (`MPI_WIN_POST`, MPI §11.5.2). It does not wait.
    ///
    /// # Errors
    /// `RmaSync` within an exposure epoch or a fence epoch with operations; `Rank` for a group that can't be; `Assert`.
    pub fn post(&self, origins: &[usize], assert: Assert) -> Result<()> {
        assert.only("post", Assert::NOCHECK | Assert::NOSTORE | Assert::NOPUT)?;
        self.core.post(origins, !assert.has(Assert::NOCHECK))
    }

    /// Opens an access epoch to `targets` (`MPI_WIN_START`, MPI §11.5.2). It does not wait: the first operation on a
    /// target waits for its post, and [`RawWindow::complete`] for those without operations.
    ///
    /// # Errors
    /// `RmaSync` within another access epoch; `Rank` for a group that can't be; `Assert`.
    pub fn start(&self, targets: &[usize], assert: Assert) -> Result<()> {
        assert.only("start", Assert::NOCHECK)?;
        self.core.start(targets, !assert.has(Assert::NOCHECK))
    }

    /// Ends the epoch of [`RawWindow::start`] (`MPI_WIN_COMPLETE`): its operations are complete at both sides.
    ///
    /// # Errors
    /// `RmaSync` without `start`; an operation that could not be completed.
    pub fn complete(&self) -> Result<()> {
        self.core.complete()
    }

    /// Ends the epoch of [`RawWindow::post`] when all its origins have completed (`MPI_WIN_WAIT`).
    ///
    /// # Errors
    /// `RmaSync` without `post`; a transport that failed.
    pub fn wait(&self) -> Result<()> {
        self.core.wait()
    }

    /// Ends the epoch of [`RawWindow::post`] if all its origins have completed; whether they have (`MPI_WIN_TEST`).
    ///
    /// # Errors
    /// As for [`RawWindow::wait`].
    pub fn test(&self) -> Result<bool> {
        self.core.test()
    }

    /// Opens a passive access epoch to `target` (`MPI_WIN_LOCK`, MPI §11.5.3); several targets may be locked at once.
    ///
    /// # Errors
    /// `RmaSync` within another epoch, or where the target is locked by this process; `LockType` where the info says
    /// `no_locks`; `Rank`; `Assert`.
    pub fn lock(&self, kind: Lock, target: usize, assert: Assert) -> Result<()> {
        assert.only("lock", Assert::NOCHECK)?;
        self.core.lock(kind, target, !assert.has(Assert::NOCHECK))
    }

    /// Completes everything to `target` at both sides and ends its epoch (`MPI_WIN_UNLOCK`).
    ///
    /// # Errors
    /// `RmaSync` where it is not locked; an operation that could not be completed: the lock is given up all the same.
    pub fn unlock(&self, target: usize) -> Result<()> {
        self.core.unlock(target)
    }

    /// Opens a passive access epoch to all ranks (`MPI_WIN_LOCK_ALL`, MPI §11.5.3). Not collective; one remote operation, none
    /// with NOCHECK.
    ///
    /// # Errors
    /// As for [`RawWindow::lock`].
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        assert.only("lock_all", Assert::NOCHECK)?;
        self.core.lock_all(!assert.has(Assert::NOCHECK))
    }

    /// Completes everything and ends the epoch (`MPI_WIN_UNLOCK_ALL`).
    ///
    /// # Errors
    /// `RmaSync` without `lock_all`; an operation that could not be completed.
    pub fn unlock_all(&self) -> Result<()> {
        self.core.unlock_all()
    }

    /// Completes operations to `target` at both sides (`MPI_WIN_FLUSH`, MPI §11.5.4).
    ///
    /// # Errors
    /// `RmaSync` outside a passive epoch, `Rank`, an operation that could not be completed.
    #[inline]
    pub fn flush(&self, target: usize) -> Result<()> {
        self.core.may_flush("flush", target)?;
        self.core.flush("flush", target)
    }

    /// Completes operations to all targets at both sides (`MPI_WIN_FLUSH_ALL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.core.check("flush_all", Call::FlushAll)?;
        self.core.flush_all()
    }

    /// Completes operations to `target` at this side: its buffers may be used again (`MPI_WIN_FLUSH_LOCAL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local(&self, target: usize) -> Result<()> {
        self.core.may_flush("flush_local", target)?;
        self.core.flush("flush_local", target)
    }

    /// Completes operations to all targets at this side (`MPI_WIN_FLUSH_LOCAL_ALL`).
    ///
    /// # Errors
    /// As for [`RawWindow::flush`].
    #[inline]
    pub fn flush_local_all(&self) -> Result<()> {
        self.core.check("flush_local_all", Call::FlushAll)?;
        self.core.flush_all()
    }

    /// Orders this rank's own accesses with those of others; in the separate model it brings both copies together
    /// (`MPI_WIN_SYNC`, MPI §11.5.4).
    pub fn sync(&self) {
        self.core.sync();
    }
}

/// Operations (MPI §11.3). Those on [`PROC_NULL`](crate::PROC_NULL) do nothing.
impl RawWindow {
    /// Puts `len` bytes from `origin` at `displacement` of `target` (`MPI_PUT`, MPI §11.3.1).
    ///
    /// # Errors
    /// `RmaSync` outside an access epoch, `Rank`, `RmaRange`; nothing is written.
    ///
    /// # Safety
    /// `origin` is readable for `len` bytes, and nobody writes them, until the operation is complete at this side.
    #[inline]
    pub unsafe fn put(&self, origin: *const u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        self.core.begin("put", target)?;
        // SAFETY: the caller's promise.
        self.core.put(target, displacement, unsafe { Source::promised(origin, len) }, Count::Target)
    }

    /// Gets `len` bytes into `origin` (`MPI_GET`, MPI §11.3.2).
    ///
    /// # Errors
    /// As for [`RawWindow::put`].
    ///
    /// # Safety
    /// `origin` is writable for `len` bytes, and nobody else touches them, until the operation is complete.
    #[inline]
    pub unsafe fn get(&self, origin: *mut u8, len: usize, target: usize, displacement: u64) -> Result<()> {
        self.core.begin("get", target)?;
        // SAFETY: the caller's promise.
        self.core.get(target, displacement, unsafe { Sink::promised(origin, len) }, Count::Target)
    }

    /// Puts items of a type as items of another with the same signature (`MPI_PUT`).
    ///
    /// # Errors
    /// As for [`RawWindow::put`]; `Type` where the signatures differ, or items of the target overlap.
    ///
    /// # Safety
    /// As for [`RawWindow::put`], for the bytes of the items.
    pub unsafe fn put_items(&self, origin: Items<'_>, target: At<'_>) -> Result<()> {
        self.core.begin("put", target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        self.core.put_layout(target.rank, target.displacement, &from, &target.layout(), Count::Target)
    }

    /// Gets items of a type as items of another with the same signature (`MPI_GET`).
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`].
    ///
    /// # Safety
    /// As for [`RawWindow::get`], for the bytes of the items.
    pub unsafe fn get_items(&self, origin: Items<'_>, target: At<'_>) -> Result<()> {
        self.core.begin("get", target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        self.core.get_layout(target.rank, target.displacement, &into, &target.layout(), Count::Target)
    }

    /// Combines the target's elements with the origin's (`MPI_ACCUMULATE`, MPI §11.3.4.1): atomic for each element with the whole
    /// family on the same type.
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`]; `Op` where the operation is not defined on the type; `Type` where a type is not of
    /// one predefined type, or an element is misaligned.
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`].
    pub unsafe fn accumulate(&self, origin: Items<'_>, target: At<'_>, op: Op) -> Result<()> {
        self.core.begin("accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        unsafe { self.combine("accumulate", Some(origin), None, target, op, Count::Target) }
    }

    /// [`RawWindow::accumulate`] that also gets the values from before (`MPI_GET_ACCUMULATE`, MPI §11.3.4.2). `origin` is not looked
    /// at for `MPI_NO_OP`.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate`].
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`], and as for [`RawWindow::get_items`] for `result`, which does not overlap `origin`.
    pub unsafe fn get_accumulate(&self, origin: Items<'_>, result: Items<'_>, target: At<'_>, op: Op) -> Result<()> {
        self.core.begin("get_accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        unsafe { self.combine("get_accumulate", Some(origin), Some(result), target, op, Count::Target) }
    }

    /// Combines one element and waits for its value from before (`MPI_FETCH_AND_OP`, MPI §11.3.4.3). `operand` and the result are the
    /// element's bytes; for `PROC_NULL` the result is left alone.
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate`]; `Count` where a slice is not one element long.
    pub fn fetch_and_op(
        &self,
        operand: &[u8],
        result: &mut [u8],
        ty: BasicType,
        target: usize,
        displacement: u64,
        op: Op,
    ) -> Result<()> {
        const CALL: &str = "fetch_and_op";
        self.core.begin(CALL, target)?;
        one_element(CALL, ty, if op == Op::NoOp { result.len() } else { operand.len() })?;
        one_element(CALL, ty, result.len())?;
        if !op.allows(ty) {
            return Err(Error::argument(Class::Op, CALL, format!("{} is not defined on {}", op.name(), ty.name())));
        }
        let nothing = [0; LARGEST];
        let operand = if op == Op::NoOp { &nothing[..ty.size()] } else { operand };
        if target == crate::PROC_NULL {
            return Ok(());
        }
        if ty.size() > 8 {
            return self.core.fetch_bytes(target, displacement, op, ty, operand, result);
        }
        let old = self.core.fetch_op(target, displacement, op, ty, value(operand))?;
        result.copy_from_slice(bytes_of(&old.to_ne_bytes(), ty.size()));
        Ok(())
    }

    /// Stores `new` where `expected` is found; waits for the value from before (`MPI_COMPARE_AND_SWAP`, MPI §11.3.4.4). All are one
    /// element's bytes.
    ///
    /// # Errors
    /// As for [`RawWindow::fetch_and_op`]; `Type` for a type that MPI does not allow here: integers, logical and byte.
    pub fn compare_and_swap(
        &self,
        new: &[u8],
        expected: &[u8],
        result: &mut [u8],
        ty: BasicType,
        target: usize,
        displacement: u64,
    ) -> Result<()> {
        const CALL: &str = "compare_and_swap";
        self.core.begin(CALL, target)?;
        for len in [new.len(), expected.len(), result.len()] {
            one_element(CALL, ty, len)?;
        }
        if !Op::allows_compare_and_swap(ty) {
            return Err(Error::argument(Class::Type, CALL, format!("it is not defined on {}", ty.name())));
        }
        if target == crate::PROC_NULL {
            return Ok(());
        }
        let old = self.core.compare_swap(target, displacement, ty, value(expected), value(new))?;
        result.copy_from_slice(bytes_of(&old.to_ne_bytes(), ty.size()));
        Ok(())
    }

    /// # Safety
    /// As for the public calls.
    unsafe fn combine(
        &self,
        call: &'static str,
        origin: Option<Items<'_>>,
        result: Option<Items<'_>>,
        target: At<'_>,
        op: Op,
        count: Count<'_>,
    ) -> Result<()> {
        let ty = match target.count {
            0 => target.ty.uniform().unwrap_or(BasicType::Byte),
            _ => basic_type(call, target.ty)?,
        };
        // SAFETY: the caller's promise.
        let (from, into) = unsafe {
            (origin.filter(|_| op != Op::NoOp).map(|origin| origin.source()), result.map(|result| result.sink()))
        };
        let accumulate = Accumulate { call, op, ty, from, into, to: target.layout() };
        self.core.accumulate(target.rank, target.displacement, &accumulate, count)
    }
}

/// Request-based operations (MPI §11.3.5), in passive epochs only. A request is complete when its buffers may be used again; for the get
/// forms, when the data is there.
impl RawWindow {
    /// [`RawWindow::put_items`] with a request (`MPI_RPUT`).
    ///
    /// # Errors
    /// As for [`RawWindow::put_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::put_items`].
    pub unsafe fn rput(&self, origin: Items<'_>, target: At<'_>) -> Result<Request> {
        self.core.begin_request("rput", target.rank)?;
        // SAFETY: the caller's promise.
        let from = unsafe { origin.source() };
        self.requested(|count| self.core.put_layout(target.rank, target.displacement, &from, &target.layout(), count))
    }

    /// [`RawWindow::get_items`] with a request (`MPI_RGET`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_items`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::get_items`].
    pub unsafe fn rget(&self, origin: Items<'_>, target: At<'_>) -> Result<Request> {
        self.core.begin_request("rget", target.rank)?;
        // SAFETY: the caller's promise.
        let into = unsafe { origin.sink() };
        self.requested(|count| self.core.get_layout(target.rank, target.displacement, &into, &target.layout(), count))
    }

    /// [`RawWindow::accumulate`] with a request (`MPI_RACCUMULATE`).
    ///
    /// # Errors
    /// As for [`RawWindow::accumulate`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::accumulate`].
    pub unsafe fn raccumulate(&self, origin: Items<'_>, target: At<'_>, op: Op) -> Result<Request> {
        self.core.begin_request("raccumulate", target.rank)?;
        // SAFETY: the caller's promise.
        self.requested(|count| unsafe { self.combine("raccumulate", Some(origin), None, target, op, count) })
    }

    /// [`RawWindow::get_accumulate`] with a request (`MPI_RGET_ACCUMULATE`).
    ///
    /// # Errors
    /// As for [`RawWindow::get_accumulate`]; `RmaSync` outside a passive epoch.
    ///
    /// # Safety
    /// As for [`RawWindow::get_accumulate`].
    pub unsafe fn rget_accumulate(
        &self,
        origin: Items<'_>,
        result: Items<'_>,
        target: At<'_>,
        op: Op,
    ) -> Result<Request> {
        self.core.begin_request("rget_accumulate", target.rank)?;
        // SAFETY: the caller's promise.
        self.requested(|count| unsafe {
            self.combine("rget_accumulate", Some(origin), Some(result), target, op, count)
        })
    }

    fn requested(&self, post: impl FnOnce(Count<'_>) -> Result<()>) -> Result<Request> {
        let mut tally = None;
        post(Count::Request(&mut tally))?;
        Ok(Request::new(&self.core.job, tally))
    }
}

/// What a window is (MPI §11.2.6).
impl RawWindow {
    /// The first byte of this rank's part, which is its private copy in the separate model (`MPI_WIN_BASE`); null for a dynamic window
    /// (`MPI_BOTTOM`).
    pub fn base(&self) -> *mut u8 {
        if self.core.flavor == Flavor::Dynamic { std::ptr::null_mut() } else { self.core.local().as_ptr() }
    }

    /// The bytes of this rank's part (`MPI_WIN_SIZE`); 0 for a dynamic window.
    pub fn size(&self) -> usize {
        self.core.memory.len()
    }

    /// This rank's displacement unit in bytes (`MPI_WIN_DISP_UNIT`); 1 for a dynamic window.
    pub fn disp_unit(&self) -> u32 {
        self.core.part.unit
    }

    /// How the window came to its memory (`MPI_WIN_CREATE_FLAVOR`).
    pub fn flavor(&self) -> Flavor {
        self.core.flavor
    }

    /// Its memory model (`MPI_WIN_MODEL`).
    pub fn model(&self) -> Model {
        self.core.model()
    }

    /// Its ranks, as ranks of the whole job (`MPI_WIN_GET_GROUP`).
    pub fn group(&self) -> Vec<usize> {
        self.core.group()
    }

    /// All hints with the values in force (`MPI_WIN_GET_INFO`, MPI §11.2.7).
    pub fn info(&self) -> Info {
        self.core.info()
    }

    /// Changes hints (`MPI_WIN_SET_INFO`): `no_locks`, `accumulate_ordering`, `accumulate_ops`, `same_size` and `same_disp_unit`; others
    /// were decided at creation and stay. Collective: all ranks give the same.
    ///
    /// # Errors
    /// `InfoValue` for a value that can't be; then nothing changes.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.core.set_info(info)
    }

    /// The part of `rank` as this process loads and stores it, or for `PROC_NULL` of the lowest rank whose part has bytes
    /// (`MPI_WIN_SHARED_QUERY`, MPI §11.2.3).
    ///
    /// # Errors
    /// `RmaShared` where load and store do not reach it; `RmaFlavor` for a dynamic window; `Rank`.
    pub fn shared_query(&self, rank: usize) -> Result<SharedPart> {
        self.core.shared_query(rank)
    }

    /// Loads bytes of this rank's part.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        self.core.local().read(at, into);
    }

    /// Stores bytes into this rank's part.
    ///
    /// # Panics
    /// Outside this rank's part.
    pub fn store(&self, at: usize, from: &[u8]) {
        self.core.local().write(at, from);
    }

    /// The way to a rank.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn route(&self, rank: usize) -> Result<Route> {
        self.core.route(rank)
    }

    /// Who performs atomics on integers of 32 and 64 bits; on all other types it is the CPU.
    pub fn actor(&self) -> Actor {
        self.core.actor()
    }
}

fn one_element(call: &'static str, ty: BasicType, len: usize) -> Result<()> {
    if len == ty.size() {
        return Ok(());
    }
    let why = format!("{len} bytes are not one element of {}, which has {}", ty.name(), ty.size());
    Err(Error::argument(Class::Count, call, why))
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        Core::abandon(&self.core);
    }
}
