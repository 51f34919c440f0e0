//! The results of perftest (`ib_read_lat` and others), if it is installed: on the device and the
//! machines of the test, in the same run. Its programs do not always measure the operation of the
//! test; the head of the table names their operation.

use std::io::Read;
use std::net::Ipv6Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use transom::Job;
use transom_verbs::PortInfo;

use crate::floor::exchange_of_two;
use crate::kinds::Test;
use crate::options::Options;
use crate::outcome::Outcome;

/// Time limit of a run of one program.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit of the origin's attempts to reach the target's side before it listens.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of repetitions: enough for a typical value, and short on a device in software.
const ITERATIONS: usize = 1000;
/// Minimum number of repetitions that a program accepts.
const FEWEST: usize = 5;
/// The first TCP port of its connection; each run uses the next port.
const PORT: u16 = 21_000;

/// A program of perftest for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    options: &'static [&'static str],
    /// The meaning of its result.
    means: &'static str,
}

/// perftest between ranks 0 and 1.
#[derive(Debug)]
pub(crate) struct Perftest {
    program: Program,
    test: Test,
    /// Ranks 0 and 1.
    both: Job,
    /// Arguments of both sides.
    arguments: Vec<String>,
    /// The target's machine.
    host: String,
    port: u16,
    /// Whether the program has failed. It is then not run again.
    broken: bool,
}

fn program(test: Test) -> Option<Program> {
    const TYPICAL: &str = "t_typical";
    const AVERAGE: &str = "average, in 10^6 bytes";
    let (name, options, means): (_, &[&str], _) = match test {
        Test::PutLatency => {
            ("ib_write_lat", &[], "t_typical, which is half of a round trip of writes that both sides poll for")
        }
        Test::GetLatency => ("ib_read_lat", &[], TYPICAL),
        Test::FopLatency => ("ib_atomic_lat", &["-A", "FETCH_AND_ADD"], TYPICAL),
        Test::CasLatency => ("ib_atomic_lat", &["-A", "CMP_AND_SWAP"], TYPICAL),
        Test::PutBw => ("ib_write_bw", &[], AVERAGE),
        Test::GetBw => ("ib_read_bw", &[], AVERAGE),
        _ => return None,
    };
    Some(Program { name, options, means })
}

impl Perftest {
    /// Finds the test's program at ranks 0 and 1, if libibverbs connects them. Both call it.
    pub(crate) fn find(world: &Job, options: &Options) -> Outcome<Option<Perftest>> {
        let device = world.net().and_then(|net| net.strip_prefix("verbs ").map(str::to_owned));
        let (Some(program), Some(device)) = (program(options.test), device.filter(|_| world.rank() < 2)) else {
            return Ok(None);
        };
        let both = world.subset(&[0, 1])?;
        let used = |port: &PortInfo| format!("{}:{}", port.device, port.port) == device;
        let port = transom_verbs::ports().into_iter().find(used).filter(|_| is_installed(program.name));
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mine = port.as_ref().map(|port| format!("{machine} {}", address(port).unwrap_or_else(|| machine.clone())));
        let theirs = String::from_utf8(exchange_of_two(&both, mine.unwrap_or_default().as_bytes())?)?;
        let (Some(port), Some((there, host))) = (port, theirs.split_once(' ')) else { return Ok(None) };
        let host = if there == machine { "127.0.0.1" } else { host }.to_owned();
        let arguments = arguments(program, &port, options.iterations);
        Ok(Some(Perftest { program, test: options.test, both, arguments, host, port: PORT, broken: false }))
    }

    /// The program, and the meaning of its result.
    pub(crate) fn means(&self) -> String {
        format!("{}: {}", self.program.name, self.program.means)
    }

    /// Runs the program for one size; rank 0 returns its result, in microseconds or 10^6 bytes a
    /// second. If the program fails, there is no result, and the failure is printed. Ranks 0 and 1
    /// call it.
    pub(crate) fn run(&mut self, size: usize) -> Outcome<Option<f64>> {
        if self.broken || size == 0 {
            return Ok(None);
        }
        self.port += 1;
        let printed = if self.both.rank() == 0 { self.origin(size)? } else { finished(self.command(size).spawn()?)? };
        let theirs = exchange_of_two(&self.both, printed.as_ref().err().map_or("", String::as_str).as_bytes())?;
        self.broken = printed.is_err() || !theirs.is_empty();
        if self.broken && self.both.rank() == 0 {
            let (here, there) = (printed.as_ref().err().map_or("", String::as_str), String::from_utf8_lossy(&theirs));
            eprintln!("transom-perf: {} of {size} bytes failed: {here}; at the target: {there}", self.program.name);
        }
        Ok(printed.ok().and_then(|printed| number(self.test, &printed)))
    }

