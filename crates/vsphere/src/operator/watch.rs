//! The watches that trigger reconciliations.
//!
//! Except for identities only metadata is watched, and only the keys of changed objects are kept.
//! The space of an object is taken from the path that the server reports, never from the object.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use insula_operator::queue::Trigger;
use insula_operator::spaces::client_for;
use insula_operator::watch::{Change, ListMode, Observed, keyed};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::commit::has_finalizer;
use super::context::{Context, Dependency, StaticCredentials};
use super::key::{Key, Kind};
use crate::capi;
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereFailureDomain,
    VSphereMachine, VSphereVM,
};
use crate::names::{CLUSTER_LABEL, SECRET_FINALIZER, WATCH_LABEL};

type Triggers = BoxStream<'static, Trigger>;
type Space = Option<Arc<str>>;

/// Returns all triggers as a stream. When the stream is dropped, the operator has stopped working,
/// and all sessions are released.
pub(super) async fn triggers(context: Arc<Context>) -> Triggers {
    let lists = ListMode::of(&context.client).await;
    let watches = Watches {
        client: match context.tenants {
            true => client_for(&context.client, "all"),
            false => context.client.clone(),
        },
        context: Arc::clone(&context),
        lists,
    };
    let mut all = watches.reconciled_kinds();
    all.extend(watches.dependency_kinds());
    all.push(key_triggers(context.sessions.wakeups()));
    all.push(key_triggers(Arc::clone(&context.requeue).keys()));
    all.push(static_credential_triggers(&context));
    let guard = ReleaseOnDrop(context);
    let all = stream::select_all(all).inspect(move |_| {
        // Moved into the closure, so that it is dropped with the stream.
        let _ = &guard;
    });
    all.boxed()
}

