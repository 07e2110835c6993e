//! Notifiers: three words of C, and who is called through them.

use super::base::{EventFd, Signal};
use crate::panics;
use nocter_sys as sys;
use std::mem::ManuallyDrop;
use std::os::raw::c_void;
use std::ptr;

/// A notifier that nobody has taken over yet.
pub(crate) struct Notifier {
    raw: sys::nocter_notifier,
}

// Closures are required to be both; those of signals and event descriptors are, by the contract of the library.
unsafe impl Send for Notifier {}
unsafe impl Sync for Notifier {}

impl Notifier {
    pub(crate) fn of_closure<F: Fn() + Send + Sync + 'static>(closure: F) -> Self {
        let user = Box::into_raw(Box::new(closure)).cast();
        Notifier { raw: sys::nocter_notifier { wake: Some(wake::<F>), drop: Some(end::<F>), user } }
    }

    pub(crate) fn of_signal(signal: &Signal) -> Self {
        Notifier { raw: unsafe { sys::nocter_signal_notifier(signal.pointer()) } }
    }

    pub(crate) fn of_eventfd(eventfd: &EventFd) -> Self {
        Notifier { raw: unsafe { sys::nocter_eventfd_notifier(eventfd.pointer()) } }
    }

    pub(crate) fn wake(&self) {
        if let Some(wake) = self.raw.wake {
            unsafe { wake(self.raw.user) }
        }
    }

    /// A second look at the words, for a call that takes them over only when it works.
    pub(crate) fn lend(&self) -> sys::nocter_notifier {
        sys::nocter_notifier { wake: self.raw.wake, drop: self.raw.drop, user: self.raw.user }
    }

    /// After such a call has worked: the service ends it.
    pub(crate) fn taken_over(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(end) = self.raw.drop {
            unsafe { end(self.raw.user) }
        }
    }
}

/// What C passes when nobody is to be told.
pub(crate) const NOBODY: sys::nocter_notifier = sys::nocter_notifier { wake: None, drop: None, user: ptr::null_mut() };

unsafe extern "C" fn wake<F: Fn()>(user: *mut c_void) {
    let closure = &*user.cast::<F>();
    panics::shield(closure);
}

unsafe extern "C" fn end<F>(user: *mut c_void) {
    panics::shield(|| drop(Box::from_raw(user.cast::<F>())));
}
