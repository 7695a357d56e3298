//! The steps of one reconciliation, in their order.

use std::time::Duration;

use insula_operator::key::Key;
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;

use super::access::{Azure, SUBSCRIPTION_MISMATCH, has_another_credential, open, outcome};
use super::claim::{self, Claim, claim, overlap};
use super::credentials::scope_name;
use super::object::Object;
use super::ownership::Admission;
use super::pacing::{Subject, Wait};
use super::policy::policy;
use super::ready::Problem;
use super::{Reconciliation, conclude, duplicate, held_secret, inputs, monitor, remove, send};
use crate::arm::ResourceId;
use crate::names::{
    CREDENTIAL_SCOPE, CREDENTIAL_SECRET, FINALIZER, LAST_RECONCILED_VERSION, OWNER_GROUP_KIND,
    OWNER_NAME, OWNER_UID, POLLER_RESUME_TOKEN, RECONCILED_INPUTS, RELEASE, RESOURCE_ID,
};
use crate::settings::ReconcilePolicy;

/// The longest name of another operator that is reported.
const MAX_NAME: usize = 253;
/// The longest value of a label.
const MAX_LABEL: usize = 63;

/// Reconciles one object.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let provider = &of.context.provider;
    if let Some(delay) = provider.rate_limit.wait(&of.key.text(), Instant::now()) {
        return Ok(Outcome::Waits(delay));
    }
    let Some(mut object) = Object::load(of).await? else {
        provider.forget(of.key);
        return Ok(Outcome::Gone);
    };
    let (claim, look_after) = claim_of(&object).await?;
    match claim {
        Claim::Other(other) => return report_overlap(object, &other, look_after).await,
        // Another operator may claim it at the same time: only one write succeeds.
        Claim::Free(annotations) => object.annotate(annotations).await?,
        Claim::Own => {}
    }
    if has_overlap_ended(&object) {
        object.report_overlap(None).await?;
    }
    held_secret::depend_on_credential(&object);
    held_secret::release_replaceable(&object).await?;
    let policy = policy(
        object.annotations(),
        &object.of_namespace,
        provider.default_policy,
    );
    match object.is_deleting() {
        true => remove::reconcile(object, policy).await,
        false => bring_in_line(object, policy).await,
    }
}

/// Returns the operator that an object belongs to. An operator of all namespaces leaves those with
/// a claim of another operator alone; the time is when to look again then.
async fn claim_of(object: &Object<'_>) -> Result<(Claim, Option<Duration>), kube::Error> {
    let own = own_name(object);
    let claim = claim(object.annotations(), &own);
    let claims = object.of.context.provider.foreign_claims.as_ref();
    let (Some(claims), Claim::Own | Claim::Free(_)) = (claims, &claim) else {
        return Ok((claim, None));
    };
    let is_own = claim == Claim::Own;
    Ok(match claims.operator_of(object, &own, is_own).await? {
        Some(other) => (Claim::Other(other.name), Some(other.look_after)),
        None => (claim, None),
    })
}

/// Returns the name of this operator in the space of an object.
fn own_name(object: &Object<'_>) -> String {
    let namespace = &object.of.context.provider.namespace;
    claim::operator_name(namespace, &object.of.key.space)
}

/// Brings the resource in Azure in line with an object that stays.
async fn bring_in_line(
    mut object: Object<'_>,
    policy: ReconcilePolicy,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let (id, opened) = match claim_resource(&mut object, policy).await? {
        Claimed::Yes { id, opened } => (id, opened),
        Claimed::Other { id, azure, owner } => {
            return duplicate::refuse(object, &azure, &id, &owner).await;
        }
        Claimed::No(problem, outcome) => {
            if let Some(problem) = problem {
                object.report(Some(&problem)).await?;
            }
            return Ok(outcome);
        }
    };
    if policy == ReconcilePolicy::Skip {
        duplicate::give_up(&mut object).await?;
        return conclude::read_only(object, &id).await;
    }
    if object.annotation(POLLER_RESUME_TOKEN).is_some() {
        inputs::depend(&object);
        object.flush().await?;
        return monitor::reconcile(object, &id).await;
    }
    let inputs = match inputs::gather(&object).await? {
        Ok(inputs) => inputs,
        Err(problem) => {
            object.report(Some(&problem)).await?;
            return Ok(Outcome::Waits(of.resync_after()));
        }
    };
    let wait = not_due(&object, &inputs.digest);
    if let Some(wait) = wait
        && !has_another_credential(&object).await?
    {
        object.flush().await?;
        return Ok(outcome(of, wait));
    }
    send::reconcile(object, &id, inputs, opened).await
}

