//! The C interface of transom, which `include/transom.h` declares. Owns handles, the conversion of
//! arguments and error codes; the windows are those of [`transom::RawWindow`], which makes all
//! decisions.
//!
//! Every function is `extern "C"`, catches panics and returns an error class. cbindgen generates
//! `include/transom.h` from these files (tests/c_header.rs), so the comments here are the reference
//! for C programs: plain text without links.
//!
//! The modules are in the order of the header.

#[allow(unsafe_code)]
pub mod error;

pub mod constants;

#[allow(unsafe_code)]
pub mod job;

#[allow(unsafe_code)]
pub mod info;

#[allow(unsafe_code)]
pub mod datatype;

#[allow(unsafe_code)]
pub mod layouts;

#[allow(unsafe_code)]
pub mod memory;

#[allow(unsafe_code)]
pub mod window;

#[allow(unsafe_code)]
pub mod operate;

#[allow(unsafe_code)]
pub mod requested;

#[allow(unsafe_code)]
pub mod request;

#[allow(unsafe_code)]
pub mod notified;

#[allow(unsafe_code)]
pub mod counters;

#[allow(unsafe_code)]
pub mod synchronize;

#[allow(unsafe_code)]
mod pointers;
