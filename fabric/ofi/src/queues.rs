//! The lengths of a provider's queues, which the user's variables change. Plain data.

/// A queue of the provider, which is emptied when the process reads its completion queue. An
/// overflow ends the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events {
    /// The variable by which the user sets the number of entries, and the number without it.
    pub(crate) entries: (&'static str, usize),
    /// The variable by which the user limits the size in bytes, and the limit without it.
    pub(crate) bytes: (&'static str, usize),
    /// The size of an entry in bytes.
    pub(crate) entry: usize,
}

impl Events {
    /// The number of entries. A variable that is no plain decimal number counts as 0: libfabric may
    /// read another number.
    pub(crate) fn length(&self, variable: impl Fn(&str) -> Option<String>) -> usize {
        let plain = |value: String| if value.starts_with(['+', '0']) { 0 } else { value.parse().unwrap_or(0) };
        let [entries, bytes] = [self.entries, self.bytes].map(|(name, unset)| variable(name).map_or(unset, plain));
        entries.min(bytes / self.entry)
    }
}

/// The length of the completion queue: the larger of two values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    /// The number of entries that this crate requests.
    pub(crate) entries: usize,
    /// The variable by which a user requests a number. The provider reads it only if the queue is
    /// opened without a number.
    pub(crate) variable: Option<&'static str>,
}

impl Queue {
    /// The number of entries to request.
    pub(crate) fn length(&self, variable: impl Fn(&str) -> Option<String>) -> usize {
        let users = self.variable.and_then(variable).and_then(|value| value.trim().parse().ok());
        self.entries.max(users.unwrap_or(0))
    }
}
