//! A rank's part of a window of any flavor, the operations of the grid on the target's part, and
//! the target's check of its memory by plain loads. It calls the byte-level window's unsafe
//! functions, because dynamic windows exist only there.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use transom::{Assert, At, BasicType, CompareSwap, Datatype, Info, Items, Job, Lock, Op, RawWindow};
use transom_fabric::Memory;

use super::{Creation, Operation, Synchronization};
use crate::outcome::Outcome;

/// Bytes of the part, and the offset of each operation's data.
const BYTES: usize = LONG_AT + LONG * 8;
const SHORT_AT: usize = 0;
const ADD_AT: usize = 8;
const SWAP_AT: usize = 16;
const GET_AT: usize = 64;
const SUM_AT: usize = 128;
const LONG_AT: usize = 8192;
/// The number of words of the long put, of words to get, and of elements to sum.
const LONG: usize = 8192;
const GOT: usize = 8;
const SUMS: usize = 1000;
/// The target rank.
const TARGET: usize = 1;

/// A window, and this rank's part of it.
pub(super) struct Part {
    win: RawWindow,
    /// Leaked where the window was not freed: peers may still access it.
    memory: ManuallyDrop<Memory>,
    /// The offset added to displacements at this rank.
    pub(super) base: u64,
    float: Datatype,
}

/// The origin's buffers.
pub(super) struct Buffers {
    long: Vec<u64>,
    ones: Vec<f64>,
    got: [u64; GOT],
    old: [u8; 8],
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers { long: vec![0; LONG], ones: vec![1.0; SUMS], got: [0; GOT], old: [0; 8] }
    }
}

impl Part {
    /// Opens a window. Collective.
    pub(super) fn open(world: &Job, creation: Creation) -> Outcome<Part> {
        let info = Info::new();
        let (win, memory) = match creation {
            Creation::Create => {
                let memory = ManuallyDrop::new(Memory::private(BYTES));
                // SAFETY: only `free` gives the memory back, and no reference to it exists.
                (unsafe { RawWindow::create(world, memory.as_ptr(), BYTES, 1, &info)? }, memory)
            }
            Creation::Allocate => {
                let win = RawWindow::allocate(world, BYTES, 1, &info)?;
                let base = NonNull::new(win.base()).ok_or("an allocated window without memory")?;
                // SAFETY: the window's memory is valid until `free`, which also consumes this
                // value.
                let memory = unsafe { Memory::new(base, BYTES, None) };
                (win, ManuallyDrop::new(memory))
            }
            Creation::Dynamic => {
                let win = RawWindow::create_dynamic(world, &info)?;
                let memory = ManuallyDrop::new(Memory::private(BYTES));
                // SAFETY: only `free` gives the memory back, and no reference to it exists.
                unsafe { win.attach(memory.as_ptr(), BYTES)? };
                (win, memory)
            }
        };
        let base = if creation == Creation::Dynamic { memory.as_ptr().addr() as u64 } else { 0 };
        Ok(Part { win, memory, base, float: Datatype::basic(BasicType::Float64) })
    }

    /// Ends the window. Collective.
    pub(super) fn free(self) -> Outcome<()> {
        self.win.free()?;
        drop(ManuallyDrop::into_inner(self.memory));
        Ok(())
    }

    /// Opens the epoch of all operations of the case, where the synchronization has one.
    pub(super) fn begin(&self, synchronization: Synchronization) -> transom::Result<()> {
        if synchronization == Synchronization::Flush { self.win.lock_all(Assert::NONE) } else { Ok(()) }
    }

    /// Ends the epoch of [`Part::begin`].
    pub(super) fn end(&self, synchronization: Synchronization) -> transom::Result<()> {
        if synchronization == Synchronization::Flush { self.win.unlock_all() } else { Ok(()) }
    }

