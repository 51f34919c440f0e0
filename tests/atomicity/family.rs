//! The functions of the accumulate family behind one call, on typed and byte-level windows, for
//! tests of all functions against each other. The halves of an element must match, so that a torn
//! element is recognised.

use bytemuck::{bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};
use transom::ops::Reduction;
use transom::reduce::DoubleInt;
use transom::{Complex, Datatype, Element, Flavor, Info, Job, LockAllEpoch, Result, Window};

use crate::support::byte_window::{ByteWindow, Shape, if_shareable};

/// Elements that store a number twice, so that a torn element is recognised. The element of a sum
/// is the sum of the elements.
pub(crate) trait CheckedElement: Element + PartialEq + std::fmt::Debug {
    /// Sums of numbers are modulo this value.
    const MODULUS: u64;
    /// Whether the type has a compare-and-swap.
    const SWAPS: bool;
    /// The element of a number.
    fn number(number: u64) -> Self;
    /// The number of an element; `None` if the element is torn.
    fn read(self) -> Option<u64>;
    /// A compare-and-swap; a type without one returns its argument.
    fn swap(
        _epoch: &LockAllEpoch<'_, '_, Self>,
        _target: usize,
        _at: usize,
        expected: Self,
        _new: Self,
    ) -> Result<Self> {
        Ok(expected)
    }
}

macro_rules! integers {
    ($($ty:ty: $modulus:expr, $half:ty;)*) => {$(
        impl CheckedElement for $ty {
            const MODULUS: u64 = $modulus;
            const SWAPS: bool = true;
            fn number(number: u64) -> $ty {
                let mut element = <$ty>::default();
                let half = number.to_ne_bytes();
                let size = size_of::<$half>();
                bytemuck::bytes_of_mut(&mut element).chunks_mut(size).for_each(|part| part.copy_from_slice(&half[..size]));
                element
            }
            fn read(self) -> Option<u64> {
                let size = size_of::<$half>();
                let bytes = bytemuck::bytes_of(&self);
                let mut number = [0; 8];
                number[..size].copy_from_slice(&bytes[..size]);
                bytes.chunks(size).all(|part| part == &bytes[..size]).then(|| u64::from_ne_bytes(number))
            }
            fn swap(epoch: &LockAllEpoch<'_, '_, $ty>, target: usize, at: usize, expected: $ty, new: $ty) -> Result<$ty> {
                epoch.compare_and_swap(target, at, expected, new)
            }
        }
    )*};
}

integers! {
    i64: 1 << 32, u32;
    i32: 1 << 16, u16;
    u8: 1 << 8, u8;
}

/// A factor whose multiples have nonzero bits in both halves of an `f64`.
const WIDE: f64 = 1_048_577.0;

impl CheckedElement for f64 {
    const MODULUS: u64 = 1 << 32;
    const SWAPS: bool = false;
    fn number(number: u64) -> f64 {
        f64::from(u32::try_from(number).expect("small")) * WIDE
    }
    fn read(self) -> Option<u64> {
        (self % WIDE == 0.0).then(|| (self / WIDE).to_string().parse().ok()).flatten()
    }
}

impl CheckedElement for Complex<f64> {
    const MODULUS: u64 = 1 << 32;
    const SWAPS: bool = false;
    fn number(number: u64) -> Complex<f64> {
        Complex::new(f64::number(number), f64::number(number))
    }
    fn read(self) -> Option<u64> {
        self.re.read().filter(|_| self.re.to_bits() == self.im.to_bits())
    }
}

impl CheckedElement for DoubleInt {
    const MODULUS: u64 = 1 << 31;
    const SWAPS: bool = false;
    fn number(number: u64) -> DoubleInt {
        DoubleInt::new(f64::number(number), i32::try_from(number).expect("small"))
    }
    fn read(self) -> Option<u64> {
        self.value().read().filter(|&number| u64::try_from(self.index()) == Ok(number))
    }
}

/// The functions of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Function {
    Accumulate,
    Raccumulate,
    GetAccumulate,
    RgetAccumulate,
    FetchAndOp,
    StartFetchAndOp,
    CompareAndSwap,
}

