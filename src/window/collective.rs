//! A broadcast and a reduction for small programs, built on windows. There is no protocol here:
//! each call creates a window, uses it and frees it. Programs that need fast collective calls use
//! those of an MPI.

use super::element::RmaElem;
use super::typed::Window;
use crate::error::{ArgumentError, Class, Error, Result};
use crate::job::{Job, check_rank};
use crate::reduce::ops::Reduction;
use crate::reduce::{Element, Op};

/// The bytes before the data of a broadcast, which hold the length of the data.
const HEAD: usize = 8;

impl Job {
    /// Copies `data` of rank `root` to `data` of all ranks (as `MPI_BCAST`). Collective; `data`
    /// must have the same length at all ranks. The call creates a window, and makes two gets at
    /// each rank but `root`.
    ///
    /// ```
    /// let world = transom::init()?;
    /// let mut steps = if world.rank() == 0 { [100u32] } else { [0] };
    /// world.broadcast(0, &mut steps)?;
    /// assert_eq!(steps, [100]);
    /// # Ok::<(), transom::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Rank` at all ranks for a root that does not exist. `Count` at a rank whose `data` is not as
    /// long as the root's: the `data` of this rank is unchanged, and the other ranks get the
    /// root's. The errors of creating a window.
    pub fn broadcast<T: RmaElem>(&self, root: usize, data: &mut [T]) -> Result<()> {
        check_rank(self.team(), "broadcast", root)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        let is_root = self.rank() == root;
        let win = Window::<u8>::allocate(self, if is_root { HEAD + bytes.len() } else { 0 })?;
        if is_root {
            win.store(0, &(bytes.len() as u64).to_ne_bytes())?;
            win.store(HEAD, bytes)?;
        }
        let done = win.fence(|epoch| {
            if is_root {
                return Ok(());
            }
            let mut head = [0; HEAD];
            epoch.scope(|part| part.get(root, 0, &mut head))?;
            equally_long::<T>("broadcast", bytes.len(), u64::from_ne_bytes(head), root)?;
            epoch.scope(|part| part.get(root, HEAD, bytes))
        });
        // The window is freed at all ranks, even if a rank had another length.
        done.and(win.free())
    }

    /// Combines `data` of all ranks element by element with `op`, one of [`ops`](crate::ops); all
    /// ranks get the result in `data` (as `MPI_ALLREDUCE`). Collective; `data` is equally long at
    /// all ranks. The order in which floats are combined is not fixed. The cost is that of creating
    /// two windows, and an accumulate and a get at each rank, all on the part of rank 0.
    ///
    /// ```
    /// let world = transom::init()?;
    /// let mut most = [world.rank() as u64];
    /// world.all_reduce(&mut most, transom::ops::Max)?;
    /// assert_eq!(most, [world.size() as u64 - 1]);
    /// # Ok::<(), transom::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Op` at all ranks for REPLACE and NO_OP, which are not reductions. `Count` at a rank whose
    /// `data` is not as long as rank 0's: the `data` of this rank is unchanged, and is not part of
    /// the other ranks' result. The errors of creating a window.
    pub fn all_reduce<T: Element, R: Reduction<T> + Copy>(&self, data: &mut [T], op: R) -> Result<()> {
        if matches!(R::OP, Op::Replace | Op::NoOp) {
            return Err(Error::argument(Class::Op, "all_reduce", ArgumentError::CombinesNothing(R::OP)));
        }
        let mut len = [data.len() as u64];
        self.broadcast(0, &mut len)?;
        let fits = equally_long::<T>("all_reduce", size_of_val(data), len[0] * size_of::<T>() as u64, 0);
        let is_root = self.rank() == 0;
        let win = Window::<T>::allocate(self, if is_root { data.len() } else { 0 })?;
        if is_root {
            win.store(0, data)?;
        }
        let done = win.fence(|epoch| {
            let given =
                if is_root || fits.is_err() { Ok(()) } else { epoch.scope(|part| part.accumulate(0, 0, data, op)) };
            epoch.fence()?;
            given.and_then(|()| if fits.is_ok() { epoch.scope(|part| part.get(0, 0, data)) } else { Ok(()) })
        });
        done.and(win.free()).and(fits)
    }
}

/// Fails if this rank's data and that of `other` differ in their number of bytes.
fn equally_long<T>(call: &'static str, ours: usize, theirs: u64, other: usize) -> Result<()> {
    if ours as u64 == theirs {
        return Ok(());
    }
    let of = |bytes: u64| bytes / size_of::<T>().max(1) as u64;
    let reason = ArgumentError::LengthsDiffer { here: of(ours as u64), there: of(theirs), rank: other };
    Err(Error::argument(Class::Count, call, reason))
}
