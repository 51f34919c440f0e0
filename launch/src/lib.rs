//! Starts the ranks of a job, on one or several machines, and watches the job until its end: the
//! builder [`Job`] and the [`Outcome`]. The program `transom-run` is a command line for this
//! library; programs that start their own ranks use it directly. Independent of windows and
//! transports.

mod admission;
mod bind;
#[cfg(feature = "cli")]
pub mod command_line;
mod descriptors;
#[allow(unsafe_code)]
mod guard;
mod hosts;
mod job;
mod machines;
mod order;
mod orphans;
mod outcome;
mod output;
mod ranks;
mod remote;
mod server;
mod signals;
mod stdin;
mod supervise;

pub use hosts::{Host, REMOTE};
pub use job::{Bind, Job};
pub use outcome::{Failure, LaunchError, Outcome};
pub use remote::serve as serve_remote;
