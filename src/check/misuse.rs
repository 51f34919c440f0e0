//! The report of a false assertion: the calls of two ranks, of which one contradicts an assertion
//! of the other (MPI-4.1 §12.5.5).

use std::fmt;

use super::report::{Report, number_of, quoted};

/// What a false assertion promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// NOPUT at a fence or post.
    NoPut,
    /// NOCHECK at a lock.
    NoLock,
    /// NOCHECK at post or start.
    Paired,
    /// NOPRECEDE or NOSUCCEED at a fence.
    Collective,
}

/// What separates the name of a call from its bytes.
const BYTES: &str = " of bytes ";

/// An operation on these bytes of a part, as the call of a [`Caller`].
pub(crate) fn on_bytes(operation: impl fmt::Display, start: u64, end: u64) -> String {
    format!("{operation}{BYTES}{start}..{end}")
}

/// One of the two calls.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) rank: usize,
    /// The call, with its assertion or its bytes.
    pub(crate) call: String,
    /// Where the program made the call.
    pub(crate) place: Option<String>,
}

/// An assertion that is false.
#[derive(Debug)]
pub(crate) struct Misuse {
    pub(crate) window: u64,
    /// The rank of the job whose part the calls are about; of a fence, the rank of the first call.
    pub(crate) target: usize,
    pub(crate) promise: Promise,
    pub(crate) callers: [Caller; 2],
}

impl Caller {
    fn place(&self) -> &str {
        self.place.as_deref().unwrap_or("an unknown place")
    }

    /// The call without its bytes. A call in a loop is reported once, whatever its bytes.
    fn kind(&self) -> &str {
        self.call.split(BYTES).next().unwrap_or(&self.call)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NoPut => {
                "with MPI_MODE_NOPUT no process puts or accumulates into the part until the next \
                 synchronization (MPI-4.1 §12.5.5)"
            }
            Promise::NoLock => {
                "while a lock is held with MPI_MODE_NOCHECK, no other process holds or requests a conflicting \
                 lock (MPI-4.1 §12.5.5)"
            }
            Promise::Paired => {
                "MPI_MODE_NOCHECK is given by a start and by each matching post, or by none of them (MPI-4.1 §12.5.5)"
            }
            Promise::Collective => {
                "MPI_MODE_NOPRECEDE and MPI_MODE_NOSUCCEED are each given by all processes of the window or by \
                 none (MPI-4.1 §12.5.5)"
            }
        })
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misuse { window, target, promise, callers } = self;
        match promise {
            Promise::Collective => writeln!(f, "transom: false assertion at fences of window {window:x}:")?,
            _ => writeln!(f, "transom: false assertion about window {window:x} at rank {target}:")?,
        }
        for caller in callers {
            writeln!(f, "  rank {}: {}, {}", caller.rank, caller.call, caller.place())?;
        }
        write!(f, "  {promise}")
    }
}

impl Report for Misuse {
    fn number(&self) -> u64 {
        number_of(
            self.callers.each_ref().map(|caller| format!("{} {} {}", self.promise, caller.kind(), caller.place())),
        )
    }

    fn mentions(&self, text: &str) -> bool {
        self.callers.iter().any(|caller| caller.place().contains(text))
    }

    fn json(&self) -> String {
        let [first, second] = self.callers.each_ref().map(|caller| {
            let (rank, call, place) = (caller.rank, quoted(&caller.call), quoted(caller.place()));
            format!(r#"{{"rank":{rank},"call":{call},"place":{place}}}"#)
        });
        let Misuse { window, target, promise, .. } = self;
        let rule = quoted(&promise.to_string());
        format!(r#"{{"window":"{window:x}","target":{target},"first":{first},"second":{second},"rule":{rule}}}"#) + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_both_calls() {
        let caller = |rank, call: &str| Caller { rank, call: call.into(), place: Some("main at a.c:7".into()) };
        let callers = [caller(2, "fence with MPI_MODE_NOPUT"), caller(0, "put")];
        let misuse = |promise, callers| Misuse { window: 3, target: 2, promise, callers };
        let found = misuse(Promise::NoPut, callers);
        assert_eq!(
            found.to_string(),
            "transom: false assertion about window 3 at rank 2:\n  rank 2: fence with MPI_MODE_NOPUT, main at a.c:7\n  \
             rank 0: put, main at a.c:7\n  with MPI_MODE_NOPUT no process puts or accumulates into the part until the \
             next synchronization (MPI-4.1 §12.5.5)"
        );
        assert_eq!(
            found.json(),
            concat!(
                r#"{"window":"3","target":2,"first":{"rank":2,"call":"fence with MPI_MODE_NOPUT","#,
                r#""place":"main at a.c:7"},"second":{"rank":0,"call":"put","place":"main at a.c:7"},"#,
                r#""rule":"with MPI_MODE_NOPUT no process puts or accumulates into the part until the next "#,
                r#"synchronization (MPI-4.1 §12.5.5)"}"#,
                "\n"
            )
        );
        let turned = misuse(Promise::NoPut, [caller(0, "put"), caller(2, "fence with MPI_MODE_NOPUT")]);
        assert_eq!(found.number(), turned.number(), "the ranks may find the two in either order");
        let put = |start| [caller(2, "fence with MPI_MODE_NOPUT"), caller(0, &on_bytes("put", start, start + 8))];
        let [first, second] = [0, 8].map(|start| misuse(Promise::NoPut, put(start)));
        assert!(first.to_string().contains("rank 0: put of bytes 0..8, main at a.c:7"), "{first}");
        assert_eq!(first.number(), second.number(), "a put in a loop");
        let paired = misuse(Promise::Paired, [caller(0, "put"), caller(2, "fence with MPI_MODE_NOPUT")]);
        assert_ne!(found.number(), paired.number());
        assert!(found.mentions("a.c") && !found.mentions("b.c"));
    }
}
