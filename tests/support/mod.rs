//! What tests of operations share: windows of every flavor, and a model of what operations compute. Each program uses its part of it.

#![allow(dead_code)]

pub(crate) mod model;
#[allow(unsafe_code)]
pub(crate) mod part;
