//! A CA of the operator's own and its serving certificate, in a Secret that all replicas share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tracing::info;

use super::rotation::{Material, rotate};
use super::{CertificateError, Certificates, Clock};
use crate::deadline::with_timeout;
use crate::webhook::API_TIMEOUT;

/// A Secret with a CA and a serving certificate, which are created and rotated by the replicas
/// of an operator. Each write is conditional, so replicas that start or rotate at the same time
/// agree on the first one's.
pub struct SecretCertificates {
    secrets: Api<Secret>,
    name: String,
    names: Vec<String>,
    clock: Clock,
    /// The certificate in use.
    loaded: Option<Material>,
}

/// The number of attempts when other replicas write at the same time.
const MAX_ATTEMPTS: usize = 8;

/// The keys of the Secret. `ca.crt` may have several CAs, of which the first one signs.
const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

impl SecretCertificates {
    /// Creates the source of a Secret, for certificates with these DNS names and IP addresses.
    pub fn new(client: &Client, namespace: &str, name: &str, names: Vec<String>) -> Self {
        Self::with_clock(client, namespace, name, names, Arc::new(SystemTime::now))
    }

    /// Creates the source of a Secret, with a clock of the caller's.
    pub fn with_clock(
        client: &Client,
        namespace: &str,
        name: &str,
        names: Vec<String>,
        clock: Clock,
    ) -> Self {
        Self {
            secrets: Api::namespaced(with_timeout(client, API_TIMEOUT), namespace),
            name: name.to_owned(),
            names,
            clock,
            loaded: None,
        }
    }

    /// Reads the Secret, rotates what is due and replaces the certificate if it has changed.
    /// Returns the CA bundle.
    pub(super) async fn refresh(
        &mut self,
        certificates: &Certificates,
    ) -> Result<String, CertificateError> {
        let material = self.ensure().await?;
        let bundle = material.ca_bundle.clone();
        if self.loaded.as_ref() != Some(&material) {
            certificates.replace(&material.certificate, &material.key, (self.clock)())?;
            self.loaded = Some(material);
        }
        Ok(bundle)
    }

    async fn ensure(&self) -> Result<Material, CertificateError> {
        for _ in 0..MAX_ATTEMPTS {
            let found = self.secrets.get_opt(&self.name).await.map_err(Box::new)?;
            let current = found.as_ref().and_then(read);
            let rotated = rotate(current.as_ref(), &self.names, (self.clock)())?;
            let material = match (current, rotated) {
                (Some(current), None) => return Ok(current),
                (_, Some(rotated)) => rotated,
                (None, None) => return Err(CertificateError::Contended),
            };
            match self.write(found, &material).await {
                Ok(_) => {
                    info!(secret = self.name, "webhook certificate rotated");
                    return Ok(material);
                }
                // Another replica was faster, or the Secret was deleted in between.
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(Box::new(error).into()),
            }
        }
        Err(CertificateError::Contended)
    }

    /// Creates the Secret, or replaces the version that was read.
    async fn write(&self, found: Option<Secret>, material: &Material) -> Result<Secret, Error> {
        let parameters = PostParams::default();
        match found {
            Some(mut secret) => {
                let data = secret.data.get_or_insert_default();
                data.extend(data_of(material));
                self.secrets.replace(&self.name, &parameters, &secret).await
            }
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    type_: Some("kubernetes.io/tls".to_owned()),
                    data: Some(data_of(material)),
                    ..Secret::default()
                };
                self.secrets.create(&parameters, &secret).await
            }
        }
    }
}

fn data_of(material: &Material) -> BTreeMap<String, ByteString> {
    let values = [
        &material.ca_bundle,
        &material.ca_key,
        &material.certificate,
        &material.key,
    ];
    let values = values.map(|value| ByteString(value.clone().into_bytes()));
    KEYS.map(str::to_owned).into_iter().zip(values).collect()
}

/// Returns the content of a Secret, or `None` if a key is missing.
fn read(secret: &Secret) -> Option<Material> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let [ca_bundle, ca_key, certificate, key] = KEYS.map(text);
    Some(Material {
        ca_bundle: ca_bundle?,
        ca_key: ca_key?,
        certificate: certificate?,
        key: key?,
    })
}
