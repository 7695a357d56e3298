//! Settings and start of a provider's operator.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::{self, Concurrency, Sessions};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::own_writes::{Missed, OwnWrites};
use super::{
    Bounds, Context, Dependency, Provider, Reconciliation, Requeue, StaticCredentials, identity,
    secret,
};
use crate::account::ServiceAccount;
use crate::deadline;
use crate::dependencies::DependencyIndex;
use crate::event::{EventRateLimit, NewEvent};
use crate::health::Health;
use crate::key::{GroupKind, Key};
use crate::lease::{Candidate, Times};
use crate::queue::Trigger;
use crate::read::{get_named, get_named_metadata};
use crate::retry::{Class, Outcome};
use crate::run::{self, Reconciler};

/// The settings of a provider's operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of its pod or machine, for the Lease. A unique suffix is added.
    pub identity: String,
    /// Whether it works only while it holds the Lease.
    pub leader_elect: bool,
    /// The durations of the leader election.
    pub times: Times,
    /// How many objects are reconciled at the same time.
    pub concurrency: usize,
    /// The timeout of a request to the API server.
    pub request_timeout: Duration,
    /// How long reconciliations may take to end after the stop signal.
    pub shutdown_timeout: Duration,
    /// The settings of sessions, with the timeout of a request to a server.
    pub sessions: session::Settings,
    /// Whether it also works in all tenants' spaces of an Insula.
    pub tenants: bool,
    /// The only namespaces to work in; all if empty.
    pub namespaces: BTreeSet<String>,
    /// Whether Namespaces are watched, which needs a right to all of them. Otherwise a change of a
    /// Namespace triggers nothing.
    pub watch_namespaces: bool,
    /// The required value of the provider's watch label.
    pub watch_filter: Option<String>,
    /// The namespace of the operator and of the Secrets of identities.
    pub operator_namespace: String,
    /// The service account of each namespace to act as there; none to act as the operator.
    pub service_account: Option<String>,
    /// The static credentials; changes take effect at once.
    pub static_credentials: watch::Receiver<Option<StaticCredentials>>,
    /// The tenants' spaces in which the static credentials may be used too.
    pub static_credentials_for: BTreeSet<String>,
    /// The servers that identities without servers of their own may be sent to.
    pub default_bound: AllowedEndpoints,
    /// Whether Secrets of namespaces may be sent to these servers only.
    pub only_allowed_servers: bool,
    /// How long an object is left alone that is in order.
    pub resync: Duration,
    /// Objects that the provider's own watches find to be reconciled.
    pub requeue: Arc<Requeue>,
    /// The health and metrics of the operator.
    pub health: Arc<Health>,
}

impl Settings {
    /// Returns the default settings of an operator without static credentials, with this timeout
    /// for requests to its servers.
    pub fn new(identity: impl Into<String>, namespace: &str, server_timeout: Duration) -> Self {
        let request_timeout = Duration::from_secs(20);
        let concurrency = 32;
        Self {
            identity: identity.into(),
            leader_elect: true,
            times: Times::default(),
            concurrency,
            request_timeout,
            shutdown_timeout: Duration::from_secs(5),
            sessions: session::Settings {
                request_timeout: server_timeout,
                check_after: Duration::from_secs(60),
                lifetime: Duration::from_secs(8 * 3600),
                refused_backoff: Duration::from_secs(180),
                unreachable_backoff: (Duration::from_secs(1), Duration::from_secs(60)),
                concurrency: Concurrency::of_many_endpoints(concurrency / 4),
            },
            tenants: false,
            namespaces: BTreeSet::new(),
            watch_namespaces: true,
            watch_filter: None,
            operator_namespace: namespace.to_owned(),
            service_account: None,
            static_credentials: watch::channel(None).1,
            static_credentials_for: BTreeSet::new(),
            default_bound: AllowedEndpoints::Nowhere,
            only_allowed_servers: false,
            resync: Duration::from_secs(600),
            requeue: Arc::default(),
            health: Arc::default(),
        }
    }
}

