//! Durable tasks: submitted once, run by whoever serves their type, suspended without holding a thread, and still there
//! after the process was killed.
//!
//! ```
//! use nocter::tasks::{Handlers, Submission, Suspension, Outcome, Failure, Tasks, TasksOptions};
//! use nocter::{Wait, WorkersOptions};
//!
//! let tasks = Tasks::open("memory:", TasksOptions::new())?; // or "sqlite:work.db"
//! let handlers = Handlers::new()
//!     .on("sum", |run| -> Result<Outcome, Failure> {
//!         if !run.resumed() {
//!             run.submit_child(Submission::new("number").payload("20"))?;
//!             run.submit_child(Submission::new("number").payload("22"))?;
//!             return Ok(Suspension::children().into());
//!         }
//!         let results: Result<Vec<i32>, _> = run.children()?.iter().map(|child| child.result.parse()).collect();
//!         Ok(results?.iter().sum::<i32>().to_string().into())
//!     })
//!     .on("number", |run| run.payload().to_string());
//! let workers = tasks.serve(handlers, 2, &WorkersOptions::new())?;
//! let id = tasks.submit("sum")?.id();
//! assert_eq!(tasks.wait(id, &Wait::forever())?.result, "42");
//! workers.stop(&Wait::forever())?;
//! # Ok::<(), nocter::Error>(())
//! ```
//!
//! A task is delivered at least once: a round whose worker died is made again, on whatever machine and in whatever
//! language its type is served. Payloads, results, states and messages are JSON, as text, kept byte for byte.

mod future;
mod records;
mod run;
mod shared;

pub use future::{AsyncTasks, Claim, UntilEnded};
pub use records::{
    Counts, Failed, Filter, KeyScope, Message, Record, Status, Submission, Submitted, SubmittedMany, TaskId, Until,
    Wake,
};
pub use run::{Ended, Failure, Handlers, Outcome, Reason, Run, Suspension};
pub use shared::{Event, EventKind, Lock, Shared};

use crate::error::Result;
use crate::ffi::{runs as raw_runs, shared as raw_shared, tasks as raw};
use crate::panics::Panics;
use crate::{Wait, Workers, WorkersOptions};
use nocter_sys as sys;
use records::{milliseconds, unix_ms};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that stands still until it is told to go on: for tests of delays, leases and retention.
pub struct Clock {
    handle: raw::Clock,
}

impl Clock {
    /// One that shows this time.
    pub fn new(now: SystemTime) -> Result<Clock> {
        Ok(Clock { handle: raw::clock_create(unix_ms(now))? })
    }

    /// What it shows.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(raw::clock_now_ms(&self.handle)).unwrap_or(0))
    }

    /// Moves it forward. Stores that use it look at once at what has come due.
    pub fn advance(&self, by: Duration) {
        raw::clock_advance(&self.handle, milliseconds(by));
    }

    /// Moves it back.
    pub fn set_back(&self, by: Duration) {
        raw::clock_advance(&self.handle, -milliseconds(by));
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Clock").field("now", &self.now()).finish()
    }
}

/// How serious a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something works worse than it should, and goes on.
    Warning,
    /// Worth knowing: opened, rescued, purged.
    Information,
}

type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// How a store is opened.
#[derive(Default)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct TasksOptions<'a> {
    numbers: raw::Numbers,
    clock: Option<&'a Clock>,
    log: Option<Log>,
}

