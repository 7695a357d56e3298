//! Operators in the server process.
//!
//! Each is an ordinary API client: it connects over TLS to the listen address, and has the
//! permissions of the service account that it would have in a pod, which is none until
//! granted. So an operator has the same permissions wherever it runs.

mod azure;
mod credentials;
mod in_process;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use insula_apiserver::egress::InProcessServices;
use insula_broker::names::AXON;
use insula_core::TenantName;
use insula_dialer::{AddressRules, Cidr};
use insula_identity::endpoint::AllowedEndpoints;
use insula_metal3::hosts::release::FastTrack;
use insula_operator::provider;
use insula_operator::webhook::{Router, WebhookService};
use insula_vsphere::names::{ACCOUNT, NAMESPACE};
use insula_vsphere::operator::StaticCredentials;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use self::azure::AzureArgs;
use self::azure::AzureSettings;
pub use self::credentials::{MAX_LIFETIME, OperatorCredentials};
use crate::failure::Failure;
use crate::operator::metal3;
use crate::operator::vsphere::{self, AllowedServer};
use crate::process;

/// The operators that can run in the server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Operator {
    /// Creates Azure resources in the system space and in all tenants
    Azure,
    /// Provisions the tenants of `subctl create tenant`
    Broker,
    /// Provisions bare-metal clusters with Metal3 in the system space and in all tenants
    Metal3,
    /// Provisions clusters on vSphere in the system space and in all tenants
    Vsphere,
}

impl Operator {
    /// Returns its webhooks, and the Service that configurations name.
    fn webhooks(self, settings: &OperatorSettings) -> Option<(WebhookService, Router)> {
        match self {
            Self::Azure => Some(settings.azure.webhooks()),
            Self::Broker => None,
            Self::Metal3 => Some((
                insula_metal3::webhooks::service(),
                insula_metal3::webhooks::router(),
            )),
            Self::Vsphere => Some((
                insula_vsphere::webhooks::service(),
                insula_vsphere::webhooks::router(),
            )),
        }
    }
}

/// The arguments of `--operators vsphere`.
#[derive(clap::Args)]
pub struct VsphereArgs {
    /// With --operators vsphere: file with username, password and servers for clusters of the
    /// system space without an identity
    #[arg(long = "vsphere-credentials-file", value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,

    /// With --operators vsphere: vCenter that credentials without a `server` key may be sent to:
    /// HOST, HOST=THUMBPRINT or HOST=insecure (repeatable)
    #[arg(long = "vsphere-allowed-server", value_name = "SERVER")]
    #[arg(value_parser = AllowedServer::parse)]
    pub allowed_servers: Vec<AllowedServer>,

    /// With --operators vsphere: send Secrets in namespaces only to the vCenters of
    /// --vsphere-allowed-server as well
    #[arg(long = "vsphere-only-allowed-servers", requires = "allowed_servers")]
    pub only_allowed_servers: bool,

    /// With --operators vsphere: addresses around the server that vCenters of teams may have,
    /// besides private networks
    #[arg(
        long = "vsphere-allow-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub allow_addresses: Vec<Cidr>,

    /// With --operators vsphere: addresses that vCenters of teams may not have; takes precedence
    #[arg(
        long = "vsphere-deny-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub deny_addresses: Vec<Cidr>,

    /// With --operators vsphere: tenants whose clusters may use --vsphere-credentials-file too
    /// (default: none)
    #[arg(
        long = "vsphere-static-credentials-tenants",
        visible_alias = "static-credentials-tenants",
        value_name = "NAME",
        value_delimiter = ',',
        requires = "credentials_file",
        value_parser = TenantName::parse
    )]
    pub static_credentials_tenants: Vec<TenantName>,
}

