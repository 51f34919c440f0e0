//! Code that a launcher shares with the ranks that it starts: the text format of PMI-1, variables,
//! and the addresses of a machine. For `transom-launch`; not part of the interface.

use std::net::IpAddr;

pub use crate::bootstrap::lines::{LineBuffer, MAX_ACCEPTED, Words, from_hex, to_hex};
pub use crate::bootstrap::pmi1::SECRET;
pub use crate::environment::{INTERFACES, passes};
use crate::{cgroups, interfaces};

/// The number of CPUs that this process and the others of its control group may keep busy together;
/// `None` without a limit.
#[must_use]
pub fn cpu_quota() -> Option<usize> {
    cgroups::cpu_quotas().first().map(|quota| quota.cpus)
}

/// The addresses of this machine at which others may reach it, the best first: those that `names`
/// lists, or all. Empty where the list names no interface of this machine.
#[must_use]
pub fn addresses(names: Option<&str>) -> Vec<IpAddr> {
    interfaces::own(names).unwrap_or_default().into_iter().map(|one| one.address).collect()
}
