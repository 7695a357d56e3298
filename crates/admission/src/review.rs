//! AdmissionReview requests and responses.

mod answer;
mod http;

use insula_kinds::{Object, Value};
use serde::Serialize;

use crate::request::{
    GroupVersionKind, GroupVersionResource, Request, Target, UserInfo, VersionedObjects,
};
use crate::webhook::{Failure, Webhook};

pub use answer::{Answer, Patch};
pub use http::unexpected;

/// A version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1`, in which responses must repeat UID and type.
    V1,
    /// `v1beta1`, in which they need not.
    V1Beta1,
}

/// The sort of webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It may patch the object.
    Mutating,
    /// It may only allow or deny.
    Validating,
}

/// An AdmissionReview to send to a webhook.
#[derive(Clone, Debug)]
pub struct Review {
    /// The UID of this review, which responses repeat.
    pub uid: String,
    /// The HTTP request body.
    pub body: Vec<u8>,
    version: Version,
    mode: Mode,
}

impl Version {
    /// Parses the name of a version.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The name of the version.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

impl Mode {
    /// The name that is used in audit annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "mutation",
            Self::Validating => "validating",
        }
    }
}

impl Review {
    /// Builds the review of a request as `target`. The caller supplies a fresh `uid`.
    ///
    /// # Errors
    ///
    /// If the webhook supports no known version of AdmissionReview.
    pub fn new(
        webhook: &Webhook,
        mode: Mode,
        request: &Request<'_>,
        target: &Target,
        subject: VersionedObjects<'_>,
        uid: String,
    ) -> Result<Self, Failure> {
        let Some(version) = webhook.version else {
            return Err(webhook.call_failure(
                "could not create admission objects: webhook does not accept known \
                 AdmissionReview versions (v1, v1beta1)",
            ));
        };
        let review = AdmissionReview {
            kind: "AdmissionReview",
            api_version: format!("admission.k8s.io/{}", version.as_str()),
            request: AdmissionRequest {
                uid: &uid,
                kind: &target.kind,
                resource: &target.resource,
                sub_resource: request.subresource,
                request_kind: &request.target.kind,
                request_resource: &request.target.resource,
                request_sub_resource: request.subresource,
                name: request.name,
                namespace: request.namespace,
                operation: request.operation.as_str(),
                user_info: request.user,
                object: subject.object,
                old_object: subject.old,
                dry_run: request.dry_run,
                options: request.options,
            },
        };
        // Serialization cannot fail: all keys are strings and all numbers are JSON numbers.
        let body = serde_json::to_vec(&review).unwrap_or_default();
        Ok(Self {
            uid,
            body,
            version,
            mode,
        })
    }

    /// Parses the body of a response with status 200.
    ///
    /// # Errors
    ///
    /// If the response is invalid. A denial is a valid response.
    pub fn read(&self, webhook: &Webhook, body: &[u8]) -> Result<Answer, Failure> {
        answer::read(self, webhook, body)
    }
}

#[derive(Serialize)]
struct AdmissionReview<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: String,
    request: AdmissionRequest<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest<'a> {
    uid: &'a str,
    kind: &'a GroupVersionKind,
    resource: &'a GroupVersionResource,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: &'a GroupVersionKind,
    request_resource: &'a GroupVersionResource,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: &'a UserInfo,
    object: Option<&'a Object>,
    old_object: Option<&'a Object>,
    dry_run: bool,
    options: Option<&'a Value>,
}
