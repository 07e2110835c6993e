//! Retirement and its guards, with the type of what they carry.

use super::base::Wait;
use super::blocking::NO_EPOCH;
use super::handle::{Guard, Handle};
use super::notifier::{Notifier, NOBODY};
use super::payload::{types, Payload, Types, NOTHING};
use super::serve::{start_threads, Threads, Workers};
use crate::error::{check, Error, Result};
use crate::panics::Panics;
use nocter_sys as sys;
use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) struct Service<T> {
    handle: Handle<sys::nocter_retirement>,
    _types: Types<T>,
}

pub(crate) struct Permit<T> {
    guard: Guard<sys::nocter_permit>,
    _types: Types<T>,
}

/// The owner of a value that is in the library's hands. Only in a forked child, where nothing can be handed over, the
/// value is kept here.
pub(crate) struct Resource<T> {
    guard: Option<Guard<sys::nocter_resource>>,
    value: NonNull<T>,
    _kept: Payload<T>,
    _types: Types<T>,
}

// It owns the value, and nothing but the value is behind the pointers.
unsafe impl<T: Send> Send for Resource<T> {}

pub(crate) struct Cleanup<T> {
    guard: Guard<sys::nocter_cleanup>,
    _types: Types<T>,
}

// ---- The service -------------------------------------------------------------------------------------------

/// The numbers of the C options; None leaves the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) maximum_resources: Option<u32>,
    pub(crate) workers: Option<u32>,
    pub(crate) wait_spins: Option<u32>,
    pub(crate) wait_yields: Option<u32>,
}

pub(crate) fn create<T: Send>(
    numbers: Numbers,
    waiters: Option<Notifier>,
    work: Option<Notifier>,
) -> Result<Service<T>> {
    let mut options = sys::nocter_retirement_options {
        size: 0,
        maximum_resources: 0,
        workers: 0,
        reserved: 0,
        waiters: NOBODY,
        work: NOBODY,
        wait_spins: 0,
        wait_yields: 0,
    };
    unsafe { sys::nocter_retirement_options_init(&mut options, mem::size_of::<sys::nocter_retirement_options>()) };
    options.maximum_resources = numbers.maximum_resources.unwrap_or(options.maximum_resources);
    options.workers = numbers.workers.unwrap_or(options.workers);
    options.wait_spins = numbers.wait_spins.unwrap_or(options.wait_spins);
    options.wait_yields = numbers.wait_yields.unwrap_or(options.wait_yields);
    options.waiters = waiters.as_ref().map_or(NOBODY, Notifier::lend);
    options.work = work.as_ref().map_or(NOBODY, Notifier::lend);
    let handle = Handle::made_by(|out| unsafe { sys::nocter_retirement_create(&options, out) })?;
    for notifier in [waiters, work].into_iter().flatten() {
        notifier.taken_over();
    }
    Ok(Service { handle, _types: types() })
}

/// The epoch of the same moment comes with what else there is to say.
pub(crate) fn reserve<T>(service: &Service<T>) -> std::result::Result<Permit<T>, (Error, sys::nocter_epoch)> {
    let mut epoch = NO_EPOCH;
    let handle = service.handle.pointer();
    match Handle::made_by(|out| unsafe { sys::nocter_retirement_reserve(handle, out, &mut epoch) }) {
        Ok(permit) => Ok(Permit { guard: Guard::new(permit), _types: types() }),
        Err(error) => Err((error, epoch)),
    }
}

pub(crate) fn claim<T>(service: &Service<T>, wait: &Wait<'_>) -> Result<Cleanup<T>> {
    let handle = service.handle.pointer();
    let cleanup = Handle::made_by(|out| unsafe { sys::nocter_retirement_claim(handle, wait.pointer(), out) })?;
    Ok(Cleanup { guard: Guard::new(cleanup), _types: types() })
}

pub(crate) fn take<T>(service: &Service<T>, id: sys::nocter_retirement_id, wait: &Wait<'_>) -> Result<i32> {
    let mut code = 0;
    check(unsafe { sys::nocter_retirement_take(service.handle.pointer(), id, wait.pointer(), &mut code) })?;
    Ok(code)
}

pub(crate) fn query<T>(service: &Service<T>, id: sys::nocter_retirement_id) -> Result<sys::nocter_retirement_state> {
    let mut state = 0;
    check(unsafe { sys::nocter_retirement_query(service.handle.pointer(), id, &mut state) })?;
    Ok(state)
}

pub(crate) fn detach<T>(service: &Service<T>, id: sys::nocter_retirement_id) -> Result<()> {
    check(unsafe { sys::nocter_retirement_detach(service.handle.pointer(), id) })
}

pub(crate) fn detach_all<T>(service: &Service<T>) {
    unsafe { sys::nocter_retirement_detach_all(service.handle.pointer()) }
}

