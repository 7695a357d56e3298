//! Resolves the credential of an object: builds the question and reads the facts for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use insula_identity::claim::Claimant;
use insula_identity::credential::{Credential, Hidden, Source};
use insula_identity::decide::{self, CredentialReader, Identity, Known, Need, Question, Refusal};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Reference};
use insula_identity::session::{self, LoginError};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Resource, ResourceExt};

use super::condition::find;
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::{get_named, get_named_metadata};
use crate::kinds::{
    AllowedServer, VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone,
    VSphereIdentityReference, VSphereVM, VirtualMachineSpec,
};
use crate::names::{API_VERSION, CLAIMANTS, PORT, SECRET_FINALIZER, is_valid_name};

/// The keys that a Secret must have.
pub(crate) const REQUIRED: &[&str] = &["username", "password"];
/// The key in which a Secret may name its servers.
pub(crate) const SERVER: &str = "server";

/// The servers that credentials may be sent to.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// For identities and the operator's static credentials that name no servers themselves.
    pub default: AllowedEndpoints,
    /// The upper bound for Secrets of namespaces.
    pub namespace_secrets: AllowedEndpoints,
}

/// The credential of an object, and the session that it is for.
#[derive(Debug)]
pub(super) struct Access {
    pub credential: Credential,
    pub session: session::Key,
}

