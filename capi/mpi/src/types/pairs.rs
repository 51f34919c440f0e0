//! Pairs of a value and an index without a name of their own (`MPI_Type_get_value_index`, MPI-4.1
//! §6.9.4). They are laid out as C structures.

use transom::reduce::foreign::Foreign;
use transom::{BasicType, Class, Datatype};

use super::{Decoded, Measured, Ops, with_bounds_of_host};
use crate::errors::{Failure, Outcome};

/// Decodes a pair from its value and its index.
pub(super) fn decode(parts: &[Decoded], measured: Measured) -> Outcome<Decoded> {
    let unsupported = || Failure::new(Class::Type, "transom can't decode this pair of a value and an index");
    let [value, index] = parts else { return Err(unsupported()) };
    // The alignment of an integer is its size.
    let align = index.basic.ok_or_else(unsupported)?.size();
    let at = usize::try_from(value.bytes.extent()).ok().and_then(|end| end.checked_next_multiple_of(align));
    let at = at.and_then(|at| isize::try_from(at).ok()).ok_or_else(unsupported)?;
    let both =
        |value: &Datatype, index: &Datatype| Datatype::structure(&[(1, 0, value.clone()), (1, at, index.clone())]);
    let bytes = both(&value.bytes, &index.bytes)?;
    let pair = known(value, index);
    let typed = match (pair, &value.typed, &index.typed) {
        (Some(pair), ..) => Some(Datatype::basic(pair)),
        (None, Some(value), Some(index)) => Some(both(value, index)?),
        _ => None,
    };
    Ok(Decoded { basic: pair, ops: pair.map_or(Ops(0), Ops::of), ..with_bounds_of_host(bytes, typed, measured)? })
}

/// The pair on which transom computes `MPI_MAXLOC` and `MPI_MINLOC`.
fn known(value: &Decoded, index: &Decoded) -> Option<BasicType> {
    use BasicType as B;
    if index.basic != Some(B::Int32) {
        return None;
    }
    Some(match value.basic? {
        B::Float32 => B::FloatInt,
        B::Float64 => B::DoubleInt,
        B::Int64 => B::LongInt,
        B::Int32 => B::TwoInt,
        B::Int16 => B::ShortInt,
        B::Foreign(Foreign::LongDouble) => B::Foreign(Foreign::LongDoubleInt),
        _ => return None,
    })
}
