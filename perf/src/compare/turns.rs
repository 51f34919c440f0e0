//! The order of the measurement: on each line of the plan, an MPI without the library and with it
//! take turns. Their jobs exist at the same time, and those whose turn it is not sleep. A hang or
//! crash ends one line of one job, and a new job measures the rest.

use std::time::Instant;

use super::answers::{Answer, Message, Verdict};
use super::hosts::Host;
use super::job::{Job, Next};
use super::launch::{Bench, Program};
use super::plan::Line;
use super::ratios::{Ratio, median};
use super::{Column, Part, Transport, progress};
use crate::outcome::Outcome;

/// The most jobs of a side in a round: lines may end them.
const STARTS: usize = 24;

/// The conditions of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'m> {
    pub(crate) bench: &'m Bench,
    pub(crate) transport: Transport,
    pub(crate) lines: &'m [Line],
    pub(crate) deadline: Option<Instant>,
}

impl Setting<'_> {
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Measures the lines in `rounds` rounds. Each round starts new jobs.
pub(crate) fn measured(setting: Setting<'_>, hosts: &[Host], rounds: usize) -> Outcome<Part> {
    let mut sides: Vec<Vec<Side<'_>>> = hosts.iter().enumerate().map(|(at, host)| sides(setting, at, host)).collect();
    for round in 1..=rounds {
        for line in 0..setting.lines.len() {
            let all = setting.lines.len();
            progress(&format!("{}, round {round} of {rounds}, line {} of {all}", setting.transport.name(), line + 1));
            for pair in &mut sides {
                if !setting.is_late() {
                    measure(pair, line)?;
                }
            }
        }
        for side in sides.iter_mut().flatten() {
            side.end_round()?;
        }
    }
    let columns = sides.iter().flat_map(|pair| columns(pair)).collect();
    Ok(Part { transport: setting.transport, lines: setting.lines.to_vec(), columns })
}

/// An MPI without the library, and with it if it exists.
fn sides<'m>(setting: Setting<'m>, number: usize, host: &'m Host) -> Vec<Side<'m>> {
    let libraries = [None, host.library.as_deref()];
    let all = libraries.into_iter().take(1 + usize::from(host.library.is_some()));
    all.map(|library| Side::new(setting, Program { host, number, library })).collect()
}

/// Measures a line by all sides: they warm up one after the other, and then take turns.
fn measure(sides: &mut [Side<'_>], line: usize) -> Outcome<()> {
    let mut at_work = Vec::new();
    for side in sides {
        if let Some(turns) = side.begin(line)? {
            at_work.push((side, turns));
        }
    }
    for _ in 0..at_work.iter().map(|&(_, turns)| turns).min().unwrap_or(0) {
        for (side, _) in &mut at_work {
            side.turn(line)?;
        }
    }
    for (side, _) in at_work {
        side.check(line)?;
    }
    Ok(())
}

/// The columns of an MPI. The second has the ratios.
fn columns(sides: &[Side<'_>]) -> Vec<Column> {
    let column = |side: &Side<'_>| {
        let program = side.program;
        let with = program.library.is_some();
        let ratios = if with { ratios(&sides[0], side) } else { Vec::new() };
        Column { host: program.host.name.clone(), with, answers: side.answers(), early: side.early.clone(), ratios }
    };
    sides.iter().map(column).collect()
}

/// The ratio of each line that both sides have measured.
fn ratios(without: &Side<'_>, with: &Side<'_>) -> Vec<Option<Ratio>> {
    let ratio = |(at, line): (usize, &Line)| {
        let are_open = without.outcomes[at].is_none() && with.outcomes[at].is_none();
        Ratio::of_rounds(line, &without.values[at], &with.values[at]).filter(|_| are_open)
    };
    without.setting.lines.iter().enumerate().map(ratio).collect()
}

/// An MPI with the library or without.
struct Side<'m> {
    setting: Setting<'m>,
    program: Program<'m>,
    job: Option<Job>,
    /// The last line that the running job has begun.
    begun: Option<usize>,
    /// Jobs of the round, and those at its end so far that have begun no line.
    starts: usize,
    failed_starts: usize,
    /// Whether no further job starts, in this round and in later ones.
    abandoned: bool,
    /// The cases, and the reasons why lines have no values.
    outcomes: Vec<Option<Answer>>,
    /// Whether an operation of a line was complete at the origin before its data had arrived.
    early: Vec<bool>,
    /// The values of each line, by rounds.
    values: Vec<Vec<Vec<f64>>>,
}

