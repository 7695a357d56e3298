//! Servers over a store with delayed watches or colliding names: the cache lags behind, and no
//! response may be based on outdated state.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use insula_core::Revision;
use insula_store::memory::Memory;
use insula_store::{
    At, Conflict, Expect, Key, KeyRange, Outcome, Page, Result, Store, Transaction, Watch,
    WatchItem,
};
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};
use tokio::time::Instant;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The delay of watch events.
const WATCH_DELAY: Duration = Duration::from_millis(100);

/// A store with delayed watches, in which every name containing `crowd-` is taken.
struct LaggingStore {
    inner: Memory,
    lag: Duration,
    asked: Arc<Mutex<HashSet<Key>>>,
}

struct LaggingWatch {
    inner: Box<dyn Watch>,
    lag: Duration,
    held: Option<(Instant, WatchItem)>,
}

#[async_trait]
impl Store for LaggingStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        self.inner.range(range, at, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let taken = transaction.checks().iter().position(|check| {
            check.expect == Expect::Absent && check.key.windows(6).any(|part| part == b"crowd-")
        });
        let Some(check) = taken else {
            return self.inner.commit(transaction).await;
        };
        let key = transaction.checks()[check].key.clone();
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key);
        let revision = self.revision().await?;
        Ok(Outcome::Conflict(Conflict {
            check,
            found: None,
            revision,
        }))
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(LaggingWatch {
            inner: self.inner.watch(range, after).await?,
            lag: self.lag,
            held: None,
        }))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.inner.compact(floor).await
    }
}

