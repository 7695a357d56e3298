//! What a body needs from other objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use insula_identity::credential::Hidden;
use serde_json::Value;

/// The maximum number of other objects, and of keys in them, that one body needs: each is read from
/// the API server, and watched.
pub const MAX_NEEDS: usize = 256;
/// The maximum size of all values of Secrets and ConfigMaps that one body needs. ARM accepts bodies
/// of 4 MiB.
pub const MAX_VALUE_BYTES: usize = 8 << 20;
/// What an entry takes besides its key and its value: a Secret may have very many small ones.
const ENTRY_BYTES: usize = 64;

/// A reference to another resource in the object's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectReference {
    /// The group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// A reference to a resource in Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Through a custom resource.
    Object(ObjectReference),
    /// By its ARM id.
    Id(String),
}

/// A key of a Secret or ConfigMap in the object's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyReference {
    /// The name of the Secret or ConfigMap.
    pub name: String,
    /// The key.
    pub key: String,
}

/// The other objects that a body needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Custom resources, for their ARM ids.
    pub references: BTreeSet<ObjectReference>,
    /// Keys of Secrets.
    pub secrets: BTreeSet<KeyReference>,
    /// Secrets with all their keys.
    pub whole_secrets: BTreeSet<String>,
    /// Keys of ConfigMaps.
    pub config_maps: BTreeSet<KeyReference>,
}

impl Needs {
    /// Returns whether no other object is needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the number of needs after one was added.
    fn check_count(&self) -> Result<(), MappingError> {
        let secrets = self.secrets.len() + self.whole_secrets.len();
        match self.references.len() + secrets + self.config_maps.len() {
            0..=MAX_NEEDS => Ok(()),
            _ => Err(MappingError::TooManyNeeds),
        }
    }
}

/// The contents of the other objects.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// The ARM ids of custom resources.
    pub ids: BTreeMap<ObjectReference, String>,
    /// The data of Secrets by name.
    pub secrets: BTreeMap<String, BTreeMap<String, Hidden>>,
    /// The data of ConfigMaps by name.
    pub config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// The size of all values that were added.
    size: usize,
}

impl Resolved {
    /// Adds those keys of a Secret that are needed.
    ///
    /// # Errors
    ///
    /// If all values together are too large.
    pub fn add_secret(
        &mut self,
        needs: &Needs,
        name: &str,
        data: impl IntoIterator<Item = (String, Hidden)>,
    ) -> Result<(), MappingError> {
        let is_whole = needs.whole_secrets.contains(name);
        let is_needed =
            |key: &str| is_whole || needs.secrets.contains(&KeyReference::new(name, key));
        let kept = self.secrets.entry(name.to_owned()).or_default();
        for (key, value) in data.into_iter().filter(|(key, _)| is_needed(key)) {
            add_size(&mut self.size, &key, value.reveal().len())?;
            kept.insert(key, value);
        }
        Ok(())
    }

    /// Adds those keys of a ConfigMap that are needed.
    ///
    /// # Errors
    ///
    /// If all values together are too large.
    pub fn add_config_map(
        &mut self,
        needs: &Needs,
        name: &str,
        data: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), MappingError> {
        let is_needed = |key: &str| needs.config_maps.contains(&KeyReference::new(name, key));
        let kept = self.config_maps.entry(name.to_owned()).or_default();
        for (key, value) in data.into_iter().filter(|(key, _)| is_needed(key)) {
            add_size(&mut self.size, &key, value.len())?;
            kept.insert(key, value);
        }
        Ok(())
    }
}

/// Adds the size of a value with its key, and checks that it is not too large.
fn add_size(size: &mut usize, key: &str, value: usize) -> Result<(), MappingError> {
    *size = size.saturating_add(ENTRY_BYTES + key.len() + value);
    match *size {
        0..=MAX_VALUE_BYTES => Ok(()),
        _ => Err(MappingError::TooLarge),
    }
}

impl KeyReference {
    fn new(name: &str, key: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
        }
    }
}

