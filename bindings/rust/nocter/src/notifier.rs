//! Who is told that something may have changed.

use crate::error::{Error, Result};
use crate::ffi::{base, notifier};
use std::fmt;
use std::os::unix::io::{AsRawFd, BorrowedFd, RawFd};

/// Who a service tells that something may have changed: a wake and nothing else.
///
/// Wakes may collapse, and come on whatever thread made the change, several at once: look for yourself what has changed.
/// In a notifier, queries of the same service work; calls that change it fail with
/// [`Error::Reentrant`](crate::Error::Reentrant).
///
/// A panic in a closure does not reach the service. It is raised again on the same thread by the next call of this
/// crate that has no value to give.
///
/// ```
/// use nocter::{Blocking, BlockingOptions, Notifier};
///
/// let (sender, receiver) = std::sync::mpsc::sync_channel(1);
/// let waiters = Notifier::new(move || drop(sender.try_send(())));
/// let service = Blocking::<u32, u32>::new(BlockingOptions::new().waiters(waiters))?;
/// service.shutdown(|_| ())?;
/// assert!(receiver.recv().is_ok());
/// # Ok::<(), nocter::Error>(())
/// ```
#[must_use = "a notifier does nothing until a service has it"]
pub struct Notifier(pub(crate) notifier::Notifier);

impl Notifier {
    /// A closure that is called at each wake, and dropped when the service lets go of it.
    pub fn new(closure: impl Fn() + Send + Sync + 'static) -> Notifier {
        Notifier(notifier::Notifier::of_closure(closure))
    }

    pub(crate) fn of_signal(signal: &base::Signal) -> Notifier {
        Notifier(notifier::Notifier::of_signal(signal))
    }

    /// Wakes it by hand, as a service would.
    pub fn wake(&self) {
        self.0.wake();
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Notifier").finish_non_exhaustive()
    }
}

/// A descriptor that becomes readable at a wake, for any event loop that watches descriptors.
///
/// Clear first, then look what has changed: the other order loses a wake.
///
/// ```
/// use nocter::{Blocking, BlockingOptions, EventFd};
///
/// let eventfd = EventFd::new()?;
/// let service = Blocking::<u32, u32>::new(BlockingOptions::new().waiters(eventfd.notifier()))?;
/// let descriptor = eventfd.fd()?; // to be watched for reading
/// # let _ = descriptor;
/// eventfd.clear();
/// assert!(service.completed(64)?.is_empty());
/// # Ok::<(), nocter::Error>(())
/// ```
pub struct EventFd {
    handle: base::EventFd,
}

impl EventFd {
    /// Makes one, close-on-exec and non-blocking.
    pub fn new() -> Result<EventFd> {
        Ok(EventFd { handle: base::eventfd_create()? })
    }

    /// The descriptor to watch for reading. Do not read from it: [`clear`](EventFd::clear) does that.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        base::eventfd_borrow(&self.handle)
            .ok_or_else(|| Error::Forked("the descriptor belongs to the parent of this process".to_string()))
    }

    /// Makes it unreadable until the next wake.
    pub fn clear(&self) {
        base::eventfd_clear(&self.handle);
    }

    /// A notifier each wake of which makes the descriptor readable. The descriptor stays open until it is dropped too.
    pub fn notifier(&self) -> Notifier {
        Notifier(notifier::Notifier::of_eventfd(&self.handle))
    }
}

impl AsRawFd for EventFd {
    /// The descriptor; -1 in a forked child.
    fn as_raw_fd(&self) -> RawFd {
        base::eventfd_fd(&self.handle)
    }
}

impl fmt::Debug for EventFd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EventFd").field("fd", &self.as_raw_fd()).finish()
    }
}
