//! Byte-level windows for tests of operations. A window of any flavor is used in the same way:
//! equal bytes at equal offsets, and operations that are complete on return, so that callers need
//! no unsafe code. Contains no checks.

use std::ptr::NonNull;

use transom::{
    Actor, Assert, At, BasicType, Class, CompareSwap, Datatype, Error, Flavor, Info, Items, Job, Notice, Op, RawWindow,
    Result, Window,
};
use transom_harness::gathered;

/// Every flavor.
pub(crate) const FLAVORS: [Flavor; 4] = [Flavor::Allocate, Flavor::Create, Flavor::Dynamic, Flavor::Shared];

/// Alignment of user memory: the blocks of the library's locks begin somewhere within it.
const ALIGN: usize = 16;

/// A byte-level window with an open passive-target epoch to all ranks.
#[derive(Debug)]
pub(crate) struct ByteWindow {
    win: RawWindow,
    bytes: usize,
    /// The displacement at which each rank's part begins.
    begins: Vec<u64>,
    /// The memory of a created or dynamic window.
    user: Option<NonNull<[u128]>>,
    /// Another window over this memory, for [`ByteWindow::of_two_actors`].
    second: Option<RawWindow>,
}

/// Items of a type in a buffer or in a rank's part. `zero` is the position of the type's offset 0,
/// so that items with negative offsets fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'t> {
    /// The position of the type's offset 0.
    pub(crate) zero: usize,
    /// The number of items.
    pub(crate) count: usize,
    /// The type of an item.
    pub(crate) ty: &'t Datatype,
}

/// A buffer that is read, and its items.
pub(crate) type Source<'a> = (&'a [u8], Shape<'a>);
/// A buffer that is filled, and its items.
pub(crate) type Sink<'a> = (&'a mut [u8], Shape<'a>);
/// A location in the window: a rank, an offset in its part, and the items there.
pub(crate) type Location<'t> = (usize, usize, Shape<'t>);

impl<'t> Shape<'t> {
    /// Items from the beginning of a buffer.
    pub(crate) fn new(count: usize, ty: &'t Datatype) -> Shape<'t> {
        Shape { zero: 0, count, ty }
    }

    fn items(&self, base: *mut u8, len: usize) -> Items<'t> {
        let (low, end) = self.ty.span(self.count).unwrap_or((0, 0));
        let zero = i64::try_from(self.zero).expect("small");
        assert!(zero + low >= 0 && zero + end <= i64::try_from(len).expect("small"), "{self:?} in {len} bytes");
        Items { base: base.wrapping_add(self.zero), count: self.count, ty: self.ty }
    }
}

/// An accumulate of contiguous elements for [`ByteWindow::accumulate_all`].
#[derive(Debug)]
pub(crate) struct AccumulateCall<'b> {
    /// The operands.
    pub(crate) operand: &'b [u8],
    /// The buffer for the previous values, if they are wanted.
    pub(crate) old: Option<&'b mut [u8]>,
    /// The operation.
    pub(crate) op: Op,
}

/// An operation with a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    Put,
    Get,
    Accumulate(Op),
    GetAccumulate(Op),
}

impl ByteWindow {
    /// A window of `bytes` zeroed bytes at each rank; `None` for a shared one where ranks are on
    /// several nodes.
    pub(crate) fn new(world: &Job, flavor: Flavor, bytes: usize, info: &Info) -> Result<Option<ByteWindow>> {
        let user = matches!(flavor, Flavor::Create | Flavor::Dynamic)
            .then(|| NonNull::from(Box::leak(vec![0u128; bytes.div_ceil(ALIGN)].into_boxed_slice())));
        let base = user.map_or(std::ptr::null_mut(), |memory| memory.as_ptr().cast::<u8>());
        let win = match flavor {
            Flavor::Allocate => RawWindow::allocate(world, bytes, 1, info)?,
            Flavor::Shared => match if_shareable(world, RawWindow::allocate_shared(world, bytes, 1, info))? {
                Some(win) => win,
                None => return Ok(None),
            },
            // SAFETY: the memory is leaked until `free` takes it back, and only windows access it.
            Flavor::Create => unsafe { RawWindow::create(world, base, bytes, 1, info)? },
            // Dynamic.
            _ => {
                let win = RawWindow::create_dynamic(world, info)?;
                // SAFETY: the memory is leaked until `free` takes it back, and only windows access
                // it.
                unsafe { win.attach(base, bytes)? };
                win
            }
        };
        let begin = if flavor == Flavor::Dynamic { base.addr() as u64 } else { 0 };
        let begins = gathered(world, begin)?;
        win.lock_all(Assert::NONE)?;
        Ok(Some(ByteWindow { win, bytes, begins, user, second: None }))
    }

