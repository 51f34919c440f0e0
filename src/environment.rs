//! The `TRANSOM_` variables: one table with their defaults and meanings, read once at start. Knows
//! no transport.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::bootstrap::pmi1::SECRET;
use crate::error::{Error, ErrorKind, Result, SettingError, SharedSettings};

/// One variable, as `transom-info --env` lists it.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name.
    pub name: &'static str,
    /// The value in force if the variable is not set.
    pub default: &'static str,
    /// The meaning, for users.
    pub meaning: &'static str,
}

const TRANSPORTS: &str = "TRANSOM_TRANSPORTS";
const DEVICES: &str = "TRANSOM_NET_DEVICES";
/// The variable that names the interfaces by which others reach this machine.
pub const INTERFACES: &str = "TRANSOM_NET_INTERFACES";
/// The variable from which libfabric's own provider takes an interface's name.
const FABRIC_INTERFACE: &str = "FI_TCP_IFACE";
const PROVIDER: &str = "TRANSOM_PROVIDER";
const INFO: &str = "TRANSOM_INFO";
const WARNINGS: &str = "TRANSOM_WARNINGS";
const ATOMICS: &str = "TRANSOM_ATOMICS";
const XPMEM: &str = "TRANSOM_XPMEM";
const CMA: &str = "TRANSOM_CMA";
const POPULATE: &str = "TRANSOM_POPULATE";
const GID_INDEX: &str = "TRANSOM_RDMA_GID_INDEX";
const SERVICE_LEVEL: &str = "TRANSOM_RDMA_SERVICE_LEVEL";
const TRAFFIC_CLASS: &str = "TRANSOM_RDMA_TRAFFIC_CLASS";
const PARTITION: &str = "TRANSOM_RDMA_PARTITION_KEY";
const MTU: &str = "TRANSOM_RDMA_MTU";
const REGISTERED: &str = "TRANSOM_RDMA_REGISTERED";
const PAGE_FAULTS: &str = "TRANSOM_RDMA_PAGE_FAULTS";
const SILENCE: &str = "TRANSOM_SILENCE";
const CHECK: &str = "TRANSOM_CHECK";
const CHECK_RECORDS: &str = "TRANSOM_CHECK_RECORDS";
const CHECK_REPORT: &str = "TRANSOM_CHECK_REPORT";
const CHECK_SUPPRESS: &str = "TRANSOM_CHECK_SUPPRESS";
const CHECK_WAIT: &str = "TRANSOM_CHECK_WAIT";
/// Read by the library that serves the windows of MPI programs (capi/mpi).
const MPI: &str = "TRANSOM_MPI";
/// Read by the library that serves the windows of MPI programs (capi/mpi).
const EARLY_READS: &str = "TRANSOM_EARLY_READS";

