//! Definitions of all kinds in all versions, as `tools/asogen/generate --released` writes them into
//! the folder that `INSULA_AZURE_RELEASED` names.

use insula_azure::table::{self, Kind, Rule, ShapeRef, Version, derive};
use insula_testkit::server::{Setup, TestServer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

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
fn kinds_derived_from_released_definitions_are_those_of_the_table() {
    let Some(definitions) = released() else {
        return;
    };
    assert_eq!(definitions.len(), table::kinds().len());
    let (mut different, mut unnamed) = (Vec::new(), Vec::new());
    for definition in &definitions {
        let Some(kind) = derive(definition) else {
            unnamed.push(definition["metadata"]["name"].as_str().unwrap());
            continue;
        };
        let known = table::find(kind.group(), kind.kind()).unwrap();
        let of = |kind: &Kind| {
            let names = (
                kind.plural().to_owned(),
                kind.fixed_name().map(str::to_owned),
            );
            let arm_type = kind.arm_type().to_ascii_lowercase();
            (
                names,
                arm_type,
                kind.owner().clone(),
                kind.scope(),
                kind.storage_version().to_owned(),
            )
        };
        if of(&kind) != of(known) {
            different.push(format!("{:?} {:?}", of(&kind), of(known)));
        }
        for version in kind.versions() {
            let same = known.version(version.name()).unwrap();
            assert_eq!(version.api_version(), same.api_version(), "{}", kind.kind());
        }
    }
    assert_eq!(different, [""; 0]);
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
fn rules_derived_from_released_definitions_are_those_of_the_table_but_one() {
    let Some(definitions) = released() else {
        return;
    };
    let (mut all, mut different) = (0, Vec::new());
    for kind in definitions.iter().filter_map(derive) {
        let known = table::find(kind.group(), kind.kind()).unwrap();
        for version in kind.versions() {
            let same = known.version(version.name()).unwrap();
            let (derived, known) = (kind.spec(version), known.spec(same));
            compare(derived, known, kind.kind(), &mut all, &mut different);
        }
    }
    different.sort();
    different.dedup();
    assert_eq!(all, 1762);
    assert!(different.len() <= 1, "{different:#?}");
}

/// Counts the references, secrets and identities of a shape, and collects those that differ.
fn compare(
    derived: ShapeRef<'_>,
    known: ShapeRef<'_>,
    path: &str,
    all: &mut usize,
    different: &mut Vec<String>,
) {
    for (name, rule) in known.fields() {
        let path = format!("{path}.{name}");
        let found = derived.rule(name);
        let same = match (rule, found) {
            (Rule::Reference(one), Rule::Reference(other))
            | (Rule::WellKnown(one), Rule::WellKnown(other))
            | (Rule::Secret(one), Rule::Secret(other))
            | (Rule::SecretMap(one), Rule::SecretMap(other))
            | (Rule::Config(one), Rule::Config(other)) => one == other,
            (Rule::Identities, Rule::Identities) | (Rule::Json, Rule::Json) => true,
            (Rule::Object(one), Rule::Object(other)) => {
                compare(other, one, &path, all, different);
                continue;
            }
            (Rule::Reference(_) | Rule::WellKnown(_) | Rule::Secret(_) | Rule::Config(_), _)
            | (Rule::SecretMap(_) | Rule::Identities | Rule::Json, _) => false,
            _ => continue,
        };
        *all += 1;
        if !same {
            different.push(
                format!("{path}: {rule:?} {found:?}")
                    .chars()
                    .take(200)
                    .collect(),
            );
        }
    }
}
