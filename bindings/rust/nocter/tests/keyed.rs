//! The keyed queue through the safe layer: keys coalesce, passes end in every way, panics stop, wrong calls are told.

mod support;

use nocter::{CloseMode, Error, Keyed, KeyedOptions, LentPass, Notified, Notifier, PassEnd, Wait, WorkersOptions};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};
use support::{panic_of, quiet_panic, Random, LONG};

fn queue(keys: u32, workers: u32) -> Keyed {
    Keyed::new(KeyedOptions::new().maximum_keys(keys).workers(workers)).unwrap()
}

fn one_pass(queue: &Keyed) -> String {
    let pass = queue.claim(&Wait::none()).unwrap();
    let key = String::from_utf8(pass.key().to_vec()).unwrap();
    pass.complete().unwrap();
    key
}

/// Waits until the queue retains nothing, without a call that could raise.
fn idle(queue: &Keyed) {
    let deadline = Instant::now() + LONG;
    while !format!("{queue:?}").contains("waiting: 0, delayed: 0, active: 0") {
        assert!(Instant::now() < deadline, "{queue:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn key_03_k_4_notifications_coalesce_and_a_dirty_key_goes_to_the_tail() {
    let queue = queue(4, 1);
    assert_eq!(queue.notify("a"), Ok(Notified::Accepted));
    assert_eq!(queue.notify("a"), Ok(Notified::Coalesced));
    assert_eq!(queue.notify(b"b"), Ok(Notified::Accepted));
    let pass = queue.claim(&Wait::none()).unwrap();
    assert_eq!((pass.key(), pass.failures(), pass.interrupted()), (&b"a"[..], 0, false));
    assert_eq!(queue.claim(&Wait::none()).unwrap_err(), Error::Empty);
    assert_eq!(queue.notify("a"), Ok(Notified::Accepted));
    assert_eq!(queue.notify("a"), Ok(Notified::Coalesced));
    pass.complete().unwrap();
    assert_eq!([one_pass(&queue), one_pass(&queue)], ["b", "a"]);
    assert_eq!(queue.claim(&Wait::at_most(Duration::from_millis(1))).unwrap_err(), Error::Timeout);
    let empty: [&str; 0] = [];
    assert_eq!(queue.notify_many(&empty), Ok(vec![]));
    assert_eq!(queue.notify(""), Ok(Notified::Accepted));
    assert_eq!(one_pass(&queue), "");
}

#[test]
fn key_05_k_5_k_6_a_full_queue_refuses_new_keys_only() {
    let queue = queue(2, 1);
    let each = queue.notify_many(&["a", "b", "c", "a"]).unwrap();
    assert_eq!(each[..3], [Ok(Notified::Accepted), Ok(Notified::Accepted), Err(Error::Saturated)]);
    assert_eq!(each[3], Ok(Notified::Coalesced));
    assert_eq!(queue.notify("c"), Err(Error::Saturated));
    let long = "x".repeat(257);
    assert!(matches!(queue.notify(&long), Err(Error::Limit(message)) if !message.is_empty()));
    assert!(matches!(queue.notify_many(&["a", &long]), Err(Error::Limit(_))));
    let counts = queue.count().unwrap();
    assert_eq!((counts.retained, counts.rejected_full, counts.coalesced), (2, 2, 1));
}

#[test]
fn key_06_k_8_k_9_passes_fail_and_are_retried_when_asked() {
    let options = KeyedOptions::new()
        .maximum_keys(4)
        .workers(2)
        .backoff(Duration::from_millis(1), Duration::from_millis(2))
        .backoff_percent(150)
        .backoff_jitter_percent(50);
    let queue = Keyed::new(options).unwrap();
    queue.notify("dropped").unwrap();
    drop(queue.claim(&Wait::none()).unwrap());
    queue.notify("failed").unwrap();
    queue.claim(&Wait::none()).unwrap().fail().unwrap();
    assert_eq!(queue.next_due(), Ok(None));
    let counts = queue.count().unwrap();
    assert_eq!((counts.failed, counts.retained, counts.retried), (2, 0, 0));

    queue.notify_after("later", Duration::from_secs(3600)).unwrap();
    let ahead = queue.next_due().unwrap().unwrap().saturating_duration_since(Instant::now());
    assert!(ahead > Duration::from_secs(3500) && ahead <= Duration::from_secs(3600), "{ahead:?}");
    queue.notify_after("soon", Duration::ZERO).unwrap();
    for failures in 0..4 {
        let pass = queue.claim(&Wait::at_most(LONG)).unwrap();
        assert_eq!((pass.key(), pass.failures()), (&b"soon"[..], failures));
        match failures % 2 {
            0 => pass.retry().unwrap(),
            _ => pass.retry_after(Duration::from_millis(1)).unwrap(),
        }
    }
    let pass = queue.claim(&Wait::at_most(LONG)).unwrap();
    assert_eq!(format!("{pass:?}"), "Pass { key: \"soon\", failures: 4 }");
    pass.end(PassEnd::Complete).unwrap();
    assert_eq!(queue.notify("later"), Ok(Notified::Coalesced), "one pass serves both, and is due at once");
    assert_eq!(one_pass(&queue), "later");
}

#[test]
fn key_08_k_14_discarding_interrupts_what_runs_and_draining_does_not() {
    let discarded = queue(4, 2);
    assert!(matches!(discarded.drained(&Wait::none()), Err(Error::State(_))));
    discarded.notify_many(&["a", "b", "c"]).unwrap();
    let pass = discarded.claim(&Wait::none()).unwrap();
    assert!(!pass.interrupt().raised());
    discarded.close(CloseMode::Discard);
    assert!(pass.interrupted() && pass.interrupt().raised());
    assert_eq!(discarded.notify("d"), Err(Error::Closed));
    assert_eq!(discarded.drained(&Wait::none()), Err(Error::Pending));
    drop(pass);
    assert_eq!(discarded.drained(&Wait::none()), Ok(()));
    assert_eq!(discarded.claim(&Wait::forever()).unwrap_err(), Error::Closed);
    assert_eq!(discarded.count().unwrap().discarded_waiting, 2);

    let drained = queue(4, 2);
    drained.notify("a").unwrap();
    drained.notify_after("b", Duration::from_secs(3600)).unwrap();
    drained.close(CloseMode::Drain);
    assert_eq!([one_pass(&drained), one_pass(&drained)], ["a", "b"]);
    assert_eq!(drained.drained(&Wait::none()), Ok(()));
}

#[test]
fn key_06_what_a_served_closure_gives_says_how_the_pass_ends() {
    let queue = queue(16, 2);
    let run = |pass: &LentPass<'_>| match (pass.key(), pass.failures()) {
        (b"fail", _) => PassEnd::Fail,
        (b"retry", 0) => PassEnd::Retry,
        (b"after", 0..=1) => PassEnd::RetryAfter(Duration::from_millis(1)),
        _ => PassEnd::Complete,
    };
    let workers = queue.serve(run, &WorkersOptions::new().name("passes")).unwrap();
    queue.notify_many(&["fail", "retry", "after", "well"]).unwrap();
    idle(&queue);
    workers.stop(&Wait::at_most(LONG)).unwrap();
    let counts = queue.count().unwrap();
    assert_eq!((counts.completed, counts.failed, counts.retried), (3, 4, 3));

    let results = queue
        .serve(|pass: &LentPass<'_>| if pass.key() == b"bad" { Err("bad") } else { Ok(()) }, &WorkersOptions::new());
    queue.notify_many(&["bad", "good"]).unwrap();
    idle(&queue);
    results.unwrap().stop(&Wait::at_most(LONG)).unwrap();
    let (sender, receiver) = mpsc::sync_channel(8);
    let nothing = queue.serve(move |pass| sender.send(format!("{pass:?}")).unwrap(), &WorkersOptions::new()).unwrap();
    queue.notify("key").unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), "LentPass { key: \"key\", failures: 0 }");
    idle(&queue);
    nothing.stop(&Wait::at_most(LONG)).unwrap();
    let counts = queue.count().unwrap();
    assert_eq!((counts.completed, counts.failed, counts.retained), (5, 5, 0));
    queue.close(CloseMode::Discard);
    assert_eq!(queue.serve(|_| (), &WorkersOptions::new()).unwrap_err(), Error::Closed);
}

