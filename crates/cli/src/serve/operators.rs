//! Operators in the server's own process.
//!
//! Each is a client like any other: it comes over TLS to where the server listens, and may
//! do what was granted to the service account that it would be in a pod, which is nothing
//! until somebody grants it. So an operator has the same rights wherever it runs.

mod pass;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::ValueEnum;
use insula_broker::crds;
use insula_broker::names::AXON;
use insula_broker::operator::{AGENT, Settings};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use self::pass::{LONGEST, Pass};
use crate::failure::Failure;
use crate::identity;

/// What can run beside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Operator {
    /// Makes the tenants of `subctl create tenant`
    Broker,
}

/// The operators of one server: they begin when it is ready and are over before it is.
pub struct Operators {
    tasks: JoinSet<()>,
    begin: Vec<oneshot::Sender<()>>,
    stop: watch::Sender<bool>,
}

/// How soon one that ended by itself begins anew.
const PAUSE: Duration = Duration::from_secs(1);

/// How long they may take to finish what they are about.
const PATIENCE: Duration = Duration::from_secs(10);

impl Operators {
    /// Those that are asked for. They wait until they are started.
    pub fn new(
        wanted: &BTreeSet<Operator>,
        pass: impl Fn() -> Result<Pass, Failure>,
    ) -> Result<Self, Failure> {
        let (stop, _) = watch::channel(false);
        let mut operators = Self {
            tasks: JoinSet::new(),
            begin: Vec::new(),
            stop,
        };
        for &operator in wanted {
            let (begin, begun) = oneshot::channel();
            let (pass, stopped) = (pass()?, operators.stop.subscribe());
            operators.begin.push(begin);
            operators.tasks.spawn(async move {
                // Dropped without a word if the server does not become ready.
                if begun.await.is_ok() {
                    run(operator, pass, stopped).await;
                }
            });
        }
        Ok(operators)
    }

    /// What tells them that the server is ready.
    pub fn starter(&mut self) -> impl FnOnce() + use<> {
        let begin = std::mem::take(&mut self.begin);
        move || {
            for one in begin {
                one.send(()).ok();
            }
        }
    }

    /// Tells them to end, and waits until they have.
    pub async fn end(&mut self) {
        self.stop.send_replace(true);
        let over = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, over).await.is_err() {
            tracing::warn!("an operator does not end");
        }
        self.tasks.shutdown().await;
    }
}

async fn run(operator: Operator, pass: Pass, stopped: watch::Receiver<bool>) {
    let Operator::Broker = operator;
    let user = format!("system:serviceaccount:{AXON}:{AXON}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{AXON}"),
    ];
    let client = match pass.connect(&user, &groups, AGENT) {
        Ok(client) => client,
        Err(failure) => {
            tracing::error!(error = %failure, "the operator cannot connect");
            return;
        }
    };
    while !*stopped.borrow() {
        let settings = Settings {
            definitions: crds::of_broker(),
            ..Settings::new(identity::of_this_process())
        };
        let running = insula_broker::operator::run(client.clone(), settings, told(stopped.clone()));
        // In a task of its own: whatever becomes of it, the server goes on.
        let mut task = JoinSet::new();
        task.spawn(running);
        match task.join_next().await {
            Some(Err(error)) => tracing::error!(%error, "the operator failed"),
            Some(Ok(Err(error))) => tracing::error!(%error, "the operator ended"),
            Some(Ok(Ok(()))) | None => {}
        }
        if tokio::time::timeout(PAUSE, told(stopped.clone()))
            .await
            .is_ok()
        {
            return;
        }
    }
}

/// Until it is told to stop, or nobody is left to tell it.
async fn told(mut stopped: watch::Receiver<bool>) {
    stopped.wait_for(|&stopped| stopped).await.ok();
}
