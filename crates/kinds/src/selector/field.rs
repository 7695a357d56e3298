//! Field selectors, and the field values that they compare.

use std::borrow::Cow;

use serde_json::Value;

use crate::{Kind, Object};
use insula_gotext::quote;

/// A field selector: requirements that an object must all meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field name as [`field_value`] knows it.
    pub field: String,
    /// The operator.
    pub operator: FieldOperator,
    /// The value.
    pub value: String,
}

/// The operator of a field requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `=` or `==`
    Equals,
    /// `!=`
    NotEquals,
}

impl FieldSelector {
    /// Parses a selector such as `metadata.name=a,status.phase!=Running`. The error is a
    /// message for the client.
    pub fn parse(kind: &Kind, text: &str) -> Result<Self, String> {
        let mut terms = terms(text);
        // Kubernetes sorts before it parses, which determines the first error.
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split(term) else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                ));
            };
            let value = unescape(value)?;
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                operator,
                value,
            });
        }
        for requirement in &mut requirements {
            requirement.field = known(kind, &requirement.field)?;
        }
        Ok(Self { requirements })
    }

    /// Whether the selector matches everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether the values that `value` returns by field meet all requirements.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = value(&requirement.field) == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// Whether the object meets all requirements.
    pub fn matches_object(&self, kind: &Kind, object: &Object) -> bool {
        self.matches(|field| field_value(kind, object, field).into())
    }

    /// Returns the name that the selector requires, if any.
    pub fn name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// Returns the namespace that the selector requires, if any.
    pub fn namespace(&self) -> Option<&str> {
        self.exact("metadata.namespace")
    }

    /// Returns the value that the selector requires of the field, if any.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let mut exact = self.requirements.iter().filter(|requirement| {
            requirement.field == field && requirement.operator == FieldOperator::Equals
        });
        exact.next().map(|requirement| requirement.value.as_str())
    }
}

/// Returns the value of a selectable field; empty if there is none.
pub fn field_value(kind: &Kind, object: &Object, field: &str) -> String {
    let of = |path: &str| find(object, path);
    match (kind.kind.as_str(), field) {
        _ if kind.is_custom() => print(of(field)),
        (_, "metadata.name" | "metadata.namespace" | "metadata.tenant") => print(of(field)),
        ("Tenant", "name") => print(of("metadata.name")),
        ("Pod", "spec.hostNetwork") | ("Node", "spec.unschedulable") => or(of(field), "false"),
        ("Pod", "status.podIP") => {
            let first = of("status.podIPs").and_then(|ips| ips.get(0)?.get("ip"));
            print(first.or_else(|| of("status.podIP")))
        }
        // Kubernetes accepts the selector but has no value for it, as a list is not a
        // string.
        ("Pod", "status.podIPs") => String::new(),
        ("Job", "status.successful") => or(of("status.succeeded"), "0"),
        ("ReplicationController", "status.replicas") => or(of(field), "0"),
        ("Event", _) => event_value(object, field),
        _ => print(of(field)),
    }
}

/// Returns the value of an Event field. Events are stored in one group's form and served
/// in two, so the object may have either.
fn event_value(object: &Object, field: &str) -> String {
    let either = |a: &str, b: &str| {
        let a = print(find(object, a));
        if a.is_empty() {
            print(find(object, b))
        } else {
            a
        }
    };
    let reporter = || either("reportingComponent", "reportingController");
    match field {
        "reportingComponent" => reporter(),
        "source" => {
            let source = either("source.component", "deprecatedSource.component");
            if source.is_empty() {
                reporter()
            } else {
                source
            }
        }
        _ => match field.strip_prefix("involvedObject.") {
            Some(rest) => either(field, &format!("regarding.{rest}")),
            None => print(find(object, field)),
        },
    }
}

/// Returns the field's name as [`field_value`] knows it.
fn known(kind: &Kind, field: &str) -> Result<String, String> {
    let default = ["metadata.name", "metadata.namespace"];
    let listed = if kind.field_selectors.is_empty() {
        default.contains(&field)
    } else {
        kind.field_selectors.iter().any(|known| known == field)
    };
    if !listed && field != "metadata.tenant" {
        return Err(unknown(kind, field));
    }
    Ok(match (kind.kind.as_str(), field) {
        _ if kind.is_custom() => field.to_owned(),
        ("Pod", "spec.host") => "spec.nodeName".to_owned(),
        ("Tenant", "name") => "metadata.name".to_owned(),
        ("Event", "reportingController") => "reportingComponent".to_owned(),
        ("Event", _) => match field.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None => field.to_owned(),
        },
        _ => field.to_owned(),
    })
}

fn unknown(kind: &Kind, field: &str) -> String {
    match (kind.group.as_str(), kind.kind.as_str()) {
        _ if kind.is_custom() => format!("field label not supported: {field}"),
        ("batch", "Job") => format!("field label {} not supported for Job", quote(field)),
        ("resource.k8s.io", "ResourceSlice") => format!(
            "field label not supported for {}, Kind=ResourceSlice: {field}",
            kind.api_version()
        ),
        (
            "",
            "Pod"
            | "Node"
            | "ReplicationController"
            | "Event"
            | "Namespace"
            | "Secret"
            | "Service"
            | "Tenant",
        )
        | ("events.k8s.io", "Event")
        | ("certificates.k8s.io", "CertificateSigningRequest") => {
            format!("field label not supported: {field}")
        }
        _ => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(field)
        ),
    }
}

/// Splits at commas that no backslash precedes.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split(term: &str) -> Option<(&str, FieldOperator, &str)> {
    // The first `=` belongs to the operator, whichever it is.
    let at = term.find('=')?;
    let (field, value) = (&term[..at], &term[at + 1..]);
    Some(match field.strip_suffix('!') {
        Some(field) => (field, FieldOperator::NotEquals, value),
        None => (
            field,
            FieldOperator::Equals,
            value.strip_prefix('=').unwrap_or(value),
        ),
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
            },
            // Go prints the character as a number.
            ',' | '=' => {
                let number = u32::from(letter);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {number}"
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

fn find<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn print(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => scalar.to_string(),
        _ => String::new(),
    }
}

fn or(value: Option<&Value>, default: &str) -> String {
    let text = print(value);
    if text.is_empty() {
        default.to_owned()
    } else {
        text
    }
}
