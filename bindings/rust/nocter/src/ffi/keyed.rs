//! The keyed queue, its passes, and what C calls back: served closures and the source of a resync.

use super::base::{Borrowed, Wait};
use super::handle::{Guard, Handle};
use super::notifier::{Notifier, NOBODY};
use super::serve::{start_threads, Served, Threads, Workers};
use crate::error::{check, Error, Result};
use crate::panics::{self, Panics};
use nocter_sys as sys;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::slice;
use std::sync::Arc;

pub(crate) type Queue = Handle<sys::nocter_keyed>;

pub(crate) struct Pass {
    guard: Guard<sys::nocter_pass>,
}

/// A pass as the served closure sees it, for the length of one call on one thread.
pub(crate) struct Lent<'a> {
    pass: *mut sys::nocter_pass,
    call: PhantomData<&'a Cell<()>>,
}

// ---- The queue ---------------------------------------------------------------------------------------------

/// The numbers of the C options; None leaves the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) maximum_keys: Option<u32>,
    pub(crate) workers: Option<u32>,
    pub(crate) maximum_key_size: Option<u32>,
    pub(crate) wait_spins: Option<u32>,
    pub(crate) wait_yields: Option<u32>,
    pub(crate) backoff_initial_ns: Option<i64>,
    pub(crate) backoff_maximum_ns: Option<i64>,
    pub(crate) backoff_percent: Option<u32>,
    pub(crate) backoff_jitter_percent: Option<u32>,
}

pub(crate) fn create(numbers: Numbers, waiters: Option<Notifier>, work: Option<Notifier>) -> Result<Queue> {
    let mut options = sys::nocter_keyed_options {
        size: 0,
        maximum_keys: 0,
        workers: 0,
        maximum_key_size: 0,
        waiters: NOBODY,
        work: NOBODY,
        wait_spins: 0,
        wait_yields: 0,
        backoff_initial_ns: 0,
        backoff_maximum_ns: 0,
        backoff_percent: 0,
        backoff_jitter_percent: 0,
    };
    unsafe { sys::nocter_keyed_options_init(&mut options, mem::size_of::<sys::nocter_keyed_options>()) };
    options.maximum_keys = numbers.maximum_keys.unwrap_or(options.maximum_keys);
    options.workers = numbers.workers.unwrap_or(options.workers);
    options.maximum_key_size = numbers.maximum_key_size.unwrap_or(options.maximum_key_size);
    options.wait_spins = numbers.wait_spins.unwrap_or(options.wait_spins);
    options.wait_yields = numbers.wait_yields.unwrap_or(options.wait_yields);
    options.backoff_initial_ns = numbers.backoff_initial_ns.unwrap_or(options.backoff_initial_ns);
    options.backoff_maximum_ns = numbers.backoff_maximum_ns.unwrap_or(options.backoff_maximum_ns);
    options.backoff_percent = numbers.backoff_percent.unwrap_or(options.backoff_percent);
    options.backoff_jitter_percent = numbers.backoff_jitter_percent.unwrap_or(options.backoff_jitter_percent);
    options.waiters = waiters.as_ref().map_or(NOBODY, Notifier::lend);
    options.work = work.as_ref().map_or(NOBODY, Notifier::lend);
    let queue = Handle::made_by(|out| unsafe { sys::nocter_keyed_create(&options, out) })?;
    for notifier in [waiters, work].into_iter().flatten() {
        notifier.taken_over();
    }
    Ok(queue)
}

fn text(key: &[u8]) -> sys::nocter_text {
    sys::nocter_text { data: key.as_ptr().cast(), size: key.len() }
}

pub(crate) fn notify(queue: &Queue, key: &[u8]) -> sys::nocter_status {
    unsafe { sys::nocter_keyed_notify(queue.pointer(), text(key)) }
}

pub(crate) fn notify_after(queue: &Queue, key: &[u8], delay_ns: i64) -> sys::nocter_status {
    unsafe { sys::nocter_keyed_notify_after(queue.pointer(), text(key), delay_ns) }
}

