//! Settings and start of the operator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insula_dialer::AddressRules;
use insula_identity::credential::Hidden;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::Concurrency;
use insula_operator::outbound::HttpClients;
use insula_operator::provider::{self, StaticCredentials};
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Azure;
use super::assertions::ServiceAccountTokens;
use super::credentials::Terms;
use super::foreign_claim::ForeignClaims;
use super::namespace_claim::NamespaceClaims;
use super::original_version::OriginalVersions;
use super::ownership::{Owners, RecordKey};
use super::pacing::Pacing;
use super::provider::SharedThrottle;
use super::rate_limit::ReconcileLimit;
use super::served::{Outdated, ServedKinds};
use crate::arm::session::{REQUEST_TIMEOUT, TOKEN_TIMEOUT};
use crate::arm::throttle::Throttle;
use crate::arm::{Subscriptions, client};
use crate::entra::base_url::{BaseUrl, Cleartext};
use crate::entra::cloud::InvalidCloud;
use crate::entra::shape::ManagedIdentities;
use crate::entra::{AccountShape, Cloud, TokenFile};
use crate::mapping::export::cel::Cel;
use crate::settings::{
    GlobalCredential, InvalidSettings, Proof, Settings, TargetNamespaces, WorkloadIdentityMode,
};
use crate::webhooks::SharedExpressions;

/// How often the operator asks which kinds the server has, to notice new ones.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(60);
/// The same while there are none: the operator was started before its definitions were applied.
const FIRST_DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);
/// The timeout of a login: it is longer than that of a token, because the pool of sessions takes a
/// login that it gives up for a failure of ARM.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(12);

/// An operator to run.
#[derive(Clone)]
pub struct Operator {
    /// The settings that all providers have.
    pub shell: provider::Settings,
    /// The settings of the operator, as Azure Service Operator has them.
    pub settings: Settings,
    /// The addresses of endpoints that Secrets of tenants name.
    pub addresses: AddressRules,
    /// Authorities whose certificates are trusted besides the usual ones, in DER.
    pub authorities: Vec<Vec<u8>>,
    /// Whether endpoints on this machine may be without TLS, for tests.
    pub cleartext: Cleartext,
    /// The evaluator of expressions in exports.
    pub expressions: SharedExpressions,
    /// The file with the token of the operator's own service account.
    pub token_file: TokenFile,
}

impl Operator {
    /// Returns an operator with these settings.
    pub fn new(identity: impl Into<String>, settings: Settings) -> Self {
        let namespace = settings.pod_namespace.clone();
        let mut shell = provider::Settings::new(identity, &namespace, LOGIN_TIMEOUT);
        if let TargetNamespaces::Only(namespaces) = &settings.target_namespaces {
            shell.namespaces = namespaces.iter().cloned().collect();
            // A tenant's operator has no right to all Namespaces.
            shell.watch_namespaces = false;
        }
        let token_file = match settings.credential.as_ref().map(|own| &own.proof) {
            Some(Proof::WorkloadIdentity { token_file }) => TokenFile(token_file.into()),
            _ => TokenFile::default(),
        };
        shell.concurrency = settings.concurrent_reconciles.max(1) * WORKERS_PER_RECONCILE;
        shell.sessions.concurrency = match settings.multiple_clouds {
            true => Concurrency::of_many_endpoints((shell.concurrency / 4).max(1)),
            false => Concurrency::of_one_endpoint(shell.concurrency * 3 / 4),
        };
        Self {
            shell,
            settings,
            addresses: AddressRules::default(),
            authorities: Vec::new(),
            cleartext: Cleartext::Refused,
            expressions: Arc::new(Cel),
            token_file,
        }
    }
}

/// How many workers there are for each concurrent reconciliation of a kind: one operator has many
/// kinds, and most of its reconciliations do not call Azure.
const WORKERS_PER_RECONCILE: usize = 8;

