//! The resources that a space serves.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use insula_cache::{CollectionKey, Keyed};
use insula_core::Space;
use insula_custom::Schema;
use insula_custom::kind::Version;
use insula_kinds::{Kind, KindId, kinds};

use crate::registry::definitions::Defined;
use crate::status::{Result, StatusError};

/// A resource in one version, as a space serves it.
#[derive(Clone)]
pub enum Resource {
    /// A built-in resource.
    BuiltIn(KindId),
    /// A custom resource.
    Custom(Custom),
}

/// A custom resource in one version.
#[derive(Clone)]
pub struct Custom {
    defined: Arc<Defined>,
    version: usize,
    source: Space,
}

impl Resource {
    /// Returns the resource in its storage version.
    pub fn storage(&self) -> Self {
        match self {
            Self::BuiltIn(id) => Self::BuiltIn(kinds().get(*id).storage()),
            Self::Custom(custom) => Self::Custom(custom.storage()),
        }
    }

    /// Returns the ID in the table of kinds, if the resource is built in.
    pub const fn id(&self) -> Option<KindId> {
        match self {
            Self::BuiltIn(id) => Some(*id),
            Self::Custom(_) => None,
        }
    }

    /// Returns the custom resource, if it is one.
    pub const fn custom(&self) -> Option<&Custom> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Custom(custom) => Some(custom),
        }
    }

    /// Returns the merge schema of its objects.
    pub fn merges(&self) -> insula_ownership::Schema {
        match self {
            Self::BuiltIn(id) => insula_ownership::Schema::built_in(kinds().get(*id).type_id()),
            Self::Custom(custom) => custom.defined.merges(custom.version).clone(),
        }
    }

    /// Whether it is this built-in resource.
    pub fn is(&self, id: KindId) -> bool {
        self.id() == Some(id)
    }
}

impl Custom {
    /// Creates the resource of a definition in the space `source`, in the version at this
    /// index.
    pub const fn new(defined: Arc<Defined>, version: usize, source: Space) -> Self {
        Self {
            defined,
            version,
            source,
        }
    }

    /// Returns the space of its definition.
    pub const fn source(&self) -> &Space {
        &self.source
    }

    /// Returns its compiled definition.
    pub const fn defined(&self) -> &Arc<Defined> {
        &self.defined
    }

    /// Returns its version in the definition.
    pub fn version(&self) -> &Version {
        &self.defined.definition().versions[self.version]
    }

    /// Returns the resource in its storage version.
    pub fn storage(&self) -> Self {
        self.at(self.defined.storage())
    }

    /// Returns the resource in another version, if that exists.
    pub fn named(&self, version: &str) -> Option<Self> {
        self.defined
            .version(version)
            .map(|version| self.at(version))
    }

    fn at(&self, version: usize) -> Self {
        Self::new(Arc::clone(&self.defined), version, self.source.clone())
    }

    /// Returns the schema of this version.
    pub fn schema(&self) -> Result<&Arc<Schema>> {
        let schema = self.defined.schema(self.version);
        schema.map_err(StatusError::internal)
    }

    /// Whether the schemas of this version and of the storage version are compiled.
    pub fn is_ready(&self) -> bool {
        let wanted = [self.version, self.defined.storage()];
        wanted.iter().all(|at| self.defined.has_schema(*at))
    }

    /// Compiles its schemas, which may take a second.
    pub fn make_ready(&self) {
        for at in [self.version, self.defined.storage()] {
            // An error is kept and reported by `schema`.
            self.defined.schema(at).ok();
        }
    }

    /// Returns the hash that identifies this version of this definition.
    pub fn form(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.defined.id(), self.version).hash(&mut hasher);
        hasher.finish().max(1)
    }
}

impl Deref for Resource {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::BuiltIn(id) => kinds().get(*id),
            Self::Custom(custom) => &custom.version().kind,
        }
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BuiltIn(one), Self::BuiltIn(other)) => one == other,
            (Self::Custom(one), Self::Custom(other)) => {
                one.defined.id() == other.defined.id() && one.version == other.version
            }
            _ => false,
        }
    }
}

impl Eq for Resource {}

impl From<KindId> for Resource {
    fn from(id: KindId) -> Self {
        Self::BuiltIn(id)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.resource)
    }
}

impl Keyed for Resource {
    fn collection_key(&self) -> CollectionKey<'_> {
        match self {
            Self::BuiltIn(id) => CollectionKey::BuiltIn(*id),
            Self::Custom(custom) => {
                let kind = custom.defined.kind();
                CollectionKey::Custom {
                    group: &kind.group,
                    resource: &kind.resource,
                }
            }
        }
    }
}
