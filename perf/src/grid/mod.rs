//! The grid: 36 cases of one-sided operations while the target computes and makes no call, compared
//! with an *attentive* target, which waits in a barrier and so makes progress. Each case also
//! checks that the data was at the target when the origin's operation was complete.
//!
//! The method: when flush or unlock has returned, the origin stores a flag into memory that both
//! processes have mapped independently of the library. The computing target checks that flag every
//! few microseconds. When the flag is set, the target immediately reads its part of the window by
//! plain loads. Data of an operation that was not complete is then missing.

mod part;
mod signals;

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use transom::Job;

use crate::options::Options;
use crate::outcome::Outcome;
use crate::report;
use part::{Buffers, Part};
use signals::{Signals, Word};

/// Computing time of the target in each case, and its maximum, where the machine is too busy for
/// all repetitions in that time. An operation that waits for the target waits until the computing
/// ends.
const COMPUTE: Duration = Duration::from_millis(300);
const COMPUTE_MAX: Duration = Duration::from_secs(1);
/// Repetitions; their median is shown, with a computing and with an attentive target.
const COMPUTING: u64 = 9;
const ATTENTIVE: u64 = 15;
/// A latency of more than this many times the latency with an attentive target is late.
const LATE: f64 = 100.0;
/// A latency of at most this many times the latency with an attentive target is prompt.
const PROMPT: f64 = 3.0;
/// Shorter latencies, of operations that are a store, count as this much, so that a clock tick or
/// an interrupt is not lateness.
const LEAST_US: f64 = 1.0;

/// Whether a latency with a computing target is prompt.
pub(crate) fn is_prompt(computing_us: f64, attentive_us: f64) -> bool {
    computing_us <= PROMPT * attentive_us.max(LEAST_US)
}

/// The source of a window's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Creation {
    /// User memory.
    Create,
    Allocate,
    /// User memory, attached.
    Dynamic,
}

/// The synchronization that opens and completes the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
enum Synchronization {
    #[serde(rename = "lock/unlock")]
    Lock,
    #[serde(rename = "lock_all/flush")]
    Flush,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
enum Operation {
    #[serde(rename = "put 8 B")]
    PutShort,
    #[serde(rename = "put 64 KiB")]
    PutLong,
    #[serde(rename = "get 64 B")]
    Get,
    #[serde(rename = "accumulate 8 kB")]
    Accumulate,
    #[serde(rename = "fetch_and_op")]
    FetchAndOp,
    #[serde(rename = "compare_and_swap")]
    CompareAndSwap,
}

const CREATIONS: [Creation; 3] = [Creation::Create, Creation::Allocate, Creation::Dynamic];
const SYNCHRONIZATIONS: [Synchronization; 2] = [Synchronization::Lock, Synchronization::Flush];
const OPERATIONS: [Operation; 6] = [
    Operation::PutShort,
    Operation::PutLong,
    Operation::Get,
    Operation::Accumulate,
    Operation::FetchAndOp,
    Operation::CompareAndSwap,
];

/// One line of the table.
#[derive(serde::Serialize)]
struct Row {
    window: Creation,
    synchronization: Synchronization,
    operation: Operation,
    computing_us: f64,
    attentive_us: f64,
    ratio: f64,
    passive: bool,
    data: bool,
}

/// One case, at both ranks.
struct Case<'c> {
    world: &'c Job,
    signals: Option<&'c Signals>,
    part: &'c Part,
    /// From 1 on.
    number: u64,
    creation: Creation,
    synchronization: Synchronization,
    operation: Operation,
}

/// Runs all cases; returns whether all were passive and no data was missing.
pub(crate) fn run(world: &Job, options: &Options) -> Outcome<bool> {
    let signals = Signals::open(world)?;
    if world.rank() == 0 {
        header(world, options)?;
    }
    let mut rows = Vec::new();
    let mut number = 0;
    for creation in CREATIONS {
        for synchronization in SYNCHRONIZATIONS {
            let part = Part::open(world, creation)?;
            if let (1, Some(signals)) = (world.rank(), &signals) {
                signals.store(Word::Base, part.base);
            }
            for operation in OPERATIONS {
                number += 1;
                let signals = signals.as_ref();
                let case = Case { world, signals, part: &part, number, creation, synchronization, operation };
                if let Some(row) = case.run()? {
                    line(&row)?;
                    rows.push(row);
                }
            }
            part.free()?;
        }
    }
    if world.rank() != 0 {
        return Ok(true);
    }
    let passive = rows.iter().filter(|row| row.passive && row.data).count();
    let prompt =
        rows.iter().filter(|row| row.passive && row.data && is_prompt(row.computing_us, row.attentive_us)).count();
    writeln!(crate::output::output(), "passive: {passive} of {}", rows.len())?;
    writeln!(crate::output::output(), "at most {PROMPT} times the attentive target: {prompt} of {}", rows.len())?;
    report::write_json(options, &rows)?;
    Ok(passive == rows.len())
}

