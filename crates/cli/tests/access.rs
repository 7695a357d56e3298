//! `insula tenant access`, `revoke` and `restore`, and the reload of files, beside a running
//! server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_access::{Authority, Subject, Validity};
use insula_core::Space;

const INSULA: &str = env!("CARGO_BIN_EXE_insula");

/// The file with the messages of the server.
const LOG: &str = "log";

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped.
struct Serving {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Serving {
    fn start(more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(INSULA);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
        command.arg("--data-dir").arg(folder.path().join("data"));
        for (flag, content) in more {
            let path = folder.path().join(flag.trim_start_matches('-'));
            std::fs::write(&path, content).unwrap();
            command.arg(flag).arg(path);
        }
        let mut child = command
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join(LOG)).unwrap())
            .spawn()
            .unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        let url = message.strip_prefix("insula ready ").unwrap();
        let url = url.split(' ').next().unwrap().to_owned();
        Self { child, url, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn admin(&self) -> PathBuf {
        self.path("data/admin.kubeconfig")
    }

    /// Runs `insula tenant` as the offering's administrator.
    fn tenant(&self, arguments: &[&str]) -> Output {
        tenant(&self.admin(), arguments)
    }

    /// Returns stdout; the command must succeed.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.tenant(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns stderr; the command must fail.
    fn fail(&self, arguments: &[&str]) -> String {
        let output = self.tenant(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        stderr(&output)
    }

    /// Waits until a changed file was found to be unusable.
    fn wait_for_failed_reload(&self) {
        wait("the failure", || {
            let log = std::fs::read_to_string(self.path(LOG)).unwrap();
            log.contains("file not reloaded")
        });
    }

    /// Writes a kubeconfig with these members of the user.
    fn kubeconfig(&self, name: &str, user: &str) -> PathBuf {
        let ca = std::fs::read(self.path("data/pki/ca.crt")).unwrap();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: s, user: u}}}}]\n\
             clusters: [{{name: s, cluster: {{server: \"{}\", certificate-authority-data: {}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n",
            self.url,
            BASE64_STANDARD.encode(ca),
        );
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn tenant(kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(INSULA)
        .arg("tenant")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether the server accepts the credential of a user without rights.
fn is_accepted(kubeconfig: &Path) -> bool {
    let message = stderr(&tenant(kubeconfig, &["list"]));
    let accepted = message.contains("cannot list resource");
    assert!(accepted || message.contains("Unauthorized"), "{message}");
    accepted
}

fn wait(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < TIMEOUT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The cells of the row about a user.
fn row(table: &str, user: &str) -> Option<Vec<String>> {
    let line = table.lines().find(|line| line.starts_with(user))?;
    let cells = line.split("   ").map(str::trim);
    let cells = cells.filter(|cell| !cell.is_empty()).map(str::to_owned);
    Some(cells.collect())
}

#[test]
fn revoked_user_is_locked_out_until_restored() {
    let serving = Serving::start(&[]);
    serving.succeed(&["create", "acme"]);
    let dora = serving.path("dora.kubeconfig");
    let kubeconfig = serving.succeed(&["kubeconfig", "acme", "--user", "dora"]);
    std::fs::write(&dora, kubeconfig).unwrap();
    let shown = || row(&serving.succeed(&["access", "acme"]), "dora");
    wait("the issued certificate", || shown().is_some());
    let issued = shown().unwrap();
    assert_eq!(issued[1..4], ["Certificate", "<never>", "<none>"]);
    assert_eq!(issued[5], "no");
    assert_eq!(issued[6].len(), 64, "the fingerprint");
    assert!(is_accepted(&dora));
    wait("the first use", || shown().unwrap()[3] == "127.0.0.1");
    assert_eq!(
        serving.succeed(&["revoke", "acme", "--user", "dora", "--reason", "left"]),
        "user dora of tenant acme revoked: 1 known credential\n"
    );
    assert!(!is_accepted(&dora));
    assert_eq!(shown().unwrap()[5], "yes");
    let again = serving.fail(&["revoke", "acme", "--user", "dora"]);
    assert!(again.contains("it is revoked already"), "{again}");
    assert_eq!(
        serving.succeed(&["restore", "acme", "--user", "dora"]),
        "user dora of tenant acme restored\n"
    );
    assert!(is_accepted(&dora));
    let not = serving.fail(&["restore", "acme", "--user", "dora"]);
    assert!(not.contains("it is not revoked"), "{not}");
    // By its fingerprint, as the listing shows it. A dry run revokes nothing.
    let fingerprint = &issued[6];
    let by_fingerprint = ["revoke", "acme", "--certificate", fingerprint];
    let dry = serving.succeed(&[&by_fingerprint[..], &["--dry-run"]].concat());
    assert!(row(&dry, "dora").is_some(), "{dry}");
    assert!(is_accepted(&dora));
    serving.succeed(&by_fingerprint);
    assert!(!is_accepted(&dora));
    let missing = serving.fail(&["access", "nowhere"]);
    assert!(
        missing.contains("cannot show the access to tenant nowhere"),
        "{missing}"
    );
}

#[test]
fn object_of_the_same_name_does_not_pass_for_a_revocation() {
    let serving = Serving::start(&[]);
    serving.succeed(&["create", "acme"]);
    let [dora, admin] = ["dora", "admin"].map(|user| {
        let path = serving.path(&format!("{user}.kubeconfig"));
        let kubeconfig = serving.succeed(&["kubeconfig", "acme", "--user", user]);
        std::fs::write(&path, kubeconfig).unwrap();
        path
    });
    assert!(is_accepted(&dora));
    // A user of the tenant creates the same revocation, and can delete it at any time.
    let revoked = tenant(&admin, &["revoke", "acme", "--user", "dora"]);
    assert_eq!(revoked.status.code(), Some(0), "{}", stderr(&revoked));
    let revoke = ["revoke", "acme", "--user", "dora"];
    serving.succeed(&revoke);
    let again = serving.fail(&revoke);
    assert!(again.contains("it is revoked already"), "{again}");
    let restored = tenant(&admin, &["restore", "acme", "--user", "dora"]);
    assert_ne!(restored.status.code(), Some(0));
    assert!(!is_accepted(&dora), "the system's revocation stays");
    serving.succeed(&["restore", "acme", "--user", "dora"]);
    assert!(is_accepted(&dora));
}

#[test]
fn unknown_user_is_revoked_with_a_warning() {
    let serving = Serving::start(&[]);
    serving.succeed(&["create", "acme"]);
    let output = serving.tenant(&["revoke", "acme", "--user", "dorra"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warning = "warning: no credential of user \"dorra\" is known: is the name right?\n";
    assert_eq!(stderr(&output), warning);
}

#[test]
fn administrator_is_not_locked_out_by_accident_and_gets_in_again() {
    let rescue = "rescue-token,rescue,1,\"system:masters,tenant:system\"\n";
    let serving = Serving::start(&[("--token-auth-file", rescue)]);
    for target in [
        &["--issued-before", "now"][..],
        &["--user", "kubernetes-admin"],
    ] {
        let refused = serving.fail(&[&["revoke", "system"][..], target].concat());
        assert!(
            refused.contains("it is the credential of this command"),
            "{refused}"
        );
        assert!(
            refused.contains("hint: use another credential, or --force"),
            "{refused}"
        );
    }
    serving.succeed(&["list"]);
    serving.succeed(&["revoke", "system", "--user", "kubernetes-admin", "--force"]);
    let locked = serving.fail(&["list"]);
    assert!(locked.contains("Unauthorized"), "{locked}");
    let rescue = serving.kubeconfig("rescue.kubeconfig", "token: rescue-token");
    let restored = tenant(
        &rescue,
        &["restore", "system", "--user", "kubernetes-admin"],
    );
    assert_eq!(restored.status.code(), Some(0), "{}", stderr(&restored));
    serving.succeed(&["list"]);
}

#[test]
fn changed_token_file_is_reloaded_and_a_broken_one_is_not() {
    let (alice, bob) = (
        "a-token,alice,1,\"tenant:acme\"\n",
        "b-token,bob,2,\"tenant:acme\"\n",
    );
    let serving = Serving::start(&[("--token-auth-file", alice)]);
    serving.succeed(&["create", "acme"]);
    let [a, b] = ["a", "b"].map(|user| {
        let name = format!("{user}.kubeconfig");
        serving.kubeconfig(&name, &format!("token: {user}-token"))
    });
    assert!(is_accepted(&a) && !is_accepted(&b));
    let file = serving.path("token-auth-file");
    std::fs::write(&file, format!("{alice}{bob}")).unwrap();
    wait("the new line", || is_accepted(&b));
    std::fs::write(&file, format!("{alice}no line of tokens\n")).unwrap();
    serving.wait_for_failed_reload();
    assert!(is_accepted(&a) && is_accepted(&b), "the old lines stay");
    std::fs::write(&file, bob).unwrap();
    wait("the removal", || !is_accepted(&a));
    assert!(is_accepted(&b));
}

#[test]
fn changed_client_cas_are_reloaded_and_broken_ones_are_not() {
    let day = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
    let [first, second] = ["first", "second"].map(|name| Authority::generate(name, day).unwrap());
    let serving = Serving::start(&[("--client-ca-file", first.certificate_pem())]);
    serving.succeed(&["create", "acme"]);
    let identity = |name: &str, ca: &Authority| {
        let key = rcgen::KeyPair::generate().unwrap();
        let subject = Subject {
            user: "carl".to_owned(),
            groups: Vec::new(),
            tenant: Some(Space::parse("acme").unwrap()),
            tenant_uid: None,
        };
        // The tenant existed when the validity began.
        let now = SystemTime::now();
        let validity = Validity { from: now, ..day };
        let certificate = ca.issue_client(&subject, &key, validity).unwrap();
        let (certificate, key) = (
            BASE64_STANDARD.encode(certificate),
            BASE64_STANDARD.encode(key.serialize_pem()),
        );
        let user = format!("client-certificate-data: {certificate}, client-key-data: {key}");
        serving.kubeconfig(name, &user)
    };
    let (a, b) = (
        identity("a.kubeconfig", &first),
        identity("b.kubeconfig", &second),
    );
    assert!(is_accepted(&a) && !is_accepted(&b));
    let file = serving.path("client-ca-file");
    let both = format!("{}{}", first.certificate_pem(), second.certificate_pem());
    std::fs::write(&file, both).unwrap();
    wait("the new CA", || is_accepted(&b));
    std::fs::write(&file, "nonsense").unwrap();
    serving.wait_for_failed_reload();
    assert!(is_accepted(&a) && is_accepted(&b), "the old CAs stay");
    std::fs::write(&file, second.certificate_pem()).unwrap();
    wait("the removal", || !is_accepted(&a));
    assert!(is_accepted(&b));
    serving.succeed(&["list"]);
}
