//! What std has no word for: openat, readdir, signals, CRC-32. All of treesum that is unsafe is here.

use nocter::Interrupt;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::raw::{c_char, c_int, c_short, c_uint, c_ulong, c_void};
use std::os::unix::io::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

const O_NOCTTY: c_int = 0o400;
const O_NONBLOCK: c_int = 0o4000;
const O_CLOEXEC: c_int = 0o2000000;
const O_PATH: c_int = 0o10000000;
#[cfg(not(any(target_arch = "arm", target_arch = "aarch64", target_arch = "powerpc64")))]
const O_DIRECTORY_NOFOLLOW: (c_int, c_int) = (0o200000, 0o400000);
#[cfg(any(target_arch = "arm", target_arch = "aarch64", target_arch = "powerpc64"))]
const O_DIRECTORY_NOFOLLOW: (c_int, c_int) = (0o40000, 0o100000);

const AT_FDCWD: RawFd = -100;
pub const ROOT: c_int = O_DIRECTORY_NOFOLLOW.0;
pub const DIRECTORY: c_int = O_DIRECTORY_NOFOLLOW.0 | O_DIRECTORY_NOFOLLOW.1;
pub const CONTENT: c_int = O_NONBLOCK | O_NOCTTY;
pub const NAME_ONLY: c_int = O_PATH;

const F_GETFD: c_int = 1;
const POLLOUT: c_short = 4;
const SIGINT: c_int = 2;
const SIGTERM: c_int = 15;
const SIG_IGN: usize = 1;
const DT_UNKNOWN: u8 = 0;
const DT_DIR: u8 = 4;

#[repr(C)]
struct Entry {
    inode: u64,
    offset: i64,
    record_size: u16,
    kind: u8,
    name: [c_char; 256],
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    happened: c_short,
}

extern "C" {
    fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn fdopendir(descriptor: c_int) -> *mut c_void;
    fn rewinddir(directory: *mut c_void);
    fn readdir64(directory: *mut c_void) -> *const Entry;
    fn dirfd(directory: *mut c_void) -> c_int;
    fn close(descriptor: c_int) -> c_int;
    fn closedir(directory: *mut c_void) -> c_int;
    fn __errno_location() -> *mut c_int;
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    fn isatty(descriptor: c_int) -> c_int;
    fn poll(descriptors: *mut PollFd, count: c_ulong, milliseconds: c_int) -> c_int;
    fn write(descriptor: c_int, bytes: *const c_void, size: usize) -> isize;
    fn signal(number: c_int, handler: usize) -> usize;
    fn siginterrupt(number: c_int, flag: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

#[link(name = "z")]
extern "C" {
    fn crc32(crc: c_ulong, bytes: *const u8, size: c_uint) -> c_ulong;
}

pub fn checksum(crc: u32, bytes: &[u8]) -> u32 {
    unsafe { crc32(crc.into(), bytes.as_ptr(), bytes.len() as c_uint) as u32 }
}

/// Opens for reading, below an open directory or from where the process is.
pub fn open(directory: Option<&File>, path: &CStr, flags: c_int) -> io::Result<File> {
    let directory = directory.map_or(AT_FDCWD, File::as_raw_fd);
    match unsafe { openat(directory, path.as_ptr(), flags | O_CLOEXEC) } {
        descriptor if descriptor < 0 => Err(io::Error::last_os_error()),
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

/// Tells the names in a directory and which of them are directories; what was read before an error counts.
pub fn read_directory(descriptor: File, mut tell: impl FnMut(&[u8], bool)) -> io::Result<()> {
    let directory = unsafe { fdopendir(descriptor.as_raw_fd()) };
    if directory.is_null() {
        return Err(io::Error::last_os_error());
    }
    let _ = descriptor.into_raw_fd(); // closedir() closes it
    unsafe { rewinddir(directory) }; // the root is read more than once
    let error = loop {
        unsafe { *__errno_location() = 0 };
        let entry = unsafe { readdir64(directory) };
        if entry.is_null() {
            break io::Error::last_os_error();
        }
        let (kind, name) = unsafe { ((*entry).kind, CStr::from_ptr(std::ptr::addr_of!((*entry).name).cast())) };
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_directory = match kind {
            DT_DIR => true,
            DT_UNKNOWN => {
                let found = unsafe { openat(dirfd(directory), name.as_ptr(), O_PATH | O_CLOEXEC | DIRECTORY) };
                found >= 0 && unsafe { close(found) == 0 }
            }
            _ => false,
        };
        tell(name.to_bytes(), is_directory);
    };
    unsafe { closedir(directory) };
    match error.raw_os_error() {
        Some(0) => Ok(()),
        _ => Err(error),
    }
}

pub fn is_terminal(descriptor: RawFd) -> bool {
    unsafe { isatty(descriptor) == 1 }
}

pub fn can_be_written(descriptor: RawFd) -> bool {
    let mut descriptor = PollFd { fd: descriptor, events: POLLOUT, happened: 0 };
    unsafe { poll(&mut descriptor, 1, 0) == 1 }
}

pub fn write_once(descriptor: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let written = unsafe { write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

pub fn exit_at_once(status: c_int) -> ! {
    unsafe { _exit(status) }
}

/// The first SIGINT or SIGTERM.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static INTERRUPT: AtomicPtr<Interrupt> = AtomicPtr::new(std::ptr::null_mut());

pub fn caught() -> c_int {
    CAUGHT.load(Ordering::SeqCst)
}

extern "C" fn on_signal(number: c_int) {
    let _ = CAUGHT.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
    // Not NULL while the handler is installed; raising is allowed in a signal handler.
    unsafe { (*INTERRUPT.load(Ordering::SeqCst)).raise() }
}

/// Raises the interrupt at SIGINT and SIGTERM, until it is dropped; then both are ignored: what is left to be done
/// takes no time. System calls are not restarted: a write to a reader that does not read must end too.
pub struct Signals(Box<Interrupt>);

impl Signals {
    pub fn handle(interrupt: Interrupt) -> Signals {
        let mut interrupt = Box::new(interrupt);
        INTERRUPT.store(&mut *interrupt, Ordering::SeqCst);
        for number in [SIGINT, SIGTERM] {
            unsafe {
                signal(number, on_signal as extern "C" fn(c_int) as usize);
                siginterrupt(number, 1);
            }
        }
        Signals(interrupt)
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.0
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for number in [SIGINT, SIGTERM] {
            unsafe { signal(number, SIG_IGN) };
        }
    }
}

static NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the program began.
pub fn no_output() -> bool {
    NO_OUTPUT.load(Ordering::SeqCst)
}

extern "C" fn look_at_output() {
    NO_OUTPUT.store(unsafe { fcntl(1, F_GETFD) } < 0, Ordering::SeqCst);
}

/// Before main, for std replaces closed standard descriptors by /dev/null.
#[used]
#[link_section = ".init_array"]
static LOOK_AT_OUTPUT: extern "C" fn() = look_at_output;

/// Nothing useful can be done without memory, and the kernel frees everything at the end of the process.
struct Checked;

fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        let _ = write_once(2, b"treesum: Cannot allocate memory\n");
        exit_at_once(2);
    }
    memory
}

unsafe impl GlobalAlloc for Checked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        checked(System.alloc(layout))
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        checked(System.alloc_zeroed(layout))
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        checked(System.realloc(memory, layout, size))
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout)
    }
}

#[global_allocator]
static MEMORY: Checked = Checked;
