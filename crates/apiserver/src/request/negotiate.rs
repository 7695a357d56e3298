//! Content negotiation: the media types that a client sends and accepts.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};

use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// A media type of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
    /// `application/cbor`.
    Cbor,
}

/// The form in which an object is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// The object itself.
    #[default]
    Whole,
    /// A table row.
    Table,
    /// Its metadata.
    Metadata,
    /// The metadata of the items of a list.
    MetadataList,
}

/// The negotiated response format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub media: Media,
    /// The form of objects.
    pub form: Form,
    /// The requested version of `meta.k8s.io` for the form.
    pub form_version: FormVersion,
    /// With line breaks.
    pub pretty: bool,
    /// Compressed, if it is worth it.
    pub gzip: bool,
}

/// The version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormVersion {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`.
    V1Beta1,
}

/// The sort of response, which determines the forms that it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Objects: whole, their metadata, or as a table.
    Objects,
    /// Custom objects, which have no protobuf form.
    Customs,
    /// Objects without a table: reviews, tokens, evictions.
    Untabled,
    /// Responses with one form only: errors.
    Plain,
    /// Discovery, which client-go cannot read in CBOR.
    Discovery,
}

/// Returns the format that the request accepts, from its headers and parameters.
pub fn accepted(headers: &HeaderMap, query: &Query, asked: Asked) -> Result<Accepted> {
    if accepts_plain_json(headers) {
        return Ok(Accepted {
            media: Media::Json,
            form: Form::Whole,
            form_version: FormVersion::V1,
            pretty: pretty(headers, query),
            gzip: gzip(headers),
        });
    }
    let accept = accept(headers);
    let mut clauses = clauses(&accept);
    if clauses.is_empty() {
        clauses.push(Clause {
            media: "*/*",
            parameters: Vec::new(),
            quality: 1.0,
        });
    }
    let known = clauses.iter().any(Clause::is_known);
    if !known {
        return Err(StatusError::not_acceptable(asked.served()));
    }
    let chosen = clauses.iter().find_map(|clause| clause.accepted(asked));
    let no_such = || StatusError::no_such_transform(asked.served());
    let mut accepted = chosen.ok_or_else(no_such)?;
    accepted.pretty |= pretty(headers, query);
    accepted.gzip = gzip(headers);
    Ok(accepted)
}

impl Asked {
    /// The media types, as errors list them.
    pub const fn served(self) -> &'static str {
        match self {
            Self::Discovery => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            }
            _ => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                 application/cbor"
            }
        }
    }

    /// Whether a response of this sort has this media type and form.
    fn has(self, media: Media, form: Form) -> bool {
        match (self, form) {
            (Self::Customs, Form::Whole) => media != Media::Protobuf,
            (Self::Discovery, Form::Whole) => media != Media::Cbor,
            (_, Form::Whole) => true,
            (Self::Plain | Self::Discovery, _) => false,
            (Self::Untabled, Form::Table) => false,
            (_, Form::Table) => media != Media::Protobuf,
            (_, Form::Metadata | Form::MetadataList) => true,
        }
    }
}

/// The format of errors for clients that accept no media type of errors.
pub const RAW: Accepted = Accepted {
    media: Media::Json,
    form: Form::Whole,
    form_version: FormVersion::V1,
    pretty: true,
    gzip: false,
};

/// Returns the media type of aggregated discovery, if `Accept` prefers it to plain discovery.
pub fn wants_aggregated(headers: &HeaderMap) -> Option<Media> {
    let accept = accept(headers);
    for clause in clauses(&accept) {
        let parameter = |name| clause.parameter(name);
        match parameter("as") {
            Some("APIGroupDiscoveryList")
                if parameter("g") == Some("apidiscovery.k8s.io")
                    && parameter("v") == Some("v2")
                    && matches!(clause.media(), Some(Media::Json | Media::Protobuf)) =>
            {
                return clause.media();
            }
            // Discovery is not served in CBOR.
            None if clause.media().is_some_and(|media| media != Media::Cbor) => return None,
            _ => {}
        }
    }
    None
}

/// Returns the `User-Agent` of the client.
pub fn agent(headers: &HeaderMap) -> &str {
    let agent = headers.get(USER_AGENT);
    agent.and_then(|agent| agent.to_str().ok()).unwrap_or("")
}

/// A format of OpenAPI documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiMedia {
    /// `application/json`.
    Json,
    /// The messages of gnostic.
    Protobuf,
}

/// Returns the preferred served media type of OpenAPI documents of a version, `v2` or `v3`.
pub fn openapi(headers: &HeaderMap, version: &str) -> Option<OpenApiMedia> {
    let accept = accept(headers);
    let clauses = clauses(&accept);
    if clauses.is_empty() {
        return Some(OpenApiMedia::Json);
    }
    clauses.iter().find_map(|clause| match clause.media {
        "application/json" | "application/*" | "*/*" => Some(OpenApiMedia::Json),
        other => {
            let sealed = other.strip_prefix("application/com.github.proto-openapi.spec.")?;
            let written = sealed.strip_prefix(version)?;
            let known = matches!(written, ".v1.0+protobuf" | "@v1.0+protobuf");
            known.then_some(OpenApiMedia::Protobuf)
        }
    })
}

