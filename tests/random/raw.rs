//! The epochs of the byte-level window by explicit calls, for random programs: only the calls that
//! MPI names complete the operations in flight.

#![allow(unsafe_code)]

use transom::{Assert, At, BasicType, Datatype, Info, Items, Job, Lock, Notice, Notices, Op, RawWindow};
use transom_harness::gathered;

use super::memory::Block;
use super::program::{BLOCK, Effect, LEN, Phase, Shape, Sync, UNORDERED, layouts};
use super::run::{Epoch, ProgramWindow, Rank, epochs, every};

const WORD: usize = 8;

/// A window, and the displacement of each rank's part in it.
pub(super) struct Raw {
    win: RawWindow,
    bases: Vec<u64>,
    /// The memory of a dynamic window.
    attached: Option<Block>,
}

impl Raw {
    pub(super) fn new(job: &Job, kind: u64) -> transom::Result<Raw> {
        let info = match kind {
            2 => Info::new().with("mpi_accumulate_granularity", "8"),
            UNORDERED => Info::new().with("accumulate_ordering", "none"),
            _ => Info::new(),
        };
        if kind != 1 {
            let win = RawWindow::allocate(job, LEN * WORD, 1, &info)?;
            return Ok(Raw { win, bases: vec![0; job.size()], attached: None });
        }
        let (win, block) = (RawWindow::create_dynamic(job, &info)?, Block::words(LEN));
        block.attach(&win, 0, block.len())?;
        let bases = gathered(job, block.address(0))?;
        Ok(Raw { win, bases, attached: Some(block) })
    }

    fn at(&self, target: usize, element: usize) -> u64 {
        self.bases[target] + (element * WORD) as u64
    }
}

impl ProgramWindow for Raw {
    fn load(&self, into: &mut [u64]) -> transom::Result<()> {
        match &self.attached {
            Some(block) => block.load(0, bytemuck::cast_slice_mut(into)),
            None => self.win.load(0, bytemuck::cast_slice_mut(into)),
        }
        Ok(())
    }

    fn store(&self, first: usize, from: &[u64]) -> transom::Result<()> {
        match &self.attached {
            Some(block) => block.store(first * WORD, bytemuck::cast_slice(from)),
            None => self.win.store(first * WORD, bytemuck::cast_slice(from)),
        }
        Ok(())
    }

    fn sync(&self) {
        self.win.sync();
    }

    fn notices(&self) -> Notices<'_> {
        self.win.notices()
    }

    fn num_notify(&self, rank: usize) -> transom::Result<usize> {
        self.win.num_notify(rank)
    }

    fn set_num_notify(&self, number: usize) -> transom::Result<()> {
        self.win.set_num_notify(number)
    }

    fn epoch(&self, job: &Job, phase: &Phase, rank: &mut Rank, lent: &mut [Vec<u64>]) -> transom::Result<()> {
        let (win, me, sync) = (&self.win, job.rank(), phase.syncs[job.rank()]);
        let open = Open { raw: self, passive: !sync.is_active() };
        match sync {
            Sync::Fence => {
                win.fence(Assert::NOPRECEDE)?;
                rank.run_steps(self, &open, every(phase, me, lent))?;
                win.fence(Assert::NOSUCCEED)
            }
            Sync::Pscw => {
                let others: Vec<usize> = (0..job.size()).filter(|&rank| rank != me).collect();
                win.post(&others, Assert::NONE)?;
                win.start(&others, Assert::NONE)?;
                rank.run_steps(self, &open, every(phase, me, lent))?;
                win.complete()?;
                win.wait()
            }
            Sync::LockAll => epochs(phase, me, lent).into_iter().try_for_each(|(_, steps)| {
                win.lock_all(Assert::NONE)?;
                rank.run_steps(self, &open, steps)?;
                win.unlock_all()
            }),
            Sync::Shared | Sync::Exclusive => {
                let kind = if sync == Sync::Shared { Lock::Shared } else { Lock::Exclusive };
                epochs(phase, me, lent).into_iter().try_for_each(|(target, steps)| {
                    win.lock(kind, target, Assert::NONE)?;
                    rank.run_steps(self, &open, steps)?;
                    win.unlock(target)
                })
            }
        }
    }

    fn free(self) -> transom::Result<()> {
        self.win.free()
    }
}

/// An open epoch. Buffers of `'env` outlive it, and are leaked if it fails.
struct Open<'r> {
    raw: &'r Raw,
    passive: bool,
}

