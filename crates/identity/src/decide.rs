//! From what an object says and what there is to a credential, or why none. Pure: it says
//! what it has to know, one after the other, and is told.

use std::collections::BTreeMap;

use crate::allowed::AllowedNamespaces;
use crate::claim::{Claimant, Owner};
use crate::credential::{Credential, Hidden};
use crate::endpoint::{Bound, Endpoint};
use crate::reason::Reason;
use crate::reference::Wishes;

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
}

/// Something that has to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// This identity.
    Identity(String),
    /// The labels of this namespace.
    Namespace(String),
    /// This Secret.
    Secret { namespace: String, name: String },
    /// What the operator was given.
    Operator,
}

/// An identity, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub uid: String,
    pub ready: bool,
    /// Why it is not ready, if it says so.
    pub trouble: Option<String>,
    pub allowed: Option<AllowedNamespaces>,
    /// Where its Secret is.
    pub secret_namespace: String,
    pub secret_name: String,
    /// Where its credential may be sent.
    pub bound: Bound,
}

/// A Secret, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    pub uid: String,
    pub deleting: bool,
    pub data: BTreeMap<String, Hidden>,
    pub owners: Vec<Owner>,
}

/// What the operator was given.
#[derive(Clone, Debug, Default)]
pub struct Static {
    pub data: BTreeMap<String, Hidden>,
    pub bound: Bound,
}

/// What is known so far. `Some(None)` is known not to be there.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub identity: Option<Option<Identity>>,
    pub namespace: Option<Option<BTreeMap<String, String>>>,
    pub secret: Option<Option<Secret>>,
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
    pub reason: Reason,
    /// A sentence for whoever owns the object. It names nothing of other namespaces.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Decides, or says what has to be known first.
pub fn decide(question: &Question, known: &Known) -> Step {
    todo!("{question:?}{known:?}")
}

/// What knows what there is.
pub trait Ground {
    /// Why it could not be read.
    type Error;
    /// Learns what is needed; what is not there is known not to be there.
    fn learn(&self, need: Need, known: &mut Known)
    -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Decides, reading what has to be known.
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