/// What was said to each; an error when the call as a whole has failed.
pub(crate) fn notify_many(queue: &Queue, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<Vec<sys::nocter_status>> {
    let texts: Vec<sys::nocter_text> = keys.map(text).collect();
    let mut each = vec![sys::NOCTER_OK; texts.len()];
    let status =
        unsafe { sys::nocter_keyed_notify_many(queue.pointer(), texts.as_ptr(), texts.len(), each.as_mut_ptr()) };
    if status < 0 {
        check(status)?;
    }
    Ok(each)
}

pub(crate) fn claim(queue: &Queue, wait: &Wait<'_>) -> Result<Pass> {
    let pass = Handle::made_by(|out| unsafe { sys::nocter_keyed_claim(queue.pointer(), wait.pointer(), out) })?;
    Ok(Pass { guard: Guard::new(pass) })
}

pub(crate) fn next_due(queue: &Queue) -> Result<i64> {
    let mut due = 0;
    check(unsafe { sys::nocter_keyed_next_due(queue.pointer(), &mut due) })?;
    Ok(due)
}

pub(crate) fn close(queue: &Queue, mode: sys::nocter_close_mode) {
    unsafe { sys::nocter_keyed_close(queue.pointer(), mode) }
}

pub(crate) fn drained(queue: &Queue, wait: &Wait<'_>) -> Result<()> {
    check(unsafe { sys::nocter_keyed_drained(queue.pointer(), wait.pointer()) })
}

pub(crate) fn count(queue: &Queue) -> Result<sys::nocter_keyed_counts> {
    // All zero is a valid value of a struct of numbers.
    let mut counts: sys::nocter_keyed_counts = unsafe { mem::zeroed() };
    unsafe { sys::nocter_keyed_counts_init(&mut counts, mem::size_of::<sys::nocter_keyed_counts>()) };
    check(unsafe { sys::nocter_keyed_count(queue.pointer(), &mut counts) })?;
    Ok(counts)
}

// ---- Passes ------------------------------------------------------------------------------------------------

/// # Safety
/// The guard is valid, and lives for `'a`.
unsafe fn key_of<'a>(pass: *const sys::nocter_pass) -> &'a [u8] {
    let key = sys::nocter_pass_key(pass);
    match key.size {
        0 => &[],
        size => slice::from_raw_parts(key.data.cast(), size),
    }
}

/// How a pass ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Complete,
    Fail,
    /// Due again so long from now; negative: backoff.
    Retry(i64),
}

unsafe fn end_by(pass: *mut sys::nocter_pass, end: End) -> sys::nocter_status {
    match end {
        End::Complete => sys::nocter_pass_complete(pass),
        End::Fail => sys::nocter_pass_fail(pass),
        End::Retry(delay_ns) => sys::nocter_pass_retry_after(pass, delay_ns),
    }
}

impl Pass {
    /// As the served closures see it.
    pub(crate) fn lent(&self) -> Lent<'_> {
        Lent { pass: self.guard.handle.pointer(), call: PhantomData }
    }

    pub(crate) fn key(&self) -> &[u8] {
        // It lives as long as the guard, which stays borrowed.
        unsafe { key_of(self.guard.handle.pointer()) }
    }

    pub(crate) fn interrupt(&self) -> Borrowed<'_> {
        unsafe { Borrowed::from_raw(sys::nocter_pass_interrupt(self.guard.handle.pointer())) }
    }

    /// Consumes it only when it works.
    pub(crate) fn end(self, end: End) -> std::result::Result<(), (Error, Pass)> {
        match check(unsafe { end_by(self.guard.handle.pointer(), end) }) {
            Ok(()) => {
                self.guard.handle.release();
                Ok(())
            }
            Err(error) => Err((error, self)),
        }
    }
}

