//! The blocking service and its guards, with the types of what they carry.

use super::base::{Borrowed, Wait};
use super::handle::{Guard, Handle};
use super::notifier::{Notifier, NOBODY};
use super::payload::{types, Payload, Types, NOTHING};
use crate::error::{check, Result};
use crate::panics;
use nocter_sys as sys;
use std::mem;
use std::os::raw::c_void;

pub(crate) struct Service<I, O> {
    pub(super) handle: Handle<sys::nocter_blocking>,
    _types: Types<(I, O)>,
}

pub(crate) struct RunningJob<I, O> {
    guard: Guard<sys::nocter_running_job>,
    _types: Types<(I, O)>,
}

pub(crate) struct Completion<O> {
    guard: Guard<sys::nocter_completion>,
    _types: Types<O>,
}

// ---- The service -------------------------------------------------------------------------------------------

/// The numbers of the C options; None leaves the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) maximum_jobs: Option<u32>,
    pub(crate) workers: Option<u32>,
    pub(crate) wait_spins: Option<u32>,
    pub(crate) wait_yields: Option<u32>,
}

pub(crate) fn create<I: Send, O: Send>(
    numbers: Numbers,
    waiters: Option<Notifier>,
    work: Option<Notifier>,
) -> Result<Service<I, O>> {
    let mut options = sys::nocter_blocking_options {
        size: 0,
        maximum_jobs: 0,
        workers: 0,
        reserved: 0,
        waiters: NOBODY,
        work: NOBODY,
        wait_spins: 0,
        wait_yields: 0,
    };
    unsafe { sys::nocter_blocking_options_init(&mut options, mem::size_of::<sys::nocter_blocking_options>()) };
    options.maximum_jobs = numbers.maximum_jobs.unwrap_or(options.maximum_jobs);
    options.workers = numbers.workers.unwrap_or(options.workers);
    options.wait_spins = numbers.wait_spins.unwrap_or(options.wait_spins);
    options.wait_yields = numbers.wait_yields.unwrap_or(options.wait_yields);
    options.waiters = waiters.as_ref().map_or(NOBODY, Notifier::lend);
    options.work = work.as_ref().map_or(NOBODY, Notifier::lend);
    let handle = Handle::made_by(|out| unsafe { sys::nocter_blocking_create(&options, out) })?;
    for notifier in [waiters, work].into_iter().flatten() {
        notifier.taken_over();
    }
    Ok(Service { handle, _types: types() })
}

/// The status as it is: what goes with it differs.
pub(crate) fn submit<I, O>(
    service: &Service<I, O>,
    input: &mut Payload<I>,
) -> (sys::nocter_status, sys::nocter_job_id, sys::nocter_epoch) {
    let mut id = NO_JOB;
    let mut epoch = NO_EPOCH;
    let handle = service.handle.pointer();
    let status = unsafe { sys::nocter_blocking_submit(handle, input.pointer(), &mut id, &mut epoch) };
    (status, id, epoch)
}

pub(crate) fn claim<I, O>(service: &Service<I, O>, wait: &Wait<'_>) -> Result<RunningJob<I, O>> {
    let handle = service.handle.pointer();
    let job = Handle::made_by(|out| unsafe { sys::nocter_blocking_claim(handle, wait.pointer(), out) })?;
    Ok(RunningJob { guard: Guard::new(job), _types: types() })
}

pub(crate) fn take<I, O>(service: &Service<I, O>, id: sys::nocter_job_id, wait: &Wait<'_>) -> Result<Payload<O>> {
    let mut output = NOTHING;
    check(unsafe { sys::nocter_blocking_take(service.handle.pointer(), id, wait.pointer(), &mut output) })?;
    // Outputs of this service are made by completions of its type, and by the served closures of its type.
    Ok(unsafe { Payload::from_raw(output) })
}

/// What was taken: an output, unless its worker was lost.
pub(crate) type Taken<O> = (sys::nocter_job_id, Option<Payload<O>>);

