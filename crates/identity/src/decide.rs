//! The decision which credential an object gets, or why none. It is pure: it returns what has to
//! be read next, and is called again with the result.

mod refusal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::allowed::Allowed;
use crate::claim::{Hold, Owner};
use crate::credential::{Credential, Fingerprint, Hidden, Source};
use crate::endpoint::{AllowedEndpoints, Endpoint, InvalidEndpoint, Trust};
use crate::reason::Reason;
use crate::reference::{CredentialReferences, Level, Reference};
use crate::shape::{Content, Shape};

use refusal::Origin;

/// The question which credential an object gets, and where it may be sent.
#[derive(Clone, Debug)]
pub struct Question {
    /// The namespace of the object; none if it is cluster-scoped, in which case only users who
    /// may write identities can write it.
    pub namespace: Option<String>,
    /// The tenant that owns the object's space; none in the operator's own space.
    pub tenant: Option<String>,
    /// The references that may decide.
    pub references: CredentialReferences,
    /// The widest level that may decide: the level of the credential that the object used
    /// before, if it must not change to a wider one.
    pub floor: Level,
    /// The server that the credential is for.
    pub target: Target,
    /// What a Secret must contain.
    pub shape: &'static dyn Shape,
    /// How a Secret of the namespace is held while it is used.
    pub hold: Hold,
    /// The kind of identities, such as `AzureIdentity`; none if the provider has no such kind.
    pub identity_kind: Option<&'static str>,
    /// What the operator's own credential is called in explanations, such as
    /// `static credentials`.
    pub operator_credential: &'static str,
    /// The key under which a Secret may list its endpoints, separated by commas.
    pub endpoint_key: Option<&'static str>,
    /// The port of endpoints without one.
    pub default_port: u16,
    /// The endpoints of identities that set none.
    pub default_bound: AllowedEndpoints,
    /// The endpoints that Secrets of namespaces are limited to.
    pub own_bound: AllowedEndpoints,
}

/// The server that a credential is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object names an endpoint.
    Chosen(ChosenEndpoint),
    /// The credential names its endpoint itself, as a kubeconfig does.
    Carried,
}

/// An endpoint that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The parent's endpoint, if the parent's reference decides: a Secret without endpoints may
    /// be sent only there, whatever the object names.
    pub of_parent: Option<Endpoint>,
    /// The certificates that the object accepts. They count only for a Secret of its namespace.
    pub trust: Trust,
}

/// Something that has to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An identity of the object's space.
    Identity(String),
    /// An identity of the operator's own space, which it may lend to tenants.
    LentIdentity(String),
    /// The labels of a tenant.
    Tenant(String),
    /// The labels of a namespace.
    Namespace(String),
    /// A Secret.
    Secret {
        /// Whether it belongs to a lent identity, and is in the operator's own space.
        lent: bool,
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
    /// The namespaces of its own space that may use it.
    pub allowed: Option<Allowed>,
    /// The tenants that may use it in their spaces.
    pub allowed_tenants: Option<Allowed>,
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

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Everything that was read. `Some(None)` means that the object does not exist.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The identity of the object's space.
    pub identity: Option<Option<Identity>>,
    /// The identity of the operator's own space.
    pub lent_identity: Option<Option<Identity>>,
    /// The labels of the tenant.
    pub tenant: Option<Option<Labels>>,
    /// The labels of the namespace.
    pub namespace: Option<Option<Labels>>,
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
        && let Some(secret) = secret(known, false, namespace, name)?
    {
        let origin = Origin::Secret { name, by: None };
        let found = (namespace.as_str(), name.as_str(), None);
        return from_secret(question, &origin, Level::Namespace, found, secret);
    }
    if !references.operator {
        return Err(refusal::no_reference(question));
    }
    if question.floor < Level::Operator {
        return Err(refusal::below_floor(question));
    }
    from_operator(question, known)
}

fn named(
    question: &Question,
    known: &Known,
    reference: &Reference,
    by: Option<&str>,
) -> Result<Credential, Halt> {
    let level = match by {
        None => Level::Object,
        Some(_) => Level::Parent,
    };
    match reference {
        Reference::Identity(name) => from_identity(question, known, level, name, by),
        Reference::Secret { name, part } => {
            let origin = Origin::Secret { name, by };
            // A cluster-scoped object cannot use Secrets of namespaces.
            let namespace = question.namespace.as_ref();
            let namespace = namespace.ok_or_else(|| origin.has_no_namespace())?;
            let secret = secret(known, false, namespace, name)?;
            let secret = secret.ok_or_else(|| origin.does_not_exist(question, namespace))?;
            let found = (namespace.as_str(), name.as_str(), part.as_deref());
            from_secret(question, &origin, level, found, secret)
        }
    }
}

