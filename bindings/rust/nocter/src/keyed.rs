//! The keyed queue.

use crate::error::{check, Error, Result};
use crate::ffi::{base, keyed as raw};
use crate::panics::Panics;
use crate::pass::nanoseconds;
use crate::wait::times_or_none;
use crate::{LentPass, Notifier, Pass, PassEnd, Wait, Workers, WorkersOptions};
use nocter_sys as sys;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a [`Keyed`] queue is made of.
///
/// Without anything said: 1024 keys of up to 256 bytes, 2 workers, and nobody is told; backoff from 10 milliseconds,
/// doubling, to a minute, less up to a tenth.
#[derive(Debug, Default)]
#[must_use = "options do nothing until a queue is made of them"]
pub struct KeyedOptions {
    numbers: raw::Numbers,
    waiters: Option<Notifier>,
    work: Option<Notifier>,
}

impl KeyedOptions {
    /// The defaults.
    pub fn new() -> KeyedOptions {
        KeyedOptions::default()
    }

    /// How many distinct keys may be retained.
    pub fn maximum_keys(mut self, keys: u32) -> KeyedOptions {
        self.numbers.maximum_keys = Some(keys);
        self
    }

    /// How many passes may run at once; no more than the keys.
    pub fn workers(mut self, workers: u32) -> KeyedOptions {
        self.numbers.workers = Some(workers);
        self
    }

    /// The longest key that is accepted, in bytes.
    pub fn maximum_key_size(mut self, bytes: u32) -> KeyedOptions {
        self.numbers.maximum_key_size = Some(bytes);
        self
    }

    /// Who is told when a key may be accepted again, and when a queue that was closed is drained.
    pub fn waiters(mut self, notifier: Notifier) -> KeyedOptions {
        self.waiters = Some(notifier);
        self
    }

    /// Who is told when a claim that found nothing may find something.
    pub fn work(mut self, notifier: Notifier) -> KeyedOptions {
        self.work = Some(notifier);
        self
    }

    /// How often a wait looks again before it yields its core; 0: never.
    pub fn wait_spins(mut self, times: u32) -> KeyedOptions {
        self.numbers.wait_spins = Some(times_or_none(times));
        self
    }

    /// How often a wait yields its core before it sleeps; 0: never.
    pub fn wait_yields(mut self, times: u32) -> KeyedOptions {
        self.numbers.wait_yields = Some(times_or_none(times));
        self
    }

    /// How long a key waits after its first failure when the queue is to say so, and at most, however often it failed.
    pub fn backoff(mut self, initial: Duration, maximum: Duration) -> KeyedOptions {
        self.numbers.backoff_initial_ns = Some(nanoseconds(initial));
        self.numbers.backoff_maximum_ns = Some(nanoseconds(maximum));
        self
    }

    /// How much longer it waits after each further failure, in percent of the wait before: 200 doubles it.
    pub fn backoff_percent(mut self, percent: u32) -> KeyedOptions {
        self.numbers.backoff_percent = Some(percent);
        self
    }

    /// How much of the wait is left to chance, in percent.
    pub fn backoff_jitter_percent(mut self, percent: u32) -> KeyedOptions {
        self.numbers.backoff_jitter_percent = Some(percent);
        self
    }
}

/// What became of a notification that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// A further pass was asked for.
    Accepted,
    /// One was due already, and will serve both.
    Coalesced,
}

/// What becomes of the keys that wait when a queue is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// They are discarded, and passes that run are interrupted.
    Discard,
    /// Each still gets its pass: delayed ones at once, and none is retried.
    Drain,
}

/// A bounded set of keys that are due, each at most once, and each with one pass at a time.
///
/// A key says "look at this thing as it is now". Whoever changes the thing first and notifies then can rely on a pass of
/// that key that starts later, unless the queue is closed before.
///
/// ```
/// use nocter::{CloseMode, Keyed, KeyedOptions, Notified, Wait, WorkersOptions};
///
/// let queue = Keyed::new(KeyedOptions::new())?;
/// assert_eq!(queue.notify("config")?, Notified::Accepted);
/// assert_eq!(queue.notify("config")?, Notified::Coalesced);
/// let (sender, receiver) = std::sync::mpsc::sync_channel(8);
/// let workers = queue.serve(move |pass| sender.send(pass.key().to_vec()), &WorkersOptions::new())?;
/// assert_eq!(receiver.recv().as_deref(), Ok(&b"config"[..]));
/// queue.close(CloseMode::Drain);
/// queue.drained(&Wait::forever())?;
/// workers.stop(&Wait::forever())?;
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// Dropping it closes it, discards what waits, and waits for nothing; passes that are out stay valid.
///
/// A panic in a served closure is a failed pass, one in the source of a [`resync`](Keyed::resync) ends the slice, and
/// both are raised again by the next call on the queue that has no value to give.
pub struct Keyed {
    queue: raw::Queue,
    panics: Arc<Panics>,
}

