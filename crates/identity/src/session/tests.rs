//! Tests of the pool with a fake connector and a paused clock.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use super::model::{credential, error, key, settings};
use super::*;

/// Fake servers. Host and password name the behaviour.
#[derive(Clone, Default)]
struct Fake(Arc<Side>);

#[derive(Default)]
struct Side {
    open: Mutex<BTreeMap<u64, String>>,
    logins: Mutex<BTreeMap<String, usize>>,
    most_open: AtomicUsize,
    trying: AtomicUsize,
    most_trying: AtomicUsize,
    checks: AtomicUsize,
    next: AtomicUsize,
}

impl Fake {
    fn logins(&self, host: &str) -> usize {
        self.0
            .logins
            .lock()
            .unwrap()
            .get(host)
            .copied()
            .unwrap_or(0)
    }
    fn open(&self) -> usize {
        self.0.open.lock().unwrap().len()
    }
    fn forget_all(&self) {
        self.0.open.lock().unwrap().clear();
    }
}

/// Decrements the counter also if the attempt was cancelled.
struct Trying<'a>(&'a AtomicUsize);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connector for Fake {
    type Session = u64;

    async fn log_in(
        &self,
        endpoint: &Endpoint,
        _: &Trust,
        credential: &Credential,
    ) -> Result<u64, LoginError> {
        let side = &self.0;
        let host = endpoint.host().to_owned();
        *side.logins.lock().unwrap().entry(host.clone()).or_default() += 1;
        let trying = side.trying.fetch_add(1, Ordering::SeqCst) + 1;
        side.most_trying.fetch_max(trying, Ordering::SeqCst);
        let _trying = Trying(&side.trying);
        let password = credential.content["password"].reveal();
        match host.as_str() {
            "hangs" | "hangs2" => std::future::pending().await,
            "panics" => panic!("the connector panics"),
            "untrusted" => return Err(error(Reason::CertificateNotTrusted)),
            "busy" => {
                return Err(LoginError {
                    answered: true,
                    ..error(Reason::Unreachable)
                });
            }
            "slow" => sleep(Duration::from_secs(5)).await,
            _ => sleep(Duration::from_millis(10)).await,
        }
        match password {
            wrong if wrong.starts_with("wrong") => {
                return Err(error(Reason::InvalidCredentials));
            }
            "hangs" => std::future::pending().await,
            _ => {}
        }
        let id = side.next.fetch_add(1, Ordering::SeqCst) as u64;
        let mut open = side.open.lock().unwrap();
        open.insert(id, host);
        side.most_open.fetch_max(open.len(), Ordering::SeqCst);
        Ok(id)
    }

    async fn is_alive(&self, session: &u64) -> Result<bool, LoginError> {
        self.0.checks.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(10)).await;
        Ok(self.0.open.lock().unwrap().contains_key(session))
    }

    async fn log_out(&self, session: &u64) {
        let host = self.0.open.lock().unwrap().get(session).cloned();
        match host.as_deref() {
            Some("no-logout") => std::future::pending().await,
            _ => sleep(Duration::from_millis(10)).await,
        }
        self.0.open.lock().unwrap().remove(session);
    }
}

struct Test {
    fake: Fake,
    sessions: Arc<Sessions<Fake>>,
    wakeups: BoxStream<'static, Arc<str>>,
}

fn test() -> Test {
    test_with(|_| ())
}

fn test_with(change: impl FnOnce(&mut Settings)) -> Test {
    let mut how = settings();
    change(&mut how);
    let fake = Fake::default();
    let sessions = Sessions::new(fake.clone(), how);
    let wakeups = sessions.wakeups();
    Test {
        fake,
        sessions,
        wakeups,
    }
}

fn name(at: usize) -> Arc<str> {
    format!("asker-{at}").into()
}

/// Advances the paused clock.
async fn pass(long: Duration) {
    sleep(long).await;
}

const SECOND: Duration = Duration::from_secs(1);

impl Test {
    fn acquire(
        &self,
        requester: usize,
        host: &str,
        password: &str,
    ) -> Result<HeldSession<Fake>, Unavailable> {
        let (key, credential) = key(host, Trust::Verified, password);
        self.sessions.get(&name(requester), key, &credential)
    }

