//! A script with the JavaScript client.

use std::process::Command;

use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;

use crate::runner::{both_run, folder};

/// As pinned in `tools/peers/clients/javascript/package.json`.
const NAME: &str = "javascript-client-1.4.0";

const STEPS: [&str; 7] = [
    "objects are created read listed replaced and deleted",
    "every patch type works",
    "watches deliver the namespaces events only",
    "informers follow changes",
    "custom resources work without types",
    "objects of any kind are found by discovery and applied",
    "deleting the namespace deletes its content",
];

#[test]
fn javascript_client_works_in_two_tenants() {
    let Some(library) = peer::installed_folder("INSULA_JAVASCRIPT_CLIENT", NAME) else {
        return peer::skipped("the JavaScript client is not installed (run tools/peers/install)");
    };
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    both_run(&two_tenants, &STEPS, |tenant| {
        let mut command = Command::new("node");
        command
            .arg(folder().join("javascript/tenant.mjs"))
            .arg(&library)
            .arg(tenant);
        command
    });
}