fn from_secret(
    question: &Question,
    origin: &Origin<'_>,
    level: Level,
    (namespace, name, part): (&str, &str, Option<&str>),
    secret: &Secret,
) -> Result<Credential, Halt> {
    if let Some(holder) = question.hold.holder(&secret.owners) {
        return Err(origin.is_in_use(holder));
    }
    let content = content(question, origin, &secret.data, part)?;
    let listed = endpoints_in_secret(question, secret);
    let listed = listed.map_err(|wrong| origin.has_invalid_endpoints(question, &wrong))?;
    let (endpoint, wanted) = target(question, origin, &content)?;
    let bound = match (listed, &question.target) {
        (AllowedEndpoints::Nowhere, Target::Chosen(chosen)) => match &chosen.of_parent {
            Some(parent) => AllowedEndpoints::Only(vec![(parent.clone(), None)]),
            None => AllowedEndpoints::Anywhere,
        },
        // Who writes the Secret names the endpoint in it.
        (AllowedEndpoints::Nowhere, Target::Carried) => AllowedEndpoints::Anywhere,
        (listed, _) => listed,
    };
    if question.own_bound.admits(&endpoint).is_none() {
        return Err(origin.may_not_leave_to(&endpoint));
    }
    let source = Source::Secret {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: secret.uid.clone(),
        part: part.map(str::to_owned),
    };
    let granted = Granted {
        origin,
        level,
        source,
        endpoint,
        trust: wanted,
    };
    granted.within(question, &bound, content)
}

/// Checks first whether the object may use the identity, which reveals nothing to others.
fn from_identity(
    question: &Question,
    known: &Known,
    level: Level,
    name: &str,
    by: Option<&str>,
) -> Result<Credential, Halt> {
    let Some(kind) = question.identity_kind else {
        return Err(refusal::no_reference(question));
    };
    let origin = Origin::Identity { kind, name, by };
    let read = known.identity.as_ref();
    let own = read.ok_or_else(|| Halt::Read(Need::Identity(name.to_owned())))?;
    let (identity, lent) = match own {
        Some(own) => {
            admit(question, known, own, &origin)?;
            (own, false)
        }
        None => (lent_identity(question, known, &origin, name)?, true),
    };
    if !identity.ready {
        return Err(origin.is_not_ready(identity.trouble.as_deref()));
    }
    let secret = secret(
        known,
        lent,
        &identity.secret_namespace,
        &identity.secret_name,
    )?;
    let secret = secret.ok_or_else(|| origin.has_no_secret())?;
    let hold = question.hold.of_identity(kind, name);
    if hold.holder(&secret.owners).is_some() {
        // The Secret has another claimant, whatever the identity's last status was.
        return Err(origin.is_not_ready(Some(Reason::SecretInUse.as_str())));
    }
    let content = content(question, &origin, &secret.data, None)?;
    let bound = match &identity.bound {
        AllowedEndpoints::Nowhere => match endpoints_in_secret(question, secret) {
            Err(wrong) => return Err(origin.has_invalid_endpoints(question, &wrong)),
            Ok(AllowedEndpoints::Nowhere) => question.default_bound.clone(),
            Ok(bound) => bound,
        },
        bound => bound.clone(),
    };
    let (endpoint, _) = target(question, &origin, &content)?;
    // A tenant's administrator writes the identities of its space, with any servers.
    let is_tenants = question.tenant.is_some() && !lent;
    if is_tenants && question.own_bound.admits(&endpoint).is_none() {
        return Err(origin.may_not_leave_to(&endpoint));
    }
    let source = Source::Identity {
        name: name.to_owned(),
        uid: identity.uid.clone(),
        lent,
    };
    let granted = Granted {
        origin: &origin,
        level,
        source,
        endpoint,
        trust: shared_trust(question, &content),
    };
    granted.within(question, &bound, content)
}

/// Returns the identity of that name which the operator's own space lends to the tenant. A
/// tenant that may not use it does not learn that it exists.
fn lent_identity<'a>(
    question: &Question,
    known: &'a Known,
    origin: &Origin<'_>,
    name: &str,
) -> Result<&'a Identity, Halt> {
    let tenant = question.tenant.as_ref();
    let tenant = tenant.ok_or_else(|| origin.is_no_identity())?;
    let read = known.lent_identity.as_ref();
    let found = read.ok_or_else(|| Halt::Read(Need::LentIdentity(name.to_owned())))?;
    let lendable = found
        .as_ref()
        .and_then(|identity| Some((identity, identity.allowed_tenants.as_ref()?)));
    // Without a selector it is lent to no tenant: a misspelled one must not lend it to all.
    let lendable = lendable.filter(|(_, allowed)| allowed.selector.is_some());
    let (identity, allowed) = lendable.ok_or_else(|| origin.is_no_identity())?;
    if allowed.check().is_ok() && allowed.allows_all() {
        return Ok(identity);
    }
    let read = known.tenant.as_ref();
    let labels = read.ok_or_else(|| Halt::Read(Need::Tenant(tenant.clone())))?;
    let allows = |labels: &Labels| matches!(allowed.allows(labels), Ok(true));
    match labels.as_ref().is_some_and(allows) {
        true => Ok(identity),
        false => Err(origin.is_no_identity()),
    }
}

