//! A job of the benchmark: its launcher, the FIFOs of commands and answers, and the end of the job.
//! Knows no plan, and no order of jobs.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::process::{Pid, Signal, kill_process};

use super::answers::{Message, parse};
use crate::outcome::Outcome;

/// An answer is missing for this time only if the launcher hangs, because the benchmark itself has
/// a shorter limit.
const SILENCE: Duration = Duration::from_secs(40);
/// Time limit for the end of a job.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which a wait for an answer looks for the end of the launcher.
const INTERVAL: Duration = Duration::from_millis(50);

/// The running launchers, which a signal to this program ends too.
static LAUNCHERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Ends all launchers. While the result lives, no other launcher starts.
pub(super) fn end_all() -> MutexGuard<'static, Vec<Pid>> {
    let launchers = LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    for &launcher in &*launchers {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(launcher, Signal::TERM);
    }
    launchers
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Starts a launcher, which a signal to this program ends too, until `forget`.
fn start(command: &mut Command) -> std::io::Result<Child> {
    // A signal waits until the launcher is known.
    let mut launchers = LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    launchers.extend(pid_of(&child));
    Ok(child)
}

fn forget(child: &Child) {
    let own = pid_of(child);
    LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|&launcher| Some(launcher) != own);
}

/// Runs a command to its end; a signal to this program ends it too.
pub(super) fn watched(command: &mut Command) -> std::io::Result<ExitStatus> {
    let mut child = start(command)?;
    let status = child.wait();
    forget(&child);
    status
}

/// What a job did next.
#[derive(Debug)]
pub(super) enum Next {
    Message(Message),
    /// The launcher has ended, for this reason.
    Ended(String),
    /// No answer for longer than the limit.
    Silence,
    /// The deadline has passed.
    Late,
}

/// A running job.
pub(super) struct Job {
    child: Child,
    /// The folder of the job's files, which is removed with this value.
    folder: PathBuf,
    /// The FIFO of each rank.
    gates: Vec<File>,
    answers: File,
    /// The answers that have arrived and were not read.
    arrived: Vec<u8>,
    /// Whether the launcher was waited for.
    has_ended: bool,
}

impl Job {
    /// Starts a job of `ranks` ranks with its files in the new folder `folder`. `command` starts
    /// the launcher.
    pub(super) fn start(folder: PathBuf, ranks: usize, command: &mut Command) -> Outcome<Job> {
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("words"), [0; 4096])?;
        let gates = (0..ranks).map(|rank| fifo(&folder.join(format!("gate-{rank}")))).collect::<Outcome<Vec<_>>>()?;
        let answers = fifo(&folder.join("answers"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.join("errors"))?);
        let child = start(command).map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Job { child, folder, gates, answers, arrived: Vec::new(), has_ended: false })
    }

    /// Gives all ranks a command.
    pub(super) fn command(&mut self, command: &str) -> Outcome<()> {
        for gate in &mut self.gates {
            gate.write_all(format!("{command}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Waits for the next answer, or for the end of the job.
    pub(super) fn next(&mut self, deadline: Option<Instant>) -> Outcome<Next> {
        let start = Instant::now();
        loop {
            // Before the answers are read: ranks write before they end.
            let ended = self.child.try_wait()?;
            self.receive()?;
            while let Some(line) = self.line() {
                if let Some(message) = parse(&line) {
                    return Ok(Next::Message(message));
                }
            }
            if let Some(status) = ended {
                return Ok(Next::Ended(self.reason(&status.to_string())));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Next::Late);
            }
            if start.elapsed() > SILENCE {
                return Ok(Next::Silence);
            }
            let mut files = [PollFd::new(&self.answers, PollFlags::IN)];
            // After a signal the loop continues.
            let _ = poll(&mut files, Timespec::try_from(INTERVAL).ok().as_ref());
        }
    }

    /// Takes the answers from the FIFO.
    fn receive(&mut self) -> std::io::Result<()> {
        let mut bytes = [0; 4096];
        match self.answers.read(&mut bytes) {
            Ok(length) => self.arrived.extend_from_slice(&bytes[..length]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next whole line that has arrived.
    fn line(&mut self) -> Option<String> {
        let end = self.arrived.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.arrived.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Waits for the end of the job; returns the reason. A hanging job gets SIGTERM, and then
    /// SIGKILL: no rank outlives its launcher.
    pub(super) fn end(&mut self, is_stuck: bool) -> String {
        if let (true, Some(launcher)) = (is_stuck, pid_of(&self.child)) {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(launcher, Signal::TERM);
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return self.reason(&status.to_string());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill()
    }

    fn kill(&mut self) -> String {
        // It fails for a launcher that has ended.
        let _ = self.child.kill();
        let ended = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.reason(&ended)
    }

    /// The end of a job, with the first line of its error output that gives a reason.
    fn reason(&mut self, ended: &str) -> String {
        self.has_ended = true;
        reason_of_end(&self.folder.join("errors"), ended)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
        }
        forget(&self.child);
        // If the folder can't be removed, it remains until that of all jobs is removed.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes a FIFO, and opens both of its ends: no opening of the other side waits, and no write of
/// this side fails. Ranks read the end of the file if this program ends.
fn fifo(path: &Path) -> Outcome<File> {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_printed_without_brackets() {
        assert_eq!(
            plain("[vm:10894] [[1,0],0] *** Signal: Segmentation fault (11)"),
            "Signal: Segmentation fault (11)"
        );
        assert_eq!(plain("  no brackets "), "no brackets");
        assert_eq!(plain("[open"), "[open");
    }

    /// A shell in place of the launcher.
    fn job(name: &str, script: &str) -> Job {
        let folder = std::env::temp_dir().join(format!("transom-compare-job-{name}-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(std::env::temp_dir()).env("JOB", &folder);
        Job::start(folder, 2, &mut shell).expect("a job")
    }

    #[test]
    fn answers_written_before_the_end_of_a_job_are_read() {
        let mut job = job("end", "read line <$JOB/gate-1; echo begin 7 >$JOB/answers; echo broken >&2; exit 3");
        job.command("line 7").expect("written");
        let Next::Message(Message::Begin(7)) = job.next(None).expect("an answer") else { panic!("not begun") };
        let Next::Ended(why) = job.next(None).expect("the end") else { panic!("not ended") };
        assert_eq!(why, "exit status: 3: broken");
    }

    #[test]
    fn a_job_ends_with_its_value() {
        let mut job = job("drop", "exec sleep 1000");
        let now = Instant::now();
        assert!(matches!(job.next(Some(now)).expect("an outcome"), Next::Late));
        let (pid, folder) = (job.child.id(), job.folder.clone());
        drop(job);
        assert!(!Path::new(&format!("/proc/{pid}")).exists() && !folder.exists());
    }
}
