//! The staging areas of peers that this process fills (`messages::staging`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transom_fabric::{Fault, Keyed, Memory, Peer, Reason, RegionKey, Tally, TallyRef};

use super::{JobCore, peer};
use crate::error::Result;
use crate::messages::{self, Messages, PIECES, ReplyDestination, Request};
use crate::progress::Progress;
use crate::transport::{Net, NetMemory, Wire};

/// The area of one peer; `None` where the peer has given none.
#[derive(Debug)]
pub(super) struct Area(Peer, Option<Staging>);

/// An area of a peer.
#[derive(Debug)]
pub(crate) struct Staging {
    memory: NetMemory,
    /// For each staged piece: the tally of its last operations.
    pieces: Mutex<[Option<TallyRef>; PIECES]>,
}

/// The claim of a staged piece, by a long operation. Operations on the piece may be in flight after
/// the end of the claim.
#[derive(Debug)]
pub(crate) struct Claim<'j> {
    pub(crate) piece: usize,
    /// Counts the claim, as one operation, and the operations on the piece.
    pub(crate) tally: TallyRef,
    progress: &'j Progress,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.tally.finish();
        if self.tally.idle() {
            // Other threads may wait for the piece or for the operation.
            self.progress.end_sleeps();
        }
    }
}

impl Keyed for Area {
    fn peer(&self) -> Peer {
        self.0
    }
}

impl Staging {
    /// The memory of the area.
    pub(crate) fn memory(&self) -> &NetMemory {
        &self.memory
    }

    fn pieces(&self) -> MutexGuard<'_, [Option<TallyRef>; PIECES]> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece that has no operation in flight, for a long operation that `tally` counts.
    pub(crate) fn claim<'j>(&self, tally: &TallyRef, progress: &'j Progress) -> Option<Claim<'j>> {
        let mut pieces = self.pieces();
        let free = pieces.iter().position(is_free)?;
        let own = Tally::within(tally);
        own.begin();
        pieces[free] = Some(own.clone());
        Some(Claim { piece: free, tally: own, progress })
    }

    /// Whether some piece has no operation in flight.
    pub(crate) fn has_free(&self) -> bool {
        self.pieces().iter().any(is_free)
    }
}

fn is_free(piece: &Option<TallyRef>) -> bool {
    piece.as_ref().is_none_or(|tally| tally.idle())
}

/// The messages of a job, which give staging areas to peers where the net makes use of them.
pub(super) fn messages(wire: &Arc<Wire>) -> Arc<Messages> {
    let messages = Messages::with_piggyback(wire.net().map_or(Duration::ZERO, Net::answers_wait));
    if wire.net().is_some_and(Net::combines) {
        let wire = Arc::clone(wire);
        messages.grant_by(Box::new(move |len| {
            let memory = Memory::private(len);
            // Without an area the peer sends messages.
            let region = wire.register_net(&memory).ok()??;
            let key = region.key();
            Some(messages::Area { _keeper: Box::new(region), memory, key })
        }));
    }
    Arc::new(messages)
}

impl JobCore {
    /// The staging area at a rank; the first call asks the rank for it. `window`: the number of a
    /// window that the rank has too.
    pub(crate) fn staging(&self, window: u64, rank: usize) -> Result<Option<&Staging>> {
        let areas = &self.peers.areas;
        if let Some(known) = areas.get(peer(rank)) {
            return Ok(known.1.as_ref());
        }
        let key = self.ask_for_area(window, rank)?;
        let made = areas.get_or_try_insert(peer(rank), || {
            let staging = match key == RegionKey::default() {
                true => None,
                false => Some(Staging { memory: self.wire.import_net(peer(rank), &key)?, pieces: Mutex::default() }),
            };
            Ok::<_, crate::error::Error>(Area(peer(rank), staging))
        });
        made.map(|area| area.1.as_ref())
    }

    /// The key of the area at a rank; all zero for none.
    #[cold]
    fn ask_for_area(&self, window: u64, rank: usize) -> Result<RegionKey> {
        let (mut words, tally) = ([0; 32], Tally::new());
        crate::buffers::scoped(
            || self.finish(&tally),
            |scope| {
                let into = ReplyDestination::One(scope.sink(&mut words));
                let (token, message) = self.messages.request(peer(rank), window, 0, &Request::Stage, into, &tally);
                self.send(rank, &message)
                    .inspect_err(|_| self.messages.fail(token, &Fault::new(peer(rank), Reason::NotSent)))
            },
        )?;
        self.progress.complete(&tally)?;
        let mut key = [0; 4];
        for (word, bytes) in key.iter_mut().zip(words.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok(RegionKey(key))
    }
}