/// Checks whether the object's namespace may use an identity of its own space.
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
    let content = content(question, &origin, &credentials.data, None)?;
    let bound = match &credentials.bound {
        AllowedEndpoints::Nowhere => &question.default_bound,
        bound => bound,
    };
    let (endpoint, _) = target(question, &origin, &content)?;
    let granted = Granted {
        origin: &origin,
        level: Level::Operator,
        source: Source::Operator,
        endpoint,
        trust: shared_trust(question, &content),
    };
    granted.within(question, bound, content)
}

fn secret<'a>(
    known: &'a Known,
    lent: bool,
    namespace: &str,
    name: &str,
) -> Result<Option<&'a Secret>, Halt> {
    let need = || Need::Secret {
        lent,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let read = known.secret.as_ref();
    Ok(read.ok_or_else(|| Halt::Read(need()))?.as_ref())
}

/// Returns the endpoints that a Secret lists; `Nowhere` if it lists none.
fn endpoints_in_secret(
    question: &Question,
    secret: &Secret,
) -> Result<AllowedEndpoints, InvalidEndpoint> {
    let listed = question.endpoint_key.and_then(|key| secret.data.get(key));
    listed.map_or(Ok(AllowedEndpoints::Nowhere), |listed| {
        let text = listed.text();
        let text = text.ok_or_else(|| InvalidEndpoint("text that is not UTF-8".to_owned()))?;
        AllowedEndpoints::parse(text, question.default_port)
    })
}

/// Returns what a Secret contains for the question.
fn content(
    question: &Question,
    origin: &Origin<'_>,
    data: &BTreeMap<String, Hidden>,
    part: Option<&str>,
) -> Result<Content, Halt> {
    let content = question.shape.read(data, part);
    content.map_err(|invalid| origin.has_invalid_content(&invalid))
}

/// Returns the server that the credential is for, and the certificates that the author of the
/// object, or of the Secret that names the server, accepts.
fn target(
    question: &Question,
    origin: &Origin<'_>,
    content: &Content,
) -> Result<(Endpoint, Trust), Halt> {
    match (&question.target, &content.carried) {
        (Target::Chosen(chosen), _) => Ok((chosen.endpoint.clone(), chosen.trust.clone())),
        (Target::Carried, Some(carried)) => Ok((carried.endpoint.clone(), carried.trust.clone())),
        (Target::Carried, None) => Err(origin.names_no_endpoint()),
    }
}

/// Returns the certificates that are accepted for a shared credential if its bound names none: a
/// user of the credential does not decide which server may receive it. Those that the credential
/// carries are for the server that it carries.
fn shared_trust(question: &Question, content: &Content) -> Trust {
    match (&question.target, &content.carried) {
        (Target::Carried, Some(carried)) => carried.trust.clone(),
        _ => Trust::Verified,
    }
}

/// A credential before its bound is checked.
struct Granted<'a> {
    origin: &'a Origin<'a>,
    level: Level,
    source: Source,
    endpoint: Endpoint,
    trust: Trust,
}

impl Granted<'_> {
    /// Grants the credential if its level is allowed and its bound admits the endpoint.
    /// Certificates that the bound names take precedence.
    fn within(
        self,
        question: &Question,
        bound: &AllowedEndpoints,
        content: Content,
    ) -> Result<Credential, Halt> {
        if self.level > question.floor {
            return Err(refusal::below_floor(question));
        }
        let carried = content
            .carried
            .filter(|_| question.target == Target::Carried);
        let Some(named) = bound.admits(&self.endpoint) else {
            return Err(self.origin.may_not_go_to(&self.endpoint));
        };
        let fingerprint = match &self.source {
            Source::Secret { namespace, .. } if content.is_proven_by_namespace => {
                Fingerprint::in_namespace(&content.values, namespace)
            }
            _ => Fingerprint::of(&content.values),
        };
        Ok(Credential {
            source: self.source,
            level: self.level,
            fingerprint,
            content: content.values,
            endpoint: self.endpoint,
            trust: named.cloned().unwrap_or(self.trust),
            has_owners_trust: named.is_some(),
            scope: carried.and_then(|carried| carried.scope),
        })
    }
}
