//! The values of a compare-and-swap.

/// The values of a compare-and-swap (`MPI_COMPARE_AND_SWAP`, MPI-4.1 §12.3.4): the element becomes
/// `new` if it equals `expected`, bit for bit. `V` is the element's bytes in
/// [`RawWindow`](crate::RawWindow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareSwap<V> {
    /// The value with which the element is compared.
    pub expected: V,
    /// The value that replaces an equal element.
    pub new: V,
}

impl<V> CompareSwap<V> {
    pub(crate) fn map<W>(self, mut convert: impl FnMut(V) -> W) -> CompareSwap<W> {
        CompareSwap { expected: convert(self.expected), new: convert(self.new) }
    }

    pub(crate) const fn as_ref(&self) -> CompareSwap<&V> {
        CompareSwap { expected: &self.expected, new: &self.new }
    }
}
