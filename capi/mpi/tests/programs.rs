//! Unmodified MPI programs in C, C++ and Fortran, with and without `libtransom_mpi.so`, under each
//! MPI on this machine. Each program checks its own results and prints a line for each check. The
//! library is built for each MPI with the MPI's compiler. A test whose MPI is not installed is
//! ignored by name.
#![allow(clippy::print_stdout)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[path = "programs/checking.rs"]
mod checking;
#[path = "programs/ends.rs"]
mod ends;
#[path = "programs/hosts.rs"]
mod hosts;
#[path = "programs/running.rs"]
mod running;
#[path = "programs/sessions.rs"]
mod sessions;

use hosts::{Host, Language};
use running::{Run, refused, verified};

/// A program.
struct Program {
    /// The name of the program's file.
    name: &'static str,
    language: Language,
    /// Whether the program runs over two nodes too.
    nodes: bool,
    alone: Alone,
}

/// The hosts that run a program correctly without the library.
#[derive(PartialEq, Eq)]
enum Alone {
    All,
    /// All hosts except MPICH 4.0 and Open MPI 4.1.
    New,
    None,
}

const fn c(name: &'static str) -> Program {
    Program { name, language: Language::C, nodes: false, alone: Alone::All }
}

/// All programs except those that need a particular environment.
static PROGRAMS: &[Program] = &[
    Program { nodes: true, ..c("kinds") },
    Program { nodes: true, alone: Alone::New, ..c("operations") },
    Program { nodes: true, alone: Alone::New, ..c("memory") },
    // Hosts compute wrong results for some types, or abort programs with an undefined operation.
    Program { alone: Alone::None, ..c("types") },
    Program { nodes: true, alone: Alone::None, ..c("every_type") },
    Program { nodes: true, alone: Alone::None, ..c("partial") },
    Program { nodes: true, alone: Alone::New, ..c("requests") },
    Program { nodes: true, ..c("notified") },
    Program { nodes: true, ..c("waits") },
    Program { nodes: true, ..c("handlers") },
    Program { nodes: true, ..c("wrong_calls") },
    // MPICH 4.0 can't free a partitioned request.
    Program { nodes: true, alone: Alone::New, ..c("beside") },
    // Hosts abort programs whose request fails, and have no notified operations.
    Program { nodes: true, alone: Alone::None, ..c("completed") },
    c("errors"),
    Program { nodes: true, ..c("returned") },
    c("is_complete"),
    c("answers"),
    c("invalid"),
    // After MPI_Finalize gets of MPICH 4.0 have wrong data.
    Program { alone: Alone::New, ..c("session") },
    Program { nodes: true, alone: Alone::None, ..c("outlives") },
    // Open MPI crashes in some of the calls.
    Program { alone: Alone::None, ..c("null_outputs") },
    Program { alone: Alone::New, ..c("proc_null") },
    // MPICH returns an address for shared memory of 0 bytes; MPICH 5 also answers queries of
    // created windows.
    Program { alone: Alone::None, ..c("empty") },
    Program { alone: Alone::New, ..c("many") },
    c("callbacks"),
    Program { nodes: true, alone: Alone::None, ..c("untrue") },
    Program { nodes: true, alone: Alone::None, ..c("reach") },
    Program { alone: Alone::New, ..c("groups") },
    Program { nodes: true, alone: Alone::New, ..c("threads") },
    Program { nodes: true, alone: Alone::New, ..c("thread_ends") },
    c("first_uses"),
    c("thread_ranks"),
    // MPICH 5 alone sometimes fails an assertion when two threads free its shared windows at once.
    Program { alone: Alone::None, ..c("duplicates") },
    // MPICH refuses MPI_Win_sync outside of epochs.
    Program { nodes: true, alone: Alone::None, ..c("turns") },
    Program { nodes: true, alone: Alone::New, ..c("crowd") },
    Program { nodes: true, ..c("progress") },
    Program { nodes: true, alone: Alone::None, ..c("passive") },
    Program { nodes: true, alone: Alone::None, ..c("early") },
    Program { nodes: true, alone: Alone::None, ..c("pipelined") },
    // MPICH 4.0 computes wrong sums in created windows, and Open MPI 4.1 crashes.
    Program { nodes: true, alone: Alone::None, ..c("misaligned") },
    // Open MPI 4.1 refuses dynamic windows between the ranks of one machine.
    Program { nodes: true, alone: Alone::None, ..c("by_address") },
    // MPICH 4.0 loses the put, and Open MPI 4.1 refuses created windows.
    Program { alone: Alone::None, ..c("exhausted") },
    // Open MPI 4.1 computes wrong pairs without padding.
    Program { nodes: true, alone: Alone::New, ..c("padding") },
    c("large"),
    // MPICH may write the text into its own memory.
    Program { alone: Alone::None, ..c("closed_streams") },
    Program { language: Language::Cpp, ..c("objects") },
    Program { language: Language::Fortran, ..c("old") },
    Program { nodes: true, language: Language::Fortran, ..c("modern") },
];

