//! A closure on the library's own threads.

use super::base::{Borrowed, Wait};
use super::blocking::Service;
use super::payload::{Payload, NOTHING};
use crate::error::{check, Result};
use crate::panics::{self, Panics};
use nocter_sys as sys;
use std::cell::Cell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

/// What a host wants done on each thread.
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

/// How the threads are made; zero and None leave the default.
#[derive(Clone, Default)]
pub(crate) struct Threads {
    pub(crate) threads: u32,
    pub(crate) stack_size: u64,
    pub(crate) name: Option<CString>,
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
}

/// A job as the served closure sees it, for the length of one call on one thread.
pub(crate) struct Lent<'a> {
    completion: *mut sys::nocter_completion,
    call: PhantomData<&'a Cell<()>>,
}

impl Lent<'_> {
    pub(crate) fn id(&self) -> sys::nocter_job_id {
        unsafe { sys::nocter_completion_id(self.completion) }
    }

    pub(crate) fn abandoned(&self) -> bool {
        unsafe { sys::nocter_completion_abandoned(self.completion) }
    }

    pub(crate) fn interrupt(&self) -> Borrowed<'_> {
        unsafe { Borrowed::from_raw(sys::nocter_completion_interrupt(self.completion)) }
    }
}

/// What the threads share. The handle of the workers holds one reference and each thread one more, from its start to
/// its stop; whoever lets go last gives the workers up and drops the closure. So neither side waits for the other: when
/// the handle goes first, the last thread to stop cleans up, and the library does not let a thread wait for itself.
pub(super) struct Served<F> {
    pub(super) run: F,
    start: Option<Hook>,
    stop: Option<Hook>,
    pub(super) panics: Arc<Panics>,
    workers: AtomicPtr<sys::nocter_workers>,
}

impl<F> Drop for Served<F> {
    fn drop(&mut self) {
        // NULL when the workers were never made, and then nothing is done.
        unsafe { sys::nocter_workers_destroy(*self.workers.get_mut()) }
    }
}

/// What the threads of one serve call are held by.
pub(crate) struct Workers {
    workers: *mut sys::nocter_workers,
    /// The other half: a Served of some closure. Dropped after `workers` was used for the last time.
    _served: Arc<dyn Send + Sync>,
}

// The contract of the library: every handle may be used from any thread at once.
unsafe impl Send for Workers {}
unsafe impl Sync for Workers {}

impl Workers {
    pub(crate) fn stop(&self, wait: &Wait<'_>) -> Result<()> {
        check(unsafe { sys::nocter_workers_stop(self.workers, wait.pointer()) })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Asks and does not wait. What it says is of no use here: whoever lets go last gives the workers up.
        let _ = self.stop(&Wait::not());
    }
}

pub(crate) fn serve<I, O, F>(
    service: &Service<I, O>,
    run: F,
    threads: &Threads,
    panics: &Arc<Panics>,
) -> Result<Workers>
where
    I: Send + 'static,
    O: Send + 'static,
    F: Fn(I, Lent<'_>) -> O + Send + Sync + 'static,
{
    start_threads(run, threads, panics, |user, options, out| unsafe {
        sys::nocter_blocking_serve(service.handle.pointer(), Some(run_job::<I, O, F>), user, options, out)
    })
}

/// Makes the threads of any service. `make` passes on what C is told and writes to: what the threads call back with, a
/// [`Served`] of F that lives for as long as they do; the options; and where the workers go.
pub(super) fn start_threads<F: Send + Sync + 'static>(
    run: F,
    threads: &Threads,
    panics: &Arc<Panics>,
    make: impl FnOnce(*mut c_void, *const sys::nocter_workers_options, *mut *mut sys::nocter_workers) -> sys::nocter_status,
) -> Result<Workers> {
    let served = Arc::new(Served {
        run,
        start: threads.start.clone(),
        stop: threads.stop.clone(),
        panics: panics.clone(),
        workers: AtomicPtr::new(ptr::null_mut()),
    });
    let user = Arc::as_ptr(&served) as *mut c_void;
    let options = sys::nocter_workers_options {
        size: mem::size_of::<sys::nocter_workers_options>() as u32,
        threads: threads.threads,
        stack_size: threads.stack_size,
        name: threads.name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        start: Some(start::<F>),
        stop: Some(stop::<F>),
        user,
    };
    let mut workers = ptr::null_mut();
    check(make(user, &options, &mut workers))?;
    served.workers.store(workers, Ordering::Release);
    Ok(Workers { workers, _served: served })
}

fn call(hook: &Option<Hook>) {
    if let Some(hook) = hook {
        hook();
    }
}

/// Called first on each thread. The reference it takes is given back by `stop`, which is called for each thread whose
/// start said OK, and for no other.
unsafe extern "C" fn start<F>(user: *mut c_void) -> sys::nocter_status {
    let served: *const Served<F> = user.cast();
    panics::mark_library_thread(&(*served).panics);
    if panics::shield(|| call(&(*served).start)).is_none() {
        return sys::NOCTER_E_STATE;
    }
    Arc::increment_strong_count(served);
    sys::NOCTER_OK
}

/// Called last on each thread.
unsafe extern "C" fn stop<F>(user: *mut c_void) {
    let served = Arc::from_raw(user.cast::<Served<F>>() as *const Served<F>);
    panics::shield(|| call(&served.stop));
    panics::shield(|| drop(served));
}

/// Runs one job. A panic is kept before the guard is dropped, so that who is told that the worker was lost finds it.
unsafe extern "C" fn run_job<I, O, F>(
    user: *mut c_void,
    input: *mut sys::nocter_owned,
    output: *mut sys::nocter_owned,
    completion: *mut sys::nocter_completion,
) where
    F: Fn(I, Lent<'_>) -> O,
{
    let served = &*user.cast::<Served<F>>();
    let input = Payload::<I>::from_raw(mem::replace(&mut *input, NOTHING));
    let done = catch_unwind(AssertUnwindSafe(|| {
        let input = input.into_value().expect("a submitted job has an input");
        Payload::<O>::new((served.run)(input, Lent { completion, call: PhantomData }))
    }));
    match done {
        Ok(value) => *output = value.into_raw(),
        Err(caught) => {
            served.panics.keep(caught);
            sys::nocter_completion_drop(completion);
        }
    }
}
