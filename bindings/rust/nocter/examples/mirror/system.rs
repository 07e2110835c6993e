//! What std has no word for: openat, inotify, ppoll, signals. All of mirror that is unsafe is here.

use nocter::Interrupt;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::raw::{c_char, c_int, c_long, c_short, c_uint, c_ulong, c_void};
use std::os::unix::io::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

const O_WRONLY: c_int = 1;
const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;
const O_NOCTTY: c_int = 0o400;
const O_NONBLOCK: c_int = 0o4000;
const O_CLOEXEC: c_int = 0o2000000;
const O_PATH: c_int = 0o10000000;
#[cfg(not(any(target_arch = "arm", target_arch = "aarch64", target_arch = "powerpc64")))]
const O_DIRECTORY_NOFOLLOW: (c_int, c_int) = (0o200000, 0o400000);
#[cfg(any(target_arch = "arm", target_arch = "aarch64", target_arch = "powerpc64"))]
const O_DIRECTORY_NOFOLLOW: (c_int, c_int) = (0o40000, 0o100000);

pub const ROOT: c_int = O_DIRECTORY_NOFOLLOW.0;
pub const LINK: c_int = O_PATH | O_DIRECTORY_NOFOLLOW.1;
pub const FOLDER: c_int = LINK | O_DIRECTORY_NOFOLLOW.0;
pub const DIRECTORY: c_int = O_DIRECTORY_NOFOLLOW.0 | O_DIRECTORY_NOFOLLOW.1;
pub const CONTENT: c_int = O_NONBLOCK | O_NOCTTY | O_DIRECTORY_NOFOLLOW.1;
pub const NEW: c_int = O_WRONLY | O_CREAT | O_EXCL;

const UTIME_OMIT: c_long = (1 << 30) - 2;
const LOCK_EX_NB: c_int = 2 | 4;
const POLLIN: c_short = 1;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const SIGINT: c_int = 2;
const SIGTERM: c_int = 15;
const SIG_IGN: usize = 1;
const IN_CLOEXEC_NONBLOCK: c_int = O_CLOEXEC | O_NONBLOCK;
const IN_ONLYDIR: u32 = 0x0100_0000;
const IN_EXCL_UNLINK: u32 = 0x0400_0000;
/// Create, delete, modify, close after writing, attributes, moved from, moved to.
const WATCHED: u32 = 0x100 | 0x200 | 0x2 | 0x8 | 0x4 | 0x40 | 0x80 | IN_ONLYDIR | IN_EXCL_UNLINK;
const IN_Q_OVERFLOW: u32 = 0x4000;
const IN_IGNORED: u32 = 0x8000;

#[repr(C)]
#[derive(Clone, Copy)]
struct SignalSet([c_ulong; 1024 / c_ulong::BITS as usize]);

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    happened: c_short,
}

#[repr(C)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: c_long,
}

extern "C" {
    fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn futimens(descriptor: c_int, times: *const TimeSpec) -> c_int;
    fn flock(descriptor: c_int, operation: c_int) -> c_int;
    fn umask(mode: c_uint) -> c_uint;
    fn ppoll(fds: *mut PollFd, count: c_ulong, timeout: *const TimeSpec, open: *const SignalSet) -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn inotify_add_watch(descriptor: c_int, path: *const c_char, mask: u32) -> c_int;
    fn inotify_rm_watch(descriptor: c_int, number: c_int) -> c_int;
    fn read(descriptor: c_int, bytes: *mut c_void, size: usize) -> isize;
    fn sigemptyset(set: *mut SignalSet) -> c_int;
    fn sigaddset(set: *mut SignalSet, number: c_int) -> c_int;
    fn sigdelset(set: *mut SignalSet, number: c_int) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, before: *mut SignalSet) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn _exit(status: c_int) -> !;
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

// ---- Files -------------------------------------------------------------------------------------------------

