//! Blocking operations: one job, seen by those who run it.

use crate::error::{Error, Result};
use crate::ffi::payload::Payload;
use crate::ffi::{blocking, serve};
use crate::panics::Panics;
use crate::{InterruptRef, JobId};
use std::fmt;
use std::sync::Arc;

/// A guard: one claimed job whose input has not been taken out yet.
///
/// Dropping it drops the input and tells the waiter [`Error::WorkerLost`]. It may move to another thread, and is not to
/// be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::RunningJob<u32, u32>>();
/// ```
///
/// ```compile_fail,E0599
/// fn twice(job: nocter::RunningJob<u32, u32>) {
///     let _ = job.clone();
/// }
/// ```
#[must_use = "dropping a claimed job tells its waiter that the worker was lost"]
pub struct RunningJob<I: Send, O: Send> {
    pub(crate) raw: blocking::RunningJob<I, O>,
    pub(crate) panics: Arc<Panics>,
}

impl<I: Send, O: Send> RunningJob<I, O> {
    /// Which job this is.
    pub fn id(&self) -> JobId {
        JobId(blocking::running_job_id(&self.raw))
    }

    /// Parts the input from the one right, and duty, to end the job. Fails only in a forked child.
    pub fn begin(self) -> Result<(I, Completion<O>)> {
        let (input, raw) = blocking::begin(self.raw)?;
        let input = input.into_value().expect("a submitted job has an input");
        Ok((input, Completion { raw, panics: self.panics }))
    }
}

impl<I: Send, O: Send> fmt::Debug for RunningJob<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunningJob").field("id", &self.id()).finish()
    }
}

/// A guard: the one right, and duty, to end a job that has begun.
///
/// Dropping it, also while a panic unwinds, tells the waiter [`Error::WorkerLost`]. It may move to another thread, and is
/// not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::Completion<u32>>();
/// ```
#[must_use = "dropping a completion tells the waiter that the worker was lost"]
pub struct Completion<O: Send> {
    raw: blocking::Completion<O>,
    panics: Arc<Panics>,
}

impl<O: Send> Completion<O> {
    /// Which job this is.
    pub fn id(&self) -> JobId {
        JobId(blocking::completion_id(&self.raw))
    }

    /// Whether nobody waits for this job any more: stop early if you can.
    pub fn abandoned(&self) -> bool {
        blocking::abandoned(&self.raw)
    }

    /// An interrupt that is raised when that happens, to carry in the job's own waits.
    pub fn interrupt(&self) -> InterruptRef<'_> {
        InterruptRef(blocking::completion_interrupt(&self.raw))
    }

    /// Ends the job with an output, which is dropped when nobody waits for it any more.
    ///
    /// Fails only in a notifier of the same service and in a forked child; then both come back.
    pub fn complete(self, output: O) -> std::result::Result<(), NotCompleted<O>> {
        let Completion { raw, panics } = self;
        let mut payload = Payload::new(output);
        match blocking::complete(raw, &mut payload) {
            Ok(()) => {
                panics.raise();
                Ok(())
            }
            Err((error, raw)) => {
                let output = payload.into_value().expect("a refused output stays with its owner");
                Err(NotCompleted { completion: Completion { raw, panics }, output, error })
            }
        }
    }
}

impl<O: Send> fmt::Debug for Completion<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Completion").field("id", &self.id()).field("abandoned", &self.abandoned()).finish()
    }
}

/// A completion that did not happen: everything is as it was.
#[must_use = "dropping it drops the completion, which tells the waiter that the worker was lost"]
pub struct NotCompleted<O: Send> {
    /// The guard, for another try.
    pub completion: Completion<O>,
    /// The output.
    pub output: O,
    /// Why.
    pub error: Error,
}

impl<O: Send> fmt::Debug for NotCompleted<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NotCompleted")
            .field("completion", &self.completion)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<O: Send> fmt::Display for NotCompleted<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl<O: Send> std::error::Error for NotCompleted<O> {}

impl<O: Send> From<NotCompleted<O>> for Error {
    /// Drops the completion and the output: the waiter is told that the worker was lost.
    fn from(not: NotCompleted<O>) -> Error {
        not.error
    }
}

/// A job as a served closure sees it: lent for the length of one call.
pub struct Job<'a>(pub(crate) serve::Lent<'a>);

impl Job<'_> {
    /// Which job this is.
    pub fn id(&self) -> JobId {
        JobId(self.0.id())
    }

    /// Whether nobody waits for this job any more: stop early if you can.
    pub fn abandoned(&self) -> bool {
        self.0.abandoned()
    }

    /// An interrupt that is raised when that happens, to carry in the job's own waits.
    pub fn interrupt(&self) -> InterruptRef<'_> {
        InterruptRef(self.0.interrupt())
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Job").field("id", &self.id()).field("abandoned", &self.abandoned()).finish()
    }
}
