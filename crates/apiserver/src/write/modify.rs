//! Changes to an existing object: the optimistic loop that every update, patch and
//! subresource write runs.

use std::sync::Arc;

use bytes::Bytes;
use insula_admission::Operation;
use insula_core::Revision;
use insula_kinds::{FieldError, Kind, Object, Value, time};
use insula_ownership::managers::times;
use insula_store::{Outcome, Transaction};
use serde_json::json;

use super::admission::lifecycle::Lifecycle;
use super::admission::webhooks::Attributes;
use super::admission::{Admission, Phase};
use super::ownership::Ownership;
use super::{Done, metadata, strategy};
use crate::pipeline::authorize::Caller;
use crate::registry::publish;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use crate::write::allocate;
use crate::write::quota;
use insula_cache::Stored;
use insula_cache::expiry;

/// A request to change one object.
#[derive(Clone, Copy, Debug)]
pub struct Modify<'a> {
    /// The resource in the version of the request.
    pub kind: &'a Resource,
    /// The object.
    pub address: &'a Address,
    /// The subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// Whether the request replaces the object, as an update does. Only then must it name the
    /// resource version where the kind demands one.
    pub full_update: bool,
    /// Whether to run everything but the commit.
    pub dry_run: bool,
    /// The caller; `None` if the server itself writes.
    pub caller: Option<Caller<'a>>,
    /// How the managed fields of the new object are determined.
    pub managed_fields: ManagedFields<'a>,
    /// Whether the request leaves the managed fields alone: it neither sends nor patches them.
    pub leaves_managed_fields: bool,
}

/// How the managed fields of the new object are determined.
#[derive(Clone, Copy, Debug)]
pub enum ManagedFields<'a> {
    /// The changed fields are recorded as owned by the caller's field manager.
    Update,
    /// The new object carries its managed fields already.
    Preset,
    /// Server-side apply computes them, with conversions that may be pending.
    Apply(&'a Ownership<'a>),
}

impl<'a> Modify<'a> {
    /// Returns a request of the server itself, which needs no rights and no preconditions.
    pub fn by_server(address: &'a Address, subresource: Option<&'a str>) -> Self {
        Self {
            kind: &address.kind,
            address,
            subresource,
            full_update: false,
            dry_run: false,
            caller: None,
            managed_fields: ManagedFields::Update,
            leaves_managed_fields: false,
        }
    }

    /// Returns the current object, and its managed fields as text if that suffices: nothing may
    /// look into them, neither the request nor admission.
    fn without_managed_fields(
        &self,
        registry: &Registry,
        current: &Stored,
    ) -> Option<(Object, Bytes)> {
        let caller = self.caller.filter(|_| {
            self.leaves_managed_fields
                && self.subresource.is_none()
                && self.kind.custom().is_none()
                && *self.kind == self.kind.storage()
        })?;
        let (operation, kind) = (Operation::Update, self.kind);
        let attributes = Attributes::new(registry, caller, operation, kind, self.address);
        match attributes.has_configurations() {
            true => None,
            false => current.tree_without_managed_fields(),
        }
    }
}

/// The managed fields of a changed object, where only a time in them changes.
struct ManagedText {
    before: Bytes,
    after: String,
}

impl ManagedText {
    /// Adds them to the new object, to be encoded. If nothing else of the object changes, the time
    /// does not either, so that there is nothing to write.
    fn insert(self, old: &Object, new: &mut Object) {
        let text = match old == new {
            true => String::from_utf8_lossy(&self.before).into_owned(),
            false => self.after,
        };
        metadata::of(new).insert("managedFields".to_owned(), text.into());
    }
}

/// Adds managed fields to an object in full.
fn insert_parsed(object: &mut Object, managed_fields: &[u8]) {
    let parsed: Value = serde_json::from_slice(managed_fields).unwrap_or_default();
    metadata::of(object).insert("managedFields".to_owned(), parsed);
}

