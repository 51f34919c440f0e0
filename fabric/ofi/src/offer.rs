//! A provider's attributes as plain data, and the resulting registration of memory, keys and limits
//! of a port. A probe tests the attributes.

use std::ffi::c_int;

use transom_fabric::{KeyChoice, KeyRange};

use crate::library::Info;
use crate::sys;

/// The attributes that a provider states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The domain's name: that of a device or of an interface.
    pub domain: String,
    /// Whether the provider offers remote atomics.
    pub atomics: bool,
    /// The longest message that is copied at once, in bytes.
    pub inject: usize,
    /// The longest transfer, in bytes.
    pub transfer: usize,
    /// The most local buffers of one operation.
    pub list: usize,
    /// The most posted receives.
    pub receives: usize,
    /// Order kept between operations on one peer, as bits (man fi_endpoint).
    pub order: u64,
    /// A write follows earlier writes of at most this many bytes, if the order says that it
    /// follows.
    pub follow: usize,
    /// The bytes of remote CQ data that an operation can carry.
    pub data: usize,
    /// The registration mode bits (man fi_mr).
    pub mr_mode: i32,
    /// The length of a region's key in bytes.
    pub key_bytes: usize,
    /// Whether the endpoint is opened with manual progress: the provider requires it, or works best
    /// with it.
    pub manual_progress: bool,
}

/// How memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registering {
    /// Whether regions are bound to the endpoint and enabled.
    pub(crate) bound: bool,
    /// Whether peers address a region by the owner's addresses instead of offsets.
    pub(crate) addresses: bool,
    /// Whether origin buffers must be registered too.
    pub(crate) local: bool,
    /// Whether pages must be populated before registration.
    pub(crate) populated: bool,
    /// The keys to request.
    pub(crate) keys: KeyRange,
}

/// The registration modes and their names.
const MODES: [(c_int, &str); 10] = [
    (sys::FI_MR_LOCAL, "FI_MR_LOCAL"),
    (1 << 3, "FI_MR_RAW"),
    (sys::FI_MR_VIRT_ADDR, "FI_MR_VIRT_ADDR"),
    (sys::FI_MR_ALLOCATED, "FI_MR_ALLOCATED"),
    (sys::FI_MR_PROV_KEY, "FI_MR_PROV_KEY"),
    (1 << 7, "FI_MR_MMU_NOTIFY"),
    (1 << 8, "FI_MR_RMA_EVENT"),
    (sys::FI_MR_ENDPOINT, "FI_MR_ENDPOINT"),
    (sys::FI_MR_HMEM, "FI_MR_HMEM"),
    (1 << 11, "FI_MR_COLLECTIVE"),
];

impl Offer {
    /// The attributes in an entry of the library.
    pub(crate) fn of(info: &Info) -> Offer {
        let (domain, transmit) = (info.domain(), info.transmit());
        Offer {
            domain: info.domain_name(),
            atomics: info.main().caps & sys::FI_ATOMIC != 0,
            inject: transmit.inject_size,
            list: transmit.iov_limit,
            transfer: info.endpoint().max_msg_size,
            receives: info.receive().size,
            order: info.order(),
            // Those of reads after writes, writes after reads, and writes after writes.
            follow: info.endpoint().max_order[2],
            data: domain.cq_data_size,
            mr_mode: domain.mr_mode,
            key_bytes: domain.mr_key_size,
            manual_progress: domain.data_progress == sys::FI_PROGRESS_MANUAL,
        }
    }

    /// Whether a message arrives after the writes that were posted before it to its peer.
    pub(crate) fn sends_follow_writes(&self) -> bool {
        self.order & sys::FI_ORDER_SAW != 0
    }

    /// Whether puts can carry notices of so many bytes, which arrive after earlier puts.
    pub(crate) fn can_carry(&self, bytes: usize) -> bool {
        self.data >= bytes && self.order & (sys::FI_ORDER_WAW | sys::FI_ORDER_RMA_WAW) != 0
    }

    /// How memory is registered. If the process chooses keys, keys below `fast` are the provider's
    /// fast ones.
    pub(crate) fn registering(&self, fast: u64) -> Registering {
        let has = |mode| self.mr_mode & mode != 0;
        let few = !has(sys::FI_MR_PROV_KEY) && (1..8).contains(&self.key_bytes);
        let keys = KeyRange { fast, end: 1 << (8 * (self.key_bytes % 8)), choice: KeyChoice::Reused };
        Registering {
            bound: has(sys::FI_MR_ENDPOINT),
            addresses: has(sys::FI_MR_VIRT_ADDR),
            local: has(sys::FI_MR_LOCAL),
            populated: has(sys::FI_MR_ALLOCATED),
            keys: if few { keys } else { KeyRange::SECRET },
        }
    }

