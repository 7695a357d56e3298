//! The file with the keys of service account tokens.
//!
//! The first key is `service-account.key`, which the first start creates. With the first rotation
//! all keys are in one file, so that it is replaced atomically and can be copied to other servers.

use std::path::Path;

use insula_access::jwt::Signer;
use insula_apiserver::pipeline::service_account::{SigningKey, SigningKeys};
use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::private_file;
use crate::secret::Secret;

/// The keys, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeys {
    keys: Vec<TokenKey>,
}

/// A key, and the times of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// The key ID in tokens.
    pub id: String,
    /// When it begins to sign.
    pub signs_from: Timestamp,
    /// When its tokens are no longer accepted; `None` for the newest key.
    pub verifies_until: Option<Timestamp>,
    pem: Secret,
}

/// The phases in the life of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is known to verifiers, and does not sign yet.
    Published,
    /// It signs all new tokens.
    Signing,
    /// Its tokens are still accepted.
    Verifying,
    /// Its tokens are rejected.
    Expired,
}

/// The durations of a rotation.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long the new key is published before it signs.
    pub publish_for: SignedDuration,
    /// How long the old keys verify after that.
    pub grace: SignedDuration,
}

/// The file, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    keys: Vec<StoredKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredKey {
    id: String,
    signs_from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verifies_until: Option<String>,
    key: Secret,
}

/// The file with all keys, in the folder `pki`.
pub const FILE: &str = "service-account-keys.json";

/// The file with the first key.
pub const FIRST_KEY_FILE: &str = "service-account.key";

const RESTORE: &str = "nothing was changed; restore the pki folder from a backup";

impl TokenKeys {
    /// Reads the keys in a folder; `None` if there are none yet.
    pub fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let (all, first) = (folder.join(FILE), folder.join(FIRST_KEY_FILE));
        let wrong = |path: &Path, why: String| {
            let attempted = format!("cannot use {}", path.display());
            Failure::new(&attempted, why).hint(RESTORE)
        };
        if let Some(text) = private_file::read(&all)? {
            return Self::parse(&text).map(Some).map_err(|why| wrong(&all, why));
        }
        let Some(pem) = private_file::read(&first)? else {
            return Ok(None);
        };
        let key = TokenKey::new(Secret::new(pem), Timestamp::UNIX_EPOCH);
        let key = key.map_err(|why| wrong(&first, why))?;
        Ok(Some(Self { keys: vec![key] }))
    }

    /// Writes the file with all keys.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let stored = StoredKeys {
            keys: self.keys.iter().map(StoredKey::from).collect(),
        };
        let text = serde_json::to_string_pretty(&stored);
        let text = text.map_err(|error| Failure::new("cannot write keys", error))?;
        private_file::write(&folder.join(FILE), &(text + "\n"))
    }

    /// Returns the keys for use by a server.
    pub fn to_signing_keys(&self) -> Result<SigningKeys, Failure> {
        let keys = self.keys.iter().map(|key| {
            let der = der(&key.pem)?;
            let until = key.verifies_until.map(Timestamp::as_second);
            SigningKey::new(der.secret_der(), key.signs_from.as_second(), until)
                .map_err(|error| error.to_string())
        });
        let keys = keys.collect::<Result<Vec<_>, String>>();
        let keys = keys.and_then(|keys| SigningKeys::new(keys).map_err(|error| error.to_string()));
        keys.map_err(|error| Failure::new("cannot use the keys of service accounts", error))
    }

    /// Adds a new key. Existing keys verify until the grace period ends, or shorter if they are
    /// limited already. Expired keys are dropped, and so are keys that have signed nothing yet.
    pub fn rotate(&self, now: Timestamp, pace: Pace) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new("cannot rotate keys", error);
        let pair = KeyPair::generate().map_err(|error| failed(&error))?;
        let later = |time: Timestamp, duration| time.checked_add(duration);
        // Whole seconds, as tokens and servers count.
        let now = Timestamp::from_second(now.as_second()).map_err(|error| failed(&error))?;
        let signs_from = later(now, pace.publish_for).map_err(|error| failed(&error))?;
        let ends = later(signs_from, pace.grace).map_err(|error| failed(&error))?;
        let new = TokenKey::new(Secret::new(pair.serialize_pem()), signs_from);
        let used =
            |key: &&TokenKey| !matches!(self.phase(key, now), Phase::Expired | Phase::Published);
        let mut keys: Vec<TokenKey> = self.keys.iter().filter(used).cloned().collect();
        for key in &mut keys {
            let until = key.verifies_until.map_or(ends, |until| until.min(ends));
            key.verifies_until = Some(until);
        }
        keys.push(new.map_err(|error| failed(&error))?);
        Ok(Self { keys })
    }

    /// Returns the keys, oldest first.
    pub fn keys(&self) -> &[TokenKey] {
        &self.keys
    }

    /// Returns the phase of one of the keys.
    pub fn phase(&self, key: &TokenKey, now: Timestamp) -> Phase {
        let begun = |key: &&TokenKey| key.signs_from <= now && !key.is_expired(now);
        let signing = self
            .keys
            .iter()
            .filter(begun)
            .max_by_key(|key| key.signs_from);
        match signing {
            _ if key.is_expired(now) => Phase::Expired,
            _ if key.signs_from > now => Phase::Published,
            Some(signing) if signing.id == key.id => Phase::Signing,
            _ => Phase::Verifying,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let stored: StoredKeys = serde_json::from_str(text).map_err(|error| {
            // The error must not quote a key.
            format!("line {} is not as expected", error.line())
        })?;
        let keys = stored.keys.into_iter().map(TokenKey::try_from);
        let keys = Self {
            keys: keys.collect::<Result<_, _>>()?,
        };
        match keys.keys.iter().any(|key| key.verifies_until.is_none()) {
            true => Ok(keys),
            false => Err("no key verifies without a limit".to_owned()),
        }
    }
}

