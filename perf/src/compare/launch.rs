//! Builds the benchmark with each MPI's compiler, and runs plans: a hang or crash ends one line of
//! the plan, and the rest is run in a new job.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::Transport;
use super::answers::{Answer, Message, parse};
use super::hosts::Host;
use super::plan::Line;
use crate::outcome::Outcome;

/// The benchmark, which is built where it runs.
const SOURCES: [(&str, &str); 5] = [
    ("bench.h", include_str!("../../mpi/bench.h")),
    ("main.c", include_str!("../../mpi/main.c")),
    ("cells.c", include_str!("../../mpi/cells.c")),
    ("grid.c", include_str!("../../mpi/grid.c")),
    ("ranks.c", include_str!("../../mpi/ranks.c")),
];

/// Output is missing for this time only if the launcher hangs, because the benchmark itself has a
/// shorter limit.
const SILENCE: Duration = Duration::from_secs(40);
/// The most restarts of a plan after lines that ended the job.
const RESTARTS: usize = 24;

/// The process of the running launcher, which a signal to this program ends too; 0 if none runs.
static LAUNCHER: AtomicI32 = AtomicI32::new(0);

/// When a signal ends this program, removes the folder, ends the job, and then lets the signal end
/// the program.
fn clean_on_signal(folder: PathBuf) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            // SeqCst: rare, and nothing else is ordered by it.
            if let Some(launcher) = Pid::from_raw(LAUNCHER.load(Ordering::SeqCst)) {
                // One that has ended meanwhile needs no signal.
                let _ = kill_process(launcher, Signal::TERM);
            }
            let _ = std::fs::remove_dir_all(&folder);
            // It fails only for unknown signals, which these are not.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// A plan, and the environment in which its jobs run.
pub(crate) struct Planned<'p> {
    /// The MPI, and its number among those for which the benchmark was built.
    pub(crate) host: &'p Host,
    pub(crate) program: usize,
    /// The interposition library to preload.
    pub(crate) library: Option<&'p Path>,
    pub(crate) transport: Transport,
    pub(crate) lines: &'p [Line],
}

