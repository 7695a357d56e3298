//! The serving certificate, which is replaced without a restart.

mod folder;
mod issue;
mod rotation;
mod secret;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use futures_util::{FutureExt, StreamExt};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

pub use folder::CertificateFolder;
pub use rotation::{CA_LIFETIME, SERVING_LIFETIME};
pub use secret::SecretCertificates;

use super::injection::{Injection, Target};
use crate::queue::Trigger;

/// The clock of certificates, which tests replace.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The current serving certificate. Handshakes fail until there is one.
#[derive(Default)]
pub struct Certificates {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

/// Where the serving certificate comes from.
pub enum CertificateSource {
    /// Files that another program writes, such as a mounted Secret of cert-manager.
    Folder(CertificateFolder),
    /// A CA of the operator's own, in a Secret.
    Secret(SecretCertificates),
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {file}: {error}")]
    File {
        /// The file.
        file: String,
        /// The error.
        error: std::io::Error,
    },
    /// The certificate or its key is unusable.
    #[error("{0}")]
    Invalid(String),
    /// A certificate cannot be issued.
    #[error("a certificate cannot be issued: {0}")]
    Issue(#[from] rcgen::Error),
    /// The Secret cannot be read or written.
    #[error("the Secret of the certificate cannot be used: {0}")]
    Secret(#[from] Box<kube::Error>),
    /// Other replicas changed the Secret again and again.
    #[error("the Secret of the certificate changed during every attempt")]
    Contended,
}

/// The interval of checks of a folder.
const FOLDER_INTERVAL: Duration = Duration::from_secs(10);
/// The interval of checks of a Secret.
const SECRET_INTERVAL: Duration = Duration::from_secs(60);
/// The interval of attempts after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The interval after which all CA bundles are compared again, besides the watch.
const RESYNC_INTERVAL: Duration = Duration::from_secs(600);

impl Certificates {
    /// Returns whether there is a certificate. An operator that serves webhooks is not ready
    /// before.
    pub fn is_loaded(&self) -> bool {
        self.current().is_some()
    }

    /// Replaces the certificate.
    ///
    /// # Errors
    ///
    /// If the chain and the key are not in PEM, do not belong together, or are out of date. The
    /// current certificate stays in use.
    pub fn replace(
        &self,
        chain_pem: &str,
        key_pem: &str,
        now: SystemTime,
    ) -> Result<(), CertificateError> {
        let certified = certified_key(chain_pem, key_pem)?;
        let leaf = certified.cert.first();
        let validity = leaf.and_then(|der| issue::validity(der));
        if validity.is_none_or(|validity| validity.until <= now) {
            let why = "the certificate has expired".to_owned();
            return Err(CertificateError::Invalid(why));
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::new(certified));
        Ok(())
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

/// Parses a certificate chain and its key, which must belong together.
fn certified_key(chain_pem: &str, key_pem: &str) -> Result<CertifiedKey, CertificateError> {
    let invalid = |why: &str| CertificateError::Invalid(why.to_owned());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain_pem.as_bytes()).collect();
    let chain = chain.map_err(|_| invalid("the certificate is not in PEM"))?;
    if chain.is_empty() {
        return Err(invalid("there is no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes());
    let key = key.map_err(|_| invalid("the key is not a private key in PEM"))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
    certified.map_err(|error| {
        CertificateError::Invalid(format!("the certificate or its key is unusable: {error}"))
    })
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl fmt::Debug for Certificates {
    /// Leaves the key out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Certificates");
        shown.field("loaded", &self.is_loaded()).finish()
    }
}

impl CertificateSource {
    /// Reads the source and replaces the certificate if it has changed. Returns the CA bundle,
    /// if the source has one.
    ///
    /// # Errors
    ///
    /// If there is no usable certificate. The current one stays in use.
    pub async fn refresh(
        &mut self,
        certificates: &Certificates,
    ) -> Result<Option<String>, CertificateError> {
        match self {
            Self::Folder(folder) => folder.refresh(certificates),
            Self::Secret(secret) => secret.refresh(certificates).await.map(Some),
        }
    }

    const fn interval(&self) -> Duration {
        match self {
            Self::Folder(_) => FOLDER_INTERVAL,
            Self::Secret(_) => SECRET_INTERVAL,
        }
    }
}

/// Keeps the certificate current, and its CA bundle in the objects of the injection.
pub async fn maintain(
    mut source: CertificateSource,
    certificates: &Certificates,
    injection: Option<Injection>,
) -> Infallible {
    let mut triggers = match &injection {
        Some(injection) => injection.triggers().await,
        None => futures_util::stream::pending().boxed(),
    };
    let mut pending = injection.iter().flat_map(Injection::targets).collect();
    let (mut injected, mut resync) = (None, Instant::now() + RESYNC_INTERVAL);
    let mut last_error = None;
    loop {
        // The Secret is read before every injection: another replica that has rotated the CA
        // wrote the Secret first, so its new bundle is never replaced by an older one.
        let refreshed = source.refresh(certificates).await;
        let failed = match refreshed {
            Ok(bundle) => {
                if bundle != injected || resync <= Instant::now() {
                    pending = injection.iter().flat_map(Injection::targets).collect();
                    resync = Instant::now() + RESYNC_INTERVAL;
                    injected = bundle;
                }
                match (&injection, &injected) {
                    (Some(injection), Some(bundle)) => {
                        inject(injection, bundle, &mut pending).await.err()
                    }
                    _ => None,
                }
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = &failed
            && last_error != failed
        {
            warn!(error, "webhook certificate maintenance failed");
        }
        let interval = match failed {
            Some(_) => RETRY_INTERVAL,
            None => source.interval(),
        };
        last_error = failed;
        tokio::select! {
            Some(trigger) = triggers.next() => {
                add_target(trigger, injection.as_ref(), &mut pending);
                while let Some(Some(trigger)) = triggers.next().now_or_never() {
                    add_target(trigger, injection.as_ref(), &mut pending);
                }
            }
            () = sleep_until(Instant::now() + interval) => {}
        }
    }
}

/// Writes the bundle into the pending objects. Objects that failed stay pending.
async fn inject(
    injection: &Injection,
    bundle: &str,
    pending: &mut BTreeSet<Target>,
) -> Result<(), String> {
    let mut failed = Ok(());
    for target in std::mem::take(pending) {
        match injection.inject(&target, bundle).await {
            Ok(true) => info!(object = %target, "CA bundle injected"),
            Ok(false) => {}
            Err(error) => {
                failed = Err(format!(
                    "the CA bundle of {target} cannot be written: {error}"
                ));
                pending.insert(target);
            }
        }
    }
    failed
}

fn add_target(trigger: Trigger, injection: Option<&Injection>, pending: &mut BTreeSet<Target>) {
    let targets = injection.into_iter().flat_map(Injection::targets);
    match trigger {
        Trigger::Changed(name) => {
            pending.extend(targets.filter(|target| target.to_string() == *name));
        }
        _ => pending.extend(targets),
    }
}

/// Returns a CA, a certificate of these names and its key, in PEM.
#[cfg(test)]
pub(super) fn test_material(names: &[&str]) -> (String, String, String) {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let created = rotation::rotate(None, &names, SystemTime::now());
    let material = created.expect("a certificate").expect("it is created");
    (material.ca_bundle, material.certificate, material.key)
}

#[cfg(test)]
mod tests;
