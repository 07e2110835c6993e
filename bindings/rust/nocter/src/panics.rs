//! Panics never cross into C. They are caught where C called Rust, kept, and raised again where Rust called C.
//!
//! A panic is kept in one of two places. What runs inside a call that Rust made (a notifier, the drop of a payload) is
//! kept for that thread. What runs on a thread of the library has no Rust caller, and is kept for the service it serves,
//! whatever it was that panicked.
//! Both are raised by the next call that returns to Rust and has no value to lose: before the call is made, or after it
//! brought nothing. Destructors raise nothing, and nothing is raised on a thread of the library: the panic of one job
//! would make the next one lost too, and nobody would have heard of either.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What a panic carries.
pub(crate) type Caught = Box<dyn Any + Send>;

thread_local! {
    static CAUGHT: Cell<Option<Caught>> = const { Cell::new(None) };
    /// On a thread of the library: where the panics of the service it serves are kept.
    static OF_LIBRARY: RefCell<Option<Arc<Panics>>> = const { RefCell::new(None) };
}

/// Runs what C has called; None when it panicked, and the panic is kept.
pub(crate) fn shield<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(caught) => {
            keep(caught);
            None
        }
    }
}

/// Keeps the first panic of a thread, or of the service that a thread of the library serves; later ones have been
/// reported by the panic hook already.
pub(crate) fn keep(caught: Caught) {
    if let Some(panics) = of_library() {
        return panics.keep(caught);
    }
    let mut caught = Some(caught);
    let _ = CAUGHT.try_with(|place| {
        if let Some(first) = place.take() {
            place.set(Some(first));
        } else {
            place.set(caught.take());
        }
    });
    if let Some(late) = caught {
        discard(late);
    }
}

/// Says that this thread is one of the library's, and serves the service that these belong to.
pub(crate) fn mark_library_thread(panics: &Arc<Panics>) {
    let _ = OF_LIBRARY.try_with(|mark| *mark.borrow_mut() = Some(panics.clone()));
}

fn of_library() -> Option<Arc<Panics>> {
    OF_LIBRARY.try_with(|mark| mark.borrow().clone()).unwrap_or(None)
}

fn take_here() -> Option<Caught> {
    CAUGHT.try_with(Cell::take).unwrap_or(None)
}

/// Ends what a panic carries. That may panic in its turn, and that one is left alone: it could go on for ever.
fn discard(caught: Caught) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(caught))) {
        std::mem::forget(again);
    }
}

/// The panics of one service's library threads.
#[derive(Default)]
pub(crate) struct Panics {
    pending: AtomicBool,
    first: Mutex<Option<Caught>>,
}

impl Panics {
    /// Keeps the first until it is raised.
    pub(crate) fn keep(&self, caught: Caught) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(caught);
            self.pending.store(true, Ordering::Release);
        } else {
            drop(first);
            discard(caught);
        }
    }

    /// Raises what is kept, unless this thread unwinds already: a second panic would abort the process.
    pub(crate) fn raise(&self) {
        if thread::panicking() || OF_LIBRARY.try_with(|mark| mark.borrow().is_some()).unwrap_or(false) {
            return;
        }
        if let Some(caught) = take_here() {
            resume_unwind(caught);
        }
        if self.pending.load(Ordering::Acquire) {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            let caught = first.take();
            self.pending.store(false, Ordering::Release);
            drop(first);
            if let Some(caught) = caught {
                resume_unwind(caught);
            }
        }
    }

    /// Makes one call: raises before it, and after it when it brought nothing.
    pub(crate) fn around<R, E>(&self, call: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.raise();
        let result = call();
        if result.is_err() {
            self.raise();
        }
        result
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        let first = self.first.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(caught) = first.take() {
            discard(caught);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(caught: Caught) -> &'static str {
        caught.downcast_ref::<&'static str>().copied().unwrap_or("something else")
    }

    #[test]
    fn ffi_09_the_first_panic_of_a_thread_is_kept_and_raised_once() {
        assert_eq!(shield(|| 7), Some(7));
        assert_eq!(shield(|| panic!("first")), None::<()>);
        assert_eq!(shield(|| panic!("second")), None::<()>);
        let panics = Panics::default();
        let caught = catch_unwind(AssertUnwindSafe(|| panics.raise())).unwrap_err();
        assert_eq!(message(caught), "first");
        panics.raise();
    }

    #[test]
    fn ffi_09_a_call_that_brought_a_value_raises_at_the_next_one() {
        let panics = Panics::default();
        let brought = panics.around(|| {
            panics.keep(Box::new("later"));
            Ok::<_, ()>(5)
        });
        assert_eq!(brought, Ok(5));
        let next = catch_unwind(AssertUnwindSafe(|| panics.around(|| Ok::<_, ()>(6))));
        assert_eq!(message(next.unwrap_err()), "later");
        let nothing = catch_unwind(AssertUnwindSafe(|| {
            panics.around(|| {
                panics.keep(Box::new("at once"));
                Err::<(), _>(())
            })
        }));
        assert_eq!(message(nothing.unwrap_err()), "at once");
    }

    struct Nasty;
    impl Drop for Nasty {
        fn drop(&mut self) {
            std::panic::panic_any(Nasty);
        }
    }

    #[test]
    fn ffi_09_a_panic_whose_payload_panics_when_dropped_ends() {
        let panics = Panics::default();
        panics.keep(Box::new("kept"));
        panics.keep(Box::new(Nasty));
        let caught = catch_unwind(AssertUnwindSafe(|| panics.raise())).unwrap_err();
        assert_eq!(message(caught), "kept");
    }
}
