//! Datatypes, decoded once and cached by handle: a predefined type for ever, a derived type until
//! the host calls the delete function of its attribute. Each is decoded twice: as the basic types
//! that accumulates need, and as the bytes that a put or get moves, which every type has.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use transom::datatype::Order;
use transom::{BasicType, Class, Datatype, Op};

use crate::errors::{Failure, Outcome};
use crate::handles::Handles;
use crate::host::{
    Envelope, Predefined, SUCCESS, Type, constants, host_Type_free, host_Type_free_keyval, host_Type_set_attr,
    host_contents, host_envelope, host_is_committed, host_is_fortran_order, host_predefined, host_prepare_commits,
    host_size_and_extent, host_type_keyval,
};
use crate::keyvals::Keyval;

mod distributed;
mod foreign;
mod pairs;

/// The decoded type of each handle.
static TYPES: Handles<Decoded> = Handles::new();
/// The key of the attribute whose deletion reports the end of a type.
static KEYVAL: Keyval = Keyval::none();
/// Held by the thread that caches a type, which then gives the type its attribute: if a second
/// thread set the attribute too, the host would end the value that the first one has cached. Not
/// held in calls of the host, which may wait for a delete function of the program.
static FIRST_USE: Mutex<()> = Mutex::new(());

/// A datatype of the host in transom's form.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// The size of one item in bytes if any number of items is contiguous, else 0.
    pub(crate) size_if_contiguous: usize,
    /// The locations of the type's data, as bytes.
    pub(crate) bytes: Datatype,
    /// The locations of the type's data, as basic types; `None` if transom lacks one of them.
    pub(crate) typed: Option<Datatype>,
    /// The basic type itself, if the type is predefined.
    pub(crate) basic: Option<BasicType>,
    /// The operations that are defined on the type.
    ops: Ops,
}

/// A set of operations: a bit for each operation by its number, and after them one for
/// compare-and-swap.
#[derive(Clone, Copy, Debug)]
struct Ops(u32);

const SWAP: u8 = 14;

impl Ops {
    /// The operations on a basic type, apart from any host.
    fn of(basic: BasicType) -> Ops {
        let swap = u32::from(Op::allows_compare_and_swap(basic)) << SWAP;
        Ops(Op::ALL.into_iter().filter(|op| op.allows(basic)).fold(swap, |ops, op| ops | 1 << op.number()))
    }
}

impl Decoded {
    /// Whether the host or MPI-4.1 §6.9.2 defines `op` on it. Replace and no-op are defined on all
    /// types.
    #[inline]
    pub(crate) fn allows(&self, op: Op) -> bool {
        self.ops.0 >> op.number() & 1 == 1 || matches!(op, Op::Replace | Op::NoOp)
    }

    /// Whether all bytes of its basic types are data: it has no pair with a gap behind the value.
    fn has_no_gaps(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| typed.size() == self.bytes.size())
    }

    /// Whether compare-and-swap is defined on it.
    pub(crate) fn has_compare_and_swap(&self) -> bool {
        self.ops.0 >> SWAP & 1 == 1
    }
}

