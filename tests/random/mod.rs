//! Programs of operations and synchronizations from a seed, and their possible effects on memory
//! (MPI-4.1 §12.7). A seed determines the program at every rank and on every route. Programs are
//! legal: conflicting operations are accumulates on one type, so that each location's values are
//! known exactly, or form a chain that is checked when all ranks have reported the values that they
//! saw. Notified operations increment counters whose values are known exactly, and data must have
//! arrived when the counters show it.

#[allow(dead_code)] // what other tests need of it
#[path = "../flavors/memory.rs"]
mod memory;
mod notified;
mod oracle;
mod program;
mod raw;
mod run;
mod typed;

pub(crate) use program::Program;
pub(crate) use run::execute;

/// The variable that names one program, in the hexadecimal form that a failure prints.
pub(crate) const SEED: &str = "TRANSOM_TEST_SEED";
/// The variable with the number of programs to try, or their range: `1000..2000`.
pub(crate) const SEEDS: &str = "TRANSOM_TEST_SEEDS";

/// The seeds to try: the one in [`SEED`], or those of the programs that [`SEEDS`] or `usual`
/// counts.
///
/// # Panics
/// If the value of a variable is not a number.
pub(crate) fn seeds(usual: u64) -> Vec<u64> {
    if let Ok(text) = std::env::var(SEED) {
        let digits = text.trim_start_matches("0x");
        return vec![u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{SEED}={text}: {error}"))];
    }
    let programs = std::env::var(SEEDS).map_or(1..usual + 1, |text| range(&text));
    programs.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// The numbers of programs in `1000..2000`, or the first 2000 in `2000`.
fn range(text: &str) -> std::ops::Range<u64> {
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("{SEEDS}={text}: {error}"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 1..number(text) + 1,
    }
}
