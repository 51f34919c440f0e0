//! The differences between providers, as one table: hints, fulfilled modes, and the meaning of
//! attributes. Plain data; one code path serves all providers.
//!
//! The rules of `cxi` (HPE Slingshot), `efa` (AWS), `opx` (Omni-Path) and `psm3` follow their
//! documentation, man fi_cxi, fi_efa, fi_opx, fi_psm3: no such hardware has run them.

use std::ffi::c_int;

use crate::carrying::{Carried, Carrying, Entry};
use crate::queues::{Events, Queue};
use crate::sys;

/// The hints for a provider and the meaning of its attributes.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The provider's name; empty for providers that the table lacks.
    pub(crate) name: &'static str,
    /// Kinds of data progress, in the order of the attempts.
    pub(crate) progress: &'static [u32],
    /// The registration modes to offer, in the order of the attempts; the port fulfils all of them
    /// (man fi_mr).
    pub(crate) mr_modes: &'static [c_int],
    /// Whether addresses are those of IP interfaces.
    pub(crate) ip: bool,
    /// When targets must make calls for operations on them to complete.
    pub(crate) calls: Calls,
    /// The order to request (man fi_endpoint, message ordering). `FI_ORDER_SAW`, messages after
    /// earlier writes, is requested only of providers that send all operations to a peer in one
    /// stream, because there it costs nothing. For a provider that refuses the order together with
    /// atomics, see `provider::order_without_atomics`.
    pub(crate) order: u64,
    /// Puts that carry a notice; `None`: notices are messages or atomics.
    pub(crate) carried: Option<Carried>,
    /// The provider's device accesses regions faster if their keys are below this number (man
    /// fi_cxi, optimized MRs); 0: no such keys.
    pub(crate) fast_keys: u64,
    /// The provider's devices, if each device is a domain and the domain's name tells the device.
    pub(crate) devices: Option<Devices>,
    /// The completion queue's length.
    pub(crate) queue: Queue,
    /// The descriptor on which a process sleeps until a completion arrives.
    pub(crate) sleep: Sleep,
    /// The first version of libfabric in which the provider locks its table of regions; 0: all
    /// versions do. Earlier versions do not, although they promise `FI_THREAD_SAFE` (libfabric
    /// issues 8817 and 9148), so this crate lets one thread at a time make calls (`region_lock`).
    pub(crate) locks_regions_from: u32,
    /// Variables on which all ranks must agree.
    pub(crate) agreed: &'static [&'static str],
    /// Variables that are set for the provider unless the user has set them.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Like `variables`, but only for machines with a software RDMA device.
    pub(crate) variables_in_software: &'static [(&'static str, &'static str)],
}

/// When targets must make calls, without a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// With manual data progress.
    pub(crate) if_manual: bool,
    /// If this variable of the provider is on.
    pub(crate) if_on: Option<&'static str>,
}

/// The descriptor on which a process sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// None: a process sleeps for short times, and makes calls between them. Without a thread of
    /// the provider, a descriptor that only the process's own calls signal would not report
    /// messages that arrive (`psm3`).
    Naps,
    /// The completion queue's.
    Queue,
    /// That of a wait set, if the library has wait sets, else the queue's. The queue's own
    /// descriptor would stay readable after the first completion, because `fi_trywait` does not
    /// clear its signal.
    WaitSet,
}

/// The location of a provider's devices, and the choice among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Devices {
    /// The folder in sysfs.
    pub(crate) class: &'static str,
    /// Whether the folder has devices of this provider only.
    pub(crate) is_own_class: bool,
    /// The variable in which a launcher lists the devices that the job may use.
    pub(crate) granted: Option<&'static str>,
    /// The prefix of a domain's name, and the prefix of the device's name that replaces it.
    pub(crate) prefixes: (&'static str, &'static str),
    /// Suffixes of domains' names, without which they are the devices' names.
    pub(crate) suffixes: &'static [&'static str],
    /// Whether ranks are distributed over devices. Otherwise the first device that the user allows
    /// is used, in the library's order, unless the user says that several are of one network.
    pub(crate) distributed: bool,
}