impl Function {
    /// All functions, or those that the type has.
    pub(crate) fn all<T: CheckedElement>() -> impl Iterator<Item = Function> + Clone {
        use Function::{
            Accumulate, CompareAndSwap, FetchAndOp, GetAccumulate, Raccumulate, RgetAccumulate, StartFetchAndOp,
        };
        let all = [Accumulate, Raccumulate, GetAccumulate, RgetAccumulate, FetchAndOp, StartFetchAndOp, CompareAndSwap];
        all.into_iter().filter(|&function| T::SWAPS || function != CompareAndSwap)
    }

    /// Whether the function takes any number of elements.
    pub(crate) fn takes_many(self) -> bool {
        self <= Function::RgetAccumulate
    }

    /// Whether the function fetches the previous values.
    pub(crate) fn fetches(self) -> bool {
        self >= Function::GetAccumulate
    }

    /// Combines the elements from `at` with `operand` by `op`, whose arithmetic is `combine`; fills
    /// `old` where the function fetches. The operation is complete on return.
    pub(crate) fn apply<T: CheckedElement, R: Reduction<T>>(
        self,
        epoch: &Epoch<'_, '_, '_, T>,
        (target, at): (usize, usize),
        operand: &[T],
        old: &mut [T],
        (op, combine): (R, fn(T, T) -> T),
    ) -> Result<()> {
        if self == Function::CompareAndSwap {
            old[0] = by_swaps(operand[0], combine, |expected, new| epoch.swap((target, at), expected, new))?;
            return Ok(());
        }
        match epoch {
            Epoch::Typed(epoch) => self.typed(epoch, (target, at), operand, old, op),
            Epoch::Bytes(win) => self.bytes::<T, R>(win, (target, at), operand, old),
        }
    }

    fn typed<T: CheckedElement, R: Reduction<T>>(
        self,
        epoch: &LockAllEpoch<'_, '_, T>,
        (target, at): (usize, usize),
        operand: &[T],
        old: &mut [T],
        op: R,
    ) -> Result<()> {
        epoch.scope(|part| match self {
            Function::Accumulate => part.accumulate(target, at, operand, op),
            Function::Raccumulate => part.raccumulate(target, at, operand, op)?.wait(),
            Function::GetAccumulate => part.get_accumulate(target, at, operand, old, op),
            Function::RgetAccumulate => {
                let result = vec![T::zeroed(); operand.len()];
                old.copy_from_slice(&part.rget_accumulate_owned(target, at, operand, result, op)?.wait()?);
                Ok(())
            }
            Function::StartFetchAndOp => part.start_fetch_and_op(target, at, operand[0], &mut old[0], op),
            Function::FetchAndOp | Function::CompareAndSwap => {
                old[0] = part.fetch_and_op(target, at, operand[0], op)?;
                Ok(())
            }
        })
    }

    /// The byte-level window has no blocking `fetch_and_op`.
    fn bytes<T: CheckedElement, R: Reduction<T>>(
        self,
        win: &ByteWindow,
        (target, at): (usize, usize),
        operand: &[T],
        old: &mut [T],
    ) -> Result<()> {
        let (ty, offset) = (Datatype::basic(T::TYPE), at * size_of::<T>());
        let all = Shape::new(operand.len(), &ty);
        let data = cast_slice(operand);
        match self {
            Function::Accumulate => win.accumulate((data, all), (target, offset, all), R::OP),
            Function::Raccumulate => win.raccumulate((data, all), (target, offset, all), R::OP),
            Function::GetAccumulate => {
                win.get_accumulate((data, all), (cast_slice_mut(old), all), (target, offset, all), R::OP)
            }
            Function::RgetAccumulate => {
                win.rget_accumulate((data, all), (cast_slice_mut(old), all), (target, offset, all), R::OP)
            }
            Function::FetchAndOp | Function::StartFetchAndOp | Function::CompareAndSwap => {
                old[0] = pod_read_unaligned(&win.fetch(bytes_of(&operand[0]), T::TYPE, target, offset, R::OP)?);
                Ok(())
            }
        }
    }
}

