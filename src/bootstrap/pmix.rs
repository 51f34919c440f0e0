//! A rank's side of PMIx, as spoken by `mpirun` of Open MPI, `prterun` and `srun --mpi=pmix`: the
//! [`Bootstrap`] contract over libpmix. Does not interpret values.

use std::collections::HashSet;

use transom_pmix::Client;

use super::{Bootstrap, BootstrapError, MAX_GATHERED, check_key, mapping};
use crate::diagnostics;

/// PMIx does not limit the length of values, so a gathered value is never cut.
const VALUE_LIMIT: usize = MAX_GATHERED + 64;

/// A connection to a launcher that speaks PMIx.
#[derive(Debug)]
pub struct Pmix {
    client: Client,
    rank: usize,
    size: usize,
    /// The launcher's variables in the environment, for errors.
    evidence: String,
    /// The keys that this rank has put: a second value would replace the first.
    put: HashSet<String>,
    left: bool,
}

impl Pmix {
    /// Joins the job that the environment names; `evidence` are the variables that name it.
    ///
    /// # Errors
    /// A missing libpmix; a server that can't be reached or does not give the number of ranks.
    pub fn join(evidence: String) -> Result<Self, BootstrapError> {
        let failed = |evidence: &str, source: transom_pmix::Error| BootstrapError::Pmix {
            evidence: evidence.to_owned(),
            source: source.into(),
        };
        let client = Client::join().map_err(|source| failed(&evidence, source))?;
        let size = client.job_size().map_err(|source| failed(&evidence, source))? as usize;
        let rank = client.rank() as usize;
        if rank >= size {
            let why = format!("the launcher's job has {size} ranks, 0 to {}", size.wrapping_sub(1));
            return Err(BootstrapError::Environment { variable: "PMIX_RANK", found: format!("\"{rank}\""), why });
        }
        Ok(Self { client, rank, size, evidence, put: HashSet::new(), left: false })
    }

    fn check_open(&self, during: &'static str) -> Result<(), BootstrapError> {
        if self.left { Err(BootstrapError::Finalized { during }) } else { Ok(()) }
    }

    fn checked<T>(&self, result: Result<T, transom_pmix::Error>) -> Result<T, BootstrapError> {
        result.map_err(|error| BootstrapError::Pmix { evidence: self.evidence.clone(), source: error.into() })
    }
}

impl Bootstrap for Pmix {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn value_limit(&self) -> usize {
        VALUE_LIMIT
    }

    fn neighbours(&mut self) -> Result<Vec<usize>, BootstrapError> {
        self.check_open("neighbours")?;
        // A launcher need not give the local peers.
        let list = self.client.local_peers().unwrap_or_default();
        Ok(mapping::of_list(&list, self.rank, self.size).unwrap_or_else(|| vec![self.rank]))
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.check_open("put")?;
        check_key(key)?;
        let key = key.to_owned();
        if value.len() > VALUE_LIMIT {
            return Err(BootstrapError::TooLong { key, length: value.len(), limit: VALUE_LIMIT });
        }
        if !self.put.insert(key.clone()) {
            return Err(BootstrapError::DuplicateKey { key });
        }
        self.checked(self.client.put(&key, value))
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.check_open("barrier")?;
        self.checked(self.client.fence())
    }

    fn get(&mut self, from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.check_open("get")?;
        check_key(key)?;
        let Some(from) = u32::try_from(from).ok().filter(|_| from < self.size) else { return Ok(None) };
        self.checked(self.client.get(from, key))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        self.check_open("finalize")?;
        self.left = true;
        self.checked(self.client.finalize())
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        self.check_open("abort")?;
        self.left = true;
        // Printed here, because some launchers do not print the reason.
        let what = format!("rank {} aborts the job with status {code}: {why}", self.rank);
        diagnostics::error("transom::bootstrap", &what);
        // A status of 0 modulo 256 would look like success.
        self.checked(self.client.abort(if code % 256 == 0 { 1 } else { code }, why))
    }
}
