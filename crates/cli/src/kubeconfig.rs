//! Reading and writing of kubeconfigs.

mod environment;
pub mod load;
pub mod merge;
mod ordered;
mod source;
#[cfg(test)]
mod tests;
pub mod user_file;

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
    NamedExtension,
};
use pem::{EncodeConfig, LineEnding, Pem};
use serde_json::json;

pub use self::source::Source;
use crate::failure::Failure;
use crate::output;
use crate::pki::Identity;
use crate::private_file;

/// How a server's certificate is verified.
#[derive(Clone, Debug, PartialEq)]
pub enum Trust {
    /// With these CAs, in PEM.
    Authorities(String),
    /// With the CAs of the machine.
    System,
    /// Not at all: `insecure-skip-tls-verify`.
    Insecure,
}

impl Trust {
    /// Returns how a client verifies the server's certificate.
    pub fn of(config: &Config) -> Self {
        match &config.root_cert {
            _ if config.accept_invalid_certs => Self::Insecure,
            None => Self::System,
            Some(roots) => {
                let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
                let pem = |der: &Vec<u8>| Pem::new("CERTIFICATE", der.clone());
                let roots: Vec<_> = roots.iter().map(pem).collect();
                Self::Authorities(pem::encode_many_config(&roots, lines))
            }
        }
    }
}

/// The content of a new kubeconfig.
pub struct Entry<'a> {
    /// The server URL.
    pub server: &'a str,
    /// How its certificate is verified.
    pub trust: &'a Trust,
    /// The client certificate.
    pub identity: &'a Identity,
    /// The name of the cluster.
    pub cluster: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// The name of the context.
    pub context: &'a str,
    /// When the client certificate expires, for kubeconfigs that are not renewed.
    pub expires: Option<Timestamp>,
}

/// The extension of a user with the expiration of its credential, which kubectl keeps and shows.
const CREDENTIAL: &str = "insula.dev/credential";

/// Encodes a kubeconfig. Fields are in alphabetical order, as kubectl writes them.
pub fn to_yaml(kubeconfig: &Kubeconfig) -> Result<String, Failure> {
    let file = serde_json::to_value(kubeconfig);
    output::yaml(&file.map_err(|error| Failure::new("cannot write a kubeconfig", error))?)
}

impl Entry<'_> {
    /// Encodes a kubeconfig with one context and inline data.
    pub fn to_yaml(&self) -> Result<String, Failure> {
        to_yaml(&self.kubeconfig())
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

    /// Returns the kubeconfig.
    pub fn kubeconfig(&self) -> Kubeconfig {
        let extension = |expires: Timestamp| NamedExtension {
            name: CREDENTIAL.to_owned(),
            extension: json!({ "expires": expires.to_string() }),
        };
        let user = AuthInfo {
            extensions: self.expires.map(|expires| vec![extension(expires)]),
            client_certificate_data: Some(BASE64_STANDARD.encode(&self.identity.certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(self.identity.key.reveal()).into()),
            ..AuthInfo::default()
        };
        let context = Context {
            cluster: self.cluster.to_owned(),
            user: Some(self.user.to_owned()),
            ..Context::default()
        };
        Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            clusters: vec![NamedCluster {
                name: self.cluster.to_owned(),
                cluster: Some(self.cluster()),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: self.user.to_owned(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: self.context.to_owned(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(self.context.to_owned()),
            ..Kubeconfig::default()
        }
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster {
            server: Some(self.server.to_owned()),
            ..Cluster::default()
        };
        match self.trust {
            Trust::Authorities(pem) => {
                cluster.certificate_authority_data = Some(BASE64_STANDARD.encode(pem));
            }
            Trust::System => {}
            Trust::Insecure => cluster.insecure_skip_tls_verify = Some(true),
        }
        cluster
    }
}
