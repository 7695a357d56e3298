//! The watches that trigger reconciliations.
//!
//! For tenants' objects only metadata is watched, and none of it is cached. The namespace
//! determines the tenant, not a label: a tenant's administrator could write labels to keep the
//! operator busy with another tenant.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use insula_operator::queue::Trigger;
use insula_operator::spaces::client_for;
use insula_operator::watch::{ListMode, objects, parts};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DynamicObject, ListParams, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::context::Context;
use super::object::space_kind;
use crate::names::{AXON, AXON_ADMIN, MANAGED_BY, TenantId};
use crate::tenant::Tenant;

type Triggers = BoxStream<'static, Trigger>;

/// How often the operator checks whether spaces are served and may be watched.
const SPACES_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Returns all triggers.
pub(super) async fn triggers(context: Arc<Context>) -> Triggers {
    let lists = ListMode::of(&context.client).await;
    let tenants: Api<PartialObjectMeta<Tenant>> = Api::namespaced(context.client.clone(), AXON);
    let mut all: Vec<Triggers> = vec![objects(tenants, lists).boxed()];
    all.extend(tenant_objects(&context.client, lists, Origin::Local));
    all.push(offering_objects::<Role>(&context.client, lists));
    all.push(offering_objects::<RoleBinding>(&context.client, lists));
    all.push(space_objects(context, lists));
    stream::select_all(all).boxed()
}

/// Where an object of a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Local,
    /// In a space with the name of the tenant's namespace.
    Space,
}

fn tenant_objects(client: &Client, lists: ListMode, origin: Origin) -> Vec<Triggers> {
    vec![
        cluster_scoped::<Namespace>(client, lists, origin),
        namespaced::<ServiceAccount>(client, lists, origin),
        namespaced::<Secret>(client, lists, origin),
        namespaced::<Role>(client, lists, origin),
        namespaced::<RoleBinding>(client, lists, origin),
    ]
}

fn cluster_scoped<K>(client: &Client, lists: ListMode, origin: Origin) -> Triggers
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::all(client.clone());
    parts(api, managed(), lists, move |part| {
        trigger_of(part, &part.name_any(), origin)
    })
    .boxed()
}

fn namespaced<K>(client: &Client, lists: ListMode, origin: Origin) -> Triggers
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::all(client.clone());
    parts(api, managed(), lists, move |part| {
        trigger_of(part, &part.namespace().unwrap_or_default(), origin)
    })
    .boxed()
}

fn managed() -> Config {
    let (label, value) = MANAGED_BY;
    Config::default().labels(&format!("{label}={value}"))
}

/// Returns the trigger of the tenant that an object in this namespace belongs to.
fn trigger_of<K: Resource>(part: &K, namespace: &str, origin: Origin) -> Option<Trigger> {
    let id = TenantId::of_namespace(namespace)?;
    if origin == Origin::Space {
        // Any space can have a namespace of that name.
        let link = part.meta().self_link.as_deref().unwrap_or_default();
        if !link.contains(&format!("/tenants/{namespace}/")) {
            return None;
        }
    }
    Some(Trigger::Touched(id.as_str().into()))
}

/// Watches the role and binding of tenant managers, who have a role in every tenant's
/// namespace.
fn offering_objects<K>(client: &Client, lists: ListMode) -> Triggers
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), AXON);
    let only = Config::default().fields(&format!("metadata.name={AXON_ADMIN}"));
    parts(api, only, lists, |_| Some(Trigger::All)).boxed()
}

/// Watches tenants' spaces and the objects in them, once spaces are served and may be watched.
fn space_objects(context: Arc<Context>, lists: ListMode) -> Triggers {
    let watches = async move {
        wait_for_spaces(&context).await;
        let mut all = tenant_objects(&client_for(&context.client, "all"), lists, Origin::Space);
        all.push(spaces(&context.client, lists));
        stream::select_all(all)
    };
    stream::once(watches).flatten().boxed()
}

async fn wait_for_spaces(context: &Context) {
    loop {
        if let Ok(true) = context.serves_spaces().await {
            let spaces: Api<DynamicObject> = Api::all_with(context.client.clone(), &space_kind());
            if spaces
                .list_metadata(&ListParams::default().limit(1))
                .await
                .is_ok()
            {
                return;
            }
        }
        sleep(SPACES_CHECK_INTERVAL).await;
    }
}

/// Watches the spaces themselves.
fn spaces(client: &Client, lists: ListMode) -> Triggers {
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &space_kind());
    parts(api, managed(), lists, |space| {
        trigger_of(space, &space.name_any(), Origin::Local)
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::names::TENANT_LABEL;

    #[test]
    fn tenant_is_determined_by_namespace_and_in_spaces_by_path() {
        let touched = |id: &str| Some(Trigger::Touched(id.into()));
        let mine = "/api/v1/tenants/submariner-broker-a/namespaces/submariner-broker-a/secrets/s";
        let theirs = "/api/v1/tenants/evil/namespaces/submariner-broker-a/secrets/s";
        for (namespace, link, origin, expected) in [
            ("submariner-broker-a", None, Origin::Local, touched("a")),
            (
                "submariner-broker-a",
                Some(theirs),
                Origin::Local,
                touched("a"),
            ),
            ("default", None, Origin::Local, None),
            ("submariner-broker-", None, Origin::Local, None),
            (
                "submariner-broker-a",
                Some(mine),
                Origin::Space,
                touched("a"),
            ),
            ("submariner-broker-a", Some(theirs), Origin::Space, None),
            ("submariner-broker-a", None, Origin::Space, None),
        ] {
            let part = Secret {
                metadata: ObjectMeta {
                    self_link: link.map(str::to_owned),
                    labels: Some([(TENANT_LABEL.to_owned(), "b".to_owned())].into()),
                    ..ObjectMeta::default()
                },
                ..Secret::default()
            };
            assert_eq!(
                trigger_of(&part, namespace, origin),
                expected,
                "{namespace} {link:?}"
            );
        }
    }
}
