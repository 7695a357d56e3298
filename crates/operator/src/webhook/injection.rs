//! The CA bundle in webhook configurations and definitions.
//!
//! Only the field `caBundle` of objects that the operator named is written, and only if it
//! differs. Objects that do not exist are left to their installer, and client configurations that
//! name another Service to the operator of that: which Service it is, is compared at each write.

use std::fmt;

use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{Stream, StreamExt};
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Error, Resource, ResourceExt};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::{API_TIMEOUT, WebhookService};
use crate::deadline::with_timeout;
use crate::queue::Trigger;
use crate::watch::{self, ListMode};

/// The objects of an operator that call its webhooks.
#[derive(Clone)]
pub struct Injection {
    client: Client,
    service: WebhookService,
    targets: Vec<Target>,
}

/// An object that has a CA bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A ValidatingWebhookConfiguration of this name.
    Validating(String),
    /// A MutatingWebhookConfiguration of this name.
    Mutating(String),
    /// A CustomResourceDefinition of this name with a conversion webhook.
    Definition(String),
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.resource().plural, self.name())
    }
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Validating(name) | Self::Mutating(name) | Self::Definition(name) => name,
        }
    }

    pub(super) fn resource(&self) -> ApiResource {
        match self {
            Self::Validating(_) => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
            Self::Mutating(_) => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Self::Definition(_) => ApiResource::erase::<CustomResourceDefinition>(&()),
        }
    }

    /// Returns the JSON pointers of the client configurations of an object.
    fn client_configs(&self, object: &Value) -> Vec<String> {
        match self {
            Self::Validating(_) | Self::Mutating(_) => {
                let count = object["webhooks"].as_array().map_or(0, Vec::len);
                let pointers = (0..count).map(|index| format!("/webhooks/{index}/clientConfig"));
                pointers.collect()
            }
            Self::Definition(_) if object["spec"]["conversion"]["strategy"] == "Webhook" => {
                vec!["/spec/conversion/webhook/clientConfig".to_owned()]
            }
            Self::Definition(_) => Vec::new(),
        }
    }
}

impl Injection {
    /// Creates the injection into these objects, where they name a URL or this Service.
    pub fn new(client: &Client, service: WebhookService, targets: Vec<Target>) -> Self {
        Self {
            client: with_timeout(client, API_TIMEOUT),
            service,
            targets,
        }
    }

    /// Returns the objects.
    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        self.targets.iter().cloned()
    }

    /// Returns an object, or `None` if it does not exist.
    pub(super) async fn read(&self, target: &Target) -> Result<Option<DynamicObject>, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &target.resource());
        api.get_opt(target.name()).await
    }

    /// Writes the bundle, in PEM, into an object that was read.
    ///
    /// # Errors
    ///
    /// If the object cannot be written, or has been written since.
    pub(super) async fn write(
        &self,
        target: &Target,
        found: &DynamicObject,
        bundle: &str,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &target.resource());
        let path = format!("{}/{}", api.resource_url(), target.name());
        let operations = Value::Array(self.operations(target, found, bundle));
        let request = Request::patch(path)
            .header(CONTENT_TYPE, "application/json-patch+json")
            .body(operations.to_string().into_bytes())
            .map_err(Error::HttpError)?;
        self.client.request::<IgnoredAny>(request).await?;
        Ok(())
    }

    /// Returns whether an object has the bundle wherever it names the Service.
    pub(super) fn is_injected(&self, target: &Target, found: &DynamicObject, bundle: &str) -> bool {
        self.operations(target, found, bundle).is_empty()
    }

    fn operations(&self, target: &Target, found: &DynamicObject, bundle: &str) -> Vec<Value> {
        operations(&self.service, target, found, bundle)
    }

    /// Watches the objects.
    pub(super) fn triggers(&self) -> BoxStream<'static, Trigger> {
        let injection = self.clone();
        let watches = async move {
            let mode = ListMode::of(&injection.client).await;
            injection.watches(mode)
        };
        stream::once(watches).flatten().boxed()
    }

    fn watches(&self, mode: ListMode) -> SelectAll<BoxStream<'static, Trigger>> {
        let mut streams: SelectAll<BoxStream<'static, Trigger>> = SelectAll::new();
        let has = |is: fn(&Target) -> bool| self.targets.iter().any(is);
        if has(|target| matches!(target, Target::Validating(_))) {
            type Kind = ValidatingWebhookConfiguration;
            streams.push(self.watch::<Kind>(mode, Target::Validating).boxed());
        }
        if has(|target| matches!(target, Target::Mutating(_))) {
            type Kind = MutatingWebhookConfiguration;
            streams.push(self.watch::<Kind>(mode, Target::Mutating).boxed());
        }
        if has(|target| matches!(target, Target::Definition(_))) {
            type Kind = CustomResourceDefinition;
            streams.push(self.watch::<Kind>(mode, Target::Definition).boxed());
        }
        streams
    }

    fn watch<K>(
        &self,
        mode: ListMode,
        target: fn(String) -> Target,
    ) -> impl Stream<Item = Trigger> + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(self.client.clone());
        let targets = self.targets.clone();
        watch::parts(api, Config::default(), mode, move |object| {
            let target = target(object.name_any());
            let is_own = targets.contains(&target);
            is_own.then(|| Trigger::Changed(target.to_string().into()))
        })
    }
}

