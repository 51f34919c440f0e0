//! The opening of a provider for a job: the choice of the provider, the probe, the domain.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use transom_fabric::devices::Place;
use transom_fabric::{Cause, FabricError, Peer, diagnostics};

use crate::carrying::Carrying;
use crate::domain::OfiDomain;
use crate::library::{Info, Library, SONAME};
use crate::offer::Offer;
use crate::opened::PortSettings;
use crate::provider::Criteria;
use crate::{environment, probe, provider, rules};

/// How [`OfiDomain::open`] determines whether idle targets are served and whether atomics are
/// correct.
///
/// A provider over sockets that was opened with manual data progress (`tcp;ofi_rxm`) needs calls at
/// the target by definition: its port's `passive_target` is false in either case. A device with
/// manual progress (`cxi`) is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveProbe {
    /// By a probe: two endpoints of this process, one of which makes no call. The probe takes about
    /// 250 ms for a provider that claims automatic progress but needs calls. If the provider is
    /// known to need calls, the target makes calls from the start, and the probe tests only
    /// atomics.
    Run,
    /// From another rank's probe.
    Known(bool),
}

/// Options of a provider to open.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The provider, by the name that `fi_info` prints; `None`: the first of
    /// [`provider::PREFERRED`] that works.
    pub provider: Option<String>,
    /// The provider that another rank has chosen for the job, where the user names none.
    pub chosen: Option<String>,
    /// The providers that a rank of the job can't open, each with the reason.
    pub refused: Vec<(String, String)>,
    /// The devices to choose from where the provider has several (`cxi0,cxi1`); `^` before the list
    /// excludes them. `None`: all. `place` selects one of the nearest devices of `cxi`, `efa` and
    /// `opx`. Of other providers the first allowed device is used.
    pub devices: Option<String>,
    /// The place of this process among those of its machine.
    pub place: Place,
    /// The way to determine whether idle targets are served.
    pub passive: PassiveProbe,
    /// The address of the interface at which peers reach this process, where the provider's
    /// addresses are those of interfaces; by default the loopback address, which peers of this
    /// machine reach. `None`: the provider chooses.
    pub source: Option<IpAddr>,
    /// The library's name for the dynamic loader.
    pub library: String,
    /// This process's rank, which is part of each message.
    pub rank: Peer,
    /// The number of ranks of the job. Each rank has the same share in the queues of another rank.
    pub ranks: usize,
    /// Whether puts carry notices.
    pub carrying: Carrying,
    /// Whether a wait sleeps on a descriptor if the provider has one. Otherwise a wait sleeps for a
    /// fixed time.
    pub descriptor: bool,
}

impl Default for OfiOptions {
    fn default() -> Self {
        OfiOptions {
            provider: None,
            chosen: None,
            refused: Vec::new(),
            devices: None,
            place: Place::alone(),
            passive: PassiveProbe::Run,
            source: Some(Ipv4Addr::LOCALHOST.into()),
            library: SONAME.into(),
            rank: Peer(0),
            ranks: 2,
            carrying: Carrying::ByRules,
            descriptor: true,
        }
    }
}

impl OfiDomain {
    /// Opens a provider.
    ///
    /// # Errors
    /// `Unavailable` where the library or the provider is missing, with instructions to get it;
    /// `Failed` where opening failed.
    pub fn open(options: &OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        environment::set_defaults(rules::of(options.provider.as_deref().unwrap_or_default()));
        OfiDomain::open_of(&Library::open(&options.library)?, options)
    }

    /// Opens a provider of a library that is already open.
    ///
    /// # Errors
    /// As [`OfiDomain::open`].
    #[doc(hidden)]
    pub fn open_of(library: &Arc<Library>, options: &OfiOptions) -> Result<Arc<OfiDomain>, FabricError> {
        let criteria = Criteria {
            provider: options.provider.as_deref().or(options.chosen.as_deref()),
            source: options.source,
            devices: options.devices.as_deref().unwrap_or_default(),
            place: &options.place,
            refused: &options.refused,
            carrying: options.carrying,
            ranks: options.ranks,
        };
        provider::choose(library, &criteria, |info, unused| open_found(library, options, &criteria, info, unused))
    }
}

/// Opens a provider that was found. If puts are to carry notices, but the probe of such a put
/// fails, the provider is opened without notices: the user may have set the variable for another
/// library.
fn open_found(
    library: &Arc<Library>,
    options: &OfiOptions,
    criteria: &Criteria<'_>,
    info: Info,
    unused: &[String],
) -> Result<Arc<OfiDomain>, FabricError> {
    let (name, carries) = (info.provider(), info.carries());
    let is_told = criteria.carrying == Carrying::Known(true);
    if is_told && !carries {
        let why = "puts of rank 0 carry notices, and those of this rank can't: the ranks differ in the version of \
                   libfabric, or in the length of its queues (FI_UNIVERSE_SIZE, FI_CXI_DEFAULT_CQ_SIZE)";
        return Err(FabricError::failed(format!("opening provider {name}"), Cause::Setup(why.into())));
    }
    match open_probed(library, options, criteria, info, unused) {
        Err(error) if carries && !is_told => {
            let what = format!("puts carry no notices over {name}, since the test of such a put failed");
            diagnostics::warn("transom::net", &format!("{what}: {error:#}"));
            let without = Criteria { provider: Some(&name), carrying: Carrying::Known(false), ..*criteria };
            provider::choose(library, &without, |info, _| open_probed(library, options, &without, info, unused))
        }
        opened => opened,
    }
}

/// Opens a provider that was found. The result is an error if the probe finds that it does not
/// work.
fn open_probed(
    library: &Arc<Library>,
    options: &OfiOptions,
    criteria: &Criteria<'_>,
    info: Info,
    unused: &[String],
) -> Result<Arc<OfiDomain>, FabricError> {
    let name = info.provider();
    let manual = Offer::of(&info).manual_progress;
    let needs_calls = rules::of(&name).targets_call(manual, environment::variable);
    let (passive, atomics_fail) = match options.passive {
        PassiveProbe::Run => {
            let found = probe::run(library, &Criteria { provider: Some(&name), ..*criteria }, needs_calls)?;
            (found.passive, !found.atomics)
        }
        PassiveProbe::Known(passive) => (passive && !needs_calls, false),
    };
    let OfiOptions { rank, ranks, descriptor, .. } = *options;
    OfiDomain::open_chosen(info, unused, &PortSettings { passive, atomics_fail, rank, ranks, descriptor })
}