/// Releases everything when the stream of triggers is dropped.
struct ReleaseOnDrop(Arc<Context>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

fn key_triggers(names: impl Stream<Item = Arc<str>> + Send + 'static) -> Triggers {
    names.map(Trigger::Touched).boxed()
}

/// Returns triggers for changes of the static credentials.
fn static_credential_triggers(context: &Arc<Context>) -> Triggers {
    let mut receiver: watch::Receiver<Option<StaticCredentials>> =
        context.static_credentials.clone();
    receiver.mark_unchanged();
    let context = Arc::clone(context);
    stream::unfold((receiver, context), |(mut receiver, context)| async {
        if receiver.changed().await.is_err() {
            // The sender was dropped: there will be no more changes.
            return None;
        }
        let users = dependents(&context, &Dependency::StaticCredentials);
        Some((stream::iter(users), (receiver, context)))
    })
    .flatten()
    .boxed()
}

struct Watches {
    client: Client,
    context: Arc<Context>,
    lists: ListMode,
}

impl Watches {
    fn reconciled_kinds(&self) -> Vec<Triggers> {
        let mut all = vec![self.identities(), self.zones()];
        all.extend(self.namespaced::<VSphereCluster>(Kind::Cluster, cluster));
        all.extend(self.namespaced::<VSphereMachine>(Kind::Machine, machine));
        all.extend(self.namespaced::<VSphereVM>(Kind::Vm, vm));
        all.extend(self.secrets());
        all
    }

    fn dependency_kinds(&self) -> Vec<Triggers> {
        let mut all = vec![
            self.cluster_scoped_dependency::<Namespace>(|space, name| Dependency::Namespace {
                space,
                name,
            }),
            self.cluster_scoped_dependency::<VSphereFailureDomain>(|space, name| {
                Dependency::FailureDomain { space, name }
            }),
        ];
        all.extend(
            self.namespaced_dependency::<capi::Cluster>(|space, namespace, name| {
                let (space, name) = (space.clone(), name.to_owned());
                Dependency::Owner {
                    space,
                    namespace,
                    name,
                }
            }),
        );
        all.extend(
            self.namespaced_dependency::<capi::Machine>(|space, namespace, name| {
                let (space, name) = (space.clone(), name.to_owned());
                Dependency::Machine {
                    space,
                    namespace,
                    name,
                }
            }),
        );
        all
    }

    /// Identities are watched with their status: their users depend on whether they are usable, and
    /// not on how many users there are. They are read untyped, so that an invalid one does not
    /// break the watch.
    fn identities(&self) -> Triggers {
        let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
        let kind = ApiResource::erase::<VSphereClusterIdentity>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        let see = move |identity: &DynamicObject| Observed {
            name: cluster_scoped_key(&filtered, Kind::Identity, identity.meta()).text(),
            is_managed: is_assigned(&filtered, identity.meta()),
            digest: availability_hash(&identity.data["status"]),
        };
        let also = move |identity: &DynamicObject, news| {
            let key = cluster_scoped_key(&context, Kind::Identity, identity.meta());
            match news {
                Change::Written if is_assigned(&context, identity.meta()) => Vec::new(),
                _ => dependents(
                    &context,
                    &Dependency::Identity {
                        space: key.space,
                        name: key.name,
                    },
                ),
            }
        };
        keyed(api, Config::default(), self.lists, see, also).boxed()
    }

    fn zones(&self) -> Triggers {
        let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
        let api: Api<PartialObjectMeta<VSphereDeploymentZone>> = Api::all(self.client.clone());
        let see = move |zone: &PartialObjectMeta<_>| Observed {
            name: cluster_scoped_key(&filtered, Kind::Zone, &zone.metadata).text(),
            is_managed: is_assigned(&filtered, &zone.metadata),
            digest: 0,
        };
        let also = move |zone: &PartialObjectMeta<_>, _| {
            let space = space_of(&context, &zone.metadata);
            dependents(&context, &Dependency::Zones { space })
        };
        keyed(api, Config::default(), self.lists, see, also).boxed()
    }

    /// Watches a namespaced kind that is reconciled.
    fn namespaced<K>(
        &self,
        kind: Kind,
        also: fn(&Context, &Key, &ObjectMeta, Change) -> Vec<Trigger>,
    ) -> Vec<Triggers>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let config = match &self.context.watch_filter {
            Some(value) => Config::default().labels(&format!("{WATCH_LABEL}={value}")),
            None => Config::default(),
        };
        let watch = |api: Api<PartialObjectMeta<K>>| {
            let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
            let see = move |object: &PartialObjectMeta<K>| Observed {
                name: namespaced_key(&filtered, kind, &object.metadata).text(),
                is_managed: is_in_watched_namespace(&filtered, &object.metadata),
                digest: 0,
            };
            let also = move |object: &PartialObjectMeta<K>, news| {
                let key = namespaced_key(&context, kind, &object.metadata);
                also(&context, &key, &object.metadata, news)
            };
            keyed(api, config.clone(), self.lists, see, also).boxed()
        };
        self.namespaced_apis(&[]).into_iter().map(watch).collect()
    }

    /// Watches Secrets: claimed ones are reconciled, and all trigger the objects that depend on
    /// them.
    fn secrets(&self) -> Vec<Triggers> {
        let watch = |api: Api<PartialObjectMeta<Secret>>| {
            let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
            let see = move |secret: &PartialObjectMeta<Secret>| Observed {
                name: namespaced_key(&filtered, Kind::Secret, &secret.metadata).text(),
                is_managed: has_finalizer(secret, SECRET_FINALIZER),
                digest: 0,
            };
            let also = move |secret: &PartialObjectMeta<Secret>, _| {
                let key = namespaced_key(&context, Kind::Secret, &secret.metadata);
                let on = Dependency::Secret {
                    namespace: key.namespace_or_empty().to_owned(),
                    space: key.space,
                    name: key.name,
                };
                dependents(&context, &on)
            };
            keyed(api, Config::default(), self.lists, see, also).boxed()
        };
        let home = [self.context.operator_namespace.as_str()];
        self.namespaced_apis(&home).into_iter().map(watch).collect()
    }

    /// Watches a cluster-scoped kind that objects depend on.
    fn cluster_scoped_dependency<K>(&self, on: fn(Space, String) -> Dependency) -> Triggers
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(self.client.clone());
        let context = Arc::clone(&self.context);
        let dependents_of = move |metadata: &ObjectMeta| {
            let space = space_of(&context, metadata);
            dependents(
                &context,
                &on(space, metadata.name.clone().unwrap_or_default()),
            )
        };
        self.dependency_watch(api, dependents_of)
    }

    /// Watches a namespaced kind that objects depend on. A kind that is not defined does no harm:
    /// the watch starts when it is.
    fn namespaced_dependency<K>(&self, on: fn(&Space, String, &str) -> Dependency) -> Vec<Triggers>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let watch = |api: Api<PartialObjectMeta<K>>| {
            let context = Arc::clone(&self.context);
            let dependents_of = move |metadata: &ObjectMeta| {
                let space = space_of(&context, metadata);
                let namespace = metadata.namespace.clone().unwrap_or_default();
                let name = metadata.name.as_deref().unwrap_or_default();
                dependents(&context, &on(&space, namespace, name))
            };
            self.dependency_watch(api, dependents_of)
        };
        self.namespaced_apis(&[]).into_iter().map(watch).collect()
    }

    fn dependency_watch<K>(
        &self,
        api: Api<PartialObjectMeta<K>>,
        dependents_of: impl Fn(&ObjectMeta) -> Vec<Trigger> + Send + 'static,
    ) -> Triggers
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let see = |_: &PartialObjectMeta<K>| Observed {
            name: Arc::from(""),
            is_managed: false,
            digest: 0,
        };
        let also = move |part: &PartialObjectMeta<K>, _| dependents_of(&part.metadata);
        keyed(api, Config::default(), self.lists, see, also).boxed()
    }

    /// Returns the namespaces to watch: the configured ones and these, or all. In all spaces there
    /// is one watch, and other namespaces are filtered out.
    fn namespaced_apis<K>(&self, also: &[&str]) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let named = &self.context.namespaces;
        if named.is_empty() || self.context.tenants {
            return vec![Api::all(self.client.clone())];
        }
        let further = also.iter().filter(|place| !named.contains(**place));
        let places = named.iter().map(String::as_str).chain(further.copied());
        places
            .map(|place| Api::namespaced(self.client.clone(), place))
            .collect()
    }
}

