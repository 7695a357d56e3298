//! Random graphs of owners and dependents, compared with a model.
//!
//! The model is one sentence: an object that names owners is deleted when all of them are gone. The
//! remaining objects must be those of the model, whichever way the owners were deleted, and must
//! not name a deleted owner.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{await_collector, create, free, reference, release, until};

/// Two kinds, so that one transaction may concern both.
const PLACES: [&str; 2] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
];

/// Pseudo-random numbers (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// The existing nodes, and the owners they name.
type Model = BTreeMap<usize, BTreeSet<usize>>;

fn path(node: usize) -> String {
    format!("{}/g-{node}", PLACES[node % 2])
}

/// Removes these nodes, and all nodes without remaining owners.
fn remove(model: &mut Model, gone: &[usize]) {
    model.retain(|node, _| !gone.contains(node));
    loop {
        let there: BTreeSet<usize> = model.keys().copied().collect();
        let before = model.len();
        model.retain(|_, owners| {
            owners.is_empty() || owners.iter().any(|owner| there.contains(owner))
        });
        if model.len() == before {
            break;
        }
    }
    let there: BTreeSet<usize> = model.keys().copied().collect();
    for owners in model.values_mut() {
        owners.retain(|owner| there.contains(owner));
    }
}

/// Orphans the dependents of a node and removes it.
fn orphan(model: &mut Model, node: usize) {
    for owners in model.values_mut() {
        owners.remove(&node);
    }
    model.remove(&node);
}

/// Creates objects and then adds owner references, cycles included.
async fn create_graph(client: &Client, rng: &mut Rng, size: usize) -> anyhow::Result<Model> {
    let mut created = Vec::new();
    for node in 0..size {
        let mut object = free(&format!("g-{node}"));
        if rng.below(8) == 0 {
            object["metadata"]["finalizers"] = json!(["x.io/y"]);
        }
        created.push(create(client, PLACES[node % 2], object).await?);
    }
    let mut model = Model::new();
    for node in 0..size {
        let owners: BTreeSet<usize> = (0..rng.below(4)).map(|_| rng.below(size)).collect();
        let references: Vec<Value> = owners
            .iter()
            .map(|owner| reference(&created[*owner], rng.below(3) > 0))
            .collect();
        let patch = json!({"metadata": {"ownerReferences": references}});
        let patched = client.patch(&path(node), "merge", &patch).await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
        model.insert(node, owners);
    }
    Ok(model)
}

/// The existing objects with their owners, and those that are being deleted.
async fn observe(client: &Client) -> anyhow::Result<(Model, Vec<usize>)> {
    let (mut model, mut marked) = (Model::new(), Vec::new());
    let number =
        |name: &Value| -> Option<usize> { name.as_str()?.strip_prefix("g-")?.parse().ok() };
    for place in PLACES {
        let list = client.get(place).await?.json();
        for item in list["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let Some(node) = number(&metadata["name"]) else {
                continue;
            };
            if metadata["deletionTimestamp"].is_string() {
                marked.push(node);
            }
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let owners = owners.filter_map(|owner| number(&owner["name"])).collect();
            model.insert(node, owners);
        }
    }
    Ok((model, marked))
}

/// Waits until the objects are those of the model, and removes finalizers that block.
async fn await_model(client: &Client, wanted: &Model) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    loop {
        let (is, marked) = observe(client).await?;
        if is == *wanted {
            return Ok(());
        }
        for node in marked {
            let found = client.get(&path(node)).await?;
            let ours = found.json()["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|all| all.iter().any(|name| name == "x.io/y"));
            if found.status == 200 && ours {
                let rest = json!([{"op": "test", "path": "/metadata/finalizers/0",
                    "value": "x.io/y"}, {"op": "remove", "path": "/metadata/finalizers/0"}]);
                client.patch(&path(node), "json", &rest).await?;
            }
        }
        anyhow::ensure!(
            begun.elapsed() < super::super::WAIT_TIMEOUT,
            "{is:?}\n{wanted:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn clear(client: &Client) -> anyhow::Result<()> {
    let (all, _) = observe(client).await?;
    for node in all.into_keys() {
        client.delete(&path(node)).await?;
        if client.get(&path(node)).await?.status == 200 {
            release(client, &path(node)).await.ok();
        }
        until(client, &path(node), |answer| answer.status == 404).await?;
    }
    Ok(())
}

async fn run_seed(client: &Client, seed: u64) -> anyhow::Result<()> {
    let mut rng = Rng(seed);
    let size = 4 + rng.below(20);
    let mut wanted = create_graph(client, &mut rng, size).await?;
    for _ in 0..4 {
        let there: Vec<usize> = wanted.keys().copied().collect();
        if there.is_empty() {
            break;
        }
        let victim = there[rng.below(there.len())];
        if rng.below(4) == 0 {
            orphan(&mut wanted, victim);
            client
                .delete(&format!("{}?propagationPolicy=Orphan", path(victim)))
                .await?;
        } else {
            let mut victims = vec![victim, there[rng.below(there.len())]];
            victims.truncate(1 + rng.below(2));
            let policies = ["Background", "Foreground"];
            let paths: Vec<String> = victims
                .iter()
                .map(|node| {
                    let policy = policies[rng.below(2)];
                    format!("{}?propagationPolicy={policy}", path(*node))
                })
                .collect();
            remove(&mut wanted, &victims);
            for deleted in join_all(paths.iter().map(|path| client.delete(path))).await {
                let status = deleted?.status;
                anyhow::ensure!(matches!(status, 200 | 404), "{status}");
            }
        }
        await_model(client, &wanted).await?;
        await_collector(client).await?;
        let (is, _) = observe(client).await?;
        anyhow::ensure!(is == wanted, "{is:?}\n{wanted:?}");
    }
    clear(client).await
}

#[tokio::test]
async fn remaining_objects_of_any_graph_match_the_model() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let clients = [server.tenant("t1").await?, server.tenant("t2").await?];
    let runs = clients
        .iter()
        .zip([1, 1_000])
        .map(|(client, from)| async move {
            for seed in from..from + 12 {
                let seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed);
                run_seed(client, seed)
                    .await
                    .map_err(|error| error.context(format!("seed {seed:#x}")))?;
            }
            anyhow::Ok(())
        });
    for run in join_all(runs).await {
        run?;
    }
    Ok(())
}