pub(crate) fn take_many<I, O>(service: &Service<I, O>, capacity: usize, wait: &Wait<'_>) -> Result<Vec<Taken<O>>> {
    let none = || sys::nocter_taken { id: NO_JOB, output: NOTHING, status: 0, reserved: 0 };
    let mut room: Vec<_> = std::iter::repeat_with(none).take(capacity).collect();
    let mut count = 0;
    let handle = service.handle.pointer();
    let status =
        unsafe { sys::nocter_blocking_take_many(handle, wait.pointer(), room.as_mut_ptr(), room.len(), &mut count) };
    check(status)?;
    room.truncate(count);
    // As in take().
    let completed = |status| status == sys::NOCTER_OK as sys::nocter_status;
    let output = |taken: sys::nocter_taken| {
        (taken.id, completed(taken.status).then(|| unsafe { Payload::from_raw(taken.output) }))
    };
    Ok(room.into_iter().map(output).collect())
}

pub(crate) fn query<I, O>(service: &Service<I, O>, id: sys::nocter_job_id) -> Result<sys::nocter_job_state> {
    let mut state = 0;
    check(unsafe { sys::nocter_blocking_query(service.handle.pointer(), id, &mut state) })?;
    Ok(state)
}

pub(crate) fn completed<I, O>(service: &Service<I, O>, ids: &mut [sys::nocter_job_id]) -> Result<usize> {
    let mut count = 0;
    let handle = service.handle.pointer();
    check(unsafe { sys::nocter_blocking_completed(handle, ids.as_mut_ptr(), ids.len(), &mut count) })?;
    Ok(count)
}

/// What a job or a value that shutdown hands back was.
pub(crate) enum Was<I, O> {
    Queued(Payload<I>),
    Running,
    Completed(Payload<O>),
}

/// # Safety
/// `value` came with this state from a service of these types, and nobody else will end it.
unsafe fn was<I, O>(state: sys::nocter_job_state, value: sys::nocter_owned) -> Was<I, O> {
    match state as sys::nocter_job_state_code {
        sys::NOCTER_JOB_QUEUED => Was::Queued(Payload::from_raw(value)),
        sys::NOCTER_JOB_COMPLETED => Was::Completed(Payload::from_raw(value)),
        _ => Was::Running,
    }
}

pub(crate) fn cancel<I, O>(service: &Service<I, O>, id: sys::nocter_job_id) -> Result<Was<I, O>> {
    let mut state = 0;
    let mut value = NOTHING;
    check(unsafe { sys::nocter_blocking_cancel(service.handle.pointer(), id, &mut state, &mut value) })?;
    Ok(unsafe { was(state, value) })
}

pub(crate) fn epoch<I, O>(service: &Service<I, O>) -> Result<sys::nocter_epoch> {
    let mut epoch = NO_EPOCH;
    check(unsafe { sys::nocter_blocking_epoch(service.handle.pointer(), &mut epoch) })?;
    Ok(epoch)
}

pub(crate) fn wait_epoch<I, O>(
    service: &Service<I, O>,
    later_than: sys::nocter_epoch,
    wait: &Wait<'_>,
) -> Result<sys::nocter_epoch> {
    let mut epoch = NO_EPOCH;
    let handle = service.handle.pointer();
    check(unsafe { sys::nocter_blocking_wait_epoch(handle, later_than, wait.pointer(), &mut epoch) })?;
    Ok(epoch)
}

/// What the trampoline of shutdown is given: the closure, until it has panicked.
struct Sink<'a, I, O> {
    run: Option<&'a mut dyn FnMut(Was<I, O>)>,
}

