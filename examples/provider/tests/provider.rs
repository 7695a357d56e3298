//! The example on an Insula with two tenants: each acts with its own account, and with no other.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use example_provider::install::manifests;
use example_provider::kinds::{DnsAccount, DnsRecord};
use example_provider::provider::Dns;
use example_provider::service::Services;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use insula_operator::provider::{Settings, run};
use insula_operator::spaces::client_for;
use insula_testkit::server::{Setup, TestServer};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

/// A DNS service with two accounts. Records are kept with the token that wrote them.
#[derive(Clone, Default)]
struct FakeDns {
    records: Arc<Mutex<BTreeMap<String, (String, String)>>>,
}

impl FakeDns {
    async fn start(&self) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let dns = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let dns = dns.clone();
                let service = service_fn(move |request| {
                    let dns = dns.clone();
                    async move { Ok::<_, Infallible>(dns.answer(request).await) }
                });
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                        .ok();
                });
            }
        });
        Ok(address)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let token = request.headers()["authorization"].to_str();
        let token = token.unwrap_or_default().replace("Bearer ", "");
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = request.into_body().collect().await;
        let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        let name = path.strip_prefix("/records/").unwrap_or_default();
        let mut records = self.records.lock().expect("no panic");
        let status = match token.as_str() {
            "red" | "blue" => StatusCode::OK,
            _ => StatusCode::UNAUTHORIZED,
        };
        if status.is_success() && method == Method::PUT {
            records.insert(name.to_owned(), (token, body.unwrap_or_default()));
        } else if status.is_success() && method == Method::DELETE {
            records.remove(name);
        }
        let mut response = Response::default();
        *response.status_mut() = status;
        response
    }

    /// Returns all records as `NAME=ADDRESS by TOKEN`.
    fn records(&self) -> Vec<String> {
        let records = self.records.lock().expect("no panic");
        let records = records.iter();
        records
            .map(|(name, (token, address))| format!("{name}={address} by {token}"))
            .collect()
    }
}

async fn connect(server: &TestServer) -> anyhow::Result<Client> {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": "system"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    Ok(Client::try_from(
        Config::from_custom_kubeconfig(kubeconfig, &options).await?,
    )?)
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Waits until the condition `Ready` of a record has this reason, and returns its message.
async fn wait_for(records: &Api<DnsRecord>, name: &str, reason: &str) -> anyhow::Result<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let record = records.get(name).await?;
        let conditions = record.status.unwrap_or_default().conditions;
        if let [condition] = &conditions[..]
            && condition.reason == reason
        {
            return Ok(condition.message.clone());
        }
        anyhow::ensure!(Instant::now() < deadline, "{name}: {conditions:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn record(server: &str, name: &str, reference: Value) -> Value {
    json!({
        "apiVersion": "dns.example.com/v1", "kind": "DnsRecord", "metadata": {"name": name},
        "spec": {"server": server, "name": name, "address": "10.0.0.1", "identityRef": reference},
    })
}

#[tokio::test]
async fn records_are_written_with_the_account_of_their_tenant_only() -> anyhow::Result<()> {
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let system = server.system().await?;
    let admin = connect(&server).await?;
    system.install(&manifests(true)).await?;
    let dns = FakeDns::default();
    let address = dns.start().await?;
    for tenant in ["acme", "bmce"] {
        server.tenant(tenant).await?;
    }
    let settings = Settings {
        leader_elect: false,
        tenants: true,
        ..Settings::new("example", "dns-system", Duration::from_secs(5))
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let operator = run(admin.clone(), Dns, Services::default(), settings, async {
        drop(stopped.await);
    });
    let operator = tokio::spawn(operator);

    // Tenant acme has a Secret of its own; the system lends an account to bmce.
    let (acme, bmce) = (client_for(&admin, "acme"), client_for(&admin, "bmce"));
    for space in [&acme, &bmce] {
        let namespace = json!({"metadata": {"name": "web"}});
        create(&Api::<Namespace>::all(space.clone()), namespace).await?;
    }
    let token = |name: &str, token: &str| json!({"metadata": {"name": name}, "stringData": {"token": token}});
    create(
        &Api::<Secret>::namespaced(acme.clone(), "web"),
        token("dns", "red"),
    )
    .await?;
    create(
        &Api::<Secret>::namespaced(admin.clone(), "dns-system"),
        token("lent", "blue"),
    )
    .await?;
    let account = json!({
        "apiVersion": "dns.example.com/v1", "kind": "DnsAccount", "metadata": {"name": "lent"},
        "spec": {"secretName": "lent", "allowedServers": [address], "allowedTenants":
            {"selector": {"matchLabels": {"dns": "yes"}}}},
    });
    let kind = ApiResource::erase::<DnsAccount>(&());
    let accounts: Api<DynamicObject> = Api::all_with(admin.clone(), &kind);
    create(&accounts, account).await?;
    let of_acme: Api<DnsRecord> = Api::namespaced(acme, "web");
    let of_bmce: Api<DnsRecord> = Api::namespaced(bmce, "web");
    let secret = json!({"kind": "Secret", "name": "dns"});
    let lent = json!({"kind": "DnsAccount", "name": "lent"});
    create(&of_acme, record(&address, "a", secret.clone())).await?;
    create(&of_bmce, record(&address, "b", lent.clone())).await?;
    wait_for(&of_acme, "a", "Written").await?;
    assert_eq!(dns.records(), ["a=10.0.0.1 by red"]);

    // A tenant gets the account after the administrator has labelled it, and not before.
    let message = wait_for(&of_bmce, "b", "IdentityNotFound").await?;
    assert!(
        message.starts_with("there is no DnsAccount lent: "),
        "{message}"
    );
    let label = json!({"metadata": {"labels": {"dns": "yes"}}});
    let path = "/api/v1/tenants/bmce";
    let labelled = system.patch(path, "merge", &label).await?;
    anyhow::ensure!(labelled.status == 200, "{}", labelled.text());
    wait_for(&of_bmce, "b", "Written").await?;
    assert_eq!(dns.records(), ["a=10.0.0.1 by red", "b=10.0.0.1 by blue"]);

    // No reference leads to the account of another tenant, nor to another server.
    create(&of_acme, record(&address, "c", lent.clone())).await?;
    wait_for(&of_acme, "c", "IdentityNotFound").await?;
    create(&of_bmce, record("127.0.0.1:1", "d", lent)).await?;
    let message = wait_for(&of_bmce, "d", "EndpointNotAllowed").await?;
    assert!(
        message.starts_with("DnsAccount lent may not be sent to 127.0.0.1:1"),
        "{message}"
    );
    create(&of_bmce, record(&address, "e", secret)).await?;
    wait_for(&of_bmce, "e", "SecretNotAvailable").await?;

    // A changed record is written again, and a deleted one disappears.
    let change = Patch::Merge(json!({"spec": {"address": "10.0.0.2"}}));
    of_acme.patch("a", &PatchParams::default(), &change).await?;
    of_bmce.delete("b", &DeleteParams::default()).await?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while dns.records() != ["a=10.0.0.2 by red"] {
        anyhow::ensure!(Instant::now() < deadline, "{:?}", dns.records());
        sleep(Duration::from_millis(50)).await;
    }
    stop.send(()).ok();
    operator.await?;
    Ok(())
}
