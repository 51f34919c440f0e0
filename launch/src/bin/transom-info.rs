//! `transom-info`: the transports of this machine, the reasons why others are missing, and the
//! transport and actor that a window would use.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use transom::info;
use transom_fabric::{AmoKind, Coherence, Domain, FabricError, Memory, Peer, Port, Region, Width};
use transom_ofi::{Offer, OfiDomain, OfiOptions, OfiRegion, ProviderInfo, SONAME};
use transom_shm::{Heap, HeapOptions, ShmDomain, topology};
use transom_verbs::{PortInfo, VerbsDomain, VerbsOptions};

/// Show the transports of this machine, the capabilities of libfabric's providers, and the route
/// that the data of windows would take under the current TRANSOM_ variables, except those that
/// begin with TRANSOM_RDMA_.
///
/// A missing transport is not an error: the exit status is 0, and the output says how to install
/// the transport.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// List the TRANSOM_ variables with their defaults, values and meanings.
    #[arg(long)]
    env: bool,
    /// Examine this libfabric instead of the default one. Jobs always use the default one.
    #[arg(long, value_name = "SONAME", default_value = SONAME)]
    library: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = io::stdout().lock();
    match if arguments.env { variables(&mut out) } else { machine(&mut out, &arguments.library) } {
        // The reader closed the pipe, as in `transom-info | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transom-info: writing to the standard output: {error}");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Prints the transports of the machine, and those that windows would use.
fn machine(out: &mut impl Write, library: &str) -> io::Result<()> {
    writeln!(out, "transom {}", env!("CARGO_PKG_VERSION"))?;
    let nodes = topology::numa_nodes();
    let plural = if nodes == 1 { "" } else { "s" };
    let cpus = ranges(&topology::allowed_cpus());
    writeln!(out, "machine: this process may use CPUs {cpus}; {nodes} NUMA node{plural}")?;
    writeln!(out, "launchers: transom-run and others that speak PMI-1; PMIx {}", pmix())?;
    let found = info::Found { shm: shared_memory(out)?, verbs: verbs(out)?, ofi: libfabric(out, library)? };
    let set = |name: &str| std::env::var_os(name);
    match info::addresses(set) {
        Ok(all) if all.is_empty() => writeln!(out, "other machines: no address that they could reach")?,
        Ok(all) => writeln!(
            out,
            "other machines: addresses at which they may reach this one over sockets, best first: {}",
            all.join(", ")
        )?,
        Err(error) => writeln!(out, "other machines: {error:#}")?,
    }
    writeln!(out, "windows of ranks on this machine:")?;
    window(out, "with the current variables", found, set)?;
    window(out, "with TRANSOM_TRANSPORTS=^shm", found, |name| {
        if name == "TRANSOM_TRANSPORTS" { Some("^shm".into()) } else { set(name) }
    })
}

/// The PMIx library through which launchers are reached, or the reason why there is none.
fn pmix() -> String {
    match transom_pmix::version() {
        // After the name and number come those of the standards that the library implements.
        Ok(version) => format!("by {}", version.split(" (").next().unwrap_or_default()),
        Err(error) => format!("not: {error}"),
    }
}

/// Prints the transport and actor of a window under the variables that `get` reads.
fn window(
    out: &mut impl Write,
    when: &str,
    found: info::Found,
    get: impl Fn(&str) -> Option<OsString>,
) -> io::Result<()> {
    match info::outlook(found, get) {
        Ok(info::Outlook { route, actor }) => writeln!(out, "  {when}: route {route}, atomics {actor}"),
        Err(error) => writeln!(out, "  {when}: none: {error:#}"),
    }
}

/// Tries the accesses between ranks of a node, with this process in both roles. Returns whether
/// they work.
fn shared_memory(out: &mut impl Write) -> io::Result<bool> {
    let attach = match try_shared_memory() {
        Ok(attach) => attach,
        Err(error) => {
            writeln!(out, "shared memory: not available: {error:#}")?;
            return Ok(false);
        }
    };
    writeln!(out, "shared memory: available (memfd, mapped by peers through /proc/PID/fd; tried with this process)")?;
    // A process may always attach to itself, so ptrace_scope is read as well.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let xpmem = match transom_shm::xpmem() {
        _ if is_switched_off("TRANSOM_XPMEM") => Err("TRANSOM_XPMEM switches it off".to_owned()),
        tried => tried,
    };
    let user = match (attach, scope.trim()) {
        (Ok(()), "" | "0") => "cross-memory attach (allowed)".into(),
        (Ok(()), scope) => format!("by messages, since kernel.yama.ptrace_scope is {scope}"),
        (Err(error), _) => format!("by messages: {error:#}"),
    };
    match xpmem {
        Ok(()) => writeln!(out, "  user memory of peers: mapped by XPMEM; else {user}")?,
        Err(why) => writeln!(out, "  user memory of peers: {user}; not mapped by XPMEM: {why}")?,
    }
    Ok(true)
}

/// Whether a variable has one of the values that mean *no* to the library.
fn is_switched_off(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| ["n", "no", "0", "off"].contains(&value.as_str()))
}

/// Maps a heap as a peer would. The inner result: whether cross-memory attach works.
fn try_shared_memory() -> Result<Result<(), FabricError>, FabricError> {
    let domain = ShmDomain::without_xpmem(Heap::create(HeapOptions::default())?, Peer(0), "not tried")?;
    domain.port().connect(Peer(1), &domain.port().address())?;
    let user = domain.register(&Memory::private(64))?;
    Ok(domain.port().import(Peer(1), &user.key()).map(drop))
}

