//! One round of a task, and the ways to end it.

use super::records::{milliseconds, numbered, unix_ms};
use super::{Message, Record, Submission, Submitted, SubmittedMany, TaskId, Until};
use crate::error::{Error, Result};
use crate::ffi::runs as raw;
use crate::panics::{Caught, Panics};
use crate::{InterruptRef, NotEnded};
use nocter_sys as sys;
use std::collections::HashMap;
use std::fmt;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::{Duration, SystemTime};

numbered! {
    /// Why a run's interrupt was raised.
    Reason {
        /// It was not.
        None = NOCTER_REASON_NONE,
        /// The task was cancelled.
        Cancel = NOCTER_REASON_CANCEL,
        /// Others may run the task now.
        LeaseLost = NOCTER_REASON_LEASE_LOST,
        /// The workers are being stopped, or the store closed: hand back, or be quick.
        Stop = NOCTER_REASON_STOP,
    }
}

/// Why a round failed, and what follows: another try by the task's policy, unless it says otherwise.
///
/// Every error can be made one of, so that `?` works in handlers that return a `Result` with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a failure fails nothing until a handler returns it"]
pub struct Failure {
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) detail: String,
    pub(crate) retry: i32,
    pub(crate) retry_after_ms: i64,
}

impl Failure {
    /// What sort of failure, for programs, and what happened, for people.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Failure {
        let retry = sys::NOCTER_RETRY_BY_POLICY as i32;
        Failure { kind: kind.into(), message: message.into(), detail: String::new(), retry, retry_after_ms: 0 }
    }

    /// More of it: a trace, say.
    pub fn detail(mut self, detail: impl Into<String>) -> Failure {
        self.detail = detail.into();
        self
    }

    /// No further try: the task has failed.
    pub fn never_retry(mut self) -> Failure {
        self.retry = sys::NOCTER_RETRY_NEVER as i32;
        self
    }

    /// The next try comes after that time.
    pub fn retry_after(mut self, delay: Duration) -> Failure {
        self.retry = sys::NOCTER_RETRY_AFTER as i32;
        self.retry_after_ms = milliseconds(delay);
        self
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let name = std::any::type_name::<E>().split('<').next().unwrap_or_default();
        Failure::new(name.rsplit("::").next().unwrap_or(name), error.to_string())
    }
}

/// What a task waits for. A message always wakes it, whatever it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a suspension suspends nothing until a handler returns it"]
pub struct Suspension {
    pub(crate) until: Until,
    pub(crate) ids: Vec<TaskId>,
    pub(crate) need: u32,
    pub(crate) on_failure: bool,
    pub(crate) wake_at_ms: i64,
}

impl Suspension {
    fn until(until: Until, ids: Vec<TaskId>) -> Suspension {
        Suspension { until, ids, need: 0, on_failure: false, wake_at_ms: 0 }
    }

    /// Until all of its children have ended.
    pub fn children() -> Suspension {
        Suspension::until(Until::Children, Vec::new())
    }

    /// Until all of these have ended.
    pub fn tasks(ids: impl IntoIterator<Item = TaskId>) -> Suspension {
        Suspension::until(Until::Tasks, ids.into_iter().collect())
    }

    /// Until a message comes.
    pub fn notified() -> Suspension {
        Suspension::until(Until::Notified, Vec::new())
    }

    /// So many of them are enough; 0: all.
    pub fn need(mut self, tasks: u32) -> Suspension {
        self.need = tasks;
        self
    }

    /// The first of them that fails or is cancelled wakes it too.
    pub fn or_failure(mut self) -> Suspension {
        self.on_failure = true;
        self
    }

    /// It wakes then, whatever has happened.
    pub fn or_at(mut self, then: SystemTime) -> Suspension {
        self.wake_at_ms = unix_ms(then);
        self
    }
}

/// How a round ends. A handler gives one, or what one can be made of: a string is the result, as JSON; nothing is a
/// result of {}; a [`Suspension`] suspends; a [`Failure`], or a result that is one, fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task has completed, with a result in JSON; empty means {}.
    Done(String),
    /// This try has failed.
    Fail(Failure),
    /// The round ends, the task does not.
    Suspend(Suspension),
    /// The task is given back as if it had not been claimed.
    HandBack,
}

impl From<()> for Outcome {
    fn from(_: ()) -> Outcome {
        Outcome::Done(String::new())
    }
}

impl From<String> for Outcome {
    fn from(json: String) -> Outcome {
        Outcome::Done(json)
    }
}

impl From<&str> for Outcome {
    fn from(json: &str) -> Outcome {
        Outcome::Done(json.to_string())
    }
}

