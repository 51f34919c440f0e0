//! The C interface of transom, which `include/transom.h` declares. Owns handles, the conversion of
//! arguments and error codes; the windows are those of [`transom::RawWindow`], and nothing is
//! decided here.
//!
//! Every function is `extern "C"`, catches panics and answers an error class; `include/transom.h`
//! is made of these files by cbindgen (tests/header.rs). So their comments are the reference of C
//! programs: plain text without links.
//!
//! The modules stand in the order of the header.

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
