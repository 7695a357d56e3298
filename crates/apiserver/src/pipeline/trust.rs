//! What certificates and static tokens are verified with, replaced while the server runs.
//!
//! A connection is verified again after every change, and a watch ends when something it may
//! depend on was taken away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use insula_access::TokenFile;
use insula_core::{Principal, Proof};
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::pipeline::client_certificates::{Clients, InvalidCa};

/// The trusted CAs of client certificates and the static tokens, at one time.
#[derive(Debug, Default)]
pub struct Trust {
    /// The trusted CAs of client certificates.
    pub clients: Option<Arc<Clients>>,
    /// The static tokens of a file.
    pub tokens: Option<Arc<TokenFile>>,
    /// Counts all changes.
    pub version: u64,
    /// Counts changes that can make certificates invalid.
    pub certificate_epoch: u64,
    /// Counts changes that can make static tokens invalid.
    pub token_epoch: u64,
}

/// The [`Trust`] in use.
#[derive(Debug, Default)]
pub struct CurrentTrust {
    trust: RwLock<Arc<Trust>>,
    changed: Notify,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
}

impl CurrentTrust {
    /// Trusts these CAs and tokens.
    pub fn new(
        cas: &[CertificateDer<'static>],
        tokens: Option<TokenFile>,
    ) -> Result<Self, InvalidCa> {
        let trust = Trust {
            clients: Clients::new(cas)?.map(Arc::new),
            tokens: tokens.map(Arc::new),
            ..Trust::default()
        };
        Ok(Self {
            trust: RwLock::new(Arc::new(trust)),
            ..Self::default()
        })
    }

    /// Returns what is trusted now.
    pub fn get(&self) -> Arc<Trust> {
        Arc::clone(&self.trust.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the trusted CAs. If one is unusable, the old ones stay.
    pub fn replace_clients(&self, cas: &[CertificateDer<'static>]) -> Result<(), InvalidCa> {
        let next = Clients::new(cas)?.map(Arc::new);
        self.replace(|old| {
            let kept = |clients: &Arc<Clients>| {
                let next = next.as_ref();
                next.is_some_and(|next| clients.are_within(next))
            };
            let taken = !old.clients.as_ref().is_none_or(kept);
            Trust {
                clients: next.clone(),
                tokens: old.tokens.clone(),
                version: old.version + 1,
                certificate_epoch: old.certificate_epoch + u64::from(taken),
                token_epoch: old.token_epoch,
            }
        });
        Ok(())
    }

    /// Replaces the static tokens.
    pub fn replace_tokens(&self, tokens: TokenFile) {
        let next = Arc::new(tokens);
        self.replace(|old| {
            let kept = |tokens: &Arc<TokenFile>| tokens.is_within(&next);
            let taken = !old.tokens.as_ref().is_none_or(kept);
            Trust {
                clients: old.clients.clone(),
                tokens: Some(Arc::clone(&next)),
                version: old.version + 1,
                certificate_epoch: old.certificate_epoch,
                token_epoch: old.token_epoch + u64::from(taken),
            }
        });
    }

    fn replace(&self, next: impl FnOnce(&Trust) -> Trust) {
        let mut trust = self.trust.write().unwrap_or_else(PoisonError::into_inner);
        *trust = Arc::new(next(&trust));
        drop(trust);
        self.changed.notify_waiters();
    }

    /// Whether nothing was taken away since that the credential of a principal may depend on.
    pub fn still_accepts(&self, principal: &Principal) -> bool {
        let trust = self.trust.read().unwrap_or_else(PoisonError::into_inner);
        let holder = principal.authenticated();
        match holder.proof {
            Proof::Certificate => holder.credential.epoch >= trust.certificate_epoch,
            Proof::StaticToken => holder.credential.epoch >= trust.token_epoch,
            Proof::ServiceAccount | Proof::Oidc | Proof::Impersonation => true,
        }
    }

    /// Counts a reload of a file, or one that failed.
    pub fn count_reload(&self, succeeded: bool) {
        let counter = match succeeded {
            true => &self.reloads,
            false => &self.failed_reloads,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of reloads, and of those that failed.
    pub fn reloads(&self) -> [u64; 2] {
        [&self.reloads, &self.failed_reloads].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Notified after every change.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }
}
