//! Retirement: the service.

use crate::error::{Error, Result};
use crate::ffi::retirement as raw;
use crate::panics::Panics;
use crate::wait::times_or_none;
use crate::{Cleanup, Epoch, NotReserved, Notifier, Permit, Wait, Workers, WorkersOptions};
use nocter_sys as sys;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// What a [`Retirement`] is made of.
///
/// Without anything said: 64 resources, 2 workers, and nobody is told.
#[derive(Debug, Default)]
#[must_use = "options do nothing until a service is made of them"]
pub struct RetirementOptions {
    numbers: raw::Numbers,
    waiters: Option<Notifier>,
    work: Option<Notifier>,
}

impl RetirementOptions {
    /// The defaults.
    pub fn new() -> RetirementOptions {
        RetirementOptions::default()
    }

    /// How many permits may be out at once, in whatever became of them.
    pub fn maximum_resources(mut self, resources: u32) -> RetirementOptions {
        self.numbers.maximum_resources = Some(resources);
        self
    }

    /// How many cleanups may run at once; no more than the resources.
    pub fn workers(mut self, workers: u32) -> RetirementOptions {
        self.numbers.workers = Some(workers);
        self
    }

    /// Who is told after every change that a waiter can care about.
    pub fn waiters(mut self, notifier: Notifier) -> RetirementOptions {
        self.waiters = Some(notifier);
        self
    }

    /// Who is told when a claim that found nothing may find something, or that nothing will come any more.
    pub fn work(mut self, notifier: Notifier) -> RetirementOptions {
        self.work = Some(notifier);
        self
    }

    /// How often a wait looks again before it yields its core; 0: never.
    pub fn wait_spins(mut self, times: u32) -> RetirementOptions {
        self.numbers.wait_spins = Some(times_or_none(times));
        self
    }

    /// How often a wait yields its core before it sleeps; 0: never.
    pub fn wait_yields(mut self, times: u32) -> RetirementOptions {
        self.numbers.wait_yields = Some(times_or_none(times));
        self
    }
}

/// Resources of type `T`, the end of which may block, and who ends them.
///
/// A permit is reserved before the resource exists, so that handing the resource over later cannot fail and never waits.
/// What ends it is its destructor, on the library's threads ([`serve`](Retirement::serve)) or on your own
/// ([`claim`](Retirement::claim)), which may do more, and say how it went.
///
/// ```
/// use nocter::{Retirement, RetirementOptions, Wait};
///
/// let retirement = Retirement::<Vec<u8>>::new(RetirementOptions::new())?;
/// let mut owner = retirement.reserve()?.attach(vec![1, 2]);
/// owner.push(3);
/// let id = owner.retire()?;
/// // Somebody who cleans, here on the same thread:
/// let mut cleanup = retirement.claim(&Wait::none())?;
/// let length = cleanup.begin()?.len() as i32;
/// cleanup.complete(length)?;
/// assert_eq!(retirement.take(id, &Wait::none()), Ok(3));
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// Dropping it closes admission, detaches every waiter, and waits for nothing. Permits, owners and cleanups that are out
/// work as before: threads that serve go on until the last of them has ended. Where no thread serves, nobody else could
/// end what is queued, so it is dropped here, and what is retired later is dropped by whoever does that.
///
/// A panic in a destructor on a thread that serves is raised again by the next call on the service that has no value to
/// give. The cleanup has ended its resource all the same, with code 0.
pub struct Retirement<T: Send> {
    service: raw::Service<T>,
    panics: Arc<Panics>,
}

impl<T: Send> Retirement<T> {
    /// Makes a service, with all the memory it will ever need besides the boxes of the resources.
    pub fn new(options: RetirementOptions) -> Result<Retirement<T>> {
        let RetirementOptions { numbers, waiters, work } = options;
        let service = raw::create(numbers, waiters.map(|notifier| notifier.0), work.map(|notifier| notifier.0))?;
        Ok(Retirement { service, panics: Arc::default() })
    }

