//! The parts of libibverbs' binary interface that are used: layouts and constants of its headers, which are the same in
//! every version with the symbol version IBVERBS_1.1 (2008). Posting and polling are calls through the context's table, as in
//! the headers' inline functions (man ibv_post_send, ibv_poll_cq, ibv_create_qp_ex, ibv_modify_qp).

#![allow(missing_docs, missing_debug_implementations, non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

pub(crate) type Unused = Option<unsafe extern "C" fn()>;

pub(crate) const IBV_ATOMIC_HCA: u32 = 1;
pub(crate) const IBV_ATOMIC_GLOB: u32 = 2;

pub(crate) const IBV_LINK_LAYER_ETHERNET: u8 = 2;

pub(crate) const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub(crate) const IBV_ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(crate) const IBV_ACCESS_REMOTE_READ: c_int = 1 << 2;
pub(crate) const IBV_ACCESS_REMOTE_ATOMIC: c_int = 1 << 3;
pub(crate) const IBV_ACCESS_ON_DEMAND: c_int = 1 << 6;

pub(crate) const IBV_QPT_RC: u32 = 2;
pub(crate) const IBV_QPT_UD: u32 = 4;

pub(crate) const IBV_QPS_INIT: u32 = 1;
pub(crate) const IBV_QPS_RTR: u32 = 2;
pub(crate) const IBV_QPS_RTS: u32 = 3;
pub(crate) const IBV_QPS_ERR: u32 = 6;

pub(crate) const IBV_QP_STATE: c_int = 1;
pub(crate) const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(crate) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(crate) const IBV_QP_PORT: c_int = 1 << 5;
pub(crate) const IBV_QP_QKEY: c_int = 1 << 6;
pub(crate) const IBV_QP_AV: c_int = 1 << 7;
pub(crate) const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub(crate) const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub(crate) const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub(crate) const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub(crate) const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub(crate) const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(crate) const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(crate) const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub(crate) const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(crate) const IBV_QP_DEST_QPN: c_int = 1 << 20;

pub(crate) const IBV_WR_RDMA_WRITE: u32 = 0;
pub(crate) const IBV_WR_SEND: u32 = 2;
pub(crate) const IBV_WR_SEND_WITH_IMM: u32 = 3;
pub(crate) const IBV_WR_RDMA_READ: u32 = 4;
pub(crate) const IBV_WR_ATOMIC_CMP_AND_SWP: u32 = 5;
pub(crate) const IBV_WR_ATOMIC_FETCH_AND_ADD: u32 = 6;

pub(crate) const IBV_SEND_SIGNALED: u32 = 1 << 1;
pub(crate) const IBV_SEND_INLINE: u32 = 1 << 3;

pub(crate) const IBV_WC_SUCCESS: u32 = 0;

pub(crate) const IBV_EVENT_CQ_ERR: u32 = 0;
pub(crate) const IBV_EVENT_QP_FATAL: u32 = 1;
pub(crate) const IBV_EVENT_QP_REQ_ERR: u32 = 2;
pub(crate) const IBV_EVENT_QP_ACCESS_ERR: u32 = 3;
pub(crate) const IBV_EVENT_DEVICE_FATAL: u32 = 8;
pub(crate) const IBV_EVENT_SRQ_ERR: u32 = 14;

