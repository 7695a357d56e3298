//! Warnings about unrecognized formats, which are allowed but have no effect.

use std::collections::HashSet;

use insula_gotext::quote;

use super::internal_form::InternalForm;

/// The recognized string formats, without dashes.
const TEXT: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Warns about every unrecognized format that the old definition did not have.
pub(super) fn warn(form: &InternalForm<'_>, before: Option<&InternalForm<'_>>) -> Vec<String> {
    let old: HashSet<_> = before.map(unknown).into_iter().flatten().collect();
    let mut reported = HashSet::new();
    let mut new = unknown(form);
    new.retain(|format| !old.contains(format) && reported.insert(*format));
    new.into_iter()
        .map(|format| format!("unrecognized format {}", quote(format)))
        .collect()
}

fn unknown<'a>(form: &InternalForm<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for schema in form.schemas() {
        schema.walk(&mut |schema| {
            let format = schema.text("format");
            if !format.is_empty() && !is_known(schema.text("type"), format) {
                found.push(format);
            }
        });
    }
    found
}

fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => TEXT.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
