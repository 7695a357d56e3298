//! The options of a move.

use std::time::Duration;

use insula_capi::relocation::{MoveRules, identity_namespaces};

/// The options of a move.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace with the clusters to move.
    pub namespace: String,
    /// The only cluster to move, if not all.
    pub cluster: Option<String>,
    /// Whether the identities that moved clusters reference are copied.
    pub identities: Identities,
    /// The rules of all providers.
    pub providers: &'static [&'static dyn MoveRules],
    /// The namespaces with the Secrets of identities; by default those of the providers.
    pub provider_namespaces: Vec<String>,
    /// Whether the namespace at the target gets the labels of the one at the source.
    pub namespace_labels: NamespaceLabels,
    /// Whether controllers have to confirm that they have paused.
    pub pauses: Pauses,
    /// How long controllers may take to pause, and objects may block the move.
    pub timeout: Duration,
    /// How often the source is checked while the move waits.
    pub poll_interval: Duration,
}

impl Settings {
    /// Returns the options for all clusters of a namespace, with their identities.
    pub fn new(namespace: impl Into<String>, providers: &'static [&'static dyn MoveRules]) -> Self {
        Self {
            namespace: namespace.into(),
            cluster: None,
            identities: Identities::Carry,
            providers,
            provider_namespaces: identity_namespaces(providers),
            namespace_labels: NamespaceLabels::Leave,
            pauses: Pauses::Confirmed,
            timeout: Duration::from_secs(120),
            poll_interval: Duration::from_millis(500),
        }
    }
}

/// Whether the identities that moved clusters reference, and their Secrets, are copied. No other
/// identity ever is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Those that the target lacks are created there; none is deleted at the source.
    Carry,
    /// Neither identities nor their Secrets are read.
    Leave,
}

/// Whether the namespace at the target gets the labels of the one at the source. Identities
/// select namespaces by labels, so a label can grant access to credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceLabels {
    /// Its labels stay as they are.
    Leave,
    /// It gets the labels that it lacks.
    Copy,
}

/// Whether controllers have to confirm that they have paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pauses {
    /// Every object with a `Paused` condition has to have it true.
    Confirmed,
    /// The condition is not checked: no controller runs at the source.
    Assumed,
}