#[test]
fn key_08_k_15_k_16_a_pass_may_close_its_queue_and_not_wait_for_it() {
    let queue = Arc::new(queue(4, 1));
    let (inside, (sender, receiver)) = (queue.clone(), mpsc::sync_channel(8));
    let run = move |_: &LentPass<'_>| {
        sender.send(inside.claim(&Wait::forever()).map(drop)).unwrap();
        inside.close(CloseMode::Drain);
        sender.send(inside.drained(&Wait::forever())).unwrap();
    };
    let workers = queue.serve(run, &WorkersOptions::new()).unwrap();
    queue.notify("a").unwrap();
    for _ in 0..2 {
        let told = receiver.recv_timeout(LONG).unwrap();
        assert!(matches!(&told, Err(Error::WouldDeadlock(message)) if !message.is_empty()), "{told:?}");
    }
    assert_eq!(queue.drained(&Wait::at_most(LONG)), Ok(()));
    workers.stop(&Wait::at_most(LONG)).unwrap();
    assert_eq!(queue.count().unwrap().completed, 1);
}

#[test]
fn ffi_09_k_8_a_panic_in_a_served_closure_fails_the_pass_and_is_raised_later() {
    let queue = queue(4, 1);
    let run = |pass: &LentPass<'_>| {
        if pass.key() == b"panics" {
            quiet_panic("in a pass");
        }
    };
    let workers = queue.serve(run, &WorkersOptions::new()).unwrap();
    for _ in 0..3 {
        queue.notify("panics").unwrap();
        idle(&queue);
        assert_eq!(panic_of(|| queue.count()), "in a pass");
    }
    queue.notify("well").unwrap();
    idle(&queue);
    let counts = queue.count().unwrap();
    assert_eq!((counts.completed, counts.failed, counts.exceptions), (1, 3, 0));
    workers.stop(&Wait::at_most(LONG)).unwrap();
}

