//! Failures in MPI's form (MPI-4.1 §9.3, §12.6): the window's error handler gets an error code of
//! the right class, whose string is transom's text. If the handler ends the program, the text is
//! printed first.

use std::ffi::{CString, c_int};
use std::fmt::{Display, Formatter};
use std::sync::{Mutex, OnceLock, PoisonError};

use transom::{Class, Error, diagnostics};

use crate::host::{
    Comm, Errhandler, SUCCESS, Win, constants, host_Abort, host_Add_error_class, host_Add_error_code,
    host_Add_error_string, host_Comm_call_errhandler, host_Comm_get_errhandler, host_Errhandler_free,
    host_Win_call_errhandler, host_Win_get_errhandler,
};
use crate::{fatal, process};

/// The length in bytes of the longest error string that every host takes.
const LONGEST: usize = 250;

/// The code of each class, after its first use. A code's string is that of its last failure.
static CODES: Mutex<[Option<c_int>; CLASSES]> = Mutex::new([None; CLASSES]);

/// The classes of transom, and those of notified operations, null buffers and null groups.
const CLASSES: usize = Class::ALL.len() + 3;

/// `MPI_ERR_RMA_NOTIFICATION`, which hosts lack: a class that is added at its first use, so that
/// programs without notified operations see no class but the host's.
pub(crate) fn notification_class() -> c_int {
    static ADDED: OnceLock<c_int> = OnceLock::new();
    *ADDED.get_or_init(|| {
        let mut class = constants().classes[Class::ALL.len() - 1];
        // SAFETY: the calls write a number, and copy a text that ends with a zero byte.
        unsafe {
            if host_Add_error_class(&raw mut class) == SUCCESS {
                host_Add_error_string(class, c"MPI_ERR_RMA_NOTIFICATION: no such counter at the target".as_ptr());
            }
        }
        class
    })
}

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Of(Class),
    /// `MPI_ERR_BUFFER`, which only MPI's calls have.
    NullBuffer,
    NullGroup,
}

