//! The choice among a provider's devices, for providers of which each device is a domain: by the
//! devices that are granted to the job, the user's list, and nearness. Independent of libfabric
//! except for the names.

use std::path::Path;

use transom_fabric::devices::{self, DeviceList, Place};

use crate::rules::Devices;

/// A device that the provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    pub(crate) name: String,
    /// The nearest NUMA node, where the system gives one.
    pub(crate) numa_node: Option<u32>,
}

/// The criteria of the choice among several devices.
#[derive(Debug, Default)]
pub(crate) struct NicCriteria<'c> {
    /// The launcher's list of devices to which the job has rights; `None`: the launcher gave no
    /// list.
    pub(crate) granted: Option<&'c str>,
    /// The user's list.
    pub(crate) devices: &'c str,
    /// The place of this process, by which processes are distributed over equally good devices.
    pub(crate) place: Option<&'c Place>,
    /// Whether processes are distributed over equally good devices that the user has not joined by
    /// `+`. Otherwise all processes use the first of these devices.
    pub(crate) distributed: bool,
}

impl Devices {
    /// Whether this machine has such devices. False also if sysfs has no folder for these devices
    /// alone, so that this can't be told.
    pub(crate) fn are_here(&self) -> bool {
        self.is_own_class && !devices::entries(Path::new(self.class)).is_empty()
    }

    /// The device of a domain, with its attributes from sysfs.
    pub(crate) fn nic(&self, domain: &str) -> Nic {
        let stripped = self.suffixes.iter().find_map(|suffix| domain.strip_suffix(suffix));
        let name = stripped.unwrap_or(domain);
        let name = match name.strip_prefix(self.prefixes.0) {
            Some(rest) => format!("{}{rest}", self.prefixes.1),
            None => name.to_owned(),
        };
        let numa_node = devices::numa_node(&Path::new(self.class).join(&name));
        Nic { name, numa_node }
    }
}

