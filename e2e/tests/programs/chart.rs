//! A chart as Helm installs it, without Helm.
//!
//! `rendered/` is the output of `helm template` on `chart/` with two sets of values, and
//! `helm/requests.jsonl` is every write of Helm to install, upgrade, roll back and uninstall it:
//! once with Helm's own patches, as Helm 3 does, and once with server-side apply, as Helm 4 does.
//! It was recorded with a real kube-apiserver, including the status codes; the patches depend on
//! all defaulted fields. `helm/record.py` records it again.

use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::{TENANTS, TwoTenants};
use kube::client::Body;
use serde_json::Value;

use crate::runner::{client, folder, kubeconfig};

/// The release owner in the recordings.
const OWNER: &str = "harbourmaster";

/// The fields of objects after the first and the second set of values.
const EXPECTED_FIELDS: [(&str, [&str; 2]); 6] = [
    (
        "configmap harbour -o jsonpath='{.data}'",
        [
            r#"{"greeting":"hello","metrics.conf":"enabled","owner":"OWNER"}"#,
            r#"{"greeting":"welcome","owner":"OWNER"}"#,
        ],
    ),
    (
        "service harbour -o jsonpath='{.spec.ports[*].name}'",
        ["http metrics", "http"],
    ),
    (
        "deployment harbour -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].ports[*].name}'",
        ["2 harbour:1.0 http metrics", "3 harbour:2.0 http"],
    ),
    ("hpa harbour -o jsonpath='{.spec.minReplicas}'", ["2", "3"]),
    (
        "berth harbour -o jsonpath='{.spec.depth} {.spec.owner} {.spec.tags}'",
        [
            r#"2 OWNER ["deep","hello"]"#,
            r#"3 OWNER ["deep","welcome"]"#,
        ],
    ),
    (
        "ingress harbour -o jsonpath='{.spec.rules[0].host}'",
        ["OWNER.harbour.example", "OWNER.harbour.example"],
    ),
];

/// All resources of a release, which are selected by label.
const ALL: &str = "serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,\
                   configmaps,secrets,services,deployments,statefulsets,persistentvolumeclaims,\
                   horizontalpodautoscalers,poddisruptionbudgets,networkpolicies,ingresses,\
                   berths,cronjobs";

/// The first version of the chart for a tenant and a namespace, limited to the wanted kinds.
pub fn first(tenant: &str, namespace: &str, wanted: impl Fn(&str) -> bool) -> String {
    let kind = |document: &&str| {
        let kind = document
            .lines()
            .find_map(|line| line.strip_prefix("kind: "));
        kind.is_some_and(&wanted)
    };
    let text = include_str!("rendered/first.yaml");
    let documents: Vec<_> = text.split("\n---\n").filter(kind).collect();
    let namespaced = format!("namespace: \"{namespace}\"");
    documents
        .join("\n---\n")
        .replace(OWNER, tenant)
        .replace("namespace: \"default\"", &namespaced)
}

/// Asserts that the objects match the first (0) or the second (1) set of values.
#[track_caller]
pub fn shows(tenant: &Kubectl, version: usize) {
    for (what, texts) in EXPECTED_FIELDS {
        let text = texts[version].replace("OWNER", tenant.name());
        tenant.prints(&format!("get {what}"), &text);
    }
    let found = tenant.get(&format!(
        "get {ALL} -l app.kubernetes.io/instance=harbour -o name"
    ));
    assert_eq!(found.lines().count(), 18, "{found}");
}

/// Asserts that nothing of the release is left.
#[track_caller]
pub fn is_gone(tenant: &Kubectl) {
    let rest = format!("get {ALL} -l app.kubernetes.io/instance=harbour -o name");
    tenant.prints(&rest, "");
    tenant.prints("get secrets -l owner=helm -o name", "");
}

/// The recorded requests, grouped by Helm command.
fn recorded() -> anyhow::Result<Vec<(String, Vec<Value>)>> {
    let text = std::fs::read_to_string(folder().join("helm/requests.jsonl"))?;
    let mut steps: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines() {
        let request: Value = serde_json::from_str(line)?;
        let step = request["step"].as_str().unwrap_or_default().to_owned();
        match steps.last_mut().filter(|(last, _)| *last == step) {
            Some((_, requests)) => requests.push(request),
            None => steps.push((step, vec![request])),
        }
    }
    Ok(steps)
}

/// Sends the recorded requests and asserts the recorded status codes.
async fn replay(kubeconfig: &Path, tenant: &str, requests: &[Value]) -> anyhow::Result<()> {
    let client = client(kubeconfig).await?;
    for recorded in requests {
        let text = |member: &str| recorded[member].as_str().unwrap_or_default();
        let body = match recorded.get("bytes") {
            Some(_) => STANDARD.decode(text("bytes"))?,
            None => match recorded.get("body") {
                Some(body) => body.to_string().replace(OWNER, tenant).into_bytes(),
                None => Vec::new(),
            },
        };
        let request = http::Request::builder()
            .method(text("method"))
            .uri(text("path"))
            .header("Content-Type", text("type"))
            .body(Body::from(body))?;
        let answer = client.send(request).await?;
        let what = format!("{} {} {}", text("step"), text("method"), text("path"));
        let code = answer.status().as_u16();
        let said = answer
            .into_body()
            .collect_bytes()
            .await
            .context(what.clone())?;
        let said = String::from_utf8_lossy(&said);
        anyhow::ensure!(recorded["code"] == code, "{what}: {code} {said}");
    }
    Ok(())
}

#[test]
fn recorded_helm_requests_have_the_recorded_effect() -> anyhow::Result<()> {
    let Some(two_tenants) = TwoTenants::start() else {
        return Ok(());
    };
    let steps = recorded()?;
    let names: Vec<&str> = steps.iter().map(|(step, _)| step.as_str()).collect();
    let side = |side: &str| {
        ["install", "upgrade", "rollback", "uninstall"].map(|it| format!("{it} {side}"))
    };
    let wanted = [side("client-side"), side("server-side")].concat();
    assert_eq!(names, wanted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for (step, requests) in &steps {
        let [one, other] = TENANTS.map(|tenant| {
            let kubeconfig = kubeconfig(&two_tenants, tenant);
            async move { replay(&kubeconfig, tenant, requests).await.context(tenant) }
        });
        runtime.block_on(async { futures_util::future::try_join(one, other).await })?;
        two_tenants.both(|tenant| match step.split(' ').next() {
            Some("install" | "rollback") => shows(tenant, 0),
            Some("upgrade") => shows(tenant, 1),
            _ => is_gone(tenant),
        });
    }
    Ok(())
}
