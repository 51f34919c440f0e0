//! Hints: those in force, those that change, those that are refused, and those on which all ranks
//! must agree (MPI-4.1 §12.2.7).

use transom::{Assert, Class, Flavor, Info, Job, Lock, RawWindow, Window};
use transom_harness::{Outcome, ensure, one_node, same, step};

use super::memory::Block;

/// Every hint with its default.
const DEFAULTS: [(&str, &str); 13] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
    ("mpi_accumulate_granularity", "0"),
    ("mpi_minimum_alignment", "1"),
    ("mpi_minimum_memory_alignment", "1"),
    ("transom_huge_pages", "false"),
    ("transom_model", "unified"),
    ("transom_atomics", "auto"),
    ("transom_notify", "auto"),
];

/// Values other than the defaults, and whether they may change while a window lives.
const OTHERS: [(&str, &str, bool); 10] = [
    ("no_locks", "true", true),
    ("accumulate_ordering", "rar,waw", true),
    ("accumulate_ops", "same_op", true),
    ("same_size", "true", true),
    ("same_disp_unit", "true", true),
    ("alloc_shared_noncontig", "true", false),
    ("mpi_accumulate_granularity", "8", false),
    ("mpi_minimum_alignment", "64", false),
    ("transom_atomics", "cpu", false),
    ("transom_notify", "device", false),
];

/// Values that are refused.
const BAD: [(&str, &str); 16] = [
    ("no_locks", "yes"),
    ("accumulate_ordering", "rar,none"),
    ("accumulate_ordering", "wwr"),
    ("accumulate_ordering", ""),
    ("accumulate_ops", "any"),
    ("same_size", "TRUE"),
    ("same_disp_unit", "1"),
    ("alloc_shared_noncontig", ""),
    ("mpi_accumulate_granularity", "-1"),
    ("mpi_minimum_alignment", "0"),
    ("mpi_minimum_alignment", "48"),
    ("mpi_minimum_alignment", "many"),
    ("transom_huge_pages", "2M"),
    ("transom_model", "both"),
    ("transom_atomics", "gpu"),
    ("transom_notify", "nic"),
];

fn make(world: &Job, flavor: Flavor, info: &Info) -> transom::Result<RawWindow> {
    match flavor {
        Flavor::Create => Block::words(2).window(world, 0, 16, 8, info),
        Flavor::Dynamic => RawWindow::create_dynamic(world, info),
        Flavor::Shared => RawWindow::allocate_shared(world, 16, 8, info),
        _ => RawWindow::allocate(world, 16, 8, info),
    }
}

fn flavors(world: &Job) -> Outcome<Vec<Flavor>> {
    let mut all = vec![Flavor::Allocate, Flavor::Create, Flavor::Dynamic];
    if one_node(world)? {
        all.push(Flavor::Shared);
    }
    Ok(all)
}

/// MPI-4.1 §12.2.7: get_info returns all hints in force, unknown hints are ignored, and set_info
/// changes those that may change.
/// Shows W6.
pub(crate) fn in_force(world: &Job) -> Outcome {
    for flavor in flavors(world)? {
        step(format!("{flavor:?}"));
        let win = make(world, flavor, &Info::new().with("color", "green"))?;
        same("the defaults", &win.info().iter().collect::<Vec<_>>(), &DEFAULTS.to_vec())?;
        let all = OTHERS.iter().fold(Info::new(), |info, (key, value, _)| info.with(*key, *value));
        win.set_info(&all.clone().with("shape", "round"))?;
        for (key, value, changes) in OTHERS {
            let default = DEFAULTS.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            let expected = if changes { Some(value) } else { default };
            same(&format!("{key} after set_info"), &win.info().get(key), &expected)?;
        }
        same("an unknown key", &win.info().get("shape"), &None)?;
        let locked = [win.lock(Lock::Shared, 0, Assert::NONE), win.lock_all(Assert::NONE)];
        let classes = locked.map(|outcome| outcome.err().map(|error| error.class()));
        same("locks under no_locks", &classes, &[Some(Class::LockType); 2])?;
        win.fence(Assert::NONE)?;
        win.fence(Assert::NOSUCCEED)?;
        win.set_info(&Info::new().with("no_locks", "false"))?;
        same("the others stay", &win.info().get("same_size"), &Some("true"))?;
        win.lock_all(Assert::NONE)?;
        win.unlock_all()?;
        let before = win.info();
        for (key, value) in
            BAD.iter().filter(|(key, _)| OTHERS.iter().any(|(known, _, changes)| known == key && *changes))
        {
            let bad = Info::new().with("no_locks", "true").with("same_size", "false").with(*key, *value);
            let error = win.set_info(&bad).err().ok_or(format!("{key}={value} was taken"))?;
            same(&format!("{error}"), &error.class(), &Class::InfoValue)?;
            ensure(error.to_string().contains(&format!("{key}={value}")), &error.to_string())?;
            same("nothing was taken over", &win.info(), &before)?;
        }
        win.free()?;
        let made = make(world, flavor, &all)?;
        for (key, value, _) in OTHERS {
            same(&format!("{key} at creation"), &made.info().get(key), &Some(value))?;
        }
        made.free()?;
    }
    Ok(())
}

