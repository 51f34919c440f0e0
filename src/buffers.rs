//! Users' buffers in the form that ports take.
//!
//! A port reads and writes a buffer after the call that posted the operation has returned. The late
//! access is sound because a [`Source`] or [`Sink`] is made in one of two ways: by a [`Scope`],
//! whose end waits for every operation in flight, even when it unwinds; or by an unsafe function,
//! whose caller promises that the buffer remains valid. Knows no windows.

use std::marker::PhantomData;

use transom_fabric::{Amo, Blocks, Memory, Port, Post, Span, Tally, TallyRef};

/// Origin bytes that are readable and not written until their operation is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source(Span);

/// Origin bytes that are writable and not accessed otherwise until their operation is complete.
#[derive(Debug)]
pub(crate) struct Sink(Span);

/// A section of the program whose end completes the operations that were posted in it. Buffers that
/// live longer may be lent to these operations.
#[derive(Debug)]
pub(crate) struct Scope<'scope, 'env: 'scope> {
    // Invariant in both lifetimes. As in `std::thread::scope`, `'env` keeps `'scope` from being
    // longer than the caller's own borrows. Threads may share a scope: a thread that holds a
    // reference to it can't outlive the body, and the end completes the operations of all threads.
    _lends: PhantomData<(&'scope mut &'scope (), &'env mut &'env ())>,
}

/// Several sources or several sinks, to be read or filled one after another. No two sinks overlap.
#[derive(Debug)]
pub(crate) struct Scattered<S> {
    spans: Vec<Span>,
    len: usize,
    of: PhantomData<S>,
}

/// Calls the function when it is dropped.
pub(crate) struct AtEnd<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `body`, then `complete`, even when `body` unwinds. `complete` must return, or unwind, only
/// when no operation that was posted with this scope's buffers is in flight.
#[inline]
pub(crate) fn scoped<'env, R>(
    complete: impl Fn(),
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    let _completes = AtEnd(complete);
    body(&Scope { _lends: PhantomData })
}

impl<'scope> Scope<'scope, '_> {
    /// Lends bytes to be read.
    #[inline]
    pub(crate) fn source(&self, bytes: &'scope [u8]) -> Source {
        Source(Span::of(bytes))
    }

    /// Lends bytes to be written.
    #[inline]
    pub(crate) fn sink(&self, bytes: &'scope mut [u8]) -> Sink {
        Sink(Span::of_mut(bytes))
    }
}

/// The caller's address. C callers often pass null for an empty buffer, but a slice must not begin
/// at null.
#[inline]
fn given(base: *mut u8) -> *mut u8 {
    if base.is_null() { std::ptr::dangling_mut() } else { base }
}

impl Source {
    /// Bytes by address.
    ///
    /// # Safety
    /// The bytes are readable, and no thread writes them, until the operation is complete.
    #[inline]
    pub(crate) unsafe fn promised(base: *const u8, len: usize) -> Source {
        Source(Span::from_raw(given(base.cast_mut()), len))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// The bytes, to be copied before the call returns.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: readable and unwritten until the operation is complete, which is the invariant of
        // `Source`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len()) }
    }

    /// Copies equal blocks of these bytes, placed by `from`, into `memory`: the first to byte `at`,
    /// each next one `stride` bytes further. Returns false, and copies nothing, if a block is
    /// outside of its buffer.
    #[inline]
    pub(crate) fn store_blocks(&self, from: Steps, memory: &Memory, at: i64, stride: i64) -> bool {
        let Some(blocks) = from.within(self.0) else { return false };
        // SAFETY: the blocks are inside (`within`), readable and unwritten until the operation is
        // complete.
        unsafe { memory.copy_blocks::<true>(at, stride, blocks) }
    }

    /// The part from `at`, at most `len` bytes long.
    pub(crate) fn part(&self, at: usize, len: usize) -> Source {
        Source(self.0.slice(at, len.min(self.0.len() - at)).unwrap_or(Span::EMPTY))
    }
}

impl Sink {
    /// A sink for a result that no caller needs.
    pub(crate) const NONE: Sink = Sink(Span::EMPTY);

