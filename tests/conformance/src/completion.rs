//! Completion by counting: the operations that are counted, and the time at which the count falls,
//! for each tally and target.

use std::sync::OnceLock;

use transom_fabric::{Amo, AmoKind, Domain, Memory, Peer, Port, Post, Tally, TallyRef, Width};

use crate::put::Shape;
use crate::team::{RemoteOf, bytes, filled, pattern};
use crate::{Fixture, Rank, run};

/// `Again`: "Not accepted, without effect"; `Done`: "nothing was counted"; `Pending`: "Accepted and
/// counted by the tally".
pub fn again_is_not_counted(fixture: &impl Fixture) {
    const MANY: usize = 3000;
    run(fixture, 2, |rank| {
        let window = rank.window(MANY * 8);
        if rank.me.0 == 0 {
            let tally = Tally::new();
            let data = filled(&pattern(3, 8));
            let mut at = 0;
            while at < MANY {
                rank.step(format!("put {at}"));
                // This thread lowers the count only outside of posts; a helper thread may lower it
                // at any time, so that meanwhile the count can only fall.
                let before = tally.outstanding();
                let answer = rank.try_put(&window.remotes[1], (at * 8) as u64, &data, &tally);
                let most = before + u64::from(matches!(answer, Post::Pending));
                assert!(tally.outstanding() <= most, "put {at}: {answer:?}");
                match answer {
                    Post::Done | Post::Pending => at += 1,
                    Post::Again => {
                        rank.progress();
                    }
                    Post::Broken(fault) => panic!("put {at}: {fault}"),
                }
            }
            rank.flush(&tally);
        }
        rank.barrier();
        if rank.me.0 == 1 {
            let expected = pattern(3, 8).repeat(MANY);
            assert!(bytes(&window.memory, 0, MANY * 8) == expected);
        }
    });
}

/// "Counts operations that were posted and are not complete at the target yet": 10,000 of them at
/// once, of two shapes.
pub fn ten_thousand_operations_complete(fixture: &impl Fixture) {
    const MANY: usize = 10_000;
    run(fixture, 2, |rank| {
        let window = rank.window(MANY * 8);
        let number = |at: usize| (at as u64 * 0x0101_0101 + 1).to_ne_bytes();
        if rank.me.0 == 0 {
            let tally = Tally::new();
            let none_inline = rank.domain().port().limits().inline_max < 8;
            for at in 0..MANY {
                let offset = (at * 8) as u64;
                if at % 2 == 0 || none_inline {
                    rank.put(&window.remotes[1], offset, &filled(&number(at)), &tally);
                } else {
                    rank.post(|port| port.put_inline(&window.remotes[1], offset, &number(at), &tally));
                }
            }
            rank.flush(&tally);
        }
        rank.barrier();
        if rank.me.0 == 1 {
            let expected: Vec<u8> = (0..MANY).flat_map(number).collect();
            assert!(bytes(&window.memory, 0, MANY * 8) == expected);
        }
    });
}

/// The puts of a burst, behind a long one.
const BURST: usize = 32;

/// The longest put that precedes a burst.
const LONG: usize = 1 << 20;

/// Bytes of a window for each put of a burst.
const ROOM: usize = 512;

/// Puts of one shape to one target, and their data: a single one, or a burst behind a long put.
struct Puts {
    shape: Shape,
    /// Each with its offset and its bytes. In a burst the first one is the long put.
    all: Vec<(usize, Vec<u8>)>,
}

impl Puts {
    /// The puts of round `round`. Their bytes differ from those of other rounds.
    fn new<F: Fixture>(rank: &Rank<'_, F>, shape: Shape, is_burst: bool, round: usize) -> Puts {
        let (long, len) = (long(rank), shape.limit(rank).min(ROOM - 9));
        let short = |index: usize| (long + index * ROOM + 5, pattern(round + index, len));
        let all = match is_burst {
            false => vec![short(0)],
            true => std::iter::once((0, pattern(round, long))).chain((0..BURST).map(short)).collect(),
        };
        Puts { shape, all }
    }

    fn post<F: Fixture>(&self, rank: &Rank<'_, F>, to: &RemoteOf<F>, tally: &TallyRef) {
        for (index, (offset, data)) in self.all.iter().enumerate() {
            let shape = if self.all.len() > 1 && index == 0 { Shape::Registered } else { self.shape };
            shape.post(rank, to, *offset, data, tally);
        }
    }

