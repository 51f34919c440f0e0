//! The result of the parts of the program.

use std::error::Error;

/// A result with an error of any kind, which `main` prints.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;