/// Runs the operator until the stop signal. Running reconciliations may end within the closing
/// time, and all sessions are logged out.
pub async fn run<P: Provider>(
    client: Client,
    provider: P,
    connector: P::Connector,
    settings: Settings,
    stop: impl Future<Output = ()>,
) {
    let client = deadline::with_timeout(&client, settings.request_timeout);
    let instance = format!("{}_{}", settings.identity, uuid::Uuid::new_v4());
    let candidate = settings.leader_elect.then(|| {
        let (namespace, times) = (&settings.operator_namespace, settings.times);
        Candidate::new(client.clone(), namespace, P::NAMES.lease, &instance, times)
    });
    let sessions = Sessions::new(connector, settings.sessions);
    // An operator that starts anew shows the metrics of its new sessions only.
    let metrics_source = Arc::downgrade(&sessions);
    settings.health.add_metrics(move || {
        let sessions = metrics_source.upgrade();
        sessions.map_or_else(String::new, |sessions| sessions.metrics())
    });
    let kinds = provider.kinds();
    let context = Arc::new(Context {
        provider,
        client,
        tenants: settings.tenants,
        namespaces: settings.namespaces,
        watch_namespaces: settings.watch_namespaces,
        watch_filter: settings.watch_filter,
        operator_namespace: settings.operator_namespace,
        service_account: settings.service_account,
        sessions: Arc::clone(&sessions),
        kinds,
        depends: DependencyIndex::default(),
        identities_in_use: Mutex::default(),
        static_credentials: settings.static_credentials,
        static_credentials_for: settings.static_credentials_for,
        bounds: Bounds {
            namespace_secrets: match settings.only_allowed_servers {
                true => settings.default_bound.clone(),
                false => AllowedEndpoints::Anywhere,
            },
            default: settings.default_bound,
        },
        resync: settings.resync,
        instance,
        event_rate_limit: EventRateLimit::default(),
        own_writes: OwnWrites::default(),
        requeue: settings.requeue,
    });
    let run_settings = run::Settings {
        candidate,
        concurrency: settings.concurrency.max(1),
        // A reconciliation may make a few requests to a server.
        reconcile_timeout: settings.request_timeout + settings.sessions.request_timeout * 4,
        shutdown_timeout: settings.shutdown_timeout,
    };
    run::run(context, run_settings, settings.health, stop).await;
    sessions.close().await;
}

impl<P: Provider> Reconciler for Context<P> {
    /// The kinds of the provider that it needs are served, and the operator may list them.
    async fn check_available(&self) -> Result<(), String> {
        let identities = P::IDENTITIES.map(|kind| ((kind.resource)(), false));
        let required = self.kinds.iter().filter(|kind| kind.is_required);
        let required = required.map(|kind| (kind.resource.clone(), kind.is_namespaced));
        for (resource, is_namespaced) in identities.into_iter().chain(required) {
            let api: Api<DynamicObject> = match self.namespaces.first() {
                Some(namespace) if is_namespaced => {
                    Api::namespaced_with(self.client.clone(), namespace, &resource)
                }
                _ => Api::all_with(self.client.clone(), &resource),
            };
            let one = ListParams::default().limit(1);
            let listed = api.list_metadata(&one).await.map(drop);
            listed.map_err(|error| format!("list {}: {error}", resource.plural))?;
        }
        Ok(())
    }

    async fn triggers(self: Arc<Self>) -> BoxStream<'static, Trigger> {
        super::triggers::triggers(self).await
    }

    async fn reconcile(&self, name: &str, failures: u32) -> Outcome {
        let Ok(key) = name.parse::<Key>() else {
            return Outcome::Gone;
        };
        let running = P::GUARDS_WRITES.then(|| self.own_writes.begin(&key.text()));
        let done = match self.is_assigned_to_this(&key).await {
            Ok(true) => self.reconcile_with_account(&key, failures).await,
            Ok(false) => {
                self.forget(&key);
                return Outcome::Gone;
            }
            Err(error) => Err(error),
        };
        if done.as_ref().is_ok_and(|outcome| *outcome != Outcome::Gone)
            && let Some(running) = running
        {
            self.trigger_missed(&key, running.end());
        }
        done.unwrap_or_else(|error| {
            debug!(%key, %error, "reconciliation failed");
            Outcome::Failed(Class::of(&error))
        })
    }
}

impl<P: Provider> Context<P> {
    /// Triggers what the deferred events of a reconciliation concern.
    fn trigger_missed(&self, key: &Key, missed: Missed) {
        if missed.object {
            self.requeue.add(key.text());
        }
        if missed.dependents {
            let dependents = self.depends.on(&Dependency::Object(key.clone()));
            dependents
                .into_iter()
                .for_each(|name| self.requeue.add(name));
        }
    }

    /// Reconciles an object with the rights of its namespace's service account, if the operator is
    /// to act as one. A terminating namespace has lost its RoleBindings, or is about to: the
    /// operator cleans up with its own rights then, and does nothing else with them.
    async fn reconcile_with_account(
        &self,
        key: &Key,
        failures: u32,
    ) -> Result<Outcome, kube::Error> {
        let account = self.account_for(key);
        let done = self.reconcile_object(key, failures, account).await;
        let (Some(account), Err(error)) = (account, &done) else {
            return done;
        };
        if !is_forbidden(error) {
            return done;
        }
        if self.is_terminating(key).await? {
            return match self.deletion(key).await? {
                Deletion::Pending => self.reconcile_object(key, failures, None).await,
                // A finalizer can keep a namespace terminating for ever, so this alone permits
                // nothing. The object is triggered again when it is deleted.
                Deletion::None => done,
                Deletion::Completed => {
                    self.forget(key);
                    Ok(Outcome::Gone)
                }
            };
        }
        self.report_forbidden(key, account, error).await?;
        done
    }

