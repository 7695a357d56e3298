//! Sessions: a client for the subscription of one credential.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::header::HeaderValue;
use insula_identity::credential::{Credential, Source};
use insula_identity::endpoint::Trust;
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use insula_operator::outbound::HttpClients;

use super::client::Client;
use super::throttle::{LimitNames, ObserveLimits};
use crate::entra::account::{Account, NotAnAccount, Proof};
use crate::entra::assertion::{AssertionFor, Assertions};
use crate::entra::base_url::{BaseUrl, Cleartext};
use crate::entra::certificate::{ClientCertificate, InvalidCertificate};
use crate::entra::metadata_service::MetadataRequest;
use crate::entra::token_request::{RequestProof, TokenRequest};
use crate::entra::{TokenError, Tokens};

/// The timeout of a request to ARM.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a request for a token with all its attempts. The pool of sessions must allow a
/// login more than this, because it takes a login that it gives up for a failure of ARM.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(8);

/// A session with a subscription.
pub struct Session {
    client: Client,
    subscription: String,
}

impl Session {
    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the names of what limits its requests.
    pub fn limits(&self) -> &LimitNames {
        &self.client.limits
    }

    /// Returns the subscription of the credential.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Session")
            .field("server", &self.client.server.to_string())
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}

/// Opens sessions with subscriptions.
#[derive(Clone)]
pub struct Subscriptions {
    /// The clients of ARM and of authorities, with the rules for addresses that tenants choose.
    pub clients: HttpClients,
    /// The source of assertions for workload identities.
    pub assertions: Arc<dyn Assertions>,
    /// The metadata service for managed identities.
    pub metadata_service: BaseUrl,
    /// The value of `User-Agent`.
    pub user_agent: HeaderValue,
    /// The endpoints that may be without TLS.
    pub cleartext: Cleartext,
    /// The recipient of what responses of ARM say about limits.
    pub observer: Arc<dyn ObserveLimits>,
    /// The timeout of a request to ARM, usually [`REQUEST_TIMEOUT`].
    pub request_timeout: Duration,
    /// The timeout of a request for a token, usually [`TOKEN_TIMEOUT`].
    pub token_timeout: Duration,
}

impl Subscriptions {
    /// Creates a session with an account of this program itself, without any request.
    ///
    /// # Errors
    ///
    /// If the account's certificate cannot be used.
    pub async fn open_own(&self, account: Account) -> Result<Session, TokenError> {
        let assertion = AssertionFor {
            space: None,
            source: Source::Operator,
        };
        self.open(&Trust::Verified, assertion, account).await
    }

    /// Creates a session without any request. A certificate is decrypted, which takes up to a
    /// second.
    async fn open(
        &self,
        trust: &Trust,
        assertion: AssertionFor,
        account: Account,
    ) -> Result<Session, TokenError> {
        let (tokens, auxiliary) = self.tokens(assertion, &account).await?;
        let server = account.cloud.resource_manager.clone();
        let http = server.client(&self.clients, trust);
        let http = http.map_err(|error| TokenError::Unreachable {
            server: server.to_string(),
            why: error.to_string(),
        })?;
        let limits = LimitNames {
            own: limit_name(&[
                &server.to_string(),
                &account.tenant,
                &account.client_id,
                &account.subscription,
            ]),
            // A server that a tenant chooses says nothing about the subscriptions of another one.
            shared: limit_name(&[&server.to_string(), &account.subscription]),
        };
        let client = Client {
            server,
            http,
            tokens,
            auxiliary,
            user_agent: self.user_agent.clone(),
            timeout: self.request_timeout,
            limits,
            observer: Arc::clone(&self.observer),
            is_accepted: AtomicBool::new(false),
        };
        Ok(Session {
            client,
            subscription: account.subscription,
        })
    }

