//! An allgather made of put, barrier and get, with O(log p) requests at each rank. Values are
//! gathered in groups: the first rank of [`FAN`] ranks gets the values of the others and puts them
//! as one block; the first ranks of [`FAN`] groups gather blocks in this way, until at most `FAN`
//! blocks are left. A rank that needs all values gets these blocks. Blocks are compressed, because
//! the values of ranks resemble each other. They are cut into fragments of the length that the
//! launcher accepts. Independent of the launcher's protocol.

use super::fields::{pack, unpack_all};
use super::{Bootstrap, BootstrapError, check_key};

/// The longest value of [`Bootstrap::allgather`], in bytes.
pub const MAX_GATHERED: usize = 64 * 1024;

/// Number of blocks that become one, and most blocks left at the end. For a rank that makes blocks,
/// each doubling of the ranks costs 7/3 gets and a third of a barrier; pairs would cost 1 get and a
/// barrier. A barrier involves the whole launcher, whereas a get is often answered on the rank's
/// machine.
const FAN: usize = 8;

/// The longest name of an allgather: leaves room in a key for `.LEVEL.RANK.PIECE`.
const MAX_NAME: usize = 40;

/// Bytes at the beginning of the first fragment: the length of the block without these bytes,
/// little-endian.
const HEADER: usize = 4;

/// State of an allgather after its barriers.
#[derive(Debug)]
pub(crate) struct Gathered {
    name: String,
    /// Number of levels at which blocks were merged.
    level: usize,
    /// Number of ranks in a block, which the first of them puts; the last block may have fewer.
    width: usize,
    /// The values that this rank put last: its own and those of the ranks that follow it.
    own: Vec<Vec<u8>>,
}

/// Puts `value` and merges blocks until few are left. Collective: every rank makes the same
/// barriers.
pub(crate) fn gather<B: Bootstrap + ?Sized>(
    boot: &mut B,
    name: &str,
    value: &[u8],
) -> Result<Gathered, BootstrapError> {
    check_name(name)?;
    if value.len() > MAX_GATHERED {
        let (key, length) = (name.to_owned(), value.len());
        return Err(BootstrapError::TooLong { key, length, limit: MAX_GATHERED });
    }
    let (me, size) = (boot.rank(), boot.size());
    let mut gathered = Gathered { name: name.to_owned(), level: 0, width: 1, own: vec![value.to_vec()] };
    gathered.put(boot)?;
    boot.barrier()?;
    while size.div_ceil(gathered.width) > FAN {
        let wide = FAN * gathered.width;
        let makes = me.is_multiple_of(wide);
        if makes {
            for first in (me + gathered.width..size.min(me + wide)).step_by(gathered.width) {
                let more = gathered.get(boot, first)?;
                gathered.own.extend(more);
            }
        }
        gathered.level += 1;
        gathered.width = wide;
        if makes {
            gathered.put(boot)?;
        }
        boot.barrier()?;
    }
    Ok(gathered)
}

impl Gathered {
    /// The values of all ranks, by rank, from the remaining blocks; this rank's own block is local.
    pub(crate) fn all<B: Bootstrap + ?Sized>(mut self, boot: &mut B) -> Result<Vec<Vec<u8>>, BootstrapError> {
        let (me, size) = (boot.rank(), boot.size());
        let mut all = vec![Vec::new(); size];
        let blocks = size.div_ceil(self.width);
        // Every rank begins at its own block, so that not all ranks request one block at the same
        // time.
        for step in 0..blocks {
            let first = (me / self.width + step) % blocks * self.width;
            let values = if first == me { std::mem::take(&mut self.own) } else { self.get(boot, first)? };
            for (place, value) in all[first..].iter_mut().zip(values) {
                *place = value;
            }
        }
        Ok(all)
    }

    fn key(&self, rank: usize, piece: usize) -> String {
        format!("{}.{}.{rank}.{piece}", self.name, self.level)
    }

    /// Puts this rank's block.
    fn put<B: Bootstrap + ?Sized>(&self, boot: &mut B) -> Result<(), BootstrapError> {
        let values = pack(&self.own);
        let block = lz4_flex::block::compress_prepend_size(&values);
        // Both lengths are sent as 32 bits.
        let limit = u32::MAX as usize;
        let too_long = |length| BootstrapError::TooLong { key: self.name.clone(), length, limit };
        u32::try_from(values.len()).map_err(|_| too_long(values.len()))?;
        let length = u32::try_from(block.len()).map_err(|_| too_long(block.len()))?;
        let framed = [&length.to_le_bytes()[..], &block].concat();
        let rank = boot.rank();
        for (piece, bytes) in framed.chunks(boot.value_limit().max(HEADER)).enumerate() {
            boot.put(&self.key(rank, piece), bytes)?;
        }
        Ok(())
    }

