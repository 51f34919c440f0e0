//! `transom-info`: which transports exist on this machine, why another does not, and what a window would use.
#![allow(clippy::print_stdout)]

use clap::Parser;
use transom::info;
use transom_fabric::Peer;
use transom_ofi::{Offer, OfiDomain, OfiOptions, SONAME};
use transom_shm::{Heap, HeapOptions, ShmDomain, topology};

/// Tells which transports this machine has, what each provider of libfabric offers, and what windows would use.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// List the TRANSOM_ variables with their defaults, values and meanings.
    #[arg(long)]
    env: bool,
    /// The library that is asked for instead of libfabric's usual name.
    #[arg(long, value_name = "SONAME", default_value = SONAME)]
    library: String,
}

fn main() {
    let arguments = Arguments::parse();
    if arguments.env {
        return variables();
    }
    println!("transom {}", env!("CARGO_PKG_VERSION"));
    println!(
        "machine: {} CPUs for this process, {} NUMA nodes",
        topology::allowed_cpus().len(),
        topology::numa_nodes()
    );
    let shared = shared_memory();
    let net = libfabric(&arguments.library);
    println!("windows of ranks on this machine:");
    match (&shared, &net) {
        (true, _) => println!("  route: shared memory; atomics: cpu"),
        (false, Some(atomics)) => println!("  route: libfabric; atomics: {atomics}"),
        (false, None) => println!("  route: none; only jobs of one rank can run"),
    }
    match net {
        Some(atomics) => println!("  with TRANSOM_TRANSPORTS=^shm: route libfabric; atomics: {atomics}"),
        None => println!("  with TRANSOM_TRANSPORTS=^shm: an error, since libfabric can't be used"),
    }
}

/// Tries what ranks of a node do to each other, with this process in both roles.
fn shared_memory() -> bool {
    let tried = Heap::create(HeapOptions::default()).and_then(|heap| {
        use transom_fabric::{Domain, Port};
        let domain = ShmDomain::new(heap, Peer(0))?;
        domain.port().connect(Peer(1), &domain.port().address())?;
        Ok(())
    });
    match tried {
        Ok(()) => {
            println!("shared memory: available (memfd, opened by peers through /proc; proven by mapping)");
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            match scope.trim() {
                "" | "0" => println!("  user memory of other processes: cross-memory attach"),
                scope => println!("  user memory of other processes: by messages, since ptrace_scope is {scope}"),
            }
            true
        }
        Err(error) => {
            println!("shared memory: not available: {error}");
            false
        }
    }
}

/// Lists libfabric's providers; who would perform atomics through the first that opens.
fn libfabric(library: &str) -> Option<String> {
    let (version, providers) = match transom_ofi::providers(library) {
        Ok(found) => found,
        Err(error) => {
            println!("libfabric: {error}");
            return None;
        }
    };
    println!("libfabric {version}:");
    for provider in providers {
        match provider.offer {
            Ok(Offer { atomics, inject, mr_mode, auto_progress }) => {
                let word = |yes| if yes { "yes" } else { "no" };
                let (atomics, auto) = (word(atomics), word(auto_progress));
                let text = format!(
                    "RMA yes, atomics {atomics}, inject {inject} B, mr_mode {mr_mode:#x}, automatic progress {auto}"
                );
                println!("  {:<14}{text} (by its own word)", provider.name);
            }
            Err(reason) => println!("  {:<14}not here: {reason}", provider.name),
        }
    }
    let provider = std::env::var("TRANSOM_PROVIDER").ok().filter(|name| !name.is_empty());
    let options = OfiOptions { library: library.to_owned(), provider, ..OfiOptions::default() };
    match OfiDomain::open(&options) {
        Ok(domain) => Some(probed(&domain)),
        Err(error) => {
            println!("  none opens: {error}");
            None
        }
    }
}

/// What a probe showed of the provider that was opened.
fn probed(domain: &OfiDomain) -> String {
    use transom_fabric::{AmoKind, Domain, Memory, Port, Region, Width};
    let passive =
        if domain.port().limits().passive_target { "served" } else { "not served: a progress thread does it" };
    println!("  chosen: {}; probed: targets that make no call are {passive}", domain.provider());
    let has = |region: &transom_ofi::OfiRegion| {
        AmoKind::ALL.iter().all(|&kind| [Width::W32, Width::W64].iter().all(|&width| region.amo(kind, width).is_some()))
    };
    let all = domain.register(&Memory::private(64)).is_ok_and(|region| has(&region));
    if all { "nic (the provider performs them)".into() } else { "cpu (by messages)".into() }
}

/// Lists the variables.
fn variables() {
    for variable in info::VARIABLES {
        let value = std::env::var(variable.name).map_or_else(|_| "not set".into(), |value| format!("set to {value:?}"));
        println!("{} ({value}; default {})", variable.name, variable.default);
        println!("    {}", variable.meaning);
    }
}
