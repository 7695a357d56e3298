//! Garbage left by a server that was stopped.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Setup, TestServer};
use serde_json::json;

use super::{
    MAPS, await_collector, create, delete, free, held, names, owned, owners, reference, until,
    until_gone,
};

#[tokio::test]
async fn garbage_of_a_stopped_server_is_collected_at_the_next_start() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    // This server has no collector, as if it had crashed before collecting.
    let mut before = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let client = before.tenant("t1").await?;
    let mut created = Vec::new();
    for name in ["gone", "waits", "lets-go", "stays"] {
        created.push(create(&client, MAPS, free(name)).await?);
    }
    let of = |at: usize| reference(&created[at], true);
    for (name, owners) in [
        ("d-gone", vec![of(0)]),
        ("d-waits", vec![of(1)]),
        ("d-lets-go", vec![of(2)]),
        ("d-stays", vec![of(3)]),
        ("d-both", vec![of(0), of(3)]),
        (
            "d-never",
            vec![json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"})],
        ),
    ] {
        create(&client, MAPS, owned(name, &owners)).await?;
    }
    create(&client, MAPS, held("d-held", &[of(1)])).await?;
    for (name, policy) in [
        ("gone", "Background"),
        ("waits", "Foreground"),
        ("lets-go", "Orphan"),
    ] {
        delete(&client, &format!("{MAPS}/{name}"), policy).await?;
    }
    assert_eq!(names(&client, MAPS).await?.len(), 10);
    before.stop().await;
    drop(before);
    let after = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = after.client("t1").await?;
    for name in ["d-gone", "d-waits", "d-never", "lets-go"] {
        until_gone(&client, &format!("{MAPS}/{name}")).await?;
    }
    until(&client, &format!("{MAPS}/d-held"), |answer| {
        answer.json()["metadata"]["deletionTimestamp"].is_string()
    })
    .await?;
    await_collector(&client).await?;
    assert_eq!(
        names(&client, MAPS).await?,
        ["d-both", "d-held", "d-lets-go", "d-stays", "stays", "waits"]
    );
    assert_eq!(owners(&client, &format!("{MAPS}/d-both")).await?, ["stays"]);
    assert_eq!(
        owners(&client, &format!("{MAPS}/d-lets-go")).await?,
        [""; 0]
    );
    super::release(&client, &format!("{MAPS}/d-held")).await?;
    until_gone(&client, &format!("{MAPS}/waits")).await
}

#[tokio::test]
async fn two_servers_on_one_store_collect_together() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let one = TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let other = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = one.tenant("t1").await?;
    for policy in ["Background", "Foreground", "Orphan"] {
        let owner = create(&client, MAPS, free("owner")).await?;
        for at in 0..50 {
            let dependent = owned(&format!("d-{at}"), &[reference(&owner, true)]);
            create(&client, MAPS, dependent).await?;
        }
        delete(&client, &format!("{MAPS}/owner"), policy).await?;
        until_gone(&client, &format!("{MAPS}/owner")).await?;
        if policy == "Orphan" {
            await_collector(&client).await?;
            assert_eq!(names(&client, MAPS).await?.len(), 50);
            continue;
        }
        until(&client, MAPS, |answer| {
            let json = answer.json();
            let items = json["items"].as_array().into_iter().flatten();
            let mut names = items.filter_map(|item| item["metadata"]["name"].as_str());
            !names.any(|name| name.starts_with("d-"))
        })
        .await?;
    }
    drop(other);
    Ok(())
}
