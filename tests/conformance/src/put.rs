//! Puts: every shape arrives whole, and no other memory changes.

use transom_fabric::{Domain, Port, Tally, TallyRef};

use crate::team::{bytes, filled, lengths, parts, pattern};
use crate::{Fixture, Rank, Window, run};

const GUARD: u8 = 0xEE;

/// The way in which a put is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Inline,
    Packed,
    Registered,
    List,
}

impl Shape {
    pub(crate) const ALL: [Shape; 4] = [Shape::Inline, Shape::Packed, Shape::Registered, Shape::List];

    pub(crate) fn limit<F: Fixture>(self, rank: &Rank<'_, F>) -> usize {
        let limits = rank.domain().port().limits();
        match self {
            Shape::Inline => limits.inline_max,
            Shape::Packed => limits.packed_max,
            Shape::Registered | Shape::List => limits.transfer_max,
        }
    }

    pub(crate) fn post<F: Fixture>(
        self,
        rank: &Rank<'_, F>,
        to: &crate::team::RemoteOf<F>,
        offset: usize,
        data: &[u8],
        tally: &TallyRef,
    ) {
        let offset = offset as u64;
        match self {
            Shape::Inline => {
                // Copied before the call returns: the source may be dropped at once.
                let mut passing = data.to_vec();
                rank.post(|port| port.put_inline(to, offset, &passing, tally));
                passing.fill(0);
            }
            Shape::Packed => {
                let mut fills = 0;
                rank.post(|port| {
                    let fill = |buffer: &mut [u8]| {
                        fills += 1;
                        buffer.copy_from_slice(data);
                    };
                    port.put_packed(to, offset, data.len(), fill, tally)
                });
                assert!(fills >= 1, "`fill` is called for the attempt that was accepted");
            }
            Shape::Registered => rank.put(to, offset, &filled(data), tally),
            Shape::List => {
                let parts = parts(data.len(), 1 + data.len() % rank.domain().port().limits().list_max);
                let (mut source, mut done) = (vec![GUARD; 2 * data.len()], 0);
                for &(at, len) in &parts {
                    source[at..at + len].copy_from_slice(&data[done..done + len]);
                    done += len;
                }
                rank.put_list(to, offset, &filled(&source), &parts, tally);
            }
        }
    }
}

/// "Puts at most `inline_max` bytes, which are copied before this returns"; "the
/// target has the data".
pub fn inline_puts_are_whole(fixture: &impl Fixture) {
    whole(fixture, Shape::Inline);
}

/// "which `fill` writes straight into the send buffer. `fill` is called at most once" in each
/// attempt.
pub fn packed_puts_are_whole(fixture: &impl Fixture) {
    whole(fixture, Shape::Packed);
}

/// "Puts the bytes of `from` without copying them, at most `transfer_max`".
pub fn registered_puts_are_whole(fixture: &impl Fixture) {
    whole(fixture, Shape::Registered);
}

/// "Puts the parts of `from` one after another to one location, without copying them", as many as
/// `list_max` says.
pub fn lists_are_put_one_after_another(fixture: &impl Fixture) {
    whole(fixture, Shape::List);
}

/// Rank 0 puts while rank 1 is in a barrier and makes no call (where `passive_target` says that it
/// need not).
fn whole<F: Fixture>(fixture: &F, shape: Shape) {
    run(fixture, 2, |rank| {
        let lengths = lengths(shape.limit(rank));
        let longest = lengths.last().copied().unwrap_or(0);
        let window: Window<F> = rank.window(longest + 32);
        for (turn, len) in lengths.into_iter().enumerate() {
            let offset = 1 + turn * 5 % 16;
            window.memory.write(0, &vec![GUARD; longest + 32]);
            rank.barrier();
            if rank.me.0 == 0 {
                let tally = Tally::new();
                shape.post(rank, &window.remotes[1], offset, &pattern(turn, len), &tally);
                rank.flush(&tally);
            }
            rank.barrier();
            if rank.me.0 == 1 {
                let mut expected = vec![GUARD; longest + 32];
                expected[offset..offset + len].copy_from_slice(&pattern(turn, len));
                let found = bytes(&window.memory, 0, longest + 32);
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{shape:?}, {len} bytes at {offset}");
            }
            rank.barrier();
        }
    });
}

/// "Nothing is ordered": outstanding puts of all ranks to adjacent ranges of one target change only
/// their own range.
pub fn outstanding_puts_keep_to_their_ranges<F: Fixture>(fixture: &F) {
    const STRIPES: usize = 40;
    run(fixture, 3, |rank| {
        let shapes = Shape::ALL;
        let len = |stripe: usize| 1 + stripe % 13;
        let place = |from: usize, stripe: usize| (stripe * 3 + from) * 16 + 1;
        let window = rank.window(STRIPES * 3 * 16);
        let tally = Tally::new();
        for stripe in 0..STRIPES {
            let shape = shapes[stripe % 4];
            if shape.limit(rank) < len(stripe) {
                continue;
            }
            let data = pattern(stripe + rank.me.index(), len(stripe));
            let at = place(rank.me.index(), stripe);
            shape.post(rank, &window.remotes[0], at, &data, &tally);
        }
        rank.flush(&tally);
        rank.barrier();
        if rank.me.0 == 0 {
            let mut expected = vec![0; window.memory.len()];
            for stripe in (0..STRIPES).filter(|at| shapes[at % 4].limit(rank) >= len(*at)) {
                for from in 0..3 {
                    let at = place(from, stripe);
                    expected[at..at + len(stripe)].copy_from_slice(&pattern(stripe + from, len(stripe)));
                }
            }
            assert!(expected.iter().any(|byte| *byte != 0));
            assert_eq!(bytes(&window.memory, 0, expected.len()), expected);
        }
    });
}
