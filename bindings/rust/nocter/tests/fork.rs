//! A child after a fork: the parent's handles say so, do nothing when dropped, and new ones work (GEN-11).

mod support;

use nocter::{
    Blocking, BlockingOptions, CloseMode, Error, EventFd, Interrupt, Keyed, KeyedOptions, Refused, Retirement,
    RetirementOptions, Signal, Wait, WorkersOptions,
};
use std::os::raw::c_int;
use std::os::unix::io::AsRawFd;
use support::{Ledger, LONG};

extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: c_int) -> !;
}

/// Runs it in a child, which ends by a signal when it takes too long; 0 when it returned.
fn in_child(run: impl FnOnce()) -> c_int {
    match unsafe { fork() } {
        0 => {
            unsafe { alarm(LONG.as_secs() as u32) };
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            unsafe { _exit(if ended.is_ok() { 0 } else { 1 }) }
        }
        child => {
            assert!(child > 0);
            let mut status = -1;
            assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
            status
        }
    }
}

fn forked<T>(result: Result<T, impl Into<Error>>) -> bool {
    matches!(result.map_err(Into::into), Err(Error::Forked(message)) if !message.is_empty())
}

/// One test, for the process it forks should have no other threads than those it made.
#[test]
fn gen_11_handles_of_the_parent_say_forked_and_new_ones_work() {
    let ledger = Ledger::default();
    let signal = Signal::new().unwrap();
    let eventfd = EventFd::new().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let options = BlockingOptions::new().maximum_jobs(8).workers(4).waiters(eventfd.notifier());
    let service = Blocking::new(options).unwrap();
    let id = service.submit(ledger.value()).unwrap();
    let ids = [(); 2].map(|()| service.submit(ledger.value()).unwrap());
    let running = service.claim(&Wait::none()).unwrap();
    let (input, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    let workers = service.serve(|value, _| value, &WorkersOptions::new().threads(1)).unwrap();
    let output = service.take(ids[1], &Wait::at_most(LONG)).unwrap();
    let epoch = service.epoch().unwrap();
    let version = signal.version();

    let status = in_child(|| {
        let wait = Wait::forever();
        assert_eq!(signal.version(), 0);
        assert!(forked(signal.publish()) && forked(signal.wait(version, &wait)));
        assert!(forked(eventfd.fd()));
        assert_eq!(eventfd.as_raw_fd(), -1);
        eventfd.clear();
        interrupt.raise();
        let refused = service.submit(input).unwrap_err();
        assert!(matches!(&refused, Refused::Failed { error: Error::Forked(_), .. }), "{refused:?}");
        assert_eq!(refused.into_input().number, 1, "the input came back");
        assert!(forked(service.claim(&wait)) && forked(service.take(id, &wait)) && forked(service.query(id)));
        assert!(forked(service.cancel(id)) && forked(service.completed(4)) && forked(service.count()));
        assert!(forked(service.epoch()) && forked(service.wait_epoch(epoch, &wait)));
        assert!(forked(service.shutdown(|_| panic!("nothing is handed back"))) && forked(service.drained(&wait)));
        assert!(forked(service.serve(|value, _| value, &WorkersOptions::new())));
        assert!(forked(workers.stop(&wait)));
        assert!(format!("{service:?}").contains("Forked"));
        let not = completion.complete(output).unwrap_err();
        assert!(matches!(not.error, Error::Forked(_)));
        assert!(forked(running.begin()));
        drop((not, workers, service, signal, eventfd, interrupt));

        let new = Blocking::new(BlockingOptions::new()).unwrap();
        let workers = new.serve(|number: u32, _| number + 1, &WorkersOptions::new()).unwrap();
        let id = new.submit(41).unwrap();
        assert_eq!(new.take(id, &Wait::at_most(LONG)), Ok(42));
        workers.stop(&Wait::at_most(LONG)).unwrap();
    });
    assert_eq!(status, 0, "how the child ended");
}

/// In a process of its own child: what is retired is the parent's, and an owner made there ends its resource by itself.
#[test]
fn gen_11_r_25_retirement_of_the_parent_says_forked() {
    let ledger = Ledger::default();
    let service = Retirement::new(RetirementOptions::new().maximum_resources(8).workers(2)).unwrap();
    let id = service.reserve().unwrap().attach(ledger.value()).retire().unwrap();
    let cleanup = service.claim(&Wait::none()).unwrap();
    let (permit, owner) = (service.reserve().unwrap(), service.reserve().unwrap().attach(ledger.value()));
    let epoch = service.epoch().unwrap();
    let status = in_child(|| {
        let wait = Wait::forever();
        assert!(forked(service.reserve()) && forked(service.claim(&wait)) && forked(service.take(id, &wait)));
        assert!(forked(service.query(id)) && forked(service.detach(id)) && forked(service.count()));
        assert!(forked(service.epoch()) && forked(service.wait_epoch(epoch, &wait)) && forked(service.drained(&wait)));
        assert!(forked(service.serve(&WorkersOptions::new())));
        service.close();
        service.detach_all();
        let made = permit.attach(ledger.value());
        assert_eq!(made.number, 2);
        let before = ledger.dropped();
        assert!(forked(made.retire()));
        assert_eq!(ledger.dropped(), before + 1);
        assert_eq!(owner.number, 1, "it can still be looked at");
        assert!(forked(owner.retire()));
        assert!(forked(cleanup.complete(0)));
        drop(service);
        assert_eq!(ledger.dropped(), before + 1, "what is the parent's was left alone");
    });
    assert_eq!(status, 0, "how the child ended");
    ledger.assert_all_dropped_once();
}

#[test]
fn gen_11_a_keyed_queue_of_the_parent_says_forked() {
    let queue = Keyed::new(KeyedOptions::new()).unwrap();
    queue.notify("a").unwrap();
    queue.resync(|| Some("b"), LONG, 1).unwrap();
    let pass = queue.claim(&Wait::none()).unwrap();
    let status = in_child(|| {
        let wait = Wait::forever();
        assert!(
            forked(queue.notify("c")) && forked(queue.notify_after("c", LONG)) && forked(queue.notify_many(&["c"]))
        );
        assert!(forked(queue.claim(&wait)) && forked(queue.next_due()) && forked(queue.count()));
        assert!(forked(queue.resync(|| Some("d"), LONG, 1)) && forked(queue.end_resync()));
        assert!(forked(queue.serve(|_| (), &WorkersOptions::new())) && forked(queue.drained(&wait)));
        queue.close(CloseMode::Discard);
        assert!(forked(pass.complete()));
        drop(queue);
    });
    assert_eq!(status, 0, "how the child ended");
}

/// What the child did is nothing to the parent.
#[test]
fn gen_11_the_parent_goes_on_after_a_child_has_dropped_everything() {
    let ledger = Ledger::default();
    let service = Blocking::new(BlockingOptions::new()).unwrap();
    let workers = service.serve(|value, _| value, &WorkersOptions::new()).unwrap();
    for _ in 0..20 {
        let id = service.submit(ledger.value()).unwrap();
        // The child has its own copies of the two handles, and drops them.
        let copies = unsafe { (std::ptr::read(&service), std::ptr::read(&workers)) };
        let copies = std::mem::ManuallyDrop::new(copies);
        assert_eq!(in_child(move || drop(std::mem::ManuallyDrop::into_inner(copies))), 0);
        assert!(service.take(id, &Wait::at_most(LONG)).is_ok());
    }
    service.shutdown(|_| ()).unwrap();
    workers.stop(&Wait::at_most(LONG)).unwrap();
    drop((workers, service));
    ledger.assert_all_dropped_once();
}
