//! What the types promise: who may be sent, who may be shared, and that everything can be printed.

use nocter::tasks::{
    Clock, Event, Failure, Filter, Handlers, Lock, Outcome, Record, Run, Shared, Submission, Suspension, TaskId, Tasks,
    TasksOptions,
};
use nocter::{
    Blocking, BlockingCounts, BlockingOptions, Cancelled, Cleanup, CloseMode, Completion, Epoch, Error, EventFd,
    Interrupt, InterruptRef, JobId, JobState, Keyed, KeyedCounts, KeyedOptions, LentPass, NotCompleted, NotEnded,
    NotReserved, NotRetired, Notified, Notifier, Pass, PassEnd, Permit, Reclaimed, Refused, Resource, Retirement,
    RetirementCounts, RetirementId, RetirementOptions, RetirementState, RunningJob, Signal, Wait, Workers,
    WorkersOptions,
};
use std::cell::Cell;
use std::fmt::Debug;

fn send<T: Send>() {}
fn sync<T: Sync>() {}
fn printable<T: Debug>() {}
fn error<T: std::error::Error + Send + Sync + 'static>() {}

/// Whether a type is Sync, told by which method the compiler picks.
macro_rules! is_sync {
    ($type:ty) => {{
        struct Probe<T>(std::marker::PhantomData<T>);
        #[allow(dead_code)] // when the type is Sync
        trait Otherwise {
            fn answer(&self) -> bool {
                false
            }
        }
        impl<T> Otherwise for Probe<T> {}
        #[allow(dead_code)] // when it is not
        impl<T: Sync> Probe<T> {
            fn answer(&self) -> bool {
                true
            }
        }
        Probe::<$type>(std::marker::PhantomData).answer()
    }};
}

/// A payload that may be sent and not shared.
type Alone = Cell<u32>;

#[test]
fn bnd_04_handles_are_send_and_sync_whatever_they_carry() {
    send::<Blocking<Alone, Alone>>();
    sync::<Blocking<Alone, Alone>>();
    send::<(Signal, Interrupt, EventFd, Notifier, Workers)>();
    sync::<(Signal, Interrupt, EventFd, Notifier, Workers)>();
    send::<(BlockingOptions, WorkersOptions, Wait<'_>, InterruptRef<'_>, JobId, Epoch, JobState, BlockingCounts)>();
    sync::<(BlockingOptions, WorkersOptions, Wait<'_>, InterruptRef<'_>, JobId, Epoch, JobState, BlockingCounts)>();
}

