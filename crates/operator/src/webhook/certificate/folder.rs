//! A serving certificate that another program writes into a folder.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tracing::info;

use super::{CertificateError, Certificates, Clock};

/// A folder with `tls.crt`, `tls.key` and perhaps `ca.crt`, such as a mounted Secret.
///
/// The files are compared by content, so the swap of a symbolic link is noticed like any other
/// change. Content that cannot be used, such as a certificate with the key of another one, is an
/// error until it changes; the last certificate that could be used stays in use.
pub struct CertificateFolder {
    folder: PathBuf,
    clock: Clock,
    /// A digest of the files in use.
    loaded: Option<u64>,
}

impl CertificateFolder {
    /// Creates the source of a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::with_clock(folder, Arc::new(SystemTime::now))
    }

    /// Creates the source of a folder, with a clock of the caller's.
    pub fn with_clock(folder: impl Into<PathBuf>, clock: Clock) -> Self {
        Self {
            folder: folder.into(),
            clock,
            loaded: None,
        }
    }

    /// Reads the files and replaces the certificate if they have changed. Returns `ca.crt`.
    pub(super) fn refresh(
        &mut self,
        certificates: &Certificates,
    ) -> Result<Option<String>, CertificateError> {
        let (chain, key) = (self.read("tls.crt")?, self.read("tls.key")?);
        let authorities = match self.read("ca.crt") {
            Ok(authorities) => Some(authorities),
            Err(CertificateError::File { error, .. }) if error.kind() == ErrorKind::NotFound => {
                None
            }
            Err(error) => return Err(error),
        };
        let mut hasher = DefaultHasher::new();
        (&chain, &key).hash(&mut hasher);
        let digest = hasher.finish();
        if self.loaded != Some(digest) {
            certificates.replace(&chain, &key, (self.clock)())?;
            info!(folder = %self.folder.display(), "webhook certificate loaded");
            self.loaded = Some(digest);
        }
        Ok(authorities)
    }

    fn read(&self, name: &str) -> Result<String, CertificateError> {
        let file = self.folder.join(name);
        fs::read_to_string(&file).map_err(|error| CertificateError::File {
            file: file.display().to_string(),
            error,
        })
    }
}
