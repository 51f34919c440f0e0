//! The address at which other machines reach the ranks of this machine. The choice depends on the
//! existing interfaces, on the user's list, and on the number of other machines that an interface
//! reaches. The choice is pure: it opens no socket and sends nothing.

use crate::error::SettingError;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// The directory in which the kernel describes interfaces.
const CLASS: &str = "/sys/class/net";
/// The most addresses of a rank that are published, the best first.
const MOST: usize = 8;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// The number of leading bits that name the subnet.
    pub(crate) prefix: u8,
}

/// The addresses that a rank publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// A name that is equal for processes that see the same interfaces; empty if the kernel has
    /// none.
    pub(crate) network: String,
    /// The rank's addresses, the best first.
    pub(crate) interfaces: Vec<Interface>,
}

/// The user's choice of interfaces: names (`eth0`), addresses, or subnets (`10.1.0.0/16`). A `^`
/// before the list excludes them instead.
#[derive(Debug, Default)]
struct InterfaceList<'l> {
    exclude: bool,
    list: Vec<&'l str>,
}

impl Interface {
    /// The interface that reaches this machine only.
    pub(crate) fn loopback() -> Interface {
        Interface { name: "lo".into(), address: Ipv4Addr::LOCALHOST.into(), prefix: 8 }
    }

    /// Parses the form that [`fmt::Display`] gives.
    fn parse(text: &str) -> Option<Interface> {
        let (name, subnet) = text.split_once('=')?;
        let (address, prefix) = subnet_of(subnet)?;
        Some(Interface { name: name.to_owned(), address, prefix })
    }

    fn shares_subnet(&self, other: &Interface) -> bool {
        self.prefix == other.prefix && within(self.address, other.address, self.prefix)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/{}", self.name, self.address, self.prefix)
    }
}

impl Site {
    /// The addresses of this process, on the interfaces that `names` lists.
    pub(crate) fn own(names: Option<&str>) -> Site {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let network =
            boot.and_then(|boot| Ok(format!("{} {}", boot.trim(), std::fs::read_link("/proc/self/ns/net")?.display())));
        Site { network: network.unwrap_or_default(), interfaces: own(names).unwrap_or_default() }
    }

    pub(crate) fn encode(&self) -> String {
        let interfaces: Vec<_> = self.interfaces.iter().take(MOST).map(ToString::to_string).collect();
        format!("{}\n{}", self.network, interfaces.join("\n"))
    }

    /// Decodes the result of [`Site::encode`]; empty for other text.
    pub(crate) fn decode(text: &str) -> Site {
        let mut lines = text.lines();
        let network = lines.next().unwrap_or_default().to_owned();
        Site { network, interfaces: lines.filter_map(Interface::parse).collect() }
    }

    fn shares_interfaces(&self, other: &Site) -> bool {
        !self.network.is_empty() && self.network == other.network
    }
}

/// The interface by which other ranks reach rank `me`. It is loopback if all ranks are on one
/// machine and the user named no interface (`has_list`). Otherwise it is the interface whose subnet
/// contains most of the other machines, the best of equal ones, or loopback if the rank has no
/// interface.
pub(crate) fn choose(me: usize, sites: &[Site], has_list: bool) -> Interface {
    let own = &sites[me];
    let others: Vec<&Site> = sites
        .iter()
        .enumerate()
        .filter(|&(at, site)| at != me && !site.shares_interfaces(own))
        .map(|(_, site)| site)
        .collect();
    if others.is_empty() && !has_list {
        return Interface::loopback();
    }
    // Bridges of containers and virtual machines have one address on every machine, at which no
    // other machine can be reached.
    let repeated =
        |one: &Interface| others.iter().any(|site| site.interfaces.iter().any(|other| other.address == one.address));
    let kind = family(sites);
    let fits = |one: &&Interface| !repeated(one) && kind.is_none_or(|v4| one.address.is_ipv4() == v4);
    let reach = |one: &Interface| {
        let reached = others.iter().filter(|site| site.interfaces.iter().any(|other| other.shares_subnet(one)));
        reached.map(|site| &site.network).collect::<BTreeSet<_>>().len()
    };
    // `max_by_key` returns the last of equal maxima, so the order is reversed.
    let best = own.interfaces.iter().filter(fits).rev().max_by_key(|one| reach(one));
    best.or(own.interfaces.first()).cloned().unwrap_or_else(Interface::loopback)
}

