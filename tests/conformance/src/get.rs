//! Gets: they return the memory's contents, and change no other memory.

use transom_fabric::{Domain, Memory, Port, Tally};

use crate::team::{bytes, filled, lengths, parts, pattern};
use crate::{Fixture, run};

const GUARD: u8 = 0xEE;

/// "Gets bytes into `into`, at most `transfer_max`"; the target makes no call, if `passive_target`
/// allows this.
pub fn gets_are_whole(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let lengths = lengths(rank.domain().port().limits().transfer_max);
        let longest = lengths.last().copied().unwrap_or(0);
        let window = rank.window(longest + 32);
        window.memory.write(0, &pattern(rank.me.index(), longest + 32));
        rank.barrier();
        if rank.me.0 == 0 {
            let target = pattern(1, longest + 32);
            for (turn, len) in lengths.into_iter().enumerate() {
                let (offset, at) = (1 + turn * 5 % 16, 1 + turn * 3 % 8);
                let buffer = filled(&vec![GUARD; len + 16]);
                let into = buffer.slice(at, len).expect("inside");
                let tally = Tally::new();
                rank.get(&window.remotes[1], offset as u64, &into, &tally);
                rank.flush(&tally);
                let mut expected = vec![GUARD; len + 16];
                expected[at..at + len].copy_from_slice(&target[offset..offset + len]);
                let found = bytes(&buffer, 0, len + 16);
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{len} bytes from {offset}, to {at}");
            }
        }
        rank.barrier();
        let own = bytes(&window.memory, 0, longest + 32);
        assert!(own == pattern(rank.me.index(), longest + 32), "a get only reads");
    });
}

/// "Gets the bytes of `into`, at most `packed_max` in all, into its parts one after another", and
/// nothing between them.
pub fn scattered_gets_fill_their_parts(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let lengths = lengths(rank.domain().port().limits().packed_max);
        let longest = lengths.last().copied().unwrap_or(0);
        let window = rank.window(longest + 32);
        window.memory.write(0, &pattern(rank.me.index(), longest + 32));
        rank.barrier();
        if rank.me.0 == 0 {
            let target = pattern(1, longest + 32);
            for (turn, len) in lengths.into_iter().enumerate() {
                // Parts of different lengths each time, one of them empty, with gaps of equal size,
                // from the last location to the first.
                let (offset, most) = (1 + turn * 5 % 16, 1 + turn * 11 % 40 + len / 20);
                let buffer = filled(&vec![GUARD; 2 * len + 200]);
                let mut expected = vec![GUARD; buffer.len()];
                let (mut parts, mut done, mut end) = (Vec::new(), 0, buffer.len());
                while done < len || parts.is_empty() {
                    let part = if parts.is_empty() { 0 } else { (1 + parts.len() * 7 % most).min(len - done) };
                    end -= 2 * part;
                    parts.push((end, part));
                    expected[end..end + part].copy_from_slice(&target[offset + done..offset + done + part]);
                    done += part;
                }
                let tally = Tally::new();
                rank.get_scattered(&window.remotes[1], offset as u64, &buffer, &parts, &tally);
                rank.flush(&tally);
                let found = bytes(&buffer, 0, buffer.len());
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{len} bytes from {offset} into {} parts", parts.len());
            }
        }
        rank.barrier();
    });
}

/// "Gets into the parts of `into` one after another", as many as `list_max` says, and nothing in
/// between.
pub fn lists_are_filled_one_after_another(fixture: &impl Fixture) {
    run(fixture, 2, |rank| {
        let limits = rank.domain().port().limits();
        let (lengths, most) = (lengths(limits.transfer_max), limits.list_max);
        let longest = lengths.last().copied().unwrap_or(0);
        let window = rank.window(longest + 32);
        window.memory.write(0, &pattern(rank.me.index(), longest + 32));
        rank.barrier();
        if rank.me.0 == 0 {
            let target = pattern(1, longest + 32);
            for (turn, len) in lengths.into_iter().enumerate() {
                let (offset, parts) = (1 + turn * 5 % 16, parts(len, 1 + turn % most));
                let buffer = filled(&vec![GUARD; 2 * len]);
                let mut expected = vec![GUARD; 2 * len];
                let mut done = offset;
                for &(at, len) in &parts {
                    expected[at..at + len].copy_from_slice(&target[done..done + len]);
                    done += len;
                }
                let tally = Tally::new();
                rank.get_list(&window.remotes[1], offset as u64, &buffer, &parts, &tally);
                rank.flush(&tally);
                let found = bytes(&buffer, 0, buffer.len());
                let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{len} bytes from {offset} into {parts:?}");
            }
        }
        rank.barrier();
    });
}

/// "Nothing is ordered": gets and puts that are outstanding together need no order if their ranges
/// differ.
pub fn gets_and_puts_of_different_ranges_overlap(fixture: &impl Fixture) {
    const BLOCKS: usize = 32;
    const BLOCK: usize = 24;
    run(fixture, 3, |rank| {
        let window = rank.window(BLOCKS * BLOCK * 2);
        for block in 0..BLOCKS {
            let data = pattern(block, BLOCK);
            window.memory.write(block * BLOCK, &data);
        }
        rank.barrier();
        let next = (rank.me.index() + 1) % rank.ranks;
        let tally = Tally::new();
        let buffers: Vec<_> = (0..BLOCKS).map(|_| Memory::private(BLOCK)).collect();
        for (block, buffer) in buffers.iter().enumerate() {
            let to = &window.remotes[next];
            rank.get(to, (block * BLOCK) as u64, buffer, &tally);
            let data = filled(&pattern(block + 100, BLOCK));
            rank.put(to, ((BLOCKS + block) * BLOCK) as u64, &data, &tally);
        }
        rank.flush(&tally);
        rank.barrier();
        for (block, buffer) in buffers.iter().enumerate() {
            assert_eq!(bytes(buffer, 0, BLOCK), pattern(block, BLOCK));
            let put = bytes(&window.memory, (BLOCKS + block) * BLOCK, BLOCK);
            assert_eq!(put, pattern(block + 100, BLOCK));
        }
    });
}
