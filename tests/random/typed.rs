//! The epochs of the typed window as closures, for random programs.

use transom::{Access, At, BufferRequest, Info, Job, Lock, Notice, Notices, Op, Passive, Window, ops};

use super::program::{Effect, LEN, Phase, Shape, Sync, UNORDERED, layouts};
use super::run::{Epoch, ProgramWindow, Rank, epochs, every};

pub(super) struct Typed(Window<u64>);

impl Typed {
    pub(super) fn new(job: &Job, kind: u64) -> transom::Result<Typed> {
        let hint = |key, value| Window::allocate_with(job, LEN, &Info::new().with(key, value));
        Ok(Typed(match kind {
            1 => Window::create(job, vec![0; LEN])?,
            2 => hint("mpi_accumulate_granularity", "8")?,
            UNORDERED => hint("accumulate_ordering", "none")?,
            _ => Window::allocate(job, LEN)?,
        }))
    }
}

impl ProgramWindow for Typed {
    fn load(&self, into: &mut [u64]) -> transom::Result<()> {
        self.0.load(0, into)
    }

    fn store(&self, first: usize, from: &[u64]) -> transom::Result<()> {
        self.0.store(first, from)
    }

    fn sync(&self) {
        self.0.sync();
    }

    fn notices(&self) -> Notices<'_> {
        self.0.notices()
    }

    fn num_notify(&self, rank: usize) -> transom::Result<usize> {
        self.0.num_notify(rank)
    }

    fn set_num_notify(&self, number: usize) -> transom::Result<()> {
        self.0.set_num_notify(number)
    }

    fn epoch(&self, job: &Job, phase: &Phase, rank: &mut Rank, lent: &mut [Vec<u64>]) -> transom::Result<()> {
        let (win, me, sync) = (&self.0, job.rank(), phase.syncs[job.rank()]);
        match sync {
            Sync::Fence => win.fence(|epoch| rank.run_steps(self, &Open::Active(epoch), every(phase, me, lent))),
            Sync::Pscw => {
                let others: Vec<usize> = (0..job.size()).filter(|&rank| rank != me).collect();
                win.post(&others)?;
                win.start(&others, |epoch| rank.run_steps(self, &Open::Active(epoch), every(phase, me, lent)))?;
                win.wait()
            }
            Sync::LockAll => epochs(phase, me, lent)
                .into_iter()
                .try_for_each(|(_, steps)| win.lock_all(|epoch| rank.run_steps(self, &Open::Passive(epoch), steps))),
            Sync::Shared | Sync::Exclusive => {
                let kind = if sync == Sync::Shared { Lock::Shared } else { Lock::Exclusive };
                epochs(phase, me, lent).into_iter().try_for_each(|(target, steps)| {
                    win.lock(kind, target, |epoch| rank.run_steps(self, &Open::Passive(epoch), steps))
                })
            }
        }
    }

    fn free(self) -> transom::Result<()> {
        self.0.free()
    }
}

/// The access that a closure lends.
enum Open<'e, 'scope, 'env> {
    Active(&'e Access<'scope, 'env, u64>),
    Passive(&'e Passive<'scope, 'env, u64>),
}

impl<'scope, 'env> Open<'_, 'scope, 'env> {
    fn access(&self) -> &Access<'scope, 'env, u64> {
        match self {
            Open::Active(epoch) => epoch,
            Open::Passive(epoch) => epoch,
        }
    }
}