impl Case<'_> {
    /// Runs the case; returns the row, at the origin.
    fn run(&self) -> Outcome<Option<Row>> {
        self.world.barrier()?;
        match (self.world.rank(), self.signals) {
            (0, Some(signals)) => self.origin(signals).map(Some),
            (1, Some(signals)) => {
                // Attentive: the target remains in this call until the origin has its latencies.
                self.world.barrier()?;
                self.target(signals);
                self.world.barrier()?;
                Ok(None)
            }
            _ => {
                self.world.barrier()?;
                self.world.barrier()?;
                Ok(None)
            }
        }
    }

    /// The number of a repetition, over all cases.
    fn repetition(&self, index: u64) -> u64 {
        self.number * 100 + index
    }

    fn origin(&self, signals: &Signals) -> Outcome<Row> {
        let mut buffers = Buffers::new();
        let base = signals.load(Word::Base);
        let mut turn = 0;
        let mut timed = || -> Outcome<(Duration, bool)> {
            turn += 1;
            let start = Instant::now();
            self.part.perform(self.operation, self.synchronization, (base, turn), &mut buffers)?;
            Ok((start.elapsed(), Part::brought(self.operation, turn, &buffers)))
        };
        self.part.begin(self.synchronization)?;
        // First contact is not part of the measurement.
        timed()?;
        let attentive: Vec<_> = (1..ATTENTIVE).map(|_| timed()).collect::<Outcome<_>>()?;
        self.world.barrier()?;
        let mut computing = Vec::new();
        for index in 0..COMPUTING {
            if !signals.may_go(self.repetition(index), self.number)? {
                break;
            }
            computing.push(timed()?);
            signals.store(Word::Completed, self.repetition(index));
        }
        signals.ended(self.number)?;
        let (during, right) = (signals.load(Word::During), signals.load(Word::Right) == 1);
        self.world.barrier()?;
        self.part.end(self.synchronization)?;
        let data = right && computing.iter().all(|&(_, brought)| brought);
        let (computing_us, attentive_us) = (median_us(&computing), median_us(&attentive));
        let ratio = computing_us / attentive_us.max(LEAST_US);
        Ok(Row {
            window: self.creation,
            synchronization: self.synchronization,
            operation: self.operation,
            computing_us,
            attentive_us,
            ratio,
            passive: during == COMPUTING && ratio <= LATE,
            data,
        })
    }

    /// Computes; between steps it checks the flag for the origin's completion, and then its memory.
    /// No call of the library from beginning to end.
    fn target(&self, signals: &Signals) {
        let start = Instant::now();
        let (mut during, mut right, mut sum) = (0, true, 0u64);
        let turn = |index: u64| ATTENTIVE + 1 + index;
        self.part.prepare(self.operation, turn(0));
        signals.store(Word::Ready, self.repetition(0));
        while start.elapsed() < if during < COMPUTING { COMPUTE_MAX } else { COMPUTE } {
            sum = (0..2000u64).fold(sum, |sum, i| black_box(sum.wrapping_mul(31).wrapping_add(i)));
            if during < COMPUTING && signals.load(Word::Completed) == self.repetition(during) {
                right &= self.part.holds(self.operation, turn(during));
                during += 1;
                if during < COMPUTING {
                    self.part.prepare(self.operation, turn(during));
                    signals.store(Word::Ready, self.repetition(during));
                }
            }
        }
        // One more check, before the first call after computing.
        right &= during > 0 && (during < COMPUTING || self.part.holds(self.operation, turn(COMPUTING - 1)));
        signals.store(Word::During, during);
        signals.store(Word::Right, u64::from(right));
        signals.store(Word::Ended, self.number);
    }
}

fn median_us(times: &[(Duration, bool)]) -> f64 {
    let mut times: Vec<_> = times.iter().map(|(time, _)| time.as_secs_f64() * 1e6).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn header(world: &Job, options: &Options) -> Outcome<()> {
    report::head(options, world)?;
    let mut out = crate::output::output();
    writeln!(
        out,
        "# Target computes {} to {} ms in each case without a call; medians in us",
        COMPUTE.as_millis(),
        COMPUTE_MAX.as_millis()
    )?;
    writeln!(
        out,
        "# Passive: all {COMPUTING} repetitions were complete meanwhile, at most {LATE} times as late as with an"
    )?;
    writeln!(
        out,
        "# attentive target, which waits in a barrier; its latencies below {LEAST_US} us count as {LEAST_US} us"
    )?;
    writeln!(
        out,
        "# Data: whether it had arrived when the operation was complete, by plain loads of the computing target"
    )?;
    writeln!(
        out,
        "{:<10}{:<18}{:<18}{:>18}{:>18}{:>9}{:>9}{:>6}",
        "# Window", "Synchronization", "Operation", "Computing target", "Attentive target", "Ratio", "Passive", "Data"
    )?;
    Ok(())
}

fn line(row: &Row) -> Outcome<()> {
    let word = |yes: bool| if yes { "yes" } else { "NO" };
    let text = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    writeln!(
        crate::output::output(),
        "{:<10}{:<18}{:<18}{:>18.2}{:>18.2}{:>9.2}{:>9}{:>6}",
        text(serde_json::to_value(row.window)?),
        text(serde_json::to_value(row.synchronization)?),
        text(serde_json::to_value(row.operation)?),
        row.computing_us,
        row.attentive_us,
        row.ratio,
        word(row.passive),
        word(row.data)
    )?;
    Ok(())
}
