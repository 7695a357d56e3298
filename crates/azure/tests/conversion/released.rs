//! Released definitions of Azure Service Operator, in the folder that `INSULA_AZURE_RELEASED`
//! names.

use std::path::Path;

use insula_azure::versions::Definitions;
use serde_json::{Value, json};

use super::{Choices, names};

/// The number of random objects of each version.
const OBJECTS: u64 = 3;

fn definitions() -> Option<Vec<Value>> {
    let Ok(folder) = std::env::var("INSULA_AZURE_RELEASED") else {
        insula_testkit::peer::skipped("INSULA_AZURE_RELEASED names no folder with definitions");
        return None;
    };
    let entries = std::fs::read_dir(Path::new(&folder)).expect("the folder is there");
    let files = entries.map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let read = |path| {
        let text = std::fs::read_to_string(path).expect("a readable file");
        serde_json::from_str(&text).expect("a definition")
    };
    Some(files.map(read).collect())
}

/// Checks that objects of each API version of a definition survive the storage version, and a
/// client of each other API version.
fn check(installed: &Definitions, definition: &Value) {
    let (other, storage) = names(definition);
    let api: Vec<_> = other
        .iter()
        .filter(|name| !name.ends_with("storage"))
        .collect();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let kind = &definition["spec"]["names"]["kind"];
    let versions = definition["spec"]["versions"].as_array();
    for version in versions.into_iter().flatten() {
        let name = version["name"].as_str().unwrap_or_default();
        if name.ends_with("storage") {
            continue;
        }
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        for seed in 0..OBJECTS {
            let mut choices = Choices(seed);
            let given = json!({
                "apiVersion": format!("{group}/{name}"), "kind": kind, "metadata": {"name": "a"},
                "spec": choices.value(&schema["spec"], 0),
                "status": choices.value(&schema["status"], 0),
            });
            let mut route = vec![storage.as_str()];
            for other in api.iter().filter(|other| **other != name) {
                route.extend([other.as_str(), storage.as_str()]);
            }
            route.push(name);
            let converted = route.iter().fold(given.clone(), |object, version| {
                let desired = format!("{group}/{version}");
                let converted = installed.convert(object, &desired);
                converted.expect("the version is installed")
            });
            assert_eq!(converted, given, "{kind} {name} by {route:?}");
        }
    }
}

#[test]
fn objects_of_released_kinds_survive_all_versions() {
    let Some(definitions) = definitions() else {
        return;
    };
    let installed = Definitions::new();
    for definition in &definitions {
        installed.insert(definition).unwrap();
    }
    for definition in &definitions {
        check(&installed, definition);
    }
}
