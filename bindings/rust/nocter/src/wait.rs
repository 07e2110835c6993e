//! How long a call may wait, and what ends the wait early.

use crate::error::Result;
use crate::ffi::base;
use nocter_sys as sys;
use std::fmt;
use std::time::{Duration, Instant};

/// A flag that ends every wait that carries it.
///
/// It stays raised until it is cleared. [`raise`](Interrupt::raise) and [`raised`](Interrupt::raised) may be called from
/// a signal handler.
///
/// ```
/// use nocter::{Error, Interrupt, Signal, Wait};
///
/// let interrupt = Interrupt::new()?;
/// let signal = Signal::new()?;
/// interrupt.raise();
/// let wait = Wait::forever().interrupt(&interrupt);
/// assert_eq!(signal.wait(signal.version(), &wait), Err(Error::Interrupted));
/// # Ok::<(), nocter::Error>(())
/// ```
pub struct Interrupt {
    handle: base::Interrupt,
}

impl Interrupt {
    /// Makes one that is not raised.
    pub fn new() -> Result<Interrupt> {
        Ok(Interrupt { handle: base::interrupt_create()? })
    }

    /// Ends every wait that carries it, now or later, with [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn raise(&self) {
        base::interrupt_raise(&self.handle);
    }

    /// Takes a raise back, for the waits to come.
    pub fn clear(&self) {
        base::interrupt_clear(&self.handle);
    }

    /// Whether it is raised.
    pub fn raised(&self) -> bool {
        InterruptRef::from(self).raised()
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Interrupt").field("raised", &self.raised()).finish()
    }
}

/// An interrupt that belongs to somebody else: an [`Interrupt`], or that of a job, which is raised when nobody waits
/// for the job any more.
#[derive(Clone, Copy)]
pub struct InterruptRef<'a>(pub(crate) base::Borrowed<'a>);

impl InterruptRef<'_> {
    /// Whether it is raised.
    pub fn raised(&self) -> bool {
        self.0.raised()
    }
}

impl<'a> From<&'a Interrupt> for InterruptRef<'a> {
    fn from(interrupt: &'a Interrupt) -> Self {
        InterruptRef(base::Borrowed::of(&interrupt.handle))
    }
}

impl fmt::Debug for InterruptRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InterruptRef").field("raised", &self.raised()).finish()
    }
}

/// How long a call may wait, and what ends the wait early.
///
/// The deadline is a point in time: a wait that is used again does not begin anew.
///
/// ```
/// use nocter::{Error, Signal, Wait};
/// use std::time::Duration;
///
/// let signal = Signal::new()?;
/// let version = signal.version();
/// assert_eq!(signal.wait(version, &Wait::none()), Err(Error::Pending));
/// assert_eq!(signal.wait(version, &Wait::at_most(Duration::from_millis(1))), Err(Error::Timeout));
/// # Ok::<(), nocter::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a wait does nothing by itself: pass it to a call"]
pub struct Wait<'a> {
    /// None: do not wait at all.
    deadline_ns: Option<i64>,
    interrupt: Option<InterruptRef<'a>>,
    flags: u32,
}

impl<'a> Wait<'a> {
    /// Do not wait: the call says at once what there is.
    pub fn none() -> Wait<'a> {
        Wait { deadline_ns: None, interrupt: None, flags: 0 }
    }

    /// Wait as long as it takes.
    pub fn forever() -> Wait<'a> {
        Wait { deadline_ns: Some(sys::NOCTER_FOREVER.into()), interrupt: None, flags: 0 }
    }

    /// Wait until so much time has passed from now on.
    pub fn at_most(duration: Duration) -> Wait<'a> {
        let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Wait { deadline_ns: Some(base::now_ns().saturating_add(nanoseconds)), interrupt: None, flags: 0 }
    }

    /// Wait until this point in time; one that has passed makes the call a poll.
    pub fn until(deadline: Instant) -> Wait<'a> {
        Wait::at_most(deadline.saturating_duration_since(Instant::now()))
    }

    /// End the wait when this interrupt is raised. A call that does not wait ignores it.
    pub fn interrupt(self, interrupt: impl Into<InterruptRef<'a>>) -> Wait<'a> {
        Wait { interrupt: Some(interrupt.into()), ..self }
    }

    /// End the wait, as interrupted, once a signal handler has run on the waiting thread.
    pub fn ended_by_signals(self) -> Wait<'a> {
        Wait { flags: self.flags | sys::NOCTER_WAIT_EINTR, ..self }
    }

    pub(crate) fn raw(&self) -> base::Wait<'a> {
        match self.deadline_ns {
            None => base::Wait::not(),
            Some(deadline) => base::Wait::new(deadline, self.interrupt.map(|interrupt| interrupt.0), self.flags),
        }
    }
}

/// How often a wait looks again: in C, zero asks for the default.
pub(crate) fn times_or_none(times: u32) -> u32 {
    match times {
        0 => sys::NOCTER_WAIT_NONE,
        times => times,
    }
}
