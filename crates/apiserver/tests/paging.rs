//! Paged lists.

use std::time::Duration;

use insula_store::Revision;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client, name: &str) -> anyhow::Result<()> {
    let labels = json!({"odd": (name.len() % 2 == 1).to_string()});
    let object = json!({"metadata": {"name": name, "labels": labels}});
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(())
}

async fn page(client: &Client, query: &str) -> anyhow::Result<Value> {
    let answer = client.get(&format!("{MAPS}?{query}")).await?;
    anyhow::ensure!(answer.status == 200, "{query}: {}", answer.text());
    Ok(answer.json())
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

fn token(list: &Value) -> Option<&str> {
    list["metadata"]["continue"].as_str()
}

fn remaining_item_count(list: &Value) -> Option<u64> {
    list["metadata"].get("remainingItemCount")?.as_u64()
}

async fn server_with_maps(
    engine: Engine,
    count: usize,
) -> anyhow::Result<Option<(TestServer, Client)>> {
    let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
        return Ok(None);
    };
    let client = server.tenant("t1").await?;
    for number in 0..count {
        create_map(&client, &format!("m{number:02}")).await?;
    }
    Ok(Some((server, client)))
}

/// Lists in pages of three while the collection changes in between.
async fn check_consistent_pages(engine: Engine) -> anyhow::Result<()> {
    let Some((_server, client)) = server_with_maps(engine, 10).await? else {
        // The test kit has printed that the engine is skipped.
        return Ok(());
    };
    let whole = page(&client, "").await?;
    let mut list = page(&client, "limit=3").await?;
    let revision = list["metadata"]["resourceVersion"].clone();
    let (mut items, mut pages) = (Vec::new(), 0);
    loop {
        assert_eq!(list["metadata"]["resourceVersion"], revision);
        items.extend(list["items"].as_array().cloned().unwrap_or_default());
        let next = token(&list).map(str::to_owned);
        let wanted = next.is_some().then(|| 10 - items.len() as u64);
        assert_eq!(remaining_item_count(&list), wanted, "{engine:?}");
        // Before, within and after the pages to come.
        create_map(&client, &format!("a{pages}")).await?;
        create_map(&client, &format!("m05x{pages}")).await?;
        create_map(&client, &format!("z{pages}")).await?;
        client.delete(&format!("{MAPS}/m0{}", 9 - pages)).await?;
        client.delete(&format!("{MAPS}/m0{pages}")).await?;
        let patch = json!({"data": {"page": pages.to_string()}});
        client
            .patch(&format!("{MAPS}/m04"), "merge", &patch)
            .await?;
        pages += 1;
        let Some(next) = next else { break };
        list = page(&client, &format!("limit=3&continue={next}")).await?;
    }
    assert_eq!((pages, Value::from(items)), (4, whole["items"].clone()));
    Ok(())
}

#[tokio::test]
async fn pages_show_one_revision_in_memory() -> anyhow::Result<()> {
    check_consistent_pages(Engine::Memory).await
}

#[tokio::test]
async fn pages_show_one_revision_on_disk() -> anyhow::Result<()> {
    check_consistent_pages(Engine::Embedded).await
}

#[tokio::test]
async fn pages_show_one_revision_in_etcd() -> anyhow::Result<()> {
    check_consistent_pages(Engine::Etcd).await
}

