//! What differs between providers, as one table: how each is asked, which of its demands are fulfilled, and what its words
//! mean. Plain data; the same code serves all of them.
//!
//! The rules of `cxi` (HPE Slingshot) are those of its documentation, man fi_cxi: no such hardware has run them.

use std::ffi::c_int;

use crate::sys;

/// How a provider is asked and understood.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Its name; of the providers that the table does not have, none.
    pub(crate) name: &'static str,
    /// Data progress, in the order in which it is asked for.
    pub(crate) progress: &'static [u32],
    /// The registration modes that are fulfilled for it (man fi_mr).
    pub(crate) mr_mode: c_int,
    /// Its addresses are those of IP interfaces.
    pub(crate) ip: bool,
    /// Manual data progress means that an idle target is not served, so that it is not tried.
    pub(crate) manual_is_manual: bool,
    /// The variable by which a user makes targets call all the same.
    pub(crate) calls_at_target: Option<&'static str>,
    /// The regions whose keys are below it are its fast ones.
    pub(crate) fast_keys: u64,
    /// A domain for each of its devices, among which one must be chosen.
    pub(crate) devices: Option<Devices>,
    /// The variables that must be the same at all ranks.
    pub(crate) agreed: &'static [&'static str],
    /// Variables that it is given where the user set none.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Those that it needs over devices in software, likewise.
    pub(crate) in_software: &'static [(&'static str, &'static str)],
}

/// Where a provider's devices are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Devices {
    /// Their folder in sysfs.
    pub(crate) class: &'static str,
    /// The variable in which a launcher lists those that the job was given rights for.
    pub(crate) granted: &'static str,
}

/// Providers over sockets keep to it when they are asked for manual data progress: then they start no thread of their own,
/// which would delay every operation, and a descriptor tells when a thread of ours must call.
const MANUAL_FIRST: &[u32] = &[sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
const AUTO_FIRST: &[u32] = &[sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];

/// The receives that rxm posts at once for a process: above sockets it would post 4096, of 16 KiB each, whose pages take most of the time
/// that a job of many ranks needs to start.
const RECEIVES: &[(&str, &str)] = &[("FI_OFI_RXM_MSG_RX_SIZE", "512")];

/// Also of what is opened where the user names no provider.
const OTHER: Rules = Rules {
    name: "",
    progress: AUTO_FIRST,
    mr_mode: sys::FI_MR_LOCAL | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY,
    ip: true,
    manual_is_manual: true,
    calls_at_target: None,
    fast_keys: 0,
    devices: None,
    agreed: &[],
    variables: RECEIVES,
    in_software: &[],
};

/// Slingshot. Regions are bound to the endpoint, addressed by offsets, and pinned; keys are ours, the small ones those of
/// optimized regions. Manual progress is the only kind that it has, although its device performs puts, gets and atomics by itself: so
/// that is tried. Authorization comes from the launcher's variables, sizes of queues from the user's, by asking for none.
const CXI: Rules = Rules {
    name: "cxi",
    progress: &[sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_UNSPEC],
    mr_mode: sys::FI_MR_ENDPOINT | sys::FI_MR_ALLOCATED,
    ip: false,
    manual_is_manual: false,
    calls_at_target: Some("FI_CXI_MR_MATCH_EVENTS"),
    fast_keys: 100,
    devices: Some(Devices { class: "/sys/class/cxi", granted: "SLINGSHOT_DEVICES" }),
    agreed: &["FI_CXI_OPTIMIZED_MRS"],
    variables: &[],
    in_software: &[],
};

/// InfiniBand and RoCE through libfabric. Its completion queues are one entry too long for Soft-RoCE unless fewer peers are expected.
const VERBS: Rules =
    Rules { name: "verbs;ofi_rxm", ip: false, variables: &[], in_software: &[("FI_UNIVERSE_SIZE", "16")], ..OTHER };

/// Those that are tried where the user names none, in that order.
pub(crate) const TABLE: [Rules; 6] = [
    CXI,
    Rules { name: "tcp;ofi_rxm", progress: MANUAL_FIRST, ..OTHER },
    Rules { name: "tcp", progress: MANUAL_FIRST, ..OTHER },
    Rules { name: "net", ..OTHER },
    Rules { name: "sockets", ..OTHER },
    // Last: where every rank has such a device, libibverbs was taken before, unless the user wants this one by its name.
    VERBS,
];

/// The rules of a provider.
pub(crate) fn of(name: &str) -> &'static Rules {
    const OTHERS: &Rules = &OTHER;
    const KNOWN: &[Rules] = &TABLE;
    KNOWN.iter().find(|rules| rules.name == name).unwrap_or(OTHERS)
}

