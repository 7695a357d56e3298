//! The servers that a credential may be sent to, as identities and files list them.

use insula_identity::endpoint::{
    AllowedEndpoints, Endpoint, InvalidEndpoint, InvalidFingerprint, Trust,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A server, and which certificate to trust there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedServer {
    /// Its host, or host and port.
    pub address: String,
    /// The fingerprint of its certificate, which overrides that of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// Trust any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_verify: bool,
}

/// Why a server is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidServer {
    #[error(transparent)]
    Address(#[from] InvalidEndpoint),
    #[error(transparent)]
    Thumbprint(#[from] InvalidFingerprint),
}

impl InvalidServer {
    const fn field(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Thumbprint(_) => "thumbprint",
        }
    }
}

impl AllowedServer {
    fn parse(&self, port: u16) -> Result<(Endpoint, Option<Trust>), InvalidServer> {
        let endpoint = Endpoint::parse(&self.address, port)?;
        let trust = match (self.thumbprint.as_deref(), self.insecure_skip_verify) {
            (Some(text), _) if !text.is_empty() => Some(Trust::pinned(text)?),
            (_, true) => Some(Trust::AnyCertificate),
            (_, false) => None,
        };
        Ok((endpoint, trust))
    }
}

/// Returns these servers, with this port if they name none.
pub(super) fn bound(
    servers: &[AllowedServer],
    port: u16,
) -> Result<AllowedEndpoints, InvalidServer> {
    let only = servers.iter().map(|server| server.parse(port));
    Ok(AllowedEndpoints::Only(only.collect::<Result<_, _>>()?))
}

/// Returns the servers that an identity lists in `spec.allowedServers`, with this port if they
/// name none. It allows none without the field.
///
/// # Errors
///
/// If a server is invalid. The error is a message that names the field.
pub fn identity_servers(spec: &Value, port: u16) -> Result<AllowedEndpoints, String> {
    let servers: Option<Vec<AllowedServer>> =
        serde_json::from_value(spec["allowedServers"].clone())
            .map_err(|error| format!("spec.allowedServers: {error}"))?;
    let Some(servers) = servers else {
        return Ok(AllowedEndpoints::Nowhere);
    };
    let only = servers.iter().enumerate().map(|(at, server)| {
        let invalid = |error: InvalidServer| {
            let field = error.field();
            format!("spec.allowedServers[{at}].{field}: {error}")
        };
        server.parse(port).map_err(invalid)
    });
    Ok(AllowedEndpoints::Only(only.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_server_of_an_identity_is_named() {
        let endpoint = Endpoint::parse("a", 443).unwrap();
        for (servers, expected) in [
            (json!(null), Ok(AllowedEndpoints::Nowhere)),
            (json!([]), Ok(AllowedEndpoints::Only(vec![]))),
            (
                json!([{"address": "a", "insecureSkipVerify": true}]),
                Ok(AllowedEndpoints::Only(vec![(
                    endpoint,
                    Some(Trust::AnyCertificate),
                )])),
            ),
            (
                json!([{"address": "a"}, {"address": "https://b"}]),
                Err(
                    "spec.allowedServers[1].address: \"https://b\" is no host, and no host with a port",
                ),
            ),
            (
                json!([{"address": "a", "thumbprint": "AA"}]),
                Err(
                    "spec.allowedServers[0].thumbprint: \"AA\" is no SHA-1 and no SHA-256 \
                     fingerprint: 20 or 32 pairs of hexadecimal digits",
                ),
            ),
        ] {
            let bound = identity_servers(&json!({"allowedServers": servers}), 443);
            assert_eq!(bound, expected.map_err(str::to_owned), "{servers}");
        }
    }
}
