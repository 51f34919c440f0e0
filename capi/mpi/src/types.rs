//! Datatypes, decoded once and kept for their handles until they end: a predefined one for ever, a derived one until the host calls
//! the end of its attribute. Each is decoded twice: as the basic types that accumulates need, and as the bytes that a
//! put or get moves, which every type has.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::OnceLock;

use transom::datatype::Order;
use transom::{BasicType, Class, Datatype};

use crate::errors::{Failure, Outcome};
use crate::handles::Handles;
use crate::host::{
    Envelope, Predefined, SUCCESS, Type, constants, host_Type_free, host_Type_set_attr, host_contents, host_envelope,
    host_is_fortran_order, host_measure, host_predefined, host_type_keyval,
};

/// What is kept for each handle.
static TYPES: Handles<Decoded> = Handles::new();
/// The key of the attribute that tells the end of a type.
static KEYVAL: OnceLock<c_int> = OnceLock::new();

/// A datatype of the host as transom has it.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// The bytes of one item where any number of items is one run of bytes, else 0.
    pub(crate) dense: usize,
    /// Where its data lies, whatever it is.
    pub(crate) bytes: Datatype,
    /// The same with its basic types; `None` where transom lacks one of them.
    pub(crate) typed: Option<Datatype>,
    /// The type itself, if it is predefined.
    pub(crate) basic: Option<BasicType>,
}

/// A decoded type, kept or not.
pub(crate) enum Found {
    Kept(&'static Decoded),
    Made(Box<Decoded>),
}

impl Deref for Found {
    type Target = Decoded;
    #[inline]
    fn deref(&self) -> &Decoded {
        match self {
            Found::Kept(decoded) => decoded,
            Found::Made(decoded) => decoded,
        }
    }
}

/// `enum combiner` of host/host.h.
mod combiner {
    pub(super) const NAMED: i32 = 0;
    pub(super) const DUP: i32 = 1;
    pub(super) const CONTIGUOUS: i32 = 2;
    pub(super) const VECTOR: i32 = 3;
    pub(super) const HVECTOR: i32 = 4;
    pub(super) const INDEXED: i32 = 5;
    pub(super) const HINDEXED: i32 = 6;
    pub(super) const INDEXED_BLOCK: i32 = 7;
    pub(super) const HINDEXED_BLOCK: i32 = 8;
    pub(super) const STRUCT: i32 = 9;
    pub(super) const SUBARRAY: i32 = 10;
    pub(super) const RESIZED: i32 = 11;
}

/// Decodes the predefined types, once the host has begun.
pub(crate) fn begin() {
    let mut keyval = 0;
    // SAFETY: it writes a number.
    if unsafe { host_type_keyval(&raw mut keyval) } == SUCCESS {
        // Called once, so that nothing is there.
        let _ = KEYVAL.set(keyval);
    }
    let mut all = [Predefined { ty: constants().null_type, kind: 0 }; 96];
    // SAFETY: there is room for 96.
    let count = unsafe { host_predefined(all.as_mut_ptr(), 96) };
    for Predefined { ty, kind } in all.into_iter().take(usize::try_from(count).unwrap_or_default()) {
        let Ok(measured) = measure(ty) else { continue };
        let basic = u8::try_from(kind).ok().and_then(|kind| basic(kind, measured.size));
        if let Ok(decoded) = named(basic, measured) {
            // A map that is empty has room.
            drop(TYPES.insert(ty, decoded));
        }
    }
}

/// The decoded form of a type.
#[inline]
pub(crate) fn find(ty: Type) -> Outcome<Found> {
    match TYPES.get(ty) {
        Some(decoded) => Ok(Found::Kept(decoded)),
        None => look(ty),
    }
}

/// The bytes of `count` items of a type that is kept and one run of bytes; `None` for whatever else.
#[inline]
pub(crate) fn dense(ty: Type, count: i64) -> Option<usize> {
    let size = TYPES.get(ty)?.dense;
    if size == 0 { None } else { usize::try_from(count).ok()?.checked_mul(size) }
}

#[cold]
fn look(ty: Type) -> Outcome<Found> {
    if ty == constants().null_type {
        return Err(Failure::new(Class::Type, "the datatype is MPI_DATATYPE_NULL"));
    }
    let envelope = envelope(ty)?;
    let decoded = decode(ty, &envelope)?;
    if envelope.combiner != combiner::NAMED {
        let Some(&keyval) = KEYVAL.get() else { return Ok(Found::Made(Box::new(decoded))) };
        // SAFETY: the type lives; the value is not looked at.
        if unsafe { host_Type_set_attr(ty, keyval, std::ptr::null_mut::<c_void>()) } != SUCCESS {
            return Ok(Found::Made(Box::new(decoded)));
        }
    }
    Ok(match TYPES.insert(ty, decoded) {
        Ok(kept) => Found::Kept(kept),
        Err(decoded) => Found::Made(Box::new(decoded)),
    })
}

/// The end of a type.
///
/// # Safety
/// Nobody uses what is kept for `ty` any more.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_forget_type(ty: Type) {
    TYPES.remove(ty);
}

