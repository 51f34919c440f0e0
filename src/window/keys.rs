//! Direct puts and gets on dynamic windows over a net. A target gives this rank the key of a
//! region, by which the net accesses the region's bytes without the target's CPU. When the target
//! detaches the region, it withdraws the key and waits for the answer. No access therefore uses the
//! key of a region that is gone. The target itself performs an access without a key, and one that
//! no single region contains.
//!
//! A key costs a request, and another one when it is withdrawn. This rank therefore asks only at
//! the second access without a key, and later if earlier keys have served few accesses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{Fault, Peer, Reason, Tally};

use super::parts::Parts;
use super::posted::BLOCK_BY_ITSELF;
use super::target::{Reach, Target, Unmapped};
use super::transfer::MAX_GATHERED_BYTES;
use crate::buffers;
use crate::error::Result;
use crate::job::{JobCore, peer};
use crate::memory::attached::{Attached, Extent, Given, Register};
use crate::memory::layout::Layout;
use crate::messages::{Exposed, KeyHolder, ReplyDestination, Request};
use crate::transport::{Lane, Net, NetMemory, NetRegion};

/// Accesses without a key to a rank after which this rank asks for a key, at first.
const FIRST_THRESHOLD: u32 = 2;
/// Upper bound of this threshold. A key that served few accesses, or was refused, doubles it.
const MAX_THRESHOLD: u32 = 64;
/// Accesses from which on a key was worth its requests.
const USES_TO_PAY: u32 = 8;

/// The keys of other ranks' regions in one dynamic window.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<HashMap<Peer, KeysOf>>);

/// The keys of one rank's regions.
#[derive(Debug)]
struct KeysOf {
    /// The regions by their addresses.
    regions: BTreeMap<u64, Region>,
    /// The numbers of regions whose keys were withdrawn before they arrived.
    withdrawn: BTreeSet<u64>,
    /// The number of accesses without a key since the last request for one.
    missed: u32,
    /// The number of such accesses at which this rank asks.
    needed: u32,
    /// Whether a thread asks.
    asking: bool,
}

/// A region of another rank.
#[derive(Debug)]
struct Region {
    len: u64,
    number: u64,
    /// `None` if the net can't access the region.
    memory: Option<Arc<NetMemory>>,
    uses: u32,
}

/// A region that the net accesses by its key.
struct KeyedRegion {
    memory: Arc<NetMemory>,
    /// The address at which the region begins.
    begins: u64,
}

/// The answer of the owner to a request for a key.
struct KeyAnswer {
    region: Extent,
    number: u64,
    /// `None` if the net can't access the region.
    memory: Option<NetMemory>,
}

/// The result of the search for a key for an access.
enum Found {
    Region(KeyedRegion),
    /// No key. This thread asks for it, and then calls [`Keys::learn`].
    Ask,
    Nothing,
}

impl Default for KeysOf {
    fn default() -> KeysOf {
        KeysOf {
            regions: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            missed: 0,
            needed: FIRST_THRESHOLD,
            asking: false,
        }
    }
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, HashMap<Peer, KeysOf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the key of the region of `owner` that contains the bytes.
    fn find(&self, owner: Peer, address: u64, len: usize) -> Found {
        let mut all = self.lock();
        let keys = all.entry(owner).or_default();
        if let Some((&begins, region)) = keys.regions.range_mut(..=address).next_back()
            && (Extent { address: begins, len: region.len, key: None }).inside(address, len).is_some()
        {
            region.uses = region.uses.saturating_add(1);
            let memory = region.memory.as_ref().map(Arc::clone);
            return memory.map_or(Found::Nothing, |memory| Found::Region(KeyedRegion { memory, begins }));
        }
        keys.missed += 1;
        if keys.missed < keys.needed || keys.asking {
            return Found::Nothing;
        }
        (keys.missed, keys.asking) = (0, true);
        Found::Ask
    }

    /// Records the answer of `owner`. Returns the region if the net can access it. The key may have
    /// been withdrawn meanwhile.
    fn learn(&self, owner: Peer, answer: Option<KeyAnswer>) -> Option<KeyedRegion> {
        let mut all = self.lock();
        let keys = all.entry(owner).or_default();
        keys.asking = false;
        let Some(KeyAnswer { region, number, memory }) = answer else {
            keys.needed = (2 * keys.needed).min(MAX_THRESHOLD);
            return None;
        };
        if keys.withdrawn.remove(&number) {
            return None;
        }
        let memory = memory.map(Arc::new);
        keys.regions.insert(region.address, Region { len: region.len, number, memory: memory.clone(), uses: 1 });
        memory.map(|memory| KeyedRegion { memory, begins: region.address })
    }
}

impl KeyHolder for Keys {
    fn forget(&self, owner: Peer, number: u64) {
        let mut all = self.lock();
        let keys = all.entry(owner).or_default();
        let address = keys.regions.iter().find(|(_, region)| region.number == number).map(|(&address, _)| address);
        match address.and_then(|address| keys.regions.remove(&address)) {
            Some(region) if region.uses < USES_TO_PAY => keys.needed = (2 * keys.needed).min(MAX_THRESHOLD),
            Some(_) => keys.needed = FIRST_THRESHOLD,
            None => {
                keys.withdrawn.insert(number);
            }
        }
    }
}

