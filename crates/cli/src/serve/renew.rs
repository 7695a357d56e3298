//! Renewal of certificates and keys while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use insula_access::Authority;
use insula_apiserver::pipeline::service_account::CurrentKeys;
use insula_apiserver::server::tls::Certificates;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::admin_kubeconfig::AdminKubeconfig;
use super::tls::{Tls, TlsFiles};
use crate::failure::Failure;
use crate::pki::{self, LeafSettings, Leaves};
use crate::token_keys::{self, TokenKeys};

/// Renews the certificates of the server and its administrator: those of the own CA are
/// reissued in time, and given files are reloaded when they change. So are the keys of service
/// account tokens. Failures are logged and retried; until then the old files are used.
pub struct Renewal {
    /// The server certificates in use.
    pub certificates: Arc<Certificates>,
    /// The own CA.
    pub authority: Arc<Authority>,
    /// The folder of the issued certificates.
    pub folder: PathBuf,
    /// What the CA is to issue.
    pub wanted: LeafSettings,
    /// The issued certificates.
    pub leaves: Leaves,
    /// The files of the server certificate, if it is not issued by the own CA.
    pub files: Option<TlsFiles>,
    /// The server certificate in use, as read.
    pub current: Tls,
    /// The keys of service account tokens in use.
    pub token_keys: Arc<CurrentKeys>,
    /// The same as read.
    pub stored_keys: TokenKeys,
    /// The administrator's kubeconfig.
    pub kubeconfig: AdminKubeconfig,
    /// The current problems.
    pub problems: RenewalProblems,
}

/// The problems of the last attempt, so that each is logged once.
#[derive(Debug, Default)]
pub struct RenewalProblems {
    logged: String,
    /// Whether the kubeconfig is outdated.
    kubeconfig: bool,
}

/// The check interval: programs that replace files expect a short delay.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

impl Renewal {
    /// Runs until it is aborted.
    pub async fn run(self) {
        let mut ticks = interval(self.interval());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate, and everything was just checked.
        ticks.tick().await;
        let mut renewal = self;
        loop {
            ticks.tick().await;
            // Files are read, and synced after writing.
            let checked = spawn_blocking(move || {
                renewal.check(SystemTime::now());
                renewal
            });
            renewal = match checked.await {
                Ok(renewal) => renewal,
                Err(error) => {
                    tracing::error!(%error, "certificate renewal stopped");
                    return;
                }
            };
        }
    }

    /// Returns the check interval: several times in the last third of a certificate's
    /// lifetime.
    fn interval(&self) -> Duration {
        (self.wanted.lasts / 60).clamp(Duration::from_secs(1), CHECK_INTERVAL)
    }

    /// Performs everything that is due.
    fn check(&mut self, now: SystemTime) {
        // One failure must not stop the others.
        let attempts = [
            self.renew(now),
            self.replace_certificate(),
            self.update_kubeconfig(),
            self.replace_token_keys(),
        ];
        let failures = attempts.into_iter().filter_map(Result::err);
        let failures: Vec<_> = failures.map(|failure| failure.to_string()).collect();
        let message = failures.join("; ");
        if !message.is_empty() && message != self.problems.logged {
            tracing::warn!(error = message, "certificate renewal failed");
        }
        self.problems.logged = message;
    }

    /// Reissues the certificates of the CA if they are due.
    fn renew(&mut self, now: SystemTime) -> Result<(), Failure> {
        if !self.leaves.are_due(&self.authority, &self.wanted, now) {
            return Ok(());
        }
        self.leaves = pki::renew(&self.folder, &self.authority, &self.wanted, now)?;
        self.problems.kubeconfig = true;
        tracing::info!("CA certificates renewed");
        Ok(())
    }

    /// Puts a changed server certificate into use.
    fn replace_certificate(&mut self) -> Result<(), Failure> {
        let next = match &self.files {
            Some(files) => files.load()?,
            None => Tls::own(&self.leaves.server)?,
        };
        if next == self.current {
            return Ok(());
        }
        let replaced = self
            .certificates
            .replace(next.chain.clone(), next.key.clone_key());
        replaced.map_err(|error| Failure::new("cannot use the new certificate", error))?;
        self.current = next;
        self.problems.kubeconfig = true;
        tracing::info!("server certificate replaced");
        Ok(())
    }

    /// Puts changed keys of service account tokens into use.
    fn replace_token_keys(&mut self) -> Result<(), Failure> {
        let rotated = self.stored_keys.keys().len() > 1;
        let path = self.folder.join(token_keys::FILE);
        // Without the file, retired keys would come back.
        if rotated && !path.exists() {
            let attempted = format!("cannot use {}", path.display());
            return Err(Failure::new(&attempted, "the file is missing"));
        }
        let Some(next) = TokenKeys::read(&self.folder)? else {
            return Ok(());
        };
        if next == self.stored_keys {
            return Ok(());
        }
        self.token_keys.replace(next.to_signing_keys()?);
        self.stored_keys = next;
        tracing::info!("service account keys replaced");
        Ok(())
    }

    /// Writes the kubeconfig if its content has changed. A file that was deleted otherwise is
    /// not written again.
    fn update_kubeconfig(&mut self) -> Result<(), Failure> {
        if !self.problems.kubeconfig {
            return Ok(());
        }
        let given = self.files.as_ref().map(|_| self.current.pem.as_str());
        let ca = self.authority.certificate_pem();
        self.kubeconfig.ensure(ca, &self.leaves.admin, given)?;
        self.problems.kubeconfig = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
