//! nocter's Rust crate in benchmark A: two workers of the library's own, and a loop that waits on a signal and takes what
//! ended. PROGRAM W JOBS
use nocter::{Blocking, BlockingOptions, Signal, Wait, WorkersOptions};
use peers::{mix64, roundtrip};
use std::time::Instant;

const BATCH: usize = 256;

fn main() {
    let window = peers::arg(1, 64) as u32;
    let signal = Signal::new().unwrap();
    let options = BlockingOptions::new().maximum_jobs(window.max(2)).workers(2).waiters(signal.notifier());
    let service = Blocking::<(u64, Instant), (u64, Instant, u64)>::new(options).unwrap();
    let _workers =
        service.serve(|(number, at), _| (number, at, mix64(number)), &WorkersOptions::default()).unwrap();
    roundtrip("nocter-rust", |mut run, width| {
        for _ in 0..width {
            let Some(number) = run.next() else { break };
            service.submit((number, Instant::now())).unwrap();
        }
        while !run.finished() {
            let seen = signal.version();
            let ended = service.completed(BATCH).unwrap();
            if ended.is_empty() {
                signal.wait(seen, &Wait::forever()).unwrap();
            }
            for id in ended {
                let (number, at, result) = service.take(id, &Wait::none()).unwrap();
                run.completed(number, at, result);
                if let Some(number) = run.next() {
                    service.submit((number, Instant::now())).unwrap();
                }
            }
        }
        run
    });
}