/// A field that cannot be mapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// A reference, or a field that refers to a Secret or ConfigMap, is malformed.
    #[error("{path}: {message}")]
    Malformed {
        /// The path of the field.
        path: String,
        /// What is wrong.
        message: &'static str,
    },
    /// A custom resource is missing, or has no ARM id yet.
    #[error("{path}: {reference} does not exist or has no ARM id yet")]
    ReferenceNotFound {
        /// The path of the field.
        path: String,
        /// The custom resource.
        reference: ObjectReference,
    },
    /// A Secret is missing.
    #[error("{path}: the Secret {name:?} does not exist")]
    SecretNotFound {
        /// The path of the field.
        path: String,
        /// The name of the Secret.
        name: String,
    },
    /// A Secret has not the key, or has no text there.
    #[error("{path}: the Secret {name:?} has no text with the key {key:?}")]
    SecretKeyNotFound {
        /// The path of the field.
        path: String,
        /// The name of the Secret.
        name: String,
        /// The key.
        key: String,
    },
    /// A ConfigMap or its key is missing.
    #[error("{path}: the ConfigMap {name:?} does not exist or has no key {key:?}")]
    ConfigMapNotFound {
        /// The path of the field.
        path: String,
        /// The name of the ConfigMap.
        name: String,
        /// The key.
        key: String,
    },
    /// The body needs too many other objects.
    #[error("spec: it refers to more than {MAX_NEEDS} other objects and keys")]
    TooManyNeeds,
    /// The values of Secrets and ConfigMaps are too large.
    #[error(
        "spec: the values of Secrets and ConfigMaps that it refers to have more than {} MiB",
        MAX_VALUE_BYTES >> 20
    )]
    TooLarge,
}

impl MappingError {
    /// Returns the reason of the condition `Ready` while the error lasts.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::TooManyNeeds | Self::TooLarge => "Failed",
            Self::ReferenceNotFound { .. } => "ReferenceNotFound",
            Self::SecretNotFound { .. } | Self::SecretKeyNotFound { .. } => "SecretNotFound",
            Self::ConfigMapNotFound { .. } => "ConfigMapNotFound",
        }
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{} {:?}", self.kind, self.group, self.name)
    }
}

impl Reference {
    /// Parses `{group, kind, name}` or `{armId}`.
    ///
    /// # Errors
    ///
    /// If it is neither of both. The error is a message.
    pub fn parse(value: &Value) -> Result<Self, &'static str> {
        let member = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = member("armId");
        let parts = [member("group"), member("kind"), member("name")];
        let count = parts.iter().filter(|part| !part.is_empty()).count();
        match (id.is_empty(), count) {
            (false, 0) if !is_arm_id(id) => Err("armId is no ARM id"),
            (false, 0) => Ok(Self::Id(id.to_owned())),
            (true, 3) => {
                let [group, kind, name] = parts.map(str::to_owned);
                Ok(Self::Object(ObjectReference { group, kind, name }))
            }
            (true, 0) => Err("a reference needs either armId, or group, kind and name"),
            (true, _) => Err("a reference to a custom resource needs group, kind and name"),
            (false, _) => Err("a reference has either armId, or group, kind and name"),
        }
    }
}

/// Returns whether a text has the form of an ARM id: a subscription, a resource group, or a
/// provider with pairs of types and names in one of both or in the tenant.
pub fn is_arm_id(text: &str) -> bool {
    let Some(text) = text.strip_prefix('/') else {
        return false;
    };
    let mut parts: &[&str] = &text.split('/').collect::<Vec<_>>();
    if parts.iter().any(|part| part.is_empty()) {
        return false;
    }
    let mut has_scope = false;
    for scope in ["subscriptions", "resourcegroups"] {
        if let [first, _, rest @ ..] = parts
            && first.eq_ignore_ascii_case(scope)
            && (scope == "subscriptions" || has_scope)
        {
            has_scope = true;
            parts = rest;
        }
    }
    match parts {
        [] => has_scope,
        [first, _, pairs @ ..] if first.eq_ignore_ascii_case("providers") => {
            !pairs.is_empty() && pairs.len() % 2 == 0
        }
        _ => false,
    }
}

