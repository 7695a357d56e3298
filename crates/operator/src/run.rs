//! The life cycle of an operator: it waits until its API is available and it is the leader, then
//! reconciles until it is stopped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error, info};

use crate::health::Health;
use crate::lease::Candidate;
use crate::queue::{Queue, Trigger};
use crate::retry::{Class, Outcome};
use crate::stop::{self, Stop};

/// The work of an operator. Its futures may be dropped at any await point, so every step must
/// leave a state that the next reconciliation can continue from.
pub trait Reconciler: Send + Sync + 'static {
    /// Checks that the operator's API is served and that it may use it; returns the reason if
    /// not.
    fn check_available(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns the triggers of reconciliations.
    fn triggers(self: Arc<Self>) -> impl Future<Output = BoxStream<'static, Trigger>> + Send;

    /// Reconciles one object, of which no other reconciliation is running, after so many
    /// consecutive failures.
    fn reconcile(&self, name: &str, failures: u32) -> impl Future<Output = Outcome> + Send;
}

/// The settings of an operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The candidate for leader election, if there may be several instances.
    pub candidate: Option<Candidate>,
    /// The number of concurrent reconciliations.
    pub concurrency: usize,
    /// The timeout of a reconciliation, which never waits for other actors.
    pub reconcile_timeout: Duration,
    /// The time for running reconciliations to end on stop; then they are dropped.
    pub shutdown_timeout: Duration,
}

/// The interval of checks whether the API is available.
const AVAILABILITY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the operator until it is stopped, and lets running reconciliations end within the
/// shutdown timeout.
pub async fn run<W: Reconciler>(
    reconciler: Arc<W>,
    settings: Settings,
    health: Arc<Health>,
    stop: impl Future<Output = ()>,
) {
    let (stopper, stop_receiver) = stop::channel();
    let mut supervision = std::pin::pin!(supervise(reconciler, settings, &health, stop_receiver));
    tokio::select! {
        () = &mut supervision => return,
        () = stop => stopper.stop(),
    }
    supervision.await;
}

async fn supervise<W: Reconciler>(
    reconciler: Arc<W>,
    settings: Settings,
    health: &Health,
    mut stop: Stop,
) {
    tokio::select! {
        () = wait_until_available(&*reconciler) => {}
        () = stop.stopped() => return,
    }
    health.set_ready(true);
    let set_leader = |leads| health.set_leader(leads);
    let lead = || reconcile_loop(&reconciler, &settings, health, stop.clone());
    match &settings.candidate {
        Some(candidate) => candidate.lead(stop.clone(), set_leader, lead).await,
        None => {
            set_leader(true);
            lead().await;
            set_leader(false);
        }
    }
}

/// Checks every second, and logs each new reason once.
async fn wait_until_available<W: Reconciler>(reconciler: &W) {
    let mut stop_receiver = None;
    while let Err(why) = reconciler.check_available().await {
        if stop_receiver.as_ref() != Some(&why) {
            info!(%why, "operator start delayed");
            stop_receiver = Some(why);
        }
        sleep(AVAILABILITY_INTERVAL).await;
    }
}

/// Reconciles queued objects. All reconciliations end when the future is dropped.
async fn reconcile_loop<W: Reconciler>(
    reconciler: &Arc<W>,
    settings: &Settings,
    health: &Health,
    mut stop: Stop,
) {
    info!("reconciliation started");
    let mut triggers = Arc::clone(reconciler).triggers().await;
    let mut workers = Workers::new(reconciler, settings);
    let mut queue = Queue::default();
    loop {
        workers.fill(&mut queue);
        health.observe(queue.len(), queue.waiting(Instant::now()), workers.busy());
        let next = queue.next().filter(|_| workers.have_free());
        tokio::select! {
            () = stop.stopped() => break,
            Some(trigger) = triggers.next() => {
                queue.call(trigger, Instant::now());
                drain_ready(&mut triggers, &mut queue);
            }
            done = workers.finish(), if workers.busy() > 0 => {
                health.count(done.outcome, done.took);
                queue.done(&done.name, done.outcome, Instant::now());
            }
            () = until(next), if next.is_some() => {}
        }
    }
    debug!(busy = workers.busy(), "shutdown started");
    let finishing = async {
        while workers.busy() > 0 {
            let done = workers.finish().await;
            health.count(done.outcome, done.took);
        }
    };
    if timeout(settings.shutdown_timeout, finishing).await.is_err() {
        debug!(busy = workers.busy(), "running reconciliations dropped");
        workers.tasks.shutdown().await;
    }
    health.observe(queue.len(), 0, 0);
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Queues all triggers that are ready, so that the queue is evaluated once for many triggers.
fn drain_ready(triggers: &mut BoxStream<'static, Trigger>, queue: &mut Queue) {
    const MAX_BATCH: usize = 256;
    for _ in 0..MAX_BATCH {
        match triggers.next().now_or_never() {
            Some(Some(trigger)) => queue.call(trigger, Instant::now()),
            _ => return,
        }
    }
}

/// Running reconciliations, each of one object.
struct Workers<'a, W> {
    reconciler: &'a Arc<W>,
    settings: &'a Settings,
    tasks: JoinSet<Outcome>,
    objects: HashMap<Id, (Arc<str>, Instant)>,
}