    /// Requests a session until the answer is not `Wait`. Wakeups of other requesters are
    /// dropped.
    async fn wait(
        &mut self,
        requester: usize,
        host: &str,
        password: &str,
    ) -> Result<HeldSession<Fake>, LoginError> {
        loop {
            match self.acquire(requester, host, password) {
                Ok(held) => return Ok(held),
                Err(Unavailable::Failed { error, .. }) => return Err(error),
                Err(Unavailable::Wait) => self.woken(requester).await,
            }
        }
    }

    async fn woken(&mut self, requester: usize) {
        let wanted = name(requester);
        let long = Duration::from_secs(60);
        loop {
            let next = timeout(long, self.wakeups.next()).await;
            let next = next.expect("somebody waits and is not woken");
            if next == Some(wanted.clone()) {
                return;
            }
        }
    }
}

fn waits(got: Result<HeldSession<Fake>, Unavailable>) {
    match got {
        Err(Unavailable::Wait) => {}
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("got one"),
    }
}

fn fails(got: Result<HeldSession<Fake>, Unavailable>) -> (Reason, Duration) {
    match got {
        Err(Unavailable::Failed { error, retry_after }) => (error.reason, retry_after),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("got one"),
    }
}

#[tokio::test(start_paused = true)]
async fn c6_fifty_concurrent_requesters_share_one_login() {
    let mut test = test();
    for at in 0..50 {
        waits(test.acquire(at, "vc", "a"));
    }
    for _ in 0..50 {
        timeout(SECOND, test.wakeups.next()).await.unwrap().unwrap();
    }
    for round in 0..10 {
        for at in 0..50 {
            let held = test.acquire(at, "vc", "a");
            assert!(held.is_ok(), "{round} {at}");
        }
    }
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn c6_lost_session_with_many_holders_causes_one_login() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    pass(SECOND).await;
    let held: Vec<_> = (0..3)
        .map(|at| test.acquire(at, "vc", "a").ok().unwrap())
        .collect();
    test.fake.forget_all();
    for one in &held {
        one.mark_dead();
    }
    waits(test.acquire(0, "vc", "a").or_else(|_| {
        drop(held);
        test.acquire(0, "vc", "a")
    }));
    for at in 1..10 {
        waits(test.acquire(at, "vc", "a"));
    }
    for at in 0..10 {
        drop(test.wait(at, "vc", "a").await.unwrap());
    }
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn c6_server_that_loses_all_sessions_is_not_flooded() {
    let mut test = test();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        match test.wait(0, "vc", "a").await {
            Ok(held) => {
                test.fake.forget_all();
                held.mark_dead();
            }
            Err(error) => {
                assert_eq!(
                    error.message,
                    "the server ended the session right after the login"
                );
                pass(Duration::from_millis(100)).await;
            }
        }
    }
    assert!(test.fake.logins("vc") <= 21, "{}", test.fake.logins("vc"));
}

