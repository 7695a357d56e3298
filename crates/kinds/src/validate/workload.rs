//! Workloads that keep pods running.

use super::check::{self, Errors};
use super::meta;
use super::pod;
use super::tree::Node;
use crate::FieldError;
use crate::selector::LabelSelector;
use crate::text;

/// Validates a Deployment.
pub(super) fn deployment(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    check::nonnegative(&spec.get("replicas"), errors);
    required_selector(&spec, "deployment", errors);
    replicated_template(&spec, "ReplicaSet", errors);
    deployment_strategy(&spec.get("strategy"), errors);
    check::nonnegative(&spec.get("minReadySeconds"), errors);
    check::nonnegative(&spec.get("revisionHistoryLimit"), errors);
    let deadline = spec.get("progressDeadlineSeconds");
    check::nonnegative(&deadline, errors);
    let ready = spec.get("minReadySeconds").int().unwrap_or_default();
    if deadline.int().is_some_and(|seconds| seconds <= ready) {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

/// Validates an update of a Deployment.
pub(super) fn deployment_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    deployment(new, errors);
    selector_update(old, new, errors);
}

/// Validates an update of a ReplicaSet.
pub(super) fn replica_set_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    replica_set(new, errors);
    selector_update(old, new, errors);
}

/// Validates an update of a workload: the selector is immutable.
pub(super) fn selector_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (old, new) = (old.get("spec"), new.get("spec"));
    check::immutable_selector(&old.get("selector"), &new.get("selector"), errors);
}

/// Validates a ReplicaSet.
pub(super) fn replica_set(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    check::all_nonnegative(&spec, &["replicas", "minReadySeconds"], errors);
    // Kubernetes uses this wording for both kinds.
    required_selector(&spec, "deployment", errors);
    replicated_template(&spec, "ReplicaSet", errors);
}

fn required_selector(spec: &Node<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.get("selector");
    if !selector.is_set() {
        errors.push(selector.required(""));
        return;
    }
    meta::selector(&selector, errors);
    if selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty() {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(check::invalid_selector(&selector, &detail));
    }
}

/// Validates the template of replicated pods, which must always restart.
fn replicated_template(spec: &Node<'_>, kind: &str, errors: &mut Errors) {
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    if let Some(selector) = selector.object()
        && LabelSelector::from_object(selector).is_err()
    {
        let detail = "invalid label selector";
        errors.push(check::invalid_selector(&spec.get("selector"), detail));
        return;
    }
    if !is_empty_selector(&selector) {
        check::selects_template(&selector, &template.get("metadata").get("labels"), errors);
    }
    pod::template(&template, errors);
    restart_policy_always(&template, kind, errors);
}

/// Whether the selector is set and empty. It matches everything, a missing one nothing.
fn is_empty_selector(selector: &Node<'_>) -> bool {
    selector.is_set()
        && selector.get("matchLabels").is_empty()
        && selector.get("matchExpressions").is_empty()
}

fn restart_policy_always(template: &Node<'_>, kind: &str, errors: &mut Errors) {
    let spec = template.get("spec");
    if spec.get("restartPolicy").text() != "Always" {
        errors.push(spec.get("restartPolicy").not_supported(&["Always"]));
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.is_set() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(deadline.forbidden(&detail));
    }
}

fn deployment_strategy(strategy: &Node<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(rolling.forbidden(detail));
            }
        }
        "RollingUpdate" if rolling.is_set() => {
            let (down, up) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            check::int_or_percent(&down, errors);
            check::int_or_percent(&up, errors);
            if check::number_of(&down) == 0 && check::number_of(&up) == 0 {
                errors.push(down.invalid("may not be 0 when `maxSurge` is 0"));
            }
            check::not_above_100_percent(&down, errors);
        }
        "RollingUpdate" => {
            let detail = "this should be defaulted and never be nil";
            errors.push(rolling.required(detail));
        }
        _ => errors.push(unknown_strategy(strategy, &["Recreate", "RollingUpdate"])),
    }
}

