//! Futures over a store of tasks, for any executor, and with no runtime of their own.
//!
//! What others do to a store in another process or on another machine can only be learned by a call that waits. So each
//! future that is polled makes its call on a thread of its own, which ends with it.

use super::{Record, Run, TaskId, Tasks};
use crate::error::{Error, Result};
use crate::watch::{lock, wake};
use crate::{Interrupt, Wait};
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

/// A store of durable tasks whose ends and claims are awaited, by tasks of any executor.
///
/// ```
/// use nocter::tasks::{AsyncTasks, Tasks, TasksOptions};
/// # use std::{future::Future, sync::Arc, task::{Context, Poll, Wake}, thread};
/// # struct Unpark(thread::Thread);
/// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let waker = Arc::new(Unpark(thread::current())).into();
/// #     let mut future = Box::pin(future);
/// #     loop {
/// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             Poll::Ready(output) => return output,
/// #             Poll::Pending => thread::park(),
/// #         }
/// #     }
/// # }
///
/// let tasks = AsyncTasks::new(Tasks::open("memory:", TasksOptions::new())?);
/// let id = tasks.store().submit("greet")?.id();
/// for run in block_on(tasks.claim(&["greet"], 1))? { // or `.await`
///     let _kept = run.done("\"hello\"").map_err(|not_ended| not_ended.error)?;
/// }
/// assert_eq!(block_on(tasks.ended(id))?.result, "\"hello\"");
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// It can be cloned; the store goes with the last clone and the last future. A future does nothing before it is polled.
/// From then on it has a thread of its own, until it is ready or dropped: to run many tasks there is [`Tasks::serve`].
#[derive(Clone)]
pub struct AsyncTasks {
    tasks: Arc<Tasks>,
}

impl AsyncTasks {
    /// Of an open store.
    pub fn new(tasks: impl Into<Arc<Tasks>>) -> AsyncTasks {
        AsyncTasks { tasks: tasks.into() }
    }

    /// The store itself: to submit, look, tell, serve.
    pub fn store(&self) -> &Tasks {
        &self.tasks
    }

    /// The record of a task once it has ended, wherever it runs. Dropping the future changes nothing for the task.
    pub fn ended(&self, id: TaskId) -> UntilEnded {
        UntilEnded(Waiting::new(self, move |tasks, wait| tasks.wait(id, wait), drop))
    }

    /// Claims tasks that are due, waiting for the first; without types, of every type. What a future has claimed when
    /// it is dropped is handed back.
    pub fn claim(&self, types: &[&str], maximum: u32) -> Claim {
        let types: Vec<String> = types.iter().map(|name| name.to_string()).collect();
        let call = move |tasks: &Tasks, wait: &Wait<'_>| {
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            tasks.claim(&types, maximum, wait)
        };
        // Whatever cannot be handed back is lost with its drop, and counts as a try.
        Claim(Waiting::new(self, call, |runs| runs.into_iter().for_each(|run| drop(run.hand_back()))))
    }
}

impl From<Tasks> for AsyncTasks {
    fn from(tasks: Tasks) -> AsyncTasks {
        AsyncTasks::new(tasks)
    }
}

impl fmt::Debug for AsyncTasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AsyncTasks").field(&self.tasks).finish()
    }
}

// ---- A call on a thread of its own ---------------------------------------------------------------------------------

