//! The circuit breaker of an endpoint.

use super::*;

#[tokio::test(start_paused = true)]
async fn c6_hanging_endpoint_delays_no_other_and_has_one_probe() {
    let mut test = test();
    let began = Instant::now();
    for at in 0..100 {
        waits(test.acquire(at, "hangs", &format!("p{}", at % 20)));
    }
    drop(test.wait(100, "vc", "a").await.unwrap());
    assert!(
        began.elapsed() < Duration::from_millis(50),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(test.fake.logins("hangs"), 1);
    test.fake.0.most_trying.store(0, Ordering::SeqCst);
    while began.elapsed() < Duration::from_secs(600) {
        pass(SECOND).await;
        for at in 0..100 {
            assert!(test.acquire(at, "hangs", &format!("p{}", at % 20)).is_err());
        }
        while test.wakeups.next().now_or_never().is_some() {}
    }
    // Backoff of 1, 2, 4, 8, 16 and then 30 seconds, after a timeout of 10 seconds each.
    let tries = test.fake.logins("hangs");
    assert!((15..=20).contains(&tries), "{tries}");
    assert_eq!(test.fake.0.most_trying.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_account_does_not_block_its_endpoint() {
    let mut test = test();
    let error = test.wait(0, "vc", "hangs").await.err().unwrap();
    assert_eq!(error.message, "no response within 10s");
    assert_eq!(fails(test.acquire(1, "vc", "a")).1, SECOND);
    // The account without responses always asks first, but does not probe twice in a row.
    for round in 0..20 {
        drop(test.acquire(0, "vc", "hangs"));
        pass(SECOND).await;
        assert!(test.acquire(0, "vc", "hangs").is_err());
        let began = Instant::now();
        drop(test.wait(1, "vc", "a").await.unwrap());
        assert!(began.elapsed() <= SECOND, "{round}: {:?}", began.elapsed());
    }
    assert_eq!(test.fake.logins("vc"), 4);
    assert_eq!(test.fake.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn unresponsive_endpoint_is_probed_once() {
    let mut test = test();
    let held = test.wait(0, "vc", "a").await.unwrap();
    drop(test.wait(1, "vc", "b").await.unwrap());
    held.mark_unresponsive();
    drop(held);
    waits(test.acquire(1, "vc", "b"));
    waits(test.acquire(2, "vc", "c"));
    drop(test.wait(2, "vc", "c").await.unwrap());
    drop(test.wait(1, "vc", "b").await.unwrap());
    assert_eq!(test.fake.0.checks.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn c6_requesters_of_a_failing_endpoint_do_not_wait_for_its_probe() {
    let mut test = test();
    test.wait(0, "hangs", "a").await.err().unwrap();
    for at in 1..=100 {
        assert_eq!(fails(test.acquire(at, "hangs", "c")).1, SECOND);
    }
    // The first one probes; the others neither wait for it nor retry at once.
    pass(SECOND).await;
    waits(test.acquire(1, "hangs", "b"));
    let request_timeout = settings().request_timeout;
    for at in 2..=100 {
        assert_eq!(fails(test.acquire(at, "hangs", "c")).1, request_timeout);
    }
    pass(request_timeout + SECOND).await;
    let woken = std::iter::from_fn(|| test.wakeups.next().now_or_never().flatten());
    assert_eq!(woken.collect::<Vec<_>>(), [name(1)]);
    assert_eq!(test.fake.logins("hangs"), 2);
}

#[tokio::test(start_paused = true)]
async fn c6_requesters_are_woken_in_order_on_recovery() {
    let mut test = test();
    test.wait(0, "vc", "hangs").await.err().unwrap();
    for at in 1..=20 {
        fails(test.acquire(at, "vc", "a"));
    }
    pass(SECOND).await;
    waits(test.acquire(1, "vc", "a"));
    // The requester that failed awaits recovery too, and came first.
    for at in [0].into_iter().chain(2..=20).chain([1]) {
        let woken = timeout(SECOND, test.wakeups.next()).await.unwrap();
        assert_eq!(woken, Some(name(at)));
    }
    assert_eq!(test.fake.logins("vc"), 2);
}

#[tokio::test(start_paused = true)]
async fn c6_requesters_are_woken_in_order_after_a_failed_probe() {
    let mut test = test();
    for at in 0..30 {
        waits(test.acquire(at, "hangs", &format!("p{}", at % 2)));
    }
    pass(settings().request_timeout + SECOND / 2).await;
    let woken = std::iter::from_fn(|| test.wakeups.next().now_or_never().flatten());
    let woken: Vec<_> = woken.collect();
    // Those that waited for the probe, then those of the session that was to be opened.
    let of = |password| (0..30).filter(move |at| at % 2 == password).map(name);
    assert_eq!(woken, of(1).chain(of(0)).collect::<Vec<_>>());
    for at in 0..30 {
        fails(test.acquire(at, "hangs", &format!("p{}", at % 2)));
    }
    assert_eq!(test.fake.logins("hangs"), 1);
}

#[tokio::test(start_paused = true)]
async fn open_session_is_checked_while_the_login_of_another_account_hangs() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    test.wait(1, "vc", "hangs").await.err().unwrap();
    // The endpoint is to be probed, and the probe is a login that hangs again.
    let (key, credential) = key("vc", Trust::AnyCertificate, "hangs");
    waits(test.sessions.get(&name(2), key, &credential));
    let began = Instant::now();
    drop(test.wait(0, "vc", "a").await.unwrap());
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert_eq!(test.fake.0.checks.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn timeout_of_a_login_requires_no_probe_if_the_endpoint_responds_to_others() {
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
    drop(test.wait(0, "vc", "a").await.unwrap());
    waits(test.acquire(1, "vc", "hangs"));
    pass(SECOND).await;
    drop(test.wait(2, "vc", "b").await.unwrap());
    pass(settings().request_timeout - SECOND / 2).await;
    assert_eq!(fails(test.acquire(1, "vc", "hangs")).0, Reason::Unreachable);
    assert!(test.acquire(0, "vc", "a").is_ok());
    assert_eq!(test.fake.0.checks.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn completed_request_closes_the_breaker() {
    let mut test = test();
    let first = test.wait(0, "vc", "a").await.unwrap();
    let second = test.acquire(1, "vc", "a").ok().unwrap();
    first.mark_unresponsive();
    second.mark_responsive();
    assert!(test.acquire(2, "vc", "a").is_ok());
    assert_eq!(test.fake.0.checks.load(Ordering::SeqCst), 0);
}
