//! Reading and writing of kubeconfigs.

mod connection;
mod source;
#[cfg(test)]
mod tests;

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::connection::{ClientCertificate, Connection, Trust};
pub use self::source::Source;
use crate::failure::Failure;
use crate::output;
use crate::pki::Identity;
use crate::private_file;
use crate::secret::Secret;

/// A kubeconfig, with the fields that Insula uses.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "nullable")]
    clusters: Vec<NamedCluster>,
    #[serde(default, deserialize_with = "nullable")]
    users: Vec<NamedUser>,
    #[serde(default, deserialize_with = "nullable")]
    contexts: Vec<NamedContext>,
    #[serde(default, deserialize_with = "nullable")]
    current_context: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    user: User,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key_data: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Secret>,
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    token_file: Option<String>,
    /// Unsupported credential sources, noted for the error message.
    #[serde(skip_serializing)]
    exec: Option<serde::de::IgnoredAny>,
    #[serde(skip_serializing)]
    auth_provider: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

/// The content of a new kubeconfig.
pub struct Entry<'a> {
    /// The server URL.
    pub server: &'a str,
    /// How its certificate is verified.
    pub trust: &'a Trust,
    /// The client certificate.
    pub identity: &'a Identity,
    /// The name of the user.
    pub user: &'a str,
    /// The name of the context.
    pub context: &'a str,
}

/// The cluster's name in the kubeconfigs that Insula writes.
const CLUSTER: &str = "insula";

impl Kubeconfig {
    /// Builds a kubeconfig with one context and inline data.
    pub fn new(entry: &Entry<'_>) -> Self {
        let mut cluster = Cluster {
            server: entry.server.to_owned(),
            ..Cluster::default()
        };
        match entry.trust {
            Trust::Authorities(pem) => {
                cluster.certificate_authority_data = Some(BASE64_STANDARD.encode(pem));
            }
            Trust::System => {}
            Trust::Insecure => cluster.insecure_skip_tls_verify = true,
        }
        let identity = entry.identity;
        let key = BASE64_STANDARD.encode(identity.key.reveal());
        let user = User {
            client_certificate_data: Some(BASE64_STANDARD.encode(&identity.certificate)),
            client_key_data: Some(Secret::new(key)),
            ..User::default()
        };
        Self {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            clusters: vec![NamedCluster {
                name: CLUSTER.to_owned(),
                cluster,
            }],
            users: vec![NamedUser {
                name: entry.user.to_owned(),
                user,
            }],
            contexts: vec![NamedContext {
                name: entry.context.to_owned(),
                context: Context {
                    cluster: CLUSTER.to_owned(),
                    user: entry.user.to_owned(),
                },
            }],
            current_context: entry.context.to_owned(),
        }
    }

    /// Encodes the file.
    pub fn to_yaml(&self) -> Result<String, Failure> {
        output::yaml(self)
    }

    /// Ensures the content of a file; leaves it alone if it is unchanged.
    pub fn ensure_at(&self, path: &Path) -> Result<(), Failure> {
        let wanted = self.to_yaml()?;
        let there = std::fs::read_to_string(path);
        if there.is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        private_file::write(path, &wanted)
    }
}

/// Accepts `null` for an empty value, as some programs write it.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