    /// The values of the block that rank `first` put.
    fn get<B: Bootstrap + ?Sized>(&self, boot: &mut B, first: usize) -> Result<Vec<Vec<u8>>, BootstrapError> {
        let count = self.width.min(boot.size() - first);
        // The most bytes that the values of `count` ranks take, packed and compressed.
        let most = count.saturating_mul(MAX_GATHERED + 4);
        let block = self.get_pieces(boot, first, lz4_flex::block::get_maximum_output_size(most).saturating_add(4))?;
        let malformed = |why: String| BootstrapError::Malformed { key: self.key(first, 0), why };
        let (length, rest) =
            lz4_flex::block::uncompressed_size(&block).map_err(|error| malformed(error.to_string()))?;
        if length > most {
            return Err(malformed(format!("the value announces {length} bytes of {count} ranks; the limit is {most}")));
        }
        let values = lz4_flex::block::decompress(rest, length).map_err(|error| malformed(error.to_string()))?;
        let values = unpack_all(&values).filter(|values| values.len() == count);
        values.ok_or_else(|| malformed(format!("the value does not consist of the values of {count} ranks")))
    }

    /// Reassembles the bytes that rank `from` cut into fragments.
    fn get_pieces<B: Bootstrap + ?Sized>(
        &self,
        boot: &mut B,
        from: usize,
        limit: usize,
    ) -> Result<Vec<u8>, BootstrapError> {
        let mut piece = 0;
        let mut next = |boot: &mut B| {
            let key = self.key(from, piece);
            piece += 1;
            match boot.get(from, &key)? {
                Some(bytes) => Ok((key, bytes)),
                None => Err(BootstrapError::Missing { rank: from, key }),
            }
        };
        let (key, first) = next(boot)?;
        let malformed = |key: String, why: String| BootstrapError::Malformed { key, why };
        let Some((header, body)) = first.split_first_chunk::<HEADER>() else {
            return Err(malformed(
                key,
                format!("the value has {} bytes, fewer than its header of {HEADER}", first.len()),
            ));
        };
        let length = u32::from_le_bytes(*header) as usize;
        if length > limit {
            return Err(malformed(key, format!("the value announces {length} bytes; the limit is {limit}")));
        }
        let mut value = body.to_vec();
        while value.len() < length {
            let (key, bytes) = next(boot)?;
            if bytes.is_empty() {
                return Err(malformed(key, format!("a piece is empty after {} of {length} bytes", value.len())));
            }
            value.extend_from_slice(&bytes);
        }
        if value.len() > length {
            return Err(malformed(key, format!("{} bytes came where {length} were announced", value.len())));
        }
        Ok(value)
    }
}