/// Access to other objects while a body is written.
pub(super) trait Lookup {
    fn id(&mut self, reference: ObjectReference, path: &str) -> Result<String, MappingError>;
    fn secret(&mut self, reference: KeyReference, path: &str) -> Result<String, MappingError>;
    fn whole_secret(&mut self, name: &str, path: &str) -> Result<Texts, MappingError>;
    fn config_map(&mut self, reference: KeyReference, path: &str) -> Result<String, MappingError>;
}

/// The texts of a Secret by key.
pub(super) type Texts = BTreeMap<String, String>;

/// Collects what is needed: every lookup succeeds with an empty text.
impl Lookup for Needs {
    fn id(&mut self, reference: ObjectReference, _: &str) -> Result<String, MappingError> {
        self.references.insert(reference);
        self.check_count().map(|()| String::new())
    }

    fn secret(&mut self, reference: KeyReference, _: &str) -> Result<String, MappingError> {
        self.secrets.insert(reference);
        self.check_count().map(|()| String::new())
    }

    fn whole_secret(&mut self, name: &str, _: &str) -> Result<Texts, MappingError> {
        self.whole_secrets.insert(name.to_owned());
        self.check_count().map(|()| Texts::new())
    }

    fn config_map(&mut self, reference: KeyReference, _: &str) -> Result<String, MappingError> {
        self.config_maps.insert(reference);
        self.check_count().map(|()| String::new())
    }
}

/// The contents of other objects while they are written into a body.
pub(super) struct Contents<'a> {
    resolved: &'a Resolved,
    /// The size of the values in the body, which may have the same one many times.
    written: usize,
}

impl<'a> Contents<'a> {
    pub(super) const fn new(resolved: &'a Resolved) -> Self {
        Self {
            resolved,
            written: 0,
        }
    }
}

impl Lookup for Contents<'_> {
    fn id(&mut self, reference: ObjectReference, path: &str) -> Result<String, MappingError> {
        let id = self.resolved.ids.get(&reference);
        add_size(&mut self.written, "", id.map_or(0, String::len))?;
        id.cloned().ok_or_else(|| MappingError::ReferenceNotFound {
            path: path.to_owned(),
            reference,
        })
    }

    fn secret(&mut self, reference: KeyReference, path: &str) -> Result<String, MappingError> {
        let KeyReference { name, key } = reference;
        let Some(data) = self.resolved.secrets.get(&name) else {
            let path = path.to_owned();
            return Err(MappingError::SecretNotFound { path, name });
        };
        let text = data.get(&key).and_then(Hidden::text);
        add_size(&mut self.written, "", text.map_or(0, str::len))?;
        text.map(str::to_owned)
            .ok_or_else(|| MappingError::SecretKeyNotFound {
                path: path.to_owned(),
                name,
                key,
            })
    }

    fn whole_secret(&mut self, name: &str, path: &str) -> Result<Texts, MappingError> {
        let Some(data) = self.resolved.secrets.get(name) else {
            return Err(MappingError::SecretNotFound {
                path: path.to_owned(),
                name: name.to_owned(),
            });
        };
        for (key, value) in data {
            add_size(&mut self.written, key, value.reveal().len())?;
        }
        let texts = data.iter().map(|(key, value)| {
            let text = value.text().map(|text| (key.clone(), text.to_owned()));
            text.ok_or_else(|| MappingError::SecretKeyNotFound {
                path: path.to_owned(),
                name: name.to_owned(),
                key: key.clone(),
            })
        });
        texts.collect()
    }

    fn config_map(&mut self, reference: KeyReference, path: &str) -> Result<String, MappingError> {
        let KeyReference { name, key } = reference;
        let data = self.resolved.config_maps.get(&name);
        let text = data.and_then(|data| data.get(&key));
        add_size(&mut self.written, "", text.map_or(0, String::len))?;
        text.cloned()
            .ok_or_else(|| MappingError::ConfigMapNotFound {
                path: path.to_owned(),
                name,
                key,
            })
    }
}
