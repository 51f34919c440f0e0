//! The installation for the tests, made once, and C programs built with it. The library and the
//! programs are those of the last build of the workspace; this module only checks that they are not
//! older than their source.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// The system libraries of a program that is linked with the archive, from transom.pc.
pub(crate) const NATIVE: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cplusplus,
}

/// How a program gets the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    Static,
}

/// A folder with the library as users have it.
#[derive(Debug)]
pub(crate) struct Install {
    /// The argument of `capi/install`.
    pub(crate) prefix: PathBuf,
    /// Where programs are built.
    pub(crate) work: PathBuf,
    /// Held while one is built.
    building: Mutex<()>,
}

/// Installs, the first time.
pub(crate) fn installed() -> &'static Install {
    static INSTALL: OnceLock<Install> = OnceLock::new();
    INSTALL.get_or_init(|| {
        let built = built();
        up_to_date(&built);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-interface");
        let _ = std::fs::remove_dir_all(&folder);
        let (prefix, work) = (folder.join("prefix"), folder.join("work"));
        std::fs::create_dir_all(&work).expect("a folder to build in");
        let profile: &[&str] = if built.ends_with("debug") { &["--debug"] } else { &[] };
        let mut script = Command::new(source("install"));
        script.args(profile).arg("--no-build").arg(&prefix).stdin(Stdio::null());
        let output = script.env("CARGO_TARGET_DIR", built.parent().expect("a profile's folder")).output();
        let output = output.expect("capi/install starts");
        assert!(output.status.success(), "capi/install: {}", printed(&output));
        Install { prefix, work, building: Mutex::new(()) }
    })
}

/// Where cargo puts libraries and programs: beside this program's folder.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    test.parent().and_then(Path::parent).expect("target/PROFILE/deps").to_owned()
}

/// Fails if the library is missing or older than its source.
fn up_to_date(built: &Path) {
    let advice = "build it: cargo build --workspace --all-targets";
    let library = built.join("libtransom_c.so");
    let made = std::fs::metadata(&library).and_then(|about| about.modified());
    let made = made.unwrap_or_else(|error| panic!("{}: {error}; {advice}", library.display()));
    for folder in ["src", "../src"] {
        let newest = newest(&source(folder));
        assert!(newest <= made, "{} is older than {folder}; {advice}", library.display());
    }
}

/// The time of the last change of a file below a folder.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).expect("a folder of the source");
    let times = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() { newest(&path) } else { path.metadata().and_then(|about| about.modified()).expect("a time") }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A file of this crate.
pub(crate) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The whole output of a program.
pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Install {
    /// The compiler's command: all warnings are errors, and the header is found.
    pub(crate) fn compiler(&self, language: Language) -> Command {
        let (program, standard) = match language {
            Language::C => ("cc", "-std=c99"),
            Language::Cplusplus => ("c++", "-std=c++11"),
        };
        let mut compiler = Command::new(program);
        compiler.args([standard, "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
        compiler.arg("-I").arg(self.prefix.join("include")).stdin(Stdio::null());
        compiler
    }

    /// A program of a file of this crate, built once.
    pub(crate) fn built(&self, file: &str, language: Language, kind: Kind) -> PathBuf {
        let _alone = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        let stem = Path::new(file).file_stem().expect("a file").to_string_lossy().into_owned();
        let program = self.work.join(format!("{stem}-{kind:?}").to_lowercase());
        if program.exists() {
            return program;
        }
        let lib = self.prefix.join("lib");
        let mut compiler = self.compiler(language);
        compiler.arg(source(file)).arg("-o").arg(&program);
        match kind {
            Kind::Shared => compiler
                .arg("-L")
                .arg(&lib)
                .arg("-ltransom")
                .arg(format!("-Wl,-rpath,{}", lib.display()))
                .arg("-lpthread"),
            Kind::Static => compiler.arg(lib.join("libtransom.a")).args(NATIVE),
        };
        let output = compiler.output().expect("a compiler");
        assert!(output.status.success(), "{file}: {}", printed(&output));
        program
    }
}
