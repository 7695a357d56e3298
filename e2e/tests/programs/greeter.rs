//! The Go example: one controller for both tenants.

use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::root;
use insula_e2e::two_tenants::TwoTenants;
use insula_testkit::peer;

const TEXT: &str = "{.data.text}";

/// One watch covers both tenants, and objects of equal names are kept apart.
#[test]
fn controller_runtime_serves_two_tenants_with_one_watch() {
    let Some(program) = peer::installed("INSULA_GREETER", "greeter") else {
        let why = "the example in Go is not installed (INSULA_GREETER of tools/peers/install)";
        return peer::skipped(why);
    };
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let mut command = Command::new(program);
    command.env("KUBECONFIG", two_tenants.server.kubeconfig());
    let mut greeter = Running::start("greeter".to_owned(), &mut command, "");
    greeter.await_line("greeter watches");
    two_tenants.both(|tenant| {
        let says = |text: &str| {
            let wait = format!("wait cm asked-greeting --for=jsonpath='{TEXT}'='{text}'");
            let begun = std::time::Instant::now();
            // kubectl does not wait for objects that do not exist yet.
            while tenant.run(&format!("{wait} --timeout=30s")).code != Some(0) {
                assert!(begun.elapsed().as_secs() < 50, "never {text:?}");
            }
        };
        let name = tenant.name();
        tenant.get("create cm asked");
        tenant.get("create cm silent");
        tenant.get("label cm asked example.com/greet=jane");
        says(&format!("hello jane of {name}"));
        tenant.get("label cm asked --overwrite example.com/greet=joe");
        says(&format!("hello joe of {name}"));
        tenant.refuses("get cm silent-greeting", "not found");
        let (asked, owner) = (
            tenant.get("get cm asked -o jsonpath='{.metadata.uid}'"),
            tenant.get("get cm asked-greeting -o jsonpath='{.metadata.ownerReferences[0].uid}'"),
        );
        assert_eq!(asked, owner);
        tenant.get("delete cm asked");
        tenant.get("wait cm asked-greeting --for=delete --timeout=50s");
    });
}

#[test]
fn documentation_contains_the_tested_code() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("it is there");
    let code = read("examples/all-tenants-go/spaces.go");
    let begin = code.find("// InAllSpaces").expect("it is in it");
    assert!(read("docs/controllers.md").contains(&code[begin..]));
}
