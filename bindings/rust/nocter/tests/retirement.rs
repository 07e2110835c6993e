//! Retirement through the safe layer: owners hand over without a failure, resources end once, wrong calls are told.

mod support;

use nocter::{
    Blocking, BlockingOptions, Error, NotReserved, NotRetired, Notifier, Retirement, RetirementOptions,
    RetirementState, Wait, WorkersOptions,
};
use std::collections::HashSet;
use std::sync::{mpsc, Arc, Mutex, Weak};
use std::thread;
use support::{panic_of, quiet_panic, Counted, Ledger, Random, LONG};

fn service<T: Send>(resources: u32, workers: u32) -> Retirement<T> {
    Retirement::new(RetirementOptions::new().maximum_resources(resources).workers(workers)).unwrap()
}

/// Ends one resource by hand.
fn clean_one(service: &Retirement<Counted>, code: i32) -> usize {
    let mut cleanup = service.claim(&Wait::none()).unwrap();
    let number = cleanup.begin().unwrap().number;
    cleanup.complete(code).unwrap();
    number
}

#[test]
fn ret_06_a_resource_goes_its_whole_way() {
    let service = service::<Vec<u32>>(2, 1);
    let mut owner = service.reserve().unwrap().attach(vec![1, 2]);
    owner.push(3);
    assert_eq!(*owner, [1, 2, 3]);
    let id = owner.retire().unwrap();
    assert_eq!(service.query(id), Ok(RetirementState::Queued));
    assert_eq!(service.take(id, &Wait::none()), Err(Error::Pending));
    let mut cleanup = service.claim(&Wait::none()).unwrap();
    assert_eq!(service.query(id), Ok(RetirementState::Running));
    let not = cleanup.complete(1).unwrap_err();
    assert!(matches!(&not.error, Error::State(message) if !message.is_empty()), "{not:?}");
    cleanup = not.guard;
    assert_eq!(cleanup.begin(), Ok(vec![1, 2, 3]));
    assert!(matches!(cleanup.begin(), Err(Error::State(_))));
    cleanup.complete(-7).unwrap();
    assert_eq!(service.query(id), Ok(RetirementState::Completed));
    assert_eq!(service.take(id, &Wait::none()), Ok(-7));
    assert!(matches!(service.take(id, &Wait::none()), Err(Error::Unknown(_))));
    assert_eq!(service.claim(&Wait::none()).unwrap_err(), Error::Empty);
}

#[test]
fn ret_04_r_21_saturation_tells_an_epoch_that_misses_no_place() {
    let service = service::<u32>(1, 1);
    let permit = service.reserve().unwrap();
    let epoch = match service.reserve() {
        Err(NotReserved::Saturated { epoch }) => epoch,
        other => panic!("{other:?}"),
    };
    assert_eq!(service.epoch(), Ok(epoch));
    assert_eq!(service.wait_epoch(epoch, &Wait::none()), Err(Error::Pending));
    drop(permit);
    assert_ne!(service.wait_epoch(epoch, &Wait::none()), Ok(epoch));
    assert!(service.reserve().is_ok());
    service.close();
    assert_eq!(service.reserve().unwrap_err(), NotReserved::Closed);
    assert_eq!(Error::from(service.reserve().unwrap_err()), Error::Closed);
}

#[test]
fn ret_03_r_1_dropped_guards_close_what_is_open() {
    let ledger = Ledger::default();
    let service = service::<Counted>(4, 1);
    drop(service.reserve().unwrap());
    drop(service.reserve().unwrap().attach(ledger.value()));
    assert_eq!((service.count().unwrap().queued, ledger.dropped()), (1, 0));
    drop(service.claim(&Wait::none()).unwrap());
    assert_eq!(ledger.dropped(), 1, "nobody had begun: ended with its guard");
    let id = service.reserve().unwrap().attach(ledger.value()).retire().unwrap();
    let mut cleanup = service.claim(&Wait::none()).unwrap();
    let resource = cleanup.begin().unwrap();
    drop(cleanup);
    assert_eq!(service.take(id, &Wait::none()), Err(Error::WorkerLost));
    drop(resource);
    let counts = service.count().unwrap();
    assert_eq!((counts.reserved, counts.permits_dropped, counts.lost, counts.failed_unobserved), (0, 1, 2, 1));
    ledger.assert_all_dropped_once();
}

