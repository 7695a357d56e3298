//! Requests and begun responses that wait until their space has room.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_core::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The waiting requests of all spaces. Bytes of a space wake requests of that space only.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    spaces: Mutex<HashMap<Space, Arc<Room>>>,
    /// The number of spaces, to be read without the lock at every response.
    occupied: AtomicUsize,
}

type Spaces<'a> = MutexGuard<'a, HashMap<Space, Arc<Room>>>;

/// The waiting requests of one space.
#[derive(Debug, Default)]
struct Room {
    released: Notify,
    waiting: AtomicUsize,
    relieved: Mutex<Option<Instant>>,
}

/// A request that waits. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    rooms: &'a Rooms,
    space: &'a Space,
    room: Arc<Room>,
}

/// The most requests of one space that wait for room.
const MAX_WAITING: usize = 256;

/// How often responses of a space are examined for those that have stalled.
pub(super) const RELIEF_INTERVAL: Duration = Duration::from_millis(500);

impl Rooms {
    /// Joins the waiting requests of a space; `None` if they are too many.
    pub fn join<'a>(&'a self, space: &'a Space) -> Option<Waiter<'a>> {
        let spaces = self.lock();
        let room = spaces.get(space);
        let waiting = room.map_or(0, |room| room.waiting.load(Ordering::Relaxed));
        (waiting < MAX_WAITING).then(|| self.enter(spaces, space))
    }

    /// Joins them with a response that has begun. Streams and connections bound their number.
    pub fn join_begun<'a>(&'a self, space: &'a Space) -> Waiter<'a> {
        self.enter(self.lock(), space)
    }

    fn enter<'a>(&'a self, mut spaces: Spaces<'_>, space: &'a Space) -> Waiter<'a> {
        let room = Arc::clone(spaces.entry(space.clone()).or_default());
        room.waiting.fetch_add(1, Ordering::Relaxed);
        self.occupied.store(spaces.len(), Ordering::Release);
        Waiter {
            rooms: self,
            space,
            room,
        }
    }

    /// Wakes a waiting request of the space.
    pub fn notify(&self, space: Option<&Space>) {
        let Some(space) = space.filter(|_| self.occupied.load(Ordering::Acquire) > 0) else {
            return;
        };
        if let Some(room) = self.lock().get(space) {
            room.released.notify_one();
        }
    }

    fn lock(&self) -> Spaces<'_> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Waits until bytes of the space were released, or for the interval.
    pub async fn released(&self, interval: Duration) {
        let released = self.room.released.notified();
        drop(tokio::time::timeout(interval, released).await);
    }

    /// The space that it waits for.
    pub const fn space(&self) -> &Space {
        self.space
    }

    /// Wakes the next waiting request, because there is room for more than one.
    pub fn pass_on(&self) {
        self.room.released.notify_one();
    }

    /// Whether the responses of the space are to be examined now, by this request.
    pub fn is_relief_due(&self) -> bool {
        let now = Instant::now();
        let mut relieved = self
            .room
            .relieved
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due = relieved.is_none_or(|at| now.duration_since(at) >= RELIEF_INTERVAL);
        if is_due {
            *relieved = Some(now);
        }
        is_due
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut spaces = self.rooms.lock();
        if self.room.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            spaces.remove(self.space);
            self.rooms.occupied.store(spaces.len(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_woken_by_their_own_space_one_at_a_time() {
        let rooms = Rooms::default();
        let (t1, t2) = (space("t1"), space("t2"));
        let waiters = [rooms.join(&t1).unwrap(), rooms.join(&t1).unwrap()];
        let woken = |waiter: usize| {
            let waiter = &waiters[waiter];
            async move {
                let begun = Instant::now();
                waiter.released(RELIEF_INTERVAL).await;
                begun.elapsed() < RELIEF_INTERVAL
            }
        };
        let (first, second, ()) = tokio::join!(woken(0), woken(1), async {
            rooms.notify(Some(&t2));
            rooms.notify(None);
            rooms.notify(Some(&t1));
        });
        assert_eq!((first, second), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_in_an_interval_examines_the_responses_of_its_space() {
        let rooms = Rooms::default();
        let t1 = space("t1");
        let waiters: Vec<_> = (0..100).map(|_| rooms.join(&t1).unwrap()).collect();
        let due = || waiters.iter().filter(|one| one.is_relief_due()).count();
        assert_eq!((due(), due()), (1, 0));
        tokio::time::advance(RELIEF_INTERVAL).await;
        assert_eq!(due(), 1);
    }

    #[test]
    fn waiting_requests_of_a_space_are_bounded_and_leave_nothing_behind() {
        let rooms = Rooms::default();
        let (t1, t2) = (space("t1"), space("t2"));
        let waiters: Vec<_> = (0..MAX_WAITING).filter_map(|_| rooms.join(&t1)).collect();
        assert_eq!(waiters.len(), MAX_WAITING);
        assert!(rooms.join(&t1).is_none());
        drop(rooms.join(&t2).unwrap());
        drop(waiters);
        assert_eq!(rooms.lock().len(), 0);
        assert!(rooms.join(&t1).is_some());
    }
}