/// The result of an entry point's work.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        Failure { kind: Kind::Of(error.class()), text: format!("{error:#}") }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Failure {
    #[cold]
    pub(crate) fn new(class: Class, text: impl Into<String>) -> Failure {
        Failure { kind: Kind::Of(class), text: text.into() }
    }

    /// The failure of an operation that has data but no address for it.
    #[cold]
    pub(crate) fn null_buffer() -> Failure {
        let text = "the buffer of an operation with data is NULL, and its datatype has no absolute addresses";
        Failure { kind: Kind::NullBuffer, text: text.into() }
    }

    /// The failure of a call that got `MPI_GROUP_NULL`.
    #[cold]
    pub(crate) fn null_group() -> Failure {
        Failure { kind: Kind::NullGroup, text: "the group is MPI_GROUP_NULL".into() }
    }

    /// The failure of a call that got NULL instead of an address at which it stores `what`.
    #[cold]
    pub(crate) fn no_room(what: &str) -> Failure {
        Failure::new(Class::Arg, format!("the call stores {what}, but got NULL for it"))
    }

    /// Replaces `performed`, the name of the function that failed, at the beginning of the text by
    /// `call`, the name of the program's call.
    #[cold]
    pub(crate) fn named(mut self, performed: &str, call: &str) -> Failure {
        if let Some(rest) = self.text.strip_prefix(performed) {
            self.text = format!("{call}{rest}");
        }
        self
    }

    /// The failure's code, which the host can explain from now on.
    pub(crate) fn code(&self) -> c_int {
        let (place, class) = self.placed();
        // MPICH looks a new code of a class up among its own messages, and finds one about another
        // failure.
        if cfg!(int_handles) { class } else { self.explained(place, class) }
    }

    /// The index of the failure's class in `CODES`, and the host's number of it.
    fn placed(&self) -> (usize, c_int) {
        let class = match self.kind {
            Kind::Of(Class::RmaNotification) => return (Class::ALL.len(), notification_class()),
            Kind::NullBuffer => return (Class::ALL.len() + 1, constants().err_buffer),
            Kind::NullGroup => return (Class::ALL.len() + 2, constants().err_group),
            Kind::Of(class) => class,
        };
        let other = Class::ALL.len() - 1;
        let place = Class::ALL.iter().position(|&known| known == class).unwrap_or(other);
        (place, constants().classes[place])
    }

    /// Each class has one code, which gets the text of the failure.
    fn explained(&self, place: usize, class: c_int) -> c_int {
        let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
        let mut code = class;
        match codes[place] {
            Some(known) => code = known,
            // SAFETY: the call writes one number.
            None if unsafe { host_Add_error_code(class, &raw mut code) } == 0 => codes[place] = Some(code),
            // If there is no such code, the class itself is the code, with the host's string.
            None => return class,
        }
        let mut text = self.text.replace('\0', " ");
        while text.len() > LONGEST {
            text.pop();
        }
        if let Ok(text) = CString::new(text) {
            // SAFETY: the text lives through the call, which copies it.
            unsafe { host_Add_error_string(code, text.as_ptr()) };
        }
        code
    }

    /// Calls the window's error handler. Returns the code, if the handler returns.
    #[cold]
    pub(crate) fn raise(&self, win: Win) -> c_int {
        // SAFETY: the window is one of the host's; the calls write a handle.
        let find = |handler: *mut Errhandler| unsafe { host_Win_get_errhandler(win, handler) };
        let handler = handler_of(find);
        if !fatal::is_set(win) && passes_to_world(handler) {
            return self.raise_on(constants().world);
        }
        // SAFETY: as above.
        self.handled(ends_program(handler), |code| unsafe { host_Win_call_errhandler(win, code) })
    }

    /// Whether the failure is a missing epoch for a call on `MPI_PROC_NULL`, which has no effect.
    pub(crate) fn is_nothing(&self, target: c_int) -> bool {
        self.is_missing_epoch() && target == constants().proc_null
    }

    pub(crate) fn is_missing_epoch(&self) -> bool {
        self.kind == Kind::Of(Class::RmaSync)
    }

    /// [`Failure::raise`] on a communicator, when there is no window yet.
    #[cold]
    pub(crate) fn raise_on(&self, comm: Comm) -> c_int {
        let handler = handler_of_comm(comm);
        if comm != constants().world && passes_to_world(handler) {
            return self.raise_on(constants().world);
        }
        // SAFETY: as in `raise`.
        self.handled(ends_program(handler), |code| unsafe { host_Comm_call_errhandler(comm, code) })
    }

    /// Passes the failure to the error handler of an object, which `call` calls. `ends`: whether
    /// the handler ends the program. Returns the code, if the handler returns.
    fn handled(&self, ends: bool, call: impl Fn(c_int) -> c_int) -> c_int {
        // Hosts print little about codes that are not their own.
        if ends || process::get().is_some_and(|process| process.info) {
            diagnostics::error("transom::mpi", &self.text);
        }
        if ends {
            self.end(call)
        } else {
            let code = self.code();
            call(code);
            code
        }
    }

    /// Ends the program by an error handler that does so. The handler gets the class, because hosts
    /// make the exit status of it.
    fn end(&self, call: impl Fn(c_int) -> c_int) -> ! {
        let (_, class) = self.placed();
        call(class);
        // MPICH 5 continues until its launcher has ended the process. Calls of the program would
        // follow the failed one.
        // SAFETY: the host has started.
        unsafe { host_Abort(constants().world, class) };
        std::process::exit(class) // tidy-allow(exit): MPI's error handler ends the program
    }
}

/// The error handler that `find` looks up, as a number to compare.
fn handler_of(find: impl Fn(*mut Errhandler) -> c_int) -> Option<Errhandler> {
    let mut handler = constants().errors_are_fatal;
    if find(&raw mut handler) != SUCCESS {
        return None;
    }
    let found = handler;
    // SAFETY: the handle was made by `find`.
    unsafe { host_Errhandler_free(&raw mut handler) };
    Some(found)
}

fn handler_of_comm(comm: Comm) -> Option<Errhandler> {
    // SAFETY: the communicator is a valid handle; the call writes a handle.
    handler_of(|handler| unsafe { host_Comm_get_errhandler(comm, handler) })
}

/// Whether an error handler ends the program.
fn ends_program(handler: Option<Errhandler>) -> bool {
    handler.is_some_and(|it| it == constants().errors_are_fatal || it == constants().errors_abort)
}

/// Whether the handler of `MPI_COMM_WORLD` gets the errors of an object with this handler. MPICH
/// returns `MPI_ERRORS_ARE_FATAL` for a window or communicator whose handler the program has not
/// set, and passes errors of calls on it to the handler of `MPI_COMM_WORLD`; functions that call
/// the object's handler end the program.
fn passes_to_world(handler: Option<Errhandler>) -> bool {
    let is_unset = !cfg!(open_mpi) && handler == Some(constants().errors_are_fatal);
    is_unset && !ends_program(handler_of_comm(constants().world))
}

/// Success, or the code after the window's error handler was called.
#[inline]
pub(crate) fn coded(win: Win, outcome: Outcome<()>) -> c_int {
    match outcome {
        Ok(()) => SUCCESS,
        Err(failure) => failure.raise(win),
    }
}
