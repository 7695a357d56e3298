//! Tokens of service accounts, which prove workload identities.
//!
//! A Secret of a namespace names a client id, which is no secret. So the proof must be the
//! namespace's own: a token of its service account `aso-workload`, which no other namespace and no
//! other tenant can get.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use insula_identity::credential::Source;
use insula_identity::reason::Reason;
use insula_operator::spaces::client_for;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::entra::assertion::AUDIENCE;
use crate::entra::{Assertion, AssertionError, AssertionFor, Assertions, TokenFile};
use crate::names::WORKLOAD_ACCOUNT;
use crate::settings::WorkloadIdentityMode;

/// How long a token of a service account is valid. It is used once, at once.
const TOKEN_SECONDS: i64 = 3600;

/// The source of assertions of an operator.
pub(super) struct ServiceAccountTokens {
    pub client: Client,
    pub mode: WorkloadIdentityMode,
    /// The token of the operator's own service account.
    pub own: TokenFile,
}

impl Assertions for ServiceAccountTokens {
    fn assertion<'a>(
        &'a self,
        account: &'a AssertionFor,
    ) -> BoxFuture<'a, Result<Assertion, AssertionError>> {
        let namespace = match (&account.source, self.mode) {
            (Source::Secret { namespace, .. }, WorkloadIdentityMode::Strict) => namespace,
            // Another tenant's space never gets a token of the operator.
            (Source::Secret { namespace, .. }, WorkloadIdentityMode::Relaxed)
                if account.space.is_some() =>
            {
                namespace
            }
            _ => return self.own.assertion(account),
        };
        self.request(account.space.as_deref(), namespace).boxed()
    }
}

impl ServiceAccountTokens {
    /// Requests a token of the service account of a namespace.
    async fn request(
        &self,
        space: Option<&str>,
        namespace: &str,
    ) -> Result<Assertion, AssertionError> {
        let client = match space {
            Some(space) => client_for(&self.client, space),
            None => self.client.clone(),
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![AUDIENCE.to_owned()]),
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let created = accounts
            .create_token_request(WORKLOAD_ACCOUNT, &PostParams::default(), &request)
            .await;
        let created = created.map_err(|error| explain(namespace, &error))?;
        let token = created.status.and_then(|status| status.token);
        Assertion::new(&token.unwrap_or_default())
    }
}

/// Returns why there is no token, and what to do about it.
fn explain(namespace: &str, error: &kube::Error) -> AssertionError {
    let code = match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    };
    let account = format!("service account {WORKLOAD_ACCOUNT}");
    let (reason, message) = match code {
        404 => (
            Reason::IdentityNotFound,
            format!(
                "{account} does not exist in namespace {namespace}: create it, and federate its \
                 tokens with the client id"
            ),
        ),
        403 => (
            Reason::Forbidden,
            format!(
                "the operator may not request tokens of {account} in namespace {namespace}: bind \
                 its ClusterRole there"
            ),
        ),
        _ => (
            Reason::Unreachable,
            format!("{account} in namespace {namespace}: {error}"),
        ),
    };
    AssertionError { reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_says_whether_the_account_or_the_right_is_missing() {
        for (code, reason, hint) in [
            (404, Reason::IdentityNotFound, "create it"),
            (403, Reason::Forbidden, "bind its ClusterRole"),
            (500, Reason::Unreachable, "namespace red"),
        ] {
            let status = kube::core::Status::failure("no", "").with_code(code);
            let found = explain("red", &kube::Error::Api(status.boxed()));
            assert_eq!(found.reason, reason, "{code}");
            assert!(found.message.contains(hint), "{}", found.message);
        }
    }
}
