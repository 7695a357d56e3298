//! All kinds that are shipped, in one namespace, with owners and references.

use std::collections::BTreeMap;
use std::path::Path;

use insula_azure::table;
use serde_json::{Value, json};

use crate::scene::{NAMESPACE, Scene};
use crate::world::eventually;

/// The subscription in the golden files.
const OF_FILES: &str = "5a1f0c1e-0000-4000-8000-000000000001";

/// The golden files, owners first.
const FILES: [&str; 19] = [
    "resource-group",
    "user-assigned-identity",
    "network-security-group",
    "security-rule",
    "virtual-network",
    "subnet",
    "public-ip-address",
    "storage-account",
    "blob-service",
    "blob-container",
    "vault",
    "redis",
    "postgresql-server",
    "postgresql-database",
    "postgresql-firewall-rule",
    "managed-cluster",
    "agent-pool",
    "federated-identity-credential",
    "role-assignment",
];

/// Files with bodies that depend on what the fake Azure answers, or that were changed.
const OTHER_BODIES: [&str; 4] = [
    "public-ip-address",
    "vault",
    "role-assignment",
    "storage-account",
];

struct Case {
    file: &'static str,
    object: Value,
    body: Value,
}

/// Reads the golden files, with objects in the newest version or the one before it.
fn cases(older: bool) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bodies");
    let read = |file: &'static str| {
        let text = std::fs::read_to_string(folder.join(format!("{file}.json"))).unwrap();
        let golden: Value = serde_json::from_str(&text.replace(OF_FILES, "sub-red")).unwrap();
        let (mut object, body) = (golden["object"].clone(), golden["body"].clone());
        object["metadata"] = json!({"name": name(file, &object), "namespace": NAMESPACE});
        adapt(file, &mut object["spec"]);
        if older {
            // The older version does not know newer servers.
            if file == "postgresql-server" {
                object["spec"]["version"] = "16".into();
            }
            object["apiVersion"] = older_version(&object).into();
        }
        Case { file, object, body }
    };
    FILES.map(read).into()
}

/// The name by which the other files refer to an object.
fn name(file: &str, object: &Value) -> String {
    let name = match file {
        "blob-service" => "shopdata",
        "role-assignment" => "reader",
        _ => object["spec"]["azureName"].as_str().unwrap(),
    };
    name.to_owned()
}

/// Connects the objects with each other.
fn adapt(file: &str, spec: &mut Value) {
    match file {
        "user-assigned-identity" => {
            spec["operatorSpec"]["configMaps"]["principalId"] =
                json!({"name": "shop-identity", "key": "principal"});
        }
        // The kind of its prefix is not shipped.
        "public-ip-address" => {
            spec.as_object_mut().unwrap().remove("publicIPPrefix");
        }
        _ => {}
    }
}

fn older_version(object: &Value) -> String {
    let (group, newest) = split(object);
    let older = match group {
        "network.azure.com" => "v1api20240301",
        "storage.azure.com" => "v1api20230101",
        "dbforpostgresql.azure.com" => "v1api20240801",
        "containerservice.azure.com" => "v1api20240901",
        "cache.azure.com" => "v1api20230801",
        "managedidentity.azure.com" if object["kind"] == "UserAssignedIdentity" => "v1api20181130",
        "managedidentity.azure.com" => "v1api20220131preview",
        "keyvault.azure.com" => "v1api20210401preview",
        "authorization.azure.com" => "v1api20200801preview",
        _ => newest,
    };
    format!("{group}/{older}")
}

/// The version of ARM's API for an object.
fn arm_version(object: &Value) -> String {
    let (group, version) = split(object);
    let kind = table::find(group, object["kind"].as_str().unwrap()).unwrap();
    kind.version(version).unwrap().api_version()
}

fn split(object: &Value) -> (&str, &str) {
    object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap()
}

/// The version in which an object was written, which only the stored version shows.
async fn original_version(scene: &Scene, object: &Value) -> anyhow::Result<String> {
    let (group, _) = split(object);
    let kind = table::find(group, object["kind"].as_str().unwrap()).unwrap();
    let mut stored = object.clone();
    stored["apiVersion"] = format!("{group}/{}", kind.storage_version()).into();
    let stored = scene.read(&stored).await?.unwrap_or_default();
    let original = &stored["spec"]["originalVersion"];
    Ok(original.as_str().unwrap_or_default().to_owned())
}

