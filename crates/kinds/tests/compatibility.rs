//! The compatibility page matches the table of kinds.
//!
//! `UPDATE_GOLDEN=1` writes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use insula_kinds::{Kind, kinds};

const BEGIN: &str = "<!-- resources: made from the table of kinds -->\n";
const END: &str = "<!-- end of resources -->\n";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md")
}

/// The verbs of most kinds.
const ALL: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn verbs(kind: &Kind) -> String {
    match kind.verbs.iter().map(String::as_str).eq(ALL) {
        true => "all".to_owned(),
        false => kind.verbs.join(", "),
    }
}

fn row(kind: &Kind) -> String {
    let below = kind.subresources.iter().map(|sub| {
        let verbs = sub.verbs.join(", ");
        format!("`{}` ({verbs})", sub.name)
    });
    let below: Vec<String> = below.collect();
    let place = if kind.system_only {
        "system"
    } else {
        "every space"
    };
    format!(
        "| `{}` | {} | {place} | {} |\n",
        kind.resource,
        verbs(kind),
        below.join("; ")
    )
}

fn section() -> String {
    let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for (_, kind) in kinds().iter() {
        let version = (kind.group.clone(), kind.version.clone());
        if !groups.contains_key(&version) {
            order.push(version.clone());
        }
        groups.entry(version).or_default().push(row(kind));
    }
    let mut text = BEGIN.to_owned();
    for version in order {
        let rows = groups.remove(&version).unwrap_or_default();
        let (group, version) = version;
        let of = if group.is_empty() {
            version
        } else {
            format!("{group}/{version}")
        };
        text.push_str(&format!(
            "\n| {of} | verbs | where | below it |\n|---|---|---|---|\n"
        ));
        text.extend(rows);
    }
    text.push('\n');
    text.push_str(END);
    text
}

#[test]
fn compatibility_page_lists_every_resource_and_verb() {
    let path = page();
    let page = std::fs::read_to_string(&path).expect("the page exists");
    let begin = page.find(BEGIN).expect("the page has a resource section");
    let end = page.find(END).expect("the section ends") + END.len();
    let wanted = section();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written = format!("{}{wanted}{}", &page[..begin], &page[end..]);
        std::fs::write(&path, written).expect("the page can be written");
        return;
    }
    assert_eq!(&page[begin..end], wanted);
}
