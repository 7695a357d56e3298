//! `insula serve` from the user's point of view.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use insula_access::{Authority, Validity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn insula(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn run(arguments: &[&str]) -> Output {
    insula(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server that has announced itself.
struct Serving {
    child: Child,
    message: String,
}

impl Serving {
    fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    fn start_with(data: &Path, more: &[&str]) -> Self {
        let mut child = insula(&["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        Self { child, message }
    }

    fn stop(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn server_announces_readiness_and_stops_cleanly() {
    let data = tempfile::tempdir().unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let serving = Serving::start(data.path());
        let message = serving
            .message
            .strip_prefix("insula ready https://127.0.0.1:");
        let (port, file) = message.unwrap().split_once(" kubeconfig=").unwrap();
        assert_ne!(port.parse::<u16>().unwrap(), 0);
        let kubeconfig = data.path().join("admin.kubeconfig");
        assert_eq!(file, format!("{}\n", kubeconfig.display()));
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let server = format!("server: https://127.0.0.1:{port}\n");
        assert!(
            text.contains(&server),
            "it points at the port that was picked"
        );
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&kubeconfig), 0o600);
        assert_eq!(mode(&data.path().join("pki")), 0o700);
        assert_eq!(mode(&data.path().join("pki/ca.key")), 0o600);
        assert_eq!(serving.stop(signal), Some(0));
    }
    assert!(data.path().join("store/format").is_file());
}

#[test]
fn restart_keeps_credentials_valid() {
    let data = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(data.path().join(name)).unwrap();
    let start = |more: &[&str]| {
        let url = ["--advertise-url", "https://api.example"];
        let serving = Serving::start_with(data.path(), &[&url, more].concat());
        assert_eq!(serving.stop(Signal::SIGTERM), Some(0));
        let certificates = (read("pki/ca.crt"), read("pki/server.crt"));
        (certificates, read("admin.kubeconfig"))
    };
    let first = start(&[]);
    assert!(first.1.contains("server: https://api.example\n"));
    assert_eq!(start(&[]), first);
    let renamed = start(&["--tls-san", "other.example"]);
    assert_eq!(renamed.0.0, first.0.0, "the CA stays");
    assert_ne!(renamed.0.1, first.0.1, "the server has a name more");
    assert_eq!(renamed.1, first.1, "the administrator's kubeconfig stays");
}

#[test]
fn damaged_ca_is_refused_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Serving::start(data.path()).stop(Signal::SIGTERM), Some(0));
    let key = data.path().join("pki/ca.key");
    std::fs::write(&key, "nonsense").unwrap();
    let folder = data.path().to_str().unwrap();
    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(
        message.contains("the CA's key is not a private key in PEM"),
        "{message}"
    );
    assert!(
        message.contains("\nhint: nothing was changed; restore"),
        "{message}"
    );
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "nonsense");
}

#[test]
fn invalid_token_file_is_reported_by_line_without_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "g00d,alice,1\ns3cret,bob,2,tenant:\n").unwrap();
    let data = folder.path().join("data");
    let refused = insula(&["serve", "--token-auth-file"])
        .arg(&tokens)
        .arg("--data-dir")
        .arg(&data)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(
        message.contains("tokens.csv: line 2: its tenant name is invalid"),
        "{message}"
    );
    assert!(message.contains("\nhint: each line is"), "{message}");
    assert!(
        !message.contains("s3cret") && !message.contains("g00d"),
        "{message}"
    );
    assert!(
        !data.exists(),
        "nothing is created before everything is read"
    );
}

#[test]
fn invalid_files_are_named() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Serving::start(data.path()).stop(Signal::SIGTERM), Some(0));
    let at = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, other) = (
        at("pki/server.crt"),
        at("pki/server.key"),
        at("pki/admin.key"),
    );
    let config = "apiVersion: pod-security.admission.config.k8s.io/v1\n\
                  kind: PodSecurityConfiguration\ndefaults:\n  enforce: strict\n";
    std::fs::write(at("pod-security.yaml"), config).unwrap();
    for (arguments, wrong) in [
        (
            vec![
                "--tls-cert-file",
                &certificate,
                "--tls-private-key-file",
                &other,
            ],
            "server.crt: the key does not match the certificate",
        ),
        (
            vec!["--tls-cert-file", &key, "--tls-private-key-file", &key],
            "server.key: no PEM certificates found",
        ),
        (
            vec!["--client-ca-file", &key],
            "server.key: no PEM certificates found",
        ),
        (
            vec!["--token-auth-file", "missing"],
            "missing: No such file",
        ),
        (
            vec!["--openapi-descriptions", "missing"],
            "missing: No such file",
        ),
        (
            vec!["--openapi-descriptions", &key],
            "cannot use the descriptions in",
        ),
        (
            vec!["--pod-security-config", "missing"],
            "missing: No such file",
        ),
        (
            vec!["--pod-security-config", &at("pod-security.yaml")],
            "pod-security.yaml: defaults.enforce: Invalid value: \"strict\": must be one of \
             privileged, baseline, restricted",
        ),
    ] {
        let refused = run(&[&["serve", "--data-dir", &at("")], &arguments[..]].concat());
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let message = stderr(&refused);
        assert!(message.contains(wrong), "{message}");
    }
    // Valid ones are served.
    let more = [
        "--tls-cert-file",
        &certificate,
        "--tls-private-key-file",
        &key,
    ];
    let serving = Serving::start_with(data.path(), &more);
    assert!(
        serving.message.starts_with("insula ready"),
        "{}",
        serving.message
    );
    assert_eq!(serving.stop(Signal::SIGTERM), Some(0));
}

