//! Node-local shared memory as a transport: a backend of the contract in `transom-fabric`.
//!
//! Every rank has one [`Heap`], a sparse memfd without a name. Peers open it through `/proc`, prove by a random token
//! that it is the right one, and map the ranges that they use. A user's own memory becomes part of the heap
//! for as long as peers use it, where that is safe, and is reached by cross-memory attach elsewhere. Messages go by a ring in the
//! heap's header. Knows nothing of windows, epochs, or how addresses reach the peers.
//!
//! | module | owns |
//! |---|---|
//! | [`heap`], `ranges`, `mapping` | the memfd, its free ranges, what is mapped of it |
//! | `node`, `contact` | what tells one node from another; a peer's heap, opened and proven |
//! | `ring`, [`event`], `word` | messages, and words that can be waited for |
//! | `heap/adopted`, `exchange`, `sole`, `placement`, `forked` | the user's memory as part of the heap |
//! | `cma` | cross-memory attach |
//! | `domain`, `port`, `remote` | the contract, and puts and gets of many pieces |
//! | [`topology`] | processors and NUMA nodes |

#[allow(unsafe_code)]
mod cma;
mod contact;
mod domain;
pub mod event;
#[allow(unsafe_code)]
mod exchange;
#[allow(unsafe_code)]
mod forked;
pub mod heap;
#[allow(unsafe_code)]
mod mapping;
mod node;
#[allow(unsafe_code)]
mod placement;
#[allow(unsafe_code)]
mod port;
mod ranges;
#[allow(unsafe_code)]
mod remote;
mod ring;
mod sole;
pub mod topology;
mod word;

pub use domain::{ShmDomain, ShmRegion, is_mapped};
pub use heap::{Adopted, Heap, HeapOptions};
pub use port::ShmPort;
pub use remote::ShmRemote;
