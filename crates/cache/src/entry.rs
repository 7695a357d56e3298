//! One object in the cache: the bytes that are sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::{BufMut, Bytes};
use insula_core::Revision;
use insula_kinds::scan::Members as ObjectMembers;
use insula_kinds::{Kind, Object, Value};
use insula_store::Expect;
use memchr::memchr;
use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::pool::Pool;
use crate::template::Template;
use crate::tenant_fields::copy_without;
use crate::text::Text;
use crate::versions::Versions;

/// An object as it is sent, with its resourceVersion in it.
#[derive(Debug)]
pub struct Stored {
    /// `namespace/name`, or `name` where there are no namespaces: the order of lists.
    pub key: Arc<str>,
    /// The revision of its last change.
    pub revision: Revision,
    /// The JSON, beginning with `{"kind":"…","apiVersion":"…",`.
    text: Text,
    /// Whether it is a built-in object, which every space has and no store.
    pub built_in: bool,
    /// When it was last written, in seconds since 1970, if it [expires](crate::expiry); else zero.
    pub written: u32,
    labels: OnceLock<Labels>,
    /// The lengths of the messages, by [`Message`]; zero if not known yet.
    message_lengths: [AtomicU32; 2],
    /// Of custom objects and of large objects only.
    extras: OnceLock<Box<Extras>>,
}

/// What is kept beside few objects.
#[derive(Debug, Default)]
struct Extras {
    /// The object in other versions.
    versions: Versions,
    /// The parts that table rows show; empty if they are not worth keeping.
    row_parts: OnceLock<Box<[u8]>>,
}

/// A protobuf message of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The object.
    Object,
    /// Its metadata.
    Metadata,
}

/// The size from which on the parts that table rows show are kept.
const MIN_LARGE: usize = 16 << 10;

/// The labels of an object, few and sorted.
pub type Labels = Box<[(Box<str>, Box<str>)]>;

impl Stored {
    /// The object that the store holds as `value`, as of `revision`.
    pub fn new(key: Arc<str>, revision: Revision, value: &[u8]) -> Self {
        Self::of(key, revision, Text::whole(value, revision))
    }

    /// The same, with its chunks shared through the pool.
    pub fn shared(key: Arc<str>, revision: Revision, value: &[u8], pool: &Arc<Pool>) -> Self {
        Self::of(key, revision, Text::shared(value, revision, pool))
    }

    /// The same, held as this template.
    pub(crate) const fn filled(key: Arc<str>, revision: Revision, template: Template) -> Self {
        Self::of(key, revision, Text::Template(template))
    }

    /// The same, held as a template and the values that fill it.
    pub fn templated(key: Arc<str>, revision: Revision, value: &[u8], pool: &Arc<Pool>) -> Self {
        Self::of(key, revision, Text::templated(value, revision, pool))
    }

    /// An object that was not stored, and so has no resourceVersion.
    pub const fn unsaved(key: Arc<str>, body: Bytes) -> Self {
        Self::of(key, Revision::ZERO, Text::Whole(body))
    }

    const fn of(key: Arc<str>, revision: Revision, text: Text) -> Self {
        Self {
            key,
            revision,
            text,
            built_in: false,
            written: 0,
            labels: OnceLock::new(),
            message_lengths: [AtomicU32::new(0), AtomicU32::new(0)],
            extras: OnceLock::new(),
        }
    }

    /// The same, last written at this time.
    pub const fn dated(mut self, written: u32) -> Self {
        self.written = written;
        self
    }

    /// A built-in object, which every space has and no store.
    pub fn built_in(key: Arc<str>, revision: Revision, value: &[u8]) -> Self {
        Self {
            built_in: true,
            ..Self::new(key, revision, value)
        }
    }

    /// The same object with another body.
    pub fn shown_as(&self, body: Bytes) -> Self {
        Self {
            revision: self.revision,
            ..Self::unsaved(Arc::clone(&self.key), body)
        }
    }

    /// The object in other versions.
    pub fn versions(&self) -> &Versions {
        &self.extras.get_or_init(Box::default).versions
    }

