//! Room for work that goes as deep as an expression does.
//!
//! Trees are walked by functions that call themselves. How deep a tree can be is bounded, but at the
//! bound that takes more stack than a thread of the server has to spare. What is that deep is rare,
//! so that it may cost a thread.

use std::cell::Cell;
use std::thread;

/// What is less deep than this is done right here.
const SHALLOW: usize = 48;

/// Several times what the deepest tree takes without optimization.
const STACK: usize = 64 * 1024 * 1024;

thread_local! {
    /// Whether this thread was made for such work.
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// Does something that calls itself about this many times.
///
/// Whoever does many such things should do all of them inside of one: a thread takes a
/// hundred microseconds, and what is done inside takes no further one.
pub fn with_room<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> T {
    if depth < SHALLOW || ROOMY.get() {
        return work();
    }
    let work = || {
        ROOMY.set(true);
        work()
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_inside_of_deep_work_takes_no_thread_of_its_own() {
        let here = || thread::current().id();
        assert_eq!(with_room(SHALLOW - 1, here), here());
        let (outer, inner) = with_room(SHALLOW, || (here(), with_room(SHALLOW, here)));
        assert_eq!(outer, inner);
        assert_ne!(outer, here());
        assert_ne!(with_room(SHALLOW, here), here());
    }
}
