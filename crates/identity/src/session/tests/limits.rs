//! Bounded concurrency.

use super::*;

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
async fn c6_owner_of_forty_endpoints_is_limited() {
    for space in [None, Some("t1")] {
        let mut test =
            test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
        let mut held = Vec::new();
        for at in 0..40 {
            let (mut key, credential) = key(&format!("evil{at}"), Trust::Verified, "a");
            key.space = space.map(Into::into);
            key.source = secret("evil", at);
            match test.sessions.get(&name(at), key.clone(), &credential) {
                Err(Unavailable::Wait) => {}
                _ => panic!("no session is open"),
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
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
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
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
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

#[tokio::test(start_paused = true)]
async fn c6_owner_gets_half_of_an_endpoint() {
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
    let (mut key, credential) = key("vc", Trust::Verified, "a");
    key.space = Some("t1".into());
    let get = |test: &Test, at| test.sessions.get(&name(at), key.clone(), &credential);
    waits(get(&test, 0));
    test.woken(0).await;
    let held: Vec<_> = (0..8).map(|at| get(&test, at)).collect();
    assert_eq!(held.iter().filter(|held| held.is_ok()).count(), 4);
    // The others get the other half.
    let mut others = vec![test.wait(10, "vc", "a").await.unwrap()];
    others.extend((11..20).filter_map(|at| test.acquire(at, "vc", "a").ok()));
    assert_eq!(others.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn c6_users_of_all_endpoints_are_limited() {
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
    let mut held = Vec::new();
    for at in 0..40 {
        let host = format!("vc{}", at / 8);
        match at < 24 {
            true => held.push(test.wait(at, &host, "a").await.unwrap()),
            false => {
                waits(test.acquire(at, &host, "a"));
                pass(SECOND).await;
                waits(test.acquire(at, &host, "a"));
            }
        }
    }
    drop(held);
    for at in 24..40 {
        let woken = timeout(SECOND, test.wakeups.next()).await.unwrap();
        assert_eq!(woken, Some(name(at)));
    }
}

#[tokio::test(start_paused = true)]
async fn suspect_endpoint_has_one_user_until_it_completes_a_request() {
    let mut test = test_with(|settings| settings.concurrency = Concurrency::of_many_endpoints(8));
    let held = test.wait(0, "vc", "a").await.unwrap();
    held.mark_unresponsive();
    drop(held);
    let held = test.wait(0, "vc", "a").await.unwrap();
    for at in 1..3 {
        waits(test.acquire(at, "vc", "a"));
    }
    held.mark_responsive();
    for at in 1..3 {
        test.woken(at).await;
        assert!(test.acquire(at, "vc", "a").is_ok());
    }
    assert_eq!(test.fake.logins("vc"), 1);
}
