//! A move that is killed, or fails, at any of its writes is completed by the next run, and no host is
//! lost, provisioned again, or managed by two Bare Metal Operators meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::try_join_all;
use http::{Method, Request, Response, StatusCode};
use insula_capi::Cluster;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_operator::report::Silent;
use insula_relocate::relocate;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::beside::provisionings;
use crate::scene::{Identity, PAUSED, Scene, inventory, move_settings, ready, relocate_between};

/// What happens to one write of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accident {
    /// The move is killed before the write reaches the server. A move that is killed after it
    /// leaves the same state as one that is killed before the next write.
    Kill,
    /// The server refuses the write with an internal error.
    Fail,
}

/// Counts the writes of a move to both servers, and causes an accident at one of them.
struct Interference {
    at: usize,
    accident: Accident,
    writes: AtomicUsize,
    is_dead: AtomicBool,
    killed: Notify,
}

impl Interference {
    fn new(at: usize, accident: Accident) -> Arc<Self> {
        Arc::new(Self {
            at,
            accident,
            writes: AtomicUsize::new(0),
            is_dead: AtomicBool::new(false),
            killed: Notify::new(),
        })
    }

    fn over(self: &Arc<Self>, client: &Client) -> Client {
        let (this, client) = (Arc::clone(self), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (this, client) = (Arc::clone(&this), client.clone());
            async move { this.send(&client, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(
        &self,
        client: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let is_write = *request.method() != Method::GET;
        let is_hit = is_write && self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        if is_hit && self.accident == Accident::Fail {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 500,
                "reason": "InternalError", "message": "an accident",
            });
            let body = Body::from(status.to_string().into_bytes());
            let answer = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(answer.body(body)?);
        }
        if is_hit {
            self.is_dead.store(true, Ordering::SeqCst);
            self.killed.notify_one();
        }
        match self.is_dead.load(Ordering::SeqCst) {
            true => std::future::pending().await,
            false => Ok(client.send(request).await?),
        }
    }

    /// Runs a move until it ends or is killed.
    async fn run(self: &Arc<Self>, scene: &Scene, namespace: &str) {
        let (source, target) = (&scene.source.client, &scene.target.client);
        let (source, target) = (self.over(source), self.over(target));
        let settings = move_settings(namespace);
        tokio::select! {
            () = self.killed.notified() => {}
            done = relocate(&source, &target, &settings, &Silent) => {
                // A move that failed must not have been completed.
                assert_eq!(done.is_err(), self.accident == Accident::Fail && self.at > 0);
            }
        }
    }
}

/// A namespace with a cluster, a host of its machine and a free one.
struct Case {
    namespace: String,
    pieces: Vec<String>,
    identity: Identity,
}

async fn prepare(scene: &Scene, namespace: String) -> anyhow::Result<Case> {
    let source = &scene.source;
    source.namespace(&namespace).await?;
    source.hosts(&namespace, &["h0", "h1"]).await?;
    let hosts = (&**source, namespace.as_str());
    scene
        .cluster_in(&namespace, json!({}), &["m0"], hosts)
        .await?;
    ready(source, &namespace, "m0").await?;
    for host in ["h0", "h1"] {
        let is_settled = |host: &BareMetalHost| {
            let status = host.status.as_ref();
            let state = status.map(|status| status.provisioning.state.as_str());
            matches!(state, Some("available" | "provisioned"))
        };
        source.wait_until(&namespace, host, is_settled).await?;
    }
    Ok(Case {
        pieces: inventory(source, &namespace).await?,
        identity: Identity::of(source, &namespace).await?,
        namespace,
    })
}

/// Asserts that nothing is lost or being deleted, and that no host is managed at two servers.
async fn assert_safe(scene: &Scene, case: &Case) -> anyhow::Result<()> {
    let Case {
        namespace, pieces, ..
    } = case;
    let here = inventory(&scene.source, namespace).await?;
    let there = inventory(&scene.target, namespace).await?;
    for piece in pieces {
        let is_somewhere = here.contains(piece) || there.contains(piece);
        assert!(is_somewhere, "{namespace} {piece}: {here:?} {there:?}");
    }
    for side in [&scene.source, &scene.target] {
        let parameters = ListParams::default();
        let machines = side.api::<Metal3Machine>(namespace);
        for machine in machines.list(&parameters).await? {
            assert_eq!(machine.metadata.deletion_timestamp, None, "{namespace}");
        }
        for host in side
            .api::<BareMetalHost>(namespace)
            .list(&parameters)
            .await?
        {
            assert_eq!(host.metadata.deletion_timestamp, None, "{namespace}");
            let name = format!("BareMetalHost {}", host.name_any());
            if here.contains(&name) && there.contains(&name) {
                let is_paused = host.annotations().contains_key(PAUSED);
                assert!(is_paused, "{namespace} {name}");
            }
        }
    }
    Ok(())
}

/// Asserts that everything is at the target and works.
async fn assert_moved(
    scene: &Scene,
    case: &Case,
    [here, there]: [&FakeBareMetalOperator; 2],
) -> anyhow::Result<()> {
    let Case {
        namespace,
        pieces,
        identity,
    } = case;
    let left = inventory(&scene.source, namespace).await?;
    assert_eq!(left, Vec::<String>::new(), "{namespace}");
    assert_eq!(&inventory(&scene.target, namespace).await?, pieces);
    ready(&scene.target, namespace, "m0").await?;
    assert_eq!(&Identity::of(&scene.target, namespace).await?, identity);
    for host in ["h0", "h1"] {
        let is_resumed = |host: &BareMetalHost| {
            host.status.is_some() && !host.annotations().contains_key(PAUSED)
        };
        scene.target.wait_until(namespace, host, is_resumed).await?;
        let key = format!("{namespace}/{host}");
        let times = usize::from(identity.hosts["m0"] == host);
        assert_eq!(provisionings(here, &key), times, "{key}");
        assert_eq!(there.path(&key), [], "{key}");
    }
    // It is of no more interest, and costs the controllers time.
    let pause = json!({"spec": {"paused": true}});
    scene.target.patch::<Cluster>(namespace, "c", pause).await?;
    Ok(())
}

/// How many clusters are prepared at a time.
const BATCH: usize = 8;

/// Returns the distance between the writes at which a move has an accident: one with
/// `INSULA_MOVE_ACCIDENTS=all`, which takes minutes (`make moves`).
fn distance(otherwise: usize) -> usize {
    match std::env::var("INSULA_MOVE_ACCIDENTS").as_deref() {
        Ok("all") => 1,
        _ => otherwise,
    }
}

/// Lets a move have an accident at every n-th of its writes. Returns how many writes there are.
async fn interfere(accident: Accident, nth: usize) -> anyhow::Result<usize> {
    let scene = Scene::start().await?;
    let here = scene.source.serve_hosts().await?;
    let there = scene.target.serve_hosts().await?;
    let undisturbed = prepare(&scene, "n0".to_owned()).await?;
    let counter = Interference::new(0, accident);
    counter.run(&scene, "n0").await;
    assert_moved(&scene, &undisturbed, [&here, &there]).await?;
    let writes = counter.writes.load(Ordering::SeqCst);
    let numbers: Vec<usize> = (1..=writes).step_by(nth).collect();
    for batch in numbers.chunks(BATCH) {
        let cases = batch.iter().map(|at| prepare(&scene, format!("n{at}")));
        let cases = try_join_all(cases).await?;
        for (&at, case) in batch.iter().zip(&cases) {
            let interference = Interference::new(at, accident);
            interference.run(&scene, &case.namespace).await;
            assert_safe(&scene, case).await?;
            let clients = (&scene.source.client, &scene.target.client);
            let settings = move_settings(&case.namespace);
            let again = relocate_between(clients, &settings).await;
            anyhow::ensure!(again.is_ok(), "{at}: {:?}", again.err());
            assert_moved(&scene, case, [&here, &there]).await?;
        }
    }
    Ok(writes)
}

#[tokio::test(flavor = "multi_thread")]
async fn r35_x08_move_killed_at_any_write_is_completed_by_the_next_run() -> anyhow::Result<()> {
    let writes = interfere(Accident::Kill, distance(6)).await?;
    // One cluster; a template, a pool and a host that no cluster pauses; one namespace; and 19
    // objects that are copied, stripped and deleted.
    assert!(writes >= 60, "{writes}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r35_x08_move_that_fails_at_a_write_is_completed_by_the_next_run() -> anyhow::Result<()> {
    // A refused write leaves the state that a move has which is killed before it; what differs is
    // the attempt to undo.
    interfere(Accident::Fail, distance(12)).await.map(drop)
}
