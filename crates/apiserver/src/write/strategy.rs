//! The write strategy of a resource: defaults, version conversion, preparation and validation.
//!
//! Built-in objects are validated in their storage version. Custom objects are validated in the
//! version of the request, and converted at the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use insula_admission::validate as admission;
use insula_core::Revision;
use insula_custom::{Change, Verdict, definition, normalize_numbers};
use insula_kinds::{FieldError, Object, Value, convert, defaults, prepare, validate};

use super::metadata;
use crate::codec::input::{self, Sent, Written};
use crate::flow_control::cpu_bound;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::encoding::encoded;
use crate::registry::resource::{Custom, Resource};
use crate::registry::versions;
use crate::request::context;
use crate::request::query::FieldValidation;
use crate::status::Result;
use insula_cache::Stored;

/// Decodes the object in a body. A large one is decoded as CPU-bound work.
pub async fn read_body(
    caller: Caller<'_>,
    sent: &Sent,
    kind: &Resource,
    validation: FieldValidation,
) -> Result<Written> {
    if sent.body.len() < LARGE_BODY_BYTES {
        return input::read_kind(sent, kind, validation);
    }
    let read = || input::read_kind(sent, kind, validation);
    context::cpu_bound(Some(caller.context), read).await?
}

/// Decodes the object in a body again, at once.
pub fn read_body_again(
    sent: &Sent,
    kind: &Resource,
    validation: FieldValidation,
) -> Result<Written> {
    let read = || input::read_kind(sent, kind, validation);
    match sent.body.len() < LARGE_BODY_BYTES {
        true => read(),
        false => cpu_bound::run_blocking(read),
    }
}

/// The size from which decoding a body blocks a thread too long: a megabyte takes about 20 ms.
const LARGE_BODY_BYTES: usize = 512 << 10;

/// Returns the version in which objects written as `kind` are validated.
pub fn validated_as(kind: &Resource) -> Resource {
    match kind {
        Resource::BuiltIn(_) => kind.storage(),
        Resource::Custom(_) => kind.clone(),
    }
}

/// Applies defaults, and converts the object to the version that is validated.
pub fn default_and_convert(kind: &Resource, object: &mut Object) -> Result<()> {
    apply_defaults(kind, object)?;
    to_validated(kind, object);
    Ok(())
}

/// Applies defaults.
pub fn apply_defaults(kind: &Resource, object: &mut Object) -> Result<()> {
    match kind {
        Resource::BuiltIn(id) => {
            defaults::apply(kind, object);
            if *id == insula_cache::definitions() {
                definition::default(object);
            }
        }
        Resource::Custom(custom) => custom.schema()?.fill(object),
    }
    Ok(())
}

/// Applies defaults to the result of a server-side apply. A null that was applied is not decoded
/// like a body that says null, so it is refused where a value may not be null.
pub fn apply_defaults_to_applied(kind: &Resource, object: &mut Object) -> Result<()> {
    match kind.custom() {
        Some(custom) => {
            custom.schema()?.fill_defaults(object);
            Ok(())
        }
        None => apply_defaults(kind, object),
    }
}

/// Converts the object to the version that is validated.
pub fn to_validated(kind: &Resource, object: &mut Object) {
    if let Resource::BuiltIn(_) = kind {
        convert::convert(kind, &kind.storage(), object);
    }
}

/// Returns a stored object in the version of the request.
pub async fn convert_from_storage(
    registry: &Registry,
    caller: Option<Caller<'_>>,
    kind: &Resource,
    current: &Arc<Stored>,
) -> Result<Object> {
    match kind {
        Resource::BuiltIn(_) => {
            let mut tree = current.tree();
            convert::convert(&kind.storage(), kind, &mut tree);
            Ok(tree)
        }
        Resource::Custom(custom) => {
            versions::prepare(
                registry,
                caller.map(|caller| caller.context),
                kind,
                std::iter::once(current),
            )
            .await?;
            Ok(custom.show(current).tree())
        }
    }
}

/// Sets the fields of a new object that only the server writes.
pub fn prepare_for_create(
    kind: &Resource,
    object: &mut Object,
    with: &mut prepare::CreateContext<'_>,
) {
    prepare::create(kind, object, with);
    if kind.is(insula_cache::definitions()) {
        definition::prepare_create(object);
    }
}