/// RDMA devices, each a domain of the same name.
const RDMA: Devices = Devices {
    class: "/sys/class/infiniband",
    is_own_class: false,
    granted: None,
    prefixes: ("", ""),
    suffixes: &[],
    distributed: false,
};

/// The order of attempts over sockets. With automatic data progress the provider starts a thread,
/// which delays every operation. With manual data progress it starts none, and a descriptor becomes
/// readable when a thread of this library has to make a call.
const MANUAL_FIRST: &[u32] = &[sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
const MANUAL: &[u32] = &[sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_UNSPEC];
const AUTO_FIRST: &[u32] = &[sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];

/// Settings of rxm.
const RXM: &[(&str, &str)] = &[
    // The number of receives that rxm posts for a process and uses in turn. The default over
    // sockets is 4096 of 16 KiB each. Allocating their pages would take most of the start time of a
    // job with many ranks, and unless they all fit into the caches, each message would miss the
    // caches.
    ("FI_OFI_RXM_MSG_RX_SIZE", "64"),
    // The longest message that rxm sends by its eager protocol, with rxm's header. The default is
    // 16 KiB, less than `MESSAGE` of `opened`.
    ("FI_OFI_RXM_BUFFER_SIZE", "17408"),
];

/// The registration modes of most providers.
const ALL_MODES: c_int = sys::FI_MR_LOCAL | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY;

/// Rules of providers that are not in the table.
const OTHER: Rules = Rules {
    name: "",
    progress: AUTO_FIRST,
    mr_modes: &[ALL_MODES],
    ip: true,
    calls: Calls { if_manual: true, if_on: None },
    order: 0,
    carried: None,
    fast_keys: 0,
    devices: None,
    queue: Queue { entries: 4096, variable: None },
    sleep: Sleep::Naps,
    locks_regions_from: 0,
    agreed: &[],
    variables: RXM,
    variables_in_software: &[],
};

/// Slingshot. Regions are bound to the endpoint, addressed by offsets, and pinned; the process
/// chooses keys, and small ones select optimized regions. The provider has manual progress only,
/// although the device performs puts, gets and atomics without the CPU, so a probe decides.
/// Authorization comes from the launcher's variables, because the hints set none. Messages that
/// arrive before their receives reserve 6 entries each of the completion queue (man fi_cxi,
/// `FI_CXI_DEFAULT_CQ_SIZE`); an overflow ends the process.
///
/// Writes with remote CQ data need keys that the provider chooses and order between writes, and
/// turn all regions of the process into standard ones, which slows every operation on them. They
/// are therefore used only if the user turns them on. Their entries pass through the queue of
/// control events, which is short by default, does not grow, and has the events of messages too.
/// The network separates jobs (virtual network identifiers), so that no stranger can add an entry.
const CXI: Rules = Rules {
    name: "cxi",
    progress: MANUAL,
    mr_modes: &[sys::FI_MR_ENDPOINT | sys::FI_MR_ALLOCATED],
    ip: false,
    calls: Calls { if_manual: false, if_on: Some("FI_CXI_MR_MATCH_EVENTS") },
    order: 0,
    carried: Some(Carried {
        entry: Entry::Eight,
        from: sys::version(2, 5),
        if_on: Some("FI_CXI_ENABLE_WRITEDATA"),
        mr_modes: &[sys::FI_MR_ENDPOINT | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY],
        events: Some(Events {
            entries: ("FI_UNIVERSE_SIZE", 256),
            bytes: ("FI_CXI_CTRL_RX_EQ_MAX_SIZE", 64 << 20),
            entry: 64,
        }),
    }),
    fast_keys: 100,
    devices: Some(Devices {
        class: "/sys/class/cxi",
        is_own_class: true,
        granted: Some("SLINGSHOT_DEVICES"),
        distributed: true,
        ..RDMA
    }),
    queue: Queue { entries: 32768, variable: Some("FI_CXI_DEFAULT_CQ_SIZE") },
    sleep: Sleep::Queue,
    locks_regions_from: 0,
    agreed: &["FI_CXI_OPTIMIZED_MRS", "FI_CXI_ENABLE_WRITEDATA"],
    variables: &[],
    variables_in_software: &[],
};

/// InfiniBand and RoCE through libfabric. With the default number of expected peers, the provider's
/// completion queues are one entry too long for Soft-RoCE.
const VERBS: Rules = Rules {
    name: "verbs;ofi_rxm",
    ip: false,
    devices: Some(Devices { suffixes: &["-xrc"], ..RDMA }),
    sleep: Sleep::Queue,
    variables: &[],
    variables_in_software: &[("FI_UNIVERSE_SIZE", "16")],
    ..OTHER
};

/// Elastic Fabric Adapter. Addresses are the device's. The provider claims automatic progress,
/// which its documentation calls an error, and has no descriptor to sleep on. It chooses for each
/// transfer whether the device writes without the CPU, so targets must make calls. If the caller
/// offers `FI_MR_LOCAL`, the provider leaves the registration of origin buffers to the caller;
/// otherwise it keeps registrations in a cache of its own. Each device reaches all others.
const EFA: Rules = Rules {
    name: "efa",
    progress: MANUAL,
    mr_modes: &[ALL_MODES & !sys::FI_MR_LOCAL, ALL_MODES],
    ip: false,
    devices: Some(Devices { suffixes: &["-rdm", "-direct"], distributed: true, ..RDMA }),
    variables: &[],
    ..OTHER
};

/// Omni-Path. Automatic progress would start a thread for each queue. The only registration mode is
/// the scalable one, which excludes all others: offsets, and keys chosen by the process. Builds for
/// device memory add `FI_MR_HMEM`. Domains are named `ib0`, `ib1` after the numbers of the devices
/// `hfi1_0`, `hfi1_1`.
const OPX: Rules = Rules {
    name: "opx",
    progress: MANUAL_FIRST,
    mr_modes: &[sys::FI_MR_SCALABLE, sys::FI_MR_SCALABLE | sys::FI_MR_HMEM],
    ip: false,
    devices: Some(Devices { prefixes: ("ib", "hfi1_"), distributed: true, ..RDMA }),
    variables: &[],
    ..OTHER
};

/// Intel's library over Ethernet: used where the user names it, because it may run over any
/// interface. Its queue has a descriptor, which only calls of the process signal. If the caller
/// requests 4 bytes of remote CQ data, the provider takes them from the tag of its messages, which
/// this crate does not use. Its queue is a list in memory, which has no other limit than the share.
const PSM3: Rules = Rules {
    name: "psm3",
    progress: MANUAL_FIRST,
    ip: false,
    carried: Some(Carried { entry: Entry::Four, from: 0, if_on: None, mr_modes: &[ALL_MODES], events: None }),
    variables: &[],
    ..OTHER
};

/// Processes of one machine, by names: used where the user names it, for tests.
const SHM: Rules = Rules { name: "shm", devices: None, ..EFA };

/// Shared memory linked with another provider. An address consists of the addresses of both.
const LNX: Rules = Rules { name: "lnx", devices: None, ..EFA };

/// Sockets. `tcp` of 1.18 and later, called `net` in 1.17, connects processes itself: a message
/// costs half the system calls that it costs through `ofi_rxm`, which signals each one to itself by
/// a write and a read of a socket.
const SOCKETS: Rules = Rules {
    progress: MANUAL_FIRST,
    order: sys::FI_ORDER_SAW,
    sleep: Sleep::Queue,
    locks_regions_from: sys::version(1, 19),
    ..OTHER
};

/// Providers that are used only if the user names them.
const NAMED: [Rules; 3] = [PSM3, SHM, LNX];

/// Providers in the order of attempts where the user names none.
pub(crate) const TABLE: [Rules; 8] = [
    CXI,
    EFA,
    OPX,
    Rules { name: "tcp", sleep: Sleep::WaitSet, ..SOCKETS },
    Rules { name: "net", sleep: Sleep::WaitSet, ..SOCKETS },
    Rules { name: "tcp;ofi_rxm", ..SOCKETS },
    Rules { name: "sockets", sleep: Sleep::Queue, ..OTHER },
    // Last: where every rank has such a device, libibverbs was chosen before, unless the user names
    // this provider.
    VERBS,
];

/// The rules of a provider.
pub(crate) fn of(name: &str) -> &'static Rules {
    const OTHERS: &Rules = &OTHER;
    const KNOWN: &[Rules] = &TABLE;
    const SELDOM: &[Rules] = &NAMED;
    KNOWN.iter().chain(SELDOM).find(|rules| rules.name == name).unwrap_or(OTHERS)
}

