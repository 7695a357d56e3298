//! What is asked.

use std::fmt;

/// What a request asks of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object.
    Get,
    /// All objects that a selector chooses.
    List,
    /// Changes as they happen.
    Watch,
    /// A new object.
    Create,
    /// An object in whole.
    Update,
    /// A part of an object.
    Patch,
    /// An object gone.
    Delete,
    /// All objects that a selector chooses gone.
    DeleteCollection,
}

impl Verb {
    /// As rules and discovery name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// From how rules and discovery name it.
    pub fn parse(text: &str) -> Option<Self> {
        const ALL: [Verb; 8] = [
            Verb::Get,
            Verb::List,
            Verb::Watch,
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
            Verb::DeleteCollection,
        ];
        ALL.into_iter().find(|verb| verb.as_str() == text)
    }

    /// Whether it changes nothing.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