    /// Sets a place apart, before the resource is made. Never waits.
    ///
    /// At the bound the answer carries the capacity epoch of the same moment. Waiting for a later one and trying again
    /// can never miss the place that was freed in between:
    ///
    /// ```
    /// use nocter::{Error, NotReserved, Permit, Retirement, Wait};
    ///
    /// fn reserve<T: Send>(retirement: &Retirement<T>) -> Result<Permit<T>, Error> {
    ///     loop {
    ///         match retirement.reserve() {
    ///             Err(NotReserved::Saturated { epoch }) => retirement.wait_epoch(epoch, &Wait::forever())?,
    ///             other => return Ok(other?),
    ///         };
    ///     }
    /// }
    /// # let retirement = Retirement::<u32>::new(Default::default())?;
    /// # assert!(reserve(&retirement).is_ok());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve(&self) -> std::result::Result<Permit<T>, NotReserved> {
        match self.panics.around(|| raw::reserve(&self.service)) {
            Ok(permit) => Ok(Permit { raw: permit, panics: self.panics.clone() }),
            Err((Error::Saturated, epoch)) => Err(NotReserved::Saturated { epoch: Epoch(epoch) }),
            Err((Error::Closed, _)) => Err(NotReserved::Closed),
            Err((error, _)) => Err(NotReserved::Failed(error)),
        }
    }

    /// Takes the resource that was queued first, to end it on this thread. Goes on after [`close`](Retirement::close).
    pub fn claim(&self, wait: &Wait<'_>) -> Result<Cleanup<T>> {
        let cleanup = self.panics.around(|| raw::claim(&self.service, &wait.raw()))?;
        Ok(Cleanup { raw: cleanup, panics: self.panics.clone() })
    }

    /// Takes the code that a cleanup ended with. That, and [`Error::WorkerLost`], consume the identity.
    pub fn take(&self, id: RetirementId, wait: &Wait<'_>) -> Result<i32> {
        self.panics.around(|| raw::take(&self.service, id.0, &wait.raw()))
    }

    /// Where a retirement is. Changes nothing, and may be asked in a notifier.
    pub fn query(&self, id: RetirementId) -> Result<RetirementState> {
        Ok(RetirementState::of(self.panics.around(|| raw::query(&self.service, id.0))?))
    }

    /// Ends the interest in a retirement. Its cleanup goes on; a completion gives its place back.
    pub fn detach(&self, id: RetirementId) -> Result<()> {
        self.panics.around(|| raw::detach(&self.service, id.0))
    }

    /// The same for every identity there is.
    pub fn detach_all(&self) {
        raw::detach_all(&self.service);
        self.panics.raise();
    }

    /// The capacity epoch now: it advances whenever an occupied place became free.
    pub fn epoch(&self) -> Result<Epoch> {
        Ok(Epoch(self.panics.around(|| raw::epoch(&self.service))?))
    }

    /// Waits until the capacity epoch is later than the one given, and gives it.
    pub fn wait_epoch(&self, later_than: Epoch, wait: &Wait<'_>) -> Result<Epoch> {
        Ok(Epoch(self.panics.around(|| raw::wait_epoch(&self.service, later_than.0, &wait.raw()))?))
    }

    /// Closes admission for good: no new permits. Everything that was reserved before goes on.
    pub fn close(&self) {
        raw::close(&self.service);
        self.panics.raise();
    }

    /// Waits until no place is occupied: every permit, owner, cleanup and completion has ended. Final after
    /// [`close`](Retirement::close).
    pub fn drained(&self, wait: &Wait<'_>) -> Result<()> {
        let result = self.panics.around(|| raw::drained(&self.service, &wait.raw()));
        self.panics.raise();
        result
    }

    /// A snapshot taken in one moment, and the totals since creation.
    pub fn count(&self) -> Result<RetirementCounts> {
        Ok(RetirementCounts::of(&self.panics.around(|| raw::count(&self.service))?))
    }

    /// Starts threads of the library that drop resources until admission is closed and nothing is left, or they are
    /// stopped. They report code 0.
    pub fn serve(&self, options: &WorkersOptions) -> Result<Workers>
    where
        T: 'static,
    {
        let threads = options.raw()?;
        let raw = self.panics.around(|| raw::serve(&self.service, &threads, &self.panics))?;
        Ok(Workers { raw, panics: self.panics.clone() })
    }
}

impl<T: Send> fmt::Debug for Retirement<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Retirement");
        match raw::count(&self.service) {
            Ok(counts) => text
                .field("permits", &counts.permits)
                .field("live", &counts.live)
                .field("queued", &counts.queued)
                .field("running", &counts.running)
                .field("completed", &counts.completed)
                .field("maximum_resources", &counts.maximum_resources)
                .finish_non_exhaustive(),
            Err(error) => text.field("error", &error).finish(),
        }
    }
}

