//! The complete information that a cluster needs to join.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use k8s_openapi::api::core::v1::Secret;

use super::{BrokerInfo, Error, non_empty_value};
use crate::component::CONNECTIVITY;

/// The complete information that a cluster needs to join.
#[derive(Clone, PartialEq)]
pub struct JoinInfo {
    /// The API URL of the broker's cluster.
    pub url: String,
    /// The token of the broker's administrator.
    pub token: String,
    /// The CA certificates of the server as PEM, if the file has them.
    pub ca: Option<Vec<u8>>,
    /// The broker's namespace.
    pub namespace: String,
    /// The components of the ClusterSet; at least one.
    pub components: BTreeSet<String>,
    /// The pre-shared key; present if the components include connectivity.
    pub ipsec_psk: Option<Secret>,
    /// Domains that are resolved across clusters, in addition to the default one.
    pub custom_domains: Vec<String>,
}

impl JoinInfo {
    /// Returns the pre-shared key itself.
    pub fn psk(&self) -> Option<&[u8]> {
        non_empty_value(self.ipsec_psk.as_ref(), "psk")
    }
}

impl fmt::Debug for JoinInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForJoin")
            .field("url", &self.url)
            .field("namespace", &self.namespace)
            .field("components", &self.components)
            .field("custom_domains", &self.custom_domains)
            .finish_non_exhaustive()
    }
}

pub(super) fn complete(info: &BrokerInfo, path: &Path) -> Result<JoinInfo, Error> {
    let token = non_empty_value(info.client_token.as_ref(), "token");
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    let (token, namespace) = (token.map(str::trim), info.namespace()?);
    let psk = non_empty_value(info.ipsec_psk.as_ref(), "psk");
    let wants_psk = info.components.contains(CONNECTIVITY);
    let lacks = [
        ("broker URL", info.url.is_empty()),
        ("client token", token.is_none_or(str::is_empty)),
        ("namespace", namespace.is_none()),
        ("components", info.components.is_empty()),
        ("IPsec PSK", wants_psk && psk.is_none()),
    ];
    let lacks = lacks.into_iter().filter(|(_, is_missing)| *is_missing);
    let missing: Vec<_> = lacks.map(|(what, _)| what).collect();
    let (Some(token), Some(namespace), []) = (token, namespace, missing.as_slice()) else {
        let path = path.to_owned();
        return Err(Error::Partial { path, missing });
    };
    Ok(JoinInfo {
        url: info.url.clone(),
        token: token.to_owned(),
        ca: non_empty_value(info.client_token.as_ref(), "ca.crt").map(<[u8]>::to_vec),
        namespace,
        components: info.components.clone(),
        ipsec_psk: info.ipsec_psk.clone().filter(|_| psk.is_some()),
        custom_domains: info.custom_domains.clone(),
    })
}
