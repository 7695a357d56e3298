//! The vCenters on the command line, with how their certificates are verified.

use insula_identity::endpoint::{Endpoint, Trust};
use insula_vsphere::names::PORT;

/// `HOST`, `HOST=THUMBPRINT` or `HOST=insecure`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedServer {
    endpoint: Endpoint,
    trust: Option<Trust>,
}

impl AllowedServer {
    /// Parses `HOST`, `HOST=THUMBPRINT` or `HOST=insecure`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, trust) = match text.split_once('=') {
            None => (text, None),
            Some((address, "insecure")) => (address, Some(Trust::AnyCertificate)),
            Some((address, print)) => {
                let trust = Trust::pinned(print).map_err(|error| error.to_string())?;
                (address, Some(trust))
            }
        };
        let endpoint = Endpoint::parse(address, PORT).map_err(|error| error.to_string())?;
        Ok(Self { endpoint, trust })
    }

    /// Returns the endpoint and its trust.
    pub fn into_end(self) -> (Endpoint, Option<Trust>) {
        (self.endpoint, self.trust)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_server_parses_host_port_and_trust() {
        let print = "ab".repeat(32);
        let pinned = format!("vcenter.example:8443={print}");
        for (text, host, port, trust) in [
            ("VCenter.example", "vcenter.example", 443, None),
            ("[2001:db8::1]:444", "2001:db8::1", 444, None),
            ("v=insecure", "v", 443, Some(Trust::AnyCertificate)),
            (
                &pinned,
                "vcenter.example",
                8443,
                Some(Trust::pinned(&print).unwrap()),
            ),
        ] {
            let (endpoint, believed) = AllowedServer::parse(text).unwrap().into_end();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port), "{text}");
            assert_eq!(believed, trust, "{text}");
        }
        for (text, why) in [
            ("", "\"\" is no host, and no host with a port"),
            (
                "https://v",
                "\"https://v\" is no host, and no host with a port",
            ),
            ("=insecure", "\"\" is no host, and no host with a port"),
            (
                "v=",
                "\"\" is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits",
            ),
            (
                "v=Insecure",
                "\"Insecure\" is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits",
            ),
        ] {
            assert_eq!(AllowedServer::parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
