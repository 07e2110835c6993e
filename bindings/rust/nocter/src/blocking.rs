//! Blocking operations: the service.

use crate::error::{check, Error, Result};
use crate::ffi::blocking::{self as raw, Was};
use crate::ffi::payload::Payload;
use crate::ffi::serve;
use crate::panics::Panics;
use crate::wait::times_or_none;
use crate::{BlockingCounts, Cancelled, Epoch, Job, JobId, JobState, Notifier, Reclaimed, Refused, RunningJob};
use crate::{Wait, Workers, WorkersOptions};
use std::fmt;
use std::sync::Arc;

/// What a [`Blocking`] service is made of.
///
/// Without anything said: 64 jobs, 2 workers, and nobody is told.
#[derive(Debug, Default)]
#[must_use = "options do nothing until a service is made of them"]
pub struct BlockingOptions {
    numbers: raw::Numbers,
    waiters: Option<Notifier>,
    work: Option<Notifier>,
}

impl BlockingOptions {
    /// The defaults.
    pub fn new() -> BlockingOptions {
        BlockingOptions::default()
    }

    /// How many jobs may be accepted and not yet gone.
    pub fn maximum_jobs(mut self, jobs: u32) -> BlockingOptions {
        self.numbers.maximum_jobs = Some(jobs);
        self
    }

    /// How many jobs may run at once; no more than the jobs.
    pub fn workers(mut self, workers: u32) -> BlockingOptions {
        self.numbers.workers = Some(workers);
        self
    }

    /// Who is told after every change that a waiter can care about.
    pub fn waiters(mut self, notifier: Notifier) -> BlockingOptions {
        self.waiters = Some(notifier);
        self
    }

    pub(crate) fn jobs(&self) -> u32 {
        self.numbers.maximum_jobs.unwrap_or(64)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.is_some()
    }

    /// Who is told when a claim that found nothing may find something.
    pub fn work(mut self, notifier: Notifier) -> BlockingOptions {
        self.work = Some(notifier);
        self
    }

    /// How often a wait looks again before it yields its core; 0: never.
    pub fn wait_spins(mut self, times: u32) -> BlockingOptions {
        self.numbers.wait_spins = Some(times_or_none(times));
        self
    }

    /// How often a wait yields its core before it sleeps; 0: never.
    pub fn wait_yields(mut self, times: u32) -> BlockingOptions {
        self.numbers.wait_yields = Some(times_or_none(times));
        self
    }
}

/// A bounded service of jobs: submit, claim, begin, complete, take.
///
/// A job goes in with an input of type `I` and comes out with an output of type `O`; the service knows nothing of
/// either. Workers are the library's threads ([`serve`](Blocking::serve)) or your own ([`claim`](Blocking::claim)).
///
/// ```
/// use nocter::{Blocking, BlockingOptions, Wait, WorkersOptions};
///
/// let service = Blocking::<String, usize>::new(BlockingOptions::new().maximum_jobs(16).workers(2))?;
/// let workers = service.serve(|text, _job| text.len(), &WorkersOptions::new())?;
/// let id = service.submit("how long is this?".to_string())?;
/// assert_eq!(service.take(id, &Wait::forever()), Ok(17));
/// service.shutdown(|_| ())?;
/// workers.stop(&Wait::forever())?;
/// # Ok::<(), nocter::Error>(())
/// ```
///
/// Dropping it shuts it down, drops what nobody runs, and waits for nothing; guards that are out stay valid.
///
/// A panic in a served closure tells the waiter [`Error::WorkerLost`](crate::Error::WorkerLost) in the service, and is
/// raised again by the next call on the service that has no value to give: most often by the `take` that waits for that
/// very job.
pub struct Blocking<I: Send, O: Send> {
    pub(crate) service: raw::Service<I, O>,
    pub(crate) panics: Arc<Panics>,
}

