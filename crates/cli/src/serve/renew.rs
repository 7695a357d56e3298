//! Certificates that are renewed while the server runs.

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

/// Looks after what the server and its administrator show: what its own CA issued is made
/// again in time, and what was given in files is taken up when the files change. Whatever
/// fails is told, and tried again; until then the old one stays.
pub struct Renewal {
    /// What the server shows.
    pub certificates: Arc<Certificates>,
    /// Its CA.
    pub authority: Arc<Authority>,
    /// Where what the CA issued is kept.
    pub folder: PathBuf,
    /// What the CA is to issue.
    pub wanted: Wanted,
    /// What it issued.
    pub leaves: Leaves,
    /// Where what the server shows is kept, if that is not its own.
    pub files: Option<TlsFiles>,
    /// What the server shows, as it was read.
    pub shown: Tls,
    /// The administrator's kubeconfig.
    pub kubeconfig: AdminKubeconfig,
    /// What goes wrong, and was told.
    pub trouble: Trouble,
}

/// What went wrong the last time, so that it is not told every time.
#[derive(Debug, Default)]
pub struct Trouble {
    told: String,
    /// The kubeconfig is not as it should be.
    kubeconfig: bool,
}

/// How often it looks: files are replaced by programs that then wait a little.
const LOOK: Duration = Duration::from_secs(60);

impl Renewal {
    /// Goes on until it is aborted.
    pub async fn run(self) {
        let mut look = interval(self.every());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once, and everything was looked at just now.
        look.tick().await;
        let mut renewal = self;
        loop {
            look.tick().await;
            // Files are read, and synced when they are written.
            let looked = spawn_blocking(move || {
                renewal.look(SystemTime::now());
                renewal
            });
            renewal = match looked.await {
                Ok(renewal) => renewal,
                Err(error) => {
                    tracing::error!(%error, "certificates are not renewed any more");
                    return;
                }
            };
        }
    }

    /// A few times in the last third of a certificate's time, however short it is.
    fn every(&self) -> Duration {
        (self.wanted.lasts / 60).clamp(Duration::from_secs(1), LOOK)
    }

    /// Does what is due.
    fn look(&mut self, now: SystemTime) {
        // One must not wait for the other.
        let attempts = [self.renew(now), self.show(), self.tell_administrator()];
        let failures = attempts.into_iter().filter_map(Result::err);
        let failures: Vec<_> = failures.map(|failure| failure.to_string()).collect();
        let said = failures.join("; ");
        if !said.is_empty() && said != self.trouble.told {
            tracing::warn!(error = said, "certificates cannot be renewed");
        }
        self.trouble.told = said;
    }

    /// Has made again what the CA issued, if that is due.
    fn renew(&mut self, now: SystemTime) -> Result<(), Failure> {
        if !self.leaves.are_due(&self.authority, &self.wanted, now) {
            return Ok(());
        }
        self.leaves = pki::renew(&self.folder, &self.authority, &self.wanted, now)?;
        self.trouble.kubeconfig = true;
        tracing::info!("the CA's certificates are renewed");
        Ok(())
    }

    /// Shows what is to be shown.
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
        replaced.map_err(|error| Failure::new("cannot show a new certificate", error))?;
        self.shown = next;
        self.trouble.kubeconfig = true;
        tracing::info!("a new certificate is shown");
        Ok(())
    }

    /// Writes the kubeconfig if what it says has changed. Whoever took the file away for
    /// another reason does not get it back.
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
