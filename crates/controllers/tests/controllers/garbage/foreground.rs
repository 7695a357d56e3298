//! Foreground deletion: owners that wait for their dependents.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    MAPS, await_collector, create, delete, free, held, names, owned, reference, release, servers,
    tenant, until, until_gone,
};

fn is_marked(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

#[tokio::test]
async fn owner_waits_only_for_blocking_dependents() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        let owner = create(&client, MAPS, free("owner")).await?;
        let (blocks, does_not) = (reference(&owner, true), reference(&owner, false));
        create(
            &client,
            MAPS,
            held("blocking", std::slice::from_ref(&blocks)),
        )
        .await?;
        create(&client, MAPS, held("other", &[does_not])).await?;
        create(&client, MAPS, owned("free", &[blocks])).await?;
        let path = format!("{MAPS}/owner");
        delete(&client, &path, "Foreground").await?;
        until_gone(&client, &format!("{MAPS}/free")).await?;
        for name in ["blocking", "other"] {
            let path = format!("{MAPS}/{name}");
            until(&client, &path, |answer| is_marked(&answer.json())).await?;
        }
        await_collector(&client).await?;
        let waiting = client.get(&path).await?.json();
        assert!(is_marked(&waiting), "{waiting}");
        assert_eq!(
            waiting["metadata"]["finalizers"],
            json!(["foregroundDeletion"])
        );
        release(&client, &format!("{MAPS}/blocking")).await?;
        until_gone(&client, &path).await?;
        assert_eq!(names(&client, MAPS).await?, ["other"]);
        release(&client, &format!("{MAPS}/other")).await?;
        until_gone(&client, &format!("{MAPS}/other")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn dependents_of_dependents_are_deleted_first() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let top = create(&client, MAPS, free("top")).await?;
    let middle = owned("middle", &[reference(&top, true)]);
    let middle = create(&client, MAPS, middle).await?;
    create(&client, MAPS, held("bottom", &[reference(&middle, true)])).await?;
    delete(&client, &format!("{MAPS}/top"), "Foreground").await?;
    let waiting = until(&client, &format!("{MAPS}/bottom"), |answer| {
        is_marked(&answer.json())
    })
    .await?;
    assert_eq!(waiting.json()["metadata"]["finalizers"], json!(["x.io/y"]));
    await_collector(&client).await?;
    for name in ["top", "middle"] {
        let waiting = client.get(&format!("{MAPS}/{name}")).await?.json();
        let finalizers = &waiting["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!(["foregroundDeletion"]), "{name}");
    }
    let from = client.get(MAPS).await?.json();
    let from = from["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let watched = format!("{MAPS}?watch=true&resourceVersion={from}");
    let mut watch = client.watch(&watched).await?;
    release(&client, &format!("{MAPS}/bottom")).await?;
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let event = watch.next().await?.unwrap_or_default();
        if event["type"] == "DELETED" {
            gone.push(event["object"]["metadata"]["name"].clone());
        }
    }
    assert_eq!(gone, ["bottom", "middle", "top"]);
    Ok(())
}

#[tokio::test]
async fn dependent_with_another_owner_stays_and_does_not_block() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    let other = create(&client, MAPS, free("other")).await?;
    let both = [reference(&owner, true), reference(&other, true)];
    create(&client, MAPS, owned("shared", &both)).await?;
    delete(&client, &format!("{MAPS}/owner"), "Foreground").await?;
    until_gone(&client, &format!("{MAPS}/owner")).await?;
    let shared = client.get(&format!("{MAPS}/shared")).await?.json();
    assert_eq!(
        shared["metadata"]["ownerReferences"],
        json!([reference(&other, true)])
    );
    Ok(())
}

#[tokio::test]
async fn later_background_delete_ends_the_wait() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    create(&client, MAPS, held("blocking", &[reference(&owner, true)])).await?;
    let path = format!("{MAPS}/owner");
    delete(&client, &path, "Foreground").await?;
    await_collector(&client).await?;
    // A delete without policy keeps the earlier choice.
    let again = client.delete(&path).await?.json();
    assert_eq!(
        again["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    delete(&client, &path, "Background").await?;
    assert_eq!(client.get(&path).await?.status, 404);
    // The dependent was marked because its owner waited.
    let left = client.get(&format!("{MAPS}/blocking")).await?.json();
    assert!(is_marked(&left), "{left}");
    Ok(())
}

#[tokio::test]
async fn clearing_block_owner_deletion_releases_the_owner() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    create(&client, MAPS, held("blocking", &[reference(&owner, true)])).await?;
    delete(&client, &format!("{MAPS}/owner"), "Foreground").await?;
    await_collector(&client).await?;
    let patch = json!({"metadata": {"ownerReferences": [reference(&owner, false)]}});
    let path = format!("{MAPS}/blocking");
    let patched = client.patch(&path, "merge", &patch).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    until_gone(&client, &format!("{MAPS}/owner")).await
}

/// Creates objects of which each is owned by the next, and the last by the first.
async fn create_cycle(
    client: &insula_testkit::server::Client,
    names: &[&str],
) -> anyhow::Result<Vec<Value>> {
    let mut created = Vec::new();
    for name in names {
        created.push(create(client, MAPS, free(name)).await?);
    }
    for (at, name) in names.iter().enumerate() {
        let owner = &created[(at + 1) % created.len()];
        let patch = json!({"metadata": {"ownerReferences": [reference(owner, true)]}});
        let path = format!("{MAPS}/{name}");
        let patched = client.patch(&path, "merge", &patch).await?;
        anyhow::ensure!(patched.status == 200, "{}", patched.text());
    }
    Ok(created)
}

#[tokio::test]
async fn ownership_cycles_are_deleted() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    for size in [1, 2, 3, 7] {
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        create_cycle(&client, &all[..size]).await?;
        delete(&client, &format!("{MAPS}/a"), "Foreground").await?;
        for name in &all[..size] {
            until_gone(&client, &format!("{MAPS}/{name}")).await?;
        }
        // Also when all of them are deleted in the foreground at once.
        create_cycle(&client, &all[..size]).await?;
        let paths: Vec<String> = all[..size]
            .iter()
            .map(|name| format!("{MAPS}/{name}?propagationPolicy=Foreground"))
            .collect();
        let deletions = paths.iter().map(|path| client.delete(path));
        for deleted in futures_util::future::join_all(deletions).await {
            let status = deleted?.status;
            assert!(matches!(status, 200 | 404), "{status}");
        }
        for name in &all[..size] {
            until_gone(&client, &format!("{MAPS}/{name}")).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn chain_without_cycle_is_deleted_in_order() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let top = create(&client, MAPS, free("top")).await?;
    let middle = owned("middle", &[reference(&top, true)]);
    let middle = create(&client, MAPS, middle).await?;
    let bottom = held("bottom", &[reference(&middle, true)]);
    create(&client, MAPS, bottom).await?;
    // Each by itself, from the last dependent up: all of them wait, and none for one that it
    // blocks.
    for name in ["bottom", "middle", "top"] {
        delete(&client, &format!("{MAPS}/{name}"), "Foreground").await?;
    }
    await_collector(&client).await?;
    let middle = client.get(&format!("{MAPS}/middle")).await?.json();
    assert_eq!(
        middle["metadata"]["ownerReferences"],
        json!([reference(&top, true)])
    );
    assert_eq!(names(&client, MAPS).await?, ["bottom", "middle", "top"]);
    release(&client, &format!("{MAPS}/bottom")).await?;
    until_gone(&client, &format!("{MAPS}/top")).await
}

#[tokio::test]
async fn idle_collector_writes_nothing() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    create(&client, MAPS, held("blocking", &[reference(&owner, true)])).await?;
    delete(&client, &format!("{MAPS}/owner"), "Foreground").await?;
    await_collector(&client).await?;
    let from = client.get(MAPS).await?.json();
    let from = from["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let watched = format!("{MAPS}?watch=true&resourceVersion={from}");
    let mut watch = client.watch(&watched).await?;
    assert!(watch.is_quiet_for(Duration::from_millis(600)).await);
    Ok(())
}
