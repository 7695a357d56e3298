//! A provider with two versions of a kind, and its objects.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use insula_operator::webhook::manifest::AdmissionWebhook;
use insula_operator::webhook::{
    AdmissionRequest, AdmissionResponse, ObjectSpace, Router, WebhookService,
};
use insula_testkit::server::{Answer, Client, TestServer, definition};
use serde_json::{Value, json};

pub const V1: &str = "/apis/ex.io/v1/namespaces/default/widgets";
pub const V2: &str = "/apis/ex.io/v2/namespaces/default/widgets";
pub const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// The annotation that keeps a field of `v2` in `v1`.
const FINISH: &str = "ex.io/finish";

/// How long a test waits for what must happen.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

pub fn service() -> WebhookService {
    WebhookService::new("widget-system", "widget-webhooks")
}

/// What the handlers were called with.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn add(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    /// Returns the calls since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// The handlers of the provider.
pub fn router(calls: &Calls) -> Router {
    let (validated, mutated, converted) = (calls.clone(), calls.clone(), calls.clone());
    Router::new()
        .validating("/validate", move |request| {
            let calls = validated.clone();
            async move { validate(&calls, &request) }
        })
        .mutating("/mutate", move |request| {
            mutated.add(describe("mutate", &request));
            async move { default_size(&request) }
        })
        .conversion("/convert", move |object, desired| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            converted.add(format!("convert {name} to {desired}"));
            convert(object, desired)
        })
}

fn describe(handler: &str, request: &AdmissionRequest) -> String {
    let space = match &request.space {
        None => "unknown",
        Some(ObjectSpace::System) => "system",
        Some(ObjectSpace::Tenant(name)) => name,
    };
    let dry = if request.dry_run { " dry" } else { "" };
    format!(
        "{handler} {}/{} of {space}{dry}",
        request.namespace, request.name
    )
}

fn validate(calls: &Calls, request: &AdmissionRequest) -> AdmissionResponse {
    calls.add(describe("validate", request));
    let object = request.object.clone().unwrap_or_default();
    match object["spec"]["color"].as_str() {
        Some("beige") => AdmissionResponse::deny_with(422, "Invalid", "beige is not a color")
            .with_warning("spec.color: use red"),
        Some("panic") => panic!("this is about panics"),
        Some("pink") => AdmissionResponse::allow().with_warning("spec.color: pink fades"),
        _ => AdmissionResponse::allow(),
    }
}

fn default_size(request: &AdmissionRequest) -> AdmissionResponse {
    let mut object = request.object.clone().unwrap_or_default();
    if object["spec"]["size"].is_null() {
        object["spec"]["size"] = 3.into();
    }
    AdmissionResponse::allow_changed(request, &object)
}

/// `v1` has a color, `v2` a hue and a finish, which `v1` keeps in an annotation.
fn convert(mut object: Value, desired: &str) -> Result<Value, String> {
    object["apiVersion"] = desired.into();
    let take = |object: &mut Value, pointer: &str, member: &str| {
        let parent = object.pointer_mut(pointer).and_then(Value::as_object_mut);
        parent.and_then(|parent| parent.remove(member))
    };
    match desired {
        "ex.io/v2" => {
            if let Some(color) = take(&mut object, "/spec", "color") {
                object["spec"]["hue"] = color;
            }
            if let Some(finish) = take(&mut object, "/metadata/annotations", FINISH) {
                object["spec"]["finish"] = finish;
            }
        }
        "ex.io/v1" => {
            if let Some(hue) = take(&mut object, "/spec", "hue") {
                object["spec"]["color"] = hue;
            }
            if let Some(finish) = take(&mut object, "/spec", "finish") {
                object["metadata"]["annotations"][FINISH] = finish;
            }
        }
        other => return Err(format!("there is no version {other}")),
    }
    Ok(object)
}

/// The definition, with this client configuration or that of the service.
pub fn widgets(client_config: Option<Value>) -> Value {
    let mut widgets = definition("ex.io", "widgets", "Widget", json!({"type": "object"}));
    let first = widgets["spec"]["versions"][0].clone();
    let versions = [("v1", json!(["color"])), ("v2", json!(["hue", "finish"]))];
    let versions = versions.map(|(name, fields)| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = (name == "v1").into();
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"] = json!({"size": {"type": "integer"}});
        for field in fields.as_array().unwrap() {
            spec["properties"][field.as_str().unwrap()] = json!({"type": "string"});
        }
        version
    });
    widgets["spec"]["versions"] = json!(versions);
    widgets["spec"]["conversion"] = json!(service().conversion("/convert"));
    if let Some(config) = client_config {
        widgets["spec"]["conversion"]["webhook"]["clientConfig"] = config;
    }
    widgets
}

fn webhook(path: &'static str) -> AdmissionWebhook<'static> {
    AdmissionWebhook {
        name: "w.ex.io",
        path,
        group: "ex.io",
        versions: &["v1"],
        resources: &["widgets"],
        operations: &["CREATE", "UPDATE"],
        required: true,
    }
}

/// The configurations, with paths and the objects to create there.
pub fn configurations() -> [(&'static str, Value); 2] {
    [
        (
            MUTATING,
            service().mutating("widgets", &[webhook("/mutate")]),
        ),
        (
            VALIDATING,
            service().validating("widgets", &[webhook("/validate")]),
        ),
    ]
}

pub fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("ex.io/{version}"), "kind": "Widget",
        "metadata": {"name": name}, "spec": spec,
    })
}

pub async fn create(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    let created = client.post(path, object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(created.json())
}

/// Returns the texts of the response's warnings.
pub fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    let texts = all.map(|value| value.to_str().unwrap().to_owned());
    texts.collect()
}

/// A client of the operator with this token.
pub fn kube_client(server: &TestServer, token: &str) -> anyhow::Result<kube::Client> {
    let mut config = kube::Config::new(server.url().parse()?);
    let ca = pem::parse(server.authority().certificate_pem())?;
    config.root_cert = Some(vec![ca.into_contents()]);
    config.auth_info = serde_json::from_value(json!({"token": token}))?;
    Ok(kube::Client::try_from(config)?)
}

/// Reads `path` until the object satisfies `wanted`.
pub async fn until(
    client: &Client,
    path: &str,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let begun = Instant::now();
    loop {
        let found = client.get(path).await?.json();
        if wanted(&found) {
            return Ok(found);
        }
        anyhow::ensure!(begun.elapsed() < WAIT_TIMEOUT, "{path}: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
