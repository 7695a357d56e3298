//! From what an object says and what there is to a credential, or why none. Pure: it says
//! what it has to know, one after the other, and is told.

mod refusal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::allowed::AllowedNamespaces;
use crate::claim::{Claimant, Owner};
use crate::credential::{Credential, Fingerprint, Hidden, Source};
use crate::endpoint::{Bound, Endpoint, NotAnEndpoint};
use crate::reason::Reason;
use crate::reference::{Reference, Wishes};
use refusal::Whose;

/// What is asked: whose credentials does this object get, to send them there?
#[derive(Clone, Debug)]
pub struct Question {
    /// The namespace of the object; none if it is cluster-scoped, which only those write who
    /// may write identities.
    pub namespace: Option<String>,
    /// What decides.
    pub wishes: Wishes,
    /// Where the credential is to be sent.
    pub endpoint: Endpoint,
    /// Where the parent is, if what decides is the parent's: a Secret that says nothing about
    /// it may be sent there only, whatever the object itself names.
    pub chosen: Option<Endpoint>,
    /// What must be in a Secret, not empty.
    pub required: &'static [&'static str],
    /// What may be in a Secret beside.
    pub optional: &'static [&'static str],
    /// Who may hold a Secret of the namespace, for this object: itself, or its parent.
    pub claimant: Claimant,
    /// What an identity is called, as in `AzureIdentity`.
    pub identity_kind: &'static str,
    /// Under which key a Secret may say where it may be sent, in words with commas.
    pub endpoint_key: Option<&'static str>,
    /// The port of an endpoint that is written without one.
    pub default_port: u16,
    /// Where credentials of identities may be sent that say nothing about it themselves.
    pub default_bound: Bound,
    /// Where Secrets of namespaces may be sent at most, whatever they say themselves.
    pub own_bound: Bound,
}

/// Something that has to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// This identity.
    Identity(String),
    /// The labels of this namespace.
    Namespace(String),
    /// This Secret.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name there.
        name: String,
    },
    /// What the operator was given.
    Operator,
}

/// An identity, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Its UID.
    pub uid: String,
    /// Whether it says that it is fit for use.
    pub ready: bool,
    /// Why it is not ready, if it says so: the reason of its condition, one word.
    pub trouble: Option<String>,
    /// Which namespaces may use it.
    pub allowed: Option<AllowedNamespaces>,
    /// Where its Secret is.
    pub secret_namespace: String,
    /// What its Secret is called there.
    pub secret_name: String,
    /// Where its credential may be sent; nowhere if it says nothing about it.
    pub bound: Bound,
}

/// A Secret, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    /// Its UID.
    pub uid: String,
    /// Whether it goes. As long as it is there, it is used: whoever holds it keeps it.
    pub deleting: bool,
    /// What it holds.
    pub data: BTreeMap<String, Hidden>,
    /// Who holds it.
    pub owners: Vec<Owner>,
}

/// What the operator was given.
#[derive(Clone, Debug, Default)]
pub struct Static {
    /// What it holds.
    pub data: BTreeMap<String, Hidden>,
    /// Where it may be sent; nowhere if it says nothing about it.
    pub bound: Bound,
}

/// What is known so far. `Some(None)` is known not to be there.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The identity.
    pub identity: Option<Option<Identity>>,
    /// The labels of the namespace.
    pub namespace: Option<Option<BTreeMap<String, String>>>,
    /// The Secret: only one is ever asked for.
    pub secret: Option<Option<Secret>>,
    /// What the operator was given.
    pub operator: Option<Option<Static>>,
}

/// How the decision goes on.
#[derive(Clone, Debug)]
pub enum Step {
    /// This has to be known first.
    Read(Need),
    /// This credential.
    Grant(Credential),
    /// None.
    Refuse(Refusal),
}

/// Why an object gets no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why, in one word.
    pub reason: Reason,
    /// A sentence for whoever owns the object. It names nothing of other namespaces.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Decides, or says what has to be known first.
pub fn decide(question: &Question, known: &Known) -> Step {
    match weigh(question, known) {
        Ok(credential) => Step::Grant(credential),
        Err(Halt::Read(need)) => Step::Read(need),
        Err(Halt::Refuse(refusal)) => Step::Refuse(refusal),
    }
}