/// Whether all ranks have IPv4 (`true`) or else IPv6 (`false`); `None` if they share neither.
fn family(sites: &[Site]) -> Option<bool> {
    let all = |v4| sites.iter().all(|site| site.interfaces.iter().any(|one| one.address.is_ipv4() == v4));
    [true, false].into_iter().find(|&v4| all(v4))
}

/// The addresses of this machine to publish, the best first: in the order of the user's list; then
/// devices before bridges and tunnels, the fast before the slow, IPv4 before IPv6, by name.
///
/// # Errors
/// The list names no interface of this machine; the error lists those that exist. Or the system
/// does not list its interfaces.
pub(crate) fn own(names: Option<&str>) -> Result<Vec<Interface>, SettingError> {
    let list = InterfaceList::parse(names.unwrap_or_default());
    let mut found: Vec<_> = all().map_err(|error| SettingError::Interfaces(error.into()))?;
    let there = found.iter().map(ToString::to_string).collect();
    found.retain(|one| list.place(one).is_some());
    if found.is_empty() && names.is_some() {
        return Err(SettingError::NoInterface(there));
    }
    found.sort_by_cached_key(|one| {
        let (device, speed) = device_and_speed(Path::new(CLASS), &one.name);
        (list.place(one), !device, std::cmp::Reverse(speed), one.address.is_ipv6(), one.name.clone())
    });
    Ok(found)
}

/// All addresses of interfaces that are up.
fn all() -> nix::Result<Vec<Interface>> {
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let interfaces = getifaddrs()?.filter(|one| one.flags.contains(up));
    Ok(interfaces
        .filter_map(|one| {
            let (address, mask) = (ip(&one.address?)?, ip(&one.netmask?)?);
            let prefix = match mask {
                IpAddr::V4(mask) => mask.to_bits().count_ones(),
                IpAddr::V6(mask) => mask.to_bits().count_ones(),
            };
            Some(Interface { name: one.interface_name, address, prefix: u8::try_from(prefix).ok()? })
        })
        .collect())
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

/// Whether an interface has a device behind it, and its speed in Mbit/s; 0 if the kernel does not
/// know the speed.
fn device_and_speed(class: &Path, name: &str) -> (bool, u32) {
    let folder = class.join(name);
    let speed = std::fs::read_to_string(folder.join("speed")).unwrap_or_default();
    (folder.join("device").exists(), speed.trim().parse().unwrap_or(0))
}

impl<'l> InterfaceList<'l> {
    fn parse(text: &'l str) -> InterfaceList<'l> {
        let (exclude, names) = text.strip_prefix('^').map_or((false, text), |names| (true, names));
        let list = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        InterfaceList { exclude, list: list.collect() }
    }

    /// The position of an address in the user's list, or 0 if the list names no addresses to
    /// publish; `None` for an address that may not be published. An address at which no other
    /// machine reaches this one is published only if the user names it.
    fn place(&self, one: &Interface) -> Option<usize> {
        let named = |entry: &&str| match subnet_of(entry) {
            Some((address, prefix)) => within(address, one.address, prefix),
            None => *entry == one.name,
        };
        match self.list.iter().position(named) {
            Some(place) if !self.exclude => Some(place),
            None if self.exclude || self.list.is_empty() => is_external(one.address).then_some(0),
            _ => None,
        }
    }
}

fn is_external(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    }
}

/// Parses a subnet as `10.1.0.0/16`, or an address, which is a subnet of its own.
fn subnet_of(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(most), |text| text.parse().ok().filter(|&prefix| prefix <= most))?;
    Some((address, prefix))
}

