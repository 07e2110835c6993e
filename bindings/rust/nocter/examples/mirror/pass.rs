//! The pass of mirror: one path below DST is brought up to what the same path below SRC is now.
//!
//! What a pass is told is the path, so it looks for itself, and it looks twice: what it found at first is copied into the
//! work folder, and goes to its place only if SRC still has the same thing there. Both, the second look and the placing,
//! happen under the lock `places`: shared where a name appears or is replaced, alone where a directory of DST goes, with all
//! that other passes have put into it. So nothing that a pass has placed is removed for a reason older than it.
//!
//! Names are opened one after the other without following links: neither the look nor the placing leaves its tree.

use crate::system;
use crate::watch::{join, Watched, Watches};
use crate::{count_problem, reason};
use nocter::{Error, Keyed, Notifier, Pass};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{symlink, DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::io::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In DST: what is not finished, and what is on its way out.
pub const WORK: &[u8] = b".mirror-work";
/// Longer paths cannot be mirrored.
pub const MAXIMUM_PATH: usize = 4095;
/// Not set-user-ID: the owner of the copy is another.
const MODES: u32 = 0o1777;
const CHUNK: usize = 65536;
/// A file that changed less than this ago may change again and still show the same time: the kernel's clock ticks. Its copy
/// gets another time, so that nobody takes the two for equal, and is looked at once more after it.
const UNSURE: Duration = Duration::from_millis(100);

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;

pub struct Mirror {
    pub queue: Keyed,
    /// The roots, and the work folder.
    pub source: Arc<File>,
    pub target: Arc<File>,
    pub work: File,
    pub places: RwLock<()>,
    pub watches: Watches,
    /// Names given in the work folder.
    pub names: AtomicU64,
    /// Keys that the queue had no room for.
    pub refused: AtomicU64,
    /// Paths given up.
    pub problems: AtomicU64,
    /// How often a round over everything was asked for, and how many of these a round has served.
    pub wanted: AtomicU64,
    pub made: AtomicU64,
    pub rounds: AtomicU64,
    pub main_thread: Notifier,
    pub once: bool,
}

/// Why a path is not up to date.
pub enum Not {
    /// It changed meanwhile: one more pass.
    Changed,
    /// The mirror ends.
    Stopped,
    /// Neither a file nor a link nor a directory.
    NoKind,
    /// The name of the work folder.
    Reserved,
    Failed(io::Error),
}

impl From<io::Error> for Not {
    fn from(error: io::Error) -> Not {
        Not::Failed(error)
    }
}

type UpToDate = Result<(), Not>;

// ---- Looking -----------------------------------------------------------------------------------------------

fn is_one_of(error: &io::Error, numbers: &[i32]) -> bool {
    error.raw_os_error().map_or(false, |number| numbers.contains(&number))
}

fn is_absence(error: &io::Error) -> bool {
    is_one_of(error, &[ENOENT, ENOTDIR, ELOOP])
}

fn or_changed(error: io::Error) -> Not {
    if is_absence(&error) {
        return Not::Changed;
    }
    Not::Failed(error)
}

/// A path below an open directory as std takes it: what is there now has the descriptor, whatever it is called.
pub fn name_in(folder: &File, name: &[u8]) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(OsStr::from_bytes(name))
}

/// A name in an open directory, and what is there.
struct Place {
    folder: File,
    name: Vec<u8>,
    found: Option<Metadata>,
}

impl Place {
    fn path(&self) -> PathBuf {
        name_in(&self.folder, &self.name)
    }