impl From<Suspension> for Outcome {
    fn from(suspension: Suspension) -> Outcome {
        Outcome::Suspend(suspension)
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Outcome {
        Outcome::Fail(failure)
    }
}

impl<T: Into<Outcome>> From<std::result::Result<T, Failure>> for Outcome {
    fn from(result: std::result::Result<T, Failure>) -> Outcome {
        result.map_or_else(Outcome::Fail, Into::into)
    }
}

/// What became of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was not kept is lost"]
pub enum Ended {
    /// It was kept.
    AsSaid,
    /// A cancel came first: the task is cancelled, and what was said is kept readable.
    Cancelled,
    /// Somebody else has the task: nothing changed.
    LeaseLost,
}

/// A guard: one round of a task, the one right to work on it and the duty to end it with an outcome.
///
/// What it writes is refused with [`Error::LeaseLost`] once somebody else has its task. Dropping it is a lost worker,
/// which counts as a failed try. It may move to another thread, and is not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::tasks::Run>();
/// ```
#[must_use = "dropping a run says that its worker was lost"]
pub struct Run {
    raw: raw::Run,
    task: Box<Record>,
}

impl Run {
    pub(crate) fn of(raw: raw::Run) -> Option<Run> {
        raw.record().map(|task| Run { raw, task: Box::new(task) })
    }

    /// The record as it was claimed.
    pub fn task(&self) -> &Record {
        &self.task
    }

    /// What the task was submitted with, JSON.
    pub fn payload(&self) -> &str {
        &self.task.payload
    }

    /// Whether the task has suspended before: false in its first round, on every try of that.
    pub fn resumed(&self) -> bool {
        self.task.resumed
    }

    /// The messages handed to this round, oldest first.
    pub fn messages(&self) -> Result<Vec<Message>> {
        self.raw.messages()
    }

    /// Grows with every claim of the task: for what the run changes outside, so that it can refuse older ones.
    pub fn fence(&self) -> u64 {
        self.task.fence
    }

    /// Whether the task was cancelled meanwhile.
    pub fn cancelled(&self) -> bool {
        self.raw.cancel_requested()
    }

    /// Raised on a cancel, a lost lease, a stop: to carry in the waits that the run makes.
    pub fn interrupt(&self) -> InterruptRef<'_> {
        InterruptRef(self.raw.interrupt())
    }

    /// Why it was raised.
    pub fn reason(&self) -> Reason {
        self.raw.interrupt_reason().into()
    }

    /// Writes the task's state, JSON, which every reader sees at once and every later round is given.
    pub fn update_state(&self, json: &str) -> Result<()> {
        self.raw.update_state(json)
    }

    /// Renews the lease, and asks whether the task is still this run's. Only needed with a store opened by hand.
    pub fn heartbeat(&self) -> Result<()> {
        self.raw.heartbeat()
    }

    /// The task's children as they are now, ended ones too.
    pub fn children(&self) -> Result<Vec<Record>> {
        self.raw.children()
    }

    /// Makes a child.
    pub fn submit_child(&self, submission: impl Into<Submission>) -> Result<Submitted> {
        self.raw.submit(&[submission.into()]).map(SubmittedMany::only)
    }

    /// Makes children, all or none.
    pub fn submit_children(&self, submissions: &[Submission]) -> Result<SubmittedMany> {
        self.raw.submit(submissions).map(SubmittedMany::of)
    }

    /// Sends a message, JSON, from this task.
    pub fn notify(&self, to: TaskId, json: &str) -> Result<()> {
        self.raw.notify(to, json)
    }

    /// Sends a message, JSON, to this task's parent.
    pub fn notify_parent(&self, json: &str) -> Result<()> {
        self.raw.notify_parent(json)
    }

    /// What `make` gave the first time, JSON: remembered for all later rounds and tries, in which it is not called.
    pub fn step<E: From<Error>>(
        &self,
        name: &str,
        make: impl FnOnce() -> std::result::Result<String, E>,
    ) -> std::result::Result<String, E> {
        if let Some(known) = self.step_get(name)? {
            return Ok(known);
        }
        let value = make()?;
        match self.step_put(name, &value) {
            Err(Error::Exists) => Ok(self.step_get(name)?.unwrap_or(value)),
            said => Ok(said.map(|()| value)?),
        }
    }

    /// A remembered step; None: no round has put it.
    pub fn step_get(&self, name: &str) -> Result<Option<String>> {
        self.raw.step_get(name)
    }

    /// Remembers a step; [`Error::Exists`] when there was one, which stays.
    pub fn step_put(&self, name: &str, json: &str) -> Result<()> {
        self.raw.step_put(name, json)
    }

    /// Writes a value that the task's tree shares.
    pub fn shared_put(&self, key: &str, json: &str) -> Result<()> {
        self.raw.shared_put(key, json)
    }

