//! Non-interference: responses to one tenant do not depend on what other tenants do.

use insula_testkit::server::{Answer, Client, Lines, TestServer};
use serde_json::{Value, json};

use super::MAPS;
use super::principals::RBAC;

/// A pseudo-random generator with the same sequence in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: usize) -> usize {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// One random operation of one tenant.
#[derive(Clone, Debug)]
struct Operation {
    tenant: usize,
    what: usize,
    name: String,
    namespace: &'static str,
}

const TENANTS: [&str; 3] = ["t1", "t2", "t3"];

fn operations(seed: u64, count: usize) -> Vec<Operation> {
    let mut random = Random(seed);
    let operation = |_| Operation {
        tenant: random.below(TENANTS.len()),
        what: random.below(14),
        name: format!("n{}", random.below(4)),
        namespace: ["default", "extra"][random.below(2)],
    };
    (0..count).map(operation).collect()
}

impl Operation {
    async fn send(&self, client: &Client) -> anyhow::Result<Answer> {
        let maps = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let map = format!("{maps}/{}", self.name);
        let services = "/api/v1/namespaces/default/services";
        let named = json!({"metadata": {"name": self.name}, "data": {"a": "b"}});
        let address = format!("10.96.7.{}", self.name.trim_start_matches('n'));
        let service = json!({"metadata": {"name": self.name}, "spec": {
            "clusterIP": address, "type": "NodePort",
            "ports": [{"port": 80, "nodePort": 31_000}],
        }});
        let role = json!({"metadata": {"name": self.name}, "rules": []});
        match self.what {
            0 | 1 => client.post(&maps, &named).await,
            2 => client.put(&map, &named).await,
            3 => {
                client
                    .patch(&map, "merge", &json!({"data": {"a": self.namespace}}))
                    .await
            }
            4 => client.delete(&map).await,
            5 => client.get(&map).await,
            6 => client.get(&maps).await,
            7 => client.get("/api/v1/configmaps?limit=2").await,
            8 => client.delete(&maps).await,
            9 => {
                client
                    .post(
                        "/api/v1/namespaces",
                        &json!({"metadata": {"name": "extra"}}),
                    )
                    .await
            }
            10 => client.post(services, &service).await,
            11 => client.delete(&format!("{services}/{}", self.name)).await,
            12 => client.post(&format!("{RBAC}/clusterroles"), &role).await,
            _ => client.get(&format!("{RBAC}/clusterroles")).await,
        }
    }
}

/// The response without the parts that differ in every run: timestamps, random names and revisions.
fn stable_parts(answer: &Answer) -> (u16, Value) {
    let mut body = answer.json();
    remove_volatile(&mut body);
    (answer.status, body)
}

fn remove_volatile(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "uid" | "resourceVersion" | "creationTimestamp" | "time" | "continue" => {
                        *value = "@".into();
                    }
                    _ => remove_volatile(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(remove_volatile),
        _ => {}
    }
}

/// Runs the operations one after the other and returns the responses to the second tenant.
async fn run(operations: &[Operation]) -> anyhow::Result<Vec<(u16, Value)>> {
    let server = TestServer::start().await?;
    let mut clients = Vec::new();
    for name in TENANTS {
        clients.push(server.tenant(name).await?);
    }
    let watched = &clients[1];
    let mut watch = watched.watch("/api/v1/configmaps?watch=true").await?;
    let mut answers = Vec::new();
    for operation in operations {
        let answer = operation.send(&clients[operation.tenant]).await?;
        anyhow::ensure!(answer.status < 500, "{operation:?}: {}", answer.text());
        if operation.tenant == 1 {
            answers.push(stable_parts(&answer));
        }
    }
    let last = json!({"metadata": {"name": "last"}});
    assert_eq!(watched.post(MAPS, &last).await?.status, 201);
    answers.extend(events(&mut watch).await?);
    Ok(answers)
}

/// The events up to the last object. Objects of one collection are deleted concurrently, in any
/// order, so consecutive deletions are merged into one entry.
async fn events(watch: &mut Lines) -> anyhow::Result<Vec<(u16, Value)>> {
    let mut events = Vec::new();
    let mut is_last = false;
    while !is_last {
        let mut event = watch.next().await?.unwrap_or_default();
        is_last = event["object"]["metadata"]["name"] == "last";
        remove_volatile(&mut event);
        events.push((0, event));
    }
    let deleted = |event: &(u16, Value)| event.1["type"] == "DELETED";
    for run in events.chunk_by_mut(|one, next| deleted(one) && deleted(next)) {
        run.sort_by_key(|(_, event)| event.to_string());
    }
    Ok(events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i11_responses_do_not_depend_on_other_tenants() -> anyhow::Result<()> {
    for seed in 1..=6 {
        let all = operations(seed, 240);
        let own: Vec<Operation> = all
            .iter()
            .filter(|operation| operation.tenant == 1)
            .cloned()
            .collect();
        let (among, alone) = (run(&all).await?, run(&own).await?);
        assert!(among.len() > own.len(), "{}", among.len());
        for (number, (among, alone)) in among.iter().zip(&alone).enumerate() {
            assert_eq!(among, alone, "seed {seed}: {:?}", own.get(number));
        }
        assert_eq!(among.len(), alone.len(), "seed {seed}");
    }
    Ok(())
}
