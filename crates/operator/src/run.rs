//! The life of an operator: it waits until there is something to serve and it is its turn,
//! then works, until it is told to stop.

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

/// What an operator does. It may be dropped wherever it waits, so that every step leaves
/// what the next one can go on from.
pub trait Work: Send + Sync + 'static {
    /// Whether what it serves is there, and it is allowed to; if not, why.
    fn is_served(&self) -> impl Future<Output = Result<(), String>> + Send;

    /// What calls for work.
    fn triggers(self: Arc<Self>) -> impl Future<Output = BoxStream<'static, Trigger>> + Send;

    /// Works on one object, which is not worked on by anybody else meanwhile, after it failed
    /// so many times in a row.
    fn reconcile(&self, name: &str, failures: u32) -> impl Future<Output = Outcome> + Send;
}

/// How an operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose turn it is, where there may be several.
    pub candidate: Option<Candidate>,
    /// On how many objects it works at the same time.
    pub concurrency: usize,
    /// How long the work on an object may take: it never waits for others to act.
    pub patience: Duration,
    /// How long what is being done may take to end when it is told to stop; then it is dropped.
    pub closing: Duration,
}

/// How often it looks whether what it serves is there.
const LOOK: Duration = Duration::from_secs(1);

/// Works until it is told to stop; what is being done then is finished, if that is soon.
pub async fn run<W: Work>(
    work: Arc<W>,
    settings: Settings,
    health: Arc<Health>,
    stop: impl Future<Output = ()>,
) {
    let (stopper, told) = stop::pair();
    let mut life = std::pin::pin!(live(work, settings, &health, told));
    tokio::select! {
        () = &mut life => return,
        () = stop => stopper.stop(),
    }
    life.await;
}

async fn live<W: Work>(work: Arc<W>, settings: Settings, health: &Health, mut stop: Stop) {
    tokio::select! {
        () = wait_until_served(&*work) => {}
        () = stop.told() => return,
    }
    health.set_ready(true);
    let tell = |leads| health.set_leader(leads);
    let turn = || control(&work, &settings, health, stop.clone());
    match &settings.candidate {
        Some(candidate) => candidate.lead(stop.clone(), tell, turn).await,
        None => {
            tell(true);
            turn().await;
            tell(false);
        }
    }
}

/// Looks about once a second, and says once that it waits.
async fn wait_until_served<W: Work>(work: &W) {
    let mut told = None;
    while let Err(why) = work.is_served().await {
        if told.as_ref() != Some(&why) {
            info!(%why, "waits until it can work");
            told = Some(why);
        }
        sleep(LOOK).await;
    }
}

/// Works on what is called for. Whoever drops this ends all of it.
async fn control<W: Work>(work: &Arc<W>, settings: &Settings, health: &Health, mut stop: Stop) {
    info!("works");
    let mut triggers = Arc::clone(work).triggers().await;
    let mut hands = Hands::new(work, settings);
    let mut queue = Queue::default();
    loop {
        hands.fill(&mut queue);
        health.observe(queue.len(), queue.waiting(Instant::now()), hands.busy());
        let next = queue.next().filter(|_| hands.are_free());
        tokio::select! {
            () = stop.told() => break,
            Some(trigger) = triggers.next() => {
                queue.call(trigger, Instant::now());
                hear_more(&mut triggers, &mut queue);
            }
            done = hands.finish(), if hands.busy() > 0 => {
                health.count(done.outcome, done.took);
                queue.done(&done.name, done.outcome, Instant::now());
            }
            () = until(next), if next.is_some() => {}
        }
    }
    debug!(busy = hands.busy(), "finishes what is being done");
    let finishing = async {
        while hands.busy() > 0 {
            let done = hands.finish().await;
            health.count(done.outcome, done.took);
        }
    };
    if timeout(settings.closing, finishing).await.is_err() {
        debug!(busy = hands.busy(), "drops what is being done");
        hands.tasks.shutdown().await;
    }
    health.observe(queue.len(), 0, 0);
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What else has been said already, so that it is one look at the queue for many triggers.
fn hear_more(triggers: &mut BoxStream<'static, Trigger>, queue: &mut Queue) {
    const AT_ONCE: usize = 256;
    for _ in 0..AT_ONCE {
        match triggers.next().now_or_never() {
            Some(Some(trigger)) => queue.call(trigger, Instant::now()),
            _ => return,
        }
    }
}

/// Those who work, each on one object.
struct Hands<'a, W> {
    work: &'a Arc<W>,
    settings: &'a Settings,
    tasks: JoinSet<Outcome>,
    objects: HashMap<Id, (Arc<str>, Instant)>,
}

