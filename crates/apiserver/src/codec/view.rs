//! Objects in the representation that the client asked for: whole, as metadata or as a table.

mod lists;
mod rows;

use std::sync::Arc;

use bytes::Bytes;
use insula_core::Revision;
use insula_kinds::{Kind, Object, TypeId, Value, cbor, convert, encode, print, protobuf, types};
use serde_json::json;

use crate::codec::body::Body;
use crate::codec::indent::indent;
use crate::codec::yaml;
use crate::registry::resource::Resource;
use crate::request::negotiate::{Accepted, Form, FormVersion, Media};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::{Change, Encoding, Event, Shown, Stored, TENANT_FIELDS, TenantFields};

/// The representation of a kind's objects for one client.
#[derive(Clone, Debug)]
pub struct View {
    kind: Resource,
    stored: Resource,
    accepted: Accepted,
    include: Include,
    tenant_fields: TenantFields,
}

/// The part of the object in a table row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    None,
    Metadata,
    Object,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The revision of the list.
    pub revision: Revision,
    /// The continue token.
    pub proceed: Option<String>,
    /// The number of remaining items.
    pub remaining: Option<usize>,
}

const META: &str = "apimachinery.pkg.apis.meta.v1";

impl View {
    /// The representation of `kind` for a client that accepts this, with or without the fields
    /// that name the objects' tenant.
    pub fn new(
        kind: &Resource,
        accepted: Accepted,
        query: &Query,
        tenant_fields: TenantFields,
    ) -> Result<Self> {
        let include = match query.get("includeObject") {
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(other) if accepted.form == Form::Table => {
                let value = insula_gotext::quote(other);
                return Err(StatusError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: \
                     {value}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            Some(_) => Include::Metadata,
        };
        Ok(Self {
            kind: kind.clone(),
            stored: kind.storage(),
            accepted,
            include,
            tenant_fields,
        })
    }

    /// The representation of a `Status`, which is no resource.
    pub fn of_status(accepted: Accepted) -> Self {
        let kind = Resource::from(insula_kinds::core_kind("namespaces"));
        let accepted = Accepted {
            form: Form::Whole,
            ..accepted
        };
        Self {
            kind: kind.clone(),
            stored: kind,
            accepted,
            include: Include::Metadata,
            tenant_fields: TenantFields::Full,
        }
    }

    /// The same, with whole objects instead of metadata or tables.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.accepted.form = Form::Whole;
        self
    }

    /// The format.
    pub const fn media(&self) -> Media {
        self.accepted.media
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Parses the object, in the version that was asked for.
    pub fn tree(&self, object: &Stored) -> Object {
        if let Some(custom) = self.kind.custom() {
            return custom.show(object).tree();
        }
        let mut tree = object.tree();
        if self.kind != self.stored {
            convert::convert(&self.stored, &self.kind, &mut tree);
        }
        tree
    }

    /// Encodes one object.
    pub fn object(&self, object: &Stored) -> Result<Body> {
        let object = &*self.shown(object);
        let bytes = match self.accepted.form {
            Form::Whole => self.whole_object(object),
            Form::Metadata => self.metadata(object),
            Form::Table => self.table(object, &meta_of(object), true),
            Form::MetadataList => {
                let of = go_type(&self.kind, &self.kind.kind);
                return Err(StatusError::no_such_form(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a \
                     list ({of})"
                )));
            }
        };
        Ok(self.sent(self.object_type(), bytes))
    }

    /// Encodes an object of another kind: a `Status`, a `Scale`, a review.
    pub fn value(&self, api_version: &str, kind: &str, of: TypeId, object: &Object) -> Body {
        self.sent(Some(of), self.encoded(api_version, kind, of, object))
    }

    /// Encodes a `Scale`, which has rows and metadata like an object.
    pub fn scale(&self, of: TypeId, mut scale: Object) -> Result<Body> {
        if self.tenant_fields == TenantFields::None
            && let Some(Value::Object(metadata)) = scale.get_mut("metadata")
        {
            for field in TENANT_FIELDS {
                metadata.remove(field);
            }
        }
        let scale = &scale;
        let metadata = || {
            let of = type_of("PartialObjectMetadata");
            self.encoded(self.meta_version(), "PartialObjectMetadata", of, scale)
        };
        let bytes = match self.accepted.form {
            Form::Whole => self.encoded("autoscaling/v1", "Scale", of, scale),
            Form::Metadata => metadata(),
            Form::Table => {
                let now = jiff::Timestamp::now().as_second();
                let cells = Value::from(print::scale_cells(scale, now));
                let inside = metadata();
                let inside = String::from_utf8_lossy(&inside);
                let row = format!(r#"{{"cells":{cells},"object":{inside}}}"#);
                let revision = scale.get("metadata").map(|of| &of["resourceVersion"]);
                let meta = json!({"resourceVersion": revision}).to_string();
                self.table_of(&meta, &print::scale_columns(), &format!("[{row}]"))
            }
            Form::MetadataList => {
                return Err(StatusError::no_such_form(
                    "you requested PartialObjectMetadataList, but the requested object is not a \
                     list (*autoscaling.Scale)",
                ));
            }
        };
        Ok(self.sent(None, bytes))
    }

    /// Encodes an event of a watch. An event that many watchers get in the same encoding is
    /// encoded once for all of them.
    pub fn event(&self, event: &Event, change: Change, object: &Stored, first: bool) -> Bytes {
        let is_common = self.is_stored_version()
            && change == event.change
            && std::ptr::eq(object, &raw const *event.object);
        let encode = || self.event_of(change, object, first);
        match (
            self.common_encoding().filter(|_| is_common),
            self.tenant_fields,
        ) {
            (None, _) => encode(),
            (Some(Encoding::Json), TenantFields::Full) => event.frame(),
            (Some(encoding), fields) => event.frame_in(encoding, fields, encode),
        }
    }

    /// Returns the encoding of events, if it is the same for all watchers that ask for it.
    fn common_encoding(&self) -> Option<Encoding> {
        Some(match (self.accepted.media, self.accepted.form) {
            (Media::Json, Form::Whole) => Encoding::Json,
            (Media::Protobuf, Form::Whole) => Encoding::Protobuf,
            (Media::Cbor, Form::Whole) => Encoding::Cbor,
            _ if self.accepted.form_version != FormVersion::V1 => return None,
            (Media::Json, Form::Metadata | Form::MetadataList) => Encoding::MetadataJson,
            (Media::Protobuf, Form::Metadata | Form::MetadataList) => Encoding::MetadataProtobuf,
            (Media::Cbor, Form::Metadata | Form::MetadataList) => Encoding::MetadataCbor,
            // Rows have ages, and the first has the columns.
            _ => return None,
        })
    }

    /// Encodes an event for this watch only.
    pub fn event_of(&self, change: Change, object: &Stored, first: bool) -> Bytes {
        let object = &*self.shown(object);
        let bytes = match self.accepted.form {
            Form::Whole => self.whole_object(object),
            Form::Metadata | Form::MetadataList => self.metadata(object),
            Form::Table => self.table(object, &meta_of(object), first),
        };
        self.framed(change.as_str(), self.object_type(), &bytes)
    }

    /// Encodes a bookmark. Every representation of it marks the end of the initial state.
    pub fn bookmark(&self, revision: Revision, initial_end: bool, first: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = Object::new();
        object.insert("metadata".to_owned(), metadata);
        let bytes = match self.accepted.form {
            Form::Whole => {
                let of = &self.kind;
                self.encoded(of.api_version(), &of.kind, of.type_id(), &object)
            }
            Form::Metadata | Form::MetadataList => {
                let of = type_of("PartialObjectMetadata");
                self.encoded(self.meta_version(), "PartialObjectMetadata", of, &object)
            }
            Form::Table => {
                let body = Value::Object(object).to_string();
                let row = Stored::unsaved("".into(), body.into());
                let metadata = format!(r#"{{"resourceVersion":"{revision}"}}"#);
                match self.include {
                    Include::None if initial_end => {
                        let marked = Self {
                            include: Include::Metadata,
                            ..self.clone()
                        };
                        marked.table(&row, &metadata, first)
                    }
                    _ => self.table(&row, &metadata, first),
                }
            }
        };
        self.framed("BOOKMARK", None, &bytes)
    }

    /// Encodes the error event that ends a watch.
    pub fn error(&self, error: &StatusError) -> Bytes {
        self.framed("ERROR", None, &self.status(error))
    }

    /// Encodes an error.
    pub fn status(&self, error: &StatusError) -> Bytes {
        let Value::Object(status) = error.status() else {
            return Bytes::new();
        };
        self.encoded("v1", "Status", type_of("Status"), &status)
    }

    /// Encodes a `Status`.
    pub fn status_of(&self, status: &Value) -> Body {
        let status = status.as_object().cloned().unwrap_or_default();
        self.value("v1", "Status", type_of("Status"), &status)
    }

    /// Encodes the `Status` of a successful deletion.
    pub fn success(&self, kind: &Kind, name: &str, uid: Option<&Value>) -> Body {
        let details = deleted_details(kind, name, uid);
        self.status_of(&json!({"metadata": {}, "status": "Success", "details": details}))
    }

    /// The type of what is sent of an object, if it is a whole built-in object.
    fn object_type(&self) -> Option<TypeId> {
        let is_built_in = self.kind.custom().is_none();
        (is_built_in && self.accepted.form == Form::Whole).then(|| self.kind.type_id())
    }

    /// Whether objects are sent in the version in which they are stored.
    fn is_stored_version(&self) -> bool {
        self.kind.custom().is_none() && self.kind == self.stored
    }

    /// Whether the JSON of objects, once they are [shown](Self::shown), is sent unchanged.
    fn sends_stored_json(&self) -> bool {
        self.kind.custom().is_some() || self.kind == self.stored
    }

    /// Converts a custom object to the version that was asked for. Only this is encoded.
    fn shown<'a>(&self, object: &'a Stored) -> Shown<'a> {
        match self.kind.custom() {
            Some(custom) => custom.show(object),
            None => Shown::AsStored(object),
        }
    }

    /// Returns the object with the fields that the client gets.
    fn with_its_fields<'a>(&self, object: &'a Stored) -> Shown<'a> {
        match self.tenant_fields {
            TenantFields::Full => Shown::AsStored(object),
            TenantFields::None => Shown::Converted(Arc::new(object.without_tenant_fields())),
        }
    }

    fn whole_object(&self, object: &Stored) -> Bytes {
        let object = &*self.with_its_fields(object);
        let of = &self.kind;
        if self.accepted.media == Media::Protobuf {
            let mut message = Vec::with_capacity(object.length());
            self.write_message_of(object, &mut message);
            return protobuf::seal(of.api_version(), &of.kind, &message).into();
        }
        if self.sends_stored_json() {
            return object.body().into_owned();
        }
        self.encoded(of.api_version(), &of.kind, of.type_id(), &self.tree(object))
    }

    /// Appends the protobuf message of an object, or of its metadata if the client asked for that.
    fn write_message(&self, object: &Stored, out: &mut Vec<u8>) {
        self.write_message_of(&self.with_its_fields(object), out);
    }

    /// The same of an object with the fields that the client gets.
    fn write_message_of(&self, object: &Stored, out: &mut Vec<u8>) {
        match self.accepted.form {
            Form::Whole if self.is_stored_version() => {
                protobuf::encode_text(self.kind.type_id(), &object.body(), out);
            }
            Form::Whole => protobuf::encode(self.kind.type_id(), &self.tree(object), out),
            _ if self.sends_stored_json() => {
                protobuf::encode_metadata_text(&object.text_from_metadata(), out);
            }
            _ => protobuf::encode(type_of("PartialObjectMetadata"), &self.tree(object), out),
        }
    }

    /// Encodes an object in the format that was asked for, compact.
    fn encoded(&self, api_version: &str, kind: &str, of: TypeId, object: &Object) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        if self.accepted.media == Media::Protobuf {
            protobuf::encode(of, object, &mut out);
            return protobuf::seal(api_version, kind, &out).into();
        }
        encode::json(api_version, kind, of, object, &mut out);
        out.into()
    }

    fn meta_version(&self) -> &'static str {
        match self.accepted.form_version {
            FormVersion::V1 => "meta.k8s.io/v1",
            FormVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    fn metadata(&self, object: &Stored) -> Bytes {
        let mut out = Vec::with_capacity(1024);
        if self.accepted.media == Media::Protobuf {
            self.write_message(object, &mut out);
            return protobuf::seal(self.meta_version(), "PartialObjectMetadata", &out).into();
        }
        self.write_metadata(object, &mut out);
        out.into()
    }

    /// Appends the metadata of an object as a JSON object of its own.
    fn write_metadata(&self, object: &Stored, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
        out.extend_from_slice(self.meta_version().as_bytes());
        out.extend_from_slice(br#"","metadata":"#);
        match self.tenant_fields {
            TenantFields::Full => out.extend_from_slice(&object.metadata_text()),
            TenantFields::None => object.write_metadata_without_tenant_fields(out),
        }
        out.push(b'}');
    }

    fn table_of(&self, metadata: &str, columns: &Value, rows: &str) -> Bytes {
        let head = self.table_head(metadata, columns);
        format!("{head}{rows}}}").into()
    }

    /// Encodes an event from compact JSON or a protobuf envelope. The type is that of the JSON, if
    /// it is known.
    fn framed(&self, event: &str, of: Option<TypeId>, object: &[u8]) -> Bytes {
        if self.accepted.media == Media::Protobuf {
            return protobuf::watch_frame(event, object).into();
        }
        if self.accepted.media == Media::Cbor {
            let mut item = Vec::with_capacity(object.len() + 64);
            cbor::put_event_head(event, &mut item);
            item.extend_from_slice(&cbor::SELF_DESCRIBED);
            cbor::put_value(of, object, &mut item);
            return item.into();
        }
        let mut line = format!(r#"{{"type":"{event}","object":"#).into_bytes();
        line.extend_from_slice(object);
        line.extend_from_slice(b"}\n");
        line.into()
    }

    /// Converts compact JSON or a protobuf envelope to the format that was asked for. The type is
    /// that of the JSON, if it is known.
    fn sent(&self, of: Option<TypeId>, bytes: Bytes) -> Body {
        match self.accepted.media {
            Media::Cbor => Bytes::from(cbor::self_described(of, &bytes)).into(),
            _ => finish(self.accepted, bytes).into(),
        }
    }
}

/// Returns the details of the `Status` of a successful deletion.
pub fn deleted_details(kind: &Kind, name: &str, uid: Option<&Value>) -> Value {
    let mut details = json!({"name": name, "kind": kind.resource});
    if !kind.group.is_empty() {
        details["group"] = kind.group.as_str().into();
    }
    if let Some(uid) = uid {
        details["uid"] = uid.clone();
    }
    details
}

/// Converts compact JSON or a protobuf envelope to the format that was asked for.
pub fn finish(accepted: Accepted, bytes: Bytes) -> Bytes {
    match accepted.media {
        Media::Protobuf => bytes,
        Media::Yaml => yaml::from_json(&bytes),
        Media::Cbor => cbor::self_described(None, &bytes).into(),
        Media::Json if accepted.pretty => indent(&bytes).into(),
        Media::Json if bytes.ends_with(b"\n") => bytes,
        Media::Json => [&bytes[..], b"\n"].concat().into(),
    }
}

/// Returns the Go type in Kubernetes' errors: the package is named after the first label of the
/// group.
fn go_type(kind: &Kind, called: &str) -> String {
    let package = match kind.group.as_str() {
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("*{package}.{called}")
}

fn type_of(name: &str) -> TypeId {
    types()
        .find(&format!("{META}.{name}"))
        .expect("it is in the table")
}

fn list_meta(meta: &ListMeta) -> String {
    let mut text = format!(r#"{{"resourceVersion":"{}""#, meta.revision);
    if let Some(token) = &meta.proceed {
        text.push_str(&format!(r#","continue":"{token}""#));
    }
    if let Some(remaining) = meta.remaining {
        text.push_str(&format!(r#","remainingItemCount":{remaining}"#));
    }
    text.push('}');
    text
}

fn list_meta_tree(meta: &ListMeta) -> Object {
    let text = list_meta(meta);
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns the metadata of a table of one object.
fn meta_of(object: &Stored) -> String {
    format!(r#"{{"resourceVersion":"{}"}}"#, object.revision)
}
