//! Type signatures: the sequence of basic types of a datatype, held as its length and two hashes,
//! so that repeating and joining sequences of any length takes no memory. Knows no memory layouts.
//!
//! A sequence is the digits of a number in a base, modulo the Mersenne prime 2^61 - 1, once for
//! each of two bases. Both bases generate the whole multiplicative group, so that no power of a
//! sequence vanishes; different sequences agree in both numbers with a chance of about 2^-122.
//! Equal sequences always agree.

use crate::reduce::BasicType;

const PRIME: u64 = (1 << 61) - 1;
/// Generators of the multiplicative group modulo `PRIME`; larger than every digit.
const BASES: [u64; 2] = [37, 0x1e37_79b9_7f4a_7c1a];

/// Which basic types a sequence has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    None,
    One(BasicType),
    Mixed,
}

/// A sequence of basic types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    kinds: Kinds,
    hash: [u64; 2],
    /// The bases, each to the power of the sequence's length.
    weight: [u64; 2],
    length: u128,
}

impl Signature {
    /// The empty sequence.
    pub(super) const EMPTY: Signature = Signature { kinds: Kinds::None, hash: [0, 0], weight: [1, 1], length: 0 };

    /// One basic type.
    pub(super) fn basic(basic: BasicType) -> Signature {
        let digit = u64::from(basic.number()) + 1;
        Signature { kinds: Kinds::One(basic), hash: [digit; 2], weight: BASES, length: 1 }
    }

    /// This sequence, then `next`.
    pub(super) fn then(self, next: Signature) -> Signature {
        let kinds = match (self.kinds, next.kinds) {
            (Kinds::None, kinds) | (kinds, Kinds::None) => kinds,
            (Kinds::One(a), Kinds::One(b)) if a == b => Kinds::One(a),
            _ => Kinds::Mixed,
        };
        let hash = [0, 1].map(|i| add(multiply(self.hash[i], next.weight[i]), next.hash[i]));
        let weight = [0, 1].map(|i| multiply(self.weight[i], next.weight[i]));
        Signature { kinds, hash, weight, length: self.length.saturating_add(next.length) }
    }

    /// This sequence `count` times.
    pub(super) fn repeated(self, count: usize) -> Signature {
        let mut all = Signature::EMPTY;
        let mut power = self;
        let mut rest = count;
        while rest > 0 {
            if rest & 1 == 1 {
                all = power.then(all);
            }
            rest >>= 1;
            if rest > 0 {
                power = power.then(power);
            }
        }
        all
    }

    /// The basic type of all elements; `None` where there are several or no elements.
    pub(super) fn uniform(&self) -> Option<BasicType> {
        match self.kinds {
            Kinds::One(basic) => Some(basic),
            Kinds::None | Kinds::Mixed => None,
        }
    }

    /// Whether `count` of this are the same sequence as `other_count` of `other`.
    pub(super) fn matches(&self, count: usize, other: &Signature, other_count: usize) -> bool {
        let (length, other_length) =
            (self.length.saturating_mul(count as u128), other.length.saturating_mul(other_count as u128));
        if length != other_length {
            return false;
        }
        if length == 0 {
            return true;
        }
        match (self.kinds, other.kinds) {
            (Kinds::One(a), Kinds::One(b)) => a == b,
            (Kinds::Mixed, Kinds::Mixed) => self.repeated(count).hash == other.repeated(other_count).hash,
            _ => false,
        }
    }
}

fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let halves = [product & u128::from(PRIME), product >> 61].map(|half| u64::try_from(half).unwrap_or(PRIME));
    let sum = halves[0] + halves[1];
    if sum >= PRIME { sum - PRIME } else { sum }
}
