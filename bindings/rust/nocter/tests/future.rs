//! Futures on an executor of a few lines: who awaits a job is woken once it has ended, and for nothing else.

mod executor;
mod support;

use executor::{block_on, poll_fn, poll_once, Counting, Executor};
use nocter::{
    AsyncBlocking, BlockingOptions, Error, JobId, Keyed, KeyedOptions, Notifier, Refused, Retirement,
    RetirementOptions, Wait, Watch, Workers, WorkersOptions,
};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;
use support::{panic_of, quiet_panic, Counted, Ledger, Random, LONG};

fn service<I: Send, O: Send>(jobs: u32, workers: u32) -> AsyncBlocking<I, O> {
    AsyncBlocking::new(BlockingOptions::new().maximum_jobs(jobs).workers(workers)).unwrap()
}

fn doubling(jobs: u32, workers: u32) -> (AsyncBlocking<u64, u64>, Workers) {
    let service = service(jobs, workers);
    let threads = service.serve(|number, _| number * 2, &WorkersOptions::new()).unwrap();
    (service, threads)
}

/// Runs the oldest job by hand.
fn run_one(service: &AsyncBlocking<u64, u64>) -> JobId {
    let (input, completion) = service.service().claim(&Wait::none()).unwrap().begin().unwrap();
    let id = completion.id();
    completion.complete(input * 2).unwrap();
    id
}

#[test]
fn bnd_04_blk_14_hundreds_of_tasks_await_their_jobs_beyond_the_bound() {
    let (service, _threads) = doubling(16, 2);
    let sum = Arc::new(AtomicU64::new(0));
    let executor = Executor::default();
    for task in 0..200 {
        let (service, sum) = (service.clone(), sum.clone());
        executor.spawn(async move {
            for number in 0..50 {
                let output = service.run(task * 50 + number).await.unwrap();
                assert_eq!(output, (task * 50 + number) * 2);
                sum.fetch_add(output, Ordering::Relaxed);
            }
        });
    }
    executor.run(2);
    assert_eq!(sum.load(Ordering::Relaxed), 10_000 * 9_999);
    let counts = service.service().count().unwrap();
    assert_eq!((counts.taken, counts.admitted), (10_000, 0));
    assert!(counts.saturated > 0);
}

#[test]
fn blk_14_no_wake_is_lost_when_every_one_counts() {
    // One job at a time: a wake that is lost is not made up for by a later one.
    let (service, _threads) = doubling(1, 1);
    for number in 0..20_000 {
        assert_eq!(block_on(service.run(number)), Ok(number * 2));
    }
}

#[test]
fn gen_04_who_ends_a_job_wakes_its_task_and_no_other() {
    let service = service::<u64, u64>(64, 2);
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let through = gate.clone();
    let run = move |number, _: &nocter::Job<'_>| {
        drop(through.lock());
        number
    };
    let threads = service.serve(run, &WorkersOptions::new().threads(1)).unwrap();
    let wakers: Vec<_> = (0..50).map(|_| Counting::new()).collect();
    let mut futures: Vec<_> = (0..50).map(|number| Box::pin(service.run(number))).collect();
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_once(future, &waker.waker()).is_pending());
    }
    drop(held);
    wakers.iter().for_each(|waker| waker.until_woken(1));
    for (number, (future, waker)) in futures.iter_mut().zip(&wakers).enumerate() {
        assert_eq!(waker.wakes(), 1, "task {number}");
        assert!(poll_once(future, &waker.waker()).is_ready());
    }
    // Nor does the taking wake anybody: nobody waited for a place.
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    service.service().shutdown(|_| ()).unwrap();
    threads.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn bnd_04_the_waker_of_the_last_poll_is_called_and_cloned_only_when_it_is_another() {
    let service = service::<u64, u64>(4, 1);
    let (first, second) = (Counting::new(), Counting::new());
    let mut future = Box::pin(service.run(1));
    for _ in 0..10 {
        assert!(poll_once(&mut future, &first.waker()).is_pending());
    }
    assert_eq!(first.clones(), 1);
    assert!(poll_once(&mut future, &second.waker()).is_pending());
    run_one(&service);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert_eq!(poll_once(&mut future, &second.waker()), Poll::Ready(Ok(2)));
    assert_eq!((first.alive(), second.alive()), (0, 0), "no waker outlives its future's end");
}

