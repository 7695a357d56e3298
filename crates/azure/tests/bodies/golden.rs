//! Custom resources of the kinds that are shipped, with the bodies that are sent for them and the
//! statuses of responses. `UPDATE_GOLDEN=1` rewrites bodies and statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use insula_azure::mapping::{self, ObjectReference, Resolved};
use insula_azure::table::{self, Kind, Version};
use insula_azure::{crds, versions, webhooks};
use insula_identity::credential::Hidden;
use serde_json::Value;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bodies");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn kind(object: &Value) -> (&'static Kind, &'static Version) {
    let api_version = object["apiVersion"].as_str().expect("an apiVersion");
    let (group, version) = api_version.split_once('/').expect("a group");
    let kind = object["kind"].as_str().expect("a kind");
    let kind = table::find(group, kind).expect("a known kind");
    (kind, kind.version(version).expect("a known version"))
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    entries.map(|(key, it)| (key.clone(), text(it))).collect()
}

fn resolved(case: &Value) -> Resolved {
    let mut resolved = Resolved::default();
    for (key, id) in texts(&case["ids"]) {
        let parts: Vec<_> = key.splitn(3, '/').map(str::to_owned).collect();
        let [group, kind, name] = parts.try_into().expect("GROUP/KIND/NAME");
        let reference = ObjectReference { group, kind, name };
        resolved.ids.insert(reference, id);
    }
    for (name, data) in case["secrets"].as_object().into_iter().flatten() {
        let data = texts(data).into_iter();
        let data = data.map(|(key, text)| (key, Hidden::new(text)));
        resolved.secrets.insert(name.clone(), data.collect());
    }
    for (name, data) in case["configMaps"].as_object().into_iter().flatten() {
        resolved.config_maps.insert(name.clone(), texts(data));
    }
    resolved
}

#[test]
fn bodies_and_statuses_are_the_golden_ones() {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        let (kind, version) = kind(&case["object"]);
        let mut actual = case.clone();
        let body = mapping::body(kind, version, &case["object"], &resolved(&case));
        actual["body"] = body.unwrap();
        if let Some(response) = case.get("response") {
            actual["status"] = mapping::status(kind, version, response).into();
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let text = serde_json::to_string_pretty(&actual).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
            continue;
        }
        assert_eq!(actual, case, "{}", path.display());
    }
}

#[test]
fn needs_are_what_the_bodies_use() {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        let (kind, version) = kind(&case["object"]);
        let needs = mapping::needs(kind, version, &case["object"]).unwrap();
        let given = resolved(&case);
        let references: Vec<_> = needs.references.iter().collect();
        let ids: Vec<_> = given.ids.keys().collect();
        assert_eq!(references, ids, "{}", path.display());
        let secrets: Vec<_> = needs.secrets.iter().map(|it| &it.name).collect();
        assert_eq!(secrets, given.secrets.keys().collect::<Vec<_>>());
        let config_maps: Vec<_> = needs.config_maps.iter().map(|it| &it.name).collect();
        assert_eq!(config_maps, given.config_maps.keys().collect::<Vec<_>>());
    }
}

#[test]
fn every_shipped_kind_is_golden() {
    let conversion = webhooks::service().conversion(versions::PATH);
    let shipped = crds::all(&conversion);
    let shipped: BTreeSet<_> = shipped.into_iter().map(|it| it.spec.names.kind).collect();
    let golden = files().into_iter().map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        case["object"]["kind"].as_str().unwrap().to_owned()
    });
    assert_eq!(golden.collect::<BTreeSet<_>>(), shipped);
}
