//! The paths of built-in kinds and their operations.

use super::operation::{
    Body, DELETE, DELETE_COLLECTION, GroupVersionKind, LIST, NAME, NAMESPACE, Operation, PATCH,
    PATH, PRETTY, Parameter, Response, WRITE, connect_parameters,
};
use super::{capitalized, group_id, tag};
use crate::{Kind, Subresource, kinds, types};

const STATUS: &str = "apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "apimachinery.pkg.apis.meta.v1.DeleteOptions";
const WATCH_EVENT: &str = "apimachinery.pkg.apis.meta.v1.WatchEvent";

/// A path and its operations.
pub(super) struct Path {
    pub(super) path: String,
    pub(super) tag: String,
    /// Parameters common to all operations.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// Returns all paths of a kind.
pub(super) fn paths_of_kind(kind: &Kind) -> Vec<Path> {
    let resource = Resource::new(kind);
    let mut paths = vec![resource.collection(), resource.item()];
    if kind.namespaced() {
        paths.push(resource.all_namespaces());
    }
    if kind.supports("watch") {
        paths.extend(resource.watch_paths());
    }
    for sub in &kind.subresources {
        paths.extend(resource.subresource_paths(sub));
    }
    paths.retain(|path| !path.operations.is_empty());
    paths
}

/// A kind, and the parts that make up its paths and operation IDs.
struct Resource<'a> {
    kind: &'a Kind,
    type_name: &'static str,
    list_type_name: &'static str,
    /// `/apis/apps/v1`.
    root: String,
    /// `namespaces/{namespace}/deployments`.
    place: String,
    /// `AppsV1`.
    version_id: String,
    /// `NamespacedDeployment`.
    kind_id: String,
}

impl<'a> Resource<'a> {
    fn new(kind: &'a Kind) -> Self {
        let type_name = types().get(kind.type_id()).name;
        let list = types().find(&format!("{type_name}List"));
        let (place, kind_id) = match kind.namespaced() {
            true => (
                format!("namespaces/{{namespace}}/{}", kind.resource),
                format!("Namespaced{}", kind.kind),
            ),
            false => (kind.resource.clone(), kind.kind.clone()),
        };
        Self {
            kind,
            type_name,
            // Kinds that cannot be listed have no list type, and it is not used.
            list_type_name: list.map_or(type_name, |id| types().get(id).name),
            root: root(&kind.group, &kind.version),
            place,
            version_id: version_id(&kind.group, &kind.version),
            kind_id,
        }
    }

    fn collection(&self) -> Path {
        let object = Response::Object(self.type_name);
        let mut operations = Vec::new();
        if self.kind.supports("list") {
            operations.push(self.list(&self.kind_id));
        }
        if self.kind.supports("create") {
            let id = self.id("create", &self.kind_id);
            let body = Body::Required(self.type_name);
            let created = self.operation("post", id, "post", object);
            operations.push(Operation {
                parameters: WRITE,
                body,
                codes: &[200, 201, 202],
                ..created
            });
        }
        if self.kind.supports("deletecollection") {
            let id = self.id("delete", &format!("Collection{}", self.kind_id));
            let status = Response::Object(STATUS);
            operations.push(Operation {
                parameters: DELETE_COLLECTION,
                body: Body::Optional(DELETE_OPTIONS),
                ..self.operation("delete", id, "deletecollection", status)
            });
        }
        self.path(self.place.clone(), &[], operations)
    }

    fn list(&self, name: &str) -> Operation {
        let list = Response::List(self.list_type_name);
        let id = self.id("list", name);
        Operation {
            parameters: LIST,
            ..self.operation("get", id, "list", list)
        }
    }

    /// The list across all namespaces.
    fn all_namespaces(&self) -> Path {
        let mut operations = Vec::new();
        if self.kind.supports("list") {
            operations.push(self.list(&format!("{}ForAllNamespaces", self.kind.kind)));
        }
        let mut path = self.path(self.kind.resource.clone(), &[], operations);
        path.parameters = vec![PRETTY];
        path
    }

