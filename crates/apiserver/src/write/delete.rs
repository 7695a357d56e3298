//! An object gone, or on its way.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use insula_admission::Operation;
use insula_core::{Revision, SYSTEM, Space};
use insula_custom::condition::{self, Condition, set_condition};
use insula_kinds::{FieldError, Kind, Object, Value, protobuf, time, types};
use insula_store::{Outcome, Transaction};
use serde_json::json;

use super::metadata;
use super::rules::{self, encoded};
use crate::admit::{self, Act};
use crate::apis;
use crate::authorize::Granted;
use crate::built_in;
use crate::cache::Stored;
use crate::expiry;
use crate::form;
use crate::intake::{self, Expected, Sent};
use crate::negotiate::Media;
use crate::publish::{self, absent};
use crate::query::{self, FieldValidation, Query};
use crate::read::{Listing, collect};
use crate::registry::{Address, Registry, core_kind};
use crate::status::{Refusal, Result};
use crate::tenants::NAMESPACES;
use crate::view::View;

/// How many objects of a collection are deleted at once: a store that waits for its disk
/// takes many for the price of one.
const AT_ONCE: usize = 16;

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Everything but the commit.
    pub dry_run: bool,
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    /// As they were given.
    object: Object,
}

/// What became of a deletion.
#[derive(Debug)]
pub struct Deleted {
    /// The object as it was, or as it is while it is on its way.
    pub object: Arc<Stored>,
    /// Whether it is gone.
    pub gone: bool,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl DeleteOptions {
    /// From the body if there is one, else from the query.
    pub fn read(query: &Query, sent: &Sent) -> Result<Self> {
        let object = match sent.body.is_empty() {
            true => from_query(query)?,
            false => from_body(sent)?,
        };
        let mut errors = Vec::new();
        let text = |member: &str| object.get(member).and_then(Value::as_str);
        let policy = text("propagationPolicy").filter(|policy| !policy.is_empty());
        if let (Some(policy), Some(_)) = (policy, object.get("orphanDependents")) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid_text("propagationPolicy", policy, why));
        } else if let Some(policy) = policy
            && !["Foreground", "Background", "Orphan"].contains(&policy)
        {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            let value = json!(policy);
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                &value,
                &known,
            ));
        }
        let dry_run = object
            .get("dryRun")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let dry_run = query::dry_run(dry_run.filter_map(Value::as_str), &mut errors);
        if !errors.is_empty() {
            return Err(Refusal::invalid_options("DeleteOptions", &errors));
        }
        let precondition = |member: &str| {
            let found = object.get("preconditions")?.get(member)?.as_str()?;
            Some(found.to_owned())
        };
        Ok(Self {
            dry_run,
            grace: object.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            object: object.clone(),
        })
    }

    /// Nothing but whether it is to happen.
    pub fn dry_run(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    /// Only this object, and only if it is still so.
    pub fn exactly(object: &Stored) -> Self {
        Self {
            revision: Some(object.revision.to_string()),
            ..Self::default()
        }
    }
}

fn from_query(query: &Query) -> Result<Object> {
    let mut object = Object::new();
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        object.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if let Some(policy) = query.get("propagationPolicy") {
        object.insert("propagationPolicy".to_owned(), policy.into());
    }
    if let Some(orphan) = query.choice("orphanDependents") {
        object.insert("orphanDependents".to_owned(), orphan.into());
    }
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    object.insert("dryRun".to_owned(), dry_run.into());
    Ok(object)
}

fn from_body(sent: &Sent) -> Result<Object> {
    let of = types().find("apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let of = of.ok_or_else(|| Refusal::internal("DeleteOptions is not in the table"))?;
    // Any group's version will do: clients send that of the object.
    let identity = match sent.media {
        Media::Json => insula_kinds::decode::identity_json(&sent.body),
        Media::Yaml => insula_kinds::decode::identity_yaml(&sent.body),
        Media::Protobuf => {
            let unreadable = |error: protobuf::Error| Refusal::bad_request(error.to_string());
            let envelope = protobuf::open(&sent.body).map_err(unreadable)?;
            check_kind(envelope.kind)?;
            return protobuf::decode(of, envelope.raw).map_err(unreadable);
        }
    };
    let identity = identity.unwrap_or_default();
    check_kind(identity.kind.as_deref().unwrap_or(""))?;
    let version = identity.api_version.unwrap_or_else(|| "v1".to_owned());
    let expected = Expected {
        group: "",
        api_version: &version,
        kind: "DeleteOptions",
        of,
    };
    Ok(intake::read(sent, expected, FieldValidation::Ignore)?.object)
}

fn check_kind(kind: &str) -> Result<()> {
    if kind.is_empty() || kind == "DeleteOptions" {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"v1\" in scheme \
         \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
    )))
}