#[test]
fn blk_09_dropping_a_future_asks_for_cancel_and_returns() {
    let ledger = Ledger::default();
    let service = service::<Counted, Counted>(4, 2);
    let waker = Counting::new();
    let mut queued = Box::pin(service.run(ledger.value()));
    let mut running = Box::pin(service.run(ledger.value()));
    let mut ended = Box::pin(service.run(ledger.value()));
    for future in [&mut running, &mut ended, &mut queued] {
        assert!(poll_once(future, &waker.waker()).is_pending());
    }
    let (input, running_guard) = service.service().claim(&Wait::none()).unwrap().begin().unwrap();
    let (output, ended_guard) = service.service().claim(&Wait::none()).unwrap().begin().unwrap();
    ended_guard.complete(output).unwrap();
    drop((queued, running, ended));
    assert!(running_guard.abandoned() && running_guard.interrupt().raised());
    let counts = service.service().count().unwrap();
    assert_eq!((counts.cancelled_queued, counts.cancelled_completed, counts.abandoned), (1, 1, 1));
    assert_eq!(ledger.dropped(), 2);
    running_guard.complete(input).unwrap();
    assert_eq!(service.service().count().unwrap().admitted, 0);
    assert_eq!(waker.alive(), 0);
    ledger.assert_all_dropped_once();
    drop(service.run(ledger.value())); // never polled: nothing was submitted
    ledger.assert_all_dropped_once();
}

#[test]
fn blk_10_a_job_that_others_take_or_cancel_ends_its_future() {
    let service = service::<u64, u64>(4, 2);
    let ids: Vec<JobId> = (0..3).map(|number| block_on(service.submit(number)).unwrap()).collect();
    let wakers: Vec<_> = (0..3).map(|_| Counting::new()).collect();
    let mut futures: Vec<_> = ids.iter().map(|id| Box::pin(service.take(*id))).collect();
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_once(future, &waker.waker()).is_pending());
    }
    run_one(&service);
    assert_eq!(service.service().take(ids[0], &Wait::none()), Ok(0));
    let _running = service.service().claim(&Wait::none()).unwrap();
    let _ = service.service().cancel(ids[1]).unwrap();
    let _ = service.service().cancel(ids[2]).unwrap();
    let ends = futures.iter_mut().zip(&wakers).map(|(future, waker)| {
        assert!(waker.wakes() > 0);
        match poll_once(future, &waker.waker()) {
            Poll::Ready(Err(error)) => error.name(),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["NOCTER_E_UNKNOWN", "NOCTER_E_STATE", "NOCTER_E_UNKNOWN"]);
}

#[test]
fn blk_14_two_futures_of_one_job() {
    let service = service::<u64, u64>(4, 2);
    let id = block_on(service.submit(4)).unwrap();
    let wakers = [Counting::new(), Counting::new(), Counting::new()];
    let mut futures = [(); 3].map(|()| Box::pin(service.take(id)));
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_once(future, &waker.waker()).is_pending());
    }
    run_one(&service);
    assert!(wakers.iter().all(|waker| waker.wakes() == 1));
    assert_eq!(poll_once(&mut futures[1], &wakers[1].waker()), Poll::Ready(Ok(8)));
    for place in [0, 2] {
        let end = poll_once(&mut futures[place], &wakers[place].waker());
        assert!(matches!(end, Poll::Ready(Err(Error::Unknown(_)))));
    }
}

