//! mirror SRC DST [--workers N] [--keys N] [--resync SECONDS] [--once]
//!
//! Keeps DST equal to SRC while SRC changes: files, links, directories and their modes; until Ctrl-C, or with --once until
//! nothing is due any more.
//!
//! The kernel's events become keys of a nocter keyed queue: the path, and nothing of what happened to it. N threads make
//! passes: each looks at the path in SRC as it is now, and makes the same path in DST equal to that. However often a file
//! changes, one path is in one pass at a time, and a change during a pass brings exactly one more. Where the kernel loses
//! events, or the queue is full, nothing is remembered of what was lost: a round over everything is asked for, which the
//! queue makes a slice at a time beside its other work. Memory is that of the keys and of the directories that are watched.
//!
//! Equal means: the same content, or for a file the same size and time of change, and the same modes. Owners and special
//! files are not mirrored, and a file with several names becomes several files. What is written through a mapping of the
//! file, or under another name of it, is told by nobody: a round finds it.

#[path = "mirror/pass.rs"]
mod pass;
#[path = "mirror/round.rs"]
mod round;
#[path = "mirror/system.rs"]
mod system;
#[path = "mirror/watch.rs"]
mod watch;

use nocter::{CloseMode, Error, EventFd, Interrupt, Keyed, KeyedOptions, PassEnd, Wait};
use pass::{name_in, reason_of, remove_tree, Mirror, Not, MAXIMUM_PATH, WORK};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::io::AsRawFd;
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};
use system::{Event, Signals};
use watch::Watches;

const USAGE: &str = "usage: mirror SRC DST [--workers N] [--keys N] [--resync SECONDS] [--once]\n";
const ATTEMPTS: u32 = 6;
const INTERVAL: Duration = Duration::from_millis(1);
const SLICE: u32 = 256;

// ---- Standard error ----------------------------------------------------------------------------------------

/// The text of strerror().
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map_or(String::new(), |number| format!(" (os error {number})"));
    text.strip_suffix(&number).unwrap_or(&text).to_string()
}