/// Every variable that a user may set.
pub const VARIABLES: [Variable; 25] = [
    Variable {
        name: TRANSPORTS,
        default: "shm,verbs,ofi",
        meaning: "transports that may be used: a list of shm, verbs (RDMA devices) and ofi (libfabric); ^ before the list \
                  excludes its members (^shm). Between nodes verbs is used if every rank has a device, else libfabric",
    },
    Variable {
        name: DEVICES,
        default: "the port of the best network: InfiniBand before Ethernet, then by rate; ranks are distributed over equal ports \
                  of one InfiniBand subnet, and over the devices of cxi, efa and opx, those nearest to the process first",
        meaning: "the devices to choose from: a list of RDMA ports device[:port], or of the devices of libfabric's providers \
                  cxi (cxi0), efa (rdmap0s6), opx (hfi1_0) and verbs;ofi_rxm (mlx5_0); ^ before the list excludes its members. \
                  + joins devices of one network (mlx5_0+mlx5_1), over which ranks are distributed, nearest first",
    },
    Variable {
        name: INTERFACES,
        default: "FI_TCP_IFACE if set; else loopback for ranks of one machine, and for several machines the interface whose subnet \
                  most of them share",
        meaning: "the interfaces at which ranks of other machines reach this machine by libfabric over sockets: a list of interfaces \
                  (eth0), addresses or subnets (10.1.0.0/16), in order of preference; ^ before the list excludes its members",
    },
    Variable {
        name: PROVIDER,
        default: "the first available one of cxi, efa, opx, tcp, net, tcp;ofi_rxm, sockets, verbs;ofi_rxm",
        meaning: "the libfabric provider, by the name that fi_info prints",
    },
    Variable {
        name: INFO,
        default: "n",
        meaning: "y or n: at start rank 0 prints the routes between ranks, and whether CPUs or the device perform atomics",
    },
    Variable {
        name: WARNINGS,
        default: "y",
        meaning: "y or n: print warnings, such as a slower route than expected or a window dropped without free, to the \
                  program's logger if there is one, else to the standard error",
    },
    Variable {
        name: ATOMICS,
        default: "auto",
        meaning: "the actor that performs atomics on integers and on the locks of windows: cpu (CPUs of the target's node), nic (the \
                  network device, even between ranks of a node; the start fails without a net that has atomics), or auto (the table in docs/protocols.md)",
    },
    Variable {
        name: XPMEM,
        default: "y",
        meaning: "y or n: map memory of the program (MPI_Win_create, attached regions) between \
                  processes of a node, where the kernel has the XPMEM module; with n the kernel \
                  copies such memory",
    },
    Variable {
        name: CMA,
        default: "y",
        meaning: "y or n: let the kernel copy memory of the program between processes of a node \
                  (/proc/PID/mem, cross-memory attach); with n messages are used",
    },
    Variable {
        name: POPULATE,
        default: "1m",
        meaning: "window memory up to this size (bytes, or with k, m, g) gets its pages at creation, larger memory at \
                  first touch; the parts of a shared window up to 64 MiB get theirs from their owners at creation, \
                  unless one part is all",
    },
    Variable {
        name: GID_INDEX,
        default: "on RoCE a global identifier (GID) of RoCE version 2, preferably of IPv4; on InfiniBand 0",
        meaning: "the index of the global identifier (GID) in the table of the RDMA port, 0 to 255",
    },
    Variable { name: SERVICE_LEVEL, default: "0", meaning: "the service level of packets of RDMA devices, 0 to 15" },
    Variable {
        name: TRAFFIC_CLASS,
        default: "0",
        meaning: "the traffic class of RDMA packets with a global header, 0 to 255; on RoCE the DSCP in the upper 6 bits, ECN in the lower 2",
    },
    Variable {
        name: PARTITION,
        default: "the first key in the port's table",
        meaning: "the key of the InfiniBand partition of RDMA packets, such as 0x8007; the bit of full membership is ignored",
    },
    Variable {
        name: MTU,
        default: "the MTU of the port",
        meaning: "the largest packet of RDMA devices in bytes: 256, 512, 1024, 2048 or 4096",
    },
    Variable {
        name: REGISTERED,
        default: "1g",
        meaning: "the most bytes (a number, or with k, m or g) of the program's buffers that stay registered with an RDMA device \
                  after long transfers; 0: each long transfer registers its buffer",
    },
    Variable {
        name: PAGE_FAULTS,
        default: "n",
        meaning: "y or n: RDMA devices that can access unregistered buffers by page faults (on-demand paging) do so",
    },
    Variable {
        name: SILENCE,
        default: "6; 8 for a connection between RDMA devices",
        meaning: "seconds without an answer after which ranks of another machine count as unreachable, 2 to 600",
    },
    Variable {
        name: CHECK,
        default: "n",
        meaning: "y, n or fail: report conflicting accesses to windows, false assertions and deadlocks, with their places \
                  in the program; fail also makes finalize fail at rank 0, or gives rank 0 of an MPI program the exit \
                  status 1. For jobs on one node",
    },
    Variable {
        name: CHECK_RECORDS,
        default: "64k",
        meaning: "the number of access records that TRANSOM_CHECK keeps for each rank's part of a window (a \
                  number, or with k or m; at least 64), of 72 bytes each; small accesses take other records: one of \
                  64 bytes for a block of 16 bytes, eight times as many",
    },
    Variable {
        name: CHECK_REPORT,
        default: "none",
        meaning: "a file to which TRANSOM_CHECK appends each report as a line of JSON, in addition to the standard error",
    },
    Variable {
        name: CHECK_SUPPRESS,
        default: "none",
        meaning: "a file with texts, one on each line: TRANSOM_CHECK does not report a conflict or a false assertion if the \
                  function or file of one of its places contains one of them; lines that begin with # are comments",
    },
    Variable {
        name: CHECK_WAIT,
        default: "10",
        meaning: "seconds, 0 to 3600, after which TRANSOM_CHECK reports a deadlock: each rank has waited in its present call for this time. 0: never",
    },
    Variable {
        name: MPI,
        default: "on",
        meaning: "on or off: whether libtransom_mpi.so serves the windows of the MPI program into which it is loaded",
    },
    Variable {
        name: EARLY_READS,
        default: "y where OpenCoarrays is loaded, else n",
        meaning: "y or n: in MPI programs MPI_Get within a passive-target epoch, MPI_Fetch_and_op and \
                  MPI_Compare_and_swap are complete when they return; for programs that read the result before the \
                  call that completes the operation",
    },
];

