//! A counter never changes before the data is visible: every notified operation in several lengths
//! and layouts, for jobs on every net. The target compares its whole part as soon as the counter
//! has changed, while the origin may still be in the call. `tests/sim_notify.rs` includes this file
//! too.

use transom::{Actor, BasicType, Datatype, Info, Job, Notice, Op, Window};
use transom_harness::{Outcome, step};

use crate::support::byte_window::{ByteWindow, Notified, Shape, disciplines};

const WORD: usize = 8;

/// Items of 64-bit elements: their type and count, and the offset of each element.
struct Layout {
    name: &'static str,
    ty: Datatype,
    count: usize,
    places: Vec<usize>,
}

impl Layout {
    fn shape(&self) -> Shape<'_> {
        Shape::new(self.count, &self.ty)
    }

    /// The number of elements from the first element of the buffer to the last one with an item.
    fn extent(&self) -> usize {
        self.places.iter().max().map_or(0, |last| last + 1)
    }
}

/// The layouts of `len` elements: contiguous, every third element, in reverse order, and in long
/// blocks with gaps.
fn layouts(len: usize) -> transom::Result<Vec<Layout>> {
    const BLOCK: usize = 50;
    let word = Datatype::basic(BasicType::Uint64);
    let reversed: Vec<(usize, isize)> = (0..len.cast_signed()).rev().map(|at| (1, at)).collect();
    let of = |name, count, ty, places: Vec<usize>| Layout { name, ty, count, places };
    let mut all = vec![
        of("contiguous", len, word.clone(), (0..len).collect()),
        of("every third", 1, Datatype::vector(len, 1, 3, &word)?, (0..len).map(|at| 3 * at).collect()),
    ];
    // The type lists each element, as programs do for short data only.
    if len <= 1000 {
        all.push(of("reversed", 1, Datatype::indexed(&reversed, &word)?, (0..len).rev().collect()));
    }
    if len.is_multiple_of(BLOCK) {
        let blocks = Datatype::vector(len / BLOCK, BLOCK, 70, &word)?;
        all.push(of("blocks", 1, blocks, (0..len).map(|at| at / BLOCK * 70 + at % BLOCK).collect()));
    }
    Ok(all)
}

/// The value of an element that a rank sends in a round.
fn value(rank: usize, round: u64, element: usize) -> u64 {
    (rank as u64 + 1) * 1_000_000_007 + round * 65_537 + element as u64
}

/// The operations of consecutive rounds.
const CALLS: [Notified; 6] = [
    Notified::Put,
    Notified::Accumulate(Op::Sum),
    Notified::GetAccumulate(Op::Sum),
    Notified::Accumulate(Op::Replace),
    Notified::GetAccumulate(Op::Replace),
    Notified::Get,
];

/// All operations, lengths and layouts, in windows of every flavor. `notify`: the hint
/// `transom_notify`.
pub(crate) fn data_first(world: &Job, lengths: &[usize], notify: &str, step: &dyn Fn(String)) -> Outcome {
    let room = 3 * lengths.iter().max().copied().unwrap_or(0);
    for (flavor, info) in disciplines(world) {
        let info = info.with("transom_notify", notify);
        let Some(win) = ByteWindow::new(world, flavor, room * WORD, &info)? else { continue };
        win.raw().set_num_notify(2)?;
        let mut ring = Ring { world, win, own: vec![0; room], next: vec![0; room], round: 0 };
        for &len in lengths {
            let all = layouts(len)?;
            for (turn, layout) in all.iter().enumerate() {
                // The device needs one operation for each element of an accumulate.
                let is_short = len <= 20 || ring.win.raw().actor() == Actor::Cpu;
                for call in CALLS.into_iter().filter(|call| is_short || matches!(call, Notified::Put | Notified::Get)) {
                    let what = format!("{flavor:?}, {info:?}, {call:?} of {len} elements, {}", layout.name);
                    step(what.clone());
                    let ours = if turn.is_multiple_of(2) { &all[0] } else { layout };
                    ring.operate_and_check(call, ours, layout).map_err(|why| format!("{what}: {why}"))?;
                }
            }
        }
        world.barrier()?;
        ring.win.free()?;
    }
    Ok(())
}

/// A ring in which each rank's operation of each round goes to the next rank.
struct Ring<'j> {
    world: &'j Job,
    win: ByteWindow,
    /// The expected content of this rank's part, and of the next rank's part.
    own: Vec<u64>,
    next: Vec<u64>,
    round: u64,
}

/// Applies a rank's operation to the expected content of a part; returns the previous elements.
fn applied(model: &mut [u64], call: Notified, layout: &Layout, rank: usize, round: u64) -> Vec<u64> {
    let one = |(element, &place): (usize, &usize)| {
        let (old, operand) = (model[place], value(rank, round, element));
        match call {
            Notified::Get => {}
            Notified::Accumulate(Op::Sum) | Notified::GetAccumulate(Op::Sum) => {
                model[place] = old.wrapping_add(operand);
            }
            _ => model[place] = operand,
        }
        old
    };
    layout.places.iter().enumerate().map(one).collect()
}

