//! Which identity decides where the hosts of a machine are.

use insula_identity::claim::Hold;
use insula_identity::decide::{Question, Target};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reference::{CredentialReferences, Level, Reference};

use super::shape::Kubeconfig;

/// The port of API servers without one.
const DEFAULT_PORT: u16 = 443;

/// The `identityRef` of a machine or a cluster. Its Secret is in the same namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityRef<'a> {
    /// The name of the Secret.
    pub name: &'a str,
    /// The context of the kubeconfig; the current one if none is named.
    pub context: Option<&'a str>,
}

/// Where the hosts of a machine are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSide {
    /// In the namespace of the machine. The operator's own account is used.
    BesideMachine,
    /// Where a kubeconfig says.
    Identity(CredentialReferences),
}

/// Returns where the hosts of an object are. The reference of a machine replaces that of its
/// cluster as a whole: no context is taken from the other one.
pub fn host_side(
    own: Option<IdentityRef<'_>>,
    parent: Option<(&str, IdentityRef<'_>)>,
) -> HostSide {
    let mut references = CredentialReferences::default();
    match (own, parent) {
        (Some(own), _) => references.own = Some(reference(own)),
        (None, Some((cluster, identity))) => {
            let cluster = format!("Metal3Cluster {cluster}");
            references.parent = Some((cluster, reference(identity)));
        }
        (None, None) => return HostSide::BesideMachine,
    }
    HostSide::Identity(references)
}

/// Returns the reference that a machine has to record when it gets a host; none if it has one, or
/// uses none. Without it, a change of the cluster would make the operator look for the host
/// elsewhere.
pub fn reference_to_record<'a>(
    own: Option<IdentityRef<'a>>,
    cluster: Option<IdentityRef<'a>>,
) -> Option<IdentityRef<'a>> {
    match own {
        Some(_) => None,
        None => cluster,
    }
}

/// Returns the question which credential an object of a namespace gets. Only Secrets of that
/// namespace are used: there is no shared identity, and no fallback to the operator's account.
pub fn question(
    namespace: &str,
    tenant: Option<String>,
    references: CredentialReferences,
    shape: &'static Kubeconfig,
    allowed_servers: AllowedEndpoints,
) -> Question {
    Question {
        namespace: Some(namespace.to_owned()),
        tenant,
        references,
        floor: Level::Parent,
        target: Target::Carried,
        shape,
        // Many clusters may share a Secret, which its author manages.
        hold: Hold::None,
        identity_kind: None,
        operator_credential: "own account",
        endpoint_key: None,
        default_port: DEFAULT_PORT,
        default_bound: AllowedEndpoints::Nowhere,
        own_bound: allowed_servers,
    }
}

fn reference(identity: IdentityRef<'_>) -> Reference {
    Reference::Secret {
        name: identity.name.to_owned(),
        part: identity.context.map(str::to_owned),
    }
}