/// The arguments of `--operators metal3`.
#[derive(clap::Args)]
pub struct Metal3Args {
    /// With --operators metal3: accept kubeconfigs with insecure-skip-tls-verify, and report them
    #[arg(
        id = "metal3_allow_insecure_hosts",
        long = "metal3-allow-insecure-hosts"
    )]
    pub allow_insecure_hosts: bool,

    /// With --operators metal3: leave hosts switched on between two machines, unless their disks
    /// are not cleaned
    #[arg(id = "metal3_fast_track", long = "metal3-fast-track")]
    pub fast_track: bool,

    /// With --operators metal3: addresses around the server that API servers of hosts may have,
    /// besides private networks; an Insula that keeps hosts itself needs its own
    #[arg(
        id = "metal3_allow_addresses",
        long = "metal3-allow-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub allow_addresses: Vec<Cidr>,

    /// With --operators metal3: addresses that API servers of hosts may not have; takes precedence
    #[arg(
        id = "metal3_deny_addresses",
        long = "metal3-deny-address",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub deny_addresses: Vec<Cidr>,
}

/// The settings of the Metal3 operator.
#[derive(Clone, Debug)]
struct Metal3Settings {
    addresses: AddressRules,
    allow_insecure_hosts: bool,
    fast_track: FastTrack,
}

/// The requested operators and their settings.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// The operators.
    pub operators: BTreeSet<Operator>,
    /// The vCenters that credentials without a server may be sent to.
    bound: AllowedEndpoints,
    /// Whether Secrets in namespaces may be sent to these only as well.
    only_allowed: bool,
    /// The addresses that vCenters of teams may have.
    addresses: AddressRules,
    /// The credentials file for clusters of the system space without an identity.
    credentials: Option<PathBuf>,
    /// The tenants with clusters that may use that file too.
    credentials_tenants: BTreeSet<String>,
    /// The service account of each namespace that providers act as there.
    service_account: Option<String>,
    metal3: Metal3Settings,
    azure: AzureSettings,
}

impl OperatorSettings {
    /// Builds the settings from the arguments.
    pub fn of(
        operators: Vec<Operator>,
        service_account: Option<String>,
        vsphere: VsphereArgs,
        metal3: Metal3Args,
        azure: AzureArgs,
    ) -> Result<Self, Failure> {
        Ok(Self {
            operators: operators.into_iter().collect(),
            bound: vsphere::bound(vsphere.allowed_servers),
            only_allowed: vsphere.only_allowed_servers,
            addresses: vsphere::addresses(vsphere.allow_addresses, vsphere.deny_addresses),
            credentials: vsphere.credentials_file,
            credentials_tenants: vsphere::names(&vsphere.static_credentials_tenants),
            service_account,
            metal3: Metal3Settings {
                addresses: metal3::addresses(metal3.allow_addresses, metal3.deny_addresses),
                allow_insecure_hosts: metal3.allow_insecure_hosts,
                fast_track: FastTrack::from_flag(metal3.fast_track),
            },
            azure: AzureSettings::of(azure)?,
        })
    }

    /// Returns the settings of the vSphere operator.
    fn vsphere(
        &self,
        given: watch::Receiver<Option<StaticCredentials>>,
    ) -> insula_vsphere::operator::Settings {
        let defaults = insula_vsphere::operator::Settings::new(process::name(), given);
        insula_vsphere::operator::Settings {
            shell: provider::Settings {
                tenants: true,
                default_bound: self.bound.clone(),
                only_allowed_servers: self.only_allowed,
                static_credentials_for: self.credentials_tenants.clone(),
                service_account: self.service_account.clone(),
                ..defaults.shell
            },
            addresses: self.addresses.clone(),
            ..defaults
        }
    }

    /// Returns the settings of the Metal3 operator.
    fn metal3(&self) -> insula_metal3::operator::Settings {
        let mut settings = insula_metal3::operator::Settings::new(process::name());
        settings.shell.tenants = true;
        settings.shell.service_account = self.service_account.clone();
        settings.addresses = self.metal3.addresses.clone();
        settings.allow_insecure_hosts = self.metal3.allow_insecure_hosts;
        settings.fast_track = self.metal3.fast_track;
        settings
    }
}

