//! Futures over the blocking service, for any executor, and with no runtime of their own.
//!
//! A future that finds nothing puts its waker down under the identity of its job, and then looks once more; who ends the
//! job looks there. That is the notifier, which runs on the thread that made the change. Where this module knows what a
//! call changes (a served closure ends its job, a future takes its output) it says so beforehand, in a word of that
//! thread, and one waker is called. In all other cases everybody is.

use crate::error::{Error, Result};
use crate::ffi::blocking as raw;
use crate::watch::{lock, wake, Wakers};
use crate::{Blocking, BlockingOptions, Epoch, Job, JobId, JobState, Notifier, Refused, Wait, Workers, WorkersOptions};
use nocter_sys as sys;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// A bounded service of jobs whose results are awaited, by tasks of any executor.
///
/// ```
/// use nocter::{AsyncBlocking, BlockingOptions, WorkersOptions};
/// # use std::{future::Future, pin::Pin, sync::Arc, task::{Context, Poll, Wake}, thread};
/// # struct Unpark(thread::Thread);
/// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let waker = Arc::new(Unpark(thread::current())).into();
/// #     let mut future = Box::pin(future);
/// #     loop {
/// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             Poll::Ready(output) => return output,
/// #             Poll::Pending => thread::park(),
/// #         }
/// #     }
/// # }
///
/// let service = AsyncBlocking::<String, usize>::new(BlockingOptions::new().maximum_jobs(16).workers(2))?;
/// let _workers = service.serve(|text, _job| text.len(), &WorkersOptions::new())?;
/// let length = block_on(service.run("how long is this?".to_string()))?; // or `.await`
/// assert_eq!(length, 17);
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// It can be cloned; the service goes with the last clone and the last future. A future does nothing before it is polled.
/// One that is dropped asks for cancel and waits for nothing: a job that nobody has begun ends and its input is dropped,
/// one that runs is abandoned, and the output of one that has ended is dropped.
///
/// A panic in a closure served by [`serve`](AsyncBlocking::serve) is raised again where that job is awaited, or another one
/// whose worker was lost.
///
/// A waker is called on the thread that made the change, and is not to poll there: a future that is polled inside a
/// notifier of its service fails with [`Error::Reentrant`].
pub struct AsyncBlocking<I: Send, O: Send> {
    shared: Arc<Shared<I, O>>,
}

struct Shared<I: Send, O: Send> {
    service: Blocking<I, O>,
    waiting: Arc<Waiting>,
    /// Not among what the workers read, for each future writes it.
    tickets: AtomicU64,
}

impl<I: Send, O: Send> AsyncBlocking<I, O> {
    /// Makes a service. Its waiters are these futures; the options must not name others.
    pub fn new(options: BlockingOptions) -> Result<AsyncBlocking<I, O>> {
        if options.has_waiters() {
            return Err(Error::Argument("the waiters of an AsyncBlocking are its futures".to_string()));
        }
        let waiting = Arc::new(Waiting::new(options.jobs()));
        let told = waiting.clone();
        let service = Blocking::new(options.waiters(Notifier::new(move || told.changed())))?;
        Ok(AsyncBlocking { shared: Arc::new(Shared { service, waiting, tickets: AtomicU64::new(0) }) })
    }

    /// The service itself: to claim, cancel, shut down, count.
    pub fn service(&self) -> &Blocking<I, O> {
        &self.shared.service
    }

    /// Starts threads of the library that run jobs, as [`Blocking::serve`] does. They know whom they wake.
    pub fn serve<F>(&self, run: F, options: &WorkersOptions) -> Result<Workers>
    where
        I: 'static,
        O: 'static,
        F: Fn(I, &Job<'_>) -> O + Send + Sync + 'static,
    {
        let place = self.shared.waiting.address();
        let run = move |input: I, job: &Job<'_>| {
            // Also when the closure panics: then its guard is dropped next.
            let _said = SaidAtTheEnd { place, id: job.id().0 };
            run(input, job)
        };
        self.shared.service.serve(run, options)
    }

    /// Hands a job in, waiting for a place where all are taken, and waits for its output.
    pub fn run(&self, input: I) -> Run<I, O> {
        Run { ticket: Ticket::new(&self.shared, None), input: Some(input) }
    }

    /// Hands a job in, waiting for a place where all are taken. An input that is not accepted comes back.
    pub fn submit(&self, input: I) -> Submit<I, O> {
        Submit { ticket: Ticket::new(&self.shared, None), input: Some(input) }
    }

    /// Waits for the output of a job.
    pub fn take(&self, id: JobId) -> Take<I, O> {
        Take { ticket: Ticket::new(&self.shared, Some(id)) }
    }

