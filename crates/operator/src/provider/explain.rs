//! Explains which credential an object gets and why, with the rights of the caller.
//!
//! It takes the same steps as the operator. Facts that the caller may not read, or that only the
//! operator knows, are assumed to be in order and reported as assumptions; then the condition
//! that the operator wrote last decides, if there is one.

use std::fmt::{self, Debug};
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use insula_identity::decide::{self, CredentialReader, Known, Need, Question, Refusal};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::explain::{Explanation, explain};
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::DynamicObject;
use kube::core::object::HasStatus;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::triggers::space_of_path;
use super::{IdentityKind, Names, as_identity, as_secret};
use crate::condition::{Conditions, find};
use crate::read::get_named;

/// What explanations and lists of users have to know about a provider.
pub trait Inspect: Send + Sync {
    /// Returns the kinds that get credentials, each with its plural, in any order.
    fn kinds(&self) -> &'static [(&'static str, &'static str)];

    /// Returns the kind of identities, if the provider has one.
    fn identities(&self) -> Option<&'static IdentityKind>;

    /// Returns the well-known names of the provider.
    fn names(&self) -> &'static Names;

    /// Returns what a Secret with a credential contains.
    fn shape(&self) -> &'static dyn Shape;

    /// Returns the key under which a Secret may list its servers.
    fn endpoint_key(&self) -> Option<&'static str>;

    /// Returns the namespace of the operator and of the Secrets of identities.
    fn operator_namespace(&self) -> &'static str;

    /// Returns whether the operator always has a credential for objects without a reference, such
    /// as its own account. Otherwise only the operator knows whether it has one.
    fn has_own_account(&self) -> bool {
        false
    }

    /// Returns the type of the condition of a kind that tells whether the server can be used.
    fn condition(&self, kind: &str) -> &'static str;

    /// Returns the names of reasons in the provider's conditions.
    fn reasons(&self) -> fn(Reason) -> &'static str;

    /// Reads an object, and returns the question which credential it gets.
    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        kind: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>>;
}

/// Returns the provider and the kind of this name or plural, in any case.
pub fn find_kind(
    providers: &'static [&'static dyn Inspect],
    text: &str,
) -> Option<(&'static dyn Inspect, &'static str)> {
    let is = |(kind, plural): &&(&str, &str)| {
        text.eq_ignore_ascii_case(kind) || text.eq_ignore_ascii_case(plural)
    };
    providers.iter().find_map(|provider| {
        let (kind, _) = provider.kinds().iter().find(is)?;
        Some((*provider, *kind))
    })
}

/// The question about an object.
#[derive(Debug)]
pub struct Asked {
    /// The object, as in `VSphereCluster red/prod`.
    pub object: String,
    /// The question, or why no credential comes into question.
    pub question: Result<Question, Refusal>,
    /// The conditions of the object.
    pub conditions: Vec<Condition>,
    generation: Option<i64>,
    tenant: Option<String>,
}

impl Asked {
    /// Returns the question about an object.
    pub fn new<K>(object: &K, question: Result<Question, Refusal>) -> Self
    where
        K: Resource<DynamicType = ()> + HasStatus<Status: Conditions>,
    {
        let metadata = object.meta();
        let space = metadata.self_link.as_deref().and_then(space_of_path);
        let namespace = metadata.namespace.as_deref();
        let conditions = object.status().map(Conditions::conditions);
        Self {
            object: text::<K>(namespace, &object.name_any()),
            question,
            conditions: conditions.unwrap_or_default().to_vec(),
            generation: metadata.generation,
            tenant: space.map(|space| space.to_string()),
        }
    }
}

/// Returns an object as text, as in `VSphereCluster red/prod`.
fn text<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> String {
    let kind = K::kind(&());
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// The objects that the caller may read: those of a namespace, and cluster-scoped ones.
#[derive(Clone, Copy)]
pub struct Objects<'a> {
    /// The caller's client.
    pub client: &'a Client,
    /// The namespace.
    pub namespace: &'a str,
}

impl Objects<'_> {
    /// Reads an object of the namespace.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be read.
    pub async fn read<K>(&self, name: &str) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        let text = text::<K>(Some(self.namespace), name);
        found(get_named(&api, name).await, &text)
    }

    /// Reads a cluster-scoped object.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be read.
    pub async fn read_cluster_scoped<K>(&self, name: &str) -> Result<K, Error>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let text = text::<K>(None, name);
        found(get_named(&api, name).await, &text)
    }
}