/// Returns how long an object has to wait because it is in order, because it failed, or because
/// Azure asked for it; none if it is to be sent now.
fn not_due(object: &Object<'_>, digest: &str) -> Option<Wait> {
    let (pacing, key) = (&object.of.context.provider.pacing, object.of.key.text());
    let (subject, now) = (Subject::Inputs(digest.to_owned()), Instant::now());
    if let Some(wait) = pacing.wait(&key, &subject, now) {
        return Some(wait);
    }
    let is_same = object.annotation(RECONCILED_INPUTS) == Some(digest);
    let ready = object.ready().filter(|_| is_same && !pacing.knows(&key))?;
    let generation = object.generation();
    if ready.is_true_at(generation) {
        // Without a record, an object that is sent before this one would own the resource.
        let is_owner = object.of.context.provider.owners.is_owner(object.of.key);
        return is_owner.then(|| pacing.adopted(&key, subject, now));
    }
    // The credential may have been corrected while the operator did not run.
    let is_final = ready.is_error_at(generation) && !ready.has_reason(SUBSCRIPTION_MISMATCH);
    is_final.then_some(Wait::ForChange)
}

/// Returns whether the condition about another operator is obsolete.
fn has_overlap_ended(object: &Object<'_>) -> bool {
    let own = own_name(object);
    claim::has_overlap_ended(&object.value()["status"], &own, Timestamp::now())
}

/// Reports another operator that is to reconcile the object too. Nothing else is done with it, not
/// even if it is deleted.
async fn report_overlap(
    mut object: Object<'_>,
    other: &str,
    look_after: Option<Duration>,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    // Users can edit the annotation with the other name.
    let other: String = other.chars().take(MAX_NAME).collect();
    let message = overlap(&own_name(&object), &other);
    // The condition is renewed from time to time, and with it the event.
    if !claim::is_reported(&object.value()["status"], &message) {
        warn!(key = %of.key, %other, "object belongs to another operator");
        object.report_overlap(Some(&message)).await?;
        object.record(true, "Overlap", message).await;
    }
    let resync = of.resync_after();
    Ok(Outcome::Waits(
        look_after.map_or(resync, |look| look.min(resync)),
    ))
}

/// Whether an object is claimed: its ARM id is fixed, and it has the finalizer.
enum Claimed {
    /// It is, or the next write makes it so. The access is open in the latter case.
    Yes {
        id: ResourceId,
        opened: Option<Azure>,
    },
    No(Option<Problem>, Outcome),
    /// Its resource belongs to another object.
    Other {
        id: ResourceId,
        azure: Azure,
        owner: Box<Key>,
    },
}

/// Claims an object, so that a request to Azure is never lost: its ARM id, the scope of its
/// credential and the finalizer are written before the first one, and before the Secret is held.
async fn claim_resource(
    object: &mut Object<'_>,
    policy: ReconcilePolicy,
) -> Result<Claimed, kube::Error> {
    let known = object.arm_id().filter(|_| object.has_finalizer(FINALIZER));
    let Some(id) = known else {
        return claim_new(object, policy).await;
    };
    record_version(object).await?;
    Ok(Claimed::Yes { id, opened: None })
}