/// What became of an object.
struct Done {
    name: Arc<str>,
    outcome: Outcome,
    took: Duration,
}

impl<'a, W: Work> Hands<'a, W> {
    fn new(work: &'a Arc<W>, settings: &'a Settings) -> Self {
        Self {
            work,
            settings,
            tasks: JoinSet::new(),
            objects: HashMap::new(),
        }
    }

    fn busy(&self) -> usize {
        self.tasks.len()
    }

    fn are_free(&self) -> bool {
        self.busy() < self.settings.concurrency
    }

    /// Gives everybody something to do, as far as there is something.
    fn fill(&mut self, queue: &mut Queue) {
        while self.are_free() {
            let now = Instant::now();
            let Some(name) = queue.take(now) else { return };
            let (work, patience) = (Arc::clone(self.work), self.settings.patience);
            let (object, failures) = (Arc::clone(&name), queue.failures(&name));
            let task = self.tasks.spawn(async move {
                let worked = timeout(patience, work.reconcile(&object, failures)).await;
                worked.unwrap_or(Outcome::Failed(Class::Transient))
            });
            self.objects.insert(task.id(), (name, now));
        }
    }

    /// The next that is done. One that panics has failed, and nobody else with it.
    async fn finish(&mut self) -> Done {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, outcome) = joined.unwrap_or_else(|error: JoinError| {
                error!(%error, "the work on an object broke");
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

    /// Work that is written down.
    #[derive(Default)]
    struct Diary {
        lines: Mutex<Vec<String>>,
        written: Notify,
        /// Whoever works on `slow` waits for this.
        go: Notify,
        looks: Mutex<u32>,
    }

    impl Diary {
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

    impl Work for Diary {
        async fn is_served(&self) -> Result<(), String> {
            let mut looks = self.looks.lock().expect("no panic");
            *looks += 1;
            match *looks {
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
    async fn one_that_waits_or_breaks_delays_nobody_and_what_is_begun_is_finished() {
        let diary = Arc::new(Diary::default());
        let health = Arc::new(Health::default());
        let settings = Settings {
            candidate: None,
            concurrency: 2,
            patience: Duration::from_secs(60),
            closing: Duration::from_secs(60),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(run(
            Arc::clone(&diary),
            settings,
            Arc::clone(&health),
            async { drop(stopped.await) },
        ));
        diary.until("quick 0").await;
        diary.until("broken 1").await;
        assert!(health.is_leader() && health.is_ready());
        stop.send(()).expect("it runs");
        tokio::task::yield_now().await;
        assert!(!run.is_finished(), "it finishes what it does");
        diary.go.notify_one();
        run.await.expect("no panic");
        let lines = diary.lines.lock().expect("no panic").clone();
        assert_eq!(lines, ["quick 0", "broken 1", "slow 0"]);
        assert!(!health.is_leader());
    }

    #[tokio::test]
    async fn what_hangs_is_dropped_a_while_after_the_word_to_stop() {
        let diary = Arc::new(Diary::default());
        let settings = Settings {
            candidate: None,
            concurrency: 2,
            patience: Duration::from_secs(7200),
            closing: Duration::from_millis(100),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let health = Arc::new(Health::default());
        let run = tokio::spawn(run(Arc::clone(&diary), settings, health, async {
            drop(stopped.await)
        }));
        diary.until("quick 0").await;
        let told = Instant::now();
        stop.send(()).expect("it runs");
        run.await.expect("no panic");
        let took = told.elapsed();
        assert!(took >= Duration::from_millis(100), "{took:?}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        // Nobody has a hand on it any more.
        assert_eq!(Arc::strong_count(&diary), 1);
    }
}
