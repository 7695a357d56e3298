//! Random graphs of owners and dependents, against a model.
//!
//! The model is one sentence: what names owners goes when all of them are gone. What is left
//! when everything has come to rest must be what the model says, whichever way the owners
//! were deleted, and name nobody who is gone.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{create, free, reference, release, settle, until};

/// Two kinds, so that one transaction may concern both.
const PLACES: [&str; 2] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
];

/// Numbers that only look random (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Who is there, and whom they name.
type Model = BTreeMap<usize, BTreeSet<usize>>;

fn path(node: usize) -> String {
    format!("{}/g-{node}", PLACES[node % 2])
}

/// Removes those, and everybody all of whose owners are gone.
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

/// Nobody names them any more, and then they are gone.
fn let_go(model: &mut Model, node: usize) {
    for owners in model.values_mut() {
        owners.remove(&node);
    }
    model.remove(&node);
}

/// Makes objects, and then has some own others, circles included.
async fn make(client: &Client, dice: &mut Dice, size: usize) -> anyhow::Result<Model> {
    let mut made = Vec::new();
    for node in 0..size {
        let mut object = free(&format!("g-{node}"));
        if dice.roll(8) == 0 {
            object["metadata"]["finalizers"] = json!(["x.io/y"]);
        }
        made.push(create(client, PLACES[node % 2], object).await?);
    }
    let mut model = Model::new();
    for node in 0..size {
        let owners: BTreeSet<usize> = (0..dice.roll(4)).map(|_| dice.roll(size)).collect();
        let references: Vec<Value> = owners
            .iter()
            .map(|owner| reference(&made[*owner], dice.roll(3) > 0))
            .collect();
        let patch = json!({"metadata": {"ownerReferences": references}});
        let patched = client.patch(&path(node), "merge", &patch).await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
        model.insert(node, owners);
    }
    Ok(model)
}

/// What is there, and whom it names; what is being deleted is not.
async fn look(client: &Client) -> anyhow::Result<(Model, Vec<usize>)> {
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

/// Waits until things are as the model says, and releases what waits for us.
async fn comes_to(client: &Client, wanted: &Model) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    loop {
        let (is, marked) = look(client).await?;
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
            begun.elapsed() < super::super::PATIENCE,
            "{is:?}\n{wanted:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn clear(client: &Client) -> anyhow::Result<()> {
    let (all, _) = look(client).await?;
    for node in all.into_keys() {
        client.delete(&path(node)).await?;
        if client.get(&path(node)).await?.status == 200 {
            release(client, &path(node)).await.ok();
        }
        until(client, &path(node), |answer| answer.status == 404).await?;
    }
    Ok(())
}

async fn play(client: &Client, seed: u64) -> anyhow::Result<()> {
    let mut dice = Dice(seed);
    let size = 4 + dice.roll(20);
    let mut wanted = make(client, &mut dice, size).await?;
    for _ in 0..4 {
        let there: Vec<usize> = wanted.keys().copied().collect();
        if there.is_empty() {
            break;
        }
        let victim = there[dice.roll(there.len())];
        if dice.roll(4) == 0 {
            let_go(&mut wanted, victim);
            client
                .delete(&format!("{}?propagationPolicy=Orphan", path(victim)))
                .await?;
        } else {
            let mut victims = vec![victim, there[dice.roll(there.len())]];
            victims.truncate(1 + dice.roll(2));
            let policies = ["Background", "Foreground"];
            let paths: Vec<String> = victims
                .iter()
                .map(|node| {
                    let policy = policies[dice.roll(2)];
                    format!("{}?propagationPolicy={policy}", path(*node))
                })
                .collect();
            remove(&mut wanted, &victims);
            for deleted in join_all(paths.iter().map(|path| client.delete(path))).await {
                let status = deleted?.status;
                anyhow::ensure!(matches!(status, 200 | 404), "{status}");
            }
        }
        comes_to(client, &wanted).await?;
        settle(client).await?;
        let (is, _) = look(client).await?;
        anyhow::ensure!(is == wanted, "{is:?}\n{wanted:?}");
    }
    clear(client).await
}

#[tokio::test]
async fn what_is_left_of_any_graph_is_what_the_model_says() -> anyhow::Result<()> {
    let server = TestServer::start_whole().await?;
    let clients = [server.tenant("t1").await?, server.tenant("t2").await?];
    let runs = clients
        .iter()
        .zip([1, 1_000])
        .map(|(client, from)| async move {
            for seed in from..from + 12 {
                let seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed);
                play(client, seed)
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