/// What knows what there is.
pub trait Ground {
    /// Why it could not be read.
    type Error;
    /// Learns what is needed; what is not there is known not to be there.
    fn learn(
        &self,
        need: Need,
        known: &mut Known,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Decides, reading what has to be known.
///
/// # Errors
///
/// If something could not be read. That is no refusal, and no step to anything wider.
pub async fn resolve<G: Ground>(
    question: &Question,
    ground: &G,
) -> Result<Result<Credential, Refusal>, G::Error> {
    let mut known = Known::default();
    loop {
        match decide(question, &known) {
            Step::Read(need) => ground.learn(need, &mut known).await?,
            Step::Grant(credential) => return Ok(Ok(credential)),
            Step::Refuse(refusal) => return Ok(Err(refusal)),
        }
    }
}

/// Why there is no credential, or not yet.
enum Halt {
    Read(Need),
    Refuse(Refusal),
}

/// The first wish that is there decides alone. Only the namespace's Secret may be missing: it
/// is nobody's word until it is there.
fn weigh(question: &Question, known: &Known) -> Result<Credential, Halt> {
    let wishes = &question.wishes;
    if let Some(own) = &wishes.own {
        return named(question, known, own, None);
    }
    if let Some((parent, reference)) = &wishes.parent {
        return named(question, known, reference, Some(parent));
    }
    if let (Some(name), Some(namespace)) = (&wishes.namespace, &question.namespace)
        && let Some(secret) = secret(known, namespace, name)?
    {
        return from_secret(question, (namespace, name, None), secret);
    }
    match wishes.operator {
        true => from_operator(question, known),
        false => Err(refusal::nobody_said(question)),
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
            let whose = Whose::Secret { name, by };
            // What is in no namespace has no Secret of its own.
            let namespace = question.namespace.as_ref();
            let namespace = namespace.ok_or_else(|| whose.has_no_namespace())?;
            let secret = secret(known, namespace, name)?;
            let secret = secret.ok_or_else(|| whose.is_not_there(question, namespace))?;
            from_secret(question, (namespace, name, by), secret)
        }
    }
}

fn from_secret(
    question: &Question,
    (namespace, name, by): (&str, &str, Option<&str>),
    secret: &Secret,
) -> Result<Credential, Halt> {
    let whose = Whose::Secret { name, by };
    if let Some(holder) = question.claimant.holder(&secret.owners) {
        return Err(whose.is_held(holder));
    }
    let content = content(question, &whose, &secret.data)?;
    let bound = match said(question, secret) {
        Err(wrong) => return Err(whose.says_nonsense(question, &wrong)),
        Ok(Bound::Nowhere) => match &question.chosen {
            Some(chosen) => Bound::Only(vec![(chosen.clone(), None)]),
            None => Bound::Anywhere,
        },
        Ok(bound) => bound,
    };
    if question.own_bound.admits(&question.endpoint).is_none() {
        return Err(whose.may_not_leave_to(&question.endpoint));
    }
    let source = Source::Secret {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: secret.uid.clone(),
    };
    grant(question, &whose, source, content, &bound)
}

/// Whether the namespace may use it is judged first: who may not learns nothing more of it.
fn from_identity(
    question: &Question,
    known: &Known,
    name: &str,
    by: Option<&str>,
) -> Result<Credential, Halt> {
    let whose = Whose::Identity {
        kind: question.identity_kind,
        name,
        by,
    };
    let read = known.identity.as_ref();
    let identity = read.ok_or_else(|| Halt::Read(Need::Identity(name.to_owned())))?;
    let identity = identity.as_ref().ok_or_else(|| whose.is_no_identity())?;
    admit(question, known, identity, &whose)?;
    if !identity.ready {
        return Err(whose.is_not_ready(identity.trouble.as_deref()));
    }
    let secret = secret(known, &identity.secret_namespace, &identity.secret_name)?;
    let secret = secret.ok_or_else(|| whose.has_no_secret())?;
    if holder(question, name).holder(&secret.owners).is_some() {
        // Whatever it said of itself last: this Secret is another's.
        return Err(whose.is_not_ready(Some(Reason::SecretInUse.as_str())));
    }
    let content = content(question, &whose, &secret.data)?;
    let bound = match &identity.bound {
        Bound::Nowhere => match said(question, secret) {
            Err(wrong) => return Err(whose.says_nonsense(question, &wrong)),
            Ok(Bound::Nowhere) => question.default_bound.clone(),
            Ok(bound) => bound,
        },
        bound => bound.clone(),
    };
    let source = Source::Identity {
        name: name.to_owned(),
        uid: identity.uid.clone(),
    };
    grant(question, &whose, source, content, &bound)
}

/// An identity as what may hold its Secret.
fn holder(question: &Question, name: &str) -> Claimant {
    Claimant {
        kind: question.identity_kind.to_owned(),
        name: name.to_owned(),
        ..question.claimant.clone()
    }
}

/// Whether the object's namespace may use an identity.
fn admit(
    question: &Question,
    known: &Known,
    identity: &Identity,
    whose: &Whose<'_>,
) -> Result<(), Halt> {
    let Some(namespace) = &question.namespace else {
        return Ok(());
    };
    let Some(allowed) = &identity.allowed else {
        return Err(whose.allows_nobody());
    };
    allowed
        .check()
        .map_err(|wrong| whose.has_no_selector(&wrong))?;
    if allowed.allows_all() {
        return Ok(());
    }
    let read = known.namespace.as_ref();
    let labels = read.ok_or_else(|| Halt::Read(Need::Namespace(namespace.clone())))?;
    let allows = labels.as_ref().map(|labels| allowed.allows(labels));
    match allows {
        Some(Ok(true)) => Ok(()),
        Some(Err(wrong)) => Err(whose.has_no_selector(&wrong)),
        Some(Ok(false)) | None => Err(whose.does_not_allow(namespace)),
    }
}

fn from_operator(question: &Question, known: &Known) -> Result<Credential, Halt> {
    let read = known.operator.as_ref();
    let given = read.ok_or(Halt::Read(Need::Operator))?;
    let given = given
        .as_ref()
        .ok_or_else(|| refusal::nobody_said(question))?;
    let whose = Whose::Operator;
    let content = content(question, &whose, &given.data)?;
    let bound = match &given.bound {
        Bound::Nowhere => &question.default_bound,
        bound => bound,
    };
    grant(question, &whose, Source::Operator, content, bound)
}

fn secret<'a>(known: &'a Known, namespace: &str, name: &str) -> Result<Option<&'a Secret>, Halt> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let read = known.secret.as_ref();
    let read = read.ok_or(Halt::Read(Need::Secret { namespace, name }))?;
    Ok(read.as_ref())
}

