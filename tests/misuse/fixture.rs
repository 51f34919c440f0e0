//! The window on which the forbidden calls run: its data, which must not change, and correct
//! epochs. Independent of the rules.

use std::cell::Cell;

use transom::{Assert, BasicType, Flavor, Info, Job, Lock, Op, RawWindow};
use transom_harness::{Outcome, gathered, same};

use super::memory::{self, Block};

/// The words of a part: one that must not change, and one for each kind of correct epoch.
pub(crate) const WORDS: usize = 4;

/// The value of the first word of a rank's part, which no call of a test may change.
pub(crate) fn constant(rank: usize) -> u64 {
    7000 + rank as u64
}

/// A byte-level window of some flavor at this rank.
pub(crate) struct Fixture {
    pub(crate) win: RawWindow,
    pub(crate) me: usize,
    pub(crate) size: usize,
    pub(crate) next: usize,
    pub(crate) before: usize,
    /// The displacement of each rank's first byte.
    bases: Vec<u64>,
    block: Block,
    /// The values of this rank's part without the first word.
    words: Cell<[u64; WORDS - 1]>,
}

impl Fixture {
    pub(crate) fn new(job: &Job, flavor: Flavor) -> transom::Result<Fixture> {
        let (me, size, info) = (job.rank(), job.size(), Info::new());
        let block = Block::words(WORDS);
        let win = match flavor {
            Flavor::Create => block.window(job, 0, block.len(), 1, &info)?,
            Flavor::Shared => RawWindow::allocate_shared(job, block.len(), 1, &info)?,
            Flavor::Dynamic => RawWindow::create_dynamic(job, &info)?,
            _ => RawWindow::allocate(job, block.len(), 1, &info)?,
        };
        let mut bases = vec![0; size];
        if flavor == Flavor::Dynamic {
            block.attach(&win, 0, block.len())?;
            bases = gathered(job, block.address(0))?;
        }
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let fixture = Fixture { win, me, size, next, before, bases, block, words: Cell::default() };
        fixture.win.lock_all(Assert::NONE)?;
        fixture.replace(me, 0, constant(me))?;
        fixture.win.unlock_all()?;
        job.barrier()?;
        Ok(fixture)
    }

    /// The displacement of a word.
    pub(crate) fn at(&self, rank: usize, word: usize) -> u64 {
        self.bases[rank] + 8 * word as u64
    }

    pub(crate) fn replace(&self, rank: usize, word: usize, value: u64) -> transom::Result<()> {
        memory::fetch(&self.win, rank, self.at(rank, word), Op::Replace, value).map(drop)
    }

    /// Reads the word that must not change, within an epoch to the rank.
    pub(crate) fn read(&self, rank: usize) -> Outcome {
        let mut found = [0; 8];
        self.win.fetch_and_op(&[0; 8], &mut found, BasicType::Uint64, rank, self.at(rank, 0), Op::NoOp)?;
        same("the word read by an operation that is allowed", &u64::from_ne_bytes(found), &constant(rank))
    }

    /// Fails where this rank's part has changed.
    pub(crate) fn untouched(&self) -> Outcome {
        let mut bytes = [0; 8 * WORDS];
        match self.win.flavor() {
            Flavor::Dynamic | Flavor::Create => self.block.load(0, &mut bytes),
            _ => self.win.load(0, &mut bytes),
        }
        let found: [u64; WORDS] = bytemuck::cast(bytes);
        let [first, second, third] = self.words.get();
        same("the part of this rank", &found, &[constant(self.me), first, second, third])
    }

    /// An epoch of each kind, with data.
    pub(crate) fn correct(&self, job: &Job, value: u64) -> Outcome {
        let (win, next) = (&self.win, self.next);
        win.fence(Assert::NONE)?;
        self.replace(next, 1, value)?;
        win.fence(Assert::NOSUCCEED)?;
        win.lock(Lock::Exclusive, next, Assert::NONE)?;
        self.replace(next, 2, value + 1)?;
        win.unlock(next)?;
        job.barrier()?;
        win.post(&[self.before], Assert::NONE)?;
        win.start(&[next], Assert::NONE)?;
        self.replace(next, 3, value + 2)?;
        win.complete()?;
        win.wait()?;
        win.lock_all(Assert::NONE)?;
        win.flush_all()?;
        win.unlock_all()?;
        self.words.set([value, value + 1, value + 2]);
        self.untouched()?;
        Ok(job.barrier()?)
    }
}