type Call<T> = Box<dyn FnOnce(&Tasks, &Wait<'_>) -> Result<T> + Send>;

/// Who awaits it, and what came of it: of the two that come last, the second finds what the first has left.
enum Meeting<T> {
    Waits(Waker),
    Came(thread::Result<Result<T>>),
    Gone,
}

struct Shared<T> {
    tasks: Arc<Tasks>,
    meeting: Mutex<Meeting<T>>,
    interrupt: Interrupt,
    /// Ends an answer that nobody awaits any more.
    unwanted: fn(T),
}

impl<T> Shared<T> {
    fn came(&self, answer: thread::Result<Result<T>>) {
        let mut meeting = lock(&self.meeting);
        match mem::replace(&mut *meeting, Meeting::Gone) {
            Meeting::Waits(waker) => {
                *meeting = Meeting::Came(answer);
                drop(meeting);
                wake(waker);
            }
            _ => {
                drop(meeting);
                self.end(answer);
            }
        }
    }

    fn end(&self, answer: thread::Result<Result<T>>) {
        if let Ok(Ok(value)) = answer {
            (self.unwanted)(value);
        }
    }
}

struct Waiting<T: Send + 'static>(Stage<T>);

enum Stage<T> {
    Unasked { tasks: Arc<Tasks>, call: Call<T>, unwanted: fn(T) },
    Asked(Arc<Shared<T>>),
    Ended,
}

impl<T: Send + 'static> Waiting<T> {
    fn new(
        of: &AsyncTasks,
        call: impl FnOnce(&Tasks, &Wait<'_>) -> Result<T> + Send + 'static,
        unwanted: fn(T),
    ) -> Self {
        Waiting(Stage::Unasked { tasks: of.tasks.clone(), call: Box::new(call), unwanted })
    }

    fn ask(tasks: Arc<Tasks>, call: Call<T>, unwanted: fn(T), waker: Waker) -> Result<Arc<Shared<T>>> {
        let meeting = Mutex::new(Meeting::Waits(waker));
        let shared = Arc::new(Shared { tasks, meeting, interrupt: Interrupt::new()?, unwanted });
        let told = shared.clone();
        let run = move || {
            let wait = Wait::forever().interrupt(&told.interrupt);
            let answer = catch_unwind(AssertUnwindSafe(|| call(&told.tasks, &wait)));
            told.came(answer);
        };
        let started = thread::Builder::new().name("nocter-await".to_string()).spawn(run);
        started.map(|_| shared).map_err(|error| Error::Memory(format!("no thread to wait on: {error}")))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T>> {
        match mem::replace(&mut self.0, Stage::Ended) {
            Stage::Unasked { tasks, call, unwanted } => {
                match Self::ask(tasks, call, unwanted, context.waker().clone()) {
                    Ok(shared) => self.0 = Stage::Asked(shared),
                    Err(error) => return Poll::Ready(Err(error)),
                }
                Poll::Pending
            }
            Stage::Asked(shared) => {
                let waker = context.waker().clone(); // somebody else's code: with no lock held
                let mut meeting = lock(&shared.meeting);
                let before = mem::replace(&mut *meeting, Meeting::Gone);
                if let Meeting::Came(answer) = before {
                    drop(meeting);
                    return Poll::Ready(answer.unwrap_or_else(|caught| resume_unwind(caught)));
                }
                *meeting = Meeting::Waits(waker);
                drop(meeting);
                drop(before);
                self.0 = Stage::Asked(shared);
                Poll::Pending
            }
            Stage::Ended => panic!("polled after it was ready"),
        }
    }
}

impl<T: Send + 'static> Drop for Waiting<T> {
    fn drop(&mut self) {
        if let Stage::Asked(shared) = &self.0 {
            let before = mem::replace(&mut *lock(&shared.meeting), Meeting::Gone);
            shared.interrupt.raise();
            if let Meeting::Came(answer) = before {
                shared.end(answer);
            }
        }
    }
}

/// A future of `AsyncTasks`.
macro_rules! futures {
    ($($(#[$about:meta])* $name:ident: $output:ty;)*) => {
        $($(#[$about])*
        #[must_use = "a future does nothing before it is polled"]
        pub struct $name(Waiting<$output>);

        impl Future for $name {
            type Output = Result<$output>;

            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<$output>> {
                self.get_mut().0.poll(context)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })*
    };
}

futures! {
    /// The future of [`AsyncTasks::ended`].
    UntilEnded: Record;
    /// The future of [`AsyncTasks::claim`].
    Claim: Vec<Run>;
}