    /// Runs the origin's side, once the target's listens.
    fn origin(&self, size: usize) -> Outcome<Result<String, String>> {
        let start = Instant::now();
        loop {
            match finished(self.command(size).arg(&self.host).spawn()?)? {
                Err(_) if start.elapsed() < CONNECT_LIMIT => std::thread::sleep(Duration::from_millis(50)),
                outcome => return Ok(outcome),
            }
        }
    }

    fn command(&self, size: usize) -> Command {
        let mut command = Command::new(self.program.name);
        command.args(&self.arguments).args(["-p", &self.port.to_string()]);
        if !self.test.is_word() {
            command.args(["-s", &size.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn arguments(program: Program, port: &PortInfo, iterations: Option<usize>) -> Vec<String> {
    let iterations = iterations.unwrap_or(ITERATIONS).clamp(FEWEST, ITERATIONS).to_string();
    let mut arguments: Vec<String> =
        ["-F", "-n", &iterations, "-d", &port.device, "-i", &port.port.to_string()].map(Into::into).into();
    if let (true, Ok((index, _))) = (port.ethernet, &port.gid) {
        arguments.extend(["-x".into(), index.to_string()]);
    }
    arguments.extend(program.options.iter().map(|&option| option.into()));
    arguments
}

/// The IP address of a port's GID, if the GID has one.
fn address(port: &PortInfo) -> Option<String> {
    let (_, gid) = port.gid.as_ref().ok().filter(|_| port.ethernet)?;
    Some(Ipv6Addr::from(*gid).to_ipv4_mapped()?.to_string())
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Waits for a program and ends it after the time limit. Returns its output, or the reason of its
/// failure.
fn finished(mut child: Child) -> Outcome<Result<String, String>> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(Err(format!("the program did not end within {LIMIT:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut printed = String::new();
    if let Some(out) = child.stdout.as_mut() {
        out.read_to_string(&mut printed)?;
    }
    if status.success() {
        return Ok(Ok(printed));
    }
    if let Some(errors) = child.stderr.as_mut() {
        errors.read_to_string(&mut printed)?;
    }
    Ok(Err(format!("{status}: {}", printed.lines().last().unwrap_or_default().trim())))
}

/// The result in a program's output: in the line of numbers, the typical time in microseconds, or
/// the average in MiB a second, converted to 10^6 bytes.
fn number(test: Test, printed: &str) -> Option<f64> {
    let mut rows = printed
        .lines()
        .filter_map(|line| line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>());
    let row = rows.rfind(|row| row.len() > 4)?;
    if test.is_bandwidth() { Some(row[3] * 1.048_576) } else { Some(row[4]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_from_the_output_of_perftest() {
        let latency = "---\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n\
                       8       1000          4.51           40.20        5.02     	       5.32        	1.02   		7.11    		40.20  \n---\n";
        assert_eq!(number(Test::GetLatency, latency), Some(5.02));
        let bandwidth = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n\
                         65536      1000             1000.00            500.00   \t\t   0.008\n";
        assert_eq!(number(Test::PutBw, bandwidth), Some(524.288));
        assert_eq!(number(Test::GetLatency, "Couldn't connect to 127.0.0.1:21001\n"), None);
    }

    #[test]
    fn only_what_perftest_measures_has_a_program() {
        assert_eq!(program(Test::CasLatency).map(|program| program.options), Some(&["-A", "CMP_AND_SWAP"][..]));
        assert_eq!(program(Test::Accumulate), None);
    }

    #[test]
    fn a_failing_program_is_an_error_with_its_output() {
        let failing = Command::new("sh")
            .args(["-c", "echo one; echo two >&2; exit 3"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let printed = finished(failing.expect("sh")).expect("it was started").expect_err("it failed");
        assert!(printed.contains('3') && printed.ends_with("two"), "{printed}");
    }
}
