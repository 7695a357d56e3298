//! What holds back the removal of stored versions.

use insula_azure::names::{LAST_RECONCILED_VERSION, OPERATOR_NAMESPACE_V2};
use insula_azure::storage::Outcome;
use insula_azure::storage::trim::{Refusal, TrimResult};
use serde_json::json;

use super::scene::{NEW, OLD, OLD_API, Scene, name, objects};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_counts_for_one_generation_of_the_definition() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(10).await?;
    scene.store_in(NEW).await?;
    let migrated = scene.migrate().await?;
    assert!(matches!(migrated, Outcome::Complete { .. }));
    // The older version was the storage version for a while.
    scene.store_in(OLD).await?;
    scene.create_one(10).await?;
    scene.store_in(NEW).await?;
    assert_eq!(scene.stored_in(OLD).await?, 1);
    let refused = TrimResult::Refused(Refusal::NotMigrated);
    assert_eq!(scene.trim().await?, refused);
    let expected = Outcome::Complete {
        objects: 11,
        stored: 1,
    };
    assert_eq!(scene.migrate().await?, expected);
    let removed = TrimResult::Removed(vec![OLD.to_owned()]);
    assert_eq!(scene.trim().await?, removed);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_of_an_older_release_holds_the_removal_back() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(3).await?;
    let path = format!("{}/{}", objects(OLD_API), name(1));
    let claim = |version: &str| {
        json!({"metadata": {
            "annotations": {OPERATOR_NAMESPACE_V2: "acme-system"},
            "labels": {LAST_RECONCILED_VERSION: version},
        }})
    };
    let claimed = scene.plain.patch(&path, "merge", &claim("v2.10.0")).await?;
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    scene.store_in(NEW).await?;
    scene.migrate().await?;
    let TrimResult::Refused(Refusal::Operator(operator)) = scene.trim().await? else {
        anyhow::bail!("an older operator was found");
    };
    let expected = "operator in namespace acme-system (v2.10.0)";
    assert_eq!(operator.to_string(), expected);
    let claimed = scene.plain.patch(&path, "merge", &claim("v2.20.0")).await?;
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    let removed = TrimResult::Removed(vec![OLD.to_owned()]);
    assert_eq!(scene.trim().await?, removed);
    Ok(())
}
