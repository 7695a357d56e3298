//! The JSON of an object that every space has: a template, and the values that fill it.
//!
//! Ten thousand tenants have the same namespaces, service accounts and CA bundles. Their common
//! text is held once; each object holds only its own values: some names, a time, its UID and its
//! resourceVersion.

use std::sync::Arc;

use bytes::BufMut;
use insula_core::Revision;
use memchr::{memchr, memchr2, memmem};

use crate::pool::{Chunk, Pool};

/// A filled template.
#[derive(Debug)]
pub struct Template {
    /// The common text, with a [`GAP`] for each value.
    form: Arc<Chunk>,
    /// The values of this object, each preceded by its length.
    filled: Box<[u8]>,
    /// The bytes of the common text that were not in the pool before.
    new: usize,
}

/// The most bytes of a template: longer objects were edited, and are alike nowhere.
const MAX_LENGTH: usize = 4 << 10;

/// Stands for a value: JSON never contains this byte.
const GAP: u8 = 0xff;

/// The text before the UID.
const UID: &[u8] = br#""uid":""#;

/// The text before the resourceVersion.
const REVISION: &[u8] = br#""resourceVersion":""#;

/// The texts before values that differ. They decide only how much is shared: a template always
/// reproduces its text.
const BEFORE_GAPS: [&[u8]; 8] = [
    UID,
    REVISION,
    br#""namespace":""#,
    b"/tenants/",
    b"/namespaces/",
    br#""creationTimestamp":""#,
    br#""deletionTimestamp":""#,
    br#""tenant":""#,
];

impl Template {
    /// Returns the text as a filled template; `None` if it has no UID or no resourceVersion, so is
    /// not stored, or if it is too long.
    pub fn of(json: &[u8], pool: &Arc<Pool>) -> Option<Self> {
        let whole = has(json, UID) && has(json, REVISION) && memchr(GAP, json).is_none();
        if json.len() > MAX_LENGTH || !whole {
            return None;
        }
        let mut gaps: Vec<_> = BEFORE_GAPS
            .iter()
            .filter_map(|mark| gap(json, mark))
            .collect();
        gaps.sort_unstable();
        let (mut form, mut filled) = (Vec::with_capacity(json.len()), Vec::with_capacity(128));
        let mut from = 0;
        for (start, end) in gaps {
            if start < from {
                continue;
            }
            form.extend_from_slice(&json[from..start]);
            form.push(GAP);
            fill(&mut filled, &json[start..end]);
            from = end;
        }
        form.extend_from_slice(&json[from..]);
        let (form, new) = pool.add_whole(&form);
        let filled = filled.into();
        Some(Self { form, filled, new })
    }

    /// Returns the text as values that fill the form of another template, if it has that form.
    /// Nothing of the form is searched or copied, so this costs a comparison.
    pub fn like(other: &Self, json: &[u8]) -> Option<Self> {
        let mut filled = Vec::with_capacity(other.filled.len() + 8);
        let mut rest = json;
        let mut parts = other.form.bytes().split(|byte| *byte == GAP).peekable();
        while let Some(part) = parts.next() {
            rest = rest.strip_prefix(part)?;
            if parts.peek().is_some() {
                let length = value_length(rest)?;
                fill(&mut filled, &rest[..length]);
                rest = &rest[length..];
            }
        }
        rest.is_empty().then(|| Self {
            form: Arc::clone(&other.form),
            filled: filled.into(),
            new: 0,
        })
    }

    /// The same at another revision.
    pub fn at(&self, revision: Revision) -> Self {
        let mut filled = Vec::with_capacity(self.filled.len() + 8);
        for (before, is) in self.pairs() {
            match before.ends_with(REVISION) {
                true => fill(&mut filled, revision.to_string().as_bytes()),
                false => fill(&mut filled, is),
            }
        }
        // No value follows the last part of the template.
        filled.pop();
        Self {
            form: Arc::clone(&self.form),
            filled: filled.into(),
            new: 0,
        }
    }

    /// The UID.
    pub fn uid(&self) -> Option<&str> {
        let mut pairs = self.pairs();
        let (_, uid) = pairs.find(|(before, _)| before.ends_with(UID))?;
        std::str::from_utf8(uid).ok()
    }

    /// The length of the text.
    pub fn length(&self) -> usize {
        self.pairs()
            .map(|(before, is)| before.len() + is.len())
            .sum()
    }

    /// Writes the text from offset `from` on.
    pub fn write(&self, from: usize, out: &mut impl BufMut) {
        let mut skip = from;
        for part in self.pairs().flat_map(|(before, is)| [before, is]) {
            let skipped = skip.min(part.len());
            out.put_slice(&part[skipped..]);
            skip -= skipped;
        }
    }

    /// Returns how much memory the object added.
    pub const fn weight(&self) -> usize {
        self.filled.len() + self.new
    }

