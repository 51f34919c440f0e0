//! Conversion between the numbers of the C interface and the library's values, both ways. Knows no
//! handles and no pointers.

use std::ffi::c_int;

use transom::{Assert, BasicType, Flavor, Lock, Model, Op, Route};

use crate::error::{Failure, TRANSOM_ERR_ASSERT, TRANSOM_ERR_LOCKTYPE, TRANSOM_ERR_OP, TRANSOM_ERR_RANK};

/// The null rank (MPI_PROC_NULL): an operation on it succeeds without an effect, and the buffers
/// may be NULL.
pub const TRANSOM_PROC_NULL: c_int = -1;
/// The index that transom_request_wait_any returns if no request is active.
pub const TRANSOM_UNDEFINED: i64 = -1;

/// The larger element.
pub const TRANSOM_MAX: c_int = 1;
/// The smaller element.
pub const TRANSOM_MIN: c_int = 2;
/// The sum; integers wrap.
pub const TRANSOM_SUM: c_int = 3;
/// The product; integers wrap.
pub const TRANSOM_PROD: c_int = 4;
/// 1 if both are true (nonzero), else 0.
pub const TRANSOM_LAND: c_int = 5;
/// Bitwise and.
pub const TRANSOM_BAND: c_int = 6;
/// 1 if one or both are true, else 0.
pub const TRANSOM_LOR: c_int = 7;
/// Bitwise or.
pub const TRANSOM_BOR: c_int = 8;
/// 1 if exactly one is true, else 0.
pub const TRANSOM_LXOR: c_int = 9;
/// Bitwise exclusive or.
pub const TRANSOM_BXOR: c_int = 10;
/// The pair with the larger value; of equal values the one with the smaller index.
pub const TRANSOM_MAXLOC: c_int = 11;
/// The pair with the smaller value; of equal values the one with the smaller index.
pub const TRANSOM_MINLOC: c_int = 12;
/// The origin's element.
pub const TRANSOM_REPLACE: c_int = 13;
/// The old value: a fetch becomes an atomic read.
pub const TRANSOM_NO_OP: c_int = 14;

/// A lock that several origins may hold at once.
pub const TRANSOM_LOCK_SHARED: c_int = 1;
/// A lock that one origin holds alone.
pub const TRANSOM_LOCK_EXCLUSIVE: c_int = 2;

/// Of a lock: no other rank holds or requests a conflicting lock while this rank holds it. Of post
/// and start: the post precedes the start. A post may give this assertion only if all matching
/// starts give it, and vice versa (MPI-4.1 section 12.5.5).
pub const TRANSOM_MODE_NOCHECK: c_int = 1;
/// This rank did not store into its part since the last synchronization.
pub const TRANSOM_MODE_NOSTORE: c_int = 2;
/// No rank puts or accumulates into this rank's part until the next synchronization.
pub const TRANSOM_MODE_NOPUT: c_int = 4;
/// No operation of this rank precedes the fence. All ranks give this assertion, or none.
pub const TRANSOM_MODE_NOPRECEDE: c_int = 8;
/// No operation of this rank follows the fence. All ranks give this assertion, or none.
pub const TRANSOM_MODE_NOSUCCEED: c_int = 16;

/// A window over memory of the caller.
pub const TRANSOM_FLAVOR_CREATE: c_int = 1;
/// A window with memory of the library.
pub const TRANSOM_FLAVOR_ALLOCATE: c_int = 2;
/// A window to which memory is attached.
pub const TRANSOM_FLAVOR_DYNAMIC: c_int = 3;
/// A window whose memory all ranks load and store.
pub const TRANSOM_FLAVOR_SHARED: c_int = 4;

/// One copy: this rank's loads see the puts of other ranks eventually.
pub const TRANSOM_MODEL_UNIFIED: c_int = 1;
/// A public and a private copy, which only synchronization makes equal.
pub const TRANSOM_MODEL_SEPARATE: c_int = 2;

/// The route to a rank: the rank is this one.
pub const TRANSOM_ROUTE_OWN: c_int = 1;
/// The route to a rank: shared memory of the node.
pub const TRANSOM_ROUTE_SHM: c_int = 2;
/// The route to a rank: the network.
pub const TRANSOM_ROUTE_NET: c_int = 3;

/// The first index runs slowest, as in C.
pub const TRANSOM_ORDER_C: c_int = 1;
/// The first index runs fastest, as in Fortran.
pub const TRANSOM_ORDER_FORTRAN: c_int = 2;

/// A rank as the library has it, which uses another number for the null rank.
pub(crate) fn rank(rank: c_int) -> Result<usize, Failure> {
    match usize::try_from(rank) {
        Ok(rank) => Ok(rank),
        Err(_) if rank == TRANSOM_PROC_NULL => Ok(transom::PROC_NULL),
        Err(_) => Err(Failure::new(TRANSOM_ERR_RANK, format!("there is no rank {rank}"))),
    }
}

/// A rank in the form of C programs.
pub(crate) fn number(rank: usize) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}

/// An operation by its number.
pub(crate) fn op(op: c_int) -> Result<Op, Failure> {
    let found = u8::try_from(op.wrapping_sub(1)).ok().and_then(Op::from_number);
    found.ok_or_else(|| Failure::new(TRANSOM_ERR_OP, format!("the operation {op} does not exist")))
}