/// Only ever reached by pointer.
#[repr(C)]
pub(crate) struct ibv_device {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct ibv_pd {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct ibv_srq {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct ibv_ah {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct ibv_cq {
    _opaque: [u8; 0],
}

#[repr(C)]
pub(crate) struct ibv_comp_channel {
    pub(crate) context: *mut ibv_context,
    pub(crate) fd: c_int,
    pub(crate) refcnt: c_int,
}

/// Longer in the library than here: only ever reached by pointer.
#[repr(C)]
pub(crate) struct ibv_mr {
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

/// Longer in the library than here: only ever reached by pointer.
#[repr(C)]
pub(crate) struct ibv_qp {
    pub(crate) context: *mut ibv_context,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
}

#[repr(C)]
pub(crate) struct ibv_context_ops {
    pub(crate) before_poll: [Unused; 11],
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub(crate) before_srq: [Unused; 7],
    pub(crate) post_srq_recv:
        Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(crate) before_send: [Unused; 4],
    pub(crate) post_send: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub(crate) post_recv: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(crate) rest: [Unused; 5],
}

/// Longer in the library than here: only ever reached by pointer.
#[repr(C)]
pub(crate) struct ibv_context {
    pub(crate) device: *mut ibv_device,
    pub(crate) ops: ibv_context_ops,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
}

#[repr(C, align(8))]
pub(crate) struct ibv_device_attr {
    pub(crate) before_max_qp: [u32; 27],
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: u32,
    pub(crate) max_sge: c_int,
    pub(crate) max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    pub(crate) max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    pub(crate) max_ee_rd_atom: c_int,
    pub(crate) max_res_rd_atom: c_int,
    pub(crate) max_qp_init_rd_atom: c_int,
    pub(crate) max_ee_init_rd_atom: c_int,
    pub(crate) atomic_cap: u32,
    pub(crate) before_max_srq: [c_int; 11],
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) rest: [u32; 3],
}

/// With room behind it for what versions of the library may write.
#[repr(C)]
pub(crate) struct ibv_port_attr {
    pub(crate) state: u32,
    pub(crate) max_mtu: u32,
    pub(crate) active_mtu: u32,
    pub(crate) gid_tbl_len: c_int,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) bytes: [u8; 8],
    pub(crate) link_layer: u8,
    pub(crate) room: [u8; 64],
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct ibv_gid(pub(crate) [u8; 16]);

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_global_route {
    pub(crate) dgid: ibv_gid,
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_ah_attr {
    pub(crate) grh: ibv_global_route,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_qp_cap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

#[repr(C)]
pub(crate) struct ibv_qp_init_attr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
}

#[repr(C)]
pub(crate) struct ibv_qp_attr {
    pub(crate) qp_state: u32,
    pub(crate) cur_qp_state: u32,
    pub(crate) path_mtu: u32,
    pub(crate) path_mig_state: u32,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: c_int,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) ah_attr: ibv_ah_attr,
    pub(crate) alt_ah_attr: ibv_ah_attr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

#[repr(C)]
pub(crate) struct ibv_srq_init_attr {
    pub(crate) srq_context: *mut c_void,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) ah: *mut ibv_ah,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Target {
    pub(crate) rdma: Rdma,
    pub(crate) atomic: Atomic,
    pub(crate) ud: Datagram,
}

#[repr(C)]
pub(crate) struct ibv_send_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut ibv_send_wr,
    pub(crate) sg_list: *mut ibv_sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: u32,
    pub(crate) send_flags: u32,
    pub(crate) imm_data: u32,
    pub(crate) wr: Target,
    pub(crate) rest: [u64; 7],
}

#[repr(C)]
pub(crate) struct ibv_recv_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut ibv_recv_wr,
    pub(crate) sg_list: *mut ibv_sge,
    pub(crate) num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ibv_wc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: u32,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

#[repr(C)]
pub(crate) struct ibv_async_event {
    pub(crate) element: *mut c_void,
    pub(crate) event_type: u32,
}

/// The functions that have symbols of their own.
pub(crate) struct Functions {
    pub(crate) get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device,
    pub(crate) free_device_list: unsafe extern "C" fn(*mut *mut ibv_device),
    pub(crate) get_device_name: unsafe extern "C" fn(*mut ibv_device) -> *const c_char,
    pub(crate) open_device: unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context,
    pub(crate) close_device: unsafe extern "C" fn(*mut ibv_context) -> c_int,
    pub(crate) query_device: unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
    pub(crate) query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
    pub(crate) alloc_pd: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd,
    pub(crate) dealloc_pd: unsafe extern "C" fn(*mut ibv_pd) -> c_int,
    pub(crate) reg_mr: unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr,
    pub(crate) dereg_mr: unsafe extern "C" fn(*mut ibv_mr) -> c_int,
    pub(crate) create_comp_channel: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel,
    pub(crate) destroy_comp_channel: unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int,
    pub(crate) create_cq:
        unsafe extern "C" fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
    pub(crate) destroy_cq: unsafe extern "C" fn(*mut ibv_cq) -> c_int,
    pub(crate) get_cq_event: unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int,
    pub(crate) ack_cq_events: unsafe extern "C" fn(*mut ibv_cq, u32),
    pub(crate) create_srq: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
    pub(crate) destroy_srq: unsafe extern "C" fn(*mut ibv_srq) -> c_int,
    pub(crate) create_qp: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
    pub(crate) modify_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
    pub(crate) destroy_qp: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    pub(crate) create_ah: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
    pub(crate) destroy_ah: unsafe extern "C" fn(*mut ibv_ah) -> c_int,
    pub(crate) get_async_event: unsafe extern "C" fn(*mut ibv_context, *mut ibv_async_event) -> c_int,
    pub(crate) ack_async_event: unsafe extern "C" fn(*mut ibv_async_event),
    pub(crate) wc_status_str: unsafe extern "C" fn(u32) -> *const c_char,
    pub(crate) event_type_str: unsafe extern "C" fn(u32) -> *const c_char,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The numbers are those that a C compiler gave for libibverbs' headers on x86-64 (LP64).
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!((size_of::<ibv_device_attr>(), offset_of!(ibv_device_attr, max_qp)), (232, 108));
        assert_eq!((offset_of!(ibv_device_attr, max_cqe), offset_of!(ibv_device_attr, max_srq_wr)), (132, 216));
        assert_eq!(offset_of!(ibv_device_attr, max_qp_init_rd_atom), 156);
        assert_eq!((offset_of!(ibv_device_attr, atomic_cap), align_of::<ibv_device_attr>()), (164, 8));
        assert_eq!((offset_of!(ibv_port_attr, active_mtu), offset_of!(ibv_port_attr, max_msg_sz)), (8, 20));
        assert_eq!((offset_of!(ibv_port_attr, lid), offset_of!(ibv_port_attr, link_layer)), (34, 46));
        assert!(size_of::<ibv_port_attr>() >= 56);
        assert_eq!((size_of::<ibv_global_route>(), size_of::<ibv_ah_attr>()), (24, 32));
        assert_eq!((offset_of!(ibv_ah_attr, dlid), offset_of!(ibv_ah_attr, port_num)), (24, 30));
        assert_eq!((size_of::<ibv_qp_init_attr>(), offset_of!(ibv_qp_init_attr, qp_type)), (64, 52));
        assert_eq!((size_of::<ibv_qp_attr>(), offset_of!(ibv_qp_attr, ah_attr)), (144, 56));
        assert_eq!((offset_of!(ibv_qp_attr, pkey_index), offset_of!(ibv_qp_attr, timeout)), (120, 130));
        assert_eq!((offset_of!(ibv_qp_attr, max_rd_atomic), offset_of!(ibv_qp_attr, rate_limit)), (126, 136));
        assert_eq!((size_of::<ibv_srq_init_attr>(), size_of::<ibv_sge>()), (24, 16));
        assert_eq!((size_of::<ibv_recv_wr>(), size_of::<ibv_async_event>()), (32, 16));
    }

