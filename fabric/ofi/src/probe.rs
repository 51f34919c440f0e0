//! Tests whether a provider serves a target that makes no call, with two endpoints of this process,
//! one of which is never polled. The probe does not rely on the progress that a provider states:
//! `net` states automatic progress, but needs calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transom_fabric::{
    Amo, AmoKind, Domain, FabricError, Handler, Memory, Peer, Port, Post, Reason, Region, Tally, Width,
};

use crate::domain::OfiDomain;
use crate::library::Library;
use crate::opened::Assembly;
use crate::provider::{self, Criteria};

/// Time limit of an operation on an idle target.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time limit of an operation on a target that is polled.
const LIMIT: Duration = Duration::from_secs(5);

/// The result of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Puts, gets and atomics completed while the target made no call.
    pub(crate) passive: bool,
    /// All atomics that the provider claims gave the right values.
    pub(crate) atomics: bool,
}

struct Nobody;

impl Handler for Nobody {
    fn message(&self, _from: Peer, _bytes: &[u8]) {}
}

/// Tries put, get and the claimed atomics from one endpoint to another. `called`: the target is
/// known to need calls.
pub(crate) fn run(library: &Arc<Library>, criteria: &Criteria<'_>, called: bool) -> Result<Found, FabricError> {
    let open = || {
        let how = Assembly { passive: false, refuted: false, rank: Peer(0), descriptor: true };
        OfiDomain::assemble(provider::choose(library, criteria)?, &how)
    };
    // Declared before the domains, which are therefore closed first, with any operation in flight.
    let (target, origin_memory) = (Memory::private(64), Memory::private(64));
    let (origin, idle) = (open()?, open()?);
    let region = idle.register(&target)?;
    origin.port().connect(Peer(1), &idle.port().address())?;
    let remote = origin.port().import(Peer(1), &region.key())?;
    let mut attempt = Attempt { origin: &origin, idle: &idle, passive: !called };

    let tally = Tally::new();
    attempt.complete(&tally, || {
        // SAFETY: both memories live longer than the domains.
        unsafe { origin.port().put(&remote, 0, origin_memory.span(), &tally) }
    })?;
    attempt.complete(&tally, || {
        // SAFETY: both memories live longer than the domains.
        unsafe { origin.port().get(&remote, 0, origin_memory.span(), &tally) }
    })?;
    let mut right = true;
    for kind in AmoKind::ALL {
        for width in [Width::W32, Width::W64] {
            if region.amo(kind, width).is_none() {
                continue;
            }
            target.word64(8).store(5, std::sync::atomic::Ordering::SeqCst);
            let amo = Amo { kind, width, operand: 7, compare: 5 };
            let outside = Reason::Outside { at: 32, length: width.bytes() as u64, limit: origin_memory.len() as u64 };
            let into = origin_memory.span().slice(32, width.bytes());
            let into = into.ok_or_else(|| FabricError::failed("probing the provider", outside))?;
            // A provider may claim atomics and refuse each (ENOSYS).
            // SAFETY: both memories live longer than the domains.
            let done = attempt.complete(&tally, || unsafe { origin.port().amo(&remote, 8, amo, into, &tally) });
            right &= done.is_ok() && target.word64(8).load(std::sync::atomic::Ordering::SeqCst) == amo.apply(5);
            if !right {
                return Ok(Found { passive: attempt.passive, atomics: false });
            }
        }
    }
    Ok(Found { passive: attempt.passive, atomics: right })
}

/// One endpoint posts, the other is idle until `PATIENCE` has passed.
struct Attempt<'d> {
    origin: &'d OfiDomain,
    idle: &'d OfiDomain,
    passive: bool,
}

impl Attempt<'_> {
    fn complete(&mut self, tally: &Tally, post: impl Fn() -> Post) -> Result<(), FabricError> {
        let start = Instant::now();
        let mut posted = false;
        while !posted || !tally.idle() {
            if !posted {
                match post() {
                    Post::Done | Post::Pending => posted = true,
                    Post::Again => {}
                    Post::Broken(fault) => return Err((*fault).into()),
                }
            }
            self.origin.port().progress(&Nobody)?;
            if start.elapsed() > PATIENCE || !self.passive {
                self.passive = false;
                self.idle.port().progress(&Nobody)?;
            }
            if start.elapsed() > LIMIT {
                return Err(FabricError::failed("probing the provider", Reason::Timeout { limit: LIMIT }));
            }
            std::thread::yield_now();
        }
        tally.fault().map_or(Ok(()), |fault| Err(fault.into()))
    }
}