    /// Of what is there itself, and never of what a link there leads to.
    fn set_modes(&self, modes: u32) -> io::Result<()> {
        let there = system::open(&self.folder, &self.name, system::LINK)?;
        let opened = format!("/proc/self/fd/{}", there.as_raw_fd());
        fs::set_permissions(opened, Permissions::from_mode(modes & MODES))
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder of what is in the way, if anything; a pass of that path will give it its modes.
fn make_folder(folder: &File, name: &[u8]) -> io::Result<()> {
    let path = name_in(folder, name);
    make_directory(&path)?;
    if fs::symlink_metadata(&path).map_or(false, |found| !found.is_dir()) {
        let _ = fs::remove_file(&path);
        make_directory(&path)?;
    }
    Ok(())
}

/// Opens the folder of a path, and looks at what is there; None when the way leads through something that is no directory.
fn find_place(root: &File, path: &[u8], make: bool) -> io::Result<Option<Place>> {
    let mut folder = root.try_clone()?;
    let mut names = path.split(|byte| *byte == b'/');
    let mut name = names.next().unwrap_or_default();
    for following in names {
        let mut next = system::open(&folder, name, system::FOLDER);
        if make && matches!(&next, Err(error) if is_absence(error)) {
            make_folder(&folder, name)?;
            next = system::open(&folder, name, system::FOLDER);
        }
        folder = match next {
            Err(error) if is_absence(&error) => return Ok(None),
            other => other?,
        };
        name = following;
    }
    let name = if name.is_empty() { b"." } else { name };
    let found = match system::open(&folder, name, system::LINK).and_then(|file| file.metadata()) {
        Err(error) if is_absence(&error) => None,
        other => Some(other?),
    };
    Ok(Some(Place { folder, name: name.to_vec(), found }))
}

/// What a pass is about.
struct Subject<'a> {
    mirror: &'a Mirror,
    path: &'a [u8],
    pass: &'a Pass,
    /// In SRC; None: nothing.
    seen: Option<Metadata>,
}

fn modes(found: &Metadata) -> u32 {
    found.mode() & MODES
}

fn same_content(a: &Metadata, b: &Metadata) -> bool {
    (a.len(), a.mtime(), a.mtime_nsec()) == (b.len(), b.mtime(), b.mtime_nsec())
}

fn is_unsure(found: &Metadata) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
    let age = now - (i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()));
    age.unsigned_abs() < UNSURE.as_nanos()
}

