//! The decision which credential an object gets, or why none. It is pure: it returns what has to
//! be read next, and is called again with the result.

mod refusal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::allowed::AllowedNamespaces;
use crate::claim::{Claimant, Owner};
use crate::credential::{Credential, Fingerprint, Hidden, Source};
use crate::endpoint::{AllowedEndpoints, Endpoint, InvalidEndpoint};
use crate::reason::Reason;
use crate::reference::{CredentialReferences, Reference};
use refusal::Origin;

/// The question which credential an object gets for an endpoint.
#[derive(Clone, Debug)]
pub struct Question {
    /// The namespace of the object; none if it is cluster-scoped, in which case only users who
    /// may write identities can write it.
    pub namespace: Option<String>,
    /// The references that may decide.
    pub references: CredentialReferences,
    /// The endpoint that the credential is for.
    pub endpoint: Endpoint,
    /// The parent's endpoint, if the parent's reference decides: a Secret without endpoints may
    /// be sent only there, whatever the object names.
    pub chosen: Option<Endpoint>,
    /// The keys that a Secret must have, with values.
    pub required: &'static [&'static str],
    /// The keys that a Secret may have.
    pub optional: &'static [&'static str],
    /// The claimant of a Secret of the namespace: the object or its parent.
    pub claimant: Claimant,
    /// The kind of identities, such as `AzureIdentity`.
    pub identity_kind: &'static str,
    /// The key under which a Secret may list its endpoints, separated by commas.
    pub endpoint_key: Option<&'static str>,
    /// The port of endpoints without one.
    pub default_port: u16,
    /// The endpoints of identities that set none.
    pub default_bound: AllowedEndpoints,
    /// The endpoints that Secrets of namespaces are limited to.
    pub own_bound: AllowedEndpoints,
}

/// Something that has to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An identity.
    Identity(String),
    /// The labels of a namespace.
    Namespace(String),
    /// A Secret.
    Secret {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The operator's static credentials.
    Operator,
}

/// The fields of an identity that the decision needs.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The UID.
    pub uid: String,
    /// Whether it is ready.
    pub ready: bool,
    /// The reason of its condition if it is not ready, one word.
    pub trouble: Option<String>,
    /// The namespaces that may use it.
    pub allowed: Option<AllowedNamespaces>,
    /// The namespace of its Secret.
    pub secret_namespace: String,
    /// The name of its Secret.
    pub secret_name: String,
    /// The endpoints that its credential may be sent to; `Nowhere` if it sets none.
    pub bound: AllowedEndpoints,
}

/// The fields of a Secret that the decision needs.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    /// The UID.
    pub uid: String,
    /// Whether it is being deleted. It is used until it is gone, because claimants keep it.
    pub deleting: bool,
    /// The contents.
    pub data: BTreeMap<String, Hidden>,
    /// The owners.
    pub owners: Vec<Owner>,
}

/// The operator's static credentials.
#[derive(Clone, Debug, Default)]
pub struct Static {
    /// The contents.
    pub data: BTreeMap<String, Hidden>,
    /// The endpoints they may be sent to; `Nowhere` if none are set.
    pub bound: AllowedEndpoints,
}

/// Everything that was read. `Some(None)` means that the object does not exist.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The identity.
    pub identity: Option<Option<Identity>>,
    /// The labels of the namespace.
    pub namespace: Option<Option<BTreeMap<String, String>>>,
    /// The Secret; a decision reads at most one.
    pub secret: Option<Option<Secret>>,
    /// The operator's static credentials.
    pub operator: Option<Option<Static>>,
}

/// The next step of a decision.
#[derive(Clone, Debug)]
pub enum Step {
    /// Something has to be read first.
    Read(Need),
    /// The credential is granted.
    Grant(Credential),
    /// The credential is refused.
    Refuse(Refusal),
}

/// A refused credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The reason, one word.
    pub reason: Reason,
    /// A sentence for the owner of the object. It mentions no other namespace.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Decides, or returns what has to be read first.
pub fn decide(question: &Question, known: &Known) -> Step {
    match evaluate(question, known) {
        Ok(credential) => Step::Grant(credential),
        Err(Halt::Read(need)) => Step::Read(need),
        Err(Halt::Refuse(refusal)) => Step::Refuse(refusal),
    }
}

