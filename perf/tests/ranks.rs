//! Tests of all ranks: each starts its own ranks, and its check finds wrong data.
//!
//! Route: program.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Each test with the number of lines that it prints for `-m 64:128`, or for its only size.
const TESTS: [(&str, usize); 18] = [
    ("put_mr", 2),
    ("get_mr", 2),
    ("fop_hot", 1),
    ("fop_spread", 1),
    ("cas_hot", 1),
    ("accumulate_hot", 1),
    ("lock_hot", 1),
    ("lock_spread", 1),
    ("put_mbw", 2),
    ("get_mbw", 2),
    ("fence", 1),
    ("pscw_ring", 1),
    ("notify_rate", 1),
    ("notify_latency", 1),
    ("alltoall", 2),
    ("gups", 2),
    ("window_create", 2),
    ("overlap", 2),
];

/// Longer than any run takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the program to its end, or kills it at the limit.
fn perf(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
    command.args(args).envs(env.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("transom-perf starts");
    let start = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > LIMIT {
            child.kill().expect("it is killed");
            let output = child.wait_with_output().expect("its output");
            panic!("{args:?} took longer than {LIMIT:?}\n{}", texts(&output));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

/// Whether libfabric is installed; ordinary users' PATH lacks the folder of ldconfig.
fn has_libfabric() -> bool {
    let script = "PATH=$PATH:/sbin:/usr/sbin; ldconfig -p | grep -q libfabric.so.1";
    Command::new("sh").args(["-c", script]).status().is_ok_and(|it| it.success())
}

fn texts(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// The size of a test, if it has a choice.
fn sizes(lines: usize) -> &'static [&'static str] {
    if lines == 2 { &["-m", "64:128"] } else { &[] }
}

/// The numbers of the table, by line.
fn table(output: &Output) -> Vec<Vec<f64>> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    // A note begins with three blanks and a word.
    let numbers = lines.map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect());
    numbers.collect()
}

fn each_test(ranks: &str) {
    for (test, lines) in TESTS {
        let mut args = vec!["-n", ranks, test, "--check", "--vs-floor", "--percentiles", "-i", "90", "-W", "4"];
        args.extend(sizes(lines));
        let output = perf(&args, &[]);
        assert!(output.status.success(), "{test}: {}\n{}", output.status, texts(&output));
        let table = table(&output);
        assert_eq!(table.len(), lines, "{test}: {}", texts(&output));
        for numbers in table {
            // Size, value, floor, ratio, and four percentiles, which grow.
            assert_eq!(numbers.len(), 8, "{test}: {}", texts(&output));
            assert!(numbers.iter().all(|number| *number >= 0.0), "{test}: {numbers:?}");
            assert!(numbers[1] > 0.0 && numbers[4] > 0.0 && numbers[4..].is_sorted(), "{test}: {numbers:?}");
        }
        let head = format!("# Ranks: {ranks};");
        assert!(texts(&output).contains(&head), "{test}: {}", texts(&output));
    }
}

fn each_check(ranks: &str) {
    for (test, lines) in TESTS {
        let mut args = vec!["-n", ranks, test, "--check", "--spoil", "-i", "30"];
        args.extend(sizes(lines));
        let output = perf(&args, &[]);
        assert_eq!(output.status.code(), Some(1), "{test}: {}", texts(&output));
        assert!(texts(&output).contains(&format!(": {test}: ")), "{test}: {}", texts(&output));
    }
}

#[test]
fn two_ranks_verify() {
    each_test("2");
}

#[test]
fn four_ranks_have_right_data() {
    each_test("4");
}

#[test]
fn wrong_data_of_two_ranks_is_found() {
    each_check("2");
}

#[test]
fn wrong_data_of_four_ranks_is_found() {
    each_check("4");
}

/// Over a net there is no mapped memory, which the floor's columns show.
#[test]
fn over_sockets_there_is_no_floor() {
    if !has_libfabric() {
        return;
    }
    for test in ["fop_hot", "lock_hot", "fence", "put_mr"] {
        let net = [("TRANSOM_TRANSPORTS", "^shm")];
        let output = perf(&["-n", "3", test, "--check", "--vs-floor", "-i", "15"], &net);
        let text = texts(&output);
        assert!(output.status.success(), "{test}: {}\n{text}", output.status);
        assert!(text.contains("# Floor: none, ") && text.contains(" -  "), "{test}: {text}");
    }
}

/// Notified puts there and back, each counted once; a third rank waits. They are compared with bare
/// flags within a node, and with bare writes over libfabric.
#[test]
fn notified_puts_travel_in_both_directions() {
    let net = [("TRANSOM_TRANSPORTS", "^shm")];
    let routes = [&[][..], &net[..]];
    for env in routes.into_iter().take(if has_libfabric() { 2 } else { 1 }) {
        for ranks in ["2", "3"] {
            let output = perf(&["-n", ranks, "notify_pingpong", "--check", "--vs-floor", "-i", "90"], env);
            let text = texts(&output);
            assert!(output.status.success(), "{}\n{text}", output.status);
            let table = table(&output);
            assert_eq!(table.len(), 1, "{text}");
            assert!(table[0][..2].iter().all(|number| *number > 0.0), "{text}");
            // The note below the table: "... by put, flush and atomic: 1.2 us, ...".
            let other = text.split("by put, flush and atomic: ").nth(1).and_then(|rest| rest.split(' ').next());
            assert!(other.is_some_and(|us| us.parse().is_ok_and(|us: f64| us > 0.0)), "{text}");
            // Size, value, floor, ratio.
            assert_eq!(table[0].len(), 4, "{text}");
        }
    }
}

/// Over sockets the floor of two ranks has a polling target, so it is measured after the library.
#[test]
fn over_sockets_the_floor_comes_after_the_library() {
    if !has_libfabric() {
        return;
    }
    let net = [("TRANSOM_TRANSPORTS", "^shm")];
    let output = perf(&["put_latency", "-m", "8:8", "--check", "--vs-floor", "-i", "150"], &net);
    let text = texts(&output);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("# Floor: measured after the library"), "{text}");
    let row = table(&output).into_iter().next().unwrap_or_default();
    assert!(row.len() == 4 && row[1] > 0.0 && row[2] > 0.0, "{text}");
}

