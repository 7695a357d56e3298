//! Which of several operators reconciles an object.
//!
//! An operator writes its namespace into an annotation before it does anything else. The write is
//! guarded by the version of the object, so of two operators only one succeeds.
//!
//! A tenant of an Insula may run an operator in its space, in a namespace of the same name as that
//! of the server's operator, which works in all spaces. In tenants' spaces the latter has another
//! name, which no namespace can have.

use std::collections::BTreeMap;

use insula_operator::key::Space;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ready::OVERLAP;
use crate::names::{OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2, SYSTEM_OPERATOR};

/// Returns the name of an operator for objects of a space.
pub(super) fn operator_name(namespace: &str, space: &Space) -> String {
    match space {
        None => namespace.to_owned(),
        Some(_) => format!("{SYSTEM_OPERATOR}{namespace}"),
    }
}

/// The operator that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is this one.
    Own,
    /// There is none yet: these annotations claim the object.
    Free(Value),
    /// It is the operator of this namespace.
    Other(String),
}

/// Returns the operator that an object with these annotations belongs to. Both names of the
/// annotation count, because an operator that knows only one of them may be another one.
pub(super) fn claim(annotations: &BTreeMap<String, String>, own: &str) -> Claim {
    let names = [OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2];
    let claims = names.map(|name| annotations.get(name).map_or("", String::as_str));
    let other = claims
        .iter()
        .find(|claim| !claim.is_empty() && **claim != own);
    match other {
        Some(other) => Claim::Other((*other).to_owned()),
        None if claims.iter().all(|claim| *claim == own) => Claim::Own,
        None => Claim::Free(json!({OPERATOR_NAMESPACE: own, OPERATOR_NAMESPACE_V2: own})),
    }
}

/// Returns the message about two operators that are to reconcile one object.
pub(super) fn overlap(own: &str, other: &str) -> String {
    format!("Operators in {own:?} and {other:?} are both configured to manage this resource")
}

/// How long the condition about another operator stays. The claimant removes it then, and the other
/// operator writes it again if it still is configured for the object.
const OVERLAP_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// Returns whether the claimant of an object removes the condition about another operator: it wrote
/// the condition itself before the object was its own, or the condition is old. Otherwise the two
/// operators would undo each other's writes for ever.
pub(super) fn has_overlap_ended(status: &Value, own: &str, now: Timestamp) -> bool {
    let Some(condition) = condition(status) else {
        return false;
    };
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    let is_own = text("message").starts_with(&format!("Operators in {own:?} and "));
    let since = text("lastTransitionTime").parse::<Timestamp>();
    let is_old = since.map_or(true, |since| now.duration_since(since) > OVERLAP_LIFETIME);
    is_own || is_old
}

/// Returns whether a status has this message about another operator.
pub(super) fn is_reported(status: &Value, message: &str) -> bool {
    condition(status).is_some_and(|condition| condition["message"] == message)
}

fn condition(status: &Value) -> Option<&Value> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == OVERLAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claimant_removes_the_condition_that_is_its_own_or_old() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        for (own, other, since, expected) in [
            ("a", "b", "2026-01-01T11:30:00Z", true),
            ("b", "a", "2026-01-01T11:30:00Z", false),
            ("b", "a", "2026-01-01T10:59:59Z", true),
            ("b", "a", "", true),
        ] {
            let message = overlap(own, other);
            let status = json!({"conditions": [
                {"type": "Ready"},
                {"type": OVERLAP, "message": message, "lastTransitionTime": since},
            ]});
            assert_eq!(
                has_overlap_ended(&status, "a", now),
                expected,
                "{own} {since}"
            );
            assert!(is_reported(&status, &message));
            assert!(!is_reported(&status, "another"));
        }
        assert!(!has_overlap_ended(&json!({"conditions": []}), "a", now));
    }

    #[test]
    fn object_belongs_to_the_operator_that_claimed_it_under_either_name() {
        let free = Claim::Free(json!({OPERATOR_NAMESPACE: "a", OPERATOR_NAMESPACE_V2: "a"}));
        let other = || Claim::Other("b".to_owned());
        for (v1, v2, expected) in [
            (None, None, free.clone()),
            (Some(""), None, free.clone()),
            (Some("a"), None, free.clone()),
            (None, Some("a"), free),
            (Some("a"), Some("a"), Claim::Own),
            (Some("b"), None, other()),
            (None, Some("b"), other()),
            (Some("a"), Some("b"), other()),
            (Some("b"), Some("a"), other()),
        ] {
            let given = [(OPERATOR_NAMESPACE, v1), (OPERATOR_NAMESPACE_V2, v2)];
            let given = given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
            assert_eq!(claim(&given.collect(), "a"), expected, "{v1:?} {v2:?}");
        }
    }

    #[test]
    fn operator_of_the_system_has_another_name_in_the_spaces_of_tenants() {
        assert_eq!(operator_name("a-system", &None), "a-system");
        let name = operator_name("a-system", &Some("red".into()));
        assert_eq!(name, "system/a-system");
        let annotations = [(OPERATOR_NAMESPACE.to_owned(), "a-system".to_owned())];
        let expected = Claim::Other("a-system".to_owned());
        assert_eq!(claim(&annotations.into(), &name), expected);
    }

    #[test]
    fn overlap_names_both_operators() {
        let expected = "Operators in \"a\" and \"b\" are both configured to manage this resource";
        assert_eq!(overlap("a", "b"), expected);
    }
}