impl Lent<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        unsafe { key_of(self.pass) }
    }

    pub(crate) fn failures(&self) -> u32 {
        unsafe { sys::nocter_pass_failures(self.pass) }
    }

    pub(crate) fn interrupted(&self) -> bool {
        unsafe { sys::nocter_pass_interrupted(self.pass) }
    }

    pub(crate) fn interrupt(&self) -> Borrowed<'_> {
        unsafe { Borrowed::from_raw(sys::nocter_pass_interrupt(self.pass)) }
    }
}

// ---- Closures on the library's threads ---------------------------------------------------------------------

pub(crate) fn serve<F>(queue: &Queue, run: F, threads: &Threads, panics: &Arc<Panics>) -> Result<Workers>
where
    F: Fn(Lent<'_>) -> End + Send + Sync + 'static,
{
    start_threads(run, threads, panics, |user, options, out| unsafe {
        sys::nocter_keyed_serve(queue.pointer(), Some(run_pass::<F>), user, options, out)
    })
}

/// Makes one pass. A panic is kept before the pass ends, so that who is told of its end finds it.
unsafe extern "C" fn run_pass<F>(
    user: *mut c_void,
    _key: sys::nocter_text,
    pass: *mut sys::nocter_pass,
) -> sys::nocter_status
where
    F: Fn(Lent<'_>) -> End,
{
    let served = &*user.cast::<Served<F>>();
    let done = catch_unwind(AssertUnwindSafe(|| (served.run)(Lent { pass, call: PhantomData })));
    let end = done.unwrap_or_else(|caught| {
        served.panics.keep(caught);
        End::Fail
    });
    end_by(pass, end)
}

// ---- Resync ------------------------------------------------------------------------------------------------

/// A closure that gives keys, and the key that C still reads.
struct Source<S, K> {
    next: S,
    key: Option<K>,
    panics: Arc<Panics>,
}

pub(crate) fn resync<S, K>(queue: &Queue, next: S, interval_ns: i64, slice: u32, panics: &Arc<Panics>) -> Result<()>
where
    S: FnMut() -> Option<K> + Send + 'static,
    K: AsRef<[u8]> + Send + 'static,
{
    let source = Box::into_raw(Box::new(Source { next, key: None::<K>, panics: panics.clone() }));
    let raw =
        sys::nocter_keyed_source { next: Some(next_key::<S, K>), drop: Some(end_source::<S, K>), user: source.cast() };
    check(unsafe { sys::nocter_keyed_resync(queue.pointer(), &raw, interval_ns, slice) }).map_err(|error| {
        // Not taken over, so it is still ours.
        drop(unsafe { Box::from_raw(source) });
        error
    })
}

pub(crate) fn end_resync(queue: &Queue) -> Result<()> {
    check(unsafe { sys::nocter_keyed_resync(queue.pointer(), ptr::null(), 0, 0) })
}

/// Called by the threads that claim, one at a time. A panic ends the slice, and is raised by the next call on the queue
/// that has no value to give, whichever thread that is on.
unsafe extern "C" fn next_key<S, K>(user: *mut c_void, out_key: *mut sys::nocter_text) -> sys::nocter_status
where
    S: FnMut() -> Option<K>,
    K: AsRef<[u8]>,
{
    let source = &mut *user.cast::<Source<S, K>>();
    let given = catch_unwind(AssertUnwindSafe(|| {
        source.key = (source.next)();
        source.key.as_ref().map(|key| text(key.as_ref()))
    }));
    match given {
        Ok(Some(key)) => {
            *out_key = key;
            sys::NOCTER_OK
        }
        Ok(None) => sys::NOCTER_EMPTY,
        Err(caught) => {
            source.panics.keep(caught);
            sys::NOCTER_E_STATE
        }
    }
}

/// Called when the queue lets go of it.
unsafe extern "C" fn end_source<S, K>(user: *mut c_void) {
    panics::shield(|| drop(Box::from_raw(user.cast::<Source<S, K>>())));
}