    /// A created window that begins `skew` bytes, at most 16, after an address that is a multiple
    /// of 16.
    pub(crate) fn skewed(world: &Job, bytes: usize, skew: usize) -> Result<ByteWindow> {
        let user = NonNull::from(Box::leak(vec![0u128; bytes.div_ceil(ALIGN) + 1].into_boxed_slice()));
        let base = user.as_ptr().cast::<u8>().wrapping_add(skew);
        // SAFETY: the memory is leaked until `free` takes it back, and only windows access it.
        let win = unsafe { RawWindow::create(world, base, bytes, 1, &Info::new())? };
        win.lock_all(Assert::NONE)?;
        Ok(ByteWindow { win, bytes, begins: vec![0; world.size()], user: Some(user), second: None })
    }

    /// A configuration that the library must never have: even ranks use the net's atomics and the
    /// others the CPU's, on the same elements. Two created windows over the same memory, of which
    /// each rank uses one.
    pub(crate) fn of_two_actors(world: &Job, bytes: usize) -> Result<ByteWindow> {
        let user = NonNull::from(Box::leak(vec![0u128; bytes.div_ceil(ALIGN)].into_boxed_slice()));
        let create = |actor| {
            let info = Info::new().with("transom_atomics", actor);
            // SAFETY: the memory is leaked until `free` takes it back, and only windows access it.
            let win = unsafe { RawWindow::create(world, user.as_ptr().cast::<u8>(), bytes, 1, &info)? };
            win.lock_all(Assert::NONE).map(|()| win)
        };
        let (mut win, mut second) = (create("nic")?, create("cpu")?);
        if !world.rank().is_multiple_of(2) {
            std::mem::swap(&mut win, &mut second);
        }
        Ok(ByteWindow { win, bytes, begins: vec![0; world.size()], user: Some(user), second: Some(second) })
    }

    /// The bytes of each rank's part.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The displacement of a byte of a rank's part.
    pub(crate) fn at(&self, rank: usize, offset: usize) -> u64 {
        self.begins.get(rank).map_or(0, |begin| begin + offset as u64)
    }

    /// The window, for safe calls.
    pub(crate) fn raw(&self) -> &RawWindow {
        &self.win
    }

    /// Puts bytes.
    pub(crate) fn write(&self, rank: usize, offset: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the flush completes it while `bytes` is borrowed.
        unsafe { self.win.put(bytes.as_ptr(), bytes.len(), rank, self.at(rank, offset))? };
        self.win.flush(rank)
    }