/// Whether the client accepts JSON without parameters, or says nothing, as most programs do.
fn accepts_plain_json(headers: &HeaderMap) -> bool {
    let mut accept = headers.get_all(ACCEPT).iter();
    match (accept.next(), accept.next()) {
        (None, _) => true,
        (Some(only), None) => only == "application/json" || only == "*/*",
        _ => false,
    }
}

/// Returns all `Accept` headers, joined.
fn accept(headers: &HeaderMap) -> String {
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    accept.join(",")
}

/// The format of the request's body.
pub fn sent(headers: &HeaderMap) -> Result<Media> {
    match content_type(headers) {
        "" | "*/*" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Media::Protobuf),
        "application/cbor" => Ok(Media::Cbor),
        _ => Err(StatusError::unsupported_body()),
    }
}

/// Whether the request's body is CBOR, be it an object or a patch.
pub fn is_cbor(headers: &HeaderMap) -> bool {
    let types = ["application/cbor", "application/apply-patch+cbor"];
    types.contains(&content_type(headers))
}

/// `Content-Type` without its parameters.
pub fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or("").split(';').next().unwrap_or("").trim()
}

impl Media {
    /// `Content-Type` of a body.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Cbor => "application/cbor",
        }
    }

    /// `Content-Type` of a watch; `None` of a format that has no streams.
    pub const fn stream(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
            Self::Cbor => Some("application/cbor-seq"),
        }
    }
}

/// One clause of `Accept`.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty())?;
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q");
        let quality = quality
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(1.0);
        Some(Self {
            media,
            parameters,
            quality,
        })
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| *value)
    }

    /// Whether it names a known media type or `*/*`. A wildcard subtype does not count.
    fn is_known(&self) -> bool {
        self.media().is_some() && self.media != "application/*"
    }

    fn media(&self) -> Option<Media> {
        match self.media {
            "application/json" | "application/*" | "*/*" => Some(Media::Json),
            "application/yaml" => Some(Media::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Media::Protobuf),
            "application/cbor" => Some(Media::Cbor),
            _ => None,
        }
    }

    /// Returns the form that it requests, or `None` if that is not served.
    fn form(&self) -> Option<(Form, FormVersion)> {
        let named = ["as", "g", "v"].map(|name| self.parameter(name));
        let [kind, group, version] = named;
        if named == [None; 3] {
            return Some((Form::Whole, FormVersion::V1));
        }
        let form = match kind? {
            "Table" => Form::Table,
            "PartialObjectMetadata" => Form::Metadata,
            "PartialObjectMetadataList" => Form::MetadataList,
            _ => return None,
        };
        let version = match (group?, version?) {
            ("meta.k8s.io", "v1") => FormVersion::V1,
            ("meta.k8s.io", "v1beta1") => FormVersion::V1Beta1,
            _ => return None,
        };
        Some((form, version))
    }

    /// Whether it requests a stream or an unknown version of the server.
    fn is_odd(&self, media: Media) -> bool {
        let stream = self.parameter("stream").unwrap_or_default();
        let version = self.parameter("sv").unwrap_or_default();
        let streamed = stream.is_empty() || stream == "watch" && media.stream().is_some();
        !streamed || !version.is_empty()
    }

    fn accepted(&self, asked: Asked) -> Option<Accepted> {
        let media = self.media()?;
        let (form, form_version) = self.form()?;
        if !asked.has(media, form) || self.is_odd(media) {
            return None;
        }
        Some(Accepted {
            media,
            form,
            form_version,
            pretty: self.parameter("pretty") == Some("1"),
            gzip: false,
        })
    }
}

/// Returns the clauses in descending order of quality.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty").filter(|value| !value.is_empty()) {
        // The values that Go parses as true.
        return ["1", "t", "T", "TRUE", "true", "True"].contains(&value);
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|browser| agent.starts_with(browser))
}

/// Whether the client accepts gzip.
pub fn gzip(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT_ENCODING).iter();
    let mut tokens = accepts
        .filter_map(|value| value.to_str().ok())
        .flat_map(|v| v.split(','));
    tokens.any(|token| token.trim() == "gzip")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn accept_of(text: &str) -> Result<(Media, Form)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(text).unwrap());
        accepted(&headers, &Query::default(), Asked::Objects)
            .map(|accepted| (accepted.media, accepted.form))
    }

    #[test]
    fn served_clause_with_the_highest_quality_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        for (text, media, form) in [
            ("*/*", Media::Json, Form::Whole),
            (
                "application/json;q=0.1,application/yaml;q=0.9",
                Media::Yaml,
                Form::Whole,
            ),
            ("text/plain,application/json", Media::Json, Form::Whole),
            (table, Media::Json, Form::Table),
            (
                "application/json;as=Foo;v=v1;g=meta.k8s.io,application/yaml",
                Media::Yaml,
                Form::Whole,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Media::Protobuf,
                Form::Metadata,
            ),
        ] {
            assert_eq!(accept_of(text), Ok((media, form)), "{text}");
        }
    }

    #[test]
    fn unserved_media_type_and_unserved_form_have_different_errors() {
        for text in ["application/*", "text/html", "garbage"] {
            assert_eq!(
                accept_of(text),
                Err(StatusError::not_acceptable(Asked::Objects.served())),
                "{text}"
            );
        }
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        let error = accept_of(table).unwrap_err();
        assert!(
            error
                .message()
                .starts_with("only the following media types"),
            "{error}"
        );
    }
}
