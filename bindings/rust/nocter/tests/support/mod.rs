//! What the tests share: values that are counted, numbers from a seed, and a way to panic without a word.

#![allow(dead_code)] // each test binary uses what it needs

use std::any::Any;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than anything here takes, and short enough to fail a test.
pub const LONG: Duration = Duration::from_secs(20);

/// How often each value of a test has been dropped.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<u32>>>);

impl Ledger {
    /// Also after a failed assertion, so that the first failure is the one that is seen.
    fn drops(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn value(&self) -> Counted {
        let mut drops = self.drops();
        drops.push(0);
        Counted { number: drops.len() - 1, ledger: self.clone() }
    }

    pub fn made(&self) -> usize {
        self.drops().len()
    }

    pub fn dropped(&self) -> usize {
        self.drops().iter().map(|drops| *drops as usize).sum()
    }

    /// Every value has been dropped, and none twice (GEN-01).
    #[track_caller]
    pub fn assert_all_dropped_once(&self) {
        let drops = self.drops();
        let wrong: Vec<_> = drops.iter().enumerate().filter(|(_, drops)| **drops != 1).collect();
        assert!(wrong.is_empty(), "(value, drops) of {}: {wrong:?}", drops.len());
    }
}

#[derive(Debug)]
pub struct Counted {
    pub number: usize,
    ledger: Ledger,
}

impl Counted {
    pub fn is_one_of(&self, ledger: &Ledger) -> bool {
        Arc::ptr_eq(&self.ledger.0, &ledger.0)
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ledger")
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.drops()[self.number] += 1;
    }
}

/// Random numbers that can be had again: the seed is printed, and is taken from NOCTER_SEED when that is set.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let seed = match std::env::var("NOCTER_SEED") {
            Ok(text) => text.parse().expect("NOCTER_SEED is a number"),
            Err(_) => RandomState::new().build_hasher().finish() >> 32,
        };
        println!("NOCTER_SEED={seed}");
        Random(seed)
    }

    /// Another sequence for another thread, from the same seed.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// Steele, Lea and Flood's SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }
}

/// Panics without the panic hook, which would print on threads of the library.
pub fn quiet_panic(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

/// The panic that comes out of this.
#[track_caller]
pub fn panic_of<R>(run: impl FnOnce() -> R) -> &'static str {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(_) => panic!("it did not panic"),
        Err(caught) => message(caught),
    }
}

pub fn message(caught: Box<dyn Any + Send>) -> &'static str {
    caught.downcast_ref::<&'static str>().copied().unwrap_or("another panic")
}
