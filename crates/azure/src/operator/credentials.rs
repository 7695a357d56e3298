//! Which credential an object gets, and that it never gets a wider one later.

use insula_identity::claim::Hold;
use insula_identity::decide::{Question, Refusal, Target};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Level, Reference};
use insula_identity::shape::Shape;
use insula_operator::read::is_valid_name;

use super::policy::Annotations;
use crate::names::{
    ALLOW_WIDER_CREDENTIAL, CREDENTIAL_FINALIZER, CREDENTIAL_FROM, CREDENTIAL_SCOPE,
    NAMESPACE_CREDENTIAL,
};
use crate::settings::CredentialMode;

/// The scopes, as annotations have them.
const SCOPES: [(Level, &str); 3] = [
    (Level::Object, "resource"),
    (Level::Namespace, "namespace"),
    (Level::Operator, "global"),
];

/// What an operator asks about credentials, for all objects.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Which scopes it uses.
    pub mode: CredentialMode,
    /// What a Secret must contain.
    pub shape: &'static dyn Shape,
    /// The endpoints that Secrets of namespaces may name.
    pub own_bound: AllowedEndpoints,
    /// Whether there is a credential of the operator for objects without a narrower one.
    pub has_own: bool,
}

impl Terms {
    /// Returns the question which credential an object gets.
    ///
    /// # Errors
    ///
    /// If its annotation names no Secret of its namespace, or the operator does not use such.
    pub(crate) fn question(
        &self,
        namespace: &str,
        object: &Annotations,
        of_namespace: &Annotations,
    ) -> Result<Question, Refusal> {
        let own = object.get(CREDENTIAL_FROM).filter(|name| !name.is_empty());
        let own = own.map(|name| self.own_reference(name)).transpose()?;
        let may_use_namespace = self.mode != CredentialMode::Global;
        let references = CredentialReferences {
            own,
            parent: None,
            namespace: may_use_namespace.then(|| NAMESPACE_CREDENTIAL.to_owned()),
            operator: self.mode.uses_operator(),
        };
        Ok(Question {
            namespace: Some(namespace.to_owned()),
            tenant: None,
            references,
            floor: floor(object, of_namespace),
            target: Target::Carried,
            shape: self.shape,
            hold: Hold::Shared {
                finalizer: CREDENTIAL_FINALIZER,
            },
            identity_kind: None,
            operator_credential: "the operator's own credential",
            endpoint_key: None,
            default_port: 443,
            default_bound: AllowedEndpoints::Anywhere,
            own_bound: self.own_bound.clone(),
        })
    }

    fn own_reference(&self, name: &str) -> Result<Reference, Refusal> {
        let refuse = |reason, message: String, hint: &str| Refusal {
            reason,
            message,
            hint: Some(hint.to_owned()),
        };
        if matches!(
            self.mode,
            CredentialMode::Namespace | CredentialMode::Global
        ) {
            return Err(refuse(
                Reason::NoCredentials,
                format!("the operator does not use credentials of single resources ({name:?})"),
                "remove the annotation, or ask the operator's administrator for \
                 AZURE_OPERATOR_AUTH_SOURCE_MODE=fallback",
            ));
        }
        if !is_valid_name(name) {
            return Err(refuse(
                Reason::SecretNotAvailable,
                format!("annotation {CREDENTIAL_FROM}: {name:?} is not the name of a Secret"),
                "the Secret is in the namespace of the resource, and named without a namespace",
            ));
        }
        Ok(Reference::secret(name))
    }
}

/// Returns the widest scope that may decide: that of the credential which the object used last,
/// unless a user allows a wider one.
fn floor(object: &Annotations, of_namespace: &Annotations) -> Level {
    if is_wider_allowed(object, of_namespace) {
        return Level::Operator;
    }
    let used = object.get(CREDENTIAL_SCOPE);
    let used = used.and_then(|used| SCOPES.iter().find(|(_, name)| name == used));
    used.map_or(Level::Operator, |(level, _)| *level)
}