    /// Performs and completes the operation of a turn, from 1, on the target whose part begins at
    /// `base`.
    pub(super) fn perform(
        &self,
        operation: Operation,
        synchronization: Synchronization,
        (base, turn): (u64, u64),
        buffers: &mut Buffers,
    ) -> Outcome<()> {
        if operation == Operation::PutLong {
            buffers.long.fill(turn);
        }
        match synchronization {
            Synchronization::Lock => {
                self.win.lock(Lock::Exclusive, TARGET, Assert::NONE)?;
                self.post(operation, (base, turn), buffers)?;
                self.win.unlock(TARGET)?;
            }
            Synchronization::Flush => {
                self.post(operation, (base, turn), buffers)?;
                self.win.flush(TARGET)?;
            }
        }
        Ok(())
    }

    /// Posts the operation. The caller completes it before it touches the buffers, or ends the
    /// process.
    fn post(&self, operation: Operation, (base, turn): (u64, u64), buffers: &mut Buffers) -> transom::Result<()> {
        let at = |offset: usize| base + offset as u64;
        // The short put's word is part of the long one's: both have the value of the turn.
        buffers.long[0] = turn;
        // SAFETY: the buffers have the stated lengths; `perform` completes the operation while they
        // are borrowed.
        unsafe {
            match operation {
                Operation::PutShort => self.win.put(buffers.long.as_ptr().cast(), 8, TARGET, at(SHORT_AT)),
                Operation::PutLong => self.win.put(buffers.long.as_ptr().cast(), LONG * 8, TARGET, at(LONG_AT)),
                Operation::Get => self.win.get(buffers.got.as_mut_ptr().cast(), GOT * 8, TARGET, at(GET_AT)),
                Operation::Accumulate => {
                    let ours = Items::of(buffers.ones.as_ptr().cast(), SUMS, &self.float);
                    self.win.accumulate_items(ours, At::new(TARGET, at(SUM_AT), SUMS, &self.float), Op::Sum)
                }
                Operation::FetchAndOp => {
                    let one = 1u64.to_ne_bytes();
                    self.win.fetch_and_op(&one, &mut buffers.old, BasicType::Uint64, TARGET, at(ADD_AT), Op::Sum)
                }
                Operation::CompareAndSwap => {
                    let values = CompareSwap { expected: &(turn - 1).to_ne_bytes()[..], new: &turn.to_ne_bytes()[..] };
                    self.win.compare_and_swap(values, &mut buffers.old, BasicType::Uint64, TARGET, at(SWAP_AT))
                }
            }
        }
    }

    /// The target's preparation of a turn: stores the data for a get.
    pub(super) fn prepare(&self, operation: Operation, turn: u64) {
        if operation == Operation::Get {
            (0..GOT).for_each(|index| self.memory.write(GET_AT + index * 8, &turn.to_ne_bytes()));
        }
    }

    /// The target's check, by plain loads: whether its memory has the data of the turn.
    pub(super) fn holds(&self, operation: Operation, turn: u64) -> bool {
        let all = |at: usize, count: usize, value: u64| {
            (0..count).all(|index| {
                let mut word = [0; 8];
                self.memory.read(at + index * 8, &mut word);
                u64::from_ne_bytes(word) == value
            })
        };
        match operation {
            Operation::PutShort => all(SHORT_AT, 1, turn),
            Operation::PutLong => all(LONG_AT, LONG, turn),
            Operation::Get => all(GET_AT, GOT, turn),
            #[allow(clippy::cast_precision_loss)] // turns are few
            Operation::Accumulate => all(SUM_AT, SUMS, (turn as f64).to_bits()),
            Operation::FetchAndOp => all(ADD_AT, 1, turn),
            Operation::CompareAndSwap => all(SWAP_AT, 1, turn),
        }
    }

    /// The origin's check after completion: whether the fetched data belongs to the turn.
    pub(super) fn brought(operation: Operation, turn: u64, buffers: &Buffers) -> bool {
        match operation {
            Operation::Get => buffers.got == [turn; GOT],
            Operation::FetchAndOp | Operation::CompareAndSwap => u64::from_ne_bytes(buffers.old) == turn - 1,
            _ => true,
        }
    }
}