impl Subject<'_> {
    /// Whether SRC still has there what was seen: the same file, link or directory, or still nothing.
    fn still_there(&self) -> bool {
        let now = match find_place(&self.mirror.source, self.path, false) {
            Ok(place) => place.and_then(|place| place.found),
            Err(_) => return false,
        };
        match (&now, &self.seen) {
            (None, None) => true,
            (Some(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()) && a.file_type() == b.file_type(),
            _ => false,
        }
    }

    // ---- Placing -------------------------------------------------------------------------------------------

    /// Puts what was prepared in the work folder where it belongs. Without it the place becomes a directory if that is what
    /// was seen, and is emptied if not.
    fn put_in_place(&self, prepared: Option<&Path>) -> UpToDate {
        let mut trash = None;
        let mut result = {
            let _shared = self.mirror.places.read().unwrap_or_else(PoisonError::into_inner);
            self.place(prepared, None)
        };
        let failed_by =
            |result: &UpToDate, numbers: &[i32]| matches!(result, Err(Not::Failed(error)) if is_one_of(error, numbers));
        // A directory is in the way, or has come there meanwhile; or one may not be written to.
        for _ in 0..2 {
            if failed_by(&result, &[EACCES]) {
                self.open_up();
            } else if !failed_by(&result, &[EISDIR, ENOTEMPTY, EEXIST]) {
                break;
            }
            let _alone = self.mirror.places.write().unwrap_or_else(PoisonError::into_inner);
            result = self.place(prepared, Some(&mut trash));
        }
        match trash {
            Some(trash) => result.and(remove_tree(&trash).map_err(Not::from)),
            None => result,
        }
    }

    /// The directories of DST on the path may be written to, until the passes that this asks for give them their modes
    /// again.
    fn open_up(&self) {
        let slashes = self.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for size in [0].into_iter().chain(slashes).chain([self.path.len()]) {
            let here = &self.path[..size];
            let place = match find_place(&self.mirror.target, here, false) {
                Ok(Some(place)) => place,
                _ => continue,
            };
            let closed = place.found.as_ref().filter(|found| found.is_dir() && found.mode() & 0o700 != 0o700);
            let opened = closed.map(|found| modes(found) | 0o700);
            if opened.map_or(false, |opened| place.set_modes(opened).is_ok()) {
                self.mirror.notify(here);
            }
        }
    }

    /// Under the lock; with a place for what is on its way out, alone. Otherwise EISDIR says that a directory has to go.
    fn place(&self, prepared: Option<&Path>, trash: Option<&mut Option<PathBuf>>) -> UpToDate {
        let directory = self.seen.as_ref().filter(|seen| seen.is_dir());
        let filled = prepared.is_some() || directory.is_some();
        if !self.still_there() {
            return Err(Not::Changed);
        }
        let place = match find_place(&self.mirror.target, self.path, filled)? {
            Some(place) => place,
            None if filled => return Err(Not::Changed),
            None => return Ok(()),
        };
        let path = place.path();
        let kept = matches!((directory, &place.found), (Some(_), Some(found)) if found.is_dir());
        match (&place.found, trash) {
            (Some(_), _) if kept => {}
            (Some(found), Some(trash)) if found.is_dir() => {
                let name = self.mirror.new_name();
                fs::rename(&path, &name)?;
                *trash = Some(name);
            }
            (Some(found), None) if found.is_dir() => return Err(io::Error::from_raw_os_error(EISDIR).into()),
            (Some(_), _) if prepared.is_none() => fs::remove_file(&path)?,
            _ => {} // what is renamed over a file replaces it in one step
        }
        if let Some(prepared) = prepared {
            fs::rename(prepared, &path)?;
        } else if let Some(seen) = directory {
            if !kept {
                make_directory(&path)?;
            }
            if !kept || place.found.as_ref().map(modes) != Some(modes(seen)) {
                place.set_modes(modes(seen))?;
            }
        }
        Ok(())
    }

    /// What was made in the work folder goes to its place, or away.
    fn finish(&self, prepared: &Path, made: UpToDate) -> UpToDate {
        let result = made.and_then(|()| self.put_in_place(Some(prepared)));
        if result.is_err() {
            let _ = fs::remove_file(prepared);
        }
        result
    }

    // ---- Files and links -----------------------------------------------------------------------------------

    /// Whether DST has the file already; then only its modes may have to be set.
    fn is_copied(&self, seen: &Metadata) -> Result<bool, Not> {
        let _shared = self.mirror.places.read().unwrap_or_else(PoisonError::into_inner);
        let place = match find_place(&self.mirror.target, self.path, false)? {
            Some(place) => place,
            None => return Ok(false),
        };
        let found = match &place.found {
            Some(found) if found.is_file() && same_content(found, seen) => found,
            _ => return Ok(false),
        };
        if modes(found) != modes(seen) {
            if !self.still_there() {
                return Err(Not::Changed);
            }
            place.set_modes(modes(seen))?;
        }
        Ok(true)
    }

    fn copy_content(&self, from: &mut File, to: &mut File) -> UpToDate {
        let mut buffer = [0; CHUNK];
        loop {
            if self.pass.interrupted() {
                return Err(Not::Stopped);
            }
            match from.read(&mut buffer)? {
                0 => return Ok(()),
                size => to.write_all(&buffer[..size])?,
            }
        }
    }

    fn copy_file(&mut self, place: &Place, seen: &Metadata) -> UpToDate {
        if self.is_copied(seen)? {
            return Ok(());
        }
        let mut from = system::open(&place.folder, &place.name, system::CONTENT).map_err(or_changed)?;
        let seen = from.metadata()?; // from before it is read
        if !seen.is_file() {
            return Err(Not::Changed);
        }
        let prepared = self.mirror.new_name();
        let name = prepared.file_name().unwrap_or_default().as_bytes();
        let mut to = system::open(&self.mirror.work, name, system::NEW)?;
        let unsure = is_unsure(&seen);
        let nanoseconds = match (unsure, seen.mtime_nsec()) {
            (false, exact) => exact,
            (true, 0) => 1,
            (true, exact) => exact - 1,
        };
        self.seen = Some(seen.clone());
        let copied = self.copy_content(&mut from, &mut to).and_then(|()| {
            to.set_permissions(Permissions::from_mode(modes(&seen)))?;
            Ok(system::set_time(&to, seen.mtime(), nanoseconds)?)
        });
        drop(to);
        self.finish(&prepared, copied)?;
        if unsure {
            // Looked at again once its time says something; a key that has a pass is never refused.
            let _ = self.mirror.queue.notify_after(self.path, 2 * UNSURE);
        }
        Ok(())
    }

    fn copy_link(&self, place: &Place) -> UpToDate {
        let wanted = fs::read_link(place.path()).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Not::Changed, // it is no link any more
            _ => or_changed(error),
        })?;
        let place = find_place(&self.mirror.target, self.path, false)?;
        if place.map_or(false, |place| fs::read_link(place.path()).map_or(false, |found| found == wanted)) {
            return Ok(());
        }
        let prepared = self.mirror.new_name();
        symlink(&wanted, &prepared)?;
        self.finish(&prepared, Ok(()))
    }

    // ---- Directories ---------------------------------------------------------------------------------------

    /// All names in a directory are due.
    fn notify_names(&self, directory: &File) -> UpToDate {
        for entry in fs::read_dir(name_in(directory, b"."))? {
            self.mirror.notify(&join(self.path, entry?.file_name().as_bytes()));
        }
        Ok(())
    }

    fn copy_directory(&mut self, place: &Place) -> UpToDate {
        let directory = system::open(&place.folder, &place.name, system::DIRECTORY).map_err(or_changed)?;
        self.seen = Some(directory.metadata()?);
        self.put_in_place(None)?;
        // First watched, then read: what comes after the one is told, what came before is found by the other.
        match self.mirror.watches.watch(self.path, &directory, || self.still_there())? {
            Watched::Already => return Ok(()),
            Watched::Elsewhere => return Err(Not::Changed),
            Watched::Now => {}
        }
        self.notify_names(&directory)?;
        // What DST has and SRC has not, from before.
        match find_place(&self.mirror.target, self.path, false)? {
            Some(there) => match system::open(&there.folder, &there.name, system::DIRECTORY) {
                Ok(there) => self.notify_names(&there),
                Err(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn bring_up_to_date(&mut self) -> UpToDate {
        let place = find_place(&self.mirror.source, self.path, false)?;
        self.seen = place.as_ref().and_then(|place| place.found.clone());
        let reserved = self.path == WORK || self.path.starts_with(&[WORK, b"/"].concat());
        match (place, self.seen.clone()) {
            (_, Some(_)) if reserved => Err(Not::Reserved),
            _ if reserved => Ok(()),
            (Some(place), Some(seen)) if seen.is_file() => self.copy_file(&place, &seen),
            (Some(place), Some(seen)) if seen.file_type().is_symlink() => self.copy_link(&place),
            (Some(place), Some(seen)) if seen.is_dir() => self.copy_directory(&place),
            (_, Some(_)) => self.put_in_place(None).and(Err(Not::NoKind)), // nothing is there in DST
            _ => {
                let result = self.put_in_place(None);
                self.mirror.watches.forget(self.path);
                result
            }
        }
    }
}

// ---- The mirror --------------------------------------------------------------------------------------------

/// Removes what is there with all that is in it, whatever its modes forbid.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    fn open_up(path: &Path) {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().map_or(false, |kind| kind.is_dir()) {
                open_up(&entry.path());
            }
        }
    }
    open_up(path);
    fs::remove_dir_all(path)
}

