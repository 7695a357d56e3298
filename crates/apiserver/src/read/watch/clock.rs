//! When a watch ends, and when a bookmark is due.

use std::pin::Pin;
use std::time::Duration;

use insula_core::Revision;
use tokio::time::{Instant, Sleep};

/// How often a quiet watch sends a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The last bookmark is sent this long before the end, so that it arrives.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);

/// The deadline of a watch, and its bookmarks if the client wants any.
pub(super) struct Clock {
    deadline: Instant,
    bookmarks: Option<Bookmarks>,
    timer: Pin<Box<Sleep>>,
}

struct Bookmarks {
    due: Instant,
    /// The revision of the last bookmark.
    sent: Revision,
}

impl Clock {
    /// A clock that runs out after `timeout`. The client knows `revision` already.
    pub fn new(timeout: Duration, bookmarks: bool, revision: Revision) -> Self {
        let now = Instant::now();
        let deadline = now + timeout;
        Self {
            deadline,
            bookmarks: bookmarks.then(|| Bookmarks {
                due: bookmark_due(now, deadline),
                sent: revision,
            }),
            timer: Box::pin(tokio::time::sleep_until(deadline)),
        }
    }

    /// Whether the watch is over.
    pub fn has_run_out(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Whether a bookmark of `revision` is to be sent now.
    pub fn takes_bookmark(&mut self, now: Instant, revision: Revision) -> bool {
        let due = self.bookmarks.as_mut();
        let Some(bookmarks) = due.filter(|bookmarks| bookmarks.due <= now) else {
            return false;
        };
        bookmarks.due = bookmark_due(now, self.deadline);
        let is_new = revision > bookmarks.sent;
        bookmarks.sent = bookmarks.sent.max(revision);
        is_new
    }

    /// Notes that a bookmark of `revision` was sent.
    pub fn note_bookmark(&mut self, revision: Revision) {
        if let Some(bookmarks) = &mut self.bookmarks {
            bookmarks.sent = revision;
        }
    }

    /// Waits until a bookmark is due, or until the end.
    pub async fn next(&mut self) {
        let bookmark = self.bookmarks.as_ref().map(|bookmarks| bookmarks.due);
        let due = bookmark.unwrap_or(self.deadline).min(self.deadline);
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().await;
    }
}

fn bookmark_due(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK_LEAD).unwrap_or(deadline);
    let next = now + BOOKMARK_INTERVAL;
    if now < last { next.min(last) } else { next }
}
