//! ConfigMaps, Secrets, Namespaces, Tenants, Events and Nodes.

mod quota;

use std::collections::HashSet;

use base64::Engine as _;

pub(super) use quota::{limit_range, quota_status, resource_quota, resource_quota_update};

use super::amount;
use super::check::{self, Errors};
use super::pod;
use super::tree::{Node, Path};
use crate::FieldError;
use crate::decode::syntax_error;
use crate::text;

/// 1 MiB of values, without their keys.
const MAX_DATA_SIZE: usize = 1_048_576;
const IMMUTABLE_DATA: &str = "field is immutable when `immutable` is set";
const NOT_STANDARD_FINALIZER: &str =
    "name is neither a standard finalizer name nor is it fully qualified";

/// Validates a ConfigMap.
pub(super) fn config_map(object: &Node<'_>, errors: &mut Errors) {
    let (data, binary) = (object.get("data"), object.get("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        keys(&value, key, errors);
        if binary.entry(key).is_set() {
            errors.push(value.invalid_as(&key.into(), "duplicate of key present in binaryData"));
        }
        size += value.text().len();
    }
    for (key, value) in binary.entries() {
        keys(&value, key, errors);
        size += decoded_len(value.text());
    }
    if size > MAX_DATA_SIZE {
        // Kubernetes states no field, which prints as `[]`.
        errors.push(FieldError::too_long("[]", MAX_DATA_SIZE));
    }
}

fn keys(value: &Node<'_>, key: &str, errors: &mut Errors) {
    for message in text::config_key(key) {
        errors.push(value.invalid_as(&key.into(), &message));
    }
}

/// Returns the number of bytes that base64 encodes.
fn decoded_len(base64: &str) -> usize {
    let padding = base64
        .bytes()
        .rev()
        .take_while(|byte| *byte == b'=')
        .count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// Validates an update of a ConfigMap.
pub(super) fn config_map_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    immutable_data(old, new, &["data", "binaryData"], errors);
}

fn immutable_data<'a>(old: &Node<'a>, new: &Node<'a>, fields: &[&'a str], errors: &mut Errors) {
    if !old.get("immutable").is_true() {
        return;
    }
    if !new.get("immutable").is_true() {
        errors.push(new.get("immutable").forbidden(IMMUTABLE_DATA));
    }
    for field in fields {
        if !new.get(field).same(&old.get(field)) {
            errors.push(new.get(field).forbidden(IMMUTABLE_DATA));
        }
    }
}