/// The hints for `fi_getinfo`. All other attributes, such as sizes of queues and authorization
/// keys, are left to the provider and to the user's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hints<'h> {
    pub(crate) provider: &'h str,
    /// The address of the interface.
    pub(crate) node: Option<&'h str>,
    pub(crate) caps: u64,
    /// The registration modes.
    pub(crate) mr_mode: c_int,
    /// The kind of data progress.
    pub(crate) progress: u32,
    /// The order of operations.
    pub(crate) order: u64,
    /// The bytes of remote CQ data that writes carry.
    pub(crate) data: usize,
}

impl Rules {
    /// The hints for `provider`, in the order of the attempts: atomics matter more than the kind of
    /// progress, and the kind of progress more than the order of operations. If puts are to carry
    /// notices, the hints that request it come first.
    pub(crate) fn hints<'h>(
        &self,
        provider: &'h str,
        source: Option<&'h str>,
        progress: &'h [u32],
        carries: bool,
    ) -> impl Iterator<Item = Hints<'h>> {
        let node = source.filter(|_| self.ip);
        let atomics = [sys::FI_ATOMIC, 0].into_iter();
        // Atomics of the device matter more than notices.
        let may_carry = move |&atomics: &u64| carries && (atomics != 0 || self.carried.is_none());
        let carrying = atomics.clone().filter(may_carry).flat_map(move |atomics| {
            let (caps, order) = (sys::FI_MSG | sys::FI_RMA | atomics, self.order | sys::FI_ORDER_RMA_WAW);
            let mr_modes = self.carried.map_or(self.mr_modes, |carried| carried.mr_modes);
            progress.iter().flat_map(move |&progress| {
                mr_modes.iter().map(move |&mr_mode| Hints {
                    provider,
                    node,
                    caps,
                    mr_mode,
                    progress,
                    order,
                    data: self.entry().bytes(),
                })
            })
        });
        carrying.chain(atomics.flat_map(move |atomics| {
            let caps = sys::FI_MSG | sys::FI_RMA | atomics;
            let orders = std::iter::once(self.order).chain((self.order != 0).then_some(0));
            progress.iter().flat_map(move |&progress| {
                orders.clone().flat_map(move |order| {
                    let hints = move |&mr_mode| Hints { provider, node, caps, mr_mode, progress, order, data: 0 };
                    self.mr_modes.iter().map(hints)
                })
            })
        }))
    }

    /// Whether puts are to carry notices. They are not if each access to a region adds an event to
    /// the queue of [`Carried::events`] (a variable of the user): shares would then not prevent an
    /// overflow of this queue.
    pub(crate) fn carries(&self, carrying: Carrying, version: u32, variable: impl Fn(&str) -> Option<String>) -> bool {
        let on = |name: &'static str| variable(name).is_some_and(|value| is_on(&value));
        let works = self.carried.is_none_or(|carried| version >= carried.from) && !self.calls.if_on.is_some_and(on);
        works
            && match carrying {
                Carrying::ByRules => self.carried.is_some_and(|carried| carried.if_on.is_none_or(on)),
                Carrying::Known(carries) => carries,
                Carrying::Tried => true,
            }
    }

    /// The data of an entry.
    pub(crate) fn entry(&self) -> Entry {
        self.carried.map_or(Entry::Eight, |carried| carried.entry)
    }

    /// The number of entries of the shortest queue through which notices pass.
    pub(crate) fn room_for_notices(&self, variable: impl Fn(&str) -> Option<String>) -> usize {
        let events = self.carried.and_then(|carried| carried.events);
        let events = events.map_or(usize::MAX, |events| events.length(&variable));
        self.queue.length(variable).min(events)
    }

    /// The registration modes that the port fulfils. `FI_MR_HMEM` concerns memory of devices only,
    /// which is never passed to the library (man fi_mr).
    pub(crate) fn fulfilled(&self) -> c_int {
        let carried = self.carried.map_or(&[][..], |carried| carried.mr_modes);
        self.mr_modes.iter().chain(carried).fold(sys::FI_MR_HMEM, |all, modes| all | modes)
    }

    /// Whether targets must make calls where data progress is `manual`, without a probe.
    pub(crate) fn targets_call(&self, manual: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
        manual && (self.calls.if_manual || self.calls.if_on.and_then(variable).is_some_and(|value| is_on(&value)))
    }

    /// The variables on which all ranks must agree, with the values that are set.
    pub(crate) fn agreed(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> impl Iterator<Item = (&'static str, String)> {
        self.agreed.iter().filter_map(move |&key| Some((key, variable(key)?)))
    }
}

