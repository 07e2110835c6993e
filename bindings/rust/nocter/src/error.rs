//! What a call says when it has no value to give.

use crate::ffi;
use nocter_sys as sys;
use std::fmt;

/// What every call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has no value to give.
///
/// The first group are outcomes: the call worked, and this is what it found. The second are errors: the call changed
/// nothing, and the text says why. Match on what you can act upon and pass the rest on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to claim, or every worker slot is in use.
    Empty,
    /// It has not finished yet, and the call was not to wait.
    Pending,
    /// The service is at its bound: it kept nothing.
    Saturated,
    /// The owner of the job went away without a result.
    WorkerLost,
    /// The deadline of the wait passed.
    Timeout,
    /// The interrupt of the wait was raised, or a signal handler ran.
    Interrupted,
    /// Closed or shut down: nothing further will come.
    Closed,
    /// Somebody was first.
    Exists,
    /// The lock is held by another owner.
    Held,
    /// The task was cancelled, and this gave way to that.
    Cancelled,

    /// An argument is out of its range.
    Argument(String),
    /// An identity or epoch of another service.
    Foreign(String),
    /// No such identity here, or it was consumed already.
    Unknown(String),
    /// The right object at the wrong moment.
    State(String),
    /// A lifecycle call from inside a notifier of the same service.
    Reentrant(String),
    /// Memory, threads or descriptors are exhausted.
    Memory(String),
    /// Larger than a limit.
    Limit(String),
    /// Not UTF-8 JSON.
    Json(String),
    /// The database refused.
    Store(String),
    /// The database cannot be reached now; the call may be repeated.
    Unavailable(String),
    /// This run, or this lock, is another's by now.
    LeaseLost(String),
    /// The database is of a newer nocter, or not nocter's.
    Version(String),
    /// The handle was made in the parent of this process.
    Forked(String),
    /// This wait could only be ended by the thread that makes it.
    WouldDeadlock(String),
    /// A defect of nocter.
    Internal(String),
    /// A status this version of the crate has no name for.
    Other {
        /// The number.
        status: i32,
        /// What the library says about it; empty for an outcome.
        message: String,
    },
}

impl Error {
    /// The status of the C interface.
    pub fn status(&self) -> i32 {
        match self {
            Error::Empty => sys::NOCTER_EMPTY,
            Error::Pending => sys::NOCTER_PENDING,
            Error::Saturated => sys::NOCTER_SATURATED,
            Error::WorkerLost => sys::NOCTER_WORKER_LOST,
            Error::Timeout => sys::NOCTER_TIMEOUT,
            Error::Interrupted => sys::NOCTER_INTERRUPTED,
            Error::Closed => sys::NOCTER_CLOSED,
            Error::Exists => sys::NOCTER_EXISTS,
            Error::Held => sys::NOCTER_HELD,
            Error::Cancelled => sys::NOCTER_CANCELLED,
            Error::Argument(_) => sys::NOCTER_E_ARGUMENT,
            Error::Foreign(_) => sys::NOCTER_E_FOREIGN,
            Error::Unknown(_) => sys::NOCTER_E_UNKNOWN,
            Error::State(_) => sys::NOCTER_E_STATE,
            Error::Reentrant(_) => sys::NOCTER_E_REENTRANT,
            Error::Memory(_) => sys::NOCTER_E_MEMORY,
            Error::Limit(_) => sys::NOCTER_E_LIMIT,
            Error::Json(_) => sys::NOCTER_E_JSON,
            Error::Store(_) => sys::NOCTER_E_STORE,
            Error::Unavailable(_) => sys::NOCTER_E_UNAVAILABLE,
            Error::LeaseLost(_) => sys::NOCTER_E_LEASE_LOST,
            Error::Version(_) => sys::NOCTER_E_VERSION,
            Error::Forked(_) => sys::NOCTER_E_FORKED,
            Error::WouldDeadlock(_) => sys::NOCTER_E_WOULD_DEADLOCK,
            Error::Internal(_) => sys::NOCTER_E_INTERNAL,
            Error::Other { status, .. } => *status,
        }
    }

