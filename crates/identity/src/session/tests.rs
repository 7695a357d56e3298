//! Sessions with a connector and a clock, both of which do as they are told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use super::model::{credential, error, key, settings};
use super::*;

/// The other sides: what a host or a password does says its name.
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

/// Counts down also if whoever tried gave up.
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

/// Time passes, and what is due happens. The clock is the test's.
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

    /// Asks until there is an answer that is not to wait. Others that are woken meanwhile are
    /// put back by asking no more: they are not of this test.
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
async fn c6_fifty_who_ask_at_once_make_one_login_and_all_are_woken() {
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
async fn c6_however_many_held_a_session_that_died_there_is_one_new_login() {
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
async fn c6_a_server_that_forgets_every_session_is_not_flooded() {
    let mut test = test();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        match test.wait(0, "vc", "a").await {
            Ok(held) => {
                test.fake.forget_all();
                held.mark_dead();
            }
            Err(error) => {
                assert_eq!(error.message, "the session ended as soon as it was opened");
                pass(Duration::from_millis(100)).await;
            }
        }
    }
    assert!(test.fake.logins("vc") <= 21, "{}", test.fake.logins("vc"));
}

#[tokio::test(start_paused = true)]
async fn r1_twenty_rotations_leave_one_session_and_never_more_than_two() {
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
async fn x4_a_password_that_is_wrong_is_tried_rarely_and_a_changed_one_at_once() {
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
async fn x4_whoever_chooses_whom_to_believe_anew_does_not_log_in_anew() {
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
async fn c6_an_endpoint_that_hangs_keeps_nobody_else_and_is_tried_by_one_at_a_time() {
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
    // Pauses of 1, 2, 4, 8, 16 and then 30 seconds, after 10 seconds of patience each.
    let tries = test.fake.logins("hangs");
    assert!((15..=20).contains(&tries), "{tries}");
    assert_eq!(test.fake.0.most_trying.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_is_never_answered_does_not_keep_others_from_an_endpoint() {
    let mut test = test();
    let told = test.wait(0, "vc", "hangs").await.err().unwrap();
    assert_eq!(told.message, "it did not answer within 10s");
    let after = SECOND + Duration::from_millis(50);
    assert_eq!(fails(test.acquire(1, "vc", "a")).1, after);
    // Whoever is never answered always comes first, but is not let find out twice in a row.
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
async fn a_certificate_that_is_not_believed_is_not_tried_at_once_again() {
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
async fn no_more_than_allowed_use_an_endpoint_and_everybody_has_their_turn() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    let mut held: Vec<_> = (0..3)
        .map(|at| test.acquire(at, "vc", "a").ok().unwrap())
        .collect();
    for at in 3..20 {
        waits(test.acquire(at, "vc", "a"));
    }
    // Two of those who wait go, also one who was called.
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
            // The seat is kept for who was called.
            waits(test.acquire(8, "vc", "a"));
        }
    }
    assert_eq!(test.fake.logins("vc"), 1);
}

#[tokio::test(start_paused = true)]
async fn c6_a_session_that_was_idle_is_checked_once_and_opened_anew_if_it_is_over() {
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
async fn x7_a_session_that_is_too_old_is_closed_before_the_next_is_opened() {
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
async fn a_session_that_is_held_is_not_closed_however_many_leave_it() {
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
async fn a_login_that_ends_after_everybody_left_is_undone() {
    let test = test();
    waits(test.acquire(0, "slow", "a"));
    test.sessions.release(&name(0));
    pass(Duration::from_secs(6)).await;
    assert_eq!((test.fake.logins("slow"), test.fake.open()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn others_are_woken_though_whoever_began_the_login_left() {
    let mut test = test();
    waits(test.acquire(0, "slow", "a"));
    waits(test.acquire(1, "slow", "a"));
    test.sessions.release(&name(0));
    drop(test.wait(1, "slow", "a").await.unwrap());
    assert_eq!(test.fake.logins("slow"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_panics_leaves_nobody_waiting() {
    let mut test = test();
    let told = test.wait(0, "panics", "a").await.err().unwrap();
    assert_eq!(told.message, "what it answers cannot be dealt with");
    let told = test.wait(1, "hangs", "a").await.err().unwrap();
    assert_eq!(told.message, "it did not answer within 10s");
}

#[tokio::test(start_paused = true)]
async fn whoever_was_not_answered_makes_nobody_else_find_out_the_same_way() {
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
async fn o04_nothing_is_shared_between_spaces_sources_or_contents() {
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
        (key("vc", Trust::Anybody, "a").0, "a"),
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
    // A password that is wrong is not served what a right one opened.
    assert_eq!(
        test.wait(9, "vc", "wrong").await.err(),
        Some(error(Reason::InvalidCredentials))
    );
}

#[tokio::test(start_paused = true)]
async fn r1_closing_ends_in_time_and_leaves_no_session_whatever_the_other_sides_do() {
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
    // Only the one that cannot be closed is left.
    let left: Vec<_> = test.fake.0.open.lock().unwrap().values().cloned().collect();
    assert_eq!(left, ["no-logout"]);
    assert_eq!(test.fake.0.trying.load(Ordering::SeqCst), 0);
    assert_eq!(fails(test.acquire(9, "vc", "a")).0, Reason::Unreachable);
    drop(held);
    while test.wakeups.next().await.is_some() {}
    assert!(test.sessions.tasks.lock().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_whoever_still_works() {
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
async fn every_figure_has_a_line() {
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
async fn c6_those_who_hope_for_an_endpoint_come_back_one_after_the_other() {
    let mut test = test();
    test.wait(0, "hangs", "a").await.err().unwrap();
    let step = Duration::from_millis(50);
    let told = |test: &Test, at| fails(test.acquire(at, "hangs", "a")).1;
    for at in 1..=100 {
        assert_eq!(told(&test, at), SECOND + step * at as u32);
    }
    // Whoever asks again keeps their place.
    assert_eq!(told(&test, 7), SECOND + step * 7);
    // The first finds out; those who come meanwhile do not wait for that, nor all at once.
    pass(SECOND).await;
    waits(test.acquire(0, "hangs", "a"));
    let request_timeout = settings().request_timeout;
    for at in 1..=100 {
        let first = at as u32 - 1;
        assert_eq!(
            fails(test.acquire(at, "hangs", "b")).1,
            request_timeout + step * first
        );
    }
    pass(request_timeout + SECOND).await;
    let woken = std::iter::from_fn(|| test.wakeups.next().now_or_never().flatten());
    assert_eq!(woken.collect::<Vec<_>>(), [name(0)]);
}

#[tokio::test(start_paused = true)]
async fn c6_those_who_hope_are_woken_in_order_when_the_endpoint_answers() {
    let mut test = test();
    test.wait(0, "vc", "hangs").await.err().unwrap();
    for at in 1..=20 {
        fails(test.acquire(at, "vc", "a"));
    }
    pass(SECOND).await;
    waits(test.acquire(1, "vc", "a"));
    // Whoever was not let in hopes too, and came first.
    for at in [0].into_iter().chain(2..=20).chain([1]) {
        let woken = timeout(SECOND, test.wakeups.next()).await.unwrap();
        assert_eq!(woken, Some(name(at)));
    }
    assert_eq!(test.fake.logins("vc"), 2);
}

#[tokio::test(start_paused = true)]
async fn c6_a_crowd_learns_one_after_the_other_that_nobody_answers() {
    let mut test = test();
    for at in 0..30 {
        waits(test.acquire(at, "hangs", "a"));
    }
    let request_timeout = settings().request_timeout;
    pass(request_timeout).await;
    let now = Instant::now();
    let mut waited = Vec::new();
    for at in 0..30 {
        let woken = timeout(request_timeout, test.wakeups.next()).await.unwrap();
        assert_eq!(woken, Some(name(at)));
        waited.push(now.elapsed().as_millis());
    }
    // A few are no crowd.
    let expected = (0..30_u128).map(|number| number.saturating_sub(8) * 50);
    assert_eq!(waited, expected.collect::<Vec<_>>());
    assert_eq!(test.fake.logins("hangs"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_checked_is_used_by_whoever_the_check_woke() {
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
async fn x4_one_content_in_ten_secrets_of_a_space_is_tried_once() {
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
async fn x4_of_a_secret_that_is_guessed_with_three_contents_are_tried_in_a_while() {
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
async fn an_account_that_is_answered_and_not_let_in_keeps_nobody_else_from_an_endpoint() {
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
        // Nobody else is told what this one was told.
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
async fn c6_forty_endpoints_of_one_owner_do_not_have_all_who_work() {
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
        // Whoever goes makes room for the next.
        drop(held);
        for _ in 0..8 {
            timeout(SECOND, test.wakeups.next()).await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c6_endpoints_that_did_not_answer_have_four_of_those_who_work_until_they_do() {
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
    // Those that answer are as any other.
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
async fn logins_that_take_long_leave_half_of_an_endpoint_to_those_who_work() {
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
