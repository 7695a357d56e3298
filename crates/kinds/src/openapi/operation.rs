//! Operations and their parameters, independent of the OpenAPI version.

/// An operation on a path.
pub(super) struct Operation {
    /// The method in lower case.
    pub(super) method: &'static str,
    /// The unique operation ID.
    pub(super) id: String,
    /// The value of `x-kubernetes-action`; empty for discovery.
    pub(super) action: &'static str,
    /// The kind of the objects.
    pub(super) kind: Option<GroupVersionKind>,
    /// The parameters of this operation.
    pub(super) parameters: &'static [Parameter],
    /// The request body.
    pub(super) body: Body,
    /// The response body.
    pub(super) response: Response,
    /// The status codes of a successful response.
    pub(super) codes: &'static [u16],
}

/// A kind in a group and version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The request body of an operation.
#[derive(Clone, Copy)]
pub(super) enum Body {
    /// No body.
    None,
    /// An object of the type.
    Required(&'static str),
    /// An object of the type, or no body.
    Optional(&'static str),
    /// A patch in any of the formats.
    Patch,
}

/// The response body of an operation.
#[derive(Clone, Copy)]
pub(super) enum Response {
    /// An object of the type.
    Object(&'static str),
    /// A list of the type, or its watch events.
    List(&'static str),
    /// Log output as text.
    Log,
    /// Any response of the proxied peer.
    Anything,
}

/// A parameter.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// `string`, `integer` or `boolean`.
    pub(super) kind: &'static str,
}

/// The location of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
}

impl Body {
    /// Returns the type of the body.
    pub(super) fn type_name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Required(name) | Self::Optional(name) => Some(name),
            Self::Patch => Some("apimachinery.pkg.apis.meta.v1.Patch"),
        }
    }

    /// Whether a body is required.
    pub(super) fn required(self) -> bool {
        matches!(self, Self::Required(_) | Self::Patch)
    }

    /// Returns the accepted media types.
    pub(super) fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Patch => &[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ],
            _ => &["*/*"],
        }
    }
}

impl Response {
    /// Returns the type of the body, unless it is text.
    pub(super) fn type_name(self) -> Option<&'static str> {
        match self {
            Self::Object(name) | Self::List(name) => Some(name),
            Self::Log | Self::Anything => None,
        }
    }

    /// Returns the media types of the response.
    pub(super) fn media_types(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        match self {
            Self::Object(_) => ALL.first_chunk::<3>().map_or(&[], |some| some),
            Self::List(_) => &ALL,
            Self::Log => &[
                "text/plain",
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ],
            Self::Anything => &["*/*"],
        }
    }
}

const fn path(name: &'static str) -> Parameter {
    Parameter {
        name,
        place: Place::Path,
        kind: "string",
    }
}

pub(super) const fn query(name: &'static str, kind: &'static str) -> Parameter {
    Parameter {
        name,
        place: Place::Query,
        kind,
    }
}

pub(super) const NAME: Parameter = path("name");
pub(super) const NAMESPACE: Parameter = path("namespace");
pub(super) const PATH: Parameter = path("path");
pub(super) const PRETTY: Parameter = query("pretty", "string");

pub(super) const LIST: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];

pub(super) const WRITE: &[Parameter] = &[
    query("dryRun", "string"),
    query("fieldManager", "string"),
    query("fieldValidation", "string"),
];

pub(super) const PATCH: &[Parameter] = &[
    query("dryRun", "string"),
    query("fieldManager", "string"),
    query("fieldValidation", "string"),
    query("force", "boolean"),
];

pub(super) const DELETE: &[Parameter] = &[
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];

pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    query("continue", "string"),
    query("dryRun", "string"),
    query("fieldSelector", "string"),
    query("gracePeriodSeconds", "integer"),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("timeoutSeconds", "integer"),
];

/// Returns the query parameters of a connect subresource.
pub(super) fn connect_parameters(subresource: &str) -> &'static [Parameter] {
    match subresource {
        "attach" => &ATTACH,
        "exec" => &EXEC,
        "portforward" => &PORT_FORWARD,
        "proxy" => &PROXY,
        "log" => &LOG,
        _ => &[],
    }
}

const ATTACH: [Parameter; 5] = [
    query("container", "string"),
    query("stderr", "boolean"),
    query("stdin", "boolean"),
    query("stdout", "boolean"),
    query("tty", "boolean"),
];

const EXEC: [Parameter; 6] = [
    query("command", "string"),
    query("container", "string"),
    query("stderr", "boolean"),
    query("stdin", "boolean"),
    query("stdout", "boolean"),
    query("tty", "boolean"),
];

const PORT_FORWARD: [Parameter; 1] = [query("ports", "integer")];

const PROXY: [Parameter; 1] = [query("path", "string")];

const LOG: [Parameter; 9] = [
    query("container", "string"),
    query("follow", "boolean"),
    query("insecureSkipTLSVerifyBackend", "boolean"),
    query("limitBytes", "integer"),
    query("previous", "boolean"),
    query("sinceSeconds", "integer"),
    query("stream", "string"),
    query("tailLines", "integer"),
    query("timestamps", "boolean"),
];
