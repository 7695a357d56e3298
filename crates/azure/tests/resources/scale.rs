//! The cost of many namespaces and resources.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use insula_azure::crds;
use serde_json::{Value, json};

use crate::recording::{Recorded, Recorder};
use crate::scene::{OPERATOR, group};
use crate::world::{Running, World};

const NAMESPACES: usize = 20;
const RESOURCES: usize = 6;
/// How many requests a new resource may cause, on average. It is ten, and three more whenever another
/// event triggers it, which depends on the load of the machine.
const MAX_REQUESTS_PER_RESOURCE: usize = 14;

/// Returns a resource of a team.
fn named(team: usize, number: usize) -> Value {
    let mut object = group(&format!("group{number}"));
    object["metadata"]["namespace"] = format!("team{team}").into();
    object
}

/// Creates a resource in each namespace.
async fn create(world: &World, number: usize) -> anyhow::Result<()> {
    let created = (0..NAMESPACES).map(|team| async move {
        let object = named(team, number);
        world.create(&object).await
    });
    try_join_all(created).await.map(drop)
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "the measured numbers are reported")]
async fn watches_do_not_grow_with_namespaces_and_tokens_with_resources() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.namespace(OPERATOR).await?;
    for team in 0..NAMESPACES {
        let team = format!("team{team}");
        world.team(&team);
        world.namespace_of(&team, &team).await?;
    }
    let recorder = Recorder::default();
    let operator = world.operator(OPERATOR, &[])?;
    let _running = Running::new(recorder.client(&world.client), operator);
    // The first resource of each namespace waits for a token, and holds the Secret for all.
    create(&world, 0).await?;
    for team in 0..NAMESPACES {
        let first = named(team, 0);
        world.await_ready(&first, "True", "Succeeded").await?;
    }
    let begin = recorder.requests().len();
    for number in 1..RESOURCES {
        create(&world, number).await?;
    }
    let all = NAMESPACES * RESOURCES;
    for team in 0..NAMESPACES {
        for number in 1..RESOURCES {
            let object = named(team, number);
            world.await_ready(&object, "True", "Succeeded").await?;
        }
    }
    assert_eq!(world.azure.token_requests().len(), NAMESPACES);
    assert_eq!(world.azure.requests().len(), all);
    let requests = recorder.requests();
    let watches: BTreeSet<_> = requests
        .iter()
        .filter(|request| request.is_watch())
        .map(|request| request.path.clone())
        .collect();
    let kinds = crds::all(&serde_json::from_value(json!({"strategy": "None"}))?).len();
    // Besides the kinds: Namespaces, Secrets and ConfigMaps.
    assert!(watches.len() <= kinds + 4, "{watches:#?}");
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    let of_further = requests.iter().skip(begin);
    for request in of_further.filter_map(Recorded::in_namespace) {
        *counted.entry(request).or_default() += 1;
    }
    counted.retain(|request, _| !request.contains(" leases "));
    let (sum, further): (usize, _) = (counted.values().sum(), all - NAMESPACES);
    eprintln!(
        "{} watches, {} requests, {sum} of them about {further} resources: {counted:#?}",
        watches.len(),
        requests.len(),
    );
    assert!(sum <= further * MAX_REQUESTS_PER_RESOURCE, "{counted:#?}");
    Ok(())
}