fn main() -> ExitCode {
    let trials = hosts::all().into_iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A way to run each program.
type Way = (&'static str, fn(&'static Host, &Program));

/// A test that runs once for each host.
type Named = (&'static str, fn(&'static Host));

const WAYS: [Way; 3] = [("served", served), ("alone", alone), ("two_nodes", two_nodes)];

const ONCE: &[Named] = &[
    ("two_and_three_ranks", two_and_three_ranks),
    ("threads_over_sockets", threads_over_sockets),
    ("polls_only_for_windows_of_the_library", polls),
    ("values_over_sockets", values_over_sockets),
    ("memory_of_fortran_is_mapped", memory_of_fortran),
    ("notified_operations_by_every_route", notified),
    ("data_that_end_within_an_item_over_sockets", partial),
    ("random_operations_by_address_over_sockets", by_address),
    ("windows_created_meanwhile_over_sockets", meanwhile),
    ("switched_off", switched_off),
    ("variables_of_any_bytes", variables_of_any_bytes),
    ("a_job_that_cannot_start", refused_start),
    ("a_library_for_another_mpi", other_library),
    ("a_failure_has_its_reason", ends::failure),
    ("one_line_of_warning", warning),
    ("spawned_processes", spawned),
    ("components_of_open_mpi", components),
    ("open_mpi_ends_after_a_delete_function_has_failed", refused_end),
    ("profiling_tools", tools),
    ("pairs_of_a_value_and_an_index", pairs),
    ("no_warning_for_no_communicator", no_communicator),
    ("an_mpi_that_is_loaded_late", loaded_late),
    ("a_library_that_is_unloaded", unloaded),
    ("a_stand_in_for_an_mpi", stand_in),
    ("a_line_for_each_kind_of_window", lines_of_windows),
    ("a_handle_in_fortran_of_no_window", no_window),
    ("the_checker_sees_the_host", checking::checked),
    ("a_refused_free_has_its_reason", ends::refused_free),
    ("a_session_alone_is_told_that_the_host_serves_it", sessions::alone),
];

fn trials(host: &'static Host) -> Vec<Trial> {
    let name = host.name;
    if !host.is_here() {
        return vec![trial(format!("{name}::not_installed"), || ()).with_ignored_flag(true)];
    }
    let mut trials = Vec::new();
    for program in PROGRAMS {
        if !host.compiles(program.language) {
            trials.push(trial(format!("{name}::{}::no_compiler", program.name), || ()).with_ignored_flag(true));
            continue;
        }
        for (way, run) in WAYS.iter().filter(|(way, _)| is_asked(host, program, way)) {
            trials.push(trial(format!("{name}::{}::{way}", program.name), || run(host, program)));
        }
    }
    let once = ONCE.iter().filter(|(what, _)| is_meant_for(host, what));
    trials.extend(once.map(|(what, run)| trial(format!("{name}::{what}"), || run(host))));
    trials
}

/// Whether a test that runs once for each host has something to show under this one.
fn is_meant_for(host: &Host, what: &str) -> bool {
    match what {
        "spawned_processes" => host.spawns,
        // MPICH ends the program.
        "open_mpi_ends_after_a_delete_function_has_failed" | "components_of_open_mpi" => host.interface() == "open_mpi",
        // MPICH still ends the program by a signal.
        "a_handle_in_fortran_of_no_window" => host.interface() == "open_mpi" && host.compiles(Language::Fortran),
        // Their headers know the combiner.
        "pairs_of_a_value_and_an_index" => ["mpich_5", "standard_abi"].contains(&host.name),
        "a_library_for_another_mpi" => others_of(host).next().is_some(),
        // The others use libfabric themselves, whose polls the program counts.
        "polls_only_for_windows_of_the_library" => host.is_old,
        "memory_of_fortran_is_mapped" => host.compiles(Language::Fortran),
        "a_session_alone_is_told_that_the_host_serves_it" => has_calls_of(host, "session"),
        _ => true,
    }
}