pub(crate) fn epoch<T>(service: &Service<T>) -> Result<sys::nocter_epoch> {
    let mut epoch = NO_EPOCH;
    check(unsafe { sys::nocter_retirement_epoch(service.handle.pointer(), &mut epoch) })?;
    Ok(epoch)
}

pub(crate) fn wait_epoch<T>(
    service: &Service<T>,
    later_than: sys::nocter_epoch,
    wait: &Wait<'_>,
) -> Result<sys::nocter_epoch> {
    let mut epoch = NO_EPOCH;
    let handle = service.handle.pointer();
    check(unsafe { sys::nocter_retirement_wait_epoch(handle, later_than, wait.pointer(), &mut epoch) })?;
    Ok(epoch)
}

pub(crate) fn close<T>(service: &Service<T>) {
    unsafe { sys::nocter_retirement_close(service.handle.pointer()) }
}

pub(crate) fn drained<T>(service: &Service<T>, wait: &Wait<'_>) -> Result<()> {
    check(unsafe { sys::nocter_retirement_drained(service.handle.pointer(), wait.pointer()) })
}

pub(crate) fn count<T>(service: &Service<T>) -> Result<sys::nocter_retirement_counts> {
    // All zero is a valid value of a struct of numbers.
    let mut counts: sys::nocter_retirement_counts = unsafe { mem::zeroed() };
    unsafe { sys::nocter_retirement_counts_init(&mut counts, mem::size_of::<sys::nocter_retirement_counts>()) };
    check(unsafe { sys::nocter_retirement_count(service.handle.pointer(), &mut counts) })?;
    Ok(counts)
}

/// The threads drop values of type T, perhaps long after the service has gone.
pub(crate) fn serve<T: Send + 'static>(
    service: &Service<T>,
    threads: &Threads,
    panics: &Arc<Panics>,
) -> Result<Workers> {
    start_threads((), threads, panics, |_, options, out| unsafe {
        sys::nocter_retirement_serve(service.handle.pointer(), options, out)
    })
}

// ---- Guards ------------------------------------------------------------------------------------------------

pub(crate) fn attach<T>(permit: Permit<T>, mut value: Payload<T>) -> Resource<T> {
    let address = value.address();
    let owner = unsafe { sys::nocter_permit_attach(permit.guard.handle.pointer(), value.pointer()) };
    let guard = NonNull::new(owner).map(|owner| {
        permit.guard.handle.release();
        // An owner that nobody else has, and that is ended by its guard.
        Guard::new(unsafe { Handle::from_raw(owner) })
    });
    Resource { guard, value: address, _kept: value, _types: types() }
}

impl<T> Resource<T> {
    pub(crate) fn get(&self) -> &T {
        // Attached values stay where they are until their owner ends; a kept one is a box of ours.
        unsafe { self.value.as_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        unsafe { self.value.as_mut() }
    }
}

/// Gives the owner back when it is still one.
pub(crate) fn retire<T>(
    resource: Resource<T>,
) -> std::result::Result<sys::nocter_retirement_id, (Error, Option<Resource<T>>)> {
    let mut id = NO_RETIREMENT;
    let guard = match &resource.guard {
        Some(guard) => guard,
        None => {
            let error = Error::Forked("the resource belongs to the parent of this process".to_string());
            return Err((error, Some(resource)));
        }
    };
    match check(unsafe { sys::nocter_resource_retire(guard.handle.pointer(), &mut id) }) {
        Err(error) if error != Error::Closed => Err((error, Some(resource))),
        consumed => {
            resource.consumed();
            consumed.map(|()| id).map_err(|error| (error, None))
        }
    }
}

impl<T> Resource<T> {
    fn consumed(mut self) {
        if let Some(guard) = self.guard.take() {
            guard.handle.release();
        }
    }
}

pub(crate) fn begin<T>(cleanup: &mut Cleanup<T>) -> Result<Payload<T>> {
    let mut resource = NOTHING;
    check(unsafe { sys::nocter_cleanup_begin(cleanup.guard.handle.pointer(), &mut resource) })?;
    // Resources of this service are attached by permits of its type.
    Ok(unsafe { Payload::from_raw(resource) })
}

/// Consumes it only when it works.
pub(crate) fn complete<T>(cleanup: Cleanup<T>, code: i32) -> std::result::Result<(), (Error, Cleanup<T>)> {
    match check(unsafe { sys::nocter_cleanup_complete(cleanup.guard.handle.pointer(), code) }) {
        Ok(()) => {
            cleanup.guard.handle.release();
            Ok(())
        }
        Err(error) => Err((error, cleanup)),
    }
}

// ---- Identities --------------------------------------------------------------------------------------------

const NO_RETIREMENT: sys::nocter_retirement_id = sys::nocter_retirement_id { service: 0, sequence: 0 };

pub(crate) fn retirement_id_equal(a: sys::nocter_retirement_id, b: sys::nocter_retirement_id) -> bool {
    unsafe { sys::nocter_retirement_id_equal(a, b) }
}
