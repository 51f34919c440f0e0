//! libibverbs as a transport: reliable connections of InfiniBand and RoCE devices, and of Soft-RoCE.
//!
//! The library is opened at run time. A put is an RDMA write, a get an RDMA read, an atomic on 64 bits a fetch-and-add or a
//! compare-and-swap, a message a send: one work request each. Knows nothing of windows, and of shared memory.
//!
//! **Connections** are made at first contact: each process has one queue pair for datagrams, whose address it publishes, and over
//! which two processes say hello until both ends of a queue pair of their own are connected (`handshake`). Until then a post
//! answers `Again`. Connecting takes both processes, so whoever opens a port has a thread call `progress`, asleep in `wait`
//! meanwhile; puts, gets and atomics on a connection take the target's device only.
//!
//! **Completion.** Requests are unsignaled but for the last before a flush (`link`). A write's completion says that the
//! target's device has acknowledged it. That it is visible to the target's CPU, and to any device that then reads, follows from
//! the order of PCI Express: memory is registered without relaxed ordering, so that neither a later message nor a read from there
//! overtakes it on its way into memory. Reads and atomics complete with their data.
//!
//! **Local bytes.** Up to 48 bytes travel in the request. Up to 128 KiB are copied through registered buffers; longer ones
//! are registered for the one request, or reached by page faults where the device takes them (on-demand paging). There is no
//! cache of registrations: memory that is unmapped behind its back would be reached by a stale one. What is gathered from several
//! places, or scattered to them, is copied up to the same lengths. Beyond them a request has a list of up to three places, which the
//! device goes through: as many as need no more room in a queue than the 48 bytes do.
//!
//! **Memory.** A process has 8 MiB of buffers, 2 MiB for messages that arrive, and a completion queue of 4096 entries of 64 bytes.
//! A connected peer takes 64 requests of 128 bytes at the device (8 KiB; Soft-RoCE: of 256 bytes, and a page, 20 KiB), 64 records
//! of 48 bytes (3 KiB), and some 3 KiB for the objects here and in the kernel: 14 KiB (26). Receives are shared by all. No request is posted for which
//! the completion queue has no room.
//!
//! **Failures.** A peer that leaves packets without an answer for as long as [`VerbsOptions::silence`] counts as gone: what
//! is in flight fails, naming it and the status of the completion, and later posts answer `Broken`. Other peers do not notice.

#[doc(hidden)]
#[allow(unsafe_code)]
pub mod bare;
#[allow(unsafe_code)]
mod device;
#[allow(unsafe_code)]
mod greeter;
#[allow(unsafe_code)]
mod library;
mod link;
#[allow(unsafe_code)]
mod pair;
#[allow(unsafe_code)]
mod pool;
#[allow(unsafe_code)]
mod port;
#[allow(unsafe_code)]
mod progress;
#[allow(unsafe_code)]
mod queue;
#[allow(unsafe_code)]
mod sending;
#[allow(unsafe_code)]
mod stock;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

mod address;
mod choice;
mod contacts;
#[allow(unsafe_code)]
mod domain;
mod handshake;
mod ticket;

pub use choice::{PortInfo, ports};
pub use domain::{VerbsDomain, VerbsOptions, VerbsRegion};
pub use library::SONAME;
pub use port::{VerbsPort, VerbsRemote};
pub use sending::Posted;
