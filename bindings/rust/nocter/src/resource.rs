//! Retirement: the guards of one resource, from the permit to its cleanup.

use crate::error::{Error, Result};
use crate::ffi::payload::Payload;
use crate::ffi::retirement as raw;
use crate::panics::Panics;
use crate::{Epoch, RetirementId};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A guard: a place set apart for a resource that may not exist yet.
///
/// Dropping it gives the place back. It may move to another thread, and is not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::Permit<u32>>();
/// ```
#[must_use = "dropping a permit gives its place back"]
pub struct Permit<T: Send> {
    pub(crate) raw: raw::Permit<T>,
    pub(crate) panics: Arc<Panics>,
}

impl<T: Send> Permit<T> {
    /// Gives a resource its owner. Cannot fail, whatever became of the service.
    ///
    /// Only in a forked child there is nobody to hand the resource to: its owner then ends it by itself.
    pub fn attach(self, resource: T) -> Resource<T> {
        let Permit { raw, panics } = self;
        Resource { raw: raw::attach(raw, Payload::new(resource)), panics }
    }
}

impl<T: Send> fmt::Debug for Permit<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// A guard: the owner of a live resource, which it lends.
///
/// Dropping it queues the resource for its cleanup: no allocation, no wait, no failure, on any thread. It may move to
/// another thread, and is not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::Resource<u32>>();
/// ```
///
/// Nor can what it holds be exchanged for something that lives shorter:
///
/// ```compile_fail
/// fn shorter<'a>(owner: nocter::Resource<&'static str>) -> nocter::Resource<&'a str> {
///     owner
/// }
/// ```
#[must_use = "dropping an owner retires its resource"]
pub struct Resource<T: Send> {
    raw: raw::Resource<T>,
    panics: Arc<Panics>,
}

impl<T: Send> Resource<T> {
    /// Queues the resource for its cleanup, as dropping the owner does, and gives the identity to ask with. The completion
    /// keeps its place until it is taken or detached.
    pub fn retire(self) -> std::result::Result<RetirementId, NotRetired<T>> {
        let Resource { raw, panics } = self;
        match raw::retire(raw) {
            Ok(id) => {
                panics.raise();
                Ok(RetirementId(id))
            }
            Err((error, Some(raw))) => Err(NotRetired::Failed { resource: Resource { raw, panics }, error }),
            Err((_, None)) => Err(NotRetired::Closed),
        }
    }
}

impl<T: Send> Deref for Resource<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.raw.get()
    }
}

impl<T: Send> DerefMut for Resource<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.raw.get_mut()
    }
}

impl<T: Send + fmt::Debug> fmt::Debug for Resource<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Resource").field(&**self).finish()
    }
}

/// A guard: the one right, and duty, to end one resource.
///
/// Dropping it is a failed cleanup, and ends the resource when nobody has begun; the place is free all the same. It may
/// move to another thread, and is not to be shared:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// share::<nocter::Cleanup<u32>>();
/// ```
#[must_use = "dropping a cleanup says that it failed"]
pub struct Cleanup<T: Send> {
    pub(crate) raw: raw::Cleanup<T>,
    pub(crate) panics: Arc<Panics>,
}

impl<T: Send> Cleanup<T> {
    /// Takes the resource out, to end it; [`Error::State`] when that was done.
    pub fn begin(&mut self) -> Result<T> {
        let resource = raw::begin(&mut self.raw)?;
        Ok(resource.into_value().expect("an attached resource is there"))
    }

    /// Ends the cleanup, after the resource: 0 is clean, anything else is told to who takes it.
    ///
    /// Fails before [`begin`](Cleanup::begin), in a notifier of the same service and in a forked child.
    pub fn complete(self, code: i32) -> std::result::Result<(), NotEnded<Cleanup<T>>> {
        let Cleanup { raw, panics } = self;
        match raw::complete(raw, code) {
            Ok(()) => {
                panics.raise();
                Ok(())
            }
            Err((error, raw)) => Err(NotEnded { guard: Cleanup { raw, panics }, error }),
        }
    }
}

impl<T: Send> fmt::Debug for Cleanup<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cleanup").finish_non_exhaustive()
    }
}

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReserved {
    /// The service is at its bound.
    Saturated {
        /// The capacity epoch of the same moment: wait for a later one and try again.
        epoch: Epoch,
    },
    /// Admission is closed.
    Closed,
    /// The call failed.
    Failed(Error),
}

impl From<NotReserved> for Error {
    fn from(not: NotReserved) -> Error {
        match not {
            NotReserved::Saturated { .. } => Error::Saturated,
            NotReserved::Closed => Error::Closed,
            NotReserved::Failed(error) => error,
        }
    }
}

impl fmt::Display for NotReserved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(self.clone()).fmt(formatter)
    }
}

impl std::error::Error for NotReserved {}

/// Why nobody can ask how a retirement goes.
#[non_exhaustive]
#[must_use = "the owner may be in it"]
pub enum NotRetired<T: Send> {
    /// The service is gone. The resource is cleaned all the same.
    Closed,
    /// The call failed, and everything is as it was.
    Failed {
        /// The owner, for another try.
        resource: Resource<T>,
        /// Why.
        error: Error,
    },
}

impl<T: Send> From<NotRetired<T>> for Error {
    /// Drops the owner, when it is still there: its resource is retired without an identity.
    fn from(not: NotRetired<T>) -> Error {
        match not {
            NotRetired::Closed => Error::Closed,
            NotRetired::Failed { error, .. } => error,
        }
    }
}

impl<T: Send> fmt::Debug for NotRetired<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRetired::Closed => formatter.write_str("Closed"),
            NotRetired::Failed { error, .. } => {
                formatter.debug_struct("Failed").field("error", error).finish_non_exhaustive()
            }
        }
    }
}

impl<T: Send> fmt::Display for NotRetired<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRetired::Closed => Error::Closed.fmt(formatter),
            NotRetired::Failed { error, .. } => error.fmt(formatter),
        }
    }
}

impl<T: Send> std::error::Error for NotRetired<T> {}

/// A guard that was not ended: everything is as it was.
#[must_use = "dropping it drops the guard, which says that it failed"]
pub struct NotEnded<G> {
    /// The guard, for another try.
    pub guard: G,
    /// Why.
    pub error: Error,
}

impl<G: fmt::Debug> fmt::Debug for NotEnded<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NotEnded").field("guard", &self.guard).field("error", &self.error).finish()
    }
}

impl<G> fmt::Display for NotEnded<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl<G: fmt::Debug> std::error::Error for NotEnded<G> {}

impl<G> From<NotEnded<G>> for Error {
    /// Drops the guard.
    fn from(not: NotEnded<G>) -> Error {
        not.error
    }
}
