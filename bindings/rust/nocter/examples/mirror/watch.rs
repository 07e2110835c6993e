//! The watches of mirror: which directory of SRC the kernel speaks of when it names one of its numbers.
//!
//! The kernel watches directories, wherever they are moved to; the table says at which path each was seen last. A pass that
//! finds a directory at a path that the table does not give for it enters it, and has to look at all that is in it: what
//! happened there before was told under another path, or not at all.

use crate::system::Inotify;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Table {
    by_number: HashMap<i32, Vec<u8>>,
    by_path: BTreeMap<Vec<u8>, i32>,
}

pub struct Watches {
    pub inotify: Inotify,
    table: Mutex<Table>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    Already,
    Now,
    /// It is not at that path any more.
    Elsewhere,
}

impl Watches {
    pub fn new() -> io::Result<Watches> {
        Ok(Watches { inotify: Inotify::new()?, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the open directory, which is at that path if `still_there` says so.
    pub fn watch(&self, path: &[u8], directory: &File, still_there: impl FnOnce() -> bool) -> io::Result<Watched> {
        let mut table = self.table();
        let number = self.inotify.add(directory)?;
        let before = table.by_number.get(&number).cloned();
        if !still_there() {
            // Entered now it would stand in the table at a path that nobody corrects.
            if before.is_none() {
                self.inotify.remove(number);
            }
            return Ok(Watched::Elsewhere);
        }
        if before.as_deref() == Some(path) {
            return Ok(Watched::Already);
        }
        if let Some(before) = before {
            table.by_path.remove(&before);
        }
        if let Some(other) = table.by_path.insert(path.to_vec(), number) {
            table.by_number.remove(&other);
            self.inotify.remove(other);
        }
        table.by_number.insert(number, path.to_vec());
        Ok(Watched::Now)
    }

    /// There is no directory at that path now: whatever comes there, and below it, is to be looked at whole.
    pub fn forget(&self, path: &[u8]) {
        let mut table = self.table();
        let below = [path, b"/"].concat()..[path, b"0"].concat(); // '0' follows '/'
        let mut gone: Vec<Vec<u8>> = table.by_path.range(below).map(|(path, _)| path.clone()).collect();
        gone.push(path.to_vec());
        for path in gone {
            if let Some(number) = table.by_path.remove(&path) {
                table.by_number.remove(&number);
                self.inotify.remove(number);
            }
        }
    }

    /// The kernel has ended a watch. False when it was that of SRC.
    pub fn ended(&self, number: i32) -> bool {
        let mut table = self.table();
        let path = table.by_number.remove(&number);
        if let Some(path) = &path {
            table.by_path.remove(path);
        }
        path.map_or(true, |path| !path.is_empty())
    }

    /// The path of a name in a directory; None when nobody knows that any more.
    pub fn path_of(&self, number: i32, name: &[u8]) -> Option<Vec<u8>> {
        self.table().by_number.get(&number).map(|path| join(path, name))
    }
}

/// A name below a path; each of them may be empty.
pub fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.is_empty() || name.is_empty() { b"" } else { b"/" };
    [path, slash, name].concat()
}
