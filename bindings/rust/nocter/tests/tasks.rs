//! Durable tasks through the safe layer: rounds by hand and on the library's threads, what is told and what is refused.

mod support;

use nocter::tasks::{
    Clock, Ended, EventKind, Failure, Filter, Handlers, KeyScope, Outcome, Reason, Run, Status, Submission, Submitted,
    Suspension, TaskId, Tasks, TasksOptions, Until, Wake,
};
use nocter::{Error, Interrupt, NotEnded, Wait, WorkersOptions};
use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{message, panic_of, quiet_panic, LONG};

const SECOND: Duration = Duration::from_secs(1);

fn clock() -> Clock {
    Clock::new(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap()
}

fn open(clock: &Clock) -> Tasks {
    Tasks::open("memory:", TasksOptions::new().clock(clock).events().node("here")).unwrap()
}

fn one_run(tasks: &Tasks) -> Run {
    tasks.claim(&[], 1, &Wait::none()).unwrap().pop().unwrap()
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("nocter-rust-{name}-{}", TaskId::make()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("work.db").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tsk_01_a_task_is_submitted_run_and_completed() {
    let (clock, folder) = (clock(), Folder::new("life"));
    for url in ["memory:".to_string(), folder.url()] {
        let tasks = Tasks::open(&url, TasksOptions::new().clock(&clock).node("here")).unwrap();
        let id = tasks.submit(Submission::new("greet").payload("{\"name\": \"Grün \u{2603}\"}")).unwrap().id();
        let queued = tasks.get(id).unwrap();
        assert_eq!((queued.status, queued.id, queued.root, queued.parent), (Status::Queued, id, id, None));
        assert_eq!(queued.payload, "{\"name\": \"Grün \u{2603}\"}");
        assert_eq!((queued.created_at(), queued.ended_at(), queued.ended()), (clock.now(), None, false));
        assert_eq!(tasks.wait(id, &Wait::none()), Err(Error::Pending));
        let run = one_run(&tasks);
        assert_eq!((run.task().id, run.payload(), run.resumed()), (id, queued.payload.as_str(), false));
        assert_eq!((run.task().woken_by, run.cancelled(), run.reason()), (Wake::First, false, Reason::None));
        assert!(run.messages().unwrap().is_empty() && !run.interrupt().raised() && run.fence() > 0);
        run.update_state("[1]").unwrap();
        assert_eq!((tasks.get(id).unwrap().state.as_str(), tasks.get(id).unwrap().node.as_str()), ("[1]", "here"));
        assert_eq!(run.done("\"Hello\"").unwrap(), Ended::AsSaid);
        let done = tasks.wait(id, &Wait::none()).unwrap();
        assert_eq!((done.status, done.result.as_str()), (Status::Completed, "\"Hello\""));
        assert_eq!(tasks.count().unwrap().completed, 1);
        assert!(format!("{tasks:?}").contains("completed: 1"));
        assert!(matches!(tasks.get(TaskId::make()), Err(Error::Unknown(_))));
    }
}

#[test]
fn tsk_21_identities_are_read_and_written() {
    let (first, second) = (TaskId::make(), TaskId::make());
    assert!(first < second);
    assert_eq!(first.to_string().parse::<TaskId>(), Ok(first));
    assert_eq!(first.to_string().to_uppercase().parse::<TaskId>(), Ok(first));
    assert_eq!(TaskId::from_bytes(first.into_bytes()), first);
    assert!(matches!("no".parse::<TaskId>(), Err(Error::Argument(_))));
    assert_eq!(format!("{first:?}"), format!("TaskId({first})"));
}

fn tree(run: &Run) -> Result<Outcome, Failure> {
    let depth: u32 = run.payload().parse()?;
    if !run.resumed() && depth > 0 {
        for _ in 0..2 {
            run.submit_child(Submission::new("tree").payload((depth - 1).to_string()))?;
        }
        return Ok(Suspension::children().into());
    }
    let mut sum = 1;
    for child in run.children()? {
        sum += child.result.parse::<u32>()?;
    }
    Ok(sum.to_string().into())
}

#[test]
fn tsk_05_a_tree_of_tasks_is_worked_off_by_the_library_s_threads() {
    let folder = Folder::new("tree");
    for url in ["memory:".to_string(), folder.url()] {
        let tasks = Tasks::open(&url, TasksOptions::new().normal_sync()).unwrap();
        let workers = tasks.serve(Handlers::new().on("tree", tree), 3, &WorkersOptions::new()).unwrap();
        let id = tasks.submit(Submission::new("tree").payload("4")).unwrap().id();
        assert_eq!(tasks.wait(id, &Wait::at_most(LONG)).unwrap().result, "31");
        workers.stop(&Wait::at_most(LONG)).unwrap();
        let counts = tasks.count().unwrap();
        assert_eq!((counts.completed, counts.running, counts.suspended, counts.repairs), (31, 0, 0, 0));
        assert_eq!(tasks.list(&Filter::new().root(id).limit(1000)).unwrap().len(), 31);
        assert_eq!(
            tasks.list(&Filter::new().roots_only().task_type("tree").status(Status::Completed)).unwrap().len(),
            1
        );
        assert_eq!(tasks.children(id).unwrap().len(), 2);
    }
}

#[test]
fn tsk_06_t_13_joins_on_named_tasks() {
    let clock = clock();
    let tasks = open(&clock);
    let ended = tasks.submit("work").unwrap().id();
    assert_eq!(one_run(&tasks).done("1").unwrap(), Ended::AsSaid);
    let (open, last) = (tasks.submit("work").unwrap().id(), tasks.submit("work").unwrap().id());
    let parent = tasks.submit(Submission::new("parent").priority(1)).unwrap().id();
    assert_eq!(one_run(&tasks).suspend(Suspension::tasks([ended])).unwrap(), Ended::AsSaid);
    let run = one_run(&tasks);
    assert_eq!((run.task().id, run.resumed(), run.task().woken_by), (parent, true, Wake::Join));
    let NotEnded { guard, error } = run.suspend(Suspension::tasks([ended, TaskId::make()])).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)));
    let NotEnded { guard, error } = guard.suspend(Suspension::tasks([parent])).unwrap_err();
    assert!(matches!(error, Error::State(_)));
    assert_eq!(guard.suspend(Suspension::tasks([ended, open, last]).or_failure()).unwrap(), Ended::AsSaid);
    let parked = tasks.get(parent).unwrap();
    assert_eq!(
        (parked.status, parked.until, &parked.waiting_for[..]),
        (Status::Suspended, Until::Tasks, &[open, last][..])
    );
    assert_eq!((parked.waiting_open, parked.waiting_need, parked.wake_on_failure), (2, 2, true));
    assert_eq!(one_run(&tasks).fail(Failure::new("Bad", "very").never_retry()).unwrap(), Ended::AsSaid);
    let run = one_run(&tasks);
    assert_eq!(run.task().woken_by, Wake::Failure);
    let wake_at = clock.now() + 5 * SECOND;
    assert_eq!(run.suspend(Suspension::notified().or_at(wake_at)).unwrap(), Ended::AsSaid);
    assert_eq!(tasks.get(parent).unwrap().due_at(), Some(wake_at));
    clock.advance(5 * SECOND);
    tasks.maintain().unwrap();
    assert_eq!(one_run(&tasks).task().woken_by, Wake::Timer);
}

