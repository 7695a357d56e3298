//! Lists of objects, encoded while they are sent.

use std::sync::Arc;

use insula_kinds::protobuf::{self, ListFrame};
use insula_kinds::{cbor, encode, print};

use super::{ListMeta, View, go_type, list_meta, list_meta_tree};
use crate::codec::body::Body;
use crate::codec::list::{FIRST_PIECE, List, WriteItem};
use crate::codec::yaml;
use crate::flow_control::{HEAVY, cpu_bound};
use crate::request::negotiate::{Form, Media};
use crate::status::{Result, StatusError};
use insula_cache::{Message, Shown, Stored, TenantFields};

/// The messages of a list's items: their length, and those at the beginning that were encoded to
/// measure it.
#[derive(Default)]
struct Measured {
    length: usize,
    encoded: Vec<u8>,
    encoded_items: usize,
}

/// The usual length of a table row.
const ROW_LENGTH: usize = 1 << 10;

impl View {
    /// Encodes a list of objects.
    pub fn list(&self, objects: Vec<Arc<Stored>>, meta: &ListMeta) -> Result<Body> {
        if self.accepted.form == Form::Metadata {
            let of = go_type(&self.kind, self.kind.list_kind());
            return Err(StatusError::no_such_form(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({of})"
            )));
        }
        let objects = self.all_shown(objects);
        Ok(match self.accepted.media {
            Media::Protobuf => self.protobuf_list(objects, meta),
            Media::Json | Media::Yaml | Media::Cbor => self.text_list(objects, meta),
        })
    }

    /// Converts custom objects to the version that was asked for.
    fn all_shown(&self, objects: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
        if self.kind.custom().is_none() {
            return objects;
        }
        let shown = objects.into_iter().map(|object| {
            let converted = match self.shown(&object) {
                Shown::AsStored(_) => None,
                Shown::Converted(converted) => Some(converted),
            };
            converted.unwrap_or(object)
        });
        shown.collect()
    }

    /// The list as JSON, or as what is derived from that.
    fn text_list(&self, objects: Vec<Arc<Stored>>, meta: &ListMeta) -> Body {
        let (head, member) = self.list_head(meta);
        if objects.is_empty() {
            let is_null = match self.accepted.form {
                Form::Whole => false,
                Form::Table => print::has_default_columns(&self.kind),
                // Go encodes an empty slice of these as null.
                Form::Metadata | Form::MetadataList => true,
            };
            let items = if is_null { "null" } else { "[]" };
            return self.sent(None, format!("{head}{items}}}").into());
        }
        let now = jiff::Timestamp::now().as_second();
        let view = self.clone();
        if self.accepted.media == Media::Yaml {
            let ends = yaml::ListEnds::new(format!("{head}null}}").as_bytes(), member);
            let write_item = move |object: &Stored, out: &mut Vec<u8>| {
                let mut json = Vec::with_capacity(object.length());
                view.write_item(object, now, &mut json);
                yaml::write_item(member, &json, out);
            };
            let list = List::new(ends.head, objects, ends.tail, b"", Box::new(write_item));
            return list.slow().into();
        }
        let is_slow = self.encodes_slowly() && objects.len() >= HEAVY;
        if self.accepted.media == Media::Cbor {
            let list = self.cbor_list(objects, &head, now);
            return if is_slow { list.slow() } else { list }.into();
        }
        let length = self.items_length(&objects);
        let write_item = move |object: &Stored, out: &mut Vec<u8>| {
            view.write_item(object, now, out);
        };
        let write_item: Box<WriteItem> = Box::new(write_item);
        let head = format!("{head}[");
        let tail = if self.accepted.pretty { "]}" } else { "]}\n" };
        let mut list = List::new(head, objects, tail, b",", write_item);
        if is_slow {
            list = list.slow();
        }
        match length {
            _ if self.accepted.pretty => list.indented().into(),
            Some(length) => list.with_items_length(length).into(),
            None => list.into(),
        }
    }

    /// The list as CBOR, which has the number of its items before them and nothing behind them.
    fn cbor_list(&self, objects: Vec<Arc<Stored>>, head: &str, now: i64) -> List {
        let mut start = cbor::SELF_DESCRIBED.to_vec();
        cbor::put_list_head(format!("{head}[]}}").as_bytes(), objects.len(), &mut start);
        let view = self.clone();
        let write_item = move |object: &Stored, out: &mut Vec<u8>| {
            view.write_cbor_item(object, now, out);
        };
        List::new(start, objects, "", b"", Box::new(write_item))
    }

    /// Appends an item of a CBOR list.
    fn write_cbor_item(&self, object: &Stored, now: i64, out: &mut Vec<u8>) {
        match self.accepted.form {
            Form::Whole if self.sends_stored_json() => {
                let object = self.with_its_fields(object);
                let body = object.body();
                let start = body.len() - object.item_length(&self.kind);
                cbor::put_members(self.object_type(), &body[start..], out);
            }
            Form::Metadata | Form::MetadataList => {
                cbor::put_metadata_head(self.meta_version(), out);
                match self.tenant_fields {
                    TenantFields::Full => cbor::put_value(None, &object.metadata_text(), out),
                    TenantFields::None => {
                        let mut metadata = Vec::new();
                        object.write_metadata_without_tenant_fields(&mut metadata);
                        cbor::put_value(None, &metadata, out);
                    }
                }
            }
            Form::Whole | Form::Table => {
                let mut json = Vec::with_capacity(object.length().min(ROW_LENGTH));
                self.write_item(object, now, &mut json);
                cbor::put_value(self.object_type(), &json, out);
            }
        }
    }

    /// Whether the items of a JSON list take ten times as long as copying what is stored.
    fn encodes_slowly(&self) -> bool {
        match self.accepted.form {
            Form::Table => true,
            Form::Whole => !self.sends_stored_json(),
            Form::Metadata | Form::MetadataList => false,
        }
    }

    /// Returns the JSON of a list up to its items, and the name of the member that they are in.
    fn list_head(&self, meta: &ListMeta) -> (String, &'static str) {
        let mut metadata = list_meta(meta);
        match self.accepted.form {
            Form::Table => {
                let columns = print::column_definitions(&self.kind);
                (self.table_head(&metadata, &columns), "rows")
            }
            form => {
                let (kind, version) = match form {
                    Form::Whole => (self.kind.list_kind(), self.kind.api_version()),
                    _ => ("PartialObjectMetadataList", self.meta_version()),
                };
                // Lists of custom objects contain an empty continue token at their end.
                let is_custom = form == Form::Whole && self.kind.custom().is_some();
                if is_custom && meta.proceed.is_none() {
                    metadata.insert_str(1, r#""continue":"","#);
                }
                let head = format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#);
                (format!(r#"{head}"metadata":{metadata},"items":"#), "items")
            }
        }
    }

    /// Returns the length of the items in a JSON list, if it is known without encoding them.
    fn items_length(&self, objects: &[Arc<Stored>]) -> Option<usize> {
        let is_stored = self.sends_stored_json() && self.tenant_fields == TenantFields::Full;
        if self.accepted.form != Form::Whole || !is_stored {
            return None;
        }
        let bodies = objects
            .iter()
            .map(|object| object.item_length(&self.kind) + 1);
        Some(bodies.sum::<usize>() + objects.len() - 1)
    }

    /// Appends an item of a JSON list.
    fn write_item(&self, object: &Stored, now: i64, out: &mut Vec<u8>) {
        match self.accepted.form {
            Form::Table => self.write_row(object, now, out),
            Form::Metadata | Form::MetadataList => self.write_metadata(object, out),
            Form::Whole if self.sends_stored_json() => {
                out.push(b'{');
                match self.tenant_fields {
                    TenantFields::Full => object.write_item(&self.kind, out),
                    TenantFields::None => object.write_item_without_tenant_fields(&self.kind, out),
                }
            }
            Form::Whole => {
                let object = self.with_its_fields(object);
                encode::nested(self.kind.type_id(), &self.tree(&object), out);
            }
        }
    }

    /// The list as protobuf, which has its length at its beginning.
    fn protobuf_list(&self, mut objects: Vec<Arc<Stored>>, meta: &ListMeta) -> Body {
        let (version, kind) = match self.accepted.form {
            Form::Whole => (self.kind.api_version(), self.kind.list_kind()),
            _ => (self.meta_version(), "PartialObjectMetadataList"),
        };
        let measured = match objects.len() >= HEAVY {
            true => cpu_bound::run_blocking(|| self.measure(&objects)),
            false => self.measure(&objects),
        };
        let frame = ListFrame::new(version, kind, &list_meta_tree(meta), measured.length);
        let mut head = frame.head;
        head.extend_from_slice(&measured.encoded);
        objects.drain(..measured.encoded_items);
        let view = self.clone();
        let write_item = move |object: &Stored, out: &mut Vec<u8>| {
            view.write_protobuf_item(object, out);
        };
        let list = List::new(head, objects, frame.tail, b"", Box::new(write_item));
        let length = measured.length - measured.encoded.len();
        list.with_items_length(length).into()
    }

    /// Measures the items of a protobuf list. Those that were never encoded before are encoded,
    /// and of these the first are kept: a short list is not encoded twice.
    fn measure(&self, objects: &[Arc<Stored>]) -> Measured {
        let mut measured = Measured::default();
        let mut message = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            message.clear();
            let length = self.message_length(object, &mut message);
            measured.length += ListFrame::item_length(length);
            let is_next = measured.encoded_items == index && !message.is_empty();
            if is_next && measured.encoded.len() < FIRST_PIECE {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&message);
                protobuf::put_item(length, write, &mut measured.encoded);
                measured.encoded_items += 1;
            }
        }
        measured
    }

    /// Returns the length of an object's message. It is encoded if its length is not known.
    fn message_length(&self, object: &Stored, message: &mut Vec<u8>) -> usize {
        let mut encode = || {
            self.write_message(object, message);
            message.len()
        };
        let kept = match self.accepted.form {
            Form::Whole => Message::Object,
            _ => Message::Metadata,
        };
        // Lengths are kept of the stored version, and the metadata of custom objects is that of
        // all versions but those that a webhook converts to, which are objects of their own. They
        // are those of the object with all fields.
        match self.sends_stored_json() && self.tenant_fields == TenantFields::Full {
            true => object.message_length(kept, encode),
            false => encode(),
        }
    }

    fn write_protobuf_item(&self, object: &Stored, out: &mut Vec<u8>) {
        let mut message = Vec::new();
        let length = self.message_length(object, &mut message);
        let write = |out: &mut Vec<u8>| match message.is_empty() {
            true => self.write_message(object, out),
            false => out.extend_from_slice(&message),
        };
        protobuf::put_item(length, write, out);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use insula_core::Revision;

    use super::*;
    use crate::codec::indent::indent;
    use crate::registry::resource::Resource;
    use crate::request::negotiate::{Accepted, FormVersion};
    use crate::request::query::Query;
    use insula_cache::{Change, Event};

    fn view(media: Media, form: Form, pretty: bool) -> View {
        let kind = Resource::from(insula_kinds::core_kind("configmaps"));
        let accepted = Accepted {
            media,
            form,
            form_version: FormVersion::V1,
            pretty,
            gzip: false,
        };
        View::new(&kind, accepted, &Query::default(), TenantFields::Full).unwrap()
    }

    fn maps(count: usize) -> Vec<Arc<Stored>> {
        let map = |number: usize| {
            let text = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"m{number}","namespace":"n","uid":"u{number}","creationTimestamp":"2026-11-18T12:00:00Z"}},"data":{{"a":"{}\n"}}}}"#,
                "x".repeat(number % 700)
            );
            let revision = Revision::new(number as u64 + 1);
            Arc::new(Stored::new(
                format!("n/m{number}").into(),
                revision,
                text.as_bytes(),
            ))
        };
        (0..count).map(map).collect()
    }

    fn collected(body: Body) -> (Vec<u8>, usize) {
        let mut list = match body {
            Body::Whole(bytes) => {
                let bytes = bytes.unwrap_or_default();
                return (bytes.to_vec(), bytes.len());
            }
            Body::List(list) => list,
            _ => panic!("a list is whole or sent in pieces"),
        };
        let held = list.held_bytes();
        let mut pieces: Vec<Bytes> = Vec::new();
        pieces.extend(std::iter::from_fn(|| list.next_piece()));
        (pieces.concat(), held)
    }

    fn meta() -> ListMeta {
        ListMeta {
            revision: Revision::new(7),
            ..ListMeta::default()
        }
    }

    fn list(media: Media, form: Form, pretty: bool, objects: &[Arc<Stored>]) -> Vec<u8> {
        let body = view(media, form, pretty).list(objects.to_vec(), &meta());
        collected(body.unwrap()).0
    }

    #[test]
    fn list_in_pieces_is_that_of_the_whole_in_every_form() {
        for count in [0, 1, 3, 1000] {
            let objects = maps(count);
            for form in [Form::Whole, Form::MetadataList, Form::Table] {
                let json = list(Media::Json, form, false, &objects);
                let tree: serde_json::Value = serde_json::from_slice(&json).unwrap();
                let member = if form == Form::Table { "rows" } else { "items" };
                let items = tree[member].as_array().map_or(0, Vec::len);
                assert_eq!(items, count, "{form:?}");
                let compact = json.strip_suffix(b"\n").unwrap();
                let pretty = list(Media::Json, form, true, &objects);
                assert!(pretty == indent(compact), "{form:?} {count}");
                let yaml = list(Media::Yaml, form, false, &objects);
                assert!(yaml == yaml::from_json(compact), "{form:?} {count}");
                let cbor = list(Media::Cbor, form, false, &objects);
                assert!(cbor.starts_with(&cbor::SELF_DESCRIBED));
                let again = cbor::to_json(&cbor).unwrap();
                let again: serde_json::Value = serde_json::from_slice(&again).unwrap();
                assert!(again == tree, "{form:?} {count}");
            }
            for (form, kind, of) in [
                (Form::Whole, "ConfigMapList", "api.core.v1.ConfigMapList"),
                (
                    Form::MetadataList,
                    "PartialObjectMetadataList",
                    "apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
                ),
            ] {
                let of = insula_kinds::types().find(of).unwrap();
                let json = list(Media::Json, form, false, &objects);
                let tree: insula_kinds::Object = serde_json::from_slice(&json).unwrap();
                let version = tree["apiVersion"].as_str().unwrap();
                let mut message = Vec::new();
                protobuf::encode(of, &tree, &mut message);
                let expected = protobuf::seal(version, kind, &message);
                assert!(list(Media::Protobuf, form, false, &objects) == expected);
                // The second time, all lengths are known.
                assert!(list(Media::Protobuf, form, false, &objects) == expected);
            }
        }
    }

    #[test]
    fn large_list_holds_references_only() {
        let objects = maps(5000);
        for (media, form, pretty) in [
            (Media::Json, Form::Whole, false),
            (Media::Json, Form::Whole, true),
            (Media::Json, Form::Table, false),
            (Media::Json, Form::MetadataList, false),
            (Media::Yaml, Form::Whole, false),
            (Media::Protobuf, Form::Whole, false),
            (Media::Protobuf, Form::MetadataList, false),
            (Media::Cbor, Form::Whole, false),
            (Media::Cbor, Form::MetadataList, false),
            (Media::Cbor, Form::Table, false),
        ] {
            let body = view(media, form, pretty).list(objects.clone(), &meta());
            let (bytes, held) = collected(body.unwrap());
            let references = objects.len() * size_of::<Arc<Stored>>();
            assert!(bytes.len() > 200_000, "{media:?} {form:?}");
            assert!(
                held < references + 4 * FIRST_PIECE,
                "{media:?} {form:?}: {held}"
            );
        }
    }

    #[test]
    fn event_is_encoded_once_for_all_watchers() {
        for media in [Media::Json, Media::Protobuf, Media::Cbor] {
            for form in [Form::Whole, Form::Metadata] {
                let object = maps(1).remove(0);
                let event = Event::new(object.revision, Change::Modified, object, None);
                let view = view(media, form, false);
                let frame = || view.event(&event, Change::Modified, &event.object, true);
                let (one, other) = (frame(), frame());
                assert_eq!(one.as_ptr(), other.as_ptr(), "{media:?} {form:?}");
                let alone = view.event_of(Change::Modified, &event.object, true);
                assert_eq!(one, alone, "{media:?} {form:?}");
            }
        }
    }

    #[test]
    fn message_is_encoded_once_to_be_measured() {
        let (short, long) = (maps(3), maps(1000));
        for form in [Form::Whole, Form::MetadataList] {
            let view = view(Media::Protobuf, form, false);
            let first = view.measure(&short);
            assert_eq!(first.encoded_items, 3, "all that was encoded is sent");
            assert_eq!(first.encoded.len(), first.length);
            let again = view.measure(&short);
            assert_eq!(again.length, first.length);
            assert!(again.encoded.is_empty(), "nothing was encoded");
            assert!(view.measure(&long).encoded.len() < 2 * FIRST_PIECE);
            assert!(view.measure(&long).encoded.is_empty());
        }
    }
}
