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

/// What each line of the session must say, in its order.
const SAYS: [&[&str]; 10] = [
    &[],
    &["NAME     STATUS", "system   Active"],
    &["acme"],
    &["globex"],
    &["deployment.apps/web created"],
    &["deployment.apps/web created"],
    &["web    0/1", "acme/web:1"],
    &["web    0/1", "globex/web:2"],
    &["\"tenant\":\"acme\"", "\"tenant\":\"globex\""],
    &[],
];

#[test]
fn the_session_of_the_readme_does_what_it_says() {
    let Some(kubectl) = Kubectl::find() else {
        return;
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [serve, session, ..] = &blocks(&readme)[..] else {
        panic!("the README has a session");
    };
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), &kubectl);
    // It becomes the server, and so ends with this test.
    let mut server = shell(folder.path(), &format!("exec {serve}"));
    server.await_line("insula ready ");
    let lines: Vec<&str> = session.lines().collect();
    assert_eq!(lines.len(), SAYS.len(), "{session}");
    let script = lines.iter().map(|line| format!("{line}\necho {MARK}\n"));
    let script: String = script.collect();
    let said = shell(folder.path(), &format!("set -e\n{script}")).finish();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    let outputs: Vec<&str> = said.out.split(&format!("{MARK}\n")).collect();
    for ((line, texts), output) in lines.iter().zip(SAYS).zip(outputs) {
        for text in texts {
            assert!(output.contains(text), "no {text:?} from {line}:\n{output}");
        }
        let strange = line.starts_with("kubectl --kubeconfig acme") && output.contains("globex");
        assert!(!strange, "{line}:\n{output}");
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