/// The benchmark, built for each MPI, in a folder that is removed with this value.
pub(crate) struct Bench {
    folder: PathBuf,
    programs: Vec<PathBuf>,
    ranks: usize,
    /// The benchmark's arguments BUDGET_US LEAST_MS MOST_MS LIMIT_S.
    numbers: [&'static str; 4],
    clock: Option<Clock>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // If the folder can't be removed, it remains among the temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    /// Builds the benchmark with the compiler of each MPI, for jobs of `ranks` ranks.
    pub(crate) fn build(hosts: &[Host], ranks: usize, quick: bool) -> Outcome<Bench> {
        let folder = std::env::temp_dir().join(format!("transom-compare-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        clean_on_signal(folder.clone())?;
        let numbers = if quick { ["2000", "30", "150", "4"] } else { ["6000", "300", "1000", "25"] };
        let mut bench = Bench { folder, programs: Vec::new(), ranks, numbers, clock: None };
        for (name, text) in SOURCES {
            std::fs::write(bench.folder.join(name), text)?;
        }
        for host in hosts {
            let program = bench.folder.join(format!("bench-{}", bench.programs.len()));
            let mut compiler = Command::new(&host.mpicc);
            compiler.args(["-O2", "-std=gnu99", "-o"]).arg(&program).args(["main.c", "cells.c", "grid.c", "ranks.c"]);
            let output = compiler.current_dir(&bench.folder).stdin(Stdio::null()).output();
            let output = output.map_err(|error| format!("{}: {error}", host.mpicc))?;
            if !output.status.success() {
                return Err(format!("{}: {}", host.mpicc, String::from_utf8_lossy(&output.stderr).trim()).into());
            }
            bench.programs.push(program);
        }
        Ok(bench)
    }

    /// Bounds the time of all `runs` runs of plans together.
    pub(crate) fn limit(&mut self, time: Duration, runs: usize) {
        self.clock = Some(Clock { end: Instant::now() + time, left: Cell::new(runs) });
    }

    /// Runs a plan. Returns an answer for each line. `before`: the answers of an earlier round; a
    /// line without a value in that round is not repeated.
    pub(crate) fn run(&self, plan: &Planned<'_>, before: Option<&Vec<Answer>>) -> Outcome<Vec<Answer>> {
        let lines = plan.lines;
        let kept = |line: usize| before.map(|answers| answers[line].clone()).filter(|answer| !answer.is_measured());
        let mut answers: Vec<Option<Answer>> = (0..lines.len()).map(kept).collect();
        let mut starts = 0;
        let deadline = self.clock.as_ref().map(Clock::deadline);
        for _ in 0..RESTARTS {
            let open: Vec<usize> = (0..lines.len()).filter(|&line| answers[line].is_none()).collect();
            if open.is_empty() {
                break;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                open.iter().for_each(|&line| answers[line] = Some(Answer::Skipped));
                break;
            }
            let why = self.run_once(plan, &open, &mut answers, deadline)?;
            // A job that did not reach its plan is repeated once, and then abandoned.
            starts = if why.is_some() { starts + 1 } else { 0 };
            if let Some(why) = why.filter(|_| starts == 2) {
                open.iter().for_each(|&line| answers[line] = Some(Answer::Dies(why.clone())));
            }
        }
        let rest = || Answer::Dies("not run, because too many tests before it ended the job".into());
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(rest)).collect())
    }

    /// Runs the lines that have no answer yet, until a line ends the job; that line has an answer
    /// then. Returns how the job ended if it ended before the first line.
    fn run_once(
        &self,
        plan: &Planned<'_>,
        open: &[usize],
        answers: &mut [Option<Answer>],
        deadline: Option<Instant>,
    ) -> Outcome<Option<String>> {
        let &Planned { host, program, library, transport, lines } = plan;
        let [file, words, errors] = ["plan", "words", "errors"].map(|name| self.folder.join(name));
        std::fs::write(&file, open.iter().map(|&line| lines[line].text()).collect::<String>())?;
        std::fs::write(&words, [0; 4096])?;
        let mut command = Command::new(&host.mpiexec);
        command.args(["-n", &self.ranks.to_string()]).envs(host.environment(transport, library.is_some()));
        if transport == Transport::Shm {
            command.env_remove("TRANSOM_TRANSPORTS");
        }
        // The program is started by env, so that the launcher itself runs without the library.
        if let Some(library) = library {
            command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        }
        command.arg(&self.programs[program]).args([&file, &words]).args(self.numbers);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&errors)?);
        let child = command.spawn().map_err(|error| format!("{}: {error}", host.mpiexec))?;
        // SeqCst: rare, and nothing else is ordered by it.
        LAUNCHER.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let mut run = Run { child, lines, open, answers, begun: None, deadline };
        let end_of_output = run.read_output();
        let ended = run.end(end_of_output != OutputEnd::Complete);
        // SeqCst: rare, and no other access is ordered by it.
        LAUNCHER.store(0, Ordering::SeqCst);
        let why = match end_of_output {
            // The remaining lines are skipped.
            OutputEnd::Late => return Ok(None),
            OutputEnd::Silence => "the launcher printed nothing for too long".to_owned(),
            OutputEnd::Complete => reason_of_end(&errors, &ended),
        };
        Ok(run.settle(why))
    }
}

/// Runs a command to its end; a signal to this program ends it too.
pub(crate) fn watched(command: &mut Command) -> std::io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    // SeqCst, both: rare, and no other access is ordered by it.
    LAUNCHER.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
    let status = child.wait();
    LAUNCHER.store(0, Ordering::SeqCst);
    status
}

