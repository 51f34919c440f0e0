//! Measures the memory of one process in a job of 16,384 ranks, 128 of them on its node: rank 0
//! starts as in a real job, and a bootstrap of the test generates the values of the other ranks.
//! The test runs itself in a process of its own, so that no other test's memory counts.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;

use transom_fabric::Peer;
use transom_fabric::sim::{SimNet, SimOptions};

use super::block::block_bytes;
use super::start::start;
use crate::bootstrap::counted::{Counted, RequestCounts, noise};
use crate::bootstrap::fields::{pack, unpack_all};
use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::environment::{Pretended, Settings};
use crate::failures::Process;
use crate::transport::bytes_of_verbs;

const RANKS: usize = 16_384;
const PER_NODE: usize = 128;
/// Set in the process that measures: the file for its counts.
const CHILD: &str = "TRANSOM_SCALE_CHILD";
const NAME: &str = "job::scale::a_process_among_16384_ranks_needs_at_most_64_mib";
const MIB: u64 = 1 << 20;
/// A connected peer over Soft-RoCE, which takes most (fabric/verbs/src/lib.rs, "Memory").
const CONNECTION: u64 = 26 * 1024;

/// A stand-in for the launcher of rank 0.
#[derive(Debug, Default)]
struct Generated {
    /// The first value of this rank under each name of an allgather.
    own: HashMap<String, Vec<u8>>,
}

impl Generated {
    /// The value that rank `rank` would put where this rank puts `own`.
    fn value(name: &str, own: &[u8], rank: usize) -> Vec<u8> {
        let mut fields = unpack_all(own).expect("fields");
        let node = rank / PER_NODE;
        match name {
            "transom.card" if node > 0 => {
                fields[2] = format!("{node:08x}{}", &Process::own().kernel[8..]).into_bytes();
                fields[3] = format!("a-machine-{node:06}").into_bytes();
                fields[7] = format!("{node:08x} net:[1]\nib0=10.1.{}.{}/16", node / 250, node % 250).into_bytes();
            }
            // As long as an address of verbs.
            "transom.net" => fields[2] = noise(rank, 37),
            _ => {}
        }
        pack(&fields)
    }
}

impl Bootstrap for Generated {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        RANKS
    }

    fn value_limit(&self) -> usize {
        1 << 30
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        if let Some(name) = key.strip_suffix(".0.0.0") {
            let packed = lz4_flex::block::decompress_size_prepended(&value[4..]).expect("a block");
            self.own.insert(name.to_owned(), unpack_all(&packed).expect("one value").remove(0));
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }

    /// The block of values that begins with that of rank `from`.
    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let mut parts = key.rsplitn(4, '.');
        let level = parts.nth(2).and_then(|level| level.parse().ok()).expect("NAME.LEVEL.RANK.PIECE");
        let name = parts.next().expect("a name");
        let ranks = from..RANKS.min(from + 8usize.pow(level));
        let values: Vec<_> = ranks.map(|rank| Generated::value(name, &self.own[name], rank)).collect();
        let block = lz4_flex::block::compress_prepend_size(&pack(&values));
        let length = u32::try_from(block.len()).expect("a short block");
        Ok(Some([&length.to_le_bytes()[..], &block].concat()))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }

    fn abort(&mut self, _code: i32, _why: &str) -> Result<(), BootstrapError> {
        Ok(())
    }
}

/// Bytes of this process in memory: now, and the most so far.
fn resident() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs of this process");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    };
    [field("VmRSS:"), field("VmHWM:")]
}

fn measure(file: OsString) {
    let boot = Counted::new(Box::new(Generated::default()), PER_NODE);
    let request_counts = boot.request_counts();
    let net = SimNet::new(1, SimOptions::default());
    let settings = Settings { pretended: Pretended { nodes: Some(1), ..Pretended::default() }, ..Settings::default() };
    let [before, _] = resident();
    let domain = net.domain(Peer(0)).expect("one rank");
    let job = start(Box::new(boot), settings, Some(domain)).expect("a job");
    let [after, most] = resident();
    let on_node = (0..RANKS).filter(|&rank| job.lane(rank) == Some(crate::transport::Lane::Shm)).count();
    assert_eq!((job.size, on_node), (RANKS, PER_NODE - 1));
    let RequestCounts { puts, gets, barriers } = request_counts();
    let counts = format!("{} {} {}", after - before, most - before, puts + gets + barriers);
    std::fs::write(file, counts).expect("a file for the parent");
    // The other ranks do not exist, so the job can't be left.
    std::mem::forget(Arc::clone(&job));
}

/// The measured start, plus the upper bound of contact with all ranks of the node and with the
/// partners in barriers: the whole control memory, pinned, and the connections.
/// Shows T6, P4.
#[test]
fn a_process_among_16384_ranks_needs_at_most_64_mib() {
    if let Some(file) = std::env::var_os(CHILD) {
        return measure(file);
    }
    let own = std::env::current_exe().expect("this program");
    let file = std::env::temp_dir().join(format!("transom-scale-{}", std::process::id()));
    let out = Command::new(own).args(["--exact", NAME]).env(CHILD, &file).output().expect("a process");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {out:?}"));
    std::fs::remove_file(&file).expect("made by the child");
    let counts: Vec<u64> = text.split(' ').map(|number| number.parse().expect("a number")).collect();
    let [kept, most, requests] = counts[..] else { panic!("{text}") };
    let rounds = u64::from(RANKS.ilog2());
    // This rank connects to few ranks, which need no more receives.
    assert!(2 * rounds <= 64, "{rounds} rounds");
    let connected = 2 * rounds * CONNECTION + bytes_of_verbs() as u64;
    // Of a rank of the node: its identity page and ring, and the pages of its control words that
    // this rank uses, with their page tables.
    let mapped = (PER_NODE as u64 - 1) * 4 * 4096;
    let control = block_bytes(RANKS) as u64;
    let all = kept + connected + mapped + control;
    assert!(all <= 64 * MIB, "{all} bytes: {kept} after the start, {control} of control words, {connected}");
    assert!(most <= 64 * MIB, "{most} bytes while it starts");
    // Four exchanges, of which each takes O(log p) requests.
    assert!(requests <= 4 * (3 * 3 * rounds + 10), "{requests} requests");
}
