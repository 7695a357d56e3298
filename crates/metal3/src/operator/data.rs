//! Reconciles data: claims addresses, renders metadata and network data, and writes them to Secrets
//! next to the host.

mod addresses;
mod conclude;
mod family;
mod remove;
mod secrets;

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::{Cluster, paused};
use insula_operator::commit::StatusChange;
use insula_operator::event::NewEvent;
use insula_operator::retry::Outcome;
use kube::ResourceExt;
use tracing::info;

use self::conclude::{State, conclude};
use super::access::{self, Access, HostAccess, HostFailure, Identity, Problem};
use super::context::Reconciliation;
use crate::kinds::IdentityReference;
use crate::kinds::data::Metal3Data;
use crate::names::{DATA_FINALIZER, IDENTITY_ANNOTATION};

/// The outcome of a step, or why the data cannot go on.
type Step<T> = Result<T, Halt>;

/// Why data cannot go on.
#[derive(Debug)]
enum Halt {
    /// A request to the API server failed.
    Api(kube::Error),
    /// A request to the server of the hosts failed.
    Hosts(kube::Error),
    /// It stops in a state.
    Stop(State, Outcome),
}

impl From<kube::Error> for Halt {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// Where the Secrets of data were written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Recorded {
    /// They were not written yet.
    Nowhere,
    /// In the namespace of the data.
    InCluster,
    /// Next to the host, with this kubeconfig.
    With(IdentityReference),
}

/// The reconciler of one object with data.
struct DataReconciler<'a> {
    of: &'a Reconciliation<'a>,
    data: StatusChange<Metal3Data>,
}

/// Reconciles data.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let objects = of.api::<Metal3Data>();
    let Some(data) = objects.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let cluster = match data.labels().get(CLUSTER_LABEL) {
        Some(name) => of.read::<Cluster>(name).await?,
        None => None,
    };
    if paused::paused(cluster.as_ref(), &data, "Metal3Data").is_some() {
        of.release_session();
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let mut reconciler = DataReconciler {
        of,
        data: StatusChange::new(objects, data),
    };
    let done = match reconciler.data.stored.metadata.deletion_timestamp {
        Some(_) => reconciler.remove(cluster.as_ref()).await,
        None => reconciler.render(cluster.as_ref()).await,
    };
    reconciler.finish(done).await
}

impl DataReconciler<'_> {
    fn namespace(&self) -> &str {
        self.of.key.namespace_or_empty()
    }

    /// Writes the status.
    async fn finish(&mut self, done: Step<Outcome>) -> Result<Outcome, kube::Error> {
        let (state, outcome) = match done {
            Ok(Outcome::Gone) => return Ok(Outcome::Gone),
            Ok(outcome) => (State::Ready, outcome),
            Err(Halt::Stop(state, outcome)) => (state, outcome),
            Err(Halt::Api(error) | Halt::Hosts(error)) => return Err(error),
        };
        let before = self.data.stored.status.clone().unwrap_or_default();
        self.data.object.status = Some(conclude(&before, &state));
        self.data.commit().await?;
        if let State::Problem(problem) = state
            && before.error_message.as_ref() != Some(&problem.message)
        {
            info!(key = %self.of.key, reason = problem.reason, "data not rendered");
            let note = NewEvent {
                warning: true,
                reason: problem.reason,
                note: problem.message,
            };
            self.of.record_event(&self.data.stored, note).await;
        }
        Ok(outcome)
    }

    /// Returns the halt of data that waits for another object.
    fn wait(&self) -> Halt {
        Halt::Stop(State::Waiting, Outcome::Waits(self.of.resync_after()))
    }

    /// Returns the halt of data that cannot be rendered until another object changes.
    fn problem(&self, reason: &'static str, message: impl Into<String>) -> Halt {
        let message = message.into();
        let problem = Problem { reason, message };
        let outcome = Outcome::Waits(self.of.resync_after());
        Halt::Stop(State::Problem(problem), outcome)
    }

    /// Returns where its Secrets were written.
    fn recorded(&self) -> Recorded {
        let data = &self.data.stored;
        let annotation = data.annotations().get(IDENTITY_ANNOTATION);
        let identity = annotation.and_then(|text| serde_json::from_str(text).ok());
        let has_secrets = data.spec.meta_data.is_some() || data.spec.network_data.is_some();
        match identity {
            Some(identity) => Recorded::With(identity),
            None if has_secrets => Recorded::InCluster,
            None => Recorded::Nowhere,
        }
    }

    /// Returns the access to the hosts.
    async fn open(&self, identity: Identity<'_>) -> Step<HostAccess> {
        match access::open(self.of, identity).await? {
            Access::Open(access) => Ok(access),
            Access::Opening(outcome) => Err(Halt::Stop(State::AsBefore, outcome)),
            Access::Closed(problem, outcome) => Err(Halt::Stop(State::Problem(problem), outcome)),
        }
    }

    /// Reports a failed request to the server of the hosts as a problem with the credential.
    fn explain_failure<T>(access: &HostAccess, done: Step<T>) -> Step<T> {
        let error = match done {
            Err(Halt::Hosts(error)) => error,
            done => {
                access.pool.mark_responsive();
                return done;
            }
        };
        Err(match access.explain(error) {
            HostFailure::Own(error) => Halt::Api(error),
            HostFailure::Changed(error) => Halt::Hosts(error),
            HostFailure::Problem(problem, outcome) => Halt::Stop(State::Problem(problem), outcome),
        })
    }

    /// Brings the Secrets about, with everything that they need.
    async fn render(&mut self, cluster: Option<&Cluster>) -> Step<Outcome> {
        let Some(cluster) = cluster else {
            self.of.release_session();
            return Err(self.wait());
        };
        self.data.add_finalizer(DATA_FINALIZER).await?;
        let family = self.family(cluster).await?;
        let recorded = self.recorded();
        let access = self.open(family.identity(&recorded)).await?;
        let done = self.write_secrets(&family, &access).await;
        Self::explain_failure(&access, done)?;
        // The Secrets are never rewritten, so the host is of no more interest.
        access.pool.forget(&self.of.key.text());
        self.of.release_session();
        Ok(Outcome::Settled(self.of.resync_after()))
    }
}
