//! A server with the installed manifests, and a client for each type of space.

use std::sync::Arc;

use insula_apiserver::egress::{self, InProcessServices};
use insula_testkit::server::{Client, Setup, TestServer};
use insula_vsphere::manifests::{Settings, manifests, tenant_manifests};
use insula_vsphere::{crds, webhooks};
use serde_json::{Value, json};

const GROUP: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2";

/// A server on which everything but the operator is installed.
pub struct Scene {
    pub server: TestServer,
    pub system: Client,
    pub acme: Client,
}

impl Scene {
    /// Starts a server without the operator's webhooks.
    pub async fn new() -> anyhow::Result<Self> {
        Self::start(egress::Settings::default(), None).await
    }

    /// Starts a server with the operator's webhooks, as `insula serve` registers them.
    pub async fn with_webhooks() -> anyhow::Result<Self> {
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
        let egress = egress::Settings {
            in_process: services,
            ..egress::Settings::default()
        };
        Self::start(egress, None).await
    }

    /// Starts a server for an operator of this image. The Deployment is not created.
    pub async fn for_deployment(image: &str) -> anyhow::Result<Self> {
        Self::start(egress::Settings::default(), Some(image.to_owned())).await
    }

    async fn start(egress: egress::Settings, image: Option<String>) -> anyhow::Result<Self> {
        let server = TestServer::start_with(Setup {
            tokens: people(),
            egress,
            ..Setup::with_controllers()
        })
        .await?;
        let system = server.system().await?;
        let acme = server.tenant("acme").await?;
        let settings = Settings {
            tenants: true,
            image,
            ..Settings::default()
        };
        let mut objects = manifests(&settings);
        objects.retain(|object| object["kind"] != "Deployment");
        system.install(&objects).await?;
        acme.install(&tenant_manifests()).await?;
        Ok(Self {
            server,
            system,
            acme,
        })
    }

    /// Returns both types of spaces.
    pub fn spaces(&self) -> [(&'static str, &Client); 2] {
        [("system", &self.system), ("acme", &self.acme)]
    }
}

/// The tokens: a tenant's administrator, and three users in each space, as `{space}-{name}`.
fn people() -> String {
    let mut lines = "acme,admin,1,\"tenant:acme\"\n".to_owned();
    for space in ["system", "acme"] {
        for name in ["infra", "ops", "dev"] {
            lines += &format!("{space}-{name},{name},{space}-{name},\"tenant:{space}\"\n");
        }
    }
    lines
}

/// Returns the path of a kind; in namespace `default` if it is namespaced.
pub fn path(plural: &str) -> String {
    let global = [
        "vsphereclusteridentities",
        "vspheredeploymentzones",
        "vspherefailuredomains",
    ];
    match global.contains(&plural) {
        true => format!("{GROUP}/{plural}"),
        false => format!("{GROUP}/namespaces/default/{plural}"),
    }
}

/// Returns an object of the kind with this plural.
pub fn object(plural: &str, name: &str, spec: &Value) -> Value {
    let definitions = crds::all();
    let mut definitions = definitions.iter();
    let found = definitions.find(|definition| definition.spec.names.plural == plural);
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": found.map(|definition| &definition.spec.names.kind),
        "metadata": {"name": name},
        "spec": spec,
    })
}
