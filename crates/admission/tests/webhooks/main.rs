//! Webhook matching, reviews and reinvocation.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod matching;
mod review;
mod rounds;

use insula_admission::webhook::{Webhook, Webhooks};
use insula_admission::{
    EquivalentResources, GroupVersionKind, GroupVersionResource, Operation, Request, Target,
    UserInfo,
};
use insula_kinds::{Object, Value};
use serde_json::json;
use std::sync::Arc;

/// Serves every resource in one version only.
struct SingleVersion;

impl EquivalentResources for SingleVersion {
    fn equivalents(&self, _: &GroupVersionResource, _: &str) -> Vec<Target> {
        Vec::new()
    }
}

/// Serves HorizontalPodAutoscalers in two versions.
struct TwoVersions;

impl EquivalentResources for TwoVersions {
    fn equivalents(&self, of: &GroupVersionResource, _: &str) -> Vec<Target> {
        if of.resource != "horizontalpodautoscalers" {
            return vec![];
        }
        let target = |version| target("autoscaling", version, "horizontalpodautoscalers", "HPA");
        vec![target("v1"), target("v2")]
    }
}

fn target(group: &str, version: &str, resource: &str, kind: &str) -> Target {
    Target {
        resource: GroupVersionResource {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        },
        kind: GroupVersionKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        },
    }
}

fn request<'a>(user: &'a UserInfo, operation: Operation, target: Target) -> Request<'a> {
    Request {
        operation,
        target,
        subresource: "",
        name: "z",
        namespace: "n1",
        user,
        dry_run: false,
        options: None,
    }
}

fn hook(configuration: Value) -> Arc<Webhook> {
    let mut hook = json!({
        "name": "v1.ex.io",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
    });
    for (member, value) in object(configuration) {
        hook[member] = value;
    }
    let mut webhooks = Webhooks::default();
    webhooks.put(&object(
        json!({"metadata": {"name": "c"}, "webhooks": [hook]}),
    ));
    webhooks.iter().next().unwrap().clone()
}

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}
