//! Creates segments ahead of need, so that no write waits for a file to be filled.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::segment::Segment;

/// The next segment, created by a separate thread.
pub(super) struct Supply {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    /// To be created.
    Wanted,
    Ready(Segment),
    /// Creation failed; it is retried at the next request.
    Failed(io::Error),
    Closed,
}

impl Supply {
    /// Begins with the segment number `next`.
    pub fn start(folder: &Path, next: u64, size: u64) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Wanted),
            changed: Condvar::new(),
        });
        let thread = {
            let (shared, folder) = (Arc::clone(&shared), folder.to_path_buf());
            let name = "insula-segments".to_owned();
            let run = move || shared.run(folder, next, size);
            thread::Builder::new().name(name).spawn(run).ok()
        };
        Self { shared, thread }
    }

    /// Returns the next segment and waits for it if necessary. After a failure the next call tries
    /// again.
    pub fn take(&mut self) -> io::Result<Segment> {
        if self.thread.is_none() {
            return Err(io::Error::other("no thread could be started"));
        }
        let mut state = self.shared.lock();
        if matches!(*state, State::Failed(_)) {
            *state = State::Wanted;
            self.shared.changed.notify_all();
        }
        loop {
            state = match std::mem::replace(&mut *state, State::Wanted) {
                State::Ready(segment) => {
                    self.shared.changed.notify_all();
                    return Ok(segment);
                }
                State::Failed(error) => {
                    let copy = io::Error::new(error.kind(), error.to_string());
                    *state = State::Failed(error);
                    return Err(copy);
                }
                unchanged => {
                    *state = unchanged;
                    let waited = self.shared.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        *self.shared.lock() = State::Closed;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by then.
            thread.join().ok();
        }
    }
}

impl Shared {
    /// Every state is set as a whole, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of the thread.
    fn run(&self, folder: PathBuf, mut next: u64, size: u64) {
        let mut state = self.lock();
        loop {
            match *state {
                State::Closed => return,
                State::Wanted => {
                    drop(state);
                    let created = Segment::create(&folder, next, size);
                    state = self.lock();
                    if matches!(*state, State::Closed) {
                        return;
                    }
                    *state = match created {
                        Ok(segment) => {
                            next += 1;
                            State::Ready(segment)
                        }
                        Err(error) => State::Failed(error),
                    };
                    self.changed.notify_all();
                }
                State::Ready(_) | State::Failed(_) => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
