//! The choice of the net at start: verbs where every rank has a device and packets pass between
//! them, else libfabric with the first provider that every rank can open.

use std::time::Duration;

use transom_fabric::devices::Place;
use transom_fabric::{Cause, FabricError, diagnostics};

use super::start::{Exchanging, unreadable};
use super::{descriptors, peer};
use crate::bootstrap::fields::{pack, unpack};
use crate::environment::{self, Settings};
use crate::error::{Error, ErrorKind, Result, TransportError};
use crate::interfaces::{self, Interface};
use crate::transport::{self, ChosenProvider, Libfabric, Net};

/// The time in which the first message must pass between two machines.
const TRIAL: Duration = Duration::from_secs(5);

/// The request for a net.
pub(super) struct Wanted<'a> {
    pub(super) settings: &'a Settings,
    /// The first rank of another machine than rank 0's, or else of another node; or else rank 0.
    pub(super) apart: usize,
    /// This process's interface.
    pub(super) source: &'a Interface,
    /// The place of this rank among those of its machine.
    pub(super) place: Place,
}

/// Opens the net at every rank. Also returns the reasons why a job over sockets does not use the
/// devices of this machine.
pub(super) fn open(boot: &mut Exchanging<'_>, wanted: &Wanted<'_>) -> Result<(Net, Option<String>)> {
    let (settings, apart) = (wanted.settings, wanted.apart);
    let without = match open_verbs(boot, wanted)? {
        Ok(net) => return Ok((net, None)),
        Err(without) => without,
    };
    if settings.ofi {
        let net = open_ofi(boot, wanted)?;
        let verbs = without.as_ref().filter(|_| transport::has_rdma_port());
        let unused = unused_devices(verbs.map(|without| without.reason.as_str()), net.unused());
        let unused = unused.filter(|_| net.uses_ip());
        let is_told = without.is_some_and(|without| without.is_told);
        if let Some(why) = unused
            .as_ref()
            .filter(|_| boot.rank() == 0 && settings.provider.is_none() && (!is_told || !net.unused().is_empty()))
        {
            // A fallback is never silent (requirement T5)
            diagnostics::warn("transom::job", &over_sockets(&net.shared_name().to_string(), why));
        }
        return Ok((net, unused));
    }
    let source = match without {
        Some(Without { rank, reason, .. }) => TransportError::OfiExcluded { rank, reason },
        None => TransportError::NetsExcluded,
    };
    Err(ErrorKind::Net { first: 0, second: apart, source }.into())
}

