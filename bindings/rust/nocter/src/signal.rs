//! The versioned signal.

use crate::error::Result;
use crate::ffi::base;
use crate::{Notifier, Wait};
use std::fmt;

/// A version that only grows, and the threads that wait for it to move.
///
/// It closes the gap between reading a state and waiting for it to change: read the version, then the state, and wait
/// only while the version is the one that was read.
///
/// ```
/// use nocter::{Signal, Wait};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let ready = AtomicBool::new(false);
/// let signal = Signal::new()?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         ready.store(true, Ordering::SeqCst);
///         signal.publish()
///     });
///     loop {
///         let seen = signal.version();
///         if ready.load(Ordering::SeqCst) {
///             break;
///         }
///         signal.wait(seen, &Wait::forever())?;
///     }
///     Ok::<(), nocter::Error>(())
/// })?;
/// # Ok::<(), nocter::Error>(())
/// ```
pub struct Signal {
    handle: base::Signal,
}

impl Signal {
    /// Makes a signal at its first version.
    pub fn new() -> Result<Signal> {
        Ok(Signal { handle: base::signal_create()? })
    }

    /// The version now: read it before the state. 0, which no signal ever has, in a forked child.
    pub fn version(&self) -> u64 {
        base::signal_version(&self.handle)
    }

    /// Says that the state has changed: call it after the change. Gives the new version.
    pub fn publish(&self) -> Result<u64> {
        base::signal_publish(&self.handle)
    }

    /// Waits until the version is no longer `seen`, and gives the new one.
    pub fn wait(&self, seen: u64, wait: &Wait<'_>) -> Result<u64> {
        base::signal_wait(&self.handle, seen, &wait.raw())
    }

    /// Closes it for good: every waiter, present and future, is told [`Error::Closed`](crate::Error::Closed).
    pub fn close(&self) {
        base::signal_close(&self.handle);
    }

    /// A notifier each wake of which publishes the signal. The signal lives on until it is dropped too.
    pub fn notifier(&self) -> Notifier {
        Notifier::of_signal(&self.handle)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signal").field("version", &self.version()).finish()
    }
}
