//! One round of a task, and the closures that the library's threads call with one.

use super::base::{Borrowed, Wait};
use super::handle::{Guard, Handle};
use super::serve::{start_threads, Served, Threads, Workers};
use super::shared::{got_by, put_by};
use super::tasks::{items, raw_id, record_of, records, some_id, string, submit_by, text, Store};
use crate::error::{check, Error, Result};
use crate::panics::Panics;
use crate::tasks::{Ended, Failure, Message, Outcome, Record, Submission, Suspension, TaskId};
use nocter_sys as sys;
use std::mem;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Arc;

pub(crate) struct Run {
    guard: Guard<sys::nocter_run>,
}

pub(crate) fn claim(store: &Store, types: &[&str], maximum: u32, wait: &Wait<'_>) -> Result<Vec<Run>> {
    let names: Vec<sys::nocter_text> = types.iter().copied().map(text).collect();
    let mut out = vec![ptr::null_mut(); maximum as usize];
    let mut count = 0;
    let first = if names.is_empty() { ptr::null() } else { names.as_ptr() };
    check(unsafe {
        let (store, wait) = (store.pointer(), wait.pointer());
        sys::nocter_tasks_claim(store, first, names.len(), maximum, wait, out.as_mut_ptr(), &mut count)
    })?;
    Ok(out.into_iter().take(count).filter_map(|run| unsafe { Run::from_raw(run) }).collect())
}

impl Run {
    /// # Safety
    /// NULL, or a run that was handed out and that nobody else owns.
    unsafe fn from_raw(run: *mut sys::nocter_run) -> Option<Run> {
        NonNull::new(run).map(|run| Run { guard: Guard::new(Handle::from_raw(run)) })
    }

    fn pointer(&self) -> *mut sys::nocter_run {
        self.guard.handle.pointer()
    }

    /// None of a stale guard, which safe code cannot have.
    pub(crate) fn record(&self) -> Option<Record> {
        unsafe { sys::nocter_run_task(self.pointer()).as_ref().map(|raw| record_of(raw)) }
    }

    pub(crate) fn messages(&self) -> Result<Vec<Message>> {
        let (mut first, mut count) = (ptr::null(), 0);
        check(unsafe { sys::nocter_run_notifications(self.pointer(), &mut first, &mut count) })?;
        let copy = |raw: &sys::nocter_notification| Message {
            sender: some_id(raw.from),
            payload: unsafe { string(raw.payload) },
            at_ms: raw.at_ms,
            deliveries: raw.deliveries,
        };
        Ok(unsafe { items(first, count) }.iter().map(copy).collect())
    }

    pub(crate) fn cancel_requested(&self) -> bool {
        unsafe { sys::nocter_run_cancel_requested(self.pointer()) }
    }