    /// Writes it if there is none; else Some of what there is.
    pub fn shared_put_if_absent(&self, key: &str, json: &str) -> Result<Option<String>> {
        self.raw.shared_put_if_absent(key, json)
    }

    /// Reads a value that the task's tree shares; None: there is none.
    pub fn shared_get(&self, key: &str) -> Result<Option<String>> {
        self.raw.shared_get(key)
    }

    /// From here on children, messages, state, steps and shared values commit with the outcome, or not at all.
    pub fn atomic(&self) -> Result<()> {
        self.raw.atomic()
    }

    /// Ends the round, and says whether a cancel or another owner came first. On an error nothing has changed, and the
    /// run comes back.
    pub fn end(self, outcome: impl Into<Outcome>) -> std::result::Result<Ended, NotEnded<Run>> {
        let Run { raw, task } = self;
        raw.end(&outcome.into()).map_err(|(error, raw)| NotEnded { guard: Run { raw, task }, error })
    }

    /// The task has completed, with a result in JSON. Like [`end`](Run::end).
    pub fn done(self, json: impl Into<String>) -> std::result::Result<Ended, NotEnded<Run>> {
        self.end(Outcome::Done(json.into()))
    }

    /// The try has failed. Like [`end`](Run::end).
    pub fn fail(self, failure: Failure) -> std::result::Result<Ended, NotEnded<Run>> {
        self.end(failure)
    }

    /// The round ends, the task does not. Like [`end`](Run::end).
    pub fn suspend(self, suspension: Suspension) -> std::result::Result<Ended, NotEnded<Run>> {
        self.end(suspension)
    }

    /// Gives the task back as if it had not been claimed. Like [`end`](Run::end).
    pub fn hand_back(self) -> std::result::Result<Ended, NotEnded<Run>> {
        self.end(Outcome::HandBack)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { id, task_type, attempt, .. } = &*self.task;
        formatter.debug_struct("Run").field("id", id).field("type", task_type).field("attempt", attempt).finish()
    }
}

type Handler = Box<dyn Fn(&Run) -> Outcome + Send + Sync>;

/// Who works on tasks of which type.
#[derive(Default)]
#[must_use = "handlers do nothing until a serve call has them"]
pub struct Handlers {
    by_type: HashMap<String, Handler>,
}

impl Handlers {
    /// None yet.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Works on tasks of a type with a closure. A panic in it is a failed try.
    pub fn on<F, R>(mut self, task_type: impl Into<String>, run: F) -> Handlers
    where
        F: Fn(&Run) -> R + Send + Sync + 'static,
        R: Into<Outcome>,
    {
        self.by_type.insert(task_type.into(), Box::new(move |given| run(given).into()));
        self
    }

    pub(crate) fn types(&self) -> Vec<String> {
        self.by_type.keys().cloned().collect()
    }

    fn attempt(&self, run: &Run) -> std::result::Result<Outcome, Caught> {
        catch_unwind(AssertUnwindSafe(|| match self.by_type.get(&run.task.task_type) {
            Some(handler) => handler(run),
            None => Failure::new("NoHandler", format!("nobody works on {:?} here", run.task.task_type)).into(),
        }))
    }

    /// Makes a round that was claimed by hand, and ends it with what the closure of its type gives. Like
    /// [`Run::end`]. A panic is raised again after the try has failed.
    pub fn run(&self, run: Run) -> std::result::Result<Ended, NotEnded<Run>> {
        match self.attempt(&run) {
            Ok(outcome) => run.end(outcome),
            Err(caught) => {
                fail(run, "Panic", &words_of(&caught));
                resume_unwind(caught)
            }
        }
    }

    /// What a thread of the library does with a run: an outcome that was refused is a failed try. A panic is kept before
    /// the try has failed, so that who is told of its end finds it.
    pub(crate) fn serve(&self, run: raw::Run, panics: &Panics) {
        let run = match Run::of(run) {
            Some(run) => run,
            None => return,
        };
        match self.attempt(&run) {
            Ok(outcome) => {
                if let Err(NotEnded { guard, error }) = run.end(outcome) {
                    fail(guard, error.name(), &error.to_string());
                }
            }
            Err(caught) => {
                let words = words_of(&caught);
                panics.keep(caught);
                fail(run, "Panic", &words);
            }
        }
    }
}

/// Should that not work either, the run is dropped, which is a failed try too.
fn fail(run: Run, kind: &str, message: &str) {
    drop(run.fail(Failure::new(kind, message)));
}

fn words_of(caught: &Caught) -> String {
    let words = caught.downcast_ref::<&str>().map(ToString::to_string);
    words.or_else(|| caught.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl fmt::Debug for Handlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.by_type.keys()).finish()
    }
}
