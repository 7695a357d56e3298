use std::net::IpAddr;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use super::*;

fn client(address: &str) -> ClientAddress {
    let shared = ["10.0.0.0/8".parse().unwrap()];
    ClientAddress::new(address.parse::<IpAddr>().unwrap(), &shared)
}

/// Lets all tasks run that can.
async fn settle() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// Starts handshakes that report their address when they get their turn.
fn start(
    turns: &Arc<HandshakeTurns>,
    addresses: &[&'static str],
) -> mpsc::UnboundedReceiver<&'static str> {
    let (report, reports) = mpsc::unbounded_channel();
    for address in addresses.iter().copied() {
        let (handshake, report) = (turns.begin(client(address)), report.clone());
        tokio::spawn(async move {
            let _turn = handshake.turn().await;
            report.send(address).unwrap();
            tokio::task::yield_now().await;
        });
    }
    reports
}

#[tokio::test]
async fn no_more_steps_run_at_once_than_there_are_turns() {
    let turns = HandshakeTurns::new(2);
    let handshakes: Vec<_> = (0..5).map(|_| turns.begin(client("192.0.2.1"))).collect();
    let first = handshakes[0].turn().await;
    let second = handshakes[1].turn().await;
    assert!(handshakes[2].turn().now_or_never().is_none());
    assert_eq!((turns.stats().running, turns.stats().waiting), (2, 0));
    drop((first, second));
    assert_eq!(turns.stats().running, 0);
    let third = handshakes[2].turn().now_or_never();
    assert!(third.is_some());
}

#[tokio::test]
async fn hosts_get_turns_in_round_robin_order() {
    let turns = HandshakeTurns::new(1);
    let blocker = turns.begin(client("203.0.113.1"));
    let turn = blocker.turn().await;
    let (a, b) = ("192.0.2.1", "192.0.2.2");
    let mut reports = start(&turns, &[a, a, a, b, b]);
    settle().await;
    assert_eq!(turns.stats().waiting, 5);
    drop(turn);
    let mut order = Vec::new();
    while let Some(address) = reports.recv().await {
        order.push(address);
    }
    assert_eq!(order, [a, b, a, b, a]);
}

#[tokio::test]
async fn shared_addresses_get_every_other_turn() {
    let turns = HandshakeTurns::new(1);
    let blocker = turns.begin(client("203.0.113.1"));
    let turn = blocker.turn().await;
    let balancer = "10.0.0.1";
    let (a, b) = ("192.0.2.1", "192.0.2.2");
    let mut reports = start(&turns, &[a, a, b, b, balancer, balancer]);
    settle().await;
    drop(turn);
    let mut order = Vec::new();
    while let Some(address) = reports.recv().await {
        order.push(address);
    }
    assert_eq!(order, [balancer, a, balancer, b, a, b]);
}

#[tokio::test(start_paused = true)]
async fn flood_waits_for_hosts_within_their_rate_and_for_its_budget() {
    let turns = HandshakeTurns::new(4);
    let flood = client("192.0.2.66");
    let handshakes: Vec<_> = (0..1_000).map(|_| turns.begin(flood)).collect();
    let over = |handshake: &&Handshake| handshake.rate == HandshakeRate::Over;
    let over: Vec<_> = handshakes.iter().filter(over).collect();
    assert_eq!(over.len(), 800);

    // One at once, though turns are free.
    let turn = over[0].turn().await;
    assert!(over[1].turn().now_or_never().is_none());
    // Another host does not wait for it.
    let honest = turns.begin(client("192.0.2.1"));
    assert!(honest.turn().now_or_never().is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(turn);
    // A step of a second is paid for by another second without one.
    assert!(honest.turn().now_or_never().is_some());
    let begun = Instant::now();
    drop(over[1].turn().await);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    assert!(waited <= Duration::from_millis(1_100), "{waited:?}");
}

#[tokio::test]
async fn abandoned_waits_and_unused_turns_leave_nothing_behind() {
    let turns = HandshakeTurns::new(1);
    let handshakes: Vec<_> = (0..300).map(|_| turns.begin(client("192.0.2.1"))).collect();
    let turn = handshakes[0].turn().await;
    // Polled once, then dropped in the queue.
    for handshake in &handshakes[1..] {
        assert!(handshake.turn().now_or_never().is_none());
    }
    assert_eq!(turns.stats().waiting, 0);
    // Granted, and dropped before it is polled again.
    let mut second = Box::pin(handshakes[1].turn());
    assert!((&mut second).now_or_never().is_none());
    drop(turn);
    assert_eq!(turns.stats().running, 1);
    drop(second);
    assert_eq!(turns.stats().running, 0);
    let stats = turns.stats();
    assert_eq!(stats.begun, [("within", 200), ("shared", 0), ("over", 100)]);
}