impl Keyed {
    /// Makes a queue, with all the memory it will ever need.
    pub fn new(options: KeyedOptions) -> Result<Keyed> {
        let KeyedOptions { numbers, waiters, work } = options;
        let queue = raw::create(numbers, waiters.map(|notifier| notifier.0), work.map(|notifier| notifier.0))?;
        Ok(Keyed { queue, panics: Arc::default() })
    }

    /// Says that a key is due: a pass of it will start after this call began. Never waits. [`Error::Saturated`]: it is a
    /// new key and the queue is full, nothing was kept.
    pub fn notify(&self, key: impl AsRef<[u8]>) -> Result<Notified> {
        self.panics.around(|| notified(raw::notify(&self.queue, key.as_ref())))
    }

    /// Says that a key will be due; the earliest time that was asked for wins.
    pub fn notify_after(&self, key: impl AsRef<[u8]>, delay: Duration) -> Result<Notified> {
        self.panics.around(|| notified(raw::notify_after(&self.queue, key.as_ref(), nanoseconds(delay))))
    }

    /// [`notify`](Keyed::notify) for many keys, in order, with one wake: what it would have said to each. An error of the
    /// call as a whole changes nothing.
    pub fn notify_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Result<Notified>>> {
        let mut keys = keys.iter().map(AsRef::as_ref);
        let each = self.panics.around(|| raw::notify_many(&self.queue, &mut keys))?;
        Ok(each.into_iter().map(notified).collect())
    }

    /// Takes the key that has waited longest, to make a pass of it on this thread.
    pub fn claim(&self, wait: &Wait<'_>) -> Result<Pass> {
        let pass = self.panics.around(|| raw::claim(&self.queue, &wait.raw()))?;
        Ok(Pass { raw: pass, panics: self.panics.clone() })
    }

    /// Notifies every key there is again and again, a slice at a time, so that what was missed or refused is found.
    ///
    /// `source` gives the next key at each call, and None after the last one; called after that it begins anew. The
    /// threads that claim call it, one at a time, and wait while it does. A second call puts another source in place of
    /// the first.
    ///
    /// ```
    /// use nocter::{Keyed, KeyedOptions, Wait};
    /// use std::time::Duration;
    ///
    /// let names = ["one", "two"];
    /// let mut at = 0;
    /// let source = move || {
    ///     let name = names.get(at).copied();
    ///     at = if name.is_some() { at + 1 } else { 0 };
    ///     name
    /// };
    /// let queue = Keyed::new(KeyedOptions::new())?;
    /// queue.resync(source, Duration::from_secs(60), 100)?;
    /// assert_eq!(queue.claim(&Wait::forever())?.key(), b"one");
    /// # Ok::<(), nocter::Error>(())
    /// ```
    pub fn resync<S, K>(&self, source: S, interval: Duration, slice: u32) -> Result<()>
    where
        S: FnMut() -> Option<K> + Send + 'static,
        K: AsRef<[u8]> + Send + 'static,
    {
        self.panics.around(|| raw::resync(&self.queue, source, nanoseconds(interval), slice, &self.panics))
    }

    /// No more of that.
    pub fn end_resync(&self) -> Result<()> {
        self.panics.around(|| raw::end_resync(&self.queue))
    }