/// Why the operator does not run.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// Definitions are older than the operator.
    #[error("{}", lines(.0))]
    Outdated(Vec<Outdated>),
    /// An endpoint is invalid.
    #[error("the settings name an invalid endpoint: {0}")]
    Cloud(#[from] InvalidCloud),
    /// Settings are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// The suffix of the user agent is invalid.
    #[error("AZURE_USER_AGENT_SUFFIX has a character that a header cannot have")]
    UserAgent,
    /// The address of the metadata service is invalid.
    #[error("the address of the metadata service is invalid: {0}")]
    MetadataService(String),
    /// The API server cannot be asked which kinds it has.
    #[error("the API server cannot be asked which kinds it has: {0}")]
    Discovery(#[source] Box<kube::Error>),
}

fn lines(outdated: &[Outdated]) -> String {
    let lines: Vec<_> = outdated.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Checks settings without running anything.
///
/// # Errors
///
/// If the operator cannot run with them.
pub fn check(client: &Client, operator: &Operator) -> Result<(), NotStarted> {
    Parts::new(client, operator).map(drop)
}

/// Runs the operator until the stop signal. When the server gets further kinds, all watches start
/// anew.
///
/// # Errors
///
/// If it cannot run with these settings or definitions.
pub async fn run(
    client: Client,
    operator: Operator,
    stop: impl Future<Output = ()>,
) -> Result<(), NotStarted> {
    let parts = Parts::new(&client, &operator)?;
    let claims = NamespaceClaims {
        client: client.clone(),
        operator: operator.settings.pod_namespace.clone(),
        instance: operator.shell.identity.clone(),
        namespaces: operator.shell.namespaces.clone(),
        times: operator.shell.times,
    };
    let ended = tokio::select! {
        ended = serve(&client, &operator, &parts, stop) => ended,
        () = claims.keep() => Ok(()),
    };
    claims.release().await;
    ended
}

async fn serve(
    client: &Client,
    operator: &Operator,
    parts: &Parts,
    stop: impl Future<Output = ()>,
) -> Result<(), NotStarted> {
    let mut stop = std::pin::pin!(stop);
    // Definitions that are too old are reported before anything else is needed.
    let mut served = discover(client).await?;
    let key = tokio::select! {
        key = RecordKey::load(client, &operator.settings.pod_namespace) => key,
        () = &mut stop => return Ok(()),
    };
    loop {
        info!(kinds = served.iter().count(), "operator configured");
        if served.is_empty() {
            warn!("no kinds served: apply what `insula operator azure manifests` prints");
        }
        let provider = parts.provider(operator, Arc::clone(&served), key.clone());
        let connector = parts.subscriptions.clone();
        let mut is_stopped = false;
        let until = async {
            tokio::select! {
                () = &mut stop => is_stopped = true,
                () = kinds_changed(client, &served) => info!("kinds changed"),
            }
        };
        let shell = parts.shell.clone();
        provider::run(client.clone(), provider, connector, shell, until).await;
        if is_stopped {
            return Ok(());
        }
        served = discover(client).await?;
    }
}

async fn discover(client: &Client) -> Result<Arc<ServedKinds>, NotStarted> {
    let served = ServedKinds::discover(client).await;
    let served = served.map_err(|error| NotStarted::Discovery(Box::new(error)))?;
    let outdated = served.outdated();
    match outdated.is_empty() {
        true => Ok(Arc::new(served)),
        false => Err(NotStarted::Outdated(outdated)),
    }
}

/// Waits until the server has other kinds.
async fn kinds_changed(client: &Client, known: &ServedKinds) {
    let interval = match known.is_empty() {
        true => FIRST_DISCOVERY_INTERVAL,
        false => DISCOVERY_INTERVAL,
    };
    let mut has_failed = false;
    loop {
        tokio::time::sleep(interval).await;
        match ServedKinds::discover(client).await {
            Ok(served) if served != *known => return,
            Ok(_) => has_failed = false,
            // One line is enough until it succeeds again.
            Err(error) if has_failed => debug!(%error, "discovery failed"),
            Err(error) => {
                warn!(%error, "discovery failed");
                has_failed = true;
            }
        }
    }
}

/// What stays the same while kinds change.
struct Parts {
    terms: Terms,
    subscriptions: Subscriptions,
    throttle: Arc<SharedThrottle>,
    shell: provider::Settings,
}

impl Parts {
    fn new(client: &Client, operator: &Operator) -> Result<Self, NotStarted> {
        let settings = &operator.settings;
        let cloud = Cloud::custom(
            &settings.cloud.authority_host,
            &settings.cloud.resource_manager_endpoint,
            &settings.cloud.resource_manager_audience,
            operator.cleartext,
        )?;
        let own_bound = match settings.multiple_clouds {
            true => AllowedEndpoints::Anywhere,
            false => {
                AllowedEndpoints::Only(vec![(cloud.resource_manager.endpoint().clone(), None)])
            }
        };
        let metadata_service =
            BaseUrl::parse(&settings.metadata_endpoint, Cleartext::MetadataService);
        let metadata_service =
            metadata_service.map_err(|error| NotStarted::MetadataService(error.to_string()))?;
        // The administrator chose these, wherever they are.
        let trusted = [&cloud.resource_manager, &cloud.authority, &metadata_service];
        let trusted = trusted.map(|server| (server.endpoint().clone(), None));
        let trusted = AllowedEndpoints::Only(trusted.to_vec());
        let shape = AccountShape {
            cloud,
            may_name_endpoints: settings.multiple_clouds,
            managed_identities: managed_identities(settings),
            shares_own_token: settings.workload_identity_mode == WorkloadIdentityMode::Relaxed,
            cleartext: operator.cleartext,
        };
        let mut shell = operator.shell.clone();
        let own = settings.credential.as_ref().map(own_credential);
        shell.static_credentials = watch::channel(own).1;
        let throttle = Arc::new(Mutex::new(Throttle::default()));
        let suffix = settings.user_agent_suffix.as_deref().unwrap_or_default();
        let clients = HttpClients::new(operator.authorities.clone())
            .restricted(operator.addresses.clone(), trusted);
        Ok(Self {
            terms: Terms {
                mode: settings.credential_mode,
                // Questions about credentials live as long as the process.
                shape: Box::leak(Box::new(shape)),
                own_bound,
                has_own: settings.credential.is_some() && settings.credential_mode.uses_operator(),
            },
            subscriptions: Subscriptions {
                clients,
                assertions: Arc::new(ServiceAccountTokens {
                    client: client.clone(),
                    mode: settings.workload_identity_mode,
                    own: operator.token_file.clone(),
                }),
                metadata_service,
                user_agent: client::user_agent(suffix).map_err(|_| NotStarted::UserAgent)?,
                cleartext: operator.cleartext,
                observer: Arc::clone(&throttle) as _,
                request_timeout: REQUEST_TIMEOUT,
                token_timeout: TOKEN_TIMEOUT,
            },
            throttle,
            shell,
        })
    }

    fn provider(&self, operator: &Operator, served: Arc<ServedKinds>, key: RecordKey) -> Azure {
        let namespace = &operator.settings.pod_namespace;
        Azure {
            namespace: namespace.clone(),
            foreign_claims: operator
                .shell
                .namespaces
                .is_empty()
                .then(ForeignClaims::default),
            served,
            terms: self.terms.clone(),
            default_policy: operator.settings.default_policy,
            pacing: Pacing::new(operator.settings.sync_period),
            rate_limit: ReconcileLimit::new(operator.settings.rate_limit, Instant::now()),
            originals: OriginalVersions::default(),
            owners: Owners::new(namespace.clone(), key, Arc::clone(&self.shell.requeue)),
            throttle: Arc::clone(&self.throttle),
            expressions: Arc::clone(&operator.expressions),
        }
    }
}

/// Returns the managed identities that Secrets may name: the operator's own, if every object may use
/// it anyway.
fn managed_identities(settings: &Settings) -> ManagedIdentities {
    match &settings.credential {
        Some(own)
            if own.proof == Proof::ManagedIdentity && settings.credential_mode.uses_operator() =>
        {
            ManagedIdentities::Own(own.client.clone().unwrap_or_default())
        }
        _ => ManagedIdentities::Refused,
    }
}

/// Returns the operator's own credential, as a Secret would have it.
fn own_credential(own: &GlobalCredential) -> StaticCredentials {
    use crate::entra::shape::{
        ADDITIONAL_TENANTS, AUTH_MODE, CERTIFICATE, CERTIFICATE_PASSWORD, CLIENT_ID, CLIENT_SECRET,
        SUBSCRIPTION_ID, TENANT_ID,
    };
    let mut data = BTreeMap::new();
    let mut insert = |key: &str, value: Hidden| data.insert(key.to_owned(), value);
    insert(SUBSCRIPTION_ID, Hidden::new(own.subscription.as_str()));
    for (key, value) in [(TENANT_ID, &own.tenant), (CLIENT_ID, &own.client)] {
        if let Some(value) = value {
            insert(key, Hidden::new(value.as_str()));
        }
    }
    if !own.additional_tenants.is_empty() {
        insert(
            ADDITIONAL_TENANTS,
            Hidden::new(own.additional_tenants.join(",")),
        );
    }
    match &own.proof {
        Proof::Secret(secret) => drop(insert(CLIENT_SECRET, secret.clone())),
        Proof::Certificate { content, password } => {
            insert(CERTIFICATE, content.clone());
            if let Some(password) = password {
                insert(CERTIFICATE_PASSWORD, password.clone());
            }
        }
        Proof::ManagedIdentity => drop(insert(AUTH_MODE, Hidden::new("podidentity"))),
        Proof::WorkloadIdentity { .. } => {}
    }
    StaticCredentials {
        data,
        bound: AllowedEndpoints::Anywhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_secrets_name_do_not_share_the_workers_of_one_endpoint() {
        for (value, is_many) in [("false", false), ("true", true)] {
            let values = [
                ("POD_NAMESPACE", "a-system"),
                ("ALLOW_MULTI_ENV_MANAGEMENT", value),
            ];
            let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let settings = Settings::parse(&values.into()).unwrap().settings;
            let shell = Operator::new("test", settings).shell;
            let expected = match is_many {
                true => Concurrency::of_many_endpoints(shell.concurrency / 4),
                false => Concurrency::of_one_endpoint(shell.concurrency * 3 / 4),
            };
            assert_eq!(shell.sessions.concurrency, expected, "{value}");
        }
    }
}
