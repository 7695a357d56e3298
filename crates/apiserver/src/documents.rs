//! Documents about the API: discovery, OpenAPI, version, health.

pub mod audit_events;
mod cache;
pub mod health;
pub mod metrics;
pub mod reviews;
mod service_account_keys;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY,
};
use http::request::Parts;
use insula_core::{Space, Spaces};
use insula_custom::openapi as custom;
use insula_kinds::discovery::{self, Catalog, Root};
use insula_kinds::openapi::{Descriptions, V2Base};
use insula_kinds::{Kind, openapi, protobuf};
use serde_json::json;

use self::cache::{CachedDocument, DocumentCache, Slot, hash};
use self::metrics::Metrics;
use crate::codec::answer::{Answer, MIN_COMPRESSED};
use crate::codec::body::Body;
use crate::codec::gzip::gzip;
use crate::codec::indent::indent;
use crate::codec::view;
use crate::pipeline::route::Document;
use crate::pipeline::service_account::Accounts;
use crate::registry::apis::Apis;
use crate::registry::{Registry, serves};
use crate::request::negotiate::{self, Asked, Media, OpenApiMedia};
use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// The documents of the server. They are built on request, shared while in use, and the most
/// recent ones are kept, because kubectl requests the same few again and again.
pub struct Documents {
    /// The server's address in legacy discovery.
    address: String,
    /// The issuer and the keys of service-account tokens.
    accounts: Option<Arc<Accounts>>,
    metrics: Arc<Metrics>,
    cache: DocumentCache<DocumentKey>,
    /// Paths and hashes of the OpenAPI v3 documents that all tenants have, and of those of the
    /// system.
    common: [OnceLock<Vec<(String, String)>>; 2],
    /// Descriptions that OpenAPI documents are served with.
    descriptions: Option<Descriptions>,
    /// The start of the server, as the modification time of documents.
    since: HttpDate,
}

/// A time in HTTP's format.
#[derive(Debug)]
struct HttpDate(jiff::Timestamp);

impl Default for HttpDate {
    fn default() -> Self {
        Self(jiff::Timestamp::now())
    }
}

/// The identity of a document: its kind and the set of resources that it describes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DocumentKey {
    system: bool,
    /// The fingerprint of the custom definitions, equal for spaces with the same definitions.
    definitions: u64,
    kind: DocumentKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DocumentKind {
    Aggregated(Root),
    V2,
    V2Protobuf,
    V3Index,
    V3(String),
    V3Protobuf(String),
}

/// The resources that documents describe.
#[derive(Clone, Copy)]
struct Scope<'a> {
    space: &'a Space,
    apis: &'a Apis,
}

impl Scope<'_> {
    fn catalog(&self) -> Catalog {
        let filter = |kind: &Kind| serves(self.space, kind);
        Catalog::of(&filter).with(self.apis.discovered())
    }

    /// Returns the OpenAPI v3 paths of custom resources.
    fn v3_paths(&self) -> Vec<String> {
        custom::v3_paths(self.apis.versions())
    }

    /// Returns the OpenAPI v3 document of the custom resources at a path.
    fn v3_custom(&self, path: &str) -> Vec<u8> {
        custom::v3_document(path, self.apis.versions()).unwrap_or_default()
    }

    /// Whether an OpenAPI v3 path belongs to custom resources.
    fn is_custom(&self, path: &str) -> bool {
        self.v3_paths().iter().any(|known| known == path)
    }
}

/// The path of the documents of OpenAPI v3.
const V3: &str = "/openapi/v3/";

/// The member of the index of OpenAPI v3 with a document's URL, up to the URL.
const V3_URL_MEMBER: &str = r#""serverRelativeURL":""#;

/// How long clients may cache a document that never changes.
const YEAR_SECONDS: i64 = 365 * 86_400;

