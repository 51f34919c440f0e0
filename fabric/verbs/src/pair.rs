//! Queue pairs: one for datagrams, and one for each connected peer.

use std::ffi::c_int;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use transom_fabric::{FabricError, Peer};

use crate::address::{Address, End};
use crate::device::{Device, checked, failed, opaque_debug};
use crate::queue::{CompletionQueue, SharedReceiveQueue};
use crate::sys;

/// The queue key of all datagrams. The token of a hello, not this key, keeps strangers out.
const QKEY: u32 = 0x1172_0a4d;
/// The time after which a sender repeats a message for which no receive was posted: 0.64 ms (man
/// ibv_modify_qp, table of RNR timers).
const RNR_PAUSE: u8 = 12;
/// A message without a posted receive is retried without limit, because its receiver is alive.
const RNR_RETRY: u8 = 7;
/// Largest exponent of a timeout.
const LONGEST: u8 = 31;
/// Retransmissions of an unanswered packet. Not the maximum 7, which Soft-RoCE interprets as
/// "without limit".
const RETRY: u8 = 6;

/// Attempts to resolve a peer's link address. On RoCE the kernel sends one request per attempt and
/// waits one second, so with a single attempt one lost packet would fail the connection.
const RESOLUTIONS: usize = 4;

/// A queue pair.
pub(crate) struct Pair {
    qp: *mut sys::ibv_qp,
    /// `ibv_post_send`, from the context's table.
    post: unsafe extern "C" fn(*mut sys::ibv_qp, *mut sys::ibv_send_wr, *mut *mut sys::ibv_send_wr) -> c_int,
    queue: Arc<CompletionQueue>,
    /// Keeps a connection's shared receives open.
    _receives: Option<Arc<SharedReceiveQueue>>,
}

/// The address handle of a peer, by which datagrams reach the peer.
pub(crate) struct AddressHandle {
    ah: *mut sys::ibv_ah,
    device: Arc<Device>,
}

/// The capacity of a queue pair (`ibv_qp_cap`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Most work requests in flight.
    pub(crate) sends: u32,
    /// Most receives that belong to this queue pair alone.
    pub(crate) receives: u32,
    /// Most inline bytes of a request.
    pub(crate) inline: u32,
    /// Most ranges of memory of a request.
    pub(crate) list: u32,
}

/// The retransmission of packets that the peer leaves unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retransmission {
    /// The exponent e of the retransmission timeout, which is 4.096 us times 2 to the power e.
    pub(crate) timeout: u8,
}

opaque_debug!(Pair, AddressHandle);

impl Retransmission {
    /// The timeout with which all retransmissions of an unanswered packet take at most `silence`.
    pub(crate) fn of(silence: Duration) -> Retransmission {
        let each = silence.as_nanos() / (u128::from(RETRY) + 1) / 4096;
        Retransmission { timeout: u8::try_from(each.max(2).ilog2()).unwrap_or(LONGEST).min(LONGEST) }
    }
}