    /// Returns the tokens of an account, and those in further tenants.
    async fn tokens(
        &self,
        assertion: AssertionFor,
        account: &Account,
    ) -> Result<(Tokens, Vec<Tokens>), TokenError> {
        let proof = match &account.proof {
            // Managed identities are of one tenant.
            Proof::ManagedIdentity => return Ok((self.managed_identity(account)?, Vec::new())),
            Proof::Secret(secret) => RequestProof::Secret(secret.clone()),
            Proof::WorkloadIdentity => {
                RequestProof::Assertion(Arc::clone(&self.assertions), assertion)
            }
            Proof::Certificate(file, password) => {
                let (file, password) = (file.clone(), password.clone());
                let parsed = tokio::task::spawn_blocking(move || {
                    ClientCertificate::parse(file.reveal(), password.as_ref())
                });
                let parsed = parsed.await.unwrap_or(Err(InvalidCertificate::Damaged))?;
                RequestProof::Certificate(Arc::new(parsed))
            }
        };
        let authority = &account.cloud.authority;
        let http = authority.client(&self.clients, &Trust::Verified);
        let http = Arc::new(http.map_err(|error| TokenError::Unreachable {
            server: authority.to_string(),
            why: error.to_string(),
        })?);
        let of_tenant = |tenant: &String| {
            let request = TokenRequest {
                http: Arc::clone(&http),
                cloud: account.cloud.clone(),
                tenant: tenant.clone(),
                client_id: account.client_id.clone(),
                proof: proof.clone(),
                timeout: self.token_timeout,
            };
            Tokens::new(request, self.token_timeout)
        };
        let auxiliary = account.additional_tenants.iter().map(of_tenant).collect();
        Ok((of_tenant(&account.tenant), auxiliary))
    }

    fn managed_identity(&self, account: &Account) -> Result<Tokens, TokenError> {
        let service = &self.metadata_service;
        let http = service.client(&self.clients, &Trust::Verified);
        let http = http.map_err(|error| TokenError::Unreachable {
            server: service.to_string(),
            why: error.to_string(),
        })?;
        let request = MetadataRequest {
            http,
            service: service.clone(),
            client_id: account.client_id.clone(),
            audience: account.cloud.audience.clone(),
            timeout: self.token_timeout,
        };
        Ok(Tokens::new(request, self.token_timeout))
    }
}

fn limit_name(parts: &[&String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
    parts.join(" ")
}

impl Session {
    /// Obtains all tokens that a request needs.
    async fn obtain_tokens(&self) -> Result<(), TokenError> {
        let all = std::iter::once(&self.client.tokens).chain(&self.client.auxiliary);
        try_join_all(all.map(Tokens::get)).await.map(drop)
    }
}

impl Connector for Subscriptions {
    type Session = Session;

    /// Obtains the first token. ARM is not called.
    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<Session, LoginError> {
        let account = Account::of_content(&credential.content, self.cleartext);
        let account = account.map_err(|NotAnAccount| LoginError {
            reason: Reason::InvalidCredentials,
            message: NotAnAccount.to_string(),
            answered: true,
        })?;
        // The bounds of the credential were decided for this endpoint.
        if *account.cloud.resource_manager.endpoint() != key.endpoint {
            return Err(LoginError {
                reason: Reason::InvalidCredentials,
                message: "the credential is for another endpoint of ARM".to_owned(),
                answered: true,
            });
        }
        // The machine is the operator's, and a tenant must not act as the operator.
        if account.proof == Proof::ManagedIdentity && key.space.is_some() {
            return Err(LoginError {
                reason: Reason::InvalidCredentials,
                message: "managed identities of the operator's machine may not be used".to_owned(),
                answered: true,
            });
        }
        let assertion = AssertionFor::of(key);
        let session = self.open(&key.trust, assertion, account).await;
        let session = session.map_err(TokenError::into_login_error)?;
        let obtained = session.obtain_tokens().await;
        obtained.map_err(TokenError::into_login_error)?;
        Ok(session)
    }

    /// Returns whether there is a valid token, which is renewed if it is not.
    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.obtain_tokens().await {
            Ok(()) => Ok(true),
            Err(error) if error.is_refusal() => Ok(false),
            Err(error) => Err(error.into_login_error()),
        }
    }

    /// Does nothing: a token cannot be returned.
    async fn log_out(&self, _: &Session) {}
}

#[cfg(test)]
mod tests;