/// Which retirement, of which service. Never issued twice.
#[derive(Clone, Copy)]
pub struct RetirementId(pub(crate) sys::nocter_retirement_id);

impl PartialEq for RetirementId {
    fn eq(&self, other: &RetirementId) -> bool {
        raw::retirement_id_equal(self.0, other.0)
    }
}

impl Eq for RetirementId {}

impl Hash for RetirementId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal identities have the same place in the same order; no more is assumed of what they are made of.
        self.0.sequence.hash(state);
    }
}

impl fmt::Debug for RetirementId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RetirementId({:x}:{})", self.0.service, self.0.sequence)
    }
}

/// Where a retirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetirementState {
    /// Waits for a cleanup.
    Queued,
    /// A cleanup has claimed it.
    Running,
    /// The cleanup has ended; waits to be taken.
    Completed,
}

impl RetirementState {
    fn of(state: sys::nocter_retirement_state) -> RetirementState {
        match state as sys::nocter_retirement_state_code {
            sys::NOCTER_RETIREMENT_QUEUED => RetirementState::Queued,
            sys::NOCTER_RETIREMENT_RUNNING => RetirementState::Running,
            sys::NOCTER_RETIREMENT_COMPLETED => RetirementState::Completed,
            _ => unreachable!("no state of a retirement: {state}"),
        }
    }
}

/// A snapshot of a service, taken in one moment, and its totals since creation.
///
/// Every permit is in exactly one place: `reservations` is the sum of `permits_dropped`, `unobserved_done`,
/// `detached_done`, `taken`, `detached_completed` and `reserved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetirementCounts {
    /// Whether permits are given: until admission is closed.
    pub accepting: bool,
    /// Permits without a resource.
    pub permits: u32,
    /// Resources that have their owner.
    pub live: u32,
    /// Resources that wait for a cleanup.
    pub queued: u32,
    /// Cleanups that run.
    pub running: u32,
    /// Cleanups ended and not yet taken.
    pub completed: u32,
    /// The sum of the five.
    pub reserved: u32,
    /// The bound of `reserved`.
    pub maximum_resources: u32,
    /// The bound of `running`.
    pub workers: u32,
    /// Places freed so far.
    pub epoch: u64,
    /// Permits given.
    pub reservations: u64,
    /// Permits refused at the bound.
    pub saturated: u64,
    /// Permits dropped without a resource.
    pub permits_dropped: u64,
    /// Dropped resources whose cleanup has ended.
    pub unobserved_done: u64,
    /// Retirements detached before their cleanup ended, which it has now.
    pub detached_done: u64,
    /// Retirements whose code, or loss, was taken.
    pub taken: u64,
    /// Retirements detached when completed.
    pub detached_completed: u64,
    /// Cleanups that ended with code 0.
    pub cleaned: u64,
    /// Cleanups that ended with another code.
    pub failed: u64,
    /// Cleanups that were dropped.
    pub lost: u64,
    /// Of `failed` and `lost` those that nobody heard of.
    pub failed_unobserved: u64,
    /// C++ exceptions that the library swallowed.
    pub exceptions: u64,
    /// How long the oldest queued resource has waited.
    pub oldest_queued: Duration,
    /// How long the longest running cleanup has run.
    pub longest_running: Duration,
}

impl RetirementCounts {
    fn of(raw: &sys::nocter_retirement_counts) -> RetirementCounts {
        let age = |nanoseconds: i64| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        RetirementCounts {
            accepting: raw.accepting != 0,
            permits: raw.permits,
            live: raw.live,
            queued: raw.queued,
            running: raw.running,
            completed: raw.completed,
            reserved: raw.reserved,
            maximum_resources: raw.maximum_resources,
            workers: raw.workers,
            epoch: raw.epoch,
            reservations: raw.reservations,
            saturated: raw.saturated,
            permits_dropped: raw.permits_dropped,
            unobserved_done: raw.unobserved_done,
            detached_done: raw.detached_done,
            taken: raw.taken,
            detached_completed: raw.detached_completed,
            cleaned: raw.cleaned,
            failed: raw.failed,
            lost: raw.lost,
            failed_unobserved: raw.failed_unobserved,
            exceptions: raw.exceptions,
            oldest_queued: age(raw.oldest_queued_ns),
            longest_running: age(raw.longest_running_ns),
        }
    }
}