#[test]
fn audit_log_is_complete_after_shutdown() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("audit.log");
    let more = ["--audit-log-path", log.to_str().unwrap()];
    let serving = Serving::start_with(data.path(), &more);
    let listed = insula(&["tenant", "list", "--kubeconfig"])
        .arg(data.path().join("admin.kubeconfig"))
        .output()
        .unwrap();
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    assert_eq!(serving.stop(Signal::SIGTERM), Some(0));
    let mode = log.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<&str> = text.lines().collect();
    assert_eq!(events.len(), 1, "{text}");
    for part in [
        "\"verb\":\"list\"",
        "\"objectRef\":{\"resource\":\"tenants\",\"apiVersion\":\"v1\"}",
        "\"insula.dev/tenant\":\"system\"",
    ] {
        assert!(events[0].contains(part), "{text}");
    }
}

#[test]
fn unwritable_audit_log_is_named_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("missing/audit.log");
    let refused = insula(&["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
        .arg("--data-dir")
        .arg(data.path())
        .arg("--audit-log-path")
        .arg(&log)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    let expected = format!("error: cannot write the audit log {}: ", log.display());
    assert!(message.starts_with(&expected), "{message}");
    assert!(
        message.contains("\nhint: --audit-log-path must be a file"),
        "{message}"
    );
}

#[test]
fn address_in_use_is_named_with_a_hint() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let serving = Serving::start(first.path());
    let address = serving.message.split([' ', '/']).nth(4).unwrap();
    let data = second.path().to_str().unwrap();
    let refused = run(&["serve", "--data-dir", data, "--listen", address]);
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(
        message.starts_with(&format!("error: cannot listen on {address}: ")),
        "{message}"
    );
    assert!(
        message.contains("\nhint: the address is in use"),
        "{message}"
    );
    assert_eq!(serving.stop(Signal::SIGTERM), Some(0));
}