/// Returns the error of an unknown strategy type, with the strategy as Go prints it.
fn unknown_strategy(strategy: &Node<'_>, known: &[&str]) -> FieldError {
    let rolling = strategy.get("rollingUpdate");
    let rolling = if rolling.is_set() {
        let (down, up) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
        let (down, up) = (down.value(), up.value());
        format!(r#"{{"MaxUnavailable":{down},"MaxSurge":{up}}}"#)
    } else {
        "null".to_owned()
    };
    let kind = serde_json::Value::from(strategy.get("type").text());
    let printed = format!(r#"{{"Type":{kind},"RollingUpdate":{rolling}}}"#);
    FieldError::not_supported_printed(strategy.path.to_string(), &printed, known)
}

/// Formats a StatefulSet's rolling update as Go does.
fn printed_rolling(rolling: &Node<'_>) -> String {
    if !rolling.is_set() {
        return "null".to_owned();
    }
    let part = rolling.get("partition").int().unwrap_or_default();
    let down = rolling.get("maxUnavailable");
    format!(
        r#"{{"Partition":{part},"MaxUnavailable":{}}}"#,
        down.value()
    )
}

/// Validates a StatefulSet.
pub(super) fn stateful_set(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    for claim in stateful_spec(&spec, errors) {
        pod::claim_spec(&claim.get("spec"), errors);
    }
    stateful_rest(&spec, true, errors);
}

/// Validates the fields before the claim templates, which it returns.
fn stateful_spec<'a>(
    spec: &Node<'a>,
    errors: &mut Errors,
) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let management = spec.get("podManagementPolicy");
    if check::required(&management, errors)
        && !["OrderedReady", "Parallel"].contains(&management.text())
    {
        errors.push(management.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    stateful_strategy(&spec.get("updateStrategy"), errors);
    let retention = spec.get("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for field in ["whenDeleted", "whenScaled"] {
            if !["Retain", "Delete"].contains(&retention.get(field).text()) {
                errors.push(retention.get(field).not_supported(&["Retain", "Delete"]));
            }
        }
    }
    spec.get("volumeClaimTemplates").items()
}

fn stateful_strategy(strategy: &Node<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let printed = printed_rolling(&rolling);
                let place = rolling.path.to_string();
                errors.push(FieldError::invalid_printed(place, &printed, detail));
            }
        }
        "RollingUpdate" => {
            check::nonnegative(&rolling.get("partition"), errors);
            let down = rolling.get("maxUnavailable");
            if down.is_set() {
                check::int_or_percent(&down, errors);
                if check::number_of(&down) == 0 {
                    errors.push(down.invalid("cannot be 0"));
                }
                check::not_above_100_percent(&down, errors);
            }
        }
        _ => {
            let kind = serde_json::Value::from(strategy.get("type").text());
            let rolling = printed_rolling(&rolling);
            let printed = format!(r#"{{"Type":{kind},"RollingUpdate":{rolling}}}"#);
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            let place = strategy.path.to_string();
            errors.push(FieldError::invalid_printed(place, &printed, detail));
        }
    }
}

fn stateful_rest(spec: &Node<'_>, is_new: bool, errors: &mut Errors) {
    check::all_nonnegative(spec, &["replicas", "minReadySeconds"], errors);
    let start = spec.get("ordinals").get("start");
    check::nonnegative(&start.at(spec.path.field("ordinals.start")), errors);
    if is_new {
        check::format_if_set(&spec.get("serviceName"), text::dns_label, errors);
    }
    required_selector(spec, "statefulset", errors);
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    if selector
        .object()
        .is_some_and(|of| LabelSelector::from_object(of).is_err())
    {
        // Kubernetes states no detail here.
        let printed = check::printed_selector(&selector);
        let place = selector.path.to_string();
        errors.push(FieldError::invalid_without_detail(place, &printed));
    } else {
        if !is_empty_selector(&selector) {
            let labels = template.get("metadata").get("labels");
            check::selects_template(&selector, &labels, errors);
        }
        stateful_template(spec, &template, errors);
        // As in Kubernetes, labels are validated twice.
        let metadata = template.get("metadata");
        let labels = metadata.get("labels").at(template.path.field("labels"));
        meta::labels(&labels, errors);
        let notes = metadata
            .get("annotations")
            .at(template.path.field("annotations"));
        meta::annotations(&notes, errors);
    }
    restart_policy_always(&template, "StatefulSet", errors);
}

/// Validates the template as the controller completes it: with a volume for each claim,
/// and its own hostname and subdomain.
fn stateful_template(spec: &Node<'_>, template: &Node<'_>, errors: &mut Errors) {
    let claims = spec.get("volumeClaimTemplates");
    let mut object = template.object().cloned().unwrap_or_default();
    if let Some(serde_json::Value::Object(pod)) = object.get_mut("spec") {
        pod.remove("subdomain");
        pod.remove("hostname");
        let names: Vec<_> = claims
            .items()
            .map(|claim| claim.get("metadata").get("name").text().to_owned())
            .collect();
        let volumes = pod.remove("volumes");
        let volumes = volumes.as_ref().and_then(|volumes| volumes.as_array());
        let mut all: Vec<_> = volumes.cloned().unwrap_or_default();
        all.retain(|volume| !names.iter().any(|name| volume["name"] == name.as_str()));
        all.extend(names.iter().map(
            |name| serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
        ));
        pod.insert("volumes".to_owned(), all.into());
    }
    let root = Node::root(&object);
    pod::template(&root.at(template.path.clone()), errors);
}

const IMMUTABLE_FIELDS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// Validates an update of a StatefulSet.
pub(super) fn stateful_set_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (old, new) = (old.get("spec"), new.get("spec"));
    let claims = stateful_spec(&new, errors);
    drop(claims);
    stateful_rest(&new, false, errors);
    let fixed = [
        "podManagementPolicy",
        "selector",
        "serviceName",
        "volumeClaimTemplates",
    ];
    if fixed
        .iter()
        .any(|field| !new.get(field).same(&old.get(field)))
    {
        errors.push(new.forbidden(IMMUTABLE_FIELDS));
    }
}