/// The time of all runs together.
struct Clock {
    end: Instant,
    /// Runs that have not begun.
    left: Cell<usize>,
}

impl Clock {
    /// The time limit of a run that begins now: three times its share of the remaining time, since
    /// most runs need less, and at most all of it.
    fn deadline(&self) -> Instant {
        let (now, left) = (Instant::now(), u32::try_from(self.left.get()).unwrap_or(u32::MAX).max(1));
        self.left.set(self.left.get().saturating_sub(1));
        let rest = self.end.saturating_duration_since(now);
        now + rest.min(rest * 3 / left)
    }
}

/// How the output of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputEnd {
    Complete,
    /// No output for longer than the limit.
    Silence,
    /// The time limit of the run has passed.
    Late,
}

/// The end of a job, with the first line of its output that gives a reason. Process numbers are
/// left out, so that equal reasons are equal texts.
fn reason_of_end(errors: &Path, ended: &str) -> String {
    const NOISE: [&str; 4] = ["Process received signal", "ORTE_ERROR_LOG", "show_help", "aggregate"];
    let text = std::fs::read(errors).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().filter(|line| !NOISE.iter().any(|noise| line.contains(noise))).map(plain);
    let first = lines.find(|line| line.chars().any(char::is_alphabetic));
    format!("{ended}: {}", first.unwrap_or("no output"))
}

/// A line without the brackets and stars that it begins and ends with.
fn plain(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(inside) = rest.strip_prefix('[') {
        let Some((_, after)) = inside.split_once("] ").or_else(|| inside.split_once(']')) else { break };
        rest = after.trim_start();
    }
    rest.trim_matches(['*', '-', '=', ' '])
}

/// One job at work.
struct Run<'r> {
    child: Child,
    lines: &'r [Line],
    open: &'r [usize],
    answers: &'r mut [Option<Answer>],
    /// The line that has begun, by its index among the open ones.
    begun: Option<usize>,
    deadline: Option<Instant>,
}