    /// The parts of the template, each with the value after it.
    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut filled = &*self.filled;
        let parts = self.form.bytes().split(|byte| *byte == GAP);
        parts.map(move |part| (part, next(&mut filled)))
    }
}

fn has(json: &[u8], mark: &[u8]) -> bool {
    memmem::find(json, mark).is_some()
}

/// Returns the range of the value after the mark, if it is short.
fn gap(json: &[u8], mark: &[u8]) -> Option<(usize, usize)> {
    let start = memmem::find(json, mark)? + mark.len();
    let length = value_length(&json[start..])?;
    Some((start, start + length))
}

/// Returns the length of the value that a text begins with, if it is short.
fn value_length(text: &[u8]) -> Option<usize> {
    memchr2(b'"', b'/', text).filter(|length| *length <= usize::from(u8::MAX))
}

/// Appends a value, which is as short as [`value_length`] allows.
fn fill(filled: &mut Vec<u8>, text: &[u8]) {
    filled.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    filled.extend_from_slice(&text[..text.len().min(usize::from(u8::MAX))]);
}

fn next<'a>(filled: &mut &'a [u8]) -> &'a [u8] {
    let Some((length, rest)) = filled.split_first() else {
        return &[];
    };
    let (text, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    *filled = rest;
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::with_revision;

    fn map(tenant: &str, namespace: &str, uid: &str) -> Vec<u8> {
        format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"kube-root-ca.crt","namespace":"{namespace}","selfLink":"/api/v1/tenants/{tenant}/namespaces/{namespace}/configmaps/kube-root-ca.crt","uid":"{uid}","creationTimestamp":"2026-01-01T00:00:0{}Z","tenant":"{tenant}"}},"data":{{"ca.crt":"-----BEGIN","x":"/tenants/ \"uid\":\""}}}}"#,
            uid.len() % 10
        )
        .into()
    }

    fn text(template: &Template) -> Vec<u8> {
        let mut text = Vec::new();
        template.write(0, &mut text);
        text
    }

    #[test]
    fn template_reproduces_the_text_and_shares_the_common_part() {
        let pool = Arc::new(Pool::default());
        let mut letters = Vec::new();
        for (tenant, namespace, uid) in [
            ("t1", "default", "u"),
            (
                "another-tenant",
                "kube-system",
                "6b1f1c0e-5d0c-4f6e-9d0a-0123456789ab",
            ),
        ] {
            let json = with_revision(&map(tenant, namespace, uid), Revision::new(7));
            let template = Template::of(&json, &pool).unwrap();
            assert_eq!(text(&template), json);
            assert_eq!((template.length(), template.uid()), (json.len(), Some(uid)));
            assert!(
                template.weight() < 140 + template.new,
                "{}",
                template.weight()
            );
            for from in [0, 1, 40, 200, json.len(), json.len() + 9] {
                let mut rest = Vec::new();
                template.write(from, &mut rest);
                assert_eq!(rest, json[from.min(json.len())..], "{from}");
            }
            let later = Revision::new(123_456_789);
            let json = with_revision(&map(tenant, namespace, uid), later);
            assert_eq!(text(&template.at(later)), json);
            assert_eq!(
                text(&template.at(later).at(Revision::new(7))),
                text(&template)
            );
            letters.push(template);
        }
        assert_eq!(pool.count(), 1, "one form for both");
        assert_eq!(
            letters.iter().filter(|template| template.new > 0).count(),
            1
        );
        drop(letters);
        assert_eq!(pool.count(), 0);
    }

    #[test]
    fn template_reproduces_any_object() {
        let pool = Arc::new(Pool::default());
        for odd in [
            r#"{"uid":"","resourceVersion":""}"#.to_owned(),
            r#"{"uid":"u","resourceVersion":"1","tenant":"","namespace":"/"}"#.to_owned(),
            r#"{"x":"/tenants//namespaces/","uid":"u","resourceVersion":"1"}"#.to_owned(),
            format!(
                r#"{{"uid":"u","resourceVersion":"1","tenant":"{}"}}"#,
                "x".repeat(255)
            ),
            format!(
                r#"{{"uid":"u","resourceVersion":"1","tenant":"{}"}}"#,
                "x".repeat(256)
            ),
        ] {
            let template = Template::of(odd.as_bytes(), &pool).unwrap();
            assert_eq!(text(&template), odd.as_bytes(), "{odd}");
            assert_eq!(template.length(), odd.len(), "{odd}");
        }
        for none in [
            &b"{}"[..],
            br#"{"uid":"u"}"#,
            b"\"uid\":\"\xff\"resourceVersion\":\"",
        ] {
            assert!(Template::of(none, &pool).is_none(), "{none:?}");
        }
        let long = format!(
            r#"{{"uid":"u","resourceVersion":"1","x":"{}"}}"#,
            "x".repeat(MAX_LENGTH)
        );
        assert!(Template::of(long.as_bytes(), &pool).is_none());
        assert_eq!(pool.count(), 0);
    }
}