#[tokio::test(start_paused = true)]
async fn r1_twenty_rotations_leave_one_session() {
    let mut test = test();
    for rotation in 0..20 {
        for at in 0..5 {
            drop(test.wait(at, "vc", &format!("p{rotation}")).await.unwrap());
        }
    }
    pass(SECOND).await;
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (20, 1));
    assert!(test.fake.0.most_open.load(Ordering::SeqCst) <= 2);
    for at in 0..5 {
        test.sessions.release(&name(at));
    }
    pass(SECOND).await;
    assert_eq!(test.fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn x4_wrong_password_backs_off_and_changed_one_is_tried_at_once() {
    let mut test = test();
    assert_eq!(
        test.wait(0, "vc", "wrong").await.err(),
        Some(error(Reason::InvalidCredentials))
    );
    for second in 0..600 {
        pass(SECOND).await;
        for at in 0..20 {
            if let Ok(_) | Err(Unavailable::Wait) = test.acquire(at, "vc", "wrong") {
                assert!(second > 100);
            }
        }
        while test.wakeups.next().now_or_never().is_some() {}
    }
    assert_eq!(test.fake.logins("vc"), 4);
    drop(test.wait(0, "vc", "right").await.unwrap());
    assert_eq!(test.fake.logins("vc"), 5);
}

#[tokio::test(start_paused = true)]
async fn x4_changed_trust_does_not_retry_a_refused_password() {
    let mut test = test();
    assert_eq!(
        test.wait(0, "vc", "wrong").await.err(),
        Some(error(Reason::InvalidCredentials))
    );
    for at in 0..100 {
        let (key, credential) = key("vc", Trust::Pinned(format!("{at:02}")), "wrong");
        let told = fails(test.sessions.get(&name(0), key, &credential));
        assert_eq!(told.0, Reason::InvalidCredentials);
    }
    assert_eq!(test.fake.logins("vc"), 1);
}

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
    let told = test.wait(0, "vc", "hangs").await.err().unwrap();
    assert_eq!(told.message, "no response within 10s");
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
async fn untrusted_certificate_backs_off() {
    let mut test = test();
    let told = test.wait(0, "untrusted", "a").await.err();
    assert_eq!(told, Some(error(Reason::CertificateNotTrusted)));
    let (reason, retry_after) = fails(test.acquire(0, "untrusted", "b"));
    assert_eq!(
        (reason, retry_after),
        (Reason::CertificateNotTrusted, SECOND)
    );
    assert_eq!(test.fake.logins("untrusted"), 1);
}

#[tokio::test(start_paused = true)]
async fn endpoint_users_are_limited_and_served_in_order() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    let mut held: Vec<_> = (0..3)
        .map(|at| test.acquire(at, "vc", "a").ok().unwrap())
        .collect();
    for at in 3..20 {
        waits(test.acquire(at, "vc", "a"));
    }
    // Two waiting requesters are released, one of them with a reserved seat.
    test.sessions.release(&name(3));
    for at in 4..20 {
        drop(held.pop().unwrap());
        if at == 7 {
            test.sessions.release(&name(7));
            test.woken(8).await;
            held.push(test.acquire(8, "vc", "a").ok().unwrap());
        } else if at != 8 {
            test.woken(at).await;
            held.push(test.acquire(at, "vc", "a").ok().unwrap());
        } else {
            // The seat is reserved for the woken requester.
            waits(test.acquire(8, "vc", "a"));
        }
    }
    assert_eq!(test.fake.logins("vc"), 1);
}

#[tokio::test(start_paused = true)]
async fn c6_idle_session_is_checked_once_and_reopened_if_lost() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    for (forgotten, logins, checks) in [(false, 1, 1), (true, 2, 2)] {
        pass(Duration::from_secs(61)).await;
        if forgotten {
            test.fake.forget_all();
        }
        for at in 0..10 {
            waits(test.acquire(at, "vc", "a"));
        }
        for at in 0..10 {
            drop(test.wait(at, "vc", "a").await.unwrap());
        }
        let done = (
            test.fake.logins("vc"),
            test.fake.0.checks.load(Ordering::SeqCst),
        );
        assert_eq!(done, (logins, checks));
    }
}

