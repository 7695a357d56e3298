//! The CustomResourceDefinitions of tenants and of the objects in a broker.

use std::time::Duration;

use insula_operator::managed::{self, Drift, Ensured, overlay};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::time::Instant;

use crate::error::Error;
use crate::report::Report;
use crate::transient::TransientErrors;

const TENANT_KIND: &str = include_str!("../data/crds/tenants.yaml");
const BROKER_KINDS: [&str; 5] = [
    include_str!("../data/crds/brokers.yaml"),
    include_str!("../data/crds/clusters.yaml"),
    include_str!("../data/crds/endpoints.yaml"),
    include_str!("../data/crds/serviceimports.yaml"),
    include_str!("../data/crds/serviceexports.yaml"),
];

/// The label on our own definitions: definitions of others are not replaced if they are
/// compatible.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "subctl");
/// The label of definitions with a version of their own.
const RELEASE_VERSION_LABEL: &str = "multicluster.x-k8s.io/release-version";

/// How long a server may take to serve a kind: it is done in a moment or not at all.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns all definitions, tenants first.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![parse(TENANT_KIND)];
    all.extend(broker_kinds());
    all
}

/// Returns the definitions of the objects in a broker.
pub fn broker_kinds() -> Vec<CustomResourceDefinition> {
    BROKER_KINDS.iter().map(|text| parse(text)).collect()
}

/// Ensures that the server has these definitions and serves their kinds.
///
/// # Errors
///
/// Any error of the server; [`Error::TimedOut`] if a kind is not served in time.
pub async fn ensure(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    report: &dyn Report,
) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        await_deletion(&api, &name, report).await?;
        let ensured = managed::ensure_by(&api, definition, compare).await;
        let attempted = format!("install the definition of {name}");
        match ensured.map_err(Error::when(attempted))? {
            Ensured::Unchanged => {}
            Ensured::Created => report.done(&format!("Created CRD {name}")),
            Ensured::Replaced => report.done(&format!("Updated CRD {name}")),
        }
    }
    for definition in definitions {
        await_established(&api, definition, report).await?;
    }
    Ok(())
}