#[test]
fn tsk_08_tsk_09_messages_are_handed_to_one_round_that_succeeds() {
    let clock = clock();
    let tasks = open(&clock);
    let id = tasks.submit(Submission::new("listen").max_attempts(2)).unwrap().id();
    tasks.notify(id, "\"early\"").unwrap();
    let first = one_run(&tasks);
    let child = first.submit_child(Submission::new("say").priority(9)).unwrap().id();
    assert_eq!(first.fail(Failure::new("Again", "").retry_after(SECOND)).unwrap(), Ended::AsSaid);
    let say = one_run(&tasks);
    say.notify_parent("2").unwrap();
    say.notify(id, "3").unwrap();
    assert_eq!(say.done("").unwrap(), Ended::AsSaid);
    tasks.notify_from(child, id, "4").unwrap();
    clock.advance(SECOND);
    let run = one_run(&tasks);
    let messages = run.messages().unwrap();
    let told: Vec<_> = messages.iter().map(|m| (m.payload.as_str(), m.sender, m.deliveries)).collect();
    let from = Some(child);
    assert_eq!(told, [("\"early\"", None, 2), ("2", from, 1), ("3", from, 1), ("4", from, 1)]);
    assert_eq!(run.done("").unwrap(), Ended::AsSaid);
    assert!(matches!(tasks.notify(id, "5"), Err(Error::State(_))));
    assert_eq!(tasks.get(id).unwrap().result, "{}");
}

