//! Small puts and gets that share messages, over nets on which the target's CPU performs puts and
//! gets anyway. While operations to a target are in flight, a further put is kept with its data, a
//! get with its buffer. A call that waits or polls sends the kept operations; a flush posts one
//! that has remained alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use transom_fabric::{Fault, Peer, Post, TallyRef};

use super::codec::{MAX_STRIPS, OVERHEAD, REPLY_OVERHEAD, Request, STRIP};
use super::{Landing, Messages, locked};
use crate::buffers::Sink;
use crate::datatype::Strip;

/// Maximum length of a message in bytes: longer messages are not faster, and the target begins
/// later.
const MOST: usize = 8192;

/// Maximum number of kept messages: one of puts and one of gets for each target.
const BATCHES: usize = 16;

/// The number of operations for which a new message allocates memory.
const USUAL: usize = 64;

/// A put or get that may share a message.
#[derive(Clone, Copy)]
pub(crate) enum Small<'a> {
    Put(&'a [u8]),
    Get(&'a Sink),
}

/// Kept operations that are contiguous at the target: one put or get does all of them.
#[derive(Debug)]
pub(crate) enum Run<'a> {
    Put(&'a [u8]),
    Get(&'a [Sink]),
}

/// The target of an operation: its rank in the job, the window, and its rank there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Towards {
    pub(crate) peer: Peer,
    pub(crate) window: u64,
    pub(crate) member: usize,
}

/// The outcome of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// The operation is kept, and its tally counts it.
    Kept,
    /// The message is full and must be sent first.
    Full,
    /// The operation must be posted separately, because [`BATCHES`] messages are kept already.
    Refused,
}

/// The kept operations.
#[derive(Default)]
pub(super) struct Gathering {
    /// Whether an operation is kept.
    holds: AtomicBool,
    batches: Mutex<Vec<Batch>>,
}

/// Kept puts, or kept gets, for one target of one window.
struct Batch {
    to: Towards,
    strips: Vec<Strip>,
    operands: Operands,
    /// Counts the batch as one operation.
    tally: TallyRef,
}

enum Operands {
    /// The data of puts.
    Puts(Vec<u8>),
    /// The buffers of gets, and the sum of their lengths.
    Gets(Vec<Sink>, usize),
}

impl Small<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Small::Put(bytes) => bytes.len(),
            Small::Get(into) => into.len(),
        }
    }
}

impl Operands {
    fn new(first: Small<'_>) -> Operands {
        match first {
            Small::Put(bytes) => Operands::Puts(Vec::with_capacity(MOST.min(USUAL * bytes.len()))),
            Small::Get(_) => Operands::Gets(Vec::with_capacity(USUAL), 0),
        }
    }

    fn takes(&self, small: Small<'_>) -> bool {
        matches!((self, small), (Operands::Puts(_), Small::Put(_)) | (Operands::Gets(..), Small::Get(_)))
    }

    /// The length of the request or of the reply, whichever is longer, after `more` bytes of data
    /// are added.
    fn message(&self, strips: usize, more: usize) -> usize {
        let described = OVERHEAD + STRIP * strips;
        match self {
            Operands::Puts(data) => described + data.len() + more,
            Operands::Gets(_, len) => described.max(REPLY_OVERHEAD + len + more),
        }
    }

    fn push(&mut self, small: Small<'_>) {
        match (self, small) {
            (Operands::Puts(data), Small::Put(bytes)) => data.extend_from_slice(bytes),
            (Operands::Gets(buffers, len), Small::Get(into)) => {
                buffers.push(into.part(0, into.len()));
                *len += into.len();
            }
            // Excluded by `takes`.
            _ => {}
        }
    }
}

impl Batch {
    /// Whether the batch has operations of this kind and tally.
    fn takes(&self, small: Small<'_>, tally: &TallyRef) -> bool {
        std::ptr::eq(&raw const *self.tally, &raw const **tally) && self.operands.takes(small)
    }

