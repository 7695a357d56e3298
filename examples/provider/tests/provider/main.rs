//! The example on an Insula with two tenants, and on a Kubernetes.

mod accounts;
mod fake_dns;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use example_provider::install::manifests;
use example_provider::kinds::{DnsAccount, DnsRecord};
use example_provider::{Dns, operate, settings};
use insula_e2e::kube_apiserver::KubeApiserver;
use insula_operator::provider::Settings;
use insula_operator::provider::explain::{self, Inspect, Verdict};
use insula_operator::provider::users::{self, User};
use insula_operator::spaces::client_for;
use insula_testkit::server::{Setup, TestServer};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use fake_dns::FakeDns;

async fn connect(url: &str, authority: &[u8], token: &str) -> anyhow::Result<Client> {
    let ca = STANDARD.encode(authority);
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": url, "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

/// A running operator.
struct Running(oneshot::Sender<()>, JoinHandle<()>);

impl Running {
    fn start(client: Client, certificate: Vec<u8>, settings: Settings) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let operator = operate(client, vec![certificate], settings, async {
            drop(stopped.await);
        });
        Self(stop, tokio::spawn(operator))
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.0.send(()).ok();
        Ok(self.1.await?)
    }
}

async fn wait_for_records(dns: &FakeDns, expected: &[&str]) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while dns.records() != expected {
        anyhow::ensure!(Instant::now() < deadline, "{:?}", dns.records());
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn token(name: &str, token: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"token": token}})
}

/// Returns the accounts of a server's own space.
fn accounts(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<DnsAccount>(&()))
}

fn account(server: &str, allowed: Value) -> Value {
    let mut account = json!({
        "apiVersion": "dns.example.com/v1", "kind": "DnsAccount", "metadata": {"name": "shared"},
        "spec": {"secretName": "shared", "allowedServers": [server]},
    });
    for (key, value) in allowed.as_object().into_iter().flatten() {
        account["spec"][key] = value.clone();
    }
    account
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
    let authority = server.authority().certificate_pem();
    let admin = connect(&server.url(), authority.as_bytes(), "system").await?;
    system.install(&manifests(true)).await?;
    let dns = FakeDns::default();
    let (address, certificate) = dns.start().await?;
    for tenant in ["acme", "bmce"] {
        server.tenant(tenant).await?;
    }
    let operator = Running::start(admin.clone(), certificate, settings(true));

    // Tenant acme has a Secret of its own; the system lends an account to bmce.
    let (acme, bmce) = (client_for(&admin, "acme"), client_for(&admin, "bmce"));
    for space in [&acme, &bmce] {
        let namespace = json!({"metadata": {"name": "web"}});
        create(&Api::<Namespace>::all(space.clone()), namespace).await?;
    }
    let secrets: Api<Secret> = Api::namespaced(acme.clone(), "web");
    create(&secrets, token("dns", "red")).await?;
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "dns-system");
    create(&secrets, token("shared", "blue")).await?;
    let gold = json!({"selector": {"matchLabels": {"dns": "yes"}}});
    let lent = account(&address, json!({"allowedTenants": gold}));
    create(&accounts(&admin), lent).await?;
    let of_acme: Api<DnsRecord> = Api::namespaced(acme, "web");
    let of_bmce: Api<DnsRecord> = Api::namespaced(bmce, "web");
    let secret = json!({"kind": "Secret", "name": "dns"});
    let lent = json!({"kind": "DnsAccount", "name": "shared"});
    create(&of_acme, record(&address, "a", secret.clone())).await?;
    create(&of_bmce, record(&address, "b", lent.clone())).await?;
    wait_for(&of_acme, "a", "Written").await?;
    assert_eq!(dns.records(), ["a=10.0.0.1 by red"]);

    // A tenant gets the account after the administrator has labelled it, and not before.
    let message = wait_for(&of_bmce, "b", "IdentityNotFound").await?;
    assert!(
        message.starts_with("there is no DnsAccount shared: "),
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
        message.starts_with("DnsAccount shared may not be sent to 127.0.0.1:1"),
        "{message}"
    );
    create(&of_bmce, record(&address, "e", secret)).await?;
    wait_for(&of_bmce, "e", "SecretNotAvailable").await?;

    // A changed record is written again, and a deleted one disappears.
    let change = Patch::Merge(json!({"spec": {"address": "10.0.0.2"}}));
    of_acme.patch("a", &PatchParams::default(), &change).await?;
    of_bmce.delete("b", &DeleteParams::default()).await?;
    wait_for_records(&dns, &["a=10.0.0.2 by red"]).await?;
    operator.stop().await
}

#[tokio::test]
async fn example_works_on_a_real_kubernetes() -> anyhow::Result<()> {
    let Some(server) = KubeApiserver::start_with("system,system,1,system:masters\n").await else {
        return Ok(());
    };
    let authority = std::fs::read(server.authority())?;
    let admin = connect(
        &format!("https://{}", server.address()),
        &authority,
        "system",
    )
    .await?;
    server.client().await?.install(&manifests(false)).await?;
    let dns = FakeDns::default();
    let (address, certificate) = dns.start().await?;
    let operator = Running::start(admin.clone(), certificate, settings(false));
    for (name, team) in [("web", "a"), ("other", "b")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"team": team}}});
        create(&Api::<Namespace>::all(admin.clone()), namespace).await?;
    }
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "dns-system");
    create(&secrets, token("shared", "red")).await?;
    let team = json!({"selector": {"matchLabels": {"team": "a"}}});
    let shared = account(&address, json!({"allowedNamespaces": team}));
    create(&accounts(&admin), shared).await?;
    let reference = json!({"kind": "DnsAccount", "name": "shared"});
    let web: Api<DnsRecord> = Api::namespaced(admin.clone(), "web");
    let other: Api<DnsRecord> = Api::namespaced(admin.clone(), "other");
    let client = admin;
    for records in [&web, &other] {
        create(records, record(&address, "a", reference.clone())).await?;
    }
    wait_for(&web, "a", "Written").await?;
    wait_for(&other, "a", "NamespaceNotAllowed").await?;
    assert_eq!(dns.records(), ["a=10.0.0.1 by red"]);
    for (namespace, expected) in [("web", Verdict::Granted), ("other", Verdict::Refused)] {
        let report = explain::report(&client, &Dns, "DnsRecord", namespace, "a").await?;
        assert_eq!(report.verdict(), expected, "{report}");
    }
    let kind = Dns.identities().expect("it has identities");
    let found = users::list(&client, &Dns, kind, "shared").await?;
    let names = |users: &[User]| -> Vec<_> {
        let users = users.iter();
        users
            .map(|user| user.namespace.clone().unwrap_or_default())
            .collect()
    };
    assert_eq!(
        (names(&found.users), names(&found.refused)),
        (vec!["web".to_owned()], vec!["other".to_owned()])
    );
    web.delete("a", &DeleteParams::default()).await?;
    wait_for_records(&dns, &[]).await?;
    operator.stop().await
}