/// The result of changing an object.
#[derive(Debug)]
pub struct Modified {
    /// The new object, in the version of the request.
    pub object: Object,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

/// Changes an object: `change` computes the new object from the current one, again after every
/// conflict. Returns `None` if the object does not exist.
pub async fn modify(
    registry: &Registry,
    request: Modify<'_>,
    mut change: impl FnMut(&Object) -> Result<Modified>,
) -> Result<Option<Done>> {
    // The cache is nearly always current, so the first attempt uses it. An error, a missing object
    // or an unchanged one may be an artefact of a stale cache: only a fresh read confirms it. A dry
    // run commits nothing that could detect a conflict, so it starts with the fresh read.
    let mut is_fresh = request.dry_run;
    let mut current = match is_fresh {
        true => registry.fresh(request.address).await?,
        false => registry.cached(request.address),
    };
    loop {
        let attempt = match &current {
            None => Ok(Attempt::Missing),
            Some(current) => try_modify(registry, &request, current, &mut change).await,
        };
        match attempt {
            Ok(Attempt::Done(done)) => return Ok(Some(done)),
            Ok(Attempt::Conflict(at)) => {
                registry.cache().await_applied(at).await;
                current = registry.cached(request.address);
            }
            Ok(Attempt::Unchanged(done)) if is_fresh => return Ok(Some(done)),
            Ok(Attempt::Missing) if is_fresh => return Ok(None),
            Err(error) if is_fresh => return Err(error),
            Ok(Attempt::Unchanged(_) | Attempt::Missing) | Err(_) => {
                let seen = current.as_ref().map(|object| object.revision);
                current = registry.fresh(request.address).await?;
                is_fresh = true;
                let now = current.as_ref().map(|object| object.revision);
                if now == seen {
                    return attempt.map(Attempt::done);
                }
            }
        }
    }
}

enum Attempt {
    Done(Done),
    /// The change has no effect, provided the object was read fresh.
    Unchanged(Done),
    /// Another write changed the object at this revision.
    Conflict(Revision),
    Missing,
}

impl Attempt {
    /// Puts the warnings before those that the attempt has.
    fn warned(mut self, warnings: Vec<String>) -> Self {
        if let Self::Done(done) | Self::Unchanged(done) = &mut self {
            done.warnings.splice(0..0, warnings);
        }
        self
    }

    fn done(self) -> Option<Done> {
        match self {
            Self::Done(done) | Self::Unchanged(done) => Some(done),
            Self::Conflict(_) | Self::Missing => None,
        }
    }
}

async fn try_modify(
    registry: &Registry,
    request: &Modify<'_>,
    current: &Arc<Stored>,
    change: &mut impl FnMut(&Object) -> Result<Modified>,
) -> Result<Attempt> {
    let kind = request.kind;
    let validated_as = strategy::validated_as(kind);
    let (mut shown, mut known) = match request.without_managed_fields(registry, current) {
        Some((tree, known)) => (tree, Some(known)),
        None => {
            let shown = strategy::convert_from_storage(registry, request.caller, kind, current);
            (shown.await?, None)
        }
    };
    let mut modified = build_new(request, &shown, change).await;
    if modified.is_err()
        && let Some(known) = known.take()
    {
        // The error of a patch quotes the whole object.
        insert_parsed(&mut shown, &known);
        modified = build_new(request, &shown, change).await;
    }
    let Modified {
        object: mut new,
        warnings,
    } = modified?;
    match request.managed_fields {
        ManagedFields::Apply(_) => strategy::apply_defaults_to_applied(kind, &mut new)?,
        _ => strategy::apply_defaults(kind, &mut new)?,
    }
    let mut managed = None;
    if let ManagedFields::Update = request.managed_fields {
        let ownership = Ownership::new(registry, request.caller, kind, request.subresource);
        managed = known.and_then(|before| {
            let after = ownership.record_text(&shown, &before, &mut new);
            if after.is_none() {
                insert_parsed(&mut shown, &before);
            }
            after.map(|after| ManagedText { before, after })
        });
        if managed.is_none() {
            ownership.record(&shown, &mut new).await?;
        }
    }
    let old = match validated_as == *kind {
        true => shown,
        false => current.tree(),
    };
    let done = commit_change(registry, request, current, &validated_as, old, new, managed).await;
    match done {
        Ok(attempt) => Ok(attempt.warned(warnings)),
        Err(error) => Err(error.warned(warnings)),
    }
}

/// Computes the new object, again after conversions that an apply turned out to need.
async fn build_new(
    request: &Modify<'_>,
    shown: &Object,
    change: &mut impl FnMut(&Object) -> Result<Modified>,
) -> Result<Modified> {
    loop {
        let modified = change(shown);
        match request.managed_fields {
            // The result lacks versions that have only now been converted.
            ManagedFields::Apply(ownership) if ownership.convert_pending().await? => {}
            _ => return modified,
        }
    }
}

/// Admits, prepares, validates and commits the new object.
async fn commit_change(
    registry: &Registry,
    request: &Modify<'_>,
    current: &Arc<Stored>,
    validated_as: &Resource,
    mut old: Object,
    mut new: Object,
    managed: Option<ManagedText>,
) -> Result<Attempt> {
    let (kind, name) = (request.kind, &request.address.name);
    check_preconditions(registry, request, current, &old, &new)?;
    strategy::to_validated(kind, &mut new);
    metadata::restore(&mut new, request.address, &old, request.caller)?;
    let mut admission = Admission {
        registry,
        caller: request.caller,
        operation: Operation::Update,
        resource: kind,
        address: request.address,
        subresource: request.subresource,
        dry_run: request.dry_run,
        old: Some(&old),
        object: &mut new,
        lifecycle: None,
    };
    admission.run(Phase::Mutate).await?;
    let subresource = request.subresource;
    strategy::prepare_for_update(
        validated_as,
        subresource,
        &old,
        admission.object,
        &time::now(),
    );
    allocate::for_update(
        registry,
        request.address,
        subresource,
        &old,
        admission.object,
    )?;
    admission.run(Phase::Content).await?;
    let verdict = strategy::validate_update(
        request.caller,
        kind,
        validated_as,
        subresource,
        &old,
        admission.object,
    )
    .await?;
    let warnings = verdict.warnings;
    if !verdict.errors.is_empty() {
        return Err(StatusError::invalid(kind, name, &verdict.errors).warned(warnings));
    }
    admission.run(Phase::Validate).await?;
    let withdraws = publish::is_withdrawal(request.address, &old, &new);
    metadata::of(&mut new).remove("resourceVersion");
    metadata::of(&mut old).remove("resourceVersion");
    match managed {
        Some(managed) => managed.insert(&old, &mut new),
        None => times::keep(&old, &mut new),
    }
    let released = is_released(kind, &new);
    let value = strategy::encode_for_storage(registry, request.caller, kind, new).await?;
    let done = |object| Done {
        object,
        created: false,
        warnings,
    };
    if released {
        // The last finalizer is removed, so the object is too. Watchers get its previous state.
        let last = Stored::new(Arc::clone(&current.key), current.revision, &value);
        if !request.dry_run {
            let key = registry.key(request.address);
            let transaction = Transaction::remove(key, current.revision);
            if let Outcome::Conflict(conflict) = registry.commit(transaction).await? {
                return Ok(Attempt::Conflict(conflict.revision));
            }
        }
        return Ok(Attempt::Done(done(Arc::new(last))));
    }
    if current.is_stored_as(&value) {
        return Ok(Attempt::Unchanged(done(Arc::clone(current))));
    }
    let write = quota::QuotaWrite {
        registry,
        kind,
        address: request.address,
        subresource: request.subresource,
        old: Some(current),
        new: &value,
        caller: request.caller,
    };
    let key = registry.key(request.address);
    let mut transaction = Transaction::new().check(key.clone(), current.expected());
    if current.built_in {
        // A built-in object is stored by its first change, so its space must still allow creates.
        let lifecycle = Lifecycle::check(registry, kind, request.address).await?;
        transaction = lifecycle.guard(registry, transaction);
    }
    let _locks = write.lock().await;
    let stored = expiry::stored(&request.address.kind, value.clone());
    let transaction = write.charge(transaction.put(key, stored)).await?;
    if request.dry_run {
        let shown = Stored::new(Arc::clone(&current.key), current.revision, &value);
        return Ok(Attempt::Done(done(Arc::new(shown))));
    }
    match registry.commit(transaction).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => {
            if withdraws {
                publish::confirm_withdrawal(registry, request.address, current, revision).await?;
            }
            let object = strategy::written_object(kind, Arc::clone(&current.key), revision, &value);
            Ok(Attempt::Done(done(object)))
        }
        Outcome::Conflict(conflict) => Ok(Attempt::Conflict(conflict.revision)),
    }
}

