//! A management cluster.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use anyhow::Context as _;
use insula_apiserver::egress::{self, InProcessServices};
use insula_metal3::names::{ACCOUNT, NAMESPACE};
use insula_metal3::{manifests, webhooks};
use insula_testkit::bare_metal::FakeBareMetalOperator;
use insula_testkit::capi;
use insula_testkit::server::{Audit, AuditLog, Client as Plain, Setup, TestServer};
use kube::Client;
use serde_json::{Value, json};

use super::core_driver::CoreDriver;
use super::host_side::{definition, hardware, token};
use super::requests::{Request, requests};
use super::{Space, Workload, client};

/// The namespaces of the teams.
const TEAMS: [&str; 2] = ["team-a", "team-b"];

/// A management cluster: the kinds and webhooks of the operator, and what Cluster API does.
pub struct Management {
    pub server: TestServer,
    /// A client of the administrator.
    pub plain: Plain,
    /// A client with exactly the operator's rights.
    pub operator: Client,
    pub core: CoreDriver,
    space: Space,
    log: AuditLog,
}

impl Deref for Management {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Management {
    /// Starts one, with the operator's webhooks in the same process as `insula serve` has them.
    pub async fn start() -> anyhow::Result<Self> {
        let settings = manifests::Settings {
            tenants: true,
            ..manifests::Settings::default()
        };
        Self::start_with(&manifests::manifests(&settings)).await
    }

    /// The same, with other manifests than those that the operator prints.
    pub async fn start_with(manifests: &[Value]) -> anyhow::Result<Self> {
        let log = AuditLog::default();
        let server = TestServer::start_with(Setup {
            audit: Some(Audit::Memory(log.clone())),
            tokens: "core,cluster-api,2,\"system:masters,tenant:system\"\n".to_owned(),
            egress: egress::Settings {
                in_process: webhook_services(),
                ..egress::Settings::default()
            },
            ..Setup::with_controllers()
        })
        .await?;
        let plain = server.system().await?;
        plain.install(manifests).await?;
        plain.install(&capi::all_definitions()).await?;
        for name in TEAMS {
            let namespace = json!({"metadata": {"name": name}});
            let made = plain.post("/api/v1/namespaces", &namespace).await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        let operator = token(&plain, NAMESPACE, ACCOUNT).await?;
        let operator = client(&server, &operator).await?;
        let core = CoreDriver::start(server.client("core").await?);
        let space = Space {
            client: client(&server, "system").await?,
        };
        Ok(Self {
            server,
            plain,
            operator,
            core,
            space,
            log,
        })
    }

    /// Returns all requests that the server has received.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        requests(&self.log)
    }

    /// Serves hosts too, with a Bare Metal Operator.
    pub async fn serve_hosts(&self) -> anyhow::Result<FakeBareMetalOperator> {
        self.plain.install(&[definition()?, hardware()?]).await?;
        let client = self.server.client("core").await?;
        Ok(FakeBareMetalOperator::start(client, None))
    }

    /// Creates the kubeconfig of a workload cluster, and lets Machines refer to its nodes.
    pub async fn workload(
        &self,
        namespace: &str,
        cluster: &str,
        workload: &Workload,
    ) -> anyhow::Result<()> {
        let name = format!("{cluster}-kubeconfig");
        let text = workload.kubeconfig().to_string();
        self.secret(namespace, &name, &[("value", &text)]).await?;
        self.core.use_workload(workload.plain.clone());
        Ok(())
    }
}

fn webhook_services() -> InProcessServices {
    let router = Arc::new(webhooks::router());
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
    services
}
