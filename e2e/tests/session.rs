//! The README's sessions, typed as they stand there.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::{binary, root, subctl};
use insula_e2e::kubectl::Kubectl;

/// Between what a line said, how it ended and what it complained of.
const MARK: &str = "@@@";

/// What a line of the session must do.
struct Does {
    /// How it ends.
    code: i32,
    /// What it prints.
    says: &'static [&'static str],
    /// What it complains of; nothing, if it does not.
    refused: &'static [&'static str],
}

const fn prints(says: &'static [&'static str]) -> Does {
    Does {
        code: 0,
        says,
        refused: &[],
    }
}

/// Ten lines.
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

/// Kinds of one's own.
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

/// The offering admin.
const OFFERING: [Does; 6] = [
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&["red\n"]),
    prints(&["blue\n"]),
    prints(&[
        "blue   Provisioned   submariner-broker-blue",
        "red    Provisioned   submariner-broker-red",
    ]),
];

/// The ClusterSet admins.
const BROKERS: [Does; 2] = [prints(&[]), prints(&[])];

/// The cluster admins.
const CLUSTERS: [Does; 12] = [
    prints(&["red-east\n"]),
    prints(&["red-west\n"]),
    prints(&["blue-east\n"]),
    prints(&["blue-west\n"]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[]),
    prints(&[
        "NAMESPACE",
        "submariner-broker-blue",
        "submariner-broker-red",
        "connectivity, service-discovery",
        "242.0.0.0/8",
    ]),
    prints(&["cluster-east", "cluster-west"]),
    prints(&["submariner"]),
    prints(&[]),
];

#[test]
fn the_session_of_brokers_does_what_it_says() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Submariner brokers\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let [serve, offering, brokers, clusters] = &blocks(section)[..] else {
        panic!("the section has four parts");
    };
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), &kubectl);
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines = [offering, brokers, clusters].map(|block| block.lines());
    let lines: Vec<&str> = lines.into_iter().flatten().collect();
    let all: Vec<&Does> = OFFERING.iter().chain(&BROKERS).chain(&CLUSTERS).collect();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    for ((line, does), ended) in lines.iter().zip(all).zip(typed(folder.path(), &lines)) {
        let Ended { code, out, err } = &ended;
        assert_eq!(*code, does.code.to_string(), "{line}:\n{out}{err}");
        // How it goes is told on the way, by `subctl` alone, and nothing goes wrong.
        let tells = line.starts_with("subctl ");
        let quiet = err.is_empty() || tells && !err.contains("error");
        assert!(quiet, "{line}:\n{out}{err}");
        for text in does.says {
            assert!(out.contains(text), "no {text:?} from {line}:\n{out}");
        }
    }
    let left = shell(
        folder.path(),
        "KUBECONFIG=insula-data/admin.kubeconfig kubectl get tenants.submariner.io,ns -A -o name",
    );
    let left = left.finish().succeeds();
    assert!(left.contains("tenant.submariner.io/red\n"), "{left}");
    assert!(left.contains("namespace/submariner-broker-red\n"), "{left}");
    assert!(!left.contains("blue"), "{left}");
}

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
    // It becomes the server, and so ends with this test.
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

/// How a line ended, and what it said.
struct Ended {
    code: String,
    out: String,
    err: String,
}

/// Types lines into one shell, as it is one terminal.
fn typed(folder: &Path, lines: &[&str]) -> Vec<Ended> {
    let line = |line: &&str| format!("{line}\necho {MARK}$?{MARK}; cat err; : >err; echo {MARK}\n");
    let script: String = lines.iter().map(line).collect();
    let said = shell(folder, &format!("exec 2>>err\n{script}")).finish();
    let parts: Vec<&str> = said.out.split(MARK).collect();
    // What is said after a mark begins on a new line.
    let text = |part: &str| part.strip_prefix('\n').unwrap_or(part).to_owned();
    let ended = parts.chunks_exact(3).map(|line| Ended {
        out: text(line[0]),
        code: text(line[1]),
        err: text(line[2]),
    });
    let ended: Vec<Ended> = ended.collect();
    assert_eq!(ended.len(), lines.len(), "{said}");
    ended
}

/// The shell blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```sh\n").skip(1);
    let block = |part: &str| part.split("```").next().unwrap_or("").to_owned();
    parts.map(block).collect()
}

/// A folder in which everything is where the session has it: a `cargo` that runs what is
/// built already, on a free port; and kubectl.
fn furnish(folder: &Path, kubectl: &Path) {
    let (bin, release) = (folder.join("bin"), folder.join("target/release"));
    for made in [&bin, &release] {
        std::fs::create_dir_all(made).unwrap();
    }
    symlink(binary(), release.join("insula")).unwrap();
    symlink(subctl(), release.join("subctl")).unwrap();
    symlink(root().join("docs"), folder.join("docs")).unwrap();
    let words = r#"[ "$*" = "build --release --bin subctl" ] && exit 0
[ "$1 $2 $3" = "run --release --" ] || exit 2; shift 3"#;
    let cargo =
        format!("#!/bin/sh\n{words}\nexec target/release/insula \"$@\" --listen 127.0.0.1:0\n");
    std::fs::write(bin.join("cargo"), cargo).unwrap();
    // Without a path of its own it is one from PATH.
    let kubectl = format!(
        "#!/bin/sh\nPATH=$OWN_PATH exec {} \"$@\"\n",
        kubectl.display()
    );
    std::fs::write(bin.join("kubectl"), kubectl).unwrap();
    for made in ["cargo", "kubectl"] {
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join(made), executable).unwrap();
    }
}

/// bash, as a user has it, in that folder.
fn shell(folder: &Path, script: &str) -> Running {
    let own = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(script)
        .current_dir(folder)
        .env("HOME", folder)
        .env("OWN_PATH", &own)
        .env("PATH", format!("{}:{own}", folder.join("bin").display()))
        .env_remove("KUBECONFIG");
    Running::start(format!("bash: {script}"), &mut command, "")
}