/// Validates a DaemonSet.
pub(super) fn daemon_set(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    meta::selector(&selector, errors);
    check::selects_template(&selector, &template.get("metadata").get("labels"), errors);
    if is_empty_selector(&selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(check::invalid_selector(&selector, detail));
    }
    pod::template(&template, errors);
    restart_policy_always(&template, "DaemonSet", errors);
    check::nonnegative(&spec.get("minReadySeconds"), errors);
    daemon_strategy(&spec.get("updateStrategy"), errors);
    check::nonnegative(&spec.get("revisionHistoryLimit"), errors);
}

fn daemon_strategy(strategy: &Node<'_>, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_set() => {
            let (down, up) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            check::int_or_percent(&down, errors);
            check::int_or_percent(&up, errors);
            check::not_above_100_percent(&down, errors);
            check::not_above_100_percent(&up, errors);
            match (check::number_of(&down) != 0, check::number_of(&up) != 0) {
                (true, true) => {
                    errors.push(up.invalid("may not be set when maxUnavailable is non-zero"));
                }
                (false, false) => errors.push(down.required("cannot be 0 when maxSurge is 0")),
                _ => {}
            }
        }
        "RollingUpdate" => errors.push(rolling.required("")),
        _ => errors.push(unknown_strategy(strategy, &["RollingUpdate", "OnDelete"])),
    }
}

/// Validates a ReplicationController.
pub(super) fn replication_controller(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    check::nonnegative(&spec.get("minReadySeconds"), errors);
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    check::required(&selector, errors);
    if spec.get("replicas").is_set() {
        check::nonnegative(&spec.get("replicas"), errors);
    } else {
        errors.push(spec.get("replicas").required(""));
    }
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let labels = template.get("metadata").get("labels");
    if let Some(selector) = selector.object()
        && !LabelSelector::from_labels(selector).matches_labels(labels.object())
    {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
    pod::template(&template, errors);
    restart_policy_always(&template, "ReplicationController", errors);
}

/// Validates a PodTemplate.
pub(super) fn pod_template(object: &Node<'_>, errors: &mut Errors) {
    pod::template(&object.get("template"), errors);
}

/// Validates a ControllerRevision.
pub(super) fn controller_revision(object: &Node<'_>, errors: &mut Errors) {
    check::nonnegative(&object.get("revision"), errors);
    let data = object.get("data");
    if !data.is_set() {
        errors.push(data.required("data is mandatory"));
    } else if data.object().is_none() {
        errors.push(data.required("data must be a valid JSON object"));
    }
}

/// Validates an update of a ControllerRevision.
pub(super) fn controller_revision_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    check::nonnegative(&new.get("revision"), errors);
    check::immutable(&old.get("data"), &new.get("data"), errors);
}

/// The counters of a status, and which of them are parts of `replicas`.
struct Counts {
    counts: &'static [&'static str],
    parts: &'static [&'static str],
}

const DEPLOYMENT: Counts = Counts {
    counts: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
};

const REPLICA_SET: Counts = Counts {
    counts: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
};

const STATEFUL_SET: Counts = Counts {
    counts: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &[
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ],
};

const DAEMON_SET: Counts = Counts {
    counts: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
};

/// Validates the status of a Deployment.
pub(super) fn deployment_status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    counts(&DEPLOYMENT, "readyReplicas", new, errors);
    collisions(old, new, errors);
}

/// Validates the status of a ReplicaSet or a ReplicationController.
pub(super) fn replica_set_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    counts(&REPLICA_SET, "readyReplicas", new, errors);
}

/// Validates the status of a StatefulSet.
pub(super) fn stateful_set_status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    counts(&STATEFUL_SET, "status.readyReplicas", new, errors);
    collisions(old, new, errors);
}

/// Validates the status of a DaemonSet.
pub(super) fn daemon_set_status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    counts(&DAEMON_SET, "", new, errors);
    collisions(old, new, errors);
}

fn counts(known: &Counts, ready: &str, object: &Node<'_>, errors: &mut Errors) {
    let status = object.get("status");
    check::all_nonnegative(&status, known.counts, errors);
    let count = |field| status.get(field).int().unwrap_or_default();
    for part in known.parts {
        if count(part) > count("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.push(status.get(part).invalid_int(detail));
        }
    }
    if !known.parts.is_empty() && count("availableReplicas") > count("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        errors.push(status.get("availableReplicas").invalid_int(&detail));
    }
}

fn collisions(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let collisions = new.get("status").get("collisionCount");
    let before = old.get("status").get("collisionCount").int();
    if before.is_some_and(|before| collisions.int().is_none_or(|now| now < before)) {
        errors.push(collisions.invalid_int("cannot be decremented"));
    }
}
