//! What the server says about itself: discovery, schemas, version, health.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use insula_core::Space;
use insula_kinds::discovery::{self, Catalog, Root};
use insula_kinds::{Kind, openapi, protobuf};
use serde_json::json;

use crate::body::Body;
use crate::negotiate::{self, Media};
use crate::query::Query;
use crate::request::{Answer, App, serves};
use crate::route::Document;
use crate::status::{Refusal, Result};
use crate::view;

/// Documents are made when somebody asks, shared while somebody holds them, and kept a
/// while after: kubectl asks for the same few again and again.
#[derive(Debug, Default)]
pub struct Documents {
    /// What legacy discovery says the server's address is.
    pub address: String,
    kept: Mutex<Vec<(Name, Weak<Made>)>>,
    recent: Mutex<Vec<Arc<Made>>>,
}

/// A document and what identifies its content.
#[derive(Debug)]
pub struct Made {
    body: Bytes,
    compressed: std::sync::OnceLock<Bytes>,
    hash: String,
}

/// Which document, of which set of kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    system: bool,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Aggregated(Root),
    V2,
    V3Index,
    V3(String),
}

/// How many documents are kept though nobody holds them.
const RECENT: usize = 16;

/// What anybody may ask.
pub fn open(app: &App, document: &Document, query: &Query) -> Result<Answer> {
    match document {
        Document::Version => Ok(Answer::new(StatusCode::OK, version().into())),
        Document::Health(check) => {
            // It answers, so it lives; it is ready once the cache follows the store, which
            // is before it listens.
            let text = match query.flag("verbose") {
                false => "ok".to_owned(),
                true => {
                    let revision = app.registry.cache().applied();
                    format!("[+]ping ok\n[+]cache ok (revision {revision})\n{check} check passed\n")
                }
            };
            Ok(Answer::new(StatusCode::OK, Bytes::from(text).into())
                .typed("text/plain; charset=utf-8"))
        }
        _ => Err(Refusal::no_such_path()),
    }
}

/// What belongs to a space.
pub fn answer(
    app: &App,
    document: &Document,
    space: &Space,
    parts: &Parts,
    query: &Query,
) -> Result<Answer> {
    let documents = &app.documents;
    let filter = |kind: &Kind| serves(space, kind);
    match document {
        Document::Api | Document::Apis => {
            let root = if *document == Document::Api { Root::Api } else { Root::Apis };
            if let Some(media) = negotiate::wants_aggregated(&parts.headers) {
                return documents.aggregated(root, space, media, parts);
            }
            legacy(match root {
                Root::Api => discovery::api_versions(&documents.address),
                Root::Apis => Catalog::of(&filter).api_group_list(),
            }, parts, query)
        }
        Document::Group(group) => {
            let found = Catalog::of(&filter).api_group(group);
            legacy(found.ok_or_else(Refusal::no_such_path)?, parts, query)
        }
        Document::Resources { group, version } => {
            let found = Catalog::of(&filter).api_resource_list(group, version);
            legacy(found.ok_or_else(Refusal::no_such_path)?, parts, query)
        }
        Document::OpenApiV2 => {
            let made = documents.get(space, What::V2);
            Ok(conditional(&made, parts, "application/json"))
        }
        Document::OpenApiV3 => {
            let made = documents.get(space, What::V3Index);
            Ok(conditional(&made, parts, "text/plain; charset=utf-8"))
        }
        Document::OpenApiV3Part(path) => documents.v3_part(path, space, parts, query),
        Document::Metrics => {
            if !space.is_system() {
                return Err(Refusal::no_such_path());
            }
            let text = app.metrics.text(&app.registry);
            Ok(Answer::new(StatusCode::OK, Bytes::from(text).into())
                .typed("text/plain; version=0.0.4; charset=utf-8"))
        }
        Document::Index => {
            let paths: Vec<String> = openapi::v3_paths(&filter);
            let paths: Vec<String> = paths.into_iter().map(|path| format!("/{path}")).collect();
            let body = json!({"paths": paths}).to_string();
            Ok(Answer::new(StatusCode::OK, Bytes::from(body).into()))
        }
        Document::Version | Document::Health(_) => open(app, document, query),
    }
}

