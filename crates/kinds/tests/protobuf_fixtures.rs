//! Every fixture of the `k8s.io/api` module with a type in the table roundtrips.
//!
//! The fixtures are not part of this repository: they are read from
//! `INSULA_K8S_API_TESTDATA` or from Go's module cache. Without them the test reports
//! that it was skipped.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use insula_kinds::{Object, TypeId, protobuf, types};

const MODULE: &str = "k8s.io/api@v0.36.4/testdata/HEAD";

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test is reported")]
fn upstream_fixtures_roundtrip_byte_by_byte() {
    let Some(folder) = fixtures() else {
        eprintln!(
            "SKIPPED: upstream_fixtures_roundtrip_byte_by_byte: \
             no INSULA_K8S_API_TESTDATA and no {MODULE} in Go's module cache"
        );
        return;
    };
    let (mut passed, mut unknown) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        match check(&path) {
            true => passed += 1,
            false => unknown += 1,
        }
    }
    eprintln!("{passed} fixtures passed, {unknown} are of types that are not in the table");
    assert!(passed >= 79, "only {passed} fixtures are of known types");
}

/// Returns whether the fixture's type is known; panics if it does not roundtrip exactly.
fn check(path: &Path) -> bool {
    let name = path.display();
    let body = fs::read(path).unwrap();
    let envelope = protobuf::open(&body).unwrap();
    let Some(id) = type_of(envelope.api_version, envelope.kind) else {
        return false;
    };
    let json = fs::read(path.with_extension("json")).unwrap();
    let mut wanted: Object = serde_json::from_slice(&json).unwrap();
    wanted.remove("kind");
    wanted.remove("apiVersion");

    let tree = protobuf::decode(id, envelope.raw).unwrap();
    assert_eq!(tree, wanted, "{name}: decoded");

    let mut raw = Vec::new();
    protobuf::encode(id, &wanted, &mut raw);
    assert!(raw == envelope.raw, "{name}: encoded");
    let sealed = protobuf::seal(envelope.api_version, envelope.kind, &raw);
    assert!(sealed == body, "{name}: sealed");
    true
}

fn type_of(api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let group = group.split('.').next().unwrap_or(group);
    types()
        .find(&format!("api.{group}.{version}.{kind}"))
        .or_else(|| types().find(&format!("apimachinery.pkg.apis.meta.v1.{kind}")))
}

fn fixtures() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("INSULA_K8S_API_TESTDATA") {
        return Some(PathBuf::from(folder));
    }
    let cache = Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output()
        .ok()?;
    let cache = String::from_utf8(cache.stdout).ok()?;
    let folder = Path::new(cache.trim()).join(MODULE);
    folder.is_dir().then_some(folder)
}
