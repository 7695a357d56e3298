use std::path::Path;

use insula_access::{Authority, Validity};
use insula_core::Layout;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::*;
use crate::serve::prepare::{Given, Listening, prepare};

const DAY: Duration = Duration::from_secs(86_400);
const LEAF_LASTS: Duration = Duration::from_secs(365 * 86_400);

fn start(data: &Path, files: Option<&TlsFiles>) -> Renewal {
    let listening = Listening {
        address: "127.0.0.1:0".parse().unwrap(),
        advertised: Some("https://api.example".to_owned()),
        names: vec!["more.example".to_owned()],
    };
    let given = Given {
        tls: files.map(|files| (files.clone(), files.load().unwrap())),
        certificates_last: LEAF_LASTS,
        client_cas: Vec::new(),
        tokens: None,
        issuer_url: None,
        oidc: None,
        audit_log: None,
        egress: insula_apiserver::egress::Settings::default(),
        event_ttl: Duration::from_secs(3600),
        layout: Layout::default(),
        default_tenant: None,
    };
    prepare(data, &listening, given).unwrap().1
}

fn kubeconfig(data: &Path) -> String {
    std::fs::read_to_string(data.join("admin.kubeconfig")).unwrap_or_default()
}

fn shown(renewal: &Renewal) -> Vec<CertificateDer<'static>> {
    renewal.certificates.chain()
}

/// A certificate and its key, of some CA.
fn pair() -> (String, String) {
    let validity = Validity::starting(SystemTime::now(), DAY);
    let ca = Authority::generate("another", validity).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["api.example".to_owned()];
    let certificate = ca.issue_server(&names, &key, validity).unwrap();
    (certificate, key.serialize_pem())
}

#[test]
fn what_the_own_ca_issued_is_renewed_in_time_and_the_administrator_is_told() {
    let data = tempfile::tempdir().unwrap();
    let mut renewal = start(data.path(), None);
    let (first, admin) = (shown(&renewal), kubeconfig(data.path()));
    let due = SystemTime::now() + LEAF_LASTS / 3 * 2;
    renewal.look(due - DAY);
    assert_eq!(shown(&renewal), first);
    assert_eq!(kubeconfig(data.path()), admin);
    renewal.look(due + DAY);
    let second = shown(&renewal);
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
    // Once is enough, and the next start finds it as it is.
    renewal.look(due + 2 * DAY);
    assert_eq!(shown(&renewal), second);
    assert_eq!(renewal.trouble.told, "");
    let again = start(data.path(), None);
    assert_eq!(shown(&again), second);
    assert_eq!(kubeconfig(data.path()), renewed);
}

#[test]
fn a_kubeconfig_that_was_taken_away_stays_away_until_it_says_something_new() {
    let data = tempfile::tempdir().unwrap();
    let mut renewal = start(data.path(), None);
    std::fs::remove_file(data.path().join("admin.kubeconfig")).unwrap();
    renewal.look(SystemTime::now());
    assert_eq!(kubeconfig(data.path()), "");
    let path = std::mem::replace(&mut renewal.kubeconfig.path, "/missing/file".into());
    let due = SystemTime::now() + LEAF_LASTS;
    renewal.look(due);
    let told = renewal.trouble.told.clone();
    assert!(told.starts_with("cannot write /missing/file"), "{told}");
    // It is tried again, although nothing is due any more.
    renewal.kubeconfig.path = path;
    renewal.look(due);
    assert_eq!(renewal.trouble.told, "");
    assert_ne!(kubeconfig(data.path()), "");
}

#[test]
fn a_ca_that_was_replaced_is_not_used_before_a_restart() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut renewal = start(data.path(), None);
    start(other.path(), None);
    for name in ["pki/ca.crt", "pki/ca.key"] {
        std::fs::copy(other.path().join(name), data.path().join(name)).unwrap();
    }
    let first = shown(&renewal);
    renewal.look(SystemTime::now() + LEAF_LASTS);
    assert_eq!(shown(&renewal), first);
    let told = &renewal.trouble.told;
    let why = "ca.crt is not the CA that this server began with";
    assert!(told.ends_with(why), "{told}");
}

#[test]
fn files_that_change_are_taken_up_and_broken_ones_are_not() {
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
    let (before, admin) = (shown(&renewal), kubeconfig(data.path()));
    let now = SystemTime::now();
    for (certificate, key, why) in [
        // Whoever replaces them writes one after the other.
        (
            &second,
            &first_key,
            "its key belongs to another certificate",
        ),
        (
            &first,
            &second_key,
            "its key belongs to another certificate",
        ),
        (
            &"nonsense".to_owned(),
            &second_key,
            "it has no certificates in PEM",
        ),
        (&second, &String::new(), "its key is not in PEM"),
    ] {
        write(certificate, key);
        renewal.look(now);
        assert!(
            renewal.trouble.told.ends_with(why),
            "{}",
            renewal.trouble.told
        );
        assert_eq!(shown(&renewal), before);
    }
    std::fs::remove_file(&files.key).unwrap();
    renewal.look(now);
    assert!(renewal.trouble.told.contains("cannot read"));
    assert_eq!(shown(&renewal), before);
    assert_eq!(kubeconfig(data.path()), admin);

    write(&second, &second_key);
    renewal.look(now);
    assert_eq!(renewal.trouble.told, "");
    assert_ne!(shown(&renewal), before);
    // Clients are told whom to believe.
    assert_ne!(kubeconfig(data.path()), admin);
    // And the administrator's own certificate is renewed all the same, while these stay.
    let (after, admin) = (shown(&renewal), kubeconfig(data.path()));
    std::fs::remove_file(&files.key).unwrap();
    renewal.look(now + LEAF_LASTS);
    assert_eq!(shown(&renewal), after);
    assert_ne!(kubeconfig(data.path()), admin);
}