/// For tests: the number of simulated nodes among which the ranks of one machine are distributed in
/// turn, so that one machine has both routes.
const TEST_NODES: &str = "TRANSOM_TEST_NODES";

/// For tests: a rank that has no XPMEM, among others that have it.
const TEST_WITHOUT_XPMEM: &str = "TRANSOM_TEST_WITHOUT_XPMEM";

/// Variables that the launcher sets.
pub(crate) const FROM_LAUNCHER: [&str; 3] = ["TRANSOM_LAUNCHER", "TRANSOM_STDERR_IS_TERMINAL", SECRET];

/// The settings in force. `init` checks that those of [`Settings::shared`] agree at all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) shm: bool,
    pub(crate) verbs: bool,
    pub(crate) ofi: bool,
    pub(crate) devices: Option<String>,
    pub(crate) interfaces: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) info: bool,
    pub(crate) warnings: bool,
    pub(crate) atomics: Atomics,
    pub(crate) xpmem: bool,
    pub(crate) cma: bool,
    pub(crate) populate: usize,
    pub(crate) rdma: Rdma,
    /// How long another machine may be silent, if the user sets it.
    pub(crate) silence: Option<Duration>,
    pub(crate) check: Check,
    pub(crate) pretended: Pretended,
}

/// What tests pretend of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pretended {
    pub(crate) nodes: Option<usize>,
    /// The rank that has no XPMEM.
    pub(crate) without_xpmem: Option<usize>,
}

/// The user's settings of the conflict checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) on: bool,
    /// Whether a conflict is an error when the job ends.
    pub(crate) fails: bool,
    /// The most records of a part.
    pub(crate) records: usize,
    /// The file that gets the reports too.
    pub(crate) report: Option<PathBuf>,
    /// Texts of places whose conflicts are not reported.
    pub(crate) suppressed: Vec<String>,
    /// How long all ranks wait in a deadlock that is reported; `None` if none is.
    pub(crate) patience: Option<Duration>,
}

/// The user's settings of RDMA ports and of the paths between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rdma {
    pub(crate) gid_index: Option<u8>,
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
    pub(crate) partition: Option<u16>,
    pub(crate) mtu: Option<u16>,
    /// The most bytes of buffers that stay registered, if the user sets it.
    pub(crate) registered: Option<usize>,
    pub(crate) page_faults: bool,
}

impl Rdma {
    fn read(get: impl Fn(&'static str) -> Result<Option<String>>) -> Result<Rdma> {
        let small = |name, most| Ok::<_, Error>(number(name, get(name)?, 0, most)?.and_then(|n| u8::try_from(n).ok()));
        let mtu = number(MTU, get(MTU)?, 256, 4096)?;
        if let Some(bytes) = mtu.filter(|bytes| !bytes.is_power_of_two()) {
            let choices = SettingError::NotOneOf(&["256", "512", "1024", "2048", "4096"]);
            return Err(invalid(MTU, &bytes.to_string(), choices));
        }
        Ok(Rdma {
            gid_index: small(GID_INDEX, 255)?,
            service_level: small(SERVICE_LEVEL, 15)?.unwrap_or(0),
            traffic_class: small(TRAFFIC_CLASS, 255)?.unwrap_or(0),
            partition: number(PARTITION, get(PARTITION)?, 1, u16::MAX)?,
            mtu,
            registered: get(REGISTERED)?.map(|value| size(REGISTERED, &value)).transpose()?,
            page_faults: get(PAGE_FAULTS)?.map_or(Ok(false), |value| switch(PAGE_FAULTS, &value))?,
        })
    }
}

/// The user's choice of the atomicity actor, in the order of [`SharedSettings::ATOMICS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomics {
    Auto,
    Cpu,
    Nic,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            shm: true,
            verbs: true,
            ofi: true,
            devices: None,
            interfaces: None,
            provider: None,
            info: false,
            warnings: true,
            atomics: Atomics::Auto,
            xpmem: true,
            cma: true,
            populate: 1 << 20,
            rdma: Rdma::default(),
            silence: None,
            check: Check {
                on: false,
                fails: false,
                records: 64 << 10,
                report: None,
                suppressed: Vec::new(),
                patience: Some(Duration::from_secs(10)),
            },
            pretended: Pretended::default(),
        }
    }
}