    /// Checks that all required modes are among the `fulfilled` ones.
    ///
    /// # Errors
    /// The names of the missing modes.
    pub(crate) fn check(&self, fulfilled: c_int) -> Result<(), String> {
        let missing = self.mr_mode & !fulfilled;
        let names: Vec<_> = MODES.iter().filter(|(mode, _)| missing & mode != 0).map(|&(_, name)| name).collect();
        match missing {
            0 => Ok(()),
            _ => Err(format!(
                "the provider requires memory registration modes that are not supported ({missing:#x}: {})",
                names.join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    /// The attributes of the provider by man fi_cxi, and by its `fi_info` where the man page is
    /// silent: 4 bytes of client keys, pinned memory, no addresses.
    fn cxi() -> Offer {
        Offer {
            domain: "cxi0".into(),
            atomics: true,
            inject: 192,
            list: 1,
            transfer: (1 << 32) - 1,
            receives: 1024,
            order: 0,
            follow: usize::MAX,
            data: 8,
            mr_mode: sys::FI_MR_ENDPOINT | sys::FI_MR_ALLOCATED,
            key_bytes: 4,
            manual_progress: true,
        }
    }

    fn rxm() -> Offer {
        Offer { domain: "lo".into(), inject: 64, receives: 2048, mr_mode: 0, key_bytes: 8, ..cxi() }
    }

    /// Shows T3.
    #[test]
    fn cxis_regions_are_bound_pinned_and_reached_by_offsets() {
        let found = cxi().registering(rules::of("cxi").fast_keys);
        let keys = KeyRange { fast: 100, end: 1 << 32, choice: KeyChoice::Reused };
        assert_eq!(found, Registering { bound: true, addresses: false, local: false, populated: true, keys });
        assert_eq!(cxi().check(rules::of("cxi").fulfilled()), Ok(()));
    }

    /// On-demand paging (`FI_CXI_ODP`) removes a requirement; older versions have keys of 2 bytes.
    /// Shows T3.
    #[test]
    fn other_versions_and_modes_of_cxi_are_served_too() {
        let paged = Offer { mr_mode: sys::FI_MR_ENDPOINT, key_bytes: 2, ..cxi() };
        let found = paged.registering(100);
        assert_eq!((found.bound, found.populated, found.keys.end), (true, false, 1 << 16));
        assert_eq!(paged.check(rules::of("cxi").fulfilled()), Ok(()));
        let provider_keys = Offer { mr_mode: cxi().mr_mode | sys::FI_MR_PROV_KEY, key_bytes: 8, ..cxi() };
        assert_eq!(provider_keys.registering(100).keys, KeyRange::SECRET);
    }

    /// The order that a provider promises counts, and not the requested one. The bits are those of
    /// `tcp;ofi_rxm` without and with the hint.
    /// Shows T3.
    #[test]
    fn order_is_what_the_provider_promises() {
        assert!(!Offer { order: 0x124, ..rxm() }.sends_follow_writes());
        assert!(Offer { order: 0x1b7, ..rxm() }.sends_follow_writes());
        assert!(!cxi().sends_follow_writes());
    }

    /// Without order, the data of earlier puts could arrive after the notice. Shows T3.
    #[test]
    fn notices_need_room_and_order() {
        assert!(Offer { order: sys::FI_ORDER_RMA_WAW, ..cxi() }.can_carry(8));
        assert!(Offer { order: sys::FI_ORDER_WAW, ..cxi() }.can_carry(8));
        assert!(!cxi().can_carry(8));
        let four = Offer { order: sys::FI_ORDER_WAW, data: 4, ..cxi() };
        assert!(!four.can_carry(8) && four.can_carry(4));
    }

    /// Shows T3.
    #[test]
    fn unfulfilled_modes_are_named() {
        let wanting = Offer { mr_mode: cxi().mr_mode | 1 << 11 | sys::FI_MR_LOCAL, ..cxi() };
        let words = wanting.check(rules::of("cxi").fulfilled()).expect_err("other modes");
        assert!(words.contains("0x804: FI_MR_LOCAL, FI_MR_COLLECTIVE"), "{words}");
    }

    /// Shows T3.
    #[test]
    fn providers_over_sockets_require_no_registration_mode() {
        let found = rxm().registering(rules::of("tcp;ofi_rxm").fast_keys);
        let keys = KeyRange::SECRET;
        assert_eq!(found, Registering { bound: false, addresses: false, local: false, populated: false, keys });
    }
}
