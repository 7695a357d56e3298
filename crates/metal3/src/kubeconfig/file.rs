//! The YAML of a kubeconfig.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Budget, Options};

use super::invalid::InvalidKubeconfig;

/// The largest kubeconfig that is parsed: that of a Secret.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum nesting of YAML. A kubeconfig needs six levels; extensions may need more.
const MAX_DEPTH: usize = 32;
/// Maximum number of nodes that aliases may add: a few lines of them must not expand to
/// gigabytes.
const MAX_REPEATED: usize = 1_000;

/// A kubeconfig. It has no `Debug`, because it contains credentials.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct File {
    pub current_context: Option<String>,
    pub contexts: Option<Vec<NamedContext>>,
    pub clusters: Option<Vec<NamedCluster>>,
    pub users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
pub(super) struct NamedContext {
    pub name: String,
    pub context: Option<Context>,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct NamedCluster {
    pub name: String,
    pub cluster: Option<Cluster>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub server: Option<String>,
    pub tls_server_name: Option<String>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub certificate_authority: Option<Value>,
    pub certificate_authority_data: Option<String>,
    pub proxy_url: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct NamedUser {
    pub name: String,
    pub user: Option<User>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
    pub token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub token_file: Option<Value>,
    pub client_certificate: Option<Value>,
    pub client_certificate_data: Option<String>,
    pub client_key: Option<Value>,
    pub client_key_data: Option<String>,
    pub username: Option<String>,
    pub password: Option<String>,
    #[serde(rename = "as")]
    pub impersonate: Option<String>,
    pub as_uid: Option<String>,
    pub as_groups: Option<Vec<String>>,
    pub as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub exec: Option<Value>,
    pub auth_provider: Option<Value>,
}

impl File {
    /// Parses a kubeconfig of one document.
    pub fn parse(text: &str) -> Result<Self, InvalidKubeconfig> {
        // The parser's message may repeat what it could not parse, so it is dropped.
        let parsed = serde_saphyr::from_str_with_options::<Self>(text, options());
        let file = parsed.map_err(|error| match error.without_snippet() {
            serde_saphyr::Error::MultipleDocuments { .. } => InvalidKubeconfig::SeveralDocuments,
            _ => InvalidKubeconfig::NotValid,
        })?;
        for (list, are_distinct) in [
            (
                "contexts",
                are_distinct(file.contexts().map(|one| &*one.name)),
            ),
            (
                "clusters",
                are_distinct(file.clusters().map(|one| &*one.name)),
            ),
            ("users", are_distinct(file.users().map(|one| &*one.name))),
        ] {
            if !are_distinct {
                return Err(InvalidKubeconfig::SameName(list));
            }
        }
        Ok(file)
    }

    pub fn contexts(&self) -> impl Iterator<Item = &NamedContext> {
        self.contexts.iter().flatten()
    }

    pub fn clusters(&self) -> impl Iterator<Item = &NamedCluster> {
        self.clusters.iter().flatten()
    }

    pub fn users(&self) -> impl Iterator<Item = &NamedUser> {
        self.users.iter().flatten()
    }
}

fn are_distinct<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut known = BTreeSet::new();
    names.into_iter().all(|name| known.insert(name))
}

fn options() -> Options {
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MAX_REPEATED;
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits = aliases;
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    options.with_snippet = false;
    options
}
