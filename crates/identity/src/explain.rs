//! Explanations of decisions, step by step, without the contents of credentials.

use std::fmt;

use crate::credential::{Credential, Source};
use crate::decide::{CredentialReader, Identity, Known, Need, Question, Refusal, Step, decide};
use crate::reference::Reference;

/// The course of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What was read, in order, and the results, as sentences without a full stop.
    pub steps: Vec<String>,
    /// The kind of identities, if the provider has one.
    pub identity_kind: Option<&'static str>,
    /// What the operator's own credential is called.
    pub operator_credential: &'static str,
    /// The decision.
    pub decision: Result<Credential, Refusal>,
}

/// Decides like [`resolve`](crate::decide::resolve), and records the steps.
///
/// # Errors
///
/// If a read failed.
pub async fn explain<G: CredentialReader>(
    question: &Question,
    reader: &G,
) -> Result<Explanation, G::Error> {
    let mut known = Known::default();
    let mut steps = vec![describe_references(question)];
    let decision = loop {
        match decide(question, &known) {
            Step::Read(need) => {
                reader.read(need.clone(), &mut known).await?;
                steps.push(describe_read(question, &need, &known));
            }
            Step::Grant(credential) => break Ok(credential),
            Step::Refuse(refusal) => break Err(refusal),
        }
    };
    Ok(Explanation {
        steps,
        identity_kind: question.identity_kind,
        operator_credential: question.operator_credential,
        decision,
    })
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(out, "- {step}")?;
        }
        match &self.decision {
            Ok(credential) => self.write_grant(out, credential),
            Err(refusal) => {
                write!(
                    out,
                    "no credential: {} ({})",
                    refusal.message, refusal.reason
                )?;
                match &refusal.hint {
                    Some(hint) => write!(out, "\nhint: {hint}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Explanation {
    fn write_grant(&self, out: &mut fmt::Formatter<'_>, credential: &Credential) -> fmt::Result {
        let origin = match &credential.source {
            Source::Secret {
                name,
                part: Some(part),
                ..
            } => format!("{part} of Secret {name}"),
            Source::Secret { name, .. } => format!("Secret {name}"),
            Source::Identity { name, lent, .. } => {
                let lender = if *lent { ", lent by the system" } else { "" };
                format!("{} {name}{lender}", kind_of(self.identity_kind))
            }
            Source::Operator => format!("the operator's {}", self.operator_credential),
        };
        write!(out, "credential: {origin}, for {}", credential.endpoint)?;
        if let Some(scope) = &credential.scope {
            write!(out, " in {scope}")?;
        }
        match credential.has_owners_trust {
            true => write!(out, ", where its owner accepts {}", credential.trust),
            false => Ok(()),
        }
    }
}

/// Describes which reference decides.
fn describe_references(question: &Question) -> String {
    let references = &question.references;
    let named = |reference: &Reference| match reference {
        Reference::Secret { name, .. } => format!("Secret {name}"),
        Reference::Identity(name) => format!("{} {name}", kind_of(question.identity_kind)),
    };
    if let Some(own) = &references.own {
        return format!("it references {}, which alone decides", named(own));
    }
    if let Some((parent, reference)) = &references.parent {
        return format!(
            "it references none; {parent} references {}, which alone decides",
            named(reference)
        );
    }
    let operators = question.operator_credential;
    let next = match (&references.namespace, references.operator) {
        (Some(name), true) => format!(
            "Secret {name} of its namespace if it exists, otherwise the operator's {operators}"
        ),
        (Some(name), false) => format!("Secret {name} of its namespace"),
        (None, true) => format!("the operator's {operators}"),
        (None, false) => "none".to_owned(),
    };
    format!("no credential is referenced: it gets {next}")
}

/// Describes the result of a read.
fn describe_read(question: &Question, need: &Need, known: &Known) -> String {
    match need {
        Need::Identity(name) => {
            let name = format!("{} {name}", kind_of(question.identity_kind));
            describe_identity(&name, known.identity.iter().flatten().next())
        }
        // A tenant learns of the system's identities only if it may use them.
        Need::LentIdentity(_) => "the system's identities were looked up".to_owned(),
        Need::Tenant(name) => match known.tenant.iter().flatten().next() {
            None => format!("tenant {name} does not exist"),
            Some(labels) => format!("tenant {name} has the labels {}", list(labels)),
        },
        Need::Namespace(name) => match known.namespace.iter().flatten().next() {
            None => format!("namespace {name} does not exist"),
            Some(labels) => format!("namespace {name} has the labels {}", list(labels)),
        },
        Need::Secret { name, .. } => {
            // Users of an identity must not learn where its Secret is.
            let mut identities = known.identity.iter().chain(&known.lent_identity).flatten();
            let secret_name = match identities.next() {
                Some(_) => "its Secret".to_owned(),
                None => format!("Secret {name}"),
            };
            match known.secret.iter().flatten().next() {
                None => format!("{secret_name} does not exist"),
                Some(secret) if secret.deleting => {
                    format!("{secret_name} is being deleted, and used until then")
                }
                Some(_) => format!("{secret_name} exists"),
            }
        }
        Need::Operator => match known.operator.iter().flatten().next() {
            None => format!(
                "the operator has no {} for it",
                question.operator_credential
            ),
            Some(_) => format!("the operator has {}", question.operator_credential),
        },
    }
}

fn describe_identity(name: &str, identity: Option<&Identity>) -> String {
    match identity {
        None => format!("{name} does not exist"),
        Some(identity) if identity.ready => format!("{name} exists and is ready"),
        Some(_) => format!("{name} exists, but is not ready"),
    }
}

/// Returns the kind of identities.
fn kind_of(kind: Option<&'static str>) -> &'static str {
    kind.unwrap_or("identity")
}

fn list(labels: &std::collections::BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return "none".to_owned();
    }
    let pairs: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(", ")
}
