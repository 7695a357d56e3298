//! The bodies of events: objects of requests and responses, as compact JSON.

mod strict;

use bytes::Bytes;
use insula_core::Verb;
use insula_kinds::decode::any_yaml;
use insula_kinds::{TypeId, Value, cbor, encode, kinds, protobuf, types};
use memchr::memmem;
use serde_json::value::RawValue;

use self::strict::is_strict;
use crate::pipeline::route::ResourcePath;
use crate::request::negotiate::Media;

/// The body of a request as it was received.
#[derive(Debug)]
pub struct SentBody {
    /// The format.
    pub media: Media,
    /// The bytes.
    pub bytes: Bytes,
}

/// A body of an event.
#[derive(Debug)]
pub enum Captured {
    /// JSON on one line.
    Json(Box<RawValue>),
    /// The body is larger than [`MAX_OBJECT_BYTES`], or neither an object nor a text.
    LeftOut,
}

impl Captured {
    /// Returns the JSON, unless it is left out.
    pub fn json(&self) -> Option<&RawValue> {
        match self {
            Self::Json(json) => Some(json),
            Self::LeftOut => None,
        }
    }
}

/// The bodies of an event.
#[derive(Clone, Copy, Default)]
pub struct Bodies<'a> {
    /// The object of the request.
    pub request: Option<&'a RawValue>,
    /// The object of the response.
    pub response: Option<&'a RawValue>,
    /// Whether a body was left out.
    pub truncated: bool,
}

/// The most bytes of a body in an event, which is also the most that a client may send.
pub const MAX_OBJECT_BYTES: usize = 3 << 20;

const META: &str = "apimachinery.pkg.apis.meta.v1";

/// Returns the format of a request's body by its content type, patches included.
pub fn media_of(content_type: &str) -> Option<Media> {
    match content_type {
        "" | "*/*" | "application/json" => Some(Media::Json),
        "application/yaml" | "application/apply-patch+yaml" => Some(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Media::Protobuf),
        "application/cbor" | "application/apply-patch+cbor" => Some(Media::Cbor),
        patch if patch.ends_with("-patch+json") => Some(Media::Json),
        _ => None,
    }
}

/// The version and kind of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectKind<'a> {
    /// The `apiVersion`.
    pub api_version: &'a str,
    /// The `kind`.
    pub kind: &'a str,
}

impl<'a> ObjectKind<'a> {
    /// Returns the kind of what is sent to a path. Protobuf need not say it.
    pub fn sent_to(path: &'a ResourcePath) -> Self {
        let of = |api_version, kind| Self { api_version, kind };
        match (path.verb, path.subresource.as_deref()) {
            (Verb::Delete | Verb::DeleteCollection, _) => of("v1", "DeleteOptions"),
            (_, Some("scale")) => of("autoscaling/v1", "Scale"),
            (_, Some("eviction")) => of("policy/v1", "Eviction"),
            (_, Some("binding")) => of("v1", "Binding"),
            (_, Some("token")) => of("authentication.k8s.io/v1", "TokenRequest"),
            _ => of(path.of().api_version(), &path.of().kind),
        }
    }
}

/// Converts a body to JSON. `None` if there is none.
///
/// The client must not decide that its body is not recorded: one that cannot be converted is
/// recorded as a text, and the event of one that is no text either says that it is left out.
pub fn capture(
    media: Media,
    bytes: &[u8],
    default_kind: ObjectKind<'_>,
    omit_managed_fields: bool,
) -> Option<Captured> {
    if bytes.is_empty() {
        return None;
    }
    if bytes.len() > MAX_OBJECT_BYTES {
        return Some(Captured::LeftOut);
    }
    let json = match media {
        Media::Json => compact(bytes),
        Media::Yaml => from_yaml(bytes),
        Media::Protobuf => from_protobuf(bytes, default_kind).filter(|json| is_strict(json)),
        Media::Cbor => cbor::to_json(bytes).ok().filter(|json| is_strict(json)),
    };
    let json = json.map(|json| match omit_managed_fields {
        true => without_managed_fields(json),
        false => json,
    });
    let captured = json.and_then(raw).or_else(|| raw(as_text(bytes)?));
    Some(captured.map_or(Captured::LeftOut, Captured::Json))
}