/// The operators of one server: they start when it is ready and end before it does.
pub struct Operators {
    tasks: JoinSet<()>,
    begin: Vec<oneshot::Sender<()>>,
    stop: watch::Sender<bool>,
    in_process: InProcessServices,
}

/// The delay before an operator that ended is restarted.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// How long operators may take to finish on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

impl Operators {
    /// Creates the operators' tasks, which wait for the start signal.
    pub fn new(
        settings: &OperatorSettings,
        credentials: impl Fn() -> Result<OperatorCredentials, Failure>,
    ) -> Result<Self, Failure> {
        let (stop, _) = watch::channel(false);
        let mut operators = Self {
            tasks: JoinSet::new(),
            begin: Vec::new(),
            stop,
            in_process: in_process::services(
                settings
                    .operators
                    .iter()
                    .filter_map(|operator| operator.webhooks(settings)),
            ),
        };
        for &operator in &settings.operators {
            let work = Work::of(operator, settings);
            let (begin, begun) = oneshot::channel();
            let (credentials, stopped) = (credentials()?, operators.stop.subscribe());
            operators.begin.push(begin);
            operators.tasks.spawn(async move {
                // The sender is dropped if the server does not become ready.
                if begun.await.is_ok() {
                    run(work, credentials, stopped).await;
                }
            });
        }
        Ok(operators)
    }

    /// Takes the operators' webhooks, which the server calls directly.
    pub fn take_webhooks(&mut self) -> InProcessServices {
        std::mem::take(&mut self.in_process)
    }

    /// Returns the function that signals that the server is ready.
    pub fn starter(&mut self) -> impl FnOnce() + use<> {
        let begin = std::mem::take(&mut self.begin);
        move || {
            for one in begin {
                one.send(()).ok();
            }
        }
    }

    /// Stops the operators and waits for them.
    pub async fn end(&mut self) {
        self.stop.send_replace(true);
        let over = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, over).await.is_err() {
            tracing::warn!("operator shutdown timed out");
        }
        self.tasks.shutdown().await;
    }
}

/// The work of one operator.
enum Work {
    Azure(Box<OperatorSettings>),
    Broker,
    Metal3(Box<OperatorSettings>),
    Vsphere {
        given: watch::Receiver<Option<StaticCredentials>>,
        settings: Box<OperatorSettings>,
    },
}

impl Work {
    fn of(operator: Operator, settings: &OperatorSettings) -> Self {
        match operator {
            Operator::Azure => Self::Azure(Box::new(settings.clone())),
            Operator::Broker => Self::Broker,
            Operator::Metal3 => Self::Metal3(Box::new(settings.clone())),
            Operator::Vsphere => Self::Vsphere {
                given: match &settings.credentials {
                    Some(file) => vsphere::follow(file, &settings.bound),
                    None => watch::channel(None).1,
                },
                settings: Box::new(settings.clone()),
            },
        }
    }

    /// Returns its service account: namespace and name.
    const fn account(&self) -> (&'static str, &'static str) {
        match self {
            Self::Azure(_) => (
                insula_azure::names::SYSTEM_NAMESPACE,
                insula_azure::manifests::ACCOUNT,
            ),
            Self::Broker => (AXON, AXON),
            Self::Metal3(_) => (
                insula_metal3::names::NAMESPACE,
                insula_metal3::names::ACCOUNT,
            ),
            Self::Vsphere { .. } => (NAMESPACE, ACCOUNT),
        }
    }

