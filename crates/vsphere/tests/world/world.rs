//! A server on which the operator is installed, with two tenants, and helpers for tests.
//!
//! Test targets include it with `#[path = "../world/world.rs"] mod world;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses what it needs of it"
)]

mod space;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_dialer::AddressRules;
use insula_identity::credential::Hidden;
use insula_identity::endpoint::{AllowedEndpoints, Endpoint};
use insula_identity::session;
use insula_operator::health::Health;
use insula_operator::lease::Times;
use insula_operator::provider;
use insula_operator::spaces::client_for;
use insula_testkit::server::{Client as Plain, Setup, TestServer};
use insula_vsphere::operator::{Settings, StaticCredentials, run};
use insula_vsphere::{crds, manifests};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

pub use space::{HOME, Space, condition, conditions, create, delete, gone, patched, until};

/// The deadline of every wait. A wait takes a second or two, unless the machine is busy.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// Short durations for the leader election.
pub const TIMES: Times = Times {
    duration: Duration::from_secs(4),
    renew: Duration::from_millis(300),
    give_up: Duration::from_secs(2),
    look: Duration::from_millis(50),
};

/// Short durations for sessions.
pub const SESSIONS: session::Settings = session::Settings {
    request_timeout: Duration::from_secs(2),
    check_after: Duration::from_secs(60),
    lifetime: Duration::from_secs(3600),
    refused_backoff: Duration::from_secs(600),
    unreachable_backoff: (Duration::from_millis(200), Duration::from_secs(1)),
    concurrency: session::Concurrency::of_many_endpoints(8),
};

/// A server on which the operator is installed but does not run.
pub struct World {
    pub server: TestServer,
    /// A client of a system administrator.
    pub admin: Client,
    /// A client with exactly the operator's rights.
    pub operator: Client,
    /// The static credentials of the operator.
    pub static_credentials: watch::Sender<Option<StaticCredentials>>,
}

impl World {
    /// Starts a server with the tenants `t1` and `t2`, to which the kinds are published.
    pub async fn new() -> anyhow::Result<Self> {
        // `RUST_LOG` selects what is logged.
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init()
            .ok();
        let server = TestServer::start_with(Setup::with_controllers()).await?;
        let system = server.system().await?;
        let admin = client(&server, "system").await?;
        let settings = manifests::Settings {
            tenants: true,
            ..manifests::Settings::default()
        };
        system.install(&manifests::manifests(&settings)).await?;
        system.install(&of_cluster_api()).await?;
        for tenant in ["t1", "t2"] {
            let space = server.tenant(tenant).await?;
            space.install(&manifests::tenant_manifests()).await?;
        }
        served(&admin).await?;
        let operator = account(&server, &system, &admin).await?;
        let (static_credentials, _) = watch::channel(None);
        Ok(Self {
            server,
            admin,
            operator,
            static_credentials,
        })
    }

    /// Returns the system's space, or that of a tenant.
    pub fn space(&self, name: Option<&str>) -> Space {
        let client = match name {
            None => self.admin.clone(),
            Some(name) => client_for(&self.admin, name),
        };
        Space::new(client)
    }

    /// Returns the system's space.
    pub fn here(&self) -> Space {
        self.space(None)
    }

    /// Returns settings for an operator that works in all spaces.
    pub fn settings(&self) -> Settings {
        let defaults = Settings::new("operator", self.static_credentials.subscribe());
        Settings {
            shell: provider::Settings {
                leader_elect: false,
                times: TIMES,
                request_timeout: Duration::from_secs(10),
                sessions: SESSIONS,
                tenants: true,
                ..defaults.shell
            },
            // Where the vCenters of the tests are.
            addresses: AddressRules {
                allow: vec!["127.0.0.0/8".parse().expect("a block")],
                ..AddressRules::default()
            },
            ..defaults
        }
    }

    /// Runs the operator.
    pub fn start(&self) -> Running {
        self.start_with(self.settings())
    }

    /// Runs the operator with these settings.
    pub fn start_with(&self, settings: Settings) -> Running {
        Running::new(self.operator.clone(), settings)
    }

    /// Sets the static credentials, for these servers.
    pub fn set_static_credentials(&self, account: &str, password: &str, servers: &[&str]) {
        let text = |text: &str| Hidden::new(text.to_owned());
        let data = [("username", account), ("password", password)];
        let endpoint = |server: &&str| Endpoint::parse(server, 443).expect("a server");
        let bound = match servers {
            [] => AllowedEndpoints::Nowhere,
            servers => {
                AllowedEndpoints::Only(servers.iter().map(|one| (endpoint(one), None)).collect())
            }
        };
        self.static_credentials
            .send_replace(Some(StaticCredentials {
                data: data
                    .map(|(key, value)| (key.to_owned(), text(value)))
                    .into(),
                bound,
            }));
    }
}

/// A running operator.
pub struct Running {
    pub health: Arc<Health>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub fn new(client: Client, settings: Settings) -> Self {
        let health = Arc::clone(&settings.shell.health);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(client, settings, async { drop(stopped.await) }));
        Self {
            health,
            stop: Some(stop),
            task,
        }
    }

    /// Stops it gracefully.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        let stopped = timeout(DEADLINE, &mut self.task).await;
        Ok(stopped.context("does not stop")??)
    }

    /// Aborts it immediately.
    pub async fn kill(mut self) {
        self.task.abort();
        (&mut self.task).await.ok();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Polls until there is a value, and fails after the deadline.
pub async fn eventually<T>(
    mut poll: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = poll().await? {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < deadline, "did not happen in time");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a client with this token.
pub async fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

/// Returns a client of the operator's service account.
async fn account(server: &TestServer, system: &Plain, admin: &Client) -> anyhow::Result<Client> {
    let account = json!({"kubernetes.io/service-account.name": "capv-manager"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "operator", "namespace": "capv-system", "annotations": account},
    });
    system.install(&[secret]).await?;
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "capv-system");
    let token = eventually(async || {
        let secret = secrets.get("operator").await?;
        Ok(secret.data.and_then(|mut data| data.remove("token")))
    });
    let token = token.await.context("the operator's token")?;
    client(server, std::str::from_utf8(&token.0)?).await
}

/// Waits until every kind is served in every space.
async fn served(admin: &Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    eventually(async || {
        let listed = definitions.list(&Default::default()).await?;
        let established = listed.items.iter().filter(|definition| {
            let status = definition.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            conditions.is_some_and(|all| {
                let mut all = all.iter();
                all.any(|told| told.type_ == "Established" && told.status == "True")
            })
        });
        Ok((established.count() >= crds::all().len() + 2).then_some(()))
    })
    .await
    .context("the kinds are served")
}

/// Minimal definitions of Cluster API's own kinds.
fn of_cluster_api() -> [Value; 2] {
    let define = |plural: &str, kind: &str| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.cluster.x-k8s.io"),
                "annotations": {
                    "multi-tenancy.k8s.io/published": "true",
                    "api-approved.kubernetes.io": "unapproved, only for tests",
                },
            },
            "spec": {
                "group": "cluster.x-k8s.io", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{
                    "name": "v1beta2", "served": true, "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": open, "status": open,
                    }}},
                }],
            },
        })
    };
    [define("clusters", "Cluster"), define("machines", "Machine")]
}
