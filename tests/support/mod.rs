//! Shared by tests of operations: windows of every flavor, and a model of the results of
//! operations. Each program uses a part of it.

#![allow(dead_code)]

#[allow(unsafe_code)]
pub(crate) mod byte_window;
pub(crate) mod model;
