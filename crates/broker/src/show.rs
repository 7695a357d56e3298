//! Listing of the brokers of a cluster.

use insula_operator::spaces;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value};

use crate::broker::Broker;
use crate::error::Error;
use crate::names::{TenantId, is_label};
use crate::report::Report;
use crate::tenant::Isolation;
use crate::tenants::Tenants;
use crate::{columns, mode};

/// The column headers.
pub(crate) const COLUMNS: [&str; 7] = [
    "NAMESPACE",
    "NAME",
    "COMPONENTS",
    "GLOBALNET",
    "GLOBALNET CIDR",
    "DEFAULT GLOBALNET SIZE",
    "DEFAULT DOMAINS",
];
/// The cell of a field with the wrong type.
const INVALID: &str = "<invalid>";
/// The page size of lists.
const PAGE_SIZE: u32 = 500;

/// The header of the last column, which is shown if a broker is in a space of its own.
const SPACE_COLUMN: &str = "SPACE";

/// A broker as a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The cells of [`COLUMNS`], not sanitized.
    pub cells: [String; 7],
    /// The tenant's space that the namespace is in, if it is not in the caller's.
    pub space: Option<String>,
}

/// Returns the brokers of one namespace, or of all, in the server's order, and after them
/// those in the spaces of tenants.
///
/// # Errors
///
/// Any error of the server; [`Error::NotEverywhere`] if the caller may not list all
/// namespaces.
pub async fn brokers(
    client: &Client,
    namespace: Option<&str>,
    report: &dyn Report,
) -> Result<Vec<Row>, Error> {
    namespace.map_or(Ok(()), validate_namespace)?;
    let found = list(client, namespace).await?;
    let mut rows: Vec<Row> = found.iter().map(row).collect();
    for space in tenant_spaces(client).await? {
        if namespace.is_some_and(|only| only != space) {
            continue;
        }
        match list(&spaces::client_for(client, &space), Some(&space)).await {
            Ok(found) => rows.extend(found.iter().map(|broker| Row {
                space: Some(space.clone()),
                ..row(broker)
            })),
            // The other brokers are shown all the same.
            Err(error) => report.warn(&format!("Space {space} is not shown: {error}")),
        }
    }
    Ok(rows)
}

/// Returns the names of the spaces of tenants, which are also those of their namespaces: none
/// if the server has no spaces or tenants, or the caller may not see tenants.
async fn tenant_spaces(client: &Client) -> Result<Vec<String>, Error> {
    if !mode::has_spaces(client).await? {
        return Ok(Vec::new());
    }
    let tenants = match Tenants::new(client).list().await {
        Err(Error::NoAxon) => return Ok(Vec::new()),
        Err(error) if error.is_forbidden() => return Ok(Vec::new()),
        listed => listed?,
    };
    let with_space = tenants
        .iter()
        .filter(|tenant| tenant.spec.isolation == Some(Isolation::Space));
    let ids = with_space.filter_map(|tenant| tenant.name_any().parse::<TenantId>().ok());
    Ok(ids.map(|id| id.namespace()).collect())
}

/// Validates the name of a namespace, which becomes part of a path.
pub(crate) fn validate_namespace(namespace: &str) -> Result<(), Error> {
    match is_label(namespace) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{namespace:?} is not a valid namespace name"
        ))),
    }
}

/// Lists brokers as dynamic objects: one that does not match our type must not hide the
/// others.
pub(crate) async fn list(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<DynamicObject>, Error> {
    let kind = ApiResource::erase::<Broker>(&());
    let (api, place): (Api<DynamicObject>, _) = match namespace {
        Some(name) => {
            let api = Api::namespaced_with(client.clone(), name, &kind);
            (api, format!("namespace {name}"))
        }
        None => {
            let api = Api::all_with(client.clone(), &kind);
            (api, "all namespaces".to_owned())
        }
    };
    let (mut found, mut page) = (Vec::new(), ListParams::default().limit(PAGE_SIZE));
    loop {
        let listed = match api.list(&page).await {
            // A cluster without the kind has no brokers.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(kube::Error::Api(status)) if namespace.is_none() && status.is_forbidden() => {
                return Err(Error::NotEverywhere {
                    message: status.message.clone(),
                });
            }
            listed => listed.map_err(Error::when(format!("list the brokers in {place}")))?,
        };
        found.extend(listed.items);
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => {
                page = ListParams::default()
                    .limit(PAGE_SIZE)
                    .continue_token(&token)
            }
            None => return Ok(found),
        }
    }
}

/// Formats the rows as a table.
pub fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "No brokers found\n".to_owned();
    }
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| row.cells.to_vec()));
    if rows.iter().any(|row| row.space.is_some()) {
        let header = std::iter::once(SPACE_COLUMN);
        let spaces = rows
            .iter()
            .map(|row| row.space.as_deref().unwrap_or_default());
        for (line, space) in lines.iter_mut().zip(header.chain(spaces)) {
            line.push(space.to_owned());
        }
    }
    columns::table(&lines)
}

