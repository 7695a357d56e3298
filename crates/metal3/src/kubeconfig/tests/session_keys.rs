//! Sessions are shared only by those who act at the same place as the same user.

use insula_identity::claim::Hold;
use insula_identity::credential::Credential;
use insula_identity::decide::{self, Known, Question, Step, Target};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reference::{CredentialReferences, Level, Reference};
use insula_identity::session::Key;
use proptest::prelude::*;

use super::*;

/// Returns the credential that an object gets with a kubeconfig.
fn granted(whole: &Value, context: Option<&str>) -> Credential {
    let question = Question {
        namespace: Some("team-a".to_owned()),
        tenant: None,
        references: CredentialReferences {
            own: Some(Reference::Secret {
                name: "hosts".to_owned(),
                part: context.map(str::to_owned),
            }),
            ..CredentialReferences::default()
        },
        floor: Level::Operator,
        target: Target::Carried,
        shape: Kubeconfig::ANY_IF_ASKED,
        hold: Hold::None,
        identity_kind: None,
        operator_credential: "own account",
        endpoint_key: None,
        default_port: 443,
        default_bound: AllowedEndpoints::Nowhere,
        own_bound: AllowedEndpoints::Anywhere,
    };
    let secret = decide::Secret {
        uid: "1".to_owned(),
        data: data("kubeconfig", whole.to_string()),
        ..decide::Secret::default()
    };
    let known = Known {
        secret: Some(Some(secret)),
        ..Known::default()
    };
    match decide::decide(&question, &known) {
        Step::Grant(credential) => credential,
        other => panic!("{other:?}"),
    }
}

/// One choice for each field that decides where, and as which user, a client acts.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    named_context: bool,
    server: &'static str,
    namespace: &'static str,
    trust: Value,
    server_name: Option<&'static str>,
    account: Value,
    certificate: Option<&'static str>,
    impersonation: Value,
}

impl Choice {
    fn kubeconfig(&self) -> Value {
        let mut whole = kubeconfig();
        whole["contexts"][0]["context"]["namespace"] = json!(self.namespace);
        let mut cluster = json!({"server": self.server, "tls-server-name": self.server_name});
        extend(&mut cluster, self.trust.clone());
        let mut user = self.account.clone();
        extend(&mut user, self.impersonation.clone());
        if let Some(key) = self.certificate {
            let certificate = json!({
                "client-certificate-data": pem_data("CERTIFICATE", "own"),
                "client-key-data": pem_data("PRIVATE KEY", key),
            });
            extend(&mut user, certificate);
        }
        whole["clusters"][0]["cluster"] = cluster;
        whole["users"][0]["user"] = user;
        whole
    }

    fn credential(&self) -> Credential {
        granted(&self.kubeconfig(), self.named_context.then_some("east"))
    }
}

fn any_choice() -> impl Strategy<Value = Choice> {
    use prop::sample::select;
    let trust = vec![
        json!({}),
        json!({"insecure-skip-tls-verify": true}),
        json!({"certificate-authority-data": pem_data("CERTIFICATE", "a")}),
        json!({"certificate-authority-data": pem_data("CERTIFICATE", "b")}),
    ];
    let account = vec![
        json!({"token": "a"}),
        json!({"token": "b"}),
        json!({"username": "a", "password": "a"}),
        json!({"username": "a", "password": "b"}),
        json!({"username": "b", "password": "a"}),
    ];
    let impersonation = vec![
        json!({}),
        json!({"as": "a"}),
        json!({"as": "b"}),
        json!({"as": "a", "as-uid": "a"}),
        json!({"as": "a", "as-groups": ["a"]}),
        json!({"as": "a", "as-groups": ["a", "b"]}),
        json!({"as": "a", "as-groups": ["b", "a"]}),
        json!({"as": "a", "as-user-extra": {"a": ["b"]}}),
        json!({"as": "a", "as-user-extra": {"a": ["b", "c"]}}),
        json!({"as": "a", "as-user-extra": {"b": ["b"]}}),
    ];
    (
        any::<bool>(),
        select(vec![
            "https://a.example",
            "https://a.example:6443",
            "https://b.example",
            "https://a.example/k8s/1",
            "https://a.example/k8s/2",
        ]),
        select(vec!["pool-a", "pool-b"]),
        select(trust),
        select(vec![None, Some("x.example"), Some("y.example")]),
        select(account),
        select(vec![None, Some("a"), Some("b")]),
        select(impersonation),
    )
        .prop_map(
            |(
                named_context,
                server,
                namespace,
                trust,
                server_name,
                account,
                certificate,
                impersonation,
            )| Choice {
                named_context,
                server,
                namespace,
                trust,
                server_name,
                account,
                certificate,
                impersonation,
            },
        )
}

/// Replaces one field of a choice by that of another.
fn any_neighbours() -> impl Strategy<Value = (Choice, Choice)> {
    (any_choice(), any_choice(), 0..9_usize).prop_map(|(one, other, field)| {
        let mut next = one.clone();
        match field {
            0 => next.named_context = other.named_context,
            1 => next.server = other.server,
            2 => next.namespace = other.namespace,
            3 => next.trust = other.trust,
            4 => next.server_name = other.server_name,
            5 => next.account = other.account,
            6 => next.certificate = other.certificate,
            7 => next.impersonation = other.impersonation,
            _ => next = other,
        }
        (one, next)
    })
}

proptest! {
    #[test]
    fn x03_session_key_differs_whenever_place_or_user_do((one, other) in any_neighbours()) {
        let key = |choice: &Choice| Key::of(None, &choice.credential());
        prop_assert_eq!(key(&one) == key(&other), one == other);
    }

    #[test]
    fn access_survives_the_way_through_a_credential(choice in any_choice()) {
        let read = data("kubeconfig", choice.kubeconfig().to_string());
        let access = Kubeconfig::ANY_IF_ASKED.access(&read, None).unwrap();
        prop_assert_eq!(HostAccess::of(&choice.credential()), Some(access));
    }

    #[test]
    fn failures_of_certificates_are_shared_only_with_equal_trust((one, other) in any_neighbours()) {
        let trust = |choice: &Choice| choice.credential().trust;
        let verifies = |choice: &Choice| (choice.trust.clone(), choice.server_name);
        let insecure = |choice: &Choice| choice.trust["insecure-skip-tls-verify"] == json!(true);
        let equal = verifies(&one) == verifies(&other) || insecure(&one) && insecure(&other);
        prop_assert_eq!(trust(&one) == trust(&other), equal);
    }
}

#[test]
fn credential_of_another_kind_is_no_access() {
    let endpoint = granted(&kubeconfig(), None).endpoint;
    let other = Credential::of_operator(data("username", "a"), endpoint);
    assert_eq!(HostAccess::of(&other), None);
}
