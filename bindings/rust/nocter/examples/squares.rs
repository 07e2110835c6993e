//! squares DB: works on the tasks "square" and "sum.rust" of a store until its standard input ends.
//!
//! "square" gives the square of the number that is its payload, and says in its state who it was. "sum.rust" submits a
//! square for each number up to its payload, waits for them all, and adds them up. Workers in other languages may serve
//! the same types on the same store at the same time.

use nocter::tasks::{Failure, Handlers, KeyScope, Outcome, Run, Submission, Suspension, Tasks, TasksOptions};
use nocter::{Wait, WorkersOptions};
use std::io::Read;
use std::thread::sleep;
use std::time::Duration;

fn square(run: &Run) -> Result<Outcome, Failure> {
    let number: i64 = run.payload().parse()?;
    sleep(Duration::from_millis(2));
    run.update_state("\"rust\"")?;
    Ok((number * number).to_string().into())
}

fn sum(run: &Run) -> Result<Outcome, Failure> {
    if !run.resumed() {
        let last: u32 = run.payload().parse()?;
        let child = |number: u32| {
            let json = number.to_string();
            Submission::new("square").payload(json.as_str()).key(json, KeyScope::Parent)
        };
        run.submit_children(&(1..=last).map(child).collect::<Vec<_>>())?;
        return Ok(Suspension::children().into());
    }
    let mut total = 0;
    for child in run.children()? {
        total += child.result.parse::<i64>()?;
    }
    Ok(total.to_string().into())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("the name of a database is missing")?;
    let tasks = Tasks::open(&format!("sqlite:{file}"), TasksOptions::new())?;
    let handlers = Handlers::new().on("square", square).on("sum.rust", sum);
    let workers = tasks.serve(handlers, 2, &WorkersOptions::new())?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    workers.stop(&Wait::forever())?;
    Ok(())
}