    /// Whether the memory of a target has the data of all puts.
    fn are_in(&self, memory: &OnceLock<Memory>) -> bool {
        let has = |(offset, data): &(usize, Vec<u8>)| {
            memory.get().map(|m| bytes(m, *offset, data.len())) == Some(data.clone())
        };
        self.all.iter().all(has)
    }
}

/// The length of the put that precedes a burst.
fn long<F: Fixture>(rank: &Rank<'_, F>) -> usize {
    rank.domain().port().limits().transfer_max.min(LONG)
}

/// "A count that falls means that the target has the data", for puts of every shape, alone and in
/// bursts: the count of one target falls although another target makes no progress, and so does
/// that of the other one if it need not (`passive_target`).
/// Shows S3.
pub fn targets_are_flushed_one_by_one(fixture: &impl Fixture) {
    let memories: [OnceLock<Memory>; 3] = Default::default();
    run(fixture, 3, |rank| {
        let window = rank.window(long(rank) + (BURST + 1) * ROOM);
        memories[rank.me.index()].get_or_init(|| window.memory.clone());
        // A provider may answer `Again` until a target without a connection makes progress.
        for remote in &window.remotes {
            let tally = Tally::new();
            rank.put(remote, 8 * u64::from(rank.me.0), &filled(&pattern(1, 8)), &tally);
            rank.flush(&tally);
        }
        let cases = Shape::ALL.into_iter().flat_map(|shape| [(shape, false), (shape, true)]);
        for (turn, (shape, is_burst)) in cases.enumerate() {
            if shape.limit(rank) > 0 {
                let puts = Puts::new(rank, shape, is_burst, 1 + 5 * turn);
                flushed_one_by_one(rank, &window.remotes, &puts, &memories);
            }
        }
    });
}

/// One round of [`targets_are_flushed_one_by_one`].
fn flushed_one_by_one<F: Fixture>(
    rank: &Rank<'_, F>,
    remotes: &[RemoteOf<F>],
    puts: &Puts,
    memories: &[OnceLock<Memory>; 3],
) {
    let what = format!("{:?}, {} puts", puts.shape, puts.all.len());
    rank.barrier();
    // Rank 2 makes no progress. Rank 0 makes it in this thread alone, so that its counts are steady
    // while it reads them.
    if rank.me != Peer(1) {
        rank.pause();
    }
    rank.barrier();
    let all = Tally::new();
    let tallies = [Tally::within(&all), Tally::within(&all), Tally::within(&all)];
    if rank.me.0 == 0 {
        for target in [2, 1] {
            assert!(!puts.are_in(&memories[target]), "{what}: the data is new");
            puts.post(rank, &remotes[target], &tallies[target]);
        }
        rank.flush(&tallies[1]);
        assert!(puts.are_in(&memories[1]), "{what}: after the flush of rank 1");
        if rank.domain().port().limits().passive_target {
            rank.flush(&tallies[2]);
        }
        assert_eq!(all.outstanding(), tallies[2].outstanding(), "the parent counts the operations to rank 2");
        assert!(!tallies[2].idle() || puts.are_in(&memories[2]), "{what}: the count of rank 2 has fallen");
    }
    rank.barrier();
    rank.resume();
    rank.barrier();
    if rank.me.0 == 0 {
        rank.flush(&tallies[2]);
        assert!(puts.are_in(&memories[2]), "{what}: after the flush of rank 2");
        assert!(all.idle(), "the parent counts its children's operations only");
    }
    rank.barrier();
}

/// A rank is its own peer, as any other rank is.
/// Shows O6.
pub fn the_own_rank_is_a_target(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let window = rank.window(64);
        let own = &window.remotes[rank.me.index()];
        let tally = Tally::new();
        rank.put(own, 3, &filled(&pattern(1, 11)), &tally);
        rank.flush(&tally);
        assert_eq!(bytes(&window.memory, 3, 11), pattern(1, 11));
        let into = Memory::private(11);
        rank.get(own, 3, &into, &tally);
        rank.flush(&tally);
        assert_eq!(bytes(&into, 0, 11), pattern(1, 11));
        let port = rank.domain().port();
        if port.amo_on(own, AmoKind::Sum, Width::W64).is_some() {
            let old = Memory::private(8);
            rank.amo(own, 32, Amo::new(AmoKind::Sum, Width::W64, 5), &old, &tally);
            rank.flush(&tally);
            assert_eq!(bytes(&window.memory, 32, 8), 5u64.to_ne_bytes());
            assert_eq!(bytes(&old, 0, 8), [0; 8]);
        }
        rank.send(rank.me, b"to myself");
        rank.until("the message", || rank.inbox.lock().is_ok_and(|messages| messages.len() == 1));
    });
}
