//! All requests that are recorded in Azure Service Operator's module: a resource that is imported
//! and sent again has the same body.
//!
//! `requests.jsonl` in the folder that `INSULA_AZURE_BODIES` names has them.

use std::collections::BTreeSet;
use std::path::Path;

use insula_azure::mapping::{self, Resolved};
use insula_azure::table::{self, Kind, Rule, ShapeRef, Version};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A recorded PUT request.
#[derive(Deserialize)]
struct Request {
    url: String,
    body: Value,
    recording: String,
}

/// The depth to which shapes are searched for secrets.
const MAX_DEPTH: usize = 12;

#[test]
#[expect(clippy::print_stderr, reason = "the number of requests is reported")]
fn imported_resources_are_sent_as_they_are() {
    let folder = std::env::var("INSULA_AZURE_BODIES").unwrap_or_default();
    let Ok(text) = std::fs::read_to_string(Path::new(&folder).join("requests.jsonl")) else {
        insula_testkit::peer::skipped("INSULA_AZURE_BODIES names no folder with requests.jsonl");
        return;
    };
    let mut different = Vec::new();
    let mut all = 0;
    for line in text.lines() {
        let request: Request = serde_json::from_str(line).unwrap();
        let url: http::Uri = request.url.parse().unwrap();
        let arm_type = arm_type(url.path());
        let kinds = kinds(&arm_type, url.query().unwrap_or_default());
        all += 1;
        assert!(!kinds.is_empty(), "{url} has no kind");
        // Some types have several kinds, such as records of DNS zones.
        let results = kinds.iter().map(|(kind, version)| {
            let found = differences(kind, version, url.path(), &request.body);
            (found.len(), found)
        });
        let (count, found) = results.min().unwrap();
        if count > 0 {
            different.push(format!("{} {url}: {}", request.recording, found.join(", ")));
        }
    }
    eprintln!("{} of {all} requests are equal", all - different.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Returns the type of an ARM id in lower case.
fn arm_type(id: &str) -> String {
    let id = id.to_lowercase();
    let Some((_, types)) = id.rsplit_once("/providers/") else {
        return "microsoft.resources/resourcegroups".to_owned();
    };
    let mut parts = types.split('/');
    let provider = parts.next().unwrap_or_default().to_owned();
    let names = parts.step_by(2);
    names.fold(provider, |found, name| format!("{found}/{name}"))
}

fn kinds(arm_type: &str, query: &str) -> Vec<(&'static Kind, &'static Version)> {
    let is_requested = |version: &Version| {
        let parameter = format!("api-version={}", version.api_version());
        query.split('&').any(|it| it == parameter)
    };
    let kinds = table::by_arm_type(arm_type);
    let versions = kinds.flat_map(|kind| kind.versions().iter().map(move |it| (kind, it)));
    versions.filter(|(_, it)| is_requested(it)).collect()
}

fn differences(kind: &Kind, version: &Version, id: &str, sent: &Value) -> Vec<String> {
    let mut response = sent.clone();
    response["id"] = id.into();
    let imported = mapping::import(kind, version, &response, None);
    let mut secrets = BTreeSet::new();
    add_secrets(kind.spec(version), 0, &mut secrets);
    let mut found = Vec::new();
    match mapping::body(kind, version, &imported, &Resolved::default()) {
        Ok(again) => compare(sent, &again, "", &secrets, &mut found),
        Err(error) => found.push(error.to_string()),
    }
    found
}

/// Adds the names of fields that are taken from Secrets: no response has them.
fn add_secrets(shape: ShapeRef<'_>, depth: usize, secrets: &mut BTreeSet<String>) {
    for (_, rule) in shape.fields() {
        match rule {
            Rule::Secret(name) | Rule::SecretMap(name) | Rule::SecretCollection(name) => {
                secrets.insert(name.to_owned());
            }
            Rule::Object(below) | Rule::Map(Some(below)) | Rule::Renamed(_, Some(below))
                if depth < MAX_DEPTH =>
            {
                add_secrets(below, depth + 1, secrets);
            }
            _ => {}
        }
    }
}

fn compare(
    sent: &Value,
    again: &Value,
    path: &str,
    secrets: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    match (sent, again) {
        (Value::Object(sent), Value::Object(again)) => {
            for (name, value) in sent {
                let path = format!("{path}/{name}");
                match again.get(name) {
                    Some(again) => compare(value, again, &path, secrets, found),
                    None if is_empty(value) || secrets.contains(name) => {}
                    None => found.push(format!("{path}: {value} is missing")),
                }
            }
            let added = again.keys().filter(|name| !sent.contains_key(*name));
            found.extend(added.map(|name| format!("{path}/{name}: not expected")));
        }
        (Value::Array(sent), Value::Array(again)) if sent.len() == again.len() => {
            for (index, (sent, again)) in sent.iter().zip(again).enumerate() {
                compare(sent, again, &format!("{path}/{index}"), secrets, found);
            }
        }
        _ if sent == again => {}
        _ => found.push(format!("{path}: {again} instead of {sent}")),
    }
}

/// Returns whether a value says nothing: imports leave it out.
fn is_empty(value: &Value) -> bool {
    let is_nothing = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    value.is_null() || is_nothing(value) || value.as_array().is_some_and(Vec::is_empty)
}