/// Returns triggers for the objects that depend on this.
fn dependents(context: &Context, on: &Dependency) -> Vec<Trigger> {
    let names = context.depends.on(on).into_iter();
    names.map(Trigger::Touched).collect()
}

/// Triggers the machines of a cluster, and the Secrets that it claims or claimed.
fn cluster(context: &Context, key: &Key, _: &ObjectMeta, _: Change) -> Vec<Trigger> {
    let on = Dependency::VSphereCluster {
        space: key.space.clone(),
        namespace: key.namespace_or_empty().to_owned(),
        name: key.name.clone(),
    };
    dependents(context, &on)
}

/// Triggers the objects that depend on a machine, and its cluster when it is deleted.
fn machine(context: &Context, key: &Key, metadata: &ObjectMeta, news: Change) -> Vec<Trigger> {
    let on = Dependency::VSphereMachine {
        space: key.space.clone(),
        namespace: key.namespace_or_empty().to_owned(),
        name: key.name.clone(),
    };
    let mut triggers = dependents(context, &on);
    triggers.extend(member_deleted(context, key, metadata, news));
    triggers
}

/// Triggers the same for a virtual machine.
fn vm(context: &Context, key: &Key, metadata: &ObjectMeta, news: Change) -> Vec<Trigger> {
    let on = Dependency::VSphereVM {
        space: key.space.clone(),
        namespace: key.namespace_or_empty().to_owned(),
        name: key.name.clone(),
    };
    let mut triggers = dependents(context, &on);
    triggers.extend(member_deleted(context, key, metadata, news));
    triggers
}

