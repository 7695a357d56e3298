//! What a move can be told.

use std::time::Duration;

/// How a move is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace whose clusters are moved.
    pub namespace: String,
    /// The only cluster to move, if not all.
    pub cluster: Option<String>,
    /// Whether the identities that moved clusters name go with them.
    pub identities: Identities,
    /// Where Secrets of identities are.
    pub provider_namespaces: Vec<String>,
    /// Whether the namespace at the target gets the labels of the one at the source.
    pub namespace_labels: NamespaceLabels,
    /// Whether controllers have to say that they have paused.
    pub pauses: Pauses,
    /// How long somebody else may take: controllers that pause, objects that block a move.
    pub patience: Duration,
    /// How often it is looked whether they are done.
    pub look: Duration,
}

impl Settings {
    /// All clusters of a namespace, with their identities.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            cluster: None,
            identities: Identities::Carry,
            provider_namespaces: vec!["capv-system".to_owned()],
            namespace_labels: NamespaceLabels::Leave,
            pauses: Pauses::Confirmed,
            patience: Duration::from_secs(120),
            look: Duration::from_millis(500),
        }
    }
}

/// Whether the identities that moved clusters name go with them, and their Secrets. No other
/// identity ever does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Those that the target does not have are made there; none is deleted at the source.
    Carry,
    /// Neither identities nor their Secrets are read.
    Leave,
}

/// Whether the namespace at the target gets the labels of the one at the source. Identities
/// let namespaces in by their labels, so that who labels grants rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceLabels {
    /// It has what it has.
    Leave,
    /// It gets those that it does not have.
    Copy,
}

/// Whether controllers have to say that they have paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pauses {
    /// Every object whose controller says whether it has paused has to say so.
    Confirmed,
    /// Nobody is asked: no controller runs at the source.
    Assumed,
}