/// Combines one element by compare-and-swaps; returns its previous value.
fn by_swaps<T: CheckedElement>(operand: T, combine: fn(T, T) -> T, swap: impl Fn(T, T) -> Result<T>) -> Result<T> {
    let mut seen = T::number(0);
    loop {
        let found = swap(seen, combine(seen, operand))?;
        if found == seen {
            return Ok(found);
        }
        seen = found;
    }
}

/// A window of elements, of any flavor.
#[derive(Debug)]
pub(crate) enum AnyWindow<T: Element> {
    Typed(Window<T>),
    /// A dynamic window, which is untyped.
    Bytes(ByteWindow),
}

/// The window in an epoch to all ranks.
pub(crate) enum Epoch<'a, 'e, 'env, T: Element> {
    Typed(&'a LockAllEpoch<'e, 'env, T>),
    Bytes(&'a ByteWindow),
}

impl<T: CheckedElement> Epoch<'_, '_, '_, T> {
    fn swap(&self, (target, at): (usize, usize), expected: T, new: T) -> Result<T> {
        match self {
            Epoch::Typed(epoch) => T::swap(epoch, target, at, expected, new),
            Epoch::Bytes(win) => {
                let offset = at * size_of::<T>();
                let old = win.swap(bytes_of(&new), bytes_of(&expected), T::TYPE, target, offset)?;
                Ok(pod_read_unaligned(&old))
            }
        }
    }
}

impl<T: CheckedElement> AnyWindow<T> {
    /// A window of `len` elements of 0; `None` where a shared window is impossible.
    pub(crate) fn new(world: &Job, flavor: Flavor, len: usize, info: &Info) -> Result<Option<AnyWindow<T>>> {
        Ok(Some(match flavor {
            Flavor::Dynamic => match ByteWindow::new(world, flavor, len * size_of::<T>(), info)? {
                Some(win) => AnyWindow::Bytes(win),
                None => return Ok(None),
            },
            _ => match typed(world, flavor, len, info)? {
                Some(win) => AnyWindow::Typed(win),
                None => return Ok(None),
            },
        }))
    }

    /// Runs `body` within an epoch to all targets.
    pub(crate) fn epoch(&self, body: impl FnOnce(&Epoch<'_, '_, '_, T>) -> Result<()>) -> Result<()> {
        match self {
            AnyWindow::Typed(win) => win.lock_all(|epoch| body(&Epoch::Typed(epoch))),
            AnyWindow::Bytes(win) => body(&Epoch::Bytes(win)),
        }
    }

    /// Puts elements at the beginning of a target's part.
    pub(crate) fn write(&self, target: usize, elements: &[T]) -> Result<()> {
        match self {
            AnyWindow::Typed(win) => win.lock_all(|epoch| epoch.put(target, 0, elements)),
            AnyWindow::Bytes(win) => win.write(target, 0, cast_slice(elements)),
        }
    }

    /// Gets elements from the beginning of a target's part.
    pub(crate) fn read(&self, target: usize, len: usize) -> Result<Vec<T>> {
        let mut found = vec![T::zeroed(); len];
        match self {
            AnyWindow::Typed(win) => win.lock_all(|epoch| epoch.scope(|part| part.get(target, 0, &mut found)))?,
            AnyWindow::Bytes(win) => {
                cast_slice_mut(&mut found).copy_from_slice(&win.read(target, 0, len * size_of::<T>())?);
            }
        }
        Ok(found)
    }

    /// Frees the window.
    pub(crate) fn free(self) -> Result<()> {
        match self {
            AnyWindow::Typed(win) => win.free(),
            AnyWindow::Bytes(win) => win.free(),
        }
    }
}

/// A typed window of any flavor but dynamic; `None` where a shared window is impossible.
pub(crate) fn typed<T: Element>(world: &Job, flavor: Flavor, len: usize, info: &Info) -> Result<Option<Window<T>>> {
    match flavor {
        Flavor::Shared => if_shareable(world, Window::allocate_shared_with(world, len, info)),
        Flavor::Create => Window::create_with(world, vec![T::zeroed(); len], info).map(Some),
        _ => Window::allocate_with(world, len, info).map(Some),
    }
}