    /// Returns the length of a message of the object, which is computed once.
    pub fn message_length(&self, message: Message, compute: impl FnOnce() -> usize) -> usize {
        let kept = &self.message_lengths[message as usize];
        match kept.load(Ordering::Relaxed) {
            0 => {
                let length = compute();
                kept.store(u32::try_from(length).unwrap_or(0), Ordering::Relaxed);
                length
            }
            length => length as usize,
        }
    }

    /// Returns the parts of a large object that table rows show, which are selected once. `None`
    /// if the object is small, or if the parts are not much smaller.
    pub fn row_parts(&self, select: impl FnOnce(&[u8]) -> Vec<u8>) -> Option<&[u8]> {
        let length = self.text.length();
        if length < MIN_LARGE {
            return None;
        }
        let extras = self.extras.get_or_init(Box::default);
        let parts = extras.row_parts.get_or_init(|| {
            let parts = select(&self.body());
            match parts.len() < length / 8 {
                true => parts.into(),
                false => Box::default(),
            }
        });
        (!parts.is_empty()).then_some(parts)
    }

    /// Returns the JSON of the metadata. Nothing after it is read or assembled.
    pub fn metadata_text(&self) -> Cow<'_, [u8]> {
        self.text.metadata()
    }

    /// Returns the JSON from the metadata on, at least to their end, which is not looked for.
    pub fn text_from_metadata(&self) -> Cow<'_, [u8]> {
        self.text.tail_from_metadata()
    }

    /// The same object without the fields that name its tenant.
    pub fn without_tenant_fields(&self) -> Self {
        let mut json = Vec::new();
        self.copy_without_tenant_fields(0, &mut json);
        self.shown_as(json.into())
    }

    /// Like [`metadata_text`](Self::metadata_text), without the fields that name its tenant.
    pub fn write_metadata_without_tenant_fields(&self, out: &mut Vec<u8>) {
        copy_without(&self.metadata_text(), 0, 0, out);
    }

    /// Like [`write_item`](Self::write_item), without the fields that name its tenant.
    pub fn write_item_without_tenant_fields(&self, kind: &Kind, out: &mut Vec<u8>) {
        self.copy_without_tenant_fields(head_length(kind), out);
    }

    fn copy_without_tenant_fields(&self, from: usize, out: &mut Vec<u8>) {
        let json = self.text.bytes();
        match ObjectMembers::new(&json, 0).start_of(b"metadata") {
            Some(metadata) => copy_without(&json, from, metadata, out),
            None => out.extend_from_slice(json.get(from..).unwrap_or_default()),
        }
    }

    /// Returns the precondition of a transaction that changes the object.
    pub const fn expected(&self) -> Expect {
        match self.built_in {
            true => Expect::Absent,
            false => Expect::At(self.revision),
        }
    }

    /// The last state of the object, at the revision of its deletion.
    pub fn deleted(&self, revision: Revision) -> Self {
        Self::of(Arc::clone(&self.key), revision, self.text.at(revision))
    }

    /// Returns the JSON as it is sent. That copies nothing, unless the object is
    /// [shared](Self::is_shared) and has to be assembled.
    pub fn body(&self) -> Cow<'_, Bytes> {
        self.text.bytes()
    }

    /// Returns the beginning of the JSON, at most `max` bytes.
    pub fn beginning(&self, max: usize) -> Cow<'_, [u8]> {
        self.text.beginning(max)
    }

    /// The length of the JSON.
    pub fn length(&self) -> usize {
        self.text.length()
    }

    /// Whether the JSON is held in chunks that other objects share.
    pub const fn is_shared(&self) -> bool {
        self.text.is_shared()
    }

    /// The namespace; `None` of a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    /// Writes the JSON as an item of a list: without `kind` and `apiVersion`, from after the
    /// opening brace.
    pub fn write_item(&self, kind: &Kind, out: &mut impl BufMut) {
        self.text.write(head_length(kind), out);
    }

    /// The length of [`write_item`](Self::write_item)'s output.
    pub fn item_length(&self, kind: &Kind) -> usize {
        self.text.length().saturating_sub(head_length(kind))
    }

    /// Returns the value of a label. Labels are parsed once, at the first selection by labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        let labels = self.labels();
        let found = labels
            .binary_search_by(|(key, _)| key.as_ref().cmp(name))
            .ok()?;
        Some(&labels[found].1)
    }

    /// Returns the labels, sorted by key.
    pub fn labels(&self) -> &Labels {
        self.labels.get_or_init(|| read_labels(&self.body()))
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<String> {
        // Most objects do not contain the name anywhere.
        let body = self.body();
        memmem::find(&body, name.as_bytes())?;
        let mut annotations = read_metadata::<Annotated>(&body).annotations;
        annotations.remove(name).map(String::from)
    }

    /// Returns the tenant that the metadata names; `None` of an object of the system.
    pub fn tenant(&self) -> Option<Box<str>> {
        let tenant = read_metadata::<Owned>(&self.body()).tenant;
        tenant.filter(|tenant| !tenant.is_empty())
    }

    /// The UID. Every stored object has one, near its beginning.
    pub fn uid(&self) -> Option<&str> {
        self.text.uid()
    }

    /// The creation time, in seconds since 1970.
    pub fn created(&self) -> Option<i64> {
        let created = read_metadata::<Created>(&self.body()).creation_timestamp?;
        let time: jiff::Timestamp = created.parse().ok()?;
        Some(time.as_second())
    }

    /// The length of the value in the store.
    pub fn stored_length(&self) -> usize {
        let length = self.text.length();
        // An object that was never stored, or has no UID, contains no resourceVersion.
        if self.revision == Revision::ZERO || self.uid().is_none() {
            return length;
        }
        let digits = self.revision.get().checked_ilog10().unwrap_or(0) as usize + 1;
        length.saturating_sub(",\"resourceVersion\":\"\"".len() + digits)
    }

    /// Whether the object is being deleted.
    pub fn is_terminating(&self) -> bool {
        // Names and UIDs cannot hold this text, and what precedes the end of the metadata is
        // the server's own writing but for labels and annotations, which follow it.
        const MARK: &[u8] = br#","deletionTimestamp":""#;
        let head = self.beginning(1024);
        head.windows(MARK.len()).any(|window| window == MARK)
            && self
                .tree()
                .get("metadata")
                .is_some_and(|meta| meta.get("deletionTimestamp").is_some())
    }

    /// Parses the whole object.
    pub fn tree(&self) -> Object {
        serde_json::from_slice(&self.body()).unwrap_or_default()
    }

    /// Parses the object without its managed fields, and returns their text, which is most of the
    /// members of a small object. `None` if it has none.
    pub fn tree_without_managed_fields(&self) -> Option<(Object, Bytes)> {
        let body = self.body();
        let mut text = None;
        let mut reader = serde_json::Deserializer::from_slice(&body);
        let tree = WithoutManagedFields(&mut text)
            .deserialize(&mut reader)
            .ok()?;
        reader.end().ok()?;
        Some((tree, body.slice_ref(text?.get().as_bytes())))
    }

    /// Whether these bytes are the value in the store.
    pub fn is_stored_as(&self, value: &[u8]) -> bool {
        let body = self.body();
        let Some(revision) = revision_member(&body) else {
            return **body == *value;
        };
        let (before, after) = (&body[..revision.start], &body[revision.end..]);
        value.len() == before.len() + after.len()
            && value.starts_with(before)
            && value.ends_with(after)
    }

    /// Returns roughly how much memory the object takes; of shared chunks, those it added.
    pub fn weight(&self) -> usize {
        self.text.weight() + self.key.len() + size_of::<Self>()
    }
}

