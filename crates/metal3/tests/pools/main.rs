//! Pools of hosts in a tenant's space, reached with kubeconfigs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{FutureExt, StreamExt};
use insula_dialer::AddressRules;
use insula_identity::credential::{Credential, Fingerprint, Hidden, Source};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reason::Reason;
use insula_identity::reference::Level;
use insula_identity::session::{Connector, Key, LoginError};
use insula_identity::shape::Shape;
use insula_metal3::kubeconfig::Kubeconfig;
use insula_metal3::pool::{OpenPool, Pools, rights};
use insula_operator::outbound::HttpClients;
use insula_operator::provider::Requeue;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// A definition of hosts without a schema of their fields.
fn hosts_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "baremetalhosts.metal3.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {
            "group": "metal3.io", "scope": "Namespaced",
            "names": {"plural": "baremetalhosts", "singular": "baremetalhost",
                "kind": "BareMetalHost", "listKind": "BareMetalHostList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn host(name: &str) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name}, "spec": {"online": false}})
}

const POOL: &str = "/apis/metal3.io/v1alpha1/namespaces/pool-a/baremetalhosts";

/// A server with hosts in a tenant's space.
struct World {
    server: TestServer,
    hosts: Client,
    requeue: Arc<Requeue>,
    pools: Pools,
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let server = TestServer::start_with(Setup::with_controllers()).await?;
        let hosts = server.tenant("t1").await?;
        for name in ["pool-a", "pool-b"] {
            let namespace = json!({"metadata": {"name": name}});
            let made = hosts.post("/api/v1/namespaces", &namespace).await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        let requeue = Arc::<Requeue>::default();
        let clients = HttpClients::new(Vec::new())
            .restricted(AddressRules::default(), AllowedEndpoints::Anywhere);
        let own = kube::Config::new(server.url().parse()?);
        let pools = Pools {
            own: kube::Client::try_from(own)?,
            clients,
            requeue: Arc::clone(&requeue),
            memory: Arc::default(),
        };
        Ok(Self {
            server,
            hosts,
            requeue,
            pools,
        })
    }