#[test]
fn tsk_11_tsk_17_a_cancelled_or_late_run_changes_nothing() {
    let clock = clock();
    let options = TasksOptions::new().clock(&clock).by_hand().lease(10 * SECOND);
    let tasks = Tasks::open("memory:", options).unwrap();
    let id = tasks.submit("work").unwrap().id();
    let run = one_run(&tasks);
    assert_eq!(tasks.cancel(id), Ok(1));
    assert!(run.cancelled() && run.interrupt().raised());
    assert_eq!(run.reason(), Reason::Cancel);
    assert_eq!(run.submit_child("child"), Err(Error::Cancelled));
    assert_eq!(run.done("1").unwrap(), Ended::Cancelled);
    assert_eq!((tasks.get(id).unwrap().status, tasks.get(id).unwrap().result.as_str()), (Status::Cancelled, "1"));
    assert!(matches!(tasks.cancel(id), Err(Error::State(_))));
    assert_ne!(tasks.retry(id), Ok(id));
    let late = one_run(&tasks);
    late.heartbeat().unwrap();
    clock.advance(11 * SECOND);
    tasks.maintain().unwrap();
    let again = one_run(&tasks);
    assert_eq!((again.task().woken_by, again.fence() > late.fence()), (Wake::Rescue, true));
    assert!(matches!(late.update_state("1"), Err(Error::LeaseLost(_))));
    assert_eq!(late.done("1").unwrap(), Ended::LeaseLost);
    assert_eq!(again.hand_back().unwrap(), Ended::AsSaid);
}

#[test]
fn tsk_20_tsk_22_tsk_31_keys_steps_and_atomic_rounds() {
    let clock = clock();
    let tasks = open(&clock);
    let id = tasks.submit(Submission::new("work").key("k", KeyScope::LiveType)).unwrap().id();
    assert_eq!(tasks.submit(Submission::new("work").key("k", KeyScope::LiveType)), Ok(Submitted::Exists(id)));
    let many =
        [Submission::new("work").key("k", KeyScope::LiveType), Submission::new("late").run_after(clock.now() + SECOND)];
    let made = tasks.submit_many(&many).unwrap();
    assert!(made.exists && made.ids[0] == id && tasks.get(made.ids[1]).unwrap().due_at_ms > 0);
    let run = one_run(&tasks);
    let fails = run.step("s", || Err::<String, Failure>(Failure::new("Bad", "")));
    assert_eq!(fails, Err(Failure::new("Bad", "")));
    assert_eq!(run.step("s", || Ok::<_, Error>("1".to_string())), Ok("1".to_string()));
    assert_eq!(run.step("s", || Err(Error::Closed)), Ok("1".to_string()));
    assert_eq!((run.step_put("s", "2"), run.step_get("t")), (Err(Error::Exists), Ok(None)));
    run.atomic().unwrap();
    let child = run.submit_children(&[Submission::new("child").key("c", KeyScope::Tree)]).unwrap().ids[0];
    run.update_state("1").unwrap();
    run.shared_put("a", "1").unwrap();
    assert_eq!(run.shared_put_if_absent("b", "2"), Ok(None));
    assert_eq!(run.shared_put_if_absent("a", "2"), Ok(Some("1".to_string())));
    assert_eq!(run.shared_get("b"), Ok(Some("2".to_string())));
    assert_eq!((run.children().unwrap().len(), tasks.children(id).unwrap().len()), (1, 0));
    assert_eq!(run.suspend(Suspension::children().need(1)).unwrap(), Ended::AsSaid);
    assert_eq!(tasks.get(id).unwrap().waiting_for, [child]);
    assert_eq!(tasks.shared(id).all(), Ok(vec![("a".into(), "1".into()), ("b".into(), "2".into())]));
}