/// Claims an object for the first time.
async fn claim_new(
    object: &mut Object<'_>,
    policy: ReconcilePolicy,
) -> Result<Claimed, kube::Error> {
    let of = object.of;
    let blocked = |problem| Claimed::No(Some(problem), Outcome::Waits(of.resync_after()));
    let owner = match inputs::owner(object).await? {
        Ok(owner) => owner,
        Err(problem) => return Ok(blocked(problem)),
    };
    let name = match inputs::azure_name(object).await? {
        Ok(name) => name,
        Err(problem) => return Ok(blocked(problem)),
    };
    let azure = match open(object).await? {
        Ok(azure) => azure,
        Err((problem, outcome)) => return Ok(Claimed::No(problem, outcome)),
    };
    let owner_id = owner.as_ref().map(|owner| &owner.id);
    let subscription = azure.session.subscription();
    let id = match inputs::compose_id(object.kind, owner_id, subscription, &name) {
        Ok(id) => id,
        Err(error) => return Ok(blocked(Problem::error("Failed", error.to_string()))),
    };
    // An owner that is a custom resource may be in another subscription than the credential.
    if let Err(problem) = azure.check_subscription(&id) {
        return Ok(blocked(problem));
    }
    if policy != ReconcilePolicy::Skip {
        let owners = &of.context.provider.owners;
        match owners.admit(of.key, &id, &azure.server(), Instant::now()) {
            Admission::Granted => {}
            Admission::Wait(delay) => return Ok(Claimed::No(None, Outcome::Waits(delay))),
            Admission::Refused(owner) => return Ok(Claimed::Other { id, azure, owner }),
        }
    }
    let owner = owner.and_then(|owner| owner.object);
    let fields = claim_fields(object, &id, &azure, owner.as_ref());
    object.write_with_next(fields);
    if azure.has_secret() {
        // The object is a user of the Secret before it holds it: what it holds is released with
        // it, and no other object ends the hold meanwhile.
        object.flush().await?;
        of.forget_secrets();
        if !azure.hold(object).await? {
            return Ok(Claimed::No(None, Outcome::Progressed));
        }
    }
    let opened = Some(azure);
    Ok(Claimed::Yes { id, opened })
}

/// Returns the metadata of an object that is claimed.
fn claim_fields(
    object: &Object<'_>,
    id: &ResourceId,
    azure: &Azure,
    owner: Option<&DynamicObject>,
) -> Value {
    let mut fields = json!({
        "annotations": {
            RESOURCE_ID: id.as_str(), CREDENTIAL_SCOPE: scope_name(azure.credential.level),
            CREDENTIAL_SECRET: held_secret::recorded_name(&azure.credential),
        },
        "finalizers": with(object.metadata().finalizers.as_deref(), FINALIZER),
        "labels": {LAST_RECONCILED_VERSION: RELEASE},
    });
    if let Some(owner) = owner {
        for (name, value) in owner_labels(owner) {
            fields["labels"][name] = value.into();
        }
        fields["ownerReferences"] = owner_references(object, owner);
    }
    fields
}

/// Records the version of this operator, for upgrades: definitions may drop a version only after
/// every object was reconciled by an operator that does not need it.
async fn record_version(object: &mut Object<'_>) -> Result<(), kube::Error> {
    let labels = object.metadata().labels.as_ref();
    let known = labels.and_then(|labels| labels.get(LAST_RECONCILED_VERSION));
    if known.is_some_and(|known| known == RELEASE) {
        return Ok(());
    }
    let labels = json!({"labels": {LAST_RECONCILED_VERSION: RELEASE}});
    object.patch_metadata(labels).await
}

fn with(finalizers: Option<&[String]>, finalizer: &str) -> Vec<String> {
    let mut all = finalizers.unwrap_or_default().to_vec();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.to_owned());
    }
    all
}

fn owner_labels(owner: &DynamicObject) -> [(&'static str, String); 3] {
    let types = owner.types.clone().unwrap_or_default();
    let group = types.api_version.split('/').next().unwrap_or_default();
    let short = |text: String| text.chars().take(MAX_LABEL).collect::<String>();
    [
        (OWNER_NAME, short(owner.name_any())),
        (OWNER_GROUP_KIND, short(format!("{}.{group}", types.kind))),
        (OWNER_UID, short(owner.uid().unwrap_or_default())),
    ]
}

/// Returns the owner references of an object with its owner, so that it is deleted with it.
fn owner_references(object: &Object<'_>, owner: &DynamicObject) -> Value {
    let types = owner.types.clone().unwrap_or_default();
    let reference = json!({
        "apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(),
        "uid": owner.uid(),
    });
    let known = object.value()["metadata"]["ownerReferences"].as_array();
    let known = known.into_iter().flatten();
    let mut all: Vec<Value> = known
        .filter(|known| known["uid"] != reference["uid"])
        .cloned()
        .collect();
    all.push(reference);
    Value::Array(all)
}
