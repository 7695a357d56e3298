//! An object gone, or on its way.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use insula_admission::Operation;
use insula_core::{Revision, SYSTEM, Space};
use insula_custom::condition::{self, Condition, set_condition};
use insula_kinds::{FieldError, Kind, Object, Value, decode, protobuf, time, types};
use insula_store::{Expect, Outcome, Transaction};
use memchr::memmem;
use serde_json::json;

use super::metadata;
use super::propagation::{Policy, propagate};
use super::rules::{self, encoded};
use crate::admit::{self, Act};
use crate::apis;
use crate::authorize::Granted;
use crate::built_in;
use crate::cache::Stored;
use crate::expiry;
use crate::form;
use crate::intake::Sent;
use crate::negotiate::Media;
use crate::publish::{self, absent};
use crate::query::{self, Query};
use crate::read::{Listing, collect};
use crate::registry::{Address, Registry, core_kind};
use crate::served::Served;
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
    /// What becomes of dependents; if nobody says, the object or its kind does.
    policy: Option<Policy>,
    /// Whether the caller asked, in the old way, for dependents to be deleted: who did is
    /// told that this goes on.
    asks_for_cascade: bool,
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
    /// Whether the caller is told that this was accepted, and not that it is done.
    pub accepted: bool,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// What became of the deletion of many.
#[derive(Debug)]
pub struct Emptied {
    /// The objects as they were before.
    pub listing: Listing,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// An object that is to be deleted exactly as it was seen.
#[derive(Clone, Debug)]
pub struct Doomed {
    /// Where it is.
    pub address: Address,
    /// How it was seen.
    pub object: Arc<Stored>,
    /// What becomes of its dependents.
    pub policy: Policy,
}

impl Deleted {
    /// The object is on its way.
    const fn marked(object: Arc<Stored>) -> Self {
        Self {
            object,
            gone: false,
            accepted: false,
            warnings: Vec::new(),
        }
    }
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
            && Policy::parse(policy).is_none()
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
        let orphans = object.get("orphanDependents").and_then(Value::as_bool);
        Ok(Self {
            dry_run,
            grace: object.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            policy: match orphans {
                Some(true) => Some(Policy::Orphan),
                Some(false) => Some(Policy::Background),
                None => policy.and_then(Policy::parse),
            },
            asks_for_cascade: orphans == Some(false),
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
            uid: object.uid().map(str::to_owned),
            revision: Some(object.revision.to_string()),
            ..Self::default()
        }
    }

    /// The same, and this becomes of dependents.
    pub fn propagating(self, policy: Policy) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// What somebody should know who says nothing about dependents, and might not expect
    /// what becomes of them.
    fn warning(&self, kind: &Kind) -> Option<String> {
        let is_job = kind.group == "batch" && kind.kind == "Job";
        let warning = "child pods are preserved by default when jobs are deleted; set \
                       propagationPolicy=Background to remove them or set \
                       propagationPolicy=Orphan to suppress this warning";
        (is_job && self.policy.is_none()).then(|| warning.to_owned())
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
    let unreadable = |error: &dyn ToString| Refusal::bad_request(error.to_string());
    let identity = match sent.media {
        Media::Json => decode::identity_json(&sent.body),
        Media::Yaml => decode::identity_yaml(&sent.body),
        Media::Protobuf => {
            let envelope = protobuf::open(&sent.body).map_err(|error| unreadable(&error))?;
            check_kind(envelope.kind)?;
            let options = protobuf::decode(of, envelope.raw);
            return options.map_err(|error| unreadable(&error));
        }
    };
    let identity = identity.map_err(|error| unreadable(&error))?;
    check_kind(identity.kind.as_deref().unwrap_or(""))?;
    let decoded = match sent.media {
        Media::Yaml => decode::yaml(of, &sent.body),
        _ => decode::json(of, &sent.body),
    };
    Ok(decoded.map_err(|error| unreadable(&error))?.object)
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
    deleted.accepted = !deleted.gone && options.asks_for_cascade;
    deleted.warnings.extend(options.warning(kind));
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
) -> Result<Emptied> {
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
    Ok(Emptied {
        listing,
        warnings: options.warning(kind).into_iter().collect(),
    })
}

/// Deletes objects in one transaction, all or none: `None` if one is not as it was seen any
/// more. There must not be more of them than a transaction takes.
pub async fn remove_together(registry: &Registry, doomed: &[Doomed]) -> Result<Option<Revision>> {
    let mut transaction = Transaction::new();
    for Doomed {
        address,
        object,
        policy,
    } in doomed
    {
        refuse_the_immortal(registry, address.of(), address).await?;
        let key = registry.key(address);
        if *policy == Policy::Background && is_free(address, object) {
            let at = Expect::At(object.revision);
            transaction = transaction.delete(key.clone()).check(key, at);
            continue;
        }
        let mut tree = object.tree();
        let options = DeleteOptions::default().propagating(*policy);
        transaction = match doom(address, &mut tree, &options) {
            Mark::Unchanged => continue,
            Mark::Remove => transaction.delete(key.clone()),
            Mark::Changed => transaction.put(key.clone(), unversioned(address, &mut tree)),
        }
        .check(key, Expect::At(object.revision));
    }
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => Some(revision),
        Outcome::Conflict(_) => None,
    })
}

