//! Room for work that goes as deep as an expression does.
//!
//! Trees are walked by functions that call themselves. How deep a tree can be is bounded, but at the
//! bound that takes more stack than a thread of the server has to spare. What is that deep is rare,
//! so that it may cost a thread.

use std::thread;

/// What is less deep than this is done right here.
const SHALLOW: usize = 48;

/// Several times what the deepest tree takes without optimization.
const STACK: usize = 64 * 1024 * 1024;

/// Does something that calls itself about this many times.
pub(crate) fn with_room<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> T {
    if depth < SHALLOW {
        return work();
    }
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("insula-cel".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .expect("a process that cannot have one more thread cannot answer requests either");
        match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
