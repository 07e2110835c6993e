//! Statuses, interrupts, waits, signals and event descriptors.

use super::handle::Handle;
use crate::error::{check, Result};
use nocter_sys as sys;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::os::unix::io::BorrowedFd;
use std::ptr;

/// Copies text that lives for the process. Every function used with it returns such text, never NULL.
fn lasting(text: unsafe extern "C" fn() -> *const std::os::raw::c_char) -> &'static str {
    unsafe { CStr::from_ptr(text()) }.to_str().unwrap_or("")
}

pub(crate) fn version() -> &'static str {
    lasting(sys::nocter_version)
}

pub(crate) fn version_number() -> u32 {
    unsafe { sys::nocter_version_number() }
}

pub(crate) fn status_name(status: i32) -> &'static str {
    // A static string, never NULL.
    unsafe { CStr::from_ptr(sys::nocter_status_name(status)) }.to_str().unwrap_or("")
}

pub(crate) fn error_message() -> String {
    // Valid until the next call on this thread, never NULL; so it is copied.
    unsafe { CStr::from_ptr(sys::nocter_error_message()) }.to_string_lossy().into_owned()
}

pub(crate) fn now_ns() -> i64 {
    unsafe { sys::nocter_now_ns() }
}

// ---- Interrupts and waits ----------------------------------------------------------------------------------

pub(crate) type Interrupt = Handle<sys::nocter_interrupt>;

pub(crate) fn interrupt_create() -> Result<Interrupt> {
    Handle::made_by(|out| unsafe { sys::nocter_interrupt_create(out) })
}

pub(crate) fn interrupt_raise(interrupt: &Interrupt) {
    unsafe { sys::nocter_interrupt_raise(interrupt.pointer()) }
}

pub(crate) fn interrupt_clear(interrupt: &Interrupt) {
    unsafe { sys::nocter_interrupt_clear(interrupt.pointer()) }
}

/// An interrupt that somebody else owns for at least as long as `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Borrowed<'a> {
    pointer: *mut sys::nocter_interrupt,
    owner: PhantomData<&'a Interrupt>,
}

// As for a handle: any thread may use it, at once.
unsafe impl Send for Borrowed<'_> {}
unsafe impl Sync for Borrowed<'_> {}

impl<'a> Borrowed<'a> {
    pub(crate) fn of(interrupt: &'a Interrupt) -> Self {
        Borrowed { pointer: interrupt.pointer(), owner: PhantomData }
    }

    /// # Safety
    /// The pointer is NULL, or its interrupt lives for `'a`.
    pub(crate) unsafe fn from_raw(pointer: *mut sys::nocter_interrupt) -> Self {
        Borrowed { pointer, owner: PhantomData }
    }

    pub(crate) fn raised(&self) -> bool {
        unsafe { sys::nocter_interrupt_raised(self.pointer) }
    }
}

/// A wait as C reads it, while the interrupt is borrowed. None: do not wait.
pub(crate) struct Wait<'a> {
    raw: Option<sys::nocter_wait>,
    interrupt: PhantomData<Option<Borrowed<'a>>>,
}

impl<'a> Wait<'a> {
    pub(crate) fn not() -> Self {
        Wait { raw: None, interrupt: PhantomData }
    }

    pub(crate) fn new(deadline_ns: i64, interrupt: Option<Borrowed<'a>>, flags: u32) -> Self {
        let interrupt = interrupt.map_or(ptr::null_mut(), |borrowed| borrowed.pointer);
        Wait { raw: Some(sys::nocter_wait { deadline_ns, interrupt, flags, reserved: 0 }), interrupt: PhantomData }
    }

    /// NULL, or valid as long as `self` stays where it is.
    pub(crate) fn pointer(&self) -> *const sys::nocter_wait {
        self.raw.as_ref().map_or(ptr::null(), |raw| raw)
    }
}

// ---- Signals -----------------------------------------------------------------------------------------------

pub(crate) type Signal = Handle<sys::nocter_signal>;

pub(crate) fn signal_create() -> Result<Signal> {
    Handle::made_by(|out| unsafe { sys::nocter_signal_create(out) })
}

pub(crate) fn signal_version(signal: &Signal) -> u64 {
    unsafe { sys::nocter_signal_version(signal.pointer()) }
}

pub(crate) fn signal_publish(signal: &Signal) -> Result<u64> {
    let mut version = 0;
    check(unsafe { sys::nocter_signal_publish(signal.pointer(), &mut version) })?;
    Ok(version)
}

pub(crate) fn signal_wait(signal: &Signal, seen: u64, wait: &Wait<'_>) -> Result<u64> {
    let mut version = 0;
    check(unsafe { sys::nocter_signal_wait(signal.pointer(), seen, wait.pointer(), &mut version) })?;
    Ok(version)
}

pub(crate) fn signal_close(signal: &Signal) {
    unsafe { sys::nocter_signal_close(signal.pointer()) }
}

// ---- Event descriptors -------------------------------------------------------------------------------------

pub(crate) type EventFd = Handle<sys::nocter_eventfd>;

pub(crate) fn eventfd_create() -> Result<EventFd> {
    Handle::made_by(|out| unsafe { sys::nocter_eventfd_create(out) })
}

pub(crate) fn eventfd_fd(eventfd: &EventFd) -> c_int {
    unsafe { sys::nocter_eventfd_fd(eventfd.pointer()) }
}

/// None in a forked child.
pub(crate) fn eventfd_borrow(eventfd: &EventFd) -> Option<BorrowedFd<'_>> {
    let fd = eventfd_fd(eventfd);
    // It stays open at least as long as the handle that is borrowed.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

pub(crate) fn eventfd_clear(eventfd: &EventFd) {
    unsafe { sys::nocter_eventfd_clear(eventfd.pointer()) }
}
