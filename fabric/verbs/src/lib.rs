//! libibverbs as a transport: reliable connections of InfiniBand and RoCE devices, and of
//! Soft-RoCE.
//!
//! The library is opened at run time. Each operation is one work request: a put is an RDMA write, a
//! get an RDMA read, an atomic on 64 bits a fetch-and-add or a compare-and-swap, a message a send.
//! Independent of windows and of shared memory.
//!
//! **Connections** are made at first contact. Each process publishes the address of one datagram
//! queue pair. Over these, two processes exchange hellos until both ends of a separate queue pair
//! are connected (`handshake`). Until then a post answers `Again`. Connecting requires calls of
//! both processes, so the user of a port runs a thread that calls `progress` and sleeps in `wait`.
//! Puts, gets and atomics on an open connection require only the target's device.
//!
//! **Completion.** Of consecutive small requests, every 32nd and the last one before a flush are
//! signaled (`link`). The completion of a write means that the target's device has acknowledged the
//! data. The ordering rules of PCI Express make the data visible to the target's CPU, and to any
//! device that reads afterwards: memory is registered without relaxed ordering, so neither a later
//! message nor a later read overtakes the data. Reads and atomics complete with their data.
//!
//! **Origin buffers.** Up to 48 bytes are inline in the request. Up to 128 KiB are copied through
//! registered buffers. Longer buffers are registered, and stay registered for later transfers until
//! the kernel reports that they were unmapped (`registrations`). If the user asks for it, the
//! device accesses them by page faults instead (on-demand paging). Bytes that are gathered from
//! several buffers, or scattered to them, are copied up to the same length. Longer ones are up to
//! three scatter/gather elements of the request, which need no more room in a queue than the 48
//! bytes.
//!
//! **Messages**, and puts with an immediate, are sent only if their receiver has posted a receive
//! for them (`credits`). All connections of a process share its receives.
//!
//! **Memory.** A process has 8 MiB of buffers, 3 MiB for incoming messages, and a completion queue
//! of 5120 entries of 64 bytes. A connected peer takes 64 requests of 128 bytes at the device
//! (8 KiB; Soft-RoCE: of 256 bytes, and a page, 20 KiB), 64 records of 48 bytes (3 KiB), and some
//! 3 KiB for objects here and in the kernel: 14 KiB in total (Soft-RoCE: 26 KiB). A process with
//! more than 64 connections has 1 MiB more for incoming messages for each 64 of them, up to 16 MiB
//! more. A request is posted only if the completion queue has room for its completion.
//!
//! **Failures.** A peer that leaves packets unanswered for [`VerbsOptions::silence`] counts as
//! gone: its operations in flight fail with a fault that names the peer and the status of the
//! completion, and later posts answer `Broken`. Other peers are not affected.

#[doc(hidden)]
#[allow(unsafe_code)]
pub mod bare;
#[allow(unsafe_code)]
mod changes;
#[allow(unsafe_code)]
mod datagrams;
#[allow(unsafe_code)]
mod device;
#[allow(unsafe_code)]
mod inbox;
#[allow(unsafe_code)]
mod library;
mod link;
#[allow(unsafe_code)]
mod pair;
#[allow(unsafe_code)]
mod pool;
#[allow(unsafe_code)]
mod port;
mod progress;
#[allow(unsafe_code)]
mod queue;
#[allow(unsafe_code)]
mod resources;
#[allow(unsafe_code)]
mod sending;
#[cfg(test)]
#[allow(unsafe_code)]
mod standin;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod sys;

mod address;
mod choice;
mod connections;
mod credits;
#[allow(unsafe_code)]
mod domain;
mod handshake;
mod opened;
mod path;
mod registrations;
mod remote;
mod unanswered;
mod wr_id;

pub use choice::{PortInfo, ports};
pub use domain::{VerbsDomain, VerbsOptions, VerbsRegion};
pub use library::SONAME;
pub use path::PathOptions;
pub use port::VerbsPort;
pub use remote::VerbsRemote;
pub use sending::Posted;
