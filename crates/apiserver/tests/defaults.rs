//! Comparison of dry-run creates with recordings of a real kube-apiserver.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use insula_kinds::kinds;
use insula_testkit::server::TestServer;
use serde_json::{Value, json};

/// Ignored fields: Kubernetes does not have them, or their values are random.
const NOT_RECORDED: [&str; 3] = ["selfLink", "tenant", "uid"];

#[tokio::test]
async fn dry_run_matches_the_recorded_kube_apiserver() {
    let server = TestServer::start().await.unwrap();
    let client = server.system().await.unwrap();
    let mut seen = 0;
    let mut different = Vec::new();
    for input in recorded() {
        let sent: Value = read(&input);
        let wanted = read(&output_of(&input));
        let (group, version) = group_version(&sent);
        let kind = kinds().find_by_kind(&group, &version, sent["kind"].as_str().unwrap());
        let kind = kinds().get(kind.unwrap());
        if kind.kind.ends_with("Review") {
            continue;
        }
        let prefix = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let path = if kind.namespaced() {
            format!("{prefix}/namespaces/default/{}", kind.resource)
        } else {
            format!("{prefix}/{}", kind.resource)
        };
        let answer = client
            .post(&format!("{path}?dryRun=All"), &sent)
            .await
            .unwrap();
        seen += 1;
        let mut found = answer.json();
        let mut wanted = wanted;
        normalize(&mut found, &mut wanted);
        if answer.status != 201 || found != wanted {
            let name = input.file_name().unwrap().to_string_lossy().into_owned();
            different.push(format!("{name}\n  found  {found}\n  wanted {wanted}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(seen, 45);
}

fn normalize(found: &mut Value, wanted: &mut Value) {
    let uid = found["metadata"]["uid"].as_str().unwrap_or("-").to_owned();
    let replaced = found.to_string().replace(&uid, "<uid>");
    *found = serde_json::from_str(&replaced).unwrap();
    for object in [&mut *found, &mut *wanted] {
        let namespace = object["metadata"]["namespace"].clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        for ours in NOT_RECORDED {
            metadata.remove(ours);
        }
        metadata.remove("managedFields");
        metadata.remove("creationTimestamp");
        if namespace.is_string() {
            metadata.insert("namespace".to_owned(), json!("default"));
        }
        replace_timestamps(object);
        normalize_kind(object);
    }
}

/// Replaces timestamps by those of the recording.
fn replace_timestamps(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if ["lastTransitionTime", "lastPhaseTransitionTime"].contains(&name.as_str()) {
                    *member = json!("<time>");
                }
                replace_timestamps(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(replace_timestamps),
        _ => {}
    }
}

fn normalize_kind(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or("").to_owned();
    let spec = object["spec"].as_object_mut();
    let Some(spec) = spec else {
        return;
    };
    match kind.as_str() {
        "Pod" => {
            spec.remove("serviceAccountName");
            spec.remove("serviceAccount");
        }
        "CertificateSigningRequest" => {
            for who in ["username", "groups", "extra", "uid"] {
                spec.remove(who);
            }
        }
        "Service" => {
            if spec
                .get("clusterIP")
                .is_some_and(|address| address != "None")
            {
                spec.insert("clusterIP".to_owned(), json!("<address>"));
                spec.insert("clusterIPs".to_owned(), json!(["<address>"]));
            }
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                if port.get("nodePort").is_some() {
                    port["nodePort"] = json!("<port>");
                }
            }
        }
        _ => {}
    }
}

fn group_version(object: &Value) -> (String, String) {
    let text = object["apiVersion"].as_str().unwrap();
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    (group.to_owned(), version.to_owned())
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn output_of(input: &Path) -> PathBuf {
    let name = input.file_name().unwrap().to_string_lossy();
    input.with_file_name(name.replace(".in.json", ".out.json"))
}

fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kinds/tests/data/defaults");
    let entries = fs::read_dir(folder).unwrap();
    let mut inputs: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".in.json"))
        .collect();
    inputs.sort();
    inputs
}
