//! The audit of `insula serve`, and `insula tenant audit`, with the real binary.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

fn insula(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A server that has announced itself.
struct Serving {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Serving {
    fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = insula(&["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .arg("--data-dir")
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut announced = String::new();
        output.read_line(&mut announced).unwrap();
        let address = announced.split(['/', ' ']).nth(4).unwrap().to_owned();
        Self {
            child,
            output,
            address,
        }
    }

    /// Stops the server, and returns the rest of its output.
    fn stop(mut self) -> String {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn tenant(data: &Path, arguments: &[&str]) -> Output {
    insula(&["tenant"])
        .args(arguments)
        .arg("--kubeconfig")
        .arg(data.join("admin.kubeconfig"))
        .output()
        .unwrap()
}

#[test]
fn policy_decides_what_is_logged_and_tenants_events_are_shown() {
    let data = tempfile::tempdir().unwrap();
    let policy = data.path().join("policy.yaml");
    let rules = "- {level: None, verbs: [get, list, watch]}\n- {level: RequestResponse}\n";
    let header = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n";
    std::fs::write(&policy, format!("{header}rules:\n{rules}")).unwrap();
    let log = data.path().join("audit.log");
    let (log, policy) = (log.to_str().unwrap(), policy.to_str().unwrap());
    let more = [
        "--audit-log-path",
        log,
        "--audit-policy-file",
        policy,
        "--audit-log-maxsize",
        "1",
    ];
    let serving = Serving::start(data.path(), &more);
    let created = tenant(data.path(), &["create", "acme"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let kubeconfig = data.path().join("acme.kubeconfig");
    let written = tenant(data.path(), &["kubeconfig", "acme"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    std::fs::write(&kubeconfig, &written.stdout).unwrap();
    // The credential of the tenant was requested in its space.
    let deadline = Instant::now() + TIMEOUT;
    let shown = loop {
        let shown = tenant(
            data.path(),
            &["audit", "acme", "--verb", "create", "-o", "json"],
        );
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let list: Value = serde_json::from_slice(&shown.stdout).unwrap();
        if !list["items"].as_array().unwrap().is_empty() {
            break list;
        }
        assert!(Instant::now() < deadline, "{list}");
    };
    assert_eq!(shown["kind"], "EventList");
    assert_eq!(shown["server"], serving.address.as_str());
    let event = &shown["items"][0];
    assert_eq!(event["level"], "RequestResponse", "{event}");
    assert_eq!(event["annotations"]["insula.dev/space"], "acme", "{event}");
    assert!(event["requestObject"].is_object(), "{event}");
    let table = tenant(data.path(), &["audit", "acme", "--since", "10m"]);
    let table = text(&table.stdout);
    assert!(table.starts_with("TIME "), "{table}");
    let footer = format!(" events in the log of server {}\n", serving.address);
    assert!(table.ends_with(&footer), "{table}");
    // The tenant's own administrator may ask, too, and is not told who acted for the system.
    let deadline = Instant::now() + TIMEOUT;
    let own = loop {
        // The events of the tenant's first second are not shown to it, so there must be others.
        let written = tenant(data.path(), &["kubeconfig", "acme"]);
        assert!(written.status.success(), "{}", text(&written.stderr));
        let own = insula(&["tenant", "audit", "acme", "-o", "json", "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .unwrap();
        assert!(own.status.success(), "{}", text(&own.stderr));
        let own: Value = serde_json::from_slice(&own.stdout).unwrap();
        if !own["items"].as_array().unwrap().is_empty() {
            break own;
        }
        assert!(Instant::now() < deadline, "{own}");
    };
    let oldest = own["items"][0]["stageTimestamp"].as_str().unwrap();
    let before = insula(&["tenant", "audit", "acme", "-o", "json", "--until", oldest])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .unwrap();
    let before: Value = serde_json::from_slice(&before.stdout).unwrap();
    assert_eq!(before["items"][0], own["items"][0]);
    assert_eq!(before["items"].as_array().map(Vec::len), Some(1));
    let events = own["items"].as_array().unwrap();
    for event in events {
        assert_eq!(
            event["user"],
            serde_json::json!({"username": "system"}),
            "{event}"
        );
    }
    serving.stop();
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(!lines.contains("\"verb\":\"get\""), "{lines}");
    assert!(
        lines.contains("\"objectRef\":{\"resource\":\"tenants\",\"name\":\"acme\""),
        "{lines}"
    );
}

#[test]
fn events_go_to_the_standard_output_if_the_path_is_a_dash() {
    let data = tempfile::tempdir().unwrap();
    let serving = Serving::start(data.path(), &["--audit-log-path", "-"]);
    let created = tenant(data.path(), &["create", "acme"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    // There is nothing to read events from.
    let refused = tenant(data.path(), &["audit", "acme"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = text(&refused.stderr);
    assert!(
        message.contains("the server has no audit log that it can read"),
        "{message}"
    );
    assert!(message.contains("--audit-log-path"), "{message}");
    let output = serving.stop();
    let first: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    assert_eq!(first["apiVersion"], "audit.k8s.io/v1");
}

#[test]
fn unusable_audit_settings_are_named_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let policy = data.path().join("policy.yaml");
    let header = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    std::fs::write(&policy, format!("{header}rules: [{{level: All}}]\n")).unwrap();
    let policy = policy.to_str().unwrap();
    let log = data.path().join("audit.log");
    let log = log.to_str().unwrap();
    for (more, code, parts) in [
        (
            &["--audit-policy-file", policy, "--audit-log-path", log][..],
            1,
            &[
                "error: cannot use the audit policy ",
                "rules[0].level: Unsupported value: \"All\": supported values: \"None\", ",
                "hint: docs/audit.md",
            ][..],
        ),
        (
            &["--audit-webhook-config-file", "/missing"],
            1,
            &["error: cannot read /missing"],
        ),
        (
            &["--audit-webhook-version", "audit.k8s.io/v1beta1"],
            2,
            &["audit.k8s.io/v1"],
        ),
        (
            &["--audit-webhook-batch-max-size", "0"],
            2,
            &["must be a positive number"],
        ),
    ] {
        let refused = insula(&["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .arg("--data-dir")
            .arg(data.path())
            .args(more)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(code), "{more:?}");
        let message = text(&refused.stderr);
        for part in parts {
            assert!(message.contains(part), "{more:?}: {message}");
        }
    }
    std::fs::write(policy, format!("{header}rules: [{{level: Metadata}}]\n")).unwrap();
    let refused = insula(&["serve", "--store", "memory", "--audit-policy-file", policy])
        .output()
        .unwrap();
    let message = text(&refused.stderr);
    assert!(
        message.contains("--audit-policy-file needs an audit backend"),
        "{message}"
    );
    assert!(
        message.contains("hint: add --audit-log-path FILE"),
        "{message}"
    );
    let collector = data.path().join("collector");
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                      contexts: [{name: c, context: {cluster: x}}]\n\
                      clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]\n";
    std::fs::write(&collector, kubeconfig).unwrap();
    let omitted = format!("{header}omitStages: [RequestReceived]\nrules: [{{level: Metadata}}]\n");
    std::fs::write(policy, omitted).unwrap();
    for more in [&[][..], &["--audit-policy-file", policy]] {
        let refused = insula(&["serve", "--store", "memory", "--data-dir"])
            .arg(data.path())
            .args(["--audit-webhook-mode", "blocking-strict"])
            .arg("--audit-webhook-config-file")
            .arg(&collector)
            .args(more)
            .output()
            .unwrap();
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{message}");
        let expected = "blocking-strict needs a policy that logs RequestReceived";
        assert!(message.contains(expected), "{message}");
        assert!(
            message.contains("hint: add --audit-policy-file"),
            "{message}"
        );
    }
}
