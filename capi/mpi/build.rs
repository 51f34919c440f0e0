//! Compiles the C files of `host/` with the MPI's compiler wrapper, which `MPICC` names. Determines
//! the differences between MPIs at compile time: the width of handles, whether the MPI is Open MPI,
//! and which functions it has that others lack.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const SOURCES: [&str; 9] = [
    "host.c",
    "names.c",
    "arithmetic.c",
    "waits.c",
    "edges.c",
    "communicators.c",
    "collectives.c",
    "messages.c",
    "buffers.c",
];
const HEADERS: [&str; 4] = ["host.h", "calls.h", "edges.h", "edges_internal.h"];

fn main() {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    println!("cargo::rerun-if-env-changed=MPICC");
    for file in SOURCES.into_iter().chain(HEADERS) {
        println!("cargo::rerun-if-changed=host/{file}");
    }
    let probe = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("probe.c");
    let holds = |expression: &str| {
        let text = format!("#include <mpi.h>\n_Static_assert({expression}, \"\");\n");
        std::fs::write(&probe, text).expect("the folder of cargo is writable");
        let mut command = Command::new(&compiler);
        command.args(["-fsyntax-only", "-x", "c"]).arg(&probe).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                panic!("{compiler}: {error}; MPICC names the compiler wrapper of an MPI, such as mpicc.mpich")
            }
        }
    };
    assert!(holds("MPI_VERSION >= 3"), "{compiler} compiles no MPI program of MPI-3 or later");
    let int_handles = holds("sizeof(MPI_Win) == 4");
    if int_handles {
        println!("cargo::rustc-cfg=int_handles");
    }
    if holds("OPEN_MPI") {
        println!("cargo::rustc-cfg=open_mpi");
    }
    if holds("MPI_VERSION >= 4") {
        println!("cargo::rustc-cfg=large_counts");
    }
    // MPICH 4 reports errors of receives, which `MPI_Test` completes, to the handler of
    // `MPI_COMM_WORLD`; those of collective calls go to the handler of their communicator.
    if holds("MPICH_NUMVERSION < 50000000") {
        println!("cargo::rustc-cfg=tests_report_to_world");
    }
    // The library has a function's name only where the MPI has it: programs look names up to learn
    // what the MPI has.
    for (name, function) in [
        ("has_counts", "MPI_Allreduce_c"),
        ("has_isendrecv", "MPI_Isendrecv"),
        ("has_partitions", "MPI_Pready"),
        ("has_persistent", "MPI_Allreduce_init_c"),
        ("has_idup_with_info", "MPI_Comm_idup_with_info"),
        ("has_large_puts", "MPI_Put_c"),
        ("has_status_of_several", "MPI_Request_get_status_all"),
        ("has_is_complete", "MPIX_Request_is_complete"),
    ] {
        if holds(&format!("sizeof(&{function}) > 0")) {
            println!("cargo::rustc-cfg={name}");
        }
    }
    // Of MPI-4.1: a type that MPI_Type_get_value_index made.
    let values_with_indices = holds("MPI_COMBINER_VALUE_INDEX >= 0");
    // Calls within the library use the library's functions, also if another object defines the
    // names.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic-functions");
    // The process keeps the library: a handler of its exit, and threads, run the library's code.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    let mut build = cc::Build::new();
    if values_with_indices {
        build.define("TRANSOM_VALUE_INDEX", None);
    }
    build
        .compiler(&compiler)
        .files(SOURCES.map(|file| format!("host/{file}")))
        .define("TRANSOM_HANDLE", if int_handles { "4" } else { "8" })
        .warnings(true)
        .compile("transom_mpi_host");
}
