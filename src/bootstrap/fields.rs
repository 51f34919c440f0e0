//! Packs several byte strings into one, each after its length. Does not interpret them.

/// Several fields in one value.
pub(crate) fn pack(fields: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields.iter().map(AsRef::as_ref) {
        // Fields are addresses and names, far below 4 GiB.
        out.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(field);
    }
    out
}

/// The fields of a value that [`pack`] made; `None` for any other value.
pub(crate) fn unpack<const N: usize>(value: &[u8]) -> Option<[Vec<u8>; N]> {
    unpack_all(value)?.try_into().ok()
}

/// All fields of a value that [`pack`] made, of any number; `None` for any other value.
pub(crate) fn unpack_all(mut value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = Vec::new();
    while !value.is_empty() {
        let (len, rest) = value.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        fields.push(bytes.to_vec());
        value = rest;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack, unpack_all};

    #[test]
    fn fields_round_trip() {
        let value = pack(&[&b"node"[..], b"", b"\0\xff"]);
        let [node, nothing, bytes] = unpack::<3>(&value).expect("three fields");
        assert_eq!((node.as_slice(), nothing.as_slice(), bytes.as_slice()), (&b"node"[..], &b""[..], &b"\0\xff"[..]));
        assert!(unpack::<2>(&value).is_none() && unpack::<4>(&value).is_none());
        assert!(unpack_all(&[9, 0, 0, 0, 1]).is_none() && unpack_all(&value[1..]).is_none());
        assert_eq!(unpack_all(&[]), Some(Vec::new()));
    }
}