#[tokio::test(start_paused = true)]
async fn x7_expired_session_is_closed_before_the_next_login() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    for _ in 0..11 {
        pass(Duration::from_secs(55)).await;
        let held = test.acquire(0, "vc", "a");
        if let Ok(held) = held {
            drop(held);
        }
    }
    drop(test.wait(0, "vc", "a").await.unwrap());
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (2, 1));
    assert_eq!(test.fake.0.most_open.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn held_session_is_not_closed_on_release() {
    let mut test = test();
    let held = test.wait(0, "vc", "a").await.unwrap();
    test.sessions.release(&name(0));
    pass(SECOND).await;
    assert_eq!(test.fake.open(), 1);
    drop(held);
    pass(SECOND).await;
    assert_eq!(test.fake.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn login_without_requesters_is_logged_out() {
    let test = test();
    waits(test.acquire(0, "slow", "a"));
    test.sessions.release(&name(0));
    pass(Duration::from_secs(6)).await;
    assert_eq!((test.fake.logins("slow"), test.fake.open()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn requesters_are_woken_after_the_first_is_released() {
    let mut test = test();
    waits(test.acquire(0, "slow", "a"));
    waits(test.acquire(1, "slow", "a"));
    test.sessions.release(&name(0));
    drop(test.wait(1, "slow", "a").await.unwrap());
    assert_eq!(test.fake.logins("slow"), 1);
}

#[tokio::test(start_paused = true)]
async fn connector_panic_fails_the_request() {
    let mut test = test();
    let told = test.wait(0, "panics", "a").await.err().unwrap();
    assert_eq!(told.message, "the response cannot be processed");
    let told = test.wait(1, "hangs", "a").await.err().unwrap();
    assert_eq!(told.message, "no response within 10s");
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
async fn o04_sessions_are_not_shared_between_spaces_sources_or_contents() {
    let mut test = test();
    let (base, _) = key("vc", Trust::Verified, "a");
    let identity = |uid: &str| Source::Identity {
        name: "shared".to_owned(),
        uid: uid.to_owned(),
    };
    let keys = [
        (base.clone(), "a"),
        (
            Key {
                space: Some("acme".into()),
                ..base.clone()
            },
            "a",
        ),
        (
            Key {
                space: Some("bmce".into()),
                ..base.clone()
            },
            "a",
        ),
        (
            Key {
                source: identity("1"),
                ..base.clone()
            },
            "a",
        ),
        (
            Key {
                source: identity("2"),
                ..base.clone()
            },
            "a",
        ),
        (key("vc", Trust::AnyCertificate, "a").0, "a"),
        (key("vc:444", Trust::Verified, "a").0, "a"),
        (key("vc", Trust::Verified, "b").0, "b"),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (at, (key, password)) in keys.iter().enumerate() {
        loop {
            match test
                .sessions
                .get(&name(at), key.clone(), &credential(password))
            {
                Ok(held) => break assert!(seen.insert(*held)),
                Err(Unavailable::Wait) => test.woken(at).await,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (8, 8));
    // A wrong password does not get the session of the right one.
    assert_eq!(
        test.wait(9, "vc", "wrong").await.err(),
        Some(error(Reason::InvalidCredentials))
    );
}

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

#[tokio::test(start_paused = true)]
async fn metrics_list_every_value() {
    let mut test = test();
    let held = test.wait(0, "vc", "a").await.unwrap();
    drop(test.wait(1, "vc", "wrong").await);
    drop(test.wait(2, "untrusted", "a").await);
    waits(test.acquire(3, "hangs", "a"));
    test.sessions.release(&name(0));
    drop(held);
    pass(SECOND / 2).await;
    drop(test.wait(4, "vc", "b").await.unwrap());
    let text = test.sessions.metrics();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "insula_sessions_open 1",
        "insula_sessions_waiting 1",
        "insula_session_endpoints_failing 1",
        "insula_session_logins_total{result=\"opened\"} 2",
        "insula_session_logins_total{result=\"refused\"} 1",
        "insula_session_logins_total{result=\"failed\"} 1",
        "insula_session_checks_total 0",
        "insula_session_logouts_total 1",
    ];
    assert_eq!(lines, expected);
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
async fn checked_session_is_used_without_another_check() {
    let mut test = test_with(|settings| settings.check_after = Duration::ZERO);
    for round in 1..4 {
        for at in 0..10 {
            drop(test.wait(at, "vc", "a").await.unwrap());
        }
        let checks = test.fake.0.checks.load(Ordering::SeqCst);
        assert!(checks <= round * 10, "{checks}");
    }
}

#[tokio::test(start_paused = true)]
async fn x4_same_password_in_ten_secrets_is_tried_once() {
    let mut test = test();
    for at in 0..10 {
        let (mut key, credential) = key("vc", Trust::Verified, "wrong");
        key.source = secret("team", at);
        let told = loop {
            match test.sessions.get(&name(at), key.clone(), &credential) {
                Err(Unavailable::Wait) => test.woken(at).await,
                other => break fails(other).0,
            }
        };
        assert_eq!(told, Reason::InvalidCredentials);
    }
    assert_eq!(test.fake.logins("vc"), 1);
}

#[tokio::test(start_paused = true)]
async fn x4_three_contents_of_a_secret_are_tried_per_backoff() {
    let mut test = test();
    for at in 0..1800 {
        pass(SECOND / 10).await;
        drop(
            test.wait(0, "vc", &format!("wrong{at}"))
                .await
                .err()
                .unwrap(),
        );
    }
    assert_eq!(test.fake.logins("vc"), 3);
    pass(Duration::from_secs(180)).await;
    drop(test.wait(0, "vc", "right").await.unwrap());
    assert_eq!(test.fake.logins("vc"), 4);
}

#[tokio::test(start_paused = true)]
async fn failing_account_does_not_block_its_endpoint() {
    let mut test = test();
    let began = Instant::now();
    let (mut tries, mut others) = (0, 0);
    while began.elapsed() < Duration::from_secs(300) {
        match test.acquire(0, "busy", "a") {
            Err(Unavailable::Wait) => test.woken(0).await,
            other => {
                tries += 1;
                pass(fails(other).1).await;
            }
        }
        // Other accounts are not affected.
        others += 1;
        waits(test.acquire(1, "busy", &format!("{others}")));
        test.sessions.release(&name(1));
    }
    assert!(tries <= 20, "{tries}");
}

fn secret(namespace: &str, at: usize) -> Source {
    Source::Secret {
        namespace: namespace.to_owned(),
        name: format!("s{at}"),
        uid: format!("{at}"),
    }
}

#[tokio::test(start_paused = true)]
async fn c6_owner_of_forty_endpoints_is_limited() {
    for space in [None, Some("t1")] {
        let mut test = test_with(|settings| settings.max_per_endpoint = 8);
        let mut held = Vec::new();
        for at in 0..40 {
            let (mut key, credential) = key(&format!("evil{at}"), Trust::Verified, "a");
            key.space = space.map(Into::into);
            key.source = secret("evil", at);
            match test.sessions.get(&name(at), key.clone(), &credential) {
                Err(Unavailable::Wait) => {}
                _ => panic!("nothing is open"),
            }
            pass(SECOND).await;
            held.extend(test.sessions.get(&name(at), key, &credential));
        }
        assert_eq!(held.len(), 8);
        for at in 100..104 {
            held.push(test.wait(at, "vc", "a").await.unwrap());
        }
        // A released seat goes to the next requester.
        drop(held);
        for _ in 0..8 {
            timeout(SECOND, test.wakeups.next()).await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c6_suspect_endpoints_share_four_seats() {
    let mut test = test_with(|settings| settings.max_per_endpoint = 8);
    for at in 0..20 {
        let host = format!("evil{at}");
        let held = test.wait(at, &host, "a").await.unwrap();
        held.mark_unresponsive();
    }
    let mut held = Vec::new();
    for at in 0..20 {
        let host = format!("evil{at}");
        waits(test.acquire(at, &host, "a"));
        pass(SECOND).await;
        held.extend(test.acquire(at, &host, "a"));
    }
    assert_eq!(held.len(), 4);
    // Endpoints that respond are not limited any more.
    for one in &held {
        one.mark_responsive();
    }
    while test.wakeups.next().now_or_never().is_some() {}
    for at in 4..8 {
        held.push(test.acquire(at, &format!("evil{at}"), "a").ok().unwrap());
    }
    waits(test.acquire(8, "evil8", "a"));
}

#[tokio::test(start_paused = true)]
async fn slow_logins_leave_half_of_the_seats() {
    let mut test = test_with(|settings| settings.max_per_endpoint = 8);
    drop(test.wait(0, "slow", "a").await.unwrap());
    for at in 1..=8 {
        waits(test.acquire(at, "slow", &format!("p{at}")));
    }
    pass(SECOND).await;
    assert_eq!(test.fake.0.trying.load(Ordering::SeqCst), 4);
    let held: Vec<_> = (10..14).map(|at| test.acquire(at, "slow", "a")).collect();
    assert!(held.iter().all(Result::is_ok));
    drop(held);
    for at in 1..=8 {
        drop(test.wait(at, "slow", &format!("p{at}")).await.unwrap());
    }
    assert_eq!(test.fake.logins("slow"), 9);
}
