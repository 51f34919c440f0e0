//! Stand-ins that are connected: the test carries what each of them has sent, in the order of each
//! connection, and counts the messages that find no posted receive. Such a message and everything
//! behind it on its connection is carried again later, as devices do.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::copy_nonoverlapping;
use std::sync::Arc;

use transom_fabric::{Domain as _, Peer, Port as _};

use super::{Receive, Sent, Standin};
use crate::address::{Address, Hello};
use crate::domain::{VerbsDomain, VerbsOptions};
use crate::sys::{IBV_WC_RECV_RDMA_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, ibv_wc};

/// Length of the header before a received datagram.
const HEADER: usize = 40;

/// A job whose ranks are stand-ins.
pub(crate) struct Net {
    pub(crate) domains: Vec<Arc<VerbsDomain>>,
    pub(crate) standins: Vec<&'static Standin>,
    /// The number of times that a message found no posted receive.
    pub(crate) not_ready: usize,
}

impl Net {
    /// A job of `ranks`, none of which is connected.
    pub(crate) fn new(ranks: usize) -> Net {
        let open = |rank| {
            let (device, standin) = Standin::open_large();
            let rank = Peer(u32::try_from(rank).expect("few ranks"));
            let options = VerbsOptions { rank, ..VerbsOptions::default() };
            (VerbsDomain::on(device, &options).expect("a stand-in"), standin)
        };
        let (domains, standins) = (0..ranks).map(open).unzip();
        Net { domains, standins, not_ready: 0 }
    }

    /// Carries everything that was sent and finds a receive.
    pub(crate) fn carry(&mut self) {
        (0..self.standins.len()).for_each(|from| self.carry_from(from));
    }

    /// Carries everything that a rank has sent and that finds a receive.
    pub(crate) fn carry_from(&mut self, from: usize) {
        let sent = std::mem::take(&mut self.standins[from].state().sent);
        let (mut stopped, mut left) = (BTreeSet::new(), Vec::new());
        for sent in sent {
            if stopped.contains(&sent.to) || !self.arrives(from, &sent) {
                stopped.insert(sent.to);
                left.push(sent);
            } else if let Some(completion) = sent.completion {
                self.standins[from].state().completions.push_back(completion);
            }
        }
        self.standins[from].state().sent = left;
    }

    /// Performs a request at its target; false if a message or an immediate finds no receive.
    fn arrives(&mut self, from: usize, sent: &Sent) -> bool {
        let Some(to) = sent.to else {
            self.datagram(&sent.bytes);
            return true;
        };
        let write = || {
            // SAFETY: the address is that of a region of a domain of this process, which lives.
            unsafe { copy_nonoverlapping(sent.bytes.as_ptr(), sent.address as *mut u8, sent.bytes.len()) }
        };
        if sent.opcode == IBV_WR_RDMA_WRITE {
            write();
            return true;
        }
        let found = self.standins[to.index()].state().receives[0].pop_front();
        let Some(receive) = found else {
            self.not_ready += 1;
            return false;
        };
        if sent.opcode == IBV_WR_RDMA_WRITE_WITH_IMM {
            write();
            let mut state = self.standins[to.index()].state();
            let qp_num = state.pairs[&Peer(u32::try_from(from).expect("few"))];
            let (wr_id, imm_data, opcode) = (receive.0, sent.immediate, IBV_WC_RECV_RDMA_WITH_IMM);
            state.completions.push_back(ibv_wc { wr_id, imm_data, opcode, qp_num, ..ibv_wc::default() });
        } else {
            self.fill(to, &receive, &sent.bytes, sent.immediate);
        }
        true
    }

    /// Delivers a hello to the process with its token, if a receive is posted there.
    fn datagram(&self, bytes: &[u8]) {
        let token = Hello::decode(bytes).expect("a hello").to;
        let address = |domain: &Arc<VerbsDomain>| Address::decode(&domain.port().address()).expect("an address");
        let to = self.domains.iter().position(|domain| address(domain).token == token).expect("a rank");
        let found = self.standins[to].state().receives[1].pop_front();
        if let Some(receive) = found {
            let datagram = [&[0; HEADER], bytes].concat();
            self.fill(Peer(u32::try_from(to).expect("few")), &receive, &datagram, 0);
        }
    }

    fn fill(&self, to: Peer, &Receive(wr_id, element): &Receive, bytes: &[u8], imm_data: u32) {
        assert!(bytes.len() <= element.length as usize, "the receive is too short");
        // SAFETY: a posted receive belongs to the device, and has room.
        unsafe { copy_nonoverlapping(bytes.as_ptr().cast::<c_void>(), element.addr as *mut c_void, bytes.len()) };
        let byte_len = u32::try_from(bytes.len()).expect("short");
        let completion = ibv_wc { wr_id, byte_len, imm_data, ..ibv_wc::default() };
        self.standins[to.index()].state().completions.push_back(completion);
    }
}