/// The explanation of an object's credential.
#[derive(Debug)]
pub struct CredentialReport {
    /// The object, as in `VSphereCluster red/prod`.
    pub object: String,
    /// The decision.
    pub decision: Decision,
    /// Facts that were assumed.
    pub assumptions: Vec<String>,
    /// The operator's last condition in the object's status.
    pub operator_condition: Option<Condition>,
    generation: Option<i64>,
    reasons: fn(Reason) -> &'static str,
}

/// How the credential was decided.
#[derive(Debug)]
pub enum Decision {
    /// Decided step by step.
    Explained(Box<Explanation>),
    /// Refused before anything was read.
    Refused(Refusal),
    /// Not decidable, because the caller may not read something.
    Unknown(String),
}

/// What an explanation amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object gets a credential.
    Granted,
    /// The object gets none.
    Refused,
    /// The caller may not read what decides, and the operator has not reported it.
    Unknown,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// A request to the API server failed.
    #[error("cannot read {what}")]
    Read {
        /// What was to be read.
        what: String,
        /// How the request failed.
        source: kube::Error,
    },
}

impl CredentialReport {
    /// Returns whether the object gets a credential. If something had to be assumed or is not
    /// known, the operator's condition decides.
    pub fn verdict(&self) -> Verdict {
        let verdict = match &self.decision {
            Decision::Explained(explanation) if explanation.decision.is_ok() => Verdict::Granted,
            Decision::Explained(_) | Decision::Refused(_) => return Verdict::Refused,
            Decision::Unknown(_) => Verdict::Unknown,
        };
        if verdict == Verdict::Granted && self.assumptions.is_empty() {
            return Verdict::Granted;
        }
        match &self.operator_condition {
            Some(condition) if !self.is_current(condition) => verdict,
            Some(condition) if condition.status == "True" => Verdict::Granted,
            Some(condition) if self.has_reason(condition, &REFUSALS) => Verdict::Refused,
            Some(condition) if self.has_reason(condition, &SENT) => Verdict::Granted,
            Some(_) | None => verdict,
        }
    }

    /// Returns whether a condition is about the object as it is now.
    fn is_current(&self, condition: &Condition) -> bool {
        let observed = condition.observed_generation;
        observed.is_none() || observed == self.generation
    }

    /// Returns whether the object gets a credential, as far as is known.
    pub fn is_granted(&self) -> bool {
        self.verdict() == Verdict::Granted
    }

    /// Returns whether a condition is false for one of these reasons.
    fn has_reason(&self, condition: &Condition, reasons: &[Reason]) -> bool {
        let is = |reason: &Reason| (self.reasons)(*reason) == condition.reason;
        condition.status == "False" && reasons.iter().any(is)
    }
}

/// Reasons for which an object gets no credential.
const REFUSALS: [Reason; 7] = [
    Reason::IdentityNotFound,
    Reason::IdentityNotReady,
    Reason::NamespaceNotAllowed,
    Reason::SecretNotAvailable,
    Reason::SecretInUse,
    Reason::EndpointNotAllowed,
    Reason::NoCredentials,
];

/// Reasons that are about a server to which a credential was sent, or would have been.
const SENT: [Reason; 4] = [
    Reason::CertificateNotTrusted,
    Reason::Unreachable,
    Reason::Forbidden,
    Reason::NotServed,
];

impl fmt::Display for CredentialReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.object)?;
        match &self.decision {
            Decision::Explained(explanation) => self.write_explanation(out, explanation)?,
            Decision::Refused(refusal) => self.write_refusal(out, refusal)?,
            Decision::Unknown(why) => writeln!(out, "not known: {why}")?,
        }
        for assumption in &self.assumptions {
            writeln!(out, "note: {assumption}")?;
        }
        match &self.operator_condition {
            None => writeln!(out, "the operator has not reported a condition yet"),
            Some(condition) => {
                let (kind, status, reason) =
                    (&condition.type_, &condition.status, &condition.reason);
                write!(out, "the operator reports {kind}={status} ({reason})")?;
                match condition.message.as_str() {
                    "" => writeln!(out),
                    message => writeln!(out, ": {message}"),
                }
            }
        }
    }
}

impl CredentialReport {
    fn write_explanation(
        &self,
        out: &mut fmt::Formatter<'_>,
        explanation: &Explanation,
    ) -> fmt::Result {
        match &explanation.decision {
            Ok(_) => writeln!(out, "{explanation}"),
            Err(refusal) => {
                for step in &explanation.steps {
                    writeln!(out, "- {step}")?;
                }
                self.write_refusal(out, refusal)
            }
        }
    }

