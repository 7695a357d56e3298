//! Tenants, their users and custom resources.

use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;

use crate::shell::{Expect, LineResult, blocks, check_lines, prints, run_lines, set_up, shell};

/// The first session.
const TENANTS: [Expect; 10] = [
    prints(&[]),
    prints(&["NAME     STATUS", "system   Active"]),
    prints(&["acme"]),
    prints(&["globex"]),
    prints(&["deployment.apps/web created"]),
    prints(&["deployment.apps/web created"]),
    prints(&["web    0/1", "acme/web:1"]),
    prints(&["web    0/1", "globex/web:2"]),
    prints(&["\"tenant\":\"acme\"", "\"tenant\":\"globex\""]),
    prints(&[]),
];

/// A tenant's users.
const USERS: [Expect; 7] = [
    prints(&["namespace/shop created"]),
    prints(&["rolebinding.rbac.authorization.k8s.io/devs created"]),
    prints(&[]),
    prints(&["dora", "[devs system:authenticated]", "[acme]"]),
    prints(&["yes\n"]),
    Expect {
        code: 1,
        says: &["no\n"],
        refused: &[],
    },
    Expect {
        code: 1,
        says: &[],
        refused: &[
            "(Forbidden)",
            "User \"dora\" cannot list resource \"pods\"",
            "in the tenant \"globex\"",
        ],
    },
];

/// Custom resources.
const KINDS: [Expect; 11] = [
    prints(&["initech"]),
    prints(&["customresourcedefinition.apiextensions.k8s.io/databases.example.com created"]),
    prints(&["databases.example.com condition met"]),
    prints(&["engine\t<string> -required-", "How many servers there are."]),
    prints(&["database.example.com/orders created"]),
    prints(&[
        "NAME     ENGINE     REPLICAS   AGE",
        "orders   postgres   3",
    ]),
    Expect {
        code: 1,
        says: &[],
        refused: &["the server doesn't have a resource type \"databases\""],
    },
    prints(&["customresourcedefinition.apiextensions.k8s.io/queues.offering.example.com created"]),
    prints(&["queues.offering.example.com condition met"]),
    prints(&["queue.offering.example.com/mail created"]),
    Expect {
        code: 1,
        says: &[],
        refused: &["is a system CRD, it can only be deleted by a cluster admin"],
    },
];

#[test]
fn documented_tenant_session_works() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [serve, tenants, users, kinds, ..] = &blocks(&readme)[..] else {
        panic!("the README has a session");
    };
    let folder = tempfile::tempdir().unwrap();
    set_up(folder.path(), &kubectl);
    // `exec` replaces the shell with the server, so that it ends with this test.
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines = [tenants, users, kinds].map(|block| block.lines());
    let lines: Vec<&str> = lines.into_iter().flatten().collect();
    let all: Vec<&Expect> = TENANTS.iter().chain(&USERS).chain(&KINDS).collect();
    let ended = run_lines(folder.path(), &lines);
    check_lines(&lines, &all, &ended);
    for (line, LineResult { out, .. }) in lines.iter().zip(&ended) {
        let strange = line.starts_with("kubectl --kubeconfig acme") && out.contains("globex");
        assert!(!strange, "{line}:\n{out}");
    }
    let left = shell(
        folder.path(),
        "KUBECONFIG=insula-data/admin.kubeconfig kubectl get tenants -o name",
    );
    assert_eq!(
        left.finish().succeeds(),
        "tenant/acme\ntenant/initech\ntenant/system\n"
    );
}