/// The result of a reconciliation.
struct Done {
    name: Arc<str>,
    outcome: Outcome,
    took: Duration,
}

impl<'a, W: Reconciler> Workers<'a, W> {
    fn new(reconciler: &'a Arc<W>, settings: &'a Settings) -> Self {
        Self {
            reconciler,
            settings,
            tasks: JoinSet::new(),
            objects: HashMap::new(),
        }
    }

    fn busy(&self) -> usize {
        self.tasks.len()
    }

    fn have_free(&self) -> bool {
        self.busy() < self.settings.concurrency
    }

    /// Starts reconciliations while workers and due objects are available.
    fn fill(&mut self, queue: &mut Queue) {
        while self.have_free() {
            let now = Instant::now();
            let Some(name) = queue.take(now) else { return };
            let (reconciler, reconcile_timeout) =
                (Arc::clone(self.reconciler), self.settings.reconcile_timeout);
            let (object, failures) = (Arc::clone(&name), queue.failures(&name));
            let task = self.tasks.spawn(async move {
                let worked =
                    timeout(reconcile_timeout, reconciler.reconcile(&object, failures)).await;
                worked.unwrap_or(Outcome::Failed(Class::Transient))
            });
            self.objects.insert(task.id(), (name, now));
        }
    }

    /// Returns the next result. A panic counts as a failure of its object only.
    async fn finish(&mut self) -> Done {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, outcome) = joined.unwrap_or_else(|error: JoinError| {
                error!(%error, "reconciliation panicked");
                (error.id(), Outcome::Failed(Class::Refused))
            });
            if let Some((name, since)) = self.objects.remove(&id) {
                let took = since.elapsed();
                return Done {
                    name,
                    outcome,
                    took,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::stream;
    use tokio::sync::{Notify, oneshot};

    use super::*;

    /// Records reconciliations.
    #[derive(Default)]
    struct Recorder {
        lines: Mutex<Vec<String>>,
        written: Notify,
        /// Lets the reconciliation of `slow` end.
        go: Notify,
        checks: Mutex<u32>,
    }

    impl Recorder {
        fn write(&self, line: String) {
            self.lines.lock().expect("no panic").push(line);
            self.written.notify_waiters();
        }

        async fn until(&self, line: &str) {
            loop {
                let written = self.written.notified();
                if self
                    .lines
                    .lock()
                    .expect("no panic")
                    .iter()
                    .any(|one| one == line)
                {
                    return;
                }
                timeout(Duration::from_secs(30), written)
                    .await
                    .expect("in time");
            }
        }
    }

    impl Reconciler for Recorder {
        async fn check_available(&self) -> Result<(), String> {
            let mut checks = self.checks.lock().expect("no panic");
            *checks += 1;
            match *checks {
                1 => Err("there is nothing yet".to_owned()),
                _ => Ok(()),
            }
        }

        async fn triggers(self: Arc<Self>) -> BoxStream<'static, Trigger> {
            let names = ["slow", "broken", "quick"];
            let triggers = names.map(|name| Trigger::Changed(name.into()));
            stream::iter(triggers).chain(stream::pending()).boxed()
        }

        async fn reconcile(&self, name: &str, failures: u32) -> Outcome {
            match name {
                "slow" => self.go.notified().await,
                "broken" if failures == 0 => panic!("this is about panics"),
                _ => {}
            }
            self.write(format!("{name} {failures}"));
            Outcome::Settled(Duration::from_secs(3600))
        }
    }

    #[tokio::test]
    async fn slow_or_panicking_object_delays_no_other_and_shutdown_waits() {
        let recorder = Arc::new(Recorder::default());
        let health = Arc::new(Health::default());
        let settings = Settings {
            candidate: None,
            concurrency: 2,
            reconcile_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(60),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(run(
            Arc::clone(&recorder),
            settings,
            Arc::clone(&health),
            async { drop(stopped.await) },
        ));
        recorder.until("quick 0").await;
        recorder.until("broken 1").await;
        assert!(health.is_leader() && health.is_ready());
        stop.send(()).expect("it runs");
        tokio::task::yield_now().await;
        assert!(!run.is_finished(), "it finishes what it does");
        recorder.go.notify_one();
        run.await.expect("no panic");
        let lines = recorder.lines.lock().expect("no panic").clone();
        assert_eq!(lines, ["quick 0", "broken 1", "slow 0"]);
        assert!(!health.is_leader());
    }

    #[tokio::test]
    async fn hanging_reconciliation_is_dropped_after_the_shutdown_timeout() {
        let recorder = Arc::new(Recorder::default());
        let settings = Settings {
            candidate: None,
            concurrency: 2,
            reconcile_timeout: Duration::from_secs(7200),
            shutdown_timeout: Duration::from_millis(100),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let health = Arc::new(Health::default());
        let run = tokio::spawn(run(Arc::clone(&recorder), settings, health, async {
            drop(stopped.await)
        }));
        recorder.until("quick 0").await;
        let stop_receiver = Instant::now();
        stop.send(()).expect("it runs");
        run.await.expect("no panic");
        let took = stop_receiver.elapsed();
        assert!(took >= Duration::from_millis(100), "{took:?}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        // No task holds a reference any more.
        assert_eq!(Arc::strong_count(&recorder), 1);
    }
}