/// Creates all objects, dependents first, and returns their ARM ids.
async fn create_all(scene: &Scene, cases: &[Case]) -> anyhow::Result<BTreeMap<String, String>> {
    let late = ["resource-group", "user-assigned-identity"];
    for case in cases.iter().rev().filter(|case| !late.contains(&case.file)) {
        scene.create(&case.object).await?;
    }
    let of = |file: &str| &cases.iter().find(|case| case.file == file).unwrap().object;
    let message = scene
        .problem(of("subnet"), "Warning", "WaitingForOwner")
        .await?;
    let begin = "Owner VirtualNetwork.network.azure.com \"shop-net\" ";
    assert!(message.starts_with(begin), "{message}");
    let message = scene
        .problem(of("redis"), "Warning", "WaitingForOwner")
        .await?;
    assert_eq!(
        message,
        "Owner ResourceGroup.resources.azure.com \"shop-rg\" does not exist: the resource is \
         sent once it is ready."
    );
    assert_eq!(scene.azure.requests().len(), 0);
    scene.create(of("resource-group")).await?;
    let message = scene
        .problem(of("storage-account"), "Warning", "ReferenceNotFound")
        .await?;
    assert!(message.contains("\"shop\""), "{message}");
    scene
        .problem(of("vault"), "Warning", "ConfigMapNotFound")
        .await?;
    scene
        .problem(of("postgresql-server"), "Warning", "SecretNotFound")
        .await?;
    scene
        .secret(NAMESPACE, "shop-db", &[("password", "from-the-secret")])
        .await?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "data": {"issuer": "https://issuer.example.com/shop"},
    });
    scene.create(&map).await?;
    scene.create(of("user-assigned-identity")).await?;
    let mut ids = BTreeMap::new();
    for case in cases {
        let made = scene.await_ready(&case.object, "True", "Succeeded").await;
        let made = made.map_err(|error| error.context(case.file))?;
        let id = &made["metadata"]["annotations"]["serviceoperator.azure.com/resource-id"];
        let id = id.as_str().unwrap().to_owned();
        let shown = made["status"]["id"].as_str().unwrap_or_default();
        assert!(
            shown.eq_ignore_ascii_case(&id),
            "{}: {shown} {id}",
            case.file
        );
        let (group, version) = split(&case.object);
        assert_eq!(
            original_version(scene, &case.object).await?,
            version,
            "{group}"
        );
        ids.insert(case.file.to_owned(), id);
    }
    Ok(ids)
}

/// Checks that each resource was sent once, in its version, and that no request was refused.
fn check_requests(scene: &Scene, cases: &[Case], ids: &BTreeMap<String, String>, older: bool) {
    let requests = scene.azure.requests();
    let refused = requests.iter().filter(|call| {
        let is_write = matches!(call.method.as_str(), "PUT" | "DELETE");
        is_write && call.status.is_some_and(|status| status >= 400)
    });
    let refused: Vec<_> = refused
        .map(|call| (&call.method, &call.path, call.status))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
    for case in cases {
        let sent = scene.azure.requests_for("PUT", &ids[case.file]);
        assert_eq!(sent.len(), 1, "{}", case.file);
        let version = arm_version(&case.object);
        assert_eq!(
            sent[0].api_version.as_ref(),
            Some(&version),
            "{}",
            case.file
        );
        if !older && !OTHER_BODIES.contains(&case.file) {
            assert_eq!(sent[0].body, case.body, "{}", case.file);
        }
    }
}

async fn await_all_gone(scene: &Scene, cases: &[Case]) -> anyhow::Result<()> {
    for case in cases {
        let gone = scene.await_gone(&case.object).await;
        if gone.is_err() {
            let left = scene.read(&case.object).await?;
            anyhow::bail!("{}: {left:?}", case.file);
        }
    }
    assert_eq!(scene.azure.resource_ids(), Vec::<String>::new());
    eventually("the hold on the credential ends", async || {
        let secret: Option<Value> = scene
            .find("v1", "Secret", NAMESPACE, "aso-credential")
            .await?;
        let finalizers = &secret.unwrap()["metadata"]["finalizers"];
        Ok(finalizers
            .as_array()
            .is_none_or(Vec::is_empty)
            .then_some(()))
    })
    .await
}

#[tokio::test]
async fn kinds_are_created_in_the_order_of_owners_and_go_with_their_group() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let cases = cases(false);
    let ids = create_all(&scene, &cases).await?;
    check_requests(&scene, &cases, &ids, false);
    scene.delete(&cases[0].object).await?;
    await_all_gone(&scene, &cases).await
}

#[tokio::test]
async fn objects_of_the_older_version_are_sent_in_it_and_deleted_in_any_order() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    let cases = cases(true);
    let ids = create_all(&scene, &cases).await?;
    check_requests(&scene, &cases, &ids, true);
    // Azure has no DELETE for it, and it goes with its owner.
    for case in cases.iter().filter(|case| case.file != "resource-group") {
        let deleted = scene.delete(&case.object).await;
        // It may have gone with its owner already.
        let is_gone = |error: &anyhow::Error| match error.downcast_ref() {
            Some(kube::Error::Api(status)) => status.code == 404,
            _ => false,
        };
        if let Err(error) = deleted {
            anyhow::ensure!(is_gone(&error), "{}: {error}", case.file);
        }
    }
    for case in cases.iter().skip(1) {
        let gone = scene.await_gone(&case.object).await;
        gone.map_err(|error| error.context(case.file))?;
    }
    assert_eq!(scene.azure.resource_ids(), [ids["resource-group"].clone()]);
    scene.delete(&cases[0].object).await?;
    await_all_gone(&scene, &cases).await
}