/// Resolves the credential of a cluster.
pub(super) async fn for_cluster(
    context: &Context,
    key: &Key,
    cluster: &VSphereCluster,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Result<Access, Refusal>, kube::Error> {
    let question = cluster_question(&context.bounds, key.namespace_or_empty(), cluster);
    match question {
        Ok((question, trust)) => resolve(context, key, question, trust, depends).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Resolves the credential of a virtual machine: its cluster's, for the server that it names
/// itself or its cluster's.
pub(super) async fn for_vm(
    context: &Context,
    key: &Key,
    vm: &VSphereVM,
    cluster: &VSphereCluster,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Result<Access, Refusal>, kube::Error> {
    let machine = &vm.spec.machine;
    let question = machine_question(&context.bounds, key.namespace_or_empty(), machine, cluster);
    match question {
        Ok((question, trust)) => resolve(context, key, question, trust, depends).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Resolves the credential of a zone: that of the identity that it references, or the operator's
/// static credentials.
pub(super) async fn for_zone(
    context: &Context,
    key: &Key,
    zone: &VSphereDeploymentZone,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Result<Access, Refusal>, kube::Error> {
    match zone_question(&context.bounds, zone) {
        Ok(question) => resolve(context, key, question, Trust::Verified, depends).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Returns the question for a cluster, and the certificate that it trusts.
pub(crate) fn cluster_question(
    bounds: &Bounds,
    namespace: &str,
    cluster: &VSphereCluster,
) -> Result<(Question, Trust), Refusal> {
    let references = CredentialReferences {
        own: parse_reference(cluster.spec.identity_ref.as_ref())?,
        operator: true,
        ..CredentialReferences::default()
    };
    let endpoint = endpoint(&cluster.spec.server)?;
    let namespace = Some(namespace.to_owned());
    let question = question(
        bounds,
        namespace,
        references,
        endpoint,
        cluster_claimant(cluster),
    );
    Ok((
        question,
        parse_thumbprint(cluster.spec.thumbprint.as_deref())?,
    ))
}

/// Returns the same for a machine of a cluster, and for its virtual machine.
pub(crate) fn machine_question(
    bounds: &Bounds,
    namespace: &str,
    machine: &VirtualMachineSpec,
    cluster: &VSphereCluster,
) -> Result<(Question, Trust), Refusal> {
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
    let trust = parse_thumbprint(non_empty(&machine.thumbprint).or(inherited))?;
    let namespace = Some(namespace.to_owned());
    let mut question = question(
        bounds,
        namespace,
        references,
        machine_endpoint,
        cluster_claimant(cluster),
    );
    question.chosen = Some(cluster_endpoint);
    Ok((question, trust))
}

/// Returns the question for a zone.
pub(crate) fn zone_question(
    bounds: &Bounds,
    zone: &VSphereDeploymentZone,
) -> Result<Question, Refusal> {
    let own = parse_reference(zone.spec.identity_ref.as_ref())?;
    if let Some(Reference::Secret(_)) = own {
        return Err(invalid_reference(
            "a zone has no namespace, so it can only use identities",
        ));
    }
    let references = CredentialReferences {
        own,
        operator: true,
        ..CredentialReferences::default()
    };
    let endpoint = endpoint(&zone.spec.server)?;
    let claimant = claimant("VSphereDeploymentZone", zone);
    Ok(question(bounds, None, references, endpoint, claimant))
}

/// Returns the claimant for the Secret that a cluster references.
pub(super) fn cluster_claimant(cluster: &VSphereCluster) -> Claimant {
    claimant("VSphereCluster", cluster)
}

/// Returns the claimant for the Secret of an identity.
pub(super) fn identity_claimant(identity: &VSphereClusterIdentity) -> Claimant {
    claimant("VSphereClusterIdentity", identity)
}

/// Parses the address of a server.
pub(super) fn endpoint(server: &str) -> Result<Endpoint, Refusal> {
    Endpoint::parse(server, PORT).map_err(|error| Refusal {
        reason: Reason::EndpointNotAllowed,
        message: format!("spec.server: {error}"),
        hint: None,
    })
}

fn claimant(kind: &str, object: &impl Resource) -> Claimant {
    Claimant {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        kinds: CLAIMANTS,
        finalizer: SECRET_FINALIZER,
    }
}

fn question(
    bounds: &Bounds,
    namespace: Option<String>,
    references: CredentialReferences,
    endpoint: Endpoint,
    claimant: Claimant,
) -> Question {
    Question {
        namespace,
        references,
        endpoint,
        required: REQUIRED,
        optional: &[],
        chosen: None,
        claimant,
        identity_kind: "VSphereClusterIdentity",
        endpoint_key: Some(SERVER),
        default_port: PORT,
        default_bound: bounds.default.clone(),
        own_bound: bounds.namespace_secrets.clone(),
    }
}

/// Parses a reference. The schema allows no other kind, but it may have been replaced.
fn parse_reference(
    reference: Option<&VSphereIdentityReference>,
) -> Result<Option<Reference>, Refusal> {
    let Some(reference) = reference else {
        return Ok(None);
    };
    let name = reference.name.clone();
    let (reason, named) = match reference.kind.as_str() {
        "Secret" => (Reason::SecretNotAvailable, Reference::Secret(name)),
        "VSphereClusterIdentity" => (Reason::IdentityNotFound, Reference::Identity(name)),
        _ => {
            return Err(invalid_reference(
                "kind must be VSphereClusterIdentity or Secret",
            ));
        }
    };
    match is_valid_name(&reference.name) {
        true => Ok(Some(named)),
        false => Err(Refusal {
            reason,
            message: format!("spec.identityRef: invalid name {:?}", reference.name),
            hint: None,
        }),
    }
}

fn invalid_reference(why: &str) -> Refusal {
    Refusal {
        reason: Reason::IdentityNotFound,
        message: format!("spec.identityRef: {why}"),
        hint: None,
    }
}

/// Returns the text if it is not empty.
fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn parse_thumbprint(thumbprint: Option<&str>) -> Result<Trust, Refusal> {
    let Some(text) = thumbprint.filter(|text| !text.is_empty()) else {
        return Ok(Trust::Verified);
    };
    Trust::pinned(text).map_err(|error| Refusal {
        reason: Reason::CertificateNotTrusted,
        message: format!("spec.thumbprint: {error}"),
        hint: None,
    })
}

async fn resolve(
    context: &Context,
    key: &Key,
    question: Question,
    trust: Trust,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Result<Access, Refusal>, kube::Error> {
    let reader = FactReader {
        context,
        key,
        depends: Mutex::default(),
    };
    let decided = decide::resolve(&question, &reader).await;
    depends.append(
        &mut reader
            .depends
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    );
    Ok(decided?.map(|credential| {
        let session = session::Key {
            space: key.space.clone(),
            source: credential.source.clone(),
            endpoint: question.endpoint,
            trust: effective_trust(&credential, trust),
            fingerprint: credential.fingerprint.clone(),
        };
        Access {
            credential,
            session,
        }
    }))
}

/// Returns the certificate to trust: the one that the credential's owner names. A user of a
/// shared credential does not decide which server may receive it.
fn effective_trust(credential: &Credential, wanted: Trust) -> Trust {
    let named = credential.trust.clone();
    named.unwrap_or(match credential.source {
        Source::Secret { .. } => wanted,
        Source::Identity { .. } | Source::Operator => Trust::Verified,
    })
}

/// Returns the message of a refusal, with its hint.
pub(super) fn full_message(refusal: &Refusal) -> String {
    match &refusal.hint {
        Some(hint) => format!("{}: {hint}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// Returns the refusal for a failed login, with a hint about who can fix it.
pub(super) fn login_refusal(source: &Source, error: LoginError) -> Refusal {
    let hint = match (error.reason, source) {
        (Reason::CertificateNotTrusted, Source::Identity { .. }) => {
            Some("its owner has to add the thumbprint to the allowedServers of the identity")
        }
        (Reason::CertificateNotTrusted, Source::Operator) => Some(
            "the operator's administrator has to add the thumbprint to the servers of its \
             credentials file",
        ),
        _ => None,
    };
    Refusal {
        reason: error.reason,
        message: error.message,
        hint: hint.map(str::to_owned),
    }
}

/// Reads facts in the space of the object, and records them as dependencies.
struct FactReader<'a> {
    context: &'a Context,
    key: &'a Key,
    depends: Mutex<BTreeSet<Dependency>>,
}

impl FactReader<'_> {
    fn depend_on(&self, on: Dependency) {
        let mut depends = self.depends.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.depend_on(self.key, &mut depends, on);
    }

    fn space(&self) -> Option<Arc<str>> {
        self.key.space.clone()
    }

    fn client(&self) -> kube::Client {
        self.context.client(self.key.space.as_deref())
    }

    async fn identity(&self, name: String) -> Result<Option<Identity>, kube::Error> {
        let identities: Api<VSphereClusterIdentity> = Api::all(self.client());
        self.depend_on(Dependency::Identity {
            space: self.space(),
            name: name.clone(),
        });
        let found = get_named(&identities, &name).await?;
        Ok(found.map(|found| as_identity(&found, &self.context.operator_namespace)))
    }

    async fn namespace(&self, name: String) -> Result<Option<Labels>, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        self.depend_on(Dependency::Namespace {
            space: self.space(),
            name: name.clone(),
        });
        let found = get_named_metadata(&namespaces, &name).await?;
        Ok(found.map(|found| found.labels().clone()))
    }

    async fn secret(
        &self,
        namespace: String,
        name: String,
    ) -> Result<Option<decide::Secret>, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client(), &namespace);
        self.depend_on(Dependency::Secret {
            space: self.space(),
            namespace,
            name: name.clone(),
        });
        Ok(get_named(&secrets, &name).await?.map(as_secret))
    }

    /// The static credentials are for the operator's own space and for the spaces in its settings.
    fn operator(&self) -> Option<decide::Static> {
        self.depend_on(Dependency::StaticCredentials);
        let is_for = |space: &str| self.context.static_credentials_for.contains(space);
        if !self.key.space.as_deref().is_none_or(is_for) {
            return None;
        }
        let given = self.context.static_credentials.borrow();
        given.as_ref().map(|given| decide::Static {
            data: given.data.clone(),
            bound: given.bound.clone(),
        })
    }
}

type Labels = BTreeMap<String, String>;

impl CredentialReader for FactReader<'_> {
    type Error = kube::Error;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), kube::Error> {
        match need {
            Need::Identity(name) => known.identity = Some(self.identity(name).await?),
            Need::Namespace(name) => known.namespace = Some(self.namespace(name).await?),
            Need::Secret { namespace, name } => {
                known.secret = Some(self.secret(namespace, name).await?);
            }
            Need::Operator => known.operator = Some(self.operator()),
        }
        Ok(())
    }
}

/// Converts an identity for the decision. A terminating identity stays ready if it was: its
/// users could not clean up otherwise.
pub(crate) fn as_identity(found: &VSphereClusterIdentity, secret_namespace: &str) -> Identity {
    let status = found.status.clone().unwrap_or_default();
    let available = find(&status.conditions, "Available");
    let trouble = available.filter(|condition| condition.status != "True");
    Identity {
        uid: found.uid().unwrap_or_default(),
        ready: status.ready == Some(true),
        trouble: trouble.map(|condition| condition.reason.clone()),
        allowed: found.spec.allowed_namespaces.clone(),
        secret_namespace: secret_namespace.to_owned(),
        secret_name: found.spec.secret_name.clone(),
        bound: bound(found.spec.allowed_servers.as_deref()),
    }
}

/// Returns what is wrong with the first invalid server, if any.
pub(super) fn invalid_server(servers: &[AllowedServer]) -> Option<String> {
    servers.iter().enumerate().find_map(|(at, server)| {
        let at = format!("spec.allowedServers[{at}]");
        if let Err(error) = Endpoint::parse(&server.address, PORT) {
            return Some(format!("{at}.address: {error}"));
        }
        let error = Trust::pinned(non_empty(&server.thumbprint)?).err()?;
        Some(format!("{at}.thumbprint: {error}"))
    })
}

/// Returns the servers that an identity names. Invalid entries allow nothing.
fn bound(servers: Option<&[AllowedServer]>) -> AllowedEndpoints {
    let Some(servers) = servers else {
        return AllowedEndpoints::Nowhere;
    };
    let only = servers.iter().filter_map(|server| {
        let endpoint = Endpoint::parse(&server.address, PORT).ok()?;
        let trust = match (non_empty(&server.thumbprint), server.insecure_skip_verify) {
            (Some(text), _) => Some(Trust::pinned(text).ok()?),
            (None, true) => Some(Trust::AnyCertificate),
            (None, false) => None,
        };
        Some((endpoint, trust))
    });
    AllowedEndpoints::Only(only.collect())
}

/// Converts a Secret for the decision. A terminating Secret that is claimed remains usable; values
/// that are not UTF-8 are left out.
pub(crate) fn as_secret(found: Secret) -> decide::Secret {
    let is_held = super::commit::has_finalizer(&found, SECRET_FINALIZER);
    let data = found.data.unwrap_or_default().into_iter();
    let texts = data.filter_map(|(name, value)| {
        let text = String::from_utf8(value.0).ok()?;
        Some((name, Hidden::new(text)))
    });
    decide::Secret {
        uid: found.metadata.uid.unwrap_or_default(),
        deleting: found.metadata.deletion_timestamp.is_some() && !is_held,
        data: texts.collect(),
        owners: found.metadata.owner_references.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use insula_identity::credential::Fingerprint;

    use super::*;

    #[test]
    fn o02_invalid_name_in_a_reference_is_refused_before_any_read() {
        let bounds = Bounds {
            default: AllowedEndpoints::Nowhere,
            namespace_secrets: AllowedEndpoints::Anywhere,
        };
        for name in ["shared/status", "%73hared", "shared?x", "..", "", "Shared"] {
            for (kind, reason) in [
                ("VSphereClusterIdentity", Reason::IdentityNotFound),
                ("Secret", Reason::SecretNotAvailable),
            ] {
                let mut cluster = VSphereCluster::default();
                cluster.spec.server = "v.example".to_owned();
                cluster.spec.identity_ref = Some(VSphereIdentityReference {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                });
                let message = format!("spec.identityRef: invalid name {name:?}");
                let refusal = Refusal {
                    reason,
                    message,
                    hint: None,
                };
                let question = cluster_question(&bounds, "a", &cluster).map(drop);
                assert_eq!(question, Err(refusal.clone()), "{kind} {name:?}");
                let machine = VirtualMachineSpec::default();
                let question = machine_question(&bounds, "a", &machine, &cluster).map(drop);
                assert_eq!(question, Err(refusal), "{kind} {name:?}");
            }
        }
    }

    #[test]
    fn o03_only_the_owner_of_a_credential_chooses_the_trust() {
        let pinned = |pair: &str| Trust::pinned(&pair.repeat(20)).unwrap();
        let own = Source::Secret {
            namespace: "a".to_owned(),
            name: "own".to_owned(),
            uid: "1".to_owned(),
        };
        let lent = Source::Identity {
            name: "shared".to_owned(),
            uid: "2".to_owned(),
        };
        for (source, said, expected) in [
            (own.clone(), None, pinned("AA")),
            (own, Some(pinned("BB")), pinned("BB")),
            (lent.clone(), None, Trust::Verified),
            (
                lent.clone(),
                Some(Trust::AnyCertificate),
                Trust::AnyCertificate,
            ),
            (lent, Some(pinned("BB")), pinned("BB")),
            (Source::Operator, None, Trust::Verified),
            (Source::Operator, Some(pinned("BB")), pinned("BB")),
        ] {
            let content = BTreeMap::new();
            let credential = Credential {
                source,
                fingerprint: Fingerprint::of(&content),
                content,
                trust: said,
            };
            assert_eq!(effective_trust(&credential, pinned("AA")), expected);
        }
    }
}
