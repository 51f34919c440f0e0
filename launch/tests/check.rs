//! `transom-check` as a user types it.
//!
//! Route: program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{test}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("src")).expect("a directory");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check(args: &[&Path]) -> Output {
    let program = env!("CARGO_BIN_EXE_transom-check");
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("it starts")
}

const SOURCE: &str = "int main(void)\n{\n    put();\n    get();\n    return 0;\n}\n";
const CONFLICT: &str = concat!(
    r#"{"window":"3","target":1,"first":{"rank":0,"call":"put","start":8,"end":16,"place":"main at /gone/src/a.c:3"},"#,
    r#""second":{"rank":2,"call":"get","start":8,"end":16,"place":"main at /gone/src/a.c:4"},"rule":"the rule"}"#
);
const OTHER_WAY: &str = concat!(
    r#"{"window":"3","target":0,"first":{"rank":2,"call":"get","start":0,"end":8,"place":"main at /gone/src/a.c:4"},"#,
    r#""second":{"rank":1,"call":"put","start":0,"end":8,"place":"main at /gone/src/a.c:3"},"rule":"the rule"}"#
);
const ASSERTION: &str = concat!(
    r#"{"window":"2","target":0,"first":{"rank":0,"call":"post with MPI_MODE_NOPUT","place":"main at b.c:5"},"#,
    r#""second":{"rank":1,"call":"put of bytes 8..16","place":"main at b.c:9"},"rule":"the promise"}"#
);
const DEADLOCK: &str = concat!(
    r#"{"deadlock":[{"rank":0,"call":"fence","window":"1","for":null,"place":"main at b.c:1"},"#,
    r#"{"rank":1,"call":"start","window":"1","for":0,"place":"an unknown place"}]}"#
);

/// Shows E5.
#[test]
fn conflicts_are_shown_once_with_their_lines() {
    let folder = Folder::new("lines");
    folder.write("src/a.c", SOURCE);
    let report = folder.write("report", &[CONFLICT, OTHER_WAY, ASSERTION, DEADLOCK, ""].join("\n"));
    let output = check(&[&report, "--context".as_ref(), "1".as_ref(), "--source".as_ref(), &folder.0]);
    assert!(output.status.success());
    let expected = "conflict in window 3 at rank 1: the rule
  rank 0: put of bytes 8..16, main at /gone/src/a.c:3
          2 | {
    >     3 |     put();
          4 |     get();
  rank 2: get of bytes 8..16, main at /gone/src/a.c:4
          3 |     put();
    >     4 |     get();
          5 |     return 0;
  reported 2 times

false assertion about window 2 at rank 0: the promise
  rank 0: post with MPI_MODE_NOPUT, main at b.c:5
  rank 1: put of bytes 8..16, main at b.c:9

deadlock: ranks wait for each other
  rank 0: fence of window 1, main at b.c:1
  rank 1: start of window 1, waits for rank 0, an unknown place

3 reports
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn missing_sources_and_files_without_reports_are_no_errors() {
    let folder = Folder::new("none");
    let output = check(&[&folder.write("report", CONFLICT)]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("rank 2: get of bytes 8..16, main at /gone/src/a.c:4\n\n1 report\n"), "{text}");
    let output = check(&[&folder.write("empty", "")]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"0 reports\n"[..]));
}

#[test]
fn other_files_are_refused_with_the_line() {
    let folder = Folder::new("other");
    let refused = |text: String, reason: &str| {
        let output = check(&[&folder.write("report", &text)]);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{printed}");
        assert!(printed.contains(reason), "{printed}");
    };
    refused(format!("{CONFLICT}\n{}", &CONFLICT[..40]), "line 2: EOF while parsing");
    refused("{\"window\":\"3\"}\n".into(), "line 1: it is not a report of the conflict checker");
    let output = check(&[&folder.0.join("absent")]);
    assert_eq!(output.status.code(), Some(2));
}