/// Returns whether an object was written between reading and writing it.
pub(super) fn is_conflict(error: &Error) -> bool {
    // The failed test of a JSON patch is 422 in Kubernetes.
    matches!(error, Error::Api(status) if matches!(status.code, 404 | 409 | 422))
}

/// Returns the operations of a JSON patch that sets the bundle where it differs. The patch fails
/// if the object was written since it was read, since a webhook may have another index then.
fn operations(
    service: &WebhookService,
    target: &Target,
    found: &DynamicObject,
    bundle: &str,
) -> Vec<Value> {
    let wanted = json!(ByteString(bundle.as_bytes().to_vec()));
    let mut operations = Vec::new();
    for pointer in target.client_configs(&found.data) {
        let config = found.data.pointer(&pointer);
        let path = format!("{pointer}/caBundle");
        match config {
            Some(Value::Object(config))
                if is_own(service, config) && config.get("caBundle") != Some(&wanted) =>
            {
                operations.push(json!({"op": "add", "path": path, "value": wanted}));
            }
            _ => {}
        }
    }
    if let (false, Some(version)) = (operations.is_empty(), &found.metadata.resource_version) {
        let path = "/metadata/resourceVersion";
        operations.insert(0, json!({"op": "test", "path": path, "value": version}));
    }
    operations
}

/// Returns whether a client configuration calls a Service, and not another one. A URL says nothing
/// about that: the object has a name of the operator's.
fn is_own(service: &WebhookService, config: &Map<String, Value>) -> bool {
    match config.get("service") {
        None | Some(Value::Null) => true,
        Some(named) => named["namespace"] == service.namespace && named["name"] == service.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> WebhookService {
        WebhookService::new("n", "s")
    }

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn only_ca_bundles_that_differ_are_patched() {
        let webhooks = object(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w", "resourceVersion": "7"},
            "webhooks": [
                {"name": "a", "clientConfig": {"url": "https://a.test", "caBundle": "TkVX"}},
                {"name": "b", "clientConfig": {"url": "https://b.test", "caBundle": "T0xE"}},
                {"name": "c", "clientConfig": {"service": {"namespace": "n", "name": "s"}}},
            ],
        }));
        let target = Target::Validating("w".to_owned());
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "TkVX"},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "TkVX"},
        ]);
        assert_eq!(
            json!(operations(&service(), &target, &webhooks, "NEW")),
            expected
        );
        let target = Target::Definition("d".to_owned());
        let definition = |conversion: Value| {
            object(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "d", "resourceVersion": "8"},
                "spec": {"conversion": conversion},
            }))
        };
        let none = definition(json!({"strategy": "None"}));
        assert_eq!(
            operations(&service(), &target, &none, "NEW"),
            Vec::<Value>::new()
        );
        let webhook = definition(json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"service": {"namespace": "n", "name": "s"}}},
        }));
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "8"},
            {
                "op": "add",
                "path": "/spec/conversion/webhook/clientConfig/caBundle",
                "value": "TkVX",
            },
        ]);
        assert_eq!(
            json!(operations(&service(), &target, &webhook, "NEW")),
            expected
        );
    }

    #[test]
    fn ca_bundle_of_another_service_is_never_replaced() {
        for other in [
            json!({"namespace": "other", "name": "s"}),
            json!({"namespace": "n", "name": "other"}),
        ] {
            let webhooks = object(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration", "metadata": {"name": "w"},
                "webhooks": [
                    {"name": "a", "clientConfig": {"service": other, "caBundle": "T0xE"}},
                    {"name": "b", "clientConfig": {"service": {"namespace": "n", "name": "s"}}},
                ],
            }));
            let target = Target::Mutating("w".to_owned());
            let expected = json!([
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "TkVX"},
            ]);
            let patch = operations(&service(), &target, &webhooks, "NEW");
            assert_eq!(json!(patch), expected);
            let definition = object(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "d", "resourceVersion": "8"},
                "spec": {"conversion": {
                    "strategy": "Webhook", "webhook": {"clientConfig": {"service": other}},
                }},
            }));
            let target = Target::Definition("d".to_owned());
            let patch = operations(&service(), &target, &definition, "NEW");
            assert_eq!(patch, Vec::<Value>::new());
        }
    }

    #[test]
    fn target_is_shown_with_its_resource() {
        let target = Target::Mutating("m".to_owned());
        assert_eq!(target.to_string(), "mutatingwebhookconfigurations/m");
        let target = Target::Definition("widgets.example.com".to_owned());
        let expected = "customresourcedefinitions/widgets.example.com";
        assert_eq!(target.to_string(), expected);
    }
}