/// Deletes the object that the path names.
pub async fn delete(
    registry: &Registry,
    granted: &Granted,
    query: &Query,
    sent: &Sent,
) -> Result<Deleted> {
    let options = DeleteOptions::read(query, sent)?;
    let path = granted.path();
    let kind = path.of();
    let address = granted.address()?;
    let warning = publish::deletion_warning(registry, &address).await?;
    let act = Act::new(registry, granted, Operation::Delete, &path.kind, &address);
    let deleted = remove_for(registry, kind, &address, &options, Some(act)).await?;
    let gone = || absent(registry, kind, &address, publish::Act::Delete);
    let mut deleted = deleted.ok_or_else(gone)?;
    deleted.warnings.extend(warning);
    Ok(deleted)
}

/// Deletes the objects that path and selectors choose, and says which they were.
pub async fn delete_collection(
    registry: &Registry,
    granted: &Granted,
    query: &Query,
    sent: &Sent,
    view: &View,
) -> Result<Listing> {
    let options = DeleteOptions::read(query, sent)?;
    let mut listing = collect(registry, granted, query, view).await?;
    let kind = &granted.path().kind;
    let stored = kind.storage();
    let space = granted.space()?;
    // What every space has is not meant by who deletes all.
    listing
        .objects
        .retain(|object| !built_in::is_one(&stored, &object.key));
    // Nor is what the system publishes.
    if publish::concerns(&stored, space) {
        let own = |object: &Arc<Stored>| publish::is_own(registry, space, object);
        listing.objects.retain(own);
    }
    // What cannot be shown is not deleted.
    let errand = Some(granted.errand());
    form::prepare(registry, errand, kind, listing.objects.iter()).await?;
    let addresses = listing.objects.iter().map(|object| Address {
        kind: stored.clone(),
        space: space.clone(),
        namespace: object.namespace().map(str::to_owned),
        name: object.name().to_owned(),
    });
    let addresses: Vec<_> = addresses.map(Ok).collect();
    let options = &options;
    stream::iter(addresses)
        .try_for_each_concurrent(AT_ONCE, |address| async move {
            let mut act = Act::new(registry, granted, Operation::Delete, kind, &address);
            act.name = "";
            let removed = remove_for(registry, kind, &address, options, Some(act)).await;
            removed.map(drop)
        })
        .await?;
    Ok(listing)
}

/// Deletes an object, or marks it. `None` if there is no such object.
pub async fn remove(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
) -> Result<Option<Deleted>> {
    remove_for(registry, kind, address, options, None).await
}

/// The same, if others admit it whom somebody's wish concerns.
pub async fn remove_for(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    act: Option<Act<'_>>,
) -> Result<Option<Deleted>> {
    let act = act.map(|act| Act {
        dry_run: options.dry_run,
        options: Some(&options.object),
        ..act
    });
    refuse_the_immortal(registry, kind, address).await?;
    // What the cache has is nearly always what is there. An answer that changes nothing must
    // not be about the past, so it is given only after another look.
    let mut certain = options.dry_run;
    let mut current = match certain {
        true => registry.fresh(address).await?,
        false => registry.cached(address),
    };
    loop {
        // What no store has cannot be removed from one.
        let Some(object) = current.filter(|object| !object.built_in) else {
            if certain {
                return Ok(None);
            }
            certain = true;
            current = registry.fresh(address).await?;
            continue;
        };
        match attempt(registry, kind, address, options, act.as_ref(), &object).await {
            Ok(Attempt::Done(deleted)) => return Ok(Some(deleted)),
            Ok(Attempt::Unchanged(deleted)) if certain => return Ok(Some(deleted)),
            Ok(Attempt::Lost(at)) => {
                registry.cache().reach(at).await;
                current = registry.cached(address);
            }
            Err(refusal) if certain => return Err(refusal),
            undone => {
                certain = true;
                current = registry.fresh(address).await?;
                let now = current.as_ref().map(|current| current.revision);
                // Nobody is asked twice about the same.
                if now == Some(object.revision)
                    && !matches!(undone, Ok(Attempt::Done(_) | Attempt::Lost(_)))
                {
                    return undone.map(Attempt::deleted);
                }
            }
        }
    }
}

