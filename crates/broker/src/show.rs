//! The brokers of a cluster, as they are shown.

use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::broker::Broker;
use crate::error::Error;
use crate::names::is_label;

/// What the columns are called.
pub const COLUMNS: [&str; 7] = [
    "NAMESPACE",
    "NAME",
    "COMPONENTS",
    "GLOBALNET",
    "GLOBALNET CIDR",
    "DEFAULT GLOBALNET SIZE",
    "DEFAULT DOMAINS",
];
/// What is between two columns, at least.
const GAP: usize = 3;
/// How many brokers are asked for at a time.
const PAGE: u32 = 500;

/// A broker, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What stands under each of [`COLUMNS`]. Nothing is cut off: the ID of a tenant is at
    /// the end of its namespace.
    pub cells: [String; 7],
}

/// The brokers of a namespace, or of all, in their order.
///
/// # Errors
///
/// What the server answers; [`Error::NotEverywhere`] if the namespaces that may be seen are
/// not all.
pub async fn brokers(client: &Client, namespace: Option<&str>) -> Result<Vec<Row>, Error> {
    namespace.map_or(Ok(()), judge)?;
    let found = list(client, namespace).await?;
    Ok(found.iter().map(row).collect())
}

/// Whether a text is the name of a namespace: it becomes a part of a path.
pub(crate) fn judge(namespace: &str) -> Result<(), Error> {
    match is_label(namespace) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{namespace:?} is no name of a namespace"
        ))),
    }
}

pub(crate) async fn list(client: &Client, namespace: Option<&str>) -> Result<Vec<Broker>, Error> {
    let (api, place): (Api<Broker>, _) = match namespace {
        Some(name) => {
            let api = Api::namespaced(client.clone(), name);
            (api, format!("namespace {name}"))
        }
        None => (Api::all(client.clone()), "all namespaces".to_owned()),
    };
    let (mut found, mut page) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let listed = match api.list(&page).await {
            // A cluster without the kind has none.
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
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// The rows in columns, or that there are none.
pub fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "No brokers found\n".to_owned();
    }
    let cells = |place: usize| rows.iter().map(move |row| row.cells[place].as_str());
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|place| {
            let cells = cells(place).chain([COLUMNS[place]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + GAP
        })
        .collect();
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths);
        let line: String = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", line.trim_end())
    };
    let mut text = line(&COLUMNS);
    for row in rows {
        text.push_str(&line(&row.cells.each_ref().map(String::as_str)));
    }
    text
}

fn row(broker: &Broker) -> Row {
    let spec = &broker.spec;
    let globalnet = if spec.globalnet_enabled { "yes" } else { "no" };
    Row {
        cells: [
            broker.namespace().unwrap_or_default(),
            broker.name_any(),
            spec.components.join(", "),
            globalnet.to_owned(),
            spec.globalnet_cidr_range.clone(),
            spec.default_globalnet_cluster_size.to_string(),
            spec.default_custom_domains.join(", "),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerSpec;

    #[test]
    fn nothing_is_cut_off() {
        let namespace = format!("submariner-broker-{}", "t".repeat(45));
        let spec = BrokerSpec {
            components: vec!["connectivity".to_owned(), "service-discovery".to_owned()],
            globalnet_enabled: true,
            globalnet_cidr_range: "242.0.0.0/8".to_owned(),
            default_globalnet_cluster_size: 65536,
            default_custom_domains: vec!["a.example".to_owned(), "b.example".to_owned()],
            ..BrokerSpec::default()
        };
        let mut broker = Broker::new("submariner-broker", spec);
        broker.metadata.namespace = Some(namespace.clone());
        let mut plain = Broker::new("submariner-broker", BrokerSpec::default());
        plain.metadata.namespace = Some("n".to_owned());
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
    fn no_brokers_are_said_to_be_none() {
        assert_eq!(table(&[]), "No brokers found\n");
    }
}
