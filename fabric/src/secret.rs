//! Random numbers that no other process can guess, from the kernel (getrandom(2)).

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::FabricError;

/// A random word.
///
/// # Errors
/// The kernel gives none: a transport that needs a secret must not start then.
pub fn word() -> Result<u64, FabricError> {
    bytes().map(u64::from_ne_bytes)
}

/// At most 256 random bytes, which the kernel gives in full or not at all.
///
/// # Errors
/// Those of [`word`].
pub fn bytes<const N: usize>() -> Result<[u8; N], FabricError> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(got) if got == N => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(FabricError::failed("getrandom", error)),
        }
    }
}