enum Attempt {
    Done(Deleted),
    /// It was on its way before, if it is still as it was seen.
    Unchanged(Deleted),
    /// Somebody else changed it at this revision.
    Lost(Revision),
}

impl Attempt {
    fn deleted(self) -> Option<Deleted> {
        match self {
            Self::Done(deleted) | Self::Unchanged(deleted) => Some(deleted),
            Self::Lost(_) => None,
        }
    }
}

async fn attempt(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    act: Option<&Act<'_>>,
    current: &Arc<Stored>,
) -> Result<Attempt> {
    let mut object = current.tree();
    check_preconditions(kind, address, options, current, &object)?;
    if let Some(act) = act.filter(|act| act.concerns_anybody()) {
        let shown;
        let old = match act.kind.custom() {
            None => &object,
            Some(_) => {
                shown = rules::shown(registry, Some(act.by), act.kind, current).await?;
                &shown
            }
        };
        admit::mutate(act, None, Some(old)).await?;
        admit::validate(act, None, Some(old)).await?;
    }
    if address.kind.is(apis::definitions()) {
        hold_definition(&mut object);
    }
    let key = registry.key(address);
    let transaction = match mark(address.of(), &mut object, options) {
        Mark::Remove => Transaction::remove(key, current.revision),
        Mark::Unchanged => {
            return Ok(Attempt::Unchanged(Deleted {
                object: Arc::clone(current),
                gone: false,
                warnings: Vec::new(),
            }));
        }
        Mark::Changed => {
            metadata::of(&mut object).remove("resourceVersion");
            let value = encoded(address.of(), &object);
            let marked = |revision| {
                let object = Stored::new(Arc::clone(&current.key), revision, &value);
                Attempt::Done(Deleted {
                    object: Arc::new(object),
                    gone: false,
                    warnings: Vec::new(),
                })
            };
            if options.dry_run {
                return Ok(marked(current.revision));
            }
            let stored = expiry::stored(address, value.clone());
            let transaction = Transaction::update(key, current.revision, stored);
            return Ok(match registry.commit(transaction).await? {
                Outcome::Committed(revision) | Outcome::Unchanged(revision) => marked(revision),
                Outcome::Conflict(conflict) => Attempt::Lost(conflict.revision),
            });
        }
    };
    let gone = Deleted {
        object: Arc::clone(current),
        gone: true,
        warnings: Vec::new(),
    };
    if options.dry_run {
        return Ok(Attempt::Done(gone));
    }
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(_) | Outcome::Unchanged(_) => Attempt::Done(gone),
        Outcome::Conflict(conflict) => Attempt::Lost(conflict.revision),
    })
}

/// A definition waits until nothing is left of what it defines.
fn hold_definition(definition: &mut Object) {
    if metadata::text(definition, "deletionTimestamp").is_some() {
        return;
    }
    let mut held: Vec<Value> = metadata::finalizers(definition).map(Value::from).collect();
    if !held.iter().any(|name| name == condition::FINALIZER) {
        held.push(condition::FINALIZER.into());
    }
    metadata::of(definition).insert("finalizers".to_owned(), held.into());
    let status = definition.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        set_condition(status, &Condition::deletion_pending(), &time::now());
    }
}

fn check_preconditions(
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    current: &Stored,
    object: &Object,
) -> Result<()> {
    let is = metadata::text(object, "uid").unwrap_or("");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != is) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({is}). The \
             object might have been deleted and then recreated"
        );
        return Err(Refusal::precondition(kind, &address.name, &why));
    }
    let is = current.revision.to_string();
    if let Some(revision) = options
        .revision
        .as_deref()
        .filter(|revision| *revision != is)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({revision}) does not match the \
             ResourceVersion in record ({is}). The object might have been modified"
        );
        return Err(Refusal::precondition(kind, &address.name, &why));
    }
    Ok(())
}

