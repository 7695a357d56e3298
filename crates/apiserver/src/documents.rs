//! What the server says about itself: discovery, schemas, version, health.

pub mod metrics;
pub mod reviews;
mod service_account_keys;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY,
};
use http::request::Parts;
use insula_core::Space;
use insula_custom::openapi as custom;
use insula_kinds::discovery::{self, Catalog, Root};
use insula_kinds::openapi::{Descriptions, V2Base};
use insula_kinds::{Kind, openapi, protobuf};
use serde_json::json;

use self::metrics::Metrics;
use crate::codec::answer::{Answer, MIN_COMPRESSED};
use crate::codec::body::Body;
use crate::codec::gzip::gzip;
use crate::codec::view;
use crate::pipeline::route::Document;
use crate::pipeline::service_account::Accounts;
use crate::registry::apis::Apis;
use crate::registry::{Registry, serves};
use crate::request::negotiate::{self, Asked, Media, OpenApiMedia};
use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// Documents are made when somebody asks, shared while somebody holds them, and kept a
/// while after: kubectl asks for the same few again and again.
pub struct Documents {
    /// The server's address in legacy discovery.
    address: String,
    /// The issuer and the keys of service-account tokens.
    accounts: Option<Arc<Accounts>>,
    metrics: Arc<Metrics>,
    kept: Mutex<Vec<(Name, Weak<Slot>)>>,
    recent: Mutex<Vec<Arc<Slot>>>,
    /// The parts of OpenAPI's third version that all tenants have, and the system: their
    /// paths and hashes.
    common: [OnceLock<Vec<(String, String)>>; 2],
    /// Descriptions that OpenAPI documents are served with.
    descriptions: Option<Descriptions>,
    /// When these documents came about, which change with the program only.
    since: Since,
}

/// A document, once somebody has made it: others who want it wait for that, and nobody else.
type Slot = OnceLock<Made>;

/// A document and what identifies its content.
#[derive(Debug)]
pub struct Made {
    body: Bytes,
    compressed: OnceLock<Bytes>,
    hash: String,
}

/// A moment, as HTTP writes it.
#[derive(Debug)]
struct Since(jiff::Timestamp);

impl Default for Since {
    fn default() -> Self {
        Self(jiff::Timestamp::now())
    }
}

/// Which document, of which set of kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    system: bool,
    /// The same for spaces in which users have defined the same.
    customs: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Aggregated(Root),
    V2,
    V2Protobuf,
    V3Index,
    V3(String),
    V3Protobuf(String),
}

/// What documents are about.
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

    /// The paths of what users define in the third version of OpenAPI.
    fn v3_paths(&self) -> Vec<String> {
        custom::v3_paths(self.apis.versions())
    }

    /// What users define at a path.
    fn v3_custom(&self, path: &str) -> Vec<u8> {
        custom::v3_document(path, self.apis.versions()).unwrap_or_default()
    }

    /// Whether users define what is at a path.
    fn is_custom(&self, path: &str) -> bool {
        self.v3_paths().iter().any(|known| known == path)
    }
}

/// How many documents are kept though nobody holds them.
const RECENT: usize = 16;

/// A year, in seconds: what never changes may be kept so long.
const YEAR: i64 = 365 * 86_400;

