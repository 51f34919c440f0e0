//! Shared by tests of operations: windows of every flavor, and a model of the results of
//! operations. Each program uses a part of it.

#![allow(dead_code)]

pub(crate) mod model;
#[allow(unsafe_code)]
pub(crate) mod part;