/// A setter for each number.
macro_rules! setters {
    ($($(#[$about:meta])* $name:ident: $kind:ty => $field:ident, $convert:expr;)*) => {
        $($(#[$about])*
        pub fn $name(mut self, value: $kind) -> Self {
            self.numbers.$field = $convert(value);
            self
        })*
    };
}

fn short(duration: Duration) -> u32 {
    u32::try_from(milliseconds(duration)).unwrap_or(u32::MAX)
}

impl<'a> TasksOptions<'a> {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// What people call this process; without it the host's name and the process id.
        node: &str => node, str::to_string;
        /// How long the store waits for a process that gives no sign before others run its tasks; 15 seconds.
        lease: Duration => lease_ms, milliseconds;
        /// How long ended trees are kept; without it for ever.
        retention: Duration => retention_ms, milliseconds;
        /// How long events are kept; without it for ever.
        event_retention: Duration => event_retention_ms, milliseconds;
        /// The longest payload, result, state, step or shared value, in bytes; 1 MiB.
        maximum_json: u64 => maximum_json, u64::from;
        /// The longest message, in bytes; 64 KiB.
        maximum_message: u64 => maximum_message, u64::from;
        /// Messages in one mailbox; 10,000.
        maximum_mailbox: u64 => maximum_mailbox, u64::from;
        /// Bytes in one mailbox; 8 MiB.
        maximum_mailbox_bytes: u64 => maximum_mailbox_bytes, u64::from;
        /// Children of one task, and tasks one task may wait for; 1,000,000.
        maximum_children: u64 => maximum_children, u64::from;
        /// Workers that one task may lose before it fails; 3.
        maximum_rescues: u32 => maximum_rescues, u32::from;
        /// Delay after the first failed try; doubled each time, and a random part of it is taken; 200 milliseconds.
        retry_base: Duration => retry_base_ms, short;
        /// The longest such delay; 5 minutes.
        retry_cap: Duration => retry_cap_ms, short;
        /// How often one look at the store stands in for a wake that was lost; 1 second.
        poll: Duration => poll_ms, short;
    }

    fn flag(mut self, flag: u32) -> Self {
        self.numbers.flags |= flag;
        self
    }

    /// Every transition is kept as an event, see [`Tasks::events`].
    pub fn events(self) -> Self {
        self.flag(sys::NOCTER_TASKS_EVENTS)
    }

    /// Commits of SQLite do not wait for the disk: a power cut may undo the last ones; a kill undoes none.
    pub fn normal_sync(self) -> Self {
        self.flag(sys::NOCTER_TASKS_NORMAL_SYNC)
    }

    /// No thread of the library's: [`Tasks::maintain`] and [`Run::heartbeat`] do what it would.
    pub fn by_hand(self) -> Self {
        self.flag(sys::NOCTER_TASKS_BY_HAND)
    }

    /// The whole database is read first, and damage is [`Error::Store`](crate::Error::Store).
    pub fn checked(self) -> Self {
        self.flag(sys::NOCTER_TASKS_CHECK)
    }

    /// The clock of memory and SQLite stores; without it the system's.
    pub fn clock(mut self, clock: &'a Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Told what is worth a line, from any thread.
    pub fn log(mut self, told: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(told));
        self
    }
}

impl fmt::Debug for TasksOptions<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("TasksOptions");
        text.field("numbers", &self.numbers).field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// An open store of tasks.
///
/// Dropping it ends its waits with [`Error::Closed`](crate::Error::Closed), raises the interrupts of runs, and hands
/// back what this process had claimed and did not end; for that it may wait for the disk.
pub struct Tasks {
    store: raw::Store,
    panics: Arc<Panics>,
}

impl Tasks {
    /// Opens a store, and makes or brings up to date what it needs: "memory:", "sqlite:" and the path of a file,
    /// or "postgresql://user@host/database".
    pub fn open(url: &str, options: TasksOptions<'_>) -> Result<Tasks> {
        let TasksOptions { numbers, clock, log } = options;
        let log = log.map(|told| -> raw::Callback {
            Box::new(move |level, line| match level == sys::NOCTER_LOG_WARNING as i32 {
                true => told(LogLevel::Warning, line),
                false => told(LogLevel::Information, line),
            })
        });
        let store = raw::open(url, &numbers, clock.map(|clock| &clock.handle), log)?;
        Ok(Tasks { store, panics: Arc::default() })
    }

    /// Makes a task. When it returns the task is kept as surely as the store keeps anything.
    pub fn submit(&self, submission: impl Into<Submission>) -> Result<Submitted> {
        self.panics.around(|| raw::submit(&self.store, &[submission.into()])).map(SubmittedMany::only)
    }

    /// Makes tasks, all or none; the first may be the parent of a later one. Those whose keys are taken are left out.
    pub fn submit_many(&self, submissions: &[Submission]) -> Result<SubmittedMany> {
        self.panics.around(|| raw::submit(&self.store, submissions)).map(SubmittedMany::of)
    }

    /// The record of a task.
    pub fn get(&self, id: TaskId) -> Result<Record> {
        self.panics.around(|| raw::get(&self.store, id))
    }

    /// The children of a task, ended ones too.
    pub fn children(&self, id: TaskId) -> Result<Vec<Record>> {
        self.panics.around(|| raw::children(&self.store, id))
    }

    /// Tasks in the order in which they were made.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Record>> {
        self.panics.around(|| raw::list(&self.store, filter))
    }

    /// The record of a task once it has ended, wherever it runs.
    pub fn wait(&self, id: TaskId, wait: &Wait<'_>) -> Result<Record> {
        self.panics.around(|| raw::wait(&self.store, id, &wait.raw()))
    }

    /// Counts, seen in one moment.
    pub fn count(&self) -> Result<Counts> {
        self.panics.around(|| raw::count(&self.store))
    }

    /// Sends a message, JSON, from outside: it wakes the task if it is suspended.
    pub fn notify(&self, to: TaskId, json: &str) -> Result<()> {
        self.panics.around(|| raw::notify(&self.store, to, None, json))
    }

    /// The same on behalf of a task.
    pub fn notify_from(&self, sender: TaskId, to: TaskId, json: &str) -> Result<()> {
        self.panics.around(|| raw::notify(&self.store, to, Some(sender), json))
    }

    /// Ends a task and everything below it, and says how many were ended or asked to.
    pub fn cancel(&self, id: TaskId) -> Result<u64> {
        self.panics.around(|| raw::cancel(&self.store, id))
    }

    /// Lets a task that waits out a delay run now; of one that has failed or was cancelled, makes a new root like it.
    pub fn retry(&self, id: TaskId) -> Result<TaskId> {
        self.panics.around(|| raw::retry(&self.store, id))
    }

    /// Does now what the store's thread does by itself.
    pub fn maintain(&self) -> Result<()> {
        self.panics.around(|| raw::maintain(&self.store))
    }

    /// Removes trees of which every member ended longer ago than that, and says how many tasks.
    pub fn purge(&self, older_than: Duration) -> Result<u64> {
        self.panics.around(|| raw::purge(&self.store, milliseconds(older_than)))
    }

    /// The values of a scope: of a tree, by the identity of its root, with which they are purged; or of any name.
    pub fn shared(&self, scope: impl ToString) -> Shared<'_> {
        Shared { tasks: self, scope: scope.to_string() }
    }

    /// Takes a lock, which one owner at a time has. [`Error::Held`](crate::Error::Held): it is another's, and the call
    /// was not to wait.
    pub fn lock(&self, name: &str, lease: Duration, wait: &Wait<'_>) -> Result<Lock> {
        self.panics.around(|| raw_shared::acquire(&self.store, name, milliseconds(lease), &wait.raw())).map(Lock)
    }

    /// Reads the log from a point on: after the sequence of the last event seen, at most so many, at least one.
    pub fn events(&self, after: u64, maximum: usize, wait: &Wait<'_>) -> Result<Vec<Event>> {
        self.panics.around(|| raw_shared::events(&self.store, after, maximum, &wait.raw()))
    }

    /// Claims tasks that are due, by priority, then by age; without types, of every type.
    pub fn claim(&self, types: &[&str], maximum: u32, wait: &Wait<'_>) -> Result<Vec<Run>> {
        let runs = self.panics.around(|| raw_runs::claim(&self.store, types, maximum, &wait.raw()))?;
        Ok(runs.into_iter().filter_map(Run::of).collect())
    }

    /// Works on tasks with threads of the library's own, so many rounds at once.
    pub fn serve(&self, handlers: Handlers, concurrency: u32, options: &WorkersOptions) -> Result<Workers> {
        let (threads, names) = (options.raw()?, handlers.types());
        let types: Vec<&str> = names.iter().map(String::as_str).collect();
        let panics = self.panics.clone();
        let run = move |run| handlers.serve(run, &panics);
        let serve = || raw_runs::serve(&self.store, &types, run, concurrency, &threads, &self.panics);
        let raw = self.panics.around(serve)?;
        Ok(Workers { raw, panics: self.panics.clone() })
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Tasks");
        match raw::count(&self.store) {
            Ok(counts) => text.field("counts", &counts).finish_non_exhaustive(),
            Err(error) => text.field("error", &error).finish(),
        }
    }
}
