//! `transom-info` as a user types it, and `TRANSOM_INFO=1` of a running job.
//!
//! Route: program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn info(args: &[&str]) -> String {
    with::<&str>(args, &[])
}

/// Runs under these variables and without any other of ours, because ci/test sets some.
fn with<V: AsRef<OsStr>>(args: &[&str], variables: &[(&str, V)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-info"));
    for variable in transom::info::VARIABLES {
        command.env_remove(variable.name);
    }
    text(
        &command
            .args(args)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .expect("it starts"),
    )
}

fn line<'t>(text: &'t str, begins: &str) -> &'t str {
    text.lines()
        .find(|line| line.trim_start().starts_with(begins))
        .unwrap_or_else(|| panic!("no {begins:?} in\n{text}"))
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// Shows T5.
#[test]
fn it_prints_transports_routes_and_actor() {
    let text = info(&[]);
    for part in ["CPUs", "NUMA node", "shared memory: available", "user memory of peers"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(line(&text, "with the current variables").ends_with("route shared memory, atomics cpu"), "{text}");
    let launchers = line(&text, "launchers: ");
    assert!(launchers.contains("PMIx by ") || launchers.contains("apt-get install libpmix2"), "{text}");
}

/// Shows T5.
#[test]
fn it_lists_libfabrics_providers_or_says_why_not() {
    let text = info(&[]);
    if text.contains("libfabric is not available") {
        assert!(text.contains("apt-get install libfabric1"), "{text}");
        return;
    }
    assert!(line(&text, "libfabric ").contains("attributes that its providers state"), "{text}");
    for provider in ["cxi ", "tcp;ofi_rxm ", "tcp ", "net ", "sockets "] {
        let printed = line(&text, provider);
        assert!(printed.contains("inject") || printed.contains("not available: "), "{printed}");
    }
    assert!(line(&text, "with TRANSOM_TRANSPORTS=^shm").contains("route libfabric"), "{text}");
}

/// Regression: it printed the route of a job without variables to users who had set some.
/// Shows T5.
#[test]
fn its_output_follows_the_variables() {
    let text = with(&[], &[("TRANSOM_ATOMICS", "nic")]);
    assert!(line(&text, "with the current variables").contains("no net is open"), "{text}");
    let text = with(&[], &[("TRANSOM_NET_INTERFACES", "lo")]);
    assert!(line(&text, "other machines").contains("lo=127.0.0.1/8"), "{text}");
    let text = with(&[], &[("TRANSOM_NET_INTERFACES", "eth77")]);
    assert!(
        line(&text, "other machines").contains("TRANSOM_NET_INTERFACES=eth77: no interface in the list is up"),
        "{text}"
    );
    let text = with(&[], &[("TRANSOM_TRANSPORTS", "infiniband")]);
    assert!(
        line(&text, "with the current variables").contains("a list of the transports shm, verbs and ofi"),
        "{text}"
    );
    let absent = ["--library", "libfabric-not-there.so.1"];
    let text = with(&absent, &[("TRANSOM_TRANSPORTS", "^shm")]);
    assert!(line(&text, "with the current variables").contains("neither verbs nor libfabric can be used"), "{text}");
}

/// Shows T5.
#[test]
fn a_missing_libfabric_is_reported_with_instructions() {
    let text = info(&["--library", "libfabric-not-there.so.1"]);
    let printed = line(&text, "libfabric (libfabric-not-there.so.1)");
    assert!(printed.contains("is not available") && printed.contains("apt-get install libfabric1"), "{printed}");
    assert!(text.contains("shared memory: available"), "{text}");
    assert!(line(&text, "with the current variables").ends_with("route shared memory, atomics cpu"), "{text}");
}

/// Regression: `transom-info | head` ended with a panic.
#[test]
fn a_closed_output_is_no_failure() {
    for args in [&["--env"][..], &[]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-info"));
        let printed = text(&command.args(args).stdout(writer).stderr(Stdio::piped()).output().expect("it starts"));
        assert_eq!(printed, "", "{args:?}");
    }
}

/// Regression: it printed the debug form of the error.
#[test]
fn an_output_on_a_full_disk_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("the device");
    for args in [&["--env"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-info"));
        let output = command.args(args).stdout(full()).stderr(Stdio::piped()).output().expect("it starts");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {printed}");
        assert!(
            printed.starts_with("transom-info: writing to the standard output: No space left on device"),
            "{args:?}: {printed}"
        );
    }
}

#[test]
fn every_variable_is_listed_with_default_value_and_meaning() {
    let text = with(&["--env"], &[("TRANSOM_CMA", "n")]);
    for variable in transom::info::VARIABLES {
        let listed = text.split_once(&format!("{}\n", variable.name)).expect(variable.name).1;
        let value = if variable.name == "TRANSOM_CMA" { "\"n\"" } else { "not set" };
        for (line, label, told) in
            [(0, "value", value), (1, "default", variable.default), (2, "meaning", variable.meaning)]
        {
            assert_eq!(listed.lines().nth(line), Some(&*format!("  {label:<8} {told}")), "{}", variable.name);
        }
    }
}

/// Shows T5.
/// Route: shm.
#[test]
fn a_job_prints_its_routes_once() {
    let stencil = std::env::current_exe().expect("a path");
    let stencil = stencil.parent().and_then(|deps| deps.parent()).expect("target").join("examples/stencil");
    let run = |variable: &str, value: &str| {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-run"));
        launcher.args(["-n", "2", "--timeout", "60"]).arg(&stencil).args(["8", "2"]).stdin(Stdio::null());
        let launcher = launcher.env(variable, value).env_remove("TRANSOM_TRANSPORTS").env_remove("TRANSOM_TEST_NODES");
        text(&launcher.output().expect("it starts"))
    };
    let told = run("TRANSOM_INFO", "1");
    assert_eq!(told.matches("1 ranks of its node: shared memory").count(), 1, "{told}");
    assert!(told.contains("atomics of windows over all ranks: cpu"), "{told}");
    let warned = run("TRANSOM_TRANSPORT", "shm");
    assert_eq!(warned.matches("TRANSOM_TRANSPORT is not a variable").count(), 1, "{warned}");
    let removed = run("TRANSOM_ADOPT", "y");
    let line = line(&removed, "transom: warning: ");
    assert!(line.contains("TRANSOM_ADOPT was removed") && line.contains("MPI_Alloc_mem"), "{removed}");
    assert_eq!(removed.matches("TRANSOM_ADOPT").count(), 1, "{removed}");
}

/// A provider that one rank can't open is used by none. Regression: the job did not start, because
/// its ranks chose different providers.
/// Shows T5.
/// Route: tcp.
#[test]
fn all_ranks_use_a_provider_that_each_of_them_can_open() {
    let stencil = std::env::current_exe().expect("a path");
    let stencil = stencil.parent().and_then(|deps| deps.parent()).expect("target").join("examples/stencil");
    let run = |first: &str| {
        let script = format!("{first} exec \"$0\" 8 2");
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_transom-run"));
        launcher.args(["-n", "2", "--timeout", "60", "sh", "-c", &script]).arg(&stencil).stdin(Stdio::null());
        for name in ["TRANSOM_TEST_NODES", "TRANSOM_PROVIDER", "TRANSOM_NET_DEVICES"] {
            launcher.env_remove(name);
        }
        text(&launcher.env("TRANSOM_TRANSPORTS", "ofi").env("TRANSOM_INFO", "1").output().expect("it starts"))
    };
    let usual = run("");
    // The words of the job and of 1024 windows, which all ranks reach through the net.
    if usual.contains("other ranks: libfabric ") {
        let memory = line(&usual, "its control memory: ").trim_start();
        let kib = memory.split(' ').nth(3).and_then(|number| number.parse::<usize>().ok());
        assert!(kib.is_some_and(|kib| (1024..8 << 10).contains(&kib)), "{memory}");
        assert!(
            memory.contains("KiB registered at each rank, and 257 KiB more for a window with counters"),
            "{memory}"
        );
    }
    // Only versions before 1.18 have a provider of this name, and another one over sockets.
    if usual.contains("libfabric net") {
        let told = run("[ $PMI_RANK = 1 ] && export FI_PROVIDER=^net;");
        let warning = line(&told, "transom: warning: provider net of libfabric is not used");
        assert!(warning.contains("not every rank can open it: rank 1: "), "{told}");
        assert!(told.contains("libfabric tcp;ofi_rxm"), "{told}");
    } else {
        assert!(usual.contains("libfabric ") || usual.contains("libfabric.so.1"), "{usual}");
    }
}

/// Regression: a value that is not UTF-8 counted as unset.
/// Shows T5.
#[test]
fn values_that_are_not_utf8_are_named() {
    let value = OsStr::from_bytes(b"caf\xe9");
    let text = with(&[], &[("TRANSOM_PROVIDER", value), ("UNRELATED", value)]);
    assert!(
        line(&text, "with the current variables").contains("TRANSOM_PROVIDER=caf\u{fffd}: the value is not UTF-8"),
        "{text}"
    );
    let text = with(&["--env"], &[("TRANSOM_PROVIDER", value)]);
    assert!(text.contains(r#"  value    "caf\xE9""#), "{text}");
}