    /// The name of the status in the C interface, for example `NOCTER_TIMEOUT`.
    pub fn name(&self) -> &'static str {
        ffi::base::status_name(self.status())
    }

    /// What the library said about an error; empty for an outcome.
    pub fn message(&self) -> &str {
        match self {
            Error::Argument(message)
            | Error::Foreign(message)
            | Error::Unknown(message)
            | Error::State(message)
            | Error::Reentrant(message)
            | Error::Memory(message)
            | Error::Limit(message)
            | Error::Json(message)
            | Error::Store(message)
            | Error::Unavailable(message)
            | Error::LeaseLost(message)
            | Error::Version(message)
            | Error::Forked(message)
            | Error::WouldDeadlock(message)
            | Error::Internal(message)
            | Error::Other { message, .. } => message,
            _ => "",
        }
    }

    /// Whether the call worked, and this is only what it found.
    pub fn is_outcome(&self) -> bool {
        self.status() > 0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Error::Empty => "nothing can be claimed now",
            Error::Pending => "not finished yet",
            Error::Saturated => "the service is at its bound",
            Error::WorkerLost => "the worker was lost",
            Error::Timeout => "the deadline passed",
            Error::Interrupted => "interrupted",
            Error::Closed => "closed",
            Error::Exists => "somebody was first",
            Error::Held => "the lock is held by another owner",
            Error::Cancelled => "the task was cancelled",
            _ if self.message().is_empty() => self.name(),
            _ => self.message(),
        };
        formatter.write_str(said)
    }
}

impl std::error::Error for Error {}

/// Turns a status into a result; the one place where that is done. The message is read at once, since the next call on
/// this thread may overwrite it.
pub(crate) fn check(status: sys::nocter_status) -> Result<()> {
    let message = ffi::base::error_message;
    Err(match status {
        sys::NOCTER_OK => return Ok(()),
        sys::NOCTER_EMPTY => Error::Empty,
        sys::NOCTER_PENDING => Error::Pending,
        sys::NOCTER_SATURATED => Error::Saturated,
        sys::NOCTER_WORKER_LOST => Error::WorkerLost,
        sys::NOCTER_TIMEOUT => Error::Timeout,
        sys::NOCTER_INTERRUPTED => Error::Interrupted,
        sys::NOCTER_CLOSED => Error::Closed,
        sys::NOCTER_EXISTS => Error::Exists,
        sys::NOCTER_HELD => Error::Held,
        sys::NOCTER_CANCELLED => Error::Cancelled,
        sys::NOCTER_E_ARGUMENT => Error::Argument(message()),
        sys::NOCTER_E_FOREIGN => Error::Foreign(message()),
        sys::NOCTER_E_UNKNOWN => Error::Unknown(message()),
        sys::NOCTER_E_STATE => Error::State(message()),
        sys::NOCTER_E_REENTRANT => Error::Reentrant(message()),
        sys::NOCTER_E_MEMORY => Error::Memory(message()),
        sys::NOCTER_E_LIMIT => Error::Limit(message()),
        sys::NOCTER_E_JSON => Error::Json(message()),
        sys::NOCTER_E_STORE => Error::Store(message()),
        sys::NOCTER_E_UNAVAILABLE => Error::Unavailable(message()),
        sys::NOCTER_E_LEASE_LOST => Error::LeaseLost(message()),
        sys::NOCTER_E_VERSION => Error::Version(message()),
        sys::NOCTER_E_FORKED => Error::Forked(message()),
        sys::NOCTER_E_WOULD_DEADLOCK => Error::WouldDeadlock(message()),
        sys::NOCTER_E_INTERNAL => Error::Internal(message()),
        status if status > 0 => Error::Other { status, message: String::new() },
        status => Error::Other { status, message: message() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bnd_04_every_status_comes_back_as_itself() {
        for status in -20..=20 {
            match check(status) {
                Ok(()) => assert_eq!(status, sys::NOCTER_OK),
                Err(error) => {
                    assert_eq!(error.status(), status);
                    assert_eq!(error.is_outcome(), status > 0);
                    assert!(!error.to_string().is_empty(), "{error:?}");
                    assert!(error.name().starts_with("NOCTER_"));
                }
            }
        }
        assert_eq!(check(sys::NOCTER_TIMEOUT), Err(Error::Timeout));
        assert_eq!(Error::Timeout.name(), "NOCTER_TIMEOUT");
    }
}
