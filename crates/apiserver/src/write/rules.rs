//! What a kind makes of an object on its way into the store: by the table of kinds, or by
//! what users define.
//!
//! Objects of the table's kinds are judged as they are stored. Those of kinds that users
//! define are judged in the version that the caller speaks, and converted at the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use insula_admission::validate as admission;
use insula_core::Revision;
use insula_custom::{Change, Verdict, definition, normalize_numbers};
use insula_kinds::{FieldError, Object, Value, convert, defaults, prepare, validate};

use super::metadata;
use crate::codec::input::{self, Sent, Written};
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::encoding::encoded;
use crate::registry::resource::{Custom, Resource};
use crate::registry::versions;
use crate::request::context;
use crate::request::query::FieldValidation;
use crate::status::Result;
use insula_cache::Stored;

/// The object in a body. A large one is read when it is its turn.
pub async fn read(
    by: Caller<'_>,
    sent: &Sent,
    kind: &Resource,
    validation: FieldValidation,
) -> Result<Written> {
    if sent.body.len() < LARGE_BODY {
        return input::read_kind(sent, kind, validation);
    }
    let read = || input::read_kind(sent, kind, validation);
    context::cpu_bound(Some(by.context), read).await?
}

/// From how many bytes on it takes longer to read a body than a thread can spare: a megabyte
/// takes about 20 ms.
const LARGE_BODY: usize = 512 << 10;

/// The version in which objects are judged that are written in `kind`.
pub fn judged_as(kind: &Resource) -> Resource {
    match kind {
        Resource::BuiltIn(_) => kind.storage(),
        Resource::Custom(_) => kind.clone(),
    }
}

/// Fills in what is missing, and makes it an object of the version that is judged.
pub fn fill(kind: &Resource, object: &mut Object) -> Result<()> {
    default(kind, object)?;
    to_judged(kind, object);
    Ok(())
}

/// Fills in what is missing.
pub fn default(kind: &Resource, object: &mut Object) -> Result<()> {
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

/// Makes it an object of the version that is judged.
pub fn to_judged(kind: &Resource, object: &mut Object) {
    if let Resource::BuiltIn(_) = kind {
        convert::convert(kind, &kind.storage(), object);
    }
}

/// What is there, as the caller sees it.
pub async fn shown(
    registry: &Registry,
    by: Option<Caller<'_>>,
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
                by.map(|by| by.context),
                kind,
                std::iter::once(current),
            )
            .await?;
            Ok(custom.show(current).tree())
        }
    }
}

/// Writes into a new object what only the server writes.
pub fn prepare_new(kind: &Resource, object: &mut Object, with: &mut prepare::CreateContext<'_>) {
    prepare::create(kind, object, with);
    if kind.is(insula_cache::definitions()) {
        definition::prepare_create(object);
    }
}

