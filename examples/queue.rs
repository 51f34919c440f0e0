//! A queue of several producers and one consumer, by notified puts.
//!
//! `transom-run -n 4 target/release/examples/queue [ITEMS]`: all ranks but rank 0 send ITEMS items
//! each (default 10000) to rank 0, which verifies that each item arrives once, whole, and in the
//! order of its producer.
//!
//! A producer takes a ticket by one atomic and puts its item into the ticket's slot. The put's
//! notice increments the slot's counter, so that the consumer can wait for exactly the next item.
//! After an item the consumer sends a notice without data to its producer. No producer has more
//! items in flight than its share of the slots, and the consumer takes tickets in order, so the
//! slot of a new ticket is free.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use transom::{Job, Notice, Window};

/// Words of an item: the producer, the item's number, and its content.
const WORDS: usize = 4;
/// The counter of a producer: items that the consumer has taken.
const TAKEN: usize = 0;

/// An item of a producer.
fn item(producer: usize, number: u64) -> [u64; WORDS] {
    let word = (producer as u64) << 32 | number;
    [producer as u64, number, word.wrapping_mul(0x9e37_79b9_7f4a_7c15), word.rotate_left(17)]
}

/// Rank 0: takes all items in the order of their tickets; returns whether all are right.
fn consume(win: &Window<u64>, producers: usize, slots: usize, items: u64) -> transom::Result<bool> {
    let mut next = vec![0; producers];
    let mut is_right = true;
    win.lock_all(|epoch| {
        for ticket in 0..producers as u64 * items {
            let (slot, turn) = place(ticket, slots);
            win.notices().wait(slot, turn + 1)?;
            let mut found = [0; WORDS];
            win.load(1 + slot * WORDS, &mut found)?;
            let producer = usize::try_from(found[0]).unwrap_or(0);
            if !(1..=producers).contains(&producer) || found != item(producer, next[producer - 1]) {
                is_right = false;
                return Ok(());
            }
            next[producer - 1] += 1;
            epoch.scope(|part| part.put_notify(producer, 0, &[], Notice(TAKEN)))?;
        }
        Ok(())
    })?;
    Ok(is_right && next.iter().all(|&count| count == items))
}

/// Any other rank: sends its items, `ahead` of them before the consumer has taken the first.
fn produce(win: &Window<u64>, me: usize, slots: usize, ahead: u64, items: u64) -> transom::Result<()> {
    win.lock_all(|epoch| {
        for number in 0..items {
            win.notices().wait(TAKEN, (number + 1).saturating_sub(ahead))?;
            let (slot, _) = place(epoch.fetch_add(0, 0, 1u64)?, slots);
            let words = item(me, number);
            epoch.scope(|part| part.put_notify(0, 1 + slot * WORDS, &words, Notice(slot)))?;
        }
        Ok(())
    })
}

/// A ticket's slot, and the number of earlier items in this slot.
fn place(ticket: u64, slots: usize) -> (usize, u64) {
    let slots = slots as u64;
    (usize::try_from(ticket % slots).unwrap_or(0), ticket / slots)
}

fn transfer(world: &Job, items: u64) -> Result<(), Box<dyn Error>> {
    let (me, producers) = (world.rank(), world.size() - 1);
    // Each slot has a counter, and a window has at most 4096 counters.
    let slots = producers.max(256);
    let ahead = slots / producers.max(1);
    let win = Window::<u64>::allocate(world, if me == 0 { 1 + slots * WORDS } else { 0 })?;
    win.set_num_notify(if me == 0 { slots } else { 1 })?;
    let is_right = match me {
        0 => consume(&win, producers, slots, items)?,
        _ => produce(&win, me, slots, ahead as u64, items).map(|()| true)?,
    };
    if !is_right {
        // The producer of the item is not known, and would wait for ever.
        return Err("an item is not the next one of its producer: it arrived twice, late or damaged".into());
    }
    world.barrier()?;
    win.free()?;
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().map(|text| text.to_string_lossy().into_owned()).skip(1);
    let number = |text: String| text.parse::<u64>().map_err(|error| format!("ITEMS is {text:?}: {error}"));
    let items = args.next().map_or(Ok(10_000), number)?;
    if !(1..1 << 32).contains(&items) {
        return Err(format!("ITEMS is {items}, but must be 1 to {}", u32::MAX).into());
    }
    let world = transom::init()?;
    world.barrier()?;
    let begin = Instant::now();
    transfer(&world, items)?;
    if world.rank() != 0 {
        return Ok(());
    }
    let (producers, seconds) = (world.size() - 1, begin.elapsed().as_secs_f64());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{producers} producers, {items} items each in {seconds:.3} s")?;
    writeln!(out, "Verification: passed")?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("queue: {error:#}");
            ExitCode::FAILURE
        }
    }
}