/// The length of `{"kind":"…","apiVersion":"…",`. Items of custom resources keep it, because the
/// kind of a list does not determine the kind of its items.
fn head_length(kind: &Kind) -> usize {
    if kind.is_custom() {
        return 1;
    }
    r#"{"kind":"","apiVersion":"","#.len() + kind.kind.len() + kind.api_version().len()
}

/// Returns the range of the UID. Every stored object has one, and the fields before it cannot
/// contain this text (names and paths have no quotes).
pub(super) fn uid(json: &[u8]) -> Option<Range<usize>> {
    static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""uid":""#));
    let at = MARK.find(json)? + MARK.needle().len();
    let length = memchr(b'"', &json[at..])?;
    Some(at..at + length)
}

/// Returns the offset at which the resourceVersion is inserted: right after the UID.
pub(super) fn after_uid(json: &[u8]) -> Option<usize> {
    uid(json).map(|uid| uid.end + 1)
}

/// Returns the JSON with its resourceVersion.
pub(crate) fn with_revision(json: &[u8], revision: Revision) -> Bytes {
    let mut whole = Vec::new();
    write_with_revision(json, revision, &mut whole);
    whole.into()
}

/// Writes the JSON with its resourceVersion. A new buffer has the right capacity afterwards.
pub(crate) fn write_with_revision(json: &[u8], revision: Revision, out: &mut Vec<u8>) {
    const BEFORE: &[u8] = br#","resourceVersion":""#;
    let Some(at) = after_uid(json) else {
        out.extend_from_slice(json);
        return;
    };
    let mut digits = [0; MAX_DIGITS];
    let digits = decimal(revision.get(), &mut digits);
    out.reserve_exact(json.len() + BEFORE.len() + digits.len() + 1);
    for part in [&json[..at], BEFORE, digits, b"\"", &json[at..]] {
        out.extend_from_slice(part);
    }
}