#[test]
fn ret_08_r_3_r_4_close_touches_nothing_reserved_before() {
    let ledger = Ledger::default();
    let service = service::<Counted>(4, 1);
    let permit = service.reserve().unwrap();
    let live = service.reserve().unwrap().attach(ledger.value());
    service.close();
    service.close();
    let late = permit.attach(ledger.value());
    drop(live);
    drop(late);
    assert_eq!(service.drained(&Wait::none()), Err(Error::Pending));
    assert_eq!((clean_one(&service, 0), clean_one(&service, 0)), (0, 1));
    assert_eq!(service.drained(&Wait::none()), Ok(()));
    assert_eq!(service.claim(&Wait::forever()).unwrap_err(), Error::Closed);
    ledger.assert_all_dropped_once();
}

#[test]
fn ret_07_r_9_r_10_detaching_ends_the_interest_and_nothing_else() {
    let ledger = Ledger::default();
    let service = service::<Counted>(4, 2);
    let retire = || service.reserve().unwrap().attach(ledger.value()).retire().unwrap();
    let queued = retire();
    service.detach(queued).unwrap();
    assert!(matches!(service.detach(queued), Err(Error::Unknown(_))));
    clean_one(&service, 0);
    let completed = retire();
    clean_one(&service, 5);
    service.detach(completed).unwrap();
    let ids = [retire(), retire()];
    let mut running = service.claim(&Wait::none()).unwrap();
    service.detach_all();
    for id in ids {
        assert!(matches!(service.query(id), Err(Error::Unknown(_))));
    }
    drop(running.begin().unwrap());
    running.complete(0).unwrap();
    clean_one(&service, 0);
    let counts = service.count().unwrap();
    assert_eq!((counts.reserved, counts.detached_done, counts.detached_completed), (0, 3, 1));
    ledger.assert_all_dropped_once();
}

#[test]
fn ret_05_the_librarys_threads_drop_the_resources() {
    let ledger = Ledger::default();
    let service = service::<Counted>(16, 2);
    let workers = service.serve(&WorkersOptions::new().name("ends")).unwrap();
    let mut left = 300;
    while left > 0 {
        match service.reserve() {
            Ok(permit) => {
                let owner = permit.attach(ledger.value());
                if left % 2 == 0 {
                    assert_eq!(service.take(owner.retire().unwrap(), &Wait::at_most(LONG)), Ok(0));
                }
                left -= 1;
            }
            Err(NotReserved::Saturated { epoch }) => drop(service.wait_epoch(epoch, &Wait::at_most(LONG)).unwrap()),
            Err(other) => panic!("{other:?}"),
        }
    }
    service.close();
    service.drained(&Wait::at_most(LONG)).unwrap();
    workers.stop(&Wait::at_most(LONG)).unwrap();
    let counts = service.count().unwrap();
    assert_eq!((counts.cleaned, counts.taken, counts.unobserved_done), (300, 150, 150));
    ledger.assert_all_dropped_once();
    assert_eq!(service.serve(&WorkersOptions::new()).unwrap_err(), Error::Closed);
}

#[test]
fn bnd_04_r_6_r_7_guards_outlive_their_service() {
    let ledger = Ledger::default();
    let here = service::<Counted>(4, 1);
    let permit = here.reserve().unwrap();
    let live = here.reserve().unwrap().attach(ledger.value());
    drop(here.reserve().unwrap().attach(ledger.value()));
    drop(here);
    assert_eq!(ledger.dropped(), 1, "what was queued had nobody else to end it");
    drop(live);
    assert_eq!(ledger.dropped(), 2);
    let not = permit.attach(ledger.value()).retire().unwrap_err();
    assert!(matches!(not, NotRetired::Closed), "{not:?}");
    ledger.assert_all_dropped_once();

    let served = service::<Counted>(4, 1);
    let workers = served.serve(&WorkersOptions::new()).unwrap();
    let live = served.reserve().unwrap().attach(ledger.value());
    drop(served);
    assert_eq!(ledger.dropped(), 3);
    drop(live);
    workers.stop(&Wait::at_most(LONG)).unwrap();
    ledger.assert_all_dropped_once();
}