    fn item(&self) -> Path {
        let name = &self.kind_id;
        let mut operations = self.object_operations(&self.kind.verbs, name, self.type_name, None);
        if self.kind.supports("delete") {
            let response = match self.kind.delete_returns_object {
                true => self.type_name,
                false => STATUS,
            };
            let id = self.id("delete", name);
            operations.push(Operation {
                parameters: DELETE,
                body: Body::Optional(DELETE_OPTIONS),
                codes: &[200, 202],
                ..self.operation("delete", id, "delete", Response::Object(response))
            });
        }
        self.path(format!("{}/{{name}}", self.place), &[NAME], operations)
    }

    /// Returns the operations on one object: read, replace, patch.
    fn object_operations(
        &self,
        verbs: &[String],
        name: &str,
        type_name: &'static str,
        kind: Option<&GroupVersionKind>,
    ) -> Vec<Operation> {
        let can = |verb: &str| verbs.iter().any(|can| can == verb);
        let object = Response::Object(type_name);
        let operation = |method, verb, action| {
            let operation = self.operation(method, self.id(verb, name), action, object);
            let kind = kind.cloned().or(operation.kind.clone());
            Operation { kind, ..operation }
        };
        let mut operations = Vec::new();
        if can("get") {
            operations.push(operation("get", "read", "get"));
        }
        if can("update") {
            operations.push(Operation {
                parameters: WRITE,
                body: Body::Required(type_name),
                codes: &[200, 201],
                ..operation("put", "replace", "put")
            });
        }
        if can("patch") {
            operations.push(Operation {
                parameters: PATCH,
                body: Body::Patch,
                codes: &[200, 201],
                ..operation("patch", "patch", "patch")
            });
        }
        operations
    }

    /// Returns the legacy watch paths, which some clients still use.
    fn watch_paths(&self) -> Vec<Path> {
        let watch = |path: String, name: String, action, own: &[Parameter]| {
            let events = Response::List(WATCH_EVENT);
            let operation = Operation {
                parameters: LIST,
                ..self.operation("get", self.id("watch", &name), action, events)
            };
            self.path(format!("watch/{path}"), own, vec![operation])
        };
        let (place, name) = (&self.place, &self.kind_id);
        let mut paths = vec![
            watch(place.clone(), format!("{name}List"), "watchlist", &[]),
            watch(format!("{place}/{{name}}"), name.clone(), "watch", &[NAME]),
        ];
        if self.kind.namespaced() {
            let name = format!("{}ListForAllNamespaces", self.kind.kind);
            let mut path = watch(self.kind.resource.clone(), name, "watchlist", &[]);
            path.parameters = vec![PRETTY];
            paths.push(path);
        }
        paths
    }

    /// Returns the paths of a subresource.
    fn subresource_paths(&self, sub: &Subresource) -> Vec<Path> {
        let place = format!("{}/{{name}}/{}", self.place, sub.name);
        let name = format!("{}{}", self.kind_id, capitalized(&sub.name));
        let kind = self.kind_of(sub);
        if sub.kind.ends_with("Options") {
            return self.connect_paths(sub, &place, &kind);
        }
        if sub.name == "log" {
            let operation = Operation {
                parameters: connect_parameters(&sub.name),
                ..self.operation("get", self.id("read", &name), "get", Response::Log)
            };
            return vec![self.path(place, &[NAME], vec![operation])];
        }
        let type_name = self.type_of(sub, &kind);
        let mut operations = self.object_operations(&sub.verbs, &name, type_name, Some(&kind));
        if sub.verbs.iter().any(|verb| verb == "create") {
            let id = self.id("create", &name);
            operations.push(Operation {
                parameters: WRITE,
                body: Body::Required(type_name),
                codes: &[200, 201, 202],
                kind: Some(kind),
                ..self.operation("post", id, "post", Response::Object(type_name))
            });
        }
        vec![self.path(place, &[NAME], operations)]
    }

