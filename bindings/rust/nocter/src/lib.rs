//! Hand-offs of work: every value has one owner at every moment, everything has a bound, and no wake-up is lost.
//!
//! * [`Blocking`] – a bounded service of jobs. Submit an input, and take the output by the identity of the job. Jobs run
//!   on the library's threads or on your own.
//! * [`AsyncBlocking`] – the same service with futures in place of waits, for any executor.
//! * [`Retirement`] – resources whose end may block are handed to somebody who ends them, and handing over cannot fail.
//! * [`Keyed`] – a bounded queue of keys that are due, each at most once, and each with one pass at a time.
//! * [`tasks`] – durable tasks: submitted once, suspended without holding a thread, and still there after a kill; with
//!   [`AsyncTasks`](tasks::AsyncTasks), which awaits their ends and their claims.
//! * [`Watch`] – awaits any other call that waits.
//! * [`Signal`] – a versioned signal, for waiting until a state of your own has changed.
//! * [`Notifier`], [`EventFd`] – how a service tells an event loop, or any closure, that something may have changed.
//! * [`Wait`], [`Interrupt`] – how long a call may wait, and what ends the wait early.
//!
//! ```
//! use nocter::{Blocking, BlockingOptions, Wait};
//!
//! let service = Blocking::<u32, u32>::new(BlockingOptions::new())?;
//! let id = service.submit(20)?;
//! // A worker, here on the same thread:
//! let (input, completion) = service.claim(&Wait::none())?.begin()?;
//! completion.complete(input + 1)?;
//! assert_eq!(service.take(id, &Wait::none()), Ok(21));
//! # Ok::<(), nocter::Error>(())
//! ```
//!
//! # Rules
//!
//! Handles may be used from any thread at once. Guards ([`RunningJob`], [`Completion`], [`Permit`], [`Resource`],
//! [`Cleanup`], [`Pass`]) have one owner, may move between threads, and cannot be copied; dropping one is the end that a
//! worker has who goes away, so no forgotten guard strands a waiter. Nothing waits in a destructor.
//!
//! A panic never crosses the library. In a served closure it is a lost worker, and is raised again by the next call on
//! that service that has no value to give. One in a notifier, in the sink of a shutdown or in the destructor of a value
//! that a call drops is raised again on the same thread, in the same way. When several come before they are raised, the
//! first one is.
//!
//! In a child process after a fork, handles of the parent say [`Error::Forked`] and are dropped without effect.

#![deny(missing_docs, missing_debug_implementations, unsafe_code)]
#![warn(unreachable_pub)]

mod blocking;
mod error;
mod ffi;
mod future;
mod job;
mod keyed;
mod notifier;
mod outcome;
mod panics;
mod pass;
mod resource;
mod retirement;
mod signal;
pub mod tasks;
mod wait;
mod watch;
mod workers;

pub use blocking::{Blocking, BlockingOptions};
pub use error::{Error, Result};
pub use future::{AsyncBlocking, Drained, Run, Submit, Take, WaitEpoch};
pub use job::{Completion, Job, NotCompleted, RunningJob};
pub use keyed::{CloseMode, Keyed, KeyedCounts, KeyedOptions, Notified};
pub use notifier::{EventFd, Notifier};
pub use outcome::{BlockingCounts, Cancelled, Epoch, JobId, JobState, Reclaimed, Refused};
pub use pass::{LentPass, Pass, PassEnd};
pub use resource::{Cleanup, NotEnded, NotReserved, NotRetired, Permit, Resource};
pub use retirement::{Retirement, RetirementCounts, RetirementId, RetirementOptions, RetirementState};
pub use signal::Signal;
pub use wait::{Interrupt, InterruptRef, Wait};
pub use watch::{Until, Watch};
pub use workers::{Workers, WorkersOptions};

/// The version of the loaded library, for example "0.1.0".
pub fn version() -> &'static str {
    ffi::base::version()
}

/// The version of the loaded library as a number: 0x000100 is 0.1.0.
pub fn version_number() -> u32 {
    ffi::base::version_number()
}