impl Documents {
    /// The documents of a server that is reached at `address`.
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
            kept: Mutex::default(),
            recent: Mutex::default(),
            common: Default::default(),
            since: Since::default(),
        }
    }

    fn accounts(&self) -> Result<&Accounts> {
        self.accounts
            .as_deref()
            .ok_or_else(StatusError::no_such_path)
    }

    /// Answers with a document that needs no authentication.
    pub fn open(&self, document: &Document, query: &Query) -> Result<Answer> {
        match document {
            Document::Version => Ok(Answer::new(StatusCode::OK, version().into())),
            Document::Health(check) => {
                // It answers, so it lives; it is ready once the cache follows the store, which
                // is before it listens.
                let text = match query.flag("verbose") {
                    false => "ok".to_owned(),
                    true => format!("[+]ping ok\n[+]cache ok\n{check} check passed\n"),
                };
                Ok(Answer::new(StatusCode::OK, Bytes::from(text).into())
                    .typed("text/plain; charset=utf-8"))
            }
            Document::Issuer => service_account_keys::configuration(self.accounts()?),
            Document::Keys => service_account_keys::keys(self.accounts()?),
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
        let of = Scope { space, apis: &apis };
        match document {
            Document::Api | Document::Apis => {
                let root = if *document == Document::Api {
                    Root::Api
                } else {
                    Root::Apis
                };
                if let Some(media) = negotiate::wants_aggregated(&parts.headers) {
                    return self.aggregated(root, of, media, parts);
                }
                legacy(
                    match root {
                        Root::Api => discovery::api_versions(&self.address),
                        Root::Apis => of.catalog().api_group_list(),
                    },
                    parts,
                    query,
                )
            }
            Document::Group(group) => {
                let found = of.catalog().api_group(group);
                legacy(found.ok_or_else(StatusError::no_such_path)?, parts, query)
            }
            Document::Resources { group, version } => {
                let found = of.catalog().api_resource_list(group, version);
                legacy(found.ok_or_else(StatusError::no_such_path)?, parts, query)
            }
            Document::OpenApiV2 => Ok(match negotiate::openapi(&parts.headers, "v2") {
                Some(OpenApiMedia::Json) => {
                    self.conditional(of, What::V2, parts, "application/json")
                }
                Some(OpenApiMedia::Protobuf) => self.conditional(
                    of,
                    What::V2Protobuf,
                    parts,
                    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                ),
                None => Answer::new(StatusCode::NOT_ACCEPTABLE, Body::empty()),
            }),
            Document::OpenApiV3 => {
                Ok(self.conditional(of, What::V3Index, parts, "text/plain; charset=utf-8"))
            }
            Document::OpenApiV3Part(path) => self.v3_part(path, of, parts, query),
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
                paths.extend(of.v3_paths());
                paths.sort_unstable();
                let paths: Vec<String> = paths.into_iter().map(|path| format!("/{path}")).collect();
                let body = json!({"paths": paths}).to_string();
                Ok(Answer::new(StatusCode::OK, Bytes::from(body).into()))
            }
            Document::Version | Document::Health(_) | Document::Issuer | Document::Keys => {
                self.open(document, query)
            }
        }
    }

    fn aggregated(&self, root: Root, of: Scope<'_>, media: Media, parts: &Parts) -> Result<Answer> {
        let slot = self.get(of, What::Aggregated(root));
        let made = self.made(of, What::Aggregated(root), &slot);
        let zipped = media == Media::Json
            && made.body.len() > MIN_COMPRESSED
            && negotiate::gzip(&parts.headers);
        let (body, content_type) = match media {
            Media::Json => (
                made.sent(zipped),
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
            Media::Protobuf => {
                let document = of.catalog().aggregated(root);
                let mut raw = Vec::new();
                protobuf::encode(document.type_id(), &document.object(), &mut raw);
                let sealed =
                    protobuf::seal("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &raw);
                (
                    sealed.into(),
                    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                )
            }
            Media::Yaml => return Err(StatusError::not_acceptable()),
        };
        let etag = quoted(&made.hash);
        let unchanged = parts.headers.get(IF_NONE_MATCH) == Some(&etag);
        let answer = match unchanged {
            true => Answer::new(StatusCode::NOT_MODIFIED, Body::empty()),
            false => Answer::new(StatusCode::OK, body.into()).encoded(zipped),
        };
        Ok(answer
            .typed(content_type)
            .header(ETAG, etag)
            .header(VARY, HeaderValue::from_static("Accept"))
            .header(CACHE_CONTROL, HeaderValue::from_static("public")))
    }

    fn v3_part(&self, path: &str, of: Scope<'_>, parts: &Parts, query: &Query) -> Result<Answer> {
        let filter = |kind: &Kind| serves(of.space, kind);
        let common = openapi::v3_paths(&filter);
        if !common.iter().any(|known| known == path) && !of.is_custom(path) {
            return Ok(Answer::new(StatusCode::NOT_FOUND, Body::empty()));
        }
        let (shown, content_type) = match negotiate::openapi(&parts.headers, "v3") {
            Some(OpenApiMedia::Json) => (What::V3(path.to_owned()), "application/json"),
            Some(OpenApiMedia::Protobuf) => (
                What::V3Protobuf(path.to_owned()),
                "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
            ),
            None => return Ok(Answer::new(StatusCode::NOT_ACCEPTABLE, Body::empty())),
        };
        let answer = match query.get("hash").filter(|hash| !hash.is_empty()) {
            None => return Ok(self.conditional(of, shown, parts, content_type)),
            Some(hash) => {
                // The hash is that of the JSON, in whatever form the document is sent.
                let what = What::V3(path.to_owned());
                let slot = self.get(of, what.clone());
                let made = self.made(of, what, &slot);
                if hash != made.hash {
                    let right = format!("{}?hash={}", parts.uri.path(), made.hash);
                    let right = HeaderValue::from_str(&right).map_err(StatusError::internal)?;
                    let moved = Answer::new(StatusCode::MOVED_PERMANENTLY, Body::empty());
                    return Ok(moved.header(LOCATION, right));
                }
                self.conditional(of, shown, parts, content_type)
            }
        };
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(YEAR);
        Ok(answer
            .header(CACHE_CONTROL, HeaderValue::from_static("public, immutable"))
            .header(EXPIRES, Since(end).header()))
    }

    /// The document, or that it is what the caller has.
    fn conditional(
        &self,
        of: Scope<'_>,
        what: What,
        parts: &Parts,
        content_type: &'static str,
    ) -> Answer {
        let slot = self.get(of, what.clone());
        let made = self.made(of, what, &slot);
        let etag = quoted(&made.hash);
        if parts.headers.get(IF_NONE_MATCH) == Some(&etag) {
            return Answer::new(StatusCode::NOT_MODIFIED, Body::empty()).header(ETAG, etag);
        }
        let zipped = negotiate::gzip(&parts.headers);
        Answer::new(StatusCode::OK, made.sent(zipped).into())
            .typed(content_type)
            .encoded(zipped)
            .header(ETAG, etag)
            .header(LAST_MODIFIED, self.since.header())
            .header(VARY, HeaderValue::from_static("Accept, Accept-Encoding"))
    }

    /// The place of a document, which stays as long as somebody holds it and a while after.
    fn get(&self, of: Scope<'_>, what: What) -> Arc<Slot> {
        let name = Name::of(of, what);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, slot)| slot.strong_count() > 0);
        let found = kept.iter().find(|(known, _)| *known == name);
        let found = found.and_then(|(_, slot)| slot.upgrade());
        let slot = found.unwrap_or_else(|| {
            let slot = Arc::new(Slot::new());
            kept.push((name, Arc::downgrade(&slot)));
            slot
        });
        drop(kept);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|held| !Arc::ptr_eq(held, &slot));
        recent.push(Arc::clone(&slot));
        if recent.len() > RECENT {
            recent.remove(0);
        }
        slot
    }

    /// What is in that place, made if nobody has yet.
    fn made<'a>(&self, of: Scope<'_>, what: What, slot: &'a Slot) -> &'a Made {
        slot.get_or_init(|| Made::new(self.make(of, &Name::of(of, what))))
    }

    /// Where the parts are. Those that every space has are made once for that.
    fn v3_index(&self, of: Scope<'_>) -> Vec<u8> {
        let common = self.common[usize::from(of.space.is_system())].get_or_init(|| {
            let filter = |kind: &Kind| serves(of.space, kind);
            let paths = openapi::v3_paths(&filter).into_iter();
            let hashes = paths.map(|path| {
                let part = openapi::v3_document(&path, &filter).unwrap_or_default();
                (path, hash(&self.described(part)))
            });
            hashes.collect()
        });
        let customs = of.v3_paths().into_iter().map(|path| {
            let part = of.v3_custom(&path);
            (path, hash(&self.described(part)))
        });
        let all = common.iter().cloned().chain(customs).map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        });
        let paths: serde_json::Map<_, _> = all.collect();
        json!({"paths": paths}).to_string().into_bytes()
    }

    fn make(&self, of: Scope<'_>, name: &Name) -> Vec<u8> {
        let filter = |kind: &Kind| name.system || !kind.system_only;
        match &name.what {
            What::Aggregated(root) => of.catalog().aggregated(*root).into_json(),
            What::V2 if of.apis.fingerprint() == 0 => self.described(openapi::v2_document(&filter)),
            What::V2 => {
                let part = custom::v2_part(of.apis.versions());
                self.described(V2Base::new(&filter).with(&part))
            }
            What::V2Protobuf if of.apis.fingerprint() == 0 => self.v2_protobuf(&filter),
            What::V2Protobuf => {
                let mut document = self.v2_protobuf(&filter);
                document.extend(custom::v2_part(of.apis.versions()).protobuf());
                document
            }
            What::V3(path) => {
                let document = openapi::v3_document(path, &filter);
                self.described(document.unwrap_or_else(|| of.v3_custom(path)))
            }
            What::V3Protobuf(path) => {
                let document = self.make(of, &Name::of(of, What::V3(path.clone())));
                openapi::v3_protobuf(&document)
            }
            What::V3Index => self.v3_index(of),
        }
    }

    /// The document, with descriptions if the server has any.
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

impl Name {
    fn of(of: Scope<'_>, what: What) -> Self {
        let customs = match &what {
            What::Aggregated(Root::Api) => 0,
            What::V3(path) | What::V3Protobuf(path) if !of.is_custom(path) => 0,
            _ => of.apis.fingerprint(),
        };
        Self {
            system: of.space.is_system(),
            customs,
            what,
        }
    }
}

impl Since {
    fn header(&self) -> HeaderValue {
        let text = self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0"))
    }
}

impl Made {
    /// The document, compressed or not.
    fn sent(&self, zipped: bool) -> Bytes {
        match zipped {
            true => self.compressed.get_or_init(|| gzip(&self.body)).clone(),
            false => self.body.clone(),
        }
    }

    fn new(body: Vec<u8>) -> Self {
        let hash = hash(&body);
        Self {
            body: body.into(),
            compressed: OnceLock::new(),
            hash,
        }
    }
}

fn legacy(document: discovery::Document, parts: &Parts, query: &Query) -> Result<Answer> {
    let accepted = negotiate::accepted(&parts.headers, query, Asked::Plain)?;
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

fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA512, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
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