/// The MPIs on this machine with other handles or constants.
fn others_of(host: &Host) -> impl Iterator<Item = &'static Host> {
    let interface = host.interface();
    hosts::all().into_iter().filter(move |other| other.is_here() && other.interface() != interface)
}

/// Runs each program without the library too, under the hosts that run it correctly.
fn is_asked(host: &Host, program: &Program, way: &str) -> bool {
    // MPICH 5 returns success after the error handler, so that its failures can't be seen.
    if program.name == "handlers" && ["mpich_5", "standard_abi"].contains(&host.name) {
        return false;
    }
    if !has_calls_of(host, program.name) {
        return false;
    }
    match way {
        "alone" if host.is_old => host.is_tried_alone && program.alone == Alone::All,
        "alone" => host.is_tried_alone && program.alone != Alone::None,
        "two_nodes" => program.nodes && host.is_old,
        _ => true,
    }
}

/// Shows W1, W4, W5, W6, W7, O1, O2, O3, O4, O5, O6, S1, S2, S3, S4, S5, E1, E6, A3.
/// Route: shm.
fn served(host: &'static Host, program: &Program) {
    verified(&Run::of(host, host.program(program.name, program.language), 4).served().info(), true);
}

/// Hosts poll while they wait, so more ranks than cores would take long.
fn alone(host: &'static Host, program: &Program) {
    verified(&Run::of(host, host.program(program.name, program.language), 2), false);
}

/// Shows W1, O1, O2, S1, S2, S3, S5, E6, A3.
/// Route: mixed.
fn two_nodes(host: &'static Host, program: &Program) {
    let run = Run::of(host, host.program(program.name, program.language), 4).served().info();
    let printed = verified(&run.with("TRANSOM_TEST_NODES", "2"), true);
    // Between nodes the host's polling serves a target that waits in the host, if the host has a
    // hook for it.
    assert_eq!(printed.contains("also makes progress for transom"), host.name.starts_with("open_mpi"), "{printed}");
}

/// Shows W1, S1, S2, S3.
/// Route: shm.
fn two_and_three_ranks(host: &'static Host) {
    for ranks in [2, 3] {
        verified(&Run::of(host, host.program("kinds", Language::C), ranks).served(), false);
    }
}

/// Whether the host's header has the calls that a program tests. Without them the program would
/// test nothing.
fn has_calls_of(host: &Host, program: &str) -> bool {
    match program {
        // Extensions that MPICH has from 4.1 on, and its header alone.
        "is_complete" | "thread_ranks" => host.name == "mpich_5",
        // The headers of both versions of Open MPI are those of MPI 3.1.
        "large" | "session" => host.interface() != "open_mpi",
        // Version 5 of Open MPI has sessions.
        "outlives" => host.name != "open_mpi",
        _ => true,
    }
}

/// Waits of several threads are also ended by messages.
/// Shows S1, S2, W7.
/// Route: tcp.
fn threads_over_sockets(host: &'static Host) {
    // The shared windows of `duplicates` are served by the host here. Open MPI 5 crashes if threads
    // create its windows at the same time.
    let crashes = |program| host.name == "open_mpi_5" && program == "duplicates";
    let all = ["turns", "crowd", "duplicates", "thread_ends", "is_complete", "thread_ranks", "outlives", "proc_null"];
    for program in all.into_iter().filter(|&program| !crashes(program) && has_calls_of(host, program)) {
        let run = Run::of(host, host.program(program, Language::C), 2).served().info();
        verified(&run.with("TRANSOM_TRANSPORTS", "^shm"), true);
    }
}

/// Values that a program reads before the flush, and values of calls that return before.
/// Shows O1, S2.
/// Route: tcp, mixed.
fn values_over_sockets(host: &'static Host) {
    let run = |program, ranks| Run::of(host, host.program(program, Language::C), ranks).served().info();
    verified(&run("early", 3).with("TRANSOM_TRANSPORTS", "^shm"), true);
    verified(&run("pipelined", 2).with("TRANSOM_TRANSPORTS", "^shm"), true);
    let two_nodes = run("pipelined", 3).with("TRANSOM_TEST_NODES", "2").with("TRANSOM_PROVIDER", "tcp;ofi_rxm");
    verified(&two_nodes.with("TRANSOM_ATOMICS", "nic"), true);
}

