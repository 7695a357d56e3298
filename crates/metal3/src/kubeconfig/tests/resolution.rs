//! Which identity decides, and what becomes of it.

use insula_identity::credential::Source;
use insula_identity::decide::{Known, Need, Refusal, Secret, Step, decide};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Level, Reference};

use super::reason::*;
use super::resolve::*;
use super::*;

fn identity<'a>(name: &'a str, context: Option<&'a str>) -> IdentityRef<'a> {
    IdentityRef { name, context }
}

fn secret(name: &str, context: Option<&str>) -> Reference {
    Reference::Secret {
        name: name.to_owned(),
        part: context.map(str::to_owned),
    }
}

#[test]
fn r10_without_references_the_hosts_are_beside_the_machine() {
    assert_eq!(host_side(None, None), HostSide::BesideMachine);
    assert_eq!(reference_to_record(None, None), None);
}

#[test]
fn r11_reference_of_the_cluster_counts_if_the_machine_has_none() {
    let of_cluster = identity("a", Some("east"));
    let references = CredentialReferences {
        parent: Some(("Metal3Cluster prod".to_owned(), secret("a", Some("east")))),
        ..CredentialReferences::default()
    };
    let found = host_side(None, Some(("prod", of_cluster)));
    assert_eq!(found, HostSide::Identity(references));
    assert_eq!(
        reference_to_record(None, Some(of_cluster)),
        Some(of_cluster)
    );
}

#[test]
fn r12_reference_of_the_machine_replaces_that_of_the_cluster_as_a_whole() {
    let (own, of_cluster) = (identity("b", None), identity("a", Some("east")));
    let references = CredentialReferences {
        own: Some(secret("b", None)),
        ..CredentialReferences::default()
    };
    let found = host_side(Some(own), Some(("prod", of_cluster)));
    assert_eq!(found, HostSide::Identity(references));
    assert_eq!(reference_to_record(Some(own), Some(of_cluster)), None);
}

/// Decides for a machine whose namespace has one Secret, or none.
fn resolve(own: IdentityRef<'_>, found: Option<Value>, allowed: AllowedEndpoints) -> Step {
    let HostSide::Identity(references) = host_side(Some(own), None) else {
        panic!("there is a reference")
    };
    let question = question("team-a", None, references, Kubeconfig::VERIFIED, allowed);
    let need = Need::Secret {
        lent: false,
        namespace: "team-a".to_owned(),
        name: own.name.to_owned(),
    };
    // The only thing that is read is the Secret of the object's own namespace.
    assert!(matches!(decide(&question, &Known::default()), Step::Read(first) if first == need));
    let secret = found.map(|whole| Secret {
        uid: "1".to_owned(),
        data: data("kubeconfig", whole.to_string()),
        ..Secret::default()
    });
    let known = Known {
        secret: Some(secret),
        ..Known::default()
    };
    decide(&question, &known)
}

fn refused(step: Step) -> Refusal {
    match step {
        Step::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r04_r06_secret_of_the_namespace_is_used_with_its_context() {
    let own = identity("hosts", Some("west"));
    let step = resolve(own, Some(kubeconfig()), AllowedEndpoints::Anywhere);
    let Step::Grant(credential) = step else {
        panic!("{step:?}")
    };
    let source = Source::Secret {
        namespace: "team-a".to_owned(),
        name: "hosts".to_owned(),
        uid: "1".to_owned(),
        part: Some("west".to_owned()),
    };
    assert_eq!(
        (credential.source.clone(), credential.level),
        (source, Level::Object)
    );
    assert_eq!(credential.endpoint.to_string(), "west.example:443");
    assert_eq!(
        HostAccess::of(&credential),
        read(&kubeconfig(), Some("west")).ok()
    );
}

#[test]
fn r04_r28_missing_and_invalid_secrets_are_refused_with_their_reasons() {
    let own = identity("hosts", Some("north"));
    let missing = refused(resolve(own, None, AllowedEndpoints::Anywhere));
    assert_eq!(missing.reason, Reason::SecretNotAvailable);
    assert_eq!(
        missing.message,
        "the Secret hosts does not exist in namespace team-a"
    );
    let invalid = refused(resolve(own, Some(kubeconfig()), AllowedEndpoints::Anywhere));
    assert_eq!(invalid.reason, Reason::InvalidCredentials);
    assert_eq!(invalid.message, "the Secret hosts has no context \"north\"");
    let only = AllowedEndpoints::Only(vec![(Endpoint::parse("west.example", 443).unwrap(), None)]);
    let east = identity("hosts", None);
    let elsewhere = refused(resolve(east, Some(kubeconfig()), only));
    assert_eq!(elsewhere.reason, Reason::EndpointNotAllowed);
    let reasons = [missing, invalid, elsewhere].map(|refusal| {
        assert!(!format!("{refusal:?}").contains(SECRET));
        condition_reason(Phase::Decision, refusal.reason)
    });
    assert_eq!(reasons, [SECRET_NOT_FOUND, KUBECONFIG_INVALID, FORBIDDEN]);
}

#[test]
fn r28_answers_of_the_server_have_their_reasons() {
    for (reason, expected) in [
        (Reason::InvalidCredentials, "IdentityUnauthorized"),
        (Reason::Forbidden, "IdentityForbidden"),
        (Reason::Unreachable, "IdentityUnreachable"),
        (Reason::CertificateNotTrusted, "IdentityUnreachable"),
        (Reason::NotServed, "BareMetalHostAPINotFound"),
    ] {
        assert_eq!(condition_reason(Phase::Login, reason), expected);
    }
}
