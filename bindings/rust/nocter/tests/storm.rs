//! Many threads at once: every value is dropped exactly once and no wake-up is lost, whatever races. The seed of each
//! run is printed, and NOCTER_SEED repeats it.

mod support;

use nocter::{Blocking, BlockingCounts, BlockingOptions, Cancelled, Error, Job, JobId, Reclaimed, Refused, Wait};
use nocter::{Signal, WorkersOptions};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;
use support::{message, quiet_panic, Counted, Ledger, Random, LONG};

/// GEN-12: what a snapshot says adds up.
fn assert_sums(counts: &BlockingCounts) {
    let gone = counts.taken
        + counts.cancelled_queued
        + counts.cancelled_completed
        + counts.shutdown_queued
        + counts.shutdown_completed
        + counts.abandoned_retired;
    assert_eq!(counts.epoch, gone, "{counts:?}");
    assert_eq!(counts.accepted, gone + u64::from(counts.admitted), "{counts:?}");
    assert_eq!(counts.admitted, counts.queued + counts.running + counts.completed + counts.abandoned, "{counts:?}");
    assert!(counts.admitted <= counts.maximum_jobs, "{counts:?}");
    assert!(counts.running + counts.abandoned <= counts.workers, "{counts:?}");
}

#[test]
fn blk_03_waiting_for_a_later_epoch_and_trying_again_misses_no_slot() {
    const SUBMITTERS: u64 = 6;
    const EACH: u64 = 1500;
    let service = Blocking::<u64, u64>::new(BlockingOptions::new().maximum_jobs(2).workers(2)).unwrap();
    let workers = service.serve(|number, _| number + 1, &WorkersOptions::new()).unwrap();
    let (sum, saturated) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for submitter in 0..SUBMITTERS {
            let (service, sum, saturated) = (&service, &sum, &saturated);
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut input = submitter * EACH + number;
                    let id = loop {
                        match service.submit(input) {
                            Ok(id) => break id,
                            Err(Refused::Saturated { input: back, epoch }) => {
                                assert_eq!(back, submitter * EACH + number);
                                input = back;
                                saturated.fetch_add(1, Ordering::Relaxed);
                                service.wait_epoch(epoch, &Wait::at_most(LONG)).expect("a slot becomes free");
                            }
                            Err(refused) => panic!("{refused:?}"),
                        }
                    };
                    sum.fetch_add(service.take(id, &Wait::at_most(LONG)).unwrap(), Ordering::Relaxed);
                }
            });
        }
    });
    let total = SUBMITTERS * EACH;
    assert_eq!(sum.into_inner(), total * (total - 1) / 2 + total);
    let counts = service.count().unwrap();
    assert_eq!((counts.taken, counts.saturated), (total, saturated.into_inner()));
    assert!(counts.saturated > 0, "the bound was never reached");
    assert_sums(&counts);
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

/// What the threads of the storm share.
struct Storm {
    ledger: Ledger,
    service: Blocking<Counted, Counted>,
    /// Jobs that somebody may still take or cancel; several threads may try the same one.
    ids: Mutex<Vec<JobId>>,
    submitted: AtomicUsize,
    changed: Signal,
}

impl Storm {
    fn pick(&self, random: &mut Random) -> Option<JobId> {
        let mut ids = self.ids.lock().unwrap();
        let place = random.below(ids.len().max(1) as u64) as usize;
        match random.one_in(2) {
            true => ids.get(place).copied(),
            false if place < ids.len() => Some(ids.swap_remove(place)),
            false => None,
        }
    }

    fn submit(&self, mut random: Random, count: usize) {
        for _ in 0..count {
            match self.service.submit(self.ledger.value()) {
                Ok(id) => {
                    self.ids.lock().unwrap().push(id);
                    self.submitted.fetch_add(1, Ordering::SeqCst);
                    self.changed.publish().unwrap();
                }
                Err(Refused::Saturated { input, epoch }) => {
                    drop(input);
                    if random.one_in(2) {
                        let _ = self.service.wait_epoch(epoch, &Wait::at_most(Duration::from_millis(1)));
                    }
                }
                Err(refused) => assert_eq!(refused.error(), Error::Closed),
            }
        }
    }

    /// Begins, completes, and drops guards in every state.
    fn work(&self, mut random: Random) {
        loop {
            let job = match self.service.claim(&Wait::at_most(LONG)) {
                Ok(job) => job,
                Err(error) => break assert_eq!(error, Error::Closed),
            };
            if random.one_in(8) {
                drop(job);
                continue;
            }
            let (input, completion) = job.begin().unwrap();
            match random.below(8) {
                0 => drop(completion),
                1 => completion.complete(self.ledger.value()).unwrap(),
                2 if completion.abandoned() => drop(completion),
                _ => completion.complete(input).unwrap(),
            }
        }
    }

