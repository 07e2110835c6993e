//! A round over everything: the paths of all that SRC and DST hold, one after the other, for the queue's resync.
//!
//! It finds what nobody was told of: events that the kernel had no room for, and keys that the queue had no room for. It
//! gives names and nothing else; the passes look for themselves, so it does not matter what changes under its feet.

use crate::pass::{name_in, Mirror, WORK};
use crate::watch::join;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The names of one directory on the current path that were not yet given, and which of them are directories.
struct Level {
    path: Vec<u8>,
    names: VecDeque<(Vec<u8>, bool)>,
}

/// The paths below a root, each before those below it. Links in a path are followed if they took the place of a directory
/// just now; what is found through them is not there for the pass.
struct Walk {
    root: Arc<File>,
    levels: Vec<Level>,
}

impl Walk {
    fn new(root: &Arc<File>) -> Walk {
        Walk { root: root.clone(), levels: vec![Level { path: Vec::new(), names: [(Vec::new(), true)].into() }] }
    }

    fn enter(&mut self, path: &[u8]) {
        let mut names = VecDeque::new();
        // What cannot be read its own pass tells.
        for entry in fs::read_dir(name_in(&self.root, path)).into_iter().flatten().flatten() {
            let directory = entry.file_type().map_or(false, |kind| kind.is_dir());
            names.push_back((entry.file_name().into_vec(), directory));
        }
        self.levels.push(Level { path: path.to_vec(), names });
    }
}

impl Iterator for Walk {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let level = self.levels.last_mut()?;
            let next = level.names.pop_front();
            match next.map(|(name, directory)| (join(&level.path, &name), directory)) {
                None => drop(self.levels.pop()),
                Some((path, _)) if path == WORK => {}
                Some((path, directory)) => {
                    if directory {
                        self.enter(&path);
                    }
                    return Some(path);
                }
            }
        }
    }
}

/// The source that the queue asks: None when a round has come to its end, and while none is wanted.
pub fn rounds(mirror: Arc<Mirror>) -> impl FnMut() -> Option<Vec<u8>> + Send {
    let mut walk: Option<Box<dyn Iterator<Item = Vec<u8>> + Send>> = None;
    // Those that the round stands for: wanted when it began.
    let mut wanted = 0;
    move || {
        if walk.is_none() {
            wanted = mirror.wanted.load(Ordering::SeqCst);
            if wanted == mirror.made.load(Ordering::SeqCst) {
                return None;
            }
            walk = Some(Box::new(Walk::new(&mirror.source).chain(Walk::new(&mirror.target))));
        }
        let next = walk.as_mut().and_then(|walk| walk.next());
        if next.is_none() {
            walk = None;
            mirror.made.store(wanted, Ordering::SeqCst);
            mirror.rounds.fetch_add(1, Ordering::SeqCst);
            mirror.main_thread.wake();
        }
        next
    }
}
