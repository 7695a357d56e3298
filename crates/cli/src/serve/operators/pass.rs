//! What an operator shows the server: a certificate that is made in memory, holds for a
//! short time, and is replaced before it ends.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use insula_access::{Authority, Subject, Validity};
use insula_apiserver::server::tls::Certificates;
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
    /// What the server shows, which may be replaced while it runs.
    pub certificates: Arc<Certificates>,
    /// How long a certificate lasts.
    pub lasts: Duration,
}

/// A user, and what of theirs is shown now.
struct Holder {
    pass: Pass,
    subject: Subject,
    agent: &'static str,
    current: RwLock<Current>,
}

struct Current {
    client: Client,
    made: SystemTime,
}

/// How soon what does not work is made anew.
const SOON: Duration = Duration::from_secs(1);

/// Nothing that is only in memory needs to hold for longer.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Pass {
    /// A client for a user of the system. What it shows is replaced when two thirds of its
    /// time are over, and when it does not lead to the server any more.
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
            made: SystemTime::now(),
        };
        let holder = Arc::new(Holder {
            pass: self,
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
        let attempted = "cannot make a certificate for an operator";
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
        introduce(&mut config, agent);
        let client = Client::try_from(config);
        client.map_err(|error| Failure::new("cannot connect an operator", error))
    }

    /// Whom to believe that it is the server: whoever the own CA vouches for, and who vouches
    /// for what the server shows.
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
            // The server may show something else by now.
            self.replace_after(SOON);
        }
        Ok(sent?)
    }

    /// The client of now.
    fn client(&self) -> Client {
        self.replace_after(self.pass.lasts * 2 / 3);
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.client.clone()
    }

    /// Makes another if the one of now is so old. Until that is possible it stays.
    fn replace_after(&self, age: Duration) {
        // By the clock that certificates go by. One that was put back makes everything old.
        let is_old = |current: &Current| current.made.elapsed().map_or(true, |of| of >= age);
        if !is_old(&self.current.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been faster.
        if !is_old(&current) {
            return;
        }
        let next = self
            .pass
            .client(&self.subject, self.agent, SystemTime::now());
        match next {
            Ok(client) => {
                let made = SystemTime::now();
                *current = Current { client, made };
            }
            Err(error) => tracing::warn!(%error, "an operator's certificate is not renewed"),
        }
    }
}

type Response = http::Response<Body>;
