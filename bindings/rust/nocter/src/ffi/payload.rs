//! Values of Rust inside of nocter: a box, and a function that ends it.

use crate::panics;
use nocter_sys as sys;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

/// What no value is.
pub(crate) const NOTHING: sys::nocter_owned = sys::nocter_owned { data: ptr::null_mut(), drop: None };

/// An owned value of type T, or nothing: what C calls take from and leave in.
#[repr(transparent)]
pub(crate) struct Payload<T> {
    /// Nothing, or a box of a T and `end` of the same T.
    raw: sys::nocter_owned,
    value: PhantomData<T>,
}

impl<T> Payload<T> {
    pub(crate) fn new(value: T) -> Self {
        let data = Box::into_raw(Box::new(value)).cast();
        Payload { raw: sys::nocter_owned { data, drop: Some(end::<T>) }, value: PhantomData }
    }

    /// Where C reads and writes it.
    pub(crate) fn pointer(&mut self) -> *mut sys::nocter_owned {
        &mut self.raw
    }

    /// Where the value of one that was made by `new` is, and stays until it is ended.
    pub(crate) fn address(&self) -> NonNull<T> {
        NonNull::new(self.raw.data.cast()).expect("a box is somewhere")
    }

    /// Takes over what C handed out.
    ///
    /// # Safety
    /// It is nothing, or was made by a `Payload<T>` of the same T, and nobody else will end it.
    pub(crate) unsafe fn from_raw(raw: sys::nocter_owned) -> Self {
        Payload { raw, value: PhantomData }
    }

    /// Gives it to C.
    pub(crate) fn into_raw(self) -> sys::nocter_owned {
        let kept = ManuallyDrop::new(self);
        sys::nocter_owned { data: kept.raw.data, drop: kept.raw.drop }
    }

    /// The value, when there is one.
    pub(crate) fn into_value(self) -> Option<T> {
        let raw = self.into_raw();
        // A box of a T, by what from_raw and new promise; it was forgotten by into_raw.
        raw.drop.map(|_| unsafe { *Box::from_raw(raw.data.cast::<T>()) })
    }
}

impl<T> Drop for Payload<T> {
    fn drop(&mut self) {
        if self.raw.drop.take().is_some() {
            drop(unsafe { Box::from_raw(self.raw.data.cast::<T>()) });
        }
    }
}

/// What C calls when nobody collects the value.
unsafe extern "C" fn end<T>(data: *mut c_void) {
    panics::shield(|| drop(Box::from_raw(data.cast::<T>())));
}

/// The types a handle gives and takes. Values of both kinds go in at one end and come out at the other, so neither may
/// be exchanged for a longer- or shorter-lived one:
///
/// ```compile_fail
/// fn shorter<'a>(service: &'a nocter::Blocking<&'static str, ()>) -> &'a nocter::Blocking<&'a str, ()> {
///     service
/// }
/// ```
///
/// What they borrow must live longer than the service, whose end drops them:
///
/// ```compile_fail,E0597
/// struct Looks<'a>(&'a str);
/// impl Drop for Looks<'_> {
///     fn drop(&mut self) {
///         println!("{}", self.0);
///     }
/// }
/// let service = nocter::Blocking::<Looks, ()>::new(Default::default()).unwrap();
/// let text = String::from("gone before the service");
/// service.submit(Looks(&text)).unwrap();
/// ```
///
/// And they may be sent to other threads:
///
/// ```compile_fail,E0277
/// nocter::Blocking::<std::rc::Rc<u32>, ()>::new(Default::default()).unwrap();
/// ```
pub(crate) struct Types<T>(PhantomData<fn(T) -> T>);

/// Does nothing but exist: the compiler takes it that values of type T may be dropped here, which is so. They lie where
/// it cannot see them.
impl<T> Drop for Types<T> {
    fn drop(&mut self) {}
}

pub(super) const fn types<T>() -> Types<T> {
    Types(PhantomData)
}
