//! Awaiting any call that waits, of any service.

use crate::error::{Error, Result};
use crate::{panics, Notifier};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{fence, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A waker is code of somebody else's: it is cloned, called and dropped with no lock held, and a panic of one does not keep
/// the others from being called.
pub(crate) fn wake(waker: Waker) {
    panics::shield(|| waker.wake());
}

/// The wakers of futures that look again after every change, oldest first.
#[derive(Default)]
pub(crate) struct Wakers {
    all: Mutex<BTreeMap<u64, Waker>>,
    count: AtomicUsize,
}

impl Wakers {
    /// What changes after this calls the waker.
    pub(crate) fn put(&self, ticket: u64, waker: &Waker) {
        if !lock(&self.all).get(&ticket).map_or(false, |before| before.will_wake(waker)) {
            let waker = waker.clone();
            let mut all = lock(&self.all);
            let before = all.insert(ticket, waker);
            self.count.store(all.len(), Ordering::Relaxed);
            drop(all);
            drop(before);
        }
        // Whoever makes a change after what the future looks at next sees that somebody waits.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, ticket: u64) {
        let mut all = lock(&self.all);
        let gone = all.remove(&ticket);
        self.count.store(all.len(), Ordering::Relaxed);
        drop(all);
        drop(gone);
    }

    /// After a change.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) != 0 {
            let mut all = lock(&self.all);
            let woken = mem::take(&mut *all);
            self.count.store(0, Ordering::Relaxed);
            drop(all);
            woken.into_iter().for_each(|(_, waker)| wake(waker));
        }
    }
}

/// What services tell futures by: any call that would wait in a thread can be awaited, on any executor.
///
/// ```
/// use nocter::{Retirement, RetirementOptions, Wait, Watch};
/// # use std::{future::Future, sync::Arc, task::{Context, Poll, Wake}, thread};
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
/// let watch = Watch::new();
/// let retirement = Retirement::<String>::new(RetirementOptions::new().waiters(watch.notifier()))?;
/// let _threads = retirement.serve(&Default::default())?;
/// let permit = block_on(watch.until(|| Ok(retirement.reserve()?)))?; // or `.await`
/// let id = permit.attach("closing it may take a while".to_string()).retire()?;
/// assert_eq!(block_on(watch.until(|| retirement.take(id, &Wait::none())))?, 0);
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// Each change wakes everybody who waits by the same watch; for jobs there is [`AsyncBlocking`](crate::AsyncBlocking), whose
/// futures are woken by name.
#[derive(Clone, Default)]
pub struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    wakers: Wakers,
    tickets: AtomicU64,
}

impl Watch {
    /// Makes one that nobody waits by.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// To be given to services, as their `waiters` or their `work`.
    pub fn notifier(&self) -> Notifier {
        let told = self.shared.clone();
        Notifier::new(move || told.wakers.wake_all())
    }

    /// What the call returns once it is no longer [`Error::Pending`], [`Error::Empty`] or [`Error::Saturated`]. It is made
    /// when the future is first polled and after changes, and must not wait. Dropping the future ends the asking.
    pub fn until<T, F: FnMut() -> Result<T>>(&self, call: F) -> Until<F> {
        let ticket = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
        Until { shared: self.shared.clone(), ticket, call }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").field("waiting", &lock(&self.shared.wakers.all).len()).finish()
    }
}

/// The future of [`Watch::until`].
#[must_use = "a future does nothing before it is polled"]
pub struct Until<F> {
    shared: Arc<Shared>,
    ticket: u64,
    call: F,
}

// The call is made, never pointed into.
impl<F> Unpin for Until<F> {}

impl<T, F: FnMut() -> Result<T>> Future for Until<F> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let Until { shared, ticket, call } = self.get_mut();
        shared.wakers.put(*ticket, context.waker());
        match call() {
            Err(Error::Pending | Error::Empty | Error::Saturated) => Poll::Pending,
            answer => {
                shared.wakers.remove(*ticket);
                Poll::Ready(answer)
            }
        }
    }
}

impl<F> Drop for Until<F> {
    fn drop(&mut self) {
        self.shared.wakers.remove(self.ticket);
    }
}

impl<F> fmt::Debug for Until<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Until").finish_non_exhaustive()
    }
}
