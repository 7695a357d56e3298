//! What is read from a kubeconfig.

use insula_identity::credential::Fingerprint;
use insula_identity::endpoint::{Endpoint, Trust};
use insula_identity::shape::Shape;

use super::*;

fn east() -> HostAccess {
    HostAccess {
        server: Server {
            endpoint: Endpoint::parse("east.example:6443", 443).unwrap(),
            path: String::new(),
        },
        namespace: "pool-a".to_owned(),
        verification: Verification::Usual,
        server_name: None,
        authentication: Authentication::Token(Hidden::new(SECRET)),
        certificate: None,
        impersonation: None,
    }
}

fn west() -> HostAccess {
    HostAccess {
        server: Server {
            endpoint: Endpoint::parse("west.example", 443).unwrap(),
            path: String::new(),
        },
        namespace: "default".to_owned(),
        authentication: Authentication::Password {
            username: "admin".to_owned(),
            password: Hidden::new(SECRET),
        },
        ..east()
    }
}

#[test]
fn r05_both_keys_are_accepted_and_kubeconfig_is_preferred() {
    let (first, second) = (kubeconfig(), with(json!({}), json!({"token": "other"})));
    let read = |data: &_| Kubeconfig::VERIFIED.access(data, None);
    for key in KEYS {
        assert_eq!(read(&data(key, first.to_string())), Ok(east()), "{key}");
    }
    let mut both = data("value", second.to_string());
    both.extend(data("kubeconfig", first.to_string()));
    assert_eq!(read(&both), Ok(east()));
    // An empty one is not skipped: the author of the Secret meant it.
    both.extend(data("kubeconfig", ""));
    assert_eq!(read(&both), Err(InvalidKubeconfig::NoCurrentContext));
}

#[test]
fn r05_kubeconfig_is_read_from_yaml() {
    let text = "
apiVersion: v1
kind: Config
current-context: east
preferences: {}
contexts:
- context: {cluster: c, user: u, namespace: pool-a, extensions: [{name: x, extension: 1}]}
  name: east
clusters:
- cluster:
    certificate-authority: ''
    server: https://EAST.example:6443/
    proxy-url: null
  name: c
users:
- name: u
  user: {token: s3same, tokenFile: ''}
";
    let read = Kubeconfig::VERIFIED.access(&data("kubeconfig", text), None);
    assert_eq!(read, Ok(east()));
}

/// As in kubeconfigs of Insula's tenants.
#[test]
fn tenants_of_one_server_have_sessions_of_their_own() {
    let access = |tenant: &str| {
        let cluster = json!({"server": format!("https://east.example:6443/tenants/{tenant}")});
        let extension = json!({"expires": "2026-11-20T08:00:00Z"});
        let extensions = json!([{"name": "insula.dev/credential", "extension": extension}]);
        let user = json!({"token": SECRET, "extensions": extensions});
        read(&with(cluster, user), None).unwrap()
    };
    let [one, other] = ["acme", "globex"].map(access);
    assert_eq!(one.server.url(), "https://east.example:6443/tenants/acme");
    assert_eq!(one.server.endpoint, other.server.endpoint);
    let session = |access: &HostAccess| Fingerprint::of(&access.content().values);
    assert_ne!(session(&one), session(&other));
    assert_eq!(session(&one), session(&access("acme")));
}

#[test]
fn r06_x03_named_context_is_selected() {
    let whole = kubeconfig();
    assert_eq!(read(&whole, Some("east")), Ok(east()));
    assert_eq!(read(&whole, Some("west")), Ok(west()));
}

#[test]
fn r07_x03_current_context_is_selected_if_none_is_named() {
    let mut whole = kubeconfig();
    assert_eq!(read(&whole, None), Ok(east()));
    whole["current-context"] = json!("west");
    assert_eq!(read(&whole, None), Ok(west()));
    // A named context does not need a current one.
    whole["current-context"] = Value::Null;
    assert_eq!(read(&whole, Some("west")), Ok(west()));
}

