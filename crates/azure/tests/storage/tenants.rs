//! Objects in the spaces of tenants, which a published definition has too.

use insula_azure::names::{LAST_RECONCILED_VERSION, OPERATOR_NAMESPACE_V2};
use insula_azure::storage::trim::{Refusal, TrimResult, trim};
use insula_azure::storage::{Outcome, record};
use insula_azure::upgrade::removal::can_remove;
use serde_json::json;

use super::scene::{NAME, NAMESPACE, NEW, OLD, OLD_API, Scene, client_of, name, network, objects};

/// Annotation that publishes a definition to every tenant's space.
const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

/// Returns the path of a tenant's objects in a version.
fn objects_of(tenant: &str, version: &str) -> String {
    let path = objects(version);
    let (group, rest) = path.split_once("/namespaces/").expect("it is namespaced");
    format!("{group}/tenants/{tenant}/namespaces/{rest}")
}

impl Scene {
    /// Publishes the definition, and creates an object with the same name in each space.
    async fn publish_to(&self, tenants: &[&str]) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"annotations": {PUBLISHED: "true"}}});
        let published = self
            .plain
            .patch(&definition_path(), "merge", &patch)
            .await?;
        anyhow::ensure!(published.status == 200, "{}", published.text());
        self.create_one(0).await?;
        for tenant in tenants {
            self.server.tenant(tenant).await?;
            let path = objects_of(tenant, OLD_API);
            let made = self.plain.post(&path, &network(0)).await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r21_objects_of_tenants_are_migrated_before_the_old_version_is_dropped()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.publish_to(&["t1", "t2"]).await?;
    assert_eq!(scene.stored_in(OLD).await?, 3);
    scene.store_in(NEW).await?;
    let refused = TrimResult::Refused(Refusal::NotMigrated);
    assert_eq!(scene.trim().await?, refused);

    // A record of a release that rewrote the system's own objects only.
    let definition = scene.plain.get(&definition_path()).await?.json();
    let text = json!({
        "uid": definition["metadata"]["uid"], "generation": definition["metadata"]["generation"],
        "storageVersion": NEW, "phase": "complete", "done": 0,
    });
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let map = json!({"metadata": {"name": record::NAME}, "data": {NAME: text.to_string()}});
    assert_eq!(scene.plain.post(&maps, &map).await?.status, 201);
    assert_eq!(scene.trim().await?, refused);

    let expected = Outcome::Complete {
        objects: 3,
        stored: 3,
    };
    assert_eq!(scene.migrate().await?, expected);
    assert_eq!(scene.stored_in(NEW).await?, 3);
    let mut spaces = Vec::new();
    for object in scene.stored().await? {
        assert_eq!(object["spec"]["originalVersion"], OLD_API, "{object}");
        spaces.push(object["metadata"]["tenant"].as_str().map(str::to_owned));
    }
    spaces.sort();
    assert_eq!(spaces, [None, Some("t1".to_owned()), Some("t2".to_owned())]);
    assert_eq!(
        scene.trim().await?,
        TrimResult::Removed(vec![OLD.to_owned()])
    );
    let (status, message) = scene.remove_version(OLD).await?;
    assert_eq!(status, 200, "{message}");
    let path = format!("{}/{}", objects_of("t1", NEW), name(0));
    let read = scene.plain.get(&path).await?;
    assert_eq!(read.json()["spec"]["location"], "westus", "{}", read.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r20_objects_and_operators_of_tenants_hold_a_removal_back() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.publish_to(&["t1"]).await?;
    scene.store_in(NEW).await?;
    let path = format!("{}/{}", objects_of("t1", OLD_API), name(0));
    let claim = json!({"metadata": {
        "annotations": {OPERATOR_NAMESPACE_V2: "acme-system"},
        "labels": {LAST_RECONCILED_VERSION: "v2.10.0"},
    }});
    let claimed = scene.plain.patch(&path, "merge", &claim).await?;
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    scene.migrate().await?;
    let operator = "operator in namespace acme-system of objects of tenant t1 (v2.10.0)";
    let TrimResult::Refused(Refusal::Operator(found)) = scene.trim().await? else {
        anyhow::bail!("an older operator was found");
    };
    assert_eq!(found.to_string(), operator);
    let removal = can_remove(&scene.client, OLD_API, &[]).await?;
    let blockers: Vec<_> = removal.blockers.iter().map(ToString::to_string).collect();
    let written = format!("2 ({0}, {0} of tenant t1)", format!("default/{}", name(0)));
    assert_eq!(
        blockers,
        [
            format!(
                "{NAME}: objects may be stored in version {OLD} (status.storedVersions has it)"
            ),
            format!("{NAME}: objects were written in it: {written}"),
            format!("{NAME}: {operator} may need it"),
        ]
    );

    // A caller that may not list the objects of all tenants learns that, and nothing is removed.
    let tenant = client_of(&scene.server, "t1").await?;
    let refused = can_remove(&tenant, OLD_API, &[]).await;
    let message = refused.expect_err("it is refused").to_string();
    assert!(
        message.starts_with(&format!("cannot list {NAME}: ")),
        "{message}"
    );
    let definitions = [scene.definition().await?];
    let refused = trim(&tenant, &scene.records(), &definitions, false).await?;
    assert!(
        matches!(refused[0].result, TrimResult::Refused(_)),
        "{refused:?}"
    );
    assert_eq!(scene.definition().await?.stored_versions(), [OLD, NEW]);
    Ok(())
}

fn definition_path() -> String {
    format!("{}/{NAME}", insula_testkit::server::DEFINITIONS)
}
