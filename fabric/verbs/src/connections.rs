//! The connected peers, and the connections that are being opened. Either end opens a connection at
//! first contact. Opening requires calls of `progress` at both processes; an open connection
//! requires only the peer's device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use transom_fabric::{Cause, FabricError, Fault, Keyed, Peer, PeerMap, Reason, secret};

use crate::address::{Address, End, Hello};
use crate::credits::{Cells, Credits, Flow};
use crate::datagrams::Datagrams;
use crate::device::Device;
use crate::handshake::{Handshake, Tick};
use crate::inbox::Inbox;
use crate::link::Link;
use crate::pair::{AddressHandle, Capacity, Pair, Retransmission};
use crate::queue::{CompletionQueue, SharedReceiveQueue};
use crate::resources::Resources;
use crate::sending::{DEPTH, INLINE, LIST, Sending};
use crate::unanswered::Unanswered;
use crate::wr_id::RANKS;

/// Dimensions of a connection's queue pair.
pub(crate) const CONNECTION: Capacity = Capacity { sends: DEPTH, receives: 0, inline: INLINE, list: LIST };

/// The connections of a port.
#[derive(Debug)]
pub(crate) struct Connections {
    // Declared before the connections, because its requests use their routes.
    datagrams: Datagrams,
    peers: PeerMap<Contact>,
    /// The connections by the numbers of their queue pairs, which take the place of peers.
    pairs: PeerMap<(Peer, Arc<Link>)>,
    /// Peers whose handshake is in progress.
    opening: Mutex<Vec<Peer>>,
    /// The length of `opening`, readable without the lock.
    handshakes: AtomicUsize,
    unanswered: Mutex<Unanswered>,
    make: Maker,
}

/// Makes connections: the objects and parameters that all connections share.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) device: Arc<Device>,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) receives: Arc<SharedReceiveQueue>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) cells: Cells,
    pub(crate) capacity: Capacity,
    pub(crate) me: Peer,
    pub(crate) retransmission: Retransmission,
    /// The longest time of a handshake.
    pub(crate) patience: Duration,
}

/// A peer: the connection and the handshake with the peer.
#[derive(Debug)]
struct Contact {
    link: Arc<Link>,
    mine: End,
    address: Address,
    route: AddressHandle,
    handshake: Mutex<Handshake>,
}

