//! Numbered cases of a sweep: their parameters, and their outcomes. Jobs may crash or hang.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::running::Run;

/// Number of cases in one job, which bounds the cases that a crash affects.
const AT_ONCE: usize = 900;

/// Time limit of a job in seconds. A case that hangs ends its job much earlier.
const LIMIT: u32 = 400;

/// How MPICH's launcher ends on a busy machine now and then, instead of with the status of the
/// failed rank: with the signal SIGKILL, which it sends to the other ranks of the job, or with 1.
const OF_LAUNCHER: [&str; 2] = ["ends with 9", "ends with 1"];

/// Maximum number of runs of a case whose outcome may be [`OF_LAUNCHER`].
const RUNS: u32 = 4;

/// The parameters of the first cases.
pub(crate) fn listed(program: &Path, count: usize) -> Vec<String> {
    let last = count - 1;
    let output = Command::new(program).args(["list", "0", &last.to_string()]).output().expect("it was compiled");
    let text = String::from_utf8_lossy(&output.stdout);
    let cases: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).map(|(_, text)| text.to_owned()).collect();
    assert_eq!(cases.len(), count, "{} does not list all of its cases", program.display());
    cases
}

/// The outcome of each case.
pub(crate) struct Outcomes(BTreeMap<usize, String>);

impl Outcomes {
    /// Runs the cases in as many jobs as necessary: a job that dies is followed by one for the
    /// remaining cases. A case that ends as [`OF_LAUNCHER`] is run again.
    pub(crate) fn of(run: impl Fn() -> Run, numbers: &[usize]) -> Outcomes {
        let mut outcomes = BTreeMap::new();
        let mut left = numbers;
        let mut runs = 1;
        while !left.is_empty() {
            let (now, _) = left.split_at(left.len().min(AT_ONCE));
            let mut done = job(&run().given(arguments(now), LIMIT), now, &mut outcomes);
            let by_launcher = outcomes.get(&now[done - 1]).is_some_and(|how| OF_LAUNCHER.contains(&how.as_str()));
            runs = if done > 1 { 1 } else { runs };
            if by_launcher && runs < RUNS {
                runs += 1;
                done -= 1;
                outcomes.remove(&now[done]);
            } else {
                runs = 1;
            }
            left = &left[done..];
        }
        Outcomes(outcomes)
    }

    pub(crate) fn get(&self, number: usize) -> &str {
        self.0.get(&number).map_or("-", String::as_str)
    }
}

/// The cases as ranges of numbers, for the command line.
fn arguments(numbers: &[usize]) -> Vec<String> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges = ranges.iter().map(|(first, last)| format!("{first}-{last}"));
    std::iter::once("run".to_owned()).chain(ranges).collect()
}

/// Runs one job; returns the number of its finished cases.
fn job(run: &Run, numbers: &[usize], outcomes: &mut BTreeMap<usize, String>) -> usize {
    let output = run.output();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (mut begun, mut is_to_end) = (None, None);
    for line in printed.lines() {
        let mut words = line.splitn(3, ' ');
        let (mark, number) = (words.next(), words.next().and_then(|word| word.parse::<usize>().ok()));
        match (mark, number) {
            (Some(">"), Some(number)) => begun = Some(number),
            (Some("!"), Some(number)) => is_to_end = Some(number),
            (Some("="), Some(number)) => {
                outcomes.insert(number, words.next().unwrap_or_default().to_owned());
            }
            _ => (),
        }
    }
    let over = numbers.iter().take_while(|number| outcomes.contains_key(number)).count();
    let how = if errors.contains("! hang") || output.status.code() == Some(124) { "hang" } else { "crash" };
    if over == numbers.len() {
        // The end of the job is the outcome of its last case.
        if !output.status.success() {
            outcomes.entry(numbers[over - 1]).or_default().push_str(&format!(" then {how} at the end"));
        }
        return over;
    }
    assert!(
        !output.status.success() && begun == Some(numbers[over]),
        "a job ended without an outcome of its last case\n{printed}{errors}"
    );
    let status = output.status.code().filter(|_| how == "crash" && is_to_end == begun);
    outcomes.insert(numbers[over], status.map_or(how.to_owned(), |status| format!("ends with {status}")));
    over + 1
}
