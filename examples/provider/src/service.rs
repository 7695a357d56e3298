//! The client of the DNS service: `GET /account` checks a token, `PUT` and `DELETE`
//! `/records/NAME` write a record.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use insula_identity::credential::{Credential, Hidden};
use insula_identity::endpoint::Endpoint;
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};

/// Opens sessions at DNS services.
#[derive(Clone, Debug)]
pub struct Services {
    http: Client<HttpConnector, Full<Bytes>>,
}

/// A session: a token that was checked.
#[derive(Debug)]
pub struct Session {
    http: Client<HttpConnector, Full<Bytes>>,
    endpoint: Endpoint,
    token: Hidden,
}

impl Default for Services {
    fn default() -> Self {
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { http }
    }
}

impl Connector for Services {
    type Session = Session;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<Session, LoginError> {
        let session = Session {
            http: self.http.clone(),
            endpoint: key.endpoint.clone(),
            token: credential.content["token"].clone(),
        };
        session.call(Method::GET, "/account", "").await?;
        Ok(session)
    }

    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.call(Method::GET, "/account", "").await {
            Err(error) if error.reason == Reason::InvalidCredentials => Ok(false),
            called => called.map(|()| true),
        }
    }

    async fn log_out(&self, _: &Session) {}
}

impl Session {
    /// Writes a record.
    ///
    /// # Errors
    ///
    /// If the service does not answer or refuses it.
    pub async fn put(&self, name: &str, address: &str) -> Result<(), LoginError> {
        let path = format!("/records/{name}");
        self.call(Method::PUT, &path, address).await
    }

    /// Deletes a record; one that does not exist is no error.
    ///
    /// # Errors
    ///
    /// If the service does not answer or refuses it.
    pub async fn delete(&self, name: &str) -> Result<(), LoginError> {
        self.call(Method::DELETE, &format!("/records/{name}"), "")
            .await
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> Result<(), LoginError> {
        let failed = |reason, answered, message: String| LoginError {
            reason,
            message,
            answered,
        };
        let place = &self.endpoint;
        let unreachable = |why: &dyn std::fmt::Display| {
            let message = format!("{place} does not answer: {why}");
            failed(Reason::Unreachable, false, message)
        };
        let token = self.token.text().unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{place}{path}"))
            .header("authorization", format!("Bearer {token}"))
            .body(Full::from(body.to_owned()))
            .map_err(|error| unreachable(&error))?;
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            StatusCode::UNAUTHORIZED => Err(failed(
                Reason::InvalidCredentials,
                true,
                format!("{place} does not know the token"),
            )),
            StatusCode::FORBIDDEN => Err(failed(
                Reason::Forbidden,
                true,
                format!("{place} permits the account no write of {path}"),
            )),
            status => Err(unreachable(&status)),
        }
    }
}
