//! The requirements on a definition.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::internal_form::InternalForm;
use super::pruned;
use super::structural;

/// The requirements on a definition.
#[derive(Clone, Debug)]
pub(super) struct Requirements<'a> {
    /// The webhook accepts a known version of ConversionReview.
    pub known_reviews: bool,
    /// Every version has a schema.
    pub schemas: bool,
    /// Types are OpenAPI types.
    pub valid_types: bool,
    /// Schemas are structural, even if unknown fields are preserved.
    pub structural: bool,
    /// Items of sets are atomic.
    pub atomic_sets: bool,
    /// List-map keys are valid.
    pub valid_keys: bool,
    /// The CA bundle of the webhook is valid.
    pub valid_ca_bundle: bool,
    /// Versions with an unchanged schema, which exempts its rules from cost limits.
    pub unchanged: HashSet<&'a str>,
    /// Versions that keep more selectable fields than the limit.
    pub many_fields: HashSet<&'a str>,
    /// Whether the lifted selectable fields keep exceeding the limit.
    pub many_shared_fields: bool,
    /// The old definition.
    pub before: Option<InternalForm<'a>>,
    /// Whether the old definition has defaults with unspecified fields, computed on first use.
    pub unpruned: OnceCell<bool>,
}

impl<'a> Requirements<'a> {
    /// The requirements on a new definition.
    pub fn new() -> Self {
        Self {
            known_reviews: true,
            schemas: true,
            valid_types: true,
            structural: true,
            atomic_sets: true,
            valid_keys: true,
            // The webhook is not called before the definition is established.
            valid_ca_bundle: false,
            unchanged: HashSet::new(),
            many_fields: HashSet::new(),
            many_shared_fields: false,
            before: None,
            unpruned: OnceCell::new(),
        }
    }

    /// Reports whether defaults must not have unspecified fields.
    pub fn pruned_defaults(&self) -> bool {
        let unpruned = || {
            let mut schemas = self.before.iter().flat_map(InternalForm::schemas);
            schemas.any(|schema| structural::is_structural(schema) && pruned::has_unpruned(schema))
        };
        !*self.unpruned.get_or_init(unpruned)
    }

    /// Reports whether the cost of this version's rules is not limited.
    pub fn any_cost(&self, version: &str) -> bool {
        self.unchanged.contains(version)
    }

    /// Reports whether the version, or the lifted list, is exempt from the limit on selectable
    /// fields.
    pub fn any_fields(&self, version: Option<&str>) -> bool {
        match version {
            Some(version) => self.many_fields.contains(version),
            None => self.many_shared_fields,
        }
    }
}