    pub(crate) fn interrupt(&self) -> Borrowed<'_> {
        unsafe { Borrowed::from_raw(sys::nocter_run_interrupt(self.pointer())) }
    }

    pub(crate) fn interrupt_reason(&self) -> i32 {
        unsafe { sys::nocter_run_interrupt_reason(self.pointer()) }
    }

    pub(crate) fn update_state(&self, state: &str) -> Result<()> {
        check(unsafe { sys::nocter_run_update_state(self.pointer(), text(state)) })
    }

    pub(crate) fn heartbeat(&self) -> Result<()> {
        check(unsafe { sys::nocter_run_heartbeat(self.pointer()) })
    }

    pub(crate) fn children(&self) -> Result<Vec<Record>> {
        records(|out| unsafe { sys::nocter_run_children(self.pointer(), out) })
    }

    pub(crate) fn submit(&self, submissions: &[Submission]) -> Result<(Vec<TaskId>, bool)> {
        submit_by(submissions, |first, count, ids| unsafe {
            sys::nocter_run_submit_child(self.pointer(), first, count, ids)
        })
    }

    pub(crate) fn notify(&self, to: TaskId, payload: &str) -> Result<()> {
        check(unsafe { sys::nocter_run_notify(self.pointer(), raw_id(Some(to)), text(payload)) })
    }

    pub(crate) fn notify_parent(&self, payload: &str) -> Result<()> {
        check(unsafe { sys::nocter_run_notify_parent(self.pointer(), text(payload)) })
    }

    /// None when no round has put it.
    pub(crate) fn step_get(&self, name: &str) -> Result<Option<String>> {
        let mut value = sys::nocter_text { data: ptr::null(), size: 0 };
        match unsafe { sys::nocter_run_step_get(self.pointer(), text(name), &mut value) } {
            sys::NOCTER_EMPTY => Ok(None),
            status => check(status).map(|()| Some(unsafe { string(value) })),
        }
    }

    pub(crate) fn step_put(&self, name: &str, value: &str) -> Result<()> {
        check(unsafe { sys::nocter_run_step_put(self.pointer(), text(name), text(value)) })
    }

    pub(crate) fn shared_put(&self, key: &str, value: &str) -> Result<()> {
        check(unsafe { sys::nocter_run_shared_put(self.pointer(), text(key), text(value)) })
    }

    pub(crate) fn shared_put_if_absent(&self, key: &str, value: &str) -> Result<Option<String>> {
        put_by(|existing| unsafe {
            sys::nocter_run_shared_put_if_absent(self.pointer(), text(key), text(value), existing)
        })
    }

    pub(crate) fn shared_get(&self, key: &str) -> Result<Option<String>> {
        got_by(|out| unsafe { sys::nocter_run_shared_get(self.pointer(), text(key), out) })
    }

    pub(crate) fn atomic(&self) -> Result<()> {
        check(unsafe { sys::nocter_run_atomic(self.pointer()) })
    }

    /// Consumes it, unless there is an error: then it comes back.
    pub(crate) fn end(self, outcome: &Outcome) -> std::result::Result<Ended, (Error, Run)> {
        let status = match outcome {
            Outcome::Done(result) => unsafe { sys::nocter_run_done(self.pointer(), text(result)) },
            Outcome::Fail(failure) => self.fail(failure),
            Outcome::Suspend(suspension) => self.suspend(suspension),
            Outcome::HandBack => unsafe { sys::nocter_run_hand_back(self.pointer()) },
        };
        let ended = match status {
            sys::NOCTER_OK => Ended::AsSaid,
            sys::NOCTER_CANCELLED => Ended::Cancelled,
            sys::NOCTER_E_LEASE_LOST => Ended::LeaseLost,
            status => return check(status).map_err(|error| (error, self)).map(|()| Ended::AsSaid),
        };
        self.guard.handle.release();
        Ok(ended)
    }

    fn fail(&self, failure: &Failure) -> sys::nocter_status {
        let raw = sys::nocter_failure {
            size: mem::size_of::<sys::nocter_failure>() as u32,
            retry: failure.retry,
            kind: text(&failure.kind),
            message: text(&failure.message),
            detail: text(&failure.detail),
            retry_after_ms: failure.retry_after_ms,
        };
        unsafe { sys::nocter_run_fail(self.pointer(), &raw) }
    }

    fn suspend(&self, suspension: &Suspension) -> sys::nocter_status {
        let ids: Vec<sys::nocter_task_id> = suspension.ids.iter().map(|&id| raw_id(Some(id))).collect();
        let raw = sys::nocter_suspension {
            size: mem::size_of::<sys::nocter_suspension>() as u32,
            until: suspension.until.into(),
            ids: if ids.is_empty() { ptr::null() } else { ids.as_ptr() },
            count: ids.len(),
            need: suspension.need,
            flags: if suspension.on_failure { sys::NOCTER_WAKE_ON_FAILURE } else { 0 },
            wake_at_ms: suspension.wake_at_ms,
        };
        unsafe { sys::nocter_run_suspend(self.pointer(), &raw) }
    }
}

// ---- Closures on the library's threads ---------------------------------------------------------------------

pub(crate) fn serve<F>(
    store: &Store,
    types: &[&str],
    run: F,
    concurrency: u32,
    threads: &Threads,
    panics: &Arc<Panics>,
) -> Result<Workers>
where
    F: Fn(Run) + Send + Sync + 'static,
{
    start_threads(run, threads, panics, |user, options, out| {
        let handler = |name: &&str| sys::nocter_task_handler {
            size: mem::size_of::<sys::nocter_task_handler>() as u32,
            reserved: 0,
            type_: text(name),
            run: Some(run_round::<F>),
            user,
        };
        let handlers: Vec<sys::nocter_task_handler> = types.iter().map(handler).collect();
        unsafe {
            sys::nocter_tasks_serve(store.pointer(), handlers.as_ptr(), handlers.len(), concurrency, options, out)
        }
    })
}

/// Makes one round. The closure owns the run, and ends it also when it panics.
unsafe extern "C" fn run_round<F: Fn(Run)>(user: *mut c_void, run: *mut sys::nocter_run) {
    let served = &*user.cast::<Served<F>>();
    let done = catch_unwind(AssertUnwindSafe(|| {
        if let Some(run) = Run::from_raw(run) {
            (served.run)(run);
        }
    }));
    if let Err(caught) = done {
        served.panics.keep(caught);
    }
}