/// The digits of the largest revision.
const MAX_DIGITS: usize = 20;

/// Writes a number at the end of the buffer, and returns its digits.
fn decimal(mut number: u64, buffer: &mut [u8; MAX_DIGITS]) -> &[u8] {
    let mut start = MAX_DIGITS;
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[start..];
        }
    }
}

/// Returns the JSON as it is stored.
pub fn without_revision(json: &[u8]) -> Bytes {
    match revision_member(json) {
        None => Bytes::copy_from_slice(json),
        Some(member) => [&json[..member.start], &json[member.end..]].concat().into(),
    }
}

/// Returns the range of the resourceVersion, with the comma before it.
fn revision_member(json: &[u8]) -> Option<Range<usize>> {
    const MARK: &[u8] = br#","resourceVersion":""#;
    let at = after_uid(json).filter(|at| json[*at..].starts_with(MARK))?;
    let from = at + MARK.len();
    let length = json[from..].iter().position(|byte| *byte == b'"');
    let end = length.map_or(json.len(), |length| from + length + 1);
    Some(at..end)
}

/// Parses the labels, and nothing after the metadata.
fn read_labels(json: &[u8]) -> Labels {
    let labels = read_metadata::<Labelled>(json).labels;
    labels.into_iter().collect()
}

pub(super) fn read_metadata<'de, M: Deserialize<'de> + Default>(json: &'de [u8]) -> M {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut metadata = M::default();
    // Stopping after the metadata is an error to serde; the metadata is read by then.
    reader.deserialize_map(Members(&mut metadata)).ok();
    metadata
}

#[derive(Default, Deserialize)]
struct Labelled {
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    creation_timestamp: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct Owned {
    tenant: Option<Box<str>>,
}

/// Deserializes the metadata into `M`, and stops.
struct Members<'a, M>(&'a mut M);

impl<'de, M: Deserialize<'de>> Visitor<'de> for Members<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(member) = map.next_key::<&str>()? {
            if member == "metadata" {
                *self.0 = map.next_value()?;
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Deserializes an object, and leaves the text of its managed fields.
struct WithoutManagedFields<'a, 'de>(&'a mut Option<&'de RawValue>);

/// The same for the metadata.
struct MetadataWithoutManagedFields<'a, 'de>(&'a mut Option<&'de RawValue>);

impl<'de> DeserializeSeed<'de> for WithoutManagedFields<'_, 'de> {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Object, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WithoutManagedFields<'_, 'de> {
    type Value = Object;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => {
                    let metadata = MetadataWithoutManagedFields(self.0);
                    Value::Object(map.next_value_seed(metadata)?)
                }
                _ => map.next_value()?,
            };
            object.insert(name, value);
        }
        Ok(object)
    }
}

impl<'de> DeserializeSeed<'de> for MetadataWithoutManagedFields<'_, 'de> {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Object, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetadataWithoutManagedFields<'_, 'de> {
    type Value = Object;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::new();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "managedFields" => *self.0 = Some(map.next_value()?),
                _ => {
                    object.insert(name, map.next_value()?);
                }
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::kinds;