/// Returns JSON as a body, unless it is much larger than what was sent: YAML and protobuf may be
/// much shorter than the same in JSON.
fn raw(json: Vec<u8>) -> Option<Box<RawValue>> {
    if json.len() > 2 * MAX_OBJECT_BYTES {
        return None;
    }
    RawValue::from_string(String::from_utf8(json).ok()?).ok()
}

/// Returns a text as a JSON string. `None` if it is not UTF-8.
fn as_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::to_vec(text).ok()
}

/// Removes whitespace between tokens, so that the event stays one line. `None` if the text is
/// not JSON that every parser takes.
fn compact(json: &[u8]) -> Option<Vec<u8>> {
    if !is_strict(json) {
        return None;
    }
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.iter().copied() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = byte == b'"';
        }
        out.push(byte);
    }
    Some(out)
}

fn from_yaml(yaml: &[u8]) -> Option<Vec<u8>> {
    // Most bodies called YAML are JSON: kubectl applies that way.
    if let Some(json) = compact(yaml) {
        return Some(json);
    }
    let (tree, _) = any_yaml(yaml).ok()?;
    let json = serde_json::to_vec(&tree).ok()?;
    is_strict(&json).then_some(json)
}

fn from_protobuf(body: &[u8], default_kind: ObjectKind<'_>) -> Option<Vec<u8>> {
    let envelope = protobuf::open(body).ok()?;
    let api_version = or(envelope.api_version, default_kind.api_version);
    let kind = or(envelope.kind, default_kind.kind);
    let of = type_of(api_version, kind)?;
    let object = protobuf::decode(of, envelope.raw).ok()?;
    let mut json = Vec::with_capacity(body.len() * 2);
    encode::json(api_version, kind, of, &object, &mut json);
    Some(json)
}

fn or<'a>(given: &'a str, default: &'a str) -> &'a str {
    if given.is_empty() { default } else { given }
}

/// Returns the type of an object, a list, or what subresources and options are sent as.
fn type_of(api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let find = |kind: &str| {
        kinds()
            .find_by_kind(group, version, kind)
            .map(|id| kinds().get(id))
    };
    if let Some(found) = find(kind) {
        return Some(found.type_id());
    }
    if let Some(item) = kind.strip_suffix("List").and_then(find) {
        let name = format!("{}List", types().get(item.type_id()).name);
        return types().find(&name);
    }
    let package = match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    let of_group = types().find(&format!("api.{package}.{version}.{kind}"));
    of_group.or_else(|| types().find(&format!("{META}.{kind}")))
}

/// Removes the managed fields of an object, of the items of a list, and of the rows of a table.
fn without_managed_fields(json: Vec<u8>) -> Vec<u8> {
    if memmem::find(&json, b"\"managedFields\"").is_none() {
        return json;
    }
    let Ok(mut object) = serde_json::from_slice::<Value>(&json) else {
        return json;
    };
    remove_managed_fields(&mut object);
    for item in members(&mut object, "items") {
        remove_managed_fields(item);
    }
    for row in members(&mut object, "rows") {
        if let Some(object) = row.get_mut("object") {
            remove_managed_fields(object);
        }
    }
    serde_json::to_vec(&object).unwrap_or(json)
}

fn members<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

