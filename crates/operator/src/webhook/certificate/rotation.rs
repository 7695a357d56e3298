//! When the CA and the serving certificate are replaced. A pure function of time.
//!
//! A new CA is published before it is used: it is added to the bundle, and signs a serving
//! certificate only after [`PROPAGATION`], when every API server has seen the bundle. The old CA
//! stays in the bundle until it expires.

use std::fmt;
use std::time::{Duration, SystemTime};

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::issue::{self, BACKDATE, Issued};

/// The lifetime of a CA.
pub const CA_LIFETIME: Duration = Duration::from_secs(365 * 86_400);
/// The lifetime of a serving certificate.
pub const SERVING_LIFETIME: Duration = Duration::from_secs(90 * 86_400);
/// The remaining lifetime at which a CA is replaced: longer than a serving certificate lives, so
/// that none ends early because of its CA.
const CA_RENEWAL: Duration = Duration::from_secs(120 * 86_400);
/// The remaining lifetime at which a serving certificate is replaced.
const SERVING_RENEWAL: Duration = Duration::from_secs(30 * 86_400);
/// The time between the publication of a CA and its use.
const PROPAGATION: Duration = Duration::from_secs(86_400);
/// The remaining lifetime at which a serving certificate does not wait for the propagation.
const MIN_REMAINING: Duration = Duration::from_secs(3600);

/// The content of the Secret, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The CAs that clients trust. The first one signs.
    pub ca_bundle: String,
    /// The key of the CA that signs.
    pub ca_key: String,
    /// The serving certificate.
    pub certificate: String,
    /// The key of the serving certificate.
    pub key: String,
}

impl fmt::Debug for Material {
    /// Leaves the keys out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Material");
        shown.field("ca_bundle", &self.ca_bundle);
        shown.field("certificate", &self.certificate);
        shown.finish_non_exhaustive()
    }
}

/// Returns the material that has to replace the current one, or `None` if that can stay.
pub(super) fn rotate(
    current: Option<&Material>,
    names: &[String],
    now: SystemTime,
) -> Result<Option<Material>, rcgen::Error> {
    let Some(current) = current else {
        return create(&[], names, now).map(Some);
    };
    let trusted = valid_authorities(&current.ca_bundle, now);
    let signs = |ca: &&CertificateDer<'_>| issue::is_key_of(ca, &current.ca_key);
    let Some(ca) = trusted.first().filter(signs) else {
        // The key is lost, but other replicas may still serve certificates of these CAs.
        return create(&trusted, names, now).map(Some);
    };
    let renews_ca = remaining(ca, now) <= CA_RENEWAL;
    let Some(serving) = Serving::of(current, &trusted, names, now) else {
        return match renews_ca {
            true => create(&trusted, names, now).map(Some),
            false => reissue(current, ca, &trusted, names, now).map(Some),
        };
    };
    if renews_ca {
        let Issued { certificate, key } = issue::authority(now, CA_LIFETIME)?;
        return Ok(Some(Material {
            ca_bundle: format!("{certificate}{}", bundle(&trusted)),
            ca_key: key,
            ..current.clone()
        }));
    }
    let is_due = serving.remaining <= SERVING_RENEWAL || !serving.is_issued_by(ca);
    let published = issue::validity(ca).map_or(now, |validity| validity.from + BACKDATE);
    let may_sign = published + PROPAGATION <= now || serving.remaining <= MIN_REMAINING;
    if is_due && may_sign {
        return reissue(current, ca, &trusted, names, now).map(Some);
    }
    // CAs that have expired leave the bundle.
    let bundle = bundle(&trusted);
    let is_current = bundle == current.ca_bundle;
    Ok((!is_current).then(|| Material {
        ca_bundle: bundle,
        ..current.clone()
    }))
}

/// A serving certificate that clients accept.
struct Serving {
    der: CertificateDer<'static>,
    remaining: Duration,
}

impl Serving {
    /// Returns the serving certificate, unless it has to be replaced at once.
    fn of(
        material: &Material,
        trusted: &[CertificateDer<'_>],
        names: &[String],
        now: SystemTime,
    ) -> Option<Self> {
        super::certified_key(&material.certificate, &material.key).ok()?;
        let der = CertificateDer::from_pem_slice(material.certificate.as_bytes()).ok()?;
        let serving = Self {
            remaining: remaining(&der, now),
            der,
        };
        let is_usable = !serving.remaining.is_zero()
            && issue::has_names(&serving.der, names)
            && trusted.iter().any(|ca| serving.is_issued_by(ca));
        is_usable.then_some(serving)
    }

    fn is_issued_by(&self, ca: &[u8]) -> bool {
        issue::is_issued_by(&self.der, ca)
    }
}

/// Issues a serving certificate with the CA that there is.
fn reissue(
    current: &Material,
    ca: &CertificateDer<'_>,
    trusted: &[CertificateDer<'_>],
    names: &[String],
    now: SystemTime,
) -> Result<Material, rcgen::Error> {
    let issued = issue::serving(ca, &current.ca_key, names, now, SERVING_LIFETIME)?;
    Ok(Material {
        ca_bundle: bundle(trusted),
        ca_key: current.ca_key.clone(),
        certificate: issued.certificate,
        key: issued.key,
    })
}

/// Creates a CA and a serving certificate at once, beside CAs that are still trusted.
fn create(
    trusted: &[CertificateDer<'_>],
    names: &[String],
    now: SystemTime,
) -> Result<Material, rcgen::Error> {
    let ca = issue::authority(now, CA_LIFETIME)?;
    let der = CertificateDer::from_pem_slice(ca.certificate.as_bytes());
    let der = der.map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    let issued = issue::serving(&der, &ca.key, names, now, SERVING_LIFETIME)?;
    Ok(Material {
        ca_bundle: format!("{}{}", ca.certificate, bundle(trusted)),
        ca_key: ca.key,
        certificate: issued.certificate,
        key: issued.key,
    })
}

/// Returns the certificates of a bundle that have not expired. What cannot be parsed is dropped.
fn valid_authorities(pem: &str, now: SystemTime) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    let valid = certificates.filter(|der| !remaining(der, now).is_zero());
    valid.collect()
}

fn remaining(der: &[u8], now: SystemTime) -> Duration {
    let until = issue::validity(der).and_then(|validity| validity.until.duration_since(now).ok());
    until.unwrap_or_default()
}

/// Encodes certificates like rcgen does, so that an unchanged bundle is the same text.
fn bundle(certificates: &[CertificateDer<'_>]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let blocks = certificates
        .iter()
        .map(|der| pem::encode_config(&Pem::new("CERTIFICATE", der.to_vec()), config));
    blocks.collect()
}

#[cfg(test)]
mod tests;
