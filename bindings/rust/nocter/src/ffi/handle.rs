//! Ownership of one C object.

use crate::error::{check, Result};
use nocter_sys as sys;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// A kind of C object and the call that gives one up.
///
/// # Safety
/// The call must accept every pointer that the creating calls of this kind hand out, once, on any thread, and must wait
/// for nothing but the disk.
pub(crate) unsafe trait Object {
    const GIVE_UP: unsafe extern "C" fn(*mut Self);
}

macro_rules! object {
    ($name:ident, $give_up:ident) => {
        unsafe impl Object for sys::$name {
            const GIVE_UP: unsafe extern "C" fn(*mut Self) = sys::$give_up;
        }
    };
}
object!(nocter_interrupt, nocter_interrupt_destroy);
object!(nocter_eventfd, nocter_eventfd_destroy);
object!(nocter_signal, nocter_signal_destroy);
object!(nocter_blocking, nocter_blocking_destroy);
object!(nocter_running_job, nocter_running_job_drop);
object!(nocter_completion, nocter_completion_drop);
object!(nocter_retirement, nocter_retirement_destroy);
object!(nocter_permit, nocter_permit_drop);
object!(nocter_resource, nocter_resource_drop);
object!(nocter_cleanup, nocter_cleanup_drop);
object!(nocter_keyed, nocter_keyed_destroy);
object!(nocter_pass, nocter_pass_drop);
object!(nocter_clock, nocter_clock_destroy);
object!(nocter_tasks, nocter_tasks_close);
object!(nocter_run, nocter_run_drop);

unsafe impl Object for sys::nocter_lock {
    const GIVE_UP: unsafe extern "C" fn(*mut Self) = release;
}

/// Whatever it says, the guard is gone, and a lock that could not be reached ends with its lease.
unsafe extern "C" fn release(lock: *mut sys::nocter_lock) {
    let _ = sys::nocter_lock_release(lock);
}

/// An object that every thread may use at once.
pub(crate) struct Handle<T: Object>(NonNull<T>);

// The contract of the library: every handle may be used from any thread at once.
unsafe impl<T: Object> Send for Handle<T> {}
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Makes one of what a C call wrote to its out-parameter.
    pub(crate) fn made_by(call: impl FnOnce(*mut *mut T) -> sys::nocter_status) -> Result<Self> {
        let mut out = ptr::null_mut();
        check(call(&mut out))?;
        Ok(Handle(NonNull::new(out).expect("libnocter said OK and gave nothing")))
    }

    /// # Safety
    /// A creating call has handed the object out, and nobody else owns it.
    pub(crate) unsafe fn from_raw(object: NonNull<T>) -> Self {
        Handle(object)
    }

    pub(crate) fn pointer(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Hands the object to a call that consumes it.
    pub(crate) fn release(self) -> *mut T {
        let pointer = self.pointer();
        std::mem::forget(self);
        pointer
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        // Owned, and never given up before: release() forgets it.
        unsafe { T::GIVE_UP(self.pointer()) }
    }
}

/// An object with one owner at a time: it may move between threads, and not be shared by them.
pub(crate) struct Guard<T: Object> {
    pub(crate) handle: Handle<T>,
    /// Cell is Send and not Sync.
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Object> Guard<T> {
    pub(crate) fn new(handle: Handle<T>) -> Self {
        Guard { handle, one_thread: PhantomData }
    }
}
