//! Tenants, their users and custom resources.

use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;

use crate::typing::{Does, Ended, blocks, furnish, prints, shell, typed};

/// The first session.
const TENANTS: [Does; 10] = [
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
const USERS: [Does; 7] = [
    prints(&["namespace/shop created"]),
    prints(&["rolebinding.rbac.authorization.k8s.io/devs created"]),
    prints(&[]),
    prints(&["dora", "[devs system:authenticated]", "[acme]"]),
    prints(&["yes\n"]),
    Does {
        code: 1,
        says: &["no\n"],
        refused: &[],
    },
    Does {
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
const KINDS: [Does; 11] = [
    prints(&["initech"]),
    prints(&["customresourcedefinition.apiextensions.k8s.io/databases.example.com created"]),
    prints(&["databases.example.com condition met"]),
    prints(&["engine\t<string> -required-", "How many servers there are."]),
    prints(&["database.example.com/orders created"]),
    prints(&[
        "NAME     ENGINE     REPLICAS   AGE",
        "orders   postgres   3",
    ]),
    Does {
        code: 1,
        says: &[],
        refused: &["the server could not find the requested resource"],
    },
    prints(&["customresourcedefinition.apiextensions.k8s.io/queues.offering.example.com created"]),
    prints(&["queues.offering.example.com condition met"]),
    prints(&["queue.offering.example.com/mail created"]),
    Does {
        code: 1,
        says: &[],
        refused: &["is a system CRD, it can only be deleted by a cluster admin"],
    },
];

#[test]
fn the_session_of_the_readme_does_what_it_says() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [serve, tenants, users, kinds, ..] = &blocks(&readme)[..] else {
        panic!("the README has a session");
    };
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), &kubectl);
    // `exec` replaces the shell with the server, so that it ends with this test.
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines = [tenants, users, kinds].map(|block| block.lines());
    let lines: Vec<&str> = lines.into_iter().flatten().collect();
    let all: Vec<&Does> = TENANTS.iter().chain(&USERS).chain(&KINDS).collect();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    for ((line, does), ended) in lines.iter().zip(all).zip(typed(folder.path(), &lines)) {
        let Ended { code, out, err } = &ended;
        assert_eq!(*code, does.code.to_string(), "{line}:\n{out}{err}");
        assert_eq!(
            err.is_empty(),
            does.refused.is_empty(),
            "{line}:\n{out}{err}"
        );
        for text in does.says {
            assert!(out.contains(text), "no {text:?} from {line}:\n{out}");
        }
        for text in does.refused {
            assert!(err.contains(text), "no {text:?} from {line}:\n{err}");
        }
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