/// Writes into a changed object what only the server writes.
pub fn prepare_changed(
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &mut Object,
    now: &str,
) {
    if kind.custom().is_some() && subresource == Some("status") {
        keep_all_but_status(old, new);
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

/// What is wrong with a new object, which is in the version that is judged.
pub async fn judge_new(
    by: Option<Caller<'_>>,
    kind: &Resource,
    object: &Object,
) -> Result<Verdict> {
    if is_brief(kind, object) {
        return new_verdict(kind, object);
    }
    if let Some(custom) = kind.custom() {
        let known = validate::create_metadata(kind, object);
        let change = Change {
            known: &known,
            scale: scale(custom),
            ..Change::create(object)
        };
        return custom_verdict(by, custom, change).await;
    }
    context::cpu_bound(by.map(|by| by.context), || new_verdict(kind, object)).await?
}

fn new_verdict(kind: &Resource, object: &Object) -> Result<Verdict> {
    let stored = judged_as(kind);
    Ok(match &stored {
        Resource::BuiltIn(id) if *id == insula_cache::definitions() => {
            of(definition::create(object))
        }
        Resource::BuiltIn(_) if admission::handles(&stored) => {
            admitted(admission::create(&stored, object))
        }
        Resource::BuiltIn(_) if stored.group != kind.group => {
            let mut written = object.clone();
            convert::convert(&stored, kind, &mut written);
            only(validate::create(kind, &written))
        }
        Resource::BuiltIn(_) | Resource::Custom(_) => only(validate::create(&stored, object)),
    })
}

/// What is wrong with a change, made in the version `written`, to objects in the version that
/// is judged.
pub async fn judge_change(
    by: Option<Caller<'_>>,
    written: &Resource,
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Result<Verdict> {
    if kind.custom().is_none() && written.group != kind.group {
        return Ok(of_other_group(written, kind, subresource, old, new));
    }
    if is_brief(kind, new) {
        return Ok(changed_verdict(kind, subresource, old, new));
    }
    if let Some(custom) = kind.custom() {
        let known = validate::update_metadata(old, new);
        let change = Change {
            known: &known,
            scale: scale(custom),
            status_only: subresource == Some("status"),
            ..Change::update(new, old)
        };
        return custom_verdict(by, custom, change).await;
    }
    context::cpu_bound(by.map(|by| by.context), || {
        changed_verdict(kind, subresource, old, new)
    })
    .await
}

/// What is served in two groups is judged by the rules of the one that it is written in.
fn of_other_group(
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
    only(validate::update(written, subresource, &old, &new))
}

fn changed_verdict(
    kind: &Resource,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Verdict {
    if !kind.is(insula_cache::definitions()) {
        return match admission::handles(kind) {
            true => admitted(admission::update(kind, subresource, old, new)),
            false => only(validate::update(kind, subresource, old, new)),
        };
    }
    match subresource {
        None => of(definition::update(old, new)),
        Some(_) => of(definition::update_status(old, new)),
    }
}

/// Nearly all objects are judged right away; the others when it is their turn.
async fn custom_verdict(
    by: Option<Caller<'_>>,
    custom: &Custom,
    change: Change<'_>,
) -> Result<Verdict> {
    let schema = custom.schema()?;
    let verdict = match schema.validate_briefly(change) {
        Some(verdict) => verdict,
        None => context::cpu_bound(by.map(|by| by.context), || schema.validate(change)).await?,
    };
    Ok(with_odd_finalizers(verdict, change.old, change.new))
}

/// Whether it takes no time worth mentioning to judge the object: those of the table's kinds
/// are, except for definitions and whatever else has expressions, if they are large.
fn is_brief(kind: &Resource, object: &Object) -> bool {
    if kind.custom().is_some() {
        return false;
    }
    let mut room = LARGE;
    let computes = kind.is(insula_cache::definitions()) || admission::handles(&judged_as(kind));
    !computes || object.values().all(|value| fits(value, &mut room))
}

/// From how many bytes on a definition takes longer than a thread can spare: a megabyte takes
/// up to 300 ms.
const LARGE: usize = 16 << 10;

/// Whether the room suffices for the value. It is not looked at any further if not.
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

/// The bytes that are stored of an object in the version that was judged.
pub async fn stored(
    registry: &Registry,
    by: Option<Caller<'_>>,
    kind: &Resource,
    object: Object,
) -> Result<Bytes> {
    let object = match kind {
        Resource::BuiltIn(_) => object,
        Resource::Custom(custom) => {
            let storage = custom.storage();
            let mut object =
                versions::convert(registry, by.map(|by| by.context), custom, &storage, object)
                    .await?;
            normalize_numbers(&mut object);
            object
        }
    };
    Ok(encoded(&kind.storage(), &object))
}

/// The object that was just written as these bytes.
pub fn written(kind: &Resource, key: Arc<str>, revision: Revision, value: &[u8]) -> Arc<Stored> {
    let object = Stored::new(key, revision, value);
    if let Some(custom) = kind.custom() {
        custom.storage().note_written(&object);
    }
    Arc::new(object)
}

/// Whoever writes the status writes nothing else, whatever else a kind has.
fn keep_all_but_status(old: &Object, new: &mut Object) {
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

/// Says of new finalizers that they had better be called otherwise.
fn with_odd_finalizers(mut verdict: Verdict, old: Option<&Object>, new: &Object) -> Verdict {
    let before: BTreeSet<&str> = old.into_iter().flat_map(metadata::finalizers).collect();
    let after: BTreeSet<&str> = metadata::finalizers(new).collect();
    let odd = after.difference(&before);
    let odd = odd.flat_map(|name| validate::finalizer_warnings(name));
    verdict.warnings.extend(odd);
    verdict
}

fn of(verdict: definition::Verdict) -> Verdict {
    Verdict {
        errors: verdict.errors,
        warnings: verdict.warnings,
    }
}

fn admitted(verdict: admission::ValidationResult) -> Verdict {
    Verdict {
        errors: verdict.errors,
        warnings: verdict.warnings,
    }
}

fn only(errors: Vec<FieldError>) -> Verdict {
    Verdict {
        errors,
        warnings: Vec::new(),
    }
}
