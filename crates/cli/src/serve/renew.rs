//! Renewal of certificates while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use insula_access::Authority;
use insula_apiserver::server::tls::Certificates;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::prepare::AdminKubeconfig;
use super::tls::{Tls, TlsFiles};
use crate::failure::Failure;
use crate::pki::{self, Leaves, Wanted};

/// Renews the certificates of the server and its administrator: those of the own CA are
/// reissued in time, and given files are reloaded when they change. Failures are logged and
/// retried; until then the old certificate is used.
pub struct Renewal {
    /// The server certificates in use.
    pub certificates: Arc<Certificates>,
    /// The own CA.
    pub authority: Arc<Authority>,
    /// The folder of the issued certificates.
    pub folder: PathBuf,
    /// What the CA is to issue.
    pub wanted: Wanted,
    /// The issued certificates.
    pub leaves: Leaves,
    /// The files of the server certificate, if it is not issued by the own CA.
    pub files: Option<TlsFiles>,
    /// The server certificate in use, as read.
    pub shown: Tls,
    /// The administrator's kubeconfig.
    pub kubeconfig: AdminKubeconfig,
    /// The current problems.
    pub trouble: Trouble,
}

/// The problems of the last attempt, so that each is logged once.
#[derive(Debug, Default)]
pub struct Trouble {
    told: String,
    /// Whether the kubeconfig is outdated.
    kubeconfig: bool,
}

/// The check interval: programs that replace files expect a short delay.
const LOOK: Duration = Duration::from_secs(60);

impl Renewal {
    /// Runs until it is aborted.
    pub async fn run(self) {
        let mut look = interval(self.every());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate, and everything was just checked.
        look.tick().await;
        let mut renewal = self;
        loop {
            look.tick().await;
            // Files are read, and synced after writing.
            let looked = spawn_blocking(move || {
                renewal.look(SystemTime::now());
                renewal
            });
            renewal = match looked.await {
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
    fn every(&self) -> Duration {
        (self.wanted.lasts / 60).clamp(Duration::from_secs(1), LOOK)
    }

    /// Performs everything that is due.
    fn look(&mut self, now: SystemTime) {
        // One failure must not stop the others.
        let attempts = [self.renew(now), self.show(), self.tell_administrator()];
        let failures = attempts.into_iter().filter_map(Result::err);
        let failures: Vec<_> = failures.map(|failure| failure.to_string()).collect();
        let said = failures.join("; ");
        if !said.is_empty() && said != self.trouble.told {
            tracing::warn!(error = said, "certificate renewal failed");
        }
        self.trouble.told = said;
    }

    /// Reissues the certificates of the CA if they are due.
    fn renew(&mut self, now: SystemTime) -> Result<(), Failure> {
        if !self.leaves.are_due(&self.authority, &self.wanted, now) {
            return Ok(());
        }
        self.leaves = pki::renew(&self.folder, &self.authority, &self.wanted, now)?;
        self.trouble.kubeconfig = true;
        tracing::info!("CA certificates renewed");
        Ok(())
    }

    /// Puts a changed server certificate into use.
    fn show(&mut self) -> Result<(), Failure> {
        let next = match &self.files {
            Some(files) => files.load()?,
            None => Tls::own(&self.leaves.server)?,
        };
        if next == self.shown {
            return Ok(());
        }
        let replaced = self
            .certificates
            .replace(next.chain.clone(), next.key.clone_key());
        replaced.map_err(|error| Failure::new("cannot use the new certificate", error))?;
        self.shown = next;
        self.trouble.kubeconfig = true;
        tracing::info!("server certificate replaced");
        Ok(())
    }

    /// Writes the kubeconfig if its content has changed. A file that was deleted otherwise is
    /// not written again.
    fn tell_administrator(&mut self) -> Result<(), Failure> {
        if !self.trouble.kubeconfig {
            return Ok(());
        }
        let given = self.files.as_ref().map(|_| self.shown.pem.as_str());
        let ca = self.authority.certificate_pem();
        self.kubeconfig.keep(ca, &self.leaves.admin, given)?;
        self.trouble.kubeconfig = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
