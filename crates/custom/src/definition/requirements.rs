//! The requirements on a definition: all of them on a new one, and on an update those that
//! the old definition already met.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use insula_kinds::{Object, Value};

use super::conversion;
use super::defaults;
use super::internal_form::{InternalForm, Shared, same_part};
use super::lists;
use super::openapi;
use super::place::Place;
use super::props::Props;
use super::structural;
use super::version::MAX_SELECTABLE_FIELDS;
use crate::condition::{ESTABLISHED, holds};

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
    unchanged: HashSet<&'a str>,
    /// Versions that keep more selectable fields than the limit.
    many_fields: HashSet<&'a str>,
    /// Whether the lifted selectable fields keep exceeding the limit.
    many_shared_fields: bool,
    /// The old definition.
    before: Option<InternalForm<'a>>,
    /// Whether the old definition has defaults with unspecified fields, computed on first use.
    unpruned: OnceCell<bool>,
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

    /// The requirements on an update of `old`.
    pub fn for_update(old: &'a Object, new: &InternalForm<'a>) -> Self {
        let before = InternalForm::of(old);
        let bad_type = |schema: Props<'_>| {
            let kind = schema.text("type");
            !kind.is_empty() && !openapi::is_type(kind)
        };
        let versions = Versions::of(&before);
        Self {
            known_reviews: conversion::has_known_review(before.spec),
            schemas: before.schemas_are_complete(),
            valid_types: !before.any_schema(bad_type),
            structural: !new.preserves_unknown() || before.schemas().all(is_structural),
            atomic_sets: !before.any_schema(lists::has_loose_set),
            valid_keys: !before.any_schema(lists::has_invalid_keys),
            valid_ca_bundle: holds(old, ESTABLISHED)
                && !conversion::has_invalid_ca_bundle(before.spec),
            unchanged: versions.unchanged(new),
            many_fields: versions.with_many_fields(new),
            many_shared_fields: {
                let fields = before.top(Shared::SelectableFields);
                many(fields) && same_part(fields, new.top(Shared::SelectableFields))
            },
            before: Some(before),
            unpruned: OnceCell::new(),
        }
    }

    /// Reports whether defaults must not have unspecified fields.
    pub fn pruned_defaults(&self) -> bool {
        let unpruned = || {
            let mut schemas = self.before.iter().flat_map(InternalForm::schemas);
            schemas.any(|schema| is_structural(schema) && defaults::has_unpruned(schema))
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

/// The old versions by name.
struct Versions<'a, 'f> {
    form: &'f InternalForm<'a>,
    by_name: HashMap<&'a str, Props<'a>>,
}

impl<'a, 'f> Versions<'a, 'f> {
    fn of(form: &'f InternalForm<'a>) -> Self {
        let versions = form.versions().map(|version| version.raw);
        Self {
            form,
            by_name: versions.map(|raw| (raw.text("name"), raw)).collect(),
        }
    }

    fn unchanged(&self, new: &InternalForm<'a>) -> HashSet<&'a str> {
        let schema = Shared::Schema.name();
        let same = |version: &Props<'a>| match self.by_name.get(version.text("name")) {
            Some(before) => same_part(before.get(schema), version.get(schema)),
            // A new version with the schema that all old ones shared counts as unchanged.
            None => self.form.validation().is_some_and(|_| {
                let before = self.form.top(Shared::Schema);
                same_part(before, version.get(schema))
            }),
        };
        let versions = new.versions().map(|version| version.raw);
        versions.filter(same).map(|raw| raw.text("name")).collect()
    }

    fn with_many_fields(&self, new: &InternalForm<'a>) -> HashSet<&'a str> {
        let fields = Shared::SelectableFields.name();
        let had_many = |version: &Props<'a>| {
            let before = self.by_name.get(version.text("name"));
            before.is_some_and(|before| {
                many(before.get(fields)) && same_part(before.get(fields), version.get(fields))
            })
        };
        let versions = new.versions().map(|version| version.raw);
        versions
            .filter(had_many)
            .map(|raw| raw.text("name"))
            .collect()
    }
}

fn many(fields: Option<&Value>) -> bool {
    fields
        .and_then(Value::as_array)
        .is_some_and(|fields| fields.len() > MAX_SELECTABLE_FIELDS)
}

fn is_structural(schema: Props<'_>) -> bool {
    structural::unsupported(schema).is_none()
        && structural::validate(schema, Place::root("")).is_empty()
}
