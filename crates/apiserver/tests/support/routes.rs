//! Everything that can be asked of a server, from the tables that it is routed by.

use http::Method;
use insula_apiserver::route::{Document, Target, route};
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Answer, Client};

/// One thing that can be asked of a kind.
#[derive(Clone, Debug)]
pub struct Ask {
    pub kind: &'static Kind,
    pub verb: &'static str,
    pub subresource: Option<&'static str>,
    /// Of a kind with namespaces: in all of them.
    pub everywhere: bool,
}

/// Where it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Ask {
    /// Every route and verb in the table of kinds.
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
            other => panic!("a verb that nobody knows: {other}"),
        }
    }

    /// Whether it has a body.
    pub fn writes(&self) -> bool {
        self.method() != Method::GET
    }

    /// Whether it is about many objects, and so can be asked of all spaces.
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

    /// In the caller's own space.
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

    /// In a space that is named in the middle of the path.
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

    /// In a space that is named in every way that there is.
    pub fn spellings(&self, space: &str, place: Place<'_>) -> Vec<String> {
        let full = self.full(space, place);
        let below = self.short(place).into_iter().chain(full.clone());
        let below = below.map(|path| format!("/tenants/{space}{path}"));
        let below: Vec<String> = below.collect();
        full.into_iter().chain(below).collect()
    }

    /// The body makes no sense: whoever is refused is refused before it is read, and whoever
    /// is not does nothing. Of a watch only the beginning is awaited.
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

/// A path that leads to a document.
#[derive(Clone, Debug)]
pub struct Page {
    /// As the table has it.
    pub pattern: &'static str,
    /// One of those paths.
    pub path: String,
    /// What is there.
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

    /// Which of the documents it is. There is no arm for "any other": one that is new does
    /// not compile here until somebody has given it a path in the table.
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