/// Assertions by their bits.
pub(crate) fn assertions(bits: c_int) -> Result<Assert, Failure> {
    const BITS: [(c_int, Assert); 5] = [
        (TRANSOM_MODE_NOCHECK, Assert::NOCHECK),
        (TRANSOM_MODE_NOSTORE, Assert::NOSTORE),
        (TRANSOM_MODE_NOPUT, Assert::NOPUT),
        (TRANSOM_MODE_NOPRECEDE, Assert::NOPRECEDE),
        (TRANSOM_MODE_NOSUCCEED, Assert::NOSUCCEED),
    ];
    if bits & !BITS.iter().fold(0, |all, (bit, _)| all | bit) != 0 {
        return Err(Failure::new(
            TRANSOM_ERR_ASSERT,
            format!("the assertions {bits:#x} have bits that MPI does not define"),
        ));
    }
    let given = BITS.into_iter().filter(|(bit, _)| bits & bit != 0);
    Ok(given.fold(Assert::NONE, |all, (_, one)| all | one))
}

/// A kind of lock by its number.
pub(crate) fn lock(kind: c_int) -> Result<Lock, Failure> {
    match kind {
        TRANSOM_LOCK_SHARED => Ok(Lock::Shared),
        TRANSOM_LOCK_EXCLUSIVE => Ok(Lock::Exclusive),
        _ => Err(Failure::new(
            TRANSOM_ERR_LOCKTYPE,
            format!("the lock type {kind} is neither TRANSOM_LOCK_SHARED nor TRANSOM_LOCK_EXCLUSIVE"),
        )),
    }
}

/// The number of a flavor; 0 for one that this interface does not know.
pub(crate) fn flavor(flavor: Flavor) -> c_int {
    match flavor {
        Flavor::Create => TRANSOM_FLAVOR_CREATE,
        Flavor::Allocate => TRANSOM_FLAVOR_ALLOCATE,
        Flavor::Dynamic => TRANSOM_FLAVOR_DYNAMIC,
        Flavor::Shared => TRANSOM_FLAVOR_SHARED,
        _ => 0,
    }
}

/// The number of a memory model.
pub(crate) fn model(model: Model) -> c_int {
    match model {
        Model::Unified => TRANSOM_MODEL_UNIFIED,
        Model::Separate => TRANSOM_MODEL_SEPARATE,
    }
}

/// The number of a route; 0 for one that this interface does not know.
pub(crate) fn route(route: Route) -> c_int {
    match route {
        Route::Own => TRANSOM_ROUTE_OWN,
        Route::Shm => TRANSOM_ROUTE_SHM,
        Route::Net => TRANSOM_ROUTE_NET,
        _ => 0,
    }
}

/// The predefined type of which a handle of this address is: the macros of the header count from 1.
pub(crate) fn predefined(address: usize) -> Option<BasicType> {
    u8::try_from(address.wrapping_sub(1)).ok().and_then(BasicType::from_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_numbers_of_the_header() {
        let named = [
            (TRANSOM_MAX, Op::Max),
            (TRANSOM_MIN, Op::Min),
            (TRANSOM_SUM, Op::Sum),
            (TRANSOM_PROD, Op::Prod),
            (TRANSOM_LAND, Op::Land),
            (TRANSOM_BAND, Op::Band),
            (TRANSOM_LOR, Op::Lor),
            (TRANSOM_BOR, Op::Bor),
            (TRANSOM_LXOR, Op::Lxor),
            (TRANSOM_BXOR, Op::Bxor),
            (TRANSOM_MAXLOC, Op::MaxLoc),
            (TRANSOM_MINLOC, Op::MinLoc),
            (TRANSOM_REPLACE, Op::Replace),
            (TRANSOM_NO_OP, Op::NoOp),
        ];
        assert_eq!(named.len(), Op::ALL.len());
        for (number, expected) in named {
            assert_eq!(op(number).expect("an operation"), expected);
        }
        for number in [c_int::MIN, -1, 0, 15, c_int::MAX] {
            assert_eq!(op(number).expect_err("no operation").class, TRANSOM_ERR_OP, "{number}");
        }
    }

    #[test]
    fn assertions_are_bits() {
        let both = assertions(TRANSOM_MODE_NOPUT | TRANSOM_MODE_NOSUCCEED).expect("assertions");
        assert_eq!(both, Assert::NOPUT | Assert::NOSUCCEED);
        assert_eq!(assertions(0).expect("none"), Assert::NONE);
        assert_eq!(assertions(32).expect_err("no assertion").class, TRANSOM_ERR_ASSERT);
        assert_eq!(assertions(-1).expect_err("no assertion").class, TRANSOM_ERR_ASSERT);
    }

    #[test]
    fn ranks_are_numbers_from_0_or_proc_null() {
        assert_eq!(rank(7).expect("a rank"), 7);
        assert_eq!(rank(TRANSOM_PROC_NULL).expect("nobody"), transom::PROC_NULL);
        assert_eq!(rank(-2).expect_err("no rank").class, TRANSOM_ERR_RANK);
    }

    #[test]
    fn predefined_types_count_from_1() {
        assert_eq!(predefined(0), None);
        for (index, ty) in BasicType::ALL.into_iter().enumerate() {
            assert_eq!(predefined(index + 1), Some(ty));
        }
        assert_eq!(predefined(BasicType::ALL.len() + 1), None);
        assert_eq!(predefined(usize::MAX), None);
    }
}
