//! Writing and reading of kubeconfigs.

use std::path::Path;

use super::*;

fn identity() -> Identity {
    Identity {
        certificate: "the certificate".repeat(20),
        key: Secret::new("the key"),
    }
}

fn parsed(text: &str) -> Kubeconfig {
    Kubeconfig::parse(text, Path::new("/etc/k")).unwrap()
}

#[test]
fn written_kubeconfig_is_read_back() {
    for trust in [
        Trust::Authorities("the CA".to_owned()),
        Trust::System,
        Trust::Insecure,
    ] {
        let written = Kubeconfig::new(&Entry {
            server: "https://127.0.0.1:6443",
            trust: &trust,
            identity: &identity(),
            user: "admin",
            context: "insula",
        });
        let yaml = written.to_yaml().unwrap();
        let read = parsed(&yaml);
        assert_eq!(read, written, "{yaml}");
        assert!(
            !yaml.contains('>'),
            "a value is on the line of its name: {yaml}"
        );
        let expected = Connection {
            server: "https://127.0.0.1:6443".to_owned(),
            trust,
            server_name: None,
            certificate: Some(ClientCertificate {
                certificate: identity().certificate,
                key: Secret::new("the key"),
            }),
            token: None,
        };
        let connection = Connection::of(&read, None).unwrap();
        assert_eq!(connection, expected);
        for shown in [format!("{read:?}"), format!("{connection:?}")] {
            let secret = BASE64_STANDARD.encode("the key");
            assert!(
                !shown.contains("the key") && !shown.contains(&secret),
                "{shown}"
            );
        }
    }
}

#[test]
fn file_is_rewritten_only_if_its_content_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.kubeconfig");
    let keep = |server: &str| {
        let kubeconfig = Kubeconfig::new(&Entry {
            server,
            trust: &Trust::System,
            identity: &identity(),
            user: "admin",
            context: "insula",
        });
        kubeconfig.ensure_at(&path).unwrap();
        std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap())
    };
    let first = keep("https://a");
    assert_eq!(keep("https://a"), first);
    assert_ne!(keep("https://b"), first);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("server: https://b\n"), "{text}");
}

#[test]
fn kubeconfigs_of_other_programs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), "the CA").unwrap();
    std::fs::write(folder.path().join("token"), "t0ken\n").unwrap();
    let text = r#"
apiVersion: v1
kind: Config
preferences: {}
current-context: two
clusters:
- name: c
  cluster:
    certificate-authority: ca.pem
    server: https://h/tenants/t1
    tls-server-name: other
    extensions: [{name: x, extension: {a: 1}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: ns}}
- {name: two, context: {cluster: c, user: missing}}
- {name: three, context: {cluster: c, user: plugin}}
- {name: four, context: {cluster: c, user: half}}
users:
- name: u
  user: {token: ignored, tokenFile: token}
- name: plugin
  user: {exec: {command: aws, args: [a], apiVersion: v1}}
- name: half
  user: {client-certificate-data: QQ==}
"#;
    let config = Kubeconfig::parse(text, folder.path()).unwrap();
    let connection = Connection::of(&config, Some("one")).unwrap();
    assert_eq!(connection.server, "https://h/tenants/t1");
    assert_eq!(connection.trust, Trust::Authorities("the CA".to_owned()));
    assert_eq!(connection.server_name.as_deref(), Some("other"));
    assert_eq!(connection.token, Some(Secret::new("t0ken")));
    for (context, wrong) in [
        (None, "the kubeconfig has no user \\\"missing\\\""),
        (Some("five"), "the kubeconfig has no context"),
        (Some("three"), "uses a credential plugin"),
        (Some("four"), "without its key"),
    ] {
        let failure = Connection::of(&config, context).unwrap_err();
        let said = format!("{failure:?}");
        assert!(said.contains(wrong), "{said}");
    }
}

#[test]
fn null_is_accepted_and_invalid_files_are_not_quoted() {
    let empty = parsed(
        "apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\ncurrent-context: \"\"\n",
    );
    Connection::of(&empty, None).unwrap_err();
    let broken = "users:\n- name: u\n  user: {token: [s3cret]}\n";
    let said = Kubeconfig::parse(broken, Path::new("")).unwrap_err();
    assert_eq!(said, " (line 3)");
}

#[test]
fn first_of_two_files_wins() {
    let cluster =
        |server: &str| format!("clusters: [{{name: c, cluster: {{server: {server}}}}}]\n");
    let first = parsed(&cluster("https://first"));
    let second = cluster("https://second")
        + "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n";
    let merged = first.merge(parsed(&second));
    let connection = Connection::of(&merged, None).unwrap();
    assert_eq!(connection.server, "https://first");
}