/// "mirror: PATH: reason", in one line whatever the path is, and in one piece whoever else writes.
fn report(path: &[u8], reason: &str) {
    let mut line = b"mirror: ".to_vec();
    for byte in path {
        match byte {
            b'\\' => line.extend(b"\\\\"),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.extend(format!(": {reason}\n").as_bytes());
    let _ = io::stderr().write_all(&line);
}

fn count_problem(mirror: &Mirror, path: &[u8], reason: &str) {
    mirror.problems.fetch_add(1, Ordering::SeqCst);
    report(path, reason);
}

/// What ends the program with status 2, in words.
struct Failed(Vec<u8>, String);

fn failed(what: &str) -> impl Fn(Error) -> Failed + '_ {
    move |error| Failed(what.into(), error.to_string())
}

// ---- Passes, on threads that claim -------------------------------------------------------------------------

fn make_passes(mirror: &Mirror) {
    while let Ok(pass) = mirror.queue.claim(&Wait::forever()) {
        let path = pass.key().to_vec();
        let result = mirror.bring_up_to_date(&path, &pass);
        let end = match result {
            _ if pass.interrupted() => PassEnd::Fail,
            Ok(()) => PassEnd::Complete,
            Err(Not::Changed) => {
                mirror.notify(&path); // one more, behind all that wait
                PassEnd::Complete
            }
            // May be over soon: too many open files, no room.
            Err(Not::Failed(_)) if pass.failures() + 1 < ATTEMPTS => PassEnd::Retry,
            Err(not) => {
                count_problem(mirror, &path, &reason_of(&not));
                PassEnd::Fail
            }
        };
        let ended = pass.end(end).is_ok();
        if ended && mirror.once && mirror.queue.count().map_or(false, |counts| counts.retained == 0) {
            mirror.main_thread.wake();
        }
    }
}

// ---- The main thread: events, rounds, the end --------------------------------------------------------------

struct Run {
    mirror: Arc<Mirror>,
    woken: EventFd,
    signals: Signals,
    /// The queue has a source.
    rounds: bool,
    overflows: u64,
    resync: Option<Duration>,
    next_resync: Instant,
}

impl Run {
    /// Whatever happened to it: it is to be looked at. False when SRC itself has gone.
    fn on_event(&mut self, event: Event) -> bool {
        match event {
            Event::Overflow => {
                self.overflows += 1;
                self.mirror.wanted.fetch_add(1, Ordering::SeqCst);
            }
            Event::Ended(number) => return self.mirror.watches.ended(number),
            Event::At(number, name) => {
                if let Some(path) = self.mirror.watches.path_of(number, &name) {
                    if path.len() <= MAXIMUM_PATH {
                        self.mirror.notify(&path);
                    }
                }
            }
        }
        true
    }

    /// The queue has a source while a round is wanted.
    fn make_rounds(&mut self) -> Result<(), Error> {
        if let Some(interval) = self.resync.filter(|_| Instant::now() >= self.next_resync) {
            self.mirror.wanted.fetch_add(1, Ordering::SeqCst);
            self.next_resync = Instant::now() + interval;
        }
        let wanted = self.mirror.wanted.load(Ordering::SeqCst) != self.mirror.made.load(Ordering::SeqCst);
        if wanted != self.rounds {
            self.rounds = wanted;
            match wanted {
                true => self.mirror.queue.resync(round::rounds(self.mirror.clone()), INTERVAL, SLICE)?,
                false => self.mirror.queue.end_resync()?,
            }
        }
        Ok(())
    }

    /// Nothing is due, and nothing was said that would make something due; looked at in this order.
    fn is_settled(&self) -> bool {
        let mirror = &self.mirror;
        mirror.queue.count().map_or(false, |counts| counts.retained == 0)
            && mirror.wanted.load(Ordering::SeqCst) == mirror.made.load(Ordering::SeqCst)
            && !system::wait([mirror.watches.inotify.descriptor()], Some(0), None)[0]
    }

    fn keep_equal(&mut self) -> Result<(), Failed> {
        let woken = self.woken.fd().map_err(failed("nocter_eventfd_fd"))?.as_raw_fd();
        let ready = [self.mirror.watches.inotify.descriptor(), woken];
        self.mirror.notify(b"");
        while system::caught() == 0 {
            self.make_rounds().map_err(failed("nocter_keyed_resync"))?;
            if self.mirror.once && self.is_settled() {
                break;
            }
            let left = self.next_resync.saturating_duration_since(Instant::now()).as_nanos() as u64;
            let [events, woken] = system::wait(ready, self.resync.map(|_| left), Some(&self.signals));
            if woken {
                self.woken.clear();
            }
            if events {
                for event in self.mirror.watches.inotify.events() {
                    if !self.on_event(event) {
                        return Err(Failed(b"SRC".to_vec(), "was removed".into()));
                    }
                }
            }
        }
        Ok(())
    }

    /// What waits is discarded, what runs stops at its next look. Another Ctrl-C ends that wait, and the process.
    fn shut_down(&self) {
        if system::caught() != 0 {
            let _ = io::stderr().write_all(b"mirror: interrupted\n");
        }
        let interrupt = self.signals.interrupt();
        interrupt.clear();
        self.signals.let_in();
        self.mirror.queue.close(CloseMode::Discard);
        if self.mirror.queue.drained(&Wait::forever().interrupt(interrupt)) == Err(Error::Interrupted) {
            system::exit_at_once(128 + system::caught());
        }
    }

    /// Everything but the arguments.
    fn run(&mut self, workers: u32) -> Result<(), Failed> {
        let mut threads = Vec::new();
        let mut result = Ok(());
        for _ in 0..workers {
            let mirror = self.mirror.clone();
            let builder = thread::Builder::new().name("mirror".into()).stack_size(1 << 20);
            match builder.spawn(move || make_passes(&mirror)) {
                Ok(thread) => threads.push(thread),
                Err(error) => result = Err(Failed(b"thread".to_vec(), reason(&error))),
            }
        }
        result = result.and_then(|()| self.keep_equal());
        self.shut_down();
        for thread in threads {
            let _ = thread.join();
        }
        result
    }
}

// ---- Beginning ---------------------------------------------------------------------------------------------

fn open_root(name: &OsStr) -> Result<File, Failed> {
    let here = File::open("/proc/self/cwd").and_then(|here| match name.is_empty() {
        true => Err(io::Error::from_raw_os_error(2)),
        false => system::open(&here, name.as_bytes(), system::ROOT),
    });
    here.map_err(|error| Failed(name.as_bytes().to_vec(), reason(&error)))
}

/// The two trees, apart from each other, and the work folder, empty and nobody else's.
fn open_trees(source_name: &OsStr, target_name: &OsStr) -> Result<(File, File, File), Failed> {
    let not = |text: &str| Failed(target_name.as_bytes().to_vec(), text.to_string());
    let source = open_root(source_name)?;
    match DirBuilder::new().mode(0o700).create(target_name) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(not(&reason(&error))),
        _ => {}
    }
    let target = open_root(target_name)?;
    let full = |name: &OsStr| fs::canonicalize(name).map_err(|error| not(&reason(&error)));
    let (full_source, full_target) = (full(source_name)?, full(target_name)?);
    if full_source.starts_with(&full_target) || full_target.starts_with(&full_source) {
        return Err(not("one of SRC and DST lies in the other"));
    }
    let work = Path::new(target_name).join(OsStr::from_bytes(WORK));
    let _ = DirBuilder::new().mode(0o700).create(&work); // or it is there
    let work = system::open(&target, WORK, system::DIRECTORY).map_err(|error| not(&reason(&error)))?;
    if !system::lock_alone(&work) {
        return Err(not("another mirror writes here"));
    }
    empty(&work);
    Ok((source, target, work))
}

