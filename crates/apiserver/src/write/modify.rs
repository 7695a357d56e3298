//! A change to an object that is there: the loop that every update, patch and subresource
//! goes through.

use std::sync::Arc;

use insula_admission::Operation;
use insula_core::Revision;
use insula_kinds::{FieldError, Kind, Object, time};
use insula_ownership::managers::times;
use insula_store::{Outcome, Transaction};
use serde_json::json;

use super::admission::lifecycle::Lifecycle;
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

/// What is to be changed, and how.
#[derive(Clone, Copy, Debug)]
pub struct Modify<'a> {
    /// The kind in the version that the caller speaks.
    pub kind: &'a Resource,
    /// The object.
    pub address: &'a Address,
    /// The subresource that is written, if it is one.
    pub subresource: Option<&'a str>,
    /// Whether the object must say which version it was made from, where the kind demands
    /// it: updates must, patches need not.
    pub full_update: bool,
    /// Everything but the commit.
    pub dry_run: bool,
    /// Who asks; nobody if it is the server itself.
    pub caller: Option<Caller<'a>>,
    /// Who owns the fields that are changed.
    pub managed_fields: ManagedFields<'a>,
}

/// Who owns the fields that are changed.
#[derive(Clone, Copy, Debug)]
pub enum ManagedFields<'a> {
    /// Whoever asks.
    Update,
    /// Whom the new object names.
    Preset,
    /// The same; this is how it finds out.
    Apply(&'a Ownership<'a>),
}

impl<'a> Modify<'a> {
    /// By the server itself, which needs no right and knows what it writes over.
    pub fn by_server(address: &'a Address, subresource: Option<&'a str>) -> Self {
        Self {
            kind: &address.kind,
            address,
            subresource,
            full_update: false,
            dry_run: false,
            caller: None,
            managed_fields: ManagedFields::Update,
        }
    }
}

/// What the object is to become.
#[derive(Debug)]
pub struct Modified {
    /// The object, in the version that the caller speaks.
    pub object: Object,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// Changes an object: `make` is shown what is there and says what it is to become, as often
/// as it takes. `None` if there is no such object.
pub async fn modify(
    registry: &Registry,
    request: Modify<'_>,
    mut change: impl FnMut(&Object) -> Result<Modified>,
) -> Result<Option<Done>> {
    // What the cache has is nearly always what is there. If it leads to a refusal, or to
    // nothing, the refusal must not be about the past: look again before saying so.
    // The same goes for the answer that nothing is to be done, and for one that is only shown.
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
    /// There is nothing to do, if the object is still as it was seen.
    Unchanged(Done),
    /// Somebody else changed it at this revision.
    Conflict(Revision),
    Missing,
}

impl Attempt {
    /// With what the caller should know, too.
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
    let shown = strategy::convert_from_storage(registry, request.caller, kind, current).await?;
    let Modified {
        object: mut new,
        warnings,
    } = build_new(request, &shown, change).await?;
    strategy::apply_defaults(kind, &mut new)?;
    if let ManagedFields::Update = request.managed_fields {
        let ownership = Ownership::new(registry, request.caller, kind, request.subresource);
        ownership.record(&shown, &mut new).await?;
    }
    let old = match validated_as == *kind {
        true => shown,
        false => current.tree(),
    };
    let done = commit_change(registry, request, current, &validated_as, old, new).await;
    match done {
        Ok(attempt) => Ok(attempt.warned(warnings)),
        Err(error) => Err(error.warned(warnings)),
    }
}

/// What the object is to become.
async fn build_new(
    request: &Modify<'_>,
    shown: &Object,
    change: &mut impl FnMut(&Object) -> Result<Modified>,
) -> Result<Modified> {
    loop {
        let modified = change(shown);
        match request.managed_fields {
            // It was found out with what was known; now there is more.
            ManagedFields::Apply(ownership) if ownership.convert_pending().await? => {}
            _ => return modified,
        }
    }
}

/// Makes what was asked for what there is, if nothing speaks against it.
async fn commit_change(
    registry: &Registry,
    request: &Modify<'_>,
    current: &Arc<Stored>,
    validated_as: &Resource,
    mut old: Object,
    mut new: Object,
) -> Result<Attempt> {
    let (kind, name) = (request.kind, &request.address.name);
    check_preconditions(registry, request, current, &old, &new)?;
    strategy::to_validated(kind, &mut new);
    metadata::restore(&mut new, kind, request.address, &old)?;
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
    allocate::for_update(registry, request.address, admission.object);
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
    times::keep(&old, &mut new);
    let released = is_released(kind, &new);
    let value = strategy::encode_for_storage(registry, request.caller, kind, new).await?;
    let done = |object| Done {
        object,
        created: false,
        warnings,
    };
    if released {
        // The last finalizer is gone: so is the object. Watchers see it as it was before.
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
        // What every space has is stored from here on: it comes about where it is put.
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

/// Whether the object is the one, and in the version, that the caller means.
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

/// Whether an object that is being deleted has nothing left to wait for.
fn is_released(kind: &Kind, object: &Object) -> bool {
    let deleting = metadata::text(object, "deletionTimestamp").is_some();
    let grace = object
        .get("metadata")
        .and_then(|of| of.get("deletionGracePeriodSeconds"));
    let waits = grace.and_then(insula_kinds::Value::as_i64).unwrap_or(0) > 0;
    deleting
        && !waits
        && metadata::finalizers(object).next().is_none()
        && metadata::spec_finalizers(kind, object).next().is_none()
}
