//! The credentials of an operator in the server process: a short-lived certificate that is
//! created in memory and replaced before it expires.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use insula_access::{Authority, Subject, Validity};
use insula_apiserver::server::tls::Certificates;
use insula_core::Space;
use insula_operator::user_agent::set_user_agent;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower::{BoxError, service_fn};

use crate::failure::Failure;

/// How an operator connects to the server it runs in.
pub struct OperatorCredentials {
    /// The CA that the server trusts.
    pub authority: Arc<Authority>,
    /// The server URL from this machine.
    pub url: Uri,
    /// The server name for certificate verification.
    pub server_name: String,
    /// The server certificates in use, which may be replaced at any time.
    pub certificates: Arc<Certificates>,
    /// The lifetime of a certificate.
    pub lasts: Duration,
}

/// A user and the current client.
struct Holder {
    credentials: OperatorCredentials,
    subject: Subject,
    agent: &'static str,
    current: RwLock<Current>,
}

struct Current {
    client: Client,
    created: SystemTime,
}

/// The minimum age before a failing client is replaced.
const MIN_AGE: Duration = Duration::from_secs(1);

/// The maximum lifetime of an in-memory certificate.
pub const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

impl OperatorCredentials {
    /// Returns a client for a user of the system space. Its certificate is replaced after two
    /// thirds of its lifetime, and when the server's certificate is no longer trusted.
    pub fn connect(
        self,
        user: &str,
        groups: &[String],
        agent: &'static str,
    ) -> Result<Client, Failure> {
        let subject = Subject {
            user: user.to_owned(),
            groups: groups.to_vec(),
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let first = Current {
            client: self.client(&subject, agent, SystemTime::now())?,
            created: SystemTime::now(),
        };
        let holder = Arc::new(Holder {
            credentials: self,
            subject,
            agent,
            current: RwLock::new(first),
        });
        let service = service_fn(move |request: http::Request<Body>| {
            let holder = Arc::clone(&holder);
            async move { holder.send(request).await }
        });
        Ok(Client::new(service, "default"))
    }

    fn client(
        &self,
        subject: &Subject,
        agent: &'static str,
        now: SystemTime,
    ) -> Result<Client, Failure> {
        let attempted = "cannot create a certificate for an operator";
        let key = KeyPair::generate().map_err(|error| Failure::new(attempted, error))?;
        let validity = Validity::starting(now, self.lasts);
        let certificate = self.authority.issue_client(subject, &key, validity);
        let certificate = certificate.map_err(|error| Failure::new(attempted, error))?;
        let mut config = Config::new(self.url.clone());
        config.root_cert = Some(self.roots());
        config.tls_server_name = Some(self.server_name.clone());
        config.auth_info = AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(key.serialize_pem()).into()),
            ..AuthInfo::default()
        };
        set_user_agent(&mut config, agent);
        let client = Client::try_from(config);
        client.map_err(|error| Failure::new("cannot connect an operator", error))
    }

    /// Returns the trusted roots: the own CA and the chain of the server certificate in use.
    fn roots(&self) -> Vec<Vec<u8>> {
        let own = CertificateDer::from_pem_slice(self.authority.certificate_pem().as_bytes());
        let all = own.into_iter().chain(self.certificates.chain());
        all.map(|certificate| certificate.to_vec()).collect()
    }
}

impl Holder {
    async fn send(&self, request: http::Request<Body>) -> Result<Response, BoxError> {
        let sent = self.client().send(request).await;
        if sent.is_err() {
            // The server's certificate may have been replaced.
            self.replace_after(MIN_AGE);
        }
        Ok(sent?)
    }

    /// Returns the current client.
    fn client(&self) -> Client {
        self.replace_after(self.credentials.lasts * 2 / 3);
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.client.clone()
    }

    /// Replaces the client if it is older than `age`; keeps it if that fails.
    fn replace_after(&self, age: Duration) {
        // Uses the wall clock, as certificates do. A clock that was set back counts as old.
        let is_old = |current: &Current| current.created.elapsed().map_or(true, |of| of >= age);
        if !is_old(&self.current.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have replaced it already.
        if !is_old(&current) {
            return;
        }
        let next = self
            .credentials
            .client(&self.subject, self.agent, SystemTime::now());
        match next {
            Ok(client) => {
                let created = SystemTime::now();
                *current = Current { client, created };
            }
            Err(error) => tracing::warn!(%error, "operator certificate renewal failed"),
        }
    }
}

type Response = http::Response<Body>;
