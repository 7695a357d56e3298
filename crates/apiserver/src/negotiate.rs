//! What the caller sends and accepts.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};

use crate::query::Query;
use crate::status::{Refusal, Result};

/// A format of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// What is made of an object before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Nothing.
    #[default]
    Whole,
    /// A table row.
    Table,
    /// Its metadata.
    Metadata,
    /// The metadata of the items of a list.
    MetadataList,
}

/// What the caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub media: Media,
    /// The form of objects.
    pub form: Form,
    /// The version of `meta.k8s.io` that the form was asked for in.
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

/// What the request accepts, from its headers and parameters.
pub fn accepted(headers: &HeaderMap, query: &Query) -> Result<Accepted> {
    choose(headers, query, |_| true)
}

/// The same for objects of a kind that users define: whole ones have no protobuf.
pub fn accepted_custom(headers: &HeaderMap, query: &Query) -> Result<Accepted> {
    choose(headers, query, |accepted| {
        accepted.media != Media::Protobuf || accepted.form != Form::Whole
    })
}

fn choose(
    headers: &HeaderMap,
    query: &Query,
    served: impl Fn(&Accepted) -> bool,
) -> Result<Accepted> {
    let accept = accept(headers);
    let mut clauses = clauses(&accept);
    if clauses.is_empty() {
        clauses.push(Clause {
            media: "*/*",
            parameters: Vec::new(),
            quality: 1.0,
        });
    }
    let known = clauses.iter().any(|clause| clause.media().is_some());
    if !known {
        return Err(Refusal::not_acceptable());
    }
    let chosen = clauses
        .iter()
        .find_map(|clause| clause.accepted().filter(&served));
    let mut accepted = chosen.ok_or_else(Refusal::no_such_transform)?;
    accepted.pretty |= pretty(headers, query);
    accepted.gzip = gzip(headers);
    Ok(accepted)
}

/// What errors are sent in when nothing better is known.
pub const PLAIN: Accepted = Accepted {
    media: Media::Json,
    form: Form::Whole,
    form_version: FormVersion::V1,
    pretty: false,
    gzip: false,
};

/// The clause of `Accept` that asks for aggregated discovery, if any does before a plain
/// one: whether it is wanted.
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
            None if clause.media().is_some() => return None,
            _ => {}
        }
    }
    None
}

/// A format of OpenAPI's second version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiMedia {
    /// `application/json`.
    Json,
    /// The messages of gnostic.
    Protobuf,
}

/// The most wanted format of OpenAPI's second version that is served.
pub fn openapi_v2(headers: &HeaderMap) -> Option<OpenApiMedia> {
    let accept = accept(headers);
    let clauses = clauses(&accept);
    if clauses.is_empty() {
        return Some(OpenApiMedia::Json);
    }
    clauses.iter().find_map(|clause| match clause.media {
        "application/json" | "application/*" | "*/*" => Some(OpenApiMedia::Json),
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" => {
            Some(OpenApiMedia::Protobuf)
        }
        _ => None,
    })
}

/// Whether JSON is accepted, of a document that is nothing else.
pub fn accepts_json(headers: &HeaderMap) -> bool {
    openapi_v2(headers) == Some(OpenApiMedia::Json)
        || clauses(&accept(headers))
            .iter()
            .any(|clause| clause.media() == Some(Media::Json))
}

/// All of `Accept`.
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
        _ => Err(Refusal::unsupported_body()),
    }
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

    fn media(&self) -> Option<Media> {
        match self.media {
            "application/json" | "*/*" => Some(Media::Json),
            "application/yaml" => Some(Media::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Media::Protobuf),
            _ => None,
        }
    }

    fn accepted(&self) -> Option<Accepted> {
        let media = self.media()?;
        let form = match self.parameter("as") {
            None => Form::Whole,
            Some("Table") if media != Media::Protobuf => Form::Table,
            Some("PartialObjectMetadata") => Form::Metadata,
            Some("PartialObjectMetadataList") => Form::MetadataList,
            Some(_) => return None,
        };
        let mut form_version = FormVersion::V1;
        if form != Form::Whole {
            if self.parameter("g") != Some("meta.k8s.io") {
                return None;
            }
            form_version = match self.parameter("v") {
                Some("v1") => FormVersion::V1,
                Some("v1beta1") => FormVersion::V1Beta1,
                _ => return None,
            };
        }
        let pretty = matches!(self.parameter("pretty"), Some("1" | "true"));
        Some(Accepted {
            media,
            form,
            form_version,
            pretty,
            gzip: false,
        })
    }
}

/// The clauses, most wanted first.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty") {
        return value == "1" || value == "true";
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|browser| agent.starts_with(browser))
}

/// Whether the answer may be compressed.
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
        accepted(&headers, &Query::default()).map(|accepted| (accepted.media, accepted.form))
    }

    #[test]
    fn the_most_wanted_clause_that_can_be_served_wins() {
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
    fn what_cannot_be_served_is_refused_in_two_ways() {
        for text in ["application/*", "text/html", "garbage"] {
            assert_eq!(accept_of(text), Err(Refusal::not_acceptable()), "{text}");
        }
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        let refusal = accept_of(table).unwrap_err();
        assert!(
            refusal
                .message()
                .starts_with("only the following media types"),
            "{refusal}"
        );
    }
}
