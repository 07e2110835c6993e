//! Signals, interrupts, event descriptors and notifiers through the safe layer.

mod support;

use nocter::{Blocking, BlockingOptions, Error, EventFd, Interrupt, Notifier, Signal, Wait, WorkersOptions};
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;
use support::{Ledger, LONG};

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    happened: c_short,
}

extern "C" {
    fn poll(descriptors: *mut PollFd, count: c_ulong, milliseconds: c_int) -> c_int;
    fn pthread_self() -> c_ulong;
    fn pthread_kill(thread: c_ulong, signal: c_int) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
}

fn readable(fd: RawFd, milliseconds: c_int) -> bool {
    let mut descriptor = PollFd { fd, events: 1, happened: 0 };
    unsafe { poll(&mut descriptor, 1, milliseconds) == 1 }
}

#[test]
fn sig_01_a_publication_between_reading_and_waiting_ends_the_wait_at_once() {
    let signal = Signal::new().unwrap();
    let seen = signal.version();
    assert_eq!(signal.wait(seen, &Wait::none()), Err(Error::Pending));
    let published = signal.publish().unwrap();
    assert_ne!(published, seen);
    assert_eq!(signal.wait(seen, &Wait::forever()), Ok(published));
    assert_eq!(signal.version(), published);
    assert!(matches!(signal.wait(published + 1, &Wait::none()), Err(Error::Argument(_))));
}

#[test]
fn sig_01_two_threads_pass_a_number_to_and_fro_and_lose_no_wake_up() {
    let (number, signal) = (AtomicU32::new(0), Signal::new().unwrap());
    let play = |parity: u32| loop {
        let seen = signal.version();
        match number.load(Ordering::SeqCst) {
            20_000.. => break,
            now if now % 2 == parity => {
                number.fetch_add(1, Ordering::SeqCst);
                signal.publish().unwrap();
            }
            _ => drop(signal.wait(seen, &Wait::at_most(LONG)).unwrap()),
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
    assert_eq!(number.into_inner(), 20_000);
}

#[test]
fn sig_04_close_wakes_every_waiter_present_and_future() {
    let signal = Signal::new().unwrap();
    let version = signal.version();
    std::thread::scope(|scope| {
        let waiters = [(); 3].map(|()| scope.spawn(|| signal.wait(version, &Wait::at_most(LONG))));
        std::thread::sleep(Duration::from_millis(20));
        signal.close();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Error::Closed));
        }
    });
    assert_eq!(signal.wait(version, &Wait::forever()), Err(Error::Closed));
    assert_eq!(signal.publish(), Err(Error::Closed));
}

#[test]
fn gen_07_an_interrupt_ends_every_wait_that_carries_it_until_it_is_cleared() {
    let (signal, interrupt) = (Signal::new().unwrap(), Interrupt::new().unwrap());
    let version = signal.version();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| signal.wait(version, &Wait::at_most(LONG).interrupt(&interrupt)));
        std::thread::sleep(Duration::from_millis(20));
        interrupt.raise();
        assert_eq!(waiter.join().unwrap(), Err(Error::Interrupted));
    });
    assert!(interrupt.raised());
    let wait = Wait::at_most(Duration::from_millis(5)).interrupt(&interrupt);
    assert_eq!(signal.wait(version, &wait), Err(Error::Interrupted));
    interrupt.clear();
    assert!(!interrupt.raised());
    assert_eq!(signal.wait(version, &wait), Err(Error::Timeout));
}

extern "C" fn nothing(_: c_int) {}

