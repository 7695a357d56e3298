use bytes::{Buf, Bytes};
use futures_util::FutureExt;

use super::*;
use crate::flow_control::client_address::ClientAddress;
use crate::flow_control::connection_tracker::{ConnectionTracker, TrackedConnection};
use crate::flow_control::{Connections, Limits, TenantLimits};

const STALLED: Duration = Duration::from_secs(60);

struct Fixture {
    pool: Arc<UnsentPool>,
    connection: Arc<TrackedConnection>,
}

fn space(name: &str) -> Space {
    Space::parse(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn unsent_bytes_of_a_tenant_are_limited_by_its_object() {
    let fixture = fixture(1000, 100);
    let _held = fixture.waiting("t1", 80).await;
    let _other = fixture.waiting("t2", 80).await;
    let check = |name, bytes| fixture.pool.check_room(&space(name), bytes);
    assert_eq!(check("t1", 21).unwrap_err().code, 429);
    let limit = |bytes| TenantLimits::default().with(LimitedResource::UnsentBytes, bytes);
    fixture.pool.spaces.set(&space("t1"), &limit(101));
    assert_eq!(check("t1", 21), Ok(()));
    assert_eq!(check("t2", 21).unwrap_err().code, 429);
    fixture.pool.spaces.set(&space("t1"), &limit(50));
    assert_eq!(check("t1", 1).unwrap_err().code, 429);
}

fn fixture(total: usize, each: usize) -> Fixture {
    let limits = Unsent {
        total,
        each,
        rate: 10,
    };
    let spaces = Arc::new(LimitTable::new(&Limits {
        unsent: limits,
        ..Limits::default()
    }));
    let tracker = ConnectionTracker::new(Connections::default(), Arc::clone(&spaces));
    let client = ClientAddress::new([192, 0, 2, 1].into(), &[]);
    Fixture {
        pool: UnsentPool::new(limits, STALLED, spaces),
        connection: tracker.accept(client).unwrap(),
    }
}

impl Fixture {
    /// A response with this many bytes in its body, of which the client has read none for a while.
    async fn waiting(&self, name: &str, held: usize) -> Arc<OutgoingResponse> {
        let in_flight = self.connection.begin();
        let response = self.pool.begin(Some(space(name)), in_flight, held);
        response.set_has_stream(true);
        response.await_client();
        tokio::time::advance(Duration::from_secs(1)).await;
        response
    }

    fn held(&self) -> Vec<(String, usize)> {
        let stats = self.pool.stats();
        let name = |space: Option<Space>| space.unwrap().to_string();
        let spaces = stats.costliest.into_iter();
        spaces.map(|(space, bytes)| (name(space), bytes)).collect()
    }
}

fn is_cut(response: &OutgoingResponse) -> bool {
    response.is_cut().now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn bytes_are_charged_until_the_transport_drops_them() {
    let fixture = fixture(1000, 1000);
    let response = fixture.waiting("t1", 100).await;
    let mut piece = response.charge(Bytes::from(vec![0; 40]));
    response.set_held(60);
    assert_eq!(fixture.held(), [("t1".to_owned(), 100)]);
    let mut part = piece.split_to(30);
    part.advance(30);
    assert_eq!((part.remaining(), piece.remaining()), (0, 10));
    drop(part);
    assert_eq!(fixture.held(), [("t1".to_owned(), 70)]);
    // The transport still has bytes when the body has ended.
    drop(response);
    assert_eq!(fixture.held(), [("t1".to_owned(), 70)]);
    drop(piece);
    assert_eq!(fixture.pool.stats().total, 0);
    assert!(fixture.pool.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn space_that_holds_its_share_loses_only_what_has_stalled() {
    let fixture = fixture(1000, 100);
    let first = fixture.waiting("t1", 60).await;
    let second = fixture.waiting("t1", 30).await;
    let other = fixture.waiting("t2", 90).await;
    assert_eq!(fixture.pool.check_room(&space("t1"), 10), Ok(()));
    let refused = fixture.pool.check_room(&space("t1"), 11).unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (429, Some(1)));
    assert!(!is_cut(&first) && !is_cut(&second));
    tokio::time::advance(PRESSURE_STALL).await;
    // Cutting off the first makes room enough.
    assert_eq!(fixture.pool.check_room(&space("t1"), 11), Ok(()));
    assert!(is_cut(&first) && !is_cut(&second) && !is_cut(&other));
    let stats = fixture.pool.stats();
    assert_eq!(stats.cut[1], ("pressure", 1));
    assert_eq!((stats.total, stats.refused), (180, 1));
}

#[tokio::test(start_paused = true)]
async fn one_response_has_room_however_large_it_is() {
    let fixture = fixture(1000, 100);
    assert_eq!(fixture.pool.check_room(&space("t1"), 500), Ok(()));
    let large = fixture.waiting("t1", 500).await;
    assert!(fixture.pool.check_room(&space("t1"), 1).is_err());
    assert!(!is_cut(&large));
}

#[tokio::test(start_paused = true)]
async fn request_waits_until_its_space_has_room() {
    let fixture = fixture(1000, 100);
    let space = space("t1");
    let full = fixture.waiting("t1", 101).await;
    full.client_took(1, true);
    let waited = fixture.pool.await_room(&space, Duration::from_secs(3));
    assert_eq!(waited.await.unwrap_err().code, 429);
    let waiting = fixture.pool.await_room(&space, STALLED);
    let mut waiting = std::pin::pin!(waiting);
    assert!(waiting.as_mut().now_or_never().is_none());
    full.set_held(50);
    assert_eq!(waiting.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn space_that_holds_most_is_cut_first_and_its_longest_waiting_response() {
    let fixture = fixture(800, 1000);
    let small = fixture.waiting("t2", 200).await;
    let first = fixture.waiting("t1", 150).await;
    let second = fixture.waiting("t1", 150).await;
    let third = fixture.waiting("t1", 250).await;
    assert!([&small, &first, &second, &third].map(|one| is_cut(one)) == [false; 4]);
    let _fourth = fixture.waiting("t3", 60).await;
    // 810 bytes are more than 800. Without the first there are less than 700.
    let cut = [&small, &first, &second, &third].map(|one| is_cut(one));
    assert_eq!(cut, [false, true, false, false]);
    // A response that is being dropped is not counted twice.
    let _fifth = fixture.waiting("t3", 60).await;
    assert!(!is_cut(&second));
}

#[tokio::test(start_paused = true)]
async fn time_of_a_response_grows_with_what_its_client_takes() {
    let fixture = fixture(1000, 1000);
    let response = fixture.waiting("t1", 1).await;
    let left = |response: &OutgoingResponse| response.await_client() - Instant::now();
    assert_eq!(left(&response), STALLED - Duration::from_secs(1));
    // Ten bytes per second are allowed: 50 earn five seconds, but never more than are left.
    response.client_took(50, true);
    assert_eq!(left(&response), STALLED);
    tokio::time::advance(Duration::from_secs(10)).await;
    response.client_took(50, true);
    assert_eq!(left(&response), STALLED - Duration::from_secs(5));
    tokio::time::advance(Duration::from_secs(10)).await;
    response.client_took(0, true);
    assert_eq!(left(&response), STALLED - Duration::from_secs(15));
    response.client_took(0, false);
    assert_eq!(left(&response), STALLED);
}

#[tokio::test(start_paused = true)]
async fn response_without_a_stream_is_cut_with_its_connection() {
    let fixture = fixture(1000, 1000);
    let response = fixture.waiting("t1", 1).await;
    response.set_has_stream(false);
    response.cut();
    assert!(!is_cut(&response));
    assert!(fixture.connection.evicted().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn response_grows_when_its_space_has_room() {
    let fixture = fixture(1000, 100);
    let first = fixture.waiting("t1", 0).await;
    let second = fixture.waiting("t1", 0).await;
    let other = fixture.waiting("t2", 0).await;
    let piece = first.charge(Bytes::from(vec![0; 120]));
    assert!(!first.may_grow() && !second.may_grow() && other.may_grow());
    let mut growth = Box::pin(second.await_growth());
    assert!(growth.as_mut().now_or_never().is_none());
    drop(piece);
    growth.await;
}

#[tokio::test(start_paused = true)]
async fn responses_that_hold_the_share_in_their_bodies_are_sent() {
    let fixture = fixture(1000, 100);
    let first = fixture.waiting("t1", 90).await;
    let second = fixture.waiting("t1", 90).await;
    assert!(first.may_grow() && second.may_grow());
    let piece = first.charge(Bytes::from(vec![0; 40]));
    assert!(!first.may_grow() && !second.may_grow());
    drop(piece);
    assert!(second.may_grow());
}

#[tokio::test(start_paused = true)]
async fn response_that_waits_for_room_makes_stalled_ones_end() {
    let fixture = fixture(1000, 100);
    let stalled = fixture.waiting("t1", 0).await;
    let piece = stalled.charge(Bytes::from(vec![0; 120]));
    let next = fixture
        .pool
        .begin(Some(space("t1")), fixture.connection.begin(), 0);
    let begun = Instant::now();
    next.await_growth().await;
    assert!(is_cut(&stalled) && begun.elapsed() <= 2 * PRESSURE_STALL);
    drop(piece);
}

#[tokio::test(start_paused = true)]
async fn response_that_finds_no_room_is_cut() {
    let fixture = fixture(1000, 100);
    let read = fixture.waiting("t1", 0).await;
    read.client_took(0, false);
    let _piece = read.charge(Bytes::from(vec![0; 120]));
    let next = fixture.waiting("t1", 0).await;
    let growth = tokio::time::timeout(2 * STALLED, next.await_growth()).await;
    assert!(growth.is_err() && is_cut(&next) && !is_cut(&read));
}
