//! Blocking operations: identities, and what calls find.

use crate::error::Error;
use crate::ffi::blocking;
use nocter_sys as sys;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Which job, of which service. Never issued twice.
#[derive(Clone, Copy)]
pub struct JobId(pub(crate) sys::nocter_job_id);

impl PartialEq for JobId {
    fn eq(&self, other: &JobId) -> bool {
        blocking::job_id_equal(self.0, other.0)
    }
}

impl Eq for JobId {}

impl Hash for JobId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal identities have the same place in the same order; no more is assumed of what they are made of.
        self.0.sequence.hash(state);
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JobId({:x}:{})", self.0.service, self.0.sequence)
    }
}

/// A service's position in time: it advances whenever an occupied slot became free. Only equality has a meaning.
#[derive(Clone, Copy)]
pub struct Epoch(pub(crate) sys::nocter_epoch);

impl PartialEq for Epoch {
    fn eq(&self, other: &Epoch) -> bool {
        blocking::epoch_equal(self.0, other.0)
    }
}

impl Eq for Epoch {}

impl fmt::Debug for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Epoch({:x}:{})", self.0.service, self.0.sequence)
    }
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// Accepted and not yet claimed.
    Queued,
    /// Claimed.
    Running,
    /// Ended; waits to be taken.
    Completed,
}

impl JobState {
    pub(crate) fn of(state: sys::nocter_job_state) -> JobState {
        match state as sys::nocter_job_state_code {
            sys::NOCTER_JOB_QUEUED => JobState::Queued,
            sys::NOCTER_JOB_RUNNING => JobState::Running,
            sys::NOCTER_JOB_COMPLETED => JobState::Completed,
            _ => unreachable!("no job state: {state}"),
        }
    }
}

/// A job that was not accepted, with its input.
#[non_exhaustive]
#[must_use = "the input is in it"]
pub enum Refused<I> {
    /// The service is at its bound.
    Saturated {
        /// The very input that was passed.
        input: I,
        /// The capacity epoch of the same moment: wait for a later one and try again.
        epoch: crate::Epoch,
    },
    /// The service was shut down.
    Closed {
        /// The very input that was passed.
        input: I,
    },
    /// The call failed.
    Failed {
        /// The very input that was passed.
        input: I,
        /// Why.
        error: Error,
    },
}

impl<I> Refused<I> {
    /// The input back.
    pub fn into_input(self) -> I {
        match self {
            Refused::Saturated { input, .. } | Refused::Closed { input } | Refused::Failed { input, .. } => input,
        }
    }

    /// Why, as an error.
    pub fn error(&self) -> Error {
        match self {
            Refused::Saturated { .. } => Error::Saturated,
            Refused::Closed { .. } => Error::Closed,
            Refused::Failed { error, .. } => error.clone(),
        }
    }
}

impl<I> From<Refused<I>> for Error {
    /// Drops the input.
    fn from(refused: Refused<I>) -> Error {
        refused.error()
    }
}

impl<I> fmt::Debug for Refused<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Saturated { epoch, .. } => {
                formatter.debug_struct("Saturated").field("epoch", epoch).finish_non_exhaustive()
            }
            Refused::Closed { .. } => formatter.debug_struct("Closed").finish_non_exhaustive(),
            Refused::Failed { error, .. } => {
                formatter.debug_struct("Failed").field("error", error).finish_non_exhaustive()
            }
        }
    }
}

impl<I> fmt::Display for Refused<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(formatter)
    }
}

impl<I> std::error::Error for Refused<I> {}

/// What a cancelled job was.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what the job held is in it"]
pub enum Cancelled<I, O> {
    /// Not yet claimed: here is its input.
    Queued(I),
    /// Running: it has been told, and ends by itself.
    Running,
    /// Ended: here is its output; None when its worker was lost.
    Completed(Option<O>),
}

/// A value that a shutdown hands back.
#[derive(Debug, PartialEq, Eq)]
pub enum Reclaimed<I, O> {
    /// Of a job that was not yet claimed.
    Input(I),
    /// Of a job that had ended.
    Output(O),
}

/// A snapshot of a service, taken in one moment, and its totals since creation.
///
/// Every accepted job is in exactly one place: `accepted` is the sum of `taken`, `cancelled_queued`,
/// `cancelled_completed`, `shutdown_queued`, `shutdown_completed`, `abandoned_retired` and `admitted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingCounts {
    /// Whether jobs are accepted: until the shutdown.
    pub accepting: bool,
    /// Jobs not yet claimed.
    pub queued: u32,
    /// Jobs claimed, not yet ended, still waited for.
    pub running: u32,
    /// Jobs ended and not yet taken.
    pub completed: u32,
    /// Jobs claimed, not yet ended, nobody waits for.
    pub abandoned: u32,
    /// The sum of the four.
    pub admitted: u32,
    /// The bound of `admitted`.
    pub maximum_jobs: u32,
    /// The bound of `running` and `abandoned` together.
    pub workers: u32,
    /// Slots freed so far.
    pub epoch: u64,
    /// Jobs accepted.
    pub accepted: u64,
    /// Jobs refused at the bound.
    pub saturated: u64,
    /// Jobs whose output, or loss, was taken.
    pub taken: u64,
    /// Jobs cancelled while queued.
    pub cancelled_queued: u64,
    /// Jobs cancelled when completed.
    pub cancelled_completed: u64,
    /// Jobs that shutdown found queued.
    pub shutdown_queued: u64,
    /// Jobs that shutdown found completed.
    pub shutdown_completed: u64,
    /// Abandoned jobs whose guard has ended.
    pub abandoned_retired: u64,
    /// Guards that ended with an output.
    pub completed_ok: u64,
    /// Guards that ended without one.
    pub completed_lost: u64,
    /// C++ exceptions that the library swallowed.
    pub exceptions: u64,
    /// How long the oldest queued job has waited.
    pub oldest_queued: Duration,
    /// How long the longest running job has run.
    pub longest_running: Duration,
}

impl BlockingCounts {
    pub(crate) fn of(raw: &sys::nocter_blocking_counts) -> BlockingCounts {
        let age = |nanoseconds: i64| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        BlockingCounts {
            accepting: raw.accepting != 0,
            queued: raw.queued,
            running: raw.running,
            completed: raw.completed,
            abandoned: raw.abandoned,
            admitted: raw.admitted,
            maximum_jobs: raw.maximum_jobs,
            workers: raw.workers,
            epoch: raw.epoch,
            accepted: raw.accepted,
            saturated: raw.saturated,
            taken: raw.taken,
            cancelled_queued: raw.cancelled_queued,
            cancelled_completed: raw.cancelled_completed,
            shutdown_queued: raw.shutdown_queued,
            shutdown_completed: raw.shutdown_completed,
            abandoned_retired: raw.abandoned_retired,
            completed_ok: raw.completed_ok,
            completed_lost: raw.completed_lost,
            exceptions: raw.exceptions,
            oldest_queued: age(raw.oldest_queued_ns),
            longest_running: age(raw.longest_running_ns),
        }
    }
}
