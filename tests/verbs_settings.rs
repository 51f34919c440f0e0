//! The variables that an administrator sets for RDMA devices, in jobs of two ranks. Needs the
//! devices of the machine of `ci/rdma-vm`.
//!
//! Route: verbs.

use std::process::ExitCode;

use transom::{Job, Window, ops};
use transom_harness::{Outcome, Test, ensure, same, step};

static TESTS: &[Test] = &[
    Test::new("ranks_share_joined_ports", &[2], joined).with_env(&[("TRANSOM_NET_DEVICES", "rxe0+rxe1")]),
    Test::new("all_ranks_use_the_preferred_port", &[2], preferred).with_env(&[("TRANSOM_NET_DEVICES", "rxe1,rxe0")]),
    Test::new("the_second_global_identifier_works", &[2], second_gid).with_env(&[("TRANSOM_RDMA_GID_INDEX", "1")]),
    Test::new("all_settings_of_paths_work_together", &[2], all_of_a_path).with_env(&[
        ("TRANSOM_RDMA_SERVICE_LEVEL", "3"),
        ("TRANSOM_RDMA_TRAFFIC_CLASS", "104"),
        ("TRANSOM_RDMA_PARTITION_KEY", "0xffff"),
        ("TRANSOM_RDMA_MTU", "256"),
    ]),
    Test::new("a_missing_global_identifier_is_an_error", &[2], refused)
        .with_env(&[("TRANSOM_RDMA_GID_INDEX", "200")])
        .failing_with("has no global identifier 200, which TRANSOM_RDMA_GID_INDEX requests"),
    Test::new("a_partition_of_others_is_an_error", &[2], refused)
        .with_env(&[("TRANSOM_RDMA_PARTITION_KEY", "0x8009")])
        .failing_with("is not in the partition 0x8009 of TRANSOM_RDMA_PARTITION_KEY"),
];

fn main() -> ExitCode {
    transom_harness::main_on_device(env!("CARGO_BIN_EXE_transom-test-run"), TESTS)
}

/// Each rank's put, get and atomic on the other rank are performed.
fn operations_work(world: &Job) -> Outcome {
    /// Longer than any packet and any inline or copied operation.
    const LEN: usize = 1 << 16;
    step("operations");
    let (me, other) = (world.rank() as u64, 1 - world.rank());
    let win = Window::<u64>::allocate(world, LEN + 1)?;
    let sent: Vec<u64> = (0..LEN as u64).map(|at| at << 8 | me).collect();
    let mut seen = vec![0; LEN];
    win.lock_all(|epoch| {
        epoch.scope(|win| win.put(other, 0, &sent))?;
        epoch.flush(other)?;
        epoch.fetch_and_op(other, LEN, me + 5, ops::Sum)?;
        epoch.scope(|win| win.get(other, 0, &mut seen))
    })?;
    ensure(seen == sent, "a get returns what the put has written")?;
    world.barrier()?;
    let sum = win.lock_all(|epoch| epoch.fetch_value(world.rank(), LEN))?;
    same("the sum", &sum, &(other as u64 + 5))?;
    Ok(win.free()?)
}

/// Shows T4, T5.
fn joined(world: &Job) -> Outcome {
    same("the net", &world.net(), &Some(format!("verbs rxe{}:1", world.rank())))?;
    operations_work(world)
}

/// Shows T4, T5.
fn preferred(world: &Job) -> Outcome {
    same("the net", &world.net(), &Some("verbs rxe1:1".to_owned()))?;
    operations_work(world)
}

/// The settings that are in force.
fn paths(world: &Job) -> Outcome<String> {
    world.net_paths().ok_or_else(|| "the net has paths".into())
}

/// Shows T4, T5.
fn second_gid(world: &Job) -> Outcome {
    ensure(paths(world)?.starts_with("RoCE, global identifier 1, "), "the identifier has index 1")?;
    operations_work(world)
}

/// Packets have the requested length: a put of 512 KiB takes four times as many as with the 1024
/// bytes of the port.
/// Shows T4, T5.
fn all_of_a_path(world: &Job) -> Outcome {
    const BYTES: usize = 512 << 10;
    let words = "partition 0, service level 3, traffic class 104, packets of 256 bytes";
    ensure(paths(world)?.ends_with(words), "all settings are in force")?;
    operations_work(world)?;
    let win = Window::<u8>::allocate(world, BYTES)?;
    win.lock_all(|epoch| epoch.put_value(1 - world.rank(), 0, 1))?;
    world.barrier()?;
    let mut counted = None;
    if world.rank() == 0 {
        let (source, before) = (vec![7; BYTES], packets()?);
        win.lock_all(|epoch| epoch.scope(|win| win.put(1, 0, &source)))?;
        counted = Some(packets()? - before);
    }
    world.barrier()?;
    win.free()?;
    ensure(counted.is_none_or(|count| count >= BYTES as u64 / 256), "a packet has at most 256 bytes")
}

/// The packets that the device of all ranks has sent so far.
fn packets() -> Outcome<u64> {
    Ok(std::fs::read_to_string("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts")?.trim().parse()?)
}

/// Not reached: the start fails.
/// Shows T5.
fn refused(_: &Job) -> Outcome {
    Ok(())
}