/// What the host says of a type, in bytes.
#[derive(Clone, Copy)]
struct Measured {
    size: usize,
    lb: isize,
    extent: isize,
}

fn measure(ty: Type) -> Outcome<Measured> {
    let (mut size, mut lb, mut extent) = (0, 0, 0);
    // SAFETY: the type is one of the host's; it writes numbers.
    checked(unsafe { host_measure(ty, &raw mut size, &raw mut lb, &raw mut extent) })?;
    Ok(Measured { size: usize::try_from(size).unwrap_or_default(), lb, extent })
}

fn envelope(ty: Type) -> Outcome<Envelope> {
    let mut envelope = Envelope::default();
    // SAFETY: as in `measure`.
    checked(unsafe { host_envelope(ty, &raw mut envelope) }).map(|()| envelope)
}

fn checked(code: c_int) -> Outcome<()> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(Failure::new(Class::Type, format!("the MPI can't tell what the datatype is: error code {code}")))
}

/// The basic type of a kind (`struct predefined` of host/host.h) with so many bytes.
fn basic(kind: u8, size: usize) -> Option<BasicType> {
    use BasicType as B;
    Some(match (kind, size) {
        (b'i', 1) => B::Int8,
        (b'i', 2) => B::Int16,
        (b'i', 4) => B::Int32,
        (b'i', 8) => B::Int64,
        (b'u', 1) => B::Uint8,
        (b'u', 2) => B::Uint16,
        (b'u', 4) => B::Uint32,
        (b'u', 8) => B::Uint64,
        (b'f', 4) => B::Float32,
        (b'f', 8) => B::Float64,
        (b'c', 8) => B::Complex32,
        (b'c', 16) => B::Complex64,
        (b'b', 1) => B::Bool,
        (b'y', 1) => B::Byte,
        (b'F', 8) => B::FloatInt,
        (b'D', 12) => B::DoubleInt,
        (b'L', 12) => B::LongInt,
        (b'2', 8) => B::TwoInt,
        (b'S', 6) => B::ShortInt,
        _ => return None,
    })
}

/// A predefined type.
fn named(basic: Option<BasicType>, measured: Measured) -> Outcome<Decoded> {
    let byte = Datatype::basic(BasicType::Byte);
    let bytes = match basic {
        // A gap follows the value.
        Some(BasicType::ShortInt) => Datatype::hindexed(&[(2, 0), (4, 4)], &byte)?,
        _ => Datatype::contiguous(measured.size, &byte)?,
    };
    finish(bytes, basic.map(Datatype::basic), basic, measured)
}

/// Bounds are the host's: it may round what transom would not.
fn finish(
    bytes: Datatype,
    typed: Option<Datatype>,
    basic: Option<BasicType>,
    Measured { lb, extent, .. }: Measured,
) -> Outcome<Decoded> {
    let bound = |ty: Datatype| match ty.lb() == lb as i64 && ty.extent() == extent as i64 {
        true => Ok(ty),
        false => Datatype::resized(lb, extent, &ty),
    };
    let bytes = bound(bytes)?;
    let dense = if bytes.is_contiguous() { bytes.size() } else { 0 };
    Ok(Decoded { dense, bytes, typed: typed.map(bound).transpose()?, basic })
}

fn decode(ty: Type, envelope: &Envelope) -> Outcome<Decoded> {
    let measured = measure(ty)?;
    if envelope.combiner == combiner::NAMED {
        // Those that transom has are kept.
        return named(None, measured);
    }
    let (values, parts) = contents(ty, envelope)?;
    let bytes: Vec<Datatype> = parts.iter().map(|part| part.bytes.clone()).collect();
    let typed: Option<Vec<Datatype>> = parts.iter().map(|part| part.typed.clone()).collect();
    let build = |parts: &[Datatype]| construct(envelope, &values, parts);
    finish(build(&bytes)?, typed.map(|typed| build(&typed)).transpose()?, None, measured)
}