/// Reads the objects that a decision needs.
pub trait CredentialReader {
    /// A failed read.
    type Error;
    /// Reads an object into `known`; a missing one is recorded as missing.
    fn read(
        &self,
        need: Need,
        known: &mut Known,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Decides and reads what is needed.
///
/// # Errors
///
/// If a read failed, which is neither a refusal nor a reason to use another credential.
pub async fn resolve<G: CredentialReader>(
    question: &Question,
    reader: &G,
) -> Result<Result<Credential, Refusal>, G::Error> {
    let mut known = Known::default();
    loop {
        match decide(question, &known) {
            Step::Read(need) => reader.read(need, &mut known).await?,
            Step::Grant(credential) => return Ok(Ok(credential)),
            Step::Refuse(refusal) => return Ok(Err(refusal)),
        }
    }
}

/// The reasons to stop an evaluation.
enum Halt {
    Read(Need),
    Refuse(Refusal),
}

/// Evaluates the references in order; the first one that is set decides alone. Only the
/// namespace's Secret is optional: it counts if it exists.
fn evaluate(question: &Question, known: &Known) -> Result<Credential, Halt> {
    let references = &question.references;
    if let Some(own) = &references.own {
        return named(question, known, own, None);
    }
    if let Some((parent, reference)) = &references.parent {
        return named(question, known, reference, Some(parent));
    }
    if let (Some(name), Some(namespace)) = (&references.namespace, &question.namespace)
        && let Some(secret) = secret(known, namespace, name)?
    {
        return from_secret(question, (namespace, name, None), secret);
    }
    match references.operator {
        true => from_operator(question, known),
        false => Err(refusal::no_reference(question)),
    }
}

fn named(
    question: &Question,
    known: &Known,
    reference: &Reference,
    by: Option<&str>,
) -> Result<Credential, Halt> {
    match reference {
        Reference::Identity(name) => from_identity(question, known, name, by),
        Reference::Secret(name) => {
            let origin = Origin::Secret { name, by };
            // A cluster-scoped object cannot use Secrets of namespaces.
            let namespace = question.namespace.as_ref();
            let namespace = namespace.ok_or_else(|| origin.has_no_namespace())?;
            let secret = secret(known, namespace, name)?;
            let secret = secret.ok_or_else(|| origin.does_not_exist(question, namespace))?;
            from_secret(question, (namespace, name, by), secret)
        }
    }
}

fn from_secret(
    question: &Question,
    (namespace, name, by): (&str, &str, Option<&str>),
    secret: &Secret,
) -> Result<Credential, Halt> {
    let origin = Origin::Secret { name, by };
    if let Some(holder) = question.claimant.holder(&secret.owners) {
        return Err(origin.is_in_use(holder));
    }
    let content = content(question, &origin, &secret.data)?;
    let bound = match endpoints_in_secret(question, secret) {
        Err(wrong) => return Err(origin.has_invalid_endpoints(question, &wrong)),
        Ok(AllowedEndpoints::Nowhere) => match &question.chosen {
            Some(chosen) => AllowedEndpoints::Only(vec![(chosen.clone(), None)]),
            None => AllowedEndpoints::Anywhere,
        },
        Ok(bound) => bound,
    };
    if question.own_bound.admits(&question.endpoint).is_none() {
        return Err(origin.may_not_leave_to(&question.endpoint));
    }
    let source = Source::Secret {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: secret.uid.clone(),
    };
    grant(question, &origin, source, content, &bound)
}

/// Checks first whether the namespace may use the identity, which reveals nothing to others.
fn from_identity(
    question: &Question,
    known: &Known,
    name: &str,
    by: Option<&str>,
) -> Result<Credential, Halt> {
    let origin = Origin::Identity {
        kind: question.identity_kind,
        name,
        by,
    };
    let read = known.identity.as_ref();
    let identity = read.ok_or_else(|| Halt::Read(Need::Identity(name.to_owned())))?;
    let identity = identity.as_ref().ok_or_else(|| origin.is_no_identity())?;
    admit(question, known, identity, &origin)?;
    if !identity.ready {
        return Err(origin.is_not_ready(identity.trouble.as_deref()));
    }
    let secret = secret(known, &identity.secret_namespace, &identity.secret_name)?;
    let secret = secret.ok_or_else(|| origin.has_no_secret())?;
    if holder(question, name).holder(&secret.owners).is_some() {
        // The Secret has another claimant, whatever the identity's last status was.
        return Err(origin.is_not_ready(Some(Reason::SecretInUse.as_str())));
    }
    let content = content(question, &origin, &secret.data)?;
    let bound = match &identity.bound {
        AllowedEndpoints::Nowhere => match endpoints_in_secret(question, secret) {
            Err(wrong) => return Err(origin.has_invalid_endpoints(question, &wrong)),
            Ok(AllowedEndpoints::Nowhere) => question.default_bound.clone(),
            Ok(bound) => bound,
        },
        bound => bound.clone(),
    };
    let source = Source::Identity {
        name: name.to_owned(),
        uid: identity.uid.clone(),
    };
    grant(question, &origin, source, content, &bound)
}

/// Returns the identity as the claimant of its Secret.
fn holder(question: &Question, name: &str) -> Claimant {
    Claimant {
        kind: question.identity_kind.to_owned(),
        name: name.to_owned(),
        ..question.claimant.clone()
    }
}

/// Checks whether the object's namespace may use an identity.
fn admit(
    question: &Question,
    known: &Known,
    identity: &Identity,
    origin: &Origin<'_>,
) -> Result<(), Halt> {
    let Some(namespace) = &question.namespace else {
        return Ok(());
    };
    let Some(allowed) = &identity.allowed else {
        return Err(origin.allows_no_namespace());
    };
    allowed
        .check()
        .map_err(|wrong| origin.has_no_selector(&wrong))?;
    if allowed.allows_all() {
        return Ok(());
    }
    let read = known.namespace.as_ref();
    let labels = read.ok_or_else(|| Halt::Read(Need::Namespace(namespace.clone())))?;
    let allows = labels.as_ref().map(|labels| allowed.allows(labels));
    match allows {
        Some(Ok(true)) => Ok(()),
        Some(Err(wrong)) => Err(origin.has_no_selector(&wrong)),
        Some(Ok(false)) | None => Err(origin.does_not_allow(namespace)),
    }
}

fn from_operator(question: &Question, known: &Known) -> Result<Credential, Halt> {
    let read = known.operator.as_ref();
    let credentials = read.ok_or(Halt::Read(Need::Operator))?;
    let credentials = credentials
        .as_ref()
        .ok_or_else(|| refusal::no_reference(question))?;
    let origin = Origin::Operator;
    let content = content(question, &origin, &credentials.data)?;
    let bound = match &credentials.bound {
        AllowedEndpoints::Nowhere => &question.default_bound,
        bound => bound,
    };
    grant(question, &origin, Source::Operator, content, bound)
}

fn secret<'a>(known: &'a Known, namespace: &str, name: &str) -> Result<Option<&'a Secret>, Halt> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let read = known.secret.as_ref();
    let read = read.ok_or(Halt::Read(Need::Secret { namespace, name }))?;
    Ok(read.as_ref())
}

