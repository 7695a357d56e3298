//! Fairness, limits and their end.

use proptest::prelude::*;

use super::*;

const WRITES: Requests = Requests::Writes;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns a throttle after a 429 without a delay, at its start.
fn refused() -> (Throttle<&'static str, usize>, Instant) {
    let (mut throttle, now) = (Throttle::default(), Instant::now());
    throttle.refused("s", WRITES, Some(Duration::ZERO), now);
    (throttle, now)
}

#[test]
fn requests_are_free_without_a_limit() {
    let (mut throttle, now) = (Throttle::default(), Instant::now());
    for _ in 0..10_000 {
        assert_eq!(throttle.ask(&["s"], WRITES, (&"a", &0), now), Turn::Now);
    }
    throttle.remaining("s", WRITES, 11_999, now);
    assert_eq!(throttle.limited(), 0);
}

#[test]
fn refusal_blocks_requests_of_its_sort_to_its_subscription() {
    let (mut throttle, now) = (Throttle::default(), Instant::now());
    throttle.refused("s", WRITES, Some(seconds(17)), now);
    assert_eq!(
        throttle.ask(&["s"], WRITES, (&"a", &0), now),
        Turn::Wait(seconds(17))
    );
    assert_eq!(
        throttle.ask(&["s"], WRITES, (&"b", &0), now + seconds(7)),
        Turn::Wait(seconds(10))
    );
    assert_eq!(
        throttle.ask(&["s"], Requests::Reads, (&"a", &0), now),
        Turn::Now
    );
    assert_eq!(throttle.ask(&["t"], WRITES, (&"a", &0), now), Turn::Now);
    assert_eq!(
        throttle.ask(&["s"], WRITES, (&"a", &0), now + seconds(17)),
        Turn::Now
    );
    throttle.refused("s", Requests::Deletes, None, now);
    let waited = throttle.ask(&["s"], Requests::Deletes, (&"a", &0), now);
    assert_eq!(waited, Turn::Wait(DEFAULT_DELAY));
}

#[test]
fn refusals_at_the_same_time_count_once() {
    let (mut throttle, now) = (Throttle::<&str, usize>::default(), Instant::now());
    for _ in 0..100 {
        throttle.refused("s", WRITES, Some(seconds(1)), now);
    }
    let limit = &throttle.limits[&("s".to_owned(), WRITES)];
    assert_eq!(limit.budget, INITIAL_BUDGET);
}

#[test]
fn owner_with_many_requests_does_not_delay_others() {
    let (mut throttle, now) = refused();
    let sent =
        (0..100).filter(|many| throttle.ask(&["s"], WRITES, (&"many", many), now) == Turn::Now);
    assert_eq!(sent.count(), INITIAL_BUDGET);
    assert_eq!(
        throttle.ask(&["s"], WRITES, (&"few", &0), now),
        Turn::Wait(ROUND)
    );
    // In the next round the owner with many requests asks first, and a turn is left for the other.
    let next = now + ROUND;
    let sent =
        (0..100).filter(|many| throttle.ask(&["s"], WRITES, (&"many", many), next) == Turn::Now);
    assert_eq!(sent.count(), INITIAL_BUDGET);
    assert_eq!(throttle.ask(&["s"], WRITES, (&"few", &0), next), Turn::Now);
}

#[test]
fn request_that_does_not_return_loses_its_turn() {
    let (mut throttle, now) = refused();
    throttle.remaining("s", WRITES, 1, now);
    assert_eq!(throttle.ask(&["s"], WRITES, (&"a", &0), now), Turn::Now);
    for owner in ["b", "c", "d"] {
        assert!(matches!(
            throttle.ask(&["s"], WRITES, (&owner, &0), now),
            Turn::Wait(_)
        ));
    }
    let later = now + seconds(60);
    assert_eq!(throttle.ask(&["s"], WRITES, (&"a", &0), later), Turn::Now);
    let limit = &throttle.limits[&("s".to_owned(), WRITES)];
    assert!(limit.waiting.is_empty());
}

#[test]
fn limit_is_forgotten_when_it_is_out_of_sight() {
    let (mut throttle, now) = refused();
    assert_eq!(throttle.limited(), 1);
    let rounds = u64::try_from(MAX_BUDGET).unwrap();
    for round in 0..=rounds {
        throttle.ask(&["s"], WRITES, (&"a", &0), now + seconds(round));
    }
    assert_eq!(throttle.limited(), 0);
    throttle.refused("s", WRITES, None, now);
    assert_eq!(
        throttle.ask(&["s"], WRITES, (&"a", &0), now + seconds(3600)),
        Turn::Now
    );
    assert_eq!(throttle.limited(), 0);
}

