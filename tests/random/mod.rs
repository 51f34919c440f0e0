//! Programs of operations and synchronizations from a seed, and their possible effects on memory
//! (MPI-4.1 §12.7). The same seed gives the same program at every rank and on every route. Programs
//! are legal: conflicting operations are accumulates on one type, so that each location's values
//! are known exactly, or form a chain that is checked when all ranks have reported the values that
//! they saw.

#[allow(dead_code)] // what other tests need of it
#[path = "../flavors/memory.rs"]
mod memory;
mod oracle;
mod program;
mod raw;
mod run;
mod typed;

pub(crate) use program::Program;
pub(crate) use run::execute;

/// The variable that names one program, in the hexadecimal form that a failure prints.
pub(crate) const SEED: &str = "TRANSOM_TEST_SEED";
/// The variable with the number of programs to try.
pub(crate) const SEEDS: &str = "TRANSOM_TEST_SEEDS";

/// The seeds to try: the one in [`SEED`], or as many as [`SEEDS`] or `usual` says.
///
/// # Panics
/// Where a variable is no number.
pub(crate) fn seeds(usual: u64) -> Vec<u64> {
    if let Ok(text) = std::env::var(SEED) {
        let digits = text.trim_start_matches("0x");
        return vec![u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{SEED}={text}: {error}"))];
    }
    let count = std::env::var(SEEDS)
        .map_or(usual, |text| text.parse().unwrap_or_else(|error| panic!("{SEEDS}={text}: {error}")));
    (1..=count).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}
