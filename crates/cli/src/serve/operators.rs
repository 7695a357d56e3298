//! Operators in the server's own process.
//!
//! Each is a client like any other: it comes over TLS to where the server listens, and may
//! do what was granted to the service account that it would be in a pod, which is nothing
//! until somebody grants it. So an operator has the same rights wherever it runs.

mod pass;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use insula_broker::names::AXON;
use insula_identity::endpoint::Bound;
use insula_vsphere::names::{ACCOUNT, NAMESPACE};
use insula_vsphere::operator::Static;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use self::pass::{LONGEST, Pass};
use super::args::VsphereArgs;
use crate::failure::Failure;
use crate::operator::vsphere;
use crate::process;

/// What can run beside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Operator {
    /// Makes the tenants of `subctl create tenant`
    Broker,
    /// Makes clusters on vSphere, of the system and of all tenants
    Vsphere,
}

/// What is to run, and what it is told.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which of them.
    pub operators: BTreeSet<Operator>,
    /// Where credentials of vCenters may be sent that do not say where themselves.
    bound: Bound,
    /// Whether Secrets of namespaces too may be sent to these only.
    only_allowed: bool,
    /// The file with credentials for clusters of the system that name no identity.
    credentials: Option<PathBuf>,
}

impl Wanted {
    /// What the arguments say.
    pub fn of(operators: Vec<Operator>, vsphere: VsphereArgs) -> Self {
        Self {
            operators: operators.into_iter().collect(),
            bound: vsphere::bound(vsphere.allowed_servers),
            only_allowed: vsphere.only_allowed_servers,
            credentials: vsphere.credentials_file,
        }
    }
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
const PATIENCE: Duration = Duration::from_secs(20);

impl Operators {
    /// Those that are asked for. They wait until they are started.
    pub fn new(wanted: &Wanted, pass: impl Fn() -> Result<Pass, Failure>) -> Result<Self, Failure> {
        let (stop, _) = watch::channel(false);
        let mut operators = Self {
            tasks: JoinSet::new(),
            begin: Vec::new(),
            stop,
        };
        for &operator in &wanted.operators {
            let work = Work::of(operator, wanted);
            let (begin, begun) = oneshot::channel();
            let (pass, stopped) = (pass()?, operators.stop.subscribe());
            operators.begin.push(begin);
            operators.tasks.spawn(async move {
                // Dropped without a word if the server does not become ready.
                if begun.await.is_ok() {
                    run(work, pass, stopped).await;
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

/// What one of them does.
enum Work {
    Broker,
    Vsphere {
        given: watch::Receiver<Option<Static>>,
        bound: Bound,
        only_allowed: bool,
    },
}

impl Work {
    fn of(operator: Operator, wanted: &Wanted) -> Self {
        match operator {
            Operator::Broker => Self::Broker,
            Operator::Vsphere => Self::Vsphere {
                given: match &wanted.credentials {
                    Some(file) => vsphere::follow(file, &wanted.bound),
                    None => watch::channel(None).1,
                },
                bound: wanted.bound.clone(),
                only_allowed: wanted.only_allowed,
            },
        }
    }

    /// The service account that it is: namespace and name.
    const fn account(&self) -> (&'static str, &'static str) {
        match self {
            Self::Broker => (AXON, AXON),
            Self::Vsphere { .. } => (NAMESPACE, ACCOUNT),
        }
    }

    /// As which program it introduces itself.
    const fn program(&self) -> &'static str {
        match self {
            Self::Broker => insula_broker::operator::AGENT,
            Self::Vsphere { .. } => insula_vsphere::operator::AGENT,
        }
    }

    /// Begins it, in a task of its own: whatever becomes of it, the server goes on.
    fn begin(&self, client: Client, stopped: watch::Receiver<bool>) -> JoinSet<Ended> {
        let mut task = JoinSet::new();
        match self {
            Self::Broker => {
                let settings = insula_broker::operator::Settings {
                    definitions: insula_broker::crds::broker_kinds(),
                    ..insula_broker::operator::Settings::new(process::name())
                };
                task.spawn(insula_broker::operator::run(
                    client,
                    settings,
                    told(stopped),
                ));
            }
            Self::Vsphere {
                given,
                bound,
                only_allowed,
            } => {
                let settings = insula_vsphere::operator::Settings {
                    tenants: true,
                    default_bound: bound.clone(),
                    only_allowed_servers: *only_allowed,
                    ..insula_vsphere::operator::Settings::new(process::name(), given.clone())
                };
                task.spawn(async {
                    insula_vsphere::operator::run(client, settings, told(stopped)).await;
                    Ok(())
                });
            }
        }
        task
    }
}

/// How an operator ended by itself.
type Ended = Result<(), insula_broker::Error>;

async fn run(work: Work, pass: Pass, stopped: watch::Receiver<bool>) {
    let (namespace, name) = work.account();
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    let client = match pass.connect(&user, &groups, work.program()) {
        Ok(client) => client,
        Err(failure) => {
            tracing::error!(error = %failure, "the operator cannot connect");
            return;
        }
    };
    while !*stopped.borrow() {
        let mut task = work.begin(client.clone(), stopped.clone());
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
