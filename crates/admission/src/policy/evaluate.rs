//! Evaluation of policies for one request.

use std::collections::BTreeMap;

use insula_kinds::Object;
use serde::Serialize;

use super::{Binding, Policy, Validation};
use crate::condition::{Context, MatchResult};
use crate::evaluation::{self, BUDGET_EXHAUSTED, EXPRESSIONS_COST_BUDGET, Outcome};
use crate::refusal::Refusal;
use crate::request::{Request, VersionedObjects};
use crate::webhook::FailurePolicy;

/// The combined result of all policies for one request.
#[derive(Debug, Default)]
pub struct PolicyDecision {
    /// The rejection by the first policy that denied the request.
    pub refusal: Option<Refusal>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Audit annotations.
    pub annotations: Vec<(String, String)>,
    /// Audit annotations of the current policy by key, collected over its bindings.
    collected: BTreeMap<String, Vec<String>>,
    /// The evaluation cost of all expressions so far.
    spent: u64,
}

/// Cost budget of all policies for one request. Kubernetes limits each policy, but not their
/// number.
const REQUEST_COST_BUDGET: u64 = 50_000_000;

/// Maximum length of an evaluated message, in bytes.
const MAX_MESSAGE_BYTES: usize = 5 << 10;

/// Maximum length of an evaluated audit annotation, in bytes.
const MAX_ANNOTATION_BYTES: usize = 10 << 10;

const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A failed validation.
struct FailedValidation {
    message: String,
    reason: String,
}

/// The result of an audit annotation.
enum Audit<'a> {
    Publish(&'a str, String),
    Failed(String),
}

/// A failed validation in the form of its audit annotation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidationFailure<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

impl PolicyDecision {
    /// Records that a policy or binding cannot be used as configured.
    pub fn record_misconfiguration(
        &mut self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
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
        let decision = FailedValidation {
            message: format!("failed to configure {what}: {why}"),
            reason: String::new(),
        };
        self.deny(request, subject, policy, binding, &decision);
    }

    /// Evaluates a policy for one binding and its parameters.
    pub fn evaluate(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        context: &Context<'_>,
        params: Option<&Object>,
    ) {
        let (request, subject) = (context.request, context.subject);
        if self.spent > REQUEST_COST_BUDGET {
            let failed = [(0, policy.failed(BUDGET_EXHAUSTED.to_owned()))];
            return self.apply_actions(request, subject, policy, binding, failed);
        }
        match policy
            .conditions
            .evaluate(context, params, &policy.variables)
        {
            MatchResult::Match => {}
            MatchResult::NoMatch => return,
            MatchResult::Failed(why) => {
                let failed = [(0, policy.failed(why))];
                return self.apply_actions(request, subject, policy, binding, failed);
            }
        }
        let decisions = policy.decide(context, params, &mut self.spent);
        match policy.audit(context, params, &mut self.spent) {
            Ok(audits) => {
                self.apply_actions(request, subject, policy, binding, decisions);
                self.collect_audits(request, subject, policy, binding, audits);
            }
            Err(why) => {
                let failed = [(0, policy.failed(why))];
                self.apply_actions(request, subject, policy, binding, failed);
            }
        }
    }

    /// Completes a policy after all its bindings were evaluated.
    pub fn finish(&mut self, policy: &Policy) {
        for (key, values) in std::mem::take(&mut self.collected) {
            let key = format!("{}/{key}", policy.name);
            self.annotations.push((key, values.join(", ")));
        }
    }

    /// Applies the binding's actions to each failed validation.
    fn apply_actions(
        &mut self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        policy: &Policy,
        binding: &Binding,
        decisions: impl IntoIterator<Item = (usize, Option<FailedValidation>)>,
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
                    "Audit" => self.record_failure(policy, binding, index, &decision),
                    _ => {}
                }
            }
        }
    }

    fn deny(
        &mut self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        policy: &Policy,
        binding: Option<&Binding>,
        decision: &FailedValidation,
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

    fn record_failure(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        index: usize,
        decision: &FailedValidation,
    ) {
        let failure = [ValidationFailure {
            message: &decision.message,
            policy: &policy.name,
            binding: &binding.name,
            expression_index: index,
            validation_actions: &binding.actions,
        }];
        // Serialization cannot fail: there are only strings and numbers.
        let failure = serde_json::to_string(&failure).unwrap_or_default();
        self.annotations
            .push((FAILURE_ANNOTATION.to_owned(), failure));
    }

    fn collect_audits(
        &mut self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
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
                    let decision = FailedValidation {
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
    /// The result if an evaluation fails, according to the failure policy.
    fn failed(&self, message: String) -> Option<FailedValidation> {
        let decision = FailedValidation {
            message,
            reason: String::new(),
        };
        (self.failure == FailurePolicy::Fail).then_some(decision)
    }

    /// Evaluates the validations, and returns the failed ones with their indexes.
    fn decide(
        &self,
        context: &Context<'_>,
        params: Option<&Object>,
        spent: &mut u64,
    ) -> Vec<(usize, Option<FailedValidation>)> {
        let all: Vec<_> = self
            .validations
            .iter()
            .map(|one| Some(&one.expression))
            .collect();
        let activation = context.activation(params);
        let mut left = EXPRESSIONS_COST_BUDGET;
        let outcomes = evaluation::evaluate_all(&all, &self.variables, activation, &mut left);
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(why) => {
                *spent += EXPRESSIONS_COST_BUDGET;
                return vec![(0, self.failed(why))];
            }
        };
        *spent += EXPRESSIONS_COST_BUDGET - left;
        let holds = |outcome: &Option<_>| matches!(outcome, Some(Ok(Outcome::Bool(true))) | None);
        if outcomes.iter().all(holds) {
            return Vec::new();
        }
        // Messages are only evaluated if a validation failed.
        let expressions: Vec<_> = self
            .validations
            .iter()
            .map(|one| one.message_expression.as_ref())
            .collect();
        let activation = context.activation(params);
        let messages =
            evaluation::evaluate_all(&expressions, &self.variables, activation, &mut left);
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
        let mut left = EXPRESSIONS_COST_BUDGET;
        let outcomes = evaluation::evaluate_all(&all, &self.variables, activation, &mut left);
        *spent += EXPRESSIONS_COST_BUDGET - left;
        let outcomes = outcomes?;
        let mut audits = Vec::new();
        for ((key, expression), outcome) in self.audits.iter().zip(outcomes) {
            match outcome {
                Some(Ok(Outcome::Text(text))) if !text.trim().is_empty() => {
                    let text = text.trim();
                    let end = text.floor_char_boundary(MAX_ANNOTATION_BYTES.min(text.len()));
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
    /// Builds a denial from the evaluated message if it is usable, otherwise from the static
    /// message, otherwise from the expression.
    fn denial(&self, said: Option<Result<Outcome, String>>) -> FailedValidation {
        let said = match said {
            Some(Ok(Outcome::Text(text))) => text.trim().to_owned(),
            _ => String::new(),
        };
        let fits = said.len() <= MAX_MESSAGE_BYTES && !said.contains('\n');
        let message = match (said.as_str(), self.message.as_str()) {
            (said, _) if fits && !said.is_empty() => said.to_owned(),
            (_, "") => format!("failed expression: {}", self.expression.source.trim()),
            (_, message) => message.to_owned(),
        };
        FailedValidation {
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
