//! Raw declarations of libnocter, generated from its C headers by `bindings/generate`.
//!
//! Nothing here is safe to call without having read the headers. Programs use the crate `nocter`.

#![allow(non_camel_case_types)]

#[allow(clippy::all, rustdoc::all)]
#[rustfmt::skip] // as the generator formats it
mod bindings;

pub use bindings::*;
