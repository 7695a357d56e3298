//! No request is sent with a credential that the namespace did not have.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use insula_testkit::azure::FakeAzure;
use proptest::prelude::RngExt as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::json;

use crate::scene::{group, namespace, rotate};
use crate::world::{TENANT, World, credential, secret_of, subscription};

const NAMESPACES: usize = 20;
const EDITS: usize = 4;
/// The clients of each namespace, besides the last one.
const CLIENTS: usize = 3;

/// How long after its end a credential may be seen: a reconciliation that began before it reads and
/// writes its object first, on a machine that may be busy.
const IN_FLIGHT: Duration = Duration::from_secs(10);

/// A credential that a namespace had.
struct Had {
    client: String,
    /// The time before which it was not there.
    since: Instant,
    /// The time after which it was not there, if it has an end.
    until: Option<Instant>,
}

impl Had {
    fn new(client: String) -> Self {
        Self {
            client,
            since: Instant::now(),
            until: None,
        }
    }

    fn allows(&self, client: &str, at: Instant) -> bool {
        let is_over = self.until.is_some_and(|until| at > until + IN_FLIGHT);
        self.client == client && self.since <= at && !is_over
    }
}

/// The credentials that namespaces had, in their order.
type History = Mutex<BTreeMap<String, Vec<Had>>>;

fn client(namespace: &str, number: usize) -> String {
    format!("{namespace}-c{number}")
}

fn subscription_path(namespace: &str) -> String {
    format!("/subscriptions/{}/", subscription(namespace))
}

fn resource_id(namespace: &str, name: &str) -> String {
    format!("{}resourceGroups/{name}", subscription_path(namespace))
}

/// Replaces the credential of a namespace.
async fn replace(
    world: &World,
    namespace: &str,
    client: String,
    history: &History,
) -> anyhow::Result<()> {
    let mut values = credential(&client);
    values[0].1 = subscription(namespace);
    let number = {
        let mut all = history.lock().unwrap();
        let of_namespace = all.entry(namespace.to_owned()).or_default();
        of_namespace.push(Had::new(client));
        of_namespace.len() - 1
    };
    rotate(world, namespace, "aso-credential", &values).await?;
    let mut all = history.lock().unwrap();
    if let Some(before) = all
        .get_mut(namespace)
        .and_then(|all| all.get_mut(number - 1))
    {
        before.until = Some(Instant::now());
    }
    Ok(())
}

/// Waits until a resource was sent with a tag; without one, until it exists.
async fn await_tag(world: &World, id: &str, tag: Option<&str>) -> anyhow::Result<()> {
    let is_sent = |azure: &FakeAzure| {
        let found = azure.resource(id);
        found.is_some_and(|found| tag.is_none_or(|tag| found["tags"]["edit"] == tag))
    };
    // A busy machine needs more than one timeout of the fake.
    for _ in 0..3 {
        if world.azure.wait_for(id, is_sent).await.is_ok() {
            return Ok(());
        }
    }
    anyhow::bail!("{id} was not sent with {tag:?}")
}

/// Edits the credential of a namespace and its resources at random.
async fn edit(world: &World, namespace: &str, seed: u8, history: &History) -> anyhow::Result<()> {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let resources = [
        group(namespace, &format!("{namespace}-a")),
        group(namespace, &format!("{namespace}-b")),
    ];
    for resource in &resources {
        world.create(resource).await?;
        let name = resource["metadata"]["name"].as_str().unwrap_or_default();
        await_tag(world, &resource_id(namespace, name), None).await?;
    }
    for edit in 0..EDITS {
        let chosen = client(namespace, random.random_range(0..CLIENTS));
        replace(world, namespace, chosen, history).await?;
        let resource = &resources[random.random_range(0..resources.len())];
        let tag = json!(format!("{edit}"));
        let patch = json!({"spec": {"tags": {"edit": tag}}});
        world.patch(resource, patch).await?;
        // Some edits take place while a reconciliation is running, and others after it.
        if random.random_range(0..2) == 0 {
            let name = resource["metadata"]["name"].as_str().unwrap_or_default();
            let id = resource_id(namespace, name);
            await_tag(world, &id, tag.as_str()).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn r24_every_request_has_a_credential_of_its_namespace() -> anyhow::Result<()> {
    let world = World::start().await?;
    let names: Vec<_> = (0..NAMESPACES).map(|n| format!("n{n}")).collect();
    let history = History::default();
    for name in &names {
        let clients: Vec<_> = (0..=CLIENTS).map(|n| client(name, n)).collect();
        for client in &clients {
            world.azure.add_secret(TENANT, client, &secret_of(client));
        }
        // Every client may use every subscription: only the operator keeps them apart.
        world
            .azure
            .add_subscription(&subscription(name), TENANT, &[]);
        world.create(&namespace(name)).await?;
        let mut values = credential(&clients[0]);
        values[0].1 = subscription(name);
        let texts: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
        history
            .lock()
            .unwrap()
            .insert(name.clone(), vec![Had::new(clients[0].clone())]);
        world.secret(name, "aso-credential", &texts).await?;
    }
    for name in &names {
        for number in 0..=CLIENTS {
            for other in &names {
                world
                    .azure
                    .grant(&client(name, number), &subscription(other));
            }
        }
    }
    let _operator = world
        .run(
            "azureoperator-system",
            &[("MAX_CONCURRENT_RECONCILES", "8")],
        )
        .await?;
    let edits = names
        .iter()
        .zip(0..)
        .map(|(name, seed)| edit(&world, name, seed, &history));
    try_join_all(edits).await?;
    for name in &names {
        for resource in ["a", "b"] {
            let resource = group(name, &format!("{name}-{resource}"));
            world.await_ready(&resource, "True", "Succeeded").await?;
        }
    }
    // In the end each namespace uses its last credential. Nothing is in flight when it gets it.
    for name in &names {
        for resource in ["a", "b"] {
            let resource = format!("{name}-{resource}");
            let patch = json!({"spec": {"tags": {"edit": "before"}}});
            world.patch(&group(name, &resource), patch).await?;
            await_tag(&world, &resource_id(name, &resource), Some("before")).await?;
        }
        let last = client(name, CLIENTS);
        replace(&world, name, last.clone(), &history).await?;
        let replaced = Instant::now();
        let resource = format!("{name}-a");
        let patch = json!({"spec": {"tags": {"edit": "last"}}});
        world.patch(&group(name, &resource), patch).await?;
        let id = resource_id(name, &resource);
        await_tag(&world, &id, Some("last")).await?;
        let mut calls = world.azure.requests();
        calls.retain(|call| call.at >= replaced && call.path.contains(&subscription_path(name)));
        assert!(!calls.is_empty(), "{name}");
        for call in calls {
            assert_eq!(call.caller.unwrap().client, last, "{}", call.path);
        }
    }
    let history = history.into_inner().unwrap();
    let calls = world.azure.requests();
    assert!(calls.len() >= NAMESPACES * 2, "{}", calls.len());
    let mut used = BTreeMap::<String, usize>::new();
    for call in &calls {
        let name = call
            .path
            .split('/')
            .nth(2)
            .unwrap()
            .trim_start_matches("sub-");
        let client = &call.caller.as_ref().unwrap().client;
        let had = history[name].iter().any(|had| had.allows(client, call.at));
        assert!(had, "{client} in {name}: {} {}", call.method, call.path);
        *used.entry(client.clone()).or_default() += 1;
    }
    assert!(
        used.len() > NAMESPACES,
        "credentials were rotated: {used:?}"
    );
    Ok(())
}
