//! The whole table of transitions, written out: the effect of each call in each state, as the
//! chapter has it.

use super::*;

const ACCESS: [Access; 8] = [
    Access::Closed,
    Access::Fenced,
    Access::Fence,
    Access::LockAll,
    Access::Lock,
    Access::Start,
    Access::Freed,
    Access::FirstOperation,
];

/// For each call, the access epoch after it in Closed, Fenced, Fence, LockAll, Lock, Start, Freed,
/// FirstOperation; `None`: refused.
/// Shows E2.
#[test]
fn every_transition_is_as_the_chapter_says() {
    use Access::{Closed, Fence, Fenced, FirstOperation, Freed, Lock, LockAll, Start};
    let lock = |held| Call::Lock { held, own: false };
    let no = [None; 8];
    let table: [(Call, [Option<Access>; 8]); 19] = [
        (
            Call::Operation,
            [None, Some(FirstOperation), Some(Fence), Some(LockAll), Some(Lock), Some(Start), None, Some(Fence)],
        ),
        (
            Call::Refused,
            [Some(Closed), Some(Fenced), Some(Fence), Some(LockAll), Some(Lock), Some(Start), None, Some(Fenced)],
        ),
        (Call::Request, [None, None, None, Some(LockAll), Some(Lock), None, None, None]),
        (Call::Fence, [Some(Fenced), Some(Fenced), Some(Fenced), None, None, None, None, Some(Fenced)]),
        (Call::LastFence, [Some(Closed), Some(Closed), Some(Closed), None, None, None, None, Some(Closed)]),
        (Call::LockAll, [Some(LockAll), Some(LockAll), None, None, None, None, None, None]),
        (Call::UnlockAll, [None, None, None, Some(Closed), None, None, None, None]),
        (lock(false), [Some(Lock), Some(Lock), None, None, Some(Lock), None, None, None]),
        (lock(true), no),
        (Call::Unlock { held: true, last: true }, [None, None, None, None, Some(Closed), None, None, None]),
        (Call::Unlock { held: true, last: false }, [None, None, None, None, Some(Lock), None, None, None]),
        (Call::Unlock { held: false, last: false }, no),
        (Call::Flush { held: true }, [None, None, None, Some(LockAll), Some(Lock), None, None, None]),
        (Call::Flush { held: false }, [None, None, None, Some(LockAll), None, None, None, None]),
        (Call::FlushAll, [None, None, None, Some(LockAll), Some(Lock), None, None, None]),
        (Call::Start, [Some(Start), Some(Start), None, None, None, None, None, None]),
        (Call::Complete, [None, None, None, None, None, Some(Closed), None, None]),
        (Call::Free, [Some(Freed), Some(Freed), None, None, None, None, None, None]),
        (Call::Wait, no),
    ];
    for (call, outcomes) in table {
        for (access, outcome) in ACCESS.into_iter().zip(outcomes) {
            let found = after((access, Exposure::Closed), call);
            assert_eq!(found.ok(), outcome.map(|next| (next, Exposure::Closed)), "{call:?} in {access:?}: {found:?}");
        }
    }
}

/// Access and exposure epochs of one process overlap (MPI-4.1 §12.5.2), but fences, `free` and a
/// lock of the exposed part do not.
/// Shows E2.
#[test]
fn an_exposure_epoch_excludes_what_the_chapter_says() {
    let post = Call::Post { own_locked: false };
    for access in ACCESS {
        // A fence epoch exposes the own part only if other ranks access it, which this rank can't
        // know (MPI-4.1 §12.5.1).
        let allowed = access != Access::Freed;
        assert_eq!(after((access, Exposure::Closed), post).is_ok(), allowed, "post in {access:?}");
        assert!(after((access, Exposure::Posted), post).is_err(), "post twice in {access:?}");
        assert!(after((access, Exposure::Closed), Call::Post { own_locked: true }).is_err());
        let waited = after((access, Exposure::Posted), Call::Wait);
        assert_eq!(waited.is_ok(), access != Access::Freed, "wait in {access:?}");
        let own = Call::Lock { held: false, own: true };
        for call in [Call::Fence, Call::LastFence, Call::Free, Call::LockAll, own] {
            assert!(after((access, Exposure::Posted), call).is_err(), "{call:?} while exposed, in {access:?}");
        }
    }
    let posted = |access| (access, Exposure::Posted);
    let first = after(posted(Access::Fenced), Call::Operation);
    assert_eq!(first, Ok(posted(Access::FirstOperation)), "an access epoch of fences begins while exposed");
    let start = after(posted(Access::Closed), Call::Start);
    assert_eq!(start, Ok(posted(Access::Start)), "start after post");
    assert_eq!(after(posted(Access::Start), Call::Complete), Ok(posted(Access::Closed)));
    let other = Call::Lock { held: false, own: false };
    assert_eq!(after(posted(Access::Closed), other), Ok(posted(Access::Lock)), "another's part may be locked");
}

#[test]
fn every_refusal_names_its_rule() {
    let calls = [Call::Operation, Call::Request, Call::UnlockAll, Call::FlushAll, Call::Complete, Call::Wait];
    for call in calls {
        let reason = after((Access::Closed, Exposure::Closed), call).expect_err("nothing is open");
        assert!(reason.contains("MPI-4.1 §12."), "{call:?}: {reason}");
    }
}

#[test]
fn numbers_name_states() {
    for access in ACCESS {
        for exposure in [Exposure::Closed, Exposure::Posted] {
            assert_eq!(from_number(number((access, exposure))), (access, exposure));
        }
    }
}
