//! Every operation a server offers, derived from its routing tables.

use http::Method;
use insula_apiserver::pipeline::route::{Document, Target, route};
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Answer, Client};

/// One verb on a resource or subresource.
#[derive(Clone, Debug)]
pub struct Operation {
    pub kind: &'static Kind,
    pub verb: &'static str,
    pub subresource: Option<&'static str>,
    /// Across all namespaces, for a namespaced kind.
    pub all_namespaces: bool,
}

/// The object that an operation addresses.
#[derive(Clone, Copy, Debug)]
pub struct NamespacedName<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Operation {
    /// Every route and verb of the built-in kinds.
    pub fn all() -> Vec<Self> {
        let mut operations = Vec::new();
        for (_, kind) in kinds().iter() {
            for verb in &kind.verbs {
                let is_collection = matches!(verb.as_str(), "list" | "watch");
                for all_namespaces in [false, true] {
                    if !all_namespaces || (kind.namespaced() && is_collection) {
                        operations.push(Self {
                            kind,
                            verb,
                            subresource: None,
                            all_namespaces,
                        });
                    }
                }
            }
            for subresource in &kind.subresources {
                operations.extend(subresource.verbs.iter().map(|verb| Self {
                    kind,
                    verb,
                    subresource: Some(&subresource.name),
                    all_namespaces: false,
                }));
            }
        }
        operations
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
    pub fn is_collection(&self) -> bool {
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
    pub fn relative_paths(&self, object: NamespacedName<'_>) -> Vec<String> {
        let mut paths = vec![format!("{}/{}", self.api(), self.within(object))];
        if self.verb == "watch" {
            paths.push(format!("{}/watch/{}", self.api(), self.collection(object)));
            if !self.all_namespaces {
                paths.push(format!("{}/watch/{}", self.api(), self.one(object)));
            }
        }
        paths
    }

    /// Paths that name the space after the API group.
    pub fn full_paths(&self, space: &str, object: NamespacedName<'_>) -> Vec<String> {
        let api = self.api();
        let mut paths = vec![format!("{api}/tenants/{space}/{}", self.within(object))];
        if self.verb == "watch" {
            let collection = self.collection(object);
            paths.push(format!("{api}/watch/tenants/{space}/{collection}"));
            if !self.all_namespaces {
                let one = self.one(object);
                paths.push(format!("{api}/watch/tenants/{space}/{one}"));
            }
        }
        paths
    }

    /// Paths to a named space in every spelling.
    pub fn all_spellings(&self, space: &str, object: NamespacedName<'_>) -> Vec<String> {
        let full = self.full_paths(space, object);
        let below = self.relative_paths(object).into_iter().chain(full.clone());
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

    fn collection(&self, object: NamespacedName<'_>) -> String {
        let resource = &self.kind.resource;
        match self.kind.namespaced() && !self.all_namespaces {
            true => format!("namespaces/{}/{resource}", object.namespace),
            false => resource.clone(),
        }
    }

    fn one(&self, object: NamespacedName<'_>) -> String {
        format!("{}/{}", self.collection(object), object.name)
    }

    fn within(&self, object: NamespacedName<'_>) -> String {
        let below = self.subresource.map(|name| format!("/{name}"));
        match (self.verb, below) {
            (_, Some(below)) => format!("{}{below}", self.one(object)),
            ("list" | "create" | "deletecollection", None) => self.collection(object),
            ("watch", None) => format!("{}?watch=true", self.collection(object)),
            (_, None) => self.one(object),
        }
    }
}

/// A UID that no tenant has.
pub const UNKNOWN_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A path that serves a document.
#[derive(Clone, Debug)]
pub struct DocumentPath {
    /// The pattern in the routing table.
    pub pattern: &'static str,
    /// A path that matches the pattern.
    pub path: String,
    /// The document at that path.
    pub document: Document,
}

impl DocumentPath {
    /// Every path of every document.
    pub fn all() -> Vec<Self> {
        let filled = |pattern: &str| {
            let path = pattern.replace("{group}", "apps");
            let path = path.replace("{version}", "v1").replace("{path}", "api/v1");
            path.replace("{uid}", UNKNOWN_UID)
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
            Document::Health { .. } => 8,
            Document::Metrics => 9,
            Document::Issuer => 10,
            Document::Keys => 11,
            Document::Index => 12,
            Document::TenantIssuer { .. } => 13,
            Document::TenantKeys { .. } => 14,
            Document::AuditEvents => 15,
        }
    }
}