impl<I: Send, O: Send> Blocking<I, O> {
    /// Makes a service, with all the memory it will ever need besides the boxes of inputs and outputs.
    pub fn new(options: BlockingOptions) -> Result<Blocking<I, O>> {
        let BlockingOptions { numbers, waiters, work } = options;
        let service = raw::create(numbers, waiters.map(|notifier| notifier.0), work.map(|notifier| notifier.0))?;
        Ok(Blocking { service, panics: Arc::default() })
    }

    /// Hands a job in, and never waits. Whoever gets no [`JobId`] gets the very same input back.
    ///
    /// At the bound the answer carries the capacity epoch of the same moment. Waiting for a later one and trying again
    /// can never miss the slot that was freed in between:
    ///
    /// ```
    /// use nocter::{Blocking, Error, JobId, Refused, Wait};
    ///
    /// fn submit<I: Send, O: Send>(service: &Blocking<I, O>, mut input: I) -> Result<JobId, Error> {
    ///     loop {
    ///         match service.submit(input) {
    ///             Err(Refused::Saturated { input: back, epoch }) => {
    ///                 service.wait_epoch(epoch, &Wait::forever())?;
    ///                 input = back;
    ///             }
    ///             other => return Ok(other?),
    ///         }
    ///     }
    /// }
    /// # let service = Blocking::<u32, u32>::new(Default::default())?;
    /// # assert!(submit(&service, 1).is_ok());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn submit(&self, input: I) -> std::result::Result<JobId, Refused<I>> {
        self.panics.raise();
        self.submit_quietly(input)
    }

    /// The same, and raises nothing.
    pub(crate) fn submit_quietly(&self, input: I) -> std::result::Result<JobId, Refused<I>> {
        let mut payload = Payload::new(input);
        let (status, id, epoch) = raw::submit(&self.service, &mut payload);
        let error = match check(status) {
            Ok(()) => return Ok(JobId(id)),
            Err(error) => error,
        };
        let input = payload.into_value().expect("a refused input stays with its owner");
        Err(match error {
            Error::Saturated => Refused::Saturated { input, epoch: Epoch(epoch) },
            Error::Closed => Refused::Closed { input },
            error => Refused::Failed { input, error },
        })
    }

    /// Takes the oldest queued job, to run it on this thread.
    pub fn claim(&self, wait: &Wait<'_>) -> Result<RunningJob<I, O>> {
        let job = self.panics.around(|| raw::claim(&self.service, &wait.raw()))?;
        Ok(RunningJob { raw: job, panics: self.panics.clone() })
    }

    /// Takes what came out of a job. That, and [`Error::WorkerLost`], consume the identity.
    pub fn take(&self, id: JobId, wait: &Wait<'_>) -> Result<O> {
        let output = self.panics.around(|| raw::take(&self.service, id.0, &wait.raw()))?;
        Ok(output.into_value().expect("a completed job has an output"))
    }

    /// Where a job is. Changes nothing, and may be asked in a notifier.
    pub fn query(&self, id: JobId) -> Result<JobState> {
        self.panics.around(|| self.query_quietly(id))
    }

    /// The same, and raises nothing.
    pub(crate) fn query_quietly(&self, id: JobId) -> Result<JobState> {
        Ok(JobState::of(raw::query(&self.service, id.0)?))
    }

    /// For event loops: at most so many of the jobs that ended since the last asking, each named once. Takes nothing.
    pub fn completed(&self, capacity: usize) -> Result<Vec<JobId>> {
        let mut ids = vec![raw::NO_JOB; capacity];
        let count = self.panics.around(|| raw::completed(&self.service, &mut ids))?;
        Ok(ids.into_iter().take(count).map(JobId).collect())
    }

    /// Takes jobs as they end, whichever they are, at most so many: for a program where one place takes every job. A job
    /// whose worker was lost has `None` for its output. Jobs that [`completed`](Self::completed) named are left alone.
    pub fn take_many(&self, capacity: usize, wait: &Wait<'_>) -> Result<Vec<(JobId, Option<O>)>> {
        let taken = self.panics.around(|| raw::take_many(&self.service, capacity, &wait.raw()))?;
        Ok(taken.into_iter().map(|(id, output)| (JobId(id), output.and_then(Payload::into_value))).collect())
    }

    /// Ends the interest in a job. A queued or completed one ends at once and gives back what it holds; a running one
    /// becomes abandoned: it is told so, and its output will be dropped.
    pub fn cancel(&self, id: JobId) -> Result<Cancelled<I, O>> {
        Ok(match self.panics.around(|| raw::cancel(&self.service, id.0))? {
            Was::Queued(input) => Cancelled::Queued(input.into_value().expect("a queued job has an input")),
            Was::Running => Cancelled::Running,
            Was::Completed(output) => Cancelled::Completed(output.into_value()),
        })
    }

    /// The capacity epoch now: it advances whenever an occupied slot became free.
    pub fn epoch(&self) -> Result<Epoch> {
        Ok(Epoch(self.panics.around(|| raw::epoch(&self.service))?))
    }

    /// Waits until the capacity epoch is later than the one given, and gives it.
    pub fn wait_epoch(&self, later_than: Epoch, wait: &Wait<'_>) -> Result<Epoch> {
        Ok(Epoch(self.panics.around(|| raw::wait_epoch(&self.service, later_than.0, &wait.raw()))?))
    }

    /// Closes admission for good, hands what nobody runs to `sink`, abandons what runs, and wakes every waiter.
    ///
    /// `sink` is called on this thread: with every queued input, oldest first, then with every completed output. When it
    /// panics, the rest is dropped and the panic goes on after the service has been shut down. Does not wait for what
    /// runs: [`drained`](Blocking::drained) does.
    pub fn shutdown(&self, mut sink: impl FnMut(Reclaimed<I, O>)) -> Result<()> {
        self.panics.raise();
        let result = raw::shutdown(&self.service, &mut |was| match was {
            Was::Queued(input) => sink(Reclaimed::Input(input.into_value().expect("a queued job has an input"))),
            Was::Completed(output) => sink(Reclaimed::Output(output.into_value().expect("an output was handed over"))),
            Was::Running => unreachable!("what runs is not handed over"),
        });
        self.panics.raise();
        result
    }

    /// Waits until a service that was shut down has no job left.
    pub fn drained(&self, wait: &Wait<'_>) -> Result<()> {
        self.panics.around(|| raw::drained(&self.service, &wait.raw()))
    }

    /// A snapshot taken in one moment, and the totals since creation.
    pub fn count(&self) -> Result<BlockingCounts> {
        Ok(BlockingCounts::of(&self.panics.around(|| raw::count(&self.service))?))
    }

    /// Starts threads of the library that claim, run and complete jobs until the service is shut down or they are
    /// stopped. What the closure returns is the output of the job.
    pub fn serve<F>(&self, run: F, options: &WorkersOptions) -> Result<Workers>
    where
        I: 'static,
        O: 'static,
        F: Fn(I, &Job<'_>) -> O + Send + Sync + 'static,
    {
        let threads = options.raw()?;
        let run = move |input, lent: serve::Lent<'_>| run(input, &Job(lent));
        let raw = self.panics.around(|| serve::serve(&self.service, run, &threads, &self.panics))?;
        Ok(Workers { raw, panics: self.panics.clone() })
    }
}

impl<I: Send, O: Send> fmt::Debug for Blocking<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Blocking");
        match raw::count(&self.service) {
            Ok(counts) => text
                .field("queued", &counts.queued)
                .field("running", &counts.running)
                .field("completed", &counts.completed)
                .field("abandoned", &counts.abandoned)
                .field("maximum_jobs", &counts.maximum_jobs)
                .finish_non_exhaustive(),
            Err(error) => text.field("error", &error).finish(),
        }
    }
}
