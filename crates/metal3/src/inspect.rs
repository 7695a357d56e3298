//! What `insula identity` has to know about the provider: how to ask for an object's credential.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use insula_capi::owning_cluster;
use insula_identity::decide::{ChosenEndpoint, Question, Refusal, Target};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Level};
use insula_identity::shape::Shape;
use insula_operator::provider::explain::{Asked, Error, Inspect, Objects, refused_alone};
use insula_operator::provider::{IdentityKind, Names, Provider};
use kube::ResourceExt;

use crate::kinds::IdentityReference;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::machine::Metal3Machine;
use crate::kubeconfig::Kubeconfig;
use crate::kubeconfig::reason::{Phase, condition_reason};
use crate::kubeconfig::resolve::{HostSide, IdentityRef, host_side, question};
use crate::names::NAMESPACE;
use crate::operator;
use crate::pool::IN_CLUSTER;

/// The Metal3 provider.
#[derive(Clone, Copy, Debug)]
pub struct Metal3;

impl Inspect for Metal3 {
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Metal3Cluster", "metal3clusters"),
            ("Metal3Machine", "metal3machines"),
        ]
    }

    fn identities(&self) -> Option<&'static IdentityKind> {
        None
    }

    fn names(&self) -> &'static Names {
        operator::Metal3::NAMES
    }

    fn shape(&self) -> &'static dyn Shape {
        SHAPE
    }

    fn endpoint_key(&self) -> Option<&'static str> {
        None
    }

    fn operator_namespace(&self) -> &'static str {
        NAMESPACE
    }

    fn has_own_account(&self) -> bool {
        true
    }

    fn condition(&self, kind: &str) -> &'static str {
        match kind {
            "Metal3Machine" => operator::HOST,
            _ => operator::INFRASTRUCTURE,
        }
    }

    fn reasons(&self) -> fn(Reason) -> &'static str {
        |reason| condition_reason(Phase::Decision, reason)
    }

    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        kind: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>> {
        async move {
            match kind {
                "Metal3Machine" => machine(objects, name).await,
                _ => cluster(objects, name).await,
            }
        }
        .boxed()
    }
}

/// Whether insecure hosts are allowed is known to the operator only.
const SHAPE: &Kubeconfig = Kubeconfig::ANY_IF_ASKED;

async fn cluster(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let cluster: Metal3Cluster = objects.read(name).await?;
    let own = cluster.spec.identity_ref.as_ref().map(reference);
    let question = ask(objects.namespace, own, None);
    Ok(Asked::new(&cluster, question))
}

async fn machine(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let machine: Metal3Machine = objects.read(name).await?;
    let own = machine.spec.identity_ref.as_ref().map(reference);
    let question = match owning_cluster::of_member::<Metal3Cluster>(objects, &machine).await? {
        Ok(cluster) => {
            let name = cluster.name_any();
            let parent = cluster.spec.identity_ref.as_ref().map(reference);
            ask(objects.namespace, own, parent.map(|it| (name.as_str(), it)))
        }
        Err(why) => Err(refused_alone(&why)),
    };
    Ok(Asked::new(&machine, question))
}

/// Returns the question which credential an object gets, as the operator asks it. Only the operator
/// knows which servers it allows.
fn ask(
    namespace: &str,
    own: Option<IdentityRef<'_>>,
    parent: Option<(&str, IdentityRef<'_>)>,
) -> Result<Question, Refusal> {
    let servers = AllowedEndpoints::Anywhere;
    let references = match host_side(own, parent) {
        HostSide::Identity(references) => references,
        HostSide::BesideMachine => {
            let references = CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            };
            let endpoint = Endpoint::parse(IN_CLUSTER, 443).map_err(|error| Refusal {
                reason: Reason::Unreachable,
                message: error.to_string(),
                hint: None,
            })?;
            return Ok(Question {
                floor: Level::Operator,
                target: Target::Chosen(ChosenEndpoint {
                    endpoint,
                    of_parent: None,
                    trust: Trust::Verified,
                }),
                ..question(namespace, None, references, SHAPE, servers)
            });
        }
    };
    Ok(question(namespace, None, references, SHAPE, servers))
}

fn reference(identity: &IdentityReference) -> IdentityRef<'_> {
    IdentityRef {
        name: &identity.name,
        context: identity.context.as_deref(),
    }
}
