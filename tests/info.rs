//! `transom-info` as a user types it, and `TRANSOM_INFO=1` of a running job.

use std::process::{Command, Output, Stdio};

fn info(args: &[&str]) -> String {
    text(&Command::new(env!("CARGO_BIN_EXE_transom-info")).args(args).stdin(Stdio::null()).output().expect("it starts"))
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

#[test]
fn it_tells_transports_routes_and_actor() {
    let text = info(&[]);
    for part in ["shared memory: available", "CPUs", "route: shared memory; atomics: cpu", "TRANSOM_TRANSPORTS=^shm"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_missing_libfabric_is_named_with_how_to_get_it() {
    let text = info(&["--library", "libfabric-not-there.so.1"]);
    for part in ["libfabric is not available", "apt-get install libfabric1", "shared memory: available"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn every_variable_is_listed_with_its_meaning() {
    let text = info(&["--env"]);
    for variable in transom::info::VARIABLES {
        assert!(text.contains(variable.name) && text.contains(variable.meaning), "{}", variable.name);
    }
}

#[test]
fn a_job_prints_its_routes_once() {
    let stencil = std::env::current_exe().expect("a path");
    let stencil = stencil.parent().and_then(|deps| deps.parent()).expect("target").join("examples/stencil");
    let run = |variable: &str, value: &str| {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-run"));
        launcher.args(["-n", "2", "--timeout", "60"]).arg(&stencil).args(["8", "2"]).stdin(Stdio::null());
        text(&launcher.env(variable, value).env_remove("TRANSOM_TRANSPORTS").output().expect("it starts"))
    };
    let told = run("TRANSOM_INFO", "1");
    assert_eq!(told.matches("1 ranks of its node: shared memory").count(), 1, "{told}");
    assert!(told.contains("atomics of windows over all ranks: cpu"), "{told}");
    let warned = run("TRANSOM_TRANSPORT", "shm");
    assert_eq!(warned.matches("TRANSOM_TRANSPORT is no variable").count(), 1, "{warned}");
}
