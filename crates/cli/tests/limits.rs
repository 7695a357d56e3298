//! Quotas and limits of tenants, from the command line to a running server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const INSULA: &str = env!("CARGO_BIN_EXE_insula");

/// The page with the commands that this test types.
const PAGE: &str = include_str!("../../../docs/limits.md");

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped.
struct Serving {
    child: Child,
    folder: tempfile::TempDir,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(INSULA)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .args(arguments)
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        assert!(said.starts_with("insula ready"), "{said}");
        Self { child, folder }
    }

    fn run(&self, command: &str) -> Output {
        let arguments = command.split_whitespace().skip(1);
        Command::new(INSULA)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .output()
            .unwrap()
    }

    /// Returns stdout; the command must succeed.
    fn succeed(&self, command: &str) -> String {
        let output = self.run(command);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the tenant once it fulfils a condition.
    fn tenant(&self, options: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let text = self.succeed(&format!("insula tenant get acme -o json {options}"));
            let tenant: Value = serde_json::from_str(&text).unwrap();
            if is_met(&tenant) {
                return tenant;
            }
            assert!(begun.elapsed() < TIMEOUT, "{tenant}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The commands of the page for a running server.
fn commands() -> Vec<&'static str> {
    let lines = PAGE.lines();
    let commands = lines.filter(|line| line.starts_with("insula tenant "));
    commands.collect()
}

#[test]
fn commands_of_the_page_work_as_it_says() {
    let serving = Serving::start(&[]);
    let commands = commands();
    assert_eq!(commands.len(), 7, "{commands:?}");
    for command in &commands[..5] {
        assert_eq!(serving.succeed(command), "acme\n", "{command}");
    }
    let spec = json!({
        "limits": {"requestsPerSecond": 400, "burst": 800},
        "quota": {"objects": 50_000, "unlimited": ["bytes"]},
    });
    let tenant = serving.tenant("", |tenant| {
        tenant["status"]["quota"] == json!({"objects": 50_000})
    });
    for field in ["limits", "quota"] {
        assert_eq!(tenant["spec"][field], spec[field]);
    }
    let limits = &tenant["status"]["limits"];
    assert_eq!(limits["requestsPerSecond"], 400);
    assert_eq!(limits["watches"], 10_000);
    let wide = serving.succeed(commands[5]);
    let columns: Vec<&str> = wide.lines().nth(1).unwrap().split_whitespace().collect();
    let objects = tenant["status"]["usage"]["objects"].as_u64().unwrap();
    assert_eq!(columns[3], format!("objects={objects}/50000"));
    // The tenant's administrator sees the same, and not the spec.
    let mut own: Value = serde_saphyr::from_str(&serving.succeed(commands[6])).unwrap();
    // It also sees the limit with a default that depends on the server's machine.
    let limits = own["status"]["limits"].as_object_mut().unwrap();
    assert!(
        limits
            .remove("heavyReads")
            .is_some_and(|limit| limit.is_u64())
    );
    assert_eq!(own["status"], tenant["status"]);
    assert_eq!(own["spec"], json!({}));
    let refused =
        serving.run("insula tenant set acme --quota bytes=8Ei --kubeconfig acme.kubeconfig");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn shipped_defaults_apply_to_every_tenant() {
    let serving = Serving::start(&[]);
    serving.succeed("insula tenant create acme");
    let tenant = serving.tenant("", |tenant| tenant["status"]["quota"].is_object());
    assert_eq!(tenant["status"]["quota"], json!({"bytes": "256Mi"}));
    let limits = &tenant["status"]["limits"];
    let rate = (&limits["requestsPerSecond"], &limits["burst"]);
    assert_eq!(rate, (&json!(2000), &json!(4000)));
}

#[test]
fn flags_change_the_defaults() {
    let serving = Serving::start(&[
        "--tenant-quota-default",
        "bytes=1Gi,namespaces=9",
        "--tenant-limits-default",
        "requestsPerSecond=none,watches=7",
    ]);
    serving.succeed("insula tenant create acme --quota namespaces=5");
    let tenant = serving.tenant("", |tenant| tenant["status"]["quota"].is_object());
    let quota = json!({"bytes": "1Gi", "namespaces": 5});
    assert_eq!(tenant["status"]["quota"], quota);
    let limits = &tenant["status"]["limits"];
    assert_eq!(
        (&limits["requestsPerSecond"], &limits["watches"]),
        (&Value::Null, &json!(7))
    );
}

#[test]
fn default_quota_can_be_switched_off() {
    let serving = Serving::start(&["--tenant-quota-default", "none"]);
    serving.succeed("insula tenant create acme --limits watches=5");
    let tenant = serving.tenant("", |tenant| tenant["status"]["limits"].is_object());
    assert_eq!(tenant["status"]["limits"]["watches"], 5);
    let status = &tenant["status"];
    assert!(
        status["quota"].is_null() && status["usage"].is_null(),
        "{status}"
    );
}

#[test]
fn invalid_defaults_are_refused_with_a_reason() {
    for (flag, value, why) in [
        (
            "--tenant-quota-default",
            "bytes=0",
            "bytes=none is no limit",
        ),
        (
            "--tenant-quota-default",
            "pods=1",
            "\"pods\" is not a limit",
        ),
        (
            "--tenant-limits-default",
            "watches=0",
            "watches must be greater than zero",
        ),
    ] {
        let refused = Command::new(INSULA)
            .args(["serve", "--data-dir", "/nonexistent", flag, value])
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{flag} {value}");
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(message.contains(why), "{message}");
    }
    assert!(!Path::new("/nonexistent").exists());
}
