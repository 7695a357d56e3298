//! Output of tenants.

use std::time::SystemTime;

use insula_broker::tenant::{Isolation, Tenant};
use insula_broker::tenants::{message, phase};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
pub use crate::tenant::Format;
use crate::{duration, output};

/// Formats one tenant.
pub fn one(tenant: &Tenant, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json | Format::Yaml => document(tenant, format),
        _ => rows(std::slice::from_ref(tenant), format),
    }
}

/// Formats a list of tenants.
pub fn many(tenants: &[Tenant], format: Format) -> Result<String, Failure> {
    match format {
        Format::Json | Format::Yaml => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": tenants });
            document(&list, format)
        }
        _ => rows(tenants, format),
    }
}

fn document(object: &impl Serialize, format: Format) -> Result<String, Failure> {
    if format == Format::Yaml {
        return output::yaml(object);
    }
    let text = serde_json::to_string_pretty(object);
    let text = text.map_err(|error| Failure::new("cannot write JSON", error))?;
    Ok(text + "\n")
}

fn rows(tenants: &[Tenant], format: Format) -> Result<String, Failure> {
    if format == Format::Name {
        let name = |tenant: &Tenant| format!("tenant.submariner.io/{}\n", tenant.name_any());
        return Ok(tenants.iter().map(name).collect());
    }
    let now = Timestamp::try_from(SystemTime::now());
    let now = now.map_err(|error| Failure::new("cannot read the clock", error))?;
    let header = HEADER.map(str::to_owned);
    let rows = tenants.iter().map(|tenant| row(tenant, now));
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let columns = if format == Format::Wide { 9 } else { 4 };
    let rows: Vec<_> = rows.iter().map(|row| &row[..columns]).collect();
    Ok(output::table(&rows))
}

const HEADER: [&str; 9] = [
    "NAME",
    "STATUS",
    "NAMESPACE",
    "CREATED",
    "AGE",
    "ISOLATION",
    "SPACE",
    "OWNER",
    "MESSAGE",
];

fn row(tenant: &Tenant, now: Timestamp) -> [String; 9] {
    let none = || "<none>".to_owned();
    let status = tenant.status.clone().unwrap_or_default();
    let created = tenant.creation_timestamp().map(|time| time.0);
    let isolation = match tenant.spec.isolation.unwrap_or_default() {
        Isolation::Namespace => "Namespace",
        Isolation::Space => "Space",
    };
    [
        tenant.name_any(),
        phase(tenant).to_owned(),
        status.namespace.unwrap_or_else(none),
        created.map_or_else(|| "<unknown>".to_owned(), |created| created.to_string()),
        created.map_or_else(|| "<unknown>".to_owned(), |created| age(created, now)),
        isolation.to_owned(),
        status.space.unwrap_or_else(none),
        tenant.spec.owner.clone().unwrap_or_else(none),
        message(tenant).map_or_else(none, |text| text.replace('\n', " ")),
    ]
}

/// A creation time in the future counts as now.
fn age(created: Timestamp, now: Timestamp) -> String {
    duration::short(now.duration_since(created).try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use insula_broker::tenant::{Phase, TenantSpec, TenantStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::Value;

    use super::*;

    fn tenants() -> Vec<Tenant> {
        let mut whole = Tenant::new("acme", TenantSpec::default());
        let created = "2026-01-02T03:04:05Z".parse().unwrap();
        whole.metadata.creation_timestamp = Some(Time(created));
        whole.spec.owner = Some("eve".to_owned());
        whole.spec.isolation = Some(Isolation::Space);
        whole.status = Some(TenantStatus {
            phase: Some(Phase::Failed),
            namespace: Some("submariner-broker-acme".to_owned()),
            space: Some("submariner-broker-acme".to_owned()),
            message: Some("two\nlines".to_owned()),
            ..TenantStatus::default()
        });
        vec![whole, Tenant::new("b", TenantSpec::default())]
    }

    #[test]
    fn r50_r52_tenants_are_shown_with_status_and_creation_time() {
        let shown = |format| many(&tenants(), format).unwrap();
        assert_eq!(
            shown(Format::Table),
            "NAME   STATUS    NAMESPACE                CREATED\n\
             acme   Failed    submariner-broker-acme   2026-01-02T03:04:05Z\n\
             b      Pending   <none>                   <unknown>\n"
        );
        let wide = shown(Format::Wide);
        let lines: Vec<Vec<_>> = wide
            .lines()
            .map(|line| {
                line.split("   ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(lines[0], HEADER);
        assert_eq!(
            lines[1][5..],
            ["Space", "submariner-broker-acme", "eve", "two lines"]
        );
        assert_eq!(
            lines[2][4..],
            ["<unknown>", "Namespace", "<none>", "<none>", "<none>"]
        );
        assert_eq!(
            shown(Format::Name),
            "tenant.submariner.io/acme\ntenant.submariner.io/b\n"
        );
        let json: Value = serde_json::from_str(&shown(Format::Json)).unwrap();
        assert_eq!(json["items"][0]["kind"], "Tenant");
        assert_eq!(json["items"][0]["status"]["phase"], "Failed");
        let yaml: Value = serde_saphyr::from_str(&shown(Format::Yaml)).unwrap();
        assert_eq!(yaml, json);
        assert_eq!(many(&[], Format::Table).unwrap().lines().count(), 1);
    }
}