/// Whether nothing holds an object, as can be said without reading it.
fn is_free(address: &Address, object: &Stored) -> bool {
    goes_at_once(&address.kind) && memmem::find(&object.body(), br#""finalizers":["#).is_none()
}

/// Whether objects of a kind wait for nothing but finalizers when they are deleted.
pub fn goes_at_once(kind: &Served) -> bool {
    let special = ["pods", "namespaces", "tenants"];
    !kind.is(apis::definitions()) && !special.iter().any(|name| kind.is(core_kind(name)))
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
    let key = registry.key(address);
    let transaction = match doom(address, &mut object, options) {
        Mark::Remove => Transaction::remove(key, current.revision),
        Mark::Unchanged => {
            return Ok(Attempt::Unchanged(Deleted::marked(Arc::clone(current))));
        }
        Mark::Changed => {
            let value = unversioned(address, &mut object);
            let marked = |revision| {
                let object = Stored::new(Arc::clone(&current.key), revision, &value);
                Attempt::Done(Deleted::marked(Arc::new(object)))
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
        gone: true,
        ..Deleted::marked(Arc::clone(current))
    };
    if options.dry_run {
        return Ok(Attempt::Done(gone));
    }
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(_) | Outcome::Unchanged(_) => Attempt::Done(gone),
        Outcome::Conflict(conflict) => Attempt::Lost(conflict.revision),
    })
}

/// What is done to the object, which is changed if it is not removed.
fn doom(address: &Address, object: &mut Object, options: &DeleteOptions) -> Mark {
    // What becomes of dependents is decided with the first deletion, but for a definition:
    // there it is left open until the objects that it defines are gone.
    let first = metadata::text(object, "deletionTimestamp").is_none();
    if address.kind.is(apis::definitions()) && first {
        hold_definition(object);
        return mark(address.of(), object, options, None);
    }
    let policy = Some(options.policy);
    mark(address.of(), object, options, policy)
}

/// The object as it is stored, which must not say which version it is.
fn unversioned(address: &Address, object: &mut Object) -> Bytes {
    metadata::of(object).remove("resourceVersion");
    encoded(address.of(), object)
}

/// A definition waits until nothing is left of what it defines.
fn hold_definition(definition: &mut Object) {
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

/// Marks the object if something holds it, the collector of garbage included.
fn mark(
    kind: &Kind,
    object: &mut Object,
    options: &DeleteOptions,
    propagation: Option<Option<Policy>>,
) -> Mark {
    let marked = metadata::text(object, "deletionTimestamp").is_some();
    if marked && metadata::held_by_spec(kind, object).next().is_some() {
        return Mark::Unchanged;
    }
    let was = object
        .get("metadata")
        .and_then(|of| of.get("deletionGracePeriodSeconds"));
    let was = was.and_then(Value::as_i64).unwrap_or(0);
    let is_pod = kind.kind == "Pod" && kind.group.is_empty();
    let ending = is_pod && marked && was > 0;
    let grace = match is_pod {
        true if ending => shorter_grace(options, was),
        true if !marked => Some(pod_grace(object, options)),
        _ => Some(0),
    };
    let Some(grace) = grace else {
        return Mark::Unchanged;
    };
    let changed = propagation.is_some_and(|policy| propagate(kind, object, policy));
    let held = grace > 0
        || metadata::finalizers(object).next().is_some()
        || metadata::held_by_spec(kind, object).next().is_some();
    match (held, marked && !ending, changed) {
        (false, _, _) => return Mark::Remove,
        (true, true, false) => return Mark::Unchanged,
        (true, true, true) => return Mark::Changed,
        (true, false, _) => {}
    }
    set_mark(kind, object, grace, marked);
    Mark::Changed
}

fn set_mark(kind: &Kind, object: &mut Object, grace: i64, marked: bool) {
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

/// How long a pod has that is ending already: its time may be made shorter, and nothing else.
fn shorter_grace(options: &DeleteOptions, was: i64) -> Option<i64> {
    let asked = if options.grace? < 0 {
        1
    } else {
        options.grace?
    };
    (asked < was).then_some(asked)
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
