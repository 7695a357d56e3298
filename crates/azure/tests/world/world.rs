//! An API server with the operator's kinds, a fake Azure, and operators.
//!
//! Each team has a client id and a subscription of its own, both with the team's name: a request
//! with another team's token shows up in the journal of the fake.
//!
//! Test targets include it with `#[path = "../world/world.rs"] mod world;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses what it needs of it"
)]

mod log;
mod objects;
mod running;
mod tenants;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use insula_apiserver::egress::{self, InProcessServices};
use insula_azure::crds;
use insula_azure::manifests::ReviewedKinds;
use insula_azure::operator::Operator;
use insula_azure::settings::Settings;
use insula_azure::versions::{self, Definitions};
use insula_azure::webhooks::{self, Reach, Reviewed};
use insula_identity::session;
use insula_operator::lease::Times;
use insula_operator::webhook::Router;
use insula_testkit::azure::FakeAzure;
use insula_testkit::server::{Audit, AuditLog, Client as Plain, Setup, TestServer};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

pub use log::Log;
pub use objects::{Space, ready};
pub use running::Running;

/// The deadline of every wait. A wait takes a second or two, unless the machine is busy.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// The Entra tenant of all teams.
pub const TENANT: &str = "contoso";

/// Short durations for the leader election.
const TIMES: Times = Times {
    duration: Duration::from_secs(4),
    renew: Duration::from_millis(300),
    give_up: Duration::from_secs(2),
    look: Duration::from_millis(50),
};

/// An API server with the kinds and webhooks, and a fake Azure.
pub struct World {
    pub server: TestServer,
    pub azure: FakeAzure,
    /// A client of the administrator.
    pub plain: Plain,
    pub log: AuditLog,
    space: Space,
}

impl std::ops::Deref for World {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl World {
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Reach::Space).await
    }

    async fn start_with(reach: Reach) -> anyhow::Result<Self> {
        let conversion = serde_json::from_value(conversion())?;
        let definitions = crds::all(&conversion);
        let definitions: Result<Vec<Value>, _> =
            definitions.iter().map(serde_json::to_value).collect();
        let mut definitions = definitions?;
        if reach == Reach::Tenants {
            definitions.iter_mut().for_each(tenants::publish);
        }
        let log = AuditLog::default();
        let server = TestServer::start_with(Setup {
            audit: Some(Audit::Memory(log.clone())),
            egress: egress::Settings {
                in_process: webhook_services(&definitions)?,
                ..egress::Settings::default()
            },
            ..Setup::with_controllers()
        })
        .await?;
        let plain = server.system().await?;
        plain.install(&definitions).await?;
        let configurations = webhooks::configurations(&webhooks::service(), &reviewed(), reach);
        plain.install(&configurations).await?;
        let space = Space {
            client: client(&server, "system").await?,
        };
        Ok(Self {
            server,
            azure: FakeAzure::start().await?,
            plain,
            log,
            space,
        })
    }

    /// Adds a team: an application with a secret, and a subscription that only it may use.
    pub fn team(&self, name: &str) {
        self.azure.add_secret(TENANT, name, &secret_of(name));
        self.azure
            .add_subscription(&subscription(name), TENANT, &[name]);
    }

    /// Creates a namespace with the credential of a team.
    pub async fn namespace_of(&self, namespace: &str, team: &str) -> anyhow::Result<()> {
        self.namespace(namespace).await?;
        self.credential(namespace, "aso-credential", team).await
    }

    /// Creates a Secret with the credential of a team.
    pub async fn credential(&self, namespace: &str, name: &str, team: &str) -> anyhow::Result<()> {
        let values = credential(team);
        let texts: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
        self.secret(namespace, name, &texts).await
    }

    /// Returns an operator of a namespace with these settings besides the endpoints.
    pub fn operator(&self, namespace: &str, settings: &[(&str, &str)]) -> anyhow::Result<Operator> {
        let own = [("POD_NAMESPACE", namespace.to_owned())];
        let given = settings
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let values = self.azure.settings().into_iter().chain(own).chain(given);
        let values: BTreeMap<_, _> = values.map(|(k, v)| (k.to_owned(), v)).collect();
        let parsed = Settings::parse(&values)?;
        let mut operator = Operator::new("test", parsed.settings);
        operator.shell.times = TIMES;
        operator.shell.sessions.unreachable_backoff =
            (Duration::from_millis(200), Duration::from_secs(1));
        operator.authorities = certificates(self.azure.ca_pem())?;
        Ok(operator)
    }

    /// Runs an operator with the administrator's rights.
    pub async fn run(&self, namespace: &str, settings: &[(&str, &str)]) -> anyhow::Result<Running> {
        if self
            .find::<Value>("v1", "Namespace", "", namespace)
            .await?
            .is_none()
        {
            self.namespace(namespace).await?;
        }
        let operator = self.operator(namespace, settings)?;
        Ok(Running::new(self.client.clone(), operator))
    }
}

/// Returns the subscription of a team.
pub fn subscription(team: &str) -> String {
    format!("sub-{team}")
}

/// Returns the secret of a team's application.
pub fn secret_of(team: &str) -> String {
    format!("{team}-s3cret")
}

/// Returns the settings that are the credential of a team.
pub fn credential(team: &str) -> [(&'static str, String); 4] {
    [
        ("AZURE_SUBSCRIPTION_ID", subscription(team)),
        ("AZURE_TENANT_ID", TENANT.to_owned()),
        ("AZURE_CLIENT_ID", team.to_owned()),
        ("AZURE_CLIENT_SECRET", secret_of(team)),
    ]
}

fn conversion() -> Value {
    let service = webhooks::service();
    json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": service.namespace, "name": service.name, "path": versions::PATH,
            }},
        },
    })
}

fn reviewed() -> Vec<Reviewed> {
    ReviewedKinds::Own.list()
}

fn webhook_services(definitions: &[Value]) -> anyhow::Result<InProcessServices> {
    let known = Definitions::new();
    for definition in definitions {
        known.insert(definition).map_err(anyhow::Error::msg)?;
    }
    let router = versions::route(Router::new(), Arc::new(known));
    let router = Arc::new(webhooks::route(router, &reviewed(), None));
    let service = webhooks::service();
    let mut services = InProcessServices::default();
    services.register(
        &service.namespace,
        &service.name,
        Arc::new(move |request| {
            let router = Arc::clone(&router);
            Box::pin(async move { router.handle(request, None).await })
        }),
    );
    Ok(services)
}

/// Returns the certificates of a PEM text, as DER.
pub fn certificates(text: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let blocks = pem::parse_many(text)?;
    Ok(blocks.into_iter().map(pem::Pem::into_contents).collect())
}

/// Returns a client with a token.
pub async fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

/// Waits until a value is there.
pub async fn eventually<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        anyhow::ensure!(begun.elapsed() < DEADLINE, "not in time: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
