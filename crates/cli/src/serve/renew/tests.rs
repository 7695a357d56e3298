use std::path::Path;

use insula_access::{Authority, Validity};
use insula_core::Layout;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::*;
use crate::serve::prepare::{Listening, ServerConfig, prepare};
use crate::serve::reload::TrustFiles;

const DAY: Duration = Duration::from_secs(86_400);
const LEAF_LASTS: Duration = Duration::from_secs(365 * 86_400);

fn start(data: &Path, files: Option<&TlsFiles>) -> Renewal {
    let listening = Listening {
        address: "127.0.0.1:0".parse().unwrap(),
        advertised: Some("https://api.example".to_owned()),
        advertised_address: None,
        names: vec!["more.example".to_owned()],
    };
    let given = ServerConfig {
        tls: files.map(|files| (files.clone(), files.load().unwrap())),
        certificates_last: LEAF_LASTS,
        client_cas: Vec::new(),
        tokens: None,
        trust_files: TrustFiles::default(),
        descriptions: None,
        service_range: Default::default(),
        issuer_url: None,
        oidc: None,
        audit: None,
        egress: insula_apiserver::egress::Settings::default(),
        pod_security: insula_apiserver::pod_security::PodSecurity::default(),
        event_ttl: Duration::from_secs(3600),
        limits: insula_apiserver::Limits::default(),
        tenant_quota: Default::default(),
        tenant_fields: Default::default(),
        layout: Layout::default(),
        default_tenant: None,
    };
    prepare(data, &listening, given).unwrap().1
}

fn kubeconfig(data: &Path) -> String {
    std::fs::read_to_string(data.join("admin.kubeconfig")).unwrap_or_default()
}

fn current(renewal: &Renewal) -> Vec<CertificateDer<'static>> {
    renewal.certificates.chain()
}

/// A certificate and its key, of a CA.
fn pair() -> (String, String) {
    let validity = Validity::starting(SystemTime::now(), DAY);
    let ca = Authority::generate("another", validity).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["api.example".to_owned()];
    let certificate = ca.issue_server(&names, &key, validity).unwrap();
    (certificate, key.serialize_pem())
}

#[test]
fn own_certificates_are_renewed_with_the_kubeconfig() {
    let data = tempfile::tempdir().unwrap();
    let mut renewal = start(data.path(), None);
    let (first, admin) = (current(&renewal), kubeconfig(data.path()));
    let due = SystemTime::now() + LEAF_LASTS / 3 * 2;
    renewal.check(due - DAY);
    assert_eq!(current(&renewal), first);
    assert_eq!(kubeconfig(data.path()), admin);
    renewal.check(due + DAY);
    let second = current(&renewal);
    assert_ne!(second, first);
    let issued = |renewal: &Renewal| {
        let server = &renewal.leaves.server.certificate;
        renewal.authority.recognise(server).unwrap()
    };
    let (names, until) = (issued(&renewal).names, issued(&renewal).until);
    assert_eq!(names, renewal.wanted.names);
    assert!(names.contains("api.example") && names.contains("more.example"));
    assert!(until > due + LEAF_LASTS);
    let renewed = kubeconfig(data.path());
    assert_ne!(renewed, admin);
    assert!(renewed.contains("server: https://api.example\n"));
    // Once is enough, and the next start changes nothing.
    renewal.check(due + 2 * DAY);
    assert_eq!(current(&renewal), second);
    assert_eq!(renewal.problems.logged, "");
    let again = start(data.path(), None);
    assert_eq!(current(&again), second);
    assert_eq!(kubeconfig(data.path()), renewed);
}

#[test]
fn deleted_kubeconfig_is_not_rewritten_until_it_changes() {
    let data = tempfile::tempdir().unwrap();
    let mut renewal = start(data.path(), None);
    std::fs::remove_file(data.path().join("admin.kubeconfig")).unwrap();
    renewal.check(SystemTime::now());
    assert_eq!(kubeconfig(data.path()), "");
    let path = std::mem::replace(&mut renewal.kubeconfig.path, "/missing/file".into());
    let due = SystemTime::now() + LEAF_LASTS;
    renewal.check(due);
    let logged = renewal.problems.logged.clone();
    assert!(logged.starts_with("cannot write /missing/file"), "{logged}");
    // It is retried, although nothing is due any more.
    renewal.kubeconfig.path = path;
    renewal.check(due);
    assert_eq!(renewal.problems.logged, "");
    assert_ne!(kubeconfig(data.path()), "");
}