/// Where a Secret itself says that it may be sent; nowhere if it does not say.
fn said(question: &Question, secret: &Secret) -> Result<Bound, NotAnEndpoint> {
    let text = question.endpoint_key.and_then(|key| secret.data.get(key));
    text.map_or(Ok(Bound::Nowhere), |text| {
        Bound::parse(text.reveal(), question.default_port)
    })
}

/// What was asked for, of what there is.
fn content(
    question: &Question,
    whose: &Whose<'_>,
    data: &BTreeMap<String, Hidden>,
) -> Result<BTreeMap<String, Hidden>, Halt> {
    let held = |key: &&&str| {
        data.get(**key)
            .is_some_and(|value| !value.reveal().is_empty())
    };
    let lacking: Vec<&str> = question
        .required
        .iter()
        .filter(|key| !held(key))
        .copied()
        .collect();
    if !lacking.is_empty() {
        return Err(whose.lacks(&lacking));
    }
    let keys = question.required.iter().chain(question.optional);
    let pairs = keys.filter_map(|key| data.get_key_value(*key));
    Ok(pairs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect())
}

fn grant(
    question: &Question,
    whose: &Whose<'_>,
    source: Source,
    content: BTreeMap<String, Hidden>,
    bound: &Bound,
) -> Result<Credential, Halt> {
    let Some(trust) = bound.admits(&question.endpoint) else {
        return Err(whose.may_not_go_to(&question.endpoint));
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
