//! The choice of the provider and of its device, by the answers of `fi_getinfo`, because versions
//! of the library differ. The table of [`rules`] has the queries. Safe code.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use transom_fabric::devices::Place;
use transom_fabric::{Cause, FabricError};

use crate::carrying::Carrying;
use crate::library::{Info, Library};
use crate::nic::{Nic, NicCriteria};
use crate::offer::Offer;
use crate::rules::{self, Hints, Rules};
use crate::{environment, notices, sys};

/// The order in which providers are tried where the user names none.
pub const PREFERRED: [&str; rules::TABLE.len()] = {
    let mut names = [""; rules::TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = rules::TABLE[at].name;
        at += 1;
    }
    names
};

/// A provider, as `transom-info` lists it.
#[derive(Clone, Debug)]
pub struct ProviderInfo {
    /// The provider's name.
    pub name: String,
    /// The provider's attributes, or the reason why it can't be used.
    pub offer: Result<Offer, String>,
}

/// The request to [`choose`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Criteria<'w> {
    /// The provider; `None`: the first of [`PREFERRED`] that is available.
    pub(crate) provider: Option<&'w str>,
    /// The interface to use, where addresses are those of interfaces; `None`: the provider chooses.
    pub(crate) source: Option<IpAddr>,
    /// The user's list of devices.
    pub(crate) devices: &'w str,
    /// The place of this process among those of its machine.
    pub(crate) place: &'w Place,
    /// The providers that can't be opened, each with the reason.
    pub(crate) refused: &'w [(String, String)],
    /// Whether puts carry notices.
    pub(crate) carrying: Carrying,
    /// The number of ranks of the job.
    pub(crate) ranks: usize,
}

/// The reason why a provider is not used.
struct Refusal {
    text: String,
    /// Whether the library has no such provider, or the provider finds no device.
    is_absent: bool,
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal { text, is_absent: false }
    }
}

/// Finds a provider and one of its devices, which `open` opens. A provider that `open` can't open
/// is not used, unless the user names it: a provider may list a device that the job can't open, for
/// lack of rights or of free resources. `open` also gets, for each earlier provider that has
/// devices on this machine, the reason why its devices are not used.
pub(crate) fn choose<T>(
    library: &Arc<Library>,
    criteria: &Criteria<'_>,
    open: impl Fn(Info, &[String]) -> Result<T, FabricError>,
) -> Result<T, FabricError> {
    let (mut refusals, mut unused) = (Vec::new(), Vec::new());
    let names = criteria.provider.map_or_else(|| PREFERRED.to_vec(), |name| vec![name]);
    for name in names {
        let rules = rules::of(name);
        let found = match criteria.refused.iter().find(|(refused, _)| refused == name) {
            // Every rank was told.
            Some((_, reason)) => Err(Refusal { text: reason.clone(), is_absent: rules.devices.is_none() }),
            None => query(library, name, rules.progress, criteria)
                .and_then(|list| pick(rules, list, criteria).map_err(Refusal::from)),
        };
        let opened = found.and_then(|info| match open(info, &unused) {
            Err(error) if criteria.provider.is_none() => Err(format!("{error:#}").into()),
            opened => Ok(opened),
        });
        match opened {
            Ok(opened) => return opened,
            Err(Refusal { text, is_absent }) => {
                let text = format!("{name}: {text}");
                if !is_absent || rules.devices.is_some_and(|devices| devices.are_here()) {
                    unused.push(text.clone());
                }
                refusals.push(text);
            }
        }
    }
    let reason = format!("{library:?} has no provider that fits: {}", refusals.join("; "));
    Err(FabricError::unavailable("libfabric", Cause::Setup(reason)))
}