#[test]
fn tsk_24_tsk_30_what_is_no_json_or_too_long_is_refused() {
    let tasks = Tasks::open("memory:", TasksOptions::new().maximum_json(10).maximum_mailbox(1)).unwrap();
    for bad in ["{", "nul", "\"\\u0000\"", "\"\\ud800\"", "1 2"] {
        assert!(matches!(tasks.submit(Submission::new("work").payload(bad)), Err(Error::Json(_))), "{bad}");
    }
    assert!(matches!(tasks.submit(Submission::new("work").payload("[1, 2, 3, 4]")), Err(Error::Limit(_))));
    assert!(matches!(tasks.submit(""), Err(Error::Argument(_))));
    let id = tasks.submit("work").unwrap().id();
    tasks.notify(id, "").unwrap();
    assert!(matches!(tasks.notify(id, ""), Err(Error::Limit(_))));
    let NotEnded { guard, error } = one_run(&tasks).done("[1, 2, 3, 4]").unwrap_err();
    assert!(matches!(error, Error::Limit(_)));
    assert_eq!(guard.done("[1]").unwrap(), Ended::AsSaid);
    assert!(matches!(Tasks::open("nothing:", TasksOptions::new()), Err(Error::Argument(_))));
}

#[test]
fn tsk_23_tsk_29_events_and_purge() {
    let clock = clock();
    let tasks = open(&clock);
    assert_eq!(tasks.events(0, 10, &Wait::none()), Err(Error::Empty));
    let id = tasks.submit("work").unwrap().id();
    let run = one_run(&tasks);
    run.update_state("1").unwrap();
    assert_eq!(run.done("2").unwrap(), Ended::AsSaid);
    let events = tasks.events(0, 10, &Wait::none()).unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.sequence, event.kind, event.data.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, EventKind::Submitted, ""),
            (2, EventKind::Started, ""),
            (3, EventKind::State, "1"),
            (4, EventKind::Ended, "2"),
        ]
    );
    assert!(events.iter().all(|event| event.task == id && event.task_type == "work"));
    assert_eq!(tasks.purge(SECOND), Ok(0));
    clock.advance(2 * SECOND);
    assert_eq!(tasks.purge(SECOND), Ok(1));
    assert_eq!(tasks.count().unwrap().purged, 1);
}

#[test]
fn shr_01_shr_02_shr_03_shr_04_values_and_locks() {
    let clock = clock();
    let tasks = open(&clock);
    let shared = tasks.shared("scope");
    assert_eq!(shared.put_if_absent("k", "1"), Ok(None));
    assert_eq!(shared.put_if_absent("k", "2"), Ok(Some("1".to_string())));
    shared.put("l", "3").unwrap();
    assert_eq!(shared.get("l"), Ok(Some("3".to_string())));
    assert_eq!(shared.all().unwrap().len(), 2);
    shared.clear().unwrap();
    assert_eq!(shared.get("k"), Ok(None));
    let first = tasks.lock("name", SECOND, &Wait::none()).unwrap();
    assert_eq!(tasks.lock("name", SECOND, &Wait::none()).unwrap_err(), Error::Held);
    first.renew(2 * SECOND).unwrap();
    clock.advance(3 * SECOND);
    let second = tasks.lock("name", SECOND, &Wait::none()).unwrap();
    assert!(second.fence() > first.fence());
    assert!(matches!(first.renew(SECOND), Err(Error::LeaseLost(_))));
    assert!(matches!(first.release(), Err(Error::LeaseLost(_))));
    drop(second);
    tasks.lock("name", SECOND, &Wait::none()).unwrap().release().unwrap();
}

#[test]
fn bnd_04_a_panic_in_a_handler_is_a_failed_try_and_raised_again() {
    let tasks = Tasks::open("memory:", TasksOptions::new()).unwrap();
    let handlers = Handlers::new().on("bad", |_| -> Outcome { quiet_panic("no luck") });
    let workers = tasks.serve(handlers, 1, &WorkersOptions::new()).unwrap();
    let id = tasks.submit("bad").unwrap().id();
    let mut raised = false;
    let record = loop {
        match catch_unwind(AssertUnwindSafe(|| tasks.wait(id, &Wait::at_most(LONG)))) {
            Ok(record) => break record.unwrap(),
            Err(caught) => {
                assert_eq!(message(caught), "no luck");
                raised = true;
            }
        }
    };
    if !raised {
        assert_eq!(panic_of(|| tasks.count()), "no luck");
    }
    let failure = record.failure.unwrap();
    assert_eq!((record.status, failure.kind.as_str(), failure.message.as_str()), (Status::Failed, "Panic", "no luck"));
    drop(workers);
    let dropped = tasks.submit(Submission::new("dropped")).unwrap().id();
    drop(tasks.claim(&["dropped"], 1, &Wait::none()));
    assert_eq!(tasks.get(dropped).unwrap().failure.unwrap().kind, "WorkerLost");
}