fn remove_managed_fields(object: &mut Value) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(captured: Option<Captured>) -> String {
        match captured {
            None => "none".to_owned(),
            Some(Captured::LeftOut) => "left out".to_owned(),
            Some(Captured::Json(json)) => json.get().to_owned(),
        }
    }

    fn captured(media: Media, sent: &[u8], omit_managed_fields: bool) -> String {
        json_of(capture(
            media,
            sent,
            ObjectKind::default(),
            omit_managed_fields,
        ))
    }

    #[test]
    fn every_format_becomes_json_on_one_line() {
        let pod = kinds().get(insula_kinds::core_kind("pods"));
        let tree = json!({"metadata": {"name": "p"}});
        let mut raw = Vec::new();
        protobuf::encode(pod.type_id(), tree.as_object().unwrap(), &mut raw);
        let sealed = protobuf::seal("v1", "Pod", &raw);
        let unknown = protobuf::seal("v9", "Pad", &raw);
        let large = format!("\"{}\"", "x".repeat(MAX_OBJECT_BYTES));
        let cases: [(Media, &[u8], &str); 17] = [
            (Media::Json, b"", "none"),
            (Media::Json, b"{", r#""{""#),
            (Media::Json, b"\xff", "left out"),
            (Media::Json, br#"{"a":1e999}"#, r#""{\"a\":1e999}""#),
            (Media::Json, br#"["\ud800"]"#, r#""[\"\\ud800\"]""#),
            (Media::Yaml, b"a: [", r#""a: [""#),
            (
                Media::Json,
                b"{\"a\": \"b\\\" \\n c\",\n\t\"d\" : [ 1, {} ]}\r\n",
                r#"{"a":"b\" \n c","d":[1,{}]}"#,
            ),
            (Media::Json, b"[{\"op\": \"add\"}]", r#"[{"op":"add"}]"#),
            (Media::Yaml, b"a:\n  b: [1, c]\n", r#"{"a":{"b":[1,"c"]}}"#),
            (Media::Yaml, b"{\"a\": 1}", r#"{"a":1}"#),
            (
                Media::Protobuf,
                &sealed,
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":null},"status":{}}"#,
            ),
            (Media::Protobuf, &unknown, "left out"),
            (Media::Cbor, b"\xd9\xd9\xf7\xa1Aa\xd6Bhi", r#"{"a":"aGk="}"#),
            (Media::Cbor, b"\xd9\xd9\xf7\xa1", "left out"),
            (Media::Cbor, b"{}", r#""{}""#),
            (Media::Protobuf, b"k8s\0\xff", "left out"),
            (Media::Json, large.as_bytes(), "left out"),
        ];
        for (media, sent, expected) in cases {
            assert_eq!(captured(media, sent, false), expected, "{media:?}");
        }
    }

    #[test]
    fn protobuf_without_a_kind_has_that_of_the_path() {
        let pod = kinds().get(insula_kinds::core_kind("pods"));
        let tree = json!({"metadata": {"name": "p"}});
        let mut raw = Vec::new();
        protobuf::encode(pod.type_id(), tree.as_object().unwrap(), &mut raw);
        let default_kind = ObjectKind {
            api_version: "v1",
            kind: "Pod",
        };
        for (version, kind) in [("", ""), ("v1", ""), ("", "Pod")] {
            let sealed = protobuf::seal(version, kind, &raw);
            let json = json_of(capture(Media::Protobuf, &sealed, default_kind, true));
            let start = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}"#;
            assert!(json.starts_with(start), "{json}");
        }
    }

    #[test]
    fn managed_fields_are_omitted_from_objects_items_and_rows() {
        let meta = r#""metadata":{"managedFields":[{}],"name":"a"}"#;
        let bare = r#""metadata":{"name":"a"}"#;
        for (sent, expected) in [
            (format!("{{{meta}}}"), format!("{{{bare}}}")),
            (
                format!(r#"{{"items":[{{{meta}}}]}}"#),
                format!(r#"{{"items":[{{{bare}}}]}}"#),
            ),
            (
                format!(r#"{{"rows":[{{"cells":[],"object":{{{meta}}}}},{{"object":null}}]}}"#),
                format!(r#"{{"rows":[{{"cells":[],"object":{{{bare}}}}},{{"object":null}}]}}"#),
            ),
            // Not the managed fields of the object itself.
            (
                r#"{"spec":{"managedFields":1}}"#.to_owned(),
                r#"{"spec":{"managedFields":1}}"#.to_owned(),
            ),
        ] {
            assert_eq!(captured(Media::Json, sent.as_bytes(), true), expected);
            assert_eq!(captured(Media::Json, sent.as_bytes(), false), sent);
        }
    }

    #[test]
    fn lists_options_and_subresources_have_types() {
        for (version, kind) in [
            ("v1", "PodList"),
            ("v1", "Status"),
            ("v1", "DeleteOptions"),
            ("meta.k8s.io/v1", "PartialObjectMetadataList"),
            ("autoscaling/v1", "Scale"),
            ("policy/v1", "Eviction"),
            ("v1", "Binding"),
            ("authentication.k8s.io/v1", "TokenRequest"),
            ("authentication.k8s.io/v1", "TokenReview"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinitionList"),
            ("rbac.authorization.k8s.io/v1", "RoleList"),
        ] {
            assert!(type_of(version, kind).is_some(), "{version} {kind}");
        }
    }
}
