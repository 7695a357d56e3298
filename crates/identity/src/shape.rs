//! The contents of Secrets: what an operator needs, and which server they name.

use std::collections::BTreeMap;
use std::fmt;

use crate::credential::Hidden;
use crate::endpoint::{Endpoint, Trust};

/// What a Secret must contain.
pub trait Shape: fmt::Debug + Send + Sync {
    /// Describes the contents for the author of a Secret, such as `username and password`.
    fn describe(&self) -> String;

    /// Returns what is used of a Secret. A part selects one of several credentials in it, such
    /// as a context of a kubeconfig.
    ///
    /// # Errors
    ///
    /// If the contents cannot be used.
    fn read(
        &self,
        data: &BTreeMap<String, Hidden>,
        part: Option<&str>,
    ) -> Result<Content, InvalidContent>;

    /// Returns contents that can be used, for an explanation without the right to read a Secret.
    /// If contents have parts, the sample is read with any part.
    fn sample(&self) -> BTreeMap<String, Hidden>;
}

/// What is used of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The values by key.
    pub values: BTreeMap<String, Hidden>,
    /// The server that they name themselves.
    pub carried: Option<Carried>,
    /// Whether they contain no secret: the namespace that the Secret is in proves the account, for
    /// example with a token of a service account. Equal contents of two namespaces are then two
    /// accounts.
    pub is_proven_by_namespace: bool,
}

/// A server that a credential names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The server.
    pub endpoint: Endpoint,
    /// The server certificates that are accepted.
    pub trust: Trust,
    /// The scope at the server, such as a namespace or a subscription.
    pub scope: Option<String>,
}

/// Why contents cannot be used, as the end of a sentence about the Secret. No content is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidContent {
    /// Keys are missing or empty.
    #[error("lacks {}", .0.join(" and "))]
    Lacks(Vec<String>),
    /// The value under a key is not text.
    #[error("has a {0} that is not UTF-8 text")]
    NotText(String),
    /// A part does not exist.
    #[error("has no {kind} {name:?}")]
    NoPart {
        /// What parts are, such as `context`.
        kind: &'static str,
        /// The name of the part.
        name: String,
    },
    /// The contents use something that operators do not support, or must not.
    #[error("{0}")]
    Unsupported(String),
}

/// Texts under fixed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The keys that must be there, with values.
    pub required: &'static [&'static str],
    /// The keys that may be there.
    pub optional: &'static [&'static str],
}

impl Shape for Texts {
    fn describe(&self) -> String {
        self.required.join(" and ")
    }

    fn read(
        &self,
        data: &BTreeMap<String, Hidden>,
        part: Option<&str>,
    ) -> Result<Content, InvalidContent> {
        if let Some(name) = part {
            let (kind, name) = ("part", name.to_owned());
            return Err(InvalidContent::NoPart { kind, name });
        }
        let has_value = |key: &&str| data.get(*key).is_some_and(|value| !value.is_empty());
        let missing = self.required.iter().copied().filter(|key| !has_value(key));
        let missing: Vec<_> = missing.map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(InvalidContent::Lacks(missing));
        }
        let mut values = BTreeMap::new();
        for key in self.required.iter().chain(self.optional) {
            if let Some(value) = data.get(*key) {
                let text = value.text();
                text.ok_or_else(|| InvalidContent::NotText((*key).to_owned()))?;
                values.insert((*key).to_owned(), value.clone());
            }
        }
        Ok(Content {
            values,
            ..Content::default()
        })
    }

    fn sample(&self) -> BTreeMap<String, Hidden> {
        let keys = self.required.iter();
        keys.map(|key| ((*key).to_owned(), Hidden::new("?")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Texts = Texts {
        required: &["username", "password"],
        optional: &["domain"],
    };

    #[test]
    fn texts_are_read_and_nothing_is_dropped_silently() {
        let text = |text: &str| Hidden::new(text);
        type Row<'a> = (
            &'a [(&'a str, Hidden)],
            Option<&'a str>,
            Result<&'a [&'a str], &'a str>,
        );
        let table: [Row<'_>; 6] = [
            (
                &[("username", text("u")), ("password", text("p"))],
                None,
                Ok(&["password", "username"]),
            ),
            (
                &[
                    ("username", text("u")),
                    ("password", text("p")),
                    ("domain", text("")),
                    ("other", text("x")),
                ],
                None,
                Ok(&["domain", "password", "username"]),
            ),
            (&[], None, Err("lacks username and password")),
            (
                &[("username", text("u")), ("password", text(""))],
                None,
                Err("lacks password"),
            ),
            (
                &[
                    ("username", text("u")),
                    ("password", Hidden::new([0xff, 0xfe])),
                ],
                None,
                Err("has a password that is not UTF-8 text"),
            ),
            (
                &[("username", text("u")), ("password", text("p"))],
                Some("x"),
                Err("has no part \"x\""),
            ),
        ];
        for (data, part, expected) in table {
            let data = data.iter().cloned();
            let data = data.map(|(key, value)| (key.to_owned(), value)).collect();
            let read = ACCOUNT.read(&data, part);
            let keys = read.as_ref().map(|content| {
                let keys = content.values.keys();
                keys.map(String::as_str).collect::<Vec<_>>()
            });
            let expected = expected.map(<[&str]>::to_vec);
            let read = keys.map_err(ToString::to_string);
            assert_eq!(read, expected.map_err(str::to_owned));
        }
        assert_eq!(ACCOUNT.describe(), "username and password");
        assert!(ACCOUNT.read(&ACCOUNT.sample(), None).is_ok());
    }
}