/// Whether two addresses agree in their first `prefix` bits.
fn within(one: IpAddr, other: IpAddr, prefix: u8) -> bool {
    let bits = |address| match address {
        IpAddr::V4(v4) => Ipv4Addr::to_bits(v4).into(),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    };
    let width = if one.is_ipv4() { 32 } else { 128 };
    let rest = width - u32::from(prefix).min(width);
    one.is_ipv4() == other.is_ipv4() && (bits(one) ^ bits(other)).checked_shr(rest).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(network: &str, interfaces: &str) -> Site {
        let interfaces = interfaces.split_whitespace().map(|one| Interface::parse(one).expect("name=address/prefix"));
        Site { network: network.into(), interfaces: interfaces.collect() }
    }

    fn chosen(sites: &[Site]) -> Vec<String> {
        (0..sites.len()).map(|me| choose(me, sites, false).address.to_string()).collect()
    }

    /// Shows T3.
    #[test]
    fn ranks_of_one_machine_stay_on_loopback_unless_asked() {
        let one = site("a", "eth0=10.0.0.1/24");
        assert_eq!(chosen(&[one.clone(), one.clone()]), ["127.0.0.1", "127.0.0.1"]);
        assert_eq!(choose(0, &[one.clone(), one.clone()], true), one.interfaces[0]);
        assert_eq!(choose(0, &[site("a", ""), site("b", "")], false), Interface::loopback());
        // Without a name from the kernel, the interfaces may be another machine's.
        let unknown = site("", "eth0=10.0.0.1/24");
        assert_eq!(chosen(&[unknown, site("", "eth0=10.0.0.2/24")]), ["10.0.0.1", "10.0.0.2"]);
    }

    /// Shows T3.
    #[test]
    fn the_subnet_that_most_share_is_taken() {
        let sites = [
            site("a", "ib0=10.9.0.1/24 eth0=10.0.0.1/24"),
            site("b", "eth0=10.0.0.2/24"),
            site("c", "ib0=10.9.0.3/24 eth0=10.0.0.3/24"),
        ];
        assert_eq!(chosen(&sites), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(chosen(&[sites[0].clone(), sites[2].clone()]), ["10.9.0.1", "10.9.0.3"], "the better of both");
        assert_eq!(chosen(&[site("a", "x=10.1.0.1/24"), site("b", "y=10.2.0.1/24")]), ["10.1.0.1", "10.2.0.1"]);
    }

    /// `docker0` is 172.17.0.1 on every machine.
    /// Shows T3.
    #[test]
    fn an_address_that_several_machines_have_is_not_used() {
        let sites =
            [site("a", "docker0=172.17.0.1/16 eth0=10.0.0.1/24"), site("b", "docker0=172.17.0.1/16 eth0=10.0.1.1/24")];
        assert_eq!(chosen(&sites), ["10.0.0.1", "10.0.1.1"]);
    }

    /// Shows T3.
    #[test]
    fn all_ranks_use_one_address_family_if_possible() {
        let both = site("a", "eth0=10.0.0.1/24 eth0=fd00::1/64");
        assert_eq!(chosen(&[both.clone(), site("b", "eth0=fd00::2/64")]), ["fd00::1", "fd00::2"]);
        assert_eq!(chosen(&[both.clone(), site("b", "e1=fd00::2/64 e0=10.7.0.2/24")]), ["10.0.0.1", "10.7.0.2"]);
    }

    /// `TRANSOM_NET_INTERFACES`.
    /// Shows T3.
    #[test]
    fn the_users_list_takes_names_addresses_and_subnets() {
        let place =
            |list: &str, one: &str| InterfaceList::parse(list).place(&Interface::parse(one).expect("an interface"));
        assert_eq!(place("ib0, eth0", "eth0=10.0.0.1/24"), Some(1));
        assert_eq!(place("10.9.0.0/16", "eth0=10.0.0.1/24"), None);
        assert_eq!(place("10.0.0.0/16", "eth0=10.0.7.1/24"), Some(0));
        assert_eq!(place("fd00::/8", "eth0=fd00::1/64"), Some(0));
        assert_eq!(place("10.0.0.1", "eth0=10.0.0.1/24"), Some(0));
        assert_eq!(place("^eth0", "eth0=10.0.0.1/24"), None);
        assert_eq!(place("^eth0", "eth1=10.0.0.1/24"), Some(0));
        assert_eq!(["", "^x", "lo"].map(|list| place(list, "lo=127.0.0.1/8")), [None, None, Some(0)]);
        assert_eq!(place("", "eth0=169.254.0.9/16").or(place("", "eth0=fe80::1/64")), None);
    }

    #[test]
    fn published_addresses_round_trip() {
        let own = site("boot net:[4026531840]", "eth0=10.0.0.1/24 ib0=fd00::1/64");
        assert_eq!(Site::decode(&own.encode()), own);
        assert_eq!(Site::decode(&Site::default().encode()), Site::default());
    }

    #[test]
    fn a_list_without_an_interface_is_an_error_that_names_the_existing_ones() {
        let error = own(Some("no-such-interface")).expect_err("there is none of that name");
        assert!(error.to_string().contains("lo=127.0.0.1/8"), "{error}");
        let lo = own(Some("lo")).expect("every machine has one");
        assert!(lo.iter().all(|one| one.address.is_loopback()), "{lo:?}");
    }
}