impl Documents {
    /// Returns the documents of a server that is reached at `address`.
    pub fn new(
        address: String,
        accounts: Option<Arc<Accounts>>,
        metrics: Arc<Metrics>,
        descriptions: Option<Descriptions>,
    ) -> Self {
        Self {
            descriptions,
            address,
            accounts,
            metrics,
            cache: DocumentCache::default(),
            common: Default::default(),
            since: HttpDate::default(),
        }
    }

    /// Returns the address that the server is reached at.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn accounts(&self) -> Result<&Accounts> {
        self.accounts
            .as_deref()
            .ok_or_else(StatusError::no_such_path)
    }

    /// Answers with a document that needs no authentication.
    pub fn open(
        &self,
        registry: &Registry,
        named: Option<&Spaces>,
        document: &Document,
        query: &Query,
    ) -> Result<Answer> {
        match document {
            Document::Version => Ok(Answer::new(StatusCode::OK, version().into())),
            Document::Health { endpoint, check } => {
                health::answer(*endpoint, check.as_deref(), registry, &self.metrics, query)
            }
            Document::Issuer => {
                service_account_keys::configuration(self.accounts()?, registry, &Space::System)
            }
            Document::Keys => service_account_keys::keys(self.accounts()?),
            Document::TenantIssuer { uid } => {
                let accounts = self.accounts()?;
                service_account_keys::tenant_configuration(accounts, registry, named, uid)
            }
            Document::TenantKeys { uid } => {
                service_account_keys::tenant_keys(self.accounts()?, registry, named, uid)
            }
            _ => Err(StatusError::no_such_path()),
        }
    }

    /// Answers with a document of a space.
    pub fn answer(
        &self,
        registry: &Registry,
        document: &Document,
        space: &Space,
        parts: &Parts,
        query: &Query,
    ) -> Result<Answer> {
        let filter = |kind: &Kind| serves(space, kind);
        let apis = registry.apis(space).ok_or_else(StatusError::no_such_path)?;
        let scope = Scope { space, apis: &apis };
        match document {
            Document::Api | Document::Apis => {
                let root = if *document == Document::Api {
                    Root::Api
                } else {
                    Root::Apis
                };
                if let Some(media) = negotiate::wants_aggregated(&parts.headers) {
                    return self.aggregated(root, scope, media, parts);
                }
                legacy(
                    match root {
                        Root::Api => discovery::api_versions(&self.address),
                        Root::Apis => scope.catalog().api_group_list(),
                    },
                    parts,
                    query,
                )
            }
            Document::Group(group) => {
                let found = scope.catalog().api_group(group);
                legacy(found.ok_or_else(StatusError::no_such_path)?, parts, query)
            }
            Document::Resources { group, version } => {
                let found = scope.catalog().api_resource_list(group, version);
                legacy(found.ok_or_else(StatusError::no_such_path)?, parts, query)
            }
            Document::OpenApiV2 => Ok(match negotiate::openapi(&parts.headers, "v2") {
                Some(OpenApiMedia::Json) => {
                    self.conditional(scope, DocumentKind::V2, parts, "application/json")
                }
                Some(OpenApiMedia::Protobuf) => self.conditional(
                    scope,
                    DocumentKind::V2Protobuf,
                    parts,
                    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                ),
                None => Answer::new(StatusCode::NOT_ACCEPTABLE, Body::empty()),
            }),
            Document::OpenApiV3 => Ok(self.openapi_v3(scope, parts)),
            Document::OpenApiV3Part(path) => self.v3_part(path, scope, parts, query),
            Document::Metrics => {
                if !space.is_system() {
                    return Err(StatusError::no_such_path());
                }
                let text = self.metrics.text();
                Ok(Answer::new(StatusCode::OK, Bytes::from(text).into())
                    .typed("text/plain; version=0.0.4; charset=utf-8"))
            }
            Document::Index => {
                let mut paths: Vec<String> = openapi::v3_paths(&filter);
                paths.extend(scope.v3_paths());
                paths.sort_unstable();
                let paths: Vec<String> = paths.into_iter().map(|path| format!("/{path}")).collect();
                let body = json!({"paths": paths}).to_string();
                Ok(Answer::new(StatusCode::OK, Bytes::from(body).into()))
            }
            Document::Issuer => {
                service_account_keys::configuration(self.accounts()?, registry, space)
            }
            // Read with a seat of its own, see `audit_events`.
            Document::AuditEvents
            | Document::Version
            | Document::Health { .. }
            | Document::Keys
            | Document::TenantIssuer { .. }
            | Document::TenantKeys { .. } => {
                let named = Spaces::One(space.clone());
                self.open(registry, Some(&named), document, query)
            }
        }
    }

    fn aggregated(
        &self,
        root: Root,
        scope: Scope<'_>,
        media: Media,
        parts: &Parts,
    ) -> Result<Answer> {
        let slot = self.get(scope, DocumentKind::Aggregated(root));
        let cached = self.get_or_build(scope, DocumentKind::Aggregated(root), &slot);
        let gzipped = media == Media::Json
            && cached.body.len() > MIN_COMPRESSED
            && negotiate::gzip(&parts.headers);
        let (body, content_type) = match media {
            Media::Json => (
                cached.bytes(gzipped),
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
            Media::Protobuf => {
                let document = scope.catalog().aggregated(root);
                let mut raw = Vec::new();
                protobuf::encode(document.type_id(), &document.object(), &mut raw);
                let sealed =
                    protobuf::seal("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &raw);
                (
                    sealed.into(),
                    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                )
            }
            Media::Yaml | Media::Cbor => {
                return Err(StatusError::not_acceptable(Asked::Discovery.served()));
            }
        };
        let etag = quoted(&cached.hash);
        let unchanged = parts.headers.get(IF_NONE_MATCH) == Some(&etag);
        let answer = match unchanged {
            true => Answer::new(StatusCode::NOT_MODIFIED, Body::empty()),
            false => Answer::new(StatusCode::OK, body.into()).encoded(gzipped),
        };
        Ok(answer
            .typed(content_type)
            .header(ETAG, etag)
            .header(VARY, HeaderValue::from_static("Accept"))
            .header(CACHE_CONTROL, HeaderValue::from_static("public")))
    }

    fn v3_part(
        &self,
        path: &str,
        scope: Scope<'_>,
        parts: &Parts,
        query: &Query,
    ) -> Result<Answer> {
        let filter = |kind: &Kind| serves(scope.space, kind);
        let common = openapi::v3_paths(&filter);
        if !common.iter().any(|known| known == path) && !scope.is_custom(path) {
            return Ok(Answer::new(StatusCode::NOT_FOUND, Body::empty()));
        }
        let (shown, content_type) = match negotiate::openapi(&parts.headers, "v3") {
            Some(OpenApiMedia::Json) => (DocumentKind::V3(path.to_owned()), "application/json"),
            Some(OpenApiMedia::Protobuf) => (
                DocumentKind::V3Protobuf(path.to_owned()),
                "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
            ),
            None => return Ok(Answer::new(StatusCode::NOT_ACCEPTABLE, Body::empty())),
        };
        let answer = match query.get("hash").filter(|hash| !hash.is_empty()) {
            None => return Ok(self.conditional(scope, shown, parts, content_type)),
            Some(hash) => {
                // The hash is that of the JSON document, whatever the media type.
                let kind = DocumentKind::V3(path.to_owned());
                let slot = self.get(scope, kind.clone());
                let cached = self.get_or_build(scope, kind, &slot);
                if hash != cached.hash {
                    let right = format!("{}?hash={}", parts.uri.path(), cached.hash);
                    let right = HeaderValue::from_str(&right).map_err(StatusError::internal)?;
                    let moved = Answer::new(StatusCode::MOVED_PERMANENTLY, Body::empty());
                    return Ok(moved.header(LOCATION, right));
                }
                self.conditional(scope, shown, parts, content_type)
            }
        };
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(YEAR_SECONDS);
        Ok(answer
            .header(CACHE_CONTROL, HeaderValue::from_static("public, immutable"))
            .header(EXPIRES, HttpDate(end).header()))
    }

    /// Answers with the index of OpenAPI v3. Below a server prefix its URLs have the prefix as
    /// well, since some clients request them in place of the whole path of their server's URL.
    fn openapi_v3(&self, scope: Scope<'_>, parts: &Parts) -> Answer {
        const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
        if !parts.uri.path().starts_with("/tenants/") {
            return self.conditional(scope, DocumentKind::V3Index, parts, CONTENT_TYPE);
        }
        let space = scope.space;
        let show = |index: &CachedDocument, gzipped| {
            let index = String::from_utf8_lossy(&index.body);
            let plain = format!("{V3_URL_MEMBER}{V3}");
            let prefixed = format!("{V3_URL_MEMBER}/tenants/{space}{V3}");
            let index = Bytes::from(index.replace(&plain, &prefixed));
            if gzipped { gzip(&index) } else { index }
        };
        self.conditional_with(scope, DocumentKind::V3Index, parts, CONTENT_TYPE, show)
    }

    /// Returns the document, or 304 Not Modified if the client has it.
    fn conditional(
        &self,
        scope: Scope<'_>,
        kind: DocumentKind,
        parts: &Parts,
        content_type: &'static str,
    ) -> Answer {
        let show = CachedDocument::bytes;
        self.conditional_with(scope, kind, parts, content_type, show)
    }

    /// The same with the bytes that `show` makes of the document, compressed or not.
    fn conditional_with(
        &self,
        scope: Scope<'_>,
        kind: DocumentKind,
        parts: &Parts,
        content_type: &'static str,
        show: impl FnOnce(&CachedDocument, bool) -> Bytes,
    ) -> Answer {
        let slot = self.get(scope, kind.clone());
        let cached = self.get_or_build(scope, kind, &slot);
        let etag = quoted(&cached.hash);
        if parts.headers.get(IF_NONE_MATCH) == Some(&etag) {
            return Answer::new(StatusCode::NOT_MODIFIED, Body::empty()).header(ETAG, etag);
        }
        let gzipped = negotiate::gzip(&parts.headers);
        Answer::new(StatusCode::OK, show(cached, gzipped).into())
            .typed(content_type)
            .encoded(gzipped)
            .header(ETAG, etag)
            .header(LAST_MODIFIED, self.since.header())
            .header(VARY, HeaderValue::from_static("Accept, Accept-Encoding"))
    }

    /// Returns the slot of a document.
    fn get(&self, scope: Scope<'_>, kind: DocumentKind) -> Arc<Slot> {
        self.cache.slot(DocumentKey::of(scope, kind))
    }

    /// Returns the document in a slot, building it if necessary.
    fn get_or_build<'a>(
        &self,
        scope: Scope<'_>,
        kind: DocumentKind,
        slot: &'a Arc<Slot>,
    ) -> &'a CachedDocument {
        let key = DocumentKey::of(scope, kind);
        // Without custom definitions, a document is that of all spaces.
        let owner = (key.definitions != 0).then_some(scope.space);
        self.cache
            .get_or_build(slot, owner, || self.build(scope, &key))
    }

    /// Builds the index of OpenAPI v3. The documents common to all spaces are hashed only once.
    fn v3_index(&self, scope: Scope<'_>) -> Vec<u8> {
        let common = self.common[usize::from(scope.space.is_system())].get_or_init(|| {
            let filter = |kind: &Kind| serves(scope.space, kind);
            let paths = openapi::v3_paths(&filter).into_iter();
            let hashes = paths.map(|path| {
                let part = openapi::v3_document(&path, &filter).unwrap_or_default();
                (path, hash(&self.described(part)))
            });
            hashes.collect()
        });
        let custom_parts = scope.v3_paths().into_iter().map(|path| {
            let part = scope.v3_custom(&path);
            (path, hash(&self.described(part)))
        });
        let all = common
            .iter()
            .cloned()
            .chain(custom_parts)
            .map(|(path, hash)| {
                let url = format!("{V3}{path}?hash={hash}");
                (path, json!({"serverRelativeURL": url}))
            });
        let paths: serde_json::Map<_, _> = all.collect();
        json!({"paths": paths}).to_string().into_bytes()
    }

    fn build(&self, scope: Scope<'_>, name: &DocumentKey) -> Vec<u8> {
        let filter = |kind: &Kind| name.system || !kind.system_only;
        match &name.kind {
            DocumentKind::Aggregated(root) => scope.catalog().aggregated(*root).into_json(),
            DocumentKind::V2 if scope.apis.fingerprint() == 0 => {
                self.described(openapi::v2_document(&filter))
            }
            DocumentKind::V2 => {
                let part = custom::v2_part(scope.apis.versions());
                self.described(V2Base::new(&filter).with(&part))
            }
            DocumentKind::V2Protobuf if scope.apis.fingerprint() == 0 => self.v2_protobuf(&filter),
            DocumentKind::V2Protobuf => {
                let mut document = self.v2_protobuf(&filter);
                document.extend(custom::v2_part(scope.apis.versions()).protobuf());
                document
            }
            DocumentKind::V3(path) => {
                let document = openapi::v3_document(path, &filter);
                self.described(document.unwrap_or_else(|| scope.v3_custom(path)))
            }
            DocumentKind::V3Protobuf(path) => {
                let document = self.build(
                    scope,
                    &DocumentKey::of(scope, DocumentKind::V3(path.clone())),
                );
                openapi::v3_protobuf(&document)
            }
            DocumentKind::V3Index => self.v3_index(scope),
        }
    }

    /// Adds descriptions to a document, if the server has any.
    fn described(&self, document: Vec<u8>) -> Vec<u8> {
        match &self.descriptions {
            Some(descriptions) => descriptions.describe(document),
            None => document,
        }
    }

    fn v2_protobuf(&self, filter: &dyn Fn(&Kind) -> bool) -> Vec<u8> {
        match &self.descriptions {
            Some(descriptions) => openapi::v2_protobuf_described(filter, descriptions),
            None => openapi::v2_protobuf(filter),
        }
    }
}