/// Waits until a definition that is being deleted is gone: it is still readable until then,
/// and its objects are deleted with it.
async fn await_deletion(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    report: &dyn Report,
) -> Result<(), Error> {
    let deadline = Instant::now() + ESTABLISH_TIMEOUT;
    let mut reported = false;
    let mut transient = TransientErrors::default();
    loop {
        let found = match api.get_metadata_opt(name).await {
            Err(error) if reported && transient.tolerate(&error) => {
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            found => found.map_err(Error::when(format!("read the definition of {name}")))?,
        };
        transient.reset();
        if found.is_none_or(|found| found.metadata.deletion_timestamp.is_none()) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::invalid_with_hint(
                format!("CRD {name} is being deleted, but finalizers or objects block it"),
                format!("`kubectl get {name} --all-namespaces` shows what is left of its objects"),
            ));
        }
        if !std::mem::replace(&mut reported, true) {
            report.begin(&format!("Waiting for the deletion of CRD {name}"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until the server serves a kind.
async fn await_established(
    api: &Api<CustomResourceDefinition>,
    wanted: &CustomResourceDefinition,
    report: &dyn Report,
) -> Result<(), Error> {
    let name = wanted.name_any();
    let deadline = Instant::now() + ESTABLISH_TIMEOUT;
    let mut transient = TransientErrors::default();
    loop {
        let found = match api.get(&name).await {
            Err(error) if transient.tolerate(&error) => {
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            found => found.map_err(Error::when(format!("read the definition of {name}")))?,
        };
        transient.reset();
        if is_established(&found) {
            if let Some(missing) = missing_version(&found, wanted) {
                report.warn(&format!(
                    "CRD {name} was installed by another program and does not serve {missing}"
                ));
            }
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::TimedOut {
                what: format!("the server's beginning to serve {name}"),
                after: ESTABLISH_TIMEOUT,
                why: Some("it is not Established".to_owned()),
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    conditions
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Returns a version that we use and the existing definition does not serve.
fn missing_version(
    found: &CustomResourceDefinition,
    wanted: &CustomResourceDefinition,
) -> Option<String> {
    let serves = |name: &str| {
        let mut versions = found.spec.versions.iter();
        versions.any(|version| version.served && version.name == name)
    };
    let mut names = wanted.spec.versions.iter().map(|version| &version.name);
    names.find(|name| !serves(name)).cloned()
}

/// Compares an existing definition. Our own must be identical. Those of others are kept if
/// they have a release version, an additional version, or everything that ours have;
/// descriptions do not matter.
fn compare(
    wanted: &CustomResourceDefinition,
    found: &CustomResourceDefinition,
) -> Drift<CustomResourceDefinition> {
    let is_right = match is_ours(found) {
        true => normalized_spec(found) == normalized_spec(wanted),
        false => is_newer(found, wanted) || is_compatible(found, wanted),
    };
    if is_right {
        return Drift::InSync;
    }
    let mut replacement = found.clone();
    replacement.spec = wanted.spec.clone();
    replacement.labels_mut().extend(wanted.labels().clone());
    replacement.status = None;
    Drift::Replace(Box::new(replacement))
}

fn is_ours(definition: &CustomResourceDefinition) -> bool {
    definition.labels().get(MANAGED_BY.0).map(String::as_str) == Some(MANAGED_BY.1)
}

fn is_newer(found: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> bool {
    let ours = |name: &str| {
        let mut versions = wanted.spec.versions.iter();
        versions.any(|version| version.name == name)
    };
    let mut versions = found.spec.versions.iter();
    found.labels().contains_key(RELEASE_VERSION_LABEL)
        || versions.any(|version| !ours(&version.name))
}

fn is_compatible(found: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> bool {
    let (mut found, mut wanted) = (normalized_spec(found), normalized_spec(wanted));
    simplify(&mut found, MAX_SCHEMA_DEPTH);
    simplify(&mut wanted, MAX_SCHEMA_DEPTH);
    overlay::covers(&found, &wanted)
}

/// Returns the spec without the server's defaults.
fn normalized_spec(definition: &CustomResourceDefinition) -> Value {
    // It was decoded from JSON or from our own YAML, so it can be encoded.
    let mut spec = serde_json::to_value(&definition.spec).unwrap_or_default();
    if spec["conversion"]["strategy"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("conversion");
    }
    spec
}

/// The maximum depth of a compatible schema.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Removes descriptions (a property of that name is not a string and stays) and sorts lists of
/// strings, which are sets.
fn simplify(value: &mut Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::Object(members) => {
            members.retain(|key, value| key != "description" || !value.is_string());
            members
                .values_mut()
                .for_each(|value| simplify(value, depth));
        }
        Value::Array(elements) if elements.iter().all(Value::is_string) => {
            elements.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|value| simplify(value, depth)),
        _ => {}
    }
}

fn parse(text: &str) -> CustomResourceDefinition {
    let read = serde_saphyr::from_str::<CustomResourceDefinition>(text);
    let mut definition = read.expect("the texts are the program's own, and a test reads them all");
    let ours = (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    definition.labels_mut().extend([ours]);
    definition
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> CustomResourceDefinition {
        let mut all = all().into_iter();
        all.find(|definition| definition.name_any() == name)
            .unwrap()
    }

    /// The same definition, created by another program.
    fn foreign(name: &str) -> CustomResourceDefinition {
        let mut definition = named(name);
        definition.metadata.labels = None;
        definition
    }

    #[test]
    fn r13_r14_definitions_have_the_expected_kinds() {
        let reported: Vec<_> = all()
            .iter()
            .map(|definition| {
                let versions: Vec<_> = definition.spec.versions.iter().collect();
                assert!(versions.len() == 1 && versions[0].served && versions[0].storage);
                let status = versions[0].subresources.is_some();
                let columns = versions[0].additional_printer_columns.iter().flatten();
                let columns: Vec<_> = columns.map(|column| column.name.as_str()).collect();
                format!(
                    "{} {} {} {} status={status} {columns:?}",
                    definition.name_any(),
                    versions[0].name,
                    definition.spec.scope,
                    definition.spec.names.kind
                )
            })
            .collect();
        let expected = [
            r#"tenants.submariner.io v1alpha1 Namespaced Tenant status=true ["Status", "Namespace", "Age"]"#,
            r#"brokers.submariner.io v1alpha1 Namespaced Broker status=true []"#,
            r#"clusters.submariner.io v1 Namespaced Cluster status=false []"#,
            r#"endpoints.submariner.io v1 Namespaced Endpoint status=false []"#,
            r#"serviceimports.multicluster.x-k8s.io v1alpha1 Namespaced ServiceImport status=true ["Type", "IP", "Age"]"#,
            r#"serviceexports.multicluster.x-k8s.io v1alpha1 Namespaced ServiceExport status=true ["Age"]"#,
        ];
        assert_eq!(reported, expected);
        assert_eq!(broker_kinds(), all()[1..]);
    }

    #[test]
    fn server_defaults_are_not_a_difference() {
        for wanted in all() {
            let mut found = wanted.clone();
            let filled = serde_json::json!({"strategy": "None"});
            found.spec.conversion = serde_json::from_value(filled).unwrap();
            found
                .labels_mut()
                .insert("of".to_owned(), "others".to_owned());
            assert_eq!(compare(&wanted, &found), Drift::InSync);
        }
    }

    #[test]
    fn every_field_of_a_tenant_has_a_description() {
        fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
            // The server describes metadata itself.
            if schema["description"].as_str().is_none_or(str::is_empty) && path != ".metadata" {
                found.push(path.to_owned());
            }
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                undescribed(field, &format!("{path}.{name}"), found);
            }
            if schema["items"].is_object() {
                undescribed(&schema["items"], &format!("{path}[]"), found);
            }
        }
        let tenants = serde_json::to_value(named("tenants.submariner.io")).unwrap();
        let schema = &tenants["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut found = Vec::new();
        undescribed(schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn r18_own_definition_is_replaced_and_keeps_foreign_labels() {
        let wanted = named("brokers.submariner.io");
        let mut found = wanted.clone();
        found.metadata.resource_version = Some("7".to_owned());
        found
            .labels_mut()
            .insert("of".to_owned(), "others".to_owned());
        found.spec.versions[0].served = false;
        let mut replacement = found.clone();
        replacement.spec = wanted.spec.clone();
        assert_eq!(
            compare(&wanted, &found),
            Drift::Replace(Box::new(replacement))
        );
    }

    #[test]
    fn r18_foreign_definition_is_kept_if_compatible_or_newer() {
        let imports = "serviceimports.multicluster.x-k8s.io";
        let clusters = "clusters.submariner.io";
        let schema = |definition: &mut CustomResourceDefinition, edit: fn(&mut Value)| {
            let mut spec = serde_json::to_value(&definition.spec).unwrap();
            edit(&mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
            definition.spec = serde_json::from_value(spec).unwrap();
        };
        let reworded = |name| {
            let mut found = foreign(name);
            schema(&mut found, |spec| {
                spec["description"] = "other words".into();
                spec["required"].as_array_mut().unwrap().reverse();
                spec["properties"]["newer"] = serde_json::json!({"type": "string"});
            });
            found
        };
        let narrower = |name| {
            let mut found = foreign(name);
            schema(&mut found, |spec| {
                spec["required"].as_array_mut().unwrap().pop();
            });
            found
        };
        let released = |name| {
            let mut found = narrower(name);
            found
                .labels_mut()
                .insert(RELEASE_VERSION_LABEL.to_owned(), "v0.5.0".to_owned());
            found
        };
        let versioned = |name| {
            let mut found = narrower(name);
            let mut more = found.spec.versions[0].clone();
            more.name = "v1beta1".to_owned();
            found.spec.versions.insert(0, more);
            found
        };
        for name in [imports, clusters] {
            let wanted = named(name);
            for (found, stays) in [
                (foreign(name), true),
                (reworded(name), true),
                (narrower(name), false),
                (released(name), true),
                (versioned(name), true),
            ] {
                let verdict = compare(&wanted, &found);
                assert_eq!(verdict == Drift::InSync, stays, "{found:?}");
            }
        }
    }
}
