//! This rank's part of a window: the exposed memory, with the private copy of the separate model,
//! the control words, and the registrations by which peers reach both.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_fabric::{Memory, Span};

use super::model::Separate;
use crate::directory::Part;
use crate::hints::Model;
use crate::memory::attached::Attached;
use crate::messages::Exposed;
use crate::transport::{NetRegion, ShmRegion};

/// This rank's part of a window.
pub(crate) struct Own {
    /// The public copy, which other ranks access.
    pub(crate) memory: Memory,
    /// The private copy, in the separate memory model.
    pub(super) separate: Option<Separate>,
    /// The part as it is published.
    pub(crate) part: Part,
    /// The slot of the directory in which the part is published.
    pub(super) place: usize,
    /// This rank's control words, which other ranks access.
    pub(crate) words: Memory,
    /// The part as the target of requests.
    pub(super) exposed: Arc<Exposed>,
    /// The attached regions of a dynamic window.
    pub(super) attached: Arc<Attached>,
    /// The whole segment of a contiguous shared window.
    pub(super) segment: Option<Memory>,
    pub(super) regions: Mutex<Regions>,
}

/// Registrations of this rank's part: peers can access the part as long as these exist.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) shm: Option<ShmRegion>,
    pub(crate) net: Option<NetRegion>,
}

impl Own {
    /// The address of a part for programs: null for a part of no bytes, unless it is in a segment
    /// that has bytes.
    pub(super) fn place_of(&self, memory: &Memory) -> Span {
        let nowhere = memory.is_empty() && self.segment.as_ref().is_none_or(Memory::is_empty);
        if nowhere { Span::from_raw(std::ptr::null_mut(), 0) } else { memory.span() }
    }

    pub(super) fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders this rank's loads and stores of its window with those of other processes (MPI-4.1
    /// §12.5.4, `MPI_WIN_SYNC`). In the separate model it also updates both copies.
    #[inline]
    pub(crate) fn sync(&self) {
        fence(Ordering::SeqCst);
        if let Some(separate) = &self.separate {
            separate.publish(&self.memory);
            separate.refresh(&self.memory);
        }
    }

    /// Makes the private copy's changes visible in the public copy (MPI-4.1 §12.7 rule 5).
    #[inline]
    pub(super) fn publish(&self) {
        if let Some(separate) = &self.separate {
            separate.publish(&self.memory);
        }
    }

    /// Makes the public copy's changes visible in the private copy (MPI-4.1 §12.7 rule 6).
    #[inline]
    pub(super) fn refresh(&self) {
        if let Some(separate) = &self.separate {
            separate.refresh(&self.memory);
        }
    }

    /// The copy that this process loads and stores.
    #[inline]
    pub(crate) fn local(&self) -> &Memory {
        self.separate.as_ref().map_or(&self.memory, Separate::private)
    }

    /// The memory model (`MPI_WIN_MODEL`).
    pub(crate) fn model(&self) -> Model {
        if self.separate.is_some() { Model::Separate } else { Model::Unified }
    }
}
