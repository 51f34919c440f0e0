//! The contacts of ranks of one node during the creation of a window.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use transom_fabric::Peer;
use transom_fabric::sim::{SimNet, SimOptions};

use super::available_memory::LARGE;
use crate::bootstrap::local::Board;
use crate::job::Job;
use crate::window::Window;

const RANKS: usize = 16;
/// Time limit, sufficient on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// The parts' pages are allocated at the first touch, so creation checks the memory. Only one rank
/// of the node contacts all others for it; the others contact their partners in the barriers.
/// Shows W2.
#[test]
fn one_rank_of_a_node_looks_at_all_parts() {
    let (net, board) = (SimNet::new(RANKS, SimOptions::default()), Board::new(RANKS));
    let (sends, found) = channel();
    for rank in 0..RANKS {
        let domain = net.domain(Peer(u32::try_from(rank).expect("few ranks"))).expect("a rank");
        let (boot, sends) = (Box::new(board.rank(rank)), sends.clone());
        thread::spawn(move || {
            let world = Job::simulated_on(1, domain, boot).expect("a job");
            let win = Window::<u8>::allocate(&world, usize::try_from(LARGE).expect("it fits")).expect("a window");
            sends.send((rank, world.core().contacted())).expect("the test waits");
            win.free().and_then(|()| world.finalize()).expect("the end");
        });
    }
    for _ in 0..RANKS {
        let (rank, contacted) = found.recv_timeout(LIMIT).expect("all ranks create the window");
        let all = contacted == RANKS - 1;
        assert_eq!(all, rank == 0, "rank {rank} has contacted {contacted} ranks");
    }
}
