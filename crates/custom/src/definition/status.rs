//! Validation of the status.

use std::collections::HashMap;

use insula_kinds::Object;

use super::internal_form::InternalForm;
use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::spec;

/// Validates the accepted names.
pub(super) fn validate_names(definition: &Object, report: &mut Report) {
    let names = Props::of(definition.get("status")).child("acceptedNames");
    let status = Place::root("status");
    spec::names(names, status.field("acceptedNames"), report);
}

/// Checks that the stored versions include the storage version and still exist.
pub(super) fn validate_stored_versions(
    definition: &Object,
    form: &InternalForm<'_>,
    report: &mut Report,
) {
    let status = Props::of(definition.get("status"));
    let place = Place::root("status");
    let place = place.field("storedVersions");
    let printed = || print::json(status.get("storedVersions"));
    if status.list("storedVersions").is_empty() {
        return report.invalid_as(place, printed, "must have at least one stored version");
    }
    let stored = status.texts("storedVersions").enumerate();
    let mut stored: HashMap<_, _> = stored.map(|(index, name)| (name, index)).collect();
    for version in form.versions() {
        let name = version.raw.text("name");
        if stored.remove(name).is_none() && version.raw.flag("storage") {
            let detail = format!("must have the storage version {name}");
            report.invalid_as(place, printed, &detail);
        }
    }
    let mut missing: Vec<_> = stored.into_iter().collect();
    missing.sort_by_key(|(_, index)| *index);
    for (name, index) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        report.invalid_text(place.index(index), name, &detail);
    }
}