impl Settings {
    /// Reads the variables through `get`.
    pub(crate) fn read<V: Into<OsString>>(get: impl Fn(&str) -> Option<V>) -> Result<Settings> {
        // Scripts set a variable to nothing where they mean that it is not set.
        let get = |name| text(name, get(name).map(Into::into)).map(|value| value.filter(|value| !value.is_empty()));
        let mut settings = Settings::default();
        if let Some(list) = get(TRANSPORTS)? {
            (settings.shm, settings.verbs, settings.ofi) = transports(&list)?;
        }
        settings.devices = get(DEVICES)?;
        settings.interfaces = get(INTERFACES)?;
        if settings.interfaces.is_none() {
            settings.interfaces = get(FABRIC_INTERFACE)?;
        }
        settings.provider = get(PROVIDER)?;
        if let Some(value) = get(INFO)? {
            settings.info = switch(INFO, &value)?;
        }
        if let Some(value) = get(WARNINGS)? {
            settings.warnings = switch(WARNINGS, &value)?;
        }
        if let Some(value) = get(XPMEM)? {
            settings.xpmem = switch(XPMEM, &value)?;
        }
        settings.pretended.without_xpmem =
            number(TEST_WITHOUT_XPMEM, get(TEST_WITHOUT_XPMEM)?, 0, u16::MAX)?.map(Into::into);
        if let Some(value) = get(CMA)? {
            settings.cma = switch(CMA, &value)?;
        }
        if let Some(value) = get(POPULATE)? {
            settings.populate = size(POPULATE, &value)?;
        }
        if let Some(value) = get(CHECK)? {
            settings.check.fails = value == "fail";
            let refused = |_| invalid(CHECK, &value, SettingError::NotOneOf(&["y", "n", "fail"]));
            settings.check.on = settings.check.fails || switch(CHECK, &value).map_err(refused)?;
        }
        if let Some(value) = get(CHECK_RECORDS)? {
            settings.check.records = size(CHECK_RECORDS, &value)?.max(64);
        }
        settings.check.report = get(CHECK_REPORT)?.map(PathBuf::from);
        if let Some(path) = get(CHECK_SUPPRESS)? {
            settings.check.suppressed = texts(&path)?;
        }
        if let Some(seconds) = number(CHECK_WAIT, get(CHECK_WAIT)?, 0, 3600)? {
            settings.check.patience = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        }
        if let Some(value) = get(SILENCE)? {
            let seconds = value.parse().ok().filter(|seconds| (2..=600).contains(seconds));
            let seconds =
                seconds.ok_or_else(|| invalid(SILENCE, &value, SettingError::NotSeconds { least: 2, most: 600 }))?;
            settings.silence = Some(Duration::from_secs(seconds));
        }
        settings.rdma = Rdma::read(get)?;
        if let Some(value) = get(TEST_NODES)? {
            let nodes = value.parse().ok().filter(|&nodes: &usize| nodes > 0);
            settings.pretended.nodes = Some(nodes.ok_or_else(|| invalid(TEST_NODES, &value, SettingError::NotNodes))?);
        }
        if let Some(value) = get(ATOMICS)? {
            settings.atomics = match value.as_str() {
                "auto" => Atomics::Auto,
                "cpu" => Atomics::Cpu,
                "nic" => Atomics::Nic,
                _ => return Err(invalid(ATOMICS, &value, SettingError::NotOneOf(&["auto", "cpu", "nic"]))),
            };
        }
        // Only capi/mpi uses the value of TRANSOM_MPI.
        get(MPI)?;
        Ok(settings)
    }

    /// The reason why a rank does without XPMEM, if it has to.
    pub(crate) fn without_xpmem(&self, rank: usize) -> Option<&'static str> {
        match self.pretended.without_xpmem {
            _ if !self.xpmem => Some("TRANSOM_XPMEM is n"),
            Some(refused) if refused == rank => Some("TRANSOM_TEST_WITHOUT_XPMEM is this rank"),
            _ => None,
        }
    }

    /// The settings on which all ranks must agree.
    pub(crate) fn shared(&self) -> SharedSettings {
        let Settings { shm, verbs, ofi, cma, check: Check { on: check, .. }, .. } = *self;
        SharedSettings { shm, verbs, ofi, atomics: SharedSettings::ATOMICS[self.atomics as usize], cma, check }
    }
}

