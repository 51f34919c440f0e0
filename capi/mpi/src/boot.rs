//! The bootstrap of the job over the host, on the library's own communicator. Values that were put
//! travel to all ranks in the next barrier, which is an allgather.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transom::bootstrap::{Bootstrap, BootstrapError};
use transom::diagnostics;

use crate::host::{
    Comm, Group, SUCCESS, host_Abort, host_Comm_free, host_Comm_group, host_Group_free, host_Group_size,
    host_Group_translate_ranks, host_gather_bytes, host_gather_lengths, host_split_machine,
};

/// The number of a rank that could not start. Lengths are not negative.
pub(crate) const GIVEN_UP: c_int = -1;

/// A rank's connection to the others.
#[derive(Debug)]
pub(crate) struct HostBootstrap {
    comm: Comm,
    rank: usize,
    size: usize,
    /// Values that were put and not sent yet: length of the key, key, length of the value, value.
    fresh: Vec<u8>,
    known: HashMap<(usize, String), Vec<u8>>,
    left: bool,
    /// A rank could not start, and all ranks know.
    given_up: Arc<AtomicBool>,
}

impl HostBootstrap {
    /// A bootstrap over `comm`, of whose `size` ranks this is number `rank`. No other communication
    /// uses `comm`. `given_up` is set where another rank could not start.
    pub(crate) fn new(comm: Comm, rank: usize, size: usize, given_up: Arc<AtomicBool>) -> HostBootstrap {
        HostBootstrap { comm, rank, size, fresh: Vec::new(), known: HashMap::new(), left: false, given_up }
    }

    /// A number of each rank. A rank that could not start gives [`GIVEN_UP`] here, in its last
    /// collective call, and this call is then the last one of all ranks.
    fn numbers(&self, during: &'static str, mine: c_int) -> Result<Vec<c_int>, BootstrapError> {
        let mut all = vec![0; self.size];
        // SAFETY: there is room for one number of each rank.
        checked(during, unsafe { host_gather_lengths(self.comm, mine, all.as_mut_ptr()) })?;
        let Some(rank) = all.iter().position(|&number| number == GIVEN_UP) else { return Ok(all) };
        // Relaxed: the thread that started the job reads it.
        self.given_up.store(true, Ordering::Relaxed);
        Err(BootstrapError::Host { during, why: format!("rank {rank} could not start") })
    }

    fn open(&self, during: &'static str) -> Result<(), BootstrapError> {
        if self.left { Err(BootstrapError::Finalized { during }) } else { Ok(()) }
    }

    /// The values that all ranks have put since the last barrier, and the offset of each rank's.
    fn gather(&self) -> Result<(Vec<u8>, Vec<usize>), BootstrapError> {
        let mine = number(self.fresh.len())?;
        let lengths = self.numbers("barrier", mine)?;
        let mut places = Vec::with_capacity(self.size);
        let mut total = 0usize;
        for &length in &lengths {
            places.push(number(total)?);
            total += usize::try_from(length).unwrap_or_default();
        }
        number(total)?;
        let mut all = vec![0u8; total];
        if total == 0 {
            // No rank has put a value, and all ranks detect this.
            return Ok((all, vec![0; self.size + 1]));
        }
        // SAFETY: each rank's bytes have their room in `all`.
        let code = unsafe {
            let (from, into) = (self.fresh.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast());
            host_gather_bytes(self.comm, from, mine, into, lengths.as_ptr(), places.as_ptr())
        };
        checked("barrier", code)?;
        let mut begins: Vec<usize> = places.iter().map(|&place| usize::try_from(place).unwrap_or_default()).collect();
        begins.push(total);
        Ok((all, begins))
    }
}

impl Bootstrap for HostBootstrap {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn value_limit(&self) -> usize {
        transom::bootstrap::MAX_GATHERED
    }

    fn neighbours(&mut self) -> Result<Vec<usize>, BootstrapError> {
        self.open("neighbours")?;
        self.numbers("neighbours", 0)?;
        let mut machine = self.comm;
        // SAFETY: each call gets handles of this communicator or handles that earlier calls wrote,
        // and room for its answer.
        unsafe {
            checked("neighbours", host_split_machine(self.comm, number(self.rank)?, &raw mut machine))?;
            let (mut here, mut all) = (std::mem::zeroed::<Group>(), std::mem::zeroed::<Group>());
            checked("neighbours", host_Comm_group(machine, &raw mut here))?;
            checked("neighbours", host_Comm_group(self.comm, &raw mut all))?;
            let mut count = 0;
            checked("neighbours", host_Group_size(here, &raw mut count))?;
            let members: Vec<c_int> = (0..count).collect();
            let mut ranks = members.clone();
            let code = host_Group_translate_ranks(here, count, members.as_ptr(), all, ranks.as_mut_ptr());
            checked("neighbours", code)?;
            host_Group_free(&raw mut here);
            host_Group_free(&raw mut all);
            host_Comm_free(&raw mut machine);
            ranks.sort_unstable();
            Ok(ranks.into_iter().filter_map(|rank| usize::try_from(rank).ok()).collect())
        }
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.open("put")?;
        if self.known.insert((self.rank, key.to_owned()), value.to_owned()).is_some() {
            return Err(BootstrapError::DuplicateKey { key: key.to_owned() });
        }
        for field in [key.as_bytes(), value] {
            self.fresh.extend((field.len() as u64).to_le_bytes());
            self.fresh.extend(field);
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.open("barrier")?;
        let (all, begins) = self.gather()?;
        self.fresh.clear();
        for (rank, range) in begins.windows(2).enumerate().filter(|(rank, _)| *rank != self.rank) {
            let mut rest = &all[range[0]..range[1]];
            while let Some(key) = field(&mut rest) {
                let value = field(&mut rest).unwrap_or_default();
                self.known.insert((rank, String::from_utf8_lossy(key).into_owned()), value.to_owned());
            }
        }
        Ok(())
    }

    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.open("get")?;
        Ok(self.known.get(&(from, key.to_owned())).cloned())
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.open("finalize")?;
        self.left = true;
        Ok(())
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        diagnostics::error("transom::mpi", &format_args!("rank {} aborts: {why}", self.rank));
        // SAFETY: the call takes a communicator that is still valid.
        checked("abort", unsafe { host_Abort(self.comm, code) })
    }
}

/// The next field of received data: its length, and that many bytes.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let (field, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(field)
}

fn number(value: usize) -> Result<c_int, BootstrapError> {
    let refused = |_| BootstrapError::Host {
        during: "barrier",
        why: format!("{value} bytes are more than an MPI count can express"),
    };
    c_int::try_from(value).map_err(refused)
}

fn checked(during: &'static str, code: c_int) -> Result<(), BootstrapError> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(BootstrapError::Host { during, why: format!("the MPI gave the error code {code}") })
}