#[test]
fn blk_03_b_22_saturated_futures_wait_for_a_place_and_get_their_input_back_when_there_is_none() {
    let service = service::<u64, u64>(1, 1);
    let first = block_on(service.submit(1)).unwrap();
    let wakers = [Counting::new(), Counting::new(), Counting::new()];
    let epoch = service.service().epoch().unwrap();
    let mut submit = Box::pin(service.submit(2));
    let mut later = Box::pin(service.wait_epoch(epoch));
    assert!(poll_once(&mut submit, &wakers[0].waker()).is_pending());
    assert!(poll_once(&mut later, &wakers[1].waker()).is_pending());
    run_one(&service);
    assert_eq!(block_on(service.take(first)), Ok(2));
    assert!(wakers[..2].iter().all(|waker| waker.wakes() >= 1));
    assert!(matches!(poll_once(&mut submit, &wakers[0].waker()), Poll::Ready(Ok(_))));
    assert!(matches!(poll_once(&mut later, &wakers[1].waker()), Poll::Ready(Ok(now)) if now != epoch));

    let mut refused = Box::pin(service.submit(3));
    assert!(poll_once(&mut refused, &wakers[2].waker()).is_pending());
    assert_eq!(block_on(service.drained()).unwrap_err().name(), "NOCTER_E_STATE");
    service.service().shutdown(|_| ()).unwrap();
    assert!(wakers[2].wakes() >= 1);
    match poll_once(&mut refused, &wakers[2].waker()) {
        Poll::Ready(Err(Refused::Closed { input })) => assert_eq!(input, 3),
        other => panic!("{other:?}"),
    }
    assert_eq!(block_on(service.run(4)), Err(Error::Closed));
    assert_eq!(block_on(service.drained()), Ok(()));
}

#[test]
fn blk_11_shutdown_ends_every_wait_and_drained_comes_last() {
    let service = service::<u64, u64>(3, 1);
    let waker = Counting::new();
    let mut futures: Vec<_> = (0..3).map(|number| Box::pin(service.run(number))).collect();
    futures.iter_mut().for_each(|future| assert!(poll_once(future, &waker.waker()).is_pending()));
    let running = service.service().claim(&Wait::none()).unwrap();
    service.service().shutdown(|_| ()).unwrap();
    assert!(waker.wakes() >= 3);
    for future in &mut futures {
        assert_eq!(poll_once(future, &waker.waker()), Poll::Ready(Err(Error::Closed)));
    }
    let last = Counting::new();
    let mut drained = Box::pin(service.drained());
    assert!(poll_once(&mut drained, &last.waker()).is_pending());
    drop(running);
    assert!(last.wakes() >= 1);
    assert_eq!(poll_once(&mut drained, &last.waker()), Poll::Ready(Ok(())));
}

#[test]
fn ffi_09_bnd_04_a_panic_of_a_job_is_raised_where_the_job_is_awaited() {
    let service = service::<u64, u64>(8, 1);
    let run = |number, _: &nocter::Job<'_>| if number == 13 { quiet_panic("thirteen") } else { number };
    let _threads = service.serve(run, &WorkersOptions::new()).unwrap();
    let waker = Counting::new();
    let mut bad = Box::pin(service.run(13));
    assert!(poll_once(&mut bad, &waker.waker()).is_pending() || waker.wakes() == 0);
    assert_eq!(block_on(service.run(1)), Ok(1), "the panic of another task's job is none of this one's");
    assert_eq!(panic_of(|| poll_once(&mut bad, &waker.waker())), "thirteen");
    drop(bad);
    assert_eq!(block_on(service.run(2)), Ok(2));
    assert_eq!(service.service().count().unwrap().completed_lost, 1);
}

