//! A store of durable tasks: identities, records, and what is asked and told from outside.

use super::base::Wait;
use super::handle::Handle;
use crate::error::{check, Result};
use crate::panics;
use crate::tasks::{Counts, Failed, Filter, Record, Submission, TaskId};
use nocter_sys as sys;
use std::mem;
use std::os::raw::{c_char, c_void};
use std::ptr;
use std::slice;

pub(crate) type Store = Handle<sys::nocter_tasks>;
pub(crate) type Clock = Handle<sys::nocter_clock>;
pub(crate) type Callback = Box<dyn Fn(i32, &str) + Send + Sync>;

// ---- Texts and identities ----------------------------------------------------------------------------------

/// Valid as long as the string is.
pub(super) fn text(of: &str) -> sys::nocter_text {
    sys::nocter_text { data: of.as_ptr().cast(), size: of.len() }
}

/// # Safety
/// The text points to as many bytes as it says, for `'a`.
pub(super) unsafe fn view<'a>(of: sys::nocter_text) -> &'a [u8] {
    match of.size {
        0 => &[],
        size => slice::from_raw_parts(of.data.cast(), size),
    }
}

/// # Safety
/// As for `view`, for the length of the call.
pub(super) unsafe fn string(of: sys::nocter_text) -> String {
    String::from_utf8_lossy(view(of)).into_owned()
}

/// # Safety
/// `count` of them are there, for `'a`.
pub(super) unsafe fn items<'a, T>(first: *const T, count: usize) -> &'a [T] {
    match count {
        0 => &[],
        count => slice::from_raw_parts(first, count),
    }
}

pub(crate) fn raw_id(id: Option<TaskId>) -> sys::nocter_task_id {
    sys::nocter_task_id { bytes: id.map_or([0; 16], TaskId::into_bytes) }
}

pub(super) fn id_of(raw: sys::nocter_task_id) -> TaskId {
    TaskId::from_bytes(raw.bytes)
}

/// None of all zeros.
pub(super) fn some_id(raw: sys::nocter_task_id) -> Option<TaskId> {
    (raw.bytes != [0; 16]).then(|| id_of(raw))
}

pub(crate) fn make_id() -> TaskId {
    id_of(unsafe { sys::nocter_task_id_make() })
}

pub(crate) fn parse_id(of: &str) -> Result<TaskId> {
    let mut out = raw_id(None);
    check(unsafe { sys::nocter_task_id_parse(text(of), &mut out) })?;
    Ok(id_of(out))
}

/// 36 characters.
pub(crate) fn format_id(id: TaskId) -> String {
    let mut room = [0_u8; 37];
    unsafe { sys::nocter_task_id_format(raw_id(Some(id)), room.as_mut_ptr().cast::<c_char>()) };
    String::from_utf8_lossy(&room[..36]).into_owned()
}

// ---- The clock ---------------------------------------------------------------------------------------------

pub(crate) fn clock_create(now_ms: i64) -> Result<Clock> {
    Handle::made_by(|out| unsafe { sys::nocter_clock_create(now_ms, out) })
}

pub(crate) fn clock_advance(clock: &Clock, by_ms: i64) {
    unsafe { sys::nocter_clock_advance(clock.pointer(), by_ms) }
}

pub(crate) fn clock_now_ms(clock: &Clock) -> i64 {
    unsafe { sys::nocter_clock_now_ms(clock.pointer()) }
}

// ---- Opening -----------------------------------------------------------------------------------------------

/// What C is told at the opening; zero leaves the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) flags: u32,
    pub(crate) node: String,
    pub(crate) lease_ms: i64,
    pub(crate) retention_ms: i64,
    pub(crate) event_retention_ms: i64,
    pub(crate) maximum_json: u64,
    pub(crate) maximum_message: u64,
    pub(crate) maximum_mailbox: u64,
    pub(crate) maximum_mailbox_bytes: u64,
    pub(crate) maximum_children: u64,
    pub(crate) maximum_rescues: u32,
    pub(crate) retry_base_ms: u32,
    pub(crate) retry_cap_ms: u32,
    pub(crate) poll_ms: u32,
}