/// The reasons why a job does not use the devices of this machine: that of verbs, where there is a
/// device, and those of libfabric's providers.
fn unused_devices(verbs: Option<&str>, providers: &[String]) -> Option<String> {
    let all: Vec<&str> = verbs.into_iter().chain(providers.iter().map(String::as_str)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The warning of a job over sockets whose machines have other devices.
fn over_sockets(net: &str, why: &str) -> String {
    format!(
        "the job uses sockets ({net}), since no network device of this machine can be used: {why}; if \
         TRANSOM_PROVIDER names a provider, this warning is not printed"
    )
}

/// A rank that can't use verbs.
struct Without {
    rank: usize,
    /// The reason that it reported to the others.
    reason: String,
    /// Whether rank 0 has printed the reason.
    is_told: bool,
}

/// The report of a rank on its device, for the other ranks.
struct Opened {
    /// The reason why it has none; empty if it has one.
    reason: String,
    /// The device's address.
    address: Vec<u8>,
    /// Whether the job chose the device, and may use libfabric instead.
    may_change: bool,
}

impl Opened {
    fn encode(&self) -> Vec<u8> {
        pack(&[self.reason.as_bytes(), &self.address, &[u8::from(self.may_change)]])
    }

    fn decode(value: &[u8]) -> Option<Opened> {
        let [reason, address, may_change] = unpack::<3>(value)?;
        let reason = String::from_utf8_lossy(&reason).into_owned();
        Some(Opened { reason, address, may_change: may_change == [1] })
    }
}

/// Opens verbs if all ranks can, and a message passes between two nodes. Otherwise returns the
/// first rank that can't, with its reason; `None` if the settings exclude verbs.
fn open_verbs(boot: &mut Exchanging<'_>, wanted: &Wanted<'_>) -> Result<std::result::Result<Net, Option<Without>>> {
    let settings = wanted.settings;
    if !settings.verbs {
        return Ok(Err(None));
    }
    let (me, is_first) = (boot.rank(), boot.rank() == 0);
    let opened = transport::open_verbs(peer(me), boot.size(), settings, &wanted.place);
    let own = Opened {
        reason: opened.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default(),
        address: opened.as_ref().map(Net::address).unwrap_or_default(),
        may_change: settings.ofi && settings.devices.is_none(),
    };
    let all: Option<Vec<Opened>> =
        boot.allgather("transom.verbs", &own.encode())?.iter().map(|value| Opened::decode(value)).collect();
    let all = all.ok_or_else(|| unreadable(0))?;
    let first = all.iter().position(|one| !one.reason.is_empty());
    let (rank, reason, is_told) = match (first, opened) {
        (None, Ok(net)) => {
            let apart = wanted.apart;
            match try_contact(boot, &net, &all, apart)? {
                None => return Ok(Ok(net)),
                Some(reason) => (apart, not_reached(apart, &reason), true),
            }
        }
        (None, Err(_)) => (me, own.reason, false),
        // A job without any device is the usual case and no fallback. The warning concerns a device
        // that the user named, or that other ranks have. `open` reports devices that no rank can
        // use.
        (Some(first), _) => {
            let is_told = settings.devices.is_some() || all.iter().any(|one| one.reason.is_empty());
            (first, format!("not every rank can use verbs: rank {first}: {}", all[first].reason), is_told)
        }
    };
    if is_first && settings.ofi && is_told {
        // A fallback is never silent (requirement T5)
        diagnostics::warn("transom::job", &format!("libfabric is used, since {reason}"));
    }
    let reason = first.map_or(reason, |first| all[first].reason.clone());
    Ok(Err(Some(Without { rank, reason, is_told })))
}

/// Tries whether a message passes between the nodes of rank 0 and rank `apart`, unless the user has
/// chosen the devices. If none passes, returns the reason that rank 0 has found.
fn try_contact(boot: &mut Exchanging<'_>, net: &Net, all: &[Opened], apart: usize) -> Result<Option<String>> {
    if !all[0].may_change || !all[apart].may_change {
        return Ok(None);
    }
    let contact = |with: usize| net.try_contact(peer(with), &all[with].address, TRIAL);
    let own = match boot.rank() {
        0 => Some(contact(apart).map_or_else(|error| format!("{error:#}"), |()| String::new())),
        rank if rank == apart => {
            // Rank 0 decides for all.
            let _: std::result::Result<(), FabricError> = contact(0);
            None
        }
        _ => None,
    };
    let reason = boot.broadcast("transom.contact", own.as_ref().map(String::as_bytes))?;
    Ok(Some(String::from_utf8_lossy(&reason).into_owned()).filter(|reason| !reason.is_empty()))
}

/// The reason and the remedy for devices that do not reach each other.
fn not_reached(apart: usize, reason: &str) -> String {
    format!(
        "packets do not pass between the RDMA devices of rank 0 and of rank {apart}: {reason}; \
         TRANSOM_NET_DEVICES names others, and with TRANSOM_TRANSPORTS=^verbs this warning is not printed"
    )
}

/// The report of rank 0 on libfabric, for the other ranks.
struct Choice {
    /// The provider; empty if rank 0 can open none.
    provider: String,
    /// Whether idle targets are served.
    passive: bool,
    /// Whether puts carry notices.
    carries: bool,
    /// Whether the user has named the provider at rank 0. Ranks may differ in this setting.
    is_named: bool,
    /// The reason why rank 0 can open no provider; else empty.
    failure: String,
}

impl Choice {
    fn of(opened: std::result::Result<&Net, &FabricError>, is_named: bool) -> Choice {
        let provider = |net: &Net| net.shared_name().provider.unwrap_or_default();
        Choice {
            provider: opened.map(provider).unwrap_or_default(),
            passive: opened.is_ok_and(Net::passive_target),
            carries: opened.is_ok_and(Net::has_immediates),
            is_named,
            failure: opened.err().map(|error| format!("{error:#}")).unwrap_or_default(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let flags = [self.passive, self.carries, self.is_named].map(u8::from);
        pack(&[self.provider.as_bytes(), &flags, self.failure.as_bytes()])
    }

    fn decode(value: &[u8]) -> Option<Choice> {
        let [provider, flags, failure] = unpack::<3>(value)?;
        let [passive, carries, is_named] = <[u8; 3]>::try_from(flags).ok()?.map(|flag| flag == 1);
        let [provider, failure] = [provider, failure].map(|text| String::from_utf8_lossy(&text).into_owned());
        Some(Choice { provider, passive, carries, is_named, failure })
    }
}

/// Opens libfabric. Rank 0 opens first and chooses the provider for all ranks; its probe of idle
/// targets and of puts that carry notices serves all. If a rank can't open the provider, rank 0
/// chooses the next one, unless the user names the provider.
fn open_ofi(boot: &mut Exchanging<'_>, wanted: &Wanted<'_>) -> Result<Net> {
    let settings = wanted.settings;
    if let Some(list) = &settings.interfaces {
        interfaces::own(Some(list)).map_err(|reason| environment::invalid_interfaces(list, reason))?;
    }
    // Verbs needs one descriptor for the device, for any number of peers.
    descriptors::make_room(boot.rank(), boot.size())?;
    let (me, ranks, mut refused) = (peer(boot.rank()), boot.size(), Vec::<(String, String)>::new());
    loop {
        let round = refused.len();
        let open = |chosen| {
            let (named, devices) = (settings.provider.as_deref(), settings.devices.as_deref());
            let (source, place, refused) = (wanted.source.address, &wanted.place, &refused);
            transport::open_ofi(Libfabric { me, ranks, named, chosen, refused, devices, source, place })
        };
        let failed =
            |error: FabricError| Error::from(ErrorKind::Net { first: 0, second: wanted.apart, source: error.into() });
        let first = (boot.rank() == 0).then(|| open(None));
        let own = first.as_ref().map(|opened| Choice::of(opened.as_ref(), settings.provider.is_some()).encode());
        let choice = boot.broadcast(&format!("transom.passive.{round}"), own.as_deref())?;
        let Choice { provider, passive, carries, is_named, failure } =
            Choice::decode(&choice).ok_or_else(|| unreadable(0))?;
        let opened = match first {
            Some(opened) => opened,
            None if !failure.is_empty() => {
                Err(FabricError::failed("opening libfabric at rank 0", Cause::Setup(failure)))
            }
            None => open(Some(ChosenProvider { name: provider.clone(), passive, carries })),
        };
        if is_named || provider.is_empty() {
            return opened.map_err(failed);
        }
        let own = opened.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
        let reasons = boot.allgather(&format!("transom.ofi.{round}"), own.as_bytes())?;
        let Some(rank) = reasons.iter().position(|reason| !reason.is_empty()) else {
            return opened.map_err(failed);
        };
        let reason = format!("rank {rank}: {}", String::from_utf8_lossy(&reasons[rank]));
        if boot.rank() == 0 {
            // A fallback is never silent (requirement T5)
            let what = format!("provider {provider} of libfabric is not used, since not every rank can open it");
            diagnostics::warn("transom::job", &format!("{what}: {reason}"));
        }
        refused.push((provider, reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows T5.
    #[test]
    fn the_warning_of_devices_that_do_not_reach_each_other_has_remedies() {
        let warning = not_reached(4, "no operation completed within 5s");
        for part in ["rank 4", "within 5s", "TRANSOM_NET_DEVICES", "TRANSOM_TRANSPORTS=^verbs"] {
            assert!(warning.contains(part), "{warning}");
        }
        let one = Opened { reason: "no port".into(), address: vec![1, 2], may_change: true };
        let decoded = Opened::decode(&one.encode()).expect("three fields");
        assert_eq!((decoded.reason, decoded.address, decoded.may_change), (one.reason, one.address, true));
    }

    /// Regression: each rank decided by its own libfabric whether puts carry notices. A notice to a
    /// rank that decided otherwise could arrive before its data.
    #[test]
    fn all_ranks_read_the_choice_that_rank_0_has_sent() {
        for flags in 0..8 {
            let [passive, carries, is_named] = [1, 2, 4].map(|flag| flags & flag != 0);
            let (provider, failure) = ("cxi".to_owned(), String::new());
            let choice = Choice { provider, passive, carries, is_named, failure };
            let found = Choice::decode(&choice.encode()).expect("three fields");
            assert_eq!((found.passive, found.carries, found.is_named), (passive, carries, is_named));
            assert_eq!((found.provider, found.failure), (choice.provider, choice.failure));
        }
    }

    /// Regression: a job over sockets said nothing if the devices failed at every rank alike.
    /// Shows T5.
    #[test]
    fn a_job_over_sockets_names_the_devices_that_it_does_not_use() {
        let cxi = "cxi: No data available (-61)".to_owned();
        assert_eq!(unused_devices(None, &[]), None, "the machine has no other device");
        let why = unused_devices(Some("no port can be used: mlx5_0:1 is not active"), &[cxi]).expect("two devices");
        let warning = over_sockets("libfabric tcp;ofi_rxm", &why);
        for part in ["sockets (libfabric tcp;ofi_rxm)", "mlx5_0:1 is not active; cxi: No data", "TRANSOM_PROVIDER"] {
            assert!(warning.contains(part), "{warning}");
        }
    }
}