/// Sets and restores the fields of a changed object that only the server writes.
pub fn prepare_for_update(
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &mut Object,
    now: &str,
) {
    if kind.custom().is_some() && subresource == Some("status") {
        restore_all_but_status(old, new);
    }
    prepare::update(kind, subresource, old, new);
    prepare::set_timestamps(kind, subresource, old, new, now);
    if kind.is(insula_cache::definitions()) {
        match subresource {
            None => definition::prepare_update(old, new),
            Some(_) => definition::prepare_status(old, new),
        }
    }
}

/// Validates a new object, which is in the version that is validated.
pub async fn validate_create(
    caller: Option<Caller<'_>>,
    kind: &Resource,
    object: &Object,
) -> Result<Verdict> {
    if is_quick(kind, object) {
        return validate_create_now(kind, object);
    }
    if let Some(custom) = kind.custom() {
        let known = validate::create_metadata(kind, object);
        let change = Change {
            known: &known,
            scale: scale(custom),
            ..Change::create(object)
        };
        return validate_custom(caller, custom, change).await;
    }
    context::cpu_bound(caller.map(|caller| caller.context), || {
        validate_create_now(kind, object)
    })
    .await?
}

fn validate_create_now(kind: &Resource, object: &Object) -> Result<Verdict> {
    let stored = validated_as(kind);
    Ok(match &stored {
        Resource::BuiltIn(id) if *id == insula_cache::definitions() => {
            from_definition(definition::create(object))
        }
        Resource::BuiltIn(_) if admission::handles(&stored) => {
            from_admission(admission::create(&stored, object))
        }
        Resource::BuiltIn(_) if stored.group != kind.group => {
            let mut written = object.clone();
            convert::convert(&stored, kind, &mut written);
            errors_only(validate::create(kind, &written))
        }
        Resource::BuiltIn(_) | Resource::Custom(_) => {
            let errors = validate::create(&stored, object);
            let warnings = match errors.is_empty() {
                true => validate::create_warnings(&stored, object),
                false => Vec::new(),
            };
            Verdict { errors, warnings }
        }
    })
}

/// Validates a change that was written as `written`; the objects are in the version that is
/// validated.
pub async fn validate_update(
    caller: Option<Caller<'_>>,
    written: &Resource,
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Result<Verdict> {
    if kind.custom().is_none() && written.group != kind.group {
        return Ok(validate_in_other_group(
            written,
            kind,
            subresource,
            old,
            new,
        ));
    }
    if is_quick(kind, new) {
        return Ok(validate_update_now(kind, subresource, old, new));
    }
    if let Some(custom) = kind.custom() {
        let known = validate::update_metadata(old, new);
        let change = Change {
            known: &known,
            scale: scale(custom),
            status_only: subresource == Some("status"),
            ..Change::update(new, old)
        };
        return validate_custom(caller, custom, change).await;
    }
    context::cpu_bound(caller.map(|caller| caller.context), || {
        validate_update_now(kind, subresource, old, new)
    })
    .await
}

/// Validates a resource that two groups serve by the rules of the group it was written in.
fn validate_in_other_group(
    written: &Resource,
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Verdict {
    let [old, new] = [old, new].map(|object| {
        let mut object = object.clone();
        convert::convert(kind, written, &mut object);
        object
    });
    errors_only(validate::update(written, subresource, &old, &new))
}

fn validate_update_now(
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Verdict {
    if !kind.is(insula_cache::definitions()) {
        return match admission::handles(kind) {
            true => from_admission(admission::update(kind, subresource, old, new)),
            false => errors_only(validate::update(kind, subresource, old, new)),
        };
    }
    match subresource {
        None => from_definition(definition::update(old, new)),
        Some(_) => from_definition(definition::update_status(old, new)),
    }
}

/// Validates a custom object: at once if that is quick, as nearly always, else as CPU-bound work.
async fn validate_custom(
    caller: Option<Caller<'_>>,
    custom: &Custom,
    change: Change<'_>,
) -> Result<Verdict> {
    let schema = custom.schema()?;
    let verdict = match schema.validate_briefly(change) {
        Some(verdict) => verdict,
        None => {
            context::cpu_bound(caller.map(|caller| caller.context), || {
                schema.validate(change)
            })
            .await?
        }
    };
    Ok(with_finalizer_warnings(verdict, change.old, change.new))
}

/// Whether validation is too short to count as CPU-bound work: built-in objects are, except
/// large ones with expressions, such as definitions.
fn is_quick(kind: &Resource, object: &Object) -> bool {
    if kind.custom().is_some() {
        return false;
    }
    let mut room = LARGE_DEFINITION_BYTES;
    let has_expressions =
        kind.is(insula_cache::definitions()) || admission::handles(&validated_as(kind));
    !has_expressions || object.values().all(|value| fits(value, &mut room))
}

/// The size from which validating a definition blocks a thread too long: a megabyte takes up to
/// 300 ms.
const LARGE_DEFINITION_BYTES: usize = 16 << 10;

/// Whether the value fits into the room left. Stops at the first part that does not.
fn fits(value: &Value, room: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        _ => 4,
    };
    let Some(left) = room.checked_sub(own) else {
        return false;
    };
    *room = left;
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, room)),
        Value::Object(members) => members.iter().all(|(name, member)| {
            *room = room.saturating_sub(name.len());
            fits(member, room)
        }),
        _ => true,
    }
}