/// Whether libfabric takes a variable's value as true.
fn is_on(value: &str) -> bool {
    ["1", "yes", "true", "on"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unset(_: &str) -> Option<String> {
        None
    }

    /// Man fi_cxi: "Memory registration modes", "Progress". The hints avoid features that it
    /// advises against: order, fences, events at targets.
    /// Shows T3.
    #[test]
    fn the_hints_for_cxi_follow_its_documentation() {
        let rules = of("cxi");
        let hints: Vec<_> = rules.hints("cxi", Some("127.0.0.1"), rules.progress, false).collect();
        let first = Hints {
            provider: "cxi",
            node: None,
            caps: sys::FI_MSG | sys::FI_RMA | sys::FI_ATOMIC,
            mr_mode: 1 << 9 | 1 << 5,
            progress: sys::FI_PROGRESS_MANUAL,
            order: 0,
            data: 0,
        };
        assert_eq!(hints.first(), Some(&first));
        assert!(hints.iter().all(|hints| hints.progress != sys::FI_PROGRESS_AUTO && hints.node.is_none()));
    }

    /// Shows T3.
    #[test]
    fn hints_over_sockets_name_the_interface_and_prefer_atomics() {
        let rules = of("tcp;ofi_rxm");
        let hints: Vec<_> = rules.hints("tcp;ofi_rxm", Some("10.0.0.1"), rules.progress, false).collect();
        let (ordered, unordered): (Vec<_>, Vec<_>) = hints.iter().partition(|hints| hints.order != 0);
        let kinds = |hints: &[&Hints<'_>]| -> Vec<_> {
            hints.iter().map(|hints| (hints.caps & sys::FI_ATOMIC != 0, hints.progress)).collect()
        };
        let order = [sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
        let expected = [order.map(|progress| (true, progress)), order.map(|progress| (false, progress))].concat();
        assert_eq!((kinds(&ordered), kinds(&unordered)), (expected.clone(), expected));
        assert!(hints.iter().all(|hints| hints.node == Some("10.0.0.1")));
        assert!(
            of("verbs;ofi_rxm")
                .hints("verbs;ofi_rxm", Some("10.0.0.1"), AUTO_FIRST, false)
                .all(|hints| hints.node.is_none())
        );
    }

    /// Man fi_efa, "Progress": the claim of automatic progress is an error. Man fi_opx, "Progress":
    /// automatic progress starts a thread. Man fi_shm and fi_lnx, "Address Format": names.
    /// Shows T3.
    #[test]
    fn hints_for_named_devices_have_no_interface_and_manual_progress() {
        for name in ["efa", "opx", "psm3", "shm", "lnx"] {
            let rules = of(name);
            let hints: Vec<_> = rules.hints(name, Some("10.0.0.1"), rules.progress, false).collect();
            assert_eq!(rules.name, name);
            assert!(hints.iter().all(|hints| hints.node.is_none()), "{name}");
            assert_eq!(hints[0].progress, sys::FI_PROGRESS_MANUAL, "{name}");
            assert!(rules.targets_call(true, unset), "{name}");
        }
        assert!(EFA.hints("efa", None, EFA.progress, false).all(|hints| hints.progress != sys::FI_PROGRESS_AUTO));
        // Man fi_opx, "Memory registration modes"; man fi_mr: the scalable mode stands alone.
        let modes: Vec<_> =
            OPX.hints("opx", None, &[sys::FI_PROGRESS_MANUAL], false).map(|hints| hints.mr_mode).collect();
        assert_eq!(modes, [1 << 1, 1 << 1 | 1 << 10].repeat(2), "with and without atomics");
        let chosen = |name| TABLE.iter().any(|rules| rules.name == name);
        assert!(chosen("efa") && chosen("opx") && !chosen("psm3") && !chosen("shm") && !chosen("lnx"));
    }

    /// The order of messages after writes is requested where a peer has one TCP stream. Man fi_cxi:
    /// ordered operations cost; other providers may use several ways to a peer.
    /// Shows T3.
    #[test]
    fn order_is_requested_over_tcp_alone() {
        let ordered: Vec<_> = TABLE.iter().filter(|rules| rules.order == sys::FI_ORDER_SAW).map(|it| it.name).collect();
        assert_eq!(ordered, ["tcp", "net", "tcp;ofi_rxm"]);
        let others = ["cxi", "efa", "opx", "psm3", "shm", "lnx", "sockets", "verbs;ofi_rxm", "some other provider"];
        assert!(others.iter().all(|name| of(name).order == 0));
        let rules = of("tcp");
        let orders: Vec<_> = rules.hints("tcp", None, rules.progress, false).map(|hints| hints.order).collect();
        assert_eq!(orders, [sys::FI_ORDER_SAW, 0].repeat(6), "a provider that refuses it is opened without");
    }

    /// A provider over sockets is believed. Slingshot is probed, unless the user's setting requires
    /// calls at targets (man fi_cxi, `FI_CXI_MR_MATCH_EVENTS`).
    /// Shows T3, S5.
    #[test]
    fn manual_progress_is_interpreted_by_provider() {
        let setting =
            |value: &'static str| move |name: &str| (name == "FI_CXI_MR_MATCH_EVENTS").then(|| value.to_owned());
        assert!(of("tcp;ofi_rxm").targets_call(true, unset) && !of("tcp;ofi_rxm").targets_call(false, unset));
        assert!(!of("cxi").targets_call(true, unset));
        assert!(!of("cxi").targets_call(true, setting("0")));
        assert!(of("cxi").targets_call(true, setting("1")) && of("cxi").targets_call(true, setting("true")));
    }

    /// Libfabric pull request 11684: writes with remote CQ data are off unless
    /// `FI_CXI_ENABLE_WRITEDATA` is set, and require keys of the provider. Earlier versions have
    /// none. Shows T3.
    #[test]
    fn puts_carry_notices_over_cxi_if_the_user_turns_it_on() {
        let set = |value: &'static str| move |name: &str| (name == "FI_CXI_ENABLE_WRITEDATA").then(|| value.to_owned());
        let [old, new] = [sys::version(2, 4), sys::version(2, 5)];
        let (cxi, by_rules) = (of("cxi"), Carrying::ByRules);
        assert!(cxi.carries(by_rules, new, set("1")) && !cxi.carries(by_rules, old, set("1")));
        assert!(!cxi.carries(by_rules, new, unset) && !cxi.carries(by_rules, new, set("0")));
        assert!(!cxi.carries(by_rules, new, |_| Some("1".to_owned())), "FI_CXI_MR_MATCH_EVENTS");
        for name in ["tcp", "net", "tcp;ofi_rxm", "sockets", "verbs;ofi_rxm", "efa", "opx", "shm", "lnx", "x"] {
            assert!(!of(name).carries(by_rules, new, |_| Some("1".to_owned())), "{name}");
        }
        // What rank 0 has found holds for a rank whose library has such writes.
        let known = |carries, version| cxi.carries(Carrying::Known(carries), version, unset);
        assert_eq!([known(true, new), known(true, old), known(false, new)], [true, false, false]);
        let hints: Vec<_> = of("cxi").hints("cxi", None, MANUAL, true).collect();
        let (first, plain) = (hints[0], of("cxi").hints("cxi", None, MANUAL, false));
        assert!(hints.iter().all(|hints| hints.data == 0 || hints.caps & sys::FI_ATOMIC != 0));
        assert_eq!((first.data, first.order, first.mr_mode), (8, 1 << 35, 1 << 9 | 1 << 5 | 1 << 6));
        assert!(hints.iter().skip_while(|hints| hints.data != 0).copied().eq(plain), "else as without");
    }

    /// Man fi_cxi, `FI_CXI_DEFAULT_CQ_SIZE`. Regression: the user's value had no effect.
    /// Shows T3.
    #[test]
    fn the_users_length_of_the_queue_counts_if_it_is_larger() {
        let set = |value: &'static str| move |name: &str| (name == "FI_CXI_DEFAULT_CQ_SIZE").then(|| value.to_owned());
        let lengths = ["131072", "1024", "many"].map(|value| of("cxi").queue.length(set(value)));
        assert_eq!(lengths, [131_072, 32_768, 32_768]);
        assert_eq!((of("cxi").queue.length(unset), of("tcp").queue.length(set("131072"))), (32_768, 4096));
    }

    /// Man fi_cxi, `FI_UNIVERSE_SIZE`, `FI_CXI_CTRL_RX_EQ_MAX_SIZE`: the queue of control events
    /// has 256 entries of 64 bytes. Regression: notices were bounded by the completion queue, which
    /// is longer, so that a target that computed could be ended by an overflow.
    /// Shows T3.
    #[test]
    fn notices_have_the_room_of_the_shortest_queue() {
        let room = |universe: &str, bytes: &str, queue: &str| {
            of("cxi").room_for_notices(|name| {
                let value = match name {
                    "FI_UNIVERSE_SIZE" => universe,
                    "FI_CXI_CTRL_RX_EQ_MAX_SIZE" => bytes,
                    _ => queue,
                };
                (!value.is_empty()).then(|| value.to_owned())
            })
        };
        assert_eq!(room("", "", ""), 256);
        assert_eq!([room("4096", "", ""), room("16", "", ""), room("4096", "65536", "")], [4096, 16, 1024]);
        assert_eq!([room("99999999", "", ""), room("99999999", "", "9999999")], [32_768, 1 << 20]);
        for unclear in ["many", "0x1000", "010000", "+4096", " 4096", "-1"] {
            assert_eq!(room(unclear, "", ""), 0, "{unclear}");
        }
        assert_eq!((of("tcp").room_for_notices(unset), of("x").room_for_notices(unset)), (4096, 4096));
    }

    /// Man fi_cxi, "Optimized MRs": processes that communicate agree on them.
    /// Shows T3.
    #[test]
    fn ranks_agree_on_optimized_regions() {
        let set = |name: &str| (name == "FI_CXI_OPTIMIZED_MRS").then(|| "0".to_owned());
        assert!(of("cxi").agreed(set).eq([("FI_CXI_OPTIMIZED_MRS", "0".to_owned())]));
        assert_eq!(of("cxi").agreed(unset).count() + of("tcp").agreed(set).count(), 0);
    }
}
