//! `insula tenant audit`.

use std::time::Duration;

use clap::ValueEnum;
use http::StatusCode;
use insula_core::Space;
use serde_json::Value;

use super::list::escape;
use super::{Server, tenant_or_system};
use crate::client::ClientError;
use crate::duration;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant, also of a deleted one; `system` is allowed
    #[arg(value_parser = tenant_or_system)]
    name: Space,

    /// Age of the oldest events
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    since: Duration,

    /// Time of the newest events, such as 2026-11-17T08:30:00Z, to read on where a warning said
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Only requests of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Only requests with this verb, such as create
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,

    /// Number of events, the newest
    #[arg(long, value_name = "EVENTS", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=5000))]
    limit: u16,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// The output formats.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// One line per event
    Table,
    /// An EventList of audit.k8s.io/v1
    Json,
}

/// Shows the audit events of a tenant.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let attempted = format!("cannot read the audit events of {}", args.name);
    let name = &args.name;
    // The URL in a tenant's kubeconfig names the tenant already.
    let own = format!("/tenants/{name}");
    let is_own = server.url.ends_with(&own);
    let own = if is_own { "" } else { &own };
    let list = match server
        .client
        .get(&path(&args, &format!("{own}/audit?")))
        .await
    {
        // A deleted tenant has no path of its own, but the system may ask for it.
        Err(ClientError::Refused { status, .. }) if status == StatusCode::NOT_FOUND && !is_own => {
            let system = format!("/tenants/system/audit?space={name}&");
            server.client.get(&path(&args, &system)).await
        }
        found => found,
    };
    let list = list.map_err(|error| error.to_failure(&attempted))?;
    let text = match args.output {
        Format::Table => table(&list),
        Format::Json => {
            let text = serde_json::to_string_pretty(&list);
            text.map_err(|error| Failure::new("cannot write JSON", error))? + "\n"
        }
    };
    output::print(&text)
}

/// Adds the parameters to the beginning of a path.
fn path(args: &Args, begin: &str) -> String {
    let seconds = args.since.as_secs().max(1);
    let mut path = format!("{begin}sinceSeconds={seconds}&limit={}", args.limit);
    for (parameter, value) in [
        ("untilTime", &args.until),
        ("user", &args.user),
        ("verb", &args.verb),
    ] {
        if let Some(value) = value {
            path.push_str(&format!("&{parameter}={}", escape(value)));
        }
    }
    path
}

type Row = [String; 6];

fn table(list: &Value) -> String {
    let header = ["TIME", "USER", "TENANT", "VERB", "OBJECT", "CODE"].map(str::to_owned);
    let events = list["items"].as_array().into_iter().flatten();
    let rows: Vec<Row> = std::iter::once(header).chain(events.map(row)).collect();
    let count = rows.len() - 1;
    let rows: Vec<&[String]> = rows.iter().map(<[String; 6]>::as_slice).collect();
    let server = list["server"].as_str().unwrap_or("<unknown>");
    let table = output::table(&rows);
    format!("{table}{count} events in the log of server {server}\n")
}

fn row(event: &Value) -> Row {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "-".to_owned(),
    };
    [
        text(&event["stageTimestamp"]),
        text(&event["user"]["username"]),
        text(&event["annotations"]["insula.dev/tenant"]),
        text(&event["verb"]),
        object(event).unwrap_or_else(|| text(&event["requestURI"])),
        text(&event["responseStatus"]["code"]),
    ]
}

/// Returns `namespace/resource/name`, with the subresource.
fn object(event: &Value) -> Option<String> {
    let object = event.get("objectRef")?;
    let member = |name: &str| object[name].as_str().filter(|text| !text.is_empty());
    let mut text = match member("apiGroup") {
        Some(group) => format!("{}.{group}", member("resource")?),
        None => member("resource")?.to_owned(),
    };
    for part in ["name", "subresource"] {
        if let Some(part) = member(part) {
            text.push('/');
            text.push_str(part);
        }
    }
    match member("namespace") {
        Some(namespace) => Some(format!("{namespace}/{text}")),
        None => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_has_one_line_per_event_and_names_the_server() {
        let list = json!({
            "server": "10.0.0.1:6443",
            "items": [
                {
                    "stageTimestamp": "2026-11-17T08:30:00.000000Z",
                    "user": {"username": "ann"},
                    "verb": "patch",
                    "objectRef": {
                        "resource": "deployments", "apiGroup": "apps", "namespace": "shop",
                        "name": "web", "subresource": "scale",
                    },
                    "responseStatus": {"code": 200},
                    "annotations": {"insula.dev/tenant": "acme"},
                },
                {
                    "stageTimestamp": "2026-11-17T08:30:01.000000Z",
                    "user": {},
                    "verb": "get",
                    "requestURI": "/apis",
                },
            ],
        });
        let expected = "\
TIME                          USER   TENANT   VERB    OBJECT                            CODE
2026-11-17T08:30:00.000000Z   ann    acme     patch   shop/deployments.apps/web/scale   200
2026-11-17T08:30:01.000000Z   -      -        get     /apis                             -
2 events in the log of server 10.0.0.1:6443
";
        assert_eq!(table(&list), expected);
    }
}
