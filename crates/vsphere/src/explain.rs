//! Explains which credential an object gets and why, with the rights of the caller.
//!
//! It takes the same steps as the operator. Facts that the caller may not read, or that only the
//! operator knows, are assumed to be in order and reported as assumptions; then the condition
//! that the operator wrote last decides, if there is one.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use insula_identity::credential::Hidden;
use insula_identity::decide::{self, CredentialReader, Known, Need, Question, Refusal};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::explain::{Explanation, explain};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client, ResourceExt};

use crate::capi::Cluster;
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine, VSphereVM,
    VirtualMachineSpec,
};
use crate::names::{CLUSTER_LABEL, NAMESPACE};
use crate::operator::condition::{VCENTER, find, reason};
use crate::operator::owning_cluster::reference;
use crate::operator::read::get_named;
use crate::operator::resolve::{
    Bounds, REQUIRED, SERVER, as_identity, as_secret, cluster_question, machine_question,
    zone_question,
};

/// The kinds that get credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `VSphereCluster`.
    Cluster,
    /// `VSphereMachine`.
    Machine,
    /// `VSphereVM`.
    Vm,
    /// `VSphereDeploymentZone`.
    Zone,
}

impl Kind {
    /// Parses the kind or its plural, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "vspherecluster" | "vsphereclusters" => Some(Self::Cluster),
            "vspheremachine" | "vspheremachines" => Some(Self::Machine),
            "vspherevm" | "vspherevms" => Some(Self::Vm),
            "vspheredeploymentzone" | "vspheredeploymentzones" => Some(Self::Zone),
            _ => None,
        }
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
}

/// How the credential was decided.
#[derive(Debug)]
pub enum Decision {
    /// Decided step by step.
    Explained(Explanation),
    /// Refused before anything was read.
    Refused(Refusal),
    /// Not decidable, because the caller may not read something.
    Unknown(String),
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
    /// Returns whether the object gets a credential. If something had to be assumed, the operator's
    /// condition overrides the explanation.
    pub fn is_granted(&self) -> bool {
        let granted = match &self.decision {
            Decision::Explained(explanation) => explanation.decision.is_ok(),
            Decision::Refused(_) | Decision::Unknown(_) => false,
        };
        granted && (self.assumptions.is_empty() || !self.is_refused_by_operator())
    }

    fn is_refused_by_operator(&self) -> bool {
        // All other reasons are about a vCenter that a credential was sent to.
        let without = [
            "IdentityNotFound",
            "IdentityNotReady",
            "NamespaceNotAllowed",
            "SecretNotAvailable",
            "SecretInUse",
            "ServerNotAllowed",
            "NoCredentials",
        ];
        let condition = self.operator_condition.as_ref();
        condition.is_some_and(|condition| {
            condition.status == "False" && without.contains(&condition.reason.as_str())
        })
    }
}