impl Documents {
    fn aggregated(&self, root: Root, space: &Space, media: Media, parts: &Parts) -> Result<Answer> {
        let made = self.get(space, What::Aggregated(root));
        let (body, content_type) = match media {
            Media::Json => (
                made.body.clone(),
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
            Media::Protobuf => {
                let filter = |kind: &Kind| serves(space, kind);
                let document = Catalog::of(&filter).aggregated(root);
                let mut raw = Vec::new();
                protobuf::encode(document.type_id(), &document.object(), &mut raw);
                let sealed = protobuf::seal("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &raw);
                (
                    sealed.into(),
                    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                )
            }
            Media::Yaml => return Err(Refusal::not_acceptable()),
        };
        let etag = quoted(&made.hash);
        let unchanged = parts.headers.get(IF_NONE_MATCH) == Some(&etag);
        let answer = match unchanged {
            true => Answer::new(StatusCode::NOT_MODIFIED, Body::empty()),
            false => Answer::new(StatusCode::OK, body.into()),
        };
        Ok(answer
            .typed(content_type)
            .header(ETAG, etag)
            .header(VARY, HeaderValue::from_static("Accept"))
            .header(CACHE_CONTROL, HeaderValue::from_static("public")))
    }

    fn v3_part(&self, path: &str, space: &Space, parts: &Parts, query: &Query) -> Result<Answer> {
        let filter = |kind: &Kind| serves(space, kind);
        if !openapi::v3_paths(&filter).iter().any(|known| known == path) {
            return Ok(Answer::new(StatusCode::NOT_FOUND, Body::empty()));
        }
        let made = self.get(space, What::V3(path.to_owned()));
        match query.get("hash") {
            Some(hash) if hash != made.hash => {
                let right = format!("{}?hash={}", parts.uri.path(), made.hash);
                let right = HeaderValue::from_str(&right).map_err(Refusal::internal)?;
                let moved = Answer::new(StatusCode::MOVED_PERMANENTLY, Body::empty());
                Ok(moved.header(LOCATION, right))
            }
            Some(_) => {
                let forever = HeaderValue::from_static("public, immutable");
                let answer = conditional(&made, parts, "application/json");
                Ok(answer.header(CACHE_CONTROL, forever))
            }
            None => Ok(conditional(&made, parts, "application/json")),
        }
    }

    fn get(&self, space: &Space, what: What) -> Arc<Made> {
        let name = Name { system: space.is_system(), what };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, made)| made.strong_count() > 0);
        let found = kept.iter().find(|(known, _)| *known == name);
        let found = found.and_then(|(_, made)| made.upgrade());
        let made = found.unwrap_or_else(|| {
            let made = Arc::new(Made::new(self.make(&name)));
            kept.push((name, Arc::downgrade(&made)));
            made
        });
        drop(kept);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|held| !Arc::ptr_eq(held, &made));
        recent.push(Arc::clone(&made));
        if recent.len() > RECENT {
            recent.remove(0);
        }
        made
    }

    fn make(&self, name: &Name) -> Vec<u8> {
        let filter = |kind: &Kind| name.system || !kind.system_only;
        match &name.what {
            What::Aggregated(root) => Catalog::of(&filter).aggregated(*root).into_json(),
            What::V2 => openapi::v2_document(&filter),
            What::V3(path) => openapi::v3_part(path, &filter).unwrap_or_default(),
            What::V3Index => {
                let mut paths = serde_json::Map::new();
                for path in openapi::v3_paths(&filter) {
                    let part = openapi::v3_part(&path, &filter).unwrap_or_default();
                    let url = format!("/openapi/v3/{path}?hash={}", hash(&part));
                    paths.insert(path, json!({"serverRelativeURL": url}));
                }
                json!({"paths": paths}).to_string().into_bytes()
            }
        }
    }
}

impl Made {
    fn new(body: Vec<u8>) -> Self {
        let hash = hash(&body);
        Self { body: body.into(), compressed: std::sync::OnceLock::new(), hash }
    }
}

/// The document, or that it is what the caller has.
fn conditional(made: &Made, parts: &Parts, content_type: &'static str) -> Answer {
    let etag = quoted(&made.hash);
    if parts.headers.get(IF_NONE_MATCH) == Some(&etag) {
        return Answer::new(StatusCode::NOT_MODIFIED, Body::empty()).header(ETAG, etag);
    }
    let zipped = accepts_gzip(&parts.headers);
    let body = match zipped {
        true => made.compressed.get_or_init(|| gzip(&made.body)).clone(),
        false => made.body.clone(),
    };
    let mut answer = Answer::new(StatusCode::OK, body.into()).typed(content_type);
    if zipped {
        answer = answer.header(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer.header(ETAG, etag).header(VARY, HeaderValue::from_static("Accept, Accept-Encoding"))
}

fn legacy(document: discovery::Document, parts: &Parts, query: &Query) -> Result<Answer> {
    let accepted = negotiate::accepted(&parts.headers, query)?;
    let body = if accepted.media == Media::Protobuf {
        let object = document.object();
        let text = |member: &str| object.get(member).and_then(|of| of.as_str()).unwrap_or("");
        let mut raw = Vec::new();
        protobuf::encode(document.type_id(), &object, &mut raw);
        let version = if text("apiVersion").is_empty() { "v1" } else { text("apiVersion") };
        protobuf::seal(version, text("kind"), &raw).into()
    } else {
        view::finish(accepted, Bytes::from(document.into_json()))
    };
    Ok(Answer::new(StatusCode::OK, body.into()).of(accepted))
}

/// Compressed, fast rather than small.
pub fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory cannot fail.
    encoder.write_all(bytes).ok();
    encoder.finish().unwrap_or_default().into()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepts = headers.get(HeaderName::from_static("accept-encoding"));
    let accepts = accepts.and_then(|value| value.to_str().ok()).unwrap_or("");
    accepts.split(',').any(|token| token.trim() == "gzip")
}

fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA512, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

fn quoted(hash: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The version of Kubernetes whose API this is.
fn version() -> Bytes {
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        r#"{{"major":"1","minor":"36","gitVersion":"v1.36.4+insula-{version}","gitCommit":"","gitTreeState":"clean","buildDate":"","goVersion":"","compiler":"rustc","platform":"{}/{}"}}"#,
        std::env::consts::OS,
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        },
    );
    Bytes::from(view::indent(text.as_bytes()))
}