#[test]
fn bnd_04_stores_of_tasks_and_what_they_give_are_send_and_sync() {
    send::<(Tasks, Clock, TasksOptions<'_>, Handlers, Record, Submission, Failure, Suspension, Outcome, Event)>();
    sync::<(Tasks, Clock, Handlers, Record, Submission, Failure, Suspension, Outcome, Event)>();
    send::<(Run, Lock)>();
    assert!(!is_sync!(Run));
    assert!(!is_sync!(Lock));
    printable::<(Tasks, Clock, TasksOptions<'_>, Handlers, Run, Lock, Filter, Shared<'_>, TaskId)>();
    let failure: Failure = "x".parse::<u32>().unwrap_err().into();
    assert_eq!(failure, Failure::new("ParseIntError", "invalid digit found in string"));
}

#[test]
fn bnd_04_guards_are_send_and_not_sync() {
    send::<RunningJob<Alone, Alone>>();
    send::<Completion<Alone>>();
    send::<NotCompleted<Alone>>();
    assert!(is_sync!(Blocking<u32, u32>));
    assert!(!is_sync!(RunningJob<u32, u32>));
    assert!(!is_sync!(Completion<u32>));
    assert!(!is_sync!(NotCompleted<u32>));
    assert!(!is_sync!(nocter::Job<'static>));
}

#[test]
fn bnd_04_retirement_is_shared_and_its_guards_are_not() {
    send::<(Retirement<Alone>, RetirementOptions, RetirementId, RetirementState, RetirementCounts, NotReserved)>();
    sync::<(Retirement<Alone>, RetirementOptions, RetirementId, RetirementState, RetirementCounts, NotReserved)>();
    send::<(Permit<Alone>, Resource<Alone>, Cleanup<Alone>, NotRetired<Alone>, NotEnded<Cleanup<Alone>>)>();
    assert!(is_sync!(Retirement<u32>));
    assert!(!is_sync!(Permit<u32>));
    assert!(!is_sync!(Resource<u32>));
    assert!(!is_sync!(Cleanup<u32>));
    assert!(!is_sync!(NotRetired<u32>));
    struct Mute;
    printable::<(Retirement<Mute>, Permit<Mute>, Cleanup<Mute>, NotRetired<Mute>, NotEnded<Cleanup<Mute>>)>();
    printable::<(Resource<u32>, RetirementOptions, RetirementId, RetirementState, RetirementCounts, NotReserved)>();
    error::<NotReserved>();
    let service = Retirement::<u32>::new(RetirementOptions::new()).unwrap();
    let owner = service.reserve().unwrap().attach(7);
    assert_eq!(format!("{owner:?}"), "Resource(7)");
    assert!(format!("{service:?}").starts_with("Retirement { permits: 0, live: 1,"), "{service:?}");
}

#[test]
fn bnd_04_a_keyed_queue_is_shared_and_its_passes_are_not() {
    send::<(Keyed, KeyedOptions, KeyedCounts, Notified, CloseMode, PassEnd, Pass, NotEnded<Pass>)>();
    sync::<(Keyed, KeyedOptions, KeyedCounts, Notified, CloseMode, PassEnd)>();
    assert!(is_sync!(Keyed));
    assert!(!is_sync!(Pass));
    assert!(!is_sync!(NotEnded<Pass>));
    assert!(!is_sync!(LentPass<'static>));
    printable::<(Keyed, KeyedOptions, KeyedCounts, Notified, CloseMode, PassEnd, Pass, NotEnded<Pass>, LentPass<'_>)>();
    error::<NotEnded<()>>();
    let queue = Keyed::new(KeyedOptions::new()).unwrap();
    queue.notify("key").unwrap();
    assert!(format!("{queue:?}").starts_with("Keyed { waiting: 1,"), "{queue:?}");
}

#[test]
fn bnd_04_everything_can_be_printed_and_errors_are_errors() {
    struct Mute;
    printable::<(Blocking<Mute, Mute>, RunningJob<Mute, Mute>, Completion<Mute>, NotCompleted<Mute>, Refused<Mute>)>();
    printable::<(Signal, Interrupt, EventFd, Notifier, Workers, BlockingOptions, WorkersOptions, Wait<'_>)>();
    printable::<(JobId, Epoch, JobState, BlockingCounts, Cancelled<u32, u32>, Reclaimed<u32, u32>, nocter::Job<'_>)>();
    error::<Error>();
    error::<Refused<u32>>();
    let service = Blocking::<Mute, Mute>::new(BlockingOptions::new().maximum_jobs(1).workers(1)).unwrap();
    let id = service.submit(Mute).unwrap();
    assert!(format!("{service:?}").starts_with("Blocking { queued: 1,"), "{service:?}");
    assert!(format!("{id:?}").starts_with("JobId("), "{id:?}");
    let refused = service.submit(Mute).unwrap_err();
    assert!(format!("{refused:?}").starts_with("Saturated { epoch: Epoch("), "{refused:?}");
    assert_eq!(refused.to_string(), Error::Saturated.to_string());
    let (_, completion) = service.claim(&Wait::none()).unwrap().begin().unwrap();
    assert_eq!(format!("{completion:?}"), format!("Completion {{ id: {id:?}, abandoned: false }}"));
    assert_eq!(format!("{:?}", Interrupt::new().unwrap()), "Interrupt { raised: false }");
}

#[test]
fn bnd_04_the_library_is_the_one_the_declarations_describe() {
    assert_eq!(nocter::version_number(), nocter_sys::NOCTER_VERSION_NUMBER);
    let number = nocter::version_number();
    let text = format!("{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
    assert_eq!(nocter::version(), text);
}