#[test]
fn replaced_ca_is_not_used_before_a_restart() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut renewal = start(data.path(), None);
    start(other.path(), None);
    for name in ["pki/ca.crt", "pki/ca.key"] {
        std::fs::copy(other.path().join(name), data.path().join(name)).unwrap();
    }
    let first = current(&renewal);
    renewal.check(SystemTime::now() + LEAF_LASTS);
    assert_eq!(current(&renewal), first);
    let logged = &renewal.problems.logged;
    let why = "ca.crt is not the CA that this server started with";
    assert!(logged.ends_with(why), "{logged}");
}

#[test]
fn changed_files_are_reloaded_unless_invalid() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = TlsFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let write = |certificate: &str, key: &str| {
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
    };
    let ((first, first_key), (second, second_key)) = (pair(), pair());
    write(&first, &first_key);
    let mut renewal = start(data.path(), Some(&files));
    let (before, admin) = (current(&renewal), kubeconfig(data.path()));
    let now = SystemTime::now();
    for (certificate, key, why) in [
        // The two files are replaced one after the other.
        (
            &second,
            &first_key,
            "the key does not match the certificate",
        ),
        (
            &first,
            &second_key,
            "the key does not match the certificate",
        ),
        (
            &"nonsense".to_owned(),
            &second_key,
            "no PEM certificates found",
        ),
        (&second, &String::new(), "the key is not PEM"),
    ] {
        write(certificate, key);
        renewal.check(now);
        assert!(
            renewal.problems.logged.ends_with(why),
            "{}",
            renewal.problems.logged
        );
        assert_eq!(current(&renewal), before);
    }
    std::fs::remove_file(&files.key).unwrap();
    renewal.check(now);
    assert!(renewal.problems.logged.contains("cannot read"));
    assert_eq!(current(&renewal), before);
    assert_eq!(kubeconfig(data.path()), admin);

    write(&second, &second_key);
    renewal.check(now);
    assert_eq!(renewal.problems.logged, "");
    assert_ne!(current(&renewal), before);
    // Clients are told which CA to trust.
    assert_ne!(kubeconfig(data.path()), admin);
    // The administrator's own certificate is renewed anyway, while these stay.
    let (after, admin) = (current(&renewal), kubeconfig(data.path()));
    std::fs::remove_file(&files.key).unwrap();
    renewal.check(now + LEAF_LASTS);
    assert_eq!(current(&renewal), after);
    assert_ne!(kubeconfig(data.path()), admin);
}

#[test]
fn rotated_keys_are_put_into_use_and_retired_ones_do_not_return() {
    let data = tempfile::tempdir().unwrap();
    let mut renewal = start(data.path(), None);
    let published = |renewal: &Renewal, at: jiff::Timestamp| {
        let keys = renewal.token_keys.get().published_at(at.as_second());
        let ids = keys.keys().iter().map(|key| key.id().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let now = jiff::Timestamp::now();
    let first = published(&renewal, now);
    assert_eq!(first.len(), 1);
    let pace = token_keys::Pace {
        publish_for: jiff::SignedDuration::from_secs(60),
        grace: jiff::SignedDuration::from_secs(60),
    };
    let rotated = renewal.stored_keys.rotate(now, pace).unwrap();
    let folder = data.path().join("pki");
    rotated.write(&folder).unwrap();
    renewal.check(SystemTime::now());
    assert_eq!(renewal.problems.logged, "");
    let both = published(&renewal, now);
    assert_eq!((both.len(), &both[0]), (2, &first[0]));
    let later = now + jiff::SignedDuration::from_secs(121);
    assert_eq!(published(&renewal, later), both[1..]);
    // A damaged or missing file changes nothing, and is reported.
    let path = folder.join(token_keys::FILE);
    std::fs::write(&path, "nonsense").unwrap();
    renewal.check(SystemTime::now());
    let logged = renewal.problems.logged.clone();
    assert!(
        logged.contains("service-account-keys.json: line 1"),
        "{logged}"
    );
    std::fs::remove_file(&path).unwrap();
    renewal.check(SystemTime::now());
    let logged = renewal.problems.logged.clone();
    assert!(logged.contains("the file is missing"), "{logged}");
    assert_eq!(published(&renewal, later), both[1..]);
    rotated.write(&folder).unwrap();
    renewal.check(SystemTime::now());
    assert_eq!(renewal.problems.logged, "");
    assert_eq!(published(&start(data.path(), None), now), both);
}
