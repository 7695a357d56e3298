//! Records of owners: users can read and copy them, but not forge them.
//!
//! A record names the server that has accepted a resource from an object. It is signed for this
//! object alone, with a key that is in a Secret of the operator's namespace. Without the key no
//! record of an earlier process counts, so the operator does not start without it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_operator::key::Key;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::normal;
use crate::arm::ResourceId;
use crate::names::{ACCEPTED_ID, ACCEPTED_PROOF, OWNERSHIP_KEY_SECRET};

/// The key of the Secret's data.
const DATA_KEY: &str = "key";
/// The length of the key in bytes.
const KEY_LENGTH: usize = 32;
/// How often the Secret is read while that fails.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The key that records are signed with.
#[derive(Clone, Debug)]
pub(in crate::operator) struct RecordKey(hmac::Key);

/// The annotations that record that an object owns a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::operator) struct Record {
    id: String,
    proof: String,
}

impl Record {
    /// Adds the annotations to others.
    pub(in crate::operator) fn add_to(self, annotations: &mut Map<String, Value>) {
        annotations.insert(ACCEPTED_ID.to_owned(), self.id.into());
        annotations.insert(ACCEPTED_PROOF.to_owned(), self.proof.into());
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum NoKey {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("it has no key of {KEY_LENGTH} bytes: delete it, and a new one is created")]
    Invalid,
    #[error("there are no random numbers")]
    NoRandomNumbers,
}

impl RecordKey {
    pub(super) fn new(key: &[u8; KEY_LENGTH]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Reads the key of an operator, and creates it if there is none. Tries again until that
    /// succeeds.
    pub(in crate::operator) async fn load(client: &Client, namespace: &str) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        let mut reported = None;
        loop {
            let error = match read_or_create(&secrets).await {
                Ok(key) => return Self::new(&key),
                Err(error) => error.to_string(),
            };
            // One line is enough for each reason.
            match reported.as_ref() == Some(&error) {
                true => debug!(secret = OWNERSHIP_KEY_SECRET, namespace, %error, "key not read"),
                false => warn!(secret = OWNERSHIP_KEY_SECRET, namespace, %error, "key not read"),
            }
            reported = Some(error);
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns the record of an object whose resource a server has accepted.
    pub(super) fn sign(&self, key: &Key, uid: &str, id: &ResourceId, server: &str) -> Record {
        let tag = hmac::sign(&self.0, &signed(key, uid, id, server));
        Record {
            id: id.as_str().to_owned(),
            proof: format!("{server} {}", URL_SAFE_NO_PAD.encode(tag)),
        }
    }

    /// Returns the server that has accepted a resource from an object, if this operator has
    /// recorded that.
    pub(super) fn verify(
        &self,
        key: &Key,
        metadata: &ObjectMeta,
        id: &ResourceId,
    ) -> Option<Arc<str>> {
        let proof = metadata.annotations.as_ref()?.get(ACCEPTED_PROOF)?;
        let (server, tag) = proof.rsplit_once(' ')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let message = signed(key, metadata.uid.as_deref()?, id, server);
        hmac::verify(&self.0, &message, &tag).ok()?;
        Some(server.into())
    }
}

/// Returns what is signed. The UID makes it worthless for every other object.
fn signed(key: &Key, uid: &str, id: &ResourceId, server: &str) -> Vec<u8> {
    let parts = [
        "owner of an Azure resource",
        &key.text(),
        uid,
        server,
        &normal(id),
    ];
    // Texts can always be represented as JSON, which keeps the parts apart.
    serde_json::to_vec(&parts).unwrap_or_default()
}

async fn read_or_create(secrets: &Api<Secret>) -> Result<[u8; KEY_LENGTH], NoKey> {
    if let Some(found) = secrets.get_opt(OWNERSHIP_KEY_SECRET).await? {
        return key_of(&found);
    }
    let mut key = [0; KEY_LENGTH];
    let random = SystemRandom::new().fill(&mut key);
    random.map_err(|_| NoKey::NoRandomNumbers)?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(OWNERSHIP_KEY_SECRET.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([(DATA_KEY.to_owned(), ByteString(key.to_vec()))].into()),
        ..Secret::default()
    };
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(created) => {
            info!(secret = OWNERSHIP_KEY_SECRET, "key created");
            key_of(&created)
        }
        // Another instance was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = secrets.get(OWNERSHIP_KEY_SECRET).await?;
            key_of(&found)
        }
        Err(error) => Err(error.into()),
    }
}

fn key_of(secret: &Secret) -> Result<[u8; KEY_LENGTH], NoKey> {
    let key = secret.data.as_ref().and_then(|data| data.get(DATA_KEY));
    let key = key.and_then(|key| key.0.as_slice().try_into().ok());
    key.ok_or(NoKey::Invalid)
}
