//! The words of a report: two accesses, where they were made, and the rule that they break.

use std::fmt;

use super::rules::Rule;
use super::shadow::Access;

/// One side of a conflict.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) access: Access,
    /// Where the program made the call.
    pub(crate) place: Option<String>,
}

/// Two accesses that conflict.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) window: u64,
    /// The rank of the job whose part both access.
    pub(crate) target: usize,
    /// Whether displacements are addresses.
    pub(crate) dynamic: bool,
    pub(crate) older: Side,
    pub(crate) newer: Side,
    pub(crate) rule: Rule,
}

impl Side {
    fn place(&self) -> &str {
        self.place.as_deref().unwrap_or("an unknown place")
    }
}

/// What the checker reports: two calls that break a rule. Displayed as the text of the report.
pub(crate) trait Report: fmt::Display {
    /// A hash of the calls and places of both sides, equal for both orders of the sides.
    fn number(&self) -> u64;

    /// Whether a place contains a text.
    fn mentions(&self, text: &str) -> bool;

    /// The report as a line of JSON.
    fn json(&self) -> String;
}

/// [`Report::number`] of the calls and places of both sides.
pub(super) fn number_of(mut sides: [String; 2]) -> u64 {
    sides.sort_unstable();
    // FNV-1a.
    let bytes = sides.iter().flat_map(|side| side.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)).max(1)
}

impl Report for Conflict {
    fn number(&self) -> u64 {
        number_of([&self.older, &self.newer].map(|side| format!("{} {}", side.access.kind, side.place())))
    }

    fn mentions(&self, text: &str) -> bool {
        [&self.older, &self.newer].iter().any(|side| side.place().contains(text))
    }

    fn json(&self) -> String {
        let side = |side: &Side| {
            let Access { start, end, kind, origin, .. } = side.access;
            let (call, place) = (quoted(&kind.to_string()), quoted(side.place()));
            format!(r#"{{"rank":{origin},"call":{call},"start":{start},"end":{end},"place":{place}}}"#)
        };
        let Conflict { window, target, older, newer, rule, .. } = self;
        let (older, newer, rule) = (side(older), side(newer), quoted(&rule.to_string()));
        format!(r#"{{"window":"{window:x}","target":{target},"first":{older},"second":{newer},"rule":{rule}}}"#) + "\n"
    }
}

impl Conflict {
    fn line(&self, f: &mut fmt::Formatter<'_>, side: &Side) -> fmt::Result {
        let Access { start, end, kind, origin, .. } = side.access;
        match self.dynamic {
            true => writeln!(f, "  rank {origin}: {kind} of bytes {start:#x}..{end:#x}, {}", side.place()),
            false => writeln!(f, "  rank {origin}: {kind} of bytes {start}..{end}, {}", side.place()),
        }
    }
}

/// A string of JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '.. => quoted.push(character),
            control => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { window, target, older, newer, rule, .. } = self;
        match rule {
            Rule::Buffers => writeln!(f, "transom: operations of rank {target} on window {window:x} share a buffer:")?,
            _ => writeln!(f, "transom: conflicting accesses to window {window:x} at rank {target}:")?,
        }
        self.line(f, older)?;
        self.line(f, newer)?;
        writeln!(f, "  {rule}")?;
        match older.access.origin == newer.access.origin {
            true => f.write_str(
                "  The first is not complete when the second begins: complete it by a flush or the end of its epoch",
            ),
            false => f.write_str("  No synchronization orders the two"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Kind;

    fn side(origin: usize, kind: Kind, place: &str) -> Side {
        let access = Access { start: 8, end: 16, kind, origin, place: 1 };
        Side { access, place: Some(place.into()) }
    }

    #[test]
    fn a_report_names_both_sides_and_is_one_from_both() {
        let conflict =
            |older, newer| Conflict { window: 3, target: 1, dynamic: false, older, newer, rule: Rule::Overlap };
        let one = conflict(side(0, Kind::Put, "main at a.c:7"), side(2, Kind::Get, "main at a.c:9"));
        let other = conflict(side(3, Kind::Get, "main at a.c:9"), side(1, Kind::Put, "main at a.c:7"));
        assert_eq!(one.number(), other.number());
        assert_eq!(
            one.to_string(),
            "transom: conflicting accesses to window 3 at rank 1:\n  rank 0: put of bytes 8..16, main at a.c:7\n  \
             rank 2: get of bytes 8..16, main at a.c:9\n  one of two concurrent accesses changes bytes of the other \
             (MPI-4.1 §12.7)\n  No synchronization orders the two"
        );
        assert!(one.mentions("a.c:9") && !one.mentions("b.c"));
        assert_eq!(
            one.json(),
            concat!(
                r#"{"window":"3","target":1,"first":{"rank":0,"call":"put","start":8,"end":16,"place":"main at a.c:7"},"#,
                r#""second":{"rank":2,"call":"get","start":8,"end":16,"place":"main at a.c:9"},"rule":"one of two "#,
                r#"concurrent accesses changes bytes of the other (MPI-4.1 §12.7)"}"#,
                "\n"
            )
        );
        assert_eq!(quoted("a \"b\" \\ \n"), r#""a \"b\" \\ \u000a""#);
        let third = conflict(side(0, Kind::Put, "main at a.c:8"), side(2, Kind::Get, "main at a.c:9"));
        assert_ne!(one.number(), third.number());
    }
}