impl DocumentKey {
    fn of(scope: Scope<'_>, kind: DocumentKind) -> Self {
        let definitions = match &kind {
            DocumentKind::Aggregated(Root::Api) => 0,
            DocumentKind::V3(path) | DocumentKind::V3Protobuf(path) if !scope.is_custom(path) => 0,
            _ => scope.apis.fingerprint(),
        };
        Self {
            system: scope.space.is_system(),
            definitions,
            kind,
        }
    }
}

impl HttpDate {
    fn header(&self) -> HeaderValue {
        let text = self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0"))
    }
}

fn legacy(document: discovery::Document, parts: &Parts, query: &Query) -> Result<Answer> {
    let accepted = negotiate::accepted(&parts.headers, query, Asked::Discovery)?;
    let body = if accepted.media == Media::Protobuf {
        let object = document.object();
        let text = |member: &str| object.get(member).and_then(|of| of.as_str()).unwrap_or("");
        let mut raw = Vec::new();
        protobuf::encode(document.type_id(), &object, &mut raw);
        let version = if text("apiVersion").is_empty() {
            "v1"
        } else {
            text("apiVersion")
        };
        protobuf::seal(version, text("kind"), &raw).into()
    } else {
        view::finish(accepted, Bytes::from(document.into_json()))
    };
    Ok(Answer::new(StatusCode::OK, body.into()).of(accepted))
}

fn quoted(hash: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Returns the version of the Kubernetes API that the server implements.
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
    Bytes::from(indent(text.as_bytes()))
}
