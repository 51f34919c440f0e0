//! Accumulates that are refused: pairs of type and operation that MPI does not define, and types
//! that do not match. Each refusal has its error class, and the window stays unchanged.

use crate::on_every_window;
use crate::support::byte_window::{ByteWindow, Shape, class, targets};
use crate::support::model::elements;
use transom::{BasicType, Class, Datatype, Job, Op};
use transom_harness::{Outcome, ensure, same, step};

const BYTES: usize = 256;

/// Fills the target, runs `body`, and checks that the target is unchanged.
fn unchanged(win: &ByteWindow, target: usize, what: &str, body: impl FnOnce() -> Outcome) -> Outcome {
    let before = elements(BasicType::Uint64, BYTES / 8, 5);
    win.write(target, 0, &before)?;
    body()?;
    ensure(win.read(target, 0, BYTES)? == before, &format!("{what}: it changed the target"))
}

/// MPI-4.1 §12.3.4: the predefined operations, each with the types for which MPI defines it. The
/// typed interface does not compile the other pairs (`reduce::ops`).
/// Shows O3, E1.
pub(crate) fn illegal_pairs(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |world, win, what| {
        let data = [1u8; 16];
        for (ty, target) in BasicType::ALL.into_iter().flat_map(|ty| targets(world).into_iter().map(move |it| (ty, it)))
        {
            step(format!("{what} {ty} rank {target}"));
            let basic = Datatype::basic(ty);
            let one = Shape::new(1, &basic);
            unchanged(win, target, ty.name(), || {
                for op in Op::ALL.into_iter().filter(|op| !op.allows(ty)) {
                    let mut old = [9u8; 16];
                    let refusals = [
                        class(win.accumulate((&data, one), (target, 16, one), op)),
                        class(win.raccumulate((&data, one), (target, 16, one), op)),
                        class(win.get_accumulate((&data, one), (&mut old, one), (target, 16, one), op)),
                        class(win.rget_accumulate((&data, one), (&mut old, one), (target, 16, one), op)),
                        class(win.fetch(&data[..ty.size()], ty, target, 16, op)),
                    ];
                    same(&format!("{op} on {ty}"), &refusals, &[Some(Class::Op); 5])?;
                    same("the result", &old, &[9; 16])?;
                }
                if !Op::allows_compare_and_swap(ty) {
                    let one = &data[..ty.size()];
                    let refused = class(win.swap(one, one, ty, target, 16));
                    same(&format!("compare_and_swap on {ty}"), &refused, &Some(Class::Type))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// MPI-4.1 §12.3.4: origin, result and target have the same predefined type and the same count.
/// Shows O3, O5, E1.
pub(crate) fn unfitting_types(world: &Job) -> Outcome {
    on_every_window(world, BYTES, |world, win, what| {
        let [long, double, int] = [BasicType::Int64, BasicType::Float64, BasicType::Int32].map(Datatype::basic);
        let mixed = Datatype::structure(&[(1, 0, long.clone()), (2, 8, int.clone())])?;
        let twice = Datatype::vector(2, 1, 0, &long)?;
        let data = [1u8; 64];
        for target in targets(world) {
            step(format!("{what} rank {target}"));
            unchanged(win, target, what, || {
                let mut old = [9u8; 64];
                let pairs = [
                    (Shape::new(2, &double), Shape::new(2, &long), "another type of the same size"),
                    (Shape::new(4, &int), Shape::new(2, &long), "another type, as many bytes"),
                    (Shape::new(1, &long), Shape::new(2, &long), "too few"),
                    (Shape::new(3, &long), Shape::new(2, &long), "too many"),
                    (Shape::new(1, &mixed), Shape::new(1, &mixed), "two predefined types"),
                    (Shape::new(2, &long), Shape::new(1, &twice), "entries that overlap"),
                ];
                for (ours, theirs, why) in pairs {
                    let refused = class(win.accumulate((&data, ours), (target, 16, theirs), Op::Sum));
                    same(why, &refused, &Some(Class::Type))?;
                    let refused =
                        class(win.get_accumulate((&data, theirs), (&mut old, ours), (target, 16, theirs), Op::Sum));
                    same(&format!("{why} as result"), &refused, &Some(Class::Type))?;
                }
                let both = class(win.get_accumulate(
                    (&data, Shape::new(2, &long)),
                    (&mut old, Shape::new(1, &twice)),
                    (target, 16, Shape::new(2, &long)),
                    Op::Sum,
                ));
                same("results that overlap", &both, &Some(Class::Type))?;
                let wrong = win.fetch(&data[..4], BasicType::Int64, target, 16, Op::Sum);
                same("half an element", &class(wrong), &Some(Class::Count))?;
                same("the result", &old, &[9; 64])
            })?;
        }
        Ok(())
    })
}
