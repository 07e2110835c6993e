//! The keyed queue: one pass, seen by those who make it.

use crate::ffi::keyed::{self as raw, End};
use crate::panics::Panics;
use crate::{InterruptRef, NotEnded};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Nanoseconds as C takes them; what is too long is as long as there is.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A guard: one claimed key, and the one right, and duty, to end its pass.
///
/// Dropping it, also while a panic unwinds, is a failed pass. It may move to another thread, and is not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::Pass>();
/// ```
#[must_use = "dropping a pass says that it failed"]
pub struct Pass {
    pub(crate) raw: raw::Pass,
    pub(crate) panics: Arc<Panics>,
}

impl Pass {
    /// Which key this pass is of.
    pub fn key(&self) -> &[u8] {
        self.raw.key()
    }

    /// How often in a row this key has failed.
    pub fn failures(&self) -> u32 {
        self.raw.lent().failures()
    }

    /// Whether the queue was closed by discarding: stop early if you can.
    pub fn interrupted(&self) -> bool {
        self.raw.lent().interrupted()
    }

    /// An interrupt that is raised when that happens, to carry in the waits the pass makes.
    pub fn interrupt(&self) -> InterruptRef<'_> {
        InterruptRef(self.raw.interrupt())
    }

    /// Ends the pass well. Like every way to end it this fails only in a notifier of the same queue and in a forked child;
    /// then the pass comes back.
    pub fn complete(self) -> Result<(), NotEnded<Pass>> {
        self.end(PassEnd::Complete)
    }

    /// Ends the pass as failed. The queue does not retry by itself.
    pub fn fail(self) -> Result<(), NotEnded<Pass>> {
        self.end(PassEnd::Fail)
    }

    /// Ends the pass as failed, with the key kept and due again after a time that grows with each failure in a row.
    pub fn retry(self) -> Result<(), NotEnded<Pass>> {
        self.end(PassEnd::Retry)
    }

    /// Ends the pass as failed, with the key kept and due again so long from now.
    pub fn retry_after(self, delay: Duration) -> Result<(), NotEnded<Pass>> {
        self.end(PassEnd::RetryAfter(delay))
    }

    /// Ends the pass.
    pub fn end(self, end: PassEnd) -> Result<(), NotEnded<Pass>> {
        let Pass { raw, panics } = self;
        match raw.end(end.raw()) {
            Ok(()) => {
                panics.raise();
                Ok(())
            }
            Err((error, raw)) => Err(NotEnded { guard: Pass { raw, panics }, error }),
        }
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        LentPass(self.raw.lent()).describe(formatter, "Pass")
    }
}

/// A pass as a served closure sees it: lent for the length of one call.
pub struct LentPass<'a>(pub(crate) raw::Lent<'a>);

impl LentPass<'_> {
    /// Which key this pass is of.
    pub fn key(&self) -> &[u8] {
        self.0.key()
    }

    /// How often in a row this key has failed.
    pub fn failures(&self) -> u32 {
        self.0.failures()
    }

    /// Whether the queue was closed by discarding: stop early if you can.
    pub fn interrupted(&self) -> bool {
        self.0.interrupted()
    }

    /// An interrupt that is raised when that happens, to carry in the waits the pass makes.
    pub fn interrupt(&self) -> InterruptRef<'_> {
        InterruptRef(self.0.interrupt())
    }

    fn describe(&self, formatter: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        formatter.debug_struct(name).field("key", &key).field("failures", &self.failures()).finish()
    }
}

impl fmt::Debug for LentPass<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(formatter, "LentPass")
    }
}

/// How a pass ends. A served closure gives one, or what one can be made of: nothing is [`Complete`](PassEnd::Complete),
/// a result that is an error is [`Fail`](PassEnd::Fail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassEnd {
    /// Well.
    Complete,
    /// As failed.
    Fail,
    /// As failed, with the key kept and due again after a time that grows with each failure in a row.
    Retry,
    /// As failed, with the key kept and due again so long from now.
    RetryAfter(Duration),
}

impl PassEnd {
    pub(crate) fn raw(self) -> End {
        match self {
            PassEnd::Complete => End::Complete,
            PassEnd::Fail => End::Fail,
            PassEnd::Retry => End::Retry(-1),
            PassEnd::RetryAfter(delay) => End::Retry(nanoseconds(delay)),
        }
    }
}

impl From<()> for PassEnd {
    fn from(_: ()) -> PassEnd {
        PassEnd::Complete
    }
}

impl<E> From<Result<(), E>> for PassEnd {
    fn from(result: Result<(), E>) -> PassEnd {
        match result {
            Ok(()) => PassEnd::Complete,
            Err(_) => PassEnd::Fail,
        }
    }
}
