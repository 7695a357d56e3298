//! Request and response tests. All files beside this one are one program, since linking one program
//! per file takes longer than running it.

#[path = "support/fixtures.rs"]
mod fixtures;
#[path = "support/samples.rs"]
mod samples;

mod access_matrix;
mod audit;
mod audit_policy;
mod audit_secrets;
mod audit_webhook;
mod bad_input;
mod breakout;
mod cluster_objects;
mod create;
mod default_roles;
mod default_tenant;
mod defaults;
mod delete;
mod discovery;
mod egress;
mod errors;
mod escalation;
mod events_and_leases;
mod full_store;
mod get;
mod impersonation;
mod lagging_store;
mod list;
mod names;
mod namespaces;
mod negotiation;
mod nodes;
mod oidc;
mod oidc_server;
mod openapi;
mod pages_at_size;
mod paging;
mod patch;
mod paths;
mod protobuf;
mod rbac;
mod reviews;
mod selectors;
mod smoke;
mod spaces;
mod store_keys;
mod subresources;
mod tables;
mod tenant_fields;
mod tenants;
mod tls;
mod update;
mod versions;
mod watch;
mod watch_consistency;
mod watch_fanout;

use std::path::Path;

/// Test discovery is off for this package: a file that is not listed here would never run.
#[test]
fn every_test_file_is_compiled() -> anyhow::Result<()> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(package.join("Cargo.toml"))?;
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(package.join("tests"))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_there = if path.join("main.rs").exists() {
            manifest.contains(&format!("path = \"tests/{name}/main.rs\""))
        } else if path.extension().is_some_and(|end| end == "rs") && name != "main" {
            let line = format!("mod {name};");
            include_str!("main.rs").lines().any(|one| one == line)
        } else {
            true
        };
        if !is_there {
            missing.push(path);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}