    /// Waits until the capacity epoch is later than the one given, and gives it.
    pub fn wait_epoch(&self, later_than: Epoch) -> WaitEpoch<I, O> {
        WaitEpoch { ticket: Ticket::new(&self.shared, None), later_than }
    }

    /// After a shutdown: waits until no job is left.
    pub fn drained(&self) -> Drained<I, O> {
        Drained { ticket: Ticket::new(&self.shared, None) }
    }
}

impl<I: Send, O: Send> Clone for AsyncBlocking<I, O> {
    fn clone(&self) -> Self {
        AsyncBlocking { shared: self.shared.clone() }
    }
}

impl<I: Send, O: Send> fmt::Debug for AsyncBlocking<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AsyncBlocking").field(&self.shared.service).finish()
    }
}

// ---- Who waits -----------------------------------------------------------------------------------------------

thread_local! {
    /// The job that the call under way on this thread is about to end, and whose waiters are to know; zero: nobody's.
    static SAID: Cell<Option<(usize, sys::nocter_job_id)>> = const { Cell::new(None) };
}

/// Says at the end of a served closure which job ends next on this thread.
struct SaidAtTheEnd {
    place: usize,
    id: sys::nocter_job_id,
}

impl Drop for SaidAtTheEnd {
    fn drop(&mut self) {
        let _ = SAID.try_with(|said| said.set(Some((self.place, self.id))));
    }
}

/// A waker, the future that put it down, and the job it waits for: within a service its sequence says which.
struct Waiter {
    sequence: u64,
    ticket: u64,
    waker: Waker,
}

/// Those whose jobs follow each other at a distance. There are about as many of these as jobs, so each holds one waiter and
/// seldom more, and that one beside the lock; two cache lines, for they are fetched in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    first: Option<Waiter>,
    more: Vec<Waiter>,
}

impl Waiters {
    fn find(&mut self, is: impl Fn(&Waiter) -> bool) -> Option<&mut Waiter> {
        self.first.iter_mut().chain(&mut self.more).find(|waiter| is(waiter))
    }

    fn remove(&mut self, is: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        if self.first.as_ref().map_or(false, &is) {
            let next = self.more.pop();
            return mem::replace(&mut self.first, next);
        }
        self.more.iter().position(is).map(|place| self.more.swap_remove(place))
    }

    fn add(&mut self, waiter: Waiter) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.more.push(waiter),
        }
    }
}

const MOST_SHARDS: usize = 4096;

struct Waiting {
    by_id: Vec<Shard>,
    /// Those that wait for a place, an epoch, or the end.
    others: Wakers,
    /// Jobs whose future was dropped inside a notifier, where nothing can be cancelled.
    orphans: Mutex<Vec<JobId>>,
    orphans_count: AtomicUsize,
}

impl Waiting {
    fn new(jobs: u32) -> Waiting {
        let shards = (jobs as usize).clamp(1, MOST_SHARDS).next_power_of_two();
        Waiting {
            by_id: (0..shards).map(|_| Shard::default()).collect(),
            others: Wakers::default(),
            orphans: Mutex::default(),
            orphans_count: AtomicUsize::new(0),
        }
    }

    fn address(&self) -> usize {
        self as *const Waiting as usize
    }

    fn shard(&self, sequence: u64) -> MutexGuard<'_, Waiters> {
        lock(&self.by_id[sequence as usize & (self.by_id.len() - 1)].0)
    }

    /// Puts a waker down, unless one that does the same lies there from an earlier poll.
    fn wait_for(&self, id: JobId, ticket: u64, again: bool, waker: &Waker) {
        let sequence = id.0.sequence;
        let mine = |waiter: &Waiter| waiter.ticket == ticket;
        if again && self.shard(sequence).find(mine).map_or(false, |before| before.waker.will_wake(waker)) {
            return;
        }
        let mut waker = waker.clone();
        let mut shard = self.shard(sequence);
        match shard.find(mine) {
            Some(before) => {
                mem::swap(&mut before.waker, &mut waker);
                drop(shard);
                drop(waker);
            }
            None => shard.add(Waiter { sequence, ticket, waker }),
        }
    }

    fn stop_waiting_for(&self, id: JobId, ticket: u64) {
        let mine = self.shard(id.0.sequence).remove(|waiter| waiter.ticket == ticket);
        drop(mine); // the lock is released by now
    }

    /// Whether there was any.
    fn wake_those_of(&self, sequence: u64) -> bool {
        let mut any = false;
        loop {
            let mut shard = self.shard(sequence);
            let found = shard.remove(|waiter| waiter.sequence == sequence);
            let more = shard.find(|waiter| waiter.sequence == sequence).is_some();
            drop(shard);
            any |= found.is_some();
            if let Some(waiter) = found {
                wake(waiter.waker);
            }
            if !more {
                return any;
            }
        }
    }

    /// The notifier: on whatever thread made a change.
    fn changed(&self) {
        let said = SAID.try_with(Cell::take).unwrap_or(None);
        match said {
            Some((place, id)) if place == self.address() => {
                if id.sequence != 0 && self.wake_those_of(id.sequence) {
                    return; // it was waited for, so it holds its place until it is taken
                }
            }
            other => {
                let _ = SAID.try_with(|said| said.set(other));
                for shard in &self.by_id {
                    let all = mem::take(&mut *lock(&shard.0));
                    all.first.into_iter().chain(all.more).for_each(|waiter| wake(waiter.waker));
                }
            }
        }
        self.others.wake_all();
    }
}