#[async_trait]
impl Watch for LaggingWatch {
    async fn next(&mut self) -> Result<WatchItem> {
        if self.held.is_none() {
            let item = self.inner.next().await?;
            let lag = match item {
                WatchItem::Changes { .. } => self.lag,
                WatchItem::Progress(_) => Duration::ZERO,
            };
            self.held = Some((Instant::now() + lag, item));
        }
        if let Some((due, _)) = &self.held {
            tokio::time::sleep_until(*due).await;
        }
        match self.held.take() {
            Some((_, item)) => Ok(item),
            None => self.inner.next().await,
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.inner.request_progress().await
    }
}

async fn lagging_server() -> anyhow::Result<(TestServer, Client)> {
    let store = LaggingStore {
        inner: Memory::new(),
        lag: WATCH_DELAY,
        asked: Arc::default(),
    };
    let setup = Setup {
        tokens: "alice,alice,7,\"tenant:t1\"\n".to_owned(),
        ..Setup::default()
    };
    let server = TestServer::start_on_store(Arc::new(store), setup).await?;
    let client = server.tenant("t1").await?;
    Ok((server, client))
}

/// Creates an object and waits until the cache has it.
async fn create_and_await_cached(
    client: &Client,
    path: &str,
    object: &Value,
) -> anyhow::Result<Value> {
    let answer = client.post(path, object).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    client.get(path).await?;
    Ok(answer.json())
}

#[tokio::test]
async fn reverting_update_is_not_dropped_as_a_no_op() -> anyhow::Result<()> {
    let (_server, client) = lagging_server().await?;
    let object = |value: &str| json!({"metadata": {"name": "a"}, "data": {"k": value}});
    create_and_await_cached(&client, MAPS, &object("1")).await?;
    let path = format!("{MAPS}/a");
    for value in ["2", "1"] {
        assert_eq!(client.put(&path, &object(value)).await?.status, 200);
    }
    assert_eq!(client.get(&path).await?.json()["data"]["k"], "1");
    for value in ["3", "1"] {
        let patch = json!({"data": {"k": value}});
        assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
    }
    assert_eq!(client.get(&path).await?.json()["data"]["k"], "1");
    Ok(())
}

#[tokio::test]
async fn update_of_an_uncached_version_does_not_conflict() -> anyhow::Result<()> {
    let (_server, client) = lagging_server().await?;
    let mut object =
        create_and_await_cached(&client, MAPS, &json!({"metadata": {"name": "a"}})).await?;
    let path = format!("{MAPS}/a");
    for value in ["1", "2", "3"] {
        object["data"] = json!({"k": value});
        let answer = client.put(&path, &object).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        object = answer.json();
    }
    let options = json!({"preconditions": {
        "resourceVersion": object["metadata"]["resourceVersion"]}});
    let headers = [("content-type", "application/json")];
    let answer = client
        .send(http::Method::DELETE, &path, &headers, options.to_string())
        .await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.get(&path).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn delete_applies_to_the_current_object() -> anyhow::Result<()> {
    let (_server, client) = lagging_server().await?;
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}});
    create_and_await_cached(&client, MAPS, &object).await?;
    let path = format!("{MAPS}/a");
    client.delete(&path).await?;
    client.get(&path).await?;
    let free = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    assert_eq!(client.patch(&path, "json", &free).await?.status, 200);
    let next = client.post(MAPS, &object).await?;
    assert_eq!(next.status, 201, "{}", next.text());
    let deleted = client.delete(&path).await?.json();
    assert_eq!(deleted["metadata"]["uid"], next.json()["metadata"]["uid"]);
    let read = client.get(&path).await?.json();
    assert_ne!(read["metadata"]["deletionTimestamp"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn recreated_namespace_accepts_objects_at_once() -> anyhow::Result<()> {
    let (_server, client) = lagging_server().await?;
    let namespace = json!({"metadata": {"name": "n"}});
    create_and_await_cached(&client, "/api/v1/namespaces", &namespace).await?;
    let path = "/api/v1/namespaces/n";
    let mut marked = client.delete(path).await?.json();
    client.get(path).await?;
    marked["spec"]["finalizers"] = json!([]);
    let finalized = client.put(&format!("{path}/finalize"), &marked).await?;
    assert_eq!(finalized.status, 200, "{}", finalized.text());
    let again = client.post("/api/v1/namespaces", &namespace).await?;
    assert_eq!(again.status, 201, "{}", again.text());
    let object = json!({"metadata": {"name": "a"}});
    let answer = client
        .post("/api/v1/namespaces/n/configmaps", &object)
        .await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn dry_run_uses_current_state() -> anyhow::Result<()> {
    let (_server, client) = lagging_server().await?;
    create_and_await_cached(&client, MAPS, &json!({"metadata": {"name": "a"}})).await?;
    let path = format!("{MAPS}/a");
    let patch = json!({"data": {"x": "1"}});
    assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
    let dry = format!("{path}?dryRun=All");
    let patch = json!({"data": {"y": "2"}});
    let shown = client.patch(&dry, "merge", &patch).await?.json();
    assert_eq!(shown["data"], json!({"x": "1", "y": "2"}));
    assert_eq!(client.delete(&path).await?.status, 200);
    assert_eq!(client.delete(&dry).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn generate_name_gives_up_after_eight_collisions() -> anyhow::Result<()> {
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let store = LaggingStore {
        inner: Memory::new(),
        lag: Duration::ZERO,
        asked: Arc::clone(&asked),
    };
    let server = TestServer::start_on_store(Arc::new(store), Setup::default()).await?;
    let client = server.tenant("t1").await?;
    let sent = json!({"metadata": {"generateName": "crowd-"}});
    let answer = client.post(MAPS, &sent).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let status = answer.json();
    let name = status["details"]["name"].as_str().unwrap_or("").to_owned();
    assert!(name.starts_with("crowd-") && name.len() == 11, "{name}");
    assert_eq!(status["reason"], "AlreadyExists");
    assert_eq!(
        status["message"],
        format!(
            "configmaps \"{name}\" already exists, the server was not able to generate a unique \
             name for the object"
        )
    );
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    assert_eq!(answer.header("retry-after"), "1");
    let tried = asked.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert_eq!(tried, 8);
    Ok(())
}

/// Even if the request accepts an old list, the permission check uses current roles.
#[tokio::test]
async fn revoked_permission_is_not_granted_by_a_lagging_cache() -> anyhow::Result<()> {
    let (server, admin) = lagging_server().await?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let (api, view) = ("rbac.authorization.k8s.io", "view");
    let binding = json!({
        "metadata": {"name": "given"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": view},
        "subjects": [
            {"apiGroup": api, "kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "namespace": "default", "name": "robot"},
        ],
    });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create_and_await_cached(&admin, accounts, &json!({"metadata": {"name": "robot"}})).await?;
    let path = format!("{accounts}/robot/token");
    let token = admin.post(&path, &json!({"spec": {}})).await?.json();
    let token = token["status"]["token"].as_str().unwrap_or("").to_owned();
    let (alice, robot) = (server.client("alice").await?, server.client(&token).await?);
    let bindings = format!("{rbac}/clusterrolebindings");
    let old = format!("{MAPS}?resourceVersion=0");
    for _ in 0..2 {
        // A granted permission takes effect at once, too.
        assert_eq!(admin.post(&bindings, &binding).await?.status, 201);
        assert_eq!(alice.get(&old).await?.status, 200);
        let gone = admin.delete(&format!("{bindings}/given")).await?;
        assert_eq!(gone.status, 200, "{}", gone.text());
        assert_eq!(alice.get(&old).await?.status, 403);
    }
    assert_eq!(admin.post(&bindings, &binding).await?.status, 201);
    assert_eq!(robot.get(&old).await?.status, 200);
    let gone = admin.delete(&format!("{accounts}/robot")).await?;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(robot.get(&old).await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn pods_are_refused_by_labels_that_the_cache_does_not_have_yet() -> anyhow::Result<()> {
    let memory = Memory::new();
    let store = LaggingStore {
        inner: memory.clone(),
        lag: WATCH_DELAY,
        asked: Arc::default(),
    };
    let lagging = TestServer::start_on_store(Arc::new(store), Setup::default()).await?;
    let current = TestServer::start_on_store(Arc::new(memory), Setup::default()).await?;
    let client = lagging.tenant("t1").await?;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, image: &str| {
        let context = json!({"privileged": true});
        json!({"metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": image, "securityContext": context}]}})
    };
    create_and_await_cached(&client, pods, &pod("old", "i")).await?;
    let other = current.client("t1").await?;
    let label = async |level: &str| {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let patch = json!({"metadata": {"labels": labels}});
        let path = "/api/v1/namespaces/default";
        let labelled = other.patch(path, "merge", &patch).await?;
        anyhow::ensure!(labelled.status == 200, "{}", labelled.text());
        Ok(())
    };
    label("baseline").await?;
    let refused = client.post(pods, &pod("new", "i")).await?;
    let why = "violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set \
               securityContext.privileged=true)";
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(
        refused.message(),
        format!("pods \"new\" is forbidden: {why}")
    );
    // A level that is no longer enforced refuses nothing.
    label("privileged").await?;
    let created = client.post(pods, &pod("new", "i")).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    // A change of an existing pod is refused too.
    label("baseline").await?;
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let old = format!("{pods}/old");
    let refused = client.patch(&old, "strategic-merge", &image).await?;
    assert_eq!(
        refused.message(),
        format!("pods \"old\" is forbidden: {why}")
    );
    Ok(())
}