impl Pair {
    /// A queue pair for a reliable connection to `peer`, and the most inline bytes of its requests.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn reliable(
        queue: &Arc<CompletionQueue>,
        receives: &Arc<SharedReceiveQueue>,
        capacity: Capacity,
        peer: Peer,
    ) -> Result<(Pair, usize), FabricError> {
        let (pair, inline) = Pair::create(queue, Some(receives), capacity, peer.index() + 1)?;
        pair.initialize()?;
        Ok((pair, inline))
    }

    /// Prepares a new or reset pair for a reliable connection.
    fn initialize(&self) -> Result<(), FabricError> {
        let device = &self.queue.device;
        let mut attributes = blank();
        attributes.qp_state = sys::IBV_QPS_INIT;
        attributes.port_num = device.port.port;
        attributes.pkey_index = device.partition;
        attributes.qp_access_flags = device.peer_access();
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
        self.modify("ibv_modify_qp to INIT", &mut attributes, mask)
    }

    /// A queue pair for datagrams, ready for use.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn datagram(queue: &Arc<CompletionQueue>, capacity: Capacity) -> Result<Pair, FabricError> {
        let (pair, _) = Pair::create(queue, None, capacity, 0)?;
        let mut attributes = blank();
        attributes.qp_state = sys::IBV_QPS_INIT;
        attributes.port_num = queue.device.port.port;
        attributes.pkey_index = queue.device.partition;
        attributes.qkey = QKEY;
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_QKEY;
        pair.modify("ibv_modify_qp to INIT", &mut attributes, mask)?;
        attributes.qp_state = sys::IBV_QPS_RTR;
        pair.modify("ibv_modify_qp to RTR", &mut attributes, sys::IBV_QP_STATE)?;
        attributes.qp_state = sys::IBV_QPS_RTS;
        pair.modify("ibv_modify_qp to RTS", &mut attributes, sys::IBV_QP_STATE | sys::IBV_QP_SQ_PSN)?;
        Ok(pair)
    }

    /// A queue pair: for a reliable connection if it uses the shared `receives`, else for
    /// datagrams. Events of the device about the pair return `tag`.
    fn create(
        queue: &Arc<CompletionQueue>,
        receives: Option<&Arc<SharedReceiveQueue>>,
        capacity: Capacity,
        tag: usize,
    ) -> Result<(Pair, usize), FabricError> {
        let device = &queue.device;
        let mut attributes = sys::ibv_qp_init_attr {
            qp_context: std::ptr::without_provenance_mut(tag),
            send_cq: queue.cq,
            recv_cq: queue.cq,
            srq: receives.map_or(std::ptr::null_mut(), |receives| receives.srq),
            cap: sys::ibv_qp_cap {
                max_send_wr: capacity.sends,
                max_recv_wr: capacity.receives,
                max_send_sge: capacity.list,
                max_recv_sge: 1,
                max_inline_data: capacity.inline,
            },
            qp_type: if receives.is_some() { sys::IBV_QPT_RC } else { sys::IBV_QPT_UD },
            sq_sig_all: 0,
        };
        // SAFETY: open objects, which the pair keeps open; an open context's table has its
        // functions.
        unsafe {
            let qp = (device.library.call.create_qp)(device.pd, &raw mut attributes);
            if qp.is_null() {
                return Err(failed(format!("ibv_create_qp of {capacity:?}")));
            }
            let post = (*device.context).ops.post_send.expect("post_send");
            let pair = Pair { qp, post, queue: Arc::clone(queue), _receives: receives.cloned() };
            Ok((pair, attributes.cap.max_inline_data as usize))
        }
    }

    fn modify(&self, what: &str, attributes: &mut sys::ibv_qp_attr, mask: c_int) -> Result<(), FabricError> {
        self.change(attributes, mask).map_err(|error| FabricError::failed(what, error))
    }

    fn change(&self, attributes: &mut sys::ibv_qp_attr, mask: c_int) -> Result<(), Error> {
        // SAFETY: an open queue pair.
        match unsafe { (self.queue.device.library.call.modify_qp)(self.qp, attributes, mask) } {
            0 => Ok(()),
            status => Err(Error::from_raw_os_error(status.abs())),
        }
    }

    /// Connects this initialized pair, the half `mine`, to the half `theirs` at `address`.
    /// Afterwards this half can receive, and can send once the other half is connected too.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn connect(
        &self,
        mine: End,
        theirs: End,
        address: &Address,
        retransmission: Retransmission,
    ) -> Result<(), FabricError> {
        let device = &self.queue.device;
        let own = device.address(0, 0);
        let mut attributes = blank();
        attributes.qp_state = sys::IBV_QPS_RTR;
        attributes.path_mtu = u32::from(own.mtu.min(address.mtu));
        attributes.dest_qp_num = theirs.number;
        attributes.rq_psn = theirs.psn;
        attributes.max_dest_rd_atomic = own.reads;
        attributes.min_rnr_timer = RNR_PAUSE;
        attributes.ah_attr = device.address_vector(address);
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_AV | sys::IBV_QP_PATH_MTU | sys::IBV_QP_DEST_QPN;
        let mask = mask | sys::IBV_QP_RQ_PSN | sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER;
        resolving("ibv_modify_qp to RTR", || self.change(&mut attributes, mask))?;
        let reads = u8::try_from(device.attributes.max_qp_init_rd_atom.clamp(1, 16)).unwrap_or(1);
        attributes.qp_state = sys::IBV_QPS_RTS;
        attributes.timeout = retransmission.timeout;
        attributes.retry_cnt = RETRY;
        attributes.rnr_retry = RNR_RETRY;
        attributes.sq_psn = mine.psn;
        attributes.max_rd_atomic = reads.min(address.reads);
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_TIMEOUT | sys::IBV_QP_RETRY_CNT | sys::IBV_QP_RNR_RETRY;
        let mask = mask | sys::IBV_QP_SQ_PSN | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("ibv_modify_qp to RTS", &mut attributes, mask)
    }

    /// Puts the pair back into the state before [`Pair::connect`], which may have performed the
    /// first of its steps. No request was posted to the pair.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn disconnect(&self) -> Result<(), FabricError> {
        self.reset()?;
        self.initialize()
    }

    /// Moves the pair to the error state: it receives nothing more, and requests in flight that the
    /// peer has not acknowledged complete with errors.
    pub(crate) fn set_error(&self) {
        let mut attributes = blank();
        attributes.qp_state = sys::IBV_QPS_ERR;
        // `reset` follows, and reports a failure.
        let _ = self.modify("ibv_modify_qp to ERR", &mut attributes, sys::IBV_QP_STATE);
    }

    /// Removes all requests from the pair: afterwards the device uses no buffer of them, and makes
    /// no completion (InfiniBand Architecture Specification, volume 1, "Queue pair states: reset").
    /// The pair's completions that were not polled may be lost.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn reset(&self) -> Result<(), FabricError> {
        let mut attributes = blank();
        attributes.qp_state = sys::IBV_QPS_RESET;
        self.modify("ibv_modify_qp to RESET", &mut attributes, sys::IBV_QP_STATE)
    }

    /// The pair's number, to which peers connect.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: open until drop.
        unsafe { (*self.qp).qp_num }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// The error number in words.
    ///
    /// # Safety
    /// The request is well-formed. Local bytes that are not inline belong to the device until the
    /// completion.
    #[inline]
    pub(crate) unsafe fn post(&self, request: &mut sys::ibv_send_wr) -> Result<(), Error> {
        let mut bad = std::ptr::null_mut();
        // SAFETY: an open queue pair of this table's context; the caller promises the rest.
        match unsafe { (self.post)(self.qp, request, &raw mut bad) } {
            0 => Ok(()),
            status => Err(Error::from_raw_os_error(status.abs())),
        }
    }

    /// Posts a receive to the pair itself.
    ///
    /// # Safety
    /// The bytes belong to the device until the completion.
    pub(crate) unsafe fn post_receive(&self, id: u64, mut sge: sys::ibv_sge) -> Result<(), FabricError> {
        let mut request = sys::ibv_recv_wr { wr_id: id, next: std::ptr::null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: an open queue pair; the call copies the request; the caller promises the bytes.
        let status = unsafe {
            let post = (*self.queue.device.context).ops.post_recv.expect("post_recv");
            post(self.qp, &raw mut request, &raw mut bad)
        };
        checked("ibv_post_recv", status)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once.
        unsafe {
            let _ = (self.queue.device.library.call.destroy_qp)(self.qp);
        }
    }
}