    #[test]
    fn layouts_of_posting_and_polling_are_those_of_the_headers() {
        assert_eq!((size_of::<ibv_send_wr>(), offset_of!(ibv_send_wr, opcode)), (128, 28));
        assert_eq!((offset_of!(ibv_send_wr, imm_data), offset_of!(ibv_send_wr, wr)), (36, 40));
        assert_eq!((offset_of!(Atomic, rkey), offset_of!(Datagram, remote_qpn), size_of::<Target>()), (24, 8, 32));
        assert_eq!((size_of::<ibv_wc>(), offset_of!(ibv_wc, imm_data), offset_of!(ibv_wc, wc_flags)), (48, 24, 36));
        assert_eq!((size_of::<ibv_context_ops>(), offset_of!(ibv_context_ops, poll_cq)), (256, 88));
        assert_eq!(offset_of!(ibv_context_ops, req_notify_cq), 96);
        assert_eq!(offset_of!(ibv_context_ops, post_srq_recv), 160);
        assert_eq!((offset_of!(ibv_context_ops, post_send), offset_of!(ibv_context_ops, post_recv)), (200, 208));
        assert_eq!((offset_of!(ibv_context, ops), offset_of!(ibv_context, async_fd)), (8, 268));
        assert_eq!((offset_of!(ibv_mr, lkey), offset_of!(ibv_mr, rkey)), (36, 40));
        assert_eq!((offset_of!(ibv_qp, qp_context), offset_of!(ibv_qp, qp_num)), (8, 52));
        assert_eq!(offset_of!(ibv_comp_channel, fd), 8);
    }
}
