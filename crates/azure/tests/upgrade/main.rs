//! Upgrade checks against an API server.

#[path = "../storage/scene.rs"]
mod scene;

use insula_azure::names::{LAST_RECONCILED_VERSION, OPERATOR_NAMESPACE};
use insula_azure::storage::trim::{TrimResult, trim};
use insula_azure::upgrade::check::{Answer, Question, check};
use insula_azure::upgrade::removal::can_remove;
use insula_azure::upgrade::{Release, TenantOperator};
use serde_json::json;

use scene::{NAME, NEW, OLD, OLD_API, Scene, client_of, name, objects};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/azureoperator-system/deployments";

impl Scene {
    async fn check(&self, to: &str, namespace: Option<&str>) -> anyhow::Result<Answer> {
        let question = Question {
            to: to.parse()?,
            namespace: namespace.map(str::to_owned),
        };
        Ok(check(&self.client, &question).await?)
    }

    async fn blockers(&self, version: &str) -> anyhow::Result<Vec<String>> {
        let removal = can_remove(&self.client, version, &[]).await?;
        assert_eq!(removal.not_listed, [""; 0]);
        Ok(removal.blockers.iter().map(ToString::to_string).collect())
    }

    /// Claims an object for an operator of a release.
    async fn claim(&self, number: usize, release: &str) -> anyhow::Result<()> {
        let path = format!("{}/{}", objects(OLD_API), name(number));
        let claim = json!({"metadata": {
            "annotations": {OPERATOR_NAMESPACE: "acme-system"},
            "labels": {LAST_RECONCILED_VERSION: release},
        }});
        let claimed = self.plain.patch(&path, "merge", &claim).await?;
        anyhow::ensure!(claimed.status == 200, "{}", claimed.text());
        Ok(())
    }
}

