//! Strings that are borrowed where possible.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A string.
#[derive(Clone)]
pub enum Text<'a> {
    /// A part of an object or a program.
    Borrowed(&'a str),
    /// A computed string.
    Shared(Arc<str>),
}

impl<'a> Text<'a> {
    /// Returns the number of characters.
    pub fn chars(&self) -> usize {
        self.chars_of().count()
    }

    fn chars_of(&self) -> std::str::Chars<'_> {
        str::chars(self)
    }

    /// Returns the part that `cut` selects, borrowed if this string is.
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
