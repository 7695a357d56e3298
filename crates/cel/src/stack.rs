//! Stack space for recursion over deep expressions.
//!
//! Trees are walked recursively. Their depth is bounded, but at the bound the recursion needs more
//! stack than a thread of the server has left. Such expressions are rare, so that each may run on a
//! thread of its own.

use std::cell::Cell;
use std::thread;

/// The depth below which the current thread is used.
const SHALLOW: usize = 48;

/// The stack size: several times what the deepest tree needs without optimization.
const STACK: usize = 64 * 1024 * 1024;

thread_local! {
    /// Whether this thread was started for deep recursion.
    static ROOMY: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that recurses to about this depth, on a new thread if it needs more stack.
///
/// A caller with many such functions should run all of them inside one call: a thread takes a
/// hundred microseconds, and nested calls start no other.
pub fn with_stack<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> T {
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
    fn nested_deep_calls_share_one_thread() {
        let here = || thread::current().id();
        assert_eq!(with_stack(SHALLOW - 1, here), here());
        let (outer, inner) = with_stack(SHALLOW, || (here(), with_stack(SHALLOW, here)));
        assert_eq!(outer, inner);
        assert_ne!(outer, here());
        assert_ne!(with_stack(SHALLOW, here), here());
    }
}