    /// Adds an operation unless request or reply would then exceed `most` bytes. An operation that
    /// begins where the previous one ends extends its strip.
    fn add(&mut self, at: i64, small: Small<'_>, most: usize) -> bool {
        let (count, len) = (self.strips.len(), small.len());
        if self.operands.message(count + 1, len) > most.min(MOST) {
            return false;
        }
        match self.strips.last_mut() {
            Some(last) if last.offset + last.block as i64 == at => last.block += len,
            _ if count == MAX_STRIPS => return false,
            _ => self.strips.push(Strip::one(at, len)),
        }
        self.operands.push(small);
        true
    }

    /// The offset and the operations, if they are contiguous at the target.
    fn run(&self) -> Option<(u64, Run<'_>)> {
        let [strip] = &self.strips[..] else { return None };
        let run = match &self.operands {
            Operands::Puts(data) => Run::Put(data),
            Operands::Gets(buffers, _) => Run::Get(buffers),
        };
        Some((strip.offset.cast_unsigned(), run))
    }

    fn into_request(self) -> (Request<'static>, Landing, TallyRef) {
        let strips = self.strips.into();
        match self.operands {
            Operands::Puts(data) => (Request::Scatter { strips, data: data.into() }, Landing::Nowhere, self.tally),
            Operands::Gets(buffers, _) => (Request::Gather { strips }, Landing::Pieces(buffers), self.tally),
        }
    }
}

impl Messages {
    /// Keeps an operation at offset `at` of the target's part. `tally` counts it; `most` is the
    /// maximum length of a message.
    pub(crate) fn gather(&self, to: Towards, at: u64, small: Small<'_>, most: usize, tally: &TallyRef) -> Gather {
        let at = at.cast_signed();
        let mut kept = locked(&self.gathering.batches);
        if let Some(batch) = kept.iter_mut().find(|batch| batch.takes(small, tally)) {
            return if batch.add(at, small, most) { Gather::Kept } else { Gather::Full };
        }
        let (strips, operands) = (Vec::with_capacity(USUAL), Operands::new(small));
        let mut batch = Batch { to, strips, operands, tally: tally.clone() };
        if kept.len() == BATCHES || !batch.add(at, small, most) {
            return Gather::Refused;
        }
        // Every call that waits for the tally sends the batch.
        tally.begin();
        tally.mix();
        kept.push(batch);
        // Relaxed: the thread that waits for the operation began it, or the program orders the two
        // threads.
        self.gathering.holds.store(true, Ordering::Relaxed);
        Gather::Kept
    }

    /// Passes the kept operations as messages to [`Messages::send_deferred`].
    #[inline]
    pub(crate) fn end_gathering(&self) {
        // Relaxed: as in `gather`.
        if self.gathering.holds.load(Ordering::Relaxed) {
            self.defer_gathered();
        }
    }

    #[cold]
    fn defer_gathered(&self) {
        for batch in self.take_gathered(|_| true) {
            self.defer_batch(batch);
        }
    }

    fn defer_batch(&self, batch: Batch) {
        let Towards { peer, window, .. } = batch.to;
        let (request, into, tally) = batch.into_request();
        let (token, message) = self.counted(peer, window, 0, &request, into, tally);
        self.defer(peer, message, Some(token));
    }

