//! The namespaces that an operator watches.

use std::fmt;

use super::reader::Reader;

/// The name of the setting.
pub const TARGET_NAMESPACES: &str = "AZURE_TARGET_NAMESPACES";

/// The length limit of DNS-1123 labels.
const MAX_LABEL_LENGTH: usize = 63;

/// The namespaces that an operator watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetNamespaces {
    /// All namespaces.
    All,
    /// These namespaces, at least one and each once, in the order of the setting.
    Only(Vec<String>),
}

impl TargetNamespaces {
    /// Returns whether objects of this namespace are watched.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|name| name == namespace),
        }
    }

    /// Reads the setting. Empty items are dropped: to an API server an empty namespace means all
    /// of them, so that a trailing comma would widen the operator to the whole cluster.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let Some(text) = reader.text(TARGET_NAMESPACES) else {
            return Self::All;
        };
        let names = reader.list(TARGET_NAMESPACES);
        if names.is_empty() {
            reader.problem(
                TARGET_NAMESPACES,
                "expected names of namespaces separated by commas, or no value for all namespaces",
            );
        }
        let empty = text.split(',').filter(|item| item.trim().is_empty());
        let empty = empty.count();
        if empty > 0 && !names.is_empty() {
            reader.warn(format!(
                "{TARGET_NAMESPACES} has {empty} empty items, which are ignored"
            ));
        }
        for name in names.iter().filter(|name| !is_dns_label(name)) {
            reader.problem(
                TARGET_NAMESPACES,
                format!(
                    "{name:?} is no name of a namespace: expected at most {MAX_LABEL_LENGTH} \
                     characters of a-z, 0-9 and -, with a letter or digit at both ends"
                ),
            );
        }
        Self::Only(names)
    }
}

impl fmt::Display for TargetNamespaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all"),
            Self::Only(names) => out.write_str(&names.join(",")),
        }
    }
}

/// Returns whether a text is a DNS-1123 label.
pub(super) fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=MAX_LABEL_LENGTH).contains(&text.len())
        && text.chars().all(|it| alphanumeric(it) || it == '-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