pub(crate) fn shutdown<I, O>(service: &Service<I, O>, sink: &mut dyn FnMut(Was<I, O>)) -> Result<()> {
    let mut sink = Sink { run: Some(sink) };
    let user = (&mut sink as *mut Sink<'_, I, O>).cast();
    check(unsafe { sys::nocter_blocking_shutdown(service.handle.pointer(), Some(hand_back::<I, O>), user) })
}

/// Called in the thread that shuts down. After a panic the rest is left to the service, which drops it.
unsafe extern "C" fn hand_back<I, O>(user: *mut c_void, state: sys::nocter_job_state, value: *mut sys::nocter_owned) {
    let sink = &mut *user.cast::<Sink<'_, I, O>>();
    if let Some(run) = sink.run.take() {
        let value = was(state, mem::replace(&mut *value, NOTHING));
        sink.run = panics::shield(move || {
            run(value);
            run
        });
    }
}

pub(crate) fn drained<I, O>(service: &Service<I, O>, wait: &Wait<'_>) -> Result<()> {
    check(unsafe { sys::nocter_blocking_drained(service.handle.pointer(), wait.pointer()) })
}

pub(crate) fn count<I, O>(service: &Service<I, O>) -> Result<sys::nocter_blocking_counts> {
    // All zero is a valid value of a struct of numbers.
    let mut counts: sys::nocter_blocking_counts = unsafe { mem::zeroed() };
    unsafe { sys::nocter_blocking_counts_init(&mut counts, mem::size_of::<sys::nocter_blocking_counts>()) };
    check(unsafe { sys::nocter_blocking_count(service.handle.pointer(), &mut counts) })?;
    Ok(counts)
}

// ---- Guards ------------------------------------------------------------------------------------------------

pub(crate) fn running_job_id<I, O>(job: &RunningJob<I, O>) -> sys::nocter_job_id {
    unsafe { sys::nocter_running_job_id(job.guard.handle.pointer()) }
}

pub(crate) fn begin<I, O>(job: RunningJob<I, O>) -> Result<(Payload<I>, Completion<O>)> {
    let mut input = NOTHING;
    let pointer = job.guard.handle.pointer();
    let completion = Handle::made_by(|out| unsafe { sys::nocter_running_job_begin(pointer, &mut input, out) })?;
    job.guard.handle.release();
    let completion = Completion { guard: Guard::new(completion), _types: types() };
    Ok((unsafe { Payload::from_raw(input) }, completion))
}

pub(crate) fn completion_id<O>(completion: &Completion<O>) -> sys::nocter_job_id {
    unsafe { sys::nocter_completion_id(completion.guard.handle.pointer()) }
}

pub(crate) fn abandoned<O>(completion: &Completion<O>) -> bool {
    unsafe { sys::nocter_completion_abandoned(completion.guard.handle.pointer()) }
}

pub(crate) fn completion_interrupt<O>(completion: &Completion<O>) -> Borrowed<'_> {
    // It lives as long as the guard, which stays borrowed.
    unsafe { Borrowed::from_raw(sys::nocter_completion_interrupt(completion.guard.handle.pointer())) }
}

/// Consumes both only when it works.
pub(crate) fn complete<O>(
    completion: Completion<O>,
    output: &mut Payload<O>,
) -> std::result::Result<(), (crate::Error, Completion<O>)> {
    let pointer = completion.guard.handle.pointer();
    match check(unsafe { sys::nocter_completion_complete(pointer, output.pointer()) }) {
        Ok(()) => {
            completion.guard.handle.release();
            Ok(())
        }
        Err(error) => Err((error, completion)),
    }
}

// ---- Identities --------------------------------------------------------------------------------------------

pub(crate) const NO_JOB: sys::nocter_job_id = sys::nocter_job_id { service: 0, sequence: 0 };
pub(super) const NO_EPOCH: sys::nocter_epoch = sys::nocter_epoch { service: 0, sequence: 0 };

pub(crate) fn job_id_equal(a: sys::nocter_job_id, b: sys::nocter_job_id) -> bool {
    unsafe { sys::nocter_job_id_equal(a, b) }
}

pub(crate) fn epoch_equal(a: sys::nocter_epoch, b: sys::nocter_epoch) -> bool {
    unsafe { sys::nocter_epoch_equal(a, b) }
}
