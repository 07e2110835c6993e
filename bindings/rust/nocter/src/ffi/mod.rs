//! Everything unsafe: one function for each C function that is used, ownership of C objects, and what C calls back.
//!
//! Functions take handles and typed payloads and are safe to call; none of them decides anything.

#![allow(unsafe_code)]

pub(crate) mod base;
pub(crate) mod blocking;
pub(crate) mod handle;
pub(crate) mod keyed;
pub(crate) mod notifier;
pub(crate) mod payload;
pub(crate) mod retirement;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod tasks;