#[test]
fn all_fields_are_read() {
    let authority = pem("CERTIFICATE", "authority");
    let (certificate, key) = (pem("CERTIFICATE", "own"), pem("EC PRIVATE KEY", SECRET));
    let cluster = json!({
        "server": "https://[2001:db8::1]:8443/k8s/clusters/c-1/",
        "certificate-authority-data": pem_data("CERTIFICATE", "authority"),
        "tls-server-name": "api.example",
        "insecure-skip-tls-verify": false,
    });
    let user = json!({
        "token": null,
        "client-certificate-data": pem_data("CERTIFICATE", "own"),
        "client-key-data": pem_data("EC PRIVATE KEY", SECRET),
        "as": "tenant", "as-uid": "42", "as-groups": ["g", "h"],
        "as-user-extra": {"scope": ["a", "b"]},
    });
    let expected = HostAccess {
        server: Server {
            endpoint: Endpoint::parse("[2001:db8::1]:8443", 443).unwrap(),
            path: "/k8s/clusters/c-1".to_owned(),
        },
        verification: Verification::Authorities(authority),
        server_name: Some("api.example".to_owned()),
        authentication: Authentication::CertificateOnly,
        certificate: Some(ClientCertificate {
            certificate: Hidden::new(certificate),
            key: Hidden::new(key),
        }),
        impersonation: Some(Impersonation {
            user: "tenant".to_owned(),
            uid: Some("42".to_owned()),
            groups: vec!["g".to_owned(), "h".to_owned()],
            extra: [("scope".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into(),
        }),
        ..east()
    };
    let found = read(&with(cluster, user), None).unwrap();
    assert_eq!(found, expected);
    assert_eq!(
        found.server.url(),
        "https://[2001:db8::1]:8443/k8s/clusters/c-1"
    );
    assert!(!format!("{found:?}").contains(SECRET));
    // A certificate may come with a token.
    let both = with(
        json!({}),
        json!({
            "client-certificate-data": pem_data("CERTIFICATE", "own"),
            "client-key-data": pem_data("PRIVATE KEY", SECRET),
        }),
    );
    let both = read(&both, None).unwrap();
    assert_eq!(both.authentication, east().authentication);
    assert!(both.certificate.is_some());
}

#[test]
fn wrapped_base64_is_read() {
    let long = "authority".repeat(20);
    let data = pem_data("CERTIFICATE", &long);
    let (first, rest) = data.split_at(64);
    let cluster = json!({"certificate-authority-data": format!("{first}\n  {rest}\n")});
    let verification = Verification::Authorities(pem("CERTIFICATE", &long));
    let found = read(&with(cluster, json!({})), None).unwrap();
    assert_eq!(found.verification, verification);
}

#[test]
fn unverified_certificate_needs_the_administrator_and_is_reported() {
    let whole = with(json!({"insecure-skip-tls-verify": true}), json!({}));
    let refused = InvalidKubeconfig::InsecureNotAllowed("east".to_owned());
    assert_eq!(read(&whole, None), Err(refused));
    let allowed = data("kubeconfig", whole.to_string());
    let allowed = Kubeconfig::ANY_IF_ASKED.access(&allowed, None).unwrap();
    assert_eq!(allowed.verification, Verification::None);
    assert_eq!(
        allowed.warning(),
        Some("the certificate of the hosts' API server is not verified (insecure-skip-tls-verify)")
    );
    let carried = allowed.content().carried.unwrap();
    assert_eq!(carried.trust, Trust::AnyCertificate);
    // The permission alone changes nothing.
    let usual = data("kubeconfig", kubeconfig().to_string());
    let usual = Kubeconfig::ANY_IF_ASKED.access(&usual, None).unwrap();
    assert_eq!((usual.warning(), &usual), (None, &east()));
    let carried = usual.content().carried.unwrap();
    assert_eq!(carried.trust, Trust::Verified);
}

#[test]
fn sample_is_accepted_with_any_context() {
    for shape in [Kubeconfig::VERIFIED, Kubeconfig::ANY_IF_ASKED] {
        for context in [None, Some("west")] {
            let content = shape.read(&shape.sample(), context).unwrap();
            let endpoint = content.carried.unwrap().endpoint.to_string();
            assert_eq!(endpoint, "unknown.invalid:443");
        }
        assert_eq!(shape.describe(), "a kubeconfig under the key kubeconfig");
    }
}

#[test]
fn reserved_secret_name_is_reported() {
    assert_eq!(
        reserved_name("prod-kubeconfig", "prod").unwrap(),
        "identityRef names Secret prod-kubeconfig, which Cluster API reserves for the kubeconfig \
         of cluster prod; use another name, such as prod-bmh-identity"
    );
    for name in ["prod", "prod-bmh-identity", "other-kubeconfig"] {
        assert_eq!(reserved_name(name, "prod"), None);
    }
}