    /// Bytes by address.
    ///
    /// # Safety
    /// The bytes are writable, and nothing else accesses them, until the operation is complete.
    #[inline]
    pub(crate) unsafe fn promised(base: *mut u8, len: usize) -> Sink {
        Sink(Span::from_raw(given(base), len))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Fills the sink from memory before the call returns.
    #[inline]
    pub(crate) fn fill(self, from: &Memory, at: usize) {
        // SAFETY: writable and exclusive until the operation is complete, which is the invariant of
        // `Sink`; the slice ends with this call.
        from.read(at, unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), self.0.len()) });
    }

    /// Fills the sink from bytes before the call returns, up to the shorter of both lengths.
    #[inline]
    pub(crate) fn fill_from(self, bytes: &[u8]) {
        let len = self.0.len().min(bytes.len());
        // SAFETY: writable and exclusive, by the invariant of `Sink`; `bytes` is a live slice,
        // which therefore can't overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.as_ptr(), len) };
    }

    /// Fills equal blocks of these bytes, placed by `into`, from `memory`: the first from byte
    /// `at`, each next one from `stride` bytes further. Returns false, and copies nothing, if a
    /// block is outside of its buffer.
    #[inline]
    pub(crate) fn load_blocks(&self, into: Steps, memory: &Memory, at: i64, stride: i64) -> bool {
        let Some(blocks) = into.within(self.0) else { return false };
        // SAFETY: the blocks are inside (`within`), and writable and exclusive until the operation
        // is complete.
        unsafe { memory.copy_blocks::<false>(at, stride, blocks) }
    }

    /// Adds `next`, a range of the same buffer, if its bytes follow those of this sink; returns it
    /// otherwise.
    #[inline]
    pub(crate) fn joined(&mut self, next: Sink) -> Option<Sink> {
        if self.0.as_ptr().wrapping_add(self.0.len()) != next.0.as_ptr() {
            return Some(next);
        }
        self.0 = Span::from_raw(self.0.as_ptr(), self.0.len() + next.0.len());
        None
    }

    /// The part from `at`, at most `len` bytes long. Parts of one sink must not overlap.
    pub(crate) fn part(&self, at: usize, len: usize) -> Sink {
        Sink(self.0.slice(at, len.min(self.0.len() - at)).unwrap_or(Span::EMPTY))
    }
}

/// A source or a sink, as a part of [`Scattered`].
pub(crate) trait Lent {
    fn span(self) -> Span;
}

impl Lent for Source {
    fn span(self) -> Span {
        self.0
    }
}

impl Lent for Sink {
    fn span(self) -> Span {
        self.0
    }
}

impl<S: Lent> Scattered<S> {
    pub(crate) fn new() -> Scattered<S> {
        Scattered { spans: Vec::new(), len: 0, of: PhantomData }
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: S) {
        let part = part.span();
        self.len += part.len();
        self.spans.push(part);
    }

    /// The bytes of all parts.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of parts.
    pub(crate) fn count(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.len = 0;
    }
}

/// Equal blocks within a buffer: the offset of the first, the distance between two, the length of
/// each, and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) at: i64,
    pub(crate) stride: i64,
    pub(crate) len: usize,
    pub(crate) count: usize,
}

impl Steps {
    /// The spans of the blocks, if they are inside `span`.
    #[inline]
    fn within(self, span: Span) -> Option<Blocks> {
        let Steps { at, stride, len, count } = self;
        let last = at.checked_add(i64::try_from(count).ok()?.checked_sub(1)?.checked_mul(stride)?)?;
        let (low, high) = (at.min(last), at.max(last).checked_add(i64::try_from(len).ok()?)?);
        #[allow(clippy::cast_possible_truncation)] // inside the span
        let base = span.as_ptr().wrapping_offset(at as isize);
        (low >= 0 && high.cast_unsigned() <= span.len() as u64).then_some(Blocks { base, stride, len, count })
    }
}

/// Posts a put of `from`.
#[inline(always)]
pub(crate) fn post_put<P: Port>(port: &P, to: &P::Remote, offset: u64, from: Source, tally: &TallyRef) -> Post {
    // SAFETY: the invariant of `Source`.
    unsafe { port.put(to, offset, from.0, tally) }
}

/// Posts a get into `into`, which may be posted again after the answer `Again`.
#[inline(always)]
pub(crate) fn post_get<P: Port>(port: &P, from: &P::Remote, offset: u64, into: &Sink, tally: &TallyRef) -> Post {
    // SAFETY: the invariant of `Sink`.
    unsafe { port.get(from, offset, into.0, tally) }
}

/// Posts a put of all of `from`.
pub(crate) fn post_put_list<P: Port>(
    port: &P,
    to: &P::Remote,
    offset: u64,
    from: &Scattered<Source>,
    tally: &TallyRef,
) -> Post {
    // SAFETY: the invariant of `Source`.
    unsafe { port.put_list(to, offset, &from.spans, tally) }
}

/// Posts a get into all of `into`, which may be posted again after the answer `Again`.
pub(crate) fn post_get_list<P: Port>(
    port: &P,
    from: &P::Remote,
    offset: u64,
    into: &Scattered<Sink>,
    tally: &TallyRef,
) -> Post {
    // SAFETY: the invariant of `Sink`.
    unsafe { port.get_list(from, offset, &into.spans, tally) }
}