    /// Returns its user agent.
    const fn program(&self) -> &'static str {
        match self {
            Self::Azure(_) => insula_azure::names::AGENT,
            Self::Broker => insula_broker::operator::AGENT,
            Self::Metal3(_) => insula_metal3::operator::AGENT,
            Self::Vsphere { .. } => insula_vsphere::operator::AGENT,
        }
    }

    /// Starts the operator in a task of its own, so that a panic does not affect the server.
    fn begin(&self, client: Client, stopped: watch::Receiver<bool>) -> JoinSet<Ended> {
        let mut task = JoinSet::new();
        match self {
            Self::Azure(settings) => {
                let account = settings.service_account.clone();
                let azure = settings.azure.clone();
                task.spawn(async {
                    azure.run(client, account, stop_requested(stopped)).await;
                    Ok(())
                });
            }
            Self::Broker => {
                let settings = insula_broker::operator::Settings {
                    definitions: insula_broker::crds::broker_kinds(),
                    ..insula_broker::operator::Settings::new(process::name())
                };
                task.spawn(insula_broker::operator::run(
                    client,
                    settings,
                    stop_requested(stopped),
                ));
            }
            Self::Metal3(settings) => {
                let settings = settings.metal3();
                task.spawn(async {
                    insula_metal3::operator::run(client, settings, stop_requested(stopped)).await;
                    Ok(())
                });
            }
            Self::Vsphere { given, settings } => {
                let settings = settings.vsphere(given.clone());
                task.spawn(async {
                    insula_vsphere::operator::run(client, settings, stop_requested(stopped)).await;
                    Ok(())
                });
            }
        }
        task
    }
}

/// The result of an operator.
type Ended = Result<(), insula_broker::Error>;

async fn run(work: Work, credentials: OperatorCredentials, stopped: watch::Receiver<bool>) {
    let (namespace, name) = work.account();
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    let client = match credentials.connect(&user, &groups, work.program()) {
        Ok(client) => client,
        Err(failure) => {
            tracing::error!(error = %failure, "operator connection failed");
            return;
        }
    };
    while !*stopped.borrow() {
        let mut task = work.begin(client.clone(), stopped.clone());
        match task.join_next().await {
            Some(Err(error)) => tracing::error!(%error, "operator panicked"),
            Some(Ok(Err(error))) => tracing::error!(%error, "operator failed"),
            Some(Ok(Ok(()))) | None => {}
        }
        if tokio::time::timeout(RESTART_DELAY, stop_requested(stopped.clone()))
            .await
            .is_ok()
        {
            return;
        }
    }
}

/// Waits until the operator is stopped, or the sender is gone.
async fn stop_requested(mut stopped: watch::Receiver<bool>) {
    stopped.wait_for(|&stopped| stopped).await.ok();
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        vsphere: VsphereArgs,
        #[command(flatten)]
        metal3: Metal3Args,
        #[command(flatten)]
        azure: AzureArgs,
    }

    fn of(arguments: &[&str]) -> OperatorSettings {
        let line = Line::try_parse_from(arguments).unwrap();
        let none = Vec::new();
        OperatorSettings::of(none, None, line.vsphere, line.metal3, line.azure).unwrap()
    }

    #[test]
    fn webhooks_of_operators_are_called_in_process() {
        for (operator, expected) in [
            (
                Operator::Azure,
                r#"{("azureoperator-system", "azureoperator-webhook-service")}"#,
            ),
            (
                Operator::Vsphere,
                r#"{("capv-system", "capv-webhook-service")}"#,
            ),
        ] {
            let services = in_process::services(operator.webhooks(&of(&["insula"])));
            assert_eq!(format!("{services:?}"), expected);
        }
    }

    #[test]
    fn tenants_of_static_credentials_reach_the_operator() {
        let settings = |arguments: &[&str]| {
            let file = ["insula", "--vsphere-credentials-file", "f"];
            let settings = of(&[&file[..], arguments].concat());
            settings
                .vsphere(watch::channel(None).1)
                .shell
                .static_credentials_for
        };
        let expected = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            settings(&["--vsphere-static-credentials-tenants", "a,b"]),
            expected
        );
        assert_eq!(settings(&["--static-credentials-tenants=a,b"]), expected);
        assert_eq!(settings(&[]), BTreeSet::new());
        for wrong in [
            &["insula", "--static-credentials-tenants", "a"][..],
            &[
                "insula",
                "--vsphere-credentials-file=f",
                "--static-credentials-tenants=A",
            ],
        ] {
            assert!(Line::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }
}
