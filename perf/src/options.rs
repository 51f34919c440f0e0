//! The command line: the options of the OSU benchmarks, and options of this program.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::kinds::Test;

/// Measure one-sided communication between two ranks or among many. The tables have the form of the
/// OSU benchmarks.
///
/// Without a launcher transom-perf starts -n ranks itself, and binds the ranks to cores if there is
/// a core for each. In tests whose description begins with "All ranks" all ranks work at once; the
/// other tests measure between ranks 0 and 1. The right neighbour of a rank is the rank with the
/// next higher number; the right neighbour of the last rank is rank 0. The ranks use the same route
/// as those of any other program. With TRANSOM_TRANSPORTS=^shm ranks of one machine use the
/// network: verbs if there is an RDMA device, else libfabric. TRANSOM_NET_DEVICES and
/// TRANSOM_PROVIDER select the device and the provider.
#[derive(Clone, Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  \
                  transom-perf put_latency -m 8:8 --vs-floor   puts of 8 bytes compared with the bare operation\n  \
                  transom-perf -n 4 gups                       random updates by four ranks at once\n\n\
                  transom-perf compare runs a benchmark of plain MPI calls on each installed MPI, with transom's interposition library \
                  (libtransom_mpi.so) and without: transom-perf compare --help\n\n\
                  transom-perf model computes time and memory of a window's calls for up to millions of ranks: transom-perf model --help"
)]
pub(crate) struct Options {
    /// The test to run.
    #[arg(value_enum)]
    pub(crate) test: Test,
    /// Smallest and largest message in bytes; each size is twice the previous one. A single number
    /// is the largest size; the smallest is then 1, or 8 in tests that measure whole words. By
    /// default 1:4194304, in accumulate and strided_put 8:1048576; tests of all ranks have other
    /// defaults.
    #[arg(short = 'm', value_name = "MIN:MAX", value_parser = sizes)]
    pub(crate) sizes: Option<Sizes>,
    /// Iterations for each size. By default 10000 up to 8 KiB and 1000 above, in tests of bandwidth
    /// 1000 and 100; fewer if a size would take longer than about two seconds. In fence_latency,
    /// pscw and notify_pingpong 12000 by default, whatever time they take. Tests of all ranks by
    /// default choose the number by time.
    #[arg(short = 'i', value_name = "ITERATIONS")]
    pub(crate) iterations: Option<usize>,
    /// Warm-up iterations, which are not measured; by default 100 up to 8 KiB and 10 above, in
    /// tests of bandwidth 10 and 1, in tests of all ranks 1. No effect on fence_latency, pscw and
    /// notify_pingpong, whose first round is the warm-up.
    #[arg(short = 'x', value_name = "SKIP")]
    pub(crate) skip: Option<usize>,
    /// Operations before one completion in the tests of bandwidths and rates.
    #[arg(short = 'W', value_name = "OPERATIONS", default_value_t = 64)]
    pub(crate) window: usize,
    /// Source of the window's memory.
    #[arg(short = 'w', value_enum, default_value_t = Creation::Allocate)]
    pub(crate) creation: Creation,
    /// Completion of an operation.
    #[arg(short = 's', value_enum, default_value_t = Synchronization::Flush)]
    pub(crate) synchronization: Synchronization,
    /// Verify the data of every size.
    #[arg(short = 'c', long)]
    pub(crate) check: bool,
    /// Also measure the floor, the bare operations without the library, in the same run. The last
    /// column is always the ratio of the times: above 1 the library is slower. Over libibverbs,
    /// also print the results of perftest's programs if they are installed.
    #[arg(long)]
    pub(crate) vs_floor: bool,
    /// Also write the results to a file as JSON. The test passive does so only with --grid.
    #[arg(long, value_name = "FILE", conflicts_with = "counts")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) picture: PictureOptions,
    /// For the test passive: measure the 36 cases of {create, allocate, dynamic} x {lock/unlock,
    /// lock_all/flush} x {put of 8 bytes, put of 64 KiB, get, accumulate, fetch-and-op,
    /// compare-and-swap}. Each case verifies that the data has arrived when the operation is
    /// complete.
    #[arg(long)]
    pub(crate) grid: bool,
    /// For the test fence_latency: the ranks compute for this number of microseconds, and then
    /// fence twice, each time with one put of 8 bytes. The table has the times of both fences,
    /// without a floor.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) gap: Option<u64>,
    /// Ranks to start if there is no launcher. In tests between two ranks the other ranks wait.
    #[arg(short = 'n', value_name = "RANKS", default_value_t = 2)]
    pub(crate) ranks: usize,
    /// In tests of all ranks, also print percentiles of the time of one operation: 50, 90, 99 and
    /// 99.9. Each operation is then completed and timed alone.
    #[arg(long)]
    pub(crate) percentiles: bool,
    /// In tests of all ranks: puts wrong data into rank 0's part, which --check must find.
    #[arg(long, hide = true)]
    pub(crate) spoil: bool,
}

/// A picture of the results.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PictureOptions {
    /// Also draw the results, and with --vs-floor the floor: over the sizes, or over the numbers of
    /// --ranks.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// In tests of all ranks: run the test once for each of these numbers of ranks, and draw the
    /// results of --svg over the number of ranks.
    #[arg(long = "ranks", value_name = "RANKS,RANKS", value_delimiter = ',', requires = "svg")]
    pub(crate) counts: Vec<usize>,
}

/// Source of the window's memory (`MPI_Win_create`, `MPI_Win_allocate`, `MPI_Win_allocate_shared`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Creation {
    /// Memory of the program.
    Create,
    /// Memory of the library.
    Allocate,
    /// Memory of the library, for jobs on one node only.
    Shared,
}

/// Completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Synchronization {
    /// A flush within `lock_all`.
    Flush,
    /// A local flush within `lock_all`.
    FlushLocal,
    /// A whole `lock_all` epoch for each operation.
    LockAll,
}

/// Values of `-m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Absent if the option is a single number.
    least: Option<usize>,
    most: usize,
}

impl Options {
    /// The smallest and largest size that the user has given.
    fn given_sizes(&self) -> Option<(usize, usize)> {
        let least = if self.test.is_of_words() || self.test.is_word() { 8 } else { 1 };
        self.sizes.map(|sizes| (sizes.least.unwrap_or(least.min(sizes.most)), sizes.most))
    }

    /// Checks for options that contradict each other or the test.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.test.is_word() && self.given_sizes().is_some_and(|sizes| sizes != (8, 8)) {
            return Err(format!("{} measures 8 bytes; -m 8:8 is its only size", self.test.name()));
        }
        if self.window == 0 || self.iterations == Some(0) {
            return Err("-W and -i must be at least 1".into());
        }
        if !self.test.takes_synchronization() && self.synchronization != Synchronization::Flush {
            return Err(format!("{} has its own synchronization; leave out -s", self.test.name()));
        }
        if self.test.is_of_words() && self.given_sizes().is_some_and(|(least, _)| least == 0 || least % 8 != 0) {
            return Err(format!("{} measures whole words: -m 8:MAX, or another multiple of 8", self.test.name()));
        }
        if (self.percentiles || self.spoil) && !self.test.is_of_all_ranks() {
            return Err(format!(
                "{} is not a test of all ranks (transom-perf --help lists them); leave out --percentiles",
                self.test.name()
            ));
        }
        if self.gap.is_some() && (self.test != Test::FenceLatency || self.vs_floor) {
            return Err("--gap is an option of the test fence_latency only, without --vs-floor".into());
        }
        if self.picture.counts.iter().any(|&count| count < 2)
            || !(self.picture.counts.is_empty() || self.test.is_of_all_ranks())
        {
            return Err("--ranks takes numbers from 2 on, and is an option of the tests of all ranks only".into());
        }
        if self.picture.svg.is_some()
            && self.picture.counts.is_empty()
            && (self.has_no_sizes() || self.sizes().len() < 2)
        {
            let name = self.test.name();
            return Err(format!("{name} has one size here, and no curve over sizes: leave out --svg, or give --ranks"));
        }
        if self.grid && self.test != Test::Passive {
            return Err("--grid is an option of the test passive only".into());
        }
        Ok(())
    }

    /// Whether the lines of the table are other cases than sizes.
    fn has_no_sizes(&self) -> bool {
        matches!(self.test, Test::Passive | Test::Floor)
    }

    /// The sizes of the table, doubling.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let (least, most) = match self.test {
            test if test.is_word() => (8, 8),
            test if test.is_of_all_ranks() => {
                self.given_sizes().or(test.all_ranks_properties().map(|test| test.sizes)).unwrap_or((8, 8))
            }
            test if test.is_of_words() => self.given_sizes().unwrap_or((8, 1 << 20)),
            _ => self.given_sizes().unwrap_or((1, 4 << 20)),
        };
        let mut sizes = vec![least];
        while let Some(next) = sizes.last().map(|size| (size * 2).max(1)).filter(|&size| size <= most) {
            sizes.push(next);
        }
        sizes
    }
}

/// The value of a variable that is set and not empty. The library has refused one that is not
/// UTF-8.
pub(crate) fn filled(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("{text:?}: {error}"));
    let (least, most) = match text.split_once(':') {
        Some((least, most)) => (Some(number(least)?), number(most)?),
        None => (None, number(text)?),
    };
    if least.unwrap_or(1) > most || most > 1 << 30 {
        return Err(format!("{text} is not a range of sizes up to 1 GiB"));
    }
    Ok(Sizes { least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_within_the_range() {
        let list = |m: &str| Options::parse_from(["transom-perf", "put_latency", "-m", m]).sizes();
        assert_eq!(list("8:8"), [8]);
        assert_eq!(list("4"), [1, 2, 4]);
        assert_eq!(list("3:20"), [3, 6, 12]);
        assert_eq!(list("0:2"), [0, 1, 2]);
        assert!(sizes("9:8").is_err() && sizes("x").is_err() && sizes("1:99999999999").is_err());
    }

    #[test]
    fn a_single_size_of_words_begins_at_8() {
        for test in ["accumulate", "strided_put", "put_mr", "put_mbw"] {
            let options = |m: &str| Options::parse_from(["transom-perf", test, "-m", m]);
            assert_eq!(options("32").sizes(), [8, 16, 32], "{test}");
            assert_eq!(options("32").check(), Ok(()), "{test}");
            for refused in ["4", "1:32", "12:32"] {
                assert!(options(refused).check().is_err(), "{test} {refused}");
            }
        }
        assert_eq!(Options::parse_from(["transom-perf", "fop_latency", "-m", "8"]).check(), Ok(()));
    }

    #[test]
    fn only_fences_follow_a_gap() {
        let options = |rest: &[&str]| Options::parse_from([&["transom-perf"], rest].concat()).check();
        assert_eq!(options(&["fence_latency", "--gap", "1000"]), Ok(()));
        assert!(options(&["fence_latency", "--gap", "1000", "--vs-floor"]).is_err());
        assert!(options(&["pscw", "--gap", "1000"]).is_err());
    }

    #[test]
    fn atomics_have_one_size() {
        let options = Options::parse_from(["transom-perf", "cas_latency", "-m", "1:64"]);
        assert!(options.check().is_err());
        assert_eq!(Options::parse_from(["transom-perf", "fop_latency"]).sizes(), [8]);
    }
}