impl NicCriteria<'_> {
    /// The index in `offered` of the device to use.
    ///
    /// # Errors
    /// No device may be used; the reason for each.
    pub(crate) fn choose(&self, offered: &[Nic]) -> Result<usize, String> {
        let devices = DeviceList::parse(self.devices)?;
        let granted = |nic: &Nic| self.granted.is_none_or(|list| list.split(',').any(|name| name.trim() == nic.name));
        let preference = |nic: &Nic| devices.preference(&nic.name, 1).filter(|_| granted(nic));
        let preferences: Vec<_> = offered.iter().map(preference).collect();
        let best = preferences.iter().flatten().min();
        // The library may offer a device several times, in variants that can't reach each other:
        // the first is the one that it prefers.
        let is_first = |at: usize| !offered[..at].iter().any(|nic| nic.name == offered[at].name);
        let is_equal = |&at: &usize| best.is_some() && preferences[at].as_ref() == best && is_first(at);
        let equal: Vec<usize> = (0..offered.len()).filter(is_equal).collect();
        if equal.is_empty() {
            let why = |nic: &Nic| match granted(nic) {
                true => format!("{} is excluded by TRANSOM_NET_DEVICES", nic.name),
                false => format!("{} is not among the devices that the launcher granted", nic.name),
            };
            let mut all: Vec<_> = offered.iter().map(why).collect();
            all.dedup();
            return Err(format!("no device can be used: {}", all.join("; ")));
        }
        let nodes: Vec<_> = equal.iter().map(|&at| offered[at].numa_node).collect();
        let is_joined = best.is_some_and(|&place| devices.is_one_network(place));
        let place = self.place.filter(|_| self.distributed || is_joined);
        Ok(equal[place.map_or(0, |place| place.share(&nodes))])
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::devices::Nodes;

    use super::*;
    use crate::rules;

    /// Four devices, two at each of two NUMA nodes.
    fn four() -> Vec<Nic> {
        (0..4).map(|number| Nic { name: format!("cxi{number}"), numa_node: Some(number / 2) }).collect()
    }

    /// The place of the `rank`th process of a machine, whose processes are bound to a NUMA node.
    fn place(node: u32, rank: usize) -> Place {
        Place { near: Nodes(1 << node), before: vec![Nodes(1 << node); rank] }
    }

    /// Shows T3.
    #[test]
    fn ranks_are_distributed_over_the_near_devices() {
        let of = |place: Place| {
            NicCriteria { place: Some(&place), distributed: true, ..NicCriteria::default() }.choose(&four())
        };
        assert_eq!([0, 1, 2].map(|rank| of(place(1, rank))), [Ok(2), Ok(3), Ok(2)]);
        let unbound = |rank| Place { near: Nodes(3), before: vec![Nodes(3); rank] };
        assert_eq!([0, 1, 2, 3, 4].map(|rank| of(unbound(rank))), [Ok(0), Ok(1), Ok(2), Ok(3), Ok(0)]);
    }

    /// Devices of RDMA, whose networks may not be connected: `verbs;ofi_rxm`.
    /// Shows T3.
    #[test]
    fn ranks_are_distributed_over_other_devices_if_the_user_joins_them() {
        let of = |devices, rank| {
            NicCriteria { devices, place: Some(&place(1, rank)), ..NicCriteria::default() }.choose(&four())
        };
        assert_eq!([0, 1].map(|rank| of("", rank)), [Ok(0), Ok(0)], "not distributed");
        assert_eq!([0, 1, 2].map(|rank| of("cxi1+cxi2+cxi3", rank)), [Ok(2), Ok(3), Ok(2)]);
        assert_eq!([0, 1].map(|rank| of("cxi0,cxi2+cxi3", rank)), [Ok(0), Ok(0)], "one device is preferred");
    }

    /// `verbs;ofi_rxm` offers a device once for each of its addresses, in families that do not
    /// reach each other.
    /// Shows T3.
    #[test]
    fn ranks_share_devices_and_not_their_variants() {
        let offered: Vec<Nic> = four().into_iter().flat_map(|nic| [nic.clone(), nic]).collect();
        let of = |rank| {
            let place = Place { before: vec![Nodes(0); rank], ..Place::default() };
            NicCriteria { devices: "cxi1+cxi2", place: Some(&place), ..NicCriteria::default() }.choose(&offered)
        };
        assert_eq!([0, 1, 2].map(of), [Ok(2), Ok(4), Ok(2)]);
    }

    /// `TRANSOM_NET_DEVICES`.
    /// Shows T3.
    #[test]
    fn the_users_list_decides() {
        let of = |devices, rank| {
            let place = place(0, rank);
            NicCriteria { devices, place: Some(&place), distributed: true, ..NicCriteria::default() }.choose(&four())
        };
        assert_eq!([of("cxi3,cxi0", 0), of("cxi3,cxi0", 1)], [Ok(3), Ok(3)]);
        assert_eq!([of("^cxi0", 0), of("^cxi0", 1)], [Ok(1), Ok(1)]);
        let error = of("mlx5_0", 0).expect_err("a device of others");
        assert!(error.contains("cxi0 is excluded by TRANSOM_NET_DEVICES"), "{error}");
        assert!(of("cxi0:x", 0).is_err());
    }

    /// Domains of `efa` and `verbs` are named after devices and kinds of endpoints, those of `opx`
    /// after units.
    /// Shows T3.
    #[test]
    fn the_names_of_domains_tell_the_devices() {
        let device = |provider: &str, domain: &str| rules::of(provider).devices.expect("devices").nic(domain).name;
        assert_eq!([device("efa", "rdmap0s6-rdm"), device("efa", "rdmap0s6-direct")], ["rdmap0s6", "rdmap0s6"]);
        assert_eq!([device("opx", "ib0"), device("opx", "hfi1_1")], ["hfi1_0", "hfi1_1"]);
        let verbs = |domain| device("verbs;ofi_rxm", domain);
        assert_eq!([verbs("mlx5_0"), verbs("mlx5_1-xrc"), device("cxi", "cxi2")], ["mlx5_0", "mlx5_1", "cxi2"]);
    }

    /// Man fi_cxi, "Authorization Keys": a launcher's keys are for the devices that it names.
    /// Shows T3.
    #[test]
    fn only_devices_that_the_launcher_granted_are_used() {
        let of = |granted, rank| {
            let place = Place { before: vec![Nodes(0); rank], ..Place::default() };
            NicCriteria { granted, place: Some(&place), distributed: true, ..NicCriteria::default() }.choose(&four())
        };
        assert_eq!([0, 1, 2].map(|rank| of(Some("cxi1,cxi3"), rank)), [Ok(1), Ok(3), Ok(1)]);
        let error = of(Some("cxi9"), 0).expect_err("none of these");
        assert!(error.contains("cxi2 is not among the devices that the launcher granted"), "{error}");
    }
}