    /// When a delayed key or a slice of [`resync`](Keyed::resync) will be due, for event loops that claim without waiting;
    /// None when nothing waits for a time.
    pub fn next_due(&self) -> Result<Option<Instant>> {
        match self.panics.around(|| raw::next_due(&self.queue)) {
            Ok(due_ns) => {
                let ahead = due_ns.saturating_sub(base::now_ns());
                Ok(Some(Instant::now() + Duration::from_nanos(u64::try_from(ahead).unwrap_or(0))))
            }
            Err(Error::Empty) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refuses further notifications for good, and ends resync. A queue that drains may be closed again by discarding.
    pub fn close(&self, mode: CloseMode) {
        let mode = match mode {
            CloseMode::Discard => sys::NOCTER_CLOSE_DISCARD,
            CloseMode::Drain => sys::NOCTER_CLOSE_DRAIN,
        };
        raw::close(&self.queue, mode as sys::nocter_close_mode);
        self.panics.raise();
    }

    /// Waits until a queue that was closed retains no key, runs no pass, and calls no source.
    pub fn drained(&self, wait: &Wait<'_>) -> Result<()> {
        let result = self.panics.around(|| raw::drained(&self.queue, &wait.raw()));
        self.panics.raise();
        result
    }

    /// A snapshot taken in one moment, and the totals since creation.
    pub fn count(&self) -> Result<KeyedCounts> {
        Ok(KeyedCounts::of(&self.panics.around(|| raw::count(&self.queue))?))
    }

    /// Starts threads of the library that claim and make passes until the queue is closed and empty or they are stopped.
    /// What the closure gives says how the pass ends.
    pub fn serve<F, R>(&self, run: F, options: &WorkersOptions) -> Result<Workers>
    where
        F: Fn(&LentPass<'_>) -> R + Send + Sync + 'static,
        R: Into<PassEnd>,
    {
        let threads = options.raw()?;
        let run = move |lent: raw::Lent<'_>| run(&LentPass(lent)).into().raw();
        let raw = self.panics.around(|| raw::serve(&self.queue, run, &threads, &self.panics))?;
        Ok(Workers { raw, panics: self.panics.clone() })
    }
}

fn notified(status: sys::nocter_status) -> Result<Notified> {
    match status {
        sys::NOCTER_COALESCED => Ok(Notified::Coalesced),
        status => check(status).map(|()| Notified::Accepted),
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Keyed");
        match raw::count(&self.queue) {
            Ok(counts) => text
                .field("waiting", &counts.waiting)
                .field("delayed", &counts.delayed)
                .field("active", &counts.active)
                .field("maximum_keys", &counts.maximum_keys)
                .finish_non_exhaustive(),
            Err(error) => text.field("error", &error).finish(),
        }
    }
}

/// A snapshot of a queue, taken in one moment, and its totals since creation.
///
/// Notifications are the sum of `accepted_new`, `coalesced`, `marked_dirty`, `rejected_full` and `rejected_closed`;
/// `started` that of `completed`, `failed` and `active`; `accepted_new`, `requeued` and `retried` together that of
/// `started`, `waiting`, `delayed` and `discarded_waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedCounts {
    /// Whether notifications are accepted: until the queue is closed.
    pub accepting: bool,
    /// Keys that are due and have no pass yet.
    pub waiting: u32,
    /// Keys that will be due.
    pub delayed: u32,
    /// Keys whose pass runs.
    pub active: u32,
    /// Those of them that will have a further pass.
    pub dirty: u32,
    /// Keys that hold a place: waiting, delayed or active.
    pub retained: u32,
    /// The bound of `retained`.
    pub maximum_keys: u32,
    /// The bound of `active`.
    pub workers: u32,
    /// Notifications of a key that was not retained, and now is.
    pub accepted_new: u64,
    /// Notifications that were coalesced.
    pub coalesced: u64,
    /// Notifications that were the first to ask for a further pass while one ran.
    pub marked_dirty: u64,
    /// Notifications refused because the queue was full.
    pub rejected_full: u64,
    /// Notifications refused because it was closed.
    pub rejected_closed: u64,
    /// Passes claimed.
    pub started: u64,
    /// Passes that ended well.
    pub completed: u64,
    /// Passes that failed.
    pub failed: u64,
    /// Passes after which the key was kept because it was dirty.
    pub requeued: u64,
    /// Passes after which it was kept to be retried.
    pub retried: u64,
    /// Keys that close discarded.
    pub discarded_waiting: u64,
    /// Further passes that close discarded.
    pub discarded_dirty: u64,
    /// Keys that the source of a resync gave.
    pub resync_keys: u64,
    /// How often it came to its end.
    pub resync_rounds: u64,
    /// How often it failed.
    pub resync_failures: u64,
    /// C++ exceptions that the library swallowed.
    pub exceptions: u64,
    /// How long the key that is claimed next has waited.
    pub oldest_waiting: Duration,
    /// How long the longest pass has run.
    pub longest_active: Duration,
}

impl KeyedCounts {
    fn of(raw: &sys::nocter_keyed_counts) -> KeyedCounts {
        let age = |nanoseconds: i64| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        KeyedCounts {
            accepting: raw.accepting != 0,
            waiting: raw.waiting,
            delayed: raw.delayed,
            active: raw.active,
            dirty: raw.dirty,
            retained: raw.retained,
            maximum_keys: raw.maximum_keys,
            workers: raw.workers,
            accepted_new: raw.accepted_new,
            coalesced: raw.coalesced,
            marked_dirty: raw.marked_dirty,
            rejected_full: raw.rejected_full,
            rejected_closed: raw.rejected_closed,
            started: raw.started,
            completed: raw.completed,
            failed: raw.failed,
            requeued: raw.requeued,
            retried: raw.retried,
            discarded_waiting: raw.discarded_waiting,
            discarded_dirty: raw.discarded_dirty,
            resync_keys: raw.resync_keys,
            resync_rounds: raw.resync_rounds,
            resync_failures: raw.resync_failures,
            exceptions: raw.exceptions,
            oldest_waiting: age(raw.oldest_waiting_ns),
            longest_active: age(raw.longest_active_ns),
        }
    }
}