/// Returns whether a user allows an object a credential of a wider scope than it used before.
pub(super) fn is_wider_allowed(object: &Annotations, of_namespace: &Annotations) -> bool {
    let is_allowed = |annotations: &Annotations| {
        let value = annotations.get(ALLOW_WIDER_CREDENTIAL);
        value.is_some_and(|value| value == "true")
    };
    is_allowed(object) || is_allowed(of_namespace)
}

/// Returns the name of the Secret that an object with these annotations refers to.
pub(super) fn secret_name(object: &Annotations) -> &str {
    let own = object.get(CREDENTIAL_FROM).filter(|name| !name.is_empty());
    own.map_or(NAMESPACE_CREDENTIAL, String::as_str)
}

/// Returns the name of a scope for the annotation.
pub(super) fn scope_name(level: Level) -> &'static str {
    let named = SCOPES.iter().find(|(scope, _)| *scope == level);
    named.map_or("global", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use insula_identity::shape::Texts;

    use super::*;

    const SHAPE: Texts = Texts {
        required: &["a"],
        optional: &[],
    };

    fn terms(mode: CredentialMode) -> Terms {
        Terms {
            mode,
            shape: &SHAPE,
            own_bound: AllowedEndpoints::Anywhere,
            has_own: true,
        }
    }

    fn annotated(pairs: &[(&str, &str)]) -> Annotations {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn mode_decides_which_scopes_are_asked() {
        use CredentialMode::{Fallback, Global, Namespace, Resource};
        for (mode, namespace, operator) in [
            (Fallback, true, true),
            (Resource, true, false),
            (Namespace, true, false),
            (Global, false, true),
        ] {
            let none = Annotations::new();
            let question = terms(mode).question("ns", &none, &none).unwrap();
            let references = question.references;
            let asked = references.namespace.as_deref() == Some("aso-credential");
            assert_eq!(
                (asked, references.operator),
                (namespace, operator),
                "{mode:?}"
            );
            assert_eq!(references.own, None);
        }
    }

    #[test]
    fn resource_names_a_secret_of_its_namespace_if_the_mode_allows_it() {
        use CredentialMode::{Fallback, Global, Namespace, Resource};
        let none = Annotations::new();
        for mode in [Fallback, Resource] {
            let named = annotated(&[(CREDENTIAL_FROM, "mine")]);
            let question = terms(mode).question("ns", &named, &none).unwrap();
            assert_eq!(question.references.own, Some(Reference::secret("mine")));
        }
        for (mode, name, reason) in [
            (Fallback, "other/mine", Reason::SecretNotAvailable),
            (Fallback, "../mine", Reason::SecretNotAvailable),
            (Namespace, "mine", Reason::NoCredentials),
            (Global, "mine", Reason::NoCredentials),
        ] {
            let named = annotated(&[(CREDENTIAL_FROM, name)]);
            let refusal = terms(mode).question("ns", &named, &none).unwrap_err();
            assert_eq!(refusal.reason, reason, "{mode:?} {name}");
        }
    }

    #[test]
    fn scope_that_was_used_is_the_widest_unless_a_user_allows_more() {
        let allow = annotated(&[(ALLOW_WIDER_CREDENTIAL, "true")]);
        let none = Annotations::new();
        for (level, name) in SCOPES {
            let used = annotated(&[(CREDENTIAL_SCOPE, name)]);
            assert_eq!(floor(&used, &none), level);
            assert_eq!(floor(&used, &allow), Level::Operator);
            assert_eq!(scope_name(level), name);
        }
        let both = annotated(&[
            (CREDENTIAL_SCOPE, "namespace"),
            (ALLOW_WIDER_CREDENTIAL, "true"),
        ]);
        assert_eq!(floor(&both, &none), Level::Operator);
        assert_eq!(floor(&none, &none), Level::Operator);
    }
}
