//! A client-go program that works in two tenants concurrently under the same names, in every
//! format.

use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;

/// Everything the program does, in order: see `tools/peers/client`.
const STEPS: [&str; 36] = [
    "typed: create, get, update, patch and delete",
    "typed: a deployment is defaulted, and its numbers arrive",
    "typed: status and scale are written apart",
    "typed: all sorts of patches",
    "typed: every refusal is a status of its sort",
    "typed: preconditions and options of deletions",
    "typed: options of deletions are written in every group's own version",
    "typed: a collection is deleted, and lists are empty after it",
    "typed: reviews and tokens",
    "typed: eviction and binding",
    "typed: lists and selectors",
    "typed: a watch sees what happens, and is told when it is too late",
    "typed: what was wished for was spoken",
    "dynamic: built-in kinds",
    "dynamic: a kind of the tenant's own",
    "scales: of built-in kinds and of the tenant's own",
    "metadata: get, list, patch, watch and delete",
    "metadata: of a kind of the tenant's own",
    "apply: typed, with a conflict and by force",
    "apply: what a manager no longer wants goes",
    "apply: what was applied is read back",
    "apply: status, apart from the rest",
    "apply: dynamic, of a kind of the tenant's own",
    "discovery: aggregated and legacy say the same",
    "discovery: names are mapped to resources",
    "openapi: version 2 in protobuf",
    "openapi: version 3 in JSON and protobuf",
    "version",
    "informer: typed",
    "informer: dynamic",
    "informer: metadata",
    "watch list: the end of the initial events is marked",
    "pages: a long list comes in parts",
    "retries: many writers lose nothing",
    "leader election: one leads, and another after it",
    "events: what is recorded can be read",
];

#[test]
fn client_go_works_in_every_format_with_streamed_lists_and_without() {
    let Some(program) = peer::installed("INSULA_CLIENT", "client") else {
        peer::skipped("the client is not installed (run tools/peers/install)");
        return;
    };
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let passed: Vec<String> = STEPS.iter().map(|act| format!("PASS {act}")).collect();
    for (media, streamed) in [
        ("default", true),
        ("json", false),
        ("protobuf", true),
        ("json", true),
        ("cbor", true),
        ("cbor", false),
    ] {
        if matches!((media, streamed), ("json", true) | ("cbor", false)) {
            // In the same namespace as an earlier run, of which nothing may be left.
            two_tenants.both(|tenant| {
                tenant.get(&format!("delete namespace client-{media}"));
                tenant.get(&format!("delete crd widgets.client-{media}.example.com"));
            });
        }
        two_tenants.both(|tenant| {
            let run = |tenant: &Kubectl| {
                let kubeconfig = two_tenants
                    .folder()
                    .join(format!("{}.kubeconfig", tenant.name()));
                let mut command = Command::new(&program);
                command
                    .arg("--kubeconfig")
                    .arg(kubeconfig)
                    .args(["--tenant", tenant.name(), "--media", media])
                    .env("KUBE_FEATURE_WatchListClient", streamed.to_string());
                for feature in ["ClientsAllowCBOR", "ClientsPreferCBOR"] {
                    let is_on = (media == "cbor").to_string();
                    command.env(format!("KUBE_FEATURE_{feature}"), is_on);
                }
                let line = format!("client of {} in {media}", tenant.name());
                Running::start(line, &mut command, "").finish()
            };
            let said = run(tenant);
            let lines: Vec<&str> = said.out.lines().collect();
            assert_eq!(lines, passed, "{media}, streamed: {streamed}: {said}");
        });
    }
}
