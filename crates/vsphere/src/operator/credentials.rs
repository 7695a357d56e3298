//! The questions which credentials objects get, in terms of their kinds.

use insula_identity::claim::Hold;
use insula_identity::credential::Source;
use insula_identity::decide::{ChosenEndpoint, Question, Refusal, Target};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Reference};
use insula_identity::shape::Texts;
use insula_operator::provider::{
    self, Bounds, identity_servers, named_reference, parse_endpoint, parse_thumbprint,
};
use kube::ResourceExt;
use serde_json::Value;

use super::context::VSphere;
use crate::kinds::{
    VSphereCluster, VSphereDeploymentZone, VSphereIdentityReference, VirtualMachineSpec,
};
use crate::names::{NAMES, PORT};

/// The kind of identities.
pub(crate) const IDENTITY: &str = "VSphereClusterIdentity";
/// The contents of a Secret with an account.
pub(crate) const ACCOUNT: Texts = Texts {
    required: &["username", "password"],
    optional: &[],
};
/// The field with the fingerprint of a server's certificate.
const THUMBPRINT: &str = "spec.thumbprint";
/// The key in which a Secret may name its servers.
pub(crate) const SERVER: &str = "server";

/// Returns the question for a cluster.
pub(crate) fn cluster_question(
    bounds: &Bounds,
    namespace: &str,
    cluster: &VSphereCluster,
) -> Result<Question, Refusal> {
    let references = CredentialReferences {
        own: parse_reference(cluster.spec.identity_ref.as_ref())?,
        operator: true,
        ..CredentialReferences::default()
    };
    let target = ChosenEndpoint {
        endpoint: endpoint(&cluster.spec.server)?,
        of_parent: None,
        trust: parse_thumbprint(THUMBPRINT, cluster.spec.thumbprint.as_deref())?,
    };
    let hold = cluster_hold(cluster);
    let namespace = Some(namespace);
    Ok(question(bounds, namespace, references, target, hold))
}

/// Returns the question for a machine of a cluster, and for its virtual machine: its cluster's
/// credential, for the server that it names itself or its cluster's.
pub(crate) fn machine_question(
    bounds: &Bounds,
    namespace: &str,
    machine: &VirtualMachineSpec,
    cluster: &VSphereCluster,
) -> Result<Question, Refusal> {
    let parent_name = format!("VSphereCluster {namespace}/{}", cluster.name_any());
    let parent = parse_reference(cluster.spec.identity_ref.as_ref())?;
    let references = CredentialReferences {
        parent: parent.map(|reference| (parent_name, reference)),
        operator: true,
        ..CredentialReferences::default()
    };
    let of_cluster = cluster.spec.server.as_str();
    let cluster_endpoint = endpoint(of_cluster)?;
    let machine_endpoint = endpoint(non_empty(&machine.server).unwrap_or(of_cluster))?;
    let inherited =
        non_empty(&cluster.spec.thumbprint).filter(|_| machine_endpoint == cluster_endpoint);
    let target = ChosenEndpoint {
        endpoint: machine_endpoint,
        of_parent: Some(cluster_endpoint),
        trust: parse_thumbprint(THUMBPRINT, non_empty(&machine.thumbprint).or(inherited))?,
    };
    let hold = cluster_hold(cluster);
    let namespace = Some(namespace);
    Ok(question(bounds, namespace, references, target, hold))
}

/// Returns the question for a zone: the identity that it references, or the operator's static
/// credentials.
pub(crate) fn zone_question(
    bounds: &Bounds,
    zone: &VSphereDeploymentZone,
) -> Result<Question, Refusal> {
    let own = parse_reference(zone.spec.identity_ref.as_ref())?;
    if let Some(Reference::Secret { .. }) = own {
        return Err(Refusal {
            reason: Reason::IdentityNotFound,
            message: "spec.identityRef: a zone has no namespace, so it can only use identities"
                .to_owned(),
            hint: None,
        });
    }
    let references = CredentialReferences {
        own,
        operator: true,
        ..CredentialReferences::default()
    };
    let target = ChosenEndpoint {
        endpoint: endpoint(&zone.spec.server)?,
        of_parent: None,
        trust: Trust::Verified,
    };
    let hold = Hold::One(NAMES.claimant("VSphereDeploymentZone", zone));
    Ok(question(bounds, None, references, target, hold))
}

