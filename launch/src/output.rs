//! Forwards the output of ranks by whole lines, through a buffer for each of the launcher's two
//! streams. Never blocks, and knows no processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Longest line in bytes that is kept whole; a longer one is forwarded in parts.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Buffered bytes above which ranks are not read, so that back-pressure reaches them.
const HIGH_WATER: usize = 1 << 20;

/// Length of one write. A pipe that polls as writable takes this many bytes without blocking
/// (PIPE_BUF).
const ONE_WRITE: usize = 4096;

/// The source of the launcher's own messages in [`Sink::push`].
const OWN: usize = usize::MAX;

/// One of the launcher's streams with its buffer.
#[derive(Debug)]
pub(super) struct Sink {
    stream: OwnedFd,
    waiting: Vec<u8>,
    written: usize,
    /// The source of an incomplete last line.
    open: Option<usize>,
    last: u8,
    broken: Option<Errno>,
}

impl Sink {
    /// A buffer before `stream`, which may be blocking.
    pub(super) fn new(stream: OwnedFd) -> Self {
        Self { stream, waiting: Vec::new(), written: 0, open: None, last: b'\n', broken: None }
    }

    /// Appends `bytes` from `source`. An incomplete line of another source is ended first.
    fn push(&mut self, source: usize, bytes: &[u8]) {
        let Some(&last) = bytes.last() else { return };
        if self.broken.is_some() {
            return;
        }
        if self.open.is_some_and(|open| open != source) {
            self.waiting.push(b'\n');
        }
        self.waiting.extend_from_slice(bytes);
        self.open = (!matches!(last, b'\n' | b'\r')).then_some(source);
        self.last = last;
    }

    /// Appends a message of the launcher as a separate line.
    pub(super) fn say(&mut self, text: &str) {
        let fresh = if self.last == b'\r' { "\n" } else { "" };
        self.push(OWN, format!("{fresh}transom-run: {text}\n").as_bytes());
    }

    /// Whether the buffer is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.waiting.len()
    }

    /// Whether ranks should not be read until some bytes are written.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() - self.written > HIGH_WATER
    }

    /// The error for which the stream is broken: `PIPE` where the reader is gone. Later bytes are
    /// dropped.
    pub(super) fn broken(&self) -> Option<Errno> {
        self.broken
    }

    /// Writes as much as the stream takes without blocking.
    pub(super) fn flush(&mut self) {
        while !self.is_empty() && self.is_writable() {
            let end = self.waiting.len().min(self.written + ONE_WRITE);
            match rustix::io::write(&self.stream, &self.waiting[self.written..end]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.broken = Some(errno);
                    self.written = self.waiting.len();
                }
            }
        }
        if self.is_empty() || self.written > HIGH_WATER {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }

    fn is_writable(&self) -> bool {
        let now = Duration::ZERO.try_into().expect("zero fits");
        let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
        matches!(poll(&mut fds, Some(&now)), Ok(1..))
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Presentation of a rank's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Unchanged, for a rank that shares the stream with no other.
    AsIs,
    /// Whole lines.
    Lines,
    /// Whole lines, each after `[rank] `.
    Tagged,
}

/// Cuts one stream of one rank into lines. A carriage return ends a piece too, and the bytes after
/// it are forwarded before the line ends, so that progress bars move.
#[derive(Debug)]
pub(super) struct Splitter {
    rank: usize,
    style: Style,
    tail: Vec<u8>,
    /// Whether the last piece had no end, so that the next piece continues it.
    inside: bool,
    /// Whether the last piece ended with a carriage return.
    returned: bool,
}

impl Splitter {
    pub(super) fn new(rank: usize, style: Style) -> Self {
        Self { rank, style, tail: Vec::new(), inside: false, returned: false }
    }

    /// Takes the next bytes of the stream, and passes completed pieces to `sink`.
    pub(super) fn feed(&mut self, bytes: &[u8], sink: &mut Sink) {
        let mut tail = std::mem::take(&mut self.tail);
        tail.extend_from_slice(bytes);
        let mut rest = &tail[..];
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let both = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
            let (piece, after) = rest.split_at(end + 1 + usize::from(both));
            self.emit(piece, sink);
            rest = after;
        }
        if self.style == Style::AsIs || self.returned || rest.len() > MAX_LINE {
            self.emit(rest, sink);
            rest = &[];
        }
        self.tail = rest.to_vec();
    }

    /// Ends the stream: passes on an incomplete last line.
    pub(super) fn finish(&mut self, sink: &mut Sink) {
        let tail = std::mem::take(&mut self.tail);
        self.emit(&tail, sink);
    }

    fn emit(&mut self, piece: &[u8], sink: &mut Sink) {
        let Some(last) = piece.last() else { return };
        // A newline right after a carriage return belongs to the piece that was already passed on.
        let continues = self.inside || (self.returned && piece == b"\n");
        if self.style == Style::Tagged && !continues {
            sink.push(self.rank, format!("[{}] ", self.rank).as_bytes());
        }
        sink.push(self.rank, piece);
        self.inside = !matches!(last, b'\n' | b'\r');
        if !self.inside {
            self.returned = *last == b'\r';
        }
    }
}

/// A duplicate of one of this process's own streams.
pub(super) fn duplicate(stream: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(stream, 3)?)
}