/// What the futures have in common: their service, and the number under which each puts its waker down.
struct Ticket<I: Send, O: Send> {
    shared: Arc<Shared<I, O>>,
    number: u64,
    /// The job whose end is waited for, and whether a waker was put down for it.
    job: Option<(JobId, bool)>,
    /// Whether a waker was put down for other changes.
    others: bool,
}

impl<I: Send, O: Send> Ticket<I, O> {
    fn new(shared: &Arc<Shared<I, O>>, job: Option<JobId>) -> Self {
        let number = shared.tickets.fetch_add(1, Ordering::Relaxed);
        Ticket { shared: shared.clone(), number, job: job.map(|id| (id, false)), others: false }
    }

    fn wait_for_others(&mut self, context: &Context<'_>) {
        self.others = true;
        self.shared.waiting.others.put(self.number, context.waker());
    }

    fn stop_waiting_for_others(&mut self) {
        if mem::take(&mut self.others) {
            self.shared.waiting.others.remove(self.number);
        }
    }

    /// Asks with a waker put down: what changes after the asking calls it.
    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        ask: impl FnOnce(&raw::Service<I, O>) -> Result<T>,
    ) -> Poll<Result<T>> {
        self.wait_for_others(context);
        let answer = ask(&self.shared.service.service);
        if answer.as_ref().err() == Some(&Error::Pending) {
            return Poll::Pending;
        }
        self.stop_waiting_for_others();
        Poll::Ready(answer)
    }

    fn poll_submit(
        &mut self,
        context: &Context<'_>,
        kept: &mut Option<I>,
    ) -> Poll<std::result::Result<JobId, Refused<I>>> {
        self.shared.cancel_orphans();
        let mut input = kept.take().expect("a future was polled after its end");
        loop {
            match self.shared.service.submit_quietly(input) {
                Err(Refused::Saturated { input: back, epoch }) => {
                    self.wait_for_others(context);
                    if raw::epoch(&self.shared.service.service).map(Epoch) == Ok(epoch) {
                        *kept = Some(back);
                        return Poll::Pending;
                    }
                    input = back; // a place became free, or the service says why it cannot be asked
                }
                answer => {
                    self.stop_waiting_for_others();
                    return Poll::Ready(answer);
                }
            }
        }
    }

    fn poll_take(&mut self, context: &Context<'_>) -> Poll<Result<O>> {
        let (id, waits) = self.job.expect("a future was polled after its end");
        let mut taken = if waits { self.shared.try_take(id) } else { None };
        if taken.is_none() {
            self.job = Some((id, true));
            self.shared.waiting.wait_for(id, self.number, waits, context.waker());
            // The second look only asks: taking would call the waker that was just put down.
            if matches!(self.shared.service.query_quietly(id), Ok(JobState::Queued | JobState::Running)) {
                return Poll::Pending;
            }
            self.shared.waiting.stop_waiting_for(id, self.number);
            taken = self.shared.try_take(id);
        }
        match taken {
            None => unreachable!("a job that is neither queued nor running has ended"),
            // Polled inside a notifier, where nothing can be taken: the job is left to the end of the future.
            Some(Err(error @ Error::Reentrant(_))) => Poll::Ready(Err(error)),
            // As a wait in a thread ends: there is nothing left to be known of the job.
            Some(Err(Error::Unknown(_))) if waits && self.shared.is_shut_down() => {
                self.job = None;
                Poll::Ready(Err(Error::Closed))
            }
            Some(answer) => {
                // A waker that still lies there is on its way to be called: by who ended the job, and has not told yet.
                self.job = None;
                if answer.as_ref().err() == Some(&Error::WorkerLost) {
                    self.shared.service.panics.raise();
                }
                Poll::Ready(answer)
            }
        }
    }
}