impl Run<'_> {
    /// Reads the output of the job until its end, a long silence, or the time limit.
    fn read_output(&mut self) -> OutputEnd {
        let Some(output) = self.child.stdout.take() else { return OutputEnd::Silence };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        self.read_lines(&receiver)
    }

    fn read_lines(&mut self, receiver: &Receiver<String>) -> OutputEnd {
        loop {
            let rest = self.deadline.map_or(SILENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(rest.min(SILENCE)) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Timeout) if rest < SILENCE => return OutputEnd::Late,
                Err(RecvTimeoutError::Timeout) => return OutputEnd::Silence,
                Err(RecvTimeoutError::Disconnected) => return OutputEnd::Complete,
            }
        }
    }

    fn take(&mut self, line: &str) {
        match parse(line) {
            Some(Message::Begin(place)) => self.begun = Some(place),
            Some(Message::Answer(place, answer)) => self.answer(place, answer),
            Some(Message::NoWindow(place, why)) => {
                let window = self.open.get(place).map(|&line| self.lines[line].window);
                for place in 0..self.open.len() {
                    if Some(self.lines[self.open[place]].window) == window {
                        self.answer(place, Answer::Fails(why.clone()));
                    }
                }
            }
            None => {}
        }
    }

    /// Sets the answer of a line. The first answer counts: a job that ends may print another one.
    fn answer(&mut self, place: usize, answer: Answer) {
        if let Some(slot) = self.open.get(place).and_then(|&line| self.answers.get_mut(line)) {
            slot.get_or_insert(answer);
        }
    }

    /// Waits for the end of the job; returns how it ended, in words. A hanging job gets SIGTERM,
    /// and then SIGKILL: no rank outlives its launcher.
    fn end(&mut self, stuck: bool) -> String {
        let launcher = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (true, Some(launcher)) = (stuck, launcher) {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(launcher, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.to_string();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// Sets the answer of the line that ended the job, if the line has none. If no line had begun,
    /// returns the reason.
    fn settle(&mut self, why: String) -> Option<String> {
        let Some(place) = self.begun else { return Some(why) };
        if self.open.iter().any(|&line| self.answers[line].is_none()) {
            self.answer(place, Answer::Dies(why));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::plan;
    use super::*;

    /// The answers of a script instead of the launcher.
    fn answers(script: &str, lines: &[Line]) -> Vec<Answer> {
        answers_within(script, lines, None)
    }

    fn answers_within(script: &str, lines: &[Line], time: Option<Duration>) -> Vec<Answer> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: it only distinguishes the folders of the tests.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("transom-compare-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let mpiexec = folder.join("mpiexec");
        std::fs::write(&mpiexec, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&mpiexec, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let path = mpiexec.to_str().expect("a path").to_owned();
        let host = super::super::hosts::named(&format!("mine=cc,{path}")).expect("an MPI");
        let mut bench = Bench { folder, programs: vec!["bench".into()], ranks: 2, numbers: ["1"; 4], clock: None };
        if let Some(time) = time {
            bench.limit(time, 1);
        }
        let plan = Planned { host: &host, program: 0, library: None, transport: Transport::Shm, lines };
        bench.run(&plan, None).expect("answers")
    }

    /// Each start prints the effect of the first remaining line; `$4` is the plan.
    #[test]
    fn after_a_line_that_ends_the_job_the_plan_continues() {
        let lines = &plan::cells(true)[..4];
        let script = "echo begin 0; case $(head -n 1 $4) in
            'put allocate flush 8') echo cell 0 1.5 right; echo begin 1; echo broken >&2; exit 9;;
            'put allocate fence 8') echo hang 0; exit 4;;
            *) echo cell 0 2 right; esac";
        let found = answers(script, lines);
        assert_eq!(found[0], Answer::Value(1.5));
        assert_eq!(found[1], Answer::Dies("exit status: 9: broken".into()));
        assert_eq!(found[2..], [Answer::Hangs, Answer::Value(2.0)]);
    }

    #[test]
    fn lines_without_time_left_are_skipped() {
        let start = Instant::now();
        let script = "echo begin 0; echo cell 0 1.5 right; echo begin 1; exec sleep 100";
        let found = answers_within(script, &plan::cells(true), Some(Duration::from_secs(2)));
        assert_eq!(found[0], Answer::Value(1.5));
        assert!(found[1..].iter().all(|answer| *answer == Answer::Skipped), "{:?}", found[1]);
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }

    #[test]
    fn a_window_that_fails_ends_all_its_lines() {
        let lines = plan::cells(true);
        let script = "case $(head -n 1 $4) in
            *allocate*) echo begin 0; echo nowindow 0 MPI_Win_allocate: no memory; exit 3;;
            *) n=0; while read line; do echo begin $n; echo cell $n 1 right; n=$((n + 1)); done <$4; esac";
        let found = answers(script, &lines);
        for (line, answer) in lines.iter().zip(found) {
            let expected = match line.window {
                "allocate" => Answer::Fails("MPI_Win_allocate: no memory".into()),
                _ => Answer::Value(1.0),
            };
            assert_eq!(answer, expected, "{line:?}");
        }
    }

    #[test]
    fn restarts_of_a_failing_launcher_are_limited() {
        let found = answers("echo '[vm:17] *** no such thing ***' >&2; exit 1", &plan::cells(true));
        let expected = Answer::Dies("exit status: 1: no such thing".into());
        assert!(found.iter().all(|answer| *answer == expected), "{:?}", found[0]);
    }

    #[test]
    fn reasons_are_printed_without_brackets() {
        assert_eq!(
            plain("[vm:10894] [[1,0],0] *** Signal: Segmentation fault (11)"),
            "Signal: Segmentation fault (11)"
        );
        assert_eq!(plain("  no brackets "), "no brackets");
        assert_eq!(plain("[open"), "[open");
    }
}