/// MPI-4.1 §12.2: an illegal value at one rank makes creation fail at every rank with an error; the
/// next creation works.
/// Shows W6, E1.
pub(crate) fn refused(world: &Job) -> Outcome {
    let last = world.rank() + 1 == world.size();
    for flavor in flavors(world)? {
        for (key, value) in BAD {
            step(format!("{flavor:?}, {key}={value}"));
            let info = if last { Info::new().with(key, value) } else { Info::new() };
            let error = make(world, flavor, &info).err().ok_or(format!("{key}={value} made a window"))?;
            same(&format!("{error}"), &error.class(), if last { &Class::InfoValue } else { &Class::Other })?;
            if last {
                ensure(error.to_string().contains(&format!("{key}={value}")), &error.to_string())?;
            }
        }
        working(world, flavor)?;
    }
    Ok(())
}

fn working(world: &Job, flavor: Flavor) -> Outcome {
    let win = make(world, flavor, &Info::new())?;
    win.fence(Assert::NONE)?;
    win.fence(Assert::NOSUCCEED)?;
    Ok(win.free()?)
}

/// MPI-4.1 §12.2.2: the library's memory begins at a multiple of `mpi_minimum_memory_alignment`; in
/// a contiguous shared window the first part does.
/// Shows W6.
pub(crate) fn alignment(world: &Job) -> Outcome {
    // An allocation that makes the next free offset an odd one.
    let pad = Window::<u8>::allocate(world, 5000)?;
    for alignment in [1usize, 8, 64, 4096, 8192, 1 << 16, 1 << 20] {
        step(format!("alignment {alignment}"));
        let info = Info::new().with("mpi_minimum_memory_alignment", alignment.to_string());
        let mut all = vec![
            RawWindow::allocate(world, 100, 1, &info)?,
            RawWindow::allocate(world, 1, 1, &info)?,
            RawWindow::allocate(world, 4097, 1, &info.clone().with("transom_model", "separate"))?,
        ];
        if one_node(world)? {
            all.push(RawWindow::allocate_shared(world, 100, 1, &info.clone().with("alloc_shared_noncontig", "true"))?);
            let contiguous = RawWindow::allocate_shared(world, 100, 1, &info)?;
            if world.rank() == 0 {
                same("a contiguous segment's begin", &(contiguous.base().addr() % alignment), &0)?;
            }
            contiguous.free()?;
        }
        for win in &all {
            same("the hint", &win.info().get("mpi_minimum_memory_alignment"), &Some(alignment.to_string().as_str()))?;
            same("the base, modulo the alignment", &(win.base().addr() % alignment), &0)?;
            let mut bytes = vec![1; win.size()];
            win.load(0, &mut bytes);
            ensure(bytes.iter().all(|&byte| byte == 0), "zeroed")?;
        }
        all.iter().try_for_each(RawWindow::free)?;
    }
    Ok(pad.free()?)
}

/// Hints on which all ranks must agree and do not: no window, an error that names the hint at every
/// rank, and no hang.
/// Shows W6, E1.
pub(crate) fn differing(world: &Job) -> Outcome {
    let mut cases = vec![
        (Flavor::Allocate, "mpi_accumulate_granularity", "8"),
        (Flavor::Create, "mpi_accumulate_granularity", "4"),
        (Flavor::Dynamic, "mpi_accumulate_granularity", "1"),
        (Flavor::Allocate, "transom_model", "separate"),
        (Flavor::Create, "transom_model", "separate"),
    ];
    if one_node(world)? {
        cases.push((Flavor::Shared, "alloc_shared_noncontig", "true"));
        cases.push((Flavor::Shared, "mpi_accumulate_granularity", "8"));
    }
    for (flavor, key, value) in cases {
        for odd in 0..world.size() {
            step(format!("{flavor:?}, {key}={value} at rank {odd}"));
            let info = if world.rank() == odd { Info::new().with(key, value) } else { Info::new() };
            let made = make(world, flavor, &info);
            if world.size() == 1 {
                made?.free()?;
                continue;
            }
            let error = made.err().ok_or(format!("{key} differs, and there is a window"))?;
            same(&format!("{error}"), &error.class(), &Class::InfoValue)?;
            ensure(error.to_string().contains(key), &error.to_string())?;
        }
        working(world, flavor)?;
    }
    // Hints without effect on other ranks may differ.
    let alignment = (64 << world.rank()).to_string();
    let info = Info::new().with("mpi_minimum_memory_alignment", alignment).with("mpi_accumulate_granularity", "64");
    let win = RawWindow::allocate(world, 64, 8, &info)?;
    same("an alignment of its own", &(win.base().addr() % (64 << world.rank())), &0)?;
    Ok(win.free()?)
}
