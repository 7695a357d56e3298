//! Deployment of a broker: `deploy broker`.
//!
//! Every step is idempotent, so that an interrupted deployment is simply run again. The file
//! is written last and atomically: it holds the only copy of the pre-shared key.

mod key;
mod networks;
mod rbac;
mod target;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use insula_operator::managed::{self, Drift, Ensured};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{ApiResource, DynamicObject};
use kube::core::Status;
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::Instant;

use crate::broker::{Broker, BrokerSpec};
use crate::error::Error;
use crate::globalnet::{ClustersetIp, Globalnet};
use crate::info::{self, BrokerInfo};
use crate::names::{self, ADMIN, BROKER};
use crate::report::Report;
use crate::{component, connect, crds, mode, token};

pub use key::PskSource;
pub use target::{CredentialSource, Target};

/// The settings of a deployment.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// A file with the broker's address, credentials and key, each as far as it has them.
    pub info_from: Option<PathBuf>,
    /// The namespace, if the file has none.
    pub namespace: Option<String>,
    /// The components that joining clusters run.
    pub components: BTreeSet<String>,
    /// The settings of global addresses; disabled if `None`.
    pub globalnet: Option<Globalnet>,
    /// The settings of ClusterSet IPs; the defaults if `None`.
    pub clusterset_ip: Option<ClustersetIp>,
    /// Domains that are resolved across clusters, in addition to the default one.
    pub custom_domains: Vec<String>,
    /// The URL for clusters, if it differs from the one in use.
    pub broker_url: Option<String>,
    /// Whether to generate a new pre-shared key in any case, which cuts off the clusters that
    /// have joined.
    pub new_psk: bool,
    /// The file to write.
    pub output: PathBuf,
    /// How long a token may take to be issued.
    pub token_timeout: Duration,
}

/// The result of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The namespace.
    pub namespace: String,
    /// The URL in the file.
    pub url: String,
    /// Whether the cluster is in Axon mode.
    pub mode: Mode,
    /// The file.
    pub file: PathBuf,
    /// The backup of the previous file.
    pub backup: Option<PathBuf>,
    /// The origin of the pre-shared key.
    pub psk: PskSource,
}

/// Whether a cluster has brokers of many tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The cluster does not serve tenants.
    Classic,
    /// The cluster serves tenants.
    Axon,
}

/// Deploys a broker. `context` comes from the kubeconfig; it is used, and its error returned,
/// only for what the file does not contain.
///
/// # Errors
///
/// Invalid settings, before any request is sent; missing permissions; any error of the server.
pub async fn deploy(
    context: Result<Config, Error>,
    settings: &BrokerSettings,
    report: &dyn Report,
) -> Result<Deployed, Error> {
    let prepared = Prepared::new(context, settings, report)?;
    let client = prepared.target.client()?;
    prepared.deploy(&client, settings, report).await
}

/// Deploys a broker with the target and credentials of `info` instead of a file.
///
/// # Errors
///
/// As for [`deploy`].
pub async fn deploy_with(
    info: &BrokerInfo,
    settings: &BrokerSettings,
    report: &dyn Report,
) -> Result<Deployed, Error> {
    let no_context = Err(Error::invalid("no kube context is used"));
    let prepared = Prepared::with(no_context, settings, Some(info), report)?;
    let client = prepared.target.client()?;
    prepared.deploy(&client, settings, report).await
}

/// A validated deployment: its target and key. Nothing was sent or written yet.
pub struct Prepared {
    /// The target cluster and credential.
    pub target: Target,
    psk: key::Candidates,
}