/// Converts a validated object to its storage version and encodes it.
pub async fn encode_for_storage(
    registry: &Registry,
    caller: Option<Caller<'_>>,
    kind: &Resource,
    object: Object,
) -> Result<Bytes> {
    let object = match kind {
        Resource::BuiltIn(_) => object,
        Resource::Custom(custom) => {
            let storage = custom.storage();
            let mut object = versions::convert(
                registry,
                caller.map(|caller| caller.context),
                custom,
                &storage,
                object,
            )
            .await?;
            normalize_numbers(&mut object);
            object
        }
    };
    Ok(encoded(&kind.storage(), &object))
}

/// Returns the object that was just committed as these bytes.
pub fn written_object(
    kind: &Resource,
    key: Arc<str>,
    revision: Revision,
    value: &[u8],
) -> Arc<Stored> {
    let object = Stored::new(key, revision, value);
    // An object of another version was stored without the defaults of the storage version.
    if let Some(custom) = kind.custom()
        && custom.version().storage
    {
        custom.note_written(&object);
    }
    Arc::new(object)
}

/// Restores everything but the status, which is all that a write to `status` may change.
fn restore_all_but_status(old: &Object, new: &mut Object) {
    let status = new.remove("status");
    let version = new.get("apiVersion").cloned();
    let mut sent = std::mem::take(metadata::of(new));
    *new = old.clone();
    new.remove("status");
    new.extend(status.map(|status| ("status".to_owned(), status)));
    new.extend(version.map(|version| ("apiVersion".to_owned(), version)));
    let kept = metadata::of(new);
    for member in ["resourceVersion", "managedFields"] {
        match sent.remove(member) {
            Some(value) => kept.insert(member.to_owned(), value),
            None if member == "managedFields" => kept.remove(member),
            None => None,
        };
    }
}

fn scale(custom: &Custom) -> Option<insula_custom::Scale<'_>> {
    let paths = custom.version().scale.as_ref()?;
    Some(insula_custom::Scale {
        spec: paths.spec.text(),
        status: paths.status.text(),
        selector: paths.selector.as_ref().map(|path| path.text()),
    })
}

/// Adds warnings about the names of new finalizers.
fn with_finalizer_warnings(mut verdict: Verdict, old: Option<&Object>, new: &Object) -> Verdict {
    let before: BTreeSet<&str> = old.into_iter().flat_map(metadata::finalizers).collect();
    let after: BTreeSet<&str> = metadata::finalizers(new).collect();
    let warnings = after.difference(&before);
    let warnings = warnings.flat_map(|name| validate::finalizer_warnings(name));
    verdict.warnings.extend(warnings);
    verdict
}

fn from_definition(verdict: definition::Verdict) -> Verdict {
    Verdict {
        errors: verdict.errors,
        warnings: verdict.warnings,
    }
}

fn from_admission(verdict: admission::ValidationResult) -> Verdict {
    Verdict {
        errors: verdict.errors,
        warnings: verdict.warnings,
    }
}

fn errors_only(errors: Vec<FieldError>) -> Verdict {
    Verdict {
        errors,
        warnings: Vec::new(),
    }
}