    fn write_refusal(&self, out: &mut fmt::Formatter<'_>, refusal: &Refusal) -> fmt::Result {
        let (message, reason) = (&refusal.message, (self.reasons)(refusal.reason));
        writeln!(out, "no credential: {message} ({reason})")?;
        match &refusal.hint {
            Some(hint) => writeln!(out, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Explains which credential an object gets; the namespace of cluster-scoped objects is ignored.
///
/// # Errors
///
/// If the object does not exist or a request to the API server fails.
pub async fn report(
    client: &Client,
    provider: &'static dyn Inspect,
    kind: &'static str,
    namespace: &str,
    name: &str,
) -> Result<CredentialReport, Error> {
    let objects = Objects { client, namespace };
    let asked = provider.question(&objects, kind, name).await?;
    let operator_condition = find(&asked.conditions, provider.condition(kind)).cloned();
    let report = |decision, assumptions| CredentialReport {
        object: asked.object,
        decision,
        assumptions,
        operator_condition,
        generation: asked.generation,
        reasons: provider.reasons(),
    };
    let question = match asked.question {
        Ok(question) => Question {
            tenant: asked.tenant,
            ..question
        },
        Err(refusal) => return Ok(report(Decision::Refused(refusal), Vec::new())),
    };
    let reader = FactReader {
        client,
        provider,
        notes: Mutex::default(),
    };
    let explained = explain(&question, &reader).await;
    let notes = reader.notes.into_inner();
    let notes = notes.unwrap_or_else(PoisonError::into_inner);
    let decision = match explained {
        Ok(mut explanation) => {
            for (at, step) in notes.steps {
                if let Some(text) = explanation.steps.get_mut(at) {
                    *text = step;
                }
            }
            Decision::Explained(Box::new(explanation))
        }
        Err(ReadError::Forbidden(why)) => Decision::Unknown(why),
        Err(ReadError::Failed(error)) => return Err(error),
    };
    Ok(report(decision, notes.assumptions))
}

/// Returns the refusal for an object that belongs to nothing with a credential.
pub fn refused_alone(why: &str) -> Refusal {
    Refusal {
        reason: Reason::NoCredentials,
        message: format!("{why}, so it gets no credential"),
        hint: None,
    }
}

fn found<K>(read: Result<Option<K>, kube::Error>, object: &str) -> Result<K, Error> {
    match read {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Error::NotFound(object.to_owned())),
        Err(source) => Err(Error::Read {
            what: object.to_owned(),
            source,
        }),
    }
}

/// Reads facts with the caller's rights.
struct FactReader<'a> {
    client: &'a Client,
    provider: &'static dyn Inspect,
    notes: Mutex<Notes>,
}

/// What is reported beside the decision.
#[derive(Default)]
struct Notes {
    /// The number of facts read so far. Step 0 is the reference, before anything is read.
    read: usize,
    /// Texts that replace steps of the explanation.
    steps: Vec<(usize, String)>,
    assumptions: Vec<String>,
    /// Whether the identity names its servers.
    identity_names_servers: bool,
}

/// Why a fact was not read.
#[derive(Debug)]
enum ReadError {
    Forbidden(String),
    Failed(Error),
}

impl FactReader<'_> {
    fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn assume(&self, step: String, assumption: String) {
        self.note(|notes| {
            notes.steps.push((notes.read, step));
            notes.assumptions.push(assumption);
        });
    }

    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<decide::Secret>, ReadError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("Secrets of {namespace}");
        let is_identitys = namespace == self.provider.operator_namespace();
        match secrets.get_opt(name).await {
            Ok(found) => {
                let finalizer = self.provider.names().secret_finalizer;
                let found = found.map(|found| as_secret(found, finalizer));
                let key = self.provider.endpoint_key();
                let names_servers =
                    |secret: &decide::Secret| key.is_none_or(|key| secret.data.contains_key(key));
                if found.as_ref().is_some_and(|secret| !names_servers(secret)) && is_identitys {
                    self.assume_bound();
                }
                Ok(found)
            }
            Err(error) if is_forbidden(&error) => {
                // The name of an identity's Secret is not revealed.
                let secret = match is_identitys {
                    true => "its Secret".to_owned(),
                    false => format!("Secret {name}"),
                };
                self.assume(
                    format!("you may not read {secret}"),
                    format!("you may not read {what}: whether it has what it needs is not known"),
                );
                Ok(Some(decide::Secret {
                    data: self.provider.shape().sample(),
                    ..decide::Secret::default()
                }))
            }
            Err(source) => Err(ReadError::Failed(Error::Read { what, source })),
        }
    }

