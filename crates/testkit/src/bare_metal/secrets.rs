//! The Secrets of a host.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::SHA256;
use serde_json::{Value, json};

use super::knobs::{ErrorType, Problem};
use super::{DIGESTS, ENVIRONMENT, SECRET_FINALIZER};
use crate::server::Client;

/// What a host was provisioned with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostData {
    /// The user data, if its spec names a Secret.
    pub user_data: Option<String>,
    /// The metadata, if its spec names a Secret.
    pub meta_data: Option<String>,
    /// The network data, if its spec names a Secret and that has some.
    pub network_data: Option<String>,
}

impl HostData {
    /// Returns the annotations with the digests; null where there is no data.
    pub(super) fn annotations(&self) -> Value {
        let [user, meta, network] = DIGESTS;
        let digest = |data: &Option<String>| data.as_deref().map(digest);
        json!({
            user: digest(&self.user_data),
            meta: digest(&self.meta_data),
            network: digest(&self.network_data),
        })
    }
}

/// Returns the SHA-256 of a text in hexadecimal digits.
pub fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&SHA256, text.as_bytes());
    let bytes = digest.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Why data cannot be read.
pub(super) enum Failure {
    /// The host cannot be provisioned with it.
    Problem(Problem),
    /// A request failed.
    Request(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Request(error)
    }
}

/// Reads the user data, metadata and network data of a host, from its own namespace.
pub(super) async fn read(client: &Client, host: &Value) -> Result<HostData, Failure> {
    let user_data = content(client, host, "userData").await?;
    let meta_data = content(client, host, "metaData").await?;
    let network_data = content(client, host, "networkData").await?;
    Ok(HostData {
        user_data,
        meta_data,
        network_data,
    })
}

/// Reads the content that a field of the spec names. A Secret without network data is tolerated.
async fn content(client: &Client, host: &Value, field: &str) -> Result<Option<String>, Failure> {
    let Some(name) = host["spec"][field]["name"].as_str() else {
        return Ok(None);
    };
    let problem = |message: String| {
        let kind = ErrorType::Provisioning;
        Failure::Problem(Problem { kind, message })
    };
    let Some(secret) = get(client, host, name).await? else {
        let message = format!("spec.{field}: Secret {name} does not exist");
        return Err(problem(message));
    };
    let data = &secret["data"];
    let mut keys = [field, "value"].into_iter();
    let encoded = keys.find_map(|key| data[key].as_str());
    let Some(encoded) = encoded else {
        return match field {
            "networkData" => Ok(None),
            _ => Err(problem(format!(
                "spec.{field}: Secret {name} has neither {field} nor value"
            ))),
        };
    };
    let bytes = STANDARD.decode(encoded).map_err(anyhow::Error::from)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Checks the credentials of a host's management controller.
pub(super) async fn controller(client: &Client, host: &Value) -> Result<(), Failure> {
    let problem = |message: String| {
        let kind = ErrorType::Registration;
        Failure::Problem(Problem { kind, message })
    };
    let name = &host["spec"]["bmc"]["credentialsName"];
    let name = name.as_str().unwrap_or_default();
    let secret = match name {
        "" => None,
        name => get(client, host, name).await?,
    };
    let Some(secret) = secret else {
        return Err(problem(format!("spec.bmc: Secret {name} does not exist")));
    };
    for key in ["username", "password"] {
        if secret["data"][key].as_str().is_none_or(str::is_empty) {
            return Err(problem(format!("spec.bmc: Secret {name} lacks {key}")));
        }
    }
    Ok(own(client, host, &secret).await?)
}

/// Makes a host an owner of the credentials of its management controller, and keeps them with a
/// finalizer.
async fn own(client: &Client, host: &Value, secret: &Value) -> anyhow::Result<()> {
    let (host, metadata) = (&host["metadata"], &secret["metadata"]);
    let list = |field: &str| metadata[field].as_array().cloned().unwrap_or_default();
    let (mut owners, mut finalizers) = (list("ownerReferences"), list("finalizers"));
    if !owners.iter().any(|owner| owner["uid"] == host["uid"]) {
        owners.push(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "name": host["name"], "uid": host["uid"],
        }));
    }
    if !finalizers.iter().any(|one| one == SECRET_FINALIZER) {
        finalizers.push(SECRET_FINALIZER.into());
    }
    change(
        client,
        secret,
        json!({"ownerReferences": owners, "finalizers": finalizers}),
    )
    .await
}

/// Removes the finalizer from the credentials of a host that is deleted.
pub(super) async fn release(client: &Client, host: &Value) -> anyhow::Result<()> {
    let name = &host["spec"]["bmc"]["credentialsName"];
    let secret = match name.as_str().unwrap_or_default() {
        "" => None,
        name => get(client, host, name).await?,
    };
    let Some(secret) = secret else {
        return Ok(());
    };
    let finalizers = secret["metadata"]["finalizers"].as_array();
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    finalizers.retain(|one| one != SECRET_FINALIZER);
    change(client, &secret, json!({"finalizers": finalizers})).await
}

/// Writes fields of a Secret's metadata that differ.
async fn change(client: &Client, secret: &Value, metadata: Value) -> anyhow::Result<()> {
    let found = &secret["metadata"];
    let fields = metadata.as_object().into_iter().flatten();
    let is_same = |(name, value): (&String, &Value)| {
        found[name] == *value || (found[name].is_null() && *value == json!([]))
    };
    if fields.into_iter().all(is_same) {
        return Ok(());
    }
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let changed = client
        .patch(&path, "merge", &json!({ "metadata": metadata }))
        .await?;
    // It may have been deleted meanwhile.
    anyhow::ensure!(
        matches!(changed.status, 200 | 404),
        "{path}: {}",
        changed.text()
    );
    Ok(())
}

/// Reads a Secret next to a host, and labels it.
async fn get(client: &Client, host: &Value, name: &str) -> anyhow::Result<Option<Value>> {
    let namespace = host["metadata"]["namespace"].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let found = client.get(&path).await?;
    if found.status == 404 {
        return Ok(None);
    }
    anyhow::ensure!(found.status == 200, "{path}: {}", found.text());
    let secret = found.json();
    let (label, value) = ENVIRONMENT;
    if secret["metadata"]["labels"][label] != value {
        let patch = json!({"metadata": {"labels": {label: value}}});
        let labelled = client.patch(&path, "merge", &patch).await?;
        anyhow::ensure!(labelled.status == 200, "{path}: {}", labelled.text());
    }
    Ok(Some(secret))
}
