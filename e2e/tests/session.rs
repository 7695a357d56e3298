//! The README's session, typed as it stands there.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::{binary, root};
use insula_e2e::kubectl::Kubectl;

/// Where a line of the session ends and its output begins.
const MARK: &str = "@@@";

/// What a line of the session must do.
struct Does {
    /// How it ends.
    code: i32,
    /// What it prints, or complains of.
    says: &'static [&'static str],
}

const fn prints(says: &'static [&'static str]) -> Does {
    Does { code: 0, says }
}

const fn refuses(says: &'static [&'static str]) -> Does {
    Does { code: 1, says }
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
    refuses(&["no\n"]),
    refuses(&[
        "(Forbidden)",
        "User \"dora\" cannot list",
        "in the tenant \"globex\"",
    ]),
];

#[test]
fn the_session_of_the_readme_does_what_it_says() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [serve, tenants, users, ..] = &blocks(&readme)[..] else {
        panic!("the README has a session");
    };
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), &kubectl);
    // It becomes the server, and so ends with this test.
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines: Vec<&str> = tenants.lines().chain(users.lines()).collect();
    let all: Vec<&Does> = TENANTS.iter().chain(&USERS).collect();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    // One shell, as it is one terminal.
    let script = lines.iter().map(|line| format!("{line}\necho {MARK}$?\n"));
    let script: String = script.collect();
    let said = shell(folder.path(), &format!("exec 2>&1\n{script}")).finish();
    let outputs: Vec<&str> = said.out.split(MARK).collect();
    for (number, (line, does)) in lines.iter().zip(all).enumerate() {
        // How the line before ended is before what this one says.
        let output = outputs[number].split_once('\n').map(|(_, rest)| rest);
        let output = output.filter(|_| number > 0).unwrap_or(outputs[number]);
        let code = outputs[number + 1].split('\n').next();
        assert_eq!(code, Some(&*does.code.to_string()), "{line}:\n{output}");
        for text in does.says {
            assert!(output.contains(text), "no {text:?} from {line}:\n{output}");
        }
        let strange = line.starts_with("kubectl --kubeconfig acme") && output.contains("globex");
        assert!(!strange, "{line}:\n{output}");
        let silent = does.says.is_empty();
        assert!(!silent || output.is_empty(), "{line}:\n{output}");
    }
    let left = shell(
        folder.path(),
        "KUBECONFIG=insula-data/admin.kubeconfig kubectl get tenants -o name",
    );
    assert_eq!(left.finish().succeeds(), "tenant/acme\ntenant/system\n");
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
    let words = r#"[ "$1 $2 $3" = "run --release --" ] || exit 2; shift 3"#;
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
