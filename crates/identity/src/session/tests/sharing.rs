//! One session for many requesters: single flight, checks, expiry and logout.

use super::*;

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
async fn o04_sessions_are_not_shared_between_spaces_sources_or_contents() {
    let mut test = test();
    let (base, _) = key("vc", Trust::Verified, "a");
    let identity = |uid: &str| Source::Identity {
        name: "shared".to_owned(),
        uid: uid.to_owned(),
        lent: false,
    };
    let lent = Source::Identity {
        name: "shared".to_owned(),
        uid: "1".to_owned(),
        lent: true,
    };
    let context = |part: &str| Source::Secret {
        namespace: "team-a".to_owned(),
        name: "kubeconfig".to_owned(),
        uid: "1".to_owned(),
        part: Some(part.to_owned()),
    };
    let of_source = |source| Key {
        source,
        ..base.clone()
    };
    let keys = [
        (of_source(lent), "a"),
        (of_source(context("east")), "a"),
        (of_source(context("west")), "a"),
        (
            Key {
                scope: Some("hosts".to_owned()),
                ..base.clone()
            },
            "a",
        ),
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
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (12, 12));
    // A wrong password does not get the session of the right one.
    assert_eq!(
        test.wait(12, "vc", "wrong").await.err(),
        Some(error(Reason::InvalidCredentials))
    );
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
async fn x7_expired_session_is_not_used() {
    let mut test = test();
    for _ in 0..10 {
        drop(test.wait(0, "vc", "a").await.unwrap());
        pass(Duration::from_secs(55)).await;
    }
    drop(test.wait(0, "vc", "a").await.unwrap());
    pass(Duration::from_secs(51)).await;
    waits(test.acquire(0, "vc", "a"));
    drop(test.wait(0, "vc", "a").await.unwrap());
    assert_eq!((test.fake.logins("vc"), test.fake.open()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn late_report_of_a_lost_session_does_not_end_the_next_one() {
    let mut test = test();
    let first = test.wait(0, "vc", "a").await.unwrap();
    let second = test.acquire(1, "vc", "a").ok().unwrap();
    pass(SECOND).await;
    test.fake.forget_all();
    first.mark_dead();
    drop(test.wait(0, "vc", "a").await.unwrap());
    second.mark_dead();
    assert!(test.acquire(0, "vc", "a").is_ok());
    assert_eq!(test.fake.logins("vc"), 2);
}
