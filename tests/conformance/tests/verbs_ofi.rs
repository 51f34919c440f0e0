//! The contract's tests over libfabric's `verbs;ofi_rxm`, which requires registered origin buffers.
//! They need an RDMA device, as in the virtual machine of `ci/rdma-vm`: run them there with
//! `--ignored`.
//!
//! Shows T3, T4.
//! Route: verbs.

use transom_conformance::conformance;

mod over_ofi;

conformance!(ignored: "needs an RDMA device, as in ci/rdma-vm"; [super::over_ofi::Ofi("verbs;ofi_rxm", true)]);