fn check_name(name: &str) -> Result<(), BootstrapError> {
    check_key(name)?;
    if name.len() > MAX_NAME {
        let why = format!("the name of an allgather has at most {MAX_NAME} bytes, and this one has {}", name.len());
        return Err(BootstrapError::BadKey { key: name.to_owned(), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FAN, Gathered, HEADER, MAX_GATHERED, MAX_NAME, gather};
    use crate::bootstrap::counted::{Counted, RequestCounts, noise};
    use crate::bootstrap::local::Board;
    use crate::bootstrap::solo::Solo;
    use crate::bootstrap::{Bootstrap, BootstrapError};

    fn as_put_by_one(name: &str) -> Gathered {
        Gathered { name: name.to_owned(), level: 0, width: 1, own: Vec::new() }
    }

    /// The requests of each of `ranks` ranks in an allgather of values `value`, which every rank
    /// checks.
    fn counts(ranks: usize, limit: usize, value: impl Fn(usize) -> Vec<u8> + Sync) -> Vec<RequestCounts> {
        let board = Board::new(ranks);
        let expected: Vec<Vec<u8>> = (0..ranks).map(&value).collect();
        let run = |rank: usize| {
            let mut boot = Counted::new(Box::new(board.rank(rank)), 1).with_value_limit(limit);
            let all = boot.allgather("test", &expected[rank]).unwrap();
            assert!(all == expected, "rank {rank} of {ranks}");
            boot.request_counts()()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Most requests of one rank in an allgather of `ranks` ranks, where no value is cut.
    fn most(ranks: usize) -> usize {
        3 * ranks.ilog2() as usize + 10
    }

    #[test]
    fn every_rank_has_every_value_after_few_requests() {
        for ranks in (1..=130).chain([255, 256, 257, 448, 449, 511, 512_usize]) {
            // The sizes of blocks at each level.
            let widths: Vec<usize> = [8, 64].into_iter().filter(|width| ranks > *width).collect();
            let left = ranks.div_ceil(*widths.last().unwrap_or(&1));
            for (rank, counts) in counts(ranks, MAX_GATHERED, |rank| noise(rank, rank % 40)).into_iter().enumerate() {
                let makes = widths.iter().filter(|&&width| rank % width == 0).count();
                let at = format!("rank {rank} of {ranks}: {counts:?}");
                assert_eq!((counts.puts, counts.barriers), (1 + makes, 1 + widths.len()), "{at}");
                assert!(counts.gets <= makes * (FAN - 1) + left, "{at}");
                assert!(counts.requests() <= most(ranks), "{at}");
            }
        }
    }

    /// Where the launcher's values are short, requests grow by the fragments of the whole, and for
    /// ranks that make blocks by the fragments of an eighth.
    #[test]
    fn the_number_of_pieces_follows_the_compressed_length() {
        const LIMIT: usize = 600;
        for ranks in [2, 8, 9, 64, 65, 130, 512] {
            let text = |rank: usize| {
                format!("what all tell, again and again and again; and what one tells: {rank}").into_bytes()
            };
            let bytes = |rank: usize| [text(rank), noise(rank, 50)].concat();
            // Each value adds 75 bytes that don't compress, including the overhead of compression.
            let pieces = ranks * 75 * 4 / 3 / LIMIT;
            for counts in counts(ranks, LIMIT, bytes) {
                assert!(counts.requests() <= most(ranks) + pieces, "{ranks} ranks, {pieces} pieces: {counts:?}");
            }
        }
    }

    #[test]
    fn a_missing_block_is_an_error_with_rank_and_key() {
        let board = Board::new(20);
        let results: Vec<_> = std::thread::scope(|scope| {
            let run = |rank: usize| {
                let mut boot = board.rank(rank);
                if rank != 8 {
                    return boot.allgather("test", b"x").map(drop);
                }
                Gathered { own: vec![Vec::new()], ..as_put_by_one("test") }.put(&mut boot)?;
                boot.barrier()?;
                boot.barrier()
            };
            let threads: Vec<_> = (0..20).map(|rank| scope.spawn(move || run(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (rank, result) in results.iter().enumerate().filter(|(rank, _)| *rank != 8) {
            let missing = matches!(result, Err(BootstrapError::Missing { rank: 8, key }) if key == "test.1.8.0");
            assert!(missing, "rank {rank}: {result:?}");
        }
    }

    #[test]
    fn a_value_survives_being_cut_at_any_limit() {
        let value = noise(0, 1000);
        let lengths = |limit: usize| (0..40).chain([limit, 999, 1000]).map(move |length| (limit, length));
        for (limit, length) in (HEADER..50).chain([990, 1000, 1010, 1020]).flat_map(lengths) {
            let mut boot = Solo::with_value_limit(limit);
            let part = &value[..length.min(value.len())];
            gather(&mut boot, "n", part).unwrap();
            let got = as_put_by_one("n").get(&mut boot, 0).unwrap();
            assert_eq!(got, [part], "limit {limit}, length {length}");
        }
    }

    #[test]
    fn too_long_values_and_names_and_reuse_are_refused() {
        let mut boot = Solo::new();
        assert!(boot.allgather("full", &noise(1, MAX_GATHERED)).is_ok());
        let long = boot.allgather("long", &vec![1; MAX_GATHERED + 1]);
        assert!(matches!(long, Err(BootstrapError::TooLong { length, .. }) if length == MAX_GATHERED + 1));
        let name = "n".repeat(MAX_NAME + 1);
        assert!(matches!(boot.allgather(&name, b""), Err(BootstrapError::BadKey { .. })));
        assert!(matches!(boot.allgather("full", b"x"), Err(BootstrapError::DuplicateKey { .. })));
    }

    #[test]
    fn a_damaged_value_is_an_error() {
        let mut boot = Solo::new();
        let mut put = |name: &str, announced: u32, rest: &[u8]| {
            let bytes = [&announced.to_le_bytes(), rest].concat();
            boot.put(&format!("{name}.0.0.0"), &bytes).unwrap();
        };
        put("huge", u32::MAX, &[]);
        put("over", 1, &[7, 7]);
        put("cut", 9, &[7]);
        // Malformed puts: shorter than the stated length; announcing more than a rank can put;
        // not compressed; not fields; of no rank; of two ranks.
        put("none", 1, &[7]);
        put("bomb", 8, &[255, 255, 255, 127, 0, 0, 0, 0]);
        put("plain", 6, &[4, 0, 0, 0, 255, 255]);
        for (name, values) in [("fields", &[9, 0, 0, 0, 1][..]), ("nobody", &[]), ("two", &[0; 8])] {
            let block = lz4_flex::block::compress_prepend_size(values);
            put(name, u32::try_from(block.len()).unwrap(), &block);
        }
        boot.put("short.0.0.0", &[1, 0]).unwrap();
        for name in ["short", "huge", "over", "none", "bomb", "plain", "fields", "nobody", "two"] {
            let got = as_put_by_one(name).get(&mut boot, 0);
            assert!(
                matches!(&got, Err(BootstrapError::Malformed { key, .. }) if *key == format!("{name}.0.0.0")),
                "{name}: {got:?}"
            );
        }
        let cut = as_put_by_one("cut").get(&mut boot, 0);
        assert!(matches!(&cut, Err(BootstrapError::Missing { rank: 0, key }) if key == "cut.0.0.1"), "{cut:?}");
    }
}
