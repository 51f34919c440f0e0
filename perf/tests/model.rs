//! The model's command line: its table, picture and schedule, from given and measured parameters.
//!
//! Shows P4.
//! Route: program.

use std::process::{Command, Output, Stdio};

fn model(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-perf"));
    command.arg("model").args(args).stdin(Stdio::null()).output().expect("transom-perf starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(output: &Output) -> Vec<Vec<f64>> {
    let text = text(&output.stdout);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(|word| word.parse().expect("a number")).collect()).collect()
}

#[test]
fn given_parameters_give_a_table_a_picture_and_a_schedule() {
    let path = |name: &str| {
        let path = format!("{}/model-{name}", env!("CARGO_TARGET_TMPDIR"));
        // One of an earlier run.
        let _ = std::fs::remove_file(&path);
        path
    };
    let (svg, goal, json) = (path("plot.svg"), path("fence.goal"), path("table.json"));
    let args = ["--ranks", "4..1000000", "--loggp", "1,0.5,0.5,0.16", "--svg", &svg, "--goal", &goal, "--json", &json];
    let output = model(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = rows(&output);
    assert_eq!((rows[0][0], rows.last().map(|row| row[0])), (4.0, Some(1e6)));
    // A fence has 2 rounds at 4 ranks and 20 at a million; lock_all does not grow.
    let last = rows.last().expect("a row");
    assert!((last[2] / rows[0][2] - 10.0).abs() < 0.01 && (last[3] - rows[0][3]).abs() < 1e-9, "{rows:?}");
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert_eq!(picture.matches("<polyline").count(), 6);
    let schedule = std::fs::read_to_string(goal).expect("a schedule");
    assert!(schedule.starts_with("num_ranks 4\n\nrank 0 {\ns0: send 8b to 1 tag 0\n"), "{schedule}");
    assert_eq!(schedule.matches(": send ").count(), 8);
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("a file")).expect("it is JSON");
    assert_eq!(document["lines"].as_array().map(Vec::len), Some(rows.len()));
}

#[test]
fn parameters_are_measured_where_none_are_given() {
    let output = model(&["--ranks", "2..64"]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(printed.contains("# LogGP, measured here between two ranks: L "), "{printed}");
    assert!(printed.contains("# A fence of two ranks: "), "{printed}");
    let rows = rows(&output);
    assert!(rows.len() == 6 && rows.iter().all(|row| row[2] > 0.0), "{printed}");
}

#[test]
fn impossible_arguments_are_refused() {
    for args in [&["--ranks", "1..4"][..], &["--loggp", "1,2"], &["--schedule", "smoke"]] {
        assert_eq!(model(args).status.code(), Some(2), "{args:?}");
    }
    let args = ["--ranks", "100000..200000", "--loggp", "1,1,1,1", "--goal", "/dev/null"];
    let output = model(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("at most 65536 ranks"), "{}", text(&output.stderr));
}
