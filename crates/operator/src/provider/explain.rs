//! Explains which credential an object gets and why, with the rights of the caller.
//!
//! It takes the same steps as the operator. Facts that the caller may not read, or that only the
//! operator knows, are assumed to be in order and reported as assumptions; then the condition
//! that the operator wrote last decides, if there is one.
//!
//! | module | content |
//! |---|---|
//! | `question` | what has to be known about a provider, and the question about an object |
//! | `facts` | the facts that the caller may read, and those that are assumed |
//! | `report` | the explanation, and what it amounts to |

mod facts;
mod question;
mod report;

use std::sync::{Mutex, PoisonError};

use insula_identity::decide::Question;
use insula_identity::explain::explain;
use kube::Client;

use crate::condition::find;
use facts::{FactReader, ReadError};

pub use question::{Asked, Error, Inspect, Objects, find_kind, refused_alone};
pub use report::{CredentialReport, Decision, Verdict};

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
    let assumed = asked.assumptions;
    let report = |decision, assumptions: Vec<String>| CredentialReport {
        object: asked.object,
        decision,
        assumptions: assumed.into_iter().chain(assumptions).collect(),
        settings: asked.settings,
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
