//! Teams: the ranks of a window or of a collective call, which are all ranks of the job or some of
//! them. A team has the properties of MPI's groups and communicators that windows need, and numbers
//! its members from 0. Knows no transport.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Barriers, Job, PROC_NULL, Turn};
use crate::error::{ArgumentError, Class, Error, ErrorKind, JobError, Result};
use crate::messages::Messages;

/// Set in the keys of teams and of their windows, to distinguish them from those of the job.
const SUBSET: u64 = 1 << 63;

/// An ordered list of ranks of a job.
#[derive(Debug)]
pub(crate) struct Team {
    /// Identifies the team's barriers in messages; 0 for the job.
    pub(crate) key: u64,
    /// This process's number in the team.
    pub(crate) me: usize,
    /// The number of members.
    pub(crate) size: usize,
    /// The members' ranks in the job; `None` for all ranks in their order.
    ranks: Option<Box<[usize]>>,
    pub(super) barriers: Barriers,
    /// The number of barriers before the present collective call.
    before_call: AtomicU32,
    windows: AtomicU64,
    /// Whether a thread of this process is in a collective call of the team.
    busy: AtomicBool,
    /// Whether all members share a node; set by the first query.
    one_node: OnceLock<bool>,
    /// Where the barriers' signals arrive; `None` for the job, whose signals are never dropped.
    signals: Option<Arc<Messages>>,
}

/// Distinguishes teams of the same list, and is equal at all members of a team.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Name {
    /// The caller's tag, and the number of calls with this tag and list so far, with the present
    /// one.
    Tagged(u64, u64),
    /// A number that the list's first rank has given to no other team.
    Agreed(u64),
}

impl Job {
    /// A job of some ranks of this job, for windows and barriers among them
    /// (`MPI_COMM_CREATE_GROUP`). Its ranks are numbered in the order of `ranks`, which are ranks
    /// of the whole job. All ranks of the list, and no others, make the call, with the same list;
    /// the call does not communicate. The n-th call with a list at one rank matches the n-th call
    /// with this list at the others. Threads that may call at the same time use
    /// [`Job::subset_tagged`].
    ///
    /// # Errors
    /// `Rank` for a rank that does not exist or is listed twice, or if this rank is not in the
    /// list.
    pub fn subset(&self, ranks: &[usize]) -> Result<Job> {
        self.subset_tagged(ranks, 0)
    }

