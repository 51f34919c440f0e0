//! A job whose ranks are threads of one process, for tests and for protocols on the simulated net.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Bootstrap, BootstrapError};
use crate::diagnostics;

/// The state that the ranks share.
#[derive(Debug)]
pub struct Board {
    ranks: usize,
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    here: usize,
    turns: u64,
}

/// One rank's connection to the [`Board`].
#[derive(Debug)]
pub struct Local {
    rank: usize,
    board: Arc<Board>,
}

impl Board {
    /// A board for `ranks` ranks.
    pub fn new(ranks: usize) -> Arc<Board> {
        Arc::new(Board { ranks, state: Mutex::default(), turn: Condvar::new() })
    }

    /// The connection of one rank.
    pub fn rank(self: &Arc<Self>, rank: usize) -> Local {
        Local { rank, board: Arc::clone(self) }
    }
}

impl Bootstrap for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.board.ranks
    }

    fn value_limit(&self) -> usize {
        super::MAX_GATHERED
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        super::check_key(key)?;
        let mut state = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), BootstrapError> {
        let mut state = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.here += 1;
        if state.here == self.board.ranks {
            state.here = 0;
            state.turns += 1;
            self.board.turn.notify_all();
            return Ok(());
        }
        let turn = state.turns;
        while state.turns == turn {
            // The time limit only bounds a missed wake-up; the loop decides.
            let woken = self.board.turn.wait_timeout(state, Duration::from_secs(1));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn get(&mut self, _from: usize, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let state = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.values.get(key).cloned())
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }

    fn abort(&mut self, code: i32, why: &str) -> Result<(), BootstrapError> {
        // No launcher reports the reason of an abort.
        diagnostics::error("transom::bootstrap", &format!("rank {} aborts with {code}: {why}", self.rank));
        Ok(())
    }
}
