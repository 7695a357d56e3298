//! What a client of the host side is made from.

use std::collections::BTreeMap;

use insula_identity::credential::{Credential, Fingerprint, Hidden};
use insula_identity::endpoint::Trust;
use insula_identity::shape::{Carried, Content};

use super::server::Server;

const SERVER: &str = "server";
const AUTHORITY: &str = "certificate-authority-data";
const SERVER_NAME: &str = "tls-server-name";
const INSECURE: &str = "insecure-skip-tls-verify";
const TOKEN: &str = "token";
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";
const AS: &str = "as";
const AS_UID: &str = "as-uid";
const AS_GROUPS: &str = "as-groups";
const AS_EXTRA: &str = "as-user-extra";

/// Access to the hosts of one namespace of an API server. Secrets are redacted in `Debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAccess {
    /// The API server.
    pub server: Server,
    /// The namespace of the hosts.
    pub namespace: String,
    /// How the server's certificate is verified.
    pub verification: Verification,
    /// The name that the certificate must have, if it is not the server's host.
    pub server_name: Option<String>,
    /// The account, apart from a client certificate.
    pub authentication: Authentication,
    /// The client certificate.
    pub certificate: Option<ClientCertificate>,
    /// The user that the account acts as.
    pub impersonation: Option<Impersonation>,
}

/// How a server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Against the usual authorities.
    Usual,
    /// Against these authorities alone, in PEM.
    Authorities(String),
    /// Not at all. The operator has to allow that.
    None,
}

/// The certificates that API servers of hosts may have, as the administrator of the operator
/// decides. A server without TLS is refused in any case: its network could read the credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostCertificates {
    /// Certificates that verify.
    #[default]
    Verified,
    /// Any certificate, if the kubeconfig says `insecure-skip-tls-verify`.
    AnyIfAsked,
}

/// An account at an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// A client certificate is all there is.
    CertificateOnly,
    /// A bearer token.
    Token(Hidden),
    /// A name and a password.
    Password {
        /// The name.
        username: String,
        /// The password.
        password: Hidden,
    },
}

/// A client certificate and its key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with intermediate ones.
    pub certificate: Hidden,
    /// The private key.
    pub key: Hidden,
}

/// A user that an account acts as, which the API server has to allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The name.
    pub user: String,
    /// The UID.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl HostAccess {
    /// Returns the access that a granted credential contains; none if the credential was not made
    /// from a kubeconfig.
    pub fn of(credential: &Credential) -> Option<Self> {
        let content = &credential.content;
        let text = |key: &str| content.get(key).and_then(Hidden::text);
        let owned = |key: &str| text(key).map(str::to_owned);
        let verification = match (owned(AUTHORITY), text(INSECURE)) {
            (_, Some(_)) => Verification::None,
            (Some(authorities), None) => Verification::Authorities(authorities),
            (None, None) => Verification::Usual,
        };
        let authentication = match (content.get(TOKEN), owned(USERNAME)) {
            (Some(token), _) => Authentication::Token(token.clone()),
            (None, Some(username)) => Authentication::Password {
                username,
                password: content.get(PASSWORD)?.clone(),
            },
            (None, None) => Authentication::CertificateOnly,
        };
        let certificate = match (content.get(CERTIFICATE), content.get(KEY)) {
            (Some(certificate), Some(key)) => Some(ClientCertificate {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        let impersonation = match owned(AS) {
            Some(user) => Some(Impersonation {
                user,
                uid: owned(AS_UID),
                groups: serde_json::from_str(text(AS_GROUPS)?).ok()?,
                extra: serde_json::from_str(text(AS_EXTRA)?).ok()?,
            }),
            None => None,
        };
        Some(Self {
            server: Server::parse(text(SERVER)?).ok()?,
            namespace: credential.scope.clone()?,
            verification,
            server_name: owned(SERVER_NAME),
            authentication,
            certificate,
            impersonation,
        })
    }

    /// Returns the access as the content of a credential. Everything that decides where a client
    /// acts, and as which user, is part of the key of its session: the values through their
    /// digest, the rest as what the credential carries.
    pub fn content(&self) -> Content {
        let mut values = BTreeMap::new();
        let mut put = |key: &str, value: Hidden| {
            values.insert(key.to_owned(), value);
        };
        put(SERVER, Hidden::new(self.server.url()));
        match &self.verification {
            Verification::Usual => {}
            Verification::Authorities(pem) => put(AUTHORITY, Hidden::new(pem.as_str())),
            Verification::None => put(INSECURE, Hidden::new("true")),
        }
        if let Some(name) = &self.server_name {
            put(SERVER_NAME, Hidden::new(name.as_str()));
        }
        match &self.authentication {
            Authentication::CertificateOnly => {}
            Authentication::Token(token) => put(TOKEN, token.clone()),
            Authentication::Password { username, password } => {
                put(USERNAME, Hidden::new(username.as_str()));
                put(PASSWORD, password.clone());
            }
        }
        if let Some(ClientCertificate { certificate, key }) = &self.certificate {
            put(CERTIFICATE, certificate.clone());
            put(KEY, key.clone());
        }
        if let Some(as_user) = &self.impersonation {
            put(AS, Hidden::new(as_user.user.as_str()));
            if let Some(uid) = &as_user.uid {
                put(AS_UID, Hidden::new(uid.as_str()));
            }
            let extra = serde_json::json!(as_user.extra);
            put(
                AS_GROUPS,
                Hidden::new(serde_json::json!(as_user.groups).to_string()),
            );
            put(AS_EXTRA, Hidden::new(extra.to_string()));
        }
        let carried = Carried {
            endpoint: self.server.endpoint.clone(),
            trust: self.trust(),
            scope: Some(self.namespace.clone()),
        };
        let carried = Some(carried);
        Content {
            values,
            carried,
            is_proven_by_namespace: false,
        }
    }

    /// Returns the accepted certificates. Failures are counted by them, so that the wrong
    /// authorities of one tenant do not delay another one at the same server.
    fn trust(&self) -> Trust {
        let mut parts = BTreeMap::new();
        match &self.verification {
            Verification::None => return Trust::AnyCertificate,
            Verification::Usual => {}
            Verification::Authorities(pem) => {
                parts.insert(AUTHORITY.to_owned(), Hidden::new(pem.as_str()));
            }
        }
        if let Some(name) = &self.server_name {
            parts.insert(SERVER_NAME.to_owned(), Hidden::new(name.as_str()));
        }
        match parts.is_empty() {
            true => Trust::Verified,
            false => Trust::AsCredential(Fingerprint::of(&parts).to_string()),
        }
    }

    /// Returns a sentence for a condition or an event if the access is less safe than it should
    /// be.
    pub fn warning(&self) -> Option<&'static str> {
        match self.verification {
            Verification::None => Some(
                "the certificate of the hosts' API server is not verified \
                 (insecure-skip-tls-verify)",
            ),
            Verification::Usual | Verification::Authorities(_) => None,
        }
    }
}