    const OBJECT: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u-1","labels":{"b":"2","a":"1"}},"data":{"uid":"x"}}"#;

    fn stored() -> Stored {
        Stored::new("n/a".into(), Revision::new(7), OBJECT.as_bytes())
    }

    #[test]
    fn resource_version_follows_the_uid() {
        let stored = stored();
        let body = stored.body();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(
            text.contains(r#""uid":"u-1","resourceVersion":"7","labels""#),
            "{text}"
        );
        assert_eq!(without_revision(&body), OBJECT);
        assert!(stored.is_stored_as(OBJECT.as_bytes()));
        let other = OBJECT.replace("u-1", "u-2");
        assert!(!stored.is_stored_as(other.as_bytes()));
        assert!(!stored.is_stored_as(&body));
    }

    #[test]
    fn stored_value_contains_no_revision() {
        for revision in [1, 9, 10, 99, 100, 123_456, u64::MAX] {
            let stored = Stored::new("n/a".into(), Revision::new(revision), OBJECT.as_bytes());
            assert_eq!(stored.stored_length(), OBJECT.len(), "{revision}");
        }
        let unsaved = Stored::unsaved("n/a".into(), OBJECT.into());
        assert_eq!(unsaved.stored_length(), OBJECT.len());
    }

    #[test]
    fn deletion_has_the_last_state_at_its_own_revision() {
        let deleted = stored().deleted(Revision::new(9));
        let body = deleted.body();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains(r#""resourceVersion":"9""#) && !text.contains(r#":"7""#));
    }

    #[test]
    fn list_item_has_no_kind() {
        let id = kinds().find("", "v1", "configmaps").unwrap();
        let kind = kinds().get(id);
        let mut item = Vec::new();
        stored().write_item(kind, &mut item);
        assert!(item.starts_with(br#""metadata":{"name":"a""#), "{item:?}");
        assert_eq!(stored().item_length(kind), item.len());
    }

    #[test]
    fn nothing_after_the_metadata_is_parsed() {
        let json = r#"{"kind":"K","metadata":{"uid":"u","annotations":{"a":"1"},"tenant":"t1"},"#;
        let stored = Stored::new("a".into(), Revision::new(7), json.as_bytes());
        assert_eq!(stored.tenant().as_deref(), Some("t1"));
        assert_eq!(stored.annotation("a").as_deref(), Some("1"));
        let cut = Stored::new("a".into(), Revision::new(7), &json.as_bytes()[..50]);
        assert_eq!((cut.tenant(), cut.label("a")), (None, None));
    }

    #[test]
    fn message_lengths_are_computed_once() {
        let stored = stored();
        assert_eq!(stored.message_length(Message::Object, || 7), 7);
        assert_eq!(stored.message_length(Message::Metadata, || 5), 5);
        let again = || unreachable!("the length is known");
        assert_eq!(stored.message_length(Message::Object, again), 7);
    }

    #[test]
    fn row_parts_of_large_objects_are_selected_once() {
        let large = format!(r#"{{"data":"{}"}}"#, "x".repeat(MIN_LARGE));
        let large = Stored::unsaved("a".into(), large.into());
        assert_eq!(large.row_parts(|_| b"{}".to_vec()), Some(&b"{}"[..]));
        let again = |_: &[u8]| unreachable!("the parts are known");
        assert_eq!(large.row_parts(again), Some(&b"{}"[..]));
        assert_eq!(stored().row_parts(again), None);
        let same = Stored::unsaved("a".into(), large.body().into_owned());
        assert_eq!(same.row_parts(<[u8]>::to_vec), None);
        assert_eq!(same.row_parts(again), None);
    }

    #[test]
    fn labels_are_found_by_name() {
        let stored = stored();
        assert_eq!(stored.label("a"), Some("1"));
        assert_eq!(stored.label("b"), Some("2"));
        assert_eq!(stored.label("c"), None);
        assert_eq!((stored.namespace(), stored.name()), (Some("n"), "a"));
    }
}
