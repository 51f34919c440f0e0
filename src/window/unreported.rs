//! Completions of operations of checked windows that are not reported to the conflict checker yet.
//! A program knows that an operation is complete only when a call has said so (MPI-4.1 §3.7.3).
//! Completions are reported together, because the checker visits all operations in flight for each
//! report.

use std::sync::Arc;

use super::checked::Completed;
use super::core::Core;
use crate::error::Result;

/// The operations by window and number. Empty unless their windows are checked.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Unreported(Vec<(Arc<Core>, u64)>);

impl Unreported {
    /// Adds an operation.
    pub(super) fn add(&mut self, window: Arc<Core>, number: u64) {
        self.0.push((window, number));
    }

    /// Adds the operations of `others`.
    pub fn append(&mut self, mut others: Unreported) {
        self.0.append(&mut others.0);
    }

    /// Tells the checker that the program knows of the completions.
    ///
    /// # Errors
    /// A rank's records can't be reached.
    pub fn tell(mut self) -> Result<()> {
        self.0.sort_unstable_by_key(|(window, number)| (Arc::as_ptr(window), *number));
        let mut outcome = Ok(());
        for group in self.0.chunk_by(|(one, _), (next, _)| Arc::ptr_eq(one, next)) {
            let numbers: Vec<u64> = group.iter().map(|(_, number)| *number).collect();
            outcome = outcome.and(group[0].0.parts.all_completed(Completed::Results(&numbers)));
        }
        outcome
    }
}