    /// Only shared accounts have to name their servers.
    fn assume_bound(&self) {
        self.note(|notes| {
            if !notes.identity_names_servers {
                notes.assumptions.push(
                    "neither the identity nor its Secret names its servers: only the operator knows its --allowed-server"
                        .to_owned(),
                );
            }
        });
    }

    async fn identity(&self, name: &str) -> Result<Option<decide::Identity>, ReadError> {
        let Some(kind) = self.provider.identities() else {
            return Ok(None);
        };
        let identities: Api<DynamicObject> = Api::all_with(self.client.clone(), &(kind.resource)());
        let what = format!("{} {name}", kind.kind);
        let found = allowed_read(get_named(&identities, name).await, what)?;
        let namespace = self.provider.operator_namespace();
        let found = found.map(|found| as_identity(kind, &found, namespace));
        let says = found
            .as_ref()
            .is_some_and(|it| it.bound != AllowedEndpoints::Nowhere);
        self.note(|notes| notes.identity_names_servers = says);
        Ok(found)
    }
}

impl CredentialReader for FactReader<'_> {
    type Error = ReadError;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), ReadError> {
        self.note(|notes| notes.read += 1);
        match need {
            Need::Identity(name) => known.identity = Some(self.identity(&name).await?),
            // The caller's client reads its own space only.
            Need::LentIdentity(name) => {
                let kind = self.provider.identities().map_or("identity", |it| it.kind);
                return Err(ReadError::Forbidden(format!(
                    "this space has no {kind} {name}, and only the operator knows whether the \
                     system lends one to it"
                )));
            }
            Need::Tenant(name) => {
                let what = format!("Tenant {name}");
                return Err(ReadError::Forbidden(format!("you may not read {what}")));
            }
            Need::Namespace(name) => {
                let namespaces: Api<Namespace> = Api::all(self.client.clone());
                let what = format!("Namespace {name}");
                let found = allowed_read(namespaces.get_metadata_opt(&name).await, what)?;
                known.namespace = Some(found.map(|found| found.labels().clone()));
            }
            Need::Secret {
                namespace, name, ..
            } => known.secret = Some(self.secret(&namespace, &name).await?),
            Need::Operator => {
                if !self.provider.has_own_account() {
                    self.assume(
                    "you may not read the static credentials of the operator".to_owned(),
                    "only the operator knows whether it has static credentials for such objects, and for which servers".to_owned(),
                    );
                }
                known.operator = Some(Some(decide::Static {
                    data: self.provider.shape().sample(),
                    bound: AllowedEndpoints::Anywhere,
                }));
            }
        }
        Ok(())
    }
}

fn allowed_read<K>(
    read: Result<Option<K>, kube::Error>,
    what: String,
) -> Result<Option<K>, ReadError> {
    match read {
        Ok(found) => Ok(found),
        Err(error) if is_forbidden(&error) => {
            Err(ReadError::Forbidden(format!("you may not read {what}")))
        }
        Err(source) => Err(ReadError::Failed(Error::Read { what, source })),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::condition::seconds;

    #[test]
    fn unknown_credential_is_reported_as_the_operator_knows_it() {
        let (unknown, refused) = (Verdict::Unknown, Verdict::Refused);
        for (status, reason, observed, expected) in [
            ("True", "Available", Some(2), Verdict::Granted),
            ("True", "Available", None, Verdict::Granted),
            ("True", "Available", Some(1), unknown),
            ("False", "IdentityNotFound", Some(2), refused),
            ("False", "IdentityNotFound", Some(1), unknown),
            ("False", "SecretInUse", Some(2), refused),
            ("False", "Unreachable", Some(2), Verdict::Granted),
            ("False", "InvalidCredentials", Some(2), unknown),
            ("False", "Deleting", Some(2), unknown),
            ("False", "ServerUnavailable", Some(2), unknown),
            ("False", "OwnerMismatch", Some(2), unknown),
        ] {
            let report = CredentialReport {
                object: "Cloud a/b".to_owned(),
                decision: Decision::Unknown("you may not read it".to_owned()),
                assumptions: Vec::new(),
                operator_condition: Some(Condition {
                    type_: "Available".to_owned(),
                    status: status.to_owned(),
                    reason: reason.to_owned(),
                    message: String::new(),
                    observed_generation: observed,
                    last_transition_time: seconds(Timestamp::UNIX_EPOCH),
                }),
                generation: Some(2),
                reasons: Reason::as_str,
            };
            assert_eq!(report.verdict(), expected, "{status} {reason} {observed:?}");
        }
    }
}
