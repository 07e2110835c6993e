//! Values, locks and events that tasks share.

use super::base::Wait;
use super::handle::{Guard, Handle};
use super::tasks::{id_of, items, string, text, Store};
use crate::error::{check, Result};
use crate::tasks::Event;
use nocter_sys as sys;
use std::ptr;

/// A value that a call handed out, copied and freed.
///
/// # Safety
/// It is NULL or was handed out, and nobody has freed it.
unsafe fn taken(value: *mut sys::nocter_value) -> String {
    let copy = string(sys::nocter_value_text(value));
    sys::nocter_value_free(value);
    copy
}

/// None when it was written, else what there is.
pub(super) fn put_by(call: impl FnOnce(*mut *mut sys::nocter_value) -> sys::nocter_status) -> Result<Option<String>> {
    let mut existing = ptr::null_mut();
    match call(&mut existing) {
        sys::NOCTER_EXISTS => Ok(Some(unsafe { taken(existing) })),
        status => check(status).map(|()| None),
    }
}

/// None when there is none.
pub(super) fn got_by(call: impl FnOnce(*mut *mut sys::nocter_value) -> sys::nocter_status) -> Result<Option<String>> {
    let mut value = ptr::null_mut();
    match call(&mut value) {
        sys::NOCTER_EMPTY => Ok(None),
        status => check(status).map(|()| Some(unsafe { taken(value) })),
    }
}

pub(crate) fn put_if_absent(store: &Store, scope: &str, key: &str, value: &str) -> Result<Option<String>> {
    put_by(|existing| unsafe {
        sys::nocter_shared_put_if_absent(store.pointer(), text(scope), text(key), text(value), existing)
    })
}

pub(crate) fn put(store: &Store, scope: &str, key: &str, value: &str) -> Result<()> {
    check(unsafe { sys::nocter_shared_put(store.pointer(), text(scope), text(key), text(value)) })
}

pub(crate) fn get(store: &Store, scope: &str, key: &str) -> Result<Option<String>> {
    got_by(|out| unsafe { sys::nocter_shared_get(store.pointer(), text(scope), text(key), out) })
}

pub(crate) fn all(store: &Store, scope: &str) -> Result<Vec<(String, String)>> {
    let mut list = sys::nocter_value_list { values: ptr::null(), count: 0, memory: ptr::null_mut() };
    check(unsafe { sys::nocter_shared_all(store.pointer(), text(scope), &mut list) })?;
    let values = unsafe { items(list.values, list.count) };
    let copies = values.iter().map(|each| unsafe { (string(each.key), string(each.value)) }).collect();
    unsafe { sys::nocter_value_list_free(&mut list) };
    Ok(copies)
}

pub(crate) fn clear(store: &Store, scope: &str) -> Result<()> {
    check(unsafe { sys::nocter_shared_clear(store.pointer(), text(scope)) })
}

// ---- Locks -------------------------------------------------------------------------------------------------

pub(crate) struct Lock {
    guard: Guard<sys::nocter_lock>,
}

pub(crate) fn acquire(store: &Store, name: &str, lease_ms: i64, wait: &Wait<'_>) -> Result<Lock> {
    let lock = Handle::made_by(|out| unsafe {
        sys::nocter_lock_acquire(store.pointer(), text(name), lease_ms, wait.pointer(), out)
    })?;
    Ok(Lock { guard: Guard::new(lock) })
}

impl Lock {
    pub(crate) fn fence(&self) -> u64 {
        unsafe { sys::nocter_lock_fence(self.guard.handle.pointer()) }
    }

    pub(crate) fn renew(&self, lease_ms: i64) -> Result<()> {
        check(unsafe { sys::nocter_lock_renew(self.guard.handle.pointer(), lease_ms) })
    }

    /// Consumes it whatever it says.
    pub(crate) fn release(self) -> Result<()> {
        check(unsafe { sys::nocter_lock_release(self.guard.handle.release()) })
    }
}

// ---- Events ------------------------------------------------------------------------------------------------

pub(crate) fn events(store: &Store, after: u64, maximum: usize, wait: &Wait<'_>) -> Result<Vec<Event>> {
    let mut list = sys::nocter_event_list { events: ptr::null(), count: 0, memory: ptr::null_mut() };
    check(unsafe { sys::nocter_events_read(store.pointer(), after, maximum, wait.pointer(), &mut list) })?;
    let all = unsafe { items(list.events, list.count) };
    let copies = all.iter().map(|raw| unsafe { event_of(&**raw) }).collect();
    unsafe { sys::nocter_event_list_free(&mut list) };
    Ok(copies)
}

/// # Safety
/// The event is valid for the length of the call.
unsafe fn event_of(raw: &sys::nocter_event) -> Event {
    Event {
        sequence: raw.sequence,
        at_ms: raw.at_ms,
        task: id_of(raw.task),
        kind: raw.kind.into(),
        status: raw.status.into(),
        attempt: raw.attempt,
        task_type: string(raw.type_),
        data: string(raw.data),
    }
}
