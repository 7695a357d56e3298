//! A move that is killed at any of its writes is resumed by the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::{Method, Request, Response};
use insula_operator::report::Silent;
use insula_relocate::{Settings, relocate};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::moves::pieces;
use crate::scene::{CAPI, INFRA, KINDS, Login, Scene, Side, cluster, identity, settings};

/// Whether the write at which a move is killed reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillPoint {
    /// The server never gets it.
    Before,
    /// The server gets it.
    After,
}

/// Kills a move at one of its writes, to either server.
struct WriteKiller {
    at: u64,
    point: KillPoint,
    writes: AtomicU64,
    dead: AtomicBool,
    killed: Notify,
}

impl WriteKiller {
    fn new(at: u64, point: KillPoint) -> Arc<Self> {
        Arc::new(Self {
            at,
            point,
            writes: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            killed: Notify::new(),
        })
    }

    fn over(self: &Arc<Self>, client: &Client) -> Client {
        let (killer, client) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (killer, client) = (Arc::clone(&killer), client.clone());
            async move { killer.send(&client, request).await }
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
        if self.point == KillPoint::After {
            client.send(request).await?;
        }
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_one();
        std::future::pending().await
    }
}

/// Kills a move at its n-th write. Returns `false` if it completed before.
async fn kill(
    scene: &Scene,
    settings: &Settings,
    at: u64,
    point: KillPoint,
) -> anyhow::Result<bool> {
    let killer = WriteKiller::new(at, point);
    let source = killer.over(&scene.source.client);
    let target = killer.over(&scene.target.client);
    tokio::select! {
        () = killer.killed.notified() => Ok(true),
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

/// Asserts that no object is lost or terminating, and that clusters at both servers are paused.
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

async fn kill_everywhere(point: KillPoint) -> anyhow::Result<u64> {
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
        let was_killed = kill(&scene, &settings, at, point).await?;
        assert_safe(&scene, &namespace, &all).await?;
        if was_killed {
            // The killed write may have been the last one.
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
async fn move_killed_before_any_write_is_completed_by_the_next_run() -> anyhow::Result<()> {
    let writes = kill_everywhere(KillPoint::Before).await?;
    // Pause; two namespaces; eight objects; six times strip and delete; unpause.
    assert!(writes >= 23, "{writes}");
    Ok(())
}

#[tokio::test]
async fn move_killed_after_any_write_is_completed_by_the_next_run() -> anyhow::Result<()> {
    let writes = kill_everywhere(KillPoint::After).await?;
    assert!(writes >= 23, "{writes}");
    Ok(())
}

/// A patch by another client, and the request of the move that it precedes.
#[derive(Clone)]
struct ConcurrentPatch {
    /// The method and the end of the path.
    before: (Method, &'static str),
    /// The path of the patch.
    at: &'static str,
    what: Value,
}

/// Returns a client that sends a patch to `home` just before the first matching request of the
/// move.
fn with_concurrent_patch(
    over: &Client,
    home: &Client,
    patch_by_other: &ConcurrentPatch,
    seen: &Arc<AtomicBool>,
) -> Client {
    let (over, home, seen) = (over.clone(), home.clone(), Arc::clone(seen));
    let patch_by_other = patch_by_other.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (over, home, seen) = (over.clone(), home.clone(), Arc::clone(&seen));
        let patch_by_other = patch_by_other.clone();
        async move {
            let (method, path) = &patch_by_other.before;
            let hit = request.method() == method && request.uri().path().ends_with(path);
            if hit && !seen.swap(true, Ordering::SeqCst) {
                let patch = Request::patch(patch_by_other.at)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(serde_json::to_vec(&patch_by_other.what)?))?;
                home.send(patch).await?;
            }
            Ok::<_, BoxError>(over.send(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn secret_rotated_during_the_move_arrives_rotated() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Secret).await?;
    let seen = Arc::new(AtomicBool::new(false));
    let path = "/api/v1/namespaces/a/secrets/c-login";
    let rotation = ConcurrentPatch {
        before: (Method::PATCH, path),
        at: path,
        what: json!({"data": {"password": "bmV3"}}),
    };
    let client = &scene.source.client;
    let source = with_concurrent_patch(client, client, &rotation, &seen);
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
async fn changes_at_the_source_after_a_kill_reach_the_target() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Secret).await?;
    // Pause, namespace, and seven objects.
    assert!(kill(&scene, &settings(), 9, KillPoint::After).await?);
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

const VM: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/a/vspherevms/c-m";
const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusters/c";

async fn delete(side: &Side, (version, kind): (&str, &str), name: &str) -> anyhow::Result<()> {
    let api = side.api(version, kind, "a");
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

async fn assert_working(side: &Side, name: &str) -> anyhow::Result<()> {
    let cluster = side.get(CAPI, "Cluster", ("a", name)).await?;
    let cluster = cluster.expect("a cluster");
    assert_eq!(cluster.data["spec"]["paused"], json!(null), "{name}");
    let mark = "move.insula.dev/under-way";
    assert!(!cluster.annotations().contains_key(mark), "{name}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_removed_while_a_copy_is_terminating() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    // Pause, namespace, and seven objects.
    assert!(kill(&scene, &settings(), 9, KillPoint::After).await?);
    delete(&scene.target, (INFRA, "VSphereVM"), "c-m").await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "being deleted at the target:\n  VSphereVM a/c-m\nstill paused at the source:\n  Cluster a/c";
    assert_eq!(refused.to_string(), text);
    let hint = refused.hint().expect("a hint");
    assert!(hint.contains("remove their finalizers there"), "{hint}");
    assert_eq!(scene.source.inventory().await?, pieces("a", "c"));
    assert_paused(&scene.source, "a").await?;
    assert_paused(&scene.target, "a").await?;
    // The hint is followed.
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let vms = scene.target.api(INFRA, "VSphereVM", "a");
    vms.patch("c-m", &PatchParams::default(), &bare).await?;
    scene.relocate().await?;
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    Ok(())
}

#[tokio::test]
async fn nothing_is_unpaused_while_a_copy_is_terminating() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    // Pause, namespace, seven objects, seven times strip and delete; all but the last.
    assert!(kill(&scene, &settings(), 23, KillPoint::After).await?);
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    delete(&scene.target, (INFRA, "VSphereVM"), "c-m").await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "being deleted at the target:\n  VSphereVM a/c-m";
    assert_eq!(refused.to_string(), text);
    assert_paused(&scene.target, "a").await
}

#[tokio::test]
async fn copy_deleted_during_the_move_keeps_everything_at_the_source() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let seen = Arc::new(AtomicBool::new(false));
    // When everything has been copied, and is checked again before it is deleted.
    let target = scene.target.api(INFRA, "VSphereVM", "a");
    let source = before(&scene.source.client, &seen, "/vspheremachines", move || {
        let target = target.clone();
        async move {
            let copied = target.get_opt("c-m").await?.is_some();
            if copied {
                target.delete("c-m", &DeleteParams::default()).await?;
            }
            Ok(copied)
        }
    });
    let refused = relocate(&source, &scene.target.client, &settings(), &Silent).await;
    assert!(seen.load(Ordering::SeqCst));
    let text = "being deleted at the target:\n  VSphereVM a/c-m\nstill paused at the source:\n  Cluster a/c";
    assert_eq!(refused.expect_err("a refusal").to_string(), text);
    assert_eq!(scene.source.inventory().await?, pieces("a", "c"));
    assert_paused(&scene.target, "a").await
}

/// Returns a client that acts before requests to a path, until the act returns true.
fn before<F>(
    over: &Client,
    seen: &Arc<AtomicBool>,
    path: &'static str,
    act: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> Client
where
    F: Future<Output = anyhow::Result<bool>> + Send + 'static,
{
    let (over, seen) = (over.clone(), Arc::clone(seen));
    let service = service_fn(move |request: Request<Body>| {
        let (over, seen, act) = (over.clone(), Arc::clone(&seen), act.clone());
        async move {
            let hit = request.uri().path().ends_with(path) && !seen.load(Ordering::SeqCst);
            if hit && act().await? {
                seen.store(true, Ordering::SeqCst);
            }
            Ok::<_, BoxError>(over.send(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn object_unmovable_at_the_pause_rolls_the_move_back() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let seen = Arc::new(AtomicBool::new(false));
    let late = ConcurrentPatch {
        before: (Method::PATCH, CLUSTER),
        at: VM,
        what: json!({"spec": {"biosUUID": null}}),
    };
    let client = &scene.source.client;
    let source = with_concurrent_patch(client, client, &late, &seen);
    let refused = relocate(&source, &scene.target.client, &settings(), &Silent).await;
    assert!(seen.load(Ordering::SeqCst));
    let refused = refused.expect_err("a refusal");
    let text = "not everything can be moved:\n  VSphereVM a/c-m has no virtual machine yet";
    assert_eq!(refused.to_string(), text);
    let hint = "fix the listed objects, or wait, and run it again";
    assert_eq!(refused.hint(), Some(hint));
    assert_working(&scene.source, "c").await?;
    assert_eq!(scene.source.inventory().await?, pieces("a", "c"));
    assert_eq!(scene.target.inventory().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn cluster_unpaused_during_the_copy_is_not_removed() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let seen = Arc::new(AtomicBool::new(false));
    let impatient = ConcurrentPatch {
        before: (Method::POST, "/vspherevms"),
        at: CLUSTER,
        what: json!({"spec": {"paused": null}}),
    };
    let target = with_concurrent_patch(
        &scene.target.client,
        &scene.source.client,
        &impatient,
        &seen,
    );
    let refused = relocate(&scene.source.client, &target, &settings(), &Silent).await;
    assert!(seen.load(Ordering::SeqCst));
    let text = "not everything can be moved:\n  Cluster a/c is not paused";
    assert_eq!(refused.expect_err("a refusal").to_string(), text);
    assert_eq!(scene.source.inventory().await?, pieces("a", "c"));
    assert_paused(&scene.target, "a").await?;
    // The next run pauses it again.
    scene.relocate().await?;
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    assert_working(&scene.target, "c").await
}

#[tokio::test]
async fn cluster_unpaused_during_the_removal_stops_it() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let seen = Arc::new(AtomicBool::new(false));
    // When the first object is deleted.
    let impatient = ConcurrentPatch {
        before: (Method::PATCH, VM),
        at: CLUSTER,
        what: json!({"spec": {"paused": null}}),
    };
    let client = &scene.source.client;
    let source = with_concurrent_patch(client, client, &impatient, &seen);
    let refused = relocate(&source, &scene.target.client, &settings(), &Silent).await;
    assert!(seen.load(Ordering::SeqCst));
    let text = "not everything can be moved:\n  Cluster a/c is not paused";
    assert_eq!(refused.expect_err("a refusal").to_string(), text);
    let mut left = pieces("a", "c");
    left.retain(|name| name != "VSphereVM a/c-m");
    assert_eq!(scene.source.inventory().await?, left);
    assert_paused(&scene.target, "a").await
}

#[tokio::test]
async fn cluster_paused_by_an_earlier_run_is_unpaused_when_unmovable() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    assert!(kill(&scene, &settings(), 1, KillPoint::After).await?);
    assert_paused(&scene.source, "a").await?;
    let vms = scene.source.api(INFRA, "VSphereVM", "a");
    let uuid = |value: Value| Patch::Merge(json!({"spec": {"biosUUID": value}}));
    vms.patch("c-m", &PatchParams::default(), &uuid(json!(null)))
        .await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  VSphereVM a/c-m has no virtual machine yet";
    assert_eq!(refused.to_string(), text);
    assert_working(&scene.source, "c").await?;
    // Its controller has made progress.
    vms.patch("c-m", &PatchParams::default(), &uuid(json!("4210")))
        .await?;
    scene.relocate().await?;
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    Ok(())
}

#[tokio::test]
async fn removed_cluster_is_unpaused_although_another_fails() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    cluster(&scene.source, "a", "d", Login::Secret).await?;
    // Two pauses, a namespace, fourteen objects, and thirteen times strip and delete.
    assert!(kill(&scene, &settings(), 43, KillPoint::After).await?);
    assert_eq!(scene.source.inventory().await?, ["Cluster a/c"]);
    delete(&scene.source, (CAPI, "Cluster"), "c").await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  Cluster a/c is being deleted\nstill paused at the source:\n  Cluster a/c";
    assert_eq!(refused.to_string(), text);
    assert_working(&scene.target, "d").await?;
    assert_paused(&scene.target, "a").await
}

#[tokio::test]
async fn object_missed_by_a_copy_pass_is_copied_by_the_next() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let seen = Arc::new(AtomicBool::new(false));
    let (client, once) = (scene.source.client.clone(), Arc::clone(&seen));
    let service = service_fn(move |request: Request<Body>| {
        let (client, once) = (client.clone(), Arc::clone(&once));
        async move {
            let hit = *request.method() == Method::GET && request.uri().path() == VM;
            if hit && !once.swap(true, Ordering::SeqCst) {
                let nothing = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "NotFound", "code": 404, "message": "not found",
                });
                let body = Body::from(serde_json::to_vec(&nothing)?);
                return Ok(Response::builder().status(404).body(body)?);
            }
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    let source = Client::new(service, "default");
    relocate(&source, &scene.target.client, &settings(), &Silent).await?;
    assert!(seen.load(Ordering::SeqCst));
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    Ok(())
}