pub(crate) fn open(url: &str, numbers: &Numbers, clock: Option<&Clock>, log: Option<Callback>) -> Result<Store> {
    let log_user = log.map_or(ptr::null_mut(), |callback| Box::into_raw(Box::new(callback)).cast::<c_void>());
    let told = !log_user.is_null();
    let options = sys::nocter_tasks_options {
        size: mem::size_of::<sys::nocter_tasks_options>() as u32,
        flags: numbers.flags,
        node: text(&numbers.node),
        lease_ms: numbers.lease_ms,
        retention_ms: numbers.retention_ms,
        event_retention_ms: numbers.event_retention_ms,
        maximum_json: numbers.maximum_json,
        maximum_message: numbers.maximum_message,
        maximum_mailbox: numbers.maximum_mailbox,
        maximum_mailbox_bytes: numbers.maximum_mailbox_bytes,
        maximum_children: numbers.maximum_children,
        maximum_rescues: numbers.maximum_rescues,
        retry_base_ms: numbers.retry_base_ms,
        retry_cap_ms: numbers.retry_cap_ms,
        poll_ms: numbers.poll_ms,
        clock: clock.map_or(ptr::null_mut(), Handle::pointer),
        log: told.then_some(log_line as unsafe extern "C" fn(*mut c_void, i32, sys::nocter_text)),
        log_drop: told.then_some(end_log as unsafe extern "C" fn(*mut c_void)),
        log_user,
    };
    let opened = Handle::made_by(|out| unsafe { sys::nocter_tasks_open(text(url), &options, out) });
    if opened.is_err() && told {
        // Not taken over, so it is still ours.
        unsafe { end_log(log_user) };
    }
    opened
}

unsafe extern "C" fn log_line(user: *mut c_void, level: i32, line: sys::nocter_text) {
    panics::shield(|| (*user.cast::<Callback>())(level, &String::from_utf8_lossy(view(line))));
}

unsafe extern "C" fn end_log(user: *mut c_void) {
    panics::shield(|| drop(Box::from_raw(user.cast::<Callback>())));
}

// ---- Submitting --------------------------------------------------------------------------------------------

/// Makes tasks by either of the C calls: what each is named, and whether a key was taken.
pub(super) fn submit_by(
    submissions: &[Submission],
    call: impl FnOnce(*const sys::nocter_submission, usize, *mut sys::nocter_task_id) -> sys::nocter_status,
) -> Result<(Vec<TaskId>, bool)> {
    let raw: Vec<sys::nocter_submission> = submissions.iter().map(raw_submission).collect();
    let mut ids = vec![raw_id(None); raw.len()];
    let status = call(raw.as_ptr(), raw.len(), ids.as_mut_ptr());
    if status != sys::NOCTER_EXISTS {
        check(status)?;
    }
    Ok((ids.into_iter().map(id_of).collect(), status == sys::NOCTER_EXISTS))
}

/// Its texts are those of the submission.
fn raw_submission(of: &Submission) -> sys::nocter_submission {
    sys::nocter_submission {
        size: mem::size_of::<sys::nocter_submission>() as u32,
        priority: of.priority.unwrap_or(0),
        type_: text(&of.task_type),
        payload: text(&of.payload),
        key: text(&of.key),
        key_scope: of.key_scope.into(),
        flags: of.priority.map_or(0, |_| sys::NOCTER_SUBMIT_PRIORITY),
        parent: raw_id(of.parent),
        run_after_ms: of.run_after_ms,
        max_attempts: of.max_attempts,
        reserved: 0,
        id: raw_id(of.id),
    }
}

pub(crate) fn submit(store: &Store, submissions: &[Submission]) -> Result<(Vec<TaskId>, bool)> {
    submit_by(submissions, |first, count, ids| unsafe { sys::nocter_tasks_submit(store.pointer(), first, count, ids) })
}

// ---- Looking -----------------------------------------------------------------------------------------------

/// # Safety
/// The record is valid for the length of the call.
pub(super) unsafe fn record_of(raw: &sys::nocter_task) -> Record {
    let failure = &raw.failure;
    Record {
        id: id_of(raw.id),
        root: id_of(raw.root),
        parent: some_id(raw.parent),
        status: raw.status.into(),
        task_type: string(raw.type_),
        key: string(raw.key),
        key_scope: raw.key_scope.into(),
        payload: string(raw.payload),
        state: string(raw.state),
        result: string(raw.result),
        failure: (failure.kind.size > 0).then(|| Failed {
            kind: string(failure.kind),
            message: string(failure.message),
            detail: string(failure.detail),
            attempt: failure.attempt,
            node: string(failure.node),
            at_ms: failure.at_ms,
        }),
        priority: raw.priority,
        attempt: raw.attempt,
        max_attempts: raw.max_attempts,
        deliveries: raw.deliveries,
        rescues: raw.rescues,
        woken_by: raw.woken_by.into(),
        resumed: raw.resumed != 0,
        cancel_requested: raw.cancel_requested != 0,
        until: raw.until.into(),
        fence: raw.fence,
        created_at_ms: raw.created_at_ms,
        due_at_ms: raw.due_at_ms,
        started_at_ms: raw.started_at_ms,
        ended_at_ms: raw.ended_at_ms,
        node: string(raw.node),
        lease_until_ms: raw.lease_until_ms,
        children: raw.children,
        open_children: raw.open_children,
        messages: raw.messages,
        waiting_for: items(raw.waiting_for, raw.waiting_for_count).iter().copied().map(id_of).collect(),
        waiting_open: raw.waiting_open,
        waiting_need: raw.waiting_need,
        wake_on_failure: raw.wake_on_failure != 0,
    }
}

