//! A connection that counts what is asked of another one, and says of machines and limits what its user wants: for tests of what starting a
//! job costs. It knows nothing of what the values mean.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Bootstrap, BootstrapError};

/// What a rank asked of its launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Values that it put.
    pub puts: usize,
    /// Values that it asked for.
    pub gets: usize,
    /// Barriers that it was in.
    pub barriers: usize,
}

/// A rank's connection, counted.
#[derive(Debug)]
pub struct Counted {
    inner: Box<dyn Bootstrap>,
    /// So many ranks in a row share a machine.
    per_machine: usize,
    value_limit: usize,
    asked: Arc<Mutex<Asked>>,
}

impl Asked {
    /// All requests.
    #[must_use]
    pub fn requests(self) -> usize {
        self.puts + self.gets + self.barriers
    }
}

impl Counted {
    /// Counts what is asked of `inner`, whose ranks it claims to be so many on each machine.
    #[must_use]
    pub fn new(inner: Box<dyn Bootstrap>, per_machine: usize) -> Self {
        let value_limit = inner.value_limit();
        Self { inner, per_machine, value_limit, asked: Arc::default() }
    }

    /// With values of at most `limit` bytes.
    #[must_use]
    pub fn with_value_limit(self, limit: usize) -> Self {
        Self { value_limit: limit.min(self.value_limit), ..self }
    }

    /// What was asked so far, also once this is somebody else's.
    pub fn asked(&self) -> impl Fn() -> Asked + Send + use<> {
        let asked = Arc::clone(&self.asked);
        move || *asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, add: impl FnOnce(&mut Asked)) {
        add(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
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
        self.count(|asked| asked.puts += 1);
        if value.len() > self.value_limit {
            let (key, length) = (key.to_owned(), value.len());
            return Err(BootstrapError::TooLong { key, length, limit: self.value_limit });
        }
        self.inner.put(key, value)
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.count(|asked| asked.barriers += 1);
        self.inner.barrier()
    }

    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.count(|asked| asked.gets += 1);
        self.inner.get(from, key)
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.inner.finalize()
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        self.inner.abort(code, why)
    }
}

/// Bytes that don't compress, other ones for each `seed`: values that travel in all their length.
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