/// Lets this rank and the others give each other keys of regions in a new dynamic window. Returns
/// the keys that this rank gets.
pub(super) fn exchange(job: &JobCore, attached: &Attached, exposed: &Exposed) -> Arc<Keys> {
    let wire = Arc::clone(&job.wire);
    attached.give_by(Register::by(move |memory| {
        let region = wire.register_net(memory).ok()??;
        let key = region.key();
        Some((key, Box::new(region) as Box<_>))
    }));
    let keys = Arc::new(Keys::default());
    exposed.hold_keys(Arc::clone(&keys) as Arc<_>);
    keys
}

/// Whether each block is long enough for a separate transfer. Checks only some blocks of a layout
/// with many.
fn has_long_blocks(layout: &Layout<'_>) -> bool {
    const LOOKS: usize = 16;
    layout.longest() >= BLOCK_BY_ITSELF && layout.pieces().take(LOOKS).all(|(_, len)| len >= BLOCK_BY_ITSELF)
}

impl Parts {
    /// The region of a dynamic window that contains all bytes of an access, as memory of the net,
    /// and the access's offset in it. `None` if the target performs the access. `theirs` and `ours`
    /// are the layouts at the target and at the origin. `is_lone`: the access is a get, and is
    /// probably the only operation before a flush.
    pub(super) fn by_key(
        &self,
        target: &Target,
        at: i64,
        (theirs, ours): (&Layout<'_>, &Layout<'_>),
        is_lone: bool,
    ) -> Result<Option<(Arc<NetMemory>, i64)>> {
        let Some(keys) = &self.targets.keys else { return Ok(None) };
        // The lock comes first: until it is held, the target may detach the region.
        if !self.is_direct(target, theirs, ours, is_lone) || self.travels(target, theirs.len())? {
            return Ok(None);
        }
        let owner = peer(self.team.rank(target.rank()));
        let (low, end) = theirs.span();
        let address = at.wrapping_add(low).cast_unsigned();
        let Ok(len) = usize::try_from(end.abs_diff(low)) else { return Ok(None) };
        let found = match keys.find(owner, address, len) {
            Found::Region(keyed) => Some(keyed),
            Found::Ask => keys.learn(owner, self.request_key(owner, address, len)),
            Found::Nothing => None,
        };
        Ok(found.map(|KeyedRegion { memory, begins }| (memory, at.wrapping_sub_unsigned(begins))))
    }

    /// Whether the net would perform the access, rather than the target: it posts few transfers,
    /// and a small operation that shares a message does not cost less. A small put is a message
    /// even if it is alone, because its message may end an epoch.
    fn is_direct(&self, target: &Target, theirs: &Layout<'_>, ours: &Layout<'_>, is_lone: bool) -> bool {
        let shares = !is_lone && self.job.wire.net().is_some_and(Net::gathers);
        let least = if shares { MAX_GATHERED_BYTES + 1 } else { 1 };
        theirs.len() >= least
            && matches!(target.reach, Reach::Unmapped(Unmapped::Dynamic(None)))
            && self.job.lane(self.team.rank(target.rank())) == Some(Lane::Net)
            && (theirs.contiguous().is_some() || has_long_blocks(theirs) && has_long_blocks(ours))
    }

    /// The answer to a request for a key, if there is one. After a failure the target performs the
    /// access, which reports the failure.
    #[cold]
    fn request_key(&self, owner: Peer, address: u64, len: usize) -> Option<KeyAnswer> {
        let (mut words, tally) = ([0u64; Extent::WORDS + 1], Tally::new());
        let request = Request::Key { address, len: len as u64 };
        let sent = buffers::scoped(
            || self.job.finish(&tally),
            |scope| {
                let into = ReplyDestination::One(scope.sink(bytemuck::cast_slice_mut(&mut words)));
                let (token, message) = self.job.messages.request(owner, self.id, 0, &request, into, &tally);
                let failed = |_: &_| self.job.messages.fail(token, &Fault::new(owner, Reason::NotSent));
                self.job.send(owner.index(), &message).inspect_err(failed)
            },
        );
        sent.and_then(|()| self.job.progress.complete(&tally)).ok()?;
        let [region @ .., number] = words;
        let region = Extent::from_words(region);
        let memory = region.key.and_then(|key| self.job.wire.import_net(owner, &key).ok());
        (number > 0).then_some(KeyAnswer { region, number, memory })
    }

    /// Withdraws the key of a region that was detached. On return no rank has the key.
    ///
    /// # Errors
    /// A rank that has the key may not have answered. The region then stays registered.
    pub(super) fn withdraw_key(&self, given: Given) -> Result<()> {
        let tally = Tally::new();
        for &holder in &given.holders {
            let request = Request::Withdraw { number: given.number };
            let (_, message) =
                self.job.messages.request(holder, self.id, 0, &request, ReplyDestination::Nowhere, &tally);
            // A queued message is sent even if this rank learns of the loss of another one
            // meanwhile. If the holder itself is lost, the wait ends without its answer.
            self.job.messages.defer(holder, message, None);
        }
        self.job.until_all_complete(|| tally.outstanding()).inspect_err(|_| {
            // An access by the key then changes no other memory than that of the region.
            if let Some(keeper) = given.into_keeper()
                && let Ok(region) = keeper.downcast::<NetRegion>()
            {
                region.leak();
            }
        })
    }
}
