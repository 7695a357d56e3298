//! Assertions that take the place of a secret.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use insula_identity::credential::{Hidden, Source};
use insula_identity::reason::Reason;
use insula_identity::session::Key;
use serde_json::Value;

/// The file with the token of the operator's service account, where pods have it.
pub const TOKEN_FILE: &str = "/var/run/secrets/tokens/azure-identity";
/// The audience of tokens that Entra ID exchanges.
pub const AUDIENCE: &str = "api://AzureADTokenExchange";
/// The maximum length of an assertion in bytes.
const MAX_ASSERTION_BYTES: usize = 64 << 10;
/// The maximum length of a claim in a message.
const MAX_CLAIM: usize = 300;

/// The account that an assertion is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionFor {
    /// The tenant's space, or none for the operator's own.
    pub space: Option<Arc<str>>,
    /// The source of the credential, which has the namespace.
    pub source: Source,
}

impl AssertionFor {
    /// Returns the account of a session.
    pub fn of(key: &Key) -> Self {
        Self {
            space: key.space.clone(),
            source: key.source.clone(),
        }
    }
}

/// The token of a Kubernetes service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion(Hidden);

/// Why there is no assertion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no token of a service account for the workload identity: {message}")]
pub struct AssertionError {
    /// The reason that the resource gets.
    pub reason: Reason,
    /// What happened, and what helps.
    pub message: String,
}

impl AssertionError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            reason: Reason::NoCredentials,
            message: message.into(),
        }
    }
}

/// A source of assertions. It is asked each time that a token is requested.
pub trait Assertions: Send + Sync {
    /// Returns an assertion for an account.
    fn assertion<'a>(
        &'a self,
        account: &'a AssertionFor,
    ) -> BoxFuture<'a, Result<Assertion, AssertionError>>;
}

/// Claims of an assertion, for messages. They are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The issuer.
    pub issuer: String,
    /// The subject.
    pub subject: String,
    /// The audience.
    pub audience: String,
}

impl Assertion {
    /// Wraps a token.
    ///
    /// # Errors
    ///
    /// If the text cannot be a token.
    pub fn new(text: &str) -> Result<Self, AssertionError> {
        let text = text.trim();
        let is_token = text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_token && !text.is_empty() && text.len() <= MAX_ASSERTION_BYTES {
            true => Ok(Self(Hidden::new(text))),
            false => Err(AssertionError::new("the text is not a token")),
        }
    }

    /// Returns the token, to be sent.
    pub fn reveal(&self) -> &str {
        self.0.text().unwrap_or_default()
    }

    /// Returns the claims, if the token is a JWT.
    pub fn claims(&self) -> Option<Claims> {
        let payload = self.reveal().split('.').nth(1)?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let payload: Value = serde_json::from_slice(&payload).ok()?;
        let text = |value: &Value| -> Option<String> {
            Some(value.as_str()?.chars().take(MAX_CLAIM).collect())
        };
        let audience = match &payload["aud"] {
            Value::Array(all) => all.first().and_then(text),
            one => text(one),
        };
        Some(Claims {
            issuer: text(&payload["iss"])?,
            subject: text(&payload["sub"])?,
            audience: audience?,
        })
    }
}

/// A file with an assertion, which the kubelet rewrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile(pub PathBuf);

impl Default for TokenFile {
    fn default() -> Self {
        Self(PathBuf::from(TOKEN_FILE))
    }
}

impl Assertions for TokenFile {
    fn assertion<'a>(
        &'a self,
        _: &'a AssertionFor,
    ) -> BoxFuture<'a, Result<Assertion, AssertionError>> {
        let path = self.0.clone();
        Box::pin(async move {
            let shown = path.display().to_string();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
            let failed = |why: String| AssertionError::new(format!("{shown}: {why}"));
            let text = read.map_err(|error| failed(error.to_string()))?;
            Assertion::new(&text.map_err(|error| failed(error.to_string()))?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> AssertionFor {
        AssertionFor {
            space: None,
            source: Source::Operator,
        }
    }

    #[tokio::test]
    async fn token_file_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile(path.clone());
        let missing = file.assertion(&account()).await.unwrap_err().to_string();
        assert!(missing.contains("token: No such file"), "{missing}");
        for text in ["first", "second\n"] {
            std::fs::write(&path, text).unwrap();
            let assertion = file.assertion(&account()).await.unwrap();
            assert_eq!(assertion.reveal(), text.trim());
            assert!(!format!("{assertion:?}").contains(text.trim()));
        }
        std::fs::write(&path, "a b").unwrap();
        assert!(file.assertion(&account()).await.is_err());
        assert!(Assertion::new("").is_err());
        assert!(Assertion::new(&"a".repeat(MAX_ASSERTION_BYTES + 1)).is_err());
    }

    #[test]
    fn claims_are_read_for_messages() {
        let jwt = |payload: &str| {
            let payload = BASE64_URL_SAFE_NO_PAD.encode(payload);
            Assertion::new(&format!("e30.{payload}.x")).unwrap()
        };
        let claims = jwt(r#"{"iss": "i", "sub": "s", "aud": ["a", "b"]}"#).claims();
        let expected = Claims {
            issuer: "i".to_owned(),
            subject: "s".to_owned(),
            audience: "a".to_owned(),
        };
        assert_eq!(claims, Some(expected.clone()));
        assert_eq!(
            jwt(r#"{"iss": "i", "sub": "s", "aud": "a"}"#).claims(),
            Some(expected)
        );
        assert_eq!(jwt("{}").claims(), None);
        assert_eq!(Assertion::new("opaque").unwrap().claims(), None);
    }
}
