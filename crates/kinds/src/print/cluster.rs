//! Nodes, ConfigMaps, events, quotas, priority classes, devices and API services.

use std::collections::BTreeSet;

use super::row::{At, Row};
use crate::Value;

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let info = row.at("status.nodeInfo");
    let or_unknown = |name| info.get(name).text_or("<unknown>");
    let mut kernel = or_unknown("kernelVersion").to_owned();
    let architecture = info.get("architecture").text();
    if !architecture.is_empty() {
        kernel.push_str(&format!(" ({architecture})"));
    }
    let address = |kind| row.at("status.addresses").of_type(kind).get("address");
    vec![
        row.name(),
        Value::from(node_status(row)),
        Value::from(node_roles(row)),
        row.age(),
        row.text("status.nodeInfo.kubeletVersion"),
        Value::from(address("InternalIP").set_or("<none>")),
        Value::from(address("ExternalIP").set_or("<none>")),
        Value::from(or_unknown("osImage")),
        Value::from(kernel),
        Value::from(or_unknown("containerRuntimeVersion")),
    ]
}

fn node_status(row: &Row<'_>) -> String {
    // Of two conditions of the same type the last one counts.
    let mut conditions = row.at("status.conditions").items().rev();
    let ready = conditions.find(|condition| condition.get("type").text() == "Ready");
    let status = match ready.map(|condition| condition.get("status").text()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match row.at("spec.unschedulable").is_true() {
        true => format!("{status},SchedulingDisabled"),
        false => status.to_owned(),
    }
}

fn node_roles(row: &Row<'_>) -> String {
    let labels = row.at("metadata.labels").members();
    let roles = labels.map(
        |(name, value)| match name.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if name == "kubernetes.io/role" => value.text(),
            None => "",
        },
    );
    let roles: BTreeSet<_> = roles.filter(|role| !role.is_empty()).collect();
    let roles: Vec<_> = roles.into_iter().collect();
    match roles.is_empty() {
        true => "<none>".to_owned(),
        false => roles.join(","),
    }
}

pub(super) fn component_status(row: &Row<'_>) -> Vec<Value> {
    let healthy = row.at("conditions").of_type("Healthy");
    let status = match healthy.get("status").text() {
        _ if !healthy.exists() => "Unknown",
        "True" => "Healthy",
        _ => "Unhealthy",
    };
    vec![
        row.name(),
        Value::from(status),
        Value::from(healthy.get("message").text()),
        Value::from(healthy.get("error").text()),
    ]
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    let count = row.at("data").len() + row.at("binaryData").len();
    vec![row.name(), Value::from(count), row.age()]
}

/// Prints an Event of either group; the field names differ.
pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let either = |core: &str, other: &str| row.at(core).if_exists().unwrap_or(row.at(other));
    let involved = either("involvedObject", "regarding");
    let message = either("message", "note").text().trim();
    let event_time = row.at("eventTime");
    let first = either("firstTimestamp", "deprecatedFirstTimestamp");
    let first = row.since(first.if_exists().unwrap_or(event_time));
    let last = either("lastTimestamp", "deprecatedLastTimestamp").if_exists();
    let last = last.map_or(first.clone(), |last| row.since(last));
    let (last, count) = match row.at("series").if_exists() {
        Some(series) => {
            let last = row.since(series.get("lastObservedTime"));
            (last, series.get("count").number())
        }
        None => (last, either("count", "deprecatedCount").number().max(1)),
    };
    vec![
        Value::from(last),
        row.text("type"),
        row.text("reason"),
        Value::from(event_object(involved)),
        Value::from(involved.get("fieldPath").text()),
        Value::from(event_source(row, either("source", "deprecatedSource"))),
        Value::from(message),
        Value::from(first),
        Value::from(count),
        row.name(),
    ]
}

fn event_object(involved: At<'_>) -> String {
    let kind = involved.get("kind").text().to_lowercase();
    match involved.get("name").text() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn event_source(row: &Row<'_>, source: At<'_>) -> String {
    let controller = row.at("reportingController").text();
    let controller = row.at("reportingComponent").text_or(controller);
    let component = source.get("component").text_or(controller);
    let instance = row.at("reportingInstance").text();
    match source.get("host").text_or(instance) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

pub(super) fn resource_quota(row: &Row<'_>) -> Vec<Value> {
    let used = row.at("status.used");
    let hard = row.at("status.hard").members();
    let (limits, requests): (Vec<_>, Vec<_>) =
        hard.partition(|(name, _)| name.starts_with("limits."));
    let column = |resources: Vec<(&str, At<'_>)>| {
        let texts = resources.into_iter().map(|(name, hard)| {
            let used = used.get(name).quantity();
            format!("{name}: {used}/{}", hard.quantity())
        });
        Value::from(texts.collect::<Vec<_>>().join(", "))
    };
    vec![row.name(), column(requests), column(limits), row.age()]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.number("value"),
        row.flag("globalDefault"),
        row.age(),
        row.text("preemptionPolicy"),
    ]
}

pub(super) fn resource_claim(row: &Row<'_>) -> Vec<Value> {
    let allocated = row.at("status.allocation").exists();
    let reserved = row.at("status.reservedFor").len() > 0;
    let states = [
        ("deleted", row.deleting()),
        ("pending", !allocated && !row.deleting()),
        ("allocated", allocated),
        ("reserved", allocated && reserved),
    ];
    let states = states.into_iter().filter(|(_, holds)| *holds);
    let states: Vec<_> = states.map(|(state, _)| state).collect();
    vec![row.name(), Value::from(states.join(",")), row.age()]
}

pub(super) fn resource_slice(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("spec.nodeName"),
        row.text("spec.driver"),
        row.text("spec.pool.name"),
        row.age(),
    ]
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Value> {
    let service = row.at("spec.service").if_exists();
    let service = service.map_or("Local".to_owned(), |service| {
        let namespace = service.get("namespace").text();
        format!("{namespace}/{}", service.get("name").text())
    });
    let available = row.at("status.conditions").of_type("Available");
    let status = available.get("status").text();
    let available = match (status, available.get("reason").text()) {
        _ if !available.exists() => "Unknown".to_owned(),
        ("True", _) | (_, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    };
    vec![
        row.name(),
        Value::from(service),
        Value::from(available),
        row.age(),
    ]
}