/// A waker that runs something inside the notifier.
struct Inside<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for Inside<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn ffi_09_a_waker_that_panics_keeps_no_other_from_being_woken() {
    let service = service::<u64, u64>(4, 1);
    let id = block_on(service.submit(1)).unwrap();
    let bad = Waker::from(Arc::new(Inside(|| quiet_panic("in a waker"))));
    let good = Counting::new();
    let mut futures = [(); 3].map(|()| Box::pin(service.take(id)));
    assert!(poll_once(&mut futures[0], &bad).is_pending());
    assert!(poll_once(&mut futures[1], &bad).is_pending());
    assert!(poll_once(&mut futures[2], &good.waker()).is_pending());
    let (_, completion) = service.service().claim(&Wait::none()).unwrap().begin().unwrap();
    assert_eq!(panic_of(|| completion.complete(2)), "in a waker");
    assert_eq!(good.wakes(), 1);
    assert_eq!(poll_once(&mut futures[2], &good.waker()), Poll::Ready(Ok(2)));
}

#[test]
fn gen_05_a_future_that_is_dropped_inside_a_notifier_is_cancelled_by_the_next_one() {
    let service = service::<u64, u64>(4, 1);
    let waker = Counting::new();
    let mut victim = Box::pin(service.run(7));
    let id = {
        assert!(poll_once(&mut victim, &waker.waker()).is_pending());
        service.service().claim(&Wait::none()).unwrap()
    };
    let victim = Mutex::new(Some(victim));
    let drops = Waker::from(Arc::new(Inside(move || drop(victim.lock().unwrap().take()))));
    let mut other = Box::pin(service.run(8));
    assert!(poll_once(&mut other, &drops).is_pending());
    id.begin().unwrap().1.complete(70).unwrap(); // its end calls the other's waker, which drops the one that waits for it
    assert_eq!(service.service().count().unwrap().completed, 1, "nobody could cancel it in there");
    assert!(poll_once(&mut other, &waker.waker()).is_pending());
    let counts = service.service().count().unwrap();
    assert_eq!((counts.cancelled_completed, counts.queued), (1, 1));
}

#[test]
fn blk_14_gen_01_a_storm_of_futures_that_are_dropped_at_random() {
    let ledger = Ledger::default();
    let mut random = Random::new();
    let service = service::<Counted, Counted>(16, 3);
    let run = |value: Counted, _: &nocter::Job<'_>| if value.number % 40 == 0 { quiet_panic("lost") } else { value };
    let threads = service.serve(run, &WorkersOptions::new()).unwrap();
    let executor = Executor::default();
    let ends = Arc::new(AtomicU64::new(0));
    for _ in 0..40 {
        let (service, ledger, ends, mut random) = (service.clone(), ledger.clone(), ends.clone(), random.fork());
        executor.spawn(async move {
            for _ in 0..250 {
                let mut future = Some(Box::pin(service.run(ledger.value())));
                let polls = random.below(4);
                if random.one_in(3) {
                    // Polled a few times, and dropped wherever the job is by then.
                    poll_fn(|context| {
                        for _ in 0..polls {
                            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                                future.as_mut().unwrap().as_mut().poll(context).is_ready()
                            }));
                            if caught.unwrap_or(true) {
                                break;
                            }
                        }
                        future = None;
                        Poll::Ready(())
                    })
                    .await;
                } else {
                    let future = future.take().unwrap();
                    let mut guarded = future;
                    let _: Option<Counted> = poll_fn(|context| {
                        let poll = std::panic::AssertUnwindSafe(|| guarded.as_mut().poll(context));
                        match std::panic::catch_unwind(poll) {
                            Ok(Poll::Pending) => Poll::Pending,
                            Ok(Poll::Ready(output)) => Poll::Ready(output.ok()),
                            Err(_) => Poll::Ready(None),
                        }
                    })
                    .await;
                }
                ends.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    executor.run(2);
    assert_eq!(ends.load(Ordering::Relaxed), 40 * 250);
    service.service().shutdown(|_| ()).unwrap();
    threads.stop(&Wait::at_most(LONG)).unwrap();
    assert_eq!(block_on(service.drained()), Ok(()));
    let counts = service.service().count().unwrap();
    assert_eq!(counts.admitted, 0);
    assert!(counts.taken > 0 && counts.completed_lost > 0);
    ledger.assert_all_dropped_once();
}

#[test]
fn gen_02_waiters_of_ones_own_are_refused() {
    let options = BlockingOptions::new().waiters(Notifier::new(|| ()));
    assert!(matches!(AsyncBlocking::<u32, u32>::new(options), Err(Error::Argument(_))));
    let (one, other) = (service::<u64, u64>(1, 1), service::<u64, u64>(1, 1));
    let id = block_on(one.submit(1)).unwrap();
    assert!(matches!(block_on(other.take(id)), Err(Error::Foreign(_))));
    assert!(matches!(block_on(other.wait_epoch(one.service().epoch().unwrap())), Err(Error::Foreign(_))));
}

#[test]
fn bnd_04_futures_may_move_between_threads() {
    fn send<T: Send>(_: &T) {}
    fn sync<T: Send + Sync + Clone>(_: &T) {}
    let (service, _threads) = doubling(4, 1);
    sync(&service);
    send(&service.submit(1));
    send(&service.drained());
    let future = service.run(21);
    send(&future);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(block_on(future)).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(30)), Ok(Ok(42)));
    assert!(format!("{service:?}").starts_with("AsyncBlocking(Blocking"));
}