#[tokio::test]
async fn remaining_item_count_is_set_without_selectors_only() -> anyhow::Result<()> {
    let Some((_server, client)) = server_with_maps(Engine::Memory, 5).await? else {
        return Ok(());
    };
    for (query, wanted) in [
        ("limit=2", Some(3)),
        ("limit=4", Some(1)),
        ("limit=5", None),
        ("limit=6", None),
        ("limit=2&labelSelector=odd%3Dtrue", None),
        ("limit=2&fieldSelector=metadata.name!%3Dx", None),
    ] {
        let list = page(&client, query).await?;
        assert_eq!(remaining_item_count(&list), wanted, "{query}");
        let more = !matches!(query, "limit=5" | "limit=6");
        assert_eq!(token(&list).is_some(), more, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn selected_lists_can_be_paged() -> anyhow::Result<()> {
    let Some((_server, client)) = server_with_maps(Engine::Memory, 6).await? else {
        return Ok(());
    };
    for name in ["m00x", "m02x", "m04x"] {
        create_map(&client, name).await?;
    }
    let select = "labelSelector=odd%3Dtrue";
    let mut list = page(&client, &format!("limit=2&{select}")).await?;
    let mut found = names(&list);
    while let Some(next) = token(&list).map(str::to_owned) {
        // Now the cache is too new and the store is read.
        create_map(&client, &format!("n{:02}", found.len())).await?;
        list = page(&client, &format!("limit=2&{select}&continue={next}")).await?;
        assert!(names(&list).len() <= 2);
        found.extend(names(&list));
    }
    assert_eq!(found, ["m00", "m01", "m02", "m03", "m04", "m05"]);
    Ok(())
}

#[tokio::test]
async fn continuation_without_a_limit_returns_the_rest() -> anyhow::Result<()> {
    let Some((_server, client)) = server_with_maps(Engine::Memory, 5).await? else {
        return Ok(());
    };
    let first = page(&client, "limit=2").await?;
    let next = token(&first).unwrap_or_default();
    create_map(&client, "m99").await?;
    for query in ["", "&limit=1&resourceVersion=0", "&limit=3"] {
        let rest = page(&client, &format!("continue={next}{query}")).await?;
        assert_eq!(names(&rest), ["m02", "m03", "m04"], "{query}");
        assert_eq!(
            (token(&rest), remaining_item_count(&rest)),
            (None, None),
            "{query}"
        );
        assert_eq!(
            rest["metadata"]["resourceVersion"],
            first["metadata"]["resourceVersion"]
        );
    }
    Ok(())
}

#[tokio::test]
async fn invalid_continue_tokens_are_refused() -> anyhow::Result<()> {
    let Some((server, client)) = server_with_maps(Engine::Memory, 3).await? else {
        return Ok(());
    };
    let first = page(&client, "limit=2").await?;
    let next = token(&first).unwrap_or_default();
    let forged = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjQ4LCJzdGFydCI6Ii9jMVx1MDAwMCJ9";
    let other = "it was not made for this list";
    for (path, token, why) in [
        (MAPS, "!!!", "illegal base64 data at input byte 0"),
        (
            MAPS,
            "gQ",
            r"invalid character '\x81' looking for beginning of value",
        ),
        (MAPS, "eyJ2", "unexpected end of JSON input"),
        (MAPS, forged, other),
        ("/api/v1/configmaps", next, other),
        ("/api/v1/namespaces/default/secrets", next, other),
        ("/api/v1/namespaces/kube-system/configmaps", next, other),
    ] {
        let answer = client
            .get(&format!("{path}?limit=2&continue={token}"))
            .await?;
        let message = format!("invalid continue token: continue key is not valid: {why}");
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.message(), message, "{token}");
        assert_eq!(answer.json()["reason"], "BadRequest");
    }
    // Not in another space either, not even by the system.
    let stranger = server.tenant("t2").await?;
    let path = format!("{MAPS}?limit=2&continue={next}");
    assert_eq!(stranger.get(&path).await?.status, 400);
    assert_eq!(server.system().await?.get(&path).await?.status, 400);
    Ok(())
}

/// Begins more lists than the server keeps the snapshots of.
pub async fn drop_kept_lists(client: &Client) -> anyhow::Result<()> {
    let object = json!({"metadata": {"name": "zzz"}});
    for _ in 0..10 {
        client.post(MAPS, &object).await?;
        page(client, "limit=1").await?;
        client.delete(&format!("{MAPS}/zzz")).await?;
    }
    Ok(())
}

async fn check_expired_token(engine: Engine) -> anyhow::Result<()> {
    let Some((server, client)) = server_with_maps(engine, 6).await? else {
        // The test kit has printed that the engine is skipped.
        return Ok(());
    };
    let first = page(&client, "limit=2").await?;
    let next = token(&first).unwrap_or_default();
    create_map(&client, "m02x").await?;
    client.delete(&format!("{MAPS}/m03")).await?;
    drop_kept_lists(&client).await?;
    let store = server.registry().store();
    let now: Revision = store.revision().await?;
    store.compact(now).await?;
    let answer = client
        .get(&format!("{MAPS}?limit=2&continue={next}"))
        .await?;
    let gone = answer.json();
    assert_eq!(answer.status, 410, "{engine:?} {}", answer.text());
    assert_eq!(gone["reason"], "Expired");
    assert_eq!(
        gone["message"],
        "The provided continue parameter is too old to display a consistent list result. You can \
         start a new list without the continue parameter, or use the continue token in this \
         response to retrieve the remainder of the results. Continuing with the provided token \
         results in an inconsistent list - objects that were created, modified, or deleted \
         between the time the first chunk was returned and now may show up in the list."
    );
    let inconsistent = token(&gone).unwrap_or_default();
    let list = page(&client, &format!("limit=2&continue={inconsistent}")).await?;
    assert_eq!(names(&list), ["m02", "m02x"], "{engine:?}");
    assert_eq!(remaining_item_count(&list), Some(2));
    assert_eq!(list["metadata"]["resourceVersion"], now.to_string());
    let next = token(&list).unwrap_or_default();
    let list = page(&client, &format!("limit=2&continue={next}")).await?;
    assert_eq!(names(&list), ["m04", "m05"], "{engine:?}");
    assert_eq!(token(&list), None);
    Ok(())
}

#[tokio::test]
async fn expired_tokens_come_with_an_inconsistent_continuation_in_memory() -> anyhow::Result<()> {
    check_expired_token(Engine::Memory).await
}

#[tokio::test]
async fn expired_tokens_come_with_an_inconsistent_continuation_on_disk() -> anyhow::Result<()> {
    check_expired_token(Engine::Embedded).await
}

#[tokio::test]
async fn expired_tokens_come_with_an_inconsistent_continuation_in_etcd() -> anyhow::Result<()> {
    check_expired_token(Engine::Etcd).await
}

#[tokio::test]
async fn tokens_expire_on_a_server_without_writes() -> anyhow::Result<()> {
    let (server, client) = server_with_maps(Engine::Memory, 5).await?.expect("memory");
    let first = page(&client, "limit=2").await?;
    let next = token(&first).unwrap_or_default();
    let continued = format!("limit=2&continue={next}");
    let second = page(&client, &continued).await?;
    let last = token(&second).unwrap_or_default();
    let clock = server.registry().continue_tokens();
    clock.advance_clock(Duration::from_secs(310));
    // The time counts from the first page of the list.
    for token in [next, last] {
        let query = format!("{MAPS}?limit=2&continue={token}");
        assert_eq!(client.get(&query).await?.status, 410);
    }
    let gone = client.get(&format!("{MAPS}?{continued}")).await?.json();
    let inconsistent = token(&gone).unwrap_or_default();
    let list = page(&client, &format!("limit=2&continue={inconsistent}")).await?;
    assert_eq!(names(&list), ["m02", "m03"]);
    let next = token(&list).unwrap_or_default();
    let list = page(&client, &format!("limit=2&continue={next}")).await?;
    assert_eq!((names(&list), token(&list)), (vec!["m04".to_owned()], None));
    Ok(())
}