/// The library's entries for a provider, at least one: with atomics if the provider has them, and
/// with the first kind of `progress` that it accepts. Puts carry notices if the criteria say so,
/// the queues have room for the notices of all ranks, and the provider promises what notices need.
fn query(library: &Arc<Library>, name: &str, progress: &[u32], criteria: &Criteria<'_>) -> Result<Vec<Info>, Refusal> {
    let (rules, variable) = (rules::of(name), environment::variable);
    let share = rules
        .carries(criteria.carrying, library.number(), variable)
        .then(|| notices::share(rules.room_for_notices(variable), criteria.ranks))
        .flatten()
        .filter(|_| rules.entry().names(criteria.ranks));
    let source = criteria.source.map(|address| address.to_string());
    let mut last = -sys::FI_ENODATA;
    for hints in rules.hints(name, source.as_deref(), progress, share.is_some()) {
        match library.query(&hints) {
            // The provider accepts the hints, but can't carry notices. Later hints do not request
            // notices, whose cost would have no use.
            Ok(list) if hints.data > 0 && !list.iter().all(|info| Offer::of(info).can_carry(hints.data)) => {}
            // The name is compared because 1.17 answers `tcp` with `tcp;ofi_rxm`.
            Ok(mut list) if list.first().is_some_and(|info| info.provider() == name) => {
                Offer::of(&list[0]).check(rules.fulfilled())?;
                let order = order_without_atomics(library, &hints, rules);
                list.iter_mut().for_each(|info| info.add_order(order));
                if let Some(share) = share.filter(|_| hints.data > 0) {
                    list.iter_mut().for_each(|info| info.let_carry(share));
                }
                return Ok(list);
            }
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    Err(Refusal { text: format!("{:#}", library.strerror(last)), is_absent: last == -sys::FI_ENODATA })
}

/// The part of [`Rules::order`] that a provider promises without atomics only; 0 if `hints` have no
/// atomics or already have the order. `ofi_rxm` performs atomics by messages of its own and
/// therefore refuses the order of operations that include atomics. It posts writes and messages on
/// one connection whether atomics are requested or not, so the promise for writes and messages also
/// holds beside atomics.
fn order_without_atomics(library: &Arc<Library>, hints: &Hints<'_>, rules: &Rules) -> u64 {
    if hints.caps & sys::FI_ATOMIC == 0 || hints.order == rules.order {
        return 0;
    }
    let without = Hints { caps: hints.caps & !sys::FI_ATOMIC, order: rules.order, ..*hints };
    let list = library.query(&without).unwrap_or_default();
    let same = list.first().filter(|info| info.provider() == hints.provider);
    same.map_or(0, |info| info.transmit().msg_order & rules.order)
}

/// The entry to open: that of the chosen device, or the first, which the library prefers.
fn pick(rules: &Rules, mut list: Vec<Info>, criteria: &Criteria<'_>) -> Result<Info, String> {
    let Some(found) = rules.devices else { return Ok(list.swap_remove(0)) };
    let nics: Vec<Nic> = list.iter().map(|info| found.nic(&info.domain_name())).collect();
    let granted = found.granted.and_then(environment::variable);
    let (devices, place) = (criteria.devices, Some(criteria.place));
    let criteria = NicCriteria { granted: granted.as_deref(), devices, place, distributed: found.distributed };
    let at = criteria.choose(&nics)?;
    Ok(list.swap_remove(at))
}

/// Lists the providers that this version knows, with the attributes of each.
///
/// # Errors
/// The library is missing.
pub fn providers(soname: &str) -> Result<(String, Vec<ProviderInfo>), FabricError> {
    let library = Library::open(soname)?;
    let progress = [sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
    let criteria = Criteria {
        provider: None,
        source: Some(Ipv4Addr::LOCALHOST.into()),
        devices: "",
        place: &Place::alone(),
        refused: &[],
        carrying: Carrying::ByRules,
        ranks: 2,
    };
    let offer = |name: &str| query(&library, name, &progress, &criteria).map(|list| Offer::of(&list[0]));
    let list = PREFERRED
        .map(|name| ProviderInfo { name: name.to_owned(), offer: offer(name).map_err(|refusal| refusal.text) });
    Ok((library.version(), list.to_vec()))
}