impl fmt::Display for CredentialReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.object)?;
        match &self.decision {
            Decision::Explained(explanation) => write_explanation(out, explanation)?,
            Decision::Refused(refusal) => write_refusal(out, refusal)?,
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

fn write_explanation(out: &mut fmt::Formatter<'_>, explanation: &Explanation) -> fmt::Result {
    match &explanation.decision {
        Ok(_) => writeln!(out, "{explanation}"),
        Err(refusal) => {
            for step in &explanation.steps {
                writeln!(out, "- {step}")?;
            }
            write_refusal(out, refusal)
        }
    }
}

fn write_refusal(out: &mut fmt::Formatter<'_>, refusal: &Refusal) -> fmt::Result {
    let (message, reason) = (&refusal.message, reason(refusal.reason));
    writeln!(out, "no credential: {message} ({reason})")?;
    match &refusal.hint {
        Some(hint) => writeln!(out, "hint: {hint}"),
        None => Ok(()),
    }
}

/// Explains which credential an object gets; cluster-scoped objects have no namespace.
///
/// # Errors
///
/// If the object does not exist or a request to the API server fails.
pub async fn report(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<CredentialReport, Error> {
    let explainer = Explainer { client, namespace };
    match kind {
        Kind::Cluster => explainer.cluster(name).await,
        Kind::Machine => explainer.machine(name).await,
        Kind::Vm => explainer.vm(name).await,
        Kind::Zone => explainer.zone(name).await,
    }
}

/// The caller's client, and the namespace of the object.
struct Explainer<'a> {
    client: &'a Client,
    namespace: &'a str,
}

/// Only the operator knows where credentials without servers of their own may be sent.
const ANYWHERE: Bounds = Bounds {
    default: AllowedEndpoints::Anywhere,
    namespace_secrets: AllowedEndpoints::Anywhere,
};

impl Explainer<'_> {
    async fn cluster(&self, name: &str) -> Result<CredentialReport, Error> {
        let object = format!("VSphereCluster {}/{name}", self.namespace);
        let cluster: VSphereCluster = self.read(&object, name).await?;
        let question = cluster_question(&ANYWHERE, self.namespace, &cluster);
        let conditions = cluster.status.map(|status| status.conditions);
        self.decide(object, question.map(|(question, _)| question), conditions)
            .await
    }

    async fn machine(&self, name: &str) -> Result<CredentialReport, Error> {
        let object = format!("VSphereMachine {}/{name}", self.namespace);
        let machine: VSphereMachine = self.read(&object, name).await?;
        let label = machine.labels().get(CLUSTER_LABEL).cloned();
        let conditions = machine.status.map(|status| status.conditions);
        self.cluster_member(object, label, &machine.spec.machine, conditions)
            .await
    }

    async fn vm(&self, name: &str) -> Result<CredentialReport, Error> {
        let object = format!("VSphereVM {}/{name}", self.namespace);
        let vm: VSphereVM = self.read(&object, name).await?;
        let label = vm.labels().get(CLUSTER_LABEL).cloned();
        let conditions = vm.status.map(|status| status.conditions);
        self.cluster_member(object, label, &vm.spec.machine, conditions)
            .await
    }

    async fn zone(&self, name: &str) -> Result<CredentialReport, Error> {
        let object = format!("VSphereDeploymentZone {name}");
        let zones: Api<VSphereDeploymentZone> = Api::all(self.client.clone());
        let zone = found(zones.get_opt(name).await, &object)?;
        let question = zone_question(&ANYWHERE, &zone);
        let conditions = zone.status.map(|status| status.conditions);
        self.decide(object, question, conditions).await
    }

    /// Explains a machine or virtual machine, which gets its cluster's credential.
    async fn cluster_member(
        &self,
        object: String,
        label: Option<String>,
        machine: &VirtualMachineSpec,
        conditions: Option<Vec<Condition>>,
    ) -> Result<CredentialReport, Error> {
        let cluster = match self.cluster_of(label).await? {
            Ok(cluster) => cluster,
            Err(why) => return Ok(refused_without_cluster(object, why, conditions)),
        };
        let question = machine_question(&ANYWHERE, self.namespace, machine, &cluster);
        self.decide(object, question.map(|(question, _)| question), conditions)
            .await
    }

    /// Returns the cluster that the label names, or why there is none.
    async fn cluster_of(
        &self,
        label: Option<String>,
    ) -> Result<Result<VSphereCluster, String>, Error> {
        let Some(name) = label else {
            return Ok(Err(format!("it has no label {CLUSTER_LABEL}")));
        };
        let what = format!("Cluster {}/{name}", self.namespace);
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), self.namespace);
        let cluster = match get_named(&clusters, &name).await {
            Ok(Some(cluster)) => cluster,
            Ok(None) => return Ok(Err(format!("there is no {what}"))),
            Err(source) => return Err(Error::Read { what, source }),
        };
        match reference(&cluster) {
            Err(no_cluster) => Ok(Err(no_cluster.message)),
            Ok(reference) => {
                let what = format!("VSphereCluster {}/{}", self.namespace, reference.name);
                match self.read(&what, &reference.name).await {
                    Err(Error::NotFound(what)) => Ok(Err(format!("there is no {what}"))),
                    read => read.map(Ok),
                }
            }
        }
    }

    async fn read<K>(&self, object: &str, name: &str) -> Result<K, Error>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.namespace);
        found(get_named(&api, name).await, object)
    }

    async fn decide(
        &self,
        object: String,
        question: Result<Question, Refusal>,
        conditions: Option<Vec<Condition>>,
    ) -> Result<CredentialReport, Error> {
        let operator_condition = vcenter_condition(conditions);
        let question = match question {
            Ok(question) => question,
            Err(refusal) => {
                let decision = Decision::Refused(refusal);
                let assumptions = Vec::new();
                return Ok(CredentialReport {
                    object,
                    decision,
                    assumptions,
                    operator_condition,
                });
            }
        };
        let reader = FactReader {
            client: self.client,
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
                Decision::Explained(explanation)
            }
            Err(ReadError::Forbidden(why)) => Decision::Unknown(why),
            Err(ReadError::Failed(error)) => return Err(error),
        };
        let assumptions = notes.assumptions;
        Ok(CredentialReport {
            object,
            decision,
            assumptions,
            operator_condition,
        })
    }
}