    /// Passes each kept operation of the window that has remained alone, or is contiguous with all
    /// others of its kind and target, to `post`, with the target's rank in the window and the
    /// offset. If `post` answers `Again`, the operation becomes a request.
    pub(crate) fn post_runs(&self, window: u64, post: impl Fn(usize, u64, Run<'_>, &TallyRef) -> Post) {
        // Relaxed: as in `gather`.
        if !self.gathering.holds.load(Ordering::Relaxed) {
            return;
        }
        for batch in self.take_gathered(|batch| batch.to.window == window && batch.run().is_some()) {
            let posted = batch.run().map_or(Post::Again, |(at, run)| post(batch.to.member, at, run, &batch.tally));
            match posted {
                // The post is counted, so the tally does not become idle before it is complete.
                Post::Done | Post::Pending => batch.tally.finish(),
                Post::Broken(fault) => batch.tally.fail(&fault),
                Post::Again => self.defer_batch(batch),
            }
        }
    }

    /// Fails the kept operations for a peer that died.
    pub(super) fn give_up_gathered(&self, fault: &Fault) {
        for batch in self.take_gathered(|batch| batch.to.peer == fault.peer) {
            batch.tally.fail(fault);
        }
    }

    fn take_gathered(&self, wanted: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let mut kept = locked(&self.gathering.batches);
        let (taken, left) = std::mem::take(&mut *kept).into_iter().partition(wanted);
        *kept = left;
        // Relaxed: as in `gather`. The lock is held, so the flag misses no later batch.
        self.gathering.holds.store(!kept.is_empty(), Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::{Reason, Tally};

    use super::*;

    const TO: Towards = Towards { peer: Peer(1), window: 7, member: 4 };

    fn sent(messages: &Messages) -> Vec<(Peer, Vec<u8>)> {
        let mut sent = Vec::new();
        messages.send_deferred(|to, bytes| {
            sent.push((to, bytes.to_vec()));
            Post::Done
        });
        sent
    }

    #[test]
    fn kept_puts_are_one_request_that_their_tally_counts() {
        let (messages, tally) = (Messages::default(), Tally::new());
        messages.end_gathering();
        assert!(sent(&messages).is_empty());
        for (at, bytes) in [(0, &[1u8; 8][..]), (64, &[2; 8]), (72, &[3; 8])] {
            assert_eq!(messages.gather(TO, at, Small::Put(bytes), 1024, &tally), Gather::Kept);
        }
        assert_eq!((tally.outstanding(), tally.only_puts()), (1, false));
        messages.end_gathering();
        let request = Request::Scatter {
            strips: vec![Strip::one(0, 8), Strip::one(64, 16)].into(),
            data: [[1; 8], [2; 8], [3; 8]].concat().into(),
        };
        let message = super::super::codec::encode_request(&[0, TO.window, 0], &request);
        assert_eq!(sent(&messages), [(TO.peer, message)]);
        assert_eq!(tally.outstanding(), 1, "outstanding until the reply arrives");
        messages.answered(0, Ok(&[]));
        assert!(tally.idle());
    }

    #[test]
    fn kept_gets_are_one_request_beside_that_of_puts() {
        let (messages, tally) = (Messages::default(), Tally::new());
        let mut found = [0u8; 24];
        crate::buffers::scoped(
            || (0..2).for_each(|token| messages.answered(token, Ok(&[7; 24]))),
            |scope| {
                let (first, rest) = found.split_at_mut(8);
                for (at, into) in [(0, first), (64, rest)] {
                    let into = scope.sink(into);
                    assert_eq!(messages.gather(TO, at, Small::Get(&into), 1024, &tally), Gather::Kept);
                    assert_eq!(messages.gather(TO, at + 512, Small::Put(&[1; 8]), 1024, &tally), Gather::Kept);
                }
                assert_eq!(tally.outstanding(), 2);
                messages.end_gathering();
                let gather = Request::Gather { strips: vec![Strip::one(0, 8), Strip::one(64, 16)].into() };
                let scatter = Request::Scatter {
                    strips: vec![Strip::one(512, 8), Strip::one(576, 8)].into(),
                    data: vec![1; 16].into(),
                };
                let encoded = |token, request| super::super::codec::encode_request(&[token, TO.window, 0], request);
                assert_eq!(sent(&messages), [(TO.peer, encoded(0, &gather)), (TO.peer, encoded(1, &scatter))]);
            },
        );
        assert!(tally.idle());
        assert_eq!(found, [7; 24]);
    }

    #[test]
    fn each_target_has_its_own_message() {
        let messages = Messages::default();
        let tallies: Vec<_> = (0..=BATCHES).map(|_| Tally::new()).collect();
        for turn in 0..3 {
            for (to, tally) in (0..).zip(&tallies) {
                let expected = if (to as usize) < BATCHES { Gather::Kept } else { Gather::Refused };
                assert_eq!(
                    messages.gather(Towards { peer: Peer(to), ..TO }, 8 * turn, Small::Put(&[1; 8]), 1024, tally),
                    expected
                );
            }
        }
        messages.end_gathering();
        let to: Vec<_> = sent(&messages).into_iter().map(|(to, _)| to.index()).collect();
        assert_eq!(to, (0..BATCHES).collect::<Vec<_>>());
        assert!(tallies.iter().take(BATCHES).all(|tally| tally.outstanding() == 1));
        assert!(tallies[BATCHES].idle());
    }

    #[test]
    fn a_message_of_puts_stays_within_its_limits() {
        let (messages, tally) = (Messages::default(), Tally::new());
        assert_eq!(messages.gather(TO, 0, Small::Put(&[0; 8]), OVERHEAD + STRIP + 7, &tally), Gather::Refused);
        for (most, apart) in [(200, 16), (1 << 20, 16), (1 << 20, 8)] {
            let mut at = 0;
            while messages.gather(TO, at, Small::Put(&[0; 8]), most, &tally) == Gather::Kept {
                at += apart;
            }
            assert!(at >= 3 * apart, "{at}");
            messages.end_gathering();
            let long = sent(&messages)[0].1.len();
            assert!(long <= most.min(MOST), "{long} of {most}");
        }
    }

    #[test]
    fn kept_puts_of_a_dead_peer_fail() {
        let (messages, tally) = (Messages::default(), Tally::new());
        let fault = |peer| Fault::new(Peer(peer), Reason::Died);
        let keep = || assert_eq!(messages.gather(TO, 0, Small::Put(&[0; 8]), 1024, &tally), Gather::Kept);
        keep();
        messages.give_up(&fault(2));
        assert!(!tally.idle());
        messages.give_up(&fault(1));
        assert!(tally.idle() && tally.take_failure().is_some());
        keep();
        messages.end_gathering();
        messages.send_deferred(|to, _| Post::Broken(Box::new(Fault::new(to, Reason::Died))));
        assert!(tally.idle() && tally.take_failure().is_some() && !messages.owes_answers());
    }

    /// What `post` gets of operations that are kept: the rank, the offset, and the length.
    fn runs(messages: &Messages, answer: fn(&TallyRef) -> Post) -> Vec<(usize, u64, usize)> {
        let posted = std::cell::RefCell::new(Vec::new());
        messages.post_runs(TO.window, |member, at, run, tally| {
            let len = match run {
                Run::Put(bytes) => bytes.len(),
                Run::Get(buffers) => buffers.iter().map(Sink::len).sum(),
            };
            posted.borrow_mut().push((member, at, len));
            answer(tally)
        });
        posted.into_inner()
    }

    #[test]
    fn a_contiguous_run_is_posted_or_becomes_a_request() {
        let (messages, tally) = (Messages::default(), Tally::new());
        let pending = |tally: &TallyRef| {
            tally.begin();
            Post::Pending
        };
        let keep = |to, at| assert_eq!(messages.gather(to, at, Small::Put(&[1; 8]), 1024, &tally), Gather::Kept);
        assert!(runs(&messages, pending).is_empty());
        keep(TO, 16);
        keep(TO, 24);
        assert_eq!(runs(&messages, pending), [(TO.member, 16, 16)]);
        assert_eq!((tally.outstanding(), sent(&messages).len()), (1, 0), "the post is counted, the batch no more");
        keep(TO, 16);
        keep(TO, 32);
        assert!(runs(&messages, pending).is_empty(), "two runs are a request");
        messages.end_gathering();
        assert_eq!((tally.outstanding(), sent(&messages).len()), (2, 1));
        keep(Towards { window: 8, ..TO }, 0);
        assert!(runs(&messages, pending).is_empty(), "of another window");
        messages.end_gathering();
        keep(TO, 40);
        assert_eq!(runs(&messages, |_| Post::Again), [(TO.member, 40, 8)]);
        assert_eq!((tally.outstanding(), sent(&messages).len()), (4, 2));
        keep(TO, 48);
        runs(&messages, |_| Post::Broken(Box::new(Fault::new(TO.peer, Reason::Died))));
        assert!(tally.outstanding() == 4 && tally.take_failure().is_some());
        assert!(runs(&messages, pending).is_empty(), "nothing is kept");
    }
}
