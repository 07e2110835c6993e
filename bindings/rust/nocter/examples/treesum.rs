//! treesum DIR [--workers N] [--jobs M]
//!
//! Prints the CRC-32, the size and the path of every regular file below DIR, in bytewise order of the paths.
//!
//! Reading files blocks, so it is done by N threads of a nocter blocking service. The main thread walks the tree, submits
//! one job a file and takes the results in the same order; at most M jobs are out at any time, so the memory needed is
//! that of M jobs and of the directories on the current path, however large the tree is. Ctrl-C raises an interrupt that
//! the main thread's waits carry: it shuts the service down, which hands back what nobody has begun and abandons what
//! runs; the running jobs notice between two reads and stop.

#[path = "treesum/system.rs"]
mod system;
#[path = "treesum/walk.rs"]
mod walk;

use nocter::{
    Blocking, BlockingOptions, Error, Interrupt, Job, JobId, Reclaimed, Refused, Wait, Workers, WorkersOptions,
};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use walk::{Found, Walk};

const USAGE: &str = "usage: treesum DIR [--workers N] [--jobs M]\n";
const NAME_PROBLEM: &str = "name is not UTF-8";
const MAXIMUM_WORKERS: u32 = 1024;
const MAXIMUM_JOBS: u32 = 65536;
const CHUNK: usize = 256 * 1024;
const REDRAW: Duration = Duration::from_millis(100);

// ---- Text --------------------------------------------------------------------------------------------------

/// A path so that it fits in one line: as sha256sum writes it, without the mark in front.
fn escaped(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.iter().any(|byte| b"\\\n\r".contains(byte)) {
        return Cow::Borrowed(path);
    }
    let mut text = Vec::new();
    for byte in path {
        match byte {
            b'\\' => text.extend(b"\\\\"),
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            byte => text.push(*byte),
        }
    }
    Cow::Owned(text)
}

/// The text of strerror().
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map_or(String::new(), |number| format!(" (os error {number})"));
    text.strip_suffix(&number).unwrap_or(&text).to_string()
}

type Problem = Cow<'static, str>;

fn problem_of(error: io::Error) -> Problem {
    Cow::Owned(reason(&error))
}

fn c_path(path: &[u8]) -> Arc<CStr> {
    CString::new(path).expect("the system's names hold no NUL").into()
}

fn named_well(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    std::str::from_utf8(name).is_ok()
}

// ---- Standard output and standard error --------------------------------------------------------------------

#[derive(Default)]
struct Output {
    buffer: Vec<u8>,
    /// Of the first write that failed: nothing more is written.
    error: Option<io::Error>,
    /// Standard output is one: line by line.
    terminal: bool,
    /// Standard error is one.
    bar: bool,
    bar_drawn: bool,
    bar_redraw: Option<Instant>,
    bar_total: u64,
}