fn refused_without_cluster(
    object: String,
    why: String,
    conditions: Option<Vec<Condition>>,
) -> CredentialReport {
    let refusal = Refusal {
        reason: insula_identity::reason::Reason::NoCredentials,
        message: format!("{why}, so it gets no credential"),
        hint: None,
    };
    CredentialReport {
        object,
        decision: Decision::Refused(refusal),
        assumptions: Vec::new(),
        operator_condition: vcenter_condition(conditions),
    }
}

fn vcenter_condition(conditions: Option<Vec<Condition>>) -> Option<Condition> {
    find(&conditions.unwrap_or_default(), VCENTER).cloned()
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
        match secrets.get_opt(name).await {
            Ok(found) => {
                let found = found.map(as_secret);
                let says = |secret: &decide::Secret| secret.data.contains_key(SERVER);
                if found.as_ref().is_some_and(|secret| !says(secret)) {
                    self.assume_bound(namespace);
                }
                Ok(found)
            }
            Err(error) if is_forbidden(&error) => {
                // The name of an identity's Secret is not revealed.
                let secret = match namespace {
                    NAMESPACE => "its Secret".to_owned(),
                    _ => format!("Secret {name}"),
                };
                self.assume(
                    format!("you may not read {secret}"),
                    format!("you may not read {what}: whether it has what it needs is not known"),
                );
                let data = REQUIRED.iter();
                let data = data.map(|key| ((*key).to_owned(), Hidden::new("?")));
                Ok(Some(decide::Secret {
                    data: data.collect(),
                    ..decide::Secret::default()
                }))
            }
            Err(source) => Err(ReadError::Failed(Error::Read { what, source })),
        }
    }

    /// Only shared accounts have to name their servers.
    fn assume_bound(&self, namespace: &str) {
        self.note(|notes| {
            if namespace == NAMESPACE && !notes.identity_names_servers {
                notes.assumptions.push(
                    "neither the identity nor its Secret names its servers: only the operator knows its --allowed-server"
                        .to_owned(),
                );
            }
        });
    }

    async fn identity(&self, name: &str) -> Result<Option<decide::Identity>, ReadError> {
        let identities: Api<VSphereClusterIdentity> = Api::all(self.client.clone());
        let what = format!("VSphereClusterIdentity {name}");
        let found = allowed_read(identities.get_opt(name).await, what)?;
        let found = found.map(|found| as_identity(&found, NAMESPACE));
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
            Need::Namespace(name) => {
                let namespaces: Api<Namespace> = Api::all(self.client.clone());
                let what = format!("Namespace {name}");
                let found = allowed_read(namespaces.get_metadata_opt(&name).await, what)?;
                known.namespace = Some(found.map(|found| found.labels().clone()));
            }
            Need::Secret { namespace, name } => {
                known.secret = Some(self.secret(&namespace, &name).await?);
            }
            Need::Operator => {
                self.assume(
                    "you may not read the static credentials of the operator".to_owned(),
                    "only the operator knows whether it has static credentials for such objects, and for which servers".to_owned(),
                );
                let data = REQUIRED.iter();
                let data = data.map(|key| ((*key).to_owned(), Hidden::new("?")));
                known.operator = Some(Some(decide::Static {
                    data: data.collect(),
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
