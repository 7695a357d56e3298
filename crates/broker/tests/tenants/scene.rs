//! A server with the kinds, and a stand-in for the operator.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use insula_broker::names::{ADMIN, ADMIN_TOKEN, AXON, TenantId};
use insula_broker::report::{Report, Silent};
use insula_broker::tenant::Tenant;
use insula_broker::tenants::Tenants;
use insula_broker::{crds, token};
use insula_testkit::server::TestServer;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

/// Longer than any step takes.
pub const LONG: Duration = Duration::from_secs(30);

pub struct Scene {
    pub server: TestServer,
    pub client: Client,
    pub tenants: Tenants,
}

impl Scene {
    /// A server without deployments.
    pub async fn bare() -> Self {
        let server = TestServer::start_with_controllers().await.unwrap();
        let client = client(&server, "system");
        Self {
            tenants: Tenants::new(&client),
            client,
            server,
        }
    }

    /// A server with the kinds and the operator's namespace.
    pub async fn start() -> Self {
        let scene = Self::bare().await;
        let home = named(AXON);
        let namespaces: Api<Namespace> = Api::all(scene.client.clone());
        namespaces
            .create(
                &PostParams::default(),
                &Namespace {
                    metadata: home,
                    ..Namespace::default()
                },
            )
            .await
            .unwrap();
        crds::ensure(&scene.client, &crds::all(), &Silent)
            .await
            .unwrap();
        scene
    }

    /// Provisions a tenant as the operator does.
    pub async fn provision(&self, id: &TenantId) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let made = Namespace {
            metadata: named(&id.namespace()),
            ..Namespace::default()
        };
        namespaces
            .create(&PostParams::default(), &made)
            .await
            .unwrap();
        self.create_account(id).await;
        self.create_token(id).await;
        self.write_status(
            id,
            json!({
                "phase": "Provisioned", "observedGeneration": 1,
                "namespace": id.namespace(), "tokenSecret": ADMIN_TOKEN,
            }),
        )
        .await;
    }

    pub async fn create_account(&self, id: &TenantId) {
        let account = ServiceAccount {
            metadata: named(ADMIN),
            ..ServiceAccount::default()
        };
        let made = self
            .accounts(id)
            .create(&PostParams::default(), &account)
            .await;
        made.unwrap();
    }

    pub fn accounts(&self, id: &TenantId) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &id.namespace())
    }

    pub async fn create_token(&self, id: &TenantId) {
        let asked = token::request(ADMIN, named(ADMIN_TOKEN));
        let made = self
            .secrets(id)
            .create(&PostParams::default(), &asked)
            .await;
        made.unwrap();
    }

    pub fn secrets(&self, id: &TenantId) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &id.namespace())
    }

    pub fn objects(&self) -> Api<Tenant> {
        Api::namespaced(self.client.clone(), AXON)
    }

    /// Writes a tenant's status as the operator does.
    pub async fn write_status(&self, id: &TenantId, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let said = self
            .objects()
            .patch_status(id.as_str(), &PatchParams::default(), &patch)
            .await;
        said.unwrap();
    }

    /// Sets the finalizers of a tenant.
    pub async fn set_finalizers(&self, id: &TenantId, finalizers: &[&str]) {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
        let held = self
            .objects()
            .patch(id.as_str(), &PatchParams::default(), &patch)
            .await;
        held.unwrap();
    }
}

pub fn id(text: &str) -> TenantId {
    text.parse().unwrap()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// A client with this token.
pub fn client(server: &TestServer, token: &str) -> Client {
    let mut config = Config::new(server.url().parse().unwrap());
    let ca = pem::parse(server.authority().certificate_pem()).unwrap();
    config.root_cert = Some(vec![ca.into_contents()]);
    config.auth_info = serde_json::from_value(json!({ "token": token })).unwrap();
    Client::try_from(config).unwrap()
}

/// Wraps a client and records its requests.
pub fn watched(client: &Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let (client, seen) = (client.clone(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&seen);
    let service = service_fn(move |request: http::Request<Body>| {
        let (client, seen) = (client.clone(), Arc::clone(&kept));
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            seen.lock().unwrap().push(line);
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    (Client::new(service, "default"), seen)
}

/// All reports.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for a report.
    pub async fn wait_for(&self, line: &str) {
        let told = async {
            while !self.all().iter().any(|said| said == line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(LONG, told).await;
        assert!(in_time.is_ok(), "{line:?} is not in {:?}", self.all());
    }

    fn record(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Report for Told {
    fn begin(&self, what: &str) {
        self.record(format!("• {what}"));
    }

    fn done(&self, what: &str) {
        self.record(format!("✓ {what}"));
    }

    fn warn(&self, what: &str) {
        self.record(format!("⚠ {what}"));
    }
}
