//! Entra ID: tenants, applications, managed identities and issued tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_access::jwt::{Jwk, KeySet, PublicKey};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use uuid::Uuid;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::journal::Caller;

/// Entra ID.
#[derive(Debug)]
pub(super) struct Directory {
    tenants: BTreeSet<String>,
    applications: BTreeMap<(String, String), Application>,
    tokens: BTreeMap<String, IssuedToken>,
    /// The managed identities of the machine: pairs of a tenant and a client id.
    pub machine: Vec<Caller>,
    /// The audiences for which tokens are issued.
    pub audiences: BTreeSet<String>,
    pub lifetime: Duration,
    /// How far the clock of the fake is ahead.
    pub clock: Duration,
}

/// An application and its credentials.
#[derive(Clone, Debug, Default)]
pub(super) struct Application {
    pub principal: String,
    pub secrets: Vec<Secret>,
    pub certificates: Vec<Certificate>,
    pub federated: Vec<FederatedCredential>,
}

/// A client secret.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    pub value: String,
    pub expired: bool,
}

/// A certificate of an application.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    /// The header `x5t` of assertions.
    pub sha1: String,
    /// The header `x5t#S256` of assertions.
    pub sha256: String,
    key: Jwk,
}

/// A federated credential: the assertions of another issuer that an application accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederatedCredential {
    /// The claim `iss`, byte for byte.
    pub issuer: String,
    /// The claim `sub`.
    pub subject: String,
    /// The claim `aud`, usually `api://AzureADTokenExchange`.
    pub audience: String,
}

/// A token and the identity that it stands for.
#[derive(Clone, Debug)]
pub(super) struct IssuedToken {
    pub caller: Caller,
    pub audience: String,
    /// In seconds since 1970.
    pub expires: i64,
}

/// The audience of ARM, with the slash at its end.
pub(super) const ARM_AUDIENCE: &str = "https://management.core.windows.net/";

impl Default for Directory {
    fn default() -> Self {
        let audiences = [
            ARM_AUDIENCE,
            "https://management.azure.com/",
            "https://management.azure.com",
        ];
        Self {
            tenants: BTreeSet::new(),
            applications: BTreeMap::new(),
            tokens: BTreeMap::new(),
            machine: Vec::new(),
            audiences: audiences.map(str::to_owned).into(),
            lifetime: Duration::from_secs(3599),
            clock: Duration::ZERO,
        }
    }
}

impl Directory {
    pub fn add_tenant(&mut self, tenant: &str) {
        self.tenants.insert(tenant.to_ascii_lowercase());
    }

    pub fn has_tenant(&self, tenant: &str) -> bool {
        self.tenants.contains(&tenant.to_ascii_lowercase())
    }

    /// The application of a client id, added with its tenant if it is new.
    pub fn application_mut(&mut self, tenant: &str, client: &str) -> &mut Application {
        self.add_tenant(tenant);
        self.applications
            .entry(key(tenant, client))
            .or_insert_with(|| Application {
                principal: Uuid::new_v4().to_string(),
                ..Application::default()
            })
    }

    pub fn application(&self, tenant: &str, client: &str) -> Option<&Application> {
        self.applications.get(&key(tenant, client))
    }

    pub fn remove_application(&mut self, tenant: &str, client: &str) {
        self.applications.remove(&key(tenant, client));
    }

    /// The time in seconds since 1970.
    pub fn now(&self) -> i64 {
        let ahead = i64::try_from(self.clock.as_secs()).unwrap_or(i64::MAX);
        jiff::Timestamp::now().as_second().saturating_add(ahead)
    }

    /// Issues a token in the form of a JWT whose signature no client can verify.
    pub fn issue(&mut self, caller: &Caller, audience: &str) -> String {
        let now = self.now();
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        let expires = now.saturating_add(lifetime);
        let claims = json!({
            "aud": audience, "tid": caller.tenant, "appid": caller.client, "oid": caller.principal,
            "iat": now, "nbf": now, "exp": expires, "uti": Uuid::new_v4().to_string(),
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"typ": "JWT", "alg": "RS256", "kid": "fake"});
        let signature = URL_SAFE_NO_PAD.encode(Uuid::new_v4().as_bytes());
        let token = format!("{}.{}.{signature}", part(header), part(claims));
        let issued = IssuedToken {
            caller: caller.clone(),
            audience: audience.to_owned(),
            expires,
        };
        self.tokens.insert(token.clone(), issued);
        token
    }

    pub fn token(&self, token: &str) -> Option<&IssuedToken> {
        self.tokens.get(token)
    }

    /// Makes all issued tokens unknown to ARM.
    pub fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }
}

impl Certificate {
    /// Reads a certificate in PEM.
    pub fn read(pem: &str) -> anyhow::Result<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())?;
        let (_, parsed) = X509Certificate::from_der(&der)?;
        let mut key = PublicKey::from_der(parsed.public_key().raw)?.to_jwk();
        // One key signs with PS256 and with RS256.
        key.alg = None;
        Ok(Self {
            sha1: URL_SAFE_NO_PAD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &der)),
            sha256: URL_SAFE_NO_PAD.encode(digest(&SHA256, &der)),
            key,
        })
    }

    /// The key, under the id that an assertion gives it: assertions name the certificate, and
    /// choose the id freely.
    pub fn keys(&self, key_id: Option<&str>) -> KeySet {
        let mut key = self.key.clone();
        key.kid = key_id.map(str::to_owned);
        PublicKey::from_jwk(&key).ok().into_iter().collect()
    }
}

fn key(tenant: &str, client: &str) -> (String, String) {
    (tenant.to_ascii_lowercase(), client.to_ascii_lowercase())
}