/// A decoded type: in the cache, or one that could not be cached.
pub(crate) enum DecodedRef {
    Cached(&'static Decoded),
    Owned(Box<Decoded>),
}

impl Deref for DecodedRef {
    type Target = Decoded;
    #[inline]
    fn deref(&self) -> &Decoded {
        match self {
            DecodedRef::Cached(decoded) => decoded,
            DecodedRef::Owned(decoded) => decoded,
        }
    }
}

impl DecodedRef {
    /// The type whose one item is the first `len` bytes of items of this type.
    pub(crate) fn leading(&self, len: usize) -> Outcome<DecodedRef> {
        let typed = self.typed.as_ref().and_then(|ty| {
            let elements = ty.size() / ty.uniform()?.size();
            // The data of an element: a pair may have a gap, which is no data.
            let size = self.bytes.size().checked_div(elements)?;
            len.is_multiple_of(size).then_some((ty, size))
        });
        Ok(DecodedRef::Owned(Box::new(Decoded {
            size_if_contiguous: 0,
            bytes: self.bytes.leading(len)?,
            typed: typed.map(|(ty, size)| ty.leading(len / size)).transpose()?,
            basic: None,
            ops: self.ops,
        })))
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
    pub(super) const DARRAY: i32 = 12;
    pub(super) const F90_REAL: i32 = 13;
    pub(super) const F90_COMPLEX: i32 = 14;
    pub(super) const F90_INTEGER: i32 = 15;
    pub(super) const VALUE_INDEX: i32 = 16;

    /// Whether a type of this combiner can't be freed (MPI-4.1 §5.1.13, §6.9.4).
    pub(super) fn is_predefined(combiner: i32) -> bool {
        matches!(combiner, NAMED | F90_REAL | F90_COMPLEX | F90_INTEGER | VALUE_INDEX)
    }
}

/// Decodes the predefined types, after the host's start.
pub(crate) fn begin() {
    foreign::begin();
    // SAFETY: the host has started, and no other thread calls it yet.
    unsafe { host_prepare_commits() };
    let mut keyval = 0;
    // SAFETY: the call writes a number.
    if unsafe { host_type_keyval(&raw mut keyval) } == SUCCESS {
        KEYVAL.set(keyval);
    }
    let mut all = [Predefined { ty: constants().null_type, kind: 0, ops: 0 }; 96];
    // SAFETY: there is room for 96.
    let count = unsafe { host_predefined(all.as_mut_ptr(), 96) };
    for Predefined { ty, kind, ops } in all.into_iter().take(usize::try_from(count).unwrap_or_default()) {
        let Ok(measured) = measure(ty) else { continue };
        let basic = u8::try_from(kind).ok().and_then(|kind| basic(kind, measured.size));
        if let Ok(decoded) = named(basic, Ops(ops), measured) {
            // An empty map has room.
            drop(TYPES.insert(ty, decoded));
        }
    }
}

/// Frees the key, before the host's end. Types without an attribute are decoded at each use then.
pub(crate) fn end() {
    if let Some(mut keyval) = KEYVAL.take() {
        // SAFETY: the key is the library's own.
        unsafe { host_Type_free_keyval(&raw mut keyval) };
    }
}

/// The decoded form of a type.
#[inline]
pub(crate) fn find(ty: Type) -> Outcome<DecodedRef> {
    match TYPES.get(ty) {
        Some(decoded) => Ok(DecodedRef::Cached(decoded)),
        None => decode_and_cache(ty),
    }
}

/// The size in bytes of `count` items of a cached contiguous type; `None` for other types.
#[inline]
pub(crate) fn contiguous_bytes(ty: Type, count: i64) -> Option<usize> {
    let size = TYPES.get(ty)?.size_if_contiguous;
    if size == 0 { None } else { usize::try_from(count).ok()?.checked_mul(size) }
}

#[cold]
fn decode_and_cache(ty: Type) -> Outcome<DecodedRef> {
    if ty == constants().null_type {
        return Err(Failure::new(Class::Type, "the datatype is MPI_DATATYPE_NULL"));
    }
    let envelope = envelope(ty)?;
    let decoded = decode(ty, &envelope)?;
    let ends = !combiner::is_predefined(envelope.combiner);
    // SAFETY: the type is valid.
    if ends && unsafe { host_is_committed(ty) } == 0 {
        return Err(Failure::new(Class::Type, "the datatype is not committed (MPI_Type_commit)"));
    }
    let keyval = KEYVAL.get().filter(|_| ends);
    if ends && keyval.is_none() {
        return Ok(DecodedRef::Owned(Box::new(decoded)));
    }
    let cached = {
        let _first = FIRST_USE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = TYPES.get(ty) {
            return Ok(DecodedRef::Cached(cached));
        }
        match TYPES.insert(ty, decoded) {
            Ok(cached) => cached,
            Err(decoded) => return Ok(DecodedRef::Owned(Box::new(decoded))),
        }
    };
    // SAFETY: the type is valid; the attribute's value is never read.
    let set = |keyval| unsafe { host_Type_set_attr(ty, keyval, std::ptr::null_mut::<c_void>()) };
    if keyval.is_some_and(|keyval| set(keyval) != SUCCESS) {
        // Other threads may use the value, so it is never ended.
        TYPES.forget(ty);
    }
    Ok(DecodedRef::Cached(cached))
}

/// Called at the end of a type.
///
/// # Safety
/// The cached value of `ty` has no users any more.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn transom_forget_type(ty: Type) {
    TYPES.end(ty);
}

/// The host's measures of a type, in bytes.
#[derive(Clone, Copy)]
struct Measured {
    size: usize,
    lb: isize,
    extent: isize,
}

fn measure(ty: Type) -> Outcome<Measured> {
    let (mut size, mut lb, mut extent) = (0, 0, 0);
    // SAFETY: the type is one of the host's; the call writes numbers.
    checked(unsafe { host_size_and_extent(ty, &raw mut size, &raw mut lb, &raw mut extent) })?;
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
    Err(Failure::new(Class::Type, format!("the MPI does not describe the datatype: error code {code}")))
}

/// The basic type of a kind (`struct predefined` of host/host.h) and size in bytes.
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
        _ => return foreign::basic(kind, size),
    })
}