/// Posts a get into all of `into` through a buffer of the port.
pub(crate) fn post_get_scattered<P: Port>(
    port: &P,
    from: &P::Remote,
    offset: u64,
    into: &Scattered<Sink>,
    tally: &TallyRef,
) -> Post {
    // SAFETY: the invariant of `Sink`.
    unsafe { port.get_scattered(from, offset, &into.spans, tally) }
}

/// Posts an atomic that stores its result in `into`.
pub(crate) fn post_amo<P: Port>(
    port: &P,
    on: &P::Remote,
    offset: u64,
    amo: Amo,
    into: &Sink,
    tally: &TallyRef,
) -> Post {
    // SAFETY: the invariant of `Sink`.
    unsafe { port.amo(on, offset, amo, into.0, tally) }
}

/// The memory that a caller of an unsafe `create` promises to keep; `None` for a null address.
///
/// # Safety
/// As for [`Memory::new`] without an owner.
pub(crate) unsafe fn promised_memory(base: *mut u8, len: usize) -> Option<Memory> {
    // SAFETY: the caller's promise.
    std::ptr::NonNull::new(base).map(|base| unsafe { Memory::new(base, len, None) })
}

/// The memory of an owned buffer. The memory is valid until [`Reclaim::take`] has returned the
/// buffer.
#[inline]
pub(crate) fn owned_memory<T: bytemuck::Pod + Send + Sync>(mut buffer: Vec<T>) -> (Memory, Reclaim<T>) {
    let len = size_of_val(buffer.as_slice());
    let base = buffer.as_mut_ptr();
    let parts = Reclaim { base, len: buffer.len(), capacity: buffer.capacity() };
    std::mem::forget(buffer);
    // SAFETY: the vector is not freed before `Reclaim::take`, whose caller promises that no access
    // is left. A Vec's pointer is never null, and any bytes are valid `T`s.
    let memory = unsafe { Memory::new(std::ptr::NonNull::new_unchecked(base.cast()), len, None) };
    (memory, parts)
}

/// Returns an owned buffer. Dropping it leaks the buffer, since peers may still access it.
#[derive(Debug)]
pub(crate) struct Reclaim<T> {
    base: *mut T,
    len: usize,
    capacity: usize,
}

// SAFETY: the value represents the vector of which it was made, without access to the elements.
unsafe impl<T: Send> Send for Reclaim<T> {}
// SAFETY: the value represents the vector of which it was made, without access to the elements.
unsafe impl<T: Sync> Sync for Reclaim<T> {}

impl<T> Reclaim<T> {
    /// Returns the buffer.
    ///
    /// # Safety
    /// No peer accesses the buffer any more, and no clone of its [`Memory`] is used after the call.
    #[inline]
    pub(crate) unsafe fn take(self) -> Vec<T> {
        // SAFETY: the parts of a vector that was forgotten in `owned_memory`, rebuilt once.
        unsafe { Vec::from_raw_parts(self.base, self.len, self.capacity) }
    }
}

/// The bytes of a [`LentBuffer`], for one operation to read or to fill.
#[derive(Debug)]
pub(crate) struct Lend(Span);

impl Lend {
    /// To be read.
    pub(crate) fn source(self) -> Source {
        Source(self.0)
    }

    /// To be filled.
    pub(crate) fn sink(self) -> Sink {
        Sink(self.0)
    }
}

/// An owned buffer that one operation uses, with a separate tally. The buffer can be taken back
/// when the tally is idle. Dropping it before that leaks the buffer.
#[derive(Debug)]
pub(crate) struct LentBuffer<T> {
    buffer: Reclaim<T>,
    tally: Option<TallyRef>,
}

impl<T: bytemuck::Pod + Send + Sync> LentBuffer<T> {
    /// Lends a buffer to the operation that `post` posts. The operation is counted in the tally
    /// that `post` leaves, or is complete before `post` returns.
    #[inline]
    pub(crate) fn lend<E>(
        buffer: Vec<T>,
        tally: &mut Option<TallyRef>,
        post: impl FnOnce(Lend, &mut Option<TallyRef>) -> Result<(), E>,
    ) -> (LentBuffer<T>, Result<(), E>) {
        let (memory, buffer) = owned_memory(buffer);
        let posted = post(Lend(memory.span()), tally);
        (LentBuffer { buffer, tally: tally.clone() }, posted)
    }

    /// The tally of the operation; `None` if it was complete at once.
    pub(crate) fn tally(&self) -> Option<&Tally> {
        self.tally.as_deref()
    }

    /// Returns the buffer.
    ///
    /// # Panics
    /// If the operation is in flight: callers have waited for it.
    #[inline]
    pub(crate) fn take(self) -> Vec<T> {
        assert!(
            self.tally.as_ref().is_none_or(|tally| tally.idle()),
            "the buffer of an operation in flight is taken back"
        );
        // SAFETY: no operation uses the buffer any more (the assertion above), and the memory that
        // `lend` made is gone.
        unsafe { self.buffer.take() }
    }
}