/// Variables of earlier versions, each with the advice to users that set it.
const REMOVED: [(&str, &str); 1] = [(
    "TRANSOM_ADOPT",
    "correct programs lost data. Allocate the memory of windows by MPI_Alloc_mem (Job::alloc_mem): ranks of the node map \
     it. They map other memory if the kernel has the XPMEM module, else access it by system calls",
)];

/// The warning to a user who has set an unknown `TRANSOM_` variable.
pub(crate) fn warning(name: &str) -> String {
    match REMOVED.iter().find(|(removed, _)| *removed == name) {
        Some((_, instead)) => format!("{name} was removed: {instead}"),
        None => format!("{name} is not a variable of this version; `transom-info --env` lists the variables"),
    }
}

/// The names of set `TRANSOM_` variables that this version does not know.
pub(crate) fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known = |name: &str| VARIABLES.iter().any(|v| v.name == name) || FROM_LAUNCHER.contains(&name);
    let ours = names.filter(|name| begins(name, "TRANSOM_")).map(|name| name.to_string_lossy().into_owned());
    ours.filter(|name| !name.starts_with("TRANSOM_TEST_") && !known(name)).collect()
}

/// Whether a variable of this name is passed to ranks on other machines without being named by the
/// user.
pub fn passes(name: &OsStr) -> bool {
    let from_launcher = || FROM_LAUNCHER.iter().any(|own| name == *own);
    begins(name, "FI_") || (begins(name, "TRANSOM_") && !from_launcher())
}

/// Whether a name has a prefix. Names of variables need not be UTF-8.
fn begins(name: &OsStr, prefix: &str) -> bool {
    name.as_bytes().starts_with(prefix.as_bytes())
}

/// The value of a variable, which must be UTF-8.
fn text(name: &'static str, value: Option<OsString>) -> Result<Option<String>> {
    let refused = |value: OsString| invalid(name, &value.to_string_lossy(), SettingError::NotUtf8);
    value.map(|value| value.into_string().map_err(refused)).transpose()
}

/// The texts of a file of suppressions.
fn texts(path: &str) -> Result<Vec<String>> {
    let refused = |error: std::io::Error| invalid(CHECK_SUPPRESS, path, SettingError::NotReadable(error.to_string()));
    let text = std::fs::read_to_string(path).map_err(refused)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Whether shm, verbs and ofi may be used, by a list of their names.
fn transports(list: &str) -> Result<(bool, bool, bool)> {
    let (exclude, names) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let (mut shm, mut verbs, mut ofi) = (exclude, exclude, exclude);
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "shm" => shm = !exclude,
            "verbs" => verbs = !exclude,
            "ofi" => ofi = !exclude,
            _ => return Err(invalid(TRANSPORTS, list, SettingError::UnknownTransport)),
        }
    }
    if !shm && !verbs && !ofi {
        return Err(invalid(TRANSPORTS, list, SettingError::NoTransport));
    }
    Ok((shm, verbs, ofi))
}

fn switch(name: &'static str, value: &str) -> Result<bool> {
    match value {
        "y" | "yes" | "1" | "on" => Ok(true),
        "n" | "no" | "0" | "off" => Ok(false),
        _ => Err(invalid(name, value, SettingError::NotOneOf(&["y", "n"]))),
    }
}

/// A number within bounds, decimal or with 0x hexadecimal.
fn number(name: &'static str, value: Option<String>, least: u16, most: u16) -> Result<Option<u16>> {
    let Some(text) = value else { return Ok(None) };
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let found = parsed.ok().filter(|number| (least..=most).contains(number));
    found.map(Some).ok_or_else(|| invalid(name, &text, SettingError::NotNumber { least, most }))
}

fn size(name: &'static str, value: &str) -> Result<usize> {
    let (digits, shift) = match value.to_ascii_lowercase().as_str() {
        text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), 10),
        text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), 20),
        text if text.ends_with('g') => (text[..text.len() - 1].to_owned(), 30),
        text => (text.to_owned(), 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| invalid(name, value, SettingError::NotSize))
}

/// The error for a list of interfaces that can't be used.
pub(crate) fn invalid_interfaces(list: &str, reason: SettingError) -> Error {
    invalid(INTERFACES, list, reason)
}

fn invalid(name: &'static str, value: &str, reason: SettingError) -> Error {
    ErrorKind::Setting { name, value: value.to_owned(), reason }.into()
}
