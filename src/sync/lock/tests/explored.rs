//! The protocol under every schedule of a few processes within a number of delays (Emmi, Qadeer and
//! Rakamaric, 2011): at each step the scheduler may skip processes in their fixed order, and each
//! skip is a delay. All changes of words are sequentially consistent, so that schedules of whole
//! steps cover all executions.

use std::collections::BTreeMap;
use std::sync::{Condvar, MutexGuard};

use super::super::bias::{mark, taken};
use super::*;
use crate::error::ErrorKind;

/// Steps after which a schedule counts as one that never ends.
const ENDLESS: usize = 3000;
/// The number of processes that may poll in turn until one of them goes on.
const TIRED: u32 = 4;
/// The patience of processes while some of them can go on, and when all wait for each other.
static ENDLESS_PATIENCE: Patience = Patience::new(u32::MAX);
static NONE: Patience = Patience::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Ready,
    /// Waits for a change after this one.
    Paused(u64),
    Done,
}

/// One schedule.
struct State {
    words: BTreeMap<usize, u64>,
    /// The changes of words so far.
    changes: u64,
    status: Vec<Status>,
    /// The number of changes at which all waited for each other, so that all lost their patience;
    /// and how often all have polled since.
    tired: Option<(u64, u32)>,
    current: usize,
    /// At each step how many could be chosen, and which was.
    choices: Vec<(usize, usize)>,
    steps: usize,
    delays: usize,
    /// The holders: readers and writers of each target.
    within: BTreeMap<usize, (u32, u32)>,
    by_bias: u32,
    wrong: Option<String>,
}

struct Schedule {
    state: Mutex<State>,
    turn: Condvar,
}

/// A process within a schedule.
struct Process<'s> {
    schedule: &'s Schedule,
    me: usize,
    /// The changes that this process has seen.
    seen: AtomicU64,
    held: AtomicU32,
    bias: Bias,
}

impl State {
    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    /// Chooses the next process.
    fn choose(&mut self) {
        let count = self.status.len();
        let may = |&one: &usize| match self.status[one] {
            Status::Ready => true,
            Status::Paused(seen) => seen != self.changes,
            Status::Done => false,
        };
        let order = || (0..count).map(|step| (self.current + step) % count);
        let mut able: Vec<_> = order().filter(may).collect();
        let rounds = self.tired.filter(|(changes, _)| *changes == self.changes).map_or(0, |(_, rounds)| rounds);
        if able.is_empty() && rounds < TIRED * (POLLS_BEFORE_PRIORITY + BATCH) {
            self.tired = Some((self.changes, rounds + 1));
            // All poll in turn: some of them go on after a number of polls.
            able = order().filter(|&one| self.status[one] != Status::Done).collect();
            let polled = able.first() == Some(&self.current);
            able.rotate_left(usize::from(polled));
        }
        if able.is_empty() {
            if self.status.iter().any(|status| *status != Status::Done) {
                self.fail(format!("all wait for each other, words {:x?}", self.words));
            }
            return;
        }
        if self.steps > ENDLESS {
            self.fail(format!("it does not end, words {:x?}", self.words));
        }
        let options = able.len().min(self.delays + 1);
        if self.steps == self.choices.len() {
            self.choices.push((options, 0));
        }
        let taken = self.choices[self.steps].1;
        self.steps += 1;
        self.delays -= taken;
        self.current = able[taken];
    }
}