fn row(broker: &DynamicObject) -> Row {
    let nothing = Value::Object(Map::new());
    let spec = match &broker.data["spec"] {
        Value::Null => &nothing,
        spec => spec,
    };
    let field = |name: &str, show: fn(&Value) -> Option<String>| {
        let shown = match spec.as_object() {
            Some(fields) => show(fields.get(name).unwrap_or(&Value::Null)),
            None => None,
        };
        shown.unwrap_or_else(|| INVALID.to_owned())
    };
    Row {
        cells: [
            broker.namespace().unwrap_or_default(),
            broker.name_any(),
            field("components", words),
            field("globalnetEnabled", yes_no),
            field("globalnetCIDRRange", text),
            field("defaultGlobalnetClusterSize", number),
            field("defaultCustomDomains", words),
        ],
        space: None,
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(words?.join(", "))
        }
        _ => None,
    }
}

fn yes_no(value: &Value) -> Option<String> {
    match value {
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) | Value::Null => Some("no".to_owned()),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        value => value.as_str().map(str::to_owned),
    }
}

fn number(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("0".to_owned()),
        value => Some(u32::try_from(value.as_u64()?).ok()?.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broker(namespace: &str, data: Value) -> DynamicObject {
        let kind = ApiResource::erase::<Broker>(&());
        let broker = DynamicObject::new("submariner-broker", &kind);
        broker.within(namespace).data(data)
    }

    #[test]
    fn names_are_never_truncated() {
        let namespace = format!("submariner-broker-{}", "t".repeat(45));
        let spec = json!({
            "components": ["connectivity", "service-discovery"], "globalnetEnabled": true,
            "globalnetCIDRRange": "242.0.0.0/8", "defaultGlobalnetClusterSize": 65536,
            "defaultCustomDomains": ["a.example", "b.example"],
        });
        let (broker, plain) = (
            broker(&namespace, json!({"spec": spec})),
            broker("n", json!({"spec": {}})),
        );
        let table = table(&[row(&broker), row(&plain)]);
        let lines: Vec<&str> = table.lines().collect();
        let gap = " ".repeat(63 - 9 + 3);
        assert_eq!(
            lines[0],
            format!(
                "NAMESPACE{gap}NAME                COMPONENTS                        GLOBALNET   GLOBALNET CIDR   DEFAULT GLOBALNET SIZE   DEFAULT DOMAINS"
            )
        );
        assert_eq!(
            lines[1],
            format!(
                "{namespace}   submariner-broker   connectivity, service-discovery   yes         242.0.0.0/8      65536                    a.example, b.example"
            )
        );
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["n", "submariner-broker", "no", "0"]
        );
    }

    #[test]
    fn spaces_have_a_column_if_there_are_any() {
        let plain = row(&broker("n", json!({})));
        let inside = Row {
            space: Some("s".to_owned()),
            ..row(&broker("s", json!({})))
        };
        let last = |rows: &[Row]| -> Vec<String> {
            let table = table(rows);
            let lines = table.lines();
            lines
                .map(|line| line.split("  ").last().unwrap().trim().to_owned())
                .collect()
        };
        assert_eq!(last(std::slice::from_ref(&plain)), ["DEFAULT DOMAINS", "0"]);
        assert_eq!(last(&[plain, inside]), ["SPACE", "0", "s"]);
    }

    #[test]
    fn malformed_broker_is_shown_with_invalid_cells() {
        let shown = |data: Value| row(&broker("n", data)).cells[2..].to_vec();
        assert_eq!(shown(json!({})), ["", "no", "", "0", ""]);
        assert_eq!(shown(json!({"spec": null})), ["", "no", "", "0", ""]);
        for spec in [json!(1), json!("x"), json!([])] {
            assert_eq!(shown(json!({"spec": spec})), [INVALID; 5]);
        }
        let wrong = json!({
            "components": "x", "globalnetEnabled": "true", "globalnetCIDRRange": 1,
            "defaultGlobalnetClusterSize": -1, "defaultCustomDomains": ["a", 1],
        });
        assert_eq!(shown(json!({"spec": wrong})), [INVALID; 5]);
    }

    #[test]
    fn malformed_broker_does_not_hide_or_imitate_others() {
        let odd = json!({
            "components": ["a\nsubmariner-broker-b   submariner-broker", "\u{1b}[2J"],
            "defaultCustomDomains": ["d".repeat(66_000)],
        });
        let odd = row(&broker("a", json!({"spec": odd})));
        let plain = row(&broker("b", json!({})));
        let table = table(&[odd, plain]);
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(!table.contains('\u{1b}'), "{table}");
        assert!(table.len() < 2_000, "{}", table.len());
        assert!(table.lines().last().unwrap().starts_with("b "), "{table}");
    }

    #[test]
    fn empty_list_has_a_message() {
        assert_eq!(table(&[]), "No brokers found\n");
    }
}
