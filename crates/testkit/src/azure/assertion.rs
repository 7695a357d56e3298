//! Client assertions, verified as Entra ID does.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_access::jwt::{Algorithm, KeySet, LEEWAY, Signed};
use serde_json::Value;

use super::directory::{Application, FederatedCredential};
use super::entra_error::EntraError;

/// An assertion that was read and not verified.
#[derive(Clone, Debug)]
pub(super) struct Assertion {
    text: String,
    header: Value,
    claims: Value,
}

impl Assertion {
    pub fn parse(text: &str) -> Result<Self, EntraError> {
        let mut parts = text.split('.').map(|part| {
            let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        });
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(header), Some(claims)) => Ok(Self {
                text: text.to_owned(),
                header,
                claims,
            }),
            _ => Err(EntraError::malformed_assertion()),
        }
    }

    pub fn issuer(&self) -> &str {
        self.claims["iss"].as_str().unwrap_or_default()
    }

    pub fn subject(&self) -> &str {
        self.claims["sub"].as_str().unwrap_or_default()
    }

    fn audiences(&self) -> Vec<&str> {
        match &self.claims["aud"] {
            Value::String(audience) => vec![audience],
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the client signed it with the key of its certificate.
    pub fn is_signed_by_client(&self, client: &str) -> bool {
        let thumbprint = ["x5t", "x5t#S256"]
            .iter()
            .any(|name| self.header.get(name).is_some());
        thumbprint || self.issuer().eq_ignore_ascii_case(client)
    }

    /// Verifies an assertion that the client signed.
    pub fn verify_certificate(
        &self,
        application: &Application,
        client: &str,
        endpoints: &[String],
        now: i64,
    ) -> Result<(), EntraError> {
        if !self.issuer().eq_ignore_ascii_case(client)
            || !self.subject().eq_ignore_ascii_case(client)
        {
            return Err(EntraError::assertion_of_another_client(client));
        }
        let thumbprint = |name: &str| self.header.get(name).and_then(Value::as_str);
        let certificate = application.certificates.iter().find(|certificate| {
            let (sha1, sha256) = (thumbprint("x5t"), thumbprint("x5t#S256"));
            let named = sha1.is_some() || sha256.is_some();
            let fits = sha1.is_none_or(|sha1| sha1 == certificate.sha1);
            named && fits && sha256.is_none_or(|sha256| sha256 == certificate.sha256)
        });
        let certificate = certificate.ok_or_else(|| EntraError::unknown_certificate(client))?;
        let keys = certificate.keys(self.header["kid"].as_str());
        self.verify_signature(&keys, &[Algorithm::Ps256, Algorithm::Rs256])
            .map_err(|()| EntraError::unknown_certificate(client))?;
        let mut audiences = self.audiences().into_iter();
        if !audiences.any(|audience| endpoints.iter().any(|endpoint| endpoint == audience)) {
            return Err(EntraError::wrong_audience());
        }
        self.check_time(now)
    }

    /// Finds the federated credential that accepts the claims.
    pub fn matching<'a>(
        &self,
        application: &'a Application,
    ) -> Result<&'a FederatedCredential, EntraError> {
        let all = &application.federated;
        if all.is_empty() {
            return Err(EntraError::no_federated_credential());
        }
        let of_issuer: Vec<_> = all
            .iter()
            .filter(|one| one.issuer == self.issuer())
            .collect();
        if of_issuer.is_empty() {
            return Err(EntraError::unknown_issuer(self.issuer()));
        }
        let of_subject = of_issuer.iter().filter(|one| one.subject == self.subject());
        let of_subject: Vec<_> = of_subject.collect();
        if of_subject.is_empty() {
            return Err(EntraError::unknown_subject(self.subject()));
        }
        let audiences = self.audiences();
        let found = of_subject
            .iter()
            .find(|one| audiences.contains(&one.audience.as_str()));
        found
            .map(|found| **found)
            .ok_or_else(|| EntraError::unknown_audience(&audiences.join(",")))
    }

    /// Verifies an assertion of another issuer with the keys that it publishes.
    pub fn verify_federated(&self, keys: &KeySet, now: i64) -> Result<(), EntraError> {
        self.verify_signature(keys, &Algorithm::ALL)
            .map_err(|()| EntraError::bad_signature())?;
        self.check_time(now)
    }

    fn verify_signature(&self, keys: &KeySet, algorithms: &[Algorithm]) -> Result<(), ()> {
        let signed = Signed::parse(&self.text).map_err(drop)?;
        if !algorithms.contains(&signed.algorithm()) {
            return Err(());
        }
        signed.verify(keys).map(drop).map_err(drop)
    }

    fn check_time(&self, now: i64) -> Result<(), EntraError> {
        let time = |name: &str| self.claims[name].as_i64();
        let Some(expires) = time("exp") else {
            return Err(EntraError::malformed_assertion());
        };
        let begins = time("nbf").or_else(|| time("iat")).unwrap_or_default();
        match now > expires.saturating_add(LEEWAY) || now.saturating_add(LEEWAY) < begins {
            true => Err(EntraError::outside_its_time(now, begins, expires)),
            false => Ok(()),
        }
    }
}