/// Opens a name in an open directory.
pub fn open(directory: &File, name: &[u8], flags: c_int) -> io::Result<File> {
    let name = CString::new(name)?;
    let mode: c_uint = 0o600;
    let descriptor = checked(unsafe { openat(directory.as_raw_fd(), name.as_ptr(), flags | O_CLOEXEC, mode) })?;
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// When it was changed last, as the system says it.
pub fn set_time(file: &File, seconds: i64, nanoseconds: i64) -> io::Result<()> {
    let omitted = TimeSpec { seconds: 0, nanoseconds: UTIME_OMIT };
    let times = [omitted, TimeSpec { seconds, nanoseconds: nanoseconds as c_long }];
    checked(unsafe { futimens(file.as_raw_fd(), times.as_ptr()) }).map(drop)
}

/// False when another process holds it.
pub fn lock_alone(file: &File) -> bool {
    unsafe { flock(file.as_raw_fd(), LOCK_EX_NB) == 0 }
}

pub fn mask_no_modes() {
    unsafe { umask(0) };
}

// ---- inotify -----------------------------------------------------------------------------------------------

pub struct Inotify(File);

pub enum Event {
    /// Something happened to the name in that directory; without one, to itself.
    At(c_int, Vec<u8>),
    /// That directory is not watched any more.
    Ended(c_int),
    /// Events were lost.
    Overflow,
}

impl Inotify {
    pub fn new() -> io::Result<Inotify> {
        let descriptor = checked(unsafe { inotify_init1(IN_CLOEXEC_NONBLOCK) })?;
        Ok(Inotify(unsafe { File::from_raw_fd(descriptor) }))
    }

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn add(&self, directory: &File) -> io::Result<c_int> {
        let path = CString::new(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        checked(unsafe { inotify_add_watch(self.descriptor(), path.as_ptr(), WATCHED) })
    }

    /// Fails when the directory is gone already.
    pub fn remove(&self, number: c_int) {
        unsafe { inotify_rm_watch(self.descriptor(), number) };
    }

    /// What has come until now, or a part of it.
    pub fn events(&self) -> Vec<Event> {
        const HEAD: usize = 16;
        let mut buffer = [0u8; 65536];
        let size = unsafe { read(self.descriptor(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let mut rest = &buffer[..usize::try_from(size).unwrap_or(0)];
        let mut events = Vec::new();
        while rest.len() >= HEAD {
            let word = |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
            let (number, mask, length) = (word(0) as c_int, word(4), word(12) as usize);
            let name = rest[HEAD..HEAD + length].split(|byte| *byte == 0).next().unwrap_or_default();
            events.push(match mask {
                mask if mask & IN_Q_OVERFLOW != 0 => Event::Overflow,
                mask if mask & IN_IGNORED != 0 => Event::Ended(number),
                _ => Event::At(number, name.to_vec()),
            });
            rest = &rest[HEAD + length..];
        }
        events
    }
}

/// Which of the descriptors can be read. Signals come while it waits, and end it.
pub fn wait<const N: usize>(descriptors: [RawFd; N], nanoseconds: Option<u64>, signals: Option<&Signals>) -> [bool; N] {
    let mut polled = descriptors.map(|fd| PollFd { fd, events: POLLIN, happened: 0 });
    let second = 1_000_000_000;
    let timeout =
        nanoseconds.map(|time| TimeSpec { seconds: (time / second) as i64, nanoseconds: (time % second) as c_long });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |timeout| timeout as *const TimeSpec);
    let open = signals.map_or(std::ptr::null(), |signals| &signals.open as *const SignalSet);
    let count = unsafe { ppoll(polled.as_mut_ptr(), N as c_ulong, timeout, open) };
    polled.map(|polled| count > 0 && polled.happened != 0)
}

// ---- Signals -----------------------------------------------------------------------------------------------

/// The first SIGINT or SIGTERM.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static INTERRUPT: AtomicPtr<Interrupt> = AtomicPtr::new(std::ptr::null_mut());

pub fn caught() -> c_int {
    CAUGHT.load(Ordering::SeqCst)
}

pub fn exit_at_once(status: c_int) -> ! {
    unsafe { _exit(status) }
}

extern "C" fn on_signal(number: c_int) {
    let _ = CAUGHT.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
    // Not NULL while the handler is installed; raising is allowed in a signal handler.
    unsafe { (*INTERRUPT.load(Ordering::SeqCst)).raise() }
}

/// Raises the interrupt at SIGINT and SIGTERM, until it is dropped; then both are ignored: what is left to be done takes
/// no time. They are blocked but where [`wait`] waits, so that they end the wait also when they come just before it.
pub struct Signals {
    interrupt: Box<Interrupt>,
    open: SignalSet,
}

impl Signals {
    pub fn handle(interrupt: Interrupt) -> Signals {
        let empty = SignalSet([0; 1024 / c_ulong::BITS as usize]);
        let mut signals = Signals { interrupt: Box::new(interrupt), open: empty };
        let mut both = empty;
        INTERRUPT.store(&mut *signals.interrupt, Ordering::SeqCst);
        unsafe {
            sigemptyset(&mut both);
            sigaddset(&mut both, SIGINT);
            sigaddset(&mut both, SIGTERM);
            pthread_sigmask(SIG_BLOCK, &both, &mut signals.open);
            sigdelset(&mut signals.open, SIGINT);
            sigdelset(&mut signals.open, SIGTERM);
            signal(SIGINT, on_signal as extern "C" fn(c_int) as usize);
            signal(SIGTERM, on_signal as extern "C" fn(c_int) as usize);
        }
        signals
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// From now on they may come at any time.
    pub fn let_in(&self) {
        unsafe { pthread_sigmask(SIG_SETMASK, &self.open, std::ptr::null_mut()) };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for number in [SIGINT, SIGTERM] {
            unsafe { signal(number, SIG_IGN) };
        }
    }
}