    /// [`Job::subset`] with a tag, like that of `MPI_COMM_CREATE_GROUP` (MPI-4.1 §7.4.2). All
    /// members make calls with the same list and tag in the same order; calls with different tags
    /// may come in any order. Threads that may call at the same time use different tags, or
    /// different lists. `subset` has tag 0.
    ///
    /// ```no_run
    /// # fn try_it(world: &transom::Job) -> transom::Result<()> {
    /// let all: Vec<usize> = (0..world.size()).collect();
    /// std::thread::scope(|scope| {
    ///     for thread in 0..4 {
    ///         let all = &all;
    ///         scope.spawn(move || -> transom::Result<()> {
    ///             let mine = world.subset_tagged(all, thread)?;
    ///             let win = transom::Window::<u64>::allocate(&mine, 1)?;
    ///             win.free()
    ///         });
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Job::subset`].
    pub fn subset_tagged(&self, ranks: &[usize], tag: u64) -> Result<Job> {
        self.named(ranks, || Ok(Name::Tagged(tag, self.core.team_names.next(ranks, tag))))
    }

    /// [`Job::subset`] for a program in which another library has connected exactly these ranks,
    /// for example an MPI by a communicator. The library distinguishes calls with the same list:
    /// `agree` gets a number of this process, and returns the number that the list's first rank
    /// passed to it (a broadcast). Calls need no order other than that of `agree`.
    ///
    /// # Errors
    /// As for [`Job::subset`]; `Other` if `agree` returns `None`.
    pub fn subset_agreed(&self, ranks: &[usize], agree: impl FnOnce(u64) -> Option<u64>) -> Result<Job> {
        self.named(ranks, || Ok(Name::Agreed(agree(self.core.team_names.number()).ok_or(JobError::NoAgreement)?)))
    }

    fn named(&self, ranks: &[usize], name: impl FnOnce() -> Result<Name>) -> Result<Job> {
        let mut team = Team::of(self.core.rank, self.core.size, ranks, name)?;
        team.signals = Some(Arc::clone(&self.core.messages));
        Ok(Job { core: Arc::clone(&self.core), team: Arc::new(team), _leave: Arc::clone(&self._leave) })
    }
}

impl Team {
    /// All ranks of the job.
    pub(crate) fn world(rank: usize, size: usize) -> Team {
        Team::new(0, rank, size, None)
    }

    fn new(key: u64, me: usize, size: usize, ranks: Option<Box<[usize]>>) -> Team {
        Team {
            key,
            me,
            size,
            ranks,
            barriers: Barriers::default(),
            before_call: AtomicU32::new(0),
            windows: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            one_node: OnceLock::new(),
            signals: None,
        }
    }

    /// Some ranks of the job. All of them call this with the same list and the same name.
    fn of(rank: usize, size: usize, ranks: &[usize], name: impl FnOnce() -> Result<Name>) -> Result<Team> {
        let refused = |reason| Err(Error::argument(Class::Rank, "subset", reason));
        if let Some(&rank) = ranks.iter().find(|&&member| member >= size) {
            return Err(ErrorKind::Rank { call: "subset", rank, size }.into());
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return refused(ArgumentError::ListedTwice(pair[0]));
        }
        let Some(me) = ranks.iter().position(|&member| member == rank) else {
            return refused(ArgumentError::NotListed { rank, ranks: ranks.to_vec() });
        };
        let key = SUBSET | hash(&(ranks, name()?));
        Ok(Team::new(key, me, ranks.len(), Some(ranks.into())))
    }

    /// Whether `on_node` holds for the ranks of all members. Evaluated once.
    pub(super) fn is_one_node(&self, on_node: impl Fn(usize) -> bool) -> bool {
        *self.one_node.get_or_init(|| (0..self.size).all(|member| on_node(self.rank(member))))
    }

    /// Begins a collective call of this team, which lasts until the result is dropped.
    ///
    /// # Errors
    /// Another thread of this process is in a collective call of the team. It would not be defined
    /// which of the two calls matches which call of another rank (MPI-4.1 §11.6.2).
    pub(crate) fn collective(&self, call: &'static str) -> Result<Collective<'_>> {
        // Acquire: pairs with the Release of the previous call, whose barriers precede those of
        // this one.
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(Error::argument(Class::Arg, call, ArgumentError::ConcurrentCollective));
        }
        // Relaxed: `busy` orders the collective calls.
        self.before_call.store(self.barriers.count(), Ordering::Relaxed);
        Ok(Collective(self))
    }

    /// The next barrier of the present collective call.
    pub(super) fn next_turn(&self) -> Turn {
        let number = self.barriers.next();
        Turn { first: self.before_call.load(Ordering::Relaxed).wrapping_add(1), number }
    }

    /// A member's rank in the job.
    #[inline]
    pub(crate) fn rank(&self, member: usize) -> usize {
        self.ranks.as_ref().map_or(member, |ranks| ranks[member])
    }

    /// The number of the next window, equal at all members, because all create windows in the same
    /// order.
    pub(crate) fn next_window(&self) -> u64 {
        // Relaxed: windows of a team are created by one thread at a time, which `collective`
        // ensures.
        let number = self.windows.fetch_add(1, Ordering::Relaxed) + 1;
        if self.key == 0 { number } else { SUBSET | hash(&(self.key, number)) }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // All signals to this rank have arrived by the end of the last barrier.
        if let Some(messages) = &self.signals {
            messages.forget_signals(self.key);
        }
    }
}

/// Fails if the team has no such member.
pub(crate) fn check_rank(team: &Team, call: &'static str, rank: usize) -> Result<()> {
    if rank < team.size {
        return Ok(());
    }
    if rank == PROC_NULL {
        return Err(Error::argument(Class::Rank, call, ArgumentError::ProcNull));
    }
    Err(ErrorKind::Rank { call, rank, size: team.size }.into())
}

/// A collective call of a team, which ends when this is dropped.
pub(crate) struct Collective<'t>(&'t Team);

impl Drop for Collective<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `collective`.
        self.0.busy.store(false, Ordering::Release);
    }
}

/// The number of teams that were made with each tag and list, by their hash. A number is never
/// forgotten, because other members may still count.
type Tagged = HashMap<u64, u64>;

/// The names that this process has given to teams.
#[derive(Debug, Default)]
pub(crate) struct TeamNames {
    tagged: Mutex<Tagged>,
    numbers: AtomicU64,
}

impl TeamNames {
    fn next(&self, ranks: &[usize], tag: u64) -> u64 {
        let mut made = self.tagged.lock().unwrap_or_else(PoisonError::into_inner);
        let count = made.entry(hash(&(tag, ranks))).or_default();
        *count += 1;
        *count
    }

    /// A number that this process has given to no team.
    fn number(&self) -> u64 {
        // Relaxed: the numbers need only differ.
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// A hash that is equal at all ranks: they run the same program, and `DefaultHasher::new` has no
/// random part.
pub(super) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use transom_fabric::Peer;
    use transom_fabric::sim::{SimNet, SimOptions};

    use super::*;
    use crate::bootstrap::local::Board;

    fn made(rank: usize, made: &TeamNames, tag: u64) -> Team {
        let ranks = [5, 7, 2];
        Team::of(rank, 8, &ranks, || Ok(Name::Tagged(tag, made.next(&ranks, tag)))).expect("a team")
    }

    #[test]
    fn members_are_numbered_in_the_lists_order() {
        let seven = TeamNames::default();
        let team = made(7, &seven, 0);
        assert_eq!((team.me, team.size), (1, 3));
        assert_eq!([0, 1, 2].map(|member| team.rank(member)), [5, 7, 2]);
        let other = made(5, &TeamNames::default(), 0);
        assert_eq!(team.key, other.key);
        let again = made(7, &seven, 0);
        assert_ne!(team.key, again.key);
        assert_eq!(team.next_window(), other.next_window());
        assert_ne!(team.next_window(), again.next_window());
    }

    /// Shows W7.
    #[test]
    fn tags_distinguish_teams_in_any_order() {
        let (five, seven) = (TeamNames::default(), TeamNames::default());
        let [first, second] = [1, 2].map(|tag| made(5, &five, tag));
        let [third, fourth] = [2, 1].map(|tag| made(7, &seven, tag));
        assert_eq!((first.key, second.key), (fourth.key, third.key));
        assert_ne!(first.key, second.key);
        let agreed = |rank, number| Team::of(rank, 8, &[5, 7, 2], || Ok(Name::Agreed(number))).expect("a team").key;
        assert_eq!(agreed(5, 1), agreed(7, 1));
        assert_ne!(agreed(5, 1), agreed(5, 2));
        assert_ne!(agreed(5, 1), first.key);
        assert_ne!(five.number(), five.number());
    }

    /// Shows E1.
    #[test]
    fn collective_calls_of_a_team_exclude_each_other() {
        let team = Team::world(0, 1);
        let inside = team.collective("barrier").expect("no thread is in one");
        let error = team.collective("barrier").map(drop).expect_err("refused");
        assert_eq!(error.class(), Class::Arg);
        drop(inside);
        drop(team.collective("barrier").expect("no thread is in one"));
    }

    #[test]
    fn the_signals_of_a_team_are_dropped_with_it() {
        let (net, board) = (SimNet::new(2, SimOptions::default()), Board::new(2));
        let one = |rank: u32| {
            let domain = net.domain(Peer(rank)).expect("a rank of the net");
            let job = Job::simulated(domain, Box::new(board.rank(rank as usize))).expect("a job");
            let pair = job.subset(&[1, 0]).expect("a subset");
            pair.barrier().expect("a barrier");
            assert_eq!(job.core.messages.signalling(), 1);
            drop(pair);
            assert_eq!(job.core.messages.signalling(), 0);
            job.finalize().expect("the end");
        };
        std::thread::scope(|ranks| {
            ranks.spawn(|| one(1));
            one(0);
        });
    }

    #[test]
    fn illegal_lists_of_ranks_are_refused() {
        for (ranks, word) in [(&[0, 9][..], "rank 9"), (&[1, 1], "rank 1 twice"), (&[1, 2], "rank 0")] {
            let error = Team::of(0, 4, ranks, || Ok(Name::Agreed(0))).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
