//! The definitions of kinds in the shape that Metal3's own provider has them: without `identityRef`.

use insula_metal3::crds;
use insula_metal3::manifests;
use serde_json::{Value, json};

use crate::world::{Management, eventually};

/// Which versions the provider serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 1.12 and before: only `v1beta1`.
    Former,
    /// 1.13 and later: both, and `v1beta2` is stored.
    Latest,
}

/// Returns the manifests of this operator with the definitions of the other provider.
pub fn manifests_with(release: Release) -> Vec<Value> {
    let settings = manifests::Settings::default();
    let objects = manifests::manifests(&settings).into_iter();
    let objects = objects.map(
        |object| match object["kind"] == "CustomResourceDefinition" {
            true => in_shape_of(release, object),
            false => object,
        },
    );
    objects.collect()
}

/// Returns all definitions in the shape of a release.
pub fn of(release: Release) -> Vec<Value> {
    let definitions = own().into_iter();
    definitions.map(|it| in_shape_of(release, it)).collect()
}

/// Returns the definitions of this operator.
pub fn own() -> Vec<Value> {
    let definitions = crds::all().into_iter();
    definitions.map(|it| json!(it)).collect()
}

fn in_shape_of(release: Release, mut definition: Value) -> Value {
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    for version in versions.iter_mut() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        remove_identity(schema);
        if release == Release::Former && version["name"] == "v1beta1" {
            version["storage"] = true.into();
        }
    }
    if release == Release::Former && versions.len() > 1 {
        versions.retain(|version| version["name"] == "v1beta1");
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    definition
}

/// Removes `identityRef`, and the rules about it, from a schema.
fn remove_identity(schema: &mut Value) {
    if let Some(rules) = schema["x-kubernetes-validations"].as_array_mut() {
        rules.retain(|rule| !rule.to_string().contains("identityRef"));
        if rules.is_empty() {
            schema
                .as_object_mut()
                .unwrap()
                .remove("x-kubernetes-validations");
        }
    }
    let Some(properties) = schema["properties"].as_object_mut() else {
        schema.as_object_mut().unwrap().remove("properties");
        return;
    };
    properties.remove("identityRef");
    for name in ["spec", "template"] {
        if let Some(inner) = properties.get_mut(name) {
            remove_identity(inner);
        }
    }
}

/// Applies definitions over those that exist, and waits until their versions are served.
pub async fn apply(management: &Management, definitions: &[Value]) -> anyhow::Result<()> {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let patched = management.plain.patch(&path, "merge", definition).await?;
        anyhow::ensure!(patched.status == 200, "{name}: {}", patched.text());
        let (group, plural) = (
            definition["spec"]["group"].as_str().unwrap(),
            definition["spec"]["names"]["plural"].as_str().unwrap(),
        );
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let version = version["name"].as_str().unwrap();
            let list = format!("/apis/{group}/{version}/{plural}");
            eventually(async || {
                let listed = management.plain.get(&list).await?;
                Ok((listed.status == 200).then_some(()))
            })
            .await?;
        }
    }
    Ok(())
}

/// Returns the versions that objects of a kind were stored in.
pub async fn stored_versions(management: &Management, plural: &str) -> anyhow::Result<Value> {
    let name = format!("{plural}.infrastructure.cluster.x-k8s.io");
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let found = management.plain.get(&path).await?.json();
    Ok(found["status"]["storedVersions"].clone())
}