impl Keyed for Contact {
    #[inline]
    fn peer(&self) -> Peer {
        self.link.peer()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A random sequence number for the first packet of a connection: 24 bits that no other process can
/// guess.
///
/// # Errors
/// The kernel gives no random numbers.
pub(crate) fn first_packet() -> Result<u32, FabricError> {
    Ok(u32::try_from(secret::word()? >> 40).unwrap_or(0))
}

/// Whether the cause of a failed call may pass by itself: the kernel or the device lacks memory.
fn may_pass(error: &FabricError) -> bool {
    let passing = [Errno::NOMEM, Errno::AGAIN];
    matches!(error, FabricError::Failed { cause: Cause::System(errno), .. } if passing.contains(errno))
}

impl Connections {
    /// Memory of this crate for one peer, in bytes.
    pub(crate) const BYTES_PER_PEER: usize = size_of::<Contact>() + size_of::<Link>() + Sending::RECORDS_BYTES;

    pub(crate) fn new(make: Maker, datagrams: Datagrams) -> Connections {
        Connections {
            peers: PeerMap::new(),
            pairs: PeerMap::new(),
            opening: Mutex::default(),
            handshakes: AtomicUsize::new(0),
            unanswered: Mutex::default(),
            datagrams,
            make,
        }
    }

    /// The connection to a peer, in any state.
    #[inline]
    pub(crate) fn link(&self, peer: Peer) -> Option<&Arc<Link>> {
        self.peers.get(peer).map(|contact| &contact.link)
    }

    /// The connection with this queue pair.
    #[inline]
    pub(crate) fn link_of_pair(&self, number: u32) -> Option<&Arc<Link>> {
        self.pairs.get(Peer(number)).map(|(_, link)| link)
    }

    /// The number of connections, in any state, and of the messages that their peers may send now.
    pub(crate) fn count(&self) -> (usize, u64) {
        (self.peers.len(), self.peers.values().map(|contact| contact.link.credits.granted()).sum())
    }

    /// The published address of this process.
    pub(crate) fn address(&self) -> &Address {
        self.datagrams.address()
    }

    /// Whether a handshake is in progress, so that `tick` must be called from time to time.
    pub(crate) fn is_opening(&self) -> bool {
        // Relaxed: the next call sees a handshake that has just begun.
        self.handshakes.load(Ordering::Relaxed) > 0
    }

    /// The datagram queue pair, to which `progress` passes its completions.
    pub(crate) fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    /// Begins the handshake with a peer, unless it has begun.
    ///
    /// # Errors
    /// The address is not of this backend, or the queue pair can't be made.
    pub(crate) fn connect(&self, peer: Peer, address: &Address, resources: &Resources) -> Result<(), FabricError> {
        if address.ethernet != self.address().ethernet {
            return Err(FabricError::failed(format!("connecting to {peer}"), Reason::LinkLayers));
        }
        let contact = self.contact(peer, address, resources)?;
        // The first hello is sent at once; progress calls repeat it.
        self.tick_one(contact, resources);
        Ok(())
    }

    /// The contact of a peer, made at the first call.
    fn contact(&self, peer: Peer, address: &Address, resources: &Resources) -> Result<&Contact, FabricError> {
        self.peers.get_or_try_insert(peer, || {
            let contact = self.make.contact(peer, *address, &resources.flow)?;
            let number = Peer(contact.mine.number);
            self.pairs.get_or_try_insert(number, || Ok::<_, FabricError>((number, Arc::clone(&contact.link))))?;
            lock(&self.opening).push(peer);
            // Relaxed: a missed handshake is seen at the next call (`is_opening`).
            self.handshakes.fetch_add(1, Ordering::Relaxed);
            Ok(contact)
        })
    }

    /// Processes a received hello. If the peer's queue pair can't be made or connected, the next
    /// hello of the peer tries again, for at most 10 s.
    pub(crate) fn receive(&self, hello: &Hello, resources: &Resources) {
        let contact = match self.contact(hello.from, &hello.address, resources) {
            Ok(contact) => contact,
            Err(error) => {
                if lock(&self.unanswered).has_failed(hello.from, Instant::now()) {
                    resources.record_lost(&Fault::new(hello.from, error));
                }
                return;
            }
        };
        let mut handshake = lock(&contact.handshake);
        let actions = handshake.receive(hello);
        // Under the lock, so that no hello claims that this half is connected before it is.
        if actions.connect.is_some() {
            contact.link.credits.accept(&hello.grant);
        }
        if let Some(theirs) = actions.connect
            && let Err(error) =
                contact.link.pair.connect(contact.mine, theirs, &contact.address, self.make.retransmission)
        {
            return self.put_off(contact, &mut handshake, error, resources);
        }
        drop(handshake);
        lock(&self.unanswered).remove(hello.from);
        if actions.ready {
            contact.link.open();
        }
        if actions.answer {
            self.send_hello(contact);
        }
    }

    /// Handles a failure to connect this half. If the cause may pass by itself, the next hello of
    /// the peer tries again, for at most 10 s. Otherwise the connection breaks for `error`.
    #[cold]
    fn put_off(&self, contact: &Contact, handshake: &mut Handshake, error: FabricError, resources: &Resources) {
        let pair = &contact.link.pair;
        let is_last = !may_pass(&error) || lock(&self.unanswered).has_failed(contact.peer(), Instant::now());
        if is_last || pair.disconnect().is_err() {
            return contact.link.give_up(error, resources);
        }
        handshake.is_not_connected();
    }

    fn send_hello(&self, contact: &Contact) {
        let (end, seen, ready) = lock(&contact.handshake).hello_fields();
        let (to, address) = (contact.address.token, *self.address());
        let hello = Hello { to, from: self.make.me, end, seen, ready, grant: contact.link.credits.grant(), address };
        self.datagrams.send(&contact.route, &contact.address, &hello);
    }

    /// Repeats unanswered hellos, and gives up handshakes that take too long.
    pub(crate) fn tick(&self, resources: &Resources) {
        // If another thread holds the lock, that thread does the work.
        let Ok(mut opening) = self.opening.try_lock() else { return };
        opening.retain(|peer| {
            let Some(contact) = self.peers.get(*peer) else { return true };
            let stays = self.tick_one(contact, resources);
            if !stays {
                // Relaxed: a missed handshake is seen at the next call (`is_opening`).
                self.handshakes.fetch_sub(1, Ordering::Relaxed);
            }
            stays
        });
    }

    /// Advances one handshake; returns whether it continues.
    fn tick_one(&self, contact: &Contact, resources: &Resources) -> bool {
        let tick = lock(&contact.handshake).tick(Instant::now(), self.make.patience);
        match tick {
            Tick::Wait => true,
            Tick::Repeat => {
                self.send_hello(contact);
                true
            }
            Tick::Done => false,
            Tick::GiveUp(requests) => {
                let reason = Reason::NoAnswer { requests, limit: self.make.patience };
                contact.link.give_up(reason, resources);
                false
            }
        }
    }
}

impl Maker {
    /// A contact whose handshake begins.
    fn contact(&self, peer: Peer, address: Address, flow: &Flow) -> Result<Contact, FabricError> {
        let named = |error: FabricError| FabricError::failed(format!("making a connection to {peer}"), error);
        if peer.0 >= RANKS {
            return Err(FabricError::failed(
                format!("making a connection to {peer}"),
                Reason::RankLimit { limit: RANKS },
            ));
        }
        let (pair, _) = Pair::reliable(&self.queue, &self.receives, self.capacity, peer).map_err(named)?;
        let route = AddressHandle::create(&self.device, &address).map_err(named)?;
        let mine = End { number: pair.number(), psn: first_packet()? };
        let handshake = Mutex::new(Handshake::new(mine, Instant::now()));
        let credits = Credits::new(&self.cells, flow).map_err(named)?;
        self.inbox.add_connection().map_err(|error| {
            credits.end(flow);
            named(error)
        })?;
        Ok(Contact { link: Arc::new(Link::new(peer, pair, credits)), mine, address, route, handshake })
    }
}