    /// Returns the paths of a connect subresource.
    fn connect_paths(&self, sub: &Subresource, place: &str, kind: &GroupVersionKind) -> Vec<Path> {
        let connect = |suffix: &str, parameters: &'static [Parameter]| {
            let operations = methods(sub).into_iter().map(|method| {
                let target = format!("{}{}{suffix}", self.kind_id, capitalized(&sub.name));
                let id = self.id("connect", &format!("{}{target}", capitalized(method)));
                let operation = self.operation(method, id, "connect", Response::Anything);
                Operation {
                    parameters,
                    kind: Some(kind.clone()),
                    ..operation
                }
            });
            operations.collect::<Vec<_>>()
        };
        let parameters = connect_parameters(&sub.name);
        let own = connect("", parameters);
        let mut paths = vec![self.path(place.to_owned(), &[NAME], own)];
        if sub.name == "proxy" {
            let below = connect("WithPath", parameters);
            paths.push(self.path(format!("{place}/{{path}}"), &[NAME, PATH], below));
        }
        // The proxied peer ignores `pretty`.
        for path in &mut paths {
            path.parameters
                .retain(|parameter| parameter.name != "pretty");
        }
        paths
    }

    fn kind_of(&self, sub: &Subresource) -> GroupVersionKind {
        let own = sub.version.is_empty();
        let (group, version) = match own {
            true => (&self.kind.group, &self.kind.version),
            false => (&sub.group, &sub.version),
        };
        GroupVersionKind {
            group: group.clone(),
            version: version.clone(),
            kind: sub.kind.clone(),
        }
    }

    fn type_of(&self, sub: &Subresource, kind: &GroupVersionKind) -> &'static str {
        if sub.kind == self.kind.kind {
            return self.type_name;
        }
        type_of(kind).unwrap_or(STATUS)
    }

    fn operation(
        &self,
        method: &'static str,
        id: String,
        action: &'static str,
        response: Response,
    ) -> Operation {
        Operation {
            method,
            id,
            action,
            kind: Some(GroupVersionKind {
                group: self.kind.group.clone(),
                version: self.kind.version.clone(),
                kind: self.kind.kind.clone(),
            }),
            parameters: &[],
            body: Body::None,
            response,
            codes: &[200],
        }
    }

    fn id(&self, verb: &str, name: &str) -> String {
        format!("{verb}{}{name}", self.version_id)
    }

    fn path(&self, place: String, own: &[Parameter], operations: Vec<Operation>) -> Path {
        let mut parameters = own.to_vec();
        if self.kind.namespaced() {
            parameters.push(NAMESPACE);
        }
        parameters.push(PRETTY);
        Path {
            path: format!("{}/{place}", self.root),
            tag: tag(&self.kind.group, &self.kind.version),
            parameters,
            operations,
        }
    }
}

/// Returns the methods of a connect subresource.
fn methods(sub: &Subresource) -> Vec<&'static str> {
    let method = |verb: &String| match verb.as_str() {
        "create" => Some("post"),
        "delete" => Some("delete"),
        "get" => Some("get"),
        "patch" => Some("patch"),
        "update" => Some("put"),
        _ => None,
    };
    let mut methods: Vec<_> = sub.verbs.iter().filter_map(method).collect();
    if sub.name == "proxy" {
        methods.extend(["head", "options"]);
    }
    methods
}

/// Finds the type of a kind that may be used by a subresource only.
pub(super) fn type_of(kind: &GroupVersionKind) -> Option<&'static str> {
    let served = kinds().find_by_kind(&kind.group, &kind.version, &kind.kind);
    let id = match served {
        Some(id) => kinds().get(id).type_id(),
        None => {
            let group = kind.group.split('.').next().unwrap_or_default();
            let name = format!("api.{group}.{}.{}", kind.version, kind.kind);
            types().find(&name)?
        }
    };
    Some(types().get(id).name)
}

/// Returns the root of a version: `/api/v1`, `/apis/apps/v1`.
pub(super) fn root(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        _ => format!("/apis/{group}/{version}"),
    }
}

/// Returns the version part of operation IDs: `AppsV1`.
pub(super) fn version_id(group: &str, version: &str) -> String {
    format!("{}{}", group_id(group), capitalized(version))
}
