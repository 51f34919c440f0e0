//! The calls that MPI allows in each pair of epochs of a process, as data that can be read beside
//! the chapter. Independent of the library's own table of transitions.

/// The pairs of a process's access epoch and exposure epoch on one window, in the order of the
/// table's columns. No other pairs exist: `lock_all` and a lock of the own part exclude an exposure
/// epoch of `post` (rule `l`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    /// Neither epoch is open.
    Closed,
    /// After a fence, before any operation.
    Fenced,
    /// After a fence and an operation.
    Fence,
    LockAll,
    /// The next rank is locked.
    Lock,
    /// The own part is locked.
    LockOwn,
    /// Between `start`, with the next rank, and `complete`.
    Start,
    /// Between `post`, to the rank before, and `wait`.
    Posted,
    FencedPosted,
    /// In a fence epoch with an operation, in which other ranks do not access the own part.
    FencePosted,
    LockPosted,
    StartPosted,
    Freed,
}

pub(crate) const STATES: [State; 13] = [
    State::Closed,
    State::Fenced,
    State::Fence,
    State::LockAll,
    State::Lock,
    State::LockOwn,
    State::Start,
    State::Posted,
    State::FencedPosted,
    State::FencePosted,
    State::LockPosted,
    State::StartPosted,
    State::Freed,
];

/// A call on a window. `Fence` leaves its epoch open, `LastFence` has NOSUCCEED, `EmptyFence` also
/// has NOPUT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
    Rput,
    Rget,
    Raccumulate,
    RgetAccumulate,
    Fence,
    LastFence,
    EmptyFence,
    LockAll,
    UnlockAll,
    Lock,
    LockUnchecked,
    Unlock,
    Flush,
    FlushLocal,
    FlushAll,
    FlushLocalAll,
    Start,
    Complete,
    Post,
    Wait,
    Test,
    Free,
}

/// The rank that a call names: the one of the state's access epoch, else the next one; or a rank
/// outside that epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NamedRank {
    Target,
    Other,
}

/// Calls with equal rules. For each state: `+` if they are allowed, else the rule of [`section`]
/// that they break. `?` means `l` where the named rank is this one, else `+`.
type Row = (&'static [Call], NamedRank, &'static str);

const OPERATIONS: &[Call] =
    &[Call::Put, Call::Get, Call::Accumulate, Call::GetAccumulate, Call::FetchAndOp, Call::CompareAndSwap];
const REQUESTS: &[Call] = &[Call::Rput, Call::Rget, Call::Raccumulate, Call::RgetAccumulate];
const FENCES: &[Call] = &[Call::Fence, Call::LastFence, Call::EmptyFence];
const FLUSHES: &[Call] = &[Call::Flush, Call::FlushLocal];

/// Columns: Closed Fenced Fence, LockAll Lock LockOwn Start, Posted FencedPosted FencePosted
/// LockPosted StartPosted, Freed.
const TABLE: [Row; 19] = [
    (OPERATIONS, NamedRank::Target, "a++ ++++ a++++ z"),
    (OPERATIONS, NamedRank::Other, "a++ +ttg a++tg z"),
    (REQUESTS, NamedRank::Target, "arr +++r arr+r z"),
    (REQUESTS, NamedRank::Other, "arr +ttr arrtr z"),
    (FENCES, NamedRank::Target, "+++ dddd xxxxx z"),
    (&[Call::LockAll], NamedRank::Target, "++d dddd lldld z"),
    (&[Call::UnlockAll], NamedRank::Target, "eee +eee eeeee z"),
    (&[Call::Lock, Call::LockUnchecked], NamedRank::Target, "++d dddd ??ddd z"),
    (&[Call::Lock, Call::LockUnchecked], NamedRank::Other, "++d d++d lldld z"),
    (&[Call::Unlock], NamedRank::Target, "eee e++e eee+e z"),
    (&[Call::Unlock], NamedRank::Other, "eee eeee eeeee z"),
    (FLUSHES, NamedRank::Target, "fff +++f fff+f z"),
    (FLUSHES, NamedRank::Other, "fff +fff fffff z"),
    (&[Call::FlushAll, Call::FlushLocalAll], NamedRank::Target, "fff +++f fff+f z"),
    (&[Call::Start], NamedRank::Target, "++d dddd ++ddd z"),
    (&[Call::Complete], NamedRank::Target, "eee eee+ eeee+ z"),
    (&[Call::Post], NamedRank::Target, "+++ l+l+ xxxxx z"),
    (&[Call::Wait, Call::Test], NamedRank::Target, "eee eeee +++++ z"),
    (&[Call::Free], NamedRank::Target, "++z zzzz zzzzz z"),
];

/// The section of each rule, as errors name it:
/// - `a` operations need an access epoch that includes the target (MPI-4.1 §12.5), requests a
///   passive one (§12.3.5)
/// - `r` request-based operations are for passive target communication only (§12.3.5)
/// - `t` the target of an operation is locked by its origin (§12.5.3)
/// - `g` the target is in the group of `start` (§12.5.2)
/// - `d` distinct access epochs of a process on one window are disjoint (§12.5)
/// - `x` exposure epochs are disjoint too (§12.5); a fence epoch of a rank that issues operations,
///   but is no target, is an access epoch alone (§12.5.1)
/// - `l` no window is locked and exposed at once; `lock_all` locks the own part too (§12.5.3)
/// - `e` a call that ends an epoch needs that epoch (§12.5.2, §12.5.3)
/// - `f` flushes are for passive-target epochs, and for the targets of these (§12.5.4)
/// - `z` `free` comes after all epochs, and no call follows it (§12.2.5)
pub(crate) fn section(rule: char) -> &'static str {
    match rule {
        't' | 'l' => "MPI-4.1 §12.5.3",
        'g' => "MPI-4.1 §12.5.2",
        'r' => "MPI-4.1 §12.3.5",
        'f' => "MPI-4.1 §12.5.4",
        'z' => "MPI-4.1 §12.2.5",
        'a' => "MPI-4.1 §12.",
        _ => "MPI-4.1 §12.5",
    }
}

/// The calls that `state` forbids, with the rule that each breaks. `alone`: the job has one rank,
/// which every call names.
pub(crate) fn forbidden(state: State, alone: bool) -> Vec<(Call, NamedRank, char)> {
    let column = STATES.iter().position(|&one| one == state).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for (calls, named, rules) in TABLE {
        assert_eq!(rules.split(' ').map(str::len).collect::<Vec<_>>(), [3, 4, 5, 1], "a rule for each state");
        let rule = rules.chars().filter(|rule| *rule != ' ').nth(column).unwrap_or('+');
        let rule = if rule == '?' && alone { 'l' } else { rule };
        let is_nobody = alone && named == NamedRank::Other;
        if !is_nobody && !matches!(rule, '+' | '?') {
            all.extend(calls.iter().map(|&call| (call, named, rule)));
        }
    }
    all
}
