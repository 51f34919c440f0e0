//! The cells to measure: the lines of the plan that the benchmark reads. The words are those of
//! perf/mpi.

use serde::Serialize;

/// A line: a cell of the table, or a case of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// The measured function; `grid` for a case of the grid.
    pub(crate) function: &'static str,
    /// The source of the window's memory.
    pub(crate) window: &'static str,
    /// The completion of the operation.
    pub(crate) sync: &'static str,
    /// Bytes; 0 in the grid.
    pub(crate) size: usize,
    /// The operation of the grid; empty in a cell.
    pub(crate) operation: &'static str,
}

impl Line {
    /// The line in the form that the benchmark reads.
    pub(crate) fn text(&self) -> String {
        let Line { function, window, sync, size, operation } = self;
        match operation.is_empty() {
            true => format!("{function} {window} {sync} {size}\n"),
            false => format!("{function} {window} {sync} {operation}\n"),
        }
    }

    /// The unit of the value.
    pub(crate) fn unit(&self) -> Unit {
        match self.function {
            "put_bw" | "get_bw" | "put_mbw" | "get_mbw" => Unit::Bandwidth,
            "put_mr" | "get_mr" | "fop_hot" | "fop_spread" | "cas_hot" | "accumulate_hot" | "lock_hot"
            | "lock_spread" | "gups" => Unit::Rate,
            _ => Unit::Time,
        }
    }

    /// Whether one rank is the origin, and another one the target.
    pub(crate) fn is_between_two_ranks(&self) -> bool {
        let words = ["put", "get", "accumulate", "fetch_and_op", "compare_and_swap", "put_bw", "get_bw", "grid"];
        words.contains(&self.function)
    }

    /// Whether the higher of two values is the better one.
    pub(crate) fn higher_is_better(&self) -> bool {
        self.unit() != Unit::Time
    }
}

/// The unit of a cell's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds.
    Time,
    /// MB/s, of all origins.
    Bandwidth,
    /// Millions of operations in a second, of all origins.
    Rate,
}

/// The cells in which all ranks work at once, as in `transom-perf -n`. Bandwidths are measured on
/// allocated and on created windows.
pub(crate) fn cells_of_all_ranks(quick: bool) -> Vec<Line> {
    let of = |function, window, sync, size| Line { function, window, sync, size, operation: "" };
    let words = ["put_mr", "get_mr", "fop_hot", "fop_spread", "cas_hot"];
    let mut lines: Vec<_> = words.map(|function| of(function, "allocate", "flush", 8)).into();
    lines.push(of("accumulate_hot", "allocate", "flush", 64));
    lines.extend(["lock_hot", "lock_spread"].map(|function| of(function, "allocate", "lock", 8)));
    lines.push(of("gups", "allocate", "flush", 8));
    lines.push(of("fence_all", "allocate", "fence", 8));
    lines.push(of("pscw_ring", "allocate", "pscw", 8));
    lines.push(of("window_create", "allocate", "-", 4096));
    let sizes: &[_] = if quick { &[1024] } else { &[8, 1024, 65536] };
    lines.extend(sizes.iter().map(|&size| of("alltoall", "allocate", "flush", size)));
    let sizes: &[_] = if quick { &[65536] } else { &[65536, 1_048_576] };
    for window in ["allocate", "create"] {
        for function in ["put_mbw", "get_mbw"] {
            lines.extend(sizes.iter().map(|&size| of(function, window, "flush", size)));
        }
        lines.extend(sizes.last().map(|&size| of("overlap", window, "flush", size)));
    }
    lines
}

/// The cells of the table. Cells of one window are adjacent, because each change creates a new
/// window.
pub(crate) fn cells(quick: bool) -> Vec<Line> {
    let windows: &[_] =
        if quick { &["allocate", "create"] } else { &["allocate", "alloc_mem", "create", "dynamic", "shared"] };
    let every: &[_] = if quick { &["flush", "fence"] } else { &["flush", "lock", "fence", "pscw"] };
    let of_words = if quick { &every[..1] } else { every };
    let sizes: &[_] = if quick { &[8, 65536] } else { &[8, 64, 1024, 16384, 131_072, 1_048_576] };
    let (word, streams): (&[_], &[_]) = (&[8], if quick { &[65536] } else { &[64, 4096, 65536, 1_048_576] });
    let mut lines = Vec::new();
    for &window in windows {
        for function in ["put", "get", "accumulate", "fetch_and_op", "compare_and_swap", "put_bw", "get_bw"] {
            let (syncs, sizes): (&[_], _) = match function {
                "put_bw" | "get_bw" => (&["flush"], streams),
                "fetch_and_op" | "compare_and_swap" => (of_words, word),
                _ => (every, sizes),
            };
            let all = syncs.iter().flat_map(|&sync| sizes.iter().map(move |&size| (sync, size)));
            lines.extend(all.map(|(sync, size)| Line { function, window, sync, size, operation: "" }));
        }
    }
    lines
}

/// The 36 cases of the grid, as `passive --grid` has them.
pub(crate) fn grid() -> Vec<Line> {
    let mut lines = Vec::new();
    for window in ["create", "allocate", "dynamic"] {
        for sync in ["lock", "flush"] {
            for operation in ["put_8", "put_64k", "get_64", "accumulate_8k", "fetch_and_op", "compare_and_swap"] {
                lines.push(Line { function: "grid", window, sync, size: 0, operation });
            }
        }
    }
    lines
}

/// Each operation, each window twice and each synchronization three times.
pub(crate) fn sample() -> Vec<Line> {
    let all = [
        ("create", "lock", "put_8"),
        ("create", "flush", "accumulate_8k"),
        ("allocate", "lock", "fetch_and_op"),
        ("allocate", "flush", "get_64"),
        ("dynamic", "lock", "compare_and_swap"),
        ("dynamic", "flush", "put_64k"),
    ];
    all.map(|(window, sync, operation)| Line { function: "grid", window, sync, size: 0, operation }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_36_cases() {
        let lines = grid();
        assert_eq!(lines.len(), 36);
        assert_eq!(lines[0].text(), "grid create lock put_8\n");
    }

    #[test]
    fn the_sample_is_within_the_grid_and_has_every_value() {
        let (sample, grid) = (sample(), grid());
        assert!(sample.iter().all(|line| grid.contains(line)));
        let words: [fn(&Line) -> &str; 3] = [|line| line.window, |line| line.sync, |line| line.operation];
        for word in words {
            assert!(grid.iter().all(|line| sample.iter().any(|other| word(other) == word(line))));
        }
    }

    #[test]
    fn cells_of_a_window_are_adjacent() {
        for quick in [true, false] {
            let lines = cells(quick);
            let mut windows: Vec<_> = lines.iter().map(|line| line.window).collect();
            windows.dedup();
            assert_eq!(windows.len(), if quick { 2 } else { 5 });
            assert_eq!(lines.iter().filter(|line| line.higher_is_better()).count() % windows.len(), 0);
        }
        let mut windows: Vec<_> = cells_of_all_ranks(false).iter().map(|line| line.window).collect();
        windows.dedup();
        assert_eq!(windows, ["allocate", "create"]);
        assert!(
            !cells_of_all_ranks(false).iter().any(Line::is_between_two_ranks)
                && grid().iter().all(Line::is_between_two_ranks)
        );
        assert!(cells(false).len() > 10 * cells(true).len());
        assert_eq!(cells(true)[0].text(), "put allocate flush 8\n");
    }
}
