//! Node-local shared memory as a transport: a backend of the contract in `transom-fabric`.
//!
//! Every rank has one [`Heap`], a sparse memfd without a name. Peers open it through `/proc`, prove by a random token
//! that it is the right one, and map the ranges that they use. A user's own memory is reached by cross-memory attach,
//! messages by a ring in the heap's header. Knows nothing of windows, epochs, or how addresses reach the peers.
//!
//! | module | owns |
//! |---|---|
//! | [`heap`], `ranges`, `mapping` | the memfd, its free ranges, what is mapped of it |
//! | `node`, `contact` | what tells one node from another; a peer's heap, opened and proven |
//! | `ring`, [`event`], `word` | messages, and words that can be waited for |
//! | `cma` | cross-memory attach |
//! | `domain`, `port`, `remote` | the contract, and puts and gets of many pieces |
//! | [`topology`] | processors and NUMA nodes |

#[allow(unsafe_code)]
mod cma;
mod contact;
mod domain;
pub mod event;
pub mod heap;
#[allow(unsafe_code)]
mod mapping;
mod node;
#[allow(unsafe_code)]
mod port;
mod ranges;
#[allow(unsafe_code)]
mod remote;
mod ring;
pub mod topology;
mod word;

pub use domain::{ShmDomain, ShmRegion, is_mapped};
pub use heap::{Heap, HeapOptions};
pub use port::ShmPort;
pub use remote::ShmRemote;
