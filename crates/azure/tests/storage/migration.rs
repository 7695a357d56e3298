//! Whole migrations.

use insula_azure::storage::trim::{Refusal, TrimResult, trim};
use insula_azure::storage::{Outcome, State, status};
use serde_json::json;

use super::scene::{NEW, OLD, OLD_API, Scene, name, objects, settings};

/// The number of objects, unless `INSULA_AZURE_OBJECTS` says another one.
const OBJECTS: usize = 2_000;

fn object_count() -> usize {
    let wanted = std::env::var("INSULA_AZURE_OBJECTS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(OBJECTS)
}

impl Scene {
    async fn state(&self) -> anyhow::Result<(State, u64)> {
        let definitions = [self.definition().await?];
        let status = status::status(&self.client, &self.records(), &definitions).await?;
        anyhow::ensure!(status.len() == 1);
        Ok((status[0].state, status[0].objects))
    }

    pub async fn trim(&self) -> anyhow::Result<TrimResult> {
        let definitions = [self.definition().await?];
        let trimmed = trim(&self.client, &self.records(), &definitions, false).await?;
        let first = trimmed.into_iter().next();
        first
            .map(|it| it.result)
            .ok_or_else(|| anyhow::anyhow!("nothing"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r21_all_objects_are_migrated_and_the_old_version_is_dropped() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let count = object_count();
    scene.create(count).await?;
    assert_eq!(scene.stored_in(OLD).await?, count);
    scene.store_in(NEW).await?;
    assert_eq!(scene.definition().await?.stored_versions(), [OLD, NEW]);

    // Before the migration, nothing can be removed.
    assert_eq!(scene.state().await?, (State::NotKnown, count as u64));
    let (status, message) = scene.remove_version(OLD).await?;
    assert_eq!(status, 422, "{message}");
    let refused = TrimResult::Refused(Refusal::NotMigrated);
    assert_eq!(scene.trim().await?, refused);

    let dry_run = insula_azure::storage::Settings {
        dry_run: true,
        ..settings()
    };
    let planned = scene.migrate_with(&scene.client, dry_run).await?;
    assert_eq!(planned, Outcome::Planned(count as u64));
    assert_eq!(scene.stored_in(OLD).await?, count);

    let complete = Outcome::Complete {
        objects: count as u64,
        stored: count as u64,
    };
    assert_eq!(scene.migrate().await?, complete);
    assert_eq!(scene.stored_in(NEW).await?, count);
    for object in scene.stored().await? {
        // It decides the api-version of requests to Azure.
        assert_eq!(object["spec"]["originalVersion"], OLD_API);
        assert_eq!(object["metadata"]["generation"], 1, "{object}");
    }
    assert_eq!(scene.state().await?, (State::Complete, count as u64));
    assert_eq!(scene.migrate().await?, Outcome::WasComplete);

    assert_eq!(
        scene.trim().await?,
        TrimResult::Removed(vec![OLD.to_owned()])
    );
    assert_eq!(scene.definition().await?.stored_versions(), [NEW]);
    assert_eq!(scene.trim().await?, TrimResult::WasTrimmed);
    assert_eq!(scene.migrate().await?, Outcome::NotNeeded);
    assert_eq!(scene.state().await?.0, State::Trimmed);
    let (status, message) = scene.remove_version(OLD).await?;
    assert_eq!(status, 200, "{message}");
    let path = format!("{}/{}", objects(NEW), name(0));
    let read = scene.connect().await?.get(&path).await?;
    assert_eq!(read.json()["spec"]["location"], "westus", "{}", read.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_lose_nothing() -> anyhow::Result<()> {
    const COUNT: usize = 300;
    let scene = Scene::start().await?;
    scene.create(COUNT).await?;
    scene.store_in(NEW).await?;
    let writers = async {
        for number in 0..COUNT {
            let path = format!("{}/{}", objects(OLD_API), name(number));
            match number % 3 {
                0 => {
                    let change = json!({"metadata": {"labels": {"round": "one"}}});
                    let patched = scene.plain.patch(&path, "merge", &change).await?;
                    anyhow::ensure!(patched.status == 200, "{}", patched.text());
                }
                1 => {
                    let deleted = scene.plain.delete(&path).await?;
                    anyhow::ensure!(deleted.status == 200, "{}", deleted.text());
                }
                _ => scene.create_one(COUNT + number).await?,
            }
        }
        Ok(())
    };
    // Two migrations at a time do not disturb each other either.
    let (first, second, written) = tokio::join!(scene.migrate(), scene.migrate(), writers);
    written?;
    for outcome in [first?, second?] {
        assert!(matches!(outcome, Outcome::Complete { .. }), "{outcome:?}");
    }
    let stored = scene.stored().await?;
    assert_eq!(stored.len(), COUNT);
    assert_eq!(scene.stored_in(NEW).await?, COUNT);
    let labelled = stored.iter();
    let labelled = labelled.filter(|it| it["metadata"]["labels"]["round"] == "one");
    assert_eq!(labelled.count(), COUNT / 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_cannot_be_written_are_named_and_tried_again() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(5).await?;
    scene.store_in(NEW).await?;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["network.azure.com"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["virtualnetworks"],
            }]},
            "validations": [{"expression": "object.metadata.name != 'network-00003'"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]},
    });
    scene.plain.install(&[policy, binding]).await?;
    let Outcome::Failed(failed) = scene.migrate().await? else {
        anyhow::bail!("a write was refused");
    };
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].object, "default/network-00003");
    assert!(!failed[0].message.is_empty());
    assert_eq!(scene.stored_in(OLD).await?, 1);
    let refused = TrimResult::Refused(Refusal::NotMigrated);
    assert_eq!(scene.trim().await?, refused);
    let binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/frozen";
    assert_eq!(scene.plain.delete(binding).await?.status, 200);
    let expected = Outcome::Complete {
        objects: 5,
        stored: 1,
    };
    assert_eq!(scene.migrate().await?, expected);
    assert_eq!(scene.stored_in(OLD).await?, 0);
    Ok(())
}
