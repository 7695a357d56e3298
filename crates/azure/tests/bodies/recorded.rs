//! Bodies that Azure Service Operator sent, as its module has them recorded.
//!
//! The folder that `INSULA_AZURE_BODIES` names has them; `tools/asogen` extracts them there.

use std::collections::BTreeMap;
use std::path::Path;

use insula_azure::mapping::{self, MappingError, Resolved};
use insula_azure::table;
use insula_identity::credential::Hidden;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A value that is not known: what another object had when the body was recorded.
const ANY: &str = "\u{0}any";

/// A custom resource with the body that was sent for it.
#[derive(Deserialize)]
struct Pair {
    group: String,
    kind: String,
    version: String,
    object: Value,
    body: Value,
    ids: BTreeMap<String, String>,
    url: String,
    sample: String,
}

/// The number of pairs in the release that the table was made from.
const PAIRS: usize = 813;
/// The number of those that are changed after the mapping.
const CHANGED: usize = 14;

/// Paths of bodies that differ because the reconciler changes them after the mapping, by kind.
const CHANGED_LATER: &[(&str, &str)] = &[
    // `createOrRecover` becomes `default`, or `recover` if a deleted vault has the name.
    ("Vault", "/properties/createMode"),
    // The name of a built-in role becomes the id of its definition.
    ("RoleAssignment", "/properties/roleDefinitionId"),
    // Children that were created meanwhile are taken from Azure.
    ("VirtualNetwork", "/properties/subnets"),
    ("LoadBalancer", "/properties/inboundNatRules"),
];

/// Reads the pairs, if they are there.
fn pairs() -> Option<Vec<Pair>> {
    let Ok(folder) = std::env::var("INSULA_AZURE_BODIES") else {
        insula_testkit::peer::skipped("INSULA_AZURE_BODIES names no folder with recorded bodies");
        return None;
    };
    let text = std::fs::read_to_string(Path::new(&folder).join("bodies.jsonl"))
        .expect("the folder has bodies.jsonl");
    // Go reads names of fields in any case, and one sample makes use of it.
    let lines = text
        .lines()
        .map(|line| line.replace("\"ARMID\"", "\"armId\""));
    Some(
        lines
            .map(|line| serde_json::from_str(&line).expect("a pair"))
            .collect(),
    )
}