/// Checks the UID and the resource version that the request names.
fn check_preconditions(
    registry: &Registry,
    request: &Modify<'_>,
    current: &Stored,
    old: &Object,
    new: &Object,
) -> Result<()> {
    let (kind, name) = (request.kind, &request.address.name);
    if let Some(uid) = metadata::text(new, "uid") {
        let is = metadata::text(old, "uid").unwrap_or("");
        if uid != is && request.full_update {
            let key = registry.key(request.address);
            return Err(StatusError::other_uid(kind, name, &key, uid, is));
        }
    }
    match metadata::text(new, "resourceVersion").unwrap_or("0") {
        "0" => {
            if request.full_update && !kind.unconditional_update {
                let why = "must be specified for an update";
                let error = FieldError::invalid("metadata.resourceVersion", &json!(0), why);
                return Err(StatusError::invalid_resource(kind, name, &[error]));
            }
        }
        text => {
            let revision: u64 = text.parse().map_err(|_| {
                let quoted = insula_gotext::quote(text);
                StatusError::plain_error(format!(
                    "strconv.ParseUint: parsing {quoted}: invalid syntax"
                ))
            })?;
            if revision != current.revision.get() {
                return Err(StatusError::modified(kind, name));
            }
        }
    }
    Ok(())
}

/// Whether an object that is being deleted has no finalizer and no grace period left.
fn is_released(kind: &Kind, object: &Object) -> bool {
    let deleting = metadata::text(object, "deletionTimestamp").is_some();
    let grace = object
        .get("metadata")
        .and_then(|of| of.get("deletionGracePeriodSeconds"));
    let waits = grace.and_then(Value::as_i64).unwrap_or(0) > 0;
    deleting
        && !waits
        && metadata::finalizers(object).next().is_none()
        && metadata::spec_finalizers(kind, object).next().is_none()
}