#[test]
fn gen_07_a_wait_that_asks_for_it_ends_when_a_signal_handler_ran() {
    const SIGUSR1: c_int = 10;
    unsafe { signal(SIGUSR1, nothing as extern "C" fn(c_int) as usize) };
    let quiet = Signal::new().unwrap();
    let version = quiet.version();
    let thread = unsafe { pthread_self() };
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // More than one, for the first may come before the wait has begun.
        let killer = scope.spawn(|| {
            while done.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(5));
                unsafe { pthread_kill(thread, SIGUSR1) };
            }
        });
        let plain = quiet.wait(version, &Wait::at_most(Duration::from_millis(50)));
        let asking = quiet.wait(version, &Wait::at_most(LONG).ended_by_signals());
        done.store(1, Ordering::SeqCst);
        killer.join().unwrap();
        assert_eq!((plain, asking), (Err(Error::Timeout), Err(Error::Interrupted)));
    });
}

#[test]
fn gen_04_an_event_descriptor_is_readable_after_a_wake_and_names_what_ended_once() {
    let eventfd = EventFd::new().unwrap();
    let fd = eventfd.fd().unwrap().as_raw_fd();
    assert_eq!(fd, eventfd.as_raw_fd());
    assert!(!readable(fd, 0));
    let options = BlockingOptions::new().maximum_jobs(8).workers(2).waiters(eventfd.notifier());
    let service = Blocking::<u64, u64>::new(options).unwrap();
    let workers = service.serve(|number, _| number * number, &WorkersOptions::new()).unwrap();
    let mut awaited: Vec<_> = (0..8).map(|number| (service.submit(number).unwrap(), number)).collect();
    while !awaited.is_empty() {
        assert!(readable(fd, LONG.as_millis() as c_int));
        eventfd.clear();
        for id in service.completed(3).unwrap().into_iter().chain(service.completed(8).unwrap()) {
            let place = awaited.iter().position(|(awaited, _)| *awaited == id).expect("named once");
            let number = awaited.swap_remove(place).1;
            assert_eq!(service.take(id, &Wait::none()), Ok(number * number));
        }
    }
    eventfd.clear();
    assert!(!readable(fd, 0));
    assert_eq!(service.completed(8), Ok(Vec::new()));
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn gen_04_an_event_descriptor_stays_open_until_its_last_notifier_is_dropped() {
    let eventfd = EventFd::new().unwrap();
    let (notifier, fd) = (eventfd.notifier(), eventfd.as_raw_fd());
    drop(eventfd);
    notifier.wake();
    assert!(readable(fd, 0));
}

#[test]
fn gen_04_a_signal_is_published_by_its_notifier_and_outlives_its_handle_there() {
    let signal = Signal::new().unwrap();
    let service = Blocking::<(), ()>::new(BlockingOptions::new().waiters(signal.notifier())).unwrap();
    let seen = signal.version();
    let id = service.submit(()).unwrap();
    assert_eq!(signal.version(), seen);
    service.cancel(id).map(drop).unwrap();
    assert_eq!(signal.wait(seen, &Wait::none()).map(|version| version != seen), Ok(true));
    drop(signal);
    service.shutdown(|_| ()).unwrap();
}

#[test]
fn gen_01_a_closure_is_dropped_once_when_the_service_lets_go_of_it() {
    let ledger = Ledger::default();
    let wakes = Arc::new(AtomicU32::new(0));
    let notifier = || {
        let (value, wakes, ledger) = (ledger.value(), wakes.clone(), ledger.clone());
        Notifier::new(move || {
            assert!(value.is_one_of(&ledger));
            wakes.fetch_add(1, Ordering::SeqCst);
        })
    };
    drop(notifier());
    ledger.assert_all_dropped_once();
    let options = BlockingOptions::new().waiters(notifier()).work(notifier());
    let service = Blocking::<(), ()>::new(options).unwrap();
    let id = service.submit(()).unwrap();
    let guard = service.claim(&Wait::none()).unwrap();
    assert_eq!(ledger.dropped(), 1);
    assert_eq!(service.query(id), Ok(nocter::JobState::Running));
    drop(service);
    assert_eq!(ledger.dropped(), 1, "the guard keeps the service, and that its notifiers");
    let before = wakes.load(Ordering::SeqCst);
    assert!(before >= 1);
    drop(guard);
    assert!(wakes.load(Ordering::SeqCst) > before);
    ledger.assert_all_dropped_once();
}
