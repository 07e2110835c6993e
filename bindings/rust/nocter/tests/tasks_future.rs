//! Durable tasks awaited, on an executor of a few lines: their ends, and tasks to work on.

mod executor;
mod support;

use executor::{block_on, poll_once, Counting, Executor};
use nocter::tasks::{AsyncTasks, Ended, Handlers, Status, Submission, TaskId, Tasks, TasksOptions};
use nocter::{Error, Wait, WorkersOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

fn store() -> AsyncTasks {
    AsyncTasks::new(Tasks::open("memory:", TasksOptions::new()).unwrap())
}

/// Until it is so, which it must be soon.
fn eventually(so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < limit);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn bnd_04_tsk_29_many_await_the_ends_of_tasks_that_others_work_on() {
    let tasks = store();
    let handlers = Handlers::new().on("echo", |run| run.payload().to_string());
    let workers = tasks.store().serve(handlers, 2, &WorkersOptions::new()).unwrap();
    let executor = Executor::default();
    let ended = Arc::new(AtomicUsize::new(0));
    for number in 0..40 {
        let (tasks, ended) = (tasks.clone(), ended.clone());
        executor.spawn(async move {
            let id = tasks.store().submit(Submission::new("echo").payload(number.to_string())).unwrap().id();
            let record = tasks.ended(id).await.unwrap();
            assert_eq!((record.status, record.result), (Status::Completed, number.to_string()));
            ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    executor.run(2);
    assert_eq!(ended.load(Ordering::Relaxed), 40);
    workers.stop(&Wait::forever()).unwrap();
}

#[test]
fn bnd_04_tsk_29_an_end_that_was_before_and_a_task_that_never_was() {
    let tasks = store();
    let id = tasks.store().submit("work").unwrap().id();
    tasks.store().cancel(id).unwrap();
    assert_eq!(block_on(tasks.ended(id)).unwrap().status, Status::Cancelled);
    assert!(matches!(block_on(tasks.ended(TaskId::make())), Err(Error::Unknown(_))));
}

#[test]
fn bnd_04_tsk_13_a_claim_waits_for_a_task_of_its_types() {
    let tasks = store();
    let mut claim = Box::pin(tasks.claim(&["wanted"], 2));
    let counting = Counting::new();
    assert!(poll_once(&mut claim, &counting.waker()).is_pending());
    tasks.store().submit("other").unwrap();
    let id = tasks.store().submit("wanted").unwrap().id();
    let runs = block_on(claim).unwrap();
    assert_eq!(runs.iter().map(|run| run.task().id).collect::<Vec<_>>(), [id]);
    for run in runs {
        assert_eq!(run.done("1").unwrap(), Ended::AsSaid);
    }
    assert_eq!(block_on(tasks.ended(id)).unwrap().result, "1");
    assert_eq!(counting.wakes(), 0, "the last waker is called, and no earlier one");
}

#[test]
fn bnd_04_tsk_14_a_claim_that_is_dropped_strands_nothing_and_spends_no_try() {
    let tasks = store();
    let idle = Counting::new();
    // Before it has claimed: it takes nothing afterwards.
    let mut claim = Box::pin(tasks.claim(&[], 1));
    assert!(poll_once(&mut claim, &idle.waker()).is_pending());
    drop(claim);
    // After it has, or in the middle of it.
    let id = tasks.store().submit("work").unwrap().id();
    for round in 0..20 {
        let counting = Counting::new();
        let mut claim = Box::pin(tasks.claim(&[], 1));
        assert!(poll_once(&mut claim, &counting.waker()).is_pending());
        if round % 2 == 0 {
            counting.until_woken(1);
        }
        drop(claim);
    }
    eventually(|| tasks.store().get(id).unwrap().status == Status::Queued);
    let runs = block_on(tasks.claim(&[], 1)).unwrap();
    assert_eq!((runs.len(), runs[0].task().id, runs[0].task().attempt), (1, id, 1));
    assert!(runs[0].task().failure.is_none());
}

#[test]
fn bnd_04_a_future_that_was_never_polled_or_is_polled_again_does_nothing_wrong() {
    let tasks = store();
    let id = tasks.store().submit("work").unwrap().id();
    drop(tasks.ended(id));
    drop(tasks.claim(&[], 1));
    assert_eq!(tasks.store().get(id).unwrap().status, Status::Queued);
    let (first, second) = (Counting::new(), Counting::new());
    let mut ended = Box::pin(tasks.ended(id));
    assert!(poll_once(&mut ended, &first.waker()).is_pending());
    assert!(poll_once(&mut ended, &second.waker()).is_pending());
    tasks.store().cancel(id).unwrap();
    second.until_woken(1);
    assert_eq!(first.wakes(), 0);
    assert!(matches!(poll_once(&mut ended, &first.waker()), Poll::Ready(Ok(record)) if record.ended()));
}

#[test]
fn bnd_04_the_store_goes_with_its_last_future() {
    let tasks = store();
    let id = tasks.store().submit("work").unwrap().id();
    let mut ended = Box::pin(tasks.ended(id));
    let idle = Counting::new();
    assert!(poll_once(&mut ended, &idle.waker()).is_pending());
    drop(tasks);
    assert!(poll_once(&mut ended, &idle.waker()).is_pending());
    drop(ended);
}