#[test]
fn blk_14_gen_04_a_watch_awaits_the_calls_of_every_service() {
    let watch = Watch::new();
    let retirement =
        Retirement::<u64>::new(RetirementOptions::new().maximum_resources(1).workers(1).waiters(watch.notifier()))
            .unwrap();
    let queue =
        Keyed::new(KeyedOptions::new().maximum_keys(1).workers(1).waiters(watch.notifier()).work(watch.notifier()))
            .unwrap();
    let wakers = [Counting::new(), Counting::new(), Counting::new()];
    let permit = block_on(watch.until(|| Ok(retirement.reserve()?))).unwrap();
    let mut place = Box::pin(watch.until(|| Ok(retirement.reserve()?)));
    let mut pass = Box::pin(watch.until(|| queue.claim(&Wait::none())));
    assert!(poll_once(&mut place, &wakers[0].waker()).is_pending());
    assert!(poll_once(&mut pass, &wakers[1].waker()).is_pending());
    assert!(format!("{watch:?}").contains('2'));

    let id = permit.attach(7).retire().unwrap();
    let mut code = Box::pin(watch.until(|| retirement.take(id, &Wait::none())));
    assert!(poll_once(&mut code, &wakers[2].waker()).is_pending());
    let mut cleanup = retirement.claim(&Wait::none()).unwrap();
    assert_eq!(cleanup.begin(), Ok(7));
    cleanup.complete(5).unwrap();
    assert!(wakers[2].wakes() >= 1);
    assert_eq!(poll_once(&mut code, &wakers[2].waker()), Poll::Ready(Ok(5)));
    assert!(wakers[0].wakes() >= 1);
    assert!(matches!(poll_once(&mut place, &wakers[0].waker()), Poll::Ready(Ok(_))));

    assert!(poll_once(&mut pass, &wakers[1].waker()).is_pending());
    let before = wakers[1].wakes();
    let _ = queue.notify("key").unwrap();
    assert!(wakers[1].wakes() > before);
    assert!(matches!(poll_once(&mut pass, &wakers[1].waker()), Poll::Ready(Ok(_))));
    drop((place, pass, code));
    assert_eq!(wakers.iter().map(Counting::alive).sum::<usize>(), 0);
}

#[test]
fn blk_14_no_wake_of_a_watch_is_lost() {
    let watch = Watch::new();
    let options = RetirementOptions::new().maximum_resources(2).workers(1).waiters(watch.notifier());
    let retirement = Retirement::<u64>::new(options).unwrap();
    let _threads = retirement.serve(&WorkersOptions::new()).unwrap();
    for number in 0..5_000 {
        let permit = block_on(watch.until(|| Ok(retirement.reserve()?))).unwrap();
        let id = permit.attach(number).retire().unwrap();
        assert_eq!(block_on(watch.until(|| retirement.take(id, &Wait::none()))), Ok(0));
    }
}