/// What `fi_getinfo` is asked for. What is not here is left to the provider and to the user's variables: order (none),
/// sizes of queues, keys of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hints<'h> {
    pub(crate) provider: &'h str,
    /// The address of the interface.
    pub(crate) node: Option<&'h str>,
    pub(crate) caps: u64,
    pub(crate) mr_mode: c_int,
    pub(crate) progress: u32,
}

impl Rules {
    /// Every way to ask for `provider`, the best first: atomics matter more than the progress.
    pub(crate) fn hints<'h>(
        &self,
        provider: &'h str,
        source: Option<&'h str>,
        progress: &'h [u32],
    ) -> impl Iterator<Item = Hints<'h>> {
        let (mr_mode, node) = (self.mr_mode, source.filter(|_| self.ip));
        [sys::FI_ATOMIC, 0].into_iter().flat_map(move |atomics| {
            let caps = sys::FI_MSG | sys::FI_RMA | atomics;
            progress.iter().map(move |&progress| Hints { provider, node, caps, mr_mode, progress })
        })
    }

    /// Whether targets must call where data progress is `manual`, without trying it.
    pub(crate) fn targets_call(&self, manual: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
        manual && (self.manual_is_manual || self.calls_at_target.and_then(variable).is_some_and(|value| is_on(&value)))
    }

    /// What all ranks must have the same of.
    pub(crate) fn agreement(&self, name: &str, variable: impl Fn(&str) -> Option<String>) -> String {
        let set = self.agreed.iter().filter_map(|key| Some(format!(" {key}={}", variable(key)?)));
        std::iter::once(name.to_owned()).chain(set).collect()
    }
}

/// Whether libfabric takes a variable's value for yes.
fn is_on(value: &str) -> bool {
    ["1", "yes", "true", "on"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unset(_: &str) -> Option<String> {
        None
    }

    /// Man fi_cxi: "Memory registration modes", "Progress"; what it advises against is not asked for: order, fences, events at targets.
    /// Shows T3.
    #[test]
    fn cxi_is_asked_as_its_documentation_says() {
        let rules = of("cxi");
        let hints: Vec<_> = rules.hints("cxi", Some("127.0.0.1"), rules.progress).collect();
        let first = Hints {
            provider: "cxi",
            node: None,
            caps: sys::FI_MSG | sys::FI_RMA | sys::FI_ATOMIC,
            mr_mode: 1 << 9 | 1 << 5,
            progress: sys::FI_PROGRESS_MANUAL,
        };
        assert_eq!(hints.first(), Some(&first));
        assert!(hints.iter().all(|hints| hints.progress != sys::FI_PROGRESS_AUTO && hints.node.is_none()));
    }

    /// Shows T3.
    #[test]
    fn providers_over_sockets_are_asked_for_their_interface_and_atomics_first() {
        let rules = of("tcp;ofi_rxm");
        let hints: Vec<_> = rules.hints("tcp;ofi_rxm", Some("10.0.0.1"), rules.progress).collect();
        let asked: Vec<_> = hints.iter().map(|hints| (hints.caps & sys::FI_ATOMIC != 0, hints.progress)).collect();
        let order = [sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
        assert_eq!(asked, [order.map(|progress| (true, progress)), order.map(|progress| (false, progress))].concat());
        assert!(hints.iter().all(|hints| hints.node == Some("10.0.0.1")));
        assert!(
            of("verbs;ofi_rxm").hints("verbs;ofi_rxm", Some("10.0.0.1"), AUTO_FIRST).all(|hints| hints.node.is_none())
        );
    }

    /// The word of a provider over sockets is believed; Slingshot's is tried, unless the user asked for what targets must follow
    /// (man fi_cxi, `FI_CXI_MR_MATCH_EVENTS`).
    /// Shows T3, S5.
    #[test]
    fn manual_progress_means_what_the_provider_makes_of_it() {
        let said = |value: &'static str| move |name: &str| (name == "FI_CXI_MR_MATCH_EVENTS").then(|| value.to_owned());
        assert!(of("tcp;ofi_rxm").targets_call(true, unset) && !of("tcp;ofi_rxm").targets_call(false, unset));
        assert!(!of("cxi").targets_call(true, unset));
        assert!(!of("cxi").targets_call(true, said("0")));
        assert!(of("cxi").targets_call(true, said("1")) && of("cxi").targets_call(true, said("true")));
    }

    /// Man fi_cxi, "Optimized MRs": processes that communicate agree on them.
    /// Shows T3.
    #[test]
    fn ranks_agree_on_optimized_regions() {
        let set = |name: &str| (name == "FI_CXI_OPTIMIZED_MRS").then(|| "0".to_owned());
        assert_eq!(of("cxi").agreement("cxi", set), "cxi FI_CXI_OPTIMIZED_MRS=0");
        assert_eq!(of("cxi").agreement("cxi", unset), "cxi");
        assert_eq!(of("tcp").agreement("tcp", set), "tcp");
    }
}