#[test]
fn key_10_resync_offers_every_key_a_slice_at_a_time() {
    let queue = queue(2, 2);
    queue.notify_many(&["0", "1", "2", "3"]).unwrap();
    let token = Arc::new(());
    let (mut at, kept) = (0, token.clone());
    let source = move || {
        let _kept = &kept;
        at = (at + 1) % 6;
        (at != 0).then(|| (at - 1).to_string())
    };
    assert!(matches!(queue.resync(source.clone(), Duration::ZERO, 1), Err(Error::Argument(_))));
    assert!(matches!(queue.resync(source.clone(), Duration::from_millis(1), 0), Err(Error::Argument(_))));
    queue.resync(source, Duration::from_millis(1), 2).unwrap();
    assert_eq!(Arc::strong_count(&token), 2, "what was refused is gone, what was taken is not");
    let mut seen = HashSet::new();
    while seen.len() < 5 {
        let pass = queue.claim(&Wait::at_most(LONG)).unwrap();
        seen.insert(pass.key().to_vec());
        pass.complete().unwrap();
    }
    assert!(queue.count().unwrap().resync_keys >= 5);
    queue.end_resync().unwrap();
    assert_eq!(Arc::strong_count(&token), 1);
    while let Ok(pass) = queue.claim(&Wait::none()) {
        pass.complete().unwrap();
    }
    queue.resync(|| None::<String>, Duration::from_millis(1), 2).unwrap();
    assert_eq!(queue.claim(&Wait::at_most(Duration::from_millis(50))).unwrap_err(), Error::Timeout);
    assert!(queue.count().unwrap().resync_rounds >= 2);
}

#[test]
fn ffi_09_a_panic_in_a_source_ends_the_slice_and_is_raised_by_the_claim() {
    let queue = queue(8, 1);
    let mut calls = 0;
    let source = move || {
        calls += 1;
        if calls == 2 {
            quiet_panic("in the source");
        }
        Some(format!("key {calls}"))
    };
    queue.resync(source, Duration::from_millis(1), 100).unwrap();
    let pass = queue.claim(&Wait::at_most(LONG)).unwrap();
    assert_eq!(pass.key(), b"key 1");
    let moment = Wait::at_most(LONG);
    // One pass may run, so this claim finds nothing, but what the source did.
    assert_eq!(panic_of(|| queue.claim(&Wait::none())), "in the source");
    pass.complete().unwrap();
    assert_eq!(queue.claim(&moment).unwrap().key(), b"key 3", "the source goes on");
    assert_eq!(queue.count().unwrap().resync_failures, 1);
}

#[test]
fn bnd_04_passes_outlive_their_queue_and_move_between_threads() {
    let queue = queue(1, 1);
    queue.notify("a").unwrap();
    let pass = queue.claim(&Wait::none()).unwrap();
    drop(queue);
    let key = thread::spawn(move || {
        assert!(pass.interrupted());
        let key = pass.key().to_vec();
        pass.complete().unwrap();
        key
    });
    assert_eq!(key.join().unwrap(), b"a");
}

