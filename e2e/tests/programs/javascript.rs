//! A script with the JavaScript client.

use std::process::Command;

use insula_e2e::scene::Scene;
use insula_testkit::peer;

use crate::cast::{both_run, folder};

/// As pinned in `tools/peers/clients/javascript/package.json`.
const NAME: &str = "javascript-client-1.4.0";

const LAWS: [&str; 7] = [
    "objects are created read listed replaced and deleted",
    "every kind of patch does what it says",
    "a watch tells what happens and only that",
    "an informer follows",
    "kinds of ones own are used without types",
    "objects of any kind are found by discovery and applied",
    "the namespace goes with everything in it",
];

#[test]
fn a_javascript_program_does_its_work_in_two_tenants_at_once() {
    let Some(library) = peer::installed_folder("INSULA_JAVASCRIPT_CLIENT", NAME) else {
        return peer::skipped("the JavaScript client is not installed (run tools/peers/install)");
    };
    let Some(scene) = Scene::start() else { return };
    both_run(&scene, &LAWS, |tenant| {
        let mut command = Command::new("node");
        command
            .arg(folder().join("javascript/tenant.mjs"))
            .arg(&library)
            .arg(tenant);
        command
    });
}
