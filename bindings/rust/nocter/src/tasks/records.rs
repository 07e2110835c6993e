//! What durable tasks are made of.

use crate::error::Result;
use crate::ffi::tasks as raw;
use nocter_sys as sys;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds, rounded up, of a point in time; never 0, which means none.
pub(crate) fn unix_ms(then: SystemTime) -> i64 {
    let since = then.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    milliseconds(since).max(1)
}

/// Milliseconds, rounded up.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from((duration.as_nanos() + 999_999) / 1_000_000).unwrap_or(i64::MAX)
}

fn time_of(ms: i64) -> Option<SystemTime> {
    u64::try_from(ms).ok().filter(|&ms| ms > 0).map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
}

/// Which task: a UUID of version 7. Later ones of a process are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId([u8; 16]);

impl TaskId {
    /// Makes one that nobody else has: for a submission that may have to be repeated.
    pub fn make() -> TaskId {
        raw::make_id()
    }

    /// Of the bytes, in the order in which they are written.
    pub fn from_bytes(bytes: [u8; 16]) -> TaskId {
        TaskId(bytes)
    }

    /// The bytes.
    pub fn into_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&raw::format_id(*self))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TaskId({self})")
    }
}

impl FromStr for TaskId {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<TaskId> {
        raw::parse_id(text)
    }
}

/// An enum that C has as numbers; one that this version has no name for is kept as its number.
macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $value:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* $variant,)*
            /// One that this version of the crate has no name for.
            Other(i32),
        }

        impl From<$name> for i32 {
            fn from(of: $name) -> i32 {
                match of {
                    $($name::$variant => sys::$value as i32,)*
                    $name::Other(number) => number,
                }
            }
        }

        impl From<i32> for $name {
            fn from(number: i32) -> $name {
                $(if number == sys::$value as i32 {
                    return $name::$variant;
                })*
                $name::Other(number)
            }
        }
    };
}
pub(super) use numbered;

numbered! {
    /// Where a task stands.
    Status {
        /// Waits for a worker, or for its time.
        Queued = NOCTER_TASK_QUEUED,
        /// A worker has claimed it.
        Running = NOCTER_TASK_RUNNING,
        /// Waits for other tasks, a message or a time, and holds no worker.
        Suspended = NOCTER_TASK_SUSPENDED,
        /// Ended with a result.
        Completed = NOCTER_TASK_COMPLETED,
        /// Ended with a failure.
        Failed = NOCTER_TASK_FAILED,
        /// Ended by a cancel.
        Cancelled = NOCTER_TASK_CANCELLED,
    }
}

numbered! {
    /// Why a round was started.
    Wake {
        /// It is the first one.
        First = NOCTER_WAKE_FIRST,
        /// What it waited for has ended.
        Join = NOCTER_WAKE_JOIN,
        /// One of those it waited for failed or was cancelled.
        Failure = NOCTER_WAKE_FAILURE,
        /// A message came.
        Message = NOCTER_WAKE_MESSAGE,
        /// Its time came.
        Timer = NOCTER_WAKE_TIMER,
        /// The last try of this round failed.
        Retry = NOCTER_WAKE_RETRY,
        /// Its worker was lost.
        Rescue = NOCTER_WAKE_RESCUE,
    }
}

numbered! {
    /// What a task suspends until.
    Until {
        /// It never suspended.
        Nothing = NOCTER_UNTIL_NOTHING,
        /// Tasks that it named.
        Tasks = NOCTER_UNTIL_TASKS,
        /// Its children.
        Children = NOCTER_UNTIL_CHILDREN,
        /// A message.
        Notified = NOCTER_UNTIL_NOTIFIED,
    }
}

numbered! {
    /// Where a key is the only one of its name.
    KeyScope {
        /// Among the live tasks of its type.
        LiveType = NOCTER_KEY_LIVE_TYPE,
        /// Among all children its parent ever had.
        Parent = NOCTER_KEY_PARENT,
        /// In its tree, for ever.
        Tree = NOCTER_KEY_TREE,
    }
}

/// Why a try failed, as a record tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// What sort of failure, for programs. "WorkerLost" when the library wrote it.
    pub kind: String,
    /// What happened, for people.
    pub message: String,
    /// More of it.
    pub detail: String,
    /// Which try.
    pub attempt: u32,
    /// The name of the node it ran on.
    pub node: String,
    /// When: Unix time in milliseconds.
    pub at_ms: i64,
}

