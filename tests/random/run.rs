//! Executes a program at a rank, and checks what this rank can check; the first rank checks what all saw together.

use std::error::Error;

use transom::{Access, At, BasicType, BufferRequest, Datatype, Info, Job, Lock, Passive, Window, ops};

use super::oracle::{Parts, Seen, check_seen};
use super::program::{Act, BIT_AT, BLOCK, CHAIN_AT, COUNTER_AT, LEN, LOCKED_AT, PEAK_AT, Program, Sync, VECTOR_AT};

type Words<'scope, 'env> = Access<'scope, 'env, u64>;
type Locked<'scope, 'env> = Passive<'scope, 'env, u64>;

/// What executing answers.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// What a rank expects and has seen.
struct Rank {
    me: usize,
    parts: Parts,
    seen: Vec<Seen>,
    wrong: Option<String>,
}

/// Executes the program with the other ranks. `step` is told where this rank stands.
///
/// # Errors
/// What memory model and program do not allow, or an error of the library.
pub(crate) fn execute(job: &Job, program: &Program, step: &dyn Fn(String)) -> Outcome {
    let win = window(job, program.window)?;
    let mut rank = Rank { me: job.rank(), parts: Parts::new(job.size()), seen: Vec::new(), wrong: None };
    let mut outcome = Ok(());
    for (number, phase) in program.phases.iter().enumerate() {
        step(format!("seed {:#x}, phase {number}, {:?}", program.seed, phase.sync));
        let acts = &phase.acts[job.rank()];
        rank.phase(job, &win, phase.sync, acts)?;
        rank.parts.after(phase);
        job.barrier()?;
        win.sync();
        let mut found = vec![0; LEN];
        win.load(0, &mut found)?;
        let told = rank.wrong.take().map_or_else(|| rank.parts.check(job.rank(), &found), Err);
        outcome = outcome.and(told.map_err(|why| format!("after phase {number}, {:?}: {why}", phase.sync)));
        job.barrier()?;
    }
    step(format!("seed {:#x}, the end", program.seed));
    let together = rank.gather(job, &win, program);
    win.free()?;
    outcome.map_err(Box::<dyn Error>::from).and(together)
}

fn window(job: &Job, kind: u64) -> transom::Result<Window<u64>> {
    match kind {
        1 => Window::create(job, vec![0; LEN]),
        2 => Window::allocate_with(job, LEN, &Info::new().with("mpi_accumulate_granularity", "8")),
        _ => Window::allocate(job, LEN),
    }
}

impl Rank {
    fn phase(&mut self, job: &Job, win: &Window<u64>, sync: Sync, acts: &[Act]) -> transom::Result<()> {
        for act in acts {
            if let Act::Store { block, value } = *act {
                win.store(block * BLOCK, &values(value))?;
            }
        }
        // A store of the owner and a put of the owner to its own block would conflict without a synchronization.
        let stored = |act: &&Act| !matches!(act, Act::Store { .. });
        match sync {
            Sync::Fence => win.fence(|epoch| acts.iter().filter(stored).try_for_each(|act| self.act(epoch, None, act))),
            Sync::LockAll => {
                win.lock_all(|epoch| acts.iter().filter(stored).try_for_each(|act| self.act(epoch, Some(epoch), act)))
            }
            Sync::Pscw => {
                let others: Vec<usize> = (0..job.size()).filter(|&rank| rank != self.me).collect();
                win.post(&others)?;
                win.start(&others, |epoch| acts.iter().filter(stored).try_for_each(|act| self.act(epoch, None, act)))?;
                win.wait()
            }
            Sync::Shared | Sync::Exclusive => {
                let kind = if sync == Sync::Shared { Lock::Shared } else { Lock::Exclusive };
                let me = self.me;
                (0..job.size()).map(|step| (me + step) % job.size()).try_for_each(|target| {
                    let here = |act: &&Act| stored(act) && target_of(act) == target;
                    win.lock(kind, target, |epoch| {
                        acts.iter().filter(here).try_for_each(|act| self.act(epoch, Some(epoch), act))
                    })
                })
            }
        }
    }

    fn expect(&mut self, what: &str, act: &Act, found: &[u64], expected: &[u64]) {
        if found != expected && self.wrong.is_none() {
            self.wrong = Some(format!("rank {}: {act:?} {what} {found:?} instead of {expected:?}", self.me));
        }
    }

    fn saw(&mut self, target: usize, element: usize, new: u64, old: u64, changed: bool) {
        let (target, element) = (target as u64, element as u64);
        self.seen.push(Seen { target, element, new, old, changed: u64::from(changed) });
    }

