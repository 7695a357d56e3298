//! A move is killed wherever it writes, and taken up again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::{Method, Request, Response};
use insula_operator::report::Silent;
use insula_relocate::{Settings, relocate};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::moves::pieces;
use crate::scene::{CAPI, INFRA, KINDS, Login, Scene, Side, cluster, identity, settings};

/// What becomes of the write at which a move is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The server never gets it.
    Before,
    /// The server gets it.
    After,
}

/// Kills a move at one of its writes, whichever end that goes to.
struct Knife {
    at: u64,
    fate: Fate,
    writes: AtomicU64,
    dead: AtomicBool,
    killed: Notify,
}

impl Knife {
    fn new(at: u64, fate: Fate) -> Arc<Self> {
        Arc::new(Self {
            at,
            fate,
            writes: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            killed: Notify::new(),
        })
    }

    fn over(self: &Arc<Self>, client: &Client) -> Client {
        let (knife, client) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (knife, client) = (Arc::clone(&knife), client.clone());
            async move { knife.send(&client, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(
        &self,
        client: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        if self.dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let writes = *request.method() != Method::GET;
        if !writes || self.writes.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return Ok(client.send(request).await?);
        }
        if self.fate == Fate::After {
            client.send(request).await?;
        }
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_one();
        std::future::pending().await
    }
}

/// Kills a move at its n-th write. Says no if it was done before.
async fn kill(scene: &Scene, settings: &Settings, at: u64, fate: Fate) -> anyhow::Result<bool> {
    let knife = Knife::new(at, fate);
    let source = knife.over(&scene.source.client);
    let target = knife.over(&scene.target.client);
    tokio::select! {
        () = knife.killed.notified() => Ok(true),
        done = relocate(&source, &target, settings, &Silent) => {
            done?;
            Ok(false)
        }
    }
}

fn of(namespace: &str, names: Vec<String>) -> Vec<String> {
    let (inside, shared) = (format!(" {namespace}/"), format!("{namespace}-id"));
    let mine = |name: &String| name.contains(&inside) || name.contains(&shared);
    names.into_iter().filter(mine).collect()
}

/// Nothing is lost, nothing is being destroyed, and whatever is at both ends is paused at both.
async fn assert_safe(scene: &Scene, namespace: &str, what: &[String]) -> anyhow::Result<()> {
    let here = of(namespace, scene.source.inventory().await?);
    let there = of(namespace, scene.target.inventory().await?);
    for piece in what {
        let somewhere = here.contains(piece) || there.contains(piece);
        assert!(somewhere, "{piece} is lost: {here:?} {there:?}");
    }
    let moved = |names: &[String]| {
        names
            .iter()
            .any(|name| name.contains(&format!(" {namespace}/")))
    };
    if moved(&here) && moved(&there) {
        for side in [&scene.source, &scene.target] {
            assert_paused(side, namespace).await?;
        }
    }
    for side in [&scene.source, &scene.target] {
        for (version, kind) in KINDS {
            for one in side
                .api(version, kind, "")
                .list(&ListParams::default())
                .await?
            {
                let name = one.name_any();
                assert_eq!(one.metadata.deletion_timestamp, None, "{kind} {name}");
            }
        }
    }
    Ok(())
}

async fn assert_paused(side: &Side, namespace: &str) -> anyhow::Result<()> {
    let cluster = side.get(CAPI, "Cluster", (namespace, "c")).await?;
    let cluster = cluster.expect("a cluster comes first and goes last");
    assert_eq!(cluster.data["spec"]["paused"], json!(true), "{namespace}");
    Ok(())
}

async fn kill_everywhere(fate: Fate) -> anyhow::Result<u64> {
    let scene = Scene::new().await?;
    for at in 1.. {
        let namespace = format!("k{at}");
        let settings = Settings {
            namespace: namespace.clone(),
            ..settings()
        };
        scene.source.namespace(&namespace, json!({})).await?;
        let shared = format!("{namespace}-id");
        identity(&scene.source, &shared, "x").await?;
        cluster(&scene.source, &namespace, "c", Login::Identity(&shared)).await?;
        let all = of(&namespace, scene.source.inventory().await?);
        let was_killed = kill(&scene, &settings, at, fate).await?;
        assert_safe(&scene, &namespace, &all).await?;
        if was_killed {
            // The last write may have been the one that got through.
            let again = scene.relocate_with(&settings).await;
            if let Err(error) = again {
                let nothing = format!("there is nothing to move in namespace {namespace}");
                assert_eq!(error.to_string(), nothing);
            }
        }
        assert_moved(&scene, &namespace, &all).await?;
        if !was_killed {
            return Ok(at - 1);
        }
    }
    unreachable!()
}

async fn assert_moved(scene: &Scene, namespace: &str, all: &[String]) -> anyhow::Result<()> {
    let here = of(namespace, scene.source.inventory().await?);
    let kept = [
        format!("Secret capv-system/{namespace}-id-login"),
        format!("VSphereClusterIdentity {namespace}-id"),
    ];
    assert_eq!(here, kept);
    assert_eq!(of(namespace, scene.target.inventory().await?), all);
    let cluster = scene.target.get(CAPI, "Cluster", (namespace, "c")).await?;
    let cluster = cluster.expect("a cluster");
    assert_eq!(cluster.data["spec"]["paused"], json!(null), "{namespace}");
    let mark = "move.insula.dev/under-way";
    assert!(!cluster.annotations().contains_key(mark), "{namespace}");
    for (version, kind, name) in [
        (INFRA, "VSphereCluster", "c"),
        (INFRA, "VSphereVM", "c-m"),
        (CAPI, "Cluster", "c"),
    ] {
        let one = scene.target.get(version, kind, (namespace, name)).await?;
        let one = one.expect("an object");
        assert_eq!(one.finalizers().len(), 1, "{kind} {namespace}");
    }
    Ok(())
}

#[tokio::test]
async fn killed_before_any_write_a_move_ends_where_it_would_have() -> anyhow::Result<()> {
    let writes = kill_everywhere(Fate::Before).await?;
    // Pause; two namespaces; eight objects; six times strip and delete; unpause.
    assert!(writes >= 23, "{writes}");
    Ok(())
}

#[tokio::test]
async fn killed_after_any_write_a_move_ends_where_it_would_have() -> anyhow::Result<()> {
    let writes = kill_everywhere(Fate::After).await?;
    assert!(writes >= 23, "{writes}");
    Ok(())
}

/// Somebody writes a Secret between its copy and its deletion.
fn meddled(client: &Client, seen: &Arc<AtomicBool>) -> Client {
    let (client, seen) = (client.clone(), Arc::clone(seen));
    let service = service_fn(move |request: Request<Body>| {
        let (client, seen) = (client.clone(), Arc::clone(&seen));
        async move {
            let path = request.uri().path().to_owned();
            let hit = *request.method() == Method::PATCH && path.ends_with("/secrets/c-login");
            if hit && !seen.swap(true, Ordering::SeqCst) {
                let rotated = json!({"data": {"password": "bmV3"}});
                let patch = Request::patch(path)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(serde_json::to_vec(&rotated)?))?;
                client.send(patch).await?;
            }
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn a_secret_that_is_rotated_during_the_move_arrives_rotated() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Secret).await?;
    let seen = Arc::new(AtomicBool::new(false));
    let source = meddled(&scene.source.client, &seen);
    relocate(&source, &scene.target.client, &settings(), &Silent).await?;
    assert!(seen.load(Ordering::SeqCst));
    let there = scene.target.get("v1", "Secret", ("a", "c-login")).await?;
    let there = there.expect("a Secret");
    assert_eq!(there.data["data"]["password"], json!("bmV3"));
    assert_eq!(there.finalizers(), [crate::scene::HELD]);
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    Ok(())
}

#[tokio::test]
async fn what_changes_at_the_source_after_a_kill_is_at_the_target_in_the_end() -> anyhow::Result<()>
{
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Secret).await?;
    // Pause, namespace, and seven objects.
    assert!(kill(&scene, &settings(), 9, Fate::After).await?);
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    let api = scene.source.api("v1", "Secret", "a");
    let rotated = kube::api::Patch::Merge(json!({"data": {"password": "bmV3"}}));
    api.patch("c-login", &kube::api::PatchParams::default(), &rotated)
        .await?;
    scene.relocate().await?;
    let there = scene.target.get("v1", "Secret", ("a", "c-login")).await?;
    assert_eq!(
        there.expect("a Secret").data["data"]["password"],
        json!("bmV3")
    );
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    Ok(())
}
