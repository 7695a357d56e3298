//! The kinds that Submariner's operator reads. Where it is not installed yet, definitions
//! without a schema are created in their place.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::Error;
use crate::mode;

const GROUP: &str = "submariner.io";
const VERSION: &str = "v1alpha1";
/// Plural, singular, kind.
const KINDS: [[&str; 3]; 2] = [
    ["submariners", "submariner", "Submariner"],
    ["servicediscoveries", "servicediscovery", "ServiceDiscovery"],
];
/// How long a server may take to serve an installed kind.
const SERVE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Ensures that the cluster serves the kinds. Existing definitions stay unchanged.
pub(super) async fn ensure(joining: &Client) -> Result<(), Error> {
    let missing = missing(joining).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(joining.clone());
    for [plural, singular, kind] in missing {
        let name = format!("{plural}.{GROUP}");
        let failed = || Error::when(format!("install the definition {name}"));
        let wanted = serde_json::from_value(definition(plural, singular, kind));
        let wanted = wanted.map_err(|error| failed()(kube::Error::SerdeError(error)))?;
        match definitions.create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made.map_err(failed())?),
        }
    }
    await_served(joining).await
}

async fn await_served(joining: &Client) -> Result<(), Error> {
    let deadline = Instant::now() + SERVE_TIMEOUT;
    loop {
        let missing = missing(joining).await?;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names = missing
                .iter()
                .map(|[plural, ..]| format!("{plural}.{GROUP}"));
            return Err(Error::NotServed(names.collect()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the kinds that the cluster does not serve.
async fn missing(joining: &Client) -> Result<Vec<[&'static str; 3]>, Error> {
    let served = mode::served(joining, &format!("{GROUP}/{VERSION}")).await?;
    let missing = KINDS
        .into_iter()
        .filter(|[plural, ..]| !served.contains(*plural));
    Ok(missing.collect())
}

fn definition(plural: &str, singular: &str, kind: &str) -> Value {
    let any_object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": plural, "singular": singular,
                "kind": kind, "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": any_object,
                        "status": any_object,
                    },
                }},
            }],
        },
    })
}