/// Lists the ports of RDMA devices. Returns the atomics of the device that jobs would open; `None`
/// if none opens.
fn verbs(out: &mut impl Write) -> io::Result<Option<info::NetAtomics>> {
    let ports = transom_verbs::ports();
    if ports.is_empty() {
        writeln!(out, "verbs: no RDMA device")?;
        return Ok(None);
    }
    writeln!(out, "verbs, the ports of RDMA devices:")?;
    for port in &ports {
        writeln!(out, "  {}", of_port(port))?;
    }
    let domain = match VerbsDomain::open(&VerbsOptions { devices: devices(), ..VerbsOptions::default() }) {
        Ok(domain) => domain,
        Err(error) => {
            writeln!(out, "  none can be used: {error:#}")?;
            return Ok(None);
        }
    };
    let region = domain.register(&Memory::private(64)).ok();
    let sum = region.and_then(|region| region.amo(AmoKind::Sum, Width::W64));
    let amos = if sum.is_some() { info::Amos::Words } else { info::Amos::None };
    let coherent = sum == Some(Coherence::WithCpu);
    let with = if coherent { ", atomic with the CPU's" } else { "" };
    writeln!(out, "  {} would be used; atomics: {}{with}", domain.name(), in_words(amos))?;
    writeln!(out, "  its resources: {}", domain.resources())?;
    Ok(Some(info::NetAtomics { amos, coherent }))
}

/// The user's list of devices.
fn devices() -> Option<String> {
    filled("TRANSOM_NET_DEVICES")
}

/// The value of a variable that is set and not empty. A value that is not UTF-8 is refused when all
/// variables are read.
fn filled(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

fn of_port(port: &PortInfo) -> String {
    let link = if port.ethernet { "RoCE" } else { "InfiniBand" };
    let node = port.numa_node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
    let state = match &port.gid {
        Ok((index, gid)) => format!("active, GID {index} is {}", std::net::Ipv6Addr::from(*gid)),
        Err(reason) => format!("not usable: {reason}"),
    };
    format!("{}:{}: {link}{node}, {state}", port.device, port.port)
}

/// Lists libfabric's providers. Returns the atomics of the provider that jobs would open; `None` if
/// none opens.
fn libfabric(out: &mut impl Write, library: &str) -> io::Result<Option<info::NetAtomics>> {
    let (version, providers) = match transom_ofi::providers(library) {
        Ok(found) => found,
        Err(error) => {
            writeln!(out, "libfabric ({library}): {error:#}")?;
            return Ok(None);
        }
    };
    writeln!(out, "libfabric {version}, attributes that its providers state:")?;
    for provider in &providers {
        writeln!(out, "  {:<14}{}", provider.name, offer(provider))?;
    }
    let provider = filled("TRANSOM_PROVIDER");
    let options = OfiOptions { library: library.to_owned(), provider, devices: devices(), ..OfiOptions::default() };
    match OfiDomain::open(&options) {
        Ok(domain) => probed(out, &domain).map(Some),
        Err(error) => {
            writeln!(out, "  none can be used: {error:#}")?;
            Ok(None)
        }
    }
}

fn offer(provider: &ProviderInfo) -> String {
    let word = |yes| if yes { "yes" } else { "no" };
    match &provider.offer {
        Ok(Offer { atomics, inject, list, mr_mode, manual_progress, .. }) => {
            let (atomics, auto) = (word(*atomics), word(!manual_progress));
            format!(
                "atomics {atomics:<3}  inject {inject:>4} B  lists {list}  mr_mode {mr_mode:#x}  auto progress {auto}"
            )
        }
        Err(reason) => format!("not available: {reason}"),
    }
}

/// Prints the results of the probe of the opened provider. Returns its atomics.
fn probed(out: &mut impl Write, domain: &OfiDomain) -> io::Result<info::NetAtomics> {
    let has = |region: &OfiRegion| {
        AmoKind::ALL.iter().all(|&kind| [Width::W32, Width::W64].iter().all(|&width| region.amo(kind, width).is_some()))
    };
    let all = domain.register(&Memory::private(64)).is_ok_and(|region| has(&region));
    let passive = domain.port().limits().passive_target;
    let served = if passive { "served by the provider" } else { "not served; jobs run a progress thread" };
    let amos = info::Amos::of_provider(&domain.provider(), all);
    let atomics = in_words(amos);
    writeln!(out, "  {} would be used; a probe shows:", domain.name())?;
    writeln!(out, "    targets that make no call: {served}")?;
    writeln!(out, "    atomics: {atomics}")?;
    Ok(info::NetAtomics { amos, coherent: false })
}

fn in_words(amos: info::Amos) -> &'static str {
    match amos {
        info::Amos::None => "not all performed by the provider; the library uses the target's CPU",
        info::Amos::Software => {
            "performed by the provider's software; by default the library uses the target's CPU instead"
        }
        info::Amos::Words => "64-bit atomics performed by the device, others by the target's CPU",
        info::Amos::Native => "performed by the device",
    }
}

/// Lists the variables.
fn variables(out: &mut impl Write) -> io::Result<()> {
    for info::Variable { name, default, meaning } in info::VARIABLES {
        let value = std::env::var_os(name).map_or_else(|| "not set".into(), |value| format!("{value:?}"));
        writeln!(out, "{name}")?;
        for (label, text) in [("value", &*value), ("default", default), ("meaning", meaning)] {
            writeln!(out, "  {label:<8} {text}")?;
        }
    }
    Ok(())
}

/// Ascending numbers as `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let texts: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    texts.join(",")
}