    /// Gets bytes.
    pub(crate) fn read(&self, rank: usize, offset: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0xee; len];
        // SAFETY: the flush completes it while `bytes` is borrowed.
        unsafe { self.win.get(bytes.as_mut_ptr(), len, rank, self.at(rank, offset))? };
        self.win.flush(rank)?;
        Ok(bytes)
    }

    /// Puts items of `data` as items of the target.
    pub(crate) fn put(&self, data: &[u8], from: Shape<'_>, rank: usize, offset: usize, to: Shape<'_>) -> Result<()> {
        // SAFETY: `source` has checked the span; the flush completes it while `data` is borrowed.
        unsafe { self.win.put_items(source((data, from)), self.target((rank, offset, to)))? };
        self.win.flush(rank)
    }

    /// Puts static bytes, without waiting.
    pub(crate) fn start_put(&self, data: &'static [u8], rank: usize, offset: usize) -> Result<()> {
        // SAFETY: the bytes are static and outlive every operation.
        unsafe { self.win.put(data.as_ptr(), data.len(), rank, self.at(rank, offset)) }
    }

    /// Gets items of the target into items of `data`.
    pub(crate) fn get(
        &self,
        data: &mut [u8],
        into: Shape<'_>,
        rank: usize,
        offset: usize,
        from: Shape<'_>,
    ) -> Result<()> {
        // SAFETY: the span was checked; the flush completes it while `data` is borrowed.
        unsafe { self.win.get_items(sink((data, into)), self.target((rank, offset, from)))? };
        self.win.flush(rank)
    }

    /// Accumulates items of a buffer on items of the target.
    pub(crate) fn accumulate(&self, from: Source<'_>, to: Location<'_>, op: Op) -> Result<()> {
        let target = self.target(to);
        // SAFETY: the span was checked; the flush completes it while the buffer is borrowed.
        unsafe { self.win.accumulate_items(source(from), target, op)? };
        self.win.flush(target.rank)
    }

    /// Accumulates as [`ByteWindow::accumulate`], and gets the previous values as items of another
    /// buffer.
    pub(crate) fn get_accumulate(&self, from: Source<'_>, into: Sink<'_>, to: Location<'_>, op: Op) -> Result<()> {
        let target = self.target(to);
        // SAFETY: both spans were checked; the flush completes it while both buffers are borrowed.
        unsafe { self.win.get_accumulate_items(source(from), sink(into), target, op)? };
        self.win.flush(target.rank)
    }

    /// [`ByteWindow::accumulate`] by its request form.
    pub(crate) fn raccumulate(&self, from: Source<'_>, to: Location<'_>, op: Op) -> Result<()> {
        let target = self.target(to);
        // SAFETY: the span was checked; the request is waited for, and the flush completes it at
        // the target, while the buffer is borrowed.
        unsafe { self.win.raccumulate_items(source(from), target, op)?.wait()? };
        self.win.flush(target.rank)
    }

    /// [`ByteWindow::get_accumulate`] in its request form: the values are there when the request is
    /// complete.
    pub(crate) fn rget_accumulate(&self, from: Source<'_>, into: Sink<'_>, to: Location<'_>, op: Op) -> Result<()> {
        // SAFETY: both spans were checked; the wait completes it while both buffers are borrowed.
        unsafe { self.win.rget_accumulate_items(source(from), sink(into), self.target(to), op)?.wait() }
    }

    /// An operation that adds one to a counter of the target. It reads `from`, or fills `into`, or
    /// both. `is_request` selects the request form.
    pub(crate) fn notified(
        &self,
        call: Notified,
        from: Source<'_>,
        into: Sink<'_>,
        to: Location<'_>,
        notice: Notice,
        is_request: bool,
    ) -> Result<()> {
        let (target, from, into) = (self.target(to), source(from), sink(into));
        // SAFETY: both spans were checked; the wait and the flush complete the operation while both
        // buffers are borrowed.
        let request = unsafe {
            match (call, is_request) {
                (Notified::Put, false) => self.win.put_items_notify(from, target, notice).map(|()| None),
                (Notified::Get, false) => self.win.get_items_notify(into, target, notice).map(|()| None),
                (Notified::Accumulate(op), false) => {
                    self.win.accumulate_items_notify(from, target, op, notice).map(|()| None)
                }
                (Notified::GetAccumulate(op), false) => {
                    self.win.get_accumulate_items_notify(from, into, target, op, notice).map(|()| None)
                }
                (Notified::Put, true) => self.win.rput_items_notify(from, target, notice).map(Some),
                (Notified::Get, true) => self.win.rget_items_notify(into, target, notice).map(Some),
                (Notified::Accumulate(op), true) => {
                    self.win.raccumulate_items_notify(from, target, op, notice).map(Some)
                }
                (Notified::GetAccumulate(op), true) => {
                    self.win.rget_accumulate_items_notify(from, into, target, op, notice).map(Some)
                }
            }
        };
        let waited = request.and_then(|request| request.map_or(Ok(()), |mut request| request.wait()));
        self.win.flush(target.rank)?;
        waited
    }

    /// Posts all calls on elements of a type at one location, and waits only after the last one, so
    /// that all are in flight together.
    pub(crate) fn accumulate_all(
        &self,
        calls: &mut [AccumulateCall<'_>],
        ty: &Datatype,
        rank: usize,
        offset: usize,
    ) -> Result<()> {
        let posted = calls.iter_mut().try_for_each(|call| {
            let shape = Shape::new(call.operand.len() / usize::try_from(ty.extent()).expect("small"), ty);
            let (from, target) = (source((call.operand, shape)), self.target((rank, offset, shape)));
            match &mut call.old {
                // SAFETY: the span was checked; the flush below completes it while the buffer is
                // borrowed.
                None => unsafe { self.win.accumulate_items(from, target, call.op) },
                // SAFETY: both spans were checked; the flush below completes it while both buffers
                // are borrowed.
                Some(old) => unsafe { self.win.get_accumulate_items(from, sink((old, shape)), target, call.op) },
            }
        });
        self.win.flush(rank)?;
        posted
    }

    /// `fetch_and_op` of one element; returns its previous value. Padding is 0xee.
    pub(crate) fn fetch(&self, operand: &[u8], ty: BasicType, rank: usize, offset: usize, op: Op) -> Result<Vec<u8>> {
        let (mut old, size) = (vec![0xee; ty.extent()], ty.size());
        let operand = if operand.len() == ty.extent() { &operand[..size] } else { operand };
        self.win.fetch_and_op(operand, &mut old[..size], ty, rank, self.at(rank, offset), op)?;
        Ok(old)
    }

    /// [`ByteWindow::fetch`] by the call that does not wait, for types of at most 8 bytes.
    pub(crate) fn start_fetch(
        &self,
        operand: &[u8],
        ty: BasicType,
        rank: usize,
        offset: usize,
        op: Op,
    ) -> Result<Vec<u8>> {
        let (mut old, at) = (vec![0xee; ty.extent()], self.at(rank, offset));
        // SAFETY: the flush completes it while both buffers live.
        unsafe { self.win.start_fetch_and_op(operand.as_ptr(), old.as_mut_ptr(), ty, rank, at, op)? };
        self.win.flush(rank)?;
        Ok(old)
    }

    /// `compare_and_swap` of one element; returns its previous value.
    pub(crate) fn swap(
        &self,
        new: &[u8],
        expected: &[u8],
        ty: BasicType,
        rank: usize,
        offset: usize,
    ) -> Result<Vec<u8>> {
        let mut old = vec![0xee; ty.size()];
        self.win.compare_and_swap(CompareSwap { expected, new }, &mut old, ty, rank, self.at(rank, offset))?;
        Ok(old)
    }

    /// Ends the epoch and the window, and returns the window's memory.
    pub(crate) fn free(self) -> Result<()> {
        let mut windows: Vec<_> = std::iter::once(self.win).chain(self.second).collect();
        // In one order at all ranks.
        windows.sort_by_key(|win| win.actor() == Actor::Cpu);
        for win in windows {
            win.unlock_all()?;
            win.free()?;
        }
        // SAFETY: `new` leaked the memory, and the window that used it has ended.
        drop(self.user.map(|memory| unsafe { Box::from_raw(memory.as_ptr()) }));
        Ok(())
    }

    fn target<'t>(&self, (rank, offset, shape): Location<'t>) -> At<'t> {
        At::new(rank, self.at(rank, offset + shape.zero), shape.count, shape.ty)
    }
}

