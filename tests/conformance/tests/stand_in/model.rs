//! The providers as their manual pages document them. Where a page is silent, the model takes the
//! least that the interface allows.

use std::ffi::{CStr, c_int};

use transom_ofi::sys;

/// Regions that are fast in `cxi`: those with keys below 100, fewer than keys.
pub(crate) const FAST: usize = 60;

/// The properties of a provider.
pub(super) struct Model {
    pub(super) name: &'static CStr,
    /// The devices, each of them a domain.
    pub(super) devices: &'static [&'static str],
    /// The registration modes, which the caller must fulfil (man fi_mr).
    pub(super) mr_mode: c_int,
    /// Modes that the provider uses if the caller fulfils them.
    pub(super) mr_mode_accepted: c_int,
    /// The length of keys that the caller chooses.
    pub(super) key_bytes: usize,
    /// The length of an address.
    pub(super) address: usize,
    /// The words of an operation's context that are the provider's until the completion
    /// (`FI_CONTEXT`: 4, `FI_CONTEXT2`: 8).
    pub(super) context: usize,
    /// Whether automatic progress can be requested.
    pub(super) automatic: bool,
    /// Whether the device performs operations on a target that makes no call.
    pub(super) passive: bool,
    /// Whether the device may have no room for another region whose key is below 100.
    pub(super) few_fast: bool,
    /// The longest message of one copy.
    pub(super) inject: usize,
    /// Whether each registered region must be writable, whatever the requested rights.
    pub(super) writes: bool,
    /// Whether the domain has `fi_query_atomic`, a function of later versions.
    pub(super) queries: bool,
    /// The bytes of remote CQ data that messages and writes carry, and whether writes take data
    /// only with the user's permission.
    pub(super) data: (usize, bool),
    /// The order that the provider keeps if the caller requests it, between operations of at most
    /// this many bytes.
    pub(super) orders: (u64, usize),
}

/// The values of most providers.
const PLAIN: Model = Model {
    name: c"",
    devices: &[],
    mr_mode: 0,
    mr_mode_accepted: 0,
    key_bytes: 8,
    address: 0,
    context: 0,
    automatic: false,
    passive: false,
    few_fast: false,
    inject: 64,
    writes: false,
    queries: true,
    data: (0, false),
    orders: (0, 0),
};

/// Slingshot: man fi_cxi, and libfabric's pull request 11684 (version 2.5). The provider chooses
/// keys if the caller requests it, keeps order between writes on request, and always states its 8
/// bytes of remote CQ data. Writes take data only if the user permits it and the provider chooses
/// the keys.
const CXI: Model = Model {
    name: c"cxi",
    devices: &["cxi0", "cxi1"],
    mr_mode: sys::FI_MR_ENDPOINT | sys::FI_MR_ALLOCATED,
    mr_mode_accepted: sys::FI_MR_PROV_KEY,
    key_bytes: 4,
    address: 8,
    passive: true,
    few_fast: true,
    inject: 192,
    data: (8, true),
    orders: (sys::FI_ORDER_RMA_WAW, usize::MAX),
    ..PLAIN
};

/// Elastic Fabric Adapter: man fi_efa. It has no inject, claims automatic progress in error, and
/// uses the caller's descriptors if the caller offers to register its buffers (`FI_MR_LOCAL`).
/// Where the device writes to peers, each region must be writable.
const EFA: Model = Model {
    name: c"efa",
    devices: &["rdmap0s6-rdm", "rdmap0s7-rdm"],
    mr_mode: sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY,
    mr_mode_accepted: sys::FI_MR_LOCAL,
    address: 32,
    automatic: true,
    inject: 0,
    writes: true,
    ..PLAIN
};

/// Omni-Path: man fi_opx. It requires `FI_CONTEXT2` and the scalable mode. Its domain's table has
/// no `fi_query_atomic`.
const OPX: Model = Model {
    name: c"opx",
    devices: &["ib0", "ib1"],
    mr_mode: sys::FI_MR_SCALABLE,
    address: 8,
    context: 8,
    automatic: true,
    queries: false,
    ..PLAIN
};

/// Intel Ethernet: man fi_psm3. It requires `FI_CONTEXT` for messages. If the caller requests
/// remote CQ data, writes carry 4 bytes, and order between writes ends at 4096 bytes (`fi_info`).
/// Entries are in memory, without a queue of events before the completion queue.
const PSM3: Model = Model {
    name: c"psm3",
    devices: &["irdma0"],
    mr_mode: sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY,
    address: 16,
    context: 4,
    automatic: true,
    data: (4, false),
    orders: (sys::FI_ORDER_RMA_WAW, 4096),
    ..PLAIN
};

/// Processes of one machine: man fi_shm. Addresses are names.
const SHM: Model =
    Model { name: c"shm", devices: &["shm"], mr_mode: sys::FI_MR_VIRT_ADDR, address: 24, inject: 4096, ..PLAIN };

/// Linked providers: man fi_lnx. An address holds those of all links.
const LNX: Model = Model {
    name: c"lnx",
    devices: &["shm+cxi0"],
    mr_mode: sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY,
    address: 400,
    ..PLAIN
};

/// InfiniBand through libfabric: man fi_verbs and fi_rxm.
const VERBS: Model = Model {
    name: c"verbs;ofi_rxm",
    devices: &["mlx5_0", "mlx5_1"],
    mr_mode: sys::FI_MR_LOCAL | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY,
    mr_mode_accepted: 0,
    address: 16,
    passive: true,
    inject: 64,
    writes: false,
    ..EFA
};

static MODELS: [Model; 7] = [CXI, EFA, OPX, PSM3, SHM, LNX, VERBS];

impl Model {
    /// The model of a provider's name.
    pub(super) fn of(name: &CStr) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    pub(super) fn has(&self, mode: c_int) -> bool {
        self.mr_mode & mode != 0
    }

    /// The modes of the interface that the caller must support (man fi_getinfo).
    pub(super) fn mode(&self) -> u64 {
        match self.context {
            0 => 0,
            4 => sys::FI_CONTEXT,
            _ => sys::FI_CONTEXT2,
        }
    }
}
