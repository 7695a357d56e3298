use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;

use super::*;

fn thread() -> String {
    let current = std::thread::current();
    current.name().unwrap_or_default().to_owned()
}

/// Returns the nice value of the calling thread.
fn niceness() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn future_moves_to_bulk_while_its_space_is_over_its_share_and_back() {
    let lane = Arc::new(ConnectionLane::default());
    let share = Arc::new(CpuShare::default());
    let (seen, mut threads) = mpsc::channel(16);
    let (next, mut steps) = mpsc::channel::<()>(1);
    let normal = niceness();
    Lanes::new().spawn(&lane, async move {
        seen.send((thread(), niceness())).await.unwrap();
        while steps.recv().await.is_some() {
            // The first poll after a step is in the lane of before, and the next in the new one.
            tokio::task::yield_now().await;
            seen.send((thread(), niceness())).await.unwrap();
        }
    });
    lane.set_space(Arc::clone(&share));
    let (own, own_niceness) = threads.recv().await.unwrap();
    assert!(!own.starts_with("insula-"), "{own}");
    assert_eq!(own_niceness, normal);

    share.charge(Duration::from_secs(1), Instant::now());
    next.send(()).await.unwrap();
    assert_eq!(
        threads.recv().await.unwrap(),
        ("insula-bulk".to_owned(), normal + BULK_NICENESS)
    );
    while share.is_over(Instant::now()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    next.send(()).await.unwrap();
    assert_eq!(threads.recv().await.unwrap(), (own, normal));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn time_of_polls_is_charged_to_the_space() {
    let lane = Arc::new(ConnectionLane::default());
    let share = Arc::new(CpuShare::default());
    lane.set_space(Arc::clone(&share));
    let (done, mut is_done) = mpsc::channel(1);
    Lanes::new().spawn(&lane, async move {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(60) {}
        tokio::task::yield_now().await;
        done.send(thread()).await.unwrap();
    });
    assert_eq!(is_done.recv().await.unwrap(), "insula-bulk");
    assert!(share.is_over(Instant::now()));
    assert_eq!(lane.current(Instant::now()), Lane::Bulk);
    lane.exempt();
    assert_eq!(lane.current(Instant::now()), Lane::Interactive);
}

#[tokio::test]
async fn runtime_of_one_thread_has_one_lane() {
    let lane = Arc::new(ConnectionLane::default());
    let (done, mut is_done) = mpsc::channel(1);
    let own = thread();
    Lanes::new().spawn(&lane, async move {
        done.send(thread()).await.unwrap();
    });
    assert_eq!(is_done.recv().await.unwrap(), own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn moved_future_is_woken_by_what_it_waited_for() {
    let lane = Arc::new(ConnectionLane::default());
    let share = Arc::new(CpuShare::default());
    lane.set_space(Arc::clone(&share));
    let (wake, mut woken) = mpsc::channel::<()>(1);
    let (done, mut is_done) = mpsc::channel(1);
    Lanes::new().spawn(&lane, async move {
        poll_fn(|context| woken.poll_recv(context)).await;
        done.send(()).await.unwrap();
    });
    // It waits in the interactive lane; the event finds it there and moves it.
    tokio::task::yield_now().await;
    share.charge(Duration::from_secs(1), Instant::now());
    wake.send(()).await.unwrap();
    is_done.recv().await.unwrap();
}