impl AddressHandle {
    /// An address handle for an address.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn create(device: &Arc<Device>, to: &Address) -> Result<AddressHandle, FabricError> {
        let mut vector = device.address_vector(to);
        let ah = resolving("ibv_create_ah", || {
            // SAFETY: an open domain.
            let ah = unsafe { (device.library.call.create_ah)(device.pd, &raw mut vector) };
            if ah.is_null() { Err(Error::last_os_error()) } else { Ok(ah) }
        })?;
        Ok(AddressHandle { ah, device: Arc::clone(device) })
    }

    /// The target of a datagram to the queue pair `number`.
    pub(crate) fn target(&self, number: u32) -> sys::Target {
        sys::Target { ud: sys::Datagram { ah: self.ah, remote_qpn: number, remote_qkey: QKEY } }
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once.
        unsafe {
            let _ = (self.device.library.call.destroy_ah)(self.ah);
        }
    }
}

/// Makes `call`, named `what` in errors, in which the kernel resolves a peer's link address.
/// Repeats the call if the resolution times out.
fn resolving<T>(what: &str, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, FabricError> {
    let mut tries = 1;
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::TimedOut && tries < RESOLUTIONS => tries += 1,
            outcome => return outcome.map_err(|error| FabricError::failed(what, error)),
        }
    }
}

fn blank() -> sys::ibv_qp_attr {
    // SAFETY: numbers, for which all zeroes are valid.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_timed_out_address_resolutions_are_repeated() {
        let calls = |answers: &[Result<u32, i32>]| {
            let mut made = 0;
            let outcome = resolving("a call", || {
                made += 1;
                answers[made.min(answers.len()) - 1].map_err(Error::from_raw_os_error)
            });
            (made, outcome.map_err(|error| format!("{error:#}")))
        };
        let (late, unreachable) = (Err(Errno::TIMEDOUT.raw_os_error()), Err(Errno::HOSTUNREACH.raw_os_error()));
        assert_eq!(calls(&[late, late, Ok(7)]), (3, Ok(7)));
        let (made, outcome) = calls(&[late]);
        assert_eq!(made, RESOLUTIONS);
        assert!(outcome.unwrap_err().starts_with("a call: "));
        let (made, outcome) = calls(&[unreachable, Ok(7)]);
        assert_eq!(made, 1);
        assert!(outcome.unwrap_err().contains("os error 113"));
    }

    #[test]
    fn the_silence_covers_all_retransmissions() {
        let timeout = |silence| Retransmission::of(silence).timeout;
        // 7 tries of 4.096 us times 2^16 are 1.88 s.
        assert_eq!(timeout(Duration::from_secs(2)), 16);
        assert_eq!(timeout(Duration::from_millis(1870)), 15);
        assert_eq!(timeout(Duration::ZERO), 1);
        assert_eq!(timeout(Duration::MAX), LONGEST);
    }
}
