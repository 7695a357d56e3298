//! Shutdown of the pool.

use super::*;

#[tokio::test(start_paused = true)]
async fn r1_close_ends_in_time_with_unresponsive_servers() {
    let mut test = test();
    for at in 0..5 {
        drop(test.wait(at, "vc", &format!("p{at}")).await.unwrap());
    }
    drop(test.wait(5, "no-logout", "a").await.unwrap());
    let held = test.wait(6, "vc3", "a").await.unwrap();
    waits(test.acquire(7, "hangs", "a"));
    waits(test.acquire(8, "vc4", "a"));
    let began = Instant::now();
    test.sessions.close().await;
    assert!(
        began.elapsed() <= Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // Only the session that cannot be closed is left.
    let left: Vec<_> = test.fake.0.open.lock().unwrap().values().cloned().collect();
    assert_eq!(left, ["no-logout"]);
    assert_eq!(test.fake.0.trying.load(Ordering::SeqCst), 0);
    assert_eq!(fails(test.acquire(9, "vc", "a")).0, Reason::Unreachable);
    drop(held);
    while test.wakeups.next().await.is_some() {}
    assert!(test.sessions.is_shut_down());
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_held_sessions() {
    let mut test = test();
    let held = test.wait(0, "vc", "a").await.unwrap();
    let sessions = Arc::clone(&test.sessions);
    let closing = tokio::spawn(async move { sessions.close().await });
    pass(SECOND).await;
    assert_eq!(test.fake.open(), 1);
    drop(held);
    closing.await.unwrap();
    assert_eq!(test.fake.open(), 0);
}
