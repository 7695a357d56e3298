//! The administrator's kubeconfig.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::kubeconfig::{Entry, Trust};
use crate::pki::Identity;

/// The administrator's kubeconfig.
pub struct AdminKubeconfig {
    /// Its path.
    pub path: PathBuf,
    /// Its server URL.
    pub server: String,
}

impl AdminKubeconfig {
    /// Ensures the content of the file. Clients trust the own CA and, if the certificate is
    /// not issued by it, the given chain.
    pub fn ensure(&self, ca: &str, admin: &Identity, given: Option<&str>) -> Result<(), Failure> {
        let authorities = authorities(ca, given);
        let kubeconfig = Entry {
            server: &self.server,
            trust: &Trust::Authorities(authorities),
            identity: admin,
            cluster: "insula",
            user: "admin",
            context: "insula",
            // The server renews it.
            expires: None,
        };
        kubeconfig.ensure_at(&self.path)
    }
}

/// Returns the CAs that clients trust: the own CA and the given chain.
pub fn authorities(ca: &str, given: Option<&str>) -> String {
    [ca, given.unwrap_or("")].concat()
}
