//! The TCP ports at which a process listens, and its processor time, as the kernel shows them
//! (proc_pid_net(5), proc_pid_stat(5)).

use std::collections::BTreeSet;
use std::path::Path;

/// The state of a listening socket.
const LISTENING: &str = "0A";

/// `127.0.0.1` in the kernel's notation.
pub(crate) const LOOPBACK: &str = "0100007F";

/// A listening socket.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listener {
    /// The address in the kernel's digits.
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// The listeners of the process `pid`.
pub(crate) fn of(pid: u32) -> Vec<Listener> {
    let sockets = sockets_of(&format!("/proc/{pid}/fd"));
    let mut listeners = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            let Some((address, port)) = local.rsplit_once(':') else { continue };
            if state == LISTENING && sockets.contains(&format!("socket:[{inode}]")) {
                let port = u16::from_str_radix(port, 16).expect("hexadecimal digits");
                listeners.insert(Listener { address: address.to_owned(), port });
            }
        }
    }
    listeners.into_iter().collect()
}

/// The processor time that a process has used, in ticks of 10 ms (proc_pid_stat(5), fields 14 and
/// 15).
pub(crate) fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields = stat.rsplit_once(')').expect("a name in parentheses").1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// The targets of the descriptors in a folder of `/proc`.
fn sockets_of(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(Path::new(folder)).expect("the process lives and is ours");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}
