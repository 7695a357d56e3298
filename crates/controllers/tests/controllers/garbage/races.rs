//! Clients that write at the same time as the collector.

use futures_util::future::join_all;
use serde_json::json;

use super::{MAPS, await_collector, create, delete, free, names, owned, owners, reference, tenant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependent_that_gets_another_owner_in_time_stays() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let keeper = create(&client, MAPS, free("keeper")).await?;
    let missing = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": "no"});
    let adopt = json!({"metadata": {"ownerReferences": [reference(&keeper, true)]}});
    let rounds = (0..100).map(|at| {
        let (client, adopt) = (&client, &adopt);
        let orphan = owned(&format!("d-{at:03}"), std::slice::from_ref(&missing));
        async move {
            let path = format!("{MAPS}/d-{at:03}");
            create(client, MAPS, orphan).await?;
            let adopted = client.patch(&path, "merge", adopt).await?;
            anyhow::ensure!(matches!(adopted.status, 200 | 404), "{}", adopted.text());
            anyhow::Ok((adopted.status == 200).then_some(format!("d-{at:03}")))
        }
    });
    let mut kept = vec!["keeper".to_owned()];
    for round in join_all(rounds).await {
        kept.extend(round?);
    }
    kept.sort();
    await_collector(&client).await?;
    assert_eq!(names(&client, MAPS).await?, kept);
    for name in kept.iter().filter(|name| *name != "keeper") {
        let path = format!("{MAPS}/{name}");
        assert_eq!(owners(&client, &path).await?, ["keeper"]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_writes_do_not_prevent_deletion() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    let owner = create(&client, MAPS, free("owner")).await?;
    create(&client, MAPS, owned("d", &[reference(&owner, true)])).await?;
    delete(&client, &format!("{MAPS}/owner"), "Background").await?;
    let begun = tokio::time::Instant::now();
    for count in 0.. {
        let patch = json!({"data": {"count": count.to_string()}});
        let patched = client.patch(&format!("{MAPS}/d"), "merge", &patch).await?;
        if patched.status == 404 {
            break;
        }
        anyhow::ensure!(begun.elapsed() < super::super::WAIT_TIMEOUT, "{count}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_created_late_are_deleted() -> anyhow::Result<()> {
    let (_server, client) = tenant().await?;
    for policy in ["Background", "Foreground"] {
        let owner = create(&client, MAPS, free("owner")).await?;
        let late = (0..50).map(|at| {
            let object = owned(&format!("d-{at}"), &[reference(&owner, at % 2 == 0)]);
            let client = &client;
            async move { create(client, MAPS, object).await.map(drop) }
        });
        let path = format!("{MAPS}/owner");
        let (deleted, created) = tokio::join!(delete(&client, &path, policy), join_all(late));
        deleted?;
        created.into_iter().collect::<anyhow::Result<()>>()?;
        super::until(&client, MAPS, |answer| {
            let json = answer.json();
            let items = json["items"].as_array().into_iter().flatten();
            let mut names = items.filter_map(|item| item["metadata"]["name"].as_str());
            !names.any(|name| name == "owner" || name.starts_with("d-"))
        })
        .await?;
    }
    Ok(())
}