impl<'env> Epoch<'env> for Open<'_, '_, 'env> {
    fn completes(&self) -> bool {
        true
    }

    fn put(&self, target: usize, at: usize, from: &'env [u64], shape: Shape) -> transom::Result<()> {
        let (count, ours, theirs) = layouts(shape)?;
        self.access().put_items(from, count, &ours, At::new(target, at as u64, 1, &theirs))
    }

    fn get(&self, target: usize, at: usize, into: &'env mut [u64], shape: Shape) -> transom::Result<()> {
        let (count, ours, theirs) = layouts(shape)?;
        self.access().get_items(into, count, &ours, At::new(target, at as u64, 1, &theirs))
    }

    fn accumulate(&self, target: usize, at: usize, from: &'env [u64], op: Op) -> transom::Result<()> {
        let epoch = self.access();
        match op {
            Op::Max => epoch.accumulate(target, at, from, ops::Max),
            Op::Replace => epoch.accumulate(target, at, from, ops::Replace),
            _ => epoch.accumulate(target, at, from, ops::Sum),
        }
    }

    fn fetch(&self, target: usize, at: usize, operand: u64, op: Op) -> transom::Result<u64> {
        let epoch = self.access();
        match op {
            Op::Replace => epoch.swap(target, at, operand),
            Op::Bxor => epoch.fetch_and_op(target, at, operand, ops::Bxor),
            _ => epoch.fetch_add(target, at, operand),
        }
    }

    fn compare_and_swap(&self, target: usize, at: usize, expected: u64, new: u64) -> transom::Result<u64> {
        self.access().compare_and_swap(target, at, expected, new)
    }

    fn flush(&self, target: usize) -> transom::Result<()> {
        match self {
            Open::Active(_) => Ok(()),
            Open::Passive(epoch) => epoch.flush(target),
        }
    }

    fn put_plain(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()> {
        self.access().put(target, at, from)
    }

    fn put_now(&self, target: usize, at: usize, from: &'env [u64]) -> transom::Result<()> {
        match self {
            Open::Active(epoch) => epoch.scope(|part| part.put(target, at, from)),
            Open::Passive(_) => self.put_plain(target, at, from).and_then(|()| self.flush(target)),
        }
    }

    fn read(&self, target: usize, at: usize, into: &mut [u64], request: bool) -> transom::Result<()> {
        match self {
            Open::Passive(epoch) if request => {
                let found = epoch.rget_owned(target, at, vec![0; into.len()]).and_then(BufferRequest::wait)?;
                into.copy_from_slice(&found);
                Ok(())
            }
            _ => self.access().scope(|part| part.get(target, at, into)),
        }
    }

    fn exchange(&self, target: usize, at: usize, from: &[u64], old: &mut [u64], op: Op) -> transom::Result<()> {
        self.access().scope(|part| match op {
            Op::Replace => part.get_accumulate(target, at, from, old, ops::Replace),
            _ => part.get_accumulate(target, at, from, old, ops::Sum),
        })
    }

    fn notified(
        &self,
        target: usize,
        notice: Notice,
        request: bool,
        effect: Effect,
        lent: &'env mut [u64],
    ) -> transom::Result<()> {
        let (at, Open::Passive(epoch)) = (effect.at(), self) else { return Ok(()) };
        match (effect, request) {
            (Effect::Get { .. }, false) => epoch.get_notify(target, at, lent, notice),
            (Effect::Get { .. }, true) => {
                let found = epoch.rget_owned_notify(target, at, vec![0; lent.len()], notice)?.wait()?;
                lent.copy_from_slice(&found);
                Ok(())
            }
            (Effect::Put { shape: Shape::Plain, .. } | Effect::Nothing, false) => {
                epoch.put_notify(target, at, lent, notice)
            }
            (Effect::Put { shape: Shape::Plain, .. } | Effect::Nothing, true) => {
                epoch.rput_notify(target, at, lent, notice).and_then(|mut request| request.wait())
            }
            (Effect::Put { shape, .. }, _) => {
                let (count, ours, theirs) = layouts(shape)?;
                epoch.put_items_notify(lent, count, &ours, At::new(target, at as u64, 1, &theirs), notice)
            }
            (Effect::AddVector { fetch: false, .. }, false) => {
                epoch.accumulate_notify(target, at, lent, ops::Sum, notice)
            }
            (Effect::AddVector { fetch: false, .. }, true) => {
                epoch.raccumulate_notify(target, at, lent, ops::Sum, notice).and_then(|mut request| request.wait())
            }
            (Effect::AddVector { len, .. }, false) => {
                let mut old = vec![0; len];
                epoch.scope(|part| part.get_accumulate_notify(target, at, lent, &mut old, ops::Sum, notice))
            }
            (Effect::AddVector { len, .. }, true) => {
                let old = vec![0; len];
                epoch.rget_accumulate_owned_notify(target, at, lent, old, ops::Sum, notice)?.wait().map(drop)
            }
        }
    }
}