    /// Returns whether the namespace of an object is being deleted.
    async fn is_terminating(&self, key: &Key) -> Result<bool, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client(key.space.as_deref()));
        let namespace = namespaces
            .get_metadata_opt(key.namespace_or_empty())
            .await?;
        Ok(namespace.is_none_or(|found| found.metadata.deletion_timestamp.is_some()))
    }

    /// Returns whether an object of a namespace is being deleted.
    async fn deletion(&self, key: &Key) -> Result<Deletion, kube::Error> {
        let resource = match key.kind == GroupKind::of::<Secret>() {
            true => Some(ApiResource::erase::<Secret>(&())),
            false => self.reconciled_resource(&key.kind),
        };
        let Some(resource) = resource else {
            return Ok(Deletion::Completed);
        };
        let (client, namespace) = (self.client(key.space.as_deref()), key.namespace_or_empty());
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let found = get_named_metadata(&api, &key.name).await?;
        Ok(match found.map(|found| found.metadata.deletion_timestamp) {
            None => Deletion::Completed,
            Some(None) => Deletion::None,
            Some(Some(_)) => Deletion::Pending,
        })
    }

    /// Records that a service account lacks a right. The account may not even write conditions, so
    /// this is an event of the operator.
    async fn report_forbidden(
        &self,
        key: &Key,
        account: ServiceAccount<'_>,
        error: &kube::Error,
    ) -> Result<(), kube::Error> {
        warn!(%key, account = account.user(), %error, "service account lacks a right");
        let Some(resource) = self.reconciled_resource(&key.kind) else {
            return Ok(());
        };
        let client = self.client(key.space.as_deref());
        let namespace = key.namespace_or_empty();
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        if let Some(object) = get_named(&api, &key.name).await? {
            let note = NewEvent {
                warning: true,
                reason: "ServiceAccountForbidden",
                note: format!(
                    "the operator acts as service account {} here, which lacks a right: {error}: \
                     bind a role with this right to it",
                    account.name
                ),
            };
            let reconciliation = Reconciliation::new(self, key, 0, None);
            reconciliation
                .record_event_of(&object, &resource, note)
                .await;
        }
        Ok(())
    }

    /// Reconciles an object, and records what it depends on. After a failure, what it depended on
    /// before still counts.
    async fn reconcile_object(
        &self,
        key: &Key,
        failures: u32,
        account: Option<ServiceAccount<'_>>,
    ) -> Result<Outcome, kube::Error> {
        let reconciliation = Reconciliation::new(self, key, failures, account);
        let identities = P::IDENTITIES.filter(|kind| is_of(key, &(kind.resource)()));
        let outcome = if let Some(kind) = identities {
            identity::reconcile(&reconciliation, kind).await?
        } else if key.kind == GroupKind::of::<Secret>() {
            secret::reconcile(&reconciliation).await?
        } else {
            P::reconcile(&reconciliation).await?
        };
        match outcome {
            Outcome::Gone => self.forget(key),
            _ => {
                let (depends, borrowed) = reconciliation.into_dependencies();
                self.set_dependencies(key, depends, borrowed);
            }
        }
        Ok(outcome)
    }

    /// Returns whether an object is still assigned to this operator: a user may have changed its
    /// label. Secrets have no label, and belong to the operator of their holders. A deleted object
    /// is handled as before.
    async fn is_assigned_to_this(&self, key: &Key) -> Result<bool, kube::Error> {
        if self.watch_filter.is_none() {
            return Ok(true);
        }
        let identities = P::IDENTITIES.map(|kind| (kind.resource)());
        let identities = identities.filter(|resource| is_of(key, resource));
        let resource = identities.or_else(|| self.reconciled_resource(&key.kind));
        let Some(resource) = resource else {
            return Ok(true);
        };
        let client = self.client(key.space.as_deref());
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let found = api.get_metadata_opt(&key.name).await?;
        Ok(found.is_none_or(|found| self.is_assigned(&found.metadata)))
    }
}

/// Whether an object is being deleted.
enum Deletion {
    /// It is not.
    None,
    /// It waits for its finalizers.
    Pending,
    /// It does not exist any more.
    Completed,
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn is_of(key: &Key, resource: &ApiResource) -> bool {
    key.kind == GroupKind::of_resource(resource)
}
