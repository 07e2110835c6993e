//! The library's own threads.

use crate::error::{Error, Result};
use crate::ffi::serve;
use crate::panics::Panics;
use crate::Wait;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// How the threads of a serve call are made.
///
/// Without anything said: as many threads as the service has workers, with the system's stack size, named "nocter".
#[derive(Clone, Default)]
#[must_use = "options do nothing until a serve call has them"]
pub struct WorkersOptions {
    raw: serve::Threads,
    name: Option<String>,
}

impl WorkersOptions {
    /// The defaults.
    pub fn new() -> WorkersOptions {
        WorkersOptions::default()
    }

    /// How many threads; 0: as many as the service has workers.
    pub fn threads(mut self, threads: u32) -> WorkersOptions {
        self.raw.threads = threads;
        self
    }

    /// Stack of each thread in bytes; 0: the system's default.
    pub fn stack_size(mut self, bytes: u64) -> WorkersOptions {
        self.raw.stack_size = bytes;
        self
    }

    /// Name of the threads as the system shows it; what is longer than 15 bytes is cut.
    pub fn name(mut self, name: impl Into<String>) -> WorkersOptions {
        self.name = Some(name.into());
        self
    }

    /// Called first on each thread. When it panics, the serve call fails and raises that panic, and no thread is left.
    pub fn on_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> WorkersOptions {
        self.raw.start = Some(Arc::new(hook));
        self
    }

    /// Called last on each thread.
    pub fn on_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> WorkersOptions {
        self.raw.stop = Some(Arc::new(hook));
        self
    }

    pub(crate) fn raw(&self) -> Result<serve::Threads> {
        let name = self.name.clone().map(CString::new).transpose();
        let name = name.map_err(|_| Error::Argument("the name of the threads holds a NUL".to_string()))?;
        Ok(serve::Threads { name, ..self.raw.clone() })
    }
}

impl fmt::Debug for WorkersOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkersOptions")
            .field("threads", &self.raw.threads)
            .field("stack_size", &self.raw.stack_size)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Threads of the library that serve one service.
///
/// Dropping it asks them to end and waits for none of them: each ends after the job it runs, and the last one drops the
/// closure. Call [`stop`](Workers::stop) to know when that is.
#[must_use = "dropping the workers asks their threads to end"]
pub struct Workers {
    pub(crate) raw: serve::Workers,
    pub(crate) panics: Arc<Panics>,
}

impl Workers {
    /// Asks the threads to claim nothing more, and waits until all of them have ended.
    pub fn stop(&self, wait: &Wait<'_>) -> Result<()> {
        let result = self.panics.around(|| self.raw.stop(&wait.raw()));
        self.panics.raise();
        result
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workers").finish_non_exhaustive()
    }
}