#[test]
fn second_server_on_the_same_data_is_refused_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let serving = Serving::start(data.path());
    let second = run(&["serve", "--data-dir", data.path().to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let store = data.path().join("store");
    let expected = format!(
        "error: cannot open the store: {} is in use by another process\n\
         hint: stop the other insula, or choose another --data-dir\n",
        store.display()
    );
    assert_eq!(stderr(&second), expected);
    assert_eq!(serving.stop(Signal::SIGTERM), Some(0), "the first goes on");
}

#[test]
fn corrupt_store_is_refused_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Serving::start(data.path()).stop(Signal::SIGTERM), Some(0));
    let format = data.path().join("store/format");
    std::fs::write(&format, "insula store, format 9\n").unwrap();
    let refused = run(&["serve", "--data-dir", data.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(message.contains("newer version"), "{message}");
    assert!(
        message.ends_with("or move it away to start with an empty store\n"),
        "{message}"
    );
    assert_eq!(
        std::fs::read_to_string(&format).unwrap(),
        "insula store, format 9\n"
    );
}

#[test]
fn unreachable_etcd_is_named() {
    let refused = run(&[
        "serve",
        "--store",
        "etcd",
        "--etcd-servers",
        "http://127.0.0.1:1",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let message = stderr(&refused);
    assert!(
        message.starts_with("error: cannot use etcd: no etcd endpoint answers; http://127.0.0.1:1"),
        "{message}"
    );
    assert!(
        message.contains("\nhint: check --etcd-servers"),
        "{message}"
    );
}

#[test]
fn provider_with_the_servers_issuer_url_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
    let authority = Authority::generate("provider", validity).unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, authority.certificate_pem()).unwrap();
    let data = folder.path().join("data");
    // Nothing listens there, and nothing needs to.
    let (ours, theirs) = ("https://127.0.0.1:1", "https://127.0.0.1:2");
    let always = [
        "--advertise-url",
        ours,
        "--oidc-client-id",
        "insula",
        "--oidc-ca-file",
        ca.to_str().unwrap(),
        "--oidc-issuer-url",
    ];
    for more in [
        &[ours][..],
        &[theirs, "--service-account-issuer", theirs],
        &[ours, "--service-account-issuer", ours],
    ] {
        let mut command = insula(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        let refused = command.arg(&data).args(always).args(more).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        let message = format!(
            "error: --oidc-issuer-url and the issuer of service accounts' tokens are both {}\n\
             hint: the provider must be another server; if the URL is right, choose another one \
             with --service-account-issuer\n",
            more[0]
        );
        assert_eq!(stderr(&refused), message);
        assert!(!data.join("pki").exists(), "no key was created");
    }
    for more in [&[theirs][..], &[ours, "--service-account-issuer", theirs]] {
        let serving = Serving::start_with(&data, &[&always[..], more].concat());
        assert!(serving.message.starts_with("insula ready "), "{more:?}");
        assert_eq!(serving.stop(Signal::SIGTERM), Some(0), "{more:?}");
    }
}

#[test]
fn wrong_command_line_exits_with_2() {
    for wrong in [
        &["serve", "--store", "etcd"][..],
        &["serve", "--nonsense"],
        &["serve", "--listen", "nowhere"],
        &["serve", "--advertise-url", "http://plain.example"],
        &["serve", "--default-tenant", "all"],
        &["serve", "--etcd-prefix", "registry/"],
        &["serve", "--tls-cert-file", "alone"],
        &["serve", "--tls-san", "not a name"],
        &["serve", "--service-account-issuer", "http://plain.example"],
        &["serve", "--certificates-last", "1s"],
        &["serve", "--oidc-issuer-url", "https://id.example"],
        &["serve", "--oidc-client-id", "insula"],
        &["serve", "--max-unsent-bytes", "0"],
        &["serve", "--max-unsent-bytes-per-space", "64M"],
        &["tenant"],
        &["tenant", "create"],
        &["tenant", "create", "system"],
        &["tenant", "get", "UPPER"],
        &["tenant", "get", "t1", "-o", "xml"],
        &["tenant", "delete", "t1", "--timeout", "soon"],
        &["tenant", "kubeconfig", "t1", "--group", "system:masters"],
        &["tenant", "kubeconfig", "t1", "--group", "tenant:t2"],
        &["tenant", "kubeconfig", "t1", "--user", ""],
        &["tenant", "kubeconfig", "t1", "--user", "system:admin"],
        &["tenant", "kubeconfig", "t1", "--expires", "9m"],
        &["nonsense"],
        &[],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn help_matches_the_golden_files() {
    for (arguments, golden) in [
        (&["--help"][..], include_str!("golden/help.txt")),
        (&["serve", "--help"], include_str!("golden/serve-help.txt")),
        (
            &["tenant", "--help"],
            include_str!("golden/tenant-help.txt"),
        ),
        (
            &["tenant", "audit", "--help"],
            include_str!("golden/tenant-audit-help.txt"),
        ),
        (
            &["tenant", "create", "--help"],
            include_str!("golden/tenant-create-help.txt"),
        ),
        (
            &["tenant", "list", "--help"],
            include_str!("golden/tenant-list-help.txt"),
        ),
        (
            &["tenant", "get", "--help"],
            include_str!("golden/tenant-get-help.txt"),
        ),
        (
            &["tenant", "set", "--help"],
            include_str!("golden/tenant-set-help.txt"),
        ),
        (
            &["tenant", "kubeconfig", "--help"],
            include_str!("golden/tenant-kubeconfig-help.txt"),
        ),
        (
            &["tenant", "delete", "--help"],
            include_str!("golden/tenant-delete-help.txt"),
        ),
        (
            &["tenant", "access", "--help"],
            include_str!("golden/tenant-access-help.txt"),
        ),
        (
            &["tenant", "revoke", "--help"],
            include_str!("golden/tenant-revoke-help.txt"),
        ),
        (
            &["tenant", "restore", "--help"],
            include_str!("golden/tenant-restore-help.txt"),
        ),
        (&["move", "--help"], include_str!("golden/move-help.txt")),
    ] {
        let help = String::from_utf8(run(arguments).stdout).unwrap();
        assert_eq!(help, golden, "insula {}", arguments.join(" "));
    }
}

/// Returns the flags in a text: `--` and what follows. One that ends with `-` stands for all
/// flags that begin with it.
fn flags(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("--").map(|(at, _)| &text[at..]);
    let flags = starts.filter_map(|rest| {
        let end = rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '-'));
        let flag = &rest[..end.unwrap_or(rest.len())];
        let begins = flag[2..].starts_with(|sign: char| sign.is_ascii_lowercase());
        begins.then(|| flag.to_owned())
    });
    flags.collect()
}

#[test]
fn documentation_names_exactly_the_flags_of_serve() {
    let help = String::from_utf8(run(&["serve", "--help"]).stdout).unwrap();
    let options = help.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("--") || line.starts_with('-') && line.contains(", --")
    });
    let mut served: BTreeSet<String> = options.flat_map(flags).collect();
    served.remove("--help");
    assert!(served.len() > 50, "they are found: {served:?}");
    let page = include_str!("../../../docs/serving.md");
    let table = page.split("## Flags").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let named = flags(table);
    let undocumented: Vec<_> = served
        .iter()
        .filter(|flag| {
            let mut named = named.iter();
            !named.any(|name| name == *flag || name.ends_with('-') && flag.starts_with(name))
        })
        .collect();
    assert_eq!(undocumented, Vec::<&String>::new());
    // The first column has no flag that the program does not have.
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `--"));
    let column = rows.map(|row| format!("--{}", row.split(" |").next().unwrap()));
    let column: BTreeSet<String> = column.flat_map(|cell| flags(&cell)).collect();
    let unknown: Vec<_> = column.difference(&served).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}