impl TokenKey {
    fn new(pem: Secret, signs_from: Timestamp) -> Result<Self, String> {
        let signer = Signer::new(der(&pem)?.secret_der()).map_err(|error| error.to_string())?;
        Ok(Self {
            id: signer.public().id().unwrap_or_default().to_owned(),
            signs_from,
            verifies_until: None,
            pem,
        })
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.verifies_until.is_some_and(|until| until <= now)
    }
}

impl From<&TokenKey> for StoredKey {
    fn from(key: &TokenKey) -> Self {
        Self {
            id: key.id.clone(),
            signs_from: key.signs_from.to_string(),
            verifies_until: key.verifies_until.map(|until| until.to_string()),
            key: key.pem.clone(),
        }
    }
}

impl TryFrom<StoredKey> for TokenKey {
    type Error = String;

    fn try_from(stored: StoredKey) -> Result<Self, String> {
        let time = |text: &str| {
            let time: Result<Timestamp, _> = text.parse();
            time.map_err(|error| error.to_string())
        };
        let key = Self::new(stored.key, time(&stored.signs_from)?)?;
        if key.id != stored.id {
            return Err(format!("the id {:?} is not that of its key", stored.id));
        }
        let until = stored.verifies_until.as_deref().map(time).transpose()?;
        Ok(Self {
            verifies_until: until,
            ..key
        })
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Published => "Published",
            Self::Signing => "Signing",
            Self::Verifying => "Verifying",
            Self::Expired => "Expired",
        })
    }
}

fn der(pem: &Secret) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.reveal().as_bytes())
        .map_err(|_| "not a PEM private key".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        publish_for: SignedDuration::from_secs(100),
        grace: SignedDuration::from_secs(1000),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn first(folder: &Path) -> TokenKeys {
        let pem = KeyPair::generate().unwrap().serialize_pem();
        std::fs::write(folder.join(FIRST_KEY_FILE), pem).unwrap();
        TokenKeys::read(folder).unwrap().unwrap()
    }

    fn phases(keys: &TokenKeys, second: i64) -> String {
        let phases = keys.keys.iter().map(|key| keys.phase(key, at(second)));
        let phases: Vec<String> = phases.map(|phase| phase.to_string()).collect();
        phases.join(" ")
    }

    #[test]
    fn rotation_publishes_then_signs_then_retires() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TokenKeys::read(folder.path()).unwrap(), None);
        let one = first(folder.path());
        assert_eq!(phases(&one, 5000), "Signing");
        let two = one.rotate(at(5000), PACE).unwrap();
        for (second, expected) in [
            (5000, "Signing Published"),
            (5099, "Signing Published"),
            (5100, "Verifying Signing"),
            (6099, "Verifying Signing"),
            (6100, "Expired Signing"),
        ] {
            assert_eq!(phases(&two, second), expected, "at {second}");
            // The server decides alike.
            let served = two.to_signing_keys().unwrap();
            let signing = served.signing_at(second).unwrap().id().to_owned();
            let expected = expected.split(' ').position(|one| one == "Signing");
            assert_eq!(signing, two.keys[expected.unwrap()].id);
            let published = served.published_at(second).keys().len();
            assert_eq!(published, if second < 6100 { 2 } else { 1 });
        }
        two.write(folder.path()).unwrap();
        assert_eq!(TokenKeys::read(folder.path()).unwrap(), Some(two.clone()));
        // A third key ends no grace period later than it was, and drops expired keys.
        let three = two.rotate(at(5200), PACE).unwrap();
        let ends: Vec<_> = three.keys.iter().map(|key| key.verifies_until).collect();
        assert_eq!(ends, [Some(at(6100)), Some(at(6300)), None]);
        let later = three.rotate(at(6200), PACE).unwrap();
        assert_eq!(later.keys[0].id, three.keys[1].id);
        assert_eq!(phases(&later, 6200), "Verifying Signing Published");
        // A key that has signed nothing is replaced.
        let again = two.rotate(at(5050), PACE).unwrap();
        assert_eq!(phases(&again, 5050), "Signing Published");
        assert_ne!(again.keys[1].id, two.keys[1].id);
        assert_eq!(again.keys[0].verifies_until, Some(at(6100)));
        // Without publication and grace, the new key is the only one.
        let none = Pace {
            publish_for: SignedDuration::ZERO,
            grace: SignedDuration::ZERO,
        };
        let now = two.rotate(at(5050), none).unwrap();
        assert_eq!(phases(&now, 5050), "Expired Signing");
    }

    #[test]
    fn damaged_file_is_refused_without_quoting_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let keys = first(folder.path()).rotate(at(0), PACE).unwrap();
        keys.write(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        let good = std::fs::read_to_string(&path).unwrap();
        let shown = format!("{keys:?}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
        for (from, to, expected) in [
            ("{", "[", "is not as expected"),
            (r#""signsFrom""#, r#""other""#, "is not as expected"),
            (&keys.keys[1].id, "x", "the id \"x\" is not that of its key"),
            ("BEGIN PRIVATE", "BEGIN", "not a PEM private key"),
            ("1970-01-01", "soon", "failed to parse"),
        ] {
            std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
            let said = TokenKeys::read(folder.path()).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
            assert!(said.contains(FILE), "{said}");
        }
        let limited = keys.keys[..1].to_vec();
        TokenKeys { keys: limited }.write(folder.path()).unwrap();
        let said = TokenKeys::read(folder.path()).unwrap_err().to_string();
        assert!(said.contains("no key verifies without a limit"), "{said}");
    }
}
