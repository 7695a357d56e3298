//! The definitions on a whole server: they are established, and admit objects of every version.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod derived;
mod objects;
mod released;

use insula_azure::crds;
use insula_testkit::server::{Client, Setup, TestServer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use serde_json::{Value, json};

/// The definitions, with the conversion that needs no webhook.
fn definitions() -> Vec<CustomResourceDefinition> {
    crds::all(&CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    })
}

/// Starts a server on which the definitions are installed.
async fn server() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start_with(Setup::with_controllers()).await?;
    let system = server.system().await?;
    let definitions = definitions();
    let objects = definitions.iter().map(serde_json::to_value);
    system
        .install(&objects.collect::<Result<Vec<_>, _>>()?)
        .await?;
    Ok((server, system))
}

/// Returns the path of a kind's objects, strict about unknown fields.
fn path(definition: &CustomResourceDefinition, version: &str) -> String {
    let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
    format!("/apis/{group}/{version}/namespaces/default/{plural}")
}

fn object(definition: &CustomResourceDefinition, version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", definition.spec.group),
        "kind": definition.spec.names.kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

#[tokio::test]
async fn definitions_are_established_in_every_version() -> anyhow::Result<()> {
    let (_server, system) = server().await?;
    for definition in definitions() {
        let name = definition.metadata.name.as_ref().unwrap();
        let found = system
            .get(&format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            ))
            .await?;
        let conditions = found.json()["status"]["conditions"].clone();
        let conditions = conditions.as_array().unwrap();
        let is = |wanted: &str| {
            let mut all = conditions.iter();
            all.any(|condition| condition["type"] == wanted && condition["status"] == "True")
        };
        assert!(
            is("Established") && is("NamesAccepted"),
            "{name}: {conditions:?}"
        );
        assert!(!is("NonStructuralSchema"), "{name}: {conditions:?}");
        for version in &definition.spec.versions {
            let listed = system.get(&path(&definition, &version.name)).await?;
            assert_eq!(listed.status, 200, "{name} {}", version.name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_every_kind_are_stored_unchanged_in_every_version() -> anyhow::Result<()> {
    let (_server, system) = server().await?;
    for definition in definitions() {
        let kind = &definition.spec.names.kind;
        for version in &definition.spec.versions {
            let name = &version.name;
            let spec = objects::minimal(kind, name);
            let at = format!("{}?fieldValidation=Strict", path(&definition, name));
            let made = system
                .post(&at, &object(&definition, name, name, &spec))
                .await?;
            assert_eq!(made.status, 201, "{kind} {name}: {}", made.text());
            assert_eq!(made.json()["spec"], spec, "{kind} {name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn objects_that_azure_would_refuse_are_refused() -> anyhow::Result<()> {
    let (_server, system) = server().await?;
    let definitions = definitions();
    for (kind, version, spec, message) in objects::invalid() {
        let found = definitions
            .iter()
            .find(|definition| definition.spec.names.kind == kind);
        let definition = found.unwrap();
        let at = format!("{}?fieldValidation=Strict", path(definition, version));
        let refused = system
            .post(&at, &object(definition, version, "x", &spec))
            .await?;
        assert!(
            [400, 422].contains(&refused.status),
            "{kind} {spec}: {}",
            refused.text()
        );
        assert!(refused.message().contains(message), "{}", refused.message());
    }
    Ok(())
}

#[tokio::test]
async fn status_is_kept_with_conditions_and_columns() -> anyhow::Result<()> {
    let (_server, system) = server().await?;
    let definitions = definitions();
    let mut all = definitions.iter();
    let group = all
        .find(|definition| definition.spec.names.kind == "ResourceGroup")
        .unwrap();
    let at = path(group, "v1api20200601");
    let spec = objects::minimal("ResourceGroup", "v1api20200601");
    let mut made = system
        .post(&at, &object(group, "v1api20200601", "team", &spec))
        .await?
        .json();
    made["status"] = json!({
        "conditions": [{"type": "Ready", "status": "False", "severity": "Info", "reason": "Reconciling",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "id": "/subscriptions/s/resourceGroups/team",
        "properties": {"provisioningState": "Succeeded"},
    });
    let written = system.put(&format!("{at}/team/status"), &made).await?;
    assert_eq!(written.status, 200, "{}", written.text());
    assert_eq!(written.json()["status"], made["status"]);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let printed = system.accept(&format!("{at}/team"), table).await?.json();
    assert_eq!(
        printed["rows"][0]["cells"],
        json!(["team", "False", "Info", "Reconciling", ""])
    );
    Ok(())
}