impl Output {
    fn erase_bar(&mut self) {
        if std::mem::take(&mut self.bar_drawn) {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }

    /// After a signal only what can be written without waiting: nobody may be reading.
    fn flush(&mut self) {
        let mut rest = &std::mem::take(&mut self.buffer)[..];
        if self.terminal {
            self.erase_bar();
        }
        while !rest.is_empty() && self.error.is_none() {
            let mut part = rest.len();
            if system::caught() != 0 {
                if !system::can_be_written(1) {
                    break;
                }
                part = part.min(4096); // a pipe that is ready takes as much
            }
            match system::write_once(1, &rest[..part]) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn print(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
        if self.terminal || self.buffer.len() >= 65536 {
            self.flush();
        }
    }

    /// "treesum: PATH: reason", after everything that was printed before it.
    fn report(&mut self, path: &[u8], reason: &str) {
        self.flush();
        if self.error.is_none() {
            self.erase_bar();
            let line = [b"treesum: ", &*escaped(path), b": ", reason.as_bytes(), b"\n"].concat();
            let _ = io::stderr().write_all(&line);
        }
    }

    fn draw_bar(&mut self, files: u64, bytes: u64) {
        let now = Instant::now();
        if !self.bar || self.bar_redraw.map_or(false, |redraw| now < redraw) {
            return;
        }
        let percent =
            if bytes < self.bar_total { (bytes as f64 / self.bar_total as f64 * 100.0) as usize } else { 100 };
        let (done, rest) = ("#".repeat(percent / 10), "-".repeat(10 - percent / 10));
        let _ = io::stderr().write_all(format!("\r[{done}{rest}] {percent:3}% {files} files {bytes} bytes").as_bytes());
        self.bar_redraw = Some(now + REDRAW);
        self.bar_drawn = true;
    }
}

// ---- The job: sums one file, on a thread of the service -----------------------------------------------------

/// What all jobs share.
struct Tree {
    root: File,
    bytes_read: AtomicU64,
}

enum Outcome {
    Sum {
        crc: u32,
        size: u64,
    },
    Problem(Problem),
    /// A link to a directory: neither summed nor reported.
    Nothing,
}

fn kind_of(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        _ if kind.is_fifo() => "not a regular file: FIFO",
        _ if kind.is_socket() => "not a regular file: socket",
        _ if kind.is_char_device() => "not a regular file: character device",
        _ => "not a regular file: block device",
    }
}

fn content(found: &Metadata) -> (u64, u64, u64, i64, i64) {
    (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec())
}

fn sum_file(tree: &Tree, path: &CStr, job: &Job<'_>) -> io::Result<Outcome> {
    // Asked before it is opened for reading: that is felt at the other end of a device or a FIFO.
    let before = system::open(Some(&tree.root), path, system::NAME_ONLY)?.metadata()?;
    if before.is_dir() {
        return Ok(Outcome::Nothing);
    }
    if !before.is_file() {
        return Ok(Outcome::Problem(kind_of(&before).into()));
    }
    let mut file = system::open(Some(&tree.root), path, system::CONTENT)?;
    let mut buffer = vec![0; CHUNK.min(before.size() as usize + 1)];
    let (mut crc, mut size) = (0, 0);
    // One that grows as fast as it is read must end too.
    while size <= before.size() && !job.abandoned() {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                crc = system::checksum(crc, &buffer[..read]);
                size += read as u64;
                tree.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if size != before.size() || content(&file.metadata()?) != content(&before) {
        return Ok(Outcome::Problem("changed while it was read".into()));
    }
    Ok(Outcome::Sum { crc, size })
}

// ---- The main thread: submits in order, takes in order ------------------------------------------------------

/// One entry that was found and not yet printed.
struct Pending {
    path: Arc<CStr>,
    state: Result<JobId, Problem>,
}

/// Something that is not a file's fault: exit 2.
struct Failed(&'static str, Error);

struct Summing<'a> {
    name: &'a [u8],
    tree: Arc<Tree>,
    interrupt: &'a Interrupt,
    service: &'a Blocking<Arc<CStr>, Outcome>,
    capacity: usize,
    /// The oldest first.
    ring: VecDeque<Pending>,
    files: u64,
    bytes: u64,
    problems: u64,
}

impl Summing<'_> {
    fn problem(&mut self, output: &mut Output, path: &[u8], reason: &str) {
        output.report(if path.is_empty() { self.name } else { path }, reason);
        self.problems += 1;
    }

    fn print_outcome(&mut self, output: &mut Output, path: &[u8], outcome: Outcome) {
        if matches!(outcome, Outcome::Nothing) {
            return;
        }
        if !named_well(path) {
            self.problem(output, path, NAME_PROBLEM);
        }
        match outcome {
            Outcome::Nothing => {}
            Outcome::Problem(problem) => self.problem(output, path, &problem),
            Outcome::Sum { crc, size } => {
                let path = escaped(path);
                let mark: &[u8] = if matches!(path, Cow::Owned(_)) { b"\\" } else { b"" };
                output.print(&[mark, format!("{crc:08x} {size} ").as_bytes(), &path, b"\n"].concat());
                self.files += 1;
                self.bytes += size;
            }
        }
    }

    /// Prints the oldest entry once its job has ended, waiting for that if `waiting`. False when it has not ended.
    fn finish_oldest(&mut self, output: &mut Output, waiting: bool) -> Result<bool, Failed> {
        let (path, state) = match self.ring.front() {
            Some(oldest) => (oldest.path.clone(), oldest.state.clone()),
            None => return Ok(false),
        };
        let path = path.to_bytes();
        match state.map(|id| self.take(output, id, waiting)) {
            Err(problem) => self.problem(output, path, &problem),
            Ok(Ok(outcome)) => self.print_outcome(output, path, outcome),
            Ok(Err(Error::WorkerLost)) => self.problem(output, path, "worker lost"),
            Ok(Err(Error::Pending | Error::Interrupted)) => return Ok(false),
            Ok(Err(error)) => return Err(Failed("nocter_blocking_take", error)),
        }
        self.ring.pop_front();
        Ok(true)
    }

    fn take(&self, output: &mut Output, id: JobId, waiting: bool) -> Result<Outcome, Error> {
        loop {
            output.draw_bar(self.files, self.tree.bytes_read.load(Ordering::Relaxed));
            let wait = match (waiting, output.bar) {
                (false, _) => Wait::none(),
                (true, false) => Wait::forever(),
                (true, true) => Wait::at_most(REDRAW),
            };
            match self.service.take(id, &wait.interrupt(self.interrupt)) {
                Err(Error::Timeout) => {}
                other => return other,
            }
        }
    }

    /// None when it was interrupted: nothing goes on then.
    fn submit(&mut self, output: &mut Output, mut path: Arc<CStr>) -> Result<Option<JobId>, Failed> {
        loop {
            match self.service.submit(path) {
                Ok(id) => return Ok(Some(id)),
                // The epoch is not waited for: taking the oldest result is what frees a place here.
                Err(Refused::Saturated { input, .. }) => path = input,
                Err(refused) => return Err(Failed("nocter_blocking_submit", refused.into())),
            }
            if !self.finish_oldest(output, true)? {
                return Ok(None);
            }
        }
    }

    fn sum_tree(&mut self, output: &mut Output) -> Result<(), Failed> {
        let tree = self.tree.clone();
        let mut walk = Walk::new(&tree.root);
        let going_on = |output: &Output| system::caught() == 0 && output.error.is_none();
        while going_on(output) {
            let found = match walk.next() {
                Some(found) => found,
                None => break,
            };
            while self.ring.len() == self.capacity && going_on(output) {
                self.finish_oldest(output, true)?;
            }
            let next = match found {
                _ if !going_on(output) => break,
                Found::Problem(path, problem) => Pending { path, state: Err(problem) },
                Found::File(path) => match self.submit(output, path.clone())? {
                    Some(id) => Pending { path, state: Ok(id) },
                    None => break,
                },
            };
            self.ring.push_back(next);
            while going_on(output) && self.finish_oldest(output, false)? {}
        }
        while !self.ring.is_empty() && going_on(output) {
            self.finish_oldest(output, true)?;
        }
        Ok(())
    }
}

/// What the progress bar calls 100 %.
fn count_tree(root: &File) -> u64 {
    let size_of = |path: &CStr| system::open(Some(root), path, system::NAME_ONLY)?.metadata();
    let mut total = 0;
    for found in Walk::new(root).take_while(|_| system::caught() == 0) {
        if let Found::File(path) = found {
            total += size_of(&path).map_or(0, |found| if found.is_file() { found.size() } else { 0 });
        }
    }
    total
}

// ---- Beginning and end -------------------------------------------------------------------------------------

/// Nothing new is begun, what runs is abandoned and waited for. Another Ctrl-C ends that wait, and the process.
fn shut_down(summing: &Summing<'_>, stopped_by: i32) -> Result<(), Error> {
    let mut queued = 0;
    summing.interrupt.clear();
    summing.service.shutdown(|value| queued += u64::from(matches!(value, Reclaimed::Input(_))))?;
    if stopped_by != 0 {
        let counts = summing.service.count()?;
        let running = u64::from(counts.abandoned) + counts.abandoned_retired;
        eprintln!("treesum: interrupted: {running} running abandoned, {queued} queued handed back");
    }
    match summing.service.drained(&Wait::forever().interrupt(summing.interrupt)) {
        Err(Error::Interrupted) => system::exit_at_once(128 + system::caught()),
        other => other,
    }
}

fn start(tree: &Arc<Tree>, workers: u32, jobs: u32) -> Result<(Blocking<Arc<CStr>, Outcome>, Workers), Failed> {
    let options = BlockingOptions::new().maximum_jobs(jobs).workers(workers);
    let service = Blocking::new(options).map_err(|error| Failed("nocter_blocking_create", error))?;
    let tree = tree.clone();
    let sum = move |path: Arc<CStr>, job: &Job<'_>| {
        sum_file(&tree, &path, job).unwrap_or_else(|error| Outcome::Problem(problem_of(error)))
    };
    let threads = service
        .serve(sum, &WorkersOptions::new().name("treesum").stack_size(1 << 20))
        .map_err(|error| Failed("nocter_blocking_serve", error))?;
    Ok((service, threads))
}

/// Everything but the arguments; the summary, unless it failed.
fn run(output: &mut Output, name: &[u8], root: File, workers: u32, jobs: u32) -> Result<(String, i32), Failed> {
    let tree = Arc::new(Tree { root, bytes_read: AtomicU64::new(0) });
    let interrupt = Interrupt::new().map_err(|error| Failed("nocter_interrupt_create", error))?;
    let signals = system::Signals::handle(interrupt);
    let (service, threads) = start(&tree, workers, jobs)?;
    let mut summing = Summing {
        name,
        tree: tree.clone(),
        interrupt: signals.interrupt(),
        service: &service,
        capacity: jobs as usize,
        ring: VecDeque::with_capacity(jobs as usize),
        files: 0,
        bytes: 0,
        problems: 0,
    };
    if output.bar {
        output.bar_total = count_tree(&tree.root);
    }
    let summed = summing.sum_tree(output);
    output.flush();
    output.erase_bar();
    let stopped_by = system::caught();
    shut_down(&summing, stopped_by).map_err(|error| Failed("nocter_blocking_shutdown", error))?;
    threads.stop(&Wait::forever()).map_err(|error| Failed("nocter_workers_stop", error))?;
    summed?;
    let Summing { files, bytes, problems, .. } = summing;
    let status = match stopped_by {
        0 => i32::from(problems != 0),
        signal => 128 + signal,
    };
    Ok((format!("treesum: {files} files, {bytes} bytes, {problems} problems\n"), status))
}

/// "treesum: BEFORE ARGUMENT AFTER" and how it is called.
fn usage_error(before: &str, argument: &[u8], after: &str) -> i32 {
    let line =
        [b"treesum: ", before.as_bytes(), &escaped(argument), after.as_bytes(), b"\n", USAGE.as_bytes()].concat();
    let _ = io::stderr().write_all(&line);
    2
}

/// The number, from 1 to the maximum.
fn number_of(text: &[u8], maximum: u32) -> Option<u32> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| (1..=maximum).contains(number))
}

