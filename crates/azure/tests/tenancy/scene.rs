//! Resource groups, and the clients behind the requests for them.

use std::collections::{BTreeMap, BTreeSet};

use insula_testkit::azure::FakeAzure;
use serde_json::{Value, json};

use crate::world::{Running, Space, World, credential, eventually, subscription};

/// The annotation with the operator of an object, as the design document names it.
pub const OPERATOR: &str = "azure.microsoft.com/operator-namespace";
/// The annotation that names the Secret with the credential of an object.
pub const CREDENTIAL_FROM: &str = "serviceoperator.azure.com/credential-from";
/// The annotation that allows a credential of a wider scope.
pub const ALLOW_WIDER: &str = "azure.insula.dev/allow-wider-credential";
/// The finalizer of resources.
pub const FINALIZER: &str = "serviceoperator.azure.com/finalizer";
/// The finalizer of Secrets in use.
pub const IN_USE: &str = "serviceoperator.azure.com/credential-in-use";

/// Returns a resource group.
pub fn group(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"location": "westus2"},
    })
}

/// Returns a resource group with an annotation.
pub fn annotated(namespace: &str, name: &str, annotation: (&str, &str)) -> Value {
    let mut group = group(namespace, name);
    group["metadata"]["annotations"] = json!({annotation.0: annotation.1});
    group
}

/// Returns the ARM id of a resource group in the subscription of a team.
pub fn id(team: &str, name: &str) -> String {
    format!(
        "/subscriptions/{}/resourceGroups/{name}",
        subscription(team)
    )
}

/// Returns a Secret by name, for reads, patches and deletions.
pub fn secret(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
    })
}

/// Returns a namespace by name, for patches and deletions.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Runs an operator with the credential of a team, for these namespaces or for all.
pub async fn run_for(
    world: &World,
    operator: &str,
    team: &str,
    targets: &str,
) -> anyhow::Result<Running> {
    let own = credential(team);
    let mut settings: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    settings.push(("AZURE_TARGET_NAMESPACES", targets));
    world.run(operator, &settings).await
}

/// Returns the clients behind the requests to each subscription.
pub fn clients(azure: &FakeAzure) -> BTreeMap<String, BTreeSet<String>> {
    let mut clients = BTreeMap::<_, BTreeSet<_>>::new();
    for call in azure.requests() {
        let subscription = call.path.split('/').nth(2).unwrap_or_default().to_owned();
        let client = call.caller.map(|caller| caller.client).unwrap_or_default();
        clients.entry(subscription).or_default().insert(client);
    }
    clients
}

/// Returns the clients that sent a method for a resource, one for each request.
pub fn senders(azure: &FakeAzure, method: &str, id: &str) -> Vec<String> {
    let calls = azure.requests_for(method, id).into_iter();
    calls
        .map(|call| call.caller.map(|caller| caller.client).unwrap_or_default())
        .collect()
}

/// Waits until an object has a condition of this type, and returns its message.
pub async fn await_condition(
    space: &Space,
    object: &Value,
    of_type: &str,
) -> anyhow::Result<String> {
    eventually(of_type, async || {
        let found = space.read(object).await?;
        Ok(found.and_then(|found| condition(&found, of_type)))
    })
    .await
}

/// Returns the message of a condition.
pub fn condition(object: &Value, of_type: &str) -> Option<String> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == of_type)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

/// Replaces the contents of a Secret by the credential of a team.
pub async fn rotate(
    world: &World,
    namespace: &str,
    name: &str,
    values: &[(&str, String)],
) -> anyhow::Result<()> {
    let texts: serde_json::Map<_, _> = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_str().into()))
        .collect();
    let patch = json!({"data": null, "stringData": texts});
    world.patch(&secret(namespace, name), patch).await
}