    /// Takes and cancels what it finds, also what others take and cancel.
    fn wait(&self, mut random: Random, count: usize) {
        for _ in 0..count {
            let seen = self.changed.version();
            let id = match self.pick(&mut random) {
                Some(id) => id,
                None => {
                    let _ = self.changed.wait(seen, &Wait::at_most(Duration::from_millis(1)));
                    continue;
                }
            };
            let error = match random.below(4) {
                0 => self.service.cancel(id).map(|was| assert!(self.is_mine(was))).err(),
                1 => self.service.take(id, &Wait::none()).map(drop).err(),
                2 => self.service.query(id).map(drop).err(),
                _ => self.service.take(id, &Wait::at_most(Duration::from_millis(2))).map(drop).err(),
            };
            let expected = match &error {
                None | Some(Error::Pending | Error::Timeout | Error::WorkerLost | Error::Closed) => true,
                Some(Error::Unknown(_) | Error::State(_)) => true,
                Some(_) => false,
            };
            assert!(expected, "{error:?}");
            assert_sums(&self.service.count().unwrap());
        }
    }

    fn is_mine(&self, was: Cancelled<Counted, Counted>) -> bool {
        match was {
            Cancelled::Queued(value) | Cancelled::Completed(Some(value)) => value.is_one_of(&self.ledger),
            _ => true,
        }
    }
}

#[test]
fn gen_01_everything_is_dropped_once_whatever_races_b_1_to_b_12() {
    let mut random = Random::new();
    for _ in 0..12 {
        let jobs = 1 + random.below(12) as u32;
        let workers = 1 + random.below(jobs.into()) as u32;
        let service = Blocking::new(BlockingOptions::new().maximum_jobs(jobs).workers(workers)).unwrap();
        let (ledger, changed) = (Ledger::default(), Signal::new().unwrap());
        let storm = Storm { ledger, service, ids: Mutex::default(), submitted: AtomicUsize::new(0), changed };
        let mut handed_back = 0;
        std::thread::scope(|scope| {
            let storm = &storm;
            let workers = [(); 3].map(|()| random.fork()).map(|random| scope.spawn(move || storm.work(random)));
            let others: Vec<_> = (0..4)
                .map(|number| (number, random.fork()))
                .map(|(number, random)| {
                    scope.spawn(move || match number % 2 {
                        0 => storm.submit(random, 400),
                        _ => storm.wait(random, 400),
                    })
                })
                .collect();
            if random.one_in(2) {
                // In the middle of it.
                while storm.submitted.load(Ordering::SeqCst) < 100 && !others[0].is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            } else {
                others.into_iter().for_each(|thread| thread.join().unwrap());
            }
            let sink = |value: Reclaimed<Counted, Counted>| match value {
                Reclaimed::Input(value) | Reclaimed::Output(value) => {
                    handed_back += u64::from(value.is_one_of(&storm.ledger));
                }
            };
            storm.service.shutdown(sink).unwrap();
            storm.service.drained(&Wait::at_most(LONG)).unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        let counts = storm.service.count().unwrap();
        assert_sums(&counts);
        assert_eq!((counts.admitted, counts.accepted), (0, storm.submitted.into_inner() as u64));
        // Jobs whose worker was lost are gone too, and have nothing to hand over.
        assert!(handed_back <= counts.shutdown_queued + counts.shutdown_completed);
        let Storm { ledger, service, .. } = storm;
        drop(service);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn ffi_09_panics_of_served_closures_strand_nobody_and_leak_nothing() {
    let mut random = Random::new();
    let ledger = Ledger::default();
    let service = Blocking::new(BlockingOptions::new().maximum_jobs(8).workers(3)).unwrap();
    let run = |value: Counted, _: &Job<'_>| match value.number % 5 {
        0 => quiet_panic("with the input"),
        1 => {
            drop(value);
            quiet_panic("without the input")
        }
        _ => value,
    };
    let workers = service.serve(run, &WorkersOptions::new()).unwrap();
    let (taken, raised) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for mut random in [random.fork(), random.fork(), random.fork()] {
            let (service, ledger, taken, raised) = (&service, &ledger, &taken, &raised);
            scope.spawn(move || {
                // What was raised comes from any thread's job: a call that raised before it was made is made again.
                let quietly = |call: &mut dyn FnMut() -> bool| loop {
                    match catch_unwind(AssertUnwindSafe(&mut *call)) {
                        Ok(ended) => break ended,
                        Err(caught) => {
                            assert!(message(caught).ends_with("the input"));
                            raised.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                };
                for _ in 0..300 {
                    let mut id = None;
                    quietly(&mut || {
                        id = service.submit(ledger.value()).ok();
                        true
                    });
                    let id = id.expect("there is room for three threads that wait for one job each");
                    if random.one_in(4) {
                        quietly(&mut || service.cancel(id).is_ok());
                        continue;
                    }
                    quietly(&mut || match service.take(id, &Wait::at_most(LONG)) {
                        Ok(_) | Err(Error::WorkerLost) => true,
                        // The take that consumed it had raised.
                        Err(Error::Unknown(_)) => true,
                        Err(error) => panic!("{error:?}"),
                    });
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    let last = catch_unwind(AssertUnwindSafe(|| service.shutdown(|_| ())));
    let stopped = catch_unwind(AssertUnwindSafe(|| workers.stop(&Wait::at_most(LONG))));
    let late = u64::from(last.is_err()) + u64::from(stopped.is_err());
    drop(workers);
    let counts = service.count().unwrap();
    assert_sums(&counts);
    assert_eq!(counts.taken, taken.into_inner(), "every waiter was answered once");
    let raised = raised.into_inner() + late;
    assert!(raised > 0 && raised <= counts.completed_lost, "{raised} raised, {counts:?}");
    drop(service);
    ledger.assert_all_dropped_once();
}