/// Decodes a predefined type.
fn named(basic: Option<BasicType>, ops: Ops, measured: Measured) -> Outcome<Decoded> {
    let byte = Datatype::basic(BasicType::Byte);
    let bytes = match basic {
        // There is a gap after the first value.
        Some(BasicType::ShortInt) => Datatype::hindexed(&[(2, 0), (4, 4)], &byte)?,
        _ => Datatype::contiguous(measured.size, &byte)?,
    };
    Ok(Decoded { basic, ops, ..with_bounds_of_host(bytes, basic.map(Datatype::basic), measured)? })
}

/// A decoded type with the host's bounds: the host may round where transom would not.
fn with_bounds_of_host(
    bytes: Datatype,
    typed: Option<Datatype>,
    Measured { lb, extent, .. }: Measured,
) -> Outcome<Decoded> {
    let bound = |ty: Datatype| match ty.lb() == lb as i64 && ty.extent() == extent as i64 {
        true => Ok(ty),
        false => Datatype::resized(&ty, lb, extent),
    };
    let bytes = bound(bytes)?;
    let size_if_contiguous = if bytes.is_contiguous() { bytes.size() } else { 0 };
    Ok(Decoded { size_if_contiguous, bytes, typed: typed.map(bound).transpose()?, basic: None, ops: Ops(0) })
}

fn decode(ty: Type, envelope: &Envelope) -> Outcome<Decoded> {
    let measured = measure(ty)?;
    if envelope.combiner == combiner::NAMED {
        // A predefined type without a basic type: those that transom has are in the cache. Types
        // without data, `MPI_LB` and `MPI_UB`, forbid no operation.
        let mut decoded = named(None, if measured.size == 0 { Ops(u32::MAX) } else { Ops(0) }, measured)?;
        if measured.size == 0 {
            decoded.typed = Some(decoded.bytes.clone());
        }
        return Ok(decoded);
    }
    let (values, parts) = contents(ty, envelope)?;
    if envelope.combiner == combiner::VALUE_INDEX {
        return pairs::decode(&parts, measured);
    }
    if combiner::is_predefined(envelope.combiner) {
        let basic = parametrized(envelope.combiner, &values, measured.size);
        return named(basic, basic.map_or(Ops(0), Ops::of), measured);
    }
    let build = |parts: &[Datatype]| construct(envelope, &values, parts);
    let typed: Option<Vec<Datatype>> = parts.iter().map(|part| part.typed.clone()).collect();
    let typed = typed.map(|typed| build(&typed)).transpose()?;
    // Without gaps in basic types the two differ only in their signatures.
    let bytes = match &typed {
        Some(typed) if parts.iter().all(Decoded::has_no_gaps) => typed.as_bytes(),
        _ => build(&parts.iter().map(|part| part.bytes.clone()).collect::<Vec<_>>())?,
    };
    // Accumulates take no type of several basic types; for all others the intersection is exact.
    // Blocks of length 0, and of a type of size 0, have no data.
    let has_data = |block: usize| envelope.combiner != combiner::STRUCT || values.get(1 + block) != Some(&0);
    let parts_with_data = parts.iter().enumerate().filter(|(block, part)| has_data(*block) && part.bytes.size() > 0);
    let ops = Ops(parts_with_data.fold(u32::MAX, |ops, (_, part)| ops & part.ops.0));
    Ok(Decoded { ops, ..with_bounds_of_host(bytes, typed, measured)? })
}

