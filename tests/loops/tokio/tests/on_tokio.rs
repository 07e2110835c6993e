//! Tasks of tokio that await nocter's jobs, on both of its runtimes, and a loop of tokio's that reads the eventfd.

use nocter::tasks::{AsyncTasks, Ended, Submission, Tasks, TasksOptions};
use nocter::{AsyncBlocking, Blocking, BlockingOptions, Error, EventFd, Wait, Workers, WorkersOptions};
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn run<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    runtime.block_on(async { timeout(LIMIT, future).await.expect("a wake was lost") })
}

fn doubling(jobs: u32) -> (AsyncBlocking<u64, u64>, Workers) {
    let service = AsyncBlocking::new(BlockingOptions::new().maximum_jobs(jobs).workers(jobs.min(2))).unwrap();
    let workers = service.serve(|number: u64, _| number * 2, &WorkersOptions::new()).unwrap();
    (service, workers)
}

async fn many(service: AsyncBlocking<u64, u64>, tasks: u64, each: u64) {
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let service = service.clone();
            tokio::spawn(async move {
                for number in 0..each {
                    assert_eq!(service.run(task + number).await, Ok(2 * (task + number)));
                }
            })
        })
        .collect();
    for handle in handles {
        handle.await.unwrap();
    }
}

#[test]
fn bnd_04_blk_14_tasks_of_both_runtimes_await_jobs_beyond_the_bound() {
    for runtime in [one_thread(), two_threads()] {
        for bound in [1, 16, 512] {
            let (service, _workers) = doubling(bound);
            run(&runtime, many(service.clone(), 100, 50));
            let counts = service.service().count().unwrap();
            assert_eq!((counts.taken, counts.admitted), (5_000, 0));
        }
    }
}

#[test]
fn blk_14_one_service_for_two_runtimes() {
    let (service, _workers) = doubling(8);
    let other = service.clone();
    let there = std::thread::spawn(move || run(&two_threads(), many(other, 20, 200)));
    run(&one_thread(), many(service, 20, 200));
    there.join().unwrap();
}

/// Holds every job until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let open = self.0 .0.lock().unwrap();
        drop(self.0 .1.wait_timeout_while(open, LIMIT, |open| !*open).unwrap());
    }
    fn open(&self) {
        *self.0 .0.lock().unwrap() = true;
        self.0 .1.notify_all();
    }
}

#[test]
fn blk_09_gen_07_a_timeout_or_an_aborted_task_gives_its_job_up() {
    let service = AsyncBlocking::<u64, u64>::new(BlockingOptions::new().maximum_jobs(4).workers(1)).unwrap();
    let gate = Gate::default();
    let through = gate.clone();
    let run_job = move |number, job: &nocter::Job<'_>| {
        through.pass();
        number + u64::from(job.abandoned())
    };
    let _workers = service.serve(run_job, &WorkersOptions::new()).unwrap();
    run(&two_threads(), async {
        assert!(timeout(Duration::from_millis(20), service.run(1)).await.is_err());
        let task = tokio::spawn(service.run(2));
        while service.service().count().unwrap().queued == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let counts = service.service().count().unwrap();
        assert_eq!((counts.abandoned, counts.cancelled_queued), (1, 1));
        gate.open();
        assert_eq!(service.run(3).await, Ok(3));
    });
    assert_eq!(service.service().count().unwrap().abandoned_retired, 1);
}

#[test]
fn blk_11_a_runtime_that_ends_with_jobs_in_flight_gives_them_up() {
    let (gate, runtime) = (Gate::default(), one_thread());
    let service = AsyncBlocking::<u64, u64>::new(BlockingOptions::new().maximum_jobs(8).workers(2)).unwrap();
    let through = gate.clone();
    let run_job = move |number, _: &nocter::Job<'_>| {
        through.pass();
        number
    };
    let _workers = service.serve(run_job, &WorkersOptions::new()).unwrap();
    run(&runtime, async {
        for number in 0..8 {
            tokio::spawn(service.run(number));
        }
        while service.service().count().unwrap().running < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    drop(runtime);
    let counts = service.service().count().unwrap();
    assert_eq!((counts.abandoned, counts.cancelled_queued, counts.running), (2, 6, 0));
    gate.open();
    run(&one_thread(), async {
        assert_eq!(service.run(9).await, Ok(9));
        service.service().shutdown(|_| ()).unwrap();
        assert_eq!(service.drained().await, Ok(()));
        assert_eq!(service.run(9).await, Err(Error::Closed));
    });
}

#[test]
fn blk_14_b_30_the_eventfd_in_a_loop_of_tokio() {
    let eventfd = EventFd::new().unwrap();
    let options = BlockingOptions::new().maximum_jobs(1).workers(1).waiters(eventfd.notifier());
    let service = Blocking::<u64, u64>::new(options).unwrap();
    let _workers = service.serve(|number, _| number * 2, &WorkersOptions::new()).unwrap();
    run(&one_thread(), async {
        let readable = AsyncFd::new(eventfd).unwrap();
        for number in 0..5_000 {
            let id = service.submit(number).unwrap();
            let output = loop {
                let mut guard = readable.readable().await.unwrap();
                guard.clear_ready(); // tokio's note first, then the descriptor, then the question
                readable.get_ref().clear();
                if service.completed(4).unwrap() == [id] {
                    break service.take(id, &Wait::none()).unwrap();
                }
            };
            assert_eq!(output, number * 2);
        }
    });
}

#[test]
fn bnd_04_tsk_29_tasks_of_both_runtimes_await_durable_ones_and_claim_them() {
    for runtime in [one_thread(), two_threads()] {
        let tasks = AsyncTasks::new(Tasks::open("memory:", TasksOptions::new()).unwrap());
        run(&runtime, async {
            let worker = tokio::spawn({
                let tasks = tasks.clone();
                async move {
                    for _ in 0..20 {
                        for run in tasks.claim(&["double"], 1).await.unwrap() {
                            let number: u64 = run.payload().parse().unwrap();
                            assert_eq!(run.done((2 * number).to_string()).unwrap(), Ended::AsSaid);
                        }
                    }
                }
            });
            let awaited = (0..20).map(|number: u64| {
                let tasks = tasks.clone();
                tokio::spawn(async move {
                    let submission = Submission::new("double").payload(number.to_string());
                    let id = tasks.store().submit(submission).unwrap().id();
                    assert_eq!(tasks.ended(id).await.unwrap().result, (2 * number).to_string());
                })
            });
            for handle in awaited.collect::<Vec<_>>() {
                handle.await.unwrap();
            }
            worker.await.unwrap();
            // What is given up while it waits claims nothing.
            assert!(timeout(Duration::from_millis(20), tasks.claim(&[], 1)).await.is_err());
            let id = tasks.store().submit("double").unwrap().id();
            assert_eq!(tasks.claim(&[], 1).await.unwrap()[0].task().id, id);
        });
    }
}