#[test]
fn bnd_04_a_refused_outcome_is_a_failed_try() {
    let tasks = Tasks::open("memory:", TasksOptions::new()).unwrap();
    let handlers = Handlers::new().on("bad", |_| "no json").on("error", |_| -> Result<(), Failure> {
        "x".parse::<u32>()?;
        Ok(())
    });
    let workers = tasks.serve(handlers, 1, &WorkersOptions::new()).unwrap();
    let kinds = ["bad", "error"].map(|name| {
        let id = tasks.submit(name).unwrap().id();
        tasks.wait(id, &Wait::at_most(LONG)).unwrap().failure.unwrap().kind
    });
    assert_eq!(kinds, ["NOCTER_E_JSON", "ParseIntError"]);
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn tsk_14_tsk_29_a_stop_interrupts_and_waits_end() {
    let tasks = Tasks::open("memory:", TasksOptions::new()).unwrap();
    let (sender, begun) = mpsc::channel();
    let sender = Mutex::new(sender);
    let handlers = Handlers::new().on("long", move |run| {
        sender.lock().unwrap().send(()).unwrap();
        let signal = nocter::Signal::new().unwrap();
        let said = signal.wait(signal.version(), &Wait::forever().interrupt(run.interrupt()));
        assert_eq!((said, run.reason()), (Err(Error::Interrupted), Reason::Stop));
        Outcome::HandBack
    });
    let workers = tasks.serve(handlers, 1, &WorkersOptions::new()).unwrap();
    let id = tasks.submit("long").unwrap().id();
    begun.recv_timeout(LONG).unwrap();
    workers.stop(&Wait::at_most(LONG)).unwrap();
    assert_eq!((tasks.get(id).unwrap().status, tasks.get(id).unwrap().attempt), (Status::Queued, 0));
    assert_eq!(tasks.wait(id, &Wait::at_most(Duration::from_millis(5))), Err(Error::Timeout));
    let interrupt = Interrupt::new().unwrap();
    interrupt.raise();
    assert_eq!(tasks.wait(id, &Wait::forever().interrupt(&interrupt)), Err(Error::Interrupted));
}

#[test]
fn bnd_04_the_log_is_told_and_let_go() {
    let (lines, folder) = (Arc::new(AtomicU32::new(0)), Folder::new("log"));
    let counted = lines.clone();
    let options = TasksOptions::new().log(move |_, line| {
        assert!(!line.is_empty());
        counted.fetch_add(1, Ordering::Relaxed);
    });
    drop(Tasks::open(&folder.url(), options).unwrap());
    for _ in 0..500 {
        if Arc::strong_count(&lines) == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(Arc::strong_count(&lines), 1);
    let kept = lines.clone();
    let failed = Tasks::open("nothing:", TasksOptions::new().log(move |_, _| drop(kept.clone())));
    assert!(failed.is_err());
    assert_eq!(Arc::strong_count(&lines), 1);
}

#[test]
fn bnd_04_a_panic_in_handlers_run_by_hand_comes_out() {
    let tasks = Tasks::open("memory:", TasksOptions::new()).unwrap();
    let handlers = Handlers::new().on("bad", |_| -> Outcome { quiet_panic("here") }).on("good", |_| ());
    let bad = tasks.submit("bad").unwrap().id();
    let run = one_run(&tasks);
    assert_eq!(panic_of(|| drop(handlers.run(run))), "here");
    assert_eq!(tasks.get(bad).unwrap().status, Status::Failed);
    tasks.submit("good").unwrap();
    assert_eq!(handlers.run(one_run(&tasks)).unwrap(), Ended::AsSaid);
    let lone = tasks.submit("nobody").unwrap().id();
    assert_eq!(handlers.run(one_run(&tasks)).unwrap(), Ended::AsSaid);
    assert_eq!(tasks.get(lone).unwrap().failure.unwrap().kind, "NoHandler");
    let now = SystemTime::now();
    assert!(tasks.get(lone).unwrap().ended_at().unwrap() <= now + SECOND);
}