#[test]
fn gen_05_in_a_notifier_calls_are_reentrant_and_the_pass_comes_back() {
    let place = Arc::new(Mutex::new((Weak::<Keyed>::new(), None)));
    let (sender, receiver) = mpsc::sync_channel(64);
    let mine = place.clone();
    let work = Notifier::new(move || {
        let (queue, pass) = {
            let mut place = mine.lock().unwrap();
            (place.0.upgrade(), place.1.take())
        };
        if let (Some(queue), Some(pass)) = (queue, pass) {
            assert_eq!(queue.count().unwrap().maximum_keys, 4);
            assert!(matches!(queue.notify("z"), Err(Error::Reentrant(_))));
            let pass: nocter::Pass = pass;
            let not = pass.complete().unwrap_err();
            assert!(matches!(not.error, Error::Reentrant(_)), "{not:?}");
            sender.send(not.guard).unwrap();
        }
    });
    let queue = Arc::new(Keyed::new(KeyedOptions::new().maximum_keys(4).workers(2).work(work)).unwrap());
    queue.notify("a").unwrap();
    let pass = queue.claim(&Wait::none()).unwrap();
    assert_eq!(queue.claim(&Wait::none()).unwrap_err(), Error::Empty);
    *place.lock().unwrap() = (Arc::downgrade(&queue), Some(pass));
    queue.notify("b").unwrap();
    receiver.try_recv().unwrap().complete().unwrap();
    assert_eq!(one_pass(&queue), "b");
}

#[test]
fn gen_06_what_is_out_of_range_is_told_and_keeps_nothing() {
    let told = Arc::new(());
    let second = Duration::from_secs(1);
    let options = [
        KeyedOptions::new().maximum_keys(0),
        KeyedOptions::new().workers(0),
        KeyedOptions::new().maximum_keys(1).workers(2),
        KeyedOptions::new().maximum_key_size(0),
        KeyedOptions::new().maximum_key_size(u32::MAX),
        KeyedOptions::new().backoff(2 * second, second),
        KeyedOptions::new().backoff_percent(99),
        KeyedOptions::new().backoff_jitter_percent(101),
    ];
    for options in options {
        let token = told.clone();
        let error = Keyed::new(options.waiters(Notifier::new(move || drop(token.clone())))).unwrap_err();
        assert!(matches!(error, Error::Argument(_)) && !error.message().is_empty(), "{error:?}");
        assert_eq!(Arc::strong_count(&told), 1, "the notifier went with the options");
    }
}

/// Threads change a number and notify; passes look at it, and then fail, retry or succeed at random. However they end, a
/// pass of each key has seen its last number.
#[test]
fn key_03_every_change_is_seen_whatever_passes_do() {
    let mut random = Random::new();
    let options = KeyedOptions::new().maximum_keys(8).workers(3).backoff(Duration::ZERO, Duration::from_millis(1));
    let queue = Keyed::new(options).unwrap();
    let now: Arc<HashMap<Vec<u8>, (AtomicU64, AtomicU64)>> =
        Arc::new((0..8).map(|number| (vec![number], Default::default())).collect());
    let (numbers, choices) = (now.clone(), Mutex::new(random.fork()));
    let run = move |pass: &LentPass<'_>| {
        let (changed, seen) = &numbers[pass.key()];
        seen.fetch_max(changed.load(Ordering::SeqCst), Ordering::SeqCst);
        let choice = choices.lock().unwrap().below(4);
        [PassEnd::Complete, PassEnd::Complete, PassEnd::Fail, PassEnd::Retry][choice as usize]
    };
    let workers = queue.serve(run, &WorkersOptions::new()).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (queue, now, mut random) = (&queue, &now, random.fork());
            scope.spawn(move || {
                for _ in 0..2000 {
                    let key = [random.below(8) as u8];
                    now[&key[..]].0.fetch_add(1, Ordering::SeqCst);
                    queue.notify(key).unwrap();
                }
            });
        }
    });
    queue.close(CloseMode::Drain);
    queue.drained(&Wait::at_most(LONG)).unwrap();
    workers.stop(&Wait::at_most(LONG)).unwrap();
    let counts = queue.count().unwrap();
    assert_eq!(counts.accepted_new + counts.coalesced + counts.marked_dirty, 6000);
    assert_eq!(counts.started, counts.completed + counts.failed);
    assert_eq!(counts.accepted_new + counts.requeued + counts.retried, counts.started);
    for (key, (changed, seen)) in now.iter() {
        assert_eq!(seen.load(Ordering::SeqCst), changed.load(Ordering::SeqCst), "{key:?}");
    }
}