impl<'m> Side<'m> {
    fn new(setting: Setting<'m>, program: Program<'m>) -> Side<'m> {
        let (outcomes, values) = (vec![None; setting.lines.len()], vec![Vec::new(); setting.lines.len()]);
        let (starts, failed_starts, early) = (0, 0, vec![false; setting.lines.len()]);
        let (job, begun, abandoned) = (None, None, false);
        Side { setting, program, job, begun, starts, failed_starts, abandoned, outcomes, early, values }
    }

    /// Begins a line, if no round before has ended without its values. Returns the number of turns
    /// that the benchmark wants; `None` if the line has not begun.
    fn begin(&mut self, line: usize) -> Outcome<Option<usize>> {
        let command = format!("line {line} {}", self.setting.lines[line].text().trim_end());
        while self.outcomes[line].is_none() && !self.abandoned {
            if self.setting.is_late() {
                self.set_unmeasured(line, Answer::Skipped);
                break;
            }
            if self.job.is_none() && self.starts == STARTS {
                self.abandon("not run, because too many tests before it ended the job");
            } else if self.job.is_none() {
                (self.starts, self.begun) = (self.starts + 1, None);
                self.job = Some(self.setting.bench.start(self.program, self.setting.transport)?);
            }
            match self.perform(line, &command)? {
                Some(Message::Ready(_, turns)) => {
                    self.values[line].push(Vec::new());
                    return Ok(Some(turns));
                }
                Some(_) => self.confused(line),
                None => {}
            }
        }
        Ok(None)
    }

    /// Measures a turn of the line, if the line has begun and has not ended.
    fn turn(&mut self, line: usize) -> Outcome<()> {
        match self.perform(line, "turn")? {
            Some(Message::Turn(_, value)) => {
                if let Some(turns) = self.values[line].last_mut() {
                    turns.push(value);
                }
            }
            Some(_) => self.confused(line),
            None => {}
        }
        Ok(())
    }

    /// Verifies the data of the line, if the line has begun and has not ended.
    fn check(&mut self, line: usize) -> Outcome<()> {
        match self.perform(line, "check")? {
            Some(Message::Checked(_, Verdict::Right)) | None => {}
            Some(Message::Checked(_, Verdict::Early)) => self.early[line] = true,
            Some(Message::Checked(_, Verdict::Wrong)) => self.outcomes[line] = Some(Answer::Wrong),
            Some(_) => self.confused(line),
        }
        Ok(())
    }

    /// Gives the job a command of an open line, and waits for the answer. `None`: the line has
    /// ended, or the job ended before it began the line.
    fn perform(&mut self, line: usize, command: &str) -> Outcome<Option<Message>> {
        let (None, Some(job)) = (&self.outcomes[line], &mut self.job) else { return Ok(None) };
        job.command(command)?;
        loop {
            match job.next(self.setting.deadline)? {
                Next::Message(Message::Begin(begun)) => (self.begun, self.failed_starts) = (Some(begun), 0),
                // The number is not that of a line before the first one has begun.
                Next::Message(Message::Answer(_, Answer::Hangs)) if self.begun.is_none() => {
                    self.end_job(true);
                    self.settle(line, "the job did not start within the limit");
                    return Ok(None);
                }
                Next::Message(Message::Answer(_, answer)) => {
                    if !answer.is_measured() {
                        self.end_job(false);
                    }
                    self.outcomes[line] = Some(answer);
                    return Ok(None);
                }
                Next::Message(Message::NoWindow(_, why)) => {
                    self.end_job(false);
                    let lines = self.setting.lines;
                    let alike = (0..lines.len()).filter(|&other| lines[other].window == lines[line].window);
                    alike.for_each(|other| self.set_unmeasured(other, Answer::Fails(why.clone())));
                    self.set(line, Answer::Fails(why));
                    return Ok(None);
                }
                Next::Message(message) => return Ok(Some(message)),
                Next::Ended(why) => {
                    self.job = None;
                    self.settle(line, &why);
                    return Ok(None);
                }
                Next::Silence => {
                    self.end_job(true);
                    self.settle(line, "the launcher or the benchmark answered nothing for too long");
                    return Ok(None);
                }
                Next::Late => {
                    self.end_job(true);
                    self.outcomes[line] = Some(Answer::Skipped);
                    return Ok(None);
                }
            }
        }
    }

    fn end_job(&mut self, is_stuck: bool) {
        if let Some(mut job) = self.job.take() {
            job.end(is_stuck);
        }
    }

    /// Handles the end of the job before or during a line. After two jobs that ended before their
    /// first line, no further job starts; lines without values then have `why` as their outcome.
    fn settle(&mut self, line: usize, why: &str) {
        if self.begun == Some(line) {
            self.set(line, Answer::Dies(why.to_owned()));
        }
        if self.begun.is_none() {
            self.failed_starts += 1;
        }
        if self.failed_starts == 2 {
            self.abandon(why);
        }
    }

    /// An answer to another command ends the job and the line.
    fn confused(&mut self, line: usize) {
        self.end_job(true);
        self.set(line, Answer::Dies("the benchmark answered another command".to_owned()));
    }

    /// Starts no further job. Cells that have been measured keep their values.
    fn abandon(&mut self, why: &str) {
        self.abandoned = true;
        for line in 0..self.outcomes.len() {
            self.set_unmeasured(line, Answer::Dies(why.to_owned()));
        }
    }

    /// Sets the outcome of a line that has no values.
    fn set_unmeasured(&mut self, line: usize, answer: Answer) {
        if self.values[line].iter().all(Vec::is_empty) {
            self.set(line, answer);
        }
    }

    /// The first outcome of a line counts.
    fn set(&mut self, line: usize, answer: Answer) {
        self.outcomes[line].get_or_insert(answer);
    }

    /// Ends the job of a round.
    fn end_round(&mut self) -> Outcome<()> {
        (self.starts, self.failed_starts) = (0, 0);
        if let Some(mut job) = self.job.take() {
            job.command("end")?;
            job.end(false);
        }
        Ok(())
    }

    /// The answer of each line: the median of all turns, or the reason why there is none.
    fn answers(&self) -> Vec<Answer> {
        let answer = |(outcome, rounds): (&Option<Answer>, &Vec<Vec<f64>>)| {
            let value = || median(&mut rounds.concat()).map_or(Answer::Skipped, Answer::Value);
            outcome.clone().unwrap_or_else(value)
        };
        self.outcomes.iter().zip(&self.values).map(answer).collect()
    }
}

#[cfg(test)]
mod tests;