impl<'env> Epoch<'env> for Open<'_> {
    fn completes(&self) -> bool {
        self.passive
    }

    fn put(&self, target: usize, at: usize, from: &'env [u64], shape: Shape) -> transom::Result<()> {
        let (count, ours, theirs) = layouts(shape)?;
        let to = At::new(target, self.raw.at(target, at), 1, &theirs);
        // SAFETY: `from` outlives the epoch.
        unsafe { self.raw.win.put_items(Items::of(from.as_ptr().cast(), count, &ours), to) }
    }

    fn get(&self, target: usize, at: usize, into: &'env mut [u64], shape: Shape) -> transom::Result<()> {
        let (count, ours, theirs) = layouts(shape)?;
        let from = At::new(target, self.raw.at(target, at), 1, &theirs);
        // SAFETY: `into` outlives the epoch, and is read only after it.
        unsafe { self.raw.win.get_items(Items::of_mut(into.as_mut_ptr().cast(), count, &ours), from) }
    }

    fn accumulate(&self, target: usize, at: usize, from: &'env [u64], op: Op) -> transom::Result<()> {
        let word = Datatype::basic(BasicType::Uint64);
        let to = At::new(target, self.raw.at(target, at), from.len(), &word);
        // SAFETY: `from` outlives the epoch.
        unsafe { self.raw.win.accumulate_items(Items::of(from.as_ptr().cast(), from.len(), &word), to, op) }
    }

    fn fetch(&self, target: usize, at: usize, operand: u64, op: Op) -> transom::Result<u64> {
        super::memory::fetch(&self.raw.win, target, self.raw.at(target, at), op, operand)
    }

    fn compare_and_swap(&self, target: usize, at: usize, expected: u64, new: u64) -> transom::Result<u64> {
        super::memory::swap(&self.raw.win, target, self.raw.at(target, at), expected, new)
    }

    fn flush(&self, target: usize) -> transom::Result<()> {
        if self.passive { self.raw.win.flush(target) } else { Ok(()) }
    }

    fn put_plain(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()> {
        // SAFETY: `from` outlives the epoch.
        unsafe { self.raw.win.put(from.as_ptr().cast(), from.len() * WORD, target, self.raw.at(target, at)) }
    }

    fn put_now(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()> {
        self.put_plain(target, at, from).and_then(|()| self.flush(target))
    }

    fn read(&self, target: usize, at: usize, into: &mut [u64], request: bool) -> transom::Result<()> {
        let word = Datatype::basic(BasicType::Uint64);
        if !request {
            return super::memory::get(&self.raw.win, target, self.raw.at(target, at), bytemuck::cast_slice_mut(into));
        }
        let result = Items::of_mut(into.as_mut_ptr().cast(), into.len(), &word);
        // SAFETY: the operation is waited for while `into` is borrowed.
        unsafe { self.raw.win.rget_items(result, At::new(target, self.raw.at(target, at), into.len(), &word)) }?.wait()
    }

    fn exchange(&self, target: usize, at: usize, from: &[u64], old: &mut [u64], op: Op) -> transom::Result<()> {
        super::memory::get_accumulate(&self.raw.win, target, self.raw.at(target, at), from, old, op)
    }

    fn notified(
        &self,
        target: usize,
        notice: Notice,
        request: bool,
        effect: Effect,
        lent: &'env mut [u64],
    ) -> transom::Result<()> {
        let (win, at) = (&self.raw.win, self.raw.at(target, effect.at()));
        let (shape, len) = match effect {
            Effect::Put { shape, .. } => (shape, BLOCK),
            _ => (Shape::Plain, lent.len()),
        };
        let (count, ours, theirs) = layouts(shape)?;
        let word = Datatype::basic(BasicType::Uint64);
        let (count, to) = match shape {
            Shape::Plain => (len, At::new(target, at, len, &word)),
            _ => (count, At::new(target, at, 1, &theirs)),
        };
        let items = Items::of_mut(lent.as_mut_ptr().cast(), count, &ours);
        let mut old = vec![0u64; len];
        let before = Items::of_mut(old.as_mut_ptr().cast(), count, &ours);
        // SAFETY: `lent` outlives the epoch and is read only after it; the flush or the request
        // completes the operation that fills `old`, which is leaked where either fails.
        let done = unsafe {
            match (effect, request) {
                (Effect::Put { shape: Shape::Plain, .. } | Effect::Nothing, false) => {
                    win.put_notify(lent.as_ptr().cast(), size_of_val(lent), target, at, notice)
                }
                (Effect::Nothing, true) => {
                    let put = win.rput_notify(lent.as_ptr().cast(), size_of_val(lent), target, at, notice);
                    put.and_then(|mut request| request.wait())
                }
                (Effect::Put { .. }, false) => win.put_items_notify(items, to, notice),
                (Effect::Put { .. }, true) => {
                    win.rput_items_notify(items, to, notice).and_then(|mut request| request.wait())
                }
                (Effect::Get { .. }, false) => win.get_items_notify(items, to, notice),
                (Effect::Get { .. }, true) => {
                    win.rget_items_notify(items, to, notice).and_then(|mut request| request.wait())
                }
                (Effect::AddVector { fetch: false, .. }, false) => {
                    win.accumulate_items_notify(items, to, Op::Sum, notice)
                }
                (Effect::AddVector { fetch: false, .. }, true) => {
                    win.raccumulate_items_notify(items, to, Op::Sum, notice).and_then(|mut request| request.wait())
                }
                (Effect::AddVector { .. }, false) => {
                    let call = win.get_accumulate_items_notify(items, before, to, Op::Sum, notice);
                    call.and_then(|()| win.flush(target))
                }
                (Effect::AddVector { .. }, true) => win
                    .rget_accumulate_items_notify(items, before, to, Op::Sum, notice)
                    .and_then(|mut request| request.wait()),
            }
        };
        if done.is_err() {
            std::mem::forget(old);
        }
        done
    }
}