#[cfg(test)]
mod tests {
    use super::{Errno, MAX_LINE, Sink, Splitter, Style};
    use std::io::Read;
    use std::time::{Duration, Instant};

    fn sink() -> (Sink, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        (Sink::new(writer.into()), reader)
    }

    /// Output of streams that are cut into (rank, bytes) in this order, then ended.
    fn through(style: Style, parts: &[(usize, &[u8])]) -> String {
        let (mut sink, _reader) = sink();
        let mut splitters: Vec<Splitter> = (0..3).map(|rank| Splitter::new(rank, style)).collect();
        for (rank, bytes) in parts {
            splitters[*rank].feed(bytes, &mut sink);
        }
        for splitter in &mut splitters {
            splitter.finish(&mut sink);
        }
        String::from_utf8(sink.waiting.clone()).unwrap()
    }

    #[test]
    fn lines_are_whole_however_the_streams_are_cut() {
        let text = b"one\n\ntwo words\r\nthree\nend";
        for cut in 1..text.len() {
            let (a, b) = text.split_at(cut);
            let parts: [(usize, &[u8]); 3] = [(0, a), (1, b"other\n"), (0, b)];
            let out = through(Style::Lines, &parts);
            let own = out.replacen("other\n", "", 1);
            let expected = String::from_utf8_lossy(text);
            // Only a newline that is read after its carriage return may be apart from it.
            assert!(own == expected, "cut at {cut}: {out:?}");
            assert!(out.starts_with("other\n") || out.contains("\nother\n") || out.contains("\rother\n"), "{out:?}");
        }
    }

    #[test]
    fn every_line_has_one_tag_in_front() {
        let parts: [(usize, &[u8]); 6] =
            [(0, b"a"), (2, b"x\ny"), (0, b"b\n"), (2, b"z\r"), (2, b"\nlast"), (1, b"\n")];
        assert_eq!(through(Style::Tagged, &parts), "[2] x\n[0] ab\n[2] yz\r\n[1] \n[2] last");
    }

    #[test]
    fn incomplete_last_lines_of_several_ranks_stay_apart() {
        assert_eq!(through(Style::Lines, &[(1, b"one"), (0, b"zero"), (2, b"two\n")]), "two\nzero\none");
    }

    #[test]
    fn progress_bars_pass_at_once() {
        let (mut sink, _reader) = sink();
        let mut splitter = Splitter::new(0, Style::Tagged);
        splitter.feed(b"\r10%", &mut sink);
        assert_eq!(sink.waiting, b"[0] \r[0] 10%");
        splitter.feed(b"\r20%", &mut sink);
        assert_eq!(sink.waiting, b"[0] \r[0] 10%\r[0] 20%");
        splitter.feed(b"\ndone", &mut sink);
        assert_eq!(sink.waiting, b"[0] \r[0] 10%\r[0] 20%\n");
    }

    #[test]
    fn a_single_rank_is_not_delayed_and_messages_have_separate_lines() {
        let (mut sink, _reader) = sink();
        Splitter::new(0, Style::AsIs).feed(b"prompt> ", &mut sink);
        sink.say("over");
        assert_eq!(sink.waiting, b"prompt> \ntransom-run: over\n");
    }

    #[test]
    fn an_endless_line_goes_out_in_parts_and_is_tagged_once() {
        let (mut sink, _reader) = sink();
        let mut splitter = Splitter::new(0, Style::Tagged);
        splitter.feed(&vec![b'x'; MAX_LINE], &mut sink);
        assert!(sink.is_empty());
        splitter.feed(b"y", &mut sink);
        splitter.feed(b"z\n", &mut sink);
        assert!(sink.is_full());
        assert_eq!(sink.waiting.len(), "[0] ".len() + MAX_LINE + "yz\n".len());
    }

    /// Regression: the buffer kept all bytes that it had written while it was never empty.
    #[test]
    fn written_bytes_take_no_memory() {
        let (mut sink, mut reader) = sink();
        sink.push(0, &[b'x'; 256 * 1024]);
        for _ in 0..1000 {
            sink.push(0, &[b'x'; 64 * 1024]);
            sink.flush();
            reader.read_exact(&mut [0; 64 * 1024]).unwrap();
        }
        assert!(!sink.is_empty() && sink.waiting.len() < 4 << 20, "{} bytes", sink.waiting.len());
    }

    #[test]
    fn a_full_pipe_does_not_block_and_a_closed_one_is_recorded() {
        let (mut sink, mut reader) = sink();
        let bytes: Vec<u8> = (0_u8..200).cycle().take(300_000).collect();
        sink.push(0, &bytes);
        sink.flush();
        assert!(!sink.is_empty(), "a pipe holds less");
        let mut got = Vec::new();
        let mut part = [0; 10_000];
        while got.len() < bytes.len() {
            sink.flush();
            let count = reader.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert!(sink.is_empty() && got == bytes);
        drop(reader);
        // A child that another test is starting may hold the reader for a moment.
        let limit = Instant::now() + Duration::from_secs(30);
        while sink.broken().is_none() && Instant::now() < limit {
            sink.push(0, b"more");
            sink.flush();
        }
        assert!(sink.broken() == Some(Errno::PIPE) && sink.is_empty());
        sink.push(0, b"even more");
        assert!(sink.is_empty());
    }
}