/// All there is to know of a task, as it was in one moment. Times are Unix times in milliseconds, 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Which task.
    pub id: TaskId,
    /// The root of its tree; itself for a root.
    pub root: TaskId,
    /// Its parent; None for a root.
    pub parent: Option<TaskId>,
    /// Where it stands.
    pub status: Status,
    /// What sort of work it is.
    pub task_type: String,
    /// Its key, or empty.
    pub key: String,
    /// Where its key holds.
    pub key_scope: KeyScope,
    /// What it was submitted with, JSON.
    pub payload: String,
    /// What its worker last wrote, JSON; empty: nothing.
    pub state: String,
    /// What it ended with, JSON; empty: nothing.
    pub result: String,
    /// The last failure.
    pub failure: Option<Failed>,
    /// Claimed sooner when higher.
    pub priority: i32,
    /// Tries of the present round, the one that runs included.
    pub attempt: u32,
    /// Failed tries that one round may have.
    pub max_attempts: u32,
    /// Claims in all.
    pub deliveries: u32,
    /// Workers lost in all.
    pub rescues: u32,
    /// Why the present or next round is made.
    pub woken_by: Wake,
    /// Whether it has suspended before.
    pub resumed: bool,
    /// Whether a cancel was committed.
    pub cancel_requested: bool,
    /// What it last suspended until.
    pub until: Until,
    /// Grows with every claim.
    pub fence: u64,
    /// When it was submitted.
    pub created_at_ms: i64,
    /// When it comes due, or wakes by time.
    pub due_at_ms: i64,
    /// When it was first claimed.
    pub started_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: i64,
    /// The node that runs it or ran it last, as long as its process has not left the store.
    pub node: String,
    /// While it runs: until when its node holds it, unless it renews.
    pub lease_until_ms: i64,
    /// Children it ever had.
    pub children: u64,
    /// Those of them that have not ended.
    pub open_children: u64,
    /// Messages in its mailbox.
    pub messages: u64,
    /// The open tasks of its join: all that it named, or the first 1000 children.
    pub waiting_for: Vec<TaskId>,
    /// How many open ones there are in all.
    pub waiting_open: u64,
    /// How many of them have yet to end before its join wakes it; 0: enough have, or it has no join.
    pub waiting_need: u64,
    /// Whether the failure or the cancel of any one of them wakes it too.
    pub wake_on_failure: bool,
}

impl Record {
    /// Whether it has ended, in whatever way.
    pub fn ended(&self) -> bool {
        self.ended_at_ms != 0
    }

    /// When it was submitted.
    pub fn created_at(&self) -> SystemTime {
        time_of(self.created_at_ms).unwrap_or(UNIX_EPOCH)
    }

    /// When it comes due, or wakes by time.
    pub fn due_at(&self) -> Option<SystemTime> {
        time_of(self.due_at_ms)
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<SystemTime> {
        time_of(self.ended_at_ms)
    }
}

/// A message, as a round is handed it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The task that sent it; None: it came from outside.
    pub sender: Option<TaskId>,
    /// What it says, JSON.
    pub payload: String,
    /// When it was sent: Unix time in milliseconds.
    pub at_ms: i64,
    /// 1 the first time it is handed out; more when earlier rounds died or failed.
    pub deliveries: u32,
}

/// How many records there are of each status, and the totals of a store, seen in one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Waiting for a worker, or for their time.
    pub queued: u64,
    /// A worker has them.
    pub running: u64,
    /// They wait, and hold no worker.
    pub suspended: u64,
    /// Ended with a result.
    pub completed: u64,
    /// Ended with a failure.
    pub failed: u64,
    /// Ended by a cancel.
    pub cancelled: u64,
    /// Of the queued ones, those that could be claimed now.
    pub ready: u64,
    /// When the oldest of those was submitted, Unix time in milliseconds; 0: there is none.
    pub oldest_ready_ms: i64,
    /// Workers lost, ever.
    pub rescues: u64,
    /// Wakes that were found lost, ever: there should be none.
    pub repairs: u64,
    /// Records removed after their retention, ever.
    pub purged: u64,
    /// Runs that this process holds.
    pub runs: u64,
}

/// A task to be made.
#[derive(Clone, Debug)]
#[must_use = "a submission makes nothing until it is submitted"]
pub struct Submission {
    pub(crate) task_type: String,
    pub(crate) payload: String,
    pub(crate) key: String,
    pub(crate) key_scope: KeyScope,
    pub(crate) priority: Option<i32>,
    pub(crate) parent: Option<TaskId>,
    pub(crate) run_after_ms: i64,
    pub(crate) max_attempts: u32,
    pub(crate) id: Option<TaskId>,
}