    async fn serve_hosts(&self) -> anyhow::Result<()> {
        self.hosts.install(&[hosts_definition()]).await?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.hosts.get(POOL).await?.status != 200 {
            anyhow::ensure!(Instant::now() < deadline, "hosts are not served");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Returns a token of a new service account with these rules in pool-a.
    async fn user(&self, name: &str, rules: &Value) -> anyhow::Result<String> {
        let base = "/api/v1/namespaces/pool-a/serviceaccounts";
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/pool-a";
        let account = json!({"metadata": {"name": name}});
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "pool-a"}]});
        for (path, object) in [
            (base.to_owned(), account),
            (format!("{rbac}/roles"), role),
            (format!("{rbac}/rolebindings"), binding),
        ] {
            let made = self.hosts.post(&path, &object).await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        let path = format!("{base}/{name}/token");
        let issued = self.hosts.post(&path, &json!({"spec": {}})).await?;
        let token = issued.json()["status"]["token"].as_str().map(str::to_owned);
        Ok(token.unwrap_or_default())
    }

    /// Returns the credential that a kubeconfig with this token is.
    fn credential(&self, token: &str, namespace: &str) -> Credential {
        let authority = self.server.authority().certificate_pem();
        let kubeconfig = json!({
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("{}/tenants/t1", self.server.url()),
                "certificate-authority-data": STANDARD.encode(authority),
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c",
                "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        });
        let kubeconfig = Hidden::new(kubeconfig.to_string());
        let data = BTreeMap::from([("kubeconfig".to_owned(), kubeconfig)]);
        let shape = Kubeconfig::VERIFIED;
        let content = shape.read(&data, None).expect("a kubeconfig");
        let carried = content.carried.expect("a server");
        Credential {
            source: Source::Secret {
                namespace: "team".to_owned(),
                name: "s".to_owned(),
                uid: "1".to_owned(),
                part: None,
            },
            level: Level::Object,
            fingerprint: Fingerprint::of(&content.values),
            content: content.values,
            endpoint: carried.endpoint,
            trust: carried.trust,
            has_owners_trust: true,
            scope: carried.scope,
        }
    }

    async fn open(&self, token: &str, namespace: &str) -> Result<OpenPool, LoginError> {
        let credential = self.credential(token, namespace);
        let key = Key::of(None, &credential);
        self.pools.log_in(&key, &credential).await
    }
}

fn failure(opened: Result<OpenPool, LoginError>) -> (Reason, String) {
    match opened {
        Ok(_) => panic!("the pool is open"),
        Err(error) => (error.reason, error.message),
    }
}

async fn next_key(keys: &mut (impl StreamExt<Item = Arc<str>> + Unpin)) -> anyhow::Result<String> {
    let key = tokio::time::timeout(Duration::from_secs(20), keys.next()).await?;
    Ok(key.map(|key| key.to_string()).unwrap_or_default())
}

#[tokio::test]
async fn r27_pool_is_verified_with_exactly_the_rights_of_the_manifest() -> anyhow::Result<()> {
    let world = World::start().await?;
    let all = json!(rights::host_access());
    let full = world.user("full", &all).await?;
    let endpoint = world.credential(&full, "pool-a").endpoint;
    // The definitions are missing.
    assert_eq!(
        failure(world.open(&full, "pool-a").await),
        (
            Reason::NotServed,
            format!(
                "{endpoint} does not serve BareMetalHosts: install the Bare Metal Operator's \
                 definitions there"
            )
        )
    );
    world.serve_hosts().await?;
    let pool = world
        .open(&full, "pool-a")
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    assert_eq!((pool.namespace(), pool.is_in_cluster()), ("pool-a", false));
    // Each right is needed, and its absence is named.
    for (index, missing) in [
        "get baremetalhosts",
        "watch baremetalhosts",
        "patch baremetalhosts",
        "get secrets",
        "create secrets",
        "patch secrets",
        "delete secrets",
    ]
    .into_iter()
    .enumerate()
    {
        let (verb, resource) = missing.split_once(' ').unwrap_or_default();
        let mut rules = all.clone();
        for rule in rules.as_array_mut().into_iter().flatten() {
            if rule["resources"] == json!([resource]) {
                let verbs = rule["verbs"].as_array_mut().expect("verbs");
                verbs.retain(|known| known != verb);
            }
        }
        let token = world.user(&format!("less-{index}"), &rules).await?;
        let message = format!(
            "the kubeconfig's user may not {missing} in namespace pool-a: apply the output of \
             `insula operator metal3 manifests --host-access pool-a` there"
        );
        let found = failure(world.open(&token, "pool-a").await);
        assert_eq!(found, (Reason::Forbidden, message));
    }
    let found = failure(world.open(&full, "pool-b").await);
    assert_eq!(found.0, Reason::Forbidden);
    assert!(
        found
            .1
            .contains("may not list baremetalhosts in namespace pool-b"),
        "{}",
        found.1
    );
    let found = failure(world.open("wrong", "pool-a").await);
    let message = format!("{endpoint} does not accept the credential");
    assert_eq!(found, (Reason::InvalidCredentials, message));
    Ok(())
}

#[tokio::test]
async fn hosts_are_seen_and_trigger_their_machines() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.serve_hosts().await?;
    world.hosts.post(POOL, &host("a")).await?;
    let token = world.user("full", &json!(rights::host_access())).await?;
    let pool = world
        .open(&token, "pool-a")
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    let names = |pool: &OpenPool| -> Vec<String> {
        let seen = pool.seen().into_iter();
        seen.filter_map(|host| host.metadata.name.clone()).collect()
    };
    assert_eq!(names(&pool), ["a"]);
    let mut keys = Box::pin(Arc::clone(&world.requeue).keys());
    pool.follow_host("machine".into(), "a");
    pool.wait_for_host("waiting".into(), |host| {
        host.metadata.name.as_deref() == Some("b")
    });
    world.hosts.post(POOL, &host("b")).await?;
    assert_eq!(next_key(&mut keys).await?, "waiting");
    assert_eq!(names(&pool), ["a", "b"]);
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    world
        .hosts
        .patch(&format!("{POOL}/a"), "merge", &change)
        .await?;
    assert_eq!(next_key(&mut keys).await?, "machine");
    world.hosts.delete(&format!("{POOL}/a")).await?;
    assert_eq!(next_key(&mut keys).await?, "machine");
    assert_eq!(names(&pool), ["b"]);
    pool.forget("machine");
    pool.forget("waiting");

    // The watch ends with the pool.
    drop(pool);
    let again = world
        .open(&token, "pool-a")
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    assert_eq!(names(&again), ["b"]);
    assert!(keys.next().now_or_never().is_none());
    // A revoked account is noticed by the watch, and by the check of the session.
    again.follow_access("cluster".into());
    let account = "/api/v1/namespaces/pool-a/serviceaccounts/full";
    world.hosts.delete(account).await?;
    assert_eq!(next_key(&mut keys).await?, "cluster");
    assert!(again.is_in_doubt());
    assert_eq!(world.pools.is_alive(&again).await, Ok(false));
    Ok(())
}