/// The numbers that a type was made of, those of each kind in turn, and the types, decoded.
fn contents(ty: Type, envelope: &Envelope) -> Outcome<(Vec<i64>, Vec<Decoded>)> {
    let room = |count: i64| usize::try_from(count).unwrap_or_default();
    let mut numbers = vec![0; room(envelope.numbers)];
    let mut addresses = vec![0; room(envelope.addresses)];
    let mut large = vec![0; room(envelope.large)];
    let mut types = vec![constants().null_type; room(envelope.types)];
    // SAFETY: there is as much room as the envelope says.
    let code = unsafe {
        let (numbers, addresses) = (numbers.as_mut_ptr(), addresses.as_mut_ptr());
        host_contents(ty, envelope, numbers, addresses, large.as_mut_ptr(), types.as_mut_ptr())
    };
    checked(code)?;
    let mut values: Vec<i64> = numbers.into_iter().map(i64::from).collect();
    values.extend(addresses.into_iter().map(|address: isize| address as i64));
    values.extend(large);
    let mut parts = Vec::with_capacity(types.len());
    for mut part in types {
        let inner = self::envelope(part)?;
        let kept = TYPES.get(part).cloned();
        parts.push(kept.map_or_else(|| decode(part, &inner), Ok));
        if inner.combiner != combiner::NAMED {
            // SAFETY: a derived type among contents is a new handle, which who asked frees (MPI §5.1.13).
            unsafe { host_Type_free(&raw mut part) };
        }
    }
    Ok((values, parts.into_iter().collect::<Outcome<_>>()?))
}

/// Makes the type again of its parts; `values` as MPI §5.1.13 lists them.
fn construct(envelope: &Envelope, values: &[i64], parts: &[Datatype]) -> Outcome<Datatype> {
    let odd =
        || Failure::new(Class::Type, "a datatype of a kind that transom can't decode, such as a distributed array");
    let part = parts.first().ok_or_else(odd)?;
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    let count = |place: usize| usize::try_from(at(place)).unwrap_or_default();
    let step = |place: usize| isize::try_from(at(place)).unwrap_or_default();
    // Of a list of `n` blocks: the length of each begins at 1, its displacement after all lengths.
    let n = count(0);
    let blocks = || (0..n).map(|block| (count(1 + block), step(1 + n + block))).collect::<Vec<_>>();
    let equal = || (0..n).map(|block| step(2 + block)).collect::<Vec<_>>();
    Ok(match envelope.combiner {
        combiner::DUP => part.clone(),
        combiner::CONTIGUOUS => Datatype::contiguous(n, part)?,
        combiner::VECTOR => Datatype::vector(n, count(1), step(2), part)?,
        combiner::HVECTOR => Datatype::hvector(n, count(1), step(2), part)?,
        combiner::INDEXED => Datatype::indexed(&blocks(), part)?,
        combiner::HINDEXED => Datatype::hindexed(&blocks(), part)?,
        combiner::INDEXED_BLOCK => Datatype::indexed_block(count(1), &equal(), part)?,
        combiner::HINDEXED_BLOCK => Datatype::hindexed_block(count(1), &equal(), part)?,
        combiner::STRUCT => {
            let parts = parts.iter().cloned().zip(blocks());
            Datatype::structure(&parts.map(|(part, (length, at))| (length, at, part)).collect::<Vec<_>>())?
        }
        combiner::RESIZED => Datatype::resized(step(0), step(1), part)?,
        combiner::SUBARRAY => {
            // With large counts the order is the second number, else the last.
            let (first, order) = if envelope.large > 0 { (2, at(1)) } else { (1, at(1 + 3 * n)) };
            let list = |which: usize| (0..n).map(|d| count(first + which * n + d)).collect::<Vec<_>>();
            // SAFETY: it compares a number.
            let fortran = unsafe { host_is_fortran_order(c_int::try_from(order).unwrap_or_default()) } != 0;
            let order = if fortran { Order::Fortran } else { Order::C };
            Datatype::subarray(&list(0), &list(1), &list(2), order, part)?
        }
        _ => return Err(odd()),
    })
}