/// The program counts the polls of libfabric.
/// Shows T3.
/// Route: tcp.
fn polls(host: &'static Host) {
    let run = Run::of(host, host.program("polls", Language::C), 2).served();
    verified(&run.with("TRANSOM_TRANSPORTS", "^shm"), false);
}

/// The library serves the hosts' Fortran entry points of `MPI_Alloc_mem`: the window over such
/// memory is mapped.
/// Shows T1.
/// Route: shm.
fn memory_of_fortran(host: &'static Host) {
    for (name, only) in [("old", false), ("modern", true)] {
        let printed = verified(&Run::of(host, host.program(name, Language::Fortran), 2).served().info(), true);
        let windows: Vec<_> = printed.lines().filter(|line| line.contains("window Create of 2 ranks")).collect();
        let mapped = windows.iter().filter(|line| !line.contains("not all mapped")).count();
        assert_eq!((windows.len(), mapped), (if only { 1 } else { 2 }, 1), "{printed}");
    }
}

/// Two and four ranks, over shared memory and over sockets, and windows that the host serves.
/// Shows O1, O2, O6, E1, N1.
/// Route: shm, tcp.
fn notified(host: &'static Host) {
    let run = |ranks| Run::of(host, host.program("notified", Language::C), ranks).served().info();
    verified(&run(2), true);
    for ranks in [2, 4] {
        verified(&run(ranks).with("TRANSOM_TRANSPORTS", "^shm"), true);
    }
    verified(&run(2).with("TRANSOM_MPI", "off"), false);
}

/// Shows O1, O2, O4, O5.
/// Route: tcp.
fn partial(host: &'static Host) {
    let run = Run::of(host, host.program("partial", Language::C), 2).served().info();
    verified(&run.with("TRANSOM_TRANSPORTS", "^shm"), true);
}

/// Shows W1, O1, O2, S1, S2, S3.
/// Route: tcp.
fn by_address(host: &'static Host) {
    for ranks in [2, 3] {
        let run = Run::of(host, host.program("by_address", Language::C), ranks).served().info();
        verified(&run.with("TRANSOM_TRANSPORTS", "^shm"), true);
    }
}

/// Regression: libfabric's table of regions was changed by one thread and read by another, so that
/// operations were cancelled, and processes crashed or hung.
/// Shows W2, W7, S2.
/// Route: tcp.
fn meanwhile(host: &'static Host) {
    // Open MPI 5 crashes if threads create its windows at the same time.
    let threads = if host.name == "open_mpi_5" { "1" } else { "3" };
    let run = Run::of(host, host.program("meanwhile", Language::C), 3).served().info();
    verified(&run.given(vec![threads.into()], 120).with("TRANSOM_TRANSPORTS", "^shm"), true);
}

fn switched_off(host: &'static Host) {
    let run = Run::of(host, host.program("kinds", Language::C), 2).served().info().with("TRANSOM_MPI", "off");
    verified(&run, false);
}

/// Regression: any environment variable with a value that is not UTF-8 ended every program. Only
/// for the library's own variables is such a value an error, which names the variable.
/// Shows E1.
/// Route: shm.
fn variables_of_any_bytes(host: &'static Host) {
    let run = |variable| {
        let value = OsStr::from_bytes(b"caf\xe9");
        Run::of(host, host.program("kinds", Language::C), 2).served().info().with(variable, value)
    };
    verified(&run("NAME_OF_A_FILE"), true);
    let printed = verified(&run("TRANSOM_PROVIDER"), false);
    let why = "windows are served by the MPI itself: TRANSOM_PROVIDER=caf\u{fffd}: the value is not UTF-8";
    assert_eq!(printed.matches(why).count(), 1, "{printed}");
}

/// The host serves all windows, and one rank reports the reason.
/// Shows E1.
/// Route: program.
fn refused_start(host: &'static Host) {
    let run = Run::of(host, host.program("kinds", Language::C), 2).served().info().with("TRANSOM_ATOMICS", "gpu");
    let printed = verified(&run, false);
    assert_eq!(printed.matches("windows are served by the MPI itself: TRANSOM_ATOMICS=gpu").count(), 1, "{printed}");
    // Rank 0 alone opens the net before the others.
    let run = Run::of(host, host.program("kinds", Language::C), 2).served().with("TRANSOM_TEST_NODES", "2");
    let printed = verified(&run.with("TRANSOM_PROVIDER", "nosuch"), false);
    assert_eq!(printed.matches("windows are served by the MPI itself").count(), 1, "{printed}");
}

