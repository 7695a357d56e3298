//! What an operator shows the server: a certificate that is made in memory, holds for a
//! short time, and is replaced before it ends.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use insula_access::{Authority, Subject, Validity};
use insula_core::Space;
use insula_operator::agent::introduce;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower::{BoxError, service_fn};

use crate::failure::Failure;

/// How an operator comes to the server it runs beside.
pub struct Pass {
    /// What makes certificates that the server believes.
    pub authority: Arc<Authority>,
    /// Where this machine reaches the server.
    pub url: Uri,
    /// What the server is called there.
    pub server_name: String,
    /// Whom to believe that it is the server, in DER.
    pub roots: Vec<Vec<u8>>,
    /// How long a certificate lasts.
    pub lasts: Duration,
}

/// Nothing that is only in memory needs to hold for longer.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Pass {
    /// A client for a user of the system, and what keeps it good; that goes on for ever.
    pub fn connect(
        self,
        user: &str,
        groups: &[String],
        agent: &'static str,
    ) -> Result<(Client, impl Future<Output = ()> + use<>), Failure> {
        let subject = Subject {
            user: user.to_owned(),
            groups: groups.to_vec(),
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let first = self.client(&subject, agent, SystemTime::now())?;
        let current = Arc::new(RwLock::new(first));
        let client = through(Arc::clone(&current));
        Ok((client, self.renew(subject, agent, current)))
    }

    /// Replaces what is shown when two thirds of its time are over.
    async fn renew(self, subject: Subject, agent: &'static str, current: Arc<RwLock<Client>>) {
        let mut pause = self.lasts * 2 / 3;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.client(&subject, agent, SystemTime::now()) {
                Ok(next) => {
                    *current.write().unwrap_or_else(PoisonError::into_inner) = next;
                    self.lasts * 2 / 3
                }
                Err(error) => {
                    tracing::warn!(%error, "the operator's certificate cannot be renewed");
                    self.lasts / 30
                }
            };
        }
    }

    fn client(
        &self,
        subject: &Subject,
        agent: &'static str,
        now: SystemTime,
    ) -> Result<Client, Failure> {
        let attempted = "cannot make a certificate for an operator";
        let key = KeyPair::generate().map_err(|error| Failure::new(attempted, error))?;
        let validity = Validity::starting(now, self.lasts);
        let certificate = self.authority.issue_client(subject, &key, validity);
        let certificate = certificate.map_err(|error| Failure::new(attempted, error))?;
        let mut config = Config::new(self.url.clone());
        config.root_cert = Some(self.roots.clone());
        config.tls_server_name = Some(self.server_name.clone());
        config.auth_info = AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(key.serialize_pem()).into()),
            ..AuthInfo::default()
        };
        introduce(&mut config, agent);
        let client = Client::try_from(config);
        client.map_err(|error| Failure::new("cannot connect an operator", error))
    }
}

/// A client whose every request goes through the one of now.
fn through(current: Arc<RwLock<Client>>) -> Client {
    let service = service_fn(move |request: http::Request<Body>| {
        let now = current.read().unwrap_or_else(PoisonError::into_inner);
        let now = now.clone();
        async move { Ok::<_, BoxError>(now.send(request).await?) }
    });
    Client::new(service, "default")
}

/// The certificates in a text, in DER.
pub fn roots(pem: &str) -> Vec<Vec<u8>> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes());
    found
        .filter_map(Result::ok)
        .map(|der| der.to_vec())
        .collect()
}
