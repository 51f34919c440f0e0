//! The four flavors of windows. A module of its own, because `hints` and `window` both need it.

/// The source of a window's memory (MPI-4.1 §12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flavor {
    /// Memory of the caller (`MPI_WIN_FLAVOR_CREATE`).
    Create,
    /// Memory of the library (`MPI_WIN_FLAVOR_ALLOCATE`).
    Allocate,
    /// Memory that is attached after creation (`MPI_WIN_FLAVOR_DYNAMIC`).
    Dynamic,
    /// Memory that all ranks load and store (`MPI_WIN_FLAVOR_SHARED`).
    Shared,
}