fn empty(folder: &File) {
    for entry in fs::read_dir(name_in(folder, b".")).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = fs::remove_file(&path).or_else(|_| remove_tree(&path));
    }
}

fn start(arguments: &Arguments) -> Result<Run, Failed> {
    system::mask_no_modes();
    let (source, target, work) = open_trees(&arguments.source, &arguments.target)?;
    let watches = Watches::new().map_err(|error| Failed(b"inotify".to_vec(), reason(&error)))?;
    let interrupt = Interrupt::new().map_err(failed("nocter_interrupt_create"))?;
    let signals = Signals::handle(interrupt);
    let woken = EventFd::new().map_err(failed("nocter_eventfd_create"))?;
    let options = KeyedOptions::new()
        .maximum_keys(arguments.keys)
        .workers(arguments.workers)
        .maximum_key_size(MAXIMUM_PATH as u32);
    let mirror = Mirror {
        queue: Keyed::new(options).map_err(failed("nocter_keyed_create"))?,
        source: Arc::new(source),
        target: Arc::new(target),
        work,
        places: RwLock::new(()),
        watches,
        names: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        problems: AtomicU64::new(0),
        wanted: AtomicU64::new(0),
        made: AtomicU64::new(0),
        rounds: AtomicU64::new(0),
        main_thread: woken.notifier(),
        once: arguments.once,
    };
    let resync = Some(Duration::from_secs(arguments.resync.into())).filter(|resync| !resync.is_zero());
    let next_resync = Instant::now() + resync.unwrap_or_default();
    Ok(Run { mirror: Arc::new(mirror), woken, signals, rounds: false, overflows: 0, resync, next_resync })
}

struct Arguments {
    source: OsString,
    target: OsString,
    workers: u32,
    keys: u32,
    resync: u32,
    once: bool,
}

/// A number, or what is wrong with it.
fn number_of(name: &str, value: Option<&[u8]>, minimum: u32, maximum: u32) -> Result<u32, Vec<u8>> {
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    number.filter(|number| (minimum..=maximum).contains(number)).ok_or_else(|| {
        [format!("{name} must be a number from {minimum} to {maximum}, not '").as_bytes(), value, b"'"].concat()
    })
}

fn parse(words: &[Vec<u8>]) -> Result<Arguments, Vec<u8>> {
    let default = thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 1024) as u32);
    let (mut workers, mut keys, mut resync, mut once) = (default, 16384, 600, false);
    let (mut names, mut options) = (Vec::new(), true);
    let mut words = words.iter().map(Vec::as_slice);
    while let Some(word) = words.next() {
        if !options || !word.starts_with(b"-") || word == b"-" {
            if names.len() == 2 {
                return Err(b"only SRC and DST can be given".to_vec());
            }
            names.push(OsString::from_vec(word.to_vec()));
            continue;
        }
        let (option, joined) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let mut value = || joined.or_else(|| words.next());
        match (option, joined) {
            (b"--", None) => options = false,
            (b"--help", None) => exit(if io::stdout().write_all(USAGE.as_bytes()).is_ok() { 0 } else { 2 }),
            (b"--once", None) => once = true,
            (b"--workers", _) => workers = number_of("--workers", value(), 1, 1024)?,
            (b"--keys", _) => keys = number_of("--keys", value(), 1, 1_048_576)?,
            (b"--resync", _) => resync = number_of("--resync", value(), 0, 31_536_000)?,
            _ => return Err([b"unknown option: ", word].concat()),
        }
    }
    let mut names = names.into_iter();
    let source = names.next().ok_or("SRC is missing")?;
    let target = names.next().ok_or("DST is missing")?;
    Ok(Arguments { source, target, workers: workers.min(keys), keys, resync, once })
}

fn main() {
    let words: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsString::into_vec).collect();
    let arguments = parse(&words).unwrap_or_else(|problem| {
        let _ = io::stderr().write_all(&[b"mirror: ", &problem[..], b"\n", USAGE.as_bytes()].concat());
        exit(2)
    });
    let fail = |failed: &Failed| report(&failed.0, &failed.1);
    let mut run = start(&arguments).unwrap_or_else(|failed| {
        fail(&failed);
        exit(2)
    });
    let result = run.run(arguments.workers);
    if let Err(failed) = &result {
        fail(failed);
    }
    let mirror = &run.mirror;
    let of = |number: &AtomicU64| number.load(Ordering::SeqCst);
    if let Ok(counts) = mirror.queue.count() {
        eprintln!(
            "mirror: {} passes, {} problems, {} overflows, {} refused, {} rounds",
            counts.started,
            of(&mirror.problems),
            run.overflows,
            of(&mirror.refused),
            of(&mirror.rounds)
        );
    }
    empty(&mirror.work);
    let _ = fs::remove_dir(name_in(&mirror.target, WORK));
    exit(match (result, system::caught()) {
        (Err(_), _) => 2,
        (Ok(()), 0) => i32::from(of(&mirror.problems) != 0),
        (Ok(()), caught) => 128 + caught,
    });
}