impl Prepared {
    /// Validates the settings and reads the files.
    ///
    /// # Errors
    ///
    /// Invalid settings; missing information.
    pub fn new(
        context: Result<Config, Error>,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Self, Error> {
        let given = settings.info_from.as_deref().map(BrokerInfo::read);
        let given = given.transpose()?;
        Self::with(context, settings, given.as_ref(), report)
    }

    fn with(
        context: Result<Config, Error>,
        settings: &BrokerSettings,
        given: Option<&BrokerInfo>,
        report: &dyn Report,
    ) -> Result<Self, Error> {
        validate(settings)?;
        info::check(&settings.output)?;
        let target = Target::resolve(context, settings, given, report)?;
        let psk = key::read_candidates(settings, given, &target)?;
        Ok(Self { target, psk })
    }

    /// Deploys with a client of [`Self::place`].
    ///
    /// # Errors
    ///
    /// Missing permissions; any error of the server.
    pub async fn deploy(
        self,
        client: &Client,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Deployed, Error> {
        let namespace = self.target.namespace.as_str();
        let asked = mode::is_axon(client, namespace).await;
        // The first request: a connection error names the address.
        let mode = match asked.map_err(|error| error.at(&self.target.config.cluster_url))? {
            true => Mode::Axon,
            false => Mode::Classic,
        };
        let instead = self.target.context_fallback(client, mode, report).await?;
        let client = instead.as_ref().unwrap_or(client);
        if mode == Mode::Axon {
            verify_kinds(client).await?;
        }
        let psk = self
            .psk
            .resolve(client, namespace, settings, report)
            .await?;
        let secret = set_up(client, namespace, mode, settings, report).await?;
        if mode == Mode::Classic {
            install_kinds(client, report).await?;
        }
        // Before the Broker: its spec shows the addresses in force, which may not be the
        // requested ones.
        let addresses = networks::ensure(client, namespace, settings, report).await?;
        ensure_broker(client, namespace, spec(settings, &addresses), report).await?;
        write(&self.target, mode, settings, secret, psk, report)
    }
}

/// Validates the settings.
fn validate(settings: &BrokerSettings) -> Result<(), Error> {
    let components: Vec<String> = settings.components.iter().cloned().collect();
    component::parse(&components)?;
    if let Some(namespace) = &settings.namespace
        && !names::is_label(namespace)
    {
        let message = format!("{namespace:?} is not a valid namespace name");
        return Err(Error::invalid(message));
    }
    let url = settings.broker_url.as_deref().map(connect::url);
    url.transpose().map(drop)
}

/// Ensures the namespace, account, roles and bindings; returns the token.
async fn set_up(
    client: &Client,
    namespace: &str,
    mode: Mode,
    settings: &BrokerSettings,
    report: &dyn Report,
) -> Result<Secret, Error> {
    report.begin("Setting up broker RBAC");
    rbac::ensure_namespace(client, namespace, report).await?;
    rbac::ensure(client, namespace, mode, report).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = accounts.get(ADMIN).await;
    let account = account.map_err(Error::when(format!("read service account {ADMIN}")))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = token::ensure_for(&secrets, &account, settings.token_timeout).await?;
    report.done("Set up broker RBAC");
    Ok(secret)
}

/// Checks that the kinds are served: tenants may not install them.
async fn verify_kinds(client: &Client) -> Result<(), Error> {
    let mut missing = mode::missing_kinds(client).await?;
    if !missing.is_empty() {
        // One of several API servers may not know a new kind yet.
        tokio::time::sleep(mode::DISCOVERY_LAG).await;
        missing = mode::missing_kinds(client).await?;
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::NoKinds(missing)),
    }
}

/// Installs the kinds. A caller without that permission needs it only if a kind is missing.
async fn install_kinds(client: &Client, report: &dyn Report) -> Result<(), Error> {
    match crds::ensure(client, &crds::broker_kinds(), report).await {
        Err(refused) if refused.is_forbidden() => {
            let verified = verify_kinds(client).await;
            verified.map_err(|missing| match missing {
                Error::NoKinds(_) => refused,
                other => other,
            })
        }
        installed => {
            installed?;
            await_kinds(client).await
        }
    }
}

/// How long a server may take to serve an established kind.
const SERVE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a new kind may be unknown to some API servers.
const DISCOVERY_LAG: Duration = Duration::from_secs(2);
/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until new kinds are served.
async fn await_kinds(client: &Client) -> Result<(), Error> {
    let deadline = Instant::now() + SERVE_TIMEOUT;
    loop {
        let verified = verify_kinds(client).await;
        match verified {
            Err(Error::NoKinds(_)) if Instant::now() < deadline => {}
            done => return done,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Creates the Broker object, or replaces its spec.
async fn ensure_broker(
    client: &Client,
    namespace: &str,
    spec: BrokerSpec,
    report: &dyn Report,
) -> Result<(), Error> {
    report.begin("Deploying the broker");
    let kind = ApiResource::erase::<Broker>(&());
    let spec = json!({ "spec": spec });
    let wanted = DynamicObject::new(BROKER, &kind)
        .within(namespace)
        .data(spec);
    let brokers = Api::namespaced_with(client.clone(), namespace, &kind);
    let deadline = Instant::now() + DISCOVERY_LAG;
    let ensured = loop {
        match managed::ensure_by(&brokers, &wanted, compare_broker).await {
            // The kind is new, and one of several API servers may not know it yet.
            Err(kube::Error::Api(status))
                if is_kind_missing(&status) && Instant::now() < deadline => {}
            ensured => break ensured,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    let attempted = format!("put the broker into namespace {namespace}");
    report.done(match ensured.map_err(Error::when(attempted))? {
        Ensured::Unchanged => "The broker is unchanged",
        Ensured::Created => "Deployed the broker",
        Ensured::Replaced => "Updated the broker",
    });
    Ok(())
}

/// Compares specs as JSON: an existing one may have fields that our type lacks.
fn compare_broker(wanted: &DynamicObject, found: &DynamicObject) -> Drift<DynamicObject> {
    if found.data["spec"] == wanted.data["spec"] {
        return Drift::InSync;
    }
    let mut replacement = found.clone();
    replacement.data["spec"] = wanted.data["spec"].clone();
    Drift::Replace(Box::new(replacement))
}

/// Returns whether a 404 is about the kind and not about an object.
fn is_kind_missing(status: &Status) -> bool {
    let named = status.details.as_ref().map(|details| details.name.as_str());
    status.code == 404 && named.is_none_or(str::is_empty)
}

fn spec(settings: &BrokerSettings, addresses: &networks::InForce) -> BrokerSpec {
    let networks::InForce {
        globalnet,
        clusterset_ip,
    } = addresses;
    BrokerSpec {
        components: settings.components.iter().cloned().collect(),
        default_custom_domains: settings.custom_domains.clone(),
        globalnet_cidr_range: globalnet.range.to_string(),
        default_globalnet_cluster_size: globalnet.cluster_size,
        globalnet_enabled: globalnet.enabled,
        clusterset_ip_cidr_range: clusterset_ip.range.to_string(),
        clusterset_ip_enabled: clusterset_ip.enabled,
    }
}

/// Writes the file.
fn write(
    target: &Target,
    mode: Mode,
    settings: &BrokerSettings,
    secret: Secret,
    (key, psk): (Secret, PskSource),
    report: &dyn Report,
) -> Result<Deployed, Error> {
    let file = settings.output.clone();
    report.begin(&format!("Saving broker info to file {file:?}"));
    let info = BrokerInfo {
        url: target.advertised_url.clone(),
        client_token: Some(token::for_distribution(secret)),
        ipsec_psk: Some(key),
        components: settings.components.clone(),
        custom_domains: settings.custom_domains.clone(),
        namespace: Some(target.namespace.clone()),
    };
    let saved = info::save(&file, &info)?;
    if let Some(backup) = &saved.backup {
        report.done(&format!("Backed up previous file {file:?} to {backup:?}"));
    }
    report.done(&format!("Saved broker info to file {file:?}"));
    Ok(Deployed {
        namespace: info.namespace.unwrap_or_default(),
        url: info.url,
        mode,
        file,
        backup: saved.backup,
        psk,
    })
}
