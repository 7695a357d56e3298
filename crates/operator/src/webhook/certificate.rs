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

use futures_util::{FutureExt, StreamExt, stream};
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

use super::injection::{self, Injection, Target};
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
    Secret(Box<SecretCertificates>),
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

/// The number of attempts when other clients write an object at the same time.
const MAX_ATTEMPTS: usize = 4;
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
    source: CertificateSource,
    certificates: &Certificates,
    injection: Option<Injection>,
) -> Infallible {
    let mut triggers = match &injection {
        Some(injection) => injection.triggers(),
        None => stream::pending().boxed(),
    };
    let mut maintenance = Maintenance {
        source,
        certificates,
        injection,
        injected: None,
        pending: BTreeSet::new(),
        resync: Instant::now() + RESYNC_INTERVAL,
    };
    let mut last_error = None;
    loop {
        let failed = maintenance.step().await.err();
        if let Some(error) = &failed
            && last_error != failed
        {
            warn!(error, "webhook certificate maintenance failed");
        }
        let interval = match failed {
            Some(_) => RETRY_INTERVAL,
            None => maintenance.source.interval(),
        };
        last_error = failed;
        tokio::select! {
            Some(trigger) = triggers.next() => {
                maintenance.add(trigger);
                while let Some(Some(trigger)) = triggers.next().now_or_never() {
                    maintenance.add(trigger);
                }
            }
            () = sleep_until(Instant::now() + interval) => {}
        }
    }
}

/// The state of [`maintain`].
struct Maintenance<'a> {
    source: CertificateSource,
    certificates: &'a Certificates,
    injection: Option<Injection>,
    /// The bundle that all objects have, except the pending ones.
    injected: Option<String>,
    /// The objects that may have another bundle.
    pending: BTreeSet<Target>,
    /// When all objects are compared again.
    resync: Instant,
}

impl Maintenance<'_> {
    /// Refreshes the certificate, and writes its CA bundle where it differs. The error is a
    /// message; objects that failed stay pending.
    async fn step(&mut self) -> Result<(), String> {
        let bundle = self.refresh().await?;
        if bundle != self.injected || self.resync <= Instant::now() {
            self.add(Trigger::All);
            self.resync = Instant::now() + RESYNC_INTERVAL;
            self.injected.clone_from(&bundle);
        }
        let (Some(injection), Some(bundle)) = (self.injection.clone(), bundle) else {
            return Ok(());
        };
        let mut failed = Ok(());
        for target in self.pending.clone() {
            match self.inject(&injection, &target, &bundle).await {
                Ok(()) => {
                    self.pending.remove(&target);
                }
                Err(why) => {
                    failed = Err(format!("the CA bundle of {target} is not written: {why}"))
                }
            }
        }
        failed
    }

    async fn refresh(&mut self) -> Result<Option<String>, String> {
        let refreshed = self.source.refresh(self.certificates).await;
        refreshed.map_err(|error| error.to_string())
    }

    /// Writes the bundle into one object if it differs. The error is a message.
    async fn inject(
        &mut self,
        injection: &Injection,
        target: &Target,
        bundle: &str,
    ) -> Result<(), String> {
        for _ in 0..MAX_ATTEMPTS {
            let found = injection.read(target).await;
            let Some(found) = found.map_err(|error| error.to_string())? else {
                return Ok(());
            };
            if injection.is_injected(target, &found, bundle) {
                return Ok(());
            }
            // Another replica may have rotated the CA meanwhile. It wrote the Secret first, so
            // a Secret read after the object is not older, and the write below fails if the
            // object has changed since. So no replica replaces a bundle by an older one.
            let Some(bundle) = self.refresh().await? else {
                return Ok(());
            };
            if injection.is_injected(target, &found, &bundle) {
                return Ok(());
            }
            match injection.write(target, &found, &bundle).await {
                Ok(()) => {
                    info!(object = %target, "CA bundle injected");
                    return Ok(());
                }
                Err(error) if injection::is_conflict(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("it changed during every attempt".to_owned())
    }

    /// Adds the objects of a trigger to the pending ones.
    fn add(&mut self, trigger: Trigger) {
        let targets = self.injection.iter().flat_map(Injection::targets);
        match trigger {
            Trigger::Changed(name) => {
                let changed = targets.filter(|target| target.to_string() == *name);
                self.pending.extend(changed);
            }
            Trigger::Touched(_) | Trigger::All => self.pending.extend(targets),
        }
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
