//! An allgather made of put, barrier and get: how a value is cut into pieces and put together again. It knows nothing
//! of the protocol underneath.

use super::{Bootstrap, BootstrapError, check_key};

/// The longest value of [`Bootstrap::allgather`], in bytes.
pub const MAX_GATHERED: usize = 64 * 1024;

/// The longest name of an allgather: leaves room in a key for `.RANK.PIECE`.
const MAX_NAME: usize = 40;

/// Bytes in front of the first piece: the whole value's length, little-endian.
const HEADER: usize = 4;

pub(super) fn allgather<B: Bootstrap + ?Sized>(
    boot: &mut B,
    name: &str,
    value: &[u8],
) -> Result<Vec<Vec<u8>>, BootstrapError> {
    put_pieces(boot, name, value)?;
    boot.barrier()?;
    get_all(boot, name, value)
}

/// The values that all ranks put under `name` before the last barrier, of which `mine` is this rank's: a get for every other one.
pub(crate) fn get_all<B: Bootstrap + ?Sized>(
    boot: &mut B,
    name: &str,
    mine: &[u8],
) -> Result<Vec<Vec<u8>>, BootstrapError> {
    let (me, size) = (boot.rank(), boot.size());
    let mut all = vec![Vec::new(); size];
    // Every rank begins at its neighbour, so that they do not all ask for the same value at the same time.
    for step in 1..size {
        let rank = (me + step) % size;
        all[rank] = get_pieces(boot, name, rank)?;
    }
    all[me] = mine.to_vec();
    Ok(all)
}

fn check_name(name: &str) -> Result<(), BootstrapError> {
    check_key(name)?;
    if name.len() > MAX_NAME {
        let why = format!("the name of an allgather has at most {MAX_NAME} bytes, this one {}", name.len());
        return Err(BootstrapError::BadKey { key: name.to_owned(), why });
    }
    Ok(())
}

fn piece_key(name: &str, rank: usize, piece: usize) -> String {
    format!("{name}.{rank}.{piece}")
}

/// Puts a value of at most [`MAX_GATHERED`] bytes, for [`get_all`] after the next barrier.
pub(crate) fn put_pieces<B: Bootstrap + ?Sized>(boot: &mut B, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
    check_name(name)?;
    if value.len() > MAX_GATHERED {
        let (key, length) = (name.to_owned(), value.len());
        return Err(BootstrapError::TooLong { key, length, limit: MAX_GATHERED });
    }
    let rank = boot.rank();
    let length = u32::try_from(value.len()).expect("at most MAX_GATHERED");
    let mut framed = Vec::with_capacity(HEADER + value.len());
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(value);
    let limit = boot.value_limit().max(HEADER);
    for (piece, bytes) in framed.chunks(limit).enumerate() {
        boot.put(&piece_key(name, rank, piece), bytes)?;
    }
    Ok(())
}

fn get_pieces<B: Bootstrap + ?Sized>(boot: &mut B, name: &str, rank: usize) -> Result<Vec<u8>, BootstrapError> {
    let mut piece = 0;
    let mut next = |boot: &mut B| {
        let key = piece_key(name, rank, piece);
        piece += 1;
        match boot.get(rank, &key)? {
            Some(bytes) => Ok((key, bytes)),
            None => Err(BootstrapError::Missing { rank, key }),
        }
    };
    let (key, first) = next(boot)?;
    let malformed = |key: String, why: String| BootstrapError::Malformed { key, why };
    let Some((header, body)) = first.split_first_chunk::<HEADER>() else {
        return Err(malformed(key, format!("{} bytes, too few for the length of {HEADER}", first.len())));
    };
    let length = u32::from_le_bytes(*header) as usize;
    if length > MAX_GATHERED {
        return Err(malformed(key, format!("it announces {length} bytes, the limit is {MAX_GATHERED}")));
    }
    let mut value = body.to_vec();
    while value.len() < length {
        let (key, bytes) = next(boot)?;
        if bytes.is_empty() {
            return Err(malformed(key, format!("an empty piece after {} of {length} bytes", value.len())));
        }
        value.extend_from_slice(&bytes);
    }
    if value.len() > length {
        return Err(malformed(key, format!("{} bytes came where {length} were announced", value.len())));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{HEADER, MAX_GATHERED, MAX_NAME, get_pieces, put_pieces};
    use crate::bootstrap::solo::Solo;
    use crate::bootstrap::{Bootstrap, BootstrapError};

    #[test]
    fn a_value_survives_being_cut_at_any_limit() {
        let value: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for limit in [HEADER, HEADER + 1, 7, 99, 1003, 1004, 1005] {
            for length in [0, 1, limit - HEADER, limit - HEADER + 1, 1000] {
                let mut boot = Solo::with_value_limit(limit);
                let part = &value[..length.min(value.len())];
                put_pieces(&mut boot, "n", part).unwrap();
                assert_eq!(get_pieces(&mut boot, "n", 0).unwrap(), part, "limit {limit}, length {length}");
            }
        }
    }

    #[test]
    fn too_long_values_and_names_and_reuse_are_refused() {
        let mut boot = Solo::new();
        assert!(boot.allgather("full", &vec![1; MAX_GATHERED]).is_ok());
        let long = boot.allgather("long", &vec![1; MAX_GATHERED + 1]);
        assert!(matches!(long, Err(BootstrapError::TooLong { length, .. }) if length == MAX_GATHERED + 1));
        let name = "n".repeat(MAX_NAME + 1);
        assert!(matches!(boot.allgather(&name, b""), Err(BootstrapError::BadKey { .. })));
        assert!(matches!(boot.allgather("full", b"x"), Err(BootstrapError::DuplicateKey { .. })));
    }

    #[test]
    fn a_damaged_value_is_an_error() {
        let mut boot = Solo::new();
        boot.put("short.0.0", &[1, 0]).unwrap();
        boot.put("huge.0.0", &u32::MAX.to_le_bytes()).unwrap();
        boot.put("over.0.0", &[1, 0, 0, 0, 7, 7]).unwrap();
        for name in ["short", "huge", "over"] {
            let got = get_pieces(&mut boot, name, 0);
            assert!(matches!(got, Err(BootstrapError::Malformed { .. })), "{name}: {got:?}");
        }
        boot.put("cut.0.0", &[9, 0, 0, 0, 7]).unwrap();
        let cut = get_pieces(&mut boot, "cut", 0);
        assert!(matches!(&cut, Err(BootstrapError::Missing { rank: 0, key }) if key == "cut.0.1"), "{cut:?}");
    }
}
