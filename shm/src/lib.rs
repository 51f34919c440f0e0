//! Node-local shared memory as a transport: a backend of the contract in `transom-fabric`.
//!
//! Every rank has one [`Heap`], a sparse memfd without a name. Peers open it through `/proc`,
//! verify its identity by a random token, and map the ranges that they use. User memory is mapped
//! by XPMEM if the kernel has the module; otherwise cross-memory attach accesses it. Messages go
//! through a ring in the heap's header. Must not know windows, epochs, or the exchange of
//! addresses.
//!
//! | module | owns |
//! |---|---|
//! | `domain`, `port`, `remote` | the contract; puts and gets on a region of a peer |
//! | `regions` | registered regions and their keys |
//! | [`heap`], `ranges`, `mapping` | the memfd, its free ranges, its mappings |
//! | `node`, `contact` | node identity; a peer's heap, opened and verified |
//! | `pieces` | the mapped pieces of a peer's heap, which all windows share |
//! | `spare` | a descriptor in reserve for opening heaps |
//! | `xpmem` | user memory of peers, mapped by the XPMEM module, with a guard against their death |
//! | `process`, `cma`, `bounce` | user memory that is not mapped: `/proc/PID/mem`, cross-memory attach, and bounce buffers for addresses at which the kernel copies slowly |
//! | `ring`, `doorbell` | the message ring, and the word that shows whether its owner sleeps |
//! | `pipe` | the pipe that ends a sleep on a net's descriptors |
//! | [`event`], `word` | event counts; atomic words and futexes |
//! | [`topology`], `huge` | processors and NUMA nodes; whether the kernel gives huge pages |

#[allow(unsafe_code)]
mod bounce;
#[allow(unsafe_code)]
mod cma;
mod contact;
mod domain;
mod doorbell;
pub mod event;
pub mod heap;
mod huge;
#[allow(unsafe_code)]
mod mapping;
mod node;
mod pieces;
mod pipe;
#[allow(unsafe_code)]
mod port;
#[allow(unsafe_code)]
mod process;
mod ranges;
mod regions;
#[allow(unsafe_code)]
mod remote;
mod ring;
mod spare;
pub mod topology;
mod word;
#[allow(unsafe_code)]
mod xpmem;

pub use domain::{ShmDomain, ShmRegion};
pub use doorbell::Doorbell;
pub use heap::{Heap, HeapOptions};
pub use huge::huge_pages;
pub use mapping::{advise_huge, touch};
pub use port::ShmPort;
pub use regions::{heap_owner, is_mapped};
pub use remote::ShmRemote;

/// Whether this process can share and map user memory by the XPMEM module.
///
/// # Errors
/// The reason why it can't.
pub fn xpmem() -> Result<(), String> {
    xpmem::module().map(drop)
}
