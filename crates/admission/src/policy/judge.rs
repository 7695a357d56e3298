//! What policies say to a request.

use std::collections::BTreeMap;

use insula_kinds::Object;
use serde::Serialize;

use super::{Binding, Policy, Validation};
use crate::condition::{Context, Met};
use crate::evaluation::{self, EXPRESSIONS, Outcome, SPENT};
use crate::refusal::Refusal;
use crate::request::{Request, Subject};
use crate::webhook::FailurePolicy;

/// What all policies together say to a request.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Why it is refused, if it is: in the words of the first.
    pub refusal: Option<Refusal>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// What is noted about the request.
    pub annotations: Vec<(String, String)>,
    /// What the policy that judges wants noted, by key, with each of its bindings.
    collected: BTreeMap<String, Vec<String>>,
    /// What all expressions cost so far.
    spent: u64,
}

/// What all policies together may cost for one request. Kubernetes bounds each of them, but
/// not how many there are.
const REQUEST: u64 = 50_000_000;

/// The longest message that an expression makes, in bytes.
const MESSAGE: usize = 5 << 10;

/// The longest value of an annotation that an expression makes, in bytes.
const ANNOTATION: usize = 10 << 10;

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// What one validation comes to.
struct Decision {
    message: String,
    reason: String,
}

/// What an annotation comes to.
enum Audit<'a> {
    Publish(&'a str, String),
    Failed(String),
}

/// A validation that failed, as it is noted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Noted<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

impl Judgement {
    /// A policy, or what binds it, cannot be used as it is.
    pub fn misconfigured(
        &mut self,
        request: &Request<'_>,
        subject: Subject<'_>,
        policy: &Policy,
        binding: Option<&Binding>,
        why: &str,
    ) {
        if policy.failure == FailurePolicy::Ignore {
            return;
        }
        let what = if binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        let decision = Decision {
            message: format!("failed to configure {what}: {why}"),
            reason: String::new(),
        };
        self.deny(request, subject, policy, binding, &decision);
    }

    /// Asks a policy, bound like this, with these parameters.
    pub fn ask(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        context: &Context<'_>,
        params: Option<&Object>,
    ) {
        let (request, subject) = (context.request, context.subject);
        if self.spent > REQUEST {
            let failed = [(0, policy.failed(SPENT.to_owned()))];
            return self.act(request, subject, policy, binding, failed);
        }
        match policy.conditions.met(context, params, &policy.variables) {
            Met::Yes => {}
            Met::No => return,
            Met::Failed(why) => {
                let failed = [(0, policy.failed(why))];
                return self.act(request, subject, policy, binding, failed);
            }
        }
        let decisions = policy.decide(context, params, &mut self.spent);
        match policy.audit(context, params, &mut self.spent) {
            Ok(audits) => {
                self.act(request, subject, policy, binding, decisions);
                self.note(request, subject, policy, binding, audits);
            }
            Err(why) => {
                let failed = [(0, policy.failed(why))];
                self.act(request, subject, policy, binding, failed);
            }
        }
    }

    /// A policy has been asked with all that binds it.
    pub fn close(&mut self, policy: &Policy) {
        for (key, values) in std::mem::take(&mut self.collected) {
            let key = format!("{}/{key}", policy.name);
            self.annotations.push((key, values.join(", ")));
        }
    }

    /// Does what the binding says about each decision.
    fn act(
        &mut self,
        request: &Request<'_>,
        subject: Subject<'_>,
        policy: &Policy,
        binding: &Binding,
        decisions: impl IntoIterator<Item = (usize, Option<Decision>)>,
    ) {
        for (index, decision) in decisions {
            let Some(decision) = decision else {
                continue;
            };
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => self.deny(request, subject, policy, Some(binding), &decision),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding \
                         '{}': {}",
                        policy.name, binding.name, decision.message
                    )),
                    "Audit" => self.record(policy, binding, index, &decision),
                    _ => {}
                }
            }
        }
    }

    fn deny(
        &mut self,
        request: &Request<'_>,
        subject: Subject<'_>,
        policy: &Policy,
        binding: Option<&Binding>,
        decision: &Decision,
    ) {
        if self.refusal.is_some() {
            return;
        }
        let bound = binding.map(|binding| format!(" with binding '{}'", binding.name));
        let message = format!(
            "ValidatingAdmissionPolicy '{}'{} denied request: {}",
            policy.name,
            bound.unwrap_or_default(),
            decision.message
        );
        let mut refusal = Refusal::forbidden_object(request, subject, &message);
        let reason = match decision.reason.as_str() {
            "" => "Invalid",
            reason => reason,
        };
        refusal.code = match reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        refusal.reason = reason.to_owned();
        self.refusal = Some(refusal.caused_by(&message));
    }

    fn record(&mut self, policy: &Policy, binding: &Binding, index: usize, decision: &Decision) {
        let noted = [Noted {
            message: &decision.message,
            policy: &policy.name,
            binding: &binding.name,
            expression_index: index,
            validation_actions: &binding.actions,
        }];
        // Texts and numbers can always be written.
        let noted = serde_json::to_string(&noted).unwrap_or_default();
        self.annotations.push((FAILURE.to_owned(), noted));
    }

    fn note(
        &mut self,
        request: &Request<'_>,
        subject: Subject<'_>,
        policy: &Policy,
        binding: &Binding,
        audits: Vec<Audit<'_>>,
    ) {
        for audit in audits {
            match audit {
                Audit::Publish(key, value) => {
                    let values = self.collected.entry(key.to_owned()).or_default();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Audit::Failed(message) => {
                    let decision = Decision {
                        message,
                        reason: String::new(),
                    };
                    self.deny(request, subject, policy, Some(binding), &decision);
                }
            }
        }
    }
}