#[test]
fn bnd_04_resources_may_borrow_what_lives_longer() {
    struct Leaves<'a>(&'a Mutex<Vec<u32>>, u32);
    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let left = Mutex::new(Vec::new());
    {
        let service = service::<Leaves<'_>>(2, 1);
        let first = service.reserve().unwrap().attach(Leaves(&left, 1));
        drop(service.reserve().unwrap().attach(Leaves(&left, 2)));
        drop(service.claim(&Wait::none()).unwrap().begin().unwrap());
        assert_eq!(*left.lock().unwrap(), [2]);
        drop(first);
    }
    assert_eq!(*left.lock().unwrap(), [2, 1]);
}

/// An owner that a job carries is retired wherever the job ends.
#[test]
fn ret_03_r_27_an_owner_in_a_cancelled_job_is_retired() {
    let ledger = Ledger::default();
    let retirement = service::<Counted>(3, 1);
    let jobs = Blocking::new(BlockingOptions::new().maximum_jobs(3).workers(1)).unwrap();
    let owner = || retirement.reserve().unwrap().attach(ledger.value());
    let queued = jobs.submit(owner()).unwrap();
    drop(jobs.cancel(queued).unwrap());
    let running = jobs.submit(owner()).unwrap();
    let (input, completion) = jobs.claim(&Wait::none()).unwrap().begin().unwrap();
    drop(jobs.cancel(running).unwrap());
    completion.complete(input).unwrap();
    let completed = jobs.submit(owner()).unwrap();
    let (input, completion) = jobs.claim(&Wait::none()).unwrap().begin().unwrap();
    completion.complete(input).unwrap();
    drop(jobs.cancel(completed).unwrap());
    assert_eq!((retirement.count().unwrap().queued, ledger.dropped()), (3, 0));
    for _ in 0..3 {
        clean_one(&retirement, 0);
    }
    ledger.assert_all_dropped_once();
}

struct Bad(&'static str);
impl Drop for Bad {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            quiet_panic(self.0);
        }
    }
}

#[test]
fn ffi_09_a_panic_in_a_destructor_stops_at_the_library_and_is_raised_later() {
    let served = service::<Bad>(4, 1);
    let workers = served.serve(&WorkersOptions::new()).unwrap();
    let id = served.reserve().unwrap().attach(Bad("on a thread of the library")).retire().unwrap();
    // By the take when the thread was quicker than that, else by the next call: the take has a code to give.
    let raised = panic_of(|| served.take(id, &Wait::at_most(LONG)).map(|code| (code, served.count())));
    assert_eq!(raised, "on a thread of the library");
    let id = served.reserve().unwrap().attach(Bad("")).retire().unwrap();
    assert_eq!(served.take(id, &Wait::at_most(LONG)), Ok(0), "the thread serves on");
    workers.stop(&Wait::at_most(LONG)).unwrap();

    let by_hand = service::<Bad>(1, 1);
    drop(by_hand.reserve().unwrap().attach(Bad("by its guard")));
    drop(by_hand.claim(&Wait::none()).unwrap());
    assert_eq!(panic_of(|| by_hand.epoch()), "by its guard");
    assert_eq!(by_hand.count().unwrap().reserved, 0);
}

