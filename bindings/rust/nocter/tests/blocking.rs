//! The blocking service through the safe layer: what goes in comes out, refused values come back, wrong calls are told.

mod support;

use nocter::{
    Blocking, BlockingOptions, Cancelled, Error, JobState, Notifier, Reclaimed, Refused, Wait, WorkersOptions,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Mutex, Weak};
use std::time::Instant;
use support::{Counted, Ledger, LONG};

fn service<I: Send, O: Send>(jobs: u32, workers: u32) -> Blocking<I, O> {
    Blocking::new(BlockingOptions::new().maximum_jobs(jobs).workers(workers)).unwrap()
}

#[test]
fn blk_05_inputs_come_out_oldest_first_and_part_from_their_completion() {
    let service = service::<String, usize>(4, 2);
    let first = service.submit("first".to_string()).unwrap();
    let second = service.submit("second one".to_string()).unwrap();
    assert_eq!(service.query(first), Ok(JobState::Queued));
    let job = service.claim(&Wait::none()).unwrap();
    assert_eq!(job.id(), first);
    assert_eq!(service.query(first), Ok(JobState::Running));
    let (input, completion) = job.begin().unwrap();
    assert_eq!((input.as_str(), completion.id()), ("first", first));
    assert_eq!(service.take(first, &Wait::none()), Err(Error::Pending));
    completion.complete(input.len()).unwrap();
    assert_eq!(service.query(first), Ok(JobState::Completed));
    assert_eq!(service.take(first, &Wait::none()), Ok(5));
    let (input, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    completion.complete(input.len()).unwrap();
    assert_eq!(service.take(second, &Wait::none()), Ok(10));
    assert_eq!(service.claim(&Wait::none()).unwrap_err(), Error::Empty);
}

#[test]
fn blk_12_take_many_takes_jobs_as_they_end() {
    let service = service::<u32, u32>(4, 4);
    assert_eq!(service.take_many(4, &Wait::none()), Err(Error::Pending));
    let jobs: Vec<_> = (0..3).map(|number| service.submit(number).unwrap()).collect();
    for number in 0..3 {
        let (input, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
        if number != 1 {
            completion.complete(input + 10).unwrap();
        }
    }
    assert_eq!(service.take_many(2, &Wait::forever()), Ok(vec![(jobs[0], Some(10)), (jobs[1], None)]));
    assert_eq!(service.take_many(2, &Wait::none()), Ok(vec![(jobs[2], Some(12))]));
    assert!(matches!(service.take_many(0, &Wait::none()), Err(Error::Argument(_))));
    assert!(matches!(service.take(jobs[0], &Wait::none()), Err(Error::Unknown(_))));
}

#[test]
fn blk_03_saturation_hands_back_the_very_input_and_its_epoch() {
    let service = service::<Box<u32>, u32>(1, 1);
    let id = service.submit(Box::new(1)).unwrap();
    let input = Box::new(2);
    let address: *const u32 = &*input;
    let (input, epoch) = match service.submit(input) {
        Err(Refused::Saturated { input, epoch }) => (input, epoch),
        other => panic!("{other:?}"),
    };
    assert_eq!((&*input as *const u32, *input), (address, 2));
    assert_eq!(service.epoch(), Ok(epoch));
    assert_eq!(service.wait_epoch(epoch, &Wait::none()), Err(Error::Pending));
    assert_eq!(service.cancel(id), Ok(Cancelled::Queued(Box::new(1))));
    let later = service.wait_epoch(epoch, &Wait::none()).unwrap();
    assert_ne!(later, epoch);
    assert!(service.submit(input).is_ok());
    service.shutdown(|_| ()).unwrap();
    let refused = service.submit(Box::new(3)).unwrap_err();
    assert!(matches!(refused, Refused::Closed { .. }));
    assert_eq!((refused.error(), refused.into_input()), (Error::Closed, Box::new(3)));
}

#[test]
fn blk_09_cancel_gives_back_what_the_job_holds() {
    let ledger = Ledger::default();
    let service = service::<Counted, Counted>(4, 4);
    let queued = service.submit(ledger.value()).unwrap();
    match service.cancel(queued).unwrap() {
        Cancelled::Queued(input) => assert_eq!((input.number, ledger.dropped()), (0, 0)),
        other => panic!("{other:?}"),
    }
    let ids = [(); 3].map(|()| service.submit(ledger.value()).unwrap());
    let [running, completed, lost] = [(); 3].map(|()| service.claim(&Wait::none()).unwrap().begin().unwrap());
    completed.1.complete(ledger.value()).unwrap();
    drop(lost.1);
    match service.cancel(ids[1]).unwrap() {
        Cancelled::Completed(Some(output)) => assert_eq!(output.number, 4),
        other => panic!("{other:?}"),
    }
    assert!(matches!(service.cancel(ids[2]), Ok(Cancelled::Completed(None))));
    assert!(!running.1.abandoned() && !running.1.interrupt().raised());
    assert!(matches!(service.cancel(ids[0]), Ok(Cancelled::Running)));
    assert!(running.1.abandoned() && running.1.interrupt().raised());
    assert!(matches!(service.cancel(ids[0]), Err(Error::State(_))));
    let before = ledger.dropped();
    running.1.complete(ledger.value()).unwrap();
    assert_eq!(ledger.dropped(), before + 1, "nobody waits: dropped at once");
    drop((running.0, completed.0, lost.0));
    let counts = service.count().unwrap();
    assert_eq!((counts.admitted, counts.accepted, counts.cancelled_queued), (0, 4, 1));
    assert_eq!((counts.cancelled_completed, counts.abandoned_retired), (2, 1));
    ledger.assert_all_dropped_once();
}

#[test]
fn blk_06_dropping_a_guard_is_a_lost_worker() {
    let ledger = Ledger::default();
    let service = service::<Counted, ()>(2, 1);
    for begun in [false, true] {
        let id = service.submit(ledger.value()).unwrap();
        let job = service.claim(&Wait::none()).unwrap();
        if begun {
            let (_input, completion) = job.begin().unwrap();
            assert_eq!(service.claim(&Wait::none()).unwrap_err(), Error::Empty);
            drop(completion);
        } else {
            drop(job);
        }
        assert_eq!(service.take(id, &Wait::none()), Err(Error::WorkerLost));
        assert!(matches!(service.take(id, &Wait::none()), Err(Error::Unknown(_))));
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn blk_11_shutdown_hands_back_queued_inputs_then_outputs_and_the_guards_outlive_the_service() {
    let ledger = Ledger::default();
    let service = service::<Counted, Counted>(8, 3);
    let ids = [(); 5].map(|()| service.submit(ledger.value()).unwrap());
    let (input, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    completion.complete(input).unwrap();
    let running = service.claim(&Wait::none()).unwrap();
    let (_, begun) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    assert!(matches!(service.drained(&Wait::none()), Err(Error::State(_))));
    let mut seen = Vec::new();
    service
        .shutdown(|value| match value {
            Reclaimed::Input(input) => seen.push(("input", input.number)),
            Reclaimed::Output(output) => seen.push(("output", output.number)),
        })
        .unwrap();
    assert_eq!(seen, [("input", 3), ("input", 4), ("output", 0)]);
    service.shutdown(|_| panic!("nothing is left")).unwrap();
    assert_eq!(service.take(ids[1], &Wait::forever()).unwrap_err(), Error::Closed);
    assert_eq!(service.claim(&Wait::forever()).unwrap_err(), Error::Closed);
    assert_eq!(service.drained(&Wait::none()), Err(Error::Pending));
    assert!(begun.abandoned());
    drop(running);
    drop(service);
    begun.complete(ledger.value()).unwrap();
    ledger.assert_all_dropped_once();
}

#[test]
fn gen_03_identities_are_foreign_elsewhere_and_unknown_once_consumed() {
    let here = service::<u32, u32>(1, 1);
    let there = service::<u32, u32>(1, 1);
    let (id, other) = (here.submit(1).unwrap(), there.submit(1).unwrap());
    assert_ne!(id, other);
    assert_eq!(HashSet::from([id, other, id]).len(), 2);
    for result in [there.query(id).map(|_| ()), there.cancel(id).map(|_| ()), there.take(id, &Wait::none()).map(|_| ())]
    {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::Foreign(message) if !message.is_empty()), "{error:?}");
    }
    let epoch = here.epoch().unwrap();
    assert!(matches!(there.wait_epoch(epoch, &Wait::none()), Err(Error::Foreign(_))));
    assert_ne!(epoch, there.epoch().unwrap());
    assert_eq!(here.cancel(id), Ok(Cancelled::Queued(1)));
    for _ in 0..2 {
        assert!(matches!(here.query(id), Err(Error::Unknown(_))));
        assert!(matches!(here.cancel(id), Err(Error::Unknown(_))));
        assert!(matches!(here.take(id, &Wait::forever()), Err(Error::Unknown(_))));
    }
}

#[test]
fn gen_06_what_is_out_of_range_is_told_and_keeps_nothing() {
    let told = Arc::new(AtomicU32::new(0));
    for (jobs, workers) in [(0, 1), (1, 0), (1, 2), (u32::MAX, 1)] {
        let token = told.clone();
        let waiters = Notifier::new(move || drop(token.clone()));
        let options = BlockingOptions::new().maximum_jobs(jobs).workers(workers).waiters(waiters);
        let error = Blocking::<u32, u32>::new(options).unwrap_err();
        assert!(matches!(error, Error::Argument(_)) && !error.message().is_empty(), "{error:?}");
        assert_eq!(Arc::strong_count(&told), 1, "the notifier went with the options");
    }
    let service = service::<u32, u32>(1, 1);
    assert!(matches!(service.completed(0), Err(Error::Argument(_))));
    let options =
        [WorkersOptions::new().threads(1025), WorkersOptions::new().stack_size(1), WorkersOptions::new().name("a\0b")];
    for options in options {
        let error = service.serve(|number, _| number, &options).unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error:?}");
    }
}

#[test]
fn gen_05_in_a_notifier_queries_work_and_lifecycle_calls_are_reentrant() {
    let place = Arc::new(Mutex::new(Weak::<Blocking<u32, u32>>::new()));
    let (sender, receiver) = mpsc::sync_channel(64);
    let mine = place.clone();
    let waiters = Notifier::new(move || {
        let service = mine.lock().unwrap().upgrade();
        if let Some(service) = service {
            assert_eq!(service.count().unwrap().maximum_jobs, 2);
            let refused = service.submit(77).unwrap_err();
            assert!(matches!(refused.error(), Error::Reentrant(_)));
            sender.send(refused.into_input()).unwrap();
        }
    });
    let options = BlockingOptions::new().maximum_jobs(2).workers(1).waiters(waiters);
    let service = Arc::new(Blocking::<u32, u32>::new(options).unwrap());
    *place.lock().unwrap() = Arc::downgrade(&service);
    let id = service.submit(1).unwrap();
    assert!(receiver.try_recv().is_err(), "a submit concerns no waiter");
    assert_eq!(service.cancel(id), Ok(Cancelled::Queued(1)));
    assert_eq!(receiver.try_recv(), Ok(77));
    assert_eq!(service.count().unwrap().accepted, 1);
}

#[test]
fn gen_02_a_completion_that_is_refused_comes_back_whole() {
    type Parts = (nocter::Completion<String>, String);
    let place = Arc::new(Mutex::new(None::<Parts>));
    let (sender, receiver) = mpsc::sync_channel(64);
    let mine = place.clone();
    let waiters = Notifier::new(move || {
        if let Some((completion, output)) = mine.lock().unwrap().take() {
            let not = completion.complete(output).unwrap_err();
            assert!(matches!(not.error, Error::Reentrant(_)), "{not:?}");
            sender.send((not.completion, not.output)).unwrap();
        }
    });
    let service = Blocking::<u32, String>::new(BlockingOptions::new().waiters(waiters)).unwrap();
    let ids = [service.submit(1).unwrap(), service.submit(2).unwrap()];
    let (_, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    *place.lock().unwrap() = Some((completion, "whole".to_string()));
    assert!(service.cancel(ids[1]).is_ok());
    let (completion, output) = receiver.try_recv().unwrap();
    completion.complete(output).unwrap();
    assert_eq!(service.take(ids[0], &Wait::none()).as_deref(), Ok("whole"));
}

#[test]
fn blk_14_the_librarys_threads_serve_and_bear_their_name() {
    let service = service::<u32, (u32, String)>(64, 2);
    let hooks = Arc::new(AtomicU32::new(0));
    let (starts, stops) = (hooks.clone(), hooks.clone());
    let options = WorkersOptions::new()
        .name("served by rust")
        .stack_size(256 * 1024)
        .on_start(move || {
            starts.fetch_add(1, Ordering::SeqCst);
        })
        .on_stop(move || {
            stops.fetch_add(1000, Ordering::SeqCst);
        });
    let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    let workers = service.serve(move |number, job| (number + u32::from(job.abandoned()), name()), &options).unwrap();
    assert_eq!(hooks.load(Ordering::SeqCst), 2);
    let ids: Vec<_> = (0..50).map(|number| service.submit(number).unwrap()).collect();
    for (number, id) in ids.into_iter().enumerate() {
        let (output, name) = service.take(id, &Wait::at_most(LONG)).unwrap();
        assert_eq!((output, name.trim_end()), (number as u32, "served by rust"));
    }
    workers.stop(&Wait::at_most(LONG)).unwrap();
    assert_eq!(hooks.load(Ordering::SeqCst), 2002);
    assert_eq!(workers.stop(&Wait::none()), Ok(()), "also when asked again");
}

#[test]
fn bnd_04_dropping_workers_waits_for_nothing_and_the_last_thread_drops_the_closure() {
    let service = service::<mpsc::Receiver<()>, ()>(4, 2);
    let (dropped, gone) = mpsc::sync_channel(64);
    struct Says(mpsc::SyncSender<()>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (begun, runs) = mpsc::sync_channel(64);
    let (says, begun) = (Says(dropped), Mutex::new(begun));
    let run = move |gate: mpsc::Receiver<()>, _: &nocter::Job<'_>| {
        let _kept = &says;
        begun.lock().unwrap().send(()).unwrap();
        gate.recv().unwrap();
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let (open, gate) = mpsc::sync_channel(64);
    let id = service.submit(gate).unwrap();
    runs.recv_timeout(LONG).unwrap();
    drop(workers);
    assert_eq!(service.query(id), Ok(JobState::Running));
    assert!(gone.try_recv().is_err());
    open.send(()).unwrap();
    assert_eq!(service.take(id, &Wait::at_most(LONG)), Ok(()));
    gone.recv_timeout(LONG).unwrap();
}

#[test]
fn bnd_04_workers_may_be_dropped_by_one_of_their_own_threads() {
    let service = service::<nocter::Workers, bool>(1, 1);
    let (sender, gone) = mpsc::sync_channel::<()>(64);
    let run = move |workers: nocter::Workers, _: &nocter::Job<'_>| {
        let _kept = &sender;
        let told = matches!(workers.stop(&Wait::forever()), Err(Error::WouldDeadlock(_)));
        drop(workers);
        told
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let id = service.submit(workers).unwrap();
    assert_eq!(service.take(id, &Wait::at_most(LONG)), Ok(true));
    assert_eq!(gone.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
}

/// The address space of the process in KiB: a thread that nobody has joined keeps its stack.
fn address_space() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn bnd_04_dropped_workers_give_everything_back() {
    let service = service::<(), ()>(1, 1);
    let before = address_space();
    for _ in 0..200 {
        let (sender, gone) = mpsc::sync_channel::<()>(64);
        let run = move |(), _: &nocter::Job<'_>| sender.send(()).unwrap();
        drop(service.serve(run, &WorkersOptions::new()).unwrap());
        assert_eq!(gone.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    }
    let kept = address_space().saturating_sub(before);
    assert!(kept < 800 * 1024, "{kept} KiB are kept by 200 threads that have ended");
}

#[test]
fn bnd_04_a_job_carries_its_interrupt_in_its_own_waits() {
    let service = service::<(), Result<u64, Error>>(1, 1);
    let (sender, receiver) = mpsc::sync_channel(64);
    let sender = Mutex::new(sender);
    let run = move |(), job: &nocter::Job<'_>| {
        let signal = nocter::Signal::new().unwrap();
        let wait = Wait::at_most(LONG).interrupt(job.interrupt());
        sender.lock().unwrap().send(None).unwrap();
        let result = signal.wait(signal.version(), &wait);
        sender.lock().unwrap().send(Some((result.clone(), job.abandoned()))).unwrap();
        result
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let id = service.submit(()).unwrap();
    assert_eq!(receiver.recv_timeout(LONG), Ok(None));
    assert_eq!(service.cancel(id), Ok(Cancelled::Running));
    assert_eq!(receiver.recv_timeout(LONG), Ok(Some((Err(Error::Interrupted), true))));
    service.shutdown(|_| ()).unwrap();
    service.drained(&Wait::at_most(LONG)).unwrap();
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn ffi_14_a_job_that_waits_for_itself_is_told() {
    let service = Arc::new(service::<(), Error>(1, 1));
    let mine = Arc::downgrade(&service);
    let run = move |(), job: &nocter::Job<'_>| match mine.upgrade() {
        Some(service) => service.take(job.id(), &Wait::forever()).unwrap_err(),
        None => Error::Closed,
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let id = service.submit(()).unwrap();
    let told = service.take(id, &Wait::at_most(LONG)).unwrap();
    assert!(matches!(told, Error::WouldDeadlock(_)), "{told:?}");
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn bnd_04_payloads_may_borrow_when_no_thread_of_the_library_serves() {
    let words = ["a", "few", "words"].map(String::from);
    let service = service::<&str, &str>(8, 2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(job) = service.claim(&Wait::at_most(LONG)) {
                let (word, completion) = job.begin().unwrap();
                completion.complete(&word[..1]).unwrap();
            }
        });
        for word in &words {
            let id = service.submit(word).unwrap();
            assert_eq!(service.take(id, &Wait::at_most(LONG)), Ok(&word[..1]));
        }
        service.shutdown(|_| ()).unwrap();
    });
}

#[test]
fn gen_07_a_wait_ends_at_its_deadline_and_not_before() {
    let service = service::<(), ()>(1, 1);
    let began = Instant::now();
    let wait = Wait::at_most(std::time::Duration::from_millis(30));
    assert_eq!(service.claim(&wait).unwrap_err(), Error::Timeout);
    assert!(began.elapsed().as_millis() >= 30);
    assert_eq!(service.claim(&wait).unwrap_err(), Error::Timeout, "the deadline is a point in time");
    assert!(began.elapsed() < LONG);
    assert_eq!(service.claim(&Wait::until(began)).unwrap_err(), Error::Timeout);
}