impl Policy {
    /// What becomes of a request about which something cannot be told.
    fn failed(&self, message: String) -> Option<Decision> {
        let decision = Decision {
            message,
            reason: String::new(),
        };
        (self.failure == FailurePolicy::Fail).then_some(decision)
    }

    /// What the validations that do not hold come to, by their place.
    fn decide(
        &self,
        context: &Context<'_>,
        params: Option<&Object>,
        spent: &mut u64,
    ) -> Vec<(usize, Option<Decision>)> {
        let all: Vec<_> = self
            .validations
            .iter()
            .map(|one| Some(&one.expression))
            .collect();
        let activation = context.activation(params);
        let mut left = EXPRESSIONS;
        let outcomes = evaluation::run(&all, &self.variables, activation, &mut left);
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(why) => {
                *spent += EXPRESSIONS;
                return vec![(0, self.failed(why))];
            }
        };
        *spent += EXPRESSIONS - left;
        let holds = |outcome: &Option<_>| matches!(outcome, Some(Ok(Outcome::Bool(true))) | None);
        if outcomes.iter().all(holds) {
            return Vec::new();
        }
        // What is said matters only if something does not hold.
        let says: Vec<_> = self
            .validations
            .iter()
            .map(|one| one.says.as_ref())
            .collect();
        let activation = context.activation(params);
        let messages = evaluation::run(&says, &self.variables, activation, &mut left);
        let decide = |(index, outcome): (usize, Option<Result<Outcome, String>>)| {
            let decision = match (outcome?, &messages) {
                (Err(why), _) => self.failed(why),
                (Ok(_), Err(why)) => self.failed(format!("failed messageExpression: {why}")),
                (Ok(Outcome::Bool(true)), _) => None,
                (Ok(_), Ok(messages)) => {
                    let said = messages.get(index).cloned().flatten();
                    Some(self.validations[index].denial(said))
                }
            };
            Some((index, decision))
        };
        outcomes
            .into_iter()
            .enumerate()
            .filter_map(decide)
            .collect()
    }

    fn audit(
        &self,
        context: &Context<'_>,
        params: Option<&Object>,
        spent: &mut u64,
    ) -> Result<Vec<Audit<'_>>, String> {
        let all: Vec<_> = self.audits.iter().map(|(_, one)| Some(one)).collect();
        let activation = context.activation(params);
        let mut left = EXPRESSIONS;
        let outcomes = evaluation::run(&all, &self.variables, activation, &mut left);
        *spent += EXPRESSIONS - left;
        let outcomes = outcomes?;
        let mut audits = Vec::new();
        for ((key, expression), outcome) in self.audits.iter().zip(outcomes) {
            match outcome {
                Some(Ok(Outcome::Text(text))) if !text.trim().is_empty() => {
                    let text = text.trim();
                    let end = text.floor_char_boundary(ANNOTATION.min(text.len()));
                    audits.push(Audit::Publish(key, text[..end].to_owned()));
                }
                Some(Ok(Outcome::Bool(_))) => {
                    audits.push(Audit::Failed(unsupported(&expression.source, "bool")));
                }
                Some(Ok(Outcome::Other(of))) => {
                    audits.push(Audit::Failed(unsupported(&expression.source, &of)));
                }
                Some(Err(why)) if self.failure == FailurePolicy::Fail => {
                    audits.push(Audit::Failed(why));
                }
                _ => {}
            }
        }
        Ok(audits)
    }
}

impl Validation {
    /// The denial, in the words that were made for it, if they will do; else in those that
    /// were written; else in those of the expression.
    fn denial(&self, said: Option<Result<Outcome, String>>) -> Decision {
        let said = match said {
            Some(Ok(Outcome::Text(text))) => text.trim().to_owned(),
            _ => String::new(),
        };
        let fits = said.len() <= MESSAGE && !said.contains('\n');
        let message = match (said.as_str(), self.message.as_str()) {
            (said, _) if fits && !said.is_empty() => said.to_owned(),
            (_, "") => format!("failed expression: {}", self.expression.source.trim()),
            (_, message) => message.to_owned(),
        };
        Decision {
            message,
            reason: self.reason.clone(),
        }
    }
}

fn unsupported(source: &str, of: &str) -> String {
    format!(
        "valueExpression '{source}' resulted in unsupported return type: {of}. Return type must \
         be either string or null."
    )
}
