//! Definitions of all kinds in all versions, as `tools/asogen/generate --released` writes them into
//! the folder that `INSULA_AZURE_RELEASED` names.

use insula_azure::table::{self, Rule, ShapeRef, Version};
use insula_testkit::server::{Setup, TestServer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::derived;

/// Returns the definitions, or nothing if there is no folder.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn released() -> Option<Vec<Value>> {
    let Ok(folder) = std::env::var("INSULA_AZURE_RELEASED") else {
        eprintln!("SKIPPED: INSULA_AZURE_RELEASED is not set");
        return None;
    };
    let files = std::fs::read_dir(folder).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    Some(
        texts
            .map(|text| serde_json::from_str(&text).unwrap())
            .collect(),
    )
}

#[tokio::test]
async fn released_definitions_are_established() -> anyhow::Result<()> {
    let Some(definitions) = released() else {
        return Ok(());
    };
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let system = server.system().await?;
    system.install(&definitions).await?;
    for kind in table::kinds() {
        let (group, plural) = (kind.group(), kind.plural());
        for name in kind.versions().iter().flat_map(Version::names) {
            let listed = system
                .get(&format!("/apis/{group}/{name}/{plural}"))
                .await?;
            assert_eq!(listed.status, 200, "{group}/{name} {plural}");
        }
    }
    Ok(())
}

#[test]
fn shipped_schemas_are_those_of_released_definitions() {
    let Some(released) = released() else {
        return;
    };
    for definition in crate::definitions() {
        let mut definition = serde_json::to_value(&definition).unwrap();
        let mut all = released.iter();
        let same =
            all.find(|released| released["metadata"]["name"] == definition["metadata"]["name"]);
        // Both through the same type, since numbers have several forms.
        let same: CustomResourceDefinition = serde_json::from_value(same.unwrap().clone()).unwrap();
        let mut same = serde_json::to_value(&same).unwrap();
        keep_rules(&mut definition);
        keep_rules(&mut same);
        let versions = same["spec"]["versions"].as_array().unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let mut released = versions.iter();
            let released = released.find(|released| released["name"] == version["name"]);
            let released = released.unwrap();
            assert_eq!(
                version["storage"], released["storage"],
                "{}",
                version["name"]
            );
            // Any fields fit into the stored version.
            if version["storage"] == false {
                assert_eq!(
                    version["schema"], released["schema"],
                    "{}",
                    definition["metadata"]
                );
            }
        }
    }
}

/// Removes descriptions, and formats, which are not validated.
fn keep_rules(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(keep_rules),
        Value::Object(members) => {
            members.retain(|name, value| {
                !matches!(name.as_str(), "description" | "format") || !value.is_string()
            });
            members.values_mut().for_each(keep_rules);
        }
        _ => {}
    }
}

#[test]
fn released_definitions_say_of_kinds_what_the_table_says() {
    let Some(definitions) = released() else {
        return;
    };
    assert_eq!(definitions.len(), table::kinds().len());
    let mut unnamed = Vec::new();
    for definition in &definitions {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap();
        let known = table::find(text("/spec/group"), text("/spec/names/kind")).unwrap();
        for version in derived::versions(definition) {
            let same = known.version(version.name).unwrap();
            let expected = table::api_version(version.name);
            assert_eq!(Some(same.api_version()), expected, "{}", known.kind());
        }
        let Some(found) = derived::kind(definition) else {
            unnamed.push(text("/metadata/name"));
            continue;
        };
        let expected = derived::Derived {
            plural: known.plural().to_owned(),
            arm_type: known.arm_type().to_ascii_lowercase(),
            fixed_name: known.fixed_name().map(str::to_owned),
            owner: known.owner().clone(),
            scope: known.scope(),
            storage: known.storage_version().to_owned(),
        };
        assert_eq!(found, expected);
    }
    // Definitions do not say that these have only one name, or which.
    unnamed.sort();
    assert_eq!(
        unnamed,
        [
            "apipolicies.apimanagement.azure.com",
            "flexibleserversadministrators.dbformysql.azure.com",
            "policies.apimanagement.azure.com",
            "productpolicies.apimanagement.azure.com",
            "serversadministrators.sql.azure.com",
            "serversdatabasestransparentdataencryptions.sql.azure.com",
        ]
    );
}

#[test]
fn released_definitions_say_of_fields_what_the_table_says() {
    let Some(definitions) = released() else {
        return;
    };
    let (mut all, mut different) = (0, Vec::new());
    for definition in &definitions {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap();
        let known = table::find(text("/spec/group"), text("/spec/names/kind")).unwrap();
        for version in derived::versions(definition) {
            let shape = known.spec(known.version(version.name).unwrap());
            let schemas = (version.spec, version.status);
            compare(shape, schemas, known.kind(), &mut all, &mut different);
        }
    }
    different.sort();
    different.dedup();
    // The status does not show the name that ARM has for this one.
    let unknown = "Database.readWriteDatabase.keyVaultProperties.userIdentityReference";
    assert_eq!((all, different), (1788, vec![unknown.to_owned()]));
}

/// Counts the references, secrets and identities of a shape, and collects those that differ.
fn compare(
    known: ShapeRef<'_>,
    (schema, status): (&Value, &Value),
    path: &str,
    all: &mut usize,
    different: &mut Vec<String>,
) {
    for (name, rule) in known.fields() {
        let path = format!("{path}.{name}");
        let found = derived::field(schema, name);
        if let Rule::Object(below) = rule {
            let schemas = (found, derived::field(status, name));
            compare(below, schemas, &path, all, different);
            continue;
        }
        if let Some(agrees) = derived::agrees(rule, name, found, status) {
            *all += 1;
            if !agrees {
                different.push(path);
            }
        }
    }
}