#[test]
#[expect(clippy::print_stderr, reason = "the share of equal bodies is reported")]
fn bodies_equal_those_that_azure_service_operator_sent() {
    let Some(pairs) = pairs() else { return };
    let mut different = Vec::new();
    let mut changed_later = 0;
    for pair in &pairs {
        let mut differences = Vec::new();
        match body(pair) {
            Ok(body) => compare(&body, &pair.body, "", &mut differences),
            Err(error) => differences.push(error.to_string()),
        }
        let all = differences.len();
        let is_expected = |path: &str| {
            let mut expected = CHANGED_LATER.iter();
            expected.any(|(kind, start)| pair.kind == *kind && path.starts_with(start))
        };
        differences.retain(|it| !is_expected(it));
        changed_later += usize::from(all > 0 && differences.is_empty());
        if !differences.is_empty() {
            different.push(format!("{}: {}", pair.sample, differences.join(", ")));
        }
    }
    let equal = pairs.len() - different.len() - changed_later;
    eprintln!(
        "{equal} of {} bodies are equal, {changed_later} are changed after the mapping",
        pairs.len()
    );
    assert_eq!((pairs.len(), changed_later), (PAIRS, CHANGED));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn imports_of_sent_bodies_send_the_same_bodies() {
    let Some(pairs) = pairs() else { return };
    let mut different = Vec::new();
    for pair in &pairs {
        let kind = table::find(&pair.group, &pair.kind).unwrap();
        let version = kind.version(&pair.version).unwrap();
        let Ok(sent) = body(pair) else { continue };
        let mut response = sent.clone();
        let url: http::Uri = pair.url.parse().unwrap();
        response["id"] = url.path().into();
        let imported = mapping::import(kind, version, &response, None);
        let again = mapping::body(kind, version, &imported, &Resolved::default());
        let mut differences = Vec::new();
        match again {
            Ok(again) => {
                let (sent, again) = (without_unknown(&sent), without_unknown(&again));
                compare(&sent, &again, "", &mut differences);
            }
            Err(error) => differences.push(error.to_string()),
        }
        if !differences.is_empty() {
            different.push(format!("{}: {}", pair.sample, differences.join(", ")));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn body(pair: &Pair) -> Result<Value, MappingError> {
    let kind = table::find(&pair.group, &pair.kind).expect("a known kind");
    let version = kind.version(&pair.version).expect("a known version");
    mapping::body(kind, version, &pair.object, &resolved(pair)?)
}

/// Resolves the references of a pair with the ids that are known, and all else with [`ANY`].
fn resolved(pair: &Pair) -> Result<Resolved, MappingError> {
    let kind = table::find(&pair.group, &pair.kind).expect("a known kind");
    let version = kind.version(&pair.version).expect("a known version");
    let needs = mapping::needs(kind, version, &pair.object)?;
    let mut resolved = Resolved::default();
    for reference in needs.references {
        let key = format!("{}/{}/{}", reference.group, reference.kind, reference.name);
        let id = pair.ids.get(&key).map_or(ANY, String::as_str);
        resolved.ids.insert(reference, id.to_owned());
    }
    for secret in needs.secrets {
        let data = resolved.secrets.entry(secret.name).or_default();
        data.insert(secret.key, Hidden::new(ANY));
    }
    for name in needs.whole_secrets {
        let data = resolved.secrets.entry(name).or_default();
        data.insert(ANY.to_owned(), Hidden::new(ANY));
    }
    for key in needs.config_maps {
        let data = resolved.config_maps.entry(key.name).or_default();
        data.insert(key.key, ANY.to_owned());
    }
    Ok(resolved)
}

/// Adds the paths at which two bodies differ.
fn compare(ours: &Value, theirs: &Value, path: &str, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::String(ours), _) if ours == ANY => {}
        (Value::String(ours), Value::String(theirs)) if is_same(ours, theirs, path) => {}
        (Value::Object(ours), Value::Object(theirs)) => {
            compare_fields(ours, theirs, path, differences);
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                compare(ours, theirs, &format!("{path}/{index}"), differences);
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => differences.push(format!("{path}: {ours} instead of {theirs}")),
    }
}

fn compare_fields(
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
    path: &str,
    differences: &mut Vec<String>,
) {
    if ours.contains_key(ANY) {
        return;
    }
    let (ours, theirs) = (folded(ours), folded(theirs));
    for (name, value) in &theirs {
        let path = format!("{path}/{name}");
        match ours.get(name) {
            Some(ours) => compare(ours, value, &path, differences),
            None => differences.push(format!("{path}: missing, expected {value}")),
        }
    }
    for (name, value) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
        differences.push(format!("{path}/{name}: not expected, but {value}"));
    }
}

/// Returns fields with ARM ids as keys in lower case: Azure compares them so.
fn folded(fields: &Map<String, Value>) -> BTreeMap<String, &Value> {
    let fold = |name: &String| match name.starts_with('/') {
        true => name.to_lowercase(),
        false => name.clone(),
    };
    let fields = fields.iter();
    fields.map(|(name, value)| (fold(name), value)).collect()
}

fn is_same(ours: &str, theirs: &str, path: &str) -> bool {
    let is_id = ours.starts_with('/') || path == "/name";
    ours == theirs
        || (is_id && ours.eq_ignore_ascii_case(theirs))
        || in_sample_group(ours).is_some_and(|ours| in_any_group(theirs) == Some(ours))
}

/// Returns what an id has below the resource group of the samples, which had another name when they
/// were recorded.
fn in_sample_group(id: &str) -> Option<String> {
    let is_sample = id.to_lowercase().contains("/resourcegroups/aso-sample-rg/");
    is_sample.then(|| in_any_group(id)).flatten()
}

/// Returns what an id has below its resource group, in lower case.
fn in_any_group(id: &str) -> Option<String> {
    let id = id.to_lowercase();
    let (_, group) = id.split_once("/resourcegroups/")?;
    let (_, below) = group.split_once('/')?;
    Some(below.to_owned())
}

/// Removes the values that are not known, and objects without fields, which are not imported.
fn without_unknown(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut known = Map::new();
            for (name, value) in fields.iter().filter(|(name, _)| *name != ANY) {
                let value = without_unknown(value);
                if value != ANY && value != Value::Object(Map::new()) {
                    known.insert(name.clone(), value);
                }
            }
            Value::Object(known)
        }
        Value::Array(items) => items.iter().map(without_unknown).collect(),
        other => other.clone(),
    }
}