/// Validates a Secret.
pub(super) fn secret(object: &Node<'_>, errors: &mut Errors) {
    let data = object.get("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        keys(&value, key, errors);
        size += decoded_len(value.text());
    }
    if size > MAX_DATA_SIZE {
        errors.push(data.too_long(MAX_DATA_SIZE));
    }
    let missing = |key| !data.entry(key).is_set();
    match object.get("type").text() {
        "kubernetes.io/service-account-token" => {
            let annotations = object.get("metadata").get("annotations");
            let account = annotations.entry("kubernetes.io/service-account.name");
            check::required(&account, errors);
        }
        "kubernetes.io/dockercfg" => docker_config(&data.entry(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            docker_config(&data.entry(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => {
            for key in ["username", "password"] {
                errors.push(data.entry(key).required(""));
            }
        }
        "kubernetes.io/ssh-auth" => {
            check::required(&data.entry("ssh-privatekey"), errors);
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if missing(key) {
                    errors.push(data.entry(key).required(""));
                }
            }
        }
        _ => {}
    }
}

fn docker_config(config: &Node<'_>, errors: &mut Errors) {
    if !config.is_set() {
        errors.push(config.required(""));
        return;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(config.text());
    let bytes = bytes.unwrap_or_default();
    if serde_json::from_slice::<crate::Object>(&bytes).is_err() {
        let detail = syntax_error(&bytes).unwrap_or_else(|| "not a JSON object".to_owned());
        errors.push(config.invalid_as(&"<secret contents redacted>".into(), &detail));
    }
}

/// Validates an update of a Secret.
pub(super) fn secret_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    check::immutable(&old.get("type"), &new.get("type"), errors);
    immutable_data(old, new, &["data"], errors);
}

/// Validates a Namespace.
pub(super) fn namespace(object: &Node<'_>, errors: &mut Errors) {
    let finalizers = object.get("spec").get("finalizers");
    for finalizer in finalizers.items() {
        finalizer_name(&finalizer.at(finalizers.path.clone()), errors);
    }
}

fn finalizer_name(finalizer: &Node<'_>, errors: &mut Errors) {
    check::format(finalizer, text::qualified_name, errors);
    let name = finalizer.text();
    let known = ["kubernetes", "orphan", "foregroundDeletion"];
    if !name.contains('/') && !known.contains(&name) {
        errors.push(finalizer.invalid_text(NOT_STANDARD_FINALIZER));
    }
}

/// Validates the finalizers of a Namespace.
pub(super) fn namespace_finalize(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for finalizer in new.get("spec").get("finalizers").items() {
        finalizer_name(&finalizer, errors);
    }
}

/// Validates the status of a Namespace or a Tenant.
pub(super) fn phase(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let status = new.get("status");
    let phase = status.get("phase").at(status.path.field("Phase"));
    let deleted = new.get("metadata").get("deletionTimestamp").is_set();
    let (wanted, detail) = if deleted {
        (
            "Terminating",
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        )
    } else {
        (
            "Active",
            "may only be 'Active' if `deletionTimestamp` is empty",
        )
    };
    if phase.text() != wanted {
        errors.push(phase.invalid_text(detail));
    }
}

/// Validates a Tenant.
pub(super) fn tenant(object: &Node<'_>, errors: &mut Errors) {
    for finalizer in object.get("spec").get("finalizers").items() {
        check::format(&finalizer, text::qualified_name, errors);
    }
    let spec = object.get("spec");
    let (quota, limits) = (spec.get("quota"), spec.get("limits"));
    if object.get("metadata").get("name").text() == "system" {
        for (field, reason) in [
            (&quota, "the system space has no quota"),
            (&limits, "the system space has the limits of the server"),
            (
                &spec.get("objectTenantFields"),
                "the system space has the setting of the server",
            ),
        ] {
            if field.is_set() {
                errors.push(field.forbidden(reason));
            }
        }
    }
    tenant_quota(&quota, errors);
    tenant_limits(&limits, errors);
    let fields = spec.get("objectTenantFields");
    if fields.is_set() && !["Full", "None"].contains(&fields.text()) {
        errors.push(fields.not_supported(&["Full", "None"]));
    }
}

/// Validates the quota of a tenant.
fn tenant_quota(quota: &Node<'_>, errors: &mut Errors) {
    let counted = ["objects", "namespaces", "customResourceDefinitions"];
    check::all_nonnegative(quota, &counted, errors);
    byte_count(&quota.get("bytes"), errors);
    for name in quota.get("unlimited").items() {
        if name.text() != "bytes" && !counted.contains(&name.text()) {
            let known = ["bytes", counted[2], counted[1], counted[0]];
            errors.push(name.not_supported(&known));
        } else if quota.get(name.text()).is_set() {
            let limit = quota.get(name.text());
            errors.push(limit.forbidden("may not be set for a field in `unlimited`"));
        }
    }
}

/// Validates the limits of a tenant's requests. Zero would refuse them all.
fn tenant_limits(limits: &Node<'_>, errors: &mut Errors) {
    for name in [
        "requestsPerSecond",
        "burst",
        "reads",
        "heavyReads",
        "writes",
        "watches",
        "connections",
    ] {
        let limit = limits.get(name);
        if limit.is_set() {
            check::positive(&limit, errors);
        }
    }
    for name in ["requestBytes", "unsentBytes"] {
        let limit = limits.get(name);
        if limit.is_set() && amount::Amount::of(&limit).sign().is_eq() {
            errors.push(limit.invalid("must be greater than zero"));
        }
        byte_count(&limit, errors);
    }
}

/// Validates a number of bytes.
fn byte_count(bytes: &Node<'_>, errors: &mut Errors) {
    let amount = amount::Amount::of(bytes);
    if amount.sign().is_lt() {
        errors.push(bytes.invalid("must be greater than or equal to 0"));
    } else if !amount.is_whole() {
        errors.push(bytes.invalid("must be an integer"));
    }
}

/// Validates the finalizers of a Tenant.
pub(super) fn tenant_finalize(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    tenant(new, errors);
}

const NAMESPACE_MISMATCH: &str = "does not match event.namespace";

/// Validates an Event of the core group; `events.k8s.io` has more rules.
pub(super) fn event(object: &Node<'_>, errors: &mut Errors) {
    any_event(object, "involvedObject", "reportingComponent", errors);
}

/// Validates an Event of `events.k8s.io`.
pub(super) fn new_event(object: &Node<'_>, errors: &mut Errors) {
    any_event(object, "regarding", "reportingController", errors);
    event_series(object, errors);
    if !object.get("eventTime").is_set() {
        errors.push(object.get("eventTime").required(""));
    }
    let kind = object.get("type");
    if !["Normal", "Warning"].contains(&kind.text()) {
        let detail = format!("has invalid value: {}", kind.text());
        errors.push(kind.invalid_as(&"".into(), &detail));
    }
    for (field, printed) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let given = object.get(field);
        if !given.is_empty() && given.int() != Some(0) {
            let place = given.at(Path::default().field(printed));
            errors.push(place.invalid_as(&"".into(), "needs to be unset"));
        }
    }
}

fn event_series(object: &Node<'_>, errors: &mut Errors) {
    let series = object.get("series");
    if !series.is_set() {
        return;
    }
    if series.get("count").int().unwrap_or_default() < 2 {
        let count = series.get("count");
        errors.push(count.invalid_as(&"".into(), "should be at least 2"));
    }
    if !series.get("lastObservedTime").is_set() {
        errors.push(series.get("lastObservedTime").required(""));
    }
}

fn any_event<'a>(object: &Node<'a>, regarding: &'a str, reporter: &'a str, errors: &mut Errors) {
    let own = object.get("metadata").get("namespace");
    // Kubernetes states this path for both groups.
    let place = Path::default().field("involvedObject").field("namespace");
    let other = object.get(regarding).get("namespace").at(place);
    if !object.get("eventTime").is_set() {
        let cluster = other.is_empty() && ["", "default"].contains(&own.text());
        if !cluster && other.text() != own.text() {
            errors.push(other.invalid_text(NAMESPACE_MISMATCH));
        }
    } else {
        if other.is_empty() && !["default", "kube-system"].contains(&own.text()) {
            errors.push(other.invalid_text(NAMESPACE_MISMATCH));
        }
        event_fields(object, reporter, errors);
    }
    let own = own.at(Path::default().field("namespace"));
    check::format(&own, text::dns_subdomain, errors);
}

fn event_fields<'a>(object: &Node<'a>, reporter: &'a str, errors: &mut Errors) {
    check::required(&object.get(reporter), errors);
    check::format(&object.get(reporter), text::qualified_name, errors);
    for field in ["reportingInstance", "action", "reason"] {
        check::required(&object.get(field), errors);
        if object.get(field).text().len() > 128 {
            let detail = "can have at most 128 characters";
            errors.push(object.get(field).invalid_as(&"".into(), detail));
        }
    }
    for field in ["message", "note"] {
        if object.get(field).text().len() > 1024 {
            let place = object.get(field).at(Path::default().field("message"));
            let detail = "can have at most 1024 characters";
            errors.push(place.invalid_as(&"".into(), detail));
        }
    }
}

