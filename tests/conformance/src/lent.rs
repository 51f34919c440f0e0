//! The unsafe calls of a port, made safe for tests: lent memory is kept to the end of the test and
//! accessed by raw copies only.

use transom_fabric::{Amo, Domain, Memory, Port, Post, Span, TallyRef};

use crate::Fixture;
use crate::team::{Rank, RemoteOf};

impl<F: Fixture> Rank<'_, F> {
    /// [`Port::put`] of all of `from`, retried while it is answered `Again`. The test leaves `from`
    /// alone until the tally is idle.
    pub fn put(&self, to: &RemoteOf<F>, offset: u64, from: &Memory, tally: &TallyRef) {
        self.keep(from);
        // SAFETY: the memory is kept to the end of the test, after which nothing is outstanding
        // (`run`); it is private, and no reference to it exists.
        self.post(|port| unsafe { port.put(to, offset, from.span(), tally) });
    }

    /// [`Port::get`] into all of `into`, retried while it is answered `Again`.
    pub fn get(&self, from: &RemoteOf<F>, offset: u64, into: &Memory, tally: &TallyRef) {
        self.keep(into);
        // SAFETY: the memory is kept to the end of the test, after which nothing is outstanding
        // (`run`); it is private, and no reference to it exists.
        self.post(|port| unsafe { port.get(from, offset, into.span(), tally) });
    }

    /// [`Port::get_scattered`] into `places` of `into`, as where they begin and how long they are,
    /// retried while it is answered `Again`. The test gives no byte twice.
    pub fn get_scattered(
        &self,
        from: &RemoteOf<F>,
        offset: u64,
        into: &Memory,
        places: &[(usize, usize)],
        tally: &TallyRef,
    ) {
        let parts = self.parts(into, places);
        // SAFETY: as in `put`; no two parts overlap, which the test guarantees.
        self.post(|port| unsafe { port.get_scattered(from, offset, &parts, tally) });
    }

    /// [`Port::get_list`] into memory of the test.
    pub fn get_list(
        &self,
        from: &RemoteOf<F>,
        offset: u64,
        into: &Memory,
        places: &[(usize, usize)],
        tally: &TallyRef,
    ) {
        let parts = self.parts(into, places);
        // SAFETY: as in `get_scattered`.
        self.post(|port| unsafe { port.get_list(from, offset, &parts, tally) });
    }

    /// [`Port::put_list`] of `places` of `from`.
    pub fn put_list(&self, to: &RemoteOf<F>, offset: u64, from: &Memory, places: &[(usize, usize)], tally: &TallyRef) {
        let parts = self.parts(from, places);
        // SAFETY: as in `put`.
        self.post(|port| unsafe { port.put_list(to, offset, &parts, tally) });
    }

    fn parts(&self, of: &Memory, places: &[(usize, usize)]) -> Vec<Span> {
        self.keep(of);
        let parts: Vec<_> = places.iter().filter_map(|&(at, len)| of.span().slice(at, len)).collect();
        assert_eq!(parts.len(), places.len(), "all are inside");
        parts
    }

    /// [`Port::amo`] with its old value into all of `into`, retried while it is answered `Again`.
    pub fn amo(&self, on: &RemoteOf<F>, offset: u64, amo: Amo, into: &Memory, tally: &TallyRef) {
        self.keep(into);
        // SAFETY: as in `put`.
        self.post(|port| unsafe { port.amo(on, offset, amo, into.span(), tally) });
    }

    /// [`Port::put`] once, whatever it answers.
    pub fn try_put(&self, to: &RemoteOf<F>, offset: u64, from: &Memory, tally: &TallyRef) -> Post {
        self.keep(from);
        // SAFETY: as in `put`.
        unsafe { self.domain().port().put(to, offset, from.span(), tally) }
    }
}