fn question(
    bounds: &Bounds,
    namespace: Option<&str>,
    references: CredentialReferences,
    target: ChosenEndpoint,
    hold: Hold,
) -> Question {
    let target = Target::Chosen(target);
    Question {
        hold,
        endpoint_key: Some(SERVER),
        default_port: PORT,
        ..provider::question::<VSphere>(bounds, namespace, references, target)
    }
}

/// Returns the hold of a cluster on the Secret that it references.
pub(super) fn cluster_hold(cluster: &VSphereCluster) -> Hold {
    Hold::One(NAMES.claimant("VSphereCluster", cluster))
}

/// Parses the address of a server.
pub(super) fn endpoint(server: &str) -> Result<Endpoint, Refusal> {
    parse_endpoint("spec.server", server, PORT)
}

fn parse_reference(
    reference: Option<&VSphereIdentityReference>,
) -> Result<Option<Reference>, Refusal> {
    let parse = |reference: &VSphereIdentityReference| {
        named_reference(&reference.kind, &reference.name, IDENTITY)
    };
    reference.map(parse).transpose()
}

/// Returns the text if it is not empty.
fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Returns who can make a vCenter's certificate trusted.
pub(super) fn login_hint(source: &Source, reason: Reason) -> Option<&'static str> {
    match (reason, source) {
        (Reason::CertificateNotTrusted, Source::Identity { .. }) => {
            Some("its owner has to add the thumbprint to the allowedServers of the identity")
        }
        (Reason::CertificateNotTrusted, Source::Operator) => Some(
            "the operator's administrator has to add the thumbprint to the servers of its \
             credentials file",
        ),
        _ => None,
    }
}

/// Returns the servers that an identity names, or what is wrong with the first invalid one.
pub(super) fn identity_bound(spec: &Value) -> Result<AllowedEndpoints, String> {
    identity_servers(spec, PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o02_invalid_name_in_a_reference_is_refused_before_any_read() {
        let bounds = &Bounds::ANYWHERE;
        for name in ["shared/status", "%73hared", "shared?x", "..", "", "Shared"] {
            for (kind, reason) in [
                (IDENTITY, Reason::IdentityNotFound),
                ("Secret", Reason::SecretNotAvailable),
            ] {
                let mut cluster = VSphereCluster::default();
                cluster.spec.server = "v.example".to_owned();
                cluster.spec.identity_ref = Some(VSphereIdentityReference {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                });
                let refusal = Refusal {
                    reason,
                    message: format!("spec.identityRef: invalid name {name:?}"),
                    hint: None,
                };
                let question = cluster_question(bounds, "a", &cluster).map(drop);
                assert_eq!(question, Err(refusal.clone()), "{kind} {name:?}");
                let machine = VirtualMachineSpec::default();
                let question = machine_question(bounds, "a", &machine, &cluster).map(drop);
                assert_eq!(question, Err(refusal), "{kind} {name:?}");
            }
        }
    }

    #[test]
    fn o03_machine_inherits_the_thumbprint_for_its_clusters_server_only() {
        let bounds = &Bounds::ANYWHERE;
        let (of_cluster, of_machine) = ("AA".repeat(20), "BB".repeat(20));
        let mut cluster = VSphereCluster::default();
        cluster.spec.server = "a.example".to_owned();
        cluster.spec.thumbprint = Some(of_cluster.clone());
        for (server, thumbprint, expected) in [
            (None, None, Some(&of_cluster)),
            (Some("A.example:443"), None, Some(&of_cluster)),
            (Some("b.example"), None, None),
            (Some("b.example"), Some(&of_machine), Some(&of_machine)),
            (None, Some(&of_machine), Some(&of_machine)),
        ] {
            let machine = VirtualMachineSpec {
                server: server.map(str::to_owned),
                thumbprint: thumbprint.cloned(),
                ..VirtualMachineSpec::default()
            };
            let question = machine_question(bounds, "a", &machine, &cluster).unwrap();
            let Target::Chosen(chosen) = question.target else {
                panic!("the machine names its server");
            };
            let expected = expected.map_or(Trust::Verified, |text| Trust::pinned(text).unwrap());
            assert_eq!(chosen.trust, expected, "{server:?} {thumbprint:?}");
        }
    }
}