impl Process<'_> {
    /// Waits for this process's turn, and takes a step.
    fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> Result<T> {
        let mut state = self.mine()?;
        let result = step(&mut state);
        // Relaxed: one thread's own.
        self.seen.store(state.changes, Ordering::Relaxed);
        self.pass(&mut state);
        Ok(result)
    }

    fn mine(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.schedule.state.lock().expect("no panic");
        let waits = |state: &mut State| state.current != self.me && state.wrong.is_none();
        let state = self.schedule.turn.wait_while(state, waits).expect("no panic");
        match state.wrong {
            None => Ok(state),
            Some(_) => Err(ErrorKind::Epoch { call: "step", target: None, reason: "the schedule failed" }.into()),
        }
    }

    fn pass(&self, state: &mut State) {
        state.choose();
        if state.current != self.me || state.wrong.is_some() {
            self.schedule.turn.notify_all();
        }
    }

    fn change(&self, which: LockWord, to: impl FnOnce(u64) -> u64) -> Result<u64> {
        self.change_at(key(which), to)
    }

    fn change_at(&self, key: usize, to: impl FnOnce(u64) -> u64) -> Result<u64> {
        self.step(|state| {
            let word = state.words.entry(key).or_default();
            let old = *word;
            *word = to(old);
            state.changes += u64::from(*word != old);
            old
        })
    }

    /// Enters targets as a reader or a writer in one step, and leaves them in another step.
    fn look(&self, targets: std::ops::Range<usize>, write: bool) -> Result<()> {
        self.step(|state| {
            for target in targets.clone() {
                let (readers, writers) = state.within.entry(target).or_default();
                *readers += u32::from(!write);
                *writers += u32::from(write);
                if *writers > 1 || *writers == 1 && *readers > 0 {
                    state.wrong.get_or_insert(format!("a writer of {target} is not alone"));
                }
            }
        })?;
        self.step(|state| {
            for target in targets {
                let (readers, writers) = state.within.entry(target).or_default();
                *readers -= u32::from(!write);
                *writers -= u32::from(write);
            }
        })
    }

    fn is_nested(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// An exclusive lock of `target`, and within it one of `inner`.
    fn write(&self, target: usize, inner: Option<usize>) -> Result<()> {
        let biased = self.bias.exclusive(self, target)?;
        if !biased {
            self.write_announced(target)?;
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        self.look(target..target + 1, true)?;
        if biased {
            self.step(|state| state.by_bias += 1)?;
        }
        if let Some(inner) = inner {
            self.write(inner, None)?;
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        by_bias_end(self, target, biased)
    }

    fn write_announced(&self, target: usize) -> Result<()> {
        loop {
            announce(self, || self.is_nested())?;
            if self.bias.announced_exclusive(self, target, || !self.is_nested())? {
                return Ok(());
            }
            announced_end(self)?;
            stand_aside(self)?;
        }
    }

    fn read_one(&self, target: usize) -> Result<()> {
        shared(self, target, || self.is_nested())?;
        self.look(target..target + 1, false)?;
        shared_end(self, target)
    }

    /// A lock by the target's CPU, which tries it and does not wait; where that fails, by words.
    fn carried(&self, target: usize, write: bool) -> Result<()> {
        let mut tried = Tried::Busy;
        self.change(LockWord::Target(target), |word| {
            let word = AtomicU64::new(word);
            tried = if write { try_biased(&word) } else { try_shared(&word) };
            word.into_inner()
        })?;
        if tried == Tried::NoBias {
            self.bias.record_lost();
        }
        match (tried, write) {
            (Tried::Taken, _) => self.carried_on(target, write),
            (_, true) => self.write(target, None),
            (_, false) => self.read_one(target),
        }
    }

    /// The operations of a request that has taken the lock, and its release.
    fn carried_on(&self, target: usize, write: bool) -> Result<()> {
        self.look(target..target + 1, write)?;
        self.step(|state| state.by_bias += u32::from(write))?;
        let end = |word| {
            let word = AtomicU64::new(word);
            tried_end(&word, write);
            word.into_inner()
        };
        self.change(LockWord::Target(target), end).map(drop)
    }

    fn read_all(&self) -> Result<()> {
        all(self)?;
        self.look(0..2, false)?;
        all_end(self)
    }
}

/// The steps at words of two targets, by the method `change`.
macro_rules! by_change {
    () => {
        fn ranks(&self) -> usize {
            2
        }
        fn add(&self, which: LockWord, delta: u64) -> Result<u64> {
            self.change(which, |word| word.wrapping_add(delta))
        }
        fn release(&self, which: LockWord, delta: u64) -> Result<()> {
            self.add(which, delta).map(drop)
        }
        fn swap(&self, which: LockWord, expected: u64, new: u64) -> Result<u64> {
            self.change(which, |word| if word == expected { new } else { word })
        }
        fn read(&self, which: LockWord) -> Result<u64> {
            self.change(which, |word| word)
        }
    };
}

impl LockWords for Process<'_> {
    by_change!();
    fn pause(&self, _turn: u32, _apart: Duration) -> Result<()> {
        let mut state = self.mine()?;
        state.status[self.me] = Status::Paused(self.seen.load(Ordering::Relaxed));
        self.pass(&mut state);
        drop(state);
        let mut state = self.mine()?;
        state.status[self.me] = Status::Ready;
        Ok(())
    }
    fn patience(&self) -> &Patience {
        let state = self.schedule.state.lock().expect("no panic");
        if state.tired.is_some_and(|(changes, _)| changes == state.changes) { &NONE } else { &ENDLESS_PATIENCE }
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A second window of the same processes.
struct Second<'p>(&'p Process<'p>);

impl Second<'_> {
    fn change(&self, which: LockWord, to: impl FnOnce(u64) -> u64) -> Result<u64> {
        self.0.change_at(key(which) ^ 0x100, to)
    }
}

impl LockWords for Second<'_> {
    by_change!();
    fn pause(&self, turn: u32, apart: Duration) -> Result<()> {
        self.0.pause(turn, apart)
    }
    fn patience(&self) -> &Patience {
        self.0.patience()
    }
    fn now(&self) -> Duration {
        self.0.now()
    }
}

/// An exclusive lock and its end, and `inner` meanwhile, by a process that holds no other lock of
/// the window.
fn written(words: &impl LockWords, target: usize, inner: impl FnOnce() -> Result<()>) -> Result<()> {
    let bias = Bias::new(2);
    let biased = by_bias(words, &bias, target)?;
    inner()?;
    by_bias_end(words, target, biased)
}

/// A shared lock of one target, and `inner` meanwhile.
fn shared_and(words: &impl LockWords, target: usize, inner: impl FnOnce() -> Result<()>) -> Result<()> {
    shared(words, target, || false)?;
    inner()?;
    shared_end(words, target)
}

/// A lock of all targets, and `inner` meanwhile.
fn all_and(words: &impl LockWords, inner: impl FnOnce() -> Result<()>) -> Result<()> {
    all(words)?;
    inner()?;
    all_end(words)
}

type Program = fn(&Process<'_>) -> Result<()>;

/// Runs one schedule, which begins with `choices`.
fn run(programs: &[Program], biased: bool, choices: Vec<(usize, usize)>, delays: usize) -> State {
    let words = if biased {
        BTreeMap::from([(0, BIAS), (key(LockWord::Master), BIASED), (key(LockWord::Groups), mark(0))])
    } else {
        BTreeMap::new()
    };
    let state = State {
        words,
        changes: 0,
        status: vec![Status::Ready; programs.len()],
        tired: None,
        current: 0,
        choices,
        steps: 0,
        delays,
        within: BTreeMap::new(),
        by_bias: 0,
        wrong: None,
    };
    let schedule = Schedule { state: Mutex::new(state), turn: Condvar::new() };
    std::thread::scope(|scope| {
        for (me, program) in programs.iter().enumerate() {
            let bias = Bias::new(2);
            bias.expected.store(biased, Ordering::Relaxed);
            // The process grants the bias at its next decision.
            bias.left.store(1, Ordering::Relaxed);
            let process = Process { schedule: &schedule, me, seen: AtomicU64::new(0), held: AtomicU32::new(0), bias };
            scope.spawn(move || {
                // A failure is in the state.
                if program(&process).is_ok()
                    && let Ok(mut state) = process.mine()
                {
                    state.status[me] = Status::Done;
                    process.pass(&mut state);
                }
            });
        }
    });
    schedule.state.into_inner().expect("no panic")
}

/// Invariants of the words while no lock is held.
fn at_rest(state: &State) {
    let word = |which| state.words.get(&key(which)).copied().unwrap_or_default();
    let (master, groups) = (word(LockWord::Master), word(LockWord::Groups));
    assert_eq!(master & !BIASED, 0, "the master word {master:x}");
    for target in 0..2 {
        let word = word(LockWord::Target(target));
        assert_eq!(word & !BIAS, 0, "target {target}: {word:x}");
        let marked = master & BIASED != 0 && groups & mark(target) != 0;
        assert!(word == 0 || marked, "target {target} has the bias, master {master:x}, groups {groups:x}");
    }
}

/// All schedules of the programs with at most `delays` delays. In some of them a lock is by the
/// bias, and in some the bias is taken.
fn explore(programs: &[Program], biased: bool, delays: usize) {
    let (by_bias, losses, _) = explore_all(programs, biased, delays);
    assert!(by_bias > 0 && losses > 0, "{by_bias} locks by the bias, {losses} losses");
}

/// The schedules of programs over two windows. In some of them all wait for each other, until they
/// lose their patience.
fn explore_circle(programs: &[Program], delays: usize) {
    let (_, _, circles) = explore_all(programs, false, delays);
    assert!(circles > 0, "no schedule in which all wait for each other");
}

/// Runs all schedules. Returns the number of locks by the bias, and the numbers of schedules in
/// which the bias was taken and in which all waited for each other.
fn explore_all(programs: &[Program], biased: bool, delays: usize) -> (u32, u32, u32) {
    let mut circles = 0;
    let (mut choices, mut by_bias, mut losses, mut schedules) = (Vec::new(), 0, 0, 0);
    loop {
        let state = run(programs, biased, choices, delays);
        schedules += 1;
        let made: Vec<_> = state.choices.iter().map(|(_, taken)| *taken).collect();
        assert!(state.wrong.is_none(), "{:?} after {schedules} schedules, with {made:?}", state.wrong);
        at_rest(&state);
        by_bias += state.by_bias;
        circles += u32::from(state.tired.is_some());
        losses += u32::from(state.words.get(&key(LockWord::Groups)).is_some_and(|&groups| taken(groups) > 0));
        choices = state.choices;
        while choices.pop_if(|(options, taken)| *taken + 1 == *options).is_some() {}
        let Some((_, taken)) = choices.last_mut() else { break };
        *taken += 1;
    }
    (by_bias, losses, circles)
}

/// Shows S2.
#[test]
fn losing_the_bias_does_not_admit_a_second_holder() {
    explore(
        &[|it| it.write(0, None).and_then(|()| it.write(0, None)), |it| it.write(0, None), |it| it.read_all()],
        true,
        3,
    );
}

/// Shows S2.
#[test]
fn the_bias_is_given_and_taken_concurrently() {
    let writer: Program = |it| (0..3).try_for_each(|_| it.write(0, None));
    explore(&[writer, |it| it.read_all(), |it| it.read_all()], false, 3);
}

/// Shows S2.
#[test]
fn writers_of_two_targets_do_not_wait_for_each_other_through_one_that_wants_all() {
    explore(&[|it| it.write(0, Some(1)), |it| it.write(1, None), |it| it.read_all()], true, 3);
}

/// Shows S2.
#[test]
fn readers_and_writers_by_the_bias_take_turns() {
    explore(
        &[|it| it.write(0, None), |it| it.read_one(0), |it| it.read_all().and_then(|()| it.write(0, None))],
        true,
        3,
    );
}

/// Locks that are requested together with operations exclude each other, locks by words, and
/// holders of all targets. If such a lock is not free, the process waits for it by words.
/// Shows S2.
#[test]
fn locks_of_requests_and_locks_by_words_exclude_each_other() {
    explore(
        &[|it| it.carried(0, true).and_then(|()| it.carried(0, true)), |it| it.carried(0, false), |it| it.read_all()],
        true,
        3,
    );
    explore(&[|it| it.carried(0, true), |it| it.write(0, None), |it| it.read_all()], true, 3);
    explore(
        &[|it| it.carried(0, false), |it| it.carried(0, true), |it| it.read_all().and_then(|()| it.write(0, None))],
        true,
        3,
    );
}

/// Shared locks of one target in two windows, each with a writer that waits: nobody waits for ever
/// for processes that only wait.
/// Shows S2.
#[test]
fn readers_of_two_windows_do_not_wait_for_each_other_through_writers() {
    explore_circle(
        &[
            |it| shared_and(it, 0, || shared_and(&Second(it), 0, || Ok(()))),
            |it| shared_and(&Second(it), 0, || shared_and(it, 0, || Ok(()))),
            |it| written(it, 0, || Ok(())),
            |it| written(&Second(it), 0, || Ok(())),
        ],
        1,
    );
}

/// Shows S2.
#[test]
fn holders_of_all_in_two_windows_do_not_wait_for_each_other_through_writers() {
    explore_circle(
        &[
            |it| all_and(it, || all_and(&Second(it), || Ok(()))),
            |it| all_and(&Second(it), || all_and(it, || Ok(()))),
            |it| written(it, 0, || Ok(())),
            |it| written(&Second(it), 0, || Ok(())),
        ],
        1,
    );
}

/// A writer that waits behind a reader is announced, and its announcement keeps out processes that
/// want all targets.
/// Shows S2.
#[test]
fn an_announced_writer_that_only_waits_gives_way() {
    explore_circle(
        &[
            |it| shared_and(it, 0, || written(&Second(it), 0, || Ok(()))),
            |it| written(it, 0, || Ok(())),
            |it| all_and(&Second(it), || all_and(it, || Ok(()))),
        ],
        1,
    );
}

/// A process that wants all targets has priority over a new writer, while others wait for that
/// writer's lock of another window.
/// Shows S2.
#[test]
fn priority_does_not_keep_out_a_writer_for_ever() {
    explore_circle(
        &[
            |it| written(it, 1, || written(&Second(it), 1, || Ok(()))),
            |it| shared_and(&Second(it), 1, || written(it, 0, || Ok(()))),
            |it| all_and(it, || Ok(())),
        ],
        1,
    );
}
