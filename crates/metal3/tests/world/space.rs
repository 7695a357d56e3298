//! One space of a server, and helpers that create objects in it and wait for them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::Context as _;
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_testkit::bare_metal;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::eventually;

/// One space, with the rights of its administrator.
#[derive(Clone)]
pub struct Space {
    pub client: Client,
}

/// A namespaced kind.
pub trait Namespaced:
    Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
{
}

/// A kind with conditions.
pub trait HasConditions: Namespaced {
    fn conditions(&self) -> &[Condition];
}

impl HasConditions for Metal3Cluster {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }
}

impl HasConditions for Metal3Machine {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }
}

/// Returns the condition of that type as status, reason and message.
pub fn condition<'a, K: HasConditions>(object: &'a K, kind: &str) -> Option<[&'a str; 3]> {
    let mut all = object.conditions().iter();
    let found = all.find(|condition| condition.type_ == kind)?;
    Some([&found.status, &found.reason, &found.message])
}

impl Space {
    pub fn api<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates an object.
    pub async fn put(&self, object: &Value) -> anyhow::Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let api = self.api_of(&object)?;
        let made = api.create(&PostParams::default(), &object).await;
        made.with_context(|| format!("{object:?}"))
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let metadata = json!({"name": name});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        self.put(&object).await.map(drop)
    }

    /// Creates a Secret with these texts.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
        texts: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let texts: BTreeMap<_, _> = texts.iter().copied().collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace}, "stringData": texts,
        });
        self.put(&object).await.map(drop)
    }

    /// Creates a Secret with a kubeconfig.
    pub async fn identity(
        &self,
        namespace: &str,
        name: &str,
        kubeconfig: &Value,
    ) -> anyhow::Result<()> {
        let text = kubeconfig.to_string();
        self.secret(namespace, name, &[("kubeconfig", &text)]).await
    }

    /// Replaces everything in a Secret, or creates it.
    pub async fn replace_secret(
        &self,
        namespace: &str,
        name: &str,
        texts: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let secrets: Api<Secret> = self.api(namespace);
        let Some(mut secret) = secrets.get_opt(name).await? else {
            return self.secret(namespace, name, texts).await;
        };
        let texts = texts.iter();
        let texts = texts.map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        secret.data = None;
        secret.string_data = Some(texts.collect());
        let parameters = PostParams::default();
        secrets.replace(name, &parameters, &secret).await?;
        Ok(())
    }

    /// Replaces the kubeconfig in a Secret.
    pub async fn replace_identity(
        &self,
        namespace: &str,
        name: &str,
        kubeconfig: &Value,
    ) -> anyhow::Result<()> {
        let text = kubeconfig.to_string();
        let texts = [("kubeconfig", text.as_str())];
        self.replace_secret(namespace, name, &texts).await
    }

    /// Patches an object.
    pub async fn patch<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> anyhow::Result<K> {
        let parameters = PatchParams::default();
        let api = self.api::<K>(namespace);
        let patched = api.patch(name, &parameters, &Patch::Merge(patch)).await;
        patched.with_context(|| format!("{namespace}/{name}"))
    }

    /// Deletes an object.
    pub async fn delete<K: Namespaced>(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let api = self.api::<K>(namespace);
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until a predicate holds for an object.
    pub async fn wait_until<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> anyhow::Result<K> {
        let api = self.api::<K>(namespace);
        let mut last = None;
        let found = eventually(async || {
            let object = api.get_opt(name).await?;
            last.clone_from(&object);
            Ok(object.filter(&is_so))
        });
        let found = found.await;
        found.with_context(|| format!("{namespace}/{name} is {last:#?}"))
    }

    /// Waits until an object is gone.
    pub async fn wait_until_gone<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<()> {
        let api = self.api::<K>(namespace);
        let mut last = None;
        let gone = eventually(async || {
            last = api.get_opt(name).await?;
            Ok(last.is_none().then_some(()))
        });
        let gone = gone.await;
        gone.with_context(|| format!("{namespace}/{name} is {last:#?}"))
    }

    /// Waits until a condition of an object has this status and reason, for its present
    /// generation.
    pub async fn wait_for_condition<K: HasConditions>(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        expected: (&str, &str),
    ) -> anyhow::Result<K> {
        let waited = self.wait_until(namespace, name, |object: &K| {
            let mut all = object.conditions().iter();
            let found = all.find(|condition| condition.type_ == kind);
            found.is_some_and(|found| {
                (found.status.as_str(), found.reason.as_str()) == expected
                    && found.observed_generation == object.meta().generation
            })
        });
        let waited = waited.await;
        waited.with_context(|| format!("{kind} does not become {expected:?}"))
    }

    /// Waits for an event about an object with this reason.
    pub async fn event(&self, namespace: &str, name: &str, reason: &str) -> anyhow::Result<Event> {
        let events: Api<Event> = self.api(namespace);
        let found = eventually(async || {
            let listed = events.list(&ListParams::default()).await?;
            Ok(listed.items.into_iter().find(|event| {
                let regarding = event.regarding.as_ref();
                let named = regarding.and_then(|regarding| regarding.name.as_deref());
                named == Some(name) && event.reason.as_deref() == Some(reason)
            }))
        });
        let found = found.await;
        found.with_context(|| format!("no event {reason} about {name}"))
    }

    /// Creates a host with these labels, and waits until it is available.
    pub async fn host(&self, namespace: &str, name: &str, labels: Value) -> anyhow::Result<()> {
        let [secret, mut host] = bare_metal::host(namespace, name);
        host["metadata"]["labels"] = labels;
        self.put(&secret).await?;
        self.put(&host).await?;
        self.wait_for_host(namespace, name, "available").await?;
        Ok(())
    }

    /// Creates hosts, and waits until all of them are available.
    pub async fn hosts(&self, namespace: &str, names: &[&str]) -> anyhow::Result<()> {
        let all = names
            .iter()
            .map(|name| self.host(namespace, name, json!({})));
        futures_util::future::try_join_all(all).await?;
        Ok(())
    }

    /// Waits until a host is in a state.
    pub async fn wait_for_host(
        &self,
        namespace: &str,
        name: &str,
        state: &str,
    ) -> anyhow::Result<BareMetalHost> {
        let waited = self.wait_until(namespace, name, |host: &BareMetalHost| {
            let status = host.status.as_ref();
            status.is_some_and(|status| status.provisioning.state == state)
        });
        let waited = waited.await;
        waited.with_context(|| format!("host {name} does not become {state}"))
    }

    /// Returns the hosts of a namespace with their consumers, as `KIND NAMESPACE/NAME`, or an empty
    /// text.
    pub async fn consumers(&self, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let hosts: Api<BareMetalHost> = self.api(namespace);
        let hosts = hosts.list(&ListParams::default()).await?;
        let hosts = hosts.items.into_iter().map(|host| {
            let consumer = host.spec.consumer_ref.as_ref().map(|consumer| {
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                let (kind, namespace) = (text(&consumer.kind), text(&consumer.namespace));
                format!("{kind} {namespace}/{}", text(&consumer.name))
            });
            (host.name_any(), consumer.unwrap_or_default())
        });
        Ok(hosts.collect())
    }

    fn api_of(&self, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
        let types = object.types.as_ref().context("it has no kind")?;
        let kind = types.kind.to_lowercase();
        let plural = match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None if kind.ends_with('s') => format!("{kind}es"),
            None => format!("{kind}s"),
        };
        let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: types.api_version.clone(),
            kind: types.kind.clone(),
            plural,
        };
        Ok(match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }
}