/// Validates an update of an Event of `events.k8s.io`, which may only count occurrences.
pub(super) fn new_event_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    any_event(new, "regarding", "reportingController", errors);
    if !new.get("series").same(&old.get("series")) {
        event_series(new, errors);
    }
    for (field, printed) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let place = new.get(field).at(Path::default().field(printed));
        check::immutable(&old.get(field), &place, errors);
    }
}

/// Validates a Node.
pub(super) fn node(object: &Node<'_>, errors: &mut Errors) {
    taints(object, errors);
    node_resources(object, errors);
    let cidrs = object.get("spec").get("podCIDRs");
    for cidr in cidrs.items() {
        check::cidr(&cidr, errors);
    }
    let families: HashSet<_> = cidrs
        .items()
        .map(|cidr| cidr.text().contains(':'))
        .collect();
    if cidrs.list().len() > families.len() {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(cidrs.invalid(detail));
    }
}

fn node_resources(object: &Node<'_>, errors: &mut Errors) {
    let status = object.get("status");
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in status.get(list).entries() {
            let place = status.path.field(list).field(resource);
            amount::resource_value(&amount.at(place), resource, errors);
        }
    }
}

/// Validates the taints of a Node. Kubernetes states a path below metadata.
fn taints(object: &Node<'_>, errors: &mut Errors) {
    let place = Path::default().field("metadata").field("taints");
    let taints = object.get("spec").get("taints").at(place);
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, effect) = (taint.get("key"), taint.get("effect"));
        check::format(&key, text::qualified_name, errors);
        let messages = text::label_value(taint.get("value").text());
        if !messages.is_empty() {
            errors.push(taint.get("value").invalid(&messages.join(";")));
        }
        pod::taint_effect(&effect, errors);
        if !seen.insert((key.text(), effect.text())) {
            let detail = "taints must be unique by key and effect pair";
            let text = |field| serde_json::Value::from(taint.get(field).text());
            let printed = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":{}}}"#,
                text("key"),
                text("value"),
                text("effect"),
                taint.get("timeAdded").value()
            );
            let place = taint.path.to_string();
            errors.push(FieldError::duplicate_printed(place, &printed).with_detail(detail));
        }
    }
}

/// Validates an update of a Node.
pub(super) fn node_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    node_resources(new, errors);
    let addresses = new.get("status").get("addresses");
    for (index, address) in addresses.items().enumerate() {
        if addresses.list()[..index].contains(address.value()) {
            errors.push(address.duplicate());
        }
    }
    let (before, after) = (old.get("spec"), new.get("spec"));
    if !before.get("podCIDRs").is_empty() && !after.get("podCIDRs").same(&before.get("podCIDRs")) {
        let detail = r#"node updates may not change podCIDR except from "" to valid"#;
        errors.push(after.get("podCIDRs").forbidden(detail));
    }
    let provider = after.get("providerID");
    let known = before.get("providerID").text();
    if !known.is_empty() && provider.text() != known {
        let detail = r#"node updates may not change providerID except from "" to valid"#;
        errors.push(provider.forbidden(detail));
    }
    taints(new, errors);
}

/// Validates the binding of a pod to a node.
pub(super) fn binding(object: &Node<'_>, errors: &mut Errors) {
    let target = object.get("target");
    let kind = target.get("kind");
    if !kind.is_empty() && kind.text() != "Node" {
        errors.push(kind.not_supported(&["Node", "<empty>"]));
    }
    check::required(&target.get("name"), errors);
}
