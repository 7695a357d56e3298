//! Writing and reading of kubeconfigs.

use std::path::PathBuf;

use kube::config::KubeConfigOptions;
use tempfile::TempDir;

use super::*;
use crate::secret::Secret;

fn identity() -> Identity {
    Identity {
        certificate: "the certificate".repeat(20),
        key: Secret::new("the key"),
    }
}

/// Writes files and returns their paths.
fn files(folder: &TempDir, texts: &[&str]) -> Vec<PathBuf> {
    let write = |(number, text): (usize, &&str)| {
        let path = folder.path().join(format!("{number}.kubeconfig"));
        std::fs::write(&path, text).unwrap();
        path
    };
    texts.iter().enumerate().map(write).collect()
}

/// Returns the configuration of a context.
fn config(files: &[PathBuf], context: Option<&str>) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let kubeconfig = load::merged(files)?;
    runtime
        .unwrap()
        .block_on(load::with_user(kubeconfig, &options))
}

#[test]
fn written_kubeconfig_is_read_back() {
    let block = Pem::new("CERTIFICATE", "the CA");
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let authorities = pem::encode_config(&block, lines);
    for trust in [
        Trust::Authorities(authorities),
        Trust::System,
        Trust::Insecure,
    ] {
        let written = Entry {
            server: "https://127.0.0.1:6443",
            trust: &trust,
            identity: &identity(),
            cluster: "insula",
            user: "admin",
            context: "insula",
            expires: None,
        };
        let yaml = written.to_yaml().unwrap();
        assert!(
            !yaml.contains('>'),
            "a value is on the line of its name: {yaml}"
        );
        assert!(yaml.starts_with("apiVersion: v1\nclusters:\n"), "{yaml}");
        let folder = tempfile::tempdir().unwrap();
        let read = config(&files(&folder, &[&yaml]), None).unwrap();
        assert_eq!(read.cluster_url, "https://127.0.0.1:6443/");
        assert_eq!(Trust::of(&read), trust);
        assert_eq!(read.tls_server_name, None);
        let user = &read.auth_info;
        let certificate = BASE64_STANDARD.encode(identity().certificate);
        assert_eq!(user.client_certificate_data, Some(certificate));
        let key = serde_json::to_value(user).unwrap()["client-key-data"].clone();
        assert_eq!(key, BASE64_STANDARD.encode("the key"));
        assert!(user.token.is_none());
        let shown = format!("{read:?}");
        let secret = BASE64_STANDARD.encode("the key");
        assert!(
            !shown.contains("the key") && !shown.contains(&secret),
            "{shown}"
        );
    }
}

#[test]
fn file_is_rewritten_only_if_its_content_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.kubeconfig");
    let keep = |server: &str| {
        let kubeconfig = Entry {
            server,
            trust: &Trust::System,
            identity: &identity(),
            cluster: "insula",
            user: "admin",
            context: "insula",
            expires: None,
        };
        kubeconfig.ensure_at(&path).unwrap();
        std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap())
    };
    let first = keep("https://a");
    assert_eq!(keep("https://a"), first);
    assert_ne!(keep("https://b"), first);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("server: https://b\n"), "{text}");
}

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
preferences: {}
current-context: two
clusters:
- name: c
  cluster:
    certificate-authority: ca.pem
    certificate-authority-data: ""
    server: https://h/tenants/t1
    tls-server-name: other
    extensions: [{name: x, extension: {a: 1}}]
- {name: nowhere, cluster: {server: ""}}
- {name: other, cluster: {server: "ftp://h"}}
contexts:
- {name: one, context: {cluster: c, user: u, namespace: ns}}
- {name: two, context: {cluster: c, user: missing}}
- {name: three, context: {cluster: c, user: plugin}}
- {name: four, context: {cluster: c, user: half}}
- {name: six, context: {cluster: c, user: file}}
- {name: seven, context: {cluster: nowhere, user: u}}
- {name: eight, context: {cluster: other, user: u}}
users:
- name: u
  user: {token: ignored, tokenFile: token}
- name: plugin
  user: {exec: {command: aws, args: [a], apiVersion: v1}}
- name: half
  user: {client-certificate-data: QQ==}
- name: file
  user: {tokenFile: missing}
"#;

#[test]
fn kubeconfigs_of_other_programs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let ca = pem::encode(&Pem::new("CERTIFICATE", "the CA"));
    std::fs::write(folder.path().join("ca.pem"), ca).unwrap();
    std::fs::write(folder.path().join("token"), "t0ken\n").unwrap();
    let files = files(&folder, &[KUBECONFIG]);
    let one = config(&files, Some("one")).unwrap();
    assert_eq!(one.cluster_url, "https://h/tenants/t1");
    assert_eq!(one.root_cert, Some(vec![b"the CA".to_vec()]));
    assert_eq!(one.tls_server_name.as_deref(), Some("other"));
    let user = serde_json::to_value(&one.auth_info).unwrap();
    assert_eq!(user, serde_json::json!({ "token": "t0ken" }));
    let plugin = config(&files, Some("three")).unwrap().auth_info.exec;
    assert_eq!(plugin.unwrap().command.as_deref(), Some("aws"));
    for (context, wrong) in [
        (None, "the kubeconfig has no user \"missing\""),
        (Some("five"), "the kubeconfig has no context \"five\""),
        (Some("six"), "missing of the kubeconfig: No such file"),
        (Some("seven"), "the cluster of the kubeconfig has no server"),
        (Some("eight"), "the scheme is neither https nor http"),
    ] {
        let failure = config(&files, context).unwrap_err().to_string();
        assert!(failure.contains(wrong), "{failure}");
    }
}

#[test]
fn certificate_without_its_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "").unwrap();
    let half = config(&files(&folder, &[KUBECONFIG]), Some("four")).unwrap();
    let failure = crate::client::connect(half).err().unwrap().to_string();
    assert!(failure.contains("without its key"), "{failure}");
}

#[test]
fn null_is_accepted_and_invalid_files_are_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let empty = "apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\ncurrent-context: \"\"\n";
    let failure = config(&files(&folder, &[empty]), None).unwrap_err();
    assert_eq!(failure.to_string(), "the kubeconfig has no current context");
    let broken = "users:\n- name: u\n  user: {token: [s3cret]}\n";
    let failure = config(&files(&folder, &[broken]), None).unwrap_err();
    let failure = failure.to_string();
    assert!(
        failure.ends_with(": not a kubeconfig (line 3)"),
        "{failure}"
    );
}

#[test]
fn first_of_two_files_wins() {
    let cluster =
        |server: &str| format!("clusters: [{{name: c, cluster: {{server: {server}}}}}]\n");
    let first = cluster("https://first");
    let second = cluster("https://second")
        + "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n";
    let folder = tempfile::tempdir().unwrap();
    let merged = config(&files(&folder, &[&first, &second]), None).unwrap();
    assert_eq!(merged.cluster_url, "https://first/");
}
