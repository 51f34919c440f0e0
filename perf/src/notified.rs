//! Notified puts: a ping-pong between ranks 0 and 1, compared with one of stores and flags, and
//! with one of puts, flushes and atomics of the library.

use std::time::{Duration, Instant};

use transom::{Job, LockAllEpoch, Notice, ops};

use crate::floor::Floor;
use crate::iterations::window;
use crate::kinds::Test;
use crate::measure::Times;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{self, Row};
use crate::rounds::{ROUNDS, alternate_rounds, per_round};

/// Number of different values that are put.
const VALUES: u64 = 256;
/// The words of a part: the data of notified puts, the data of plain puts, and the word that
/// atomics increment behind plain puts.
const WORDS: usize = 3;
/// A round by atomics has this part of the round trips of the other rounds: it takes longer.
const FEWER: usize = 4;

/// Round trips of 8 bytes: a notified put, for whose notice rank 1 waits, and a notified put back.
/// The buffers live as long as the epoch, so no rank waits for the completion of its put. Both
/// ranks alternate a round of the library and a round of the floor. Rounds of [`Atomics`] follow.
pub(crate) fn pingpong(
    world: &Job,
    options: &Options,
    floor: Option<&Floor>,
    show: &mut dyn FnMut(&Options, Option<Row>) -> Outcome<()>,
) -> Outcome<()> {
    let win = window::<u64>(world, options, WORDS)?;
    win.set_num_notify(1)?;
    let (me, each) = (world.rank(), per_round(options));
    let floor = floor.filter(|floor| floor.has(Test::NotifyPingpong));
    let mut turn = 0u64;
    // Ranks 0 and 1 exchange puts; the other ranks only enter the barriers.
    let turns = if me < 2 { each } else { 0 };
    let values: Vec<u64> = (0..VALUES).collect();
    let mut atomics = Atomics { me, each: turns.div_ceil(FEWER), turn: 0, times: Vec::new() };
    let rounds = win.lock_all(|epoch| {
        let round_trips = || {
            (0..turns).try_for_each(|_| {
                turn += 1;
                if me == 1 {
                    win.notices().wait(0, turn)?;
                }
                let value = &values[(turn % VALUES) as usize];
                epoch.put_notify(1 - me, 0, std::slice::from_ref(value), Notice(0))?;
                if me == 0 { win.notices().wait(0, turn) } else { Ok(()) }
            })
        };
        // The barrier before each round of the floor lets the targets answer the last put, so that
        // this answer takes no time of the floor.
        let bare = || floor.map_or(Ok(()), |floor| floor.together(Test::NotifyPingpong, each));
        let rounds = alternate_rounds(round_trips, || world.barrier(), bare)?;
        // Afterwards, so that rounds of the library and of the floor stay neighbours.
        for _ in 0..=ROUNDS {
            world.barrier()?;
            atomics.round(epoch, &values)?;
        }
        Ok(rounds)
    })?;
    let row = rounds.row(each, floor.is_some())?;
    world.barrier()?;
    let mut words = [0; WORDS];
    win.load(0, &mut words)?;
    let [last, other, flag] = words;
    let counted = win.notices().value(0)?;
    if options.check && me < 2 && (last, counted) != (turn % VALUES, turn) {
        return Err(format!("after {turn} puts the last value is {last}, and the counter is {counted}").into());
    }
    if options.check && me < 2 && (other, flag) != (atomics.turn % VALUES, atomics.turn) {
        return Err(format!("after {} puts the last value is {other}, and the word is {flag}", atomics.turn).into());
    }
    world.barrier()?;
    win.free()?;
    if me == 0 {
        let note = atomics.note(row.library.median_ns);
        show(options, Some(row))?;
        report::note(&note)?;
    }
    Ok(())
}

/// The same round trips without notices: a put, a flush, and an atomic on a word of the target,
/// which reads the word until it has changed.
struct Atomics {
    me: usize,
    /// The number of round trips in a round.
    each: usize,
    /// The number of round trips so far.
    turn: u64,
    /// The durations of the rounds.
    times: Vec<Duration>,
}

impl Atomics {
    fn round<'env>(&mut self, epoch: &LockAllEpoch<'_, 'env, u64>, values: &'env [u64]) -> transom::Result<()> {
        let (me, start) = (self.me, Instant::now());
        for _ in 0..self.each {
            self.turn += 1;
            if me == 1 {
                self.wait(epoch)?;
            }
            epoch.put(1 - me, 1, std::slice::from_ref(&values[(self.turn % VALUES) as usize]))?;
            epoch.flush(1 - me)?;
            epoch.accumulate(1 - me, 2, &[1], ops::Sum)?;
            epoch.flush(1 - me)?;
            if me == 0 {
                self.wait(epoch)?;
            }
        }
        self.times.push(start.elapsed());
        Ok(())
    }

    /// Waits for the other rank's atomic. The answers to its requests need this rank's core.
    fn wait(&self, epoch: &LockAllEpoch<'_, '_, u64>) -> transom::Result<()> {
        while epoch.fetch_value(self.me, 2)? < self.turn {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The result in words, beside the time of a round trip by notices in ns.
    fn note(&self, notices: f64) -> String {
        // The first round warms up.
        let median = Times::of_durations(&self.times[1..], self.each).median_ns;
        let (us, ratio) = (median / 1000.0, median / notices);
        format!("The same by put, flush and atomic: {us:.4} us, {ratio:.2} times the time by notices")
    }
}
