//! The file `broker-info.subm`: the address of a broker and the credentials to join it.
//!
//! The format is Submariner's, with one additional field: the namespace. Submariner's own
//! programs since 0.9 read these files, which are byte for byte what they would write; files
//! of theirs, and files edited with `base64` and `jq`, are read here.

mod decode;
mod encode;
mod join_info;
mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;

pub use join_info::JoinInfo;
pub use save::{Saved, check, save, unique_name};

/// The default file name.
pub const FILE: &str = "broker-info.subm";

/// The maximum file size. Real files have a few kilobytes, mostly certificates.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The content of a `broker-info.subm`. A *partial* file, as tenants receive it, is enough to
/// deploy the broker; a complete one lets clusters join.
#[derive(Clone, Default, PartialEq)]
pub struct BrokerInfo {
    /// The API URL of the broker's cluster; empty if the file has none.
    pub url: String,
    /// The Secret with the token of the broker's administrator.
    pub client_token: Option<Secret>,
    /// The Secret with the pre-shared key; absent in a partial file.
    pub ipsec_psk: Option<Secret>,
    /// The components of the ClusterSet; empty in a partial file.
    pub components: BTreeSet<String>,
    /// Domains that are resolved across clusters, in addition to the default one.
    pub custom_domains: Vec<String>,
    /// The broker's namespace, if the file has the field; see [`BrokerInfo::namespace`].
    pub namespace: Option<String>,
}

impl BrokerInfo {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is too large, or is malformed.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_bounded(path)?;
        decode::decode(&text).map_err(|problem| Error::Malformed {
            path: Some(path.to_owned()),
            problem,
        })
    }

    /// Decodes the text of a file.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(text: &str) -> Result<Self, Error> {
        decode::decode(text.as_bytes()).map_err(|problem| Error::Malformed {
            path: None,
            problem,
        })
    }

    /// Encodes the text of the file. Of the Secrets it keeps name, labels, annotations, data
    /// and type.
    pub fn encode(&self) -> String {
        encode::encode(self)
    }

    /// Returns the broker's namespace: the field of the file, else the token's.
    ///
    /// # Errors
    ///
    /// If they differ, since other programs would use the token's; or if it is not a valid
    /// name.
    pub fn namespace(&self) -> Result<Option<String>, Error> {
        let named = self.namespace.as_deref().filter(|name| !name.is_empty());
        let named = named.map(str::as_bytes).map(namespace_name).transpose()?;
        let of_token = non_empty_value(self.client_token.as_ref(), "namespace");
        let of_token = of_token.map(namespace_name).transpose()?;
        match (named, of_token) {
            (Some(named), Some(of_token)) if named != of_token => Err(Error::Inconsistent {
                named: named.to_owned(),
                of_token: of_token.to_owned(),
            }),
            (named, of_token) => Ok(named.or(of_token).map(str::to_owned)),
        }
    }

    /// Returns what a cluster needs to join.
    ///
    /// # Errors
    ///
    /// If anything is missing, as in a partial file; `path` is for the message.
    pub fn for_join(&self, path: &Path) -> Result<JoinInfo, Error> {
        join_info::complete(self, path)
    }
}

/// Shows names only, never the content of the Secrets.
impl fmt::Debug for BrokerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |secret: &Option<Secret>| {
            let secret = secret.as_ref()?;
            Some(secret.metadata.name.clone().unwrap_or_default())
        };
        f.debug_struct("BrokerInfo")
            .field("url", &self.url)
            .field("client_token", &name(&self.client_token))
            .field("ipsec_psk", &name(&self.ipsec_psk))
            .field("components", &self.components)
            .field("custom_domains", &self.custom_domains)
            .field("namespace", &self.namespace)
            .finish()
    }
}

/// An error of reading, decoding or writing a file. Messages contain nothing of the file but
/// namespace names.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("error reading file {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file is too large to be a broker info.
    #[error("error reading file {path:?}: it has more than {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The content is malformed.
    #[error("error decoding data{}: {problem}", from_file(path.as_deref()))]
    Malformed {
        /// The file, if it was read from one.
        path: Option<PathBuf>,
        /// The problem.
        problem: Malformed,
    },
    /// The file names two namespaces.
    #[error(
        "broker info file is inconsistent: namespace {named:?} but the client token belongs to {of_token:?}"
    )]
    Inconsistent {
        /// The namespace in the file.
        named: String,
        /// The namespace in the token's Secret.
        of_token: String,
    },
    /// The namespace in the file is not a valid name.
    #[error("broker info file is invalid: its namespace is not a valid name")]
    NotANamespace,
    /// The file is partial.
    #[error("{path:?} is not complete: it has no {}", missing.join(", no "))]
    Partial {
        /// The file.
        path: PathBuf,
        /// The missing fields.
        missing: Vec<&'static str>,
    },
    /// The file cannot be written.
    #[error("cannot {attempted} {path:?}: {source}")]
    Write {
        /// The attempted operation.
        attempted: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Returns the remedy, if known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Read { .. } => return None,
            Self::Write { .. } => "choose another --output-file",
            Self::TooLarge { .. } | Self::Malformed { .. } => {
                "a broker info file is what `subctl deploy broker` or `subctl create tenant` writes"
            }
            Self::Inconsistent { .. } | Self::NotANamespace => {
                "ask for a new file: `subctl get tenant ID --generate_subm`"
            }
            Self::Partial { .. } => "run `subctl deploy broker` first, with --broker-info-from",
        };
        Some(hint.to_owned())
    }
}

/// The problems of a text that is not a broker info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The text is not base64.
    #[error("it is not base64")]
    NotBase64,
    /// The decoded text is not a JSON object.
    #[error("error unmarshalling data: not a JSON object")]
    NotJson,
    /// A field has the wrong type.
    #[error("error unmarshalling data: {field} is not {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A field occurs more than once, maybe in different case, so that its value is ambiguous.
    #[error("error unmarshalling data: duplicate field {field}")]
    Duplicate {
        /// The field.
        field: &'static str,
    },
}

fn from_file(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" from file {path:?}"))
}

/// Reads a file up to the maximum size.
fn read_bounded(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    let mut bounded = file.take(MAX_FILE_BYTES + 1);
    bounded.read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let path = path.to_owned();
        return Err(Error::TooLarge { path });
    }
    Ok(text)
}

/// Returns a value of a Secret, if it is not empty.
fn non_empty_value<'a>(secret: Option<&'a Secret>, key: &str) -> Option<&'a [u8]> {
    let data = secret?.data.as_ref()?;
    let bytes = data.get(key)?.0.as_slice();
    (!bytes.is_empty()).then_some(bytes)
}

/// Validates the name of a namespace, which becomes part of URL paths.
fn namespace_name(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| crate::names::is_label(text))
        .ok_or(Error::NotANamespace)
}
