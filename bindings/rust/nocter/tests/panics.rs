//! Panics: none crosses the library, each is a closed transition where a job was held, and each is raised again on the
//! caller's side (FFI-09).

mod support;

use nocter::{Blocking, BlockingOptions, Cancelled, Error, Job, JobState, Notifier, Wait, WorkersOptions};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{mpsc, Mutex};
use std::time::{Duration, Instant};
use support::{message, panic_of, quiet_panic, Counted, Ledger, LONG};

fn wait() -> Wait<'static> {
    Wait::at_most(LONG)
}

/// Panics for odd numbers.
fn even(value: Counted, _: &Job<'_>) -> Counted {
    if value.number % 2 == 1 {
        quiet_panic("an odd number");
    }
    value
}

#[test]
fn ffi_09_a_panic_in_a_served_closure_is_a_lost_worker_and_is_raised_by_its_take() {
    let ledger = Ledger::default();
    let service = Blocking::new(BlockingOptions::new().maximum_jobs(4).workers(1)).unwrap();
    let workers = service.serve(even, &WorkersOptions::new()).unwrap();
    for _ in 0..20 {
        let even = service.submit(ledger.value()).unwrap();
        assert!(service.take(even, &wait()).is_ok());
        let odd = service.submit(ledger.value()).unwrap();
        assert_eq!(panic_of(|| service.take(odd, &wait())), "an odd number");
        let again = service.take(odd, &wait()).unwrap_err();
        // When the job was quicker than the call, its panic was raised instead of the call, and the job is still there.
        assert!(matches!(again, Error::Unknown(_) | Error::WorkerLost), "neither taken nor lost: {again:?}");
    }
    let counts = service.count().unwrap();
    assert_eq!((counts.completed_ok, counts.completed_lost, counts.taken, counts.admitted), (20, 20, 40, 0));
    workers.stop(&wait()).unwrap();
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_a_real_panic_carries_its_message() {
    let service = Blocking::<u32, u32>::new(BlockingOptions::new()).unwrap();
    let run = |number, _: &Job<'_>| if number == 7 { panic!("seven") } else { number };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let id = service.submit(7).unwrap();
    assert_eq!(panic_of(|| service.take(id, &wait())), "seven");
    workers.stop(&wait()).unwrap();
}

/// Waits until a job has ended without a call that could raise.
fn ended<I: Send, O: Send>(service: &Blocking<I, O>, lost: &mpsc::Receiver<()>) {
    lost.recv_timeout(LONG).unwrap();
    let deadline = Instant::now() + LONG;
    while !format!("{service:?}").contains("completed: 1") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn ffi_09_a_call_that_has_a_value_to_give_raises_nothing_and_the_next_one_does() {
    let ledger = Ledger::default();
    let (sender, receiver) = mpsc::sync_channel(8);
    let waiters = Notifier::new(move || sender.try_send(()).unwrap_or(()));
    let options = BlockingOptions::new().maximum_jobs(4).workers(1).waiters(waiters);
    let service = Blocking::new(options).unwrap();
    let workers = service.serve(even, &WorkersOptions::new()).unwrap();
    let even = service.submit(ledger.value()).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    let odd = service.submit(ledger.value()).unwrap();
    // The completed even job is still there, so two are completed once the odd one was lost.
    receiver.recv_timeout(LONG).unwrap();
    assert_eq!(panic_of(|| service.take(even, &wait())), "an odd number");
    assert_eq!(
        service.take(even, &wait()).map(|value| value.number),
        Ok(0),
        "nothing was taken by the call that raised"
    );
    assert_eq!(service.take(odd, &wait()).unwrap_err(), Error::WorkerLost, "raised once");
    workers.stop(&wait()).unwrap();
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_stopping_the_workers_raises_what_nobody_heard_of() {
    let ledger = Ledger::default();
    let (sender, lost) = mpsc::sync_channel(8);
    let waiters = Notifier::new(move || sender.try_send(()).unwrap_or(()));
    let service = Blocking::new(BlockingOptions::new().waiters(waiters)).unwrap();
    let workers = service.serve(even, &WorkersOptions::new().threads(1)).unwrap();
    drop(ledger.value());
    service.submit(ledger.value()).unwrap();
    ended(&service, &lost);
    assert_eq!(panic_of(|| workers.stop(&wait())), "an odd number");
    assert_eq!(workers.stop(&wait()), Ok(()));
    drop(service);
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_nothing_is_raised_in_destructors_nor_while_unwinding() {
    let ledger = Ledger::default();
    let (sender, lost) = mpsc::sync_channel(8);
    let waiters = Notifier::new(move || sender.try_send(()).unwrap_or(()));
    let service = Blocking::new(BlockingOptions::new().waiters(waiters)).unwrap();
    let workers = service.serve(even, &WorkersOptions::new()).unwrap();
    drop(ledger.value());
    service.submit(ledger.value()).unwrap();
    ended(&service, &lost);
    struct Asks<'a>(&'a Blocking<Counted, Counted>);
    impl Drop for Asks<'_> {
        fn drop(&mut self) {
            assert!(self.0.count().is_ok());
        }
    }
    let raised = catch_unwind(AssertUnwindSafe(|| {
        let _asks = Asks(&service);
        quiet_panic("the caller's own");
    }));
    assert_eq!(message(raised.unwrap_err()), "the caller's own");
    drop(workers);
    drop(service);
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_a_panic_of_one_job_costs_no_other_job_of_the_same_thread() {
    let service = std::sync::Arc::new(Blocking::<u32, u32>::new(BlockingOptions::new().workers(1)).unwrap());
    let mine = std::sync::Arc::downgrade(&service);
    let run = move |number, _: &Job<'_>| {
        if number == 0 {
            quiet_panic("nought");
        }
        // A call from within a job, while the panic of the one before is kept.
        mine.upgrade().map_or(0, |service| service.count().unwrap().workers) + number
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let (lost, good) = (service.submit(0).unwrap(), service.submit(4).unwrap());
    assert_eq!(panic_of(|| service.take(lost, &wait())), "nought");
    assert_eq!(service.take(good, &wait()), Ok(5));
    workers.stop(&wait()).unwrap();
}

#[test]
fn ffi_09_a_claimed_job_whose_thread_panics_is_a_lost_worker() {
    let ledger = Ledger::default();
    let service = Blocking::<Counted, Counted>::new(BlockingOptions::new()).unwrap();
    let ids = [(); 2].map(|()| service.submit(ledger.value()).unwrap());
    std::thread::scope(|scope| {
        for begins in [false, true] {
            let claimed = service.claim(&Wait::none()).unwrap();
            let thread = scope.spawn(move || {
                if begins {
                    let _parts = claimed.begin().unwrap();
                    quiet_panic("begun");
                }
                let _claimed = claimed;
                quiet_panic("claimed");
            });
            assert_eq!(message(thread.join().unwrap_err()), if begins { "begun" } else { "claimed" });
        }
    });
    for id in ids {
        assert_eq!(service.take(id, &wait()).unwrap_err(), Error::WorkerLost);
    }
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_a_panic_in_a_notifier_changes_nothing_and_is_raised_by_the_next_call() {
    let waiters = Notifier::new(|| quiet_panic("woken"));
    let service = Blocking::<u32, u32>::new(BlockingOptions::new().waiters(waiters)).unwrap();
    let id = service.submit(3).unwrap();
    assert_eq!(service.cancel(id), Ok(Cancelled::Queued(3)));
    assert_eq!(panic_of(|| service.count()), "woken");
    assert_eq!(service.count().unwrap().cancelled_queued, 1);
    assert_eq!(panic_of(|| service.shutdown(|_| ())), "woken");
    assert!(!service.count().unwrap().accepting);
}

#[test]
fn ffi_09_a_panic_in_the_sink_leaves_the_rest_to_the_service_and_goes_on() {
    let ledger = Ledger::default();
    let service = Blocking::<Counted, ()>::new(BlockingOptions::new()).unwrap();
    for _ in 0..5 {
        service.submit(ledger.value()).unwrap();
    }
    let mut calls = 0;
    let raised = panic_of(|| {
        service.shutdown(|_value| {
            calls += 1;
            if calls == 2 {
                quiet_panic("enough");
            }
        })
    });
    assert_eq!((raised, calls), ("enough", 2));
    ledger.assert_all_dropped_once();
    assert_eq!(service.drained(&wait()), Ok(()));
}

struct Thorny(#[allow(dead_code)] Counted);

impl Drop for Thorny {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            quiet_panic("dropped");
        }
    }
}

#[test]
fn ffi_09_a_destructor_of_a_payload_that_panics_is_caught() {
    let ledger = Ledger::default();
    let service = Blocking::<u32, Thorny>::new(BlockingOptions::new()).unwrap();
    let id = service.submit(0).unwrap();
    let (_, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    assert_eq!(service.cancel(id).map(|was| matches!(was, Cancelled::Running)), Ok(true));
    // Nobody waits: the library drops the output inside of the call.
    assert_eq!(panic_of(|| completion.complete(Thorny(ledger.value()))), "dropped");
    assert_eq!(service.query(id).map_err(|error| error.name()), Err("NOCTER_E_UNKNOWN"));
    ledger.assert_all_dropped_once();

    let service = Blocking::<Thorny, ()>::new(BlockingOptions::new()).unwrap();
    let kept = service.submit(Thorny(ledger.value())).unwrap();
    assert_eq!(service.query(kept), Ok(JobState::Queued));
    service.submit(Thorny(ledger.value())).unwrap();
    drop(service);
    ledger.assert_all_dropped_once();
    let other = Blocking::<u32, u32>::new(BlockingOptions::new()).unwrap();
    assert_eq!(panic_of(|| other.count()), "dropped", "a destructor raises nothing: the next call on this thread does");
    assert!(other.count().is_ok());
}

#[test]
fn ffi_09_destructors_that_panic_on_the_librarys_threads_are_heard_of() {
    let ledger = Ledger::default();
    let service = Blocking::<Thorny, ()>::new(BlockingOptions::new()).unwrap();
    let workers = service.serve(|thorny, _| drop(thorny), &WorkersOptions::new()).unwrap();
    let id = service.submit(Thorny(ledger.value())).unwrap();
    assert_eq!(panic_of(|| service.take(id, &wait())), "dropped");
    workers.stop(&wait()).unwrap();
    ledger.assert_all_dropped_once();

    // An output that nobody waits for is dropped by the library after the closure has returned.
    let (tell, told) = mpsc::sync_channel(64);
    let (open, gate) = mpsc::sync_channel(64);
    let service = Blocking::<Counted, Thorny>::new(BlockingOptions::new()).unwrap();
    let gates = Mutex::new((tell, gate));
    let run = move |value, _: &Job<'_>| {
        let gates = gates.lock().unwrap();
        gates.0.send(()).unwrap();
        gates.1.recv().unwrap();
        Thorny(value)
    };
    let workers = service.serve(run, &WorkersOptions::new().threads(1)).unwrap();
    let id = service.submit(ledger.value()).unwrap();
    told.recv_timeout(LONG).unwrap();
    assert!(matches!(service.cancel(id), Ok(Cancelled::Running)));
    open.send(()).unwrap();
    assert_eq!(panic_of(|| workers.stop(&wait())), "dropped");
    ledger.assert_all_dropped_once();
}

#[test]
fn ffi_09_a_start_hook_that_panics_fails_the_serve_call_and_leaves_no_thread() {
    let ledger = Ledger::default();
    let service = Blocking::<(), ()>::new(BlockingOptions::new().workers(2)).unwrap();
    for _ in 0..3 {
        let (value, other) = (ledger.value(), ledger.clone());
        let options = WorkersOptions::new().threads(2).on_start(|| quiet_panic("no"));
        let run = move |(), _: &Job<'_>| assert!(value.is_one_of(&other));
        assert_eq!(panic_of(|| service.serve(run, &options)), "no");
        ledger.assert_all_dropped_once();
    }
    let (value, other) = (ledger.value(), ledger.clone());
    let options = WorkersOptions::new().on_stop(|| quiet_panic("at the end"));
    let run = move |(), _: &Job<'_>| assert!(value.is_one_of(&other));
    let workers = service.serve(run, &options).unwrap();
    let id = service.submit(()).unwrap();
    assert_eq!(service.take(id, &wait()), Ok(()));
    assert_eq!(panic_of(|| workers.stop(&wait())), "at the end");
    drop(workers);
    ledger.assert_all_dropped_once();
}