impl<I: Send, O: Send> Drop for Ticket<I, O> {
    fn drop(&mut self) {
        self.stop_waiting_for_others();
        if let Some((id, waits)) = self.job.take() {
            if waits {
                self.shared.waiting.stop_waiting_for(id, self.number);
            }
            self.shared.give_up(id);
        }
    }
}

impl<I: Send, O: Send> Shared<I, O> {
    /// Takes an output; None when the job has not ended. Whoever else waits for the job was woken by its end, so the notifier
    /// is told beforehand that it need not.
    fn try_take(&self, id: JobId) -> Option<Result<O>> {
        self.cancel_orphans();
        let said = (self.waiting.address(), raw::NO_JOB);
        let outer = SAID.try_with(|place| place.replace(Some(said))).unwrap_or(None);
        let taken = raw::take(&self.service.service, id.0, &Wait::none().raw());
        let _ = SAID.try_with(|place| place.set(outer));
        match taken {
            Err(Error::Pending) => None,
            Err(error) => Some(Err(error)),
            Ok(output) => Some(Ok(output.into_value().expect("a completed job has an output"))),
        }
    }

    fn is_shut_down(&self) -> bool {
        raw::count(&self.service.service).map_or(false, |counts| counts.accepting == 0)
    }

    /// For a future that is dropped. What comes back is dropped here.
    fn give_up(&self, id: JobId) {
        if let Err(Error::Reentrant(_)) = raw::cancel(&self.service.service, id.0).map(drop) {
            let mut orphans = lock(&self.waiting.orphans);
            orphans.push(id);
            self.waiting.orphans_count.store(orphans.len(), Ordering::Release);
        }
    }

    fn cancel_orphans(&self) {
        if self.waiting.orphans_count.load(Ordering::Acquire) != 0 {
            let mut orphans = lock(&self.waiting.orphans);
            let all = mem::take(&mut *orphans);
            self.waiting.orphans_count.store(0, Ordering::Release);
            drop(orphans);
            all.into_iter().for_each(|id| self.give_up(id));
        }
    }
}

// ---- The futures -----------------------------------------------------------------------------------------------

macro_rules! common {
    ($($name:ident)*) => {$(
        // None of them points into itself.
        impl<I: Send, O: Send> Unpin for $name<I, O> {}

        impl<I: Send, O: Send> fmt::Debug for $name<I, O> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
common!(Run Submit Take WaitEpoch Drained);

/// The future of [`AsyncBlocking::run`]. Dropped before its end, it asks for cancel.
#[must_use = "a future does nothing before it is polled"]
pub struct Run<I: Send, O: Send> {
    ticket: Ticket<I, O>,
    input: Option<I>,
}

impl<I: Send, O: Send> Future for Run<I, O> {
    type Output = Result<O>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<O>> {
        let Run { ticket, input } = self.get_mut();
        if ticket.job.is_none() {
            match ticket.poll_submit(context, input) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => ticket.job = Some((answer?, false)),
            }
        }
        ticket.poll_take(context)
    }
}

/// The future of [`AsyncBlocking::submit`].
#[must_use = "a future does nothing before it is polled"]
pub struct Submit<I: Send, O: Send> {
    ticket: Ticket<I, O>,
    input: Option<I>,
}

impl<I: Send, O: Send> Future for Submit<I, O> {
    type Output = std::result::Result<JobId, Refused<I>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Submit { ticket, input } = self.get_mut();
        ticket.poll_submit(context, input)
    }
}

/// The future of [`AsyncBlocking::take`]. Dropped before its end, polled or not, it asks for cancel.
#[must_use = "a future does nothing before it is polled"]
pub struct Take<I: Send, O: Send> {
    ticket: Ticket<I, O>,
}

impl<I: Send, O: Send> Future for Take<I, O> {
    type Output = Result<O>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<O>> {
        self.ticket.poll_take(context)
    }
}

/// The future of [`AsyncBlocking::wait_epoch`].
#[must_use = "a future does nothing before it is polled"]
pub struct WaitEpoch<I: Send, O: Send> {
    ticket: Ticket<I, O>,
    later_than: Epoch,
}

impl<I: Send, O: Send> Future for WaitEpoch<I, O> {
    type Output = Result<Epoch>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Epoch>> {
        let WaitEpoch { ticket, later_than } = self.get_mut();
        let now = ticket.poll(context, |service| raw::wait_epoch(service, later_than.0, &Wait::none().raw()));
        now.map_ok(Epoch)
    }
}

/// The future of [`AsyncBlocking::drained`].
#[must_use = "a future does nothing before it is polled"]
pub struct Drained<I: Send, O: Send> {
    ticket: Ticket<I, O>,
}

impl<I: Send, O: Send> Future for Drained<I, O> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.ticket.poll(context, |service| raw::drained(service, &Wait::none().raw()))
    }
}