impl Ring<'_> {
    /// One operation of each rank on the next one, and the check of this rank's part.
    fn operate_and_check(&mut self, call: Notified, ours: &Layout, theirs: &Layout) -> Outcome {
        self.round += 1;
        let (round, me, size) = (self.round, self.world.rank(), self.world.size());
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let is_request = round.is_multiple_of(2);
        applied(&mut self.own, call, theirs, before, round);
        let old = applied(&mut self.next, call, theirs, me, round);
        let (mut data, mut got) = (vec![0; ours.extent()], vec![0u64; ours.extent()]);
        for (element, &place) in ours.places.iter().enumerate() {
            data[place] = value(me, round, element);
        }
        let from = (bytemuck::cast_slice(&data), ours.shape());
        let into = (bytemuck::cast_slice_mut(&mut got), ours.shape());
        self.win.notified(call, from, into, (next, 0, theirs.shape()), Notice(0), is_request)?;
        self.win.raw().notices().wait(0, round)?;
        let own = &self.own[..theirs.extent()];
        let found = self.win.read(me, 0, size_of_val(own))?;
        let wrong = found.chunks(WORD).zip(own).position(|(found, model)| found != model.to_ne_bytes());
        if let Some(at) = wrong {
            return Err(format!("after the notice element {at} is not {}", own[at]).into());
        }
        if call == Notified::Get {
            // The notice says that the get has read the part, so it may be overwritten.
            self.win.write(me, 0, &vec![0xa5; size_of_val(own)])?;
        }
        if matches!(call, Notified::Get | Notified::GetAccumulate(_)) {
            let fetched: Vec<u64> = ours.places.iter().map(|&place| got[place]).collect();
            if let Some(at) = fetched.iter().zip(&old).position(|(fetched, old)| fetched != old) {
                return Err(format!("element {at} was {} instead of {}", fetched[at], old[at]).into());
            }
        }
        self.win.write(me, 0, bytemuck::cast_slice(own))?;
        // The previous rank may begin its next round.
        let none = Shape::new(0, &ours.ty);
        let again = (before, 0, none);
        self.win.notified(Notified::Put, (&[], none), (&mut [], none), again, Notice(1), is_request)?;
        Ok(self.win.raw().notices().wait(1, round)?)
    }
}

/// Several long puts in flight together: after an increase of the counter by `k`, at least `k` of
/// them are complete.
pub(crate) fn in_flight(world: &Job, len: usize, notify: &str, step: &dyn Fn(String)) -> Outcome {
    const PUTS: usize = 6;
    const ROUNDS: usize = 4;
    let (me, size) = (world.rank(), world.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let win = Window::<u64>::allocate_with(world, PUTS * len, &Info::new().with("transom_notify", notify))?;
    win.set_num_notify(2)?;
    let of = |rank: usize, round: usize, put: usize| vec![value(rank, round as u64, put); len];
    win.lock_all(|epoch| {
        for round in 1..=ROUNDS {
            step(format!("round {round} of {PUTS} puts of {len} elements"));
            let sent: Vec<Vec<u64>> = (0..PUTS).map(|put| of(me, round, put)).collect();
            let expected: Vec<Vec<u64>> = (0..PUTS).map(|put| of(before, round, put)).collect();
            epoch.scope(|part| {
                for (put, data) in sent.iter().enumerate() {
                    part.put_notify(next, put * len, data, Notice(0))?;
                    let moved = win.notices().value(0)? - ((round - 1) * PUTS) as u64;
                    let mut came = vec![0; PUTS * len];
                    win.load(0, &mut came)?;
                    let complete = came.chunks(len).zip(&expected).filter(|(came, sent)| came == sent).count();
                    assert!(
                        complete as u64 >= moved,
                        "{moved} notices of round {round}, but only {complete} complete puts"
                    );
                }
                Ok(())
            })?;
            win.notices().wait(0, (round * PUTS) as u64)?;
            let mut came = vec![0; PUTS * len];
            win.load(0, &mut came)?;
            assert!(came.chunks(len).eq(expected.iter().map(Vec::as_slice)), "round {round}");
            epoch.scope(|part| part.put_notify(before, 0, &[], Notice(1)))?;
            win.notices().wait(1, round as u64)?;
        }
        Ok(())
    })?;
    world.barrier()?;
    Ok(win.free()?)
}

/// [`data_first`] and [`in_flight`] where the target's CPU counts, and where the device counts.
#[allow(dead_code)] // tests/sim_notify.rs has tests of its own
pub(crate) fn counted_by(world: &Job) -> Outcome {
    for notify in ["cpu", "device"] {
        data_first(world, &[1, 3000], notify, &|what| step(what))?;
        in_flight(world, 100, notify, &|what| step(what))?;
    }
    Ok(())
}
