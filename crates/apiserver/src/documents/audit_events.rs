//! The audit events of one space: `/audit`.

use bytes::Bytes;
use http::StatusCode;
use insula_core::{Principal, Space};
use insula_kinds::time::{self, Precision, Time};
use serde_json::{Value, json};

use crate::codec::answer::Answer;
use crate::flow_control::{FlowControl, cpu_bound};
use crate::pipeline::audit::{self, Audit, EventQuery, FoundEvents};
use crate::registry::Registry;
use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// The number of events that are returned unless the query says otherwise, and at most.
const DEFAULT_LIMIT: usize = 500;
const MAX_LIMIT: usize = 5000;

/// Answers with the newest events of a space.
///
/// A user of the tenant sees events since the tenant was created, not those of an earlier tenant
/// of the same name.
///
/// # Errors
///
/// If the query is not valid, or there is no log to read.
pub async fn answer(
    registry: &Registry,
    flow_control: &FlowControl,
    audit: Option<&Audit>,
    server: &str,
    principal: &Principal,
    space: &Space,
    query: &Query,
) -> Result<Answer> {
    let log = audit.and_then(Audit::log_file);
    let log = log.ok_or_else(StatusError::no_audit_log)?;
    let mut asked = parse(query, space, principal)?;
    if asked.is_own {
        let created = created(registry, space).await?;
        asked.since = asked.since.max(Some(created));
        asked.received_since = Some(created);
    }
    let read = || audit::read(log, &asked);
    let found = cpu_bound::run_with_seat(flow_control, &principal.home, read).await?;
    let found = found.map_err(|error| {
        // The path is for the log only.
        tracing::error!(%error, "audit log not read");
        StatusError::internal("the audit log cannot be read")
    })?;
    Ok(list(found, server))
}

fn parse(query: &Query, space: &Space, principal: &Principal) -> Result<EventQuery> {
    let is_own = *space != Space::System && principal.home == *space;
    let text = |name: &str| query.get(name).filter(|text| !text.is_empty());
    let invalid = |name: &str, text: &str| {
        let value = insula_gotext::quote(text);
        StatusError::bad_request(format!("{name}: Invalid value: {value}"))
    };
    let limit = match text("limit") {
        None => DEFAULT_LIMIT,
        Some(limit) => match limit.parse() {
            Ok(limit) if limit > 0 => MAX_LIMIT.min(limit),
            _ => return Err(invalid("limit", limit)),
        },
    };
    let since = match (text("sinceSeconds"), text("sinceTime")) {
        (None, None) => None,
        (Some(seconds), _) => {
            let parsed = seconds.parse().ok().filter(|seconds: &u32| *seconds > 0);
            let seconds = parsed.ok_or_else(|| invalid("sinceSeconds", seconds))?;
            let now = Time::now();
            Some(Time {
                seconds: now.seconds - i64::from(seconds),
                ..now
            })
        }
        (None, Some(time)) => Some(parse_time(time).ok_or_else(|| invalid("sinceTime", time))?),
    };
    let until =
        text("untilTime").map(|time| parse_time(time).ok_or_else(|| invalid("untilTime", time)));
    // The system may also ask about tenants that are deleted.
    let named = text("space").filter(|_| *space == Space::System);
    let space = match named {
        None => space.clone(),
        Some(name) => Space::parse(name).map_err(|_| invalid("space", name))?,
    };
    Ok(EventQuery {
        space,
        is_own,
        since,
        until: until.transpose()?,
        received_since: None,
        user: text("user").map(str::to_owned),
        verb: text("verb").map(str::to_owned),
        limit,
    })
}

fn parse_time(text: &str) -> Option<Time> {
    time::parse(text, Precision::Seconds).ok()
}

/// Returns the time from which on all events are those of the present tenant.
async fn created(registry: &Registry, space: &Space) -> Result<Time> {
    let name = space.tenant().map_or("", |tenant| tenant.as_str());
    let tenant = registry.find_tenant(name).await?;
    let tree = tenant.map(|tenant| tenant.object.tree());
    let created = tree
        .as_ref()
        .and_then(|tree| tree.get("metadata")?.get("creationTimestamp")?.as_str())
        .and_then(parse_time);
    let created = created.ok_or_else(StatusError::no_such_path)?;
    Ok(Time {
        // Creation times have no fractions: an earlier tenant may have ended in the same second.
        seconds: created.seconds + 1,
        nanos: 0,
    })
}

fn list(found: FoundEvents, server: &str) -> Answer {
    let count = found.events.len();
    let list = json!({
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "metadata": {},
        "server": server,
        "items": Value::Array(found.events),
    });
    let answer = Answer::new(StatusCode::OK, Bytes::from(list.to_string() + "\n").into());
    match found.is_partial {
        false => answer,
        true => {
            let warning = match found.read_back_to {
                None => format!("only {count} events are shown; there may be more"),
                Some(time) => format!(
                    "only the newest {count} events are shown; the log was read back to {time}: \
                     for older events, ask with untilTime={time}"
                ),
            };
            answer.warned([warning])
        }
    }
}
