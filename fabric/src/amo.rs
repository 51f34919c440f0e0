//! Remote atomics as values: kind, width and operands. Independent of the actor that performs them.

/// The width of an atomic's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 4 bytes, naturally aligned.
    W32,
    /// 8 bytes, naturally aligned.
    W64,
}

impl Width {
    /// The width in bytes, which is also the alignment that the target location must have.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }

    /// Cuts a 64-bit register to this width.
    #[inline]
    pub const fn truncate(self, value: u64) -> u64 {
        match self {
            Width::W32 => value & 0xffff_ffff,
            Width::W64 => value,
        }
    }
}

/// The effect of an atomic on its location. Each kind returns the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmoKind {
    /// Adds the operand, wrapping: the bits are equal for signed and unsigned integers.
    Sum,
    /// Stores the operand (`MPI_REPLACE`).
    Replace,
    /// Reads, leaves the location as it is (`MPI_NO_OP`).
    Read,
    /// Stores the operand if the location equals `compare`.
    CompareSwap,
}

impl AmoKind {
    /// Every kind, for tables and tests.
    pub const ALL: [AmoKind; 4] = [AmoKind::Sum, AmoKind::Replace, AmoKind::Read, AmoKind::CompareSwap];
}

/// One atomic operation on one location. Values are in the low bits of a register, in the machine's
/// byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amo {
    /// The effect.
    pub kind: AmoKind,
    /// The operand's width.
    pub width: Width,
    /// The value that is added or stored; unused by [`AmoKind::Read`].
    pub operand: u64,
    /// The value to compare with; used by [`AmoKind::CompareSwap`] only.
    pub compare: u64,
}

impl Amo {
    /// An atomic other than compare-and-swap.
    #[inline]
    pub const fn new(kind: AmoKind, width: Width, operand: u64) -> Amo {
        Amo { kind, width, operand, compare: 0 }
    }

    /// A compare-and-swap: stores `operand` where `compare` is found.
    #[inline]
    pub const fn compare_swap(width: Width, compare: u64, operand: u64) -> Amo {
        Amo { kind: AmoKind::CompareSwap, width, operand, compare }
    }

    /// The value that the location holds after the operation found `old` there.
    #[inline]
    pub const fn apply(&self, old: u64) -> u64 {
        let new = match self.kind {
            AmoKind::Sum => old.wrapping_add(self.operand),
            AmoKind::Replace => self.operand,
            AmoKind::Read => old,
            AmoKind::CompareSwap if self.width.truncate(old) == self.width.truncate(self.compare) => self.operand,
            AmoKind::CompareSwap => old,
        };
        self.width.truncate(new)
    }
}

/// The other atomics with which an atomic of a region is atomic. A region without the atomic has
/// `None` instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coherence {
    /// Also with atomics that the target's CPU performs on the same location.
    WithCpu,
    /// Only with atomics of the same device or provider (`ATOMIC_HCA` in verbs' terms).
    DeviceOnly,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_wraps_at_the_width() {
        let add = Amo::new(AmoKind::Sum, Width::W32, 1);
        assert_eq!(add.apply(0xffff_ffff), 0);
        assert_eq!(Amo::new(AmoKind::Sum, Width::W64, 1).apply(0xffff_ffff), 0x1_0000_0000);
    }

    #[test]
    fn compare_swap_compares_only_its_width() {
        let swap = Amo::compare_swap(Width::W32, 0xdead_0000_0001, 9);
        assert_eq!(swap.apply(1), 9);
        assert_eq!(swap.apply(2), 2);
    }
}
