//! Answers to requests that contain several operations: the outcome of the lock that the request
//! carries, then of each operation. Before each result, a word has the result's length, or says
//! that the operation was refused.

use std::sync::{Mutex, OnceLock};

use super::codec::Reader;
use super::{ReplyDestination, locked};
use crate::error::Refusal;
use crate::sync::lock::Tried;

/// Largest number of bytes of an operation's answer without its result.
pub(crate) const CARRIED: usize = 40;

/// Word instead of a result's length: the operation was refused, and the reason follows.
const REFUSED: u64 = u64::MAX;

const TAKEN: u8 = 0;
const BUSY: u8 = 1;
const NO_BIAS: u8 = 2;

/// The origin's side of a request that contains several operations.
#[derive(Debug)]
pub(crate) struct Carried {
    /// The destinations of the results until the answer arrives.
    destinations: Mutex<Vec<ReplyDestination>>,
    outcome: OnceLock<Tried>,
}

impl Carried {
    pub(crate) fn new(destinations: Vec<ReplyDestination>) -> Carried {
        Carried { destinations: Mutex::new(destinations), outcome: OnceLock::new() }
    }

    /// The outcome of the lock, if the target has answered.
    pub(crate) fn outcome(&self) -> Option<Tried> {
        self.outcome.get().copied()
    }

    /// The destinations of operations that were not performed.
    pub(crate) fn destinations(&self) -> Vec<ReplyDestination> {
        std::mem::take(&mut *locked(&self.destinations))
    }

    /// Stores the results of an answer.
    ///
    /// # Errors
    /// The first operation that was refused.
    pub(super) fn fill(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let unknown = Refusal::Unknown { code: bytes.first().copied().unwrap_or_default().into() };
        let (&outcome, rest) = bytes.split_first().ok_or(unknown)?;
        let outcome = match outcome {
            TAKEN => Tried::Taken,
            BUSY => Tried::Busy,
            NO_BIAS => Tried::NoBias,
            _ => return Err(unknown),
        };
        // Set once: a request has one answer.
        let _ = self.outcome.set(outcome);
        if outcome != Tried::Taken {
            return Ok(());
        }
        let (mut reader, mut refused) = (Reader(rest), Ok(()));
        for destination in self.destinations() {
            let len = reader.word().ok_or(unknown)?;
            if len == REFUSED {
                let reason = reader.refusal().ok_or(unknown)?;
                refused = refused.and(Err(reason));
                continue;
            }
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let (result, rest) = reader.0.split_at_checked(len).ok_or(unknown)?;
            reader = Reader(rest);
            refused = refused.and(destination.fill(result));
        }
        refused
    }
}

/// The answer of a target that has not taken its lock.
pub(super) fn refused(tried: Tried) -> Vec<u8> {
    vec![if tried == Tried::NoBias { NO_BIAS } else { BUSY }]
}

/// The answer of a target that has performed the operations, under the lock if there was one.
pub(super) fn answer(results: impl Iterator<Item = Result<Vec<u8>, Refusal>>) -> Vec<u8> {
    results.fold(vec![TAKEN], |mut out, result| {
        match result {
            Ok(bytes) => {
                out.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
                out.extend_from_slice(&bytes);
            }
            Err(reason) => {
                out.extend_from_slice(&REFUSED.to_ne_bytes());
                out.extend(reason.to_words().into_iter().flat_map(u64::to_ne_bytes));
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_outcome_of_the_lock_and_of_each_operation() {
        let none = || (0..2).map(|_| ReplyDestination::Nowhere).collect();
        for tried in [Tried::Busy, Tried::NoBias] {
            let carried = Carried::new(none());
            assert_eq!((carried.outcome(), carried.fill(&refused(tried))), (None, Ok(())));
            assert_eq!((carried.outcome(), carried.destinations().len()), (Some(tried), 2));
        }
        let reason = Refusal::Outside { at: -8, length: 8, limit: 16 };
        let carried = Carried::new(none());
        let bytes = answer([Err(reason), Ok(vec![7; 8])].into_iter());
        assert_eq!(bytes.len(), 1 + CARRIED + 16);
        assert_eq!(carried.fill(&bytes), Err(reason));
        assert_eq!((carried.outcome(), carried.destinations().len()), (Some(Tried::Taken), 0));
        for bytes in [&[][..], &[9], &bytes[..20]] {
            assert!(matches!(Carried::new(none()).fill(bytes), Err(Refusal::Unknown { .. })), "{bytes:?}");
        }
    }
}
