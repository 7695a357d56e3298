//! Role bindings, certificate signing requests, revocations, flow schemas and priority levels.

use super::row::{At, Row};
use crate::Value;
use crate::time::human_duration;

pub(super) fn role_binding(row: &Row<'_>) -> Vec<Value> {
    let role = row.at("roleRef");
    let (kind, name) = (role.get("kind").text(), role.get("name").text());
    vec![
        row.name(),
        Value::from(format!("{kind}/{name}")),
        row.age(),
        subjects(row, "User", |subject| subject.get("name").text().to_owned()),
        subjects(row, "Group", |subject| {
            subject.get("name").text().to_owned()
        }),
        subjects(row, "ServiceAccount", |subject| {
            let namespace = subject.get("namespace").text();
            format!("{namespace}/{}", subject.get("name").text())
        }),
    ]
}

fn subjects<'a>(row: &Row<'a>, kind: &str, name: impl Fn(At<'a>) -> String) -> Value {
    let subjects = row.at("subjects").items();
    let subjects = subjects.filter(|subject| subject.get("kind").text() == kind);
    let names: Vec<_> = subjects.map(name).collect();
    Value::from(names.join(", "))
}

pub(super) fn credential_revocation(row: &Row<'_>) -> Vec<Value> {
    let text = |member: &str| row.at("spec").get(member).text();
    let named = ["certificate", "token", "user"].into_iter();
    let named = named.filter(|member| !text(member).is_empty());
    let mut revoked: Vec<String> = named
        .map(|member| format!("{member} {}", text(member)))
        .collect();
    if !text("issuedBefore").is_empty() {
        revoked.push(format!("issued before {}", text("issuedBefore")));
    }
    vec![
        row.name(),
        Value::from(revoked.join(" ")),
        row.text("spec.authority"),
        row.text("spec.reason"),
        row.age(),
        Value::from(row.at("spec.expires").text_or_none()),
    ]
}

pub(super) fn tenant_access(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("tenant"),
        row.count("credentials"),
        row.age(),
    ]
}

pub(super) fn certificate_signing_request(row: &Row<'_>) -> Vec<Value> {
    let lifetime = row.at("spec.expirationSeconds").if_exists();
    let lifetime = lifetime.map_or("<none>".to_owned(), |seconds| {
        human_duration(seconds.number())
    });
    vec![
        row.name(),
        row.age(),
        Value::from(row.at("spec.signerName").text_or_none()),
        row.text("spec.username"),
        Value::from(lifetime),
        Value::from(decision(row)),
    ]
}

fn decision(row: &Row<'_>) -> String {
    let conditions = row.at("status.conditions");
    let has = |name| conditions.of_type(name).exists();
    let mut decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        decision.push_str(",Failed");
    }
    if !row.at("status.certificate").text().is_empty() {
        decision.push_str(",Issued");
    }
    decision
}

pub(super) fn flow_schema(row: &Row<'_>) -> Vec<Value> {
    let dangling = row.at("status.conditions").of_type("Dangling").if_exists();
    let method = row.at("spec.distinguisherMethod").if_exists();
    vec![
        row.name(),
        row.text("spec.priorityLevelConfiguration.name"),
        row.number("spec.matchingPrecedence"),
        Value::from(method.map_or("<none>", |method| method.get("type").text())),
        row.age(),
        Value::from(dangling.map_or("?", |condition| condition.get("status").text())),
    ]
}

pub(super) fn priority_level_configuration(row: &Row<'_>) -> Vec<Value> {
    let limited = row.at("spec.limited");
    let queuing = limited.at("limitResponse.queuing");
    let number = |of: At<'_>, name| match of.exists() {
        true => Value::from(of.get(name).number()),
        false => Value::from("<none>"),
    };
    vec![
        row.name(),
        row.text("spec.type"),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        row.age(),
    ]
}