/// A library that was built for an MPI with other handles or constants, or with fewer functions,
/// ends the program, with one line.
/// Shows E1.
/// Route: program.
fn other_library(host: &'static Host) {
    for other in others_of(host) {
        let run = Run::of(host, host.program("kinds", Language::C), 2).with("LD_PRELOAD", other.library());
        let printed = refused(&run, "build it with MPICC");
        assert_eq!(printed.matches("was built for another MPI").count(), 1, "{printed}");
    }
    if host.is_old {
        let later = host.built("liblater.so", &["-shared", "-fPIC", &Host::source("later.c")]);
        let preloaded = format!("{}:{}", host.library().to_string_lossy(), later.to_string_lossy());
        let run = Run::of(host, host.program("kinds", Language::C), 2).with("LD_PRELOAD", preloaded);
        refused(&run, "and without MPI_Request_get_status_all");
    }
}

/// The user's choice of Open MPI's component for windows does not matter to the library, also if
/// the component has no shared windows.
/// Shows W1.
/// Route: shm.
fn components(host: &'static Host) {
    for osc in ["^sm", "sm"] {
        let run = Run::of(host, host.program("kinds", Language::C), 2).served().info();
        verified(&run.with("OMPI_MCA_osc", osc), true);
    }
}

/// Regression: the other ranks waited for ever for the rank of the failure.
/// Shows E1.
/// Route: shm, tcp.
fn refused_end(host: &'static Host) {
    for rank in ["none", "first", "last", "all"] {
        let run = || {
            let run = Run::of(host, host.program("refused_end", Language::C), 3).served().info();
            run.given(vec![rank.to_owned()], 60)
        };
        verified(&run(), true);
        verified(&run().with("TRANSOM_TRANSPORTS", "^shm"), true);
    }
    // Without the barrier of Open MPI's end, the delete functions must succeed.
    let run = Run::of(host, host.program("refused_end", Language::C), 3).served().info();
    verified(&run.given(vec!["none".to_owned()], 60).with("OMPI_MCA_async_mpi_finalize", "1"), true);
}

/// Two nodes on one machine, which share memory in the host but not in transom. The warning follows
/// `TRANSOM_WARNINGS`.
/// Shows T5.
/// Route: mixed.
fn warning(host: &'static Host) {
    for (shown, count) in [("y", 1), ("n", 0)] {
        let run = Run::of(host, host.program("groups", Language::C), 4).served().with("TRANSOM_TEST_NODES", "2");
        let printed = verified(&run.with("TRANSOM_WARNINGS", shown), false);
        let warnings = printed.lines().filter(|line| line.contains("a window is served by the MPI itself")).count();
        assert_eq!(warnings, count, "TRANSOM_WARNINGS={shown}: {printed}");
    }
}

/// A handle that is no communicator has no properties for which the host serves a window.
/// Shows E1.
/// Route: shm.
fn no_communicator(host: &'static Host) {
    let run = Run::of(host, host.program("invalid", Language::C), 2).served().with("TRANSOM_WARNINGS", "y");
    let printed = verified(&run, false);
    assert!(!printed.contains("a window is served by the MPI itself"), "{printed}");
}

/// Regression: Open MPI ended the program by a signal, also without the library.
/// Shows E1.
/// Route: shm.
fn no_window(host: &'static Host) {
    verified(&Run::of(host, host.program("no_window", Language::Fortran), 2).served(), false);
}

/// A stand-in for a later MPI makes pairs without names, which these MPIs do not have.
/// Shows O1, O4.
/// Route: shm.
fn pairs(host: &'static Host) {
    let other = host.built("libpairs.so", &["-shared", "-fPIC", &Host::source("pairs_host.c")]);
    let preloaded = format!("{}:{}", host.library().to_string_lossy(), other.to_string_lossy());
    verified(&Run::of(host, host.program("pairs", Language::C), 2).info().with("LD_PRELOAD", preloaded), true);
}

/// A tool counts the program's calls while the library serves its windows. The tool is part of the
/// program, a shared library of it, or preloaded before or after this library.
/// Shows W1, O1.
/// Route: shm.
fn tools(host: &'static Host) {
    let sources = ["traced.c", "tool.c"].map(Host::source);
    let tool = host.built("libtool.so", &["-shared", "-fPIC", &sources[1]]);
    let path = tool.to_string_lossy().into_owned();
    let plain = host.built("traced", &[&sources[0]]);
    let inside = host.built("traced_static", &[&sources[0], &sources[1]]);
    let beside = host.built("traced_shared", &[&sources[0], "-Wl,--no-as-needed", &path]);
    let library = host.library().to_string_lossy().into_owned();
    let ways = [
        (inside, library.clone()),
        (beside, library.clone()),
        (plain.clone(), format!("{path}:{library}")),
        (plain, format!("{library}:{path}")),
    ];
    for (program, preloaded) in ways {
        let printed = verified(&Run::of(host, program, 2).info().with("LD_PRELOAD", preloaded), true);
        assert!(printed.contains("tool: 2 inits, 10 puts, 2 windows"), "{printed}");
    }
}

