//! The exchange of cards at start, once for each machine. The leader of a machine, its lowest rank
//! as reported by the launcher, gets the cards from the launcher. The other ranks read the leader's
//! copy in shared memory, or send their own requests to the launcher if they can't read it. Does
//! not interpret cards.

use std::mem::ManuallyDrop;

use transom_fabric::Memory;

use super::cards::{key_bytes, key_from};
use super::peer;
use crate::bootstrap::fields::{pack, unpack, unpack_all};
use crate::bootstrap::{self, Bootstrap, BootstrapError};
use crate::transport::{self, Lane, ShmRegion, Wire};

/// The way in which ranks of one machine share a copy.
pub(super) trait Copies {
    /// Shares `bytes`. Returns the place for [`read`](Self::read), or `None` where this rank can't
    /// share.
    fn share(&mut self, bytes: &[u8]) -> Option<Vec<u8>>;

    /// The bytes that rank `from` shared, or `None` where they can't be read.
    fn read(&self, from: usize, place: &[u8]) -> Option<Vec<u8>>;
}

/// The exchange of one rank.
pub(super) struct Exchange<C> {
    boot: Box<dyn Bootstrap>,
    copies: C,
    /// The rank that gets the values from the launcher for this machine.
    leader: usize,
    /// Whether other ranks wait for this rank's copy.
    has_followers: bool,
}

impl<C: Copies> Exchange<C> {
    /// The exchange through `boot`, with copies if the launcher reports which ranks share a
    /// machine.
    pub(super) fn new(mut boot: Box<dyn Bootstrap>, copies: C) -> Result<Self, BootstrapError> {
        let neighbours = boot.neighbours()?;
        let leader = neighbours.first().copied().unwrap_or(boot.rank());
        let has_followers = leader == boot.rank() && neighbours.len() > 1;
        Ok(Exchange { boot, copies, leader, has_followers })
    }

    pub(super) fn rank(&self) -> usize {
        self.boot.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.boot.size()
    }

    /// Waits until all ranks have arrived. Collective.
    pub(super) fn barrier(&mut self) -> Result<(), BootstrapError> {
        self.boot.barrier()
    }

    /// Gives every rank the values of all ranks, by rank. Collective; `name` as for
    /// [`Bootstrap::allgather`]. Every rank makes one barrier more than [`Bootstrap::allgather`],
    /// whether or not it can share or read copies.
    pub(super) fn allgather(&mut self, name: &str, value: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError> {
        // Over PMI-1 all ranks put into one store, so each machine needs its own key.
        let place = format!("{name}.copy.{}", self.leader);
        let gathered = bootstrap::gather(self.boot.as_mut(), name, value)?;
        if self.leader == self.rank() {
            let values = gathered.all(self.boot.as_mut())?;
            if self.has_followers
                && let Some(copy) = self.copies.share(&pack(&values))
            {
                self.boot.put(&place, &copy)?;
            }
            self.boot.barrier()?;
            return Ok(values);
        }
        self.boot.barrier()?;
        match self.copy(&place)? {
            Some(values) => Ok(values),
            None => gathered.all(self.boot.as_mut()),
        }
    }

    /// Gives every rank the value of rank 0, the only rank that passes `Some`: a put, a barrier,
    /// and a get by every other rank. Collective.
    pub(super) fn broadcast(&mut self, name: &str, value: Option<&[u8]>) -> Result<Vec<u8>, BootstrapError> {
        if let Some(value) = value {
            self.boot.put(name, value)?;
            self.boot.barrier()?;
            return Ok(value.to_vec());
        }
        self.boot.barrier()?;
        let missing = || BootstrapError::Missing { rank: 0, key: name.to_owned() };
        self.boot.get(0, name)?.ok_or_else(missing)
    }

    /// The leader's copy, if it can be read.
    fn copy(&mut self, place: &str) -> Result<Option<Vec<Vec<u8>>>, BootstrapError> {
        let shared = self.boot.get(self.leader, place)?;
        let copy = shared.and_then(|shared| self.copies.read(self.leader, &shared));
        Ok(copy.and_then(|copy| unpack_all(&copy)).filter(|values| values.len() == self.size()))
    }

    /// The connection to the launcher, and the copies, which other ranks may read until the next
    /// barrier of all ranks.
    pub(super) fn into_parts(self) -> (Box<dyn Bootstrap>, C) {
        (self.boot, self.copies)
    }
}

/// Copies in the heap of the rank that shares them.
pub(super) struct HeapCopies<'a> {
    wire: &'a Wire,
    /// The address of this rank's heap; `None` where shared memory is excluded.
    address: Option<Vec<u8>>,
    /// The copies that this rank shares. Never dropped if the start fails, because other ranks may
    /// still read them.
    copies: ManuallyDrop<Vec<Copy>>,
}

/// A block of the heap that others can map.
pub(super) type Copy = (Memory, ShmRegion);

