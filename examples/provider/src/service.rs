//! The client of the DNS service: `GET /account` checks a token, `PUT` and `DELETE`
//! `/records/NAME` write a record.

use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use insula_identity::credential::{Credential, Hidden};
use insula_identity::reason::Reason;
use insula_identity::session::{Connector, Key, LoginError};
use insula_operator::outbound::{HttpClient, HttpClients, RequestOptions};

/// The timeout of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Opens sessions at DNS services.
pub struct Services(pub HttpClients);

/// A session: a token that was checked.
pub struct Session {
    client: HttpClient,
    token: Hidden,
}

impl Connector for Services {
    type Session = Session;

    async fn log_in(&self, key: &Key, credential: &Credential) -> Result<Session, LoginError> {
        let client = self.0.client(&key.endpoint, &key.trust);
        let session = Session {
            client: client.map_err(|error| error.into_login_error(&key.endpoint))?,
            token: credential.content["token"].clone(),
        };
        session.call("GET", "/account", "").await?;
        Ok(session)
    }

    async fn is_alive(&self, session: &Session) -> Result<bool, LoginError> {
        match session.call("GET", "/account", "").await {
            Err(error) if error.reason == Reason::InvalidCredentials => Ok(false),
            called => called.map(|()| true),
        }
    }

    async fn log_out(&self, _: &Session) {}
}

impl Session {
    /// Writes a record.
    pub(crate) async fn put(&self, name: &str, address: &str) -> Result<(), LoginError> {
        self.call("PUT", &format!("/records/{name}"), address).await
    }

    /// Deletes a record; one that does not exist is no error.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), LoginError> {
        self.call("DELETE", &format!("/records/{name}"), "").await
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> Result<(), LoginError> {
        let token = self.token.text().unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .body(body.to_owned());
        let called = async {
            let options = RequestOptions::new(TIMEOUT);
            self.client.send(request?, options).await?.success()
        };
        let called = called.await.map(drop);
        called.map_err(|error| error.into_login_error(self.client.endpoint()))
    }
}