/// The path of an output, which is not there yet.
fn output_file(name: &str) -> String {
    let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    // One of an earlier run.
    let _ = std::fs::remove_file(&path);
    path
}

/// The file for machines has the numbers of the table.
#[test]
fn the_json_file_has_the_sum_of_all_ranks() {
    let path = output_file("ranks.json");
    let output = perf(&["-n", "3", "fop_spread", "--json", &path, "-i", "150"], &[]);
    assert!(output.status.success(), "{}", texts(&output));
    let text = std::fs::read(&path).expect("the file is there");
    let found: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
    assert_eq!((found["ranks"].as_u64(), found["unit"].as_str()), (Some(3), Some("rate")));
    let (value, time) = (&found["lines"][0]["value"], &found["lines"][0]["times"]["median_ns"]);
    let product = value.as_f64().expect("a rate") * time.as_f64().expect("a time");
    assert!((product - 3000.0).abs() < 0.01, "{found}");
}

/// Runs the program with `--svg`; returns its output and the picture.
fn picture(name: &str, args: &[&str]) -> (Output, String) {
    let path = output_file(&format!("{name}.svg"));
    let output = perf(&[args, &["--svg", &path, "--vs-floor", "--check"]].concat(), &[]);
    assert!(output.status.success(), "{}", texts(&output));
    (output, std::fs::read_to_string(path).expect("the picture is there"))
}

/// A line of the library and one of the floor, each with a point for each size.
#[test]
fn pictures_over_sizes_have_a_point_for_each_size() {
    for (test, sizes, points) in [("put_latency", "1:8", 8), ("put_bw", "64:128", 4), ("put_mbw", "64:256", 6)] {
        let (_, svg) = picture(test, &[test, "-m", sizes, "-i", "30"]);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, points), "{svg}");
        assert!(svg.contains(test) && svg.contains(">bytes<"), "{svg}");
    }
}

/// A line for each size, and one for its floor, each with a point for each number of ranks.
#[test]
fn pictures_over_ranks_have_a_point_for_each_number() {
    for (test, sizes, lines) in [("fop_hot", &[][..], 2), ("put_mbw", &["-m", "64:128"], 4)] {
        let name = format!("{test}-ranks");
        let (output, svg) = picture(&name, &[&[test, "--ranks", "2,3,4", "-i", "30"], sizes].concat());
        let heads = texts(&output).lines().filter(|line| line.starts_with("# Ranks: ")).count();
        assert_eq!(heads, 3, "{}", texts(&output));
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (lines, 3 * lines), "{svg}");
        assert!(svg.contains(test) && svg.contains(">ranks<"), "{svg}");
    }
}

#[test]
fn pictures_need_more_than_one_point() {
    for (args, expected) in [
        (&["fop_hot", "--svg", "x"][..], "one size"),
        (&["floor", "--svg", "x"], "one size"),
        (&["put_latency", "--svg", "x", "--ranks", "2,4"], "tests of all ranks"),
        (&["fop_hot", "--svg", "x", "--ranks", "1,2"], "from 2 on"),
        (&["fop_hot", "--ranks", "2,4"], "--svg"),
    ] {
        let output = perf(args, &[]);
        assert!(!output.status.success() && texts(&output).contains(expected), "{args:?}: {}", texts(&output));
    }
}

#[test]
fn windows_of_shared_memory_have_right_data() {
    for test in ["put_mbw", "fop_hot", "put_latency"] {
        let sizes = sizes(if test == "fop_hot" { 1 } else { 2 });
        let output = perf(&[&[test, "-w", "shared", "--check", "-i", "30"], sizes].concat(), &[]);
        assert!(output.status.success() && texts(&output).contains(": Shared"), "{test}: {}", texts(&output));
    }
}

#[test]
fn percentiles_belong_to_tests_of_all_ranks() {
    let output = perf(&["put_latency", "--percentiles"], &[]);
    assert!(!output.status.success());
    assert!(texts(&output).contains("is not a test of all ranks"), "{}", texts(&output));
}
