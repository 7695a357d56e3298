//! `insula serve --encryption-config` and `insula encryption`, with real processes.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use insula_core::Layout;
use insula_encryption::is_sealed;
use insula_store::embedded::Embedded;
use insula_store::etcd::{Etcd, Options};
use insula_store::{At, Key, KeyRange, Store};
use insula_testkit::etcd::EtcdServer;
use insula_testkit::kms::FakeKms;
use insula_testkit::permissions::assert_private;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

fn insula(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    command.args(arguments).env_remove("RUST_LOG");
    command.output().unwrap()
}

/// Runs a command that must succeed, and returns its stdout.
fn run(arguments: &[&str]) -> String {
    let output = insula(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server that is killed when this value is dropped.
struct Serving {
    child: Child,
    data: PathBuf,
    client: kube::Client,
}

impl Serving {
    async fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .args(more)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let announced = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line
        });
        let announced = announced.await.unwrap();
        assert!(announced.starts_with("insula ready "), "{announced}");
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let kubeconfig = Kubeconfig::read_from(data.join("admin.kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Self {
            child,
            data: data.to_owned(),
            client: kube::Client::try_from(config.unwrap()).unwrap(),
        }
    }

    /// Sends a request, and returns the status and the body.
    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        send(&self.client, method, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn create_secret(&self, path: &str, name: &str, marker: &str) {
        let created = self.send("POST", path, Some(secret(name, marker))).await;
        assert_eq!(created.0, 201, "{created:?}");
    }

    fn create_tenant(&self, name: &str) {
        let kubeconfig = self.data.join("admin.kubeconfig");
        run(&["tenant", "create", name, "--kubeconfig", text(&kubeconfig)]);
    }

    async fn tenant_uid(&self, name: &str) -> String {
        let tenant = self.get(&format!("/api/v1/tenants/{name}")).await;
        tenant["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Issues a credential of a tenant, and waits until that is recorded.
    async fn record_access(&self, name: &str) {
        let account = format!("/api/v1/tenants/{name}/namespaces/default/serviceaccounts/default");
        let begun = Instant::now();
        // A controller creates the account.
        while self.send("GET", &account, None).await.0 != 200 {
            assert!(begun.elapsed() < TIMEOUT, "no account of {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        let token = format!("{account}/token");
        let issued = self.send("POST", &token, Some(request)).await;
        assert_eq!(issued.0, 201, "{issued:?}");
        let begun = Instant::now();
        while self.send("GET", &access_record(name), None).await.0 != 200 {
            assert!(begun.elapsed() < TIMEOUT, "no record of {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn delete_tenant(&self, name: &str) {
        let path = format!("/api/v1/tenants/{name}");
        self.send("DELETE", &path, None).await;
        let begun = Instant::now();
        while self.send("GET", &path, None).await.0 != 404 {
            assert!(begun.elapsed() < TIMEOUT, "{name} is not deleted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns a metric of encryption.
    async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = self.send("GET", "/metrics", None).await;
        let prefix = format!("insula_encryption_{name} ");
        let found = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
        found
            .unwrap_or_else(|| panic!("no {name}: {metrics}"))
            .parse()
            .unwrap()
    }

    async fn await_metric(&self, name: &str, expected: u64) {
        let begun = Instant::now();
        loop {
            let found = self.metric(name).await;
            if found == expected {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{name} is {found}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn stop(mut self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, String) {
    use http_body_util::BodyExt;
    let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn secret(name: &str, marker: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": {"marker": marker}},
        "stringData": {"marker": marker},
    })
}

const SYSTEM: &str = "/api/v1/namespaces/default/secrets";

fn access_record(tenant: &str) -> String {
    format!("/apis/access.insula.dev/v1/tenantaccesses/{tenant}")
}

fn secrets_of(tenant: &str) -> String {
    format!("/api/v1/tenants/{tenant}/namespaces/default/secrets")
}

/// Every file below a folder that contains the text, or its base64.
fn files_with(folder: &Path, marker: &str) -> Vec<PathBuf> {
    use base64::Engine;
    // Of the encoding, the part that does not depend on what follows.
    let encoded = base64::engine::general_purpose::STANDARD.encode(marker);
    let patterns = [marker.as_bytes(), encoded.trim_end_matches('=').as_bytes()];
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, marker));
            continue;
        }
        let content = std::fs::read(&path).unwrap();
        let contains = |pattern: &[u8]| content.windows(pattern.len()).any(|part| part == pattern);
        if patterns.iter().any(|pattern| contains(pattern)) {
            found.push(path);
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Opens the store of a server that has stopped, below the encryption.
async fn open_below(data: &Path) -> Embedded {
    let options = insula_store::embedded::Options::default();
    Embedded::open(data.join("store"), options).await.unwrap()
}

/// Waits until a record of a data key says that it was destroyed: right after the deletion.
async fn await_destroyed(record: impl AsyncFn() -> Vec<u8>) {
    let begun = Instant::now();
    loop {
        let found = record().await;
        if found.starts_with(b"{\"state\":\"destroyed\"") {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{}", found.escape_ascii());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn old_copy_of_the_store_shows_nothing_of_a_deleted_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("keys.yaml"));
    let said = run(&["encryption", "init", text(&config), "--all"]);
    assert!(said.contains("insula serve --encryption-config"), "{said}");
    let mode = config.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = insula(&["encryption", "init", text(&config)]);
    assert_eq!(again.status.code(), Some(1));
    let flag = ["--encryption-config", text(&config)];

    let server = Serving::start(&data, &flag).await;
    for tenant in ["tenant-a", "tenant-b"] {
        server.create_tenant(tenant);
        let marker = format!("marker-of-{tenant}");
        server
            .create_secret(&secrets_of(tenant), "s", &marker)
            .await;
    }
    server.create_secret(SYSTEM, "s", "marker-of-system").await;
    let uid = server.tenant_uid("tenant-a").await;
    server.record_access("tenant-a").await;
    let (_, ready) = server.send("GET", "/readyz?verbose", None).await;
    assert!(ready.contains("[+]encryption ok\n"), "{ready}");
    assert_eq!(files_with(&data, "marker-of"), [""; 0].map(PathBuf::from));
    assert_private(&data);
    server.stop();
    // The markers would be found: names of objects are not encrypted.
    assert_ne!(
        files_with(&data.join("store"), "/registry/secrets/tenant-a/"),
        [""; 0].map(PathBuf::from)
    );
    assert_eq!(files_with(&data, "marker-of"), [""; 0].map(PathBuf::from));
    let old = folder.path().join("old");
    copy(&data.join("store"), &old.join("store"));
    // The record of the tenant's credentials names the tenant's data key.
    let record = Key::from("/registry/access.insula.dev/tenantaccesses/tenant-a");
    let record = open_below(&old).await.get(&record).await.unwrap().unwrap();
    let mut named = record.value.windows(uid.len());
    assert!(named.any(|part| part == uid.as_bytes()), "{record:?}");

    let server = Serving::start(&data, &flag).await;
    server.delete_tenant("tenant-a").await;
    let record = data.join(format!("encryption/data-keys/{uid}.json"));
    await_destroyed(async || std::fs::read(&record).unwrap()).await;
    server.stop();
    let status = run(&["encryption", "status", "--data-dir", text(&data)]);
    assert!(status.contains("aesgcm:key1"), "{status}");
    assert!(
        status.contains("2 data keys in use, 1 destroyed with their tenants."),
        "{status}"
    );

    for part in ["pki", "encryption"] {
        copy(&data.join(part), &old.join(part));
    }
    let mut serve = vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", text(&old)];
    serve.extend(flag);
    let refused = insula(&serve);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        stderr.contains("it is an older copy\nhint: nothing was changed"),
        "{stderr}"
    );
    run(&["encryption", "accept-store", "--data-dir", text(&old)]);
    let server = Serving::start(&old, &flag).await;
    let found = server.get(&format!("{}/s", secrets_of("tenant-b"))).await;
    assert_eq!(
        found["metadata"]["annotations"]["marker"],
        "marker-of-tenant-b"
    );
    for gone in ["/api/v1/tenants/tenant-a", &access_record("tenant-a")] {
        let (status, body) = server.send("GET", gone, None).await;
        assert_eq!(status, 404, "{gone}: {body}");
    }
    let all = server.get("/api/v1/tenants/all/secrets").await.to_string();
    assert!(
        all.contains("marker-of-tenant-b") && !all.contains("marker-of-tenant-a"),
        "{all}"
    );
    // The name is free again, and nothing of the old tenant is in the way.
    server.create_tenant("tenant-a");
    server
        .create_secret(&secrets_of("tenant-a"), "s", "marker-of-the-next")
        .await;
    server.stop();

    let output = insula(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        text(&data),
    ]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr
            .starts_with("error: the store is encrypted\nhint: start with the --encryption-config"),
        "{stderr}"
    );
}

fn configuration(keys: &[(&str, &str)], resources: &str) -> String {
    let keys = keys
        .iter()
        .map(|(name, secret)| format!("      - name: {name}\n        secret: {secret}\n"));
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [{resources}]\n  providers:\n  - aesgcm:\n      keys:\n{}",
        keys.collect::<String>()
    )
}

const ONE: (&str, &str) = ("one", "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=");
const TWO: (&str, &str) = ("two", "MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI=");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_rotate_under_load_and_a_bad_configuration_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("keys.yaml"));
    std::fs::write(&config, configuration(&[ONE], "'*.*'")).unwrap();
    let flag = ["--encryption-config", text(&config)];
    let server = Serving::start(&data, &flag).await;
    server.create_tenant("tenant-a");
    let (stop, client) = (Arc::new(AtomicBool::new(false)), server.client.clone());
    let stopped = Arc::clone(&stop);
    let load = tokio::spawn(async move {
        let mut count = 0;
        while !stopped.load(Ordering::Acquire) {
            let created = secret(&format!("s{count}"), "v");
            let created = send(&client, "POST", &secrets_of("tenant-a"), Some(created)).await;
            assert_eq!(created.0, 201, "{created:?}");
            count += 1;
        }
        count
    });
    let status = || run(&["encryption", "status", "--data-dir", text(&data)]);
    assert!(status().contains("aesgcm:one"), "{}", status());

    // The old key is missing, then the file is not a configuration at all.
    for (bad, failures) in [
        (configuration(&[TWO], "'*.*'"), 1),
        ("nonsense".to_owned(), 2),
    ] {
        std::fs::write(&config, bad).unwrap();
        server
            .await_metric("config_reload_failures_total", failures)
            .await;
        let (_, ready) = server.send("GET", "/readyz?verbose", None).await;
        assert!(
            ready.contains("[+]encryption ok: the configuration file was refused\n"),
            "{ready}"
        );
    }
    assert!(status().contains("aesgcm:one"), "{}", status());

    std::fs::write(&config, configuration(&[TWO, ONE], "'*.*'")).unwrap();
    server.await_metric("config_reloads_total", 1).await;
    assert_eq!(server.metric("rotation_pending").await, 0);
    let rotated = status();
    assert!(
        rotated.contains("aesgcm:two") && !rotated.contains("aesgcm:one"),
        "{rotated}"
    );
    std::fs::write(&config, configuration(&[TWO], "'*.*'")).unwrap();
    server.await_metric("config_reloads_total", 2).await;
    server.create_tenant("tenant-b");
    stop.store(true, Ordering::Release);
    let count = load.await.unwrap();
    server.stop();

    let server = Serving::start(&data, &flag).await;
    let found = server.get(&secrets_of("tenant-a")).await;
    let found = found["items"].as_array().unwrap().iter();
    let found = found.filter(|secret| secret["metadata"]["annotations"]["marker"] == "v");
    assert_eq!(found.count(), count);
    server.stop();
}

#[tokio::test]
async fn plain_store_is_encrypted_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("keys.yaml"));
    let server = Serving::start(&data, &[]).await;
    server.create_tenant("tenant-a");
    server
        .create_secret(&secrets_of("tenant-a"), "s", "plain-marker")
        .await;
    server.stop();
    std::fs::write(&config, configuration(&[ONE], "secrets")).unwrap();
    let server = Serving::start(&data, &["--encryption-config", text(&config)]).await;
    let begun = Instant::now();
    while server.metric("rewritten_values_total").await == 0
        || server.metric("rewrite_pending").await == 1
    {
        assert!(begun.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = server.get(&format!("{}/s", secrets_of("tenant-a"))).await;
    assert_eq!(found["metadata"]["annotations"]["marker"], "plain-marker");
    server.stop();
    // What the engine returns now; older versions are in its files until they are merged.
    let secrets = KeyRange::prefix("/registry/secrets/");
    let below = open_below(&data).await;
    let page = below.range(&secrets, At::Latest, None).await.unwrap();
    assert!(!page.entries.is_empty());
    for entry in page.entries {
        assert!(is_sealed(&entry.value), "{}", entry.key.escape_ascii());
    }
}

#[tokio::test]
async fn servers_over_one_etcd_share_keys_and_the_store_contains_no_secret() {
    let Some(etcd) = EtcdServer::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("keys.yaml");
    std::fs::write(&config, configuration(&[ONE], "'*.*'")).unwrap();
    let endpoint = etcd.endpoint();
    let flags = [
        "--store",
        "etcd",
        "--etcd-servers",
        &endpoint,
        "--encryption-config",
        text(&config),
    ];
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let first = Serving::start(&one, &flags).await;
    copy(&one.join("pki"), &two.join("pki"));
    let second = Serving::start(&two, &flags).await;
    first.create_tenant("tenant-a");
    first.create_tenant("tenant-b");
    second
        .create_secret(&secrets_of("tenant-a"), "s", "marker-of-a")
        .await;
    second
        .create_secret(&secrets_of("tenant-b"), "s", "marker-of-b")
        .await;
    first.create_secret(SYSTEM, "s", "marker-of-system").await;
    let found = first.get(&format!("{}/s", secrets_of("tenant-a"))).await;
    assert_eq!(found["metadata"]["annotations"]["marker"], "marker-of-a");
    let uid = first.tenant_uid("tenant-a").await;

    let below = Etcd::connect(Options::new(vec![endpoint.clone()]))
        .await
        .unwrap();
    let all = KeyRange::prefix("/registry/");
    let page = below.range(&all, At::Latest, None).await.unwrap();
    let layout = Layout::default();
    for entry in &page.entries {
        let key = str::from_utf8(&entry.key).unwrap();
        let sealed = is_sealed(&entry.value) || entry.value.is_empty();
        assert!(
            sealed || layout.encryption_record_name(key).is_some(),
            "{key}"
        );
    }
    first.delete_tenant("tenant-a").await;
    let key = layout.encryption_record(&format!("data-keys/{uid}"));
    let key = Key::from(key);
    await_destroyed(async || below.get(&key).await.unwrap().unwrap().value.to_vec()).await;
    let found = second.get(&format!("{}/s", secrets_of("tenant-b"))).await;
    assert_eq!(found["metadata"]["annotations"]["marker"], "marker-of-b");
    // A server without the configuration would take sealed values for objects.
    let three = folder.path().join("three");
    let without = insula(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        text(&three),
        flags[0],
        flags[1],
        flags[2],
        flags[3],
    ]);
    assert_eq!(without.status.code(), Some(1));
    assert!(
        String::from_utf8(without.stderr)
            .unwrap()
            .starts_with("error: the store is encrypted\n")
    );
    first.stop();
    second.stop();
}

#[tokio::test]
async fn start_waits_for_a_kms_plugin_and_serving_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("keys.yaml"));
    let mut kms = FakeKms::start().unwrap();
    let text_of_config = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers:\n  - kms: {{apiVersion: v2, name: fake, endpoint: '{}', timeout: 1s}}\n",
        kms.endpoint()
    );
    std::fs::write(&config, text_of_config).unwrap();
    let flag = ["--encryption-config", text(&config)];
    let server = Serving::start(&data, &flag).await;
    server.create_secret(SYSTEM, "s", "marker").await;
    server.stop();
    kms.stop();
    let start = tokio::spawn({
        let (data, config) = (data.clone(), config.clone());
        async move { Serving::start(&data, &["--encryption-config", text(&config)]).await }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!start.is_finished(), "it started without its keys");
    kms.restart().unwrap();
    let server = start.await.unwrap();
    kms.stop();
    let found = server.get(&format!("{SYSTEM}/s")).await;
    assert_eq!(found["metadata"]["annotations"]["marker"], "marker");
    server.create_tenant("tenant-a");
    server
        .create_secret(&secrets_of("tenant-a"), "s", "marker")
        .await;
    server.stop();
}