enum Mark {
    /// Nothing holds it: it goes at once.
    Remove,
    /// It is marked, and goes when what holds it lets go.
    Changed,
    /// It was marked before.
    Unchanged,
}

/// Marks the object if something holds it.
fn mark(kind: &Kind, object: &mut Object, options: &DeleteOptions) -> Mark {
    let is_pod = kind.kind == "Pod" && kind.group.is_empty();
    let grace = if is_pod {
        pod_grace(object, options)
    } else {
        0
    };
    let held = grace > 0
        || metadata::finalizers(object).next().is_some()
        || metadata::held_by_spec(kind, object).next().is_some();
    if !held {
        return Mark::Remove;
    }
    let marked = object
        .get("metadata")
        .and_then(|of| of.get("deletionTimestamp"))
        .is_some();
    let was = object
        .get("metadata")
        .and_then(|of| of.get("deletionGracePeriodSeconds"));
    let was = was.and_then(Value::as_i64).unwrap_or(0);
    if marked && (!is_pod || grace >= was) {
        return Mark::Unchanged;
    }
    let of = metadata::of(object);
    of.insert("deletionTimestamp".to_owned(), after(grace).into());
    if !metadata::holds_by_spec(kind) {
        of.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    if let Some(generation) = of
        .get("generation")
        .and_then(Value::as_i64)
        .filter(|_| !marked)
    {
        of.insert("generation".to_owned(), (generation + 1).into());
    }
    if metadata::holds_by_spec(kind) {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("phase".to_owned(), "Terminating".into());
        }
    }
    Mark::Changed
}

/// How long a pod has to end: as long as was said, or as it says itself; a pod that runs
/// nowhere has nothing to end.
fn pod_grace(pod: &Object, options: &DeleteOptions) -> i64 {
    let member = |part: &str, name: &str| pod.get(part).and_then(|of| of.get(name)).cloned();
    let own = member("spec", "terminationGracePeriodSeconds").and_then(|value| value.as_i64());
    let asked = options.grace.or(own).unwrap_or(30);
    let phase = member("status", "phase");
    let phase = phase.as_ref().and_then(Value::as_str).unwrap_or("");
    let node = member("spec", "nodeName");
    let scheduled = node
        .as_ref()
        .and_then(Value::as_str)
        .is_some_and(|node| !node.is_empty());
    if !scheduled || phase == "Succeeded" || phase == "Failed" {
        return 0;
    }
    if asked < 0 { 1 } else { asked }
}

fn after(seconds: i64) -> String {
    let at = jiff::Timestamp::now().as_second().saturating_add(seconds);
    jiff::Timestamp::from_second(at).map_or_else(|_| time::now(), |at| at.to_string())
}

/// What every space needs stays, as long as the space does.
async fn refuse_the_immortal(registry: &Registry, kind: &Kind, address: &Address) -> Result<()> {
    let namespace =
        address.kind.is(core_kind("namespaces")) && NAMESPACES.contains(&address.name.as_str());
    let built_in = built_in::is_one(&address.kind, &address.within());
    if (namespace || built_in) && !is_going(registry, &address.space).await? {
        let why = match namespace {
            true => "this namespace may not be deleted",
            false => "every space has it, so it may not be deleted; it may be changed",
        };
        return Err(Refusal::not_allowed(kind, &address.name, why));
    }
    if address.kind.is(core_kind("tenants")) && address.name == SYSTEM {
        let why = "this tenant may not be deleted";
        return Err(Refusal::not_allowed(address.of(), &address.name, why));
    }
    Ok(())
}

/// Whether the space is on its way out with everything in it.
async fn is_going(registry: &Registry, space: &Space) -> Result<bool> {
    let Space::Tenant(tenant) = space else {
        return Ok(false);
    };
    registry.catch_up().await?;
    let tenant = registry.tenant(tenant.as_str());
    Ok(tenant.is_none_or(|tenant| tenant.terminating))
}
