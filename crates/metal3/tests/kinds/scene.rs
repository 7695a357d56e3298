//! A server with the definitions and webhooks, and a client for each type of space.

use std::sync::Arc;

use insula_apiserver::egress::{self, InProcessServices};
use insula_metal3::{crds, webhooks};
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};

/// The merge patch.
pub const MERGE: &str = "merge";

/// A server on which everything but the operator is installed.
pub struct Scene {
    _server: TestServer,
    pub system: Client,
    pub acme: Client,
}

impl Scene {
    /// Starts a server with the operator's webhooks, as `insula serve` registers them.
    pub async fn new() -> anyhow::Result<Self> {
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
        let server = TestServer::start_with(Setup {
            tokens: "acme,admin,1,\"tenant:acme\"\n".to_owned(),
            egress,
            ..Setup::with_controllers()
        })
        .await?;
        let system = server.system().await?;
        let acme = server.tenant("acme").await?;
        let definitions = crds::published();
        let definitions = definitions.iter().map(serde_json::to_value);
        let mut objects = definitions.collect::<Result<Vec<_>, _>>()?;
        objects.push(webhooks::configuration(webhooks::Reach::Tenants));
        system.install(&objects).await?;
        Ok(Self {
            _server: server,
            system,
            acme,
        })
    }

    /// Returns both types of spaces.
    pub fn spaces(&self) -> [(&'static str, &Client); 2] {
        [("system", &self.system), ("acme", &self.acme)]
    }
}

/// Returns the group of a kind.
fn group(plural: &str) -> &'static str {
    match plural.starts_with("ip") {
        true => "ipam.metal3.io",
        false => "infrastructure.cluster.x-k8s.io",
    }
}

/// Returns the path of a kind in namespace `default`.
pub fn path(version: &str, plural: &str) -> String {
    let group = group(plural);
    format!("/apis/{group}/{version}/namespaces/default/{plural}")
}

/// Returns an object of the kind with this plural.
pub fn object(version: &str, plural: &str, name: &str, spec: &Value) -> Value {
    let definitions = crds::all();
    let mut definitions = definitions.iter();
    let found = definitions.find(|definition| definition.spec.names.plural == plural);
    json!({
        "apiVersion": format!("{}/{version}", group(plural)),
        "kind": found.map(|definition| &definition.spec.names.kind),
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Creates an object, and returns the response.
pub async fn create(
    client: &Client,
    version: &str,
    plural: &str,
    name: &str,
    spec: &Value,
) -> anyhow::Result<Answer> {
    let strict = format!("{}?fieldValidation=Strict", path(version, plural));
    client
        .post(&strict, &object(version, plural, name, spec))
        .await
}

/// Returns the object of a response that must succeed.
pub fn success(answer: Answer) -> Value {
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    answer.json()
}

/// Returns the message of a response that must refuse the object.
pub fn refused(answer: Answer) -> String {
    assert_eq!(answer.status, 422, "{}", answer.text());
    answer.message()
}
