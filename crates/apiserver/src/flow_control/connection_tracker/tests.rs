use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::flow_control::Limits;

fn tracker(
    total: usize,
    handshakes: usize,
    unauthenticated: usize,
    each: u32,
) -> Arc<ConnectionTracker> {
    let connections = Connections {
        total,
        handshakes,
        unauthenticated,
        each,
        ..Connections::default()
    };
    let spaces = LimitTable::new(&Limits {
        connections,
        ..Limits::default()
    });
    ConnectionTracker::new(connections, Arc::new(spaces))
}

fn space(name: &str) -> Space {
    Space::parse(name).unwrap()
}

fn accept(tracker: &Arc<ConnectionTracker>) -> Option<Arc<TrackedConnection>> {
    accept_from(tracker, "192.0.2.1")
}

fn accept_from(tracker: &Arc<ConnectionTracker>, address: &str) -> Option<Arc<TrackedConnection>> {
    tracker.accept(ClientAddress::new(address.parse().unwrap(), &[]))
}

fn known(tracker: &Arc<ConnectionTracker>, name: &str) -> Arc<TrackedConnection> {
    let connection = accept(tracker).unwrap();
    connection.handshake_done();
    connection.authenticated(&space(name)).unwrap();
    connection
}

fn is_displaced(connection: &TrackedConnection) -> bool {
    connection.evicted().now_or_never().is_some()
}

#[tokio::test]
async fn oldest_handshake_is_evicted() {
    let tracker = tracker(100, 2, 100, 100);
    let all = [1, 2, 3].map(|_| accept(&tracker).unwrap());
    assert_eq!(
        all.each_ref().map(|one| is_displaced(one)),
        [true, false, false]
    );
    assert_eq!(tracker.open(), 2);
}

#[tokio::test]
async fn connection_of_the_address_with_most_handshakes_is_refused() {
    let tracker = tracker(100, 2, 100, 100);
    let queued = [1, 2].map(|_| accept(&tracker).unwrap());
    for connection in &queued {
        connection.handshake_queued();
    }
    assert!(accept(&tracker).is_none());
    assert_eq!(tracker.ended()[1], ("too_many_of_address", 1));
    // Another address has fewer: the newest of the flood makes room.
    let _other = accept_from(&tracker, "198.51.100.1").unwrap();
    assert_eq!(
        queued.each_ref().map(|one| is_displaced(one)),
        [false, true]
    );
    assert_eq!(tracker.open(), 2);
}

#[tokio::test]
async fn machine_without_room_evicts_unauthenticated_connections_of_the_largest_address() {
    let tracker = tracker(100, 100, 100, 100);
    let friend = known(&tracker, "t1");
    let honest = accept_from(&tracker, "198.51.100.1").unwrap();
    honest.handshake_done();
    let flood: Vec<_> = (0..7).map(|_| accept(&tracker).unwrap()).collect();
    let displaced = || flood.iter().filter(|one| is_displaced(one)).count();
    assert!(tracker.make_room());
    assert_eq!(displaced(), 2);
    assert!(tracker.make_room());
    assert_eq!(displaced(), 2);
    assert!(!is_displaced(&honest));
    while tracker.make_room() {}
    assert!(is_displaced(&honest) && !is_displaced(&friend));
    assert_eq!(tracker.open(), 1);
}

#[tokio::test]
async fn flood_of_unauthenticated_connections_evicts_only_itself() {
    let tracker = tracker(3, 100, 100, 100);
    let friend = known(&tracker, "t1");
    let flood: Vec<_> = (0..50)
        .map(|_| {
            let connection = accept(&tracker).unwrap();
            connection.handshake_done();
            connection
        })
        .collect();
    assert!(!is_displaced(&friend));
    assert_eq!(
        flood
            .iter()
            .filter(|connection| is_displaced(connection))
            .count(),
        48
    );
    assert_eq!(tracker.open(), 3);
    drop((friend, flood));
    assert_eq!(tracker.open(), 0);
}

#[tokio::test]
async fn connections_of_a_space_are_limited_without_affecting_other_spaces() {
    let tracker = tracker(100, 100, 100, 2);
    let mine = [1, 2].map(|_| known(&tracker, "t1"));
    let third = accept(&tracker).unwrap();
    third.handshake_done();
    assert_eq!(third.authenticated(&space("t1")).unwrap_err().code, 429);
    let _other = known(&tracker, "t2");
    drop(mine);
    assert_eq!(third.authenticated(&space("t1")), Ok(()));
    assert_eq!(tracker.lock().spaces[&space("t1")].count, 1);
}

#[tokio::test]
async fn connection_is_rejected_when_all_others_are_authenticated() {
    let tracker = tracker(2, 100, 100, 100);
    let _known = [known(&tracker, "t1"), known(&tracker, "t2")];
    assert!(accept(&tracker).is_none());
    assert_eq!(tracker.ended()[0], ("no_room", 1));
}

#[tokio::test]
async fn closed_connections_leave_no_state_behind() {
    let tracker = tracker(100, 2, 2, 2);
    for round in 0..200 {
        let arrived: Vec<_> = (0..5).filter_map(|_| accept(&tracker)).collect();
        for (number, connection) in arrived.iter().enumerate() {
            if (round + number) % 2 == 0 {
                connection.handshake_done();
            }
            if (round + number) % 3 == 0 {
                connection.authenticated(&space("t1")).ok();
            }
        }
    }
    let state = tracker.lock();
    assert_eq!(state.open, 0);
    assert_eq!(state.handshakes.len() + state.unauthenticated.len(), 0);
    assert!(state.spaces.is_empty());
}

#[tokio::test]
async fn idle_connection_is_closed_unless_it_has_a_watch() {
    let tracker = tracker(10, 10, 10, 10);
    let limits = tracker.limits;
    let (connection, unauthenticated_timeout) = (known(&tracker, "t1"), accept(&tracker).unwrap());
    let later = |time: Duration| Instant::now() + time + Duration::from_secs(1);
    let action = |connection: &TrackedConnection, time| match connection.check_timeouts(later(time))
    {
        ConnectionAction::CheckAgain(_) => "stay",
        ConnectionAction::Drain => "finish",
        ConnectionAction::Abort => "cut",
    };
    assert_eq!(action(&unauthenticated_timeout, Duration::ZERO), "stay");
    assert_eq!(
        action(&unauthenticated_timeout, limits.unauthenticated_timeout),
        "finish"
    );
    assert_eq!(action(&connection, limits.unauthenticated_timeout), "stay");
    assert_eq!(action(&connection, limits.idle), "finish");
    let watch = connection.begin();
    watch.await_server(true);
    assert_eq!(action(&connection, limits.idle * 10), "stay");
    let list = connection.begin();
    assert_eq!(action(&connection, limits.stalled), "stay");
    list.await_client(Instant::now() + limits.stalled);
    assert_eq!(action(&connection, Duration::ZERO), "stay");
    assert_eq!(action(&connection, limits.stalled), "cut");
    drop(list);
    assert_eq!(action(&connection, limits.stalled), "stay");
    drop(watch);
    assert_eq!(action(&connection, limits.idle), "finish");
}