#[test]
fn gen_05_in_a_notifier_queries_work_lifecycle_calls_are_reentrant_and_guards_come_back() {
    type Parts = (nocter::Cleanup<Counted>, nocter::Resource<Counted>);
    let place = Arc::new(Mutex::new((Weak::<Retirement<Counted>>::new(), None::<Parts>)));
    let (sender, receiver) = mpsc::sync_channel(64);
    let mine = place.clone();
    let waiters = Notifier::new(move || {
        let (service, parts) = {
            let mut place = mine.lock().unwrap();
            (place.0.upgrade(), place.1.take())
        };
        if let (Some(service), Some((cleanup, owner))) = (service, parts) {
            assert_eq!(service.count().unwrap().maximum_resources, 3);
            assert!(matches!(service.reserve(), Err(NotReserved::Failed(Error::Reentrant(_)))));
            let not_ended = cleanup.complete(0).unwrap_err();
            assert!(matches!(not_ended.error, Error::Reentrant(_)));
            match owner.retire() {
                Err(NotRetired::Failed { resource, error: Error::Reentrant(_) }) => {
                    sender.send((not_ended.guard, resource)).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    });
    let ledger = Ledger::default();
    let options = RetirementOptions::new().maximum_resources(3).workers(1).waiters(waiters);
    let service = Arc::new(Retirement::<Counted>::new(options).unwrap());
    drop(service.reserve().unwrap().attach(ledger.value()));
    let mut cleanup = service.claim(&Wait::none()).unwrap();
    drop(cleanup.begin().unwrap());
    let owner = service.reserve().unwrap().attach(ledger.value());
    *place.lock().unwrap() = (Arc::downgrade(&service), Some((cleanup, owner)));
    drop(service.reserve().unwrap());
    let (cleanup, owner) = receiver.try_recv().unwrap();
    cleanup.complete(0).unwrap();
    drop(owner);
    clean_one(&service, 0);
    ledger.assert_all_dropped_once();
}

#[test]
fn gen_03_r_22_identities_are_foreign_elsewhere() {
    let (here, there) = (service::<u32>(1, 1), service::<u32>(1, 1));
    let id = here.reserve().unwrap().attach(1).retire().unwrap();
    let other = there.reserve().unwrap().attach(1).retire().unwrap();
    assert_ne!(id, other);
    assert_eq!(HashSet::from([id, other, id]).len(), 2);
    assert!(matches!(there.query(id), Err(Error::Foreign(_))));
    assert!(matches!(there.take(id, &Wait::none()), Err(Error::Foreign(_))));
    assert!(matches!(there.detach(id), Err(Error::Foreign(_))));
    assert!(matches!(there.wait_epoch(here.epoch().unwrap(), &Wait::none()), Err(Error::Foreign(_))));
    assert!(format!("{id:?}").starts_with("RetirementId("), "{id:?}");
}

#[test]
fn gen_06_what_is_out_of_range_is_told_and_keeps_nothing() {
    let told = Arc::new(());
    for (resources, workers) in [(0, 1), (1, 0), (1, 2), (u32::MAX, 1)] {
        let token = told.clone();
        let waiters = Notifier::new(move || drop(token.clone()));
        let options = RetirementOptions::new().maximum_resources(resources).workers(workers).waiters(waiters);
        let error = Retirement::<u32>::new(options).unwrap_err();
        assert!(matches!(error, Error::Argument(_)) && !error.message().is_empty(), "{error:?}");
        assert_eq!(Arc::strong_count(&told), 1, "the notifier went with the options");
    }
}

/// Owners are made, moved, dropped, retired, detached and cleaned on many threads; every resource ends once.
#[test]
fn ret_03_gen_01_a_storm_of_owners() {
    let mut random = Random::new();
    let ledger = Ledger::default();
    let service = service::<Counted>(8, 3);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (service, mut random) = (&service, random.fork());
            scope.spawn(move || {
                while let Ok(mut cleanup) = service.claim(&Wait::at_most(LONG)) {
                    match random.below(4) {
                        0 => drop(cleanup),
                        1 => drop(cleanup.begin().unwrap()),
                        code => {
                            drop(cleanup.begin().unwrap());
                            cleanup.complete(code as i32 - 2).unwrap();
                        }
                    }
                }
            });
        }
        let users: Vec<_> = (0..3)
            .map(|_| {
                let (service, ledger, mut random) = (&service, &ledger, random.fork());
                scope.spawn(move || {
                    for _ in 0..400 {
                        let permit = loop {
                            match service.reserve() {
                                Ok(permit) => break permit,
                                Err(NotReserved::Saturated { epoch }) => {
                                    service.wait_epoch(epoch, &Wait::at_most(LONG)).unwrap();
                                }
                                Err(other) => panic!("{other:?}"),
                            }
                        };
                        if random.one_in(5) {
                            continue;
                        }
                        let owner = permit.attach(ledger.value());
                        match random.below(3) {
                            0 => drop(owner),
                            1 => service.detach(owner.retire().unwrap()).unwrap(),
                            _ => match service.take(owner.retire().unwrap(), &Wait::at_most(LONG)) {
                                Ok(0) | Ok(1) | Err(Error::WorkerLost) => (),
                                other => panic!("{other:?}"),
                            },
                        }
                    }
                })
            })
            .collect();
        for user in users {
            user.join().unwrap();
        }
        service.close();
    });
    let counts = service.count().unwrap();
    let freed = counts.permits_dropped + counts.unobserved_done + counts.detached_done + counts.taken;
    assert_eq!(counts.reservations, freed + counts.detached_completed + u64::from(counts.reserved));
    assert_eq!((counts.reserved, counts.reservations), (0, 1200));
    assert_eq!(counts.cleaned + counts.failed + counts.lost, ledger.made() as u64);
    ledger.assert_all_dropped_once();
}
