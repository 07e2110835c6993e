//! An executor of a few lines, and wakers that count.

#![allow(dead_code)] // each test program uses what it needs

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs one future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = Box::pin(future);
    let limit = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(Instant::now() < limit, "a wake was lost");
        thread::park_timeout(LIMIT);
    }
}

pub fn poll_once<F: Future>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// A future of a closure; the standard library's is younger than the oldest compiler.
pub fn poll_fn<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin>(poll: F) -> impl Future<Output = T> {
    struct PollFn<F>(F);
    impl<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin> Future for PollFn<F> {
        type Output = T;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
            (self.0)(context)
        }
    }
    PollFn(poll)
}

// ---- Many tasks ------------------------------------------------------------------------------------------------

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Spawned {
    task: Mutex<Option<Task>>,
    queue: Arc<Queue>,
}

impl Wake for Spawned {
    fn wake(self: Arc<Self>) {
        let queue = self.queue.clone();
        queue.ready.lock().unwrap().push_back(self);
        queue.changed.notify_one();
    }
}

#[derive(Default)]
struct Queue {
    ready: Mutex<VecDeque<Arc<Spawned>>>,
    changed: Condvar,
    left: AtomicUsize,
}

/// Polls what is woken, in the order of the wakes, on as many threads as it is told.
#[derive(Default)]
pub struct Executor {
    queue: Arc<Queue>,
}

impl Executor {
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.queue.left.fetch_add(1, Ordering::SeqCst);
        Arc::new(Spawned { task: Mutex::new(Some(Box::pin(task))), queue: self.queue.clone() }).wake();
    }

    /// Until every task has ended.
    pub fn run(&self, threads: usize) {
        let runners: Vec<_> =
            (0..threads).map(|_| self.queue.clone()).map(|queue| thread::spawn(move || turn(&queue))).collect();
        runners.into_iter().for_each(|runner| runner.join().unwrap());
    }
}

fn turn(queue: &Queue) {
    let limit = Instant::now() + LIMIT;
    while queue.left.load(Ordering::SeqCst) != 0 {
        let mut ready = queue.ready.lock().unwrap();
        let spawned = match ready.pop_front() {
            Some(spawned) => spawned,
            None => {
                assert!(Instant::now() < limit, "a wake was lost");
                drop(queue.changed.wait_timeout(ready, Duration::from_millis(100)).unwrap());
                continue;
            }
        };
        drop(ready);
        // Held while it is polled: a task that is woken meanwhile is polled once more afterwards.
        let mut task = spawned.task.lock().unwrap();
        let waker = Waker::from(spawned.clone());
        let ended = task.as_mut().map_or(false, |task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if ended {
            *task = None;
            queue.left.fetch_sub(1, Ordering::SeqCst);
            queue.changed.notify_all();
        }
    }
}

// ---- Wakers that count ---------------------------------------------------------------------------------------------

#[derive(Default)]
struct Counts {
    wakes: Mutex<usize>,
    woken: Condvar,
    clones: AtomicUsize,
    drops: AtomicUsize,
}

/// A waker that tells how often it was called and cloned, and how many clones are alive.
pub struct Counting {
    counts: Arc<Counts>,
}

impl Counting {
    pub fn new() -> Counting {
        Counting { counts: Arc::default() }
    }

    pub fn waker(&self) -> std::mem::ManuallyDrop<Waker> {
        let pointer = Arc::as_ptr(&self.counts).cast();
        // Lent: this one is not dropped, and its clones hold the counts.
        std::mem::ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(pointer, &TABLE)) })
    }

    pub fn wakes(&self) -> usize {
        *self.counts.wakes.lock().unwrap()
    }

    pub fn until_woken(&self, times: usize) {
        let wakes = self.counts.wakes.lock().unwrap();
        let (_wakes, end) = self.counts.woken.wait_timeout_while(wakes, LIMIT, |wakes| *wakes < times).unwrap();
        assert!(!end.timed_out(), "a wake was lost");
    }

    pub fn clones(&self) -> usize {
        self.counts.clones.load(Ordering::SeqCst)
    }

    pub fn alive(&self) -> usize {
        self.clones() - self.counts.drops.load(Ordering::SeqCst)
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |pointer| unsafe {
        Arc::increment_strong_count(pointer.cast::<Counts>());
        (*pointer.cast::<Counts>()).clones.fetch_add(1, Ordering::SeqCst);
        RawWaker::new(pointer, &TABLE)
    },
    |pointer| unsafe {
        called(&*pointer.cast());
        gone(pointer);
    },
    |pointer| unsafe { called(&*pointer.cast()) },
    |pointer| unsafe { gone(pointer) },
);

fn called(counts: &Counts) {
    *counts.wakes.lock().unwrap() += 1;
    counts.woken.notify_all();
}

unsafe fn gone(pointer: *const ()) {
    (*pointer.cast::<Counts>()).drops.fetch_add(1, Ordering::SeqCst);
    Arc::decrement_strong_count(pointer.cast::<Counts>());
}