impl Mirror {
    /// Of something in the work folder.
    fn new_name(&self) -> PathBuf {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        name_in(&self.work, OsString::from(number.to_string()).into_vec().as_slice())
    }

    /// Says that a path is due. What the queue has no room for is found by the next round over everything.
    pub fn notify(&self, path: &[u8]) {
        match self.queue.notify(path) {
            Ok(_) | Err(Error::Closed) => {}
            Err(Error::Saturated) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                self.wanted.fetch_add(1, Ordering::SeqCst);
                self.main_thread.wake();
            }
            Err(error) => count_problem(self, path, &error.to_string()),
        }
    }

    pub fn bring_up_to_date(&self, path: &[u8], pass: &Pass) -> UpToDate {
        Subject { mirror: self, path, pass, seen: None }.bring_up_to_date()
    }
}

/// What is said of a path that is given up.
pub fn reason_of(not: &Not) -> String {
    match not {
        Not::NoKind => "neither a file nor a link nor a directory".into(),
        Not::Reserved => "the name of mirror's own work folder".into(),
        Not::Failed(error) if error.raw_os_error().is_none() => reason(&io::Error::from_raw_os_error(ENAMETOOLONG)),
        Not::Failed(error) => reason(error),
        Not::Changed | Not::Stopped => String::new(),
    }
}
