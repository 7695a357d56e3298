//! The requirements on an update: those that the old definition already met.

use std::collections::{HashMap, HashSet};

use insula_kinds::{Object, Value};

use super::conversion;
use super::internal_form::{InternalForm, Shared, same_part};
use super::lists;
use super::openapi;
use super::props::Props;
use super::requirements::Requirements;
use super::structural;
use super::version::MAX_SELECTABLE_FIELDS;
use crate::condition::{ESTABLISHED, holds};

/// The requirements on an update of `old`.
pub(super) fn requirements<'a>(old: &'a Object, new: &InternalForm<'a>) -> Requirements<'a> {
    let before = InternalForm::of(old);
    let bad_type = |schema: Props<'_>| {
        let kind = schema.text("type");
        !kind.is_empty() && !openapi::is_type(kind)
    };
    let versions = Versions::of(&before);
    Requirements {
        known_reviews: conversion::has_known_review(before.spec),
        schemas: before.schemas_are_complete(),
        valid_types: !before.any_schema(bad_type),
        structural: !new.preserves_unknown() || before.schemas().all(structural::is_structural),
        atomic_sets: !before.any_schema(lists::has_loose_set),
        valid_keys: !before.any_schema(lists::has_invalid_keys),
        valid_ca_bundle: holds(old, ESTABLISHED) && !conversion::has_invalid_ca_bundle(before.spec),
        unchanged: versions.unchanged(new),
        many_fields: versions.with_many_fields(new),
        many_shared_fields: {
            let fields = before.top(Shared::SelectableFields);
            many(fields) && same_part(fields, new.top(Shared::SelectableFields))
        },
        before: Some(before),
        ..Requirements::new()
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
