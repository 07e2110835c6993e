//! The walk of treesum: the entries of a directory tree in bytewise order of their paths, one after the other.

use crate::{c_path, named_well, problem_of, system, Problem, NAME_PROBLEM};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// One directory on the current path, read whole, the last name first. The names of directories end in '/', so that
/// sorting them as they are puts the paths below them in order too.
struct Level {
    names: Vec<Vec<u8>>,
    /// How much of the path belongs to this directory, with its '/'.
    prefix: usize,
}

/// The entries of a tree in bytewise order of their paths. Keeps the entries of the directories on the current path and
/// no descriptor but the root's, and does not recurse: a tree may be as deep and as wide as it likes.
pub struct Walk<'a> {
    root: &'a File,
    levels: Vec<Level>,
    path: Vec<u8>,
    /// What happened to the directory found last: to be told next.
    unreadable: Option<io::Error>,
}

pub enum Found {
    File(Arc<CStr>),
    Problem(Arc<CStr>, Problem),
}

impl<'a> Walk<'a> {
    pub fn new(root: &'a File) -> Walk<'a> {
        let mut walk = Walk { root, levels: Vec::new(), path: Vec::new(), unreadable: None };
        walk.enter();
        walk
    }

    /// Opens the directory at the path, and goes on there. A link that took its place is not followed.
    fn enter(&mut self) {
        let opened = loop {
            let opened = match self.levels.is_empty() {
                true => self.root.try_clone(),
                false => system::open(Some(self.root), &c_path(&self.path), system::DIRECTORY),
            };
            if !matches!(&opened, Err(error) if error.kind() == ErrorKind::Interrupted) {
                break opened;
            }
        };
        let prefix = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        let mut names = Vec::new();
        let read = opened.and_then(|directory| {
            system::read_directory(directory, |name, is_directory| {
                names.push(if is_directory { [name, b"/"].concat() } else { name.to_vec() });
            })
        });
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.levels.push(Level { names, prefix });
        self.unreadable = read.err();
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(error) = self.unreadable.take() {
                return Some(Found::Problem(c_path(&self.path), problem_of(error)));
            }
            let level = self.levels.last_mut()?;
            let mut name = match level.names.pop() {
                Some(name) => name,
                None => {
                    self.levels.pop();
                    continue;
                }
            };
            if level.prefix == 0 {
                self.path.clear();
            } else {
                self.path.truncate(level.prefix - 1);
                self.path.push(b'/');
            }
            let is_directory = name.last() == Some(&b'/');
            if is_directory {
                name.pop();
            }
            self.path.extend(&name);
            if !is_directory {
                return Some(Found::File(c_path(&self.path)));
            }
            self.enter();
            if !named_well(&name) {
                return Some(Found::Problem(c_path(&self.path), NAME_PROBLEM.into()));
            }
        }
    }
}
