//! Migrations that are killed.

use std::sync::Arc;

use insula_azure::storage::{Outcome, Settings, record};
use serde_json::{Value, json};

use super::scene::{NAME, NAMESPACE, NEW, OLD, Scene, Writes, counting, settings};

const COUNT: usize = 200;
const PAGE_SIZE: usize = 20;

fn small_pages() -> Settings {
    Settings {
        page_size: PAGE_SIZE as u32,
        concurrency: 4,
        ..settings()
    }
}

impl Scene {
    /// Starts a migration that is killed after a number of writes.
    async fn kill_after(&self, limit: usize) -> anyhow::Result<()> {
        let writes = Arc::new(Writes::default());
        let client = counting(&self.client, limit, &writes);
        tokio::select! {
            done = self.migrate_with(&client, small_pages()) => anyhow::bail!("{done:?}"),
            () = writes.stopped.notified() => Ok(()),
        }
    }

    async fn record(&self) -> anyhow::Result<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", record::NAME);
        let found = self.plain.get(&path).await?.json();
        let text = found["data"][NAME].as_str().unwrap_or("null");
        Ok(serde_json::from_str(text)?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r21_killed_migration_continues_with_the_page_it_was_at() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(COUNT).await?;
    scene.store_in(NEW).await?;
    scene.kill_after(130).await?;
    let record = scene.record().await?;
    assert_eq!(record["phase"], "rewriting", "{record}");
    assert_eq!(record["storageVersion"], NEW);
    assert_eq!(record["done"], 120);
    assert!(scene.stored_in(OLD).await? >= COUNT - 130);

    let writes = Arc::new(Writes::default());
    let client = counting(&scene.client, usize::MAX, &writes);
    let outcome = scene.migrate_with(&client, small_pages()).await?;
    assert!(matches!(outcome, Outcome::Complete { .. }), "{outcome:?}");
    assert_eq!(scene.stored_in(NEW).await?, COUNT);
    // Pages before the recorded position are not written again, and verification writes nothing.
    assert_eq!(writes.count(), COUNT - 120);
    assert_eq!(scene.record().await?["phase"], "complete");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_that_is_killed_often_ends() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(COUNT).await?;
    scene.store_in(NEW).await?;
    for _ in 0..5 {
        scene.kill_after(PAGE_SIZE + 7).await?;
    }
    let outcome = scene.migrate_with(&scene.client, small_pages()).await?;
    assert!(matches!(outcome, Outcome::Complete { .. }), "{outcome:?}");
    assert_eq!(scene.stored_in(NEW).await?, COUNT);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_position_begins_anew() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(COUNT).await?;
    scene.store_in(NEW).await?;
    scene.kill_after(130).await?;
    let mut record = scene.record().await?;
    record["continue"] = "bm90IGEgdG9rZW4".into();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", record::NAME);
    let patch = json!({"data": {NAME: record.to_string()}});
    assert_eq!(scene.plain.patch(&path, "merge", &patch).await?.status, 200);
    let outcome = scene.migrate_with(&scene.client, small_pages()).await?;
    let Outcome::Complete { objects, .. } = outcome else {
        anyhow::bail!("{outcome:?}");
    };
    assert_eq!(objects, COUNT as u64);
    assert_eq!(scene.stored_in(NEW).await?, COUNT);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_writes_objects_that_were_not_rewritten() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(COUNT).await?;
    scene.store_in(NEW).await?;
    scene.kill_after(130).await?;
    // A record that claims more than was done.
    let mut record = scene.record().await?;
    record["phase"] = "verifying".into();
    record["done"] = 0.into();
    record["continue"] = Value::Null;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", record::NAME);
    let patch = json!({"data": {NAME: record.to_string()}});
    assert_eq!(scene.plain.patch(&path, "merge", &patch).await?.status, 200);
    let old = scene.stored_in(OLD).await?;
    let outcome = scene.migrate_with(&scene.client, small_pages()).await?;
    let expected = Outcome::Complete {
        objects: COUNT as u64,
        stored: old as u64,
    };
    assert_eq!(outcome, expected);
    assert_eq!(scene.stored_in(NEW).await?, COUNT);
    Ok(())
}
