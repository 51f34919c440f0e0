//! A job of one rank, for a program started alone: a map instead of a launcher. Independent of
//! other processes.

use std::collections::HashMap;

use super::{Bootstrap, BootstrapError, check_key};

/// The state of a job of one rank.
#[derive(Debug)]
pub struct Solo {
    values: HashMap<String, Vec<u8>>,
    value_limit: usize,
    left: bool,
}

impl Solo {
    /// A job of one rank.
    #[must_use]
    pub fn new() -> Self {
        Self { values: HashMap::new(), value_limit: usize::MAX, left: false }
    }

    /// A job with values of at most `limit` bytes, to test code that cuts values.
    #[cfg(test)]
    pub(super) fn with_value_limit(limit: usize) -> Self {
        Self { value_limit: limit, ..Self::new() }
    }

    fn check_open(&self, during: &'static str) -> Result<(), BootstrapError> {
        if self.left { Err(BootstrapError::Finalized { during }) } else { Ok(()) }
    }
}

impl Default for Solo {
    fn default() -> Self {
        Self::new()
    }
}

impl Bootstrap for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn value_limit(&self) -> usize {
        self.value_limit
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.check_open("put")?;
        check_key(key)?;
        let key = key.to_owned();
        if value.len() > self.value_limit {
            return Err(BootstrapError::TooLong { key, length: value.len(), limit: self.value_limit });
        }
        if self.values.contains_key(&key) {
            return Err(BootstrapError::DuplicateKey { key });
        }
        self.values.insert(key, value.to_vec());
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.check_open("barrier")
    }

    fn get(&mut self, _from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.check_open("get")?;
        check_key(key)?;
        Ok(self.values.get(key).cloned())
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.check_open("finalize")?;
        self.left = true;
        Ok(())
    }

    /// The caller is the only process, so this only closes the connection.
    fn abort(&mut self, _code: i32, _why: &str) -> Result<(), BootstrapError> {
        self.left = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bootstrap, BootstrapError, Solo};

    /// Shows B3.
    #[test]
    fn a_job_of_one() {
        let mut solo = Solo::new();
        assert_eq!((solo.rank(), solo.size()), (0, 1));
        solo.put("a", b"x y\0").unwrap();
        solo.barrier().unwrap();
        assert_eq!(solo.get(0, "a").unwrap().as_deref(), Some(&b"x y\0"[..]));
        assert_eq!(solo.get(0, "b").unwrap(), None);
        assert_eq!(solo.allgather("all", b"me").unwrap(), [b"me".to_vec()]);
        solo.finalize().unwrap();
        assert!(matches!(solo.barrier(), Err(BootstrapError::Finalized { during: "barrier" })));
    }

    #[test]
    fn a_key_is_written_once() {
        let mut solo = Solo::new();
        solo.put("a", b"1").unwrap();
        assert!(matches!(solo.put("a", b"2"), Err(BootstrapError::DuplicateKey { .. })));
        assert_eq!(solo.get(0, "a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}
