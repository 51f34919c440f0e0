//! Tests whose window consists of words: the code that opens, fills, checks and frees these
//! windows.

use transom::{Job, Window};

use super::Work;
use super::clock::Tick;
use crate::floor::AllRanks;
use crate::iterations::window;
use crate::options::Options;
use crate::outcome::Outcome;

/// A value that no test writes.
const WRONG: u64 = 1 << 40;

/// One rank's part of a test on a window of words: the functions of [`Work`] that differ among
/// these tests.
pub(super) trait OnWords {
    /// [`Work::library`].
    fn library(&mut self, win: &Window<u64>, count: usize, clock: Tick<'_>) -> Outcome<()>;

    /// [`Work::bare`].
    fn bare(&mut self, all_ranks: &AllRanks, count: usize);

    /// [`Work::check`].
    fn check(&mut self, world: &Job, win: &Window<u64>) -> Outcome<()>;

    /// [`Work::note`].
    fn note(&mut self, _win: &Window<u64>) -> Outcome<Option<String>> {
        Ok(None)
    }
}

struct Words<W> {
    win: Window<u64>,
    work: W,
}

/// Opens a test: a window of `len` words at each rank, with which `work` begins. Collective.
pub(super) fn on_words<W: OnWords + 'static>(
    world: &Job,
    options: &Options,
    len: usize,
    work: impl FnOnce(&Window<u64>) -> Outcome<W>,
) -> Outcome<Box<dyn Work>> {
    let win = window(world, options, len)?;
    let work = work(&win)?;
    Ok(Box::new(Words { win, work }))
}

impl<W: OnWords> Work for Words<W> {
    fn library(&mut self, count: usize, clock: Tick<'_>) -> Outcome<()> {
        self.work.library(&self.win, count, clock)
    }

    fn bare(&mut self, all_ranks: &AllRanks, count: usize) {
        self.work.bare(all_ranks, count);
    }

    fn check(&mut self, world: &Job) -> Outcome<()> {
        self.work.check(world, &self.win)
    }

    fn spoil(&mut self) -> Outcome<()> {
        Ok(self.win.store(0, &[WRONG])?)
    }

    fn note(&mut self) -> Outcome<Option<String>> {
        self.work.note(&self.win)
    }

    fn free(self: Box<Self>) -> Outcome<()> {
        Ok(self.win.free()?)
    }
}

/// The neighbours of a rank in the ring of all ranks.
#[derive(Clone, Copy)]
pub(super) struct Neighbours {
    pub(super) left: usize,
    pub(super) right: usize,
}

impl Neighbours {
    pub(super) fn of(world: &Job) -> Neighbours {
        let (me, ranks) = (world.rank(), world.size());
        Neighbours { left: (me + ranks - 1) % ranks, right: (me + 1) % ranks }
    }
}
