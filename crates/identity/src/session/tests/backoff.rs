//! Backoff of accounts, sources, certificates and keys.

use super::*;

#[tokio::test(start_paused = true)]
async fn x4_refused_lent_account_is_not_tried_for_every_tenant() {
    let mut test = test();
    for (at, tenant) in ["acme", "bmce", "cmce"].into_iter().enumerate() {
        let (key, credential) = key("vc", Trust::Verified, "wrong");
        let key = Key {
            space: Some(tenant.into()),
            source: Source::Identity {
                name: "lent".to_owned(),
                uid: "1".to_owned(),
                lent: true,
            },
            ..key
        };
        loop {
            match test.sessions.get(&name(at), key.clone(), &credential) {
                Err(Unavailable::Wait) => test.woken(at).await,
                Err(Unavailable::Failed { error, .. }) => {
                    break assert_eq!(error.reason, Reason::InvalidCredentials);
                }
                Ok(_) => panic!("the password is wrong"),
            }
        }
    }
    assert_eq!(test.fake.logins("vc"), 1);
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
        let (reason, _) = fails(test.sessions.get(&name(0), key, &credential));
        assert_eq!(reason, Reason::InvalidCredentials);
    }
    assert_eq!(test.fake.logins("vc"), 1);
}

#[tokio::test(start_paused = true)]
async fn untrusted_certificate_backs_off() {
    let mut test = test();
    let failure = test.wait(0, "untrusted", "a").await.err();
    assert_eq!(failure, Some(error(Reason::CertificateNotTrusted)));
    let (reason, retry_after) = fails(test.acquire(0, "untrusted", "b"));
    assert_eq!(
        (reason, retry_after),
        (Reason::CertificateNotTrusted, SECOND)
    );
    assert_eq!(test.fake.logins("untrusted"), 1);
}

#[tokio::test(start_paused = true)]
async fn connector_panic_fails_the_request() {
    let mut test = test();
    let error = test.wait(0, "panics", "a").await.err().unwrap();
    assert_eq!(error.message, "the response cannot be processed");
    let error = test.wait(1, "hangs", "a").await.err().unwrap();
    assert_eq!(error.message, "no response within 10s");
}

#[tokio::test(start_paused = true)]
async fn x4_same_password_in_ten_secrets_is_tried_once() {
    let mut test = test();
    for at in 0..10 {
        let (mut key, credential) = key("vc", Trust::Verified, "wrong");
        key.source = secret("team", at);
        let reason = loop {
            match test.sessions.get(&name(at), key.clone(), &credential) {
                Err(Unavailable::Wait) => test.woken(at).await,
                other => break fails(other).0,
            }
        };
        assert_eq!(reason, Reason::InvalidCredentials);
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

#[tokio::test(start_paused = true)]
async fn x4_open_session_is_used_while_other_contents_are_refused() {
    let mut test = test();
    drop(test.wait(0, "vc", "a").await.unwrap());
    for at in 1..5 {
        let failure = test.wait(at, "vc", &format!("wrong{at}")).await.err();
        assert_eq!(failure.unwrap().reason, Reason::InvalidCredentials);
    }
    assert_eq!(test.fake.logins("vc"), 4);
    assert!(test.acquire(0, "vc", "a").is_ok());
    assert_eq!(
        fails(test.acquire(5, "vc", "b")).0,
        Reason::InvalidCredentials
    );
}
