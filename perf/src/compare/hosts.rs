//! The MPIs of this machine: the compiler, the launcher and the path of the interposition library
//! of each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Transport;
use super::job::watched;

/// An MPI.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) mpicc: String,
    pub(crate) mpiexec: String,
    /// The library to preload, if there is one.
    pub(crate) library: Option<PathBuf>,
    /// Where its library is built.
    pub(crate) target: PathBuf,
}

impl Host {
    fn new(name: &str, mpicc: &str, mpiexec: &str) -> Host {
        let (name, mpicc, mpiexec) = (name.to_owned(), mpicc.to_owned(), mpiexec.to_owned());
        Host { name, mpicc, mpiexec, library: None, target: PathBuf::new() }
    }

    /// Finds the MPI's library: the one that the user names, else below the folder in which this
    /// program was built or installed.
    pub(crate) fn find_library(&mut self, given: &[(String, PathBuf)]) -> Result<(), String> {
        if let Some((_, path)) = given.iter().find(|(name, _)| *name == self.name) {
            if !path.exists() {
                return Err(format!("--library {}={}: there is no such file", self.name, path.display()));
            }
            self.library = Some(path.canonicalize().map_err(|error| error.to_string())?);
            return Ok(());
        }
        let place = Place::of_this_program();
        self.target = place.target().join("mpi").join(&self.name);
        let folders =
            [self.target.join("release"), place.prefix.join("lib/transom").join(&self.name), self.target.join("debug")];
        self.library = folders.iter().map(|folder| folder.join(LIBRARY)).find(|path| path.exists());
        Ok(())
    }

    /// The command that builds its library.
    pub(crate) fn command(&self) -> String {
        let sources = Place::of_this_program().sources;
        let manifest = sources.unwrap_or_default().join(MANIFEST);
        let (manifest, target) = (manifest.display(), self.target.display());
        format!("MPICC={} cargo build --release --manifest-path {manifest} --target-dir {target}", self.mpicc)
    }

    /// Builds the MPI's library if it was not found, and cargo and the sources are installed.
    /// False: the build failed, and the reason was printed.
    pub(crate) fn build_library(&mut self) -> bool {
        let Place { sources: Some(sources), .. } = Place::of_this_program() else { return true };
        if self.library.is_some() || !starts("cargo") {
            return true;
        }
        eprintln!("transom-perf compare: building the interposition library for {}: {}", self.name, self.command());
        let log = self.target.join("build.log");
        let built = std::fs::create_dir_all(&self.target).and_then(|()| {
            let mut cargo = Command::new("cargo");
            cargo.args(["build", "--release", "--manifest-path"]).arg(sources.join(MANIFEST));
            cargo.arg("--target-dir").arg(&self.target).env("MPICC", absolute(&self.mpicc));
            cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
            watched(&mut cargo)
        });
        match built {
            Ok(status) if status.success() => {
                self.library = Some(self.target.join("release").join(LIBRARY)).filter(|path| path.exists());
            }
            Ok(status) => eprintln!("transom-perf compare: cargo failed: {status}; see {}", log.display()),
            Err(error) => eprintln!("transom-perf compare: building with the log {}: {error}", log.display()),
        }
        self.library.is_some()
    }