#[test]
fn few_remaining_requests_are_shared_before_they_are_used_up() {
    let (mut throttle, now) = (Throttle::default(), Instant::now());
    throttle.remaining("s", WRITES, 3, now);
    let sent = (0..10).filter(|_| throttle.ask(&["s"], WRITES, (&"a", &0), now) == Turn::Now);
    assert_eq!(sent.count(), 3);
    throttle.remaining("t", WRITES, 0, now);
    assert_eq!(throttle.ask(&["t"], WRITES, (&"a", &0), now), Turn::Now);
    assert_eq!(
        throttle.ask(&["t"], WRITES, (&"a", &0), now),
        Turn::Wait(ROUND)
    );
}

fn names(own: &str) -> LimitNames {
    LimitNames {
        own: own.to_owned(),
        shared: "subscription".to_owned(),
    }
}

const REFUSED: Observation = Observation {
    requests: WRITES,
    is_refused: true,
    retry_after: Some(Duration::from_secs(9)),
    remaining: None,
    shared_remaining: None,
};

/// Returns whether a write of each of two applications may be sent.
fn writes(throttle: &Mutex<Throttle<&'static str, usize>>) -> [Turn; 2] {
    let mut throttle = throttle.lock().unwrap();
    ["a", "b"].map(|application| {
        let limits = names(application);
        let limits = [limits.own.as_str(), limits.shared.as_str()];
        throttle.ask(&limits, WRITES, (&application, &0), Instant::now())
    })
}

#[tokio::test(start_paused = true)]
async fn refusal_is_that_of_the_application_unless_the_subscription_has_no_requests_left() {
    let (wait, now) = (Turn::Wait(seconds(9)), Turn::Now);
    let throttle = Mutex::new(Throttle::default());
    throttle.observe(&names("a"), REFUSED);
    assert_eq!(writes(&throttle), [wait, now]);
    let of_application = Observation {
        remaining: Some(0),
        shared_remaining: Some(7_000),
        ..REFUSED
    };
    let throttle = Mutex::new(Throttle::default());
    throttle.observe(&names("a"), of_application);
    assert_eq!(writes(&throttle), [wait, now]);
    let of_subscription = Observation {
        shared_remaining: Some(0),
        ..REFUSED
    };
    let throttle = Mutex::new(Throttle::default());
    throttle.observe(&names("a"), of_subscription);
    // One after the other, because none was left.
    let next = Turn::Wait(seconds(9) + ROUND);
    assert_eq!(writes(&throttle), [wait, next]);
    // Reads are counted apart.
    let mut throttle = throttle.into_inner().unwrap();
    let ask = throttle.ask(
        &["a", "subscription"],
        Requests::Reads,
        (&"a", &0),
        Instant::now(),
    );
    assert_eq!(ask, Turn::Now);
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_for_its_application_takes_no_turn_of_the_subscription() {
    let throttle = Mutex::new(Throttle::default());
    let last = Observation {
        is_refused: false,
        shared_remaining: Some(1),
        ..REFUSED
    };
    throttle.observe(&names("a"), last);
    let [first, second] = writes(&throttle);
    assert_eq!((first, second), (Turn::Now, Turn::Wait(ROUND)));
    throttle.observe(&names("b"), REFUSED);
    tokio::time::advance(ROUND).await;
    assert_eq!(writes(&throttle), [Turn::Now, Turn::Wait(seconds(8))]);
    let throttle = throttle.into_inner().unwrap();
    let waiting = |limit: &str| throttle.limits[&(limit.to_owned(), WRITES)].waiting.len();
    assert_eq!((waiting("b"), waiting("subscription")), (1, 0));
}

proptest! {
    #[test]
    fn owners_with_requests_get_equal_shares(workers in proptest::collection::vec(3..20usize, 2..6)) {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        throttle.refused("s", WRITES, Some(Duration::ZERO), start);
        let mut sent = vec![0usize; workers.len()];
        // Each owner asks with as many workers as it has, ten times in a round. All have more
        // requests than there are in a round.
        for step in 0..200u32 {
            let now = start + ROUND / 10 * step;
            // The budget stays below the number of requests.
            throttle.remaining("s", WRITES, 2, now);
            for (owner, workers) in workers.iter().enumerate() {
                for worker in 0..*workers {
                    if throttle.ask(&["s"], WRITES, (&owner, &worker), now) == Turn::Now {
                        sent[owner] += 1;
                    }
                }
            }
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        prop_assert!(most - least <= 2, "{:?}", sent);
        prop_assert!(sent.iter().sum::<usize>() >= 40, "{:?}", sent);
    }
}