impl<'a> HeapCopies<'a> {
    pub(super) fn new(wire: &'a Wire, address: Option<Vec<u8>>) -> Self {
        HeapCopies { wire, address, copies: ManuallyDrop::default() }
    }

    pub(super) fn into_copies(self) -> Vec<Copy> {
        ManuallyDrop::into_inner(self.copies)
    }
}

impl Copies for HeapCopies<'_> {
    fn share(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let address = self.address.as_ref()?;
        let memory = self.wire.allocate(bytes.len()).ok()?;
        memory.write(0, bytes);
        let region = self.wire.register_shm(&memory).ok()??;
        let place = pack(&[address.as_slice(), &key_bytes(&transport::shm_key(&region))]);
        self.copies.push((memory, region));
        Some(place)
    }

    fn read(&self, from: usize, place: &[u8]) -> Option<Vec<u8>> {
        self.address.as_ref()?;
        let [address, key] = unpack::<2>(place)?;
        // A rank that can't map the leader's memory reports this later, when the ranks prove that
        // they share a node.
        self.wire.connect(Lane::Shm, peer(from), &address).ok()?;
        let memory = self.wire.import_shm(peer(from), &key_from(&key)).ok()?.mapped()?;
        let mut bytes = vec![0; memory.len()];
        memory.read(0, &mut bytes);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::bootstrap::counted::{Counted, RequestCounts};
    use crate::bootstrap::local::Board;

    /// Memory that only some ranks can share or read.
    struct Table {
        shared: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
        rank: usize,
        works: fn(usize) -> bool,
    }

    impl Copies for Table {
        fn share(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
            let mut shared = self.shared.lock().unwrap();
            let place = vec![u8::try_from(self.rank % 251).unwrap(), u8::try_from(shared.len() % 256).unwrap(), 7];
            (self.works)(self.rank).then(|| {
                assert!(shared.insert(place.clone(), bytes.to_vec()).is_none());
                place
            })
        }

        fn read(&self, _from: usize, place: &[u8]) -> Option<Vec<u8>> {
            self.shared.lock().unwrap().get(place).filter(|_| (self.works)(self.rank)).cloned()
        }
    }

    /// The requests of each rank to the launcher in one allgather. Every rank checks the values.
    fn requests_of_allgather(ranks: usize, per_machine: usize, works: fn(usize) -> bool) -> Vec<RequestCounts> {
        let (board, shared) = (Board::new(ranks), Arc::default());
        let value = |rank: usize| vec![u8::try_from(rank % 256).unwrap(); rank % 5];
        let run = |rank: usize| {
            let boot = Counted::new(Box::new(board.rank(rank)), per_machine);
            let request_counts = boot.request_counts();
            let copies = Table { shared: Arc::clone(&shared), rank, works };
            let mut exchange = Exchange::new(Box::new(boot), copies).unwrap();
            let all = exchange.allgather("test", &value(rank)).unwrap();
            assert!(all.into_iter().eq((0..ranks).map(value)), "rank {rank} of {ranks}");
            request_counts()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn values_are_fetched_once_for_each_machine() {
        for ranks in [2, 3, 8, 61, 128, 512] {
            let levels = [8, 64, 512].iter().filter(|&&most| ranks > most).count();
            for per_machine in [1, 2, 16, 64, ranks] {
                for (rank, requests) in requests_of_allgather(ranks, per_machine, |_| true).into_iter().enumerate() {
                    // `makes`: the levels at which the rank makes a block of other ranks' values.
                    // `shares`: whether it gets the remaining blocks, and puts the place of its
                    // copy.
                    let makes = [8, 64].iter().take(levels).filter(|&&width| rank % width == 0).count();
                    let leads = rank % per_machine == 0;
                    let shares = leads && per_machine > 1 && rank + 1 < ranks;
                    let at = format!("rank {rank} of {ranks}, {per_machine} a machine: {requests:?}");
                    assert_eq!(
                        (requests.puts, requests.barriers),
                        (1 + makes + usize::from(shares), 2 + levels),
                        "{at}"
                    );
                    assert!(requests.gets <= 7 * makes + if leads { 8 } else { 1 }, "{at}");
                }
            }
        }
    }

    #[test]
    fn ranks_that_cannot_share_or_read_ask_the_launcher() {
        for (works, gets) in [
            // The ranks that can: none; all but rank 3; all but the leader; the leader only.
            ((|_| false) as fn(usize) -> bool, [5, 6, 6, 6, 6, 6]),
            (|rank| rank != 3, [5, 1, 1, 6, 1, 1]),
            (|rank| rank != 0, [5, 6, 6, 6, 6, 6]),
            (|rank| rank == 0, [5, 6, 6, 6, 6, 6]),
        ] {
            let requests = requests_of_allgather(6, 6, works);
            assert_eq!(requests.iter().map(|of_rank| of_rank.gets).collect::<Vec<_>>(), gets);
            assert!(requests.iter().all(|of_rank| of_rank.barriers == 2));
        }
    }
}
