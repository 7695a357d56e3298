//! Text that is borrowed where it can be.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A text.
#[derive(Clone)]
pub enum Text<'a> {
    /// It belongs to an object or to a program.
    Borrowed(&'a str),
    /// It was computed.
    Shared(Arc<str>),
}

impl<'a> Text<'a> {
    /// How many characters it has.
    pub fn chars(&self) -> usize {
        self.chars_of().count()
    }

    fn chars_of(&self) -> std::str::Chars<'_> {
        str::chars(self)
    }

    /// A part of it, which `cut` finds: borrowed if this text is.
    pub(crate) fn part(&self, cut: impl FnOnce(&str) -> std::ops::Range<usize>) -> Text<'a> {
        match self {
            Self::Borrowed(text) => Text::Borrowed(&text[cut(text)]),
            Self::Shared(text) => Text::Shared(text[cut(text)].into()),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for Text<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Text<'_> {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}