/// The basic type of `MPI_Type_create_f90_real` and similar calls, by the precision, which is the
/// first of `values`.
fn parametrized(combiner: i32, values: &[i64], size: usize) -> Option<BasicType> {
    // The 64 bits of an x87 `long double` are 18 decimal digits.
    let wide = values.first().is_some_and(|&precision| (19..1000).contains(&precision));
    let kind = match combiner {
        combiner::F90_INTEGER => b'i',
        combiner::F90_REAL if size < 16 => b'f',
        combiner::F90_REAL if wide => b'q',
        combiner::F90_REAL => b'l',
        _ if size < 32 => b'c',
        _ if wide => b'r',
        _ => b'm',
    };
    basic(kind, size)
}

/// The numbers from which a type was made, kind after kind, and its component types, decoded.
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
        if !combiner::is_predefined(inner.combiner) {
            // SAFETY: a derived component type is a new handle, which the caller of the query frees
            // (MPI-4.1 §5.1.13).
            unsafe { host_Type_free(&raw mut part) };
        }
    }
    Ok((values, parts.into_iter().collect::<Outcome<_>>()?))
}

/// Builds the type again from its parts, with `values` in the order of MPI-4.1 §5.1.13.
fn construct(envelope: &Envelope, values: &[i64], parts: &[Datatype]) -> Outcome<Datatype> {
    let unsupported = || {
        let what = "transom can't decode a datatype of this constructor";
        let text = format!("{what}: it is combiner {} of capi/mpi/host/host.h", envelope.combiner);
        Failure::new(Class::Type, text)
    };
    // A structure may have no parts.
    let nothing = Datatype::structure(&[])?;
    let part = match envelope.combiner {
        combiner::STRUCT => &nothing,
        _ => parts.first().ok_or_else(unsupported)?,
    };
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    let count = |place: usize| usize::try_from(at(place)).unwrap_or_default();
    let step = |place: usize| isize::try_from(at(place)).unwrap_or_default();
    // In a list of `n` blocks the lengths begin at 1; the displacements come after all lengths.
    let n = count(0);
    let blocks = || (0..n).map(|block| (count(1 + block), step(1 + n + block))).collect::<Vec<_>>();
    let displacements = || (0..n).map(|block| step(2 + block)).collect::<Vec<_>>();
    Ok(match envelope.combiner {
        combiner::DUP => part.clone(),
        combiner::CONTIGUOUS => Datatype::contiguous(n, part)?,
        combiner::VECTOR => Datatype::vector(n, count(1), step(2), part)?,
        combiner::HVECTOR => Datatype::hvector(n, count(1), step(2), part)?,
        combiner::INDEXED => Datatype::indexed(&blocks(), part)?,
        combiner::HINDEXED => Datatype::hindexed(&blocks(), part)?,
        combiner::INDEXED_BLOCK => Datatype::indexed_block(count(1), &displacements(), part)?,
        combiner::HINDEXED_BLOCK => Datatype::hindexed_block(count(1), &displacements(), part)?,
        combiner::STRUCT => {
            let parts = parts.iter().cloned().zip(blocks());
            Datatype::structure(&parts.map(|(part, (length, at))| (length, at, part)).collect::<Vec<_>>())?
        }
        combiner::RESIZED => Datatype::resized(part, step(0), step(1))?,
        combiner::SUBARRAY => {
            // With large counts the order is the second number, else the last.
            let (first, order) = if envelope.large > 0 { (2, at(1)) } else { (1, at(1 + 3 * n)) };
            let list = |which: usize| (0..n).map(|d| count(first + which * n + d)).collect::<Vec<_>>();
            Datatype::subarray(&list(0), &list(1), &list(2), order_of(order), part)?
        }
        combiner::DARRAY => distributed::construct(values, envelope.large > 0, part)?,
        _ => return Err(unsupported()),
    })
}

/// The order of an array's elements, from the host's number.
fn order_of(number: i64) -> Order {
    // SAFETY: the call compares a number.
    let fortran = unsafe { host_is_fortran_order(c_int::try_from(number).unwrap_or_default()) } != 0;
    if fortran { Order::Fortran } else { Order::C }
}
