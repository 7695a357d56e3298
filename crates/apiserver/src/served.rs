//! The kinds that a space serves.

use std::fmt;
use std::ops::Deref;

use insula_kinds::{Kind, KindId, kinds};

/// A kind in one version, as a space serves it.
#[derive(Clone)]
pub enum Served {
    /// One of those that every Kubernetes has.
    BuiltIn(KindId),
}

/// Where the objects of a kind are kept, whatever their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shelfmark<'a> {
    /// One of those that every Kubernetes has, as it is stored.
    BuiltIn(KindId),
    /// One that users define.
    Custom {
        /// Its group.
        group: &'a str,
        /// Its plural.
        resource: &'a str,
    },
}

/// What has a place in the cache.
pub trait Shelved {
    /// Which.
    fn shelfmark(&self) -> Shelfmark<'_>;
}

impl Served {
    /// The kind as which its objects are stored.
    pub fn storage(&self) -> Self {
        match self {
            Self::BuiltIn(id) => Self::BuiltIn(kinds().get(*id).storage()),
        }
    }

    /// Its place in the table, if it is one of those that every Kubernetes has.
    pub const fn id(&self) -> Option<KindId> {
        match self {
            Self::BuiltIn(id) => Some(*id),
        }
    }

    /// Whether it is this one of the table.
    pub fn is(&self, id: KindId) -> bool {
        self.id() == Some(id)
    }
}

impl Deref for Served {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::BuiltIn(id) => kinds().get(*id),
        }
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BuiltIn(one), Self::BuiltIn(other)) => one == other,
        }
    }
}

impl Eq for Served {}

impl From<KindId> for Served {
    fn from(id: KindId) -> Self {
        Self::BuiltIn(id)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.resource)
    }
}

impl Shelved for KindId {
    fn shelfmark(&self) -> Shelfmark<'_> {
        Shelfmark::BuiltIn(*self)
    }
}

impl Shelved for Served {
    fn shelfmark(&self) -> Shelfmark<'_> {
        match self {
            Self::BuiltIn(id) => Shelfmark::BuiltIn(*id),
        }
    }
}

impl Shelved for Shelfmark<'_> {
    fn shelfmark(&self) -> Shelfmark<'_> {
        *self
    }
}

impl<S: Shelved> Shelved for &S {
    fn shelfmark(&self) -> Shelfmark<'_> {
        (**self).shelfmark()
    }
}