fn one_record(call: impl FnOnce(*mut *const sys::nocter_task) -> sys::nocter_status) -> Result<Record> {
    let mut out = ptr::null();
    check(call(&mut out))?;
    let record = unsafe { record_of(&*out) };
    unsafe { sys::nocter_task_free(out) };
    Ok(record)
}

pub(super) fn records(call: impl FnOnce(*mut sys::nocter_task_list) -> sys::nocter_status) -> Result<Vec<Record>> {
    let mut list = sys::nocter_task_list { tasks: ptr::null(), count: 0, memory: ptr::null_mut() };
    check(call(&mut list))?;
    let all = unsafe { items(list.tasks, list.count) }.iter().map(|raw| unsafe { record_of(&**raw) }).collect();
    unsafe { sys::nocter_task_list_free(&mut list) };
    Ok(all)
}

pub(crate) fn get(store: &Store, id: TaskId) -> Result<Record> {
    one_record(|out| unsafe { sys::nocter_tasks_get(store.pointer(), raw_id(Some(id)), out) })
}

pub(crate) fn children(store: &Store, id: TaskId) -> Result<Vec<Record>> {
    records(|out| unsafe { sys::nocter_tasks_children(store.pointer(), raw_id(Some(id)), out) })
}

pub(crate) fn list(store: &Store, filter: &Filter) -> Result<Vec<Record>> {
    let raw = sys::nocter_task_filter {
        size: mem::size_of::<sys::nocter_task_filter>() as u32,
        status: filter.status.map_or(0, i32::from),
        type_: text(&filter.task_type),
        parent: raw_id(filter.parent),
        root: raw_id(filter.root),
        after: raw_id(filter.after),
        created_before_ms: filter.created_before_ms,
        limit: filter.limit,
        roots_only: filter.roots_only.into(),
    };
    records(|out| unsafe { sys::nocter_tasks_list(store.pointer(), &raw, out) })
}

pub(crate) fn wait(store: &Store, id: TaskId, wait: &Wait<'_>) -> Result<Record> {
    one_record(|out| unsafe { sys::nocter_tasks_await(store.pointer(), raw_id(Some(id)), wait.pointer(), out) })
}

pub(crate) fn count(store: &Store) -> Result<Counts> {
    // All zero is a valid value of a struct of numbers.
    let mut raw: sys::nocter_tasks_counts = unsafe { mem::zeroed() };
    unsafe { sys::nocter_tasks_counts_init(&mut raw, mem::size_of::<sys::nocter_tasks_counts>()) };
    check(unsafe { sys::nocter_tasks_count(store.pointer(), &mut raw) })?;
    Ok(Counts {
        queued: raw.queued,
        running: raw.running,
        suspended: raw.suspended,
        completed: raw.completed,
        failed: raw.failed,
        cancelled: raw.cancelled,
        ready: raw.ready,
        oldest_ready_ms: raw.oldest_ready_ms,
        rescues: raw.rescues,
        repairs: raw.repairs,
        purged: raw.purged,
        runs: raw.runs,
    })
}

// ---- Telling, upkeep ---------------------------------------------------------------------------------------

pub(crate) fn notify(store: &Store, to: TaskId, from: Option<TaskId>, payload: &str) -> Result<()> {
    check(unsafe { sys::nocter_tasks_notify(store.pointer(), raw_id(Some(to)), raw_id(from), text(payload)) })
}

pub(crate) fn cancel(store: &Store, id: TaskId) -> Result<u64> {
    let mut touched = 0;
    check(unsafe { sys::nocter_tasks_cancel(store.pointer(), raw_id(Some(id)), &mut touched) })?;
    Ok(touched)
}

pub(crate) fn retry(store: &Store, id: TaskId) -> Result<TaskId> {
    let mut out = raw_id(None);
    check(unsafe { sys::nocter_tasks_retry(store.pointer(), raw_id(Some(id)), &mut out) })?;
    Ok(id_of(out))
}

pub(crate) fn maintain(store: &Store) -> Result<()> {
    check(unsafe { sys::nocter_tasks_maintain(store.pointer()) })
}

pub(crate) fn purge(store: &Store, older_than_ms: i64) -> Result<u64> {
    let mut removed = 0;
    check(unsafe { sys::nocter_tasks_purge(store.pointer(), older_than_ms, &mut removed) })?;
    Ok(removed)
}
