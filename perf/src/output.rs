//! The standard output; its error messages name it.

use std::io::{Error, StdoutLock, Write};
use std::process::ExitCode;

use clap::Parser;

/// The standard output, locked.
pub(crate) struct Output(StdoutLock<'static>);

/// The writer of all tables.
pub(crate) fn output() -> Output {
    Output(std::io::stdout().lock())
}

fn with_name(error: &Error) -> Error {
    Error::new(error.kind(), format!("writing to the standard output: {error}"))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).map_err(|error| with_name(&error))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().map_err(|error| with_name(&error))
    }
}

/// The options of a command line; else the exit status, after `name` has printed the help, the
/// version or the error.
pub(crate) fn parsed<P: Parser>(name: &str, args: impl Iterator<Item = std::ffi::OsString>) -> Result<P, ExitCode> {
    P::try_parse_from(args).map_err(|error| {
        let printed = match error.use_stderr() {
            true => error.print(),
            false => error.print().and_then(|()| std::io::stdout().flush()).map_err(|error| with_name(&error)),
        };
        match printed {
            Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Err(error) => {
                eprintln!("{name}: {error}");
                ExitCode::FAILURE
            }
        }
    })
}