impl Submission {
    /// Of a type, which says who works on it.
    pub fn new(task_type: impl Into<String>) -> Submission {
        Submission {
            task_type: task_type.into(),
            payload: String::new(),
            key: String::new(),
            key_scope: KeyScope::LiveType,
            priority: None,
            parent: None,
            run_after_ms: 0,
            max_attempts: 0,
            id: None,
        }
    }

    /// JSON; without it, {}.
    pub fn payload(mut self, json: impl Into<String>) -> Submission {
        self.payload = json.into();
        self
    }

    /// A key that no other task in that scope has.
    pub fn key(mut self, key: impl Into<String>, scope: KeyScope) -> Submission {
        self.key = key.into();
        self.key_scope = scope;
        self
    }

    /// Claimed sooner when higher; without it 0, or for a child one more than its parent's.
    pub fn priority(mut self, priority: i32) -> Submission {
        self.priority = Some(priority);
        self
    }

    /// Its parent.
    pub fn parent(mut self, parent: TaskId) -> Submission {
        self.parent = Some(parent);
        self
    }

    /// Not to be run before.
    pub fn run_after(mut self, then: SystemTime) -> Submission {
        self.run_after_ms = unix_ms(then);
        self
    }

    /// Failed tries of one round before it fails; without it 1.
    pub fn max_attempts(mut self, tries: u32) -> Submission {
        self.max_attempts = tries;
        self
    }

    /// Its identity, from [`TaskId::make`]: a submit that is repeated with it makes no second task.
    pub fn id(mut self, id: TaskId) -> Submission {
        self.id = Some(id);
        self
    }
}

impl<T: Into<String>> From<T> for Submission {
    fn from(task_type: T) -> Submission {
        Submission::new(task_type)
    }
}

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The task was made.
    Made(TaskId),
    /// This one has the key, and nothing was made.
    Exists(TaskId),
}

impl Submitted {
    /// The task that was made, or that was there.
    pub fn id(self) -> TaskId {
        match self {
            Submitted::Made(id) | Submitted::Exists(id) => id,
        }
    }
}

/// What became of many submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubmittedMany {
    /// For each, the task that was made, or that has its key.
    pub ids: Vec<TaskId>,
    /// Whether a key was taken.
    pub exists: bool,
}

impl SubmittedMany {
    pub(crate) fn of((ids, exists): (Vec<TaskId>, bool)) -> SubmittedMany {
        SubmittedMany { ids, exists }
    }

    /// Of one submission.
    pub(crate) fn only((ids, exists): (Vec<TaskId>, bool)) -> Submitted {
        let made = if exists { Submitted::Exists } else { Submitted::Made };
        made(ids.first().copied().unwrap_or(TaskId([0; 16])))
    }
}

/// Which tasks to list; without anything said, the first hundred of all.
#[derive(Clone, Debug, Default)]
#[must_use = "a filter lists nothing by itself"]
pub struct Filter {
    pub(crate) status: Option<Status>,
    pub(crate) task_type: String,
    pub(crate) parent: Option<TaskId>,
    pub(crate) root: Option<TaskId>,
    pub(crate) after: Option<TaskId>,
    pub(crate) created_before_ms: i64,
    pub(crate) limit: u32,
    pub(crate) roots_only: bool,
}

impl Filter {
    /// All.
    pub fn new() -> Filter {
        Filter::default()
    }

    /// Only those that stand there.
    pub fn status(mut self, status: Status) -> Filter {
        self.status = Some(status);
        self
    }

    /// Only those of this type.
    pub fn task_type(mut self, task_type: impl Into<String>) -> Filter {
        self.task_type = task_type.into();
        self
    }

    /// Only children of this task.
    pub fn parent(mut self, parent: TaskId) -> Filter {
        self.parent = Some(parent);
        self
    }

    /// Only members of this tree.
    pub fn root(mut self, root: TaskId) -> Filter {
        self.root = Some(root);
        self
    }

    /// Only those with a later identity: the last one of the page before.
    pub fn after(mut self, last: TaskId) -> Filter {
        self.after = Some(last);
        self
    }

    /// Only those submitted before.
    pub fn created_before(mut self, then: SystemTime) -> Filter {
        self.created_before_ms = unix_ms(then);
        self
    }

    /// At most so many, up to 10,000.
    pub fn limit(mut self, tasks: u32) -> Filter {
        self.limit = tasks;
        self
    }

    /// Only tasks without a parent.
    pub fn roots_only(mut self) -> Filter {
        self.roots_only = true;
        self
    }
}
