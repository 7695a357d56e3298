//! Kubeconfigs: what they say, and how they are written.

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

/// A kubeconfig, as far as Insula knows it.
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
    /// What Insula does not do for a user; noted, so that it can be said.
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

/// What a new kubeconfig is to say.
pub struct Entry<'a> {
    /// Where the server is.
    pub server: &'a str,
    /// How it is recognised.
    pub trust: &'a Trust,
    /// What its user shows.
    pub identity: &'a Identity,
    /// What the user is called in it.
    pub user: &'a str,
    /// What the context is called in it.
    pub context: &'a str,
}

/// What the server is called in the kubeconfigs that Insula writes.
const CLUSTER: &str = "insula";

impl Kubeconfig {
    /// With one context, everything inline.
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
            Trust::Anybody => cluster.insecure_skip_tls_verify = true,
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

    /// As it stands in a file.
    pub fn to_yaml(&self) -> Result<String, Failure> {
        output::yaml(self)
    }

    /// Makes sure that a file says this, and leaves it alone if it does.
    pub fn keep_at(&self, path: &Path) -> Result<(), Failure> {
        let wanted = self.to_yaml()?;
        let there = std::fs::read_to_string(path);
        if there.is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        private_file::write(path, &wanted)
    }
}

/// Some programs write `null` where there is nothing.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
