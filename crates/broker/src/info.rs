//! The file `broker-info.subm`: where a broker is, and what lets a cluster join it.
//!
//! The format is Submariner's, with one more field: the namespace. What we write, its
//! programs of all versions since 0.9 read, byte for byte as they would write it; what they
//! write, and what people make of it with `base64` and `jq`, we read.

mod complete;
mod decode;
mod encode;
mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;

pub use complete::ForJoin;
pub(crate) use encode::escaped;
pub use save::{Saved, check, save, unique_name};

/// What the file is called unless somebody says otherwise.
pub const FILE: &str = "broker-info.subm";

/// Real files have a few kilobytes, mostly certificates.
const LARGEST: u64 = 4 << 20;

/// What a `broker-info.subm` says. A *partial* one, as tenants are given it, lets somebody
/// deploy the broker; a complete one lets clusters join.
#[derive(Clone, Default, PartialEq)]
pub struct BrokerInfo {
    /// Where the API of the broker's cluster is; empty if the file does not say.
    pub url: String,
    /// The Secret with the token of the broker's administrator.
    pub client_token: Option<Secret>,
    /// The Secret with the pre-shared key; without one in a partial file.
    pub ipsec_psk: Option<Secret>,
    /// What the ClusterSet is for; nothing in a partial file.
    pub components: BTreeSet<String>,
    /// Domains that are resolved across clusters, beside the usual one.
    pub custom_domains: Vec<String>,
    /// The broker's namespace, where the file says so itself; see [`BrokerInfo::namespace`].
    pub namespace: Option<String>,
}

impl BrokerInfo {
    /// What the file at this path says.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is too large for what it should be, or says something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = contents(path)?;
        decode::decode(&text).map_err(|problem| Error::Malformed {
            path: Some(path.to_owned()),
            problem,
        })
    }

    /// What the text of a file says.
    ///
    /// # Errors
    ///
    /// If it is not one.
    pub fn decode(text: &str) -> Result<Self, Error> {
        decode::decode(text.as_bytes()).map_err(|problem| Error::Malformed {
            path: None,
            problem,
        })
    }

    /// The text of the file. Of the Secrets it has what a reader needs: names, the labels and
    /// annotations, the data and the type.
    pub fn encode(&self) -> String {
        encode::encode(self)
    }

    /// The broker's namespace: what the file says, else what the token says.
    ///
    /// # Errors
    ///
    /// If they differ, for other programs would take the token's; or if it is no name.
    pub fn namespace(&self) -> Result<Option<String>, Error> {
        let named = self.namespace.as_deref().filter(|name| !name.is_empty());
        let named = named.map(str::as_bytes).map(label).transpose()?;
        let of_token = datum(self.client_token.as_ref(), "namespace");
        let of_token = of_token.map(label).transpose()?;
        match (named, of_token) {
            (Some(named), Some(of_token)) if named != of_token => Err(Error::Inconsistent {
                named: named.to_owned(),
                of_token: of_token.to_owned(),
            }),
            (named, of_token) => Ok(named.or(of_token).map(str::to_owned)),
        }
    }

    /// What a cluster needs to join.
    ///
    /// # Errors
    ///
    /// If something is missing, as in a partial file; `path` is for the message.
    pub fn for_join(&self, path: &Path) -> Result<ForJoin, Error> {
        complete::complete(self, path)
    }
}

/// Names only: nothing of what is in the Secrets.
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

/// Why a file was not read, understood or written. Nothing of what is in it is repeated but
/// names of namespaces.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("error reading file {path:?}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("error reading file {path:?}: it has more than {} MiB", LARGEST >> 20)]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// It does not say what it should.
    #[error("error decoding data{}: {problem}", of_file(path.as_deref()))]
    Malformed {
        /// Which, if it is a file.
        path: Option<PathBuf>,
        /// What is wrong.
        problem: Malformed,
    },
    /// It names two namespaces.
    #[error(
        "broker info file is inconsistent: namespace {named:?} but the client token belongs to {of_token:?}"
    )]
    Inconsistent {
        /// The one that it says.
        named: String,
        /// The one that the token says.
        of_token: String,
    },
    /// What it names is no namespace.
    #[error("broker info file is wrong: what it names as the namespace is no name of one")]
    NotANamespace,
    /// It says too little to join.
    #[error("{path:?} is not complete: it has no {}", missing.join(", no "))]
    Partial {
        /// Which.
        path: PathBuf,
        /// What it lacks.
        missing: Vec<&'static str>,
    },
    /// It cannot be written.
    #[error("cannot {attempted} {path:?}: {source}")]
    Write {
        /// What was to be done.
        attempted: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// What to do about it, where that is known.
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

/// What is wrong with a text that should be a broker info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is not encoded as it should be.
    #[error("it is not base64")]
    NotBase64,
    /// What is encoded is something else.
    #[error("error unmarshalling data: it is no JSON object")]
    NotJson,
    /// A field is something else.
    #[error("error unmarshalling data: {field} is not {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A field is there more than once, maybe in other letters, so that nobody can say which
    /// is meant.
    #[error("error unmarshalling data: {field} is there twice")]
    Twice {
        /// Which.
        field: &'static str,
    },
}

fn of_file(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" from file {path:?}"))
}

/// What is in a file, unless that is more than there can be.
fn contents(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    let mut bounded = file.take(LARGEST + 1);
    bounded.read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        let path = path.to_owned();
        return Err(Error::TooLarge { path });
    }
    Ok(text)
}

/// What a Secret has under a key, if that is anything.
fn datum<'a>(secret: Option<&'a Secret>, key: &str) -> Option<&'a [u8]> {
    let data = secret?.data.as_ref()?;
    let bytes = data.get(key)?.0.as_slice();
    (!bytes.is_empty()).then_some(bytes)
}

/// The name of a namespace. It becomes a part of paths, so that it must not be anything else.
fn label(bytes: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| crate::names::is_label(text))
        .ok_or(Error::NotANamespace)
}