fn member_deleted(
    context: &Context,
    key: &Key,
    metadata: &ObjectMeta,
    news: Change,
) -> Vec<Trigger> {
    let labels = metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(CLUSTER_LABEL)) {
        Some(cluster) if news == Change::Gone => {
            let on = Dependency::Members {
                space: key.space.clone(),
                namespace: key.namespace_or_empty().to_owned(),
                cluster: cluster.clone(),
            };
            dependents(context, &on)
        }
        _ => Vec::new(),
    }
}

/// Returns a hash that changes when the availability of an identity, or its reason, changes.
fn availability_hash(status: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    status["ready"].as_bool().hash(&mut hasher);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == "Available") {
        for key in ["status", "reason", "message"] {
            condition[key].as_str().hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn cluster_scoped_key(context: &Context, kind: Kind, metadata: &ObjectMeta) -> Key {
    let name = metadata.name.as_deref().unwrap_or_default();
    Key::cluster_scoped(kind, space_of(context, metadata), name)
}

fn namespaced_key(context: &Context, kind: Kind, metadata: &ObjectMeta) -> Key {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    Key::namespaced(kind, space_of(context, metadata), namespace, name)
}

/// Returns whether an object is in a configured namespace.
fn is_in_watched_namespace(context: &Context, metadata: &ObjectMeta) -> bool {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    context.namespaces.is_empty() || context.namespaces.contains(namespace)
}

/// Returns whether an object is assigned to this operator.
pub(super) fn is_assigned(context: &Context, metadata: &ObjectMeta) -> bool {
    let Some(wanted) = &context.watch_filter else {
        return true;
    };
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(WATCH_LABEL)) == Some(wanted)
}

/// Returns the space of an object.
fn space_of(context: &Context, metadata: &ObjectMeta) -> Space {
    match context.tenants {
        true => space_of_path(metadata.self_link.as_deref().unwrap_or_default()),
        false => None,
    }
}

/// Returns the space of a path: only the segments after the version count.
fn space_of_path(link: &str) -> Space {
    let mut segments = link.split('/').skip(1);
    let after = match segments.next()? {
        "api" => 1,
        "apis" => 2,
        _ => return None,
    };
    let mut segments = segments.skip(after);
    match (segments.next(), segments.next()) {
        (Some("tenants"), Some(space)) => Some(space.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn space_is_taken_from_the_path_only() {
        for (link, expected) in [
            ("/api/v1/tenants/acme/namespaces/a/secrets/s", Some("acme")),
            ("/api/v1/namespaces/tenants/secrets/acme", None),
            ("/api/v1/namespaces/tenants", None),
            ("/apis/g/v1/tenants/acme/namespaces/a/k/n", Some("acme")),
            ("/apis/g/v1/tenants/acme/k/n", Some("acme")),
            ("/apis/g/v1/namespaces/a/tenants/acme", None),
            ("/apis/tenants/acme/k/n", None),
            ("", None),
            ("/", None),
            ("tenants/acme", None),
        ] {
            assert_eq!(space_of_path(link).as_deref(), expected, "{link}");
        }
    }

    #[test]
    fn number_of_users_does_not_change_the_availability_hash() {
        let condition = |reason: &str| json!([{"type": "Available", "reason": reason}]);
        let before =
            availability_hash(&json!({"ready": true, "conditions": condition("Available")}));
        let others = json!({"ready": true, "users": 5, "conditions": condition("Available")});
        assert_eq!(availability_hash(&others), before);
        let unfit = json!({"ready": false, "conditions": condition("Available")});
        assert_ne!(availability_hash(&unfit), before);
        let otherwise = json!({"ready": true, "conditions": condition("Deleting")});
        assert_ne!(availability_hash(&otherwise), before);
        assert_ne!(availability_hash(&Value::Null), before);
    }
}