/// Returns the endpoints that a Secret lists; `Nowhere` if it lists none.
fn endpoints_in_secret(
    question: &Question,
    secret: &Secret,
) -> Result<AllowedEndpoints, InvalidEndpoint> {
    let text = question.endpoint_key.and_then(|key| secret.data.get(key));
    text.map_or(Ok(AllowedEndpoints::Nowhere), |text| {
        AllowedEndpoints::parse(text.reveal(), question.default_port)
    })
}

/// Returns the requested keys of a Secret.
fn content(
    question: &Question,
    origin: &Origin<'_>,
    data: &BTreeMap<String, Hidden>,
) -> Result<BTreeMap<String, Hidden>, Halt> {
    let has_value = |key: &&&str| {
        data.get(**key)
            .is_some_and(|value| !value.reveal().is_empty())
    };
    let missing: Vec<&str> = question
        .required
        .iter()
        .filter(|key| !has_value(key))
        .copied()
        .collect();
    if !missing.is_empty() {
        return Err(origin.lacks(&missing));
    }
    let keys = question.required.iter().chain(question.optional);
    let pairs = keys.filter_map(|key| data.get_key_value(*key));
    Ok(pairs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect())
}

fn grant(
    question: &Question,
    origin: &Origin<'_>,
    source: Source,
    content: BTreeMap<String, Hidden>,
    bound: &AllowedEndpoints,
) -> Result<Credential, Halt> {
    let Some(trust) = bound.admits(&question.endpoint) else {
        return Err(origin.may_not_go_to(&question.endpoint));
    };
    let fingerprint = Fingerprint::of(&content);
    let trust = trust.cloned();
    Ok(Credential {
        source,
        content,
        fingerprint,
        trust,
    })
}
