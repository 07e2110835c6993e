//! What several tasks or processes agree on: values, leased locks, and the log of what happened.

use super::records::{milliseconds, numbered};
use super::{Status, TaskId, Tasks};
use crate::error::Result;
use crate::ffi::shared as raw;
use nocter_sys as sys;
use std::fmt;
use std::time::Duration;

/// The values of one scope: those of a tree, by the identity of its root, or those of any other name.
#[derive(Clone, Debug)]
pub struct Shared<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) scope: String,
}

impl Shared<'_> {
    /// Writes a value, JSON, if there is none; else Some of what there is. Of all who try, anywhere, one succeeds.
    pub fn put_if_absent(&self, key: &str, json: &str) -> Result<Option<String>> {
        self.tasks.panics.around(|| raw::put_if_absent(&self.tasks.store, &self.scope, key, json))
    }

    /// Writes a value, whether there was one or not.
    pub fn put(&self, key: &str, json: &str) -> Result<()> {
        self.tasks.panics.around(|| raw::put(&self.tasks.store, &self.scope, key, json))
    }

    /// Reads a value; None: there is none.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        self.tasks.panics.around(|| raw::get(&self.tasks.store, &self.scope, key))
    }

    /// Reads all values, by key.
    pub fn all(&self) -> Result<Vec<(String, String)>> {
        self.tasks.panics.around(|| raw::all(&self.tasks.store, &self.scope))
    }

    /// Removes all values.
    pub fn clear(&self) -> Result<()> {
        self.tasks.panics.around(|| raw::clear(&self.tasks.store, &self.scope))
    }
}

/// A guard: a lock that is held until it is released or dropped, or its lease ends.
#[must_use = "dropping a lock releases it"]
pub struct Lock(pub(crate) raw::Lock);

impl Lock {
    /// Greater than that of every acquisition of the name before, for ever: hand it to what the lock guards.
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// Holds it for so long from now; [`Error::LeaseLost`](crate::Error::LeaseLost) when its lease had ended.
    pub fn renew(&self, lease: Duration) -> Result<()> {
        self.0.renew(milliseconds(lease))
    }

    /// Gives it up; [`Error::LeaseLost`](crate::Error::LeaseLost) when its lease had ended before.
    pub fn release(self) -> Result<()> {
        self.0.release()
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lock").field("fence", &self.fence()).finish()
    }
}

numbered! {
    /// What happened to a task.
    EventKind {
        /// It was submitted.
        Submitted = NOCTER_EVENT_SUBMITTED,
        /// A round was claimed.
        Started = NOCTER_EVENT_STARTED,
        /// Its worker wrote its state.
        State = NOCTER_EVENT_STATE,
        /// It was parked.
        Suspended = NOCTER_EVENT_SUSPENDED,
        /// It was queued again, for what it waited for, a message or a time.
        Woken = NOCTER_EVENT_WOKEN,
        /// A message was sent to it.
        Message = NOCTER_EVENT_MESSAGE,
        /// A try failed, and another follows.
        Retried = NOCTER_EVENT_RETRIED,
        /// Its worker was lost.
        Rescued = NOCTER_EVENT_RESCUED,
        /// Its worker stopped in an orderly way.
        HandedBack = NOCTER_EVENT_HANDED_BACK,
        /// It runs, and was asked to end.
        CancelRequested = NOCTER_EVENT_CANCEL_REQUESTED,
        /// It ended; its status says how.
        Ended = NOCTER_EVENT_ENDED,
    }
}

/// One event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its place: each one is one more than the one before.
    pub sequence: u64,
    /// When: Unix time in milliseconds.
    pub at_ms: i64,
    /// The task.
    pub task: TaskId,
    /// What happened.
    pub kind: EventKind,
    /// Where the task stood after it.
    pub status: Status,
    /// Which try.
    pub attempt: u32,
    /// The task's type.
    pub task_type: String,
    /// JSON: the new state, or what it ended with; else empty.
    pub data: String,
}
