//! Tests whether a provider serves a target that makes no call, with two endpoints of this process,
//! one of which is never polled. The probe does not rely on the progress that a provider states:
//! `net` states automatic progress, but needs calls.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transom_fabric::{
    Amo, AmoKind, Cause, Domain, FabricError, Handler, Immediate, Memory, Peer, Port, Post, Reason, Region, Tally,
    Width,
};

use crate::domain::OfiDomain;
use crate::library::Library;
use crate::opened::PortSettings;
use crate::provider::{self, Criteria};
use crate::remote::OfiRemote;

/// Time limit of an operation on an idle target.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time limit of an operation on a target that is polled.
const LIMIT: Duration = Duration::from_secs(5);

/// Number of tested puts that carry a notice. A single notice may come in time by chance.
const NOTICES: usize = 16;

/// The result of a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Whether puts, gets and atomics completed while the target made no call.
    pub(crate) passive: bool,
    /// Whether all atomics that the provider claims gave the correct values.
    pub(crate) atomics: bool,
}

/// A handler that ignores messages, and counts notices.
#[derive(Default)]
struct Heard(Cell<usize>);

impl Handler for Heard {
    fn message(&self, _from: Peer, _bytes: &[u8]) {}

    fn immediate(&self, _from: Peer, _immediate: Immediate) {
        self.0.set(self.0.get() + 1);
    }
}

/// Tries put, get and the claimed atomics from one endpoint to another. `needs_calls`: the target
/// is known to need calls, so it makes calls from the start.
pub(crate) fn run(library: &Arc<Library>, criteria: &Criteria<'_>, needs_calls: bool) -> Result<Found, FabricError> {
    let open = || {
        let settings = PortSettings { passive: false, atomics_fail: false, rank: Peer(0), ranks: 2, descriptor: true };
        provider::choose(library, criteria, |info, unused| OfiDomain::open_chosen(info, unused, &settings))
    };
    // Declared before the domains, which are therefore closed first, with any operation in flight.
    let (target, origin_memory) = (Memory::private(64), Memory::private(64));
    let (origin, idle) = (open()?, open()?);
    let region = idle.register(&target)?;
    origin.port().connect(Peer(1), &idle.port().address())?;
    let remote = origin.port().import(Peer(1), &region.key())?;
    let mut attempt = Attempt { origin: &origin, idle: &idle, passive: !needs_calls, heard: Heard::default() };

    let tally = Tally::new();
    attempt.complete(&tally, || {
        // SAFETY: both memories live longer than the domains.
        unsafe { origin.port().put(&remote, 0, origin_memory.span(), &tally) }
    })?;
    attempt.complete(&tally, || {
        // SAFETY: both memories live longer than the domains.
        unsafe { origin.port().get(&remote, 0, origin_memory.span(), &tally) }
    })?;
    if origin.port().limits().immediates.any() {
        for sent in 1..=NOTICES {
            attempt.notify(&remote, sent)?;
        }
    }
    let mut correct = true;
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
            correct &= done.is_ok() && target.word64(8).load(std::sync::atomic::Ordering::SeqCst) == amo.apply(5);
            if !correct {
                return Ok(Found { passive: attempt.passive, atomics: false });
            }
        }
    }
    Ok(Found { passive: attempt.passive, atomics: correct })
}

/// The two endpoints: `origin` posts, and `idle` makes no call until an operation takes longer than
/// [`PATIENCE`].
struct Attempt<'d> {
    origin: &'d OfiDomain,
    idle: &'d OfiDomain,
    /// Whether all operations so far completed without a call of `idle`.
    passive: bool,
    /// The handler of `idle`.
    heard: Heard,
}

impl Attempt<'_> {
    /// Tests a put that carries a notice, the one with number `sent`. A provider that states a size
    /// of remote CQ data may refuse such writes, or report no notice. The notice must be there once
    /// the put is complete, because a counter includes the notices of all puts that were complete
    /// before the counter is read.
    fn notify(&mut self, to: &OfiRemote, sent: usize) -> Result<(), FabricError> {
        let (tally, origin) = (Tally::new(), self.origin);
        let failed = |why: String| FabricError::failed("probing a write with remote CQ data", Cause::Setup(why));
        let number = Immediate::new(1).ok_or_else(|| failed("no number".into()))?;
        // Notices behind other operations have no data.
        let data: &[u8] = if sent.is_multiple_of(2) { &[] } else { &[0; 8] };
        self.complete(&tally, || origin.port().put_immediate(to, 0, data, number, &tally))
            .map_err(|error| failed(format!("{error:#}")))?;
        self.idle.port().settle(&self.heard)?;
        if self.heard.0.get() == sent {
            return Ok(());
        }
        let complete = Instant::now();
        while self.heard.0.get() < sent && complete.elapsed() < PATIENCE {
            std::thread::yield_now();
            self.idle.port().settle(&self.heard)?;
        }
        Err(failed(match self.heard.0.get() < sent {
            true => format!("no entry in the target's completion queue within {PATIENCE:?}"),
            false => "the target's entry came after the origin's completion".into(),
        }))
    }

    /// Posts an operation, and waits until it is complete.
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
            self.origin.port().progress(&Heard::default())?;
            if start.elapsed() > PATIENCE || !self.passive {
                self.passive = false;
                self.idle.port().progress(&self.heard)?;
            }
            if start.elapsed() > LIMIT {
                return Err(FabricError::failed("probing the provider", Reason::Timeout { limit: LIMIT }));
            }
            std::thread::yield_now();
        }
        tally.fault().map_or(Ok(()), |fault| Err(fault.into()))
    }
}