struct Arguments {
    name: Vec<u8>,
    workers: u32,
    jobs: u32,
}

/// None: help was asked for.
fn arguments(mut given: impl Iterator<Item = Vec<u8>>) -> Result<Option<Arguments>, i32> {
    let (mut name, mut options) = (None, true);
    let mut numbers = [("--workers", MAXIMUM_WORKERS, None), ("--jobs", MAXIMUM_JOBS, None)];
    while let Some(argument) = given.next() {
        if !options || argument.len() < 2 || argument[0] != b'-' {
            if name.replace(argument).is_some() {
                return Err(usage_error("only one DIR can be given", b"", ""));
            }
        } else if argument == b"--" {
            options = false;
        } else if argument == b"--help" {
            return Ok(None);
        } else {
            let mut parts = argument.splitn(2, |byte| *byte == b'=');
            let (option, value) = (parts.next(), parts.next().map(<[u8]>::to_vec));
            let (option, maximum, number) = match numbers.iter_mut().find(|known| Some(known.0.as_bytes()) == option) {
                Some(known) => (known.0, known.1, &mut known.2),
                None => return Err(usage_error("unknown option: ", &argument, "")),
            };
            let value = match value.or_else(|| given.next()) {
                Some(value) => value,
                None => return Err(usage_error(&format!("{option} needs a number"), b"", "")),
            };
            *number = number_of(&value, maximum);
            if number.is_none() {
                let before = format!("{option} must be a number from 1 to {maximum}, not '");
                return Err(usage_error(&before, &value, "'"));
            }
        }
    }
    let name = name.ok_or_else(|| usage_error("DIR is missing", b"", ""))?;
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32);
    let default = cores.clamp(2, MAXIMUM_WORKERS);
    let (workers, jobs) = match (numbers[0].2, numbers[1].2) {
        (workers, None) => (workers.unwrap_or(default), 4 * workers.unwrap_or(default)),
        (workers, Some(jobs)) => (workers.unwrap_or_else(|| default.min(jobs)), jobs),
    };
    if jobs < workers {
        return Err(usage_error("--jobs must be at least --workers", b"", ""));
    }
    Ok(Some(Arguments { name, workers, jobs }))
}