    /// The variables that select a transport in the MPI and in transom. Every MPI gets the
    /// variables of all MPIs, and reads its own. `with`: transom serves the windows.
    pub(crate) fn environment(&self, transport: Transport, with: bool) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            // Open MPI starts two ranks on one core too.
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
        ];
        if transport == Transport::Tcp {
            all.extend([
                ("TRANSOM_TRANSPORTS", "^shm"),
                ("MPIR_CVAR_NOLOCAL", "1"),
                // MPICH may be built with UCX too, and prefers it.
                ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                ("MPIR_CVAR_OFI_USE_PROVIDER", "tcp"),
                ("UCX_TLS", "tcp,self"),
                ("OMPI_MCA_btl", "self,tcp"),
                ("OMPI_MCA_pml", "ob1"),
            ]);
            // MPICH 5 ignores its own variable, and its first fences with another provider take
            // milliseconds. With MPICH 4's libfabric, FI_PROVIDER would select another provider for
            // transom too.
            if is_of(&self.version(), "Version:", &["5."]) {
                all.push(("FI_PROVIDER", "tcp"));
            }
            if !with {
                // For every transport, Open MPI's other components use shared memory for windows of
                // one machine.
                all.push(("OMPI_MCA_osc", if self.has_pt2pt() { "pt2pt" } else { "^sm" }));
            }
        }
        all
    }

    /// Whether it is an Open MPI that has windows over messages, up to version 4.
    fn has_pt2pt(&self) -> bool {
        let text = self.version();
        ["(OpenRTE)", "(Open MPI)"].iter().any(|name| is_of(&text, name, &["3.", "4."]))
    }

    /// What the launcher says of its version.
    fn version(&self) -> String {
        let mut tool = Command::new(&self.mpiexec);
        let output = tool.arg("--version").stdin(Stdio::null()).output();
        output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Whether `text` has `name`, followed by a version that begins with one of `versions`.
fn is_of(text: &str, name: &str, versions: &[&str]) -> bool {
    text.split(name).skip(1).any(|rest| versions.iter().any(|version| rest.trim_start().starts_with(version)))
}

/// The interposition library's file, and the manifest of its package.
const LIBRARY: &str = "libtransom_mpi.so";
const MANIFEST: &str = "capi/mpi/Cargo.toml";

/// The folders of this program.
struct Place {
    /// The folder above that of the program: a target folder, or the prefix of an installation.
    prefix: PathBuf,
    /// Whether the prefix is a target folder.
    is_build: bool,
    /// The root of the sources, if they are on this machine.
    sources: Option<PathBuf>,
}

impl Place {
    fn of_this_program() -> Place {
        let own = std::env::current_exe().unwrap_or_default();
        let folder = own.parent().unwrap_or(Path::new("."));
        let prefix = folder.parent().unwrap_or(Path::new(".")).to_owned();
        // The sources around the program, else those from which it was built.
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let mut roots = own.ancestors().skip(1).chain(built_from);
        let sources = roots.find(|root| root.join(MANIFEST).exists()).map(Path::to_owned);
        Place { prefix, is_build: folder.join("deps").exists(), sources }
    }

    /// The folder for builds.
    fn target(&self) -> PathBuf {
        match (&self.sources, self.is_build) {
            (_, true) => self.prefix.clone(),
            (Some(sources), false) => sources.join("target"),
            (None, false) => "target".into(),
        }
    }
}

/// The path of a program from any working directory. A name without a slash is found by `PATH`.
fn absolute(program: &str) -> PathBuf {
    let path = PathBuf::from(program);
    if program.contains('/') { path.canonicalize().unwrap_or(path) } else { path }
}

/// The MPIs that are found by their usual names.
pub(crate) fn found() -> Vec<Host> {
    let known = [
        ("mpich", "mpicc.mpich", &["mpiexec.mpich", "mpiexec.hydra"][..]),
        ("openmpi", "mpicc.openmpi", &["mpirun.openmpi", "mpiexec.openmpi"]),
        ("intel", "mpiicx", &["mpiexec.hydra"]),
    ];
    let found = |known: &[(&str, &str, &[&str])]| -> Vec<Host> {
        let pairs = known.iter().filter(|(_, mpicc, _)| starts(mpicc));
        let all = pairs.filter_map(|(name, mpicc, launchers)| {
            launchers.iter().find(|launcher| starts(launcher)).map(|launcher| Host::new(name, mpicc, launcher))
        });
        all.collect()
    };
    let hosts = found(&known);
    if hosts.is_empty() { found(&[("mpi", "mpicc", &["mpiexec"])]) } else { hosts }
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok()
}

/// `NAME=MPICC,MPIEXEC`.
pub(crate) fn named(text: &str) -> Result<Host, String> {
    let parts = text.split_once('=').and_then(|(name, tools)| Some((name, tools.split_once(',')?)));
    match parts {
        Some((name, (mpicc, mpiexec))) if ![name, mpicc, mpiexec].contains(&"") => Ok(Host::new(name, mpicc, mpiexec)),
        _ => Err("the value must be NAME=MPICC,MPIEXEC, as in mpich=mpicc.mpich,mpiexec.mpich".into()),
    }
}

/// `NAME=PATH`.
pub(crate) fn library(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("the value must be NAME=PATH, with the name of an MPI".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mpi_is_a_name_and_two_programs() {
        let host = named("mine=/opt/mpi/bin/mpicc,/opt/mpi/bin/mpiexec").expect("an MPI");
        assert_eq!((&*host.name, &*host.mpicc), ("mine", "/opt/mpi/bin/mpicc"));
        assert_eq!(host.mpiexec, "/opt/mpi/bin/mpiexec");
        for wrong in ["", "mine", "mine=a", "=a,b", "mine=,b", "mine=a,"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
        assert_eq!(library("mine=/a=b"), Ok(("mine".into(), "/a=b".into())));
        assert!(library("mine").is_err() && library("=x").is_err());
    }

    #[test]
    fn a_named_library_must_exist() {
        let mut host = Host::new("mine", "cc", "true");
        let given = |path: &str| [("mine".to_owned(), PathBuf::from(path))];
        assert!(host.find_library(&given("/nowhere/libtransom_mpi.so")).is_err());
        host.find_library(&given("/proc/self/status")).expect("a file");
        assert!(host.library.is_some());
    }

    #[test]
    fn every_mpi_is_set_to_tcp() {
        let host = Host::new("mine", "cc", "true");
        let shm = host.environment(Transport::Shm, true);
        assert!(shm.iter().all(|(name, _)| *name != "TRANSOM_TRANSPORTS"));
        let tcp = host.environment(Transport::Tcp, false);
        for name in ["TRANSOM_TRANSPORTS", "MPIR_CVAR_NOLOCAL", "MPIR_CVAR_CH4_NETMOD", "UCX_TLS", "OMPI_MCA_btl"] {
            assert!(tcp.iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn versions_are_found_behind_their_names() {
        let hydra = "HYDRA build details:\n    Version:                 5.0.2\n    CC: cc";
        assert!(is_of(hydra, "Version:", &["5."]) && !is_of(hydra, "Version:", &["3.", "4."]));
        assert!(is_of("mpirun.openmpi (OpenRTE) 4.1.4", "(OpenRTE)", &["3.", "4."]));
        assert!(!is_of("mpirun (Open MPI) 5.0.11", "(Open MPI)", &["3.", "4."]) && !is_of("", "", &["5."]));
    }
}