/// Regression: a program that loads its MPI by `dlopen` with `RTLD_LOCAL`, as Python's mpi4py does,
/// died in `MPI_Init`; later, one that had loaded more than 512 objects before.
/// Shows W1, O1.
/// Route: shm.
fn loaded_late(host: &'static Host) {
    let module = host.built("libmodule.so", &["-shared", "-fPIC", "-Dmain=main_of_module", &Host::source("kinds.c")]);
    let empty = host.built("libempty.so", &["-shared", "-fPIC", "-Wl,--as-needed", "-x", "c", "/dev/null"]);
    let objects = empty.with_file_name("many_objects");
    std::fs::create_dir_all(&objects).expect("a folder");
    for number in 0..OBJECTS {
        std::fs::copy(&empty, objects.join(format!("{number}.so"))).expect("a copy");
    }
    let places = [format!("-DMODULE=\"{}\"", module.display()), format!("-DOBJECTS=\"{}\"", objects.display())];
    let program = host.built("loader", &["-Wl,--as-needed", &places[0], &places[1], &Host::source("loader.c")]);
    for loaded in [0, OBJECTS] {
        verified(&Run::of(host, program.clone(), 2).served().info().with("LOADED", loaded.to_string()), true);
    }
    std::fs::remove_dir_all(&objects).expect("it was made above");
}

/// Regression: the library's handler of the process's exit was called after `dlclose` had unmapped
/// it, so a process that had loaded the library as a part of a plugin ended by a signal.
/// Shows W1.
/// Route: program.
fn unloaded(host: &'static Host) {
    let library = format!("-DLIBRARY=\"{}\"", host.library().display());
    let program = host.built("unloaded", &["-Wl,--as-needed", &library, &Host::source("unloaded.c")]);
    let output = std::process::Command::new(program).output().expect("the program starts");
    assert!(output.status.success() && output.stdout == b"closed\n", "{output:?}");
}

/// Regression: a program with a stand-in that has no PMPI names ended by a signal in `MPI_Init`.
/// Shows W1.
/// Route: program.
fn stand_in(host: &'static Host) {
    let source = Host::source("stand_in.c");
    let stand_in = host.built("libstand_in.so", &["-shared", "-fPIC", "-Wl,--as-needed", "-DSTAND_IN", &source]);
    let program = host.built("stand_in", &["-Wl,--as-needed", &source, &stand_in.to_string_lossy()]);
    verified(&Run::of(host, program, 1).served().info(), false);
}

/// More objects than the processes of large Python programs load.
const OBJECTS: usize = 600;

/// More than 50 windows over six communicators are reported in a few lines by rank 0 alone.
/// Shows T5.
/// Route: shm.
fn lines_of_windows(host: &'static Host) {
    let printed = verified(&Run::of(host, host.program("groups", Language::C), 4).served().info(), true);
    let count = |words: &str| printed.lines().filter(|line| line.contains(words)).count();
    // One line for windows over all ranks, one for windows of a single rank.
    assert_eq!(count("transom: window Allocate of "), 2, "{printed}");
    assert_eq!(count("transom: window Shared of 4 ranks: "), 1, "{printed}");
    assert_eq!(count("transom: window "), 3, "{printed}");
    let words = " x Allocate by shared memory; atomics cpu";
    let further = printed.lines().find_map(|line| line.strip_prefix("transom: further windows: ")?.strip_suffix(words));
    let further: u64 = further.and_then(|number| number.parse().ok()).expect("the number of further windows");
    assert!(further >= 50, "{printed}");
    assert_eq!(count("transom: further windows: "), 1, "{printed}");
}

/// Shows T5.
/// Route: shm.
fn spawned(host: &'static Host) {
    let printed = verified(&Run::of(host, host.program("spawned", Language::C), 2).served().info(), true);
    assert!(printed.contains("some ranks of its communicator are not in MPI_COMM_WORLD"), "{printed}");
}

fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}
