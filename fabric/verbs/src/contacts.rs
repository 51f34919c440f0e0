//! The peers that this process is connected to or is being connected to. A connection is opened at first contact, by either
//! end, and takes both processes' calls of `progress`; then it needs the peer's process no more.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transom_fabric::{FabricError, Fault, Keyed, Peer, PeerMap};

use crate::address::{Address, End, Hello};
use crate::device::Device;
use crate::greeter::Greeter;
use crate::handshake::{Handshake, Tick};
use crate::link::Link;
use crate::pair::{Depth, Pair, Quality, Route};
use crate::queue::{Queue, Receives};
use crate::sending::{DEPTH, INLINE, LIST, Sending};
use crate::stock::Stock;
use crate::ticket::RANKS;

/// How a connection's queue pair is made.
pub(crate) const CONNECTION: Depth = Depth { sends: DEPTH, receives: 0, inline: INLINE, list: LIST };

/// The peers.
#[derive(Debug)]
pub(crate) struct Contacts {
    // Before the contacts, whose routes its requests use.
    greeter: Greeter,
    peers: PeerMap<Contact>,
    /// Those whose handshake is under way.
    opening: Mutex<Vec<Peer>>,
    /// How many these are, for those who only pass by.
    waiting: AtomicUsize,
    make: Maker,
}

/// What a connection is made from.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) device: Arc<Device>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) receives: Arc<Receives>,
    pub(crate) depth: Depth,
    pub(crate) me: Peer,
    pub(crate) quality: Quality,
    /// How long a peer may take to answer.
    pub(crate) patience: Duration,
}

/// A peer.
#[derive(Debug)]
struct Contact {
    link: Arc<Link>,
    mine: End,
    address: Address,
    route: Route,
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

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Contacts {
    /// What a peer takes here.
    pub(crate) const BYTES_PER_PEER: usize = size_of::<Contact>() + size_of::<Link>() + Sending::RECORDS_BYTES;

    pub(crate) fn new(make: Maker, greeter: Greeter) -> Contacts {
        Contacts { peers: PeerMap::new(), opening: Mutex::default(), waiting: AtomicUsize::new(0), greeter, make }
    }

    /// The connection to a peer, whatever its state.
    #[inline]
    pub(crate) fn link(&self, peer: Peer) -> Option<&Arc<Link>> {
        self.peers.get(peer).map(|contact| &contact.link)
    }

    /// What peers are given.
    pub(crate) fn address(&self) -> &Address {
        self.greeter.address()
    }

    /// Whether a handshake is under way: somebody must call `tick` from time to time.
    pub(crate) fn is_opening(&self) -> bool {
        // Relaxed: one that was just begun is seen next time.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The greeter, whose completions are told by others.
    pub(crate) fn greeter(&self) -> &Greeter {
        &self.greeter
    }

    /// Begins to connect to a peer.
    ///
    /// # Errors
    /// The address is none of this port's kind, or the queue pair can't be made.
    pub(crate) fn connect(&self, peer: Peer, address: &Address, stock: &Stock) -> Result<(), FabricError> {
        if address.ethernet != self.address().ethernet {
            let reason = "one of the ports is InfiniBand, the other one Ethernet";
            return Err(FabricError::failed(format!("connecting to {peer}"), reason));
        }
        let contact = self.contact(peer, address)?;
        // It is said at once; whoever waits for the connection makes progress, which repeats it.
        self.tick_one(contact, stock);
        Ok(())
    }

    fn contact(&self, peer: Peer, address: &Address) -> Result<&Contact, FabricError> {
        self.peers.get_or_try_insert(peer, || {
            let contact = self.make.contact(peer, *address)?;
            lock(&self.opening).push(peer);
            // Relaxed: as in `is_opening`.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            Ok(contact)
        })
    }

    /// A hello arrived. Where the queue pair for a new peer can't be made, the peer is lost, whatever comes of its later hellos.
    pub(crate) fn hear(&self, hello: &Hello, stock: &Stock) {
        let contact = match self.contact(hello.from, &hello.address) {
            Ok(contact) => contact,
            Err(error) => return stock.lose(&Fault { peer: hello.from, reason: error.to_string() }),
        };
        let mut handshake = lock(&contact.handshake);
        let heard = handshake.hear(hello);
        // Under the lock: no hello says that this half is connected before it is.
        if let Some(theirs) = heard.connect
            && let Err(error) = contact.link.pair.connect(contact.mine, theirs, &contact.address, self.make.quality)
        {
            return contact.link.give_up(&error.to_string(), stock);
        }
        drop(handshake);
        if heard.ready {
            contact.link.open();
        }
        if heard.answer {
            self.say(contact);
        }
    }

    fn say(&self, contact: &Contact) {
        let (end, seen, ready) = lock(&contact.handshake).says();
        let (to, address) = (contact.address.token, *self.address());
        let hello = Hello { to, from: self.make.me, end, seen, ready, address };
        self.greeter.say(&contact.route, &contact.address, &hello);
    }

    /// Repeats hellos that had no answer, and gives up where that took too long.
    pub(crate) fn tick(&self, stock: &Stock) {
        // Whoever holds the lock does the same.
        let Ok(mut opening) = self.opening.try_lock() else { return };
        opening.retain(|peer| {
            let Some(contact) = self.peers.get(*peer) else { return true };
            let stays = self.tick_one(contact, stock);
            if !stays {
                // Relaxed: as in `is_opening`.
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            stays
        });
    }

    /// Whether the handshake goes on.
    fn tick_one(&self, contact: &Contact, stock: &Stock) -> bool {
        let tick = lock(&contact.handshake).tick(Instant::now(), self.make.patience);
        match tick {
            Tick::Wait => true,
            Tick::Repeat => {
                self.say(contact);
                true
            }
            Tick::Done => false,
            Tick::GiveUp(times) => {
                let limit = self.make.patience;
                let reason = format!("it answered none of {times} requests for a connection in {limit:?}");
                contact.link.give_up(&reason, stock);
                false
            }
        }
    }
}

impl Maker {
    /// A connection whose handshake begins.
    fn contact(&self, peer: Peer, address: Address) -> Result<Contact, FabricError> {
        let named = |error: FabricError| FabricError::failed(format!("a connection to {peer}"), error);
        if peer.0 >= RANKS {
            return Err(named(FabricError::failed("its rank", format!("ranks are below {RANKS}"))));
        }
        let (pair, _) = Pair::reliable(&self.queue, &self.receives, self.depth, peer).map_err(named)?;
        let route = Route::create(&self.device, &address).map_err(named)?;
        let psn = u32::try_from(random() & 0x00ff_ffff).unwrap_or(0);
        let mine = End { number: pair.number(), psn };
        let handshake = Mutex::new(Handshake::new(mine, Instant::now()));
        Ok(Contact { link: Arc::new(Link::new(peer, pair)), mine, address, route, handshake })
    }
}