fn lines(answer: &Answer) -> Vec<String> {
    answer.held_back.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r19_operators_are_moved_after_the_definitions() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.create(2).await?;
    scene.claim(0, "v2.10.0").await?;
    let own = Release::own().to_string();
    let answer = scene.check(&own, None).await?;
    assert_eq!(lines(&answer), [""; 0]);
    let found = answer.operators.all.iter();
    let found: Vec<_> = found.map(TenantOperator::to_string).collect();
    assert_eq!(found, ["operator in namespace acme-system (v2.10.0)"]);

    // The definition of an older release does not have the version of today.
    let (status, message) = scene.remove_version(NEW).await?;
    assert_eq!(status, 200, "{message}");
    let answer = scene.check(&own, Some("acme-system")).await?;
    let expected = [
        format!(
            "{NAME}: version {NEW} is needed, and the cluster serves v20250301, {OLD_API}, {OLD}"
        ),
        format!("{NAME}: cannot be replaced, objects may be stored in version {OLD}"),
        format!(
            "{NAME}: cannot be replaced, operator in namespace acme-system (v2.10.0) may need \
             version {OLD}"
        ),
    ];
    assert_eq!(lines(&answer), expected);
    let newer = scene.check("v2.99.0", None).await?;
    assert_eq!(lines(&newer), [format!("{NAME}: the release is not known")]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r19_caller_without_rights_to_definitions_is_answered_by_discovery() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let account = json!({"metadata": {"name": "tenant"}});
    let made = scene
        .plain
        .post("/api/v1/namespaces/default/serviceaccounts", &account)
        .await?;
    assert_eq!(made.status, 201, "{}", made.text());
    let path = "/api/v1/namespaces/default/serviceaccounts/tenant/token";
    let token = scene.plain.post(path, &json!({"spec": {}})).await?.json();
    let token = token["status"]["token"].as_str().unwrap_or_default();
    let tenant = client_of(&scene.server, token).await?;
    let question = Question {
        to: Release::own(),
        namespace: None,
    };
    let answer = check(&tenant, &question).await?;
    assert_eq!(lines(&answer), [""; 0]);
    assert!(!answer.operators.not_listed.is_empty());
    scene.remove_version(NEW).await?;
    let line = format!(
        "{NAME}: version {NEW} is needed, and the cluster serves {OLD_API}, {OLD}, v20250301"
    );
    assert_eq!(lines(&check(&tenant, &question).await?), [line]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r20_version_is_removable_after_operators_objects_and_storage_moved() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    scene.create(2).await?;
    scene.claim(0, "v2.10.0").await?;
    let operator = format!("{NAME}: operator in namespace acme-system (v2.10.0) may need it");
    let written =
        |names: &str, count: u32| format!("{NAME}: objects were written in it: {count} ({names})");
    let both = written("default/network-00000, default/network-00001", 2);
    let storage = format!("{NAME}: version {OLD} is the storage version");
    assert_eq!(
        scene.blockers(OLD_API).await?,
        [storage, both.clone(), operator.clone()]
    );

    scene.store_in(NEW).await?;
    let stored =
        format!("{NAME}: objects may be stored in version {OLD} (status.storedVersions has it)");
    assert_eq!(
        scene.blockers(OLD_API).await?,
        [stored.clone(), both, operator.clone()]
    );
    assert_eq!(
        scene.blockers(OLD).await?,
        [stored.clone(), operator.clone()]
    );

    // One object is applied in the version of today.
    let path = format!("{}/{}", objects("v20250301"), name(1));
    let change = json!({"spec": {"location": "eastus"}});
    let patched = scene.plain.patch(&path, "merge", &change).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let first = written("default/network-00000", 1);
    assert_eq!(
        scene.blockers(OLD_API).await?,
        [stored.clone(), first, operator]
    );

    let own = Release::own().to_string();
    scene.claim(0, &own).await?;
    let path = format!("{}/{}", objects("v20250301"), name(0));
    let patched = scene.plain.patch(&path, "merge", &change).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    assert_eq!(scene.blockers(OLD_API).await?, [stored]);

    scene.migrate().await?;
    let definitions = [scene.definition().await?];
    let trimmed = trim(&scene.client, &scene.records(), &definitions, false).await?;
    assert_eq!(trimmed[0].result, TrimResult::Removed(vec![OLD.to_owned()]));
    assert_eq!(scene.blockers(OLD_API).await?, [""; 0]);
    for version in [OLD, OLD_API] {
        let (status, message) = scene.remove_version(version).await?;
        assert_eq!(status, 200, "{message}");
    }
    let removal = can_remove(&scene.client, OLD_API, &[]).await?;
    assert_eq!(removal.definitions, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_say_which_releases_run() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let deployment = |name: &str, app: &str, version: &str, mode: &str| {
        let labels = json!({
            "app.kubernetes.io/name": app, "app.kubernetes.io/version": version,
        });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{
                        "name": "manager", "image": "operator",
                        "env": [{"name": "AZURE_OPERATOR_MODE", "value": mode}],
                    }]},
                },
            },
        })
    };
    for object in [
        deployment("old", "azure-service-operator", "v2.19.0", "webhooks"),
        deployment("new", "insula-azure-operator", "v0.1.0", "watchers"),
        deployment("other", "something", "v1.0.0", "watchers"),
    ] {
        let made = scene.plain.post(DEPLOYMENTS, &object).await?;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let answer = scene.check("v2.20.0", None).await?;
    let mut found: Vec<_> = answer
        .operators
        .all
        .iter()
        .map(ToString::to_string)
        .collect();
    found.sort();
    let expected = [
        "operator in namespace azureoperator-system (v0.1.0)",
        "webhooks in namespace azureoperator-system (v2.19.0)",
    ];
    assert_eq!(found, expected);
    let webhooks = format!("{}: must be moved first", expected[1]);
    assert_eq!(lines(&answer), [webhooks]);
    Ok(())
}
