//! The MPIs of this machine: by which compiler and launcher each is used, and where its interposition library is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Transport;

/// An MPI.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) mpicc: String,
    pub(crate) mpiexec: String,
    /// What is preloaded, where it is there.
    pub(crate) library: Option<PathBuf>,
    /// Where it was looked for.
    pub(crate) looked_at: PathBuf,
}

impl Host {
    fn new(name: &str, mpicc: &str, mpiexec: &str) -> Host {
        let (name, mpicc, mpiexec) = (name.to_owned(), mpicc.to_owned(), mpiexec.to_owned());
        Host { name, mpicc, mpiexec, library: None, looked_at: PathBuf::new() }
    }

    /// Looks for its library: what the user says, else beside this program.
    pub(crate) fn find_library(&mut self, given: &[(String, PathBuf)]) -> Result<(), String> {
        if let Some((_, path)) = given.iter().find(|(name, _)| *name == self.name) {
            if !path.exists() {
                return Err(format!("--library {}={}: there is no such file", self.name, path.display()));
            }
            self.library = Some(path.canonicalize().map_err(|error| error.to_string())?);
            return Ok(());
        }
        let own = std::env::current_exe().unwrap_or_default();
        let target = own.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        let places = ["release", "debug"].map(|profile| target.join("mpi").join(&self.name).join(profile));
        let mut places = places.map(|folder| folder.join("libtransom_mpi.so")).into_iter();
        self.looked_at = target.join("mpi").join(&self.name);
        self.library = places.find(|path| path.exists());
        Ok(())
    }

    /// The variables that make it take a transport; those of transom too. All of them are set for every MPI: each heeds its own.
    /// `with`: transom serves the windows.
    pub(crate) fn environment(&self, transport: Transport, with: bool) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            // Two ranks on whatever there is.
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
        ];
        if transport == Transport::Tcp {
            all.extend([
                ("TRANSOM_TRANSPORTS", "^shm"),
                ("MPIR_CVAR_NOLOCAL", "1"),
                ("MPIR_CVAR_OFI_USE_PROVIDER", "tcp"),
                ("UCX_TLS", "tcp,self"),
                ("OMPI_MCA_btl", "self,tcp"),
                ("OMPI_MCA_pml", "ob1"),
            ]);
            if !with {
                // Open MPI's other components use shared memory for windows of one machine whatever the transport.
                all.push(("OMPI_MCA_osc", if self.has_pt2pt() { "pt2pt" } else { "^sm" }));
            }
        }
        all
    }

    /// Whether it is an Open MPI that has windows over messages, up to version 4.
    fn has_pt2pt(&self) -> bool {
        let mut tool = Command::new(&self.mpiexec);
        let output = tool.arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            ["3.", "4."].iter().any(|major| {
                text.contains(&format!("(OpenRTE) {major}")) || text.contains(&format!("(Open MPI) {major}"))
            })
        })
    }
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
        _ => Err("it is NAME=MPICC,MPIEXEC, as in mpich=mpicc.mpich,mpiexec.mpich".into()),
    }
}

/// `NAME=PATH`.
pub(crate) fn library(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("it is NAME=PATH, with the name of an MPI".into()),
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
    fn a_library_that_is_named_must_be_there() {
        let mut host = Host::new("mine", "cc", "true");
        let given = |path: &str| [("mine".to_owned(), PathBuf::from(path))];
        assert!(host.find_library(&given("/nowhere/libtransom_mpi.so")).is_err());
        host.find_library(&given("/proc/self/status")).expect("a file");
        assert!(host.library.is_some());
    }

    #[test]
    fn tcp_is_asked_of_everybody() {
        let host = Host::new("mine", "cc", "true");
        let shm = host.environment(Transport::Shm, true);
        assert!(shm.iter().all(|(name, _)| *name != "TRANSOM_TRANSPORTS"));
        let tcp = host.environment(Transport::Tcp, false);
        for name in ["TRANSOM_TRANSPORTS", "MPIR_CVAR_NOLOCAL", "UCX_TLS", "OMPI_MCA_btl"] {
            assert!(tcp.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