fn program(output: &mut Output) -> i32 {
    let Arguments { name, workers, jobs } = match arguments(std::env::args_os().skip(1).map(OsString::into_vec)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            output.print(USAGE.as_bytes());
            return 0;
        }
        Err(status) => return status,
    };
    let root = match system::open(None, &c_path(&name), system::ROOT) {
        Ok(root) => root,
        Err(error) => {
            output.report(&name, &reason(&error));
            return 2;
        }
    };
    match run(output, &name, root, workers, jobs) {
        Ok(_) if output.error.is_some() => 2,
        Ok((summary, status)) => {
            let _ = io::stderr().write_all(summary.as_bytes());
            status
        }
        Err(Failed(what, error)) => {
            let message = if error.message().is_empty() { error.name() } else { error.message() };
            output.report(what.as_bytes(), message);
            2
        }
    }
}

fn main() {
    let terminals = [1, 2].map(system::is_terminal);
    let mut output = Output { terminal: terminals[0], bar: terminals[1], ..Output::default() };
    if system::no_output() {
        output.report(b"standard output", "Bad file descriptor");
        std::process::exit(2);
    }
    let mut status = program(&mut output);
    output.flush();
    if let Some(error) = output.error.take() {
        output.report(b"standard output", &reason(&error));
        status = 2;
    }
    std::process::exit(status);
}
