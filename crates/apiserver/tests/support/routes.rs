//! Every operation a server offers, derived from its routing tables.

use http::Method;
use insula_apiserver::route::{Document, Target, route};
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Answer, Client};

/// One verb on a resource or subresource.
#[derive(Clone, Debug)]
pub struct Ask {
    pub kind: &'static Kind,
    pub verb: &'static str,
    pub subresource: Option<&'static str>,
    /// Across all namespaces, for a namespaced kind.
    pub everywhere: bool,
}

/// The object that an operation addresses.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Ask {
    /// Every route and verb of the built-in kinds.
    pub fn every() -> Vec<Self> {
        let mut asks = Vec::new();
        for (_, kind) in kinds().iter() {
            for verb in &kind.verbs {
                let of_many = matches!(verb.as_str(), "list" | "watch");
                for everywhere in [false, true] {
                    if !everywhere || (kind.namespaced() && of_many) {
                        asks.push(Self {
                            kind,
                            verb,
                            subresource: None,
                            everywhere,
                        });
                    }
                }
            }
            for subresource in &kind.subresources {
                asks.extend(subresource.verbs.iter().map(|verb| Self {
                    kind,
                    verb,
                    subresource: Some(&subresource.name),
                    everywhere: false,
                }));
            }
        }
        asks
    }

    pub fn method(&self) -> Method {
        match self.verb {
            "get" | "list" | "watch" => Method::GET,
            "create" => Method::POST,
            "update" => Method::PUT,
            "patch" => Method::PATCH,
            "delete" | "deletecollection" => Method::DELETE,
            other => panic!("unknown verb: {other}"),
        }
    }

    /// Whether the request has a body.
    pub fn writes(&self) -> bool {
        self.method() != Method::GET
    }

    /// Whether the operation covers many objects and can therefore address all spaces.
    pub fn of_many(&self) -> bool {
        matches!(self.verb, "list" | "watch")
    }

    /// `apps/v1 deployments/scale`.
    pub fn label(&self) -> String {
        let below = self.subresource.map(|name| format!("/{name}"));
        let group = match self.kind.group.as_str() {
            "" => String::new(),
            group => format!("{group}/"),
        };
        let (version, resource) = (&self.kind.version, &self.kind.resource);
        format!("{group}{version} {resource}{}", below.unwrap_or_default())
    }

    /// Paths in the caller's own space.
    pub fn short(&self, place: Place<'_>) -> Vec<String> {
        let mut paths = vec![format!("{}/{}", self.api(), self.within(place))];
        if self.verb == "watch" {
            paths.push(format!("{}/watch/{}", self.api(), self.collection(place)));
            if !self.everywhere {
                paths.push(format!("{}/watch/{}", self.api(), self.one(place)));
            }
        }
        paths
    }

    /// Paths that name the space after the API group.
    pub fn full(&self, space: &str, place: Place<'_>) -> Vec<String> {
        let api = self.api();
        let mut paths = vec![format!("{api}/tenants/{space}/{}", self.within(place))];
        if self.verb == "watch" {
            let collection = self.collection(place);
            paths.push(format!("{api}/watch/tenants/{space}/{collection}"));
            if !self.everywhere {
                let one = self.one(place);
                paths.push(format!("{api}/watch/tenants/{space}/{one}"));
            }
        }
        paths
    }

    /// Paths to a named space in every spelling.
    pub fn spellings(&self, space: &str, place: Place<'_>) -> Vec<String> {
        let full = self.full(space, place);
        let below = self.short(place).into_iter().chain(full.clone());
        let below = below.map(|path| format!("/tenants/{space}{path}"));
        let below: Vec<String> = below.collect();
        full.into_iter().chain(below).collect()
    }

    /// Sends the operation with an invalid body: a refusal comes before the body is read, and an
    /// allowed request changes nothing. A watch is read up to its headers only.
    pub async fn send(&self, client: &Client, path: &str) -> anyhow::Result<Answer> {
        if self.verb == "watch" {
            let lines = client.watch(path).await?;
            if lines.status != 200 {
                return lines.whole().await;
            }
            return Ok(Answer {
                status: lines.status,
                headers: lines.headers,
                body: bytes::Bytes::new(),
            });
        }
        let headers = [("content-type", "application/json")];
        let body = if self.writes() { "{" } else { "" };
        client.send(self.method(), path, &headers, body).await
    }

    fn api(&self) -> String {
        match self.kind.group.as_str() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", self.kind.version),
        }
    }

    fn collection(&self, place: Place<'_>) -> String {
        let resource = &self.kind.resource;
        match self.kind.namespaced() && !self.everywhere {
            true => format!("namespaces/{}/{resource}", place.namespace),
            false => resource.clone(),
        }
    }

    fn one(&self, place: Place<'_>) -> String {
        format!("{}/{}", self.collection(place), place.name)
    }

    fn within(&self, place: Place<'_>) -> String {
        let below = self.subresource.map(|name| format!("/{name}"));
        match (self.verb, below) {
            (_, Some(below)) => format!("{}{below}", self.one(place)),
            ("list" | "create" | "deletecollection", None) => self.collection(place),
            ("watch", None) => format!("{}?watch=true", self.collection(place)),
            (_, None) => self.one(place),
        }
    }
}

/// A path that serves a document.
#[derive(Clone, Debug)]
pub struct Page {
    /// The pattern in the routing table.
    pub pattern: &'static str,
    /// A path that matches the pattern.
    pub path: String,
    /// The document at that path.
    pub document: Document,
}

impl Page {
    /// Every path of every document.
    pub fn every() -> Vec<Self> {
        let filled = |pattern: &str| {
            let path = pattern.replace("{group}", "apps");
            path.replace("{version}", "v1").replace("{path}", "api/v1")
        };
        let page = |pattern: &'static str| {
            let path = filled(pattern);
            let found = route(&Method::GET, &path, false);
            match found.map(|found| found.target) {
                Ok(Target::Document(document)) => Self {
                    pattern,
                    path,
                    document,
                },
                other => panic!("{pattern} leads to no document: {other:?}"),
            }
        };
        Document::PATHS.into_iter().map(page).collect()
    }

    /// The index of the document. There is no wildcard arm, so that a new document does not compile
    /// before it has a path in the table.
    pub fn number(&self) -> usize {
        match &self.document {
            Document::Api => 0,
            Document::Apis => 1,
            Document::Group(_) => 2,
            Document::Resources { .. } => 3,
            Document::OpenApiV2 => 4,
            Document::OpenApiV3 => 5,
            Document::OpenApiV3Part(_) => 6,
            Document::Version => 7,
            Document::Health(_) => 8,
            Document::Metrics => 9,
            Document::Issuer => 10,
            Document::Keys => 11,
            Document::Index => 12,
        }
    }
}
