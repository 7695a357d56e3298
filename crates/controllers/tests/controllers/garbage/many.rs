//! Large cascades.

use std::time::Duration;

use insula_apiserver::registry::Address;
use insula_apiserver::registry::resource::Resource;
use insula_core::Space;
use insula_kinds::core_kind;
use insula_store::Transaction;
use insula_testkit::server::{Client, TestServer};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{MAPS, count, create, delete, free, owners, reference, servers, until, until_gone};

/// The time limit of a cascade, in an unoptimised test that runs beside others.
const CASCADE_TIMEOUT: Duration = Duration::from_secs(60);

/// The objects of the cascade.
const CASCADE: &str = "/api/v1/namespaces/default/configmaps?labelSelector=in%3Dcascade";

/// Writes objects directly to the store, to save the time of creating them. The owner of each is
/// `owner`, or the previous object.
async fn put(
    server: &TestServer,
    owner: &Value,
    how_many: usize,
    in_a_row: bool,
) -> anyhow::Result<()> {
    let registry = server.registry();
    let space = Space::parse("t1").map_err(|_| anyhow::anyhow!("no tenant's name"))?;
    let mut owner = owner.clone();
    for from in (0..how_many).step_by(100) {
        let mut transaction = Transaction::new();
        for at in from..how_many.min(from + 100) {
            let (name, uid) = (format!("d-{at:05}"), format!("uid-{at}"));
            let address = Address {
                kind: Resource::from(core_kind("configmaps")),
                space: space.clone(),
                namespace: Some("default".to_owned()),
                name: name.clone(),
            };
            let object = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","tenant":"t1","selfLink":"{}","uid":"{uid}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"in":"cascade"}},"ownerReferences":[{}]}}}}"#,
                address.self_link(),
                reference(&owner, true)
            );
            if in_a_row {
                owner["metadata"]["name"] = name.into();
                owner["metadata"]["uid"] = uid.into();
            }
            transaction = transaction.put(registry.key(&address), object.into_bytes());
        }
        let committed = registry.commit(transaction).await;
        committed.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    }
    Ok(())
}

async fn until_empty(client: &Client) -> anyhow::Result<()> {
    until(client, &format!("{CASCADE}&limit=1"), |answer| {
        answer.json()["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await?;
    until_gone(client, &format!("{MAPS}/owner")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dependents_are_deleted_in_seconds_without_delaying_another_tenant()
-> anyhow::Result<()> {
    for (server, policy) in servers().await?.iter().zip(["Background", "Foreground"]) {
        let client = server.tenant("t1").await?;
        let neighbour = server.tenant("t2").await?;
        let owner = create(&client, MAPS, free("owner")).await?;
        put(server, &owner, 10_000, false).await?;
        let of_neighbour = create(&neighbour, MAPS, free("owner")).await?;
        let dependent = super::owned("d", &[reference(&of_neighbour, true)]);
        create(&neighbour, MAPS, dependent).await?;
        let begun = Instant::now();
        delete(&client, &format!("{MAPS}/owner"), policy).await?;
        delete(&neighbour, &format!("{MAPS}/owner"), policy).await?;
        until_gone(&neighbour, &format!("{MAPS}/d")).await?;
        let neighbours = begun.elapsed();
        timeout(CASCADE_TIMEOUT, until_empty(&client)).await??;
        let whole = begun.elapsed();
        assert!(
            neighbours < whole / 2 + Duration::from_millis(500),
            "{neighbours:?}"
        );
        until_gone(&neighbour, &format!("{MAPS}/owner")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_of_a_thousand_owners_is_deleted() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        for policy in ["Background", "Foreground"] {
            let owner = create(&client, MAPS, free("owner")).await?;
            put(&server, &owner, 1_000, true).await?;
            delete(&client, &format!("{MAPS}/owner"), policy).await?;
            timeout(CASCADE_TIMEOUT, until_empty(&client)).await??;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_thousand_dependents_are_orphaned() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    put(&server, &owner, 1_000, false).await?;
    delete(&client, &format!("{MAPS}/owner"), "Orphan").await?;
    timeout(
        CASCADE_TIMEOUT,
        until_gone(&client, &format!("{MAPS}/owner")),
    )
    .await??;
    assert_eq!(count(&client, CASCADE).await?, 1_000);
    for name in ["d-00000", "d-00500", "d-00999"] {
        let path = format!("{MAPS}/{name}");
        assert_eq!(owners(&client, &path).await?, [""; 0]);
    }
    Ok(())
}
