//! The contents of the Secret, for the decision about credentials.

use std::collections::BTreeMap;

use insula_identity::credential::Hidden;
use insula_identity::shape::{Content, InvalidContent, Shape};

use super::access::{HostAccess, HostCertificates};
use super::file::{File, MAX_BYTES};
use super::invalid::InvalidKubeconfig;
use super::{outside, select};

/// The keys of the Secret with a kubeconfig. The first one that exists counts. The second one is
/// that of Cluster API's own kubeconfig Secrets.
pub const KEYS: [&str; 2] = ["kubeconfig", "value"];

/// A kubeconfig as the content of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The certificates that servers may have.
    pub certificates: HostCertificates,
}

impl Kubeconfig {
    /// Kubeconfigs whose server has a certificate that verifies.
    pub const VERIFIED: &'static Self = &Self {
        certificates: HostCertificates::Verified,
    };
    /// Kubeconfigs that may say that their server's certificate is not verified.
    pub const ANY_IF_ASKED: &'static Self = &Self {
        certificates: HostCertificates::AnyIfAsked,
    };

    /// Returns the access of a context; of the current one if none is named.
    ///
    /// # Errors
    ///
    /// If the kubeconfig cannot be used, or must not.
    pub fn access(
        &self,
        data: &BTreeMap<String, Hidden>,
        context: Option<&str>,
    ) -> Result<HostAccess, InvalidKubeconfig> {
        let found = KEYS.iter().find_map(|key| data.get(*key));
        let found = found.ok_or(InvalidKubeconfig::NoKey)?;
        if found.reveal().len() > MAX_BYTES {
            return Err(InvalidKubeconfig::TooLarge);
        }
        let text = found.text().ok_or(InvalidKubeconfig::NotText)?;
        let file = File::parse(text)?;
        outside::check(&file)?;
        select::access(file, context, self.certificates)
    }
}

impl Shape for Kubeconfig {
    fn describe(&self) -> String {
        "a kubeconfig under the key kubeconfig".to_owned()
    }

    fn read(
        &self,
        data: &BTreeMap<String, Hidden>,
        part: Option<&str>,
    ) -> Result<Content, InvalidContent> {
        // The sample stands for a Secret that cannot be read, and has all contexts.
        let part = part.filter(|_| *data != self.sample());
        Ok(self.access(data, part)?.content())
    }

    fn sample(&self) -> BTreeMap<String, Hidden> {
        const SAMPLE: &str = r#"{"current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": "https://unknown.invalid"}}],
            "users": [{"name": "a", "user": {"token": "?"}}]}"#;
        BTreeMap::from([(KEYS[0].to_owned(), Hidden::new(SAMPLE))])
    }
}

/// Returns a warning if the Secret has the name that Cluster API reserves for the kubeconfig of
/// the cluster itself: its control plane would take the hosts' credentials for those of the
/// cluster.
pub fn reserved_name(secret: &str, cluster: &str) -> Option<String> {
    let is_reserved = secret == insula_capi::workload::secret_name(cluster);
    is_reserved.then(|| {
        format!(
            "identityRef names Secret {secret}, which Cluster API reserves for the kubeconfig of \
             cluster {cluster}; use another name, such as {cluster}-bmh-identity"
        )
    })
}
