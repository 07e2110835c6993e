//! nocter's futures in benchmark A, on the runtime that tokio's own row has: W tasks that each await a job in a row.
//! PROGRAM W JOBS
use nocter::{AsyncBlocking, BlockingOptions, WorkersOptions};
use peers::{mix64, roundtrip};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

fn main() {
    let window = peers::arg(1, 64) as u32;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = BlockingOptions::new().maximum_jobs(window.max(2)).workers(2);
    let service = AsyncBlocking::<u64, u64>::new(options).unwrap();
    let _workers = service.serve(|number, _| mix64(number), &WorkersOptions::default()).unwrap();
    roundtrip("nocter-rust-future", |run, width| {
        let run = Rc::new(RefCell::new(run));
        let local = tokio::task::LocalSet::new();
        let all = local.run_until(async {
            let tasks: Vec<_> = (0..width)
                .map(|_| {
                    let (run, service) = (run.clone(), service.clone());
                    tokio::task::spawn_local(async move {
                        loop {
                            let Some(number) = run.borrow_mut().next() else { return };
                            let at = Instant::now();
                            let result = service.run(number).await.unwrap();
                            run.borrow_mut().completed(number, at, result);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        runtime.block_on(all);
        drop(local);
        Rc::try_unwrap(run).ok().unwrap().into_inner()
    });
}
