//! A bootstrap for tests of the cost of starting a job. It wraps another one, counts the requests,
//! and reports the machines and limits that a test sets. Interprets no values.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Bootstrap, BootstrapError};

/// Counts of a rank's requests to the launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Values put.
    pub puts: usize,
    /// Requested values.
    pub gets: usize,
    /// Barriers entered.
    pub barriers: usize,
}

/// A rank's connection that counts requests.
#[derive(Debug)]
pub struct Counted {
    inner: Box<dyn Bootstrap>,
    /// Number of consecutive ranks that share a machine.
    per_machine: usize,
    value_limit: usize,
    counts: Arc<Mutex<RequestCounts>>,
}

impl RequestCounts {
    /// The sum of all requests.
    #[must_use]
    pub fn requests(self) -> usize {
        self.puts + self.gets + self.barriers
    }
}

impl Counted {
    /// Counts the requests to `inner`, and claims that `per_machine` consecutive ranks share a
    /// machine.
    #[must_use]
    pub fn new(inner: Box<dyn Bootstrap>, per_machine: usize) -> Self {
        let value_limit = inner.value_limit();
        Self { inner, per_machine, value_limit, counts: Arc::default() }
    }

    /// Limits values to `limit` bytes.
    #[must_use]
    pub fn with_value_limit(self, limit: usize) -> Self {
        Self { value_limit: limit.min(self.value_limit), ..self }
    }

    /// A function that gives the counts so far, also after this connection has moved.
    pub fn request_counts(&self) -> impl Fn() -> RequestCounts + Send + use<> {
        let counts = Arc::clone(&self.counts);
        move || *counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, add: impl FnOnce(&mut RequestCounts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Bootstrap for Counted {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn value_limit(&self) -> usize {
        self.value_limit
    }

    fn neighbours(&mut self) -> Result<Vec<usize>, BootstrapError> {
        let first = self.rank() - self.rank() % self.per_machine;
        Ok((first..self.size().min(first + self.per_machine)).collect())
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.count(|counts| counts.puts += 1);
        if value.len() > self.value_limit {
            let (key, length) = (key.to_owned(), value.len());
            return Err(BootstrapError::TooLong { key, length, limit: self.value_limit });
        }
        self.inner.put(key, value)
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.count(|counts| counts.barriers += 1);
        self.inner.barrier()
    }

    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.count(|counts| counts.gets += 1);
        self.inner.get(from, key)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.inner.finalize()
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        self.inner.abort(code, why)
    }
}

/// Incompressible bytes, different for each `seed`: they travel in full length.
#[must_use]
pub fn noise(seed: usize, length: usize) -> Vec<u8> {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}