fn source<'a>((data, shape): Source<'a>) -> Items<'a> {
    shape.items(data.as_ptr().cast_mut(), data.len())
}

fn sink<'a>((data, shape): Sink<'a>) -> Items<'a> {
    shape.items(data.as_mut_ptr(), data.len())
}

/// A shared window; `None` where ranks are on several nodes, which is refused.
pub(crate) fn if_shareable<W>(world: &Job, made: Result<W>) -> Result<Option<W>> {
    match made {
        Err(error) if error.class() == Class::RmaShared && world.node_ranks().len() < world.size() => Ok(None),
        made => made.map(Some),
    }
}

/// Each flavor with the hints that select the atomicity discipline: block locks, and the CPU's
/// atomics for each element. On a net with atomics also those of the net, for the flavors on which
/// it performs any; where the net's atomics are the default, the CPU's on request.
pub(crate) fn disciplines(world: &Job) -> Vec<(Flavor, Info)> {
    let by_elements = Info::new().with("mpi_accumulate_granularity", "8");
    let mut all = Vec::from(FLAVORS.map(|flavor| (flavor, Info::new())));
    all.extend(FLAVORS.map(|flavor| (flavor, by_elements.clone())));
    let [cpu, nic] = ["cpu", "nic"].map(|actor| Info::new().with("transom_atomics", actor));
    if world.actor() != Actor::Cpu {
        all.extend([Flavor::Allocate, Flavor::Create].map(|flavor| (flavor, cpu.clone())));
        return all;
    }
    if world.net().is_some()
        && let Ok(win) = Window::<u64>::allocate_with(world, 1, &nic)
        && win.free().is_ok()
    {
        all.extend([Flavor::Allocate, Flavor::Create].map(|flavor| (flavor, nic.clone())));
    }
    all
}

/// The targets of an origin: itself and the last rank.
pub(crate) fn targets(world: &Job) -> Vec<usize> {
    if world.size() == 1 { vec![0] } else { vec![0, world.size() - 1] }
}

/// The class of the error that a call must return.
pub(crate) fn class<T>(done: Result<T>) -> Option<Class> {
    done.err().as_ref().map(Error::class)
}