    fn act(&mut self, epoch: &Words<'_, '_>, passive: Option<&Locked<'_, '_>>, act: &Act) -> transom::Result<()> {
        match *act {
            Act::Put { target, block, value, strided } => put(epoch, target, block, value, strided),
            Act::PutGet { target, block, value } => {
                put(epoch, target, block, value, false)?;
                let found = read(epoch, passive, target, block, false)?;
                self.expect("read", act, &found, &values(value));
                Ok(())
            }
            Act::Get { target, block, request } => {
                let found = read(epoch, passive, target, block, request)?;
                let expected = self.parts.block(target, block).to_vec();
                self.expect("read", act, &found, &expected);
                Ok(())
            }
            Act::Count { target, counter, operand } => {
                let at = COUNTER_AT + counter;
                let old = epoch.fetch_add(target, at as u64, operand)?;
                self.saw(target, at, operand, old, true);
                Ok(())
            }
            Act::Swap { target, chain, value, long } => {
                let at = CHAIN_AT + chain;
                let (mine, mut old) = ([value], [0]);
                if long {
                    epoch.scope(|part| part.get_accumulate(target, at as u64, &mine, &mut old, ops::Replace))?;
                } else {
                    old[0] = epoch.swap(target, at as u64, value)?;
                }
                self.saw(target, at, value, old[0], true);
                Ok(())
            }
            Act::Compare { target, chain, value } => {
                let at = CHAIN_AT + chain;
                let last = self.seen.iter().rev().find(|one| one.target == target as u64 && one.element == at as u64);
                let expected = last.map_or(0, |one| if one.changed == 1 { one.new } else { one.old });
                let old = epoch.compare_and_swap(target, at as u64, expected, value)?;
                self.saw(target, at, value, old, old == expected);
                Ok(())
            }
            Act::Peak { target, peak, operand } => {
                let mine = [operand];
                epoch.scope(|part| part.accumulate(target, (PEAK_AT + peak) as u64, &mine, ops::Max))
            }
            Act::Bits { target, bit, operand } => {
                epoch.fetch_and_op(target, (BIT_AT + bit) as u64, operand, ops::Bxor).map(drop)
            }
            Act::Vector { target, first, len, fetch } => {
                let (ones, mut old) = (vec![1u64; len], vec![0; len]);
                let at = (VECTOR_AT + first) as u64;
                match fetch {
                    true => epoch.scope(|part| part.get_accumulate(target, at, &ones, &mut old, ops::Sum)),
                    false => epoch.scope(|part| part.accumulate(target, at, &ones, ops::Sum)),
                }
            }
            Act::Bump { target } => {
                let mut value = [0u64];
                epoch.scope(|part| part.get(target, LOCKED_AT as u64, &mut value))?;
                epoch.put_value(target, LOCKED_AT as u64, value[0] + 1)?;
                // Two of one rank in one epoch would conflict without it.
                passive.map_or(Ok(()), |epoch| epoch.flush(target))
            }
            Act::Flush { target } => passive.map_or(Ok(()), |epoch| epoch.flush(target)),
            Act::Store { .. } => Ok(()),
        }
    }

    /// Brings what all ranks saw to the first one, through a window of its own, which checks it.
    fn gather(&self, job: &Job, win: &Window<u64>, program: &Program) -> Outcome {
        const WORDS: usize = 5;
        let most = program.len() + 1;
        let mut mine = vec![0u64; 1 + most * WORDS + LEN];
        mine[0] = self.seen.len() as u64;
        for (at, one) in self.seen.iter().enumerate() {
            let words = [one.target, one.element, one.new, one.old, one.changed];
            mine[1 + at * WORDS..1 + (at + 1) * WORDS].copy_from_slice(&words);
        }
        win.load(0, &mut mine[1 + most * WORDS..])?;
        let len = if job.rank() == 0 { mine.len() * job.size() } else { 0 };
        let all = Window::<u64>::allocate(job, len)?;
        all.fence(|epoch| epoch.put(0, (mine.len() * job.rank()) as u64, &mine))?;
        let mut told = vec![0; len];
        all.load(0, &mut told)?;
        all.free()?;
        if job.rank() > 0 {
            return Ok(());
        }
        let (mut seen, mut ends) = (Vec::new(), Vec::new());
        for words in told.chunks_exact(mine.len()) {
            let count = usize::try_from(words[0])?;
            let one = |words: &[u64]| Seen {
                target: words[0],
                element: words[1],
                new: words[2],
                old: words[3],
                changed: words[4],
            };
            seen.push(words[1..].chunks_exact(WORDS).take(count).map(one).collect());
            ends.push(words[1 + most * WORDS..].to_vec());
        }
        Ok(check_seen(program, &seen, &ends)?)
    }
}

fn target_of(act: &Act) -> usize {
    match *act {
        Act::Put { target, .. }
        | Act::Get { target, .. }
        | Act::PutGet { target, .. }
        | Act::Count { target, .. }
        | Act::Swap { target, .. }
        | Act::Compare { target, .. }
        | Act::Peak { target, .. }
        | Act::Bits { target, .. }
        | Act::Vector { target, .. }
        | Act::Bump { target }
        | Act::Flush { target } => target,
        Act::Store { .. } => usize::MAX,
    }
}

fn values(value: u64) -> [u64; BLOCK] {
    std::array::from_fn(|index| value + index as u64)
}

fn put(epoch: &Words<'_, '_>, target: usize, block: usize, value: u64, strided: bool) -> transom::Result<()> {
    let at = (block * BLOCK) as u64;
    let plain = values(value);
    if !strided {
        return epoch.scope(|part| part.put(target, at, &plain));
    }
    let mut spread = [0; 2 * BLOCK];
    plain.iter().enumerate().for_each(|(index, value)| spread[2 * index] = *value);
    let element = Datatype::basic(BasicType::Uint64);
    let every_other = Datatype::vector(BLOCK, 1, 2, &element)?;
    epoch.scope(|part| part.put_items(&spread, 1, &every_other, At::new(target, at, BLOCK, &element)))
}

fn read(
    epoch: &Words<'_, '_>,
    passive: Option<&Locked<'_, '_>>,
    target: usize,
    block: usize,
    request: bool,
) -> transom::Result<Vec<u64>> {
    let at = (block * BLOCK) as u64;
    if let (Some(epoch), true) = (passive, request) {
        return epoch.rget(target, at, vec![0; BLOCK]).and_then(BufferRequest::wait);
    }
    let mut found = vec![0; BLOCK];
    epoch.scope(|part| part.get(target, at, &mut found))?;
    Ok(found)
}
