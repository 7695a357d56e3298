//! Labels of a host that become labels of its node.
//!
//! The cluster lists the prefixes. The labels of the host come from another party, the
//! administrator of hosts: a label that Kubernetes or Cluster API gives a meaning could draw
//! workload to the node that must not run there, or make it another machine's. So no prefix of
//! theirs is used, even if the cluster lists it. Only labels that were copied are removed again: the
//! node has their names in an annotation.

use std::collections::{BTreeMap, BTreeSet};

use insula_operator::read::is_valid_name;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::names::{LABEL_SYNC_PREFIXES, NODE_UUID, SYNCED_LABELS};

/// The domains of prefixes that are not used, with all below them.
const RESERVED: [&str; 3] = ["kubernetes.io", "k8s.io", "x-k8s.io"];
/// How many prefixes that are not used are named: a condition has a maximum length.
const MAX_NAMED: usize = 5;
/// How many characters of a text that is no prefix are shown.
const MAX_SHOWN: usize = 80;
/// The maximum length of a label's value, and of its name without the prefix.
const MAX_LENGTH: usize = 63;

/// The prefixes of labels that are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncedPrefixes(BTreeSet<String>);

/// Why a prefix is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrefix {
    /// It is no DNS name.
    #[error("annotation {LABEL_SYNC_PREFIXES}: {0:?} is no DNS name, and is not used")]
    Form(String),
    /// It is that of labels with a meaning.
    #[error(
        "annotation {LABEL_SYNC_PREFIXES}: labels with the prefix {0} have a meaning in \
         Kubernetes or Cluster API, and are not copied from hosts"
    )]
    Reserved(String),
}

impl SyncedPrefixes {
    /// Parses the annotation of a cluster: names with commas between them. The others are used if
    /// some are invalid.
    pub fn parse(text: &str) -> (Self, Vec<InvalidPrefix>) {
        let (mut prefixes, mut problems) = (BTreeSet::new(), Vec::new());
        for prefix in text.split(',').map(str::trim) {
            match prefix {
                "" => {}
                _ if !is_valid_name(prefix) => {
                    let shown = prefix.chars().take(MAX_SHOWN).collect();
                    problems.push(InvalidPrefix::Form(shown));
                }
                _ if is_reserved(prefix) => {
                    problems.push(InvalidPrefix::Reserved(prefix.to_owned()));
                }
                _ => drop(prefixes.insert(prefix.to_owned())),
            }
        }
        (Self(prefixes), problems)
    }

    /// Returns sentences about the prefixes in an annotation that are not used.
    pub fn warnings(text: &str) -> Vec<String> {
        let (_, problems) = Self::parse(text);
        let named = problems.iter().take(MAX_NAMED).map(ToString::to_string);
        let mut warnings: Vec<_> = named.collect();
        let more = problems.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            let more = format!("annotation {LABEL_SYNC_PREFIXES}: {more} more are not used");
            warnings.push(more);
        }
        warnings
    }

    /// Returns the labels of a host that its node gets. The server of the hosts may be any, so
    /// they are checked.
    fn select<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        labels.iter().filter(|(key, value)| {
            let Some((prefix, name)) = key.split_once('/') else {
                return false;
            };
            let is_valid = !name.is_empty() && is_valid_text(name) && is_valid_text(value);
            self.0.contains(prefix) && is_valid && *key != NODE_UUID
        })
    }
}

/// Returns the merge patch of the metadata of a node that brings its labels in line with those of
/// its host; none if they are.
pub fn changes(
    prefixes: &SyncedPrefixes,
    host: &BTreeMap<String, String>,
    node: &Node,
) -> Option<Value> {
    let wanted: BTreeMap<_, _> = prefixes.select(host).collect();
    let found = node.labels();
    let mut labels = Map::new();
    for (key, value) in &wanted {
        if found.get(*key) != Some(*value) {
            labels.insert((*key).clone(), json!(value));
        }
    }
    let recorded = node.annotations().get(SYNCED_LABELS);
    let copied = recorded.map(String::as_str).unwrap_or_default().split(',');
    // A kubelet can write the record, and must not have labels removed that it may not write.
    let copied = copied.filter(|key| {
        let prefix = key.split_once('/').map(|(prefix, _)| prefix);
        prefix.is_some_and(|prefix| !is_reserved(prefix)) && *key != NODE_UUID
    });
    for key in copied {
        let is_gone = !wanted.keys().any(|wanted| *wanted == key);
        if is_gone && found.contains_key(key) {
            labels.insert(key.to_owned(), Value::Null);
        }
    }
    let record: Vec<_> = wanted.keys().map(|key| key.as_str()).collect();
    let record = (!record.is_empty()).then(|| record.join(","));
    if labels.is_empty() && record.as_ref() == recorded {
        return None;
    }
    Some(json!({"labels": labels, "annotations": { SYNCED_LABELS: record }}))
}

fn is_reserved(prefix: &str) -> bool {
    RESERVED.iter().any(|domain| {
        let rest = prefix.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Returns whether a text can be a label's value, or its name without the prefix.
fn is_valid_text(text: &str) -> bool {
    let is_inner = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_' | b'.');
    let is_outer = |one: Option<&u8>| one.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_LENGTH
        && bytes.iter().copied().all(is_inner)
        && is_outer(bytes.first())
        && is_outer(bytes.last())
}
